//! Snappy in the framing of snappy-java, also called xerial framing.
//!
//! | position | type  | field                                    |
//! |----------|-------|------------------------------------------|
//! | 0        | 8     | `82 53 4e 41 50 50 59 00`                |
//! | 8        | int32 | version: 1                               |
//! | 12       | int32 | oldest version that can read it: 1       |
//! | 16       |       | blocks: int32 length, a raw snappy block |
//!
//! Anything that does not begin this way is one raw block. A raw block is the plain length as
//! uvarint, then literals (tag bits `00`) and copies (`01`: length 4-11, offset below 2048;
//! `10`: length 1-64, 16-bit offset), as the published format description of snappy has it.
//!
//! Decides `org.xerial.snappy.SnappyInputStream` and `SnappyOutputStream` 1.1.10.
#![expect(
    clippy::little_endian_bytes,
    reason = "snappy blocks are little-endian"
)]

use snap::raw::{Decoder, decompress_len};

use super::malformed;
use super::output::Output;
use crate::error::DecodeError;
use crate::format::varint::write_unsigned;

const CODEC: &str = "snappy";
const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_SIZE: usize = 16;
const VERSION: i32 = 1;
const MINIMUM_COMPATIBLE_VERSION: i32 = 1;
/// A block length with these bytes is the header of a further stream put behind the first.
const MAGIC_HEAD: [u8; 4] = [0x82, b'S', b'N', b'A'];
/// Plain bytes of a block as snappy-java writes it by default.
const BLOCK_SIZE: usize = 32 * 1024;
/// No element makes more of its bytes than a copy with 16-bit offset: 64 out of 3. A plain
/// length beyond that is a lie, and is not allocated.
const MAX_EXPANSION: (usize, usize) = (64, 3);

/// Appends what `input` holds: a framed stream, or else one raw block.
pub(super) fn decode(input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
    if input.is_empty() {
        return Err(malformed(CODEC, 0, "stream is empty"));
    }
    if input.len() < HEADER_SIZE || !input.starts_with(&MAGIC) {
        return raw_block(input, 0, output);
    }
    // The versions of this first header are not looked at, those of further ones are.
    let mut position = HEADER_SIZE;
    // Up to three bytes at the end are no length and are left alone, as snappy-java does.
    while let Some(&length) = input.get(position..).and_then(<[u8]>::first_chunk::<4>) {
        if length == MAGIC_HEAD {
            let rest = input.get(position..).unwrap_or_default();
            if rest.len() < HEADER_SIZE {
                return Err(malformed(CODEC, position, "further header is cut short"));
            }
            if !rest.starts_with(&MAGIC) {
                return Ok(());
            }
            check_version(input, position)?;
            position += HEADER_SIZE;
            continue;
        }
        let length = usize::try_from(i32::from_be_bytes(length))
            .map_err(|_| malformed(CODEC, position, "block length is negative"))?;
        position += 4;
        let end = position.saturating_add(length);
        let block = input
            .get(position..end)
            .ok_or_else(|| malformed(CODEC, position, "block is cut short"))?;
        raw_block(block, position, output)?;
        position = end;
    }
    Ok(())
}

fn check_version(input: &[u8], position: usize) -> Result<(), DecodeError> {
    let version = input
        .get(position + MAGIC.len()..)
        .and_then(<[u8]>::first_chunk::<4>)
        .map(|bytes| i32::from_be_bytes(*bytes));
    match version {
        Some(version) if version >= MINIMUM_COMPATIBLE_VERSION => Ok(()),
        _ => Err(malformed(
            CODEC,
            position + MAGIC.len(),
            "version is not compatible",
        )),
    }
}

fn raw_block(block: &[u8], position: usize, output: &mut Output) -> Result<(), DecodeError> {
    if block.is_empty() {
        return Err(malformed(CODEC, position, "block is empty"));
    }
    let length = decompress_len(block).map_err(|error| malformed(CODEC, position, &error))?;
    if length > output.remaining() {
        return Err(output.over_limit());
    }
    let (most, of) = MAX_EXPANSION;
    if length / most > block.len() / of + 1 {
        let reason = format!("block of {} bytes claims to hold {length}", block.len());
        return Err(malformed(CODEC, position, reason));
    }
    let space = output.space(length).get_mut(..length).unwrap_or_default();
    let written = Decoder::new()
        .decompress(block, space)
        .map_err(|error| malformed(CODEC, position, &error))?;
    output.advance(written)
}

