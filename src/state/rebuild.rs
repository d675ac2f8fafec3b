//! How a whole log becomes state: from the newest snapshot, then from the batches behind it.

use std::ops::RangeBounds;

use super::producer_state_entry::ProducerSnapshotRow;
use super::producer_state_manager::{Expiration, ProducerStateManager};
use super::refusal::Refusal;
use super::replay::SegmentProducers;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::RecordBatchHeader;

/// Takes a batch, with the marker of a control batch.
pub type BatchVisitor<'a> =
    dyn FnMut(&RecordBatchHeader, Option<EndTransactionMarker>) -> Result<(), Refusal> + 'a;

/// The files of a partition as far as rebuilding needs them. A dry run implements the two
/// changing ones by noting what would be done.
pub trait ProducerStateLog {
    /// Why files could not be read or written, or why a batch stops the broker.
    type Error: From<Refusal>;

    /// The base offsets of the segments in a range, ascending.
    fn segment_base_offsets(
        &self,
        range: impl RangeBounds<i64>,
    ) -> impl DoubleEndedIterator<Item = i64>;

    /// The rows of a snapshot in file order; `None` if it is corrupt, and then it is deleted.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read_snapshot(
        &mut self,
        offset: i64,
    ) -> Result<Option<Vec<ProducerSnapshotRow>>, Self::Error>;

    /// Deletes a snapshot at once, without a `.deleted` stage.
    ///
    /// # Errors
    /// If it cannot be deleted.
    fn delete_snapshot(&mut self, offset: i64) -> Result<(), Self::Error>;

    /// Writes a snapshot with [`ProducerStateManager::snapshot_rows`].
    ///
    /// # Errors
    /// If it cannot be written.
    fn write_snapshot(
        &mut self,
        offset: i64,
        manager: &ProducerStateManager,
    ) -> Result<(), Self::Error>;

    /// Gives `each` the batches of a segment in order: from the first one that reaches
    /// `start_offset`, whole even if it begins below, to before the first one that reaches
    /// `end_offset` (`LogSegment.read`, `LogSegment.translateOffset`). Without `end_offset`, to
    /// the end of the segment. Control batches come with what their first record says.
    ///
    /// # Errors
    /// If a batch cannot be read, or `each` fails.
    fn for_each_batch(
        &mut self,
        segment_base_offset: i64,
        start_offset: i64,
        end_offset: Option<i64>,
        each: &mut BatchVisitor<'_>,
    ) -> Result<(), Self::Error>;
}

/// Up to where, and from what, state is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The log start offset.
    pub log_start_offset: i64,
    /// The offset up to which batches count.
    pub last_offset: i64,
    /// Whether the log is loaded after a clean stop; then a log without any snapshot is not read.
    pub reload_from_clean_shutdown: bool,
    /// How old producers in a snapshot may be; without it, any age.
    pub expiration: Option<Expiration>,
}

/// Rebuilds the state up to an offset, writing snapshots on the way
/// (`UnifiedLog.rebuildProducerState`).
///
/// # Errors
/// If files cannot be read or written, or a batch stops the broker.
pub fn rebuild_producer_state<L: ProducerStateLog>(
    manager: &mut ProducerStateManager,
    log: &mut L,
    rebuild: &Rebuild,
) -> Result<(), L::Error> {
    let mut last_two: Vec<i64> = log.segment_base_offsets(..).rev().take(2).collect();
    last_two.reverse();
    let last_offset = rebuild.last_offset;

    if rebuild.reload_from_clean_shutdown && manager.snapshots().latest().is_none() {
        // Taken for an upgrade from a version without snapshots: nothing is read.
        for &offset in last_two.iter().chain(&[last_offset]) {
            manager.update_map_end_offset(offset);
            write_due_snapshot(manager, log)?;
        }
        return Ok(());
    }

    let was_empty = manager.is_empty() && manager.map_end_offset() >= last_offset;
    truncate_and_reload(manager, log, rebuild)?;
    if last_offset > manager.map_end_offset() && !was_empty {
        let from = manager.map_end_offset();
        let first = log.segment_base_offsets(..=from).next_back();
        let floor_of_last = log.segment_base_offsets(..=last_offset).next_back();
        let segments: Vec<i64> = log
            .segment_base_offsets(first.unwrap_or(i64::MIN)..last_offset)
            .collect();
        for base_offset in segments {
            let start_offset = manager
                .map_end_offset()
                .max(base_offset)
                .max(rebuild.log_start_offset);
            manager.update_map_end_offset(start_offset);
            if last_two.contains(&base_offset) {
                write_due_snapshot(manager, log)?;
            }
            let end_offset = (floor_of_last == Some(base_offset)).then_some(last_offset);
            let mut producers = SegmentProducers::new();
            log.for_each_batch(
                base_offset,
                start_offset,
                end_offset,
                &mut |header, marker| producers.add(manager, header, marker),
            )?;
            producers.take_in(manager)?;
        }
    }
    manager.update_map_end_offset(last_offset);
    write_due_snapshot(manager, log)
}

/// `ProducerStateManager.truncateAndReload` and `loadFromSnapshot`.
fn truncate_and_reload<L: ProducerStateLog>(
    manager: &mut ProducerStateManager,
    log: &mut L,
    rebuild: &Rebuild,
) -> Result<(), L::Error> {
    let snapshots = manager.snapshots_mut();
    for offset in snapshots.remove_out_of_range(rebuild.log_start_offset, rebuild.last_offset) {
        log.delete_snapshot(offset)?;
    }
    if !manager.begin_reload(rebuild.log_start_offset, rebuild.last_offset) {
        return Ok(());
    }
    while let Some(offset) = manager.snapshots().latest() {
        if let Some(rows) = log.read_snapshot(offset)? {
            manager.load_from_snapshot(rows, offset, rebuild.expiration.as_ref());
            return Ok(());
        }
        manager.snapshots_mut().remove(offset);
        log.delete_snapshot(offset)?;
    }
    manager.load_without_snapshot(rebuild.log_start_offset);
    Ok(())
}

/// Writes a snapshot at the map end offset if one is due there.
///
/// # Errors
/// If it cannot be written.
pub fn write_due_snapshot<L: ProducerStateLog>(
    manager: &mut ProducerStateManager,
    log: &mut L,
) -> Result<(), L::Error> {
    match manager.take_snapshot() {
        Some(offset) => log.write_snapshot(offset, manager),
        None => Ok(()),
    }
}
