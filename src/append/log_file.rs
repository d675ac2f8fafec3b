//! The `.log` of a segment that is open for writing: where its batches end.
//!
//! Batches are written as they come, or gathered and written together, as
//! [`LogConfig::write_buffer_bytes`] says: in pieces that begin and end at multiples of it, which a
//! page cache takes as few large pages, and with blocks reserved ahead of them, which spares the
//! filesystem a reservation for each. All of them are in the file before anything else happens to
//! it, and before it is read.
//! Decides the writing half of `FileRecords`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::config::LogConfig;
use super::error::{Error, LoadError, Rejection};
use super::files::{Files, OpenFile};
use crate::log::mapped_file::MappedFile;

/// Pieces of gathered batches that the filesystem is asked for at once.
const RESERVED_PIECES: u64 = 16;

/// An open `.log`.
#[derive(Debug)]
pub(super) struct LogFile {
    files: Files,
    path: PathBuf,
    file: OpenFile,
    /// Bytes of batches, in the file and pending; a preallocated file is longer.
    size: u64,
    /// The last batches, which are not in the file yet.
    pending: Vec<u8>,
    /// Bytes of a piece of gathered batches; 0 if they are written as they come.
    piece: u64,
    /// Where the blocks end that the filesystem has been asked for, if that is behind the batches.
    reserved: u64,
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
            pending: Vec::new(),
            // What a dry run has in memory is looked at without asking the segment.
            piece: match files {
                Files::Disk => config.write_buffer_bytes as u64,
                Files::Overlay(_) => 0,
            },
            reserved: 0,
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
        if self.piece == 0 {
            self.file.write_all_at(&self.path, records, self.size)?;
            self.size = size;
            return Ok(());
        }
        let before = self.size;
        let gathered = self.gather(records);
        if gathered.is_err() {
            // What has been written of them is behind the batches, as Kafka leaves it.
            let position = self.size - self.pending.len() as u64;
            let kept = usize::try_from(before.saturating_sub(position)).unwrap_or(usize::MAX);
            self.pending.truncate(kept);
            self.size = before;
        }
        gathered
    }

    /// Takes bytes into the piece that is being filled, and writes each piece that is full.
    fn gather(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let room = self.piece - self.size % self.piece;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.pending.extend_from_slice(now);
            self.size += now.len() as u64;
            if now.len() == room {
                self.write_pending()?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Writes the batches that are not in the file yet.
    pub(super) fn write_pending(&mut self) -> Result<(), Error> {
        if !self.pending.is_empty() {
            let position = self.size - self.pending.len() as u64;
            let is_full = self.pending.len() as u64 == self.piece;
            // The first piece may be all there ever is.
            if is_full && position >= self.reserved.max(self.piece) {
                let size = self.piece.saturating_mul(RESERVED_PIECES);
                self.file.reserve(position, size);
                self.reserved = position.saturating_add(size);
            }
            self.file
                .write_all_at(&self.path, &self.pending, position)?;
            self.pending.clear();
        }
        Ok(())
    }

    /// Gives back the blocks that were reserved behind the batches.
    pub(super) fn release(&mut self) -> Result<(), Error> {
        if self.reserved > self.size {
            self.set_file_len(self.size)?;
        }
        Ok(())
    }

    /// Cuts the file, which frees what was reserved behind that.
    fn set_file_len(&mut self, len: u64) -> Result<(), Error> {
        self.file.set_len(&self.path, len)?;
        self.reserved = 0;
        Ok(())
    }

    /// Adds bytes of another file, which have been written there, behind the batches.
    pub(super) fn append_part(
        &mut self,
        from: &Self,
        position: u64,
        size: u64,
    ) -> Result<(), Error> {
        self.write_pending()?;
        self.file
            .append_part(&self.path, self.size, &from.file, position, size)?;
        self.size += size;
        Ok(())
    }

    /// The file itself.
    pub(super) fn file(&self) -> &OpenFile {
        &self.file
    }

    /// The file as it is now, for reading.
    pub(super) fn view(&mut self) -> Result<MappedFile, Error> {
        self.write_pending()?;
        self.files.view(&self.path)
    }

    /// When it was last written to.
    pub(super) fn modified(&mut self) -> Result<SystemTime, Error> {
        self.write_pending()?;
        self.files.modified(&self.path)
    }

    /// Cuts it to `size` bytes; returns how many bytes of batches went (`FileRecords.truncateTo`).
    pub(super) fn truncate_to(&mut self, size: u64) -> Result<u64, Error> {
        self.write_pending()?;
        let truncated = self.size.saturating_sub(size);
        if size < self.file.len(&self.path)? {
            self.set_file_len(size)?;
            self.size = size;
        }
        Ok(truncated)
    }

    /// Cuts off what was preallocated (`FileRecords.trim`).
    pub(super) fn trim(&mut self) -> Result<(), Error> {
        self.write_pending()?;
        // Most segments that are trimmed take no more batches.
        self.pending = Vec::new();
        if self.size < self.file.len(&self.path)? {
            self.set_file_len(self.size)?;
        }
        self.release()
    }

    /// Brings it to the disk.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.write_pending()?;
        self.file.sync(&self.path)
    }

    /// Renames it.
    pub(super) fn rename(&mut self, path: PathBuf) -> Result<(), Error> {
        self.write_pending()?;
        self.files.rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }
}

impl Drop for LogFile {
    /// A log that is dropped without having been closed leaves what a killed broker leaves. An
    /// error has nobody to go to; whoever has to know of it flushes or closes first.
    fn drop(&mut self) {
        let _ = self.write_pending().and_then(|()| self.release());
    }
}
