//! What a log has lost behind an offset, for whoever has to know what may have lain there.

use std::ops::ControlFlow;

use super::after_swaps::AfterSwaps;
use super::doubt::is_sound;
use super::finding::{Detail, Finding, GapKind, OffsetRange};
use super::{GapFold, GapOptions, find_gaps};
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

    /// Those behind `offset`. Reads from near its batch on.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(in crate::report) fn behind(
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
        io: Io,
        offset: i64,
    ) -> Result<Self, Error> {
        let options = options(io);
        if AfterSwaps::of(dir, checkpoints, &options)?.is_some() {
            return Self::of(dir, checkpoints, io);
        }
        // It begins in the middle, where sequences fit nothing.
        let fold = GapFold::begin(dir, checkpoints, &options)?;
        let mut fold = fold.believing_headers();
        let mut lost = Self::default();
        let mut found = Vec::new();
        let mut is_begun = false;
        let vanished = walk_partition_near(dir, io, offset, |at, entry| {
            if !std::mem::replace(&mut is_begun, true) {
                let begins_at = match &entry {
                    Entry::Batch(batch) => batch.header.base_offset(),
                    Entry::Legacy(_) | Entry::Damage(_) => at.base_offset,
                };
                fold.offsets.start_at(at.index, begins_at);
            }
            fold.entry(at, &entry, &mut found)?;
            // Of a damaged marker nobody knows whose it is.
            if let Entry::Batch(batch) = &entry
                && batch.header.attributes().is_control()
                && !is_sound(batch)?
            {
                let header = batch.header;
                lost.ranges.add(header.base_offset(), header.last_offset());
            }
            found.drain(..).for_each(|finding| lost.take(&finding));
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        fold.offsets.finish(&mut found)?;
        fold.offsets.behind_log(&mut found)?;
        found.iter().for_each(|finding| lost.take(finding));
        if !vanished.is_empty() && !lost.ranges.is_empty() {
            return Err(Error::ChangedWhileReading {
                path: dir.path.clone(),
            });
        }
        Ok(lost)
    }

    /// A torn batch above the high watermark is none of them: who wrote it was not told that it is
    /// stored, and writes it again.
    fn take(&mut self, finding: &Finding) {
        let is_acknowledged = !matches!(finding.detail, Detail::AboveHighWatermark(_));
        if let (GapKind::OffsetGap, Some(first)) = (finding.kind, finding.first_offset)
            && finding.is_loss()
            && is_acknowledged
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
