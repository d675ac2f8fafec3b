//! The records a consumer gets from a partition, in order.
//!
//! The consumer is Kafka's own: it begins at the log start, takes fetches of 1 MiB from one
//! segment at a time, drops what the fetch's list of aborted transactions tells it to, drops
//! control records, and stops at the last stable offset or the high watermark. Decides
//! `CompletedFetch` in the client and `UnifiedLog.read`, `LocalLog.addAbortedTransactions` in the
//! broker.

mod aborted;
mod counts;
mod run;

use serde::Serialize;

use super::content::{BytesForm, Content, HeadersRow};
use super::filter::Filter;
use super::partition_state::{StateOptions, stable_partition_state};
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::records::DEFAULT_MAX_BATCH_BYTES;

pub use counts::{DisagreementKind, IndexDisagreement, ReadCounts};

/// What a consumer is shown of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Nothing of aborted transactions, and nothing behind an open one.
    #[default]
    ReadCommitted,
    /// Everything below the high watermark.
    ReadUncommitted,
}

impl IsolationLevel {
    /// Kafka's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read_committed",
            Self::ReadUncommitted => "read_uncommitted",
        }
    }
}

/// Where the aborted transactions come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AbortedFrom {
    /// The `.txnindex` files, as a broker does.
    #[default]
    Index,
    /// The markers in the log: what the index files should say.
    Log,
}

/// How a partition is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// How the last stable offset and the high watermark are found, and how files are read.
    pub state: StateOptions,
    /// What is shown of transactions.
    pub isolation_level: IsolationLevel,
    /// Where the aborted transactions come from.
    pub aborted_from: AbortedFrom,
    /// Which records are wanted.
    pub filter: Filter,
    /// Go on to the log end, for all counts; else reading ends with the last record.
    pub count: bool,
    /// Show sizes in place of values.
    pub keys_only: bool,
    /// How bytes that are no text are shown.
    pub bytes_form: BytesForm,
    /// The most bytes a batch may unpack to.
    pub max_batch_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            state: StateOptions::default(),
            isolation_level: IsolationLevel::default(),
            aborted_from: AbortedFrom::default(),
            filter: Filter::default(),
            count: false,
            keys_only: false,
            bytes_form: BytesForm::default(),
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
        }
    }
}

/// One record.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadRow<'a> {
    /// Topic, as the directory's name says.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// The offset.
    pub offset: i64,
    /// Milliseconds; null if there is none.
    pub timestamp: Option<i64>,
    /// `CreateTime`, `LogAppendTime` or `NoTimestampType` (magic 0).
    pub timestamp_type: &'static str,
    /// The key.
    pub key: Content<'a>,
    /// The value; null as well with `--keys-only`.
    pub value: Content<'a>,
    /// Bytes of the value; null if the value is.
    pub value_size: Option<u64>,
    /// The headers; their values are null as well with `--keys-only`.
    pub headers: HeadersRow<'a>,
    /// Producer id; null if the record has none.
    pub producer_id: Option<i64>,
    /// Producer epoch; null if the record has none.
    pub producer_epoch: Option<i16>,
}

/// What `--count` says of a partition.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadCountRow {
    /// Path of the directory.
    pub path: String,
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Where the read stops and why, and what else is known of offsets.
    #[serde(flatten)]
    pub bounds: ReadBounds,
    /// The counts.
    #[serde(flatten)]
    pub counts: ReadCounts,
    /// The offset the consumer cannot pass; null if it reads to the end.
    pub stopped_at: Option<i64>,
}

/// From where to where a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadBounds {
    /// `read_committed` or `read_uncommitted`.
    pub isolation_level: &'static str,
    /// The first offset that is read.
    pub start_offset: i64,
    /// The offset the read ends before: last stable offset or high watermark.
    pub end_offset: i64,
    /// First offset a consumer can read.
    pub log_start_offset: i64,
    /// Where read_committed stops.
    pub last_stable_offset: i64,
    /// Where read_uncommitted stops.
    pub high_watermark: i64,
    /// `checkpoint` (may be stale), `given`, or `assumed` to be the log end.
    pub high_watermark_source: &'static str,
    /// The offset after the last batch.
    pub log_end_offset: i64,
}

