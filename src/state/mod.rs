//! The broker's rules about producers and transactions, as pure code.
//!
//! Knows batch headers and end-transaction markers; knows no files, does no I/O and has no clock.
//! It is the only home of these rules: what replays a log and what writes one call the same
//! functions, with Kafka's [`AppendOrigin`] as an argument.
//!
//! | question | module |
//! |---|---|
//! | may this batch be appended | [`append_check`], with the checks of one producer in [`producer_append_info`] |
//! | what is known of each producer | [`producer_state_manager`], [`producer_state_entry`]; as answers give it [`known_producer`] |
//! | which order has a snapshot | [`java_hash_map`] |
//! | which transactions are open, which rows go into `.txnindex` | [`transactions`] |
//! | where do the high watermark and the last stable offset stand | [`last_stable_offset`] |
//! | how does a log become state | [`replay`] one segment, [`rebuild`] a whole log |
//! | which leader epoch began where | [`leader_epochs`] |
//! | what a follower truncates | [`follower_truncation`] |
//! | which snapshots are kept | [`snapshot_offsets`] |
//! | which sequences are missing or stored twice | [`sequence_gaps`] |
//!
//! Names are those of `org.apache.kafka.storage.internals.log` in Kafka 4.3.1.

pub mod append_check;
pub mod append_origin;
pub mod follower_truncation;
pub mod java_hash_map;
mod java_tree_bin;
pub mod kafka_error;
pub mod known_producer;
pub mod last_stable_offset;
pub mod leader_epochs;
pub mod log_offset_metadata;
mod ongoing_txns;
pub mod producer_append_info;
pub mod producer_state_entry;
pub mod producer_state_manager;
pub mod rebuild;
pub mod refusal;
pub mod replay;
pub mod sequence_gaps;
pub mod snapshot_offsets;
pub mod transactions;
pub mod verification_state;

pub use append_check::{AppendCheck, ValidatedAppend, Verdict};
pub use append_origin::{AppendOrigin, TransactionVersion};
pub use follower_truncation::{FollowerTruncation, ReplicaLog, truncate_follower};
pub use java_hash_map::JavaHashMap;
pub use kafka_error::KafkaError;
pub use known_producer::{KnownBatch, KnownProducer};
pub use last_stable_offset::{LogOffsets, StableOffsets};
pub use leader_epochs::{EpochEndOffset, LeaderEpochs, NegativeEpochEntry};
pub use log_offset_metadata::LogOffsetMetadata;
pub use producer_append_info::ProducerAppendInfo;
pub use producer_state_entry::{BatchMetadata, ProducerSnapshotRow, ProducerStateEntry};
pub use producer_state_manager::{Expiration, ProducerStateManager};
pub use rebuild::{ProducerStateLog, rebuild_producer_state};
pub use refusal::Refusal;
pub use replay::{AbortedTxnRow, SegmentProducers, recover_batch};
pub use sequence_gaps::{MissingCause, OffsetsGone, SequenceFinding, SequenceGaps};
pub use snapshot_offsets::SnapshotOffsets;
pub use transactions::{CompletedTxn, TxnMetadata};
pub use verification_state::{VerificationGuard, VerificationStateEntry};
