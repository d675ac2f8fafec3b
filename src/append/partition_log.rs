//! The log of one partition, open for writing.
//!
//! Decides `UnifiedLog`.

use std::path::{Path, PathBuf};

use super::analyze::{Analysis, Analyze, BatchesIn, records_of};
use super::config::LogConfig;
use super::error::{Error, LoadError, Rejection};
use super::files::Files;
use super::leader_epochs::LeaderEpochs;
use super::loader::{Checkpointed, LogLoader, rename_snapshots_of};
use super::local_log::{Background, LocalLog, Lookup};
use super::scheduler::{Scheduler, Task};
use super::segment::RollParams;
use super::state_files::{StateFiles, list_snapshots, snapshot_path, take_snapshot};
use super::validator::{LogValidator, Validated, Validation};
use crate::error::DecodeError;
use crate::format::NO_TIMESTAMP;
use crate::format::aborted_txn::AbortedTxn;
use crate::format::control_record::EndTransactionMarker;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::leader_epoch_checkpoint::EpochEntry;
use crate::format::partition_metadata::{self, PartitionMetadata};
use crate::format::record_batch::{RecordBatchHeader, TimestampType};
use crate::log;
use crate::state::append_check::Validated as ValidatedState;
use crate::state::rebuild::{Rebuild, rebuild_producer_state};
use crate::state::verification_state::VerificationRequest;
use crate::state::{
    AppendCheck, AppendOrigin, Expiration, LogOffsetMetadata, ProducerStateManager, Refusal,
    StableOffsets, TransactionVersion, VerificationGuard,
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

/// The log of one partition, open for writing. See the module [`super`].
///
/// After [`Error::Files`] it is of no use any more; open it again as after a kill.
#[derive(Debug)]
pub struct PartitionLog {
    pub(super) log: LocalLog,
    pub(super) background: Background,
    pub(super) manager: ProducerStateManager,
    pub(super) offsets: StableOffsets,
    epochs: LeaderEpochs,
    validator: LogValidator,
    topic_id: Option<KafkaUuid>,
    metadata_is_due: bool,
}

impl PartitionLog {
    /// Opens the log in `dir`, which is made if it is not there. `topic_id` goes into
    /// `partition.metadata` unless there is one (`UnifiedLog.create`).
    ///
    /// # Errors
    /// If the files cannot be read or written, or contradict each other.
    pub fn open(
        dir: &Path,
        config: LogConfig,
        checkpointed: Checkpointed,
        topic_id: Option<KafkaUuid>,
        now_ms: i64,
    ) -> Result<Self, Error> {
        let now_ms = Some(now_ms);
        Self::open_in(Files::Disk, dir, config, checkpointed, topic_id, now_ms)
    }

    /// As [`PartitionLog::open`], where `files` says the files are. Without a clock no producer is
    /// forgotten for its age.
    pub(super) fn open_in(
        files: Files,
        dir: &Path,
        config: LogConfig,
        checkpointed: Checkpointed,
        topic_id: Option<KafkaUuid>,
        now_ms: Option<i64>,
    ) -> Result<Self, Error> {
        files.create_dir_all(dir)?;
        let has_clock = now_ms.is_some();
        let now_ms = now_ms.unwrap_or(0);
        let mut background = Background {
            now_ms,
            has_clock,
            scheduler: Scheduler::default(),
        };
        let mut epochs = LeaderEpochs::open(&files, dir, config.fsync)?;
        let mut manager = ProducerStateManager::new(list_snapshots(&files, dir)?);
        let interval_ms = i64::from(config.producer_id_expiration_check_interval_ms);
        let mut log = LocalLog::new(files, dir.to_owned(), config);
        let mut loader = LogLoader {
            log: &mut log,
            epochs: &mut epochs,
            manager: &mut manager,
            background: &mut background,
            checkpointed,
        };
        let log_start_offset = loader.load()?;
        let due_ms = now_ms.saturating_add(interval_ms);
        let expire = Task::ExpireProducers;
        background
            .scheduler
            .schedule_every(expire, due_ms, interval_ms);
        if log.recovery_point() < log_start_offset {
            log.set_recovery_point(log_start_offset);
        }
        let lookup = Lookup::new(&mut log);
        let offsets = StableOffsets::new(log_start_offset, &manager, &lookup);
        lookup.finish()?;
        let mut opened = Self {
            log,
            background,
            manager,
            offsets,
            epochs,
            validator: LogValidator::default(),
            topic_id,
            metadata_is_due: false,
        };
        opened.initialize_topic_id()?;
        opened.run_due_tasks()?;
        Ok(opened)
    }

    fn metadata_path(&self) -> PathBuf {
        let name = LogFileName {
            kind: LogFileKind::PartitionMetadata,
            state: FileState::Live,
        };
        self.log.dir.join(name.to_string())
    }

    /// `UnifiedLog.initializeTopicId`.
    fn initialize_topic_id(&mut self) -> Result<(), Error> {
        let path = self.metadata_path();
        match self.log.files.read(&path)? {
            Some(bytes) => {
                let read = PartitionMetadata::decode(&bytes);
                let read = read.map_err(|source| unreadable_metadata(path, source))?;
                self.topic_id = Some(read.topic_id);
            }
            None => {
                self.metadata_is_due = self.topic_id.is_some();
                self.background.soon(Task::FlushMetadata);
            }
        }
        Ok(())
    }

    fn maybe_flush_metadata(&mut self) -> Result<(), Error> {
        if let Some(topic_id) = self.topic_id
            && self.metadata_is_due
        {
            let version = partition_metadata::VERSION;
            let metadata = PartitionMetadata { version, topic_id };
            let path = self.metadata_path();
            let fsync = self.log.config.fsync;
            self.log.files.replace(&path, &metadata.encode(), fsync)?;
            self.metadata_is_due = false;
        }
        Ok(())
    }

    // ---- looking ----------------------------------------------------------------------------

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.log.dir
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &LogConfig {
        &self.log.config
    }

    /// The clock.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.background.now_ms
    }

    /// The offset of the next record.
    #[must_use]
    pub fn log_end_offset(&self) -> i64 {
        self.log.log_end_offset()
    }

    /// Log start, high watermark, first unstable and last stable offset.
    #[must_use]
    pub fn offsets(&self) -> &StableOffsets {
        &self.offsets
    }

    /// Up to here the log is on disk, or counts as if it were.
    #[must_use]
    pub fn recovery_point(&self) -> i64 {
        self.log.recovery_point()
    }

    /// The producers and transactions.
    #[must_use]
    pub fn producer_state(&self) -> &ProducerStateManager {
        &self.manager
    }

    /// The base offsets of the segments, ascending.
    pub fn segments(&self) -> impl Iterator<Item = i64> + '_ {
        self.log.segments.keys().copied()
    }

    /// The leader epochs, ascending.
    pub fn leader_epochs(&self) -> impl Iterator<Item = EpochEntry> + '_ {
        self.epochs.entries()
    }

    /// Bytes of all batches.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.log.size()
    }

    /// The active segment and the bytes in it.
    #[must_use]
    pub fn active_segment(&self) -> (i64, u64) {
        let size = self
            .log
            .active_ref()
            .map_or(0, super::segment::LogSegment::size);
        (self.log.active_base_offset(), size)
    }

    /// Aborted transactions that a reader of these offsets has to know of
    /// (`UnifiedLog.collectAbortedTransactions`).
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn collect_aborted_transactions(
        &self,
        start_offset: i64,
        upper_bound_offset: i64,
    ) -> Result<Vec<AbortedTxn>, Error> {
        // Kafka passes the log start where the fetch offset belongs, from the segment of the
        // fetch offset on; here both are the start.
        self.log.collect_aborted(start_offset, upper_bound_offset)
    }

    // ---- time -------------------------------------------------------------------------------

    /// Moves the clock forward and runs what becomes due on the way, each task at its time.
    ///
    /// # Errors
    /// If a task fails. A time in the past only runs what is due now.
    pub fn advance_clock_to(&mut self, now_ms: i64) -> Result<(), Error> {
        self.background.scheduler.skip_idle_turns(now_ms);
        while let Some(due_ms) = self.background.scheduler.next_due_ms()
            && due_ms <= now_ms
        {
            self.background.now_ms = self.background.now_ms.max(due_ms);
            self.run_due_tasks()?;
            self.background.scheduler.skip_idle_turns(now_ms);
        }
        self.background.now_ms = self.background.now_ms.max(now_ms);
        self.run_due_tasks()
    }

    /// Runs what is due now: what a broker's threads do as soon as they can.
    ///
    /// # Errors
    /// If a task fails.
    pub fn run_due_tasks(&mut self) -> Result<(), Error> {
        while let Some(task) = self.background.scheduler.take_due(self.background.now_ms) {
            self.run(task)?;
        }
        Ok(())
    }

    /// Runs all that is done once, as if the time for it had come, and leaves the clock as it is.
    pub(super) fn finish_tasks(&mut self) -> Result<(), Error> {
        while let Some(task) = self.background.scheduler.take_once() {
            self.run(task)?;
        }
        Ok(())
    }

    fn run(&mut self, task: Task) -> Result<(), Error> {
        match task {
            Task::ExpireProducers => self.remove_expired_producers(self.background.now_ms),
            Task::FlushMetadata => self.maybe_flush_metadata()?,
            Task::FlushLog { offset } => self.log.flush(offset, false)?,
            Task::WriteLeaderEpochs => self.epochs.write()?,
            Task::DeleteFiles(files) => {
                // Why they go was said when they were given the suffix.
                self.log.files.because("");
                for file in files {
                    self.log.files.remove_if_exists(&file)?;
                }
            }
        }
        Ok(())
    }

    fn expiration(&self, now_ms: i64) -> Expiration {
        Expiration {
            now_ms,
            producer_id_expiration_ms: i64::from(self.log.config.producer_id_expiration_ms),
        }
    }

    /// Forgets idle producers (`UnifiedLog.removeExpiredProducers`).
    pub fn remove_expired_producers(&mut self, now_ms: i64) {
        let expiration = self.expiration(now_ms);
        self.manager.remove_expired_producers(&expiration);
    }

    // ---- appending --------------------------------------------------------------------------

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
                .append(&super::aborted_txn(&row))?;
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

    /// Calls one of the methods of [`StableOffsets`] that may look into the log.
    pub(super) fn with_offsets<T>(
        &mut self,
        call: impl FnOnce(
            &mut StableOffsets,
            &mut ProducerStateManager,
            &Lookup<'_>,
        ) -> Result<T, Refusal>,
    ) -> Result<T, Error> {
        let lookup = Lookup::new(&mut self.log);
        let answer = call(&mut self.offsets, &mut self.manager, &lookup);
        lookup.finish()?;
        Ok(answer?)
    }

    /// `UnifiedLog.updateHighWatermarkWithLogEndOffset`.
    fn high_watermark_follows_end(&mut self) -> Result<(), Error> {
        self.with_offsets(|offsets, manager, lookup| {
            offsets.update_high_watermark_with_log_end_offset(manager, lookup)
        })
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

    // ---- segments ---------------------------------------------------------------------------

    /// Begins a new segment at the log end; returns its base offset (`UnifiedLog.roll`).
    ///
    /// # Errors
    /// If files cannot be written.
    pub fn roll(&mut self) -> Result<i64, Error> {
        self.roll_at(0)
    }

    fn roll_at(&mut self, expected_next_offset: i64) -> Result<i64, Error> {
        let base_offset = self.log.roll(expected_next_offset, &mut self.background)?;
        self.manager.update_map_end_offset(base_offset);
        take_snapshot(&self.log.files, &self.log.dir, &mut self.manager, false)?;
        self.high_watermark_follows_end()?;
        self.background.soon(Task::FlushLog {
            offset: base_offset,
        });
        Ok(base_offset)
    }

    /// Brings the log to the disk up to its end, with the active segment if asked to
    /// (`UnifiedLog.flush`).
    ///
    /// # Errors
    /// If files cannot be written.
    pub fn flush(&mut self, force_flush_active_segment: bool) -> Result<(), Error> {
        let end = self.log.log_end_offset();
        self.log.flush(end, force_flush_active_segment)
    }

    /// Writes a producer snapshot if one is due (`UnifiedLog.takeProducerSnapshot`).
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn take_producer_snapshot(&mut self) -> Result<(), Error> {
        let LocalLog {
            files, dir, config, ..
        } = &self.log;
        take_snapshot(files, dir, &mut self.manager, config.fsync)
    }

    /// A leader epoch begins at the log end (`UnifiedLog.assignEpochStartOffset`, as
    /// `Partition.makeLeader` calls it).
    ///
    /// # Errors
    /// If the epoch is negative or the file cannot be written.
    pub fn become_leader(&mut self, leader_epoch: i32) -> Result<(), Error> {
        let end = self.log.log_end_offset();
        self.epochs.assign(leader_epoch, end)
    }

    // ---- offsets ----------------------------------------------------------------------------

    /// Sets the high watermark within log start and log end; returns it
    /// (`UnifiedLog.updateHighWatermark`).
    ///
    /// # Errors
    /// If it would be negative, or files cannot be read.
    pub fn update_high_watermark(&mut self, offset: i64) -> Result<i64, Error> {
        let high_watermark = LogOffsetMetadata::offset_only(offset);
        self.with_offsets(|offsets, manager, lookup| {
            offsets.update_high_watermark(high_watermark, manager, lookup)
        })
    }

    /// Raises the high watermark; returns whether it changed
    /// (`UnifiedLog.maybeIncrementHighWatermark`).
    ///
    /// # Errors
    /// If it would pass the log end, or files cannot be read.
    pub fn maybe_increment_high_watermark(&mut self, offset: i64) -> Result<bool, Error> {
        let high_watermark = LogOffsetMetadata::offset_only(offset);
        self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_high_watermark(high_watermark, manager, lookup)
        })
    }

    /// Raises the high watermark to the log end, as a leader does whose only in-sync replica is
    /// itself (`Partition.maybeIncrementLeaderHW`).
    ///
    /// # Errors
    /// If files cannot be read.
    pub fn raise_high_watermark_to_log_end(&mut self) -> Result<bool, Error> {
        use crate::state::LogOffsets;
        self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_high_watermark(lookup.log_end_offset(), manager, lookup)
        })
    }

    /// Raises the log start offset; returns whether it changed
    /// (`UnifiedLog.maybeIncrementLogStartOffset`).
    ///
    /// # Errors
    /// If it would pass the high watermark, or files cannot be read.
    pub fn maybe_increment_log_start_offset(&mut self, offset: i64) -> Result<bool, Error> {
        let changed = self.with_offsets(|offsets, manager, lookup| {
            offsets.maybe_increment_log_start_offset(offset, manager, lookup)
        })?;
        if changed {
            if self.log.recovery_point() < offset {
                self.log.set_recovery_point(offset);
            }
            if self.epochs.truncate_from_start(offset) {
                self.background.soon(Task::WriteLeaderEpochs);
            }
        }
        Ok(changed)
    }

    // ---- truncation -------------------------------------------------------------------------

    /// Drops everything from the offset on; returns whether there was anything
    /// (`UnifiedLog.truncateTo`).
    ///
    /// # Errors
    /// If the offset is negative, or files cannot be changed.
    pub fn truncate_to(&mut self, offset: i64) -> Result<bool, Error> {
        if offset < 0 {
            return Err(Rejection::NegativeOffset(offset).into());
        }
        let end = self.log.log_end_offset();
        if offset >= end {
            self.truncate_epochs_from_end(end);
            return Ok(false);
        }
        if self.log.first_base_offset() > offset {
            self.truncate_fully_and_start_at(offset, offset)?;
            return Ok(true);
        }
        let deleted = self.log.truncate_to(offset, &mut self.background)?;
        self.delete_snapshots_of(&deleted)?;
        self.truncate_epochs_from_end(offset);
        let log_start_offset = self.offsets.log_start_offset().min(offset);
        self.offsets.set_log_start_offset(log_start_offset);
        self.rebuild_producer_state(offset)?;
        if self.offsets.high_watermark() >= self.log.log_end_offset() {
            self.high_watermark_to_end()?;
        }
        Ok(true)
    }

    /// Drops everything; the log begins anew (`UnifiedLog.truncateFullyAndStartAt`).
    ///
    /// # Errors
    /// If files cannot be changed.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: i64,
        log_start_offset: i64,
    ) -> Result<(), Error> {
        self.log
            .truncate_fully_and_start_at(offset, &mut self.background)?;
        self.epochs.clear()?;
        for snapshot in self.manager.truncate_fully_and_start_at(offset) {
            let path = snapshot_path(&self.log.dir, snapshot);
            self.log.files.remove_if_exists(&path)?;
        }
        self.offsets.set_log_start_offset(log_start_offset);
        self.rebuild_producer_state(offset)?;
        self.high_watermark_to_end()
    }

    fn high_watermark_to_end(&mut self) -> Result<(), Error> {
        use crate::state::LogOffsets;
        self.with_offsets(|offsets, manager, lookup| {
            offsets.update_high_watermark(lookup.log_end_offset(), manager, lookup)
        })?;
        Ok(())
    }

    fn truncate_epochs_from_end(&mut self, end: i64) {
        if self.epochs.truncate_from_end(end) {
            self.background.soon(Task::WriteLeaderEpochs);
        }
    }

    pub(super) fn delete_snapshots_of(&mut self, base_offsets: &[i64]) -> Result<(), Error> {
        let files = rename_snapshots_of(&self.log, &mut self.manager, base_offsets)?;
        self.background.delete_later(files, &self.log.config);
        Ok(())
    }

    fn rebuild_producer_state(&mut self, last_offset: i64) -> Result<(), Error> {
        let rebuild = Rebuild {
            log_start_offset: self.offsets.log_start_offset(),
            last_offset,
            reload_from_clean_shutdown: false,
            expiration: self
                .background
                .has_clock
                .then(|| self.expiration(self.background.now_ms)),
        };
        let mut files = StateFiles {
            log: &mut self.log,
            rebuild: &rebuild,
        };
        rebuild_producer_state(&mut self.manager, &mut files, &rebuild)
    }

    // ---- stopping ---------------------------------------------------------------------------

    /// Stops as a broker does that is shut down: everything flushed, a snapshot at the end,
    /// indexes trimmed. What waits in the background is dropped (`LogManager.shutdown`,
    /// `UnifiedLog.close`).
    ///
    /// # Errors
    /// If files cannot be written.
    pub fn close(&mut self) -> Result<(), Error> {
        self.run_due_tasks()?;
        self.flush(true)?;
        self.maybe_flush_metadata()?;
        self.take_producer_snapshot()?;
        self.log.close()?;
        self.background.scheduler = Scheduler::default();
        Ok(())
    }

    /// Stops as if the process were killed: files stay as they are.
    ///
    /// # Errors
    /// If what was due before cannot be done.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.run_due_tasks()?;
        for segment in self.log.segments.values_mut() {
            segment.offset_index.write_pending()?;
            segment.time_index.write_pending()?;
        }
        self.background.scheduler = Scheduler::default();
        Ok(())
    }
}

fn unreadable_metadata(path: PathBuf, source: DecodeError) -> Error {
    let Some(exception) = PartitionMetadata::uncaught(&source) else {
        return log::Error::Decode { path, source }.into();
    };
    LoadError::Metadata {
        path,
        source,
        exception,
    }
    .into()
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
    EndTransactionMarker::decode_batch(records_of(batch)).map_err(Rejection::Records)
}
