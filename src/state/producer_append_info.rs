//! The checks of one producer's batches, in the broker's order, and what they make of its state.
//!
//! One append, or one segment when state is rebuilt, gathers all batches of a producer here. The
//! producer's known state stays as it was until `ProducerStateManager::update`.

use super::append_origin::{AppendOrigin, TransactionVersion};
use super::log_offset_metadata::LogOffsetMetadata;
use super::producer_state_entry::{BatchMetadata, ProducerStateEntry};
use super::refusal::Refusal;
use super::transactions::{CompletedTxn, TxnMetadata};
use super::verification_state::VerificationStateEntry;
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::{RecordBatchHeader, TimestampType, increment_sequence};
use crate::format::{NO_PRODUCER_EPOCH, NO_SEQUENCE};

/// What the sequence check needs of the state before the append.
#[derive(Clone, Copy, Debug)]
struct Known {
    producer_epoch: i16,
    is_empty: bool,
    first_sequence: i32,
    last_sequence: i32,
    last_offset: i64,
}

/// The batches of one producer in one append (`ProducerAppendInfo`).
#[derive(Clone, Debug)]
pub struct ProducerAppendInfo {
    origin: AppendOrigin,
    /// Only for clients; the others' sequences are not checked.
    known: Option<Box<Known>>,
    verification: Option<Box<VerificationStateEntry>>,
    updated_entry: ProducerStateEntry,
    /// Mostly none or one; a rebuilt segment can bring many.
    started: Option<TxnMetadata>,
    started_later: Vec<TxnMetadata>,
}

impl ProducerAppendInfo {
    /// Begins with the known state of a producer, an empty one if there is none
    /// (`ProducerStateManager.prepareUpdate`).
    #[must_use]
    #[inline]
    pub fn new(
        current_entry: &ProducerStateEntry,
        origin: AppendOrigin,
        verification: Option<&VerificationStateEntry>,
    ) -> Self {
        let known = (origin == AppendOrigin::Client).then(|| {
            Box::new(Known {
                producer_epoch: current_entry.producer_epoch(),
                is_empty: current_entry.is_empty(),
                first_sequence: current_entry.first_sequence(),
                last_sequence: current_entry.last_sequence(),
                last_offset: current_entry.last_batch().map_or(-1, |b| b.last_offset),
            })
        });
        Self {
            origin,
            known,
            verification: verification.map(|entry| Box::new(*entry)),
            updated_entry: current_entry.without_batches(),
            started: None,
            started_later: Vec::new(),
        }
    }

