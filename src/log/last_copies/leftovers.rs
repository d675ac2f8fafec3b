//! Files on their way out, or made by a compaction that had not come to its end, that a start
//! removes although they are the last copy of records.
//!
//! Decides by what a broker does before it gives a `.log` the suffix `.deleted`:
//! `UnifiedLog.deleteSegments` moves the log start, and the leader epochs with it;
//! `LocalLog.truncateTo` cuts off what is not acknowledged, and the log goes on with other batches;
//! `Cleaner.cleanSegments` has put another segment into place, which begins where the first of
//! those did that it was made of, and never cleans the last one. Until a compaction or a split
//! comes to its end the segments it was made from stay (`LocalLog.replaceSegments`).

use std::collections::BTreeSet;
use std::ops::{Bound, Range};

use super::rewritten::is_rewritten;
use super::{GoingLog, LostLog, Stays, is_cleaned, lost_with};
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::checkpoints::{CheckpointedOffsets, high_watermark_past_end};
use crate::log::extents::{Extent, for_each_extent};
use crate::log::lost_front::{first_epoch_start, may_be_tiered};
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::orphan_files::{has_swap, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir, SegmentFiles};
use crate::log::swap_files::unfinished_from;
use crate::log::{Error, Io};

/// A log as a start leaves it, as far as that decides what was its own to remove.
#[derive(Clone, Copy, Debug)]
pub struct AfterStart<'d> {
    /// The directory that is left.
    pub dir: &'d PartitionDir,
    /// The next offset that is given out.
    pub log_end_offset: i64,
    /// What the checkpoints said before.
    pub checkpoints: CheckpointedOffsets,
}

/// The `.log` files that any start deletes, with their base offsets.
pub fn set_aside(dir: &PartitionDir) -> impl Iterator<Item = (i64, &FileEntry)> {
    let unfinished = unfinished_from(dir);
    dir.files.iter().filter_map(move |file| {
        let LogFileKind::Log(base) = file.parsed.kind else {
            return None;
        };
        let is_deleted = match file.parsed.state {
            FileState::Live | FileState::Temporary => false,
            FileState::Deleted | FileState::Cleaned => true,
            FileState::Swap => unfinished.is_some_and(|from| base >= from),
        };
        is_deleted.then_some((base, file))
    })
}

/// What becomes of the `.log` files that are set aside.
#[derive(Debug, Default)]
pub struct LastCopies {
    /// What is lost with each of them, in their order, of those that have something.
    pub lost: Vec<LostLog>,
    /// The offsets of those that a cleaner may have replaced, as far as they count, each up to the
    /// next segment: what is not lost there had been compacted away.
    pub cleaned: OffsetRanges,
}

/// Finds out what goes with the `.log` files set aside in `listed`. Batches whose offsets are in
/// `told` have been counted before, and those that are counted here are added to it.
///
/// # Errors
/// If a file cannot be read, or a broker was at work on a directory where something would be lost.
pub fn last_copies(
    listed: &PartitionDir,
    after: AfterStart<'_>,
    told: &mut OffsetRanges,
    has_checksums: bool,
    io: Io,
) -> Result<LastCopies, Error> {
    let mut found = LastCopies::default();
    if !listed.is_on_disk() || !listed.is_whole || set_aside(listed).next().is_none() {
        return Ok(found);
    }
    let (mut logs, span) = going_logs(listed, after, io)?;
    let Some((first, last)) = span else {
        return Ok(found);
    };
    let from = logs.iter().map(|it| it.base_offset).min().unwrap_or(first);
    let mut stays = Stays::default();
    for segment in segments_with(after.dir, from.min(first), last) {
        if let Some(entry) = after.dir.file(segment.log)
            && let Some(file) = after.dir.open_file(entry, io)?
        {
            stays.take(segment.base_offset, &file, has_checksums)?;
        }
    }
    let mut is_compacted = after.checkpoints.cleaner_offset.is_some() || stays.is_cleaned;
    for log in &logs {
        is_compacted = is_compacted
            || log.may_be_cleaned && has_twin(listed, log.base_offset)
            || is_cleaned(log.base_offset, &log.file)?;
    }
    if is_compacted {
        let bases = bases_around(listed, after.dir);
        for log in &mut logs {
            log.next_base = next_base(&bases, log.base_offset);
            if let Some(next) = log.next_base.filter(|_| log.may_be_cleaned) {
                let first = log.base_offset.max(log.counts.start);
                found.cleaned.add(first, next.min(log.counts.end) - 1);
            }
        }
    } else {
        logs.iter_mut().for_each(|log| log.may_be_cleaned = false);
    }
    let dirs = (listed, after.dir);
    found.lost = lost_with(
        &logs,
        &stays,
        told,
        dirs,
        after.checkpoints,
        has_checksums,
        io,
    )?;
    found.lost.retain(|log| log.reason.is_some());
    if !found.lost.is_empty() {
        // A broker may have been about to move the log start, or the epochs with it.
        let mut settling = listed.settling();
        loop {
            listed.check_unchanged()?;
            if !settling.wait() {
                break;
            }
        }
    }
    Ok(found)
}

