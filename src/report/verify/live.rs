//! Indexes in a directory that a broker is writing to: what only changed between two files is not
//! called wrong.

use std::borrow::Cow;
use std::io::ErrorKind;

use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};

/// More than the entries of the largest segment take, with one for each of the smallest batches; a
/// sparse file may claim any size.
const MAX_INDEX_SIZE: usize = 512 * 1024 * 1024;

/// An index as it was when it was opened.
pub(super) struct IndexFile<'d> {
    entry: &'d FileEntry,
    pub(super) bytes: Vec<u8>,
}

impl<'d> IndexFile<'d> {
    /// Copies the index: what a broker adds later is not part of it. `None` if it is not there.
    pub(super) fn open(
        dir: &'d PartitionDir,
        place: Option<usize>,
        io: Io,
    ) -> Result<Option<Self>, Error> {
        let Some(entry) = place.and_then(|place| dir.file(place)) else {
            return Ok(None);
        };
        let bytes = read(dir, entry, io)?;
        Ok(bytes.map(|bytes| Self { entry, bytes }))
    }

    pub(super) fn name(&self) -> Cow<'d, str> {
        self.entry.name()
    }

    /// Whether the file is another one by now.
    pub(super) fn has_changed(&self, dir: &PartitionDir, io: Io) -> Result<bool, Error> {
        let now = read(dir, self.entry, io)?;
        Ok(now.is_none_or(|now| now != self.bytes))
    }
}

fn read(dir: &PartitionDir, entry: &FileEntry, io: Io) -> Result<Option<Vec<u8>>, Error> {
    let Some(file) = dir.open_file(entry, io)? else {
        return Ok(None);
    };
    let size = usize::try_from(file.len()).map_or(MAX_INDEX_SIZE, |size| size.min(MAX_INDEX_SIZE));
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| Error::io(file.path(), ErrorKind::OutOfMemory.into()))?;
    bytes.resize(size, 0);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}
