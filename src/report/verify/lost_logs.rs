//! Segments whose `.log` is gone, or lies here under a name that a broker does not read.

use std::thread;

use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use super::start::Start;
use crate::format::file_name::LogFileKind;
use crate::log::checkpoints::{CheckpointedOffsets, SETTLING};
use crate::log::last_copies::{AfterStart, LostReason, last_copies, set_aside};
use crate::log::lost_front::{first_epoch_start, start_by_leader_epochs};
use crate::log::offset_ranges::OffsetRanges;
use crate::log::orphan_files::{is_still_orphan, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};

/// What the start does about it and what to do, of offsets that are in no segment.
pub(super) fn next_step(dir: &PartitionDir, first: i64, last: i64) -> String {
    let set_aside: Vec<_> = set_aside_of(dir, first, last)
        .into_iter()
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

/// Those that may hold some of these offsets: the last one that begins before them, and the others
/// that begin among them.
fn set_aside_of(dir: &PartitionDir, first: i64, last: i64) -> Vec<(i64, &FileEntry)> {
    let mut of_them: Vec<_> = set_aside(dir.listed())
        .filter(|(base, _)| *base <= last)
        .collect();
    of_them.sort_by_key(|(base, _)| *base);
    of_them.dedup_by_key(|(base, _)| *base);
    let before = of_them.partition_point(|(base, _)| *base < first);
    let begins = of_them.get(before).is_some_and(|(base, _)| *base == first);
    let live_before = dir.segments.partition_point(|it| it.base_offset <= first);
    let live = live_before
        .checked_sub(1)
        .and_then(|it| dir.segments.get(it));
    // A segment in use that begins behind it has what lies between.
    let is_near = |base: i64| live.is_none_or(|live| live.base_offset < base);
    let from = match before.checked_sub(1) {
        Some(it) if !begins && of_them.get(it).is_some_and(|(base, _)| is_near(*base)) => it,
        _ => before,
    };
    of_them.split_off(from)
}

/// The directory, and what else tells which segments it should have.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) dir: &'a PartitionDir,
    pub(super) io: Io,
    pub(super) start: &'a Start,
    pub(super) checkpoints: CheckpointedOffsets,
    pub(super) log_end: i64,
    pub(super) has_checksums: bool,
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
    by_leftovers(around, found)
}

/// Segments that are here only in files that a start deletes.
fn by_leftovers(around: Around<'_>, found: &mut Vec<Finding>) -> Result<(), Error> {
    let Around { dir, start, .. } = around;
    let after = AfterStart {
        dir,
        log_end_offset: around.log_end,
        checkpoints: around.checkpoints,
    };
    let is_in_use = |base: i64| {
        let mut segments = dir.segments.iter();
        segments.any(|it| it.base_offset == base)
    };
    let mut told = OffsetRanges::default();
    let has_checksums = around.has_checksums;
    for lost in last_copies(dir.listed(), after, &mut told, has_checksums, around.io)? {
        let Some((first, last)) = lost.missing() else {
            continue;
        };
        let file = &lost.file;
        let message = match (lost.reason, lost.records) {
            (Some(LostReason::LastOfKey), 1) => {
                format!("a record is here as {file} alone, and no later one has its key")
            }
            (Some(LostReason::LastOfKey), many) => {
                format!("{many} records are here as {file} alone, and no later one has their keys")
            }
            _ => format!("these offsets are here as {file} alone"),
        };
        found.push(Finding {
            offset: Some(first),
            first_offset: Some(first),
            last_offset: Some(last),
            cost: Cost {
                records: Some(lost.records),
                ..Cost::default()
            },
            broker_action: "deletes it at any start, and goes on without them".to_owned(),
            next_step: Some(if is_in_use(lost.base_offset) {
                format!("take a copy of {file} before the start")
            } else {
                next_step(dir, lost.base_offset, last)
            }),
            ..lost_log(dir, start, lost.base_offset, last, message)
        });
    }
    Ok(())
}

fn by_indexes(around: Around<'_>, found: &mut Vec<Finding>) -> Result<(), Error> {
    let Around {
        dir,
        start,
        log_end,
        io,
        ..
    } = around;
    let log_start_checkpoint = around.checkpoints.log_start_offset;
    let orphans: Vec<(i64, &FileEntry)> = orphan_indexes(dir, |_| false).collect();
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
            Some(lost) if first_epoch_start(dir, io)? != Some(front) => Some(lost),
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

fn by_leader_epochs(around: Around<'_>) -> Result<Option<Finding>, Error> {
    let Around { dir, start, .. } = around;
    let Some(front) = dir.segments.first().map(|it| it.base_offset) else {
        return Ok(None);
    };
    let Some(began) = start_by_leader_epochs(dir, around.checkpoints.log_start_offset, around.io)?
    else {
        return Ok(None);
    };
    Ok(Some(Finding {
        file: None,
        last_offset: front.checked_sub(1),
        next_offset: Some(front),
        broker_action: format!("any start begins the log at {front}, and so do consumers"),
        reason: Some("leader-epoch-checkpoint"),
        severity: if start.clean == Some(true) {
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

fn by_index(file: &FileEntry) -> String {
    format!(
        "a segment is missing: its {} is here without it",
        file.name()
    )
}

fn lost_log(dir: &PartitionDir, start: &Start, base: i64, last: i64, message: String) -> Finding {
    let log = LogFileKind::Log(base);
    let is_set_aside = !set_aside_of(dir, base, base).is_empty();
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
