//! A partition back into the scenario that writes it: its appends, markers and rolls.
//!
//! Each batch becomes the step a leader would have taken it in with; where that would not give the
//! same bytes (a gap that compaction left, a producer that the log begins in the middle of), it
//! becomes a follower's append, which takes any batch as it is. Every batch is built again on the
//! way and compared.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::batch::{self, Sender};
use super::model::{
    AppendStep, DEFAULT_START_TIME_MS, DataBatch, FollowerBatch, FollowerBatchKind, Marker,
    RecordSpec, Step, Verification,
};
use super::to_json;
use crate::append::config::LogConfig;
use crate::append::validator::{LogValidator, Validation};
use crate::error::DecodeError;
use crate::format::compression::Decompressor;
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::{RecordBatchHeader, TimestampType};
use crate::format::record_batch_reader::RecordIterator;
use crate::format::{NO_SEQUENCE, NO_TIMESTAMP};
use crate::log::batches::{Batch, BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{self, Io};
use crate::state::append_check::Validated;
use crate::state::{
    AppendCheck, AppendOrigin, LogOffsetMetadata, ProducerStateManager, TransactionVersion,
    Verdict, VerificationGuard,
};

/// Records of one batch are decompressed up to this many bytes.
const MAX_DECOMPRESSED: usize = 1 << 30;

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FromLogError {
    /// The files could not be read.
    #[error(transparent)]
    Log(#[from] log::Error),
    /// The scenario could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The directory's name is no partition's.
    #[error("the directory's name gives no topic and partition")]
    Name,
    /// Something a scenario cannot say.
    #[error("{file}: batch at offset {offset} (position {position}): {reason}")]
    Batch {
        /// Name of the `.log`.
        file: String,
        /// Where in it.
        position: u64,
        /// The batch's base offset, as far as it can be read.
        offset: String,
        /// What cannot be said.
        reason: String,
    },
}

/// How a partition is turned into a scenario.
#[derive(Clone, Copy, Debug)]
pub struct FromLog<'a> {
    /// The partition.
    pub dir: &'a PartitionDir,
    /// How its files are read.
    pub io: Io,
    /// Replace keys, values and header values by as many other bytes.
    pub redact: bool,
}

impl FromLog<'_> {
    /// Writes the scenario, one step a line. Returns how many steps it has.
    ///
    /// # Errors
    /// If files cannot be read, `out` not be written, or a batch cannot be said in a scenario;
    /// then what has been written so far is of no use.
    pub fn write(&self, out: &mut impl Write) -> Result<u64, FromLogError> {
        self.dir.unless_cut(self.write_steps(out))
    }

    fn write_steps(&self, out: &mut impl Write) -> Result<u64, FromLogError> {
        let (Some(topic), Some(partition)) = (self.dir.topic(), self.dir.partition()) else {
            return Err(FromLogError::Name);
        };
        let timestamp_type = self.timestamp_type()?;
        let config = LogConfig {
            message_timestamp_type: timestamp_type,
            message_timestamp_after_max_ms: i64::MAX,
            max_message_bytes: i32::MAX,
            segment_bytes: i32::MAX,
            segment_ms: i64::MAX,
            ..LogConfig::default()
        };
        let mut head = json!({
            "title": format!("{topic}-{partition}"),
            "topic": topic,
            "partition": partition,
        });
        self.describe(&mut head, &config)?;
        let head = serde_json::to_string_pretty(&head).unwrap_or_default();
        let head = head.trim_end_matches(['}', '\n']);
        write!(out, "{head},\n  \"steps\": [")?;
        let mut retrace = Retrace {
            config,
            redact: self.redact,
            validator: LogValidator::default(),
            decompressor: Decompressor::new(),
            manager: ProducerStateManager::default(),
            log_end_offset: 0,
            now_ms: DEFAULT_START_TIME_MS,
            latest_epoch: 0,
            segment_base_offset: 0,
            steps: Vec::new(),
        };
        let mut steps = 0;
        for (index, segment) in self.dir.segments.iter().enumerate() {
            retrace.begin_segment(index, segment.base_offset);
            self.segment(segment.log, &mut retrace, |step| {
                let separator = if steps == 0 { "\n    " } else { ",\n    " };
                steps += 1;
                write!(out, "{separator}{}", to_json::step(step))
            })?;
        }
        writeln!(out, "\n  ]\n}}")?;
        Ok(steps)
    }

    fn describe(&self, head: &mut Value, config: &LogConfig) -> Result<(), FromLogError> {
        let Value::Object(head) = head else {
            return Ok(());
        };
        if self.redact {
            let about = "Keys, values and header values are replaced by other bytes of the same \
                         length, so the .log bytes differ from the original's.";
            head.insert("about".to_owned(), about.into());
        }
        if let Some(topic_id) = self.dir.topic_id(self.io)? {
            head.insert("topicId".to_owned(), topic_id.into());
        }
        let values = json!({
            "message.timestamp.type": config.message_timestamp_type.name(),
            "message.timestamp.after.max.ms": config.message_timestamp_after_max_ms,
            "max.message.bytes": config.max_message_bytes,
            "segment.bytes": config.segment_bytes,
            "segment.ms": config.segment_ms,
            "producer.id.expiration.ms": i32::MAX,
            "transaction.version": 1,
        });
        head.insert("config".to_owned(), values);
        head.insert("autoHighWatermark".to_owned(), true.into());
        Ok(())
    }

    /// `LogAppendTime` as soon as one batch has it: batches with the other type can be said as a
    /// follower's.
    fn timestamp_type(&self) -> Result<TimestampType, FromLogError> {
        for segment in &self.dir.segments {
            let Some(file) = self.dir.file(segment.log) else {
                continue;
            };
            let file = self.open(file)?;
            let mut walk = BatchWalk::new(&file);
            while let Some(entry) = walk.next_entry() {
                if let Entry::Batch(batch) = entry?
                    && batch.header.attributes().timestamp_type() == TimestampType::LogAppendTime
                {
                    return Ok(TimestampType::LogAppendTime);
                }
            }
        }
        Ok(TimestampType::CreateTime)
    }

    /// A segment that has vanished has no place in a scenario, and leaves a hole in it.
    fn open(&self, entry: &FileEntry) -> Result<MappedFile, log::Error> {
        let changed = || log::Error::ChangedWhileReading {
            path: self.dir.file_path(entry),
        };
        self.dir.open_file(entry, self.io)?.ok_or_else(changed)
    }

    fn segment(
        &self,
        log: usize,
        retrace: &mut Retrace,
        mut emit: impl FnMut(&Step) -> io::Result<()>,
    ) -> Result<(), FromLogError> {
        let Some(entry) = self.dir.file(log) else {
            return Ok(());
        };
        let name = entry.name();
        let file = self.open(entry)?;
        let mut walk = BatchWalk::new(&file);
        for step in retrace.steps.drain(..) {
            emit(&step)?;
        }
        while let Some(entry) = walk.next_entry() {
            let refuse = |position, offset: Option<i64>, reason: String| FromLogError::Batch {
                file: name.clone().into_owned(),
                position,
                offset: offset.map_or_else(|| "?".to_owned(), |offset| offset.to_string()),
                reason,
            };
            match entry? {
                Entry::Batch(batch) => {
                    let (position, offset) = (batch.position, batch.header.base_offset());
                    retrace
                        .batch(&batch)?
                        .map_err(|reason| refuse(position, Some(offset), reason))?;
                }
                Entry::Legacy(legacy) => {
                    let reason = "magic 0 and 1 cannot be said".to_owned();
                    return Err(refuse(legacy.position, None, reason));
                }
                Entry::Damage(damage) => {
                    let offset = damage.readable.base_offset;
                    return Err(refuse(damage.position, offset, damage.to_string()));
                }
            }
            for step in retrace.steps.drain(..) {
                emit(&step)?;
            }
        }
        Ok(())
    }
}

