//! JSON to a scenario: names, defaults and bounds.

use super::json::{Node, ScenarioError};
use super::model::{
    AppendStep, DEFAULT_START_TIME_MS, DataBatch, Fault, FollowerBatch, FollowerBatchKind, Marker,
    RecordSpec, Reopen, Scenario, Step, Verification,
};
use super::offset_room::OffsetRoom;
use crate::append::config::{BrokerCompressionType, LogConfig};
use crate::format::control_record::ControlRecordType;
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::record_batch::{CompressionType, TimestampType};
use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};

type Parsed<T> = Result<T, ScenarioError>;

/// The topic id of scenarios that do not give one.
const DEFAULT_TOPIC_ID: KafkaUuid = KafkaUuid(*b"kseg-oracle-0001");

/// The longest name of a topic (`org.apache.kafka.common.internals.Topic`).
const MAX_TOPIC_SIZE: usize = 249;

/// The longest name of a directory: `NAME_MAX` of the file systems a broker runs on.
const MAX_DIR_NAME_SIZE: usize = 255;

/// The smallest index file that takes the entry each kind of index gets when a segment is closed.
const MIN_SEGMENT_INDEX_BYTES: i64 = 12;

/// The versions of `transaction.version` (`org.apache.kafka.server.common.TransactionVersion`).
const TRANSACTION_VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;

pub(super) fn scenario(node: &Node<'_>) -> Parsed<Scenario> {
    node.only(&[
        "title",
        "about",
        "topic",
        "partition",
        "topicId",
        "config",
        "startTimeMs",
        "autoHighWatermark",
        "shutdown",
        "steps",
    ])?;
    let text = |name: &str| -> Parsed<Option<String>> {
        let Some(node) = node.get(name) else {
            return Ok(None);
        };
        Ok(Some(node.text()?.to_owned()))
    };
    let topic_id = match node.get("topicId") {
        None => DEFAULT_TOPIC_ID,
        Some(id) => match id.text()?.parse() {
            Ok(KafkaUuid::ZERO) | Err(_) => {
                return Err(id.error("is no topic id: 22 letters of URL-safe base64"));
            }
            Ok(id) => id,
        },
    };
    let partition = node.int_or("partition", 0)?;
    if partition < 0 {
        return Err(node.required("partition")?.error("is negative"));
    }
    let mut transaction_version = 2;
    let config = match node.get("config") {
        None => LogConfig::default(),
        Some(config) => {
            transaction_version = config.int_or("transaction.version", 2)?;
            self::config(&config)?
        }
    };
    let mut room = OffsetRoom::default();
    let steps = node.required("steps")?.each(|node| {
        let step = step(node)?;
        room.take(&step, node)?;
        Ok(step)
    })?;
    Ok(Scenario {
        title: text("title")?,
        about: text("about")?,
        topic: topic(node, partition)?,
        partition,
        topic_id,
        config,
        transaction_version,
        start_time_ms: node.int_or("startTimeMs", DEFAULT_START_TIME_MS)?,
        auto_high_watermark: node.bool_or("autoHighWatermark", false)?,
        clean_shutdown: node.choice_or("shutdown", &[("clean", true), ("unclean", false)], true)?,
        steps,
    })
}

fn topic(node: &Node<'_>, partition: i32) -> Parsed<String> {
    let Some(node) = node.get("topic") else {
        return Ok("orders".to_owned());
    };
    let topic = node.text()?;
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if topic.is_empty()
        || topic.len() > MAX_TOPIC_SIZE
        || topic == "."
        || topic == ".."
        || !topic.bytes().all(is_legal)
    {
        return Err(node.error("is no topic name: up to 249 of a-z, A-Z, 0-9, '.', '_' and '-'"));
    }
    let dir_name_size = format!("{topic}-{partition}").len();
    if dir_name_size > MAX_DIR_NAME_SIZE {
        return Err(node.error(format_args!(
            "is too long for partition {partition}: the directory's name would have {dir_name_size} \
             bytes, and {MAX_DIR_NAME_SIZE} is the most a file system takes"
        )));
    }
    Ok(topic.to_owned())
}

// ---- configuration ----------------------------------------------------------------------------

fn config(node: &Node<'_>) -> Parsed<LogConfig> {
    let mut config = LogConfig {
        // The files of a scenario are complete when the program has ended well.
        fsync: false,
        ..LogConfig::default()
    };
    for (name, _) in node.fields()? {
        let value = node.required(name)?;
        if !number_key(&mut config, name, &value)? && !text_key(&mut config, name, &value)? {
            return Err(value.error("unknown or unsupported key"));
        }
    }
    Ok(config)
}

