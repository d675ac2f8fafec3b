//! What comes of a start, as a row that serialises.

use serde::Serialize;

use super::gone::GoneOffsets;
use super::known::{AbortedList, LeaderEpoch};
use crate::log::broker_start::{StartObstacle, cause};
use crate::log::offset_ranges::OffsetRanges;
use crate::log::overlay::Change;
use crate::log::strays::Stray;
use crate::state::KnownProducer;

/// How a broker starts: by `.kafka_cleanshutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// The file is there: nothing is recovered.
    Clean,
    /// It is not: what may not be on the disk is read again.
    Unclean,
}

impl Start {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Unclean => "unclean",
        }
    }
}

/// What a start would make of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecoverRow {
    /// Path of the directory.
    pub path: String,
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// `live`, `delete`, `future` or `stray`, as the directory's name says.
    pub status: Option<&'static str>,
    /// Which start this is.
    pub start: Start,
    /// Whether it is the one this directory would get.
    pub applies: bool,
    /// Whether the partition comes up.
    pub loads: bool,
    /// Why it does not.
    pub error: Option<LoadFailure>,
    /// What lies beside the partition and keeps its broker from starting, or takes its log
    /// directory offline. All else in this row is what loading would come to without that.
    pub broker_error: Option<StartObstacle>,
    /// Why the broker takes the directory for a stray, renames it to `...-stray` at the end of this
    /// start and serves none of it; null if it does not, or if that cannot be told.
    pub stray: Option<Stray>,
    /// The copy in another log directory that is put into use at the end of this start, as the
    /// metadata has the replica there, whereupon this directory is deleted; null if there is none,
    /// or if that cannot be told.
    pub replaced_by: Option<String>,
    /// Whether this is such a copy.
    pub takes_over: bool,
    /// Whether records are gone afterwards that are in the files now, and in no others of them.
    pub loses_data: bool,
    /// Whether the broker forgets producers or open transactions that it can know of now.
    pub loses_producer_state: bool,
    /// What is lost.
    pub losses: Losses,
    /// Acknowledged offsets that are gone before the start and lie below its log end; null if they
    /// were not looked for, or not all files could be read.
    pub gone: Option<GoneOffsets>,
    /// Bytes at the end of the active segment that are no whole batch and stay there: what is
    /// written next lies behind them, and nobody can read it.
    pub torn_tail_bytes: u64,
    /// First offset a consumer can read; null if the partition does not come up.
    pub log_start_offset: Option<i64>,
    /// The next offset that is given out.
    pub log_end_offset: Option<i64>,
    /// Where read_uncommitted stops once the leader has raised the high watermark to the log end:
    /// at once if it is the only replica in sync, else when the others have caught up.
    pub high_watermark: Option<i64>,
    /// Where read_committed stops then.
    pub last_stable_offset: Option<i64>,
    /// The high watermark until then: the checkpointed one, within the log; null without one.
    pub high_watermark_at_start: Option<i64>,
    /// Where read_committed stops until then; null without a checkpointed high watermark.
    pub last_stable_offset_at_start: Option<i64>,
    /// The recovery point after loading.
    pub recovery_point: Option<i64>,
    /// From `recovery-point-offset-checkpoint`; null if it is not in there, which counts as 0.
    pub recovery_point_checkpoint: Option<i64>,
    /// From `log-start-offset-checkpoint`; null if it is not in there, which counts as 0.
    pub log_start_offset_checkpoint: Option<i64>,
    /// Every file removed, renamed, cut, made, or given other bytes.
    pub actions: Vec<Action>,
    /// Names of `.index` and `.timeindex` files whose entries change.
    pub indexes_rewritten: Vec<String>,
    /// The segments afterwards.
    pub segments: Vec<Segment>,
    /// The segments that are read batch by batch.
    pub segments_recovered: Vec<RecoveredSegmentRow>,
    /// The snapshot from which the state of producers is built first; null if there is none.
    pub snapshot_offset: Option<i64>,
    /// Snapshots that are not readable, and are deleted.
    pub snapshots_corrupt: Vec<i64>,
    /// The producers the broker knows afterwards, by id.
    pub producers: Vec<KnownProducer>,
    /// Aborted transactions by the `.txnindex` files afterwards.
    pub aborted_transactions: AbortedList,
    /// Leader epochs afterwards.
    pub leader_epochs: Vec<LeaderEpoch>,
    /// Bytes of batches that are read.
    pub bytes_to_read: u64,
    /// What they are read for.
    pub work: Work,
    /// The files when the start is over, before what is deleted later is gone; the active
    /// segment's indexes at full size.
    pub files_after_start: Vec<FileSize>,
    /// What an operator should know.
    pub warnings: Vec<String>,
    /// Whether it is a stray that was in use and has data; the warnings say so.
    #[serde(skip)]
    pub is_stray: bool,
    /// Offsets of the parts of segments that are lost, with what was compacted away between them.
    #[serde(skip)]
    pub lost_spans: OffsetRanges,
}

