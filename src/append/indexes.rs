//! The two sparse indexes of a segment, open for writing.
//!
//! Decides `OffsetIndex`, `TimeIndex`, `LazyIndex`.

use std::path::{Path, PathBuf};

use super::error::{Error, Rejection};
use super::files::{Files, RecoveredFrom};
use super::index_file::{IndexFile, Opened};
use crate::format::NO_TIMESTAMP;
use crate::format::offset_index::{self, OffsetIndexEntry, OffsetIndexFields};
use crate::format::time_index::{self, TimeIndexEntry, TimeIndexFields};
use crate::log::overlay::IndexKind;
use crate::log::segment_indexer::TimestampOffset;

/// An offset and where its batch lies (`OffsetPosition`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetPosition {
    pub(super) offset: i64,
    pub(super) position: u64,
}

/// The difference of two offsets if it fits the index.
pub(super) fn relative_offset(offset: i64, base_offset: i64) -> Result<i32, Rejection> {
    i32::try_from(offset.wrapping_sub(base_offset))
        .ok()
        .filter(|relative| *relative >= 0)
        .ok_or(Rejection::SegmentOverflow {
            offset,
            base_offset,
        })
}

/// `.index`.
#[derive(Debug)]
pub(super) struct OffsetIndex {
    base_offset: i64,
    file: IndexFile<{ offset_index::ENTRY_SIZE }>,
    last_offset: i64,
}

fn offset_of(entry: &[u8; offset_index::ENTRY_SIZE], base_offset: i64) -> OffsetPosition {
    let entry: &OffsetIndexEntry = zerocopy::transmute_ref!(entry);
    OffsetPosition {
        offset: entry.offset(base_offset),
        position: u64::try_from(entry.position()).unwrap_or(0),
    }
}

impl OffsetIndex {
    fn open(
        files: &Files,
        path: &Path,
        base_offset: i64,
        max_index_size: i32,
        opened: Opened,
    ) -> Result<Self, Error> {
        let mut index = Self {
            base_offset,
            file: IndexFile::open(files, path, max_index_size, opened)?,
            last_offset: base_offset,
        };
        index.read_last_offset()?;
        Ok(index)
    }

    fn read_last_offset(&mut self) -> Result<(), Error> {
        let last = self.file.last()?;
        self.last_offset =
            last.map_or(self.base_offset, |e| offset_of(&e, self.base_offset).offset);
        Ok(())
    }

    pub(super) fn entries(&self) -> usize {
        self.file.entries()
    }

    pub(super) fn is_full(&self) -> bool {
        self.file.entries() >= self.file.max_entries()
    }

    pub(super) fn last_offset(&self) -> i64 {
        self.last_offset
    }

    pub(super) fn entry(&self, slot: usize) -> Result<Option<OffsetPosition>, Error> {
        let entry = self.file.entry(slot)?;
        Ok(entry.map(|e| offset_of(&e, self.base_offset)))
    }

    /// The last entry at or below `target`, else the beginning (`OffsetIndex.lookup`).
    pub(super) fn lookup(&self, target: i64) -> Result<OffsetPosition, Error> {
        let found = match self.slot(target)? {
            Some(slot) => self.entry(slot)?,
            None => None,
        };
        Ok(found.unwrap_or(OffsetPosition {
            offset: self.base_offset,
            position: 0,
        }))
    }

    fn slot(&self, target: i64) -> Result<Option<usize>, Error> {
        let base_offset = self.base_offset;
        self.file
            .largest_lower_bound_slot(target, |e| offset_of(e, base_offset).offset)
    }

    pub(super) fn append(&mut self, offset: i64, position: u64) -> Result<(), Error> {
        if self.is_full() {
            return Err(Rejection::IndexFull(self.entries()).into());
        }
        if self.entries() != 0 && offset <= self.last_offset {
            let last_offset = self.last_offset;
            return Err(Rejection::IndexOffset {
                offset,
                last_offset,
            }
            .into());
        }
        let fields = OffsetIndexFields {
            relative_offset: relative_offset(offset, self.base_offset)?,
            position: i32::try_from(position).unwrap_or(i32::MAX),
        };
        self.file.push(OffsetIndexEntry::from(fields).as_array())?;
        self.last_offset = offset;
        Ok(())
    }

    pub(super) fn truncate_to(&mut self, offset: i64) -> Result<(), Error> {
        let kept = match self.slot(offset)? {
            None => 0,
            Some(slot) if self.entry(slot)?.is_some_and(|e| e.offset == offset) => slot,
            Some(slot) => slot + 1,
        };
        self.file.truncate_to_entries(kept)?;
        self.read_last_offset()
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.file.reset()?;
        self.read_last_offset()
    }

