//! The step that gives a batch's bytes back: a leader's append where it does, else a follower's,
//! which takes any batch as it is. Each is taken into the producers' state, so that the next one is
//! judged as a broker judges it.

use super::retrace::{Reason, Retrace};
use crate::append::scenario::batch::{self, Sender};
use crate::append::scenario::model::{
    AppendStep, DataBatch, FollowerBatch, FollowerBatchKind, Marker, Step, Verification,
};
use crate::append::validator::Validation;
use crate::format::NO_SEQUENCE;
use crate::format::control_record::EndTransactionMarker;
use crate::format::record_batch::RecordBatchHeader;
use crate::state::append_check::Validated;
use crate::state::{
    AppendCheck, AppendOrigin, LogOffsetMetadata, TransactionVersion, Verdict, VerificationGuard,
};

impl Retrace {
    pub(super) fn data_step(
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

    pub(super) fn marker_step(
        &mut self,
        spec: Marker,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        original: &[u8],
    ) -> Result<Option<Step>, Reason> {
        let mut sent = Vec::new();
        if batch::marker(&spec, &Sender::client(self.now_ms), &mut sent).is_err() {
            return Ok(None);
        }
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
            self.apply(header, marker, &check)?;
            return Ok(Some(Step::EndTxnMarker {
                marker: spec,
                partition_leader_epoch: header.partition_leader_epoch(),
                transaction_version: raises.then_some(2),
            }));
        }
        let batch = FollowerBatch {
            base_offset: header.base_offset(),
            partition_leader_epoch: header.partition_leader_epoch(),
            kind: FollowerBatchKind::Marker(spec),
        };
        if !self.gives_back(&batch, original) {
            return Ok(None);
        }
        self.follow(header, marker)?;
        Ok(Some(follower_step(header, batch)))
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
