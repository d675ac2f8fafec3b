//! What the two sparse indexes have in common: rows of one size in front, zeros behind.
//!
//! The indexes of an active segment are mapped at their full size, so the length of the file says
//! nothing (`AbstractIndex`). An index ends at its first all-zero entry after the first; an index
//! of zeros has no rows. Kafka 4.3.1 counts every whole entry of the file when it opens one, the
//! zeros too: [`IndexRows::slots`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What an entry of an index is: bytes of one size, whatever they say.
pub trait IndexEntry: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {}

impl<E: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned> IndexEntry for E {}

/// The rows of an index and what lies behind them, borrowed from the bytes of the file.
///
/// Any bytes are an index: damage shows in what the rows say and in what follows them.
#[derive(Clone, Copy, Debug)]
pub struct IndexRows<'a, E> {
    slots: &'a [E],
    row_count: usize,
    ragged: &'a [u8],
}

impl<'a, E: IndexEntry> IndexRows<'a, E> {
    /// The rows of the index whose whole content is `bytes`.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Self {
        let count = bytes.len() / size_of::<E>();
        let (slots, ragged) =
            <[E]>::ref_from_prefix_with_elems(bytes, count).unwrap_or((&[], bytes));
        Self {
            slots,
            row_count: count_rows(slots),
            ragged,
        }
    }

    /// The entries before the zeros.
    #[must_use]
    pub fn rows(&self) -> &'a [E] {
        self.slots.get(..self.row_count).unwrap_or_default()
    }

    /// All whole entries of the file, zeros included: what Kafka sees when it opens the index.
    #[must_use]
    pub fn slots(&self) -> &'a [E] {
        self.slots
    }

    /// How many entries lie before the zeros.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes of the whole entries behind the rows: room for more in the index of an active
    /// segment, 0 in a trimmed one. They are zeros unless
    /// [`IndexRows::non_zero_position_after_rows`] says otherwise.
    #[must_use]
    pub fn zero_tail_size(&self) -> usize {
        self.slots.len().saturating_sub(self.row_count) * size_of::<E>()
    }

    /// Bytes behind the last whole entry; other than 0 only in a damaged index.
    #[must_use]
    pub fn ragged_size(&self) -> usize {
        self.ragged.len()
    }

    /// Byte position of the first byte behind the first zero entry that is not zero; there is
    /// none in an index that Kafka wrote.
    #[must_use]
    pub fn non_zero_position_after_rows(&self) -> Option<u64> {
        let zeros = self.slots.get(self.row_count..).unwrap_or_default();
        if zeros.is_empty() {
            return None;
        }
        let rows_size = self.row_count * size_of::<E>();
        let found = match non_zero_position(zeros.as_bytes()) {
            Some(position) => rows_size + position,
            None => self.slots.as_bytes().len() + non_zero_position(self.ragged)?,
        };
        Some(found as u64)
    }
}

fn count_rows<E: IntoBytes + Immutable>(slots: &[E]) -> usize {
    let Some((first, others)) = slots.split_first() else {
        return 0;
    };
    if is_zero(first.as_bytes()) && non_zero_position(others.as_bytes()).is_none() {
        return 0;
    }
    let before_zero = others
        .iter()
        .position(|entry| is_zero(entry.as_bytes()))
        .unwrap_or(others.len());
    1 + before_zero
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |bits, byte| bits | byte) == 0
}

/// Where the first byte other than 0 lies.
fn non_zero_position(bytes: &[u8]) -> Option<usize> {
    // Block by block, so that ten megabytes of zeros take about a millisecond.
    const BLOCK_SIZE: usize = 256;
    let (index, block) = bytes
        .chunks(BLOCK_SIZE)
        .enumerate()
        .find(|(_, block)| !is_zero(block))?;
    let inside = block.iter().position(|byte| *byte != 0)?;
    Some(index * BLOCK_SIZE + inside)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Rows<'a> = IndexRows<'a, [u8; 4]>;

    fn summary(bytes: &[u8]) -> (usize, usize, usize, Option<u64>) {
        let rows = Rows::decode(bytes);
        (
            rows.row_count(),
            rows.zero_tail_size(),
            rows.ragged_size(),
            rows.non_zero_position_after_rows(),
        )
    }

    #[test]
    fn rows_end_at_the_first_zero_entry_after_the_first() {
        assert_eq!(summary(&[]), (0, 0, 0, None));
        assert_eq!(summary(&[0; 12]), (0, 12, 0, None));
        assert_eq!(summary(&[0, 0, 0, 1]), (1, 0, 0, None));
        assert_eq!(
            summary(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]),
            (1, 8, 0, None)
        );
        // A zero entry in front of others counts as a row.
        assert_eq!(summary(&[0, 0, 0, 0, 0, 0, 0, 1]), (2, 0, 0, None));
        let behind_two_zero_entries = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0];
        assert_eq!(summary(&behind_two_zero_entries), (1, 8, 0, Some(10)));
    }

    #[test]
    fn ragged_bytes_are_counted_and_looked_at() {
        assert_eq!(summary(&[7]), (0, 0, 1, None));
        assert_eq!(summary(&[0, 0, 0, 1, 9, 9]), (1, 0, 2, None));
        assert_eq!(summary(&[0, 0, 0, 1, 0, 0, 0, 0, 0]), (1, 4, 1, None));
        assert_eq!(summary(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 3]), (1, 4, 2, Some(9)));
    }

    #[test]
    fn a_byte_far_behind_the_rows_is_found() {
        let mut bytes = vec![0; 4096];
        bytes[0] = 1;
        bytes[1234] = 1;
        assert_eq!(summary(&bytes), (1, 4092, 0, Some(1234)));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_all_accounted_for(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..64),
        ) {
            let rows = Rows::decode(&bytes);
            let size = rows.rows().as_bytes().len() + rows.zero_tail_size() + rows.ragged_size();
            prop_assert_eq!(size, bytes.len());
            prop_assert_eq!(rows.rows().len(), rows.row_count());
            if let Some(position) = rows.non_zero_position_after_rows() {
                let position = usize::try_from(position).unwrap();
                prop_assert!(bytes[position] != 0);
                prop_assert!(is_zero(&bytes[rows.rows().as_bytes().len()..position]));
            }
        }
    }
}
