//! Transactions that the two sides do not have alike.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::BatchPlaceRow;
use super::kind::{Side, Sides};
use super::replica::Replica;
use crate::report::transactions::{TxnEvent, TxnMarker};

/// Transactions that are kept; more are only counted.
const MAX_LISTED: usize = 1000;

/// The transaction a batch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TxnKey {
    first_offset: i64,
    producer_id: i64,
}

/// A transaction, as a batch of it shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TxnAt {
    key: TxnKey,
    producer_epoch: i16,
    /// The marker, if this batch is the one.
    end: Option<TxnMarker>,
}

/// A transaction as one side has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxnSide {
    /// `COMMITTED`, `ABORTED` or `OPEN`.
    pub state: &'static str,
    /// Epoch of its data.
    pub producer_epoch: i16,
    /// Offset of its marker, if it has ended.
    pub marker_offset: Option<i64>,
    /// Batches that are on this side alone, the marker's too.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of them.
    pub size_in_bytes: u64,
}

impl TxnSide {
    fn open(producer_epoch: i16) -> Self {
        Self {
            state: "OPEN",
            producer_epoch,
            marker_offset: None,
            batches: 0,
            records: 0,
            size_in_bytes: 0,
        }
    }

    fn end(&mut self, marker: &TxnMarker) {
        self.state = if marker.is_abort() {
            "ABORTED"
        } else {
            "COMMITTED"
        };
        self.marker_offset = Some(marker.offset);
    }
}

/// A transaction that the two sides do not have alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DiffTxn {
    /// The producer.
    pub producer_id: i64,
    /// Offset of the first batch.
    pub first_offset: i64,
    /// Whether both sides have it and it ended in two ways, or only on one.
    pub outcome_differs: bool,
    /// As the left side has it; null if it has not.
    pub left: Option<TxnSide>,
    /// As the right side has it; null if it has not.
    pub right: Option<TxnSide>,
}

/// Collects the transactions of batches that are on one side alone.
#[derive(Debug, Default)]
pub(super) struct TxnTable {
    txns: BTreeMap<TxnKey, Sides<Option<TxnSide>>>,
    pub(super) not_listed: u64,
}

/// The transaction that the newest batch of a side belongs to, if there is one.
pub(super) fn transaction_at(replica: &Replica<'_>, place: &BatchPlaceRow) -> Option<TxnAt> {
    let producer_id = place.producer_id.filter(|_| place.is_transactional)?;
    let (transaction, end) = match replica.event {
        TxnEvent::Ended => {
            let ended = replica.txns.ended()?;
            (ended.transaction, Some(ended.marker))
        }
        TxnEvent::Nothing | TxnEvent::EmptyTransaction | TxnEvent::Refused => {
            (replica.txns.open(producer_id)?, None)
        }
    };
    Some(TxnAt {
        key: TxnKey {
            first_offset: transaction.first_offset,
            producer_id,
        },
        producer_epoch: transaction.producer_epoch,
        end,
    })
}

impl TxnTable {
    /// A batch of a transaction is on one side alone.
    pub(super) fn add(&mut self, side: Side, at: TxnAt, place: &BatchPlaceRow, records: u64) {
        if self.txns.len() >= MAX_LISTED && !self.txns.contains_key(&at.key) {
            self.not_listed += 1;
            return;
        }
        let txn = self.txns.entry(at.key).or_default();
        let txn = txn
            .of_mut(side)
            .get_or_insert_with(|| TxnSide::open(at.producer_epoch));
        txn.batches += 1;
        txn.records += records;
        txn.size_in_bytes += place.size_in_bytes;
        if let Some(marker) = &at.end {
            txn.end(marker);
        }
    }

    /// A transaction ended on a side; it may be one of these.
    pub(super) fn ended(&mut self, side: Side, replica: &Replica<'_>) {
        if self.txns.is_empty() || replica.event != TxnEvent::Ended {
            return;
        }
        let Some(ended) = replica.txns.ended() else {
            return;
        };
        let key = TxnKey {
            first_offset: ended.transaction.first_offset,
            producer_id: ended.marker.producer_id,
        };
        if let Some(txn) = self.txns.get_mut(&key) {
            let txn = txn
                .of_mut(side)
                .get_or_insert_with(|| TxnSide::open(ended.transaction.producer_epoch));
            txn.end(&ended.marker);
        }
    }

    /// The transactions, by first offset, with what each side came to in the end.
    pub(super) fn finish(self, replicas: &Sides<Replica<'_>>) -> Vec<DiffTxn> {
        let mut rows = Vec::new();
        for (key, mut txn) in self.txns {
            for side in Side::BOTH {
                let open = replicas.of(side).txns.open(key.producer_id);
                if let Some(open) = open.filter(|open| open.first_offset == key.first_offset) {
                    txn.of_mut(side)
                        .get_or_insert_with(|| TxnSide::open(open.producer_epoch));
                }
            }
            let states = (
                txn.left.as_ref().map(|it| it.state),
                txn.right.as_ref().map(|it| it.state),
            );
            rows.push(DiffTxn {
                producer_id: key.producer_id,
                first_offset: key.first_offset,
                outcome_differs: matches!(states, (Some(left), Some(right)) if left != right),
                left: txn.left,
                right: txn.right,
            });
        }
        rows
    }
}
