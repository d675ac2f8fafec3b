//! What became of a step: the objects of `result.json`, and the rows of `kseg write`.

use serde::Serialize;

use crate::append::error::Error;
use crate::state::KafkaError;

/// What became of a step. Fields that a verdict does not have are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepResult {
    /// Name of the step.
    pub step: &'static str,
    /// `appended`, `duplicate`, `rejected`, `ignored` or `done`.
    pub verdict: &'static str,
    /// First offset of the batch, or of the one that was there already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_offset: Option<i64>,
    /// Last offset of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_offset: Option<i64>,
    /// The time the producer is told, -1 with `CreateTime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_append_time: Option<i64>,
    /// The log start offset the producer is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_start_offset: Option<i64>,
    /// What was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<StepError>,
    /// The high watermark that was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_watermark: Option<i64>,
    /// Whether anything changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
    /// The new segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment_base_offset: Option<i64>,
    /// How many segments went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted_segments: Option<usize>,
    /// The clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now_ms: Option<i64>,
    /// The recovery point after loading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery_point: Option<i64>,
    /// The log after the step.
    pub state: LogState,
}

impl StepResult {
    /// A step that has no more to tell.
    pub(super) fn new(step: &'static str, verdict: &'static str) -> Self {
        Self {
            step,
            verdict,
            base_offset: None,
            last_offset: None,
            log_append_time: None,
            log_start_offset: None,
            written: None,
            error: None,
            high_watermark: None,
            changed: None,
            segment_base_offset: None,
            deleted_segments: None,
            now_ms: None,
            recovery_point: None,
            state: LogState::default(),
        }
    }
}

/// A row of `kseg write`: a step's result and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WriteRow {
    /// Topic of the partition.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// What became of the step.
    #[serde(flatten)]
    pub result: StepResult,
}

/// Where the bytes of an append went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// Into which segment.
    pub segment_base_offset: i64,
    /// At which byte of its `.log`.
    pub position: u64,
    /// How many.
    pub size_in_bytes: u64,
}

/// Why a step was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StepError {
    /// Kafka's name of the error.
    pub name: &'static str,
    /// Kafka's number.
    pub code: i16,
    /// Simple name of Kafka's exception.
    pub exception: &'static str,
    /// The rule and its numbers, for people; not part of `result.json`.
    #[serde(skip)]
    pub message: String,
}

impl StepError {
    pub(super) fn new(error: KafkaError, exception: &'static str, message: String) -> Self {
        Self {
            name: error.name(),
            code: error.code(),
            exception,
            message,
        }
    }

    /// What a refusal becomes; an error if the files failed.
    pub(super) fn of(error: Error) -> Result<Self, Error> {
        match error.kafka_error() {
            None => Err(error),
            Some(code) => Ok(Self::new(code, error.exception(), error.to_string())),
        }
    }
}

/// The offsets and segments of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LogState {
    /// Where the log starts.
    pub log_start_offset: i64,
    /// The offset of the next record.
    pub log_end_offset: i64,
    /// What is replicated.
    pub high_watermark: i64,
    /// The first offset of an undecided transaction, as last computed.
    pub first_unstable_offset: Option<i64>,
    /// Where `read_committed` ends.
    pub last_stable_offset: i64,
    /// Up to where the log is on disk.
    pub recovery_point: i64,
    /// Base offsets of the segments.
    pub segments: Vec<i64>,
}
