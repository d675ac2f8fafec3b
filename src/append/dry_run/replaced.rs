//! What is lost where a start puts a copy in the place of a replica.

use std::ops::ControlFlow;

use super::row::RecoverRow;
use crate::format::kafka_uuid::KafkaUuid;
use crate::log::batches::Entry;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};

impl RecoverRow {
    /// Takes in that the metadata has the replica in another log directory of the broker, which is
    /// not at hand.
    pub fn set_elsewhere(&mut self, directory_id: KafkaUuid) {
        if self.loads {
            self.warnings.push(format!(
                "the metadata has this replica in log directory {directory_id} of the broker: if a \
                 copy of it was left there by a move, the start puts that into use and deletes \
                 this directory; give all log directories of the broker to see"
            ));
        }
    }

    /// Takes in that the replica is deleted, and `copy`, which comes up as its row says, is in its
    /// place (`LogManager.recoverAbandonedFutureLogs`). What the replica has behind the copy's end
    /// is lost.
    ///
    /// # Errors
    /// If the replica cannot be read.
    pub fn set_replaced(
        &mut self,
        copy: &RecoverRow,
        dir: &PartitionDir,
        io: Io,
    ) -> Result<(), Error> {
        let ends = self.log_end_offset.zip(copy.log_end_offset);
        let Some((end, copy_end)) = ends.filter(|_| self.loads && copy.loads) else {
            return Ok(());
        };
        self.replaced_by = Some(copy.path.clone());
        let lost = if copy_end < end {
            self.count_lost((copy_end, end), dir, io)?;
            format!("and what lies from {copy_end} on with it")
        } else {
            "all of which the copy has".to_owned()
        };
        self.warnings.push(format!(
            "the metadata has this replica in the log directory of {}: the broker puts that copy, \
             which ends at {copy_end}, into use and deletes this directory, {lost}; with the copy \
             moved away before the start this replica stays in use",
            copy.path
        ));
        Ok(())
    }

    fn count_lost(
        &mut self,
        (from, end): (i64, i64),
        dir: &PartitionDir,
        io: Io,
    ) -> Result<(), Error> {
        let losses = &mut self.losses;
        let mut has_lost = false;
        walk_partition(dir, io, 0, |_, entry| {
            let Entry::Batch(batch) = entry else {
                return Ok::<_, Error>(ControlFlow::Continue(()));
            };
            let (first, last) = (batch.header.base_offset(), batch.header.last_offset());
            // What is behind the log end is counted where it is cut off.
            if first >= end {
                return Ok(ControlFlow::Break(()));
            }
            if last >= from && batch.is_valid()? {
                has_lost = true;
                let first = first.max(from);
                losses.batches += 1;
                losses.records += u64::from(batch.header.records_count().max(0).cast_unsigned());
                losses.first_offset = Some(losses.first_offset.map_or(first, |it| it.min(first)));
                losses.last_offset = losses.last_offset.max(Some(last));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.loses_data |= has_lost;
        Ok(())
    }
}
