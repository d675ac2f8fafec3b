//! `.snapshot`: the state of all producers before an offset. Kafka 0.11 and later, version 1 ever
//! since.
//!
//! | position  | type   | field                 |
//! |-----------|--------|-----------------------|
//! | 0         | int16  | version, 1            |
//! | 2         | uint32 | crc: CRC-32C of everything from position 6 to the end of the file |
//! | 6         | int32  | number of entries     |
//! | 10 + 46 i | int64  | producerId            |
//! | + 8       | int16  | producerEpoch         |
//! | + 10      | int32  | lastSequence          |
//! | + 14      | int64  | lastOffset            |
//! | + 22      | int32  | offsetDelta           |
//! | + 26      | int64  | timestamp             |
//! | + 34      | int32  | coordinatorEpoch      |
//! | + 38      | int64  | currentTxnFirstOffset |
//!
//! The order of the entries is that of a Java hash map. Decides
//! `ProducerStateManager.readSnapshot`, `ProducerSnapshot.json`.

use zerocopy::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "producer snapshot";

const VERSION_SIZE: usize = 2;
const CRC_POSITION: usize = VERSION_SIZE;
const CRC_SIZE: usize = 4;
/// Where the bytes under the checksum begin: at the number of entries.
pub const CRC_START: usize = CRC_POSITION + CRC_SIZE;
/// Bytes before the entries.
pub const HEADER_SIZE: usize = CRC_START + 4;
/// Bytes of one entry.
pub const ENTRY_SIZE: usize = 46;
/// The version of this layout, the only one there is.
pub const VERSION: i16 = 1;

/// The 10 bytes before the entries.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ProducerSnapshotHeader {
    version: I16,
    crc: U32,
    entry_count: I32,
}

const _: () = assert!(size_of::<ProducerSnapshotHeader>() == HEADER_SIZE);
const _: () = assert!(std::mem::offset_of!(ProducerSnapshotHeader, entry_count) == CRC_START);

impl ProducerSnapshotHeader {
    /// The version; [`VERSION`] in every snapshot that Kafka reads.
    #[must_use]
    pub fn version(&self) -> i16 {
        self.version.get()
    }

    /// The stored checksum.
    #[must_use]
    pub fn crc(&self) -> u32 {
        self.crc.get()
    }

    /// Number of entries, as stored.
    #[must_use]
    pub fn entry_count(&self) -> i32 {
        self.entry_count.get()
    }
}

/// What a snapshot remembers of one producer, as it lies in the file.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ProducerSnapshotEntry {
    producer_id: I64,
    producer_epoch: I16,
    last_sequence: I32,
    last_offset: I64,
    offset_delta: I32,
    timestamp: I64,
    coordinator_epoch: I32,
    current_txn_first_offset: I64,
}

const _: () = assert!(size_of::<ProducerSnapshotEntry>() == ENTRY_SIZE);
const _: () = assert!(std::mem::offset_of!(ProducerSnapshotEntry, timestamp) == 26);

/// The fields of an entry as plain numbers: what one fills in to make an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "Kafka's names, explained at the methods of ProducerSnapshotEntry"
)]
pub struct ProducerSnapshotFields {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub last_sequence: i32,
    pub last_offset: i64,
    pub offset_delta: i32,
    pub timestamp: i64,
    pub coordinator_epoch: i32,
    pub current_txn_first_offset: i64,
}

impl From<ProducerSnapshotFields> for ProducerSnapshotEntry {
    fn from(fields: ProducerSnapshotFields) -> Self {
        Self {
            producer_id: fields.producer_id.into(),
            producer_epoch: fields.producer_epoch.into(),
            last_sequence: fields.last_sequence.into(),
            last_offset: fields.last_offset.into(),
            offset_delta: fields.offset_delta.into(),
            timestamp: fields.timestamp.into(),
            coordinator_epoch: fields.coordinator_epoch.into(),
            current_txn_first_offset: fields.current_txn_first_offset.into(),
        }
    }
}

impl ProducerSnapshotEntry {
    /// All fields as plain numbers.
    #[must_use]
    pub fn fields(&self) -> ProducerSnapshotFields {
        ProducerSnapshotFields {
            producer_id: self.producer_id(),
            producer_epoch: self.producer_epoch(),
            last_sequence: self.last_sequence(),
            last_offset: self.last_offset(),
            offset_delta: self.offset_delta(),
            timestamp: self.timestamp(),
            coordinator_epoch: self.coordinator_epoch(),
            current_txn_first_offset: self.current_txn_first_offset(),
        }
    }

    /// The producer's id.
    #[must_use]
    #[inline]
    pub fn producer_id(&self) -> i64 {
        self.producer_id.get()
    }

    /// The producer's epoch; -1 if only a marker emptied by the cleaner was seen.
    #[must_use]
    #[inline]
    pub fn producer_epoch(&self) -> i16 {
        self.producer_epoch.get()
    }

    /// Last sequence of the newest remembered batch, -1 if none.
    #[must_use]
    #[inline]
    pub fn last_sequence(&self) -> i32 {
        self.last_sequence.get()
    }

