//! Which leader epoch began where, in memory and in `leader-epoch-checkpoint`.
//!
//! Decides `LeaderEpochFileCache`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::{Error, Rejection};
use super::text_file;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::leader_epoch_checkpoint::{EpochEntry, LeaderEpochCheckpoint};
use crate::log;

/// The leader epochs of a partition.
#[derive(Debug)]
pub(super) struct LeaderEpochs {
    path: PathBuf,
    fsync: bool,
    epochs: BTreeMap<i32, i64>,
}

impl LeaderEpochs {
    /// Reads the file, which is made if it is not there.
    pub(super) fn open(dir: &Path, fsync: bool) -> Result<Self, Error> {
        let name = LogFileName {
            kind: LogFileKind::LeaderEpochCheckpoint,
            state: FileState::Live,
        };
        let path = dir.join(name.to_string());
        text_file::create_if_absent(&path)?;
        let bytes = std::fs::read(&path).map_err(|source| Error::io(&path, source))?;
        let mut epochs = Self {
            path,
            fsync,
            epochs: BTreeMap::new(),
        };
        if !bytes.is_empty() {
            let read =
                LeaderEpochCheckpoint::decode(&bytes).map_err(|source| log::Error::Decode {
                    path: epochs.path.clone(),
                    source,
                })?;
            for entry in read.entries {
                epochs.put(entry)?;
            }
        }
        Ok(epochs)
    }

    /// The entries, ascending.
    pub(super) fn entries(&self) -> impl Iterator<Item = EpochEntry> + '_ {
        self.epochs
            .iter()
            .map(|(&epoch, &start_offset)| EpochEntry {
                epoch,
                start_offset,
            })
    }

    pub(super) fn latest_epoch(&self) -> Option<i32> {
        self.epochs.last_key_value().map(|(epoch, _)| *epoch)
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
        let EpochEntry {
            epoch,
            start_offset,
        } = entry;
        if epoch < 0 || start_offset < 0 {
            return Err(Rejection::LeaderEpoch {
                epoch,
                start_offset,
            }
            .into());
        }
        if let Some((&latest, &latest_start)) = self.epochs.last_key_value()
            && epoch == latest
            && start_offset >= latest_start
        {
            return Ok(false);
        }
        while let Some(last) = self.epochs.last_entry() {
            if *last.key() < epoch && *last.get() < start_offset {
                break;
            }
            last.remove();
        }
        self.epochs.insert(epoch, start_offset);
        Ok(true)
    }

    /// Drops entries that start at or above the end; whether there were any, and the file is to
    /// be written later (`truncateFromEndAsyncFlush`).
    pub(super) fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        let mut removed = false;
        if end_offset < 0 {
            return removed;
        }
        while let Some(last) = self.epochs.last_entry() {
            if *last.get() < end_offset {
                break;
            }
            last.remove();
            removed = true;
        }
        removed
    }

    /// Drops entries before the start, of which the last one moves up to it; whether there were
    /// any (`truncateFromStartAsyncFlush`).
    pub(super) fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        let mut last_removed = None;
        while let Some(first) = self.epochs.first_entry() {
            if *first.get() > start_offset {
                break;
            }
            last_removed = Some(*first.key());
            first.remove();
        }
        if let Some(epoch) = last_removed {
            self.epochs.insert(epoch, start_offset);
        }
        last_removed.is_some()
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
        text_file::replace(&self.path, &checkpoint.encode(), self.fsync)
    }
}
