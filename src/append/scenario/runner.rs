//! Runs a scenario: what a broker does around its log, as far as it decides what the log is asked.

use std::fs;
use std::path::{Path, PathBuf};

use super::batch::{self, Sender};
use super::final_report::FinalReport;
use super::model::{AppendStep, FollowerBatch, Marker, Reopen, Scenario, Step, Verification};
use super::result::{LogState, StepError, StepResult, Written};
use crate::append::error::Error;
use crate::append::files::Files;
use crate::append::loader::Checkpointed;
use crate::append::partition_log::{Appended, LeaderAppend, PartitionLog};
use crate::append::segment::segment_path;
use crate::append::state_files::{find_snapshot, list_snapshots};
use crate::format::NO_PRODUCER_ID;
use crate::format::checkpoint::OffsetCheckpointEntry;
use crate::format::file_name::LogFileKind;
use crate::state::verification_state::VerificationRequest;
use crate::state::{AppendOrigin, KafkaError, TransactionVersion, VerificationGuard};

/// A scenario under way.
#[derive(Debug)]
pub struct ScenarioRun<'s> {
    scenario: &'s Scenario,
    dir: PathBuf,
    log: PartitionLog,
}

/// What goes into the checkpoint files of a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionCheckpoints {
    /// For `recovery-point-offset-checkpoint`.
    pub recovery_point: OffsetCheckpointEntry,
    /// For `log-start-offset-checkpoint`, where only those stand that do not follow from the
    /// first segment.
    pub log_start_offset: Option<OffsetCheckpointEntry>,
    /// For `replication-offset-checkpoint`.
    pub high_watermark: OffsetCheckpointEntry,
}

/// A scenario that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The log in the end.
    pub report: FinalReport,
    /// What the broker would have in its checkpoint files.
    pub checkpoints: PartitionCheckpoints,
}

/// Where the log ended before an append.
struct Before {
    log_end_offset: i64,
    segment_base_offset: i64,
    segment_size: u64,
}

impl Before {
    fn at(log: &PartitionLog) -> Self {
        let (segment_base_offset, segment_size) = log.active_segment();
        Self {
            log_end_offset: log.log_end_offset(),
            segment_base_offset,
            segment_size,
        }
    }
}

impl<'s> ScenarioRun<'s> {
    /// Makes the partition's directory in `root`, empty.
    ///
    /// # Errors
    /// If files cannot be written.
    pub fn start(scenario: &'s Scenario, root: &Path) -> Result<Self, Error> {
        let dir = root.join(scenario.dir_name());
        let log = open(scenario, &dir, Checkpointed::NEW, scenario.start_time_ms)?;
        Ok(Self { scenario, dir, log })
    }

    /// The log as it is now.
    #[must_use]
    pub fn log(&self) -> &PartitionLog {
        &self.log
    }

    /// Does one step. A refusal is a result.
    ///
    /// # Errors
    /// If files cannot be read or written, or the log cannot be opened again after a clean stop: a
    /// broker does not start on it either, so there is nothing more to do. After a kill that is a
    /// refusal, and the log stays as the kill has left it.
    pub fn step(&mut self, step: &Step) -> Result<StepResult, Error> {
        let mut result = match self.execute(step) {
            Ok(result) => result,
            Err(error) if matches!(step, Step::Reopen(_)) && !self.log.log.is_closed() => {
                return Err(error);
            }
            Err(error) => {
                let mut result = StepResult::new(step.name(), "rejected");
                result.error = Some(StepError::of(error)?);
                result
            }
        };
        self.log.run_due_tasks()?;
        result.state = self.state();
        Ok(result)
    }

    /// Stops as the scenario says.
    ///
    /// # Errors
    /// If files cannot be read or written.
    pub fn finish(mut self) -> Result<Finished, Error> {
        let mut report = FinalReport::open(&self.log, self.state())?;
        if self.scenario.clean_shutdown {
            self.log.close()?;
        } else {
            self.log.kill()?;
        }
        let checkpoints = self.checkpoints();
        report.add_files(&mut self.log)?;
        Ok(Finished {
            report,
            checkpoints,
        })
    }

    fn checkpoints(&self) -> PartitionCheckpoints {
        let entry = |offset| OffsetCheckpointEntry {
            topic: self.scenario.topic.clone(),
            partition: self.scenario.partition,
            offset,
        };
        let log_start_offset = self.log.offsets().log_start_offset();
        let first_base_offset = self.log.segments().next().unwrap_or(0);
        PartitionCheckpoints {
            recovery_point: entry(self.log.recovery_point()),
            log_start_offset: (log_start_offset > first_base_offset)
                .then(|| entry(log_start_offset)),
            high_watermark: entry(self.log.offsets().high_watermark()),
        }
    }

