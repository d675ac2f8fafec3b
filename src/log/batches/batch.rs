//! A batch of magic 2 where it lies in a segment: its header, and on demand its checksum, its
//! records and the control record it begins with.

use std::borrow::Cow;

use super::bytes::{bytes_at, for_each_piece, slice_at};
use super::walk::{CACHE_LINE, PREFETCH_BATCH_MAX};
use crate::format::control_record::{ControlRecordType, EndTransactionMarker, first_record};
use crate::format::record_batch::{
    self, CRC_START, HEADER_SIZE, MIN_BATCH_LENGTH, RecordBatchHeader,
};
use crate::log::Error;
use crate::log::mapped_file::{MappedFile, prefetch};

/// A control batch larger than this is not looked into: a marker takes 78 bytes, the voters of a
/// KRaft quorum some kilobytes.
const MAX_CONTROL_BYTES: u64 = 1024 * 1024;

/// A batch of magic 2 where it lies.
#[derive(Clone, Copy)]
pub struct Batch<'w> {
    /// The header, borrowed from the file.
    pub header: &'w RecordBatchHeader,
    /// Byte position of the batch in its segment.
    pub position: u64,
    /// The bytes of the batch that are at hand: all of them where the file is mapped, else as
    /// many as the walk has read.
    pub(super) at_hand: &'w [u8],
    pub(super) file: &'w MappedFile,
}

