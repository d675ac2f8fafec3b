//! What a run can have forgotten of a producer for its age, by its scenario and its log.

use std::ops::ControlFlow;
use std::path::Path;

use kseg::log::batches::Entry;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use serde_json::Value;

/// The clock of a run. All times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The time at the end.
    pub now_ms: i64,
    /// The latest time at which producers were looked at for their age.
    pub latest_ms: i64,
    /// `producer.id.expiration.ms`.
    pub expiration_ms: i64,
    /// The log end after each step, and the latest such time until then.
    steps: Vec<(i64, i64)>,
}

/// A batch or marker of one producer.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    pub base_offset: i64,
    pub timestamp: i64,
    pub is_control: bool,
}

impl Clock {
    /// The clock of a case, by its scenario and its result.
    pub fn of_case(scenario: &Value, result: &Value) -> Self {
        let start = &scenario["startTimeMs"];
        let mut clock = Self::at(start.as_i64().unwrap_or(1_700_000_000_000));
        let expiration = &scenario["config"]["producer.id.expiration.ms"];
        clock.expiration_ms = expiration.as_i64().unwrap_or(clock.expiration_ms);
        let steps = scenario["steps"].as_array().unwrap();
        let results = result["steps"].as_array().unwrap();
        for (step, result) in steps.iter().zip(results) {
            clock.now_ms += step["advanceClock"]["ms"].as_i64().unwrap_or(0);
            let given = step["removeExpiredProducers"]["timeMs"].as_i64();
            let looked_at = given.unwrap_or(clock.now_ms);
            clock.latest_ms = clock.latest_ms.max(looked_at);
            let log_end = result["state"]["logEndOffset"].as_i64().unwrap();
            clock.steps.push((log_end, clock.latest_ms));
        }
        clock
    }

    /// A clock that stands still, with Kafka's default expiration.
    pub fn at(now_ms: i64) -> Self {
        Self {
            now_ms,
            latest_ms: now_ms,
            expiration_ms: 86_400_000,
            steps: Vec::new(),
        }
    }

    /// Whether a producer that did nothing since may have expired
    /// (`ProducerStateManager.isProducerExpired`).
    pub fn has_expired(&self, last_timestamp: i64) -> bool {
        self.latest_ms - last_timestamp >= self.expiration_ms
    }

    /// What may be all that is known of a producer with these batches and markers, if it expired
    /// before the rest: an expired producer that comes back begins as an unknown one.
    pub fn after_expiry<'a>(
        &self,
        activities: &'a [Activity],
    ) -> impl Iterator<Item = &'a [Activity]> {
        (1..activities.len())
            .filter(|&at| {
                let looked_at = self.latest_before(activities[at].base_offset);
                let idle_since = activities[at - 1].timestamp;
                looked_at.is_some_and(|it| it - idle_since >= self.expiration_ms)
            })
            .map(|at| &activities[at..])
    }

    /// The latest time at which producers were looked at before the batch at `offset` was written
    /// (for the last time, if it had been cut off).
    fn latest_before(&self, offset: i64) -> Option<i64> {
        let before = self.steps.iter().rfind(|it| it.0 <= offset);
        before.map(|it| it.1)
    }
}

/// All batches and markers of a producer in the log, in their order.
pub fn activities(partition: &Path, producer_id: i64) -> Vec<Activity> {
    let dir = PartitionDir::open(partition).unwrap();
    let mut found = Vec::new();
    walk_partition(&dir, Io::Mmap, 0, |_, entry| {
        if let Entry::Batch(batch) = entry
            && batch.header.producer_id() == producer_id
        {
            found.push(Activity {
                base_offset: batch.header.base_offset(),
                timestamp: batch.header.max_timestamp(),
                is_control: batch.header.attributes().is_control(),
            });
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })
    .unwrap();
    found
}
