//! The files of a partition directory, kept open: one view of it while a broker goes on.
//!
//! A broker rolls, deletes and replaces segments between any two looks at a directory. Names
//! listed at one moment and opened at another can belong to different states of the log, and what
//! lies between them then looks lost. So the files are opened together, and the directory is
//! listed again until the names still stand for what is open. After that they can be renamed and
//! removed: open files stay readable.
//!
//! Truncation shows in open files as well. It cuts one `.log` and lets it grow again, so a file
//! that was not the last one must not have been written to, and the last one must still end, at
//! its old length, in the same bytes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::held_indexes::HeldIndexes;
use super::mapped_file::{MappedFile, open_regular};
use super::partition_dir::{FileEntry, PartitionDir, SegmentFiles};
use super::settling::{CLOCK_TICK, RECENT_WRITE};
use super::{Error, Io};
use crate::format::file_name::{FileState, LogFileKind};

/// So many files are kept open at once. Processes may open 1024 by default; what is beyond this
/// is opened by its name when it is needed.
const MAX_HELD: usize = 512;
/// A broker that replaces segments has no `.log` of some offsets for a moment.
const REPLACING: Duration = Duration::from_millis(100);
/// How long a directory may take to come to rest.
const SETTLING: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Bytes that tell whether a file was cut and written again: more than the header of a batch,
/// with its checksum and times.
const TAIL_SIZE: u64 = 128;

/// Open files by name.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldFiles {
    files: Arc<HashMap<OsString, HeldFile>>,
    /// The `.log` files among them, as they were.
    logs: Arc<Vec<HeldLog>>,
    /// The indexes of the last one.
    indexes: Arc<HeldIndexes>,
}

/// An open file.
#[derive(Debug)]
pub(super) struct HeldFile {
    pub(super) file: Arc<File>,
    /// Its bytes when it was opened, of a file that only grows: whoever reads it, now or later,
    /// reads as much as everyone else.
    pub(super) len: Option<u64>,
}

impl HeldFile {
    fn new(file: File, kind: &LogFileKind) -> Self {
        let only_grows = matches!(kind, LogFileKind::Log(_) | LogFileKind::TransactionIndex(_));
        let metadata = only_grows.then(|| file.metadata());
        Self {
            file: Arc::new(file),
            len: metadata.and_then(Result::ok).map(|it| it.len()),
        }
    }
}

/// A `.log` as it was when it was opened.
#[derive(Debug)]
struct HeldLog {
    path: PathBuf,
    file: Arc<File>,
    len: u64,
    modified: Option<SystemTime>,
    /// Whether a broker may go on writing to it.
    is_last: bool,
    /// Its last bytes, if its modification time does not tell of another write: it is the last
    /// one, or was written to a moment ago.
    tail: Option<Vec<u8>>,
}

impl HeldLog {
    fn new(path: PathBuf, held: &HeldFile, is_last: bool) -> Option<Self> {
        let mut held = Self {
            path,
            file: Arc::clone(&held.file),
            len: held.len?,
            modified: held.file.metadata().ok()?.modified().ok(),
            is_last,
            tail: None,
        };
        let age = held.modified.and_then(|it| it.elapsed().ok());
        if is_last || age.is_none_or(|age| age < CLOCK_TICK) {
            held.tail = held.read_tail();
        }
        Some(held)
    }

    fn read_tail(&self) -> Option<Vec<u8>> {
        let size = self.len.min(TAIL_SIZE);
        let mut tail = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut tail, self.len - size).ok()?;
        Some(tail)
    }

    fn was_cut(&self) -> bool {
        let Ok(metadata) = self.file.metadata() else {
            return false;
        };
        let is_shorter = metadata.len() < self.len;
        let has_other_tail = || {
            let tail = self.tail.as_ref();
            tail.is_some_and(|tail| self.read_tail().as_ref() != Some(tail))
        };
        let was_written = !self.is_last
            && (metadata.len() != self.len || metadata.modified().ok() != self.modified);
        is_shorter || was_written || has_other_tail()
    }
}

impl HeldFiles {
    /// The open file of an entry, if it is held.
    pub(super) fn get(&self, entry: &FileEntry) -> Option<&HeldFile> {
        self.files.get(&entry.file_name)
    }

