//! One finding, and what it says in words.

use std::fmt::Write;

use serde::Serialize;

use super::witnesses::{Witness, WitnessKind};
use crate::log::last_copies::LostReason;
use crate::state::MissingCause;

/// What kind of irregularity it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapKind {
    /// Sequences that are not in the log.
    Missing,
    /// Records that are in the log twice.
    Repeated,
    /// A batch behind one with later sequences.
    Reordered,
    /// A producer or coordinator epoch below an earlier one.
    EpochRegression,
    /// Offsets that a consumer does not get.
    OffsetGap,
}

impl GapKind {
    /// The word used in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Repeated => "repeated",
            Self::Reordered => "reordered",
            Self::EpochRegression => "epochRegression",
            Self::OffsetGap => "offsetGap",
        }
    }
}

/// The likely cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GapClass {
    /// Below the log start offset: retention or DeleteRecords.
    BeforeLogStart,
    /// The cleaner took records out of a batch.
    CompactedInsideBatch,
    /// The cleaner took out whole batches.
    CompactedBetweenBatches,
    /// The cleaner left a batch without records.
    EmptyBatch,
    /// An end-transaction marker.
    ControlMarker,
    /// Another control record, of KRaft.
    ControlRecord,
    /// Records of an aborted transaction.
    Aborted,
    /// A `.log` is not there, or not all of it is.
    SegmentMissing,
    /// Between two segments, and nothing tells whether a record was ever there.
    OffsetHole,
    /// Behind the end of the log a segment waits for its deletion: a follower that was told to
    /// truncate leaves that for a minute.
    SegmentDeleted,
    /// A segment waits under the name `.log.swap` for the next start, which puts it into place.
    SegmentInSwap,
    /// Records that are here, and that the next start deletes for a `.swap` without them.
    SwapLoss,
    /// Records that are here, and that the next start deletes, as the log start lies behind the
    /// log end.
    LogStartPastEnd,
    /// Bytes that are no batch, by the kind of damage, or a damaged batch.
    Damage(&'static str),
    /// A leader that knew the producer would have refused what follows: its state had expired or
    /// was lost, or the batch came through replication.
    ExpiredOrLostState,
    /// The log begins with its first offset and does not have it.
    NeverStored,
    /// The client went on under a new epoch: it gave up a request, here or in another partition.
    EpochRaised,
    /// The same producer, epoch and sequences at two places.
    DuplicateSequence,
    /// Some of the sequences are at another place too, in batches of another shape.
    OverlappingSequences,
    /// The same records of a producer under two epochs.
    StoredAgainUnderNewEpoch,
    /// Sequences that were missing come later.
    OutOfOrderSequence,
    /// Offsets at or below those of the batch before.
    OffsetsNotIncreasing,
    /// The coordinator epoch of a marker is below that of the marker before.
    CoordinatorEpochRegression,
}

impl GapClass {
    /// A batch with a wrong checksum, where believing its header would mislead.
    pub(super) const BAD_CRC: Self = Self::Damage("bad-crc");

    /// The word used in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeLogStart => "before-log-start",
            Self::CompactedInsideBatch => "compacted-inside-batch",
            Self::CompactedBetweenBatches => "compacted-between-batches",
            Self::EmptyBatch => "empty-batch",
            Self::ControlMarker => "control-marker",
            Self::ControlRecord => "control-record",
            Self::Aborted => "aborted",
            Self::SegmentMissing => "segment-missing",
            Self::OffsetHole => "offset-hole",
            Self::SegmentDeleted => "segment-deleted",
            Self::SegmentInSwap => "segment-in-swap",
            Self::SwapLoss => "swap-loss",
            Self::LogStartPastEnd => "log-start-past-end",
            Self::Damage(kind) => kind,
            Self::ExpiredOrLostState => "expired-or-lost-state",
            Self::NeverStored => "never-stored",
            Self::EpochRaised => "epoch-raised",
            Self::DuplicateSequence => "duplicate-sequence",
            Self::OverlappingSequences => "overlapping-sequences",
            Self::StoredAgainUnderNewEpoch => "stored-again-under-new-epoch",
            Self::OutOfOrderSequence => "out-of-order-sequence",
            Self::OffsetsNotIncreasing => "offsets-not-increasing",
            Self::CoordinatorEpochRegression => "coordinator-epoch-regression",
        }
    }

    /// Whether records are gone that nobody meant to remove, or will be once a start has put the
    /// `.swap` files into place. What lies before the log start, and what the cleaner or an abort
    /// took, is gone on purpose.
    #[must_use]
    pub fn is_loss(self) -> bool {
        match self {
            Self::SegmentMissing
            | Self::SwapLoss
            | Self::LogStartPastEnd
            | Self::Damage(_)
            | Self::ExpiredOrLostState
            | Self::NeverStored => true,
            Self::BeforeLogStart
            | Self::CompactedInsideBatch
            | Self::CompactedBetweenBatches
            | Self::EmptyBatch
            | Self::ControlMarker
            | Self::ControlRecord
            | Self::OffsetHole
            | Self::SegmentDeleted
            | Self::SegmentInSwap
            | Self::Aborted
            | Self::EpochRaised
            | Self::DuplicateSequence
            | Self::OverlappingSequences
            | Self::StoredAgainUnderNewEpoch
            | Self::OutOfOrderSequence
            | Self::OffsetsNotIncreasing
            | Self::CoordinatorEpochRegression => false,
        }
    }

    /// Whether it is bytes that are no batch.
    pub(super) fn is_damage(self) -> bool {
        matches!(self, Self::Damage(_))
    }

    pub(super) fn of_missing(cause: MissingCause) -> Self {
        match cause {
            MissingCause::Compacted => Self::CompactedBetweenBatches,
            MissingCause::Lost => Self::SegmentMissing,
            MissingCause::BeforeLogStart => Self::BeforeLogStart,
            MissingCause::NeverStored => Self::NeverStored,
            MissingCause::ExpiredOrLostState => Self::ExpiredOrLostState,
        }
    }
}

