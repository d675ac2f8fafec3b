//! `.txnindex`: the transactions whose ABORT marker lies in a segment. 34 bytes a row. Kafka 0.11
//! and later.
//!
//! | position | type  | field            |
//! |----------|-------|------------------|
//! | 0        | int16 | version, 0; Kafka reads the first of the two bytes only |
//! | 2        | int64 | producerId       |
//! | 10       | int64 | firstOffset: base offset of the first batch of the transaction |
//! | 18       | int64 | lastOffset: offset of the marker |
//! | 26       | int64 | lastStableOffset: as it was when the row was written |
//!
//! Rows rise by lastOffset. The file is never preallocated; a part of a row at its end is ignored.
//! Decides `AbortedTxn`, `TransactionIndex`.

use zerocopy::big_endian::I64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{DecodeError, DecodeErrorKind};

/// Bytes of one row (`AbortedTxn.TOTAL_SIZE`).
pub const ROW_SIZE: usize = 34;
/// The version of this layout, the only one there is (`AbortedTxn.CURRENT_VERSION`).
pub const CURRENT_VERSION: i8 = 0;

/// One row as it lies in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AbortedTxn {
    version: [u8; 2],
    producer_id: I64,
    first_offset: I64,
    last_offset: I64,
    last_stable_offset: I64,
}

const _: () = assert!(size_of::<AbortedTxn>() == ROW_SIZE);
const _: () = assert!(std::mem::offset_of!(AbortedTxn, last_stable_offset) == 26);

/// The fields of a row as plain numbers: what one fills in to make a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxnFields {
    /// Producer whose transaction it was.
    pub producer_id: i64,
    /// Base offset of the first batch of the transaction in this partition.
    pub first_offset: i64,
    /// Offset of the ABORT marker.
    pub last_offset: i64,
    /// The last stable offset when the row was written.
    pub last_stable_offset: i64,
}

impl From<AbortedTxnFields> for AbortedTxn {
    fn from(fields: AbortedTxnFields) -> Self {
        Self {
            version: [0, 0],
            producer_id: fields.producer_id.into(),
            first_offset: fields.first_offset.into(),
            last_offset: fields.last_offset.into(),
            last_stable_offset: fields.last_stable_offset.into(),
        }
    }
}

impl AbortedTxn {
    /// The version as Kafka reads it: the first byte of the field.
    #[must_use]
    #[inline]
    pub fn version(&self) -> i8 {
        let [first, _] = self.version;
        first.cast_signed()
    }

    /// Both bytes of the version field; 0 in all rows that Kafka wrote.
    #[must_use]
    #[inline]
    pub fn stored_version(&self) -> i16 {
        i16::from_be_bytes(self.version)
    }

    /// Producer whose transaction it was.
    #[must_use]
    #[inline]
    pub fn producer_id(&self) -> i64 {
        self.producer_id.get()
    }

    /// Base offset of the first batch of the transaction, possibly in an older segment.
    #[must_use]
    #[inline]
    pub fn first_offset(&self) -> i64 {
        self.first_offset.get()
    }

    /// Offset of the ABORT marker.
    #[must_use]
    #[inline]
    pub fn last_offset(&self) -> i64 {
        self.last_offset.get()
    }

    /// The last stable offset when the row was written. A follower writes rows after it took in a
    /// whole fetched set, so replicas can differ here.
    #[must_use]
    #[inline]
    pub fn last_stable_offset(&self) -> i64 {
        self.last_stable_offset.get()
    }

    /// The row as it lies in a file.
    #[must_use]
    pub fn as_array(&self) -> [u8; ROW_SIZE] {
        zerocopy::transmute!(*self)
    }
}

/// The rows of a `.txnindex` file, borrowed from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct AbortedTxnRows<'a> {
    rows: &'a [AbortedTxn],
    torn: &'a [u8],
}

