//! Control records: what a control batch holds instead of data.
//!
//! The key is int16 version and int16 type. Types 0 and 1 end a transaction; their value is
//! int16 version 0 and int32 coordinatorEpoch. Types 2 to 6 belong to KRaft, see
//! [`super::kraft_control_record`].
//!
//! Decides `ControlRecordType`, `EndTransactionMarker`, `ControlRecordUtils`.

use super::kraft_control_record::{
    CURRENT_VERSION, KRaftVersion, KRaftVoters, LeaderChange, SnapshotFooter, SnapshotHeader,
};
use super::record::Record;
use crate::error::{DecodeError, DecodeErrorKind};

/// The type of a control record by its number; unknown numbers stay what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRecordType(pub i16);

impl ControlRecordType {
    /// Ends a transaction whose records no read_committed consumer sees.
    pub const ABORT: Self = Self(0);
    /// Ends a transaction whose records become visible.
    pub const COMMIT: Self = Self(1);
    /// A new KRaft leader.
    pub const LEADER_CHANGE: Self = Self(2);
    /// First record of a KRaft snapshot.
    pub const SNAPSHOT_HEADER: Self = Self(3);
    /// Last record of a KRaft snapshot.
    pub const SNAPSHOT_FOOTER: Self = Self(4);
    /// The `kraft.version` in force.
    pub const KRAFT_VERSION: Self = Self(5);
    /// The voters of a KRaft quorum.
    pub const KRAFT_VOTERS: Self = Self(6);

    /// Kafka's upper-case name; `UNKNOWN` for a number without one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "ABORT",
            1 => "COMMIT",
            2 => "LEADER_CHANGE",
            3 => "SNAPSHOT_HEADER",
            4 => "SNAPSHOT_FOOTER",
            5 => "KRAFT_VERSION",
            6 => "KRAFT_VOTERS",
            _ => "UNKNOWN",
        }
    }

    /// The type in the key of a control record.
    ///
    /// Versions above 0 and longer keys are accepted, as Kafka does.
    ///
    /// # Errors
    /// If the key is shorter than four bytes or the version is negative.
    pub fn decode_key(key: &[u8]) -> Result<Self, DecodeError> {
        let Some((&[v0, v1, t0, t1], _)) = key.split_first_chunk::<4>() else {
            return Err(truncated("control record key", 4, key));
        };
        check_version("control record key", i16::from_be_bytes([v0, v1]))?;
        Ok(Self(i16::from_be_bytes([t0, t1])))
    }

    /// The key of a control record of this type.
    #[must_use]
    pub fn encode_key(self) -> [u8; 4] {
        let [t0, t1] = self.0.to_be_bytes();
        [0, 0, t0, t1]
    }
}

