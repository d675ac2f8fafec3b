//! The aborted transactions of a partition in numbers.

use serde::Serialize;

use super::invisible::{AbortedFrom, OffsetRun, SegmentShare, invisible};
use super::row::AbortedRow;
use super::{AbortedOptions, AbortedSummary, aborted_partition};
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::report::partition_state::StateOptions;

/// One row of `aborted`: an aborted transaction, or what was asked for in its place.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum AbortedResult<'a> {
    /// An aborted transaction.
    AbortedTransaction(&'a AbortedRow<'a>),
    /// A partition in numbers (`--stats`).
    Statistics(&'a AbortedStatistics),
}

/// A partition's aborted transactions in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AbortedStatistics {
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Aborted transactions the batches give.
    pub in_log: u64,
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
    /// Records in aborted transactions.
    pub records: u64,
    /// Records that were rolled back and that consumers see.
    pub exposed_records: u64,
    /// Records that were not rolled back and that consumers do not see.
    pub hidden_records: u64,
    /// ABORT markers of transactions without data here.
    pub markers_without_data: u64,
    /// The longest run of offsets of which no `read_committed` consumer sees a record; null if
    /// every batch has one.
    pub longest_invisible_run: Option<OffsetRun>,
    /// How much of each segment with something in it is aborted data.
    pub segments: Vec<SegmentShare>,
    /// Counts of the comparison; for whoever adds partitions up.
    #[serde(skip)]
    pub summary: AbortedSummary,
}

/// Counts the aborted transactions of a partition; `None` if the directory has no segment. Reads
/// the log twice.
///
/// # Errors
/// If a file cannot be read.
pub fn aborted_statistics(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    state: StateOptions,
) -> Result<Option<AbortedStatistics>, Error> {
    let options = AbortedOptions {
        state,
        ..AbortedOptions::default()
    };
    let (mut in_index, mut in_log) = (Vec::new(), Vec::new());
    let summary = aborted_partition(dir, checkpoints, &options, |row| {
        let producer_id = row.producer_id.unwrap_or_default();
        let from = |first_offset| AbortedFrom {
            first_offset,
            producer_id,
        };
        let known = row.first_offset.filter(|_| row.in_index).map(from);
        // What is in the index twice hides no more than once.
        in_index.extend(known.filter(|known| in_index.last() != Some(known)));
        in_log.extend(row.log_first_offset.map(from));
        Ok::<_, Error>(())
    })?;
    let Some(summary) = summary else {
        return Ok(None);
    };
    let found = invisible(dir, checkpoints, state.io, in_index, in_log)?;
    Ok(Some(AbortedStatistics {
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        in_log: summary.in_log,
        in_index: summary.in_index,
        missing: summary.missing,
        surplus: summary.surplus,
        starts_late: summary.starts_late,
        hiding_others: summary.hiding_others,
        broken: summary.broken,
        records: summary.records,
        exposed_records: summary.exposed_records,
        hidden_records: summary.hidden_records,
        markers_without_data: summary.empty,
        longest_invisible_run: found.longest_run,
        segments: found.segments,
        summary,
    }))
}
