//! Which earlier batch a later one repeats: a second walk, only for batches that may be repeats.
//!
//! Where they are many, each round of the walk looks up as many as are kept in memory.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::finding::{Detail, Finding, GapClass, OffsetRange};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::{Batch, Entry};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};
use crate::state::producer_state_entry::NUM_BATCHES_TO_RETAIN;

/// Batches that are looked up in one walk, some 500 bytes each.
const MAX_CANDIDATES: usize = 1 << 15;
/// Batches of one producer whose sequences are sought in batches of another shape.
const MAX_OVERLAPS: usize = 64;

/// Producer id, epoch, first and last sequence.
type Key = (i64, i16, i32, i32);

/// Batches that may repeat earlier ones.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    behind: Vec<Candidate>,
    stored_again: Vec<(i64, Finding)>,
}

#[derive(Debug)]
struct Candidate {
    key: Key,
    finding: Finding,
    exact: Option<Seen>,
    overlapping: Option<OffsetRange>,
    /// The batch itself, counted.
    own: Option<Seen>,
}

/// A batch as the second walk comes by.
#[derive(Clone, Copy, Debug)]
struct Seen {
    offsets: OffsetRange,
    /// Which one of its producer.
    ordinal: u64,
    /// How often the producer's epoch had changed before it, which empties the broker's window.
    generation: u64,
}

/// Where a producer stands in the second walk.
#[derive(Debug, Default)]
struct Progress {
    epoch: i16,
    ordinal: u64,
    generation: u64,
    /// Its candidates in the order of the log.
    candidates: Vec<usize>,
    /// How many of them lie before the batch at hand.
    passed: usize,
}

impl Repeats {
    pub(super) fn add_behind(&mut self, header: &RecordBatchHeader, finding: Finding) {
        self.behind.push(Candidate {
            key: key(header),
            finding,
            exact: None,
            overlapping: None,
            own: None,
        });
    }

    pub(super) fn add_stored_again(&mut self, earlier_offset: i64, finding: Finding) {
        self.stored_again.push((earlier_offset, finding));
    }

    /// Whether it is time to look them up.
    pub(super) fn is_full(&self) -> bool {
        self.behind.len() + self.stored_again.len() >= MAX_CANDIDATES
    }

    /// Where the last of them lies.
    fn last_place(&self) -> (Option<usize>, Option<u64>) {
        let behind = self.behind.last().map(|it| &it.finding);
        let stored_again = self.stored_again.last().map(|(_, finding)| finding);
        let last = behind.into_iter().chain(stored_again);
        last.map(|it| (it.segment, it.position))
            .max()
            .unwrap_or_default()
    }

