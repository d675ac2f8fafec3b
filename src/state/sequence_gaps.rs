//! What the sequences of a log say beside the broker's verdicts: missing, repeated, reordered
//! and overlapping ones, epochs that go back, and which offsets belong to aborted transactions.
//!
//! The broker's own state forgets a batch after five others; this keeps, per producer, which
//! sequences of its current epoch lie in the log. In a sound log that is one range, so memory
//! grows with producers, not with batches.

use super::java_hash_map::{JavaHashMap, Slot};
use super::producer_state_entry::{NUM_BATCHES_TO_RETAIN, ProducerSnapshotRow};
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::RecordBatchHeader;

/// Sequences of one epoch kept apart for one producer; beyond that the oldest are forgotten.
const MAX_RUNS: usize = 1024;
/// Offset ranges of one open transaction; beyond that the last one swallows what follows.
const MAX_TXN_RUNS: usize = 1024;
/// 0 follows 2147483647 (`DefaultRecordBatch.incrementSequence`).
const MODULUS: i64 = 1 << 31;

/// Offsets that were once taken and hold nothing now, counted from the log's first segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffsetsGone {
    /// Whole batches taken out by the cleaner.
    pub compacted: u64,
    /// In damaged bytes or in segments that are not there.
    pub lost: u64,
}

impl OffsetsGone {
    fn since(self, earlier: Self) -> Self {
        Self {
            compacted: self.compacted.saturating_sub(earlier.compacted),
            lost: self.lost.saturating_sub(earlier.lost),
        }
    }
}

/// Why sequences are not in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingCause {
    /// So many offsets were compacted away since the producer's last batch.
    Compacted,
    /// So many offsets lie in damaged bytes or missing segments since the producer's last batch.
    Lost,
    /// The first batch of the producer, or the first one after its markers, in a log whose
    /// beginning is gone.
    BeforeLogStart,
    /// The first batch of the producer in a log whose beginning is there.
    NeverStored,
    /// A leader that knew the producer would have refused the batch behind the gap.
    ExpiredOrLostState,
}

/// Something worth telling about one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceFinding {
    /// Sequences before this batch are not in the log.
    Missing {
        /// First missing sequence.
        first_sequence: i32,
        /// Last missing sequence.
        last_sequence: i32,
        /// Why.
        cause: MissingCause,
    },
    /// Some or all sequences of this batch are in the log already, or may be: which batch has
    /// them has to be looked up.
    Behind,
    /// The batch fills a gap that a later one had left.
    Reordered,
    /// A client without transactions goes on under a higher epoch, and nothing of the epoch before
    /// is in the log from a sequence on. It does so only when it gave up a request: it never got
    /// an answer, or was refused for its sequence. That may have been in another partition
    /// (`TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded`, KIP-360).
    EpochRaised {
        /// The epoch before.
        known: i16,
        /// Its first sequence that was never stored.
        next_sequence: i32,
    },
    /// The batch has a lower producer epoch than one before.
    EpochRegression {
        /// The higher epoch before it.
        known: i16,
    },
    /// The marker has a lower coordinator epoch than the one before.
    CoordinatorEpochRegression {
        /// The higher coordinator epoch before it.
        known: i32,
        /// That of the marker.
        found: i32,
    },
    /// A batch of a new epoch looks like one of the last five of an older epoch.
    MaybeStoredAgain {
        /// Base offset of the older batch.
        earlier_offset: i64,
    },
    /// These offsets belong to the transaction that this marker aborts.
    Aborted {
        /// First offset of the range.
        first_offset: i64,
        /// Last offset of the range.
        last_offset: i64,
    },
}

/// Follows the batches of a log in order.
#[derive(Clone, Debug, Default)]
pub struct SequenceGaps {
    producers: JavaHashMap<Producer>,
    last_used: Option<Slot>,
    begins_at_zero: bool,
    ignore_sequences: bool,
}

#[derive(Clone, Debug)]
struct Producer {
    producer_id: i64,
    /// Last sequence of the newest batch, counted on where sequences wrap.
    last: i64,
    /// First sequence of the range without gap that ends in `last`.
    run_start: i64,
    gone: OffsetsGone,
    /// Offsets of the open transaction: the range written last.
    txn_run: Option<(i64, i64)>,
    coordinator_epoch: i32,
    epoch: i16,
    /// The highest epoch seen.
    max_epoch: i16,
    /// Whether a batch of `epoch` is known.
    has_batch: bool,
    known: Known,
    rare: Option<Box<Rare>>,
}

