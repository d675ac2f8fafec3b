//! A log start that only `leader-epoch-checkpoint` tells of.
//!
//! The start moves in this file at once (`LeaderEpochFileCache.truncateFromStart`), and in its
//! checkpoint a minute later (`LogManager.checkpointLogStartOffsets`): a broker that is killed
//! between leaves the lines of the epochs below it gone, and their batches where they were.

use super::finding::{Finding, Severity};
use super::leader_epochs::{EpochRun, of_file};
use super::start::Start;
use crate::format::leader_epoch_checkpoint::EpochEntry;

/// The log start as the first line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MovedStart {
    pub(super) offset: i64,
    /// Whether the first batch of its epoch begins there: then the lines before it may have been
    /// lost in another way.
    is_epoch_start: bool,
}

/// The log start by the first line, where the stop was not clean and it lies inside an epoch's
/// batches; or at their beginning, in a log directory of which it is known that the stop was not
/// clean.
pub(super) fn moved_start(
    lines: &[EpochEntry],
    runs: &[EpochRun],
    start: &Start,
) -> Option<MovedStart> {
    let line = lines.first().filter(|_| start.clean != Some(true))?;
    let run = runs.iter().find(|run| {
        run.epoch == line.epoch && (run.first_offset..=run.last_offset).contains(&line.start_offset)
    })?;
    let is_epoch_start = run.first_offset == line.start_offset;
    (!is_epoch_start || start.clean == Some(false)).then_some(MovedStart {
        offset: line.start_offset,
        is_epoch_start,
    })
}

impl MovedStart {
    /// What is told of the epochs before the first line, if their lines are gone as a whole.
    pub(super) fn front(self, runs: &[EpochRun], log_start: i64) -> Option<Finding> {
        let is_below = |run: &&EpochRun| (log_start..self.offset).contains(&run.last_offset);
        let first = runs.iter().find(is_below).filter(|_| self.is_epoch_start)?;
        let begins = first.first_offset.max(log_start);
        Some(Finding {
            offset: Some(first.first_offset),
            expected: Some(format!("{} {begins}", first.epoch)),
            found: Some("no such line".to_owned()),
            broker_action: "begins at the checkpointed log start again, and goes on without the \
                            line, clean or unclean"
                .to_owned(),
            next_step: Some(
                "nothing, if kafka-delete-records or retention had got there; if not, compare with \
                 another replica: kseg diff"
                    .to_owned(),
            ),
            ..of_file(
                Severity::Notable,
                "first-epoch-missing",
                format!(
                    "no line for epoch {}, which begins at {begins}: as after a crash less than a \
                     minute after the log start was moved to {}",
                    first.epoch, self.offset
                ),
            )
        })
    }
}
