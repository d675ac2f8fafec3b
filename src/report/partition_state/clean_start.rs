//! What a start after a clean stop forgets.

use std::collections::BTreeSet;

use super::snapshot_files;
use crate::log::log_dir::stopped_cleanly;
use crate::log::partition_dir::PartitionDir;
use crate::state::SnapshotOffsets;

/// Whether the next start reads no batch for its producers: the mark of a clean stop is there and
/// no snapshot, which it takes for an upgrade from a version without them
/// (`UnifiedLog.rebuildProducerState`). A segment without its `.index` is recovered all the same,
/// and that makes a snapshot (`LogLoader.loadSegmentFiles`).
pub(super) fn forgets_producers(dir: &PartitionDir) -> bool {
    let mut segments = dir.segments.iter();
    if segments.any(|segment| segment.offset_index.is_none()) {
        return false;
    }
    let mut snapshots: SnapshotOffsets = snapshot_files(dir).map(|(offset, _)| offset).collect();
    snapshots.remove_stray(&segment_base_offsets(dir));
    snapshots.latest().is_none() && stopped_cleanly(&dir.path) == Some(true)
}

/// The base offsets of the segments in use.
pub(super) fn segment_base_offsets(dir: &PartitionDir) -> BTreeSet<i64> {
    let segments = dir.segments.iter();
    segments.map(|segment| segment.base_offset).collect()
}
