//! The `config` of a scenario: Kafka's keys, and the bounds that Kafka holds them in
//! (`org.apache.kafka.storage.internals.log.LogConfig`).

use super::{Parsed, TIMESTAMP_TYPES, TRANSACTION_VERSIONS};
use crate::append::config::{BrokerCompressionType, LogConfig};
use crate::append::scenario::json::Node;

/// The smallest index file that takes the entry each kind of index gets when a segment is closed.
const MIN_SEGMENT_INDEX_BYTES: i64 = 12;

/// Of a scenario that configures nothing.
pub(super) fn default_config() -> LogConfig {
    LogConfig {
        // The files of a scenario are complete when the program has ended well.
        fsync: false,
        ..LogConfig::default()
    }
}

pub(super) fn config(node: &Node<'_>) -> Parsed<LogConfig> {
    let mut config = default_config();
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
