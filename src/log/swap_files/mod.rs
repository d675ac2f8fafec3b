//! `.swap` files: segments that were to take the place of others when a broker was stopped. A start
//! puts them there whatever is in them, and deletes what they replace.
//!
//! Decides `LogLoader.removeTempFilesAndCollectSwapFiles` and the beginning of `LogLoader.load`.

mod lost;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;

pub use self::lost::LostBySwaps;
use super::checkpoints::CheckpointedOffsets;
use super::log_input_stream::{LogInputStream, StreamError};
use super::mapped_file::MappedFile;
use super::overlay::Overlay;
use super::partition_dir::{FileEntry, PartitionDir};
use super::{Error, Io};
use crate::format::file_name::{FileState, LogFileKind};
use crate::format::offset_index::OffsetIndexRows;

/// What a start does with the `.swap` files of a directory.
#[derive(Debug, Default)]
pub struct Swaps {
    /// Smallest offset of a `.cleaned`: each `.swap` from there on is deleted.
    unfinished_from: Option<i64>,
    /// The `.log.swap` files that are put into place, by base offset.
    finished: Vec<Swap>,
    failure: Option<SwapFailure>,
    /// Base offsets of the `.log` files in use that go for them, ascending.
    replaced: Vec<i64>,
    /// The directory as it is then, if any file gets another name.
    placed: Option<PartitionDir>,
    /// By the names files have then: the ones they have now.
    names: BTreeMap<String, String>,
    /// Names of the indexes that are made for a `.log.swap` without one.
    made: Vec<String>,
    lost: LostBySwaps,
}

/// A `.log.swap` that a start puts into place.
#[derive(Clone, Copy, Debug)]
struct Swap {
    base_offset: i64,
    /// Behind its last batch, as the start finds it.
    next_offset: i64,
}

/// A `.log.swap` at which loading ends.
#[derive(Clone, Debug)]
pub struct SwapFailure {
    /// Its name.
    pub file: String,
    /// Where in it.
    pub position: u64,
    /// Simple name of Kafka's exception.
    pub exception: &'static str,
    /// What is wrong there.
    pub message: String,
}

impl Swaps {
    /// Finds out what a start does; there is nothing to do but after a crash, and in a directory
    /// that is not on the disk or not whole nothing is looked for. `checkpoints` tell
    /// what a cleaner may have done; `has_checksums`, whether those of batches are computed to tell
    /// what is lost.
    ///
    /// # Errors
    /// If a file cannot be read, or is no regular one, or a broker was at work on a directory where
    /// something would be lost.
    pub fn of(
        dir: &PartitionDir,
        io: Io,
        checkpoints: CheckpointedOffsets,
        has_checksums: bool,
    ) -> Result<Self, Error> {
        let mut swaps = Self {
            unfinished_from: unfinished_from(dir),
            ..Self::default()
        };
        let is_swap = |file: &&FileEntry| has_suffix(file, FileState::Swap);
        let files = dir.files.iter().filter(is_swap);
        let files: Vec<(i64, &FileEntry)> = files
            .filter_map(|file| Some((number(file)?, file)))
            .filter(|(offset, _)| !swaps.deletes(*offset))
            .collect();
        if files.is_empty() || !dir.is_on_disk() || !dir.is_whole {
            return Ok(swaps);
        }
        let mut logs = Vec::new();
        for (base_offset, file) in &files {
            if !is_log(file) {
                continue;
            }
            let Some(log) = dir.open_file(file, io)? else {
                continue;
            };
            let index = offset_index(dir, *base_offset, io)?;
            let index = index.as_ref().map(MappedFile::read_all).transpose()?;
            match next_offset(&log, index.as_deref().unwrap_or_default(), *base_offset) {
                Ok(next_offset) => swaps.finished.push(Swap {
                    base_offset: *base_offset,
                    next_offset,
                }),
                Err(StreamError::Files(error)) => return Err(error),
                Err(error) => {
                    swaps.failure = Some(SwapFailure::new(file, &error));
                    return Ok(swaps);
                }
            }
            logs.push((*base_offset, log));
        }
        swaps.finished.sort_by_key(|swap| swap.base_offset);
        logs.sort_by_key(|(base_offset, _)| *base_offset);
        swaps.find_replaced(dir);
        swaps.place(dir, &files, io)?;
        swaps.find_lost(dir, &logs, io, checkpoints, has_checksums)?;
        if !swaps.lost.offsets.is_empty() {
            // A broker at work puts them into place itself, one after another.
            dir.check_unchanged()?;
        }
        Ok(swaps)
    }

    /// Whether a start deletes the `.swap` files of this offset.
    #[must_use]
    pub fn deletes(&self, offset: i64) -> bool {
        self.unfinished_from.is_some_and(|from| offset >= from)
    }

    /// Where loading ends, if it comes to no end of them: nothing is put into place then.
    #[must_use]
    pub fn failure(&self) -> Option<&SwapFailure> {
        self.failure.as_ref()
    }

    /// Base offsets of the segments in use that are deleted for them.
    #[must_use]
    pub fn replaced(&self) -> &[i64] {
        &self.replaced
    }

    /// What is in the segments that are replaced and can be read nowhere then.
    #[must_use]
    pub fn lost(&self) -> &LostBySwaps {
        &self.lost
    }

    /// The directory once they are in place; `None` where that changes nothing.
    #[must_use]
    pub fn placed(&self) -> Option<&PartitionDir> {
        self.placed.as_ref()
    }

    /// The name a file of that directory has now.
    #[must_use]
    pub fn name_now<'n>(&'n self, name: &'n str) -> &'n str {
        self.names.get(name).map_or(name, String::as_str)
    }

