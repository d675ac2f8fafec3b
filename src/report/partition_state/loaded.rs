//! The state while it is being loaded: a snapshot, then the batches behind it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::{RefusedBatch, StateOptions, UnusableSnapshot, read_snapshot, usable_snapshots};
use crate::format::control_record::EndTransactionMarker;
use crate::log::Error;
use crate::log::batches::{Batch, Entry};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::state::{LogOffsetMetadata, ProducerStateManager, recover_batch};

/// What has been read so far.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) manager: ProducerStateManager,
    pub(super) snapshot: Option<i64>,
    pub(super) unusable: Vec<UnusableSnapshot>,
    pub(super) refused: Vec<RefusedBatch>,
    pub(super) whole_from: Option<i64>,
    /// Places of batches by their base offset, those that are known.
    pub(super) known: HashMap<i64, LogOffsetMetadata>,
}

impl Loaded {
    /// The state from the newest usable snapshot at or below `end`, and the end of the log.
    pub(super) fn up_to(
        end: i64,
        dir: &PartitionDir,
        log_start_offset: i64,
        high_watermark: Option<i64>,
        options: StateOptions,
    ) -> Result<(Self, i64), Error> {
        let mut loaded = Self::default();
        if options.from_scratch {
            loaded.manager.load_without_snapshot(log_start_offset);
        } else {
            loaded.take_newest_snapshot(end, dir, log_start_offset, options)?;
        }
        let from = loaded.snapshot.unwrap_or(log_start_offset);
        let log_end_offset = loaded.replay(from, dir, log_start_offset, high_watermark, options)?;
        Ok((loaded, log_end_offset))
    }

    /// The newest snapshot a broker would use, at or below `end`.
    fn take_newest_snapshot(
        &mut self,
        end: i64,
        dir: &PartitionDir,
        log_start_offset: i64,
        options: StateOptions,
    ) -> Result<(), Error> {
        for offset in usable_snapshots(dir, log_start_offset, end).iter().rev() {
            match read_snapshot(dir, options.io, *offset)? {
                Some(Ok(rows)) => {
                    let expiration = options.expiration.as_ref();
                    self.manager.load_from_snapshot(rows, *offset, expiration);
                    self.snapshot = Some(*offset);
                    return Ok(());
                }
                Some(Err(reason)) => {
                    let offset = *offset;
                    self.unusable.push(UnusableSnapshot { offset, reason });
                }
                None => {}
            }
        }
        self.manager.load_without_snapshot(log_start_offset);
        Ok(())
    }

    /// Nothing is left between log start and log end: the snapshot there is what the broker knew
    /// when it stopped. One that loads the directory deletes it, since it does not lie above the
    /// log start (`ProducerStateManager.truncateAndReload`), and begins empty.
    pub(super) fn take_snapshot_of_emptied_log(
        &mut self,
        dir: &PartitionDir,
        offset: i64,
        options: StateOptions,
    ) -> Result<(), Error> {
        if let Some(Ok(rows)) = read_snapshot(dir, options.io, offset)? {
            self.manager
                .load_from_snapshot(rows, offset, options.expiration.as_ref());
            self.snapshot = Some(offset);
        }
        Ok(())
    }

    /// Takes in the batches that end at or above `from`; returns the end of the log.
    pub(super) fn replay(
        &mut self,
        from: i64,
        dir: &PartitionDir,
        log_start_offset: i64,
        high_watermark: Option<i64>,
        options: StateOptions,
    ) -> Result<i64, Error> {
        let first = dir
            .segments
            .partition_point(|segment| segment.base_offset <= from);
        let limit = options.at_offset.unwrap_or(i64::MAX);
        let replicated = high_watermark.map_or(i64::MAX, |it| it.max(log_start_offset));
        // What is replicated is dropped as it comes, or a log of many transactions would be kept
        // whole until its end.
        self.manager.take_for_replicated(replicated);
        let mut end = dir
            .segments
            .last()
            .map_or(from, |segment| segment.base_offset)
            .min(limit);
        let mut next_offset = None;
        let last = dir.segments.len().saturating_sub(1);
        walk_partition(dir, options.io, first.saturating_sub(1), |at, entry| {
            let (first_offset, last_offset) = match &entry {
                Entry::Batch(batch) => (batch.header.base_offset(), batch.header.last_offset()),
                Entry::Legacy(entry) => (i64::MAX, entry.header.offset()),
                Entry::Damage(_) => {
                    (next_offset, self.whole_from) = (None, None);
                    return Ok::<_, Error>(ControlFlow::Continue(()));
                }
            };
            if next_offset != Some(first_offset) {
                self.whole_from = Some(first_offset);
            }
            next_offset = Some(last_offset.wrapping_add(1));
            if last_offset >= limit {
                end = limit;
                return Ok(ControlFlow::Break(()));
            }
            // Behind the last batch, be it the highest or not (`LogSegment.readNextOffset`).
            if at.index == last {
                end = last_offset.wrapping_add(1);
            }
            if let Entry::Batch(batch) = entry
                && last_offset >= from
            {
                let marker = batch.marker()?;
                if batch.header.attributes().is_control() && self.is_in_doubt(&batch, marker) {
                    self.whole_from = Some(last_offset.saturating_add(1));
                }
                let taken_in = recover_batch(&mut self.manager, batch.header, marker, |_| {});
                if let Err(refusal) = taken_in {
                    let base_offset = batch.header.base_offset();
                    self.refused.push(RefusedBatch {
                        base_offset,
                        refusal,
                    });
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // What comes behind the log is not.
        self.manager.take_for_replicated(i64::MIN);
        Ok(end)
    }
}

impl Loaded {
    /// Whether a control batch may have been another one: what it says ends nothing, and its
    /// checksum is not known to be right.
    fn is_in_doubt(&self, batch: &Batch<'_>, marker: Option<EndTransactionMarker>) -> bool {
        let entry = self.manager.last_entry(batch.header.producer_id());
        let ends =
            marker.is_some() && entry.is_some_and(|it| it.current_txn_first_offset().is_some());
        !ends && !batch.is_plainly_valid()
    }
}
