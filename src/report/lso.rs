//! Where read_committed stops, and who holds it there.

use serde::Serialize;

use super::gaps::{LostOffsets, OffsetRange, Walked};
use super::partition_state::{
    PartitionState, StateOptions, recovered_partition_state, stable_partition_state,
};
use super::transaction_state::{CoordinatorRow, TransactionClass, TransactionStates};
use crate::format::{NO_PRODUCER_EPOCH, NO_TIMESTAMP};
use crate::log::Error;
use crate::log::checkpoints::{CheckpointedOffsets, high_watermark_past_end};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{find_batch, is_damaged_at};
use crate::state::TxnMetadata;

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LsoRow {
    /// Path of the directory.
    pub path: String,
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// First offset a consumer can read.
    pub log_start_offset: i64,
    /// Where read_committed stops.
    pub last_stable_offset: i64,
    /// First offset of the oldest transaction that is open or not replicated; null if none is.
    pub first_unstable_offset: Option<i64>,
    /// Where read_uncommitted stops.
    pub high_watermark: i64,
    /// `checkpoint` (may be stale), `given`, or `assumed` to be the log end.
    pub high_watermark_source: &'static str,
    /// The checkpointed high watermark, if it lies above the log end: records up to it were
    /// acknowledged and are not here; a broker takes the log end. Null if it does not.
    pub high_watermark_past_end: Option<i64>,
    /// The offset after the last batch.
    pub log_end_offset: i64,
    /// High watermark less last stable offset.
    pub lag: i64,
    /// Who holds the last stable offset below the high watermark; null if nobody does.
    pub held_by: Option<HeldBy>,
    /// The last stable offset that the `.log` files alone give a broker which recovers all of them,
    /// where that differs from the one a broker loads; null where it does not.
    pub last_stable_offset_replayed: Option<i64>,
    /// Why the two differ.
    pub difference: Option<String>,
    /// The snapshot the state was loaded from; null if it was replayed from the log start.
    pub snapshot_offset: Option<i64>,
    /// Whether the state is all a broker knew.
    pub complete: bool,
    /// Why it may not be.
    pub incomplete_reason: Option<String>,
    /// Whether the next start forgets all producers and open transactions, as the mark of a clean
    /// stop is there and no snapshot: `read_committed` then reads to the high watermark.
    pub forgotten_at_start: bool,
}

/// The transaction that holds the last stable offset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    /// `open-transaction`; `unreplicated-marker`: it has ended, but its marker is not below the
    /// high watermark; `snapshot-only-transaction`: it is open, and none of its batches is in the
    /// log any more.
    pub kind: &'static str,
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch; null if the state has no such producer.
    pub producer_epoch: Option<i16>,
    /// First offset of the transaction, as the broker knows it.
    pub first_offset: i64,
    /// Offset of the marker, if it has ended.
    pub marker_offset: Option<i64>,
    /// Time of its first batch, in milliseconds: the batch's largest timestamp, which is what a
    /// broker keeps of it; null if the batch is gone.
    pub start_timestamp: Option<i64>,
    /// Time of the producer's last batch or marker, in milliseconds.
    pub last_timestamp: Option<i64>,
    /// The `.log` that has the first of its batches that are there; null if none is.
    pub file: Option<String>,
    /// Byte position of that batch.
    pub position: Option<u64>,
    /// Base offset of that batch: above `firstOffset` if the first one is gone.
    pub first_offset_in_log: Option<i64>,
    /// The transactional id of the producer; null if it is not known, or no `__transaction_state`
    /// is at hand.
    pub transactional_id: Option<String>,
    /// Who is going to end it, for open ones; as in `txns`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub class: Option<TransactionClass>,
    /// What the coordinator has of the transactional id, for open ones; as in `txns`.
    pub coordinator: Option<CoordinatorRow>,
    /// Of an open one: whether the checksum of the first of its batches is wrong: what that says of
    /// its producer may not be so.
    pub first_batch_is_damaged: bool,
    /// Of an open one: the first and the last of the offsets behind its first that the log has
    /// lost. Its marker may lie there, and other replicas have it ended then; null if nothing is.
    pub marker_may_be_lost_in: Option<OffsetRange>,
    /// The command that ends the transaction, for open ones.
    pub abort_command: Option<String>,
}

