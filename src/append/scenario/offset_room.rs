//! Whether the offsets of a scenario fit below 2^63.
//!
//! A broker's log end does not come near it in its life; Kafka's own arithmetic would wrap there,
//! so there is no behaviour to follow.

use super::json::{Node, ScenarioError};
use super::model::{FollowerBatch, FollowerBatchKind, Step};

/// Follows the highest log end that the steps so far can have led to.
#[derive(Debug, Default)]
pub(super) struct OffsetRoom {
    log_end_offset: i64,
}

impl OffsetRoom {
    /// Takes in the next step, which was read from `node`.
    pub(super) fn take(&mut self, step: &Step, node: &Node<'_>) -> Result<(), ScenarioError> {
        let a = &node.required(step.name())?;
        match step {
            Step::Append(append) => {
                let records = append.batch.records.len();
                let count = i64::try_from(records).unwrap_or(i64::MAX);
                self.append(count, &a.required("records")?)
            }
            Step::EndTxnMarker { .. } => self.append(1, a),
            Step::AppendAsFollower { batches, .. } => {
                let mut batches = batches.iter();
                a.required("batches")?.each(|node| {
                    let Some(batch) = batches.next() else {
                        return Ok(());
                    };
                    let last_offset = last_offset(batch);
                    let Some(end) = last_offset.and_then(|last| last.checked_add(1)) else {
                        return Err(node.required("baseOffset")?.error(format_args!(
                            "{} is too high: the batch would reach behind offset {}",
                            batch.base_offset,
                            i64::MAX - 1
                        )));
                    };
                    self.log_end_offset = self.log_end_offset.max(end);
                    Ok(())
                })?;
                Ok(())
            }
            Step::TruncateTo { offset } => {
                self.log_end_offset = self.log_end_offset.min((*offset).max(0));
                Ok(())
            }
            Step::TruncateFullyAndStartAt { offset, .. } => {
                self.log_end_offset = *offset;
                Ok(())
            }
            // `LogLoader.load`: a log that ends below its start begins anew there.
            Step::Reopen(reopen) => {
                let start = reopen.log_start_offset.unwrap_or(0);
                self.log_end_offset = self.log_end_offset.max(start);
                Ok(())
            }
            Step::BecomeLeader { .. }
            | Step::UpdateHighWatermark { .. }
            | Step::IncrementHighWatermark { .. }
            | Step::Roll
            | Step::DeleteRecordsBefore { .. }
            | Step::DeleteOldSegments
            | Step::RemoveExpiredProducers { .. }
            | Step::TakeProducerSnapshot
            | Step::AdvanceClock { .. }
            | Step::Flush => Ok(()),
        }
    }

    fn append(&mut self, count: i64, node: &Node<'_>) -> Result<(), ScenarioError> {
        let Some(end) = self.log_end_offset.checked_add(count) else {
            return Err(node.error(format_args!(
                "does not fit: the log can end at {} by then, and the last offset there can be is {}",
                self.log_end_offset,
                i64::MAX - 1
            )));
        };
        self.log_end_offset = end;
        Ok(())
    }
}

/// The last offset of a batch; `None` above 2^63 - 1.
fn last_offset(batch: &FollowerBatch) -> Option<i64> {
    let delta = match &batch.kind {
        FollowerBatchKind::Marker(_) => 0,
        FollowerBatchKind::Data {
            batch,
            last_offset_delta,
            ..
        } => {
            let mut next = 0;
            let mut highest = *last_offset_delta;
            for record in &batch.records {
                let delta = record.offset_delta.unwrap_or(next);
                highest = highest.max(delta);
                next = delta.wrapping_add(1);
            }
            highest
        }
    };
    batch.base_offset.checked_add(i64::from(delta))
}
