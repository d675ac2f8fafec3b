//! The open transactions of a partition, by first offset.
//!
//! Kafka keeps them in a `TreeMap` (`ProducerStateManager.ongoingTxns`). Here they are a linked
//! list, whose places are found by the lower bits of the first offset: in a log the next one to
//! begin has the highest first offset, so that it goes to the end, and ending one takes it out
//! where it is. Only those that come out of order, from a snapshot or a damaged log, and those
//! whose lower bits are taken go into a tree.

use std::collections::BTreeMap;

use super::transactions::TxnMetadata;

/// How many lower bits are told apart: a power of two, and more than the transactions that are
/// open at once in most partitions.
const BUCKETS: usize = 1024;
/// No place.
const NONE: u32 = u32::MAX;

/// A place in the list, or a free one.
#[derive(Clone, Copy, Debug)]
struct Place {
    txn: TxnMetadata,
    before: u32,
    /// In a free place the next free one.
    after: u32,
}

/// A map from first offset to transaction, in the order of the offsets.
#[derive(Clone, Debug)]
pub(super) struct OngoingTxns {
    places: Vec<Place>,
    /// The place of the transaction with these lower bits, or [`NONE`]; empty before the first.
    /// Every place of the list is in its bucket.
    buckets: Vec<u32>,
    first: u32,
    last: u32,
    first_free: u32,
    /// Those that are not in the list.
    others: BTreeMap<i64, TxnMetadata>,
}

impl Default for OngoingTxns {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            buckets: Vec::new(),
            first: NONE,
            last: NONE,
            first_free: NONE,
            others: BTreeMap::new(),
        }
    }
}

impl OngoingTxns {
    /// Enters a transaction, in place of another with the same first offset.
    #[inline]
    pub(super) fn insert(&mut self, txn: TxnMetadata) {
        let first_offset = txn.first_offset.message_offset;
        let is_behind_list = self
            .place(self.last)
            .is_none_or(|last| last.txn.first_offset.message_offset < first_offset);
        let is_behind_others = self
            .others
            .last_key_value()
            .is_none_or(|(last, _)| *last < first_offset);
        if is_behind_list && is_behind_others && self.bucket(first_offset) == NONE {
            self.push(txn);
        } else {
            self.insert_elsewhere(txn);
        }
    }

    /// Enters a transaction at the end of the list.
    #[inline]
    fn push(&mut self, txn: TxnMetadata) {
        let place = Place {
            txn,
            before: self.last,
            after: NONE,
        };
        let number = self.first_free;
        let number = match self.places.get_mut(number as usize) {
            Some(free) => {
                self.first_free = free.after;
                *free = place;
                number
            }
            None => {
                // There are fewer places than buckets.
                let number = u32::try_from(self.places.len()).unwrap_or(NONE);
                self.places.push(place);
                self.buckets.resize(BUCKETS, NONE);
                number
            }
        };
        if let Some(bucket) = self
            .buckets
            .get_mut(lower_bits(txn.first_offset.message_offset))
        {
            *bucket = number;
        }
        match self.places.get_mut(self.last as usize) {
            Some(last) => last.after = number,
            None => self.first = number,
        }
        self.last = number;
    }

    #[cold]
    fn insert_elsewhere(&mut self, txn: TxnMetadata) {
        let first_offset = txn.first_offset.message_offset;
        let number = self.bucket(first_offset);
        match self.places.get_mut(number as usize) {
            Some(place) if place.txn.first_offset.message_offset == first_offset => place.txn = txn,
            _ => {
                self.others.insert(first_offset, txn);
            }
        }
    }

    /// Takes out the transaction that began at `first_offset`.
    #[inline]
    pub(super) fn remove(&mut self, first_offset: i64) -> Option<TxnMetadata> {
        let number = self.bucket(first_offset);
        match self.place(number) {
            Some(&place) if place.txn.first_offset.message_offset == first_offset => {
                self.unlink(number, place);
                Some(place.txn)
            }
            _ => self.others.remove(&first_offset),
        }
    }

    #[inline]
    fn unlink(&mut self, number: u32, place: Place) {
        match self.places.get_mut(place.before as usize) {
            Some(before) => before.after = place.after,
            None => self.first = place.after,
        }
        match self.places.get_mut(place.after as usize) {
            Some(after) => after.before = place.before,
            None => self.last = place.before,
        }
        if let Some(freed) = self.places.get_mut(number as usize) {
            freed.after = self.first_free;
            self.first_free = number;
        }
        let first_offset = place.txn.first_offset.message_offset;
        if let Some(bucket) = self.buckets.get_mut(lower_bits(first_offset)) {
            *bucket = NONE;
        }
    }

    #[inline]
    fn place(&self, number: u32) -> Option<&Place> {
        self.places.get(number as usize)
    }

    #[inline]
    fn bucket(&self, first_offset: i64) -> u32 {
        let bucket = self.buckets.get(lower_bits(first_offset));
        bucket.copied().unwrap_or(NONE)
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
        let listed = self.listed().find(|txn| !is_left_out(txn));
        let other = self.others.values().find(|txn| !is_left_out(txn));
        listed
            .into_iter()
            .chain(other)
            .min_by_key(|txn| txn.first_offset.message_offset)
    }

    fn listed(&self) -> impl Iterator<Item = &TxnMetadata> {
        std::iter::successors(self.place(self.first), |place| self.place(place.after))
            .map(|place| &place.txn)
    }

    /// All of them by first offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TxnMetadata> {
        let mut all: Vec<&TxnMetadata> = self.listed().chain(self.others.values()).collect();
        all.sort_by_key(|txn| txn.first_offset.message_offset);
        all.into_iter()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
fn lower_bits(first_offset: i64) -> usize {
    first_offset.cast_unsigned() as usize & (BUCKETS - 1)
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
        assert_eq!(txns.places.len(), 2);
        assert_eq!(txns.first(), Some(&txn(1, 0)));
    }
}
