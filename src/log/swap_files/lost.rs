//! What goes with the segments that `.swap` files replace.

use std::collections::BTreeSet;
use std::fmt;

use super::last_of_key::{Taken, last_of_key};
use super::{Swap, Swaps};
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::extents::{BatchExtent, Extent, for_each_extent};
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// What goes with the segments that are replaced.
#[derive(Clone, Debug, Default)]
pub struct LostBySwaps {
    /// The offsets of its batches.
    pub offsets: OffsetRanges,
    /// Batches with a right checksum.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// First and last of each `.log` that has some.
    pub spans: Vec<(i64, i64)>,
    /// The offsets of all segments that are replaced, with what had been compacted away in them:
    /// until then nothing of them is missing.
    pub replaced: OffsetRanges,
    /// The name of the first `.log` that has one.
    pub file: Option<String>,
    /// Why it is lost and not compacted away.
    pub reason: Option<LostReason>,
}

/// Why records that go for a `.swap` count as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The `.swap` has other bytes in their place, which no consumer can read.
    Damaged,
    /// No `.swap` has them, and no cleaner has taken them out: nothing tells that the log is
    /// compacted, or a `.swap` is without the indexes that a cleaner makes.
    NotCompacted,
    /// No `.swap` has them, and a cleaner would not have taken them out: nothing later has their
    /// keys.
    LastOfKey,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "the .swap in its place is damaged there",
            Self::LastOfKey => "no .swap has them, and no later record has their keys",
            Self::NotCompacted => "no .swap has them, and it was no cleaner that took them out",
        })
    }
}

impl Swaps {
    /// The cleaner takes out what is not the last of its key. Where nothing tells that it has been
    /// at work, all is lost that no `.swap` has, and anywhere what the `.swap` has in bytes that
    /// cannot be read.
    pub(super) fn find_lost(
        &mut self,
        dir: &PartitionDir,
        logs: &[(i64, MappedFile)],
        io: Io,
        (is_compacted, has_checksums): (bool, bool),
    ) -> Result<(), Error> {
        let replaced = self.replaced_logs(dir, io)?;
        if replaced.is_empty() {
            return Ok(());
        }
        let mut there = There::default();
        for (base_offset, log) in logs {
            there.take(*base_offset, log, has_checksums)?;
        }
        let mut is_compacted = is_compacted || there.is_cleaned;
        for log in &replaced {
            let mut of_it = There::default();
            of_it.take(log.base_offset, &log.file, false)?;
            is_compacted |= of_it.is_cleaned;
        }
        is_compacted &= self.finished.iter().all(|swap| has_indexes(dir, swap));
        let mut taken_out = OffsetRanges::default();
        for log in &replaced {
            let lacks = |batch: &BatchExtent| there.lacks(batch, is_compacted);
            self.lost.count(log, has_checksums, lacks, &mut taken_out)?;
        }
        let Some(placed) = self.placed.as_ref().filter(|_| !taken_out.is_empty()) else {
            return Ok(());
        };
        let logs: Vec<&MappedFile> = replaced.iter().map(|it| &it.file).collect();
        let taken = last_of_key(&logs, &taken_out, (dir, placed), io)?;
        self.lost.add_records(&taken, &replaced);
        Ok(())
    }

    fn replaced_logs(&self, dir: &PartitionDir, io: Io) -> Result<Vec<ReplacedLog>, Error> {
        let mut replaced = Vec::new();
        for (index, segment) in dir.segments.iter().enumerate() {
            let base_offset = segment.base_offset;
            let is_replaced = self.replaced.binary_search(&base_offset).is_ok();
            if let Some(entry) = dir.file(segment.log).filter(|_| is_replaced)
                && let Some(file) = dir.open_file(entry, io)?
            {
                replaced.push(ReplacedLog {
                    base_offset,
                    next_base: dir.segments.get(index + 1).map(|it| it.base_offset),
                    name: entry.name().into_owned(),
                    file,
                });
            }
        }
        Ok(replaced)
    }
}

/// A `.log` in use that goes.
struct ReplacedLog {
    base_offset: i64,
    /// Where the next one in use begins.
    next_base: Option<i64>,
    name: String,
    file: MappedFile,
}

/// Whether a `.swap` has the indexes that a cleaner makes. It gives them the suffix after the
/// `.log`, and until then all are taken for unfinished.
fn has_indexes(dir: &PartitionDir, swap: &Swap) -> bool {
    let base = swap.base_offset;
    let indexes = [LogFileKind::OffsetIndex(base), LogFileKind::TimeIndex(base)];
    indexes.iter().all(|kind| {
        let mut files = dir.files.iter();
        files.any(|it| it.parsed.state == FileState::Swap && it.parsed.kind == *kind)
    })
}

