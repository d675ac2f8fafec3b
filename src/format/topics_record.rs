//! The records of the KRaft metadata log that say which topics there are and where their partitions
//! are to be, as far as they say that.
//!
//! | record                | fields                                                             |
//! |-----------------------|--------------------------------------------------------------------|
//! | TopicRecord           | string Name; uuid TopicId                                          |
//! | RemoveTopicRecord     | uuid TopicId                                                       |
//! | PartitionRecord       | int32 PartitionId; uuid TopicId; int32 arrays Replicas, Isr, RemovingReplicas, AddingReplicas; int32 Leader, LeaderEpoch, PartitionEpoch; from version 1 on uuid array Directories |
//! | PartitionChangeRecord | int32 PartitionId; uuid TopicId; all else tagged: 2 Replicas, 8 Directories (from version 1 on) |
//!
//! All end in tagged fields, and stand behind a [`super::metadata_frame`]. The whole records are in
//! [`super::schema::metadata`], to be shown; a metadata log has a million of these, and here they
//! are read without an allocation. Decides the generated classes of Kafka's `metadata` module.

use std::borrow::Cow;

use zerocopy::FromBytes as _;
use zerocopy::big_endian::I32;

use super::compact::CompactReader;
use super::internal_topic::Undecoded;
use super::kafka_uuid::{self, KafkaUuid};
use super::metadata_frame::MetadataFrame;
use super::schema::metadata::RECORD_TYPES;
use crate::error::{DecodeError, DecodeErrorKind};

/// One record of the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicsRecord<'a> {
    /// A topic, without partitions yet.
    Topic {
        /// Its name.
        name: Cow<'a, str>,
        /// Its id.
        topic_id: KafkaUuid,
    },
    /// A topic is gone.
    RemoveTopic {
        /// Its id.
        topic_id: KafkaUuid,
    },
    /// A partition.
    Partition(PartitionRecord<'a>),
    /// What is other than before.
    PartitionChange(PartitionRecord<'a>),
    /// What follows holds once its end is there.
    BeginTransaction,
    /// What followed the beginning holds.
    EndTransaction,
    /// What followed the beginning never was.
    AbortTransaction,
    /// A record of another type, and not looked into.
    Other,
}

/// Where a partition is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRecord<'a> {
    /// Id of the topic.
    pub topic_id: KafkaUuid,
    /// The partition's number.
    pub partition: i32,
    /// The brokers; `None` for those of before.
    pub replicas: Option<&'a [I32]>,
    /// The log directory on each of them; `None` for those of before, empty where the records do
    /// not say it yet.
    pub directories: Option<&'a [KafkaUuid]>,
}

const TOPIC: i16 = 2;
const PARTITION: i16 = 3;
const PARTITION_CHANGE: i16 = 5;
const REMOVE_TOPIC: i16 = 9;
const BEGIN_TRANSACTION: i16 = 23;
const END_TRANSACTION: i16 = 24;
const ABORT_TRANSACTION: i16 = 25;

impl<'a> TopicsRecord<'a> {
    /// The record with this value.
    ///
    /// # Errors
    /// If it has no frame that Kafka reads, its type or its version is none that 4.3.1 knows, or,
    /// where it is looked into, the bytes are not those of such a record.
    pub fn decode(value: &'a [u8]) -> Result<Self, Undecoded> {
        let frame = MetadataFrame::decode(value)?;
        let (id, version) = (frame.record_type, frame.version);
        let record_type = RECORD_TYPES.iter().find(|it| it.id == id);
        let message = &record_type.ok_or(Undecoded::UnknownType(id))?.message;
        if !message.versions.contains(version) {
            return Err(Undecoded::UnknownVersion {
                message: message.name,
                version,
            });
        }
        let mut fields = CompactReader::at(message.name, value, frame.position);
        let record = match id {
            TOPIC => topic(&mut fields),
            PARTITION => partition(&mut fields, version),
            PARTITION_CHANGE => partition_change(&mut fields, version),
            REMOVE_TOPIC => remove_topic(&mut fields),
            BEGIN_TRANSACTION => Ok(Self::BeginTransaction),
            END_TRANSACTION => Ok(Self::EndTransaction),
            ABORT_TRANSACTION => Ok(Self::AbortTransaction),
            _ => Ok(Self::Other),
        };
        let record = record.map_err(Undecoded::Damaged)?;
        let is_read = matches!(id, TOPIC | PARTITION | PARTITION_CHANGE | REMOVE_TOPIC);
        if is_read {
            MetadataFrame::check_end(message.name, value, fields.position())?;
        }
        Ok(record)
    }
}

