//! What must see the batches in the order of the log.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::leader_epochs::EpochCheck;
use super::markers::{BatchAt, MarkerCheck};
use super::sequences::Compaction;
use super::snapshots::SnapshotCheck;
use super::stable_offsets::StableOffsetCheck;
use super::transactions::of_missing_marker;
use crate::format::control_record::EndTransactionMarker;
use crate::log::Error;
use crate::log::batches::{Batch, Entry};
use crate::log::partition_walk::SegmentAt;
use crate::report::aborted::Comparison;
use crate::report::gaps::{self, GapClass, GapFold, GapKind};
use crate::report::transactions::TxnEvent;

/// What must see the batches in order.
pub(super) struct Folds<'a> {
    pub(super) gaps: GapFold<'a>,
    pub(super) gap_findings: Vec<gaps::Finding>,
    /// Whether one that has been passed on was a hole.
    pub(super) had_hole: bool,
    pub(super) compaction: Compaction,
    pub(super) transactions: Comparison<'a>,
    pub(super) epochs: EpochCheck,
    pub(super) snapshots: SnapshotCheck<'a>,
    pub(super) markers: MarkerCheck<'a>,
    pub(super) stable_offsets: StableOffsetCheck,
    pub(super) found: Vec<Finding>,
}

impl Folds<'_> {
    /// Takes in the next entry.
    pub(super) fn entry(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) -> Result<(), Error> {
        match entry {
            Entry::Batch(batch) => return self.batch(at, batch),
            Entry::Legacy(_) => self.epochs.take_legacy(),
            Entry::Damage(_) => {}
        }
        self.gaps.entry(at, entry, &mut self.gap_findings)?;
        // Only batches do something to a transaction.
        self.transactions.entry(at, entry)?;
        Ok(())
    }

    /// Takes in the next entry, a batch.
    #[inline]
    pub(super) fn batch(&mut self, at: SegmentAt<'_>, batch: &Batch<'_>) -> Result<(), Error> {
        let offset = batch.header.base_offset();
        if self.snapshots.is_due(offset) {
            let manager = self.transactions.fold.manager();
            let log_start = self.transactions.log_start_offset();
            let (compaction, gaps) = (self.compaction, &mut self.gaps);
            let is_compacted = || Ok(compaction.is_seen() || gaps.is_compacted()?);
            self.snapshots
                .compare(offset, manager, log_start, is_compacted, &mut self.found)?;
        }
        self.epochs.take(at.index, batch.position, batch.header);
        let marker = batch.marker()?;
        self.gaps.batch(at, batch, marker, &mut self.gap_findings)?;
        match self.transactions.batch(at, batch, marker) {
            TxnEvent::Nothing | TxnEvent::EmptyTransaction => {}
            TxnEvent::Ended => self.ended(),
            TxnEvent::Refused => self.refused(at, batch),
        }
        if self.markers.wants(batch.header) {
            self.check_marker(at, batch, marker);
        }
        if self.stable_offsets.is_waiting() {
            let manager = self.transactions.fold.manager();
            self.stable_offsets
                .batch(batch.header, manager, &mut self.found);
        }
        Ok(())
    }

    #[cold]
    fn check_marker(
        &mut self,
        at: SegmentAt<'_>,
        batch: &Batch<'_>,
        marker: Option<EndTransactionMarker>,
    ) {
        let batch_at = BatchAt {
            file: at.file,
            position: batch.position,
            header: batch.header,
        };
        let mut missing = Vec::new();
        self.markers.take(batch_at, marker, &mut missing);
        // What compaction or a loss has taken leaves a hole.
        if !missing.is_empty() && !self.has_holes() {
            self.found.append(&mut missing);
        }
    }

    /// Whether the log lacks offsets up to here.
    fn has_holes(&self) -> bool {
        self.had_hole || self.compaction.is_seen() || self.gap_findings.iter().any(is_hole)
    }

    /// Whether a batch seems to repeat another one, which may be damage in either.
    pub(super) fn has_repeats(&self) -> bool {
        let mut kinds = self.gap_findings.iter().map(|it| it.kind);
        kinds.any(|it| matches!(it, GapKind::Repeated | GapKind::EpochRegression))
    }

    /// What was found of gaps since the last time.
    pub(super) fn take_gaps(&mut self) -> Vec<gaps::Finding> {
        self.had_hole = self.had_hole || self.gap_findings.iter().any(is_hole);
        std::mem::take(&mut self.gap_findings)
    }

    fn ended(&mut self) {
        if let Some(ended) = self.transactions.fold.ended() {
            let txn = &ended.transaction;
            let producer = (txn.producer_id, txn.producer_epoch);
            let missing = txn.missing_markers.iter();
            self.found
                .extend(missing.map(|it| of_missing_marker(producer, it)));
            if ended.aborted.is_some()
                && let Some(pair) = self.transactions.differing_stable_offset()
            {
                let has_holes = self.has_holes();
                self.stable_offsets.row(pair, has_holes, &mut self.found);
            }
        }
    }

    #[cold]
    fn refused(&mut self, at: SegmentAt<'_>, batch: &Batch<'_>) {
        let Some(refusal) = self.transactions.fold.last_refusal() else {
            return;
        };
        // The state is read from the log start on, but recovery reads a segment as a whole.
        let transaction = self.transactions.fold.open(batch.header.producer_id());
        let last_offset = transaction.and_then(|it| it.last_offset);
        let is_below = |offset| self.transactions.is_below_log_start(offset);
        if is_below(batch.header.last_offset()) && last_offset < Some(at.base_offset) {
            return;
        }
        let broker_action = if last_offset.is_none_or(is_below) {
            "a start that recovers its segment stops; one that reads the state from the log start \
             on does not meet what it goes against"
        } else {
            "a start that replays or recovers it stops: the broker does not start"
        };
        let finding = Finding {
            file: Some(at.file.to_owned()),
            position: Some(batch.position),
            found: Some(refusal.to_string()),
            broker_action: broker_action.to_owned(),
            ..Finding::new(Severity::Corrupt, Kind::RefusedBatch, refusal.to_string())
        };
        self.found
            .push(super::batches::of_header(batch.header, finding));
    }
}

fn is_hole(finding: &gaps::Finding) -> bool {
    matches!(
        finding.class,
        GapClass::CompactedBetweenBatches
            | GapClass::CompactedInsideBatch
            | GapClass::EmptyBatch
            | GapClass::SegmentMissing
            | GapClass::OffsetHole
            | GapClass::Damage(_)
    )
}
