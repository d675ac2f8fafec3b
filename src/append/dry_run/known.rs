//! What a broker knows of a log that is loaded: producers, aborted transactions, leader epochs.

use serde::Serialize;

use crate::format::NO_TIMESTAMP;
use crate::format::aborted_txn::AbortedTxn;
use crate::format::leader_epoch_checkpoint::EpochEntry;
use crate::state::{BatchMetadata, ProducerStateEntry};

/// A producer the broker knows, with the keys of `kseg producers`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Producer {
    /// Producer id.
    pub producer_id: i64,
    /// Its epoch; null if none is known.
    pub producer_epoch: Option<i16>,
    /// Epoch of the coordinator that wrote its last marker; null if none did.
    pub coordinator_epoch: Option<i32>,
    /// First sequence that is remembered; null if no batch is.
    pub first_sequence: Option<i32>,
    /// Last sequence.
    pub last_sequence: Option<i32>,
    /// Last offset of its last batch.
    pub last_offset: Option<i64>,
    /// Time of its last batch or marker in milliseconds.
    pub last_timestamp: Option<i64>,
    /// First offset of its open transaction.
    pub current_txn_first_offset: Option<i64>,
    /// The batches that are remembered, oldest first.
    pub batch_metadata: Vec<Batch>,
}

/// A remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// First sequence; null if it has none.
    pub first_seq: Option<i32>,
    /// Last sequence; null if it has none.
    pub last_seq: Option<i32>,
    /// First offset.
    pub first_offset: i64,
    /// Last offset.
    pub last_offset: i64,
    /// Last offset less the first.
    pub offset_delta: i32,
    /// Its largest timestamp; null if it has none.
    pub timestamp: Option<i64>,
}

impl From<&ProducerStateEntry> for Producer {
    fn from(entry: &ProducerStateEntry) -> Self {
        let last = entry.last_batch();
        let first = entry.batch_metadata().next();
        let sequences = |batch: Option<&BatchMetadata>| batch.and_then(BatchMetadata::sequences);
        let known = |value: i32| (value >= 0).then_some(value);
        Self {
            producer_id: entry.producer_id(),
            producer_epoch: Some(entry.producer_epoch()).filter(|it| *it >= 0),
            coordinator_epoch: known(entry.coordinator_epoch()),
            first_sequence: sequences(first).map(|(first, _)| first),
            last_sequence: sequences(last).map(|(_, last)| last),
            last_offset: last.map(|batch| batch.last_offset),
            last_timestamp: Some(entry.last_timestamp()).filter(|it| *it != NO_TIMESTAMP),
            current_txn_first_offset: entry.current_txn_first_offset(),
            batch_metadata: entry
                .batch_metadata()
                .map(|batch| Batch {
                    first_seq: batch.sequences().map(|(first, _)| first),
                    last_seq: batch.sequences().map(|(_, last)| last),
                    first_offset: batch.first_offset(),
                    last_offset: batch.last_offset,
                    offset_delta: batch.offset_delta,
                    timestamp: Some(batch.timestamp).filter(|it| *it != NO_TIMESTAMP),
                })
                .collect(),
        }
    }
}

/// A row of a transaction index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// Whose transaction.
    pub producer_id: i64,
    /// Offset of its first batch.
    pub first_offset: i64,
    /// Offset of its marker.
    pub last_offset: i64,
    /// The last stable offset when it ended.
    pub last_stable_offset: i64,
}

impl From<&AbortedTxn> for Aborted {
    fn from(row: &AbortedTxn) -> Self {
        Self {
            producer_id: row.producer_id(),
            first_offset: row.first_offset(),
            last_offset: row.last_offset(),
            last_stable_offset: row.last_stable_offset(),
        }
    }
}

/// A leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeaderEpoch {
    /// The epoch.
    pub epoch: i32,
    /// Its first offset.
    pub start_offset: i64,
}

impl From<EpochEntry> for LeaderEpoch {
    fn from(entry: EpochEntry) -> Self {
        Self {
            epoch: entry.epoch,
            start_offset: entry.start_offset,
        }
    }
}