impl LsoRow {
    /// Adds what the coordinators know of the transaction that holds.
    pub fn join(&mut self, coordinators: &TransactionStates, dir: &PartitionDir) {
        let Some(held) = &mut self.held_by else {
            return;
        };
        if held.marker_offset.is_some() {
            let id = coordinators.transactional_id(held.producer_id);
            held.transactional_id = id.map(str::to_owned);
            return;
        }
        let epoch = held.producer_epoch.unwrap_or(NO_PRODUCER_EPOCH);
        let joined = coordinators.join_in(dir, held.producer_id, epoch);
        held.transactional_id = joined.transactional_id.map(str::to_owned);
        held.class = Some(joined.class);
        held.coordinator = joined.metadata.map(CoordinatorRow::from);
    }
}

/// The answer for one partition; `None` if the directory has no segment.
///
/// Reads only what is behind the newest snapshot, and the segment of the transaction that holds;
/// the whole log only if a transaction began below the log start, or the snapshot lies above the
/// high watermark.
///
/// # Errors
/// If a file cannot be read.
pub fn lso(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
) -> Result<Option<LsoRow>, Error> {
    let Some(state) = stable_partition_state(dir, checkpoints, options)? else {
        return Ok(None);
    };
    let log_alone = log_alone(dir, checkpoints, options, &state)?;
    let held_by = match holder(&state) {
        Some(txn) => {
            let log_alone = log_alone.as_ref().map(|(state, _)| state);
            Some(held_by(dir, checkpoints, &state, log_alone, options, txn)?)
        }
        None => None,
    };
    let (last_stable_offset_replayed, difference) = log_alone
        .map(|(state, why)| (state.offsets.last_stable_offset(), why))
        .filter(|(replayed, _)| *replayed != state.offsets.last_stable_offset())
        .unzip();
    let last_stable_offset = state.offsets.last_stable_offset();
    let high_watermark = state.offsets.high_watermark();
    Ok(Some(LsoRow {
        path: dir.path.display().to_string(),
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        log_start_offset: state.log_start_offset,
        last_stable_offset,
        first_unstable_offset: state.offsets.first_unstable_offset(),
        high_watermark,
        high_watermark_source: state.high_watermark_source.name(),
        high_watermark_past_end: past_end(dir, &state, checkpoints, options),
        log_end_offset: state.log_end_offset,
        lag: high_watermark.saturating_sub(last_stable_offset),
        held_by,
        last_stable_offset_replayed,
        difference,
        snapshot_offset: state.snapshot,
        complete: state.incomplete.is_none(),
        incomplete_reason: state.incomplete,
        forgotten_at_start: state.is_forgotten_at_start,
    }))
}

/// The checkpointed high watermark, if it lies above the log end.
fn past_end(
    dir: &PartitionDir,
    state: &PartitionState,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
) -> Option<i64> {
    let is_asked = options.at_offset.is_none() && dir.is_whole;
    let past_end = || high_watermark_past_end(dir, checkpoints, state.log_end_offset, options.io);
    is_asked.then(past_end).flatten()
}

/// The transaction whose first offset is the first unstable offset, if that is below the high
/// watermark (`ProducerStateManager.firstUnstableOffset`).
fn holder(state: &PartitionState) -> Option<TxnMetadata> {
    if state.offsets.last_stable_offset() >= state.offsets.high_watermark() {
        return None;
    }
    let open = state.manager.ongoing_txns();
    let ended = state.manager.unreplicated_txns();
    open.chain(ended)
        .min_by_key(|txn| txn.first_offset.message_offset)
        .copied()
}

