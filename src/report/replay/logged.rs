//! The verdict on every batch of a log, given the state before it.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::row::{
    Answer, JudgedBatch, ReplayRow, ReplayRowType, ReplaySource, ViewRow, Views, accepting_rule,
    message,
};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::{Batch, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::{Error, Io};
use crate::report::coordinator_topics::is_written_by_coordinator;
use crate::report::filter::Filter;
use crate::report::gaps::GapClass;
use crate::report::gaps::offsets::{Offsets, Placed};
use crate::report::partition_state::read_snapshot;
use crate::state::{
    AppendCheck, AppendOrigin, MissingCause, OffsetsGone, ProducerStateEntry, ProducerStateManager,
    Refusal, TransactionVersion, Verdict, recover_batch,
};

/// How the log is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// How files are read.
    pub io: Io,
    /// Which batches get a row. All are replayed.
    pub filter: Filter,
    /// Use no snapshot: nothing is known before the log's first batch.
    pub from_scratch: bool,
    /// Only the batches below this offset.
    pub at_offset: Option<i64>,
    /// The rule for markers; the log does not hold it.
    pub transaction_version: TransactionVersion,
    /// How long a producer may be idle before it is forgotten; to explain what is in the log.
    pub producer_id_expiration_ms: i64,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Rows handed out.
    pub rows: u64,
    /// Rows that are not `appended` and that neither compaction nor retention explains.
    pub not_appended: u64,
    /// Rows that are not `appended` because the cleaner or retention took what came before.
    pub gone_before: u64,
    /// The offset behind the last batch.
    pub log_end_offset: i64,
    /// Where the log starts.
    pub log_start_offset: i64,
    /// Segments, by place in the directory, that vanished since it was listed.
    pub vanished: Vec<usize>,
}

/// Replays a log and hands out a row for each batch.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn replay_log<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &ReplayOptions,
    mut emit: impl FnMut(&ReplayRow<'_>) -> Result<(), E>,
) -> Result<ReplayCounts, E> {
    let mut replay = Replay::begin(dir, checkpoints, options)?;
    let mut counts = ReplayCounts::default();
    let limit = options.at_offset.unwrap_or(i64::MAX);
    counts.vanished = walk_partition(dir, options.io, 0, |at, entry| {
        let Some(batch) = replay.step(&at, entry, limit)? else {
            return Ok(ControlFlow::Continue(()));
        };
        if batch.header.last_offset() >= limit {
            return Ok(ControlFlow::Break(()));
        }
        if options.filter.wants_batch(batch.header) {
            let row = replay.row(dir, at, &batch)?;
            batch.check_unchanged()?;
            counts.rows += 1;
            if row.answer.verdict != Verdict::Appended.name() {
                let explained_by = row.answer.explained_by;
                let is_normal = explained_by.is_some_and(|it| NORMAL.contains(&it));
                counts.gone_before += u64::from(is_normal);
                counts.not_appended += u64::from(!is_normal);
            }
            emit(&row)?;
        }
        replay.take_in(&batch)?;
        Ok::<_, E>(ControlFlow::Continue(()))
    })?;
    counts.log_end_offset = replay.offsets.next_offset.min(limit);
    counts.log_start_offset = replay.offsets.log_start_offset;
    Ok(counts)
}

/// The word for what the cleaner explains.
const COMPACTED: &str = "compacted-between-batches";
/// The word for what retention explains.
const BEFORE_LOG_START: &str = "before-log-start";
/// What explains a batch without anything being wrong.
const NORMAL: [&str; 2] = [COMPACTED, BEFORE_LOG_START];

/// A replay under way.
pub(super) struct Replay<'d> {
    pub(super) manager: ProducerStateManager,
    pub(super) offsets: Offsets<'d>,
    /// What was gone at each producer's last batch; empty as long as nothing is.
    marks: HashMap<i64, OffsetsGone>,
    /// Producers of which only markers have been seen, with the markers' epoch, in a log whose
    /// beginning is gone and without a snapshot: their data lies before the log start.
    only_markers: HashMap<i64, i16>,
    is_beginning_gone: bool,
    options: &'d ReplayOptions,
    data_origin: AppendOrigin,
    ignored: Vec<crate::report::gaps::Finding>,
}

