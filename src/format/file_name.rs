//! Names in log directories: parsed and built in one place.
//!
//! | type                 | names of                              | decides                     |
//! |----------------------|---------------------------------------|-----------------------------|
//! | [`LogDirFileName`]   | files directly in a log directory     | `LogManager`                |
//! | [`PartitionDirName`] | directories of partitions             | `LocalLog`                  |
//! | [`LogFileName`]      | files in the directory of a partition | `LogFileUtils`, `Snapshots` |
//!
//! Numbers are ASCII digits. Kafka writes 20 of them, but under a few locales with other digits;
//! such names are reported as [`LogFileKind::NotANumber`].

use std::fmt;

/// Digits of an offset in a file name (`LogFileUtils.filenamePrefixFromOffset`).
const OFFSET_WIDTH: usize = 20;
/// Digits of an epoch in the name of a KRaft snapshot (`Snapshots.EPOCH_WIDTH`).
const EPOCH_WIDTH: usize = 10;
/// The longest name of a directory that Kafka makes; longer topics are cut.
const MAX_DIR_NAME_SIZE: usize = 255;

/// The name of a file in the directory of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFileName {
    /// What the file holds.
    pub kind: LogFileKind,
    /// Whether it is in use.
    pub state: FileState,
}

/// What a file in the directory of a partition holds, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFileKind {
    /// `.log`: record batches from this base offset on.
    Log(i64),
    /// `.index` of the segment with this base offset.
    OffsetIndex(i64),
    /// `.timeindex` of the segment with this base offset.
    TimeIndex(i64),
    /// `.txnindex` of the segment with this base offset.
    TransactionIndex(i64),
    /// `.snapshot`: the producers before this offset.
    ProducerSnapshot(i64),
    /// `leader-epoch-checkpoint`.
    LeaderEpochCheckpoint,
    /// `partition.metadata`.
    PartitionMetadata,
    /// `quorum-state`, in the metadata partition only.
    QuorumState,
    /// `.checkpoint`: a KRaft snapshot, in the metadata partition only.
    KRaftSnapshot(SnapshotId),
    /// `.checkpoint.part`: a KRaft snapshot being written, with the random part of its name.
    KRaftSnapshotPart(SnapshotId, String),
    /// `remote_log_snapshot`, in tiered partitions of old versions.
    RemoteLogSnapshot,
    /// One of the suffixes above without a number in front. The broker does not start with it.
    NotANumber(String),
    /// Anything else; Kafka ignores it.
    Unknown(String),
}

/// Which state of the metadata a KRaft snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// The offset after the last record in it.
    pub end_offset: i64,
    /// The epoch of that record.
    pub epoch: i32,
}

/// The last suffix of a file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// None: in use.
    Live,
    /// `.deleted`: removed, kept for a moment for readers.
    Deleted,
    /// `.cleaned`: a replacement that is not complete.
    Cleaned,
    /// `.swap`: a complete replacement that is being put into place.
    Swap,
    /// `.tmp`: a text file that was not renamed into place.
    Temporary,
}

impl FileState {
    /// The suffix with its dot; empty for [`FileState::Live`].
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
            Self::Temporary => ".tmp",
        }
    }
}

impl LogFileName {
    /// What a file of this name is. Every name is something, if only [`LogFileKind::Unknown`].
    ///
    /// As in Kafka the number is what stands before the first dot, with a sign or without, and the
    /// suffix is all that tells the kind: `5.log` has base offset 5, though Kafka would never write
    /// that name. The `Display` form is the name it would, and the one it opens.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let suffixed = [
            FileState::Deleted,
            FileState::Cleaned,
            FileState::Swap,
            FileState::Temporary,
        ];
        for state in suffixed {
            let Some(stem) = name.strip_suffix(state.suffix()) else {
                continue;
            };
            let kind = LogFileKind::parse(stem);
            if !matches!(kind, LogFileKind::Unknown(_)) {
                return Self { kind, state };
            }
        }
        Self {
            kind: LogFileKind::parse(name),
            state: FileState::Live,
        }
    }
}

