//! Segments whose `.log` is gone, or lies here under a name that a broker does not read.

use std::thread;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::start::Start;
use super::swaps::{Swaps, unfinished_from};
use crate::format::file_name::{FileState, LogFileKind};
use crate::format::internal_topic::InternalTopic;
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;
use crate::log::checkpoints::{SETTLING, is_recent};
use crate::log::mapped_file::MappedFile;
use crate::log::orphan_files::{is_still_orphan, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};

/// What the start does about it and what to do, of offsets that are in no segment.
pub(super) fn next_step(dir: &PartitionDir, first: i64, last: i64) -> String {
    let set_aside: Vec<_> = set_aside(dir)
        .filter(|(base, _)| (first..=last).contains(base))
        .map(|(base, file)| (LogFileKind::Log(base).to_string(), file.name()))
        .collect();
    match set_aside.as_slice() {
        [] => "take the segment from another replica or a copy".to_owned(),
        [(log, file)] => format!(
            "the segment is here as {file}: rename it to {log} before the start, any start \
             deletes it"
        ),
        [(_, file), ..] => format!(
            "the segments are here as {file} and so on: give them their names without the suffix \
             before the start, any start deletes them"
        ),
    }
}

/// The `.log` files that any start deletes.
fn set_aside(dir: &PartitionDir) -> impl Iterator<Item = (i64, &FileEntry)> {
    let unfinished = unfinished_from(dir);
    dir.files.iter().filter_map(move |file| {
        let LogFileKind::Log(base) = file.parsed.kind else {
            return None;
        };
        let is_deleted = match file.parsed.state {
            FileState::Live | FileState::Temporary => false,
            FileState::Deleted | FileState::Cleaned => true,
            FileState::Swap => unfinished.is_some_and(|from| base >= from),
        };
        is_deleted.then_some((base, file))
    })
}

/// The directory, and what else tells which segments it should have.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) dir: &'a PartitionDir,
    pub(super) io: Io,
    pub(super) swaps: &'a Swaps,
    pub(super) start: &'a Start,
    /// From `log-start-offset-checkpoint`.
    pub(super) log_start: Option<i64>,
    pub(super) log_end: i64,
}

/// Segments that are gone from the front or the end of the log, by the indexes they left or by the
/// leader epochs; those between others leave a hole.
///
/// # Errors
/// If `leader-epoch-checkpoint` cannot be read.
pub(super) fn check_lost_logs(around: Around<'_>, found: &mut Vec<Finding>) -> Result<(), Error> {
    let told = found.len();
    by_indexes(around, found)?;
    let is_front = |it: &Finding| it.next_offset.is_some();
    let is_told = found.get(told..).is_some_and(|it| it.iter().any(is_front));
    if !is_told {
        found.extend(by_leader_epochs(around)?);
    }
    Ok(())
}

fn by_indexes(around: Around<'_>, found: &mut Vec<Finding>) -> Result<(), Error> {
    let Around {
        dir,
        swaps,
        start,
        log_end,
        log_start: log_start_checkpoint,
        ..
    } = around;
    let orphans: Vec<(i64, &FileEntry)> =
        orphan_indexes(dir, |base| swaps.restores(base)).collect();
    if orphans.is_empty() {
        return Ok(());
    }
    if start.clean != Some(true) {
        // A broker may be renaming them.
        thread::sleep(SETTLING);
    }
    let lowest = |is_wanted: &dyn Fn(i64) -> bool| {
        let wanted = orphans.iter().filter(|(base, _)| is_wanted(*base));
        let there = wanted.filter(|(base, file)| is_still_orphan(dir, *base, file));
        there.min_by_key(|(base, _)| *base).copied()
    };
    if let Some(front) = dir.segments.first().map(|first| first.base_offset) {
        // Below a log start that was set, the broker has deleted them itself.
        let was_set = log_start_checkpoint.is_some_and(|begins| begins >= front);
        let lost = lowest(&|base| base < front).filter(|_| !was_set);
        // It was set to where the log begins, if the first leader epoch was moved there.
        let lost = match lost {
            Some(lost) if first_epoch_start(around)? != Some(front) => Some(lost),
            _ => None,
        };
        found.extend(lost.map(|(base, file)| Finding {
            last_offset: front.checked_sub(1),
            next_offset: Some(front),
            broker_action: format!("any start deletes its indexes and begins the log at {front}"),
            ..lost_log(dir, start, base, front.saturating_sub(1), by_index(file))
        }));
    }
    let lost = lowest(&|base| base >= log_end);
    found.extend(lost.map(|(base, file)| Finding {
        broker_action: format!(
            "any start deletes its indexes and ends the log at {log_end}: a leader gives the \
             offsets out again"
        ),
        ..lost_log(dir, start, base, i64::MAX, by_index(file))
    }));
    Ok(())
}

