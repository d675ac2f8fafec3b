//! Offsets along a log: what is missing between entries, what goes back, and why.

use std::ops::{ControlFlow, Range};

use super::finding::{Detail, Finding, GapClass, GapKind};
use super::set_aside::SetAside;
use super::unmissed::Unmissed;
use super::witnesses::{Witness, WitnessKind, Witnesses};
use crate::log::batches::Entry;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::damage::{Damage, DamageKind, ReadableFields};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::settling::Settling;
use crate::log::{Error, Io};
use crate::report::coordinator_topics::is_written_by_coordinator;
use crate::report::partition_state::log_start_offset;
use crate::state::OffsetsGone;

/// Follows the offsets of a log.
pub(in crate::report) struct Offsets<'d> {
    pub(super) dir: &'d PartitionDir,
    pub(super) io: Io,
    pub(super) witnesses: Witnesses<'d>,
    /// The high watermark that was checkpointed.
    pub(super) checkpoints: CheckpointedOffsets,
    /// The first offset of what is gone from the front and should not be, and what is left of it.
    pub(super) lost_front: Option<(i64, Witness)>,
    cleaner_offset: Option<i64>,
    is_compacted: bool,
    looked_ahead: bool,
    /// What producers miss, once that has been looked up.
    unmissed: Option<Unmissed>,
    /// Segments set aside, once they have been looked at.
    pub(super) set_aside: Option<SetAside>,
    pub(in crate::report) log_start_offset: i64,
    pub(in crate::report) gone: OffsetsGone,
    /// One for all holes: there may be as many as segments.
    settling: Settling,
    /// The offset behind the highest seen so far.
    pub(in crate::report) next_offset: i64,
    /// The segment at hand.
    pub(super) segment: Option<usize>,
    pub(super) is_segment_empty: bool,
    unreadable: Option<Unreadable>,
    /// Zeros that the log ends with: segment and position.
    pub(super) zero_tail: Option<(usize, u64)>,
    previous: Option<Previous>,
    pub(super) compared: usize,
    /// Whether the batches up to this offset are at earlier places with the same content.
    pub(super) equal_up_to: i64,
}

/// The batch before the one at hand.
#[derive(Clone, Copy)]
pub(super) struct Previous {
    pub(super) position: u64,
    pub(super) last_offset: i64,
}

/// Bytes that cannot be read as a batch, or should not be: where they are, and what they may have
/// been.
#[derive(Clone, Copy)]
pub(super) struct Unreadable {
    pub(super) segment: usize,
    pub(super) position: u64,
    pub(super) class: GapClass,
    pub(super) readable: ReadableFields,
}

/// An entry and its place.
#[derive(Clone, Copy)]
pub(in crate::report) struct Placed {
    pub(in crate::report) segment: usize,
    pub(in crate::report) position: u64,
    pub(in crate::report) first_offset: i64,
    pub(in crate::report) last_offset: i64,
}

impl<'d> Offsets<'d> {
    pub(in crate::report) fn new(
        dir: &'d PartitionDir,
        io: Io,
        checkpoints: CheckpointedOffsets,
    ) -> Self {
        let first_base = dir
            .segments
            .first()
            .map_or(0, |segment| segment.base_offset);
        let witnesses = Witnesses::new(dir, io);
        Self {
            dir,
            io,
            witnesses,
            checkpoints,
            lost_front: None,
            cleaner_offset: checkpoints.cleaner_offset,
            is_compacted: false,
            looked_ahead: false,
            unmissed: None,
            set_aside: None,
            log_start_offset: log_start_offset(first_base, checkpoints),
            gone: OffsetsGone::default(),
            settling: dir.settling(),
            next_offset: first_base,
            segment: None,
            is_segment_empty: false,
            unreadable: None,
            zero_tail: None,
            previous: None,
            compared: 0,
            equal_up_to: i64::MIN,
        }
    }

    /// Begins somewhere in a segment, as if what is before it were sound.
    pub(super) fn start_at(&mut self, segment: usize, next_offset: i64) {
        self.segment = Some(segment);
        self.is_segment_empty = true;
        self.next_offset = next_offset;
    }