impl std::fmt::Debug for Batch<'_> {
    /// Header and position; the bytes at hand may be a gigabyte.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("header", self.header)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<'w> Batch<'w> {
    /// The bytes at `position` taken for a batch of magic 2 whatever their magic byte says, as
    /// Kafka takes all that are not below 2 (`FileLogInputStream.nextBatch`). `header` is a copy
    /// of the first of them; `None` if the batch is too small or not all there.
    #[must_use]
    pub fn of_any_magic(
        file: &'w MappedFile,
        position: u64,
        header: &'w RecordBatchHeader,
    ) -> Option<Self> {
        let end = position.checked_add(header.size_in_bytes())?;
        let is_whole = header.batch_length() >= MIN_BATCH_LENGTH && end <= file.len();
        is_whole.then(|| Self::at(file, position, header))
    }

    /// The batch of that header, whose bytes are all in the file.
    pub(in crate::log) fn at(
        file: &'w MappedFile,
        position: u64,
        header: &'w RecordBatchHeader,
    ) -> Self {
        let map = file.mapped().unwrap_or_default();
        Self {
            header,
            position,
            at_hand: slice_at(map, position, usize::MAX),
            file,
        }
    }

    /// Bytes of the whole batch; they are all in the file.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.header.size_in_bytes()
    }

    /// Fetches the second cache line of the header behind a large batch, if that is mapped: who
    /// reads more of it than its length would wait twice. And the header behind that one, which is
    /// as far away where batches are as full as they may be. Not for those who read the records:
    /// their bytes come in a stream, which is broken by this.
    #[inline]
    pub(super) fn fetch_next_header(&self) {
        if let Ok(size) = usize::try_from(self.size_in_bytes())
            && size > PREFETCH_BATCH_MAX
        {
            prefetch(self.at_hand, size.saturating_add(CACHE_LINE));
            let likely = size.saturating_mul(2);
            prefetch(self.at_hand, likely);
            prefetch(self.at_hand, likely.saturating_add(CACHE_LINE));
        }
    }

    /// All bytes of the batch, if they are at hand.
    #[inline]
    fn whole(&self) -> Option<&'w [u8]> {
        self.at_hand
            .get(..usize::try_from(self.size_in_bytes()).ok()?)
    }

    /// The bytes behind the header: records, compressed as they are. Borrowed where the file is
    /// mapped.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn records(&self) -> Result<Cow<'w, [u8]>, Error> {
        match self.whole() {
            Some(whole) => Ok(Cow::Borrowed(whole.get(HEADER_SIZE..).unwrap_or_default())),
            None => bytes_at(self.file, self.position, self.size_in_bytes(), HEADER_SIZE),
        }
    }

    /// The checksum of the bytes in the file, to be compared with the stored one.
    ///
    /// # Errors
    /// If the file cannot be read.
    #[inline]
    pub fn compute_crc(&self) -> Result<u32, Error> {
        let crc = match self.whole() {
            Some(whole) => record_batch::compute_crc(whole),
            None => self.compute_crc_by_pieces()?,
        };
        self.file.check_unchanged()?;
        Ok(crc)
    }

    #[cold]
    fn compute_crc_by_pieces(&self) -> Result<u32, Error> {
        let start = self.position + CRC_START as u64;
        let end = self.position + self.size_in_bytes();
        let mut crc = 0;
        for_each_piece(self.file, start, end, |piece| {
            crc = crc32c::crc32c_append(crc, piece);
        })?;
        Ok(crc)
    }

    /// Whether the bytes at hand are all of the batch and have the stored checksum. If not,
    /// [`Batch::is_valid`] tells what is wrong.
    #[must_use]
    #[inline]
    pub fn is_plainly_valid(&self) -> bool {
        self.whole()
            .is_some_and(|whole| record_batch::compute_crc(whole) == self.header.crc())
            && !self.file.has_changed()
    }

    /// Whether the stored checksum is right, by the bytes at hand if they tell.
    ///
    /// # Errors
    /// As [`Batch::is_valid`].
    pub fn is_sound(&self) -> Result<bool, Error> {
        Ok(self.is_plainly_valid() || self.is_valid()?)
    }

    /// Whether the stored checksum is right.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn is_valid(&self) -> Result<bool, Error> {
        let is_valid = self.compute_crc()? == self.header.crc();
        if !is_valid {
            self.check_settled()?;
        }
        Ok(is_valid)
    }

    /// Looks once more at a batch whose checksum is wrong, once a writer has got on.
    #[cold]
    fn check_settled(&self) -> Result<(), Error> {
        self.file
            .check_settled(self.position, self.header.as_array().as_slice())?;
        if self.compute_crc()? == self.header.crc() {
            return Err(self.file.changed());
        }
        Ok(())
    }

    /// The first control record of the batch; `None` in a data batch, in a control batch that
    /// the cleaner emptied, and if the record cannot be read as one.
    ///
    /// # Errors
    /// If the file cannot be read.
    #[cold]
    pub fn control_record(&self) -> Result<Option<FirstControlRecord>, Error> {
        if !self.header.attributes().is_control() || self.size_in_bytes() > MAX_CONTROL_BYTES {
            return Ok(None);
        }
        let count = self.header.records_count();
        Ok(FirstControlRecord::decode(&self.records()?, count))
    }

    /// The end-transaction marker of the batch, if it has one; `None` as well in an empty control
    /// batch.
    ///
    /// # Errors
    /// If the file cannot be read.
    #[inline(always)]
    pub fn marker(&self) -> Result<Option<EndTransactionMarker>, Error> {
        if !self.header.attributes().is_control() {
            return Ok(None);
        }
        let records = self.whole().and_then(|whole| whole.get(HEADER_SIZE..));
        if self.header.records_count() == 1
            && let Some(marker) = records.and_then(EndTransactionMarker::decode_usual)
        {
            return Ok(Some(marker));
        }
        match self.control_record()? {
            Some(record) => Ok(record.marker()),
            None => Ok(None),
        }
    }

    /// See [`MappedFile::check_unchanged`].
    ///
    /// # Errors
    /// [`Error::ChangedWhileReading`].
    pub fn check_unchanged(&self) -> Result<(), Error> {
        self.file.check_unchanged()
    }
}

/// What the first record of a control batch says; a marker is the only record of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstControlRecord {
    /// What kind of control record it is.
    pub control_type: ControlRecordType,
    /// Epoch of the transaction coordinator, in a whole end-transaction marker.
    pub coordinator_epoch: Option<i32>,
}

impl FirstControlRecord {
    /// The end-transaction marker, if the record is a whole one.
    #[must_use]
    #[inline]
    pub fn marker(self) -> Option<EndTransactionMarker> {
        Some(EndTransactionMarker {
            control_type: self.control_type,
            coordinator_epoch: self.coordinator_epoch?,
        })
    }

    fn decode(records: &[u8], count: i32) -> Option<Self> {
        let record = first_record(records, count).ok()??;
        let control_type = ControlRecordType::decode_key(record.key?).ok()?;
        let marker = EndTransactionMarker::decode(&record).ok().flatten();
        Some(Self {
            control_type,
            coordinator_epoch: marker.map(|it| it.coordinator_epoch),
        })
    }
}
