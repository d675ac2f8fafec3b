//! The entries of a producer snapshot: alone, and against the state that the log gives.

use std::collections::HashSet;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use crate::format::file_name::LogFileKind;
use crate::state::{ProducerSnapshotRow, ProducerStateEntry, ProducerStateManager};

/// Entries of one snapshot that are told apart; the others are counted.
const MAX_TOLD: usize = 100;

/// What no broker writes into an entry.
pub(super) fn check_entries(offset: i64, rows: &[ProducerSnapshotRow], found: &mut Vec<Finding>) {
    let mut ids = HashSet::new();
    let mut told = 0;
    for (entry, row) in rows.iter().enumerate() {
        let what = if !ids.insert(row.producer_id) {
            "its producer id comes twice"
        } else if row.last_offset >= offset {
            "its last offset is not below the snapshot's"
        } else if row.offset_delta < 0 {
            "its offset delta is negative"
        } else if row.last_offset >= 0 && row.current_txn_first_offset > row.last_offset {
            "its transaction begins behind its last offset"
        } else {
            continue;
        };
        told += 1;
        if told > MAX_TOLD {
            break;
        }
        found.push(Finding {
            entry: Some(entry as u64),
            broker_action: "takes it as it is: no start looks at it".to_owned(),
            ..of_row(
                offset,
                row,
                Severity::Corrupt,
                Kind::SnapshotEntry,
                format!("entry {entry}: {what}"),
            )
        });
    }
}

/// Entries that the log contradicts. Producers that the snapshot does not have may have
/// expired; those that the log does not have lie before it. What lies below the log start a broker
/// may have known or not, by when it loaded the log.
pub(super) fn check_against_log(
    offset: i64,
    rows: &[ProducerSnapshotRow],
    manager: &ProducerStateManager,
    log_start: i64,
    found: &mut Vec<Finding>,
) {
    let differing = rows.iter().filter_map(|row| {
        let entry = manager.last_entry(row.producer_id)?;
        difference(row, entry, log_start).map(|difference| (row, difference))
    });
    for (row, (field, expected, is)) in differing.take(MAX_TOLD) {
        found.push(Finding {
            defect: Some(field),
            expected: Some(expected.to_string()),
            found: Some(is.to_string()),
            broker_action: "a start takes the snapshot as it is; an unclean one that recovers \
                            the segments before it makes it anew"
                .to_owned(),
            next_step: Some("kseg rebuild --only snapshot makes it from the log".to_owned()),
            ..of_row(
                offset,
                row,
                severity(field, is),
                Kind::SnapshotDiffers,
                format!(
                    "producer {}: {field} is {is}, the log gives {expected}",
                    row.producer_id
                ),
            )
        });
    }
    let known: HashSet<i64> = rows.iter().map(|row| row.producer_id).collect();
    for txn in manager
        .ongoing_txns()
        .filter(|it| !known.contains(&it.producer_id))
        .filter(|it| it.first_offset.message_offset >= log_start)
    {
        let first = txn.first_offset.message_offset;
        found.push(Finding {
            file: Some(name(offset)),
            offset: Some(first),
            producer_id: Some(txn.producer_id),
            current_txn_first_offset: Some(first),
            defect: Some("currentTxnFirstOffset"),
            broker_action: "the transaction does not hold a broker that loads the snapshot"
                .to_owned(),
            ..Finding::new(
                severity("currentTxnFirstOffset", -1),
                Kind::SnapshotDiffers,
                format!(
                    "the open transaction of producer {} at {first} is not in it",
                    txn.producer_id
                ),
            )
        });
    }
}

pub(super) fn name(offset: i64) -> String {
    LogFileKind::ProducerSnapshot(offset).to_string()
}

fn of_row(
    offset: i64,
    row: &ProducerSnapshotRow,
    severity: Severity,
    kind: Kind,
    message: String,
) -> Finding {
    Finding {
        file: Some(name(offset)),
        offset: Some(offset),
        producer_id: Some(row.producer_id),
        producer_epoch: Some(row.producer_epoch),
        last_sequence: Some(row.last_sequence).filter(|it| *it >= 0),
        last_offset: Some(row.last_offset).filter(|it| *it >= 0),
        ..Finding::new(severity, kind, message)
    }
}

/// A field in which the log contradicts the entry, what the log gives, and what is there.
fn difference(
    row: &ProducerSnapshotRow,
    entry: &ProducerStateEntry,
    log_start: i64,
) -> Option<(&'static str, i64, i64)> {
    // Only where the log has the producer's data.
    let batch = entry.last_batch()?;
    let open = entry.current_txn_first_offset().unwrap_or(-1);
    // The marker alone lies above the log start.
    if batch.last_offset < log_start && row.last_offset < 0 {
        return None;
    }
    let is_before = |first: i64| first >= 0 && first < log_start;
    let began_before = is_before(row.current_txn_first_offset) || is_before(open);
    // Kafka 0.11 counts the marker as the producer's last offset.
    let last_offset = row.last_offset.min(batch.last_offset);
    // A producer that had expired is known anew: without the epoch of the markers before.
    let (of_log, of_row) = (entry.coordinator_epoch(), row.coordinator_epoch);
    let is_unknown = of_row < 0 || of_log < 0 && log_start > 0;
    let coordinator_epoch = i64::from(if is_unknown { of_log } else { of_row });
    // Kafka 1.1 does not count the time of the marker.
    let timestamp = if row.timestamp == batch.timestamp {
        entry.last_timestamp()
    } else {
        row.timestamp
    };
    let fields = [
        ("lastOffset", batch.last_offset, last_offset),
        (
            "lastSequence",
            i64::from(batch.last_sequence),
            i64::from(row.last_sequence),
        ),
        (
            "producerEpoch",
            i64::from(entry.producer_epoch()),
            i64::from(row.producer_epoch),
        ),
        ("currentTxnFirstOffset", open, row.current_txn_first_offset),
        (
            "coordinatorEpoch",
            i64::from(entry.coordinator_epoch()),
            coordinator_epoch,
        ),
        ("lastTimestamp", entry.last_timestamp(), timestamp),
    ];
    fields.into_iter().find(|(field, log, row)| {
        log != row && !(began_before && *field == "currentTxnFirstOffset")
    })
}

/// A broker that lost its snapshots forgets producers and open transactions, and later snapshots
/// are of what it knew then: less, never something else.
fn severity(field: &str, is: i64) -> Severity {
    if field == "currentTxnFirstOffset" || is < 0 {
        Severity::AfterCrash
    } else {
        Severity::Corrupt
    }
}
