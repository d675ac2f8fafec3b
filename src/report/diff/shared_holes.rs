//! Offsets that are gone on both sides, though nothing tells that a cleaner took them.

use super::kind::Sides;
use super::replica::Replica;
use crate::log::Error;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
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

/// What is gone on both sides. A segment that is empty in both, in logs without any trace of a
/// cleaner, need not be what one left: replicas are seldom emptied alike.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn shared(replicas: &mut Sides<Replica<'_>>) -> Result<Vec<OffsetRange>, Error> {
    let Sides { left, right } = replicas;
    let emptied = Sides {
        left: emptied(left.dir, left.log_start_offset),
        right: emptied(right.dir, right.log_start_offset),
    };
    let mut both = common(&left.lost.ranges, &right.lost.ranges);
    let both_emptied = common(&emptied.left, &emptied.right);
    if !both_emptied.is_empty() && !left.is_compacted()? && !right.is_compacted()? {
        for (first, last) in both_emptied.iter() {
            both.add(first, last);
        }
    }
    let ranges = both.iter().take(MAX_KEPT);
    let row = |(first_offset, last_offset)| OffsetRange {
        first_offset,
        last_offset,
    };
    Ok(ranges.map(row).collect())
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

/// The offsets from `start` on of segments without a byte that lie in front of others.
fn emptied(dir: &PartitionDir, start: i64) -> OffsetRanges {
    let mut offsets = OffsetRanges::default();
    for pair in dir.segments.windows(2) {
        if let [segment, next] = pair
            && dir
                .file(segment.log)
                .is_some_and(|it| it.size_in_bytes == 0)
        {
            offsets.add(segment.base_offset.max(start), next.base_offset - 1);
        }
    }
    offsets
}
