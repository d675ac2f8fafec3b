//! A log followed batch by batch, as the scenario has written it so far: what a batch says, and how
//! a scenario gets to the place where it lies.

use crate::append::config::LogConfig;
use crate::append::scenario::model::{
    DataBatch, FollowerBatch, FollowerBatchKind, Marker, RecordSpec, Reopen, Step,
};
use crate::append::validator::LogValidator;
use crate::error::DecodeError;
use crate::format::compression::Decompressor;
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::{CompressionType, RecordBatchHeader, TimestampType};
use crate::format::record_batch_reader::RecordIterator;
use crate::format::{NO_SEQUENCE, NO_TIMESTAMP};
use crate::log;
use crate::log::batches::Batch;
use crate::state::ProducerStateManager;

/// Records of one batch are decompressed up to this many bytes.
const MAX_DECOMPRESSED: usize = 1 << 30;

/// The log as the scenario has written it so far.
pub(super) struct Retrace {
    pub(super) config: LogConfig,
    pub(super) redact: bool,
    pub(super) validator: LogValidator,
    pub(super) decompressor: Decompressor,
    pub(super) manager: ProducerStateManager,
    pub(super) log_end_offset: i64,
    pub(super) now_ms: i64,
    pub(super) latest_epoch: i32,
    pub(super) segment_base_offset: i64,
    pub(super) steps: Vec<Step>,
}

/// A batch as a step would give it.
#[derive(Clone)]
enum Said {
    Data(DataBatch),
    Marker(Marker),
}

pub(super) type Reason = String;

impl Retrace {
    /// Gets to a segment that begins at `base_offset`.
    pub(super) fn begin_segment(&mut self, index: usize, base_offset: i64) {
        self.segment_base_offset = base_offset;
        if index == 0 {
            if base_offset != 0 {
                let offset = base_offset;
                self.steps.push(Step::TruncateFullyAndStartAt {
                    offset,
                    log_start_offset: None,
                });
                self.log_end_offset = base_offset;
            }
            return;
        }
        if base_offset > self.log_end_offset {
            // A hole before the segment: an empty batch that reaches into it, and a truncation,
            // which leaves the log end where it is asked to be.
            let reach = base_offset.wrapping_sub(self.log_end_offset);
            self.steps.push(Step::AppendAsFollower {
                leader_epoch: self.latest_epoch,
                batches: vec![FollowerBatch {
                    base_offset: self.log_end_offset,
                    partition_leader_epoch: self.latest_epoch,
                    kind: FollowerBatchKind::Data {
                        batch: nobody(),
                        timestamp_type: TimestampType::CreateTime,
                        last_offset_delta: i32::try_from(reach).unwrap_or(i32::MAX),
                        max_timestamp: Some(NO_TIMESTAMP),
                    },
                }],
            });
            self.steps.push(Step::TruncateTo {
                offset: base_offset,
            });
            self.log_end_offset = base_offset;
        }
        self.steps.push(Step::Roll);
    }

    pub(super) fn batch(&mut self, batch: &Batch<'_>) -> Result<Result<(), Reason>, log::Error> {
        let header = *batch.header;
        if !batch.is_valid()? {
            return Ok(Err("its checksum is wrong".to_owned()));
        }
        let records = batch.records()?;
        let mut original = header.as_array().to_vec();
        original.extend_from_slice(&records);
        Ok(self.say(&header, &records, &original))
    }

