//! The verdict on batches that were never written, put to the log one after another.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::logged::{Replay, ReplayOptions};
use super::request::{Append, AppendFrom, Request, Verification};
use super::row::{
    Answer, JudgedBatch, ReplayRow, ReplayRowType, ReplaySource, StoredAt, ViewRow, Views,
    accepting_rule, message, next_sequence,
};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::report::partition_state::{StateOptions, load_partition_state};
use crate::state::append_check::Validated;
use crate::state::verification_state::VerificationRequest;
use crate::state::{
    AppendCheck, AppendOrigin, Expiration, LogOffsetMetadata, ProducerStateManager, Refusal,
    TransactionVersion, Verdict, VerificationGuard,
};

/// Requests that are looked for in the log; of those behind only the verdicts are told.
const MAX_LOOKED_FOR: usize = 1000;

/// What is put to a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questions<'r> {
    /// The requests.
    pub requests: &'r [Request],
    /// The version of requests that do not say theirs.
    pub transaction_version: TransactionVersion,
    /// The clock, and the age at which a producer is dropped when a broker starts.
    pub expiration: Option<Expiration>,
}

/// Puts requests to a log; those that are appended count for the ones behind them.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn ask<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &ReplayOptions,
    questions: &Questions<'_>,
    mut emit: impl FnMut(&ReplayRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut history = History::new(questions.requests);
    let mut replay = Replay::begin(dir, checkpoints, options)?;
    let limit = options.at_offset.unwrap_or(i64::MAX);
    walk_partition(dir, options.io, 0, |at, entry| {
        let Some(batch) = replay.step(&at, entry, limit)? else {
            return Ok::<_, Error>(ControlFlow::Continue(()));
        };
        if batch.header.last_offset() >= limit {
            return Ok(ControlFlow::Break(()));
        }
        history.batch(batch.header);
        replay.take_in(&batch)?;
        Ok(ControlFlow::Continue(()))
    })?;
    let log_start_offset = replay.offsets.log_start_offset;
    let next_offset = replay.offsets.next_offset.min(limit);
    let mut views = [
        View::new(replay.manager, next_offset),
        View::new(
            restarted(dir, checkpoints, options, questions.expiration)?,
            next_offset,
        ),
        View::new(ProducerStateManager::default(), next_offset),
    ];
    for (index, request) in questions.requests.iter().enumerate() {
        let [running, restarted, state_lost] = &mut views;
        let (id, epoch) = request.producer();
        let known = running.manager.last_entry(id).copied();
        let outcome = running.put(request, questions);
        let header = request.header(0);
        let has_sequence = header.base_sequence() >= 0;
        let source = ReplaySource {
            row_type: ReplayRowType::Request,
            topic: dir.topic(),
            partition: dir.partition(),
            file: None,
        };
        let batch = JudgedBatch {
            position: None,
            base_offset: outcome.offsets.map(|(first, _)| first),
            last_offset: outcome.offsets.map(|(_, last)| last),
            producer_id: (id >= 0).then_some(id),
            producer_epoch: (id >= 0).then_some(epoch),
            base_sequence: has_sequence.then(|| header.base_sequence()),
            last_sequence: has_sequence.then(|| header.last_sequence()),
            is_transactional: header.attributes().is_transactional(),
            control_type: request.marker().map(|it| it.control_type.name()),
            coordinator_epoch: request.marker().map(|it| it.coordinator_epoch),
        };
        let views = Views {
            running: outcome.row,
            restarted: restarted.put(request, questions).row,
            state_lost: state_lost.put(request, questions).row,
        };
        let answer = Answer {
            next_sequence: known.as_ref().map(next_sequence),
            known_epoch: known.map(|entry| entry.producer_epoch()),
            stored_at: history.stored_at(index),
            log_start_offset: Some(log_start_offset),
            ..Answer::new(outcome.message, views)
        };
        let row = ReplayRow {
            source,
            batch,
            answer,
        };
        emit(&row)?;
    }
    Ok(())
}

/// What a broker knows that stopped cleanly and started again: the state goes through a snapshot,
/// which keeps one batch a producer, and producers that are too old are not loaded
/// (`ProducerStateManager.loadFromSnapshot`).
fn restarted(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &ReplayOptions,
    expiration: Option<Expiration>,
) -> Result<ProducerStateManager, Error> {
    let state_options = StateOptions {
        io: options.io,
        from_scratch: options.from_scratch,
        at_offset: options.at_offset,
        expiration,
        high_watermark: None,
    };
    let mut manager = ProducerStateManager::default();
    if let Some(state) = load_partition_state(dir, checkpoints, state_options)? {
        let rows: Vec<_> = state.manager.snapshot_rows().collect();
        manager.load_from_snapshot(rows, state.log_end_offset, expiration.as_ref());
    }
    Ok(manager)
}

/// One broker.
struct View {
    manager: ProducerStateManager,
    next_offset: i64,
}

/// What it answers.
struct Outcome {
    row: ViewRow,
    message: Option<String>,
    /// The offsets the producer is told.
    offsets: Option<(i64, i64)>,
}

impl View {
    fn new(manager: ProducerStateManager, next_offset: i64) -> Self {
        Self {
            manager,
            next_offset,
        }
    }

