//! The walk over a segment: batches in the order they lie in the file, and damage between them.

use std::borrow::Cow;

use super::Error;
use super::damage::{Damage, DamageKind, ReadableFields};
use super::mapped_file::{MappedFile, prefetch};
use super::resync::{Resync, is_zero_to_end};
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::legacy_record::{self, LegacyRecordHeader};
use crate::format::record::Record;
use crate::format::record_batch::{
    self, CRC_START, HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_V2,
    MIN_BATCH_LENGTH, RecordBatchHeader,
};

/// Batches up to this size are small enough for the next header to be worth fetching ahead.
const PREFETCH_BATCH_MAX: usize = 1024;
/// How far ahead of the next header bytes are fetched: enough for the memory's latency at the
/// walk's speed.
const PREFETCH_DISTANCE: usize = 1024;
const CACHE_LINE: usize = 64;

/// Bytes read at once where a file is not mapped.
const READ_SIZE: usize = 256 * 1024;

/// A control batch larger than this is not looked into: a marker takes 78 bytes, the voters of a
/// KRaft quorum some kilobytes.
const MAX_CONTROL_BYTES: u64 = 1024 * 1024;

/// What lies at one place of a segment.
#[derive(Debug)]
pub enum Entry<'w> {
    /// A batch of magic 2.
    Batch(Batch<'w>),
    /// An entry of magic 0 or 1.
    Legacy(LegacyEntry<'w>),
    /// No batch.
    Damage(Damage),
}

impl Entry<'_> {
    /// The first offset of an entry whose checksum is right; of a wrapper the last one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn readable_offset(&self) -> Result<Option<i64>, Error> {
        Ok(match self {
            Self::Batch(batch) if batch.is_valid()? => Some(batch.header.base_offset()),
            Self::Legacy(entry) if entry.is_valid()? => Some(entry.header.offset()),
            Self::Batch(_) | Self::Legacy(_) | Self::Damage(_) => None,
        })
    }
}

/// Walks a segment from a position to the end the file had when it was opened.
///
/// Reads headers where they lie and never the records, unless an entry is asked for them. After
/// damage it goes on at the next batch whose checksum is right, if there is one.
#[derive(Debug)]
pub struct BatchWalk<'f> {
    file: &'f MappedFile,
    map: Option<&'f [u8]>,
    window: Window,
    position: u64,
    end: u64,
    resync: Resync,
    failed: bool,
}

impl<'f> BatchWalk<'f> {
    /// A walk over all of `file`.
    #[must_use]
    pub fn new(file: &'f MappedFile) -> Self {
        Self::starting_at(file, 0)
    }

    /// A walk from `position`, which should be the start of a batch, to the end of `file`.
    #[must_use]
    pub fn starting_at(file: &'f MappedFile, position: u64) -> Self {
        Self {
            file,
            map: file.mapped(),
            window: Window::default(),
            position,
            end: file.len(),
            resync: Resync::new(file.len()),
            failed: false,
        }
    }

