//! What the transaction coordinators know, from the `__transaction_state` partitions, and the
//! open transactions of other partitions joined with it.
//!
//! A coordinator loads its partition from the log start to the log end and keeps the last record
//! of each transactional id; a tombstone makes it forget the id
//! (`TransactionStateManager.loadTransactionMetadata`). Which id a producer had is remembered here
//! beyond that, as far as older records are still in the log.

mod class;
mod completed;
mod load;
mod metadata;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;

use crate::format::file_name::LogDirFileName;
use crate::log::log_dir::folder_above;
use crate::log::partition_dir::PartitionDir;
use crate::log::settling::CLOCK_TICK;
use crate::report::internal_records::UnreadRecords;

pub use class::{EpochIs, TransactionClass};
pub use completed::{Completed, CompletedMarkers, CompletedTransactions, MarkerKey};
pub use load::CompletedTransaction;
pub use metadata::{TopicPartitions, TransactionMetadata, TransactionState};

/// The transactional ids of all partitions of `__transaction_state` that are at hand.
#[derive(Clone, Debug, Default)]
pub struct TransactionStates {
    live: HashMap<Arc<str>, TransactionMetadata>,
    /// Live ids by their producer id.
    by_producer_id: HashMap<i64, Arc<str>>,
    /// The last id that any record, live or not, names with a producer id.
    seen: HashMap<i64, Arc<str>>,
    partitions: BTreeSet<i32>,
    /// Whether a partition ends below its high watermark.
    is_cut: bool,
    unread: Vec<UnreadRecords>,
    /// When the reading of them began.
    read_at: Option<SystemTime>,
}

/// An open transaction of a partition, joined with what the coordinator knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined<'s> {
    /// The transactional id, live or forgotten; `None` if no record names the producer.
    pub transactional_id: Option<&'s str>,
    /// What the coordinator has of the id; `None` if it has forgotten it.
    pub metadata: Option<&'s TransactionMetadata>,
    /// What that means for the transaction.
    pub class: TransactionClass,
}

impl TransactionStates {
    /// What the coordinator has of a transactional id.
    #[must_use]
    pub fn get(&self, transactional_id: &str) -> Option<&TransactionMetadata> {
        self.live.get(transactional_id)
    }