    /// The producer's id.
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        self.updated_entry.producer_id()
    }

    /// What the append makes of the producer; holds the batches of this append only
    /// (`ProducerAppendInfo.toEntry`).
    #[must_use]
    #[inline]
    pub fn updated_entry(&self) -> &ProducerStateEntry {
        &self.updated_entry
    }

    /// The transactions that begin in this append (`ProducerAppendInfo.startedTransactions`).
    #[inline]
    pub fn started_transactions(&self) -> impl Iterator<Item = &TxnMetadata> {
        self.started.iter().chain(&self.started_later)
    }

    /// Checks a batch and takes it in (`ProducerAppendInfo.append`).
    ///
    /// `marker` is what the first record of a control batch says. An empty control batch, which
    /// the cleaner leaves, has none and changes nothing. A marker's time is that of its record,
    /// which the header gives.
    ///
    /// `first_offset_metadata` is the batch's place in the log, where it is known.
    ///
    /// # Errors
    /// If a rule refuses the batch. The info is of no use afterwards.
    #[inline]
    pub fn append(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        first_offset_metadata: Option<LogOffsetMetadata>,
        transaction_version: TransactionVersion,
    ) -> Result<Option<CompletedTxn>, Refusal> {
        if header.attributes().is_control() {
            let Some(marker) = marker else {
                return Ok(None);
            };
            let marker = EndTxnMarkerAppend::logged(header, marker, transaction_version);
            return self.append_end_txn_marker(&marker);
        }
        self.append_data_batch(header, first_offset_metadata)?;
        Ok(None)
    }

    /// `ProducerAppendInfo.appendDataBatch`: epoch, sequence, open transaction.
    #[inline]
    fn append_data_batch(
        &mut self,
        header: &RecordBatchHeader,
        first_offset_metadata: Option<LogOffsetMetadata>,
    ) -> Result<(), Refusal> {
        let producer_epoch = header.producer_epoch();
        self.check_data_epoch(producer_epoch)?;
        if let Some(known) = &self.known {
            self.check_sequence(known, producer_epoch, header.base_sequence())?;
        }
        if let Some(txn) =
            take_in_data_batch(&mut self.updated_entry, header, first_offset_metadata)?
        {
            self.start(txn);
        }
        Ok(())
    }

    fn start(&mut self, txn: TxnMetadata) {
        if self.started.is_none() {
            self.started = Some(txn);
        } else {
            self.started_later.push(txn);
        }
    }

    /// `ProducerAppendInfo.checkProducerEpoch` for data: replication only logs a lower epoch.
    #[inline]
    fn check_data_epoch(&self, found: i16) -> Result<(), Refusal> {
        let known = self.updated_entry.producer_epoch();
        if found < known && self.origin != AppendOrigin::Replication {
            return Err(Refusal::StaleProducerEpoch { known, found });
        }
        Ok(())
    }

    /// `ProducerAppendInfo.checkSequence`.
    fn check_sequence(
        &self,
        before: &Known,
        producer_epoch: i16,
        found: i32,
    ) -> Result<(), Refusal> {
        if let Some(verification) = &self.verification {
            if verification.supports_epoch_bump && found != 0 && before.is_empty {
                return Err(Refusal::UnknownProducerMustStartAtZero { found });
            }
            let lowest_sequence = verification.lowest_sequence;
            if found > lowest_sequence {
                return Err(Refusal::LowerSequencePending {
                    found,
                    lowest_sequence,
                });
            }
        }
        let known = self.updated_entry.producer_epoch();
        if producer_epoch != known {
            if found != 0 && known != NO_PRODUCER_EPOCH {
                return Err(Refusal::NewEpochMustStartAtZero {
                    known,
                    producer_epoch,
                    found,
                });
            }
            return Ok(());
        }
        let last_sequence = if !self.updated_entry.is_empty() {
            self.updated_entry.last_sequence()
        } else if producer_epoch == before.producer_epoch {
            before.last_sequence
        } else {
            NO_SEQUENCE
        };
        // A producer of which no epoch is known may start anywhere.
        if before.producer_epoch == NO_PRODUCER_EPOCH || in_sequence(last_sequence, found) {
            return Ok(());
        }
        Err(self.out_of_order(before, producer_epoch, found, last_sequence))
    }

    /// Tells apart what Kafka answers with one and the same error.
    fn out_of_order(
        &self,
        before: &Known,
        producer_epoch: i16,
        found: i32,
        last_sequence: i32,
    ) -> Refusal {
        if last_sequence == NO_SEQUENCE {
            return Refusal::MustStartAtZero {
                producer_epoch,
                found,
            };
        }
        let (first_sequence, last_offset) = match self.updated_entry.last_batch() {
            Some(last) => (self.updated_entry.first_sequence(), last.last_offset),
            None => (before.first_sequence, before.last_offset),
        };
        let expected = increment_sequence(last_sequence, 1);
        if is_ahead(expected, found) {
            Refusal::SequenceGap {
                expected,
                found,
                last_sequence,
                last_offset,
            }
        } else if is_ahead(found, first_sequence) && found != first_sequence {
            Refusal::BelowWindow {
                expected,
                found,
                first_sequence,
                last_sequence,
                last_offset,
            }
        } else {
            Refusal::NoSuchBatchInWindow {
                expected,
                found,
                first_sequence,
                last_sequence,
                last_offset,
            }
        }
    }

    /// Checks a marker and takes it in: epoch, coordinator epoch
    /// (`ProducerAppendInfo.appendEndTxnMarker`).
    ///
    /// Returns the transaction it ends; a marker without an open transaction ends none and is
    /// taken in all the same.
    ///
    /// # Errors
    /// If a rule refuses the marker.
    pub fn append_end_txn_marker(
        &mut self,
        append: &EndTxnMarkerAppend,
    ) -> Result<Option<CompletedTxn>, Refusal> {
        if append.transaction_version == TransactionVersion::UNKNOWN
            && self.origin != AppendOrigin::Replication
        {
            return Err(Refusal::MarkerWithoutTransactionVersion);
        }
        self.check_marker_epoch(append.producer_epoch, append.transaction_version)?;
        let known = self.updated_entry.coordinator_epoch();
        let found = append.marker.coordinator_epoch;
        if found < known && self.origin != AppendOrigin::Replication {
            return Err(Refusal::StaleCoordinatorEpoch { known, found });
        }
        Ok(take_in_end_txn_marker(&mut self.updated_entry, append))
    }

    /// `ProducerAppendInfo.checkProducerEpoch` for markers.
    fn check_marker_epoch(
        &self,
        found: i16,
        transaction_version: TransactionVersion,
    ) -> Result<(), Refusal> {
        if self.origin == AppendOrigin::Replication {
            return Ok(());
        }
        let known = self.updated_entry.producer_epoch();
        if !transaction_version.supports_epoch_bump() {
            if found < known {
                return Err(Refusal::StaleMarkerEpoch { known, found });
            }
            return Ok(());
        }
        // An equal epoch is a retry of a marker that is in the log already, unless a transaction
        // has begun since; at the last epoch there is no higher one (KAFKA-19999).
        let is_retry = found == known
            && (self.updated_entry.current_txn_first_offset().is_none() || found == i16::MAX);
        if found <= known && !is_retry {
            return Err(Refusal::MarkerEpochNotRaised { known, found });
        }
        Ok(())
    }
}

