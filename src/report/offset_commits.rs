//! The committed offsets of a `__consumer_offsets` partition, and those that wait for the end of a
//! transaction, as a group coordinator has them after loading
//! (`OffsetMetadataManager.replay`, `replayEndTransactionMarker`).

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::internal_records::{InternalEntry, InternalRecords, UnreadRecords};
use crate::format::NO_PRODUCER_ID;
use crate::format::control_record::ControlRecordType;
use crate::format::internal_topic::{Decoded, DecodedRecord, InternalTopic};
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// Record types of `OffsetCommitKey`, old and new.
const OFFSET_COMMIT_TYPES: [&str; 2] = ["0", "1"];

/// What an offset is committed for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct OffsetKey {
    /// The consumer group.
    pub group: String,
    /// Topic that the group reads.
    pub topic: String,
    /// Partition number in that topic.
    pub partition: i32,
}

/// A committed offset (`OffsetAndMetadata`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommit {
    /// Where the group goes on.
    pub offset: i64,
    /// Leader epoch of the record before it; `None` if the consumer did not say.
    pub leader_epoch: Option<i32>,
    /// What the consumer wrote beside it.
    pub metadata: String,
    /// When it was committed, in milliseconds.
    pub commit_timestamp_ms: i64,
    /// Offset of the record in this partition.
    pub record_offset: i64,
}

type Offsets = BTreeMap<OffsetKey, OffsetCommit>;

/// The offsets of one partition of `__consumer_offsets`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommits {
    committed: Offsets,
    /// By the producer whose transaction they wait for.
    pending: HashMap<i64, Offsets>,
    /// Producers with pending offsets, by group.
    open_by_group: HashMap<String, HashSet<i64>>,
    unread: Option<UnreadRecords>,
}

/// An offset in an open transaction, as rows show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OffsetCommitRow {
    /// The consumer group.
    pub group: String,
    /// Topic that the group reads.
    pub topic: String,
    /// Partition number in that topic.
    pub partition: i32,
    /// The offset that counts if the transaction is committed.
    pub offset: i64,
    /// The offset that counts now, and if it is aborted; null if there is none.
    pub committed_offset: Option<i64>,
}

/// The fields of every version of `OffsetCommitValue` that count here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OffsetCommitValue {
    offset: i64,
    leader_epoch: Option<i32>,
    metadata: String,
    commit_timestamp: i64,
}

impl OffsetCommits {
    /// Reads a partition of `__consumer_offsets` from the log start to the log end, or what lies
    /// below `to_offset`.
    ///
    /// # Errors
    /// If a segment cannot be read. Damage inside is passed over and counted.
    pub fn load(
        dir: &PartitionDir,
        io: Io,
        log_start_offset: i64,
        to_offset: Option<i64>,
    ) -> Result<Self, Error> {
        let wanted = log_start_offset..to_offset.unwrap_or(i64::MAX);
        let mut offsets = Self::default();
        let mut records = InternalRecords::new(dir, InternalTopic::ConsumerOffsets);
        records.for_each(io, |entry| {
            let (InternalEntry::Control(batch) | InternalEntry::Record(batch, ..)) = &entry;
            if !wanted.contains(&batch.header.last_offset()) {
                return Ok(());
            }
            let producer_id = batch.header.producer_id();
            match entry {
                InternalEntry::Control(batch) => {
                    let control = batch.control_record().map_err(|it| it.to_string())?;
                    if let Some(control) = control {
                        offsets.end(producer_id, control.control_type);
                    }
                    Ok(())
                }
                InternalEntry::Record(_, record, decoded) => {
                    offsets.take(producer_id, record.offset, decoded)
                }
            }
        })?;
        offsets.unread = records.into_unread();
        Ok(offsets)
    }

    /// The offset of each group and partition that counts.
    pub fn committed(&self) -> impl Iterator<Item = (&OffsetKey, &OffsetCommit)> {
        self.committed.iter()
    }

    /// The offsets that wait for the end of a producer's transaction.
    pub fn pending(&self, producer_id: i64) -> impl Iterator<Item = (&OffsetKey, &OffsetCommit)> {
        self.pending.get(&producer_id).into_iter().flatten()
    }

    /// The same as rows.
    #[must_use]
    pub fn rows(&self, producer_id: i64) -> Vec<OffsetCommitRow> {
        let row = |(key, commit): (&OffsetKey, &OffsetCommit)| OffsetCommitRow {
            group: key.group.clone(),
            topic: key.topic.clone(),
            partition: key.partition,
            offset: commit.offset,
            committed_offset: self.committed.get(key).map(|it| it.offset),
        };
        self.pending(producer_id).map(row).collect()
    }

    /// What could not be read.
    #[must_use]
    pub fn unread(&self) -> Option<&UnreadRecords> {
        self.unread.as_ref()
    }