/// The marker that ends a transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// [`ControlRecordType::ABORT`] or [`ControlRecordType::COMMIT`].
    pub control_type: ControlRecordType,
    /// Epoch of the transaction coordinator that decided.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// Bytes of the value.
    pub const VALUE_SIZE: usize = 6;

    /// Simple name of the exception with which Kafka stops at a marker that does not decode, where
    /// it is another than `InvalidRecordException`: only that one is met by a recovery, which cuts
    /// the segment behind the marker (`LogSegment.recover`).
    #[must_use]
    pub fn uncaught(error: &DecodeError) -> Option<&'static str> {
        let is_null =
            matches!(&error.kind, DecodeErrorKind::Unexpected { found, .. } if found == NULL);
        if is_null {
            Some("NullPointerException")
        } else if error.structure == STRUCTURE
            && matches!(error.kind, DecodeErrorKind::Truncated { .. })
        {
            Some("BufferUnderflowException")
        } else {
            None
        }
    }

    /// The marker in a control record, `None` if the record is another kind of control record
    /// (`EndTransactionMarker.deserialize`).
    ///
    /// # Errors
    /// If key or value are not there, are cut short or carry a negative version.
    pub fn decode(record: &Record<'_>) -> Result<Option<Self>, DecodeError> {
        let key = record.key.ok_or_else(|| null("key"))?;
        let control_type = ControlRecordType::decode_key(key)?;
        if control_type != ControlRecordType::ABORT && control_type != ControlRecordType::COMMIT {
            return Ok(None);
        }
        let value = record.value.ok_or_else(|| null("value"))?;
        let cut = || truncated(STRUCTURE, Self::VALUE_SIZE as u64, value);
        let &[v0, v1] = value.first_chunk::<2>().ok_or_else(cut)?;
        check_version(STRUCTURE, i16::from_be_bytes([v0, v1]))?;
        let &[_, _, e0, e1, e2, e3] = value.first_chunk::<6>().ok_or_else(cut)?;
        let coordinator_epoch = i32::from_be_bytes([e0, e1, e2, e3]);
        Ok(Some(Self {
            control_type,
            coordinator_epoch,
        }))
    }

    /// The marker in the first record of a control batch, whose `records` area this is, with so
    /// many records by its header.
    ///
    /// `None` if the batch is empty (left by the cleaner) or holds another kind of control record.
    ///
    /// # Errors
    /// If the first record does not parse or is no whole marker, or is the only one and bytes
    /// stand behind it (`DefaultRecordBatch.RecordIterator`).
    pub fn decode_batch(records: &[u8], count: i32) -> Result<Option<Self>, DecodeError> {
        match first_record(records, count)? {
            Some(record) => Self::decode(&record),
            None => Ok(None),
        }
    }

    /// The marker in `records` if they are the only record as brokers write it: every field in as
    /// few bytes as it takes, no times and no headers. [`EndTransactionMarker::decode_batch`] tells
    /// of others.
    ///
    /// For those who look at millions of them.
    #[must_use]
    #[inline]
    pub fn decode_usual(records: &[u8]) -> Option<Self> {
        // Length 16, attributes, timestampDelta, offsetDelta, key of 4 bytes with version 0, value
        // of 6 with version 0, no headers.
        let Ok::<&[u8; 17], _>(
            &[
                32,
                0,
                0,
                0,
                8,
                0,
                0,
                0,
                control_type,
                12,
                0,
                0,
                e0,
                e1,
                e2,
                e3,
                0,
            ],
        ) = records.try_into()
        else {
            return None;
        };
        let control_type = ControlRecordType(i16::from(control_type));
        (control_type.0 <= ControlRecordType::COMMIT.0).then_some(Self {
            control_type,
            coordinator_epoch: i32::from_be_bytes([e0, e1, e2, e3]),
        })
    }

    /// The value of the marker's record.
    #[must_use]
    pub fn encode_value(&self) -> [u8; Self::VALUE_SIZE] {
        let [e0, e1, e2, e3] = self.coordinator_epoch.to_be_bytes();
        [0, 0, e0, e1, e2, e3]
    }
}

const STRUCTURE: &str = "end transaction marker";
const NULL: &str = "null";

fn null(field: &'static str) -> DecodeError {
    let kind = DecodeErrorKind::Unexpected {
        found: NULL.to_owned(),
        expected: "bytes".to_owned(),
    };
    DecodeError::new(STRUCTURE, field, 0, kind)
}

/// The first of `count` records that a batch says it has; `None` of none.
///
/// # Errors
/// If the count is below 0, the record or a header of it does not parse, or it is the only one and
/// bytes stand behind it.
pub(crate) fn first_record(records: &[u8], count: i32) -> Result<Option<Record<'_>>, DecodeError> {
    if count == 0 {
        return Ok(None);
    }
    if count < 0 {
        let kind = DecodeErrorKind::BelowMinimum {
            found: i64::from(count),
            minimum: 0,
        };
        return Err(DecodeError::new("control batch", "recordsCount", 0, kind));
    }
    let (record, size) = Record::decode(records)?;
    for header in record.header_iter() {
        header?;
    }
    let left = records.len().saturating_sub(size) as u64;
    if count == 1 && left > 0 {
        let kind = DecodeErrorKind::TrailingBytes { left };
        return Err(DecodeError::new("control batch", "", size as u64, kind));
    }
    Ok(Some(record))
}

/// A control record of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// ABORT or COMMIT.
    EndTransaction(EndTransactionMarker),
    /// LEADER_CHANGE.
    LeaderChange(LeaderChange),
    /// SNAPSHOT_HEADER.
    SnapshotHeader(SnapshotHeader),
    /// SNAPSHOT_FOOTER.
    SnapshotFooter(SnapshotFooter),
    /// KRAFT_VERSION.
    KRaftVersion(KRaftVersion),
    /// KRAFT_VOTERS.
    KRaftVoters(KRaftVoters),
    /// A type without a name; readers skip it.
    Unknown(ControlRecordType),
}

