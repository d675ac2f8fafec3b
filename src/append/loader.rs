//! What is done with a directory when a log is opened: leftovers, segments, recovery, producers.
//!
//! Decides `LogLoader`.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::error::{Error, Rejection};
use super::leader_epochs::LeaderEpochs;
use super::local_log::{Background, LocalLog};
use super::scheduler::Task;
use super::segment::{LogSegment, segment_path};
use super::state_files::{StateFiles, list_snapshots, marker_of, snapshot_path, take_snapshot};
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::state::rebuild::{Rebuild, rebuild_producer_state};
use crate::state::{Expiration, ProducerStateManager, recover_batch};

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

impl LogLoader<'_> {
    /// Loads the log; returns its log start offset (`LogLoader.load`).
    pub(super) fn load(&mut self) -> Result<i64, Error> {
        self.remove_leftovers()?;
        self.load_segment_files()?;
        let (next_offset, recovery_point) = self.recover_log()?;
        self.log.active()?.resize_indexes()?;

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
        for stray in self.manager.snapshots_mut().remove_stray(&bases) {
            let path = snapshot_path(&self.log.dir, stray);
            self.log.files.remove_if_exists(&path)?;
        }
        let rebuild = Rebuild {
            log_start_offset,
            last_offset: next_offset,
            reload_from_clean_shutdown: self.checkpointed.clean,
            expiration: Some(self.expiration()),
        };
        let mut files = StateFiles { log: self.log };
        rebuild_producer_state(self.manager, &mut files, &rebuild)?;
        self.log.set_recovery_point(recovery_point);
        self.log.update_log_end_offset(next_offset);
        Ok(log_start_offset)
    }

    fn expiration(&self) -> Expiration {
        Expiration {
            now_ms: self.background.now_ms,
            producer_id_expiration_ms: i64::from(self.log.config.producer_id_expiration_ms),
        }
    }

    /// The files of the directory by name.
    fn files(&self) -> Result<Vec<(LogFileName, PathBuf)>, Error> {
        let names = self.log.files.list(&self.log.dir)?.into_iter();
        Ok(names
            .map(|name| {
                let path = self.log.dir.join(&name);
                (LogFileName::parse(&name.to_string_lossy()), path)
            })
            .collect())
    }

    /// Files of deleted segments, and of a cleaner that was stopped: this log has no cleaner, so
    /// `.cleaned` goes and `.swap` is put into place
    /// (`LogLoader.removeTempFilesAndCollectSwapFiles`).
    fn remove_leftovers(&self) -> Result<(), Error> {
        for (name, path) in self.files()? {
            match name.state {
                FileState::Deleted if !matches!(name.kind, LogFileKind::KRaftSnapshot(_)) => {
                    self.log.files.remove_if_exists(&path)?;
                }
                FileState::Cleaned => self.log.files.remove_if_exists(&path)?,
                FileState::Swap => {
                    let live = path.with_extension("");
                    self.log.files.rename(&path, &live)?;
                }
                FileState::Deleted | FileState::Live | FileState::Temporary => {}
            }
        }
        Ok(())
    }

    /// `LogLoader.loadSegmentFiles`.
    fn load_segment_files(&mut self) -> Result<(), Error> {
        for (name, path) in self.files()? {
            if name.state != FileState::Live {
                continue;
            }
            match name.kind {
                LogFileKind::OffsetIndex(base)
                | LogFileKind::TimeIndex(base)
                | LogFileKind::TransactionIndex(base) => {
                    let log = segment_path(&self.log.dir, LogFileKind::Log(base));
                    if !self.log.files.exists(&log) {
                        self.log.files.remove_if_exists(&path)?;
                    }
                }
                LogFileKind::Log(base) => self.load_segment(base)?,
                LogFileKind::ProducerSnapshot(_)
                | LogFileKind::LeaderEpochCheckpoint
                | LogFileKind::PartitionMetadata
                | LogFileKind::QuorumState
                | LogFileKind::KRaftSnapshot(_)
                | LogFileKind::KRaftSnapshotPart(..)
                | LogFileKind::RemoteLogSnapshot
                | LogFileKind::NotANumber(_)
                | LogFileKind::Unknown(_) => {}
            }
        }
        Ok(())
    }

    fn load_segment(&mut self, base_offset: i64) -> Result<(), Error> {
        let now_ms = self.background.now_ms;
        let LocalLog {
            files, dir, config, ..
        } = &*self.log;
        let time_index = segment_path(dir, LogFileKind::TimeIndex(base_offset));
        let has_time_index = files.exists(&time_index);
        let mut segment = LogSegment::open(files, dir, base_offset, config, now_ms, true)?;
        // `LogSegment.sanityCheck`.
        let is_sound = files.exists(segment.offset_index.path());
        if is_sound && !has_time_index {
            segment.time_index.get()?.resize_to_zero()?;
        }
        let is_sound = is_sound
            && segment
                .txn_index
                .rows()?
                .iter()
                .all(|row| row.last_offset() >= base_offset);
        if !is_sound {
            let mut manager = self.producers_below(base_offset)?;
            self.recover_segment(&mut segment, &mut manager)?;
        }
        self.log.segments.insert(base_offset, segment);
        Ok(())
    }

    /// The producers below a segment that is to be recovered (`LogLoader.recoverSegment`).
    fn producers_below(&mut self, base_offset: i64) -> Result<ProducerStateManager, Error> {
        let mut manager =
            ProducerStateManager::new(list_snapshots(&self.log.files, &self.log.dir)?);
        let rebuild = Rebuild {
            log_start_offset: self.checkpointed.log_start_offset,
            last_offset: base_offset,
            reload_from_clean_shutdown: false,
            expiration: Some(self.expiration()),
        };
        let mut files = StateFiles { log: self.log };
        rebuild_producer_state(&mut manager, &mut files, &rebuild)?;
        Ok(manager)
    }

    /// Reads a segment batch by batch and writes its indexes anew; returns how many bytes were
    /// cut off (`LogSegment.recover`).
    fn recover_segment(
        &mut self,
        segment: &mut LogSegment,
        manager: &mut ProducerStateManager,
    ) -> Result<u64, Error> {
        segment.reset_indexes()?;
        let mut valid_bytes = 0;
        let mut batches = Vec::new();
        segment.for_each_batch(0, |batch| {
            if !batch.is_valid()? {
                return Ok(ControlFlow::Break(()));
            }
            let header = *batch.header;
            let is_marker = header.has_producer_id()
                && header.attributes().is_control()
                && header.records_count() > 0;
            valid_bytes = batch.position + batch.size_in_bytes();
            // A marker that cannot be read still counts as good bytes, but is the last.
            let is_readable = !is_marker || batch.control_record()?.is_some();
            let marker = marker_of(batch)?;
            batches.push((header, marker, batch.position, is_readable));
            Ok(if is_readable {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        for (header, marker, position, is_readable) in batches {
            segment.recover_batch(&header, position)?;
            let epoch = header.partition_leader_epoch();
            let latest = self.epochs.latest_epoch();
            if epoch >= 0 && latest.is_none_or(|latest| epoch > latest) {
                self.epochs.assign(epoch, header.base_offset())?;
            }
            if is_readable && let Some(row) = recover_batch(manager, &header, marker)? {
                segment.txn_index.append(&super::aborted_txn(&row))?;
            }
        }
        let truncated = segment.end_recovery(valid_bytes)?;
        let LocalLog {
            files, dir, config, ..
        } = &*self.log;
        take_snapshot(files, dir, manager, config.fsync)?;
        Ok(truncated)
    }

    /// Returns the log end and the recovery point (`LogLoader.recoverLog`).
    fn recover_log(&mut self) -> Result<(i64, i64), Error> {
        if !self.checkpointed.clean {
            self.recover_unflushed()?;
        }
        let log_end_offset = self.delete_all_below_log_start()?;
        let checkpoint = self.checkpointed;
        if self.log.segments.is_empty() {
            let now_ms = self.background.now_ms;
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

    fn recover_unflushed(&mut self) -> Result<(), Error> {
        let recovery_point = self.checkpointed.recovery_point;
        let unflushed = self.log.base_offsets_in(recovery_point, i64::MAX)?;
        let mut unflushed = unflushed.into_iter();
        while let Some(base_offset) = unflushed.next() {
            // The segment is in the list while the state below it is rebuilt, which decides
            // where snapshots are written.
            let mut manager = self.producers_below(base_offset)?;
            let now_ms = self.background.now_ms;
            let Some(mut segment) = self.log.segments.remove(&base_offset) else {
                continue;
            };
            let truncated = match self.recover_segment(&mut segment, &mut manager) {
                Err(Error::Rejected(Rejection::IndexOffset { .. }) | Error::Files(_)) => {
                    segment.truncate_to(base_offset, now_ms)?
                }
                other => other?,
            };
            self.log.segments.insert(base_offset, segment);
            if truncated > 0 {
                let rest: Vec<i64> = unflushed.collect();
                self.log.remove_and_delete(&rest, self.background)?;
                self.delete_snapshots_of(&rest)?;
                break;
            }
        }
        Ok(())
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
        let log_end_offset = self.log.active()?.read_next_offset()?;
        let log_start_offset = self.checkpointed.log_start_offset;
        if log_end_offset >= log_start_offset {
            return Ok(Some(log_end_offset));
        }
        let all: Vec<i64> = self.log.segments.keys().copied().collect();
        self.log.remove_and_delete(&all, self.background)?;
        self.delete_snapshots_of(&all)?;
        self.epochs.clear()?;
        for offset in self.manager.truncate_fully_and_start_at(log_start_offset) {
            let path = snapshot_path(&self.log.dir, offset);
            self.log.files.remove_if_exists(&path)?;
        }
        Ok(None)
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
        let path = snapshot_path(&log.dir, base_offset);
        let name = LogFileName {
            kind: LogFileKind::ProducerSnapshot(base_offset),
            state: FileState::Deleted,
        };
        let deleted = log.dir.join(name.to_string());
        if log.files.rename(&path, &deleted)? {
            files.push(deleted);
        }
    }
    Ok(files)
}
