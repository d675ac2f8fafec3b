//! Segments whose `.log` is gone, or lies here under a name that a broker does not read.

use std::thread;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::start::Start;
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::checkpoints::SETTLING;
use crate::log::orphan_files::{is_still_orphan, orphan_indexes};
use crate::log::partition_dir::{FileEntry, PartitionDir};

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
    dir.files
        .iter()
        .filter_map(|file| match (&file.parsed.kind, file.parsed.state) {
            (LogFileKind::Log(base), FileState::Deleted | FileState::Cleaned) => {
                Some((*base, file))
            }
            _ => None,
        })
}

/// Segments that are gone from the front or the end of the log, by the indexes they left; those
/// between others leave a hole.
pub(super) fn check_lost_logs(
    dir: &PartitionDir,
    log_start_checkpoint: Option<i64>,
    log_end: i64,
    start: &Start,
    found: &mut Vec<Finding>,
) {
    let orphans: Vec<(i64, &FileEntry)> = orphan_indexes(dir).collect();
    if orphans.is_empty() {
        return;
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
        let is_deleted = log_start_checkpoint.is_some_and(|begins| begins >= front);
        let lost = lowest(&|base| base < front).filter(|_| !is_deleted);
        found.extend(lost.map(|(base, file)| Finding {
            last_offset: front.checked_sub(1),
            next_offset: Some(front),
            broker_action: format!("any start deletes its indexes and begins the log at {front}"),
            ..lost_log(dir, start, base, file, front.saturating_sub(1))
        }));
    }
    let lost = lowest(&|base| base >= log_end);
    found.extend(lost.map(|(base, file)| Finding {
        broker_action: format!(
            "any start deletes its indexes and ends the log at {log_end}: a leader gives the \
             offsets out again"
        ),
        ..lost_log(dir, start, base, file, i64::MAX)
    }));
}

fn lost_log(dir: &PartitionDir, start: &Start, base: i64, file: &FileEntry, last: i64) -> Finding {
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
        ..Finding::new(
            severity,
            Kind::SegmentMissing,
            format!(
                "a segment is missing: its {} is here without it",
                file.name()
            ),
        )
    }
}
