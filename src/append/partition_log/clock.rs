//! What happens when time passes: what a broker's threads do beside the requests.
//!
//! Decides the scheduled tasks of `UnifiedLog`.

use super::PartitionLog;
use crate::append::error::Error;
use crate::append::scheduler::Task;
use crate::state::Expiration;

impl PartitionLog {
    /// Moves the clock forward and runs what becomes due on the way, each task at its time.
    ///
    /// # Errors
    /// If a task fails. A time in the past only runs what is due now.
    pub fn advance_clock_to(&mut self, now_ms: i64) -> Result<(), Error> {
        self.background.scheduler.skip_idle_turns(now_ms);
        while let Some(due_ms) = self.background.scheduler.next_due_ms()
            && due_ms <= now_ms
        {
            self.background.now_ms = self.background.now_ms.max(due_ms);
            self.run_due_tasks()?;
            self.background.scheduler.skip_idle_turns(now_ms);
        }
        self.background.now_ms = self.background.now_ms.max(now_ms);
        self.run_due_tasks()
    }

    /// Runs what is due now: what a broker's threads do as soon as they can.
    ///
    /// # Errors
    /// If a task fails.
    pub fn run_due_tasks(&mut self) -> Result<(), Error> {
        while let Some(task) = self.background.scheduler.take_due(self.background.now_ms) {
            self.run(task)?;
        }
        Ok(())
    }

    /// Runs all that is done once, as if the time for it had come, and leaves the clock as it is.
    pub(in crate::append) fn finish_tasks(&mut self) -> Result<(), Error> {
        while let Some(task) = self.background.scheduler.take_once() {
            self.run(task)?;
        }
        Ok(())
    }

    fn run(&mut self, task: Task) -> Result<(), Error> {
        match task {
            Task::ExpireProducers => self.remove_expired_producers(self.background.now_ms),
            Task::FlushMetadata => self.maybe_flush_metadata()?,
            Task::FlushLog { offset } => self.log.flush(offset, false)?,
            Task::WriteLeaderEpochs => self.epochs.write()?,
            Task::DeleteFiles(files) => {
                // Why they go was said when they were given the suffix.
                self.log.files.because("");
                for file in files {
                    self.log.files.remove_if_exists(&file)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn expiration(&self, now_ms: i64) -> Expiration {
        Expiration {
            now_ms,
            producer_id_expiration_ms: i64::from(self.log.config.producer_id_expiration_ms),
        }
    }

    /// Forgets idle producers (`UnifiedLog.removeExpiredProducers`).
    pub fn remove_expired_producers(&mut self, now_ms: i64) {
        let expiration = self.expiration(now_ms);
        self.manager.remove_expired_producers(&expiration);
    }
}
