//! The partition as recovery finds and leaves it: its segments up to where they are recovered, and
//! its snapshots, those of the directory and those that recovery has written, which stay in memory.

use std::ops::RangeBounds;

use super::RebuildOptions;
use super::segment::Extent;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::open_segment;
use crate::log::{Error, Io};
use crate::report::partition_state::{read_snapshot, snapshot_files};
use crate::state::rebuild::BatchVisitor;
use crate::state::{
    ProducerSnapshotRow, ProducerStateLog, ProducerStateManager, Refusal, SnapshotOffsets,
};

/// A snapshot recovery has written.
pub(super) struct WrittenSnapshot {
    pub(super) offset: i64,
    pub(super) rows: Vec<ProducerSnapshotRow>,
}

/// The partition as recovery finds and leaves it, in memory.
pub(super) struct RecoveredLog<'d> {
    pub(super) dir: &'d PartitionDir,
    io: Io,
    /// Base offsets of the segments there still are.
    pub(super) bases: Vec<i64>,
    /// The snapshots there are, of the directory and written ones.
    pub(super) snapshots: SnapshotOffsets,
    /// The newest written ones, ascending.
    pub(super) written: Vec<WrittenSnapshot>,
    /// The segments recovered so far.
    pub(super) recovered: Vec<Extent>,
}

impl<'d> RecoveredLog<'d> {
    pub(super) fn new(dir: &'d PartitionDir, options: RebuildOptions) -> Self {
        let mut snapshots = SnapshotOffsets::default();
        if !options.from_scratch {
            snapshots = snapshot_files(dir).map(|(offset, _)| offset).collect();
        }
        Self {
            dir,
            io: options.io,
            bases: dir.segments.iter().map(|it| it.base_offset).collect(),
            snapshots,
            written: Vec::new(),
            recovered: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, offset: i64, manager: &ProducerStateManager) {
        self.forget(offset);
        self.snapshots.insert(offset);
        let place = self.written.partition_point(|it| it.offset < offset);
        let rows = manager.snapshot_rows().collect();
        self.written.insert(place, WrittenSnapshot { offset, rows });
    }

    pub(super) fn forget(&mut self, offset: i64) {
        self.snapshots.remove(offset);
        self.written.retain(|written| written.offset != offset);
    }
}

/// Why state could not be built.
pub(super) enum Failure {
    Log(Error),
    Refused(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl ProducerStateLog for RecoveredLog<'_> {
    type Error = Failure;

    fn segment_base_offsets(
        &self,
        range: impl RangeBounds<i64>,
    ) -> impl DoubleEndedIterator<Item = i64> {
        let bases = self.bases.iter().copied();
        bases.filter(move |base| range.contains(base))
    }

    fn read_snapshot(&mut self, offset: i64) -> Result<Option<Vec<ProducerSnapshotRow>>, Failure> {
        if let Some(written) = self.written.iter().find(|it| it.offset == offset) {
            return Ok(Some(written.rows.clone()));
        }
        let rows = read_snapshot(self.dir, self.io, offset).map_err(Failure::Log)?;
        Ok(rows.and_then(Result::ok))
    }

    fn delete_snapshot(&mut self, offset: i64) -> Result<(), Failure> {
        self.forget(offset);
        Ok(())
    }

    fn write_snapshot(
        &mut self,
        offset: i64,
        manager: &ProducerStateManager,
    ) -> Result<(), Failure> {
        self.write(offset, manager);
        Ok(())
    }

    fn for_each_batch(
        &mut self,
        segment_base_offset: i64,
        start_offset: i64,
        end_offset: Option<i64>,
        each: &mut BatchVisitor<'_>,
    ) -> Result<(), Failure> {
        let same_base = |it: &&Extent| it.base_offset == segment_base_offset;
        let segments = &self.dir.segments;
        let segment = segments
            .iter()
            .find(|it| it.base_offset == segment_base_offset);
        let (Some(extent), Some(segment)) = (self.recovered.iter().find(same_base), segment) else {
            return Ok(());
        };
        if extent.end_offset <= start_offset {
            return Ok(());
        }
        let Some(opened) = open_segment(self.dir, segment, self.io).map_err(Failure::Log)? else {
            return Ok(());
        };
        let mut walk = BatchWalk::new(&opened.file);
        while walk.position() < extent.valid_bytes
            && let Some(entry) = walk.next_entry()
        {
            let Entry::Batch(batch) = entry.map_err(Failure::Log)? else {
                continue;
            };
            let last_offset = batch.header.last_offset();
            if end_offset.is_some_and(|end| last_offset >= end) {
                break;
            }
            if last_offset >= start_offset {
                let marker = batch.marker().map_err(Failure::Log)?;
                each(batch.header, marker)?;
            }
        }
        Ok(())
    }
}
