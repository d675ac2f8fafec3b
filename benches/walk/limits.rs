//! The machine's own limits, over the same bytes: what no walk can beat.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memmap2::Mmap;

use crate::Result;

/// Position of batchLength in a batch, and of the byte after it.
const BATCH_LENGTH: usize = 8;
const BATCH_LENGTH_END: usize = 12;
/// Where the bytes under the checksum begin.
const CRC_START: usize = 21;
const CHUNK: usize = 256 * 1024;

/// A new map of a file.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the file is this program's own data, and nothing changes it meanwhile.
    #[expect(unsafe_code, reason = "mapping is what is measured")]
    let map = unsafe { Mmap::map(&file)? };
    Ok(map)
}

/// Reads every word once.
pub(crate) fn sum_words(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words
        .iter()
        .fold(0, |sum, word| sum.wrapping_add(u64::from_be_bytes(*word)))
}

/// Copies every byte once, into a buffer that stays in the cache.
pub(crate) fn copy(bytes: &[u8]) -> u64 {
    let mut buffer = vec![0; CHUNK];
    let mut copied = 0;
    for chunk in bytes.chunks(CHUNK) {
        if let Some(target) = buffer.get_mut(..chunk.len()) {
            target.copy_from_slice(chunk);
            std::hint::black_box(&target);
        }
        copied += chunk.len() as u64;
    }
    copied
}

/// Size of the batch at `position`, `None` at the end.
#[inline(always)]
pub(crate) fn size_at(bytes: &[u8], position: usize) -> Option<usize> {
    let header = bytes.get(position..)?;
    let length: [u8; 4] = header
        .get(BATCH_LENGTH..BATCH_LENGTH_END)?
        .try_into()
        .ok()?;
    Some(BATCH_LENGTH_END + usize::try_from(u32::from_be_bytes(length)).ok()?)
}

/// Follows the lengths and looks at nothing else. Returns the batches.
pub(crate) fn follow(bytes: &[u8]) -> u64 {
    let mut position = 0;
    let mut batches = 0;
    while let Some(size) = size_at(bytes, position) {
        position += size;
        batches += 1;
    }
    batches
}

/// The same, fetching the cache line `DISTANCE` bytes ahead.
pub(crate) fn follow_prefetching<const DISTANCE: usize>(bytes: &[u8]) -> u64 {
    let mut position = 0;
    let mut batches = 0;
    let mut fetched = 0;
    while let Some(size) = size_at(bytes, position) {
        position += size;
        batches += 1;
        let wanted = position + DISTANCE;
        fetched = fetched.max(position);
        while fetched < wanted {
            prefetch(bytes, fetched);
            fetched += 64;
        }
    }
    batches
}

#[inline(always)]
fn prefetch(bytes: &[u8], position: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(position) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache, and the address is valid besides.
        #[expect(unsafe_code, reason = "no safe prefetch exists")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, position);
}

/// The same over 256 KiB chunks read into one buffer, without a map.
pub(crate) fn follow_reading(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; CHUNK];
    let mut batches = 0;
    // Where the next batch begins, counted from the beginning of the buffer; a header that does
    // not fit is moved to the front.
    let mut next = 0;
    let mut filled = 0;
    loop {
        let Some(free) = buffer.get_mut(filled..) else {
            return Ok(batches);
        };
        let read = file.read(free)?;
        if read == 0 {
            return Ok(batches);
        }
        filled += read;
        let available = buffer.get(..filled).unwrap_or_default();
        while let Some(size) = size_at(available, next) {
            next += size;
            batches += 1;
        }
        if next < filled {
            buffer.copy_within(next..filled, 0);
            filled -= next;
            next = 0;
        } else {
            next -= filled;
            filled = 0;
        }
    }
}

/// The same with one system call a batch, for its header alone.
pub(crate) fn follow_reading_headers(path: &Path) -> Result<u64> {
    let file = File::open(path)?;
    let mut header = [0; 64];
    let mut position = 0;
    let mut batches = 0;
    loop {
        let read = file.read_at(&mut header, position)?;
        match header.get(..read).and_then(|header| size_at(header, 0)) {
            Some(size) => position += size as u64,
            None => return Ok(batches),
        }
        batches += 1;
    }
}

/// Follows the lengths and computes every checksum. Returns a mix of them.
pub(crate) fn checksums(bytes: &[u8]) -> u64 {
    let mut position = 0;
    let mut mix = 0u64;
    while let Some(size) = size_at(bytes, position) {
        if let Some(covered) = bytes.get(position + CRC_START..position + size) {
            mix = mix.wrapping_add(u64::from(crc32c::crc32c(covered)));
        }
        position += size;
    }
    mix
}
