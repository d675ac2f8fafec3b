//! Topics that a coordinator writes, not a client.

/// Kafka's internal topics (`org.apache.kafka.common.internals.Topic`). Coordinators write base
/// sequence 0 into every batch, with and without producer id
/// (`CoordinatorRuntime.CoordinatorContext`), and a leader neither searches their batches for
/// duplicates nor checks their sequences.
const COORDINATOR_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__share_group_state",
    "__transaction_state",
];

/// Whether sequences mean nothing in a topic.
#[must_use]
pub fn is_written_by_coordinator(topic: Option<&str>) -> bool {
    topic.is_some_and(|topic| COORDINATOR_TOPICS.contains(&topic))
}