/// One result of `read`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ReadResult<'a> {
    /// A record.
    Record(Box<ReadRow<'a>>),
    /// With `--count`, a partition.
    Count(Box<ReadCountRow>),
}

/// A batch that a consumer cannot pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBatch {
    /// The offset the consumer stands at.
    pub offset: i64,
    /// The `.log`.
    pub file: String,
    /// Byte position of the batch.
    pub position: u64,
    /// What is wrong with it.
    pub message: String,
    /// Where the next readable batch begins, if there is one.
    pub next_offset: Option<i64>,
}

/// How a read went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadSummary {
    /// What was read and what was not shown.
    pub counts: ReadCounts,
    /// The batch that ended the read, if one did.
    pub stopped: Option<BadBatch>,
    /// Where the transaction index and the log differ, the first ones.
    pub disagreements: Vec<IndexDisagreement>,
    /// How many more there are.
    pub more_disagreements: u64,
    /// Segments that vanished after the directory was listed.
    pub vanished_segments: usize,
}

/// A partition about to be read.
#[derive(Debug)]
pub struct PartitionReader<'d> {
    dir: &'d PartitionDir,
    options: &'d ReadOptions,
    bounds: ReadBounds,
}

impl<'d> PartitionReader<'d> {
    /// Finds out from where to where to read; `None` if the directory has no segment.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn open(
        dir: &'d PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: &'d ReadOptions,
    ) -> Result<Option<Self>, Error> {
        let Some(state) = stable_partition_state(dir, checkpoints, options.state)? else {
            return Ok(None);
        };
        let last_stable_offset = state.offsets.last_stable_offset();
        let high_watermark = state.offsets.high_watermark();
        let log_start_offset = state.log_start_offset;
        let bounds = ReadBounds {
            isolation_level: options.isolation_level.name(),
            start_offset: options
                .filter
                .from_offset
                .map_or(log_start_offset, |from| from.max(log_start_offset)),
            end_offset: match options.isolation_level {
                IsolationLevel::ReadCommitted => last_stable_offset,
                IsolationLevel::ReadUncommitted => high_watermark,
            },
            log_start_offset,
            last_stable_offset,
            high_watermark,
            high_watermark_source: state.high_watermark_source.name(),
            log_end_offset: state.log_end_offset,
        };
        Ok(Some(Self {
            dir,
            options,
            bounds,
        }))
    }

    /// Whether the read takes what is aborted from the indexes of all of the log, and so depends on
    /// every row of them: those that this consumer does not notice another one does, whose fetches
    /// begin elsewhere.
    #[must_use]
    pub fn depends_on_all_rows(&self) -> bool {
        let ReadOptions {
            isolation_level,
            aborted_from,
            filter,
            ..
        } = self.options;
        *isolation_level == IsolationLevel::ReadCommitted
            && *aborted_from == AbortedFrom::Index
            && (filter.from_offset, filter.to_offset) == (None, None)
            && (filter.from_time_ms, filter.to_time_ms) == (None, None)
    }

    /// From where to where.
    #[must_use]
    pub fn bounds(&self) -> ReadBounds {
        self.bounds
    }

    /// Hands out the records.
    ///
    /// # Errors
    /// If a file cannot be read, or `emit` fails.
    pub fn read<E: From<Error>>(
        &self,
        emit: impl FnMut(&ReadRow<'_>) -> Result<(), E>,
    ) -> Result<ReadSummary, E> {
        run::run(self, emit)
    }

    /// The row of `--count`.
    #[must_use]
    pub fn count_row(&self, summary: &ReadSummary) -> ReadCountRow {
        ReadCountRow {
            path: self.dir.path.display().to_string(),
            topic: self.dir.topic().map(str::to_owned),
            partition: self.dir.partition(),
            bounds: self.bounds,
            counts: summary.counts,
            stopped_at: summary.stopped.as_ref().map(|bad| bad.offset),
        }
    }
}