    /// Makes sure that the segments up to `at` have been entered.
    #[inline]
    pub(in crate::report) fn enter(
        &mut self,
        index: usize,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        if self.segment == Some(index) {
            return Ok(());
        }
        self.enter_up_to(index, found)
    }

    #[cold]
    fn enter_up_to(&mut self, index: usize, found: &mut Vec<Finding>) -> Result<(), Error> {
        let first = self.segment.map_or(0, |segment| segment + 1);
        for next in first..=index {
            let Some(segment) = self.dir.segments.get(next) else {
                continue;
            };
            let base_offset = segment.base_offset;
            if self.next_offset < base_offset && self.segment.is_some() {
                self.hole_before_segment(base_offset, found)?;
                self.next_offset = base_offset;
            }
            self.report_damage(found);
            self.segment = Some(next);
            self.is_segment_empty = true;
            self.previous = None;
        }
        Ok(())
    }

    /// Tells why offsets are missing before a segment that begins at `base_offset`.
    fn hole_before_segment(
        &mut self,
        base_offset: i64,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let (first, last) = (self.next_offset, base_offset - 1);
        if let Some(unreadable) = self.unreadable.take() {
            self.damaged_hole(first, last, unreadable, found);
            return Ok(());
        }
        // The end of the segment before, in front of one of which an index is left.
        let next_base = self.witnesses.first_orphan(&(first..base_offset));
        let next_base = next_base.filter(|base| *base > first);
        let tail = match next_base {
            Some(base) => Some((self.class_before_segment(first..base)?, base)),
            None => None,
        };
        let first = match tail {
            Some((told @ (GapClass::CompactedBetweenBatches, _), base)) => {
                self.hole_in_parts((first, base - 1), told, found)?;
                base
            }
            Some(_) | None => first,
        };
        let (class, witness) = self.class_before_segment(first..base_offset)?;
        let before = self.segment.and_then(|index| self.dir.segments.get(index));
        if class == GapClass::SegmentMissing
            && let Some(before) = before
        {
            self.dir
                .check_in_use(&[before.base_offset, base_offset], &mut self.settling)?;
        }
        self.hole_in_parts((first, last), (class, witness), found)
    }

    /// Whether a witness says that the `.log` at hand had more, not that one is missing.
    pub(super) fn is_of_segment_at_hand(&self, witness: Witness) -> bool {
        let segment = self.segment.and_then(|index| self.dir.segments.get(index));
        witness.kind == WitnessKind::ProducerSnapshot && self.is_segment_empty
            || segment.is_some_and(|it| it.base_offset == witness.base_offset)
    }

    /// Why offsets between two segments are missing, and the file that tells so.
    fn class_before_segment(
        &mut self,
        offsets: Range<i64>,
    ) -> Result<(GapClass, Option<Witness>), Error> {
        let lost = |witness| Ok((GapClass::SegmentMissing, Some(witness)));
        if let Some(witness) = self.witnesses.of_lost_segment(&offsets) {
            return lost(witness);
        }
        let segment = self.segment.and_then(|index| self.dir.segments.get(index));
        if let Some(segment) = segment
            && let Some((witness, _)) = self.witnesses.in_segment(segment, &offsets)?
        {
            return lost(witness);
        }
        if let Some(witness) = self.witnesses.lone_snapshot(offsets.start)
            && !self.is_segment_empty
        {
            return lost(witness);
        }
        let is_compacted = self
            .cleaner_offset
            .is_some_and(|cleaned| offsets.start < cleaned)
            || is_written_by_coordinator(self.dir.topic())
            || self.is_compacted
            || self.is_compacted_later()?;
        if is_compacted {
            return Ok((GapClass::CompactedBetweenBatches, None));
        }
        // The cleaner leaves an empty `.log` behind where nothing of it is left, and its indexes.
        let has_indexes =
            segment.is_some_and(|it| it.offset_index.is_some() && it.time_index.is_some());
        let may_be_cleaned = self.is_segment_empty && has_indexes;
        let has_lone_snapshot = self.witnesses.has_lone_snapshot(&offsets);
        if !self.is_segment_empty && !has_lone_snapshot && self.is_unmissed(&offsets)? {
            return Ok((GapClass::OffsetHole, None));
        }
        if !may_be_cleaned || has_lone_snapshot {
            return Ok((GapClass::SegmentMissing, None));
        }
        match self.witnesses.of_last_batches(&offsets)? {
            Some(witness) => lost(witness),
            None => Ok((GapClass::CompactedBetweenBatches, None)),
        }
    }

