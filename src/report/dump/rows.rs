//! What lies in a file: one row a batch, one row an entry of a side file.
//!
//! Rows show values as they lie in the file: a batch without a producer has producer id -1. What
//! a format has no room for is null.

use serde::Serialize;

use crate::report::content::{Content, HeadersRow};

/// Where a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source<'a> {
    /// Topic, as the directory's name says; null if that is no partition's name.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: &'a str,
}

/// One row of `dump`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum DumpRow<'a> {
    /// A batch of a `.log`.
    Batch(BatchRow<'a>),
    /// A record of the batch before it.
    Record(RecordRow<'a>),
    /// Bytes of a `.log` that are no batch, or records of a batch that cannot be read.
    Damage(DamageRow<'a>),
    /// An entry of an `.index`.
    OffsetIndexEntry(OffsetIndexRow<'a>),
    /// An entry of a `.timeindex`.
    TimeIndexEntry(TimeIndexRow<'a>),
    /// A row of a `.txnindex`.
    AbortedTxn(AbortedTxnRow<'a>),
    /// An entry of a producer `.snapshot`.
    ProducerSnapshotEntry(ProducerSnapshotRow<'a>),
    /// A line of one of the four offset checkpoints.
    CheckpointEntry(CheckpointRow<'a>),
    /// A line of `leader-epoch-checkpoint`.
    #[serde(rename = "checkpointEntry")]
    LeaderEpochEntry(LeaderEpochRow<'a>),
    /// A key and value of `meta.properties`, `partition.metadata`, `.kafka_cleanshutdown` or
    /// `quorum-state`.
    Property(PropertyRow<'a>),
}

/// A batch, magic 0 to 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchRow<'a> {
    /// Topic, as the directory's name says; null if that is no partition's name.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: &'a str,
    /// Byte position in the file.
    pub position: u64,
    /// Bytes of the whole batch.
    pub size_in_bytes: u64,
    /// First offset the batch had when it was appended. In magic 0 and 1 the entry's only offset
    /// field, which for a compressed wrapper is that of its last message.
    pub base_offset: i64,
    /// Last offset the batch had when it was appended.
    pub last_offset: i64,
    /// Records the header counts.
    pub count: Option<i32>,
    /// Sequence of the first record, -1 if none.
    pub base_sequence: Option<i32>,
    /// Sequence of the last record, -1 if none.
    pub last_sequence: Option<i32>,
    /// Producer id, -1 if none.
    pub producer_id: Option<i64>,
    /// Producer epoch, -1 if none.
    pub producer_epoch: Option<i16>,
    /// Epoch of the leader that appended the batch.
    pub partition_leader_epoch: Option<i32>,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// Whether the batch holds control records.
    pub is_control: bool,
    /// Kafka's name of the first control record; null in data batches, in control batches that
    /// the cleaner emptied, and where the record cannot be read.
    pub control_type: Option<&'static str>,
    /// Epoch of the transaction coordinator, in end-transaction markers.
    pub coordinator_epoch: Option<i32>,
    /// When tombstones and markers of the batch may go; stands in place of the base timestamp.
    pub delete_horizon_ms: Option<i64>,
    /// `CreateTime`, `LogAppendTime` or `NoTimestampType` (magic 0).
    pub timestamp_type: &'static str,
    /// Base of the record timestamps in milliseconds; null where the delete horizon stands in
    /// its place and in magic 0 and 1.
    pub base_timestamp: Option<i64>,
    /// Largest record timestamp in milliseconds, -1 if none.
    pub max_timestamp: i64,
    /// Format of the batch.
    pub magic: i8,
    /// Codec, by Kafka's lower-case name.
    pub compression_type: &'static str,
    /// The checksum in the header.
    pub crc: u32,
    /// Whether that is the checksum of the bytes; null if it was not computed.
    pub is_valid: Option<bool>,
}

/// A record of any magic: a message of magic 0 or 1, or one in a wrapper.
///
/// In parts, so that whoever writes many need not write again what the last one had as well.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecordRow<'a> {
    /// Where the batch lies.
    #[serde(flatten)]
    pub place: BatchPlace<'a>,
    /// What the record itself says.
    #[serde(flatten)]
    pub fields: RecordFields<'a>,
    /// What it has from its batch.
    #[serde(flatten)]
    pub batch: BatchOfRecord,
}

/// Where the batch of a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchPlace<'a> {
    /// Topic, as the directory's name says; null if that is no partition's name.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: &'a str,
    /// Byte position of the batch in the file.
    pub position: u64,
    /// Base offset of the batch.
    pub base_offset: i64,
}

/// What differs from record to record.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecordFields<'a> {
    /// The record's offset.
    pub offset: i64,
    /// Milliseconds, -1 if there is none.
    pub timestamp: i64,
    /// `CreateTime`, `LogAppendTime` or `NoTimestampType` (magic 0).
    pub timestamp_type: &'static str,
    /// The record's sequence, -1 if the batch has none; null in magic 0 and 1.
    pub sequence: Option<i32>,
    /// Bytes of the key, -1 if it is null.
    pub key_size: i32,
    /// Bytes of the value, -1 if it is null.
    pub value_size: i32,
    /// The key; null as well with `--sizes-only`.
    pub key: Content<'a>,
    /// The value; null as well with `--sizes-only`.
    pub value: Content<'a>,
    /// Why a record that only Kafka writes is shown as bytes; null if it is not.
    pub not_decoded: Option<String>,
    /// The headers; their values are null as well with `--sizes-only`.
    pub headers: HeadersRow<'a>,
}

/// What the records of a batch have in common; in magic 0 and 1 all but the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchOfRecord {
    /// Producer id of the batch, -1 if none.
    pub producer_id: Option<i64>,
    /// Producer epoch of the batch, -1 if none.
    pub producer_epoch: Option<i16>,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// Whether this is a control record.
    pub is_control: bool,
    /// Kafka's name of the control record; null in data batches.
    pub control_type: Option<&'static str>,
    /// Epoch of the transaction coordinator, in end-transaction markers.
    pub coordinator_epoch: Option<i32>,
    /// Codec of the batch, by Kafka's lower-case name.
    pub compression_type: &'static str,
    /// Format of the batch.
    pub magic: i8,
    /// The message's own checksum, in magic 0 and 1.
    pub crc: Option<u32>,
    /// Whether that is right.
    pub is_valid: Option<bool>,
}

impl<'a> BatchRow<'a> {
    /// Where the row comes from.
    #[must_use]
    pub fn source(&self) -> Source<'a> {
        Source {
            topic: self.topic,
            partition: self.partition,
            file: self.file,
        }
    }
}

/// Bytes that are no batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DamageRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// `torn-tail`, `zero-tail`, `bad-length`, `unknown-magic`, `batch-past-end`; of the records
    /// in a batch `bad-records`, `bad-compression`, `batch-over-limit`;
    /// in side files `ragged-tail`, `entries-after-zeros`, `undecodable`.
    pub kind: &'static str,
    /// Byte position in the file.
    pub position: u64,
    /// Bytes passed over.
    pub size_in_bytes: u64,
    /// The base offset, if that much of a header is there.
    pub base_offset: Option<i64>,
    /// The last offset, if that much of a header is there.
    pub last_offset: Option<i64>,
    /// The size field, if that much of a header is there.
    pub batch_length: Option<i32>,
    /// The magic byte, if that much of a header is there.
    pub magic: Option<i8>,
    /// The producer id, if that much of a header is there.
    pub producer_id: Option<i64>,
    /// The producer epoch, if that much of a header is there.
    pub producer_epoch: Option<i16>,
    /// The first sequence, if that much of a header is there.
    pub base_sequence: Option<i32>,
    /// The same in words.
    pub message: String,
}

impl<'a> DamageRow<'a> {
    /// Damage in a file that has no batch headers.
    pub(super) fn new(
        source: Source<'a>,
        kind: &'static str,
        position: u64,
        size_in_bytes: u64,
        message: String,
    ) -> Self {
        Self {
            source,
            kind,
            position,
            size_in_bytes,
            base_offset: None,
            last_offset: None,
            batch_length: None,
            magic: None,
            producer_id: None,
            producer_epoch: None,
            base_sequence: None,
            message,
        }
    }
}

/// An entry of an `.index`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffsetIndexRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// Last offset of the batch at `position`.
    pub offset: i64,
    /// Byte position in the `.log`.
    pub position: i32,
}

/// An entry of a `.timeindex`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimeIndexRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// Largest timestamp of the segment so far, in milliseconds.
    pub timestamp: i64,
    /// Last offset of the first batch that has it.
    pub offset: i64,
}