/// The log as the scenario has written it so far.
struct Retrace {
    config: LogConfig,
    redact: bool,
    validator: LogValidator,
    decompressor: Decompressor,
    manager: ProducerStateManager,
    log_end_offset: i64,
    now_ms: i64,
    latest_epoch: i32,
    segment_base_offset: i64,
    steps: Vec<Step>,
}

/// A batch as a step would give it.
enum Said {
    Data(DataBatch),
    Marker(Marker),
}

type Reason = String;

impl Retrace {
    /// Gets to a segment that begins at `base_offset`.
    fn begin_segment(&mut self, index: usize, base_offset: i64) {
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

    fn batch(&mut self, batch: &Batch<'_>) -> Result<Result<(), Reason>, log::Error> {
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
            return Err(format!("it lies below offset {}", self.log_end_offset));
        }
        let reach = header.last_offset().wrapping_sub(self.segment_base_offset);
        if i32::try_from(reach).is_err() {
            return Err("it lies too far above its segment's base offset".to_owned());
        }
        self.follow_clock(header)?;
        let marker = if attributes.is_control() && header.records_count() > 0 {
            let marker = EndTransactionMarker::decode_batch(records);
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
        let step = match said {
            Said::Marker(spec) => self.marker_step(spec, header, marker, original),
            Said::Data(data) => self.data_step(data, header, records, original)?,
        };
        let step = step.ok_or("its header says what a scenario cannot")?;
        self.steps.push(step);
        self.log_end_offset = header.next_offset();
        self.latest_epoch = header.partition_leader_epoch();
        Ok(())
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

    fn data_step(
        &mut self,
        mut data: DataBatch,
        header: &RecordBatchHeader,
        records: &[u8],
        original: &[u8],
    ) -> Result<Option<Step>, Reason> {
        for encoded in [None, Some(records.to_vec())] {
            data.encoded_records = encoded;
            if header.attributes().compression_type().0 != 0 && data.encoded_records.is_none() {
                // Which compressor made it is not known.
                continue;
            }
            if let Some(mut step) = self.leader_step(&data, header, original) {
                self.take_in(header, None, &step)?;
                self.redact(&mut step.batch);
                return Ok(Some(Step::Append(step)));
            }
            let mut batch = follower_batch(&data, header);
            if self.gives_back(&batch, original) {
                self.follow(header, None)?;
                if let FollowerBatchKind::Data { batch, .. } = &mut batch.kind {
                    self.redact(batch);
                }
                return Ok(Some(follower_step(header, batch)));
            }
        }
        Ok(None)
    }

    /// The step with which a leader takes the batch in and writes the same bytes.
    fn leader_step(
        &mut self,
        data: &DataBatch,
        header: &RecordBatchHeader,
        original: &[u8],
    ) -> Option<AppendStep> {
        let mut sent = Vec::new();
        batch::data(data, None, &Sender::client(self.now_ms), &mut sent).ok()?;
        if !self.leader_gives_back(sent, header, AppendOrigin::Client, original) {
            return None;
        }
        let mut step = AppendStep {
            batch: data.clone(),
            partition_leader_epoch: header.partition_leader_epoch(),
            is_coordinator: false,
            verification: Verification::Verified,
            transaction_version: None,
            fault: None,
        };
        if self.is_taken(header, None, &check(&step)) {
            return Some(step);
        }
        // The group coordinator's batches all have sequence 0, or none.
        step.is_coordinator = true;
        let is_its = header.base_sequence() == 0 || header.base_sequence() == NO_SEQUENCE;
        (is_its && self.is_taken(header, None, &check(&step))).then_some(step)
    }

    fn marker_step(
        &mut self,
        spec: Marker,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        original: &[u8],
    ) -> Option<Step> {
        let mut sent = Vec::new();
        batch::marker(&spec, &Sender::client(self.now_ms), &mut sent).ok()?;
        // Under version 2 a marker carries the next epoch.
        let known = self.manager.last_entry(spec.producer_id);
        let raises = known.is_some_and(|known| spec.producer_epoch > known.producer_epoch());
        let version = TransactionVersion(if raises { 2 } else { 1 });
        let check = AppendCheck {
            origin: AppendOrigin::Coordinator,
            verification_guard: VerificationGuard::SENTINEL,
            transaction_verification_enabled: false,
            transaction_version: version,
        };
        if self.leader_gives_back(sent, header, AppendOrigin::Coordinator, original)
            && self.is_taken(header, marker, &check)
        {
            self.apply(header, marker, &check).ok()?;
            return Some(Step::EndTxnMarker {
                marker: spec,
                partition_leader_epoch: header.partition_leader_epoch(),
                transaction_version: raises.then_some(2),
            });
        }
        let batch = FollowerBatch {
            base_offset: header.base_offset(),
            partition_leader_epoch: header.partition_leader_epoch(),
            kind: FollowerBatchKind::Marker(spec),
        };
        if !self.gives_back(&batch, original) {
            return None;
        }
        self.follow(header, marker).ok()?;
        Some(follower_step(header, batch))
    }

    fn leader_gives_back(
        &mut self,
        mut sent: Vec<u8>,
        header: &RecordBatchHeader,
        origin: AppendOrigin,
        original: &[u8],
    ) -> bool {
        if header.base_offset() != self.log_end_offset {
            return false;
        }
        let validation = Validation {
            config: &self.config,
            origin,
            now_ms: self.now_ms,
            partition_leader_epoch: header.partition_leader_epoch(),
            offset: self.log_end_offset,
        };
        let codec = header.attributes().compression_type();
        match self.validator.validate(&mut sent, codec, &validation) {
            Ok(validated) => validated.rebuilt.as_deref().unwrap_or(&sent) == original,
            Err(_) => false,
        }
    }

    fn gives_back(&self, batch: &FollowerBatch, original: &[u8]) -> bool {
        let mut bytes = Vec::new();
        batch::follower(batch, self.now_ms, &mut bytes).is_ok() && bytes == original
    }

    fn is_taken(
        &self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        check: &AppendCheck,
    ) -> bool {
        self.manager.judge(header, marker, check) == Verdict::Appended
    }

    fn take_in(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        step: &AppendStep,
    ) -> Result<(), Reason> {
        self.apply(header, marker, &check(step))
    }

    fn follow(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
    ) -> Result<(), Reason> {
        self.apply(header, marker, &AppendCheck::REPLICATION)
    }

    fn apply(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        check: &AppendCheck,
    ) -> Result<(), Reason> {
        let place = LogOffsetMetadata::offset_only(header.base_offset());
        let manager = &mut self.manager;
        match manager.analyze_and_validate([(header, marker)], place, check) {
            Ok(Validated::Accepted(append)) => manager
                .append(append, header.last_offset(), |_| {})
                .map_err(|refusal| refusal.to_string()),
            Ok(Validated::Duplicate(_)) => Err("it is in the log twice".to_owned()),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    /// As many bytes, none of them the original's.
    fn redact(&self, data: &mut DataBatch) {
        if !self.redact {
            return;
        }
        data.encoded_records = None;
        for record in &mut data.records {
            let headers = record.headers.iter_mut().map(|(_, value)| value);
            for bytes in headers
                .chain([&mut record.key, &mut record.value])
                .flatten()
            {
                bytes.fill(b'x');
            }
        }
    }
}

fn nobody() -> DataBatch {
    DataBatch {
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: NO_SEQUENCE,
        is_transactional: false,
        compression: crate::format::record_batch::CompressionType::NONE,
        encoded_records: None,
        records: Vec::new(),
    }
}

/// How the step's batch is checked. The transaction is taken as verified: with version 1 and
/// nothing refused before, the guard adds no rule.
fn check(step: &AppendStep) -> AppendCheck {
    AppendCheck {
        origin: if step.is_coordinator {
            AppendOrigin::Coordinator
        } else {
            AppendOrigin::Client
        },
        verification_guard: VerificationGuard::SENTINEL,
        transaction_verification_enabled: false,
        transaction_version: TransactionVersion::UNKNOWN,
    }
}

fn follower_batch(data: &DataBatch, header: &RecordBatchHeader) -> FollowerBatch {
    let is_empty = data.records.is_empty();
    FollowerBatch {
        base_offset: header.base_offset(),
        partition_leader_epoch: header.partition_leader_epoch(),
        kind: FollowerBatchKind::Data {
            batch: data.clone(),
            timestamp_type: header.attributes().timestamp_type(),
            last_offset_delta: if is_empty {
                header.last_offset_delta()
            } else {
                0
            },
            max_timestamp: is_empty.then(|| header.max_timestamp()),
        },
    }
}

fn follower_step(header: &RecordBatchHeader, batch: FollowerBatch) -> Step {
    Step::AppendAsFollower {
        leader_epoch: header.partition_leader_epoch(),
        batches: vec![batch],
    }
}
