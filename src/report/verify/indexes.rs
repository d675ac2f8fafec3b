//! `.index` and `.timeindex` of a segment against its batches.
//!
//! Kafka looks at none of it at a clean start (`LogSegment.sanityCheck`, `OffsetIndex.sanityCheck`
//! are skipped) and believes the entries; `docs/findings.md` lists the defects.

use super::finding::Finding;
use super::index_findings::{Defect, IndexContext};
use crate::format::NO_TIMESTAMP;
use crate::format::offset_index::{OffsetIndexEntry, OffsetIndexRows};
use crate::format::time_index::{self, TimeIndexEntry, TimeIndexRows};
use crate::format::{IndexEntry, IndexRows};

/// An index and a batch as far as they concern each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexed {
    pub(super) position: u64,
    pub(super) last_offset: i64,
    /// -1 if none.
    pub(super) max_timestamp: i64,
}

/// Follows the entries of an `.index` along the batches of its segment.
#[derive(Debug)]
pub(super) struct OffsetIndexCheck<'a> {
    base_offset: i64,
    rows: OffsetIndexRows<'a>,
    next: usize,
    /// Position of the next entry.
    next_position: u64,
    /// An entry that holds the last offset of a whole append, which is still to come.
    pending: Option<(usize, i64)>,
    /// Last offset of the batch before.
    previous: i64,
    ragged: Option<Defect>,
    defect: Option<Defect>,
}

impl<'a> OffsetIndexCheck<'a> {
    pub(super) fn new(base_offset: i64, bytes: &'a [u8]) -> Self {
        let rows = OffsetIndexRows::decode(bytes);
        let mut check = Self {
            base_offset,
            rows,
            next: 0,
            next_position: u64::MAX,
            pending: None,
            previous: base_offset.saturating_sub(1),
            ragged: ragged(&rows),
            defect: None,
        };
        check.defect = check.disorder();
        if check.defect.is_none() {
            check.next_position = check.position_of(0);
        }
        check
    }

    /// Both columns rise and only zeros follow.
    fn disorder(&self) -> Option<Defect> {
        let rows = self.rows.rows();
        for (entry, pair) in rows.windows(2).enumerate() {
            let [before, row] = pair else { continue };
            let entry = entry + 1;
            if row.relative_offset() <= before.relative_offset() {
                let offset = before.offset(self.base_offset);
                let found = row.offset(self.base_offset);
                return Some(Defect::new(
                    "offset-decreases",
                    entry,
                    format!("an offset above {offset}"),
                    found.to_string(),
                ));
            }
            if row.position() <= before.position() {
                return Some(Defect::new(
                    "position-decreases",
                    entry,
                    format!("a position above {}", before.position()),
                    row.position().to_string(),
                ));
            }
        }
        // The first batch of a segment gets none (`LogSegment.append`).
        let begins_with_zeros = matches!(rows, [first, _, ..]
            if first.relative_offset() == 0 && first.position() == 0);
        if begins_with_zeros {
            return Some(first_entry_zero());
        }
        zero_entry(&self.rows)
    }

