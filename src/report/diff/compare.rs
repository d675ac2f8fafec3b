//! The comparison: batch against batch where both sides have the same ones, record against record
//! where they have not.

use super::alone::AloneFold;
use super::cursor::{Advance, Head};
use super::damage::DamageLists;
use super::differences::Differences;
use super::facts::{BatchPlaceRow, DamageRow, Span};
use super::kind::{DiffKind, Side, Sides};
use super::loaded::{Loaded, Loader, match_records};
use super::replica::{Replica, is_cleaned};
use super::same::is_same;
use super::txns::{TxnTable, transaction_at};
use crate::format::NO_PARTITION_LEADER_EPOCH;
use crate::log::Error;
use crate::log::batches::Entry;

/// Two replicas while they are compared.
pub(super) struct Compare<'d> {
    pub(super) replicas: Sides<Replica<'d>>,
    /// Nothing below this is compared: one side need not have it any more.
    common_start: i64,
    loader: Loader,
    /// On each side the batch of which records are left; at most one has any between two steps.
    loaded: Sides<Option<Loaded>>,
    pub(super) differences: Differences,
    pub(super) alone: Sides<AloneFold>,
    pub(super) txns: TxnTable,
    pub(super) damage: DamageLists,
}

impl<'d> Compare<'d> {
    pub(super) fn new(replicas: Sides<Replica<'d>>, max_batch_bytes: usize) -> Self {
        Self {
            common_start: replicas
                .left
                .should_begin_at()
                .max(replicas.right.should_begin_at()),
            replicas,
            loader: Loader::new(max_batch_bytes),
            loaded: Sides::default(),
            differences: Differences::default(),
            alone: Sides::default(),
            txns: TxnTable::default(),
            damage: DamageLists::default(),
        }
    }

    /// Deals with what lies next on one side or on both.
    pub(super) fn step(&mut self, heads: Sides<Option<Head<'_, '_>>>) -> Result<Advance, Error> {
        for side in Side::BOTH {
            if let Some(head) = heads.of(side) {
                let replica = self.replicas.of_mut(side);
                if replica.take_in(*head)? {
                    self.txns.ended(side, replica);
                }
            }
        }
        let advance = self.decide(heads)?;
        for side in Side::BOTH {
            if matches!(advance, Advance::Both) || advance == Advance::One(side) {
                self.replicas.of_mut(side).pass();
            }
        }
        Ok(advance)
    }

    fn decide(&mut self, heads: Sides<Option<Head<'_, '_>>>) -> Result<Advance, Error> {
        if let (None, None, Some(left), Some(right)) = (
            &self.loaded.left,
            &self.loaded.right,
            heads.left,
            heads.right,
        ) && is_same(left, right)?
        {
            self.same(left, right)?;
            return Ok(Advance::Both);
        }
        for side in Side::BOTH {
            let Some(head) = heads.of(side) else { continue };
            if let Entry::Damage(damage) = head.entry {
                self.damaged(side, *head, DamageRow::new(*head, damage));
                return Ok(Advance::One(side));
            }
            if self.replicas.of(side).span.last < self.common_start {
                return Ok(Advance::One(side));
            }
        }
        for side in Side::BOTH {
            if self.loaded.of(side).is_some() {
                return self.go_on_from(side, heads);
            }
        }
        self.differing(heads)
    }

    /// The same bytes on both sides.
    fn same(&mut self, left: Head<'_, '_>, right: Head<'_, '_>) -> Result<(), Error> {
        let (l, r) = match (left.entry, right.entry) {
            (Entry::Damage(l), Entry::Damage(r)) => {
                (DamageRow::new(left, l), DamageRow::new(right, r))
            }
            _ => {
                let Some(l) = DamageRow::of_checksum(left)? else {
                    return Ok(());
                };
                let Some(r) = DamageRow::of_checksum(right)? else {
                    return Ok(());
                };
                (l, r)
            }
        };
        self.damage.same(l, r);
        Ok(())
    }

    /// Neither side has a batch half compared, and the next ones are not the same.
    fn differing(&mut self, heads: Sides<Option<Head<'_, '_>>>) -> Result<Advance, Error> {
        let (left, right) = match (heads.left, heads.right) {
            (Some(left), Some(right)) => (left, right),
            (Some(head), None) => return self.whole_alone(Side::Left, head, None),
            (None, Some(head)) => return self.whole_alone(Side::Right, head, None),
            (None, None) => return Ok(Advance::Both),
        };
        let (l, r) = (self.replicas.left.span, self.replicas.right.span);
        if l.last < r.first {
            return self.whole_alone(Side::Left, left, Some(right));
        }
        if r.last < l.first {
            return self.whole_alone(Side::Right, right, Some(left));
        }
        let has_same_epoch = epoch(left) == epoch(right);
        let l = self.load(Side::Left, left, has_same_epoch)?;
        let r = self.load(Side::Right, right, has_same_epoch)?;
        self.resolve(l, r);
        Ok(Advance::Both)
    }

