//! Records of `__consumer_offsets` that belong to share groups.
//!
//! Decides the messages of Kafka's `group-coordinator` module and its `CoordinatorRecordType`. What
//! a share group has consumed is in `__share_group_state`.

use super::types::{
    CoordinatorRecordType, INT8, INT32, INT32S, INT64, STRING, STRINGS, Type, UUID, field, message,
    record_type,
};

/// Record types 10 to 15.
pub const RECORD_TYPES: &[CoordinatorRecordType] = &[
    record_type(
        10,
        message(
            "ShareGroupMemberMetadataKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "ShareGroupMemberMetadataValue",
            &[
                field("rackId", STRING).nullable(),
                field("clientId", STRING),
                field("clientHost", STRING),
                field("subscribedTopicNames", STRINGS),
            ],
        ),
    ),
    record_type(
        11,
        message("ShareGroupMetadataKey", &[field("groupId", STRING)]),
        message(
            "ShareGroupMetadataValue",
            &[field("epoch", INT32), field("metadataHash", INT64)],
        ),
    ),
    record_type(
        12,
        message(
            "ShareGroupTargetAssignmentMetadataKey",
            &[field("groupId", STRING)],
        ),
        message(
            "ShareGroupTargetAssignmentMetadataValue",
            &[
                field("assignmentEpoch", INT32),
                field("assignmentTimestamp", INT64).tag(0),
            ],
        ),
    ),
    record_type(
        13,
        message(
            "ShareGroupTargetAssignmentMemberKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "ShareGroupTargetAssignmentMemberValue",
            &[field("topicPartitions", Type::Array(&TOPIC_PARTITION))],
        ),
    ),
    record_type(
        14,
        message(
            "ShareGroupCurrentMemberAssignmentKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "ShareGroupCurrentMemberAssignmentValue",
            &[
                field("memberEpoch", INT32),
                field("previousMemberEpoch", INT32),
                field("state", INT8),
                field("assignedPartitions", Type::Array(&TOPIC_PARTITIONS)),
            ],
        ),
    ),
    record_type(
        15,
        message(
            "ShareGroupStatePartitionMetadataKey",
            &[field("groupId", STRING)],
        ),
        message(
            "ShareGroupStatePartitionMetadataValue",
            &[
                field("initializingTopics", Type::Array(&TOPIC_PARTITIONS_INFO)),
                field("initializedTopics", Type::Array(&TOPIC_PARTITIONS_INFO)),
                field("deletingTopics", Type::Array(&TOPIC_INFO)),
            ],
        ),
    ),
];

const TOPIC_PARTITION: Type = Type::Struct(&[field("topicId", UUID), field("partitions", INT32S)]);

const TOPIC_PARTITIONS: Type = Type::Struct(&[field("topicId", UUID), field("partitions", INT32S)]);

const TOPIC_PARTITIONS_INFO: Type = Type::Struct(&[
    field("topicId", UUID),
    field("topicName", STRING),
    field("partitions", INT32S),
]);

const TOPIC_INFO: Type = Type::Struct(&[field("topicId", UUID), field("topicName", STRING)]);
