//! The segments of a partition, where the log ends, and up to where it is on disk.
//!
//! Decides `LocalLog`, `LogSegments`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::config::LogConfig;
use super::error::{Error, Rejection};
use super::files::Files;
use super::load_trace::LoadTrace;
use super::scheduler::{Scheduler, Task};
use super::segment::LogSegment;
use crate::format::aborted_txn::AbortedTxn;
use crate::format::file_name::FileState;
use crate::state::{LogOffsetMetadata, LogOffsets};

/// The clock and what waits for it, passed along to whatever makes or deletes files.
#[derive(Debug)]
pub(super) struct Background {
    pub(super) now_ms: i64,
    /// Whether that is a time: without one nothing is too old.
    pub(super) has_clock: bool,
    pub(super) scheduler: Scheduler,
}

impl Background {
    /// Removes files after `file.delete.delay.ms`.
    pub(super) fn delete_later(&mut self, files: Vec<PathBuf>, config: &LogConfig) {
        let due_ms = self.now_ms.saturating_add(config.file_delete_delay_ms);
        self.scheduler.schedule(Task::DeleteFiles(files), due_ms);
    }

    /// Runs a task as soon as the step is over.
    pub(super) fn soon(&mut self, task: Task) {
        self.scheduler.schedule(task, self.now_ms);
    }
}

/// The segments of a partition.
#[derive(Debug)]
pub(super) struct LocalLog {
    pub(super) files: Files,
    pub(super) dir: PathBuf,
    pub(super) config: LogConfig,
    pub(super) segments: BTreeMap<i64, LogSegment>,
    next_offset: LogOffsetMetadata,
    recovery_point: i64,
    /// Whether it was killed (`LocalLog.isMemoryMappedBufferClosed`).
    is_closed: bool,
    /// Whether something was to be written after that: the log directory counts as offline from
    /// then on, and nobody even tries (`LogDirFailureChannel`).
    is_offline: bool,
    /// What loading has read, and from where.
    pub(super) trace: LoadTrace,
}

impl LocalLog {
    /// A log without segments, which the loader then finds.
    pub(super) fn new(files: Files, dir: PathBuf, config: LogConfig) -> Self {
        Self {
            files,
            dir,
            config,
            segments: BTreeMap::new(),
            next_offset: LogOffsetMetadata::offset_only(0),
            recovery_point: 0,
            is_closed: false,
            is_offline: false,
            trace: LoadTrace::default(),
        }
    }

    pub(super) fn log_end_offset(&self) -> i64 {
        self.next_offset.message_offset
    }

    pub(super) fn recovery_point(&self) -> i64 {
        self.recovery_point
    }

    pub(super) fn set_recovery_point(&mut self, offset: i64) {
        self.recovery_point = offset;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn is_offline(&self) -> bool {
        self.is_offline
    }

    pub(super) fn set_offline(&mut self) {
        self.is_offline = true;
    }

    /// `LocalLog.checkIfMemoryMappedBufferClosed`, and before it what every use of the files asks
    /// (`LocalLog.maybeHandleIOException`).
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        self.check_online()
    }

    /// What is asked before some uses of the files that turn out not to be needed.
    pub(super) fn check_online(&self) -> Result<(), Error> {
        if self.is_offline {
            return Err(Error::Closed);
        }
        Ok(())
    }

    pub(super) fn first_base_offset(&self) -> i64 {
        self.segments.first_key_value().map_or(0, |(base, _)| *base)
    }

    pub(super) fn active_base_offset(&self) -> i64 {
        self.segments.last_key_value().map_or(0, |(base, _)| *base)
    }

    pub(super) fn active(&mut self) -> Result<&mut LogSegment, Error> {
        match self.segments.last_entry() {
            Some(last) => Ok(last.into_mut()),
            None => Err(Rejection::Inconsistent(0).into()),
        }
    }

    /// The active segment, for looks at it.
    pub(super) fn active_ref(&self) -> Option<&LogSegment> {
        self.segments.last_key_value().map(|(_, segment)| segment)
    }

    pub(super) fn size(&self) -> u64 {
        self.segments.values().map(LogSegment::size).sum()
    }

    pub(super) fn unflushed_messages(&self) -> i64 {
        self.log_end_offset().wrapping_sub(self.recovery_point)
    }

    /// Makes and adds a segment.
    pub(super) fn add_segment(&mut self, base_offset: i64, now_ms: i64) -> Result<(), Error> {
        let Self {
            files, dir, config, ..
        } = &*self;
        let segment = LogSegment::open(files, dir, base_offset, config, now_ms, false)?;
        self.segments.insert(base_offset, segment);
        Ok(())
    }

