//! An entry of magic 0 or 1 where it lies in a segment.

use std::borrow::Cow;

use super::bytes::{bytes_at, for_each_piece};
use crate::format::legacy_record::{self, LegacyRecordHeader};
use crate::log::Error;
use crate::log::mapped_file::MappedFile;

/// An entry of magic 0 or 1: one message, or a wrapper around compressed ones.
#[derive(Clone, Copy, Debug)]
pub struct LegacyEntry<'w> {
    /// The header, borrowed from the file.
    pub header: &'w LegacyRecordHeader,
    /// Byte position of the entry in its segment.
    pub position: u64,
    /// The first bytes of the entry, as many as a magic 2 header has or the file still holds.
    pub(super) head: &'w [u8],
    pub(super) file: &'w MappedFile,
}

impl<'w> LegacyEntry<'w> {
    /// The entry of that header, whose bytes are all in the file; `head` are the first of them.
    pub(in crate::log) fn at(
        file: &'w MappedFile,
        position: u64,
        header: &'w LegacyRecordHeader,
        head: &'w [u8],
    ) -> Self {
        Self {
            header,
            position,
            head,
            file,
        }
    }

    /// All bytes of the entry. Borrowed where the file is mapped.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn bytes(&self) -> Result<Cow<'w, [u8]>, Error> {
        bytes_at(self.file, self.position, self.size_in_bytes(), 0)
    }

    /// Milliseconds; `None` in magic 0, which has no timestamps. May be -1.
    #[must_use]
    pub fn timestamp(&self) -> Option<i64> {
        if self.header.magic() == legacy_record::MAGIC_V0 {
            return None;
        }
        let (timestamp, _) = self
            .head
            .get(legacy_record::COMMON_HEADER_SIZE..)?
            .split_first_chunk()?;
        Some(i64::from_be_bytes(*timestamp))
    }

    /// Bytes of the whole entry; they are all in the file.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.header.size_in_bytes()
    }

    /// The checksum of the bytes in the file, to be compared with the stored one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn compute_crc(&self) -> Result<u32, Error> {
        let start = self.position + legacy_record::CRC_START as u64;
        let end = self.position + self.size_in_bytes();
        let mut hasher = crc32fast::Hasher::new();
        for_each_piece(self.file, start, end, |piece| hasher.update(piece))?;
        self.file.check_unchanged()?;
        Ok(hasher.finalize())
    }

    /// Whether the stored checksum is right.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_valid(&self) -> Result<bool, Error> {
        let is_valid = self.compute_crc()? == self.header.crc();
        if !is_valid {
            self.file.check_settled(self.position, self.head)?;
        }
        Ok(is_valid)
    }
}
