//! Interprets the steps of a scenario with a log in memory.

use std::collections::BTreeSet;

use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch::{Attributes, MAGIC_V2, RecordBatchFields, RecordBatchHeader};
use kseg::state::append_check::Validated;
use kseg::state::rebuild::{Rebuild, rebuild_producer_state, write_due_snapshot};
use kseg::state::verification_state::VerificationRequest;
use kseg::state::{
    AbortedTxnRow, AppendCheck, AppendOrigin, Expiration, LogOffsetMetadata, LogOffsets,
    ProducerStateEntry, ProducerStateManager, Refusal, StableOffsets, TransactionVersion,
    TxnMetadata, Verdict, VerificationGuard, recover_batch,
};
use serde_json::{Value, json};

use crate::memory_log::{Batch, MemoryLog, Segment};

/// Errors that follow from the batch or the segment, not from the state. So do the two exceptions
/// about a follower's offsets, which are both UNKNOWN_SERVER_ERROR.
const FILE_LEVEL: [&str; 5] = [
    "INVALID_RECORD",
    "MESSAGE_TOO_LARGE",
    "CORRUPT_MESSAGE",
    "INVALID_TIMESTAMP",
    "RECORD_LIST_TOO_LARGE",
];

pub(crate) struct Driver {
    log: MemoryLog,
    manager: ProducerStateManager,
    offsets: StableOffsets,
    now: i64,
    opened_at: i64,
    expiration_ms: i64,
    check_interval_ms: i64,
    transaction_version: i64,
    is_log_append_time: bool,
    auto_high_watermark: bool,
    recovery_point: i64,
}

fn int(value: &Value, key: &str, default: i64) -> i64 {
    value.get(key).map_or(default, |v| v.as_i64().unwrap())
}

fn is(value: &Value, key: &str, default: bool) -> bool {
    value.get(key).map_or(default, |v| v.as_bool().unwrap())
}

