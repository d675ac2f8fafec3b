//! What `read_committed` hides: the aborted transactions the log gives, and those the `.txnindex`
//! files hold, row against row.
//!
//! A broker answers a fetch from the `.txnindex` alone and does not look whether the log agrees.

mod comparison;
mod disputed;
mod handing_out;
mod invisible;
mod row;
mod segment;
mod stable_offsets;
mod statistics;
mod unmatched;

use super::partition_state::{StateOptions, log_start_offset};
use super::transactions::BehindHoles;
use super::txns::begin;
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;

pub(super) use comparison::{Comparison, RowPair};
pub use invisible::{AbortedFrom, Invisible, OffsetRun, SegmentShare, invisible};
pub use row::AbortedRow;
pub use statistics::{AbortedResult, AbortedStatistics, aborted_statistics};

/// Which rows a range of offsets selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeRule {
    /// As a fetch: those that reach into the range. Kafka stops at the first row whose last stable
    /// offset is not below the end: no later one can
    /// (`LocalLog.addAbortedTransactions`, `TransactionIndex.collectAbortedTxns`).
    #[default]
    Fetch,
    /// As `UnifiedLog.collectAbortedTransactions`: from the segment that holds the begin on, all
    /// that begin before the end. It holds their markers against the log start, not against the
    /// begin of the range.
    CollectAbortedTransactions,
}

/// What is listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbortedOptions {
    /// Files, snapshots and end.
    pub state: StateOptions,
    /// Only this producer.
    pub producer_id: Option<i64>,
    /// Begin of the range, included.
    pub from_offset: Option<i64>,
    /// End of the range, not included.
    pub to_offset: Option<i64>,
    /// What reaching into the range means.
    pub range_rule: RangeRule,
}

/// A partition's aborted transactions in numbers. Filters do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbortedSummary {
    /// Aborted transactions the batches give.
    pub in_log: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of their data batches.
    pub size_in_bytes: u64,
    /// Whole rows in the `.txnindex` files.
    pub in_index: u64,
    /// Rows that should be in an index and are not.
    pub missing: u64,
    /// Rows that should not be in an index.
    pub surplus: u64,
    /// Rows whose first offset is too high.
    pub starts_late: u64,
    /// Rows whose last stable offset hides the rows behind them.
    pub hiding_others: u64,
    /// Rows cut short, or of a version Kafka does not read.
    pub broken: u64,
    /// Records that were rolled back and are shown.
    pub exposed_records: u64,
    /// Records that were not rolled back and are hidden.
    pub hidden_records: u64,
    /// ABORT markers of transactions without data here: they have no row, by design.
    pub empty: u64,
    /// Bytes of all batches walked.
    pub walked_bytes: u64,
    /// Segments that vanished meanwhile.
    pub vanished: u64,
}

impl AbortedSummary {
    /// Whether the indexes differ from the log in a way that consumers see, or may come to see.
    #[must_use]
    pub fn disagrees(&self) -> bool {
        self.missing + self.surplus + self.starts_late + self.hiding_others + self.broken > 0
    }
}

/// Hands out the aborted transactions of a partition in the order of their markers; `None` if the
/// directory has no segment.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn aborted_partition<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &AbortedOptions,
    mut emit: impl FnMut(&AbortedRow<'_>) -> Result<(), E>,
) -> Result<Option<AbortedSummary>, E> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let log_start_offset = log_start_offset(first.base_offset, checkpoints);
    let (fold, _) = begin(dir, log_start_offset, options.state)?;
    let mut comparison = Comparison::new(dir, options, log_start_offset, fold);
    let mut holes = BehindHoles::new(dir, checkpoints, options.state);
    for (index, segment) in dir.segments.iter().enumerate() {
        if !comparison.segment(index, segment, &mut holes, &mut emit)? {
            break;
        }
    }
    Ok(Some(comparison.summary))
}
