//! Where the files of a log are: on the disk, or on the disk and changed in memory alone.
//!
//! Everything that opens, writes, renames or removes a file of a partition goes through here, so a
//! dry run is the same code as the real one.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

#[cfg(target_os = "linux")]
use rustix::fs::FallocateFlags;

use super::error::{Error, LoadError};
use crate::log::Io;
use crate::log::mapped_file::MappedFile;
use crate::log::odd_entry::Odd;
use crate::log::overlay::{FileId, IndexKind, IndexOf, Overlay};

/// The files of one partition directory.
#[derive(Clone, Debug, Default)]
pub(super) enum Files {
    /// Those on the disk, which are changed.
    #[default]
    Disk,
    /// Those on the disk, of which nothing is changed.
    Overlay(Arc<Mutex<Overlay>>),
}

fn locked(overlay: &Mutex<Overlay>) -> MutexGuard<'_, Overlay> {
    overlay.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

impl Files {
    /// A view of a directory that takes changes in and makes none.
    pub(super) fn overlay(overlay: Overlay) -> Self {
        Self::Overlay(Arc::new(Mutex::new(overlay)))
    }

    /// The directory with what has been changed in memory, if it is one.
    pub(super) fn changed(&self) -> Option<Overlay> {
        match self {
            Self::Disk => None,
            Self::Overlay(overlay) => Some(locked(overlay).clone()),
        }
    }

    /// Why the next files are changed, for the record of a dry run.
    pub(super) fn because(&self, reason: &str) {
        if let Self::Overlay(overlay) = self {
            locked(overlay).because(reason);
        }
    }

    /// Names of the regular files in `dir`, sorted.
    pub(super) fn list(&self, dir: &Path) -> Result<Vec<OsString>, Error> {
        self.list_with(dir, "")
    }

    /// The same of those that end in `suffix`.
    pub(super) fn list_with(&self, dir: &Path, suffix: &str) -> Result<Vec<OsString>, Error> {
        let ends = |name: &OsStr| name.as_encoded_bytes().ends_with(suffix.as_bytes());
        match self {
            Self::Disk => {
                let io = |source| Error::io(dir, source);
                let mut names = Vec::new();
                for entry in fs::read_dir(dir).map_err(io)? {
                    let entry = entry.map_err(io)?;
                    if !ends(&entry.file_name()) {
                        continue;
                    }
                    // Follows links, as a broker does.
                    if fs::metadata(entry.path()).is_ok_and(|it| it.is_file()) {
                        names.push(entry.file_name());
                    }
                }
                names.sort();
                Ok(names)
            }
            Self::Overlay(overlay) => {
                let overlay = locked(overlay);
                let names = overlay.names().filter(|name| ends(name));
                Ok(names.map(OsStr::to_owned).collect())
            }
        }
    }

