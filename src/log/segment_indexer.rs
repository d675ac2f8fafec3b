//! When a batch gets an entry in `.index` and `.timeindex`, and which: the one home of that rule,
//! for those who write a segment and those who make its indexes again.
//!
//! Pure: knows batches by their offsets, times and sizes, and no files.
//! Decides `LogSegment.append`, `LogSegment.recover`, `TimeIndex.maybeAppend`,
//! `OffsetIndex.append`.

use crate::format::NO_TIMESTAMP;
use crate::format::offset_index::{OffsetIndexEntry, OffsetIndexFields};
use crate::format::time_index::{TimeIndexEntry, TimeIndexFields};

/// `index.interval.bytes` as Kafka has it by default.
pub const DEFAULT_INDEX_INTERVAL_BYTES: u64 = 4096;

/// A timestamp and the offset by which it was reached (`TimestampOffset`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Milliseconds.
    pub timestamp: i64,
    /// Last offset of the first batch that has it.
    pub offset: i64,
}

/// A batch as the indexes see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedBatch {
    /// Last offset of the batch.
    pub last_offset: i64,
    /// Its largest timestamp, -1 if none.
    pub max_timestamp: i64,
    /// Where it begins in the `.log`.
    pub position: u64,
    /// Its size.
    pub size_in_bytes: u64,
}

/// The entries made for one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntries {
    /// For `.index`.
    pub offset: OffsetIndexEntry,
    /// For `.timeindex`, if the largest timestamp has risen since its last entry.
    pub time: Option<TimeIndexEntry>,
}

/// Why a batch cannot be indexed. Recovery gives up a whole segment for all but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The offset does not fit the 31 bits of an entry (`LogSegmentOffsetOverflowException`).
    #[error("offset {offset} is too far from the segment's base offset {base_offset}")]
    OffsetOverflow {
        /// The offset.
        offset: i64,
        /// Base offset of the segment.
        base_offset: i64,
    },
    /// Offsets of `.index` must rise (`OffsetIndex.append`).
    #[error("offset {offset} is not above {last_offset}, the last one in the offset index")]
    OffsetNotAbove {
        /// The offset.
        offset: i64,
        /// The last one in the index.
        last_offset: i64,
    },
    /// Offsets of `.timeindex` must not fall (`TimeIndex.maybeAppend`).
    #[error("offset {offset} is below {last_offset}, the last one in the time index")]
    TimeOffsetBelow {
        /// The offset.
        offset: i64,
        /// The last one in the index.
        last_offset: i64,
    },
    /// The position does not fit an entry: no segment is that large.
    #[error("position {position} is too far from the beginning of the segment")]
    PositionOverflow {
        /// The position.
        position: u64,
    },
}

/// When entries are due, and the largest timestamp, which goes into them.
#[derive(Clone, Copy, Debug)]
pub struct IndexRule {
    index_interval_bytes: u64,
    bytes_since_last_index_entry: u64,
    largest_timestamp: Option<TimestampOffset>,
}

impl IndexRule {
    /// For a segment that is opened: nothing is counted, and no timestamp known, yet.
    #[must_use]
    pub fn new(index_interval_bytes: u64) -> Self {
        Self {
            index_interval_bytes,
            bytes_since_last_index_entry: 0,
            largest_timestamp: None,
        }
    }

    /// `index.interval.bytes`.
    #[must_use]
    pub fn index_interval_bytes(&self) -> u64 {
        self.index_interval_bytes
    }

    /// The largest timestamp so far; `None` until a batch came or it was given
    /// (`LogSegment.maxTimestampAndOffsetSoFar`).
    #[must_use]
    pub fn largest_timestamp(&self) -> Option<TimestampOffset> {
        self.largest_timestamp
    }

    /// Gives the largest timestamp, of the last entry of the time index for example.
    pub fn set_largest_timestamp(&mut self, largest_timestamp: Option<TimestampOffset>) {
        self.largest_timestamp = largest_timestamp;
    }

    /// Counts anew, after truncation and recovery.
    pub fn restart_count(&mut self) {
        self.bytes_since_last_index_entry = 0;
    }

    /// Takes the next batch; whether it gets entries. It does if more than
    /// `index.interval.bytes` lie between the last batch that got some, or where counting began,
    /// and this one. `known` is the largest timestamp before it, if none was given yet.
    #[inline]
    pub fn take(&mut self, batch: &IndexedBatch, known: TimestampOffset) -> bool {
        let largest = self.largest_timestamp.get_or_insert(known);
        if batch.max_timestamp > largest.timestamp {
            *largest = TimestampOffset {
                timestamp: batch.max_timestamp,
                offset: batch.last_offset,
            };
        }
        let is_due = self.bytes_since_last_index_entry > self.index_interval_bytes;
        if is_due {
            self.bytes_since_last_index_entry = 0;
        }
        self.bytes_since_last_index_entry += batch.size_in_bytes;
        is_due
    }
}

