//! The comparison: batch against batch where both sides have the same ones, record against record
//! where they have not.

use super::alone::AloneFold;
use super::cursor::{Advance, Head};
use super::damage::DamageLists;
use super::differences::Differences;
use super::facts::{BatchPlaceRow, DamageRow, Span};
use super::kind::{DiffKind, Side, Sides};
use super::loaded::{Loaded, Loader, Records, match_records};
use super::lost_records::OnlyThere;
use super::replica::{Replica, is_cleaned};
use super::same::is_same;
use super::txns::{TxnTable, transaction_at};
use crate::format::NO_PARTITION_LEADER_EPOCH;
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::offset_ranges::OffsetRanges;
use crate::report::gaps::GapClass;

/// As `verify` and `gaps` name it.
pub(super) const OFFSETS_NOT_INCREASING: &str = GapClass::OffsetsNotIncreasing.name();

/// Two replicas while they are compared.
pub(super) struct Compare<'d> {
    pub(super) replicas: Sides<Replica<'d>>,
    /// Nothing below this is compared: one side need not have it any more.
    pub(super) common_start: i64,
    pub(super) loader: Loader,
    /// On each side the batch of which records are left; at most one has any between two steps.
    pub(super) loaded: Sides<Option<Loaded>>,
    pub(super) differences: Differences,
    pub(super) alone: Sides<AloneFold>,
    /// The offsets of what each side has alone.
    pub(super) only_there: Sides<OnlyThere>,
    /// The records that each side lacks though no cleaner takes them, once that is known.
    pub(super) lost: Sides<OffsetRanges>,
    pub(super) txns: TxnTable,
    pub(super) damage: DamageLists,
    /// Batches whose records were not compared, as they unpack to more than may be read.
    pub(super) over_limit: u64,
}

impl<'d> Compare<'d> {
    pub(super) fn new(
        replicas: Sides<Replica<'d>>,
        lost: Sides<OffsetRanges>,
        max_batch_bytes: usize,
    ) -> Self {
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
            only_there: Sides::default(),
            lost,
            txns: TxnTable::default(),
            damage: DamageLists::default(),
            over_limit: 0,
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
                    return self.same_batch(left, right);
                };
                let Some(r) = DamageRow::of_checksum(right)? else {
                    return Ok(());
                };
                (l, r)
            }
        };
        if !l.is_tail() {
            for side in Side::BOTH {
                self.damage.stop(side, self.replicas.of(side).next_stop());
            }
        }
        self.damage.same(l, r);
        Ok(())
    }

    /// The same batch on both sides, its checksum right on both.
    fn same_batch(&mut self, left: Head<'_, '_>, right: Head<'_, '_>) -> Result<(), Error> {
        let defect = self.loader.defect(left)?;
        let went_back = |replica: &Replica<'_>| replica.goes_back().is_some();
        let goes_back = went_back(&self.replicas.left) && went_back(&self.replicas.right);
        let kinds = [goes_back.then_some(OFFSETS_NOT_INCREASING), defect];
        for kind in kinds.into_iter().flatten() {
            let row =
                |side, head| DamageRow::of_batch(kind, place_of(head, self.replicas.of(side).span));
            let (l, r) = (row(Side::Left, left), row(Side::Right, right));
            self.damage.same(l, r);
        }
        if goes_back {
            for side in Side::BOTH {
                self.damage.stop(side, self.replicas.of(side).next_stop());
            }
        }
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
    pub(super) fn load(
        &mut self,
        side: Side,
        head: Head<'_, '_>,
        with_records: bool,
    ) -> Result<Loaded, Error> {
        let replica = self.replicas.of(side);
        let span = replica.span;
        let place = place_of(head, span);
        let txn = transaction_at(replica, &place);
        let mut damage = DamageRow::of_checksum(head)?;
        let mut records = None;
        if with_records && damage.is_none() {
            match self.loader.records(head)? {
                Records::Read(read) => records = Some(read),
                Records::Unreadable(kind) => {
                    damage = Some(DamageRow::of_batch(kind, place.clone()))
                }
                Records::OverLimit => self.over_limit += 1,
            }
        }
        let is_readable = damage.is_none() && !self.is_copy(side);
        let record_count = self.count_records(side, head, &place)?;
        if let Some(row) = damage {
            self.one_sided(side, row);
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
            is_readable,
            record_count,
            max_timestamp: max_timestamp(head),
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
        let is_cleaned = left.is_cleaned || right.is_cleaned;
        let has_same_header = left.place.is_of_same_producer(&right.place)
            && (is_cleaned || left.max_timestamp == right.max_timestamp);
        let is_other = is_aligned && !has_same_header;
        let mut lost = None;
        let conflict = match (&left.records, &right.records) {
            (Some(_), Some(_)) if has_same_epoch && !is_other => {
                let matched = match_records(&mut left, &mut right, &self.lost);
                lost = matched.lost;
                matched.differing.map(|offset| {
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
        } else if let Some(offset) = lost {
            self.differences
                .add(DiffKind::MissingRecords, offset, places);
        } else {
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

    /// Nothing comes any more; the log ends.
    pub(super) fn finish(&mut self) -> Result<Sides<i64>, Error> {
        for side in Side::BOTH {
            if let Some(loaded) = self.loaded.of_mut(side).take() {
                self.rest_alone(side, loaded, true)?;
            }
        }
        let ends = Sides {
            left: self.replicas.left.finish()?,
            right: self.replicas.right.finish()?,
        };
        // A log can end later without a record behind: in an empty segment.
        let has_parted = self.differences.has(DiffKind::OtherEpoch)
            || self.differences.has(DiffKind::MissingTail);
        if ends.left != ends.right && !has_parted {
            let shorter = ends.left.min(ends.right);
            self.differences
                .add(DiffKind::MissingTail, shorter, Sides::default());
        }
        Ok(ends)
    }
}

/// The largest timestamp of a batch, as its header has it.
fn max_timestamp(head: Head<'_, '_>) -> Option<i64> {
    match head.entry {
        Entry::Batch(batch) => Some(batch.header.max_timestamp()),
        Entry::Legacy(_) | Entry::Damage(_) => None,
    }
}

pub(super) fn place_of(head: Head<'_, '_>, span: Span) -> BatchPlaceRow {
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
