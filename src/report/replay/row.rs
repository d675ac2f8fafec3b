//! The rows of `replay`.

use serde::Serialize;

use crate::format::record_batch::{RecordBatchHeader, increment_sequence};
use crate::report::gaps::OffsetRange;
use crate::state::{AppendOrigin, ProducerStateEntry, Refusal, Verdict};

/// One result of `replay`, in parts: many batches have the same source and get the same
/// answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReplayRow<'a> {
    /// Where the batch comes from.
    #[serde(flatten)]
    pub source: ReplaySource<'a>,
    /// The batch that is judged.
    #[serde(flatten)]
    pub batch: JudgedBatch,
    /// What is answered to it.
    #[serde(flatten)]
    pub answer: Answer,
}

/// A file of the log, or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplaySource<'a> {
    /// What the verdict is about.
    #[serde(rename = "type")]
    pub row_type: ReplayRowType,
    /// Topic, as the directory's name says; null if that is no partition's name.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// The `.log` of a batch in the log.
    pub file: Option<&'a str>,
}

/// A batch that is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JudgedBatch {
    /// Byte position in the file.
    pub position: Option<u64>,
    /// First offset: of the batch, or the one the producer is told; null if it is told none.
    pub base_offset: Option<i64>,
    /// Last offset.
    pub last_offset: Option<i64>,
    /// Producer id.
    pub producer_id: Option<i64>,
    /// Producer epoch.
    pub producer_epoch: Option<i16>,
    /// Sequence of the first record.
    pub base_sequence: Option<i32>,
    /// Sequence of the last record.
    pub last_sequence: Option<i32>,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// `COMMIT` or `ABORT` of an end-transaction marker.
    pub control_type: Option<&'static str>,
    /// Epoch of the transaction coordinator, in a marker.
    pub coordinator_epoch: Option<i32>,
}

/// The verdict on a batch, and what explains it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// `appended`, `duplicate` or `rejected`, by the broker that never stopped.
    pub verdict: &'static str,
    /// The error the client gets from it.
    pub error: Option<ErrorRow>,
    /// The offsets of the remembered batch that this one repeats.
    pub duplicate_of: Option<OffsetRange>,
    /// The rule that decides, a short name.
    pub rule: &'static str,
    /// The numbers of a rule that refuses.
    pub rule_numbers: Option<Box<RuleNumbers>>,
    /// The refusal in words.
    pub message: Option<String>,
    /// All three views.
    pub views: Views,
    /// Why a batch that a leader would not append is in the log, a short name.
    pub explained_by: Option<&'static str>,
    /// The same in words.
    pub explanation: Option<&'static str>,
    /// The next sequence a broker takes from the producer in the epoch it knows; null if it does
    /// not know the producer and takes any, and for a batch in the log.
    pub next_sequence: Option<i32>,
    /// Epoch of the producer the broker knows; null for a batch in the log.
    pub known_epoch: Option<i16>,
    /// The batch in the log that has the first sequence in this epoch; null if it was never
    /// stored here, and for a batch in the log.
    pub stored_at: Option<StoredAt>,
    /// Where the log starts: what was stored before is not known. Null for a batch in the log.
    pub log_start_offset: Option<i64>,
}

/// What a row of `replay` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ReplayRowType {
    /// A batch in the log.
    Batch,
    /// A batch that was never written.
    Request,
}

/// Where the first sequence of a request is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StoredAt {
    /// First offset of the batch.
    pub first_offset: i64,
    /// Last offset of the batch.
    pub last_offset: i64,
    /// Whether the batch has exactly the sequences of the request.
    pub is_exact: bool,
    /// Which one it is of the producer's batches in this epoch, counted from the newest: a broker
    /// remembers 1 to 5.
    pub batches_back: u64,
}

/// An error as Kafka names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorRow {
    /// Name in `Errors`.
    pub name: &'static str,
    /// Number in `Errors`.
    pub code: i16,
}

/// The three views.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Views {
    /// A broker that never stopped.
    pub running: ViewRow,
    /// A broker after a clean restart.
    pub restarted: ViewRow,
    /// A broker that knows nothing of the producer.
    pub state_lost: ViewRow,
}

/// The verdict in one view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ViewRow {
    /// `appended`, `duplicate` or `rejected`.
    pub verdict: &'static str,
    /// The error the client gets.
    pub error: Option<ErrorRow>,
    /// The offsets of the remembered batch that this one repeats.
    pub duplicate_of: Option<OffsetRange>,
    /// The rule that decides, a short name.
    pub rule: &'static str,
    /// The numbers of a rule that refuses; in JSON only those of the running broker's.
    #[serde(skip)]
    pub rule_numbers: Option<Box<RuleNumbers>>,
}

/// The numbers of a rule; null where a rule has no such number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RuleNumbers {
    /// The sequence that would be taken.
    pub expected: Option<i32>,
    /// What the batch or marker has: sequence or epoch.
    pub found: Option<i32>,
    /// The epoch the broker knows.
    pub known: Option<i32>,
    /// First sequence of the oldest remembered batch.
    pub first_sequence: Option<i32>,
    /// Last sequence the broker has.
    pub last_sequence: Option<i32>,
    /// Offset of that sequence.
    pub last_offset: Option<i64>,
    /// First offset of the open transaction.
    pub first_offset: Option<i64>,
}

