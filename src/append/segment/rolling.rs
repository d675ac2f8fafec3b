//! When a segment is full, and what is done with it then.
//!
//! Decides `LogSegment.shouldRoll`, `RollParams`.

use std::ops::ControlFlow;

use super::LogSegment;
use crate::append::config::LogConfig;
use crate::append::error::Error;
use crate::append::indexes::relative_offset;

/// What decides whether a segment is rolled before an append (`RollParams`).
#[derive(Clone, Copy, Debug)]
pub(in crate::append) struct RollParams {
    pub(in crate::append) max_timestamp_in_messages: i64,
    pub(in crate::append) max_offset_in_messages: i64,
    pub(in crate::append) messages_size: u64,
    pub(in crate::append) now_ms: i64,
}

impl LogSegment {
    /// `LogSegment.shouldRoll`.
    pub(in crate::append) fn should_roll(
        &mut self,
        config: &LogConfig,
        params: &RollParams,
    ) -> Result<bool, Error> {
        let waited = self.time_waited_for_roll(params)?;
        let segment_bytes = u64::try_from(config.segment_bytes).unwrap_or(0);
        // Kafka opens the indexes only if nothing before them decides, but then logs their
        // fill: they are open after a roll in any case.
        Ok(
            self.log.size() > segment_bytes.saturating_sub(params.messages_size)
                || (self.log.size() > 0 && waited > config.segment_ms)
                || self.offset_index.get()?.is_full()
                || self.time_index.get()?.is_full()
                || !self.can_convert_to_relative_offset(params.max_offset_in_messages)?,
        )
    }

    pub(super) fn can_convert_to_relative_offset(&mut self, offset: i64) -> Result<bool, Error> {
        self.offset_index.get()?;
        Ok(relative_offset(offset, self.base_offset).is_ok())
    }

    /// `LogSegment.timeWaitedForRoll`.
    fn time_waited_for_roll(&mut self, params: &RollParams) -> Result<i64, Error> {
        if self.rolling_based_timestamp.is_none() {
            let mut first = None;
            self.for_each_batch(0, u64::MAX, |batch| {
                first = Some(batch.max_timestamp());
                Ok(ControlFlow::Break(()))
            })?;
            self.rolling_based_timestamp = first;
        }
        Ok(match self.rolling_based_timestamp {
            Some(first) if first >= 0 => params.max_timestamp_in_messages.wrapping_sub(first),
            Some(_) | None => params.now_ms.wrapping_sub(self.created_ms),
        })
    }

    /// `LogSegment.onBecomeInactiveSegment`.
    pub(in crate::append) fn on_become_inactive(&mut self) -> Result<(), Error> {
        let last = self.max_timestamp_and_offset_so_far()?;
        self.time_index.get()?.maybe_append(last, true)?;
        self.offset_index.get()?.trim()?;
        self.time_index.get()?.trim()?;
        self.log.trim()
    }
}
