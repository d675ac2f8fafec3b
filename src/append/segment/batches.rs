//! The batches that are in a segment: stepping through them, and finding one.
//!
//! Decides `FileRecords`, `LogSegment.translateOffset`.

use std::ops::ControlFlow;
use std::time::UNIX_EPOCH;

use super::LogSegment;
use crate::append::deep_records::base_offset;
use crate::append::error::{Error, LoadError};
use crate::format::NO_TIMESTAMP;
use crate::log::log_input_stream::{LogInputStream, StreamBatch, StreamError};
use crate::log::mapped_file::MappedFile;
use crate::log::segment_indexer::TimestampOffset;

/// A batch found by offset (`FileRecords.LogOffsetPosition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::append) struct LogOffsetPosition {
    pub(in crate::append) base_offset: i64,
    pub(in crate::append) position: u64,
}

/// The batches of a segment (`FileRecords`).
#[derive(Debug)]
pub(in crate::append) struct SegmentReader {
    file: MappedFile,
    size: u64,
}

impl SegmentReader {
    /// See [`LogSegment::for_each_batch`].
    pub(in crate::append) fn for_each_batch(
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

impl LogSegment {
    /// Gives `each` the batches from `position` on, up to `end` or the end of the segment. Returns
    /// the position behind the last batch that `each` let pass (`FileRecords.batchesFrom`).
    pub(in crate::append) fn for_each_batch(
        &mut self,
        position: u64,
        end: u64,
        each: impl FnMut(&StreamBatch<'_>) -> Result<ControlFlow<()>, Error>,
    ) -> Result<u64, Error> {
        if position >= self.log.size() {
            return Ok(position);
        }
        self.reader()?.for_each_batch(position, end, each)
    }

    /// The `.log` as it is now, to be read while the indexes are written.
    pub(in crate::append) fn reader(&mut self) -> Result<SegmentReader, Error> {
        Ok(SegmentReader {
            file: self.log.view()?,
            size: self.log.size(),
        })
    }

    /// The first batch at or behind the offset (`LogSegment.translateOffset`,
    /// `FileRecords.searchForOffsetFromPosition`).
    pub(in crate::append) fn translate_offset(
        &mut self,
        offset: i64,
    ) -> Result<Option<LogOffsetPosition>, Error> {
        let start = self.offset_index.get()?.lookup(offset)?.position;
        let mut found = None;
        let mut previous: Option<(LogOffsetPosition, i64)> = None;
        let path = self.path().to_owned();
        self.for_each_batch(start, u64::MAX, |batch| {
            let base_offset = base_offset(&path, batch)?;
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
    pub(in crate::append) fn read_next_offset(&mut self) -> Result<i64, Error> {
        self.read_next_offset_counting().map(|(offset, _)| offset)
    }

    /// The same, with how many bytes of batches were read.
    pub(in crate::append) fn read_next_offset_counting(&mut self) -> Result<(i64, u64), Error> {
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
    pub(in crate::append) fn bytes_behind_last_batch(&mut self) -> Result<u64, Error> {
        let index = self.offset_index.get()?;
        let start = index.lookup(index.last_offset())?.position;
        let end = self.for_each_batch(start, u64::MAX, |_| Ok(ControlFlow::Continue(())))?;
        Ok(self.log.size().saturating_sub(end))
    }

    /// `LogSegment.largestTimestamp`: of the records, or else when the file was last written.
    pub(in crate::append) fn largest_timestamp(&mut self) -> Result<i64, Error> {
        let largest = self.max_timestamp_and_offset_so_far()?.timestamp;
        if largest >= 0 {
            return Ok(largest);
        }
        let modified = self.log.modified()?;
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// `LogSegment.readLargestTimestamp`.
    pub(super) fn read_largest_timestamp(&mut self) -> Result<TimestampOffset, Error> {
        let last_entry = self.time_index.get()?.last_entry();
        let start = self.offset_index.get()?.lookup(last_entry.offset)?.position;
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
}
