//! One segment: its `.log`, its indexes, when it is full, what is written when.
//!
//! Decides `LogSegment`.

mod batches;
mod recovery;
mod rolling;
mod segment_files;

use std::path::Path;

use super::config::LogConfig;
use super::error::Error;
use super::files::Files;
use super::indexes::{LazyIndex, OffsetIndex, TimeIndex, relative_offset};
use super::log_file::LogFile;
use super::transaction_index::TransactionIndex;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::segment_indexer::{IndexRule, IndexedBatch, TimestampOffset};

pub(super) use rolling::RollParams;
pub(super) use segment_files::segment_path;

/// A segment of a log that is open for writing.
#[derive(Debug)]
pub(super) struct LogSegment {
    pub(super) base_offset: i64,
    log: LogFile,
    pub(super) offset_index: LazyIndex<OffsetIndex>,
    pub(super) time_index: LazyIndex<TimeIndex>,
    pub(super) txn_index: TransactionIndex,
    created_ms: i64,
    /// Max timestamp of the first batch, once looked up.
    rolling_based_timestamp: Option<i64>,
    index_rule: IndexRule,
    state: FileState,
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
        let path = |kind| dir.join(LogFileName { kind, state }.to_string());
        let max = config.segment_index_bytes;
        Ok(Self {
            base_offset,
            log: LogFile::open(
                files,
                path(LogFileKind::Log(base_offset)),
                config,
                file_already_exists,
            )?,
            offset_index: LazyIndex::new(
                files,
                path(LogFileKind::OffsetIndex(base_offset)),
                base_offset,
                max,
            ),
            time_index: LazyIndex::new(
                files,
                path(LogFileKind::TimeIndex(base_offset)),
                base_offset,
                max,
            ),
            txn_index: TransactionIndex::open(
                files,
                path(LogFileKind::TransactionIndex(base_offset)),
            )?,
            index_rule: IndexRule::new(u64::try_from(config.index_interval_bytes).unwrap_or(0)),
            created_ms: now_ms,
            rolling_based_timestamp: None,
            state,
        })
    }

    /// Bytes of batches in the `.log`.
    pub(super) fn size(&self) -> u64 {
        self.log.size()
    }

    /// The `.log` file.
    pub(super) fn path(&self) -> &Path {
        self.log.path()
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
        let mut physical_position = self.log.size();
        self.ensure_offset_in_range(largest_offset)?;
        self.log.append(records)?;
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

    // ---- truncating, flushing, closing ----------------------------------------------------

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
            Some(found) => self.log.truncate_to(found.position)?,
            None => 0,
        };
        if self.log.size() == 0 {
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

    /// Cuts the `.log` to `size` bytes; returns how many bytes of batches went.
    pub(super) fn truncate_log(&mut self, size: u64) -> Result<u64, Error> {
        self.log.truncate_to(size)
    }

    /// Gives the indexes the room of an active segment's (`LogSegment.resizeIndexes`).
    pub(super) fn resize_indexes(&mut self) -> Result<(), Error> {
        self.offset_index.get()?.grow()?;
        self.time_index.get()?.resize_to_max()
    }

    /// `LogSegment.flush`. The indexes are opened by it, and made if they are not there.
    pub(super) fn flush(&mut self, fsync: bool) -> Result<(), Error> {
        if !self.offset_index.is_put_away() {
            self.offset_index.get()?;
        }
        if !self.time_index.is_put_away() {
            self.time_index.get()?;
        }
        if fsync {
            self.log.sync()?;
            self.offset_index.get()?.flush()?;
            self.time_index.get()?.flush()?;
            self.txn_index.sync()?;
        }
        self.log.write_pending()
    }

    /// Writes the batches and index entries that are not in the files yet.
    pub(super) fn write_pending(&mut self) -> Result<(), Error> {
        self.log.write_pending()?;
        self.offset_index.write_pending()?;
        self.time_index.write_pending()
    }

    /// `LogSegment.closeHandlers`.
    pub(super) fn close_handlers(&mut self) -> Result<(), Error> {
        self.write_pending()?;
        self.log.release()
    }

    /// `LogSegment.close`.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        // One that recovery has put away has this entry.
        if let Some(last) = self.index_rule.largest_timestamp()
            && !self.time_index.is_put_away()
        {
            // Kafka swallows what goes wrong here.
            let _ = self.time_index.get()?.maybe_append(last, true);
        }
        self.offset_index.close()?;
        self.time_index.close()?;
        self.log.trim()
    }
}
