//! Producer snapshots as files, and the log as [`crate::state`] reads it to rebuild its state.
//!
//! Decides the parts of `ProducerStateManager` that touch files.

use std::ops::{ControlFlow, RangeBounds};
use std::path::{Path, PathBuf};

use super::deep_records::look_into;
use super::error::{Error, LoadError};
use super::files::Files;
use super::local_log::LocalLog;
use super::segment::segment_path;
use crate::format::file_name::{LogFileKind, LogFileName};
use crate::format::producer_snapshot::{self, ProducerSnapshot, ProducerSnapshotEntry};
use crate::state::rebuild::{BatchVisitor, Rebuild};
use crate::state::{ProducerSnapshotRow, ProducerStateLog, ProducerStateManager, SnapshotOffsets};

/// The path that a snapshot is written to (`LogFileUtils.producerSnapshotFile`).
fn snapshot_path(dir: &Path, offset: i64) -> PathBuf {
    segment_path(dir, LogFileKind::ProducerSnapshot(offset))
}

/// The path of a snapshot that is there. Kafka takes one under any name with its number
/// (`SnapshotFile`), `5.snapshot` too.
pub(super) fn find_snapshot(files: &Files, dir: &Path, offset: i64) -> Result<PathBuf, Error> {
    let path = snapshot_path(dir, offset);
    if files.exists(&path) {
        return Ok(path);
    }
    let others = snapshots_by_name(files, dir)?;
    let other = others.into_iter().find(|(it, _)| *it == offset);
    Ok(other.map_or(path, |(_, path)| path))
}

/// The snapshots in a directory (`ProducerStateManager.listSnapshotFiles`).
pub(super) fn list_snapshots(files: &Files, dir: &Path) -> Result<SnapshotOffsets, Error> {
    let snapshots = snapshots_by_name(files, dir)?.into_iter();
    Ok(snapshots.map(|(offset, _)| offset).collect())
}

fn snapshots_by_name(files: &Files, dir: &Path) -> Result<Vec<(i64, PathBuf)>, Error> {
    let names = files.list_with(dir, ".snapshot")?.into_iter();
    names
        .map(|name| {
            let path = dir.join(&name);
            let kind = LogFileName::parse(&name.to_string_lossy()).kind;
            if let LogFileKind::ProducerSnapshot(offset) = kind {
                Ok((offset, path))
            } else {
                Err(LoadError::FileName { path }.into())
            }
        })
        .collect()
}

/// The rows of a snapshot; `None` if Kafka would take it for corrupt
/// (`ProducerStateManager.readSnapshot`).
pub(super) fn read_snapshot(
    files: &Files,
    dir: &Path,
    offset: i64,
) -> Result<Option<Vec<ProducerSnapshotRow>>, Error> {
    let path = find_snapshot(files, dir, offset)?;
    let bytes = files.view(&path)?;
    let bytes = bytes.read_all()?;
    let Ok(snapshot) = ProducerSnapshot::decode(&bytes) else {
        return Ok(None);
    };
    Ok(Some(
        snapshot
            .entries()
            .iter()
            .map(ProducerSnapshotRow::from)
            .collect(),
    ))
}

/// Writes a snapshot (`ProducerStateManager.writeSnapshot`). One that is there already is
/// written over, not replaced.
pub(super) fn write_snapshot(
    files: &Files,
    dir: &Path,
    offset: i64,
    manager: &ProducerStateManager,
    fsync: bool,
) -> Result<(), Error> {
    let path = snapshot_path(dir, offset);
    let entries: Vec<ProducerSnapshotEntry> = manager
        .snapshot_rows()
        .map(|row| ProducerSnapshotEntry::from(&row))
        .collect();
    let file = files.open(&path)?;
    file.write_all_at(&path, &producer_snapshot::encode(&entries), 0)?;
    if fsync {
        file.sync(&path)?;
    }
    file.settle()
}

/// Writes a snapshot if one is due (`ProducerStateManager.takeSnapshot`).
pub(super) fn take_snapshot(
    files: &Files,
    dir: &Path,
    manager: &mut ProducerStateManager,
    fsync: bool,
) -> Result<(), Error> {
    match manager.take_snapshot() {
        Some(offset) => write_snapshot(files, dir, offset, manager, fsync),
        None => Ok(()),
    }
}

/// A log under rebuild.
pub(super) struct StateFiles<'a> {
    pub(super) log: &'a mut LocalLog,
    pub(super) rebuild: &'a Rebuild,
}

impl ProducerStateLog for StateFiles<'_> {
    type Error = Error;

    fn segment_base_offsets(
        &self,
        range: impl RangeBounds<i64>,
    ) -> impl DoubleEndedIterator<Item = i64> {
        self.log.segments.range(range).map(|(base, _)| *base)
    }

    fn read_snapshot(&mut self, offset: i64) -> Result<Option<Vec<ProducerSnapshotRow>>, Error> {
        let rows = read_snapshot(&self.log.files, &self.log.dir, offset)?;
        self.log.trace.snapshot_read(offset, rows.is_some());
        Ok(rows)
    }

    fn delete_snapshot(&mut self, offset: i64) -> Result<(), Error> {
        let path = find_snapshot(&self.log.files, &self.log.dir, offset)?;
        let is_corrupt = self.log.trace.snapshots_corrupt.last() == Some(&offset);
        let Rebuild {
            log_start_offset,
            last_offset,
            ..
        } = self.rebuild;
        let reason = if is_corrupt {
            "not readable as a snapshot".to_owned()
        } else if offset > *last_offset {
            format!("taken above offset {last_offset}, from where the producer state is rebuilt")
        } else {
            format!("not above the log start {log_start_offset}")
        };
        self.log.files.because(&reason);
        self.log.files.remove_if_exists(&path)
    }

    fn write_snapshot(&mut self, offset: i64, manager: &ProducerStateManager) -> Result<(), Error> {
        let LocalLog {
            files, dir, config, ..
        } = &*self.log;
        files.because("producer state at the base of one of the last two segments or the log end");
        write_snapshot(files, dir, offset, manager, config.fsync)
    }

    fn for_each_batch(
        &mut self,
        segment_base_offset: i64,
        start_offset: i64,
        end_offset: Option<i64>,
        each: &mut BatchVisitor<'_>,
    ) -> Result<(), Error> {
        let Some(segment) = self.log.segments.get_mut(&segment_base_offset) else {
            return Ok(());
        };
        let end = match end_offset {
            Some(end_offset) => segment.translate_offset(end_offset)?,
            None => None,
        };
        let end = end.map_or(u64::MAX, |end| end.position);
        let Some(start) = segment.translate_offset(start_offset)? else {
            return Ok(());
        };
        let path = segment.path().to_owned();
        let read_to = segment.for_each_batch(start.position, end, |batch| {
            if let Some(loaded) = look_into(&path, batch)? {
                each(&loaded.header, loaded.marker)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let trace = &mut self.log.trace;
        trace.replayed_bytes += read_to.saturating_sub(start.position);
        Ok(())
    }
}