/// Appends `input` in the framing, byte for byte as snappy-java does.
pub(super) fn encode(input: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&MINIMUM_COMPATIBLE_VERSION.to_be_bytes());
    let mut encoder = BlockEncoder::new();
    for block in input.chunks(BLOCK_SIZE) {
        let length_position = out.len();
        out.extend_from_slice(&[0; 4]);
        encoder.encode(block, out);
        let length = out.len() - length_position - 4;
        let length = i32::try_from(length).unwrap_or(i32::MAX);
        if let Some(place) = out.get_mut(length_position..length_position + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }
}

/// Entries of the hash table: a power of two between these.
const MIN_TABLE_SIZE: usize = 1 << 8;
const MAX_TABLE_SIZE: usize = 1 << 14;
/// The multiplier of the hash.
const HASH_FACTOR: u32 = 0x1e35_a7bd;
/// Bits the product is moved down by: the top 14, whatever the size of the table. The smaller
/// tables mask them, unlike other encoders, which move further.
const HASH_SHIFT: u32 = 18;
/// No match is looked for in the last bytes of a block.
const INPUT_MARGIN: usize = 15;
/// Every 32 misses the search takes larger steps.
const SKIP_START: usize = 32;
const SKIP_SHIFT: usize = 5;
const MIN_MATCH: usize = 4;

/// Encodes raw blocks of at most 64 KiB by greedy search through one hash table.
struct BlockEncoder {
    table: Vec<u16>,
}

impl BlockEncoder {
    fn new() -> Self {
        Self {
            table: vec![0; MAX_TABLE_SIZE],
        }
    }

    /// Appends `block` as a raw block.
    fn encode(&mut self, block: &[u8], out: &mut Vec<u8>) {
        write_unsigned(block.len() as u64, out);
        let size = block
            .len()
            .next_power_of_two()
            .clamp(MIN_TABLE_SIZE, MAX_TABLE_SIZE);
        let table = self.table.get_mut(..size).unwrap_or_default();
        table.fill(0);
        let literal_start = search(block, table, out);
        emit_literal(block.get(literal_start..).unwrap_or_default(), out);
    }
}

/// Emits all matches and the literals between them; returns where the last literal begins.
fn search(block: &[u8], table: &mut [u16], out: &mut Vec<u8>) -> usize {
    let Some(limit) = block.len().checked_sub(INPUT_MARGIN) else {
        return 0;
    };
    let mut literal_start = 0;
    // Position 0 is never looked up, but empty slots of the table point to it.
    let mut position = 1;
    while let Some((found, candidate)) = next_match(block, table, position, limit) {
        emit_literal(block.get(literal_start..found).unwrap_or_default(), out);
        let (mut at, mut candidate) = (found, candidate);
        loop {
            let length = match_length(block, candidate, at);
            emit_copy(at - candidate, length, out);
            at += length;
            literal_start = at;
            if at >= limit {
                return literal_start;
            }
            remember(table, word(block, at - 1), at - 1);
            let current = word(block, at);
            candidate = remember(table, current, at);
            if word(block, candidate) != current {
                break;
            }
        }
        position = at + 1;
    }
    literal_start
}

/// The next place at or behind `position` whose four bytes have been seen, and where.
fn next_match(
    block: &[u8],
    table: &mut [u16],
    mut position: usize,
    limit: usize,
) -> Option<(usize, usize)> {
    let mut skip = SKIP_START;
    loop {
        let step = skip >> SKIP_SHIFT;
        skip += step;
        let next = position + step;
        if next > limit {
            return None;
        }
        let current = word(block, position);
        let candidate = remember(table, current, position);
        if word(block, candidate) == current {
            return Some((position, candidate));
        }
        position = next;
    }
}

