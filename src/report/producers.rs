//! What the broker knows of each producer, what each snapshot says, and how many there are.

use std::collections::HashMap;
use std::ops::ControlFlow;

use serde::Serialize;

use super::partition_state::{
    PartitionState, StateOptions, log_start_offset, read_snapshot, snapshot_files, usable_snapshots,
};
use crate::format::{NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP};
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::state::{
    Expiration, ProducerSnapshotRow, ProducerStateEntry, ProducerStateManager, recover_batch,
};

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
    /// Sequence of its first record.
    pub first_seq: i32,
    /// Sequence of its last record.
    pub last_seq: i32,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Last offset less first offset.
    pub offset_delta: i32,
    /// Its largest timestamp in milliseconds; after a restart that of a later marker.
    pub timestamp: Option<i64>,
}

/// A snapshot file, and how it compares with the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRow {
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: String,
    /// The state is the one before this offset.
    pub offset: i64,
    /// Bytes of the file.
    pub size_in_bytes: u64,
    /// Producers in it; null if it cannot be read.
    pub producers: Option<u64>,
    /// Producers in it that the readable snapshot before it did not have.
    pub new_producers: Option<u64>,
    /// `loaded` (a broker loads this one), `kept`, `removed` (a broker that loads the log deletes
    /// it), `unreadable`.
    pub use_at_load: &'static str,
    /// Producers in it that a broker drops when it loads it: too old, and without an open
    /// transaction. Null without a clock.
    pub expired_producers: Option<Vec<i64>>,
    /// What is wrong with it, if it cannot be read.
    pub defect: Option<String>,
    /// How it differs from the state replayed from the snapshot before it, or from the log start;
    /// null if it cannot be compared.
    pub differences: Option<Vec<SnapshotDifference>>,
}

/// A producer of which snapshot and log say different things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotDifference {
    /// The producer.
    pub producer_id: i64,
    /// `only-in-snapshot`, `only-in-log` or `other-state`.
    pub kind: &'static str,
    /// What the snapshot says; null if it has no such producer.
    pub snapshot: Option<SnapshotState>,
    /// What the log says; null if it has no such producer.
    pub log: Option<SnapshotState>,
}

/// A producer as a snapshot has it; null where the snapshot has -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kafka's names, explained at ProducerRow")]
pub struct SnapshotState {
    pub producer_epoch: Option<i16>,
    pub last_sequence: Option<i32>,
    pub last_offset: Option<i64>,
    pub offset_delta: i32,
    pub timestamp: Option<i64>,
    pub coordinator_epoch: Option<i32>,
    pub current_txn_first_offset: Option<i64>,
}

/// The producers of one partition, counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StatisticsRow {
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Producers known.
    pub producers: u64,
    /// Producers with an open transaction.
    pub open_transactions: u64,
    /// Producers whose newest batch is the first of their epoch.
    pub one_batch_producers: u64,
    /// Producers known through a marker only.
    pub marker_only_producers: u64,
    /// The longest silent producer's last time, in milliseconds.
    pub oldest_timestamp: Option<i64>,
    /// The newest time of any producer, in milliseconds.
    pub newest_timestamp: Option<i64>,
    /// Producers by the time between these two, a minute.
    pub producers_per_minute: Option<f64>,
    /// Producers that a broker drops at load for their age; null without a clock.
    pub expired: Option<u64>,
    /// The snapshot the state was loaded from; null if it was replayed from the log start.
    pub snapshot_offset: Option<i64>,
    /// The readable snapshots, oldest first: how the number grew.
    pub growth: Vec<SnapshotGrowth>,
}

