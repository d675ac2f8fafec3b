//! What lies directly in a log directory under the name of a file that a broker reads at its start,
//! and is no file: links to nothing, directories, pipes, sockets and devices.
//!
//! Decides `CheckpointFile`, `CleanShutdownFileHandler`, `MetaPropertiesEnsemble.Loader`,
//! `KafkaRaftServer.initializeLogDirs`, `LogManager.loadLogs`,
//! `LogManager.readBrokerEpochFromCleanShutdownFiles`, `LogCleanerManager.allCleanerCheckpoints`.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::broker_start::{DOES_NOT_START, GOES_OFFLINE_LATER};
use super::odd_entry::{NO_EXCEPTION, Odd, WAITS};
use crate::format::file_name::LogDirFileName;

/// An entry of a log directory that is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddRootFile {
    /// What its name says.
    pub name: LogDirFileName,
    /// What it is.
    pub what: Odd,
    /// What a broker does about it.
    pub effect: RootEffect,
}

/// What a broker does about an entry of its log directory that is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootEffect {
    /// It takes it as not there.
    PassedOver,
    /// It reads nothing from it, as from an empty file.
    ReadAsEmpty,
    /// It takes it for the mark of a clean stop, and removes it as one.
    TakenForCleanStop,
    /// It cannot remove the mark of a clean stop, and takes the log directory offline.
    CannotBeRemoved,
    /// It takes a checkpoint for empty, loads, and takes the log directory offline.
    CannotBeRead,
    /// It takes the log directory offline before it looks into it.
    IsOffline,
    /// It does not start: to it the log directory was never formatted.
    NotFormatted,
    /// It does not start: each directory has to be a partition's.
    ForeignDirectory,
    /// It waits for the other end of a pipe, and its start comes to no end.
    Waits,
    /// Its log cleaner waits, and compacts nothing.
    CleanerWaits,
}

/// The files that a broker reads.
const NAMES: [LogDirFileName; 6] = [
    LogDirFileName::RecoveryPointOffsetCheckpoint,
    LogDirFileName::LogStartOffsetCheckpoint,
    LogDirFileName::ReplicationOffsetCheckpoint,
    LogDirFileName::CleanerOffsetCheckpoint,
    LogDirFileName::MetaProperties,
    LogDirFileName::CleanShutdown,
];

impl OddRootFile {
    /// Those in a log directory.
    #[must_use]
    pub fn all_in(dir: &Path) -> Vec<Self> {
        let odd = |name| Self::at(&dir.join(LogDirFileName::to_string(&name)), name);
        NAMES.into_iter().filter_map(odd).collect()
    }

    fn at(path: &Path, name: LogDirFileName) -> Option<Self> {
        let metadata = fs::metadata(path);
        let what = Odd::of(path, &metadata)?;
        let effect = if name == LogDirFileName::MetaProperties {
            of_meta_properties(what, &metadata)
        } else if name == LogDirFileName::CleanShutdown {
            of_clean_shutdown(what, path)
        } else {
            of_checkpoint(what, &metadata, &name)
        };
        Some(Self { name, what, effect })
    }

