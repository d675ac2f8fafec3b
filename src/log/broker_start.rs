//! What in a broker's log directories, beside its partitions, keeps it from starting.
//!
//! Decides `LogManager.loadLogs`, `LogManager.loadLog`, `CheckpointFileWithFailureHandler.read`.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Io;
use super::checkpoints::Checkpoints;
use super::log_dir::{LogDir, LogPath, PartitionPath, folder_above};
use super::mapped_file::MappedFile;
use super::metadata_log::ClusterMetadata;
use super::odd_entry::NO_EXCEPTION;
use super::odd_root_file::OddRootFile;
use super::strays::Stray;
use crate::error::DecodeError;
use crate::format::file_name::{LogDirFileName, PartitionDirName, PartitionDirStatus};
use crate::format::internal_topic::InternalTopic;
use crate::format::kafka_uuid::KafkaUuid;
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
        Self::of(meta_properties(path, io)?.ok()?)
    }

    fn of(properties: MetaProperties) -> Option<Self> {
        Some(Self {
            cluster_id: properties.cluster_id?,
            node_id: properties.node_id?,
        })
    }
}

/// The broker of a log directory under KRaft, where `meta.properties` has version 1
/// (`MetaPropertiesVersion`).
#[must_use]
pub fn kraft_node(path: &Path, io: Io) -> Option<BrokerNode> {
    Some(KRaftLogDir::open(path, io)?.node)
}

/// A log directory under KRaft.
#[derive(Clone, Debug)]
pub(super) struct KRaftLogDir {
    /// The broker.
    pub(super) node: BrokerNode,
    /// The id by which the metadata names the directory; none before Kafka 3.7.
    pub(super) directory_id: Option<KafkaUuid>,
}

impl KRaftLogDir {
    /// What its `meta.properties` says.
    pub(super) fn open(path: &Path, io: Io) -> Option<Self> {
        let properties = meta_properties(path, io)?.ok();
        let properties = properties.filter(|it| it.version > 0)?;
        let directory_id = properties.directory_id;
        let node = BrokerNode::of(properties)?;
        Some(Self { node, directory_id })
    }

    /// The one that a path is, or that it lies in: a partition, or a file in either.
    pub(super) fn around(path: &Path, io: Io) -> Option<(PathBuf, Self)> {
        let mut path = path.to_owned();
        for _ in 0..2 {
            if let Some(found) = Self::open(&path, io) {
                return Some((path, found));
            }
            path = above(&path)?;
        }
        let found = Self::open(&path, io)?;
        Some((path, found))
    }
}

/// The `meta.properties` of a log directory; `None` if there is none to read.
fn meta_properties(path: &Path, io: Io) -> Option<Result<MetaProperties, DecodeError>> {
    let file = path.join(LogDirFileName::MetaProperties.to_string());
    let file = MappedFile::open(&file, io).ok()?;
    Some(MetaProperties::decode(&file.read_all().ok()?))
}

/// What a broker comes to that cannot start.
pub const DOES_NOT_START: &str = "does not start";

/// What a broker does about an offset checkpoint that it cannot read.
pub const GOES_OFFLINE_LATER: &str = "takes it for empty, goes on loading, and then takes the \
                                      whole log directory offline";

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
    /// Simple name of Kafka's exception; `none` where the start waits and comes to no end.
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

impl StartObstacle {
    /// What keeps it from coming up, in a word.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        cause(self.exception)
    }
}

