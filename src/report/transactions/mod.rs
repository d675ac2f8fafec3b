//! The batches of a partition folded into transactions.
//!
//! When a transaction begins and ends is for [`crate::state`] to say; this module adds up what
//! lies in between. Data and markers belong together by producer id alone: under
//! `transaction.version` 2 a marker carries the data's epoch plus one.

mod behind_holes;
mod below_start;
mod holes;
mod transaction;

use below_start::BelowStart;
use holes::Holes;

use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::RecordBatchHeader;
use crate::format::{NO_TIMESTAMP, known};
use crate::log::Error;
use crate::log::batches::{Batch, Entry};
use crate::log::partition_walk::SegmentAt;
use crate::state::{
    AbortedTxnRow, ProducerSnapshotRow, ProducerStateManager, Refusal, recover_batch,
};

pub(super) use behind_holes::BehindHoles;
pub use transaction::{MissingMarker, Place, Totals, Transaction, TxnMarker};

/// Places noted within one transaction where a marker may be missing; more are only counted. A
/// log can be made to have one at every batch.
const MAX_MISSING_MARKERS: usize = 100;

/// In place of the number of a slot: there is none.
const NO_SLOT: u32 = u32::MAX;

pub(super) fn known_time(timestamp: i64) -> Option<i64> {
    known(timestamp, NO_TIMESTAMP)
}

/// Of a batch without a marker: whether it has a control record all the same, one that cannot be
/// read.
#[inline]
pub(super) fn is_unreadable_marker(header: &RecordBatchHeader) -> bool {
    let attributes = header.attributes();
    attributes.is_control() && attributes.is_transactional() && header.records_count() > 0
}

/// Whether it is a marker that the cleaner has left without its record.
#[inline]
pub(super) fn is_emptied_marker(header: &RecordBatchHeader) -> bool {
    let attributes = header.attributes();
    attributes.is_control() && attributes.is_transactional() && header.records_count() == 0
}

/// Offset of the last record of an entry; `None` in damage.
#[inline]
pub(super) fn last_offset(entry: &Entry<'_>) -> Option<i64> {
    match entry {
        Entry::Batch(batch) => Some(batch.header.last_offset()),
        Entry::Legacy(entry) => Some(entry.header.offset()),
        Entry::Damage(_) => None,
    }
}

/// What a batch did. What it did it to is kept in the fold, so that the many batches that end
/// nothing do not pay for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnEvent {
    /// Nothing to a transaction, or went on with one, or began one.
    Nothing,
    /// Ended one: [`TransactionFold::ended`].
    Ended,
    /// A marker of a transaction that has no data here, the marker in
    /// [`TransactionFold::ended`]. By design it has no row in the `.txnindex`.
    EmptyTransaction,
    /// A batch that would stop a broker which rebuilds its state.
    Refused,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct EndedTxn<'t> {
    /// What lay before the marker; of no meaning if the transaction has no data here.
    pub transaction: &'t Transaction,
    /// The marker.
    pub marker: TxnMarker,
    /// The row of the `.txnindex`, if it was aborted.
    pub aborted: Option<AbortedTxnRow>,
}

/// The end that came last: its transaction stays in the slot until the producer begins another.
#[derive(Debug)]
struct Ended {
    slot: usize,
    marker: TxnMarker,
    aborted: Option<AbortedTxnRow>,
}

/// Folds batches, in the order of the log, into transactions.
///
/// Keeps what is open, and for each producer what its last marker was; ended transactions are
/// handed out and forgotten.
#[derive(Debug, Default)]
pub struct TransactionFold {
    manager: ProducerStateManager,
    slots: Vec<Slot>,
    /// Places in `slots` by the manager's number of the producer; [`NO_SLOT`] of those without.
    slot_of: Vec<u32>,
    holes: Holes,
    refused: u64,
    last_refusal: Option<Refusal>,
    ended: Option<Ended>,
    high_watermark: Option<i64>,
    /// What the log start may have made a broker forget; `None` once that is decided.
    below_start: Option<Box<BelowStart>>,
}

