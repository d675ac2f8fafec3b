//! Kafka's message schemas: one interpreter over tables.
//!
//! Kafka generates a class from the definition of each message. Here a definition is a static
//! [`Message`] in one of the tables below, and [`Message::decode`] and [`Message::encode`] walk it.
//! Bytes become the JSON that Kafka's generated `JsonConverter` writes of them:
//!
//! - fields in the order of the definition, those of other versions left out;
//! - bytes as base64, ids as URL-safe base64 without padding;
//! - a tagged field only if it differs from its default, unknown tagged fields not at all;
//! - a float64 that is no number as "NaN", "Infinity" or "-Infinity".
//!
//! Decoding takes bytes as Kafka's generated readers do, also where these are lenient: the size of
//! a known tagged field is not looked at, tags may repeat and come in any order, and text that is
//! not UTF-8 is read with replacement characters as Java places them. A version outside the table
//! is refused; Kafka's readers of metadata records would read it as the newest one they know.
//!
//! Depth of recursion is that of the table, never of the input; a count is checked against the
//! bytes that are there before anything is read, and no more than [`MAX_VALUES`] values are decoded
//! of a record: one of more is refused, and shown as bytes.

pub mod consumer_protocol;
pub mod group_coordinator;
pub mod kraft_control;
pub mod metadata;
pub mod producer_snapshot;
pub mod remote_log_metadata;
pub mod share_coordinator;
pub mod share_group;
pub mod streams_group;
pub mod transaction_coordinator;
pub mod types;

mod decode;
mod encode;

pub use decode::MAX_VALUES;
pub(crate) use decode::ValueBudget;
pub use encode::{EncodeError, EncodeErrorKind};
pub use types::{CoordinatorRecordType, Message, MetadataRecordType};

/// All messages of all tables.
pub fn messages() -> impl Iterator<Item = &'static Message> {
    let coordinators = [
        group_coordinator::RECORD_TYPES,
        share_group::RECORD_TYPES,
        streams_group::RECORD_TYPES,
        transaction_coordinator::RECORD_TYPES,
        share_coordinator::RECORD_TYPES,
    ];
    let metadata = [metadata::RECORD_TYPES, remote_log_metadata::RECORD_TYPES];
    let others = [
        &kraft_control::CONTROL_RECORD_TYPE_SCHEMA,
        &kraft_control::END_TXN_MARKER,
        &kraft_control::LEADER_CHANGE_MESSAGE,
        &kraft_control::SNAPSHOT_HEADER_RECORD,
        &kraft_control::SNAPSHOT_FOOTER_RECORD,
        &kraft_control::KRAFT_VERSION_RECORD,
        &kraft_control::VOTERS_RECORD,
        &consumer_protocol::CONSUMER_PROTOCOL_SUBSCRIPTION,
        &consumer_protocol::CONSUMER_PROTOCOL_ASSIGNMENT,
        &producer_snapshot::PRODUCER_SNAPSHOT,
    ];
    coordinators
        .into_iter()
        .flatten()
        .flat_map(|record_type| [&record_type.key, &record_type.value])
        .chain(metadata.into_iter().flatten().map(|t| &t.message))
        .chain(others)
}
