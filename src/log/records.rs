//! The records of one entry of a segment, whatever its magic and codec, one after another.

use super::Error;
use super::batches::{Batch, LegacyEntry};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::compression::Decompressor;
use crate::format::legacy_record::LegacyRecord;
use crate::format::legacy_record_set::{LegacyRecordSet, LegacySetRecord};
use crate::format::record::{Record, RecordHeaders};
use crate::format::record_batch::{CompressionType, HEADER_SIZE, TimestampType};
use crate::format::record_batch_reader::{BatchRecord, RecordIterator};

/// The most bytes a batch may unpack to unless the user says otherwise.
pub const DEFAULT_MAX_BATCH_BYTES: usize = 128 * 1024 * 1024;

/// A record of any magic, its bytes borrowed from the file or from the decompressor.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// The absolute offset.
    pub offset: i64,
    /// Milliseconds, -1 if there is none.
    pub timestamp: i64,
    /// Whose clock the timestamp comes from.
    pub timestamp_type: TimestampType,
    /// The sequence, -1 if the batch has none; `None` in magic 0 and 1.
    pub sequence: Option<i32>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The record as magic 2 has it; `None` in magic 0 and 1, which have no headers.
    pub record: Option<Record<'a>>,
    /// The message's own checksum, and whether it is right; magic 0 and 1 only.
    pub crc: Option<(u32, bool)>,
}

impl<'a> LogRecord<'a> {
    /// The headers, already seen to be whole.
    #[must_use]
    pub fn headers(&self) -> Option<RecordHeaders<'a>> {
        self.record.map(|record| record.header_iter())
    }

    fn from_batch(record: &BatchRecord<'a>, timestamp_type: TimestampType) -> Self {
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            timestamp_type,
            sequence: Some(record.sequence),
            key: record.record.key,
            value: record.record.value,
            record: Some(record.record),
            crc: None,
        }
    }

    fn from_legacy(record: &LegacySetRecord<'a>) -> Self {
        Self {
            offset: record.offset,
            timestamp: record.timestamp,
            timestamp_type: record.timestamp_type,
            sequence: None,
            key: record.record.key,
            value: record.record.value,
            record: None,
            crc: Some((record.record.header.crc(), record.is_valid())),
        }
    }
}

const OVER_LIMIT: &str = "batch-over-limit";

/// Why the records of an entry could not be read, or not to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecords {
    /// `batch-over-limit`, `bad-compression` or `bad-records`.
    pub kind: &'static str,
    /// What exactly.
    pub error: DecodeError,
}

impl BadRecords {
    /// Whether it is kseg's own limit that keeps them from being read.
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.kind == OVER_LIMIT
    }

    fn new(error: DecodeError) -> Self {
        use DecodeErrorKind::{CodecNotAllowed, Compressed, OverLimit, UnknownCodec};
        let of_the_codec = |kind: &DecodeErrorKind| {
            matches!(
                kind,
                Compressed { .. } | UnknownCodec { .. } | CodecNotAllowed { .. }
            )
        };
        let kind = if matches!(error.kind, OverLimit { .. }) {
            OVER_LIMIT
        } else if of_the_codec(&error.kind) {
            "bad-compression"
        } else {
            "bad-records"
        };
        Self { kind, error }
    }
}

/// Unpacks one entry after another, keeping the space for it.
#[derive(Debug)]
pub struct Unpacker {
    decompressor: Decompressor,
    max_batch_bytes: usize,
}

impl Unpacker {
    /// One that unpacks at most `max_batch_bytes` of an entry.
    #[must_use]
    pub fn new(max_batch_bytes: usize) -> Self {
        Self {
            decompressor: Decompressor::new(),
            max_batch_bytes,
        }
    }

    /// Hands out the records of a batch, as many as can be read; then says why there are no
    /// more, if there should be (`DefaultRecordBatch.iterator`).
    ///
    /// # Errors
    /// If the file cannot be read, or `visit` fails.
    pub fn batch<E: From<Error>>(
        &mut self,
        batch: &Batch<'_>,
        mut visit: impl FnMut(&LogRecord<'_>) -> Result<(), E>,
    ) -> Result<Option<BadRecords>, E> {
        let header = batch.header;
        let attributes = header.attributes();
        // Bytes without a codec are not unpacked, but read into memory where a file is not mapped.
        if let Some(bad) = self.over_limit(attributes.compression_type(), batch.size_in_bytes()) {
            return Ok(Some(bad));
        }
        let stored = batch.records()?;
        batch.check_unchanged()?;
        let records = RecordIterator::decompress(
            header,
            &stored,
            &mut self.decompressor,
            self.max_batch_bytes,
        );
        let records = match records {
            Ok(records) => records,
            Err(error) => return Ok(Some(BadRecords::new(error))),
        };
        let timestamp_type = attributes.timestamp_type();
        for record in records {
            match record {
                Ok(record) => visit(&LogRecord::from_batch(&record, timestamp_type))?,
                Err(error) => return Ok(Some(BadRecords::new(error))),
            }
        }
        Ok(None)
    }

    /// The same for an entry of magic 0 or 1: the message, or those in the wrapper
    /// (`AbstractLegacyRecordBatch.iterator`).
    ///
    /// # Errors
    /// If the file cannot be read, or `visit` fails.
    pub fn legacy<E: From<Error>>(
        &mut self,
        entry: &LegacyEntry<'_>,
        mut visit: impl FnMut(&LogRecord<'_>) -> Result<(), E>,
    ) -> Result<Option<BadRecords>, E> {
        let codec = entry.header.compression_type();
        if let Some(bad) = self.over_limit(codec, entry.size_in_bytes()) {
            return Ok(Some(bad));
        }
        let stored = entry.bytes()?;
        let set = LegacyRecord::decode(&stored).and_then(|record| {
            LegacyRecordSet::new(record, &mut self.decompressor, self.max_batch_bytes)
        });
        let set = match set {
            Ok(set) => set,
            Err(error) => return Ok(Some(BadRecords::new(error))),
        };
        for record in set {
            match record {
                Ok(record) => visit(&LogRecord::from_legacy(&record))?,
                Err(error) => return Ok(Some(BadRecords::new(error))),
            }
        }
        Ok(None)
    }

    fn over_limit(&self, codec: CompressionType, size_in_bytes: u64) -> Option<BadRecords> {
        let limit = self.max_batch_bytes as u64;
        let records = size_in_bytes.saturating_sub(HEADER_SIZE as u64);
        (codec == CompressionType::NONE && records > limit).then(|| {
            let error = DecodeErrorKind::Unexpected {
                found: format!("{size_in_bytes} bytes long"),
                expected: format!("at most {limit}"),
            };
            BadRecords {
                kind: OVER_LIMIT,
                error: DecodeError::new("record batch", "", 0, error),
            }
        })
    }
}
