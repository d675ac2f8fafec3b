//! What is folded from the batches of one side, whether they are the same on the other or not.

use super::ReplicaInput;
use super::cursor::Head;
use super::facts::Span;
use super::kind::DiffKind;
use super::row::LostFrontRow;
use super::shared_holes::Holes;
use super::txn_rows::Rowless;
use crate::format::leader_epoch_checkpoint::EpochEntry;
use crate::format::record_batch::CompressionType;
use crate::log::batches::Entry;
use crate::log::lost_front::lost_front;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::report::gaps::offsets::{Offsets, Placed};
use crate::report::gaps::{Detail, Finding, GapClass, GapKind};
use crate::report::partition_state::read_snapshot;
use crate::report::transactions::{TransactionFold, TxnEvent};
use crate::state::LeaderEpochs;

/// One side.
pub(super) struct Replica<'d> {
    offsets: Offsets<'d>,
    pub(super) txns: TransactionFold,
    /// Leader epochs by the batches.
    pub(super) epochs: LeaderEpochs,
    pub(super) log_start_offset: i64,
    /// What is gone from the front, though the log start was never moved behind it.
    pub(super) lost_front: Option<LostFrontRow>,
    /// Where the newest entry lies, and what it did to a transaction.
    pub(super) span: Span,
    pub(super) event: TxnEvent,
    /// The offset behind what lies before the newest entry.
    previous_end: i64,
    /// Whether the entry at the head has been taken in.
    is_taken: bool,
    is_finished: bool,
    /// Whether the cleaner has been at work.
    pub(super) is_cleaned: bool,
    /// The offset behind the last one that is not there, for whatever reason.
    pub(super) gone_up_to: i64,
    /// Offsets that are not there before the head, each with the likely cause.
    holes: Vec<Finding>,
    /// Those of all that nobody meant to make.
    pub(super) lost: Holes,
    /// Aborted transactions that the `.txnindex` files lack.
    pub(super) rowless: Rowless<'d>,
}

impl<'d> Replica<'d> {
    pub(super) fn new(
        ReplicaInput { dir, checkpoints }: ReplicaInput<'d>,
        io: Io,
    ) -> Result<Self, Error> {
        let offsets = Offsets::new(dir, io, checkpoints);
        let log_start_offset = offsets.log_start_offset;
        let lost = lost_front(dir, checkpoints.log_start_offset, io)?;
        Ok(Self {
            txns: first_transactions(dir, io, log_start_offset)?,
            offsets,
            epochs: LeaderEpochs::default(),
            log_start_offset,
            lost_front: lost.map(|lost| LostFrontRow {
                first_offset: lost.first_offset,
                last_offset: log_start_offset.saturating_sub(1),
                may_be_remote: lost.may_be_remote,
            }),
            span: Span { first: 0, last: -1 },
            event: TxnEvent::Nothing,
            previous_end: log_start_offset,
            is_taken: false,
            is_finished: false,
            is_cleaned: false,
            gone_up_to: i64::MIN,
            holes: Vec::new(),
            lost: Holes::default(),
            rowless: Rowless::new(dir, io),
        })
    }

    /// The first offset that should be here.
    pub(super) fn should_begin_at(&self) -> i64 {
        let lost = self.lost_front.map(|lost| lost.first_offset);
        lost.unwrap_or(self.log_start_offset)
    }

    /// Takes in what lies next, once; whether it had not been taken in before.
    pub(super) fn take_in(&mut self, head: Head<'_, '_>) -> Result<bool, Error> {
        if self.is_taken {
            return Ok(false);
        }
        self.is_taken = true;
        self.holes.clear();
        self.previous_end = self.offsets.next_offset;
        self.offsets.enter(head.at.index, &mut self.holes)?;
        self.event = self.txns.take(head.at, head.entry)?;
        if self.event == TxnEvent::Ended
            && let Some(row) = self.txns.ended().and_then(|ended| ended.aborted)
            && row.first_offset >= self.log_start_offset
        {
            self.rowless.aborted(&row, head.at.base_offset)?;
        }
        let position = match head.entry {
            Entry::Batch(batch) => {
                self.span = Span {
                    first: batch.header.base_offset(),
                    last: batch.header.last_offset(),
                };
                // Negative epochs stand for none.
                let _ = self.epochs.assign(EpochEntry {
                    epoch: batch.header.partition_leader_epoch(),
                    start_offset: self.span.first,
                });
                batch.position
            }
            Entry::Legacy(entry) => {
                let last = entry.header.offset();
                let is_wrapper = entry.header.compression_type() != CompressionType::NONE;
                // A wrapper has the offset of its last message only.
                let first = if is_wrapper {
                    self.offsets.next_offset.min(last)
                } else {
                    last
                };
                self.span = Span { first, last };
                entry.position
            }
            Entry::Damage(damage) => {
                self.offsets.damage(head.at.index, **damage);
                return Ok(true);
            }
        };
        let placed = Placed {
            segment: head.at.index,
            position,
            first_offset: self.span.first,
            last_offset: self.span.last,
        };
        self.offsets.entry(placed, &mut self.holes)?;
        self.take_holes();
        self.is_cleaned |= is_cleaned(head);
        if matches!(head.entry, Entry::Batch(batch) if batch.header.has_less_records()) {
            self.gone_up_to = self.gone_up_to.max(self.span.last.saturating_add(1));
        }
        Ok(true)
    }

