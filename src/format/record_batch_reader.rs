//! The records of a magic 2 batch, compressed or not, one after another.
//!
//! Kafka's rules: the count says how many records there are, each must end where its length
//! says, and the last one must end where the (decompressed) bytes do. Whether offsets rise and
//! agree with the header is left to the caller. Decides `DefaultRecordBatch.RecordIterator`,
//! `DefaultRecord.readFrom`.

use super::NO_SEQUENCE;
use super::compression::Decompressor;
use super::record::Record;
use super::record_batch::{RecordBatchHeader, TimestampType, increment_sequence};
use crate::error::{DecodeError, DecodeErrorKind};

/// Position of recordsCount in the batch, for errors.
const RECORDS_COUNT_POSITION: u64 = 57;

/// A record with what the batch's header adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchRecord<'a> {
    /// Base offset plus the record's offset delta.
    pub offset: i64,
    /// Milliseconds; with `LogAppendTime` the batch's maxTimestamp whatever the delta.
    pub timestamp: i64,
    /// Base sequence plus the record's offset delta, 0 following 2147483647; -1 if the batch has
    /// none.
    pub sequence: i32,
    /// Position of the record's first byte in the plain bytes.
    pub position: usize,
    /// Bytes of the record with its length field.
    pub size_in_bytes: usize,
    /// The record's own fields.
    pub record: Record<'a>,
}

/// Iterates over the records of a batch. An error is the last thing that comes.
///
/// Headers are checked, not kept: see [`Record::header_iter`].
#[derive(Clone, Debug)]
pub struct RecordIterator<'a> {
    plain: &'a [u8],
    position: usize,
    remaining: i32,
    base_offset: i64,
    base_timestamp: i64,
    log_append_time: Option<i64>,
    base_sequence: i32,
}

impl<'a> RecordIterator<'a> {
    /// The records in `plain`, the bytes behind the batch's header, already decompressed.
    ///
    /// # Errors
    /// If recordsCount is negative.
    pub fn new(header: &RecordBatchHeader, plain: &'a [u8]) -> Result<Self, DecodeError> {
        let remaining = header.records_count();
        if remaining < 0 {
            let kind = DecodeErrorKind::BelowMinimum {
                found: i64::from(remaining),
                minimum: 0,
            };
            return Err(count_error(kind));
        }
        let log_append_time = match header.attributes().timestamp_type() {
            TimestampType::LogAppendTime => Some(header.max_timestamp()),
            TimestampType::CreateTime | TimestampType::NoTimestampType => None,
        };
        Ok(Self {
            plain,
            position: 0,
            remaining,
            base_offset: header.base_offset(),
            // With a delete horizon the deltas are based on it.
            base_timestamp: header.base_timestamp_or_delete_horizon(),
            log_append_time,
            base_sequence: header.base_sequence(),
        })
    }

    /// The records in `records`, the bytes behind the batch's header as they are stored, of
    /// which at most `max_output` are decompressed.
    ///
    /// # Errors
    /// If recordsCount is negative or the bytes cannot be decompressed. A batch without records
    /// is not looked into, as Kafka does not either.
    pub fn decompress(
        header: &RecordBatchHeader,
        records: &'a [u8],
        decompressor: &'a mut Decompressor,
        max_output: usize,
    ) -> Result<Self, DecodeError> {
        if header.records_count() == 0 {
            return Self::new(header, &[]);
        }
        let codec = header.attributes().compression_type();
        let plain = decompressor.decompress(codec, header.magic(), records, max_output)?;
        Self::new(header, plain)
    }

    /// Records that the header says are still to come.
    #[must_use]
    pub fn remaining(&self) -> i32 {
        self.remaining
    }

    #[expect(clippy::inline_always, reason = "as Record::decode is")]
    #[inline(always)]
    fn read(&mut self) -> Result<BatchRecord<'a>, DecodeError> {
        let position = self.position;
        let rest = self.plain.get(position..).unwrap_or_default();
        let behind = |mut error: DecodeError, bytes: usize| {
            error.position = error.position.saturating_add(bytes as u64);
            error
        };
        let (record, size) = Record::decode(rest).map_err(|error| behind(error, position))?;
        let end = position + size;
        if record.header_count != 0 || !record.headers.is_empty() {
            let headers = end - record.headers.len();
            for header in record.header_iter() {
                header.map_err(|error| behind(error, headers))?;
            }
        }
        self.position = end;
        let timestamp = self
            .log_append_time
            .unwrap_or_else(|| self.base_timestamp.wrapping_add(record.timestamp_delta));
        let sequence = if self.base_sequence >= 0 {
            increment_sequence(self.base_sequence, record.offset_delta)
        } else {
            NO_SEQUENCE
        };
        Ok(BatchRecord {
            offset: self
                .base_offset
                .wrapping_add(i64::from(record.offset_delta)),
            timestamp,
            sequence,
            position,
            size_in_bytes: size,
            record,
        })
    }
}

