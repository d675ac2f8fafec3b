//! Steps to JSON, defaults left out.

use serde_json::{Map, Value, json};

use super::model::{DataBatch, FollowerBatch, FollowerBatchKind, Marker, RecordSpec, Step};
use crate::format::base64;
use crate::format::control_record::ControlRecordType;
use crate::format::record_batch::{CompressionType, TimestampType};
use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};

fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => json!({"base64": base64::encode(bytes)}),
    }
}

fn record(record: &RecordSpec) -> Value {
    let mut out = Map::new();
    if let Some(timestamp) = record.timestamp {
        out.insert("timestamp".to_owned(), timestamp.into());
    }
    if let Some(offset_delta) = record.offset_delta {
        out.insert("offsetDelta".to_owned(), offset_delta.into());
    }
    if let Some(key) = &record.key {
        out.insert("key".to_owned(), bytes(key));
    }
    if let Some(value) = &record.value {
        out.insert("value".to_owned(), bytes(value));
    }
    if !record.headers.is_empty() {
        let headers = record.headers.iter().map(|(key, value)| {
            let value = value.as_deref().map_or(Value::Null, bytes);
            json!({"key": key, "value": value})
        });
        out.insert("headers".to_owned(), headers.collect());
    }
    out.into()
}

fn put(out: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    out.insert(name.to_owned(), value.into());
}

fn data_batch(batch: &DataBatch, out: &mut Map<String, Value>) {
    if batch.producer_id != NO_PRODUCER_ID {
        put(out, "producerId", batch.producer_id);
    }
    if batch.producer_epoch != NO_PRODUCER_EPOCH {
        put(out, "producerEpoch", batch.producer_epoch);
    }
    if batch.base_sequence != NO_SEQUENCE {
        put(out, "baseSequence", batch.base_sequence);
    }
    if batch.is_transactional {
        put(out, "isTransactional", true);
    }
    if batch.compression != CompressionType::NONE {
        put(out, "compression", batch.compression.name());
    }
    if let Some(encoded) = &batch.encoded_records {
        put(
            out,
            "encodedRecords",
            json!({"base64": base64::encode(encoded)}),
        );
    }
    put(
        out,
        "records",
        batch.records.iter().map(record).collect::<Value>(),
    );
}

fn marker(marker: &Marker, out: &mut Map<String, Value>) {
    put(out, "producerId", marker.producer_id);
    put(out, "producerEpoch", marker.producer_epoch);
    let is_abort = marker.control_type == ControlRecordType::ABORT;
    put(
        out,
        "controlType",
        if is_abort { "ABORT" } else { "COMMIT" },
    );
    put(out, "coordinatorEpoch", marker.coordinator_epoch);
    if let Some(timestamp) = marker.timestamp {
        put(out, "timestamp", timestamp);
    }
}

fn leader_epoch(epoch: i32, out: &mut Map<String, Value>) {
    if epoch != 0 {
        put(out, "partitionLeaderEpoch", epoch);
    }
}

fn follower_batch(batch: &FollowerBatch) -> Value {
    let mut out = Map::new();
    put(&mut out, "baseOffset", batch.base_offset);
    leader_epoch(batch.partition_leader_epoch, &mut out);
    match &batch.kind {
        FollowerBatchKind::Marker(spec) => marker(spec, &mut out),
        FollowerBatchKind::Data {
            batch,
            timestamp_type,
            last_offset_delta,
            max_timestamp,
        } => {
            if *timestamp_type == TimestampType::LogAppendTime {
                put(&mut out, "timestampType", timestamp_type.name());
            }
            if *last_offset_delta != 0 {
                put(&mut out, "lastOffsetDelta", *last_offset_delta);
            }
            if let Some(max_timestamp) = max_timestamp {
                put(&mut out, "maxTimestamp", *max_timestamp);
            }
            data_batch(batch, &mut out);
        }
    }
    out.into()
}

/// The step as it stands in a scenario; only those that [`super::FromLog`] makes have fields.
pub(super) fn step(step: &Step) -> Value {
    let mut out = Map::new();
    match step {
        Step::Append(append) => {
            leader_epoch(append.partition_leader_epoch, &mut out);
            if append.verification == super::Verification::Disabled {
                put(&mut out, "verification", "disabled");
            }
            if append.is_coordinator {
                put(&mut out, "origin", "coordinator");
            }
            data_batch(&append.batch, &mut out);
        }
        Step::EndTxnMarker {
            marker: spec,
            partition_leader_epoch,
            transaction_version,
        } => {
            marker(spec, &mut out);
            leader_epoch(*partition_leader_epoch, &mut out);
            if let Some(version) = transaction_version {
                put(&mut out, "transactionVersion", *version);
            }
        }
        Step::AppendAsFollower {
            leader_epoch,
            batches,
        } => {
            if *leader_epoch != 0 {
                put(&mut out, "leaderEpoch", *leader_epoch);
            }
            put(
                &mut out,
                "batches",
                batches.iter().map(follower_batch).collect::<Value>(),
            );
        }
        Step::TruncateTo { offset }
        | Step::UpdateHighWatermark { offset }
        | Step::IncrementHighWatermark { offset }
        | Step::DeleteRecordsBefore { offset }
        | Step::TruncateFullyAndStartAt { offset, .. } => put(&mut out, "offset", *offset),
        Step::AdvanceClock { ms } => put(&mut out, "ms", *ms),
        Step::BecomeLeader { leader_epoch } => put(&mut out, "leaderEpoch", *leader_epoch),
        Step::Roll
        | Step::DeleteOldSegments
        | Step::RemoveExpiredProducers { .. }
        | Step::TakeProducerSnapshot
        | Step::Flush => {}
        Step::Reopen(reopen) => {
            if reopen.delete_snapshots {
                put(&mut out, "deleteSnapshots", true);
            }
        }
    }
    json!({ step.name(): out })
}
