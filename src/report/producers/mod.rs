//! What the broker knows of each producer, what each snapshot says, and how many there are.

mod snapshots;
mod statistics;

use serde::Serialize;

use super::partition_state::PartitionState;
use crate::format::NO_PRODUCER_EPOCH;
use crate::log::partition_dir::PartitionDir;
use crate::state::{KnownProducer, ProducerStateEntry};

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
    /// What the broker knows.
    #[serde(flatten)]
    pub known: KnownProducer,
    /// The sequence the next batch of this epoch must begin with; null if any is taken.
    pub next_sequence: Option<i32>,
    /// The snapshot the state was loaded from; null if it was replayed from the log start.
    pub snapshot_offset: Option<i64>,
    /// Whether the state is all a broker knew.
    pub complete: bool,
    /// Why it may not be.
    pub incomplete_reason: Option<String>,
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
    ProducerRow {
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        known: KnownProducer::from(entry),
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
