//! Which of the records that go a cleaner would have kept.
//!
//! Decides `Cleaner.shouldRetainRecord` and `Cleaner.shouldDiscardBatch`: a cleaner takes out what
//! has a later record of its key, records without a key, and those of aborted transactions, which
//! are later records of no key either (`Cleaner.buildOffsetMap`); a tombstone once nothing of its
//! key is before it; a marker once nothing of its transaction is. It never comes to what is not
//! decided (`LogCleanerManager.cleanableOffsets`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::GoingLog;
use super::transactions::{LoneMarker, Transactions};
use crate::log::batches::{BatchWalk, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::log_dir::stopped_cleanly;
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
    pub(super) offset: i64,
    /// Base offset of its batch.
    pub(super) batch: i64,
    /// Place of its log among those that go.
    pub(super) log: usize,
    pub(super) why: WhyKept,
}

/// Why a cleaner would have kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhyKept {
    /// No later record that is decided has its key.
    LastOfKey,
    /// It is a tombstone, and a value of its key stays.
    Tombstone,
    /// It is a marker, and batches of its transaction stay.
    Marker,
    /// It was not decided.
    Undecided,
}

/// A record that goes and has a key.
struct Candidate {
    key: u64,
    of: Taken,
}

/// What there is of a key.
#[derive(Clone, Copy)]
struct Latest {
    /// The last record so far that is decided.
    offset: i64,
    /// Whether only logs have it that go.
    goes: bool,
    /// The last one so far that stays, and whether it is a value.
    stays: Option<(i64, bool)>,
}

/// The records of batches in `taken_out` that a cleaner would have kept and that are not in
/// `after`, the directory that is left.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn kept_by_cleaner(
    logs: &[GoingLog],
    taken_out: &OffsetRanges,
    (listed, after): (&PartitionDir, &PartitionDir),
    checkpoints: CheckpointedOffsets,
    has_checksums: bool,
    io: Io,
) -> Result<Vec<Taken>, Error> {
    let transactions = Transactions::of(logs, (listed, after), has_checksums, io)?;
    let decided = decided_up_to(&transactions, (listed, after), checkpoints);
    let mut taken = lone_markers(logs, taken_out, &transactions);
    let mut records = Records {
        transactions,
        unpacker: Unpacker::new(DEFAULT_MAX_BATCH_BYTES),
        has_checksums,
    };
    let mut keys = Keys {
        hasher: RandomState::new(),
        decided,
        latest: HashMap::new(),
    };
    let mut candidates: Vec<Candidate> = Vec::new();
    let is_wanted = |first, last| taken_out.contains(first, last);
    for (place, log) in may_be_cleaned(logs) {
        records.for_each(&log.file, is_wanted, |batch, record| {
            let is_full = candidates.len() + taken.len() >= MAX_RECORDS;
            if is_full || !log.counts.contains(&record.offset) {
                return;
            }
            let is_undecided = record.offset >= decided;
            let of = Taken {
                offset: record.offset,
                batch,
                log: place,
                why: match record.value {
                    _ if is_undecided => WhyKept::Undecided,
                    Some(_) => WhyKept::LastOfKey,
                    None => WhyKept::Tombstone,
                },
            };
            if is_undecided {
                taken.push(of);
            } else if let Some(key) = record.key {
                let key = keys.want(key, record.offset);
                candidates.push(Candidate { key, of });
            }
        })?;
    }
    // What stays of a key matters to a tombstone, wherever it lies.
    let matters_from = |it: &Candidate| match it.of.why {
        WhyKept::Tombstone => i64::MIN,
        WhyKept::LastOfKey | WhyKept::Marker | WhyKept::Undecided => it.of.offset,
    };
    let Some(lowest) = candidates.iter().map(matters_from).min() else {
        return Ok(taken);
    };
    let is_near = |first, last| last >= lowest && first < decided;
    for log in logs {
        records.for_each(&log.file, is_near, |_, record| keys.take(record, false))?;
    }
    for segment in &after.segments {
        if let Some(log) = after.file(segment.log)
            && let Some(file) = after.open_file(log, io)?
        {
            records.for_each(&file, is_near, |_, record| keys.take(record, true))?;
        }
    }
    let kept = candidates.iter().filter(|it| keys.would_keep(it));
    taken.extend(kept.map(|it| it.of));
    Ok(taken)
}

