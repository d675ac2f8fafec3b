//! Which offsets the entries of a file hold, whatever their magic.

use super::Error;
use super::batches::{BatchWalk, Entry, LegacyEntry};
use super::mapped_file::MappedFile;
use super::records::{DEFAULT_MAX_BATCH_BYTES, Unpacker};
use crate::format::record_batch::CompressionType;

/// An entry of a `.log`, or bytes that are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A batch, or an entry of magic 0 or 1.
    Batch(BatchExtent),
    /// No batch.
    Damage {
        /// So many bytes.
        size_in_bytes: u64,
    },
}

/// What a batch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchExtent {
    /// Its first offset; of compressed messages of magic 0 and 1 that of the first one inside.
    pub first_offset: i64,
    /// Its last offset.
    pub last_offset: i64,
    /// Records, of magic 2 by the header.
    pub records: u64,
    /// Whether its checksum is right; true where none was computed.
    pub is_valid: bool,
    /// Whether its header says that the cleaner has been there.
    pub is_cleaned: bool,
}

/// Hands out what a file holds, in its order.
///
/// # Errors
/// If the file cannot be read, or `visit` fails.
pub fn for_each_extent<E: From<Error>>(
    file: &MappedFile,
    has_checksums: bool,
    mut visit: impl FnMut(Extent) -> Result<(), E>,
) -> Result<(), E> {
    let mut unpacker = None;
    let mut walk = BatchWalk::new(file);
    while let Some(entry) = walk.next_entry() {
        let extent = match entry? {
            Entry::Batch(batch) => {
                let header = batch.header;
                BatchExtent {
                    first_offset: header.base_offset(),
                    last_offset: header.last_offset(),
                    records: u64::try_from(header.records_count()).unwrap_or(0),
                    is_valid: !has_checksums || batch.is_valid()?,
                    is_cleaned: header.has_less_records()
                        || header.attributes().has_delete_horizon(),
                }
            }
            Entry::Legacy(entry) => {
                let unpacker =
                    unpacker.get_or_insert_with(|| Unpacker::new(DEFAULT_MAX_BATCH_BYTES));
                let is_valid = !has_checksums || entry.is_valid()?;
                legacy(&entry, is_valid, unpacker)?
            }
            Entry::Damage(damage) => {
                let size_in_bytes = damage.size_in_bytes;
                visit(Extent::Damage { size_in_bytes })?;
                continue;
            }
        };
        visit(Extent::Batch(extent))?;
    }
    Ok(())
}

/// A wrapper has the offset of its last message alone (`AbstractLegacyRecordBatch`).
fn legacy(
    entry: &LegacyEntry<'_>,
    is_valid: bool,
    unpacker: &mut Unpacker,
) -> Result<BatchExtent, Error> {
    let last_offset = entry.header.offset();
    let (mut first, mut records) = (None, 0);
    if is_valid && entry.header.compression_type() != CompressionType::NONE {
        unpacker.legacy::<Error>(entry, |record| {
            first = first.or(Some(record.offset));
            records += 1;
            Ok(())
        })?;
    }
    Ok(BatchExtent {
        first_offset: first.unwrap_or(last_offset).min(last_offset),
        last_offset,
        records: records.max(1),
        is_valid,
        is_cleaned: false,
    })
}
