//! The library's walks, the ones that are being measured.

use std::path::Path;

use kseg::format::compression::Decompressor;
use kseg::format::record_batch::RecordBatchHeader;
use kseg::log::Io;
use kseg::log::batches::{Batch, BatchWalk, Entry};
use kseg::log::mapped_file::MappedFile;
use kseg::log::records::{DEFAULT_MAX_BATCH_BYTES, Unpacker};

use crate::Result;

/// Follows the lengths through the library's header type alone, without its checks, and looks at
/// every field of a header. Returns the batches.
pub(crate) fn headers(bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    let mut batches = 0;
    while let Ok(header) = RecordBatchHeader::ref_from(rest) {
        std::hint::black_box(header.fields());
        let Ok(size) = usize::try_from(header.size_in_bytes()) else {
            break;
        };
        rest = rest.get(size..).unwrap_or_default();
        batches += 1;
    }
    batches
}

/// The walk that every command uses, looking at every field of a header. Returns the batches.
pub(crate) fn walk(segment: &Path, io: Io) -> Result<u64> {
    each_batch(segment, io, |batch| {
        std::hint::black_box(batch.header.fields());
        Ok(())
    })
}

/// The same, and every checksum.
pub(crate) fn walk_with_crc(segment: &Path, io: Io) -> Result<u64> {
    each_batch(segment, io, |batch| {
        std::hint::black_box(batch.header.fields());
        if batch.is_valid()? {
            Ok(())
        } else {
            Err(format!("a bad checksum at {}", batch.position).into())
        }
    })
}

/// Every record: lengths, offset, time, key and value, and the headers seen to be whole. Checksums
/// are not computed, as in Kafka's deep iteration. Returns the records.
pub(crate) fn records(segment: &Path, io: Io) -> Result<u64> {
    let mut unpacker = Unpacker::new(DEFAULT_MAX_BATCH_BYTES);
    let mut records = 0;
    each_batch(segment, io, |batch| {
        let bad = unpacker.batch::<kseg::log::Error>(batch, |record| {
            std::hint::black_box(record);
            records += 1;
            Ok(())
        })?;
        bad.map_or(Ok(()), |bad| Err(bad.error.into()))
    })?;
    Ok(records)
}

/// What the decompressor takes alone, into space that is kept. Returns the bytes.
pub(crate) fn decompress(segment: &Path, io: Io) -> Result<u64> {
    let mut decompressor = Decompressor::new();
    let mut bytes = 0;
    each_batch(segment, io, |batch| {
        let codec = batch.header.attributes().compression_type();
        let (stored, most) = (batch.records()?, DEFAULT_MAX_BATCH_BYTES);
        let plain = decompressor.decompress(codec, batch.header.magic(), &stored, most)?;
        bytes += std::hint::black_box(plain).len() as u64;
        Ok(())
    })?;
    Ok(bytes)
}

fn each_batch(
    segment: &Path,
    io: Io,
    mut look: impl FnMut(&Batch<'_>) -> Result<()>,
) -> Result<u64> {
    let file = MappedFile::open(segment, io)?;
    let mut walk = BatchWalk::new(&file);
    let mut batches = 0;
    loop {
        // As the commands do: a mapped batch stays in registers.
        if let Some(batch) = walk.next_mapped() {
            look(&batch)?;
        } else {
            match walk.next_entry().transpose()? {
                Some(Entry::Batch(batch)) => look(&batch)?,
                Some(Entry::Legacy(_) | Entry::Damage(_)) => {
                    return Err("not what was generated".into());
                }
                None => return Ok(batches),
            }
        }
        batches += 1;
    }
}
