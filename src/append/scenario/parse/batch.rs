//! The batches and markers of steps that append.

use super::{Parsed, TIMESTAMP_TYPES, TRANSACTION_VERSIONS};
use crate::append::scenario::json::Node;
use crate::append::scenario::model::{
    AppendStep, DataBatch, Fault, FollowerBatch, FollowerBatchKind, Marker, RecordSpec, Step,
    Verification,
};
use crate::format::control_record::ControlRecordType;
use crate::format::record_batch::{CompressionType, TimestampType};
use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};

const BATCH_FIELDS: [&str; 7] = [
    "producerId",
    "producerEpoch",
    "baseSequence",
    "isTransactional",
    "compression",
    "records",
    "encodedRecords",
];

const MARKER_FIELDS: [&str; 5] = [
    "producerId",
    "producerEpoch",
    "controlType",
    "coordinatorEpoch",
    "timestamp",
];

const CODECS: [(&str, CompressionType); 5] = [
    ("none", CompressionType::NONE),
    ("gzip", CompressionType::GZIP),
    ("snappy", CompressionType::SNAPPY),
    ("lz4", CompressionType::LZ4),
    ("zstd", CompressionType::ZSTD),
];

const VERIFICATIONS: [(&str, Verification); 4] = [
    ("verified", Verification::Verified),
    ("failed", Verification::Failed),
    ("missing", Verification::Missing),
    ("disabled", Verification::Disabled),
];

const FAULTS: [(&str, Fault); 5] = [
    ("corruptCrc", Fault::CorruptCrc),
    ("nonZeroBaseOffset", Fault::NonZeroBaseOffset),
    ("logAppendTimeAttribute", Fault::LogAppendTimeAttribute),
    ("controlAttribute", Fault::ControlAttribute),
    ("recordCountMismatch", Fault::RecordCountMismatch),
];

fn only(node: &Node<'_>, parts: &[&[&str]]) -> Parsed<()> {
    node.only(&parts.concat())
}

pub(super) fn append(a: &Node<'_>) -> Parsed<AppendStep> {
    let own: [&str; 5] = [
        "partitionLeaderEpoch",
        "verification",
        "origin",
        "fault",
        "transactionVersion",
    ];
    only(a, &[&BATCH_FIELDS, &own])?;
    let origins = [("client", false), ("coordinator", true)];
    Ok(AppendStep {
        batch: data_batch(a)?,
        partition_leader_epoch: a.int_or("partitionLeaderEpoch", 0)?,
        is_coordinator: a.choice_or("origin", &origins, false)?,
        verification: a.choice_or("verification", &VERIFICATIONS, Verification::Verified)?,
        transaction_version: transaction_version(a)?,
        fault: a
            .get("fault")
            .map(|node| node.choice(&FAULTS))
            .transpose()?,
    })
}

fn transaction_version(a: &Node<'_>) -> Parsed<Option<i16>> {
    let Some(node) = a.get("transactionVersion") else {
        return Ok(None);
    };
    match node.int()? {
        version if TRANSACTION_VERSIONS.contains(&version) => Ok(Some(version)),
        other => Err(node.error(format_args!(
            "{other} is none of the transaction versions 0, 1 and 2"
        ))),
    }
}

fn data_batch(a: &Node<'_>) -> Parsed<DataBatch> {
    let encoded_records = match a.get("encodedRecords") {
        None => None,
        Some(node) => {
            node.only(&["base64"])?;
            node.bytes()?
        }
    };
    Ok(DataBatch {
        producer_id: a.int_or("producerId", NO_PRODUCER_ID)?,
        producer_epoch: a.int_or("producerEpoch", NO_PRODUCER_EPOCH)?,
        base_sequence: a.int_or("baseSequence", NO_SEQUENCE)?,
        is_transactional: a.bool_or("isTransactional", false)?,
        compression: a.choice_or("compression", &CODECS, CompressionType::NONE)?,
        encoded_records,
        records: a.required("records")?.each(record)?,
    })
}

fn record(node: &Node<'_>) -> Parsed<RecordSpec> {
    node.only(&["timestamp", "key", "value", "headers", "offsetDelta"])?;
    let bytes = |name: &str| match node.get(name) {
        None => Ok(None),
        Some(node) => node.bytes(),
    };
    let headers = match node.get("headers") {
        None => Vec::new(),
        Some(headers) => headers.each(|header| {
            header.only(&["key", "value"])?;
            let value = match header.get("value") {
                None => None,
                Some(value) => value.bytes()?,
            };
            Ok((header.required("key")?.text()?.to_owned(), value))
        })?,
    };
    Ok(RecordSpec {
        timestamp: node.get("timestamp").map(|node| node.int64()).transpose()?,
        key: bytes("key")?,
        value: bytes("value")?,
        headers,
        offset_delta: node.get("offsetDelta").map(|node| node.int()).transpose()?,
    })
}

fn marker(a: &Node<'_>) -> Parsed<Marker> {
    let types = [
        ("COMMIT", ControlRecordType::COMMIT),
        ("ABORT", ControlRecordType::ABORT),
    ];
    Ok(Marker {
        producer_id: a.required("producerId")?.int64()?,
        producer_epoch: a.int_or("producerEpoch", 0)?,
        control_type: a.required("controlType")?.choice(&types)?,
        coordinator_epoch: a.int_or("coordinatorEpoch", 0)?,
        timestamp: a.get("timestamp").map(|node| node.int64()).transpose()?,
    })
}

pub(super) fn end_txn_marker(a: &Node<'_>) -> Parsed<Step> {
    only(
        a,
        &[
            &MARKER_FIELDS,
            &["transactionVersion", "partitionLeaderEpoch"],
        ],
    )?;
    Ok(Step::EndTxnMarker {
        marker: marker(a)?,
        partition_leader_epoch: a.int_or("partitionLeaderEpoch", 0)?,
        transaction_version: transaction_version(a)?,
    })
}

pub(super) fn follower_batch(a: &Node<'_>) -> Parsed<FollowerBatch> {
    let kind = if a.get("controlType").is_some() {
        only(
            a,
            &[&MARKER_FIELDS, &["baseOffset", "partitionLeaderEpoch"]],
        )?;
        FollowerBatchKind::Marker(marker(a)?)
    } else {
        let own = [
            "baseOffset",
            "partitionLeaderEpoch",
            "timestampType",
            "lastOffsetDelta",
            "maxTimestamp",
        ];
        only(a, &[&BATCH_FIELDS, &own])?;
        let batch = data_batch(a)?;
        // With records both follow from them.
        for name in ["lastOffsetDelta", "maxTimestamp"] {
            if let Some(node) = a.get(name)
                && !batch.records.is_empty()
            {
                return Err(node.error("goes with \"records\": [] only; records have their own"));
            }
        }
        let last_offset_delta = a.int_or("lastOffsetDelta", 0)?;
        if last_offset_delta < 0 {
            return Err(a.required("lastOffsetDelta")?.error("is negative"));
        }
        FollowerBatchKind::Data {
            batch,
            timestamp_type: a.choice_or(
                "timestampType",
                &TIMESTAMP_TYPES,
                TimestampType::CreateTime,
            )?,
            last_offset_delta,
            max_timestamp: a.get("maxTimestamp").map(|node| node.int64()).transpose()?,
        }
    };
    Ok(FollowerBatch {
        base_offset: a.required("baseOffset")?.int64()?,
        partition_leader_epoch: a.int_or("partitionLeaderEpoch", 0)?,
        kind,
    })
}
