//! What a broker knows of one producer: epochs, open transaction, and the last five batches.

use crate::format::producer_snapshot::{ProducerSnapshotEntry, ProducerSnapshotFields};
use crate::format::record_batch::decrement_sequence;
use crate::format::{NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP};

/// Batches remembered for finding duplicates (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`).
pub const NUM_BATCHES_TO_RETAIN: usize = 5;

/// A remembered batch (`BatchMetadata`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchMetadata {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Last offset less first offset; also last sequence less first sequence.
    pub offset_delta: i32,
    /// Its largest timestamp, or after a reload that of a later marker.
    pub timestamp: i64,
}

impl BatchMetadata {
    /// Sequence of its first record (`BatchMetadata.firstSeq`).
    #[must_use]
    pub fn first_sequence(&self) -> i32 {
        decrement_sequence(self.last_sequence, self.offset_delta)
    }

    /// Sequences of its first and last record. `None` where Kafka has no last sequence and counts
    /// the first back from -1: Kafka 0.11 remembered a marker as the producer's last batch, and
    /// its snapshots still say so.
    #[must_use]
    pub fn sequences(&self) -> Option<(i32, i32)> {
        (self.last_sequence != NO_SEQUENCE).then(|| (self.first_sequence(), self.last_sequence))
    }

    /// Offset of its first record (`BatchMetadata.firstOffset`).
    #[must_use]
    pub fn first_offset(&self) -> i64 {
        self.last_offset.wrapping_sub(i64::from(self.offset_delta))
    }
}

/// A row of a `.snapshot` file as plain numbers, -1 where nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "Kafka's names, explained in docs/on-disk-format, section 8"
)]
pub struct ProducerSnapshotRow {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub last_sequence: i32,
    pub last_offset: i64,
    pub offset_delta: i32,
    pub timestamp: i64,
    pub coordinator_epoch: i32,
    pub current_txn_first_offset: i64,
}

impl From<&ProducerSnapshotEntry> for ProducerSnapshotRow {
    fn from(entry: &ProducerSnapshotEntry) -> Self {
        Self {
            producer_id: entry.producer_id(),
            producer_epoch: entry.producer_epoch(),
            last_sequence: entry.last_sequence(),
            last_offset: entry.last_offset(),
            offset_delta: entry.offset_delta(),
            timestamp: entry.timestamp(),
            coordinator_epoch: entry.coordinator_epoch(),
            current_txn_first_offset: entry.current_txn_first_offset(),
        }
    }
}

impl From<&ProducerSnapshotRow> for ProducerSnapshotEntry {
    fn from(row: &ProducerSnapshotRow) -> Self {
        Self::from(ProducerSnapshotFields {
            producer_id: row.producer_id,
            producer_epoch: row.producer_epoch,
            last_sequence: row.last_sequence,
            last_offset: row.last_offset,
            offset_delta: row.offset_delta,
            timestamp: row.timestamp,
            coordinator_epoch: row.coordinator_epoch,
            current_txn_first_offset: row.current_txn_first_offset,
        })
    }
}

/// The state of one producer (`ProducerStateEntry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerStateEntry {
    producer_id: i64,
    last_timestamp: i64,
    current_txn_first_offset: Option<i64>,
    coordinator_epoch: i32,
    producer_epoch: i16,
    /// Where in `window` the next batch goes.
    next: u8,
    /// How many batches are remembered.
    len: u8,
    window: [BatchMetadata; NUM_BATCHES_TO_RETAIN],
}

impl ProducerStateEntry {
    /// A producer of which nothing is known (`ProducerStateEntry.empty`).
    #[must_use]
    #[inline]
    pub fn empty(producer_id: i64) -> Self {
        Self {
            producer_id,
            last_timestamp: NO_TIMESTAMP,
            current_txn_first_offset: None,
            coordinator_epoch: -1,
            producer_epoch: NO_PRODUCER_EPOCH,
            next: 0,
            len: 0,
            window: [BatchMetadata::default(); NUM_BATCHES_TO_RETAIN],
        }
    }

    /// The same epochs, time and transaction, but no batches: what an append starts from
    /// (`ProducerStateEntry.withProducerId`).
    #[must_use]
    #[inline]
    pub(super) fn without_batches(&self) -> Self {
        Self {
            last_timestamp: self.last_timestamp,
            current_txn_first_offset: self.current_txn_first_offset,
            coordinator_epoch: self.coordinator_epoch,
            producer_epoch: self.producer_epoch,
            ..Self::empty(self.producer_id)
        }
    }