/// A range of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OffsetRange {
    /// First offset.
    pub first_offset: i64,
    /// Last offset.
    pub last_offset: i64,
}

/// What some kinds of findings have to say beside the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// Where the records are for the first time.
    DuplicateOf {
        /// The earlier batch.
        earlier: OffsetRange,
        /// How many batches of the producer back.
        batches_apart: Option<u64>,
        /// Whether a broker that never stopped still remembered the earlier one.
        is_inside_window: Option<bool>,
    },
    /// A batch that begins at or below the end of the one before it.
    Overlap {
        /// Position of the batch before it.
        previous_position: u64,
        /// Last offset of the batch before it.
        previous_last_offset: i64,
        /// Whether the batches at the same offsets are the same; `None` if not compared.
        is_equal: Option<bool>,
    },
    /// The file that tells of records which are in no `.log`.
    ToldBy(Witness),
    /// The checkpointed high watermark, at or below the offsets: no client of `acks=all` was told
    /// that they are stored.
    AboveHighWatermark(i64),
    /// What a start does with the records.
    ReplacedBy {
        /// The `.log.swap` that it puts in their place.
        swap: Witness,
        /// Why they are lost then.
        reason: LostReason,
    },
    /// The epoch that the client left, with nothing of it stored from the first sequence on, and
    /// the one it went on under.
    LeftOff {
        /// The one it left.
        previous: i32,
        /// The one it went on under.
        found: i32,
    },
    /// An epoch and the one before it.
    Epochs {
        /// The one before.
        previous: i32,
        /// The epoch.
        found: i32,
    },
}

/// One finding of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind.
    pub kind: GapKind,
    /// The likely cause.
    pub class: GapClass,
    /// Producer id and epoch of the batch, where one is concerned.
    pub producer: Option<(i64, i16)>,
    /// First and last sequence: the missing ones, or those of the batch.
    pub sequences: Option<(i32, i32)>,
    /// First offset: of the gap, or of the batch.
    pub first_offset: Option<i64>,
    /// Last offset.
    pub last_offset: Option<i64>,
    /// Place of the segment in the directory; `None` where no file is concerned.
    pub segment: Option<usize>,
    /// Byte position in that segment.
    pub position: Option<u64>,
    /// Largest timestamp of the batch, where one is concerned.
    pub timestamp: Option<i64>,
    /// How many records are missing, where that is known.
    pub records: Option<u64>,
    /// The rest.
    pub detail: Detail,
}

