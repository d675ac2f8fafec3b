//! Control records: what a control batch holds instead of data.
//!
//! The key is int16 version and int16 type. Types 0 and 1 end a transaction; their value is
//! int16 version 0 and int32 coordinatorEpoch. Types 2 to 6 belong to KRaft.
//!
//! Decides `ControlRecordType`, `EndTransactionMarker`, `ControlRecordUtils`.

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

    /// The marker in a control record, `None` if the record is another kind of control record
    /// (`EndTransactionMarker.deserialize`).
    ///
    /// # Errors
    /// If key or value are cut short or carry a negative version.
    pub fn decode(record: &Record<'_>) -> Result<Option<Self>, DecodeError> {
        let control_type = ControlRecordType::decode_key(record.key.unwrap_or_default())?;
        if control_type != ControlRecordType::ABORT && control_type != ControlRecordType::COMMIT {
            return Ok(None);
        }
        let value = record.value.unwrap_or_default();
        let Some((&[v0, v1, e0, e1, e2, e3], _)) = value.split_first_chunk::<6>() else {
            return Err(truncated(
                "end transaction marker",
                Self::VALUE_SIZE as u64,
                value,
            ));
        };
        check_version("end transaction marker", i16::from_be_bytes([v0, v1]))?;
        let coordinator_epoch = i32::from_be_bytes([e0, e1, e2, e3]);
        Ok(Some(Self {
            control_type,
            coordinator_epoch,
        }))
    }

    /// The marker in the first record of a control batch, whose `records` area this is.
    ///
    /// `None` if the batch is empty (left by the cleaner) or holds another kind of control record.
    ///
    /// # Errors
    /// If the first record does not parse or is no whole marker.
    pub fn decode_batch(records: &[u8]) -> Result<Option<Self>, DecodeError> {
        if records.is_empty() {
            return Ok(None);
        }
        let (record, _) = Record::decode(records)?;
        Self::decode(&record)
    }

    /// The value of the marker's record.
    #[must_use]
    pub fn encode_value(&self) -> [u8; Self::VALUE_SIZE] {
        let [e0, e1, e2, e3] = self.coordinator_epoch.to_be_bytes();
        [0, 0, e0, e1, e2, e3]
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
