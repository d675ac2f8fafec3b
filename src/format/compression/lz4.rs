//! LZ4 frames.
//!
//! | position | type   | field                                                   |
//! |----------|--------|---------------------------------------------------------|
//! | 0        | uint32 | `04 22 4d 18`                                           |
//! | 4        | uint8  | FLG: version 1 (bits 6-7), independent blocks (5), block checksums (4), |
//! |          |        | content size (3), content checksum (2)                  |
//! | 5        | uint8  | BD: largest block (bits 4-6): 4 to 7 are 64 KiB to 4 MiB |
//! | 6        | 8      | content size, if FLG says so                            |
//! |          | uint8  | HC: second byte of XXH32 over FLG to content size       |
//! |          | uint32 | per block: its length, the top bit set if it is stored  |
//! |          |        | its bytes, then their XXH32 if FLG says so              |
//! | end      | uint32 | 0, then a checksum of the content if FLG says so        |
//!
//! Numbers are little-endian. Writers of magic 0 computed HC over the first four bytes as well;
//! readers of magic 0 ignore it. Kafka refuses dependent blocks and skips the content checksum
//! and size. One thing is not as in Kafka: a match at offset 0, which the block format forbids,
//! is refused, while lz4-java's native decoder makes zeros of it.
//!
//! Decides `Lz4BlockInputStream`, `Lz4BlockOutputStream`.
#![allow(
    unsafe_code,
    reason = "only the original LZ4, a C library, writes the bytes that lz4-java writes"
)]
#![expect(
    clippy::little_endian_bytes,
    reason = "LZ4 frames store their numbers little-endian"
)]

use std::ffi::c_int;

use lz4_flex::block::{DecompressError, decompress_into};

use super::output::Output;
use super::xxhash32::xxhash32;
use super::{CompressError, malformed};
use crate::error::DecodeError;

const CODEC: &str = "lz4";
const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const FLG_RESERVED: u8 = 0x03;
const FLG_CONTENT_CHECKSUM: u8 = 0x04;
const FLG_CONTENT_SIZE: u8 = 0x08;
const FLG_BLOCK_CHECKSUM: u8 = 0x10;
const FLG_BLOCK_INDEPENDENCE: u8 = 0x20;
const FLG_VERSION_1: u8 = 0x40;
const FLG_VERSION_MASK: u8 = 0xc0;
/// All of BD but the size of the blocks.
const BD_RESERVED: u8 = 0x8f;
const STORED_BIT: u32 = 0x8000_0000;
/// No byte of a block makes more than 255: those are the bytes of a long length.
const MAX_EXPANSION: usize = 255;
/// Bytes a block can make without any of them: a short match.
const MIN_SPACE: usize = 64;

/// What the descriptor says.
struct Descriptor {
    flags: u8,
    max_block_size: usize,
    size: usize,
}

/// Appends what the frame at the beginning of `input` holds; bytes behind it are ignored.
pub(super) fn decode(input: &[u8], magic: i8, output: &mut Output) -> Result<(), DecodeError> {
    let descriptor = descriptor(input, magic == 0)?;
    let checksum_size = if descriptor.flags & FLG_BLOCK_CHECKSUM == 0 {
        0
    } else {
        4
    };
    let mut position = descriptor.size;
    loop {
        let length = number(input, position)?;
        let stored = length & STORED_BIT != 0;
        let length = (length & !STORED_BIT) as usize;
        position += 4;
        if length == 0 {
            break;
        }
        if length > descriptor.max_block_size {
            return Err(malformed(
                CODEC,
                position - 4,
                "block is larger than the frame allows",
            ));
        }
        let end = position + length;
        let block = input
            .get(position..end)
            .ok_or_else(|| malformed(CODEC, position, "block is cut short"))?;
        if stored {
            output.extend(block)?;
        } else {
            decode_block(block, position, descriptor.max_block_size, output)?;
        }
        if checksum_size != 0 && number(input, end)? != xxhash32(block) {
            return Err(malformed(CODEC, end, "block checksum does not match"));
        }
        position = end + checksum_size;
    }
    if descriptor.flags & FLG_CONTENT_CHECKSUM != 0 {
        // Kafka takes the four bytes and does not look at them.
        number(input, position)?;
    }
    Ok(())
}

