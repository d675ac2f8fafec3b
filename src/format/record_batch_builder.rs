//! Builds magic 2 batches, byte for byte as Kafka's clients and brokers build them.
//!
//! Decides `MemoryRecordsBuilder`, `DefaultRecordBatch.writeHeader` and `writeEmptyHeader`,
//! `MemoryRecords.withEndTransactionMarker`.

use super::compression::{CompressError, compress};
use super::control_record::{ControlRecordType, EndTransactionMarker};
use super::record::{Record, RecordHeader};
use super::record_batch::{
    Attributes, CompressionType, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, RecordBatchFields,
    RecordBatchHeader, TimestampType,
};
use super::{
    NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP,
};

/// Why a batch could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Offsets inside a batch must rise.
    #[error("offset {offset} does not follow {previous}")]
    Offset {
        /// The offset of the record.
        offset: i64,
        /// The one before, or one less than the base offset.
        previous: i64,
    },
    /// A timestamp below 0 that is not -1.
    #[error("timestamp {0} is negative")]
    Timestamp(i64),
    /// A transactional batch needs a producer id.
    #[error("a transactional batch needs a producer id")]
    TransactionalWithoutProducerId,
    /// A producer id needs an epoch.
    #[error("producer epoch {0} is negative")]
    ProducerEpoch(i16),
    /// A producer id needs sequence numbers, except in control batches.
    #[error("base sequence {0} is negative")]
    BaseSequence(i32),
    /// Only ABORT and COMMIT end a transaction.
    #[error("control record {0} does not end a transaction")]
    NoMarker(&'static str),
    /// The batch does not fit its own length field.
    #[error("the batch is larger than 2147483647 bytes")]
    TooLarge,
    /// The records could not be compressed.
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// What a batch is made with, besides its records.
///
/// The default is a batch as a client sends it without idempotence: base offset 0, no producer,
/// no codec, `CreateTime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Epoch of the leader, -1 from clients.
    pub partition_leader_epoch: i32,
    /// Codec of the records.
    pub compression_type: CompressionType,
    /// The codec's level; Kafka's default without one.
    pub compression_level: Option<i32>,
    /// Whose clock the timestamps come from.
    pub timestamp_type: TimestampType,
    /// The batch's maxTimestamp with `LogAppendTime`; not used otherwise.
    pub log_append_time: i64,
    /// The delete horizon, which then stands in place of the base timestamp.
    pub delete_horizon_ms: Option<i64>,
    /// The producer's id, -1 if none.
    pub producer_id: i64,
    /// The producer's epoch, -1 if none.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 if none.
    pub base_sequence: i32,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// Whether the records are control records.
    pub is_control_batch: bool,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            base_offset: 0,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            compression_type: CompressionType::NONE,
            compression_level: None,
            timestamp_type: TimestampType::CreateTime,
            log_append_time: NO_TIMESTAMP,
            delete_horizon_ms: None,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            is_transactional: false,
            is_control_batch: false,
        }
    }
}

impl BatchSettings {
    fn attributes(&self) -> Attributes {
        let mut bits = i16::from(self.compression_type.0) & Attributes::COMPRESSION_CODEC_MASK;
        let flags = [
            (
                self.timestamp_type == TimestampType::LogAppendTime,
                Attributes::TIMESTAMP_TYPE_MASK,
            ),
            (self.is_transactional, Attributes::TRANSACTIONAL_FLAG_MASK),
            (self.is_control_batch, Attributes::CONTROL_FLAG_MASK),
            (
                self.delete_horizon_ms.is_some(),
                Attributes::DELETE_HORIZON_FLAG_MASK,
            ),
        ];
        for (set, mask) in flags {
            if set {
                bits |= mask;
            }
        }
        Attributes(bits)
    }

    /// `MemoryRecordsBuilder.validateProducerState`.
    fn validate(&self) -> Result<(), BuildError> {
        if self.producer_id == NO_PRODUCER_ID {
            if self.is_transactional {
                return Err(BuildError::TransactionalWithoutProducerId);
            }
        } else if self.producer_epoch == NO_PRODUCER_EPOCH {
            return Err(BuildError::ProducerEpoch(self.producer_epoch));
        } else if self.base_sequence < 0 && !self.is_control_batch {
            return Err(BuildError::BaseSequence(self.base_sequence));
        }
        Ok(())
    }
}

/// A record to be put into a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimpleRecord<'a> {
    /// Milliseconds, or -1.
    pub timestamp: i64,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
    /// The headers, in their order.
    pub headers: &'a [RecordHeader<'a>],
}

/// Collects the records of a batch.
#[derive(Clone, Debug)]
pub struct RecordBatchBuilder {
    settings: BatchSettings,
    records: Vec<u8>,
    headers: Vec<u8>,
    last_offset: i64,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    records_count: i32,
}

