//! Which rule refused something, with its numbers.
//!
//! Kafka's error code says less than the rule: OUT_OF_ORDER_SEQUENCE_NUMBER has six causes. So the
//! rule is the value, and the code, Kafka's exception and the message follow from it.

use super::kafka_error::KafkaError;

/// Why an append, a marker or another request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The batch has a producer epoch below the known one
    /// (`UnifiedLog.maybeStartTransactionVerification`,
    /// `UnifiedLog.analyzeAndValidateProducerState`,
    /// `ProducerAppendInfo.checkProducerEpoch`).
    #[error("producer epoch {found} is below the known epoch {known}")]
    StaleProducerEpoch {
        /// Epoch the broker knows.
        known: i16,
        /// Epoch of the batch.
        found: i16,
    },
    /// The marker has an epoch below the known one
    /// (`UnifiedLog.analyzeAndValidateProducerState`, `ProducerAppendInfo.checkProducerEpoch`).
    #[error("marker epoch {found} is below the known epoch {known}")]
    StaleMarkerEpoch {
        /// Epoch the broker knows.
        known: i16,
        /// Epoch of the marker.
        found: i16,
    },
    /// A marker under transaction version 2 does not raise the epoch, and a transaction is open
    /// (`ProducerAppendInfo.checkProducerEpoch`).
    #[error("marker epoch {found} is not above the known epoch {known} (transaction version 2)")]
    MarkerEpochNotRaised {
        /// Epoch the broker knows.
        known: i16,
        /// Epoch of the marker.
        found: i16,
    },
    /// The marker comes from a coordinator that has been replaced
    /// (`ProducerAppendInfo.checkCoordinatorEpoch`).
    #[error("coordinator epoch {found} is below the known epoch {known}")]
    StaleCoordinatorEpoch {
        /// Coordinator epoch the broker knows.
        known: i32,
        /// Coordinator epoch of the marker.
        found: i32,
    },
    /// A marker came to a leader without its transaction version
    /// (`ProducerAppendInfo.appendEndTxnMarker`).
    #[error("the marker carries no transaction version")]
    MarkerWithoutTransactionVersion,
    /// A transactional batch needs the coordinator's word first and came without it
    /// (`UnifiedLog.batchMissingRequiredVerification`).
    #[error("the batch is not part of an ongoing transaction and was not verified")]
    NoVerification,
    /// A batch outside a transaction while the producer has one open
    /// (`ProducerAppendInfo.appendDataBatch`).
    #[error(
        "the batch is not transactional, but a transaction is open since offset {first_offset}"
    )]
    OpenTransaction {
        /// First offset of the open transaction.
        first_offset: i64,
    },
    /// Under transaction version 2 a producer without remembered batch begins at 0
    /// (`ProducerAppendInfo.checkSequence`).
    #[error(
        "base sequence is {found}, must be 0: no batch of this producer is known (transaction version 2)"
    )]
    UnknownProducerMustStartAtZero {
        /// Base sequence of the batch.
        found: i32,
    },
    /// A lower sequence waits for its verification and has to be written first
    /// (`ProducerAppendInfo.checkSequence`, `VerificationStateEntry`).
    #[error(
        "base sequence is {found}, but the batch at {lowest_sequence} has been seen and not written yet"
    )]
    LowerSequencePending {
        /// Base sequence of the batch.
        found: i32,
        /// Lowest sequence for which verification was asked.
        lowest_sequence: i32,
    },
    /// A new epoch begins at 0 (`ProducerAppendInfo.checkSequence`).
    #[error(
        "base sequence is {found}, must be 0: epoch {producer_epoch} is new, the known epoch is {known}"
    )]
    NewEpochMustStartAtZero {
        /// Epoch the broker knows.
        known: i16,
        /// Epoch of the batch.
        producer_epoch: i16,
        /// Base sequence of the batch.
        found: i32,
    },
    /// The epoch is known, from a marker, but no batch of it is
    /// (`ProducerAppendInfo.checkSequence`).
    #[error("base sequence is {found}, must be 0: no batch of epoch {producer_epoch} is known")]
    MustStartAtZero {
        /// Epoch of the batch, and the one the broker knows.
        producer_epoch: i16,
        /// Base sequence of the batch.
        found: i32,
    },
    /// Sequences are missing (`ProducerAppendInfo.checkSequence`).
    #[error(
        "base sequence is {found}, expected {expected} after {last_sequence} at offset {last_offset}"
    )]
    SequenceGap {
        /// The next sequence.
        expected: i32,
        /// Base sequence of the batch.
        found: i32,
        /// Last sequence the broker has.
        last_sequence: i32,
        /// Last offset of the batch with that sequence.
        last_offset: i64,
    },
    /// The batch begins below all remembered ones, so that it cannot be recognised
    /// (`ProducerStateEntry.findDuplicateBatch`, `ProducerAppendInfo.checkSequence`).
    #[error(
        "base sequence is {found}, expected {expected}; remembered batches begin at {first_sequence}"
    )]
    BelowWindow {
        /// The next sequence.
        expected: i32,
        /// Base sequence of the batch.
        found: i32,
        /// First sequence of the oldest remembered batch.
        first_sequence: i32,
        /// Last sequence the broker has.
        last_sequence: i32,
        /// Last offset of the batch with that sequence.
        last_offset: i64,
    },
    /// The batch repeats remembered sequences, but not exactly one remembered batch
    /// (`ProducerStateEntry.findDuplicateBatch`, `ProducerAppendInfo.checkSequence`).
    #[error(
        "base sequence is {found}, expected {expected}; no remembered batch has exactly this range"
    )]
    NoSuchBatchInWindow {
        /// The next sequence.
        expected: i32,
        /// Base sequence of the batch.
        found: i32,
        /// First sequence of the oldest remembered batch.
        first_sequence: i32,
        /// Last sequence the broker has.
        last_sequence: i32,
        /// Last offset of the batch with that sequence.
        last_offset: i64,
    },
    /// A transaction ends that is not in the list of open ones
    /// (`ProducerStateManager.completeTxn`). Only a damaged log or snapshot leads here.
    #[error("transaction of producer {producer_id} at offset {first_offset} ends, but is not open")]
    TransactionNotStarted {
        /// The producer.
        producer_id: i64,
        /// First offset of the transaction.
        first_offset: i64,
    },
    /// The log start offset may not pass the high watermark
    /// (`UnifiedLog.maybeIncrementLogStartOffset`).
    #[error("log start offset {found} is above the high watermark {high_watermark}")]
    LogStartAboveHighWatermark {
        /// The log start offset asked for.
        found: i64,
        /// The high watermark.
        high_watermark: i64,
    },
    /// The high watermark may not pass the log end (`UnifiedLog.maybeIncrementHighWatermark`).
    #[error("high watermark {found} is above the log end offset {log_end_offset}")]
    HighWatermarkAboveLogEnd {
        /// The high watermark asked for.
        found: i64,
        /// The log end offset.
        log_end_offset: i64,
    },
    /// The high watermark may not be negative (`UnifiedLog.updateHighWatermarkMetadata`).
    #[error("high watermark {found} is negative")]
    NegativeHighWatermark {
        /// The high watermark asked for.
        found: i64,
    },
}