    /// Byte position of the next entry.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next entry, `None` at the end. After an error there are no more.
    ///
    /// # Errors
    /// If the file cannot be read, or was cut short since it was opened.
    #[inline]
    pub fn next_entry(&mut self) -> Option<Result<Entry<'_>, Error>> {
        let position = self.position;
        if let Some(map) = self.map
            && let Ok(start) = usize::try_from(position)
            && let Some(rest) = map.get(start..)
            && let Ok(header) = RecordBatchHeader::ref_from(rest)
            && header.magic() == MAGIC_V2
            && header.batch_length() >= MIN_BATCH_LENGTH
            && header.size_in_bytes() <= rest.len() as u64
            && !self.file.has_changed()
        {
            let size = header.size_in_bytes();
            self.position += size;
            fetch_ahead(map, start, size);
            return Some(Ok(Entry::Batch(Batch {
                header,
                position,
                at_hand: rest,
                file: self.file,
            })));
        }
        self.next_any()
    }

    /// The next entry where it is not simply a mapped batch of magic 2.
    #[cold]
    fn next_any(&mut self) -> Option<Result<Entry<'_>, Error>> {
        if self.failed {
            return None;
        }
        let position = self.position;
        let found = if position >= self.end {
            self.file.check_not_cut().map(|()| None)
        } else {
            self.classify().map(Some)
        };
        match found {
            Ok(None) => None,
            Ok(Some(Found::BeingWritten { size_in_bytes })) => {
                self.position = position + size_in_bytes;
                None
            }
            Ok(Some(found)) => {
                self.position = position + found.size_in_bytes();
                Some(Ok(self.entry(position, found)))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }

    /// What lies at the position, without borrowing it.
    fn classify(&mut self) -> Result<Found, Error> {
        let position = self.position;
        let available = self.end - position;
        let head = match self.map {
            Some(map) => slice_at(map, position, HEADER_SIZE),
            None => self.window.at(self.file, position, HEADER_SIZE)?,
        };
        let mut seen = [0; HEADER_SIZE];
        let seen = copy_of(head, &mut seen);
        let readable = ReadableFields::from_prefix(seen);
        let head = seen;
        // Fewer zeros than this may as well be the first bytes of a torn batch's offset.
        let head_is_zero =
            head.len() >= HEADER_SIZE_UP_TO_MAGIC && head.iter().all(|byte| *byte == 0);
        let found = Found::from_header(readable, available);
        self.file.check_unchanged()?;
        match found {
            Ok(found) => {
                self.load(position, found.size_in_bytes())?;
                Ok(found)
            }
            Err(kind) => {
                let damage = if head_is_zero && is_zero_to_end(self.file, position)? {
                    let kind = DamageKind::ZeroTail;
                    Damage {
                        kind,
                        position,
                        size_in_bytes: available,
                        readable: ReadableFields::default(),
                    }
                } else {
                    self.resync.pass_over(self.file, position, kind, readable)?
                };
                self.file.check_settled(position, seen)?;
                if damage.kind == DamageKind::TornTail && self.file.is_growing() {
                    return Ok(Found::BeingWritten {
                        size_in_bytes: available,
                    });
                }
                Ok(Found::Damage(damage))
            }
        }
    }

    /// Reads an entry whole where the file is not mapped and the entry is not too large for it,
    /// so that its checksum needs no reading of its own.
    fn load(&mut self, position: u64, size_in_bytes: u64) -> Result<(), Error> {
        let size = usize::try_from(size_in_bytes).unwrap_or(usize::MAX);
        if self.map.is_none() && size <= READ_SIZE {
            self.window.at(self.file, position, size)?;
        }
        Ok(())
    }

    fn entry(&self, position: u64, found: Found) -> Entry<'_> {
        let at_hand = match self.map {
            Some(map) => slice_at(map, position, usize::MAX),
            None => self.window.loaded(position, usize::MAX),
        };
        let head = slice_at(at_hand, 0, HEADER_SIZE);
        let file = self.file;
        match found {
            Found::Damage(damage) => Entry::Damage(damage),
            Found::BeingWritten { size_in_bytes } => {
                Entry::Damage(Damage::unexpected(position, size_in_bytes))
            }
            Found::Batch { .. } => match RecordBatchHeader::ref_from(head) {
                Ok(header) => Entry::Batch(Batch {
                    header,
                    position,
                    at_hand,
                    file,
                }),
                Err(_) => Entry::Damage(Damage::unexpected(position, found.size_in_bytes())),
            },
            Found::Legacy { .. } => match LegacyRecordHeader::ref_from(head) {
                Ok(header) => Entry::Legacy(LegacyEntry {
                    header,
                    head,
                    position,
                    file,
                }),
                Err(_) => Entry::Damage(Damage::unexpected(position, found.size_in_bytes())),
            },
        }
    }
}

impl Damage {
    /// For a header that was there a moment ago; cannot happen while the bytes stay put.
    fn unexpected(position: u64, size_in_bytes: u64) -> Self {
        Self {
            kind: DamageKind::TornTail,
            position,
            size_in_bytes,
            readable: ReadableFields::default(),
        }
    }
}

/// Fetches the cache lines that come into reach of the walk when it steps over a small batch.
#[inline]
fn fetch_ahead(map: &[u8], start: usize, size: u64) {
    let Ok(size) = usize::try_from(size) else {
        return;
    };
    if size <= PREFETCH_BATCH_MAX {
        let from = start + PREFETCH_DISTANCE;
        let mut ahead = 0;
        while ahead <= size {
            prefetch(map, from + ahead);
            ahead += CACHE_LINE;
        }
    }
}

/// The bytes of `from` that fit `to`, copied there: a map may change under a borrow.
fn copy_of<'a>(from: &[u8], to: &'a mut [u8]) -> &'a [u8] {
    let size = from.len().min(to.len());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
    to.get(..size).unwrap_or_default()
}

pub(super) fn slice_at(bytes: &[u8], position: u64, len: usize) -> &[u8] {
    let start = usize::try_from(position).unwrap_or(usize::MAX);
    let rest = bytes.get(start..).unwrap_or_default();
    rest.get(..len).unwrap_or(rest)
}

/// An entry by its header alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    Batch {
        size_in_bytes: u64,
    },
    Legacy {
        size_in_bytes: u64,
    },
    Damage(Damage),
    /// The last batch was not all there when the file was opened and a broker has gone on since.
    BeingWritten {
        size_in_bytes: u64,
    },
}

