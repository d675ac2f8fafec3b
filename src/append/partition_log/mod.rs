//! The log of one partition, open for writing.
//!
//! Decides `UnifiedLog`.

mod appending;
mod clock;
mod offsets;
mod retention;
mod truncation;

use std::path::{Path, PathBuf};

use super::config::LogConfig;
use super::error::{Error, LoadError};
use super::files::Files;
use super::leader_epochs::LeaderEpochs;
use super::loader::{Checkpointed, LogLoader};
use super::local_log::{Background, LocalLog, Lookup};
use super::scheduler::{Scheduler, Task};
use super::segment::LogSegment;
use super::state_files::{list_snapshots, take_snapshot};
use super::validator::LogValidator;
use crate::error::DecodeError;
use crate::format::aborted_txn::AbortedTxn;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::leader_epoch_checkpoint::EpochEntry;
use crate::format::partition_metadata::{self, PartitionMetadata};
use crate::log;
use crate::state::{ProducerStateManager, StableOffsets};

pub use appending::{Appended, LeaderAppend};

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
        match self.log.files.view_if_there(&path)? {
            Some(file) => {
                let read = PartitionMetadata::decode(&file.read_all()?);
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
        let size = self.log.active_ref().map_or(0, LogSegment::size);
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
        let mut found = Vec::new();
        self.each_aborted_transaction(start_offset, upper_bound_offset, |row| found.push(*row))?;
        Ok(found)
    }

    /// The same one by one: an index of zeros has very many.
    pub(super) fn each_aborted_transaction(
        &self,
        start_offset: i64,
        upper_bound_offset: i64,
        take: impl FnMut(&AbortedTxn),
    ) -> Result<(), Error> {
        // Kafka passes the log start where the fetch offset belongs, from the segment of the
        // fetch offset on; here both are the start.
        self.log
            .collect_aborted(start_offset, upper_bound_offset, take)
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
        self.log.check_open()?;
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
        self.log.check_open()?;
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

    /// Writes batches and index entries that are only in memory yet into the files, without
    /// bringing them to the disk: for whoever reads the files while this log is open. See
    /// [`LogConfig::write_buffer_bytes`].
    ///
    /// # Errors
    /// If files cannot be written.
    pub fn write_buffered(&mut self) -> Result<(), Error> {
        let mut segments = self.log.segments.values_mut();
        segments.try_for_each(LogSegment::write_pending)
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

    /// Stops as if the process were killed: files stay as they are. The log answers as before, and
    /// takes nothing more.
    ///
    /// # Errors
    /// If what was due before cannot be done.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.run_due_tasks()?;
        self.log.close_handlers()?;
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
