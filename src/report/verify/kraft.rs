//! The snapshots of the KRaft metadata log.
//!
//! Decides `KafkaRaftLog`.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::broker_start::DOES_NOT_START;
use crate::log::metadata_log::snapshot::{SnapshotDefect, walk_snapshot};
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// Checks each `.checkpoint`, and that one covers the beginning of the log.
pub(super) fn check_kraft_snapshots(
    dir: &PartitionDir,
    io: Io,
    found: &mut Vec<Finding>,
) -> Result<(), Error> {
    let mut newest: Option<i64> = None;
    for file in &dir.files {
        let (LogFileKind::KRaftSnapshot(id), FileState::Live) =
            (&file.parsed.kind, file.parsed.state)
        else {
            continue;
        };
        newest = newest.max(Some(id.end_offset));
        let Some(opened) = dir.open_file(file, io)? else {
            continue;
        };
        let defect = walk_snapshot::<Error>(&opened, id, |_| Ok(()))?;
        found.extend(defect.map(|defect| Finding {
            file: Some(file.name().into_owned()),
            file_size: Some(opened.len()),
            broker_action: "the node loads the newest snapshot at start and stops on it".to_owned(),
            next_step: Some("take the snapshot from another controller".to_owned()),
            ..of_defect(defect)
        }));
    }
    let log_start = dir.segments.first().map_or(0, |first| first.base_offset);
    if log_start > 0 && newest.is_none_or(|newest| newest < log_start) {
        found.push(Finding {
            offset: Some(log_start),
            log_start_offset: Some(log_start),
            expected: Some(format!(
                "a .checkpoint with an end offset from {log_start} on"
            )),
            found: newest.map(|newest| newest.to_string()),
            broker_action: DOES_NOT_START.to_owned(),
            next_step: Some("take the newest snapshot from another controller".to_owned()),
            ..Finding::new(
                Severity::Corrupt,
                Kind::KraftSnapshotMissing,
                format!("the log begins at {log_start} and no snapshot covers what was before"),
            )
        });
    }
    Ok(())
}

fn of_defect(defect: SnapshotDefect) -> Finding {
    let SnapshotDefect {
        position,
        defect,
        expected,
        found,
    } = defect;
    let message = format!("{found}, expected {expected}");
    Finding {
        position: Some(position),
        defect: Some(defect),
        expected: Some(expected),
        found: Some(found),
        ..Finding::new(Severity::Corrupt, Kind::KraftSnapshot, message)
    }
}
