//! What a listing of transactions knows while it walks: what is asked for, what has been counted,
//! and how a row is put together.

use super::row::{TxnFinding, TxnRow, TxnState};
use super::{TxnsOptions, TxnsSummary};
use crate::log::partition_dir::PartitionDir;
use crate::report::offset_commits::OffsetCommits;
use crate::report::transactions::{Transaction, TxnMarker, known_time};

pub(super) struct Rows<'a> {
    pub(super) dir: &'a PartitionDir,
    pub(super) files: &'a [String],
    pub(super) options: &'a TxnsOptions,
    pub(super) log_start_offset: i64,
    pub(super) offset_commits: Option<OffsetCommits>,
    pub(super) summary: TxnsSummary,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
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

    /// By any offset and any time between the first and the last.
    pub(super) fn wants(
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

    pub(super) fn transactional_id(&self, producer_id: i64) -> Option<&'a str> {
        let coordinators = self.options.coordinators.as_deref()?;
        coordinators.transactional_id(producer_id)
    }

    pub(super) fn row_of(&self, txn: &Transaction) -> TxnRow<'a> {
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

    pub(super) fn add_marker(&self, row: &mut TxnRow<'a>, marker: &TxnMarker) {
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

    pub(super) fn blank(&self, producer_id: i64) -> TxnRow<'a> {
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
            first_batch_is_damaged: false,
            marker_may_be_lost_in: None,
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
