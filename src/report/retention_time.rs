//! The time that retention of a segment goes by, as the files at hand give it to a broker that
//! loads them (`LogSegment.largestTimestamp`).
//!
//! It takes the last entry of the time index and does not look whether the batches have another
//! time. Only where that has none it goes by when the `.log` was written last. What a running
//! broker knows of the segment it writes to is in no file; that of the batches comes nearest.

use std::fs;
use std::time::UNIX_EPOCH;

use crate::format::time_index::{self, TimeIndexRows};
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::{Error, Io};
use crate::report::verify::start::Start;

/// When a segment counts as written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RetentionTime {
    /// Milliseconds since the epoch.
    pub(super) timestamp: i64,
    pub(super) source: Source,
}

/// What says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    TimeIndex,
    Batches,
    LastModified,
}

impl Source {
    /// The word used in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::TimeIndex => "timeIndex",
            Self::Batches => "batches",
            Self::LastModified => "lastModified",
        }
    }
}

impl RetentionTime {
    /// That of a segment, by its place in the directory, whose batches have `max_timestamp`; `None`
    /// if its `.log` has vanished.
    ///
    /// Where the next start recovers the segment it makes the time index anew: without a clean stop
    /// from the recovery point on, and without an offset index always (`LogSegment.sanityCheck`).
    ///
    /// # Errors
    /// If its time index cannot be read.
    pub(super) fn of(
        dir: &PartitionDir,
        start: &Start,
        index: usize,
        max_timestamp: Option<i64>,
        io: Io,
    ) -> Result<Option<Self>, Error> {
        let Some(segment) = dir.segments.get(index) else {
            return Ok(None);
        };
        let is_recovered = segment.offset_index.is_none() || start.may_be_torn(index);
        let (timestamp, source) = if is_recovered {
            (max_timestamp, Source::Batches)
        } else {
            (last_entry(dir, segment, io)?, Source::TimeIndex)
        };
        if let Some(timestamp) = timestamp.filter(|it| *it >= 0) {
            return Ok(Some(Self { timestamp, source }));
        }
        Ok(last_modified(dir, segment).map(|timestamp| Self {
            timestamp,
            source: Source::LastModified,
        }))
    }
}

fn last_entry(dir: &PartitionDir, segment: &SegmentFiles, io: Io) -> Result<Option<i64>, Error> {
    let Some(file) = segment.time_index.and_then(|it| dir.file(it)) else {
        return Ok(None);
    };
    let Some(file) = dir.open_file(file, io)? else {
        return Ok(None);
    };
    let bytes = file.read_all()?;
    let last = time_index::last_timestamp(&TimeIndexRows::decode(&bytes));
    file.check_unchanged()?;
    Ok(last)
}

fn last_modified(dir: &PartitionDir, segment: &SegmentFiles) -> Option<i64> {
    let path = dir.file_path(dir.file(segment.log)?);
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}
