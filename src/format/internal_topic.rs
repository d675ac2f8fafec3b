//! Records of Kafka's own topics, decoded by the name of the topic.
//!
//! - `__consumer_offsets`, `__transaction_state`, `__share_group_state`: the key is int16 type and
//!   a message, the value int16 version and a message; a null value deletes.
//! - `__cluster_metadata`, `__remote_log_metadata`: the key is null, the value uvarint frame
//!   version (1), uvarint type, uvarint version and a message.
//!
//! The JSON is what kafka-dump-log prints of these topics: `{"type": "1", "data": {..}}` for a key,
//! `{"version": "4", "data": {..}}` for its value (both numbers as text), and
//! `{"type": "TOPIC_RECORD", "version": 0, "data": {..}}` for a value that names its type. Of
//! `__remote_log_metadata` the tool prints Java objects; here it has the same form.
//!
//! Decides `CoordinatorRecordSerde`, `AbstractApiMessageSerde` and `DumpLogSegments`.

use std::fmt;

use serde_json::{Map, Value};

use super::base64;
use super::compact::CompactReader;
use super::metadata_frame::MetadataFrame;
use super::schema::consumer_protocol::{
    CONSUMER_PROTOCOL_ASSIGNMENT, CONSUMER_PROTOCOL_SUBSCRIPTION,
};
use super::schema::{
    CoordinatorRecordType, Message, MetadataRecordType, ValueBudget, group_coordinator, metadata,
    remote_log_metadata, share_coordinator, share_group, streams_group, transaction_coordinator,
};
use crate::error::DecodeError;

/// A topic whose records only Kafka writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InternalTopic {
    /// `__consumer_offsets`: committed offsets and groups of every kind.
    ConsumerOffsets,
    /// `__transaction_state`: transactional ids.
    TransactionState,
    /// `__share_group_state`: what share groups have consumed.
    ShareGroupState,
    /// `__cluster_metadata`: the KRaft log, and its snapshots.
    ClusterMetadata,
    /// `__remote_log_metadata`: tiered segments.
    RemoteLogMetadata,
}

impl InternalTopic {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ConsumerOffsets,
        Self::TransactionState,
        Self::ShareGroupState,
        Self::ClusterMetadata,
        Self::RemoteLogMetadata,
    ];

    /// The internal topic of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    /// The topic's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ConsumerOffsets => "__consumer_offsets",
            Self::TransactionState => "__transaction_state",
            Self::ShareGroupState => "__share_group_state",
            Self::ClusterMetadata => "__cluster_metadata",
            Self::RemoteLogMetadata => "__remote_log_metadata",
        }
    }

    /// Where the record types of this topic are.
    fn framing(self) -> Framing {
        match self {
            Self::ConsumerOffsets => Framing::Coordinator(&[
                group_coordinator::RECORD_TYPES,
                share_group::RECORD_TYPES,
                streams_group::RECORD_TYPES,
            ]),
            Self::TransactionState => {
                Framing::Coordinator(&[transaction_coordinator::RECORD_TYPES])
            }
            Self::ShareGroupState => Framing::Coordinator(&[share_coordinator::RECORD_TYPES]),
            Self::ClusterMetadata => Framing::Metadata(metadata::RECORD_TYPES),
            Self::RemoteLogMetadata => Framing::Metadata(remote_log_metadata::RECORD_TYPES),
        }
    }
}

/// How records of a topic say what they are.
enum Framing {
    /// By the number before the key.
    Coordinator(&'static [&'static [CoordinatorRecordType]]),
    /// By a number in the value.
    Metadata(&'static [MetadataRecordType]),
}

/// Key and value of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRecord {
    /// The key.
    pub key: Decoded,
    /// The value.
    pub value: Decoded,
}

/// A key or a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// Not there. As a value it deletes what the key names.
    Null,
    /// In Kafka's form of JSON.
    Json(Value),
    /// Bytes that are shown as they are, and why.
    Raw(Undecoded),
}

