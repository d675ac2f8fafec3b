//! What only several partitions together tell: strays by the metadata log, records of one partition
//! in another.

use std::ops::ControlFlow;

use super::equal_records::EqualRecords;
use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::partition::{VerifyOptions, VerifySummary};
use crate::format::file_name::LogFileKind;
use crate::format::kafka_uuid::KafkaUuid;
use crate::log::abandoned_future::replaced_by;
use crate::log::metadata_log::ClusterMetadata;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::strays::{Stray, other_name};
use crate::log::{Error, Io};
use crate::report::gaps::range;
use crate::report::transactions::last_offset;

/// Follows the partitions of a run.
#[derive(Debug)]
pub struct AcrossPartitions {
    io: Io,
    equal_records: Option<EqualRecords>,
    metadata: ClusterMetadata,
}

impl AcrossPartitions {
    /// Before the first partition. With `equal_records` every batch is compared with those of
    /// other partitions.
    #[must_use]
    pub fn new(options: &VerifyOptions, metadata: ClusterMetadata, equal_records: bool) -> Self {
        Self {
            io: options.io,
            equal_records: equal_records.then(EqualRecords::default),
            metadata,
        }
    }

    /// The metadata that strays were found by.
    #[must_use]
    pub fn metadata(&self) -> &ClusterMetadata {
        &self.metadata
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
        found.extend(self.stray(dir)?);
        found.extend(self.replaced(dir)?);
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

    fn stray(&mut self, dir: &PartitionDir) -> Result<Option<Finding>, Error> {
        let Some(stray) = Stray::of(dir, &mut self.metadata) else {
            return self.other_name(dir);
        };
        let set_aside = |why: &str| format!("any start renames the directory to ...-stray: {why}");
        let (kind, message, expected, found, broker_action) = match &stray {
            // Told with the files of the partition.
            Stray::NoTopicId => return Ok(None),
            Stray::UnknownTopicId { topic_id, current } => {
                let is = of_name(*current);
                let message = format!("topic id is {topic_id}, the cluster's metadata has {is}");
                let action = set_aside("its topic was deleted");
                let found = topic_id.to_string();
                (Kind::TopicIdDiffers, message, is, found, action)
            }
            Stray::UnknownPartition { .. } | Stray::NotAssigned { .. } => (
                Kind::NotAssigned,
                stray.to_string(),
                "a replica that the metadata has on this broker".to_owned(),
                stray.name().to_owned(),
                set_aside("it serves none of it"),
            ),
        };
        Ok(Some(Finding {
            file: Some(LogFileKind::PartitionMetadata.to_string()),
            message,
            expected: Some(expected),
            found: Some(found),
            broker_action,
            ..Finding::new(Severity::Notable, kind, "")
        }))
    }

    /// A replica that a copy takes the place of (`LogManager.recoverAbandonedFutureLogs`): what the
    /// copy lacks is lost with it. Brokers leave that behind which stop while the last step of a
    /// move between log directories is under way.
    fn replaced(&mut self, dir: &PartitionDir) -> Result<Option<Finding>, Error> {
        let Some(copy) = replaced_by(dir, &mut self.metadata) else {
            return Ok(None);
        };
        let end = log_end_offset(dir, self.io)?;
        let copy_end = log_end_offset(&copy, self.io)?;
        let copy_path = copy.path.display();
        let (severity, lost) = if copy_end < end {
            let lost = range(copy_end.unwrap_or(0), end.unwrap_or(0) - 1);
            (
                Severity::AfterCrash,
                format!("offsets {lost} are lost with it"),
            )
        } else {
            (Severity::Notable, "the copy has all of it".to_owned())
        };
        let next_step = "move the copy away before the start, and this replica stays in use";
        Ok(Some(Finding {
            offset: copy_end.filter(|_| copy_end < end),
            expected: end.map(|end| format!("a copy that ends at {end}")),
            found: copy_end.map(|end| format!("one that ends at {end}")),
            broker_action: format!("any start puts the copy into use and deletes this one: {lost}"),
            next_step: (copy_end < end).then(|| next_step.to_owned()),
            ..Finding::new(
                severity,
                Kind::ReplacedByCopy,
                format!("the metadata has this replica in the log directory of {copy_path}"),
            )
        }))
    }

    /// A directory with the name of one topic and the id of another one.
    fn other_name(&mut self, dir: &PartitionDir) -> Result<Option<Finding>, Error> {
        let Some((topic, current)) = other_name(dir, &mut self.metadata) else {
            return Ok(None);
        };
        let id = dir.topic_id(self.io)?.unwrap_or_default();
        let is = of_name(current);
        Ok(Some(Finding {
            file: Some(LogFileKind::PartitionMetadata.to_string()),
            message: format!("topic id is {id}, that of {topic}: the cluster's metadata has {is}"),
            expected: Some(is),
            found: Some(id),
            broker_action: "keeps it under this name and serves none of it: it is of another topic"
                .to_owned(),
            ..Finding::new(Severity::Notable, Kind::TopicIdDiffers, "")
        }))
    }
}

/// The offset behind the last batch; `None` if there is no segment.
fn log_end_offset(dir: &PartitionDir, io: Io) -> Result<Option<i64>, Error> {
    let Some(last) = dir.segments.len().checked_sub(1) else {
        return Ok(None);
    };
    let mut end = dir.segments.get(last).map(|it| it.base_offset);
    walk_partition(dir, io, last, |_, entry| {
        end = end.max(last_offset(&entry).map(|last| last.saturating_add(1)));
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(end)
}

/// What the metadata has for a topic's name.
fn of_name(current: Option<KafkaUuid>) -> String {
    current.map_or("no such topic".to_owned(), |id| id.to_string())
}
