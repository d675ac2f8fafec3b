//! One segment: its `.log`, its indexes, when it is full, what is written when.
//!
//! Decides `LogSegment`, `FileRecords`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::config::LogConfig;
use super::error::{Error, Rejection};
use super::files::{Files, OpenFile};
use super::indexes::{LazyIndex, OffsetIndex, TimeIndex, TransactionIndex, relative_offset};
use crate::format::NO_TIMESTAMP;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::{Batch, BatchWalk, Entry};
use crate::log::segment_indexer::{IndexRule, IndexedBatch, TimestampOffset};

/// A batch found by offset (`FileRecords.LogOffsetPosition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogOffsetPosition {
    pub(super) base_offset: i64,
    pub(super) position: u64,
}

/// What decides whether a segment is rolled before an append (`RollParams`).
#[derive(Clone, Copy, Debug)]
pub(super) struct RollParams {
    pub(super) max_timestamp_in_messages: i64,
    pub(super) max_offset_in_messages: i64,
    pub(super) messages_size: u64,
    pub(super) now_ms: i64,
}

/// A segment of a log that is open for writing.
#[derive(Debug)]
pub(super) struct LogSegment {
    pub(super) base_offset: i64,
    files: Files,
    path: PathBuf,
    file: OpenFile,
    size: u64,
    pub(super) offset_index: LazyIndex<OffsetIndex>,
    pub(super) time_index: LazyIndex<TimeIndex>,
    pub(super) txn_index: TransactionIndex,
    created_ms: i64,
    /// Max timestamp of the first batch, once looked up.
    rolling_based_timestamp: Option<i64>,
    index_rule: IndexRule,
    is_deleted: bool,
}

/// The path of a file of the segment.
pub(super) fn segment_path(dir: &Path, kind: LogFileKind) -> PathBuf {
    let state = FileState::Live;
    dir.join(LogFileName { kind, state }.to_string())
}

impl LogSegment {
    /// Opens the segment, making its `.log` if it is not there (`LogSegment.open`).
    pub(super) fn open(
        files: &Files,
        dir: &Path,
        base_offset: i64,
        config: &LogConfig,
        now_ms: i64,
        file_already_exists: bool,
    ) -> Result<Self, Error> {
        let path = segment_path(dir, LogFileKind::Log(base_offset));
        let file = files.open(&path)?;
        let preallocates = config.preallocate && !file_already_exists;
        if preallocates {
            file.set_len(&path, config.initial_file_size())?;
        }
        let size = if preallocates { 0 } else { file.len(&path)? };
        let max = config.segment_index_bytes;
        let index = |kind| segment_path(dir, kind);
        Ok(Self {
            base_offset,
            files: files.clone(),
            file,
            size,
            offset_index: LazyIndex::new(
                files,
                index(LogFileKind::OffsetIndex(base_offset)),
                base_offset,
                max,
            ),
            time_index: LazyIndex::new(
                files,
                index(LogFileKind::TimeIndex(base_offset)),
                base_offset,
                max,
            ),
            txn_index: TransactionIndex::open(
                files,
                index(LogFileKind::TransactionIndex(base_offset)),
            )?,
            index_rule: IndexRule::new(u64::try_from(config.index_interval_bytes).unwrap_or(0)),
            created_ms: now_ms,
            rolling_based_timestamp: None,
            is_deleted: false,
            path,
        })
    }

    /// Bytes of batches in the `.log`.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The `.log` file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    // ---- rolling --------------------------------------------------------------------------

    /// `LogSegment.shouldRoll`.
    pub(super) fn should_roll(
        &mut self,
        config: &LogConfig,
        params: &RollParams,
    ) -> Result<bool, Error> {
        let waited = self.time_waited_for_roll(params)?;
        let segment_bytes = u64::try_from(config.segment_bytes).unwrap_or(0);
        // Kafka opens the indexes only if nothing before them decides, but then logs their
        // fill: they are open after a roll in any case.
        Ok(
            self.size > segment_bytes.saturating_sub(params.messages_size)
                || (self.size > 0 && waited > config.segment_ms)
                || self.offset_index.get()?.is_full()
                || self.time_index.get()?.is_full()
                || !self.can_convert_to_relative_offset(params.max_offset_in_messages)?,
        )
    }

