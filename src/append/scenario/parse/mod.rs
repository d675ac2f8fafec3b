//! JSON to a scenario: names, defaults and bounds.

mod batch;
mod config;
mod step;

use std::ops::RangeInclusive;

use super::json::{Node, ScenarioError};
use super::model::{DEFAULT_START_TIME_MS, Scenario};
use super::offset_room::OffsetRoom;
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::record_batch::TimestampType;

type Parsed<T> = Result<T, ScenarioError>;

/// The topic id of scenarios that do not give one.
const DEFAULT_TOPIC_ID: KafkaUuid = KafkaUuid(*b"kseg-oracle-0001");

/// The longest name of a topic (`org.apache.kafka.common.internals.Topic`).
const MAX_TOPIC_SIZE: usize = 249;

/// The longest name of a directory: `NAME_MAX` of the file systems a broker runs on.
const MAX_DIR_NAME_SIZE: usize = 255;

/// The versions of `transaction.version` (`org.apache.kafka.server.common.TransactionVersion`).
const TRANSACTION_VERSIONS: RangeInclusive<i16> = 0..=2;

const TIMESTAMP_TYPES: [(&str, TimestampType); 2] = [
    ("CreateTime", TimestampType::CreateTime),
    ("LogAppendTime", TimestampType::LogAppendTime),
];

pub(in crate::append::scenario) fn scenario(node: &Node<'_>) -> Parsed<Scenario> {
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
        None => config::default_config(),
        Some(config) => {
            transaction_version = config.int_or("transaction.version", 2)?;
            config::config(&config)?
        }
    };
    let mut room = OffsetRoom::default();
    let steps = node.required("steps")?.each(|node| {
        let step = step::step(node)?;
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