    /// One side has a batch half compared; the other has what comes next.
    fn go_on_from(
        &mut self,
        side: Side,
        heads: Sides<Option<Head<'_, '_>>>,
    ) -> Result<Advance, Error> {
        let other = side.other();
        let head = *heads.of(other);
        let span = self.replicas.of(other).span;
        let Some(loaded) = self.loaded.of_mut(side).take() else {
            return self.differing(heads);
        };
        let Some(head) = head.filter(|_| span.first <= loaded.span.last) else {
            self.rest_alone(side, loaded, head.is_none())?;
            return self.decide(heads);
        };
        if span.last < loaded.first_left() {
            *self.loaded.of_mut(side) = Some(loaded);
            return self.whole_alone(other, head, None);
        }
        let has_same_epoch = loaded.place.partition_leader_epoch == epoch(head);
        let next = self.load(other, head, has_same_epoch && loaded.records.is_some())?;
        match side {
            Side::Left => self.resolve(loaded, next),
            Side::Right => self.resolve(next, loaded),
        }
        Ok(Advance::One(other))
    }

    /// Reads a batch to compare its records.
    fn load(
        &mut self,
        side: Side,
        head: Head<'_, '_>,
        with_records: bool,
    ) -> Result<Loaded, Error> {
        let replica = self.replicas.of(side);
        let span = replica.span;
        let place = place_of(head, span);
        let txn = transaction_at(replica, &place);
        let damage = DamageRow::of_checksum(head)?;
        let mut records = if with_records {
            self.loader.records(head, damage.as_ref())?
        } else {
            None
        };
        if let Some(row) = damage {
            self.damage.one(side, row);
        }
        if let Some(records) = &mut records {
            while records
                .front()
                .is_some_and(|record| record.offset < self.common_start)
            {
                records.pop_front();
            }
        }
        Ok(Loaded {
            place,
            span,
            txn,
            records,
            next_offset: span.first.max(self.common_start),
            conflict: None,
            alone: Vec::new(),
            alone_records: 0,
            is_cleaned: is_cleaned(head),
        })
    }

    /// Matches what two batches have in common; what is left of one is kept.
    fn resolve(&mut self, mut left: Loaded, mut right: Loaded) {
        let end = left.span.last.min(right.span.last);
        let begin = left.span.first.max(right.span.first).max(self.common_start);
        let is_aligned = left.span == right.span;
        let has_same_epoch =
            left.place.partition_leader_epoch == right.place.partition_leader_epoch;
        // Batches without records have nothing but their headers to differ in.
        let is_other = is_aligned && !left.place.is_of_same_producer(&right.place);
        let conflict = match (&left.records, &right.records) {
            (Some(_), Some(_)) if has_same_epoch && !is_other => {
                match_records(&mut left, &mut right).map(|offset| {
                    (
                        DiffKind::OtherBytes,
                        if is_aligned { begin } else { offset },
                    )
                })
            }
            _ => {
                left.drop_up_to(end);
                right.drop_up_to(end);
                let kind = if has_same_epoch {
                    DiffKind::OtherBytes
                } else {
                    DiffKind::OtherEpoch
                };
                Some((kind, begin))
            }
        };
        let places = Sides {
            left: Some(&left.place),
            right: Some(&right.place),
        };
        if let Some((kind, offset)) = conflict {
            self.differences.add(kind, offset, places);
            left.conflict = left.conflict.or(Some(kind));
            right.conflict = right.conflict.or(Some(kind));
        } else {
            let is_cleaned = left.is_cleaned || right.is_cleaned;
            let kind = if is_aligned && is_cleaned {
                DiffKind::Compaction
            } else {
                DiffKind::OtherBatchSplit
            };
            let first = left.span.first.min(right.span.first);
            self.differences
                .add(kind, first.max(self.common_start), places);
        }
        for (side, loaded) in [(Side::Left, left), (Side::Right, right)] {
            if loaded.is_done() {
                self.finish_loaded(side, &loaded);
            } else {
                *self.loaded.of_mut(side) = Some(loaded);
            }
        }
    }

