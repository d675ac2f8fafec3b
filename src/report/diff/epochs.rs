//! Leader epochs of two replicas: where they part, and what a follower would do about it.

use serde::Serialize;

use super::kind::{Side, Sides};
use crate::format::file_name::{FileState, LogFileKind};
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::state::{EpochEndOffset, LeaderEpochs, ReplicaLog, truncate_follower};

/// What the follower does when one of the two replicas leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TruncationRow {
    /// `left` or `right`: who follows.
    pub follower: &'static str,
    /// Whether it cuts anything off; null if that hangs on a high watermark that is not known.
    pub truncates: Option<bool>,
    /// Where its log ends then.
    pub truncate_to_offset: Option<i64>,
    /// Where it is cut on the way, if the leader has to be asked more than once.
    pub steps: Vec<i64>,
    /// It drops everything and begins anew: the leader's log starts behind its end, or it is cut
    /// below its own start (`UnifiedLog.truncateTo`).
    pub is_full: bool,
    /// Epoch that the leader answers with, if it finds that the logs diverge.
    pub leader_epoch: Option<i32>,
    /// Where the leader says that epoch ends.
    pub leader_end_offset: Option<i64>,
    /// Offsets cut off. A batch that holds the place of the cut goes whole
    /// (`LogSegment.truncateTo`).
    pub offsets_lost: Option<i64>,
    /// The leader's log start, if it is above the follower's: the follower takes it over, and
    /// deletes what lies below it (`ReplicaFetcherThread.processPartitionData`).
    pub raises_log_start_to: Option<i64>,
    /// Where the follower stops to fetch and tries again for ever: the leader's batch there is
    /// damaged, and a follower takes none whose checksum is wrong, that goes back in offsets or
    /// that is no batch (`CorruptRecordException`, `OffsetsOutOfOrderException`).
    pub stops_at_offset: Option<i64>,
    /// Whether other data stays below the place of the cut: no broker notices that.
    pub leaves_difference: bool,
}

/// The leader epochs that a broker goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownEpochs {
    pub(super) epochs: LeaderEpochs,
    /// `checkpoint`, `batches` or `none`.
    pub(super) source: &'static str,
    /// What is wrong with the checkpoint.
    pub(super) defect: Option<String>,
    /// Whether the checkpoint is there.
    pub(super) has_file: bool,
}

/// A log, and what is known of it, to tell the epochs of.
pub(super) struct EpochsOf<'d> {
    pub(super) dir: &'d PartitionDir,
    pub(super) io: Io,
    pub(super) by_batches: &'d LeaderEpochs,
    /// As `log-start-offset-checkpoint` has it.
    pub(super) checkpointed_start: Option<i64>,
    pub(super) log_end_offset: i64,
    /// Whether the `.log` files are all there is to go by.
    pub(super) is_log_alone: bool,
}

/// The epochs of `leader-epoch-checkpoint` as a broker loads it after a clean stop
/// (`LogLoader.load`): none without the file, which it does not make again from the batches. If
/// the file cannot be read, the broker does not load the partition; those of the batches then.
pub(super) fn known_epochs(of: &EpochsOf<'_>) -> Result<KnownEpochs, Error> {
    let EpochsOf {
        dir,
        io,
        by_batches,
        ..
    } = *of;
    let of_batches = |defect, has_file| KnownEpochs {
        epochs: by_batches.clone(),
        source: "batches",
        defect,
        has_file,
    };
    let file = dir.files.iter().find(|file| {
        file.parsed.kind == LogFileKind::LeaderEpochCheckpoint
            && file.parsed.state == FileState::Live
    });
    let file = match file {
        Some(file) => dir.open_file(file, io)?,
        None => None,
    };
    let Some(file) = file else {
        return Ok(if of.is_log_alone {
            of_batches(None, false)
        } else {
            KnownEpochs {
                epochs: LeaderEpochs::default(),
                source: "none",
                ..of_batches(None, false)
            }
        });
    };
    let decoded = match LeaderEpochCheckpoint::decode(&file.read_all()?) {
        Ok(decoded) => decoded,
        Err(error) => return Ok(of_batches(Some(error.to_string()), true)),
    };
    let Ok(mut epochs) = LeaderEpochs::from_entries(decoded.entries) else {
        return Ok(of_batches(
            Some("a negative epoch or offset".to_owned()),
            true,
        ));
    };
    epochs.truncate_from_end(of.log_end_offset);
    // By the checkpoint, not by where the log starts; without one it is 0.
    epochs.truncate_from_start(of.checkpointed_start.unwrap_or(0));
    Ok(KnownEpochs {
        epochs,
        source: "checkpoint",
        defect: None,
        has_file: true,
    })
}

