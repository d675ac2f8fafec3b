//! The rows of every file that is no `.log`.

use super::DumpCounts;
use super::rows::{
    AbortedTxnRow, CheckpointRow, DamageRow, DumpRow, LeaderEpochRow, OffsetIndexRow,
    ProducerSnapshotRow, PropertyRow, Source, TimeIndexRow,
};
use crate::error::DecodeError;
use crate::format::aborted_txn::AbortedTxnRows;
use crate::format::checkpoint::OffsetCheckpoint;
use crate::format::clean_shutdown::CleanShutdown;
use crate::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;
use crate::format::meta_properties::MetaProperties;
use crate::format::offset_index::OffsetIndexRows;
use crate::format::partition_metadata::PartitionMetadata;
use crate::format::producer_snapshot::ProducerSnapshot;
use crate::format::quorum_state::QuorumState;
use crate::format::time_index::TimeIndexRows;
use crate::log::mapped_file::MappedFile;
use crate::log::{Error, Io};
use crate::report::filter::Filter;

/// The formats other than batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideFile {
    /// `.index` of the segment with this base offset.
    OffsetIndex {
        /// Base offset of the segment.
        base_offset: i64,
    },
    /// `.timeindex` of the segment with this base offset.
    TimeIndex {
        /// Base offset of the segment.
        base_offset: i64,
    },
    /// `.txnindex`.
    TransactionIndex,
    /// Producer `.snapshot`.
    ProducerSnapshot,
    /// `leader-epoch-checkpoint`.
    LeaderEpochCheckpoint,
    /// One of the four offset checkpoints of a log directory.
    OffsetCheckpoint,
    /// `partition.metadata`.
    PartitionMetadata,
    /// `meta.properties`.
    MetaProperties,
    /// `.kafka_cleanshutdown`.
    CleanShutdown,
    /// `quorum-state`.
    QuorumState,
}

impl SideFile {
    /// Whether the rows have all that the filter asks about. Those of an offset index, say, know
    /// no producer, so they answer nothing about one.
    #[must_use]
    pub fn can_answer(self, filter: &Filter) -> bool {
        let (partition, producer, offset, time) = match self {
            Self::OffsetIndex { .. } => (true, false, true, false),
            Self::TimeIndex { .. } => (true, false, true, true),
            Self::TransactionIndex => (true, true, true, false),
            Self::ProducerSnapshot => (true, true, false, false),
            Self::LeaderEpochCheckpoint
            | Self::OffsetCheckpoint
            | Self::PartitionMetadata
            | Self::QuorumState => (true, false, false, false),
            Self::MetaProperties | Self::CleanShutdown => (false, false, false, false),
        };
        (partition || !filter.narrows_partitions())
            && (producer || !filter.narrows_producers())
            && (offset || !filter.narrows_offsets())
            && (time || !filter.narrows_times())
    }
}

