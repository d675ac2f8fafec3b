//! Indexes in a directory that a broker is writing to: what only changed between two files is not
//! called wrong.

use std::borrow::Cow;
use std::io::ErrorKind;

use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};

/// More than the entries of the largest segment take, with one for each of the smallest batches; a
/// sparse file may claim any size.
const MAX_INDEX_SIZE: usize = 512 * 1024 * 1024;
/// Six times Kafka's default for an index. Beyond it nothing is copied that can be mapped.
const MAX_COPIED: u64 = 64 * 1024 * 1024;

/// The bytes of an index.
enum Bytes {
    Copied(Vec<u8>),
    /// As they are by now.
    Mapped(MappedFile),
}

/// An index as it was when it was opened.
pub(super) struct IndexFile<'d> {
    entry: &'d FileEntry,
    bytes: Bytes,
}

impl<'d> IndexFile<'d> {
    /// Copies the index: what a broker adds later is not part of it, unless it is larger than any
    /// that a broker writes. `None` if it is not there.
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

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get()
    }

    /// Whether the file is another one by now.
    pub(super) fn has_changed(&self, dir: &PartitionDir, io: Io) -> Result<bool, Error> {
        if let Bytes::Mapped(file) = &self.bytes
            && file.check_not_cut().is_err()
        {
            return Ok(true);
        }
        let now = read(dir, self.entry, io)?;
        Ok(now.is_none_or(|now| now.get() != self.bytes()))
    }
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Mapped(file) => file.mapped().unwrap_or_default(),
        }
    }
}

fn read(dir: &PartitionDir, entry: &FileEntry, io: Io) -> Result<Option<Bytes>, Error> {
    let Some(file) = dir.open_file(entry, io)? else {
        return Ok(None);
    };
    if file.len() > MAX_COPIED && file.mapped().is_some() {
        return Ok(Some(Bytes::Mapped(file)));
    }
    let size = usize::try_from(file.len()).map_or(MAX_INDEX_SIZE, |size| size.min(MAX_INDEX_SIZE));
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| Error::io(file.path(), ErrorKind::OutOfMemory.into()))?;
    bytes.resize(size, 0);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Some(Bytes::Copied(bytes)))
}
