//! Rows of `txns` in a listing: transactions that have ended, and what is noted below a row.

use kseg::report::txns::{BEHIND_DAMAGE, TxnFinding, TxnRow};

use super::columns::Align::{Left, Right};
use super::columns::Column;
use super::text::{bytes, duration, optional, optional_time};

/// Findings in words; that a transaction is open needs none.
pub(crate) fn notes<'r>(row: &'r TxnRow<'_>) -> impl Iterator<Item = String> + 'r {
    row.findings.iter().filter_map(|finding| note(row, finding))
}

fn note(row: &TxnRow<'_>, finding: &TxnFinding) -> Option<String> {
    let producer = row.producer_id;
    let offset = optional(finding.offset);
    Some(match finding.kind {
        "snapshot-only-transaction" => {
            let (first, log_start) = (finding.current_txn_first_offset, finding.log_start_offset);
            let why = if first >= log_start {
                "no batch of it is in the log: see kseg gaps".to_owned()
            } else {
                format!("its data lies below the log start {}", optional(log_start))
            };
            format!(
                "only {} knows the transaction of producer {producer} at {}: {why}",
                optional(finding.file.as_deref()),
                optional(first)
            )
        }
        "marker-probably-cleaned" => {
            let missing = finding.missing_offset.map_or_else(String::new, |missing| {
                format!(", offset {missing} is not there")
            });
            let committed = finding.records_wrongly_committed;
            let committed = committed.map_or_else(String::new, |(first, last)| {
                format!("; if it was an ABORT, what it rolled back at {first}..{last} is committed")
            });
            format!(
                "the marker of producer {producer} before offset {offset} {} ({}: \
                 {}{missing}){committed}",
                if finding.reason == Some(BEHIND_DAMAGE) {
                    "is missing, with what cannot be read before it"
                } else {
                    "was probably cleaned away"
                },
                finding.certainty.unwrap_or_default(),
                finding.reason.unwrap_or_default()
            )
        }
        "marker-lost" => format!(
            "the marker of producer {producer} behind {offset} is lost with the offsets missing \
             there, be it a COMMIT or an ABORT; consumers are given its records as committed"
        ),
        "coordinator-epoch-regression" => format!(
            "the marker of producer {producer} at {offset} has coordinator epoch {}, after {}: {}",
            optional(finding.coordinator_epoch),
            optional(finding.previous_coordinator_epoch),
            finding.reason.unwrap_or_default()
        ),
        _ => return None,
    })
}

/// Columns of [`ended_cells`].
pub(crate) const ENDED_COLUMNS: &[Column] = &[
    Column::new("FIRST", 10, Right, 0),
    Column::new("LAST", 10, Right, 3),
    Column::new("MARKER", 10, Right, 0),
    Column::new("STATE", 9, Left, 0),
    Column::new("PRODUCER", 8, Right, 0),
    Column::new("EPOCH", 5, Right, 0),
    Column::new("RECORDS", 7, Right, 0),
    Column::new("SIZE", 8, Right, 5),
    Column::new("DURATION", 8, Right, 1),
    Column::new("ENDED", 24, Left, 2),
    Column::new("COORDINATOR EPOCH", 17, Right, 6),
    Column::new("BATCHES", 7, Right, 7),
];

/// A transaction that has ended.
pub(crate) fn ended_cells(row: &TxnRow<'_>) -> Vec<String> {
    // Under transaction.version 2 the marker's epoch is the data's plus one.
    let epoch = match (row.producer_epoch, row.marker_epoch) {
        (Some(data), Some(marker)) if data != marker => format!("{data}>{marker}"),
        (data, marker) => optional(data.or(marker)),
    };
    vec![
        row.first_offset
            .map_or_else(|| "no data".to_owned(), |first| first.to_string()),
        optional(row.last_offset),
        optional(row.marker_offset),
        row.state.name().to_owned(),
        row.producer_id.to_string(),
        epoch,
        row.records.to_string(),
        bytes(row.size_in_bytes),
        row.duration_ms.map_or_else(|| "-".to_owned(), duration),
        optional_time(row.end_timestamp),
        optional(row.coordinator_epoch),
        row.batches.to_string(),
    ]
}
