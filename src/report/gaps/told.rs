//! What is told of one batch.

use std::collections::VecDeque;

use super::finding::{Detail, Finding, GapClass, GapKind};
use super::offsets::{Placed, gap};
use super::repeats::Repeats;
use crate::format::NO_TIMESTAMP;
use crate::format::record_batch::{RecordBatchHeader, decrement_sequence, increment_sequence};
use crate::state::SequenceFinding;

/// Gaps that a later batch may still fill; beyond that the oldest is told as it is.
const MAX_PENDING: usize = 4096;

/// Offsets of a batch that no consumer gets: control records, and what the cleaner took.
pub(super) fn hidden(
    header: &RecordBatchHeader,
    placed: Placed,
    is_marker: bool,
) -> Option<Finding> {
    let count = header.records_count();
    let class = if count == 0 {
        GapClass::EmptyBatch
    } else if is_marker {
        GapClass::ControlMarker
    } else if header.attributes().is_control() {
        GapClass::ControlRecord
    } else {
        GapClass::CompactedInsideBatch
    };
    let missing = i64::from(header.last_offset_delta()) + 1 - i64::from(count);
    Some(Finding {
        records: u64::try_from(missing).ok().filter(|&missing| missing > 0),
        ..of_batch(
            header,
            placed,
            gap(placed.first_offset, placed.last_offset, class),
        )
    })
}

/// A finding with what its batch says.
fn of_batch(header: &RecordBatchHeader, placed: Placed, finding: Finding) -> Finding {
    let timestamp = header.max_timestamp();
    Finding {
        producer: header
            .has_producer_id()
            .then(|| (header.producer_id(), header.producer_epoch())),
        segment: Some(placed.segment),
        position: Some(placed.position),
        timestamp: (timestamp != NO_TIMESTAMP).then_some(timestamp),
        ..finding
    }
}

/// The batch about which something was found.
pub(super) struct Told<'h> {
    pub(super) header: &'h RecordBatchHeader,
    pub(super) placed: Placed,
    pub(super) log_start_offset: i64,
}

impl Told<'_> {
    pub(super) fn tell(
        &self,
        finding: SequenceFinding,
        pending: &mut VecDeque<Finding>,
        repeats: &mut Repeats,
        found: &mut Vec<Finding>,
    ) {
        match finding {
            SequenceFinding::Aborted {
                first_offset,
                last_offset,
            } => {
                if last_offset >= self.log_start_offset {
                    let first = first_offset.max(self.log_start_offset);
                    let aborted = gap(first, last_offset, GapClass::Aborted);
                    let producer = (self.header.producer_id(), self.header.producer_epoch());
                    found.push(Finding {
                        producer: Some(producer),
                        ..aborted
                    });
                }
            }
            SequenceFinding::Missing {
                first_sequence,
                last_sequence,
                cause,
            } => {
                let gap = Finding {
                    sequences: Some((first_sequence, last_sequence)),
                    ..self.finding(GapKind::Missing, GapClass::of_missing(cause))
                };
                put_off(gap, pending, found);
            }
            SequenceFinding::Behind => {
                fill(pending, self.header);
                let class = GapClass::DuplicateSequence;
                repeats.add_behind(self.header, self.finding(GapKind::Repeated, class));
            }
            SequenceFinding::MaybeStoredAgain { earlier_offset } => {
                let class = GapClass::StoredAgainUnderNewEpoch;
                repeats.add_stored_again(earlier_offset, self.finding(GapKind::Repeated, class));
            }
            SequenceFinding::Reordered => {
                found.push(self.finding(GapKind::Reordered, GapClass::OutOfOrderSequence));
                fill(pending, self.header);
            }
            SequenceFinding::EpochRaised {
                known,
                next_sequence,
            } => {
                let now = self.header.producer_epoch();
                let class = GapClass::EpochRaised;
                let left_off = Finding {
                    producer: Some((self.header.producer_id(), known)),
                    sequences: Some((next_sequence, next_sequence)),
                    detail: Detail::LeftOff {
                        previous: known.into(),
                        found: now.into(),
                    },
                    ..self.finding(GapKind::Missing, class)
                };
                put_off(left_off, pending, found);
            }
            SequenceFinding::EpochRegression { known } => {
                let now = self.header.producer_epoch();
                let class = GapClass::ExpiredOrLostState;
                let kind = GapKind::EpochRegression;
                found.push(self.epochs(kind, class, known.into(), now.into()));
            }
            SequenceFinding::CoordinatorEpochRegression { known, found: now } => {
                let class = GapClass::CoordinatorEpochRegression;
                found.push(self.epochs(GapKind::EpochRegression, class, known, now));
            }
        }
    }

    /// A finding about an epoch and the one before it.
    fn epochs(&self, kind: GapKind, class: GapClass, previous: i32, found: i32) -> Finding {
        Finding {
            detail: Detail::Epochs { previous, found },
            ..self.finding(kind, class)
        }
    }

    fn finding(&self, kind: GapKind, class: GapClass) -> Finding {
        let header = self.header;
        let has_sequences = header.base_sequence() >= 0;
        Finding {
            kind,
            sequences: has_sequences.then(|| (header.base_sequence(), header.last_sequence())),
            ..of_batch(
                header,
                self.placed,
                gap(self.placed.first_offset, self.placed.last_offset, class),
            )
        }
    }
}

/// Keeps what a later batch may still fill.
fn put_off(gap: Finding, pending: &mut VecDeque<Finding>, found: &mut Vec<Finding>) {
    if pending.len() >= MAX_PENDING {
        found.extend(pending.pop_front());
    }
    pending.push_back(gap);
}

/// Takes the sequences of a batch that came late out of those that are missing.
fn fill(pending: &mut VecDeque<Finding>, header: &RecordBatchHeader) {
    let producer = (header.producer_id(), header.producer_epoch());
    let (first, last) = (header.base_sequence(), header.last_sequence());
    let mut rest = None;
    pending.retain_mut(|gap| {
        let (Some(of), Some((gap_first, gap_last))) = (gap.producer, gap.sequences) else {
            return true;
        };
        if of != producer {
            return true;
        }
        if let Detail::LeftOff { previous, found } = gap.detail {
            // What lies behind where the client left off is a repeat.
            if !is_behind(first, gap_first) {
                let epochs = Detail::Epochs { previous, found };
                rest = (first != gap_first).then(|| Finding {
                    sequences: Some((gap_first, decrement_sequence(first, 1))),
                    detail: epochs,
                    ..*gap
                });
                let next = increment_sequence(last, 1);
                gap.sequences = Some((next, next));
            }
            return true;
        }
        // In a gap of half of all sequences those after the highest one look the same.
        if is_behind(gap_last, gap_first) {
            return true;
        }
        if first > last || last < gap_first || first > gap_last {
            return true;
        }
        if last < gap_last {
            let after = (last + 1, gap_last);
            if first > gap_first {
                rest = Some(Finding {
                    sequences: Some(after),
                    ..*gap
                });
            } else {
                gap.sequences = Some(after);
                return true;
            }
        }
        gap.sequences = Some((gap_first, first.saturating_sub(1)));
        first > gap_first
    });
    pending.extend(rest);
}

/// Whether a sequence lies behind another, counted on over the highest one: nearer back than ahead.
fn is_behind(sequence: i32, other: i32) -> bool {
    const SEQUENCES: i64 = 1 << 31;
    let ahead = (i64::from(sequence) - i64::from(other)).rem_euclid(SEQUENCES);
    ahead > SEQUENCES / 2
}
