//! What a start loses that is in the files now.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;

use super::aftermath::Gone;
use super::reference;
use super::row::{Action, ActionKind, Losses};
use super::{DryRun, DryRunOptions, as_files_error, is_live_log};
use crate::append::load_trace::{ENDS_BELOW_START, LoadTrace, SEGMENT_LOST, SPLIT};
use crate::append::loader::Checkpointed;
use crate::format::file_name::LogFileKind;
use crate::log;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::extents::{Extent, for_each_extent};
use crate::log::last_copies::LostLog;
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::swap_files::{LostBySwaps, Swaps};
use crate::state::ProducerStateEntry;

impl DryRun {
    /// Looks at what is cut off, deleted, or left above the log end.
    pub(super) fn find_losses(
        &mut self,
        dir: &PartitionDir,
        checkpointed: Checkpointed,
        checkpoints: CheckpointedOffsets,
        options: &DryRunOptions,
    ) -> Result<Vec<Gone>, log::Error> {
        let (mut losses, mut gone) = (Counted::default(), Vec::new());
        let swaps = Swaps::of(dir, options.io, checkpoints, true)?;
        if self.row.loads {
            losses.count_replaced(swaps.lost());
            for (first, last) in &swaps.lost().spans {
                self.row.lost_spans.add(*first, *last);
            }
        }
        let renamed = self.row.actions.iter();
        let names_before: HashMap<&str, &str> = renamed
            .filter_map(|action| Some((action.to.as_deref()?, action.file.as_str())))
            .collect();
        let kept = self
            .overlay
            .kept(|name| is_live_log(&name.to_string_lossy()));
        let mut spans = std::mem::take(&mut self.row.lost_spans);
        for action in self.row.actions.iter().filter(|it| is_loss(it)) {
            let file = action.file.as_str();
            let before = names_before.get(file).unwrap_or(&file);
            let name = OsStr::new(before);
            let from = kept.get(name).copied().unwrap_or(0);
            if let Some(file) = self.overlay.open_original(name, from)?
                && !file.is_empty()
            {
                let span = losses.count(&file, None)?;
                if let Some((first, last)) = span {
                    spans.add(first, last);
                }
                let file_name = name.to_owned();
                gone.push(Gone { file_name, from });
            }
        }
        self.row.lost_spans = spans;
        let trace = std::mem::take(&mut self.trace);
        let hidden = self.hidden(&trace, &mut losses)?;
        if let Some(last) = self.row.segments.last().filter(|_| hidden) {
            let name = LogFileKind::Log(last.base_offset).to_string();
            self.hidden = self.overlay.find(OsStr::new(&name));
        }
        if self.row.loads {
            let mut of_producers = Losses::default();
            self.producers(dir, checkpointed, &trace, options, &mut of_producers)?;
            self.row.losses = of_producers;
        }
        self.set_losses(losses);
        self.row.loses_producer_state = !self.row.losses.producers.is_empty();
        self.warn(&trace, hidden);
        if self.row.loads {
            self.warn_of_swaps(&swaps);
        }
        if self.row.loads {
            self.warn_of_missing_aborted(&trace)?;
        }
        Ok(gone)
    }

    /// Takes over what was counted.
    pub(super) fn set_losses(&mut self, counted: Counted) {
        let range = counted.range();
        let losses = &mut self.row.losses;
        losses.batches = counted.batches;
        losses.records = counted.records;
        losses.corrupt_batches = counted.corrupt_batches;
        losses.other_bytes = counted.other_bytes;
        losses.first_offset = range.map(|(first, _)| first);
        losses.last_offset = range.map(|(_, last)| last);
        self.row.loses_data = counted.records > 0 || counted.corrupt_batches > 0;
        self.counted = counted;
    }

    fn warn_of_swaps(&mut self, swaps: &Swaps) {
        let lost = swaps.lost();
        let ends = lost
            .offsets
            .iter()
            .next()
            .zip(lost.offsets.iter().next_back());
        let Some((((first, _), (_, last)), reason)) = ends.zip(lost.reason) else {
            return;
        };
        let it = match swaps.replaced() {
            [base] => LogFileKind::Log(*base).to_string(),
            _ => "the segments they take the place of".to_owned(),
        };
        let records = match lost.records {
            1 => "1 record".to_owned(),
            many => format!("{many} records"),
        };
        self.row.warnings.push(format!(
            "the .swap files cost {records} of {it}, {first}..{last}: {reason}; move them \
             out of the directory before the start, and it goes on with {it}"
        ));
    }

