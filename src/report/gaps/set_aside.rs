//! Segments that any start deletes and that a compacted log misses: what a cleaner would have kept
//! of them is nowhere else.

use super::finding::{Detail, Finding, GapClass};
use super::offsets::Offsets;
use super::witnesses::{Witness, WitnessKind};
use crate::format::file_name::FileState;
use crate::log::Error;
use crate::log::last_copies::{AfterStart, last_copies};
use crate::log::offset_ranges::OffsetRanges;

/// Files that are the last copy of records, and the first and last offset of these, ascending.
pub(super) type SetAside = Vec<(Witness, (i64, i64))>;

impl Offsets<'_> {
    /// Tells the offsets among these that are lost with segments set aside, and what had been
    /// compacted away in front of them. Returns the first offset that is left.
    pub(super) fn lost_with_set_aside(
        &mut self,
        first: i64,
        last: i64,
        found: &mut Vec<Finding>,
    ) -> Result<i64, Error> {
        let set_aside = match self.set_aside.take() {
            Some(known) => known,
            None => self.find_set_aside()?,
        };
        let mut next = first;
        for (witness, offsets) in &set_aside {
            let (from, to) = (offsets.0.max(next), offsets.1.min(last));
            if from > to {
                continue;
            }
            if next < from {
                self.hole(next, from - 1, GapClass::CompactedBetweenBatches, found);
            }
            if let Some(told) = self.hole(from, to, GapClass::SegmentMissing, found) {
                told.detail = Detail::ToldBy(*witness);
            }
            next = to.saturating_add(1);
        }
        self.set_aside = Some(set_aside);
        Ok(next)
    }

    fn find_set_aside(&self) -> Result<SetAside, Error> {
        let after = AfterStart {
            dir: self.dir,
            // A hole in front of a segment lies below it.
            log_end_offset: i64::MAX,
            checkpoints: self.checkpoints,
        };
        let mut told = OffsetRanges::default();
        let lost = last_copies(self.dir.listed(), after, &mut told, false, self.io)?;
        let kinds = [
            (FileState::Deleted, WitnessKind::DeletedLog),
            (FileState::Cleaned, WitnessKind::CleanedLog),
            (FileState::Swap, WitnessKind::LogSwap),
        ];
        let kind = |file: &str| {
            let mut kinds = kinds.iter();
            let found = kinds.find(|(state, _)| file.ends_with(state.suffix()));
            found.map(|(_, kind)| *kind)
        };
        let mut set_aside: SetAside = lost
            .iter()
            .filter_map(|it| {
                let witness = Witness {
                    kind: kind(&it.file)?,
                    base_offset: it.base_offset,
                };
                Some((witness, it.missing()?))
            })
            .collect();
        set_aside.sort_by_key(|(_, offsets)| *offsets);
        Ok(set_aside)
    }
}
