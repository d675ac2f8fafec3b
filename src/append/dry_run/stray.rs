//! What becomes of a directory that the broker does not take for a replica of its own.

use super::row::RecoverRow;
use crate::format::file_name::{PartitionDirName, PartitionDirStatus};
use crate::format::kafka_uuid::KafkaUuid;
use crate::log::Io;
use crate::log::partition_dir::PartitionDir;
use crate::log::strays::{Stray, had_data};

impl RecoverRow {
    /// The name that the start gives the directory of the partition; `None` if it keeps its own.
    /// A stray gets one that ends in `-stray` (`LogManager.loadLog`); a copy that is put into use
    /// the name of the replica, and that one a name to be deleted under
    /// (`LogManager.recoverAbandonedFutureLogs`). Where Kafka's has random digits this one has
    /// those of the topic id.
    #[must_use]
    pub fn name_after_start(&self, dir: &PartitionDir) -> Option<PartitionDirName> {
        let digits = || {
            let id = dir.topic_id(Io::default()).ok().flatten();
            let id: Option<KafkaUuid> = id.and_then(|it| it.parse().ok());
            let id = u128::from_be_bytes(id.unwrap_or(KafkaUuid::ZERO).0);
            format!("{id:032x}")
        };
        let status = if self.stray.is_some() {
            PartitionDirStatus::Stray(digits())
        } else if self.replaced_by.is_some() {
            PartitionDirStatus::Delete(digits())
        } else if self.takes_over {
            PartitionDirStatus::Live
        } else {
            return None;
        };
        Some(PartitionDirName {
            topic: dir.topic()?.to_owned(),
            partition: dir.partition()?,
            status,
        })
    }

    /// Takes in that the broker takes the directory for a stray, which it does once it is loaded
    /// (`LogManager.loadLog`).
    pub fn set_stray(&mut self, stray: Stray, dir: &PartitionDir) {
        if !self.loads {
            return;
        }
        let had_data = had_data(dir);
        // Nobody is served from a copy that is under way.
        self.is_stray = had_data && self.status == Some("live");
        if had_data {
            let next_step = match &stray {
                Stray::NoTopicId => {
                    "write the file before the start, kseg ls on another replica shows the topic id"
                }
                Stray::UnknownTopicId { .. } | Stray::UnknownPartition { .. } => {
                    "if the cluster should have it, do not start before it has it again"
                }
                Stray::NotAssigned { .. } => "see first that those brokers have what is in it",
            };
            let warning = format!(
                "{stray}: the broker renames the directory to ...-stray and serves none of it; \
                 {next_step}"
            );
            self.warnings.insert(0, warning);
        }
        self.stray = Some(stray);
    }
}
