//! A partition in memory: batch headers by segment, and the snapshots that would be files.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use kseg::format::control_record::EndTransactionMarker;
use kseg::format::record_batch::RecordBatchHeader;
use kseg::state::rebuild::BatchVisitor;
use kseg::state::{
    AbortedTxnRow, LogOffsetMetadata, LogOffsets, ProducerSnapshotRow, ProducerStateLog,
    ProducerStateManager, Refusal,
};

pub(crate) type Batch = (RecordBatchHeader, Option<EndTransactionMarker>);

#[derive(Default)]
pub(crate) struct Segment {
    pub(crate) batches: Vec<Batch>,
    pub(crate) aborted: Vec<AbortedTxnRow>,
}

pub(crate) struct MemoryLog {
    pub(crate) segments: BTreeMap<i64, Segment>,
    pub(crate) log_end_offset: i64,
    pub(crate) snapshots: BTreeMap<i64, Vec<ProducerSnapshotRow>>,
}

impl MemoryLog {
    pub(crate) fn active_base_offset(&self) -> i64 {
        *self.segments.last_key_value().unwrap().0
    }

    pub(crate) fn active(&mut self) -> &mut Segment {
        self.segments.last_entry().unwrap().into_mut()
    }

    /// Positions are only told apart, never compared with bytes: one batch counts as one.
    fn place(segment_base_offset: i64, index: usize, message_offset: i64) -> LogOffsetMetadata {
        LogOffsetMetadata {
            message_offset,
            segment_base_offset,
            relative_position_in_segment: i32::try_from(index).unwrap(),
        }
    }

    /// `LogSegment.truncateTo` for the segment that is the last one.
    pub(crate) fn cut_active(&mut self, offset: i64) {
        let active = self.active();
        active
            .batches
            .retain(|(header, _)| header.last_offset() < offset);
        active.aborted.retain(|row| row.last_offset < offset);
        self.log_end_offset = offset;
    }
}

impl LogOffsets for MemoryLog {
    fn log_end_offset(&self) -> LogOffsetMetadata {
        let (base_offset, active) = self.segments.last_key_value().unwrap();
        Self::place(*base_offset, active.batches.len(), self.log_end_offset)
    }

    fn maybe_convert_to_offset_metadata(&self, offset: i64) -> LogOffsetMetadata {
        let floor = self.segments.range(..=offset).next_back();
        let Some((&floor, _)) = floor.filter(|_| offset <= self.log_end_offset) else {
            return LogOffsetMetadata::offset_only(offset);
        };
        if offset == self.log_end_offset {
            return self.log_end_offset();
        }
        for (base_offset, segment) in self.segments.range(floor..) {
            let found = segment
                .batches
                .iter()
                .enumerate()
                .find(|(_, (header, _))| header.last_offset() >= offset);
            if let Some((index, (header, _))) = found {
                return Self::place(*base_offset, index, header.base_offset());
            }
        }
        self.log_end_offset()
    }
}

impl ProducerStateLog for MemoryLog {
    type Error = Refusal;

    fn segment_base_offsets(
        &self,
        range: impl RangeBounds<i64>,
    ) -> impl DoubleEndedIterator<Item = i64> {
        self.segments.range(range).map(|(base, _)| *base)
    }

    fn read_snapshot(&mut self, offset: i64) -> Result<Option<Vec<ProducerSnapshotRow>>, Refusal> {
        Ok(self.snapshots.get(&offset).cloned())
    }

    fn delete_snapshot(&mut self, offset: i64) -> Result<(), Refusal> {
        self.snapshots.remove(&offset);
        Ok(())
    }

    fn write_snapshot(
        &mut self,
        offset: i64,
        manager: &ProducerStateManager,
    ) -> Result<(), Refusal> {
        self.snapshots
            .insert(offset, manager.snapshot_rows().collect());
        Ok(())
    }

    fn for_each_batch(
        &mut self,
        segment_base_offset: i64,
        start_offset: i64,
        end_offset: Option<i64>,
        each: &mut BatchVisitor<'_>,
    ) -> Result<(), Refusal> {
        for (header, marker) in &self.segments[&segment_base_offset].batches {
            if end_offset.is_some_and(|end| header.last_offset() >= end) {
                break;
            }
            if header.last_offset() >= start_offset {
                each(header, *marker)?;
            }
        }
        Ok(())
    }
}
