//! Finding the next batch after damage.
//!
//! A size field that is wrong leaves a reader without the place of the next batch. It is found
//! by its checksum: the first position behind the damage whose bytes are a batch with a right
//! one. Chance makes that wrong once in four thousand million places that look like a header.

use super::Error;
use super::batches::{Found, for_each_piece, slice_at};
use super::damage::{Damage, DamageKind, ReadableFields};
use super::mapped_file::MappedFile;
use crate::format::legacy_record::{self, LegacyRecordHeader};
use crate::format::record_batch::{
    Attributes, CRC_START, CompressionType, HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC as PREFIX_SIZE,
    LOG_OVERHEAD, MAGIC_V2, RecordBatchHeader,
};
use crate::format::{NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};

/// Bytes looked through at once where a file is not mapped: few at first, since the next batch
/// is often near, then twice as many each time up to the larger number.
const FIRST_SEARCH_SIZE: usize = 1024;
const SEARCH_SIZE: usize = 64 * 1024;

/// The size of an entry, of any magic, in its header.
const SIZE_FIELD: std::ops::Range<usize> = 8..12;

/// The search for batches behind damage, and how much work it may still do.
#[derive(Debug)]
pub(super) struct Resync {
    /// Bytes that may still be put through a checksum. Bytes made to look like headers
    /// everywhere would cost the square of the file's size without this.
    budget: u64,
}

impl Resync {
    pub(super) fn new(file_len: u64) -> Self {
        Self {
            budget: file_len.saturating_mul(4).saturating_add(1024 * 1024),
        }
    }

    /// The damage at `position`, of the kind its header shows, up to the next readable batch.
    pub(super) fn pass_over(
        &mut self,
        file: &MappedFile,
        position: u64,
        kind: DamageKind,
        readable: ReadableFields,
    ) -> Result<Damage, Error> {
        let available = file.len() - position;
        let next = match kind {
            DamageKind::UnknownMagic { .. } => self.next_by_size(file, position, readable)?,
            DamageKind::TornTail
            | DamageKind::ZeroTail
            | DamageKind::BadLength { .. }
            | DamageKind::BatchPastEnd { .. } => None,
        };
        let next = match next {
            Some(next) => Some(next),
            None => self.search(file, position + 1)?,
        };
        let size_in_bytes = next.map_or(available, |next| next - position);
        let kind = match (kind, next) {
            // Nothing readable comes after it: the last write was not finished.
            (DamageKind::BatchPastEnd { .. }, None) => DamageKind::TornTail,
            (kind, _) => kind,
        };
        Ok(Damage {
            kind,
            position,
            size_in_bytes,
            readable,
        })
    }

    /// Where the size field of an entry of unknown magic leads, if a batch or the end is there.
    fn next_by_size(
        &mut self,
        file: &MappedFile,
        position: u64,
        readable: ReadableFields,
    ) -> Result<Option<u64>, Error> {
        let Some(length) = readable
            .batch_length
            .and_then(|length| u64::try_from(length).ok())
        else {
            return Ok(None);
        };
        let next = position + LOG_OVERHEAD as u64 + length;
        if next == file.len() {
            return Ok(Some(next));
        }
        let mut head = [0; HEADER_SIZE];
        Ok((load(file, next, &mut head)? && self.is_batch(file, next, &head)?).then_some(next))
    }

    /// The first position from `start` on where a whole batch with a right checksum lies.
    fn search(&mut self, file: &MappedFile, start: u64) -> Result<Option<u64>, Error> {
        find_in_pieces(file, start, HEADER_SIZE - 1, |position, piece| {
            // The last bytes of a piece come again in the next one; those of the file may be a
            // legacy entry, which is shorter than a header of magic 2.
            let is_last = position + piece.len() as u64 == file.len();
            let width = if is_last { PREFIX_SIZE } else { HEADER_SIZE };
            let mut index = 0;
            while let Some(window) = piece.get(index..index + width) {
                // No batch is without a size, so none begins in a run of zeros: sparse files have
                // gigabytes of them.
                if window.get(SIZE_FIELD) == Some(&[0; 4]) {
                    let behind = index + SIZE_FIELD.end;
                    match first_non_zero(piece.get(behind..).unwrap_or_default()) {
                        Some(zeros) => index = behind + zeros + 1 - SIZE_FIELD.end,
                        None => break,
                    }
                    continue;
                }
                let at = position + index as u64;
                if may_begin_batch(window, file.len() - at)
                    && self.is_batch(file, at, slice_at(piece, index as u64, HEADER_SIZE))?
                {
                    return Ok(Some(at));
                }
                index += 1;
            }
            Ok(None)
        })
    }

    /// Whether `head` begins a whole batch with a right checksum.
    ///
    /// What no broker writes is ruled out before the checksum, which is dear: a random size
    /// field spans half the file on average, and a few of those would use up the budget.
    fn is_batch(&mut self, file: &MappedFile, position: u64, head: &[u8]) -> Result<bool, Error> {
        let available = file.len() - position;
        let fields = ReadableFields::from_prefix(head);
        if fields.base_offset.is_none_or(|offset| offset < 0) {
            return Ok(false);
        }
        match Found::from_header(fields, available) {
            Ok(Found::Batch { size_in_bytes }) => {
                let Ok(header) = RecordBatchHeader::ref_from(head) else {
                    return Ok(false);
                };
                Ok(is_plausible(header)
                    && self.spend(size_in_bytes)
                    && header.crc() == crc32c_of(file, position, size_in_bytes)?)
            }
            Ok(Found::Legacy { size_in_bytes }) => {
                let Ok(header) = LegacyRecordHeader::ref_from(head) else {
                    return Ok(false);
                };
                Ok(has_legacy_layout(file, position, header)?
                    && self.spend(size_in_bytes)
                    && header.crc() == crc32_of(file, position, size_in_bytes)?)
            }
            Ok(Found::Damage(_) | Found::BeingWritten { .. }) | Err(_) => Ok(false),
        }
    }

