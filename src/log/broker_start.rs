//! What in a broker's log directories, beside its partitions, keeps it from starting.
//!
//! Decides `LogManager.loadLogs`, `LogManager.loadLog`, `CheckpointFileWithFailureHandler.read`.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Io;
use super::checkpoints::{CheckpointDefect, Checkpoints};
use super::log_dir::{LogDir, LogPath, folder_above};
use super::mapped_file::MappedFile;
use super::partition_dir::PartitionDir;
use crate::format::file_name::{LogDirFileName, LogFileKind, PartitionDirName, PartitionDirStatus};
use crate::format::internal_topic::InternalTopic;
use crate::format::meta_properties::MetaProperties;

/// Whose log directory it is, as far as its files say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broker {
    /// By `meta.properties`.
    Node(BrokerNode),
    /// Of nobody known: a broker of its own.
    Of(PathBuf),
}

/// A broker by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerNode {
    /// Id of the cluster.
    pub cluster_id: String,
    /// Id of the broker.
    pub node_id: i32,
}

impl BrokerNode {
    /// The broker that the `meta.properties` of a log directory names.
    #[must_use]
    pub fn of_log_dir(path: &Path, io: Io) -> Option<Self> {
        let properties = meta_properties(path, io)?;
        Some(Self {
            cluster_id: properties.cluster_id?,
            node_id: properties.node_id?,
        })
    }
}

/// Whether the `meta.properties` of a log directory is one of KRaft, whose version is 1
/// (`MetaPropertiesVersion`).
#[must_use]
pub fn is_under_kraft(path: &Path, io: Io) -> bool {
    meta_properties(path, io).is_some_and(|it| it.version > 0)
}

/// Whether a broker takes a live partition for a stray, renames its directory at any start and
/// serves none of it: under KRaft, one with data and without `partition.metadata`, which a broker
/// writes before the first batch (`LogManager.isStrayKraftReplica`, `UnifiedLog.append`).
#[must_use]
pub fn is_taken_for_stray(dir: &PartitionDir, io: Io) -> bool {
    let is_live = dir.status() == Some(&PartitionDirStatus::Live);
    // The quorum loads it and not the log manager.
    let is_of_quorum = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
    let begins_at = dir.segments.first().map_or(0, |first| first.base_offset);
    // An empty one may be without it after a crash.
    let had_data = dir.size_in_bytes() > 0 || begins_at > 0;
    if !is_live || is_of_quorum || !had_data || !dir.is_whole {
        return false;
    }
    // It may have been written while the directory was listed.
    let name = LogFileKind::PartitionMetadata.to_string();
    folder_above(&dir.path).is_some_and(|above| is_under_kraft(&above, io))
        && !dir.path.join(name).exists()
}

fn meta_properties(path: &Path, io: Io) -> Option<MetaProperties> {
    let file = path.join(LogDirFileName::MetaProperties.to_string());
    let file = MappedFile::open(&file, io).ok()?;
    MetaProperties::decode(&file.read_all().ok()?).ok()
}

/// What a broker comes to that cannot start.
pub const DOES_NOT_START: &str = "does not start";

/// What comes of something that keeps partitions from being loaded: an exception that nobody
/// catches ends the broker's start, another one takes the log directory offline
/// (`LogManager.loadLogs`).
#[must_use]
pub fn outage(stops_broker: bool) -> String {
    if stops_broker {
        format!("the broker {DOES_NOT_START}")
    } else {
        "the log directory goes offline".to_owned()
    }
}

/// Something that keeps a broker from starting, or one log directory of it offline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct StartObstacle {
    /// The file or directory.
    pub path: String,
    /// Simple name of Kafka's exception.
    pub exception: &'static str,
    /// Whether the whole broker stops, and not only the log directory goes offline; a broker
    /// without any log directory stops as well.
    pub stops_broker: bool,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub next_step: &'static str,
    /// What it is.
    #[serde(skip)]
    pub what: Obstacle,
}

/// What keeps a broker from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A directory of this name that is no partition's (`LocalLog.parseTopicPartitionName`).
    ForeignDirectory(String),
    /// A replica in use, or the future one, that the broker has twice (`LogManager.loadLog`).
    DuplicatePartition {
        /// What the directory's name says.
        name: PartitionDirName,
        /// The other directory.
        twin: PathBuf,
    },
    /// An offset checkpoint (`CheckpointFileWithFailureHandler.read`).
    UnreadableCheckpoint {
        /// Its name.
        file: String,
        /// What is wrong with it.
        defect: CheckpointDefect,
    },
}

/// The obstacles in the log directories of a run.
#[derive(Debug, Default)]
pub struct StartObstacles {
    /// By log directory.
    brokers: HashMap<PathBuf, Broker>,
    /// Whose it is and in which log directory.
    found: Vec<(Broker, PathBuf, StartObstacle)>,
}