impl LogFileKind {
    fn parse(stem: &str) -> Self {
        match stem {
            "leader-epoch-checkpoint" => return Self::LeaderEpochCheckpoint,
            "partition.metadata" => return Self::PartitionMetadata,
            "quorum-state" => return Self::QuorumState,
            "remote_log_snapshot" => return Self::RemoteLogSnapshot,
            _ => {}
        }
        if stem.ends_with(".checkpoint") || stem.ends_with(".checkpoint.part") {
            return parse_kraft_snapshot(stem).unwrap_or_else(|| Self::NotANumber(stem.to_owned()));
        }
        let kind: fn(i64) -> Self = match stem.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("log") => Self::Log,
            Some("index") => Self::OffsetIndex,
            Some("timeindex") => Self::TimeIndex,
            Some("txnindex") => Self::TransactionIndex,
            Some("snapshot") => Self::ProducerSnapshot,
            Some(_) | None => return Self::Unknown(stem.to_owned()),
        };
        // With a sign or without (`Long.parseLong`).
        let number = stem.split('.').next().and_then(|it| it.parse().ok());
        number.map_or_else(|| Self::NotANumber(stem.to_owned()), kind)
    }
}

/// The number that ASCII digits and nothing else stand for.
fn parse_digits<T: std::str::FromStr>(text: &str) -> Option<T> {
    let only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| only_digits)
}

/// Offset and epoch have fixed widths here (`Snapshots.parse`).
fn parse_kraft_snapshot(stem: &str) -> Option<LogFileKind> {
    let (end_offset, rest) = stem.split_at_checked(OFFSET_WIDTH)?;
    let (epoch, rest) = rest.strip_prefix('-')?.split_at_checked(EPOCH_WIDTH)?;
    let id = SnapshotId {
        end_offset: parse_digits(end_offset)?,
        epoch: parse_digits(epoch)?,
    };
    if rest == ".checkpoint" {
        return Some(LogFileKind::KRaftSnapshot(id));
    }
    let random = rest.strip_prefix('-')?.strip_suffix(".checkpoint.part")?;
    Some(LogFileKind::KRaftSnapshotPart(id, random.to_owned()))
}

impl fmt::Display for LogFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind, self.state.suffix())
    }
}

impl fmt::Display for LogFileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (offset, suffix) = match self {
            Self::Log(offset) => (offset, "log"),
            Self::OffsetIndex(offset) => (offset, "index"),
            Self::TimeIndex(offset) => (offset, "timeindex"),
            Self::TransactionIndex(offset) => (offset, "txnindex"),
            Self::ProducerSnapshot(offset) => (offset, "snapshot"),
            Self::LeaderEpochCheckpoint => return f.write_str("leader-epoch-checkpoint"),
            Self::PartitionMetadata => return f.write_str("partition.metadata"),
            Self::QuorumState => return f.write_str("quorum-state"),
            Self::RemoteLogSnapshot => return f.write_str("remote_log_snapshot"),
            Self::KRaftSnapshot(id) => return write!(f, "{id}.checkpoint"),
            Self::KRaftSnapshotPart(id, random) => {
                return write!(f, "{id}-{random}.checkpoint.part");
            }
            Self::NotANumber(name) | Self::Unknown(name) => return f.write_str(name),
        };
        let sign = if *offset < 0 { "-" } else { "" };
        let digits = offset.unsigned_abs();
        write!(f, "{sign}{digits:0OFFSET_WIDTH$}.{suffix}")
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end_offset, epoch } = self;
        write!(f, "{end_offset:0OFFSET_WIDTH$}-{epoch:0EPOCH_WIDTH$}")
    }
}

/// The name of a file that lies directly in a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDirFileName {
    /// `recovery-point-offset-checkpoint`: what is known to be on disk.
    RecoveryPointOffsetCheckpoint,
    /// `replication-offset-checkpoint`: the high watermarks.
    ReplicationOffsetCheckpoint,
    /// `log-start-offset-checkpoint`.
    LogStartOffsetCheckpoint,
    /// `cleaner-offset-checkpoint`: how far compaction got.
    CleanerOffsetCheckpoint,
    /// `meta.properties`: identity of node, cluster and directory.
    MetaProperties,
    /// `bootstrap.checkpoint`: the first metadata records.
    BootstrapCheckpoint,
    /// `.lock`: held by a running broker.
    Lock,
    /// `.kafka_cleanshutdown`: the broker stopped cleanly.
    CleanShutdown,
    /// `remote-log-index-cache`: a directory, fetched indexes of tiered segments.
    RemoteLogIndexCache,
    /// `_rlmm_committed_offsets`, of old versions.
    RlmmCommittedOffsets,
    /// A name with `.tmp` at its end: left by a crash, never read.
    Temporary(String),
    /// Anything else.
    Unknown(String),
}