impl ControlRecord {
    /// The control record that a record of a control batch is.
    ///
    /// # Errors
    /// If key or value are cut short or carry a negative version.
    pub fn decode(record: &Record<'_>) -> Result<Self, DecodeError> {
        if let Some(marker) = EndTransactionMarker::decode(record)? {
            return Ok(Self::EndTransaction(marker));
        }
        let control_type = ControlRecordType::decode_key(record.key.unwrap_or_default())?;
        let value = record.value.unwrap_or_default();
        Ok(match control_type {
            ControlRecordType::LEADER_CHANGE => {
                Self::LeaderChange(LeaderChange::decode(value, CURRENT_VERSION)?)
            }
            ControlRecordType::SNAPSHOT_HEADER => {
                Self::SnapshotHeader(SnapshotHeader::decode(value)?)
            }
            ControlRecordType::SNAPSHOT_FOOTER => {
                Self::SnapshotFooter(SnapshotFooter::decode(value)?)
            }
            ControlRecordType::KRAFT_VERSION => Self::KRaftVersion(KRaftVersion::decode(value)?),
            ControlRecordType::KRAFT_VOTERS => Self::KRaftVoters(KRaftVoters::decode(value)?),
            other => Self::Unknown(other),
        })
    }

    /// The type in the record's key.
    #[must_use]
    pub fn control_type(&self) -> ControlRecordType {
        match self {
            Self::EndTransaction(marker) => marker.control_type,
            Self::LeaderChange(_) => ControlRecordType::LEADER_CHANGE,
            Self::SnapshotHeader(_) => ControlRecordType::SNAPSHOT_HEADER,
            Self::SnapshotFooter(_) => ControlRecordType::SNAPSHOT_FOOTER,
            Self::KRaftVersion(_) => ControlRecordType::KRAFT_VERSION,
            Self::KRaftVoters(_) => ControlRecordType::KRAFT_VOTERS,
            Self::Unknown(control_type) => *control_type,
        }
    }

    /// The record's value; empty for an unknown type.
    #[must_use]
    pub fn encode_value(&self) -> Vec<u8> {
        match self {
            Self::EndTransaction(marker) => marker.encode_value().to_vec(),
            Self::LeaderChange(message) => message.encode(CURRENT_VERSION),
            Self::SnapshotHeader(message) => message.encode(),
            Self::SnapshotFooter(message) => message.encode(),
            Self::KRaftVersion(message) => message.encode(),
            Self::KRaftVoters(message) => message.encode(),
            Self::Unknown(_) => Vec::new(),
        }
    }
}

fn truncated(structure: &'static str, needed: u64, bytes: &[u8]) -> DecodeError {
    let available = bytes.len() as u64;
    DecodeError::new(
        structure,
        "",
        0,
        DecodeErrorKind::Truncated { needed, available },
    )
}

