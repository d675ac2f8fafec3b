//! Bytes to values and back: one module per on-disk format.
//!
//! Each module holds the layout, decoding, encoding and their tests together. Nothing here does
//! I/O, keeps state, or allocates by a length taken from the input. Values stay raw: an unknown
//! attribute or type survives decode and encode, and a missing value is Kafka's -1.
//!
//! Layouts are those of Kafka 4.3.1 with the older ones beside them.

pub mod compression;
pub mod control_record;
pub mod record;
pub mod record_batch;
pub mod varint;

mod sentinel;

pub use sentinel::{
    NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP,
};
