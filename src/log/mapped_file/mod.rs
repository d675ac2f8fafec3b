//! A file of bytes that is only ever read: memory-mapped, or read piece by piece.
//!
//! The one module with `unsafe` code for memory maps. A broker may truncate a file while it is
//! mapped; touching a page that is gone raises SIGBUS. The handler in `sigbus` puts a page of
//! zeros in its place and marks the mapping, so that the reader ends in
//! [`Error::ChangedWhileReading`] and the process lives on.

#![allow(
    unsafe_code,
    reason = "memory maps, and the SIGBUS handler that keeps them safe"
)]

mod changes;
mod open;
mod sigbus;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memmap2::Mmap;

use super::Error;
use sigbus::{Slot, install_handler};

pub(super) use open::open_regular;

/// How the bytes of a file are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// A memory map; files that cannot be mapped are read.
    #[default]
    Mmap,
    /// `pread` into a buffer. For file systems where a map misbehaves.
    Read,
}

/// An open file whose length was fixed when it was opened: bytes that a broker appends later
/// are not part of it.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    /// Where in the file on the disk the bytes begin.
    start: u64,
    len: u64,
    /// Whether the file went on behind these bytes when it was opened, and is not looked at there.
    is_part: bool,
    /// When the file had last been written to as it was opened.
    modified: Option<SystemTime>,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Map {
        map: Mmap,
        slot: &'static Slot,
        /// Kept to ask for the size, whatever name the file has by then.
        file: File,
    },
    File(File),
    /// No file on the disk has these bytes.
    Memory(Vec<u8>),
}

impl MappedFile {
    /// Opens a regular file for reading, changing nothing about it.
    ///
    /// # Errors
    /// If it cannot be opened or is not a regular file.
    pub fn open(path: &Path, io: Io) -> Result<Self, Error> {
        Self::of_file(path, open_regular(path)?, None, io)
    }

