//! What the members of a consumer group send each other through the group coordinator.
//!
//! Both lie in members of a `GroupMetadataValue` of protocol type "consumer", behind an int16
//! version. Decides the messages of Kafka's `clients` module and `ConsumerProtocol`.

use super::types::{BYTES, INT32, INT32S, Message, STRING, STRINGS, Type, field, message};

/// What a member subscribes to.
pub static CONSUMER_PROTOCOL_SUBSCRIPTION: Message = message(
    "ConsumerProtocolSubscription",
    &[
        field("topics", STRINGS),
        field("userData", BYTES).nullable(),
        field("ownedPartitions", Type::Array(&TOPIC_PARTITION)).since(1),
        field("generationId", INT32).since(2),
        field("rackId", STRING).since(3).nullable(),
    ],
)
.newest(3)
.never_flexible();

/// What a member was given.
pub static CONSUMER_PROTOCOL_ASSIGNMENT: Message = message(
    "ConsumerProtocolAssignment",
    &[
        field(
            "assignedPartitions",
            Type::Array(&CONSUMER_PROTOCOL_ASSIGNMENT_TOPIC_PARTITION),
        ),
        field("userData", BYTES).nullable(),
    ],
)
.newest(3)
.never_flexible();

const TOPIC_PARTITION: Type = Type::Struct(&[
    field("topic", STRING).since(1),
    field("partitions", INT32S).since(1),
]);

const CONSUMER_PROTOCOL_ASSIGNMENT_TOPIC_PARTITION: Type =
    Type::Struct(&[field("topic", STRING), field("partitions", INT32S)]);
