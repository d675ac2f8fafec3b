//! Records of `__share_group_state`.
//!
//! Decides the messages of Kafka's `share-coordinator` module. The state of a share partition is
//! its latest snapshot plus the updates with the snapshot's epoch.

use super::types::{
    CoordinatorRecordType, INT8, INT16, INT32, INT64, STRING, Type, UUID, field, message,
    record_type,
};

/// Record types 0 and 1.
pub const RECORD_TYPES: &[CoordinatorRecordType] = &[
    record_type(
        0,
        message(
            "ShareSnapshotKey",
            &[
                field("groupId", STRING),
                field("topicId", UUID),
                field("partition", INT32),
            ],
        ),
        message(
            "ShareSnapshotValue",
            &[
                field("snapshotEpoch", INT32),
                field("stateEpoch", INT32),
                field("leaderEpoch", INT32),
                field("startOffset", INT64),
                field("deliveryCompleteCount", INT32).tag(0).default_int(-1),
                field("createTimestamp", INT64),
                field("writeTimestamp", INT64),
                field("stateBatches", Type::Array(&STATE_BATCH)),
            ],
        ),
    ),
    record_type(
        1,
        message(
            "ShareUpdateKey",
            &[
                field("groupId", STRING),
                field("topicId", UUID),
                field("partition", INT32),
            ],
        ),
        message(
            "ShareUpdateValue",
            &[
                field("snapshotEpoch", INT32),
                field("leaderEpoch", INT32),
                field("startOffset", INT64),
                field("deliveryCompleteCount", INT32).tag(0).default_int(-1),
                field("stateBatches", Type::Array(&STATE_BATCH)),
            ],
        ),
    ),
];

const STATE_BATCH: Type = Type::Struct(&[
    field("firstOffset", INT64),
    field("lastOffset", INT64),
    field("deliveryState", INT8),
    field("deliveryCount", INT16),
]);