fn bounded<T: TryFrom<i64>>(node: &Node<'_>, minimum: i64, maximum: i64) -> Parsed<T> {
    let text = node.as_text()?;
    let value: i64 = text
        .trim()
        .parse()
        .map_err(|_| node.error(format_args!("\"{text}\" is no integer")))?;
    let out_of_range = || node.error(format_args!("{value} is not in {minimum} to {maximum}"));
    if value < minimum || value > maximum {
        return Err(out_of_range());
    }
    T::try_from(value).map_err(|_| out_of_range())
}

/// Sets a key with a number; whether it is one.
fn number_key(config: &mut LogConfig, name: &str, node: &Node<'_>) -> Parsed<bool> {
    const INT: i64 = i32::MAX as i64;
    const LONG: i64 = i64::MAX;
    match name {
        "segment.bytes" => config.segment_bytes = bounded(node, 0, INT)?,
        "segment.ms" => config.segment_ms = bounded(node, 1, LONG)?,
        "segment.index.bytes" => {
            config.segment_index_bytes = bounded(node, MIN_SEGMENT_INDEX_BYTES, INT)?;
        }
        "index.interval.bytes" => config.index_interval_bytes = bounded(node, 0, INT)?,
        "message.timestamp.before.max.ms" => {
            config.message_timestamp_before_max_ms = bounded(node, 0, LONG)?;
        }
        "message.timestamp.after.max.ms" => {
            config.message_timestamp_after_max_ms = bounded(node, 0, LONG)?;
        }
        "compression.gzip.level" => config.compression_gzip_level = Some(gzip_level(node)?),
        "compression.lz4.level" => config.compression_lz4_level = Some(bounded(node, 1, 17)?),
        "compression.zstd.level" => {
            config.compression_zstd_level = Some(bounded(node, -131_072, 22)?);
        }
        "max.message.bytes" => config.max_message_bytes = bounded(node, 0, INT)?,
        "retention.ms" => config.retention_ms = bounded(node, -1, LONG)?,
        "retention.bytes" => config.retention_bytes = bounded(node, i64::MIN, LONG)?,
        "file.delete.delay.ms" => config.file_delete_delay_ms = bounded(node, 0, LONG)?,
        "flush.messages" => config.flush_messages = bounded(node, 1, LONG)?,
        "producer.id.expiration.ms" => config.producer_id_expiration_ms = bounded(node, 1, INT)?,
        "producer.id.expiration.check.interval.ms" => {
            config.producer_id_expiration_check_interval_ms = bounded(node, 1, INT)?;
        }
        // Decides only what a broker reports of late transactions.
        "transaction.max.timeout.ms" => {
            bounded::<i32>(node, 1, INT)?;
        }
        "transaction.version" => {
            let (first, last) = (TRANSACTION_VERSIONS.start(), TRANSACTION_VERSIONS.end());
            bounded::<i16>(node, i64::from(*first), i64::from(*last))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn gzip_level(node: &Node<'_>) -> Parsed<i32> {
    match bounded(node, -1, 9)? {
        0 => Err(node.error("0 is no level: -1 or 1 to 9")),
        level => Ok(level),
    }
}

/// Sets a key with a word; whether it is one.
fn text_key(config: &mut LogConfig, name: &str, node: &Node<'_>) -> Parsed<bool> {
    let text = node.as_text()?;
    match name {
        "message.timestamp.type" => {
            config.message_timestamp_type = node.choice(&TIMESTAMP_TYPES)?;
        }
        "compression.type" => {
            config.compression_type = BrokerCompressionType::for_name(&text)
                .ok_or_else(|| node.error(format_args!("\"{text}\" is no compression type")))?;
        }
        "cleanup.policy" => {
            (config.delete, config.compact) = (false, false);
            for policy in text
                .split(',')
                .map(str::trim)
                .filter(|policy| !policy.is_empty())
            {
                match policy {
                    "delete" => config.delete = true,
                    "compact" => config.compact = true,
                    _ => return Err(node.error(format_args!("\"{policy}\" is no policy"))),
                }
            }
        }
        "preallocate" => {
            config.preallocate = match text.as_str() {
                "true" => true,
                "false" => false,
                _ => return Err(node.error("expected true or false")),
            };
        }
        _ => return Ok(false),
    }
    Ok(true)
}

// ---- steps ------------------------------------------------------------------------------------

fn step(node: &Node<'_>) -> Parsed<Step> {
    let [(name, _)] = node.fields()? else {
        return Err(node.error("a step is an object with exactly one field, the step's name"));
    };
    let a = &node.required(name)?;
    let offset = || a.required("offset")?.int64();
    let no_fields = |step| a.only(&[]).map(|()| step);
    match name.as_str() {
        "append" => append(a).map(Step::Append),
        "endTxnMarker" => end_txn_marker(a),
        "appendAsFollower" => {
            a.only(&["leaderEpoch", "batches"])?;
            let batches = a.required("batches")?;
            let parsed = batches.each(follower_batch)?;
            if parsed.is_empty() {
                return Err(batches.error("is empty"));
            }
            Ok(Step::AppendAsFollower {
                leader_epoch: a.int_or("leaderEpoch", 0)?,
                batches: parsed,
            })
        }
        "becomeLeader" => {
            a.only(&["leaderEpoch"])?;
            let leader_epoch = a.int_or("leaderEpoch", 0)?;
            Ok(Step::BecomeLeader { leader_epoch })
        }
        "updateHighWatermark" => {
            a.only(&["offset"])?;
            Ok(Step::UpdateHighWatermark { offset: offset()? })
        }
        "incrementHighWatermark" => {
            a.only(&["offset"])?;
            Ok(Step::IncrementHighWatermark { offset: offset()? })
        }
        "truncateTo" => {
            a.only(&["offset"])?;
            Ok(Step::TruncateTo { offset: offset()? })
        }
        "deleteRecordsBefore" => {
            a.only(&["offset"])?;
            Ok(Step::DeleteRecordsBefore { offset: offset()? })
        }
        "truncateFullyAndStartAt" => truncate_fully(a),
        "removeExpiredProducers" => {
            a.only(&["timeMs"])?;
            let time_ms = a.get("timeMs").map(|node| node.int64()).transpose()?;
            Ok(Step::RemoveExpiredProducers { time_ms })
        }
        "advanceClock" => {
            a.only(&["ms"])?;
            let ms = a.required("ms")?;
            match ms.int64()? {
                ..0 => Err(ms.error("is negative: the clock does not go back")),
                ms => Ok(Step::AdvanceClock { ms }),
            }
        }
        "roll" => no_fields(Step::Roll),
        "deleteOldSegments" => no_fields(Step::DeleteOldSegments),
        "takeProducerSnapshot" => no_fields(Step::TakeProducerSnapshot),
        "flush" => no_fields(Step::Flush),
        "reopen" => reopen(a).map(Step::Reopen),
        _ => Err(a.error("unknown step")),
    }
}

fn truncate_fully(a: &Node<'_>) -> Parsed<Step> {
    a.only(&["offset", "logStartOffset"])?;
    let not_negative = |node: Node<'_>| match node.int64()? {
        ..0 => Err(node.error("is negative")),
        offset => Ok(offset),
    };
    Ok(Step::TruncateFullyAndStartAt {
        offset: not_negative(a.required("offset")?)?,
        log_start_offset: a.get("logStartOffset").map(not_negative).transpose()?,
    })
}

fn reopen(a: &Node<'_>) -> Parsed<Reopen> {
    a.only(&[
        "clean",
        "recoveryPoint",
        "logStartOffset",
        "highWatermark",
        "tornTailBytes",
        "deleteSnapshots",
    ])?;
    let int = |name: &str| a.get(name).map(|node| node.int64()).transpose();
    let reopen = Reopen {
        clean: a.bool_or("clean", true)?,
        recovery_point: int("recoveryPoint")?,
        log_start_offset: int("logStartOffset")?,
        high_watermark: int("highWatermark")?,
        torn_tail_bytes: a.int_or("tornTailBytes", 0)?,
        delete_snapshots: a.bool_or("deleteSnapshots", false)?,
    };
    if reopen.torn_tail_bytes > 0 && reopen.clean {
        return Err(a.required("tornTailBytes")?.error("needs \"clean\": false"));
    }
    if reopen.log_start_offset.is_some_and(|offset| offset < 0) {
        return Err(a.required("logStartOffset")?.error("is negative"));
    }
    Ok(reopen)
}

// ---- batches ----------------------------------------------------------------------------------

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

const TIMESTAMP_TYPES: [(&str, TimestampType); 2] = [
    ("CreateTime", TimestampType::CreateTime),
    ("LogAppendTime", TimestampType::LogAppendTime),
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

fn append(a: &Node<'_>) -> Parsed<AppendStep> {
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

fn end_txn_marker(a: &Node<'_>) -> Parsed<Step> {
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

fn follower_batch(a: &Node<'_>) -> Parsed<FollowerBatch> {
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