impl StartObstacles {
    /// Looks through the log directories that the paths are, or lie in. What cannot be listed is
    /// passed over: whoever goes through the partitions says so.
    #[must_use]
    pub fn find(paths: &[PathBuf], io: Io) -> Self {
        let mut found = Self::default();
        let mut logs = HashMap::new();
        let mut seen = BTreeSet::new();
        for path in paths {
            let Some(dir) = log_dir_of(path) else {
                continue;
            };
            let resolved = resolved(&dir.path);
            if seen.insert(resolved.clone()) {
                found.log_dir(&dir, resolved, io, &mut logs);
            }
        }
        found
    }

    /// All of them, by log directory.
    pub fn iter(&self) -> impl Iterator<Item = &StartObstacle> {
        self.found.iter().map(|(_, _, obstacle)| obstacle)
    }

    /// Those in one log directory.
    pub fn of_log_dir(&self, path: &Path) -> impl Iterator<Item = &StartObstacle> {
        let resolved = resolved(path);
        let of_it = self.found.iter();
        of_it.filter_map(move |(_, place, it)| (*place == resolved).then_some(it))
    }

    /// The broker that holds the partition in this directory, and the log directory.
    #[must_use]
    pub fn holder(&self, path: &Path) -> Option<(&Broker, PathBuf)> {
        let log_dir = folder_above(path)?;
        Some((self.brokers.get(&log_dir)?, log_dir))
    }

    /// What keeps the partition in this directory from being served: whatever stops its broker
    /// before what takes its log directory offline.
    #[must_use]
    pub fn of_partition(&self, path: &Path) -> Option<&StartObstacle> {
        let (broker, log_dir) = self.holder(path)?;
        let of_it = |stops_broker: bool| {
            let mut found = self.found.iter();
            found.find(|(whose, place, obstacle)| {
                whose == broker
                    && obstacle.stops_broker == stops_broker
                    && (stops_broker || *place == log_dir)
            })
        };
        let (_, _, obstacle) = of_it(true).or_else(|| of_it(false))?;
        Some(obstacle)
    }

    fn log_dir(
        &mut self,
        dir: &LogDir,
        resolved: PathBuf,
        io: Io,
        logs: &mut HashMap<(Broker, String, i32, bool), PathBuf>,
    ) {
        let node = BrokerNode::of_log_dir(&dir.path, io);
        let broker = node.map_or_else(|| Broker::Of(resolved.clone()), Broker::Node);
        self.brokers.insert(resolved.clone(), broker.clone());
        let mut add = |obstacle| {
            self.found
                .push((broker.clone(), resolved.clone(), obstacle))
        };
        for name in &dir.other_dirs {
            add(StartObstacle {
                path: dir.path.join(name).display().to_string(),
                exception: "KafkaException",
                stops_broker: true,
                message: "not a partition directory, and every directory here must be one"
                    .to_owned(),
                next_step: "move it out of the log directory",
                what: Obstacle::ForeignDirectory(name.clone()),
            });
        }
        for partition in &dir.partitions {
            let PartitionDirName {
                topic,
                partition: number,
                status,
            } = &partition.name;
            let is_future = match status {
                PartitionDirStatus::Live => false,
                PartitionDirStatus::Future(_) => true,
                PartitionDirStatus::Delete(_) | PartitionDirStatus::Stray(_) => continue,
            };
            // The quorum loads it and not the log manager.
            if topic == InternalTopic::ClusterMetadata.name() {
                continue;
            }
            let key = (broker.clone(), topic.clone(), *number, is_future);
            if let Some(twin) = logs.get(&key) {
                add(StartObstacle {
                    path: partition.path.display().to_string(),
                    exception: "IllegalStateException",
                    stops_broker: true,
                    message: format!(
                        "the broker has this partition in {} as well",
                        twin.display()
                    ),
                    next_step: "compare the two with kseg diff and move one away",
                    what: Obstacle::DuplicatePartition {
                        name: partition.name.clone(),
                        twin: twin.clone(),
                    },
                });
            } else {
                logs.insert(key, partition.path.clone());
            }
        }
        for problem in Checkpoints::read(&dir.path, io).problems {
            let message = problem.to_string();
            let Some(defect) = problem.defect else {
                continue;
            };
            add(StartObstacle {
                path: dir.path.display().to_string(),
                exception: "KafkaStorageException",
                stops_broker: false,
                message,
                next_step: "take the file away, or correct it: without the offset checkpoints a \
                            broker recovers everything and starts",
                what: Obstacle::UnreadableCheckpoint {
                    file: problem.file,
                    defect,
                },
            });
        }
    }
}

fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The log directory at a path, or that it lies in: of a partition, or of a file in either.
fn log_dir_of(path: &Path) -> Option<LogDir> {
    match LogPath::discover(path).ok()? {
        LogPath::LogDir(dir) => Some(dir),
        LogPath::Partition(dir) => {
            let dir = LogDir::open(&above(&dir.path)?).ok()?;
            dir.has_known_file().then_some(dir)
        }
        LogPath::File(file) => log_dir_of(&above(&file)?),
    }
}

/// The folder a path is in, as it is named there.
fn above(path: &Path) -> Option<PathBuf> {
    match path.parent().filter(|it| !it.as_os_str().is_empty()) {
        Some(above) => Some(above.to_owned()),
        None => folder_above(path),
    }
}
