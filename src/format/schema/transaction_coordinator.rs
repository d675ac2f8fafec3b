//! Records of `__transaction_state`.
//!
//! Decides the messages of Kafka's `transaction-coordinator` module. Value version 0 is written
//! with `transaction.version` 0, version 1 with 1 and 2. `nextProducerEpoch` is in the schema of
//! 4.3.1, which neither writes nor uses it.

use super::types::{
    CoordinatorRecordType, INT8, INT16, INT32, INT32S, INT64, STRING, Type, field, message,
    record_type,
};

/// Record type 0.
pub const RECORD_TYPES: &[CoordinatorRecordType] = &[record_type(
    0,
    message("TransactionLogKey", &[field("transactionalId", STRING)]),
    message(
        "TransactionLogValue",
        &[
            field("producerId", INT64),
            field("previousProducerId", INT64)
                .since(1)
                .tag(0)
                .default_int(-1),
            field("nextProducerId", INT64)
                .since(1)
                .tag(1)
                .default_int(-1),
            field("producerEpoch", INT16),
            field("nextProducerEpoch", INT16)
                .since(1)
                .tag(3)
                .default_int(-1),
            field("transactionTimeoutMs", INT32),
            field("transactionStatus", INT8),
            field("transactionPartitions", Type::Array(&PARTITIONS_SCHEMA)).nullable(),
            field("transactionLastUpdateTimestampMs", INT64),
            field("transactionStartTimestampMs", INT64),
            field("clientTransactionVersion", INT16).since(1).tag(2),
        ],
    )
    .newest(1)
    .flexible_since(1),
)];

const PARTITIONS_SCHEMA: Type =
    Type::Struct(&[field("topic", STRING), field("partitionIds", INT32S)]);
