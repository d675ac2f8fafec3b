//! What other files tell of records that are in no `.log`.
//!
//! An index names offsets of batches that were appended, and the cleaner writes it anew with its
//! segment (`Cleaner.cleanSegments`): what it names beyond the end of its `.log` was not compacted
//! away. A snapshot was taken where the log ended, and a truncation deletes those behind the new
//! end (`ProducerStateManager.truncateAndReload`).

use std::collections::HashSet;
use std::fmt;
use std::ops::{ControlFlow, Range};

use crate::format::aborted_txn::AbortedTxnRows;
use crate::format::file_name::{FileState, LogDirFileName, LogFileKind};
use crate::format::offset_index::OffsetIndexRows;
use crate::format::time_index::TimeIndexRows;
use crate::log::batches::Entry;
use crate::log::last_copies::set_aside;
use crate::log::orphan_files::{has_swap, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir, SegmentFiles};
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};
use crate::report::partition_state::{read_snapshot, snapshot_files};

/// Bytes of an entry in `.index`; one in `.timeindex` is larger.
const SMALLEST_ENTRY: usize = 8;

/// A file that tells of records which are in no `.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// What file it is.
    pub kind: WitnessKind,
    /// The offset in its name; 0 where there is none.
    pub base_offset: i64,
}

/// What kind of file tells of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WitnessKind {
    /// `.index`.
    OffsetIndex,
    /// `.timeindex`.
    TimeIndex,
    /// `.txnindex`.
    TransactionIndex,
    /// `.snapshot`.
    ProducerSnapshot,
    /// `.log.deleted`: the segment itself, that any start deletes.
    DeletedLog,
    /// `.log.cleaned`: what a compaction that had not come to its end had copied, that any start
    /// deletes.
    CleanedLog,
    /// `.log.swap`: the segment itself, that the next start puts into place, or deletes with a
    /// `.cleaned` file at or below its offset.
    LogSwap,
    /// `leader-epoch-checkpoint`, whose first line says where the log began.
    LeaderEpochs,
    /// `replication-offset-checkpoint`, whose high watermark says how far records were
    /// acknowledged.
    HighWatermark,
    /// `log-start-offset-checkpoint`, whose log start lies behind the end of the log.
    LogStart,
}

impl Witness {
    /// The leader epochs of the log.
    pub(super) const LEADER_EPOCHS: Self = Self {
        kind: WitnessKind::LeaderEpochs,
        base_offset: 0,
    };

    /// The high watermark that was checkpointed.
    pub(super) const HIGH_WATERMARK: Self = Self {
        kind: WitnessKind::HighWatermark,
        base_offset: 0,
    };

    /// The log start that was checkpointed.
    pub(super) const LOG_START: Self = Self {
        kind: WitnessKind::LogStart,
        base_offset: 0,
    };

    /// A segment that any start deletes.
    pub(super) fn of_set_aside(base_offset: i64, state: FileState) -> Option<Self> {
        let kind = match state {
            FileState::Deleted => WitnessKind::DeletedLog,
            FileState::Cleaned => WitnessKind::CleanedLog,
            FileState::Swap => WitnessKind::LogSwap,
            FileState::Live | FileState::Temporary => return None,
        };
        Some(Self { kind, base_offset })
    }

    /// A segment in a `.swap` file.
    pub(super) fn of_swap(file: &FileEntry) -> Option<Self> {
        match (&file.parsed.kind, file.parsed.state) {
            (LogFileKind::Log(base), FileState::Swap) => Some(Self {
                kind: WitnessKind::LogSwap,
                base_offset: *base,
            }),
            _ => None,
        }
    }

    /// The witness that a file in use can be.
    pub(super) fn of_file(file: &FileEntry) -> Option<Self> {
        let (kind, base_offset) = match (&file.parsed.kind, file.parsed.state) {
            (LogFileKind::OffsetIndex(base), FileState::Live) => (WitnessKind::OffsetIndex, base),
            (LogFileKind::TimeIndex(base), FileState::Live) => (WitnessKind::TimeIndex, base),
            (LogFileKind::TransactionIndex(base), FileState::Live) => {
                (WitnessKind::TransactionIndex, base)
            }
            (LogFileKind::ProducerSnapshot(base), FileState::Live) => {
                (WitnessKind::ProducerSnapshot, base)
            }
            _ => return None,
        };
        Some(Self {
            kind,
            base_offset: *base_offset,
        })
    }
}