    /// `LocalLog.updateLogEndOffset`.
    pub(super) fn update_log_end_offset(&mut self, end_offset: i64) {
        let (segment_base_offset, size) = self
            .segments
            .last_key_value()
            .map_or((0, 0), |(base, active)| (*base, active.size()));
        self.next_offset = LogOffsetMetadata {
            message_offset: end_offset,
            segment_base_offset,
            relative_position_in_segment: i32::try_from(size).unwrap_or(i32::MAX),
        };
        self.recovery_point = self.recovery_point.min(end_offset);
    }

    pub(super) fn append(&mut self, last_offset: i64, records: &[u8]) -> Result<(), Error> {
        self.active()?.append(last_offset, records)?;
        self.update_log_end_offset(last_offset.wrapping_add(1));
        Ok(())
    }

    /// Begins a new segment at the log end, or at `expected_next_offset` if that is higher.
    /// Returns its base offset (`LocalLog.roll`).
    pub(super) fn roll(
        &mut self,
        expected_next_offset: i64,
        background: &mut Background,
    ) -> Result<i64, Error> {
        let new_offset = expected_next_offset.max(self.log_end_offset());
        let active_base_offset = self.active_base_offset();
        if self.segments.contains_key(&new_offset) {
            let active = self.active()?;
            if active_base_offset != new_offset || active.size() != 0 {
                return Err(Rejection::SegmentExists(new_offset).into());
            }
            // Kafka logs how full the indexes are, and that makes them.
            active.time_index.get()?;
            active.offset_index.get()?;
            self.create_and_delete_active(new_offset, background)?;
        } else if new_offset < active_base_offset {
            return Err(Rejection::SegmentExists(new_offset).into());
        } else {
            LogSegment::delete_leftovers(&self.files, &self.dir, new_offset, FileState::Live)?;
            self.active()?.on_become_inactive()?;
            self.add_segment(new_offset, background.now_ms)?;
        }
        self.update_log_end_offset(self.log_end_offset());
        Ok(new_offset)
    }

    /// Puts a new segment in place of the active one (`LocalLog.createAndDeleteSegment`).
    fn create_and_delete_active(
        &mut self,
        new_offset: i64,
        background: &mut Background,
    ) -> Result<(), Error> {
        let Some((_, mut old)) = self.segments.pop_last() else {
            return Err(Rejection::Inconsistent(new_offset).into());
        };
        if new_offset == old.base_offset {
            old.mark_deleted()?;
        }
        self.add_segment(new_offset, background.now_ms)?;
        old.mark_deleted()?;
        background.delete_later(old.files(), &self.config);
        Ok(())
    }

    /// Takes segments out and deletes their files after the delay
    /// (`LocalLog.removeAndDeleteSegments`).
    pub(super) fn remove_and_delete(
        &mut self,
        base_offsets: &[i64],
        background: &mut Background,
    ) -> Result<(), Error> {
        if base_offsets.is_empty() {
            return Ok(());
        }
        let mut files = Vec::new();
        for base_offset in base_offsets {
            if let Some(mut segment) = self.segments.remove(base_offset) {
                segment.mark_deleted()?;
                files.extend(segment.files());
            }
        }
        background.delete_later(files, &self.config);
        Ok(())
    }

    /// `LocalLog.truncateFullyAndStartAt`.
    pub(super) fn truncate_fully_and_start_at(
        &mut self,
        new_offset: i64,
        background: &mut Background,
    ) -> Result<(), Error> {
        let mut all: Vec<i64> = self.segments.keys().copied().collect();
        all.pop();
        self.remove_and_delete(&all, background)?;
        self.create_and_delete_active(new_offset, background)?;
        self.update_log_end_offset(new_offset);
        Ok(())
    }

    /// Returns the segments that went (`LocalLog.truncateTo`).
    pub(super) fn truncate_to(
        &mut self,
        offset: i64,
        background: &mut Background,
    ) -> Result<Vec<i64>, Error> {
        let deleted: Vec<i64> = self
            .segments
            .range(offset.saturating_add(1)..)
            .map(|(base, _)| *base)
            .collect();
        self.remove_and_delete(&deleted, background)?;
        let now_ms = background.now_ms;
        self.active()?.truncate_to(offset, now_ms)?;
        self.update_log_end_offset(offset);
        Ok(deleted)
    }

