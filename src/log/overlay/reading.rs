//! The bytes of an overlay's files.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::LazyLock;

use super::content::{Base, Content, Head};
use super::{FileId, Overlay};
use crate::log::mapped_file::MappedFile;
use crate::log::{Error, Io};

impl Overlay {
    pub(super) fn content(&self, id: FileId) -> &Content {
        static NONE: LazyLock<Content> = LazyLock::new(Content::default);
        self.contents.get(id.0).unwrap_or(&NONE)
    }

    /// The bytes of a head.
    pub(super) fn head_bytes<'h>(&self, head: &'h Head) -> Result<Cow<'h, [u8]>, Error> {
        match head {
            Head::Kept(bytes) => Ok(Cow::Borrowed(bytes)),
            Head::Remade(remade, len) => {
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
        buffer.fill(0);
        let content = self.content(id);
        if let Some(base) = &content.base
            && let Some(wanted) = base.len.checked_sub(position)
        {
            let size = buffer
                .len()
                .min(usize::try_from(wanted).unwrap_or(usize::MAX));
            if let Some(part) = buffer.get_mut(..size).filter(|part| !part.is_empty()) {
                let file = self.open_base(base, Io::Read)?;
                file.read_exact_at(part, position)?;
            }
        }
        let start = usize::try_from(position).unwrap_or(usize::MAX);
        let head = self.head_bytes(&content.head)?;
        let written = head.get(start..).unwrap_or_default();
        for (to, from) in buffer.iter_mut().zip(written) {
            *to = *from;
        }
        Ok(())
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
            Some(base) if content.head.is_empty() => self.open_base(base, self.io),
            Some(_) | None => {
                let len = usize::try_from(content.data_len()).unwrap_or(usize::MAX);
                let mut bytes = vec![0; len];
                self.read_at(id, &mut bytes, 0)?;
                let path = self.last_names.get(id.0).map(|name| self.dir.join(name));
                Ok(MappedFile::from_bytes(&path.unwrap_or_default(), bytes))
            }
        }
    }
}