impl<'a> Iterator for RecordIterator<'a> {
    type Item = Result<BatchRecord<'a>, DecodeError>;

    #[expect(clippy::inline_always, reason = "as Record::decode is")]
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let mut item = self.read();
        let left = self.plain.len() - self.position;
        if item.is_ok() && self.remaining == 0 && left > 0 {
            // Kafka refuses the last record, too.
            let left = left as u64;
            item = Err(count_error(DecodeErrorKind::TrailingBytes { left }));
        }
        if item.is_err() {
            self.remaining = 0;
        }
        Some(item)
    }
}

fn count_error(kind: DecodeErrorKind) -> DecodeError {
    DecodeError::new("record batch", "recordsCount", RECORDS_COUNT_POSITION, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record_batch::{HEADER_SIZE, RecordBatchFields};
    use crate::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};

    fn batch(settings: BatchSettings, timestamps: &[i64]) -> (RecordBatchFields, Vec<u8>) {
        let mut builder = RecordBatchBuilder::new(settings).unwrap();
        for &timestamp in timestamps {
            let record = SimpleRecord {
                timestamp,
                value: Some(b"v"),
                ..SimpleRecord::default()
            };
            builder.append(&record).unwrap();
        }
        (builder.fields(), builder.plain_records().to_vec())
    }

    fn read(fields: RecordBatchFields, plain: &[u8]) -> Result<Vec<(i64, i64, i32)>, DecodeError> {
        let header = RecordBatchHeader::from(fields);
        RecordIterator::new(&header, plain)?
            .map(|record| record.map(|record| (record.offset, record.timestamp, record.sequence)))
            .collect()
    }

    #[test]
    fn offsets_timestamps_and_sequences_are_absolute() {
        let settings = BatchSettings {
            base_offset: 100,
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: i32::MAX,
            ..BatchSettings::default()
        };
        let (mut fields, plain) = batch(settings, &[50, 40]);
        let expected = [(100, 50, i32::MAX), (101, 40, 0)];
        assert_eq!(read(fields, &plain).unwrap(), expected);
        fields.attributes.0 |= 8;
        fields.max_timestamp = 99;
        fields.base_sequence = -1;
        let expected = [(100, 99, -1), (101, 99, -1)];
        assert_eq!(read(fields, &plain).unwrap(), expected);
    }

    #[test]
    fn deltas_are_based_on_the_delete_horizon() {
        let settings = BatchSettings {
            delete_horizon_ms: Some(1000),
            ..BatchSettings::default()
        };
        let (fields, plain) = batch(settings, &[50]);
        assert_eq!(fields.base_timestamp, 1000);
        assert_eq!(read(fields, &plain).unwrap(), [(0, 50, -1)]);
    }

    #[test]
    fn count_must_be_that_of_the_records() {
        let (mut fields, plain) = batch(BatchSettings::default(), &[1, 2]);
        fields.records_count = 1;
        let error = read(fields, &plain).unwrap_err();
        assert_eq!(
            error.to_string(),
            "record batch recordsCount leaves 8 bytes unread (at position 57)"
        );
        for count in [3, i32::MAX] {
            fields.records_count = count;
            assert!(read(fields, &plain).is_err());
        }
        fields.records_count = -1;
        assert!(read(fields, &plain).is_err());
        // Kafka does not look into a batch that says it is empty.
        fields.records_count = 0;
        assert_eq!(read(fields, &plain).unwrap(), []);
    }

    #[test]
    fn compressed_batches_are_read_through_the_decompressor() {
        let settings = BatchSettings {
            compression_type: crate::format::record_batch::CompressionType::LZ4,
            ..BatchSettings::default()
        };
        let mut builder = RecordBatchBuilder::new(settings).unwrap();
        builder.append(&SimpleRecord::default()).unwrap();
        let mut out = Vec::new();
        builder.build(&mut out).unwrap();
        let header = RecordBatchHeader::ref_from(&out).unwrap();
        let mut decompressor = Decompressor::new();
        let records = &out[HEADER_SIZE..];
        let mut read = |limit| {
            let records = RecordIterator::decompress(header, records, &mut decompressor, limit)?;
            Ok::<_, DecodeError>(records.count())
        };
        assert_eq!(read(1000), Ok(1));
        assert!(read(3).is_err());
    }
}
