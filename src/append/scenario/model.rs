//! A scenario as values: what is done to one partition, step by step.

use super::json::{Json, Node, ScenarioError};
use super::parse;
use crate::append::config::LogConfig;
use crate::format::control_record::ControlRecordType;
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::record_batch::{CompressionType, TimestampType};

/// The clock at the beginning, unless the scenario says otherwise.
pub const DEFAULT_START_TIME_MS: i64 = 1_700_000_000_000;

/// The story of one partition. `docs/scenario.md` says what each part means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// For people.
    pub title: Option<String>,
    /// For people.
    pub about: Option<String>,
    /// Topic of the partition.
    pub topic: String,
    /// Number of the partition.
    pub partition: i32,
    /// What goes into `partition.metadata`.
    pub topic_id: KafkaUuid,
    /// Configuration of topic and broker.
    pub config: LogConfig,
    /// `transaction.version`, for steps that do not say their own.
    pub transaction_version: i16,
    /// The clock at the beginning.
    pub start_time_ms: i64,
    /// Whether the high watermark follows the log end.
    pub auto_high_watermark: bool,
    /// Whether the run ends with a clean stop.
    pub clean_shutdown: bool,
    /// What is done.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// The scenario in a JSON text.
    ///
    /// # Errors
    /// If it is no JSON, a field is unknown, missing or has a value it cannot have. Names the
    /// step and the field.
    pub fn parse(bytes: &[u8]) -> Result<Self, ScenarioError> {
        let json = Json::parse(bytes)?;
        parse::scenario(&Node::root(&json))
    }

    /// The name of the partition's directory.
    #[must_use]
    pub fn dir_name(&self) -> String {
        format!("{}-{}", self.topic, self.partition)
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are explained in docs/scenario.md")]
pub enum Step {
    /// One batch for the leader.
    Append(AppendStep),
    /// A marker of the transaction coordinator.
    EndTxnMarker {
        marker: Marker,
        partition_leader_epoch: i32,
        transaction_version: Option<i16>,
    },
    /// What was fetched from the leader.
    AppendAsFollower {
        leader_epoch: i32,
        batches: Vec<FollowerBatch>,
    },
    /// A leader epoch begins at the log end.
    BecomeLeader { leader_epoch: i32 },
    /// The high watermark is set, up or down.
    UpdateHighWatermark { offset: i64 },
    /// The high watermark is raised.
    IncrementHighWatermark { offset: i64 },
    /// A new segment begins.
    Roll,
    /// Everything from the offset on goes.
    TruncateTo { offset: i64 },
    /// Everything goes.
    TruncateFullyAndStartAt {
        offset: i64,
        log_start_offset: Option<i64>,
    },
    /// The log start offset is raised; -1 stands for the high watermark.
    DeleteRecordsBefore { offset: i64 },
    /// Retention.
    DeleteOldSegments,
    /// Idle producers are forgotten.
    RemoveExpiredProducers { time_ms: Option<i64> },
    /// A producer snapshot is written if one is due.
    TakeProducerSnapshot,
    /// The clock moves.
    AdvanceClock { ms: i64 },
    /// Up to the log end.
    Flush,
    /// The broker stops and starts.
    Reopen(Reopen),
}

impl Step {
    /// The step's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Append(_) => "append",
            Self::EndTxnMarker { .. } => "endTxnMarker",
            Self::AppendAsFollower { .. } => "appendAsFollower",
            Self::BecomeLeader { .. } => "becomeLeader",
            Self::UpdateHighWatermark { .. } => "updateHighWatermark",
            Self::IncrementHighWatermark { .. } => "incrementHighWatermark",
            Self::Roll => "roll",
            Self::TruncateTo { .. } => "truncateTo",
            Self::TruncateFullyAndStartAt { .. } => "truncateFullyAndStartAt",
            Self::DeleteRecordsBefore { .. } => "deleteRecordsBefore",
            Self::DeleteOldSegments => "deleteOldSegments",
            Self::RemoveExpiredProducers { .. } => "removeExpiredProducers",
            Self::TakeProducerSnapshot => "takeProducerSnapshot",
            Self::AdvanceClock { .. } => "advanceClock",
            Self::Flush => "flush",
            Self::Reopen(_) => "reopen",
        }
    }
}

/// A record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSpec {
    /// Milliseconds; the clock without it.
    pub timestamp: Option<i64>,
    /// The key, if any.
    pub key: Option<Vec<u8>>,
    /// The value, if any.
    pub value: Option<Vec<u8>>,
    /// Headers in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Offset less the batch's base offset; the one after the record before without it.
    pub offset_delta: Option<i32>,
}

/// What all data batches have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataBatch {
    /// -1 without producer.
    pub producer_id: i64,
    /// -1 without producer.
    pub producer_epoch: i16,
    /// -1 without producer.
    pub base_sequence: i32,
    /// Whether the transactional bit is set.
    pub is_transactional: bool,
    /// The codec the sender used.
    pub compression: CompressionType,
    /// The bytes behind the header as they were sent; made from the records without it.
    pub encoded_records: Option<Vec<u8>>,
    /// What is in there.
    pub records: Vec<RecordSpec>,
}

/// What an `append` step asks of the coordinator before the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// The coordinator agrees.
    Verified,
    /// The coordinator says no.
    Failed,
    /// Nobody asks, though the broker wants it.
    Missing,
    /// The broker does not want it.
    Disabled,
}

/// Damage to a batch after it was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// All bits of the checksum inverted.
    CorruptCrc,
    /// Base offset 7.
    NonZeroBaseOffset,
    /// The LogAppendTime bit set.
    LogAppendTimeAttribute,
    /// The control bit set.
    ControlAttribute,
    /// One record more in the count than there is.
    RecordCountMismatch,
}

/// An `append` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendStep {
    /// The batch.
    pub batch: DataBatch,
    /// The leader's epoch.
    pub partition_leader_epoch: i32,
    /// Whether the group coordinator writes it.
    pub is_coordinator: bool,
    /// How the transaction is verified.
    pub verification: Verification,
    /// The client's protocol.
    pub transaction_version: Option<i16>,
    /// Damage, if any.
    pub fault: Option<Fault>,
}

/// An end-transaction marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Whose transaction.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Abort or commit.
    pub control_type: ControlRecordType,
    /// Epoch of the coordinator.
    pub coordinator_epoch: i32,
    /// The marker's time; the clock without it.
    pub timestamp: Option<i64>,
}

/// One batch of an `appendAsFollower` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerBatch {
    /// Offset of the first record.
    pub base_offset: i64,
    /// The leader's epoch when it was written.
    pub partition_leader_epoch: i32,
    /// What it is.
    pub kind: FollowerBatchKind,
}

/// A batch of a leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are explained in docs/scenario.md")]
pub enum FollowerBatchKind {
    /// Records, or what the cleaner left of them.
    Data {
        batch: DataBatch,
        timestamp_type: TimestampType,
        last_offset_delta: i32,
        max_timestamp: Option<i64>,
    },
    /// A marker.
    Marker(Marker),
}

/// A `reopen` step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reopen {
    /// Whether the stop is clean.
    pub clean: bool,
    /// Instead of the one at the stop.
    pub recovery_point: Option<i64>,
    /// Instead of the one at the stop.
    pub log_start_offset: Option<i64>,
    /// Instead of the one at the stop.
    pub high_watermark: Option<i64>,
    /// Bytes cut off the active `.log`.
    pub torn_tail_bytes: u64,
    /// Whether all snapshots are removed meanwhile.
    pub delete_snapshots: bool,
}
