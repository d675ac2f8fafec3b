//! What a log is in the end: `final` of `result.json`, without the list of files.

use serde::Serialize;

use super::result::LogState;
use crate::append::dry_run::known::{Aborted, LeaderEpoch};
use crate::append::error::Error;
use crate::append::files::Files;
use crate::append::partition_log::PartitionLog;
use crate::append::state_files::{list_snapshots, read_snapshot};
use crate::format::offset_index::OffsetIndexRows;
use crate::format::time_index::TimeIndexRows;
use crate::state::{ProducerStateEntry, TxnMetadata};

/// The log before the stop, and its files after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FinalReport {
    /// Offsets and segments; the recovery point is that after the stop.
    #[serde(flatten)]
    pub state: LogState,
    /// Up to where the producers are known.
    pub map_end_offset: i64,
    /// The producers by id.
    pub active_producers: Vec<Producer>,
    /// Open transactions.
    pub ongoing_transactions: Vec<Transaction>,
    /// Ended ones whose marker is not below the high watermark.
    pub unreplicated_transactions: Vec<Transaction>,
    /// Aborted ones.
    pub aborted_transactions: Vec<Aborted>,
    /// Leader epochs.
    pub leader_epochs: Vec<LeaderEpoch>,
    /// Segments and their indexes.
    pub segment_files: Vec<SegmentFile>,
    /// Snapshots with their entries in file order.
    pub producer_snapshots: Vec<Snapshot>,
}

/// A producer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Producer {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub coordinator_epoch: i32,
    pub last_timestamp: i64,
    pub current_txn_first_offset: Option<i64>,
    pub batch_metadata: Vec<Batch>,
}

/// A remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    pub first_seq: i32,
    pub last_seq: i32,
    pub first_offset: i64,
    pub last_offset: i64,
    pub offset_delta: i32,
    pub timestamp: i64,
}

/// A transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    pub producer_id: i64,
    pub first_offset: i64,
    pub last_offset: Option<i64>,
}

/// A segment with its indexes; offsets and positions are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SegmentFile {
    pub base_offset: i64,
    pub size_in_bytes: u64,
    pub offset_index: Vec<OffsetEntry>,
    pub time_index: Vec<TimeEntry>,
    pub transaction_index: Vec<Aborted>,
}

/// An entry of an offset index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetEntry {
    pub offset: i64,
    pub position: u64,
}

/// An entry of a time index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TimeEntry {
    pub timestamp: i64,
    pub offset: i64,
}

/// A producer snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    pub offset: i64,
    pub producers: Vec<Producer>,
}

fn producer(entry: &ProducerStateEntry) -> Producer {
    let batch_metadata = entry.batch_metadata().map(|batch| Batch {
        first_seq: batch.first_sequence(),
        last_seq: batch.last_sequence,
        first_offset: batch.first_offset(),
        last_offset: batch.last_offset,
        offset_delta: batch.offset_delta,
        timestamp: batch.timestamp,
    });
    Producer {
        producer_id: entry.producer_id(),
        producer_epoch: entry.producer_epoch(),
        coordinator_epoch: entry.coordinator_epoch(),
        last_timestamp: entry.last_timestamp(),
        current_txn_first_offset: entry.current_txn_first_offset(),
        batch_metadata: batch_metadata.collect(),
    }
}

fn transaction(txn: &TxnMetadata) -> Transaction {
    Transaction {
        producer_id: txn.producer_id,
        first_offset: txn.first_offset.message_offset,
        last_offset: txn.last_offset,
    }
}

impl FinalReport {
    /// What there is to say while the log is open.
    pub(super) fn open(log: &PartitionLog, state: LogState) -> Result<Self, Error> {
        let manager = log.producer_state();
        let mut active_producers: Vec<Producer> =
            manager.active_producers().map(producer).collect();
        active_producers.sort_by_key(|producer| producer.producer_id);
        // The transaction indexes of a log that was killed are closed, and look empty.
        let is_closed = log.log.is_closed();
        let rows = if is_closed {
            Vec::new()
        } else {
            log.collect_aborted_transactions(state.log_start_offset, state.log_end_offset)?
        };
        let mut segment_files = Vec::new();
        for segment in log.log.segments.values() {
            let rows = if is_closed {
                Vec::new()
            } else {
                segment.txn_index.rows()?
            };
            segment_files.push(SegmentFile {
                base_offset: segment.base_offset,
                size_in_bytes: 0,
                offset_index: Vec::new(),
                time_index: Vec::new(),
                transaction_index: rows.iter().map(Aborted::from).collect(),
            });
        }
        Ok(Self {
            map_end_offset: manager.map_end_offset(),
            active_producers,
            ongoing_transactions: manager.ongoing_txns().map(transaction).collect(),
            unreplicated_transactions: manager.unreplicated_txns().map(transaction).collect(),
            aborted_transactions: rows.iter().map(Aborted::from).collect(),
            leader_epochs: log.leader_epochs().map(LeaderEpoch::from).collect(),
            segment_files,
            producer_snapshots: Vec::new(),
            state,
        })
    }

    /// What the files say after the stop.
    pub(super) fn add_files(&mut self, log: &mut PartitionLog) -> Result<(), Error> {
        self.state.recovery_point = log.recovery_point();
        let files = self.segment_files.iter_mut();
        for (file, segment) in files.zip(log.log.segments.values_mut()) {
            let path = segment.path();
            let metadata = std::fs::metadata(path).map_err(|source| Error::io(path, source))?;
            file.size_in_bytes = metadata.len();
            let base_offset = file.base_offset;
            // An index that was never made is not made for the report. After a kill the file may
            // be another start's, which failed: as many of its entries count as there were.
            if let Some(index) = Files::Disk.view_if_there(segment.offset_index.path())? {
                let count = segment.offset_index.get()?.entries();
                let bytes = index.read_all()?;
                let slots = OffsetIndexRows::decode(&bytes).slots();
                let entries = slots.iter().take(count).map(|entry| OffsetEntry {
                    offset: entry.offset(base_offset),
                    position: u64::try_from(entry.position()).unwrap_or(0),
                });
                file.offset_index = entries.collect();
            }
            if let Some(index) = Files::Disk.view_if_there(segment.time_index.path())? {
                let count = segment.time_index.get()?.entries();
                let bytes = index.read_all()?;
                let slots = TimeIndexRows::decode(&bytes).slots();
                let entries = slots.iter().take(count).map(|entry| TimeEntry {
                    timestamp: entry.timestamp(),
                    offset: entry.offset(base_offset),
                });
                file.time_index = entries.collect();
            }
        }
        for offset in list_snapshots(&Files::Disk, log.dir())?.iter() {
            let rows = read_snapshot(&Files::Disk, log.dir(), offset)?.unwrap_or_default();
            let entries = rows.iter().map(ProducerStateEntry::from_snapshot_row);
            self.producer_snapshots.push(Snapshot {
                offset,
                producers: entries.map(|entry| producer(&entry)).collect(),
            });
        }
        Ok(())
    }
}
