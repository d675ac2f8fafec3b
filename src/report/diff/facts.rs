//! What is kept of a batch that is not the same on both sides.

use serde::Serialize;

use super::cursor::Head;
use crate::format::record_batch::RecordBatchHeader;
use crate::format::{
    NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, known,
};
use crate::log::Error;
use crate::log::batches::Entry;
use crate::log::damage::{Damage, DamageKind};

/// A batch, or an entry of magic 0 or 1, by its header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchPlaceRow {
    /// The `.log` it lies in.
    pub file: String,
    /// Byte position in it.
    pub position: u64,
    /// Bytes of the whole batch.
    pub size_in_bytes: u64,
    /// First offset.
    pub base_offset: i64,
    /// Last offset.
    pub last_offset: i64,
    /// Records, by the header; null in magic 0 and 1.
    pub records: Option<i32>,
    /// Leader epoch; null in magic 0 and 1, and where the leader set none.
    pub partition_leader_epoch: Option<i32>,
    /// The producer, if there is one.
    pub producer_id: Option<i64>,
    /// Its epoch.
    pub producer_epoch: Option<i16>,
    /// The first sequence.
    pub base_sequence: Option<i32>,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
    /// Whether it holds a control record.
    pub is_control: bool,
    /// The codec.
    pub compression_type: &'static str,
    /// The stored checksum.
    pub crc: u32,
}

/// Bytes that a reader does not get past, or a batch whose checksum is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct DamageRow {
    /// `bad-crc`; `bad-records` or `bad-compression` where the checksum is right and the records
    /// cannot be read; `offsets-not-increasing` of a batch that begins at or below the end of the
    /// one before it; or the kind of damage that `dump` names.
    pub kind: &'static str,
    /// The `.log` it lies in.
    pub file: String,
    /// Byte position in it.
    pub position: u64,
    /// Bytes of the batch, or up to the next readable one.
    pub size_in_bytes: u64,
    /// First offset of the batch, as far as it can be read.
    pub base_offset: Option<i64>,
    /// Last offset of the batch, as far as it can be read.
    pub last_offset: Option<i64>,
    /// The producer, as far as it can be read.
    pub producer_id: Option<i64>,
    /// Its epoch.
    pub producer_epoch: Option<i16>,
    /// The first sequence.
    pub base_sequence: Option<i32>,
    /// Records, by the header.
    pub records: Option<i32>,
    /// The checksum in the header; null where there is no whole batch.
    pub crc_stored: Option<u32>,
    /// The checksum of the bytes.
    pub crc_computed: Option<u32>,
    /// The offset at which a reader can go on, if the batch is whole.
    pub next_offset: Option<i64>,
}

/// First and last offset of an entry, and what makes it comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl BatchPlaceRow {
    pub(super) fn new(head: Head<'_, '_>, span: Span) -> Option<Self> {
        match head.entry {
            Entry::Batch(batch) => Some(Self::of_batch(head.at.file, batch.position, batch.header)),
            Entry::Legacy(entry) => Some(Self {
                file: head.at.file.to_owned(),
                position: entry.position,
                size_in_bytes: entry.size_in_bytes(),
                base_offset: span.first,
                last_offset: span.last,
                records: None,
                partition_leader_epoch: None,
                producer_id: None,
                producer_epoch: None,
                base_sequence: None,
                is_transactional: false,
                is_control: false,
                compression_type: entry.header.compression_type().name(),
                crc: entry.header.crc(),
            }),
            Entry::Damage(_) => None,
        }
    }

    fn of_batch(file: &str, position: u64, header: &RecordBatchHeader) -> Self {
        let attributes = header.attributes();
        Self {
            file: file.to_owned(),
            position,
            size_in_bytes: header.size_in_bytes(),
            base_offset: header.base_offset(),
            last_offset: header.last_offset(),
            records: Some(header.records_count()),
            partition_leader_epoch: known(
                header.partition_leader_epoch(),
                NO_PARTITION_LEADER_EPOCH,
            ),
            producer_id: known(header.producer_id(), NO_PRODUCER_ID),
            producer_epoch: known(header.producer_epoch(), NO_PRODUCER_EPOCH),
            base_sequence: known(header.base_sequence(), NO_SEQUENCE),
            is_transactional: attributes.is_transactional(),
            is_control: attributes.is_control(),
            compression_type: attributes.compression_type().name(),
            crc: header.crc(),
        }
    }

    /// Whether a producer would have written both: id, epoch, first sequence and purpose.
    pub(super) fn is_of_same_producer(&self, other: &Self) -> bool {
        self.producer_id == other.producer_id
            && self.producer_epoch == other.producer_epoch
            && self.base_sequence == other.base_sequence
            && self.is_transactional == other.is_transactional
            && self.is_control == other.is_control
    }

    /// Records, one for an entry that does not say.
    pub(super) fn record_count(&self) -> u64 {
        self.records
            .map_or(1, |records| u64::try_from(records).unwrap_or(0))
    }
}

