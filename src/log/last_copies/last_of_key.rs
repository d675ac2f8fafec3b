//! Which of the records that go a cleaner would have kept.
//!
//! Decides `Cleaner.shouldRetainRecord` and `Cleaner.shouldDiscardBatch`: a cleaner takes out what
//! has a later record of its key, tombstones after a while, records without a key, and those of
//! aborted transactions, which are later records of no key either (`Cleaner.buildOffsetMap`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::GoingLog;
use crate::format::aborted_txn::{AbortedTxn, AbortedTxnRows};
use crate::format::file_name::LogFileKind;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::records::{DEFAULT_MAX_BATCH_BYTES, LogRecord, Unpacker};
use crate::log::{Error, Io};

/// Records that are looked for; what is beyond them is taken for compacted away.
const MAX_RECORDS: usize = 1 << 22;

/// A record that goes, and that a cleaner would have kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    key: u64,
    pub(super) offset: i64,
    /// Base offset of its batch.
    pub(super) batch: i64,
    /// Place of its log among those that go.
    pub(super) log: usize,
}

/// The last record of a key so far.
#[derive(Clone, Copy)]
struct Latest {
    offset: i64,
    /// Whether it is a value that goes.
    goes: bool,
}

/// The records of batches in `taken_out` that have no later one of their key anywhere, and are not
/// in `after`, the directory that is left.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn last_of_key(
    logs: &[GoingLog],
    taken_out: &OffsetRanges,
    (listed, after): (&PartitionDir, &PartitionDir),
    has_checksums: bool,
    io: Io,
) -> Result<Vec<Taken>, Error> {
    let mut records = Records {
        aborted: Aborted::of(listed, io)?,
        unpacker: Unpacker::new(DEFAULT_MAX_BATCH_BYTES),
        has_checksums,
    };
    let hasher = RandomState::new();
    let mut taken: Vec<Taken> = Vec::new();
    let is_wanted = |first, last| taken_out.contains(first, last);
    for (place, log) in logs
        .iter()
        .enumerate()
        .filter(|(_, log)| log.may_be_cleaned)
    {
        records.for_each(&log.file, is_wanted, |batch, record| {
            if let Some(key) = record.key
                && record.value.is_some()
                && log.counts.contains(&record.offset)
                && taken.len() < MAX_RECORDS
            {
                taken.push(Taken {
                    key: hasher.hash_one(key),
                    offset: record.offset,
                    batch,
                    log: place,
                });
            }
        })?;
    }
    let Some(lowest) = taken.iter().map(|it| it.offset).min() else {
        return Ok(taken);
    };
    let mut latest: HashMap<u64, Latest> = HashMap::new();
    for it in &taken {
        let offset = it.offset;
        let last = latest
            .entry(it.key)
            .or_insert(Latest { offset, goes: true });
        last.offset = last.offset.max(offset);
    }
    let is_later = |_, last| last >= lowest;
    let mut look = |file: &MappedFile, stays: bool| {
        records.for_each(file, is_later, |_, record| {
            if let Some(last) = record
                .key
                .and_then(|it| latest.get_mut(&hasher.hash_one(it)))
                && (record.offset > last.offset || stays && record.offset == last.offset)
            {
                last.offset = record.offset;
                last.goes = false;
            }
        })
    };
    // Tombstones, and what is in batches that stay.
    for log in logs {
        look(&log.file, false)?;
    }
    for segment in &after.segments {
        if let Some(log) = after.file(segment.log)
            && let Some(file) = after.open_file(log, io)?
        {
            look(&file, true)?;
        }
    }
    let is_last = |it: &Taken| {
        let last = latest.get(&it.key);
        last.is_some_and(|last| last.goes && last.offset == it.offset)
    };
    taken.retain(is_last);
    Ok(taken)
}

/// The data records that a cleaner looks at.
struct Records {
    aborted: Aborted,
    unpacker: Unpacker,
    /// Whether batches with a wrong checksum are passed over.
    has_checksums: bool,
}

impl Records {
    /// Hands out the records of the batches that `is_wanted` picks by first and last offset, as far
    /// as they can be read and are of no aborted transaction, with the base offset of their batch.
    fn for_each(
        &mut self,
        file: &MappedFile,
        is_wanted: impl Fn(i64, i64) -> bool,
        mut visit: impl FnMut(i64, &LogRecord<'_>),
    ) -> Result<(), Error> {
        let Self {
            aborted,
            unpacker,
            has_checksums,
        } = self;
        let mut walk = BatchWalk::new(file);
        while let Some(entry) = walk.next_entry() {
            match entry? {
                Entry::Batch(batch) => {
                    let header = batch.header;
                    let attributes = header.attributes();
                    let base_offset = header.base_offset();
                    let is_left_out = attributes.is_control()
                        || !is_wanted(base_offset, header.last_offset())
                        || *has_checksums && !batch.is_valid()?;
                    if is_left_out {
                        continue;
                    }
                    let producer_id = attributes
                        .is_transactional()
                        .then_some(header.producer_id());
                    unpacker.batch::<Error>(&batch, |record| {
                        if !producer_id.is_some_and(|id| aborted.has(id, record.offset)) {
                            visit(base_offset, record);
                        }
                        Ok(())
                    })?;
                }
                Entry::Legacy(entry) => {
                    let last = entry.header.offset();
                    if !is_wanted(last, last) || *has_checksums && !entry.is_valid()? {
                        continue;
                    }
                    unpacker.legacy::<Error>(&entry, |record| {
                        visit(last, record);
                        Ok(())
                    })?;
                }
                Entry::Damage(_) => {}
            }
        }
        Ok(())
    }
}

/// The aborted transactions that any transaction index knows, whatever its suffix: of each producer
/// by last offset.
struct Aborted(HashMap<i64, Vec<AbortedTxn>>);

impl Aborted {
    fn of(dir: &PartitionDir, io: Io) -> Result<Self, Error> {
        let mut aborted: HashMap<i64, Vec<AbortedTxn>> = HashMap::new();
        let mut files = dir.files.iter();
        while let Some(index) =
            files.find(|it| matches!(it.parsed.kind, LogFileKind::TransactionIndex(_)))
        {
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