    pub(super) fn create_dir_all(&self, dir: &Path) -> Result<(), Error> {
        match self {
            Self::Disk => fs::create_dir_all(dir).map_err(|source| Error::io(dir, source)),
            Self::Overlay(_) => Ok(()),
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        match self {
            Self::Disk => path.exists(),
            Self::Overlay(overlay) => {
                let overlay = locked(overlay);
                let name = name(path);
                // A link to nothing does not (`File.exists`).
                overlay.find(name).is_some() || overlay.taken_by(name).is_some_and(Odd::exists)
            }
        }
    }

    /// Opens a file for reading and writing; it is made if it is not there.
    pub(super) fn open(&self, path: &Path) -> Result<OpenFile, Error> {
        let handle = match self {
            Self::Disk => OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map(Handle::Disk)
                .map_err(|source| Error::io(path, source))?,
            Self::Overlay(overlay) => {
                let mut files = locked(overlay);
                let found = files.find(name(path));
                if let Some(what) = files.taken_by(name(path)).filter(|_| found.is_none()) {
                    return Err(not_a_file(path, what));
                }
                let id = found.unwrap_or_else(|| files.create(name(path)));
                Handle::Overlay(Arc::clone(overlay), id)
            }
        };
        Ok(OpenFile(handle))
    }

    /// Opens a file for reading, as it is now.
    pub(super) fn view(&self, path: &Path) -> Result<MappedFile, Error> {
        match self {
            Self::Disk => Ok(MappedFile::open(path, Io::Read)?),
            Self::Overlay(overlay) => {
                let overlay = locked(overlay);
                match overlay.find(name(path)) {
                    Some(id) => Ok(overlay.open(id)?),
                    None => Err(match overlay.taken_by(name(path)) {
                        Some(what) => not_a_file(path, what),
                        None => not_there(path),
                    }),
                }
            }
        }
    }

    /// As [`Files::view`]; `None` if it is not there.
    pub(super) fn view_if_there(&self, path: &Path) -> Result<Option<MappedFile>, Error> {
        match self {
            Self::Disk => match MappedFile::open(path, Io::Read) {
                Ok(file) => Ok(Some(file)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::Overlay(_) if !self.exists(path) => Ok(None),
            Self::Overlay(_) => self.view(path).map(Some),
        }
    }

    /// When a file was last written to.
    pub(super) fn modified(&self, path: &Path) -> Result<SystemTime, Error> {
        match self {
            Self::Disk => fs::metadata(path)
                .and_then(|metadata| metadata.modified())
                .map_err(|source| Error::io(path, source)),
            // Only retention asks, and no dry run gets as far as that.
            Self::Overlay(_) => Ok(UNIX_EPOCH),
        }
    }

    /// Renames a file, over one that may be there; whether there was one to rename.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<bool, Error> {
        match self {
            Self::Disk => match fs::rename(from, to) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(Error::io(from, error)),
            },
            Self::Overlay(overlay) => Ok(locked(overlay).rename(name(from), name(to))),
        }
    }

    /// Removes a file; that it is not there is no error.
    pub(super) fn remove_if_exists(&self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Disk => match fs::remove_file(path) {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(Error::io(path, error)),
            },
            Self::Overlay(overlay) => {
                locked(overlay).remove(name(path));
                Ok(())
            }
        }
    }

    /// Makes the file, empty, if it is not there (`CheckpointFile` constructor).
    pub(super) fn create_if_absent(&self, path: &Path) -> Result<(), Error> {
        self.open(path).map(drop)
    }

    /// Writes a file beside `path` and renames it into place (`CheckpointFile.write`,
    /// `PartitionMetadataFile.maybeFlush`).
    pub(super) fn replace(&self, path: &Path, content: &str, fsync: bool) -> Result<(), Error> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let file = self.open(&temporary)?;
        file.set_len(&temporary, 0)?;
        file.write_all_at(&temporary, content.as_bytes(), 0)?;
        if fsync {
            file.sync(&temporary)?;
        }
        self.rename(&temporary, path).map(drop)
    }

    /// Brings the names in `dir` to the disk.
    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), Error> {
        match self {
            Self::Disk => File::open(dir)
                .and_then(|dir| dir.sync_all())
                .map_err(|source| Error::io(dir, source)),
            Self::Overlay(_) => Ok(()),
        }
    }
}

fn not_a_file(path: &Path, what: Odd) -> Error {
    let path = path.to_owned();
    LoadError::NotAFile { path, what }.into()
}

fn not_there(path: &Path) -> Error {
    Error::io(path, io::ErrorKind::NotFound.into())
}

/// An open file, whatever its name is by now. The path given with a call is for its error.
#[derive(Debug)]
pub(super) struct OpenFile(Handle);

/// What recovery makes the indexes of a segment from.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecoveredFrom<'a> {
    /// Its `.log`, cut to the good bytes.
    pub(super) log: &'a OpenFile,
    pub(super) index_interval_bytes: u64,
}

#[derive(Debug)]
enum Handle {
    Disk(File),
    Overlay(Arc<Mutex<Overlay>>, FileId),
}

