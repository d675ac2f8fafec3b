//! `.timeindex`: by which offset a timestamp was reached. 12 bytes an entry. Kafka 0.10.1 and
//! later.
//!
//! | position | type  | field                                                        |
//! |----------|-------|--------------------------------------------------------------|
//! | 0        | int64 | largest maxTimestamp of the segment so far, in milliseconds  |
//! | 8        | int32 | last offset of the first batch that has it, less the base offset |
//!
//! Both columns rise strictly. Up to Kafka 3.7 the offset can be that of the record itself. Where
//! the entries end: [`IndexRows`]. Decides `TimeIndex`.

use zerocopy::big_endian::{I32, I64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::IndexRows;

/// Bytes of one entry.
pub const ENTRY_SIZE: usize = 12;

/// The entries of a `.timeindex` file.
pub type TimeIndexRows<'a> = IndexRows<'a, TimeIndexEntry>;

/// One entry as it lies in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct TimeIndexEntry {
    timestamp: I64,
    relative_offset: I32,
}

const _: () = assert!(size_of::<TimeIndexEntry>() == ENTRY_SIZE);
const _: () = assert!(std::mem::offset_of!(TimeIndexEntry, relative_offset) == 8);

/// The fields of an entry as plain numbers: what one fills in to make an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeIndexFields {
    /// Milliseconds since the epoch.
    pub timestamp: i64,
    /// Offset less the base offset of the segment.
    pub relative_offset: i32,
}

impl From<TimeIndexFields> for TimeIndexEntry {
    fn from(fields: TimeIndexFields) -> Self {
        Self {
            timestamp: fields.timestamp.into(),
            relative_offset: fields.relative_offset.into(),
        }
    }
}

impl TimeIndexEntry {
    /// Largest timestamp of the segment up to [`TimeIndexEntry::offset`], in milliseconds.
    #[must_use]
    #[inline]
    pub fn timestamp(&self) -> i64 {
        self.timestamp.get()
    }

    /// Offset less the base offset of the segment, as stored.
    #[must_use]
    #[inline]
    pub fn relative_offset(&self) -> i32 {
        self.relative_offset.get()
    }

    /// The offset, in a segment that starts at `base_offset`. Wraps as Java's arithmetic does.
    #[must_use]
    #[inline]
    pub fn offset(&self, base_offset: i64) -> i64 {
        base_offset.wrapping_add(i64::from(self.relative_offset()))
    }

    /// The entry as it lies in a file.
    #[must_use]
    pub fn as_array(&self) -> [u8; ENTRY_SIZE] {
        zerocopy::transmute!(*self)
    }
}

/// The timestamp of the last entry as a broker takes it that opens the file: zeros behind the
/// entries are entries too (`TimeIndex.lastEntryFromIndexFile`). `None` if there is none.
#[must_use]
pub fn last_timestamp(index: &TimeIndexRows<'_>) -> Option<i64> {
    index.slots().last().map(TimeIndexEntry::timestamp)
}

/// The content of a trimmed `.timeindex` file with these entries.
#[must_use]
pub fn encode(entries: &[TimeIndexEntry]) -> Vec<u8> {
    entries.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first entries for a segment with base offset 6, written by Kafka 4.3.1.
    const TRIMMED: [u8; 36] = [
        0x00, 0x00, 0x01, 0x9b, 0xc0, 0xab, 0x37, 0x8a, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x01,
        0x9b, 0xc0, 0xab, 0x3f, 0x5a, 0x00, 0x00, 0x00, 0x0e, 0x00, 0x00, 0x01, 0x9b, 0xc0, 0xab,
        0x47, 0x2a, 0x00, 0x00, 0x00, 0x14,
    ];

    #[test]
    fn kafka_bytes_to_entries_and_back() {
        let index = TimeIndexRows::decode(&TRIMMED);
        let rows: Vec<_> = index
            .rows()
            .iter()
            .map(|entry| (entry.timestamp(), entry.offset(6)))
            .collect();
        let expected = [
            (1_768_464_005_002, 14),
            (1_768_464_007_002, 20),
            (1_768_464_009_002, 26),
        ];
        assert_eq!(rows, expected);
        assert_eq!(encode(index.rows()), TRIMMED);
    }

    #[test]
    fn offset_zero_with_a_timestamp_is_a_row() {
        // Kafka wrote this for a segment whose first batch holds its largest timestamp.
        let bytes = [0, 0, 0x1d, 0x8f, 0xda, 0x4c, 0xe0, 0, 0, 0, 0, 0];
        let index = TimeIndexRows::decode(&bytes);
        assert_eq!(index.row_count(), 1);
        assert_eq!(index.rows()[0].offset(2), 2);
    }

    #[test]
    fn preallocated_index_ends_at_the_zeros() {
        let mut bytes = TRIMMED.to_vec();
        bytes.resize(120, 0);
        let index = TimeIndexRows::decode(&bytes);
        assert_eq!((index.row_count(), index.zero_tail_size()), (3, 84));
        assert_eq!(TimeIndexRows::decode(&[0; 120]).row_count(), 0);
    }

    proptest! {
        #[test]
        fn round_trip(timestamp: i64, relative_offset: i32, base_offset: i64) {
            let entry = TimeIndexEntry::from(TimeIndexFields { timestamp, relative_offset });
            prop_assert_eq!(entry.timestamp(), timestamp);
            prop_assert_eq!(entry.relative_offset(), relative_offset);
            let bytes = entry.as_array();
            prop_assert_eq!(TimeIndexRows::decode(&bytes).slots(), &[entry]);
            let _ = entry.offset(base_offset);
        }
    }
}
