//! What loading a log has read, and what it has decided that leaves no trace in the files.

/// Why whole segments are deleted that nobody has replaced: their records are lost.
pub(super) const SEGMENT_LOST: &str = "a segment before it lost bytes in recovery";
/// Why the files of a segment change whose batches go into several.
pub(super) const SPLIT: &str = "offsets too far apart for one segment: split";
/// Why all segments of a log are deleted.
pub(super) const ENDS_BELOW_START: &str = "the log ends below its checkpointed start";

/// What was read as a log was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LoadTrace {
    /// The segments that were read batch by batch, in order. One that was split comes again.
    pub(super) recovered: Vec<RecoveredSegment>,
    /// Bytes of batches read to rebuild the state of producers.
    pub(super) replayed_bytes: u64,
    /// Bytes read to find the end of the log.
    pub(super) tail_bytes: u64,
    /// The snapshots the state was loaded from, in order: before the first segment that was
    /// recovered, before the next one, and at the end.
    pub(super) snapshots_used: Vec<i64>,
    /// Snapshots that could not be read.
    pub(super) snapshots_corrupt: Vec<i64>,
    /// Whether the log was taken for one without producers, since it was stopped cleanly and has no
    /// snapshot.
    pub(super) producers_skipped: bool,
    /// The log ends below its checkpointed start, here, and all of it was deleted.
    pub(super) ended_below_start: Option<i64>,
}

/// A segment that was read batch by batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecoveredSegment {
    /// Base offset of it.
    pub(super) base_offset: i64,
    /// Bytes of its `.log` before.
    pub(super) size_in_bytes: u64,
    /// Bytes that were cut off.
    pub(super) truncated_bytes: u64,
    /// Why it was read.
    pub(super) reason: &'static str,
}

impl LoadTrace {
    /// A snapshot has been read, or could not be.
    pub(super) fn snapshot_read(&mut self, offset: i64, is_readable: bool) {
        if is_readable {
            self.snapshots_used.push(offset);
        } else {
            self.snapshots_corrupt.push(offset);
        }
    }
}
