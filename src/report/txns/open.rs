//! The transactions that are open at the end of a log: as a broker has them that loads it, joined
//! with what their coordinator knows and what ends them.

use std::collections::HashMap;

use super::row::{TxnFinding, TxnRow, TxnState, abort_command_before_kafka_3};
use super::rows::Rows;
use crate::format::file_name::PartitionDirStatus;
use crate::format::internal_topic::InternalTopic;
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_walk::is_damaged_at;
use crate::report::gaps::{LostOffsets, Walked};
use crate::report::lso::abort_command;
use crate::report::offset_commits::OffsetCommits;
use crate::report::partition_state::{
    PartitionState, StateOptions, load_partition_state, replayed_partition_state, usable_snapshots,
};
use crate::report::transaction_state::CoordinatorRow;
use crate::report::transactions::{Place, Transaction, TransactionFold};
use crate::state::{LogOffsetMetadata, TxnMetadata};

impl<'a> Rows<'a> {
    /// Hands out the open transactions by first offset.
    pub(super) fn open_ones<E: From<Error>>(
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
        let whole_from = fold.whole_from();
        let Some(state) = self.state(fold, checkpoints, is_seeded, log_end_offset)? else {
            return Ok(());
        };
        self.summary.last_stable_offset = state.offsets.last_stable_offset();
        self.summary.high_watermark = state.offsets.high_watermark();
        self.summary.log_end_offset = state.log_end_offset;
        let open: Vec<TxnMetadata> = state.manager.ongoing_txns().copied().collect();
        self.summary.is_forgotten_at_start =
            state.is_forgotten_at_start && !open.is_empty() && self.options.states.open;
        if !open.is_empty() && self.options.states.open {
            self.read_offset_commits()?;
        }
        let lost = match open.iter().map(|txn| txn.first_offset.message_offset).min() {
            Some(first) => {
                let walked = Walked {
                    whole_from,
                    log_end_offset,
                };
                let io = self.options.state.io;
                LostOffsets::behind(self.dir, checkpoints, io, first, walked)?
            }
            None => LostOffsets::default(),
        };
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
            self.open_one(&txn, &state, &lost, after_abort, emit)?;
        }
        let is_open = |producer_id| {
            let entry = state.manager.last_entry(producer_id);
            entry.is_some_and(|entry| entry.current_txn_first_offset().is_some())
        };
        self.summary.forgotten = in_log
            .values()
            .filter(|txn| !is_open(txn.producer_id))
            // Of what lies below the log start alone nobody has to know.
            .filter(|txn| txn.last_offset >= Some(self.log_start_offset))
            .map(|it| (it.first_offset, it.producer_id))
            .collect();
        self.summary.forgotten.sort_unstable();
        // The log may have lost its front, and have got the snapshot, since it was walked.
        if !self.summary.forgotten.is_empty() && self.dir.has_changed() {
            self.summary.forgotten.clear();
        }
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

    fn open_one<E: From<Error>>(
        &mut self,
        txn: &Transaction,
        state: &PartitionState,
        lost: &LostOffsets,
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
        row.first_batch_is_damaged = self.begins_damaged(txn)?;
        row.marker_may_be_lost_in = lost.between(
            txn.first_offset.saturating_add(1),
            self.options.state.at_offset.unwrap_or(i64::MAX),
        );
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

    /// Whether the first of its batches that is there is damaged.
    fn begins_damaged(&self, txn: &Transaction) -> Result<bool, Error> {
        let (dir, io) = (self.dir, self.options.state.io);
        let segment = |it: Place| dir.segments.get(it.segment).map(|it| it.base_offset);
        match txn.place.and_then(|it| Some((segment(it)?, it.position))) {
            Some((base_offset, position)) => is_damaged_at(dir, io, base_offset, position),
            None => Ok(false),
        }
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
        let joined = coordinators.join_in(self.dir, txn.producer_id, txn.last_producer_epoch);
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
}
