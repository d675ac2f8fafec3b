//! Who is going to end an open transaction.

use std::fmt;

use serde::{Serialize, Serializer};

use super::metadata::{TransactionMetadata, TransactionState};

/// What the coordinator's record means for a transaction that is open in a partition.
///
/// The text is `ongoing`, `prepared: commit`, `prepared: abort`, `unknown: ..` or `orphan: ..`.
/// An orphan is what `kafka-transactions.sh find-hanging` calls hanging: nobody will write its
/// marker (`TransactionsCommand.FindHangingTransactionsCommand.filterHangingTransactions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionClass {
    /// The coordinator has it open, with this partition in it.
    Ongoing,
    /// The coordinator has decided on COMMIT and will write the marker.
    PreparedCommit,
    /// The coordinator has decided on ABORT and will write the marker.
    PreparedAbort,
    /// No id of this producer is known, but not every partition of the state log is here.
    Unknown,
    /// It would be an orphan, but the log may have been written to since the coordinators were
    /// read.
    MayBeNewer,
    /// The coordinator knows no transactional id with this producer.
    IdUnknown,
    /// The id belongs to another producer id by now.
    OtherProducerId,
    /// The id is at another epoch, or its transaction is over.
    OtherTransaction(EpochIs, TransactionState),
    /// The coordinator has a transaction of this producer, without this partition.
    PartitionNotListed(TransactionState),
}

/// The epoch of the coordinator's record against that of the open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochIs {
    /// The record's is higher.
    Newer,
    /// They are equal.
    Same,
    /// The record's is lower: the state log has lost something.
    Older,
}

impl TransactionClass {
    /// Whether nobody is going to end the transaction.
    #[must_use]
    pub fn is_orphan(self) -> bool {
        match self {
            Self::Ongoing
            | Self::PreparedCommit
            | Self::PreparedAbort
            | Self::Unknown
            | Self::MayBeNewer => false,
            Self::IdUnknown
            | Self::OtherProducerId
            | Self::OtherTransaction(..)
            | Self::PartitionNotListed(_) => true,
        }
    }

    /// Whether the coordinator is going to end it, so that an abort would cut in.
    #[must_use]
    pub fn is_in_hand(self) -> bool {
        matches!(
            self,
            Self::Ongoing | Self::PreparedCommit | Self::PreparedAbort
        )
    }

    /// Whether nothing tells that the transaction was not ended: the producer's last one was
    /// committed, and a marker that was lost here looks the same; or not all of the coordinators'
    /// log is at hand.
    #[must_use]
    pub fn may_have_ended(self) -> bool {
        match self {
            Self::Unknown => true,
            Self::OtherTransaction(epoch, TransactionState::CompleteCommit) => {
                epoch != EpochIs::Older
            }
            Self::Ongoing
            | Self::PreparedCommit
            | Self::PreparedAbort
            | Self::MayBeNewer
            | Self::IdUnknown
            | Self::OtherProducerId
            | Self::OtherTransaction(..)
            | Self::PartitionNotListed(_) => false,
        }
    }

    /// What it comes to for this partition, where the name alone does not say so: a coordinator
    /// sends markers to the partitions of its record
    /// (`TransactionMarkerChannelManager.addTxnMarkersToSend`), whatever comes of that transaction.
    #[must_use]
    pub fn outlook(self) -> Option<&'static str> {
        match self {
            Self::PartitionNotListed(_) => Some("its coordinator writes no marker here"),
            Self::Ongoing
            | Self::PreparedCommit
            | Self::PreparedAbort
            | Self::Unknown
            | Self::MayBeNewer
            | Self::IdUnknown
            | Self::OtherProducerId
            | Self::OtherTransaction(..) => None,
        }
    }

    /// Of the record with the transaction's producer id. `is_listed`: whether the partition is
    /// among those of the record.
    pub(super) fn of(metadata: &TransactionMetadata, producer_epoch: i16, is_listed: bool) -> Self {
        use TransactionState::{Ongoing, PrepareAbort, PrepareCommit};
        let state = metadata.state;
        let epoch = match metadata.producer_epoch.cmp(&producer_epoch) {
            std::cmp::Ordering::Greater => EpochIs::Newer,
            std::cmp::Ordering::Equal => EpochIs::Same,
            std::cmp::Ordering::Less => EpochIs::Older,
        };
        match (state, epoch, is_listed) {
            (Ongoing, EpochIs::Same, true) => Self::Ongoing,
            // Under transaction.version 2, and after a timeout, the epoch of a prepared one is
            // above the data's; its marker ends whatever the producer has open there.
            (PrepareCommit, EpochIs::Newer | EpochIs::Same, true) => Self::PreparedCommit,
            (PrepareAbort, EpochIs::Newer | EpochIs::Same, true) => Self::PreparedAbort,
            (Ongoing | PrepareCommit | PrepareAbort, EpochIs::Same, false) => {
                Self::PartitionNotListed(state)
            }
            (_, epoch, _) => Self::OtherTransaction(epoch, state),
        }
    }
}

