//! What a broker knows of a partition's producers: the state as it loads it, or as the log alone
//! tells it.
//!
//! Loading takes the newest usable snapshot and the batches behind it
//! (`UnifiedLog.rebuildProducerState`); nothing is deleted or written here. A batch that would
//! stop a broker is noted and passed over.

mod clean_start;
mod dir_offsets;
mod loaded;

use std::collections::HashMap;

use self::clean_start::{forgets_producers, segment_base_offsets};
use self::dir_offsets::DirOffsets;
use self::loaded::Loaded;
use crate::format::file_name::{FileState, LogFileKind};
use crate::format::producer_snapshot::ProducerSnapshot;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::{FileEntry, PartitionDir, SegmentFiles};
use crate::log::{Error, Io};
use crate::state::{
    Expiration, LogOffsetMetadata, ProducerSnapshotRow, ProducerStateManager, Refusal,
    SnapshotOffsets, StableOffsets,
};

/// How state is built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateOptions {
    /// How files are read.
    pub io: Io,
    /// Use no snapshot: replay from the log's first batch.
    pub from_scratch: bool,
    /// The state after all batches below this offset, instead of at the log end.
    pub at_offset: Option<i64>,
    /// Leave out producers of the snapshot that are too old by this clock; without it none is.
    pub expiration: Option<Expiration>,
    /// The high watermark, where the user knows better than the checkpoint.
    pub high_watermark: Option<i64>,
}

impl StateOptions {
    /// The high watermark that is known.
    fn high_watermark_or(&self, checkpoints: CheckpointedOffsets) -> Option<i64> {
        self.high_watermark.or(checkpoints.high_watermark)
    }
}

/// Where the high watermark comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighWatermarkSource {
    /// `replication-offset-checkpoint`, which may be stale.
    Checkpoint,
    /// The user.
    Given,
    /// Nowhere: taken to be the log end.
    Assumed,
}

impl HighWatermarkSource {
    /// The word used in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Given => "given",
            Self::Assumed => "assumed",
        }
    }
}

/// A snapshot a broker would not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableSnapshot {
    /// Its offset.
    pub offset: i64,
    /// What is wrong with it.
    pub reason: String,
}

/// A batch that would stop a broker that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedBatch {
    /// Base offset of the batch.
    pub base_offset: i64,
    /// The rule it breaks.
    pub refusal: Refusal,
}

/// The state of one partition.
#[derive(Clone, Debug)]
pub struct PartitionState {
    /// Producers and transactions.
    pub manager: ProducerStateManager,
    /// Where the log starts.
    pub log_start_offset: i64,
    /// The offset after the last batch, or the offset asked for if that is lower.
    pub log_end_offset: i64,
    /// High watermark, first unstable and last stable offset.
    pub offsets: StableOffsets,
    /// Where the high watermark comes from.
    pub high_watermark_source: HighWatermarkSource,
    /// The snapshot the state was loaded from; `None` if it was replayed from the log start.
    pub snapshot: Option<i64>,
    /// Newer snapshots that are not readable as such.
    pub unusable_snapshots: Vec<UnusableSnapshot>,
    /// Batches that would stop a broker.
    pub refused: Vec<RefusedBatch>,
    /// The offset from which on the batches that were read lack nothing, up to the log end; `None`
    /// if that is not known.
    pub whole_from: Option<i64>,
    /// Why the state may not be all a broker knew; `None` if it is complete.
    pub incomplete: Option<String>,
    /// Whether the next start forgets all of it, producers and open transactions: the mark of a
    /// clean stop is there and no snapshot, and a broker then replays nothing. Not told of a state
    /// that was asked for otherwise than as a broker loads it.
    pub is_forgotten_at_start: bool,
}

