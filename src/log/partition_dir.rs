//! A partition directory: its files by name, and the segments they make up.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::held_files::HeldFiles;
use super::log_dir::stopped_cleanly;
use super::mapped_file::MappedFile;
use super::odd_entry::OddEntry;
use super::overlay::Overlay;
use super::partition_files::{list, order, segments};
use super::settling::Settling;
use super::{Error, Io};
use crate::format::file_name::{
    FileState, LogFileKind, LogFileName, PartitionDirName, PartitionDirStatus,
};
use crate::format::partition_metadata::PartitionMetadata;

/// A directory of one partition, as it was when it was listed.
#[derive(Clone, Debug)]
pub struct PartitionDir {
    /// The directory.
    pub path: PathBuf,
    /// What its name says; `None` if that is no partition's name.
    pub name: Option<PartitionDirName>,
    /// All files, in the order in which a dump shows them: segment by segment, then snapshots,
    /// then the rest, and files that are not in use last. Directories are left out: Kafka keeps
    /// none here.
    pub files: Vec<FileEntry>,
    /// Entries with a file's name that are none: they are not among the files.
    pub odd: Vec<OddEntry>,
    /// The segments in use, by base offset.
    pub segments: Vec<SegmentFiles>,
    pub(super) held: HeldFiles,
    /// Whether these are all the files of the directory, not those of one segment alone.
    pub is_whole: bool,
    /// The directory as it would be, if these are not the files on the disk.
    pub(super) overlay: Option<Arc<Overlay>>,
    /// The directory on the disk that it would be made of at once, by new names alone.
    placed_from: Option<Arc<PartitionDir>>,
    /// When the last file came, went or got another name, before it was listed.
    modified: Option<SystemTime>,
}

/// One file of a directory.
#[derive(Clone, Debug)]
pub struct FileEntry {
    /// Its name as the file system has it.
    pub file_name: OsString,
    /// What the name says.
    pub parsed: LogFileName,
    /// Bytes of the file when the directory was listed.
    pub size_in_bytes: u64,
}

/// The files in use of one base offset, as places in [`PartitionDir::files`]. A missing index is
/// normal at times and damage at others (`LogLoader`, `LazyIndex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFiles {
    /// Base offset, as the names say.
    pub base_offset: i64,
    /// The `.log`.
    pub log: usize,
    /// The `.index`.
    pub offset_index: Option<usize>,
    /// The `.timeindex`.
    pub time_index: Option<usize>,
    /// The `.txnindex`; there only if a transaction was aborted.
    pub txn_index: Option<usize>,
}

impl FileEntry {
    /// Its name, with marks in place of what is not UTF-8.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        self.file_name.to_string_lossy()
    }

    /// Whether it has the name that Kafka opens for what it is by its suffix and number.
    #[must_use]
    pub fn has_kafkas_name(&self) -> bool {
        // All names of segments but those from other hands.
        let name = self.file_name.as_encoded_bytes();
        let number = name.first_chunk::<20>();
        number.is_some_and(|it| it.iter().all(u8::is_ascii_digit)) && name.get(20) == Some(&b'.')
            || self.name() == self.parsed.to_string()
    }
}