impl RecordBatchBuilder {
    /// A batch without records.
    ///
    /// # Errors
    /// If the producer's fields do not go together.
    pub fn new(settings: BatchSettings) -> Result<Self, BuildError> {
        settings.validate()?;
        Ok(Self {
            settings,
            records: Vec::new(),
            headers: Vec::new(),
            last_offset: settings.base_offset.wrapping_sub(1),
            base_timestamp: settings.delete_horizon_ms,
            max_timestamp: NO_TIMESTAMP,
            records_count: 0,
        })
    }

    /// Puts a record at the offset after the last one, or at the base offset.
    ///
    /// # Errors
    /// As [`RecordBatchBuilder::append_with_offset`].
    pub fn append(&mut self, record: &SimpleRecord<'_>) -> Result<(), BuildError> {
        self.append_with_offset(self.last_offset.wrapping_add(1), record)
    }

    /// Puts a record at `offset` (`MemoryRecordsBuilder.appendWithOffset`).
    ///
    /// # Errors
    /// If the offset does not rise or is too far from the base offset, the timestamp is negative
    /// without being -1, or the batch becomes too large.
    pub fn append_with_offset(
        &mut self,
        offset: i64,
        record: &SimpleRecord<'_>,
    ) -> Result<(), BuildError> {
        let previous = self.last_offset;
        let not_following = BuildError::Offset { offset, previous };
        if offset <= previous {
            return Err(not_following);
        }
        let Ok(offset_delta) = i32::try_from(offset.wrapping_sub(self.settings.base_offset)) else {
            return Err(not_following);
        };
        if record.timestamp < NO_TIMESTAMP {
            return Err(BuildError::Timestamp(record.timestamp));
        }
        let base_timestamp = *self.base_timestamp.get_or_insert(record.timestamp);
        self.headers.clear();
        for header in record.headers {
            header.encode(&mut self.headers);
        }
        let header_count = i32::try_from(record.headers.len());
        Record {
            attributes: 0,
            timestamp_delta: record.timestamp.wrapping_sub(base_timestamp),
            offset_delta,
            key: record.key,
            value: record.value,
            headers: &self.headers,
            header_count: header_count.map_err(|_| BuildError::TooLarge)?,
        }
        .encode(&mut self.records);
        batch_length(self.records.len())?;
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.records_count += 1;
        Ok(())
    }

    /// Sets the batch's last offset, which the cleaner keeps when it removes the last record
    /// (`MemoryRecordsBuilder.overrideLastOffset`).
    pub fn override_last_offset(&mut self, last_offset: i64) {
        self.last_offset = last_offset;
    }

    /// Records put in so far.
    #[must_use]
    pub fn records_count(&self) -> i32 {
        self.records_count
    }

    /// The records as they lie behind the header of an uncompressed batch.
    #[must_use]
    pub fn plain_records(&self) -> &[u8] {
        &self.records
    }

    /// The header's fields as they are now, without length and checksum.
    #[must_use]
    pub fn fields(&self) -> RecordBatchFields {
        let settings = &self.settings;
        let last_offset_delta = self.last_offset.wrapping_sub(settings.base_offset);
        RecordBatchFields {
            base_offset: settings.base_offset,
            batch_length: 0,
            partition_leader_epoch: settings.partition_leader_epoch,
            magic: MAGIC_V2,
            crc: 0,
            attributes: settings.attributes(),
            last_offset_delta: i32::try_from(last_offset_delta).unwrap_or(i32::MAX),
            base_timestamp: self.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: match settings.timestamp_type {
                TimestampType::LogAppendTime => settings.log_append_time,
                TimestampType::CreateTime | TimestampType::NoTimestampType => self.max_timestamp,
            },
            producer_id: settings.producer_id,
            producer_epoch: settings.producer_epoch,
            base_sequence: settings.base_sequence,
            records_count: self.records_count,
        }
    }

    /// Appends the batch, its records compressed. Without records nothing is appended, as Kafka
    /// does (`MemoryRecordsBuilder.close`).
    ///
    /// # Errors
    /// If the records cannot be compressed or the batch is too large; `out` is then as it was.
    pub fn build(&self, out: &mut Vec<u8>) -> Result<(), BuildError> {
        if self.records_count == 0 {
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_SIZE]);
        let settings = &self.settings;
        let (codec, level) = (settings.compression_type, settings.compression_level);
        let compressed = compress(codec, level, MAGIC_V2, &self.records, out);
        let sealed = compressed
            .map_err(BuildError::from)
            .and_then(|()| seal(self.fields(), start, out));
        if sealed.is_err() {
            out.truncate(start);
        }
        sealed
    }
}