/// Hands out a row for each entry of a side file, in the order of the file.
///
/// A file that does not hold its format gives one row of damage that says why; an index or a
/// transaction index that ends inside an entry gives its whole entries first.
///
/// # Errors
/// If `emit` fails.
pub fn dump_side_file<E: From<Error>>(
    kind: SideFile,
    bytes: &[u8],
    source: Source<'_>,
    filter: &Filter,
    emit: impl FnMut(&DumpRow<'_>) -> Result<(), E>,
) -> Result<DumpCounts, E> {
    let mut rows = Rows {
        source,
        filter,
        emit,
        counts: DumpCounts::default(),
    };
    let size = bytes.len() as u64;
    match kind {
        SideFile::OffsetIndex { base_offset } => rows.offset_index(bytes, base_offset)?,
        SideFile::TimeIndex { base_offset } => rows.time_index(bytes, base_offset)?,
        SideFile::TransactionIndex => rows.transaction_index(bytes)?,
        SideFile::ProducerSnapshot => match ProducerSnapshot::decode(bytes) {
            Ok(snapshot) => rows.producer_snapshot(&snapshot)?,
            Err(error) => rows.undecodable(&error, size)?,
        },
        SideFile::LeaderEpochCheckpoint => match LeaderEpochCheckpoint::decode(bytes) {
            Ok(checkpoint) => rows.leader_epochs(&checkpoint)?,
            Err(error) => rows.undecodable(&error, size)?,
        },
        SideFile::OffsetCheckpoint => match OffsetCheckpoint::decode(bytes) {
            Ok(checkpoint) => rows.checkpoint(&checkpoint)?,
            Err(error) => rows.undecodable(&error, size)?,
        },
        SideFile::PartitionMetadata
        | SideFile::MetaProperties
        | SideFile::CleanShutdown
        | SideFile::QuorumState => match properties(kind, bytes) {
            Ok(properties) => rows.properties(properties)?,
            Err(error) => rows.undecodable(&error, size)?,
        },
    }
    Ok(rows.counts)
}

/// A file of rows as its writer leaves it: a snapshot is made and then filled
/// (`ProducerStateManager.writeSnapshot`), so one that cannot be understood is opened again while
/// [`MappedFile::settling`] waits. `None` if it has vanished meanwhile.
///
/// # Errors
/// If the file cannot be read, or opened again.
pub fn finished(mut file: MappedFile, kind: SideFile, io: Io) -> Result<Option<MappedFile>, Error> {
    if kind != SideFile::ProducerSnapshot {
        return Ok(Some(file));
    }
    let mut settling = file.settling();
    while ProducerSnapshot::decode(&file.read_all()?).is_err() && settling.wait() {
        file = match MappedFile::open(file.path(), io) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
    }
    Ok(Some(file))
}

/// Where the rows of one file go.
struct Rows<'f, 'a, F> {
    source: Source<'a>,
    filter: &'f Filter,
    emit: F,
    counts: DumpCounts,
}

impl<'a, E, F> Rows<'_, 'a, F>
where
    E: From<Error>,
    F: FnMut(&DumpRow<'_>) -> Result<(), E>,
{
    fn row(&mut self, row: &DumpRow<'_>) -> Result<(), E> {
        self.counts.rows += 1;
        (self.emit)(row)
    }

    fn offset_index(&mut self, bytes: &[u8], base_offset: i64) -> Result<(), E> {
        let index = OffsetIndexRows::decode(bytes);
        for entry in index.rows() {
            let offset = entry.offset(base_offset);
            if self.filter.wants_offset(offset) {
                let position = entry.position();
                let source = self.source;
                self.row(&DumpRow::OffsetIndexEntry(OffsetIndexRow {
                    source,
                    offset,
                    position,
                }))?;
            }
        }
        self.tail(
            index.non_zero_position_after_rows(),
            index.ragged_size(),
            bytes,
        )
    }

    fn time_index(&mut self, bytes: &[u8], base_offset: i64) -> Result<(), E> {
        let index = TimeIndexRows::decode(bytes);
        for entry in index.rows() {
            let offset = entry.offset(base_offset);
            let timestamp = entry.timestamp();
            if self.filter.wants_offset(offset) && self.filter.wants_times(timestamp, timestamp) {
                let source = self.source;
                self.row(&DumpRow::TimeIndexEntry(TimeIndexRow {
                    source,
                    timestamp,
                    offset,
                }))?;
            }
        }
        self.tail(
            index.non_zero_position_after_rows(),
            index.ragged_size(),
            bytes,
        )
    }

    /// What follows the rows of an index, if it is anything but zeros.
    fn tail(&mut self, non_zero: Option<u64>, ragged: usize, bytes: &[u8]) -> Result<(), E> {
        let size = bytes.len() as u64;
        let ragged = ragged as u64;
        if let Some(position) = non_zero.filter(|position| *position < size - ragged) {
            let message = "not zero, behind the zero entry that ends the index".to_owned();
            self.damage("entries-after-zeros", position, size - position, message)?;
        }
        if ragged > 0 {
            let message = format!("{ragged} bytes behind the last whole entry");
            self.damage("ragged-tail", size - ragged, ragged, message)?;
        }
        Ok(())
    }

    fn transaction_index(&mut self, bytes: &[u8]) -> Result<(), E> {
        let index = AbortedTxnRows::decode(bytes);
        for row in index.rows() {
            if self.filter.wants_producer(row.producer_id())
                && self
                    .filter
                    .wants_offsets(row.first_offset(), row.last_offset())
            {
                self.row(&DumpRow::AbortedTxn(AbortedTxnRow {
                    source: self.source,
                    version: row.version(),
                    producer_id: row.producer_id(),
                    first_offset: row.first_offset(),
                    last_offset: row.last_offset(),
                    last_stable_offset: row.last_stable_offset(),
                }))?;
            }
        }
        if let Err(error) = index.check_versions() {
            self.undecodable(&error, bytes.len() as u64)?;
        }
        self.tail(None, index.torn_size(), bytes)
    }

    fn producer_snapshot(&mut self, snapshot: &ProducerSnapshot<'_>) -> Result<(), E> {
        for entry in snapshot.entries() {
            if self.filter.wants_producer(entry.producer_id()) {
                self.row(&DumpRow::ProducerSnapshotEntry(ProducerSnapshotRow {
                    source: self.source,
                    producer_id: entry.producer_id(),
                    producer_epoch: entry.producer_epoch(),
                    last_sequence: entry.last_sequence(),
                    last_offset: entry.last_offset(),
                    offset_delta: entry.offset_delta(),
                    timestamp: entry.timestamp(),
                    coordinator_epoch: entry.coordinator_epoch(),
                    current_txn_first_offset: entry.current_txn_first_offset(),
                }))?;
            }
        }
        Ok(())
    }

    fn leader_epochs(&mut self, checkpoint: &LeaderEpochCheckpoint) -> Result<(), E> {
        for entry in &checkpoint.entries {
            self.row(&DumpRow::LeaderEpochEntry(LeaderEpochRow {
                source: self.source,
                leader_epoch: entry.epoch,
                start_offset: entry.start_offset,
            }))?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, checkpoint: &OffsetCheckpoint) -> Result<(), E> {
        for entry in &checkpoint.entries {
            if self
                .filter
                .wants_partition(Some(&entry.topic), Some(entry.partition))
            {
                self.row(&DumpRow::CheckpointEntry(CheckpointRow {
                    topic: &entry.topic,
                    partition: entry.partition,
                    file: self.source.file,
                    offset: entry.offset,
                }))?;
            }
        }
        Ok(())
    }

    fn properties(&mut self, properties: Vec<(&'static str, String)>) -> Result<(), E> {
        for (key, value) in properties {
            let source = self.source;
            self.row(&DumpRow::Property(PropertyRow { source, key, value }))?;
        }
        Ok(())
    }

    fn undecodable(&mut self, error: &DecodeError, size: u64) -> Result<(), E> {
        self.damage(
            "undecodable",
            error.position,
            size - error.position.min(size),
            error.to_string(),
        )
    }

    fn damage(
        &mut self,
        kind: &'static str,
        position: u64,
        size_in_bytes: u64,
        message: String,
    ) -> Result<(), E> {
        self.counts.invalid += 1;
        let source = self.source;
        self.row(&DumpRow::Damage(DamageRow::new(
            source,
            kind,
            position,
            size_in_bytes,
            message,
        )))
    }
}

/// The keys and values of the small text files, keys as they stand in the file.
fn properties(kind: SideFile, bytes: &[u8]) -> Result<Vec<(&'static str, String)>, DecodeError> {
    match kind {
        SideFile::PartitionMetadata => {
            let metadata = PartitionMetadata::decode(bytes)?;
            Ok(vec![
                ("version", metadata.version.to_string()),
                ("topic_id", metadata.topic_id.to_string()),
            ])
        }
        SideFile::MetaProperties => {
            let meta = MetaProperties::decode(bytes)?;
            let id = if meta.version == 0 {
                "broker.id"
            } else {
                "node.id"
            };
            let optional = [
                ("cluster.id", meta.cluster_id),
                (id, meta.node_id.map(|id| id.to_string())),
                ("directory.id", meta.directory_id.map(|id| id.to_string())),
            ];
            let optional = optional
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)));
            Ok(std::iter::once(("version", meta.version.to_string()))
                .chain(optional)
                .collect())
        }
        SideFile::CleanShutdown => Ok(match CleanShutdown::decode(bytes)? {
            None => Vec::new(),
            Some(marker) => {
                let epoch = marker
                    .broker_epoch
                    .map(|epoch| ("brokerEpoch", epoch.to_string()));
                std::iter::once(("version", marker.version.to_string()))
                    .chain(epoch)
                    .collect()
            }
        }),
        SideFile::QuorumState => {
            let state = QuorumState::decode(bytes)?;
            let voters = state.current_voters.map(|voters| {
                let voters: Vec<String> = voters.iter().map(i32::to_string).collect();
                ("currentVoters", voters.join(","))
            });
            let fields = vec![
                ("data_version", state.data_version.to_string()),
                ("leaderId", state.leader_id.to_string()),
                ("leaderEpoch", state.leader_epoch.to_string()),
                ("votedId", state.voted_id.to_string()),
                ("votedDirectoryId", state.voted_directory_id.to_string()),
            ];
            Ok(fields.into_iter().chain(voters).collect())
        }
        SideFile::OffsetIndex { .. }
        | SideFile::TimeIndex { .. }
        | SideFile::TransactionIndex
        | SideFile::ProducerSnapshot
        | SideFile::LeaderEpochCheckpoint
        | SideFile::OffsetCheckpoint => Ok(Vec::new()),
    }
}