    fn row(&self, entry: usize) -> Option<&'a OffsetIndexEntry> {
        self.rows.rows().get(entry)
    }

    fn position_of(&self, entry: usize) -> u64 {
        self.row(entry)
            .and_then(|row| u64::try_from(row.position()).ok())
            .unwrap_or(u64::MAX)
    }

    /// The next batch of the segment.
    #[inline]
    pub(super) fn take(&mut self, batch: Indexed) {
        if batch.position >= self.next_position || self.pending.is_some() {
            self.compare(batch);
        }
        self.previous = batch.last_offset;
    }

    /// An entry has the last offset of the batch at its position, or of the whole append that
    /// begins there; before 2.0 its first offset (`OffsetIndex.append` as called by
    /// `LogSegment.append`).
    #[cold]
    fn compare(&mut self, batch: Indexed) {
        if let Some((entry, offset)) = self.pending
            && batch.last_offset >= offset
        {
            self.pending = None;
            if batch.last_offset != offset {
                self.differs(entry, offset, batch.last_offset);
            }
        }
        while self.next_position <= batch.position && self.defect.is_none() {
            let entry = self.next;
            let offset = self
                .row(entry)
                .map_or(0, |row| row.offset(self.base_offset));
            if self.next_position < batch.position {
                self.defect = Some(Defect::new(
                    "not-a-batch-start",
                    entry,
                    "the position of a batch".to_owned(),
                    self.next_position.to_string(),
                ));
            } else if offset <= self.previous {
                self.differs(entry, offset, batch.last_offset);
            } else if offset > batch.last_offset {
                self.pending = Some((entry, offset));
            }
            self.next += 1;
            self.next_position = self.position_of(self.next);
        }
    }

    fn differs(&mut self, entry: usize, found: i64, expected: i64) {
        self.defect.get_or_insert(Defect::new(
            "offset-differs",
            entry,
            expected.to_string(),
            found.to_string(),
        ));
    }

    /// The end of the segment, which has bytes up to `end`.
    pub(super) fn finish(mut self, end: u64, context: &IndexContext<'_>, found: &mut Vec<Finding>) {
        let unresolved = self.pending.map(|(entry, _)| entry);
        let left =
            (self.row(self.next).is_some() && self.next_position != u64::MAX).then_some(self.next);
        if self.defect.is_none()
            && let Some(entry) = unresolved.or(left)
        {
            let row = self.row(entry);
            let offset = row.map_or(0, |row| row.offset(self.base_offset));
            let position = row.map_or(0, OffsetIndexEntry::position);
            self.defect = Some(Defect::new(
                "past-end-of-log",
                entry,
                format!("a batch in the {end} bytes of the segment"),
                format!("offset {offset} at {position}"),
            ));
        }
        let defects = self.defect.into_iter().chain(self.ragged);
        context.tell(&self.rows, true, defects, found);
    }
}

/// Follows the entries of a `.timeindex` along the batches of its segment.
#[derive(Debug)]
pub(super) struct TimeIndexCheck<'a> {
    base_offset: i64,
    rows: TimeIndexRows<'a>,
    next: usize,
    next_offset: i64,
    max_timestamp: i64,
    has_legacy: bool,
    ragged: Option<Defect>,
    defect: Option<Defect>,
}

impl<'a> TimeIndexCheck<'a> {
    pub(super) fn new(base_offset: i64, bytes: &'a [u8]) -> Self {
        let rows = TimeIndexRows::decode(bytes);
        let mut check = Self {
            base_offset,
            rows,
            next: 0,
            next_offset: i64::MAX,
            max_timestamp: NO_TIMESTAMP,
            has_legacy: false,
            ragged: ragged(&rows),
            defect: None,
        };
        check.defect = check.disorder();
        if check.defect.is_none() {
            check.next_offset = check.offset_of(0);
        }
        check
    }

    fn disorder(&self) -> Option<Defect> {
        let rows = self.rows.rows();
        for (entry, pair) in rows.windows(2).enumerate() {
            let [before, row] = pair else { continue };
            let entry = entry + 1;
            if row.timestamp() <= before.timestamp() {
                return Some(Defect::new(
                    "timestamp-decreases",
                    entry,
                    format!("a timestamp above {}", before.timestamp()),
                    row.timestamp().to_string(),
                ));
            }
            if row.relative_offset() < before.relative_offset() {
                return Some(Defect::new(
                    "offset-decreases",
                    entry,
                    format!("an offset from {} on", before.offset(self.base_offset)),
                    row.offset(self.base_offset).to_string(),
                ));
            }
        }
        zero_entry(&self.rows)
    }

