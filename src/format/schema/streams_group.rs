//! Records of `__consumer_offsets` that belong to streams groups.
//!
//! Decides the messages of Kafka's `group-coordinator` module and its `CoordinatorRecordType`.

use super::types::{
    CoordinatorRecordType, INT8, INT16, INT16S, INT32, INT32S, INT64, STRING, STRINGS, Type,
    UINT16, field, message, record_type,
};

/// Record types 17 and 19 to 23.
pub const RECORD_TYPES: &[CoordinatorRecordType] = &[
    record_type(
        17,
        message("StreamsGroupMetadataKey", &[field("groupId", STRING)]),
        message(
            "StreamsGroupMetadataValue",
            &[
                field("epoch", INT32),
                field("metadataHash", INT64),
                field("validatedTopologyEpoch", INT32)
                    .tag(0)
                    .default_int(-1),
                field(
                    "lastAssignmentConfigs",
                    Type::Array(&LAST_ASSIGNMENT_CONFIG),
                )
                .tag(1)
                .nullable(),
            ],
        ),
    ),
    record_type(
        19,
        message(
            "StreamsGroupMemberMetadataKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "StreamsGroupMemberMetadataValue",
            &[
                field("instanceId", STRING).nullable(),
                field("rackId", STRING).nullable(),
                field("clientId", STRING),
                field("clientHost", STRING),
                field("rebalanceTimeoutMs", INT32),
                field("topologyEpoch", INT32),
                field("processId", STRING),
                field("userEndpoint", ENDPOINT).nullable(),
                field("clientTags", Type::Array(&KEY_VALUE)),
            ],
        ),
    ),
    record_type(
        20,
        message(
            "StreamsGroupTargetAssignmentMetadataKey",
            &[field("groupId", STRING)],
        ),
        message(
            "StreamsGroupTargetAssignmentMetadataValue",
            &[
                field("assignmentEpoch", INT32),
                field("assignmentTimestamp", INT64).tag(0),
            ],
        ),
    ),
    record_type(
        21,
        message(
            "StreamsGroupTargetAssignmentMemberKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "StreamsGroupTargetAssignmentMemberValue",
            &[
                field("activeTasks", Type::Array(&TASK_IDS)),
                field("standbyTasks", Type::Array(&TASK_IDS)),
                field("warmupTasks", Type::Array(&TASK_IDS)),
            ],
        ),
    ),
    record_type(
        22,
        message(
            "StreamsGroupCurrentMemberAssignmentKey",
            &[field("groupId", STRING), field("memberId", STRING)],
        ),
        message(
            "StreamsGroupCurrentMemberAssignmentValue",
            &[
                field("memberEpoch", INT32),
                field("previousMemberEpoch", INT32),
                field("state", INT8),
                field("activeTasks", Type::Array(&STREAMS_TASK_IDS)),
                field("standbyTasks", Type::Array(&STREAMS_TASK_IDS)),
                field("warmupTasks", Type::Array(&STREAMS_TASK_IDS)),
                field(
                    "activeTasksPendingRevocation",
                    Type::Array(&STREAMS_TASK_IDS),
                ),
                field(
                    "standbyTasksPendingRevocation",
                    Type::Array(&STREAMS_TASK_IDS),
                ),
                field(
                    "warmupTasksPendingRevocation",
                    Type::Array(&STREAMS_TASK_IDS),
                ),
            ],
        ),
    ),
    record_type(
        23,
        message("StreamsGroupTopologyKey", &[field("groupId", STRING)]),
        message(
            "StreamsGroupTopologyValue",
            &[
                field("epoch", INT32),
                field("subtopologies", Type::Array(&SUBTOPOLOGY)),
            ],
        ),
    ),
];

const LAST_ASSIGNMENT_CONFIG: Type = Type::Struct(&[field("key", STRING), field("value", STRING)]);

const ENDPOINT: Type = Type::Struct(&[field("host", STRING), field("port", UINT16)]);

const KEY_VALUE: Type = Type::Struct(&[field("key", STRING), field("value", STRING)]);

const TASK_IDS: Type = Type::Struct(&[field("subtopologyId", STRING), field("partitions", INT32S)]);

const STREAMS_TASK_IDS: Type = Type::Struct(&[
    field("subtopologyId", STRING),
    field("partitions", INT32S),
    field("assignmentEpochs", INT32S).tag(0).nullable(),
]);

const TOPIC_CONFIG: Type = Type::Struct(&[field("key", STRING), field("value", STRING)]);

const TOPIC_INFO: Type = Type::Struct(&[
    field("name", STRING),
    field("partitions", INT32),
    field("replicationFactor", INT16),
    field("topicConfigs", Type::Array(&TOPIC_CONFIG)),
]);

const COPARTITION_GROUP: Type = Type::Struct(&[
    field("sourceTopics", INT16S),
    field("sourceTopicRegex", INT16S),
    field("repartitionSourceTopics", INT16S),
]);

const SUBTOPOLOGY: Type = Type::Struct(&[
    field("subtopologyId", STRING),
    field("sourceTopics", STRINGS),
    field("sourceTopicRegex", STRINGS),
    field("stateChangelogTopics", Type::Array(&TOPIC_INFO)),
    field("repartitionSinkTopics", STRINGS),
    field("repartitionSourceTopics", Type::Array(&TOPIC_INFO)),
    field("copartitionGroups", Type::Array(&COPARTITION_GROUP)),
]);
