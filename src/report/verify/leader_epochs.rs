//! `leader-epoch-checkpoint` against the batches.
//!
//! Decides `LeaderEpochCheckpointFile`, `LeaderEpochFileCache`.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::moved_start::moved_start;
use super::start::{Start, does_not_load};
use crate::format::file_name::{FileState, LogFileKind};
use crate::format::leader_epoch_checkpoint::{EpochEntry, LeaderEpochCheckpoint};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::odd_entry::OddEntry;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::state::LeaderEpochs;

/// Epochs that are kept; a log of years has some hundred.
const MAX_EPOCHS: usize = 100_000;
/// Lines that are told of.
const MAX_TOLD: usize = 100;

/// The batches of one leader epoch that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochRun {
    pub(super) epoch: i32,
    pub(super) first_offset: i64,
    pub(super) last_offset: i64,
    /// Behind the last batch before it.
    previous_end: Option<i64>,
}

/// The leader epochs of the batches.
#[derive(Debug, Default)]
pub(super) struct EpochCheck {
    /// What a broker that takes the batches in keeps of them.
    cache: LeaderEpochs,
    /// The batches of each epoch in it.
    runs: Vec<EpochRun>,
    current: Option<i32>,
    last_offset: Option<i64>,
    falls: u64,
    has_legacy: bool,
    first_fall: Option<(usize, u64, i64, i32, i32)>,
    is_too_many: bool,
}

impl EpochCheck {
    /// The next batch.
    #[inline]
    pub(super) fn take(&mut self, segment: usize, position: u64, header: &RecordBatchHeader) {
        let epoch = header.partition_leader_epoch();
        if self.current != Some(epoch) {
            self.change(segment, position, header, epoch);
        }
        self.last_offset = Some(header.last_offset());
    }

    /// An entry of magic 0 or 1, which has no epoch.
    pub(super) fn take_legacy(&mut self) {
        self.close();
        self.has_legacy = true;
    }

    #[cold]
    fn change(&mut self, segment: usize, position: u64, header: &RecordBatchHeader, epoch: i32) {
        self.close();
        // -1 in data older than 0.11, or copied as it was.
        if epoch < 0 {
            return;
        }
        let highest = self.runs.last().map(|run| run.epoch);
        if let Some(highest) = highest
            && epoch < highest
        {
            self.falls += 1;
            let fall = (segment, position, header.base_offset(), highest, epoch);
            self.first_fall.get_or_insert(fall);
        }
        if self.runs.len() >= MAX_EPOCHS {
            self.is_too_many = true;
            return;
        }
        self.current = Some(epoch);
        if !self.assign(epoch, header.base_offset()) {
            return;
        }
        self.runs.push(EpochRun {
            epoch,
            first_offset: header.base_offset(),
            last_offset: header.last_offset(),
            previous_end: self.last_offset.and_then(|last| last.checked_add(1)),
        });
    }

    /// As `UnifiedLog` does with each batch; whether the epoch is new.
    fn assign(&mut self, epoch: i32, start_offset: i64) -> bool {
        let entry = EpochEntry {
            epoch,
            start_offset,
        };
        // Kafka refuses what is negative, and so the batch counts for nothing here.
        let is_new = self.cache.assign(entry).unwrap_or(false);
        let is_kept = |run: &EpochRun| {
            let mut kept = self.cache.entries().rev();
            kept.find(|it| it.epoch <= run.epoch)
                .is_some_and(|it| it.epoch == run.epoch && it.start_offset == run.first_offset)
        };
        while self.runs.last().is_some_and(|last| !is_kept(last)) {
            self.runs.pop();
        }
        is_new
    }

    fn close(&mut self) {
        if let (Some(_), Some(last), Some(run)) =
            (self.current.take(), self.last_offset, self.runs.last_mut())
        {
            run.last_offset = last;
        }
    }