    /// A whole batch that the other side does not have. `next` is what the other side has behind.
    fn whole_alone(
        &mut self,
        side: Side,
        head: Head<'_, '_>,
        next: Option<Head<'_, '_>>,
    ) -> Result<Advance, Error> {
        let span = self.replicas.of(side).span;
        let place = place_of(head, span);
        if let Some(row) = DamageRow::of_checksum(head)? {
            self.damage.one(side, row);
        }
        let other = side.other();
        let is_at_end = next.is_none() && self.loaded.of(other).is_none();
        let first = span.first.max(self.common_start);
        let kind = self.why_missing(other, first, is_at_end)?;
        let next = next.map(|next| place_of(next, self.replicas.of(other).span));
        let mut places = Sides::default();
        *places.of_mut(side) = Some(&place);
        *places.of_mut(other) = next.as_ref();
        self.differences.add(kind, first, places);
        let records = place.record_count();
        self.add_alone(side, &place, Span { first, ..span }, kind, records);
        if kind.is_loss()
            && let Some(txn) = transaction_at(self.replicas.of(side), &place)
        {
            self.txns.add(side, txn, &place, records);
        }
        Ok(Advance::One(side))
    }

    /// Why an offset is not on a side. Where two leaders wrote, the longer log's end is part of it.
    fn why_missing(&mut self, side: Side, offset: i64, is_at_end: bool) -> Result<DiffKind, Error> {
        let kind = self.replicas.of_mut(side).why_missing(offset, is_at_end)?;
        let has_parted = self.differences.has(DiffKind::OtherEpoch);
        Ok(if kind == DiffKind::MissingTail && has_parted {
            DiffKind::OtherEpoch
        } else {
            kind
        })
    }

    /// What is left of a batch is not on the other side.
    fn rest_alone(&mut self, side: Side, mut loaded: Loaded, is_at_end: bool) -> Result<(), Error> {
        let rest = loaded.records.take().unwrap_or_default();
        if let Some(first) = rest.front().map(|record| record.offset) {
            let other = side.other();
            for record in &rest {
                let kind = self.why_missing(other, record.offset, is_at_end)?;
                loaded.is_alone(record.offset, kind);
            }
            let kind = self.why_missing(other, first, is_at_end)?;
            let mut places = Sides::default();
            *places.of_mut(side) = Some(&loaded.place);
            self.differences.add(kind, first, places);
        }
        self.finish_loaded(side, &loaded);
        Ok(())
    }

    /// A batch has been compared to its end.
    fn finish_loaded(&mut self, side: Side, loaded: &Loaded) {
        let (kind, records) = match (loaded.conflict, loaded.alone.first()) {
            (Some(kind), _) => {
                let records = loaded.place.record_count();
                let first = loaded.span.first.max(self.common_start);
                let span = Span {
                    first,
                    ..loaded.span
                };
                self.add_alone(side, &loaded.place, span, kind, records);
                (kind, records)
            }
            (None, Some((_, kind))) => {
                for (span, kind) in &loaded.alone {
                    let records = span.last.saturating_sub(span.first).saturating_add(1);
                    let records = u64::try_from(records).unwrap_or(0);
                    self.add_alone(side, &loaded.place, *span, *kind, records);
                }
                (*kind, loaded.alone_records)
            }
            (None, None) => return,
        };
        if kind.is_loss()
            && let Some(txn) = loaded.txn
        {
            self.txns.add(side, txn, &loaded.place, records);
        }
    }

    fn add_alone(
        &mut self,
        side: Side,
        place: &BatchPlaceRow,
        span: Span,
        kind: DiffKind,
        records: u64,
    ) {
        self.alone.of_mut(side).add(place, span, kind, records);
    }

    /// Bytes that are no batch, on one side only.
    fn damaged(&mut self, side: Side, head: Head<'_, '_>, row: DamageRow) {
        let Entry::Damage(damage) = head.entry else {
            return;
        };
        let offset = self.replicas.of(side).next_offset();
        // What a crash leaves behind the last batch takes no offset from anyone.
        if !damage.kind.is_tail() && offset >= self.common_start {
            self.differences
                .add(DiffKind::OtherBytes, offset, Sides::default());
        }
        self.damage.one(side, row);
    }

    /// Nothing comes any more; the log ends.
    pub(super) fn finish(&mut self) -> Result<Sides<i64>, Error> {
        for side in Side::BOTH {
            if let Some(loaded) = self.loaded.of_mut(side).take() {
                self.rest_alone(side, loaded, true)?;
            }
        }
        Ok(Sides {
            left: self.replicas.left.finish()?,
            right: self.replicas.right.finish()?,
        })
    }
}

fn place_of(head: Head<'_, '_>, span: Span) -> BatchPlaceRow {
    // Damage is dealt with before anything is compared.
    BatchPlaceRow::new(head, span).unwrap_or_default()
}

/// The leader epoch, as [`BatchPlaceRow`] has it.
fn epoch(head: Head<'_, '_>) -> Option<i32> {
    match head.entry {
        Entry::Batch(batch) => Some(batch.header.partition_leader_epoch())
            .filter(|epoch| *epoch != NO_PARTITION_LEADER_EPOCH),
        Entry::Legacy(_) | Entry::Damage(_) => None,
    }
}
