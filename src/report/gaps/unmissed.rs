//! Holes between segments in which no producer misses anything.
//!
//! A segment that is gone took batches along, and the sequences of their producers have a gap. Not
//! so where the cleaner took a marker from the end of a segment, in a log that shows no other trace
//! of it; nor where a segment was split because its offsets reached too far
//! (`LogSegments.splitOverflowedSegment`): what was a hole in it lies between two then.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};

use crate::format::record_batch::{RecordBatchHeader, increment_sequence};
use crate::log::batches::Entry;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::{Error, Io};
use crate::report::coordinator_topics::is_written_by_coordinator;
use crate::report::partition_state::read_snapshot;

/// What is known of the holes between the segments of a log.
#[derive(Debug, Default)]
pub(super) struct Unmissed {
    /// By first offset.
    holes: HashMap<i64, Hole>,
    /// Whether batches have no sequences: what is gone of them nobody misses.
    has_unsequenced: bool,
}

/// A hole in front of a segment.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// The base offset of the segment before it.
    before: i64,
    /// The last offset of the first batch behind it.
    behind: i64,
    /// Transactions that go on there.
    ongoing: usize,
    /// Whether sequences of a producer are missing across it.
    is_missed: bool,
}

/// A producer, as its last batch leaves it.
#[derive(Clone, Copy, Debug)]
struct Last {
    epoch: i16,
    sequence: i32,
    /// How many holes lay before it.
    holes: usize,
}

#[derive(Default)]
struct Fold {
    producers: HashMap<i64, Last>,
    ongoing: HashSet<i64>,
    /// The holes so far, with their first offsets.
    holes: Vec<(i64, Hole)>,
    /// For each hole how many stretches begin there in which something is missing, less those that
    /// end between it and the one before.
    missed: Vec<i64>,
    /// Stretches that end behind the last hole.
    ended: i64,
    has_unsequenced: bool,
    segment: Option<(usize, i64)>,
    next_offset: i64,
}

impl Unmissed {
    /// Looks through all of a log.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn of(dir: &PartitionDir, io: Io) -> Result<Self, Error> {
        let mut fold = Fold {
            has_unsequenced: is_written_by_coordinator(dir.topic()),
            ..Fold::default()
        };
        walk_partition(dir, io, 0, |at, entry| {
            fold.entry(at, &entry)?;
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        Ok(fold.finish())
    }

    /// Whether the hole may have held no record: no producer misses one, no snapshot behind it
    /// knows of one, and it is of markers alone, or behind it lies what did not fit into the
    /// segment before.
    ///
    /// # Errors
    /// If the snapshot cannot be read.
    pub(super) fn is_unmissed(
        &self,
        dir: &PartitionDir,
        io: Io,
        offsets: &Range<i64>,
    ) -> Result<bool, Error> {
        let Some(hole) = self.holes.get(&offsets.start).filter(|it| !it.is_missed) else {
            return Ok(false);
        };
        let snapshot = read_snapshot(dir, io, offsets.end)?.and_then(Result::ok);
        let knows = |offset: i64| offsets.contains(&offset);
        if let Some(rows) = &snapshot
            && rows.iter().any(|row| knows(row.last_offset))
        {
            return Ok(false);
        }
        let did_not_fit = hole.behind.saturating_sub(hole.before) > i64::from(i32::MAX);
        let width = usize::try_from(offsets.end.saturating_sub(offsets.start));
        let may_be_markers = width.is_ok_and(|width| width <= hole.ongoing);
        Ok(did_not_fit || !self.has_unsequenced && (may_be_markers || snapshot.is_some()))
    }
}

impl Fold {
    fn entry(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) -> Result<(), Error> {
        let last = match entry {
            Entry::Batch(batch) => batch.header.last_offset(),
            Entry::Legacy(entry) => entry.header.offset(),
            Entry::Damage(_) => return Ok(()),
        };
        self.enter(at, last);
        self.next_offset = self.next_offset.max(last.saturating_add(1));
        match entry {
            Entry::Batch(batch) if batch.header.attributes().is_control() => {
                if batch.marker()?.is_some() {
                    self.ongoing.remove(&batch.header.producer_id());
                }
            }
            Entry::Batch(batch) if batch.header.base_sequence() >= 0 => {
                if batch.header.attributes().is_transactional() {
                    self.ongoing.insert(batch.header.producer_id());
                }
                self.sequences(batch.header);
            }
            Entry::Batch(_) | Entry::Legacy(_) => self.has_unsequenced = true,
            Entry::Damage(_) => {}
        }
        Ok(())
    }

    fn enter(&mut self, at: SegmentAt<'_>, last_offset: i64) {
        let before = self.segment.filter(|(index, _)| *index != at.index);
        if let Some((_, before)) = before
            && self.next_offset < at.base_offset
        {
            let hole = Hole {
                before,
                behind: last_offset,
                ongoing: self.ongoing.len(),
                is_missed: false,
            };
            self.holes.push((self.next_offset, hole));
            self.missed.push(-std::mem::take(&mut self.ended));
        }
        self.segment = Some((at.index, at.base_offset));
    }

    fn sequences(&mut self, header: &RecordBatchHeader) {
        let now = Last {
            epoch: header.producer_epoch(),
            sequence: header.last_sequence(),
            holes: self.holes.len(),
        };
        let known = self.producers.insert(header.producer_id(), now);
        let due = match known {
            Some(last) if last.epoch == now.epoch => increment_sequence(last.sequence, 1),
            Some(_) | None => 0,
        };
        let from = known.map_or(0, |last| last.holes);
        if header.base_sequence() != due
            && let Some(missed) = self.missed.get_mut(from)
        {
            // All holes from there to here may have what is missing.
            *missed += 1;
            self.ended += 1;
        }
    }

    fn finish(self) -> Unmissed {
        let mut stretches = 0;
        let mut holes = HashMap::new();
        for ((first, hole), missed) in self.holes.into_iter().zip(self.missed) {
            stretches += missed;
            let is_missed = stretches > 0;
            holes.insert(first, Hole { is_missed, ..hole });
        }
        Unmissed {
            holes,
            has_unsequenced: self.has_unsequenced,
        }
    }
}
