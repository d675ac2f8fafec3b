//! The steps of a scenario.

use super::Parsed;
use super::batch::{append, end_txn_marker, follower_batch};
use crate::append::scenario::json::Node;
use crate::append::scenario::model::{Reopen, Step};

pub(super) fn step(node: &Node<'_>) -> Parsed<Step> {
    let [(name, _)] = node.fields()? else {
        return Err(node.error("a step is an object with exactly one field, the step's name"));
    };
    let a = &node.required(name)?;
    let offset = || a.required("offset")?.int64();
    let no_fields = |step| a.only(&[]).map(|()| step);
    match name.as_str() {
        "append" => append(a).map(Step::Append),
        "endTxnMarker" => end_txn_marker(a),
        "appendAsFollower" => {
            a.only(&["leaderEpoch", "batches"])?;
            let batches = a.required("batches")?;
            let parsed = batches.each(follower_batch)?;
            if parsed.is_empty() {
                return Err(batches.error("is empty"));
            }
            Ok(Step::AppendAsFollower {
                leader_epoch: a.int_or("leaderEpoch", 0)?,
                batches: parsed,
            })
        }
        "becomeLeader" => {
            a.only(&["leaderEpoch"])?;
            let leader_epoch = a.int_or("leaderEpoch", 0)?;
            Ok(Step::BecomeLeader { leader_epoch })
        }
        "updateHighWatermark" => {
            a.only(&["offset"])?;
            Ok(Step::UpdateHighWatermark { offset: offset()? })
        }
        "incrementHighWatermark" => {
            a.only(&["offset"])?;
            Ok(Step::IncrementHighWatermark { offset: offset()? })
        }
        "truncateTo" => {
            a.only(&["offset"])?;
            Ok(Step::TruncateTo { offset: offset()? })
        }
        "deleteRecordsBefore" => {
            a.only(&["offset"])?;
            Ok(Step::DeleteRecordsBefore { offset: offset()? })
        }
        "truncateFullyAndStartAt" => truncate_fully(a),
        "removeExpiredProducers" => {
            a.only(&["timeMs"])?;
            let time_ms = a.get("timeMs").map(|node| node.int64()).transpose()?;
            Ok(Step::RemoveExpiredProducers { time_ms })
        }
        "advanceClock" => {
            a.only(&["ms"])?;
            let ms = a.required("ms")?;
            match ms.int64()? {
                ..0 => Err(ms.error("is negative: the clock does not go back")),
                ms => Ok(Step::AdvanceClock { ms }),
            }
        }
        "roll" => no_fields(Step::Roll),
        "deleteOldSegments" => no_fields(Step::DeleteOldSegments),
        "takeProducerSnapshot" => no_fields(Step::TakeProducerSnapshot),
        "flush" => no_fields(Step::Flush),
        "reopen" => reopen(a).map(Step::Reopen),
        _ => Err(a.error("unknown step")),
    }
}

fn truncate_fully(a: &Node<'_>) -> Parsed<Step> {
    a.only(&["offset", "logStartOffset"])?;
    let not_negative = |node: Node<'_>| match node.int64()? {
        ..0 => Err(node.error("is negative")),
        offset => Ok(offset),
    };
    Ok(Step::TruncateFullyAndStartAt {
        offset: not_negative(a.required("offset")?)?,
        log_start_offset: a.get("logStartOffset").map(not_negative).transpose()?,
    })
}

fn reopen(a: &Node<'_>) -> Parsed<Reopen> {
    a.only(&[
        "clean",
        "recoveryPoint",
        "logStartOffset",
        "highWatermark",
        "tornTailBytes",
        "deleteSnapshots",
    ])?;
    let int = |name: &str| a.get(name).map(|node| node.int64()).transpose();
    let reopen = Reopen {
        clean: a.bool_or("clean", true)?,
        recovery_point: int("recoveryPoint")?,
        log_start_offset: int("logStartOffset")?,
        high_watermark: int("highWatermark")?,
        torn_tail_bytes: a.int_or("tornTailBytes", 0)?,
        delete_snapshots: a.bool_or("deleteSnapshots", false)?,
    };
    if reopen.torn_tail_bytes > 0 && reopen.clean {
        return Err(a.required("tornTailBytes")?.error("needs \"clean\": false"));
    }
    if reopen.log_start_offset.is_some_and(|offset| offset < 0) {
        return Err(a.required("logStartOffset")?.error("is negative"));
    }
    Ok(reopen)
}
