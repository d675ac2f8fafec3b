//! A broker's log directory, and finding out what a path is.

use std::fs;
use std::path::{Path, PathBuf};

use super::Error;
use super::odd_entry::Odd;
use super::odd_root_file::OddRootFile;
use super::partition_dir::PartitionDir;
use crate::format::file_name::{LogDirFileName, LogFileKind, LogFileName, PartitionDirName};

/// What a path given by a user is.
#[derive(Clone, Debug)]
pub enum LogPath {
    /// A single file.
    File(PathBuf),
    /// The directory of one partition.
    Partition(PartitionDir),
    /// A directory of partition directories.
    LogDir(LogDir),
}

/// A broker's log directory, as it was when it was listed.
#[derive(Clone, Debug)]
pub struct LogDir {
    /// The directory.
    pub path: PathBuf,
    /// The partition directories, live or not, by topic and number.
    pub partitions: Vec<PartitionPath>,
    /// Names of the files directly in it, sorted.
    pub files: Vec<String>,
    /// Names of directories that are no partition's, sorted. A broker does not start with one.
    pub other_dirs: Vec<String>,
    /// What has the name of a file that a broker reads, and is none; in neither of the lists.
    pub odd: Vec<OddRootFile>,
}

/// A partition directory that has not been listed yet.
#[derive(Clone, Debug)]
pub struct PartitionPath {
    /// The directory.
    pub path: PathBuf,
    /// What its name says.
    pub name: PartitionDirName,
}

/// The folder that a file or directory lies in, links followed: of a partition the log directory.
/// `None` if it is not there.
#[must_use]
pub fn folder_above(path: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(path).ok()?.parent()?.to_owned())
}

/// Whether the broker of a partition directory has left the mark of a clean stop beside it; `None`
/// if nothing else of a log directory lies there.
#[must_use]
pub fn stopped_cleanly(partition: &Path) -> Option<bool> {
    let above = folder_above(partition)?;
    let has = |name: &LogDirFileName| above.join(name.to_string()).exists();
    if has(&LogDirFileName::CleanShutdown) {
        return Some(true);
    }
    let is_log_dir = [
        LogDirFileName::MetaProperties,
        LogDirFileName::RecoveryPointOffsetCheckpoint,
        LogDirFileName::LogStartOffsetCheckpoint,
        LogDirFileName::ReplicationOffsetCheckpoint,
    ]
    .iter()
    .any(has);
    is_log_dir.then_some(false)
}

impl LogPath {
    /// Looks what is at `path`.
    ///
    /// What is inside a directory decides, not its name: a log directory may well be called
    /// `kafka-logs-1`, as a partition would be.
    ///
    /// # Errors
    /// If the path cannot be looked at, is no file and no directory, or is a directory without
    /// anything of Kafka's in it.
    pub fn discover(path: &Path) -> Result<Self, Error> {
        let metadata = fs::metadata(path).map_err(|source| Error::io(path, source))?;
        if !metadata.is_dir() {
            let path = path.to_owned();
            return if metadata.is_file() {
                Ok(Self::File(path))
            } else {
                Err(Error::NotAFile { path })
            };
        }
        let partition = PartitionDir::open(path)?;
        let log_dir = LogDir::open(path)?;
        let has_log_files = partition.files.iter().any(|file| is_log_file(&file.parsed));
        if has_log_files {
            return Ok(Self::Partition(partition));
        }
        if log_dir.has_known_file() || log_dir.holds_partitions() {
            return Ok(Self::LogDir(log_dir));
        }
        // A partition that lost all its files is still that partition.
        if partition.name.is_some() && log_dir.other_dirs.is_empty() {
            return Ok(Self::Partition(partition));
        }
        let others = log_dir.other_dirs.iter().map(|name| path.join(name));
        let named = log_dir.partitions.into_iter().map(|named| named.path);
        let mut candidates: Vec<PathBuf> = named.chain(others).collect();
        candidates.retain(|path| is_partition(path) || is_log_dir(path));
        candidates.sort();
        Err(Error::NotALogDir {
            path: path.to_owned(),
            candidates,
        })
    }
}

fn is_partition(path: &Path) -> bool {
    PartitionDir::open(path).is_ok_and(|dir| dir.files.iter().any(|it| is_log_file(&it.parsed)))
}

fn is_log_dir(path: &Path) -> bool {
    LogDir::open(path).is_ok_and(|dir| dir.has_known_file() || dir.holds_a_partition())
}