    /// Looks all of them up and tells which ones are repeats, in the order of the log. With
    /// `has_damaged` there are batches with a wrong checksum, which repeat nothing.
    pub(super) fn resolve(
        mut self,
        dir: &PartitionDir,
        io: Io,
        has_damaged: bool,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        if self.behind.is_empty() && self.stored_again.is_empty() {
            return Ok(());
        }
        let mut lookup = Lookup::new(&self);
        let last = self.last_place();
        walk_partition(dir, io, 0, |at, entry| {
            let Entry::Batch(batch) = entry else {
                return Ok(ControlFlow::Continue(()));
            };
            if (Some(at.index), Some(batch.position)) > last {
                return Ok(ControlFlow::Break(()));
            }
            if !has_damaged || batch.is_sound()? {
                lookup.batch(&batch, &mut self.behind)?;
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        let begin = found.len();
        found.extend(self.behind.iter().filter_map(Candidate::finding));
        for (earlier_offset, finding) in &self.stored_again {
            let (Some(first), Some(last)) = (finding.first_offset, finding.last_offset) else {
                continue;
            };
            let earlier = lookup.records.get(earlier_offset).copied().flatten();
            if earlier.is_some() && earlier == lookup.records.get(&first).copied().flatten() {
                found.push(Finding {
                    detail: Detail::DuplicateOf {
                        earlier: OffsetRange {
                            first_offset: *earlier_offset,
                            last_offset: earlier_offset + (last - first),
                        },
                        batches_apart: None,
                        is_inside_window: None,
                    },
                    ..*finding
                });
            }
        }
        if let Some(new) = found.get_mut(begin..) {
            new.sort_by_key(|finding| finding.first_offset);
        }
        Ok(())
    }
}

impl Candidate {
    fn finding(&self) -> Option<Finding> {
        if let (Some(exact), Some(own)) = (self.exact, self.own) {
            let apart = own.ordinal.saturating_sub(exact.ordinal);
            let is_inside_window =
                apart <= NUM_BATCHES_TO_RETAIN as u64 && own.generation == exact.generation;
            return Some(Finding {
                detail: Detail::DuplicateOf {
                    earlier: exact.offsets,
                    batches_apart: Some(apart),
                    is_inside_window: Some(is_inside_window),
                },
                ..self.finding
            });
        }
        let earlier = self.overlapping?;
        Some(Finding {
            class: GapClass::OverlappingSequences,
            detail: Detail::DuplicateOf {
                earlier,
                batches_apart: None,
                is_inside_window: None,
            },
            ..self.finding
        })
    }
}

/// What the second walk looks for, and what it has seen.
struct Lookup {
    producers: HashMap<i64, Progress>,
    last_seen: HashMap<Key, Option<Seen>>,
    /// Length and checksum of the records of batches by base offset.
    records: HashMap<i64, Option<(usize, u32)>>,
    wanted: HashSet<i64>,
}

impl Lookup {
    fn new(repeats: &Repeats) -> Self {
        let mut producers: HashMap<i64, Progress> = HashMap::new();
        let mut last_seen = HashMap::new();
        let mut records = HashMap::new();
        for (index, candidate) in repeats.behind.iter().enumerate() {
            let progress = producers.entry(candidate.key.0).or_default();
            progress.candidates.push(index);
            last_seen.insert(candidate.key, None);
        }
        for (earlier_offset, finding) in &repeats.stored_again {
            records.insert(*earlier_offset, None);
            records.extend(finding.first_offset.map(|first| (first, None)));
        }
        let wanted = records.keys().copied().collect();
        Self {
            producers,
            last_seen,
            records,
            wanted,
        }
    }

    fn batch(&mut self, batch: &Batch<'_>, candidates: &mut [Candidate]) -> Result<(), Error> {
        let header = batch.header;
        if self.wanted.remove(&header.base_offset()) {
            let records = batch.records()?;
            let sum = (records.len(), crc32c::crc32c(&records));
            self.records.insert(header.base_offset(), Some(sum));
        }
        let is_data = header.has_producer_id() && !header.attributes().is_control();
        let Some(progress) = self.producers.get_mut(&header.producer_id()) else {
            return Ok(());
        };
        if progress.epoch != header.producer_epoch() {
            progress.epoch = header.producer_epoch();
            progress.generation += 1;
        }
        if !is_data {
            return Ok(());
        }
        progress.ordinal += 1;
        let seen = Seen {
            offsets: OffsetRange {
                first_offset: header.base_offset(),
                last_offset: header.last_offset(),
            },
            ordinal: progress.ordinal,
            generation: progress.generation,
        };
        let key = key(header);
        progress.come_by(key, seen, batch.position, candidates, &self.last_seen);
        if let Some(last_seen) = self.last_seen.get_mut(&key) {
            *last_seen = Some(seen);
        }
        Ok(())
    }
}

impl Progress {
    /// Candidates lie in the order of the log: those before this batch are done with.
    fn come_by(
        &mut self,
        key: Key,
        seen: Seen,
        position: u64,
        candidates: &mut [Candidate],
        last_seen: &HashMap<Key, Option<Seen>>,
    ) {
        let next = self.candidates.get(self.passed).copied();
        if let Some(own) = next.and_then(|index| candidates.get_mut(index))
            && own.finding.first_offset == Some(seen.offsets.first_offset)
            && own.finding.position == Some(position)
        {
            own.own = Some(seen);
            own.exact = last_seen.get(&own.key).copied().flatten();
            self.passed += 1;
        }
        for &index in self.candidates.iter().skip(self.passed).take(MAX_OVERLAPS) {
            if let Some(candidate) = candidates.get_mut(index)
                && overlaps(candidate.key, key)
            {
                candidate.overlapping = Some(seen.offsets);
            }
        }
    }
}

/// Whether two batches of one epoch share sequences; batches that wrap around share theirs only
/// with equal ones.
fn overlaps(one: Key, other: Key) -> bool {
    one.1 == other.1 && one.2 <= other.3 && other.2 <= one.3
}

fn key(header: &RecordBatchHeader) -> Key {
    (
        header.producer_id(),
        header.producer_epoch(),
        header.base_sequence(),
        header.last_sequence(),
    )
}
