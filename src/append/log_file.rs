//! The `.log` of a segment that is open for writing: where its batches end.
//!
//! Decides the writing half of `FileRecords`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::config::LogConfig;
use super::error::{Error, LoadError, Rejection};
use super::files::{Files, OpenFile};
use crate::log::mapped_file::MappedFile;

/// An open `.log`.
#[derive(Debug)]
pub(super) struct LogFile {
    files: Files,
    path: PathBuf,
    file: OpenFile,
    /// Bytes of batches; a preallocated file is longer.
    size: u64,
}

impl LogFile {
    /// Opens the file, or makes it (`FileRecords.open`).
    pub(super) fn open(
        files: &Files,
        path: PathBuf,
        config: &LogConfig,
        file_already_exists: bool,
    ) -> Result<Self, Error> {
        let file = files.open(&path)?;
        let preallocates = config.preallocate && !file_already_exists;
        if preallocates {
            file.set_len(&path, config.initial_file_size())?;
        }
        let size = if preallocates { 0 } else { file.len(&path)? };
        if i32::try_from(size).is_err() {
            return Err(LoadError::SegmentTooLarge { path, size }.into());
        }
        Ok(Self {
            files: files.clone(),
            path,
            file,
            size,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of batches.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Adds batches behind the others (`FileRecords.append`).
    pub(super) fn append(&mut self, records: &[u8]) -> Result<(), Error> {
        let size = self.size.saturating_add(records.len() as u64);
        if i32::try_from(size).is_err() {
            return Err(Rejection::SegmentFull(self.size).into());
        }
        self.file.write_all_at(&self.path, records, self.size)?;
        self.size = size;
        Ok(())
    }

    /// Adds bytes of another file behind the batches.
    pub(super) fn append_part(
        &mut self,
        from: &Self,
        position: u64,
        size: u64,
    ) -> Result<(), Error> {
        self.file
            .append_part(&self.path, self.size, &from.file, position, size)?;
        self.size += size;
        Ok(())
    }

    /// The file as it is now, for reading.
    pub(super) fn view(&self) -> Result<MappedFile, Error> {
        self.files.view(&self.path)
    }

    /// When it was last written to.
    pub(super) fn modified(&self) -> Result<SystemTime, Error> {
        self.files.modified(&self.path)
    }

    /// Cuts it to `size` bytes; returns how many bytes of batches went (`FileRecords.truncateTo`).
    pub(super) fn truncate_to(&mut self, size: u64) -> Result<u64, Error> {
        let truncated = self.size.saturating_sub(size);
        if size < self.file.len(&self.path)? {
            self.file.set_len(&self.path, size)?;
            self.size = size;
        }
        Ok(truncated)
    }

    /// Cuts off what was preallocated (`FileRecords.trim`).
    pub(super) fn trim(&mut self) -> Result<(), Error> {
        if self.size < self.file.len(&self.path)? {
            self.file.set_len(&self.path, self.size)?;
        }
        Ok(())
    }

    /// Brings it to the disk.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.file.sync(&self.path)
    }

    /// Renames it.
    pub(super) fn rename(&mut self, path: PathBuf) -> Result<(), Error> {
        self.files.rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }
}
