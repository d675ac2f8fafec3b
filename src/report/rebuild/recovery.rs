//! Recovery of one partition, segment by segment (`LogLoader.recoverLog`).

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::recovered_log::{Failure, RecoveredLog};
use super::segment::{End, RecoveredSegment, stop};
use super::{RebuildOptions, Rebuilt, RebuiltFile, SideFileKind, SnapshotsAt, Stop};
use crate::format::producer_snapshot::{self, ProducerSnapshotEntry};
use crate::format::{aborted_txn, offset_index, time_index};
use crate::log::Error;
use crate::log::partition_dir::SegmentFiles;
use crate::log::partition_walk::open_segment;
use crate::state::rebuild::Rebuild;
use crate::state::{ProducerSnapshotRow, ProducerStateManager, Refusal, rebuild_producer_state};

/// Snapshots that may be read again or deleted: recovery of a segment takes back at most the one
/// written at the end of the segment before, and then needs the newest of those before that.
const SNAPSHOTS_KEPT: usize = 4;

/// Recovery of one partition (`LogLoader.recoverLog`).
pub(super) struct Recovery<'d, G> {
    pub(super) log: RecoveredLog<'d>,
    /// The log start offset as recovery of a segment knows it, below the first base offset too.
    pub(super) checkpointed_log_start: i64,
    pub(super) log_start_offset: i64,
    pub(super) log_end_offset: i64,
    pub(super) options: RebuildOptions,
    /// Whether the log goes on behind the offset asked for.
    pub(super) has_more: bool,
    /// The state at the end of the last segment, where a snapshot is asked for by its offset.
    pub(super) last_state: Option<ProducerStateManager>,
    pub(super) stop: Option<Stop>,
    pub(super) vanished: Vec<i64>,
    pub(super) give: G,
}