/// The name of the file.
impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base_offset;
        let (kind, state) = match self.kind {
            WitnessKind::OffsetIndex => (LogFileKind::OffsetIndex(base), FileState::Live),
            WitnessKind::TimeIndex => (LogFileKind::TimeIndex(base), FileState::Live),
            WitnessKind::TransactionIndex => (LogFileKind::TransactionIndex(base), FileState::Live),
            WitnessKind::ProducerSnapshot => (LogFileKind::ProducerSnapshot(base), FileState::Live),
            WitnessKind::DeletedLog => (LogFileKind::Log(base), FileState::Deleted),
            WitnessKind::CleanedLog => (LogFileKind::Log(base), FileState::Cleaned),
            WitnessKind::LogSwap => (LogFileKind::Log(base), FileState::Swap),
            WitnessKind::LeaderEpochs => (LogFileKind::LeaderEpochCheckpoint, FileState::Live),
            WitnessKind::HighWatermark => {
                return write!(f, "{}", LogDirFileName::ReplicationOffsetCheckpoint);
            }
            WitnessKind::LogStart => {
                return write!(f, "{}", LogDirFileName::LogStartOffsetCheckpoint);
            }
        };
        write!(f, "{kind}{}", state.suffix())
    }
}

/// The files of a partition as witnesses.
#[derive(Clone, Copy)]
pub(super) struct Witnesses<'d> {
    dir: &'d PartitionDir,
    io: Io,
}

impl<'d> Witnesses<'d> {
    pub(super) fn new(dir: &'d PartitionDir, io: Io) -> Self {
        Self { dir, io }
    }

