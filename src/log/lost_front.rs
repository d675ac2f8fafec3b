//! Where a log began whose first segments are not there, though its start was never moved behind
//! them.

use super::last_copies::set_aside;
use super::log_dir::{folder_above, stopped_cleanly};
use super::mapped_file::MappedFile;
use super::orphan_files::{has_swap, lowest_still_orphan, orphan_indexes};
use super::partition_dir::{FileEntry, PartitionDir};
use super::{Error, Io};
use crate::format::file_name::{FileState, LogDirFileName, LogFileKind};
use crate::format::internal_topic::InternalTopic;
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;

/// The front of a log whose first segments are gone.
#[derive(Clone, Copy, Debug)]
pub struct LostFront<'d> {
    /// Where the log began.
    pub first_offset: i64,
    /// The first index, with its base offset, of a segment in front of those that are left. Its
    /// `.log` is not there.
    pub index: Option<(i64, &'d FileEntry)>,
    /// Nothing in the log directory tells whether the topic is tiered: then it is in remote
    /// storage, and not lost.
    pub may_be_remote: bool,
}

impl LostFront<'_> {
    /// Whether leader epochs tell where the log began, and not the index.
    #[must_use]
    pub fn is_told_by_epochs(&self) -> bool {
        self.index.is_none_or(|(base, _)| self.first_offset < base)
    }
}

/// Looks for the front of a log: by the indexes that are left of it, and by its leader epochs. The
/// log start takes the first line of `leader-epoch-checkpoint` along whenever it moves
/// (`LeaderEpochFileCache.truncateFromStart`); an index outlives no `.log` that a broker deletes,
/// but may be of a segment in the middle of what is gone. Below `log_start`, from
/// `log-start-offset-checkpoint`, nothing is missed.
///
/// # Errors
/// If `leader-epoch-checkpoint` cannot be read.
pub fn lost_front(
    dir: &PartitionDir,
    log_start: Option<i64>,
    io: Io,
) -> Result<Option<LostFront<'_>>, Error> {
    let Some(front) = dir.segments.first().map(|it| it.base_offset) else {
        return Ok(None);
    };
    let start = log_start.unwrap_or(0);
    if front <= start || !dir.is_whole {
        return Ok(None);
    }
    let is_lost = |first: &i64| *first < front;
    // The start was set to where the log begins, if the first leader epoch was moved there.
    let first_epoch = first_epoch_start(dir, io)?;
    let index = first_orphan(dir, front).filter(|_| first_epoch != Some(front));
    let by_index = index.map(|(base, _)| base.max(start)).filter(is_lost);
    // Of a tiered log nothing is waited for: it begins like this for good.
    let by_epochs = if may_be_tiered(dir, log_start) {
        None
    } else {
        start_by_leader_epochs(dir, start, io)?.filter(is_lost)
    };
    let is_set_aside = || set_aside(dir).any(|(base, _)| base < front);
    Ok(by_epochs.or(by_index).map(|first_offset| LostFront {
        first_offset,
        index,
        may_be_remote: index.is_none() && !is_set_aside() && !tells_of_tiering(dir, log_start),
    }))
}

/// Where the log begins by `leader-epoch-checkpoint`, and still does once a broker has got on that
/// may be at work: one that deletes segments writes the line a moment later. In a metadata log it
/// tells nothing, whose front is in a snapshot, nor outside of a log directory.
fn start_by_leader_epochs(dir: &PartitionDir, start: i64, io: Io) -> Result<Option<i64>, Error> {
    let is_metadata = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
    if is_metadata || stopped_cleanly(&dir.path).is_none() {
        return Ok(None);
    }
    let front = dir.segments.first().map(|it| it.base_offset);
    let mut settling = dir.settling();
    loop {
        let began = first_epoch_start(dir, io)?.map(|began| began.max(start));
        if began.is_none_or(|began| Some(began) >= front) || !settling.wait() {
            return Ok(began);
        }
    }
}

/// The first index below an offset whose `.log` is not there, and was not about to be.
fn first_orphan(dir: &PartitionDir, below: i64) -> Option<(i64, &FileEntry)> {
    let orphans = orphan_indexes(dir, |base| has_swap(dir, base));
    lowest_still_orphan(dir, orphans.filter(|(base, _)| *base < below))
}

/// Whether the front of a log may lie in remote storage: a tiered log always has a checkpointed
/// start, no other log has one of 0 (`LogManager.checkpointLogStartOffsetsInDir`), and a broker
/// that has any keeps a directory for the indexes of it (`RemoteIndexCache`).
pub(super) fn may_be_tiered(dir: &PartitionDir, log_start: Option<i64>) -> bool {
    let index_cache = || LogDirFileName::RemoteLogIndexCache.to_string();
    log_start.is_some_and(|start| start == 0 || is_beside(dir, &index_cache()))
}

/// Whether the log directory tells that a log is not tiered, which [`may_be_tiered`] does not take
/// for one: the directory of indexes is in the first log directory of a broker, as is the metadata
/// log if nothing else was configured.
fn tells_of_tiering(dir: &PartitionDir, log_start: Option<i64>) -> bool {
    let metadata_log = format!("{}-0", InternalTopic::ClusterMetadata.name());
    log_start.is_none() || is_beside(dir, &metadata_log)
}

fn is_beside(dir: &PartitionDir, name: &str) -> bool {
    folder_above(&dir.path).is_some_and(|above| above.join(name).is_dir())
}

/// Where a log began of which no segment is in use: by its first leader epoch, or by the first
/// segment of which another file is left, as records of before 0.11 have no epoch.
///
/// # Errors
/// If `leader-epoch-checkpoint` cannot be read.
pub fn began_without_segments(dir: &PartitionDir, io: Io) -> Result<Option<i64>, Error> {
    let orphans = orphan_indexes(dir, |_| false).map(|(base, _)| base);
    let aside = set_aside(dir.listed()).map(|(base, _)| base);
    let by_epochs = first_epoch_start(dir, io)?;
    Ok(orphans.chain(aside).chain(by_epochs).min())
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
    let file = match MappedFile::open(&dir.file_path(file), io) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let lines = LeaderEpochCheckpoint::decode(&file.read_all()?).ok();
    Ok(lines.and_then(|it| it.entries.first().map(|line| line.start_offset)))
}
