//! Where a log began whose first segments are not there, though its start was never moved behind
//! them.

use std::thread;

use super::checkpoints::{SETTLING, is_recent};
use super::last_copies::set_aside;
use super::log_dir::{folder_above, stopped_cleanly};
use super::mapped_file::MappedFile;
use super::orphan_files::{has_swap, is_still_orphan, orphan_indexes};
use super::partition_dir::{FileEntry, PartitionDir};
use super::{Error, Io};
use crate::format::file_name::{FileState, LogDirFileName, LogFileKind};
use crate::format::internal_topic::InternalTopic;
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;

/// The front of a log.
#[derive(Clone, Copy, Debug)]
pub enum Front<'d> {
    /// It is here, or was given up, or that cannot be told.
    Here,
    /// It is not here, though it was not given up.
    Lost(LostFront<'d>),
    /// It is not here, from this offset on: it is in remote storage if the topic is tiered, and
    /// lost if it is not. Which of both nothing here tells.
    MayBeRemote(i64),
}

/// The front of a log whose first segments are gone.
#[derive(Clone, Copy, Debug)]
pub struct LostFront<'d> {
    /// Where the log began.
    pub first_offset: i64,
    /// The first index, with its base offset, of a segment in front of those that are left. Its
    /// `.log` is not there.
    pub index: Option<(i64, &'d FileEntry)>,
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
pub fn front_of(dir: &PartitionDir, log_start: Option<i64>, io: Io) -> Result<Front<'_>, Error> {
    let Some(front) = dir.segments.first().map(|it| it.base_offset) else {
        return Ok(Front::Here);
    };
    if front <= log_start.unwrap_or(0) || !dir.is_whole {
        return Ok(Front::Here);
    }
    let first_epoch = first_epoch_start(dir, io)?;
    // The start was set to where the log begins, if the first leader epoch was moved there.
    let index = first_orphan(dir, front).filter(|_| first_epoch != Some(front));
    let began = first_epoch.map(|began| began.max(log_start.unwrap_or(0)));
    let began = began.filter(|began| *began < front && has_settled(dir));
    let is_set_aside = || set_aside(dir).any(|(base, _)| base < front);
    let by_epochs = match (began, tiering(dir, log_start)) {
        (None, _) | (Some(_), Tiering::Remote) => None,
        (Some(began), Tiering::Unknown) if index.is_none() && !is_set_aside() => {
            return Ok(Front::MayBeRemote(began));
        }
        (Some(_), Tiering::Unknown) if index.is_some() => None,
        (Some(began), Tiering::Unknown | Tiering::None) => Some(began),
    };
    let by_index = index.map(|(base, _)| base.max(log_start.unwrap_or(0)));
    let by_index = by_index.filter(|first| *first < front);
    let first_offset = by_epochs.or(by_index);
    Ok(first_offset.map_or(Front::Here, |first_offset| {
        Front::Lost(LostFront {
            first_offset,
            index,
        })
    }))
}

/// Whether `leader-epoch-checkpoint` is to be believed: not in a metadata log, whose front is in a
/// snapshot, nor outside of a log directory, nor at once where a broker may be at work, which
/// writes the line a moment after it deletes segments.
fn has_settled(dir: &PartitionDir) -> bool {
    let is_metadata = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
    !is_metadata
        && stopped_cleanly(&dir.path).is_some_and(|is_clean| is_clean || !is_recent(&dir.path))
}

/// The first index below an offset whose `.log` is not there, and was not about to be.
fn first_orphan(dir: &PartitionDir, below: i64) -> Option<(i64, &FileEntry)> {
    let mut orphans: Vec<_> = orphan_indexes(dir, |base| has_swap(dir, base))
        .filter(|(base, _)| *base < below)
        .collect();
    if orphans.is_empty() {
        return None;
    }
    if stopped_cleanly(&dir.path) != Some(true) {
        // A broker may be renaming them.
        thread::sleep(SETTLING);
    }
    orphans.retain(|(base, file)| is_still_orphan(dir, *base, file));
    orphans.into_iter().min_by_key(|(base, _)| *base)
}

/// Where the front of a log may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tiering {
    /// In remote storage.
    Remote,
    /// Nowhere else.
    None,
    /// Nothing in the log directory tells.
    Unknown,
}

/// Whether a log is tiered: such a one has a checkpointed start always, and no other one has a
/// start of 0 there (`LogManager.checkpointLogStartOffsetsInDir`). A broker that has remote storage
/// keeps a directory for its indexes in its first log directory (`RemoteIndexCache`), which has the
/// metadata log as well if nothing else was configured.
fn tiering(dir: &PartitionDir, log_start: Option<i64>) -> Tiering {
    let above = folder_above(&dir.path);
    let is_beside = |name: String| {
        above
            .as_ref()
            .is_some_and(|above| above.join(name).is_dir())
    };
    let index_cache = || LogDirFileName::RemoteLogIndexCache.to_string();
    let metadata_log = || format!("{}-0", InternalTopic::ClusterMetadata.name());
    match log_start {
        None => Tiering::None,
        Some(0) => Tiering::Remote,
        Some(_) if is_beside(index_cache()) => Tiering::Remote,
        Some(_) if is_beside(metadata_log()) => Tiering::None,
        Some(_) => Tiering::Unknown,
    }
}

/// Whether what a broker deletes from the front of a log may be in remote storage.
pub(super) fn may_be_tiered(dir: &PartitionDir, log_start: Option<i64>) -> bool {
    tiering(dir, log_start) == Tiering::Remote
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