    fn row(&self, entry: usize) -> Option<&'a TimeIndexEntry> {
        self.rows.rows().get(entry)
    }

    fn offset_of(&self, entry: usize) -> i64 {
        self.row(entry)
            .map_or(i64::MAX, |row| row.offset(self.base_offset))
    }

    /// The next batch of the segment.
    #[inline]
    pub(super) fn take(&mut self, batch: Indexed) {
        self.max_timestamp = self.max_timestamp.max(batch.max_timestamp);
        if batch.last_offset >= self.next_offset {
            self.compare(batch);
        }
    }

    /// Entries of magic 0 and 1 carry the largest timestamp in other places.
    pub(super) fn has_legacy(&mut self) {
        self.has_legacy = true;
    }

    #[cold]
    fn compare(&mut self, batch: Indexed) {
        while self.next_offset <= batch.last_offset {
            let entry = self.next;
            let timestamp = self
                .row(entry)
                .map_or(NO_TIMESTAMP, TimeIndexEntry::timestamp);
            // Writers up to 3.7 name the record inside the batch.
            let is_end = self.next_offset == batch.last_offset && !self.has_legacy;
            // Magic 0 has no timestamps, and brokers index the time of the append.
            let is_untimed = self.has_legacy && self.max_timestamp == NO_TIMESTAMP;
            let is_zero = timestamp == 0 && self.next_offset == self.base_offset;
            if entry == 0 && is_zero && self.max_timestamp != 0 {
                self.defect.get_or_insert(first_entry_zero());
            }
            let is_right = if is_untimed {
                true
            } else if is_end {
                timestamp == self.max_timestamp
            } else {
                timestamp <= self.max_timestamp
            };
            if !is_right {
                self.defect.get_or_insert(Defect::new(
                    "timestamp-differs",
                    entry,
                    self.max_timestamp.to_string(),
                    timestamp.to_string(),
                ));
            }
            self.next += 1;
            self.next_offset = self.offset_of(self.next);
        }
    }

    pub(super) fn finish(mut self, context: &IndexContext<'_>, found: &mut Vec<Finding>) {
        let last = self.rows.rows().last().map(|row| row.timestamp());
        if self.defect.is_none() && self.row(self.next).is_some() && self.next_offset != i64::MAX {
            self.defect = Some(Defect::new(
                "past-end-of-log",
                self.next,
                "an offset in the segment".to_owned(),
                self.next_offset.to_string(),
            ));
        }
        let is_closed = !context.start.is_last(context.segment);
        if let Some(last) = last
            && self.defect.is_none()
            && is_closed
            && last < self.max_timestamp
            && !self.has_legacy
        {
            self.defect = Some(Defect::new(
                "last-timestamp-differs",
                self.rows.row_count().saturating_sub(1),
                self.max_timestamp.to_string(),
                last.to_string(),
            ));
        }
        let kafkas_last = time_index::last_timestamp(&self.rows);
        if kafkas_last.is_none() && is_closed && self.max_timestamp != NO_TIMESTAMP {
            found.push(context.time_index_empty());
        }
        let defects = self.defect.into_iter().chain(self.ragged);
        let from = found.len();
        context.tell(&self.rows, false, defects, found);
        if let (Some(last), Some(found), false) =
            (kafkas_last, found.get_mut(from..), self.has_legacy)
        {
            context.tell_retention(last, self.max_timestamp, found);
        }
    }
}

fn ragged<E: IndexEntry>(rows: &IndexRows<'_, E>) -> Option<Defect> {
    let size = rows.ragged_size();
    (size > 0).then(|| {
        Defect::new(
            "size-not-a-multiple",
            rows.slots().len(),
            format!("a multiple of {} bytes", size_of::<E>()),
            format!("{size} bytes behind the last entry"),
        )
    })
}

fn first_entry_zero() -> Defect {
    Defect::new(
        "entry-zero",
        0,
        "an entry".to_owned(),
        "zeros, with entries behind them".to_owned(),
    )
}

/// Whole entries behind a zero one.
fn zero_entry<E: IndexEntry>(rows: &IndexRows<'_, E>) -> Option<Defect> {
    let whole = size_of_val(rows.slots()) as u64;
    let is_behind_zero = rows.non_zero_position_after_rows()? < whole;
    is_behind_zero.then(|| {
        Defect::new(
            "entry-zero",
            rows.row_count(),
            "an entry, or zeros to the end".to_owned(),
            "zeros, with entries behind them".to_owned(),
        )
    })
}
