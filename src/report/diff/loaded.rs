//! A batch whose records are compared one by one.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::cursor::Head;
use super::facts::{BatchPlaceRow, Span};
use super::kind::{DiffKind, Sides};
use super::txns::TxnAt;
use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::records::{BadRecords, LogRecord, Unpacker};

/// A batch that has been read and whose records have not all been matched yet.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) place: BatchPlaceRow,
    pub(super) span: Span,
    pub(super) txn: Option<TxnAt>,
    /// Whether the batch is sound and not a copy of an earlier one.
    pub(super) is_readable: bool,
    /// How many records it has from the common start of the logs on.
    pub(super) record_count: u64,
    /// The largest timestamp, as its header has it.
    pub(super) max_timestamp: Option<i64>,
    /// Records left; `None` if they cannot be read or need not be.
    pub(super) records: Option<VecDeque<RecordHash>>,
    /// All below this offset has been compared.
    pub(super) next_offset: i64,
    /// Why the whole batch counts as other than what the other side has.
    pub(super) conflict: Option<DiffKind>,
    /// Offsets of records that the other side has not, with the reason.
    pub(super) alone: Vec<(Span, DiffKind)>,
    /// How many records those are.
    pub(super) alone_records: u64,
    /// Whether it has the marks of the cleaner's work: fewer records than offsets, or a delete
    /// horizon.
    pub(super) is_cleaned: bool,
}

/// One record: its offset, and a keyed hash of all that a consumer or a broker sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHash {
    pub(super) offset: i64,
    pub(super) hash: u64,
}

/// What comes of reading the records of a batch.
pub(super) enum Records {
    /// All of them.
    Read(VecDeque<RecordHash>),
    /// Not all can be read, and why: `bad-records` or `bad-compression`.
    Unreadable(&'static str),
    /// They unpack to more bytes than may be read.
    OverLimit,
}

impl Loaded {
    /// Whether everything has been compared.
    pub(super) fn is_done(&self) -> bool {
        match &self.records {
            Some(records) => records.is_empty(),
            None => self.next_offset > self.span.last,
        }
    }

    /// The first offset that has not been compared.
    pub(super) fn first_left(&self) -> i64 {
        match self.records.as_ref().and_then(VecDeque::front) {
            Some(record) => record.offset,
            None => self.next_offset,
        }
    }

    /// All up to this offset is other on the other side.
    pub(super) fn drop_up_to(&mut self, offset: i64) {
        self.next_offset = self.next_offset.max(offset.saturating_add(1));
        if let Some(records) = &mut self.records {
            while records
                .front()
                .is_some_and(|record| record.offset <= offset)
            {
                records.pop_front();
            }
        }
    }

    /// A record that the other side has not.
    pub(super) fn is_alone(&mut self, offset: i64, why: DiffKind) {
        self.alone_records += 1;
        match self.alone.last_mut() {
            Some((span, kind)) if *kind == why && span.last.checked_add(1) == Some(offset) => {
                span.last = offset;
            }
            _ => {
                let span = Span {
                    first: offset,
                    last: offset,
                };
                self.alone.push((span, why));
            }
        }
    }
}

/// What comes of matching the records of two batches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Matched {
    /// The first offset at which they differ.
    pub(super) differing: Option<i64>,
    /// The first offset of a record that one side has lost.
    pub(super) lost: Option<i64>,
}

/// Matches the records of two batches up to the end of the one that ends first; each side has lost
/// those of `lost` that it lacks.
pub(super) fn match_records(
    left: &mut Loaded,
    right: &mut Loaded,
    lost: &Sides<OffsetRanges>,
) -> Matched {
    let mut matched = Matched::default();
    let (Some(mut l), Some(mut r)) = (left.records.take(), right.records.take()) else {
        return matched;
    };
    let mut is_alone = |loaded: &mut Loaded, offset, lost: &OffsetRanges| {
        let is_lost = lost.contains(offset, offset);
        if is_lost {
            matched.lost.get_or_insert(offset);
        }
        loaded.is_alone(
            offset,
            if is_lost {
                DiffKind::MissingRecords
            } else {
                DiffKind::Compaction
            },
        );
    };
    let mut differing = None;
    loop {
        let front = |records: &VecDeque<RecordHash>| records.front().copied();
        match (front(&l), front(&r)) {
            (Some(a), Some(b)) if a.offset == b.offset => {
                if a.hash != b.hash && differing.is_none() {
                    differing = Some(a.offset);
                }
                l.pop_front();
                r.pop_front();
            }
            (Some(a), b) if b.is_none_or(|b| a.offset < b.offset) => {
                if a.offset > right.span.last {
                    break;
                }
                is_alone(left, a.offset, &lost.right);
                l.pop_front();
            }
            (_, Some(b)) => {
                if b.offset > left.span.last {
                    break;
                }
                is_alone(right, b.offset, &lost.left);
                r.pop_front();
            }
            _ => break,
        }
    }
    left.records = Some(l);
    right.records = Some(r);
    matched.differing = differing;
    matched
}

