//! Rows of the `.txnindex` whose last stable offset hides the rows behind them.
//!
//! A fetch looks at no row behind one whose last stable offset is at or above its end
//! (`TransactionIndex.collectAbortedTxns`). What a row may say at most is the first offset of the
//! next transaction of another producer.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::comparison::{Comparison, STABLE_OFFSET};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::partition_walk::walk_partition;
use crate::report::transactions::TxnEvent;

/// Rows kept until the next transaction begins; all of them belong to one producer.
const MAX_WAITING: usize = 1000;

impl Comparison<'_> {
    /// Follows rows that wait past a batch that was taken in.
    #[inline]
    pub(super) fn pass_waiting(&mut self, event: TxnEvent, header: &RecordBatchHeader) {
        if event == TxnEvent::Ended {
            self.wait_for_next_transaction();
        } else if !self.waiting.is_empty() {
            self.decide_waiting(header);
        }
    }

    /// A transaction has ended: its row waits if it has more than the log gives.
    fn wait_for_next_transaction(&mut self) {
        let ended_at = self.fold.ended().map(|ended| ended.marker.offset);
        let Some(place) = self.segment.found.len().checked_sub(1) else {
            return;
        };
        let last = self.segment.found.last();
        let rows = last.and_then(|it| it.in_index.zip(it.in_log));
        let waits = rows.is_some_and(|(index, log)| {
            ended_at == Some(log.row.last_offset)
                && index.row.last_stable_offset > log.row.last_stable_offset
        });
        if waits && self.waiting.len() < MAX_WAITING {
            self.waiting.push(place);
        }
    }

    /// A batch that was taken in: it decides about the rows that wait if it begins a transaction.
    fn decide_waiting(&mut self, header: &RecordBatchHeader) {
        if self.fold.manager().begins_transaction(header) {
            self.begins(header.producer_id(), header.base_offset());
        }
    }

    /// The rows that wait still, at the end of the segment: looks for the next transaction behind.
    pub(super) fn look_for_next_transaction(&mut self) -> Result<(), Error> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let ongoing = self.fold.manager().ongoing_txns();
        let mut ongoing: HashSet<i64> = ongoing.map(|it| it.producer_id).collect();
        let (dir, io) = (self.dir, self.options.state.io);
        walk_partition(dir, io, self.segment.index + 1, |_, entry| {
            let Entry::Batch(batch) = entry else {
                return Ok::<_, Error>(ControlFlow::Continue(()));
            };
            let header = batch.header;
            let (id, attributes) = (header.producer_id(), header.attributes());
            if attributes.is_control() {
                if batch.marker()?.is_some() {
                    ongoing.remove(&id);
                }
            } else if attributes.is_transactional() && ongoing.insert(id) {
                self.begins(id, header.base_offset());
            }
            Ok(if self.waiting.is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })?;
        self.waiting.clear();
        Ok(())
    }

    /// A transaction of a producer begins.
    fn begins(&mut self, producer_id: i64, first_offset: i64) {
        let found = &mut self.segment.found;
        self.waiting.retain(|place| {
            let Some(found) = found.get_mut(*place) else {
                return false;
            };
            let row = found.in_index.map(|it| it.row);
            if row.is_some_and(|row| row.producer_id == producer_id) {
                return true;
            }
            let is_too_high = row.is_some_and(|row| row.last_stable_offset > first_offset);
            if is_too_high && found.finding.is_none() {
                found.finding = Some(STABLE_OFFSET);
                found.reason = Some(
                    "its last stable offset lies behind the next transaction: a fetch that ends \
                     below it looks at no row behind, and consumers may get what was rolled back",
                );
            }
            false
        });
    }
}