impl<'d> Replay<'d> {
    pub(super) fn begin(
        dir: &'d PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: &'d ReplayOptions,
    ) -> Result<Self, Error> {
        let offsets = Offsets::new(dir, options.io, checkpoints);
        let mut manager = ProducerStateManager::default();
        let first = dir.segments.first().map_or(0, |it| it.base_offset);
        let is_wanted = !options.from_scratch && options.at_offset.is_none_or(|at| first <= at);
        let snapshot = if is_wanted {
            read_snapshot(dir, options.io, first)?
        } else {
            None
        };
        let is_beginning_gone = match snapshot {
            Some(Ok(rows)) => {
                manager.load_from_snapshot(rows, first, None);
                false
            }
            Some(Err(_)) | None => {
                manager.load_without_snapshot(first);
                first > 0
            }
        };
        let data_origin = if is_written_by_coordinator(dir.topic()) {
            AppendOrigin::Coordinator
        } else {
            AppendOrigin::Client
        };
        Ok(Self {
            manager,
            offsets,
            marks: HashMap::new(),
            only_markers: HashMap::new(),
            is_beginning_gone,
            options,
            data_origin,
            ignored: Vec::new(),
        })
    }

    /// Follows the offsets; hands back a batch below `limit` that is to be judged.
    #[inline]
    pub(super) fn step<'w>(
        &mut self,
        at: &SegmentAt<'_>,
        entry: Entry<'w>,
        limit: i64,
    ) -> Result<Option<Batch<'w>>, Error> {
        self.offsets.enter(at.index, &mut self.ignored)?;
        let (first_offset, last_offset, position) = match &entry {
            Entry::Batch(batch) => (
                batch.header.base_offset(),
                batch.header.last_offset(),
                batch.position,
            ),
            Entry::Legacy(entry) => (
                self.offsets.next_offset.min(entry.header.offset()),
                entry.header.offset(),
                entry.position,
            ),
            Entry::Damage(damage) => {
                self.offsets.damage(at.index, **damage);
                return Ok(None);
            }
        };
        if last_offset < limit {
            let placed = Placed {
                segment: at.index,
                position,
                first_offset,
                last_offset,
            };
            self.offsets.entry(placed, &mut self.ignored)?;
            self.ignored.clear();
        }
        match entry {
            Entry::Batch(batch) => Ok(Some(batch)),
            Entry::Legacy(_) | Entry::Damage(_) => Ok(None),
        }
    }

    /// Takes a batch in as a follower does. One that would stop a broker is passed over.
    #[inline]
    pub(super) fn take_in(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let marker = batch.marker()?;
        if self.is_beginning_gone {
            self.follow_markers(batch.header, marker.is_some());
        }
        let gone = self.offsets.gone;
        if gone != OffsetsGone::default() && batch.header.has_producer_id() {
            let (producer_id, epoch) = (batch.header.producer_id(), batch.header.producer_epoch());
            let known = self.manager.last_entry(producer_id);
            // A marker says nothing of the sequences before it but where it begins an epoch.
            let begins_epoch = known.is_some_and(|it| it.producer_epoch() != epoch);
            if !batch.header.attributes().is_control() || begins_epoch {
                self.marks.insert(producer_id, gone);
            }
        }
        let _ = recover_batch(&mut self.manager, batch.header, marker, |_| {});
        Ok(())
    }

    fn follow_markers(&mut self, header: &RecordBatchHeader, is_marker: bool) {
        let (producer_id, epoch) = (header.producer_id(), header.producer_epoch());
        if is_marker && self.manager.last_entry(producer_id).is_none() {
            self.only_markers.insert(producer_id, epoch);
        } else if !is_marker || self.only_markers.get(&producer_id) != Some(&epoch) {
            self.only_markers.remove(&producer_id);
        }
    }

    fn row<'r>(
        &self,
        dir: &'r PartitionDir,
        at: SegmentAt<'r>,
        batch: &Batch<'_>,
    ) -> Result<ReplayRow<'r>, Error> {
        let header = batch.header;
        let marker = batch.marker()?;
        let mut check = AppendCheck::for_logged_batch(header, self.options.transaction_version);
        if check.origin == AppendOrigin::Client {
            check.origin = self.data_origin;
        }
        let entry = self.manager.last_entry(header.producer_id());
        let accepted = accepting_rule(header, entry, check.origin);
        let verdict = self.manager.judge(header, marker, &check);
        let running = ViewRow::new(&verdict, accepted);
        let restarted = match (verdict, entry) {
            // What is next in sequence is so after the last batch alone.
            (Verdict::Appended, _) | (_, None) => running.clone(),
            (_, Some(entry)) => {
                let mut manager = ProducerStateManager::default();
                manager.load_from_snapshot([entry.snapshot_row()], 0, None);
                let verdict = manager.judge(header, marker, &check);
                ViewRow::new(&verdict, accepted)
            }
        };
        let state_lost = ViewRow::appended(accepting_rule(header, None, check.origin));
        let explained = self.explain(&verdict, header, entry);
        let has_producer = header.has_producer_id();
        let has_sequence = header.base_sequence() >= 0;
        let source = ReplaySource {
            row_type: ReplayRowType::Batch,
            topic: dir.topic(),
            partition: dir.partition(),
            file: Some(at.file),
        };
        let batch = JudgedBatch {
            position: Some(batch.position),
            base_offset: Some(header.base_offset()),
            last_offset: Some(header.last_offset()),
            producer_id: has_producer.then(|| header.producer_id()),
            producer_epoch: has_producer.then(|| header.producer_epoch()),
            base_sequence: has_sequence.then(|| header.base_sequence()),
            last_sequence: has_sequence.then(|| header.last_sequence()),
            is_transactional: header.attributes().is_transactional(),
            control_type: marker.map(|marker| marker.control_type.name()),
            coordinator_epoch: marker.map(|marker| marker.coordinator_epoch),
        };
        let views = Views {
            running,
            restarted,
            state_lost,
        };
        let answer = Answer {
            explained_by: explained.map(|(class, _)| class),
            explanation: explained.map(|(_, words)| words),
            ..Answer::new(message(&verdict), views)
        };
        Ok(ReplayRow {
            source,
            batch,
            answer,
        })
    }

    /// Why a batch is in the log that a leader with this state would not append.
    fn explain(
        &self,
        verdict: &Verdict,
        header: &RecordBatchHeader,
        entry: Option<&ProducerStateEntry>,
    ) -> Option<(&'static str, &'static str)> {
        let refusal = match verdict {
            Verdict::Appended => return None,
            Verdict::Duplicate(_) => None,
            Verdict::Rejected(refusal) => Some(refusal),
        };
        let marker_epoch = self.only_markers.get(&header.producer_id());
        if let Some(Refusal::MustStartAtZero { .. }) = refusal
            && marker_epoch == Some(&header.producer_epoch())
        {
            return Some((
                BEFORE_LOG_START,
                "the batches before lie before the log start; the leader had them",
            ));
        }
        if let Some(missing) = refusal.and_then(missing_sequences) {
            let mark = self.marks.get(&header.producer_id());
            let before = mark.copied().unwrap_or_default();
            match self.offsets.gone.since(before).cause_of(missing) {
                Some(MissingCause::Compacted) => {
                    return Some((
                        COMPACTED,
                        "the cleaner took the batches between; the leader had them",
                    ));
                }
                Some(MissingCause::BeforeLogStart) => {
                    return Some((
                        BEFORE_LOG_START,
                        "the batches between lay before the log start; the leader had them",
                    ));
                }
                Some(MissingCause::Lost) => {
                    return Some((
                        GapClass::SegmentMissing.name(),
                        "the batches between lie in offsets that are missing or damaged",
                    ));
                }
                Some(MissingCause::NeverStored | MissingCause::ExpiredOrLostState) | None => {}
            }
        }
        if let Some(Refusal::StaleCoordinatorEpoch { .. }) = refusal {
            return Some((
                "follower-append",
                "only a leader compares coordinator epochs: the batch came through replication",
            ));
        }
        let idle = entry.map(|it| header.max_timestamp().saturating_sub(it.last_timestamp()));
        let is_idle = idle.is_some_and(|idle| idle >= self.options.producer_id_expiration_ms);
        let is_open = entry.is_some_and(|it| it.current_txn_first_offset().is_some());
        if is_idle && !is_open {
            return Some((
                "expired-producer",
                "the producer was idle for longer than it is remembered",
            ));
        }
        Some((
            GapClass::ExpiredOrLostState.name(),
            "the leader had lost the producer's state, by expiry or with its snapshots, or the \
             batch came through replication",
        ))
    }
}