/// The log began where its first leader epoch does: the log start takes the first line along
/// whenever it moves (`LeaderEpochFileCache.truncateFromStart`). Of a tiered log the checkpoint
/// says where it starts, whatever is here (`LogManager.checkpointLogStartOffsetsInDir`).
fn by_leader_epochs(around: Around<'_>) -> Result<Option<Finding>, Error> {
    let Around { dir, start, .. } = around;
    let first = dir.segments.first();
    let Some((front, clean)) = first.map(|it| it.base_offset).zip(start.clean) else {
        return Ok(None);
    };
    // What lies below the start of a metadata log is in a snapshot.
    let is_metadata = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
    if front == 0 || around.log_start.is_some() || is_metadata {
        return Ok(None);
    }
    // A broker that deletes segments writes the line a moment later.
    if !clean && is_recent(&dir.path) {
        return Ok(None);
    }
    let Some(began) = first_epoch_start(around)?.filter(|began| *began < front) else {
        return Ok(None);
    };
    Ok(Some(Finding {
        file: None,
        last_offset: front.checked_sub(1),
        next_offset: Some(front),
        broker_action: format!("any start begins the log at {front}, and so do consumers"),
        reason: Some("leader-epoch-checkpoint"),
        severity: if clean {
            Severity::Corrupt
        } else {
            Severity::AfterCrash
        },
        message: format!(
            "the front of the log is missing: leader-epoch-checkpoint has it begin at {began}, and \
             retention would have moved that line"
        ),
        ..lost_log(dir, start, began, front.saturating_sub(1), String::new())
    }))
}

fn first_epoch_start(around: Around<'_>) -> Result<Option<i64>, Error> {
    let Around { dir, io, .. } = around;
    let is_checkpoint = |file: &&FileEntry| {
        file.parsed.kind == LogFileKind::LeaderEpochCheckpoint
            && file.parsed.state == FileState::Live
    };
    let Some(file) = dir.files.iter().find(is_checkpoint) else {
        return Ok(None);
    };
    // The one that is held open may have been replaced.
    let bytes = match MappedFile::open(&dir.file_path(file), io) {
        Ok(file) => file.read_all()?.into_owned(),
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines = LeaderEpochCheckpoint::decode(&bytes).ok();
    Ok(lines.and_then(|it| it.entries.first().map(|line| line.start_offset)))
}

fn by_index(file: &FileEntry) -> String {
    format!(
        "a segment is missing: its {} is here without it",
        file.name()
    )
}

fn lost_log(dir: &PartitionDir, start: &Start, base: i64, last: i64, message: String) -> Finding {
    let log = LogFileKind::Log(base);
    let is_set_aside = set_aside(dir).any(|(it, _)| it == base);
    // A crash may fall between the renames of one deletion.
    let severity = if is_set_aside && start.clean != Some(true) {
        Severity::AfterCrash
    } else {
        Severity::Corrupt
    };
    Finding {
        file: Some(log.to_string()),
        offset: Some(base),
        first_offset: Some(base),
        segment_base_offset: Some(base),
        expected: Some("a segment".to_owned()),
        found: Some("none".to_owned()),
        next_step: Some(next_step(dir, base, last)),
        ..Finding::new(severity, Kind::SegmentMissing, message)
    }
}
