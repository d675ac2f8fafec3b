//! Which of the records that go a cleaner would have kept.
//!
//! Decides `Cleaner.shouldRetainRecord` and `Cleaner.shouldDiscardBatch`: a cleaner takes out what
//! has a later record of its key, records without a key, and those of aborted transactions, which
//! are later records of no key either (`Cleaner.buildOffsetMap`); a tombstone once nothing of its
//! key is before it; a marker once nothing of its transaction is. It never comes to what is not
//! decided (`LogCleanerManager.cleanableOffsets`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::going::Going;
use super::transactions::{LoneMarker, Transactions};
use crate::log::batches::{BatchWalk, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::log_dir::stopped_cleanly;
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::records::{LogRecord, Unpacker};
use crate::log::{Error, Io};

/// Records that are looked for; what is beyond them is taken for compacted away.
const MAX_RECORDS: usize = 1 << 22;

/// Where it is asked which records a cleaner would have kept.
#[derive(Clone, Copy)]
pub(super) struct Question<'q> {
    /// The offsets of what goes and is not in what stays.
    pub(super) taken_out: &'q OffsetRanges,
    /// The directory before anything went; what it says of the last stop counts.
    pub(super) listed: &'q PartitionDir,
    /// The directory that is left.
    pub(super) after: &'q PartitionDir,
    /// Directories whose transaction indexes tell what was aborted.
    pub(super) indexed: &'q [&'q PartitionDir],
    /// The checkpoints of before.
    pub(super) checkpoints: CheckpointedOffsets,
    /// Whether batches with a wrong checksum are passed over.
    pub(super) has_checksums: bool,
    /// The most bytes a batch may unpack to; a larger one is passed over.
    pub(super) max_batch_bytes: usize,
    /// How files are read.
    pub(super) io: Io,
}

/// What a cleaner would have kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) records: Vec<Taken>,
    /// Records that were not looked for, as there are too many.
    pub(super) over_limit: u64,
}

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

/// The records that go and that a cleaner would have kept.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn kept_by_cleaner(going: &impl Going, question: Question<'_>) -> Result<Kept, Error> {
    let Question {
        taken_out,
        after,
        has_checksums,
        io,
        ..
    } = question;
    let transactions = Transactions::of(going, after, question.indexed, has_checksums, io)?;
    let decided = decided_up_to(&transactions, question);
    let mut kept = Kept {
        records: lone_markers(going, taken_out, &transactions),
        over_limit: 0,
    };
    let mut records = Records {
        transactions,
        unpacker: Unpacker::new(question.max_batch_bytes),
        has_checksums,
    };
    let mut keys = Keys {
        hasher: RandomState::new(),
        decided,
        latest: HashMap::new(),
    };
    let candidates = candidates(going, taken_out, &mut records, &mut keys, &mut kept)?;
    // What stays of a key matters to a tombstone, wherever it lies.
    let matters_from = |it: &Candidate| match it.of.why {
        WhyKept::Tombstone => i64::MIN,
        WhyKept::LastOfKey | WhyKept::Marker | WhyKept::Undecided => it.of.offset,
    };
    let Some(lowest) = candidates.iter().map(matters_from).min() else {
        return Ok(kept);
    };
    let is_near = |first, last| last >= lowest && first < decided;
    going.for_each_log(|_, file| {
        let goes = |first, last| is_near(first, last) && going.goes(first, last);
        records.for_each(file, goes, |_, record| keys.take(record, false))
    })?;
    for segment in &after.segments {
        if let Some(log) = after.file(segment.log)
            && let Some(file) = after.open_file(log, io)?
        {
            records.for_each(&file, is_near, |_, record| keys.take(record, true))?;
        }
    }
    let would_keep = candidates.iter().filter(|it| keys.would_keep(it));
    kept.records.extend(would_keep.map(|it| it.of));
    Ok(kept)
}

/// The records that go and have a key, as far as they were decided; the others a cleaner never
/// came to.
fn candidates(
    going: &impl Going,
    taken_out: &OffsetRanges,
    records: &mut Records,
    keys: &mut Keys,
    kept: &mut Kept,
) -> Result<Vec<Candidate>, Error> {
    let mut candidates: Vec<Candidate> = Vec::new();
    let is_wanted = |first, last| taken_out.touches(first, last);
    going.for_each_log(|place, file| {
        let Some(counts) = going.cleanable(place) else {
            return Ok(());
        };
        records.for_each(file, is_wanted, |batch, record| {
            let offset = record.offset;
            if !counts.contains(&offset) || !taken_out.contains(offset, offset) {
                return;
            }
            if candidates.len() + kept.records.len() >= MAX_RECORDS {
                kept.over_limit += 1;
                return;
            }
            let is_undecided = offset >= keys.decided;
            let of = Taken {
                offset,
                batch,
                log: place,
                why: match record.value {
                    _ if is_undecided => WhyKept::Undecided,
                    Some(_) => WhyKept::LastOfKey,
                    None => WhyKept::Tombstone,
                },
            };
            if is_undecided {
                kept.records.push(of);
            } else if let Some(key) = record.key {
                let key = keys.want(key, offset);
                candidates.push(Candidate { key, of });
            }
        })
    })?;
    Ok(candidates)
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

fn lone_markers(
    going: &impl Going,
    taken_out: &OffsetRanges,
    transactions: &Transactions,
) -> Vec<Taken> {
    let markers = transactions.lone_markers.iter();
    let counts = markers.filter(|it| {
        let counts = going.cleanable(it.log);
        counts.is_some_and(|counts| counts.contains(&it.offset))
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
    Question {
        listed,
        after,
        checkpoints,
        ..
    }: Question<'_>,
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