    fn take_holes(&mut self) {
        self.lost.take(&self.holes);
        for hole in &self.holes {
            self.is_cleaned |= hole.class == GapClass::CompactedBetweenBatches;
            if hole.kind == GapKind::OffsetGap {
                let end = hole.last_offset.map_or(i64::MIN, |it| it.saturating_add(1));
                self.gone_up_to = self.gone_up_to.max(end);
            }
        }
    }

    /// Where the head begins at or below the end of what lies before it: whether its records are
    /// those that lie there already.
    pub(super) fn goes_back(&self) -> Option<bool> {
        self.holes.iter().find_map(|found| match found.detail {
            Detail::Overlap { is_equal, .. } => Some(is_equal == Some(true)),
            Detail::None
            | Detail::DuplicateOf { .. }
            | Detail::ToldBy(_)
            | Detail::AboveHighWatermark(_)
            | Detail::ReplacedBy { .. }
            | Detail::LeftOff { .. }
            | Detail::Epochs { .. } => None,
        })
    }

    /// The head has been dealt with.
    pub(super) fn pass(&mut self) {
        self.is_taken = false;
    }

    /// Whether the log has a batch.
    pub(super) fn has_batches(&self) -> bool {
        self.span.first <= self.span.last
    }

    /// Where a follower stops that cannot take the head, if it is a batch.
    pub(super) fn next_stop(&self) -> i64 {
        self.previous_end
    }

    /// The offset behind the last entry so far.
    pub(super) fn next_offset(&self) -> i64 {
        self.offsets.next_offset
    }

    /// The end of the log, once there are no more entries.
    pub(super) fn finish(&mut self) -> Result<i64, Error> {
        if !self.is_finished {
            self.is_finished = true;
            self.holes.clear();
            self.offsets.finish(&mut self.holes)?;
            self.take_holes();
        }
        Ok(self.offsets.next_offset)
    }

    /// Why an offset that the other side has is not here: at the end of this log, or in front of
    /// its head, or before the log begins.
    pub(super) fn why_missing(&mut self, offset: i64, is_at_end: bool) -> Result<DiffKind, Error> {
        if offset < self.log_start_offset && offset >= self.should_begin_at() {
            return Ok(DiffKind::MissingSegment);
        }
        if is_at_end && offset >= self.finish()? {
            return Ok(DiffKind::MissingTail);
        }
        let holds = |hole: &&Finding| {
            hole.kind == GapKind::OffsetGap
                && hole.first_offset.is_some_and(|first| first <= offset)
                && hole.last_offset.is_some_and(|last| offset <= last)
        };
        Ok(match self.holes.iter().find(holds).map(|hole| hole.class) {
            Some(GapClass::SegmentMissing) => DiffKind::MissingSegment,
            Some(GapClass::Damage(_)) => DiffKind::OtherBytes,
            _ => DiffKind::Compaction,
        })
    }
}

/// Whether an entry has the marks of the cleaner's work: fewer records than offsets, or a delete
/// horizon.
pub(super) fn is_cleaned(head: Head<'_, '_>) -> bool {
    match head.entry {
        Entry::Batch(batch) => {
            batch.header.has_less_records() || batch.header.attributes().has_delete_horizon()
        }
        Entry::Legacy(_) | Entry::Damage(_) => false,
    }
}

/// Transactions that were open when the first segment began, if its snapshot is there.
fn first_transactions(
    dir: &PartitionDir,
    io: Io,
    log_start_offset: i64,
) -> Result<TransactionFold, Error> {
    let Some(first) = dir.segments.first() else {
        return Ok(TransactionFold::from_scratch(log_start_offset));
    };
    Ok(match read_snapshot(dir, io, first.base_offset)? {
        Some(Ok(rows)) => TransactionFold::on_top_of(rows, first.base_offset),
        Some(Err(_)) | None => TransactionFold::from_scratch(log_start_offset),
    })
}
