//! The bytes of an overlay's files.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::LazyLock;

use super::content::{Base, Content, Written};
use super::{FileId, Overlay};
use crate::log::mapped_file::MappedFile;
use crate::log::{Error, Io};

/// Bytes that are read at once.
pub(super) const PIECE: usize = 64 * 1024;

/// An open file of an overlay.
#[derive(Debug)]
pub(super) struct Opened<'o> {
    base: Option<MappedFile>,
    written: Cow<'o, [u8]>,
    written_at: u64,
}

impl Opened<'_> {
    /// See [`Overlay::read_at`].
    pub(super) fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<(), Error> {
        buffer.fill(0);
        let to_usize = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
        // Nothing of the base counts below what was written.
        let end = position.saturating_add(buffer.len() as u64);
        let written_end = self.written_at.saturating_add(self.written.len() as u64);
        let is_written = self.written_at <= position && end <= written_end;
        if let Some(base) = self.base.as_ref().filter(|_| !is_written)
            && let Some(there) = base.len().checked_sub(position)
        {
            let size = buffer.len().min(to_usize(there));
            if let Some(part) = buffer.get_mut(..size).filter(|part| !part.is_empty()) {
                base.read_exact_at(part, position)?;
            }
        }
        let behind = to_usize(self.written_at.saturating_sub(position));
        let passed = to_usize(position.saturating_sub(self.written_at));
        let room = buffer.get_mut(behind..).unwrap_or_default();
        let written = self.written.get(passed..).unwrap_or_default();
        let common = room.len().min(written.len());
        if let (Some(room), Some(written)) = (room.get_mut(..common), written.get(..common)) {
            room.copy_from_slice(written);
        }
        Ok(())
    }

    /// The first `len` bytes. Where they are zeros the memory for them is not touched.
    fn read_all(&self, len: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        let mut piece = vec![0; PIECE];
        let zeros = vec![0; PIECE];
        let mut position = 0;
        for part in bytes.chunks_mut(PIECE) {
            let piece = piece.get_mut(..part.len()).unwrap_or_default();
            self.read_at(piece, position)?;
            if !zeros.starts_with(piece) {
                part.copy_from_slice(piece);
            }
            position += part.len() as u64;
        }
        Ok(bytes)
    }
}

impl Overlay {
    pub(super) fn content(&self, id: FileId) -> &Content {
        static NONE: LazyLock<Content> = LazyLock::new(Content::default);
        self.contents.get(id.0).unwrap_or(&NONE)
    }

    /// What was written to a file.
    pub(super) fn written_bytes<'w>(&self, written: &'w Written) -> Result<Cow<'w, [u8]>, Error> {
        match written {
            Written::Kept(bytes) => Ok(Cow::Borrowed(bytes)),
            Written::Remade(remade, len) => {
                let mut bytes = self.remake(remade)?;
                bytes.truncate(*len);
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Bytes of the file, with room set aside.
    #[must_use]
    pub fn len(&self, id: FileId) -> u64 {
        self.content(id).len
    }

    /// Fills `buffer` with the bytes at `position`; behind the end of the data these are zeros.
    ///
    /// # Errors
    /// If the file on the disk cannot be read.
    pub fn read_at(&self, id: FileId, buffer: &mut [u8], position: u64) -> Result<(), Error> {
        self.opened(id)?.read_at(buffer, position)
    }

    /// The file, open for many reads.
    pub(super) fn opened(&self, id: FileId) -> Result<Opened<'_>, Error> {
        let content = self.content(id);
        let base = content.base.as_ref().filter(|base| base.len > 0);
        Ok(Opened {
            base: base.map(|it| self.open_base(it, Io::Read)).transpose()?,
            written: self.written_bytes(&content.written)?,
            written_at: content.written_at,
        })
    }

    pub(super) fn open_base(&self, base: &Base, io: Io) -> Result<MappedFile, Error> {
        let path = self.dir.join(&base.name);
        let opened = match self.held.open(&path, &base.name, io) {
            Some(held) => held.and_then(|held| held.part(base.start, base.len)),
            None => MappedFile::open_part(&path, io, base.start, base.len),
        };
        // It was there when the directory was listed.
        opened.map_err(|error| {
            if error.is_not_found() {
                Error::ChangedWhileReading {
                    path: self.dir.clone(),
                }
            } else {
                error
            }
        })
    }

    /// Opens the bytes of a file from `start` on, as they were before any change; `None` if there
    /// was no file of that name.
    ///
    /// # Errors
    /// If the file on the disk cannot be read.
    pub fn open_original(&self, name: &OsStr, start: u64) -> Result<Option<MappedFile>, Error> {
        let Some((name, size)) = self.original.iter().find(|(it, _)| it == name) else {
            return Ok(None);
        };
        let base = Base {
            name: name.clone(),
            start,
            len: size.saturating_sub(start),
        };
        self.open_base(&base, self.io).map(Some)
    }

    /// Opens the file for reading, without room set aside.
    ///
    /// # Errors
    /// If the file on the disk cannot be read.
    pub fn open(&self, id: FileId) -> Result<MappedFile, Error> {
        let content = self.content(id);
        match &content.base {
            Some(base) if content.written.is_empty() => self.open_base(base, self.io),
            Some(_) | None => {
                let bytes = self.opened(id)?.read_all(content.data_len())?;
                let path = self.last_names.get(id.0).map(|name| self.dir.join(name));
                Ok(MappedFile::from_bytes(&path.unwrap_or_default(), bytes))
            }
        }
    }
}
