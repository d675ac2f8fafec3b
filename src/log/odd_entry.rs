//! Entries of a partition directory that have a file's name and are none: links to nothing, and
//! directories.
//!
//! Decides by `File.isFile` and `File.exists`, which loading asks of each name.

use std::ffi::OsString;
use std::fmt;

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
    /// A directory.
    Directory,
}

impl fmt::Display for Odd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LinkToNothing => "a link to nothing",
            Self::LinkIntoNothing => "a link into a folder that is not there",
            Self::Directory => "a directory",
        })
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

    /// What a broker does about it. It does not make a `leader-epoch-checkpoint` where the name is
    /// taken, and reads it (`CheckpointFile`); it reads a `partition.metadata` and opens a
    /// `.txnindex` that exist (`UnifiedLog.initializeTopicId`, `TransactionIndex`); the other
    /// indexes it opens when it needs them (`LazyIndex`), and a snapshot when it writes one of that
    /// name (`ProducerStateManager.writeSnapshot`). What a link points to is made then, if it can
    /// be.
    #[must_use]
    pub fn effect(&self) -> OddEffect {
        if self.parsed.state != FileState::Live {
            return OddEffect::PassedOver;
        }
        let is_directory = self.what == Odd::Directory;
        let cannot_be_made = self.what != Odd::LinkToNothing;
        match &self.parsed.kind {
            LogFileKind::LeaderEpochCheckpoint => OddEffect::FailsToLoad,
            LogFileKind::PartitionMetadata | LogFileKind::TransactionIndex(_) if is_directory => {
                OddEffect::FailsToLoad
            }
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

    /// Whether a broker takes it as not there.
    #[must_use]
    pub fn is_passed_over(&self) -> bool {
        self.effect() == OddEffect::PassedOver
    }
}

/// What a broker does about an entry that is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddEffect {
    /// It takes it as not there.
    PassedOver,
    /// It does not load the partition, and takes the log directory offline.
    FailsToLoad,
    /// The same once it opens it.
    FailsInUse,
}