    /// Takes a file that is open for reading; its length is `len`, or what it is now.
    ///
    /// # Errors
    /// If its length cannot be asked for.
    pub(super) fn of_file(
        path: &Path,
        file: File,
        len: Option<u64>,
        io: Io,
    ) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(|source| Error::io(path, source))?;
        let len = len.unwrap_or(metadata.len());
        Ok(Self::of_part(path, file, (0, len), false, io))
    }

    /// Opens up to `len` bytes of a regular file from `start` on, as if they were a file of their
    /// own.
    ///
    /// # Errors
    /// If it cannot be opened or is not a regular file.
    pub fn open_part(path: &Path, io: Io, start: u64, len: u64) -> Result<Self, Error> {
        let file = open_regular(path)?;
        let metadata = file.metadata().map_err(|source| Error::io(path, source))?;
        let available = metadata.len().saturating_sub(start);
        let is_part = len < available;
        let part = (start, available.min(len));
        Ok(Self::of_part(path, file, part, is_part, io))
    }

    /// Up to `len` of its bytes from `start` on, as if they were a file of their own.
    ///
    /// # Errors
    /// If it cannot be opened once more.
    pub(super) fn part(self, start: u64, len: u64) -> Result<Self, Error> {
        if start == 0 && len >= self.len {
            return Ok(self);
        }
        let available = self.len.saturating_sub(start);
        let (io, file) = match &self.bytes {
            Bytes::Map { file, .. } => (Io::Mmap, file),
            Bytes::File(file) => (Io::Read, file),
            Bytes::Memory(bytes) => {
                let skip = usize::try_from(start).unwrap_or(usize::MAX);
                let take = usize::try_from(len).unwrap_or(usize::MAX);
                let bytes = bytes.iter().copied().skip(skip).take(take).collect();
                return Ok(Self::from_bytes(&self.path, bytes));
            }
        };
        let file = file.try_clone();
        let file = file.map_err(|source| Error::io(&self.path, source))?;
        let part = (start, available.min(len));
        Ok(Self::of_part(&self.path, file, part, len < available, io))
    }

    fn of_part(path: &Path, file: File, part: (u64, u64), is_part: bool, io: Io) -> Self {
        let (start, len) = part;
        let modified = file.metadata().and_then(|it| it.modified()).ok();
        let bytes = match io {
            Io::Mmap if len > 0 => Self::map(file, start, len),
            Io::Mmap | Io::Read => Bytes::File(file),
        };
        Self {
            path: path.to_owned(),
            start,
            len,
            is_part,
            modified,
            bytes,
        }
    }

    /// Bytes that no file on the disk has, under the name they would have there.
    #[must_use]
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            start: 0,
            len: bytes.len() as u64,
            is_part: false,
            modified: None,
            bytes: Bytes::Memory(bytes),
        }
    }

    /// Maps `len` bytes of `file`; where that cannot be done the file is read instead.
    fn map(file: File, start: u64, len: u64) -> Bytes {
        install_handler();
        let Ok(map_len) = usize::try_from(len) else {
            return Bytes::File(file);
        };
        // SAFETY: a map is unsafe because others may change the file under it. Changed bytes are
        // just other bytes to this crate, which trusts none of them and reads them through
        // `&[u8]` only; a file cut short raises SIGBUS, which the handler turns into zeros.
        let map = unsafe {
            memmap2::MmapOptions::new()
                .offset(start)
                .len(map_len)
                .map(&file)
        };
        match map {
            Ok(map) => {
                let slot = Slot::take(map.as_ptr() as usize, map_len);
                Bytes::Map { map, slot, file }
            }
            Err(_) => Bytes::File(file),
        }
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the file when it was opened.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file was empty when it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes, if the file is mapped; an empty file always is.
    #[must_use]
    #[inline]
    pub fn mapped(&self) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Map { map, .. } => Some(map),
            Bytes::Memory(bytes) => Some(bytes),
            Bytes::File(_) if self.len == 0 => Some(&[]),
            Bytes::File(_) => None,
        }
    }

    /// Enters the pages from `position` on into the map, read from the disk if need be: whoever
    /// reads them next takes no page faults. Only a hint: where it cannot be done nothing happens.
    pub(crate) fn map_ahead(&self, position: u64, len: u64) {
        #[cfg(target_os = "linux")]
        if let Bytes::Map { map, .. } = &self.bytes
            && let Ok(start) = usize::try_from(position)
        {
            let left = map.len().saturating_sub(start);
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(left);
            if len > 0 {
                // An error, and no signal, before Linux 5.14 and where the file was cut short.
                let _ = map.advise_range(memmap2::Advice::PopulateRead, start, len);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (position, len);
    }

    /// Fills `buffer` with the bytes at `position`, mapped or not.
    ///
    /// # Errors
    /// If the file ends before that or cannot be read.
    pub fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> Result<(), Error> {
        if let Some(map) = self.mapped() {
            let start = usize::try_from(position).unwrap_or(usize::MAX);
            let end = start.saturating_add(buffer.len());
            let bytes = map.get(start..end).ok_or_else(|| self.changed())?;
            buffer.copy_from_slice(bytes);
            return self.check_unchanged();
        }
        let (Bytes::Map { file, .. } | Bytes::File(file)) = &self.bytes else {
            return Ok(());
        };
        file.read_exact_at(buffer, self.start.saturating_add(position))
            .map_err(|source| {
                if source.kind() == io::ErrorKind::UnexpectedEof {
                    self.changed()
                } else {
                    Error::io(&self.path, source)
                }
            })
    }

    /// All bytes: the map itself, or a copy where the file is not mapped.
    ///
    /// For small files; a segment is walked instead.
    ///
    /// # Errors
    /// If the file cannot be read whole.
    pub fn read_all(&self) -> Result<std::borrow::Cow<'_, [u8]>, Error> {
        if let Some(bytes) = self.mapped() {
            return Ok(std::borrow::Cow::Borrowed(bytes));
        }
        let len = usize::try_from(self.len).map_err(|_| self.changed())?;
        // The length is the file's own, not one it claims, but a sparse file has any length.
        let mut buffer = Vec::new();
        buffer
            .try_reserve_exact(len)
            .map_err(|_| Error::io(&self.path, io::ErrorKind::OutOfMemory.into()))?;
        buffer.resize(len, 0);
        self.read_exact_at(&mut buffer, 0)?;
        Ok(std::borrow::Cow::Owned(buffer))
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if let Bytes::Map { slot, .. } = &self.bytes {
            slot.release();
        }
    }
}

/// Asks the processor to fetch the bytes at `position` ahead of their use.
///
/// A walk over small batches is bound by memory latency, since each length must arrive before
/// the next batch is known; fetching a little ahead hides most of it.
#[inline]
pub(super) fn prefetch(bytes: &[u8], position: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(position) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults, and the address is in `bytes`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, position);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_ahead_touches_nothing_of_a_file_that_was_cut_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000.log");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let mapped = MappedFile::open(&path, Io::Mmap).unwrap();
        let read = MappedFile::open(&path, Io::Read).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        for (position, len) in [(0, 1 << 20), (5000, u64::MAX), (1 << 20, 1), (u64::MAX, 1)] {
            mapped.map_ahead(position, len);
            read.map_ahead(position, len);
        }
        // A page that was touched would be marked.
        mapped.check_unchanged().unwrap();
        mapped.check_not_cut().unwrap_err();
    }
}
