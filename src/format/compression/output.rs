//! Where decompressed bytes go: one buffer that is kept between batches, and a limit.

use super::malformed;
use crate::error::{DecodeError, DecodeErrorKind};

/// Size of the first allocation; a block of the usual LZ4 frame fits.
const FIRST_SIZE: usize = 64 * 1024;

/// The buffer, its filled part and the most it may hold.
///
/// All of the buffer is initialised, so that decoding into it again costs no zeroing. It grows
/// by doubling, and only when what is there has been filled or a block of known size is next;
/// never by a length that the input merely claims.
#[derive(Debug, Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    len: usize,
    limit: usize,
}

impl Output {
    /// Empties the buffer and sets a new limit.
    pub(super) fn reset(&mut self, limit: usize) {
        self.len = 0;
        self.limit = limit;
    }

    /// What has been written since the reset.
    pub(super) fn filled(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// Bytes that may still be written.
    pub(super) fn remaining(&self) -> usize {
        self.limit.saturating_sub(self.len)
    }

    /// Bytes of the buffer, used or not.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// The free part of the buffer, grown to `wanted` bytes if it is shorter.
    ///
    /// It may go one byte past the limit, so that a stream which fills the limit exactly can
    /// show whether there is more; [`Output::advance`] tells. Never empty.
    pub(super) fn space(&mut self, wanted: usize) -> &mut [u8] {
        let most = self.limit.saturating_add(1);
        let needed = self.len.saturating_add(wanted.max(1)).min(most);
        if needed > self.buffer.len() {
            let doubled = self.buffer.len().saturating_mul(2).max(FIRST_SIZE);
            self.buffer.resize(doubled.min(most).max(needed), 0);
        }
        let end = self.buffer.len().min(most);
        self.buffer.get_mut(self.len..end).unwrap_or_default()
    }

    /// Counts `size` bytes of the space as written.
    ///
    /// # Errors
    /// If they go over the limit.
    pub(super) fn advance(&mut self, size: usize) -> Result<(), DecodeError> {
        self.len = self.len.saturating_add(size).min(self.buffer.len());
        if self.len > self.limit {
            return Err(self.over_limit());
        }
        Ok(())
    }

    /// Copies bytes that were stored as they are.
    ///
    /// # Errors
    /// If they go over the limit.
    pub(super) fn extend(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        if bytes.len() > self.remaining() {
            return Err(self.over_limit());
        }
        let Some(space) = self.space(bytes.len()).get_mut(..bytes.len()) else {
            return Err(malformed("lz4", 0, "stored block does not fit"));
        };
        space.copy_from_slice(bytes);
        self.advance(bytes.len())
    }

    /// The error of a stream with more output than allowed.
    pub(super) fn over_limit(&self) -> DecodeError {
        let limit = self.limit as u64;
        DecodeError::new(
            super::STRUCTURE,
            "",
            0,
            DecodeErrorKind::OverLimit { limit },
        )
    }
}
