//! High watermark, first unstable offset and last stable offset of a partition.

use super::log_offset_metadata::LogOffsetMetadata;
use super::producer_state_manager::ProducerStateManager;
use super::refusal::Refusal;

/// What the log answers when offsets are looked up.
pub trait LogOffsets {
    /// The log end offset and its place.
    fn log_end_offset(&self) -> LogOffsetMetadata;

    /// Whether it may still be looked into. Of a log that was closed nothing is: what would have
    /// come of the look stays as it was (`LocalLog.checkIfMemoryMappedBufferClosed`).
    fn is_open(&self) -> bool {
        true
    }

    /// The batch found for an offset: its *base* offset and place. The offset alone if it lies
    /// outside the log; the log end if no batch is at or behind it
    /// (`UnifiedLog.maybeConvertToOffsetMetadata`).
    fn maybe_convert_to_offset_metadata(&self, offset: i64) -> LogOffsetMetadata;
}

/// The offsets up to which a partition may be read, as `UnifiedLog` keeps them.
///
/// The first unstable offset is a field of its own and is computed anew only at certain moments;
/// after a truncation it can lag behind the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StableOffsets {
    log_start_offset: i64,
    high_watermark: LogOffsetMetadata,
    first_unstable_offset: Option<LogOffsetMetadata>,
}

impl StableOffsets {
    /// As a log has them when it has just been loaded: the high watermark at the log start
    /// (`UnifiedLog` constructor).
    #[must_use]
    pub fn new(
        log_start_offset: i64,
        manager: &ProducerStateManager,
        log: &impl LogOffsets,
    ) -> Self {
        let mut offsets = Self {
            log_start_offset,
            high_watermark: LogOffsetMetadata::offset_only(log_start_offset),
            first_unstable_offset: None,
        };
        offsets.maybe_increment_first_unstable_offset(manager, log);
        offsets
    }

