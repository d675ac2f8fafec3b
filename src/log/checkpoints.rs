//! The checkpoint files of a log directory, looked up by partition.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;

use super::log_dir::folder_above;
use super::mapped_file::MappedFile;
use super::odd_entry::Odd;
use super::partition_dir::PartitionDir;
use super::{Error, Io};
use crate::error::DecodeError;
use crate::format::checkpoint::OffsetCheckpoint;
use crate::format::file_name::{LogDirFileName, PartitionDirStatus};

/// The four offset checkpoints of one log directory.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    log_start: Offsets,
    high_watermark: Offsets,
    recovery_point: Offsets,
    cleaner: Offsets,
    /// Files that are there and could not be read; they count as not there, as does what is no
    /// file ([`super::odd_root_file`]).
    pub problems: Vec<CheckpointProblem>,
}

/// A checkpoint file that is there and could not be read. The text names its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointProblem {
    /// Its name.
    pub file: String,
    /// What is wrong with its bytes, for a broker as well (`CheckpointFile`); `None` if kseg was
    /// not given them.
    pub defect: Option<DecodeError>,
    message: String,
}

impl fmt::Display for CheckpointProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// One checkpoint file; `None` if it is not there.
type Offsets = Option<HashMap<(String, i32), i64>>;

/// What the checkpoints of a log directory say of one partition; `None` where there is no file
/// or no line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointedOffsets {
    /// From `log-start-offset-checkpoint`: there only if the log starts behind the base offset
    /// of its first segment.
    pub log_start_offset: Option<i64>,
    /// From `replication-offset-checkpoint`. May be stale.
    pub high_watermark: Option<i64>,
    /// From `recovery-point-offset-checkpoint`: the first offset not known to be on disk.
    pub recovery_point: Option<i64>,
    /// From `cleaner-offset-checkpoint`: the first offset not compacted yet.
    pub cleaner_offset: Option<i64>,
}

impl Checkpoints {
    /// Reads the checkpoint files in `dir`, those that are there.
    #[must_use]
    pub fn read(dir: &Path, io: Io) -> Self {
        let mut problems = Vec::new();
        let mut read = |name: &LogDirFileName| {
            let file = name.to_string();
            let path = dir.join(&file);
            match read_checkpoint(&path, io) {
                Ok(offsets) => offsets,
                Err(Unread::Defect(defect)) => {
                    problems.push(CheckpointProblem {
                        file,
                        message: format!("{}: {defect}", path.display()),
                        defect: Some(defect),
                    });
                    None
                }
                Err(Unread::NotGiven(error)) => {
                    problems.push(CheckpointProblem {
                        file,
                        message: error.to_string(),
                        defect: None,
                    });
                    None
                }
            }
        };
        let log_start = read(&LogDirFileName::LogStartOffsetCheckpoint);
        let high_watermark = read(&LogDirFileName::ReplicationOffsetCheckpoint);
        let recovery_point = read(&LogDirFileName::RecoveryPointOffsetCheckpoint);
        let cleaner = read(&LogDirFileName::CleanerOffsetCheckpoint);
        Self {
            log_start,
            high_watermark,
            recovery_point,
            cleaner,
            problems,
        }
    }

    /// What they say of one partition.
    #[must_use]
    pub fn of(&self, topic: &str, partition: i32) -> CheckpointedOffsets {
        let key = (topic.to_owned(), partition);
        let get = |offsets: &Offsets| offsets.as_ref()?.get(&key).copied();
        CheckpointedOffsets {
            log_start_offset: get(&self.log_start),
            high_watermark: get(&self.high_watermark),
            recovery_point: get(&self.recovery_point),
            cleaner_offset: get(&self.cleaner),
        }
    }

    /// What they say of the partition in a directory. They count for the replica in use only: a
    /// directory to delete or a stray may have the name of a partition that lives on beside it.
    #[must_use]
    pub fn of_dir(&self, dir: &PartitionDir) -> CheckpointedOffsets {
        match &dir.name {
            Some(name) if name.status == PartitionDirStatus::Live => {
                self.of(&name.topic, name.partition)
            }
            Some(_) | None => CheckpointedOffsets::default(),
        }
    }
}

/// Why a checkpoint file was not read.
enum Unread {
    /// A broker cannot read its bytes either.
    Defect(DecodeError),
    /// Its bytes were not given out.
    NotGiven(Error),
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::NotGiven(error)
    }
}

fn read_checkpoint(path: &Path, io: Io) -> Result<Offsets, Unread> {
    let file = match MappedFile::open(path, io) {
        Ok(file) => file,
        Err(error) if error.is_not_found() || Odd::of(path, &fs::metadata(path)).is_some() => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let checkpoint = OffsetCheckpoint::decode(&file.read_all()?).map_err(Unread::Defect)?;
    // As in Kafka, the later of two lines for one partition counts.
    let lines = checkpoint.entries.into_iter();
    Ok(Some(
        lines
            .map(|line| ((line.topic, line.partition), line.offset))
            .collect(),
    ))
}

/// The checkpoints of a partition as they are by now. A broker truncates first and writes them a
/// moment later (`LogManager.truncateTo`), so what they say against the log is asked of them again
/// while [`PartitionDir::settling`] waits.
#[must_use]
pub fn checkpoints_now(dir: &PartitionDir, io: Io) -> CheckpointedOffsets {
    let above = folder_above(&dir.path);
    above.map_or_else(CheckpointedOffsets::default, |above| {
        Checkpoints::read(&above, io).of_dir(dir)
    })
}

/// The checkpointed high watermark, if it lies above `log_end_offset` and still does: a broker at
/// work that truncates writes the checkpoint a moment later, and one whose log has gone on since it
/// was listed may have got there.
#[must_use]
pub fn high_watermark_past_end(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    log_end_offset: i64,
    io: Io,
) -> Option<i64> {
    let is_past = |it: &i64| *it > log_end_offset;
    let known = checkpoints.high_watermark.filter(is_past)?;
    let mut settling = dir.settling();
    loop {
        let now = checkpoints_now(dir, io).high_watermark.unwrap_or(known);
        if !is_past(&now) || dir.has_changed() {
            return None;
        }
        if !settling.wait() {
            return Some(now);
        }
    }
}
