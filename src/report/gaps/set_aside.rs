//! Segments that any start deletes and that a compacted log misses: what a cleaner would have kept
//! of them is nowhere else.

use super::finding::{Detail, Finding, GapClass};
use super::offsets::Offsets;
use super::witnesses::Witness;
use crate::format::file_name::FileState;
use crate::log::Error;
use crate::log::last_copies::{AfterStart, LostReason, last_copies};
use crate::log::offset_ranges::OffsetRanges;

/// A segment set aside that is the last copy of records.
#[derive(Clone, Copy, Debug)]
struct LastCopy {
    witness: Witness,
    /// First and last offset of what is lost with it.
    offsets: (i64, i64),
    /// How many records those are, where a cleaner would have taken out the others between them.
    records: Option<u64>,
}

/// What is known of the segments set aside.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    /// Those that are the last copy of records, by their offsets.
    lost: Vec<LastCopy>,
    /// The offsets of those that a cleaner may have replaced.
    cleaned: OffsetRanges,
}

impl Offsets<'_> {
    /// Tells a hole in parts: what is lost with a segment set aside is told by that, and what else
    /// there is of one that a cleaner may have replaced was compacted away. The others are of
    /// `class`, by `witness`.
    pub(super) fn hole_in_parts(
        &mut self,
        (first, last): (i64, i64),
        (class, witness): (GapClass, Option<Witness>),
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let set_aside = match self.set_aside.take() {
            Some(known) => known,
            None => self.find_set_aside()?,
        };
        let mut next = first;
        for aside in &set_aside.lost {
            let (from, to) = (aside.offsets.0.max(next), aside.offsets.1.min(last));
            if from > to {
                continue;
            }
            let rest = (next, from - 1);
            self.hole_beside(rest, (class, witness), &set_aside.cleaned, found);
            let witness = Some(aside.witness);
            let told = self.hole_told_by(from, to, GapClass::SegmentMissing, witness, found);
            if let Some(told) = told.filter(|_| aside.offsets == (from, to)) {
                told.records = aside.records;
            }
            next = to.saturating_add(1);
        }
        self.hole_beside((next, last), (class, witness), &set_aside.cleaned, found);
        self.set_aside = Some(set_aside);
        Ok(())
    }

    /// The part of a hole with which nothing is lost that is set aside.
    fn hole_beside(
        &mut self,
        (first, last): (i64, i64),
        (class, witness): (GapClass, Option<Witness>),
        cleaned: &OffsetRanges,
        found: &mut Vec<Finding>,
    ) {
        let mut next = first;
        for (from, to) in cleaned.without(first, last) {
            if next < from {
                self.hole(next, from - 1, GapClass::CompactedBetweenBatches, found);
            }
            self.hole_told_by(from, to, class, witness, found);
            next = to.saturating_add(1);
        }
        if next <= last {
            self.hole(next, last, GapClass::CompactedBetweenBatches, found);
        }
    }

    /// Returns what it has told.
    fn hole_told_by<'f>(
        &mut self,
        first: i64,
        last: i64,
        class: GapClass,
        witness: Option<Witness>,
        found: &'f mut Vec<Finding>,
    ) -> Option<&'f mut Finding> {
        let is_at_hand = witness.is_some_and(|it| self.is_of_segment_at_hand(it));
        let place = (self.segment, self.is_segment_empty);
        let told = self.hole(first, last, class, found)?;
        if let Some(witness) = witness {
            told.detail = Detail::ToldBy(witness);
            if is_at_hand {
                told.segment = place.0;
                told.position = place.1.then_some(0);
            }
        }
        Some(told)
    }

    fn find_set_aside(&self) -> Result<SetAside, Error> {
        // A hole in front of a segment lies below the log end.
        self.set_aside_at(i64::MAX)
    }

    /// The first offset that is lost in front of the log with a segment set aside.
    pub(super) fn front_set_aside(&mut self) -> Result<Option<(i64, Witness)>, Error> {
        let known = self.find_set_aside()?;
        let front = self.next_offset;
        let first = known.lost.first().filter(|it| it.offsets.0 < front);
        let first = first.map(|it| (it.offsets.0, it.witness));
        self.set_aside = Some(known);
        Ok(first)
    }

    /// What is lost with segments set aside behind the end of the log: the first of them, and the
    /// last offset.
    pub(super) fn set_aside_behind(&self, end: i64) -> Result<Option<(Witness, i64)>, Error> {
        let behind = self.set_aside_at(end)?.lost.into_iter();
        let behind = behind.filter(|it| it.offsets.1 >= end);
        let ends = behind.map(|it| (it.witness, it.offsets.1));
        Ok(ends.reduce(|(first, to), (_, last)| (first, to.max(last))))
    }

    fn set_aside_at(&self, log_end_offset: i64) -> Result<SetAside, Error> {
        let after = AfterStart {
            dir: self.dir,
            log_end_offset,
            checkpoints: self.checkpoints,
        };
        let mut told = OffsetRanges::default();
        let aside = last_copies(self.dir.listed(), after, &mut told, false, self.io)?;
        let state = |file: &str| {
            let states = [FileState::Deleted, FileState::Cleaned, FileState::Swap];
            states.into_iter().find(|it| file.ends_with(it.suffix()))
        };
        let mut lost: Vec<_> = aside
            .lost
            .iter()
            .filter_map(|it| {
                let is_by_key = matches!(
                    it.reason,
                    Some(LostReason::LastOfKey | LostReason::CleanerKeeps)
                );
                Some(LastCopy {
                    witness: Witness::of_set_aside(it.base_offset, state(&it.file)?)?,
                    offsets: it.missing()?,
                    records: is_by_key.then_some(it.records),
                })
            })
            .collect();
        lost.sort_by_key(|it| it.offsets);
        Ok(SetAside {
            lost,
            cleaned: aside.cleaned,
        })
    }
}
