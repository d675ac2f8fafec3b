//! The side files of a partition made again from its `.log` files, as Kafka's recovery makes them
//! when a broker starts unclean from recovery point 0 (`LogLoader.recoverLog`,
//! `LogSegment.recover`).
//!
//! Makes contents and writes nothing: where they go is the caller's. Segment by segment the state
//! before it is loaded from the snapshot the segment before it ended with, so the order of entries
//! is Kafka's too; then every batch is checked and taken in. At the first one that recovery would
//! cut off, the log ends.

mod recovered_log;
mod recovery;
mod row;
mod segment;

use serde::Serialize;

use recovered_log::RecoveredLog;
use recovery::Recovery;

use super::partition_state::log_start_offset;
use crate::format::file_name::LogFileKind;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::state::Expiration;

pub use row::{RebuildRow, rebuild_rows};

/// The kinds of side files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SideFileKind {
    /// `.index`.
    Index,
    /// `.timeindex`.
    TimeIndex,
    /// `.txnindex`.
    TxnIndex,
    /// `.snapshot`.
    Snapshot,
}

impl SideFileKind {
    /// All of them, in the order in which a segment's are made.
    pub const ALL: [Self; 4] = [Self::Index, Self::TimeIndex, Self::TxnIndex, Self::Snapshot];

    /// The name of such a file.
    #[must_use]
    pub fn file_name(self, offset: i64) -> String {
        let kind = match self {
            Self::Index => LogFileKind::OffsetIndex(offset),
            Self::TimeIndex => LogFileKind::TimeIndex(offset),
            Self::TxnIndex => LogFileKind::TransactionIndex(offset),
            Self::Snapshot => LogFileKind::ProducerSnapshot(offset),
        };
        kind.to_string()
    }
}

/// Which snapshots are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotsAt {
    /// At the base offset of each segment above the log start, and at the log end: those that a
    /// broker has after recovery and a clean stop.
    BasesAndEnd,
    /// At the base offsets alone.
    Bases,
    /// At the log end alone.
    End,
    /// One, of the state after all batches below this offset.
    Offset(i64),
}

/// What is made, and how.
#[derive(Clone, Copy, Debug)]
pub struct RebuildOptions {
    /// How files are read.
    pub io: Io,
    /// Whether a snapshot at the beginning of the log is left alone, which tells of producers whose
    /// batches are gone.
    pub from_scratch: bool,
    /// Leave out producers of a snapshot that are too old by this clock; without it none is.
    pub expiration: Option<Expiration>,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// Which snapshots are made.
    pub snapshots_at: SnapshotsAt,
}

/// A file as it should be.
#[derive(Clone, Copy, Debug)]
pub struct RebuiltFile<'a> {
    /// What it is.
    pub kind: SideFileKind,
    /// The offset its name has.
    pub offset: i64,
    /// Its content.
    pub bytes: &'a [u8],
    /// How many rows it holds.
    pub rows: u64,
}

/// Where recovery ends the log before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// `bad-crc`, `torn-tail` and the other kinds of damage, `unreadable-marker`,
    /// `offset-overflow`, `index-order`, or `refused-batch`.
    pub kind: &'static str,
    /// The `.log`.
    pub file: String,
    /// Where the bytes begin that recovery does not keep.
    pub position: u64,
    /// Base offset of the batch there; null if it cannot be read.
    pub offset: Option<i64>,
    /// What is wrong with it.
    pub message: String,
}

/// How far the log of a partition reached.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// Where the log starts.
    pub log_start_offset: i64,
    /// The offset after the last batch that recovery keeps.
    pub log_end_offset: i64,
    /// Where it stopped; `None` if it came to the end of the log.
    pub stop: Option<Stop>,
    /// Segments that vanished while the partition was read.
    pub vanished: Vec<i64>,
}

/// Makes the side files of a partition and gives them to `file`, each kind in the order of
/// offsets; `None` if the directory has no segment.
///
/// # Errors
/// If a file cannot be read, or `file` fails.
pub fn rebuild<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: RebuildOptions,
    file: impl FnMut(RebuiltFile<'_>) -> Result<(), E>,
) -> Result<Option<Rebuilt>, E> {
    dir.unless_cut(recover_log(dir, checkpoints, options, file))
}

fn recover_log<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: RebuildOptions,
    file: impl FnMut(RebuiltFile<'_>) -> Result<(), E>,
) -> Result<Option<Rebuilt>, E> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let mut recovery = Recovery {
        log: RecoveredLog::new(dir, options),
        checkpointed_log_start: checkpoints.log_start_offset.unwrap_or(0),
        log_start_offset: log_start_offset(first.base_offset, checkpoints),
        log_end_offset: first.base_offset,
        options,
        has_more: false,
        last_state: None,
        stop: None,
        vanished: Vec::new(),
        give: file,
    };
    for segment in &dir.segments {
        let wanted = match options.snapshots_at {
            SnapshotsAt::Offset(offset) => segment == first || segment.base_offset < offset,
            SnapshotsAt::BasesAndEnd | SnapshotsAt::Bases | SnapshotsAt::End => true,
        };
        if !wanted || recovery.segment(segment)?.is_break() {
            break;
        }
    }
    recovery.finish().map(Some)
}
