//! The side files of a partition made again from its `.log` files, as Kafka's recovery makes them
//! when a broker starts unclean from recovery point 0 (`LogLoader.recoverLog`,
//! `LogSegment.recover`).
//!
//! Makes contents and writes nothing: where they go is the caller's. Segment by segment the state
//! before it is loaded from the snapshot the segment before it ended with, so the order of entries
//! is Kafka's too; then every batch is checked and taken in. At the first one that recovery would
//! cut off, the log ends.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, RangeBounds};

use serde::Serialize;

use super::partition_state::{log_start_offset, read_snapshot, snapshot_files};
use crate::format::NO_TIMESTAMP;
use crate::format::aborted_txn::{self, AbortedTxn, AbortedTxnFields};
use crate::format::file_name::LogFileKind;
use crate::format::offset_index::{self, OffsetIndexEntry};
use crate::format::producer_snapshot::{self, ProducerSnapshotEntry};
use crate::format::record_batch::{HEADER_SIZE, MAGIC_V2, RecordBatchHeader};
use crate::format::time_index::{self, TimeIndexEntry};
use crate::log::batches::{Batch, BatchWalk, Entry, LegacyEntry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::damage::{Damage, DamageKind};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::partition_walk::open_segment;
use crate::log::segment_indexer::{IndexError, IndexedBatch, SegmentIndexer};
use crate::log::{Error, Io};
use crate::state::rebuild::{BatchVisitor, Rebuild};
use crate::state::{
    AbortedTxnRow, Expiration, ProducerSnapshotRow, ProducerStateLog, ProducerStateManager,
    Refusal, SnapshotOffsets, rebuild_producer_state, recover_batch,
};

/// The kinds of side files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SideFileKind {
    /// `.index`.
    Index,
    /// `.timeindex`.
    TimeIndex,
    /// `.txnindex`.
    TxnIndex,
    /// `.snapshot`.
    Snapshot,
}

impl SideFileKind {
    /// All of them, in the order in which a segment's are made.
    pub const ALL: [Self; 4] = [Self::Index, Self::TimeIndex, Self::TxnIndex, Self::Snapshot];

    /// The name of such a file.
    #[must_use]
    pub fn file_name(self, offset: i64) -> String {
        let kind = match self {
            Self::Index => LogFileKind::OffsetIndex(offset),
            Self::TimeIndex => LogFileKind::TimeIndex(offset),
            Self::TxnIndex => LogFileKind::TransactionIndex(offset),
            Self::Snapshot => LogFileKind::ProducerSnapshot(offset),
        };
        kind.to_string()
    }
}

/// Which snapshots are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotsAt {
    /// At the base offset of each segment above the log start, and at the log end: those that a
    /// broker has after recovery and a clean stop.
    BasesAndEnd,
    /// At the base offsets alone.
    Bases,
    /// At the log end alone.
    End,
    /// One, of the state after all batches below this offset.
    Offset(i64),
}

/// What is made, and how.
#[derive(Clone, Copy, Debug)]
pub struct RebuildOptions {
    /// How files are read.
    pub io: Io,
    /// Whether a snapshot at the beginning of the log is left alone, which tells of producers whose
    /// batches are gone.
    pub from_scratch: bool,
    /// Leave out producers of a snapshot that are too old by this clock; without it none is.
    pub expiration: Option<Expiration>,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// Which snapshots are made.
    pub snapshots_at: SnapshotsAt,
}

/// A file as it should be.
#[derive(Clone, Copy, Debug)]
pub struct RebuiltFile<'a> {
    /// What it is.
    pub kind: SideFileKind,
    /// The offset its name has.
    pub offset: i64,
    /// Its content.
    pub bytes: &'a [u8],
    /// How many rows it holds.
    pub rows: u64,
}

/// Where recovery ends the log before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// `bad-crc`, `torn-tail` and the other kinds of damage, `unreadable-marker`,
    /// `offset-overflow`, `index-order`, or `refused-batch`.
    pub kind: &'static str,
    /// The `.log`.
    pub file: String,
    /// Where the bytes begin that recovery does not keep.
    pub position: u64,
    /// Base offset of the batch there; null if it cannot be read.
    pub offset: Option<i64>,
    /// What is wrong with it.
    pub message: String,
}

