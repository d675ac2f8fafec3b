//! `leader-epoch-checkpoint`: the leader epochs of [`crate::state::LeaderEpochs`] and their file.
//!
//! Decides `LeaderEpochFileCache`.

use std::path::{Path, PathBuf};

use super::error::{Error, LoadError, Rejection};
use super::files::Files;
use crate::error::DecodeError;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::leader_epoch_checkpoint::{EpochEntry, LeaderEpochCheckpoint};
use crate::log;
use crate::state;

/// The leader epochs of a partition.
#[derive(Debug)]
pub(super) struct LeaderEpochs {
    files: Files,
    path: PathBuf,
    fsync: bool,
    epochs: state::LeaderEpochs,
}

impl LeaderEpochs {
    /// Reads the file, which is made if it is not there.
    pub(super) fn open(files: &Files, dir: &Path, fsync: bool) -> Result<Self, Error> {
        let name = LogFileName {
            kind: LogFileKind::LeaderEpochCheckpoint,
            state: FileState::Live,
        };
        let path = dir.join(name.to_string());
        files.create_if_absent(&path)?;
        let file = files.view(&path)?;
        let mut epochs = Self {
            files: files.clone(),
            path,
            fsync,
            epochs: state::LeaderEpochs::default(),
        };
        if !file.is_empty() {
            let read = LeaderEpochCheckpoint::decode(&file.read_all()?);
            let read = read.map_err(|source| epochs.unreadable(source))?;
            for entry in read.entries {
                epochs.put(entry)?;
            }
        }
        Ok(epochs)
    }

    fn unreadable(&self, source: DecodeError) -> Error {
        let path = self.path.clone();
        match LeaderEpochCheckpoint::uncaught(&source) {
            Some(_) => LoadError::CheckpointNumber { path, source }.into(),
            None => log::Error::Decode { path, source }.into(),
        }
    }

    /// The entries, ascending.
    pub(super) fn entries(&self) -> impl Iterator<Item = EpochEntry> + '_ {
        self.epochs.entries()
    }

    pub(super) fn latest_epoch(&self) -> Option<i32> {
        self.epochs.latest_epoch()
    }

    /// An epoch begins at an offset. Writes the file if that is news.
    pub(super) fn assign(&mut self, epoch: i32, start_offset: i64) -> Result<(), Error> {
        let entry = EpochEntry {
            epoch,
            start_offset,
        };
        if self.put(entry)? {
            self.write()?;
        }
        Ok(())
    }

    fn put(&mut self, entry: EpochEntry) -> Result<bool, Error> {
        self.epochs.assign(entry).map_err(|_| {
            Error::from(Rejection::LeaderEpoch {
                epoch: entry.epoch,
                start_offset: entry.start_offset,
            })
        })
    }

    /// Whether entries were dropped, so that the file is to be written later.
    pub(super) fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        self.epochs.truncate_from_end(end_offset)
    }

    /// Whether entries were dropped or moved, so that the file is to be written later.
    pub(super) fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        self.epochs.truncate_from_start(start_offset)
    }

    /// `clearAndFlush`.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        self.epochs.clear();
        self.write()
    }

    /// Writes the file.
    pub(super) fn write(&self) -> Result<(), Error> {
        let checkpoint = LeaderEpochCheckpoint {
            entries: self.entries().collect(),
        };
        self.files
            .replace(&self.path, &checkpoint.encode(), self.fsync)
    }
}
