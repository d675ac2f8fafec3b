//! What the broker knows of each producer, what each snapshot says, and how many there are.

mod snapshots;
mod statistics;

use serde::Serialize;

use super::partition_state::PartitionState;
use crate::format::{NO_PRODUCER_EPOCH, NO_TIMESTAMP};
use crate::log::partition_dir::PartitionDir;
use crate::state::{BatchMetadata, ProducerStateEntry};

pub use snapshots::{SnapshotDifference, SnapshotRow, SnapshotState, compare_snapshots};
pub use statistics::{SnapshotGrowth, StatisticsRow, statistics};

/// One row of `producers`: a producer, or what was asked for in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ProducersRow {
    /// A producer.
    Producer(ProducerRow),
    /// A snapshot file (`--snapshots`).
    Snapshot(SnapshotRow),
    /// The producers of a partition counted (`--stats`).
    Statistics(StatisticsRow),
}

/// One producer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProducerRow {
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
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
    pub batch_metadata: Vec<BatchMetadataRow>,
    /// The sequence the next batch of this epoch must begin with; null if any is taken.
    pub next_sequence: Option<i32>,
    /// The snapshot the state was loaded from; null if it was replayed from the log start.
    pub snapshot_offset: Option<i64>,
    /// Whether the state is all a broker knew.
    pub complete: bool,
    /// Why it may not be.
    pub incomplete_reason: Option<String>,
}

/// A remembered batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchMetadataRow {
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

/// `None` for one of Kafka's marks for "not there".
fn known<T: PartialEq>(value: T, missing: T) -> Option<T> {
    (value != missing).then_some(value)
}

/// Hands out the producers of a state, by producer id.
///
/// # Errors
/// If `emit` fails.
pub fn producers<E>(
    dir: &PartitionDir,
    state: &PartitionState,
    wanted: impl Fn(i64) -> bool,
    mut emit: impl FnMut(ProducerRow) -> Result<(), E>,
) -> Result<(), E> {
    let mut entries: Vec<&ProducerStateEntry> = state
        .manager
        .active_producers()
        .filter(|entry| wanted(entry.producer_id()))
        .collect();
    entries.sort_unstable_by_key(|entry| entry.producer_id());
    for entry in entries {
        emit(producer_row(dir, state, entry))?;
    }
    Ok(())
}

fn producer_row(
    dir: &PartitionDir,
    state: &PartitionState,
    entry: &ProducerStateEntry,
) -> ProducerRow {
    let first = entry.batch_metadata().next();
    let last = entry.last_batch();
    ProducerRow {
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        producer_id: entry.producer_id(),
        producer_epoch: known(entry.producer_epoch(), NO_PRODUCER_EPOCH),
        coordinator_epoch: known(entry.coordinator_epoch(), -1),
        first_sequence: first.and_then(BatchMetadata::sequences).map(|it| it.0),
        last_sequence: last.and_then(BatchMetadata::sequences).map(|it| it.1),
        last_offset: last.map(|batch| batch.last_offset),
        last_timestamp: known(entry.last_timestamp(), NO_TIMESTAMP),
        current_txn_first_offset: entry.current_txn_first_offset(),
        batch_metadata: entry
            .batch_metadata()
            .map(|batch| BatchMetadataRow {
                first_seq: batch.sequences().map(|it| it.0),
                last_seq: batch.sequences().map(|it| it.1),
                first_offset: batch.first_offset(),
                last_offset: batch.last_offset,
                offset_delta: batch.offset_delta,
                timestamp: known(batch.timestamp, NO_TIMESTAMP),
            })
            .collect(),
        next_sequence: next_sequence(entry),
        snapshot_offset: state.snapshot,
        complete: state.incomplete.is_none(),
        incomplete_reason: state.incomplete.clone(),
    }
}

/// What `ProducerAppendInfo.checkSequence` takes next in the producer's epoch: one more than the
/// last, or 0 where a marker alone has brought the epoch.
fn next_sequence(entry: &ProducerStateEntry) -> Option<i32> {
    if entry.producer_epoch() == NO_PRODUCER_EPOCH {
        return None;
    }
    match entry.last_batch() {
        Some(batch) => Some(crate::format::record_batch::increment_sequence(
            batch.last_sequence,
            1,
        )),
        None => Some(0),
    }
}
