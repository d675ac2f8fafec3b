//! The files beside the partitions in a broker's log directory.

use std::fs;
use std::path::Path;

use super::runner::PartitionCheckpoints;
use crate::append::error::Error;
use crate::format::checkpoint::{OffsetCheckpoint, OffsetCheckpointEntry};
use crate::format::clean_shutdown::CleanShutdown;
use crate::format::file_name::LogDirFileName;
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::meta_properties::MetaProperties;

/// Writes the three checkpoint files for these partitions, in their order.
///
/// # Errors
/// If a file cannot be written.
pub fn write_checkpoints(root: &Path, partitions: &[PartitionCheckpoints]) -> Result<(), Error> {
    let write = |name: LogDirFileName, entries: Vec<OffsetCheckpointEntry>| {
        let path = root.join(name.to_string());
        fs::write(&path, OffsetCheckpoint { entries }.encode())
            .map_err(|source| Error::io(&path, source))
    };
    write(
        LogDirFileName::RecoveryPointOffsetCheckpoint,
        partitions
            .iter()
            .map(|it| it.recovery_point.clone())
            .collect(),
    )?;
    write(
        LogDirFileName::LogStartOffsetCheckpoint,
        partitions
            .iter()
            .filter_map(|it| it.log_start_offset.clone())
            .collect(),
    )?;
    write(
        LogDirFileName::ReplicationOffsetCheckpoint,
        partitions
            .iter()
            .map(|it| it.high_watermark.clone())
            .collect(),
    )
}

/// Who a broker that opens the directory has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Id of the cluster.
    pub cluster_id: String,
    /// `node.id`.
    pub node_id: i32,
    /// Id of the directory.
    pub directory_id: KafkaUuid,
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            cluster_id: KafkaUuid(*b"kseg-cluster-001").to_string(),
            node_id: 1,
            directory_id: KafkaUuid(*b"kseg-directory-1"),
        }
    }
}

/// Writes `meta.properties`, and `.kafka_cleanshutdown` after a clean stop.
///
/// # Errors
/// If a file cannot be written.
pub fn write_identity(root: &Path, identity: &Identity, clean: bool) -> Result<(), Error> {
    let write = |name: LogDirFileName, content: String| {
        let path = root.join(name.to_string());
        fs::write(&path, content).map_err(|source| Error::io(&path, source))
    };
    let properties = MetaProperties {
        version: 1,
        cluster_id: Some(identity.cluster_id.clone()),
        node_id: Some(identity.node_id),
        directory_id: Some(identity.directory_id),
    };
    write(LogDirFileName::MetaProperties, properties.encode())?;
    if clean {
        // The epoch of a broker that was never registered.
        let marker = CleanShutdown {
            version: 0,
            broker_epoch: Some(-1),
        };
        write(LogDirFileName::CleanShutdown, marker.encode())?;
    }
    Ok(())
}
