//! How many producers a partition has, and how the number grew.

use serde::Serialize;

use crate::format::{NO_TIMESTAMP, known};
use crate::log::Error;
use crate::log::partition_dir::PartitionDir;
use crate::report::partition_state::{PartitionState, StateOptions, read_snapshot, snapshot_files};
use crate::state::{Expiration, ProducerStateEntry};

/// The producers of one partition, counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StatisticsRow {
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Producers known.
    pub producers: u64,
    /// Producers with an open transaction.
    pub open_transactions: u64,
    /// Producers whose newest batch is the first of their epoch.
    pub one_batch_producers: u64,
    /// Producers known through a marker only.
    pub marker_only_producers: u64,
    /// The longest silent producer's last time, in milliseconds.
    pub oldest_timestamp: Option<i64>,
    /// The newest time of any producer, in milliseconds.
    pub newest_timestamp: Option<i64>,
    /// Producers by the time between these two, a minute.
    pub producers_per_minute: Option<f64>,
    /// Producers that a broker drops at load for their age; null without a clock.
    pub expired: Option<u64>,
    /// The snapshot the state was loaded from; null if it was replayed from the log start.
    pub snapshot_offset: Option<i64>,
    /// The readable snapshots, oldest first: how the number grew.
    pub growth: Vec<SnapshotGrowth>,
}

/// One snapshot's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotGrowth {
    /// The state is the one before this offset.
    pub offset: i64,
    /// Producers in it.
    pub producers: u64,
    /// Bytes of the file.
    pub size_in_bytes: u64,
}

/// Counts the producers of a state, and those of the snapshots beside it.
///
/// # Errors
/// If a snapshot cannot be read.
pub fn statistics(
    dir: &PartitionDir,
    state: &PartitionState,
    options: StateOptions,
    expiration: Option<Expiration>,
) -> Result<StatisticsRow, Error> {
    let mut row = StatisticsRow {
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        producers: state.manager.producer_id_count() as u64,
        open_transactions: 0,
        one_batch_producers: 0,
        marker_only_producers: 0,
        oldest_timestamp: None,
        newest_timestamp: None,
        producers_per_minute: None,
        expired: expiration.map(|_| 0),
        snapshot_offset: state.snapshot,
        growth: Vec::new(),
    };
    for entry in state.manager.active_producers() {
        row.count(entry, expiration);
    }
    if let (Some(oldest), Some(newest)) = (row.oldest_timestamp, row.newest_timestamp) {
        row.producers_per_minute = per_minute(row.producers, newest.saturating_sub(oldest));
    }
    for (offset, file) in snapshot_files(dir) {
        if let Some(Ok(rows)) = read_snapshot(dir, options.io, offset)? {
            let producers = rows.len() as u64;
            row.growth.push(SnapshotGrowth {
                offset,
                producers,
                size_in_bytes: file.size_in_bytes,
            });
        }
    }
    Ok(row)
}

impl StatisticsRow {
    fn count(&mut self, entry: &ProducerStateEntry, expiration: Option<Expiration>) {
        self.open_transactions += u64::from(entry.current_txn_first_offset().is_some());
        match entry.last_batch() {
            None => self.marker_only_producers += 1,
            Some(batch) => self.one_batch_producers += u64::from(batch.first_sequence() == 0),
        }
        if let Some(time) = known(entry.last_timestamp(), NO_TIMESTAMP) {
            self.oldest_timestamp = Some(self.oldest_timestamp.map_or(time, |it| it.min(time)));
            self.newest_timestamp = Some(self.newest_timestamp.map_or(time, |it| it.max(time)));
        }
        if let (Some(expired), Some(expiration)) = (&mut self.expired, expiration) {
            *expired += u64::from(expiration.is_expired(entry));
        }
    }
}

/// A rate with as many digits as it can bear.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_minute(count: u64, span_ms: i64) -> Option<f64> {
    if span_ms <= 0 {
        return None;
    }
    let rate = count as f64 * 60_000.0 / span_ms as f64;
    Some(if rate >= 10.0 {
        rate.round()
    } else {
        (rate * 100.0).round() / 100.0
    })
}
