//! What a log has lost behind an offset, for whoever has to know what may have lain there.

use std::ops::ControlFlow;

use super::after_swaps::AfterSwaps;
use super::finding::{Detail, Finding, GapClass, GapKind, OffsetRange};
use super::offsets::{Offsets, Placed};
use super::{GapOptions, find_gaps};
use crate::log::batches::Entry;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition_near;
use crate::log::{Error, Io};

/// Offsets that are lost, by [`find_gaps`].
#[derive(Debug, Default)]
pub(in crate::report) struct LostOffsets {
    ranges: OffsetRanges,
}

/// What a walk over the log up to its end has seen.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Walked {
    /// From where on no offset is missing, no byte is damaged and no marker in doubt; `None` if
    /// nothing is known of that.
    pub(in crate::report) whole_from: Option<i64>,
    /// The offset behind the last batch.
    pub(in crate::report) log_end_offset: i64,
}

impl LostOffsets {
    /// All of those of a partition.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(in crate::report) fn of(
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
        io: Io,
    ) -> Result<Self, Error> {
        let mut lost = Self::default();
        let options = options(io);
        find_gaps::<Error>(dir, checkpoints, &options, |finding| {
            lost.take(finding);
            Ok(())
        })?;
        Ok(lost)
    }

    /// Those behind `offset`. Reads from near its batch on, unless who `walked` the log has seen
    /// that nothing is missing there: then only what its other files tell of its end.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(in crate::report) fn behind(
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
        io: Io,
        offset: i64,
        walked: Walked,
    ) -> Result<Self, Error> {
        if AfterSwaps::of(dir, checkpoints, &options(io))?.is_some() {
            return Self::of(dir, checkpoints, io);
        }
        let mut offsets = Offsets::new(dir, io, checkpoints);
        let mut lost = Self::default();
        let mut found = Vec::new();
        let is_whole = walked.whole_from.is_some_and(|from| from <= offset);
        let vanished = if let Some(last) = dir.segments.len().checked_sub(1).filter(|_| is_whole) {
            offsets.start_at(last, walked.log_end_offset);
            let last = dir.segments.get(last).map(|it| it.base_offset);
            offsets.is_segment_empty = last >= Some(walked.log_end_offset);
            Vec::new()
        } else {
            lost.walk(dir, io, offset, &mut offsets, &mut found)?
        };
        offsets.finish(&mut found)?;
        offsets.behind_log(&mut found)?;
        found.iter().for_each(|finding| lost.take(finding));
        if !vanished.is_empty() && !lost.ranges.is_empty() {
            return Err(Error::ChangedWhileReading {
                path: dir.path.clone(),
            });
        }
        Ok(lost)
    }

    /// Follows the offsets from near `offset` on; returns the segments that vanished.
    fn walk(
        &mut self,
        dir: &PartitionDir,
        io: Io,
        offset: i64,
        offsets: &mut Offsets<'_>,
        found: &mut Vec<Finding>,
    ) -> Result<Vec<usize>, Error> {
        let mut is_begun = false;
        walk_partition_near(dir, io, offset, |at, entry| {
            if !std::mem::replace(&mut is_begun, true) {
                let begins_at = match &entry {
                    Entry::Batch(batch) => batch.header.base_offset(),
                    Entry::Legacy(_) | Entry::Damage(_) => at.base_offset,
                };
                offsets.start_at(at.index, begins_at);
            }
            offsets.enter(at.index, found)?;
            let placed = |first_offset, last_offset, position| Placed {
                segment: at.index,
                position,
                first_offset,
                last_offset,
            };
            match &entry {
                Entry::Batch(batch) => {
                    let (first, last) = (batch.header.base_offset(), batch.header.last_offset());
                    offsets.entry(placed(first, last, batch.position), found)?;
                    // Of a damaged marker nobody knows whose it is.
                    if batch.header.attributes().is_control() && !batch.is_sound()? {
                        self.ranges.add(first, last);
                    }
                }
                Entry::Legacy(entry) => {
                    // Of a compressed one the first offset is not known.
                    let last = entry.header.offset();
                    let first = offsets.next_offset.min(last);
                    offsets.entry(placed(first, last, entry.position), found)?;
                }
                Entry::Damage(damage) => offsets.damage(at.index, **damage),
            }
            found.drain(..).for_each(|finding| self.take(&finding));
            Ok::<_, Error>(ControlFlow::Continue(()))
        })
    }

    /// A torn batch above the high watermark is none of them: who wrote it was not told that it is
    /// stored, and writes it again. Nor is what is here until the next start, below a log start
    /// behind the end.
    fn take(&mut self, finding: &Finding) {
        let is_acknowledged = !matches!(finding.detail, Detail::AboveHighWatermark(_));
        if let (GapKind::OffsetGap, Some(first)) = (finding.kind, finding.first_offset)
            && finding.is_loss()
            && is_acknowledged
            && finding.class != GapClass::LogStartPastEnd
        {
            let last = finding.last_offset.unwrap_or(first);
            self.ranges.add(first, last);
        }
    }

    /// Whether one of these offsets is lost.
    pub(in crate::report) fn touches(&self, first: i64, last: i64) -> bool {
        self.ranges.touches(first, last)
    }

    /// The first and the last that are lost from one offset on and below another.
    pub(in crate::report) fn between(&self, from: i64, below: i64) -> Option<OffsetRange> {
        let within = |(first, last): (i64, i64)| last >= from && first < below;
        let mut ranges = self.ranges.iter().filter(|range| within(*range));
        let (first, last) = ranges.next()?;
        let (_, last) = ranges.next_back().unwrap_or((first, last));
        Some(OffsetRange {
            first_offset: first.max(from),
            last_offset: last.min(below - 1),
        })
    }
}

fn options(io: Io) -> GapOptions {
    GapOptions {
        io,
        ..GapOptions::default()
    }
}