/// Puts `position` into the slot of `word`; returns what was there.
fn remember(table: &mut [u16], word: u32, position: usize) -> usize {
    let hash = (word.wrapping_mul(HASH_FACTOR) >> HASH_SHIFT) as usize & (table.len() - 1);
    let position = u16::try_from(position).unwrap_or(u16::MAX);
    let slot = table.get_mut(hash);
    slot.map_or(0, |slot| usize::from(std::mem::replace(slot, position)))
}

/// Four bytes as a number; 0 past the end, where nobody asks.
fn word(block: &[u8], position: usize) -> u32 {
    let bytes = block.get(position..).and_then(<[u8]>::first_chunk::<4>);
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// Bytes that are the same at both places; the first four are known to be.
fn match_length(block: &[u8], candidate: usize, position: usize) -> usize {
    let earlier = block.get(candidate + MIN_MATCH..).unwrap_or_default();
    let later = block.get(position + MIN_MATCH..).unwrap_or_default();
    let same = earlier.iter().zip(later).take_while(|(a, b)| a == b);
    MIN_MATCH + same.count()
}

/// Lengths up to this many bytes lie in the tag.
const MAX_SHORT_LITERAL: usize = 60;

fn emit_literal(bytes: &[u8], out: &mut Vec<u8>) {
    let Some(length) = bytes.len().checked_sub(1) else {
        return;
    };
    // A block has at most 64 KiB, so two bytes of length are enough.
    let [low, high, ..] = length.to_le_bytes();
    if length < MAX_SHORT_LITERAL {
        out.push(low << 2);
    } else if high == 0 {
        out.extend_from_slice(&[60 << 2, low]);
    } else {
        out.extend_from_slice(&[61 << 2, low, high]);
    }
    out.extend_from_slice(bytes);
}

/// The longest copy one element can say.
const MAX_COPY: usize = 64;
/// From this length on, a copy of 64 leaves at least four bytes for the next.
const LONG_COPY: usize = MAX_COPY + MIN_MATCH;

fn emit_copy(offset: usize, mut length: usize, out: &mut Vec<u8>) {
    while length >= LONG_COPY {
        emit_copy_element(offset, MAX_COPY, out);
        length -= MAX_COPY;
    }
    if length > MAX_COPY {
        // 65 to 67: 60 first, so that the rest is not below four.
        emit_copy_element(offset, MAX_COPY - MIN_MATCH, out);
        length -= MAX_COPY - MIN_MATCH;
    }
    emit_copy_element(offset, length, out);
}

fn emit_copy_element(offset: usize, length: usize, out: &mut Vec<u8>) {
    let [offset_low, offset_high, ..] = offset.to_le_bytes();
    let [length, ..] = length.to_le_bytes();
    if length < 12 && offset < 2048 {
        out.extend_from_slice(&[(offset_high << 5) | ((length - 4) << 2) | 1, offset_low]);
    } else {
        out.extend_from_slice(&[((length - 1) << 2) | 2, offset_low, offset_high]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut output = Output::default();
        output.reset(1 << 20);
        decode(stream, &mut output)?;
        Ok(output.filled().to_vec())
    }

    fn framed(plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(plain, &mut out);
        out
    }

    #[test]
    fn bare_blocks_and_streams_behind_each_other_are_read() {
        let one = framed(b"a plain block that repeats, a plain block that repeats");
        assert_eq!(read(&one[HEADER_SIZE + 4..]).unwrap(), read(&one).unwrap());
        let mut two = one.clone();
        two.extend(framed(b"!"));
        assert_eq!(read(&two).unwrap().last(), Some(&b'!'));
        // A length that is cut short is no block.
        two.extend([0, 0, 0]);
        assert_eq!(read(&two).unwrap().last(), Some(&b'!'));
        assert!(read(&one[..one.len() - 1]).is_err());
        assert!(read(b"").is_err());
    }

    #[test]
    fn impossible_plain_length_is_not_allocated() {
        // One byte of block, 512 KiB of plain length.
        let error = read(&[0x80, 0x80, 0x20, 0]).unwrap_err();
        assert!(
            error.to_string().contains("claims to hold 524288"),
            "{error}"
        );
    }
}