fn topic<'a>(fields: &mut CompactReader<'a>) -> Result<TopicsRecord<'a>, DecodeError> {
    let name = fields.string("name")?;
    let topic_id = fields.uuid("topicId")?;
    fields.skip_tagged_fields()?;
    Ok(TopicsRecord::Topic { name, topic_id })
}

fn remove_topic<'a>(fields: &mut CompactReader<'a>) -> Result<TopicsRecord<'a>, DecodeError> {
    let topic_id = fields.uuid("topicId")?;
    fields.skip_tagged_fields()?;
    Ok(TopicsRecord::RemoveTopic { topic_id })
}

fn partition<'a>(
    fields: &mut CompactReader<'a>,
    version: i16,
) -> Result<TopicsRecord<'a>, DecodeError> {
    let partition = fields.int32("partitionId")?;
    let topic_id = fields.uuid("topicId")?;
    let replicas = required(fields, "replicas", int32s)?;
    for other in ["isr", "removingReplicas", "addingReplicas"] {
        required(fields, other, int32s)?;
    }
    for other in ["leader", "leaderEpoch", "partitionEpoch"] {
        fields.int32(other)?;
    }
    let directories = if version >= 1 {
        required(fields, "directories", uuids)?
    } else {
        &[]
    };
    tagged_fields(fields, |tag, field| {
        match tag {
            0 => _ = field.int8("leaderRecoveryState")?,
            1 | 2 if version >= 2 => _ = int32s(field, "eligibleLeaderReplicas")?,
            1 | 2 => return Err(not_of_version(field, tag, version)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(TopicsRecord::Partition(PartitionRecord {
        topic_id,
        partition,
        replicas: Some(replicas),
        directories: Some(directories),
    }))
}

fn partition_change<'a>(
    fields: &mut CompactReader<'a>,
    version: i16,
) -> Result<TopicsRecord<'a>, DecodeError> {
    let mut change = PartitionRecord {
        partition: fields.int32("partitionId")?,
        topic_id: fields.uuid("topicId")?,
        replicas: None,
        directories: None,
    };
    tagged_fields(fields, |tag, field| {
        match tag {
            1 => _ = field.int32("leader")?,
            2 => change.replicas = int32s(field, "replicas")?,
            5 => _ = field.int8("leaderRecoveryState")?,
            8 if version >= 1 => change.directories = uuids(field, "directories")?,
            0 | 3 | 4 => _ = int32s(field, "isr")?,
            6 | 7 if version >= 2 => _ = int32s(field, "eligibleLeaderReplicas")?,
            6..=8 => return Err(not_of_version(field, tag, version)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(TopicsRecord::PartitionChange(change))
}

/// The tagged fields, of which `read` says whether it knows them. Kafka takes any size for that of
/// one that it knows, and reads on where that ends; here the size must be right.
fn tagged_fields<'a>(
    fields: &mut CompactReader<'a>,
    mut read: impl FnMut(u32, &mut CompactReader<'a>) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    fields.tagged_fields(|tag, field| {
        let more = read(tag, field)?.then(|| field.rest().len());
        match more {
            None | Some(0) => Ok(()),
            Some(more) => Err(field.error(
                "tagged fields",
                DecodeErrorKind::Unexpected {
                    found: format!("{more} bytes more in tag {tag}"),
                    expected: "its end".to_owned(),
                },
            )),
        }
    })
}

fn not_of_version(field: &CompactReader<'_>, tag: u32, version: i16) -> DecodeError {
    let kind = DecodeErrorKind::Unexpected {
        found: format!("tag {tag}"),
        expected: format!("a tag of version {version}"),
    };
    field.error("tagged fields", kind)
}

type Nullable<'a, T> = Result<Option<&'a [T]>, DecodeError>;

/// An array that cannot be null.
fn required<'a, T>(
    fields: &mut CompactReader<'a>,
    field: &'static str,
    read: fn(&mut CompactReader<'a>, &'static str) -> Nullable<'a, T>,
) -> Result<&'a [T], DecodeError> {
    let array = read(fields, field)?;
    array.ok_or_else(|| fields.null(field))
}

fn int32s<'a>(fields: &mut CompactReader<'a>, field: &'static str) -> Nullable<'a, I32> {
    let Some(count) = fields.nullable_array_count(field)? else {
        return Ok(None);
    };
    let bytes = fields.take(field, count.saturating_mul(size_of::<I32>()))?;
    Ok(Some(<[I32]>::ref_from_bytes(bytes).unwrap_or_default()))
}

fn uuids<'a>(fields: &mut CompactReader<'a>, field: &'static str) -> Nullable<'a, KafkaUuid> {
    let Some(count) = fields.nullable_array_count(field)? else {
        return Ok(None);
    };
    let bytes = fields.take(field, count.saturating_mul(kafka_uuid::SIZE))?;
    Ok(Some(
        <[KafkaUuid]>::ref_from_bytes(bytes).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::format::varint::write_uvarint;

    const ID: KafkaUuid = KafkaUuid([7; 16]);
    const HERE: KafkaUuid = KafkaUuid([9; 16]);

    /// A value as the tables write it that hold all messages.
    fn value(id: i16, version: i16, data: &serde_json::Value) -> Vec<u8> {
        let record_type = RECORD_TYPES.iter().find(|it| it.id == id).unwrap();
        let mut out = Vec::new();
        for number in [1, id.cast_unsigned().into(), version.cast_unsigned().into()] {
            write_uvarint(number, &mut out);
        }
        out.extend(record_type.message.encode(data, version).unwrap());
        out
    }

    fn partition_data() -> serde_json::Value {
        json!({
            "partitionId": 3, "topicId": ID.to_string(), "replicas": [2, 1], "isr": [2],
            "removingReplicas": [], "addingReplicas": [], "leader": 2, "leaderRecoveryState": 1,
            "leaderEpoch": 4, "partitionEpoch": 5,
            "directories": [HERE.to_string(), ID.to_string()], "eligibleLeaderReplicas": [1],
            "lastKnownElr": null,
        })
    }

    fn numbers(array: Option<&[I32]>) -> Option<Vec<i32>> {
        array.map(|array| array.iter().map(|it| it.get()).collect())
    }

    #[test]
    fn a_topic_comes_and_goes() {
        let bytes = value(
            TOPIC,
            0,
            &json!({"name": "orders", "topicId": ID.to_string()}),
        );
        let topic = TopicsRecord::Topic {
            name: "orders".into(),
            topic_id: ID,
        };
        assert_eq!(TopicsRecord::decode(&bytes), Ok(topic));
        let bytes = value(REMOVE_TOPIC, 0, &json!({"topicId": ID.to_string()}));
        let gone = TopicsRecord::RemoveTopic { topic_id: ID };
        assert_eq!(TopicsRecord::decode(&bytes), Ok(gone));
    }

    #[test]
    fn a_partition_has_replicas_and_from_version_1_on_directories() {
        for version in 0..=2 {
            let mut data = partition_data();
            let later = [
                (1, "directories"),
                (2, "eligibleLeaderReplicas"),
                (2, "lastKnownElr"),
            ];
            for (_, name) in later.into_iter().filter(|(since, _)| *since > version) {
                data.as_object_mut().unwrap().remove(name);
            }
            let bytes = value(PARTITION, version, &data);
            let TopicsRecord::Partition(partition) = TopicsRecord::decode(&bytes).unwrap() else {
                panic!("version {version}");
            };
            assert_eq!((partition.topic_id, partition.partition), (ID, 3));
            assert_eq!(numbers(partition.replicas), Some(vec![2, 1]));
            let directories: &[KafkaUuid] = if version == 0 { &[] } else { &[HERE, ID] };
            assert_eq!(partition.directories, Some(directories));
        }
    }

    #[test]
    fn a_change_says_only_what_is_other() {
        let change = |data: serde_json::Value, version| {
            let bytes = value(PARTITION_CHANGE, version, &data);
            let TopicsRecord::PartitionChange(it) = TopicsRecord::decode(&bytes).unwrap() else {
                panic!("{data}");
            };
            let directories = it.directories.map(<[KafkaUuid]>::to_vec);
            (it.topic_id, it.partition, numbers(it.replicas), directories)
        };
        let none = json!({
            "partitionId": 3, "topicId": ID.to_string(), "isr": [1], "leader": 1,
        });
        assert_eq!(change(none, 0), (ID, 3, None, None));
        let all = json!({
            "partitionId": 3, "topicId": ID.to_string(), "isr": [1], "leader": 1,
            "replicas": [1, 5], "directories": [HERE.to_string(), HERE.to_string()],
            "removingReplicas": [2],
        });
        let expected = (ID, 3, Some(vec![1, 5]), Some(vec![HERE, HERE]));
        assert_eq!(change(all, 2), expected);
    }

    #[test]
    fn what_is_not_known_is_refused_and_other_types_are_passed_over() {
        assert_eq!(
            TopicsRecord::decode(&[1, 20, 0, 0]),
            Ok(TopicsRecord::Other)
        );
        assert_eq!(
            TopicsRecord::decode(&[1, 23, 0, 0]),
            Ok(TopicsRecord::BeginTransaction)
        );
        let unknown = |bytes: &[u8]| TopicsRecord::decode(bytes).unwrap_err().to_string();
        assert_eq!(unknown(&[1, 6, 0, 0]), "record type 6 is not known");
        assert_eq!(
            unknown(&[1, 3, 3]),
            "version 3 of PartitionRecord is not known"
        );
        assert_eq!(unknown(&[2, 3, 0]), "frame version 2 is not known");
        let mut long = value(PARTITION, 2, &partition_data());
        long.push(0);
        assert!(unknown(&long).contains("followed by 1 bytes"));
    }

    /// A count of 2^28 - 2 in three bytes more than the record has.
    #[test]
    fn a_length_that_is_nonsense_is_an_error() {
        let mut bytes = vec![1, 3, 0, 0, 0, 0, 3];
        bytes.extend(ID.0);
        for count in [
            &[0xff, 0xff, 0xff, 0x7f][..],
            &[0xff, 0xff, 0xff, 0xff, 7],
            &[5],
        ] {
            let mut bytes = bytes.clone();
            bytes.extend(count);
            bytes.extend([0; 3]);
            let error = TopicsRecord::decode(&bytes).unwrap_err();
            assert!(matches!(error, Undecoded::Damaged(_)), "{error}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, id in 0u8..30, version in 0u8..4) {
            let _ = TopicsRecord::decode(&bytes);
            let framed: Vec<u8> = [1, id, version].into_iter().chain(bytes).collect();
            let _ = TopicsRecord::decode(&framed);
        }

        #[test]
        fn any_assignment_is_read_as_the_tables_write_it(
            replicas: Vec<i32>,
            directories in prop::collection::vec(any::<[u8; 16]>(), 0..5),
            partition: i32,
        ) {
            let mut data = partition_data();
            let ids: Vec<KafkaUuid> = directories.into_iter().map(KafkaUuid).collect();
            let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
            data["partitionId"] = json!(partition);
            data["replicas"] = json!(replicas);
            data["directories"] = json!(texts);
            let bytes = value(PARTITION, 2, &data);
            let TopicsRecord::Partition(read) = TopicsRecord::decode(&bytes).unwrap() else {
                panic!();
            };
            prop_assert_eq!(read.partition, partition);
            prop_assert_eq!(numbers(read.replicas), Some(replicas));
            prop_assert_eq!(read.directories, Some(ids.as_slice()));
        }
    }
}
