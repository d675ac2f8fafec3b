//! What a transaction coordinator keeps of one transactional id.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID};

/// Where a coordinator has got to with a transaction
/// (`org.apache.kafka.coordinator.transaction.TransactionState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// No transaction since the producer was given its epoch.
    Empty,
    /// Open.
    Ongoing,
    /// To be committed; not all markers are known to be written.
    PrepareCommit,
    /// To be aborted; not all markers are known to be written.
    PrepareAbort,
    /// Committed in every partition.
    CompleteCommit,
    /// Aborted in every partition.
    CompleteAbort,
    /// The id is about to be forgotten. In memory only.
    Dead,
    /// The producer is about to be fenced. In memory only.
    PrepareEpochFence,
}

impl TransactionState {
    const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// The state with this number in a record.
    #[must_use]
    pub fn from_id(id: i8) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Kafka's name, as `describeTransactions` gives it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// What a transaction is in once all markers are written.
    #[must_use]
    pub fn completed(self) -> Option<Self> {
        match self {
            Self::PrepareCommit => Some(Self::CompleteCommit),
            Self::PrepareAbort => Some(Self::CompleteAbort),
            Self::Empty
            | Self::Ongoing
            | Self::CompleteCommit
            | Self::CompleteAbort
            | Self::Dead
            | Self::PrepareEpochFence => None,
        }
    }
}

/// Partitions by topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPartitions(BTreeMap<String, BTreeSet<i32>>);

impl TopicPartitions {
    /// Whether a partition is among them.
    #[must_use]
    pub fn contains(&self, topic: &str, partition: i32) -> bool {
        self.0
            .get(topic)
            .is_some_and(|partitions| partitions.contains(&partition))
    }

    /// Topic and number of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32)> {
        self.0
            .iter()
            .flat_map(|(topic, numbers)| numbers.iter().map(|number| (topic.as_str(), *number)))
    }

    /// `TOPIC-N` of each, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.iter()
            .map(|(topic, number)| format!("{topic}-{number}"))
            .collect()
    }
}

/// What a coordinator has of a transactional id after loading
/// (`org.apache.kafka.coordinator.transaction.TransactionMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionMetadata {
    /// Its producer id.
    pub producer_id: i64,
    /// The producer id before, after the epochs of that one were used up; KIP-890. Ordinary
    /// transactions of 4.x have the current one here.
    pub previous_producer_id: Option<i64>,
    /// The producer id after this transaction: the epochs of this one are used up (KIP-890), or
    /// the producer was initialized anew and its transaction kept (KIP-939).
    pub next_producer_id: Option<i64>,
    /// Epoch of the producer; in a prepared state that of the markers.
    pub producer_epoch: i16,
    /// The epoch that goes with `next_producer_id`; KIP-939.
    pub next_producer_epoch: Option<i16>,
    /// `transaction.timeout.ms` of the producer.
    pub transaction_timeout_ms: i32,
    /// Where the coordinator has got to.
    pub state: TransactionState,
    /// The partitions of the transaction; none once it is complete.
    pub topic_partitions: TopicPartitions,
    /// When the transaction was begun, in milliseconds; `None` if none was.
    pub transaction_start_time_ms: Option<i64>,
    /// When the record was written, in milliseconds.
    pub last_update_time_ms: Option<i64>,
    /// The `transaction.version` of the client that changed it; `None` in records of
    /// `transaction.version` 0.
    pub client_transaction_version: Option<i16>,
}

/// `TransactionLogValue` as the decoder of internal topics gives it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TransactionLogValue {
    producer_id: i64,
    previous_producer_id: Option<i64>,
    next_producer_id: Option<i64>,
    producer_epoch: i16,
    next_producer_epoch: Option<i16>,
    transaction_timeout_ms: i32,
    transaction_status: i8,
    transaction_partitions: Option<Vec<PartitionsSchema>>,
    transaction_last_update_timestamp_ms: i64,
    transaction_start_timestamp_ms: i64,
    client_transaction_version: Option<i16>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartitionsSchema {
    topic: String,
    partition_ids: Vec<i32>,
}

impl TransactionMetadata {
    /// From a decoded value: `{"version": .., "data": {..}}`. `None` if it is not that of a
    /// transactional id, or in a state that Kafka does not know (`TransactionLog.read`).
    pub(super) fn from_value(value: &mut Value) -> Option<Self> {
        let data = value.get_mut("data")?.take();
        let value: TransactionLogValue = serde_json::from_value(data).ok()?;
        let state = TransactionState::from_id(value.transaction_status)?;
        let mut topic_partitions = TopicPartitions::default();
        // Kafka does not look at the partitions of an empty transaction either.
        if state != TransactionState::Empty {
            for of_topic in value.transaction_partitions.into_iter().flatten() {
                let numbers = topic_partitions.0.entry(of_topic.topic).or_default();
                numbers.extend(of_topic.partition_ids);
            }
        }
        let id = |id: &i64| *id != NO_PRODUCER_ID;
        let time = |time: i64| (time >= 0).then_some(time);
        Some(Self {
            producer_id: value.producer_id,
            previous_producer_id: value.previous_producer_id.filter(id),
            next_producer_id: value.next_producer_id.filter(id),
            producer_epoch: value.producer_epoch,
            next_producer_epoch: value
                .next_producer_epoch
                .filter(|epoch| *epoch != NO_PRODUCER_EPOCH),
            transaction_timeout_ms: value.transaction_timeout_ms,
            state,
            topic_partitions,
            transaction_start_time_ms: time(value.transaction_start_timestamp_ms),
            last_update_time_ms: time(value.transaction_last_update_timestamp_ms),
            client_transaction_version: value.client_transaction_version,
        })
    }

    /// When the coordinator aborts an ongoing transaction by itself, in milliseconds
    /// (`TransactionStateManager.timedOutTransactions`).
    #[must_use]
    pub fn times_out_at_ms(&self) -> Option<i64> {
        let start = self.transaction_start_time_ms?;
        (self.state == TransactionState::Ongoing)
            .then(|| start.saturating_add(i64::from(self.transaction_timeout_ms)))
    }
}