impl OpenFile {
    pub(super) fn len(&self, path: &Path) -> Result<u64, Error> {
        match &self.0 {
            Handle::Disk(file) => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(error) => Err(Error::io(path, error)),
            },
            Handle::Overlay(overlay, id) => Ok(locked(overlay).len(*id)),
        }
    }

    pub(super) fn set_len(&self, path: &Path, len: u64) -> Result<(), Error> {
        match &self.0 {
            Handle::Disk(file) => file.set_len(len).map_err(|source| Error::io(path, source)),
            Handle::Overlay(overlay, id) => {
                locked(overlay).set_len(*id, len);
                Ok(())
            }
        }
    }

    /// Asks the filesystem for blocks for `size` bytes at `position`, behind the end of the file,
    /// which stays where it is. One that cannot do this, or has no more, is asked when the bytes
    /// come.
    pub(super) fn reserve(&self, position: u64, size: u64) {
        #[cfg(target_os = "linux")]
        if let Handle::Disk(file) = &self.0 {
            let _ = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, position, size);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (&self.0, position, size);
    }

    pub(super) fn write_all_at(
        &self,
        path: &Path,
        bytes: &[u8],
        position: u64,
    ) -> Result<(), Error> {
        match &self.0 {
            Handle::Disk(file) => file
                .write_all_at(bytes, position)
                .map_err(|source| Error::io(path, source)),
            Handle::Overlay(overlay, id) => Ok(locked(overlay).write_at(*id, bytes, position)?),
        }
    }

    pub(super) fn read_exact_at(
        &self,
        path: &Path,
        buffer: &mut [u8],
        position: u64,
    ) -> Result<(), Error> {
        match &self.0 {
            Handle::Disk(file) => file
                .read_exact_at(buffer, position)
                .map_err(|source| Error::io(path, source)),
            Handle::Overlay(overlay, id) => Ok(locked(overlay).read_at(*id, buffer, position)?),
        }
    }

    /// Takes what a dry run has made of the file into memory, if it is not there: for a file that
    /// is read here and there.
    pub(super) fn keep(&self) -> Result<(), Error> {
        match &self.0 {
            Handle::Disk(_) => Ok(()),
            Handle::Overlay(overlay, id) => Ok(locked(overlay).keep(*id)?),
        }
    }

    /// Writes bytes of another file behind the first `len` of this one.
    pub(super) fn append_part(
        &self,
        path: &Path,
        len: u64,
        from: &Self,
        position: u64,
        size: u64,
    ) -> Result<(), Error> {
        if let (Handle::Overlay(overlay, id), Handle::Overlay(_, from)) = (&self.0, &from.0)
            && locked(overlay).append_part(*id, *from, position, size)
        {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        from.read_exact_at(path, &mut bytes, position)?;
        self.write_all_at(path, &bytes, len)
    }

    /// Forgets what a dry run has written where it is what is on the disk already.
    pub(super) fn settle(&self) -> Result<(), Error> {
        match &self.0 {
            Handle::Disk(_) => Ok(()),
            Handle::Overlay(overlay, id) => Ok(locked(overlay).settle(*id)?),
        }
    }

    /// The same of an index that recovery has made, whose bytes need not be kept.
    pub(super) fn settle_index(
        &self,
        kind: IndexKind,
        base_offset: i64,
        from: &RecoveredFrom<'_>,
    ) -> Result<(), Error> {
        let (Handle::Overlay(overlay, id), Handle::Overlay(_, log)) = (&self.0, &from.log.0) else {
            return Ok(());
        };
        let index = IndexOf {
            log: *log,
            kind,
            base_offset,
            index_interval_bytes: from.index_interval_bytes,
        };
        Ok(locked(overlay).settle_index(*id, index)?)
    }

    pub(super) fn sync(&self, path: &Path) -> Result<(), Error> {
        match &self.0 {
            Handle::Disk(file) => file.sync_all().map_err(|source| Error::io(path, source)),
            Handle::Overlay(..) => Ok(()),
        }
    }
}