/// A first and a last offset.
type Span = (i64, i64);

/// The logs set aside that have offsets which count, and the first and last one of these.
fn going_logs(
    listed: &PartitionDir,
    after: AfterStart<'_>,
    io: Io,
) -> Result<(Vec<GoingLog>, Option<Span>), Error> {
    let known = Known::of(listed, after, io)?;
    let (mut logs, mut all) = (Vec::new(), None);
    for (base_offset, entry) in set_aside(listed) {
        let Some(file) = listed.open_file(entry, io)? else {
            continue;
        };
        let counts = known.counted(base_offset, entry);
        let Some((first, last)) = span_in(&file, &counts)? else {
            continue;
        };
        let was_cut_off = entry.parsed.state == FileState::Deleted
            && is_rewritten(&file, base_offset, (first, last), after.dir, io)?;
        if was_cut_off {
            continue;
        }
        let (from, to) = all.unwrap_or((first, last));
        all = Some((first.min(from), last.max(to)));
        logs.push(GoingLog {
            base_offset,
            name: entry.name().into_owned(),
            file,
            counts,
            next_base: None,
            may_be_cleaned: known.may_be_cleaned(listed, base_offset, entry),
        });
    }
    Ok((logs, all))
}

/// What is known of the log when it was stopped.
struct Known {
    /// Below it retention or `DeleteRecords` had given records up.
    start: i64,
    /// From here on a truncation may have cut off what was not acknowledged.
    cut_from: i64,
    /// Whether there is a segment in use: a truncation leaves one
    /// (`LocalLog.createAndDeleteSegment`).
    has_log: bool,
    /// The base offsets of the first and the last segment that are left.
    bases: Option<(i64, i64)>,
    /// Those of indexes in use whose `.log` no start brings back: a broker gives a `.log` its
    /// suffix with the indexes (`LogSegment.changeFileSuffixes`).
    orphans: BTreeSet<i64>,
    /// Offsets of snapshots where no segment in use begins: a broker deletes them with the segment
    /// (`UnifiedLog.deleteProducerSnapshots`).
    snapshots: BTreeSet<i64>,
}

impl Known {
    fn of(listed: &PartitionDir, after: AfterStart<'_>, io: Io) -> Result<Self, Error> {
        let AfterStart {
            dir,
            log_end_offset,
            checkpoints,
        } = after;
        let first = dir.segments.first().map(|it| it.base_offset);
        let last = dir.segments.last().map(|it| it.base_offset);
        let checkpoint = checkpoints.log_start_offset.unwrap_or(0);
        // Without a segment the start makes one there.
        let begins = first.unwrap_or(checkpoint);
        // The first epoch begins where the log does, as long as the log did not begin with records
        // of no epoch (`LeaderEpochFileCache.truncateFromStart`).
        let began = if may_be_tiered(listed, checkpoints.log_start_offset) {
            // What is deleted from the front had been copied before.
            begins
        } else {
            first_epoch_start(listed, io)?.unwrap_or(begins)
        };
        let past_end = high_watermark_past_end(listed, checkpoints, log_end_offset, io);
        Ok(Self {
            start: began.min(begins).max(checkpoint),
            cut_from: past_end.unwrap_or(log_end_offset),
            has_log: !listed.segments.is_empty(),
            bases: first.zip(last),
            orphans: orphan_indexes(listed, |base| has_swap(listed, base))
                .map(|(base, _)| base)
                .collect(),
            snapshots: lone_snapshots(listed),
        })
    }