fn decode_block(
    block: &[u8],
    position: usize,
    max_block_size: usize,
    output: &mut Output,
) -> Result<(), DecodeError> {
    let wanted = block
        .len()
        .saturating_mul(MAX_EXPANSION)
        .saturating_add(MIN_SPACE)
        .min(max_block_size);
    let allowed = output.remaining();
    let space = output.space(wanted);
    let given = space.len().min(wanted);
    match decompress_into(block, space.get_mut(..given).unwrap_or_default()) {
        Ok(written) => output.advance(written),
        Err(DecompressError::OutputTooSmall { .. }) if given > allowed => Err(output.over_limit()),
        Err(error) => Err(malformed(CODEC, position, &error)),
    }
}

fn number(input: &[u8], position: usize) -> Result<u32, DecodeError> {
    let bytes = input.get(position..).and_then(<[u8]>::first_chunk::<4>);
    let bytes = bytes.ok_or_else(|| malformed(CODEC, position, "frame ends early"))?;
    Ok(u32::from_le_bytes(*bytes))
}

fn descriptor(input: &[u8], ignore_checksum: bool) -> Result<Descriptor, DecodeError> {
    let Some(&[m0, m1, m2, m3, flags, sizes]) = input.first_chunk::<6>() else {
        return Err(malformed(CODEC, 0, "frame ends early"));
    };
    if [m0, m1, m2, m3] != MAGIC {
        return Err(malformed(CODEC, 0, "does not begin with 04 22 4d 18"));
    }
    if flags & FLG_RESERVED != 0 {
        return Err(malformed(CODEC, 4, "reserved flags are set"));
    }
    if flags & FLG_BLOCK_INDEPENDENCE == 0 {
        return Err(malformed(CODEC, 4, "blocks depend on each other"));
    }
    if flags & FLG_VERSION_MASK != FLG_VERSION_1 {
        return Err(malformed(CODEC, 4, "version is not 1"));
    }
    let block_size = sizes >> 4;
    if sizes & BD_RESERVED != 0 || !(4..=7).contains(&block_size) {
        return Err(malformed(CODEC, 5, "block size is not 4 to 7"));
    }
    let end = if flags & FLG_CONTENT_SIZE == 0 { 6 } else { 14 };
    let (Some(descriptor), Some(&stored)) = (input.get(4..end), input.get(end)) else {
        return Err(malformed(CODEC, input.len(), "frame ends early"));
    };
    if !ignore_checksum && stored != second_byte(xxhash32(descriptor)) {
        return Err(malformed(CODEC, end, "descriptor checksum does not match"));
    }
    Ok(Descriptor {
        flags,
        max_block_size: 1 << (2 * block_size + 8),
        size: end + 1,
    })
}

fn second_byte(hash: u32) -> u8 {
    let [_, second, ..] = hash.to_le_bytes();
    second
}

/// Kafka's default level, the one that takes the fast compressor.
pub(super) const DEFAULT_LEVEL: i32 = 9;
/// Version 1, independent blocks, nothing else.
const WRITTEN_FLAGS: u8 = FLG_VERSION_1 | FLG_BLOCK_INDEPENDENCE;
/// 64 KiB.
const WRITTEN_SIZES: u8 = 0x40;
const WRITTEN_BLOCK_SIZE: usize = 64 * 1024;

