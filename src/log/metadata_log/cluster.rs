//! What the metadata logs at hand say of the partitions of a run.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::{MetadataLog, TopicsImage, Unusable};
use crate::format::internal_topic::InternalTopic;
use crate::format::kafka_uuid::KafkaUuid;
use crate::log::Io;
use crate::log::broker_start::{BrokerNode, KRaftLogDir};
use crate::log::log_dir::folder_above;
use crate::log::partition_dir::PartitionDir;
use crate::log::strays::is_loaded_as_replica;

/// The metadata logs in the log directories of a run. They are read when the first partition of
/// their cluster is asked for.
#[derive(Debug)]
pub struct ClusterMetadata {
    pub(in crate::log) io: Io,
    /// The log directories under KRaft, by the names they were given.
    log_dirs: Vec<(PathBuf, KRaftLogDir)>,
    /// By cluster; `None` where no log of it is at hand or none can be used.
    logs: HashMap<String, Option<ReadLog>>,
    unusable: Vec<UnusableMetadataLog>,
}

/// A metadata log and the directory as it was when it was read.
#[derive(Debug)]
struct ReadLog {
    log: MetadataLog,
    dir: PartitionDir,
}

/// A metadata log that cannot be used.
#[derive(Debug)]
pub struct UnusableMetadataLog {
    /// Its directory.
    pub path: PathBuf,
    /// Why.
    pub reason: Unusable,
}

/// What is known of a partition directory.
#[derive(Debug)]
pub(in crate::log) struct Known<'a> {
    /// Its log directory.
    pub(in crate::log) log_dir: KRaftLogDir,
    /// The id in its `partition.metadata`.
    pub(in crate::log) topic_id: KafkaUuid,
    /// The topics of the cluster.
    pub(in crate::log) topics: &'a TopicsImage,
}

impl ClusterMetadata {
    /// Looks in the log directories that the paths are, or lie in.
    #[must_use]
    pub fn around(paths: &[PathBuf], io: Io) -> Self {
        let mut seen = BTreeSet::new();
        let mut log_dirs = Vec::new();
        for (path, log_dir) in paths
            .iter()
            .filter_map(|path| KRaftLogDir::around(path, io))
        {
            if std::fs::canonicalize(&path).is_ok_and(|it| seen.insert(it)) {
                log_dirs.push((path, log_dir));
            }
        }
        Self {
            io,
            log_dirs,
            logs: HashMap::new(),
            unusable: Vec::new(),
        }
    }

    /// The metadata logs that were wanted and cannot be used. Where there are some, what depends on
    /// them is not told.
    #[must_use]
    pub fn unusable(&self) -> &[UnusableMetadataLog] {
        &self.unusable
    }

    /// What is known of a directory that is loaded as a replica and has a topic id.
    pub(in crate::log) fn known_of(&mut self, dir: &PartitionDir) -> Option<Known<'_>> {
        if !is_loaded_as_replica(dir) {
            return None;
        }
        let log_dir = KRaftLogDir::open(&folder_above(&dir.path)?, self.io)?;
        let topic_id = dir.topic_id(self.io).ok()??.parse().ok()?;
        let log = self.log_of(&log_dir.node.cluster_id)?;
        Some(Known {
            log_dir,
            topic_id,
            topics: &log.topics,
        })
    }

    /// The log directory of a broker that has an id, among those of the run.
    pub(in crate::log) fn log_dir(&self, of: &BrokerNode, id: KafkaUuid) -> Option<&Path> {
        let mut log_dirs = self.log_dirs.iter();
        let found = log_dirs.find(|(_, it)| it.node == *of && it.directory_id == Some(id));
        found.map(|(path, _)| path.as_path())
    }

    /// Forgets what was read for the cluster of a directory if a node has been at work on the
    /// metadata log since; whether it has.
    pub(in crate::log) fn forget_if_changed(&mut self, dir: &PartitionDir) -> bool {
        let above = folder_above(&dir.path);
        let Some(of) = above.and_then(|it| KRaftLogDir::open(&it, self.io)) else {
            return false;
        };
        let cluster_id = &of.node.cluster_id;
        let read = self.logs.get(cluster_id).and_then(Option::as_ref);
        let has_changed = read.is_some_and(|read| read.dir.has_changed());
        if has_changed {
            self.logs.remove(cluster_id);
        }
        has_changed
    }

    fn log_of(&mut self, cluster_id: &str) -> Option<&MetadataLog> {
        if !self.logs.contains_key(cluster_id) {
            let newest = self.read_newest(cluster_id);
            self.logs.insert(cluster_id.to_owned(), newest);
        }
        let read = self.logs.get(cluster_id)?.as_ref()?;
        Some(&read.log)
    }

    /// All nodes of a cluster have the same log, some of them more of it than others.
    fn read_newest(&mut self, cluster_id: &str) -> Option<ReadLog> {
        let mut newest: Option<ReadLog> = None;
        let mut unusable = Vec::new();
        for (log_dir, of) in &self.log_dirs {
            let path = log_dir.join(format!("{}-0", InternalTopic::ClusterMetadata.name()));
            if of.node.cluster_id != cluster_id || !path.is_dir() {
                continue;
            }
            match ReadLog::read(&path, self.io) {
                Ok(read) => {
                    let end_offset = newest.as_ref().map_or(-1, |it| it.log.end_offset);
                    if read.log.end_offset > end_offset {
                        newest = Some(read);
                    }
                }
                Err(reason) => unusable.push(UnusableMetadataLog { path, reason }),
            }
        }
        if newest.is_none() {
            self.unusable.extend(unusable);
        }
        newest
    }
}

impl ReadLog {
    fn read(path: &Path, io: Io) -> Result<Self, Unusable> {
        let dir = PartitionDir::hold(path)?;
        let log = MetadataLog::read(&dir, io)?;
        Ok(Self { log, dir })
    }
}