impl LostBySwaps {
    /// Counts what goes with a `.log`; of what a cleaner may have taken out only the offsets are
    /// added to `taken_out`.
    fn count(
        &mut self,
        log: &ReplacedLog,
        has_checksums: bool,
        lacks: impl Fn(&BatchExtent) -> Option<LostReason>,
        taken_out: &mut OffsetRanges,
    ) -> Result<(), Error> {
        let mut span: Option<(i64, i64)> = None;
        let mut end = log.base_offset;
        for_each_extent::<Error>(&log.file, has_checksums, |extent| {
            let Extent::Batch(batch) = extent else {
                return Ok(());
            };
            let (first, last) = (batch.first_offset, batch.last_offset);
            end = end.max(last.saturating_add(1));
            match lacks(&batch) {
                Some(LostReason::LastOfKey) => {
                    taken_out.add(first, last);
                }
                Some(reason) => {
                    self.offsets.add(first, last);
                    self.batches += 1;
                    self.records += batch.records;
                    self.file.get_or_insert_with(|| log.name.clone());
                    self.reason.get_or_insert(reason);
                    let (from, to) = span.unwrap_or((first, last));
                    span = Some((from.min(first), to.max(last)));
                }
                None => {}
            }
            Ok(())
        })?;
        self.spans.extend(span);
        // What lies between it and the next one had been compacted away.
        let end = log.next_base.unwrap_or(end).max(end);
        self.replaced.add(log.base_offset, end.saturating_sub(1));
        Ok(())
    }

    /// Takes in records that a cleaner would not have taken out.
    fn add_records(&mut self, taken: &[Taken], replaced: &[ReplacedLog]) {
        let batches: BTreeSet<i64> = taken.iter().map(|it| it.batch).collect();
        self.batches += batches.len() as u64;
        for it in taken {
            self.offsets.add(it.offset, it.offset);
            self.records += 1;
        }
        let first = taken.iter().map(|it| it.offset).min();
        let last = taken.iter().map(|it| it.offset).max();
        let Some((first, last)) = first.zip(last) else {
            return;
        };
        self.spans.push((first, last));
        self.reason.get_or_insert(LostReason::LastOfKey);
        if self.file.is_none() {
            let mut logs = replaced.iter().rev();
            let log = logs.find(|log| log.base_offset <= first);
            self.file = log.map(|log| log.name.clone());
        }
    }
}

/// What some files hold.
#[derive(Default)]
struct There {
    /// Offsets of batches that can be read.
    readable: OffsetRanges,
    /// Offsets that lie, or may have lain, in bytes that cannot be.
    damaged: OffsetRanges,
    is_cleaned: bool,
}

impl There {
    fn take(
        &mut self,
        base_offset: i64,
        log: &MappedFile,
        has_checksums: bool,
    ) -> Result<(), Error> {
        let mut next = base_offset;
        let mut is_after_damage = false;
        for_each_extent::<Error>(log, has_checksums, |extent| {
            let Extent::Batch(batch) = extent else {
                is_after_damage = true;
                return Ok(());
            };
            let (first, last) = (batch.first_offset, batch.last_offset);
            if is_after_damage {
                self.damaged.add(next, first.saturating_sub(1));
            } else {
                self.is_cleaned |= first > next;
            }
            is_after_damage = false;
            self.is_cleaned |= batch.is_cleaned;
            if batch.is_valid {
                self.readable.add(first, last);
            } else {
                self.damaged.add(first, last);
            }
            next = next.max(last.saturating_add(1));
            Ok(())
        })?;
        if is_after_damage {
            self.damaged.add(next, i64::MAX);
        }
        Ok(())
    }

    /// Why a batch is lost, if these files do not have it. Whether a cleaner may have taken its
    /// records out is to be asked of them.
    fn lacks(&self, batch: &BatchExtent, is_compacted: bool) -> Option<LostReason> {
        let (first, last) = (batch.first_offset, batch.last_offset);
        if !batch.is_valid || self.readable.contains(first, last) {
            return None;
        }
        if self.damaged.touches(first, last) {
            return Some(LostReason::Damaged);
        }
        Some(if is_compacted {
            LostReason::LastOfKey
        } else {
            LostReason::NotCompacted
        })
    }
}