impl DamageRow {
    pub(super) fn new(head: Head<'_, '_>, damage: &Damage) -> Self {
        let readable = damage.readable;
        Self {
            kind: damage.kind.name(),
            file: head.at.file.to_owned(),
            position: damage.position,
            size_in_bytes: damage.size_in_bytes,
            base_offset: readable.base_offset,
            last_offset: readable.last_offset,
            producer_id: readable
                .producer_id
                .and_then(|it| known(it, NO_PRODUCER_ID)),
            producer_epoch: readable
                .producer_epoch
                .and_then(|it| known(it, NO_PRODUCER_EPOCH)),
            base_sequence: readable.base_sequence.and_then(|it| known(it, NO_SEQUENCE)),
            records: readable.records_count,
            crc_stored: None,
            crc_computed: None,
            next_offset: None,
        }
    }

    /// The row of a whole batch whose checksum is wrong; `None` if it is right.
    pub(super) fn of_checksum(head: Head<'_, '_>) -> Result<Option<Self>, Error> {
        let bad = match head.entry {
            Entry::Batch(batch) => (!batch.is_valid()?).then_some(batch.compute_crc()?),
            Entry::Legacy(entry) => (!entry.is_valid()?).then_some(entry.compute_crc()?),
            Entry::Damage(_) => None,
        };
        let Some(crc_computed) = bad else {
            return Ok(None);
        };
        let last = match head.entry {
            Entry::Batch(batch) => batch.header.last_offset(),
            Entry::Legacy(entry) => entry.header.offset(),
            Entry::Damage(_) => return Ok(None),
        };
        let span = Span { first: last, last };
        Ok(BatchPlaceRow::new(head, span).map(|batch| Self {
            crc_computed: Some(crc_computed),
            ..Self::of_batch("bad-crc", batch)
        }))
    }

    /// The row of a whole batch that is wrong in another way than its checksum.
    pub(super) fn of_batch(kind: &'static str, batch: BatchPlaceRow) -> Self {
        Self {
            kind,
            file: batch.file,
            position: batch.position,
            size_in_bytes: batch.size_in_bytes,
            base_offset: Some(batch.base_offset),
            last_offset: Some(batch.last_offset),
            producer_id: batch.producer_id,
            producer_epoch: batch.producer_epoch,
            base_sequence: batch.base_sequence,
            records: batch.records,
            crc_stored: Some(batch.crc),
            crc_computed: None,
            next_offset: Some(batch.last_offset.saturating_add(1)),
        }
    }

    /// Whether a crash leaves such bytes behind the last batch, or a broker puts them there: a
    /// reader misses nothing.
    #[must_use]
    pub fn is_tail(&self) -> bool {
        self.kind == DamageKind::TornTail.name() || self.kind == DamageKind::ZeroTail.name()
    }
}
