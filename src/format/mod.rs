//! Bytes to values and back: one module per on-disk format.
//!
//! Each module holds the layout, decoding, encoding and their tests together. Nothing here does
//! I/O, keeps state, or allocates by a length taken from the input. Values stay raw: an unknown
//! attribute or type survives decode and encode, and a missing value is Kafka's -1.
//!
//! Layouts are those of Kafka 4.3.1 with the older ones beside them.

pub mod aborted_txn;
pub mod base64;
pub mod checkpoint;
pub mod clean_shutdown;
pub mod compact;
pub mod compression;
pub mod control_record;
pub mod file_name;
pub mod internal_topic;
pub mod kafka_uuid;
pub mod kraft_control_record;
pub mod leader_epoch_checkpoint;
pub mod legacy_record;
pub mod legacy_record_set;
pub mod meta_properties;
pub mod metadata_frame;
pub mod offset_index;
pub mod partition_metadata;
pub mod producer_snapshot;
pub mod quorum_state;
pub mod record;
pub mod record_batch;
pub mod record_batch_builder;
pub mod record_batch_reader;
pub mod schema;
pub mod time_index;
pub mod topics_record;
pub mod varint;

mod index_rows;
mod sentinel;
pub(crate) mod text;

pub use index_rows::{IndexEntry, IndexRows};
pub(crate) use sentinel::known;
pub use sentinel::{
    NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP,
};