/// What keeps something from coming up, in a word: an exception, or what stands for none.
#[must_use]
pub fn cause(exception: &'static str) -> &'static str {
    match exception {
        NO_EXCEPTION => "loading waits",
        exception => exception,
    }
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
        defect: DecodeError,
    },
    /// `meta.properties` (`MetaPropertiesEnsemble.Loader`).
    UnreadableMetaProperties(DecodeError),
    /// What has the name of a file that a broker reads, and is none.
    NotAFile(OddRootFile),
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
    /// passed over: whoever goes through the partitions says so. Strays are renamed before a broker
    /// sees that it has a partition twice, so they are none of these.
    #[must_use]
    pub fn find(paths: &[PathBuf], metadata: &mut ClusterMetadata, io: Io) -> Self {
        let mut found = Self::default();
        let mut replicas = Replicas {
            metadata,
            logs: HashMap::new(),
        };
        let mut seen = BTreeSet::new();
        for path in paths {
            let Some(dir) = log_dir_of(path) else {
                continue;
            };
            let resolved = resolved(&dir.path);
            if seen.insert(resolved.clone()) {
                found.log_dir(&dir, resolved, &mut replicas, io);
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

    fn log_dir(&mut self, dir: &LogDir, resolved: PathBuf, replicas: &mut Replicas<'_>, io: Io) {
        let (properties, defect) = match meta_properties(&dir.path, io) {
            Some(Ok(properties)) => (Some(properties), None),
            Some(Err(defect)) => (None, Some(defect)),
            None => (None, None),
        };
        let node = properties.and_then(BrokerNode::of);
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
            let Some(twin) = replicas.twin_of(partition, &broker) else {
                continue;
            };
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
                    twin,
                },
            });
        }
        of_files(dir, defect, io).into_iter().for_each(add);
    }
}

/// The replicas of a run, as brokers register them.
struct Replicas<'m> {
    metadata: &'m mut ClusterMetadata,
    /// By broker, topic and partition, and whether it is a future one.
    logs: HashMap<(Broker, String, i32, bool), PathBuf>,
}

impl Replicas<'_> {
    /// Registers a directory, unless it or the one that is registered already is a stray; the other
    /// one, if neither is.
    fn twin_of(&mut self, dir: &PartitionPath, broker: &Broker) -> Option<PathBuf> {
        let name = &dir.name;
        let is_future = match name.status {
            PartitionDirStatus::Live => false,
            PartitionDirStatus::Future(_) => true,
            PartitionDirStatus::Delete(_) | PartitionDirStatus::Stray(_) => return None,
        };
        // The quorum loads it and not the log manager.
        if name.topic == InternalTopic::ClusterMetadata.name() {
            return None;
        }
        let key = (
            broker.clone(),
            name.topic.clone(),
            name.partition,
            is_future,
        );
        // Which is a stray is looked at where there are two.
        let twin = self.logs.get(&key);
        if let Some(twin) = twin.filter(|it| !Stray::is_at(it, self.metadata)) {
            let is_stray = Stray::is_at(&dir.path, self.metadata);
            return (!is_stray).then(|| twin.clone());
        }
        self.logs.insert(key, dir.path.clone());
        None
    }
}

/// What of the files that lie directly in a log directory a broker cannot read. `defect` is what is
/// wrong with its `meta.properties`.
fn of_files(dir: &LogDir, defect: Option<DecodeError>, io: Io) -> Vec<StartObstacle> {
    let mut found = Vec::new();
    for odd in &dir.odd {
        let Some((exception, stops_broker)) = odd.outage() else {
            continue;
        };
        found.push(StartObstacle {
            path: dir.path.join(odd.name.to_string()).display().to_string(),
            exception,
            stops_broker,
            message: format!("{}, where a file should be", odd.what),
            next_step: odd.next_step(),
            what: Obstacle::NotAFile(odd.clone()),
        });
    }
    if let Some(defect) = defect {
        let name = LogDirFileName::MetaProperties;
        found.push(StartObstacle {
            path: dir.path.join(name.to_string()).display().to_string(),
            exception: "RuntimeException",
            stops_broker: false,
            message: format!("{name}: {defect}"),
            next_step: "correct it: it says whose log directory this is, and a broker without it \
                        does not start either",
            what: Obstacle::UnreadableMetaProperties(defect),
        });
    }
    for problem in Checkpoints::read(&dir.path, io).problems {
        let message = problem.to_string();
        let Some(defect) = problem.defect else {
            continue;
        };
        found.push(StartObstacle {
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
    found
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