fn config(scenario: &Value, key: &str, default: i64) -> i64 {
    let value = &scenario["config"][key];
    if value.is_null() {
        return default;
    }
    // Values are numbers or, as in Kafka's own configuration files, text.
    value
        .as_i64()
        .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn small(value: i64) -> i16 {
    value.try_into().unwrap()
}

fn refused(refusal: &Refusal) -> Value {
    let error = refusal.error();
    assert!(!refusal.to_string().is_empty() && !refusal.rule().contains(' '));
    json!({"verdict": "rejected", "error": {
        "name": error.name(), "code": error.code(), "exception": refusal.exception()}})
}

fn entry_json(entry: &ProducerStateEntry) -> Value {
    let batches: Vec<Value> = entry
        .batch_metadata()
        .map(|b| {
            json!({"firstSeq": b.first_sequence(), "lastSeq": b.last_sequence,
                "firstOffset": b.first_offset(), "lastOffset": b.last_offset,
                "offsetDelta": b.offset_delta, "timestamp": b.timestamp})
        })
        .collect();
    json!({"producerId": entry.producer_id(), "producerEpoch": entry.producer_epoch(),
        "coordinatorEpoch": entry.coordinator_epoch(), "lastTimestamp": entry.last_timestamp(),
        "currentTxnFirstOffset": entry.current_txn_first_offset(), "batchMetadata": batches})
}

fn txn_json(txn: &TxnMetadata) -> Value {
    json!({"producerId": txn.producer_id, "firstOffset": txn.first_offset.message_offset,
        "lastOffset": txn.last_offset})
}

fn row_json(row: &AbortedTxnRow) -> Value {
    json!({"producerId": row.producer_id, "firstOffset": row.first_offset,
        "lastOffset": row.last_offset, "lastStableOffset": row.last_stable_offset})
}

impl Driver {
    pub(crate) fn new(scenario: &Value) -> Self {
        let now = int(scenario, "startTimeMs", 1_700_000_000_000);
        let mut log = MemoryLog {
            segments: [(0, Segment::default())].into(),
            log_end_offset: 0,
            snapshots: [].into(),
        };
        let mut manager = ProducerStateManager::default();
        let rebuild = Rebuild {
            log_start_offset: 0,
            last_offset: 0,
            reload_from_clean_shutdown: true,
            expiration: None,
        };
        rebuild_producer_state(&mut manager, &mut log, &rebuild).unwrap();
        let offsets = StableOffsets::new(0, &manager, &log);
        Self {
            log,
            manager,
            offsets,
            now,
            opened_at: now,
            expiration_ms: config(scenario, "producer.id.expiration.ms", 86_400_000),
            check_interval_ms: config(
                scenario,
                "producer.id.expiration.check.interval.ms",
                600_000,
            ),
            transaction_version: config(scenario, "transaction.version", 2),
            is_log_append_time: scenario["config"]["message.timestamp.type"] == "LogAppendTime",
            auto_high_watermark: is(scenario, "autoHighWatermark", false),
            recovery_point: 0,
        }
    }

    fn expiration(&self, now_ms: i64) -> Expiration {
        Expiration {
            now_ms,
            producer_id_expiration_ms: self.expiration_ms,
        }
    }

    pub(crate) fn run(&mut self, step: &Value, expected: &Value) -> Value {
        let (kind, a) = step.as_object().unwrap().iter().next().unwrap();
        let outcome = match kind.as_str() {
            "append" => self.append(a, expected),
            "endTxnMarker" => self.end_txn_marker(a, expected),
            "appendAsFollower" => self.append_as_follower(a, expected),
            "deleteOldSegments" => self.delete_old_segments(expected),
            "reopen" => self.reopen(a, expected),
            "becomeLeader" | "flush" => Ok(json!({})),
            _ => self.other(kind, a, expected),
        };
        let mut got = outcome.unwrap_or_else(|refusal| refused(&refusal));
        if got.get("verdict").is_none() {
            got["verdict"] = "done".into();
        }
        self.recovery_point = int(&expected["state"], "recoveryPoint", 0);
        got["state"] = json!({
            "logStartOffset": self.offsets.log_start_offset(),
            "logEndOffset": self.log.log_end_offset,
            "highWatermark": self.offsets.high_watermark(),
            "firstUnstableOffset": self.offsets.first_unstable_offset(),
            "lastStableOffset": self.offsets.last_stable_offset(),
            "segments": self.log.segments.keys().collect::<Vec<_>>(),
        });
        got
    }

    fn other(&mut self, kind: &str, a: &Value, expected: &Value) -> Result<Value, Refusal> {
        let offset = int(a, "offset", 0);
        match kind {
            "updateHighWatermark" => {
                let hw = LogOffsetMetadata::offset_only(offset);
                let hw = self
                    .offsets
                    .update_high_watermark(hw, &mut self.manager, &self.log)?;
                return Ok(json!({ "highWatermark": hw }));
            }
            "incrementHighWatermark" => {
                let changed =
                    self.increment_high_watermark(LogOffsetMetadata::offset_only(offset))?;
                return Ok(json!({ "changed": changed }));
            }
            "roll" => self.roll(int(expected, "segmentBaseOffset", 0))?,
            "truncateTo" => return Ok(json!({ "changed": self.truncate_to(offset)? })),
            "truncateFullyAndStartAt" => {
                let log_start_offset = int(a, "logStartOffset", offset);
                self.truncate_fully_and_start_at(offset, log_start_offset)?;
            }
            "deleteRecordsBefore" => {
                let offset = if offset == -1 {
                    self.offsets.high_watermark()
                } else {
                    offset
                };
                let changed = self.offsets.maybe_increment_log_start_offset(
                    offset,
                    &mut self.manager,
                    &self.log,
                )?;
                return Ok(json!({ "changed": changed }));
            }
            "removeExpiredProducers" => {
                let expiration = self.expiration(int(a, "timeMs", self.now));
                self.manager.remove_expired_producers(&expiration);
            }
            "takeProducerSnapshot" => write_due_snapshot(&mut self.manager, &mut self.log)?,
            "advanceClock" => self.advance_clock(int(a, "ms", 0)),
            _ => panic!("unknown step {kind}"),
        }
        Ok(json!({}))
    }

    fn advance_clock(&mut self, ms: i64) {
        let until = self.now + ms;
        let done = (self.now - self.opened_at) / self.check_interval_ms;
        for due in done + 1..=(until - self.opened_at) / self.check_interval_ms {
            let expiration = self.expiration(self.opened_at + due * self.check_interval_ms);
            self.manager.remove_expired_producers(&expiration);
        }
        self.now = until;
    }

    fn increment_high_watermark(&mut self, hw: LogOffsetMetadata) -> Result<bool, Refusal> {
        self.offsets
            .maybe_increment_high_watermark(hw, &mut self.manager, &self.log)
    }

    // ---- batches ----------------------------------------------------------------------------

    fn data_header(
        &self,
        spec: &Value,
        base_offset: i64,
        timestamp_type: bool,
    ) -> RecordBatchHeader {
        let records = spec["records"].as_array().unwrap();
        let mut last_offset_delta = int(spec, "lastOffsetDelta", 0);
        let mut max_timestamp = int(spec, "maxTimestamp", self.now);
        if !records.is_empty() {
            last_offset_delta = records
                .iter()
                .fold(-1, |last, record| int(record, "offsetDelta", last + 1));
            let times = records.iter().map(|r| int(r, "timestamp", self.now));
            max_timestamp = times.max().unwrap();
            if timestamp_type {
                max_timestamp = self.now;
            }
        }
        let mut attributes = 0;
        if is(spec, "isTransactional", false) {
            attributes |= Attributes::TRANSACTIONAL_FLAG_MASK;
        }
        RecordBatchFields {
            base_offset,
            batch_length: 100,
            partition_leader_epoch: 0,
            magic: MAGIC_V2,
            crc: 0,
            attributes: Attributes(attributes),
            last_offset_delta: last_offset_delta.try_into().unwrap(),
            base_timestamp: max_timestamp,
            max_timestamp,
            producer_id: int(spec, "producerId", -1),
            producer_epoch: small(int(spec, "producerEpoch", -1)),
            base_sequence: int(spec, "baseSequence", -1).try_into().unwrap(),
            records_count: records.len().try_into().unwrap(),
        }
        .into()
    }

    fn marker_batch(&self, spec: &Value, base_offset: i64, log_append_time: bool) -> Batch {
        let data = json!({"records": [{}], "isTransactional": true,
            "producerId": spec["producerId"], "producerEpoch": int(spec, "producerEpoch", 0)});
        let mut fields = self.data_header(&data, base_offset, false).fields();
        fields.attributes.0 |= Attributes::CONTROL_FLAG_MASK;
        // Its one record has a delta of 0.
        fields.base_timestamp = int(spec, "timestamp", self.now);
        fields.max_timestamp = fields.base_timestamp;
        if log_append_time {
            fields.max_timestamp = self.now;
        }
        let control_type = if spec["controlType"] == "ABORT" {
            ControlRecordType::ABORT
        } else {
            ControlRecordType::COMMIT
        };
        let marker = EndTransactionMarker {
            control_type,
            coordinator_epoch: int(spec, "coordinatorEpoch", 0).try_into().unwrap(),
        };
        (fields.into(), Some(marker))
    }

    // ---- appends ----------------------------------------------------------------------------

    fn append(&mut self, a: &Value, expected: &Value) -> Result<Value, Refusal> {
        let verification = a
            .get("verification")
            .map_or("verified", |v| v.as_str().unwrap());
        let header = self.data_header(a, self.log.log_end_offset, self.is_log_append_time);
        let mut guard = VerificationGuard::SENTINEL;
        let asks = is(a, "isTransactional", false) && header.producer_id() != -1;
        if asks && (verification == "verified" || verification == "failed") {
            let version = int(a, "transactionVersion", self.transaction_version);
            let request = VerificationRequest {
                producer_id: header.producer_id(),
                producer_epoch: header.producer_epoch(),
                base_sequence: header.base_sequence(),
                supports_epoch_bump: TransactionVersion(small(version)).supports_epoch_bump(),
            };
            guard = self
                .manager
                .maybe_start_transaction_verification(&request, self.now)?;
            if verification == "failed" && guard != VerificationGuard::SENTINEL {
                return Ok(
                    json!({"verdict": "rejected", "error": {"name": "INVALID_TXN_STATE",
                    "code": 48, "exception": "TransactionCoordinator"}}),
                );
            }
        }
        let check = AppendCheck {
            origin: if a
                .get("origin")
                .is_some_and(|origin| origin == "coordinator")
            {
                AppendOrigin::Coordinator
            } else {
                AppendOrigin::Client
            },
            verification_guard: guard,
            transaction_verification_enabled: verification != "disabled",
            transaction_version: TransactionVersion::UNKNOWN,
        };
        self.append_batches(&[(header, None)], &check, expected)
    }

    fn end_txn_marker(&mut self, a: &Value, expected: &Value) -> Result<Value, Refusal> {
        let batch = self.marker_batch(a, self.log.log_end_offset, self.is_log_append_time);
        let version = int(a, "transactionVersion", self.transaction_version);
        let check = AppendCheck {
            origin: AppendOrigin::Coordinator,
            verification_guard: VerificationGuard::SENTINEL,
            transaction_verification_enabled: true,
            transaction_version: TransactionVersion(small(version)),
        };
        self.append_batches(&[batch], &check, expected)
    }

    fn append_as_follower(&mut self, a: &Value, expected: &Value) -> Result<Value, Refusal> {
        if expected["verdict"] == "ignored" {
            return Ok(json!({"verdict": "ignored"}));
        }
        let leader_epoch = int(a, "leaderEpoch", 0);
        let batches: Vec<Batch> = a["batches"]
            .as_array()
            .unwrap()
            .iter()
            .take_while(|batch| int(batch, "partitionLeaderEpoch", 0) <= leader_epoch)
            .map(|batch| {
                let base_offset = int(batch, "baseOffset", 0);
                if batch.get("controlType").is_some() {
                    return self.marker_batch(batch, base_offset, false);
                }
                let log_append_time = batch
                    .get("timestampType")
                    .is_some_and(|t| t == "LogAppendTime");
                (self.data_header(batch, base_offset, log_append_time), None)
            })
            .collect();
        self.append_batches(&batches, &AppendCheck::REPLICATION, expected)
    }

    fn append_batches(
        &mut self,
        batches: &[Batch],
        check: &AppendCheck,
        expected: &Value,
    ) -> Result<Value, Refusal> {
        let error = &expected["error"];
        let is_offset_error = error["name"] == "UNKNOWN_SERVER_ERROR";
        if is_offset_error || FILE_LEVEL.iter().any(|&name| error["name"] == name) {
            return Ok(json!({"verdict": "rejected", "error": error}));
        }
        if let Some(rolled) = self.rolled(expected) {
            self.roll(rolled)?;
        }
        let (first, last) = (
            batches[0].0.base_offset(),
            batches[batches.len() - 1].0.last_offset(),
        );
        let place = LogOffsetMetadata {
            message_offset: first,
            ..self.log.log_end_offset()
        };
        let judged = self.manager.judge(&batches[0].0, batches[0].1, check);
        let parts = batches.iter().map(|(header, marker)| (header, *marker));
        let validated = self.manager.analyze_and_validate(parts, place, check);
        let mut got = match validated {
            Err(refusal) => {
                if batches.len() == 1 {
                    assert_eq!(judged, Verdict::Rejected(refusal));
                }
                return Err(refusal);
            }
            Ok(Validated::Duplicate(batch)) => {
                assert_eq!(judged, Verdict::Duplicate(batch));
                json!({"verdict": "duplicate", "baseOffset": batch.first_offset(),
                    "lastOffset": batch.last_offset, "logAppendTime": batch.timestamp})
            }
            Ok(Validated::Accepted(append)) => {
                assert_eq!(judged, Verdict::Appended);
                self.log.active().batches.extend_from_slice(batches);
                self.log.log_end_offset = last + 1;
                let (manager, log) = (&mut self.manager, &mut self.log);
                self.offsets
                    .update_high_watermark_with_log_end_offset(manager, log)?;
                let aborted = &mut log.active().aborted;
                manager.append(append, last, |row| aborted.push(row))?;
                self.offsets
                    .maybe_increment_first_unstable_offset(manager, log);
                let stamped = self.is_log_append_time && check.origin != AppendOrigin::Replication;
                json!({"verdict": "appended", "baseOffset": first, "lastOffset": last,
                    "logAppendTime": if stamped { self.now } else { -1 }})
            }
        };
        got["logStartOffset"] = self.offsets.log_start_offset().into();
        if self.auto_high_watermark {
            self.increment_high_watermark(self.log.log_end_offset())?;
        }
        Ok(got)
    }

    // ---- segments ---------------------------------------------------------------------------

    /// The base offset of a segment that was rolled in this step.
    fn rolled(&self, expected: &Value) -> Option<i64> {
        let segments = expected["state"]["segments"].as_array().unwrap();
        let last = segments.last().unwrap().as_i64().unwrap();
        (last != self.log.active_base_offset()).then_some(last)
    }

    fn roll(&mut self, base_offset: i64) -> Result<(), Refusal> {
        self.log.segments.entry(base_offset).or_default();
        self.log.log_end_offset = self.log.log_end_offset.max(base_offset);
        self.manager.update_map_end_offset(base_offset);
        write_due_snapshot(&mut self.manager, &mut self.log)?;
        self.offsets
            .update_high_watermark_with_log_end_offset(&mut self.manager, &self.log)
    }

    fn remove_segment(&mut self, base_offset: i64) {
        self.log.segments.remove(&base_offset);
        self.manager.snapshots_mut().remove(base_offset);
        self.log.snapshots.remove(&base_offset);
    }

    fn delete_old_segments(&mut self, expected: &Value) -> Result<Value, Refusal> {
        if let Some(rolled) = self.rolled(expected) {
            self.roll(rolled)?;
        }
        let kept: BTreeSet<i64> = expected["state"]["segments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|base| base.as_i64().unwrap())
            .collect();
        let first = *kept.first().unwrap();
        let gone: Vec<i64> = self.log.segments.keys().copied().collect();
        let gone: Vec<i64> = gone
            .into_iter()
            .filter(|base| !kept.contains(base))
            .collect();
        if !gone.is_empty() {
            self.offsets
                .maybe_increment_log_start_offset(first, &mut self.manager, &self.log)?;
        }
        for base_offset in gone {
            self.remove_segment(base_offset);
        }
        Ok(json!({}))
    }

    fn rebuild(
        &mut self,
        last_offset: i64,
        reload_from_clean_shutdown: bool,
    ) -> Result<(), Refusal> {
        let rebuild = Rebuild {
            log_start_offset: self.offsets.log_start_offset(),
            last_offset,
            reload_from_clean_shutdown,
            expiration: Some(self.expiration(self.now)),
        };
        rebuild_producer_state(&mut self.manager, &mut self.log, &rebuild)
    }

    fn truncate_to(&mut self, offset: i64) -> Result<bool, Refusal> {
        if offset >= self.log.log_end_offset {
            return Ok(false);
        }
        if *self.log.segments.first_key_value().unwrap().0 > offset {
            self.truncate_fully_and_start_at(offset, offset)?;
            return Ok(true);
        }
        let above: Vec<i64> = self
            .log
            .segments
            .keys()
            .copied()
            .filter(|&b| b > offset)
            .collect();
        for base_offset in above {
            self.remove_segment(base_offset);
        }
        self.log.cut_active(offset);
        let log_start_offset = self.offsets.log_start_offset().min(offset);
        self.offsets.set_log_start_offset(log_start_offset);
        self.rebuild(offset, false)?;
        if self.offsets.high_watermark() >= offset {
            let end = self.log.log_end_offset();
            self.offsets
                .update_high_watermark(end, &mut self.manager, &self.log)?;
        }
        Ok(true)
    }

    fn truncate_fully_and_start_at(&mut self, offset: i64, log_start: i64) -> Result<(), Refusal> {
        self.log.segments = [(offset, Segment::default())].into();
        self.log.log_end_offset = offset;
        for snapshot in self.manager.truncate_fully_and_start_at(offset) {
            self.log.snapshots.remove(&snapshot);
        }
        self.offsets.set_log_start_offset(log_start);
        self.rebuild(offset, false)?;
        let end = self.log.log_end_offset();
        self.offsets
            .update_high_watermark(end, &mut self.manager, &self.log)?;
        Ok(())
    }

    // ---- stop and start ---------------------------------------------------------------------

    fn reopen(&mut self, a: &Value, expected: &Value) -> Result<Value, Refusal> {
        let clean = is(a, "clean", true);
        let high_watermark = int(a, "highWatermark", self.offsets.high_watermark());
        let checkpoint = int(a, "logStartOffset", self.offsets.log_start_offset());
        let recovery_point = int(a, "recoveryPoint", self.recovery_point);
        if clean {
            write_due_snapshot(&mut self.manager, &mut self.log)?;
        }
        if is(a, "deleteSnapshots", false) {
            self.log.snapshots.clear();
        }
        if !clean {
            // Where the torn tail begins is a matter of bytes, so it is taken from the result.
            let end = int(&expected["state"], "logEndOffset", 0);
            let batches = &mut self.log.active().batches;
            let count = batches.len();
            batches.retain(|(header, _)| header.base_offset() < end);
            if int(a, "tornTailBytes", 0) > 0 && batches.len() == count {
                // What was left ended below the log start, where Kafka began the log anew.
                batches.pop();
            }
            self.recover(recovery_point, checkpoint)?;
        }
        let active = self.log.active_base_offset();
        let last = self.log.active().batches.last();
        self.log.log_end_offset = last.map_or(active, |(header, _)| header.next_offset());

        if self.log.log_end_offset < checkpoint {
            self.log.segments = [(checkpoint, Segment::default())].into();
            self.log.snapshots.clear();
            self.log.log_end_offset = checkpoint;
        }
        let first = *self.log.segments.first_key_value().unwrap().0;
        self.manager = ProducerStateManager::new(self.log.snapshots.keys().copied().collect());
        let bases = self.log.segments.keys().copied().collect();
        for stray in self.manager.snapshots_mut().remove_stray(&bases) {
            self.log.snapshots.remove(&stray);
        }
        self.offsets.set_log_start_offset(checkpoint.max(first));
        self.rebuild(self.log.log_end_offset, clean)?;
        self.offsets = StableOffsets::new(checkpoint.max(first), &self.manager, &self.log);
        self.opened_at = self.now;
        let hw = LogOffsetMetadata::offset_only(high_watermark);
        self.offsets
            .update_high_watermark(hw, &mut self.manager, &self.log)?;
        Ok(json!({}))
    }

    fn recover(&mut self, recovery_point: i64, log_start_offset: i64) -> Result<(), Refusal> {
        let floor = self.log.segments.range(..=recovery_point).next_back();
        let floor = floor.map_or(i64::MIN, |(base, _)| *base);
        let bases: Vec<i64> = self
            .log
            .segments
            .range(floor..)
            .map(|(base, _)| *base)
            .collect();
        for base_offset in bases {
            let mut manager =
                ProducerStateManager::new(self.log.snapshots.keys().copied().collect());
            let rebuild = Rebuild {
                log_start_offset,
                last_offset: base_offset,
                reload_from_clean_shutdown: false,
                expiration: Some(self.expiration(self.now)),
            };
            rebuild_producer_state(&mut manager, &mut self.log, &rebuild)?;
            let segment = self.log.segments.get_mut(&base_offset).unwrap();
            segment.aborted.clear();
            for (header, marker) in &segment.batches {
                recover_batch(&mut manager, header, *marker, |row| {
                    segment.aborted.push(row)
                })?;
            }
            write_due_snapshot(&mut manager, &mut self.log)?;
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, clean: bool) -> Value {
        let mut producers: Vec<_> = self.manager.active_producers().collect();
        producers.sort_by_key(|entry| entry.producer_id());
        let mut report = json!({
            "mapEndOffset": self.manager.map_end_offset(),
            "activeProducers": producers.into_iter().map(entry_json).collect::<Vec<_>>(),
            "ongoingTransactions": self.manager.ongoing_txns().map(txn_json).collect::<Vec<_>>(),
            "unreplicatedTransactions":
                self.manager.unreplicated_txns().map(txn_json).collect::<Vec<_>>(),
        });
        report["transactionIndex"] = self
            .log
            .segments
            .iter()
            .map(|(base, segment)| {
                json!([
                    base,
                    segment.aborted.iter().map(row_json).collect::<Vec<_>>()
                ])
            })
            .collect();
        if clean {
            write_due_snapshot(&mut self.manager, &mut self.log).unwrap();
        }
        report["producerSnapshots"] = self
            .log
            .snapshots
            .iter()
            .map(|(offset, rows)| {
                let producers: Vec<Value> = rows
                    .iter()
                    .map(|row| entry_json(&ProducerStateEntry::from_snapshot_row(row)))
                    .collect();
                json!({"offset": offset, "producers": producers})
            })
            .collect();
        report
    }
}