fn check_version(structure: &'static str, version: i16) -> Result<(), DecodeError> {
    if version < 0 {
        let kind = DecodeErrorKind::BelowMinimum {
            found: i64::from(version),
            minimum: 0,
        };
        return Err(DecodeError::new(structure, "version", 0, kind));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The records of control batches that Kafka 4.3.1 wrote.
    const ABORT: &[u8] = b"\x20\0\0\0\x08\0\0\0\0\x0c\0\0\0\0\0\0\0";
    const COMMIT: &[u8] = b"\x20\0\0\0\x08\0\0\0\x01\x0c\0\0\0\0\0\0\0";
    const LEADER_CHANGE: &[u8] =
        b"\x3a\0\0\0\x08\0\0\0\x02\x26\0\0\0\0\0\x01\x02\0\0\0\x01\0\x02\0\0\0\x01\0\0\0";
    const SNAPSHOT_HEADER: &[u8] =
        b"\x2a\0\0\0\x08\0\0\0\x03\x16\0\0\0\0\x01\xa2\x28\x18\x34\x8c\0\0";
    const SNAPSHOT_FOOTER: &[u8] = b"\x1a\0\0\0\x08\0\0\0\x04\x06\0\0\0\0";

    fn decode(bytes: &[u8]) -> ControlRecord {
        let (record, size) = Record::decode(bytes).unwrap();
        assert_eq!(size, bytes.len());
        ControlRecord::decode(&record).unwrap()
    }

    fn encode(control_record: &ControlRecord) -> Vec<u8> {
        let mut out = Vec::new();
        record(
            &control_record.control_type().encode_key(),
            &control_record.encode_value(),
        )
        .encode(&mut out);
        out
    }

    fn record<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record {
            attributes: 0,
            timestamp_delta: 0,
            offset_delta: 0,
            key: Some(key),
            value: Some(value),
            headers: &[],
            header_count: 0,
        }
    }

    #[test]
    fn markers_of_a_broker_and_back() {
        for (bytes, control_type) in [
            (ABORT, ControlRecordType::ABORT),
            (COMMIT, ControlRecordType::COMMIT),
        ] {
            let marker = EndTransactionMarker {
                control_type,
                coordinator_epoch: 0,
            };
            assert_eq!(
                EndTransactionMarker::decode_batch(bytes, 1),
                Ok(Some(marker))
            );
            let decoded = decode(bytes);
            assert_eq!(decoded, ControlRecord::EndTransaction(marker));
            assert_eq!(encode(&decoded), bytes);
        }
    }

    #[test]
    fn kraft_records_of_a_broker_and_back() {
        for (bytes, name) in [
            (LEADER_CHANGE, "LEADER_CHANGE"),
            (SNAPSHOT_HEADER, "SNAPSHOT_HEADER"),
            (SNAPSHOT_FOOTER, "SNAPSHOT_FOOTER"),
        ] {
            let decoded = decode(bytes);
            assert_eq!(decoded.control_type().name(), name);
            assert_eq!(encode(&decoded), bytes);
            assert_eq!(EndTransactionMarker::decode_batch(bytes, 1), Ok(None));
        }
    }

    #[test]
    fn emptied_control_batch_has_no_marker() {
        assert_eq!(EndTransactionMarker::decode_batch(&[], 0), Ok(None));
    }

    #[test]
    fn higher_versions_and_longer_keys_and_values_are_read() {
        let marker = record(&[0, 9, 0, 1, 7], &[0, 9, 0, 0, 0, 5, 7]);
        let expected = EndTransactionMarker {
            control_type: ControlRecordType::COMMIT,
            coordinator_epoch: 5,
        };
        assert_eq!(EndTransactionMarker::decode(&marker), Ok(Some(expected)));
    }

    #[test]
    fn each_cause_has_its_error() {
        let message = |key: &[u8], value: &[u8]| {
            ControlRecord::decode(&record(key, value))
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message(&[0, 0, 0], &[]),
            "control record key needs 4 bytes, 3 are there (at position 0)"
        );
        assert_eq!(
            message(&[0xff, 0xff, 0, 0], &[]),
            "control record key version is -1, below the minimum of 0 (at position 0)"
        );
        assert_eq!(
            message(&[0, 0, 0, 1], &[0, 0, 0, 0, 0]),
            "end transaction marker needs 6 bytes, 5 are there (at position 0)"
        );
        assert_eq!(
            message(&[0, 0, 0, 0], &[0x80, 0, 0, 0, 0, 0]),
            "end transaction marker version is -32768, below the minimum of 0 (at position 0)"
        );
        assert!(message(&[0, 0, 0, 5], &[0]).starts_with("kraft version version needs 2 bytes"));
    }

    #[test]
    fn unknown_type_survives() {
        let key = ControlRecordType(77).encode_key();
        let decoded = ControlRecord::decode(&record(&key, &[1])).unwrap();
        assert_eq!(decoded, ControlRecord::Unknown(ControlRecordType(77)));
        assert_eq!(decoded.control_type().name(), "UNKNOWN");
    }

    proptest! {
        #[test]
        fn marker_round_trip(commit: bool, coordinator_epoch: i32) {
            let marker = EndTransactionMarker {
                control_type: ControlRecordType(i16::from(commit)),
                coordinator_epoch,
            };
            let record_bytes = encode(&ControlRecord::EndTransaction(marker));
            prop_assert_eq!(EndTransactionMarker::decode_batch(&record_bytes, 1), Ok(Some(marker)));
            prop_assert_eq!(EndTransactionMarker::decode_usual(&record_bytes), Some(marker));
        }

        /// Any byte of a usual marker may be another one, and the rest cut off or more.
        #[test]
        fn a_marker_that_looks_usual_is_what_it_says(
            coordinator_epoch: i32,
            at in 0..18_usize,
            byte: u8,
            size in 0..20_usize,
        ) {
            let marker = EndTransactionMarker {
                control_type: ControlRecordType::COMMIT,
                coordinator_epoch,
            };
            let mut bytes = encode(&ControlRecord::EndTransaction(marker));
            bytes.resize(20, 7);
            bytes[at] = byte;
            bytes.truncate(size);
            if let Some(found) = EndTransactionMarker::decode_usual(&bytes) {
                prop_assert_eq!(EndTransactionMarker::decode_batch(&bytes, 1), Ok(Some(found)));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, control_type in -1..8i16, value: Vec<u8>) {
            let _ = EndTransactionMarker::decode_batch(&bytes, 1);
            let key = ControlRecordType(control_type).encode_key();
            let _ = ControlRecord::decode(&record(&key, &value));
            let _ = ControlRecord::decode(&record(&bytes, &value));
        }
    }
}
