//! How the batches of a log become state, one segment at a time.
//!
//! A broker has two ways. Recovery takes in batch by batch ([`recover_batch`]). Rebuilding reads a
//! segment, gathers its producers, and takes them in together at the end ([`SegmentProducers`]).
//! The results differ in the order of new producers in a snapshot, and in what a producer that
//! went to another epoch and back still remembers.

use super::append_origin::{AppendOrigin, TransactionVersion};
use super::java_hash_map::JavaHashMap;
use super::log_offset_metadata::LogOffsetMetadata;
use super::producer_append_info::ProducerAppendInfo;
use super::producer_state_manager::ProducerStateManager;
use super::refusal::Refusal;
use super::transactions::CompletedTxn;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::RecordBatchHeader;

/// A row of a `.txnindex` file (`AbortedTxn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxnRow {
    /// Whose transaction.
    pub producer_id: i64,
    /// Base offset of its first batch.
    pub first_offset: i64,
    /// Offset of its marker.
    pub last_offset: i64,
    /// The last stable offset when it ended.
    pub last_stable_offset: i64,
}

impl ProducerStateManager {
    /// Completes a transaction; `index` gets the row of an aborted one
    /// (`LogSegment.updateTxnIndex`, then `completeTxn`).
    ///
    /// # Errors
    /// If the transaction is not open.
    pub(super) fn complete_and_index(
        &mut self,
        completed: &CompletedTxn,
        index: impl FnOnce(AbortedTxnRow),
    ) -> Result<(), Refusal> {
        let last_stable_offset = completed
            .is_aborted
            .then(|| self.last_stable_offset(completed));
        self.complete_txn(completed)?;
        if let Some(last_stable_offset) = last_stable_offset {
            index(AbortedTxnRow {
                producer_id: completed.producer_id,
                first_offset: completed.first_offset,
                last_offset: completed.last_offset,
                last_stable_offset,
            });
        }
        Ok(())
    }

    /// A transactional batch that was taken in ends the producer's verification. A version 2
    /// client's stays after a marker of its own epoch: the epoch has been bumped, so it belongs to
    /// the next transaction (`UnifiedLog.updateProducers`).
    #[inline]
    pub(super) fn end_verification(&mut self, header: &RecordBatchHeader) {
        let attributes = header.attributes();
        if !attributes.is_transactional() {
            return;
        }
        let producer_id = header.producer_id();
        let is_for_next_transaction = self.verification_state_entry(producer_id).is_some_and(|v| {
            v.supports_epoch_bump
                && attributes.is_control()
                && v.producer_epoch == header.producer_epoch()
        });
        if !is_for_next_transaction {
            self.clear_verification_state_entry(producer_id);
        }
    }
}

/// Takes in one batch of a segment under recovery (`LogSegment.updateProducerState`).
///
/// Batches have to come in the order of the log. For a control batch `marker` is what its first
/// record says; an empty one has none. `index` gets the `.txnindex` row of an ABORT marker.
///
/// # Errors
/// If the batch does not fit, which stops a broker. The state is unchanged except for a producer
/// whose transaction could not be completed.
#[inline]
pub fn recover_batch(
    manager: &mut ProducerStateManager,
    header: &RecordBatchHeader,
    marker: Option<EndTransactionMarker>,
    index: impl FnOnce(AbortedTxnRow),
) -> Result<(), Refusal> {
    if header.has_producer_id() {
        if header.attributes().is_control() {
            recover_control_batch(manager, header, marker, index)?;
        } else {
            manager.update_by_replicated_data(header)?;
        }
    }
    manager.update_map_end_offset(header.next_offset());
    Ok(())
}

/// A control batch without a marker changes nothing but that its producer is known from now on.
#[inline(never)]
fn recover_control_batch(
    manager: &mut ProducerStateManager,
    header: &RecordBatchHeader,
    marker: Option<EndTransactionMarker>,
    index: impl FnOnce(AbortedTxnRow),
) -> Result<(), Refusal> {
    let completed = match marker {
        Some(marker) => manager.update_by_replicated_marker(header, marker),
        None => {
            manager.entry_mut(header.producer_id());
            None
        }
    };
    match completed {
        Some(completed) => manager.complete_and_index(&completed, index),
        None => Ok(()),
    }
}

/// The producers of the batches read so far, before they are taken in
/// (`UnifiedLog.loadProducersFromRecords`, `UnifiedLog.updateProducers`).
#[derive(Clone, Debug, Default)]
pub struct SegmentProducers {
    producers: JavaHashMap<ProducerAppendInfo>,
    completed: Vec<CompletedTxn>,
}

impl SegmentProducers {
    /// No batches yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a batch read from the log.
    ///
    /// # Errors
    /// If the batch does not fit, which stops a broker.
    #[inline]
    pub fn add(
        &mut self,
        manager: &mut ProducerStateManager,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
    ) -> Result<(), Refusal> {
        if !header.has_producer_id() {
            return Ok(());
        }
        let how = UpdateProducers {
            origin: AppendOrigin::Replication,
            transaction_version: TransactionVersion::V0,
            first_offset_metadata: None,
        };
        self.update_producers(manager, header, marker, how)
    }

    /// Adds a batch to its producer (`UnifiedLog.updateProducers`).
    #[inline]
    pub(super) fn update_producers(
        &mut self,
        manager: &mut ProducerStateManager,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        how: UpdateProducers,
    ) -> Result<(), Refusal> {
        let producer_id = header.producer_id();
        let begin = || manager.prepare_update(producer_id, how.origin);
        let slot = self.producers.compute_if_absent(producer_id, begin);
        let Some(info) = self.producers.value_mut(slot) else {
            return Ok(());
        };
        let completed = info.append(
            header,
            marker,
            how.first_offset_metadata,
            how.transaction_version,
        )?;
        manager.end_verification(header);
        self.completed.extend(completed);
        Ok(())
    }

    /// Takes the producers into the state, in the order of the map they were gathered in, and
    /// ends their transactions. Leaves nothing here.
    ///
    /// # Errors
    /// If a transaction ends that is not open, which stops a broker.
    pub fn take_in(&mut self, manager: &mut ProducerStateManager) -> Result<(), Refusal> {
        self.take_in_with_rows(manager, |_| {})
    }

    pub(super) fn take_in_with_rows(
        &mut self,
        manager: &mut ProducerStateManager,
        mut row: impl FnMut(AbortedTxnRow),
    ) -> Result<(), Refusal> {
        let gathered = std::mem::take(self);
        for info in gathered.producers.values() {
            manager.update(info);
        }
        for completed in &gathered.completed {
            manager.complete_and_index(completed, &mut row)?;
        }
        Ok(())
    }
}

/// How a batch is added to its producer.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpdateProducers {
    pub(super) origin: AppendOrigin,
    pub(super) transaction_version: TransactionVersion,
    pub(super) first_offset_metadata: Option<LogOffsetMetadata>,
}