/// What is known of one transactional producer.
#[derive(Debug, Default)]
struct Slot {
    is_open: bool,
    transaction: Transaction,
    /// Type and epoch of the producer's last batch, if that was a marker.
    last_marker: Option<(ControlRecordType, i16)>,
    /// Holes up to the last batch of the open transaction.
    holes_seen: u64,
    /// Behind it there was a marker that could not be read.
    has_unreadable_marker: bool,
    /// Behind it there was an ABORT, of which only the transaction index knows: its offset.
    lost_marker: Option<i64>,
}

impl TransactionFold {
    /// Nothing is known before the first batch.
    #[must_use]
    pub fn from_scratch(log_start_offset: i64) -> Self {
        let mut fold = Self::default();
        fold.manager.load_without_snapshot(log_start_offset);
        fold.with_high_watermark(None)
    }

    /// Goes on from the snapshot at `offset`.
    #[must_use]
    pub fn on_top_of(rows: Vec<ProducerSnapshotRow>, offset: i64) -> Self {
        let mut fold = Self::default();
        fold.manager.load_from_snapshot(rows, offset, None);
        let open: Vec<Transaction> = fold
            .manager
            .ongoing_txns()
            .map(|txn| Transaction::from_snapshot(txn, &fold.manager))
            .collect();
        for transaction in open {
            let index = fold.slot(transaction.producer_id);
            if let Some(slot) = fold.slots.get_mut(index) {
                slot.is_open = true;
                slot.transaction = transaction;
            }
        }
        fold.with_high_watermark(None)
    }

    /// Ended transactions with a marker below this are forgotten at once; all are if it is not
    /// said, as if the high watermark were at the log end.
    #[must_use]
    pub fn with_high_watermark(mut self, high_watermark: Option<i64>) -> Self {
        self.high_watermark = high_watermark;
        self.manager
            .take_for_replicated(high_watermark.unwrap_or(i64::MAX));
        self
    }

    /// The producers and transactions after the batches so far.
    #[must_use]
    pub fn manager(&self) -> &ProducerStateManager {
        &self.manager
    }

    /// The producers and transactions after the last batch.
    #[must_use]
    pub fn into_manager(self) -> ProducerStateManager {
        self.manager
    }