    /// The end of the log at `log_end`.
    pub(super) fn finish(
        mut self,
        dir: &PartitionDir,
        io: Io,
        (log_start, log_end): (i64, i64),
        start: &Start,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let told = found.len();
        self.check_file(dir, io, (log_start, log_end), start, found)?;
        for finding in found.iter_mut().skip(told) {
            if finding.kind == Kind::LeaderEpochCheckpoint && finding.severity.is_alarm() {
                finding.next_step.get_or_insert_with(|| rebuild(start));
            }
        }
        Ok(())
    }

    fn check_file(
        &mut self,
        dir: &PartitionDir,
        io: Io,
        (log_start, log_end): (i64, i64),
        start: &Start,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        self.close();
        self.tell_falls(dir, found);
        let file = dir.files.iter().find(|file| {
            file.parsed.kind == LogFileKind::LeaderEpochCheckpoint
                && file.parsed.state == FileState::Live
        });
        let Some(file) = file else {
            // Of one that is no file it has been said.
            let is_it = |it: &OddEntry| it.parsed.kind == LogFileKind::LeaderEpochCheckpoint;
            if !self.runs.is_empty() && !dir.odd.iter().any(is_it) {
                let mut finding = not_there("missing", "the file is not there");
                // Logs that begin before 0.11 have none until a leader of 0.11 writes.
                if self.has_legacy {
                    finding.severity = Severity::Notable;
                }
                found.push(finding);
            }
            return Ok(());
        };
        let Some(file) = dir.open_file(file, io)? else {
            return Ok(());
        };
        match LeaderEpochCheckpoint::decode(&file.read_all()?) {
            // A start leaves none where nothing is above the log start.
            Ok(checkpoint) if checkpoint.entries.is_empty() && log_end <= log_start => {}
            Ok(checkpoint) if checkpoint.entries.is_empty() && !self.runs.is_empty() => {
                found.push(not_there("empty", "the file has no lines"));
            }
            Ok(checkpoint) => {
                // A leader writes its line before its data, and so does one that refuses it.
                for line in &checkpoint.entries {
                    if line.start_offset == log_end && line.epoch >= 0 {
                        self.assign(line.epoch, line.start_offset);
                    }
                }
                let recovers = |offset: i64| {
                    let behind = dir.segments.partition_point(|it| it.base_offset <= offset);
                    start.recovers(behind.saturating_sub(1))
                };
                let ends = (log_start, log_end);
                self.compare(&checkpoint.entries, ends, (start, &recovers), found);
            }
            Err(error) => {
                let defect = match error.field {
                    "entry count" => "count",
                    "version" => "version",
                    _ => "line",
                };
                found.push(Finding {
                    position: Some(error.position),
                    found: Some(error.to_string()),
                    broker_action: does_not_load(LeaderEpochCheckpoint::uncaught(&error)),
                    next_step: Some(
                        "correct the file by hand: the first lines of the batches are in \
                         kseg dump; or take the partition from another replica"
                            .to_owned(),
                    ),
                    ..of_file(Severity::Corrupt, defect, error.to_string())
                });
            }
        }
        Ok(())
    }

    fn tell_falls(&self, dir: &PartitionDir, found: &mut Vec<Finding>) {
        let Some((segment, position, offset, highest, epoch)) = self.first_fall else {
            return;
        };
        let segment = dir.segments.get(segment);
        let file = segment.and_then(|segment| dir.file(segment.log));
        found.push(Finding {
            file: file.map(|file| file.name().into_owned()),
            position: Some(position),
            offset: Some(offset),
            base_offset: Some(offset),
            expected: Some(format!("at least {highest}")),
            found: Some(epoch.to_string()),
            count: Some(self.falls),
            broker_action: "no start looks at it; followers truncate by leader epochs".to_owned(),
            ..Finding::new(
                Severity::AfterCrash,
                Kind::LeaderEpochFalls,
                format!("leader epoch falls from {highest} to {epoch}"),
            )
        });
    }

