//! What no `read_committed` consumer sees of a log: the longest stretch, and the aborted part of
//! each segment.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde::Serialize;

use crate::format::control_record::ControlRecordType;
use crate::log::batches::{Batch, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};
use crate::report::partition_state::log_start_offset;

/// An aborted transaction as far as a consumer looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbortedFrom {
    /// First offset.
    pub first_offset: i64,
    /// Whose transaction.
    pub producer_id: i64,
}

/// A range of offsets, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OffsetRun {
    /// The first.
    pub first_offset: i64,
    /// The last.
    pub last_offset: i64,
}

impl OffsetRun {
    /// Offsets between the first and the last.
    #[must_use]
    pub fn length(self) -> i64 {
        self.last_offset.saturating_sub(self.first_offset)
    }
}

/// How much of a segment is aborted data.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SegmentShare {
    /// The `.log`.
    pub file: String,
    /// Base offset of the segment, as its name says.
    pub base_offset: i64,
    /// Bytes of all its batches.
    pub batch_bytes: u64,
    /// Bytes of data batches that the log gives as aborted.
    pub aborted_bytes: u64,
    /// The second by the first; null in a segment without batches.
    pub aborted_share: Option<f64>,
}

/// What one walk over a log finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Invisible {
    /// The longest run of batches in which a consumer finds no record: aborted data by the index,
    /// control batches, batches emptied by the cleaner. `None` if every batch has a record for it.
    pub longest_run: Option<OffsetRun>,
    /// Every segment with something in it.
    pub segments: Vec<SegmentShare>,
}

/// Walks the log as a `read_committed` consumer does, with the aborted transactions that the index
/// has, and with those that the log gives, each in any order.
///
/// A batch is passed over if it is transactional and its producer has an aborted transaction that
/// begins no later and whose ABORT marker is still to come (`CompletedFetch.isBatchAborted`).
///
/// # Errors
/// If a segment cannot be read.
pub fn invisible(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    io: Io,
    in_index: Vec<AbortedFrom>,
    in_log: Vec<AbortedFrom>,
) -> Result<Invisible, Error> {
    let first_base = dir.segments.first().map_or(0, |first| first.base_offset);
    let log_start_offset = log_start_offset(first_base, checkpoints);
    let mut by_index = Consumer::new(in_index);
    let mut by_log = Consumer::new(in_log);
    let mut longest: Option<OffsetRun> = None;
    let mut run: Option<OffsetRun> = None;
    let mut segments: Vec<SegmentShare> = Vec::new();
    walk_partition(dir, io, 0, |at, entry| {
        if segments.last().map(|it| it.base_offset) != Some(at.base_offset) {
            segments.push(SegmentShare {
                file: at.file.to_owned(),
                base_offset: at.base_offset,
                batch_bytes: 0,
                aborted_bytes: 0,
                aborted_share: None,
            });
        }
        let Some(share) = segments.last_mut() else {
            return Ok(ControlFlow::Break(()));
        };
        let hidden = match &entry {
            Entry::Batch(batch) => {
                let size = batch.size_in_bytes();
                share.batch_bytes += size;
                share.aborted_bytes += if by_log.aborts(batch)? { size } else { 0 };
                let header = batch.header;
                let is_hidden = by_index.aborts(batch)?
                    || header.attributes().is_control()
                    || header.records_count() == 0;
                let is_read = header.last_offset() >= log_start_offset;
                (is_hidden && is_read).then(|| OffsetRun {
                    first_offset: header.base_offset().max(log_start_offset),
                    last_offset: header.last_offset(),
                })
            }
            Entry::Legacy(legacy) => {
                share.batch_bytes += legacy.size_in_bytes();
                None
            }
            Entry::Damage(_) => None,
        };
        run = match (run, hidden) {
            (Some(run), Some(hidden)) => Some(OffsetRun {
                last_offset: hidden.last_offset,
                ..run
            }),
            (_, hidden) => hidden,
        };
        if run.map(OffsetRun::length) > longest.map(OffsetRun::length) {
            longest = run;
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    for share in &mut segments {
        // Precise enough for a share.
        #[expect(clippy::cast_precision_loss, reason = "a share, not a count")]
        let part = share.aborted_bytes as f64 / share.batch_bytes as f64;
        share.aborted_share = (share.batch_bytes > 0).then_some(part);
    }
    Ok(Invisible {
        longest_run: longest,
        segments,
    })
}

/// The producers whose batches a consumer passes over.
struct Consumer {
    to_come: std::iter::Peekable<std::vec::IntoIter<AbortedFrom>>,
    producers: HashSet<i64>,
}

impl Consumer {
    fn new(mut aborted: Vec<AbortedFrom>) -> Self {
        aborted.sort_unstable();
        Self {
            to_come: aborted.into_iter().peekable(),
            producers: HashSet::new(),
        }
    }

    /// Whether a batch is data that is passed over; the batches come in the order of the log.
    fn aborts(&mut self, batch: &Batch<'_>) -> Result<bool, Error> {
        let header = batch.header;
        let last_offset = header.last_offset();
        while let Some(next) = self.to_come.next_if(|it| it.first_offset <= last_offset) {
            self.producers.insert(next.producer_id);
        }
        if header.attributes().is_control() {
            let marker = batch.marker()?;
            if marker.is_some_and(|it| it.control_type == ControlRecordType::ABORT) {
                self.producers.remove(&header.producer_id());
            }
            return Ok(false);
        }
        Ok(
            header.attributes().is_transactional()
                && self.producers.contains(&header.producer_id()),
        )
    }
}