    /// The segments from the one holding `from` to those that begin below `to`
    /// (`LogSegments.values`).
    pub(super) fn base_offsets_in(&self, from: i64, to: i64) -> Result<Vec<i64>, Error> {
        if from == to {
            return Ok(Vec::new());
        }
        if to < from {
            return Err(Rejection::OffsetOrder { from, to }.into());
        }
        let floor = self.segments.range(..=from).next_back();
        let floor = floor.map_or(i64::MIN, |(base, _)| *base);
        Ok(self
            .segments
            .range(floor..to)
            .map(|(base, _)| *base)
            .collect())
    }

    /// Flushes what lies below the offset (`UnifiedLog.flush`, `LocalLog.flush`,
    /// `LocalLog.markFlushed`).
    pub(super) fn flush(&mut self, offset: i64, including_offset: bool) -> Result<(), Error> {
        self.check_online()?;
        let flush_offset = offset.saturating_add(i64::from(including_offset));
        if flush_offset <= self.recovery_point {
            return Ok(());
        }
        if self.is_closed {
            // The channel is closed: an I/O error.
            self.is_offline = true;
            return Err(Error::Closed);
        }
        let fsync = self.config.fsync;
        for base_offset in self.base_offsets_in(self.recovery_point, flush_offset)? {
            if let Some(segment) = self.segments.get_mut(&base_offset) {
                segment.flush(fsync)?;
            }
        }
        if fsync {
            self.files.sync_dir(&self.dir)?;
        }
        self.recovery_point = self.recovery_point.max(offset);
        Ok(())
    }

    /// Gives the files up as they are (`LocalLog.closeHandlers`).
    pub(super) fn close_handlers(&mut self) -> Result<(), Error> {
        self.is_closed = true;
        let mut segments = self.segments.values_mut();
        segments.try_for_each(LogSegment::close_handlers)
    }

    /// `LocalLog.close`.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.segments.values_mut().try_for_each(LogSegment::close)
    }

    /// `UnifiedLog.maybeConvertToOffsetMetadata`.
    fn convert_to_offset_metadata(&mut self, offset: i64) -> Result<LogOffsetMetadata, Error> {
        let end = self.next_offset;
        let floor = self.segments.range(..=offset).next_back();
        let Some((&floor, _)) = floor.filter(|_| offset <= end.message_offset) else {
            return Ok(LogOffsetMetadata::offset_only(offset));
        };
        if offset == end.message_offset {
            return Ok(end);
        }
        for (base_offset, segment) in self.segments.range_mut(floor..) {
            if let Some(found) = segment.translate_offset(offset)? {
                return Ok(LogOffsetMetadata {
                    message_offset: found.base_offset,
                    segment_base_offset: *base_offset,
                    relative_position_in_segment: i32::try_from(found.position).unwrap_or(i32::MAX),
                });
            }
        }
        Ok(end)
    }

    /// Gives `take` the aborted transactions that a reader of these offsets has to know of
    /// (`LocalLog.collectAbortedTransactions`).
    pub(super) fn collect_aborted(
        &self,
        fetch_offset: i64,
        upper_bound_offset: i64,
        mut take: impl FnMut(&AbortedTxn),
    ) -> Result<(), Error> {
        let Some((&floor, _)) = self.segments.range(..=fetch_offset).next_back() else {
            return Ok(());
        };
        for segment in self.segments.range(floor..).map(|(_, segment)| segment) {
            let index = &segment.txn_index;
            if index.collect(fetch_offset, upper_bound_offset, &mut take)? {
                break;
            }
        }
        Ok(())
    }
}

/// Answers the look-ups of [`crate::state::StableOffsets`], which may open an index.
pub(super) struct Lookup<'a> {
    log: RefCell<&'a mut LocalLog>,
    error: RefCell<Option<Error>>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(log: &'a mut LocalLog) -> Self {
        Self {
            log: RefCell::new(log),
            error: RefCell::new(None),
        }
    }

    /// What went wrong in a look-up, if anything did.
    pub(super) fn finish(self) -> Result<(), Error> {
        match self.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl LogOffsets for Lookup<'_> {
    fn log_end_offset(&self) -> LogOffsetMetadata {
        self.log.borrow().next_offset
    }

    fn is_open(&self) -> bool {
        !self.log.borrow().is_closed
    }

    fn maybe_convert_to_offset_metadata(&self, offset: i64) -> LogOffsetMetadata {
        let found = self.log.borrow_mut().convert_to_offset_metadata(offset);
        found.unwrap_or_else(|error| {
            self.error.borrow_mut().get_or_insert(error);
            LogOffsetMetadata::offset_only(offset)
        })
    }
}
