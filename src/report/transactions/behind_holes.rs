//! Behind a segment that is missing, the snapshot at the base of the next one says what is open.
//!
//! The markers of what was open before may have been in what is missing, and transactions that end
//! later may have begun there. A broker that recovers the segment begins with that snapshot
//! (`UnifiedLog.rebuildProducerState`), and whatever it knew while it ran is in it. What the
//! cleaner took is another matter: a broker that replays takes what is left for all there was.

use super::{Transaction, TransactionFold};
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::report::gaps::LostOffsets;
use crate::report::partition_state::{StateOptions, read_snapshot};
use crate::state::ProducerSnapshotRow;

/// Finds such places along a walk.
#[derive(Debug)]
pub(in crate::report) struct BehindHoles<'d> {
    dir: &'d PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
    /// The offsets that are lost, once anything depends on them: it takes a walk of its own.
    lost: Option<LostOffsets>,
}

impl<'d> BehindHoles<'d> {
    pub(in crate::report) fn new(
        dir: &'d PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: StateOptions,
    ) -> Self {
        Self {
            dir,
            checkpoints,
            options,
            lost: None,
        }
    }

    /// Before the first entry of a segment: has the fold go on from the snapshot at its base if
    /// what lies in front of it is missing. Returns the transactions whose end is in there.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(in crate::report) fn enter(
        &mut self,
        fold: &mut TransactionFold,
        segment: usize,
    ) -> Result<Vec<Transaction>, Error> {
        let base_offset = self.dir.segments.get(segment).map(|it| it.base_offset);
        let Some(base_offset) = base_offset.filter(|base| fold.is_behind_hole(*base)) else {
            return Ok(Vec::new());
        };
        if self.options.from_scratch {
            return Ok(Vec::new());
        }
        let Some(Ok(rows)) = read_snapshot(self.dir, self.options.io, base_offset)? else {
            return Ok(Vec::new());
        };
        if fold.has_open(&rows) || !self.is_lost(fold, base_offset)? {
            return Ok(Vec::new());
        }
        Ok(fold.go_on_from(rows, base_offset))
    }

    /// Whether the hole before `base_offset` is a loss, and no work of the cleaner.
    fn is_lost(&mut self, fold: &TransactionFold, base_offset: i64) -> Result<bool, Error> {
        // Bytes that cannot be read are none.
        let Some(next) = fold.holes.next_offset else {
            return Ok(true);
        };
        let lost = match self.lost.take() {
            Some(lost) => lost,
            None => LostOffsets::of(self.dir, self.checkpoints, self.options.io)?,
        };
        Ok(self.lost.insert(lost).touches(next, base_offset - 1))
    }
}

impl TransactionFold {
    /// Whether something came before, and it does not reach up to `base_offset`.
    fn is_behind_hole(&self, base_offset: i64) -> bool {
        self.holes.count > 0 && self.holes.next_offset.is_none()
            || self
                .holes
                .next_offset
                .is_some_and(|next| next < base_offset)
    }

    /// Whether the transactions of a snapshot are those that are open here.
    fn has_open(&self, rows: &[ProducerSnapshotRow]) -> bool {
        let open = rows.iter().filter_map(|row| {
            let first = row.current_txn_first_offset;
            (first >= 0).then_some((row.producer_id, first))
        });
        let is_same = |(producer_id, first): (i64, i64)| {
            self.open(producer_id).map(|it| it.first_offset) == Some(first)
        };
        let mut number = 0;
        let all_same = open.inspect(|_| number += 1).all(is_same);
        all_same && number == self.all_open().count()
    }

    fn go_on_from(&mut self, rows: Vec<ProducerSnapshotRow>, offset: i64) -> Vec<Transaction> {
        let before = std::mem::take(self);
        *self = Self::on_top_of(rows, offset).with_high_watermark(before.high_watermark);
        let mut ended = Vec::new();
        for transaction in before.all_open() {
            let slot = self.known_slot(transaction.producer_id);
            let is_same = |slot: &&mut super::Slot| {
                slot.is_open && slot.transaction.first_offset == transaction.first_offset
            };
            match slot.filter(is_same) {
                Some(slot) => slot.transaction = transaction.clone(),
                None => ended.push(transaction.clone()),
            }
        }
        for slot in &mut self.slots {
            slot.holes_seen = before.holes.count;
        }
        self.holes = before.holes;
        (self.refused, self.last_refusal) = (before.refused, before.last_refusal);
        ended.sort_by_key(|transaction| transaction.first_offset);
        ended
    }
}
