//! Bytes of a `.log` that are no batch.

use std::fmt;

use crate::format::record_batch::{HEADER_SIZE, MAGIC_V2, RecordBatchHeader};

/// A stretch of a segment that holds no readable batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What kind of damage it is.
    pub kind: DamageKind,
    /// Byte position where it begins.
    pub position: u64,
    /// Bytes passed over: up to the next readable batch, or to the end of the file.
    pub size_in_bytes: u64,
    /// What can still be read of the header that should be at `position`.
    pub readable: ReadableFields,
}

/// What makes bytes of a segment unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The last batch is not all there. In an active segment that is a write under way, or one
    /// that a crash cut short.
    TornTail,
    /// Zeros up to the end of the file: space set aside and never written.
    ZeroTail,
    /// A size field too small for any batch.
    BadLength {
        /// The size field.
        found: i32,
        /// The smallest size of the format that the magic byte names.
        minimum: i32,
    },
    /// A magic byte of no known format.
    UnknownMagic {
        /// The magic byte.
        found: i8,
    },
    /// A size field that points past the end of the file, with readable batches before that end.
    BatchPastEnd {
        /// Bytes the entry claims to have.
        size_in_bytes: u64,
        /// Bytes up to the end of the file.
        available: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.size_in_bytes;
        match self.kind {
            DamageKind::TornTail if size == 1 => {
                write!(f, "the last batch is torn: 1 byte of it is there")
            }
            DamageKind::TornTail => {
                write!(f, "the last batch is torn: {size} bytes of it are there")
            }
            DamageKind::ZeroTail => write!(f, "{size} zeros, set aside and never written"),
            DamageKind::BadLength { found, minimum } => {
                write!(f, "size field is {found}, below the minimum of {minimum}")
            }
            DamageKind::UnknownMagic { found } => write!(f, "magic is {found}, expected 0 to 2"),
            DamageKind::BatchPastEnd {
                size_in_bytes,
                available,
            } => {
                write!(
                    f,
                    "batch claims {size_in_bytes} bytes, {available} are left in the file"
                )
            }
        }
    }
}

impl DamageKind {
    /// The short name used in rows and findings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TornTail => "torn-tail",
            Self::ZeroTail => "zero-tail",
            Self::BadLength { .. } => "bad-length",
            Self::UnknownMagic { .. } => "unknown-magic",
            Self::BatchPastEnd { .. } => "batch-past-end",
        }
    }

    /// Whether this is what a crash, or a broker that is still writing, leaves at the end of an
    /// active segment.
    #[must_use]
    pub fn is_tail(self) -> bool {
        match self {
            Self::TornTail | Self::ZeroTail => true,
            Self::BadLength { .. } | Self::UnknownMagic { .. } | Self::BatchPastEnd { .. } => false,
        }
    }
}

/// Fields of a header of which only the first bytes are there; `None` for those that are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "Kafka's names, explained at RecordBatchHeader")]
pub struct ReadableFields {
    pub base_offset: Option<i64>,
    pub batch_length: Option<i32>,
    pub magic: Option<i8>,
    pub last_offset: Option<i64>,
    pub producer_id: Option<i64>,
    pub producer_epoch: Option<i16>,
    pub base_sequence: Option<i32>,
    pub records_count: Option<i32>,
}

impl ReadableFields {
    /// What the first bytes of an entry tell. Fields behind the magic byte only if it is 2.
    #[must_use]
    pub fn from_prefix(bytes: &[u8]) -> Self {
        let mut padded = [0; HEADER_SIZE];
        let available = bytes.len().min(HEADER_SIZE);
        for (to, from) in padded.iter_mut().zip(bytes) {
            *to = *from;
        }
        let Ok(header) = RecordBatchHeader::ref_from(&padded) else {
            return Self::default();
        };
        // Each field ends at this position, so it is whole if so many bytes are there.
        let whole = |end: usize| available >= end;
        let v2 = |end: usize| available >= end && header.magic() == MAGIC_V2;
        Self {
            base_offset: whole(8).then(|| header.base_offset()),
            batch_length: whole(12).then(|| header.batch_length()),
            magic: whole(17).then(|| header.magic()),
            last_offset: v2(27).then(|| header.last_offset()),
            producer_id: v2(51).then(|| header.producer_id()),
            producer_epoch: v2(53).then(|| header.producer_epoch()),
            base_sequence: v2(57).then(|| header.base_sequence()),
            records_count: v2(61).then(|| header.records_count()),
        }
    }
}
