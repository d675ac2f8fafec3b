//! Gzip: RFC 1952 members of deflated bytes.
//!
//! | position | type   | field                                         |
//! |----------|--------|-----------------------------------------------|
//! | 0        | uint16 | `1f 8b`                                       |
//! | 2        | uint8  | method: 8, deflate                            |
//! | 3        | uint8  | flags; Java writes 0                          |
//! | 4        | 5      | time, extra flags; Java writes 0              |
//! | 9        | uint8  | operating system; 255 since JDK 16, 0 before  |
//! | 10       |        | the deflated bytes                            |
//! | end - 8  | uint32 | CRC-32 of the plain bytes, little-endian      |
//! | end - 4  | uint32 | length of the plain bytes, little-endian      |
//!
//! Decides `java.util.zip.GZIPInputStream`, `GzipOutputStream`.
#![allow(
    unsafe_code,
    reason = "only the original zlib, a C library, writes the bytes that Java writes"
)]
#![expect(
    clippy::little_endian_bytes,
    reason = "RFC 1952 stores its numbers little-endian"
)]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use flate2::{Decompress, FlushDecompress, Status};

use super::output::Output;
use super::{CompressError, malformed};
use crate::error::DecodeError;

const CODEC: &str = "gzip";
const MAGIC: [u8; 2] = [0x1f, 0x8b];
const METHOD_DEFLATE: u8 = 8;
const FIXED_HEADER_SIZE: usize = 10;
const TRAILER_SIZE: usize = 8;
/// An empty member has ten bytes of header, two of deflate and eight of trailer. Java takes
/// up to 18 bytes behind a trailer for no member without looking at them.
const NO_MEMBER_SIZE: usize = 18;
const FLAG_HEADER_CRC: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;

/// Inflates; keeps its window between streams.
#[derive(Debug)]
pub(super) struct GzipDecoder {
    inflate: Decompress,
}

impl GzipDecoder {
    /// A decoder for any number of streams.
    pub(super) fn new() -> Self {
        Self {
            inflate: Decompress::new(false),
        }
    }

    /// All members of `input`. Bytes behind a member that do not begin another one are
    /// ignored, as Java does.
    pub(super) fn decode(&mut self, input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        let mut position = header_size(input)?;
        loop {
            position = self.member(input, position, output)?;
            let rest = input.get(position..).unwrap_or_default();
            if rest.len() <= NO_MEMBER_SIZE {
                return Ok(());
            }
            match header_size(rest) {
                Ok(size) => position += size,
                Err(_) => return Ok(()),
            }
        }
    }

    /// The member whose deflated bytes begin at `position`; returns where it ends.
    fn member(
        &mut self,
        input: &[u8],
        mut position: usize,
        output: &mut Output,
    ) -> Result<usize, DecodeError> {
        self.inflate.reset(false);
        let mut crc = crc32fast::Hasher::new();
        let mut length = 0u32;
        loop {
            let rest = input.get(position..).unwrap_or_default();
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let space = output.space(1);
            let status = self
                .inflate
                .decompress(rest, space, FlushDecompress::None)
                .map_err(|error| malformed(CODEC, position, &error))?;
            let read = size(self.inflate.total_in() - read);
            let written = size(self.inflate.total_out() - written);
            crc.update(space.get(..written).unwrap_or_default());
            #[expect(
                clippy::cast_possible_truncation,
                reason = "RFC 1952 counts modulo 2^32"
            )]
            let counted = written as u32;
            length = length.wrapping_add(counted);
            output.advance(written)?;
            position += read;
            match status {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {
                    if read == 0 && written == 0 {
                        return Err(malformed(CODEC, position, "stream ends early"));
                    }
                }
            }
        }
        check_trailer(input, position, crc.finalize(), length)?;
        Ok(position + TRAILER_SIZE)
    }
}

