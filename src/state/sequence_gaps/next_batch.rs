//! The next batch or marker of a producer against what of it lies in the log.

use super::stored::{Known, MODULUS, Producer, Recent};
use super::{MissingCause, OffsetsGone, SequenceFinding};
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::RecordBatchHeader;
use crate::state::producer_state_entry::NUM_BATCHES_TO_RETAIN;

/// Offset ranges of one open transaction; beyond that the last one swallows what follows.
const MAX_TXN_RUNS: usize = 1024;

impl Producer {
    /// A plain batch of a higher epoch than all before, and nothing has gone since the last batch
    /// of the highest one: what it never stored of that. A marker raises the epoch too, but leaves
    /// no batch known.
    #[cold]
    pub(super) fn epoch_raised(
        &self,
        epoch: i16,
        gone: OffsetsGone,
        found: &mut impl FnMut(SequenceFinding),
    ) {
        if epoch > self.max_epoch
            && let Some((highest, gone_before)) = self.highest_of_newest()
            && gone_before == gone
        {
            found(SequenceFinding::EpochRaised {
                known: self.max_epoch,
                next_sequence: wrapped(highest + 1),
            });
        }
    }

    /// An epoch other than the last one: lower ones a leader refuses
    /// (`ProducerAppendInfo.checkProducerEpoch`).
    #[cold]
    pub(super) fn data_epoch(&mut self, epoch: i16, found: &mut impl FnMut(SequenceFinding)) {
        if epoch < self.epoch {
            let known = self.epoch;
            found(SequenceFinding::EpochRegression { known });
        }
        self.set_epoch(epoch);
    }

    #[inline]
    pub(super) fn data(
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
            // What was stored under this epoch before is not kept.
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
        let of_offsets = gone.since(self.gone).cause_of(missing);
        of_offsets.unwrap_or(match (self.known, sees_beginning) {
            (Known::Data, _) | (Known::Markers, true) => MissingCause::ExpiredOrLostState,
            (Known::Nothing, true) => MissingCause::NeverStored,
            (Known::Nothing | Known::Markers, false) => MissingCause::BeforeLogStart,
        })
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
    pub(super) fn add_to_txn(&mut self, header: &RecordBatchHeader) {
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
    pub(super) fn marker(
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
