//! Magic 0 and 1: the log entries of Kafka up to 0.10. Each is a batch of its own.
//!
//! | position | type   | field |
//! |----------|--------|-------|
//! | 0        | int64  | offset; of a wrapper, that of its last inner message |
//! | 8        | int32  | messageSize: bytes after this field |
//! | 12       | uint32 | crc: CRC-32 of zlib, not Castagnoli, of everything from position 16 |
//! | 16       | int8   | magic, 0 or 1 |
//! | 17       | int8   | attributes: bits 0-2 codec, in magic 1 bit 3 timestamp type |
//! | 18       | int64  | timestamp, in magic 1 only |
//! | 18 or 26 | int32  | keyLength, -1 = null; then the key |
//! |          | int32  | valueLength, -1 = null; then the value |
//!
//! A wrapper has a codec and, as its value, the compressed stream of such entries. Its value is
//! not decompressed here. Decides `LegacyRecord`, `AbstractLegacyRecordBatch`.

use zerocopy::big_endian::{I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::NO_TIMESTAMP;
use super::record_batch::{CompressionType, LOG_OVERHEAD, MAGIC_POSITION, TimestampType};
use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "legacy record";

/// Where the bytes under the checksum begin: at magic. They end with the entry.
pub const CRC_START: usize = MAGIC_POSITION;
/// Bytes of the fields that both magics have in front.
pub const COMMON_HEADER_SIZE: usize = 18;
const TIMESTAMP_SIZE: usize = 8;
const LENGTH_SIZE: usize = 4;
/// The smallest legal messageSize of magic 0 (`LegacyRecord.RECORD_OVERHEAD_V0`). Kafka holds
/// every magic to this one.
pub const MIN_MESSAGE_SIZE_V0: i32 = 14;
/// The smallest legal messageSize of magic 1: 8 bytes of timestamp more.
pub const MIN_MESSAGE_SIZE_V1: i32 = 22;

const _: () = assert!(
    MIN_MESSAGE_SIZE_V0 as usize == COMMON_HEADER_SIZE - LOG_OVERHEAD + 2 * LENGTH_SIZE
        && MIN_MESSAGE_SIZE_V1 as usize == MIN_MESSAGE_SIZE_V0 as usize + TIMESTAMP_SIZE
);

/// The magic without timestamps.
pub const MAGIC_V0: i8 = 0;
/// The magic with timestamps, since Kafka 0.10.0.
pub const MAGIC_V1: i8 = 1;

const COMPRESSION_CODEC_MASK: i8 = 0x07;
const TIMESTAMP_TYPE_MASK: i8 = 0x08;

/// The fields that both magics have in front, as they lie in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LegacyRecordHeader {
    offset: I64,
    message_size: I32,
    crc: U32,
    magic: i8,
    attributes: i8,
}

const _: () = assert!(size_of::<LegacyRecordHeader>() == COMMON_HEADER_SIZE);
const _: () = assert!(std::mem::offset_of!(LegacyRecordHeader, magic) == MAGIC_POSITION);

impl LegacyRecordHeader {
    /// The header at the beginning of `bytes`, without copying it.
    ///
    /// # Errors
    /// If there are fewer than [`COMMON_HEADER_SIZE`] bytes.
    pub fn ref_from(bytes: &[u8]) -> Result<&Self, DecodeError> {
        match Self::ref_from_prefix(bytes) {
            Ok((header, _)) => Ok(header),
            Err(_) => Err(truncated("header", 0, COMMON_HEADER_SIZE as u64, bytes)),
        }
    }

    /// The offset; of a wrapper, that of its last inner message.
    #[must_use]
    #[inline]
    pub fn offset(&self) -> i64 {
        self.offset.get()
    }

    /// Bytes after this field, as stored; see [`LegacyRecordHeader::size_in_bytes`].
    #[must_use]
    #[inline]
    pub fn message_size(&self) -> i32 {
        self.message_size.get()
    }

    /// Bytes of the whole entry that messageSize claims. At least 12 even if it is negative.
    #[must_use]
    #[inline]
    pub fn size_in_bytes(&self) -> u64 {
        LOG_OVERHEAD as u64 + u64::try_from(self.message_size()).unwrap_or(0)
    }