/// Why a partition does not come up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoadFailure {
    /// Simple name of Kafka's exception; `none` where loading waits and comes to no end.
    pub exception: &'static str,
    /// Whether the whole broker does not start, and not only the log directory goes offline.
    pub stops_broker: bool,
    /// What is wrong.
    pub message: String,
}

impl LoadFailure {
    /// What keeps it from coming up, in a word.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        cause(self.exception)
    }
}

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// Name of the file.
    pub file: String,
    /// Its new size where it is cut, else null.
    pub position: Option<u64>,
    /// Why.
    pub reason: String,
    /// Its new name where it is renamed, else null.
    pub to: Option<String>,
    /// Its size afterwards where it is made or rewritten, without room set aside; else null.
    #[serde(rename = "sizeInBytes")]
    pub size_in_bytes: Option<u64>,
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// It is removed, at once or under the suffix `.deleted` a while later.
    Remove,
    /// It gets another name.
    Rename,
    /// It becomes shorter.
    Cut,
    /// It was not there.
    Make,
    /// It gets other bytes.
    Rewrite,
}

impl ActionKind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Cut => "cut",
            Self::Make => "make",
            Self::Rewrite => "rewrite",
        }
    }
}

impl Action {
    pub(super) fn new(file: String, change: Change, reason: String) -> Self {
        let (kind, position, to, size_in_bytes) = match change {
            Change::Removed => (ActionKind::Remove, None, None, None),
            Change::Renamed { to } => {
                let to = to.to_string_lossy().into_owned();
                (ActionKind::Rename, None, Some(to), None)
            }
            Change::Cut { size_in_bytes } => (ActionKind::Cut, Some(size_in_bytes), None, None),
            Change::Made { size_in_bytes } => (ActionKind::Make, None, None, Some(size_in_bytes)),
            Change::Rewritten { size_in_bytes } => {
                (ActionKind::Rewrite, None, None, Some(size_in_bytes))
            }
        };
        Self {
            kind,
            file,
            position,
            reason,
            to,
            size_in_bytes,
        }
    }
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Segment {
    /// Base offset.
    pub base_offset: i64,
    /// Bytes of its `.log`.
    pub size_in_bytes: u64,
}

/// A segment that is read batch by batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecoveredSegmentRow {
    /// Name of its `.log`.
    pub file: String,
    /// Bytes of it before.
    pub size_in_bytes: u64,
    /// Bytes that are cut off.
    pub truncated_bytes: u64,
    /// Why it is read.
    pub reason: &'static str,
}

/// A file with its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FileSize {
    /// Its name.
    pub file: String,
    /// Its size.
    pub size_in_bytes: u64,
}

/// What the bytes are read for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Work {
    /// Segments that are recovered, checksums included.
    pub recovered_bytes: u64,
    /// Batches whose headers are read to build the state of producers.
    pub replayed_bytes: u64,
    /// Batches behind the last index entry whose headers are read to find the log end, where the
    /// segment was not recovered.
    pub tail_bytes: u64,
}

/// What a start loses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Losses {
    /// Batches with a right checksum that are cut off, deleted, or left above the log end.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Offset of the first of them.
    pub first_offset: Option<i64>,
    /// Offset of the last of them.
    pub last_offset: Option<i64>,
    /// Whole batches with a wrong checksum that go with them.
    pub corrupt_batches: u64,
    /// Bytes that are no whole batch and go with them.
    pub other_bytes: u64,
    /// Producers the broker could know of and forgets.
    pub producers: Vec<i64>,
    /// Of those, the ones that are too old by the clock.
    pub expired_producers: Vec<i64>,
    /// Of those, the ones with an open transaction.
    pub open_transactions: Vec<i64>,
    /// Transactions that had ended, and are open as their markers are cut off.
    pub left_open: Vec<LeftOpen>,
    /// First offset below the checkpointed high watermark that the log does not reach any more.
    pub acknowledged_from: Option<i64>,
    /// Last of them.
    pub acknowledged_to: Option<i64>,
}

/// A transaction that had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeftOpen {
    /// Whose transaction.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: Option<i16>,
    /// Offset of its first batch.
    pub first_offset: i64,
}

impl RecoverRow {
    /// Whether records are lost by this start or by what is written after it, or ones that had been
    /// acknowledged are not there any more.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        self.is_lost_by_start() || self.is_gone()
    }

    /// The same without what is gone before the start, below its log end.
    #[must_use]
    pub fn is_lost_by_start(&self) -> bool {
        !self.loads
            || self.loses_data
            || self.torn_tail_bytes > 0
            || self.is_stray
            || self.losses.acknowledged_from.is_some()
    }
}
