//! Every transaction of a partition: what it wrote, how it ended, and what an open one holds up.

mod row;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::filter::Filter;
use super::internal_records::UnreadRecords;
use super::lso::abort_command;
use super::offset_commits::OffsetCommits;
use super::partition_state::{
    PartitionState, StateOptions, load_partition_state, log_start_offset, read_snapshot,
    replayed_partition_state, usable_snapshots,
};
use super::transaction_state::{CoordinatorRow, TransactionStates};
use super::transactions::{
    Transaction, TransactionFold, TxnEvent, TxnMarker, known_time, last_offset,
};
use crate::format::file_name::PartitionDirStatus;
use crate::format::internal_topic::InternalTopic;
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::state::{LogOffsetMetadata, TxnMetadata};

pub use row::{TxnFinding, TxnRow, TxnState, abort_command_before_kafka_3};

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
    /// Markers with a lower coordinator epoch than the producer's marker before.
    pub coordinator_epoch_regressions: u64,
    /// First offsets and producers of transactions that the log leaves open and the snapshot does
    /// not know: they do not hold a broker that loads it.
    pub forgotten: Vec<(i64, i64)>,
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
    let log_end_offset = rows.walk(&mut fold, &mut emit)?;
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
    if !options.from_scratch
        && options.at_offset.is_none_or(|end| end >= base_offset)
        && let Some(Ok(rows)) = read_snapshot(dir, options.io, base_offset)?
    {
        return Ok((TransactionFold::on_top_of(rows, base_offset), true));
    }
    Ok((TransactionFold::from_scratch(log_start_offset), false))
}

struct Rows<'a> {
    dir: &'a PartitionDir,
    files: &'a [String],
    options: &'a TxnsOptions,
    log_start_offset: i64,
    offset_commits: Option<OffsetCommits>,
    summary: TxnsSummary,
}

impl<'a> Rows<'a> {
    fn new(
        dir: &'a PartitionDir,
        files: &'a [String],
        options: &'a TxnsOptions,
        log_start_offset: i64,
    ) -> Self {
        Self {
            dir,
            files,
            options,
            log_start_offset,
            offset_commits: None,
            summary: TxnsSummary::default(),
        }
    }