    /// Every transactional id that a coordinator has, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TransactionMetadata)> {
        self.live.iter().map(|(id, metadata)| (&**id, metadata))
    }

    /// The id that the coordinator has for a producer id at present.
    #[must_use]
    pub fn of_producer(&self, producer_id: i64) -> Option<(&str, &TransactionMetadata)> {
        let id = self.by_producer_id.get(&producer_id)?;
        Some((id, self.live.get(id)?))
    }

    /// The transactional id of a producer, at present or in an older record. A producer id is
    /// given to one transactional id only, so ended transactions can be asked for as well.
    #[must_use]
    pub fn transactional_id(&self, producer_id: i64) -> Option<&str> {
        let known = self.by_producer_id.get(&producer_id);
        known
            .or_else(|| self.seen.get(&producer_id))
            .map(|id| &**id)
    }

    /// Joins a transaction that is open in a partition, by its producer and the epoch of its last
    /// batch. Without a name of the partition it is taken for listed.
    #[must_use]
    pub fn join(
        &self,
        producer_id: i64,
        producer_epoch: i16,
        partition: Option<(&str, i32)>,
    ) -> Joined<'_> {
        if let Some((id, metadata)) = self.of_producer(producer_id) {
            let is_listed = partition
                .is_none_or(|(topic, number)| metadata.topic_partitions.contains(topic, number));
            return Joined {
                transactional_id: Some(id),
                metadata: Some(metadata),
                class: TransactionClass::of(metadata, producer_epoch, is_listed),
            };
        }
        let transactional_id = self.transactional_id(producer_id);
        let metadata = transactional_id.and_then(|id| self.get(id));
        let class = match (transactional_id, metadata) {
            (Some(_), Some(_)) => TransactionClass::OtherProducerId,
            (Some(_), None) => TransactionClass::IdUnknown,
            (None, _) if self.looks_whole() && !self.has_lost_records() => {
                TransactionClass::IdUnknown
            }
            (None, _) => TransactionClass::Unknown,
        };
        Joined {
            transactional_id,
            metadata,
            class,
        }
    }

    /// As [`TransactionStates::join`], of a partition that lies in `dir`. In a log that may have
    /// been written to since the coordinators were read nothing is an orphan for certain.
    #[must_use]
    pub fn join_in(&self, dir: &PartitionDir, producer_id: i64, producer_epoch: i16) -> Joined<'_> {
        let partition = dir.topic().zip(dir.partition());
        let joined = self.join(producer_id, producer_epoch, partition);
        if joined.class.is_orphan() && self.are_behind(dir) {
            let class = TransactionClass::MayBeNewer;
            return Joined { class, ..joined };
        }
        joined
    }

    /// Whether a log may have been written to since: a transaction in it may have begun after what
    /// is known here. File times are some milliseconds behind the clock.
    fn are_behind(&self, dir: &PartitionDir) -> bool {
        let last = dir.segments.last().and_then(|last| dir.file(last.log));
        let (Some(last), Some(read_at)) = (last, self.read_at) else {
            return false;
        };
        let mark = LogDirFileName::CleanShutdown.to_string();
        if folder_above(&dir.path).is_some_and(|above| above.join(mark).exists()) {
            return false;
        }
        let written = std::fs::metadata(dir.file_path(last)).and_then(|it| it.modified());
        let age = written.map(|at| read_at.duration_since(at));
        !age.is_ok_and(|age| age.is_ok_and(|age| age > CLOCK_TICK))
    }

    /// Numbers of the partitions of `__transaction_state` that were read.
    #[must_use]
    pub fn partitions(&self) -> &BTreeSet<i32> {
        &self.partitions
    }

    /// Whether no partition up to the highest number is missing. How many there are no file of
    /// these says, so the highest ones may still be missing.
    #[must_use]
    pub fn looks_whole(&self) -> bool {
        let numbers = self.partitions.iter().copied();
        !self.partitions.is_empty() && (0..).zip(numbers).all(|(place, number)| place == number)
    }

    /// Whether records that were there are gone or cannot be read.
    fn has_lost_records(&self) -> bool {
        self.is_cut || !self.unread.is_empty()
    }

    /// What could not be read, by partition.
    #[must_use]
    pub fn unread(&self) -> &[UnreadRecords] {
        &self.unread
    }
}

/// What a coordinator has of a transactional id, as rows show it. The first keys are those of
/// `describeTransactions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorRow {
    /// `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit` or `CompleteAbort`.
    pub state: &'static str,
    /// The id's producer id.
    pub producer_id: i64,
    /// Epoch of the producer; in a prepared state that of the markers.
    pub producer_epoch: i16,
    /// `transaction.timeout.ms` of the producer.
    pub transaction_timeout_ms: i32,
    /// When its transaction was begun, in milliseconds.
    pub transaction_start_time_ms: Option<i64>,
    /// `TOPIC-N` of each partition of the transaction; none once it is complete.
    pub topic_partitions: Vec<String>,
    /// When the record was written, in milliseconds.
    pub last_update_time_ms: Option<i64>,
    /// When the coordinator aborts it by itself, in milliseconds; null unless it is ongoing.
    pub times_out_at_ms: Option<i64>,
    /// The id's producer id before this one.
    pub previous_producer_id: Option<i64>,
    /// The id's producer id after this transaction.
    pub next_producer_id: Option<i64>,
    /// The `transaction.version` of the client that changed it.
    pub client_transaction_version: Option<i16>,
}

impl From<&TransactionMetadata> for CoordinatorRow {
    fn from(metadata: &TransactionMetadata) -> Self {
        Self {
            state: metadata.state.name(),
            producer_id: metadata.producer_id,
            producer_epoch: metadata.producer_epoch,
            transaction_timeout_ms: metadata.transaction_timeout_ms,
            transaction_start_time_ms: metadata.transaction_start_time_ms,
            topic_partitions: metadata.topic_partitions.names(),
            last_update_time_ms: metadata.last_update_time_ms,
            times_out_at_ms: metadata.times_out_at_ms(),
            previous_producer_id: metadata.previous_producer_id,
            next_producer_id: metadata.next_producer_id,
            client_transaction_version: metadata.client_transaction_version,
        }
    }
}
