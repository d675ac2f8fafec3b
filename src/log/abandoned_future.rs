//! Future replicas that a start puts into use: a move between log directories was as good as over,
//! for the controller had the new directory already, and then the broker stopped.
//!
//! Such a copy takes the place of the replica in use whatever it lacks, and that one is deleted.
//! Decides `LogManager.recoverAbandonedFutureLogs`, KAFKA-16082.

use super::log_dir::{LogDir, folder_above};
use super::metadata_log::{ClusterMetadata, Known};
use super::partition_dir::PartitionDir;
use super::strays::is_loaded_as_replica;
use crate::format::file_name::PartitionDirStatus;
use crate::format::kafka_uuid::KafkaUuid;

/// Whether a directory is a future replica that is put into use at a start, as the metadata has the
/// partition in its log directory.
#[must_use]
pub fn takes_over(dir: &PartitionDir, metadata: &mut ClusterMetadata) -> bool {
    let is_future = matches!(dir.status(), Some(PartitionDirStatus::Future(_)));
    is_future && is_in_assigned_directory(dir, metadata) == Some(true)
}

fn is_in_assigned_directory(dir: &PartitionDir, metadata: &mut ClusterMetadata) -> Option<bool> {
    let known = metadata.known_of(dir)?;
    let assigned = assigned_directory(dir, &known)?;
    Some(known.log_dir.directory_id == Some(assigned))
}

/// The log directory in which the metadata has the replica on this broker.
fn assigned_directory(dir: &PartitionDir, known: &Known<'_>) -> Option<KafkaUuid> {
    let assignment = known.topics.assignment(known.topic_id, dir.partition()?)?;
    assignment.directory(known.log_dir.node.node_id)
}

/// The log directory in which the metadata has the replica of a directory in use, where that is
/// another one of this broker which is not among those of the run: a copy of it that was left there
/// by a move takes its place at the next start.
#[must_use]
pub fn elsewhere(dir: &PartitionDir, metadata: &mut ClusterMetadata) -> Option<KafkaUuid> {
    let is_live = dir.status() == Some(&PartitionDirStatus::Live);
    if !is_live || !is_loaded_as_replica(dir) {
        return None;
    }
    let known = metadata.known_of(dir)?;
    let assigned = assigned_directory(dir, &known)?;
    let own = known.log_dir.directory_id?;
    let node = known.log_dir.node;
    let is_elsewhere = assigned != own && !assigned.is_reserved_for_directories();
    (is_elsewhere && metadata.log_dir(&node, assigned).is_none()).then_some(assigned)
}

/// The future replica that takes the place of the replica in a directory at a start, if it lies in
/// one of the log directories of the run.
#[must_use]
pub fn replaced_by(dir: &PartitionDir, metadata: &mut ClusterMetadata) -> Option<PartitionDir> {
    let is_live = dir.status() == Some(&PartitionDirStatus::Live);
    if !is_live || !is_loaded_as_replica(dir) {
        return None;
    }
    let known = metadata.known_of(dir)?;
    let assigned = assigned_directory(dir, &known)?;
    let (node, topic_id) = (known.log_dir.node, known.topic_id);
    let log_dir = metadata.log_dir(&node, assigned)?;
    if folder_above(&dir.path) == std::fs::canonicalize(log_dir).ok() {
        return None;
    }
    let other = LogDir::open(log_dir).ok()?;
    let mut copies = other.partitions.into_iter().filter(|it| {
        let name = &it.name;
        let is_future = matches!(name.status, PartitionDirStatus::Future(_));
        is_future
            && Some(name.topic.as_str()) == dir.topic()
            && Some(name.partition) == dir.partition()
    });
    let copy = PartitionDir::open(&copies.next()?.path).ok()?;
    let id: KafkaUuid = copy.topic_id(metadata.io).ok()??.parse().ok()?;
    (id == topic_id).then_some(copy)
}
