//! Segments that are read batch by batch when a log is loaded.
//!
//! Decides `LogLoader.recoverSegment`, `LogSegment.recover`, and the part of `LogLoader.recoverLog`
//! about segments that were not flushed.

use std::ops::ControlFlow;

use super::{LogLoader, Stopped, overflow_or};
use crate::append::deep_records::look_into;
use crate::append::error::{Error, LoadError, Rejection};
use crate::append::load_trace::{self, RecoveredSegment};
use crate::append::local_log::LocalLog;
use crate::append::segment::LogSegment;
use crate::append::state_files::{list_snapshots, take_snapshot};
use crate::format::control_record::EndTransactionMarker;
use crate::log;
use crate::state::{ProducerStateManager, recover_batch};

impl LogLoader<'_> {
    /// Reads a segment batch by batch and writes its indexes anew; returns how many bytes were
    /// cut off (`LogSegment.recover`).
    pub(super) fn recover_segment(
        &mut self,
        segment: &mut LogSegment,
        manager: &mut ProducerStateManager,
        reason: &'static str,
    ) -> Result<u64, Error> {
        self.log.trace.recovered.push(RecoveredSegment {
            base_offset: segment.base_offset,
            size_in_bytes: segment.size(),
            truncated_bytes: 0,
            reason,
        });
        self.log
            .files
            .because("made again as the segment is recovered");
        segment.reset_indexes()?;
        let (valid_bytes, problem) = self.recover_batches(segment, manager)?;
        self.log.files.because(problem);
        let truncated = segment.truncate_log(valid_bytes)?;
        self.log
            .files
            .because("made again as the segment is recovered");
        segment.end_recovery()?;
        if let Some(last) = self.log.trace.recovered.last_mut() {
            last.truncated_bytes = truncated;
        }
        self.log
            .files
            .because("producer state at the end of a segment that was recovered");
        let LocalLog {
            files, dir, config, ..
        } = &*self.log;
        take_snapshot(files, dir, manager, config.fsync)?;
        Ok(truncated)
    }

    /// Takes in the batches of a segment up to the first one that is not good. Returns how many
    /// bytes are, and what is wrong behind them.
    fn recover_batches(
        &mut self,
        segment: &mut LogSegment,
        manager: &mut ProducerStateManager,
    ) -> Result<(u64, &'static str), Error> {
        let mut valid_bytes = 0;
        let mut problem = "the rest is shorter than the batch it begins";
        let reading = segment.reader()?;
        let read = reading.for_each_batch(0, u64::MAX, |batch| {
            if !batch.is_valid()? {
                problem = "a batch with a wrong checksum";
                return Ok(ControlFlow::Break(()));
            }
            segment.recover_batch(batch)?;
            valid_bytes = batch.position() + batch.size_in_bytes();
            let Some(of_2) = batch.as_default() else {
                return Ok(ControlFlow::Continue(()));
            };
            let epoch = of_2.header.partition_leader_epoch();
            let latest = self.epochs.latest_epoch();
            if epoch >= 0 && latest.is_none_or(|latest| epoch > latest) {
                self.epochs.assign(epoch, of_2.header.base_offset())?;
            }
            let loaded = match look_into(segment.path(), batch) {
                Ok(Some(loaded)) => loaded,
                Ok(None) => return Ok(ControlFlow::Continue(())),
                // It counts as good bytes, but is the last.
                Err(error)
                    if matches!(error.load_error(), Some(LoadError::Marker { source, .. })
                        if EndTransactionMarker::uncaught(source).is_none()) =>
                {
                    problem = "behind a marker that is not readable";
                    return Ok(ControlFlow::Break(()));
                }
                Err(error) => return Err(error),
            };
            let mut row = None;
            recover_batch(manager, &loaded.header, loaded.marker, |it| row = Some(it))?;
            if let Some(row) = row {
                segment
                    .txn_index
                    .append(&crate::append::aborted_txn(&row))?;
            }
            Ok(ControlFlow::Continue(()))
        });
        match read {
            Ok(_) => Ok((valid_bytes, problem)),
            Err(error) => match error.load_error() {
                Some(LoadError::CorruptRecord { .. }) => {
                    Ok((valid_bytes, "a size field that no batch has"))
                }
                Some(_) | None => Err(error),
            },
        }
    }

    /// Recovers what may not be on the disk, in order, up to the first segment that loses bytes.
    pub(super) fn recover_unflushed(&mut self) -> Result<(), Stopped> {
        let recovery_point = self.checkpointed.recovery_point;
        let unflushed = self.log.base_offsets_in(recovery_point, i64::MAX)?;
        let mut unflushed = unflushed.into_iter();
        let mut snapshots = list_snapshots(&self.log.files, &self.log.dir)?;
        while let Some(base_offset) = unflushed.next() {
            // The segment is in the list while the state below it is rebuilt, which decides
            // where snapshots are written.
            let mut manager = self.producers_below(base_offset, &mut snapshots)?;
            let now_ms = self.background.now_ms;
            let Some(mut segment) = self.log.segments.remove(&base_offset) else {
                continue;
            };
            let reason = "at or above the recovery point";
            let truncated = self.recover_segment(&mut segment, &mut manager, reason);
            let truncated = match truncated {
                Err(
                    Error::Rejected(Rejection::IndexOffset { .. })
                    | Error::Files(log::Error::Io { .. }),
                ) => {
                    self.log
                        .files
                        .because("offsets that do not rise: the segment is emptied");
                    segment.truncate_to(base_offset, now_ms)
                }
                other => other,
            };
            let truncated = match truncated {
                Ok(truncated) => truncated,
                Err(error) => return Err(overflow_or(error, segment, true)),
            };
            self.log.segments.insert(base_offset, segment);
            snapshots = std::mem::take(manager.snapshots_mut());
            if truncated > 0 {
                let rest: Vec<i64> = unflushed.collect();
                self.log.files.because(load_trace::SEGMENT_LOST);
                self.log.remove_and_delete(&rest, self.background)?;
                self.delete_snapshots_of(&rest)?;
                break;
            }
        }
        Ok(())
    }
}
