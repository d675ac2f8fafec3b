//! Transactions that their coordinator has completed, and whose marker is not in the log.
//!
//! Decides `TransactionMarkerChannelManager`: the complete record is written once every partition
//! has its marker. Only what lies between two batches of one producer can be told: a replica may
//! end before the marker, retention takes it with all before it, and a topic that was deleted and
//! made again never had it.

use std::collections::HashMap;

use super::coordinators::CoordinatorsKnow;
use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use crate::format::NO_TIMESTAMP;
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::internal_topic::InternalTopic;
use crate::format::record_batch::RecordBatchHeader;
use crate::log::partition_dir::PartitionDir;
use crate::report::transaction_state::{Completed, CompletedMarkers, MarkerKey};

/// Follows the epochs and markers of the producers that have completed transactions here.
#[derive(Default)]
pub(super) struct MarkerCheck<'c> {
    known: Option<(&'c CoordinatorsKnow, &'c CompletedMarkers)>,
    /// Whether nothing was taken from the front of the log.
    begins_at_zero: bool,
    producers: HashMap<i64, Seen>,
}

/// What has come by of a producer.
#[derive(Clone, Copy)]
enum Seen {
    Nothing,
    Epoch(EpochSeen),
    /// Its epoch went back: what belongs where cannot be told.
    Disorder,
}

/// The producer's epoch, which only rises, and what came by under it.
#[derive(Clone, Copy)]
struct EpochSeen {
    epoch: i16,
    /// Whether the producer wrote under a lower one before.
    had_lower: bool,
    begins_with_marker: bool,
    commits: u64,
    aborts: u64,
    /// Time of the first data batch.
    first_data_ms: Option<i64>,
}

/// A batch as it comes by.
#[derive(Clone, Copy)]
pub(super) struct BatchAt<'b> {
    pub(super) file: &'b str,
    pub(super) position: u64,
    pub(super) header: &'b RecordBatchHeader,
}

impl<'c> MarkerCheck<'c> {
    pub(super) fn new(
        dir: &PartitionDir,
        know: Option<&'c CoordinatorsKnow>,
        log_start_offset: i64,
    ) -> Self {
        let Some((know, (topic, partition))) = know.zip(dir.topic().zip(dir.partition())) else {
            return Self::default();
        };
        let Some(markers) = know.completed.of(topic, partition) else {
            return Self::default();
        };
        let ids = markers.keys().map(|key| (key.producer_id, Seen::Nothing));
        Self {
            known: Some((know, markers)),
            begins_at_zero: log_start_offset == 0,
            producers: ids.collect(),
        }
    }

    /// Whether the batch's marker is asked for.
    pub(super) fn wants(&self, header: &RecordBatchHeader) -> bool {
        self.known.is_some() && self.producers.contains_key(&header.producer_id())
    }

    /// The next batch of a producer that is wanted; hands out the markers that should lie before.
    pub(super) fn take(
        &mut self,
        at: BatchAt<'_>,
        marker: Option<EndTransactionMarker>,
        found: &mut Vec<Finding>,
    ) {
        let (Some((know, markers)), Some(seen)) =
            (self.known, self.producers.get_mut(&at.header.producer_id()))
        else {
            return;
        };
        let epoch = at.header.producer_epoch();
        let is_marker = at.header.attributes().is_control();
        let (mut now, before) = match *seen {
            Seen::Disorder => return,
            Seen::Epoch(before) if epoch < before.epoch => {
                *seen = Seen::Disorder;
                return;
            }
            Seen::Epoch(before) if epoch == before.epoch => (before, None),
            Seen::Epoch(before) => (EpochSeen::new(epoch, true, is_marker), Some(before)),
            Seen::Nothing => (EpochSeen::new(epoch, false, is_marker), None),
        };
        if let Some(before) = before {
            let key = |producer_epoch, is_commit| MarkerKey {
                producer_id: at.header.producer_id(),
                producer_epoch,
                is_commit,
            };
            for (key, completed) in markers.range(key(before.epoch, false)..=key(epoch, true)) {
                let missing = if key.producer_epoch == before.epoch {
                    before.missing(key, completed, self.begins_at_zero)
                } else if key.producer_epoch < epoch {
                    completed.count
                } else {
                    u64::from(completed.bumps_epoch && !is_marker)
                };
                if missing > 0 {
                    found.push(finding(at, know, key, completed, missing));
                }
            }
        }
        now.take(at.header, marker);
        *seen = Seen::Epoch(now);
    }
}

impl EpochSeen {
    fn new(epoch: i16, had_lower: bool, begins_with_marker: bool) -> Self {
        Self {
            epoch,
            had_lower,
            begins_with_marker,
            commits: 0,
            aborts: 0,
            first_data_ms: None,
        }
    }

    fn take(&mut self, header: &RecordBatchHeader, marker: Option<EndTransactionMarker>) {
        match marker {
            Some(marker) if marker.control_type == ControlRecordType::COMMIT => self.commits += 1,
            Some(_) => self.aborts += 1,
            None if self.first_data_ms.is_none() && !header.attributes().is_control() => {
                let time = header.max_timestamp();
                self.first_data_ms = (time != NO_TIMESTAMP).then_some(time);
            }
            None => {}
        }
    }

    /// How many markers of this epoch are not here, now that it is over. The log must have been
    /// there when the first of their transactions was prepared.
    fn missing(&self, key: &MarkerKey, completed: &Completed, begins_at_zero: bool) -> u64 {
        let was_there = if completed.bumps_epoch {
            // Where data came first the marker was missed before it.
            self.had_lower && self.begins_with_marker
        } else {
            let data_and_end = self.first_data_ms.zip(completed.first_prepared_at_ms);
            let is_older = data_and_end.is_some_and(|(data, end)| data <= end);
            self.had_lower || begins_at_zero && is_older
        };
        let here = if key.is_commit {
            self.commits
        } else {
            self.aborts
        };
        if was_there {
            completed.count.saturating_sub(here)
        } else {
            0
        }
    }
}

fn finding(
    at: BatchAt<'_>,
    know: &CoordinatorsKnow,
    key: &MarkerKey,
    completed: &Completed,
    missing: u64,
) -> Finding {
    let kind = if key.is_commit { "COMMIT" } else { "ABORT" };
    let offset = at.header.base_offset();
    let state = InternalTopic::TransactionState.name();
    let id = know.states.transactional_id(key.producer_id);
    let told_by = format!(
        "{state}-{}, offset {}",
        completed.partition, completed.offset
    );
    Finding {
        file: Some(at.file.to_owned()),
        position: Some(at.position),
        offset: Some(offset),
        producer_id: Some(key.producer_id),
        producer_epoch: Some(key.producer_epoch),
        transactional_id: id.map(str::to_owned),
        expected: Some(format!(
            "a {kind} marker of epoch {} before offset {offset}: {told_by}",
            key.producer_epoch
        )),
        found: Some("none".to_owned()),
        cost: Cost {
            transactions: Some(missing),
            producers: Some(1),
            ..Cost::default()
        },
        broker_action: "no start notices; what the transaction wrote here counts to the \
                        producer's next one, and is committed or rolled back with it"
            .to_owned(),
        next_step: Some("look for the marker in another replica: kseg diff".to_owned()),
        count: (missing > 1).then_some(missing),
        ..Finding::new(
            Severity::Corrupt,
            Kind::MarkerMissing,
            format!("the coordinator completed a {kind} that has no marker here: {told_by}"),
        )
    }
}
