//! Entries of a partition directory that have a file's name and are none: links to nothing,
//! directories, pipes, sockets and devices.
//!
//! Decides by `File.isFile` and `File.exists`, which loading asks of each name.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::format::file_name::{FileState, LogFileKind, LogFileName};

/// An entry that is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OddEntry {
    /// Its name as the file system has it.
    pub file_name: OsString,
    /// What the name says.
    pub parsed: LogFileName,
    /// What it is.
    pub what: Odd,
}

/// What has a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// A link to what is not there, and can be made there.
    LinkToNothing,
    /// A link into a folder that is not there, as of a disk that is not mounted: what it points to
    /// cannot be made.
    LinkIntoNothing,
    /// A link that leads back to itself, by way of others or not.
    LinkLoop,
    /// A directory.
    Directory,
    /// A named pipe: whoever opens it for reading alone, or for writing alone, waits for the other
    /// end.
    Pipe,
    /// A socket.
    Socket,
    /// A device.
    Device,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkToNothing => "a link to nothing",
            Self::LinkIntoNothing => "a link into a folder that is not there",
            Self::LinkLoop => "a link that leads back to itself",
            Self::Directory => "a directory",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}

impl Odd {
    /// What a path is, by what the system says of it with links followed; `None` of a file, and
    /// where that cannot be told: whoever opens it finds out.
    pub(super) fn of(path: &Path, metadata: &io::Result<Metadata>) -> Option<Self> {
        match metadata {
            Ok(metadata) => Self::of_type(metadata.file_type()),
            Err(_) if !path.is_symlink() => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(of_dangling_link(path)),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Some(Self::LinkIntoNothing)
            }
            Err(error) => (error.raw_os_error() == Some(libc::ELOOP)).then_some(Self::LinkLoop),
        }
    }

    fn of_type(file_type: FileType) -> Option<Self> {
        if file_type.is_file() {
            return None;
        }
        Some(if file_type.is_dir() {
            Self::Directory
        } else if file_type.is_fifo() {
            Self::Pipe
        } else if file_type.is_socket() {
            Self::Socket
        } else {
            Self::Device
        })
    }

    /// Whether something is there (`File.exists`).
    #[must_use]
    pub fn exists(self) -> bool {
        match self {
            Self::LinkToNothing | Self::LinkIntoNothing | Self::LinkLoop => false,
            Self::Directory | Self::Pipe | Self::Socket | Self::Device => true,
        }
    }

    /// What a broker does about it under a name. It does not make a `leader-epoch-checkpoint` where
    /// the name is taken, and reads it (`CheckpointFile`); it reads a `partition.metadata` and
    /// opens a `.txnindex` that exist (`UnifiedLog.initializeTopicId`, `TransactionIndex`); the
    /// other indexes it opens when it needs them (`LazyIndex`), and a snapshot when it writes one
    /// of that name (`ProducerStateManager.writeSnapshot`). What a link points to is made then, if
    /// it can be. A pipe is opened for reading as a text file and for writing as a snapshot, and
    /// that waits; as an index for both, and then it has no place to go to and no size to be set.
    #[must_use]
    pub fn effect(self, name: &LogFileName) -> OddEffect {
        if name.state != FileState::Live {
            return OddEffect::PassedOver;
        }
        let is_pipe = self == Self::Pipe;
        let cannot_be_made = self != Self::LinkToNothing;
        match &name.kind {
            LogFileKind::LeaderEpochCheckpoint | LogFileKind::PartitionMetadata if is_pipe => {
                OddEffect::WaitsToLoad
            }
            LogFileKind::LeaderEpochCheckpoint => OddEffect::FailsToLoad,
            LogFileKind::PartitionMetadata | LogFileKind::TransactionIndex(_) if self.exists() => {
                OddEffect::FailsToLoad
            }
            LogFileKind::ProducerSnapshot(_) if is_pipe => OddEffect::WaitsInUse,
            LogFileKind::OffsetIndex(_)
            | LogFileKind::TimeIndex(_)
            | LogFileKind::TransactionIndex(_)
            | LogFileKind::ProducerSnapshot(_)
                if cannot_be_made =>
            {
                OddEffect::FailsInUse
            }
            LogFileKind::Log(_)
            | LogFileKind::OffsetIndex(_)
            | LogFileKind::TimeIndex(_)
            | LogFileKind::TransactionIndex(_)
            | LogFileKind::ProducerSnapshot(_)
            | LogFileKind::PartitionMetadata
            | LogFileKind::QuorumState
            | LogFileKind::KRaftSnapshot(_)
            | LogFileKind::KRaftSnapshotPart(..)
            | LogFileKind::RemoteLogSnapshot
            | LogFileKind::NotANumber(_)
            | LogFileKind::Unknown(_) => OddEffect::PassedOver,
        }
    }
}

/// What a link is whose target is not there. It may be one to another.
fn of_dangling_link(path: &Path) -> Odd {
    let above = path.parent().unwrap_or(Path::new("."));
    let target = fs::read_link(path).map(|target| above.join(target));
    let is_makeable = target.is_ok_and(|target| {
        target.is_symlink() || target.parent().is_some_and(|folder| folder.is_dir())
    });
    if is_makeable {
        Odd::LinkToNothing
    } else {
        Odd::LinkIntoNothing
    }
}

impl OddEntry {
    /// `None` where the name is of no file that Kafka keeps.
    pub(super) fn new(file_name: OsString, what: Odd) -> Option<Self> {
        let parsed = LogFileName::parse(&file_name.to_string_lossy());
        let is_kafkas = !matches!(
            parsed.kind,
            LogFileKind::Unknown(_) | LogFileKind::NotANumber(_)
        );
        is_kafkas.then_some(Self {
            file_name,
            parsed,
            what,
        })
    }

    /// What a broker does about it.
    #[must_use]
    pub fn effect(&self) -> OddEffect {
        self.what.effect(&self.parsed)
    }

    /// Whether a broker takes it as not there.
    #[must_use]
    pub fn is_passed_over(&self) -> bool {
        self.effect() == OddEffect::PassedOver
    }
}

/// In the place of an exception's name, where a start waits and comes to no end.
pub const NO_EXCEPTION: &str = "none";

/// What comes of a pipe.
pub const WAITS: &str = "waits for the other end of the pipe";

/// What a broker does about an entry that is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddEffect {
    /// It takes it as not there.
    PassedOver,
    /// It does not load the partition, and takes the log directory offline.
    FailsToLoad,
    /// The same once it opens it.
    FailsInUse,
    /// It waits for the other end of a pipe, and loading comes to no end.
    WaitsToLoad,
    /// It waits once it opens it.
    WaitsInUse,
}