/// Reads batches for [`Loaded`].
#[derive(Debug)]
pub(super) struct Loader {
    unpacker: Unpacker,
    keys: RandomState,
}

impl Loader {
    pub(super) fn new(max_batch_bytes: usize) -> Self {
        Self {
            unpacker: Unpacker::new(max_batch_bytes),
            keys: RandomState::new(),
        }
    }

    /// The records of an entry whose checksum is right.
    pub(super) fn records(&mut self, head: Head<'_, '_>) -> Result<Records, Error> {
        let mut records = VecDeque::new();
        let keys = self.keys.clone();
        let batch = match head.entry {
            Entry::Batch(batch) => {
                let attributes = batch.header.attributes();
                (
                    batch.header.producer_id(),
                    batch.header.producer_epoch(),
                    attributes.is_transactional(),
                    attributes.is_control(),
                )
            }
            Entry::Legacy(_) | Entry::Damage(_) => {
                (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, false, false)
            }
        };
        let bad = self.visit(head, |record| {
            let mut hasher = keys.build_hasher();
            hasher.write_i64(batch.0);
            hasher.write_i16(batch.1);
            hasher.write_u8(u8::from(batch.2));
            hasher.write_u8(u8::from(batch.3));
            records.push_back(hash(record, hasher));
        })?;
        Ok(match bad {
            None => Records::Read(records),
            Some(bad) if bad.is_over_limit() => Records::OverLimit,
            Some(bad) => Records::Unreadable(bad.kind),
        })
    }

    /// What keeps the records of an entry from being read: `bad-records` or `bad-compression`.
    pub(super) fn defect(&mut self, head: Head<'_, '_>) -> Result<Option<&'static str>, Error> {
        let bad = self.visit(head, |_| {})?;
        Ok(bad.filter(|bad| !bad.is_over_limit()).map(|bad| bad.kind))
    }

    /// How many records an entry has from an offset on; `None` if not all of them can be read.
    pub(super) fn count_from(
        &mut self,
        head: Head<'_, '_>,
        offset: i64,
    ) -> Result<Option<u64>, Error> {
        let mut count = 0;
        let bad = self.visit(head, |record| count += u64::from(record.offset >= offset))?;
        Ok(bad.is_none().then_some(count))
    }

    fn visit(
        &mut self,
        head: Head<'_, '_>,
        mut visit: impl FnMut(&LogRecord<'_>),
    ) -> Result<Option<BadRecords>, Error> {
        let visit = |record: &LogRecord<'_>| {
            visit(record);
            Ok::<_, Error>(())
        };
        match head.entry {
            Entry::Batch(batch) => self.unpacker.batch(batch, visit),
            Entry::Legacy(entry) => self.unpacker.legacy(entry, visit),
            Entry::Damage(_) => Ok(None),
        }
    }
}

/// All that is seen of a record, apart from the batch it lies in.
fn hash(record: &LogRecord<'_>, mut hasher: impl Hasher) -> RecordHash {
    hasher.write_i64(record.timestamp);
    hasher.write_u8(record.timestamp_type as u8);
    hasher.write_i32(record.sequence.unwrap_or(NO_SEQUENCE));
    for bytes in [record.key, record.value] {
        match bytes {
            Some(bytes) => {
                hasher.write_u8(1);
                hasher.write_usize(bytes.len());
                hasher.write(bytes);
            }
            None => hasher.write_u8(0),
        }
    }
    if let Some(record) = record.record.filter(|record| record.header_count > 0) {
        hasher.write_i32(record.header_count);
        hasher.write(record.headers);
    }
    RecordHash {
        offset: record.offset,
        hash: hasher.finish(),
    }
}