/// The end of `ProducerAppendInfo.appendDataBatch`: remembers the batch, and begins a transaction
/// if none is open, which is returned.
///
/// # Errors
/// If the batch is plain and a transaction is open. The entry is unchanged then.
#[inline]
pub(super) fn take_in_data_batch(
    entry: &mut ProducerStateEntry,
    header: &RecordBatchHeader,
    first_offset_metadata: Option<LogOffsetMetadata>,
) -> Result<Option<TxnMetadata>, Refusal> {
    let is_transactional = header.attributes().is_transactional();
    let open = entry.current_txn_first_offset();
    if let Some(first_offset) = open
        && !is_transactional
    {
        return Err(Refusal::OpenTransaction { first_offset });
    }
    let first_offset = first_offset_metadata
        .unwrap_or_else(|| LogOffsetMetadata::offset_only(header.base_offset()));
    let last_offset = header.last_offset();
    #[expect(clippy::cast_possible_truncation, reason = "Kafka casts as well")]
    let offset_delta = last_offset.wrapping_sub(first_offset.message_offset) as i32;
    let batch = BatchMetadata {
        last_sequence: header.last_sequence(),
        last_offset,
        offset_delta,
        timestamp: header.max_timestamp(),
    };
    entry.add_batch(header.producer_epoch(), batch);
    if open.is_some() || !is_transactional {
        return Ok(None);
    }
    entry.set_current_txn_first_offset(first_offset.message_offset);
    Ok(Some(TxnMetadata {
        producer_id: entry.producer_id(),
        first_offset,
        last_offset: None,
    }))
}

/// The end of `ProducerAppendInfo.appendEndTxnMarker`; returns the transaction that ends.
#[inline]
pub(super) fn take_in_end_txn_marker(
    entry: &mut ProducerStateEntry,
    append: &EndTxnMarkerAppend,
) -> Option<CompletedTxn> {
    let open = entry.current_txn_first_offset();
    let coordinator_epoch = append.marker.coordinator_epoch;
    entry.update_by_marker(append.producer_epoch, coordinator_epoch, append.timestamp);
    open.map(|first_offset| CompletedTxn {
        producer_id: entry.producer_id(),
        first_offset,
        last_offset: append.offset,
        is_aborted: append.marker.control_type == ControlRecordType::ABORT,
    })
}

/// A marker on its way into the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxnMarkerAppend {
    /// What it says.
    pub marker: EndTransactionMarker,
    /// Producer epoch of its batch.
    pub producer_epoch: i16,
    /// Base offset of its batch.
    pub offset: i64,
    /// Time of its record, in milliseconds.
    pub timestamp: i64,
    /// Version the request came under.
    pub transaction_version: TransactionVersion,
}

impl EndTxnMarkerAppend {
    /// The marker of a batch.
    #[must_use]
    #[inline]
    pub fn logged(
        header: &RecordBatchHeader,
        marker: EndTransactionMarker,
        transaction_version: TransactionVersion,
    ) -> Self {
        Self {
            marker,
            producer_epoch: header.producer_epoch(),
            offset: header.base_offset(),
            timestamp: record_timestamp(header),
            transaction_version,
        }
    }
}

/// The time of a marker's record, which is what `ProducerAppendInfo.append` takes. Brokers write it
/// with a delta of 0; behind a delete horizon the delta counts from there and gives maxTimestamp.
fn record_timestamp(header: &RecordBatchHeader) -> i64 {
    let attributes = header.attributes();
    if attributes.timestamp_type() == TimestampType::CreateTime && !attributes.has_delete_horizon()
    {
        header.base_timestamp()
    } else {
        header.max_timestamp()
    }
}

/// `ProducerAppendInfo.inSequence`.
fn in_sequence(last_sequence: i32, next: i32) -> bool {
    i64::from(next) == i64::from(last_sequence) + 1 || (next == 0 && last_sequence == i32::MAX)
}

/// Steps forward from `from` to `to`, where 0 follows 2147483647.
fn distance(to: i32, from: i32) -> i32 {
    to.wrapping_sub(from) & i32::MAX
}

/// Whether `sequence` is reached from `from` sooner going forward than going back.
fn is_ahead(from: i32, sequence: i32) -> bool {
    distance(sequence, from) <= i32::MAX / 2
}
