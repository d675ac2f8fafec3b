//! What a broker at work does to a file that is open here: lets it grow, cuts it short, writes over
//! it in place. What looks wrong is looked at once more by these before it is called so.

use std::borrow::Cow;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use super::{Bytes, MappedFile};
use crate::log::Error;
use crate::log::settling::Settling;

/// Files up to this size are copied to be looked at twice: six times Kafka's default for an index.
const MAX_COPIED: u64 = 64 << 20;
/// How often a file that changes is looked at.
const MAX_LOOKS: u32 = 20;

impl MappedFile {
    /// Whether the file was cut short, or could not be read, since it was opened.
    ///
    /// Bytes seen before this turns true may have been zeros that are not in the file.
    #[must_use]
    #[inline]
    pub fn has_changed(&self) -> bool {
        match &self.bytes {
            Bytes::Map { slot, .. } => slot.faulted.load(Ordering::Relaxed),
            Bytes::File(_) | Bytes::Memory(_) => false,
        }
    }

    /// An error if [`MappedFile::has_changed`].
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        if self.has_changed() {
            Err(self.changed())
        } else {
            Ok(())
        }
    }

    /// Whether a broker is writing to the file: it is longer now than when it was opened, or,
    /// written to a moment ago, becomes so meanwhile.
    ///
    /// A write may rest between two of its pieces, so the size of one instant does not tell.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        if self.is_part {
            return false;
        }
        let opened = self.start.saturating_add(self.len);
        let mut settling = self.settling();
        loop {
            match self.current_len() {
                Some(len) if len > opened => return true,
                Some(_) if settling.wait() => {}
                Some(_) | None => return false,
            }
        }
    }

    /// For looks again at what seems wrong in the file.
    #[must_use]
    pub fn settling(&self) -> Settling {
        match &self.bytes {
            Bytes::Map { .. } | Bytes::File(_) => Settling::of([self.path()]),
            Bytes::Memory(_) => Settling::default(),
        }
    }

    /// As [`MappedFile::check_unchanged`], and asks for the file's size.
    ///
    /// A file cut inside its last page raises no signal: the page shows zeros behind the cut.
    /// So what looks wrong, and the end of a walk, is checked by this.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_not_cut(&self) -> Result<(), Error> {
        self.check_unchanged()?;
        match self.current_len() {
            Some(len) if len < self.start.saturating_add(self.len) => Err(self.changed()),
            Some(_) | None => Ok(()),
        }
    }

    /// As [`MappedFile::check_not_cut`], for bytes that look wrong: where the file has been written
    /// to since it was opened, it lets the writer get on and looks at them once more.
    ///
    /// A follower that truncates and writes again has the file as long as before within an
    /// instant; what was seen in between are zeros that are not there any more.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`] if the bytes at `position` are no longer those in `seen`.
    pub fn check_settled(&self, position: u64, seen: &[u8]) -> Result<(), Error> {
        self.check_not_cut()?;
        let modified = self.metadata().and_then(|it| it.modified().ok());
        if modified == self.modified {
            return Ok(());
        }
        let (Bytes::Map { file, .. } | Bytes::File(file)) = &self.bytes else {
            return Ok(());
        };
        let mut now = vec![0; seen.len()];
        let mut settling = self.settling();
        loop {
            match file.read_exact_at(&mut now, self.start.saturating_add(position)) {
                Ok(()) if now == seen => {}
                Ok(()) | Err(_) => return Err(self.changed()),
            }
            if !settling.wait() {
                return Ok(());
            }
        }
    }

    fn current_len(&self) -> Option<u64> {
        Some(self.metadata()?.len())
    }

    fn metadata(&self) -> Option<std::fs::Metadata> {
        let (Bytes::Map { file, .. } | Bytes::File(file)) = &self.bytes else {
            return None;
        };
        file.metadata().ok()
    }

    pub(in crate::log) fn changed(&self) -> Error {
        Error::ChangedWhileReading {
            path: self.path.clone(),
        }
    }

    /// As [`MappedFile::read_all`], as the bytes were at one moment: a broker writes to the indexes
    /// of its active segment in place, and one that is decoded meanwhile seems to have entries
    /// behind its end.
    ///
    /// Files too large for an index, and files that never come to rest, are given as they are.
    ///
    /// # Errors
    /// If the file cannot be read whole.
    pub fn read_settled(&self) -> Result<Cow<'_, [u8]>, Error> {
        if self.len > MAX_COPIED {
            return self.read_all();
        }
        let mut bytes = self.read_all()?.into_owned();
        for _ in 0..MAX_LOOKS {
            let again = self.read_all()?;
            if *again == *bytes {
                break;
            }
            bytes = again.into_owned();
        }
        Ok(Cow::Owned(bytes))
    }
}
