//! What becomes of a directory that the broker does not take for a replica of its own.

use super::row::RecoverRow;
use crate::log::partition_dir::PartitionDir;
use crate::log::strays::{Stray, had_data};

impl RecoverRow {
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