    /// What loading a snapshot makes of a row (`ProducerStateManager.readSnapshot`).
    #[must_use]
    pub fn from_snapshot_row(row: &ProducerSnapshotRow) -> Self {
        let mut entry = Self {
            last_timestamp: row.timestamp,
            current_txn_first_offset: Some(row.current_txn_first_offset).filter(|&o| o >= 0),
            coordinator_epoch: row.coordinator_epoch,
            producer_epoch: row.producer_epoch,
            ..Self::empty(row.producer_id)
        };
        if row.last_offset >= 0 {
            let batch = BatchMetadata {
                last_sequence: row.last_sequence,
                last_offset: row.last_offset,
                offset_delta: row.offset_delta,
                timestamp: row.timestamp,
            };
            entry.add_batch(row.producer_epoch, batch);
        }
        entry
    }

    /// The row a snapshot holds: the newest batch only (`ProducerStateManager.writeSnapshot`).
    #[must_use]
    pub fn snapshot_row(&self) -> ProducerSnapshotRow {
        let last = self.last_batch();
        ProducerSnapshotRow {
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            last_sequence: self.last_sequence(),
            last_offset: last.map_or(-1, |batch| batch.last_offset),
            offset_delta: last.map_or(0, |batch| batch.offset_delta),
            timestamp: self.last_timestamp,
            coordinator_epoch: self.coordinator_epoch,
            current_txn_first_offset: self.current_txn_first_offset.unwrap_or(-1),
        }
    }