    /// An error if the log was truncated since its files were opened.
    pub(super) fn check_not_cut(&self) -> Result<(), Error> {
        match self.logs.iter().find(|log| log.was_cut()) {
            Some(log) => Err(Error::ChangedWhileReading {
                path: log.path.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Opens a held file; `None` if it is not held.
    pub(super) fn open(
        &self,
        path: &Path,
        name: &OsStr,
        io: Io,
    ) -> Option<Result<MappedFile, Error>> {
        let held = self.files.get(name)?;
        if self.is_moving()
            && let Some(index) = self.indexes.open(path, name)
        {
            return Some(Ok(index));
        }
        let file = held.file.try_clone().ok()?;
        Some(MappedFile::of_file(path, file, held.len, io))
    }

    /// Whether a broker writes to the last log, or did a moment ago.
    fn is_moving(&self) -> bool {
        let last = self.logs.last().filter(|log| log.is_last);
        let metadata = last.and_then(|last| Some((last.file.metadata().ok()?, last.len)));
        metadata.is_some_and(|(metadata, len)| {
            let age = metadata.modified().ok().and_then(|it| it.elapsed().ok());
            metadata.len() != len || age.is_none_or(|age| age < RECENT_WRITE)
        })
    }

    /// Lists a directory and opens its files, until both agree.
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`] if they never do.
    pub(super) fn settle(path: &Path) -> Result<PartitionDir, Error> {
        let started = Instant::now();
        loop {
            let before = modified(path);
            let mut dir = PartitionDir::open(path)?;
            let (held, all_there) = Self::of(&dir);
            let is_settled = all_there
                && !is_replacing(&dir, before)
                && (is_quiet(path, before) || held.is_of(&PartitionDir::open(path)?, &dir));
            if is_settled {
                dir.held = held;
                return Ok(dir);
            }
            if started.elapsed() > SETTLING {
                return Err(Error::ChangedWhileReading {
                    path: path.to_owned(),
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Opens what is in use, segments first; whether everything was there.
    pub(super) fn of(dir: &PartitionDir) -> (Self, bool) {
        let mut entries: Vec<&FileEntry> = dir.files.iter().filter(|it| is_held(it)).collect();
        entries.sort_by_key(|entry| order(&entry.parsed.kind));
        let mut files = HashMap::new();
        let mut all_there = true;
        for entry in entries.into_iter().take(MAX_HELD) {
            match open_regular(&dir.file_path(entry)) {
                Ok(file) => {
                    let held = HeldFile::new(file, &entry.parsed.kind);
                    files.insert(entry.file_name.clone(), held);
                }
                Err(error) if error.is_not_found() => all_there = false,
                Err(error) => {
                    // Others need open files as well.
                    if error.is_too_many_open_files() {
                        files.clear();
                        break;
                    }
                }
            }
        }
        let mut indexes = HeldIndexes::default();
        if let Some(segment) = dir.segments.last() {
            all_there &= hold_last(dir, segment, &mut files, &mut indexes);
        }
        let last = dir.segments.last().map(|segment| segment.log);
        let logs = dir.segments.iter().filter_map(|segment| {
            let entry = dir.file(segment.log)?;
            let is_last = Some(segment.log) == last;
            HeldLog::new(dir.file_path(entry), files.get(&entry.file_name)?, is_last)
        });
        let logs = Arc::new(logs.collect());
        let files = Arc::new(files);
        let indexes = Arc::new(indexes);
        let held = Self {
            files,
            logs,
            indexes,
        };
        (held, all_there)
    }

    /// Whether the names in use are the same as before, and every one of them stands for the file
    /// that is held.
    fn is_of(&self, now: &PartitionDir, before: &PartitionDir) -> bool {
        let names = |dir: &'_ PartitionDir| -> Vec<OsString> {
            let in_use = dir.files.iter().filter(|it| is_held(it));
            in_use.map(|it| it.file_name.clone()).collect()
        };
        let is_same = |entry: &FileEntry| match self.get(entry) {
            None => true,
            Some(held) => match (held.file.metadata(), fs::metadata(now.file_path(entry))) {
                (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
                _ => false,
            },
        };
        names(now) == names(before) && now.files.iter().all(is_same)
    }
}

/// Copies the indexes of the last segment, and takes the lengths of its log and then of its
/// transaction index, in the order opposite to that of writing; whether it was not cut meanwhile.
fn hold_last(
    dir: &PartitionDir,
    segment: &SegmentFiles,
    files: &mut HashMap<OsString, HeldFile>,
    indexes: &mut HeldIndexes,
) -> bool {
    let names = [segment.offset_index, segment.time_index];
    let names = names.into_iter().flatten().filter_map(|it| dir.file(it));
    let names: Vec<&OsStr> = names.map(|it| &*it.file_name).collect();
    for name in &names {
        if let Some(held) = files.get(*name) {
            indexes.copy(name, &held.file);
        }
    }
    let growing = [Some(segment.log), segment.txn_index];
    for entry in growing.into_iter().flatten().filter_map(|it| dir.file(it)) {
        if let Some(held) = files.get_mut(&entry.file_name) {
            held.len = held.file.metadata().ok().map(|it| it.len());
        }
    }
    let is_whole = |name: &&OsStr| {
        let held = files.get(*name);
        held.is_none_or(|held| !indexes.has_shrunk(name, &held.file))
    };
    names.iter().all(is_whole)
}

/// Files that are in use and make up the log.
fn is_held(entry: &FileEntry) -> bool {
    entry.parsed.state == FileState::Live && order(&entry.parsed.kind).is_some()
}

/// What matters most comes first; `None` for what is not held.
fn order(kind: &LogFileKind) -> Option<u8> {
    match kind {
        LogFileKind::Log(_) => Some(0),
        LogFileKind::TransactionIndex(_) => Some(1),
        LogFileKind::ProducerSnapshot(_) => Some(2),
        LogFileKind::OffsetIndex(_) | LogFileKind::TimeIndex(_) => Some(3),
        LogFileKind::LeaderEpochCheckpoint | LogFileKind::PartitionMetadata => Some(4),
        LogFileKind::KRaftSnapshot(_)
        | LogFileKind::KRaftSnapshotPart(..)
        | LogFileKind::QuorumState
        | LogFileKind::RemoteLogSnapshot
        | LogFileKind::NotANumber(_)
        | LogFileKind::Unknown(_) => None,
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Whether no name in the directory has changed since it had been modified at `before`.
fn is_quiet(path: &Path, before: Option<SystemTime>) -> bool {
    let age = before.and_then(|before| before.elapsed().ok());
    before == modified(path) && age.is_some_and(|age| age > CLOCK_TICK)
}

/// Whether new segments are about to take the place of old ones (`LocalLog.replaceSegments`): for
/// a moment they have the suffix `.swap`. A broker that was killed then leaves it for good.
fn is_replacing(dir: &PartitionDir, modified: Option<SystemTime>) -> bool {
    let age = modified.and_then(|modified| modified.elapsed().ok());
    let mut files = dir.files.iter();
    age.is_none_or(|age| age < REPLACING) && files.any(|it| it.parsed.state == FileState::Swap)
}