/// Appends a batch of that header around `records`, bytes that are already encoded and
/// compressed. Length and checksum are computed; what `fields` says of them is not used.
///
/// # Errors
/// If the batch is too large; nothing is appended then.
pub fn encode_batch(
    fields: RecordBatchFields,
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BuildError> {
    batch_length(records.len())?;
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_SIZE]);
    out.extend_from_slice(records);
    seal(fields, start, out)
}

/// Appends a batch without records, as the cleaner leaves it: no codec, no base timestamp
/// (`DefaultRecordBatch.writeEmptyHeader`). Other fields are taken from `fields`.
///
/// # Errors
/// None in practice: the batch has 61 bytes.
pub fn encode_empty_batch(fields: RecordBatchFields, out: &mut Vec<u8>) -> Result<(), BuildError> {
    let kept = Attributes::TIMESTAMP_TYPE_MASK
        | Attributes::TRANSACTIONAL_FLAG_MASK
        | Attributes::CONTROL_FLAG_MASK;
    let fields = RecordBatchFields {
        attributes: Attributes(fields.attributes.0 & kept),
        base_timestamp: NO_TIMESTAMP,
        records_count: 0,
        ..fields
    };
    encode_batch(fields, &[], out)
}

/// Writes the header over its place at `start` of `out`, the records lying behind it.
fn seal(mut fields: RecordBatchFields, start: usize, out: &mut [u8]) -> Result<(), BuildError> {
    let batch = out.get_mut(start..).unwrap_or_default();
    let Some((place, records)) = batch.split_first_chunk_mut::<HEADER_SIZE>() else {
        return Err(BuildError::TooLarge);
    };
    fields.batch_length = batch_length(records.len())?;
    fields.crc = RecordBatchHeader::from(fields).compute_crc(records);
    *place = RecordBatchHeader::from(fields).as_array();
    Ok(())
}

fn batch_length(records: usize) -> Result<i32, BuildError> {
    let whole = i32::try_from(records.saturating_add(HEADER_SIZE));
    let whole = whole.map_err(|_| BuildError::TooLarge)?;
    // 12, and the whole has at least 61.
    Ok(whole - i32::try_from(LOG_OVERHEAD).unwrap_or(0))
}

/// A batch that ends a transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionBatch {
    /// Offset of the marker.
    pub base_offset: i64,
    /// Epoch of the leader.
    pub partition_leader_epoch: i32,
    /// The transaction's producer.
    pub producer_id: i64,
    /// Its epoch, one higher than that of the data since `transaction.version` 2.
    pub producer_epoch: i16,
    /// When the marker is written.
    pub timestamp: i64,
    /// Abort or commit, and the coordinator's epoch.
    pub marker: EndTransactionMarker,
}

