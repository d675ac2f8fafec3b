//! Offsets that are gone on both sides, though no cleaner took them.

use crate::report::gaps::{Finding, GapClass, GapKind, OffsetRange};

/// Holes that are kept of a side; more are not looked at.
const MAX_KEPT: usize = 1000;

/// The holes of one side that nobody meant to make, in the order in which they were met.
#[derive(Debug, Default)]
pub(super) struct Holes {
    ranges: Vec<OffsetRange>,
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
                && self.ranges.len() < MAX_KEPT
            {
                self.ranges.push(OffsetRange {
                    first_offset,
                    last_offset,
                });
            }
        }
    }
}

/// What is gone on both sides.
pub(super) fn shared(left: &Holes, right: &Holes) -> Vec<OffsetRange> {
    let (mut left, mut right) = (
        left.ranges.iter().peekable(),
        right.ranges.iter().peekable(),
    );
    let mut both = Vec::new();
    while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
        let first_offset = l.first_offset.max(r.first_offset);
        let last_offset = l.last_offset.min(r.last_offset);
        if first_offset <= last_offset {
            both.push(OffsetRange {
                first_offset,
                last_offset,
            });
        }
        if l.last_offset < r.last_offset {
            left.next();
        } else {
            right.next();
        }
    }
    both
}
