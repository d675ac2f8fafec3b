//! `.swap` files: segments that a start puts into the place of others, or deletes.
//!
//! Decides `LogLoader.removeTempFilesAndCollectSwapFiles` and the beginning of `LogLoader.load`.

use std::ops::Range;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::batches::{BatchWalk, Entry};
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};

/// What a start does with the `.swap` files of a directory.
#[derive(Debug, Default)]
pub(super) struct Swaps {
    /// By base offset: those that get their names without the suffix.
    finished: Vec<Swap>,
    /// Smallest offset of a `.cleaned`: each `.swap` from there on is deleted.
    unfinished_from: Option<i64>,
}

/// A `.log.swap` that a start puts into place.
#[derive(Debug)]
struct Swap {
    base_offset: i64,
    /// Behind its last batch.
    next_offset: i64,
    /// Whether batches or records were taken out of it.
    is_cleaned: bool,
}

impl Swaps {
    /// Walks the headers of those that are put into place; there are none but after a crash.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(super) fn of(dir: &PartitionDir, io: Io) -> Result<Self, Error> {
        let mut swaps = Self {
            finished: Vec::new(),
            unfinished_from: unfinished_from(dir),
        };
        for file in &dir.files {
            if let (LogFileKind::Log(base_offset), FileState::Swap) =
                (&file.parsed.kind, file.parsed.state)
                && !swaps.deletes(*base_offset)
                && let Some(swap) = Swap::walk(dir, file, *base_offset, io)?
            {
                swaps.finished.push(swap);
            }
        }
        swaps.finished.sort_by_key(|swap| swap.base_offset);
        Ok(swaps)
    }

    /// Whether a start deletes the `.swap` files of this offset.
    pub(super) fn deletes(&self, offset: i64) -> bool {
        self.unfinished_from.is_some_and(|from| offset >= from)
    }

    /// Whether a start makes a `.log` with this base offset of one.
    pub(super) fn restores(&self, base_offset: i64) -> bool {
        self.finished.iter().any(|it| it.base_offset == base_offset)
    }

    /// Where the log ends, if the last segment comes of it and not from `log_end`.
    pub(super) fn log_end(&self, log_end: i64) -> i64 {
        let last = self.finished.iter().map(|swap| swap.next_offset).max();
        last.map_or(log_end, |last| last.max(log_end))
    }

    /// Offsets of which every other file is deleted first.
    pub(super) fn replaces(&self) -> Option<Range<i64>> {
        let start = self.finished.iter().map(|swap| swap.base_offset).min()?;
        let end = self.finished.iter().map(|swap| swap.next_offset).max()?;
        (start < end).then_some(start..end)
    }

    /// What is left of a finding once a start has put the segments into place: offsets that are
    /// missing are as far as they do not come back, and what only follows from that is nothing.
    pub(super) fn settle(&self, finding: Finding) -> Vec<Finding> {
        if self.finished.is_empty() {
            return vec![finding];
        }
        let in_one = |offset: i64| {
            let mut finished = self.finished.iter();
            finished.any(|swap| (swap.base_offset..swap.next_offset).contains(&offset))
        };
        let offset = finding.offset;
        let range = finding.first_offset.zip(finding.last_offset);
        match (finding.kind, range) {
            (Kind::SegmentMissing, Some(range)) => self.still_missing(&finding, range),
            // The broker knows the transactions in them by then.
            (Kind::TxnindexStableOffset, _) if finding.severity == Severity::Notable => Vec::new(),
            (Kind::SnapshotOnlyTransaction, _) if offset.is_some_and(in_one) => Vec::new(),
            // The others may belong to the segments there will be.
            (Kind::StraySnapshot, _) if !offset.is_some_and(in_one) => Vec::new(),
            _ => vec![finding],
        }
    }

    fn still_missing(&self, finding: &Finding, (first, last): (i64, i64)) -> Vec<Finding> {
        let mut left = Vec::new();
        let mut next = first;
        let mut is_cleaned = false;
        let in_it = |swap: &&Swap| swap.base_offset <= last && swap.next_offset > first;
        let of_empty = |swap: &&Swap| (first..=last).contains(&swap.base_offset);
        for swap in self
            .finished
            .iter()
            .filter(|swap| in_it(swap) || of_empty(swap))
        {
            if swap.base_offset > next && !is_cleaned {
                left.push((next, swap.base_offset - 1));
            }
            next = next.max(swap.next_offset);
            is_cleaned = swap.is_cleaned;
        }
        if next <= last && !is_cleaned {
            left.push((next, last));
        }
        let part = |(first, last)| Finding {
            offset: Some(first),
            first_offset: Some(first),
            last_offset: Some(last),
            ..finding.clone()
        };
        left.into_iter().map(part).collect()
    }
}

impl Swap {
    fn walk(
        dir: &PartitionDir,
        entry: &FileEntry,
        base_offset: i64,
        io: Io,
    ) -> Result<Option<Self>, Error> {
        let Some(file) = dir.open_file(entry, io)? else {
            return Ok(None);
        };
        let mut next_offset = base_offset;
        let mut is_cleaned = false;
        let mut walk = BatchWalk::new(&file);
        while let Some(entry) = walk.next_entry() {
            let (first, last) = match entry? {
                Entry::Batch(batch) => {
                    let header = batch.header;
                    is_cleaned |=
                        header.has_less_records() || header.attributes().has_delete_horizon();
                    (header.base_offset(), header.last_offset())
                }
                Entry::Legacy(entry) => (entry.header.offset(), entry.header.offset()),
                Entry::Damage(_) => break,
            };
            is_cleaned |= first > next_offset;
            next_offset = next_offset.max(last.saturating_add(1));
        }
        Ok(Some(Self {
            base_offset,
            next_offset,
            // The cleaner leaves an empty segment where nothing of it is left.
            is_cleaned: is_cleaned || next_offset == base_offset,
        }))
    }
}

/// The smallest offset of a `.cleaned`: the compaction, or the split, that made the `.swap` files
/// from there on had not come to its end.
pub(super) fn unfinished_from(dir: &PartitionDir) -> Option<i64> {
    let is_cleaned = |file: &&FileEntry| file.parsed.state == FileState::Cleaned;
    let cleaned = dir.files.iter().filter(is_cleaned);
    cleaned.filter_map(number).min()
}

/// The number before the first dot (`LogFileUtils.offsetFromFileName`).
pub(super) fn number(file: &FileEntry) -> Option<i64> {
    file.name().split_once('.')?.0.parse().ok()
}
