//! Values of control records: those that end a transaction and those of KRaft.
//!
//! Decides the messages of Kafka's `clients` module and `ControlRecordUtils`. An end marker has its
//! version before it; a KRaft value has it as its first field.

use super::types::{INT16, INT32, INT64, Message, STRING, Type, UINT16, UUID, field, message};
use crate::format::control_record::ControlRecordType;

/// The message in the value of a control record of this type; `None` if the type is not known.
///
/// Kafka reads all of them as version 0.
#[must_use]
pub fn value_message(control_type: ControlRecordType) -> Option<&'static Message> {
    match control_type {
        ControlRecordType::ABORT | ControlRecordType::COMMIT => Some(&END_TXN_MARKER),
        ControlRecordType::LEADER_CHANGE => Some(&LEADER_CHANGE_MESSAGE),
        ControlRecordType::SNAPSHOT_HEADER => Some(&SNAPSHOT_HEADER_RECORD),
        ControlRecordType::SNAPSHOT_FOOTER => Some(&SNAPSHOT_FOOTER_RECORD),
        ControlRecordType::KRAFT_VERSION => Some(&KRAFT_VERSION_RECORD),
        ControlRecordType::KRAFT_VOTERS => Some(&VOTERS_RECORD),
        ControlRecordType(_) => None,
    }
}

/// The key of a control record, behind its int16 version.
pub static CONTROL_RECORD_TYPE_SCHEMA: Message =
    message("ControlRecordTypeSchema", &[field("type", INT16)]).never_flexible();

/// The value of types 0 and 1, behind its int16 version.
pub static END_TXN_MARKER: Message =
    message("EndTxnMarker", &[field("coordinatorEpoch", INT32)]).never_flexible();

/// The value of type 2. 4.3.1 writes and reads version 0 only.
pub static LEADER_CHANGE_MESSAGE: Message = message(
    "LeaderChangeMessage",
    &[
        field("version", INT16),
        field("leaderId", INT32),
        field("voters", Type::Array(&VOTER)),
        field("grantingVoters", Type::Array(&VOTER)),
    ],
)
.newest(1);

/// The value of type 3.
pub static SNAPSHOT_HEADER_RECORD: Message = message(
    "SnapshotHeaderRecord",
    &[
        field("version", INT16),
        field("lastContainedLogTimestamp", INT64),
    ],
);

/// The value of type 4.
pub static SNAPSHOT_FOOTER_RECORD: Message =
    message("SnapshotFooterRecord", &[field("version", INT16)]);

/// The value of type 5.
pub static KRAFT_VERSION_RECORD: Message = message(
    "KRaftVersionRecord",
    &[field("version", INT16), field("kRaftVersion", INT16)],
);

/// The value of type 6.
pub static VOTERS_RECORD: Message = message(
    "VotersRecord",
    &[
        field("version", INT16),
        field("voters", Type::Array(&VOTERS_VOTER)),
    ],
);

const VOTER: Type = Type::Struct(&[
    field("voterId", INT32),
    field("voterDirectoryId", UUID).since(1),
]);

const ENDPOINT: Type = Type::Struct(&[
    field("name", STRING),
    field("host", STRING),
    field("port", UINT16),
]);

const KRAFT_VERSION_FEATURE: Type = Type::Struct(&[
    field("minSupportedVersion", INT16),
    field("maxSupportedVersion", INT16),
]);

const VOTERS_VOTER: Type = Type::Struct(&[
    field("voterId", INT32),
    field("voterDirectoryId", UUID),
    field("endpoints", Type::Array(&ENDPOINT)),
    field("kRaftVersionFeature", KRAFT_VERSION_FEATURE),
]);