    /// The log start offset.
    #[must_use]
    pub fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// The high watermark.
    #[must_use]
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark.message_offset
    }

    /// The first unstable offset as last computed (`UnifiedLog.firstUnstableOffset`).
    #[must_use]
    pub fn first_unstable_offset(&self) -> Option<i64> {
        self.first_unstable_offset
            .map(|metadata| metadata.message_offset)
    }

    /// Where `read_committed` ends: the first unstable offset if it is below the high watermark,
    /// else the high watermark (`UnifiedLog.lastStableOffset`).
    #[must_use]
    pub fn last_stable_offset(&self) -> i64 {
        let high_watermark = self.high_watermark();
        self.first_unstable_offset()
            .filter(|&offset| offset < high_watermark)
            .unwrap_or(high_watermark)
    }

    /// Sets the high watermark, up or down, within log start and log end; returns it
    /// (`UnifiedLog.updateHighWatermark`).
    ///
    /// # Errors
    /// If it would be negative.
    pub fn update_high_watermark(
        &mut self,
        high_watermark: LogOffsetMetadata,
        manager: &mut ProducerStateManager,
        log: &impl LogOffsets,
    ) -> Result<i64, Refusal> {
        let log_end_offset = log.log_end_offset();
        let bounded = if high_watermark.message_offset < self.log_start_offset {
            LogOffsetMetadata::offset_only(self.log_start_offset)
        } else if high_watermark.message_offset >= log_end_offset.message_offset {
            log_end_offset
        } else {
            high_watermark
        };
        self.set_high_watermark(bounded, manager, log)?;
        Ok(bounded.message_offset)
    }

    /// Raises the high watermark; returns whether it changed
    /// (`UnifiedLog.maybeIncrementHighWatermark`).
    ///
    /// A high watermark of which only the offset is known is looked up first, and falls back to
    /// the base offset of the batch found, even if it is not raised then.
    ///
    /// # Errors
    /// If it would pass the log end.
    pub fn maybe_increment_high_watermark(
        &mut self,
        high_watermark: LogOffsetMetadata,
        manager: &mut ProducerStateManager,
        log: &impl LogOffsets,
    ) -> Result<bool, Refusal> {
        let found = high_watermark.message_offset;
        let log_end_offset = log.log_end_offset().message_offset;
        if found > log_end_offset {
            return Err(Refusal::HighWatermarkAboveLogEnd {
                found,
                log_end_offset,
            });
        }
        if !log.is_open() {
            return Ok(false);
        }
        if self.high_watermark.message_offset_only() {
            let known = log.maybe_convert_to_offset_metadata(self.high_watermark());
            self.set_high_watermark(known, manager, log)?;
        }
        let old = self.high_watermark;
        let raises = old.message_offset < found
            || (old.message_offset == found && old.on_older_segment(&high_watermark));
        if raises {
            self.set_high_watermark(high_watermark, manager, log)?;
        }
        Ok(raises)
    }

    /// After an append or a roll: a high watermark at or above the log end becomes the log end
    /// (`UnifiedLog.updateHighWatermarkWithLogEndOffset`).
    ///
    /// # Errors
    /// If it would be negative.
    pub fn update_high_watermark_with_log_end_offset(
        &mut self,
        manager: &mut ProducerStateManager,
        log: &impl LogOffsets,
    ) -> Result<(), Refusal> {
        let log_end_offset = log.log_end_offset();
        if self.high_watermark() >= log_end_offset.message_offset {
            self.set_high_watermark(log_end_offset, manager, log)?;
        }
        Ok(())
    }

    /// Raises the log start offset; returns whether it changed
    /// (`UnifiedLog.maybeIncrementLogStartOffset`).
    ///
    /// # Errors
    /// If it would pass the high watermark.
    pub fn maybe_increment_log_start_offset(
        &mut self,
        log_start_offset: i64,
        manager: &mut ProducerStateManager,
        log: &impl LogOffsets,
    ) -> Result<bool, Refusal> {
        let high_watermark = self.high_watermark();
        if log_start_offset > high_watermark {
            return Err(Refusal::LogStartAboveHighWatermark {
                found: log_start_offset,
                high_watermark,
            });
        }
        if log_start_offset <= self.log_start_offset || !log.is_open() {
            return Ok(false);
        }
        self.log_start_offset = log_start_offset;
        manager.on_log_start_offset_incremented(log_start_offset);
        self.maybe_increment_first_unstable_offset(manager, log);
        Ok(true)
    }

    /// Sets the log start offset, as truncation does, and nothing else
    /// (`UnifiedLog.truncateTo`, `UnifiedLog.truncateFullyAndStartAt`).
    pub fn set_log_start_offset(&mut self, log_start_offset: i64) {
        self.log_start_offset = log_start_offset;
    }

    /// Computes the first unstable offset anew. Looked up in the log, from the log start on, if
    /// only the offset is known or it lies below the log start
    /// (`UnifiedLog.maybeIncrementFirstUnstableOffset`).
    pub fn maybe_increment_first_unstable_offset(
        &mut self,
        manager: &ProducerStateManager,
        log: &impl LogOffsets,
    ) {
        if !log.is_open() {
            return;
        }
        self.first_unstable_offset = manager.first_unstable_offset().map(|metadata| {
            if metadata.message_offset_only() || metadata.message_offset < self.log_start_offset {
                let offset = metadata.message_offset.max(self.log_start_offset);
                log.maybe_convert_to_offset_metadata(offset)
            } else {
                metadata
            }
        });
    }

    /// `UnifiedLog.updateHighWatermarkMetadata`.
    fn set_high_watermark(
        &mut self,
        high_watermark: LogOffsetMetadata,
        manager: &mut ProducerStateManager,
        log: &impl LogOffsets,
    ) -> Result<(), Refusal> {
        let found = high_watermark.message_offset;
        if found < 0 {
            return Err(Refusal::NegativeHighWatermark { found });
        }
        self.high_watermark = high_watermark;
        manager.on_high_watermark_updated(found);
        self.maybe_increment_first_unstable_offset(manager, log);
        Ok(())
    }
}
