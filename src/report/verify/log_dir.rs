//! What lies directly in a broker's log directory: its files, and what keeps the broker from
//! starting.
//!
//! Decides `CheckpointFile.read`, `LogManager.loadLogs`, `MetaPropertiesEnsemble`.

use super::files::not_a_file;
use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::partition::{VerifyOptions, VerifySummary};
use crate::error::DecodeError;
use crate::format::checkpoint::OffsetCheckpoint;
use crate::format::file_name::{LogDirFileName, PartitionDirName};
use crate::log::Error;
use crate::log::broker_start::{
    DOES_NOT_START, GOES_OFFLINE_LATER, Obstacle, StartObstacle, StartObstacles,
};
use crate::log::log_dir::LogDir;
use crate::log::mapped_file::MappedFile;
use crate::log::odd_root_file::OddRootFile;

/// Hands out what is wrong with a log directory itself. `obstacles` are those of the whole run.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn verify_log_dir<E: From<Error>>(
    dir: &LogDir,
    obstacles: &StartObstacles,
    options: &VerifyOptions,
    mut emit: impl FnMut(&Finding) -> Result<(), E>,
) -> Result<VerifySummary, E> {
    let mut summary = VerifySummary::default();
    // What is wrong with it concerns each of its partitions.
    if options.filter.narrows_batches() {
        return Ok(summary);
    }
    let is_wanted = |name: &&String| options.file.as_ref().is_none_or(|only| only == *name);
    let mut found: Vec<Finding> = obstacles
        .of_log_dir(&dir.path)
        .filter_map(of_obstacle)
        .collect();
    found.extend(dir.odd.iter().map(of_odd));
    found.retain(|it| options.file.is_none() || it.file.as_ref().is_some_and(|it| is_wanted(&it)));
    for name in dir.files.iter().filter(is_wanted) {
        summary.files += 1;
        match check_file(dir, name, options) {
            Ok(finding) => found.extend(finding),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    for finding in found {
        summary.count(finding.severity);
        let is_of_partition = !finding.path.is_empty();
        emit(&if is_of_partition {
            finding
        } else {
            Finding {
                path: dir.path.display().to_string(),
                ..finding
            }
        })?;
    }
    Ok(summary)
}

fn of_odd(odd: &OddRootFile) -> Finding {
    let (action, next_step) = (odd.effect.to_string(), odd.next_step());
    not_a_file(odd.name.to_string(), odd.what, action, next_step)
}

/// What keeps the broker from starting; `None` of what is told without it.
fn of_obstacle(obstacle: &StartObstacle) -> Option<Finding> {
    Some(match &obstacle.what {
        Obstacle::ForeignDirectory(name) => Finding {
            file: Some(name.clone()),
            broker_action: format!("{DOES_NOT_START}: every directory here must be a partition's"),
            next_step: Some(obstacle.next_step.to_owned()),
            ..Finding::new(
                Severity::Corrupt,
                Kind::ForeignDirectory,
                "not a partition directory",
            )
        },
        Obstacle::DuplicatePartition { name, twin } => {
            let PartitionDirName {
                topic, partition, ..
            } = name;
            Finding {
                path: obstacle.path.clone(),
                topic: Some(topic.clone()),
                partition: Some(*partition),
                expected: Some("one log directory of the broker with it".to_owned()),
                found: Some(twin.display().to_string()),
                broker_action: DOES_NOT_START.to_owned(),
                next_step: Some(obstacle.next_step.to_owned()),
                ..Finding::new(
                    Severity::Corrupt,
                    Kind::DuplicatePartition,
                    format!("live in {} as well", twin.display()),
                )
            }
        }
        Obstacle::UnreadableCheckpoint { file, defect } => {
            unreadable(file, defect, GOES_OFFLINE_LATER, CHECKPOINT_STEP)
        }
        Obstacle::UnreadableMetaProperties(defect) => {
            let name = LogDirFileName::MetaProperties.to_string();
            let stops = format!("{DOES_NOT_START} with this log directory");
            unreadable(&name, defect, &stops, obstacle.next_step)
        }
        Obstacle::NotAFile(_) => return None,
    })
}

fn check_file(dir: &LogDir, name: &str, options: &VerifyOptions) -> Result<Option<Finding>, Error> {
    let parsed = LogDirFileName::parse(name);
    let read = || MappedFile::open(&dir.path.join(name), options.io);
    match parsed {
        LogDirFileName::RecoveryPointOffsetCheckpoint
        | LogDirFileName::ReplicationOffsetCheckpoint
        | LogDirFileName::LogStartOffsetCheckpoint
        | LogDirFileName::CleanerOffsetCheckpoint => {
            let file = read()?;
            // One that is unreadable is an obstacle.
            let decoded = OffsetCheckpoint::decode(&file.read_all()?).ok();
            Ok(decoded.and_then(|checkpoint| below_zero(name, &checkpoint)))
        }
        // An obstacle if it is unreadable.
        LogDirFileName::MetaProperties
        | LogDirFileName::BootstrapCheckpoint
        | LogDirFileName::Lock
        | LogDirFileName::CleanShutdown
        | LogDirFileName::RemoteLogIndexCache
        | LogDirFileName::RlmmCommittedOffsets
        | LogDirFileName::Temporary(_)
        | LogDirFileName::Unknown(_) => Ok(None),
    }
}

const CHECKPOINT_STEP: &str = "without the offset checkpoints a broker recovers everything and \
                               starts; take the file away, or correct it";

fn unreadable(name: &str, error: &DecodeError, action: &str, next_step: &str) -> Finding {
    let defect = error.to_string();
    Finding {
        file: Some(name.to_owned()),
        position: Some(error.position),
        found: Some(defect.clone()),
        broker_action: action.to_owned(),
        next_step: Some(next_step.to_owned()),
        ..Finding::new(Severity::Corrupt, Kind::CheckpointUnreadable, defect)
    }
}

/// No broker writes a negative offset.
fn below_zero(name: &str, checkpoint: &OffsetCheckpoint) -> Option<Finding> {
    let (line, entry) = checkpoint
        .entries
        .iter()
        .enumerate()
        .find(|(_, entry)| entry.offset < 0 || entry.partition < 0)?;
    Some(Finding {
        file: Some(name.to_owned()),
        entry: Some(line as u64),
        offset: Some(entry.offset),
        expected: Some("an offset from 0 on".to_owned()),
        found: Some(entry.to_string()),
        broker_action: "takes the number as it is".to_owned(),
        ..Finding::new(
            Severity::Corrupt,
            Kind::CheckpointUnreadable,
            format!("line '{entry}' has a negative number"),
        )
    })
}