/// What was known of a producer before the batch at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// Markers of one epoch only. Where the log's beginning is gone, the data they end is, too.
    Markers,
    Data,
}

/// What most producers never need.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// Ranges stored in this epoch beside the newest, sorted.
    runs: Vec<(i64, i64)>,
    /// Earlier offset ranges of the open transaction.
    txn_runs: Vec<(i64, i64)>,
    recent: [Recent; NUM_BATCHES_TO_RETAIN],
    next_recent: usize,
    /// How many of `recent` may be of an older epoch.
    older: usize,
}

/// A plain batch by what a client that sends it again under a new epoch leaves as it was.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    likeness: u64,
    base_offset: i64,
    epoch: i16,
}

impl Producer {
    fn new(producer_id: i64) -> Self {
        Self {
            producer_id,
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

    fn from_snapshot(row: &ProducerSnapshotRow) -> Self {
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
            ..Self::new(row.producer_id)
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn runs(&self) -> &[(i64, i64)] {
        self.rare.as_ref().map_or(&[], |rare| &rare.runs)
    }

    /// Takes over another epoch, whose sequences begin anew.
    fn set_epoch(&mut self, epoch: i16) {
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        self.max_epoch = self.max_epoch.max(epoch);
        self.has_batch = false;
        if self.known == Known::Markers {
            // This epoch begins inside the log.
            self.known = Known::Data;
        }
        if let Some(rare) = &mut self.rare {
            rare.runs.clear();
            rare.older = NUM_BATCHES_TO_RETAIN;
        }
    }

    fn is_stored(&self, start: i64, end: i64) -> bool {
        let overlaps = |&(first, last): &(i64, i64)| first <= end && start <= last;
        overlaps(&(self.run_start, self.last)) || self.runs().iter().any(overlaps)
    }

    /// Where a batch that begins with `base_sequence` lies, counted on from the last one: ahead
    /// if that is nearer than back.
    fn place(&self, base_sequence: i32) -> i64 {
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
    fn begin_run(&mut self, start: i64, end: i64) {
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

impl SequenceGaps {
    /// Nothing seen yet. `begins_at_zero`: the log is there from its first offset on.
    /// `ignore_sequences`: the batches' sequences mean nothing, as in the topics of coordinators,
    /// who always write 0 (`CoordinatorRuntime.CoordinatorContext`).
    #[must_use]
    pub fn new(begins_at_zero: bool, ignore_sequences: bool) -> Self {
        Self {
            begins_at_zero,
            ignore_sequences,
            ..Self::default()
        }
    }

    /// Takes in the snapshot at the beginning of the log.
    pub fn load(&mut self, rows: impl IntoIterator<Item = ProducerSnapshotRow>) {
        for row in rows {
            self.producers
                .put(row.producer_id, Producer::from_snapshot(&row));
        }
        self.last_used = None;
    }

    /// How many producers are known.
    #[must_use]
    pub fn producer_id_count(&self) -> usize {
        self.producers.len()
    }

    /// The next batch of the log; `gone` as it stands before the batch. `found` is given what is
    /// worth telling about it.
    #[inline]
    pub fn batch(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        gone: OffsetsGone,
        mut found: impl FnMut(SequenceFinding),
    ) {
        if !header.has_producer_id() {
            return;
        }
        let slot = self.slot(header.producer_id());
        let sees_beginning = self.begins_at_zero;
        let ignore_sequences = self.ignore_sequences;
        let Some(producer) = self.producers.value_mut(slot) else {
            return;
        };
        if header.attributes().is_control() {
            // An empty control batch is no marker and changes nothing.
            if let Some(marker) = marker {
                producer.marker(header, marker, &mut found);
                producer.gone = gone;
            }
            return;
        }
        if header.attributes().is_transactional() {
            producer.add_to_txn(header);
        }
        if header.producer_epoch() != producer.epoch {
            let is_plain = !ignore_sequences && !header.attributes().is_transactional();
            if is_plain && gone == producer.gone {
                producer.epoch_raised(header.producer_epoch(), &mut found);
            }
            producer.data_epoch(header.producer_epoch(), &mut found);
        }
        if !ignore_sequences && header.base_sequence() >= 0 && header.last_offset_delta() >= 0 {
            producer.data(header, gone, sees_beginning, &mut found);
        }
        producer.known = Known::Data;
        producer.gone = gone;
    }

    #[inline]
    fn slot(&mut self, producer_id: i64) -> Slot {
        if let Some(slot) = self.last_used
            && let Some(producer) = self.producers.value(slot)
            && producer.producer_id == producer_id
        {
            return slot;
        }
        let slot = self.producers.find(producer_id).unwrap_or_else(|| {
            self.producers
                .put_new(producer_id, Producer::new(producer_id))
        });
        self.last_used = Some(slot);
        slot
    }
}

impl Producer {
    /// A plain batch of a higher epoch behind which nothing is missing: what it never stored of the
    /// epoch before. A marker raises the epoch too, but leaves no batch known.
    #[cold]
    fn epoch_raised(&self, epoch: i16, found: &mut impl FnMut(SequenceFinding)) {
        if self.has_batch && self.epoch == self.max_epoch && epoch > self.epoch {
            let highest = self
                .runs()
                .last()
                .map_or(self.last, |run| run.1.max(self.last));
            found(SequenceFinding::EpochRaised {
                known: self.epoch,
                next_sequence: wrapped(highest + 1),
            });
        }
    }

    /// An epoch other than the last one: lower ones a leader refuses
    /// (`ProducerAppendInfo.checkProducerEpoch`).
    #[cold]
    fn data_epoch(&mut self, epoch: i16, found: &mut impl FnMut(SequenceFinding)) {
        if epoch < self.epoch {
            let known = self.epoch;
            found(SequenceFinding::EpochRegression { known });
        }
        self.set_epoch(epoch);
    }

    #[inline]
    fn data(
        &mut self,
        header: &RecordBatchHeader,
        gone: OffsetsGone,
        sees_beginning: bool,
        found: &mut impl FnMut(SequenceFinding),
    ) {
        let base_sequence = header.base_sequence();
        let delta = i64::from(header.last_offset_delta());
        if !header.attributes().is_transactional() {
            self.compare_with_older_epochs(header, found);
        }
        let start = if self.has_batch {
            self.place(base_sequence)
        } else {
            i64::from(base_sequence)
        };
        let end = start + delta;
        let is_newest_epoch = self.epoch == self.max_epoch;
        if self.has_batch && start == self.last + 1 && self.runs().is_empty() && is_newest_epoch {
            self.last = end;
            return;
        }
        if !self.has_batch && start == 0 && is_newest_epoch {
            self.run_start = start;
            self.last = end;
            self.has_batch = true;
            return;
        }
        self.out_of_line(start, end, gone, sees_beginning, found);
    }

    /// A batch that is not simply the next one.
    #[cold]
    fn out_of_line(
        &mut self,
        start: i64,
        end: i64,
        gone: OffsetsGone,
        sees_beginning: bool,
        found: &mut impl FnMut(SequenceFinding),
    ) {
        if self.epoch < self.max_epoch {
            // What was stored under this epoch before has been forgotten.
            found(SequenceFinding::Behind);
            if self.has_batch && start == self.last + 1 {
                self.last = end;
            } else {
                self.begin_run(start, end);
            }
            return;
        }
        let expected = if self.has_batch { self.last + 1 } else { 0 };
        if self.has_batch && self.is_stored(start, end) {
            found(SequenceFinding::Behind);
        } else if self.has_batch && (start < expected || self.fills_gap(start)) {
            found(SequenceFinding::Reordered);
        } else if start > expected {
            self.missing(expected, start - 1, gone, sees_beginning, found);
        }
        if self.has_batch && start == expected {
            self.last = end;
        } else {
            self.begin_run(start, end);
        }
    }

    /// Whether later sequences of this epoch are in the log already.
    fn fills_gap(&self, start: i64) -> bool {
        self.runs().last().is_some_and(|&(first, _)| start < first)
    }

    /// Tells which sequences from `first` to `last` are not in the log.
    fn missing(
        &self,
        first: i64,
        last: i64,
        gone: OffsetsGone,
        sees_beginning: bool,
        found: &mut impl FnMut(SequenceFinding),
    ) {
        let cause = self.cause(last - first + 1, gone, sees_beginning);
        let mut next = first;
        let later = self.runs().iter().filter(|run| run.1 >= first);
        for &(run_first, run_last) in later.chain(&[(last + 1, i64::MAX)]) {
            let to = run_first.min(last + 1) - 1;
            if next <= to {
                found(SequenceFinding::Missing {
                    first_sequence: wrapped(next),
                    last_sequence: wrapped(to),
                    cause,
                });
            }
            next = next.max(run_last.saturating_add(1));
            if next > last {
                break;
            }
        }
    }

    fn cause(&self, missing: i64, gone: OffsetsGone, sees_beginning: bool) -> MissingCause {
        let missing = u64::try_from(missing).unwrap_or(0);
        let since = gone.since(self.gone);
        if since.compacted >= missing {
            MissingCause::Compacted
        } else if since.lost > 0 && since.lost.saturating_add(since.compacted) >= missing {
            MissingCause::Lost
        } else {
            match (self.known, sees_beginning) {
                (Known::Data, _) | (Known::Markers, true) => MissingCause::ExpiredOrLostState,
                (Known::Nothing, true) => MissingCause::NeverStored,
                (Known::Nothing | Known::Markers, false) => MissingCause::BeforeLogStart,
            }
        }
    }

    /// A client without transactions that goes to a new epoch sends its unanswered batches, five
    /// at most, again under it (`TransactionManager.bumpIdempotentProducerEpoch`, KIP-360). A
    /// transactional one does not: the old epoch's transaction is aborted instead.
    fn compare_with_older_epochs(
        &mut self,
        header: &RecordBatchHeader,
        found: &mut impl FnMut(SequenceFinding),
    ) {
        let (likeness, epoch) = (likeness(header), header.producer_epoch());
        let rare = self.rare();
        if rare.older > 0 {
            let earlier = rare
                .recent
                .iter()
                .find(|it| it.likeness == likeness && it.epoch < epoch);
            if let Some(earlier) = earlier {
                let earlier_offset = earlier.base_offset;
                found(SequenceFinding::MaybeStoredAgain { earlier_offset });
            }
            rare.older -= 1;
        }
        if let Some(recent) = rare.recent.get_mut(rare.next_recent) {
            *recent = Recent {
                likeness,
                base_offset: header.base_offset(),
                epoch,
            };
        }
        rare.next_recent = (rare.next_recent + 1) % NUM_BATCHES_TO_RETAIN;
    }

    #[inline]
    fn add_to_txn(&mut self, header: &RecordBatchHeader) {
        let run = (header.base_offset(), header.last_offset());
        match &mut self.txn_run {
            Some((_, last)) if last.wrapping_add(1) == run.0 => *last = run.1,
            None => self.txn_run = Some(run),
            Some(before) => {
                let before = *before;
                let runs = &mut self.rare().txn_runs;
                if runs.len() < MAX_TXN_RUNS {
                    runs.push(before);
                    self.txn_run = Some(run);
                } else {
                    self.txn_run = Some((before.0, run.1));
                }
            }
        }
    }

    #[inline]
    fn marker(
        &mut self,
        header: &RecordBatchHeader,
        marker: EndTransactionMarker,
        found: &mut impl FnMut(SequenceFinding),
    ) {
        let runs = self.rare.as_mut().map(|rare| &mut rare.txn_runs);
        if let Some(last_run) = self.txn_run.take() {
            let is_aborted = marker.control_type == ControlRecordType::ABORT;
            let earlier = runs.as_deref().map_or(&[][..], Vec::as_slice);
            for &(first_offset, last_offset) in earlier.iter().chain(&[last_run]) {
                if is_aborted {
                    found(SequenceFinding::Aborted {
                        first_offset,
                        last_offset,
                    });
                }
            }
            if let Some(runs) = runs {
                runs.clear();
            }
        }
        let epoch = header.producer_epoch();
        if epoch < self.epoch {
            let known = self.epoch;
            found(SequenceFinding::EpochRegression { known });
        }
        if marker.coordinator_epoch < self.coordinator_epoch {
            found(SequenceFinding::CoordinatorEpochRegression {
                known: self.coordinator_epoch,
                found: marker.coordinator_epoch,
            });
        }
        self.set_epoch(epoch);
        self.coordinator_epoch = marker.coordinator_epoch;
        if self.known == Known::Nothing {
            self.known = Known::Markers;
        }
    }
}

/// Two batches with the same records, and few others, agree in this.
fn likeness(header: &RecordBatchHeader) -> u64 {
    // An odd constant spreads each field over all bits.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let delta = u64::from(header.last_offset_delta().cast_unsigned());
    let shape = header.size_in_bytes() ^ delta.rotate_left(32);
    let first = header.base_timestamp_or_delete_horizon().cast_unsigned();
    let last = header.max_timestamp().cast_unsigned();
    // Two chains side by side take less time than one of all four fields.
    let times = (first.wrapping_mul(SPREAD).rotate_left(23) ^ last).wrapping_mul(SPREAD);
    times ^ shape.wrapping_mul(SPREAD)
}

#[expect(clippy::cast_possible_truncation, reason = "below 2^31")]
fn wrapped(sequence: i64) -> i32 {
    sequence.rem_euclid(MODULUS) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record_batch::{Attributes, RecordBatchFields};

    fn batch(epoch: i16, base_sequence: i32, count: i32) -> RecordBatchHeader {
        RecordBatchFields {
            base_offset: 0,
            batch_length: 49,
            partition_leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: count - 1,
            base_timestamp: 1000 + i64::from(base_sequence),
            max_timestamp: 1200,
            producer_id: 7,
            producer_epoch: epoch,
            base_sequence,
            records_count: count,
        }
        .into()
    }

    fn findings(batches: &[(i16, i32, i32)]) -> Vec<SequenceFinding> {
        let mut gaps = SequenceGaps::new(true, false);
        let mut found = Vec::new();
        for &(epoch, base, count) in batches {
            let header = batch(epoch, base, count);
            gaps.batch(&header, None, OffsetsGone::default(), |it| found.push(it));
        }
        found
    }

    fn marker_batch(epoch: i16) -> (RecordBatchHeader, EndTransactionMarker) {
        let mut fields = batch(epoch, -1, 1).fields();
        fields.attributes =
            Attributes(Attributes::CONTROL_FLAG_MASK | Attributes::TRANSACTIONAL_FLAG_MASK);
        let marker = EndTransactionMarker {
            control_type: ControlRecordType::COMMIT,
            coordinator_epoch: 0,
        };
        (fields.into(), marker)
    }

    /// Retention has left a producer's marker and taken the data before it: the leader knew them.
    #[test]
    fn sequences_before_a_marker_that_the_log_begins_with_lie_before_the_log() {
        use MissingCause::{BeforeLogStart, ExpiredOrLostState};
        let cause = |begins_at_zero, data_epoch| {
            let mut gaps = SequenceGaps::new(begins_at_zero, false);
            let (header, marker) = marker_batch(0);
            let gone = OffsetsGone::default();
            gaps.batch(&header, Some(marker), gone, |it| panic!("{it:?}"));
            gaps.batch(&header, Some(marker), gone, |it| panic!("{it:?}"));
            let mut found = Vec::new();
            gaps.batch(&batch(data_epoch, 182, 4), None, gone, |it| found.push(it));
            found
        };
        assert_eq!(cause(false, 0), [missing(0, 181, BeforeLogStart)]);
        assert_eq!(cause(true, 0), [missing(0, 181, ExpiredOrLostState)]);
        // An epoch that begins inside the log begins with sequence 0.
        assert_eq!(cause(false, 1), [missing(0, 181, ExpiredOrLostState)]);
    }

    fn missing(first_sequence: i32, last_sequence: i32, cause: MissingCause) -> SequenceFinding {
        SequenceFinding::Missing {
            first_sequence,
            last_sequence,
            cause,
        }
    }

    #[test]
    fn wrapping_around_is_no_gap() {
        let max = i32::MAX;
        assert_eq!(
            findings(&[(0, max - 9, 5), (0, max - 4, 8), (0, 3, 1)]),
            [missing(0, max - 10, MissingCause::NeverStored)]
        );
        assert_eq!(
            findings(&[(0, max - 1, 1), (0, max, 1), (0, 0, 1)]),
            [missing(0, max - 2, MissingCause::NeverStored)]
        );
    }

    #[test]
    fn gap_is_missing_until_it_is_filled() {
        assert_eq!(
            findings(&[(0, 0, 3), (0, 5, 1), (0, 3, 1), (0, 4, 1), (0, 6, 1)]),
            [
                missing(3, 4, MissingCause::ExpiredOrLostState),
                SequenceFinding::Reordered,
                SequenceFinding::Reordered,
            ]
        );
    }

    #[test]
    fn every_batch_of_a_second_run_is_behind() {
        assert_eq!(
            findings(&[(0, 0, 3), (0, 3, 1), (0, 0, 3), (0, 3, 1), (0, 4, 1)]),
            [SequenceFinding::Behind; 2]
        );
    }

    #[test]
    fn same_batch_under_a_new_epoch_is_told() {
        // The answer to the first request was lost, not the request.
        assert_eq!(
            findings(&[(0, 0, 1), (1, 0, 1), (1, 1, 1)]),
            [
                SequenceFinding::EpochRaised {
                    known: 0,
                    next_sequence: 1
                },
                SequenceFinding::MaybeStoredAgain { earlier_offset: 0 }
            ]
        );
    }

    #[test]
    fn lower_epoch_is_told_once() {
        assert_eq!(
            findings(&[(3, 0, 1), (1, 0, 1), (1, 1, 1)]),
            [
                SequenceFinding::EpochRegression { known: 3 },
                SequenceFinding::Behind,
                SequenceFinding::Behind,
            ]
        );
    }
}
