//! Segments whose `.log` is gone, or lies here under a name that a broker does not read.

use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use super::start::Start;
use crate::format::file_name::{LogFileKind, PartitionDirStatus};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::extents::{Extent, for_each_extent};
use crate::log::last_copies::{AfterStart, LostReason, last_copies, set_aside};
use crate::log::lost_end::snapshot_behind_end;
use crate::log::lost_front::{self, LostFront};
use crate::log::offset_ranges::OffsetRanges;
use crate::log::orphan_files::{lowest_still_orphan, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};
use crate::report::gaps::{self, Detail};

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

/// Segments that are gone from the front or the end of the log; those between others leave a hole.
///
/// # Errors
/// If `leader-epoch-checkpoint`, or a `.log` set aside, cannot be read.
pub(super) fn check_lost_logs(around: Around<'_>, found: &mut Vec<Finding>) -> Result<(), Error> {
    let log_start = around.checkpoints.log_start_offset;
    let front = lost_front::lost_front(around.dir, log_start, around.io)?;
    found.extend(front.and_then(|front| of_front(around, &front)));
    let is_live = around.dir.status() == Some(&PartitionDirStatus::Live);
    if around.dir.segments.is_empty() && is_live {
        found.extend(lost_all(around)?);
    } else {
        found.extend(lost_end(around)?);
    }
    by_leftovers(around, found)
}

/// A log of which no segment is in use.
fn lost_all(around: Around<'_>) -> Result<Option<Finding>, Error> {
    let Around {
        dir,
        start,
        checkpoints,
        ..
    } = around;
    let Some(all) = gaps::lost_log(dir, checkpoints, around.io)? else {
        return Ok(None);
    };
    let (Some(first), Detail::ToldBy(witness)) = (all.first_offset, all.detail) else {
        return Ok(None);
    };
    let last = all.last_offset;
    let begins = checkpoints.log_start_offset.unwrap_or(0);
    let message = format!("no segment is in use, and there was one: it is known from {witness}");
    Ok(Some(Finding {
        last_offset: last,
        broker_action: format!(
            "any start begins an empty log at {begins}: a leader gives the offsets out again"
        ),
        ..lost_log(dir, start, first, last.unwrap_or(i64::MAX), message)
    }))
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
    let aside = last_copies(dir.listed(), after, &mut told, has_checksums, around.io)?;
    for lost in aside.lost {
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
            (Some(LostReason::CleanerKeeps), _) => format!(
                "what a cleaner would have kept is here as {file} alone: {}",
                lost.kept
            ),
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

/// The front of the log, by an index that was left of it or by the leader epochs.
fn of_front(around: Around<'_>, lost: &LostFront<'_>) -> Option<Finding> {
    let Around { dir, start, .. } = around;
    let front = dir.segments.first()?.base_offset;
    let last = front.checked_sub(1)?;
    let began = lost.first_offset;
    if let Some((base, file)) = lost.index.filter(|_| !lost.is_told_by_epochs()) {
        return Some(Finding {
            last_offset: Some(last),
            next_offset: Some(front),
            broker_action: format!("any start deletes its indexes and begins the log at {front}"),
            ..lost_log(dir, start, base, last, by_index(file))
        });
    }
    let message = format!(
        "the front of the log is missing: leader-epoch-checkpoint has it begin at {began}, and \
         retention would have moved that line"
    );
    let of_log = lost_log(dir, start, began, last, message);
    Some(Finding {
        file: None,
        last_offset: Some(last),
        next_offset: Some(front),
        broker_action: format!("any start begins the log at {front}, and so do consumers"),
        reason: Some("leader-epoch-checkpoint"),
        severity: match lost.index {
            Some(_) => of_log.severity,
            None => start.severity_anywhere(),
        },
        next_step: Some(if lost.may_be_remote {
            "look whether the topic has remote.storage.enable, and the broker's first log directory \
             remote-log-index-cache: then it is in remote storage, and not lost; else take the \
             segments from another replica or a copy"
                .to_owned()
        } else {
            next_step(dir, began, last)
        }),
        ..of_log
    })
}

/// Segments behind the end of the log, by the indexes they left, or a snapshot of where it ended.
fn lost_end(around: Around<'_>) -> Result<Option<Finding>, Error> {
    let Around {
        dir,
        start,
        checkpoints,
        log_end,
        io,
        ..
    } = around;
    let broker_action = |deletes: &str| {
        format!(
            "any start deletes {deletes} and ends the log at {log_end}: a leader gives the offsets \
             out again"
        )
    };
    let is_behind = |(base, _): &(i64, &FileEntry)| *base >= log_end;
    let orphans = orphan_indexes(dir, |_| false).filter(is_behind);
    if let Some((base, file)) = lowest_still_orphan(dir, orphans) {
        return Ok(Some(Finding {
            broker_action: broker_action("its indexes"),
            ..lost_log(dir, start, base, i64::MAX, by_index(file))
        }));
    }
    let snapshot = snapshot_behind_end(dir, checkpoints, log_end, io);
    let Some((at, file)) = snapshot.filter(|_| !dir.segments.is_empty()) else {
        return Ok(None);
    };
    // Damage at the end has its own say.
    if ends_in_damage(dir, io)? {
        return Ok(None);
    }
    let last = at.saturating_sub(1);
    let message = format!(
        "the end of the log is missing: {} is of offset {at}, and a truncation would have deleted \
         it",
        file.name()
    );
    Ok(Some(Finding {
        file: None,
        last_offset: Some(last),
        severity: start.severity_anywhere(),
        broker_action: broker_action("the snapshot"),
        ..lost_log(dir, start, log_end, last, message)
    }))
}

/// Whether the last segment ends in bytes that are no batch.
fn ends_in_damage(dir: &PartitionDir, io: Io) -> Result<bool, Error> {
    let entry = dir.segments.last().and_then(|it| dir.file(it.log));
    let file = entry.map(|it| dir.open_file(it, io)).transpose()?;
    let Some(file) = file.flatten() else {
        return Ok(false);
    };
    let mut is_damaged = false;
    for_each_extent::<Error>(&file, false, |extent| {
        is_damaged = matches!(extent, Extent::Damage { .. });
        Ok(())
    })?;
    Ok(is_damaged)
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