impl Found {
    /// Takes the first bytes of an entry for a batch if size and magic allow it.
    pub(super) fn from_header(fields: ReadableFields, available: u64) -> Result<Self, DamageKind> {
        let (Some(length), Some(magic)) = (fields.batch_length, fields.magic) else {
            return Err(DamageKind::TornTail);
        };
        let minimum = match magic {
            legacy_record::MAGIC_V0 => legacy_record::MIN_MESSAGE_SIZE_V0,
            legacy_record::MAGIC_V1 => legacy_record::MIN_MESSAGE_SIZE_V1,
            MAGIC_V2 => MIN_BATCH_LENGTH,
            // Kafka refuses a size below 14 before it looks at the magic byte.
            _ => legacy_record::MIN_MESSAGE_SIZE_V0,
        };
        let size_in_bytes = match u64::try_from(length) {
            Ok(size) if length >= minimum => size + LOG_OVERHEAD as u64,
            _ => {
                return Err(DamageKind::BadLength {
                    found: length,
                    minimum,
                });
            }
        };
        if size_in_bytes > available {
            return Err(DamageKind::BatchPastEnd {
                size_in_bytes,
                available,
            });
        }
        match magic {
            legacy_record::MAGIC_V0 | legacy_record::MAGIC_V1 => Ok(Self::Legacy { size_in_bytes }),
            MAGIC_V2 => Ok(Self::Batch { size_in_bytes }),
            found => Err(DamageKind::UnknownMagic { found }),
        }
    }

    pub(super) fn size_in_bytes(self) -> u64 {
        match self {
            Self::Batch { size_in_bytes }
            | Self::Legacy { size_in_bytes }
            | Self::BeingWritten { size_in_bytes } => size_in_bytes,
            Self::Damage(damage) => damage.size_in_bytes,
        }
    }
}

/// The piece of an unmapped file that was read last.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Up to `len` bytes at `position`; fewer only at the end of the file.
    fn at(&mut self, file: &MappedFile, position: u64, len: usize) -> Result<&[u8], Error> {
        if self.loaded(position, len).len() < len {
            let available = file.len().saturating_sub(position);
            let size = READ_SIZE.min(usize::try_from(available).unwrap_or(READ_SIZE));
            self.bytes.resize(size, 0);
            self.start = position;
            file.read_exact_at(&mut self.bytes, position)?;
        }
        Ok(self.loaded(position, len))
    }

    fn loaded(&self, position: u64, len: usize) -> &[u8] {
        match position.checked_sub(self.start) {
            Some(inside) => slice_at(&self.bytes, inside, len),
            None => &[],
        }
    }
}

/// A batch of magic 2 where it lies.
#[derive(Clone, Copy)]
pub struct Batch<'w> {
    /// The header, borrowed from the file.
    pub header: &'w RecordBatchHeader,
    /// Byte position of the batch in its segment.
    pub position: u64,
    /// The bytes of the batch that are at hand: all of them where the file is mapped, else as
    /// many as the walk has read.
    at_hand: &'w [u8],
    file: &'w MappedFile,
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
    pub(super) fn at(file: &'w MappedFile, position: u64, header: &'w RecordBatchHeader) -> Self {
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
    pub fn control_record(&self) -> Result<Option<FirstControlRecord>, Error> {
        if !self.header.attributes().is_control() || self.size_in_bytes() > MAX_CONTROL_BYTES {
            return Ok(None);
        }
        Ok(FirstControlRecord::decode(&self.records()?))
    }

    /// The end-transaction marker of the batch, if it has one; `None` as well in an empty control
    /// batch.
    ///
    /// # Errors
    /// If the file cannot be read.
    #[inline]
    pub fn marker(&self) -> Result<Option<EndTransactionMarker>, Error> {
        if !self.header.attributes().is_control() {
            return Ok(None);
        }
        Ok(self.control_record()?.and_then(FirstControlRecord::marker))
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
    pub fn marker(self) -> Option<EndTransactionMarker> {
        Some(EndTransactionMarker {
            control_type: self.control_type,
            coordinator_epoch: self.coordinator_epoch?,
        })
    }

    fn decode(records: &[u8]) -> Option<Self> {
        let (record, _) = Record::decode(records).ok()?;
        let control_type = ControlRecordType::decode_key(record.key?).ok()?;
        let marker = EndTransactionMarker::decode(&record).ok().flatten();
        Some(Self {
            control_type,
            coordinator_epoch: marker.map(|it| it.coordinator_epoch),
        })
    }
}

/// An entry of magic 0 or 1: one message, or a wrapper around compressed ones.
#[derive(Clone, Copy, Debug)]
pub struct LegacyEntry<'w> {
    /// The header, borrowed from the file.
    pub header: &'w LegacyRecordHeader,
    /// Byte position of the entry in its segment.
    pub position: u64,
    /// The first bytes of the entry, as many as a magic 2 header has or the file still holds.
    head: &'w [u8],
    file: &'w MappedFile,
}

impl<'w> LegacyEntry<'w> {
    /// The entry of that header, whose bytes are all in the file; `head` are the first of them.
    pub(super) fn at(
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

/// The bytes of an entry from `skip` on.
fn bytes_at(
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
pub(super) fn for_each_piece(
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
