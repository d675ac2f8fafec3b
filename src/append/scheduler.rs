//! Work that a broker leaves to a background thread, run here when the clock is moved.

use std::path::PathBuf;

/// What is to be done later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Forget idle producers, again and again.
    ExpireProducers,
    /// Write `partition.metadata`.
    FlushMetadata,
    /// Flush segments below the offset, after a roll.
    FlushLog {
        /// Up to here.
        offset: i64,
    },
    /// Write `leader-epoch-checkpoint` as it is then.
    WriteLeaderEpochs,
    /// Remove files that carry `.deleted`.
    DeleteFiles(Vec<PathBuf>),
}

#[derive(Clone, Debug)]
struct Scheduled {
    due_ms: i64,
    order: u64,
    period_ms: Option<i64>,
    task: Task,
}

/// Tasks by the time they are due; of those due together the one scheduled first goes first.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheduler {
    tasks: Vec<Scheduled>,
    next_order: u64,
}

impl Scheduler {
    pub(super) fn schedule(&mut self, task: Task, due_ms: i64) {
        self.add(task, due_ms, None);
    }

    pub(super) fn schedule_every(&mut self, task: Task, due_ms: i64, period_ms: i64) {
        self.add(task, due_ms, Some(period_ms));
    }

    fn add(&mut self, task: Task, due_ms: i64, period_ms: Option<i64>) {
        let order = self.next_order;
        self.next_order += 1;
        self.tasks.push(Scheduled {
            due_ms,
            order,
            period_ms,
            task,
        });
    }

    /// When the next task is due.
    pub(super) fn next_due_ms(&self) -> Option<i64> {
        self.tasks.iter().map(|task| task.due_ms).min()
    }

    /// Passes over the turns up to `now_ms` but the last of a task that comes again, where nothing
    /// else is to be done in between: forgetting idle producers once, later, forgets the same ones.
    pub(super) fn skip_idle_turns(&mut self, now_ms: i64) {
        if let [only] = self.tasks.as_mut_slice()
            && let Some(period_ms) = only.period_ms.map(|period_ms| period_ms.max(1))
            && let Some(ahead_ms) = now_ms.checked_sub(only.due_ms).filter(|it| *it > 0)
        {
            only.due_ms += ahead_ms / period_ms * period_ms;
        }
    }

    /// The next task that is run once, due or not.
    pub(super) fn take_once(&mut self) -> Option<Task> {
        let (index, _) = self
            .tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.period_ms.is_none())
            .min_by_key(|(_, task)| (task.due_ms, task.order))?;
        Some(self.tasks.swap_remove(index).task)
    }

    /// The next task that is due; one that comes again is put back by this.
    pub(super) fn take_due(&mut self, now_ms: i64) -> Option<Task> {
        let (index, next) = self
            .tasks
            .iter()
            .enumerate()
            .min_by_key(|(_, task)| (task.due_ms, task.order))?;
        if next.due_ms > now_ms {
            return None;
        }
        let taken = match next.period_ms {
            None => self.tasks.swap_remove(index).task,
            Some(period_ms) => match next.due_ms.checked_add(period_ms.max(1)) {
                Some(due_ms) => {
                    let again = self.tasks.get_mut(index)?;
                    again.due_ms = due_ms;
                    again.task.clone()
                }
                // There is no later time.
                None => self.tasks.swap_remove(index).task,
            },
        };
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_run_by_due_time_and_then_in_the_order_they_came() {
        let mut scheduler = Scheduler::default();
        scheduler.schedule_every(Task::ExpireProducers, 10, 10);
        scheduler.schedule(Task::WriteLeaderEpochs, 20);
        scheduler.schedule(Task::FlushMetadata, 10);
        assert_eq!(scheduler.take_due(9), None);
        assert_eq!(scheduler.take_due(20), Some(Task::ExpireProducers));
        assert_eq!(scheduler.take_due(20), Some(Task::FlushMetadata));
        assert_eq!(scheduler.take_due(20), Some(Task::ExpireProducers));
        assert_eq!(scheduler.take_due(20), Some(Task::WriteLeaderEpochs));
        assert_eq!(scheduler.take_due(20), None);
        assert_eq!(scheduler.next_due_ms(), Some(30));
    }
}
