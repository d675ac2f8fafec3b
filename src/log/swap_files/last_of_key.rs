//! Which of the records that a `.swap` is without a cleaner would have kept.
//!
//! Decides `Cleaner.shouldRetainRecord` and `Cleaner.shouldDiscardBatch`: a cleaner takes out what
//! has a later record of its key, tombstones after a while, records without a key, and those of
//! aborted transactions.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::format::aborted_txn::{AbortedTxn, AbortedTxnRows};
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::records::{DEFAULT_MAX_BATCH_BYTES, LogRecord, Unpacker};
use crate::log::{Error, Io};

/// Records that are looked for; what is beyond them is taken for compacted away.
const MAX_RECORDS: usize = 1 << 22;

/// A record that a `.swap` is without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    key: u64,
    pub(super) offset: i64,
    /// Base offset of its batch.
    pub(super) batch: i64,
}

/// The records of batches in `taken_out` that have no later one of their key in `placed`, the
/// directory once the `.swap` files are in place.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn last_of_key(
    replaced: &[&MappedFile],
    taken_out: &OffsetRanges,
    (listed, placed): (&PartitionDir, &PartitionDir),
    io: Io,
) -> Result<Vec<Taken>, Error> {
    let aborted = Aborted::of(listed, io)?;
    let hasher = RandomState::new();
    let mut unpacker = Unpacker::new(DEFAULT_MAX_BATCH_BYTES);
    let mut taken: Vec<Taken> = Vec::new();
    let is_wanted = |first, last| taken_out.contains(first, last);
    for log in replaced {
        for_each_record(log, &mut unpacker, is_wanted, |of, record| {
            let is_aborted = of
                .producer_id
                .is_some_and(|id| aborted.has(id, record.offset));
            if let Some(key) = record.key
                && record.value.is_some()
                && !is_aborted
                && taken.len() < MAX_RECORDS
            {
                taken.push(Taken {
                    key: hasher.hash_one(key),
                    offset: record.offset,
                    batch: of.base_offset,
                });
            }
        })?;
    }
    let Some(lowest) = taken.iter().map(|it| it.offset).min() else {
        return Ok(taken);
    };
    // The last offset of each key.
    let mut latest: HashMap<u64, i64> = taken.iter().map(|it| (it.key, i64::MIN)).collect();
    for it in &taken {
        latest
            .entry(it.key)
            .and_modify(|last| *last = (*last).max(it.offset));
    }
    for segment in &placed.segments {
        let Some(log) = placed.file(segment.log) else {
            continue;
        };
        let Some(file) = placed.open_file(log, io)? else {
            continue;
        };
        let is_later = |_, last| last > lowest;
        for_each_record(&file, &mut unpacker, is_later, |_, record| {
            if let Some(key) = record.key
                && let Some(last) = latest.get_mut(&hasher.hash_one(key))
            {
                *last = (*last).max(record.offset);
            }
        })?;
    }
    taken.retain(|it| latest.get(&it.key) == Some(&it.offset));
    Ok(taken)
}

/// What a record lies in.
struct Of {
    base_offset: i64,
    /// Of a transaction.
    producer_id: Option<i64>,
}

/// Hands out the data records of the batches that `is_wanted` picks by first and last offset, as
/// far as they can be read.
fn for_each_record(
    file: &MappedFile,
    unpacker: &mut Unpacker,
    is_wanted: impl Fn(i64, i64) -> bool,
    mut visit: impl FnMut(&Of, &LogRecord<'_>),
) -> Result<(), Error> {
    let mut walk = BatchWalk::new(file);
    while let Some(entry) = walk.next_entry() {
        match entry? {
            Entry::Batch(batch) => {
                let header = batch.header;
                let attributes = header.attributes();
                if attributes.is_control() || !is_wanted(header.base_offset(), header.last_offset())
                {
                    continue;
                }
                let of = Of {
                    base_offset: header.base_offset(),
                    producer_id: attributes
                        .is_transactional()
                        .then_some(header.producer_id()),
                };
                unpacker.batch::<Error>(&batch, |record| {
                    visit(&of, record);
                    Ok(())
                })?;
            }
            Entry::Legacy(entry) => {
                let last = entry.header.offset();
                if !is_wanted(last, last) {
                    continue;
                }
                let of = Of {
                    base_offset: last,
                    producer_id: None,
                };
                unpacker.legacy::<Error>(&entry, |record| {
                    visit(&of, record);
                    Ok(())
                })?;
            }
            Entry::Damage(_) => {}
        }
    }
    Ok(())
}

/// The aborted transactions that the indexes in use know: of each producer by last offset.
struct Aborted(HashMap<i64, Vec<AbortedTxn>>);

impl Aborted {
    fn of(dir: &PartitionDir, io: Io) -> Result<Self, Error> {
        let mut aborted: HashMap<i64, Vec<AbortedTxn>> = HashMap::new();
        let indexes = dir.segments.iter().filter_map(|it| dir.file(it.txn_index?));
        for index in indexes {
            if let Some(file) = dir.open_file(index, io)? {
                for row in AbortedTxnRows::decode(&file.read_all()?).rows() {
                    aborted.entry(row.producer_id()).or_default().push(*row);
                }
            }
        }
        for rows in aborted.values_mut() {
            rows.sort_by_key(AbortedTxn::last_offset);
        }
        Ok(Self(aborted))
    }

    /// Whether a producer's record at `offset` is of an aborted transaction. Its transactions come
    /// one after another, so that the first one that ends behind the offset decides.
    fn has(&self, producer_id: i64, offset: i64) -> bool {
        let rows = self.0.get(&producer_id).map_or(&[][..], Vec::as_slice);
        let at = rows.partition_point(|row| row.last_offset() < offset);
        rows.get(at).is_some_and(|row| row.first_offset() <= offset)
    }
}