    /// Whether nothing tells that a record was ever at these offsets. Looks through the log once at
    /// most.
    fn is_unmissed(&mut self, offsets: &Range<i64>) -> Result<bool, Error> {
        let unmissed = match &self.unmissed {
            Some(unmissed) => unmissed,
            None => self.unmissed.insert(Unmissed::of(self.dir, self.io)?),
        };
        unmissed.is_unmissed(self.dir, self.io, offsets)
    }

    /// Whether the cleaner was at work, as its checkpoint says or anything in the log.
    pub(super) fn is_compacted(&mut self) -> Result<bool, Error> {
        Ok(self.cleaner_offset.is_some() || self.is_compacted || self.is_compacted_later()?)
    }

    /// Whether anything in the log tells that the cleaner was at work. Looked up once at most.
    fn is_compacted_later(&mut self) -> Result<bool, Error> {
        if self.looked_ahead {
            return Ok(false);
        }
        self.looked_ahead = true;
        let mut is_compacted = false;
        let mut next = None;
        walk_partition(self.dir, self.io, 0, |at: SegmentAt<'_>, entry| {
            if let Entry::Batch(batch) = entry {
                let header = batch.header;
                // A segment is begun with the batch that its name says.
                let due = match next {
                    Some((segment, offset)) if segment == at.index => offset,
                    Some(_) | None => at.base_offset,
                };
                let has_hole = header.base_offset() > due;
                next = Some((at.index, header.next_offset()));
                if has_hole || header.attributes().has_delete_horizon() || header.has_less_records()
                {
                    is_compacted = true;
                    return Ok::<_, Error>(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.is_compacted = is_compacted;
        Ok(is_compacted)
    }

    /// The next batch or message, its segment having been entered. Says whether its records are
    /// at an earlier place already.
    #[inline]
    pub(in crate::report) fn entry(
        &mut self,
        placed: Placed,
        found: &mut Vec<Finding>,
    ) -> Result<bool, Error> {
        if placed.first_offset != self.next_offset || self.unreadable.is_some() {
            self.jump(placed, found)?;
        }
        self.previous = Some(Previous {
            position: placed.position,
            last_offset: placed.last_offset,
        });
        self.is_segment_empty = false;
        let next_offset = placed.last_offset.saturating_add(1);
        if next_offset > self.next_offset {
            self.next_offset = next_offset;
            return Ok(false);
        }
        Ok(placed.last_offset <= self.equal_up_to)
    }

    #[cold]
    fn jump(&mut self, placed: Placed, found: &mut Vec<Finding>) -> Result<(), Error> {
        let unreadable = self.unreadable.take();
        if placed.first_offset > self.next_offset {
            let (first, last) = (self.next_offset, placed.first_offset - 1);
            match unreadable {
                Some(unreadable) => self.damaged_hole(first, last, unreadable, found),
                None => {
                    self.is_compacted = true;
                    let class = GapClass::CompactedBetweenBatches;
                    self.hole_in_parts((first, last), (class, None), found)?;
                }
            }
            return Ok(());
        }
        if let Some(unreadable) = unreadable {
            found.push(damage_finding(unreadable, None, None));
        }
        match self.previous {
            Some(previous) if placed.first_offset <= previous.last_offset => {
                self.overlap(placed, previous, found)
            }
            _ => Ok(()),
        }
    }

    /// Bytes that are no batch.
    pub(in crate::report) fn damage(&mut self, segment: usize, damage: Damage) {
        if damage.kind == DamageKind::ZeroTail {
            self.is_segment_empty = false;
            self.zero_tail = Some((segment, damage.position));
            return;
        }
        self.unreadable(Unreadable {
            segment,
            position: damage.position,
            class: GapClass::Damage(damage.kind.name()),
            readable: damage.readable,
        });
    }

    /// Bytes that nothing is to be read from.
    pub(super) fn unreadable(&mut self, unreadable: Unreadable) {
        self.is_segment_empty = false;
        // What follows at once is of the same hole.
        self.unreadable.get_or_insert(unreadable);
    }

    /// The end of the log.
    pub(in crate::report) fn finish(&mut self, found: &mut Vec<Finding>) -> Result<(), Error> {
        if let Some(last) = self.dir.segments.len().checked_sub(1) {
            self.enter(last, found)?;
        }
        self.report_damage(found);
        Ok(())
    }

    /// Damage with nothing behind it: its header may still say which offsets it had.
    fn report_damage(&mut self, found: &mut Vec<Finding>) {
        let Some(unreadable) = self.unreadable.take() else {
            return;
        };
        let readable = unreadable.readable;
        // A wrapper of older messages has the offset of its last one.
        let is_legacy = readable.magic.is_some_and(|magic| magic < 2);
        let first = readable
            .base_offset
            .filter(|&first| first >= self.next_offset && !is_legacy);
        let last = readable
            .last_offset
            .filter(|&last| first.is_some_and(|first| last >= first));
        let is_batch = unreadable.class == GapClass::BAD_CRC;
        let first = first.or(Some(self.next_offset));
        // Below the log start nobody misses it.
        if !is_batch || last.is_none_or(|last| last >= self.log_start_offset) {
            found.push(damage_finding(unreadable, first, last));
        }
        // A start that recovers nothing takes the log to end behind it.
        if let Some(last) = last.filter(|_| is_batch) {
            self.next_offset = last.saturating_add(1);
        }
    }

    /// Tells offsets that lie in damaged bytes.
    fn damaged_hole(
        &mut self,
        first: i64,
        last: i64,
        unreadable: Unreadable,
        found: &mut Vec<Finding>,
    ) {
        if let Some(told) = self.hole(first, last, unreadable.class, found) {
            told.segment = Some(unreadable.segment);
            told.position = Some(unreadable.position);
        }
    }

    /// Counts and tells offsets that are not there, as far as they are not below the log start.
    /// Returns what it has told.
    pub(super) fn hole<'f>(
        &mut self,
        first: i64,
        last: i64,
        class: GapClass,
        found: &'f mut Vec<Finding>,
    ) -> Option<&'f mut Finding> {
        let wanted = first.max(self.log_start_offset.min(last.saturating_add(1)));
        let gone = &mut self.gone;
        if class.is_loss() {
            // Below the log start nobody misses it.
            gone.given_up = gone.given_up.saturating_add(count(first, wanted));
            gone.lost = gone
                .lost
                .saturating_add(count(wanted, last.saturating_add(1)));
        } else {
            let all = count(first, last.saturating_add(1));
            gone.compacted = gone.compacted.saturating_add(all);
        }
        let first = wanted;
        if first > last {
            return None;
        }
        // Offsets at the end of one segment and the beginning of the next are one gap.
        match found.last_mut() {
            Some(before)
                if before.kind == GapKind::OffsetGap
                    && before.class == class
                    && class == GapClass::CompactedBetweenBatches
                    && before.last_offset.map(|it| it.saturating_add(1)) == Some(first) =>
            {
                before.last_offset = Some(last);
            }
            _ => found.push(gap(first, last, class)),
        }
        found.last_mut()
    }
}

/// How many offsets from `first` on lie below `end`.
fn count(first: i64, end: i64) -> u64 {
    u64::try_from(end.saturating_sub(first)).unwrap_or(0)
}

/// Offsets that nobody gets.
pub(in crate::report) fn gap(first: i64, last: i64, class: GapClass) -> Finding {
    Finding {
        kind: GapKind::OffsetGap,
        class,
        producer: None,
        sequences: None,
        first_offset: Some(first),
        last_offset: Some(last),
        segment: None,
        position: None,
        timestamp: None,
        records: None,
        detail: Detail::None,
    }
}

fn damage_finding(unreadable: Unreadable, first: Option<i64>, last: Option<i64>) -> Finding {
    let readable = unreadable.readable;
    let producer = readable.producer_id.filter(|&id| id >= 0);
    Finding {
        first_offset: first,
        last_offset: last,
        producer: producer.zip(readable.producer_epoch),
        segment: Some(unreadable.segment),
        position: Some(unreadable.position),
        ..gap(0, 0, unreadable.class)
    }
}