    /// Aborted transactions that no `.txnindex` has. Only where a segment is recovered are its rows
    /// made again; in a log without transactions there is nothing to look for.
    fn warn_of_missing_aborted(&mut self, trace: &LoadTrace) -> Result<(), log::Error> {
        let row = &self.row;
        let has_transactions = trace.producers_skipped
            || !row.aborted_transactions.is_empty()
            || row
                .producers
                .iter()
                .any(|it| it.coordinator_epoch.is_some());
        let recovered: BTreeSet<i64> = trace.recovered.iter().map(|it| it.base_offset).collect();
        let is_recovered = |base_offset: &i64| recovered.contains(base_offset);
        let bases: Vec<i64> = row.segments.iter().map(|it| it.base_offset).collect();
        if !has_transactions || bases.iter().all(is_recovered) {
            return Ok(());
        }
        let known: BTreeSet<(i64, i64)> = row
            .aborted_transactions
            .distinct()
            .map(|it| (it.producer_id, it.last_offset))
            .collect();
        let start = row.log_start_offset.unwrap_or(0);
        let in_log = reference::aborted(&self.overlay, &bases, row.log_end_offset)?;
        let missing: Vec<i64> = in_log
            .into_iter()
            .filter(|it| it.last_offset >= start)
            .filter(|it| !known.contains(&(it.producer_id, it.last_offset)))
            .map(|it| it.first_offset)
            .collect();
        if let Some(first) = missing.first() {
            let count = missing.len();
            let (what, are, their) = match count {
                1 => ("aborted transaction", "is", "its"),
                _ => ("aborted transactions", "are", "their"),
            };
            self.row.warnings.push(format!(
                "{count} {what}, the first from offset {first}, {are} in no .txnindex, and this \
                 start does not look: read_committed consumers get {their} records; kseg rebuild \
                 makes the index"
            ));
        }
        Ok(())
    }

    /// Batches of the last segment that are at or above the log end: a broker looks for that from
    /// the last index entry on, and finds nothing where the entry is wrong.
    fn hidden(&self, trace: &LoadTrace, losses: &mut Counted) -> Result<bool, log::Error> {
        let (Some(end), Some(last)) = (self.row.log_end_offset, self.row.segments.last()) else {
            return Ok(false);
        };
        let is_recovered = trace
            .recovered
            .iter()
            .any(|it| it.base_offset == last.base_offset);
        if self.row.status == Some("delete") {
            return Ok(false);
        }
        if end != last.base_offset || last.size_in_bytes == 0 || is_recovered {
            return Ok(false);
        }
        let name = LogFileKind::Log(last.base_offset).to_string();
        // One that was put together by this start is not there, and nothing is hidden in it.
        let Some(file) = self.overlay.open_original(OsStr::new(&name), 0)? else {
            return Ok(false);
        };
        let before = losses.batches;
        losses.count(&file, Some(end))?;
        Ok(losses.batches > before)
    }

    fn producers(
        &self,
        dir: &PartitionDir,
        checkpointed: Checkpointed,
        trace: &LoadTrace,
        options: &DryRunOptions,
        losses: &mut Losses,
    ) -> Result<(), log::Error> {
        let now_known: BTreeSet<i64> = self.row.producers.iter().map(|it| it.producer_id).collect();
        let reference: Vec<ProducerStateEntry> = if trace.producers_skipped {
            // Where this fails, the state could not be built anyway.
            reference::in_log(dir, checkpointed, options).unwrap_or_default()
        } else {
            let end = self.row.log_end_offset.unwrap_or(i64::MAX);
            reference::in_newest_snapshot(dir, end, -1, options).map_err(as_files_error)?
        };
        let expiration = options.expiration();
        for entry in reference {
            if !now_known.contains(&entry.producer_id()) {
                losses.producers.push(entry.producer_id());
                if expiration.is_some_and(|it| it.is_expired(&entry)) {
                    losses.expired_producers.push(entry.producer_id());
                }
                if entry.current_txn_first_offset().is_some() {
                    losses.open_transactions.push(entry.producer_id());
                }
            }
        }
        losses.producers.sort_unstable();
        losses.expired_producers.sort_unstable();
        losses.open_transactions.sort_unstable();
        Ok(())
    }

