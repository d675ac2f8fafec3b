//! The producer snapshot (`.snapshot` file) as Kafka's schema of it.
//!
//! Decides `ProducerSnapshot.json` of Kafka's `storage` module. The int16 version comes before it.
//! What a broker accepts and refuses is in `format::producer_snapshot`; this table is Kafka's word
//! on the layout.

use super::types::{INT16, INT32, INT64, Message, Type, UINT32, field, message};

/// Version 1, the only one since 0.11. `crc` covers what follows it.
pub static PRODUCER_SNAPSHOT: Message = message(
    "ProducerSnapshot",
    &[
        field("crc", UINT32),
        field("producerEntries", Type::Array(&PRODUCER_ENTRY)),
    ],
)
.only(1)
.never_flexible();

const PRODUCER_ENTRY: Type = Type::Struct(&[
    field("producerId", INT64),
    field("epoch", INT16),
    field("lastSequence", INT32),
    field("lastOffset", INT64),
    field("offsetDelta", INT32),
    field("timestamp", INT64),
    field("coordinatorEpoch", INT32),
    field("currentTxnFirstOffset", INT64),
]);