    /// The producer's id.
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        self.producer_id
    }

    /// Newest epoch, of a batch or a marker; -1 if none is known.
    #[must_use]
    #[inline]
    pub fn producer_epoch(&self) -> i16 {
        self.producer_epoch
    }

    /// Coordinator epoch of the last marker, -1 if none.
    #[must_use]
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// Largest timestamp of the last batch, or time of the last marker; -1 if neither.
    #[must_use]
    pub fn last_timestamp(&self) -> i64 {
        self.last_timestamp
    }

    /// First offset of the open transaction.
    #[must_use]
    #[inline]
    pub fn current_txn_first_offset(&self) -> Option<i64> {
        self.current_txn_first_offset
    }

    pub(super) fn set_current_txn_first_offset(&mut self, first_offset: i64) {
        self.current_txn_first_offset = Some(first_offset);
    }

    /// The remembered batches, oldest first.
    pub fn batch_metadata(&self) -> impl Iterator<Item = &BatchMetadata> {
        let (newer, older) = self.window.split_at(usize::from(self.next));
        let len = usize::from(self.len);
        older.iter().chain(newer).skip(NUM_BATCHES_TO_RETAIN - len)
    }

    /// Whether no batch is remembered (`ProducerStateEntry.isEmpty`).
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The newest remembered batch.
    #[must_use]
    #[inline]
    pub fn last_batch(&self) -> Option<&BatchMetadata> {
        if self.is_empty() {
            return None;
        }
        let last = usize::from(self.next).checked_sub(1);
        self.window.get(last.unwrap_or(NUM_BATCHES_TO_RETAIN - 1))
    }

    /// First sequence of the oldest remembered batch, -1 if none (`ProducerStateEntry.firstSeq`).
    #[must_use]
    pub fn first_sequence(&self) -> i32 {
        self.batch_metadata()
            .next()
            .map_or(NO_SEQUENCE, BatchMetadata::first_sequence)
    }

    /// Last sequence of the newest remembered batch, -1 if none (`ProducerStateEntry.lastSeq`).
    #[must_use]
    #[inline]
    pub fn last_sequence(&self) -> i32 {
        self.last_batch()
            .map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    /// The remembered batch that a retry in `producer_epoch` with exactly this range of sequences
    /// repeats (`ProducerStateEntry.findDuplicateBatch`).
    #[must_use]
    pub fn find_duplicate_batch(
        &self,
        producer_epoch: i16,
        first_sequence: i32,
        last_sequence: i32,
    ) -> Option<&BatchMetadata> {
        if producer_epoch != self.producer_epoch {
            return None;
        }
        self.batch_metadata().find(|batch| {
            batch.first_sequence() == first_sequence && batch.last_sequence == last_sequence
        })
    }

    /// Remembers a batch; a new epoch forgets the older ones (`ProducerStateEntry.addBatch`).
    #[inline]
    pub(super) fn add_batch(&mut self, producer_epoch: i16, batch: BatchMetadata) {
        self.maybe_update_producer_epoch(producer_epoch);
        self.push(batch);
        self.last_timestamp = batch.timestamp;
    }

    /// Takes over what an append made of this producer
    /// (`ProducerStateEntry.update(ProducerStateEntry)`).
    ///
    /// Only the epoch the append ended with counts: if it left the known epoch and came back, the
    /// old batches stay beside the new ones.
    #[inline]
    pub(super) fn update(&mut self, next: &Self) {
        self.maybe_update_producer_epoch(next.producer_epoch);
        for batch in next.batch_metadata() {
            self.push(*batch);
        }
        self.coordinator_epoch = next.coordinator_epoch;
        self.current_txn_first_offset = next.current_txn_first_offset;
        self.last_timestamp = next.last_timestamp;
    }

    /// Takes over a marker: it ends the transaction and brings epochs and time
    /// (`ProducerStateEntry.update(short, int, long)`).
    #[inline]
    pub(super) fn update_by_marker(
        &mut self,
        producer_epoch: i16,
        coordinator_epoch: i32,
        timestamp: i64,
    ) {
        self.maybe_update_producer_epoch(producer_epoch);
        self.coordinator_epoch = coordinator_epoch;
        self.current_txn_first_offset = None;
        self.last_timestamp = timestamp;
    }

    #[inline]
    fn maybe_update_producer_epoch(&mut self, producer_epoch: i16) {
        if self.producer_epoch != producer_epoch {
            self.next = 0;
            self.len = 0;
            self.producer_epoch = producer_epoch;
        }
    }

    #[inline]
    fn push(&mut self, batch: BatchMetadata) {
        if let Some(place) = self.window.get_mut(usize::from(self.next)) {
            *place = batch;
        }
        let is_at_end = usize::from(self.next) + 1 == NUM_BATCHES_TO_RETAIN;
        self.next = if is_at_end { 0 } else { self.next + 1 };
        self.len += u8::from(usize::from(self.len) < NUM_BATCHES_TO_RETAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(last_sequence: i32) -> BatchMetadata {
        BatchMetadata {
            last_sequence,
            last_offset: i64::from(last_sequence) + 100,
            offset_delta: 0,
            timestamp: 7,
        }
    }

    #[test]
    fn sixth_batch_pushes_out_the_first() {
        let mut entry = ProducerStateEntry::empty(1);
        for sequence in 0..13 {
            entry.add_batch(0, batch(sequence));
        }
        let sequences: Vec<_> = entry.batch_metadata().map(|b| b.last_sequence).collect();
        assert_eq!(sequences, [8, 9, 10, 11, 12]);
        assert_eq!(entry.first_sequence(), 8);
        assert_eq!(entry.last_sequence(), 12);
        assert!(entry.find_duplicate_batch(0, 7, 7).is_none());
        assert_eq!(
            entry.find_duplicate_batch(0, 8, 8).unwrap().last_offset,
            108
        );
    }

    #[test]
    fn new_epoch_forgets_the_window() {
        let mut entry = ProducerStateEntry::empty(1);
        entry.add_batch(0, batch(0));
        entry.update_by_marker(1, 3, 9);
        assert!(entry.is_empty());
        assert_eq!(entry.last_sequence(), NO_SEQUENCE);
        assert_eq!(entry.snapshot_row().last_offset, -1);
        assert_eq!(entry.snapshot_row().coordinator_epoch, 3);
    }

    #[test]
    fn snapshot_keeps_only_the_newest_batch() {
        let mut entry = ProducerStateEntry::empty(1);
        entry.add_batch(0, batch(0));
        entry.add_batch(0, batch(1));
        let loaded = ProducerStateEntry::from_snapshot_row(&entry.snapshot_row());
        assert_eq!(loaded.batch_metadata().count(), 1);
        assert_eq!(loaded.last_batch(), entry.last_batch());
    }

    #[test]
    fn first_sequence_wraps_below_zero() {
        let metadata = BatchMetadata {
            last_sequence: 1,
            offset_delta: 3,
            ..batch(1)
        };
        assert_eq!(metadata.first_sequence(), i32::MAX - 1);
        assert_eq!(metadata.sequences(), Some((i32::MAX - 1, 1)));
    }

    #[test]
    fn a_marker_kept_as_a_batch_has_no_sequences() {
        let marker = BatchMetadata {
            last_sequence: NO_SEQUENCE,
            offset_delta: 0,
            ..batch(1)
        };
        assert_eq!(marker.sequences(), None);
    }
}
