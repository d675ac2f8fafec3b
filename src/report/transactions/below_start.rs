//! Transactions that were open where the log starts, all of whose data lies below.
//!
//! A broker that runs on knows them still. One that loads the log begins at its start, if no
//! snapshot lies behind it (`ProducerStateManager.truncateAndReload`,
//! `UnifiedLog.rebuildProducerState`), and so does one that cuts the log back: it knows nothing of
//! them, and takes what their producers write next as it comes. Which of the two it was is told by
//! what they write: as soon as it does not go on with the transaction, that was forgotten.
//!
//! Recovery reads the segment with the log start from its first batch on (`LogSegment.recover`),
//! and then it knows them again.

use std::collections::HashSet;

use super::{Slot, TransactionFold};
use crate::format::record_batch::{RecordBatchHeader, increment_sequence};

/// What is not decided yet.
#[derive(Debug)]
pub(super) struct BelowStart {
    log_start_offset: i64,
    /// Base offset of the segment that it lies in.
    segment_base_offset: i64,
    /// The producers, once the log start has been passed.
    open: Option<HashSet<i64>>,
}

impl TransactionFold {
    /// Says that nobody reads below this offset, which lies above the first batch, in the segment
    /// with this base offset.
    #[must_use]
    pub(in crate::report) fn starting_at(
        mut self,
        log_start_offset: i64,
        segment_base_offset: i64,
    ) -> Self {
        self.below_start = Some(Box::new(BelowStart {
            log_start_offset,
            segment_base_offset,
            open: None,
        }));
        self
    }

    /// Before a batch is taken in, until nothing is left to be decided. Returns whether a start
    /// that recovers its segment refuses it all the same.
    #[cold]
    pub(super) fn decide_below_start(&mut self, header: &RecordBatchHeader) -> bool {
        let Some(mut below) = self.below_start.take() else {
            return false;
        };
        if header.last_offset() < below.log_start_offset {
            self.below_start = Some(below);
            return false;
        }
        let open = below.open.get_or_insert_with(|| {
            let all = self.all_open();
            all.map(|transaction| transaction.producer_id).collect()
        });
        let producer_id = header.producer_id();
        let mut is_refused = false;
        if open.remove(&producer_id) && !self.goes_on(header) {
            let last_offset = self.open(producer_id).and_then(|it| it.last_offset);
            let is_recovered = last_offset >= Some(below.segment_base_offset);
            // What is refused changes nothing; what is not is forgotten with the rest.
            is_refused = is_recovered && self.recover(header, None).is_none();
            self.manager.forget(producer_id);
            if let Some(slot) = self.known_slot(producer_id) {
                *slot = Slot::default();
            }
        }
        if !open.is_empty() {
            self.below_start = Some(below);
        }
        is_refused
    }

    /// Whether a batch may be the next of its producer's open transaction, or its end.
    fn goes_on(&self, header: &RecordBatchHeader) -> bool {
        let attributes = header.attributes();
        if attributes.is_control() {
            return true;
        }
        let Some(entry) = self.manager.last_entry(header.producer_id()) else {
            return false;
        };
        let next = entry
            .last_batch()
            .map(|batch| increment_sequence(batch.last_sequence, 1));
        attributes.is_transactional()
            && entry.producer_epoch() == header.producer_epoch()
            && next.is_none_or(|next| next == header.base_sequence())
    }
}