    fn compare(
        &self,
        lines: &[EpochEntry],
        (log_start, log_end): (i64, i64),
        (start, recovers): (&Start, &dyn Fn(i64) -> bool),
        found: &mut Vec<Finding>,
    ) {
        let told = found.len();
        let is_negative = |line: &EpochEntry| line.epoch < 0 || line.start_offset < 0;
        if let Some((entry, line)) = lines.iter().enumerate().find(|(_, it)| is_negative(it)) {
            found.push(Finding {
                entry: Some(entry as u64),
                expected: Some("no negative number".to_owned()),
                found: Some(line.to_string()),
                broker_action: does_not_load(Some("IllegalArgumentException")),
                next_step: Some(
                    "correct the file by hand: the first lines of the batches are in kseg dump"
                        .to_owned(),
                ),
                ..of_file(
                    Severity::Corrupt,
                    "line",
                    format!("line {line} has a negative number"),
                )
            });
            return;
        }
        for (entry, pair) in lines.windows(2).enumerate() {
            if let [before, line] = pair
                && (line.epoch <= before.epoch || line.start_offset <= before.start_offset)
            {
                let message = format!("line {line} does not rise above line {before}");
                found.push(Finding {
                    entry: Some(entry as u64 + 1),
                    expected: Some(format!("above {before}")),
                    found: Some(line.to_string()),
                    broker_action: "a start drops the lines that it contradicts".to_owned(),
                    ..of_file(Severity::Corrupt, "not-rising", message)
                });
                return;
            }
        }
        // Below the log start the lines are gone.
        let moved = moved_start(lines, &self.runs, start);
        found.extend(moved.and_then(|moved| moved.front(&self.runs, log_start)));
        let from = moved.map_or(log_start, |moved| moved.offset.max(log_start));
        let in_log = self.runs.iter().filter(|run| run.last_offset >= from);
        for (index, run) in in_log.enumerate() {
            if found.len() - told >= MAX_TOLD {
                break;
            }
            found.extend(self.of_run(index, run, lines, log_start, (start, recovers)));
        }
        if self.is_too_many {
            return;
        }
        for (entry, line) in lines.iter().enumerate() {
            if found.len() - told >= MAX_TOLD {
                return;
            }
            let next = lines
                .get(entry + 1)
                .map_or(i64::MAX, |line| line.start_offset);
            found.extend(self.of_line(entry, line, next, log_end, start));
        }
    }

    /// Whether the file has the epoch of these batches, and from their first offset on.
    fn of_run(
        &self,
        index: usize,
        run: &EpochRun,
        lines: &[EpochEntry],
        log_start: i64,
        (start, recovers): (&Start, &dyn Fn(i64) -> bool),
    ) -> Option<Finding> {
        let first = run.first_offset.max(log_start);
        let Some((entry, line)) = lines
            .iter()
            .enumerate()
            .find(|(_, line)| line.epoch == run.epoch)
        else {
            let defect = if index == 0 {
                "first-epoch-missing"
            } else {
                "epoch-missing"
            };
            // Recovery adds an epoch above the last one (`LogSegment.recover`).
            let is_added = lines.last().is_none_or(|last| run.epoch > last.epoch)
                && recovers(run.first_offset);
            let broker_action = if is_added {
                "stays as it is at a clean start; an unclean one adds the line as it recovers the \
                 segment"
                    .to_owned()
            } else {
                STAYS.to_owned()
            };
            return Some(Finding {
                offset: Some(run.first_offset),
                expected: Some(format!("{} {first}", run.epoch)),
                found: Some("no such line".to_owned()),
                broker_action,
                next_step: is_added
                    .then(|| "start unclean (without .kafka_cleanshutdown)".to_owned()),
                ..of_file(
                    Severity::Corrupt,
                    defect,
                    format!("no line for epoch {}, which begins at {first}", run.epoch),
                )
            });
        };
        // Offsets before its first batch that no batch has were compacted away.
        let earliest = run.previous_end.unwrap_or(i64::MIN);
        let is_right = line.start_offset <= first && line.start_offset >= earliest.min(first);
        // The log start moves in this file at once, and in its checkpoint a minute later
        // (`LogManager.checkpointLogStartOffsets`).
        let may_be_log_start = start.clean != Some(true)
            && entry == 0
            && index == 0
            && (first..=run.last_offset.saturating_add(1)).contains(&line.start_offset);
        let severity = if may_be_log_start {
            Severity::Notable
        } else {
            Severity::Corrupt
        };
        let broker_action = if may_be_log_start {
            "none: the log start moves here at once, and in its checkpoint later"
        } else {
            STAYS
        };
        (!is_right).then(|| Finding {
            broker_action: broker_action.to_owned(),
            offset: Some(run.first_offset),
            entry: Some(entry as u64),
            expected: Some(format!("{} {first}", run.epoch)),
            found: Some(line.to_string()),
            ..of_file(
                severity,
                "start-offset-differs",
                format!(
                    "epoch {} begins at {first}, the file says {}",
                    run.epoch, line.start_offset
                ),
            )
        })
    }

