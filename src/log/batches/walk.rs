//! Steps from one entry of a segment to the next, over damage too.

use super::bytes::{READ_SIZE, Window, slice_at};
use super::found::Found;
use super::{Batch, Entry, LegacyEntry};
use crate::format::legacy_record::LegacyRecordHeader;
use crate::format::record_batch::{
    HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_V2, MIN_BATCH_LENGTH,
    RecordBatchHeader,
};
use crate::log::Error;
use crate::log::damage::{Damage, DamageKind, ReadableFields};
use crate::log::mapped_file::{MappedFile, prefetch};
use crate::log::resync::{Resync, is_zero_to_end};

/// Batches up to this size are small enough for the next header to be worth fetching ahead.
pub(super) const PREFETCH_BATCH_MAX: usize = 1024;
/// How far ahead of the next header bytes are fetched: enough for the memory's latency at the
/// walk's speed.
const PREFETCH_DISTANCE: usize = 1024;
pub(super) const CACHE_LINE: usize = 64;

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
        if let Some((map, header, rest)) = self.plain() {
            let size = header.size_in_bytes();
            self.position += size;
            fetch_ahead(map, position, size);
            return Some(Ok(Entry::Batch(Batch {
                header,
                position,
                at_hand: rest,
                file: self.file,
            })));
        }
        self.next_any()
    }

    /// The next entry if it is simply a mapped batch of magic 2. If it is `None` the walk has not
    /// moved, and [`BatchWalk::next_entry`] tells what is there.
    ///
    /// For loops over millions of small batches: what comes back stays in registers.
    #[inline(always)]
    pub fn next_mapped(&mut self) -> Option<Batch<'f>> {
        let position = self.position;
        let (map, header, rest) = self.plain()?;
        let size = header.size_in_bytes();
        self.position += size;
        fetch_ahead(map, position, size);
        Some(Batch {
            header,
            position,
            at_hand: rest,
            file: self.file,
        })
    }

    /// As [`BatchWalk::next_mapped`], for loops that leave the records alone: the next header is
    /// fetched whole.
    #[inline(always)]
    pub fn next_mapped_header(&mut self) -> Option<Batch<'f>> {
        let batch = self.next_mapped()?;
        batch.fetch_next_header();
        Some(batch)
    }

    /// The map, and in it the header of a batch of magic 2 that lies here whole, with all bytes
    /// from there on.
    #[inline(always)]
    fn plain(&self) -> Option<(&'f [u8], &'f RecordBatchHeader, &'f [u8])> {
        let map = self.map?;
        let rest = map.get(usize::try_from(self.position).ok()?..)?;
        let header = RecordBatchHeader::ref_from(rest).ok()?;
        let is_plain = header.magic() == MAGIC_V2
            && header.batch_length() >= MIN_BATCH_LENGTH
            && header.size_in_bytes() <= rest.len() as u64
            && !self.file.has_changed();
        is_plain.then_some((map, header, rest))
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
        // Fewer zeros may as well be the first bytes of a torn batch: of its offset, which is 0
        // in front of a log alone, and behind that of its length.
        let (offset_end, length_end) = (size_of::<i64>(), LOG_OVERHEAD);
        let begun = if position == 0 {
            length_end
        } else {
            offset_end
        };
        let head_is_zero = head.len() >= begun && head.iter().all(|byte| *byte == 0);
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
                // A few zeros may be the first bytes of an offset that is being written.
                let is_begun = damage.kind == DamageKind::TornTail
                    || damage.kind == DamageKind::ZeroTail
                        && available < HEADER_SIZE_UP_TO_MAGIC as u64;
                if is_begun && self.file.is_growing() {
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
            Found::Damage(damage) => Entry::Damage(Box::new(damage)),
            Found::BeingWritten { size_in_bytes } => {
                Entry::Damage(Box::new(Damage::unexpected(position, size_in_bytes)))
            }
            Found::Batch { .. } => match RecordBatchHeader::ref_from(head) {
                Ok(header) => Entry::Batch(Batch {
                    header,
                    position,
                    at_hand,
                    file,
                }),
                Err(_) => Entry::Damage(Box::new(Damage::unexpected(
                    position,
                    found.size_in_bytes(),
                ))),
            },
            Found::Legacy { .. } => match LegacyRecordHeader::ref_from(head) {
                Ok(header) => Entry::Legacy(LegacyEntry {
                    header,
                    head,
                    position,
                    file,
                }),
                Err(_) => Entry::Damage(Box::new(Damage::unexpected(
                    position,
                    found.size_in_bytes(),
                ))),
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

/// Fetches the cache lines that come into reach of the walk when it steps over a small batch. A
/// larger block at once would make the bytes wait that a checksum reads meanwhile.
#[inline]
fn fetch_ahead(map: &[u8], position: u64, size: u64) {
    if let (Ok(start), Ok(size)) = (usize::try_from(position), usize::try_from(size))
        && size <= PREFETCH_BATCH_MAX
    {
        let from = start + PREFETCH_DISTANCE;
        fetch_lines::<0, 8>(map, from);
        if size > 7 * CACHE_LINE {
            fetch_lines::<8, 17>(map, from);
        }
    }
}

#[inline(always)]
fn fetch_lines<const FIRST: usize, const END: usize>(map: &[u8], from: usize) {
    if let Some(lines) = map.get(from..from + END * CACHE_LINE) {
        for line in FIRST..END {
            prefetch(lines, line * CACHE_LINE);
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
