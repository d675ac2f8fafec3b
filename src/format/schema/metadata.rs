//! Records of `__cluster_metadata` and of KRaft snapshots.
//!
//! Decides the messages of Kafka's `metadata` module and its `MetadataRecordType`. Numbers 6, 13
//! and 16 are not in use. All versions from 0 on can still be read; the preview of KRaft in 2.8
//! had frame version 0, which no later release reads.

use super::types::{
    BOOL, BYTES, FLOAT64, INT8, INT16, INT32, INT32S, INT64, MetadataRecordType, STRING, STRINGS,
    Type, UINT16, UUID, UUIDS, field, message, metadata_type,
};

/// Record types 0 to 28.
pub const RECORD_TYPES: &[MetadataRecordType] = &[
    metadata_type(
        0,
        "REGISTER_BROKER_RECORD",
        message(
            "RegisterBrokerRecord",
            &[
                field("brokerId", INT32),
                field("isMigratingZkBroker", BOOL).since(2),
                field("incarnationId", UUID),
                field("brokerEpoch", INT64),
                field("endPoints", Type::Array(&BROKER_ENDPOINT)),
                field("features", Type::Array(&BROKER_FEATURE)),
                field("rack", STRING).nullable(),
                field("fenced", BOOL),
                field("inControlledShutdown", BOOL).since(1),
                field("logDirs", UUIDS).since(3).tag(0),
                field("cordonedLogDirs", UUIDS)
                    .since(4)
                    .tag(1)
                    .default_null(),
            ],
        )
        .newest(4),
    ),
    metadata_type(
        1,
        "UNREGISTER_BROKER_RECORD",
        message(
            "UnregisterBrokerRecord",
            &[field("brokerId", INT32), field("brokerEpoch", INT64)],
        ),
    ),
    metadata_type(
        2,
        "TOPIC_RECORD",
        message(
            "TopicRecord",
            &[field("name", STRING), field("topicId", UUID)],
        ),
    ),
    metadata_type(
        3,
        "PARTITION_RECORD",
        message(
            "PartitionRecord",
            &[
                field("partitionId", INT32),
                field("topicId", UUID),
                field("replicas", INT32S),
                field("isr", INT32S),
                field("removingReplicas", INT32S),
                field("addingReplicas", INT32S),
                field("leader", INT32),
                field("leaderRecoveryState", INT8).tag(0),
                field("leaderEpoch", INT32),
                field("partitionEpoch", INT32),
                field("directories", UUIDS).since(1),
                field("eligibleLeaderReplicas", INT32S)
                    .since(2)
                    .tag(1)
                    .default_null(),
                field("lastKnownElr", INT32S).since(2).tag(2).default_null(),
            ],
        )
        .newest(2),
    ),
    metadata_type(
        4,
        "CONFIG_RECORD",
        message(
            "ConfigRecord",
            &[
                field("resourceType", INT8),
                field("resourceName", STRING),
                field("name", STRING),
                field("value", STRING).nullable(),
            ],
        ),
    ),
    metadata_type(
        5,
        "PARTITION_CHANGE_RECORD",
        message(
            "PartitionChangeRecord",
            &[
                field("partitionId", INT32),
                field("topicId", UUID),
                field("isr", INT32S).tag(0).default_null(),
                field("leader", INT32).tag(1).default_int(-2),
                field("replicas", INT32S).tag(2).default_null(),
                field("removingReplicas", INT32S).tag(3).default_null(),
                field("addingReplicas", INT32S).tag(4).default_null(),
                field("leaderRecoveryState", INT8).tag(5).default_int(-1),
                field("directories", UUIDS).since(1).tag(8).default_null(),
                field("eligibleLeaderReplicas", INT32S)
                    .since(2)
                    .tag(6)
                    .default_null(),
                field("lastKnownElr", INT32S).since(2).tag(7).default_null(),
            ],
        )
        .newest(2),
    ),
    metadata_type(
        7,
        "FENCE_BROKER_RECORD",
        message(
            "FenceBrokerRecord",
            &[field("id", INT32), field("epoch", INT64)],
        ),
    ),
    metadata_type(
        8,
        "UNFENCE_BROKER_RECORD",
        message(
            "UnfenceBrokerRecord",
            &[field("id", INT32), field("epoch", INT64)],
        ),
    ),
    metadata_type(
        9,
        "REMOVE_TOPIC_RECORD",
        message("RemoveTopicRecord", &[field("topicId", UUID)]),
    ),
    metadata_type(
        10,
        "DELEGATION_TOKEN_RECORD",
        message(
            "DelegationTokenRecord",
            &[
                field("owner", STRING),
                field("requester", STRING),
                field("renewers", STRINGS),
                field("issueTimestamp", INT64),
                field("maxTimestamp", INT64),
                field("expirationTimestamp", INT64),
                field("tokenId", STRING),
            ],
        ),
    ),
    metadata_type(
        11,
        "USER_SCRAM_CREDENTIAL_RECORD",
        message(
            "UserScramCredentialRecord",
            &[
                field("name", STRING),
                field("mechanism", INT8),
                field("salt", BYTES),
                field("storedKey", BYTES),
                field("serverKey", BYTES),
                field("iterations", INT32),
            ],
        ),
    ),
    metadata_type(
        12,
        "FEATURE_LEVEL_RECORD",
        message(
            "FeatureLevelRecord",
            &[field("name", STRING), field("featureLevel", INT16)],
        ),
    ),
    metadata_type(
        14,
        "CLIENT_QUOTA_RECORD",
        message(
            "ClientQuotaRecord",
            &[
                field("entity", Type::Array(&ENTITY_DATA)),
                field("key", STRING),
                field("value", FLOAT64),
                field("remove", BOOL),
            ],
        ),
    ),
    metadata_type(
        15,
        "PRODUCER_IDS_RECORD",
        message(
            "ProducerIdsRecord",
            &[
                field("brokerId", INT32),
                field("brokerEpoch", INT64),
                field("nextProducerId", INT64),
            ],
        ),
    ),
    metadata_type(
        17,
        "BROKER_REGISTRATION_CHANGE_RECORD",
        message(
            "BrokerRegistrationChangeRecord",
            &[
                field("brokerId", INT32),
                field("brokerEpoch", INT64),
                field("fenced", INT8).tag(0),
                field("inControlledShutdown", INT8).since(1).tag(1),
                field("logDirs", UUIDS).since(2).tag(2),
                field("cordonedLogDirs", UUIDS)
                    .since(3)
                    .tag(3)
                    .default_null(),
            ],
        )
        .newest(3),
    ),
    metadata_type(
        18,
        "ACCESS_CONTROL_ENTRY_RECORD",
        message(
            "AccessControlEntryRecord",
            &[
                field("id", UUID),
                field("resourceType", INT8),
                field("resourceName", STRING),
                field("patternType", INT8),
                field("principal", STRING),
                field("host", STRING),
                field("operation", INT8),
                field("permissionType", INT8),
            ],
        ),
    ),
    metadata_type(
        19,
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
        message("RemoveAccessControlEntryRecord", &[field("id", UUID)]),
    ),
    metadata_type(20, "NO_OP_RECORD", message("NoOpRecord", &[])),
    metadata_type(
        21,
        "ZK_MIGRATION_STATE_RECORD",
        message("ZkMigrationStateRecord", &[field("zkMigrationState", INT8)]),
    ),
    metadata_type(
        22,
        "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
        message(
            "RemoveUserScramCredentialRecord",
            &[field("name", STRING), field("mechanism", INT8)],
        ),
    ),
    metadata_type(
        23,
        "BEGIN_TRANSACTION_RECORD",
        message(
            "BeginTransactionRecord",
            &[field("name", STRING).tag(0).default_null()],
        ),
    ),
    metadata_type(
        24,
        "END_TRANSACTION_RECORD",
        message("EndTransactionRecord", &[]),
    ),
    metadata_type(
        25,
        "ABORT_TRANSACTION_RECORD",
        message(
            "AbortTransactionRecord",
            &[field("reason", STRING).tag(0).default_null()],
        ),
    ),
    metadata_type(
        26,
        "REMOVE_DELEGATION_TOKEN_RECORD",
        message("RemoveDelegationTokenRecord", &[field("tokenId", STRING)]),
    ),
    metadata_type(
        27,
        "REGISTER_CONTROLLER_RECORD",
        message(
            "RegisterControllerRecord",
            &[
                field("controllerId", INT32),
                field("incarnationId", UUID),
                field("zkMigrationReady", BOOL),
                field("endPoints", Type::Array(&CONTROLLER_ENDPOINT)),
                field("features", Type::Array(&CONTROLLER_FEATURE)),
            ],
        ),
    ),
    metadata_type(
        28,
        "CLEAR_ELR_RECORD",
        message("ClearElrRecord", &[field("topicName", STRING)]),
    ),
];

const BROKER_ENDPOINT: Type = Type::Struct(&[
    field("name", STRING),
    field("host", STRING),
    field("port", UINT16),
    field("securityProtocol", INT16),
]);

const BROKER_FEATURE: Type = Type::Struct(&[
    field("name", STRING),
    field("minSupportedVersion", INT16),
    field("maxSupportedVersion", INT16),
]);

const ENTITY_DATA: Type = Type::Struct(&[
    field("entityType", STRING),
    field("entityName", STRING).nullable(),
]);

const CONTROLLER_ENDPOINT: Type = Type::Struct(&[
    field("name", STRING),
    field("host", STRING),
    field("port", UINT16),
    field("securityProtocol", INT16),
]);

const CONTROLLER_FEATURE: Type = Type::Struct(&[
    field("name", STRING),
    field("minSupportedVersion", INT16),
    field("maxSupportedVersion", INT16),
]);