    fn state(&self) -> LogState {
        let offsets = self.log.offsets();
        LogState {
            log_start_offset: offsets.log_start_offset(),
            log_end_offset: self.log.log_end_offset(),
            high_watermark: offsets.high_watermark(),
            first_unstable_offset: offsets.first_unstable_offset(),
            last_stable_offset: offsets.last_stable_offset(),
            recovery_point: self.log.recovery_point(),
            segments: self.log.segments().collect(),
        }
    }

    fn execute(&mut self, step: &Step) -> Result<StepResult, Error> {
        let mut done = StepResult::new(step.name(), "done");
        let log = &mut self.log;
        match step {
            Step::Append(append) => return self.append(append),
            Step::EndTxnMarker {
                marker,
                partition_leader_epoch,
                transaction_version,
            } => {
                let version = transaction_version.unwrap_or(self.scenario.transaction_version);
                return self.end_txn_marker(marker, *partition_leader_epoch, version);
            }
            Step::AppendAsFollower {
                leader_epoch,
                batches,
            } => return self.append_as_follower(*leader_epoch, batches),
            Step::BecomeLeader { leader_epoch } => log.become_leader(*leader_epoch)?,
            Step::UpdateHighWatermark { offset } => {
                done.high_watermark = Some(log.update_high_watermark(*offset)?);
            }
            Step::IncrementHighWatermark { offset } => {
                done.changed = Some(log.maybe_increment_high_watermark(*offset)?);
            }
            Step::Roll => done.segment_base_offset = Some(log.roll()?),
            Step::TruncateTo { offset } => done.changed = Some(log.truncate_to(*offset)?),
            Step::TruncateFullyAndStartAt {
                offset,
                log_start_offset,
            } => log.truncate_fully_and_start_at(*offset, log_start_offset.unwrap_or(*offset))?,
            Step::DeleteRecordsBefore { offset } => {
                let high_watermark = log.offsets().high_watermark();
                let offset = if *offset == -1 {
                    high_watermark
                } else {
                    *offset
                };
                done.changed = Some(log.maybe_increment_log_start_offset(offset)?);
            }
            Step::DeleteOldSegments => done.deleted_segments = Some(log.delete_old_segments()?),
            Step::RemoveExpiredProducers { time_ms } => {
                log.remove_expired_producers(time_ms.unwrap_or(log.now_ms()));
            }
            Step::TakeProducerSnapshot => log.take_producer_snapshot()?,
            Step::AdvanceClock { ms } => {
                log.advance_clock_to(log.now_ms().saturating_add(*ms))?;
                done.now_ms = Some(log.now_ms());
            }
            Step::Flush => log.flush(false)?,
            Step::Reopen(reopen) => {
                self.reopen(reopen)?;
                done.recovery_point = Some(self.log.recovery_point());
            }
        }
        Ok(done)
    }

    // ---- appends ----------------------------------------------------------------------------

    fn append(&mut self, step: &AppendStep) -> Result<StepResult, Error> {
        let name = "append";
        let mut bytes = Vec::new();
        let sender = Sender::client(self.log.now_ms());
        batch::data(&step.batch, step.fault, &sender, &mut bytes)?;
        let mut guard = VerificationGuard::SENTINEL;
        let asks = step.batch.is_transactional && step.batch.producer_id != NO_PRODUCER_ID;
        let is_failed = step.verification == Verification::Failed;
        if asks && (is_failed || step.verification == Verification::Verified) {
            let version = step.transaction_version;
            let version = version.unwrap_or(self.scenario.transaction_version);
            guard = self
                .log
                .maybe_start_transaction_verification(&VerificationRequest {
                    producer_id: step.batch.producer_id,
                    producer_epoch: step.batch.producer_epoch,
                    base_sequence: step.batch.base_sequence,
                    supports_epoch_bump: TransactionVersion(version).supports_epoch_bump(),
                })?;
            if is_failed && guard != VerificationGuard::SENTINEL {
                let mut result = StepResult::new(name, "rejected");
                result.error = Some(StepError::new(
                    KafkaError::INVALID_TXN_STATE,
                    "TransactionCoordinator",
                    "the transaction coordinator does not know of this transaction".to_owned(),
                ));
                return Ok(result);
            }
        }
        let append = LeaderAppend {
            origin: if step.is_coordinator {
                AppendOrigin::Coordinator
            } else {
                AppendOrigin::Client
            },
            leader_epoch: step.partition_leader_epoch,
            verification_guard: guard,
            transaction_verification_enabled: step.verification != Verification::Disabled,
            transaction_version: TransactionVersion::UNKNOWN,
        };
        let before = Before::at(&self.log);
        let appended = self.log.append_as_leader(&mut bytes, &append)?;
        self.accept(name, &appended, &before)
    }

