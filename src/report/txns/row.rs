//! A row of `txns`, and what it says in findings and commands.

use serde::Serialize;

use crate::format::file_name::LogFileKind;
use crate::report::gaps::OffsetRange;
use crate::report::offset_commits::OffsetCommitRow;
use crate::report::transaction_state::{CoordinatorRow, TransactionClass};
use crate::report::transactions::{MissingMarker, Transaction, TxnMarker};

/// The reason of a finding where the marker may lie in bytes that cannot be read.
pub const BEHIND_DAMAGE: &str = "a transaction ends in what cannot be read";

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum TxnState {
    /// No marker.
    Open,
    /// Ended by a COMMIT marker.
    Committed,
    /// Ended by an ABORT marker.
    Aborted,
}

impl TxnState {
    /// The word used in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Committed => "COMMITTED",
            Self::Aborted => "ABORTED",
        }
    }
}

/// One transaction in one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxnRow<'a> {
    /// Topic, as the directory's name says.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Whose transaction.
    pub producer_id: i64,
    /// The transactional id of the producer; null if it is not known, or no `__transaction_state`
    /// is at hand.
    pub transactional_id: Option<&'a str>,
    /// Of an open one: who is going to end it. `ongoing`, `prepared: commit`, `prepared: abort`:
    /// the coordinator; `orphan: ..` and why: nobody; `unknown: ..`: not all of
    /// `__transaction_state` is at hand; null if none of it is.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub class: Option<TransactionClass>,
    /// Of an open one: what the coordinator has of the transactional id; null if it has forgotten
    /// it, or no `__transaction_state` is at hand.
    pub coordinator: Option<CoordinatorRow>,
    /// Epoch of its first data batch; null if it has no data here.
    pub producer_epoch: Option<i16>,
    /// Epoch of its marker; under transaction.version 2 the data's plus one.
    pub marker_epoch: Option<i16>,
    /// Coordinator epoch of its marker; of an open one that of the producer's last marker here.
    pub coordinator_epoch: Option<i32>,
    /// `OPEN`, `COMMITTED` or `ABORTED`. One whose marker is lost with a segment has no
    /// `markerOffset` and counts as committed: consumers are given its records.
    pub state: TxnState,
    /// Base offset of its first batch; null if it has no data here. If only a snapshot knows it, it
    /// lies below the log start or in a segment that is missing.
    pub first_offset: Option<i64>,
    /// Offset of its last data record.
    pub last_offset: Option<i64>,
    /// Offset of its marker.
    pub marker_offset: Option<i64>,
    /// Data batches in the files.
    pub batches: u64,
    /// Data records in the files, by the batch headers.
    pub records: u64,
    /// Bytes of the data batches in the files.
    pub size_in_bytes: u64,
    /// Largest timestamp of its first batch, in milliseconds; null if that batch is gone.
    pub start_timestamp: Option<i64>,
    /// Largest timestamp of its last batch, in milliseconds.
    pub last_timestamp: Option<i64>,
    /// Time of its marker, in milliseconds.
    pub end_timestamp: Option<i64>,
    /// Of an open one in `__consumer_offsets`: the group offsets it carries, and what is committed
    /// for each; null elsewhere.
    pub offset_commits: Option<Vec<OffsetCommitRow>>,
    /// Of an open one: where the last stable offset goes when it and all older open ones have been
    /// aborted and the markers are replicated.
    pub last_stable_offset_after_abort: Option<i64>,
    /// Of an open one: whether the checksum of the first of its batches is wrong: what that says of
    /// its producer may not be so.
    pub first_batch_is_damaged: bool,
    /// Of an open one: the first and the last of the offsets behind its first that the log has
    /// lost. Its marker may lie there, and other replicas have it ended then; null if nothing is.
    pub marker_may_be_lost_in: Option<OffsetRange>,
    /// Of an open one: the command that aborts it, for brokers from 3.0 on.
    pub abort_command: Option<String>,
    /// Of an open one: the command that aborts it, for brokers before 3.0.
    pub abort_command_before_kafka_3: Option<String>,
    /// From start to marker, in milliseconds.
    pub duration_ms: Option<i64>,
    /// Of an open one: from start to now, in milliseconds; null unless the time was given.
    pub age_ms: Option<i64>,
    /// What the two epochs look like: 2 if the marker's is one above the data's, else 1, which
    /// stands for 0 and 1. An ABORT by a coordinator that fences the producer looks like 2 as well.
    pub transaction_version: Option<u8>,
    /// The `.log` with its first batch.
    pub file: Option<&'a str>,
    /// Byte position of its first batch.
    pub position: Option<u64>,
    /// The `.log` with its marker.
    pub marker_file: Option<&'a str>,
    /// Byte position of its marker.
    pub marker_position: Option<u64>,
    /// Whether its whole data is in the files; false if it began before the log did.
    pub complete: bool,
    /// A marker without data that says what the producer's batch before it said: the same marker
    /// written twice, or another transaction without data here.
    pub repeats_marker: bool,
    /// What is worth a look.
    pub findings: Vec<TxnFinding>,
}

