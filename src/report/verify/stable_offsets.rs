//! The last stable offset in each row of the `.txnindex`.
//!
//! A leader writes the one at the marker (`ProducerStateManager.lastStableOffset`). A follower has
//! taken in its whole fetch by then: what it writes may be as high as the first offset of the next
//! transaction of another producer, and no higher. A fetch looks at no row behind one whose last
//! stable offset is at or above its end (`TransactionIndex.collectAbortedTxns`), so a value that is
//! too high hides the rows behind it from consumers; one that is too low costs nothing.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::start::Start;
use crate::format::record_batch::RecordBatchHeader;
use crate::report::aborted::RowPair;
use crate::state::ProducerStateManager;

/// Rows kept until the next transaction begins; all of them belong to one producer.
const MAX_WAITING: usize = 1000;

/// Compares each row with the log once it is known what the row may say.
pub(super) struct StableOffsetCheck {
    start: Start,
    /// Whether nothing was taken from the front of the log.
    begins_at_zero: bool,
    /// Rows with more than the log gives.
    waiting: Vec<RowPair>,
}

impl StableOffsetCheck {
    pub(super) fn new(start: Start, begins_at_zero: bool) -> Self {
        Self {
            start,
            begins_at_zero,
            waiting: Vec::new(),
        }
    }

    /// An aborted transaction has ended, and its row differs. Where the log has its beginning and
    /// no holes so far, every transaction is known: then a row cannot know of another one.
    pub(super) fn row(&mut self, pair: RowPair, has_holes: bool, found: &mut Vec<Finding>) {
        let in_log = pair.in_log.last_stable_offset;
        if pair.in_index.last_stable_offset < in_log {
            let severity = if self.begins_at_zero && !has_holes {
                Severity::Corrupt
            } else {
                Severity::Notable
            };
            found.push(Finding {
                broker_action: self
                    .start
                    .index(pair.segment, pair.has_offset_index)
                    .to_owned(),
                ..of_pair(&pair, severity, format!("the log gives {in_log}"))
            });
        } else if self.waiting.len() < MAX_WAITING {
            self.waiting.push(pair);
        }
    }

    /// Whether the next batches are asked for.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A batch that was taken in: the rows before it are decided if it begins a transaction.
    pub(super) fn batch(
        &mut self,
        header: &RecordBatchHeader,
        manager: &ProducerStateManager,
        found: &mut Vec<Finding>,
    ) {
        let producer_id = header.producer_id();
        if !manager.begins_transaction(header) {
            return;
        }
        let next = header.base_offset();
        let start = self.start;
        self.waiting.retain(|pair| {
            if pair.in_index.producer_id == producer_id {
                return true;
            }
            if pair.in_index.last_stable_offset > next {
                found.push(too_high(pair, next, &start));
            }
            false
        });
    }
}

fn too_high(pair: &RowPair, next: i64, start: &Start) -> Finding {
    let in_log = pair.in_log.last_stable_offset;
    let hides = format!(
        "a fetch that ends at or below {} looks at no row behind this one: read_committed \
         consumers may get records that were rolled back; {}",
        pair.in_index.last_stable_offset,
        start.index(pair.segment, pair.has_offset_index)
    );
    Finding {
        broker_action: hides,
        next_step: Some("kseg rebuild --only txnindex makes it anew".to_owned()),
        ..of_pair(
            pair,
            Severity::Corrupt,
            format!("the log gives {in_log}, and the next transaction begins at {next}"),
        )
    }
}

fn of_pair(pair: &RowPair, severity: Severity, why: String) -> Finding {
    let (row, in_log) = (&pair.in_index, &pair.in_log);
    let found = row.last_stable_offset;
    Finding {
        file: Some(pair.file.clone()),
        position: Some(pair.position),
        offset: Some(row.first_offset),
        producer_id: Some(row.producer_id),
        first_offset: Some(row.first_offset),
        last_offset: Some(row.last_offset),
        last_stable_offset: Some(found),
        expected: Some(in_log.last_stable_offset.to_string()),
        found: Some(found.to_string()),
        ..Finding::new(
            severity,
            Kind::TxnindexStableOffset,
            format!("last stable offset is {found}: {why}"),
        )
    }
}