    /// The indexes of segments from these offsets on whose `.log` is not there.
    pub(super) fn orphans<'r>(
        &self,
        offsets: &'r Range<i64>,
    ) -> impl Iterator<Item = (i64, &'d FileEntry)> + use<'d, 'r> {
        let dir = self.dir;
        orphan_indexes(dir, move |base| has_swap(dir, base))
            .filter(|(base, _)| offsets.contains(base))
    }

    /// The lowest base offset among those.
    pub(super) fn first_orphan(&self, offsets: &Range<i64>) -> Option<i64> {
        self.orphans(offsets).map(|(base, _)| base).min()
    }

    /// What is left of a segment whose `.log` is not there: the segment itself under another name
    /// first of all.
    pub(super) fn of_lost_segment(&self, offsets: &Range<i64>) -> Option<Witness> {
        let index = self.orphans(offsets).min_by_key(|(base, _)| *base);
        let index = Witness::of_file(index?.1)?;
        let log = self
            .deleted_logs(offsets)
            .find(|log| log.base_offset == index.base_offset);
        Some(log.unwrap_or(index))
    }

    /// Segments from these offsets on that any start deletes.
    pub(super) fn deleted_logs<'r>(
        &self,
        offsets: &'r Range<i64>,
    ) -> impl Iterator<Item = Witness> + use<'d, 'r> {
        let logs = set_aside(self.dir.listed()).filter(|(base, _)| offsets.contains(base));
        logs.filter_map(|(base, file)| Witness::of_set_aside(base, file.parsed.state))
    }

    /// A segment that any start deletes and that may hold the first of these offsets, or else the
    /// others.
    pub(super) fn set_aside_from(&self, offsets: Range<i64>) -> Option<Witness> {
        let upto = 0..offsets.start.saturating_add(1);
        let holds_first = self.deleted_logs(&upto).max_by_key(|log| log.base_offset);
        let others = self.deleted_logs(&offsets);
        holds_first.or(others.min_by_key(|log| log.base_offset))
    }

    /// A snapshot at exactly this offset, where no segment begins any more.
    pub(super) fn lone_snapshot(&self, offset: i64) -> Option<Witness> {
        let (_, file) = snapshot_files(self.dir).find(|(at, _)| *at == offset)?;
        Witness::of_file(file)
    }

    /// Whether a snapshot lies between, where no segment begins any more.
    pub(super) fn has_lone_snapshot(&self, offsets: &Range<i64>) -> bool {
        let segments = &self.dir.segments;
        let begins = |at: i64| {
            segments
                .binary_search_by_key(&at, |it| it.base_offset)
                .is_ok()
        };
        snapshot_files(self.dir).any(|(at, _)| offsets.contains(&at) && !begins(at))
    }

    /// The highest offset of these that the indexes of a segment name.
    pub(super) fn in_segment(
        &self,
        segment: &SegmentFiles,
        offsets: &Range<i64>,
    ) -> Result<Option<(Witness, i64)>, Error> {
        let indexes = [segment.offset_index, segment.time_index, segment.txn_index];
        let files = indexes.into_iter().flatten();
        self.in_indexes(files.filter_map(|index| self.dir.file(index)), offsets)
    }

    /// The same of the last segment. A broker that truncates it, in a follower, leaves the old
    /// entries where they are in `.index` and `.timeindex` and goes on in front of them
    /// (`OffsetIndex.truncateToEntries`), so these count only where they have been cut to their
    /// last entry, as at a stop (`AbstractIndex.trimToValidSize`).
    pub(super) fn in_last_segment(
        &self,
        segment: &SegmentFiles,
        offsets: &Range<i64>,
    ) -> Result<Option<(Witness, i64)>, Error> {
        let mut trimmed = *segment;
        for index in [&mut trimmed.offset_index, &mut trimmed.time_index] {
            let file = index.and_then(|at| self.dir.file(at));
            if let Some(file) = file
                && !self.is_trimmed(file)?
            {
                *index = None;
            }
        }
        self.in_segment(&trimmed, offsets)
    }

    /// Whether the last bytes of an index are an entry and no room.
    fn is_trimmed(&self, file: &FileEntry) -> Result<bool, Error> {
        let Some(file) = self.dir.open_file(file, self.io)? else {
            return Ok(false);
        };
        let mut entry = [0; SMALLEST_ENTRY];
        let Some(position) = file.len().checked_sub(SMALLEST_ENTRY as u64) else {
            return Ok(false);
        };
        file.read_exact_at(&mut entry, position)?;
        Ok(entry.iter().any(|byte| *byte != 0))
    }

    /// The highest offset of these that indexes name.
    pub(super) fn in_indexes<'f>(
        &self,
        files: impl Iterator<Item = &'f FileEntry>,
        offsets: &Range<i64>,
    ) -> Result<Option<(Witness, i64)>, Error> {
        let mut highest: Option<(Witness, i64)> = None;
        for file in files {
            let Some(witness) = Witness::of_file(file) else {
                continue;
            };
            if let Some(offset) = self.last_offset_named(witness, file)?
                && offsets.contains(&offset)
                && highest.is_none_or(|(_, other)| offset > other)
            {
                highest = Some((witness, offset));
            }
        }
        Ok(highest)
    }

    /// The last offset that an index names.
    fn last_offset_named(&self, index: Witness, file: &FileEntry) -> Result<Option<i64>, Error> {
        if file.size_in_bytes == 0 {
            return Ok(None);
        }
        let Some(file) = self.dir.open_file(file, self.io)? else {
            return Ok(None);
        };
        let bytes = file.read_all()?;
        let base_offset = index.base_offset;
        let last = match index.kind {
            WitnessKind::OffsetIndex => {
                let rows = OffsetIndexRows::decode(&bytes).rows();
                rows.last().map(|row| row.offset(base_offset))
            }
            WitnessKind::TimeIndex => {
                let rows = TimeIndexRows::decode(&bytes).rows();
                rows.last().map(|row| row.offset(base_offset))
            }
            WitnessKind::TransactionIndex => {
                let rows = AbortedTxnRows::decode(&bytes).rows();
                rows.last().map(|row| row.last_offset())
            }
            WitnessKind::ProducerSnapshot
            | WitnessKind::DeletedLog
            | WitnessKind::CleanedLog
            | WitnessKind::LogSwap
            | WitnessKind::LeaderEpochs
            | WitnessKind::HighWatermark
            | WitnessKind::LogStart => None,
        };
        Ok(last)
    }

    /// The newest snapshot, if it has a producer whose last batch is at one of these offsets and
    /// of which the log has none behind them: the cleaner leaves the last batch of each producer
    /// that the broker knows (`Cleaner.cleanInto`).
    pub(super) fn of_last_batches(&self, offsets: &Range<i64>) -> Result<Option<Witness>, Error> {
        let newest = snapshot_files(self.dir).max_by_key(|(at, _)| *at);
        let Some((at, file)) = newest.filter(|(at, _)| *at >= offsets.end) else {
            return Ok(None);
        };
        let Some(Ok(rows)) = read_snapshot(self.dir, self.io, at)? else {
            return Ok(None);
        };
        let ends_here = rows.iter().filter(|row| offsets.contains(&row.last_offset));
        let mut ending: HashSet<i64> = ends_here.map(|row| row.producer_id).collect();
        let behind = self
            .dir
            .segments
            .partition_point(|segment| segment.base_offset < offsets.end);
        walk_partition(self.dir, self.io, behind, |_, entry| {
            if let Entry::Batch(batch) = entry {
                ending.remove(&batch.header.producer_id());
            }
            Ok::<_, Error>(if ending.is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(Witness::of_file(file).filter(|_| !ending.is_empty()))
    }
}