/// Loads the state of a partition; `None` if the directory has no segment.
///
/// # Errors
/// If a file cannot be read.
pub fn load_partition_state(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
) -> Result<Option<PartitionState>, Error> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let log_start_offset = log_start_offset(first.base_offset, checkpoints);
    let known = options.high_watermark_or(checkpoints);
    let limit = options.at_offset.unwrap_or(i64::MAX);
    let (mut loaded, mut log_end_offset) =
        Loaded::up_to(limit, dir, log_start_offset, known, options)?;
    // A log that was cut: a broker deletes snapshots above the log end and takes an older one.
    if loaded.snapshot.is_some_and(|it| it > log_end_offset) {
        (loaded, log_end_offset) =
            Loaded::up_to(log_end_offset, dir, log_start_offset, known, options)?;
    }
    if log_end_offset == log_start_offset && !options.from_scratch && loaded.snapshot.is_none() {
        loaded.take_snapshot_of_emptied_log(dir, log_start_offset, options)?;
    }
    finish(dir, checkpoints, options, loaded, log_end_offset).map(Some)
}

/// The state that says where consumers stop: as a broker loads it, or, from scratch, as the `.log`
/// files alone give it.
///
/// # Errors
/// If a file cannot be read.
pub fn stable_partition_state(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
) -> Result<Option<PartitionState>, Error> {
    if options.from_scratch {
        recovered_partition_state(dir, checkpoints, options)
    } else {
        load_partition_state(dir, checkpoints, options)
    }
}

/// The state that the `.log` files alone give a broker which recovers all of them, as after an
/// unclean stop without snapshots; `None` if the directory has no segment. Recovery reads whole
/// segments (`LogLoader.recoverSegment`): a transaction whose batches lie below the log start, in
/// the segment that holds it, is open there, where a replay from the log start passes it over.
///
/// # Errors
/// If a file cannot be read.
pub fn recovered_partition_state(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
) -> Result<Option<PartitionState>, Error> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let log_start_offset = log_start_offset(first.base_offset, checkpoints);
    let known = options.high_watermark_or(checkpoints);
    let mut loaded = Loaded::default();
    let from = segment_of(dir, log_start_offset).map_or(log_start_offset, |it| it.base_offset);
    loaded.manager.load_without_snapshot(from);
    let log_end_offset = loaded.replay(from, dir, log_start_offset, known, options)?;
    finish(dir, checkpoints, options, loaded, log_end_offset).map(Some)
}

/// The segment that holds an offset, or would.
fn segment_of(dir: &PartitionDir, offset: i64) -> Option<&SegmentFiles> {
    let below = dir
        .segments
        .partition_point(|segment| segment.base_offset <= offset);
    dir.segments.get(below.checked_sub(1)?)
}

/// The state of a partition whose batches have been taken in already, from its log start to
/// `log_end_offset` and without a snapshot; `None` if the directory has no segment. `known` has the
/// places of batches by their base offset, those that are known.
///
/// # Errors
/// If a file cannot be read.
pub fn replayed_partition_state(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
    manager: ProducerStateManager,
    log_end_offset: i64,
    known: HashMap<i64, LogOffsetMetadata>,
) -> Result<Option<PartitionState>, Error> {
    if dir.segments.is_empty() {
        return Ok(None);
    }
    let loaded = Loaded {
        manager,
        known,
        ..Loaded::default()
    };
    finish(dir, checkpoints, options, loaded, log_end_offset).map(Some)
}

