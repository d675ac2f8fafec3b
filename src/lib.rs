//! Reads Apache Kafka log directories and answers as a broker would.
//!
//! The layers, each using only those to its right:
//!
//! ```text
//! report -> { state, log } -> format
//! append -> { state, log } -> format
//! ```
//!
//! - [`mod@format`]: bytes to values and back, one module per on-disk format. No I/O, no state.
//! - [`log`]: files. Memory maps, segments, partition directories, broker log directories.
//! - [`state`]: the rules of a broker about producers and transactions, as pure code.
//! - [`append`]: the write path of a broker; a partition log that is written byte for byte as
//!   Kafka writes it.
//! - [`report`]: one module per question, each folding a partition into rows that serialise.
//!
//! Names are Kafka's own in Rust case. An *offset* is a logical place in a partition, a
//! *position* a byte place in a file. The reference is Kafka 4.3.1.

pub mod append;
pub mod error;
pub mod format;
pub mod log;
pub mod report;
#[cfg(feature = "schema")]
pub mod schemas;
pub mod state;

pub use error::{DecodeError, DecodeErrorKind};
