//! Files on their way out, or made by a compaction that had not come to its end, that a start
//! removes although they are the last copy of records.
//!
//! Decides by what a broker does before it gives a `.log` the suffix `.deleted`:
//! `UnifiedLog.deleteSegments` moves the log start, and the leader epochs with it;
//! `LocalLog.truncateTo` cuts off what is not acknowledged; `Cleaner.cleanSegments` has put another
//! segment into place.

use std::ffi::OsStr;

use super::DryRun;
use super::loss::Counted;
use super::row::{Action, ActionKind};
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;
use crate::log;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::orphan_files::{has_swap, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir};

/// The offsets that the log had when it was stopped, as far as its files tell.
#[derive(Clone, Copy, Debug)]
struct KnownRange {
    /// Below it retention or `DeleteRecords` had given records up.
    start: i64,
    /// Records below it had been acknowledged.
    acknowledged_end: i64,
    /// Below it the cleaner may have taken records out.
    cleaned_end: i64,
}

impl DryRun {
    /// Looks for files that are removed although no segment in use has their offsets.
    pub(super) fn find_last_copies(
        &mut self,
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
    ) -> Result<(), log::Error> {
        let mut warnings = Vec::new();
        if !self.row.actions.iter().any(is_leftover_log) {
            return Ok(());
        }
        let known = self.known_range(checkpoints)?;
        let mut counted = std::mem::take(&mut self.counted);
        let mut spans = std::mem::take(&mut self.row.lost_spans);
        let before = counted.records;
        for action in self.row.actions.iter().filter(|it| is_leftover_log(it)) {
            let Some(file) = self.overlay.open_original(OsStr::new(&action.file), 0)? else {
                continue;
            };
            let span = Counted::default().count(&file, Some(known.start))?;
            let Some((first, last)) = span else {
                continue;
            };
            let parsed = LogFileName::parse(&action.file);
            if self.is_replaced(dir, &parsed, (first, last), known)? {
                continue;
            }
            if let LogFileKind::Log(base_offset) = parsed.kind {
                spans.add(base_offset.max(known.start).min(first), last);
            }
            let told = counted.records;
            counted.count(&file, Some(known.start))?;
            // Another one that goes has them as well, and has been named.
            if counted.records == told {
                continue;
            }
            let live = LogFileName {
                state: FileState::Live,
                ..parsed
            };
            warnings.push(format!(
                "{} is the last copy here of offsets {first}..{last}, and a start removes it: \
                 rename it to {live} before the start",
                action.file
            ));
        }
        self.row.lost_spans = spans;
        if counted.records > before {
            // A broker may have been about to move the log start, or the epochs with it.
            dir.check_unchanged()?;
        }
        self.set_losses(counted);
        self.row.warnings.extend(warnings);
        Ok(())
    }

    fn known_range(&self, checkpoints: CheckpointedOffsets) -> Result<KnownRange, log::Error> {
        let first_base = self.row.segments.first().map_or(0, |it| it.base_offset);
        // The first epoch begins where the log does, as long as the log did not begin with records
        // of no epoch (`LeaderEpochFileCache.truncateFromStart`).
        let began = self.first_epoch_start()?.unwrap_or(first_base);
        let checkpoint = checkpoints.log_start_offset.unwrap_or(0);
        let losses = &self.row.losses;
        Ok(KnownRange {
            start: began.min(first_base).max(checkpoint),
            acknowledged_end: losses.acknowledged_to.map_or(i64::MIN, |it| it + 1),
            cleaned_end: checkpoints.cleaner_offset.unwrap_or(i64::MIN),
        })
    }

    /// Where the first leader epoch began before the start; `None` if none is known.
    fn first_epoch_start(&self) -> Result<Option<i64>, log::Error> {
        let name = LogFileKind::LeaderEpochCheckpoint.to_string();
        let Some(file) = self.overlay.open_original(OsStr::new(&name), 0)? else {
            return Ok(None);
        };
        let Ok(checkpoint) = LeaderEpochCheckpoint::decode(&file.read_all()?) else {
            return Ok(None);
        };
        Ok(checkpoint.entries.iter().map(|it| it.start_offset).min())
    }

    /// Whether a segment in use has the offsets, or they had been given up before the start.
    fn is_replaced(
        &self,
        dir: &PartitionDir,
        name: &LogFileName,
        (first, last): (i64, i64),
        known: KnownRange,
    ) -> Result<bool, log::Error> {
        // A broker renames the indexes with it.
        if name.state == FileState::Deleted && !has_indexes(dir, name) {
            let end = self.row.log_end_offset.unwrap_or(i64::MIN);
            let is_cut_off = first >= end && first >= known.acknowledged_end;
            let is_cleaned = first < known.cleaned_end && !has_snapshot(dir, name);
            if is_cut_off || is_cleaned {
                return Ok(true);
            }
        }
        let bases = self.row.segments.iter().map(|it| it.base_offset);
        let Some(base_offset) = bases.take_while(|base| *base <= last).last() else {
            return Ok(false);
        };
        if base_offset >= first {
            return Ok(true);
        }
        let log = LogFileKind::Log(base_offset).to_string();
        let Some(id) = self.overlay.find(OsStr::new(&log)) else {
            return Ok(false);
        };
        let below = Counted::default().count(&self.overlay.open(id)?, None)?;
        Ok(below.is_some_and(|(_, end)| end >= first))
    }
}

/// Whether indexes of the segment are in use without it (`LogSegment.changeFileSuffixes`).
fn has_indexes(dir: &PartitionDir, name: &LogFileName) -> bool {
    let mut orphans = orphan_indexes(dir, |base| has_swap(dir, base));
    orphans.any(|(base, _)| name.kind == LogFileKind::Log(base))
}

/// Whether the snapshot is there that a broker deletes with the segment
/// (`UnifiedLog.deleteProducerSnapshots`), and not another segment of its base offset.
fn has_snapshot(dir: &PartitionDir, name: &LogFileName) -> bool {
    let LogFileKind::Log(base_offset) = name.kind else {
        return false;
    };
    let is_snapshot = |file: &FileEntry| {
        file.parsed.kind == LogFileKind::ProducerSnapshot(base_offset)
            && file.parsed.state == FileState::Live
    };
    let has_log = dir.segments.iter().any(|it| it.base_offset == base_offset);
    !has_log && dir.files.iter().any(is_snapshot)
}

/// Whether a `.log` goes that was to be deleted, or was made by a compaction that had not come to
/// its end.
fn is_leftover_log(action: &Action) -> bool {
    let name = LogFileName::parse(&action.file);
    action.kind == ActionKind::Remove
        && matches!(name.kind, LogFileKind::Log(_))
        && match name.state {
            FileState::Deleted | FileState::Cleaned | FileState::Swap => true,
            FileState::Live | FileState::Temporary => false,
        }
}
