//! Kafka's marks for "not there". Decides `org.apache.kafka.common.record.internal.RecordBatch`.

/// No producer id: the batch was written by neither an idempotent nor a transactional producer.
pub const NO_PRODUCER_ID: i64 = -1;
/// No producer epoch.
pub const NO_PRODUCER_EPOCH: i16 = -1;
/// No sequence number; control batches have none either.
pub const NO_SEQUENCE: i32 = -1;
/// No timestamp.
pub const NO_TIMESTAMP: i64 = -1;
/// No partition leader epoch; clients send it, and magic 0 and 1 have no room for one.
pub const NO_PARTITION_LEADER_EPOCH: i32 = -1;

/// `None` in place of one of these marks, for answers.
pub(crate) fn known<T: PartialEq>(value: T, missing: T) -> Option<T> {
    (value != missing).then_some(value)
}