    /// One record; the error says why it is of no use.
    fn take(
        &mut self,
        producer_id: i64,
        record_offset: i64,
        record: DecodedRecord,
    ) -> Result<(), String> {
        let mut key = match record.key {
            Decoded::Json(key) => key,
            Decoded::Null => return Err("no key".to_owned()),
            Decoded::Raw(reason) => return Err(reason.to_string()),
        };
        let record_type = key.get("type").and_then(Value::as_str);
        if !record_type.is_some_and(|it| OFFSET_COMMIT_TYPES.contains(&it)) {
            return Ok(());
        }
        let key: OffsetKey = data(&mut key)?;
        let mut value = match record.value {
            Decoded::Json(value) => value,
            Decoded::Null => {
                self.delete(&key);
                return Ok(());
            }
            Decoded::Raw(reason) => return Err(reason.to_string()),
        };
        let value: OffsetCommitValue = data(&mut value)?;
        let commit = OffsetCommit {
            offset: value.offset,
            leader_epoch: value.leader_epoch.filter(|epoch| *epoch >= 0),
            metadata: value.metadata,
            commit_timestamp_ms: value.commit_timestamp,
            record_offset,
        };
        if producer_id == NO_PRODUCER_ID {
            self.committed.insert(key, commit);
        } else {
            let open = self.open_by_group.entry(key.group.clone()).or_default();
            open.insert(producer_id);
            let pending = self.pending.entry(producer_id).or_default();
            pending.insert(key, commit);
        }
        Ok(())
    }

    /// A tombstone takes away what is pending as well.
    fn delete(&mut self, key: &OffsetKey) {
        self.committed.remove(key);
        for producer_id in self.open_by_group.get(&key.group).into_iter().flatten() {
            if let Some(pending) = self.pending.get_mut(producer_id) {
                pending.remove(key);
            }
        }
    }

    fn end(&mut self, producer_id: i64, control_type: ControlRecordType) {
        let is_commit = control_type == ControlRecordType::COMMIT;
        if !is_commit && control_type != ControlRecordType::ABORT {
            return;
        }
        for (key, commit) in self.pending.remove(&producer_id).into_iter().flatten() {
            if let Some(open) = self.open_by_group.get_mut(&key.group) {
                open.remove(&producer_id);
            }
            // A plain commit that was written after it counts.
            let is_newer = |known: &OffsetCommit| commit.record_offset > known.record_offset;
            if is_commit && self.committed.get(&key).is_none_or(is_newer) {
                self.committed.insert(key, commit);
            }
        }
    }
}

/// The message in Kafka's form of a key or value: `{.., "data": {..}}`.
fn data<T: for<'d> Deserialize<'d>>(shown: &mut Value) -> Result<T, String> {
    let data = shown.get_mut("data").map(Value::take).unwrap_or_default();
    serde_json::from_value(data).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GROUP: &str = "g";

    /// A record as the decoder gives it; `None` is a tombstone.
    fn record(offset: Option<i64>) -> DecodedRecord {
        let key = json!({"group": GROUP, "topic": "t", "partition": 0});
        let value = offset.map_or(Decoded::Null, |offset| {
            let data = json!({"offset": offset, "metadata": "", "commitTimestamp": 0});
            Decoded::Json(json!({"version": "1", "data": data}))
        });
        DecodedRecord {
            key: Decoded::Json(json!({"type": "1", "data": key})),
            value,
        }
    }

    fn committed(offsets: &OffsetCommits) -> Vec<i64> {
        offsets.committed().map(|(_, it)| it.offset).collect()
    }

    #[test]
    fn a_plain_commit_counts_over_an_older_one_that_is_committed_later() {
        let mut offsets = OffsetCommits::default();
        offsets.take(7, 0, record(Some(10))).unwrap();
        offsets.take(NO_PRODUCER_ID, 1, record(Some(5))).unwrap();
        offsets.end(7, ControlRecordType::COMMIT);
        assert_eq!(committed(&offsets), [5]);
        offsets.take(7, 3, record(Some(20))).unwrap();
        assert_eq!(offsets.rows(7)[0].committed_offset, Some(5));
        offsets.end(7, ControlRecordType::COMMIT);
        assert_eq!(committed(&offsets), [20]);
    }

    #[test]
    fn what_is_aborted_or_deleted_never_counts() {
        let mut offsets = OffsetCommits::default();
        offsets.take(7, 0, record(Some(10))).unwrap();
        offsets.end(7, ControlRecordType::ABORT);
        offsets.end(7, ControlRecordType::COMMIT);
        assert_eq!(committed(&offsets), [0_i64; 0]);
        // The group was deleted while a transaction of it was open.
        offsets.take(7, 2, record(Some(10))).unwrap();
        offsets.take(NO_PRODUCER_ID, 3, record(None)).unwrap();
        assert_eq!(offsets.rows(7), []);
        offsets.end(7, ControlRecordType::COMMIT);
        assert_eq!(committed(&offsets), [0_i64; 0]);
    }
}
