//! The topics of a cluster and where their partitions are to be, at one place of the metadata log.
//!
//! Decides `TopicsImage`, `TopicsDelta`, `PartitionRegistration.merge`, `MetadataBatchLoader`.

use std::collections::HashMap;
use std::sync::Arc;

use zerocopy::big_endian::I32;

use crate::format::kafka_uuid::KafkaUuid;
use crate::format::topics_record::{PartitionRecord, TopicsRecord};

/// A log directory that is not known: the partition is from a time when the metadata did not say it
/// (`DirectoryId.MIGRATING`).
const MIGRATING: KafkaUuid = KafkaUuid::ZERO;

/// The topics.
#[derive(Clone, Debug, Default)]
pub struct TopicsImage {
    topics: HashMap<KafkaUuid, Topic>,
    ids: HashMap<Arc<str>, KafkaUuid>,
}

#[derive(Clone, Debug)]
struct Topic {
    name: Arc<str>,
    partitions: HashMap<i32, Assignment>,
}

/// Where a partition is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Ids of the brokers.
    pub replicas: Box<[i32]>,
    /// Id of the log directory on each of them; empty where the metadata does not say it.
    directories: Box<[KafkaUuid]>,
}

impl Assignment {
    fn new(replicas: Box<[i32]>, directories: Box<[KafkaUuid]>) -> Result<Self, String> {
        let is_unknown = directories.iter().all(|it| *it == MIGRATING);
        let directories = if is_unknown {
            Box::default()
        } else {
            directories
        };
        if !directories.is_empty() && directories.len() != replicas.len() {
            let (directories, replicas) = (directories.len(), replicas.len());
            return Err(format!("{directories} directories for {replicas} replicas"));
        }
        Ok(Self {
            replicas,
            directories,
        })
    }

    /// The log directory on a broker; `None` if the broker has no replica, or the metadata does not
    /// say it.
    #[must_use]
    pub fn directory(&self, broker: i32) -> Option<KafkaUuid> {
        let place = self.replicas.iter().position(|it| *it == broker)?;
        self.directories.get(place).copied()
    }
}

impl TopicsImage {
    /// The name of the topic with this id.
    #[must_use]
    pub fn topic_name(&self, id: KafkaUuid) -> Option<&str> {
        self.topics.get(&id).map(|topic| &*topic.name)
    }

    /// The id of the topic with this name.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<KafkaUuid> {
        self.ids.get(name).copied()
    }

    /// Where a partition is to be; `None` if there is no such topic or partition
    /// (`TopicsImage.partitionReplicas`).
    #[must_use]
    pub fn assignment(&self, topic_id: KafkaUuid, partition: i32) -> Option<&Assignment> {
        self.topics.get(&topic_id)?.partitions.get(&partition)
    }

    fn apply(&mut self, record: &TopicsRecord<'_>) -> Result<(), String> {
        match record {
            TopicsRecord::Topic { name, topic_id } => {
                let name: Arc<str> = name.as_ref().into();
                self.ids.insert(Arc::clone(&name), *topic_id);
                let partitions = HashMap::new();
                self.topics.insert(*topic_id, Topic { name, partitions });
            }
            TopicsRecord::RemoveTopic { topic_id } => {
                let gone = self.topics.remove(topic_id);
                let gone = gone.ok_or_else(|| no_topic(*topic_id))?;
                if self.ids.get(&gone.name) == Some(topic_id) {
                    self.ids.remove(&gone.name);
                }
            }
            TopicsRecord::Partition(record) => {
                let directories = record.directories.unwrap_or_default();
                let replicas = owned(record.replicas.unwrap_or_default());
                let assignment = Assignment::new(replicas, directories.into())?;
                let partitions = self.partitions(record.topic_id)?;
                partitions.insert(record.partition, assignment);
            }
            TopicsRecord::PartitionChange(record) => self.change(record)?,
            TopicsRecord::BeginTransaction
            | TopicsRecord::EndTransaction
            | TopicsRecord::AbortTransaction
            | TopicsRecord::Other => {}
        }
        Ok(())
    }

    fn change(&mut self, record: &PartitionRecord<'_>) -> Result<(), String> {
        let partition = record.partition;
        let partitions = self.partitions(record.topic_id)?;
        let Some(before) = partitions.get_mut(&partition) else {
            return Err(format!(
                "no partition {partition} of topic {} before its change",
                record.topic_id
            ));
        };
        // Most changes are of leaders and replicas in sync.
        if record.replicas.is_none() && record.directories.is_none() {
            return Ok(());
        }
        let replicas = record.replicas.map(owned);
        let replicas = replicas.unwrap_or_else(|| std::mem::take(&mut before.replicas));
        let directories = record.directories.map(Into::into);
        let directories = directories.unwrap_or_else(|| std::mem::take(&mut before.directories));
        *before = Assignment::new(replicas, directories)?;
        Ok(())
    }

    fn partitions(&mut self, topic_id: KafkaUuid) -> Result<&mut HashMap<i32, Assignment>, String> {
        let topic = self.topics.get_mut(&topic_id);
        Ok(&mut topic.ok_or_else(|| no_topic(topic_id))?.partitions)
    }
}