/// Something worth a look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TxnFinding {
    /// `open-transaction`, `snapshot-only-transaction`, `marker-probably-cleaned`, `marker-lost` or
    /// `coordinator-epoch-regression`.
    pub kind: &'static str,
    /// Offset it is about.
    pub offset: Option<i64>,
    /// The file it is in.
    pub file: Option<String>,
    /// Byte position in that file.
    pub position: Option<u64>,
    /// First offset of the transaction in the snapshot.
    pub current_txn_first_offset: Option<i64>,
    /// Where the log starts.
    pub log_start_offset: Option<i64>,
    /// The one offset that is not there.
    pub missing_offset: Option<i64>,
    /// First and last offset of the records before a missing marker. The transaction's COMMIT
    /// counts for them as well, though the marker may have been an ABORT; null if there is no
    /// COMMIT.
    pub records_wrongly_committed: Option<(i64, i64)>,
    /// `certain` or `suspected`.
    pub certainty: Option<&'static str>,
    /// Why kseg says so.
    pub reason: Option<&'static str>,
    /// Coordinator epoch of the marker.
    pub coordinator_epoch: Option<i32>,
    /// Coordinator epoch of the producer's marker before it.
    pub previous_coordinator_epoch: Option<i32>,
}

impl TxnFinding {
    /// An open transaction whose first batch is in the log.
    pub(super) fn open(row: &TxnRow<'_>) -> Self {
        Self {
            kind: "open-transaction",
            offset: row.first_offset,
            file: row.file.map(str::to_owned),
            position: row.position,
            ..Self::default()
        }
    }

    /// An open transaction of which no batch is left.
    pub(super) fn snapshot_only(
        txn: &Transaction,
        snapshot: Option<i64>,
        log_start_offset: i64,
    ) -> Self {
        Self {
            kind: "snapshot-only-transaction",
            file: snapshot.map(|offset| LogFileKind::ProducerSnapshot(offset).to_string()),
            current_txn_first_offset: Some(txn.first_offset),
            log_start_offset: Some(log_start_offset),
            reason: Some("no batch of it is left in the log"),
            ..Self::default()
        }
    }

    /// A transaction whose marker is in what is missing before the segment at `base_offset`.
    pub(super) fn lost_marker(txn: &Transaction, base_offset: Option<i64>) -> Self {
        Self {
            kind: "marker-lost",
            offset: txn.last_offset,
            file: base_offset.map(|offset| LogFileKind::ProducerSnapshot(offset).to_string()),
            reason: Some("the snapshot behind the missing offsets has it ended"),
            ..Self::default()
        }
    }

    /// A marker that a leader refuses.
    pub(super) fn older_coordinator(marker: &TxnMarker, file: Option<&str>) -> Self {
        Self {
            kind: "coordinator-epoch-regression",
            offset: Some(marker.offset),
            file: file.map(str::to_owned),
            position: Some(marker.place.position),
            coordinator_epoch: Some(marker.coordinator_epoch),
            previous_coordinator_epoch: Some(marker.previous_coordinator_epoch),
            reason: Some("a leader refuses such a marker, replication and recovery take it"),
            ..Self::default()
        }
    }
}

impl From<&MissingMarker> for TxnFinding {
    fn from(missing: &MissingMarker) -> Self {
        let (certainty, reason) = if missing.is_certain && missing.is_behind_damage {
            ("certain", BEHIND_DAMAGE)
        } else if missing.is_in_index {
            ("certain", "an ABORT that the transaction index has")
        } else if missing.is_certain {
            ("certain", "epoch changes inside an open transaction")
        } else {
            ("suspected", "one-offset hole inside a transaction")
        };
        TxnFinding {
            kind: "marker-probably-cleaned",
            offset: Some(missing.offset),
            missing_offset: missing.missing_offset,
            certainty: Some(certainty),
            reason: Some(reason),
            ..TxnFinding::default()
        }
    }
}

impl From<&TxnMarker> for TxnState {
    fn from(marker: &TxnMarker) -> Self {
        if marker.is_abort() {
            Self::Aborted
        } else {
            Self::Committed
        }
    }
}

/// The command that aborts an open transaction on brokers before 3.0, which cannot be asked for its
/// producer (`TransactionsCommand.AbortTransactionCommand`). Without a marker no coordinator epoch
/// is known; then 0 is taken, which is not above any, as the tool does.
#[must_use]
pub fn abort_command_before_kafka_3(
    topic: &str,
    partition: i32,
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: Option<i32>,
) -> String {
    format!(
        "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {topic} \
         --partition {partition} --producer-id {producer_id} --producer-epoch {producer_epoch} \
         --coordinator-epoch {}",
        coordinator_epoch.unwrap_or(0)
    )
}