    /// Gives it the room of an active segment's index.
    pub(super) fn grow(&mut self) -> Result<(), Error> {
        self.file.resize_to_max()
    }
}

/// `.timeindex`.
#[derive(Debug)]
pub(super) struct TimeIndex {
    base_offset: i64,
    file: IndexFile<{ time_index::ENTRY_SIZE }>,
    last_entry: TimestampOffset,
}

fn time_of(entry: &[u8; time_index::ENTRY_SIZE], base_offset: i64) -> TimestampOffset {
    let entry: &TimeIndexEntry = zerocopy::transmute_ref!(entry);
    TimestampOffset {
        timestamp: entry.timestamp(),
        offset: entry.offset(base_offset),
    }
}

impl TimeIndex {
    fn open(
        files: &Files,
        path: &Path,
        base_offset: i64,
        max_index_size: i32,
        opened: Opened,
    ) -> Result<Self, Error> {
        let mut index = Self {
            base_offset,
            file: IndexFile::open(files, path, max_index_size, opened)?,
            last_entry: TimestampOffset {
                timestamp: NO_TIMESTAMP,
                offset: base_offset,
            },
        };
        index.read_last_entry()?;
        Ok(index)
    }

    fn read_last_entry(&mut self) -> Result<(), Error> {
        let none = TimestampOffset {
            timestamp: NO_TIMESTAMP,
            offset: self.base_offset,
        };
        let last = self.file.last()?;
        self.last_entry = last.map_or(none, |e| time_of(&e, self.base_offset));
        Ok(())
    }

    pub(super) fn entries(&self) -> usize {
        self.file.entries()
    }

    /// One slot is kept for the entry at closing.
    pub(super) fn is_full(&self) -> bool {
        self.file.entries() + 1 >= self.file.max_entries()
    }

    pub(super) fn last_entry(&self) -> TimestampOffset {
        self.last_entry
    }

    pub(super) fn entry(&self, slot: usize) -> Result<Option<TimestampOffset>, Error> {
        let entry = self.file.entry(slot)?;
        Ok(entry.map(|e| time_of(&e, self.base_offset)))
    }

    /// `TimeIndex.maybeAppend`.
    pub(super) fn maybe_append(
        &mut self,
        last: TimestampOffset,
        skip_full_check: bool,
    ) -> Result<(), Error> {
        let TimestampOffset { timestamp, offset } = last;
        if !skip_full_check && self.is_full() {
            return Err(Rejection::IndexFull(self.entries()).into());
        }
        let known = self.last_entry;
        if self.entries() != 0 && offset < known.offset {
            let last_offset = known.offset;
            return Err(Rejection::IndexOffset {
                offset,
                last_offset,
            }
            .into());
        }
        if self.entries() != 0 && timestamp < known.timestamp {
            let last_timestamp = known.timestamp;
            return Err(Rejection::IndexTimestamp {
                timestamp,
                last_timestamp,
            }
            .into());
        }
        if timestamp > known.timestamp {
            let fields = TimeIndexFields {
                timestamp,
                relative_offset: relative_offset(offset, self.base_offset)?,
            };
            self.file.push(TimeIndexEntry::from(fields).as_array())?;
            self.last_entry = last;
        }
        Ok(())
    }

    pub(super) fn truncate_to(&mut self, offset: i64) -> Result<(), Error> {
        let base_offset = self.base_offset;
        let slot = self
            .file
            .largest_lower_bound_slot(offset, |e| time_of(e, base_offset).offset)?;
        let kept = match slot {
            None => 0,
            Some(slot) if self.entry(slot)?.is_some_and(|e| e.offset == offset) => slot,
            Some(slot) => slot + 1,
        };
        self.file.truncate_to_entries(kept)?;
        self.read_last_entry()
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.file.reset()?;
        self.read_last_entry()
    }

    pub(super) fn resize_to_max(&mut self) -> Result<(), Error> {
        self.file.resize_to_max()?;
        self.read_last_entry()
    }

    /// Cuts it to nothing, as a time index that was missing (`LogSegment.sanityCheck`).
    pub(super) fn resize_to_zero(&mut self) -> Result<(), Error> {
        self.file.truncate_to_entries(0)?;
        self.file.trim_to_valid_size()?;
        self.read_last_entry()
    }
}