/// How many sequences lie between what is known and the batch.
fn missing_sequences(refusal: &Refusal) -> Option<u64> {
    let missing = match *refusal {
        Refusal::SequenceGap {
            expected, found, ..
        } => found.wrapping_sub(expected) & i32::MAX,
        Refusal::NewEpochMustStartAtZero { found, .. }
        | Refusal::MustStartAtZero { found, .. }
        | Refusal::UnknownProducerMustStartAtZero { found } => found,
        Refusal::StaleProducerEpoch { .. }
        | Refusal::StaleMarkerEpoch { .. }
        | Refusal::MarkerEpochNotRaised { .. }
        | Refusal::StaleCoordinatorEpoch { .. }
        | Refusal::MarkerWithoutTransactionVersion
        | Refusal::NoVerification
        | Refusal::OpenTransaction { .. }
        | Refusal::LowerSequencePending { .. }
        | Refusal::BelowWindow { .. }
        | Refusal::NoSuchBatchInWindow { .. }
        | Refusal::TransactionNotStarted { .. }
        | Refusal::LogStartAboveHighWatermark { .. }
        | Refusal::HighWatermarkAboveLogEnd { .. }
        | Refusal::NegativeHighWatermark { .. } => return None,
    };
    u64::try_from(missing).ok()
}
