//! What is done with a directory when a log is opened: leftovers, segments, recovery, producers.
//!
//! Decides `LogLoader`.

mod recovery;

use std::path::PathBuf;

use super::error::{Error, LoadError, Rejection};
use super::leader_epochs::LeaderEpochs;
use super::leftovers::{self, SegmentFile};
use super::load_trace;
use super::local_log::{Background, LocalLog};
use super::scheduler::Task;
use super::segment::{LogSegment, segment_path};
use super::split::split;
use super::state_files::{StateFiles, find_snapshot, list_snapshots};
use crate::format::file_name::{FileState, LogFileKind, PartitionDirStatus};
use crate::state::rebuild::{Rebuild, rebuild_producer_state};
use crate::state::{Expiration, ProducerStateManager, SnapshotOffsets};

/// Splitting a segment makes two or more of it; no directory needs as many rounds.
const MAX_SPLITS: usize = 10_000;

/// What the broker remembers of a log beside its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// From `log-start-offset-checkpoint`; 0 if it is not in there.
    pub log_start_offset: i64,
    /// From `recovery-point-offset-checkpoint`.
    pub recovery_point: i64,
    /// Whether the last stop was clean.
    pub clean: bool,
}

impl Checkpointed {
    /// Of a log that has never been opened.
    pub const NEW: Self = Self {
        log_start_offset: 0,
        recovery_point: 0,
        clean: true,
    };
}

/// A log that is being loaded.
pub(super) struct LogLoader<'a> {
    pub(super) log: &'a mut LocalLog,
    pub(super) epochs: &'a mut LeaderEpochs,
    pub(super) manager: &'a mut ProducerStateManager,
    pub(super) background: &'a mut Background,
    pub(super) checkpointed: Checkpointed,
}

/// Why loading could not go on with a segment.
enum Stopped {
    /// Offsets too far apart for one segment.
    Overflow {
        segment: Box<LogSegment>,
        /// Whether it had been taken into the log.
        was_in: bool,
        offset: i64,
    },
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl LogLoader<'_> {
    /// Loads the log; returns its log start offset (`LogLoader.load`).
    pub(super) fn load(&mut self) -> Result<i64, Error> {
        leftovers::clear(self.log, self.background.now_ms)?;
        self.splitting(|loader| {
            loader.log.close()?;
            loader.log.segments.clear();
            loader.load_segment_files()
        })?;
        let (next_offset, recovery_point) = if self.is_to_be_deleted() {
            if self.log.segments.is_empty() {
                self.log.add_segment(0, self.background.now_ms)?;
            }
            (0, 0)
        } else {
            let recovered = self.splitting(Self::recover_log)?;
            self.log.files.because("room for more entries");
            self.log.active()?.resize_indexes()?;
            recovered
        };

        let checkpoint = self.checkpointed.log_start_offset;
        if self.epochs.truncate_from_end(next_offset) {
            self.background.soon(Task::WriteLeaderEpochs);
        }
        let log_start_offset = checkpoint.max(self.log.first_base_offset());
        if self.epochs.truncate_from_start(checkpoint) {
            self.background.soon(Task::WriteLeaderEpochs);
        }
        *self.manager.snapshots_mut() = list_snapshots(&self.log.files, &self.log.dir)?;
        let bases = self.log.segments.keys().copied().collect();
        self.log
            .files
            .because("at no segment's base offset, and not the newest above the last one");
        for stray in self.manager.snapshots_mut().remove_stray(&bases) {
            let path = find_snapshot(&self.log.files, &self.log.dir, stray)?;
            self.log.files.remove_if_exists(&path)?;
        }
        let clean = self.checkpointed.clean;
        self.log.trace.producers_skipped = clean && self.manager.snapshots().latest().is_none();
        let rebuild = Rebuild {
            log_start_offset,
            last_offset: next_offset,
            reload_from_clean_shutdown: clean,
            expiration: self.expiration(),
        };
        let mut files = StateFiles {
            log: self.log,
            rebuild: &rebuild,
        };
        rebuild_producer_state(self.manager, &mut files, &rebuild)?;
        self.log.set_recovery_point(recovery_point);
        self.log.update_log_end_offset(next_offset);
        self.log.files.because("leader epochs outside the log");
        Ok(log_start_offset)
    }

