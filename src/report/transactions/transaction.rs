//! What is known of one transaction in a partition: what lies in it, how it ended, and where a
//! marker may be missing in it.

use super::known_time;
use crate::format::NO_PRODUCER_EPOCH;
use crate::format::control_record::ControlRecordType;
use crate::format::record_batch::RecordBatchHeader;
use crate::state::{ProducerStateManager, TxnMetadata};

/// Where a batch lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Place of its segment in `PartitionDir::segments`.
    pub segment: usize,
    /// Byte position in the `.log`.
    pub position: u64,
}

/// The end of a transaction in this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnMarker {
    /// Whose transaction it ends.
    pub producer_id: i64,
    /// Epoch of the marker's batch.
    pub producer_epoch: i16,
    /// Its offset.
    pub offset: i64,
    /// COMMIT or ABORT.
    pub control_type: ControlRecordType,
    /// Epoch of the coordinator that wrote it.
    pub coordinator_epoch: i32,
    /// Coordinator epoch of the producer's marker before it, -1 if none is known.
    pub previous_coordinator_epoch: i32,
    /// When it was written, in milliseconds.
    pub timestamp: i64,
    /// Where it lies.
    pub place: Place,
    /// The producer's batch before it was a marker of the same type and epoch: the same end
    /// written again, or the end of another transaction without data here. The log does not tell
    /// the two apart (`ProducerAppendInfo.checkProducerEpoch` lets both through).
    pub repeats_previous: bool,
}

impl TxnMarker {
    /// Whether it is an ABORT.
    #[must_use]
    pub fn is_abort(&self) -> bool {
        self.control_type == ControlRecordType::ABORT
    }

    /// Whether the coordinator epoch went backwards. A leader refuses such a marker, replication
    /// and recovery do not look (`ProducerAppendInfo.checkCoordinatorEpoch`).
    #[must_use]
    pub fn is_from_older_coordinator(&self) -> bool {
        self.coordinator_epoch < self.previous_coordinator_epoch
    }
}

/// A place inside a transaction where the marker of an earlier one may have been: the cleaner
/// removed it before the data it decided on (KAFKA-14055).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingMarker {
    /// Where the next transaction really begins.
    pub offset: i64,
    /// The offset the marker had, if there is exactly one that is not there.
    pub missing_offset: Option<i64>,
    /// The epoch changes, which happens only between transactions, or a marker is there that cannot
    /// be read, or the transaction index has it; else there is only the hole.
    pub is_certain: bool,
    /// The transaction index has it: it was an ABORT.
    pub is_in_index: bool,
    /// Bytes that cannot be read lie in between: the marker may be in them.
    pub is_behind_damage: bool,
    /// First and last offset of the data that the marker decided on.
    pub data_before: (i64, i64),
    /// All data up to there.
    pub totals_before: Totals,
}

/// Data of a transaction added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Data batches.
    pub batches: u64,
    /// Data records by the batch headers.
    pub records: u64,
    /// Bytes of the data batches.
    pub size_in_bytes: u64,
}

/// What lies between the first batch of a producer's transaction and its marker, as far as the
/// files go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Whose transaction.
    pub producer_id: i64,
    /// Epoch of the first data batch.
    pub producer_epoch: i16,
    /// Epoch of the last data batch; differs only if the epoch was raised in between.
    pub last_producer_epoch: i16,
    /// Base offset of the first batch.
    pub first_offset: i64,
    /// Offset of the last data record.
    pub last_offset: Option<i64>,
    /// Data batches.
    pub batches: u64,
    /// Data records by the batch headers.
    pub records: u64,
    /// Bytes of the data batches.
    pub size_in_bytes: u64,
    /// Largest timestamp of the first batch, in milliseconds.
    pub start_timestamp: Option<i64>,
    /// Largest timestamp of the last batch, in milliseconds.
    pub last_timestamp: Option<i64>,
    /// Where the first batch lies; `None` if it is only known from a snapshot.
    pub place: Option<Place>,
    /// It was open in the snapshot the walk began with: batches may be gone.
    pub is_from_snapshot: bool,
    /// A marker of its producer that cannot be read lies between its last batch and its marker.
    pub may_have_ended: bool,
    /// Where markers seem to be missing.
    pub missing_markers: Vec<MissingMarker>,
}

impl Transaction {
    pub(super) fn begin(producer_id: i64, first_offset: i64) -> Self {
        Self {
            producer_id,
            first_offset,
            producer_epoch: NO_PRODUCER_EPOCH,
            last_producer_epoch: NO_PRODUCER_EPOCH,
            ..Self::default()
        }
    }

    /// As a snapshot has it.
    pub(in crate::report) fn from_snapshot(
        txn: &TxnMetadata,
        manager: &ProducerStateManager,
    ) -> Self {
        let begun = Self::begin(txn.producer_id, txn.first_offset.message_offset);
        let Some(entry) = manager.last_entry(txn.producer_id) else {
            return begun;
        };
        Self {
            producer_epoch: entry.producer_epoch(),
            last_producer_epoch: entry.producer_epoch(),
            last_offset: entry.last_batch().map(|batch| batch.last_offset),
            last_timestamp: known_time(entry.last_timestamp()),
            is_from_snapshot: true,
            ..begun
        }
    }

    /// Its data so far.
    pub(super) fn totals(&self) -> Totals {
        Totals {
            batches: self.batches,
            records: self.records,
            size_in_bytes: self.size_in_bytes,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, header: &RecordBatchHeader, place: Place) {
        let max_timestamp = known_time(header.max_timestamp());
        if self.place.is_none() {
            self.place = Some(place);
            if !self.is_from_snapshot {
                self.producer_epoch = header.producer_epoch();
                self.start_timestamp = max_timestamp;
            }
        }
        self.last_producer_epoch = header.producer_epoch();
        self.last_offset = Some(header.last_offset());
        self.last_timestamp = max_timestamp;
        self.batches += 1;
        self.records += u64::try_from(header.records_count()).unwrap_or(0);
        self.size_in_bytes += header.size_in_bytes();
    }
}
