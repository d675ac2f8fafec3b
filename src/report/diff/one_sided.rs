//! What one side has and the other has not, or not the same: batches, what is left of them, damage.

use super::compare::{Compare, OFFSETS_NOT_INCREASING, place_of};
use super::cursor::{Advance, Head};
use super::facts::{BatchPlaceRow, DamageRow, Span};
use super::kind::{DiffKind, Side, Sides};
use super::loaded::Loaded;
use super::txns::transaction_at;
use crate::log::Error;
use crate::log::batches::Entry;

impl Compare<'_> {
    /// A whole batch that the other side does not have. `next` is what the other side has behind.
    pub(super) fn whole_alone(
        &mut self,
        side: Side,
        head: Head<'_, '_>,
        next: Option<Head<'_, '_>>,
    ) -> Result<Advance, Error> {
        let span = self.replicas.of(side).span;
        let place = place_of(head, span);
        let damage = DamageRow::of_checksum(head)?;
        let is_readable = damage.is_none() && !self.is_copy(side);
        if let Some(row) = damage {
            self.one_sided(side, row);
        }
        let other = side.other();
        let is_at_end = next.is_none() && self.loaded.of(other).is_none();
        let first = span.first.max(self.common_start);
        if is_readable && self.lost.of(other).touches(first, span.last) {
            let loaded = self.load(side, head, true)?;
            self.rest_alone(side, loaded, is_at_end)?;
            return Ok(Advance::One(side));
        }
        let kind = if self.replicas.of(side).goes_back().is_some() {
            self.one_sided(
                side,
                DamageRow::of_batch(OFFSETS_NOT_INCREASING, place.clone()),
            );
            DiffKind::OtherBytes
        } else {
            self.why_missing(other, first, is_at_end)?
        };
        let next = next.map(|next| place_of(next, self.replicas.of(other).span));
        let mut places = Sides::default();
        *places.of_mut(side) = Some(&place);
        *places.of_mut(other) = next.as_ref();
        self.differences.add(kind, first, places);
        let records = self.count_records(side, head, &place)?;
        let span = Span { first, ..span };
        self.add_alone(side, &place, span, kind, records, is_readable);
        if kind.is_loss()
            && let Some(txn) = transaction_at(self.replicas.of(side), &place)
        {
            self.txns.add(side, txn, &place, records);
        }
        Ok(Advance::One(side))
    }

    /// A batch, or the part of it in `span`, is on one side alone.
    fn add_alone(
        &mut self,
        side: Side,
        place: &BatchPlaceRow,
        span: Span,
        kind: DiffKind,
        records: u64,
        is_readable: bool,
    ) {
        self.only_there.of_mut(side).take(span, kind);
        let alone = self.alone.of_mut(side);
        alone.add(place, span, kind, records, is_readable);
    }

    /// Why an offset is not on a side. Where two leaders wrote, the longer log's end is part of it.
    pub(super) fn why_missing(
        &mut self,
        side: Side,
        offset: i64,
        is_at_end: bool,
    ) -> Result<DiffKind, Error> {
        let kind = self.replicas.of_mut(side).why_missing(offset, is_at_end)?;
        let has_parted = self.differences.has(DiffKind::OtherEpoch);
        let is_lost = || self.lost.of(side).contains(offset, offset);
        Ok(if kind == DiffKind::MissingTail && has_parted {
            DiffKind::OtherEpoch
        } else if kind == DiffKind::Compaction && is_lost() {
            DiffKind::MissingRecords
        } else {
            kind
        })
    }

    /// What is left of a batch is not on the other side.
    pub(super) fn rest_alone(
        &mut self,
        side: Side,
        mut loaded: Loaded,
        is_at_end: bool,
    ) -> Result<(), Error> {
        let rest = loaded.records.take().unwrap_or_default();
        let mut kinds: Vec<DiffKind> = Vec::new();
        for record in &rest {
            let kind = self.why_missing(side.other(), record.offset, is_at_end)?;
            loaded.is_alone(record.offset, kind);
            if !kinds.contains(&kind) {
                kinds.push(kind);
                let mut places = Sides::default();
                *places.of_mut(side) = Some(&loaded.place);
                self.differences.add(kind, record.offset, places);
            }
        }
        self.finish_loaded(side, &loaded);
        Ok(())
    }

    /// A batch has been compared to its end.
    pub(super) fn finish_loaded(&mut self, side: Side, loaded: &Loaded) {
        let place = &loaded.place;
        let is_readable = loaded.is_readable;
        let (is_loss, records) = if let Some(kind) = loaded.conflict {
            let records = loaded.record_count;
            let first = loaded.span.first.max(self.common_start);
            let span = Span {
                first,
                ..loaded.span
            };
            self.add_alone(side, place, span, kind, records, is_readable);
            (kind.is_loss(), records)
        } else {
            for (span, kind) in &loaded.alone {
                let records = span.last.saturating_sub(span.first).saturating_add(1);
                let records = u64::try_from(records).unwrap_or(0);
                self.add_alone(side, place, *span, *kind, records, is_readable);
            }
            let is_loss = loaded.alone.iter().any(|(_, kind)| kind.is_loss());
            (is_loss, loaded.alone_records)
        };
        if is_loss && let Some(txn) = loaded.txn {
            self.txns.add(side, txn, &loaded.place, records);
        }
    }

    /// How many records an entry has from the common start on: by its header, unless that does not
    /// say.
    pub(super) fn count_records(
        &mut self,
        side: Side,
        head: Head<'_, '_>,
        place: &BatchPlaceRow,
    ) -> Result<u64, Error> {
        let is_whole = self.replicas.of(side).span.first >= self.common_start;
        let counted = if is_whole && place.records.is_some() {
            None
        } else {
            self.loader.count_from(head, self.common_start)?
        };
        Ok(counted.unwrap_or_else(|| place.record_count()))
    }

    /// Whether what lies next on a side is there already, at the same offsets.
    pub(super) fn is_copy(&self, side: Side) -> bool {
        self.replicas.of(side).goes_back() == Some(true)
    }

    /// Damage that the other side has not.
    pub(super) fn one_sided(&mut self, side: Side, row: DamageRow) {
        // Records that cannot be unpacked are replicated like others.
        if row.crc_computed.is_some() || row.kind == OFFSETS_NOT_INCREASING {
            let offset = self.replicas.of(side).next_stop();
            self.damage.stop(side, offset);
        }
        self.damage.one(side, row);
    }

    /// Bytes that are no batch, on one side only.
    pub(super) fn damaged(&mut self, side: Side, head: Head<'_, '_>, row: DamageRow) {
        let Entry::Damage(damage) = head.entry else {
            return;
        };
        let offset = self.replicas.of(side).next_offset();
        // What a crash leaves behind the last batch takes no offset from anyone.
        if !damage.kind.is_tail() && offset >= self.common_start {
            self.differences
                .add(DiffKind::OtherBytes, offset, Sides::default());
        }
        if !damage.kind.is_tail() {
            self.damage.stop(side, offset);
        }
        self.damage.one(side, row);
    }
}