    /// Last offset of the newest remembered batch, -1 if none.
    #[must_use]
    #[inline]
    pub fn last_offset(&self) -> i64 {
        self.last_offset.get()
    }

    /// Last offset less base offset of the newest remembered batch, 0 if none.
    #[must_use]
    #[inline]
    pub fn offset_delta(&self) -> i32 {
        self.offset_delta.get()
    }

    /// When the producer was last heard of: maxTimestamp of its last batch or the timestamp of
    /// its marker, whichever came last; -1 if none.
    #[must_use]
    #[inline]
    pub fn timestamp(&self) -> i64 {
        self.timestamp.get()
    }

    /// Coordinator epoch of the producer's last marker, -1 if none.
    #[must_use]
    #[inline]
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch.get()
    }

    /// First offset of the open transaction, -1 if none.
    #[must_use]
    #[inline]
    pub fn current_txn_first_offset(&self) -> i64 {
        self.current_txn_first_offset.get()
    }
}

/// A snapshot that Kafka would accept, borrowed from the bytes of the file.
#[derive(Clone, Copy, Debug)]
pub struct ProducerSnapshot<'a> {
    header: &'a ProducerSnapshotHeader,
    entries: &'a [ProducerSnapshotEntry],
    trailing: &'a [u8],
}

impl<'a> ProducerSnapshot<'a> {
    /// The snapshot whose whole content is `bytes`.
    ///
    /// As in Kafka, bytes behind the entries are accepted if the checksum covers them, and a
    /// producer id may come twice; then the later entry counts (`loadFromSnapshot`).
    ///
    /// # Errors
    /// In this order: the header or the entries are cut short, the version is not [`VERSION`],
    /// the number of entries is negative, the checksum is wrong. Kafka deletes such a file and
    /// takes the snapshot before it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        // Kafka looks at the version as soon as its two bytes are there.
        if let Some((&version, _)) = bytes.split_first_chunk::<VERSION_SIZE>() {
            check_version(i16::from_be_bytes(version))?;
        }
        let Ok((header, body)) = ProducerSnapshotHeader::ref_from_prefix(bytes) else {
            return Err(truncated("header", 0, HEADER_SIZE as u64, bytes));
        };
        let found = header.entry_count();
        let Ok(count) = usize::try_from(found) else {
            let kind = DecodeErrorKind::BelowMinimum {
                found: i64::from(found),
                minimum: 0,
            };
            return Err(error("producerEntries", CRC_START, kind));
        };
        let Ok((entries, trailing)) =
            <[ProducerSnapshotEntry]>::ref_from_prefix_with_elems(body, count)
        else {
            let needed = HEADER_SIZE as u64 + count as u64 * ENTRY_SIZE as u64;
            return Err(truncated("producerEntries", HEADER_SIZE, needed, bytes));
        };
        let stored = header.crc();
        let computed = crc32c::crc32c(bytes.get(CRC_START..).unwrap_or_default());
        if stored != computed {
            let kind = DecodeErrorKind::Checksum { stored, computed };
            return Err(error("crc", CRC_POSITION, kind));
        }
        Ok(Self {
            header,
            entries,
            trailing,
        })
    }

    /// The bytes before the entries.
    #[must_use]
    pub fn header(&self) -> &'a ProducerSnapshotHeader {
        self.header
    }

    /// The producers, in the order of the file.
    #[must_use]
    pub fn entries(&self) -> &'a [ProducerSnapshotEntry] {
        self.entries
    }

    /// Bytes behind the entries that nothing reads; 0 in every snapshot that Kafka wrote.
    #[must_use]
    pub fn trailing_size(&self) -> usize {
        self.trailing.len()
    }
}

fn check_version(found: i16) -> Result<(), DecodeError> {
    if found == VERSION {
        return Ok(());
    }
    let kind = DecodeErrorKind::UnknownVersion {
        found: i64::from(found),
        newest: i64::from(VERSION),
    };
    Err(error("version", 0, kind))
}

fn error(field: &'static str, position: usize, kind: DecodeErrorKind) -> DecodeError {
    DecodeError::new(STRUCTURE, field, position as u64, kind)
}

fn truncated(field: &'static str, position: usize, needed: u64, bytes: &[u8]) -> DecodeError {
    let available = bytes.len() as u64;
    error(
        field,
        position,
        DecodeErrorKind::Truncated { needed, available },
    )
}