    /// Whether there are batches of a line's epoch, or at least none of another in its range.
    fn of_line(
        &self,
        entry: usize,
        line: &EpochEntry,
        next: i64,
        log_end: i64,
        start: &Start,
    ) -> Option<Finding> {
        if self.runs.iter().any(|run| run.epoch == line.epoch) {
            return None;
        }
        if line.start_offset > log_end {
            let severity = if start.clean == Some(true) {
                Severity::Corrupt
            } else {
                Severity::AfterCrash
            };
            return Some(Finding {
                kind: Kind::LeaderEpochPastEnd,
                entry: Some(entry as u64),
                offset: Some(line.start_offset),
                expected: Some(format!("an offset up to the log end {log_end}")),
                found: Some(line.to_string()),
                broker_action: "drops the line at any start".to_owned(),
                next_step: None,
                ..of_file(
                    severity,
                    "past-end",
                    format!("line {line} begins behind the log end {log_end}"),
                )
            });
        }
        let from = self
            .runs
            .partition_point(|run| run.last_offset < line.start_offset);
        let other = self.runs.get(from).filter(|run| run.first_offset < next);
        let other = other.filter(|run| line.start_offset < log_end && run.epoch < line.epoch)?;
        Some(Finding {
            entry: Some(entry as u64),
            offset: Some(line.start_offset),
            expected: Some(format!("batches of epoch {}", line.epoch)),
            found: Some(format!("batches of epoch {}", other.epoch)),
            ..of_file(
                Severity::Corrupt,
                "epoch-without-batches",
                format!(
                    "line {line}: the batches there are of epoch {}",
                    other.epoch
                ),
            )
        })
    }
}

const STAYS: &str = "stays as it is, clean or unclean; followers that ask by leader epoch may \
                     truncate too much or too little";

/// How a broker makes the file anew: from the segments that it recovers.
fn rebuild(start: &Start) -> String {
    if start.recovers(0) {
        "take the file away and start unclean: it is rebuilt from all segments".to_owned()
    } else {
        "take away the file, and the partition's line in recovery-point-offset-checkpoint, and \
         start unclean: it is rebuilt from all segments"
            .to_owned()
    }
}

pub(super) fn of_file(severity: Severity, defect: &'static str, message: String) -> Finding {
    Finding {
        file: Some(LogFileKind::LeaderEpochCheckpoint.to_string()),
        defect: Some(defect),
        broker_action: STAYS.to_owned(),
        ..Finding::new(severity, Kind::LeaderEpochCheckpoint, message)
    }
}

fn not_there(defect: &'static str, message: &str) -> Finding {
    let mut finding = of_file(Severity::Corrupt, defect, message.to_owned());
    finding.expected = Some("a line for each leader epoch of the batches".to_owned());
    finding.broker_action =
        "empty after a clean start; an unclean one rebuilds it from the segments it recovers"
            .to_owned();
    finding
}
