//! What a broker would do with a partition directory at its start: the loader run over a view of
//! the directory that takes its changes in and makes none.
//!
//! The row says what comes of it ([`row`]) and what it costs (its `losses`); the view can be looked
//! at by whoever reads a directory ([`DryRun::into_loaded`]) or written to another one ([`copy`]).

mod aftermath;
pub mod copy;
mod fill;
pub mod gone;
pub mod known;
mod last_copies;
mod loss;
mod metadata_log;
mod reference;
mod replaced;
pub mod row;
mod stray;

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use row::RecoverRow;

pub use crate::log::overlay::INDEX_MEMORY;

use self::loss::Counted;
use self::row::{Action, LoadFailure, RecoverRow as Row, Start};
use super::LogConfig;
use super::error::{Error, LoadError};
use super::files::Files;
use super::load_trace::LoadTrace;
use super::loader::Checkpointed;
use super::partition_log::PartitionLog;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::internal_topic::InternalTopic;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::odd_entry::OddEntry;
use crate::log::overlay::{FileId, Overlay};
use crate::log::partition_dir::PartitionDir;
use crate::log::{self, Io};
use crate::state::Expiration;

/// How a start is to be played through.
#[derive(Clone, Debug)]
pub struct DryRunOptions {
    /// How files are read.
    pub io: Io,
    /// The configuration of topic and broker.
    pub config: LogConfig,
    /// The clock in milliseconds; without one no producer is too old.
    pub now_ms: Option<i64>,
    /// Whether `.kafka_cleanshutdown` is there: the start this directory would get.
    pub is_clean: bool,
    /// Bytes of indexes made anew that are kept, beside those of the segment at hand. The others
    /// are made from the log once more when somebody asks for them: [`INDEX_MEMORY`] is a good
    /// number.
    pub index_memory: u64,
}

impl DryRunOptions {
    /// A view of the directory in which nothing is changed yet.
    fn overlay(&self, dir: &PartitionDir) -> Result<Overlay, log::Error> {
        Ok(Overlay::new(dir, self.io)?.with_index_memory(self.index_memory))
    }

    fn expiration(&self) -> Option<Expiration> {
        self.now_ms.map(|now_ms| Expiration {
            now_ms,
            producer_id_expiration_ms: i64::from(self.config.producer_id_expiration_ms),
        })
    }
}

/// A start that was played through.
#[derive(Debug)]
pub struct DryRun {
    /// What came of it.
    pub row: Row,
    /// The directory when everything is done that the start leads to, and the log is closed again;
    /// as far as it came, if it failed.
    overlay: Overlay,
    /// A last segment whose batches are all above the log end.
    hidden: Option<FileId>,
    /// What was read.
    trace: LoadTrace,
    /// The losses so far.
    counted: Counted,
}

/// Plays a start through.
///
/// # Errors
/// If the directory cannot be listed, or a file cannot be read that the broker's own user could
/// read. What the broker itself would stop at is no error but part of the answer.
pub fn dry_run(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    start: Start,
    options: &DryRunOptions,
) -> Result<DryRun, log::Error> {
    dir.unless_cut(play(dir, checkpoints, start, options))
}

fn play(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    start: Start,
    options: &DryRunOptions,
) -> Result<DryRun, log::Error> {
    let is_metadata = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
    let overlay = options.overlay(dir)?;
    let files = Files::overlay(overlay.clone());
    let checkpointed = Checkpointed {
        log_start_offset: checkpoints
            .log_start_offset
            .filter(|_| !is_metadata)
            .unwrap_or(0),
        recovery_point: checkpoints
            .recovery_point
            .filter(|_| !is_metadata)
            .unwrap_or(0),
        clean: start == Start::Clean && !is_metadata,
    };
    let loaded = load(&files, dir, checkpointed, is_metadata, options);
    let after_start = files.changed().unwrap_or_else(|| overlay.clone());
    let mut row = Row::new(dir, start, options.is_clean, &after_start);
    row.recovery_point_checkpoint = checkpoints.recovery_point;
    row.log_start_offset_checkpoint = checkpoints.log_start_offset;
    let (log, failure) = match loaded {
        Ok(log) => (Some(log), None),
        Err(Error::Files(error)) if !is_kafkas(&error) => return Err(error),
        Err(error) => (None, Some(error)),
    };
    let mut run = DryRun {
        row,
        overlay: after_start,
        hidden: None,
        trace: LoadTrace::default(),
        counted: Counted::default(),
    };
    if let Some(mut log) = log {
        let filled = run.fill(&mut log, checkpoints.high_watermark);
        filled.map_err(as_files_error)?;
        run.add_actions(&files)?;
        // A log that is to be deleted is not flushed at the stop (`LogManager.shutdown`).
        let closed = if run.row.status == Some("delete") {
            log.log.close()
        } else {
            log.close()
        };
        closed.map_err(as_files_error)?;
        run.trace = log.log.trace;
    } else {
        run.add_actions(&files)?;
    }
    if let Some(error) = failure {
        run.row.loads = false;
        let exception = error.exception();
        run.row.error = Some(LoadFailure {
            exception,
            stops_broker: exception != "KafkaStorageException",
            message: error.to_string(),
        });
    }
    run.overlay = files.changed().unwrap_or(overlay);
    let rewritten = run.overlay.rewritten(ends_in_room)?.into_iter();
    run.row.indexes_rewritten = rewritten
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let gone = run.find_losses(dir, checkpointed, checkpoints, options)?;
    run.look_beyond(dir, &gone, checkpoints, options)?;
    Ok(run)
}

