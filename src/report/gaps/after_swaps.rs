//! What a start makes of `.swap` files: it brings back the segments that they hold, and deletes
//! those whose place they take.

use std::collections::HashMap;

use super::finding::{Detail, Finding, GapClass, GapKind};
use super::offsets::gap;
use super::witnesses::Witness;
use super::{GapOptions, find_gaps};
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::swap_files::{LostBySwaps, Swaps};
use crate::report::filter::Filter;

/// Missing sequences that are kept to be compared; where there are more, all stay missing.
const MAX_MISSING: usize = 1 << 16;

/// The log once a start has put the `.swap` files into place, against what it is now.
pub(super) struct AfterSwaps {
    /// Offsets that are not in it, or not to be read.
    absent: OffsetRanges,
    /// First and last sequences that are lost then as well, by producer id and epoch.
    missing: HashMap<(i64, i16), Vec<(i32, i32)>>,
    has_all_missing: bool,
    log_end_offset: i64,
    /// The `.log.swap` files that are put into place, ascending.
    swaps: Vec<Witness>,
    /// What is in the log now and not then.
    lost: Vec<Finding>,
}

impl AfterSwaps {
    /// `None` if a start puts none into place.
    pub(super) fn of(
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: &GapOptions,
    ) -> Result<Option<Self>, Error> {
        // A batch of a `.swap` with a wrong checksum is none that comes in the place of another.
        let swaps = Swaps::of(dir, options.io, checkpoints, true)?;
        let Some(placed) = swaps.placed() else {
            return Ok(None);
        };
        let options = GapOptions {
            filter: Filter::default(),
            ..options.clone()
        };
        let mut absent = OffsetRanges::default();
        let mut missing: HashMap<_, Vec<_>> = HashMap::new();
        let mut kept = 0;
        let summary = find_gaps::<Error>(placed, checkpoints, &options, |finding| {
            match (finding.kind, finding.first_offset) {
                (GapKind::OffsetGap, Some(first)) if finding.is_loss() => {
                    absent.add(first, finding.last_offset.unwrap_or(i64::MAX));
                }
                (GapKind::Missing, _) if finding.is_loss() && kept < MAX_MISSING => {
                    if let Some((producer, sequences)) = finding.producer.zip(finding.sequences) {
                        missing.entry(producer).or_default().push(sequences);
                        kept += 1;
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        absent.add(i64::MIN, summary.log_start_offset.saturating_sub(1));
        absent.add(summary.log_end_offset, i64::MAX);
        let mut files: Vec<Witness> = dir
            .files
            .iter()
            .filter_map(Witness::of_swap)
            .filter(|it| !swaps.deletes(it.base_offset))
            .collect();
        files.sort_by_key(|it| it.base_offset);
        let mut after = Self {
            absent,
            missing,
            has_all_missing: kept < MAX_MISSING,
            log_end_offset: summary.log_end_offset,
            swaps: files,
            lost: Vec::new(),
        };
        after.find_lost(dir, swaps.lost());
        Ok(Some(after))
    }

    /// One finding for each `.log` that has records which are lost then.
    fn find_lost(&mut self, dir: &PartitionDir, lost: &LostBySwaps) {
        let Some(reason) = lost.reason else {
            return;
        };
        // How many there are is not counted apart.
        let records = (lost.spans.len() == 1).then_some(lost.records);
        for &(first, last) in &lost.spans {
            let behind = dir
                .segments
                .partition_point(|segment| segment.base_offset <= first);
            let swap = self.swap_of(first, last);
            self.lost.push(Finding {
                segment: behind.checked_sub(1),
                records,
                detail: swap.map_or(Detail::None, |swap| Detail::ReplacedBy { swap, reason }),
                ..gap(first, last, GapClass::SwapLoss)
            });
        }
    }

    /// What is in the log now and lost then.
    pub(super) fn lost(&self) -> &[Finding] {
        &self.lost
    }

    /// The last offset of the log then.
    pub(super) fn last_offset(&self) -> i64 {
        self.log_end_offset.saturating_sub(1)
    }

    /// A finding about the log as it is, in parts: what comes back, and what does not.
    pub(super) fn settle(&self, finding: Finding) -> Vec<Finding> {
        match finding.kind {
            GapKind::OffsetGap
                if finding.is_loss() || finding.class == GapClass::BeforeLogStart =>
            {
                self.parts(finding)
            }
            GapKind::Missing if finding.is_loss() && self.brings_back(&finding) => vec![Finding {
                class: GapClass::SegmentInSwap,
                ..finding
            }],
            GapKind::OffsetGap
            | GapKind::Missing
            | GapKind::Repeated
            | GapKind::Reordered
            | GapKind::EpochRegression => vec![finding],
        }
    }

    /// What comes back behind an offset at which the log ends now and nothing is told of.
    pub(super) fn behind(&self, log_end_offset: i64) -> Vec<Finding> {
        let gap = gap(log_end_offset, self.last_offset(), GapClass::SegmentInSwap);
        let parts = self.parts(gap).into_iter();
        parts.filter(|part| part.detail != Detail::None).collect()
    }

    fn brings_back(&self, finding: &Finding) -> bool {
        let Some((producer, (first, last))) = finding.producer.zip(finding.sequences) else {
            return false;
        };
        let still = self.missing.get(&producer).map_or(&[][..], Vec::as_slice);
        let is_missing = |&(from, to): &(i32, i32)| from <= last && first <= to;
        self.has_all_missing && !still.iter().any(is_missing)
    }

    fn parts(&self, finding: Finding) -> Vec<Finding> {
        let Some(first) = finding.first_offset else {
            return vec![finding];
        };
        let last = finding.last_offset.unwrap_or(self.last_offset());
        let mut parts = Vec::new();
        let mut next = first;
        let absent = |from: i64, to: Option<i64>| Finding {
            first_offset: Some(from),
            last_offset: to,
            ..finding
        };
        for (from, to) in self.absent.without(first, last) {
            if next < from {
                parts.push(absent(next, from.checked_sub(1)));
            }
            parts.push(Finding {
                class: GapClass::SegmentInSwap,
                detail: self.swap_of(from, to).map_or(Detail::None, Detail::ToldBy),
                ..absent(from, Some(to))
            });
            next = to.saturating_add(1);
        }
        if next <= last || parts.is_empty() {
            parts.push(absent(next, finding.last_offset));
        }
        parts
    }

    /// The `.log.swap` with the first of these offsets, or with others of them.
    fn swap_of(&self, first: i64, last: i64) -> Option<Witness> {
        let behind = self.swaps.partition_point(|it| it.base_offset <= first);
        let holds_first = behind.checked_sub(1).and_then(|at| self.swaps.get(at));
        let next = self.swaps.get(behind).filter(|it| it.base_offset <= last);
        holds_first.or(next).copied()
    }
}
