//! What the sequences of a log say beside the broker's verdicts: missing, repeated, reordered
//! and overlapping ones, epochs that go back, and which offsets belong to aborted transactions.
//!
//! The broker's own state forgets a batch after five others; this keeps, per producer, which
//! sequences of its current epoch lie in the log. In a sound log that is one range, so memory
//! grows with producers, not with batches.

mod finding;
mod next_batch;
mod stored;

use stored::{Known, Producer};

use super::java_hash_map::{JavaHashMap, Slot};
use super::producer_state_entry::ProducerSnapshotRow;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::RecordBatchHeader;

pub use finding::{MissingCause, OffsetsGone, SequenceFinding};

/// Follows the batches of a log in order.
#[derive(Clone, Debug, Default)]
pub struct SequenceGaps {
    producers: JavaHashMap<Producer>,
    begins_at_zero: bool,
    ignore_sequences: bool,
    tells_aborted: bool,
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
            tells_aborted: true,
            ..Self::default()
        }
    }

    /// The same, for those who do not want to be told what an ABORT marker ends
    /// ([`SequenceFinding::Aborted`]): nothing has to be kept of transactions then.
    #[must_use]
    pub fn without_aborted(self) -> Self {
        Self {
            tells_aborted: false,
            ..self
        }
    }

    /// Takes in the snapshot at the beginning of the log.
    pub fn load(&mut self, rows: impl IntoIterator<Item = ProducerSnapshotRow>) {
        for row in rows {
            self.producers
                .put(row.producer_id, Producer::from_snapshot(&row));
        }
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
                let begins_epoch = producer.known != Known::Nothing
                    && header.producer_epoch() > producer.max_epoch;
                producer.marker(header, marker, &mut found);
                // Of the sequences before the next batch it says nothing but in a new epoch.
                if begins_epoch {
                    producer.gone = gone;
                }
            }
            return;
        }
        if self.tells_aborted && header.attributes().is_transactional() {
            producer.add_to_txn(header);
        }
        if header.producer_epoch() != producer.epoch {
            let is_plain = !ignore_sequences && !header.attributes().is_transactional();
            if is_plain {
                producer.epoch_raised(header.producer_epoch(), gone, &mut found);
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
        self.producers
            .find(producer_id)
            .unwrap_or_else(|| self.producers.put_new(producer_id, Producer::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::control_record::ControlRecordType;
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

    /// A marker behind a hole does not tell that what is missing before it was never there.
    #[test]
    fn sequences_of_a_hole_before_a_marker_lie_in_the_hole() {
        let cause = |gone: OffsetsGone, marker_epoch, data_epoch| {
            let mut gaps = SequenceGaps::new(true, false);
            let none = OffsetsGone::default();
            gaps.batch(&batch(0, 0, 5), None, none, |it| panic!("{it:?}"));
            let (header, marker) = marker_batch(marker_epoch);
            gaps.batch(&header, Some(marker), gone, |it| panic!("{it:?}"));
            let mut found = Vec::new();
            gaps.batch(&batch(data_epoch, 9, 1), None, gone, |it| found.push(it));
            found
        };
        let of = |compacted, given_up, lost| OffsetsGone {
            compacted,
            given_up,
            lost,
        };
        use MissingCause::{BeforeLogStart, Compacted, ExpiredOrLostState, Lost};
        assert_eq!(cause(of(0, 0, 6), 0, 0), [missing(5, 8, Lost)]);
        assert_eq!(cause(of(4, 0, 6), 0, 0), [missing(5, 8, Compacted)]);
        assert_eq!(cause(of(0, 4, 0), 0, 0), [missing(5, 8, BeforeLogStart)]);
        assert_eq!(cause(of(1, 3, 0), 0, 0), [missing(5, 8, BeforeLogStart)]);
        assert_eq!(cause(of(0, 4, 6), 0, 0), [missing(5, 8, Lost)]);
        assert_eq!(cause(of(1, 2, 1), 0, 0), [missing(5, 8, Lost)]);
        assert_eq!(
            cause(of(1, 1, 1), 0, 0),
            [missing(5, 8, ExpiredOrLostState)]
        );
        // The marker has begun the epoch: before it lies nothing of it.
        assert_eq!(
            cause(of(0, 0, 9), 1, 1),
            [missing(0, 8, ExpiredOrLostState)]
        );
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

    /// Whatever comes between, under an older epoch: what the newest one had is not missing, and a
    /// hole before the batch in between is one before the next of the newest epoch as well.
    #[test]
    fn newest_epoch_goes_on_behind_a_batch_of_an_older_one() {
        let regression = SequenceFinding::EpochRegression { known: 2 };
        assert_eq!(
            findings(&[(2, 0, 3), (2, 3, 1), (1, 9, 2), (2, 4, 1), (2, 0, 3)]),
            [regression, SequenceFinding::Behind, SequenceFinding::Behind]
        );
        let mut gaps = SequenceGaps::new(true, false);
        let (none, mut lost) = (OffsetsGone::default(), OffsetsGone::default());
        lost.lost = 5;
        let mut found = Vec::new();
        for (epoch, base, gone) in [(2, 0, none), (1, 9, lost), (2, 5, lost)] {
            let header = batch(epoch, base, 1);
            gaps.batch(&header, None, gone, |it| found.push(it));
        }
        let behind = SequenceFinding::Behind;
        let in_the_hole = missing(1, 4, MissingCause::Lost);
        assert_eq!(found, [regression, behind, in_the_hole]);
        // Nor does a marker of the newest epoch behind it begin that one.
        let mut gaps = SequenceGaps::new(true, false);
        let mut found = Vec::new();
        gaps.batch(&batch(2, 0, 1), None, none, |it| found.push(it));
        gaps.batch(&batch(1, 9, 1), None, lost, |it| found.push(it));
        let (header, marker) = marker_batch(2);
        gaps.batch(&header, Some(marker), lost, |it| found.push(it));
        gaps.batch(&batch(2, 5, 1), None, lost, |it| found.push(it));
        assert_eq!(found, [regression, behind, in_the_hole]);
        // Of a log whose beginning is gone a marker of the newest epoch may be all that is left.
        let mut gaps = SequenceGaps::new(false, false);
        let (header, marker) = marker_batch(2);
        gaps.batch(&header, Some(marker), none, |it| panic!("{it:?}"));
        let mut found = Vec::new();
        for (epoch, base) in [(1, 9), (2, 7)] {
            gaps.batch(&batch(epoch, base, 1), None, none, |it| found.push(it));
        }
        let before = missing(0, 6, MissingCause::BeforeLogStart);
        assert_eq!(found, [regression, behind, before]);
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