/// The highest epoch both logs have batches of, and where the shorter of the two ends in it.
pub(super) fn last_common(
    epochs: Sides<&LeaderEpochs>,
    log_end_offsets: Sides<i64>,
) -> Option<EpochEndOffset> {
    let mut left = epochs.left.entries().rev().peekable();
    let mut right = epochs.right.entries().rev().peekable();
    loop {
        let (l, r) = (left.peek()?.epoch, right.peek()?.epoch);
        if l > r {
            left.next();
        } else if r > l {
            right.next();
        } else {
            let end = |epochs: &LeaderEpochs, end| epochs.end_offset_for(l, end);
            let of_left = end(epochs.left, log_end_offsets.left)?;
            let of_right = end(epochs.right, log_end_offsets.right)?;
            return Some(EpochEndOffset {
                leader_epoch: l,
                end_offset: of_left.end_offset.min(of_right.end_offset),
            });
        }
    }
}

/// What the follower does if the replica on `leader` is elected. `first_lost` is the first offset
/// at which one side has what the other has not. `batch_at` gives the first offset of the
/// follower's batch that holds an offset, if one does; `leader_stops` are offsets at which the
/// leader's log is damaged, ascending.
///
/// # Errors
/// If `batch_at` fails.
pub(super) fn truncation(
    logs: &Sides<ReplicaLog>,
    leader: Side,
    first_lost: Option<i64>,
    leader_stops: &[i64],
    batch_at: impl FnOnce(i64) -> Result<Option<i64>, Error>,
) -> Result<TruncationRow, Error> {
    let follower = leader.other();
    let before = logs.of(follower).log_end_offset;
    let done = truncate_follower(logs.of(leader), logs.of(follower));
    let is_cut = |to: i64| done.is_full || to < before;
    let leader_end = logs.of(leader).log_end_offset;
    let leader_start = logs.of(leader).log_start_offset;
    let leaves_difference = match (done.truncate_to, first_lost) {
        // Behind its end the follower fetches what the leader has.
        // Nor does it keep what lies below the leader's log start.
        (Some(to), Some(first)) => {
            !done.is_full && first < to.min(leader_end) && first >= leader_start
        }
        (None, _) | (_, None) => false,
    };
    let from = logs.of(follower).log_start_offset;
    let offsets_lost = match done.truncate_to {
        Some(_) if done.is_full => Some(before.saturating_sub(from)),
        Some(to) if to < before => {
            let cut = batch_at(to)?.map_or(to, |base_offset| base_offset.min(to).max(from));
            Some(before.saturating_sub(cut))
        }
        to => to.map(|_| 0),
    };
    Ok(TruncationRow {
        follower: match follower {
            Side::Left => "left",
            Side::Right => "right",
        },
        truncates: done.truncate_to.map(is_cut),
        truncate_to_offset: done.truncate_to,
        offsets_lost,
        stops_at_offset: done
            .truncate_to
            .and_then(|to| leader_stops.iter().copied().find(|stop| *stop >= to))
            .filter(|stop| *stop < leader_end),
        steps: done.steps,
        is_full: done.is_full,
        leader_epoch: done.answer.map(|it| it.leader_epoch),
        leader_end_offset: done.answer.map(|it| it.end_offset),
        raises_log_start_to: (leader_start > from).then_some(leader_start),
        leaves_difference,
    })
}