    /// Hands out the transactions that end; returns the end of the log.
    fn walk<E: From<Error>>(
        &mut self,
        fold: &mut TransactionFold,
        emit: &mut impl FnMut(&TxnRow<'_>) -> Result<(), E>,
    ) -> Result<i64, E> {
        let state = self.options.state;
        let limit = state.at_offset.unwrap_or(i64::MAX);
        // A broker that replays does not read what lies below the log start.
        let from = if state.from_scratch {
            self.log_start_offset
        } else {
            i64::MIN
        };
        let last_base = self.dir.segments.last().map_or(0, |last| last.base_offset);
        let mut end = last_base.min(limit);
        let dir = self.dir;
        let vanished = walk_partition(dir, state.io, 0, |at, entry| {
            if let Some(last_offset) = last_offset(&entry) {
                if last_offset >= limit {
                    end = limit;
                    return Ok(ControlFlow::Break(()));
                }
                end = end.max(last_offset.wrapping_add(1));
                if last_offset < from {
                    return Ok::<_, E>(ControlFlow::Continue(()));
                }
            }
            match (fold.take(at, &entry)?, fold.ended()) {
                (TxnEvent::Ended, Some(it)) => self.ended(&it.transaction, &it.marker, emit)?,
                (TxnEvent::EmptyTransaction, Some(it)) => self.empty(&it.marker, emit)?,
                (TxnEvent::Nothing | TxnEvent::Refused, _) | (_, None) => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.summary.vanished = vanished.len() as u64;
        self.summary.refused = fold.refused();
        Ok(end)
    }

    fn ended<E>(
        &mut self,
        txn: &Transaction,
        marker: &TxnMarker,
        emit: &mut impl FnMut(&TxnRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Nobody reads below the log start.
        if marker.offset < self.log_start_offset {
            return Ok(());
        }
        let duration_ms = txn
            .start_timestamp
            .zip(known_time(marker.timestamp))
            .map(|(start, end)| end.saturating_sub(start));
        self.count_ended(txn, marker, duration_ms);
        let times = (txn.start_timestamp, known_time(marker.timestamp));
        if !self.wants_ended(marker, txn.first_offset, times) {
            return Ok(());
        }
        let mut row = self.row_of(txn);
        self.add_marker(&mut row, marker);
        if !marker.is_abort() {
            for (finding, missing) in row.findings.iter_mut().zip(&txn.missing_markers) {
                finding.records_wrongly_committed = Some(missing.data_before);
            }
        }
        row.duration_ms = duration_ms;
        let looks_bumped = txn.last_producer_epoch.checked_add(1) == Some(marker.producer_epoch);
        row.transaction_version = Some(if looks_bumped { 2 } else { 1 });
        emit(&row)
    }

    fn count_ended(&mut self, txn: &Transaction, marker: &TxnMarker, duration_ms: Option<i64>) {
        let summary = &mut self.summary;
        if marker.is_abort() {
            summary.aborted += 1;
            summary.aborted_records += txn.records;
        } else {
            summary.committed += 1;
            summary.committed_records += txn.records;
        }
        summary.longest_duration_ms = summary.longest_duration_ms.max(duration_ms);
        summary.missing_markers += u64::from(!txn.missing_markers.is_empty());
        summary.coordinator_epoch_regressions += u64::from(marker.is_from_older_coordinator());
    }

    fn empty<E>(
        &mut self,
        marker: &TxnMarker,
        emit: &mut impl FnMut(&TxnRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if marker.offset < self.log_start_offset {
            return Ok(());
        }
        self.summary.empty += 1;
        self.summary.repeated_markers += u64::from(marker.repeats_previous);
        self.summary.coordinator_epoch_regressions += u64::from(marker.is_from_older_coordinator());
        let time = known_time(marker.timestamp);
        if !self.wants_ended(marker, marker.offset, (time, time)) {
            return Ok(());
        }
        let mut row = self.blank(marker.producer_id);
        self.add_marker(&mut row, marker);
        row.repeats_marker = marker.repeats_previous;
        emit(&row)
    }

    fn wants_ended(
        &self,
        marker: &TxnMarker,
        first_offset: i64,
        times: (Option<i64>, Option<i64>),
    ) -> bool {
        self.wants(
            TxnState::from(marker),
            marker.producer_id,
            (first_offset, marker.offset),
            times,
        )
    }

    /// By any offset and any time between the first and the last.
    fn wants(
        &self,
        state: TxnState,
        producer_id: i64,
        offsets: (i64, i64),
        times: (Option<i64>, Option<i64>),
    ) -> bool {
        let TxnsOptions {
            filter,
            states,
            started_before_ms,
            ..
        } = self.options;
        let (start, end) = (times.0.or(times.1), times.1.or(times.0));
        states.wants(state)
            && filter.wants_producer(producer_id)
            && self.wants_transactional_id(producer_id)
            && filter.wants_offsets(offsets.0, offsets.1)
            && filter.wants_times(start.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX))
            && started_before_ms.is_none_or(|before| start.is_some_and(|start| start < before))
    }

    fn wants_transactional_id(&self, producer_id: i64) -> bool {
        let prefix = self.options.transactional_id_prefix.as_deref();
        prefix.is_none_or(|prefix| {
            let id = self.transactional_id(producer_id);
            id.is_some_and(|id| id.starts_with(prefix))
        })
    }

    fn transactional_id(&self, producer_id: i64) -> Option<&'a str> {
        let coordinators = self.options.coordinators.as_deref()?;
        coordinators.transactional_id(producer_id)
    }

    /// Hands out the open transactions by first offset.
    fn open_ones<E: From<Error>>(
        &mut self,
        fold: TransactionFold,
        checkpoints: CheckpointedOffsets,
        is_seeded: bool,
        log_end_offset: i64,
        emit: &mut impl FnMut(&TxnRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let in_log: HashMap<i64, Transaction> = fold
            .all_open()
            .filter(|txn| txn.place.is_some())
            .map(|txn| (txn.producer_id, txn.clone()))
            .collect();
        let Some(state) = self.state(fold, checkpoints, is_seeded, log_end_offset)? else {
            return Ok(());
        };
        self.summary.last_stable_offset = state.offsets.last_stable_offset();
        self.summary.high_watermark = state.offsets.high_watermark();
        self.summary.log_end_offset = state.log_end_offset;
        let open: Vec<TxnMetadata> = state.manager.ongoing_txns().copied().collect();
        if !open.is_empty() && self.options.states.open {
            self.read_offset_commits()?;
        }
        for (index, txn) in open.iter().enumerate() {
            let first_offset = txn.first_offset.message_offset;
            let txn = match in_log.get(&txn.producer_id) {
                Some(found) => Transaction {
                    first_offset,
                    is_from_snapshot: found.is_from_snapshot || found.first_offset != first_offset,
                    ..found.clone()
                },
                None => Transaction::from_snapshot(txn, &state.manager),
            };
            let next = open.get(index + 1).map(|it| it.first_offset.message_offset);
            let after_abort = match next {
                Some(next) if next < state.log_start_offset => state.offsets.last_stable_offset(),
                Some(next) => next,
                // One marker for this one and each before it.
                None => state
                    .log_end_offset
                    .saturating_add(i64::try_from(open.len()).unwrap_or(i64::MAX)),
            };
            self.open_one(&txn, &state, after_abort, emit)?;
        }
        let is_open = |producer_id| {
            let entry = state.manager.last_entry(producer_id);
            entry.is_some_and(|entry| entry.current_txn_first_offset().is_some())
        };
        self.summary.forgotten = in_log
            .values()
            .filter(|txn| !is_open(txn.producer_id))
            .map(|it| (it.first_offset, it.producer_id))
            .collect();
        self.summary.forgotten.sort_unstable();
        Ok(())
    }

    /// The state as a broker has it after loading, or after replaying.
    fn state(
        &self,
        fold: TransactionFold,
        checkpoints: CheckpointedOffsets,
        is_seeded: bool,
        log_end_offset: i64,
    ) -> Result<Option<PartitionState>, Error> {
        let Self { dir, options, .. } = self;
        let first_base = dir.segments.first().map_or(0, |first| first.base_offset);
        let end = options.state.at_offset.unwrap_or(i64::MAX);
        let is_same = options.state.from_scratch
            || (!is_seeded
                && first_base == self.log_start_offset
                && usable_snapshots(dir, self.log_start_offset, end).is_empty());
        if is_same {
            // What the walk has found is what a broker finds; it need not be read twice.
            let known = fold
                .all_open()
                .filter_map(|txn| self.place_of(txn))
                .collect();
            let manager = fold.into_manager();
            return replayed_partition_state(
                dir,
                checkpoints,
                options.state,
                manager,
                log_end_offset,
                known,
            );
        }
        load_partition_state(dir, checkpoints, options.state)
    }

    /// The place of a transaction's first batch, by its offset.
    fn place_of(&self, txn: &Transaction) -> Option<(i64, LogOffsetMetadata)> {
        let place = txn.place?;
        let metadata = LogOffsetMetadata {
            message_offset: txn.first_offset,
            segment_base_offset: self.dir.segments.get(place.segment)?.base_offset,
            relative_position_in_segment: i32::try_from(place.position).unwrap_or(i32::MAX),
        };
        (!txn.is_from_snapshot).then_some((txn.first_offset, metadata))
    }

    fn open_one<E>(
        &mut self,
        txn: &Transaction,
        state: &PartitionState,
        after_abort: i64,
        emit: &mut impl FnMut(&TxnRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.summary.open += 1;
        self.summary.missing_markers += u64::from(!txn.missing_markers.is_empty());
        let start = txn.start_timestamp.or(txn.last_timestamp);
        let oldest = self.summary.oldest_open_timestamp;
        self.summary.oldest_open_timestamp = match (oldest, start) {
            (Some(oldest), Some(start)) => Some(oldest.min(start)),
            (oldest, start) => oldest.or(start),
        };
        let times = (start, txn.last_timestamp);
        let last_offset = txn.last_offset.unwrap_or(txn.first_offset);
        if !self.wants(
            TxnState::Open,
            txn.producer_id,
            (txn.first_offset, last_offset),
            times,
        ) {
            return Ok(());
        }
        let mut row = self.row_of(txn);
        let entry = state.manager.last_entry(txn.producer_id);
        row.coordinator_epoch = entry
            .map(|entry| entry.coordinator_epoch())
            .filter(|epoch| *epoch >= 0);
        row.last_stable_offset_after_abort = Some(after_abort);
        row.age_ms = self
            .options
            .now_ms
            .zip(start)
            .map(|(now, start)| now.saturating_sub(start));
        let commits = self.offset_commits.as_ref();
        row.offset_commits = commits.map(|it| it.rows(txn.producer_id));
        self.join(&mut row, txn);
        self.add_commands(&mut row, txn);
        let finding = if txn.batches > 0 {
            TxnFinding::open(&row)
        } else {
            TxnFinding::snapshot_only(txn, state.snapshot, state.log_start_offset)
        };
        row.findings.insert(0, finding);
        emit(&row)
    }

    /// In `__consumer_offsets` a transaction carries no records but offsets of groups.
    fn read_offset_commits(&mut self) -> Result<(), Error> {
        if self.dir.topic() == Some(InternalTopic::ConsumerOffsets.name()) {
            let StateOptions { io, at_offset, .. } = self.options.state;
            let commits = OffsetCommits::load(self.dir, io, self.log_start_offset, at_offset)?;
            self.summary.unread_offset_commits = commits.unread().cloned();
            self.offset_commits = Some(commits);
        }
        Ok(())
    }

    /// Who is going to end it.
    fn join(&self, row: &mut TxnRow<'a>, txn: &Transaction) {
        let Some(coordinators) = self.options.coordinators.as_deref() else {
            return;
        };
        let partition = row.topic.zip(row.partition);
        let joined = coordinators.join(txn.producer_id, txn.last_producer_epoch, partition);
        row.transactional_id = joined.transactional_id;
        row.class = Some(joined.class);
        row.coordinator = joined.metadata.map(CoordinatorRow::from);
    }

    /// Only a partition that is live can be spoken to under its name.
    fn add_commands(&self, row: &mut TxnRow<'_>, txn: &Transaction) {
        let Some(PartitionDirStatus::Live) = self.dir.status() else {
            return;
        };
        let (Some(topic), Some(partition)) = (row.topic, row.partition) else {
            return;
        };
        row.abort_command = abort_command(topic, partition, txn.first_offset);
        row.abort_command_before_kafka_3 = row.abort_command.as_ref().map(|_| {
            abort_command_before_kafka_3(
                topic,
                partition,
                txn.producer_id,
                txn.last_producer_epoch,
                row.coordinator_epoch,
            )
        });
    }

    fn row_of(&self, txn: &Transaction) -> TxnRow<'a> {
        let file = txn.place.and_then(|place| self.files.get(place.segment));
        TxnRow {
            producer_epoch: Some(txn.producer_epoch),
            first_offset: Some(txn.first_offset),
            last_offset: txn.last_offset,
            batches: txn.batches,
            records: txn.records,
            size_in_bytes: txn.size_in_bytes,
            start_timestamp: txn.start_timestamp,
            last_timestamp: txn.last_timestamp,
            file: file.map(String::as_str),
            position: txn.place.map(|place| place.position),
            complete: !txn.is_from_snapshot,
            findings: txn.missing_markers.iter().map(TxnFinding::from).collect(),
            ..self.blank(txn.producer_id)
        }
    }

    fn add_marker(&self, row: &mut TxnRow<'a>, marker: &TxnMarker) {
        let file = self.files.get(marker.place.segment).map(String::as_str);
        row.state = TxnState::from(marker);
        row.marker_epoch = Some(marker.producer_epoch);
        row.coordinator_epoch = Some(marker.coordinator_epoch);
        row.marker_offset = Some(marker.offset);
        row.end_timestamp = known_time(marker.timestamp);
        row.marker_file = file;
        row.marker_position = Some(marker.place.position);
        if marker.is_from_older_coordinator() {
            row.findings
                .push(TxnFinding::older_coordinator(marker, file));
        }
    }

    fn blank(&self, producer_id: i64) -> TxnRow<'a> {
        TxnRow {
            topic: self.dir.topic(),
            partition: self.dir.partition(),
            producer_id,
            transactional_id: self.transactional_id(producer_id),
            class: None,
            coordinator: None,
            producer_epoch: None,
            marker_epoch: None,
            coordinator_epoch: None,
            state: TxnState::Open,
            first_offset: None,
            last_offset: None,
            marker_offset: None,
            batches: 0,
            records: 0,
            size_in_bytes: 0,
            start_timestamp: None,
            last_timestamp: None,
            end_timestamp: None,
            offset_commits: None,
            last_stable_offset_after_abort: None,
            abort_command: None,
            abort_command_before_kafka_3: None,
            duration_ms: None,
            age_ms: None,
            transaction_version: None,
            file: None,
            position: None,
            marker_file: None,
            marker_position: None,
            complete: true,
            repeats_marker: false,
            findings: Vec::new(),
        }
    }
}
