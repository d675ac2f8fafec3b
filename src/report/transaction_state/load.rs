//! Reading the partitions of `__transaction_state`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use super::TransactionStates;
use super::metadata::{TopicPartitions, TransactionMetadata, TransactionState};
use crate::format::NO_PARTITION_LEADER_EPOCH;
use crate::format::file_name::PartitionDirStatus;
use crate::format::internal_topic::{Decoded, DecodedRecord, InternalTopic};
use crate::log::batches::Entry;
use crate::log::checkpoints::Checkpoints;
use crate::log::log_dir::LogDir;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};
use crate::report::internal_records::{InternalEntry, InternalRecords};
use crate::report::partition_state::log_start_offset;

/// A transaction that the coordinator has ended: its prepared record, and the complete one after
/// it. A marker with this epoch was written to each of the partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedTransaction<'r> {
    /// The transactional id.
    pub transactional_id: &'r str,
    /// Producer id of the markers.
    pub producer_id: i64,
    /// Epoch of the markers.
    pub producer_epoch: i16,
    /// `CompleteCommit` or `CompleteAbort`.
    pub state: TransactionState,
    /// The partitions that the prepared record lists.
    pub topic_partitions: &'r TopicPartitions,
    /// When it was prepared, in milliseconds: no marker is older by the coordinator's clock.
    pub prepared_at_ms: Option<i64>,
    /// When it was complete, in milliseconds.
    pub completed_at_ms: Option<i64>,
    /// The `transaction.version` of the client; `None` in records of `transaction.version` 0.
    pub client_transaction_version: Option<i16>,
    /// Partition number of `__transaction_state`.
    pub partition: i32,
    /// Offset of the complete record there.
    pub offset: i64,
}

impl TransactionStates {
    /// Reads the live partitions of `__transaction_state` in some broker log directories; `None` if
    /// there are none. Where a partition is in more than one of them, the replica with the highest
    /// last leader epoch counts, then the longest, as for a leader election.
    ///
    /// # Errors
    /// If a log directory or a segment cannot be read. Damage inside is passed over and counted.
    pub fn load(log_dirs: &[PathBuf], io: Io) -> Result<Option<Self>, Error> {
        Self::load_with(log_dirs, io, |_| {})
    }

