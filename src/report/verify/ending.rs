//! What only the end of the log tells: checkpoints, snapshots, leader epochs, open transactions.

use std::sync::Arc;

use super::batches::Depth;
use super::finding::Finding;
use super::folds::Folds;
use super::lost_logs::{Around, check_lost_logs};
use super::offsets::check_checkpoints;
use super::pass::{Pass, state_options};
use super::sequences::of_gap;
use super::snapshots::LogEnds;
use super::transactions::of_open;
use crate::log::Error;
use crate::log::checkpoints::checkpoints_now;
use crate::report::txns::{TxnsOptions, WantedStates, open_transactions};

impl<P: FnMut(u64), G> Pass<'_, P, G> {
    fn around(&self, log_end: i64) -> Around<'_> {
        Around {
            dir: self.dir,
            io: self.options.io,
            start: &self.start,
            checkpoints: self.checkpoints,
            log_end,
            has_checksums: self.options.depth != Depth::Headers,
        }
    }

    /// The checkpoints against the ends that the log has once it is loaded.
    fn checkpoints(&self, ends: LogEnds, active_base: i64, found: &mut Vec<Finding>) {
        let check = |checkpoints| {
            let mut found = Vec::new();
            check_checkpoints(checkpoints, ends, active_base, &self.start, &mut found);
            found
        };
        let mut of_checkpoints = check(self.checkpoints);
        let has_alarm = |found: &[Finding]| found.iter().any(|it| it.severity.is_alarm());
        let mut settling = self.dir.settling();
        while self.is_live() && has_alarm(&of_checkpoints) {
            let now = check(checkpoints_now(self.dir, self.options.io));
            let same = |a: &Finding, b: &Finding| a.kind == b.kind && a.found == b.found;
            of_checkpoints.retain(|it| now.iter().any(|now| same(now, it)));
            if !settling.wait() {
                break;
            }
        }
        found.append(&mut of_checkpoints);
    }

    /// What only the end of the log tells.
    pub(super) fn end<E: From<Error>>(
        &mut self,
        folds: Folds<'_>,
        is_seeded: bool,
        log_start: i64,
        walked_bytes: u64,
    ) -> Result<(), E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let (dir, io) = (self.dir, self.options.io);
        let Folds {
            gaps,
            mut gap_findings,
            mut compaction,
            transactions,
            epochs,
            snapshots,
            mut found,
            ..
        } = folds;
        dir.check_not_cut()?;
        let log_end = gaps.finish(&mut gap_findings)?.log_end_offset;
        // There may be as many as batches: none is kept.
        self.out.finish(self.passed, self.give)?;
        found.drain(..).try_for_each(&mut *self.give)?;
        for finding in &gap_findings {
            let finding = of_gap(finding, dir, &mut compaction);
            if let Some(finding) = finding.filter(|it| !self.is_vanished(it)) {
                (self.give)(finding)?;
            }
        }
        found.extend(compaction.finding());
        if dir.is_whole {
            check_lost_logs(self.around(log_end), &mut found)?;
        }
        if dir.segments.is_empty() && self.stays_empty() {
            // A start makes one where the log is said to begin (`LogLoader.recoverLog`).
            let log_start = self.checkpoints.log_start_offset.unwrap_or(0);
            let log_end = log_start;
            self.checkpoints(LogEnds { log_start, log_end }, log_start, &mut found);
        }
        // Of a single segment, the end of a transaction may lie in the next one, and so on.
        if let Some(last) = dir.segments.last().filter(|_| dir.is_whole) {
            let fold = transactions.fold;
            let ends = LogEnds { log_start, log_end };
            self.checkpoints(ends, last.base_offset, &mut found);
            let is_compacted = compaction.is_seen();
            snapshots.finish(ends, fold.manager(), is_compacted, &self.start, &mut found)?;
            let mut of_epochs = Vec::new();
            epochs.finish(dir, io, (log_start, log_end), &self.start, &mut of_epochs)?;
            let is_old =
                !of_epochs.is_empty() && self.is_live() && dir.has_gone_on(Some(walked_bytes));
            if !is_old {
                found.append(&mut of_epochs);
            }
            let know = self.options.coordinators.as_deref();
            let options = TxnsOptions {
                state: state_options(io),
                states: WantedStates::ALL,
                coordinators: know.map(|know| Arc::clone(&know.states)),
                ..TxnsOptions::default()
            };
            let fold = (fold, is_seeded);
            open_transactions::<E>(dir, self.checkpoints, &options, fold, log_end, |row| {
                of_open(row, &mut found);
                Ok(())
            })?;
        }
        found.into_iter().try_for_each(&mut *self.give)
    }
}
