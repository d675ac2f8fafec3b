//! Offsets that are gone on both sides, though nothing tells that a cleaner took them.

use crate::log::offset_ranges::OffsetRanges;
use crate::report::gaps::{Finding, GapClass, GapKind, OffsetRange};

/// Holes that are kept of a side; more are not looked at.
const MAX_KEPT: usize = 1000;

/// The holes of one side that nobody meant to make, in the order in which they were met.
#[derive(Debug, Default)]
pub(super) struct Holes {
    ranges: OffsetRanges,
    count: usize,
}

impl Holes {
    /// Keeps those of what was found that are such holes.
    pub(super) fn take(&mut self, found: &[Finding]) {
        for finding in found {
            let is_lost = matches!(
                finding.class,
                GapClass::SegmentMissing | GapClass::NeverStored
            );
            let range = finding.first_offset.zip(finding.last_offset);
            if let (GapKind::OffsetGap, true, Some((first_offset, last_offset))) =
                (finding.kind, is_lost, range)
                && self.count < MAX_KEPT
            {
                self.ranges.add(first_offset, last_offset);
                self.count += 1;
            }
        }
    }
}

/// What is gone on both sides.
pub(super) fn shared(left: &Holes, right: &Holes) -> Vec<OffsetRange> {
    let both = common(&left.ranges, &right.ranges);
    let ranges = both.iter().take(MAX_KEPT);
    let row = |(first_offset, last_offset)| OffsetRange {
        first_offset,
        last_offset,
    };
    ranges.map(row).collect()
}

fn common(left: &OffsetRanges, right: &OffsetRanges) -> OffsetRanges {
    let mut both = OffsetRanges::default();
    for (first, last) in left.iter() {
        for (first, last) in right.within(first, last) {
            both.add(first, last);
        }
    }
    both
}