    /// Whether an index of that directory is not here: it is made, of zeros, so that the end of its
    /// `.log.swap` can be looked up.
    #[must_use]
    pub fn makes_index(&self, name: &str) -> bool {
        self.made.iter().any(|it| it == name)
    }

    /// Offsets of which every other file is deleted first.
    fn range(&self) -> Range<i64> {
        let start = self.finished.iter().map(|swap| swap.base_offset).min();
        let end = self.finished.iter().map(|swap| swap.next_offset).max();
        start.unwrap_or(0)..end.unwrap_or(0)
    }

    /// Those in the range, and those that one gets the name of: it may be empty.
    fn find_replaced(&mut self, dir: &PartitionDir) {
        let range = self.range();
        let has_swap = |base: i64| {
            let found = self
                .finished
                .binary_search_by_key(&base, |it| it.base_offset);
            found.is_ok()
        };
        let bases = dir.segments.iter().map(|it| it.base_offset);
        self.replaced = bases
            .filter(|base| range.contains(base) || has_swap(*base))
            .collect();
    }

    /// Makes the directory as it is then.
    fn place(
        &mut self,
        dir: &PartitionDir,
        files: &[(i64, &FileEntry)],
        io: Io,
    ) -> Result<(), Error> {
        let mut overlay = Overlay::new(dir, io)?;
        // The end of each is looked up in its index, which is made for that if it is not there.
        let bases: Vec<i64> = self.finished.iter().map(|it| it.base_offset).collect();
        for base_offset in bases {
            let live = LogFileKind::OffsetIndex(base_offset).to_string();
            let index = OsString::from(format!("{live}{}", FileState::Swap.suffix()));
            if overlay.find(&index).is_none() {
                overlay.create(&index);
                overlay.rename(&index, OsStr::new(&live));
                self.made.push(live);
            }
        }
        let range = self.range();
        for file in &dir.files {
            let is_in_range = number(file).is_some_and(|offset| range.contains(&offset));
            if is_in_range && !has_suffix(file, FileState::Swap) {
                overlay.remove(&file.file_name);
            }
        }
        for (_, file) in files {
            self.place_one(&mut overlay, &file.file_name);
        }
        self.placed = Some(PartitionDir::of_placed(dir, overlay));
        Ok(())
    }

    fn place_one(&mut self, overlay: &mut Overlay, name: &OsStr) {
        let now = name.to_string_lossy();
        if let Some(then) = now.strip_suffix(FileState::Swap.suffix()) {
            overlay.rename(name, OsStr::new(then));
            self.names.insert(then.to_owned(), now.clone().into_owned());
        }
    }
}

impl SwapFailure {
    fn new(file: &FileEntry, error: &StreamError) -> Self {
        let (position, exception) = match error {
            StreamError::Corrupt { position, .. } => (*position, "CorruptRecordException"),
            StreamError::HeaderPastEnd { position } => (*position, "KafkaException"),
            StreamError::Files(_) => (0, "KafkaStorageException"),
        };
        Self {
            file: file.name().into_owned(),
            position,
            exception,
            message: error.to_string(),
        }
    }
}

/// Whether a `.swap` is a segment's `.log`.
fn is_log(file: &FileEntry) -> bool {
    matches!(file.parsed.kind, LogFileKind::Log(_))
}

/// The `.index` that belongs to a `.log.swap`.
fn offset_index(dir: &PartitionDir, base_offset: i64, io: Io) -> Result<Option<MappedFile>, Error> {
    let is_index = |file: &&FileEntry| {
        file.parsed.kind == LogFileKind::OffsetIndex(base_offset)
            && file.parsed.state == FileState::Swap
    };
    match dir.files.iter().find(is_index) {
        Some(file) => dir.open_file(file, io),
        None => Ok(None),
    }
}

/// The offset behind the last batch, looked for from the last index entry on, by sizes alone
/// (`LogSegment.readNextOffset`).
fn next_offset(log: &MappedFile, index: &[u8], base_offset: i64) -> Result<i64, StreamError> {
    let last = OffsetIndexRows::decode(index).rows().last();
    let position = last.map_or(0, |row| u64::try_from(row.position()).unwrap_or(0));
    let indexed = last.map_or(base_offset, |row| row.offset(base_offset));
    let mut stream = LogInputStream::new(log, position, u64::MAX);
    let (mut next_offset, mut is_there) = (base_offset, false);
    while let Some(batch) = stream.next_batch()? {
        next_offset = batch.last_offset().wrapping_add(1);
        is_there |= batch.last_offset() >= indexed;
    }
    Ok(if is_there { next_offset } else { base_offset })
}

/// The smallest offset of a `.cleaned`: the compaction, or the split, that made the `.swap` files
/// from there on had not come to its end.
#[must_use]
pub fn unfinished_from(dir: &PartitionDir) -> Option<i64> {
    let is_cleaned = |file: &&FileEntry| has_suffix(file, FileState::Cleaned);
    let cleaned = dir.files.iter().filter(is_cleaned);
    cleaned.filter_map(number).min()
}

/// Whether a name has the suffix of a state, whatever is before it: loading asks no more.
#[must_use]
pub fn has_suffix(file: &FileEntry, state: FileState) -> bool {
    file.name().ends_with(state.suffix())
}

/// The number before the first dot (`LogFileUtils.offsetFromFileName`).
#[must_use]
pub fn number(file: &FileEntry) -> Option<i64> {
    file.name().split_once('.')?.0.parse().ok()
}