fn no_topic(id: KafkaUuid) -> String {
    format!("no topic {id} before its change")
}

fn owned(array: &[I32]) -> Box<[i32]> {
    array.iter().map(|it| it.get()).collect()
}

/// Makes an image of the records of a metadata log, one after another.
#[derive(Debug, Default)]
pub(super) struct TopicsLoader {
    image: TopicsImage,
    /// Values of the transaction that is open.
    transaction: Option<Vec<Box<[u8]>>>,
    has_seen_record: bool,
}

impl TopicsLoader {
    /// The next record; why there can be none after those before.
    pub(super) fn replay(&mut self, value: &[u8]) -> Result<(), String> {
        let record = TopicsRecord::decode(value).map_err(|reason| reason.to_string())?;
        self.has_seen_record = true;
        match (record, &mut self.transaction) {
            (TopicsRecord::BeginTransaction, none @ None) => *none = Some(Vec::new()),
            (TopicsRecord::BeginTransaction, Some(_)) => {
                return Err("a transaction begins inside another".to_owned());
            }
            (TopicsRecord::EndTransaction, open @ Some(_)) => {
                for value in open.take().into_iter().flatten() {
                    let record = TopicsRecord::decode(&value).map_err(|it| it.to_string())?;
                    self.image.apply(&record)?;
                }
            }
            (TopicsRecord::AbortTransaction, open @ Some(_)) => *open = None,
            (TopicsRecord::EndTransaction | TopicsRecord::AbortTransaction, None) => {
                return Err("a transaction ends that has not begun".to_owned());
            }
            (TopicsRecord::Other, _) => {}
            (_, Some(open)) => open.push(value.into()),
            (record, None) => self.image.apply(&record)?,
        }
        Ok(())
    }