    /// The stored checksum.
    #[must_use]
    #[inline]
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// The magic byte.
    #[must_use]
    #[inline]
    pub fn magic(&self) -> i8 {
        self.magic
    }

    /// The attribute bits as stored.
    #[must_use]
    #[inline]
    pub fn attributes(&self) -> i8 {
        self.attributes
    }

    /// How the value is compressed; with another codec than none the entry is a wrapper.
    #[must_use]
    #[inline]
    pub fn compression_type(&self) -> CompressionType {
        CompressionType((self.attributes & COMPRESSION_CODEC_MASK).cast_unsigned())
    }

    /// Whose clock the timestamp comes from; magic 0 has none, whatever its bit says.
    #[must_use]
    #[inline]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.magic == MAGIC_V0 {
            TimestampType::NoTimestampType
        } else if self.attributes & TIMESTAMP_TYPE_MASK == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// The smallest messageSize that holds all fields of this magic.
    #[must_use]
    #[inline]
    pub fn min_message_size(&self) -> i32 {
        if self.magic == MAGIC_V0 {
            MIN_MESSAGE_SIZE_V0
        } else {
            MIN_MESSAGE_SIZE_V1
        }
    }
}

/// The checksum of the entry that `entry` holds from its first byte to its last.
#[must_use]
pub fn compute_crc(entry: &[u8]) -> u32 {
    crc32fast::hash(entry.get(CRC_START..).unwrap_or_default())
}

/// One entry, borrowed. A wrapper is one entry, its value still compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyRecord<'a> {
    /// The fields in front.
    pub header: &'a LegacyRecordHeader,
    /// Milliseconds since the epoch; -1 in magic 0 and if there is none.
    pub timestamp: i64,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value, if there is one; of a wrapper the compressed stream.
    pub value: Option<&'a [u8]>,
    /// All bytes of the entry.
    pub entry: &'a [u8],
}

impl<'a> LegacyRecord<'a> {
    /// The entry at the beginning of `bytes`. The checksum is not looked at.
    ///
    /// # Errors
    /// If the entry does not fit the bytes, messageSize is below the minimum of the magic, the
    /// magic is neither 0 nor 1, or key and value do not fit the entry.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let header = LegacyRecordHeader::ref_from(bytes)?;
        if header.magic() != MAGIC_V0 && header.magic() != MAGIC_V1 {
            let kind = DecodeErrorKind::Unexpected {
                found: header.magic().to_string(),
                expected: "0 or 1".to_owned(),
            };
            return Err(error("magic", MAGIC_POSITION, kind));
        }
        if header.message_size() < header.min_message_size() {
            let kind = DecodeErrorKind::BelowMinimum {
                found: i64::from(header.message_size()),
                minimum: i64::from(header.min_message_size()),
            };
            return Err(error("messageSize", 8, kind));
        }
        let needed = header.size_in_bytes();
        let entry = usize::try_from(needed)
            .ok()
            .and_then(|size| bytes.get(..size))
            .ok_or_else(|| truncated("messageSize", 8, needed, bytes))?;
        let mut fields = Fields {
            bytes: entry,
            position: COMMON_HEADER_SIZE,
        };
        let timestamp = match header.magic() {
            MAGIC_V0 => NO_TIMESTAMP,
            _ => i64::from_be_bytes(fields.chunk("timestamp")?),
        };
        Ok(Self {
            header,
            timestamp,
            key: fields.nullable_bytes("key")?,
            value: fields.nullable_bytes("value")?,
            entry,
        })
    }

    /// The checksum of the entry's bytes, to compare with [`LegacyRecordHeader::crc`].
    #[must_use]
    pub fn compute_crc(&self) -> u32 {
        compute_crc(self.entry)
    }
}

/// The fields of an entry as plain values: what one fills in to make an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyRecordFields<'a> {
    /// The entry's offset.
    pub offset: i64,
    /// 0 or 1.
    pub magic: i8,
    /// Codec and timestamp type.
    pub attributes: i8,
    /// Written in magic 1 only.
    pub timestamp: i64,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
}

