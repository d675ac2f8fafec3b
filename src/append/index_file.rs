//! What the two sparse indexes have in common as files that are being written: room ahead of the
//! entries, and the search.
//!
//! Kafka maps such a file at its full length. Here the entries that a file has when it is opened
//! are read where they lie, one by one as they are asked for: a file may be of any length, its
//! entries zeros. Those that come behind them are kept in memory and written some hundred at a
//! time, and all before anything else happens to the file, which leaves the same bytes: cutting an
//! index back leaves what lay behind in the file until it is overwritten. Entries that a killed
//! process had not written are made again by recovery.
//! Decides `AbstractIndex`.

use std::path::{Path, PathBuf};

use super::error::{Error, LoadError, Rejection};
use super::files::{Files, OpenFile, RecoveredFrom};
use crate::log::overlay::IndexKind;

/// Entries that are written to the disk at once.
const WRITTEN_AT_ONCE: usize = 512;

/// Which entries of a file that is there count as it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// All of them.
    AsItIs,
    /// None: they are to be made anew. Their bytes stay until others are written over them, or the
    /// file is cut.
    ToBeRemade,
}

/// An open index file whose entries have `SIZE` bytes.
#[derive(Debug)]
pub(super) struct IndexFile<const SIZE: usize> {
    path: PathBuf,
    file: OpenFile,
    /// The largest size it may have, not rounded.
    max_index_size: i32,
    length: usize,
    /// How many of the entries that the file had when it was opened count.
    opened: usize,
    /// The entries behind these.
    added: Vec<[u8; SIZE]>,
    /// How many of those are in the file.
    written: usize,
    /// How many may be missing there.
    may_be_pending: usize,
}

