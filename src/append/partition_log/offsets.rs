//! The offsets that move while the log stays as it is: high watermark and log start offset.

use super::PartitionLog;
use crate::append::error::Error;
use crate::append::local_log::Lookup;
use crate::append::scheduler::Task;
use crate::state::{LogOffsetMetadata, LogOffsets, ProducerStateManager, Refusal, StableOffsets};

impl PartitionLog {
    /// Sets the high watermark within log start and log end; returns it
    /// (`UnifiedLog.updateHighWatermark`).
    ///
    /// # Errors
    /// If it would be negative, or files cannot be read.
    pub fn update_high_watermark(&mut self, offset: i64) -> Result<i64, Error> {
        let high_watermark = LogOffsetMetadata::offset_only(offset);
        self.with_offsets(|offsets, manager, lookup| {
            offsets.update_high_watermark(high_watermark, manager, lookup)
        })
    }

    /// Raises the high watermark; returns whether it changed
    /// (`UnifiedLog.maybeIncrementHighWatermark`).
    ///
    /// # Errors
    /// If it would pass the log end, or files cannot be read.
    pub fn maybe_increment_high_watermark(&mut self, offset: i64) -> Result<bool, Error> {
        let high_watermark = LogOffsetMetadata::offset_only(offset);
        self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_high_watermark(high_watermark, manager, lookup)
        })
    }

    /// Raises the high watermark to the log end, as a leader does whose only in-sync replica is
    /// itself (`Partition.maybeIncrementLeaderHW`).
    ///
    /// # Errors
    /// If files cannot be read.
    pub fn raise_high_watermark_to_log_end(&mut self) -> Result<bool, Error> {
        self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_high_watermark(lookup.log_end_offset(), manager, lookup)
        })
    }

    /// Raises the log start offset; returns whether it changed
    /// (`UnifiedLog.maybeIncrementLogStartOffset`).
    ///
    /// # Errors
    /// If it would pass the high watermark, or files cannot be read.
    pub fn maybe_increment_log_start_offset(&mut self, offset: i64) -> Result<bool, Error> {
        self.log.check_online()?;
        let changed = self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_log_start_offset(offset, manager, lookup)
        })?;
        if changed {
            if self.log.recovery_point() < offset {
                self.log.set_recovery_point(offset);
            }
            if self.epochs.truncate_from_start(offset) {
                self.background.soon(Task::WriteLeaderEpochs);
            }
        }
        Ok(changed)
    }

    pub(super) fn high_watermark_to_end(&mut self) -> Result<(), Error> {
        self.with_offsets(|offsets, manager, lookup| {
            offsets.update_high_watermark(lookup.log_end_offset(), manager, lookup)
        })?;
        Ok(())
    }

    /// `UnifiedLog.updateHighWatermarkWithLogEndOffset`.
    pub(super) fn high_watermark_follows_end(&mut self) -> Result<(), Error> {
        self.with_offsets(|offsets, manager, lookup| {
            offsets.update_high_watermark_with_log_end_offset(manager, lookup)
        })
    }

    /// Calls one of the methods of [`StableOffsets`] that may look into the log.
    pub(super) fn with_offsets<T>(
        &mut self,
        call: impl FnOnce(
            &mut StableOffsets,
            &mut ProducerStateManager,
            &Lookup<'_>,
        ) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        let lookup = Lookup::new(&mut self.log);
        let answer = call(&mut self.offsets, &mut self.manager, &lookup);
        lookup.finish()?;
        let answer = answer?;
        if self.log.is_closed() {
            return Err(Error::Closed);
        }
        Ok(answer)
    }
}
