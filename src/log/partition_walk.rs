//! The walk over a partition: the entries of its segments in offset order.

use std::ops::ControlFlow;

use super::batches::{BatchWalk, Entry};
use super::mapped_file::MappedFile;
use super::partition_dir::{PartitionDir, SegmentFiles};
use super::{Error, Io};
use crate::format::offset_index::OffsetIndexRows;

/// The segment an entry lies in.
#[derive(Clone, Copy, Debug)]
pub struct SegmentAt<'a> {
    /// Its place in [`PartitionDir::segments`].
    pub index: usize,
    /// Its base offset, as its name says.
    pub base_offset: i64,
    /// The name of its `.log`.
    pub file: &'a str,
    /// Bytes of its `.log` when it was opened.
    pub size_in_bytes: u64,
}

/// Hands out every entry of the segments from `first_segment` on, until `visit` breaks.
///
/// Each segment is open only while it is walked, unless the directory holds it. Those at the front
/// that vanished since the directory was listed are passed over, as retention takes them from
/// there, and their indexes returned, so that the answer can say so.
///
/// # Errors
/// If a segment cannot be read or vanished between others, the log was truncated since the
/// directory was held, or `visit` fails.
pub fn walk_partition<E: From<Error>>(
    dir: &PartitionDir,
    io: Io,
    first_segment: usize,
    visit: impl FnMut(SegmentAt<'_>, Entry<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<Vec<usize>, E> {
    walk_from(dir, io, first_segment, |_, _| Ok(0), visit)
}

/// As [`walk_partition`], from some batch before the one with `offset` on: the last one that the
/// `.index` knows.
///
/// # Errors
/// As [`walk_partition`].
pub fn walk_partition_near<E: From<Error>>(
    dir: &PartitionDir,
    io: Io,
    offset: i64,
    visit: impl FnMut(SegmentAt<'_>, Entry<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<Vec<usize>, E> {
    let is_up_to = |segment: &SegmentFiles| segment.base_offset <= offset;
    let first_segment = dir.segments.partition_point(is_up_to).saturating_sub(1);
    let start =
        |segment: &SegmentFiles, log: &MappedFile| start_near(dir, io, segment, log, offset);
    walk_from(dir, io, first_segment, start, visit)
}

/// As [`walk_partition`], beginning in the first segment where `start` says.
fn walk_from<E: From<Error>>(
    dir: &PartitionDir,
    io: Io,
    first_segment: usize,
    start: impl Fn(&SegmentFiles, &MappedFile) -> Result<u64, Error>,
    visit: impl FnMut(SegmentAt<'_>, Entry<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<Vec<usize>, E> {
    dir.unless_cut(walk_segments(dir, io, first_segment, start, visit))
}

fn walk_segments<E: From<Error>>(
    dir: &PartitionDir,
    io: Io,
    first_segment: usize,
    start: impl Fn(&SegmentFiles, &MappedFile) -> Result<u64, Error>,
    mut visit: impl FnMut(SegmentAt<'_>, Entry<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<Vec<usize>, E> {
    let mut vanished = Vec::new();
    for (index, segment) in dir.segments.iter().enumerate().skip(first_segment) {
        let Some(opened) = open_segment(dir, segment, io)? else {
            if vanished.len() < index - first_segment {
                // What was there before would seem lost.
                return Err(E::from(Error::ChangedWhileReading {
                    path: dir.path.clone(),
                }));
            }
            vanished.push(index);
            continue;
        };
        let at = SegmentAt {
            index,
            base_offset: segment.base_offset,
            file: &opened.name,
            size_in_bytes: opened.file.len(),
        };
        let position = if index == first_segment {
            start(segment, &opened.file)?
        } else {
            0
        };
        let mut walk = BatchWalk::starting_at(&opened.file, position);
        loop {
            let entry = match walk.next_mapped_header() {
                Some(batch) => Entry::Batch(batch),
                None => match walk.next_entry() {
                    Some(entry) => entry?,
                    None => break,
                },
            };
            if visit(at, entry)?.is_break() {
                return Ok(vanished);
            }
        }
    }
    Ok(vanished)
}

/// An open `.log` and its name.
#[derive(Debug)]
pub struct OpenSegment {
    /// The bytes.
    pub file: MappedFile,
    /// The name of the file.
    pub name: String,
}

/// Opens the `.log` of a segment; `None` if it has vanished.
///
/// # Errors
/// If it is there and cannot be read.
pub fn open_segment(
    dir: &PartitionDir,
    segment: &SegmentFiles,
    io: Io,
) -> Result<Option<OpenSegment>, Error> {
    let Some(log) = dir.file(segment.log) else {
        return Ok(None);
    };
    let opened = dir.open_file(log, io)?;
    Ok(opened.map(|file| OpenSegment {
        file,
        name: log.name().into_owned(),
    }))
}

/// Whether a batch of magic 2 lies there, and its checksum is wrong.
///
/// # Errors
/// If the segment cannot be read.
pub fn is_damaged_at(
    dir: &PartitionDir,
    io: Io,
    segment_base_offset: i64,
    position: u64,
) -> Result<bool, Error> {
    let mut segments = dir.segments.iter();
    let segment = segments.find(|it| it.base_offset == segment_base_offset);
    let opened = segment.map(|it| open_segment(dir, it, io)).transpose()?;
    let Some(opened) = opened.flatten() else {
        return Ok(false);
    };
    match BatchWalk::starting_at(&opened.file, position).next_entry() {
        Some(Ok(Entry::Batch(batch))) if batch.position == position => Ok(!batch.is_sound()?),
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(false),
    }
}

/// A batch found by an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlace {
    /// Base offset of the batch.
    pub base_offset: i64,
    /// Largest timestamp of the batch in milliseconds, -1 if none.
    pub max_timestamp: i64,
    /// Base offset of its segment.
    pub segment_base_offset: i64,
    /// Name of the `.log` it lies in.
    pub file: String,
    /// Byte position in that file.
    pub position: u64,
}

/// The first batch that ends at or behind `offset`, as a fetch finds it (`LogSegment.read`);
/// `None` if there is none.
///
/// # Errors
/// If a segment cannot be read.
pub fn find_batch(dir: &PartitionDir, io: Io, offset: i64) -> Result<Option<BatchPlace>, Error> {
    let mut found = None;
    walk_partition_near(dir, io, offset, |at, entry| {
        let place = |base_offset, position, max_timestamp| BatchPlace {
            base_offset,
            max_timestamp,
            segment_base_offset: at.base_offset,
            file: at.file.to_owned(),
            position,
        };
        match entry {
            Entry::Batch(batch) if batch.header.last_offset() >= offset => {
                found = Some(place(
                    batch.header.base_offset(),
                    batch.position,
                    batch.header.max_timestamp(),
                ));
            }
            Entry::Legacy(entry) if entry.header.offset() >= offset => {
                let timestamp = entry.timestamp().unwrap_or(crate::format::NO_TIMESTAMP);
                found = Some(place(entry.header.offset(), entry.position, timestamp));
            }
            Entry::Batch(_) | Entry::Legacy(_) | Entry::Damage(_) => {
                return Ok::<_, Error>(ControlFlow::Continue(()));
            }
        }
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// Where to begin looking for `offset` in a segment: at the last batch before it that the `.index`
/// knows. The index is only a hint: unless a batch with a right checksum lies there that ends
/// before the offset, the search begins at the front.
fn start_near(
    dir: &PartitionDir,
    io: Io,
    segment: &SegmentFiles,
    log: &MappedFile,
    offset: i64,
) -> Result<u64, Error> {
    let Some(index) = segment.offset_index.and_then(|index| dir.file(index)) else {
        return Ok(0);
    };
    let Ok(Some(index)) = dir.open_file(index, io) else {
        return Ok(0);
    };
    let bytes = index.read_all()?;
    let rows = OffsetIndexRows::decode(&bytes).rows();
    let after = rows.partition_point(|row| row.offset(segment.base_offset) < offset);
    let Some(row) = after.checked_sub(1).and_then(|before| rows.get(before)) else {
        return Ok(0);
    };
    let position = u64::try_from(row.position()).unwrap_or(0);
    let mut walk = BatchWalk::starting_at(log, position);
    match walk.next_entry() {
        Some(Ok(Entry::Batch(batch)))
            if batch.position == position
                && batch.header.base_offset() >= segment.base_offset
                && batch.header.last_offset() < offset
                && batch.is_valid()? =>
        {
            Ok(position)
        }
        _ => Ok(0),
    }
}