impl LogDirFileName {
    /// What a file of this name is.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name {
            "recovery-point-offset-checkpoint" => Self::RecoveryPointOffsetCheckpoint,
            "replication-offset-checkpoint" => Self::ReplicationOffsetCheckpoint,
            "log-start-offset-checkpoint" => Self::LogStartOffsetCheckpoint,
            "cleaner-offset-checkpoint" => Self::CleanerOffsetCheckpoint,
            "meta.properties" => Self::MetaProperties,
            "bootstrap.checkpoint" => Self::BootstrapCheckpoint,
            ".lock" => Self::Lock,
            ".kafka_cleanshutdown" => Self::CleanShutdown,
            "remote-log-index-cache" => Self::RemoteLogIndexCache,
            "_rlmm_committed_offsets" => Self::RlmmCommittedOffsets,
            other => match other.strip_suffix(".tmp") {
                Some(stem) => Self::Temporary(stem.to_owned()),
                None => Self::Unknown(other.to_owned()),
            },
        }
    }
}

impl fmt::Display for LogDirFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecoveryPointOffsetCheckpoint => "recovery-point-offset-checkpoint",
            Self::ReplicationOffsetCheckpoint => "replication-offset-checkpoint",
            Self::LogStartOffsetCheckpoint => "log-start-offset-checkpoint",
            Self::CleanerOffsetCheckpoint => "cleaner-offset-checkpoint",
            Self::MetaProperties => "meta.properties",
            Self::BootstrapCheckpoint => "bootstrap.checkpoint",
            Self::Lock => ".lock",
            Self::CleanShutdown => ".kafka_cleanshutdown",
            Self::RemoteLogIndexCache => "remote-log-index-cache",
            Self::RlmmCommittedOffsets => "_rlmm_committed_offsets",
            Self::Temporary(stem) => return write!(f, "{stem}.tmp"),
            Self::Unknown(name) => name,
        })
    }
}

/// The name of the directory of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDirName {
    /// The topic. In a name that is to be deleted or stray it may be cut short.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// What the directory is for.
    pub status: PartitionDirStatus,
}

/// What the directory of a partition is for. The text is the random part of the name, 32
/// hexadecimal digits if Kafka made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionDirStatus {
    /// The replica in use.
    Live,
    /// `-delete`: the replica was removed.
    Delete(String),
    /// `-future`: a copy being built for a move between log directories.
    Future(String),
    /// `-stray`: the metadata does not assign this replica here.
    Stray(String),
}

impl PartitionDirStatus {
    /// The status in one lower-case word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Delete(_) => "delete",
            Self::Future(_) => "future",
            Self::Stray(_) => "stray",
        }
    }
}

impl PartitionDirName {
    /// The partition that a directory of this name belongs to; `None` for a name with which the
    /// broker refuses to start.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        type MakeStatus = fn(String) -> PartitionDirStatus;
        let suffixes: [(&str, MakeStatus); 3] = [
            ("-delete", PartitionDirStatus::Delete),
            ("-future", PartitionDirStatus::Future),
            ("-stray", PartitionDirStatus::Stray),
        ];
        let suffixed = suffixes
            .iter()
            .find_map(|(suffix, status)| Some((name.strip_suffix(suffix)?, status)));
        let (stem, status) = match suffixed {
            None => (name, PartitionDirStatus::Live),
            Some((stem, status)) => {
                if !has_suffixed_form(stem) {
                    return None;
                }
                let (stem, unique_id) = stem.rsplit_once('.')?;
                (stem, status(unique_id.to_owned()))
            }
        };
        let (topic, partition) = stem.rsplit_once('-')?;
        if topic.is_empty() {
            return None;
        }
        Some(Self {
            topic: topic.to_owned(),
            partition: parse_digits(partition)?,
            status,
        })
    }

    /// The name with the topic cut so that it has at most 255 characters, which Kafka does for
    /// directories to delete and strays only (`logDirNameWithSuffixCappedLength`).
    fn visible_topic(&self, suffix: &str) -> &str {
        match self.status {
            PartitionDirStatus::Live | PartitionDirStatus::Future(_) => &self.topic,
            PartitionDirStatus::Delete(_) | PartitionDirStatus::Stray(_) => {
                let room = MAX_DIR_NAME_SIZE.saturating_sub(suffix.len());
                self.topic.get(..room).unwrap_or(&self.topic)
            }
        }
    }
}