/// One snapshot's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotGrowth {
    /// The state is the one before this offset.
    pub offset: i64,
    /// Producers in it.
    pub producers: u64,
    /// Bytes of the file.
    pub size_in_bytes: u64,
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
    let last = entry.last_batch();
    ProducerRow {
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        producer_id: entry.producer_id(),
        producer_epoch: known(entry.producer_epoch(), NO_PRODUCER_EPOCH),
        coordinator_epoch: known(entry.coordinator_epoch(), -1),
        first_sequence: known(entry.first_sequence(), NO_SEQUENCE),
        last_sequence: known(entry.last_sequence(), NO_SEQUENCE),
        last_offset: last.map(|batch| batch.last_offset),
        last_timestamp: known(entry.last_timestamp(), NO_TIMESTAMP),
        current_txn_first_offset: entry.current_txn_first_offset(),
        batch_metadata: entry
            .batch_metadata()
            .map(|batch| BatchMetadataRow {
                first_seq: batch.first_sequence(),
                last_seq: batch.last_sequence,
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

/// Counts the producers of a state, and those of the snapshots beside it.
///
/// # Errors
/// If a snapshot cannot be read.
pub fn statistics(
    dir: &PartitionDir,
    state: &PartitionState,
    options: StateOptions,
    expiration: Option<Expiration>,
) -> Result<StatisticsRow, Error> {
    let mut row = StatisticsRow {
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        producers: state.manager.producer_id_count() as u64,
        open_transactions: 0,
        one_batch_producers: 0,
        marker_only_producers: 0,
        oldest_timestamp: None,
        newest_timestamp: None,
        producers_per_minute: None,
        expired: expiration.map(|_| 0),
        snapshot_offset: state.snapshot,
        growth: Vec::new(),
    };
    for entry in state.manager.active_producers() {
        row.count(entry, expiration);
    }
    if let (Some(oldest), Some(newest)) = (row.oldest_timestamp, row.newest_timestamp) {
        row.producers_per_minute = per_minute(row.producers, newest.saturating_sub(oldest));
    }
    for (offset, file) in snapshot_files(dir) {
        if let Some(Ok(rows)) = read_snapshot(dir, options.io, offset)? {
            let producers = rows.len() as u64;
            row.growth.push(SnapshotGrowth {
                offset,
                producers,
                size_in_bytes: file.size_in_bytes,
            });
        }
    }
    Ok(row)
}

impl StatisticsRow {
    fn count(&mut self, entry: &ProducerStateEntry, expiration: Option<Expiration>) {
        self.open_transactions += u64::from(entry.current_txn_first_offset().is_some());
        match entry.last_batch() {
            None => self.marker_only_producers += 1,
            Some(batch) => self.one_batch_producers += u64::from(batch.first_sequence() == 0),
        }
        if let Some(time) = known(entry.last_timestamp(), NO_TIMESTAMP) {
            self.oldest_timestamp = Some(self.oldest_timestamp.map_or(time, |it| it.min(time)));
            self.newest_timestamp = Some(self.newest_timestamp.map_or(time, |it| it.max(time)));
        }
        if let (Some(expired), Some(expiration)) = (&mut self.expired, expiration) {
            *expired += u64::from(expiration.is_expired(entry));
        }
    }
}

/// A rate with as many digits as it can bear.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_minute(count: u64, span_ms: i64) -> Option<f64> {
    if span_ms <= 0 {
        return None;
    }
    let rate = count as f64 * 60_000.0 / span_ms as f64;
    Some(if rate >= 10.0 {
        rate.round()
    } else {
        (rate * 100.0).round() / 100.0
    })
}

/// Compares every snapshot with the log: each with the state replayed from the readable snapshot
/// before it, or from the log start. Walks the whole log once.
///
/// # Errors
/// If a file cannot be read.
pub fn compare_snapshots(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
    state: &PartitionState,
) -> Result<Vec<SnapshotRow>, Error> {
    let Some(first) = dir.segments.first() else {
        return Ok(Vec::new());
    };
    let log_start_offset = log_start_offset(first.base_offset, checkpoints);
    let kept = usable_snapshots(dir, log_start_offset, state.log_end_offset);
    let mut snapshots = Snapshots {
        dir,
        options,
        pending: snapshot_files(dir).map(|(offset, _)| offset).collect(),
        manager: ProducerStateManager::default(),
        previous: HashMap::new(),
        kept,
        loaded: state.snapshot,
        rows: Vec::new(),
    };
    snapshots.pending.sort_unstable_by(|a, b| b.cmp(a));
    walk_partition(dir, options.io, 0, |_, entry| {
        if let Entry::Batch(batch) = entry {
            snapshots.compare_up_to(batch.header.last_offset())?;
            let marker = batch.marker()?;
            // A batch that would stop a broker is reported by the state, not here.
            let _ = recover_batch(&mut snapshots.manager, batch.header, marker);
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    snapshots.compare_up_to(i64::MAX)?;
    Ok(snapshots.rows)
}

struct Snapshots<'d> {
    dir: &'d PartitionDir,
    options: StateOptions,
    /// Offsets of the snapshots not reached yet, the next one last.
    pending: Vec<i64>,
    manager: ProducerStateManager,
    /// Producers of the readable snapshot before.
    previous: HashMap<i64, ()>,
    kept: Vec<i64>,
    loaded: Option<i64>,
    rows: Vec<SnapshotRow>,
}

impl Snapshots<'_> {
    /// Compares the snapshots whose state is complete before a batch that ends at `last_offset`.
    fn compare_up_to(&mut self, last_offset: i64) -> Result<(), Error> {
        while let Some(offset) = self.pending.pop_if(|offset| *offset <= last_offset) {
            self.compare(offset)?;
        }
        Ok(())
    }

    fn compare(&mut self, offset: i64) -> Result<(), Error> {
        let Some((_, file)) = snapshot_files(self.dir).find(|(it, _)| *it == offset) else {
            return Ok(());
        };
        let mut row = SnapshotRow {
            topic: self.dir.topic().map(str::to_owned),
            partition: self.dir.partition(),
            file: file.name().into_owned(),
            offset,
            size_in_bytes: file.size_in_bytes,
            producers: None,
            new_producers: None,
            use_at_load: self.use_at_load(offset),
            expired_producers: None,
            defect: None,
            differences: None,
        };
        match read_snapshot(self.dir, self.options.io, offset)? {
            None => return Ok(()),
            Some(Err(defect)) => {
                row.use_at_load = "unreadable";
                row.defect = Some(defect);
            }
            Some(Ok(rows)) => {
                row.producers = Some(rows.len() as u64);
                let is_new =
                    |it: &&ProducerSnapshotRow| !self.previous.contains_key(&it.producer_id);
                row.new_producers = Some(rows.iter().filter(is_new).count() as u64);
                row.differences = Some(differences(&rows, &self.manager));
                row.expired_producers = self.options.expiration.map(|expiration| {
                    let entries = rows.iter().map(ProducerStateEntry::from_snapshot_row);
                    let expired = entries.filter(|entry| expiration.is_expired(entry));
                    expired.map(|entry| entry.producer_id()).collect()
                });
                self.previous = rows.iter().map(|it| (it.producer_id, ())).collect();
                self.manager = ProducerStateManager::default();
                self.manager.load_from_snapshot(rows, offset, None);
            }
        }
        self.rows.push(row);
        Ok(())
    }

    fn use_at_load(&self, offset: i64) -> &'static str {
        if self.loaded == Some(offset) {
            "loaded"
        } else if self.kept.contains(&offset) {
            "kept"
        } else {
            "removed"
        }
    }
}

fn differences(
    rows: &[ProducerSnapshotRow],
    manager: &ProducerStateManager,
) -> Vec<SnapshotDifference> {
    let mut found = Vec::new();
    // As in Kafka, the later of two rows of one producer counts.
    let in_snapshot: HashMap<i64, &ProducerSnapshotRow> =
        rows.iter().map(|row| (row.producer_id, row)).collect();
    for row in in_snapshot.values() {
        let replayed = manager
            .last_entry(row.producer_id)
            .map(ProducerStateEntry::snapshot_row);
        match replayed {
            Some(replayed) if replayed == **row => {}
            Some(replayed) => found.push(SnapshotDifference {
                producer_id: row.producer_id,
                kind: "other-state",
                snapshot: Some(SnapshotState::from(*row)),
                log: Some(SnapshotState::from(&replayed)),
            }),
            None => found.push(SnapshotDifference {
                producer_id: row.producer_id,
                kind: "only-in-snapshot",
                snapshot: Some(SnapshotState::from(*row)),
                log: None,
            }),
        }
    }
    for entry in manager.active_producers() {
        if !in_snapshot.contains_key(&entry.producer_id()) {
            found.push(SnapshotDifference {
                producer_id: entry.producer_id(),
                kind: "only-in-log",
                snapshot: None,
                log: Some(SnapshotState::from(&entry.snapshot_row())),
            });
        }
    }
    found.sort_unstable_by_key(|difference| difference.producer_id);
    found
}

impl From<&ProducerSnapshotRow> for SnapshotState {
    fn from(row: &ProducerSnapshotRow) -> Self {
        Self {
            producer_epoch: known(row.producer_epoch, NO_PRODUCER_EPOCH),
            last_sequence: known(row.last_sequence, NO_SEQUENCE),
            last_offset: known(row.last_offset, -1),
            offset_delta: row.offset_delta,
            timestamp: known(row.timestamp, NO_TIMESTAMP),
            coordinator_epoch: known(row.coordinator_epoch, -1),
            current_txn_first_offset: known(row.current_txn_first_offset, -1),
        }
    }
}