/// A count of bytes that are in memory, so it fits.
fn size(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn check_trailer(input: &[u8], position: usize, crc: u32, length: u32) -> Result<(), DecodeError> {
    let rest = input.get(position..).unwrap_or_default();
    let Some(&[c0, c1, c2, c3, l0, l1, l2, l3]) = rest.first_chunk::<TRAILER_SIZE>() else {
        return Err(malformed(CODEC, position, "trailer is cut short"));
    };
    if u32::from_le_bytes([c0, c1, c2, c3]) != crc {
        return Err(malformed(CODEC, position, "checksum does not match"));
    }
    if u32::from_le_bytes([l0, l1, l2, l3]) != length {
        return Err(malformed(CODEC, position + 4, "length does not match"));
    }
    Ok(())
}

/// Bytes of the member header at the beginning of `bytes` (`GZIPInputStream.readHeader`).
fn header_size(bytes: &[u8]) -> Result<usize, DecodeError> {
    let Some(&[m0, m1, method, flags, ..]) = bytes.first_chunk::<FIXED_HEADER_SIZE>() else {
        return Err(malformed(CODEC, 0, "header is cut short"));
    };
    if [m0, m1] != MAGIC {
        return Err(malformed(CODEC, 0, "does not begin with 1f 8b"));
    }
    if method != METHOD_DEFLATE {
        return Err(malformed(CODEC, 2, "method is not deflate"));
    }
    let mut size = FIXED_HEADER_SIZE;
    let cut = || malformed(CODEC, bytes.len(), "header is cut short");
    if flags & FLAG_EXTRA != 0 {
        let length = two_bytes(bytes, size).ok_or_else(cut)?;
        size += 2 + usize::from(length);
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let text = bytes.get(size..).ok_or_else(cut)?;
            size += text.iter().position(|&byte| byte == 0).ok_or_else(cut)? + 1;
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        let stored = two_bytes(bytes, size).ok_or_else(cut)?;
        let computed = crc32fast::hash(bytes.get(..size).unwrap_or_default());
        if u32::from(stored) != computed & 0xffff {
            return Err(malformed(CODEC, size, "header checksum does not match"));
        }
        size += 2;
    }
    if size > bytes.len() {
        return Err(cut());
    }
    Ok(size)
}

fn two_bytes(bytes: &[u8], position: usize) -> Option<u16> {
    let &pair = bytes.get(position..)?.first_chunk::<2>()?;
    Some(u16::from_le_bytes(pair))
}

/// Windows of 32 KiB, and no header or trailer of zlib's own, which the sign says.
const RAW_WINDOW_BITS: c_int = -15;
/// zlib's default, and Java's.
const MEMORY_LEVEL: c_int = 8;
/// What Java writes since JDK 16: no time, no flags, unknown operating system.
const HEADER: [u8; FIXED_HEADER_SIZE] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Appends `input` as one member, byte for byte as Java does at that level.
pub(super) fn encode(input: &[u8], level: i32, out: &mut Vec<u8>) -> Result<(), CompressError> {
    out.extend_from_slice(&HEADER);
    deflate(input, level, out)?;
    out.extend_from_slice(&crc32fast::hash(input).to_le_bytes());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "RFC 1952 counts modulo 2^32"
    )]
    let length = input.len() as u32;
    out.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

/// zlib's state, given back to it in the end.
///
/// Boxed, because zlib refuses a state that has moved. Only zlib and raw field writes touch
/// it: its function pointers may be null, which no reference to it may see.
struct Deflater(Box<MaybeUninit<libz_sys::z_stream>>);

impl Deflater {
    fn new(level: i32) -> Result<Self, CompressError> {
        let mut stream = Box::new(MaybeUninit::<libz_sys::z_stream>::zeroed());
        // SAFETY: the stream is zeroed, which zlib takes as "use your own allocator", and it
        // stays at its place; version and size are those of the header it was compiled with.
        let code = unsafe {
            libz_sys::deflateInit2_(
                stream.as_mut_ptr(),
                level,
                libz_sys::Z_DEFLATED,
                RAW_WINDOW_BITS,
                MEMORY_LEVEL,
                libz_sys::Z_DEFAULT_STRATEGY,
                libz_sys::zlibVersion(),
                c_int::try_from(size_of::<libz_sys::z_stream>()).unwrap_or(0),
            )
        };
        if code == libz_sys::Z_OK {
            Ok(Self(stream))
        } else {
            Err(CompressError::codec(CODEC, "no memory"))
        }
    }
}

