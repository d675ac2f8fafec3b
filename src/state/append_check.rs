//! May these batches be appended: the part of an append that looks at producers
//! (`UnifiedLog.analyzeAndValidateProducerState`).
//!
//! What comes before it, the look at the batch itself and the roll of the segment, is the
//! business of whoever writes; so is the log.

use super::append_origin::{AppendOrigin, TransactionVersion};
use super::log_offset_metadata::LogOffsetMetadata;
use super::producer_state_entry::BatchMetadata;
use super::producer_state_manager::ProducerStateManager;
use super::refusal::Refusal;
use super::replay::{AbortedTxnRow, SegmentProducers, UpdateProducers};
use super::verification_state::VerificationGuard;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::RecordBatchHeader;

/// What is said with an append, beside its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendCheck {
    /// Who appends.
    pub origin: AppendOrigin,
    /// The guard the request carries.
    pub verification_guard: VerificationGuard,
    /// `transaction.partition.verification.enable`.
    pub transaction_verification_enabled: bool,
    /// The version of the request; counts for markers.
    pub transaction_version: TransactionVersion,
}

impl AppendCheck {
    /// A batch that was taken from the leader, or lies in the log.
    pub const REPLICATION: Self = Self {
        origin: AppendOrigin::Replication,
        verification_guard: VerificationGuard::SENTINEL,
        transaction_verification_enabled: true,
        transaction_version: TransactionVersion::UNKNOWN,
    };

    /// What a leader makes of a batch of which only the log is known: data comes from a client
    /// and is taken as verified, markers come from the coordinator.
    #[must_use]
    pub fn for_logged_batch(
        header: &RecordBatchHeader,
        transaction_version: TransactionVersion,
    ) -> Self {
        let origin = if header.attributes().is_control() {
            AppendOrigin::Coordinator
        } else {
            AppendOrigin::Client
        };
        Self {
            origin,
            verification_guard: VerificationGuard::SENTINEL,
            transaction_verification_enabled: false,
            transaction_version,
        }
    }
}

/// What a leader answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The batch is written.
    Appended,
    /// The batch is in the log already; the producer is told success, with the offsets and the
    /// timestamp of this one.
    Duplicate(BatchMetadata),
    /// The batch is not written.
    Rejected(Refusal),
}

impl Verdict {
    /// Kafka-style name of the verdict.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Appended => "appended",
            Self::Duplicate(_) => "duplicate",
            Self::Rejected(_) => "rejected",
        }
    }
}

/// The outcome of the check of an append.
#[derive(Clone, Debug)]
pub enum Validated {
    /// To be written, then taken in with [`ProducerStateManager::append`].
    Accepted(ValidatedAppend),
    /// Nothing is written.
    Duplicate(BatchMetadata),
}

/// The producers and ended transactions of an append that may be written.
#[derive(Clone, Debug, Default)]
pub struct ValidatedAppend {
    producers: SegmentProducers,
}

impl ProducerStateManager {
    /// The verdict on one batch, header's offsets being those it gets. Changes nothing.
    #[must_use]
    pub fn judge(
        &self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        check: &AppendCheck,
    ) -> Verdict {
        if !header.has_producer_id() {
            return Verdict::Appended;
        }
        match self.check_before_producer(header, check) {
            Ok(None) => {}
            Ok(Some(duplicate)) => return Verdict::Duplicate(duplicate),
            Err(refusal) => return Verdict::Rejected(refusal),
        }
        let mut info = self.prepare_update(header.producer_id(), check.origin);
        match info.append(header, marker, None, check.transaction_version) {
            Ok(_) => Verdict::Appended,
            Err(refusal) => Verdict::Rejected(refusal),
        }
    }

