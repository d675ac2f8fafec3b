//! Where a log began whose first segments are not there, though its start was never moved behind
//! them.

use super::log_dir::{folder_above, stopped_cleanly};
use super::mapped_file::MappedFile;
use super::partition_dir::{FileEntry, PartitionDir};
use super::{Error, Io};
use crate::format::file_name::{FileState, LogDirFileName, LogFileKind};
use crate::format::internal_topic::InternalTopic;
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;

/// Where a log began from whose front segments are gone, by its leader epochs: the log start takes
/// the first line of `leader-epoch-checkpoint` along whenever it moves
/// (`LeaderEpochFileCache.truncateFromStart`). Below `log_start`, from
/// `log-start-offset-checkpoint`, nothing is missed. `None` if the front is there or was given up,
/// and where that cannot be told.
///
/// # Errors
/// If `leader-epoch-checkpoint` cannot be read.
pub fn start_by_leader_epochs(
    dir: &PartitionDir,
    log_start: Option<i64>,
    io: Io,
) -> Result<Option<i64>, Error> {
    let first = dir.segments.first();
    let is_in_log_dir = stopped_cleanly(&dir.path).is_some();
    let Some(front) = first.map(|it| it.base_offset).filter(|_| is_in_log_dir) else {
        return Ok(None);
    };
    // What lies below the start of a metadata log is in a snapshot.
    let is_metadata = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
    if front == 0 || is_metadata || may_be_tiered(dir, log_start) {
        return Ok(None);
    }
    let mut settling = dir.settling();
    loop {
        let began = first_epoch_start(dir, io)?;
        let began = began.map(|began| began.max(log_start.unwrap_or(0)));
        let began = began.filter(|began| *began < front);
        // A broker that deletes segments writes the line a moment later.
        if began.is_none() || !settling.wait() {
            return Ok(began);
        }
    }
}

/// Whether the front of a log may lie in remote storage: a broker that has any keeps a directory
/// for the indexes of it (`RemoteIndexCache`), and no other log has a checkpointed start of 0
/// (`LogManager.checkpointLogStartOffsetsInDir`).
fn may_be_tiered(dir: &PartitionDir, log_start: Option<i64>) -> bool {
    let has_cache = || {
        let name = LogDirFileName::RemoteLogIndexCache.to_string();
        folder_above(&dir.path).is_some_and(|above| above.join(name).is_dir())
    };
    log_start.is_some_and(|start| start == 0 || has_cache())
}

/// Where the first leader epoch begins by `leader-epoch-checkpoint` as it is now; `None` without a
/// file that can be understood.
///
/// # Errors
/// If it cannot be read.
pub fn first_epoch_start(dir: &PartitionDir, io: Io) -> Result<Option<i64>, Error> {
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