    fn can_convert_to_relative_offset(&mut self, offset: i64) -> Result<bool, Error> {
        self.offset_index.get()?;
        Ok(relative_offset(offset, self.base_offset).is_ok())
    }

    /// `LogSegment.timeWaitedForRoll`.
    fn time_waited_for_roll(&mut self, params: &RollParams) -> Result<i64, Error> {
        if self.rolling_based_timestamp.is_none() {
            let mut first = None;
            self.for_each_batch(0, |batch| {
                first = Some(batch.header.max_timestamp());
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
    pub(super) fn on_become_inactive(&mut self) -> Result<(), Error> {
        let last = self.max_timestamp_and_offset_so_far()?;
        self.time_index.get()?.maybe_append(last, true)?;
        self.offset_index.get()?.trim()?;
        self.time_index.get()?.trim()?;
        self.trim_log()
    }

    fn trim_log(&mut self) -> Result<(), Error> {
        if self.size < self.file.len(&self.path)? {
            self.file.set_len(&self.path, self.size)?;
        }
        Ok(())
    }

    // ---- appending ------------------------------------------------------------------------

    /// `LogSegment.readMaxTimestampAndOffsetSoFar`.
    pub(super) fn max_timestamp_and_offset_so_far(&mut self) -> Result<TimestampOffset, Error> {
        if let Some(known) = self.index_rule.largest_timestamp() {
            return Ok(known);
        }
        let last = self.time_index.get()?.last_entry();
        self.index_rule.set_largest_timestamp(Some(last));
        Ok(last)
    }

    /// Writes batches behind the others (`LogSegment.append`). `largest_offset` is the last
    /// offset of the last one.
    pub(super) fn append(&mut self, largest_offset: i64, records: &[u8]) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        let mut physical_position = self.size;
        self.ensure_offset_in_range(largest_offset)?;
        let size = self.size.saturating_add(records.len() as u64);
        if i32::try_from(size).is_err() {
            return Err(Rejection::SegmentFull(self.size).into());
        }
        self.file.write_all_at(&self.path, records, self.size)?;
        self.size = size;
        let mut rest = records;
        while let Ok(header) = RecordBatchHeader::ref_from(rest) {
            let batch_size = header.size_in_bytes();
            self.index_batch(header, physical_position)?;
            physical_position += batch_size;
            let next = usize::try_from(batch_size).unwrap_or(usize::MAX);
            rest = rest.get(next..).unwrap_or_default();
        }
        Ok(())
    }

    fn index_batch(&mut self, header: &RecordBatchHeader, position: u64) -> Result<(), Error> {
        let batch = IndexedBatch {
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp(),
            position,
            size_in_bytes: header.size_in_bytes(),
        };
        let known = self.max_timestamp_and_offset_so_far()?;
        if self.index_rule.take(&batch, known) {
            self.add_index_entries(batch.last_offset, position)?;
        }
        Ok(())
    }

    fn add_index_entries(&mut self, last_offset: i64, position: u64) -> Result<(), Error> {
        self.offset_index.get()?.append(last_offset, position)?;
        let last = self.max_timestamp_and_offset_so_far()?;
        self.time_index.get()?.maybe_append(last, false)
    }

    fn ensure_offset_in_range(&mut self, offset: i64) -> Result<(), Error> {
        self.offset_index.get()?;
        relative_offset(offset, self.base_offset)?;
        Ok(())
    }

    // ---- reading --------------------------------------------------------------------------

    /// Gives `each` the batches from `position` on, up to the end or to the first bytes that are
    /// no batch. Returns the position behind the last batch that `each` let pass.
    pub(super) fn for_each_batch(
        &self,
        position: u64,
        mut each: impl FnMut(&Batch<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<u64, Error> {
        let mut end = position;
        if position >= self.size {
            return Ok(end);
        }
        let file = self.files.view(&self.path)?;
        let mut walk = BatchWalk::starting_at(&file, position);
        while end < self.size
            && let Some(entry) = walk.next_entry()
        {
            match entry? {
                Entry::Batch(batch) => {
                    if each(&batch)?.is_break() {
                        break;
                    }
                    end = batch.position + batch.size_in_bytes();
                }
                Entry::Legacy(_) | Entry::Damage(_) => break,
            }
        }
        Ok(end)
    }

    /// The first batch at or behind the offset (`LogSegment.translateOffset`,
    /// `FileRecords.searchForOffsetFromPosition`).
    pub(super) fn translate_offset(
        &mut self,
        offset: i64,
    ) -> Result<Option<LogOffsetPosition>, Error> {
        let start = self.offset_index.get()?.lookup(offset).position;
        let mut found = None;
        self.for_each_batch(start, |batch| {
            if batch.header.last_offset() >= offset {
                found = Some(LogOffsetPosition {
                    base_offset: batch.header.base_offset(),
                    position: batch.position,
                });
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found)
    }

    /// The offset behind the last batch (`LogSegment.readNextOffset`): what lies before the last
    /// index entry is not read.
    pub(super) fn read_next_offset(&mut self) -> Result<i64, Error> {
        let last_indexed = self.offset_index.get()?.last_offset();
        let Some(start) = self.translate_offset(last_indexed)? else {
            return Ok(self.base_offset);
        };
        let mut next_offset = self.base_offset;
        self.for_each_batch(start.position, |batch| {
            next_offset = batch.header.next_offset();
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(next_offset)
    }

    /// `LogSegment.largestTimestamp`: of the records, or else when the file was last written.
    pub(super) fn largest_timestamp(&mut self) -> Result<i64, Error> {
        let largest = self.max_timestamp_and_offset_so_far()?.timestamp;
        if largest >= 0 {
            return Ok(largest);
        }
        let modified = self.files.modified(&self.path)?;
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    // ---- truncating, closing, deleting ----------------------------------------------------

    /// Drops the batch with the offset and all behind it; returns how many bytes went
    /// (`LogSegment.truncateTo`).
    pub(super) fn truncate_to(&mut self, offset: i64, now_ms: i64) -> Result<u64, Error> {
        let found = self.translate_offset(offset)?;
        self.time_index.get()?;
        self.offset_index.get()?.truncate_to(offset);
        self.time_index.get()?.truncate_to(offset);
        self.txn_index.truncate_to(offset)?;
        self.resize_indexes()?;
        let truncated = match found {
            Some(found) => self.truncate_log(found.position)?,
            None => 0,
        };
        if self.size == 0 {
            self.created_ms = now_ms;
            self.rolling_based_timestamp = None;
        }
        self.index_rule.restart_count();
        if self.max_timestamp_and_offset_so_far()?.timestamp >= 0 {
            let largest = self.read_largest_timestamp()?;
            self.index_rule.set_largest_timestamp(Some(largest));
        }
        Ok(truncated)
    }

    /// Cuts the `.log` to `size` bytes (`FileRecords.truncateTo`).
    pub(super) fn truncate_log(&mut self, size: u64) -> Result<u64, Error> {
        let truncated = self.size.saturating_sub(size);
        if size < self.file.len(&self.path)? {
            self.file.set_len(&self.path, size)?;
            self.size = size;
        }
        Ok(truncated)
    }

    /// `LogSegment.readLargestTimestamp`.
    fn read_largest_timestamp(&mut self) -> Result<TimestampOffset, Error> {
        let last_entry = self.time_index.get()?.last_entry();
        let start = self.offset_index.get()?.lookup(last_entry.offset).position;
        let mut largest = TimestampOffset {
            timestamp: NO_TIMESTAMP,
            offset: -1,
        };
        self.for_each_batch(start, |batch| {
            if batch.header.max_timestamp() > largest.timestamp {
                largest = TimestampOffset {
                    timestamp: batch.header.max_timestamp(),
                    offset: batch.header.last_offset(),
                };
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(if largest.timestamp > last_entry.timestamp {
            largest
        } else {
            last_entry
        })
    }

    /// Gives the indexes the room of an active segment's (`LogSegment.resizeIndexes`).
    pub(super) fn resize_indexes(&mut self) -> Result<(), Error> {
        self.offset_index.get()?.grow()?;
        self.time_index.get()?.resize_to_max()
    }

    /// Before recovery: indexes empty, largest timestamp unknown.
    pub(super) fn reset_indexes(&mut self) -> Result<(), Error> {
        self.offset_index.get()?.reset()?;
        self.time_index.get()?.reset()?;
        self.txn_index.reset()?;
        self.index_rule.set_largest_timestamp(None);
        self.index_rule.restart_count();
        Ok(())
    }

    /// Takes a batch in that recovery has found good, at `position`.
    pub(super) fn recover_batch(
        &mut self,
        header: &RecordBatchHeader,
        position: u64,
    ) -> Result<(), Error> {
        self.ensure_offset_in_range(header.last_offset())?;
        self.index_batch(header, position)
    }

    /// Ends recovery: the file is cut to its good bytes. Returns how many went.
    pub(super) fn end_recovery(&mut self, valid_bytes: u64) -> Result<u64, Error> {
        let truncated = self.truncate_log(valid_bytes)?;
        // Kafka's own count is not touched by recovery.
        self.index_rule.restart_count();
        self.offset_index.get()?.trim()?;
        let last = self.max_timestamp_and_offset_so_far()?;
        self.time_index.get()?.maybe_append(last, true)?;
        self.time_index.get()?.trim()?;
        Ok(truncated)
    }

    /// `LogSegment.flush`. The indexes are opened by it.
    pub(super) fn flush(&mut self, fsync: bool) -> Result<(), Error> {
        self.offset_index.get()?;
        self.time_index.get()?;
        if fsync {
            self.file.sync(&self.path)?;
            self.offset_index.get()?.flush()?;
            self.time_index.get()?.flush()?;
            self.txn_index.sync()?;
        }
        Ok(())
    }

    /// `LogSegment.close`.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        if let Some(last) = self.index_rule.largest_timestamp() {
            // Kafka swallows what goes wrong here.
            let _ = self.time_index.get()?.maybe_append(last, true);
        }
        self.offset_index.close()?;
        self.time_index.close()?;
        self.trim_log()
    }

    /// Gives all files the suffix `.deleted` (`LogSegment.changeFileSuffixes`).
    pub(super) fn mark_deleted(&mut self) -> Result<(), Error> {
        if self.is_deleted {
            return Ok(());
        }
        let deleted = |path: &Path| {
            let mut path = path.as_os_str().to_owned();
            path.push(FileState::Deleted.suffix());
            PathBuf::from(path)
        };
        let path = deleted(&self.path);
        self.files.rename(&self.path, &path)?;
        self.path = path;
        self.offset_index
            .rename(deleted(self.offset_index.path()))?;
        self.time_index.rename(deleted(self.time_index.path()))?;
        self.txn_index.rename(deleted(self.txn_index.path()))?;
        self.is_deleted = true;
        Ok(())
    }

    /// The segment's files, there or not.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        vec![
            self.path.clone(),
            self.offset_index.path().to_owned(),
            self.time_index.path().to_owned(),
            self.txn_index.path().to_owned(),
        ]
    }

    /// Removes files that a new segment of this base offset would find (`LocalLog.roll`).
    pub(super) fn delete_leftovers(
        files: &Files,
        dir: &Path,
        base_offset: i64,
    ) -> Result<(), Error> {
        let kinds = [
            LogFileKind::Log(base_offset),
            LogFileKind::OffsetIndex(base_offset),
            LogFileKind::TimeIndex(base_offset),
            LogFileKind::TransactionIndex(base_offset),
        ];
        for kind in kinds {
            files.remove_if_exists(&segment_path(dir, kind))?;
        }
        Ok(())
    }
}