/// The indexes of one segment as far as the next entry depends on them.
#[derive(Clone, Copy, Debug)]
pub struct SegmentIndexer {
    base_offset: i64,
    rule: IndexRule,
    last_indexed_offset: Option<i64>,
    last_time_entry: Option<TimestampOffset>,
}

impl SegmentIndexer {
    /// For a segment whose indexes are empty.
    #[must_use]
    pub fn new(base_offset: i64, index_interval_bytes: u64) -> Self {
        Self::resumed(base_offset, index_interval_bytes, None, None)
    }

    /// For a segment that is opened again with these last entries: the count of bytes begins anew,
    /// so a log that was reopened can be indexed otherwise than one that never was.
    #[must_use]
    pub fn resumed(
        base_offset: i64,
        index_interval_bytes: u64,
        last_indexed_offset: Option<i64>,
        last_time_entry: Option<TimestampOffset>,
    ) -> Self {
        Self {
            base_offset,
            rule: IndexRule::new(index_interval_bytes),
            last_indexed_offset,
            last_time_entry,
        }
    }

    /// The largest timestamp so far (`LogSegment.readMaxTimestampAndOffsetSoFar`).
    pub fn largest_timestamp(&mut self) -> TimestampOffset {
        let largest = self.rule.largest_timestamp().unwrap_or(self.known());
        self.rule.set_largest_timestamp(Some(largest));
        largest
    }

    /// The last entry of the time index, or what stands for it in an empty one.
    #[inline]
    fn known(&self) -> TimestampOffset {
        self.last_time_entry.unwrap_or(TimestampOffset {
            timestamp: NO_TIMESTAMP,
            offset: self.base_offset,
        })
    }

    /// The next batch of the segment; `add` gets its entries, if it gets some: see
    /// [`IndexRule::take`]. (A return value would be copied piece by piece through memory, which
    /// takes longer than making it.)
    ///
    /// # Errors
    /// If it cannot be indexed.
    #[inline]
    pub fn next_batch(
        &mut self,
        batch: &IndexedBatch,
        add: impl FnOnce(IndexEntries),
    ) -> Result<(), IndexError> {
        self.relative_offset(batch.last_offset)?;
        if self.rule.take(batch, self.known()) {
            self.add_entries(batch, add)?;
        }
        Ok(())
    }

    /// The entry that `.timeindex` gets when the segment is rolled, and at the end of recovery:
    /// that of its largest timestamp, unless that is its last one already.
    ///
    /// # Errors
    /// If the offset cannot be indexed.
    #[inline]
    pub fn last_time_entry(&mut self) -> Result<Option<TimeIndexEntry>, IndexError> {
        let TimestampOffset { timestamp, offset } = self.largest_timestamp();
        if let Some(last) = self.last_time_entry
            && offset < last.offset
        {
            let last_offset = last.offset;
            return Err(IndexError::TimeOffsetBelow {
                offset,
                last_offset,
            });
        }
        let known = self.last_time_entry.map_or(NO_TIMESTAMP, |it| it.timestamp);
        if timestamp <= known {
            return Ok(None);
        }
        let relative_offset = self.relative_offset(offset)?;
        self.last_time_entry = Some(TimestampOffset { timestamp, offset });
        Ok(Some(TimeIndexEntry::from(TimeIndexFields {
            timestamp,
            relative_offset,
        })))
    }

    /// The same when the segment is closed: only if the largest timestamp was ever asked for.
    ///
    /// # Errors
    /// If the offset cannot be indexed.
    pub fn last_time_entry_at_close(&mut self) -> Result<Option<TimeIndexEntry>, IndexError> {
        match self.rule.largest_timestamp() {
            Some(_) => self.last_time_entry(),
            None => Ok(None),
        }
    }

    #[inline]
    fn add_entries(
        &mut self,
        batch: &IndexedBatch,
        add: impl FnOnce(IndexEntries),
    ) -> Result<(), IndexError> {
        let offset = batch.last_offset;
        if let Some(last_offset) = self.last_indexed_offset
            && offset <= last_offset
        {
            return Err(IndexError::OffsetNotAbove {
                offset,
                last_offset,
            });
        }
        let position = batch.position;
        let fields = OffsetIndexFields {
            relative_offset: self.relative_offset(offset)?,
            position: i32::try_from(position)
                .map_err(|_| IndexError::PositionOverflow { position })?,
        };
        self.last_indexed_offset = Some(offset);
        let time = self.last_time_entry()?;
        add(IndexEntries {
            offset: fields.into(),
            time,
        });
        Ok(())
    }