impl LegacyRecordFields<'_> {
    /// Appends the entry with its checksum.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = vec![self.magic.cast_unsigned(), self.attributes.cast_unsigned()];
        if self.magic != MAGIC_V0 {
            body.extend(self.timestamp.to_be_bytes());
        }
        write_nullable_bytes(self.key, &mut body);
        write_nullable_bytes(self.value, &mut body);
        let message_size = i32::try_from(body.len() + LENGTH_SIZE).unwrap_or(i32::MAX);
        out.extend(self.offset.to_be_bytes());
        out.extend(message_size.to_be_bytes());
        out.extend(crc32fast::hash(&body).to_be_bytes());
        out.extend_from_slice(&body);
    }
}

fn write_nullable_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    let length = bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX));
    out.extend(length.to_be_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, field: &'static str, size: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.position.saturating_add(size);
        let bytes = self
            .bytes
            .get(self.position..end)
            .ok_or_else(|| truncated(field, self.position, end as u64, self.bytes))?;
        self.position = end;
        Ok(bytes)
    }

    fn chunk<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(field, N)?;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    /// Any negative length is a null, as in `Utils.sizeDelimited`.
    fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = i32::from_be_bytes(self.chunk(field)?);
        match usize::try_from(length) {
            Ok(length) => self.take(field, length).map(Some),
            Err(_) => Ok(None),
        }
    }
}

fn error(field: &'static str, position: usize, kind: DecodeErrorKind) -> DecodeError {
    DecodeError::new(STRUCTURE, field, position as u64, kind)
}

