//! The batches of a segment as a broker's own code steps through them, which is not how the walk
//! for readers does it: by the size field alone, up to the first bytes that end it, without
//! looking for more behind.
//!
//! Decides `FileLogInputStream`.

use super::Error;
use super::batches::{Batch, LegacyEntry};
use super::mapped_file::MappedFile;
use crate::format::legacy_record::{self, LegacyRecordHeader};
use crate::format::record_batch::{
    HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_V2, RecordBatchHeader,
};

/// Steps through the batches of a segment (`FileRecords.batchesFrom`).
#[derive(Debug)]
pub struct LogInputStream<'f> {
    file: &'f MappedFile,
    position: u64,
    end: u64,
    head: [u8; HEADER_SIZE],
}

/// A batch by its size and magic byte (`FileChannelRecordBatch`).
#[derive(Clone, Copy, Debug)]
pub enum StreamBatch<'s> {
    /// Magic 2, or above.
    Default(Batch<'s>),
    /// Magic 0, 1, or below.
    Legacy(LegacyEntry<'s>),
}

/// Why there is no next batch although the file goes on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A size field too small for any batch.
    #[error(
        "size field at position {position} is {size}, below the minimum of {}",
        legacy_record::MIN_MESSAGE_SIZE_V0
    )]
    Corrupt {
        /// Where the batch would begin.
        position: u64,
        /// The size field.
        size: i32,
    },
    /// A batch of magic 2 at the end of the file, too small for its own header.
    #[error("the header of the batch at position {position} is cut off by the end of the file")]
    HeaderPastEnd {
        /// Where the batch begins.
        position: u64,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Files(#[from] Error),
}

impl<'f> LogInputStream<'f> {
    /// From `position` up to `end`, or to the end of the file if that comes first.
    #[must_use]
    pub fn new(file: &'f MappedFile, position: u64, end: u64) -> Self {
        Self {
            file,
            position,
            end: end.min(file.len()),
            head: [0; HEADER_SIZE],
        }
    }

    /// The next batch; `None` at the end, and where the rest is too short for the batch it begins
    /// (`FileLogInputStream.nextBatch`).
    ///
    /// # Errors
    /// If the size field cannot be right, or the file cannot be read.
    pub fn next_batch(&mut self) -> Result<Option<StreamBatch<'_>>, StreamError> {
        let position = self.position;
        let left = self.end.saturating_sub(position);
        if left <= HEADER_SIZE_UP_TO_MAGIC as u64 {
            return Ok(None);
        }
        let available = self.file.len().saturating_sub(position);
        let size = HEADER_SIZE.min(usize::try_from(available).unwrap_or(HEADER_SIZE));
        self.head = [0; HEADER_SIZE];
        if let Some(head) = self.head.get_mut(..size) {
            self.file.read_exact_at(head, position)?;
        }
        let Ok(header) = RecordBatchHeader::ref_from(&self.head) else {
            return Ok(None);
        };
        let length = header.batch_length();
        let Some(batch_size) = u64::try_from(length)
            .ok()
            .filter(|_| length >= legacy_record::MIN_MESSAGE_SIZE_V0)
        else {
            let size = length;
            return Err(StreamError::Corrupt { position, size });
        };
        let size_in_bytes = batch_size + LOG_OVERHEAD as u64;
        if size_in_bytes > left {
            return Ok(None);
        }
        self.position = position + size_in_bytes;
        if header.magic() < MAGIC_V2 {
            let Ok(header) = LegacyRecordHeader::ref_from(&self.head) else {
                return Ok(None);
            };
            let head = self.head.get(..size).unwrap_or_default();
            let entry = LegacyEntry::at(self.file, position, header, head);
            return Ok(Some(StreamBatch::Legacy(entry)));
        }
        if size < HEADER_SIZE {
            return Err(StreamError::HeaderPastEnd { position });
        }
        let batch = Batch::at(self.file, position, header);
        Ok(Some(StreamBatch::Default(batch)))
    }
}

impl<'s> StreamBatch<'s> {
    /// Where it begins.
    #[must_use]
    pub fn position(&self) -> u64 {
        match self {
            Self::Default(batch) => batch.position,
            Self::Legacy(entry) => entry.position,
        }
    }

    /// Bytes of it.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        match self {
            Self::Default(batch) => batch.size_in_bytes(),
            Self::Legacy(entry) => entry.size_in_bytes(),
        }
    }

    /// Its last offset.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        match self {
            Self::Default(batch) => batch.header.last_offset(),
            Self::Legacy(entry) => entry.header.offset(),
        }
    }

    /// Its largest timestamp in milliseconds, -1 if it has none.
    #[must_use]
    pub fn max_timestamp(&self) -> i64 {
        match self {
            Self::Default(batch) => batch.header.max_timestamp(),
            Self::Legacy(entry) => entry.timestamp().unwrap_or(crate::format::NO_TIMESTAMP),
        }
    }

    /// Whether checksum and size are right (`RecordBatch.ensureValid`).
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_valid(&self) -> Result<bool, Error> {
        match self {
            Self::Default(batch) => {
                Ok(batch.size_in_bytes() >= HEADER_SIZE as u64 && batch.is_valid()?)
            }
            Self::Legacy(entry) => entry.is_valid(),
        }
    }

    /// The batch, if it is of magic 2.
    #[must_use]
    pub fn as_default(&self) -> Option<&Batch<'s>> {
        match self {
            Self::Default(batch) => Some(batch),
            Self::Legacy(_) => None,
        }
    }
}
