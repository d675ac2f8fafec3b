//! Cutting the log back.
//!
//! Decides `UnifiedLog.truncateTo`, `UnifiedLog.truncateFullyAndStartAt`.

use super::PartitionLog;
use crate::append::error::{Error, Rejection};
use crate::append::loader::rename_snapshots_of;
use crate::append::scheduler::Task;
use crate::append::state_files::{StateFiles, find_snapshot};
use crate::state::rebuild::{Rebuild, rebuild_producer_state};

impl PartitionLog {
    /// Drops everything from the offset on; returns whether there was anything
    /// (`UnifiedLog.truncateTo`).
    ///
    /// # Errors
    /// If the offset is negative, or files cannot be changed.
    pub fn truncate_to(&mut self, offset: i64) -> Result<bool, Error> {
        self.log.check_online()?;
        if offset < 0 {
            return Err(Rejection::NegativeOffset(offset).into());
        }
        let end = self.log.log_end_offset();
        if offset >= end {
            self.truncate_epochs_from_end(end);
            return Ok(false);
        }
        self.log.check_open()?;
        if self.log.first_base_offset() > offset {
            self.truncate_fully_and_start_at(offset, offset)?;
            return Ok(true);
        }
        let deleted = self.log.truncate_to(offset, &mut self.background)?;
        self.delete_snapshots_of(&deleted)?;
        self.truncate_epochs_from_end(offset);
        let log_start_offset = self.offsets.log_start_offset().min(offset);
        self.offsets.set_log_start_offset(log_start_offset);
        self.rebuild_producer_state(offset)?;
        if self.offsets.high_watermark() >= self.log.log_end_offset() {
            self.high_watermark_to_end()?;
        }
        Ok(true)
    }

    /// Drops everything; the log begins anew (`UnifiedLog.truncateFullyAndStartAt`).
    ///
    /// # Errors
    /// If files cannot be changed.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: i64,
        log_start_offset: i64,
    ) -> Result<(), Error> {
        self.log.check_open()?;
        self.log
            .truncate_fully_and_start_at(offset, &mut self.background)?;
        self.epochs.clear()?;
        for snapshot in self.manager.truncate_fully_and_start_at(offset) {
            let path = find_snapshot(&self.log.files, &self.log.dir, snapshot)?;
            self.log.files.remove_if_exists(&path)?;
        }
        self.offsets.set_log_start_offset(log_start_offset);
        self.rebuild_producer_state(offset)?;
        self.high_watermark_to_end()
    }

    fn truncate_epochs_from_end(&mut self, end: i64) {
        if self.epochs.truncate_from_end(end) {
            self.background.soon(Task::WriteLeaderEpochs);
        }
    }

    pub(super) fn delete_snapshots_of(&mut self, base_offsets: &[i64]) -> Result<(), Error> {
        let files = rename_snapshots_of(&self.log, &mut self.manager, base_offsets)?;
        self.background.delete_later(files, &self.log.config);
        Ok(())
    }

    fn rebuild_producer_state(&mut self, last_offset: i64) -> Result<(), Error> {
        let rebuild = Rebuild {
            log_start_offset: self.offsets.log_start_offset(),
            last_offset,
            reload_from_clean_shutdown: false,
            expiration: self
                .background
                .has_clock
                .then(|| self.expiration(self.background.now_ms)),
        };
        let mut files = StateFiles {
            log: &mut self.log,
            rebuild: &rebuild,
        };
        rebuild_producer_state(&mut self.manager, &mut files, &rebuild)
    }
}
