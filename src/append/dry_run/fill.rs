//! How the row of a start is made: out of the directory, the log that was loaded, and the trace.

use super::known::{AbortedList, LeaderEpoch};
use super::row::{FileSize, Losses, RecoverRow, RecoveredSegmentRow, Segment, Start, Work};
use crate::append::error::Error;
use crate::append::load_trace::LoadTrace;
use crate::append::partition_log::PartitionLog;
use crate::append::segment::LogSegment;
use crate::format::file_name::LogFileKind;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::overlay::Overlay;
use crate::log::partition_dir::PartitionDir;
use crate::state::KnownProducer;

impl RecoverRow {
    pub(super) fn new(
        dir: &PartitionDir,
        start: Start,
        is_clean: bool,
        after_start: &Overlay,
    ) -> Self {
        Self {
            path: dir.path.display().to_string(),
            topic: dir.topic().map(str::to_owned),
            partition: dir.partition(),
            status: dir
                .status()
                .map(crate::format::file_name::PartitionDirStatus::name),
            start,
            applies: is_clean == (start == Start::Clean),
            loads: true,
            error: None,
            broker_error: None,
            stray: None,
            replaced_by: None,
            takes_over: false,
            loses_data: false,
            loses_producer_state: false,
            losses: Losses::default(),
            gone: None,
            torn_tail_bytes: 0,
            log_start_offset: None,
            log_end_offset: None,
            high_watermark: None,
            last_stable_offset: None,
            high_watermark_at_start: None,
            last_stable_offset_at_start: None,
            recovery_point: None,
            recovery_point_checkpoint: None,
            log_start_offset_checkpoint: None,
            actions: Vec::new(),
            indexes_rewritten: Vec::new(),
            segments: Vec::new(),
            segments_recovered: Vec::new(),
            snapshot_offset: None,
            snapshots_corrupt: Vec::new(),
            producers: Vec::new(),
            aborted_transactions: AbortedList::default(),
            leader_epochs: Vec::new(),
            bytes_to_read: 0,
            work: Work::default(),
            files_after_start: after_start
                .files()
                .map(|(name, size_in_bytes)| FileSize {
                    file: name.to_string_lossy().into_owned(),
                    size_in_bytes,
                })
                .collect(),
            warnings: Vec::new(),
            is_stray: false,
            lost_spans: OffsetRanges::default(),
        }
    }

    /// Takes over what the log says once it is loaded.
    pub(super) fn fill(&mut self, log: &PartitionLog) -> Result<(), Error> {
        let offsets = log.offsets();
        self.log_start_offset = Some(offsets.log_start_offset());
        self.log_end_offset = Some(log.log_end_offset());
        self.high_watermark = Some(offsets.high_watermark());
        self.last_stable_offset = Some(offsets.last_stable_offset());
        self.recovery_point = Some(log.recovery_point());
        let segment = |(base_offset, segment): (&i64, &LogSegment)| Segment {
            base_offset: *base_offset,
            size_in_bytes: segment.size(),
        };
        self.segments = log.log.segments.iter().map(segment).collect();
        let producers = log.producer_state().active_producers();
        self.producers = producers.map(KnownProducer::from).collect();
        self.producers.sort_by_key(|producer| producer.producer_id);
        let start = offsets.log_start_offset();
        let known = &mut self.aborted_transactions;
        log.each_aborted_transaction(start, i64::MAX, |row| known.push(row.into()))?;
        self.leader_epochs = log.leader_epochs().map(LeaderEpoch::from).collect();
        self.fill_work(&log.log.trace);
        Ok(())
    }

    fn fill_work(&mut self, trace: &LoadTrace) {
        let last = self.segments.last().map(|segment| segment.base_offset);
        let recovered = trace.recovered.iter();
        self.segments_recovered = recovered
            .map(|segment| RecoveredSegmentRow {
                file: LogFileKind::Log(segment.base_offset).to_string(),
                size_in_bytes: segment.size_in_bytes,
                truncated_bytes: segment.truncated_bytes,
                reason: segment.reason,
            })
            .collect();
        let is_last_recovered = trace
            .recovered
            .iter()
            .any(|segment| Some(segment.base_offset) == last);
        self.work = Work {
            recovered_bytes: trace.recovered.iter().map(|it| it.size_in_bytes).sum(),
            replayed_bytes: trace.replayed_bytes,
            // It has just been read.
            tail_bytes: if is_last_recovered {
                0
            } else {
                trace.tail_bytes
            },
        };
        let Work {
            recovered_bytes,
            replayed_bytes,
            tail_bytes,
        } = self.work;
        self.bytes_to_read = recovered_bytes + replayed_bytes + tail_bytes;
        self.snapshot_offset = trace.snapshots_used.first().copied();
        self.snapshots_corrupt.clone_from(&trace.snapshots_corrupt);
    }

    /// The partition for people: topic and number of one in use, else the directory.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.topic, self.partition, self.status) {
            (Some(topic), Some(partition), Some("live")) => format!("{topic}-{partition}"),
            (_, _, Some(_)) => {
                let path = std::path::Path::new(&self.path);
                let name = path.file_name().unwrap_or_default();
                name.to_string_lossy().into_owned()
            }
            _ => self.path.clone(),
        }
    }
}
