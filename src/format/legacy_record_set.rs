//! The messages of a magic 0 or 1 entry: the entry itself, or what a wrapper holds.
//!
//! A wrapper's value is a compressed stream of entries. Their offsets are absolute in magic 0;
//! in magic 1 they count from 0, and the wrapper has the absolute offset of the last one. With
//! `LogAppendTime` on the wrapper all of them have its timestamp. Entries that the stream ends
//! in are dropped, as Kafka does. Decides `AbstractLegacyRecordBatch.DeepRecordsIterator`.

use super::compression::Decompressor;
use super::legacy_record::{
    LegacyRecord, LegacyRecordHeader, MAGIC_V0, MAGIC_V1, MIN_MESSAGE_SIZE_V0,
};
use super::record_batch::{CompressionType, LOG_OVERHEAD, TimestampType};
use crate::error::{DecodeError, DecodeErrorKind};

/// What errors call it.
pub(crate) const STRUCTURE: &str = "legacy record set";

/// A message with what its wrapper adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacySetRecord<'a> {
    /// The absolute offset.
    pub offset: i64,
    /// Milliseconds; -1 if there is none.
    pub timestamp: i64,
    /// Whose clock the timestamp comes from.
    pub timestamp_type: TimestampType,
    /// The message as it is stored: inside a wrapper its own offset may be relative.
    pub record: LegacyRecord<'a>,
}

impl LegacySetRecord<'_> {
    /// Whether the message's own checksum is right. A wrapper's covers the compressed bytes.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.record.compute_crc() == self.record.header.crc()
    }
}

/// Iterates over the messages of an entry. An error is the last thing that comes.
#[derive(Clone, Debug)]
pub struct LegacyRecordSet<'a> {
    state: State<'a>,
}

#[derive(Clone, Debug)]
enum State<'a> {
    /// An entry that is no wrapper.
    Single(LegacyRecord<'a>),
    /// What is left of a wrapper.
    Inner(Inner<'a>),
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Inner<'a> {
    plain: &'a [u8],
    position: usize,
    /// Added to the stored offsets: 0 if they are absolute.
    base_offset: i64,
    wrapper_timestamp: i64,
    wrapper_timestamp_type: TimestampType,
}

impl<'a> LegacyRecordSet<'a> {
    /// The messages of `entry`, of which at most `max_output` bytes are decompressed.
    ///
    /// # Errors
    /// If a wrapper has no value, cannot be decompressed, holds no message or one of impossible
    /// size, or has an offset below that of its last message.
    pub fn new(
        entry: LegacyRecord<'a>,
        decompressor: &'a mut Decompressor,
        max_output: usize,
    ) -> Result<Self, DecodeError> {
        let header = entry.header;
        let codec = header.compression_type();
        if codec == CompressionType::NONE {
            let state = State::Single(entry);
            return Ok(Self { state });
        }
        let Some(value) = entry.value else {
            return Err(unexpected("value", 0, "null", "a compressed record set"));
        };
        let plain = decompressor.decompress(codec, header.magic(), value, max_output)?;
        let last = last_offset(plain)?;
        let base_offset = if header.magic() == MAGIC_V0 || header.offset() == 0 {
            // Some versions of librdkafka produced magic 1 wrappers at offset 0.
            0
        } else if header.offset() < last {
            let found = header.offset().to_string();
            let expected = format!("at least {last}, that of the last message inside");
            return Err(unexpected("offset", 0, &found, &expected));
        } else {
            header.offset().wrapping_sub(last)
        };
        let state = State::Inner(Inner {
            plain,
            position: 0,
            base_offset,
            wrapper_timestamp: entry.timestamp,
            wrapper_timestamp_type: header.timestamp_type(),
        });
        Ok(Self { state })
    }
}

impl<'a> Inner<'a> {
    fn read(&mut self) -> Option<Result<LegacySetRecord<'a>, DecodeError>> {
        let position = self.position;
        let rest = self.plain.get(position..).unwrap_or_default();
        let next = next_entry(rest)
            .and_then(|entry| entry.map(LegacyRecord::decode).transpose())
            .map_err(|error| behind(error, position))
            .transpose()?;
        let record = match next {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        self.position = position + record.entry.len();
        let header = record.header;
        if header.compression_type() != CompressionType::NONE {
            let found = header.compression_type().name();
            let error = unexpected("codec", position + LOG_OVERHEAD, found, "none in a wrapper");
            return Some(Err(error));
        }
        let (timestamp, timestamp_type) = if header.magic() != MAGIC_V1 {
            (record.timestamp, header.timestamp_type())
        } else if self.wrapper_timestamp_type == TimestampType::LogAppendTime {
            (self.wrapper_timestamp, self.wrapper_timestamp_type)
        } else {
            (record.timestamp, self.wrapper_timestamp_type)
        };
        Some(Ok(LegacySetRecord {
            offset: self.base_offset.wrapping_add(header.offset()),
            timestamp,
            timestamp_type,
            record,
        }))
    }
}

impl<'a> Iterator for LegacyRecordSet<'a> {
    type Item = Result<LegacySetRecord<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match &mut self.state {
            State::Done => return None,
            State::Single(record) => {
                let record = *record;
                self.state = State::Done;
                return Some(Ok(LegacySetRecord {
                    offset: record.header.offset(),
                    timestamp: record.timestamp,
                    timestamp_type: record.header.timestamp_type(),
                    record,
                }));
            }
            State::Inner(inner) => inner.read(),
        };
        if !matches!(item, Some(Ok(_))) {
            self.state = State::Done;
        }
        item
    }
}

