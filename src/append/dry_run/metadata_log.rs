//! What the quorum does with `__cluster_metadata-0` beside what a log does: its snapshots.
//!
//! Decides `KafkaRaftLog.createLog`, `recoverSnapshots`, `truncateToLatestSnapshot`.

use crate::append::error::{Error, LoadError};
use crate::append::partition_log::PartitionLog;
use crate::format::file_name::{FileState, LogFileKind, LogFileName, SnapshotId};

/// Deletes the snapshots that are no use, and the log where the newest lies beyond it.
pub(super) fn load_snapshots(log: &mut PartitionLog) -> Result<(), Error> {
    let log_start_offset = log.offsets().log_start_offset();
    let (mut retained, mut unneeded) = (Vec::new(), Vec::new());
    for name in log.log.files.list(log.dir())? {
        let parsed = LogFileName::parse(&name.to_string_lossy());
        match (parsed.kind, parsed.state) {
            (LogFileKind::KRaftSnapshot(id), FileState::Live)
                if id.end_offset >= log_start_offset =>
            {
                retained.push((id, name));
            }
            (LogFileKind::KRaftSnapshot(_) | LogFileKind::KRaftSnapshotPart(..), _) => {
                unneeded.push(name);
            }
            _ => {}
        }
    }
    let key = |id: &SnapshotId| (id.epoch, id.end_offset);
    retained.sort_by_key(|(id, _)| key(id));
    let latest = retained.last().map(|(id, _)| *id);
    if log_start_offset > 0 && latest.is_none_or(|id| id.end_offset < log_start_offset) {
        return Err(LoadError::NoSnapshot { log_start_offset }.into());
    }
    let files = log.log.files.clone();
    files.because("a snapshot of the quorum that is incomplete, deleted, or below the log start");
    for name in unneeded {
        files.remove_if_exists(&log.dir().join(name))?;
    }
    let Some(latest) = latest else {
        return Ok(());
    };
    let last = log.leader_epochs().last();
    let latest_epoch = last.map_or(0, |entry| entry.epoch);
    let is_beyond = latest.epoch > latest_epoch
        || (latest.epoch == latest_epoch && latest.end_offset > log.log_end_offset());
    if is_beyond {
        files.because("the newest snapshot of the quorum lies beyond the log, which begins anew");
        log.truncate_fully_and_start_at(latest.end_offset, latest.end_offset)?;
        for (id, name) in &retained {
            if key(id) < key(&latest) {
                files.remove_if_exists(&log.dir().join(name))?;
            }
        }
    }
    Ok(())
}
