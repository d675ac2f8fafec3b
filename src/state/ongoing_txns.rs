//! The open transactions of a partition, by first offset.
//!
//! Kafka keeps them in a `TreeMap` (`ProducerStateManager.ongoingTxns`). Here they are a queue:
//! in a log the next one to begin has the highest first offset, so that it goes to the end, and
//! the ones that end are mostly near the front. Only those that come out of order, from a snapshot
//! or a damaged log, take a tree.

use std::collections::{BTreeMap, VecDeque};

use super::transactions::TxnMetadata;

/// Ended transactions that may lie in the queue beside as many open ones.
const ENDED_MAX: usize = 64;
/// Guesses where a transaction lies in the queue, one for each of the lower bits of its first
/// offset: a power of two, and more than the transactions that are open at once in most partitions.
const GUESSES: usize = 1024;

/// A place in the queue; its transaction may have ended.
#[derive(Clone, Copy, Debug)]
struct Place {
    first_offset: i64,
    txn: Option<TxnMetadata>,
}

/// A map from first offset to transaction, in the order of the offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct OngoingTxns {
    /// Ascending by first offset; the first place, if any, has a transaction that is open.
    queue: VecDeque<Place>,
    /// Places that have left the front of the queue; wraps.
    passed: u32,
    /// How many places came before the one that was entered last for these lower bits, if any was;
    /// wraps. A look there spares the search in most cases.
    guesses: Vec<u32>,
    /// Places of the queue whose transaction has ended.
    ended: usize,
    /// Those that began below the end of the queue and have no place in it.
    others: BTreeMap<i64, TxnMetadata>,
}

impl OngoingTxns {
    /// Enters a transaction, in place of another with the same first offset.
    #[inline]
    pub(super) fn insert(&mut self, txn: TxnMetadata) {
        let first_offset = txn.first_offset.message_offset;
        let is_last = self
            .queue
            .back()
            .is_none_or(|last| last.first_offset < first_offset);
        if is_last && self.others.is_empty() {
            self.note_place(first_offset);
            self.queue.push_back(Place {
                first_offset,
                txn: Some(txn),
            });
        } else {
            self.insert_out_of_order(first_offset, txn);
        }
    }

    #[inline]
    fn note_place(&mut self, first_offset: i64) {
        self.guesses.resize(GUESSES, 0);
        #[expect(clippy::cast_possible_truncation, reason = "it is a guess")]
        let number = (self.queue.len() as u32).wrapping_add(self.passed);
        if let Some(guess) = self.guesses.get_mut(lower_bits(first_offset)) {
            *guess = number;
        }
    }

    #[cold]
    fn insert_out_of_order(&mut self, first_offset: i64, txn: TxnMetadata) {
        match self.place_mut(first_offset) {
            Some(place) => {
                if place.txn.replace(txn).is_none() {
                    self.ended -= 1;
                }
            }
            None => {
                self.others.insert(first_offset, txn);
            }
        }
    }

    /// Takes out the transaction that began at `first_offset`.
    #[inline]
    pub(super) fn remove(&mut self, first_offset: i64) -> Option<TxnMetadata> {
        let Some(txn) = self.place_mut(first_offset).and_then(|it| it.txn.take()) else {
            return self.others.remove(&first_offset);
        };
        self.ended += 1;
        while self.queue.front().is_some_and(|first| first.txn.is_none()) {
            self.queue.pop_front();
            self.passed = self.passed.wrapping_add(1);
            self.ended -= 1;
        }
        if self.ended > ENDED_MAX && self.ended > self.queue.len() / 2 {
            self.queue.retain(|place| place.txn.is_some());
            self.ended = 0;
        }
        Some(txn)
    }

    #[inline]
    fn place_mut(&mut self, first_offset: i64) -> Option<&mut Place> {
        let at = self.guess(first_offset).or_else(|| {
            let found = self
                .queue
                .binary_search_by_key(&first_offset, |place| place.first_offset);
            found.ok()
        })?;
        self.queue.get_mut(at)
    }

