//! Partition directories that a broker takes for strays: at its start it renames them to
//! `TOPIC-PARTITION.HEX-stray` and serves none of what is in them.
//!
//! Under KRaft that is a replica in use, or a future one, without `partition.metadata`, with the id
//! of a topic that the metadata does not have, or of a partition that has no replica on this
//! broker. Which log directory of the broker the metadata has for the replica does not count: it is
//! kept where it is, and the controller told. What the metadata says is told by the metadata logs
//! at hand, as far as they go.
//!
//! Decides `LogManager.isStrayReplica`, `LogManager.loadLog`, `BrokerMetadataPublisher`.

use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};

use super::Io;
use super::broker_start::kraft_node;
use super::log_dir::folder_above;
use super::metadata_log::ClusterMetadata;
use super::partition_dir::PartitionDir;
use crate::format::file_name::{LogFileKind, PartitionDirStatus};
use crate::format::internal_topic::InternalTopic;
use crate::format::kafka_uuid::KafkaUuid;

/// Why a broker takes a directory for a stray.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// It has no `partition.metadata`.
    NoTopicId,
    /// The metadata has no topic with its id.
    UnknownTopicId {
        /// The id in its `partition.metadata`.
        topic_id: KafkaUuid,
        /// The id of the topic that is called so now.
        current: Option<KafkaUuid>,
    },
    /// The topic has no such partition.
    UnknownPartition {
        /// Name of the topic with its id.
        topic: String,
    },
    /// The partition has no replica on this broker.
    NotAssigned {
        /// Id of the broker.
        node_id: i32,
        /// The brokers that have one.
        replicas: Vec<i32>,
    },
}

impl Stray {
    /// Why the broker takes a directory for a stray; `None` if it does not, or if that cannot be
    /// told. One that does not load is none.
    #[must_use]
    pub fn of(dir: &PartitionDir, metadata: &mut ClusterMetadata) -> Option<Self> {
        if has_no_topic_id(dir, metadata.io) {
            return Some(Self::NoTopicId);
        }
        let stray = Self::by_metadata(dir, metadata)?;
        // A broker at work makes the directory once the metadata has come, which may be after it
        // was read here.
        if metadata.forget_if_changed(dir) {
            return Self::by_metadata(dir, metadata);
        }
        Some(stray)
    }

    fn by_metadata(dir: &PartitionDir, metadata: &mut ClusterMetadata) -> Option<Self> {
        let partition = dir.partition()?;
        let known = metadata.known_of(dir)?;
        let (topic_id, topics) = (known.topic_id, known.topics);
        let Some(assignment) = topics.assignment(topic_id, partition) else {
            return Some(match topics.topic_name(topic_id) {
                Some(topic) => Self::UnknownPartition {
                    topic: topic.to_owned(),
                },
                None => Self::UnknownTopicId {
                    topic_id,
                    current: topics.topic_id(dir.topic()?),
                },
            });
        };
        let node_id = known.log_dir.node.node_id;
        (!assignment.replicas.contains(&node_id)).then(|| Self::NotAssigned {
            node_id,
            replicas: assignment.replicas.to_vec(),
        })
    }

    /// Whether the partition directory at a path is one, as far as that can be told.
    pub(super) fn is_at(path: &Path, metadata: &mut ClusterMetadata) -> bool {
        let dir = PartitionDir::open(path);
        dir.is_ok_and(|dir| Self::of(&dir, metadata).is_some())
    }

    /// The reason in a word or three.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoTopicId => "no-topic-id",
            Self::UnknownTopicId { .. } => "unknown-topic-id",
            Self::UnknownPartition { .. } => "unknown-partition",
            Self::NotAssigned { .. } => "not-assigned",
        }
    }
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTopicId => f.write_str("partition.metadata is not there"),
            Self::UnknownTopicId { topic_id, current } => {
                write!(f, "the metadata has no topic with id {topic_id}")?;
                match current {
                    Some(current) => write!(f, ", and {current} for the one of this name"),
                    None => f.write_str(" and none of this name"),
                }
            }
            Self::UnknownPartition { topic } => {
                write!(f, "the metadata has no such partition of topic {topic}")
            }
            Self::NotAssigned { node_id, replicas } => {
                let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
                let (on, replicas) = match replicas.len() {
                    1 => ("broker", replicas.join(", ")),
                    _ => ("brokers", replicas.join(", ")),
                };
                write!(
                    f,
                    "the metadata has this partition on {on} {replicas} and not on {node_id}"
                )
            }
        }
    }
}

impl Serialize for Stray {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Stray {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Stray".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "enum": ["no-topic-id", "unknown-topic-id", "unknown-partition", "not-assigned"],
        })
    }
}

/// Whether a broker takes a partition directory for a stray at any start as it has no topic id,
/// whatever the metadata says. It writes `partition.metadata` before the first batch
/// (`UnifiedLog.append`), so one without data may lack it after a crash, and loses nothing by it.
#[must_use]
pub fn has_no_topic_id(dir: &PartitionDir, io: Io) -> bool {
    // It may have been written while the directory was listed.
    let name = LogFileKind::PartitionMetadata.to_string();
    let is_kraft = || folder_above(&dir.path).is_some_and(|it| kraft_node(&it, io).is_some());
    is_loaded_as_replica(dir) && is_kraft() && !dir.path.join(name).exists()
}

/// Whether there is or was data in a partition directory.
#[must_use]
pub fn had_data(dir: &PartitionDir) -> bool {
    let begins_at = dir.segments.first().map_or(0, |first| first.base_offset);
    dir.size_in_bytes() > 0 || begins_at > 0
}

/// Whether a directory is one of those of which it is asked: a whole one, in use or on its way into
/// use. The quorum loads its own, and not the log manager.
pub(super) fn is_loaded_as_replica(dir: &PartitionDir) -> bool {
    let is_replica = matches!(
        dir.status(),
        Some(PartitionDirStatus::Live | PartitionDirStatus::Future(_))
    );
    is_replica && dir.is_whole && dir.topic() != Some(InternalTopic::ClusterMetadata.name())
}

/// The name of the topic that has the id of a directory, if that is another one, and the id of the
/// topic that is called as the directory. A broker goes by the id, so it is no stray.
#[must_use]
pub fn other_name(
    dir: &PartitionDir,
    metadata: &mut ClusterMetadata,
) -> Option<(String, Option<KafkaUuid>)> {
    let own = dir.topic()?;
    let known = metadata.known_of(dir)?;
    let name = known.topics.topic_name(known.topic_id)?;
    (own != name).then(|| (name.to_owned(), known.topics.topic_id(own)))
}
