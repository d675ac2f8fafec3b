//! Producer snapshots as files, and the log as [`crate::state`] reads it to rebuild its state.
//!
//! Decides the parts of `ProducerStateManager` that touch files.

use std::ops::{ControlFlow, RangeBounds};
use std::path::{Path, PathBuf};

use super::error::{Error, LoadError};
use super::files::Files;
use super::local_log::LocalLog;
use super::segment::segment_path;
use crate::format::control_record::EndTransactionMarker;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};
use crate::format::producer_snapshot::{self, ProducerSnapshot, ProducerSnapshotEntry};
use crate::log::log_input_stream::StreamBatch;
use crate::state::rebuild::{BatchVisitor, Rebuild};
use crate::state::{ProducerSnapshotRow, ProducerStateLog, ProducerStateManager, SnapshotOffsets};

/// The path of a snapshot.
pub(super) fn snapshot_path(dir: &Path, offset: i64) -> PathBuf {
    segment_path(dir, LogFileKind::ProducerSnapshot(offset))
}

/// The snapshots in a directory (`ProducerStateManager.listSnapshotFiles`).
pub(super) fn list_snapshots(files: &Files, dir: &Path) -> Result<SnapshotOffsets, Error> {
    let mut offsets = Vec::new();
    let suffix = ".snapshot";
    for name in files.list_with(dir, suffix)? {
        let text = name.to_string_lossy();
        let name = LogFileName::parse(&text);
        if let LogFileKind::ProducerSnapshot(offset) = name.kind
            && name.state == FileState::Live
        {
            offsets.push(offset);
        } else if text.ends_with(suffix) {
            let path = dir.join(&*text);
            return Err(LoadError::FileName { path }.into());
        }
    }
    Ok(offsets.into_iter().collect())
}

/// The rows of a snapshot; `None` if Kafka would take it for corrupt
/// (`ProducerStateManager.readSnapshot`).
pub(super) fn read_snapshot(
    files: &Files,
    dir: &Path,
    offset: i64,
) -> Result<Option<Vec<ProducerSnapshotRow>>, Error> {
    let path = snapshot_path(dir, offset);
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

/// What a control batch of a producer says, as far as the state asks
/// (`ProducerAppendInfo.append`).
pub(super) fn marker_of(
    path: &Path,
    batch: &StreamBatch<'_>,
) -> Result<Option<EndTransactionMarker>, Error> {
    let Some(batch) = batch.as_default() else {
        return Ok(None);
    };
    let header = batch.header;
    let has_record = header.attributes().is_control() && header.records_count() != 0;
    if !has_record || !header.has_producer_id() {
        return Ok(None);
    }
    let (path, position) = (path.to_owned(), batch.position);
    match EndTransactionMarker::decode_batch(&batch.records()?) {
        Ok(Some(marker)) => Ok(Some(marker)),
        Ok(None) => Err(LoadError::NotAMarker { path, position }.into()),
        Err(source) => Err(LoadError::Marker {
            path,
            position,
            source,
        }
        .into()),
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
        let path = snapshot_path(&self.log.dir, offset);
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
            if let Some(batch_of_2) = batch.as_default() {
                each(batch_of_2.header, marker_of(&path, batch)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let trace = &mut self.log.trace;
        trace.replayed_bytes += read_to.saturating_sub(start.position);
        Ok(())
    }
}
