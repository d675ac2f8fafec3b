//! What of one producer lies in the log: the sequences of its current epoch, the offsets of its
//! open transaction, its last few batches.

use super::OffsetsGone;
use crate::state::producer_state_entry::{NUM_BATCHES_TO_RETAIN, ProducerSnapshotRow};

/// Sequences of one epoch kept apart for one producer; beyond that the oldest are forgotten.
const MAX_RUNS: usize = 1024;

/// 0 follows 2147483647 (`DefaultRecordBatch.incrementSequence`).
pub(super) const MODULUS: i64 = 1 << 31;

#[derive(Clone, Debug)]
pub(super) struct Producer {
    /// Last sequence of the newest batch, counted on where sequences wrap.
    pub(super) last: i64,
    /// First sequence of the range without gap that ends in `last`.
    pub(super) run_start: i64,
    pub(super) gone: OffsetsGone,
    /// Offsets of the open transaction: the range written last.
    pub(super) txn_run: Option<(i64, i64)>,
    pub(super) coordinator_epoch: i32,
    pub(super) epoch: i16,
    /// The highest epoch seen.
    pub(super) max_epoch: i16,
    /// Whether a batch of `epoch` is known.
    pub(super) has_batch: bool,
    pub(super) known: Known,
    pub(super) rare: Option<Box<Rare>>,
}

/// What was known of a producer before the batch at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    /// Markers of one epoch only. Where the log's beginning is gone, the data they end is, too.
    Markers,
    Data,
}

/// What most producers never need.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    /// Ranges stored in this epoch beside the newest, sorted.
    pub(super) runs: Vec<(i64, i64)>,
    /// Earlier offset ranges of the open transaction.
    pub(super) txn_runs: Vec<(i64, i64)>,
    pub(super) recent: [Recent; NUM_BATCHES_TO_RETAIN],
    pub(super) next_recent: usize,
    /// How many of `recent` may be of an older epoch.
    pub(super) older: usize,
    /// What lies of the highest epoch, while batches of an older one come behind it.
    pub(super) newest: Option<Newest>,
}

/// What lies of the highest epoch, put by.
#[derive(Clone, Debug)]
pub(super) struct Newest {
    pub(super) last: i64,
    pub(super) run_start: i64,
    pub(super) runs: Vec<(i64, i64)>,
    pub(super) gone: OffsetsGone,
    pub(super) has_batch: bool,
    pub(super) known: Known,
}

/// A plain batch by what a client that sends it again under a new epoch leaves as it was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent {
    pub(super) likeness: u64,
    pub(super) base_offset: i64,
    pub(super) epoch: i16,
}

impl Producer {
    pub(super) fn new() -> Self {
        Self {
            last: -1,
            run_start: 0,
            gone: OffsetsGone::default(),
            txn_run: None,
            coordinator_epoch: -1,
            epoch: -1,
            max_epoch: -1,
            has_batch: false,
            known: Known::Nothing,
            rare: None,
        }
    }

    pub(super) fn from_snapshot(row: &ProducerSnapshotRow) -> Self {
        let has_batch = row.last_offset >= 0 && row.last_sequence >= 0;
        let last = i64::from(row.last_sequence);
        Self {
            last,
            run_start: last.saturating_sub(i64::from(row.offset_delta)),
            coordinator_epoch: row.coordinator_epoch,
            epoch: row.producer_epoch,
            max_epoch: row.producer_epoch,
            has_batch,
            known: Known::Data,
            ..Self::new()
        }
    }

    pub(super) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(super) fn runs(&self) -> &[(i64, i64)] {
        self.rare.as_ref().map_or(&[], |rare| &rare.runs)
    }

    /// Takes over another epoch. A higher one's sequences begin anew; what is there of the highest
    /// one is kept for when the producer comes back to it. What lies of a lower one is not kept:
    /// its batches are looked up.
    pub(super) fn set_epoch(&mut self, epoch: i16) {
        if epoch == self.epoch {
            return;
        }
        if epoch < self.epoch && self.epoch == self.max_epoch {
            self.put_newest_by();
        }
        self.epoch = epoch;
        let is_back = epoch == self.max_epoch;
        self.max_epoch = self.max_epoch.max(epoch);
        self.has_batch = false;
        if self.known == Known::Markers {
            // This epoch begins inside the log.
            self.known = Known::Data;
        }
        if let Some(rare) = &mut self.rare {
            rare.runs.clear();
            rare.older = NUM_BATCHES_TO_RETAIN;
            // A higher one than all before has no use for it.
            if epoch == self.max_epoch
                && let Some(newest) = rare.newest.take()
                && is_back
            {
                rare.runs = newest.runs;
                self.last = newest.last;
                self.run_start = newest.run_start;
                self.gone = newest.gone;
                self.has_batch = newest.has_batch;
                self.known = newest.known;
            }
        }
    }

    #[cold]
    fn put_newest_by(&mut self) {
        let (last, run_start, gone) = (self.last, self.run_start, self.gone);
        let (has_batch, known) = (self.has_batch, self.known);
        let rare = self.rare();
        rare.newest = Some(Newest {
            last,
            run_start,
            runs: std::mem::take(&mut rare.runs),
            gone,
            has_batch,
            known,
        });
    }

    /// The highest sequence stored of the highest epoch, counted on where sequences wrap, and what
    /// was gone by then; `None` if no batch of it is known.
    pub(super) fn highest_of_newest(&self) -> Option<(i64, OffsetsGone)> {
        let put_by = self.rare.as_ref().and_then(|rare| rare.newest.as_ref());
        let (runs, last, gone, has_batch) = match put_by {
            Some(it) => (it.runs.as_slice(), it.last, it.gone, it.has_batch),
            None => (self.runs(), self.last, self.gone, self.has_batch),
        };
        let highest = runs.last().map_or(last, |run| run.1.max(last));
        has_batch.then_some((highest, gone))
    }

    pub(super) fn is_stored(&self, start: i64, end: i64) -> bool {
        let overlaps = |&(first, last): &(i64, i64)| first <= end && start <= last;
        overlaps(&(self.run_start, self.last)) || self.runs().iter().any(overlaps)
    }

    /// Where a batch that begins with `base_sequence` lies, counted on from the last one: ahead
    /// if that is nearer than back.
    pub(super) fn place(&self, base_sequence: i32) -> i64 {
        let expected = self.last + 1;
        let ahead = (i64::from(base_sequence) - expected).rem_euclid(MODULUS);
        let place = expected + ahead;
        let back = place - MODULUS;
        let wraps = i64::from(base_sequence) < expected.rem_euclid(MODULUS);
        // A producer that begins again at 0 has not wrapped around.
        if ahead > MODULUS / 2 || (ahead > 0 && wraps && self.is_stored(back, back)) {
            back
        } else {
            place
        }
    }

    /// Begins a new range; the one before is kept beside it.
    pub(super) fn begin_run(&mut self, start: i64, end: i64) {
        let before = (self.run_start, self.last);
        if self.has_batch && before.0 <= before.1 {
            let runs = &mut self.rare().runs;
            let place = runs.partition_point(|run| *run < before);
            runs.insert(place, before);
            if runs.len() > MAX_RUNS {
                runs.remove(0);
            }
        }
        self.run_start = start;
        self.last = end;
        self.has_batch = true;
    }
}
