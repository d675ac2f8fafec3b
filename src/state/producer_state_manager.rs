//! All producers of a partition, their transactions, and up to where that is known.
//!
//! Files are the caller's: what is loaded from a snapshot comes in as rows, what a snapshot is to
//! hold goes out as rows, and the set of snapshots is [`SnapshotOffsets`].

use super::append_origin::{AppendOrigin, TransactionVersion};
use super::java_hash_map::{JavaHashMap, Slot};
use super::log_offset_metadata::LogOffsetMetadata;
use super::producer_append_info::{
    EndTxnMarkerAppend, ProducerAppendInfo, take_in_data_batch, take_in_end_txn_marker,
};
use super::producer_state_entry::{ProducerSnapshotRow, ProducerStateEntry};
use super::refusal::Refusal;
use super::snapshot_offsets::SnapshotOffsets;
use super::transactions::{CompletedTxn, Transactions, TxnMetadata};
use super::verification_state::{
    VerificationGuard, VerificationRequest, VerificationStateEntry, VerificationStates,
};
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::RecordBatchHeader;

/// Grace beyond `transaction.max.timeout.ms` before a transaction counts as late
/// (`ProducerStateManager.LATE_TRANSACTION_BUFFER_MS`): five minutes.
pub const LATE_TRANSACTION_BUFFER_MS: i64 = 5 * 60 * 1000;

/// The time, and the age at which a producer is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// The clock, in milliseconds.
    pub now_ms: i64,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

impl Expiration {
    /// Whether a producer is forgotten: nothing open, and idle for that long in record time
    /// (`ProducerStateManager.isProducerExpired`).
    #[must_use]
    pub fn is_expired(&self, entry: &ProducerStateEntry) -> bool {
        entry.current_txn_first_offset().is_none()
            && self.now_ms.wrapping_sub(entry.last_timestamp()) >= self.producer_id_expiration_ms
    }
}

/// The producers and transactions of a partition (`ProducerStateManager`).
#[derive(Clone, Debug, Default)]
pub struct ProducerStateManager {
    producers: JavaHashMap<ProducerStateEntry>,
    verification: VerificationStates,
    transactions: Transactions,
    snapshots: SnapshotOffsets,
    last_map_offset: i64,
    last_snapshot_offset: i64,
}

impl ProducerStateManager {
    /// No producers, beside these snapshots.
    #[must_use]
    pub fn new(snapshots: SnapshotOffsets) -> Self {
        Self {
            snapshots,
            ..Self::default()
        }
    }

    /// The snapshots there are.
    #[must_use]
    pub fn snapshots(&self) -> &SnapshotOffsets {
        &self.snapshots
    }

    /// The snapshots there are, to take out removed ones.
    pub fn snapshots_mut(&mut self) -> &mut SnapshotOffsets {
        &mut self.snapshots
    }

    /// What is known of a producer (`ProducerStateManager.lastEntry`).
    #[must_use]
    pub fn last_entry(&self, producer_id: i64) -> Option<&ProducerStateEntry> {
        self.producers.get(producer_id)
    }

    /// A small number that is the producer's own until producers are removed, for whoever keeps
    /// more about producers than a broker does; `None` if it is not known.
    #[must_use]
    #[inline]
    pub fn producer_number(&self, producer_id: i64) -> Option<usize> {
        self.producers.find(producer_id).map(Slot::number)
    }

    /// All producers in the order in which a snapshot has them
    /// (`ProducerStateManager.activeProducers`).
    pub fn active_producers(&self) -> impl Iterator<Item = &ProducerStateEntry> {
        self.producers.values()
    }

    /// How many producers are known (`ProducerStateManager.producerIdCount`).
    #[must_use]
    pub fn producer_id_count(&self) -> usize {
        self.producers.len()
    }

    /// The rows a snapshot taken now has, in file order (`ProducerStateManager.writeSnapshot`).
    pub fn snapshot_rows(&self) -> impl Iterator<Item = ProducerSnapshotRow> {
        self.active_producers()
            .map(ProducerStateEntry::snapshot_row)
    }