    /// As [`TransactionStates::load`], and hands out every transaction that was ended, as far as
    /// compaction has left both of its records.
    ///
    /// # Errors
    /// As [`TransactionStates::load`].
    pub fn load_with(
        log_dirs: &[PathBuf],
        io: Io,
        mut completed: impl FnMut(&CompletedTransaction<'_>),
    ) -> Result<Option<Self>, Error> {
        let read_at = SystemTime::now();
        let replicas = replicas(log_dirs, io)?;
        if replicas.is_empty() {
            return Ok(None);
        }
        let mut states = Self {
            read_at: Some(read_at),
            ..Self::default()
        };
        for (number, replica) in replicas {
            states.partitions.insert(number);
            let mut records = InternalRecords::new(&replica.dir, InternalTopic::TransactionState);
            records.for_each(io, |entry| match entry {
                InternalEntry::Record(batch, record, decoded)
                    if batch.header.last_offset() >= replica.log_start_offset =>
                {
                    states.take(number, record.offset, decoded, &mut completed)
                }
                InternalEntry::Record(..) | InternalEntry::Control(_) => Ok(()),
            })?;
            states.is_cut |= replica.is_cut;
            states.unread.extend(records.into_unread());
        }
        states.by_producer_id = states
            .live
            .iter()
            .map(|(id, metadata)| (metadata.producer_id, Arc::clone(id)))
            .collect();
        Ok(Some(states))
    }

    /// One record; the error says why it is of no use.
    fn take(
        &mut self,
        partition: i32,
        offset: i64,
        record: DecodedRecord,
        completed: &mut impl FnMut(&CompletedTransaction<'_>),
    ) -> Result<(), String> {
        let key = match record.key {
            Decoded::Json(key) => key,
            Decoded::Null => return Err("no key".to_owned()),
            Decoded::Raw(reason) => return Err(reason.to_string()),
        };
        let id = key.get("data").and_then(|data| data.get("transactionalId"));
        let id = id.and_then(|id| id.as_str()).ok_or("no transactional id")?;
        let mut value = match record.value {
            Decoded::Json(value) => value,
            Decoded::Null => {
                self.live.remove(id);
                return Ok(());
            }
            Decoded::Raw(reason) => return Err(reason.to_string()),
        };
        let metadata =
            TransactionMetadata::from_value(&mut value).ok_or("a state that is not known")?;
        let id = match self.live.get_key_value(id) {
            Some((known, before)) => {
                if before.state.completed() == Some(metadata.state) {
                    completed(&CompletedTransaction {
                        transactional_id: id,
                        producer_id: before.producer_id,
                        producer_epoch: before.producer_epoch,
                        state: metadata.state,
                        topic_partitions: &before.topic_partitions,
                        prepared_at_ms: before.last_update_time_ms,
                        completed_at_ms: metadata.last_update_time_ms,
                        client_transaction_version: before.client_transaction_version,
                        partition,
                        offset,
                    });
                }
                Arc::clone(known)
            }
            None => Arc::from(id),
        };
        let others = [metadata.previous_producer_id, metadata.next_producer_id];
        for producer_id in others.into_iter().flatten() {
            self.seen
                .entry(producer_id)
                .or_insert_with(|| Arc::clone(&id));
        }
        self.seen.insert(metadata.producer_id, Arc::clone(&id));
        self.live.insert(id, metadata);
        Ok(())
    }
}

/// A copy of a partition.
struct Replica {
    dir: PartitionDir,
    log_start_offset: i64,
    /// Leader epoch and last offset of its last batch.
    end: (i32, i64),
    /// Whether it ends below its checkpointed high watermark: records that were there are not.
    is_cut: bool,
}

/// The copy of each partition that counts.
fn replicas(log_dirs: &[PathBuf], io: Io) -> Result<BTreeMap<i32, Replica>, Error> {
    let topic = InternalTopic::TransactionState.name();
    let mut replicas = BTreeMap::<i32, Replica>::new();
    for path in log_dirs {
        let mut checkpoints = None;
        for partition in LogDir::open(path)?.partitions {
            let name = &partition.name;
            if name.topic != topic || name.status != PartitionDirStatus::Live {
                continue;
            }
            let dir = match PartitionDir::open(&partition.path) {
                Ok(dir) => dir,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            };
            let Some(first) = dir.segments.first() else {
                continue;
            };
            let checkpoints = checkpoints.get_or_insert_with(|| Checkpoints::read(path, io));
            let offsets = checkpoints.of(topic, name.partition);
            let end = end(&dir, io)?;
            let high_watermark = offsets.high_watermark;
            let replica = Replica {
                log_start_offset: log_start_offset(first.base_offset, offsets),
                end,
                is_cut: high_watermark.is_some_and(|it| it > end.1.saturating_add(1)),
                dir,
            };
            match replicas.get(&name.partition) {
                Some(other) if other.end >= replica.end => {}
                Some(_) | None => {
                    replicas.insert(name.partition, replica);
                }
            }
        }
    }
    Ok(replicas)
}

fn end(dir: &PartitionDir, io: Io) -> Result<(i32, i64), Error> {
    let last = dir.segments.len().saturating_sub(1);
    let base_offset = dir.segments.last().map_or(0, |last| last.base_offset);
    let mut end = (NO_PARTITION_LEADER_EPOCH, base_offset.saturating_sub(1));
    walk_partition(dir, io, last, |_, entry| {
        if let Entry::Batch(batch) = entry {
            let epoch = batch.header.partition_leader_epoch();
            end = (epoch, batch.header.last_offset());
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(end)
}