impl Refusal {
    /// The error code the client sees.
    #[must_use]
    pub fn error(&self) -> KafkaError {
        match self {
            Self::StaleProducerEpoch { .. }
            | Self::StaleMarkerEpoch { .. }
            | Self::MarkerEpochNotRaised { .. } => KafkaError::INVALID_PRODUCER_EPOCH,
            Self::StaleCoordinatorEpoch { .. } => KafkaError::TRANSACTION_COORDINATOR_FENCED,
            Self::NoVerification | Self::OpenTransaction { .. } => KafkaError::INVALID_TXN_STATE,
            Self::UnknownProducerMustStartAtZero { .. }
            | Self::LowerSequencePending { .. }
            | Self::NewEpochMustStartAtZero { .. }
            | Self::MustStartAtZero { .. }
            | Self::SequenceGap { .. }
            | Self::BelowWindow { .. }
            | Self::NoSuchBatchInWindow { .. } => KafkaError::OUT_OF_ORDER_SEQUENCE_NUMBER,
            Self::LogStartAboveHighWatermark { .. } => KafkaError::OFFSET_OUT_OF_RANGE,
            Self::MarkerWithoutTransactionVersion
            | Self::TransactionNotStarted { .. }
            | Self::HighWatermarkAboveLogEnd { .. }
            | Self::NegativeHighWatermark { .. } => KafkaError::UNKNOWN_SERVER_ERROR,
        }
    }

    /// Simple name of the exception Kafka throws.
    #[must_use]
    pub fn exception(&self) -> &'static str {
        match self {
            Self::StaleProducerEpoch { .. }
            | Self::StaleMarkerEpoch { .. }
            | Self::MarkerEpochNotRaised { .. } => "InvalidProducerEpochException",
            Self::StaleCoordinatorEpoch { .. } => "TransactionCoordinatorFencedException",
            Self::NoVerification | Self::OpenTransaction { .. } => "InvalidTxnStateException",
            Self::UnknownProducerMustStartAtZero { .. }
            | Self::LowerSequencePending { .. }
            | Self::NewEpochMustStartAtZero { .. }
            | Self::MustStartAtZero { .. }
            | Self::SequenceGap { .. }
            | Self::BelowWindow { .. }
            | Self::NoSuchBatchInWindow { .. } => "OutOfOrderSequenceException",
            Self::LogStartAboveHighWatermark { .. } => "OffsetOutOfRangeException",
            Self::MarkerWithoutTransactionVersion
            | Self::TransactionNotStarted { .. }
            | Self::HighWatermarkAboveLogEnd { .. }
            | Self::NegativeHighWatermark { .. } => "IllegalArgumentException",
        }
    }

    /// A stable name of the rule, for JSON.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        match self {
            Self::StaleProducerEpoch { .. } => "stale-producer-epoch",
            Self::StaleMarkerEpoch { .. } => "stale-marker-epoch",
            Self::MarkerEpochNotRaised { .. } => "marker-epoch-not-raised",
            Self::StaleCoordinatorEpoch { .. } => "stale-coordinator-epoch",
            Self::MarkerWithoutTransactionVersion => "marker-without-transaction-version",
            Self::NoVerification => "no-verification",
            Self::OpenTransaction { .. } => "open-transaction",
            Self::UnknownProducerMustStartAtZero { .. } => "unknown-producer-must-start-at-zero",
            Self::LowerSequencePending { .. } => "lower-sequence-pending",
            Self::NewEpochMustStartAtZero { .. } => "new-epoch-must-start-at-zero",
            Self::MustStartAtZero { .. } => "must-start-at-zero",
            Self::SequenceGap { .. } => "sequence-gap",
            Self::BelowWindow { .. } => "below-window",
            Self::NoSuchBatchInWindow { .. } => "no-such-batch-in-window",
            Self::TransactionNotStarted { .. } => "transaction-not-started",
            Self::LogStartAboveHighWatermark { .. } => "log-start-above-high-watermark",
            Self::HighWatermarkAboveLogEnd { .. } => "high-watermark-above-log-end",
            Self::NegativeHighWatermark { .. } => "negative-high-watermark",
        }
    }
}
