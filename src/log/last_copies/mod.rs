//! What goes with a `.log` that a start removes: what no file has that stays.
//!
//! A cleaner leaves a segment with less in it in the place of others, so that offsets alone do not
//! tell what is lost; where it may have been at work the keys decide. Which logs go, and what
//! stays, is a matter of `.swap` files ([`super::swap_files`]) or of leftovers ([`last_copies`]).
//! What a replica lacks of another one is asked in the same way ([`LackingReplica`]).

mod going;
mod kept;
mod leftovers;
mod replica;
mod rewritten;
mod transactions;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use self::kept::{Question, WhyKept, kept_by_cleaner};
pub use self::leftovers::{AfterStart, LastCopies, last_copies, set_aside};
pub use self::replica::{LackingReplica, LostRecords};
use super::checkpoints::CheckpointedOffsets;
use super::extents::{BatchExtent, Extent, for_each_extent};
use super::mapped_file::MappedFile;
use super::offset_ranges::OffsetRanges;
use super::partition_dir::PartitionDir;
use super::records::DEFAULT_MAX_BATCH_BYTES;
use super::{Error, Io};

/// A `.log` that goes.
#[derive(Debug)]
pub(super) struct GoingLog {
    pub(super) base_offset: i64,
    pub(super) name: String,
    pub(super) file: MappedFile,
    /// The offsets that count: below them the log had given its records up, and behind them nothing
    /// was acknowledged.
    pub(super) counts: Range<i64>,
    /// Where the next one begins, if what lies between had been compacted away.
    pub(super) next_base: Option<i64>,
    /// Whether what stays may be without records that a cleaner took out.
    pub(super) may_be_cleaned: bool,
}

/// What is lost with a `.log`.
#[derive(Clone, Debug, Default)]
pub struct LostLog {
    /// Its base offset.
    pub base_offset: i64,
    /// Its name.
    pub file: String,
    /// Where it begins and the offset behind its end, as far as they count: what lies before its
    /// first batch and behind its last one had been compacted away.
    pub(super) extent: Range<i64>,
    /// The offsets of what is lost, as far as they count.
    pub offsets: OffsetRanges,
    /// Batches with a right checksum that no file has which stays.
    pub batches: u64,
    /// Their records, without those that a cleaner would have taken out.
    pub records: u64,
    /// Whole batches with a wrong checksum that go with them.
    pub corrupt_batches: u64,
    /// Bytes that are no whole batch and go with them.
    pub other_bytes: u64,
    /// Why it is lost and not compacted away; `None` if nothing is lost.
    pub reason: Option<LostReason>,
    /// What a cleaner would have kept.
    pub kept: KeptCounts,
}

/// How many records a cleaner would have kept, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptCounts {
    /// Values without a later record of their key.
    pub last_of_key: u64,
    /// Tombstones without one, a value of whose key stays.
    pub tombstones: u64,
    /// Markers of transactions with batches that stay.
    pub markers: u64,
    /// Records at or behind the first offset that was not decided.
    pub undecided: u64,
}

/// Why records that go count as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// What stays has other bytes in their place, which no consumer can read.
    Damaged,
    /// Nothing has them that stays, and no cleaner has taken them out: nothing tells that the log
    /// is compacted, or what stays was made by no cleaner.
    NotCompacted,
    /// Nothing has them that stays, and a cleaner would not have taken them out: nothing later has
    /// their keys.
    LastOfKey,
    /// Nothing has them that stays, and a cleaner would have kept them: there are others than
    /// [`KeptCounts::last_of_key`].
    CleanerKeeps,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Damaged => "what stays in its place is damaged there",
            Self::LastOfKey => "nothing else has them, and no later record has their keys",
            Self::CleanerKeeps => "nothing else has them, and a cleaner would have kept them",
            Self::NotCompacted => "nothing else has them, and it was no cleaner that took them out",
        })
    }
}