/// The stored offset of the last entry (`DeepRecordsIterator` reads all of them first).
fn last_offset(plain: &[u8]) -> Result<i64, DecodeError> {
    let mut position = 0;
    let mut last = None;
    loop {
        let rest = plain.get(position..).unwrap_or_default();
        let Some(entry) = next_entry(rest).map_err(|error| behind(error, position))? else {
            break;
        };
        last = Some(LegacyRecordHeader::ref_from(entry)?.offset());
        position += entry.len();
    }
    last.ok_or_else(|| unexpected("value", 0, "without messages", "at least one"))
}

/// The same error, `bytes` further on.
fn behind(mut error: DecodeError, bytes: usize) -> DecodeError {
    error.position = error.position.saturating_add(bytes as u64);
    error
}

/// The bytes of the entry that `rest` begins with; `None` if it ends before the entry does
/// (`AbstractLegacyRecordBatch.DataLogInputStream`).
fn next_entry(rest: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    let Some(&[.., s0, s1, s2, s3]) = rest.first_chunk::<LOG_OVERHEAD>() else {
        return Ok(None);
    };
    let message_size = i32::from_be_bytes([s0, s1, s2, s3]);
    match usize::try_from(message_size) {
        Ok(size) if message_size >= MIN_MESSAGE_SIZE_V0 => {
            Ok(rest.get(..LOG_OVERHEAD.saturating_add(size)))
        }
        _ => {
            let kind = DecodeErrorKind::BelowMinimum {
                found: i64::from(message_size),
                minimum: i64::from(MIN_MESSAGE_SIZE_V0),
            };
            Err(DecodeError::new(STRUCTURE, "messageSize", 8, kind))
        }
    }
}