    /// The difference to the base offset if an entry can hold it (`AbstractIndex.toRelative`).
    #[inline]
    fn relative_offset(&self, offset: i64) -> Result<i32, IndexError> {
        let base_offset = self.base_offset;
        let relative = i32::try_from(offset.wrapping_sub(base_offset)).ok();
        relative
            .filter(|relative| *relative >= 0)
            .ok_or(IndexError::OffsetOverflow {
                offset,
                base_offset,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: i64 = 100;

    fn batch(last_offset: i64, max_timestamp: i64, position: u64) -> IndexedBatch {
        IndexedBatch {
            last_offset,
            max_timestamp,
            position,
            size_in_bytes: 50,
        }
    }

    fn next_batch(indexer: &mut SegmentIndexer, batch: &IndexedBatch) -> Option<IndexEntries> {
        let mut entries = None;
        let taken = indexer.next_batch(batch, |it| entries = Some(it));
        taken.unwrap();
        entries
    }

    fn offsets(entries: Option<IndexEntries>) -> Option<(i64, i32)> {
        entries.map(|it| (it.offset.offset(BASE), it.offset.position()))
    }

    fn times(entry: Option<TimeIndexEntry>) -> Option<(i64, i64)> {
        entry.map(|it| (it.timestamp(), it.offset(BASE)))
    }

    #[test]
    fn more_than_the_interval_must_lie_between_entries() {
        let mut indexer = SegmentIndexer::new(BASE, 100);
        let entries: Vec<_> = (0..6)
            .map(|i| next_batch(&mut indexer, &batch(BASE + i, 7, 50 * i.unsigned_abs())))
            .map(offsets)
            .collect();
        let expected = [None, None, None, Some((103, 150)), None, None];
        assert_eq!(entries, expected);
    }

    #[test]
    fn time_entries_name_the_batch_that_first_had_the_largest_timestamp() {
        let mut indexer = SegmentIndexer::new(BASE, 10);
        assert_eq!(next_batch(&mut indexer, &batch(100, 5, 0)), None);
        let second = next_batch(&mut indexer, &batch(101, 9, 50)).unwrap();
        assert_eq!(times(second.time), Some((9, 101)));
        let third = next_batch(&mut indexer, &batch(102, 9, 100)).unwrap();
        assert_eq!(times(third.time), None);
        assert_eq!(times(indexer.last_time_entry().unwrap()), None);
    }

    #[test]
    fn largest_timestamp_is_forced_at_the_end_but_not_twice() {
        let mut indexer = SegmentIndexer::new(BASE, 1000);
        assert_eq!(indexer.last_time_entry_at_close(), Ok(None));
        next_batch(&mut indexer, &batch(100, 5, 0));
        next_batch(&mut indexer, &batch(101, 3, 50));
        let last = indexer.last_time_entry_at_close().unwrap();
        assert_eq!(times(last), Some((5, 100)));
        assert_eq!(indexer.last_time_entry(), Ok(None));
    }

    #[test]
    fn no_timestamp_gives_no_time_entry() {
        let mut indexer = SegmentIndexer::new(BASE, 10);
        next_batch(&mut indexer, &batch(100, -1, 0));
        let second = next_batch(&mut indexer, &batch(101, -1, 50)).unwrap();
        assert_eq!((second.time, indexer.last_time_entry()), (None, Ok(None)));
    }

    #[test]
    fn reopening_begins_the_count_anew_and_keeps_the_last_entries() {
        let last = TimestampOffset {
            timestamp: 9,
            offset: 101,
        };
        let mut indexer = SegmentIndexer::resumed(BASE, 40, Some(101), Some(last));
        assert_eq!(indexer.last_time_entry_at_close(), Ok(None));
        assert_eq!(next_batch(&mut indexer, &batch(102, 4, 500)), None);
        let entries = next_batch(&mut indexer, &batch(103, 4, 550)).unwrap();
        assert_eq!(
            (offsets(Some(entries)), entries.time),
            (Some((103, 550)), None)
        );
    }

    #[test]
    fn what_an_entry_cannot_hold_is_refused() {
        let mut indexer = SegmentIndexer::new(BASE, 10);
        let far = BASE + i64::from(i32::MAX);
        assert!(indexer.next_batch(&batch(far, 1, 0), drop).is_ok());
        let overflow = indexer
            .next_batch(&batch(far + 1, 1, 50), drop)
            .unwrap_err();
        assert!(matches!(overflow, IndexError::OffsetOverflow { .. }));
        let overflow = indexer
            .next_batch(&batch(BASE - 1, 1, 50), drop)
            .unwrap_err();
        assert!(matches!(overflow, IndexError::OffsetOverflow { .. }));
        assert!(next_batch(&mut indexer, &batch(110, 1, 50)).is_some());
        let falling = indexer.next_batch(&batch(109, 1, 100), drop).unwrap_err();
        assert!(matches!(falling, IndexError::OffsetNotAbove { .. }));
    }
}