/// The content of a `.snapshot` file with these entries.
#[must_use]
pub fn encode(entries: &[ProducerSnapshotEntry]) -> Vec<u8> {
    let entry_count = i32::try_from(entries.len()).unwrap_or(i32::MAX);
    let entry_count = I32::new(entry_count);
    let entries = entries.as_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(entry_count.as_bytes()), entries);
    let header = ProducerSnapshotHeader {
        version: VERSION.into(),
        crc: crc.into(),
        entry_count,
    };
    [header.as_bytes(), entries].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two producers, written by Kafka 4.3.1.
    const TWO_PRODUCERS: [u8; 102] = [
        0x00, 0x01, 0xa7, 0x67, 0x14, 0x5f, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x07, 0xd0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xa2, 0x28, 0x17, 0xc1, 0xf6, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x03, 0xe8, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0xa2, 0x28, 0x17, 0xba, 0x26,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    ];

    fn kind(bytes: &[u8]) -> DecodeErrorKind {
        ProducerSnapshot::decode(bytes).unwrap_err().kind
    }

    /// Makes the checksum right again after a change.
    fn seal(bytes: &mut [u8]) {
        let crc = crc32c::crc32c(&bytes[CRC_START..]);
        bytes[CRC_POSITION..CRC_START].copy_from_slice(&crc.to_be_bytes());
    }

    #[test]
    fn kafka_bytes_to_every_field_and_back() {
        let snapshot = ProducerSnapshot::decode(&TWO_PRODUCERS).unwrap();
        assert_eq!(snapshot.header().version(), 1);
        assert_eq!(snapshot.header().crc(), 0xa767_145f);
        assert_eq!(snapshot.header().entry_count(), 2);
        assert_eq!(snapshot.trailing_size(), 0);
        let [first, second] = snapshot.entries() else {
            panic!("two entries expected");
        };
        let expected = ProducerSnapshotFields {
            producer_id: 2000,
            producer_epoch: 0,
            last_sequence: 9,
            last_offset: 16,
            offset_delta: 0,
            timestamp: 1_795_968_975_350,
            coordinator_epoch: -1,
            current_txn_first_offset: -1,
        };
        assert_eq!(first.fields(), expected);
        assert_eq!((second.producer_id(), second.producer_epoch()), (1000, 3));
        assert_eq!((second.last_sequence(), second.last_offset()), (0, 13));
        assert_eq!(second.timestamp(), 1_795_968_973_350);
        assert_eq!(encode(snapshot.entries()), TWO_PRODUCERS);
    }

    #[test]
    fn each_cause_has_its_error() {
        assert!(matches!(
            kind(&[]),
            DecodeErrorKind::Truncated {
                needed: 10,
                available: 0
            }
        ));
        assert!(matches!(
            kind(&TWO_PRODUCERS[..101]),
            DecodeErrorKind::Truncated {
                needed: 102,
                available: 101
            }
        ));
        let mut bytes = TWO_PRODUCERS;
        bytes[1] = 2;
        assert!(matches!(
            kind(&bytes),
            DecodeErrorKind::UnknownVersion {
                found: 2,
                newest: 1
            }
        ));
        let mut bytes = TWO_PRODUCERS;
        bytes[50] ^= 1;
        assert!(matches!(
            kind(&bytes),
            DecodeErrorKind::Checksum {
                stored: 0xa767_145f,
                ..
            }
        ));
        let mut bytes = TWO_PRODUCERS;
        bytes[6] = 0xff;
        seal(&mut bytes);
        assert!(matches!(
            kind(&bytes),
            DecodeErrorKind::BelowMinimum { minimum: 0, .. }
        ));
    }

    #[test]
    fn zero_file_has_no_version() {
        assert!(matches!(
            kind(&[0; 56]),
            DecodeErrorKind::UnknownVersion { found: 0, .. }
        ));
    }

    #[test]
    fn bytes_behind_the_entries_pass_if_the_checksum_covers_them() {
        let mut bytes = TWO_PRODUCERS.to_vec();
        bytes.extend([1, 2, 3]);
        assert!(matches!(kind(&bytes), DecodeErrorKind::Checksum { .. }));
        seal(&mut bytes);
        let snapshot = ProducerSnapshot::decode(&bytes).unwrap();
        assert_eq!((snapshot.entries().len(), snapshot.trailing_size()), (2, 3));
    }

    #[test]
    fn empty_snapshot_is_ten_bytes() {
        let bytes = encode(&[]);
        assert_eq!(bytes.len(), HEADER_SIZE);
        assert!(
            ProducerSnapshot::decode(&bytes)
                .unwrap()
                .entries()
                .is_empty()
        );
    }

    proptest! {
        #[test]
        fn round_trip(bytes in prop::collection::vec(any::<[u8; ENTRY_SIZE]>(), 0..5)) {
            let bytes = bytes.concat();
            let entries = <[ProducerSnapshotEntry]>::ref_from_bytes(&bytes).unwrap();
            let rebuilt: Vec<_> = entries.iter().map(|entry| entry.fields().into()).collect();
            prop_assert_eq!(entries, &rebuilt);
            let file = encode(&rebuilt);
            let decoded = ProducerSnapshot::decode(&file).unwrap();
            prop_assert_eq!(decoded.entries(), entries);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            version in prop_oneof![Just(VERSION), any::<i16>()],
            count in prop_oneof![0..4i32, any::<i32>()],
            body in prop::collection::vec(any::<u8>(), 0..200),
            sealed: bool,
        ) {
            let mut bytes = version.to_be_bytes().to_vec();
            bytes.extend([0; 4]);
            bytes.extend(count.to_be_bytes());
            bytes.extend(body);
            if sealed {
                seal(&mut bytes);
            }
            let _ = ProducerSnapshot::decode(&bytes);
            let _ = ProducerSnapshot::decode(&bytes[2..]);
        }
    }
}
