//! The indexes of a held directory's last segment, as they were when its log was held.
//!
//! A broker appends to the log, then writes the entry into an index that has its full size from the
//! beginning, in two pieces. Read later than the log, such an index has entries behind the log's
//! end; read meanwhile, it has half an entry. So what is written of it is copied before the log's
//! length is taken.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::mapped_file::MappedFile;

/// Behind so many zeros nothing has been written to an index yet.
const PIECE: usize = 64 * 1024;
/// Six times Kafka's default for an index; a sparse file may have any size, and is read as it is.
const MAX_COPIED: usize = 64 << 20;
/// How often an index that changes is looked at.
const MAX_LOOKS: u32 = 20;

/// Indexes by name of file.
#[derive(Debug, Default)]
pub(super) struct HeldIndexes(HashMap<OsString, HeldIndex>);

/// An index as it was: a roll trims it.
#[derive(Debug)]
struct HeldIndex {
    entries: Vec<u8>,
    size: usize,
}

impl HeldIndexes {
    /// Copies what has been written to an open index; one that cannot be read, or is larger than
    /// any that a broker has, is left out.
    pub(super) fn copy(&mut self, name: &OsStr, file: &File) {
        let size = file.metadata().map(|it| usize::try_from(it.len()));
        let Ok(Ok(size)) = size else {
            return;
        };
        let Some(mut entries) = entries(file).filter(|_| size <= MAX_COPIED) else {
            return;
        };
        for _ in 0..MAX_LOOKS {
            match self::entries(file) {
                Some(again) if again == entries => break,
                Some(again) => entries = again,
                None => return,
            }
        }
        self.0.insert(name.to_owned(), HeldIndex { entries, size });
    }

    /// The index as it was copied, with zeros up to its size.
    pub(super) fn open(&self, path: &Path, name: &OsStr) -> Option<MappedFile> {
        let HeldIndex { entries, size } = self.0.get(name)?;
        let mut bytes = Vec::with_capacity((*size).max(entries.len()));
        bytes.extend_from_slice(entries);
        bytes.resize((*size).max(entries.len()), 0);
        Some(MappedFile::from_bytes(path, bytes))
    }

    /// Whether an index has lost entries since it was copied, as by a truncation.
    pub(super) fn has_shrunk(&self, name: &OsStr, file: &File) -> bool {
        let copied = self.0.get(name);
        copied
            .is_some_and(|copied| entries(file).is_none_or(|now| !now.starts_with(&copied.entries)))
    }
}

/// The bytes of an index up to the last one that is not zero.
fn entries(file: &File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(start + PIECE, 0);
        let piece = bytes.get_mut(start..)?;
        let read = file.read_at(piece, u64::try_from(start).ok()?).ok()?;
        let is_last = read < PIECE || piece.iter().all(|byte| *byte == 0);
        bytes.truncate(start + read);
        if is_last {
            break;
        }
        if bytes.len() > MAX_COPIED {
            return None;
        }
    }
    let used = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(used.map_or(0, |last| last + 1));
    Some(bytes)
}
