//! Who writes a batch, and under which transaction protocol.

/// Where an append comes from; decides how much of it is checked (`AppendOrigin`).
///
/// Kafka knows a fourth one, `RAFT_LEADER`, which never carries producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// From the leader, or from the log itself when state is rebuilt. The leader has checked
    /// already: neither epochs nor sequences are refused.
    Replication,
    /// Offset commits of the group coordinator and markers of the transaction coordinator: epochs
    /// are checked, duplicates and sequences are not.
    Coordinator,
    /// A produce request: everything is checked.
    Client,
}

/// The `transaction.version` of a request (`TransactionVersion`). Not stored in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionVersion(pub i16);

impl TransactionVersion {
    /// Not said. A marker with it is checked as under version 0, and only when it comes through
    /// replication (`TransactionVersion.TV_UNKNOWN`).
    pub const UNKNOWN: Self = Self(-1);
    /// Markers carry the epoch of the data.
    pub const V0: Self = Self(0);
    /// The same; the coordinator keeps its own records in flexible form.
    pub const V1: Self = Self(1);
    /// Every marker bumps the producer's epoch (KIP-890).
    pub const V2: Self = Self(2);

    /// Whether a client of this version has its epoch bumped with each transaction
    /// (`TransactionVersion.supportsEpochBump`).
    #[must_use]
    pub fn supports_epoch_bump(self) -> bool {
        self >= Self::V2
    }
}
