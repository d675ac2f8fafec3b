//! Every transaction of a partition: what it wrote, how it ended, and what an open one holds up.

mod ended;
mod open;
mod row;
mod rows;

use std::sync::Arc;

use rows::Rows;

use super::filter::Filter;
use super::internal_records::UnreadRecords;
use super::partition_state::{StateOptions, log_start_offset, read_snapshot};
use super::transaction_state::TransactionStates;
use super::transactions::{BehindHoles, TransactionFold};
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;

pub use row::{BEHIND_DAMAGE, TxnFinding, TxnRow, TxnState, abort_command_before_kafka_3};

/// A state to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WantedStates {
    /// Open ones.
    pub open: bool,
    /// Committed ones.
    pub committed: bool,
    /// Aborted ones.
    pub aborted: bool,
}

impl WantedStates {
    /// Every state.
    pub const ALL: Self = Self {
        open: true,
        committed: true,
        aborted: true,
    };

    fn wants(self, state: TxnState) -> bool {
        match state {
            TxnState::Open => self.open,
            TxnState::Committed => self.committed,
            TxnState::Aborted => self.aborted,
        }
    }
}

/// What is listed, and how.
#[derive(Clone, Debug, Default)]
pub struct TxnsOptions {
    /// Files, snapshots, end and high watermark. `expiration` counts for nothing here: a producer
    /// with an open transaction does not expire.
    pub state: StateOptions,
    /// By producer, and by any offset and any time of the transaction.
    pub filter: Filter,
    /// By state.
    pub states: WantedStates,
    /// Only those that began before this time, in milliseconds.
    pub started_before_ms: Option<i64>,
    /// The clock that ages are counted by, in milliseconds.
    pub now_ms: Option<i64>,
    /// What the transaction coordinators know.
    pub coordinators: Option<Arc<TransactionStates>>,
    /// Only those whose transactional id begins like this.
    pub transactional_id_prefix: Option<String>,
}

/// A partition's transactions in numbers. Filters do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnsSummary {
    /// Open transactions.
    pub open: u64,
    /// Committed ones with data here.
    pub committed: u64,
    /// Aborted ones with data here.
    pub aborted: u64,
    /// Markers of transactions without data here.
    pub empty: u64,
    /// Those of them that say what the producer's batch before them said.
    pub repeated_markers: u64,
    /// Records in committed transactions.
    pub committed_records: u64,
    /// Records in aborted transactions.
    pub aborted_records: u64,
    /// Longest time from start to marker, in milliseconds.
    pub longest_duration_ms: Option<i64>,
    /// When the open transaction that is longest open was begun, as far as it is known; else
    /// when its producer was last heard of.
    pub oldest_open_timestamp: Option<i64>,
    /// Transactions that a marker seems to be missing in.
    pub missing_markers: u64,
    /// Transactions that count as committed, as their markers are lost with a segment.
    pub lost_markers: u64,
    /// Markers with a lower coordinator epoch than the producer's marker before.
    pub coordinator_epoch_regressions: u64,
    /// First offsets and producers of transactions that the log leaves open and the snapshot does
    /// not know: they do not hold a broker that loads it.
    pub forgotten: Vec<(i64, i64)>,
    /// Whether the next start forgets all open ones
    /// ([`PartitionState::is_forgotten_at_start`](super::partition_state::PartitionState)).
    pub is_forgotten_at_start: bool,
    /// The last stable offset.
    pub last_stable_offset: i64,
    /// The high watermark.
    pub high_watermark: i64,
    /// The offset after the last batch.
    pub log_end_offset: i64,
    /// Batches that would stop a broker which rebuilds its state.
    pub refused: u64,
    /// Segments that vanished meanwhile.
    pub vanished: u64,
    /// What could not be read of the offset commits in open transactions.
    pub unread_offset_commits: Option<UnreadRecords>,
}

/// Hands out the transactions of a partition: those that ended, in the order of their markers,
/// then the open ones by first offset. `None` if the directory has no segment.
///
/// Walks the whole log, on top of the snapshot at the first segment's base if there is one; which
/// transactions are open is as a broker has it that loads the newest snapshot.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn txns_partition<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &TxnsOptions,
    mut emit: impl FnMut(&TxnRow<'_>) -> Result<(), E>,
) -> Result<Option<TxnsSummary>, E> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let files = log_names(dir);
    let log_start_offset = log_start_offset(first.base_offset, checkpoints);
    let mut rows = Rows::new(dir, &files, options, log_start_offset);
    let high_watermark = options.state.high_watermark.or(checkpoints.high_watermark);
    let (fold, is_seeded) = begin(dir, log_start_offset, options.state)?;
    let mut fold = fold.with_high_watermark(high_watermark);
    let mut holes = BehindHoles::new(dir, checkpoints, options.state);
    let log_end_offset = rows.walk(&mut fold, &mut holes, &mut emit)?;
    rows.open_ones(fold, checkpoints, is_seeded, log_end_offset, &mut emit)?;
    Ok(Some(rows.summary))
}

/// The open transactions after the last entry, for whoever has walked the log with a fold that
/// [`begin`] gave: handed out as by [`txns_partition`].
pub(super) fn open_transactions<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &TxnsOptions,
    (fold, is_seeded): (TransactionFold, bool),
    log_end_offset: i64,
    mut emit: impl FnMut(&TxnRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let first_base = dir.segments.first().map_or(0, |first| first.base_offset);
    let files = log_names(dir);
    let log_start_offset = log_start_offset(first_base, checkpoints);
    let mut rows = Rows::new(dir, &files, options, log_start_offset);
    rows.open_ones(fold, checkpoints, is_seeded, log_end_offset, &mut emit)
}

/// The names of the `.log` files, by place of their segments.
fn log_names(dir: &PartitionDir) -> Vec<String> {
    dir.segments
        .iter()
        .map(|segment| {
            dir.file(segment.log)
                .map_or_else(String::new, |it| it.name().into_owned())
        })
        .collect()
}

/// A fold at the beginning of the log, and whether it begins with a snapshot.
pub(super) fn begin(
    dir: &PartitionDir,
    log_start_offset: i64,
    options: StateOptions,
) -> Result<(TransactionFold, bool), Error> {
    let base_offset = dir.segments.first().map_or(0, |first| first.base_offset);
    let is_seeding =
        !options.from_scratch && options.at_offset.is_none_or(|end| end >= base_offset);
    let rows = if is_seeding {
        read_snapshot(dir, options.io, base_offset)?
    } else {
        None
    };
    let (fold, is_seeded) = match rows {
        Some(Ok(rows)) => (TransactionFold::on_top_of(rows, base_offset), true),
        Some(Err(_)) | None => (TransactionFold::from_scratch(log_start_offset), false),
    };
    let bases = dir.segments.iter().map(|segment| segment.base_offset);
    let of_start = bases.take_while(|base| *base <= log_start_offset).last();
    let fold = match of_start.filter(|_| log_start_offset > base_offset) {
        Some(of_start) => fold.starting_at(log_start_offset, of_start),
        None => fold,
    };
    Ok((fold, is_seeded))
}