    fn put(&mut self, request: &Request, questions: &Questions<'_>) -> Outcome {
        let header = request.header(self.next_offset);
        let origin = origin(request);
        let accepted = accepting_rule(
            &header,
            self.manager.last_entry(header.producer_id()),
            origin,
        );
        let verdict = match self.check(request, &header, origin, questions) {
            Ok(None) => Verdict::Appended,
            Ok(Some(duplicate)) => duplicate,
            Err(refusal) => Verdict::Rejected(refusal),
        };
        let offsets = match &verdict {
            Verdict::Appended => Some((header.base_offset(), header.last_offset())),
            Verdict::Duplicate(earlier) => Some((earlier.first_offset(), earlier.last_offset)),
            Verdict::Rejected(_) => None,
        };
        if verdict == Verdict::Appended {
            self.next_offset = header.next_offset();
        }
        Outcome {
            row: ViewRow::new(&verdict, accepted),
            message: message(&verdict),
            offsets,
        }
    }

    /// As `ReplicaManager.appendRecords` goes about it: a guard first if the batch needs one, then
    /// the append.
    fn check(
        &mut self,
        request: &Request,
        header: &RecordBatchHeader,
        origin: AppendOrigin,
        questions: &Questions<'_>,
    ) -> Result<Option<Verdict>, Refusal> {
        let default = questions.transaction_version;
        let (guard, enabled, version) = match request {
            Request::Append(append) => {
                let version = append.transaction_version.unwrap_or(default);
                let guard = self.guard(append, version)?;
                let enabled = append.verification != Verification::Disabled;
                (guard, enabled, TransactionVersion::UNKNOWN)
            }
            Request::EndTxnMarker(marker) => {
                let version = marker.transaction_version.unwrap_or(default);
                (VerificationGuard::SENTINEL, true, version)
            }
        };
        let check = AppendCheck {
            origin,
            verification_guard: guard,
            transaction_verification_enabled: enabled,
            transaction_version: version,
        };
        let place = LogOffsetMetadata::offset_only(header.base_offset());
        let batches = [(header, request.marker())];
        match self.manager.analyze_and_validate(batches, place, &check)? {
            Validated::Accepted(append) => {
                self.manager.append(append, header.last_offset(), |_| {})?;
                Ok(None)
            }
            Validated::Duplicate(earlier) => Ok(Some(Verdict::Duplicate(earlier))),
        }
    }

    fn guard(
        &mut self,
        append: &Append,
        version: TransactionVersion,
    ) -> Result<VerificationGuard, Refusal> {
        let is_asked = match append.verification {
            Verification::Verified | Verification::Failed => true,
            Verification::Missing | Verification::Disabled => false,
        };
        if !is_asked || !append.is_transactional || append.producer_id < 0 {
            return Ok(VerificationGuard::SENTINEL);
        }
        let asked = VerificationRequest {
            producer_id: append.producer_id,
            producer_epoch: append.producer_epoch,
            base_sequence: append.base_sequence,
            supports_epoch_bump: version.supports_epoch_bump(),
        };
        let now_ms = append.max_timestamp;
        let guard = self
            .manager
            .maybe_start_transaction_verification(&asked, now_ms)?;
        if append.verification == Verification::Failed && guard != VerificationGuard::SENTINEL {
            return Err(Refusal::NoVerification);
        }
        Ok(guard)
    }
}

fn origin(request: &Request) -> AppendOrigin {
    match request {
        Request::Append(append) if append.origin == AppendFrom::Client => AppendOrigin::Client,
        Request::Append(_) | Request::EndTxnMarker(_) => AppendOrigin::Coordinator,
    }
}

/// Where the sequences asked for are in the log.
struct History {
    by_producer: HashMap<i64, Vec<usize>>,
    requests: Vec<Sought>,
}

struct Sought {
    producer_epoch: i16,
    base_sequence: i32,
    last_sequence: i32,
    found: Option<StoredAt>,
}

impl History {
    fn new(requests: &[Request]) -> Self {
        let mut by_producer: HashMap<i64, Vec<usize>> = HashMap::new();
        let mut sought = Vec::new();
        for (index, request) in requests.iter().take(MAX_LOOKED_FOR).enumerate() {
            let header = request.header(0);
            if header.base_sequence() >= 0 && header.has_producer_id() {
                let of = by_producer.entry(header.producer_id()).or_default();
                of.push(index);
            }
            sought.push(Sought {
                producer_epoch: header.producer_epoch(),
                base_sequence: header.base_sequence(),
                last_sequence: header.last_sequence(),
                found: None,
            });
        }
        Self {
            by_producer,
            requests: sought,
        }
    }

    #[inline]
    fn batch(&mut self, header: &RecordBatchHeader) {
        if !header.has_producer_id() || header.attributes().is_control() {
            return;
        }
        let Some(indexes) = self.by_producer.get(&header.producer_id()) else {
            return;
        };
        for &index in indexes {
            if let Some(sought) = self.requests.get_mut(index)
                && sought.producer_epoch == header.producer_epoch()
            {
                sought.batch(header);
            }
        }
    }

    fn stored_at(&self, index: usize) -> Option<StoredAt> {
        self.requests.get(index)?.found
    }
}

impl Sought {
    fn batch(&mut self, header: &RecordBatchHeader) {
        if let Some(found) = &mut self.found {
            found.batches_back += 1;
        }
        let into_batch = self.base_sequence.wrapping_sub(header.base_sequence()) & i32::MAX;
        if header.base_sequence() < 0 || into_batch > header.last_offset_delta() {
            return;
        }
        let is_exact = self.base_sequence == header.base_sequence()
            && self.last_sequence == header.last_sequence();
        // An exact one says more than a later one that only overlaps.
        if is_exact || self.found.is_none_or(|found| !found.is_exact) {
            self.found = Some(StoredAt {
                first_offset: header.base_offset(),
                last_offset: header.last_offset(),
                is_exact,
                batches_back: 1,
            });
        }
    }
}