    fn spend(&mut self, bytes: u64) -> bool {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                true
            }
            None => false,
        }
    }
}

/// Whether only zeros lie from `position` to the end.
pub(super) fn is_zero_to_end(file: &MappedFile, position: u64) -> Result<bool, Error> {
    let other = find_in_pieces(file, position, 0, |_, piece| Ok(first_non_zero(piece)))?;
    Ok(other.is_none())
}

/// Where the first byte lies that is not zero.
fn first_non_zero(bytes: &[u8]) -> Option<usize> {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut passed = 0;
    for chunk in bytes.chunks(ZEROS.len()) {
        // Slices are compared much faster than bytes are looked at.
        if ZEROS.get(..chunk.len()) != Some(chunk) {
            let inside = chunk.iter().position(|byte| *byte != 0);
            return inside.map(|inside| passed + inside);
        }
        passed += chunk.len();
    }
    None
}

/// Hands the bytes from `start` on to `look` until it answers, each piece beginning with the
/// last `overlap` bytes of the one before.
fn find_in_pieces<T>(
    file: &MappedFile,
    start: u64,
    overlap: usize,
    mut look: impl FnMut(u64, &[u8]) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    if let Some(map) = file.mapped() {
        let rest = usize::try_from(start)
            .ok()
            .and_then(|start| map.get(start..));
        return look(start, rest.unwrap_or_default());
    }
    let mut buffer = Vec::new();
    let mut size = FIRST_SEARCH_SIZE;
    let mut position = start;
    while position < file.len() {
        let left = usize::try_from(file.len() - position).unwrap_or(usize::MAX);
        buffer.resize(size.min(left), 0);
        file.read_exact_at(&mut buffer, position)?;
        if let Some(answer) = look(position, &buffer)? {
            return Ok(Some(answer));
        }
        if buffer.len() == left {
            break;
        }
        position += (buffer.len() - overlap) as u64;
        size = (size * 2).min(SEARCH_SIZE);
    }
    Ok(None)
}

/// Whether offset, size and magic allow a batch: what almost every place fails, and cheap.
fn may_begin_batch(bytes: &[u8], available: u64) -> bool {
    let Some(&[offset, .., a, b, c, d, _, _, _, _, magic]) = bytes.first_chunk::<PREFIX_SIZE>()
    else {
        return false;
    };
    let length = u64::from(u32::from_be_bytes([a, b, c, d]));
    magic <= MAGIC_V2.unsigned_abs()
        && offset <= i8::MAX.unsigned_abs()
        && length >= u64::from(legacy_record::MIN_MESSAGE_SIZE_V0.unsigned_abs())
        && length + LOG_OVERHEAD as u64 <= available
}

/// Whether a broker would write such a header, whatever the checksum says.
fn is_plausible(header: &RecordBatchHeader) -> bool {
    let attributes = header.attributes();
    header.last_offset_delta() >= 0
        && header.records_count() >= 0
        && attributes.0 & Attributes::UNUSED_MASK == 0
        && attributes.compression_type().0 <= CompressionType::ZSTD.0
        && header.producer_id() >= NO_PRODUCER_ID
        && header.producer_epoch() >= NO_PRODUCER_EPOCH
        && header.base_sequence() >= NO_SEQUENCE
        && header.partition_leader_epoch() >= NO_PARTITION_LEADER_EPOCH
}

/// Whether key and value of a legacy entry fill it to the byte.
fn has_legacy_layout(
    file: &MappedFile,
    position: u64,
    header: &LegacyRecordHeader,
) -> Result<bool, Error> {
    let end = position + header.size_in_bytes();
    let fixed = LOG_OVERHEAD as u64 + u64::from(header.min_message_size().unsigned_abs());
    let key_at = position + fixed - 8;
    let Some(key) = length_at(file, key_at, end)? else {
        return Ok(false);
    };
    let Some(value) = length_at(file, key_at + 4 + key, end)? else {
        return Ok(false);
    };
    Ok(position + fixed + key + value == end)
}

/// The length field at `position`, 0 for null; `None` if it does not end before `end` or is none.
fn length_at(file: &MappedFile, position: u64, end: u64) -> Result<Option<u64>, Error> {
    let mut field = [0; 4];
    if position + 4 > end || !load(file, position, &mut field)? {
        return Ok(None);
    }
    Ok(match i32::from_be_bytes(field) {
        -1 => Some(0),
        length => u64::try_from(length).ok(),
    })
}

/// Fills `head` if the file has so many bytes at `position`.
fn load(file: &MappedFile, position: u64, head: &mut [u8]) -> Result<bool, Error> {
    if position.saturating_add(head.len() as u64) > file.len() {
        return Ok(false);
    }
    file.read_exact_at(head, position)?;
    Ok(true)
}

fn crc32c_of(file: &MappedFile, position: u64, size_in_bytes: u64) -> Result<u32, Error> {
    let mut crc = 0;
    let end = position + size_in_bytes;
    for_each_piece(file, position + CRC_START as u64, end, |piece| {
        crc = crc32c::crc32c_append(crc, piece);
    })?;
    Ok(crc)
}

fn crc32_of(file: &MappedFile, position: u64, size_in_bytes: u64) -> Result<u32, Error> {
    let mut hasher = crc32fast::Hasher::new();
    let start = position + legacy_record::CRC_START as u64;
    for_each_piece(file, start, position + size_in_bytes, |piece| {
        hasher.update(piece)
    })?;
    Ok(hasher.finalize())
}