    /// The transaction, or the marker without one, that ended last.
    #[must_use]
    pub fn ended(&self) -> Option<EndedTxn<'_>> {
        let ended = self.ended.as_ref()?;
        Some(EndedTxn {
            transaction: &self.slots.get(ended.slot)?.transaction,
            marker: ended.marker,
            aborted: ended.aborted,
        })
    }

    /// Batches that would stop a broker which rebuilds its state.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The offset from which on, up to the last entry, no offset is missing, no byte damaged and no
    /// marker in doubt; `None` if that is not so anywhere.
    #[must_use]
    pub(super) fn whole_from(&self) -> Option<i64> {
        self.holes.whole_from()
    }

    /// The rule that the newest of them breaks.
    #[must_use]
    pub fn last_refusal(&self) -> Option<Refusal> {
        self.last_refusal
    }

    /// The open transaction of a producer.
    #[must_use]
    pub fn open(&self, producer_id: i64) -> Option<&Transaction> {
        let number = self.manager.producer_number(producer_id)?;
        let slot = self.slots.get(*self.slot_of.get(number)? as usize)?;
        slot.is_open.then_some(&slot.transaction)
    }

    /// The open transactions, in no order.
    pub fn all_open(&self) -> impl Iterator<Item = &Transaction> {
        self.slots
            .iter()
            .filter(|slot| slot.is_open)
            .map(|slot| &slot.transaction)
    }

    /// Takes in what lies at one place of the log.
    ///
    /// # Errors
    /// If a marker cannot be read.
    #[inline]
    pub fn take(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) -> Result<TxnEvent, Error> {
        match entry {
            Entry::Batch(batch) => Ok(self.take_batch(at.index, batch, batch.marker()?)),
            Entry::Legacy(entry) => {
                // One message, or a wrapper that has the offset of its last.
                self.holes.pass_message(entry.header.offset());
                Ok(TxnEvent::Nothing)
            }
            Entry::Damage(_) => {
                self.holes.damage();
                Ok(TxnEvent::Nothing)
            }
        }
    }

    /// The same of a batch; `marker` is what it says if it is one.
    #[inline]
    pub(super) fn take_batch(
        &mut self,
        segment: usize,
        batch: &Batch<'_>,
        marker: Option<EndTransactionMarker>,
    ) -> TxnEvent {
        let header = batch.header;
        self.holes.pass(header.base_offset(), header.last_offset());
        if !header.has_producer_id() {
            return TxnEvent::Nothing;
        }
        let is_refused = self.below_start.is_some() && self.decide_below_start(header);
        let place = Place {
            segment,
            position: batch.position,
        };
        let attributes = header.attributes();
        if attributes.is_control()
            && let Some(marker) = marker
        {
            let event = self.take_marker(header, marker, place);
            if event == TxnEvent::EmptyTransaction && !batch.is_plainly_valid() {
                self.holes.damaged_marker(header.base_offset());
            }
            return event;
        }
        if self.recover(header, None).is_none() {
            return TxnEvent::Refused;
        }
        // The cleaner leaves control batches without a record; they end nothing.
        if attributes.is_transactional() && !attributes.is_control() {
            self.add_data(header, place);
        } else if is_unreadable_marker(header) {
            self.pass_unreadable_marker(header);
        }
        if is_refused {
            return TxnEvent::Refused;
        }
        TxnEvent::Nothing
    }

    #[cold]
    fn pass_unreadable_marker(&mut self, header: &RecordBatchHeader) {
        self.holes.unreadable(header.base_offset());
        if let Some(slot) = self.known_slot(header.producer_id()) {
            slot.has_unreadable_marker = slot.is_open;
        }
    }

    /// A row of the transaction index ends here, where no batch is: the marker is gone, and what
    /// the producer writes next is another transaction.
    pub(super) fn note_lost_marker(&mut self, row: AbortedTxnRow) {
        let Some(slot) = self.known_slot(row.producer_id).filter(|it| it.is_open) else {
            return;
        };
        let txn = &slot.transaction;
        let before = txn.missing_markers.last().map(|it| it.offset);
        let begins = before.unwrap_or(txn.first_offset);
        let ends = txn.last_offset.unwrap_or(txn.first_offset);
        if (begins..=ends).contains(&row.first_offset) && row.last_offset > ends {
            slot.lost_marker = Some(row.last_offset);
            self.holes.claim(row.last_offset);
        }
    }

    /// The slot of a producer, if it has one.
    fn known_slot(&mut self, producer_id: i64) -> Option<&mut Slot> {
        let number = self.manager.producer_number(producer_id)?;
        let slot = *self.slot_of.get(number)?;
        self.slots.get_mut(slot as usize)
    }

    /// Passes a batch on to the state; `None` if it would stop a broker.
    #[inline]
    fn recover(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
    ) -> Option<Option<AbortedTxnRow>> {
        let mut row = None;
        match recover_batch(&mut self.manager, header, marker, |it| row = Some(it)) {
            Ok(()) => Some(row),
            Err(refusal) => {
                self.refused += 1;
                self.last_refusal = Some(refusal);
                None
            }
        }
    }

    #[inline]
    fn add_data(&mut self, header: &RecordBatchHeader, place: Place) {
        let producer_id = header.producer_id();
        let index = self.slot(producer_id);
        let Self {
            manager,
            slots,
            holes,
            ..
        } = self;
        let Some(slot) = slots.get_mut(index) else {
            return;
        };
        if slot.is_open {
            let txn = &mut slot.transaction;
            let lost_marker = slot.lost_marker.take();
            let is_certain = txn.last_producer_epoch != header.producer_epoch()
                || slot.has_unreadable_marker
                || lost_marker.is_some();
            let missing_offset = lost_marker.or_else(|| holes.single_since(slot.holes_seen));
            let last_before = txn.last_offset.unwrap_or(txn.first_offset);
            if (is_certain || holes.has_singles_since(slot.holes_seen))
                && txn.missing_markers.len() < MAX_MISSING_MARKERS
            {
                if let Some(offset) = missing_offset.filter(|_| is_certain) {
                    holes.claim(offset);
                }
                let before = txn.missing_markers.last().map(|it| it.offset);
                let first_before = before.unwrap_or(txn.first_offset);
                txn.missing_markers.push(MissingMarker {
                    data_before: (first_before, last_before),
                    offset: header.base_offset(),
                    missing_offset,
                    is_certain,
                    is_in_index: lost_marker.is_some(),
                    is_behind_damage: holes.is_damaged_behind(last_before),
                    totals_before: txn.totals(),
                });
            }
        } else {
            let first_offset = manager
                .last_entry(producer_id)
                .and_then(|entry| entry.current_txn_first_offset());
            slot.is_open = true;
            slot.transaction = Transaction::begin(
                producer_id,
                first_offset.unwrap_or_else(|| header.base_offset()),
            );
        }
        slot.last_marker = None;
        slot.has_unreadable_marker = false;
        slot.holes_seen = holes.count;
        slot.transaction.add(header, place);
    }

    fn take_marker(
        &mut self,
        header: &RecordBatchHeader,
        marker: EndTransactionMarker,
        place: Place,
    ) -> TxnEvent {
        let producer_id = header.producer_id();
        let before = self.manager.last_entry(producer_id);
        let previous_coordinator_epoch = before.map_or(-1, |entry| entry.coordinator_epoch());
        let recovered = self.recover(header, Some(marker));
        let index = self.slot(producer_id);
        let Some(slot) = self.slots.get_mut(index) else {
            return TxnEvent::Refused;
        };
        let this = (marker.control_type, header.producer_epoch());
        let marker = TxnMarker {
            producer_id,
            producer_epoch: header.producer_epoch(),
            offset: header.base_offset(),
            control_type: marker.control_type,
            coordinator_epoch: marker.coordinator_epoch,
            previous_coordinator_epoch,
            timestamp: header.max_timestamp(),
            place,
            repeats_previous: slot.last_marker == Some(this),
        };
        slot.last_marker = Some(this);
        slot.lost_marker = None;
        slot.transaction.may_have_ended = std::mem::take(&mut slot.has_unreadable_marker);
        let was_open = std::mem::take(&mut slot.is_open);
        let event = match (&recovered, was_open) {
            (None, _) => return TxnEvent::Refused,
            (Some(_), true) => TxnEvent::Ended,
            (Some(_), false) => TxnEvent::EmptyTransaction,
        };
        self.ended = Some(Ended {
            slot: index,
            marker,
            aborted: recovered.flatten(),
        });
        event
    }

    /// The slot of a producer that the manager knows, made if there is none.
    #[inline]
    fn slot(&mut self, producer_id: i64) -> usize {
        let Some(number) = self.manager.producer_number(producer_id) else {
            return usize::MAX;
        };
        match self.slot_of.get(number) {
            Some(slot) if *slot != NO_SLOT => *slot as usize,
            _ => self.new_slot(number),
        }
    }

    #[cold]
    fn new_slot(&mut self, number: usize) -> usize {
        let index = self.slots.len();
        // Four billion producers do not fit into memory, so the number always fits.
        let slot = u32::try_from(index).unwrap_or(NO_SLOT);
        if self.slot_of.len() <= number {
            self.slot_of.resize(number + 1, NO_SLOT);
        }
        if let Some(place) = self.slot_of.get_mut(number) {
            *place = slot;
        }
        self.slots.push(Slot::default());
        index
    }
}
