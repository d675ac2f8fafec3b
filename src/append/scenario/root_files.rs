//! The files beside the partitions in a broker's log directory.

use std::fs;
use std::path::Path;

use super::runner::PartitionCheckpoints;
use crate::append::error::Error;
use crate::format::checkpoint::{OffsetCheckpoint, OffsetCheckpointEntry};
use crate::format::file_name::LogDirFileName;

/// Writes the three checkpoint files for these partitions, in their order.
///
/// # Errors
/// If a file cannot be written.
pub fn write_checkpoints(root: &Path, partitions: &[PartitionCheckpoints]) -> Result<(), Error> {
    let write = |name: LogDirFileName, entries: Vec<OffsetCheckpointEntry>| {
        let path = root.join(name.to_string());
        fs::write(&path, OffsetCheckpoint { entries }.encode())
            .map_err(|source| Error::io(&path, source))
    };
    write(
        LogDirFileName::RecoveryPointOffsetCheckpoint,
        partitions.iter().map(|it| it.recovery_point.clone()).collect(),
    )?;
    write(
        LogDirFileName::LogStartOffsetCheckpoint,
        partitions.iter().filter_map(|it| it.log_start_offset.clone()).collect(),
    )?;
    write(
        LogDirFileName::ReplicationOffsetCheckpoint,
        partitions.iter().map(|it| it.high_watermark.clone()).collect(),
    )
}