    fn end_txn_marker(
        &mut self,
        marker: &Marker,
        leader_epoch: i32,
        transaction_version: i16,
    ) -> Result<StepResult, Error> {
        let mut bytes = Vec::new();
        let sender = Sender::client(self.log.now_ms());
        batch::marker(marker, &sender, &mut bytes)?;
        let append = LeaderAppend {
            origin: AppendOrigin::Coordinator,
            leader_epoch,
            transaction_version: TransactionVersion(transaction_version),
            ..LeaderAppend::default()
        };
        let before = Before::at(&self.log);
        let appended = self.log.append_as_leader(&mut bytes, &append)?;
        self.accept("endTxnMarker", &appended, &before)
    }

    fn append_as_follower(
        &mut self,
        leader_epoch: i32,
        batches: &[FollowerBatch],
    ) -> Result<StepResult, Error> {
        let name = "appendAsFollower";
        let mut bytes = Vec::new();
        for spec in batches {
            batch::follower(spec, self.log.now_ms(), &mut bytes)?;
        }
        let before = Before::at(&self.log);
        match self.log.append_as_follower(&bytes, leader_epoch)? {
            None => Ok(StepResult::new(name, "ignored")),
            Some(appended) => self.accept(name, &appended, &before),
        }
    }

    fn accept(
        &mut self,
        name: &'static str,
        appended: &Appended,
        before: &Before,
    ) -> Result<StepResult, Error> {
        let is_duplicate = self.log.log_end_offset() == before.log_end_offset;
        let verdict = if is_duplicate {
            "duplicate"
        } else {
            "appended"
        };
        let mut result = StepResult::new(name, verdict);
        result.base_offset = Some(appended.first_offset);
        result.last_offset = Some(appended.last_offset);
        result.log_append_time = Some(appended.log_append_time);
        result.log_start_offset = Some(appended.log_start_offset);
        if !is_duplicate {
            let (segment_base_offset, size) = self.log.active_segment();
            let position = if segment_base_offset == before.segment_base_offset {
                before.segment_size
            } else {
                0
            };
            result.written = Some(Written {
                segment_base_offset,
                position,
                size_in_bytes: size.saturating_sub(position),
            });
        }
        if self.scenario.auto_high_watermark {
            self.log.raise_high_watermark_to_log_end()?;
        }
        Ok(result)
    }

    // ---- stop and start ---------------------------------------------------------------------

    fn reopen(&mut self, reopen: &Reopen) -> Result<(), Error> {
        let log = &mut self.log;
        let at_stop = log.offsets().high_watermark();
        let high_watermark = reopen.high_watermark.unwrap_or(at_stop);
        let (active_base_offset, _) = log.active_segment();
        if reopen.clean {
            log.close()?;
        } else {
            log.kill()?;
        }
        let log_start_offset = log.offsets().log_start_offset();
        let checkpointed = Checkpointed {
            log_start_offset: reopen.log_start_offset.unwrap_or(log_start_offset),
            recovery_point: reopen.recovery_point.unwrap_or(log.recovery_point()),
            clean: reopen.clean,
        };
        if reopen.torn_tail_bytes > 0 {
            let path = segment_path(&self.dir, LogFileKind::Log(active_base_offset));
            tear(&path, reopen.torn_tail_bytes).map_err(|source| Error::io(&path, source))?;
        }
        if reopen.delete_snapshots {
            for offset in list_snapshots(&Files::Disk, &self.dir)?.iter() {
                Files::Disk.remove_if_exists(&find_snapshot(&Files::Disk, &self.dir, offset)?)?;
            }
        }
        let (now_ms, is_offline) = (log.now_ms(), log.log.is_offline());
        self.log = open(self.scenario, &self.dir, checkpointed, now_ms)?;
        if is_offline {
            self.log.log.set_offline();
        }
        self.log.update_high_watermark(high_watermark)?;
        Ok(())
    }
}

fn open(
    scenario: &Scenario,
    dir: &Path,
    checkpointed: Checkpointed,
    now_ms: i64,
) -> Result<PartitionLog, Error> {
    let config = scenario.config.clone();
    PartitionLog::open(dir, config, checkpointed, Some(scenario.topic_id), now_ms)
}

fn tear(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = fs::File::options().write(true).open(path)?;
    let size = file.metadata()?.len();
    file.set_len(size.saturating_sub(bytes))
}