    fn is_to_be_deleted(&self) -> bool {
        let name = self.log.dir.file_name().unwrap_or_default();
        name.to_string_lossy().ends_with(&format!(
            "-{}",
            PartitionDirStatus::Delete(String::new()).name()
        ))
    }

    fn expiration(&self) -> Option<Expiration> {
        let background = &self.background;
        background.has_clock.then(|| Expiration {
            now_ms: background.now_ms,
            producer_id_expiration_ms: i64::from(self.log.config.producer_id_expiration_ms),
        })
    }

    /// Runs a part of loading, splits the segment it stops at, and runs it again
    /// (`LogLoader.retryOnOffsetOverflow`).
    fn splitting<T>(
        &mut self,
        mut part: impl FnMut(&mut Self) -> Result<T, Stopped>,
    ) -> Result<T, Error> {
        for _ in 0..MAX_SPLITS {
            match part(self) {
                Ok(done) => return Ok(done),
                Err(Stopped::Failed(error)) => return Err(error),
                Err(Stopped::Overflow {
                    segment,
                    was_in,
                    offset,
                }) => {
                    let gone = split(self.log, *segment, was_in, offset, self.background)?;
                    self.delete_snapshots_of(&gone)?;
                }
            }
        }
        let path = self.log.dir.clone();
        Err(LoadError::SplitForEver { path }.into())
    }

    /// `LogLoader.loadSegmentFiles`.
    fn load_segment_files(&mut self) -> Result<(), Stopped> {
        let mut snapshots = list_snapshots(&self.log.files, &self.log.dir)?;
        for file in leftovers::segment_files(self.log)? {
            match file {
                SegmentFile::Orphan(path) => {
                    self.log.files.because("an index without a .log");
                    self.log.files.remove_if_exists(&path)?;
                }
                SegmentFile::Log(base_offset) => self.load_segment(base_offset, &mut snapshots)?,
                SegmentFile::NotANumber(path) => return Err(LoadError::FileName { path }.into()),
            }
        }
        Ok(())
    }

    fn load_segment(
        &mut self,
        base_offset: i64,
        snapshots: &mut SnapshotOffsets,
    ) -> Result<(), Stopped> {
        let now_ms = self.background.now_ms;
        let LocalLog {
            files, dir, config, ..
        } = &*self.log;
        let time_index = segment_path(dir, LogFileKind::TimeIndex(base_offset));
        let has_time_index = files.exists(&time_index);
        files.because("a .log of another name has its number; Kafka opens this one");
        let mut segment = LogSegment::open(files, dir, base_offset, config, now_ms, true)?;
        // `LogSegment.sanityCheck`.
        let has_offset_index = files.exists(segment.offset_index.path());
        if has_offset_index && !has_time_index {
            files.because("missing; stays empty as the segment is not recovered");
            segment.time_index.get()?.resize_to_zero()?;
        }
        let reason = if !has_offset_index {
            Some("its .index is missing")
        } else if segment.txn_index.has_row_below(base_offset)? {
            Some("its .txnindex has a transaction that ended before the segment")
        } else {
            None
        };
        if let Some(reason) = reason {
            let mut manager = self.producers_below(base_offset, snapshots)?;
            if let Err(error) = self.recover_segment(&mut segment, &mut manager, reason) {
                return Err(overflow_or(error, segment, false));
            }
            *snapshots = std::mem::take(manager.snapshots_mut());
        }
        self.log.segments.insert(base_offset, segment);
        Ok(())
    }

    /// The producers below a segment that is to be recovered (`LogLoader.recoverSegment`), with the
    /// snapshots of the directory. Kafka lists it for every segment; here they are handed on from
    /// one to the next.
    fn producers_below(
        &mut self,
        base_offset: i64,
        snapshots: &mut SnapshotOffsets,
    ) -> Result<ProducerStateManager, Error> {
        let mut manager = ProducerStateManager::new(std::mem::take(snapshots));
        let rebuild = Rebuild {
            log_start_offset: self.checkpointed.log_start_offset,
            last_offset: base_offset,
            reload_from_clean_shutdown: false,
            expiration: self.expiration(),
        };
        let mut files = StateFiles {
            log: self.log,
            rebuild: &rebuild,
        };
        rebuild_producer_state(&mut manager, &mut files, &rebuild)?;
        Ok(manager)
    }