impl<G> Recovery<'_, G> {
    /// `LogLoader.recoverSegment`.
    pub(super) fn segment<E: From<Error>>(
        &mut self,
        segment: &SegmentFiles,
    ) -> Result<ControlFlow<()>, E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        let base_offset = segment.base_offset;
        let Some(opened) = open_segment(self.log.dir, segment, self.options.io)? else {
            self.vanished.push(base_offset);
            self.log.bases.retain(|base| *base != base_offset);
            return Ok(ControlFlow::Continue(()));
        };
        let mut manager = match self.state_at(base_offset, self.checkpointed_log_start)? {
            Ok(manager) => manager,
            Err(refusal) => {
                self.refuse(opened.name, base_offset, &refusal);
                return Ok(ControlFlow::Break(()));
            }
        };
        let mut recovered = RecoveredSegment::new(base_offset, self.options);
        let end = recovered.walk(&opened.file, &mut manager)?;
        if let Some(End::WholeSegment(_)) = end {
            // The segment is cut to nothing, and what was read of it is never used.
            recovered = RecoveredSegment::new(base_offset, self.options);
        } else {
            if let Some(offset) = manager.take_snapshot() {
                self.log.write(offset, &manager);
            }
            if let SnapshotsAt::Offset(_) = self.options.snapshots_at {
                self.last_state = Some(manager);
            }
        }
        self.log_end_offset = recovered.next_offset;
        self.log.recovered.push(recovered.extent);
        self.give_indexes(&recovered, segment.txn_index.is_some())?;
        let Some(end) = end else {
            return Ok(ControlFlow::Continue(()));
        };
        self.has_more = matches!(end, End::OffsetAskedFor);
        self.log.bases.retain(|base| *base <= base_offset);
        self.stop = end.into_stop(opened.name);
        Ok(ControlFlow::Break(()))
    }

    /// A new producer state up to `offset`, from the newest snapshot at or below it.
    fn state_at(
        &mut self,
        offset: i64,
        log_start_offset: i64,
    ) -> Result<Result<ProducerStateManager, Refusal>, Error> {
        let mut manager = ProducerStateManager::new(self.log.snapshots.clone());
        // Recovery knows no high watermark and asks for nothing that depends on one: transactions
        // that have ended need not be kept.
        manager.take_for_replicated(i64::MAX);
        let rebuild = Rebuild {
            log_start_offset,
            last_offset: offset,
            reload_from_clean_shutdown: false,
            expiration: self.options.expiration,
        };
        match rebuild_producer_state(&mut manager, &mut self.log, &rebuild) {
            Ok(()) => Ok(Ok(manager)),
            Err(Failure::Log(error)) => Err(error),
            Err(Failure::Refused(refusal)) => Ok(Err(refusal)),
        }
    }

    /// Batches that recovery took do not fit when they are read again, which only offsets that go
    /// backwards bring about. A broker stops there.
    fn refuse(&mut self, file: String, offset: i64, refusal: &Refusal) {
        self.log.bases.retain(|base| *base < offset);
        let stop = stop("refused-batch", 0, Some(offset), refusal.to_string());
        self.stop = Some(Stop { file, ..stop });
    }

    fn give_indexes<E>(&mut self, segment: &RecoveredSegment, had_txn_index: bool) -> Result<(), E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        if let SnapshotsAt::Offset(_) = self.options.snapshots_at {
            return Ok(());
        }
        let offset = segment.extent.base_offset;
        (self.give)(RebuiltFile {
            kind: SideFileKind::Index,
            offset,
            bytes: &offset_index::encode(&segment.offset_index),
            rows: segment.offset_index.len() as u64,
        })?;
        (self.give)(RebuiltFile {
            kind: SideFileKind::TimeIndex,
            offset,
            bytes: &time_index::encode(&segment.time_index),
            rows: segment.time_index.len() as u64,
        })?;
        // Made with its first row; one that is there already is emptied and stays.
        if !segment.txn_index.is_empty() || had_txn_index {
            (self.give)(RebuiltFile {
                kind: SideFileKind::TxnIndex,
                offset,
                bytes: &aborted_txn::encode(&segment.txn_index),
                rows: segment.txn_index.len() as u64,
            })?;
        }
        self.give_snapshots(SNAPSHOTS_KEPT)
    }

    /// Gives out the snapshots that stay as they are: all but the newest `keep`.
    fn give_snapshots<E>(&mut self, keep: usize) -> Result<(), E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        while self.log.written.len() > keep {
            let snapshot = self.log.written.remove(0);
            self.log.snapshots.remove(snapshot.offset);
            let is_base = self.log.bases.contains(&snapshot.offset);
            let is_end = keep == 0 && snapshot.offset == self.log_end_offset;
            let wanted = match self.options.snapshots_at {
                SnapshotsAt::BasesAndEnd => is_base || is_end,
                SnapshotsAt::Bases => is_base,
                SnapshotsAt::End => is_end,
                SnapshotsAt::Offset(_) => false,
            };
            if wanted && snapshot.offset > self.log_start_offset {
                give_snapshot(&mut self.give, snapshot.offset, &snapshot.rows)?;
            }
        }
        Ok(())
    }

    /// What `LogLoader.load` does when the segments are recovered.
    pub(super) fn finish<E: From<Error>>(mut self) -> Result<Rebuilt, E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        if let SnapshotsAt::Offset(offset) = self.options.snapshots_at {
            self.give_state_at(offset)?;
        } else {
            let bases: BTreeSet<i64> = self.log.bases.iter().copied().collect();
            for stray in self.log.snapshots.remove_stray(&bases) {
                self.log.forget(stray);
            }
            // What is wrong with a refused batch has been said.
            let _ = self.state_at(self.log_end_offset, self.log_start_offset)?;
            self.give_snapshots(0)?;
        }
        Ok(Rebuilt {
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            stop: self.stop,
            vanished: self.vanished,
        })
    }

    /// The snapshot a broker would have after recovery if the log ended at `offset`, or at its end
    /// if that is lower: as for the whole log, the state is loaded once more from the log start on
    /// (`LogLoader.load`). Below the log start it is that of the segments alone.
    fn give_state_at<E: From<Error>>(&mut self, offset: i64) -> Result<(), E>
    where
        G: FnMut(RebuiltFile<'_>) -> Result<(), E>,
    {
        let Some(mut state) = self.last_state.take() else {
            return Ok(());
        };
        let is_reached = self.has_more || self.log.bases.iter().any(|base| *base >= offset);
        let offset = if is_reached && self.stop.is_none() {
            offset
        } else {
            offset.min(self.log_end_offset.max(state.map_end_offset()))
        };
        if offset > state.map_end_offset() && self.log.bases.contains(&offset) {
            // Offsets are missing before this segment: recovery comes to it through a snapshot.
            if let Ok(reloaded) = self.state_at(offset, self.checkpointed_log_start)? {
                state = reloaded;
            }
        } else if offset > self.log_start_offset {
            let end = self.log_end_offset;
            if let Ok(loaded) = self.state_at(end, self.log_start_offset)? {
                state = loaded;
            }
            // One that recovery has written stays as it is.
            if let Some(known) = self.log.written.iter().find(|it| it.offset == end) {
                return give_snapshot(&mut self.give, offset, &known.rows);
            }
        }
        let rows: Vec<_> = state.snapshot_rows().collect();
        give_snapshot(&mut self.give, offset, &rows)
    }
}

fn give_snapshot<E>(
    give: &mut impl FnMut(RebuiltFile<'_>) -> Result<(), E>,
    offset: i64,
    rows: &[ProducerSnapshotRow],
) -> Result<(), E> {
    let entries: Vec<ProducerSnapshotEntry> =
        rows.iter().map(ProducerSnapshotEntry::from).collect();
    give(RebuiltFile {
        kind: SideFileKind::Snapshot,
        offset,
        bytes: &producer_snapshot::encode(&entries),
        rows: rows.len() as u64,
    })
}