/// Finds the stable offsets of a state that has been loaded.
fn finish(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
    loaded: Loaded,
    log_end_offset: i64,
) -> Result<PartitionState, Error> {
    let first_base_offset = dir.segments.first().map_or(0, |first| first.base_offset);
    let log_start_offset = log_start_offset(first_base_offset, checkpoints);
    let incomplete = incomplete(&loaded, log_start_offset);
    let is_as_loaded = !options.from_scratch && options.at_offset.is_none();
    let is_forgotten_at_start =
        is_as_loaded && loaded.manager.producer_id_count() > 0 && forgets_producers(dir);
    let mut manager = loaded.manager;
    manager.update_map_end_offset(log_end_offset);

    let log = DirOffsets::new(dir, options.io, log_end_offset, loaded.known);
    let mut offsets = StableOffsets::new(log_start_offset, &manager, &log);
    let (high_watermark, high_watermark_source) =
        match (options.high_watermark, checkpoints.high_watermark) {
            (Some(given), _) => (given, HighWatermarkSource::Given),
            (None, Some(checkpoint)) => (checkpoint, HighWatermarkSource::Checkpoint),
            (None, None) => (log_end_offset, HighWatermarkSource::Assumed),
        };
    let high_watermark = LogOffsetMetadata::offset_only(high_watermark.max(0));
    // Refuses only a negative high watermark.
    let _ = offsets.update_high_watermark(high_watermark, &mut manager, &log);
    log.finish()?;
    Ok(PartitionState {
        manager,
        log_start_offset,
        log_end_offset,
        offsets,
        high_watermark_source,
        snapshot: loaded.snapshot,
        unusable_snapshots: loaded.unusable,
        refused: loaded.refused,
        whole_from: loaded.whole_from,
        incomplete,
        is_forgotten_at_start,
    })
}

/// `LogLoader.load`: the checkpoint counts if it lies above the first segment's base offset.
#[must_use]
pub fn log_start_offset(first_base_offset: i64, checkpoints: CheckpointedOffsets) -> i64 {
    let checkpoint = checkpoints.log_start_offset;
    checkpoint.map_or(first_base_offset, |it| it.max(first_base_offset))
}

fn incomplete(loaded: &Loaded, log_start_offset: i64) -> Option<String> {
    (loaded.snapshot.is_none() && log_start_offset > 0).then(|| {
        format!(
            "the log begins at {log_start_offset} and no snapshot was used: what producers wrote \
             before that is not known"
        )
    })
}

/// Offsets of the snapshots a broker that loads the log keeps, ascending
/// (`ProducerStateManager.removeStraySnapshots`, `truncateAndReload`).
#[must_use]
pub fn usable_snapshots(dir: &PartitionDir, log_start_offset: i64, end: i64) -> Vec<i64> {
    let mut snapshots: SnapshotOffsets = snapshot_files(dir).map(|(offset, _)| offset).collect();
    snapshots.remove_stray(&segment_base_offsets(dir));
    snapshots.remove_out_of_range(log_start_offset, end);
    snapshots.iter().collect()
}

/// The snapshot files in use, by offset.
pub fn snapshot_files(dir: &PartitionDir) -> impl Iterator<Item = (i64, &FileEntry)> {
    dir.files
        .iter()
        .filter_map(|file| match (&file.parsed.kind, file.parsed.state) {
            (LogFileKind::ProducerSnapshot(offset), FileState::Live) => Some((*offset, file)),
            _ => None,
        })
}

/// The rows of the snapshot at `offset`; `None` if it is not there (any more), the inner error
/// if it is not readable as one.
///
/// # Errors
/// If the file cannot be read.
pub fn read_snapshot(
    dir: &PartitionDir,
    io: Io,
    offset: i64,
) -> Result<Option<Result<Vec<ProducerSnapshotRow>, String>>, Error> {
    let Some((_, file)) = snapshot_files(dir).find(|(it, _)| *it == offset) else {
        return Ok(None);
    };
    let mut settling = dir.settling_of(file);
    loop {
        let Some(file) = dir.open_file(file, io)? else {
            return Ok(None);
        };
        let bytes = file.read_all()?;
        let rows = match ProducerSnapshot::decode(&bytes) {
            Ok(snapshot) => Ok(snapshot
                .entries()
                .iter()
                .map(ProducerSnapshotRow::from)
                .collect()),
            // A broker writes it in place (`ProducerStateManager.writeSnapshot`).
            Err(_) if settling.wait() => continue,
            Err(error) => Err(error.to_string()),
        };
        file.check_unchanged()?;
        return Ok(Some(rows));
    }
}