/// Why a key or a value was not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecoded {
    /// A value whose record type is unknown, for there is no key.
    MissingKey,
    /// A key in a topic that has none.
    UnexpectedKey,
    /// A value in a frame that Kafka does not read; 0 is the preview of KRaft in 2.8.
    UnknownFrameVersion(i16),
    /// A record type that 4.3.1 does not know.
    UnknownType(i16),
    /// A version of a known message that 4.3.1 does not know. Here kseg differs from Kafka's reader
    /// of metadata records, which takes any later version for the newest it knows.
    UnknownVersion {
        /// Kafka's name of the message.
        message: &'static str,
        /// The version.
        version: i16,
    },
    /// Bytes that are not the message they should be.
    Damaged(DecodeError),
}

impl Undecoded {
    /// Whether a later Kafka than 4.3.1 may know it.
    #[must_use]
    pub fn is_newer(&self) -> bool {
        match self {
            Self::UnknownFrameVersion(version) => *version > 1,
            Self::UnknownType(_) | Self::UnknownVersion { .. } => true,
            Self::MissingKey | Self::UnexpectedKey | Self::Damaged(_) => false,
        }
    }
}

impl fmt::Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingKey => f.write_str("the record has no key, so its type is unknown"),
            Self::UnexpectedKey => f.write_str("records of this topic have no key"),
            Self::UnknownFrameVersion(0) => {
                f.write_str("frame version 0 is that of Kafka 2.8, which no later version reads")
            }
            Self::UnknownFrameVersion(version) => write!(f, "frame version {version} is not known"),
            Self::UnknownType(id) => write!(f, "record type {id} is not known"),
            Self::UnknownVersion { message, version } => {
                write!(f, "version {version} of {message} is not known")
            }
            Self::Damaged(error) => error.fmt(f),
        }
    }
}

