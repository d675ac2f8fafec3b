//! What only several partitions together tell: topic ids that the cluster does not know, records of
//! one partition in another.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::equal_records::EqualRecords;
use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::partition::{VerifyOptions, VerifySummary};
use super::topic_ids::topic_ids;
use crate::format::file_name::{LogFileKind, PartitionDirStatus};
use crate::format::internal_topic::InternalTopic;
use crate::log::broker_start::BrokerNode;
use crate::log::log_dir::folder_above;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// Follows the partitions of a run.
#[derive(Debug)]
pub struct AcrossPartitions {
    io: Io,
    max_batch_bytes: usize,
    equal_records: Option<EqualRecords>,
    /// The broker of each folder above a partition.
    brokers: HashMap<PathBuf, Option<BrokerNode>>,
    live: Vec<Live>,
    /// Topic ids by cluster.
    topics: HashMap<String, HashMap<String, String>>,
}

/// A live partition directory.
#[derive(Debug)]
struct Live {
    topic: String,
    partition: i32,
    path: PathBuf,
    topic_id: Option<String>,
    broker: Option<BrokerNode>,
}

impl AcrossPartitions {
    /// Before the first partition. With `equal_records` every batch is compared with those of
    /// other partitions.
    #[must_use]
    pub fn new(options: &VerifyOptions, equal_records: bool) -> Self {
        Self {
            io: options.io,
            max_batch_bytes: options.max_batch_bytes,
            equal_records: equal_records.then(EqualRecords::default),
            brokers: HashMap::new(),
            live: Vec::new(),
            topics: HashMap::new(),
        }
    }

    /// Whether so many batches were looked at that not all were remembered for the search.
    #[must_use]
    pub fn forgot_batches(&self) -> bool {
        self.equal_records.as_ref().is_some_and(|it| it.is_full)
    }

    /// The next partition; hands out what it has in common with those before.
    ///
    /// # Errors
    /// If a file cannot be read, or `emit` fails.
    pub fn partition<E: From<Error>>(
        &mut self,
        dir: &PartitionDir,
        mut emit: impl FnMut(&Finding) -> Result<(), E>,
    ) -> Result<VerifySummary, E> {
        let mut found = Vec::new();
        if dir.status() == Some(&PartitionDirStatus::Live) {
            self.live(dir)?;
        }
        if let Some(equal_records) = &mut self.equal_records {
            equal_records.partition(dir, self.io, &mut found)?;
        }
        let mut summary = VerifySummary::default();
        for finding in found {
            summary.count(finding.severity);
            emit(&Finding {
                path: dir.path.display().to_string(),
                topic: dir.topic().map(str::to_owned),
                partition: dir.partition(),
                ..finding
            })?;
        }
        Ok(summary)
    }

    fn live(&mut self, dir: &PartitionDir) -> Result<(), Error> {
        let (Some(topic), Some(partition)) = (dir.topic(), dir.partition()) else {
            return Ok(());
        };
        let broker = self.broker(&dir.path);
        if topic == InternalTopic::ClusterMetadata.name() {
            if let Some(broker) = &broker {
                let ids = topic_ids(dir, self.io, self.max_batch_bytes)?;
                self.topics.insert(broker.cluster_id.clone(), ids);
            }
            return Ok(());
        }
        self.live.push(Live {
            topic: topic.to_owned(),
            partition,
            path: dir.path.clone(),
            topic_id: dir.topic_id(self.io)?,
            broker,
        });
        Ok(())
    }

    /// The broker whose log directory holds a partition; `None` if nothing there says so.
    fn broker(&mut self, path: &Path) -> Option<BrokerNode> {
        let io = self.io;
        self.brokers
            .entry(folder_above(path)?)
            .or_insert_with_key(|above| BrokerNode::of_log_dir(above, io))
            .clone()
    }

    /// After the last partition: those whose topic id is not the cluster's.
    ///
    /// # Errors
    /// If `emit` fails.
    pub fn finish<E>(
        &self,
        mut emit: impl FnMut(&Finding) -> Result<(), E>,
    ) -> Result<VerifySummary, E> {
        let mut summary = VerifySummary::default();
        for live in &self.live {
            let topics = live
                .broker
                .as_ref()
                .and_then(|it| self.topics.get(&it.cluster_id));
            let Some((topics, own)) = topics.zip(live.topic_id.as_ref()) else {
                continue;
            };
            let known = topics.get(&live.topic);
            if known == Some(own) {
                continue;
            }
            let is = known.map_or("no such topic".to_owned(), Clone::clone);
            let finding = Finding {
                path: live.path.display().to_string(),
                topic: Some(live.topic.clone()),
                partition: Some(live.partition),
                file: Some(LogFileKind::PartitionMetadata.to_string()),
                message: format!("topic id is {own}, the cluster's metadata has {is}"),
                expected: Some(is),
                found: Some(own.clone()),
                broker_action: "renames the directory to ...-stray at start: its topic was deleted"
                    .to_owned(),
                ..Finding::new(Severity::Notable, Kind::TopicIdDiffers, "")
            };
            summary.count(finding.severity);
            emit(&finding)?;
        }
        Ok(summary)
    }
}