fn truncated(field: &'static str, position: usize, needed: u64, bytes: &[u8]) -> DecodeError {
    let available = bytes.len() as u64;
    error(
        field,
        position,
        DecodeErrorKind::Truncated { needed, available },
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Entries written by Kafka 1.1.1 in the message formats 0.9 and 0.10.
    const MAGIC_0: [u8; 98] = [
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x56, 0xf1, 0x39, 0x9c,
        0xe4, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x6e, 0x6f, 0x6e, 0x65, 0x2d, 0x6b, 0x65, 0x79,
        0x2d, 0x32, 0x37, 0x00, 0x00, 0x00, 0x3d, 0x6e, 0x6f, 0x6e, 0x65, 0x2d, 0x76, 0x61, 0x6c,
        0x75, 0x65, 0x2d, 0x31, 0x2d, 0x6e, 0x6f, 0x6e, 0x65, 0x2d, 0x76, 0x61, 0x6c, 0x75, 0x65,
        0x2d, 0x31, 0x2d, 0x6e, 0x6f, 0x6e, 0x65, 0x2d, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x2d, 0x31,
        0x2d, 0x6e, 0x6f, 0x6e, 0x65, 0x2d, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x2d, 0x31, 0x2d, 0xc8,
        0xe3, 0x0a, 0x15, 0xd3, 0xf6, 0xe2, 0xc5, 0x26,
    ];
    const MAGIC_1: [u8; 59] = [
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2f, 0x05, 0xc1, 0xbf,
        0x90, 0x01, 0x00, 0x00, 0x00, 0x01, 0xa2, 0x27, 0xeb, 0xfb, 0x17, 0x00, 0x00, 0x00, 0x0a,
        0x6e, 0x6f, 0x6e, 0x65, 0x2d, 0x6b, 0x65, 0x79, 0x2d, 0x34, 0x00, 0x00, 0x00, 0x0f, 0x6e,
        0x6f, 0x6e, 0x65, 0x2d, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x2d, 0x31, 0x37, 0x35, 0x2d,
    ];

    #[test]
    fn magic_0_bytes_to_every_field_and_back() {
        let record = LegacyRecord::decode(&MAGIC_0).unwrap();
        assert_eq!(record.header.offset(), 0);
        assert_eq!(record.header.message_size(), 86);
        assert_eq!(record.header.size_in_bytes(), 98);
        assert_eq!(record.header.crc(), 4_047_084_772);
        assert_eq!(record.compute_crc(), 4_047_084_772);
        assert_eq!(record.header.magic(), 0);
        assert_eq!(record.header.compression_type(), CompressionType::NONE);
        assert_eq!(
            record.header.timestamp_type(),
            TimestampType::NoTimestampType
        );
        assert_eq!(record.timestamp, NO_TIMESTAMP);
        assert_eq!(record.key, Some(b"none-key-27".as_slice()));
        assert_eq!(record.value.unwrap().len(), 61);
        assert_eq!(encode(&record), MAGIC_0);
    }

    #[test]
    fn magic_1_bytes_to_every_field_and_back() {
        let record = LegacyRecord::decode(&MAGIC_1).unwrap();
        assert_eq!(record.header.message_size(), 47);
        assert_eq!(record.header.crc(), 0x05c1_bf90);
        assert_eq!(record.compute_crc(), 0x05c1_bf90);
        assert_eq!(record.header.magic(), 1);
        assert_eq!(record.header.timestamp_type(), TimestampType::CreateTime);
        assert_eq!(record.timestamp, 0x01a2_27eb_fb17);
        assert_eq!(record.key, Some(b"none-key-4".as_slice()));
        assert_eq!(record.value, Some(b"none-value-175-".as_slice()));
        assert_eq!(encode(&record), MAGIC_1);
    }

    fn encode(record: &LegacyRecord<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        fields(record).encode(&mut out);
        out
    }

    fn fields<'a>(record: &LegacyRecord<'a>) -> LegacyRecordFields<'a> {
        LegacyRecordFields {
            offset: record.header.offset(),
            magic: record.header.magic(),
            attributes: record.header.attributes(),
            timestamp: record.timestamp,
            key: record.key,
            value: record.value,
        }
    }

    #[test]
    fn wrapper_has_a_codec_and_log_append_time() {
        // The first bytes of a compressed set that a broker stamped.
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0x7d, 0xec, 0xe2, 0xd9, 0xe6, 1, 9,
        ];
        let header = LegacyRecordHeader::ref_from(&bytes).unwrap();
        assert_eq!(header.offset(), 3);
        assert_eq!(header.compression_type(), CompressionType::GZIP);
        assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    }

    #[test]
    fn each_cause_has_its_error() {
        let cause = |bytes: &[u8]| {
            let error = LegacyRecord::decode(bytes).unwrap_err();
            (error.field, error.position)
        };
        assert_eq!(cause(&MAGIC_0[..17]), ("header", 0));
        assert_eq!(cause(&MAGIC_0[..97]), ("messageSize", 8));
        let mut bytes = MAGIC_1.to_vec();
        bytes[11] = 21;
        assert_eq!(cause(&bytes), ("messageSize", 8));
        let mut bytes = MAGIC_1.to_vec();
        bytes[16] = 2;
        assert_eq!(cause(&bytes), ("magic", 16));
        let mut bytes = MAGIC_1.to_vec();
        bytes[26] = 1;
        assert_eq!(cause(&bytes), ("key", 30));
        let mut bytes = MAGIC_1.to_vec();
        bytes[43] = 16;
        assert_eq!(cause(&bytes), ("value", 44));
    }

    proptest! {
        #[test]
        fn round_trip(
            offset: i64,
            magic in 0..=1i8,
            attributes: i8,
            timestamp: i64,
            key: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
        ) {
            let fields_in = LegacyRecordFields {
                offset,
                magic,
                attributes,
                timestamp: if magic == MAGIC_V0 { NO_TIMESTAMP } else { timestamp },
                key: key.as_deref(),
                value: value.as_deref(),
            };
            let mut out = Vec::new();
            fields_in.encode(&mut out);
            let record = LegacyRecord::decode(&out).unwrap();
            prop_assert_eq!(fields(&record), fields_in);
            prop_assert_eq!(record.compute_crc(), record.header.crc());
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            front: [u8; 11],
            size: u8,
            body in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let mut bytes = front.to_vec();
            let _ = LegacyRecord::decode(&bytes);
            bytes[8..].fill(0);
            bytes.push(size);
            bytes.extend(body);
            let _ = LegacyRecord::decode(&bytes);
            if let Some(magic) = bytes.get_mut(MAGIC_POSITION) {
                *magic &= 1;
            }
            let _ = LegacyRecord::decode(&bytes);
            let _ = compute_crc(&bytes);
        }
    }
}
