//! What the files tell, to compare with what a broker knows after a start: producers, and
//! transactions that were aborted.

use std::ffi::OsStr;

use super::{DryRunOptions, load};
use crate::append::error::Error;
use crate::append::files::Files;
use crate::append::loader::Checkpointed;
use crate::append::state_files::{list_snapshots, read_snapshot};
use crate::format::file_name::LogFileKind;
use crate::log;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::overlay::Overlay;
use crate::log::partition_dir::PartitionDir;
use crate::state::{
    AbortedTxnRow, ProducerStateEntry, ProducerStateManager, SnapshotOffsets, recover_batch,
};

/// The producers of the newest readable snapshot from above `above` up to `end`, however old they
/// are.
pub(super) fn in_newest_snapshot(
    dir: &PartitionDir,
    end: i64,
    above: i64,
    options: &DryRunOptions,
) -> Result<Vec<ProducerStateEntry>, Error> {
    let files = Files::overlay(options.overlay(dir)?);
    let snapshots = list_snapshots(&files, &dir.path)?;
    let is_wanted = |offset: &i64| *offset > above && *offset <= end;
    let offsets: Vec<i64> = snapshots.iter().filter(is_wanted).collect();
    for offset in offsets.into_iter().rev() {
        if let Some(rows) = read_snapshot(&files, &dir.path, offset)? {
            let entries = rows.iter().map(ProducerStateEntry::from_snapshot_row);
            return Ok(entries.collect());
        }
    }
    Ok(Vec::new())
}

/// The producers that the batches of the log tell of, of a log without snapshots.
pub(super) fn in_log(
    dir: &PartitionDir,
    checkpointed: Checkpointed,
    options: &DryRunOptions,
) -> Result<Vec<ProducerStateEntry>, Error> {
    let files = Files::overlay(options.overlay(dir)?);
    // After a crash with everything flushed the same segments are recovered as at a clean start,
    // which would take it that there is nothing to know.
    let flushed = Checkpointed {
        recovery_point: i64::MAX,
        clean: false,
        ..checkpointed
    };
    let ageless = DryRunOptions {
        now_ms: None,
        ..options.clone()
    };
    let log = load(&files, dir, flushed, false, &ageless)?;
    Ok(log.producer_state().active_producers().cloned().collect())
}

/// The aborted transactions with records in these segments, up to the log end, by the headers of
/// the batches. Where a broker would not go on, they end.
pub(super) fn aborted(
    overlay: &Overlay,
    base_offsets: &[i64],
    log_end_offset: Option<i64>,
) -> Result<Vec<AbortedTxnRow>, log::Error> {
    let mut manager = ProducerStateManager::new(SnapshotOffsets::default());
    let mut rows = Vec::new();
    for base_offset in base_offsets {
        let name = LogFileKind::Log(*base_offset).to_string();
        let Some(id) = overlay.find(OsStr::new(&name)) else {
            continue;
        };
        let file = overlay.open(id)?;
        let mut walk = BatchWalk::new(&file);
        while let Some(entry) = walk.next_entry() {
            let Entry::Batch(batch) = entry? else {
                continue;
            };
            let header = batch.header;
            let is_empty = header.records_count() == 0;
            if is_empty || log_end_offset.is_some_and(|end| header.last_offset() >= end) {
                continue;
            }
            let marker = batch.marker()?;
            if recover_batch(&mut manager, header, marker, |row| rows.push(row)).is_err() {
                return Ok(rows);
            }
        }
    }
    Ok(rows)
}
