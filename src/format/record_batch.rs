//! RecordBatch v2 (magic 2): the 61-byte header. Kafka 0.11 and later.
//!
//! | position | type   | field                |
//! |----------|--------|----------------------|
//! | 0        | int64  | baseOffset           |
//! | 8        | int32  | batchLength: bytes after this field |
//! | 12       | int32  | partitionLeaderEpoch |
//! | 16       | int8   | magic                |
//! | 17       | uint32 | crc: CRC-32C of everything from position 21 |
//! | 21       | int16  | attributes           |
//! | 23       | int32  | lastOffsetDelta      |
//! | 27       | int64  | baseTimestamp, or the delete horizon (KIP-534) |
//! | 35       | int64  | maxTimestamp         |
//! | 43       | int64  | producerId           |
//! | 51       | int16  | producerEpoch        |
//! | 53       | int32  | baseSequence         |
//! | 57       | int32  | recordsCount         |
//! | 61       |        | records, or one compressed stream of them |
//!
//! Not under the checksum: baseOffset, batchLength, partitionLeaderEpoch, magic and the checksum
//! itself. Decides `DefaultRecordBatch`.

use zerocopy::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{NO_SEQUENCE, NO_TIMESTAMP};
use crate::error::{DecodeError, DecodeErrorKind};

const BASE_OFFSET_SIZE: usize = 8;
const BATCH_LENGTH_SIZE: usize = 4;
/// Bytes before the ones that batchLength counts; the same for every magic.
pub const LOG_OVERHEAD: usize = BASE_OFFSET_SIZE + BATCH_LENGTH_SIZE;
const PARTITION_LEADER_EPOCH_SIZE: usize = 4;
/// Position of the magic byte; the same for every magic, so that a reader can tell them apart.
pub const MAGIC_POSITION: usize = LOG_OVERHEAD + PARTITION_LEADER_EPOCH_SIZE;
/// Bytes needed to see the size and the magic of an entry of any magic. Kafka's reader takes
/// fewer bytes than this at the end of a file for nothing at all
/// (`Records.HEADER_SIZE_UP_TO_MAGIC`).
pub const HEADER_SIZE_UP_TO_MAGIC: usize = MAGIC_POSITION + 1;
const CRC_SIZE: usize = 4;
/// Where the bytes under the checksum begin: at attributes. They end with the batch.
pub const CRC_START: usize = HEADER_SIZE_UP_TO_MAGIC + CRC_SIZE;
/// Bytes of the whole header (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`).
pub const HEADER_SIZE: usize = 61;
/// The smallest legal batchLength: a header and no record.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "49"
)]
pub const MIN_BATCH_LENGTH: i32 = (HEADER_SIZE - LOG_OVERHEAD) as i32;

/// The magic of this format.
pub const MAGIC_V2: i8 = 2;

/// The 61 bytes before the records of a batch, as they lie in the file.
///
/// The type has the layout of the file and no alignment, so a reference to it can point into a
/// memory map: see [`RecordBatchHeader::ref_from`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RecordBatchHeader {
    base_offset: I64,
    batch_length: I32,
    partition_leader_epoch: I32,
    magic: i8,
    crc: U32,
    attributes: I16,
    last_offset_delta: I32,
    base_timestamp: I64,
    max_timestamp: I64,
    producer_id: I64,
    producer_epoch: I16,
    base_sequence: I32,
    records_count: I32,
}

const _: () = assert!(size_of::<RecordBatchHeader>() == HEADER_SIZE);
const _: () = assert!(std::mem::offset_of!(RecordBatchHeader, magic) == MAGIC_POSITION);
const _: () = assert!(std::mem::offset_of!(RecordBatchHeader, attributes) == CRC_START);

/// The fields of a header as plain numbers: what one fills in to make a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "Kafka's names, explained at the methods of RecordBatchHeader"
)]
pub struct RecordBatchFields {
    pub base_offset: i64,
    pub batch_length: i32,
    pub partition_leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: Attributes,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub records_count: i32,
}

impl From<RecordBatchFields> for RecordBatchHeader {
    fn from(fields: RecordBatchFields) -> Self {
        Self {
            base_offset: fields.base_offset.into(),
            batch_length: fields.batch_length.into(),
            partition_leader_epoch: fields.partition_leader_epoch.into(),
            magic: fields.magic,
            crc: fields.crc.into(),
            attributes: fields.attributes.0.into(),
            last_offset_delta: fields.last_offset_delta.into(),
            base_timestamp: fields.base_timestamp.into(),
            max_timestamp: fields.max_timestamp.into(),
            producer_id: fields.producer_id.into(),
            producer_epoch: fields.producer_epoch.into(),
            base_sequence: fields.base_sequence.into(),
            records_count: fields.records_count.into(),
        }
    }
}