/// An error that Kafka would have as well, and not one of looking.
fn is_kafkas(error: &log::Error) -> bool {
    matches!(error, log::Error::Decode { .. })
}

fn as_files_error(error: Error) -> log::Error {
    let message = error.to_string();
    match error {
        Error::Files(error) => error,
        Error::Refused(_) | Error::Rejected(_) | Error::Load(_) | Error::Closed => {
            log::Error::io(Path::new(""), io::Error::other(message))
        }
    }
}

fn load(
    files: &Files,
    dir: &PartitionDir,
    checkpointed: Checkpointed,
    is_metadata: bool,
    options: &DryRunOptions,
) -> Result<PartitionLog, Error> {
    files.because("missing");
    // There is nothing to bring to the disk, and no index to be opened for it.
    let config = LogConfig {
        fsync: false,
        ..options.config.clone()
    };
    let files = files.clone();
    let now_ms = options.now_ms;
    // Before anything of the log is looked at (`UnifiedLog.create`).
    check_leader_epochs(dir)?;
    let mut log = PartitionLog::open_in(files, &dir.path, config, checkpointed, None, now_ms)?;
    if is_metadata {
        metadata_log::load_snapshots(&mut log)?;
    }
    Ok(log)
}

/// An error if `leader-epoch-checkpoint` is a link to nothing: it is not made, and then it is read
/// (`CheckpointFile`).
fn check_leader_epochs(dir: &PartitionDir) -> Result<(), Error> {
    let mut odd = dir.odd.iter();
    let is_it = |entry: &&OddEntry| {
        entry.parsed.kind == LogFileKind::LeaderEpochCheckpoint && !entry.is_passed_over()
    };
    match odd.find(is_it) {
        None => Ok(()),
        Some(entry) => {
            let path = dir.path.join(&entry.file_name);
            let what = entry.what;
            Err(LoadError::NotAFile { path, what }.into())
        }
    }
}

fn ends_in_room(name: &OsStr) -> bool {
    matches!(
        LogFileName::parse(&name.to_string_lossy()).kind,
        LogFileKind::OffsetIndex(_) | LogFileKind::TimeIndex(_)
    )
}

impl DryRun {
    /// The directory as a reader would find it once the start is over. What lies above the log end
    /// although no byte was cut is not there for the broker's readers, and not here.
    #[must_use]
    pub fn into_loaded(mut self) -> PartitionDir {
        if let Some(id) = self.hidden {
            self.overlay.set_len(id, 0);
        }
        PartitionDir::of_overlay(Arc::new(self.overlay))
    }

    /// Takes the answer out of the log that was loaded, after what a broker does a moment later.
    fn fill(&mut self, log: &mut PartitionLog, high_watermark: Option<i64>) -> Result<(), Error> {
        log.finish_tasks()?;
        if let Some(high_watermark) = high_watermark {
            log.update_high_watermark(high_watermark.max(0))?;
            let offsets = log.offsets();
            self.row.high_watermark_at_start = Some(offsets.high_watermark());
            self.row.last_stable_offset_at_start = Some(offsets.last_stable_offset());
        }
        log.update_high_watermark(log.log_end_offset().max(0))?;
        // In a directory to be deleted nothing is written, and the look would make its index.
        if self.row.status != Some("delete") {
            self.row.torn_tail_bytes = log.log.active()?.bytes_behind_last_batch()?;
        }
        self.row.fill(log)
    }

    fn add_actions(&mut self, files: &Files) -> Result<(), log::Error> {
        let Some(overlay) = files.changed() else {
            return Ok(());
        };
        for (name, change, reason) in overlay.changes(ends_in_room)? {
            let file = name.to_string_lossy().into_owned();
            self.row.actions.push(Action::new(file, change, reason));
        }
        self.row.actions.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(())
    }
}

/// Whether the file is a `.log` in use.
fn is_live_log(name: &str) -> bool {
    let name = LogFileName::parse(name);
    name.state == FileState::Live && matches!(name.kind, LogFileKind::Log(_))
}
