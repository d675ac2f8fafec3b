//! The transactions that end in a log, and markers of those without data there.

use std::ops::ControlFlow;

use super::row::{TxnFinding, TxnRow, TxnState};
use super::rows::Rows;
use crate::log::Error;
use crate::log::partition_walk::walk_partition;
use crate::report::transactions::{
    BehindHoles, Transaction, TransactionFold, TxnEvent, TxnMarker, known_time, last_offset,
};

impl Rows<'_> {
    /// Hands out the transactions that end; returns the end of the log.
    pub(super) fn walk<E: From<Error>>(
        &mut self,
        fold: &mut TransactionFold,
        holes: &mut BehindHoles<'_>,
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
        let mut segment = 0;
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
            if segment != at.index {
                segment = at.index;
                for txn in holes.enter(fold, segment)? {
                    self.end_lost(&txn, segment, emit)?;
                }
            }
            match fold.take(at, &entry)? {
                TxnEvent::Nothing | TxnEvent::Refused => {}
                TxnEvent::Ended => {
                    if let Some(it) = fold.ended() {
                        self.ended(it.transaction, &it.marker, emit)?;
                    }
                }
                TxnEvent::EmptyTransaction => {
                    if let Some(it) = fold.ended() {
                        self.empty(&it.marker, emit)?;
                    }
                }
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

    /// One whose marker is in what is missing before a segment. Nothing hides its records from
    /// consumers: a broker has no `.txnindex` of what is missing.
    #[cold]
    fn end_lost<E>(
        &mut self,
        txn: &Transaction,
        segment: usize,
        emit: &mut impl FnMut(&TxnRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let last_offset = txn.last_offset.unwrap_or(txn.first_offset);
        if txn.batches == 0 || last_offset < self.log_start_offset {
            return Ok(());
        }
        self.summary.committed += 1;
        self.summary.committed_records += txn.records;
        self.summary.lost_markers += 1;
        let offsets = (txn.first_offset, last_offset);
        let times = (txn.start_timestamp, txn.last_timestamp);
        if !self.wants(TxnState::Committed, txn.producer_id, offsets, times) {
            return Ok(());
        }
        let base_offset = self.dir.segments.get(segment).map(|it| it.base_offset);
        let mut row = self.row_of(txn);
        row.state = TxnState::Committed;
        row.findings.push(TxnFinding::lost_marker(txn, base_offset));
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
}
