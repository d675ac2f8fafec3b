//! The markers that coordinators have had written, by partition.

use std::collections::{BTreeMap, HashMap};

use super::load::CompletedTransaction;
use super::metadata::TransactionState;

/// Markers that are remembered, some 100 bytes each; more are only counted.
const MAX_REMEMBERED: usize = 1_000_000;

/// Producer id, epoch, and whether it is a COMMIT: what tells a marker from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkerKey {
    /// Whose transaction.
    pub producer_id: i64,
    /// Epoch of the marker.
    pub producer_epoch: i16,
    /// COMMIT, or else ABORT.
    pub is_commit: bool,
}

/// The transactions that ended in markers with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// How many: before transaction.version 2 a producer keeps its epoch.
    pub count: u64,
    /// Whether the producer went on under the marker's epoch, and not under it before:
    /// transaction.version 2.
    pub bumps_epoch: bool,
    /// When the first of them was prepared, in milliseconds, by the coordinator's clock.
    pub first_prepared_at_ms: Option<i64>,
    /// Partition number of `__transaction_state` that says so.
    pub partition: i32,
    /// Offset of the first complete record there.
    pub offset: i64,
}

/// The markers of one partition, in order.
pub type CompletedMarkers = BTreeMap<MarkerKey, Completed>;

/// The transactions that coordinators have completed, as far as compaction has left both their
/// prepared and their complete record: each has its marker in each partition it lists.
#[derive(Clone, Debug, Default)]
pub struct CompletedTransactions {
    by_topic: HashMap<String, HashMap<i32, CompletedMarkers>>,
    remembered: usize,
    /// Markers that were too many to remember.
    pub forgotten: u64,
}

impl CompletedTransactions {
    /// The next one that [`TransactionStates::load_with`] hands out.
    ///
    /// [`TransactionStates::load_with`]: super::TransactionStates::load_with
    pub fn add(&mut self, it: &CompletedTransaction<'_>) {
        let key = MarkerKey {
            producer_id: it.producer_id,
            producer_epoch: it.producer_epoch,
            is_commit: it.state == TransactionState::CompleteCommit,
        };
        for (topic, number) in it.topic_partitions.iter() {
            if !self.by_topic.contains_key(topic) {
                self.by_topic.insert(topic.to_owned(), HashMap::new());
            }
            let Some(partitions) = self.by_topic.get_mut(topic) else {
                continue;
            };
            let markers = partitions.entry(number).or_default();
            if let Some(known) = markers.get_mut(&key) {
                known.count += 1;
            } else if self.remembered >= MAX_REMEMBERED {
                self.forgotten += 1;
            } else {
                self.remembered += 1;
                markers.insert(
                    key,
                    Completed {
                        count: 1,
                        bumps_epoch: it.client_transaction_version.is_some_and(|it| it >= 2),
                        first_prepared_at_ms: it.prepared_at_ms,
                        partition: it.partition,
                        offset: it.offset,
                    },
                );
            }
        }
    }

    /// The markers that a partition must have.
    #[must_use]
    pub fn of(&self, topic: &str, partition: i32) -> Option<&CompletedMarkers> {
        self.by_topic.get(topic)?.get(&partition)
    }
}
