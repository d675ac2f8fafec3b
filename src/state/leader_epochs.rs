//! Which leader epoch began where, and what two replicas conclude from it.
//!
//! Decides `LeaderEpochFileCache` (KIP-101).

use std::collections::BTreeMap;

use crate::format::leader_epoch_checkpoint::EpochEntry;

/// The leader epochs of a partition, ascending in epoch and start offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    epochs: BTreeMap<i32, i64>,
}

/// An epoch and the offset behind its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// The epoch.
    pub leader_epoch: i32,
    /// The offset behind its last record.
    pub end_offset: i64,
}

/// An epoch or a start offset below 0, which Kafka refuses with an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegativeEpochEntry;

impl LeaderEpochs {
    /// The entries as a broker takes them from its checkpoint file: a line that contradicts
    /// earlier ones removes them.
    ///
    /// # Errors
    /// If an epoch or an offset is negative.
    pub fn from_entries(
        entries: impl IntoIterator<Item = EpochEntry>,
    ) -> Result<Self, NegativeEpochEntry> {
        let mut epochs = Self::default();
        for entry in entries {
            epochs.assign(entry)?;
        }
        Ok(epochs)
    }

    /// The entries, ascending.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = EpochEntry> + '_ {
        self.epochs
            .iter()
            .map(|(&epoch, &start_offset)| EpochEntry {
                epoch,
                start_offset,
            })
    }

    /// The highest epoch.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<i32> {
        self.epochs.last_key_value().map(|(epoch, _)| *epoch)
    }

    /// An epoch begins at an offset; whether that is news (`LeaderEpochFileCache.assign`).
    ///
    /// # Errors
    /// If the epoch or the offset is negative.
    pub fn assign(&mut self, entry: EpochEntry) -> Result<bool, NegativeEpochEntry> {
        let EpochEntry {
            epoch,
            start_offset,
        } = entry;
        if epoch < 0 || start_offset < 0 {
            return Err(NegativeEpochEntry);
        }
        if let Some((&latest, &latest_start)) = self.epochs.last_key_value()
            && epoch == latest
            && start_offset >= latest_start
        {
            return Ok(false);
        }
        while let Some(last) = self.epochs.last_entry() {
            if *last.key() < epoch && *last.get() < start_offset {
                break;
            }
            last.remove();
        }
        self.epochs.insert(epoch, start_offset);
        Ok(true)
    }

    /// Drops entries that start at or above the end; whether there were any
    /// (`truncateFromEndAsyncFlush`).
    pub fn truncate_from_end(&mut self, end_offset: i64) -> bool {
        let mut removed = false;
        if end_offset < 0 {
            return removed;
        }
        while let Some(last) = self.epochs.last_entry() {
            if *last.get() < end_offset {
                break;
            }
            last.remove();
            removed = true;
        }
        removed
    }

    /// Drops entries before the start, of which the last one moves up to it; whether there were
    /// any (`truncateFromStartAsyncFlush`).
    pub fn truncate_from_start(&mut self, start_offset: i64) -> bool {
        let mut last_removed = None;
        while let Some(first) = self.epochs.first_entry() {
            if *first.get() > start_offset {
                break;
            }
            last_removed = Some(*first.key());
            first.remove();
        }
        if let Some(epoch) = last_removed {
            self.epochs.insert(epoch, start_offset);
        }
        last_removed.is_some()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.epochs.clear();
    }

    /// The largest epoch at or below the one asked for, and where it ends in a log that ends at
    /// `log_end_offset`; `None` if nothing is known of it (`LeaderEpochFileCache.endOffsetFor`).
    #[must_use]
    pub fn end_offset_for(&self, requested: i32, log_end_offset: i64) -> Option<EpochEndOffset> {
        if self.latest_epoch() == Some(requested) {
            return Some(EpochEndOffset {
                leader_epoch: requested,
                end_offset: log_end_offset,
            });
        }
        let above = (
            std::ops::Bound::Excluded(requested),
            std::ops::Bound::Unbounded,
        );
        let (_, &end_offset) = self.epochs.range(above).next()?;
        // An epoch before all that are known is taken to end where those begin.
        let floor = self.epochs.range(..=requested).next_back();
        Some(EpochEndOffset {
            leader_epoch: floor.map_or(requested, |(epoch, _)| *epoch),
            end_offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let entries = entries.iter().map(|&(epoch, start_offset)| EpochEntry {
            epoch,
            start_offset,
        });
        LeaderEpochs::from_entries(entries).unwrap()
    }

    #[test]
    fn an_epoch_ends_where_the_next_begins() {
        let epochs = epochs(&[(2, 10), (5, 20), (7, 30)]);
        let cases = [
            (7, Some((7, 40))),
            (6, Some((5, 30))),
            (5, Some((5, 30))),
            (4, Some((2, 20))),
            (1, Some((1, 10))),
            (8, None),
        ];
        for (requested, expected) in cases {
            let found = epochs.end_offset_for(requested, 40);
            let found = found.map(|it| (it.leader_epoch, it.end_offset));
            assert_eq!(found, expected, "{requested}");
        }
        assert_eq!(LeaderEpochs::default().end_offset_for(0, 40), None);
    }

    #[test]
    fn a_new_epoch_replaces_what_contradicts_it() {
        assert_eq!(
            epochs(&[(1, 0), (2, 10), (3, 10)]),
            epochs(&[(1, 0), (3, 10)])
        );
        assert_eq!(
            epochs(&[(1, 0), (5, 10), (3, 20)]),
            epochs(&[(1, 0), (3, 20)])
        );
    }
}