impl RecordBatchHeader {
    /// The header at the beginning of `bytes`, without copying it.
    ///
    /// Looks at the length only: whatever 61 bytes are there are a header.
    ///
    /// # Errors
    /// If there are fewer than [`HEADER_SIZE`] bytes.
    pub fn ref_from(bytes: &[u8]) -> Result<&Self, DecodeError> {
        match Self::ref_from_prefix(bytes) {
            Ok((header, _)) => Ok(header),
            Err(_) => Err(DecodeError::new(
                "record batch",
                "header",
                0,
                DecodeErrorKind::Truncated {
                    needed: HEADER_SIZE as u64,
                    available: bytes.len() as u64,
                },
            )),
        }
    }

    /// The header as it lies in a file.
    #[must_use]
    pub fn as_array(&self) -> [u8; HEADER_SIZE] {
        zerocopy::transmute!(*self)
    }

    /// All fields as plain numbers.
    #[must_use]
    pub fn fields(&self) -> RecordBatchFields {
        RecordBatchFields {
            base_offset: self.base_offset(),
            batch_length: self.batch_length(),
            partition_leader_epoch: self.partition_leader_epoch(),
            magic: self.magic(),
            crc: self.crc(),
            attributes: self.attributes(),
            last_offset_delta: self.last_offset_delta(),
            base_timestamp: self.base_timestamp_or_delete_horizon(),
            max_timestamp: self.max_timestamp(),
            producer_id: self.producer_id(),
            producer_epoch: self.producer_epoch(),
            base_sequence: self.base_sequence(),
            records_count: self.records_count(),
        }
    }

    /// Offset of the first record the batch had when it was appended.
    #[must_use]
    #[inline]
    pub fn base_offset(&self) -> i64 {
        self.base_offset.get()
    }

    /// Bytes after this field, as stored; see [`RecordBatchHeader::size_in_bytes`].
    #[must_use]
    #[inline]
    pub fn batch_length(&self) -> i32 {
        self.batch_length.get()
    }

    /// Bytes of the whole batch, header and records, that batchLength claims. At least 12 even
    /// if batchLength is negative.
    #[must_use]
    #[inline]
    pub fn size_in_bytes(&self) -> u64 {
        LOG_OVERHEAD as u64 + u64::try_from(self.batch_length()).unwrap_or(0)
    }

    /// Epoch of the leader that appended the batch; -1 in batches as clients send them.
    #[must_use]
    #[inline]
    pub fn partition_leader_epoch(&self) -> i32 {
        self.partition_leader_epoch.get()
    }

    /// The magic byte; [`MAGIC_V2`] if this is a header at all.
    #[must_use]
    #[inline]
    pub fn magic(&self) -> i8 {
        self.magic
    }

    /// The stored checksum.
    #[must_use]
    #[inline]
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// Codec, timestamp type and the marks of transactional and control batches.
    #[must_use]
    #[inline]
    pub fn attributes(&self) -> Attributes {
        Attributes(self.attributes.get())
    }

    /// Last offset less base offset; also last sequence less base sequence.
    #[must_use]
    #[inline]
    pub fn last_offset_delta(&self) -> i32 {
        self.last_offset_delta.get()
    }

    /// Offset of the last record the batch had when it was appended, whether or not compaction
    /// has removed that record since. Wraps as Java's arithmetic does on a damaged header.
    #[must_use]
    #[inline]
    pub fn last_offset(&self) -> i64 {
        self.base_offset()
            .wrapping_add(i64::from(self.last_offset_delta()))
    }

    /// The offset after the batch. Wraps as Java's arithmetic does on a damaged header.
    #[must_use]
    #[inline]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// The stored field: base of the record timestamps in milliseconds, or the delete horizon if
    /// [`Attributes::has_delete_horizon`].
    #[must_use]
    #[inline]
    pub fn base_timestamp_or_delete_horizon(&self) -> i64 {
        self.base_timestamp.get()
    }

    /// Base of the record timestamps, in milliseconds; -1 if there is none, and if the delete
    /// horizon stands in its place.
    #[must_use]
    #[inline]
    pub fn base_timestamp(&self) -> i64 {
        if self.attributes().has_delete_horizon() {
            NO_TIMESTAMP
        } else {
            self.base_timestamp.get()
        }
    }

