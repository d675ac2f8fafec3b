//! What a start leaves that an operator finds out later: offsets that are given out again,
//! transactions whose end is cut off, and bytes in the way of what is written next.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::row::LeftOpen;
use super::{DryRun, DryRunOptions, as_files_error, reference};
use crate::log;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::broker_start::outage;
use crate::log::checkpoints::{CheckpointedOffsets, high_watermark_past_end};
use crate::log::lost_front::began_without_segments;
use crate::log::odd_entry::{OddEffect, WAITS};
use crate::log::partition_dir::PartitionDir;

/// Bytes of a `.log` that are gone after the start.
pub(super) struct Gone {
    /// The name it had before.
    pub(super) file_name: OsString,
    /// Where they begin.
    pub(super) from: u64,
}

impl DryRun {
    /// Looks for all of that, once it is known what is lost.
    pub(super) fn look_beyond(
        &mut self,
        dir: &PartitionDir,
        gone: &[Gone],
        checkpoints: CheckpointedOffsets,
        options: &DryRunOptions,
    ) -> Result<(), log::Error> {
        if !self.row.loads || self.row.status == Some("delete") {
            return Ok(());
        }
        self.warn_of_torn_tail();
        self.warn_of_odd_entries(dir);
        self.warn_below_high_watermark(dir, checkpoints, options)?;
        self.find_left_open(dir, gone, options)?;
        self.find_last_copies(dir, checkpoints, options)
    }

    /// What a broker has not opened yet, and cannot.
    fn warn_of_odd_entries(&mut self, dir: &PartitionDir) {
        for entry in &dir.odd {
            let comes = match entry.effect() {
                OddEffect::FailsInUse => {
                    format!("fails when it comes to open it, and {}", outage(false))
                }
                OddEffect::WaitsInUse => format!("{WAITS} when it comes to write it"),
                OddEffect::PassedOver | OddEffect::FailsToLoad | OddEffect::WaitsToLoad => continue,
            };
            self.row.warnings.push(format!(
                "{} is {}: the broker {comes}; move it out of the directory before the start",
                entry.file_name.to_string_lossy(),
                entry.what
            ));
        }
    }

    /// Appends go to the end of the file, whatever is there (`FileRecords.append`).
    fn warn_of_torn_tail(&mut self) {
        let bytes = self.row.torn_tail_bytes;
        if bytes > 0 {
            self.row.warnings.push(format!(
                "the log ends in {bytes} bytes that are no whole batch, and a clean start leaves \
                 them: the broker writes behind them, and nobody can read what it writes there; \
                 remove .kafka_cleanshutdown before the start, and recovery cuts them off"
            ));
        }
    }

    fn warn_below_high_watermark(
        &mut self,
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: &DryRunOptions,
    ) -> Result<(), log::Error> {
        let Some(end) = self.row.log_end_offset else {
            return Ok(());
        };
        // What retention had taken of a log without any segment is not lost.
        let is_empty = self.row.segments.iter().all(|it| it.size_in_bytes == 0);
        let began = if dir.segments.is_empty() && is_empty {
            began_without_segments(dir, options.io)?
        } else {
            None
        };
        let from = began.map_or(end, |began| began.max(end));
        let past_end = high_watermark_past_end(dir, checkpoints, from, options.io);
        let Some(high_watermark) = past_end else {
            return Ok(());
        };
        self.row.losses.acknowledged_from = Some(from);
        self.row.losses.acknowledged_to = Some(high_watermark - 1);
        let last = high_watermark - 1;
        let offsets = if from == last {
            format!("offset {from}")
        } else {
            format!("offsets {from}..{last}")
        };
        self.row.warnings.push(format!(
            "the high watermark was {high_watermark} and the log ends at {end}: {offsets} had been \
             acknowledged, and will be given out again; another replica may have them: do not let \
             this one lead"
        ));
        Ok(())
    }

    /// Transactions that are open after the start and had ended before it: by a marker that is cut
    /// off, or by a snapshot from above the new log end.
    fn find_left_open(
        &mut self,
        dir: &PartitionDir,
        gone: &[Gone],
        options: &DryRunOptions,
    ) -> Result<(), log::Error> {
        let open = self.row.producers.iter().filter_map(|producer| {
            let first_offset = producer.current_txn_first_offset?;
            let producer_epoch = producer.producer_epoch;
            let left_open = LeftOpen {
                producer_id: producer.producer_id,
                producer_epoch,
                first_offset,
            };
            Some((producer.producer_id, left_open))
        });
        let open: BTreeMap<i64, LeftOpen> = open.collect();
        if open.is_empty() {
            return Ok(());
        }
        let mut ended = BTreeMap::new();
        let end = self.row.log_end_offset.unwrap_or(i64::MAX);
        let above = reference::in_newest_snapshot(dir, i64::MAX, end, options);
        for entry in above.map_err(as_files_error)? {
            if let Some(it) = open.get(&entry.producer_id())
                && entry.current_txn_first_offset() != Some(it.first_offset)
            {
                ended.insert(it.first_offset, *it);
            }
        }
        for part in gone {
            let Some(file) = self.overlay.open_original(&part.file_name, part.from)? else {
                continue;
            };
            let mut walk = BatchWalk::new(&file);
            while let Some(entry) = walk.next_entry() {
                let Entry::Batch(batch) = entry? else {
                    continue;
                };
                let header = batch.header;
                if let Some(it) = open.get(&header.producer_id())
                    && header.attributes().is_control()
                    && header.base_offset() > it.first_offset
                    && batch.is_valid()?
                {
                    ended.insert(it.first_offset, *it);
                }
            }
        }
        let Some((first, _)) = ended.first_key_value() else {
            return Ok(());
        };
        let (what, their) = match ended.len() {
            1 => ("1 transaction stays open".to_owned(), "its"),
            many => (format!("{many} transactions stay open"), "their"),
        };
        self.row.warnings.push(format!(
            "{what}, as {their} markers are cut off: read_committed consumers stop at {first} until \
             the coordinator writes others or an operator aborts"
        ));
        self.row.losses.left_open = ended.into_values().collect();
        Ok(())
    }
}