    fn warn(&mut self, trace: &LoadTrace, hidden: bool) {
        let mut warnings = Vec::new();
        if hidden {
            warnings.push(
                "the last .index entry is wrong, and a clean start believes it: what lies above \
                 the log end is hidden, and its offsets are given out again; delete that .index \
                 before the start, and the broker makes it anew"
                    .to_owned(),
            );
        }
        if let Some(end) = trace.ended_below_start {
            warnings.push(format!(
                "the log ends at {end}, below its checkpointed start: every segment is deleted"
            ));
        }
        if self
            .row
            .actions
            .iter()
            .any(|it| it.reason == SEGMENT_LOST && is_live_log(&it.file))
        {
            warnings.push(
                "recovery cuts the log at the first batch that is not good and deletes all \
                 segments behind it; another replica may have them: do not let this one lead"
                    .to_owned(),
            );
        }
        let losses = &self.row.losses;
        let expired = losses.expired_producers.len();
        let others = losses.producers.len() - expired;
        if expired > 0 {
            let (producers, are, their) = match expired {
                1 => ("producer", "is", "its"),
                _ => ("producers", "are", "their"),
            };
            warnings.push(format!(
                "{expired} {producers} {are} forgotten, too old by the clock that was given \
                 (producer.id.expiration.ms): {their} next batch is taken as a first one, whatever \
                 {their} sequence"
            ));
        }
        if trace.producers_skipped && others > 0 {
            warnings.push(
                "no snapshot and a clean start: the broker takes it that there are no producers, \
                 retries of what is in the log are stored twice, and open transactions are \
                 forgotten; remove .kafka_cleanshutdown to have them read from the log"
                    .to_owned(),
            );
        } else if others > 0 {
            warnings.push(
                "producers that only the snapshots know are forgotten, as recovery rebuilds them \
                 from the batches that are left"
                    .to_owned(),
            );
        }
        self.row.warnings = warnings;
    }
}

/// Whether records of a `.log` may be gone that nobody has put others in the place of.
fn is_loss(action: &Action) -> bool {
    is_live_log(&action.file)
        && match action.kind {
            ActionKind::Cut => true,
            ActionKind::Remove => {
                [SEGMENT_LOST, ENDS_BELOW_START, SPLIT].contains(&action.reason.as_str())
            }
            ActionKind::Rewrite => action.reason == ENDS_BELOW_START,
            ActionKind::Rename | ActionKind::Make => false,
        }
}

/// Losses as they are found, each batch counted once however many files have it.
#[derive(Debug, Default)]
pub(super) struct Counted {
    batches: u64,
    records: u64,
    corrupt_batches: u64,
    other_bytes: u64,
    offsets: OffsetRanges,
}

impl Counted {
    /// Counts what is in these bytes, of batches only those that reach `from_offset`; returns the
    /// first and last offset of those that can be read.
    pub(super) fn count(
        &mut self,
        file: &MappedFile,
        from_offset: Option<i64>,
    ) -> Result<Option<(i64, i64)>, log::Error> {
        let mut span: Option<(i64, i64)> = None;
        for_each_extent(file, true, |extent| {
            let batch = match extent {
                Extent::Batch(batch) => batch,
                Extent::Damage { size_in_bytes } => {
                    self.other_bytes += size_in_bytes;
                    return Ok(());
                }
            };
            if from_offset.is_some_and(|from| batch.last_offset < from) {
                return Ok(());
            }
            if !batch.is_valid {
                self.corrupt_batches += 1;
                return Ok(());
            }
            let (first, last) = (batch.first_offset, batch.last_offset);
            let (from, to) = span.unwrap_or((first, last));
            span = Some((from.min(first), to.max(last)));
            if self.offsets.add(first, last) {
                self.batches += 1;
                self.records += batch.records;
            }
            Ok::<_, log::Error>(())
        })?;
        Ok(span)
    }

    /// Takes in what is lost with a `.log`, whose batches are among the offsets already.
    pub(super) fn add(&mut self, lost: &LostLog) {
        self.batches += lost.batches;
        self.records += lost.records;
        self.corrupt_batches += lost.corrupt_batches;
        self.other_bytes += lost.other_bytes;
    }

    /// The offsets of what was counted.
    pub(super) fn offsets(&mut self) -> &mut OffsetRanges {
        &mut self.offsets
    }

    /// Takes in what goes with segments that are replaced.
    fn count_replaced(&mut self, lost: &LostBySwaps) {
        for (first, last) in lost.offsets.iter() {
            self.offsets.add(first, last);
        }
        self.batches += lost.batches;
        self.records += lost.records;
    }

    /// First and last offset of what was counted.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        let (first, _) = self.offsets.iter().next()?;
        let (_, last) = self.offsets.iter().next_back()?;
        Some((first, last))
    }
}