    /// The image, without a transaction that is still open; `None` if no controller has written a
    /// record yet.
    pub(super) fn finish(self) -> Option<TopicsImage> {
        self.has_seen_record.then_some(self.image)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::format::schema::metadata::RECORD_TYPES;

    const ORDERS: KafkaUuid = KafkaUuid([1; 16]);
    const AGAIN: KafkaUuid = KafkaUuid([2; 16]);
    const DISK: KafkaUuid = KafkaUuid([8; 16]);
    const OTHER_DISK: KafkaUuid = KafkaUuid([9; 16]);

    fn value(id: u8, data: serde_json::Value) -> Vec<u8> {
        let record_type = RECORD_TYPES
            .iter()
            .find(|it| it.id == i16::from(id))
            .unwrap();
        let message = &record_type.message;
        let version = message.versions.last;
        let mut out = vec![1, id, version.to_be_bytes()[1]];
        out.extend(message.encode(&data, version).unwrap());
        out
    }

    fn topic(name: &str, id: KafkaUuid) -> Vec<u8> {
        value(2, json!({"name": name, "topicId": id.to_string()}))
    }

    fn removed(id: KafkaUuid) -> Vec<u8> {
        value(9, json!({"topicId": id.to_string()}))
    }

    fn partition(id: KafkaUuid, number: i32, replicas: &[i32], disks: &[KafkaUuid]) -> Vec<u8> {
        let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
        let data = json!({
            "partitionId": number, "topicId": id.to_string(), "replicas": replicas, "isr": [],
            "removingReplicas": [], "addingReplicas": [], "leader": -1, "leaderRecoveryState": 0,
            "leaderEpoch": 0, "partitionEpoch": 0, "directories": disks,
        });
        value(3, data)
    }

    fn change(id: KafkaUuid, number: i32, more: serde_json::Value) -> Vec<u8> {
        let mut data = json!({"partitionId": number, "topicId": id.to_string()});
        let all = data.as_object_mut().unwrap();
        all.extend(more.as_object().unwrap().clone());
        value(5, data)
    }

    fn image(values: &[Vec<u8>]) -> Result<TopicsImage, String> {
        let mut loader = TopicsLoader::default();
        for value in values {
            loader.replay(value)?;
        }
        Ok(loader.finish().unwrap())
    }

    fn replicas(image: &TopicsImage, id: KafkaUuid, number: i32) -> Option<&[i32]> {
        image.assignment(id, number).map(|it| &*it.replicas)
    }

    #[test]
    fn a_change_without_replicas_leaves_them() {
        let image = image(&[
            topic("orders", ORDERS),
            partition(ORDERS, 0, &[1, 2], &[DISK, OTHER_DISK]),
            change(ORDERS, 0, json!({"isr": [2], "leader": 2})),
            partition(ORDERS, 1, &[1], &[DISK]),
            change(
                ORDERS,
                1,
                json!({"replicas": [3], "directories": [OTHER_DISK.to_string()]}),
            ),
            partition(ORDERS, 2, &[1], &[DISK]),
            change(ORDERS, 2, json!({"directories": [OTHER_DISK.to_string()]})),
        ])
        .unwrap();
        assert_eq!(replicas(&image, ORDERS, 0), Some(&[1, 2][..]));
        let directory = |number, broker| {
            let assignment = image.assignment(ORDERS, number).unwrap();
            assignment.directory(broker)
        };
        assert_eq!(directory(0, 2), Some(OTHER_DISK));
        assert_eq!(replicas(&image, ORDERS, 1), Some(&[3][..]));
        assert_eq!((directory(1, 1), directory(1, 3)), (None, Some(OTHER_DISK)));
        assert_eq!(directory(2, 1), Some(OTHER_DISK));
        assert_eq!(replicas(&image, ORDERS, 7), None);
    }

    #[test]
    fn a_topic_made_again_has_its_name_and_another_id() {
        let again = [
            topic("orders", ORDERS),
            partition(ORDERS, 0, &[1], &[]),
            removed(ORDERS),
            topic("orders", AGAIN),
        ];
        let image = image(&again).unwrap();
        assert_eq!(image.topic_id("orders"), Some(AGAIN));
        assert_eq!(image.topic_name(ORDERS), None);
        assert_eq!(replicas(&image, ORDERS, 0), None);
        assert_eq!(replicas(&image, AGAIN, 0), None);
    }

    #[test]
    fn only_a_transaction_that_has_ended_counts() {
        let (begin, end, abort) = (
            value(23, json!({})),
            value(24, json!({})),
            value(25, json!({})),
        );
        let inside = [
            topic("orders", ORDERS),
            begin.clone(),
            partition(ORDERS, 0, &[1], &[]),
            removed(ORDERS),
        ];
        let open = image(&inside).unwrap();
        assert_eq!(open.topic_id("orders"), Some(ORDERS));
        assert_eq!(replicas(&open, ORDERS, 0), None);
        let and = |last: &[u8]| image(&[&inside[..], &[last.to_vec()]].concat());
        assert_eq!(and(&end).unwrap().topic_id("orders"), None);
        assert_eq!(and(&abort).unwrap().topic_id("orders"), Some(ORDERS));
        assert!(and(&begin).is_err());
        assert!(image(&[end]).is_err() && image(&[abort]).is_err());
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let orders = topic("orders", ORDERS);
        for bad in [
            removed(AGAIN),
            partition(AGAIN, 0, &[1], &[]),
            partition(ORDERS, 0, &[1, 2], &[DISK]),
            change(ORDERS, 0, json!({"leader": 1})),
            vec![1, 29, 0],
        ] {
            assert!(image(&[orders.clone(), bad.clone()]).is_err(), "{bad:?}");
        }
        // As many directories as there are replicas, all unknown, is none.
        let migrating = partition(ORDERS, 0, &[1], &[MIGRATING]);
        let image = image(&[orders, migrating]).unwrap();
        assert_eq!(image.assignment(ORDERS, 0).unwrap().directory(1), None);
    }

    #[test]
    fn a_log_without_a_record_says_nothing() {
        assert!(TopicsLoader::default().finish().is_none());
    }
}