impl RuleNumbers {
    fn of(refusal: &Refusal) -> Self {
        let none = Self::default();
        match *refusal {
            Refusal::StaleProducerEpoch { known, found }
            | Refusal::StaleMarkerEpoch { known, found }
            | Refusal::MarkerEpochNotRaised { known, found } => Self {
                known: Some(known.into()),
                found: Some(found.into()),
                ..none
            },
            Refusal::StaleCoordinatorEpoch { known, found } => Self {
                known: Some(known),
                found: Some(found),
                ..none
            },
            Refusal::OpenTransaction { first_offset }
            | Refusal::TransactionNotStarted { first_offset, .. } => Self {
                first_offset: Some(first_offset),
                ..none
            },
            Refusal::NewEpochMustStartAtZero { known, found, .. } => Self {
                known: Some(known.into()),
                ..Self::must_be(0, found)
            },
            Refusal::UnknownProducerMustStartAtZero { found }
            | Refusal::MustStartAtZero { found, .. } => Self::must_be(0, found),
            Refusal::LowerSequencePending {
                found,
                lowest_sequence,
            } => Self::must_be(lowest_sequence, found),
            Refusal::SequenceGap {
                expected,
                found,
                last_sequence,
                last_offset,
            } => Self {
                last_sequence: Some(last_sequence),
                last_offset: Some(last_offset),
                ..Self::must_be(expected, found)
            },
            Refusal::BelowWindow {
                expected,
                found,
                first_sequence,
                last_sequence,
                last_offset,
            }
            | Refusal::NoSuchBatchInWindow {
                expected,
                found,
                first_sequence,
                last_sequence,
                last_offset,
            } => Self {
                first_sequence: Some(first_sequence),
                last_sequence: Some(last_sequence),
                last_offset: Some(last_offset),
                ..Self::must_be(expected, found)
            },
            Refusal::MarkerWithoutTransactionVersion
            | Refusal::NoVerification
            | Refusal::LogStartAboveHighWatermark { .. }
            | Refusal::HighWatermarkAboveLogEnd { .. }
            | Refusal::NegativeHighWatermark { .. } => none,
        }
    }

    fn must_be(expected: i32, found: i32) -> Self {
        Self {
            expected: Some(expected),
            found: Some(found),
            ..Self::default()
        }
    }
}

impl ViewRow {
    /// A verdict as a row has it; `accepted` is the rule if the batch is appended.
    pub(super) fn new(verdict: &Verdict, accepted: &'static str) -> Self {
        let name = verdict.name();
        match verdict {
            Verdict::Appended => Self::appended(accepted),
            Verdict::Duplicate(earlier) => Self {
                verdict: name,
                duplicate_of: Some(OffsetRange {
                    first_offset: earlier.first_offset(),
                    last_offset: earlier.last_offset,
                }),
                rule: "remembered-batch",
                ..Self::appended("")
            },
            Verdict::Rejected(refusal) => Self {
                verdict: name,
                error: Some(ErrorRow {
                    name: refusal.error().name(),
                    code: refusal.error().0,
                }),
                rule: refusal.rule(),
                rule_numbers: Some(Box::new(RuleNumbers::of(refusal))),
                ..Self::appended("")
            },
        }
    }

    pub(super) fn appended(rule: &'static str) -> Self {
        Self {
            verdict: Verdict::Appended.name(),
            error: None,
            duplicate_of: None,
            rule,
            rule_numbers: None,
        }
    }
}

impl Answer {
    /// What the views make of a batch and no more.
    pub(super) fn new(message: Option<String>, views: Views) -> Self {
        let running = views.running.clone();
        Self {
            verdict: running.verdict,
            error: running.error,
            duplicate_of: running.duplicate_of,
            rule: running.rule,
            rule_numbers: running.rule_numbers,
            message,
            views,
            explained_by: None,
            explanation: None,
            next_sequence: None,
            known_epoch: None,
            stored_at: None,
            log_start_offset: None,
        }
    }
}

/// A refusal in words.
pub(super) fn message(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Appended | Verdict::Duplicate(_) => None,
        Verdict::Rejected(refusal) => Some(refusal.to_string()),
    }
}

/// The rule by which a batch is appended.
#[inline]
pub(super) fn accepting_rule(
    header: &RecordBatchHeader,
    entry: Option<&ProducerStateEntry>,
    origin: AppendOrigin,
) -> &'static str {
    if !header.has_producer_id() {
        return "no-producer-id";
    }
    if header.attributes().is_control() {
        return "marker";
    }
    let Some(entry) = entry else {
        return "unknown-producer";
    };
    if origin != AppendOrigin::Client {
        return "sequence-not-checked";
    }
    if header.producer_epoch() > entry.producer_epoch() || entry.is_empty() {
        return "new-epoch-starts-at-zero";
    }
    "next-in-sequence"
}

/// The next sequence taken from a producer in the epoch known.
pub(super) fn next_sequence(entry: &ProducerStateEntry) -> i32 {
    entry
        .last_batch()
        .map_or(0, |last| increment_sequence(last.last_sequence, 1))
}
