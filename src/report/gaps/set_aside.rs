//! Segments that any start deletes and that a compacted log misses: what a cleaner would have kept
//! of them is nowhere else.

use super::finding::{Detail, Finding, GapClass};
use super::offsets::Offsets;
use super::witnesses::Witness;
use crate::format::file_name::FileState;
use crate::log::Error;
use crate::log::last_copies::{AfterStart, last_copies};
use crate::log::offset_ranges::OffsetRanges;

/// What is known of the segments set aside.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    /// Those that are the last copy of records, and the first and last offset of these, ascending.
    lost: Vec<(Witness, (i64, i64))>,
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
        for (aside, offsets) in &set_aside.lost {
            let (from, to) = (offsets.0.max(next), offsets.1.min(last));
            if from > to {
                continue;
            }
            let rest = (next, from - 1);
            self.hole_beside(rest, (class, witness), &set_aside.cleaned, found);
            self.hole_told_by(from, to, GapClass::SegmentMissing, Some(*aside), found);
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

    fn hole_told_by(
        &mut self,
        first: i64,
        last: i64,
        class: GapClass,
        witness: Option<Witness>,
        found: &mut Vec<Finding>,
    ) {
        let is_at_hand = witness.is_some_and(|it| self.is_of_segment_at_hand(it));
        let place = (self.segment, self.is_segment_empty);
        let told = self.hole(first, last, class, found);
        if let (Some(witness), Some(told)) = (witness, told) {
            told.detail = Detail::ToldBy(witness);
            if is_at_hand {
                told.segment = place.0;
                told.position = place.1.then_some(0);
            }
        }
    }

    fn find_set_aside(&self) -> Result<SetAside, Error> {
        // A hole in front of a segment lies below the log end.
        self.set_aside_at(i64::MAX)
    }

    /// The first offset that is lost in front of the log with a segment set aside.
    pub(super) fn front_set_aside(&mut self) -> Result<Option<(i64, Witness)>, Error> {
        let known = self.find_set_aside()?;
        let front = self.next_offset;
        let first = known.lost.first().filter(|(_, (from, _))| *from < front);
        let first = first.map(|(witness, (from, _))| (*from, *witness));
        self.set_aside = Some(known);
        Ok(first)
    }

    /// What is lost with segments set aside behind the end of the log: the first of them, and the
    /// last offset.
    pub(super) fn set_aside_behind(&self, end: i64) -> Result<Option<(Witness, i64)>, Error> {
        let behind = self.set_aside_at(end)?.lost.into_iter();
        let behind = behind.filter(|(_, (_, last))| *last >= end);
        Ok(behind
            .reduce(|(first, (from, to)), (_, (_, last))| (first, (from, to.max(last))))
            .map(|(witness, (_, last))| (witness, last)))
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
                let witness = Witness::of_set_aside(it.base_offset, state(&it.file)?)?;
                Some((witness, it.missing()?))
            })
            .collect();
        lost.sort_by_key(|(_, offsets)| *offsets);
        Ok(SetAside {
            lost,
            cleaned: aside.cleaned,
        })
    }
}