    /// Where `first_offset` lies, if the guess is right.
    #[inline]
    fn guess(&self, first_offset: i64) -> Option<usize> {
        let number = self.guesses.get(lower_bits(first_offset))?;
        let at = number.wrapping_sub(self.passed) as usize;
        let place = self.queue.get(at)?;
        (place.first_offset == first_offset).then_some(at)
    }

    /// The one with the lowest first offset.
    pub(super) fn first(&self) -> Option<&TxnMetadata> {
        self.first_but(|_| false)
    }

    /// The one with the lowest first offset among those that are not of `producer_id`.
    pub(super) fn first_of_others(&self, producer_id: i64) -> Option<&TxnMetadata> {
        self.first_but(|txn| txn.producer_id == producer_id)
    }

    fn first_but(&self, is_left_out: impl Fn(&TxnMetadata) -> bool) -> Option<&TxnMetadata> {
        let queued = self.queued().find(|txn| !is_left_out(txn));
        let other = self.others.values().find(|txn| !is_left_out(txn));
        queued
            .into_iter()
            .chain(other)
            .min_by_key(|txn| txn.first_offset.message_offset)
    }

    fn queued(&self) -> impl Iterator<Item = &TxnMetadata> {
        self.queue.iter().filter_map(|place| place.txn.as_ref())
    }

    /// All of them by first offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TxnMetadata> {
        let mut all: Vec<&TxnMetadata> = self.queued().chain(self.others.values()).collect();
        all.sort_by_key(|txn| txn.first_offset.message_offset);
        all.into_iter()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
fn lower_bits(first_offset: i64) -> usize {
    first_offset.cast_unsigned() as usize & (GUESSES - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::state::LogOffsetMetadata;

    fn txn(producer_id: i64, first_offset: i64) -> TxnMetadata {
        TxnMetadata {
            producer_id,
            first_offset: LogOffsetMetadata::offset_only(first_offset),
            last_offset: None,
        }
    }

    fn step() -> impl Strategy<Value = (bool, i64, i64)> {
        // Few enough offsets to meet each other, and many that only go up.
        (
            any::<bool>(),
            0..5_i64,
            prop_oneof![0..60_i64, 60..4000_i64],
        )
    }

    proptest! {
        /// Whatever comes in whatever order, it is a map by first offset.
        #[test]
        fn is_a_tree_map(
            steps in proptest::collection::vec(step(), 0..400),
            grows in any::<bool>(),
        ) {
            let mut map = BTreeMap::new();
            let mut txns = OngoingTxns::default();
            for (index, (removes, producer_id, offset)) in steps.into_iter().enumerate() {
                let index = i64::try_from(index).unwrap();
                let offset = if grows && offset >= 60 { index * 10 } else { offset };
                if removes {
                    prop_assert_eq!(txns.remove(offset), map.remove(&offset));
                } else {
                    txns.insert(txn(producer_id, offset));
                    map.insert(offset, txn(producer_id, offset));
                }
                prop_assert_eq!(txns.first(), map.values().next());
                let of_others = map.values().find(|it| it.producer_id != producer_id);
                prop_assert_eq!(txns.first_of_others(producer_id), of_others);
            }
            prop_assert!(txns.iter().eq(map.values()));
        }
    }

    #[test]
    fn a_transaction_left_open_does_not_keep_those_that_ended() {
        let mut txns = OngoingTxns::default();
        txns.insert(txn(1, 0));
        for offset in 1..100_000 {
            txns.insert(txn(2, offset));
            assert_eq!(txns.remove(offset), Some(txn(2, offset)));
        }
        assert!(txns.queue.len() <= 2 * ENDED_MAX, "{}", txns.queue.len());
        assert_eq!(txns.first(), Some(&txn(1, 0)));
    }
}
