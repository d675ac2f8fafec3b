//! Where a log ended whose last records are not there.

use super::Io;
use super::checkpoints::{CheckpointedOffsets, high_watermark_past_end};
use super::log_dir::stopped_cleanly;
use super::partition_dir::{FileEntry, PartitionDir};
use crate::format::file_name::{FileState, LogFileKind};

/// The newest producer snapshot behind the end of a log, with its offset, if it proves that the
/// log went on up to there and that nobody cut it.
///
/// A broker takes snapshots at the end of the log, and one that truncates deletes those behind the
/// new end, but only once the log is cut (`UnifiedLog.truncateTo`,
/// `ProducerStateManager.truncateAndReload`): a crash between leaves one. So it counts where the
/// checkpointed high watermark, which no replica that goes with its leader cuts below, lies behind
/// the end as well, and after a clean stop, which leaves nothing half done, unless the recovery
/// point, which is the log end then, says that this is where the log ended.
#[must_use]
pub fn snapshot_behind_end(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    log_end_offset: i64,
    io: Io,
) -> Option<(i64, &FileEntry)> {
    if !dir.is_whole {
        return None;
    }
    let in_use = dir.files.iter();
    let in_use = in_use.filter(|it| it.parsed.state == FileState::Live);
    let snapshots = in_use.filter_map(|file| {
        if let LogFileKind::ProducerSnapshot(at) = file.parsed.kind {
            Some((at, file))
        } else {
            None
        }
    });
    let behind = snapshots.filter(|(at, _)| *at > log_end_offset);
    let (at, file) = behind.max_by_key(|(at, _)| *at)?;
    // Where there is no log directory nothing tells of a crash.
    let was_stopped = stopped_cleanly(&dir.path) != Some(false);
    let ended_here = checkpoints.recovery_point == Some(log_end_offset);
    let is_proof = was_stopped && !ended_here
        || high_watermark_past_end(dir, checkpoints, log_end_offset, io).is_some();
    // A broker at work may be about to delete it.
    let stays = || dir.settling().persists(|| dir.file_path(file).exists());
    (is_proof && stays()).then_some((at, file))
}