/// What [`LazyIndex`] needs of an index.
pub(super) trait Index: Sized {
    fn open(
        files: &Files,
        path: &Path,
        base_offset: i64,
        max_index_size: i32,
        opened: Opened,
    ) -> Result<Self, Error>;
    fn rename(&mut self, path: &Path);
    fn reset(&mut self) -> Result<(), Error>;
    fn trim(&mut self) -> Result<(), Error>;
    fn settle(&mut self, from: &RecoveredFrom<'_>) -> Result<(), Error>;
    fn write_pending(&mut self) -> Result<(), Error>;
}

macro_rules! index {
    ($index:ty, $kind:expr) => {
        impl Index for $index {
            fn open(
                files: &Files,
                path: &Path,
                base_offset: i64,
                max_index_size: i32,
                opened: Opened,
            ) -> Result<Self, Error> {
                Self::open(files, path, base_offset, max_index_size, opened)
            }
            fn rename(&mut self, path: &Path) {
                self.file.rename(path);
            }
            fn reset(&mut self) -> Result<(), Error> {
                self.reset()
            }
            fn trim(&mut self) -> Result<(), Error> {
                self.trim()
            }
            fn settle(&mut self, from: &RecoveredFrom<'_>) -> Result<(), Error> {
                self.file.settle($kind, self.base_offset, from)
            }
            fn write_pending(&mut self) -> Result<(), Error> {
                self.file.write_pending()
            }
        }

        impl $index {
            /// Cuts the file to its entries.
            pub(super) fn trim(&mut self) -> Result<(), Error> {
                self.file.trim_to_valid_size()
            }

            /// Brings it to the disk.
            pub(super) fn flush(&mut self) -> Result<(), Error> {
                self.file.sync()
            }
        }
    };
}
index!(OffsetIndex, IndexKind::Offset);
index!(TimeIndex, IndexKind::Time);

/// An index that is opened, and if need be made, at its first use.
#[derive(Debug)]
pub(super) struct LazyIndex<I> {
    files: Files,
    path: PathBuf,
    base_offset: i64,
    max_index_size: i32,
    index: Option<I>,
    /// Whether recovery has made it, and nobody has used it since.
    is_put_away: bool,
}

impl<I: Index> LazyIndex<I> {
    pub(super) fn new(files: &Files, path: PathBuf, base_offset: i64, max_index_size: i32) -> Self {
        Self {
            files: files.clone(),
            path,
            base_offset,
            max_index_size,
            index: None,
            is_put_away: false,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn get(&mut self) -> Result<&mut I, Error> {
        self.opened(Opened::AsItIs)
    }

    fn opened(&mut self, opened: Opened) -> Result<&mut I, Error> {
        if self.index.is_none() {
            let index = I::open(
                &self.files,
                &self.path,
                self.base_offset,
                self.max_index_size,
                opened,
            )?;
            self.is_put_away = false;
            return Ok(self.index.insert(index));
        }
        // The check above has been made; this arm opens nothing.
        match &mut self.index {
            Some(index) => Ok(index),
            None => Err(Rejection::Inconsistent(self.base_offset).into()),
        }
    }

    /// Renames the file, if there is one.
    pub(super) fn rename(&mut self, path: PathBuf) -> Result<(), Error> {
        self.files.rename(&self.path, &path)?;
        if let Some(index) = &mut self.index {
            index.rename(&path);
        }
        self.path = path;
        Ok(())
    }

    /// Empties it and gives it full room. What is in it is not read for that.
    pub(super) fn reset(&mut self) -> Result<(), Error> {
        self.opened(Opened::ToBeRemade)?.reset()
    }

    /// Whether recovery has made and trimmed it, and nobody has used it since.
    pub(super) fn is_put_away(&self) -> bool {
        self.is_put_away
    }

    /// Puts the index away until it is used again. For one that recovery has made and trimmed.
    pub(super) fn release(&mut self, from: &RecoveredFrom<'_>) -> Result<(), Error> {
        match self.index.take() {
            Some(mut index) => {
                self.is_put_away = true;
                index.settle(from)
            }
            None => Ok(()),
        }
    }

    /// Writes the entries that are not in the file yet.
    pub(super) fn write_pending(&mut self) -> Result<(), Error> {
        match &mut self.index {
            Some(index) => index.write_pending(),
            None => Ok(()),
        }
    }

    /// Cuts the file to its entries if it was ever opened. It stays open for looks at it.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        match &mut self.index {
            Some(index) => index.trim(),
            None => Ok(()),
        }
    }
}