impl KeptCounts {
    fn count(&mut self, why: WhyKept) {
        let of_it = match why {
            WhyKept::LastOfKey => &mut self.last_of_key,
            WhyKept::Tombstone => &mut self.tombstones,
            WhyKept::Marker => &mut self.markers,
            WhyKept::Undecided => &mut self.undecided,
        };
        *of_it += 1;
    }

    fn reason(&self) -> Option<LostReason> {
        let others = self.tombstones + self.markers + self.undecided;
        match (self.last_of_key, others) {
            (0, 0) => None,
            (_, 0) => Some(LostReason::LastOfKey),
            (_, _) => Some(LostReason::CleanerKeeps),
        }
    }
}

/// Each kind that there is, with its number.
impl fmt::Display for KeptCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (
                self.markers,
                "marker of a transaction that stays",
                "markers of transactions that stay",
            ),
            (
                self.tombstones,
                "tombstone of a key with an older value that stays",
                "tombstones of keys with an older value that stays",
            ),
            (
                self.undecided,
                "record above the last stable offset",
                "records above the last stable offset",
            ),
            (
                self.last_of_key,
                "record whose key no later one has",
                "records whose keys no later one has",
            ),
        ];
        let mut separator = "";
        for (count, one, many) in kinds.into_iter().filter(|(count, _, _)| *count > 0) {
            let what = if count == 1 { one } else { many };
            write!(f, "{separator}{count} {what}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl LostLog {
    /// The offsets that are not there without it: those of what is lost and, where a whole segment
    /// is, what had been compacted away around it.
    #[must_use]
    pub fn missing(&self) -> Option<(i64, i64)> {
        let (first, last) = self.span()?;
        Some(match self.reason {
            Some(LostReason::NotCompacted) => {
                let end = self.extent.end.saturating_sub(1);
                (first.min(self.extent.start), last.max(end))
            }
            Some(LostReason::Damaged | LostReason::LastOfKey | LostReason::CleanerKeeps) | None => {
                (first, last)
            }
        })
    }

    /// First and last offset of what is lost.
    #[must_use]
    pub fn span(&self) -> Option<(i64, i64)> {
        let (first, _) = self.offsets.iter().next()?;
        let (_, last) = self.offsets.iter().next_back()?;
        Some((first, last))
    }
}

/// What is lost with each of the logs. Batches whose offsets are in `told` have been counted
/// before, and those that are counted here are added to it. `after` is the directory that is left,
/// and `stays` what is in it, or in the part of it that takes the place of the logs. `checkpoints`
/// are those of before.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn lost_with(
    logs: &[GoingLog],
    stays: &Stays,
    told: &mut OffsetRanges,
    (listed, after): (&PartitionDir, &PartitionDir),
    checkpoints: CheckpointedOffsets,
    has_checksums: bool,
    io: Io,
) -> Result<Vec<LostLog>, Error> {
    let mut lost = Vec::new();
    let mut taken_out = OffsetRanges::default();
    for log in logs {
        lost.push(LostLog::of(
            log,
            stays,
            told,
            has_checksums,
            &mut taken_out,
        )?);
    }
    let question = Question {
        taken_out: &taken_out,
        listed,
        after,
        indexed: &[listed],
        checkpoints,
        has_checksums,
        max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
        io,
    };
    let kept = if taken_out.is_empty() {
        Vec::new()
    } else {
        kept_by_cleaner(&logs, question)?.records
    };
    let mut batches = BTreeSet::new();
    for it in kept {
        if let Some(of) = lost.get_mut(it.log)
            && told.add(it.offset, it.offset)
        {
            of.offsets.add(it.offset, it.offset);
            of.records += 1;
            of.batches += u64::from(batches.insert((it.log, it.batch)));
            of.kept.count(it.why);
        }
    }
    for of in &mut lost {
        of.reason = of.reason.or(of.kept.reason());
        of.leave_out(&stays.readable);
    }
    Ok(lost)
}

