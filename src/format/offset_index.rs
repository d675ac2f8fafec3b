//! `.index`: where in the log file a batch with an offset starts. 8 bytes an entry.
//!
//! | position | type  | field                                                        |
//! |----------|-------|--------------------------------------------------------------|
//! | 0        | int32 | last offset of the batch less the base offset of the segment |
//! | 4        | int32 | position of the start of that batch in `.log`                |
//!
//! Both columns rise strictly. Up to Kafka 4.0 the offset can be that of a later batch of the
//! same append. Where the entries end: [`IndexRows`]. Decides `OffsetIndex`.

use zerocopy::big_endian::I32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::IndexRows;

/// Bytes of one entry.
pub const ENTRY_SIZE: usize = 8;

/// The entries of an `.index` file.
pub type OffsetIndexRows<'a> = IndexRows<'a, OffsetIndexEntry>;

/// One entry as it lies in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct OffsetIndexEntry {
    relative_offset: I32,
    position: I32,
}

const _: () = assert!(size_of::<OffsetIndexEntry>() == ENTRY_SIZE);
const _: () = assert!(std::mem::offset_of!(OffsetIndexEntry, position) == 4);

/// The fields of an entry as plain numbers: what one fills in to make an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetIndexFields {
    /// Offset less the base offset of the segment.
    pub relative_offset: i32,
    /// Byte position of a batch in the log file.
    pub position: i32,
}

impl From<OffsetIndexFields> for OffsetIndexEntry {
    fn from(fields: OffsetIndexFields) -> Self {
        Self {
            relative_offset: fields.relative_offset.into(),
            position: fields.position.into(),
        }
    }
}

impl OffsetIndexEntry {
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

    /// Byte position in the log file at which the batch starts.
    #[must_use]
    #[inline]
    pub fn position(&self) -> i32 {
        self.position.get()
    }

    /// The entry as it lies in a file.
    #[must_use]
    pub fn as_array(&self) -> [u8; ENTRY_SIZE] {
        zerocopy::transmute!(*self)
    }
}

/// The content of a trimmed `.index` file with these entries.
#[must_use]
pub fn encode(entries: &[OffsetIndexEntry]) -> Vec<u8> {
    entries.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The index of a segment with base offset 6, as Kafka 4.3.1 trimmed it.
    const TRIMMED: [u8; 40] = [
        0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x01, 0x56, 0x00, 0x00, 0x00, 0x0e, 0x00, 0x00, 0x02,
        0xaf, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x04, 0x07, 0x00, 0x00, 0x00, 0x1a, 0x00, 0x00,
        0x05, 0x5e, 0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x06, 0xb4,
    ];

    #[test]
    fn kafka_bytes_to_entries_and_back() {
        let index = OffsetIndexRows::decode(&TRIMMED);
        let rows: Vec<_> = index
            .rows()
            .iter()
            .map(|entry| (entry.offset(6), entry.position()))
            .collect();
        let expected = [(14, 342), (20, 687), (26, 1031), (32, 1374), (37, 1716)];
        assert_eq!(rows, expected);
        assert_eq!(index.zero_tail_size(), 0);
        assert_eq!(encode(index.rows()), TRIMMED);
    }

    #[test]
    fn preallocated_index_ends_at_the_zeros() {
        let mut bytes = TRIMMED.to_vec();
        bytes.resize(1024, 0);
        let index = OffsetIndexRows::decode(&bytes);
        assert_eq!(index.row_count(), 5);
        assert_eq!(index.slots().len(), 128);
        assert_eq!(index.zero_tail_size(), 984);
        assert_eq!(index.non_zero_position_after_rows(), None);
    }

    #[test]
    fn zeroed_entry_ends_the_index_and_is_noticed() {
        // A power loss can leave a page of zeros in the middle.
        let mut bytes = TRIMMED;
        bytes[8..16].fill(0);
        let index = OffsetIndexRows::decode(&bytes);
        assert_eq!(index.row_count(), 1);
        assert_eq!(index.non_zero_position_after_rows(), Some(19));
    }

    #[test]
    fn offset_of_zero_with_a_position_is_no_end() {
        let index = OffsetIndexRows::decode(&[0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(index.row_count(), 2);
    }

    proptest! {
        #[test]
        fn round_trip(relative_offset: i32, position: i32, base_offset: i64) {
            let entry = OffsetIndexEntry::from(OffsetIndexFields { relative_offset, position });
            prop_assert_eq!(entry.relative_offset(), relative_offset);
            prop_assert_eq!(entry.position(), position);
            let bytes = entry.as_array();
            prop_assert_eq!(OffsetIndexRows::decode(&bytes).slots(), &[entry]);
            let _ = entry.offset(base_offset);
        }
    }
}
