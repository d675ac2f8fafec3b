//! Appends: what a leader takes from clients and coordinators, and a follower from its leader.
//!
//! Decides `UnifiedLog.append`.

use super::PartitionLog;
use crate::append::analyze::{Analysis, Analyze, BatchesIn, records_of};
use crate::append::error::{Error, Rejection};
use crate::append::segment::RollParams;
use crate::append::validator::{Validated, Validation};
use crate::format::NO_TIMESTAMP;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::{RecordBatchHeader, TimestampType};
use crate::state::append_check::Validated as ValidatedState;
use crate::state::verification_state::VerificationRequest;
use crate::state::{
    AppendCheck, AppendOrigin, LogOffsetMetadata, TransactionVersion, VerificationGuard,
};

/// What is said with an append to a leader, beside the batch (`UnifiedLog.appendAsLeader`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAppend {
    /// Who writes: a client or a coordinator.
    pub origin: AppendOrigin,
    /// The leader's epoch, stamped onto the batch.
    pub leader_epoch: i32,
    /// The guard from [`PartitionLog::maybe_start_transaction_verification`].
    pub verification_guard: VerificationGuard,
    /// `transaction.partition.verification.enable`.
    pub transaction_verification_enabled: bool,
    /// The version of a marker's request.
    pub transaction_version: TransactionVersion,
}

impl Default for LeaderAppend {
    /// A client's batch without transaction, under leader epoch 0.
    fn default() -> Self {
        Self {
            origin: AppendOrigin::Client,
            leader_epoch: 0,
            verification_guard: VerificationGuard::SENTINEL,
            transaction_verification_enabled: true,
            transaction_version: TransactionVersion::UNKNOWN,
        }
    }
}

/// What the producer is told (`LogAppendInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Whether the batch was in the log already: then nothing was written, and the offsets are
    /// those of the batch that is there.
    pub is_duplicate: bool,
    /// First offset.
    pub first_offset: i64,
    /// Last offset.
    pub last_offset: i64,
    /// The broker's time with `LogAppendTime`, and in any case for a duplicate; else -1.
    pub log_append_time: i64,
    /// The log start offset.
    pub log_start_offset: i64,
}

impl PartitionLog {
    /// Asks for the guard that a transactional batch of a client needs
    /// (`UnifiedLog.maybeStartTransactionVerification`).
    ///
    /// # Errors
    /// If the epoch is stale.
    pub fn maybe_start_transaction_verification(
        &mut self,
        request: &VerificationRequest,
    ) -> Result<VerificationGuard, Error> {
        let now_ms = self.background.now_ms;
        Ok(self
            .manager
            .maybe_start_transaction_verification(request, now_ms)?)
    }

    /// Appends one batch, as a client or a coordinator sends it: base offset 0, no leader epoch.
    /// The bytes are changed in place (`UnifiedLog.appendAsLeader`).
    ///
    /// # Errors
    /// If the batch is refused; what Kafka leaves behind then (a rolled segment, a leader epoch)
    /// is left behind here.
    pub fn append_as_leader(
        &mut self,
        records: &mut [u8],
        append: &LeaderAppend,
    ) -> Result<Appended, Error> {
        self.maybe_flush_metadata()?;
        let analyze = Analyze {
            origin: append.origin,
            max_message_bytes: self.log.config.max_message_bytes,
            leader_epoch: append.leader_epoch,
        };
        let log_start_offset = self.offsets.log_start_offset();
        let mut analysis = analyze.analyze(records)?;
        let records = records.get_mut(..analysis.valid_bytes).unwrap_or_default();
        if records.is_empty() {
            return Ok(nothing(&analysis, log_start_offset));
        }
        self.log.check_open()?;
        let batches = BatchesIn::new(records).count();
        if batches != 1 {
            return Err(Rejection::BatchCount(batches).into());
        }
        let offset = self.log.log_end_offset();
        let validation = Validation {
            config: &self.log.config,
            origin: append.origin,
            now_ms: self.background.now_ms,
            partition_leader_epoch: append.leader_epoch,
            offset,
        };
        let source = analysis.source_compression;
        let validated = self.validator.validate(records, source, &validation)?;
        analysis.first_offset = offset;
        analysis.last_offset = validated.next_offset.wrapping_sub(1);
        analysis.max_timestamp = validated.max_timestamp;
        let valid: &[u8] = match &validated.rebuilt {
            Some(rebuilt) => rebuilt,
            None => records,
        };
        self.check_size(&validated)?;
        let check = AppendCheck {
            origin: append.origin,
            verification_guard: append.verification_guard,
            transaction_verification_enabled: append.transaction_verification_enabled,
            transaction_version: append.transaction_version,
        };
        let mut appended = nothing(&analysis, log_start_offset);
        if self.log.config.message_timestamp_type == TimestampType::LogAppendTime {
            appended.log_append_time = self.background.now_ms;
        }
        self.append(valid, &analysis, &check, appended)
    }

