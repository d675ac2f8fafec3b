//! How two replicas differ.

use serde::Serialize;

/// One way in which two replicas differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DiffKind {
    /// Batches of another leader epoch at the same offsets: the replicas followed two leaders.
    OtherEpoch,
    /// Other bytes at the same offsets, in the same leader epoch. A broker does not notice.
    OtherBytes,
    /// One log ends before the other.
    MissingTail,
    /// Offsets are not there on one side, and no cleaner took them: a segment is gone.
    MissingSegment,
    /// Records are not there on one side of a compacted log, and a cleaner would have kept them.
    MissingRecords,
    /// The partition is on one side only.
    MissingPartition,
    /// The cleaner took records or batches on one side that are still there on the other.
    Compaction,
    /// The same records in other batches, or compressed in another way.
    OtherBatchSplit,
    /// The logs agree and files beside them say different things.
    SideFiles,
}

impl DiffKind {
    /// The word used in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherEpoch => "other-epoch",
            Self::OtherBytes => "other-bytes",
            Self::MissingTail => "missing-tail",
            Self::MissingSegment => "missing-segment",
            Self::MissingRecords => "missing-records",
            Self::MissingPartition => "missing-partition",
            Self::Compaction => "compaction",
            Self::OtherBatchSplit => "other-batch-split",
            Self::SideFiles => "side-files",
        }
    }

    /// Whether one side has records that the other should have and has not.
    #[must_use]
    pub fn is_loss(self) -> bool {
        match self {
            Self::OtherEpoch
            | Self::OtherBytes
            | Self::MissingTail
            | Self::MissingSegment
            | Self::MissingRecords => true,
            Self::MissingPartition | Self::Compaction | Self::OtherBatchSplit | Self::SideFiles => {
                false
            }
        }
    }
}

/// Left or right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub(super) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// One of each for the two replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sides<T> {
    pub(super) left: T,
    pub(super) right: T,
}

impl<T> Sides<T> {
    pub(super) fn of(&self, side: Side) -> &T {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    pub(super) fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }
}