    fn say(
        &mut self,
        header: &RecordBatchHeader,
        records: &[u8],
        original: &[u8],
    ) -> Result<(), Reason> {
        let attributes = header.attributes();
        if attributes.has_delete_horizon() {
            return Err("it has a delete horizon".to_owned());
        }
        if header.partition_leader_epoch() < 0 {
            return Err("it has no leader epoch".to_owned());
        }
        if header.base_offset() < self.log_end_offset {
            return Err(format!(
                "it lies below offset {}, where the batch before it ends: a log takes no batch \
                 whose offsets fall back",
                self.log_end_offset
            ));
        }
        let reach = header.last_offset().wrapping_sub(self.segment_base_offset);
        if i32::try_from(reach).is_err() {
            return Err("it lies too far above its segment's base offset".to_owned());
        }
        self.follow_clock(header)?;
        let marker = if attributes.is_control() && header.records_count() > 0 {
            let marker = EndTransactionMarker::decode_batch(records, header.records_count());
            let marker = marker.map_err(|error| error.to_string())?;
            Some(marker.ok_or("it is no end-transaction marker")?)
        } else {
            None
        };
        let said = match marker {
            Some(marker) => Said::Marker(Marker {
                producer_id: header.producer_id(),
                producer_epoch: header.producer_epoch(),
                control_type: ControlRecordType(marker.control_type.0),
                coordinator_epoch: marker.coordinator_epoch,
                timestamp: Some(header.base_timestamp()),
            }),
            None => {
                let data = self
                    .data(header, records)
                    .map_err(|error| error.to_string())?;
                Said::Data(data)
            }
        };
        let step_of = |retrace: &mut Self, said| match said {
            Said::Marker(spec) => retrace.marker_step(spec, header, marker, original),
            Said::Data(data) => retrace.data_step(data, header, records, original),
        };
        let step = match step_of(self, said.clone()) {
            // The broker that took it had forgotten what the log says of its producer.
            Err(_) if !self.manager.is_empty() => {
                self.forget_producers();
                step_of(self, said)?
            }
            step => step?,
        };
        let step = step.ok_or("its header says what a scenario cannot")?;
        self.steps.push(step);
        self.log_end_offset = header.next_offset();
        self.latest_epoch = header.partition_leader_epoch();
        Ok(())
    }

    /// A clean stop and a start without any snapshot, which takes no producer over
    /// (`UnifiedLog.rebuildProducerState`). The `.log` stays as it is.
    fn forget_producers(&mut self) {
        self.steps.push(Step::Reopen(Reopen {
            clean: true,
            recovery_point: None,
            log_start_offset: None,
            high_watermark: None,
            torn_tail_bytes: 0,
            delete_snapshots: true,
        }));
        self.manager = ProducerStateManager::default();
    }

    /// With `LogAppendTime` the clock stands where the batch says.
    fn follow_clock(&mut self, header: &RecordBatchHeader) -> Result<(), Reason> {
        let is_broker_time = header.attributes().timestamp_type() == TimestampType::LogAppendTime;
        if !is_broker_time || header.records_count() == 0 {
            return Ok(());
        }
        let ms = header.max_timestamp().wrapping_sub(self.now_ms);
        if ms < 0 {
            return Err(format!(
                "the broker's clock went back to {}, which a scenario's clock cannot",
                header.max_timestamp()
            ));
        }
        if ms > 0 {
            self.steps.push(Step::AdvanceClock { ms });
            self.now_ms = header.max_timestamp();
        }
        Ok(())
    }

    /// The batch's fields and records, to be built again.
    fn data(
        &mut self,
        header: &RecordBatchHeader,
        records: &[u8],
    ) -> Result<DataBatch, DecodeError> {
        let codec = header.attributes().compression_type();
        let mut specs = Vec::new();
        let mut next = 0;
        let decompressor = &mut self.decompressor;
        for record in RecordIterator::decompress(header, records, decompressor, MAX_DECOMPRESSED)? {
            let record = record?.record;
            let mut headers = Vec::new();
            for header in record.header_iter() {
                let header = header?;
                let key = String::from_utf8_lossy(header.key).into_owned();
                headers.push((key, header.value.map(<[u8]>::to_vec)));
            }
            specs.push(RecordSpec {
                timestamp: Some(header.base_timestamp().wrapping_add(record.timestamp_delta)),
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers,
                offset_delta: (record.offset_delta != next).then_some(record.offset_delta),
            });
            next = record.offset_delta.wrapping_add(1);
        }
        Ok(DataBatch {
            producer_id: header.producer_id(),
            producer_epoch: header.producer_epoch(),
            base_sequence: header.base_sequence(),
            is_transactional: header.attributes().is_transactional(),
            compression: codec,
            encoded_records: None,
            records: specs,
        })
    }
}

fn nobody() -> DataBatch {
    DataBatch {
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: NO_SEQUENCE,
        is_transactional: false,
        compression: CompressionType::NONE,
        encoded_records: None,
        records: Vec::new(),
    }
}
