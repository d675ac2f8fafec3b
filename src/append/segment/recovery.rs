//! Making the indexes of a segment again, and taking the batches of another one over.
//!
//! Decides `LogSegment.recover`, `LogSegment.appendFromFile`.

use std::ops::ControlFlow;

use super::LogSegment;
use crate::append::error::Error;
use crate::append::files::RecoveredFrom;
use crate::append::indexes::relative_offset;
use crate::log::log_input_stream::StreamBatch;
use crate::log::segment_indexer::IndexedBatch;

impl LogSegment {
    /// Before recovery: indexes empty, largest timestamp unknown.
    pub(in crate::append) fn reset_indexes(&mut self) -> Result<(), Error> {
        self.offset_index.reset()?;
        self.time_index.reset()?;
        self.txn_index.reset()?;
        self.index_rule.set_largest_timestamp(None);
        self.index_rule.restart_count();
        Ok(())
    }

    /// Takes a batch in that recovery has found good.
    pub(in crate::append) fn recover_batch(
        &mut self,
        batch: &StreamBatch<'_>,
    ) -> Result<(), Error> {
        self.ensure_offset_in_range(batch.last_offset())?;
        self.index_batch(&IndexedBatch {
            last_offset: batch.last_offset(),
            max_timestamp: batch.max_timestamp(),
            position: batch.position(),
            size_in_bytes: batch.size_in_bytes(),
        })
    }

    /// Ends recovery, once the file has been cut to its good bytes.
    pub(in crate::append) fn end_recovery(&mut self) -> Result<(), Error> {
        // Kafka's own count is not touched by recovery.
        self.index_rule.restart_count();
        self.offset_index.get()?.trim()?;
        let last = self.max_timestamp_and_offset_so_far()?;
        self.time_index.get()?.maybe_append(last, true)?;
        self.time_index.get()?.trim()?;
        // A log of many segments would have them all in memory else.
        let from = RecoveredFrom {
            log: self.log.file(),
            index_interval_bytes: self.index_rule.index_interval_bytes(),
        };
        self.offset_index.release(&from)?;
        self.time_index.release(&from)
    }

    /// Whether the last batch is too far from the base offset (`LogSegment.hasOverflow`).
    pub(in crate::append) fn has_overflow(&mut self) -> Result<bool, Error> {
        let next_offset = self.read_next_offset()?;
        let last_offset = next_offset.wrapping_sub(1);
        Ok(next_offset > self.base_offset && !self.can_convert_to_relative_offset(last_offset)?)
    }

    /// Takes the batches of another segment over from `position` on, up to the first one that is
    /// too far from this segment's base offset. Returns how many bytes
    /// (`LogSegment.appendFromFile`).
    pub(in crate::append) fn append_from(
        &mut self,
        source: &mut Self,
        position: u64,
    ) -> Result<u64, Error> {
        let start = self.log.size();
        let batches = source.reader()?;
        batches.for_each_batch(position, u64::MAX, |batch| {
            if relative_offset(batch.last_offset(), self.base_offset).is_err() {
                return Ok(ControlFlow::Break(()));
            }
            let (position, size_in_bytes) = (self.log.size(), batch.size_in_bytes());
            self.log
                .append_part(&source.log, batch.position(), size_in_bytes)?;
            self.index_batch(&IndexedBatch {
                last_offset: batch.last_offset(),
                max_timestamp: batch.max_timestamp(),
                position,
                size_in_bytes,
            })?;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(self.log.size() - start)
    }
}
