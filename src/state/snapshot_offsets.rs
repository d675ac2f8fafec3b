//! Which `.snapshot` files there are, and which of them Kafka removes.
//!
//! Knows offsets, not files: what it takes out of the set the caller deletes or renames.

use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

/// The offsets of the snapshots of a partition (`ProducerStateManager.snapshots`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotOffsets {
    offsets: BTreeSet<i64>,
}

impl FromIterator<i64> for SnapshotOffsets {
    fn from_iter<T: IntoIterator<Item = i64>>(offsets: T) -> Self {
        Self {
            offsets: offsets.into_iter().collect(),
        }
    }
}

impl SnapshotOffsets {
    /// The newest (`ProducerStateManager.latestSnapshotOffset`).
    #[must_use]
    pub fn latest(&self) -> Option<i64> {
        self.offsets.last().copied()
    }

    /// The oldest (`ProducerStateManager.oldestSnapshotOffset`).
    #[must_use]
    pub fn oldest(&self) -> Option<i64> {
        self.offsets.first().copied()
    }

    /// All of them, ascending.
    pub fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        self.offsets.iter().copied()
    }

    /// Whether there is one at `offset`.
    #[must_use]
    pub fn contains(&self, offset: i64) -> bool {
        self.offsets.contains(&offset)
    }

    /// Adds one that was written.
    pub fn insert(&mut self, offset: i64) {
        self.offsets.insert(offset);
    }

    /// Takes out one, with its segment for example; whether there was one
    /// (`ProducerStateManager.removeAndMarkSnapshotForDeletion`).
    pub fn remove(&mut self, offset: i64) -> bool {
        self.offsets.remove(&offset)
    }

    /// Takes out those that belong to no segment, except the newest of them if it is not below
    /// the last segment's base offset: a clean stop leaves that one
    /// (`ProducerStateManager.removeStraySnapshots`).
    pub fn remove_stray(&mut self, segment_base_offsets: &BTreeSet<i64>) -> Vec<i64> {
        let last_base_offset = segment_base_offsets.last().copied();
        let mut stray: Vec<i64> = self
            .iter()
            .filter(|offset| !segment_base_offsets.contains(offset))
            .collect();
        // Without segments the newest stray one stays whatever it is.
        if let Some(newest) = stray.last()
            && last_base_offset.is_none_or(|last| *newest >= last)
        {
            stray.pop();
        }
        for offset in &stray {
            self.offsets.remove(offset);
        }
        stray
    }

    /// Takes out those that truncation and loading do not trust: above the log end, and at or
    /// below the log start (`ProducerStateManager.truncateAndReload`).
    pub fn remove_out_of_range(&mut self, log_start_offset: i64, log_end_offset: i64) -> Vec<i64> {
        let mut taken = self.take(..=log_start_offset);
        taken.extend(self.take((Bound::Excluded(log_end_offset), Bound::Unbounded)));
        taken
    }

    /// Takes out those below `offset` (`ProducerStateManager.deleteSnapshotsBefore`).
    pub fn remove_before(&mut self, before: i64) -> Vec<i64> {
        self.take(0..before.max(0))
    }

    /// Takes out all (`ProducerStateManager.truncateFullyAndStartAt`).
    pub fn remove_all(&mut self) -> Vec<i64> {
        self.take(..)
    }

    fn take(&mut self, unwanted: impl RangeBounds<i64>) -> Vec<i64> {
        let taken: Vec<i64> = self.offsets.range(unwanted).copied().collect();
        for offset in &taken {
            self.offsets.remove(offset);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_stray_snapshot_above_the_last_segment_stays() {
        let mut snapshots: SnapshotOffsets = [5, 10, 12, 20, 25].into_iter().collect();
        let removed = snapshots.remove_stray(&[0, 10, 20].into_iter().collect());
        assert_eq!(removed, [5, 12]);
        assert_eq!(snapshots.iter().collect::<Vec<_>>(), [10, 20, 25]);
    }

    #[test]
    fn newest_stray_snapshot_below_the_last_segment_goes() {
        let mut snapshots: SnapshotOffsets = [5, 20].into_iter().collect();
        assert_eq!(snapshots.remove_stray(&[0, 20].into_iter().collect()), [5]);
    }

    #[test]
    fn truncation_keeps_what_lies_above_the_start_up_to_the_end() {
        let mut snapshots: SnapshotOffsets = [3, 4, 9, 10].into_iter().collect();
        assert_eq!(snapshots.remove_out_of_range(3, 9), [3, 10]);
        assert_eq!(snapshots.latest(), Some(9));
    }
}