    fn check_size(&self, validated: &Validated) -> Result<(), Rejection> {
        let size = validated
            .rebuilt
            .as_ref()
            .map_or(0, |rebuilt| rebuilt.len() as u64);
        let max = self.log.config.max_message_bytes;
        if size > u64::try_from(max).unwrap_or(0) {
            return Err(Rejection::BatchTooLarge { size, max });
        }
        Ok(())
    }

    /// Appends what was fetched from the leader; `None` if no batch of it may be taken
    /// (`UnifiedLog.appendAsFollower`).
    ///
    /// # Errors
    /// If the offsets do not fit, or the batches are corrupt or too large for a segment.
    pub fn append_as_follower(
        &mut self,
        records: &[u8],
        leader_epoch: i32,
    ) -> Result<Option<Appended>, Error> {
        self.maybe_flush_metadata()?;
        let analyze = Analyze {
            origin: AppendOrigin::Replication,
            max_message_bytes: self.log.config.max_message_bytes,
            leader_epoch,
        };
        let log_start_offset = self.offsets.log_start_offset();
        let analysis = analyze.analyze(records)?;
        let records = records.get(..analysis.valid_bytes).unwrap_or_default();
        if records.is_empty() {
            return Ok(None);
        }
        self.log.check_open()?;
        let log_end_offset = self.log.log_end_offset();
        if analysis.first_offset < log_end_offset {
            return Err(Rejection::UnexpectedAppendOffset {
                first_offset: analysis.first_offset,
                log_end_offset,
            }
            .into());
        }
        let appended = nothing(&analysis, log_start_offset);
        self.append(records, &analysis, &AppendCheck::REPLICATION, appended)
            .map(Some)
    }

    /// The second half of `UnifiedLog.append`: offsets are assigned.
    fn append(
        &mut self,
        records: &[u8],
        analysis: &Analysis,
        check: &AppendCheck,
        mut appended: Appended,
    ) -> Result<Appended, Error> {
        let mut batches = Vec::with_capacity(1);
        for batch in BatchesIn::new(records) {
            let (header, bytes) = batch?;
            self.epochs
                .assign(header.partition_leader_epoch(), header.base_offset())?;
            batches.push((header, marker_in(header, bytes)?));
        }
        let size = records.len() as u64;
        let max = self.log.config.segment_bytes;
        if size > u64::try_from(max).unwrap_or(0) {
            return Err(Rejection::AppendTooLarge { size, max }.into());
        }
        self.maybe_roll(size, analysis)?;
        let (segment_base_offset, position) = self.active_segment();
        let place = LogOffsetMetadata {
            message_offset: analysis.first_offset,
            segment_base_offset,
            relative_position_in_segment: i32::try_from(position).unwrap_or(i32::MAX),
        };
        let accepted = match self.manager.analyze_and_validate(batches, place, check)? {
            ValidatedState::Duplicate(batch) => {
                appended.is_duplicate = true;
                appended.first_offset = batch.first_offset();
                appended.last_offset = batch.last_offset;
                appended.log_append_time = batch.timestamp;
                appended.log_start_offset = self.offsets.log_start_offset();
                return Ok(appended);
            }
            ValidatedState::Accepted(accepted) => accepted,
        };
        let last_offset = analysis.last_offset;
        self.log.append(last_offset, records)?;
        self.high_watermark_follows_end()?;
        let mut rows = Vec::new();
        let taken = self
            .manager
            .append(accepted, last_offset, |row| rows.push(row));
        for row in rows {
            self.log
                .active()?
                .txn_index
                .append(&crate::append::aborted_txn(&row))?;
        }
        taken?;
        self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_first_unstable_offset(manager, lookup);
            Ok(())
        })?;
        if self.log.unflushed_messages() >= self.log.config.flush_messages {
            self.flush(false)?;
        }
        Ok(appended)
    }

    fn maybe_roll(&mut self, messages_size: u64, analysis: &Analysis) -> Result<(), Error> {
        let params = RollParams {
            max_timestamp_in_messages: analysis.max_timestamp,
            max_offset_in_messages: analysis.last_offset,
            messages_size,
            now_ms: self.background.now_ms,
        };
        let config = self.log.config.clone();
        if self.log.active()?.should_roll(&config, &params)? {
            self.roll_at(analysis.first_offset)?;
        }
        Ok(())
    }
}

fn nothing(analysis: &Analysis, log_start_offset: i64) -> Appended {
    Appended {
        is_duplicate: false,
        first_offset: analysis.first_offset,
        last_offset: analysis.last_offset,
        log_append_time: NO_TIMESTAMP,
        log_start_offset,
    }
}

/// The marker of a control batch (`ProducerAppendInfo.append`).
fn marker_in(
    header: &RecordBatchHeader,
    batch: &[u8],
) -> Result<Option<EndTransactionMarker>, Rejection> {
    if !header.attributes().is_control() || header.records_count() == 0 {
        return Ok(None);
    }
    EndTransactionMarker::decode_batch(records_of(batch), header.records_count())
        .map_err(Rejection::Records)
}
