//! What a broker knows of a log that is loaded, beside its producers: aborted transactions, leader
//! epochs.

use serde::Serialize;

use crate::format::aborted_txn::AbortedTxn;
use crate::format::leader_epoch_checkpoint::EpochEntry;

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
