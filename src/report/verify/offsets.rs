//! The checkpoints of a log directory against one partition's log.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::snapshots::LogEnds;
use super::start::Start;
use crate::format::file_name::LogDirFileName;
use crate::log::checkpoints::CheckpointedOffsets;

/// Holds each checkpoint against the ends of the log.
pub(super) fn check_checkpoints(
    checkpoints: CheckpointedOffsets,
    ends: LogEnds,
    active_base: i64,
    start: &Start,
    found: &mut Vec<Finding>,
) {
    let point = checkpoints.recovery_point;
    found.extend(point.and_then(|it| recovery_point(it, ends.log_end, start)));
    let begins = checkpoints.log_start_offset;
    found.extend(begins.and_then(|it| log_start(it, ends.log_end)));
    let high_watermark = checkpoints.high_watermark;
    found.extend(high_watermark.and_then(|it| high_watermark_of(it, ends, start)));
    let cleaned = checkpoints.cleaner_offset;
    found.extend(cleaned.and_then(|it| cleaner_offset(it, ends.log_start, active_base)));
}

fn recovery_point(point: i64, log_end: i64, start: &Start) -> Option<Finding> {
    let is_clean = start.clean == Some(true);
    let expected = if is_clean {
        format!("{log_end}, the log end after a clean stop")
    } else {
        format!("at most the log end {log_end}")
    };
    (point > log_end || is_clean && point != log_end).then(|| Finding {
        broker_action: "takes the log end instead, clean or unclean".to_owned(),
        ..of_checkpoint(
            start.severity_anywhere(),
            Kind::RecoveryPoint,
            &LogDirFileName::RecoveryPointOffsetCheckpoint,
            point,
            expected,
        )
    })
}

fn log_start(begins: i64, log_end: i64) -> Option<Finding> {
    (begins > log_end).then(|| Finding {
        broker_action: "DELETES EVERY SEGMENT at any start and begins an empty log there"
            .to_owned(),
        next_step: Some(
            "copy the directory before any broker starts on it; correct the line in the file"
                .to_owned(),
        ),
        ..of_checkpoint(
            Severity::Corrupt,
            Kind::LogStartPastEnd,
            &LogDirFileName::LogStartOffsetCheckpoint,
            begins,
            format!("at most the log end {log_end}"),
        )
    })
}

fn high_watermark_of(high_watermark: i64, ends: LogEnds, start: &Start) -> Option<Finding> {
    let LogEnds { log_start, log_end } = ends;
    // The file is some seconds old unless the broker wrote it when it stopped.
    if high_watermark < log_start && start.clean == Some(true) {
        return Some(Finding {
            broker_action: "takes the log start instead".to_owned(),
            ..of_checkpoint(
                Severity::Notable,
                Kind::HighWatermarkBelowStart,
                &LogDirFileName::ReplicationOffsetCheckpoint,
                high_watermark,
                format!("at least the log start {log_start}"),
            )
        });
    }
    (high_watermark > log_end).then(|| Finding {
        broker_action: "takes the log end instead".to_owned(),
        next_step: Some(
            "records between the log end and it were acknowledged and are not here: look at the \
             other replicas"
                .to_owned(),
        ),
        ..of_checkpoint(
            start.severity_anywhere(),
            Kind::HighWatermarkPastEnd,
            &LogDirFileName::ReplicationOffsetCheckpoint,
            high_watermark,
            format!("at most the log end {log_end}"),
        )
    })
}

fn cleaner_offset(cleaned: i64, log_start: i64, active_base: i64) -> Option<Finding> {
    (cleaned < log_start || cleaned > active_base.max(log_start)).then(|| Finding {
        broker_action: "the cleaner begins at the log start again".to_owned(),
        ..of_checkpoint(
            Severity::Notable,
            Kind::CleanerOffset,
            &LogDirFileName::CleanerOffsetCheckpoint,
            cleaned,
            format!("from the log start {log_start} to the active segment {active_base}"),
        )
    })
}

fn of_checkpoint(
    severity: Severity,
    kind: Kind,
    file: &LogDirFileName,
    found: i64,
    expected: String,
) -> Finding {
    Finding {
        file: Some(file.to_string()),
        offset: Some(found),
        found: Some(found.to_string()),
        expected: Some(expected.clone()),
        ..Finding::new(severity, kind, format!("is {found}, expected {expected}"))
    }
}
