//! The snapshots of a partition, each compared with the state the log gives there.

use std::collections::HashMap;
use std::ops::ControlFlow;

use serde::Serialize;

use crate::format::{NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, known};
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::report::partition_state::{
    PartitionState, StateOptions, log_start_offset, read_snapshot, snapshot_files, usable_snapshots,
};
use crate::state::{ProducerSnapshotRow, ProducerStateEntry, ProducerStateManager, recover_batch};

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
            let _ = recover_batch(&mut snapshots.manager, batch.header, marker, |_| {});
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
