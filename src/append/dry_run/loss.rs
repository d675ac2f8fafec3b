//! What a start loses that is in the files now.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;

use super::reference;
use super::row::{Action, ActionKind, Losses, RecoverRow};
use super::{DryRun, DryRunOptions, as_files_error, is_live_log};
use crate::append::load_trace::{ENDS_BELOW_START, LoadTrace, SEGMENT_LOST};
use crate::append::loader::Checkpointed;
use crate::format::file_name::LogFileKind;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::{self, Io};
use crate::state::ProducerStateEntry;

impl DryRun {
    /// Looks at what is cut off, deleted, or left above the log end.
    pub(super) fn find_losses(
        &mut self,
        dir: &PartitionDir,
        checkpointed: Checkpointed,
        options: &DryRunOptions,
    ) -> Result<(), log::Error> {
        let mut losses = Losses::default();
        let renamed = self.row.actions.iter();
        let names_before: HashMap<&str, &str> = renamed
            .filter_map(|action| Some((action.to.as_deref()?, action.file.as_str())))
            .collect();
        for action in &self.row.actions {
            if let Some(from) = lost_from(action) {
                let file = action.file.as_str();
                let path = dir.path.join(names_before.get(file).unwrap_or(&file));
                losses.count(
                    &MappedFile::open_part(&path, options.io, from, u64::MAX)?,
                    None,
                )?;
            }
        }
        let trace = std::mem::take(&mut self.trace);
        let hidden = self.hidden(dir, &trace, options.io, &mut losses)?;
        if let Some(last) = self.row.segments.last().filter(|_| hidden) {
            let name = LogFileKind::Log(last.base_offset).to_string();
            self.hidden = self.overlay.find(OsStr::new(&name));
        }
        if self.row.loads {
            self.producers(dir, checkpointed, &trace, options, &mut losses)?;
        }
        self.row.loses_data = losses.records > 0 || losses.corrupt_batches > 0;
        self.row.loses_producer_state = !losses.producers.is_empty();
        self.row.losses = losses;
        self.warn(&trace, hidden);
        Ok(())
    }

    /// Batches of the last segment that are at or above the log end: a broker looks for that from
    /// the last index entry on, and finds nothing where the entry is wrong.
    fn hidden(
        &self,
        dir: &PartitionDir,
        trace: &LoadTrace,
        io: Io,
        losses: &mut Losses,
    ) -> Result<bool, log::Error> {
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
        let path = dir
            .path
            .join(LogFileKind::Log(last.base_offset).to_string());
        let file = match MappedFile::open(&path, io) {
            Ok(file) => file,
            // It was put together by this start, and nothing is hidden in it.
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
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
            reference::in_newest_snapshot(dir, end, options).map_err(as_files_error)?
        };
        for entry in reference {
            if !now_known.contains(&entry.producer_id()) {
                losses.producers.push(entry.producer_id());
                if entry.current_txn_first_offset().is_some() {
                    losses.open_transactions.push(entry.producer_id());
                }
            }
        }
        losses.producers.sort_unstable();
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
        if trace.producers_skipped && !self.row.losses.producers.is_empty() {
            warnings.push(
                "no snapshot and a clean start: the broker takes it that there are no producers, \
                 retries of what is in the log are stored twice, and open transactions are \
                 forgotten; remove .kafka_cleanshutdown to have them read from the log"
                    .to_owned(),
            );
        } else if !self.row.losses.producers.is_empty() {
            warnings.push(
                "producers that only the snapshots know are forgotten, as recovery rebuilds them \
                 from the batches that are left"
                    .to_owned(),
            );
        }
        self.row.warnings = warnings;
    }
}

/// Says at a clean start what only an unclean one brings to light: aborted transactions that no
/// `.txnindex` has. A clean start leaves them out for good.
pub fn compare_starts(clean: &mut RecoverRow, unclean: &RecoverRow) {
    let known: BTreeSet<_> = clean.aborted_transactions.iter().collect();
    let missing: Vec<i64> = unclean
        .aborted_transactions
        .iter()
        .filter(|row| !known.contains(row) && Some(row.last_offset) < clean.log_end_offset)
        .map(|row| row.first_offset)
        .collect();
    if let Some(first) = missing.first() {
        clean.warnings.push(format!(
            "{} aborted transactions, the first from offset {first}, are in no .txnindex, and a \
             clean start does not look: read_committed consumers get their records; kseg rebuild \
             makes the index",
            missing.len()
        ));
    }
}

/// From which byte on the records of a `.log` are gone and nobody has put others in their place.
fn lost_from(action: &Action) -> Option<u64> {
    if !is_live_log(&action.file) {
        return None;
    }
    match action.kind {
        ActionKind::Cut => action.position,
        ActionKind::Remove if action.reason == SEGMENT_LOST => Some(0),
        ActionKind::Remove if action.reason == ENDS_BELOW_START => Some(0),
        ActionKind::Rewrite if action.reason == ENDS_BELOW_START => Some(0),
        ActionKind::Remove | ActionKind::Rename | ActionKind::Make | ActionKind::Rewrite => None,
    }
}

impl Losses {
    /// Counts what is in these bytes, of batches only those that reach `from_offset`.
    fn count(&mut self, file: &MappedFile, from_offset: Option<i64>) -> Result<(), log::Error> {
        let mut walk = BatchWalk::new(file);
        while let Some(entry) = walk.next_entry() {
            let (first, last, records, is_valid) = match entry? {
                Entry::Batch(batch) => {
                    let header = batch.header;
                    let records = u64::try_from(header.records_count()).unwrap_or(0);
                    let (first, last) = (header.base_offset(), header.last_offset());
                    (first, last, records, batch.is_valid()?)
                }
                Entry::Legacy(entry) => {
                    let offset = entry.header.offset();
                    (offset, offset, 1, entry.is_valid()?)
                }
                Entry::Damage(damage) => {
                    self.other_bytes += damage.size_in_bytes;
                    continue;
                }
            };
            if from_offset.is_some_and(|from| last < from) {
                continue;
            }
            if !is_valid {
                self.corrupt_batches += 1;
                continue;
            }
            self.batches += 1;
            self.records += records;
            self.first_offset = Some(self.first_offset.map_or(first, |it| it.min(first)));
            self.last_offset = Some(self.last_offset.map_or(last, |it| it.max(last)));
        }
        Ok(())
    }
}