impl Finding {
    /// Whether records are gone that nobody meant to remove, or will be at the next start.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self.kind {
            GapKind::Missing | GapKind::OffsetGap => self.class.is_loss(),
            GapKind::Repeated | GapKind::Reordered | GapKind::EpochRegression => false,
        }
    }

    /// Whether it sets the exit status: records are gone, or there twice.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        self.is_loss() || self.kind == GapKind::Repeated
    }

    /// Last sequence: missing, or of the batch; `None` where all from the first on were never
    /// stored, or no sequences are concerned.
    #[must_use]
    pub fn last_sequence(&self) -> Option<i32> {
        match (self.detail, self.sequences) {
            (Detail::LeftOff { .. }, _) | (_, None) => None,
            (_, Some((_, last))) => Some(last),
        }
    }

    /// The finding in words, without offsets, producer and sequences.
    #[must_use]
    pub fn message(&self) -> String {
        let mut text = self.what().to_owned();
        match self.detail {
            Detail::None => {}
            Detail::DuplicateOf {
                earlier,
                batches_apart,
                is_inside_window,
            } => {
                let range = range(earlier.first_offset, earlier.last_offset);
                let _ = write!(text, " at {range}");
                if let Some(apart) = batches_apart {
                    let es = if apart == 1 { "" } else { "es" };
                    let _ = write!(text, ", {apart} batch{es} back");
                }
                match is_inside_window {
                    Some(true) => text.push_str(", in the window of 5"),
                    Some(false) => text.push_str(", not in the window of 5"),
                    None => {}
                }
            }
            Detail::Overlap {
                previous_position,
                previous_last_offset,
                is_equal,
            } => {
                let _ = write!(
                    text,
                    " {previous_last_offset}, which ends the batch @ {previous_position}; "
                );
                text.push_str(match is_equal {
                    Some(true) => "equal content",
                    Some(false) => "other content",
                    None => "content not compared",
                });
            }
            Detail::LeftOff { previous, found } | Detail::Epochs { previous, found } => {
                let _ = write!(text, " from {previous} to {found}");
            }
            Detail::AboveHighWatermark(at) => {
                let _ = write!(text, "; not acknowledged: the high watermark is {at}");
            }
            Detail::ReplacedBy { swap, reason } => {
                let _ = write!(text, " {swap}: {reason}");
            }
            Detail::ToldBy(witness) => {
                let _ = match witness.kind {
                    WitnessKind::DeletedLog | WitnessKind::CleanedLog | WitnessKind::LogSwap => {
                        write!(text, "; it is here as {witness}")
                    }
                    WitnessKind::OffsetIndex
                    | WitnessKind::TimeIndex
                    | WitnessKind::TransactionIndex
                    | WitnessKind::ProducerSnapshot
                    | WitnessKind::LeaderEpochs
                    | WitnessKind::HighWatermark
                    | WitnessKind::LogStart => write!(text, "; known from {witness}"),
                };
            }
        }
        text
    }

    fn what(&self) -> &'static str {
        match (self.kind, self.class) {
            (GapKind::OffsetGap, GapClass::SegmentMissing) if self.segment.is_some() => {
                "in this .log once, and gone"
            }
            (GapKind::OffsetGap, GapClass::Damage("torn-tail"))
                if matches!(self.detail, Detail::ToldBy(_)) =>
            {
                "torn here, and what came behind it gone"
            }
            (GapKind::EpochRegression, GapClass::CoordinatorEpochRegression) => {
                "coordinator epoch goes back"
            }
            (GapKind::EpochRegression, _) => "producer epoch goes back",
            (_, GapClass::EpochRaised) if self.last_sequence().is_none() => {
                "nothing from there on stored: client gave up a request, epoch"
            }
            (GapKind::Missing, GapClass::NeverStored) => "never stored, though the log begins at 0",
            (GapKind::Missing, GapClass::ExpiredOrLostState) => {
                "never stored; leader's state expired or lost"
            }
            (GapKind::Missing, GapClass::BeforeLogStart) => "before the log start",
            (GapKind::Missing, GapClass::SegmentInSwap) => {
                "back with its segment at the next start"
            }
            (GapKind::Missing, GapClass::SegmentMissing) => {
                "lost with the offsets that are missing"
            }
            (_, class) => class.what(),
        }
    }
}

impl GapClass {
    fn what(self) -> &'static str {
        match self {
            Self::BeforeLogStart => "before the log start",
            Self::CompactedInsideBatch => "records compacted away inside the batch",
            Self::CompactedBetweenBatches => "batches compacted away",
            Self::EmptyBatch => "batch without records, kept by the cleaner",
            Self::ControlMarker => "end-transaction marker",
            Self::ControlRecord => "control record",
            Self::Aborted => "records of an aborted transaction",
            Self::SegmentMissing => "a segment is missing here",
            Self::OffsetHole => "in no .log, and no producer misses anything there",
            Self::SegmentDeleted => "truncated, or renamed by hand",
            Self::SegmentInSwap => "back at the next start",
            Self::SwapLoss => "still here; the next start deletes it for",
            Self::LogStartPastEnd => {
                "still here, and below the log start; the next start deletes it"
            }
            Self::Damage("zero-tail") => "zeros in place of batches",
            Self::Damage("torn-tail") => "the .log ends in a torn batch",
            Self::BAD_CRC => "damaged batch: its checksum is wrong; kseg verify tells more",
            Self::Damage(_) => "damaged bytes; kseg dump shows them",
            Self::ExpiredOrLostState => "the leader had no state of the producer",
            Self::NeverStored => "never stored",
            Self::EpochRaised => "never stored: client gave up a request, epoch",
            Self::DuplicateSequence => "also",
            Self::OverlappingSequences => "sequences also in the batch",
            Self::StoredAgainUnderNewEpoch => "same records under an older epoch",
            Self::OutOfOrderSequence => "behind later sequences; fills a gap",
            Self::OffsetsNotIncreasing => "offsets go back below",
            Self::CoordinatorEpochRegression => "coordinator epoch goes back",
        }
    }
}

/// `offsets 40..42`, or `offset 40`.
#[must_use]
pub fn offset_range(first: i64, last: i64) -> String {
    let s = if first == last { "" } else { "s" };
    format!("offset{s} {}", range(first, last))
}

/// `40..42`, or `40` alone.
#[must_use]
pub fn range<T: PartialEq + std::fmt::Display>(first: T, last: T) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}..{last}")
    }
}