impl Drop for Deflater {
    fn drop(&mut self) {
        // SAFETY: the stream was initialised by deflateInit2_ and is ended only here.
        unsafe { libz_sys::deflateEnd(self.0.as_mut_ptr()) };
    }
}

/// Appends `input` deflated by one call with `Z_FINISH`.
fn deflate(input: &[u8], level: i32, out: &mut Vec<u8>) -> Result<(), CompressError> {
    let input_size = libz_sys::uInt::try_from(input.len()).map_err(|_| CompressError::TooLarge)?;
    let mut deflater = Deflater::new(level)?;
    let stream = deflater.0.as_mut_ptr();
    // SAFETY: the stream is initialised; the call reads its parameters only.
    let bound = unsafe { libz_sys::deflateBound(stream, input_size.into()) };
    let bound = libz_sys::uInt::try_from(bound).map_err(|_| CompressError::TooLarge)?;
    let start = out.len();
    out.resize(start + bound as usize, 0);
    let space = out.get_mut(start..).unwrap_or_default();
    // SAFETY: input and space stay borrowed over the call and have the lengths given; zlib does
    // not write through next_in. Fields are written in place, without a reference to the whole.
    let (code, left) = unsafe {
        ptr::addr_of_mut!((*stream).next_in).write(input.as_ptr().cast_mut());
        ptr::addr_of_mut!((*stream).avail_in).write(input_size);
        ptr::addr_of_mut!((*stream).next_out).write(space.as_mut_ptr());
        ptr::addr_of_mut!((*stream).avail_out).write(bound);
        let code = libz_sys::deflate(stream, libz_sys::Z_FINISH);
        (code, ptr::addr_of!((*stream).avail_out).read())
    };
    out.truncate(out.len() - left as usize);
    if code == libz_sys::Z_STREAM_END {
        Ok(())
    } else {
        Err(CompressError::codec(CODEC, "deflate did not finish"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(input: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut output = Output::default();
        output.reset(1000);
        GzipDecoder::new().decode(input, &mut output)?;
        Ok(output.filled().to_vec())
    }

    fn member(plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(plain, -1, &mut out).unwrap();
        out
    }

    #[test]
    fn members_follow_each_other_and_other_bytes_are_ignored() {
        let mut stream = member(b"one ");
        stream.extend(member(b"two"));
        assert_eq!(decode(&stream).unwrap(), b"one two");
        stream.extend([0; 40]);
        assert_eq!(decode(&stream).unwrap(), b"one two");
        // Something that begins like a member has to be one.
        stream.truncate(stream.len() - 40);
        stream.extend(&member(b"three, in more words than that")[..25]);
        assert!(decode(&stream).is_err());
    }

    #[test]
    fn optional_header_fields_are_skipped() {
        let plain = member(b"named");
        let mut stream = vec![0x1f, 0x8b, 8, 4 | 8 | 16 | 2, 0, 0, 0, 0, 0, 3];
        stream.extend([2, 0, b'e', b'x']);
        stream.extend(b"name\0comment\0");
        let crc = crc32fast::hash(&stream).to_le_bytes();
        stream.extend(&crc[..2]);
        let header = stream.len();
        stream.extend(&plain[FIXED_HEADER_SIZE..]);
        assert_eq!(decode(&stream).unwrap(), b"named");
        stream[header - 1] ^= 1;
        assert!(
            decode(&stream)
                .unwrap_err()
                .to_string()
                .contains("header checksum")
        );
        assert!(decode(&stream[..header - 4]).is_err());
    }

    #[test]
    fn trailer_is_checked() {
        let stream = member(b"checked");
        for (from_end, word) in [(8, "checksum"), (4, "length")] {
            let mut damaged = stream.clone();
            damaged[stream.len() - from_end] ^= 1;
            assert!(decode(&damaged).unwrap_err().to_string().contains(word));
        }
        assert!(decode(&stream[..stream.len() - 1]).is_err());
    }
}