/// How far the log of a partition reached.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Where the log starts.
    pub log_start_offset: i64,
    /// The offset after the last batch that recovery keeps.
    pub log_end_offset: i64,
    /// Where it stopped; `None` if it came to the end of the log.
    pub stop: Option<Stop>,
    /// Segments that vanished while the partition was read.
    pub vanished: Vec<i64>,
}

/// Makes the side files of a partition and gives them to `file`, each kind in the order of
/// offsets; `None` if the directory has no segment.
///
/// # Errors
/// If a file cannot be read, or `file` fails.
pub fn rebuild<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: RebuildOptions,
    file: impl FnMut(RebuiltFile<'_>) -> Result<(), E>,
) -> Result<Option<Rebuilt>, E> {
    dir.unless_cut(recover_log(dir, checkpoints, options, file))
}

fn recover_log<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: RebuildOptions,
    file: impl FnMut(RebuiltFile<'_>) -> Result<(), E>,
) -> Result<Option<Rebuilt>, E> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let mut recovery = Recovery {
        log: RecoveredLog::new(dir, options),
        checkpointed_log_start: checkpoints.log_start_offset.unwrap_or(0),
        log_start_offset: log_start_offset(first.base_offset, checkpoints),
        log_end_offset: first.base_offset,
        options,
        has_more: false,
        last_state: None,
        stop: None,
        vanished: Vec::new(),
        give: file,
    };
    for segment in &dir.segments {
        let wanted = match options.snapshots_at {
            SnapshotsAt::Offset(offset) => segment == first || segment.base_offset < offset,
            SnapshotsAt::BasesAndEnd | SnapshotsAt::Bases | SnapshotsAt::End => true,
        };
        if !wanted || recovery.segment(segment)?.is_break() {
            break;
        }
    }
    recovery.finish().map(Some)
}

/// Recovery of one partition (`LogLoader.recoverLog`).
struct Recovery<'d, G> {
    log: RecoveredLog<'d>,
    /// The log start offset as recovery of a segment knows it, below the first base offset too.
    checkpointed_log_start: i64,
    log_start_offset: i64,
    log_end_offset: i64,
    options: RebuildOptions,
    /// Whether the log goes on behind the offset asked for.
    has_more: bool,
    /// The state at the end of the last segment, where a snapshot is asked for by its offset.
    last_state: Option<ProducerStateManager>,
    stop: Option<Stop>,
    vanished: Vec<i64>,
    give: G,
}