fn unexpected(field: &'static str, position: usize, found: &str, expected: &str) -> DecodeError {
    let kind = DecodeErrorKind::Unexpected {
        found: found.to_owned(),
        expected: expected.to_owned(),
    };
    DecodeError::new(STRUCTURE, field, position as u64, kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::compression::compress;
    use crate::format::legacy_record::LegacyRecordFields;

    const NO_VALUE: LegacyRecordFields<'_> = LegacyRecordFields {
        offset: 0,
        magic: 1,
        attributes: 0,
        timestamp: 0,
        key: None,
        value: None,
    };

    /// Entries at those offsets, each with a timestamp of ten times its offset.
    fn inner(magic: i8, offsets: &[i64]) -> Vec<u8> {
        let mut plain = Vec::new();
        for &offset in offsets {
            LegacyRecordFields {
                offset,
                magic,
                timestamp: offset * 10,
                ..NO_VALUE
            }
            .encode(&mut plain);
        }
        plain
    }

    fn wrapper(magic: i8, offset: i64, attributes: i8, plain: &[u8]) -> Vec<u8> {
        let mut value = Vec::new();
        let codec = CompressionType((attributes & 7).cast_unsigned());
        compress(codec, None, magic, plain, &mut value).unwrap();
        let mut out = Vec::new();
        LegacyRecordFields {
            offset,
            magic,
            attributes,
            timestamp: 777,
            value: Some(&value),
            ..NO_VALUE
        }
        .encode(&mut out);
        out
    }

    fn read(entry: &[u8]) -> Result<Vec<(i64, i64)>, DecodeError> {
        let entry = LegacyRecord::decode(entry)?;
        let mut decompressor = Decompressor::new();
        LegacyRecordSet::new(entry, &mut decompressor, 10_000)?
            .map(|record| record.map(|record| (record.offset, record.timestamp)))
            .collect()
    }

    #[test]
    fn offsets_are_absolute_in_magic_0_and_relative_in_magic_1() {
        for codec in 1..4 {
            let old = wrapper(0, 22, codec, &inner(0, &[20, 22]));
            assert_eq!(read(&old).unwrap(), [(20, -1), (22, -1)]);
            // A gap, as compaction leaves it.
            let new = wrapper(1, 104, codec, &inner(1, &[0, 1, 4]));
            assert_eq!(read(&new).unwrap(), [(100, 0), (101, 10), (104, 40)]);
        }
    }

    #[test]
    fn log_append_time_of_the_wrapper_counts_for_all() {
        let entry = wrapper(1, 1, 8 | 1, &inner(1, &[0, 1]));
        assert_eq!(read(&entry).unwrap(), [(0, 777), (1, 777)]);
    }

    #[test]
    fn wrapper_offset_below_the_last_message_is_refused_unless_0() {
        let entry = wrapper(1, 0, 1, &inner(1, &[0, 1]));
        assert_eq!(read(&entry).unwrap(), [(0, 0), (1, 10)]);
        let error = read(&wrapper(1, 2, 1, &inner(1, &[0, 3]))).unwrap_err();
        assert!(error.to_string().contains("offset is 2"), "{error}");
    }

    #[test]
    fn cut_messages_are_dropped_and_empty_wrappers_refused() {
        let plain = inner(1, &[0, 1]);
        let entry = wrapper(1, 5, 1, &plain[..plain.len() - 1]);
        assert_eq!(read(&entry).unwrap(), [(5, 0)]);
        assert!(read(&wrapper(1, 5, 1, &[])).is_err());
        assert!(read(&wrapper(1, 5, 1, &[0; 12])).is_err());
    }

    #[test]
    fn wrappers_in_wrappers_without_value_and_with_zstd_are_refused() {
        let nested = wrapper(1, 0, 2, &wrapper(1, 0, 1, &inner(1, &[0])));
        assert!(
            read(&nested)
                .unwrap_err()
                .to_string()
                .contains("codec is gzip")
        );
        for attributes in [1, 4, 5] {
            let mut entry = Vec::new();
            LegacyRecordFields {
                attributes,
                value: (attributes > 1).then_some(&b"x"[..]),
                ..NO_VALUE
            }
            .encode(&mut entry);
            assert!(read(&entry).is_err(), "{attributes}");
        }
    }

    #[test]
    fn checksum_of_each_message_is_told() {
        let mut plain = inner(1, &[0, 1]);
        let last = plain.len() - 1;
        plain[last] ^= 1;
        let entry = wrapper(1, 1, 1, &plain);
        let mut decompressor = Decompressor::new();
        let entry = LegacyRecord::decode(&entry).unwrap();
        let set = LegacyRecordSet::new(entry, &mut decompressor, 10_000).unwrap();
        let valid: Vec<_> = set.map(|record| record.unwrap().is_valid()).collect();
        assert_eq!(valid, [true, false]);
    }

    proptest! {
        #[test]
        fn arbitrary_wrappers_never_panic(value: Vec<u8>, attributes in 0..16i8, magic in 0..2i8) {
            let mut entry = Vec::new();
            LegacyRecordFields { magic, attributes, value: Some(&value), ..NO_VALUE }
                .encode(&mut entry);
            let _ = read(&entry);
            let attributes = attributes & 8 | 1;
            let _ = read(&wrapper(magic, 9, attributes, &value));
        }
    }
}
