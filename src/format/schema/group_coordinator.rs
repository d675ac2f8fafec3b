//! Records of `__consumer_offsets`: committed offsets, classic and consumer groups.
//!
//! Decides the messages of Kafka's `group-coordinator` module and its `CoordinatorRecordType`.
//! Numbers 9 and 18 are not in use; share and streams groups have tables of their own.

use super::types::{
    BYTES, CoordinatorRecordType, INT8, INT32, INT32S, INT64, STRING, STRINGS, Type, UUID, field,
    message, record_type,
};

/// Record types 0 to 8 and 16.
pub const RECORD_TYPES: &[CoordinatorRecordType] = &[
    record_type(
        0,
        message(
            "LegacyOffsetCommitKey",
            &[
                field("group", STRING),
                field("topic", STRING),
                field("partition", INT32),
            ],
        ),
        message(
            "LegacyOffsetCommitValue",
            &[
                field("offset", INT64),
                field("metadata", STRING),
                field("commitTimestamp", INT64),
            ],
        )
        .never_flexible(),
    ),
    record_type(
        1,
        message(
            "OffsetCommitKey",
            &[
                field("group", STRING),
                field("topic", STRING),
                field("partition", INT32),
            ],
        ),
        message(
            "OffsetCommitValue",
            &[
                field("offset", INT64),
                field("leaderEpoch", INT32).since(3),
                field("metadata", STRING),
                field("commitTimestamp", INT64),
                field("expireTimestamp", INT64).only(1),
                field("topicId", UUID).since(4).tag(0),
            ],
        )
        .newest(4)
        .flexible_since(4),
    ),
    record_type(
        2,
        message("GroupMetadataKey", &[field("group", STRING)]),
        message(
            "GroupMetadataValue",
            &[
                field("protocolType", STRING),
                field("generation", INT32),
                field("protocol", STRING).nullable(),
                field("leader", STRING).nullable(),
                field("currentStateTimestamp", INT64).since(2),
                field("members", Type::Array(&MEMBER_METADATA)),
            ],
        )
        .newest(4)
        .flexible_since(4),
    ),
    record_type(
        3,
        message("ConsumerGroupMetadataKey", &[field("groupId", STRING)]),
        message(
            "ConsumerGroupMetadataValue",
            &[field("epoch", INT32), field("metadataHash", INT64).tag(0)],
        ),
    ),
    record_type(
        4,
        message(
            "ConsumerGroupPartitionMetadataKey",
            &[field("groupId", STRING)],
        ),
        message(
            "ConsumerGroupPartitionMetadataValue",
            &[field("topics", Type::Array(&TOPIC_METADATA))],
        ),
    ),
    record_type(
        5,
        message(
            "ConsumerGroupMemberMetadataKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "ConsumerGroupMemberMetadataValue",
            &[
                field("instanceId", STRING).nullable(),
                field("rackId", STRING).nullable(),
                field("clientId", STRING),
                field("clientHost", STRING),
                field("subscribedTopicNames", STRINGS),
                field("subscribedTopicRegex", STRING).nullable(),
                field("rebalanceTimeoutMs", INT32),
                field("serverAssignor", STRING).nullable(),
                field("classicMemberMetadata", CLASSIC_MEMBER_METADATA)
                    .tag(0)
                    .nullable(),
            ],
        ),
    ),
    record_type(
        6,
        message(
            "ConsumerGroupTargetAssignmentMetadataKey",
            &[field("groupId", STRING)],
        ),
        message(
            "ConsumerGroupTargetAssignmentMetadataValue",
            &[
                field("assignmentEpoch", INT32),
                field("assignmentTimestamp", INT64).tag(0),
            ],
        ),
    ),
    record_type(
        7,
        message(
            "ConsumerGroupTargetAssignmentMemberKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "ConsumerGroupTargetAssignmentMemberValue",
            &[field("topicPartitions", Type::Array(&TOPIC_PARTITION))],
        ),
    ),
    record_type(
        8,
        message(
            "ConsumerGroupCurrentMemberAssignmentKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "ConsumerGroupCurrentMemberAssignmentValue",
            &[
                field("memberEpoch", INT32),
                field("previousMemberEpoch", INT32),
                field("state", INT8),
                field("assignedPartitions", Type::Array(&TOPIC_PARTITIONS)),
                field(
                    "partitionsPendingRevocation",
                    Type::Array(&TOPIC_PARTITIONS),
                ),
            ],
        ),
    ),
    record_type(
        16,
        message(
            "ConsumerGroupRegularExpressionKey",
            &[field("groupId", STRING), field("regularExpression", STRING)],
        ),
        message(
            "ConsumerGroupRegularExpressionValue",
            &[
                field("topics", STRINGS),
                field("version", INT64),
                field("timestamp", INT64),
            ],
        ),
    ),
];

const MEMBER_METADATA: Type = Type::Struct(&[
    field("memberId", STRING),
    field("groupInstanceId", STRING).since(3).nullable(),
    field("clientId", STRING),
    field("clientHost", STRING),
    field("rebalanceTimeout", INT32).since(1),
    field("sessionTimeout", INT32),
    field("subscription", BYTES),
    field("assignment", BYTES),
]);

const PARTITION_METADATA: Type =
    Type::Struct(&[field("partition", INT32), field("racks", STRINGS)]);

const TOPIC_METADATA: Type = Type::Struct(&[
    field("topicId", UUID),
    field("topicName", STRING),
    field("numPartitions", INT32),
    field("partitionMetadata", Type::Array(&PARTITION_METADATA)),
]);

const CLASSIC_PROTOCOL: Type = Type::Struct(&[field("name", STRING), field("metadata", BYTES)]);

const CLASSIC_MEMBER_METADATA: Type = Type::Struct(&[
    field("sessionTimeoutMs", INT32),
    field("supportedProtocols", Type::Array(&CLASSIC_PROTOCOL)),
]);

const TOPIC_PARTITION: Type = Type::Struct(&[field("topicId", UUID), field("partitions", INT32S)]);

const TOPIC_PARTITIONS: Type = Type::Struct(&[
    field("topicId", UUID),
    field("partitions", INT32S),
    field("assignmentEpochs", INT32S).tag(0).nullable(),
]);
