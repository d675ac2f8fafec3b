//! The error codes with which a broker refuses an append: those of
//! `org.apache.kafka.common.protocol.Errors`.

/// A Kafka error by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KafkaError(pub i16);

impl KafkaError {
    /// Anything the broker has no code for.
    pub const UNKNOWN_SERVER_ERROR: Self = Self(-1);
    /// An offset outside the log.
    pub const OFFSET_OUT_OF_RANGE: Self = Self(1);
    /// A checksum does not match.
    pub const CORRUPT_MESSAGE: Self = Self(2);
    /// A batch above `max.message.bytes`.
    pub const MESSAGE_TOO_LARGE: Self = Self(10);
    /// An append above `segment.bytes`.
    pub const RECORD_LIST_TOO_LARGE: Self = Self(18);
    /// A timestamp too far from the broker's clock.
    pub const INVALID_TIMESTAMP: Self = Self(32);
    /// A sequence other than the next one.
    pub const OUT_OF_ORDER_SEQUENCE_NUMBER: Self = Self(45);
    /// Never produced by a 4.3.1 broker for an append.
    pub const DUPLICATE_SEQUENCE_NUMBER: Self = Self(46);
    /// A producer epoch below the known one.
    pub const INVALID_PRODUCER_EPOCH: Self = Self(47);
    /// A write that does not fit the producer's transaction.
    pub const INVALID_TXN_STATE: Self = Self(48);
    /// A marker of a coordinator that has been replaced.
    pub const TRANSACTION_COORDINATOR_FENCED: Self = Self(52);
    /// A log that was closed, or whose directory is offline.
    pub const KAFKA_STORAGE_ERROR: Self = Self(56);
    /// Never produced by a 4.3.1 broker for an append.
    pub const UNKNOWN_PRODUCER_ID: Self = Self(59);
    /// A malformed batch or record.
    pub const INVALID_RECORD: Self = Self(87);

    /// Kafka's name; `UNKNOWN` for a number this crate does not know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UNKNOWN_SERVER_ERROR => "UNKNOWN_SERVER_ERROR",
            Self::OFFSET_OUT_OF_RANGE => "OFFSET_OUT_OF_RANGE",
            Self::CORRUPT_MESSAGE => "CORRUPT_MESSAGE",
            Self::MESSAGE_TOO_LARGE => "MESSAGE_TOO_LARGE",
            Self::RECORD_LIST_TOO_LARGE => "RECORD_LIST_TOO_LARGE",
            Self::INVALID_TIMESTAMP => "INVALID_TIMESTAMP",
            Self::OUT_OF_ORDER_SEQUENCE_NUMBER => "OUT_OF_ORDER_SEQUENCE_NUMBER",
            Self::DUPLICATE_SEQUENCE_NUMBER => "DUPLICATE_SEQUENCE_NUMBER",
            Self::INVALID_PRODUCER_EPOCH => "INVALID_PRODUCER_EPOCH",
            Self::INVALID_TXN_STATE => "INVALID_TXN_STATE",
            Self::KAFKA_STORAGE_ERROR => "KAFKA_STORAGE_ERROR",
            Self::UNKNOWN_PRODUCER_ID => "UNKNOWN_PRODUCER_ID",
            Self::TRANSACTION_COORDINATOR_FENCED => "TRANSACTION_COORDINATOR_FENCED",
            Self::INVALID_RECORD => "INVALID_RECORD",
            Self(_) => "UNKNOWN",
        }
    }

    /// Kafka's number.
    #[must_use]
    pub fn code(self) -> i16 {
        self.0
    }
}