    /// The offsets of a log set aside that had not been given up.
    fn counted(&self, base: i64, entry: &FileEntry) -> Range<i64> {
        let may_be_cut = self.has_log && self.was_deleted(base, entry);
        let end = if may_be_cut { self.cut_from } else { i64::MAX };
        self.start..end.max(self.start)
    }

    /// Whether a cleaner may have made another segment of it.
    fn may_be_cleaned(&self, listed: &PartitionDir, base: i64, entry: &FileEntry) -> bool {
        let is_within = self
            .bases
            .is_some_and(|(first, last)| (first..last).contains(&base));
        (is_within || has_twin(listed, base))
            && self.was_deleted(base, entry)
            && !self.snapshots.contains(&base)
    }

    /// Whether a broker gave the `.log` its suffix.
    fn was_deleted(&self, base: i64, entry: &FileEntry) -> bool {
        entry.parsed.state == FileState::Deleted && !self.orphans.contains(&base)
    }
}

/// Whether a segment in use begins there, or one that a start puts into place. Beside a `.log` of
/// the same base offset that a broker has set aside it was made of that one.
fn has_twin(dir: &PartitionDir, base_offset: i64) -> bool {
    has_segment(dir, base_offset) || has_swap(dir, base_offset)
}

fn has_segment(dir: &PartitionDir, base_offset: i64) -> bool {
    let found = dir
        .segments
        .binary_search_by_key(&base_offset, |it| it.base_offset);
    found.is_ok()
}

/// Offsets of the snapshots where no segment in use begins.
fn lone_snapshots(dir: &PartitionDir) -> BTreeSet<i64> {
    let live = dir
        .files
        .iter()
        .filter(|it| it.parsed.state == FileState::Live);
    let snapshots = live.filter_map(|file| {
        if let LogFileKind::ProducerSnapshot(at) = file.parsed.kind {
            Some(at)
        } else {
            None
        }
    });
    snapshots.filter(|at| !has_segment(dir, *at)).collect()
}

/// Where segments begin, or began, by all files that tell.
fn bases_around(listed: &PartitionDir, after: &PartitionDir) -> BTreeSet<i64> {
    let in_use = [listed, after].into_iter().flat_map(|dir| &dir.segments);
    let in_use = in_use.map(|it| it.base_offset);
    let aside = set_aside(listed).map(|(base, _)| base);
    let orphans = orphan_indexes(listed, |_| false).map(|(base, _)| base);
    in_use.chain(aside).chain(orphans).collect()
}

/// The one behind `base_offset`.
fn next_base(bases: &BTreeSet<i64>, base_offset: i64) -> Option<i64> {
    let mut behind = bases.range((Bound::Excluded(base_offset), Bound::Unbounded));
    behind.next().copied()
}

/// First and last of these offsets that the batches of a `.log` reach, by their headers.
fn span_in(file: &MappedFile, counts: &Range<i64>) -> Result<Option<Span>, Error> {
    let mut span: Option<Span> = None;
    for_each_extent::<Error>(file, false, |extent| {
        if let Extent::Batch(batch) = extent
            && batch.last_offset >= counts.start
            && batch.first_offset < counts.end
        {
            let (from, to) = span.unwrap_or((batch.first_offset, batch.last_offset));
            span = Some((from.min(batch.first_offset), to.max(batch.last_offset)));
        }
        Ok(())
    })?;
    Ok(span)
}

/// The segments in use that may have some of these offsets: the last one that begins before them,
/// and those that begin among them.
pub(super) fn segments_with(
    dir: &PartitionDir,
    first: i64,
    last: i64,
) -> impl Iterator<Item = &SegmentFiles> {
    let from = dir.segments.partition_point(|it| it.base_offset <= first);
    let segments = dir.segments.iter().skip(from.saturating_sub(1));
    segments.take_while(move |it| it.base_offset <= last)
}