impl PartitionDir {
    /// Lists the directory. No file in it is open.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let modified = modified(path);
        let (files, odd) = list(path)?;
        let mut dir = Self::of_files(path, files, None);
        dir.odd = odd;
        dir.modified = modified;
        Ok(dir)
    }

    /// The directory as it would be. Files are opened as they would be, all else is as on the disk.
    #[must_use]
    pub fn of_overlay(overlay: Arc<Overlay>) -> Self {
        let files = overlay.files_without_room();
        let files = files.map(|(name, size_in_bytes)| FileEntry {
            file_name: name.to_owned(),
            parsed: LogFileName::parse(&name.to_string_lossy()),
            size_in_bytes,
        });
        let (path, files) = (overlay.dir().to_owned(), files.collect());
        let held = overlay.held.clone();
        let mut dir = Self::of_files(&path, files, Some(overlay));
        dir.held = held;
        dir
    }

    fn of_files(path: &Path, mut files: Vec<FileEntry>, overlay: Option<Arc<Overlay>>) -> Self {
        files.sort_by(|a, b| {
            order(&a.parsed)
                .cmp(&order(&b.parsed))
                .then_with(|| a.file_name.cmp(&b.file_name))
        });
        let segments = segments(&files, FileEntry::has_kafkas_name);
        Self {
            path: path.to_owned(),
            name: parse_name(path),
            files,
            odd: Vec::new(),
            segments,
            held: HeldFiles::default(),
            is_whole: true,
            overlay,
            placed_from: None,
            modified: None,
        }
    }

    /// A directory in which files get other names or go, and nothing else happens. Whether a broker
    /// is at work is asked of the one it is made from.
    pub(super) fn of_placed(from: &Self, overlay: Overlay) -> Self {
        let mut dir = Self::of_overlay(Arc::new(overlay));
        dir.odd = from.odd.clone();
        dir.placed_from = Some(Arc::new(from.clone()));
        dir
    }

    /// Lists the directory and keeps its files open, so that all of them are of one moment,
    /// whatever a broker does meanwhile. Files beyond some hundreds are not kept open.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn hold(path: &Path) -> Result<Self, Error> {
        HeldFiles::settle(path)
    }

    /// The partition as far as one segment goes: the directory of a `.log` with the files of its
    /// base offset only; `None` if `path` is no `.log` in use.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn of_segment(path: &Path) -> Result<Option<Self>, Error> {
        let name = path.file_name().unwrap_or_default();
        let parsed = LogFileName::parse(&name.to_string_lossy());
        let (LogFileKind::Log(base_offset), FileState::Live) = (parsed.kind, parsed.state) else {
            return Ok(None);
        };
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let mut dir = Self::open(above.unwrap_or(Path::new(".")))?;
        dir.files.retain(|file| match &file.parsed.kind {
            LogFileKind::Log(offset) => *offset == base_offset && file.file_name == name,
            LogFileKind::OffsetIndex(offset)
            | LogFileKind::TimeIndex(offset)
            | LogFileKind::TransactionIndex(offset)
            | LogFileKind::ProducerSnapshot(offset) => *offset == base_offset,
            LogFileKind::LeaderEpochCheckpoint
            | LogFileKind::PartitionMetadata
            | LogFileKind::QuorumState
            | LogFileKind::KRaftSnapshot(_)
            | LogFileKind::KRaftSnapshotPart(..)
            | LogFileKind::RemoteLogSnapshot
            | LogFileKind::NotANumber(_)
            | LogFileKind::Unknown(_) => false,
        });
        dir.odd.clear();
        dir.segments = segments(&dir.files, |_| true);
        dir.held = HeldFiles::of(&dir).0;
        dir.is_whole = false;
        Ok(Some(dir))
    }

    /// The topic, if the directory has a partition's name.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.name.as_ref().map(|name| name.topic.as_str())
    }

    /// The partition's number, if the directory has a partition's name.
    #[must_use]
    pub fn partition(&self) -> Option<i32> {
        self.name.as_ref().map(|name| name.partition)
    }

    /// What the directory is for, if it has a partition's name.
    #[must_use]
    pub fn status(&self) -> Option<&PartitionDirStatus> {
        self.name.as_ref().map(|name| &name.status)
    }

    /// One of [`PartitionDir::files`].
    #[must_use]
    pub fn file(&self, index: usize) -> Option<&FileEntry> {
        self.files.get(index)
    }

    /// Bytes of the `.log` files in use when the directory was listed.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        let logs = self.segments.iter().filter_map(|it| self.file(it.log));
        logs.map(|log| log.size_in_bytes).sum()
    }

    /// The path of a file in this directory.
    #[must_use]
    pub fn file_path(&self, file: &FileEntry) -> PathBuf {
        self.path.join(&file.file_name)
    }

    /// Opens one of the files; `None` if it has vanished.
    ///
    /// # Errors
    /// If it is there and cannot be opened.
    pub fn open_file(&self, entry: &FileEntry, io: Io) -> Result<Option<MappedFile>, Error> {
        if let Some(overlay) = &self.overlay {
            let id = overlay.find(&entry.file_name);
            return id.map(|id| overlay.open(id)).transpose();
        }
        let path = self.file_path(entry);
        let held = self.held.open(&path, &entry.file_name, io);
        match held.unwrap_or_else(|| MappedFile::open(&path, io)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bytes of one of the files when it was opened, or now; `None` if it has vanished.
    ///
    /// # Errors
    /// If it is there and no regular file, or cannot be looked at.
    pub(super) fn regular_len(&self, entry: &FileEntry) -> Result<Option<u64>, Error> {
        if let Some(held) = self.held.get(entry) {
            let now = || held.file.metadata().ok().map(|it| it.len());
            return Ok(held.len.or_else(now));
        }
        let path = self.file_path(entry);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
            Ok(_) => Err(Error::NotAFile { path }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io(&path, source)),
        }
    }

    /// The directory on the disk, of one that it would be made of at once by new names alone.
    #[must_use]
    pub fn listed(&self) -> &Self {
        self.placed_from.as_deref().unwrap_or(self)
    }

    /// Whether these are the files on the disk, and not the directory as it would be.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.overlay.is_none()
    }

    /// Whether the log has gone on since it was listed and read, so that what is read after it may
    /// tell of batches behind its end. `read` is how far the last segment was read, in bytes;
    /// without it, as far as it was when it was listed. Never of a directory as it would be.
    #[must_use]
    pub fn has_gone_on(&self, read: Option<u64>) -> bool {
        if let Some(from) = &self.placed_from {
            return from.has_gone_on(None);
        }
        let Some(last) = self.segments.last().filter(|_| self.is_on_disk()) else {
            return false;
        };
        let Some(log) = self.file(last.log) else {
            return false;
        };
        let held = self.held.get(log).and_then(|held| held.len);
        let read = read.or(held).unwrap_or(log.size_in_bytes);
        let size = fs::metadata(self.file_path(log)).map_or(0, |it| it.len());
        let is_last = Self::open(&self.path).is_ok_and(|now| {
            now.segments.last().map(|it| it.base_offset) == Some(last.base_offset)
        });
        size != read || !is_last
    }

    /// Whether a broker has been at work since the directory was listed: the log has gone on, or a
    /// file came, went or got another name. What files tell against each other may be nothing
    /// then. Never of a directory as it would be.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        if let Some(from) = &self.placed_from {
            return from.has_changed();
        }
        let is_other = self.modified.is_some() && self.modified != modified(&self.path);
        self.is_on_disk() && (is_other || self.has_gone_on(None))
    }

    /// An error if [`PartitionDir::has_changed`].
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        if self.has_changed() {
            let path = self.path.clone();
            return Err(Error::ChangedWhileReading { path });
        }
        Ok(())
    }

    /// Whether segments with these base offsets are in use still, once a broker has got on that may
    /// be at work, which `settling` waits for: one that begins the log anew makes the new segment
    /// before the old ones go (`LocalLog.truncateFullyAndStartAt`), and what lies between them was
    /// never lost.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`] if they are not, or the directory cannot be listed.
    pub fn check_in_use(&self, base_offsets: &[i64], settling: &mut Settling) -> Result<(), Error> {
        while settling.wait() {
            let now = Self::open(&self.path)?;
            let is_in_use = |base: &i64| now.segments.iter().any(|it| it.base_offset == *base);
            if !base_offsets.iter().all(is_in_use) {
                let path = self.path.clone();
                return Err(Error::ChangedWhileReading { path });
            }
        }
        Ok(())
    }

    /// For looks again at what names and files here say against each other: a broker writes to the
    /// last segment and gives names in the directory. One that stopped cleanly does neither, and
    /// nobody works in a directory as it would be.
    #[must_use]
    pub fn settling(&self) -> Settling {
        let dir = self.listed();
        let last = dir.segments.last().and_then(|last| dir.file(last.log));
        let last = last.map(|last| dir.file_path(last));
        dir.settling_at(last.into_iter().chain([dir.path.clone()]))
    }

    /// For looks again at one file. Of a directory as it would be there is nothing to wait for.
    #[must_use]
    pub fn settling_of(&self, entry: &FileEntry) -> Settling {
        let dir = self.listed();
        dir.settling_at([dir.file_path(entry)])
    }

    fn settling_at(&self, paths: impl IntoIterator<Item = PathBuf>) -> Settling {
        if !self.is_on_disk() || stopped_cleanly(&self.path) == Some(true) {
            return Settling::default();
        }
        Settling::of(paths)
    }

    /// An error if a file was truncated since [`PartitionDir::hold`]: what was read of it, and of
    /// the files that go with it, may be of different logs. [`super::partition_walk`] asks at the
    /// end of every walk.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_not_cut(&self) -> Result<(), Error> {
        self.held.check_not_cut()
    }

    /// What was made of the log, unless a file was truncated meanwhile: then even the reason why
    /// it could not be made says nothing.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`], or that of `made`.
    pub fn unless_cut<T, E: From<Error>>(&self, made: Result<T, E>) -> Result<T, E> {
        self.check_not_cut()?;
        made
    }

    /// The topic id in `partition.metadata`; `None` if the file is not there or not readable as
    /// such.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn topic_id(&self, io: Io) -> Result<Option<String>, Error> {
        let is_metadata = |file: &&FileEntry| {
            file.parsed.kind == LogFileKind::PartitionMetadata
                && file.parsed.state == FileState::Live
        };
        let Some(file) = self.files.iter().find(is_metadata) else {
            return Ok(None);
        };
        let Some(file) = self.open_file(file, io)? else {
            return Ok(None);
        };
        let metadata = PartitionMetadata::decode(&file.read_all()?).ok();
        Ok(metadata.map(|metadata| metadata.topic_id.to_string()))
    }
}

/// What the name of the directory says; a relative path such as `.` is resolved for it.
fn parse_name(path: &Path) -> Option<PartitionDirName> {
    let own = path.file_name().map(std::ffi::OsStr::to_owned);
    let name = own.or_else(|| Some(fs::canonicalize(path).ok()?.file_name()?.to_owned()))?;
    PartitionDirName::parse(name.to_str()?)
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|it| it.modified()).ok()
}
