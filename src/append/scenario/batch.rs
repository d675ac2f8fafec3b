//! The batches of a scenario, as a client, a coordinator or a leader would send them.

use super::model::{DataBatch, Fault, FollowerBatch, FollowerBatchKind, Marker};
use crate::append::error::{Error, Rejection};
use crate::format::NO_TIMESTAMP;
use crate::format::compression::compress;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record::RecordHeader;
use crate::format::record_batch::{
    Attributes, HEADER_SIZE, MAGIC_V2, RecordBatchFields, RecordBatchHeader, TimestampType,
};
use crate::format::record_batch_builder::{
    BatchSettings, BuildError, EndTransactionBatch, RecordBatchBuilder, SimpleRecord, encode_batch,
};

/// What the sender puts into the header beside the batch itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) now_ms: i64,
    pub(super) base_offset: i64,
    pub(super) partition_leader_epoch: i32,
    pub(super) timestamp_type: TimestampType,
    /// For a batch without records.
    pub(super) last_offset_delta: i32,
    /// For a batch without records.
    pub(super) max_timestamp: Option<i64>,
}

impl Sender {
    /// A client: offset 0, no leader epoch.
    pub(super) fn client(now_ms: i64) -> Self {
        Self {
            now_ms,
            base_offset: 0,
            partition_leader_epoch: crate::format::NO_PARTITION_LEADER_EPOCH,
            timestamp_type: TimestampType::CreateTime,
            last_offset_delta: 0,
            max_timestamp: None,
        }
    }
}

/// Appends a data batch to `out`.
///
/// The producer's fields are put in without a look at them: a broken client could send anything.
pub(super) fn data(
    batch: &DataBatch,
    fault: Option<Fault>,
    sender: &Sender,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let (mut fields, mut records) = if batch.records.is_empty() {
        (empty_fields(sender), Vec::new())
    } else {
        build(batch, sender).map_err(Rejection::Build)?
    };
    if let Some(encoded) = &batch.encoded_records {
        records.clone_from(encoded);
    }
    fields.producer_id = batch.producer_id;
    fields.producer_epoch = batch.producer_epoch;
    fields.base_sequence = batch.base_sequence;
    if batch.is_transactional {
        fields.attributes.0 |= Attributes::TRANSACTIONAL_FLAG_MASK;
    }
    match fault {
        None | Some(Fault::CorruptCrc) => {}
        Some(Fault::NonZeroBaseOffset) => fields.base_offset = 7,
        Some(Fault::LogAppendTimeAttribute) => {
            fields.attributes.0 |= Attributes::TIMESTAMP_TYPE_MASK;
        }
        Some(Fault::ControlAttribute) => fields.attributes.0 |= Attributes::CONTROL_FLAG_MASK,
        Some(Fault::RecordCountMismatch) => fields.records_count += 1,
    }
    let start = out.len();
    encode_batch(fields, &records, out).map_err(Rejection::Build)?;
    if fault == Some(Fault::CorruptCrc) {
        invert_crc(out.get_mut(start..).unwrap_or_default());
    }
    Ok(())
}

fn invert_crc(batch: &mut [u8]) {
    if let Some(place) = batch.first_chunk_mut::<HEADER_SIZE>()
        && let Ok(header) = RecordBatchHeader::ref_from(place)
    {
        let mut fields = header.fields();
        fields.crc = !fields.crc;
        *place = RecordBatchHeader::from(fields).as_array();
    }
}

/// The header of a batch whose records the cleaner removed.
fn empty_fields(sender: &Sender) -> RecordBatchFields {
    let mut attributes = 0;
    if sender.timestamp_type == TimestampType::LogAppendTime {
        attributes |= Attributes::TIMESTAMP_TYPE_MASK;
    }
    RecordBatchFields {
        base_offset: sender.base_offset,
        batch_length: 0,
        partition_leader_epoch: sender.partition_leader_epoch,
        magic: MAGIC_V2,
        crc: 0,
        attributes: Attributes(attributes),
        last_offset_delta: sender.last_offset_delta,
        base_timestamp: NO_TIMESTAMP,
        max_timestamp: sender.max_timestamp.unwrap_or(sender.now_ms),
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        records_count: 0,
    }
}

/// Header and records as a client's builder makes them.
fn build(batch: &DataBatch, sender: &Sender) -> Result<(RecordBatchFields, Vec<u8>), BuildError> {
    let mut builder = RecordBatchBuilder::new(BatchSettings {
        base_offset: sender.base_offset,
        partition_leader_epoch: sender.partition_leader_epoch,
        compression_type: batch.compression,
        timestamp_type: sender.timestamp_type,
        log_append_time: sender.now_ms,
        ..BatchSettings::default()
    })?;
    let mut next = 0;
    for record in &batch.records {
        let offset_delta = record.offset_delta.unwrap_or(next);
        let headers: Vec<RecordHeader<'_>> = record
            .headers
            .iter()
            .map(|(key, value)| RecordHeader {
                key: key.as_bytes(),
                value: value.as_deref(),
            })
            .collect();
        let offset = sender.base_offset.wrapping_add(i64::from(offset_delta));
        builder.append_with_offset(
            offset,
            &SimpleRecord {
                timestamp: record.timestamp.unwrap_or(sender.now_ms),
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &headers,
            },
        )?;
        next = offset_delta.wrapping_add(1);
    }
    let mut records = Vec::new();
    if batch.encoded_records.is_none() {
        compress(
            batch.compression,
            None,
            MAGIC_V2,
            builder.plain_records(),
            &mut records,
        )?;
    }
    Ok((builder.fields(), records))
}

/// Appends a marker to `out`.
pub(super) fn marker(marker: &Marker, sender: &Sender, out: &mut Vec<u8>) -> Result<(), Error> {
    EndTransactionBatch {
        base_offset: sender.base_offset,
        partition_leader_epoch: sender.partition_leader_epoch,
        producer_id: marker.producer_id,
        producer_epoch: marker.producer_epoch,
        timestamp: marker.timestamp.unwrap_or(sender.now_ms),
        marker: EndTransactionMarker {
            control_type: marker.control_type,
            coordinator_epoch: marker.coordinator_epoch,
        },
    }
    .encode(out)
    .map_err(|error| Rejection::Build(error).into())
}

/// Appends a batch of the leader to `out`.
pub(super) fn follower(batch: &FollowerBatch, now_ms: i64, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut sender = Sender {
        base_offset: batch.base_offset,
        partition_leader_epoch: batch.partition_leader_epoch,
        ..Sender::client(now_ms)
    };
    match &batch.kind {
        FollowerBatchKind::Marker(spec) => marker(spec, &sender, out),
        FollowerBatchKind::Data {
            batch,
            timestamp_type,
            last_offset_delta,
            max_timestamp,
        } => {
            sender.timestamp_type = *timestamp_type;
            sender.last_offset_delta = *last_offset_delta;
            sender.max_timestamp = *max_timestamp;
            data(batch, None, &sender, out)
        }
    }
}