/// The keys of what goes.
struct Keys {
    hasher: RandomState,
    /// Up to here records are decided.
    decided: i64,
    latest: HashMap<u64, Latest>,
}

impl Keys {
    /// Takes in the key of a record that goes.
    fn want(&mut self, key: &[u8], offset: i64) -> u64 {
        let key = self.hasher.hash_one(key);
        let last = self.latest.entry(key).or_insert(Latest {
            offset,
            goes: true,
            stays: None,
        });
        last.offset = last.offset.max(offset);
        key
    }

    /// Takes in any record, if one of its key goes. What goes and is none of those that were wanted
    /// is in a batch that stays, or told by itself.
    fn take(&mut self, record: &LogRecord<'_>, stays: bool) {
        let offset = record.offset;
        let Some(key) = record.key.filter(|_| offset < self.decided) else {
            return;
        };
        let Some(last) = self.latest.get_mut(&self.hasher.hash_one(key)) else {
            return;
        };
        if offset > last.offset || stays && offset == last.offset {
            last.offset = offset;
            last.goes = false;
        }
        if stays && last.stays.is_none_or(|(before, _)| before < offset) {
            last.stays = Some((offset, record.value.is_some()));
        }
    }

    fn would_keep(&self, candidate: &Candidate) -> bool {
        let Some(last) = self.latest.get(&candidate.key) else {
            return false;
        };
        let comes_back = last.stays.is_some_and(|(_, is_value)| is_value);
        last.goes
            && last.offset == candidate.of.offset
            && (candidate.of.why != WhyKept::Tombstone || comes_back)
    }
}

/// The logs that a cleaner may have replaced, with their places.
fn may_be_cleaned(logs: &[GoingLog]) -> impl Iterator<Item = (usize, &GoingLog)> {
    let places = logs.iter().enumerate();
    places.filter(|(_, log)| log.may_be_cleaned)
}

fn lone_markers(
    logs: &[GoingLog],
    taken_out: &OffsetRanges,
    transactions: &Transactions,
) -> Vec<Taken> {
    let markers = transactions.lone_markers.iter();
    let counts = markers.filter(|it| {
        let log = logs.get(it.log).filter(|log| log.may_be_cleaned);
        log.is_some_and(|log| log.counts.contains(&it.offset))
            && taken_out.contains(it.offset, it.offset)
    });
    let of = |it: &LoneMarker| Taken {
        offset: it.offset,
        batch: it.offset,
        log: it.log,
        why: WhyKept::Marker,
    };
    counts.map(of).collect()
}

/// Up to where a record may have been decided when a cleaner came by: it stops at the first
/// transaction without an end and at the high watermark. That is checkpointed every few seconds, so
/// that after a crash only the active segment, where no cleaner comes either, lies behind it for
/// certain.
fn decided_up_to(
    transactions: &Transactions,
    (listed, after): (&PartitionDir, &PartitionDir),
    checkpoints: CheckpointedOffsets,
) -> i64 {
    let active = after.segments.last().map(|it| it.base_offset);
    let is_exact = stopped_cleanly(&listed.path) == Some(true);
    let high_watermark = checkpoints.high_watermark.map(|at| match active {
        Some(active) if !is_exact => at.max(active),
        Some(_) | None => at,
    });
    let undecided = [transactions.undecided_from, high_watermark];
    let first = undecided.into_iter().flatten().min();
    // A cleaner has been there.
    first.map_or(i64::MAX, |it| {
        it.max(checkpoints.cleaner_offset.unwrap_or(it))
    })
}

/// The data records that a cleaner looks at.
struct Records {
    transactions: Transactions,
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
            transactions,
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
                        if !producer_id.is_some_and(|id| transactions.is_aborted(id, record.offset))
                        {
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
