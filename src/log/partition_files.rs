//! The files of a partition directory as they are listed: their order, and their segments.

use std::fs;
use std::path::Path;

use super::Error;
use super::odd_entry::{Odd, OddEntry};
use super::partition_dir::{FileEntry, SegmentFiles};
use crate::format::file_name::{FileState, LogFileKind, LogFileName};

/// What a directory has, in no order: files, and what has a file's name and is none.
pub(super) fn list(path: &Path) -> Result<(Vec<FileEntry>, Vec<OddEntry>), Error> {
    let (mut files, mut odd) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(path).map_err(|source| Error::io(path, source))? {
        let entry = entry.map_err(|source| Error::io(path, source))?;
        // Follows links, as a broker does.
        let metadata = fs::metadata(entry.path());
        let file_name = entry.file_name();
        if let Some(what) = Odd::of(&entry.path(), &metadata) {
            odd.extend(OddEntry::new(file_name, what));
            continue;
        }
        let parsed = LogFileName::parse(&file_name.to_string_lossy());
        // A file that is gone already has no size to tell.
        let size_in_bytes = metadata.map_or(0, |metadata| metadata.len());
        files.push(FileEntry {
            file_name,
            parsed,
            size_in_bytes,
        });
    }
    odd.sort_by(|a, b| a.file_name.cmp(&b.file_name));
    Ok((files, odd))
}

/// Where a file comes in a listing: files in use first, segments by offset, each with its `.log`
/// in front.
pub(super) fn order(name: &LogFileName) -> (bool, u8, i64, u8) {
    let (group, offset, place) = match &name.kind {
        LogFileKind::Log(offset) => (0, *offset, 0),
        LogFileKind::OffsetIndex(offset) => (0, *offset, 1),
        LogFileKind::TimeIndex(offset) => (0, *offset, 2),
        LogFileKind::TransactionIndex(offset) => (0, *offset, 3),
        LogFileKind::ProducerSnapshot(offset) => (1, *offset, 0),
        LogFileKind::KRaftSnapshot(id) | LogFileKind::KRaftSnapshotPart(id, _) => {
            (2, id.end_offset, 0)
        }
        LogFileKind::LeaderEpochCheckpoint => (3, 0, 0),
        LogFileKind::PartitionMetadata => (3, 0, 1),
        LogFileKind::QuorumState => (3, 0, 2),
        LogFileKind::RemoteLogSnapshot => (3, 0, 3),
        LogFileKind::NotANumber(_) | LogFileKind::Unknown(_) => (4, 0, 0),
    };
    (name.state != FileState::Live, group, offset, place)
}

/// Groups the files in use that are `opened` by base offset. An index without a `.log` belongs to
/// no segment.
pub(super) fn segments(
    files: &[FileEntry],
    opened: impl Fn(&FileEntry) -> bool,
) -> Vec<SegmentFiles> {
    let mut segments: Vec<SegmentFiles> = Vec::new();
    // Sorted: the files of a base offset come together, the `.log` first.
    for (place, file) in files.iter().enumerate() {
        if file.parsed.state != FileState::Live || !opened(file) {
            continue;
        }
        let segment_of = |base: i64| move |segment: &&mut SegmentFiles| segment.base_offset == base;
        match &file.parsed.kind {
            LogFileKind::Log(base_offset) => segments.push(SegmentFiles {
                base_offset: *base_offset,
                log: place,
                offset_index: None,
                time_index: None,
                txn_index: None,
            }),
            LogFileKind::OffsetIndex(base) => {
                if let Some(segment) = segments.last_mut().filter(segment_of(*base)) {
                    segment.offset_index = Some(place);
                }
            }
            LogFileKind::TimeIndex(base) => {
                if let Some(segment) = segments.last_mut().filter(segment_of(*base)) {
                    segment.time_index = Some(place);
                }
            }
            LogFileKind::TransactionIndex(base) => {
                if let Some(segment) = segments.last_mut().filter(segment_of(*base)) {
                    segment.txn_index = Some(place);
                }
            }
            LogFileKind::ProducerSnapshot(_)
            | LogFileKind::LeaderEpochCheckpoint
            | LogFileKind::PartitionMetadata
            | LogFileKind::QuorumState
            | LogFileKind::KRaftSnapshot(_)
            | LogFileKind::KRaftSnapshotPart(..)
            | LogFileKind::RemoteLogSnapshot
            | LogFileKind::NotANumber(_)
            | LogFileKind::Unknown(_) => {}
        }
    }
    segments
}