impl<'a> AbortedTxnRows<'a> {
    /// The rows of the file whose whole content is `bytes`, whatever their version.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Self {
        let count = bytes.len() / ROW_SIZE;
        let (rows, torn) =
            <[AbortedTxn]>::ref_from_prefix_with_elems(bytes, count).unwrap_or((&[], bytes));
        Self { rows, torn }
    }

    /// The whole rows.
    #[must_use]
    pub fn rows(&self) -> &'a [AbortedTxn] {
        self.rows
    }

    /// Bytes of the part of a row at the end. Kafka does not read them, but appends behind them.
    #[must_use]
    pub fn torn_size(&self) -> usize {
        self.torn.len()
    }

    /// The whole rows one after the other as Kafka reads them (`TransactionIndex.iterable`): in
    /// place of one with a version above [`CURRENT_VERSION`] the error at which it stops, if it
    /// gets as far. Negative versions pass.
    pub fn checked(&self) -> impl Iterator<Item = Result<&'a AbortedTxn, DecodeError>> {
        let rows = self.rows.iter().enumerate();
        rows.map(|(index, row)| match row.version() {
            ..=CURRENT_VERSION => Ok(row),
            found => Err(DecodeError::new(
                "aborted transaction",
                "version",
                (index * ROW_SIZE) as u64,
                DecodeErrorKind::UnknownVersion {
                    found: i64::from(found),
                    newest: i64::from(CURRENT_VERSION),
                },
            )),
        })
    }

    /// Fails where Kafka fails if it reads all rows.
    ///
    /// # Errors
    /// The first of [`AbortedTxnRows::checked`].
    pub fn check_versions(&self) -> Result<(), DecodeError> {
        self.checked().find_map(Result::err).map_or(Ok(()), Err)
    }
}

/// The content of a `.txnindex` file with these rows.
#[must_use]
pub fn encode(rows: &[AbortedTxn]) -> Vec<u8> {
    rows.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three rows written by Kafka 4.3.1.
    const ROWS: [u8; 102] = [
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x4b, 0, 0, 0, 0, 0, 0, 0, 0x4f, 0, 0,
        0, 0, 0, 0, 0, 0x50, //
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x68, 0, 0, 0, 0, 0, 0, 0, 0x71, 0, 0,
        0, 0, 0, 0, 0, 0x72, //
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 0, 0, 0, 0, 0, 0x87, 0, 0,
        0, 0, 0, 0, 0, 0x88,
    ];

    #[test]
    fn kafka_bytes_to_rows_and_back() {
        let index = AbortedTxnRows::decode(&ROWS);
        let rows: Vec<_> = index
            .rows()
            .iter()
            .map(|row| {
                (
                    row.version(),
                    row.producer_id(),
                    row.first_offset(),
                    row.last_offset(),
                    row.last_stable_offset(),
                )
            })
            .collect();
        let expected = [
            (0, 0, 75, 79, 80),
            (0, 0, 104, 113, 114),
            (0, 0, 129, 135, 136),
        ];
        assert_eq!(rows, expected);
        assert_eq!(index.torn_size(), 0);
        assert_eq!(index.check_versions(), Ok(()));
        assert_eq!(encode(index.rows()), ROWS);
    }

    #[test]
    fn torn_row_is_left_out() {
        let index = AbortedTxnRows::decode(&ROWS[..70]);
        assert_eq!((index.rows().len(), index.torn_size()), (2, 2));
    }

    #[test]
    fn only_the_first_byte_of_the_version_counts() {
        let mut bytes = ROWS;
        bytes[35] = 1;
        let index = AbortedTxnRows::decode(&bytes);
        assert_eq!(index.rows()[1].stored_version(), 1);
        assert_eq!(index.check_versions(), Ok(()));

        bytes[34] = 1;
        let error = AbortedTxnRows::decode(&bytes).check_versions().unwrap_err();
        assert_eq!((error.field, error.position), ("version", 34));

        bytes[34] = 0xff;
        assert_eq!(AbortedTxnRows::decode(&bytes).check_versions(), Ok(()));
    }

    proptest! {
        #[test]
        fn round_trip(
            producer_id: i64,
            first_offset: i64,
            last_offset: i64,
            last_stable_offset: i64,
        ) {
            let row = AbortedTxn::from(AbortedTxnFields {
                producer_id,
                first_offset,
                last_offset,
                last_stable_offset,
            });
            let bytes = row.as_array();
            let decoded = AbortedTxnRows::decode(&bytes).rows()[0];
            prop_assert_eq!(decoded, row);
            prop_assert_eq!(decoded.producer_id(), producer_id);
            prop_assert_eq!(decoded.first_offset(), first_offset);
            prop_assert_eq!(decoded.last_offset(), last_offset);
            prop_assert_eq!(decoded.last_stable_offset(), last_stable_offset);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..128)) {
            let index = AbortedTxnRows::decode(&bytes);
            let _ = index.check_versions();
            prop_assert_eq!(index.rows().len() * ROW_SIZE + index.torn_size(), bytes.len());
        }
    }
}