impl fmt::Display for TransactionClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ongoing => f.write_str("ongoing"),
            Self::PreparedCommit => f.write_str("prepared: commit"),
            Self::PreparedAbort => f.write_str("prepared: abort"),
            Self::Unknown => f.write_str("unknown: not all of __transaction_state is here"),
            Self::MayBeNewer => f.write_str("unknown: may be newer than what was read"),
            Self::IdUnknown => f.write_str("orphan: id unknown"),
            Self::OtherProducerId => f.write_str("orphan: id has another producer id"),
            Self::OtherTransaction(epoch, state) => {
                let epoch = match epoch {
                    EpochIs::Newer => "newer",
                    EpochIs::Same => "same",
                    EpochIs::Older => "older",
                };
                write!(f, "orphan: {epoch} epoch, {}", state.name())
            }
            Self::PartitionNotListed(state) => {
                write!(f, "orphan: partition not listed, {}", state.name())
            }
        }
    }
}

impl Serialize for TransactionClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::transaction_state::TopicPartitions;

    fn class(state: TransactionState, record: i16, data: i16, is_listed: bool) -> String {
        let metadata = TransactionMetadata {
            producer_id: 7,
            previous_producer_id: None,
            next_producer_id: None,
            producer_epoch: record,
            next_producer_epoch: None,
            transaction_timeout_ms: 60_000,
            state,
            topic_partitions: TopicPartitions::default(),
            transaction_start_time_ms: Some(0),
            last_update_time_ms: Some(0),
            client_transaction_version: Some(2),
        };
        TransactionClass::of(&metadata, data, is_listed).to_string()
    }

    #[test]
    fn a_prepared_record_ends_what_is_open_below_its_epoch() {
        use TransactionState::{PrepareAbort, PrepareCommit};
        // transaction.version 0 and 1; 2; a producer that was fenced after a timeout.
        for (record, data) in [(4, 4), (5, 4), (9, 4)] {
            assert_eq!(class(PrepareCommit, record, data, true), "prepared: commit");
            assert_eq!(class(PrepareAbort, record, data, true), "prepared: abort");
        }
        // Its marker would be refused: INVALID_PRODUCER_EPOCH.
        let older = "orphan: older epoch, PrepareAbort";
        assert_eq!(class(PrepareAbort, 3, 4, true), older);
        // No marker goes to a partition that is not listed.
        let not_listed = "orphan: partition not listed, PrepareCommit";
        assert_eq!(class(PrepareCommit, 4, 4, false), not_listed);
        let newer = "orphan: newer epoch, PrepareCommit";
        assert_eq!(class(PrepareCommit, 5, 4, false), newer);
    }

    #[test]
    fn no_marker_comes_to_a_partition_that_is_not_listed() {
        use TransactionState::{Ongoing, PrepareAbort};
        for state in [Ongoing, PrepareAbort] {
            let class = TransactionClass::PartitionNotListed(state);
            assert_eq!(
                class.outlook(),
                Some("its coordinator writes no marker here")
            );
            assert!(class.is_orphan() && !class.is_in_hand());
        }
        assert_eq!(TransactionClass::Ongoing.outlook(), None);
    }

    #[test]
    fn only_the_same_transaction_is_ongoing() {
        use TransactionState::{CompleteCommit, Empty, Ongoing};
        assert_eq!(class(Ongoing, 4, 4, true), "ongoing");
        let not_listed = "orphan: partition not listed, Ongoing";
        assert_eq!(class(Ongoing, 4, 4, false), not_listed);
        assert_eq!(class(Ongoing, 5, 4, true), "orphan: newer epoch, Ongoing");
        assert_eq!(class(Ongoing, 3, 4, true), "orphan: older epoch, Ongoing");
        assert_eq!(class(Empty, 5, 4, false), "orphan: newer epoch, Empty");
        let complete = "orphan: same epoch, CompleteCommit";
        assert_eq!(class(CompleteCommit, 4, 4, false), complete);
    }
}