/// Whether a name is something, `-`, something, `.`, something, without white space: what must
/// stand in front of `-delete` and the other suffixes.
fn has_suffixed_form(stem: &str) -> bool {
    // Each something has at least one character, so the first and the last one are not looked at.
    let mut inner = stem.chars();
    inner.next();
    inner.next_back();
    let dash = inner.as_str().find('-');
    let dot = inner.as_str().rfind('.');
    let apart = matches!((dash, dot), (Some(dash), Some(dot)) if dash + 1 < dot);
    apart && !stem.contains(super::text::is_space)
}

impl fmt::Display for PartitionDirName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition = self.partition;
        let suffix = match &self.status {
            PartitionDirStatus::Live => format!("-{partition}"),
            PartitionDirStatus::Delete(id) => format!("-{partition}.{id}-delete"),
            PartitionDirStatus::Future(id) => format!("-{partition}.{id}-future"),
            PartitionDirStatus::Stray(id) => format!("-{partition}.{id}-stray"),
        };
        write!(f, "{}{suffix}", self.visible_topic(&suffix))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: SnapshotId = SnapshotId {
        end_offset: 84,
        epoch: 1,
    };

    fn file(name: &str) -> (LogFileKind, FileState) {
        let parsed = LogFileName::parse(name);
        (parsed.kind, parsed.state)
    }

    #[test]
    fn names_that_kafka_writes_parse_and_build() {
        use FileState::{Cleaned, Deleted, Live, Swap, Temporary};
        let cases = [
            ("00000000000000000039.log", LogFileKind::Log(39), Live),
            (
                "00000000000000000000.index.swap",
                LogFileKind::OffsetIndex(0),
                Swap,
            ),
            (
                "00000000000000000205.timeindex.deleted",
                LogFileKind::TimeIndex(205),
                Deleted,
            ),
            (
                "00000000000000000000.txnindex.cleaned",
                LogFileKind::TransactionIndex(0),
                Cleaned,
            ),
            (
                "00000000000000000205.snapshot.deleted",
                LogFileKind::ProducerSnapshot(205),
                Deleted,
            ),
            ("09223372036854775807.log", LogFileKind::Log(i64::MAX), Live),
            (
                "leader-epoch-checkpoint",
                LogFileKind::LeaderEpochCheckpoint,
                Live,
            ),
            (
                "leader-epoch-checkpoint.tmp",
                LogFileKind::LeaderEpochCheckpoint,
                Temporary,
            ),
            ("partition.metadata", LogFileKind::PartitionMetadata, Live),
            ("quorum-state", LogFileKind::QuorumState, Live),
            ("remote_log_snapshot", LogFileKind::RemoteLogSnapshot, Live),
            (
                "00000000000000000084-0000000001.checkpoint",
                LogFileKind::KRaftSnapshot(ID),
                Live,
            ),
            (
                "00000000000000000084-0000000001.checkpoint.deleted",
                LogFileKind::KRaftSnapshot(ID),
                Deleted,
            ),
            (
                "00000000000000000084-0000000001-123.checkpoint.part",
                LogFileKind::KRaftSnapshotPart(ID, "123".to_owned()),
                Live,
            ),
        ];
        for (name, kind, state) in cases {
            let parsed = LogFileName::parse(name);
            assert_eq!(parsed.to_string(), name);
            assert_eq!(parsed, LogFileName { kind, state });
        }
    }

    #[test]
    fn number_ends_at_the_first_dot() {
        assert_eq!(file("5.log").0, LogFileKind::Log(5));
        assert_eq!(file("5.old.log").0, LogFileKind::Log(5));
        assert_eq!(file("+5.index").0, LogFileKind::OffsetIndex(5));
        let negative = LogFileName::parse("-5.snapshot");
        assert_eq!(negative.kind, LogFileKind::ProducerSnapshot(-5));
        assert_eq!(negative.to_string(), "-00000000000000000005.snapshot");
        for name in [
            "x.log",
            ".log",
            "+-5.index",
            "-.snapshot",
            "5-1.timeindex",
            "99999999999999999999.log",
            "\u{0665}.log",
            "0-0.checkpoint",
        ] {
            assert_eq!(file(name).0, LogFileKind::NotANumber(name.to_owned()));
        }
    }

    #[test]
    fn other_names_are_unknown() {
        for name in [
            "",
            "log",
            "notes.txt",
            "notes.deleted",
            "00000000000000000000.log.bak",
        ] {
            let expected = (LogFileKind::Unknown(name.to_owned()), FileState::Live);
            assert_eq!(file(name), expected);
        }
    }

    #[test]
    fn files_of_a_log_directory_parse_and_build() {
        let names = [
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
            "log-start-offset-checkpoint",
            "cleaner-offset-checkpoint",
            "meta.properties",
            "bootstrap.checkpoint",
            ".lock",
            ".kafka_cleanshutdown",
            "remote-log-index-cache",
            "_rlmm_committed_offsets",
            "meta.properties.tmp",
        ];
        for name in names {
            let parsed = LogDirFileName::parse(name);
            assert_eq!(parsed.to_string(), name);
            assert!(!matches!(parsed, LogDirFileName::Unknown(_)), "{name}");
        }
        let unknown = LogDirFileName::Unknown("orders-0".to_owned());
        assert_eq!(LogDirFileName::parse("orders-0"), unknown);
    }

    #[test]
    fn partition_follows_the_last_dash() {
        let hex = "0123456789abcdef0123456789abcdef";
        let statuses = [
            (String::new(), "live"),
            (format!(".{hex}-delete"), "delete"),
            (format!(".{hex}-future"), "future"),
            (format!(".{hex}-stray"), "stray"),
        ];
        for (suffix, status) in statuses {
            let name = format!("pay.ments-v2_1-eu-3{suffix}");
            let parsed = PartitionDirName::parse(&name).unwrap();
            assert_eq!(parsed.topic, "pay.ments-v2_1-eu");
            assert_eq!(parsed.partition, 3);
            assert_eq!(parsed.status.name(), status);
            assert_eq!(parsed.to_string(), name);
        }
    }

    #[test]
    fn names_the_broker_refuses_have_no_partition() {
        let names = [
            "",
            "orders",
            "-0",
            "orders-",
            "orders-x",
            "not-a-partition",
            "orders-2147483648",
            "orders-delete",
            "orders-0-delete",
            "orders-0.-delete",
            "or ders-0.aa-delete",
            ".aa-delete",
            "orders.0-delete",
        ];
        for name in names {
            assert_eq!(PartitionDirName::parse(name), None, "{name}");
        }
        assert!(PartitionDirName::parse("a-delete-0").is_some());
    }

    #[test]
    fn long_topics_are_cut_to_fit() {
        let name = |status| PartitionDirName {
            topic: "t".repeat(249),
            partition: 12,
            status,
        };
        let hex = "0".repeat(32);
        let delete = name(PartitionDirStatus::Delete(hex.clone())).to_string();
        assert_eq!(delete.len(), 255);
        assert!(delete.ends_with(&format!("t-12.{hex}-delete")));
        let future = name(PartitionDirStatus::Future(hex)).to_string();
        assert_eq!(future.len(), 249 + 3 + 33 + 7);
    }

    proptest! {
        #[test]
        fn partition_round_trip(
            topic in "[a-zA-Z0-9._-]{1,100}",
            partition in 0..=i32::MAX,
            id in "[0-9a-f]{32}",
            status in 0..4,
        ) {
            let status = match status {
                0 => PartitionDirStatus::Live,
                1 => PartitionDirStatus::Delete(id),
                2 => PartitionDirStatus::Future(id),
                _ => PartitionDirStatus::Stray(id),
            };
            let name = PartitionDirName { topic, partition, status };
            prop_assert_eq!(PartitionDirName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn segment_round_trip(offset in 0..=i64::MAX) {
            let name = LogFileName { kind: LogFileKind::Log(offset), state: FileState::Swap };
            prop_assert_eq!(LogFileName::parse(&name.to_string()), name);
        }

        #[test]
        fn arbitrary_names_never_panic(name: String, like in "[a0.-]{0,8}(\\.log|-delete)?") {
            for name in [name, like] {
                let _ = LogFileName::parse(&name).to_string();
                let _ = LogDirFileName::parse(&name).to_string();
                let _ = PartitionDirName::parse(&name);
            }
        }
    }
}