impl<const SIZE: usize> IndexFile<SIZE> {
    /// Opens the file, or makes it at its full length. Of a file that is there every whole entry
    /// counts, zeros too.
    pub(super) fn open(
        files: &Files,
        path: &Path,
        max_index_size: i32,
        opened: Opened,
    ) -> Result<Self, Error> {
        let is_new = !files.exists(path);
        let file = files.open(path)?;
        let size_in_bytes = file.len(path)?;
        let mut length = i32::try_from(size_in_bytes)
            .ok()
            .and_then(|length| usize::try_from(length).ok())
            .ok_or_else(|| LoadError::IndexNotMapped {
                path: path.to_owned(),
                size: size_in_bytes,
            })?;
        let mut in_file = 0;
        if is_new {
            let room = usize::try_from(max_index_size).unwrap_or(0);
            if room < SIZE {
                return Err(Rejection::IndexSize(max_index_size).into());
            }
            length = room / SIZE * SIZE;
            file.set_len(path, length as u64)?;
        } else if opened == Opened::AsItIs {
            file.keep()?;
            in_file = length / SIZE;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            max_index_size,
            length,
            opened: in_file,
            added: Vec::new(),
            written: 0,
            // What a dry run has in memory is looked at without asking the index.
            may_be_pending: match files {
                Files::Disk => WRITTEN_AT_ONCE,
                Files::Overlay(_) => 0,
            },
        })
    }

    pub(super) fn rename(&mut self, path: &Path) {
        path.clone_into(&mut self.path);
    }

    pub(super) fn entries(&self) -> usize {
        self.opened + self.added.len()
    }

    pub(super) fn max_entries(&self) -> usize {
        self.length / SIZE
    }

    /// The entry in a slot; `None` behind the last one.
    pub(super) fn entry(&self, slot: usize) -> Result<Option<[u8; SIZE]>, Error> {
        if let Some(behind) = slot.checked_sub(self.opened) {
            return Ok(self.added.get(behind).copied());
        }
        let mut entry = [0; SIZE];
        let position = (slot * SIZE) as u64;
        self.file.read_exact_at(&self.path, &mut entry, position)?;
        Ok(Some(entry))
    }

    pub(super) fn last(&self) -> Result<Option<[u8; SIZE]>, Error> {
        match self.entries().checked_sub(1) {
            Some(last) => self.entry(last),
            None => Ok(None),
        }
    }

    /// Adds an entry behind the others.
    pub(super) fn push(&mut self, entry: [u8; SIZE]) -> Result<(), Error> {
        self.added.push(entry);
        if self.added.len() - self.written > self.may_be_pending {
            self.write_pending()?;
        }
        Ok(())
    }

    /// Writes the entries that are not in the file yet.
    pub(super) fn write_pending(&mut self) -> Result<(), Error> {
        let pending = self.added.get(self.written..).unwrap_or_default();
        if !pending.is_empty() {
            let position = ((self.opened + self.written) * SIZE) as u64;
            self.file
                .write_all_at(&self.path, pending.as_flattened(), position)?;
            self.written = self.added.len();
        }
        Ok(())
    }

    /// Forgets the entries from `count` on; the file keeps its length and its bytes.
    pub(super) fn truncate_to_entries(&mut self, count: usize) -> Result<(), Error> {
        self.write_pending()?;
        self.added.truncate(count.saturating_sub(self.opened));
        self.opened = self.opened.min(count);
        self.written = self.added.len();
        Ok(())
    }

    /// Gives the file as much room as an active segment has.
    pub(super) fn resize_to_max(&mut self) -> Result<(), Error> {
        let room = usize::try_from(self.max_index_size).unwrap_or(0);
        self.resize(room)
    }

    /// Cuts the file to its entries (`AbstractIndex.trimToValidSize`).
    pub(super) fn trim_to_valid_size(&mut self) -> Result<(), Error> {
        self.resize(self.entries() * SIZE)
    }

    fn resize(&mut self, size: usize) -> Result<(), Error> {
        self.write_pending()?;
        let rounded = size / SIZE * SIZE;
        if rounded != self.length {
            self.file.set_len(&self.path, rounded as u64)?;
            self.length = rounded;
            // The file has been cut when Kafka finds that its place is no longer in it.
            let used = self.entries() * SIZE;
            if used > rounded {
                return Err(LoadError::IndexTooLarge {
                    path: self.path.clone(),
                    entries: used as u64,
                    max: rounded as u64,
                }
                .into());
            }
        }
        Ok(())
    }

    /// Empties it and gives it full room (`AbstractIndex.reset`).
    pub(super) fn reset(&mut self) -> Result<(), Error> {
        self.truncate_to_entries(0)?;
        self.resize_to_max()
    }

    /// See [`OpenFile::settle_index`].
    pub(super) fn settle(
        &mut self,
        kind: IndexKind,
        base_offset: i64,
        from: &RecoveredFrom<'_>,
    ) -> Result<(), Error> {
        self.write_pending()?;
        self.file.settle_index(kind, base_offset, from)
    }

    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.write_pending()?;
        self.file.sync(&self.path)
    }

    /// The last slot whose `column` is at or below `target`
    /// (`AbstractIndex.largestLowerBoundSlotFor`).
    ///
    /// An index that was not trimmed has zeros behind its entries, so the order of the looks
    /// matters: first the newest 8 KiB, then the rest.
    pub(super) fn largest_lower_bound_slot(
        &self,
        target: i64,
        column: impl Fn(&[u8; SIZE]) -> i64,
    ) -> Result<Option<usize>, Error> {
        const WARM_BYTES: usize = 8192;
        let value = |slot: usize| Ok::<_, Error>(self.entry(slot)?.as_ref().map_or(0, &column));
        let Some(last) = self.entries().checked_sub(1) else {
            return Ok(None);
        };
        let first_hot = last.saturating_sub(WARM_BYTES / SIZE);
        let (mut low, mut high) = (first_hot, last);
        if value(first_hot)? >= target {
            if value(0)? > target {
                return Ok(None);
            }
            (low, high) = (0, first_hot);
        }
        while low < high {
            let middle = (low + high).div_ceil(2);
            match value(middle)?.cmp(&target) {
                std::cmp::Ordering::Greater => high = middle - 1,
                std::cmp::Ordering::Less => low = middle,
                std::cmp::Ordering::Equal => return Ok(Some(middle)),
            }
        }
        Ok(Some(low))
    }
}

impl<const SIZE: usize> Drop for IndexFile<SIZE> {
    /// A log that is dropped without having been closed leaves what a killed broker leaves; an
    /// entry that cannot be written is one that recovery makes again.
    fn drop(&mut self) {
        let _ = self.write_pending();
    }
}