    /// Checks the batches of one append, offsets assigned. `place` is where the first one will
    /// be: the first offset, the segment, and the position in it
    /// (`UnifiedLog.analyzeAndValidateProducerState`).
    ///
    /// # Errors
    /// If a rule refuses a batch. Verifications of the batches before it are ended all the same.
    pub fn analyze_and_validate<'a>(
        &mut self,
        batches: impl IntoIterator<Item = (&'a RecordBatchHeader, Option<EndTransactionMarker>)>,
        place: LogOffsetMetadata,
        check: &AppendCheck,
    ) -> Result<Validated, Refusal> {
        let mut append = ValidatedAppend::default();
        let mut position = i64::from(place.relative_position_in_segment);
        for (header, marker) in batches {
            if header.has_producer_id() {
                if let Some(duplicate) = self.check_before_producer(header, check)? {
                    return Ok(Validated::Duplicate(duplicate));
                }
                // The place of a transaction's first batch is remembered, so that the last
                // stable offset needs no lookup later.
                let first_offset_metadata =
                    header
                        .attributes()
                        .is_transactional()
                        .then(|| LogOffsetMetadata {
                            message_offset: header.base_offset(),
                            segment_base_offset: place.segment_base_offset,
                            relative_position_in_segment: i32::try_from(position)
                                .unwrap_or(i32::MAX),
                        });
                let how = UpdateProducers {
                    origin: check.origin,
                    transaction_version: check.transaction_version,
                    first_offset_metadata,
                };
                append
                    .producers
                    .update_producers(self, header, marker, how)?;
            }
            position =
                position.saturating_add(i64::try_from(header.size_in_bytes()).unwrap_or(i64::MAX));
        }
        Ok(Validated::Accepted(append))
    }

    /// Takes in an append that has been written, up to `last_offset`; gives `row` what goes into
    /// the `.txnindex` of the segment (`UnifiedLog.append`).
    ///
    /// # Errors
    /// If a transaction ends that is not open, which only a damaged log or snapshot brings about.
    pub fn append(
        &mut self,
        mut append: ValidatedAppend,
        last_offset: i64,
        row: impl FnMut(AbortedTxnRow),
    ) -> Result<(), Refusal> {
        append.producers.take_in_with_rows(self, row)?;
        self.update_map_end_offset(last_offset.wrapping_add(1));
        Ok(())
    }

    /// Duplicate, stale epoch of a transactional batch, missing guard; in this order, and before
    /// the checks of [`super::producer_append_info`].
    fn check_before_producer(
        &self,
        header: &RecordBatchHeader,
        check: &AppendCheck,
    ) -> Result<Option<BatchMetadata>, Refusal> {
        let producer_id = header.producer_id();
        let producer_epoch = header.producer_epoch();
        let entry = self.last_entry(producer_id);
        if check.origin == AppendOrigin::Client {
            let (first, last) = (header.base_sequence(), header.last_sequence());
            let duplicate =
                entry.and_then(|entry| entry.find_duplicate_batch(producer_epoch, first, last));
            if duplicate.is_some() {
                return Ok(duplicate.copied());
            }
        }
        if check.origin == AppendOrigin::Replication
            || !header.attributes().is_transactional()
            || self.has_ongoing_transaction(producer_id, producer_epoch)
        {
            return Ok(None);
        }
        if let Some(entry) = entry
            && producer_epoch < entry.producer_epoch()
        {
            // Markers are transactional as well, so a stale one is refused here, before its own
            // checks and whatever its version.
            let (known, found) = (entry.producer_epoch(), producer_epoch);
            return Err(if header.attributes().is_control() {
                Refusal::StaleMarkerEpoch { known, found }
            } else {
                Refusal::StaleProducerEpoch { known, found }
            });
        }
        let guard = self
            .verification_state_entry(producer_id)
            .map_or(VerificationGuard::SENTINEL, |entry| {
                entry.verification_guard
            });
        if check.transaction_verification_enabled
            && !header.attributes().is_control()
            && !guard.verify(check.verification_guard)
        {
            return Err(Refusal::NoVerification);
        }
        Ok(None)
    }
}
