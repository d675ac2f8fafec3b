//! Records of `__remote_log_metadata`.
//!
//! Decides the messages of Kafka's `storage` module and `RemoteLogMetadataSerde`. Type 3 is found
//! in `remote_log_snapshot` files of 3.5 to 3.8 only.

use super::types::{
    BOOL, BYTES, INT8, INT32, INT64, MetadataRecordType, STRING, Type, UUID, field, message,
    metadata_type,
};

/// Record types 0 to 3.
pub const RECORD_TYPES: &[MetadataRecordType] = &[
    metadata_type(
        0,
        "REMOTE_LOG_SEGMENT_METADATA_RECORD",
        message(
            "RemoteLogSegmentMetadataRecord",
            &[
                field("remoteLogSegmentId", REMOTE_LOG_SEGMENT_ID_ENTRY),
                field("startOffset", INT64),
                field("endOffset", INT64),
                field("brokerId", INT32),
                field("maxTimestampMs", INT64),
                field("eventTimestampMs", INT64),
                field(
                    "segmentLeaderEpochs",
                    Type::Array(&SEGMENT_LEADER_EPOCH_ENTRY),
                ),
                field("segmentSizeInBytes", INT32),
                field("customMetadata", BYTES).nullable(),
                field("remoteLogSegmentState", INT8),
                field("txnIndexEmpty", BOOL).tag(0),
            ],
        ),
    ),
    metadata_type(
        1,
        "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD",
        message(
            "RemoteLogSegmentMetadataUpdateRecord",
            &[
                field("remoteLogSegmentId", REMOTE_LOG_SEGMENT_ID_ENTRY),
                field("brokerId", INT32),
                field("eventTimestampMs", INT64),
                field("customMetadata", BYTES).nullable(),
                field("remoteLogSegmentState", INT8),
            ],
        ),
    ),
    metadata_type(
        2,
        "REMOTE_PARTITION_DELETE_METADATA_RECORD",
        message(
            "RemotePartitionDeleteMetadataRecord",
            &[
                field("topicIdPartition", TOPIC_ID_PARTITION_ENTRY),
                field("brokerId", INT32),
                field("eventTimestampMs", INT64),
                field("remotePartitionDeleteState", INT8),
            ],
        ),
    ),
    metadata_type(
        3,
        "REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD",
        message(
            "RemoteLogSegmentMetadataSnapshotRecord",
            &[
                field("segmentId", UUID),
                field("startOffset", INT64),
                field("endOffset", INT64),
                field("brokerId", INT32),
                field("maxTimestampMs", INT64),
                field("eventTimestampMs", INT64),
                field(
                    "segmentLeaderEpochs",
                    Type::Array(&SEGMENT_LEADER_EPOCH_ENTRY),
                ),
                field("segmentSizeInBytes", INT32),
                field("customMetadata", BYTES).nullable(),
                field("remoteLogSegmentState", INT8),
                field("txnIndexEmpty", BOOL).tag(0),
            ],
        ),
    ),
];

const TOPIC_ID_PARTITION_ENTRY: Type = Type::Struct(&[
    field("name", STRING),
    field("id", UUID),
    field("partition", INT32),
]);

const REMOTE_LOG_SEGMENT_ID_ENTRY: Type = Type::Struct(&[
    field("topicIdPartition", TOPIC_ID_PARTITION_ENTRY),
    field("id", UUID),
]);

const SEGMENT_LEADER_EPOCH_ENTRY: Type =
    Type::Struct(&[field("leaderEpoch", INT32), field("offset", INT64)]);