/// Appends `input` as a frame, byte for byte as Kafka does for a batch of that magic.
pub(super) fn encode(
    input: &[u8],
    level: i32,
    magic: i8,
    out: &mut Vec<u8>,
) -> Result<(), CompressError> {
    let [m0, m1, m2, m3] = MAGIC;
    let header = [m0, m1, m2, m3, WRITTEN_FLAGS, WRITTEN_SIZES];
    let checksum = if magic == 0 {
        xxhash32(&header)
    } else {
        xxhash32(&[WRITTEN_FLAGS, WRITTEN_SIZES])
    };
    out.extend_from_slice(&header);
    out.push(second_byte(checksum));
    let mut compressed = Vec::new();
    for block in input.chunks(WRITTEN_BLOCK_SIZE) {
        let size = compress_block(block, level, &mut compressed)?;
        let (length, stored, bytes) = if size >= block.len() {
            (block.len(), STORED_BIT, block)
        } else {
            (size, 0, compressed.get(..size).unwrap_or_default())
        };
        let length = u32::try_from(length).map_err(|_| CompressError::TooLarge)?;
        out.extend_from_slice(&(length | stored).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&[0; 4]);
    Ok(())
}

/// Compresses a block of at most 64 KiB to the front of `out`; returns how many bytes it has.
fn compress_block(block: &[u8], level: i32, out: &mut Vec<u8>) -> Result<usize, CompressError> {
    let block_size = c_int::try_from(block.len()).map_err(|_| CompressError::TooLarge)?;
    // SAFETY: the function computes with its argument and touches no memory.
    let bound = unsafe { lz4_sys::LZ4_compressBound(block_size) };
    out.resize(usize::try_from(bound).unwrap_or(0).max(out.len()), 0);
    let capacity = c_int::try_from(out.len()).map_err(|_| CompressError::TooLarge)?;
    let source = block.as_ptr().cast();
    let target = out.as_mut_ptr().cast();
    // SAFETY: source and target are valid for the lengths given, for the call, and apart.
    let written = unsafe {
        if level == DEFAULT_LEVEL {
            lz4_sys::LZ4_compress_default(source, target, block_size, capacity)
        } else {
            lz4_sys::LZ4_compress_HC(source, target, block_size, capacity, level)
        }
    };
    match usize::try_from(written) {
        Ok(written) if written > 0 => Ok(written),
        _ => Err(CompressError::codec(CODEC, "block could not be compressed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frame: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut output = Output::default();
        output.reset(1000);
        decode(frame, 2, &mut output)?;
        Ok(output.filled().to_vec())
    }

    /// A frame with one stored block.
    fn frame(flags: u8, content_size: &[u8], tail: &[u8]) -> Vec<u8> {
        let mut frame = MAGIC.to_vec();
        frame.extend([flags, WRITTEN_SIZES]);
        frame.extend(content_size);
        frame.push(second_byte(xxhash32(&frame[4..])));
        frame.extend((5 | STORED_BIT).to_le_bytes());
        frame.extend(b"plain");
        frame.extend(tail);
        frame
    }

    #[test]
    fn block_checksum_and_content_size_are_accepted() {
        let mut tail = xxhash32(b"plain").to_le_bytes().to_vec();
        tail.extend([0; 4]);
        let flags = WRITTEN_FLAGS | FLG_BLOCK_CHECKSUM | FLG_CONTENT_SIZE;
        assert_eq!(read(&frame(flags, &[0; 8], &tail)).unwrap(), b"plain");
        tail[0] ^= 1;
        let error = read(&frame(flags, &[0; 8], &tail)).unwrap_err();
        assert!(error.to_string().contains("block checksum"), "{error}");
    }

    #[test]
    fn content_checksum_must_be_there_and_is_not_looked_at() {
        let flags = WRITTEN_FLAGS | FLG_CONTENT_CHECKSUM;
        assert_eq!(
            read(&frame(flags, &[], &[0, 0, 0, 0, 9, 9, 9, 9])).unwrap(),
            b"plain"
        );
        assert!(read(&frame(flags, &[], &[0, 0, 0, 0, 9, 9, 9])).is_err());
    }

    #[test]
    fn dependent_blocks_other_versions_and_reserved_bits_are_refused() {
        for flags in [FLG_VERSION_1, 0xa0, WRITTEN_FLAGS | 1] {
            assert!(read(&frame(flags, &[], &[0; 4])).is_err(), "{flags:#x}");
        }
        assert_eq!(read(&frame(WRITTEN_FLAGS, &[], &[0; 4])).unwrap(), b"plain");
    }
}