impl<G> Recovery<'_, G> {
    /// `LogLoader.recoverSegment`.
    fn segment<E: From<Error>>(&mut self, segment: &SegmentFiles) -> Result<ControlFlow<()>, E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        let base_offset = segment.base_offset;
        let Some(opened) = open_segment(self.log.dir, segment, self.options.io)? else {
            self.vanished.push(base_offset);
            self.log.bases.retain(|base| *base != base_offset);
            return Ok(ControlFlow::Continue(()));
        };
        let mut manager = match self.state_at(base_offset, self.checkpointed_log_start)? {
            Ok(manager) => manager,
            Err(refusal) => {
                self.refuse(opened.name, base_offset, &refusal);
                return Ok(ControlFlow::Break(()));
            }
        };
        let mut recovered = RecoveredSegment::new(base_offset, self.options);
        let end = recovered.walk(&opened.file, &mut manager)?;
        if let Some(End::WholeSegment(_)) = end {
            // The segment is cut to nothing, and what was read of it is never used.
            recovered = RecoveredSegment::new(base_offset, self.options);
        } else {
            if let Some(offset) = manager.take_snapshot() {
                self.log.write(offset, &manager);
            }
            if let SnapshotsAt::Offset(_) = self.options.snapshots_at {
                self.last_state = Some(manager);
            }
        }
        self.log_end_offset = recovered.next_offset;
        self.log.recovered.push(recovered.extent);
        self.give_indexes(&recovered, segment.txn_index.is_some())?;
        let Some(end) = end else {
            return Ok(ControlFlow::Continue(()));
        };
        self.has_more = matches!(end, End::OffsetAskedFor);
        self.log.bases.retain(|base| *base <= base_offset);
        self.stop = end.into_stop(opened.name);
        Ok(ControlFlow::Break(()))
    }

    /// A new producer state up to `offset`, from the newest snapshot at or below it.
    fn state_at(
        &mut self,
        offset: i64,
        log_start_offset: i64,
    ) -> Result<Result<ProducerStateManager, Refusal>, Error> {
        let mut manager = ProducerStateManager::new(self.log.snapshots.clone());
        let rebuild = Rebuild {
            log_start_offset,
            last_offset: offset,
            reload_from_clean_shutdown: false,
            expiration: self.options.expiration,
        };
        match rebuild_producer_state(&mut manager, &mut self.log, &rebuild) {
            Ok(()) => Ok(Ok(manager)),
            Err(Failure::Log(error)) => Err(error),
            Err(Failure::Refused(refusal)) => Ok(Err(refusal)),
        }
    }

    /// Batches that recovery took do not fit when they are read again, which only offsets that go
    /// backwards bring about. A broker stops there.
    fn refuse(&mut self, file: String, offset: i64, refusal: &Refusal) {
        self.log.bases.retain(|base| *base < offset);
        let stop = stop("refused-batch", 0, Some(offset), refusal.to_string());
        self.stop = Some(Stop { file, ..stop });
    }

    fn give_indexes<E>(&mut self, segment: &RecoveredSegment, had_txn_index: bool) -> Result<(), E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        if let SnapshotsAt::Offset(_) = self.options.snapshots_at {
            return Ok(());
        }
        let offset = segment.extent.base_offset;
        (self.give)(RebuiltFile {
            kind: SideFileKind::Index,
            offset,
            bytes: &offset_index::encode(&segment.offset_index),
            rows: segment.offset_index.len() as u64,
        })?;
        (self.give)(RebuiltFile {
            kind: SideFileKind::TimeIndex,
            offset,
            bytes: &time_index::encode(&segment.time_index),
            rows: segment.time_index.len() as u64,
        })?;
        // Made with its first row; one that is there already is emptied and stays.
        if !segment.txn_index.is_empty() || had_txn_index {
            (self.give)(RebuiltFile {
                kind: SideFileKind::TxnIndex,
                offset,
                bytes: &aborted_txn::encode(&segment.txn_index),
                rows: segment.txn_index.len() as u64,
            })?;
        }
        self.give_snapshots(SNAPSHOTS_KEPT)
    }

    /// Gives out the snapshots that stay as they are: all but the newest `keep`.
    fn give_snapshots<E>(&mut self, keep: usize) -> Result<(), E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        while self.log.written.len() > keep {
            let snapshot = self.log.written.remove(0);
            self.log.snapshots.remove(snapshot.offset);
            let is_base = self.log.bases.contains(&snapshot.offset);
            let is_end = keep == 0 && snapshot.offset == self.log_end_offset;
            let wanted = match self.options.snapshots_at {
                SnapshotsAt::BasesAndEnd => is_base || is_end,
                SnapshotsAt::Bases => is_base,
                SnapshotsAt::End => is_end,
                SnapshotsAt::Offset(_) => false,
            };
            if wanted && snapshot.offset > self.log_start_offset {
                give_snapshot(&mut self.give, snapshot.offset, &snapshot.rows)?;
            }
        }
        Ok(())
    }

    /// What `LogLoader.load` does when the segments are recovered.
    fn finish<E: From<Error>>(mut self) -> Result<Rebuilt, E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        if let SnapshotsAt::Offset(offset) = self.options.snapshots_at {
            self.give_state_at(offset)?;
        } else {
            let bases: BTreeSet<i64> = self.log.bases.iter().copied().collect();
            for stray in self.log.snapshots.remove_stray(&bases) {
                self.log.forget(stray);
            }
            // What is wrong with a refused batch has been said.
            let _ = self.state_at(self.log_end_offset, self.log_start_offset)?;
            self.give_snapshots(0)?;
        }
        Ok(Rebuilt {
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            stop: self.stop,
            vanished: self.vanished,
        })
    }

    /// The snapshot recovery would write if the log ended at `offset`, or at its end if that is
    /// lower.
    fn give_state_at<E: From<Error>>(&mut self, offset: i64) -> Result<(), E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        let Some(mut state) = self.last_state.take() else {
            return Ok(());
        };
        let is_reached = self.has_more || self.log.bases.iter().any(|base| *base >= offset);
        let offset = if is_reached && self.stop.is_none() {
            offset
        } else {
            offset.min(self.log_end_offset.max(state.map_end_offset()))
        };
        if offset > state.map_end_offset() && self.log.bases.contains(&offset) {
            // Offsets are missing before this segment: recovery comes to it through a snapshot.
            if let Ok(reloaded) = self.state_at(offset, self.checkpointed_log_start)? {
                state = reloaded;
            }
        }
        let rows: Vec<_> = state.snapshot_rows().collect();
        give_snapshot(&mut self.give, offset, &rows)
    }
}