/// Key and value of a record in `topic`.
///
/// Control records are not among these: they say what they are by another key, in any topic.
#[must_use]
pub fn decode_record(
    topic: InternalTopic,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> DecodedRecord {
    match topic.framing() {
        Framing::Coordinator(tables) => decode_coordinator_record(tables, key, value),
        Framing::Metadata(table) => DecodedRecord {
            key: key.map_or(Decoded::Null, |_| Decoded::Raw(Undecoded::UnexpectedKey)),
            value: value.map_or(Decoded::Null, |value| {
                decode_framed(table, value).map_or_else(Decoded::Raw, Decoded::Json)
            }),
        },
    }
}

fn decode_coordinator_record(
    tables: &[&'static [CoordinatorRecordType]],
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> DecodedRecord {
    let Some(key) = key else {
        return DecodedRecord {
            key: Decoded::Null,
            value: value.map_or(Decoded::Null, |_| Decoded::Raw(Undecoded::MissingKey)),
        };
    };
    let record_type = prefix("record key", "type", key).and_then(|id| {
        let mut all = tables.iter().flat_map(|table| table.iter());
        let record_type = all.find(|record_type| record_type.id == id);
        record_type.ok_or(Undecoded::UnknownType(id))
    });
    match record_type {
        Err(reason) => DecodedRecord {
            key: Decoded::Raw(reason.clone()),
            value: value.map_or(Decoded::Null, |_| Decoded::Raw(reason)),
        },
        Ok(record_type) => DecodedRecord {
            key: decode_key(record_type, key).map_or_else(Decoded::Raw, Decoded::Json),
            value: value.map_or(Decoded::Null, |value| {
                decode_value(record_type, value).map_or_else(Decoded::Raw, Decoded::Json)
            }),
        },
    }
}

/// Where a message begins behind the int16 that says its type or version.
const PREFIX_SIZE: usize = 2;

fn decode_key(record_type: &CoordinatorRecordType, key: &[u8]) -> Result<Value, Undecoded> {
    let budget = &mut ValueBudget::of_a_record();
    let (data, _) = decode_message(&record_type.key, key, PREFIX_SIZE, 0, budget)?;
    Ok(object([
        ("type", record_type.id.to_string().into()),
        ("data", data),
    ]))
}

fn decode_value(record_type: &CoordinatorRecordType, value: &[u8]) -> Result<Value, Undecoded> {
    let version = prefix("record value", "version", value)?;
    let message = &record_type.value;
    let budget = &mut ValueBudget::of_a_record();
    let (mut data, _) = decode_message(message, value, PREFIX_SIZE, version, budget)?;
    if message.name == "GroupMetadataValue" {
        show_consumer_protocol(&mut data, budget);
    }
    Ok(object([
        ("version", version.to_string().into()),
        ("data", data),
    ]))
}

/// The int16 before the message of a key or a value.
fn prefix(structure: &'static str, field: &'static str, bytes: &[u8]) -> Result<i16, Undecoded> {
    let mut reader = CompactReader::new(structure, bytes);
    reader.int16(field).map_err(Undecoded::Damaged)
}

/// The message at `position` of a key or value, and the position behind it.
fn decode_message(
    message: &Message,
    bytes: &[u8],
    position: usize,
    version: i16,
    budget: &mut ValueBudget,
) -> Result<(Value, usize), Undecoded> {
    if !message.versions.contains(version) {
        return Err(Undecoded::UnknownVersion {
            message: message.name,
            version,
        });
    }
    message
        .decode_at(bytes, position, version, budget)
        .map_err(Undecoded::Damaged)
}

/// A value that names its type (`AbstractApiMessageSerde.read`).
fn decode_framed(table: &[MetadataRecordType], value: &[u8]) -> Result<Value, Undecoded> {
    let frame = MetadataFrame::decode(value)?;
    let id = frame.record_type;
    let record_type = table.iter().find(|record_type| record_type.id == id);
    let record_type = record_type.ok_or(Undecoded::UnknownType(id))?;
    let message = &record_type.message;
    let budget = &mut ValueBudget::of_a_record();
    let (data, end) = decode_message(message, value, frame.position, frame.version, budget)?;
    MetadataFrame::check_end(message.name, value, end)?;
    Ok(object([
        ("type", record_type.name.into()),
        ("version", frame.version.into()),
        ("data", data),
    ]))
}

/// Puts what the members of a consumer group told each other in place of its bytes, as the dump
/// tool does (`DumpLogSegments.OffsetsMessageParser#prepareGroupMetadataValue`). What does not
/// parse, or has more values than the rest of the record left over, stays base64.
fn show_consumer_protocol(group: &mut Value, budget: &mut ValueBudget) {
    if group.get("protocolType").and_then(Value::as_str) != Some("consumer") {
        return;
    }
    let members = group.get_mut("members").and_then(Value::as_array_mut);
    for member in members.into_iter().flatten() {
        for (field, message) in [
            ("subscription", &CONSUMER_PROTOCOL_SUBSCRIPTION),
            ("assignment", &CONSUMER_PROTOCOL_ASSIGNMENT),
        ] {
            if let Some(field) = member.get_mut(field)
                && let Some(shown) = consumer_protocol(message, field, budget)
            {
                *field = shown;
            }
        }
    }
}

fn consumer_protocol(message: &Message, field: &Value, budget: &mut ValueBudget) -> Option<Value> {
    let bytes = base64::decode(field.as_str()?)?;
    let (version, bytes) = bytes.split_first_chunk::<2>()?;
    let version = i16::from_be_bytes(*version);
    // Kafka's reader takes any version: a negative one for the oldest, a later one for the newest,
    // but in that case it refuses partitions.
    let known = version.clamp(message.versions.first, message.versions.last);
    let (shown, _) = message.decode_at(bytes, 0, known, budget).ok()?;
    let is_empty = |field| {
        let partitions = shown.get(field).and_then(Value::as_array);
        partitions.is_none_or(Vec::is_empty)
    };
    let empty = is_empty("ownedPartitions") && is_empty("assignedPartitions");
    (version <= known || empty).then_some(shown)
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(Map::from_iter(
        fields.map(|(name, value)| (name.to_owned(), value)),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn raw(decoded: &Decoded) -> String {
        match decoded {
            Decoded::Raw(reason) => reason.to_string(),
            Decoded::Null | Decoded::Json(_) => panic!("{decoded:?}"),
        }
    }

    #[test]
    fn names_lead_to_topics_and_back() {
        for topic in InternalTopic::ALL {
            assert_eq!(InternalTopic::from_name(topic.name()), Some(topic));
        }
        assert_eq!(InternalTopic::from_name("__consumer_offset"), None);
        assert_eq!(InternalTopic::from_name("orders"), None);
    }

    #[test]
    fn a_tombstone_has_a_key_and_null() {
        let record = decode_record(InternalTopic::ConsumerOffsets, Some(b"\0\x02\0\x01g"), None);
        let Decoded::Json(key) = record.key else {
            panic!("{record:?}");
        };
        assert_eq!(key.to_string(), r#"{"type":"2","data":{"group":"g"}}"#);
        assert_eq!(record.value, Decoded::Null);
    }

    #[test]
    fn what_is_not_known_stays_raw() {
        let offsets = InternalTopic::ConsumerOffsets;
        let record = decode_record(offsets, Some(b"\0\x09\0\x01g"), Some(b"\0\0"));
        assert_eq!(raw(&record.key), "record type 9 is not known");
        assert_eq!(raw(&record.value), "record type 9 is not known");
        let record = decode_record(offsets, Some(b"\0\x02\0\x01g"), Some(b"\0\x05"));
        assert!(matches!(record.key, Decoded::Json(_)));
        assert_eq!(
            raw(&record.value),
            "version 5 of GroupMetadataValue is not known"
        );
        let record = decode_record(offsets, None, Some(b"\0\0"));
        assert_eq!(record.key, Decoded::Null);
        assert_eq!(
            raw(&record.value),
            "the record has no key, so its type is unknown"
        );
        let record = decode_record(offsets, Some(b"\0"), Some(b"\0\0"));
        assert_eq!(
            raw(&record.key),
            "record key type needs 2 bytes, 1 are there (at position 0)"
        );
        let record = decode_record(offsets, Some(b"\0\x02\0\x02g"), Some(b""));
        assert_eq!(
            raw(&record.key),
            "GroupMetadataKey group needs 6 bytes, 5 are there (at position 4)"
        );
    }

    #[test]
    fn a_frame_must_be_kafkas_and_end_with_the_value() {
        let value = |bytes: &[u8]| {
            let record = decode_record(InternalTopic::ClusterMetadata, None, Some(bytes));
            assert_eq!(record.key, Decoded::Null);
            record.value
        };
        // NoOpRecord of fixture s11-kraft-metadata.
        let Decoded::Json(json) = value(&[1, 20, 0, 0]) else {
            panic!();
        };
        assert_eq!(
            json.to_string(),
            r#"{"type":"NO_OP_RECORD","version":0,"data":{}}"#
        );
        let preview = "frame version 0 is that of Kafka 2.8, which no later version reads";
        assert_eq!(raw(&value(&[0, 20, 0, 0])), preview);
        assert_eq!(raw(&value(&[2, 20, 0, 0])), "frame version 2 is not known");
        assert_eq!(raw(&value(&[1, 6, 0, 0])), "record type 6 is not known");
        assert_eq!(
            raw(&value(&[1, 20, 1, 0])),
            "version 1 of NoOpRecord is not known"
        );
        assert_eq!(
            raw(&value(&[1, 20, 0, 0, 7])),
            "NoOpRecord is followed by 1 bytes, expected the end of the value (at position 4)"
        );
        assert_eq!(
            raw(&value(&[1, 0x80, 0x80, 2])),
            "metadata record frame record type is 32768, expected at most 32767 (at position 1)"
        );
        assert_eq!(
            raw(&value(&[1])),
            "metadata record frame record type needs 2 bytes, 1 are there (at position 1)"
        );
        let record = decode_record(InternalTopic::ClusterMetadata, Some(b""), None);
        assert_eq!(raw(&record.key), "records of this topic have no key");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            key: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
            small in 0u8..30,
        ) {
            for topic in InternalTopic::ALL {
                let _ = decode_record(topic, key.as_deref(), value.as_deref());
                // The same behind prefixes that lead somewhere.
                let behind = |prefix: &[u8], bytes: &Option<Vec<u8>>| {
                    let mut all = prefix.to_vec();
                    all.extend(bytes.iter().flatten());
                    all
                };
                let key = behind(&[0, small], &key);
                let _ = decode_record(topic, Some(&key), Some(&behind(&[0, 0], &value)));
                let _ = decode_record(topic, None, Some(&behind(&[1, small, 0], &value)));
            }
        }
    }
}
