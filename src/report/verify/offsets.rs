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
    let LogEnds { log_start, log_end } = ends;
    let is_clean = start.clean == Some(true);
    if let Some(point) = checkpoints.recovery_point
        && (point > log_end || is_clean && point != log_end)
    {
        let severity = if is_clean {
            Severity::Corrupt
        } else {
            Severity::AfterCrash
        };
        found.push(Finding {
            broker_action: "takes the log end instead, clean or unclean".to_owned(),
            ..of_checkpoint(
                severity,
                Kind::RecoveryPoint,
                &LogDirFileName::RecoveryPointOffsetCheckpoint,
                point,
                if is_clean {
                    format!("{log_end}, the log end after a clean stop")
                } else {
                    format!("at most the log end {log_end}")
                },
            )
        });
    }
    if let Some(begins) = checkpoints.log_start_offset
        && begins > log_end
    {
        found.push(Finding {
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
        });
    }
    if let Some(high_watermark) = checkpoints.high_watermark
        && high_watermark > log_end
    {
        let severity = if is_clean {
            Severity::Corrupt
        } else {
            Severity::AfterCrash
        };
        found.push(Finding {
            broker_action: "takes the log end instead".to_owned(),
            next_step: Some(
                "records between the log end and it were acknowledged and are not here: look at \
                 the other replicas"
                    .to_owned(),
            ),
            ..of_checkpoint(
                severity,
                Kind::HighWatermarkPastEnd,
                &LogDirFileName::ReplicationOffsetCheckpoint,
                high_watermark,
                format!("at most the log end {log_end}"),
            )
        });
    }
    if let Some(cleaned) = checkpoints.cleaner_offset
        && (cleaned < log_start || cleaned > active_base.max(log_start))
    {
        found.push(Finding {
            broker_action: "the cleaner begins at the log start again".to_owned(),
            ..of_checkpoint(
                Severity::Notable,
                Kind::CleanerOffset,
                &LogDirFileName::CleanerOffsetCheckpoint,
                cleaned,
                format!("from the log start {log_start} to the active segment {active_base}"),
            )
        });
    }
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
