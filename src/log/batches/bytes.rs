//! Bytes of an entry, taken from the map or read: whole, by pieces, or through a window.

use std::borrow::Cow;

use crate::log::Error;
use crate::log::mapped_file::MappedFile;

/// Bytes read at once where a file is not mapped.
pub(super) const READ_SIZE: usize = 256 * 1024;

pub(in crate::log) fn slice_at(bytes: &[u8], position: u64, len: usize) -> &[u8] {
    let start = usize::try_from(position).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    rest.get(..len).unwrap_or(rest)
}

/// The bytes of an entry from `skip` on.
pub(super) fn bytes_at(
    file: &MappedFile,
    position: u64,
    size_in_bytes: u64,
    skip: usize,
) -> Result<Cow<'_, [u8]>, Error> {
    // The walk has seen that the entry lies inside the file.
    let len = usize::try_from(size_in_bytes)
        .unwrap_or(usize::MAX)
        .saturating_sub(skip);
    let start = position + skip as u64;
    if let Some(map) = file.mapped() {
        return Ok(Cow::Borrowed(slice_at(map, start, len)));
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, start)?;
    Ok(Cow::Owned(bytes))
}

/// Hands out the bytes from `start` to `end`: at once where the file is mapped, else by pieces.
pub(in crate::log) fn for_each_piece(
    file: &MappedFile,
    start: u64,
    end: u64,
    mut take: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let end = end.min(file.len());
    let remaining = end.saturating_sub(start);
    if let Some(map) = file.mapped() {
        take(slice_at(
            map,
            start,
            usize::try_from(remaining).unwrap_or(usize::MAX),
        ));
        return Ok(());
    }
    let size = READ_SIZE.min(usize::try_from(remaining).unwrap_or(READ_SIZE));
    let mut buffer = vec![0; size];
    let mut position = start;
    while position < end {
        let left = usize::try_from(end - position).unwrap_or(size);
        let piece = buffer.get_mut(..left.min(size)).unwrap_or_default();
        file.read_exact_at(piece, position)?;
        take(piece);
        position += piece.len() as u64;
    }
    Ok(())
}

/// The piece of an unmapped file that was read last.
#[derive(Debug, Default)]
pub(super) struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Up to `len` bytes at `position`; fewer only at the end of the file.
    pub(super) fn at(
        &mut self,
        file: &MappedFile,
        position: u64,
        len: usize,
    ) -> Result<&[u8], Error> {
        if self.loaded(position, len).len() < len {
            let available = file.len().saturating_sub(position);
            let size = READ_SIZE.min(usize::try_from(available).unwrap_or(READ_SIZE));
            self.bytes.resize(size, 0);
            self.start = position;
            file.read_exact_at(&mut self.bytes, position)?;
        }
        Ok(self.loaded(position, len))
    }

    pub(super) fn loaded(&self, position: u64, len: usize) -> &[u8] {
        match position.checked_sub(self.start) {
            Some(inside) => slice_at(&self.bytes, inside, len),
            None => &[],
        }
    }
}