fn held_by(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    state: &PartitionState,
    log_alone: Option<&PartitionState>,
    options: StateOptions,
    txn: TxnMetadata,
) -> Result<HeldBy, Error> {
    let first_offset = txn.first_offset.message_offset;
    let entry = state.manager.last_entry(txn.producer_id);
    let batch_at = |offset: i64| {
        find_batch(dir, options.io, offset)
            .map(|place| place.filter(|place| place.base_offset == offset))
    };
    // Where the first batch is gone, the files may still have others.
    let mut place = batch_at(first_offset)?;
    let is_first_there = place.is_some();
    let later = log_alone
        .filter(|_| !is_first_there && txn.last_offset.is_none())
        .and_then(|alone| alone.manager.last_entry(txn.producer_id))
        .and_then(|entry| entry.current_txn_first_offset());
    if let Some(later) = later {
        place = batch_at(later)?;
    }
    let kind = match (txn.last_offset, &place) {
        (Some(_), _) => "unreplicated-marker",
        (None, Some(_)) => "open-transaction",
        (None, None) => "snapshot-only-transaction",
    };
    let known = |time: i64| (time != NO_TIMESTAMP).then_some(time);
    let lost = match txn.last_offset {
        None => {
            let walked = Walked {
                whole_from: state.whole_from,
                log_end_offset: state.log_end_offset,
            };
            LostOffsets::behind(dir, checkpoints, options.io, first_offset, walked)?
        }
        Some(_) => LostOffsets::default(),
    };
    let first_batch_is_damaged = match &place {
        Some(it) if txn.last_offset.is_none() => {
            is_damaged_at(dir, options.io, it.segment_base_offset, it.position)?
        }
        Some(_) | None => false,
    };
    Ok(HeldBy {
        kind,
        producer_id: txn.producer_id,
        producer_epoch: entry.map(|entry| entry.producer_epoch()),
        first_offset,
        marker_offset: txn.last_offset,
        start_timestamp: place
            .as_ref()
            .filter(|_| is_first_there)
            .and_then(|place| known(place.max_timestamp)),
        last_timestamp: entry.and_then(|entry| known(entry.last_timestamp())),
        position: place.as_ref().map(|place| place.position),
        first_offset_in_log: place.as_ref().map(|place| place.base_offset),
        transactional_id: None,
        class: None,
        coordinator: None,
        file: place.map(|place| place.file),
        first_batch_is_damaged,
        marker_may_be_lost_in: lost.between(
            first_offset.saturating_add(1),
            options.at_offset.unwrap_or(i64::MAX),
        ),
        abort_command: match (txn.last_offset, dir.topic(), dir.partition()) {
            (None, Some(topic), Some(partition)) => abort_command(topic, partition, first_offset),
            (Some(_), _, _) | (None, None, _) | (None, Some(_), None) => None,
        },
    })
}

/// The command that has the broker look up the producer of an open transaction and abort it
/// (KIP-664).
///
/// `None` for a topic name that Kafka does not allow (`Topic.validate`): a directory may have any
/// name, and this line is made to be pasted into a shell.
#[must_use]
pub fn abort_command(topic: &str, partition: i32, start_offset: i64) -> Option<String> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    topic.bytes().all(is_legal).then(|| {
        format!(
            "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} \
             --partition {partition} --start-offset {start_offset}"
        )
    })
}

/// The state by the log alone, and why its last stable offset may differ: where a transaction began
/// below the log start, or the snapshot was taken above the high watermark and so has forgotten
/// transactions that had ended.
fn log_alone(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: StateOptions,
    state: &PartitionState,
) -> Result<Option<(PartitionState, String)>, Error> {
    let gone = state
        .manager
        .ongoing_txns()
        .find(|txn| txn.first_offset.message_offset < state.log_start_offset);
    let high_watermark = state.offsets.high_watermark();
    let above = state.snapshot.filter(|&snapshot| snapshot > high_watermark);
    let why = match (gone, above) {
        (_, _) if options.from_scratch => return Ok(None),
        (Some(gone), _) => format!(
            "the snapshot has an open transaction of producer {} from offset {}, and the log \
             begins at {}",
            gone.producer_id, gone.first_offset.message_offset, state.log_start_offset
        ),
        (None, Some(snapshot)) => format!(
            "the snapshot at {snapshot} has forgotten transactions whose marker is not below the \
             high watermark {high_watermark}"
        ),
        (None, None) => return Ok(None),
    };
    let alone = recovered_partition_state(dir, checkpoints, options)?;
    Ok(alone.map(|alone| (alone, why)))
}
