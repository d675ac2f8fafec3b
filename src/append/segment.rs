//! One segment: its `.log`, its indexes, when it is full, what is written when.
//!
//! Decides `LogSegment`, `FileRecords`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::config::LogConfig;
use super::error::{Error, LoadError, Rejection};
use super::files::{Files, OpenFile};
use super::indexes::{LazyIndex, OffsetIndex, TimeIndex, TransactionIndex, relative_offset};
use crate::format::NO_TIMESTAMP;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::log_input_stream::{LogInputStream, StreamBatch, StreamError};
use crate::log::mapped_file::MappedFile;
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

/// The batches of a segment (`FileRecords`).
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: MappedFile,
    size: u64,
}

impl SegmentReader {
    /// See [`LogSegment::for_each_batch`].
    pub(super) fn for_each_batch(
        &self,
        position: u64,
        end: u64,
        mut each: impl FnMut(&StreamBatch<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<u64, Error> {
        let mut passed = position;
        let mut stream = LogInputStream::new(&self.file, position, end.min(self.size));
        while let Some(batch) = stream.next_batch().map_err(|it| self.stream_error(it))? {
            if each(&batch)?.is_break() {
                break;
            }
            passed = batch.position() + batch.size_in_bytes();
        }
        Ok(passed)
    }

    fn stream_error(&self, error: StreamError) -> Error {
        let path = self.file.path().to_owned();
        match error {
            StreamError::Files(error) => error.into(),
            StreamError::Corrupt { position, size } => LoadError::CorruptRecord {
                path,
                position,
                size,
            }
            .into(),
            StreamError::HeaderPastEnd { position } => {
                LoadError::UnreadableHeader { path, position }.into()
            }
        }
    }
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
    state: FileState,
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
        let live = FileState::Live;
        Self::open_as(
            files,
            dir,
            base_offset,
            live,
            config,
            now_ms,
            file_already_exists,
        )
    }

    /// As [`LogSegment::open`], with files that have the suffix of `state`.
    pub(super) fn open_as(
        files: &Files,
        dir: &Path,
        base_offset: i64,
        state: FileState,
        config: &LogConfig,
        now_ms: i64,
        file_already_exists: bool,
    ) -> Result<Self, Error> {
        let index = |kind| dir.join(LogFileName { kind, state }.to_string());
        let path = index(LogFileKind::Log(base_offset));
        let file = files.open(&path)?;
        let preallocates = config.preallocate && !file_already_exists;
        if preallocates {
            file.set_len(&path, config.initial_file_size())?;
        }
        let size = if preallocates { 0 } else { file.len(&path)? };
        if i32::try_from(size).is_err() {
            return Err(LoadError::SegmentTooLarge { path, size }.into());
        }
        let max = config.segment_index_bytes;
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
            state,
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
            self.index_batch(&IndexedBatch {
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp(),
                position: physical_position,
                size_in_bytes: batch_size,
            })?;
            physical_position += batch_size;
            let next = usize::try_from(batch_size).unwrap_or(usize::MAX);
            rest = rest.get(next..).unwrap_or_default();
        }
        Ok(())
    }

