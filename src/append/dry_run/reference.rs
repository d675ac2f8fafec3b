//! The producers a broker could know of from the files as they lie, to compare with those it knows
//! after a start.

use super::{DryRunOptions, load, overlay_of};
use crate::append::error::Error;
use crate::append::files::Files;
use crate::append::loader::Checkpointed;
use crate::append::state_files::{list_snapshots, read_snapshot, snapshot_path};
use crate::format::producer_snapshot;
use crate::log::partition_dir::PartitionDir;
use crate::state::{Expiration, ProducerStateEntry};

/// The producers of the newest readable snapshot at or below `end`, those that are not too old.
pub(super) fn in_newest_snapshot(
    dir: &PartitionDir,
    end: i64,
    options: &DryRunOptions,
) -> Result<Vec<ProducerStateEntry>, Error> {
    let files = Files::overlay(overlay_of(dir, options.io));
    let snapshots = list_snapshots(&files, &dir.path)?;
    let offsets: Vec<i64> = snapshots.iter().filter(|offset| *offset <= end).collect();
    for offset in offsets.into_iter().rev() {
        if let Some(rows) = read_snapshot(&files, &dir.path, offset)? {
            let expiration = options.now_ms.map(|now_ms| Expiration {
                now_ms,
                producer_id_expiration_ms: i64::from(options.config.producer_id_expiration_ms),
            });
            let entries = rows.iter().map(ProducerStateEntry::from_snapshot_row);
            let is_known = |entry: &ProducerStateEntry| {
                expiration.is_none_or(|expiration| !expiration.is_expired(entry))
            };
            return Ok(entries.filter(is_known).collect());
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
    let files = Files::overlay(overlay_of(dir, options.io));
    let first = dir.segments.first().map_or(0, |first| first.base_offset);
    // A snapshot of nothing keeps a clean start from taking it that there is nothing to know.
    let path = snapshot_path(&dir.path, first);
    let file = files.open(&path)?;
    file.write_all_at(&path, &producer_snapshot::encode(&[]), 0)?;
    let log = load(&files, dir, checkpointed, false, options)?;
    Ok(log.producer_state().active_producers().cloned().collect())
}