    /// Returns the log end and the recovery point (`LogLoader.recoverLog`).
    fn recover_log(&mut self) -> Result<(i64, i64), Stopped> {
        if !self.checkpointed.clean {
            self.recover_unflushed()?;
        }
        let log_end_offset = self.delete_all_below_log_start()?;
        let checkpoint = self.checkpointed;
        if self.log.segments.is_empty() {
            let now_ms = self.background.now_ms;
            self.log.files.because("a log has at least one segment");
            self.log.add_segment(checkpoint.log_start_offset, now_ms)?;
        }
        Ok(match log_end_offset {
            Some(end) if checkpoint.clean => (end, end),
            Some(end) => (end, checkpoint.recovery_point.min(end)),
            None => {
                let end = self.log.active()?.read_next_offset()?;
                (end, checkpoint.recovery_point.min(end))
            }
        })
    }

    /// `UnifiedLog.deleteProducerSnapshots`, as the loader calls it: with the snapshots known
    /// before recovery.
    fn delete_snapshots_of(&mut self, base_offsets: &[i64]) -> Result<(), Error> {
        let files = rename_snapshots_of(self.log, self.manager, base_offsets)?;
        self.background.delete_later(files, &self.log.config);
        Ok(())
    }

    /// `LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd`.
    fn delete_all_below_log_start(&mut self) -> Result<Option<i64>, Error> {
        if self.log.segments.is_empty() {
            return Ok(None);
        }
        let (log_end_offset, read) = self.log.active()?.read_next_offset_counting()?;
        self.log.trace.tail_bytes += read;
        let log_start_offset = self.checkpointed.log_start_offset;
        if log_end_offset >= log_start_offset {
            return Ok(Some(log_end_offset));
        }
        self.log.trace.ended_below_start = Some(log_end_offset);
        self.log.files.because(load_trace::ENDS_BELOW_START);
        let all: Vec<i64> = self.log.segments.keys().copied().collect();
        // Kafka would rename their snapshots as well, but looks for the segments where it has just
        // taken them out; the snapshots go at once, below.
        self.log.remove_and_delete(&all, self.background)?;
        self.epochs.clear()?;
        for offset in self.manager.truncate_fully_and_start_at(log_start_offset) {
            let path = find_snapshot(&self.log.files, &self.log.dir, offset)?;
            self.log.files.remove_if_exists(&path)?;
        }
        Ok(None)
    }
}

/// An offset too far from the base offset has the segment split; any other error ends loading.
fn overflow_or(error: Error, segment: LogSegment, was_in: bool) -> Stopped {
    match error {
        Error::Rejected(Rejection::SegmentOverflow { offset, .. }) => Stopped::Overflow {
            segment: Box::new(segment),
            was_in,
            offset,
        },
        Error::Rejected(_)
        | Error::Refused(_)
        | Error::Load(_)
        | Error::Closed
        | Error::Files(_) => Stopped::Failed(error),
    }
}

/// Takes the snapshots of segments out and gives their files the suffix `.deleted`
/// (`ProducerStateManager.removeAndMarkSnapshotForDeletion`). Returns the files.
pub(super) fn rename_snapshots_of(
    log: &LocalLog,
    manager: &mut ProducerStateManager,
    base_offsets: &[i64],
) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for &base_offset in base_offsets {
        if !manager.snapshots_mut().remove(base_offset) {
            continue;
        }
        let path = find_snapshot(&log.files, &log.dir, base_offset)?;
        let mut deleted = path.clone().into_os_string();
        deleted.push(FileState::Deleted.suffix());
        let deleted = PathBuf::from(deleted);
        if log.files.rename(&path, &deleted)? {
            files.push(deleted);
        }
    }
    Ok(files)
}