    fn index_batch(&mut self, batch: &IndexedBatch) -> Result<(), Error> {
        let known = self.max_timestamp_and_offset_so_far()?;
        if self.index_rule.take(batch, known) {
            self.add_index_entries(batch.last_offset, batch.position)?;
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

    /// Gives `each` the batches from `position` on, up to `end` or the end of the segment. Returns
    /// the position behind the last batch that `each` let pass (`FileRecords.batchesFrom`).
    pub(super) fn for_each_batch(
        &self,
        position: u64,
        end: u64,
        each: impl FnMut(&StreamBatch<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<u64, Error> {
        if position >= self.size {
            return Ok(position);
        }
        self.reader()?.for_each_batch(position, end, each)
    }

    /// The `.log` as it is now, to be read while the indexes are written.
    pub(super) fn reader(&self) -> Result<SegmentReader, Error> {
        Ok(SegmentReader {
            file: self.files.view(&self.path)?,
            size: self.size,
        })
    }

    /// The first batch at or behind the offset (`LogSegment.translateOffset`,
    /// `FileRecords.searchForOffsetFromPosition`).
    pub(super) fn translate_offset(
        &mut self,
        offset: i64,
    ) -> Result<Option<LogOffsetPosition>, Error> {
        let start = self.offset_index.get()?.lookup(offset).position;
        let mut found = None;
        let mut previous: Option<(LogOffsetPosition, i64)> = None;
        self.for_each_batch(start, u64::MAX, |batch| {
            let base_offset = batch.base_offset();
            let place = LogOffsetPosition {
                base_offset,
                position: batch.position(),
            };
            if base_offset >= offset {
                // The last offset of a batch counts only where the next one is past the target.
                let holder = previous
                    .filter(|(_, last_offset)| base_offset > offset && *last_offset >= offset);
                found = Some(holder.map_or(place, |(place, _)| place));
                return Ok(ControlFlow::Break(()));
            }
            previous = Some((place, batch.last_offset()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found.or_else(|| {
            let (place, last_offset) = previous?;
            (last_offset >= offset).then_some(place)
        }))
    }

    /// The offset behind the last batch (`LogSegment.readNextOffset`): what lies before the last
    /// index entry is not read.
    pub(super) fn read_next_offset(&mut self) -> Result<i64, Error> {
        self.read_next_offset_counting().map(|(offset, _)| offset)
    }

    /// The same, with how many bytes of batches were read.
    pub(super) fn read_next_offset_counting(&mut self) -> Result<(i64, u64), Error> {
        let last_indexed = self.offset_index.get()?.last_offset();
        let Some(start) = self.translate_offset(last_indexed)? else {
            return Ok((self.base_offset, 0));
        };
        let mut next_offset = self.base_offset;
        let read_to = self.for_each_batch(start.position, u64::MAX, |batch| {
            next_offset = batch.last_offset().wrapping_add(1);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((next_offset, read_to.saturating_sub(start.position)))
    }

    /// Bytes at the end of the `.log` that are no whole batch. Looks from the last index entry on.
    pub(super) fn bytes_behind_last_batch(&mut self) -> Result<u64, Error> {
        let index = self.offset_index.get()?;
        let start = index.lookup(index.last_offset()).position;
        let end = self.for_each_batch(start, u64::MAX, |_| Ok(ControlFlow::Continue(())))?;
        Ok(self.size.saturating_sub(end))
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
        self.offset_index.get()?.truncate_to(offset)?;
        self.time_index.get()?.truncate_to(offset)?;
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
        self.for_each_batch(start, u64::MAX, |batch| {
            if batch.max_timestamp() > largest.timestamp {
                largest = TimestampOffset {
                    timestamp: batch.max_timestamp(),
                    offset: batch.last_offset(),
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

    /// Takes a batch in that recovery has found good.
    pub(super) fn recover_batch(&mut self, batch: &StreamBatch<'_>) -> Result<(), Error> {
        self.ensure_offset_in_range(batch.last_offset())?;
        self.index_batch(&IndexedBatch {
            last_offset: batch.last_offset(),
            max_timestamp: batch.max_timestamp(),
            position: batch.position(),
            size_in_bytes: batch.size_in_bytes(),
        })
    }

    /// Ends recovery, once the file has been cut to its good bytes.
    pub(super) fn end_recovery(&mut self) -> Result<(), Error> {
        // Kafka's own count is not touched by recovery.
        self.index_rule.restart_count();
        self.offset_index.get()?.trim()?;
        let last = self.max_timestamp_and_offset_so_far()?;
        self.time_index.get()?.maybe_append(last, true)?;
        self.time_index.get()?.trim()?;
        // A log of many segments would have them all in memory else.
        self.offset_index.release()?;
        self.time_index.release()
    }

    /// Whether the last batch is too far from the base offset (`LogSegment.hasOverflow`).
    pub(super) fn has_overflow(&mut self) -> Result<bool, Error> {
        let next_offset = self.read_next_offset()?;
        let last_offset = next_offset.wrapping_sub(1);
        Ok(next_offset > self.base_offset && !self.can_convert_to_relative_offset(last_offset)?)
    }

    /// Takes the batches of another segment over from `position` on, up to the first one that is
    /// too far from this segment's base offset. Returns how many bytes
    /// (`LogSegment.appendFromFile`).
    pub(super) fn append_from(&mut self, source: &Self, position: u64) -> Result<u64, Error> {
        let start = self.size;
        let mut taken = 0;
        source.for_each_batch(position, u64::MAX, |batch| {
            if relative_offset(batch.last_offset(), self.base_offset).is_err() {
                return Ok(ControlFlow::Break(()));
            }
            self.file.append_part(
                &self.path,
                start + taken,
                &source.file,
                batch.position(),
                batch.size_in_bytes(),
            )?;
            self.index_batch(&IndexedBatch {
                last_offset: batch.last_offset(),
                max_timestamp: batch.max_timestamp(),
                position: start + taken,
                size_in_bytes: batch.size_in_bytes(),
            })?;
            taken += batch.size_in_bytes();
            self.size = start + taken;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(taken)
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

    /// Gives all files the suffix `.deleted`.
    pub(super) fn mark_deleted(&mut self) -> Result<(), Error> {
        self.change_file_suffixes(FileState::Deleted)
    }

    /// Gives all files the suffix of `state` in place of the one they have
    /// (`LogSegment.changeFileSuffixes`).
    pub(super) fn change_file_suffixes(&mut self, state: FileState) -> Result<(), Error> {
        if self.state == state {
            return Ok(());
        }
        let old_suffix = self.state.suffix();
        let renamed = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let stem = name.strip_suffix(old_suffix).unwrap_or(&name);
            path.with_file_name(format!("{stem}{}", state.suffix()))
        };
        let path = renamed(&self.path);
        self.files.rename(&self.path, &path)?;
        self.path = path;
        self.offset_index
            .rename(renamed(self.offset_index.path()))?;
        self.time_index.rename(renamed(self.time_index.path()))?;
        self.txn_index.rename(renamed(self.txn_index.path()))?;
        self.state = state;
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

    /// Removes files that a new segment of this base offset would find (`LocalLog.roll`,
    /// `LogSegment.deleteIfExists`).
    pub(super) fn delete_leftovers(
        files: &Files,
        dir: &Path,
        base_offset: i64,
        state: FileState,
    ) -> Result<(), Error> {
        let kinds = [
            LogFileKind::Log(base_offset),
            LogFileKind::OffsetIndex(base_offset),
            LogFileKind::TimeIndex(base_offset),
            LogFileKind::TransactionIndex(base_offset),
        ];
        for kind in kinds {
            files.remove_if_exists(&dir.join(LogFileName { kind, state }.to_string()))?;
        }
        Ok(())
    }
}