fn give_snapshot<E>(
    give: &mut impl FnMut(RebuiltFile<'_>) -> Result<(), E>,
    offset: i64,
    rows: &[ProducerSnapshotRow],
) -> Result<(), E> {
    let entries: Vec<ProducerSnapshotEntry> =
        rows.iter().map(ProducerSnapshotEntry::from).collect();
    give(RebuiltFile {
        kind: SideFileKind::Snapshot,
        offset,
        bytes: &producer_snapshot::encode(&entries),
        rows: rows.len() as u64,
    })
}

/// How recovery of a segment ended before the segment did.
enum End {
    /// The log is cut behind the last good batch.
    Cut(Stop),
    /// The whole segment is cut to nothing.
    WholeSegment(Stop),
    /// The next batch reaches the offset asked for.
    OffsetAskedFor,
}

impl End {
    fn into_stop(self, file: String) -> Option<Stop> {
        match self {
            Self::Cut(stop) | Self::WholeSegment(stop) => Some(Stop { file, ..stop }),
            Self::OffsetAskedFor => None,
        }
    }
}

/// Where a recovered segment ends.
#[derive(Clone, Copy, Debug)]
struct Extent {
    base_offset: i64,
    /// No batch of it reaches this offset.
    end_offset: i64,
    valid_bytes: u64,
}

/// One segment under recovery (`LogSegment.recover`).
struct RecoveredSegment {
    extent: Extent,
    /// The offset after the last batch; the base offset if there is none.
    next_offset: i64,
    end_before: i64,
    indexer: SegmentIndexer,
    offset_index: Vec<OffsetIndexEntry>,
    time_index: Vec<TimeIndexEntry>,
    txn_index: Vec<AbortedTxn>,
}

impl RecoveredSegment {
    fn new(base_offset: i64, options: RebuildOptions) -> Self {
        Self {
            extent: Extent {
                base_offset,
                end_offset: base_offset,
                valid_bytes: 0,
            },
            next_offset: base_offset,
            end_before: match options.snapshots_at {
                SnapshotsAt::Offset(offset) => offset,
                SnapshotsAt::BasesAndEnd | SnapshotsAt::Bases | SnapshotsAt::End => i64::MAX,
            },
            indexer: SegmentIndexer::new(base_offset, options.index_interval_bytes),
            offset_index: Vec::new(),
            time_index: Vec::new(),
            txn_index: Vec::new(),
        }
    }

    fn walk(
        &mut self,
        file: &MappedFile,
        manager: &mut ProducerStateManager,
    ) -> Result<Option<End>, Error> {
        let mut walk = BatchWalk::new(file);
        let mut end = None;
        while let Some(entry) = walk.next_entry() {
            let next = match entry? {
                Entry::Batch(batch) => self.batch(&batch, manager)?,
                Entry::Legacy(entry) => self.legacy_entry(&entry)?,
                Entry::Damage(damage) => {
                    let (next, size_in_bytes) = self.damage(file, &damage, manager)?;
                    walk = BatchWalk::starting_at(file, damage.position + size_in_bytes);
                    next
                }
            };
            if let ControlFlow::Break(it) = next {
                end = Some(it);
                break;
            }
        }
        match self.indexer.last_time_entry() {
            Ok(last) => self.time_index.extend(last),
            Err(error) if end.is_none() => {
                let position = self.extent.valid_bytes;
                let stop = stop("index-order", position, None, error.to_string());
                end = Some(End::WholeSegment(stop));
            }
            Err(_) => {}
        }
        Ok(end)
    }

    /// Where the log is cut, unless only the magic byte is wrong: the checksum does not cover it,
    /// and recovery does not look at it.
    fn damage(
        &mut self,
        file: &MappedFile,
        damage: &Damage,
        manager: &mut ProducerStateManager,
    ) -> Result<(ControlFlow<End>, u64), Error> {
        let mut header = [0; HEADER_SIZE];
        if let DamageKind::UnknownMagic { found } = damage.kind
            && found > MAGIC_V2
            && damage.size_in_bytes >= HEADER_SIZE as u64
        {
            file.read_exact_at(&mut header, damage.position)?;
            if let Ok(header) = RecordBatchHeader::ref_from(&header)
                && let Some(batch) = Batch::of_any_magic(file, damage.position, header)
            {
                return Ok((self.batch(&batch, manager)?, batch.size_in_bytes()));
            }
        }
        let stop = stop(
            damage.kind.name(),
            damage.position,
            damage.readable.base_offset,
            damage.to_string(),
        );
        Ok((ControlFlow::Break(End::Cut(stop)), damage.size_in_bytes))
    }

    #[inline]
    fn batch(
        &mut self,
        batch: &Batch<'_>,
        manager: &mut ProducerStateManager,
    ) -> Result<ControlFlow<End>, Error> {
        let header = batch.header;
        if header.last_offset() >= self.end_before {
            return Ok(ControlFlow::Break(End::OffsetAskedFor));
        }
        let position = batch.position;
        let cut = |kind, position, message| {
            let offset = Some(header.base_offset());
            Ok(ControlFlow::Break(End::Cut(stop(
                kind, position, offset, message,
            ))))
        };
        let computed = batch.compute_crc()?;
        if computed != header.crc() {
            let stored = header.crc();
            return cut("bad-crc", position, crc_message(stored, computed));
        }
        let indexed = self.index(&IndexedBatch {
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp(),
            position,
            size_in_bytes: batch.size_in_bytes(),
        });
        if let ControlFlow::Break(end) = indexed {
            return Ok(ControlFlow::Break(end));
        }
        let marker = batch.marker()?;
        let should_be_marker = header.attributes().is_control()
            && header.has_producer_id()
            && header.records_count() > 0;
        if should_be_marker && marker.is_none() {
            // The batch itself counts as good by then, and stays (`LogSegment.recover`).
            let message = "the control record of the batch before cannot be read".to_owned();
            return cut("unreadable-marker", self.extent.valid_bytes, message);
        }
        match recover_batch(manager, header, marker) {
            Ok(row) => self.txn_index.extend(row.as_ref().map(index_row)),
            Err(refusal) => return cut("refused-batch", position, refusal.to_string()),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn legacy_entry(&mut self, entry: &LegacyEntry<'_>) -> Result<ControlFlow<End>, Error> {
        let offset = entry.header.offset();
        if offset >= self.end_before {
            return Ok(ControlFlow::Break(End::OffsetAskedFor));
        }
        let computed = entry.compute_crc()?;
        if computed != entry.header.crc() {
            let message = crc_message(entry.header.crc(), computed);
            let stop = stop("bad-crc", entry.position, Some(offset), message);
            return Ok(ControlFlow::Break(End::Cut(stop)));
        }
        Ok(self.index(&IndexedBatch {
            last_offset: offset,
            max_timestamp: entry.timestamp().unwrap_or(NO_TIMESTAMP),
            position: entry.position,
            size_in_bytes: entry.size_in_bytes(),
        }))
    }

    #[inline]
    fn index(&mut self, batch: &IndexedBatch) -> ControlFlow<End> {
        match self.indexer.next_batch(batch) {
            Ok(None) => {}
            Ok(Some(entries)) => {
                self.offset_index.push(entries.offset);
                self.time_index.extend(entries.time);
            }
            Err(error) => {
                let offset = Some(batch.last_offset);
                let stop = |kind| stop(kind, batch.position, offset, error.to_string());
                return ControlFlow::Break(match error {
                    // A broker splits the segment here and begins again.
                    IndexError::OffsetOverflow { .. } => End::Cut(stop("offset-overflow")),
                    IndexError::OffsetNotAbove { .. }
                    | IndexError::TimeOffsetBelow { .. }
                    | IndexError::PositionOverflow { .. } => End::WholeSegment(stop("index-order")),
                });
            }
        }
        self.next_offset = batch.last_offset.wrapping_add(1);
        self.extent.end_offset = self.extent.end_offset.max(self.next_offset);
        self.extent.valid_bytes = batch.position + batch.size_in_bytes;
        ControlFlow::Continue(())
    }
}

fn stop(kind: &'static str, position: u64, offset: Option<i64>, message: String) -> Stop {
    Stop {
        kind,
        file: String::new(),
        position,
        offset,
        message,
    }
}

fn crc_message(stored: u32, computed: u32) -> String {
    format!("checksum is {stored:#010x}, computed {computed:#010x}")
}

fn index_row(row: &AbortedTxnRow) -> AbortedTxn {
    AbortedTxn::from(AbortedTxnFields {
        producer_id: row.producer_id,
        first_offset: row.first_offset,
        last_offset: row.last_offset,
        last_stable_offset: row.last_stable_offset,
    })
}

/// Snapshots that may be read again or deleted: recovery of a segment takes back at most the one
/// written at the end of the segment before, and then needs the newest of those before that.
const SNAPSHOTS_KEPT: usize = 4;

/// A snapshot recovery has written.
struct WrittenSnapshot {
    offset: i64,
    rows: Vec<ProducerSnapshotRow>,
}

/// The partition as recovery finds and leaves it, in memory.
struct RecoveredLog<'d> {
    dir: &'d PartitionDir,
    io: Io,
    /// Base offsets of the segments there still are.
    bases: Vec<i64>,
    /// The snapshots there are, of the directory and written ones.
    snapshots: SnapshotOffsets,
    /// The newest written ones, ascending.
    written: Vec<WrittenSnapshot>,
    /// The segments recovered so far.
    recovered: Vec<Extent>,
}

impl<'d> RecoveredLog<'d> {
    fn new(dir: &'d PartitionDir, options: RebuildOptions) -> Self {
        let mut snapshots = SnapshotOffsets::default();
        if !options.from_scratch {
            snapshots = snapshot_files(dir).map(|(offset, _)| offset).collect();
        }
        Self {
            dir,
            io: options.io,
            bases: dir.segments.iter().map(|it| it.base_offset).collect(),
            snapshots,
            written: Vec::new(),
            recovered: Vec::new(),
        }
    }

    fn write(&mut self, offset: i64, manager: &ProducerStateManager) {
        self.forget(offset);
        self.snapshots.insert(offset);
        let place = self.written.partition_point(|it| it.offset < offset);
        let rows = manager.snapshot_rows().collect();
        self.written.insert(place, WrittenSnapshot { offset, rows });
    }

    fn forget(&mut self, offset: i64) {
        self.snapshots.remove(offset);
        self.written.retain(|written| written.offset != offset);
    }
}

/// Why state could not be built.
enum Failure {
    Log(Error),
    Refused(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl ProducerStateLog for RecoveredLog<'_> {
    type Error = Failure;

    fn segment_base_offsets(
        &self,
        range: impl RangeBounds<i64>,
    ) -> impl DoubleEndedIterator<Item = i64> {
        let bases = self.bases.iter().copied();
        bases.filter(move |base| range.contains(base))
    }

    fn read_snapshot(&mut self, offset: i64) -> Result<Option<Vec<ProducerSnapshotRow>>, Failure> {
        if let Some(written) = self.written.iter().find(|it| it.offset == offset) {
            return Ok(Some(written.rows.clone()));
        }
        let rows = read_snapshot(self.dir, self.io, offset).map_err(Failure::Log)?;
        Ok(rows.and_then(Result::ok))
    }

    fn delete_snapshot(&mut self, offset: i64) -> Result<(), Failure> {
        self.forget(offset);
        Ok(())
    }

    fn write_snapshot(
        &mut self,
        offset: i64,
        manager: &ProducerStateManager,
    ) -> Result<(), Failure> {
        self.write(offset, manager);
        Ok(())
    }

    fn for_each_batch(
        &mut self,
        segment_base_offset: i64,
        start_offset: i64,
        end_offset: Option<i64>,
        each: &mut BatchVisitor<'_>,
    ) -> Result<(), Failure> {
        let same_base = |it: &&Extent| it.base_offset == segment_base_offset;
        let segments = &self.dir.segments;
        let segment = segments
            .iter()
            .find(|it| it.base_offset == segment_base_offset);
        let (Some(extent), Some(segment)) = (self.recovered.iter().find(same_base), segment) else {
            return Ok(());
        };
        if extent.end_offset <= start_offset {
            return Ok(());
        }
        let Some(opened) = open_segment(self.dir, segment, self.io).map_err(Failure::Log)? else {
            return Ok(());
        };
        let mut walk = BatchWalk::new(&opened.file);
        while walk.position() < extent.valid_bytes
            && let Some(entry) = walk.next_entry()
        {
            let Entry::Batch(batch) = entry.map_err(Failure::Log)? else {
                continue;
            };
            let last_offset = batch.header.last_offset();
            if end_offset.is_some_and(|end| last_offset >= end) {
                break;
            }
            if last_offset >= start_offset {
                let marker = batch.marker().map_err(Failure::Log)?;
                each(batch.header, marker)?;
            }
        }
        Ok(())
    }
}

/// One file that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RebuildRow {
    /// Path of the partition directory.
    pub path: String,
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: String,
    /// What it is.
    pub kind: SideFileKind,
    /// Bytes of the file.
    pub size_in_bytes: u64,
    /// Entries of an index, producers of a snapshot.
    pub rows: u64,
    /// Whether the directory's file of that name has these bytes; zeros behind the entries of an
    /// `.index` or `.timeindex`, room for more, do not count. Null if there is no such file.
    pub same_as_existing: Option<bool>,
    /// Where recovery ends the log of this partition before its end; null if it does not.
    pub stop: Option<Stop>,
}

impl RebuildRow {
    /// The partition for people: topic and number, or the path.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.topic, self.partition) {
            (Some(topic), Some(partition)) => format!("{topic}-{partition}"),
            _ => self.path.clone(),
        }
    }
}

