//! Of compacted logs: which of the records that one side lacks no cleaner has taken out.

use super::DiffOptions;
use super::ReplicaInput;
use super::compare::Compare;
use super::facts::Span;
use super::kind::{DiffKind, Side, Sides};
use crate::log::Error;
use crate::log::last_copies::{LackingReplica, LostRecords};
use crate::log::offset_ranges::OffsetRanges;

/// The offsets of what one side has alone.
#[derive(Debug, Default)]
pub(super) struct OnlyThere {
    /// What was in both logs once, as far as anything tells.
    all: OffsetRanges,
    /// What is not on the other side as if a cleaner had taken it out.
    taken_out: OffsetRanges,
}

impl OnlyThere {
    /// Takes in offsets that the other side has not, or not the same.
    pub(super) fn take(&mut self, span: Span, kind: DiffKind) {
        // What another leader wrote is no later record of anything on the other side.
        if kind != DiffKind::OtherEpoch {
            self.all.add(span.first, span.last);
        }
        if kind == DiffKind::Compaction {
            self.taken_out.add(span.first, span.last);
        }
    }
}

/// What each side lacks though a cleaner would have kept it.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn lost_records(
    compare: &Compare<'_>,
    inputs: &Sides<ReplicaInput<'_>>,
    log_end_offsets: Sides<i64>,
    options: DiffOptions,
) -> Result<Sides<LostRecords>, Error> {
    let lost = |side: Side| {
        let other = side.other();
        let only_there = compare.only_there.of(other);
        let input = inputs.of(side);
        LackingReplica {
            dir: input.dir,
            checkpoints: input.checkpoints,
            other: inputs.of(other).dir,
            taken_out: &only_there.taken_out,
            only_in_other: &only_there.all,
            is_gone_behind_other: compare.replicas.of(side).gone_up_to > *log_end_offsets.of(other),
            max_batch_bytes: options.max_batch_bytes,
            io: options.io,
        }
        .lost_records()
    };
    Ok(Sides {
        left: lost(Side::Left)?,
        right: lost(Side::Right)?,
    })
}