impl EndTransactionBatch {
    /// Appends the batch: one control record, transactional, uncompressed, without a sequence.
    ///
    /// # Errors
    /// If there is no producer id or epoch, the timestamp is negative, or the marker is neither
    /// abort nor commit.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), BuildError> {
        let control_type = self.marker.control_type;
        if control_type != ControlRecordType::ABORT && control_type != ControlRecordType::COMMIT {
            return Err(BuildError::NoMarker(control_type.name()));
        }
        let mut builder = RecordBatchBuilder::new(BatchSettings {
            base_offset: self.base_offset,
            partition_leader_epoch: self.partition_leader_epoch,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            is_transactional: true,
            is_control_batch: true,
            ..BatchSettings::default()
        })?;
        builder.append(&SimpleRecord {
            timestamp: self.timestamp,
            key: Some(&control_type.encode_key()),
            value: Some(&self.marker.encode_value()),
            headers: &[],
        })?;
        builder.build(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::compression::Decompressor;
    use crate::format::record_batch_reader::RecordIterator;

    #[test]
    fn settings_that_kafka_refuses_are_refused() {
        let plain = BatchSettings::default();
        let transactional = BatchSettings {
            is_transactional: true,
            ..plain
        };
        let no_epoch = BatchSettings {
            producer_id: 1,
            ..plain
        };
        let no_sequence = BatchSettings {
            producer_epoch: 0,
            ..no_epoch
        };
        let refusal = |settings| RecordBatchBuilder::new(settings).err();
        assert_eq!(refusal(plain), None);
        assert_eq!(
            refusal(transactional),
            Some(BuildError::TransactionalWithoutProducerId)
        );
        assert_eq!(refusal(no_epoch), Some(BuildError::ProducerEpoch(-1)));
        assert_eq!(refusal(no_sequence), Some(BuildError::BaseSequence(-1)));
    }

    #[test]
    fn records_that_kafka_refuses_are_refused() {
        let mut builder = RecordBatchBuilder::new(BatchSettings::default()).unwrap();
        let record = SimpleRecord::default();
        builder.append_with_offset(5, &record).unwrap();
        for offset in [5, 0, 1 << 40] {
            let refused = builder.append_with_offset(offset, &record);
            assert!(matches!(refused, Err(BuildError::Offset { .. })));
        }
        let early = SimpleRecord {
            timestamp: -2,
            ..record
        };
        assert_eq!(builder.append(&early), Err(BuildError::Timestamp(-2)));
        assert_eq!(builder.records_count(), 1);
    }

    #[test]
    fn without_records_nothing_is_appended() {
        let builder = RecordBatchBuilder::new(BatchSettings::default()).unwrap();
        let mut out = Vec::new();
        builder.build(&mut out).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn failed_build_leaves_the_output_as_it_was() {
        let settings = BatchSettings {
            compression_type: CompressionType::ZSTD,
            compression_level: Some(23),
            ..BatchSettings::default()
        };
        let mut builder = RecordBatchBuilder::new(settings).unwrap();
        builder.append(&SimpleRecord::default()).unwrap();
        let mut out = vec![1];
        assert!(builder.build(&mut out).is_err());
        assert_eq!(out, [1]);
    }

    #[test]
    fn only_abort_and_commit_end_a_transaction() {
        let batch = EndTransactionBatch {
            base_offset: 0,
            partition_leader_epoch: 0,
            producer_id: 1,
            producer_epoch: 0,
            timestamp: 0,
            marker: EndTransactionMarker {
                control_type: ControlRecordType::LEADER_CHANGE,
                coordinator_epoch: 0,
            },
        };
        let refused = batch.encode(&mut Vec::new());
        assert_eq!(refused, Err(BuildError::NoMarker("LEADER_CHANGE")));
    }

    type OwnedBytes = Option<Vec<u8>>;
    type OwnedRecord = (i64, OwnedBytes, OwnedBytes, Vec<(String, OwnedBytes)>);

    fn records() -> impl Strategy<Value = Vec<OwnedRecord>> {
        let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
        let header = (
            "[a-z]{0,4}",
            prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        );
        let headers = prop::collection::vec(header, 0..4);
        prop::collection::vec((any::<i64>(), bytes(), bytes(), headers), 1..10)
    }

    proptest! {
        #[test]
        fn round_trip(
            records in records(),
            codec in 0..5u8,
            base_offset in 0..i64::MAX / 2,
        ) {
            let settings = BatchSettings {
                base_offset,
                compression_type: CompressionType(codec),
                ..BatchSettings::default()
            };
            let mut builder = RecordBatchBuilder::new(settings).unwrap();
            for (timestamp, key, value, headers) in &records {
                let headers: Vec<_> = headers
                    .iter()
                    .map(|(key, value)| RecordHeader {
                        key: key.as_bytes(),
                        value: value.as_deref(),
                    })
                    .collect();
                builder
                    .append(&SimpleRecord {
                        timestamp: timestamp & i64::MAX,
                        key: key.as_deref(),
                        value: value.as_deref(),
                        headers: &headers,
                    })
                    .unwrap();
            }
            let mut out = Vec::new();
            builder.build(&mut out).unwrap();
            let header = RecordBatchHeader::ref_from(&out).unwrap();
            prop_assert_eq!(header.size_in_bytes(), out.len() as u64);
            prop_assert_eq!(header.compute_crc(&out[HEADER_SIZE..]), header.crc());
            let mut decompressor = Decompressor::new();
            let read =
                RecordIterator::decompress(header, &out[HEADER_SIZE..], &mut decompressor, 1 << 20);
            let read: Vec<_> = read.unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), records.len());
            for ((offset, read), written) in (base_offset..).zip(&read).zip(&records) {
                let (timestamp, key, value, headers) = written;
                prop_assert_eq!(read.offset, offset);
                prop_assert_eq!(read.timestamp, timestamp & i64::MAX);
                prop_assert_eq!(read.record.key, key.as_deref());
                prop_assert_eq!(read.record.value, value.as_deref());
                let read_headers: Vec<_> = read.record.header_iter().map(Result::unwrap).collect();
                prop_assert_eq!(read_headers.len(), headers.len());
                for (read, (key, value)) in read_headers.iter().zip(headers) {
                    prop_assert_eq!(read.key, key.as_bytes());
                    prop_assert_eq!(read.value, value.as_deref());
                }
            }
        }

        #[test]
        fn arbitrary_records_never_panic(plain: Vec<u8>, codec in 0..8u8, records_count: i32) {
            let builder = RecordBatchBuilder::new(BatchSettings::default()).unwrap();
            let fields = RecordBatchFields {
                attributes: Attributes(codec.into()),
                records_count,
                ..builder.fields()
            };
            let header = RecordBatchHeader::from(fields);
            let mut decompressor = Decompressor::new();
            let read = RecordIterator::decompress(&header, &plain, &mut decompressor, 1000);
            if let Ok(read) = read {
                prop_assert!(read.count() <= plain.len().max(1000) + 1);
            }
        }
    }
}