fn is_log_file(name: &LogFileName) -> bool {
    match &name.kind {
        LogFileKind::Log(_)
        | LogFileKind::OffsetIndex(_)
        | LogFileKind::TimeIndex(_)
        | LogFileKind::TransactionIndex(_)
        | LogFileKind::ProducerSnapshot(_)
        | LogFileKind::KRaftSnapshot(_)
        | LogFileKind::KRaftSnapshotPart(..)
        | LogFileKind::LeaderEpochCheckpoint
        | LogFileKind::PartitionMetadata
        | LogFileKind::QuorumState
        | LogFileKind::RemoteLogSnapshot => true,
        LogFileKind::NotANumber(_) | LogFileKind::Unknown(_) => false,
    }
}

impl LogDir {
    /// Lists the directory.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut dir = Self {
            path: path.to_owned(),
            partitions: Vec::new(),
            files: Vec::new(),
            other_dirs: Vec::new(),
            odd: OddRootFile::all_in(path),
        };
        for entry in fs::read_dir(path).map_err(|source| Error::io(path, source))? {
            let entry = entry.map_err(|source| Error::io(path, source))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let parsed = LogDirFileName::parse(&name);
            if dir.odd.iter().any(|odd| odd.name == parsed) {
                continue;
            }
            let is_dir = fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_dir());
            if !is_dir {
                dir.files.push(name);
            } else if let Some(name) = PartitionDirName::parse(&name) {
                dir.partitions.push(PartitionPath {
                    path: entry.path(),
                    name,
                });
            } else if parsed != LogDirFileName::RemoteLogIndexCache {
                dir.other_dirs.push(name);
            }
        }
        dir.partitions.sort_by(|a, b| {
            let key = |it: &PartitionPath| (it.name.topic.clone(), it.name.partition);
            key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path))
        });
        dir.files.sort();
        dir.other_dirs.sort();
        Ok(dir)
    }

    /// Whether the directories with partitions' names are partitions: the parent of log
    /// directories called `kafka-logs-1` and `kafka-logs-2` looks like a log directory, too.
    fn holds_partitions(&self) -> bool {
        let mut named = self.partitions.iter();
        !self.partitions.is_empty()
            && (self.holds_a_partition() || !named.any(|named| is_log_dir(&named.path)))
    }

    fn holds_a_partition(&self) -> bool {
        self.partitions
            .iter()
            .any(|named| is_partition(&named.path))
    }

    /// Whether one of the files that a broker keeps directly in a log directory is there, or what
    /// stands for it.
    #[must_use]
    pub fn has_known_file(&self) -> bool {
        let stands_for_one = |odd: &OddRootFile| odd.what != Odd::Directory;
        self.odd.iter().any(stands_for_one)
            || self
                .files
                .iter()
                .any(|name| match LogDirFileName::parse(name) {
                    LogDirFileName::RecoveryPointOffsetCheckpoint
                    | LogDirFileName::ReplicationOffsetCheckpoint
                    | LogDirFileName::LogStartOffsetCheckpoint
                    | LogDirFileName::CleanerOffsetCheckpoint
                    | LogDirFileName::MetaProperties
                    | LogDirFileName::BootstrapCheckpoint
                    | LogDirFileName::CleanShutdown => true,
                    LogDirFileName::Lock
                    | LogDirFileName::RemoteLogIndexCache
                    | LogDirFileName::RlmmCommittedOffsets
                    | LogDirFileName::Temporary(_)
                    | LogDirFileName::Unknown(_) => false,
                })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"").unwrap();
    }

    #[test]
    fn the_parent_of_log_directories_named_like_partitions_is_no_log_directory() {
        let parent = tempfile::tempdir().unwrap();
        for disk in ["kafka-logs-1", "kafka-logs-2"] {
            let segment = format!("{disk}/orders-0/00000000000000000000.log");
            touch(&parent.path().join(segment));
        }
        let error = LogPath::discover(parent.path()).unwrap_err();
        let Error::NotALogDir { candidates, .. } = error else {
            panic!("{error}");
        };
        let disks = ["kafka-logs-1", "kafka-logs-2"].map(|disk| parent.path().join(disk));
        assert_eq!(candidates, disks);
        let disk = parent.path().join("kafka-logs-1");
        assert!(matches!(LogPath::discover(&disk), Ok(LogPath::LogDir(_))));
    }

    #[test]
    fn a_log_directory_of_emptied_partitions_is_one() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("orders-0")).unwrap();
        assert!(matches!(
            LogPath::discover(dir.path()),
            Ok(LogPath::LogDir(_))
        ));
    }
}
