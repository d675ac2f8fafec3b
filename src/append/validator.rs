//! What a leader checks in a batch and changes in it.
//!
//! In place where it can: base offset, leader epoch, max timestamp and timestamp type. Where the
//! codec has to change, or the offsets inside are not 0, 1, 2, ..., the batch is built anew.
//! Decides `LogValidator`.

use super::analyze::records_of;
use super::config::LogConfig;
use super::error::Rejection;
use crate::error::DecodeError;
use crate::format::NO_TIMESTAMP;
use crate::format::compression::Decompressor;
use crate::format::record::RecordHeader;
use crate::format::record_batch::{
    Attributes, CompressionType, HEADER_SIZE, RecordBatchHeader, TimestampType,
};
use crate::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};
use crate::format::record_batch_reader::{BatchRecord, RecordIterator};
use crate::state::AppendOrigin;

/// The most bytes the records of one batch may decompress to. Kafka has no bound but its heap.
const MAX_DECOMPRESSED: usize = 1 << 30;

/// Validates batches for one append after another, keeping the codecs' space.
#[derive(Debug, Default)]
pub(super) struct LogValidator {
    decompressor: Decompressor,
}

/// What a batch is validated with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validation<'a> {
    pub(super) config: &'a LogConfig,
    pub(super) origin: AppendOrigin,
    pub(super) now_ms: i64,
    pub(super) partition_leader_epoch: i32,
    /// The offset of the first record.
    pub(super) offset: i64,
}

/// A batch that may go on.
#[derive(Debug)]
pub(super) struct Validated {
    /// The batch built anew; `None` if it was changed in place.
    pub(super) rebuilt: Option<Vec<u8>>,
    pub(super) max_timestamp: i64,
    /// The offset behind the batch.
    pub(super) next_offset: i64,
}

/// What the look at the records found.
struct Seen {
    count: i64,
    max_timestamp: i64,
    offsets_are_consecutive: bool,
}

impl LogValidator {
    /// Validates `batch`, exactly one, and assigns its offsets
    /// (`LogValidator.validateMessagesAndAssignOffsets`).
    pub(super) fn validate(
        &mut self,
        batch: &mut [u8],
        source: CompressionType,
        validation: &Validation<'_>,
    ) -> Result<Validated, Rejection> {
        let header = *RecordBatchHeader::ref_from(batch).map_err(Rejection::CorruptHeader)?;
        let target = validation.config.compression_type.target(source);
        let is_plain = source == CompressionType::NONE && target == CompressionType::NONE;
        let is_plain_control = source == CompressionType::NONE && header.attributes().is_control();
        validation.validate_batch(&header)?;
        let seen = self.look_at_records(&header, records_of(batch), validation)?;
        let in_place =
            is_plain || ((source == target || is_plain_control) && seen.offsets_are_consecutive);
        if !in_place {
            return self.rebuild(&header, records_of(batch), target, validation);
        }
        let next_offset = validation.offset.wrapping_add(seen.count);
        let max_timestamp = match validation.config.message_timestamp_type {
            TimestampType::LogAppendTime => validation.now_ms,
            TimestampType::CreateTime | TimestampType::NoTimestampType => seen.max_timestamp,
        };
        validation.assign(batch, &header, next_offset, max_timestamp)?;
        Ok(Validated {
            rebuilt: None,
            max_timestamp,
            next_offset,
        })
    }

    fn look_at_records(
        &mut self,
        header: &RecordBatchHeader,
        records: &[u8],
        validation: &Validation<'_>,
    ) -> Result<Seen, Rejection> {
        let mut seen = Seen {
            count: 0,
            max_timestamp: NO_TIMESTAMP,
            offsets_are_consecutive: true,
        };
        let mut errors = RecordErrors::default();
        let decompressor = &mut self.decompressor;
        let iterator = RecordIterator::decompress(header, records, decompressor, MAX_DECOMPRESSED);
        for record in iterator.map_err(Rejection::Records)? {
            let record = record.map_err(Rejection::Records)?;
            validation.validate_record(header, &record, &mut errors);
            seen.max_timestamp = seen.max_timestamp.max(record.timestamp);
            // Compared with 0, 1, ... whatever the base offset is.
            seen.offsets_are_consecutive &= record.offset == seen.count;
            seen.count += 1;
        }
        errors.finish()?;
        Ok(seen)
    }

    /// `LogValidator.buildRecordsAndAssignOffsets`.
    fn rebuild(
        &mut self,
        header: &RecordBatchHeader,
        records: &[u8],
        target: CompressionType,
        validation: &Validation<'_>,
    ) -> Result<Validated, Rejection> {
        let config = validation.config;
        let mut builder = RecordBatchBuilder::new(BatchSettings {
            base_offset: validation.offset,
            partition_leader_epoch: validation.partition_leader_epoch,
            compression_type: target,
            compression_level: config.compression_level(target),
            timestamp_type: config.message_timestamp_type,
            log_append_time: validation.now_ms,
            producer_id: header.producer_id(),
            producer_epoch: header.producer_epoch(),
            base_sequence: header.base_sequence(),
            is_transactional: header.attributes().is_transactional(),
            ..BatchSettings::default()
        })?;
        let mut headers: Vec<RecordHeader<'_>> = Vec::new();
        let decompressor = &mut self.decompressor;
        let iterator = RecordIterator::decompress(header, records, decompressor, MAX_DECOMPRESSED);
        for record in iterator.map_err(Rejection::Records)? {
            let record = record.map_err(Rejection::Records)?;
            headers.clear();
            for header in record.record.header_iter() {
                headers.push(header.map_err(Rejection::Records)?);
            }
            builder.append(&SimpleRecord {
                timestamp: record.timestamp,
                key: record.record.key,
                value: record.record.value,
                headers: &headers,
            })?;
        }
        let mut rebuilt = Vec::new();
        builder.build(&mut rebuilt)?;
        let count = i64::from(builder.records_count());
        Ok(Validated {
            rebuilt: Some(rebuilt),
            max_timestamp: builder.fields().max_timestamp,
            next_offset: validation.offset.wrapping_add(count),
        })
    }
}