    /// When tombstones and markers of this batch may be removed, in milliseconds (KIP-534).
    #[must_use]
    #[inline]
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.attributes()
            .has_delete_horizon()
            .then(|| self.base_timestamp.get())
    }

    /// Largest timestamp of the records in milliseconds, -1 if none; with `LogAppendTime` the
    /// timestamp of all of them.
    #[must_use]
    #[inline]
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp.get()
    }

    /// The producer's id, -1 if none.
    #[must_use]
    #[inline]
    pub fn producer_id(&self) -> i64 {
        self.producer_id.get()
    }

    /// Whether the batch has a producer id (`RecordBatch.hasProducerId`).
    #[must_use]
    #[inline]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id() > super::NO_PRODUCER_ID
    }

    /// The producer's epoch, -1 if none.
    #[must_use]
    #[inline]
    pub fn producer_epoch(&self) -> i16 {
        self.producer_epoch.get()
    }

    /// Sequence of the first record, -1 if none.
    #[must_use]
    #[inline]
    pub fn base_sequence(&self) -> i32 {
        self.base_sequence.get()
    }

    /// Sequence of the last record, -1 if none; after 2147483647 comes 0.
    #[must_use]
    #[inline]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence() == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            increment_sequence(self.base_sequence(), self.last_offset_delta())
        }
    }

    /// Records in the batch now, as stored. Compaction lowers it and leaves
    /// [`RecordBatchHeader::last_offset_delta`].
    #[must_use]
    #[inline]
    pub fn records_count(&self) -> i32 {
        self.records_count.get()
    }

    /// The checksum of a batch whose header this is and whose other bytes are `records`.
    #[must_use]
    pub fn compute_crc(&self, records: &[u8]) -> u32 {
        let header = self.as_bytes().get(CRC_START..).unwrap_or_default();
        crc32c::crc32c_append(crc32c::crc32c(header), records)
    }
}

/// `sequence + increment`, where 0 follows 2147483647 (`DefaultRecordBatch.incrementSequence`).
#[must_use]
#[inline]
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(increment) {
        increment
            .wrapping_sub(i32::MAX.wrapping_sub(sequence))
            .wrapping_sub(1)
    } else {
        sequence.wrapping_add(increment)
    }
}

/// `sequence - decrement`, where 2147483647 precedes 0 (`DefaultRecordBatch.decrementSequence`).
#[must_use]
#[inline]
pub fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    if sequence < decrement {
        i32::MAX
            .wrapping_sub(decrement.wrapping_sub(sequence))
            .wrapping_add(1)
    } else {
        sequence.wrapping_sub(decrement)
    }
}

/// The attribute bits of a batch. Kafka reads the low byte only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    /// Bits 0-2: the codec.
    pub const COMPRESSION_CODEC_MASK: i16 = 0x07;
    /// Bit 3: record timestamps are the time of the append.
    pub const TIMESTAMP_TYPE_MASK: i16 = 0x08;
    /// Bit 4: the batch belongs to a transaction.
    pub const TRANSACTIONAL_FLAG_MASK: i16 = 0x10;
    /// Bit 5: the batch holds control records.
    pub const CONTROL_FLAG_MASK: i16 = 0x20;
    /// Bit 6: the base timestamp is the delete horizon.
    pub const DELETE_HORIZON_FLAG_MASK: i16 = 0x40;
    /// Bits that Kafka writes as 0 and ignores when reading.
    pub const UNUSED_MASK: i16 = !0x7f;

    /// How the records are compressed.
    #[must_use]
    #[inline]
    pub fn compression_type(self) -> CompressionType {
        #[expect(clippy::cast_sign_loss, reason = "0 to 7")]
        CompressionType((self.0 & Self::COMPRESSION_CODEC_MASK) as u8)
    }

    /// Whose clock the timestamps come from.
    #[must_use]
    #[inline]
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::TIMESTAMP_TYPE_MASK == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the batch belongs to a transaction; true for its marker as well.
    #[must_use]
    #[inline]
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL_FLAG_MASK != 0
    }

    /// Whether the batch holds control records, which no consumer sees.
    #[must_use]
    #[inline]
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL_FLAG_MASK != 0
    }

    /// Whether the base timestamp is the delete horizon.
    #[must_use]
    #[inline]
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON_FLAG_MASK != 0
    }
}

/// A codec by its number. 5 to 7 fit the bits and mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionType(pub u8);

impl CompressionType {
    /// Records as they are.
    pub const NONE: Self = Self(0);
    /// RFC 1952.
    pub const GZIP: Self = Self(1);
    /// Snappy in the framing of snappy-java.
    pub const SNAPPY: Self = Self(2);
    /// An LZ4 frame.
    pub const LZ4: Self = Self(3);
    /// Zstandard; since Kafka 2.1 and only in magic 2.
    pub const ZSTD: Self = Self(4);

    /// Kafka's lower-case name; `unknown(5)` and so on for a number without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "none",
            1 => "gzip",
            2 => "snappy",
            3 => "lz4",
            4 => "zstd",
            5 => "unknown(5)",
            6 => "unknown(6)",
            7 => "unknown(7)",
            _ => "unknown",
        }
    }
}

/// Whose clock a batch's timestamps come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// Magic 0 has no timestamps.
    NoTimestampType,
    /// The producer's, one a record.
    CreateTime,
    /// The broker's, one for the whole batch: maxTimestamp.
    LogAppendTime,
}

impl TimestampType {
    /// Kafka's name, as in `kafka-dump-log`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoTimestampType => "NoTimestampType",
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}
