//! Which old segments go: by log start offset, size and time.
//!
//! Decides `UnifiedLog.deleteOldSegments`.

use super::PartitionLog;
use crate::append::error::Error;
use crate::append::segment::LogSegment;

impl PartitionLog {
    /// Deletes old segments; returns how many. Never one that reaches above the high watermark,
    /// and only from the front.
    ///
    /// # Errors
    /// If files cannot be changed.
    pub fn delete_old_segments(&mut self) -> Result<usize, Error> {
        let mut deleted = self.delete_below_log_start()?;
        if self.config().delete {
            deleted += self.delete_by_size()?;
            deleted += self.delete_by_time()?;
        }
        Ok(deleted)
    }

    fn delete_below_log_start(&mut self) -> Result<usize, Error> {
        let log_start_offset = self.offsets.log_start_offset();
        self.delete_while(|_, next| Ok(next.is_some_and(|next| next <= log_start_offset)))
    }

    fn delete_by_size(&mut self) -> Result<usize, Error> {
        let (size, Ok(retention)) = (
            self.size_in_bytes(),
            u64::try_from(self.config().retention_bytes),
        ) else {
            return Ok(0);
        };
        let Some(mut excess) = size.checked_sub(retention) else {
            return Ok(0);
        };
        self.delete_while(|segment, _| match excess.checked_sub(segment.size()) {
            Some(rest) => {
                excess = rest;
                Ok(true)
            }
            None => Ok(false),
        })
    }

    fn delete_by_time(&mut self) -> Result<usize, Error> {
        let retention_ms = self.config().retention_ms;
        if retention_ms < 0 {
            return Ok(0);
        }
        let now_ms = self.now_ms();
        self.delete_while(|segment, _| {
            Ok(now_ms.wrapping_sub(segment.largest_timestamp()?) > retention_ms)
        })
    }

    /// `UnifiedLog.deletableSegments`. `is_old` is asked with the segment and the base offset of
    /// the next one.
    fn delete_while(
        &mut self,
        mut is_old: impl FnMut(&mut LogSegment, Option<i64>) -> Result<bool, Error>,
    ) -> Result<usize, Error> {
        let high_watermark = self.offsets.high_watermark();
        let log_end_offset = self.log_end_offset();
        let bases: Vec<i64> = self.segments().collect();
        let mut deletable = Vec::new();
        for (index, &base_offset) in bases.iter().enumerate() {
            let next = bases.get(index + 1).copied();
            let Some(segment) = self.log.segments.get_mut(&base_offset) else {
                break;
            };
            let upper_bound_offset = next.unwrap_or(log_end_offset);
            let is_last_and_empty = next.is_none() && segment.size() == 0;
            if high_watermark < upper_bound_offset || !is_old(segment, next)? || is_last_and_empty {
                break;
            }
            deletable.push(base_offset);
        }
        self.delete_segments(deletable)
    }

    /// `UnifiedLog.deleteSegments`.
    fn delete_segments(&mut self, mut deletable: Vec<i64>) -> Result<usize, Error> {
        let count = deletable.len();
        if count == 0 {
            return Ok(0);
        }
        self.log.check_open()?;
        if self.log.segments.len() == count {
            let new_base_offset = self.roll()?;
            if deletable.last() == Some(&new_base_offset) {
                deletable.pop();
            }
        }
        if let Some(last) = deletable.last() {
            let after = last.saturating_add(1);
            let next = self
                .log
                .segments
                .range(after..)
                .next()
                .map(|(base, _)| *base);
            if let Some(log_start_offset) = next {
                self.maybe_increment_log_start_offset(log_start_offset)?;
            }
            self.log
                .remove_and_delete(&deletable, &mut self.background)?;
        }
        self.delete_snapshots_of(&deletable)?;
        Ok(count)
    }
}