impl Validation<'_> {
    /// `LogValidator.validateBatch`.
    fn validate_batch(&self, header: &RecordBatchHeader) -> Result<(), Rejection> {
        if self.origin != AppendOrigin::Client {
            return Ok(());
        }
        let from_offsets = i64::from(header.last_offset_delta()) + 1;
        if from_offsets <= 0 {
            return Err(Rejection::OffsetRange(header.last_offset_delta()));
        }
        let count = header.records_count();
        if count <= 0 {
            return Err(Rejection::RecordsCount(count));
        }
        if from_offsets != i64::from(count) {
            return Err(Rejection::CountMismatch {
                count,
                from_offsets,
            });
        }
        if header.attributes().is_control() {
            return Err(Rejection::ControlBatch);
        }
        if header.has_producer_id() && header.base_sequence() < 0 {
            return Err(Rejection::BaseSequence(header.base_sequence()));
        }
        Ok(())
    }

    /// `LogValidator.validateRecord`: the key, then the time.
    fn validate_record(
        &self,
        header: &RecordBatchHeader,
        record: &BatchRecord<'_>,
        errors: &mut RecordErrors,
    ) {
        if self.config.compact && record.record.key.is_none() {
            errors.keys += 1;
            return;
        }
        let is_create_time = self.config.message_timestamp_type == TimestampType::CreateTime;
        if is_create_time && record.timestamp != NO_TIMESTAMP {
            let age = self.now_ms.wrapping_sub(record.timestamp);
            if age > self.config.message_timestamp_before_max_ms
                || age.wrapping_neg() > self.config.message_timestamp_after_max_ms
            {
                errors.timestamps += 1;
            }
        } else if header.attributes().timestamp_type() == TimestampType::LogAppendTime {
            errors.timestamps += 1;
        }
    }

    /// Changes the header in place: offsets, leader epoch, time. The checksum is computed anew
    /// only if something it covers has changed (`DefaultRecordBatch.setLastOffset`,
    /// `setPartitionLeaderEpoch`, `setMaxTimestamp`).
    fn assign(
        &self,
        batch: &mut [u8],
        header: &RecordBatchHeader,
        next_offset: i64,
        max_timestamp: i64,
    ) -> Result<(), Rejection> {
        let mut fields = header.fields();
        let last_offset = next_offset.wrapping_sub(1);
        fields.base_offset = last_offset.wrapping_sub(i64::from(header.last_offset_delta()));
        fields.partition_leader_epoch = self.partition_leader_epoch;
        let timestamp_type = self.config.message_timestamp_type;
        let is_changed = header.attributes().timestamp_type() != timestamp_type
            || header.max_timestamp() != max_timestamp;
        let truncated = |error: DecodeError| Rejection::CorruptHeader(error);
        if is_changed {
            // Kafka puts the known bits together anew.
            let kept = Attributes::COMPRESSION_CODEC_MASK
                | Attributes::TRANSACTIONAL_FLAG_MASK
                | Attributes::CONTROL_FLAG_MASK
                | Attributes::DELETE_HORIZON_FLAG_MASK;
            let mut bits = header.attributes().0 & kept;
            if timestamp_type == TimestampType::LogAppendTime {
                bits |= Attributes::TIMESTAMP_TYPE_MASK;
            }
            fields.attributes = Attributes(bits);
            fields.max_timestamp = max_timestamp;
            let crc = RecordBatchHeader::from(fields).compute_crc(records_of(batch));
            fields.crc = crc;
        }
        match batch.first_chunk_mut::<HEADER_SIZE>() {
            Some(place) => *place = RecordBatchHeader::from(fields).as_array(),
            None => RecordBatchHeader::ref_from(batch)
                .map(drop)
                .map_err(truncated)?,
        }
        Ok(())
    }
}

/// Records with faults (`LogValidator.ApiRecordError`).
#[derive(Debug, Default)]
struct RecordErrors {
    keys: usize,
    timestamps: usize,
}

impl RecordErrors {
    /// One wrong time makes it INVALID_TIMESTAMP (`LogValidator.processRecordErrors`).
    fn finish(&self) -> Result<(), Rejection> {
        if self.timestamps > 0 {
            Err(Rejection::Timestamps(self.timestamps))
        } else if self.keys > 0 {
            Err(Rejection::Keys(self.keys))
        } else {
            Ok(())
        }
    }
}