    /// What it keeps from starting: simple name of Kafka's exception, and whether the whole broker
    /// stops, and not only the log directory goes offline. `None` if a start comes to its end.
    #[must_use]
    pub fn outage(&self) -> Option<(&'static str, bool)> {
        match self.effect {
            RootEffect::PassedOver
            | RootEffect::ReadAsEmpty
            | RootEffect::TakenForCleanStop
            | RootEffect::CleanerWaits => None,
            RootEffect::CannotBeRemoved => Some(("DirectoryNotEmptyException", false)),
            RootEffect::CannotBeRead => Some(("KafkaStorageException", false)),
            RootEffect::IsOffline => Some(("IOException", false)),
            RootEffect::NotFormatted => Some(("RuntimeException", true)),
            RootEffect::ForeignDirectory => Some(("KafkaException", true)),
            RootEffect::Waits => Some((NO_EXCEPTION, true)),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        let is_meta_properties = self.name == LogDirFileName::MetaProperties;
        match (is_meta_properties, self.what.exists()) {
            _ if self.name == LogDirFileName::CleanShutdown => "take it away",
            (true, false) => {
                "bring back the file it points to: it says whose log directory this is"
            }
            (true, true) => "put the meta.properties of this log directory in its place",
            (false, false) => {
                "bring back the file it points to, or take the link away: without the offset \
                 checkpoints a broker recovers everything and starts"
            }
            (false, true) => {
                "move it out of the directory: without the offset checkpoints a broker recovers \
                 everything and starts"
            }
        }
    }
}

/// It is not made where the name is taken, and then it is read (`CheckpointFile`).
fn of_checkpoint(what: Odd, metadata: &io::Result<Metadata>, name: &LogDirFileName) -> RootEffect {
    match what {
        Odd::Pipe if *name == LogDirFileName::CleanerOffsetCheckpoint => RootEffect::CleanerWaits,
        Odd::Pipe => RootEffect::Waits,
        Odd::Directory => RootEffect::ForeignDirectory,
        Odd::Device if is_null_device(metadata) => RootEffect::ReadAsEmpty,
        Odd::LinkToNothing | Odd::LinkIntoNothing | Odd::LinkLoop | Odd::Socket | Odd::Device => {
            RootEffect::CannotBeRead
        }
    }
}

/// One that is not found was never written; any other that cannot be read takes the log directory
/// offline (`MetaPropertiesEnsemble.Loader`).
fn of_meta_properties(what: Odd, metadata: &io::Result<Metadata>) -> RootEffect {
    let is_not_found = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let is_missing = metadata.as_ref().err().is_some_and(is_not_found);
    match what {
        Odd::Pipe => RootEffect::Waits,
        // Without a node's id it is as good as not written.
        Odd::Device if is_null_device(metadata) => RootEffect::NotFormatted,
        _ if is_missing => RootEffect::NotFormatted,
        Odd::LinkToNothing
        | Odd::LinkIntoNothing
        | Odd::LinkLoop
        | Odd::Directory
        | Odd::Socket
        | Odd::Device => RootEffect::IsOffline,
    }
}

/// The broker's epoch is read from it before the logs are loaded, which a pipe alone keeps; one
/// that is there for `File.exists` is deleted then (`Files.deleteIfExists`).
fn of_clean_shutdown(what: Odd, path: &Path) -> RootEffect {
    match what {
        Odd::LinkToNothing | Odd::LinkIntoNothing | Odd::LinkLoop => RootEffect::PassedOver,
        Odd::Pipe => RootEffect::Waits,
        Odd::Directory if !path.is_symlink() && holds_anything(path) => RootEffect::CannotBeRemoved,
        Odd::Directory | Odd::Socket | Odd::Device => RootEffect::TakenForCleanStop,
    }
}

fn holds_anything(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether it is `/dev/null`, which reads as an empty file.
fn is_null_device(metadata: &io::Result<Metadata>) -> bool {
    let null = fs::metadata("/dev/null").map(|it| it.rdev());
    matches!((metadata, null), (Ok(it), Ok(null)) if it.rdev() == null)
}

/// What a broker does, as the end of a sentence that begins with it.
impl fmt::Display for RootEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PassedOver => f.write_str("passes over it, as if it were not there"),
            Self::ReadAsEmpty => f.write_str("reads it as an empty file"),
            Self::TakenForCleanStop => {
                f.write_str("takes it for the mark of a clean stop, and removes it")
            }
            Self::CannotBeRemoved => {
                f.write_str("cannot remove it, and takes the log directory offline")
            }
            Self::CannotBeRead => f.write_str(GOES_OFFLINE_LATER),
            Self::IsOffline => write!(
                f,
                "takes the log directory offline, and {DOES_NOT_START} where it has no other or \
                 this one holds its metadata log"
            ),
            Self::NotFormatted => write!(
                f,
                "{DOES_NOT_START}: to it the log directory was never formatted"
            ),
            Self::ForeignDirectory => write!(
                f,
                "{DOES_NOT_START}: every directory here must be a partition's"
            ),
            Self::Waits => write!(f, "{WAITS} at any start, and {DOES_NOT_START}"),
            Self::CleanerWaits => {
                write!(
                    f,
                    "starts, but its log cleaner {WAITS} and compacts nothing"
                )
            }
        }
    }
}