/// Makes the side files of the kinds wanted, gives them to `file`, and compares them with those in
/// the directory; `None` if it has no segment.
///
/// # Errors
/// If a file cannot be read, or `file` fails.
pub fn rebuild_rows<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: RebuildOptions,
    wants: impl Fn(SideFileKind) -> bool,
    mut file: impl FnMut(&RebuiltFile<'_>) -> Result<(), E>,
) -> Result<Option<(Vec<RebuildRow>, Rebuilt)>, E> {
    let mut rows = Vec::new();
    let rebuilt = rebuild(dir, checkpoints, options, |made| {
        if !wants(made.kind) {
            return Ok(());
        }
        file(&made)?;
        rows.push(RebuildRow {
            path: dir.path.display().to_string(),
            topic: dir.topic().map(str::to_owned),
            partition: dir.partition(),
            file: made.kind.file_name(made.offset),
            kind: made.kind,
            size_in_bytes: made.bytes.len() as u64,
            rows: made.rows,
            same_as_existing: same_as_existing(dir, options.io, made)?,
            stop: None,
        });
        Ok::<_, E>(())
    })?;
    let Some(rebuilt) = rebuilt else {
        return Ok(None);
    };
    for row in &mut rows {
        row.stop.clone_from(&rebuilt.stop);
    }
    Ok(Some((rows, rebuilt)))
}

fn same_as_existing(
    dir: &PartitionDir,
    io: Io,
    made: RebuiltFile<'_>,
) -> Result<Option<bool>, Error> {
    let name = made.kind.file_name(made.offset);
    let entry = dir.files.iter().find(|it| it.file_name == *name);
    let Some(existing) = entry
        .map(|entry| dir.open_file(entry, io))
        .transpose()?
        .flatten()
    else {
        return Ok(None);
    };
    let bytes = existing.read_settled()?;
    let same = match made.kind {
        SideFileKind::Index | SideFileKind::TimeIndex => bytes
            .strip_prefix(made.bytes)
            .is_some_and(|rest| rest.iter().all(|byte| *byte == 0)),
        SideFileKind::TxnIndex | SideFileKind::Snapshot => *bytes == *made.bytes,
    };
    existing.check_unchanged()?;
    Ok(Some(same))
}