/// A row of a `.txnindex`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AbortedTxnRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// Version as Kafka reads it: the first byte of the field.
    pub version: i8,
    /// The transaction's producer.
    pub producer_id: i64,
    /// Base offset of the transaction's first batch in this partition.
    pub first_offset: i64,
    /// Offset of the ABORT marker.
    pub last_offset: i64,
    /// Last stable offset when the row was written.
    pub last_stable_offset: i64,
}

/// An entry of a producer `.snapshot`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProducerSnapshotRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Last sequence of the newest batch, -1 if none is known.
    pub last_sequence: i32,
    /// Last offset of the newest batch, -1 if none is known.
    pub last_offset: i64,
    /// That batch's last offset less its base offset.
    pub offset_delta: i32,
    /// Time of the last batch or marker, in milliseconds.
    pub timestamp: i64,
    /// Coordinator epoch of the last marker, -1 if none is known.
    pub coordinator_epoch: i32,
    /// First offset of the open transaction, -1 if none is open.
    pub current_txn_first_offset: i64,
}

/// A line of an offset checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckpointRow<'a> {
    /// The topic in the line.
    pub topic: &'a str,
    /// The partition in the line.
    pub partition: i32,
    /// Name of the file.
    pub file: &'a str,
    /// The offset in the line.
    pub offset: i64,
}

/// A line of `leader-epoch-checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeaderEpochRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// The leader epoch.
    pub leader_epoch: i32,
    /// First offset written in it.
    pub start_offset: i64,
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PropertyRow<'a> {
    /// Where the row comes from.
    #[serde(flatten)]
    pub source: Source<'a>,
    /// The key as it stands in the file.
    pub key: &'static str,
    /// The value as it stands in the file.
    pub value: String,
}
