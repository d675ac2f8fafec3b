//! What a broker knows of a producer, as answers give it: nothing in place of Kafka's -1.

use serde::Serialize;

use super::producer_state_entry::{BatchMetadata, ProducerStateEntry};
use crate::format::{NO_PRODUCER_EPOCH, NO_TIMESTAMP, known};

/// A producer of the producer state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KnownProducer {
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch; null where only an emptied control batch is left of the producer.
    pub producer_epoch: Option<i16>,
    /// Coordinator epoch of the last marker; null if there was none.
    pub coordinator_epoch: Option<i32>,
    /// First sequence of the oldest remembered batch; null if none is known.
    pub first_sequence: Option<i32>,
    /// Last sequence of the newest remembered batch; null if none is known.
    pub last_sequence: Option<i32>,
    /// Last offset of the newest remembered batch; null if none is known.
    pub last_offset: Option<i64>,
    /// Time of the last batch or marker, in milliseconds.
    pub last_timestamp: Option<i64>,
    /// First offset of the open transaction; null if none is open.
    pub current_txn_first_offset: Option<i64>,
    /// The remembered batches, oldest first.
    pub batch_metadata: Vec<KnownBatch>,
}

/// A remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KnownBatch {
    /// Sequence of its first record; null in a marker that Kafka 0.11 kept as a batch.
    pub first_seq: Option<i32>,
    /// Sequence of its last record; null in such a marker.
    pub last_seq: Option<i32>,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Last offset less first offset.
    pub offset_delta: i32,
    /// Its largest timestamp in milliseconds; after a restart that of a later marker.
    pub timestamp: Option<i64>,
}

impl From<&ProducerStateEntry> for KnownProducer {
    fn from(entry: &ProducerStateEntry) -> Self {
        let first = entry.batch_metadata().next();
        let last = entry.last_batch();
        Self {
            producer_id: entry.producer_id(),
            producer_epoch: known(entry.producer_epoch(), NO_PRODUCER_EPOCH),
            coordinator_epoch: known(entry.coordinator_epoch(), -1),
            first_sequence: first.and_then(BatchMetadata::sequences).map(|it| it.0),
            last_sequence: last.and_then(BatchMetadata::sequences).map(|it| it.1),
            last_offset: last.map(|batch| batch.last_offset),
            last_timestamp: known(entry.last_timestamp(), NO_TIMESTAMP),
            current_txn_first_offset: entry.current_txn_first_offset(),
            batch_metadata: entry.batch_metadata().map(KnownBatch::from).collect(),
        }
    }
}

impl From<&BatchMetadata> for KnownBatch {
    fn from(batch: &BatchMetadata) -> Self {
        Self {
            first_seq: batch.sequences().map(|it| it.0),
            last_seq: batch.sequences().map(|it| it.1),
            first_offset: batch.first_offset(),
            last_offset: batch.last_offset,
            offset_delta: batch.offset_delta,
            timestamp: known(batch.timestamp, NO_TIMESTAMP),
        }
    }
}
