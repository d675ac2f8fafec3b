//! The directory a start leaves, written out: as it is once the broker has stopped cleanly again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::{DryRun, RecoverRow};
use crate::append::error::Error;
use crate::format::checkpoint::{OffsetCheckpoint, OffsetCheckpointEntry};
use crate::format::clean_shutdown::CleanShutdown;
use crate::format::file_name::LogDirFileName;
use crate::format::internal_topic::InternalTopic;
use crate::log;

/// Bytes copied at once.
const PIECE: usize = 1024 * 1024;

impl DryRun {
    /// Writes every file of the directory as it is after the start and a clean stop into `to`,
    /// which is there: indexes without room behind their entries, a snapshot at the log end.
    ///
    /// # Errors
    /// If a file cannot be read or written, or the partition does not come up.
    pub fn write_to(&self, to: &Path) -> Result<(), Error> {
        let overlay = &self.overlay;
        for (name, _) in overlay.files() {
            let path = to.join(name);
            let Some(id) = overlay.find(name) else {
                continue;
            };
            let from = overlay.open(id)?;
            let mut file = File::create_new(&path).map_err(|source| Error::io(&path, source))?;
            copy(&from, &mut file).map_err(|error| match error {
                Failure::Read(error) => Error::Files(error),
                Failure::Write(source) => Error::io(&path, source),
            })?;
            // Zeros that count as entries.
            file.set_len(overlay.len(id))
                .and_then(|()| file.sync_all())
                .map_err(|source| Error::io(&path, source))?;
        }
        Ok(())
    }
}

/// What a broker writes beside its partitions when it stops cleanly (`LogManager.shutdown`,
/// `ReplicaManager.checkpointHighWatermarks`).
#[derive(Debug, Default)]
pub struct CleanStop {
    recovery_points: Vec<OffsetCheckpointEntry>,
    high_watermarks: Vec<OffsetCheckpointEntry>,
    log_starts: Vec<OffsetCheckpointEntry>,
}

impl CleanStop {
    /// The next partition, as it came up. Logs that are deleted, strays, also those that the start
    /// makes, and the metadata log are in no checkpoint.
    pub fn add(&mut self, row: &RecoverRow) {
        let (Some(topic), Some(partition)) = (&row.topic, row.partition) else {
            return;
        };
        if !matches!(row.status, Some("live" | "future"))
            || row.stray.is_some()
            || row.replaced_by.is_some()
            || topic == InternalTopic::ClusterMetadata.name()
        {
            return;
        }
        let entry = |offset: i64| OffsetCheckpointEntry {
            topic: topic.clone(),
            partition,
            offset,
        };
        // A partition has one line: that of the future replica, if there is one beside it.
        let is_future = row.status == Some("future");
        let put = |lines: &mut Vec<OffsetCheckpointEntry>, offset: Option<i64>| {
            let line = offset.map(entry);
            let other = lines
                .iter_mut()
                .find(|it| it.topic == *topic && it.partition == partition);
            match (other, line) {
                (Some(other), Some(line)) if is_future => *other = line,
                (Some(_), _) => {}
                (None, line) => lines.extend(line),
            }
        };
        // All of the log is flushed at the stop.
        put(&mut self.recovery_points, row.log_end_offset);
        put(&mut self.high_watermarks, row.high_watermark);
        let first = row.segments.first().map(|segment| segment.base_offset);
        let start = row.log_start_offset.filter(|start| Some(*start) > first);
        put(&mut self.log_starts, start);
    }

    /// Writes the checkpoints, and after a `clean` stop its mark. Of the broker no epoch is known,
    /// which Kafka writes as -1.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write_to(self, to: &Path, clean: bool) -> Result<(), Error> {
        let mark = CleanShutdown {
            version: 0,
            broker_epoch: Some(-1),
        };
        let checkpoint = |entries| OffsetCheckpoint { entries }.encode();
        let files = [
            (
                LogDirFileName::RecoveryPointOffsetCheckpoint,
                checkpoint(self.recovery_points),
            ),
            (
                LogDirFileName::ReplicationOffsetCheckpoint,
                checkpoint(self.high_watermarks),
            ),
            (
                LogDirFileName::LogStartOffsetCheckpoint,
                checkpoint(self.log_starts),
            ),
            (LogDirFileName::CleanShutdown, mark.encode()),
        ];
        let wanted = |name: &LogDirFileName| clean || *name != LogDirFileName::CleanShutdown;
        for (name, content) in files.into_iter().filter(|(name, _)| wanted(name)) {
            let path = to.join(name.to_string());
            fs::write(&path, content).map_err(|source| Error::io(&path, source))?;
        }
        Ok(())
    }
}

enum Failure {
    Read(log::Error),
    Write(io::Error),
}

fn copy(from: &crate::log::mapped_file::MappedFile, to: &mut File) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE.min(usize::try_from(from.len()).unwrap_or(PIECE))];
    let mut position = 0;
    while position < from.len() {
        let left = usize::try_from(from.len() - position).unwrap_or(PIECE);
        let part = piece.get_mut(..left.min(PIECE)).unwrap_or_default();
        from.read_exact_at(part, position).map_err(Failure::Read)?;
        to.write_all(part).map_err(Failure::Write)?;
        position += part.len() as u64;
    }
    Ok(())
}
