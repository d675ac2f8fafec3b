//! What of `kseg recover` is about a whole broker or log directory: what stops it, and whom that
//! takes down.

use std::path::{Path, PathBuf};

use kseg::append::dry_run::RecoverRow;
use kseg::append::dry_run::row::Start;
use kseg::log::broker_start::{Broker, StartObstacles, outage};

use super::recover_table::paragraph;
use crate::context::Context;

/// Everything that takes down more than one partition.
pub(crate) struct Outages {
    obstacles: StartObstacles,
    failed: Vec<Failed>,
}

/// A partition that does not come up, and takes others with it.
#[derive(PartialEq)]
struct Failed {
    start: Start,
    broker: Broker,
    /// What goes offline; `None` if the whole broker stops.
    log_dir: Option<PathBuf>,
}

impl Outages {
    pub(crate) fn new(obstacles: StartObstacles, rows: &[RecoverRow]) -> Self {
        let mut failed: Vec<Failed> = Vec::new();
        for row in rows {
            let Some(error) = &row.error else {
                continue;
            };
            let Some((broker, log_dir)) = obstacles.holder(Path::new(&row.path)) else {
                continue;
            };
            let one = Failed {
                start: row.start,
                broker: broker.clone(),
                log_dir: (!error.stops_broker).then_some(log_dir),
            };
            if !failed.contains(&one) {
                failed.push(one);
            }
        }
        Self { obstacles, failed }
    }

    /// What keeps the broker from starting comes before what its partitions come to.
    pub(crate) fn print(&self, context: &mut Context) -> anyhow::Result<()> {
        for obstacle in self.obstacles.iter() {
            let what = outage(obstacle.stops_broker);
            let line = format!(
                "{what}: {}: {} ({})",
                obstacle.path,
                obstacle.message,
                obstacle.cause()
            );
            paragraph(context, &line, "", "")?;
            paragraph(context, obstacle.next_step, "  ", "next: ")?;
        }
        Ok(())
    }

    /// Whether something beside the partitions keeps the whole broker from starting.
    pub(crate) fn stop_broker(&self) -> bool {
        self.obstacles.iter().any(|it| it.stops_broker)
    }

    /// What another partition, or something beside the partitions, does to this one.
    pub(crate) fn of(&self, row: &RecoverRow) -> Option<String> {
        let path = Path::new(&row.path);
        if let Some(obstacle) = self.obstacles.of_partition(path) {
            return Some(outage(obstacle.stops_broker));
        }
        if self.failed.is_empty() {
            return None;
        }
        let (broker, log_dir) = self.obstacles.holder(path)?;
        let failed = self.failed.iter().find(|failed| {
            let is_here = failed.log_dir.as_ref().is_none_or(|it| *it == log_dir);
            failed.start == row.start && failed.broker == *broker && is_here
        })?;
        Some(outage(failed.log_dir.is_none()))
    }
}