impl LostLog {
    /// What is lost by its batches; of what a cleaner may have taken out only the offsets are added
    /// to `taken_out`.
    fn of(
        log: &GoingLog,
        stays: &Stays,
        told: &mut OffsetRanges,
        has_checksums: bool,
        taken_out: &mut OffsetRanges,
    ) -> Result<Self, Error> {
        let mut lost = Self {
            base_offset: log.base_offset,
            file: log.name.clone(),
            extent: log.base_offset.max(log.counts.start)..log.next_base.unwrap_or(log.base_offset),
            ..Self::default()
        };
        for_each_extent::<Error>(&log.file, has_checksums, |extent| {
            let batch = match extent {
                Extent::Batch(batch) => batch,
                Extent::Damage { size_in_bytes } => {
                    lost.other_bytes += size_in_bytes;
                    return Ok(());
                }
            };
            let end = batch.last_offset.saturating_add(1).min(log.counts.end);
            lost.extent.end = lost.extent.end.max(end);
            let Some((first, last)) = log.counted(&batch) else {
                return Ok(());
            };
            match stays.lacks(first, last, log.may_be_cleaned) {
                Some(_) if !batch.is_valid => lost.corrupt_batches += 1,
                Some(LostReason::LastOfKey) => {
                    taken_out.add(batch.first_offset, batch.last_offset);
                }
                Some(reason) if told.add(first, last) => {
                    let offsets = u64::try_from(last - first).unwrap_or(0).saturating_add(1);
                    lost.offsets.add(first, last);
                    lost.batches += 1;
                    lost.records += batch.records.min(offsets);
                    lost.reason.get_or_insert(reason);
                }
                Some(_) | None => {}
            }
            Ok(())
        })?;
        Ok(lost)
    }
}

impl LostLog {
    /// Of what had been compacted away around it, what lies in front of its own batches or behind
    /// them is missing only as far as nothing that stays begins or ends between.
    fn leave_out(&mut self, readable: &OffsetRanges) {
        let Some((first, last)) = self.span() else {
            return;
        };
        let end = self.extent.end.saturating_sub(1).max(last);
        let parts = readable.without(self.extent.start.min(first), end);
        let part_of = |offset| {
            parts
                .iter()
                .find(|(from, to)| (from..=to).contains(&&offset))
        };
        self.extent = part_of(first).map_or(first, |(from, _)| *from)
            ..part_of(last).map_or(last, |(_, to)| *to).saturating_add(1);
    }
}

impl GoingLog {
    /// The offsets of a batch that count.
    fn counted(&self, batch: &BatchExtent) -> Option<(i64, i64)> {
        let first = batch.first_offset.max(self.counts.start);
        let last = batch.last_offset.min(self.counts.end.saturating_sub(1));
        (first <= last).then_some((first, last))
    }
}

/// What stays, as far as it may have what goes.
#[derive(Debug, Default)]
pub(super) struct Stays {
    /// Offsets of batches that can be read.
    readable: OffsetRanges,
    /// Offsets that lie, or may have lain, in bytes that cannot be.
    damaged: OffsetRanges,
    /// Whether a cleaner has been at work on it.
    pub(super) is_cleaned: bool,
}

impl Stays {
    /// Takes in what a `.log` has.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn take(
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

    /// Why these offsets of one batch are lost, if they are not in what stays. Whether a cleaner
    /// may have taken the records out is to be asked of their keys.
    fn lacks(&self, first: i64, last: i64, may_be_cleaned: bool) -> Option<LostReason> {
        if self.readable.contains(first, last) {
            return None;
        }
        if self.damaged.touches(first, last) {
            return Some(LostReason::Damaged);
        }
        Some(if may_be_cleaned {
            LostReason::LastOfKey
        } else {
            LostReason::NotCompacted
        })
    }
}

/// Whether a cleaner has been at work on a `.log`.
///
/// # Errors
/// If it cannot be read.
pub(super) fn is_cleaned(base_offset: i64, log: &MappedFile) -> Result<bool, Error> {
    let mut of_it = Stays::default();
    of_it.take(base_offset, log, false)?;
    Ok(of_it.is_cleaned)
}
