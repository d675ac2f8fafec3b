//! Transactions of a partition: those under way, and those whose end is not replicated yet.

use std::collections::BTreeMap;

use super::log_offset_metadata::LogOffsetMetadata;
use super::ongoing_txns::OngoingTxns;
use super::refusal::Refusal;

/// A transaction that is open, or has ended above the high watermark (`TxnMetadata`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnMetadata {
    /// Whose transaction.
    pub producer_id: i64,
    /// Base offset of its first batch.
    pub first_offset: LogOffsetMetadata,
    /// Offset of its marker, once there is one.
    pub last_offset: Option<i64>,
}

/// A transaction that a marker has ended (`CompletedTxn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTxn {
    /// Whose transaction.
    pub producer_id: i64,
    /// Base offset of its first batch.
    pub first_offset: i64,
    /// Offset of its marker.
    pub last_offset: i64,
    /// Whether the marker is an ABORT.
    pub is_aborted: bool,
}

/// The transactions of a partition, by first offset.
#[derive(Clone, Debug, Default)]
pub(super) struct Transactions {
    ongoing: OngoingTxns,
    /// Ended, with a marker that is not below the high watermark.
    unreplicated: BTreeMap<i64, TxnMetadata>,
    /// No unreplicated transaction has its marker below this.
    lowest_marker: i64,
    /// Markers below this are replicated when they come; `None` if that is not known before.
    replicated_before: Option<i64>,
}

impl Transactions {
    /// Enters an open transaction.
    #[inline]
    pub(super) fn start(&mut self, txn: TxnMetadata) {
        self.ongoing.insert(txn);
    }

    /// Moves a transaction from the open to the unreplicated ones
    /// (`ProducerStateManager.completeTxn`).
    pub(super) fn complete(&mut self, completed: &CompletedTxn) -> Result<(), Refusal> {
        let Some(mut txn) = self.ongoing.remove(completed.first_offset) else {
            return Err(Refusal::TransactionNotStarted {
                producer_id: completed.producer_id,
                first_offset: completed.first_offset,
            });
        };
        let is_replicated = self
            .replicated_before
            .is_some_and(|end| completed.last_offset < end);
        if is_replicated {
            return Ok(());
        }
        txn.last_offset = Some(completed.last_offset);
        if self.unreplicated.is_empty() || completed.last_offset < self.lowest_marker {
            self.lowest_marker = completed.last_offset;
        }
        self.unreplicated.insert(completed.first_offset, txn);
        Ok(())
    }

    /// Takes out an open transaction, as if it had never begun.
    pub(super) fn forget(&mut self, first_offset: i64) {
        self.ongoing.remove(first_offset);
    }

    /// Transactions whose marker lies below `offset` do not become unreplicated ones.
    pub(super) fn take_for_replicated(&mut self, offset: i64) {
        self.replicated_before = Some(offset);
    }

    /// Drops unreplicated transactions whose marker is below `offset`
    /// (`ProducerStateManager.removeUnreplicatedTransactions`).
    pub(super) fn remove_unreplicated(&mut self, offset: i64) {
        if self.unreplicated.is_empty() || self.lowest_marker >= offset {
            return;
        }
        let mut lowest_marker = i64::MAX;
        self.unreplicated.retain(|_, txn| {
            let marker = txn.last_offset.unwrap_or(i64::MAX);
            if marker < offset {
                return false;
            }
            lowest_marker = lowest_marker.min(marker);
            true
        });
        self.lowest_marker = lowest_marker;
    }

    /// First offset of the oldest open or unreplicated transaction
    /// (`ProducerStateManager.firstUnstableOffset`).
    pub(super) fn first_unstable_offset(&self) -> Option<LogOffsetMetadata> {
        let undecided = self.ongoing.first().map(|txn| txn.first_offset);
        let unreplicated = self.unreplicated.values().next();
        match (undecided, unreplicated.map(|txn| txn.first_offset)) {
            (Some(undecided), Some(unreplicated)) => {
                if undecided.message_offset < unreplicated.message_offset {
                    Some(undecided)
                } else {
                    Some(unreplicated)
                }
            }
            (undecided, unreplicated) => undecided.or(unreplicated),
        }
    }

    /// The oldest open transaction.
    pub(super) fn oldest(&self) -> Option<&TxnMetadata> {
        self.ongoing.first()
    }

    /// The last stable offset as a `.txnindex` row has it: before `completed` is taken from the
    /// open ones, the first offset of another producer's open transaction, else the offset behind
    /// the marker. High watermark and unreplicated transactions play no part
    /// (`ProducerStateManager.lastStableOffset`).
    pub(super) fn last_stable_offset(&self, completed: &CompletedTxn) -> i64 {
        self.ongoing
            .first_of_others(completed.producer_id)
            .map_or(completed.last_offset.wrapping_add(1), |txn| {
                txn.first_offset.message_offset
            })
    }

    pub(super) fn ongoing(&self) -> impl Iterator<Item = &TxnMetadata> {
        self.ongoing.iter()
    }

    pub(super) fn unreplicated(&self) -> impl Iterator<Item = &TxnMetadata> {
        self.unreplicated.values()
    }

    pub(super) fn has_unreplicated(&self) -> bool {
        !self.unreplicated.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.ongoing.clear();
        self.unreplicated.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(producer_id: i64, first_offset: i64) -> TxnMetadata {
        TxnMetadata {
            producer_id,
            first_offset: LogOffsetMetadata::offset_only(first_offset),
            last_offset: None,
        }
    }

    fn aborted(producer_id: i64, first_offset: i64, last_offset: i64) -> CompletedTxn {
        CompletedTxn {
            producer_id,
            first_offset,
            last_offset,
            is_aborted: true,
        }
    }

    #[test]
    fn ended_transaction_stays_unstable_until_its_marker_is_replicated() {
        let mut txns = Transactions::default();
        txns.start(open(1, 10));
        txns.complete(&aborted(1, 10, 15)).unwrap();
        txns.remove_unreplicated(15);
        assert_eq!(txns.first_unstable_offset().unwrap().message_offset, 10);
        txns.remove_unreplicated(16);
        assert_eq!(txns.first_unstable_offset(), None);
    }

    #[test]
    fn what_is_taken_for_replicated_is_forgotten_as_it_ends() {
        let mut txns = Transactions::default();
        txns.take_for_replicated(16);
        txns.start(open(1, 10));
        txns.start(open(2, 12));
        txns.complete(&aborted(1, 10, 15)).unwrap();
        assert!(!txns.has_unreplicated());
        assert_eq!(txns.first_unstable_offset().unwrap().message_offset, 12);
        txns.complete(&aborted(2, 12, 16)).unwrap();
        assert_eq!(txns.first_unstable_offset().unwrap().message_offset, 12);
        assert!(txns.complete(&aborted(1, 10, 17)).is_err());
    }

    #[test]
    fn row_of_an_abort_names_the_next_open_transaction_of_another_producer() {
        let mut txns = Transactions::default();
        txns.start(open(1, 10));
        assert_eq!(txns.last_stable_offset(&aborted(1, 10, 15)), 16);
        txns.start(open(2, 12));
        assert_eq!(txns.last_stable_offset(&aborted(1, 10, 15)), 12);
    }

    #[test]
    fn ending_what_is_not_open_is_refused() {
        let refusal = Transactions::default()
            .complete(&aborted(1, 10, 15))
            .unwrap_err();
        assert_eq!(refusal.rule(), "transaction-not-started");
        assert_eq!(refusal.exception(), "IllegalArgumentException");
    }
}