    /// Whether neither a producer nor an unreplicated transaction is known
    /// (`ProducerStateManager.isEmpty`).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty() && !self.transactions.has_unreplicated()
    }

    /// The offset up to which batches have been taken in (`ProducerStateManager.mapEndOffset`).
    #[must_use]
    pub fn map_end_offset(&self) -> i64 {
        self.last_map_offset
    }

    /// Batches below `offset` have been taken in, with or without producer
    /// (`ProducerStateManager.updateMapEndOffset`).
    #[inline]
    pub fn update_map_end_offset(&mut self, offset: i64) {
        self.last_map_offset = offset;
    }

    /// The map end offset when a snapshot was last taken or loaded.
    #[must_use]
    pub fn last_snapshot_offset(&self) -> i64 {
        self.last_snapshot_offset
    }

    // ---- appending ------------------------------------------------------------------------

    /// Begins an append of a producer (`ProducerStateManager.prepareUpdate`).
    #[must_use]
    #[inline]
    pub fn prepare_update(&self, producer_id: i64, origin: AppendOrigin) -> ProducerAppendInfo {
        let verification = self.verification.get(producer_id);
        match self.last_entry(producer_id) {
            Some(entry) => ProducerAppendInfo::new(entry, origin, verification),
            None => {
                let empty = ProducerStateEntry::empty(producer_id);
                ProducerAppendInfo::new(&empty, origin, verification)
            }
        }
    }

    /// Takes in what an append made of a producer (`ProducerStateManager.update`).
    #[inline]
    pub fn update(&mut self, append_info: &ProducerAppendInfo) {
        let updated = append_info.updated_entry();
        match self.producers.get_mut(updated.producer_id()) {
            Some(entry) => entry.update(updated),
            None => {
                self.producers.put_new(updated.producer_id(), *updated);
            }
        }
        for txn in append_info.started_transactions() {
            self.transactions.start(*txn);
        }
    }

    /// An append of a single data batch that came through replication: `prepareUpdate`, `append`
    /// and `update` in one step. Such a batch passes all checks but one.
    ///
    /// # Errors
    /// If it is plain and a transaction is open. Nothing has changed then.
    #[inline]
    pub(super) fn update_by_replicated_data(
        &mut self,
        header: &RecordBatchHeader,
    ) -> Result<(), Refusal> {
        let Some(entry) = self.entry_mut(header.producer_id()) else {
            return Ok(());
        };
        if let Some(started) = take_in_data_batch(entry, header, None)? {
            self.transactions.start(started);
        }
        Ok(())
    }

    /// The same of a marker, which passes all checks; returns the transaction it ends.
    pub(super) fn update_by_replicated_marker(
        &mut self,
        header: &RecordBatchHeader,
        marker: EndTransactionMarker,
    ) -> Option<CompletedTxn> {
        let entry = self.entry_mut(header.producer_id())?;
        let marker = EndTxnMarkerAppend::logged(header, marker, TransactionVersion::UNKNOWN);
        take_in_end_txn_marker(entry, &marker)
    }

    /// Knows nothing of a producer any more, as after a start that reads none of its batches.
    pub fn forget(&mut self, producer_id: i64) {
        let known = self.producers.find(producer_id);
        let entry = known.and_then(|slot| self.producers.value_mut(slot));
        if let Some(entry) = entry {
            let open = entry.current_txn_first_offset();
            *entry = ProducerStateEntry::empty(producer_id);
            if let Some(first_offset) = open {
                self.transactions.forget(first_offset);
            }
        }
    }

    /// The entry of a producer, an empty one if it is new. Never `None`.
    #[inline]
    pub(super) fn entry_mut(&mut self, producer_id: i64) -> Option<&mut ProducerStateEntry> {
        let slot = self.producers.find(producer_id).unwrap_or_else(|| {
            let empty = ProducerStateEntry::empty(producer_id);
            self.producers.put_new(producer_id, empty)
        });
        self.producers.value_mut(slot)
    }

    // ---- transactions ---------------------------------------------------------------------

    /// A transaction has ended; it stays unstable until the high watermark passes its marker
    /// (`ProducerStateManager.completeTxn`).
    ///
    /// # Errors
    /// If it is not open, which only a damaged log or snapshot brings about.
    pub fn complete_txn(&mut self, completed: &CompletedTxn) -> Result<(), Refusal> {
        self.transactions.complete(completed)
    }

    /// The last stable offset for the `.txnindex` row of a transaction that has just ended and
    /// is not yet completed (`ProducerStateManager.lastStableOffset`).
    #[must_use]
    pub fn last_stable_offset(&self, completed: &CompletedTxn) -> i64 {
        self.transactions.last_stable_offset(completed)
    }

    /// Forgets ended transactions whose marker is below the high watermark
    /// (`ProducerStateManager.onHighWatermarkUpdated`).
    pub fn on_high_watermark_updated(&mut self, high_watermark: i64) {
        self.transactions.remove_unreplicated(high_watermark);
    }

    /// From now on a transaction whose marker lies below `offset` is forgotten as it ends: for
    /// whoever takes in batches that were replicated long ago, and has not to be told the high
    /// watermark after each marker.
    pub fn take_for_replicated(&mut self, offset: i64) {
        self.transactions.take_for_replicated(offset);
    }

    /// The first offset of the oldest transaction that is open or unreplicated
    /// (`ProducerStateManager.firstUnstableOffset`).
    #[must_use]
    pub fn first_unstable_offset(&self) -> Option<LogOffsetMetadata> {
        self.transactions.first_unstable_offset()
    }

    /// The first offset of the oldest open transaction, replicated or not
    /// (`ProducerStateManager.firstUndecidedOffset`).
    #[must_use]
    pub fn first_undecided_offset(&self) -> Option<i64> {
        self.oldest_ongoing_txn()
            .map(|txn| txn.first_offset.message_offset)
    }

    /// The oldest open transaction.
    #[must_use]
    pub fn oldest_ongoing_txn(&self) -> Option<&TxnMetadata> {
        self.transactions.oldest()
    }

    /// The open transactions by first offset.
    pub fn ongoing_txns(&self) -> impl Iterator<Item = &TxnMetadata> {
        self.transactions.ongoing()
    }

    /// The ended transactions whose marker is not below the high watermark, by first offset.
    pub fn unreplicated_txns(&self) -> impl Iterator<Item = &TxnMetadata> {
        self.transactions.unreplicated()
    }

    /// Whether the oldest open transaction's producer has been silent for longer than any
    /// transaction may last (`ProducerStateManager.hasLateTransaction`).
    #[must_use]
    pub fn has_late_transaction(&self, now_ms: i64, transaction_max_timeout_ms: i64) -> bool {
        self.oldest_ongoing_txn()
            .and_then(|txn| self.last_entry(txn.producer_id))
            .map(ProducerStateEntry::last_timestamp)
            .is_some_and(|last| {
                last > 0
                    && now_ms.wrapping_sub(last)
                        > transaction_max_timeout_ms.wrapping_add(LATE_TRANSACTION_BUFFER_MS)
            })
    }

    /// Whether the producer has a transaction open in exactly this epoch
    /// (`UnifiedLog.hasOngoingTransaction`).
    #[must_use]
    pub fn has_ongoing_transaction(&self, producer_id: i64, producer_epoch: i16) -> bool {
        self.last_entry(producer_id).is_some_and(|entry| {
            entry.current_txn_first_offset().is_some() && entry.producer_epoch() == producer_epoch
        })
    }

    /// Whether a transaction begins with a batch that was taken in.
    #[must_use]
    pub fn begins_transaction(&self, header: &RecordBatchHeader) -> bool {
        let entry = self.last_entry(header.producer_id());
        let begun = entry.and_then(ProducerStateEntry::current_txn_first_offset);
        !header.attributes().is_control() && begun == Some(header.base_offset())
    }

    // ---- verification ---------------------------------------------------------------------

    /// Asks for the guard that a transactional batch has to show when it is appended, the
    /// sentinel if it needs none (`UnifiedLog.maybeStartTransactionVerification`).
    ///
    /// # Errors
    /// If the epoch is stale. Nothing else of the batch has been looked at by then.
    pub fn maybe_start_transaction_verification(
        &mut self,
        request: &VerificationRequest,
        now_ms: i64,
    ) -> Result<VerificationGuard, Refusal> {
        if let Some(entry) = self.last_entry(request.producer_id)
            && request.producer_epoch < entry.producer_epoch()
        {
            return Err(Refusal::StaleProducerEpoch {
                known: entry.producer_epoch(),
                found: request.producer_epoch,
            });
        }
        if self.has_ongoing_transaction(request.producer_id, request.producer_epoch) {
            return Ok(VerificationGuard::SENTINEL);
        }
        let entry = self.verification.get_or_create(request, now_ms);
        Ok(entry.verification_guard)
    }

    /// The verification under way for a producer
    /// (`ProducerStateManager.verificationStateEntry`).
    #[must_use]
    #[inline]
    pub fn verification_state_entry(&self, producer_id: i64) -> Option<&VerificationStateEntry> {
        self.verification.get(producer_id)
    }

    /// `ProducerStateManager.clearVerificationStateEntry`.
    #[inline]
    pub(super) fn clear_verification_state_entry(&mut self, producer_id: i64) {
        self.verification.remove(producer_id);
    }

    // ---- ageing, snapshots, truncation ----------------------------------------------------

    /// The periodic task: forgets idle producers and verifications
    /// (`ProducerStateManager.removeExpiredProducers`).
    pub fn remove_expired_producers(&mut self, expiration: &Expiration) {
        self.producers.retain(|entry| !expiration.is_expired(entry));
        self.verification
            .remove_expired(expiration.now_ms, expiration.producer_id_expiration_ms);
    }

    /// If something was taken in since the last snapshot, the offset at which one is due; the
    /// caller writes [`ProducerStateManager::snapshot_rows`] there
    /// (`ProducerStateManager.takeSnapshot`).
    #[must_use]
    pub fn take_snapshot(&mut self) -> Option<i64> {
        if self.last_map_offset <= self.last_snapshot_offset {
            return None;
        }
        self.snapshots.insert(self.last_map_offset);
        self.last_snapshot_offset = self.last_map_offset;
        Some(self.last_map_offset)
    }

    /// Takes in the rows of the snapshot at `snapshot_offset`, in file order. Without
    /// `expiration` no producer is too old (`ProducerStateManager.loadFromSnapshot`).
    ///
    /// Does not forget what is known already: see [`ProducerStateManager::begin_reload`].
    pub fn load_from_snapshot(
        &mut self,
        rows: impl IntoIterator<Item = ProducerSnapshotRow>,
        snapshot_offset: i64,
        expiration: Option<&Expiration>,
    ) {
        let rows = rows.into_iter();
        self.producers.reserve(rows.size_hint().0);
        for row in rows {
            let entry = ProducerStateEntry::from_snapshot_row(&row);
            if !expiration.is_some_and(|expiration| expiration.is_expired(&entry)) {
                self.load_producer_entry(entry);
            }
        }
        self.load_without_snapshot(snapshot_offset);
    }

    /// No usable snapshot: the state begins empty at the log start offset
    /// (`ProducerStateManager.loadFromSnapshot`).
    pub fn load_without_snapshot(&mut self, log_start_offset: i64) {
        self.last_snapshot_offset = log_start_offset;
        self.last_map_offset = log_start_offset;
    }

    /// `ProducerStateManager.loadProducerEntry`.
    fn load_producer_entry(&mut self, entry: ProducerStateEntry) {
        let producer_id = entry.producer_id();
        if let Some(first_offset) = entry.current_txn_first_offset() {
            self.transactions.start(TxnMetadata {
                producer_id,
                first_offset: LogOffsetMetadata::offset_only(first_offset),
                last_offset: None,
            });
        }
        self.producers.put(producer_id, entry);
    }

    /// Forgets producers and transactions before state is loaded anew for `log_end_offset`,
    /// unless it stands there already: then nothing is loaded. Returns whether to load
    /// (`ProducerStateManager.truncateAndReload`, after the snapshots out of range are gone).
    pub fn begin_reload(&mut self, log_start_offset: i64, log_end_offset: i64) -> bool {
        if log_end_offset == self.last_map_offset {
            self.on_log_start_offset_incremented(log_start_offset);
            return false;
        }
        self.forget_producers();
        true
    }

    /// The log start offset has moved up
    /// (`ProducerStateManager.onLogStartOffsetIncremented`).
    pub fn on_log_start_offset_incremented(&mut self, log_start_offset: i64) {
        self.transactions.remove_unreplicated(log_start_offset);
        self.last_map_offset = self.last_map_offset.max(log_start_offset);
        self.last_snapshot_offset = self.snapshots.latest().unwrap_or(log_start_offset);
    }

    /// Forgets everything; the log begins anew at `offset`. Returns the snapshots that go
    /// (`ProducerStateManager.truncateFullyAndStartAt`).
    pub fn truncate_fully_and_start_at(&mut self, offset: i64) -> Vec<i64> {
        self.forget_producers();
        self.last_snapshot_offset = 0;
        self.last_map_offset = offset;
        self.snapshots.remove_all()
    }

    fn forget_producers(&mut self) {
        self.producers.clear();
        self.transactions.clear();
    }
}
