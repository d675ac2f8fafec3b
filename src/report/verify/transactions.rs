//! What `txns` and `aborted` find, as findings of `verify`.

use super::finding::{AbortArguments, Cost, Finding, Severity, StartWarning};
use super::kind::Kind;
use super::start::Start;
use crate::log::partition_dir::PartitionDir;
use crate::report::aborted::AbortedRow;
use crate::report::gaps::offset_range;
use crate::report::transaction_state::TransactionClass;
use crate::report::transactions::MissingMarker;
use crate::report::txns::{TxnFinding, TxnRow};

/// An open transaction, and what is wrong inside it.
pub(super) fn of_open(row: &TxnRow<'_>, found: &mut Vec<Finding>) {
    let class = row.class;
    for finding in &row.findings {
        // The others are told with the batch, by the pass over sequences and epochs.
        let kind = Kind::of_name(finding.kind);
        if kind == Kind::OpenTransaction {
            found.push(open(row, class, finding));
        } else if kind == Kind::SnapshotOnlyTransaction {
            found.push(snapshot_only(row, class, finding));
        } else if kind == Kind::MarkerProbablyCleaned {
            found.push(missing_marker(row.producer_id, row.producer_epoch, finding));
        }
    }
}

/// Where a marker seems to be missing inside a transaction that has ended.
pub(super) fn of_missing_marker(producer: (i64, i16), missing: &MissingMarker) -> Finding {
    let finding = missing_marker(producer.0, Some(producer.1), &TxnFinding::from(missing));
    if !missing.is_in_index {
        return finding;
    }
    let (first, last) = missing.data_before;
    Finding {
        exposed_offsets: Some(vec![missing.data_before]),
        message: format!(
            "the ABORT before offset {} was cleaned away: the .txnindex has it, for {first}..{last}",
            missing.offset
        ),
        broker_action: format!(
            "a clean start keeps the .txnindex, which hides {first}..{last}; an unclean one that \
             recovers the segment makes it anew without the row, and what was rolled back is shown"
        ),
        start_warning: Some(StartWarning {
            text: format!(
                "the .txnindex alone says that {first}..{last} of producer {} were rolled back, for \
                 the marker was cleaned away: recovery makes it anew without the row, and \
                 read_committed consumers get them",
                producer.0
            ),
            clean: false,
            unclean: true,
        }),
        next_step: Some(
            "keep the .txnindex: no kseg rebuild, and no unclean start, for this segment"
                .to_owned(),
        ),
        ..finding
    }
}

fn open(row: &TxnRow<'_>, class: Option<TransactionClass>, finding: &TxnFinding) -> Finding {
    let abort = row.topic.zip(row.partition).zip(row.first_offset);
    let after = row.last_stable_offset_after_abort;
    let id = row.producer_id;
    let what = match row.records {
        1 => format!("1 record of producer {id} waits for its end"),
        records => format!("{records} records of producer {id} wait for their end"),
    };
    let message = format!("open: {what}{}", in_words(row, class));
    Finding {
        file: finding.file.clone(),
        position: finding.position,
        offset: finding.offset,
        first_offset: row.first_offset,
        last_offset: row.last_offset,
        producer_id: Some(row.producer_id),
        producer_epoch: row.producer_epoch,
        transactional_id: row.transactional_id.map(str::to_owned),
        class,
        since_ms: row.start_timestamp,
        last_stable_offset: after,
        coordinator_epoch: row.coordinator_epoch,
        abort: abort.map(|((topic, partition), start_offset)| AbortArguments {
            topic: topic.to_owned(),
            partition,
            start_offset,
            producer_id: row.producer_id,
            producer_epoch: row.producer_epoch.unwrap_or(-1),
            coordinator_epoch: row.coordinator_epoch,
        }),
        cost: cost(row),
        broker_action: "read_committed consumers wait at it until it ends".to_owned(),
        next_step: next_step(row, class),
        ..Finding::new(Severity::Notable, Kind::OpenTransaction, message)
    }
}

/// Whose it is, and who is going to end it.
fn in_words(row: &TxnRow<'_>, class: Option<TransactionClass>) -> String {
    let mut text = String::new();
    if let Some(id) = row.transactional_id {
        text.push_str(&format!("; transactional id {id}"));
    }
    if let Some(class) = class {
        text.push_str(&format!("; {class}"));
    }
    text
}

fn next_step(row: &TxnRow<'_>, class: Option<TransactionClass>) -> Option<String> {
    let command = row.abort_command.as_ref()?;
    let more = "kseg txns --state open tells more";
    Some(match class {
        Some(class) if class.is_in_hand() => {
            format!("{more}; its coordinator is going to end it, an abort would cut in")
        }
        _ if row.first_batch_is_damaged => format!(
            "{more}; its first batch is damaged, and whose it is may be wrong: take it from another \
             replica before anything is aborted"
        ),
        _ if let Some(lost) = row.marker_may_be_lost_in => format!(
            "{more}; its marker may be in what is lost behind it, {}: only if no other \
             replica has one: {command}",
            offset_range(lost.first_offset, lost.last_offset)
        ),
        Some(class) if class.may_have_ended() => format!(
            "{more}; its marker may be missing here: only if no other replica has one: {command}"
        ),
        Some(class) if class.is_orphan() => format!("{more}; nobody is going to end it: {command}"),
        Some(_) | None => format!("{more}; if nobody will end it: {command}"),
    })
}

fn cost(row: &TxnRow<'_>) -> Cost {
    Cost {
        records: Some(row.records),
        transactions: Some(1),
        producers: Some(1),
    }
}

fn snapshot_only(
    row: &TxnRow<'_>,
    class: Option<TransactionClass>,
    finding: &TxnFinding,
) -> Finding {
    let first = finding.current_txn_first_offset;
    let id = row.producer_id;
    let message = match first.zip(finding.log_start_offset) {
        Some((first, log_start)) if first >= log_start => format!(
            "open in the snapshot only: producer {id} began at {first}, and no batch of it is here"
        ),
        _ => format!("open in the snapshot only: producer {id} began below the log start"),
    };
    let message = format!("{message}{}", in_words(row, class));
    Finding {
        file: finding.file.clone(),
        offset: finding.current_txn_first_offset,
        producer_id: Some(row.producer_id),
        producer_epoch: row.producer_epoch,
        transactional_id: row.transactional_id.map(str::to_owned),
        class,
        current_txn_first_offset: finding.current_txn_first_offset,
        log_start_offset: finding.log_start_offset,
        reason: finding.reason,
        cost: cost(row),
        broker_action: "a clean start keeps it and the last stable offset stays at it; an unclean \
                        one that replays from the log forgets it"
            .to_owned(),
        next_step: Some("kseg lso shows what it holds back".to_owned()),
        ..Finding::new(Severity::Notable, Kind::SnapshotOnlyTransaction, message)
    }
}

fn missing_marker(producer_id: i64, epoch: Option<i16>, finding: &TxnFinding) -> Finding {
    let offset = finding.offset.unwrap_or(-1);
    Finding {
        offset: finding.offset,
        producer_id: Some(producer_id),
        producer_epoch: epoch,
        missing_offset: finding.missing_offset,
        certainty: finding.certainty,
        reason: finding.reason,
        cost: Cost {
            transactions: Some(1),
            producers: Some(1),
            ..Cost::default()
        },
        broker_action: "takes the two transactions for one: what was rolled back counts as \
                        committed if the second one is"
            .to_owned(),
        next_step: Some(format!(
            "compare the records before {offset} with another replica"
        )),
        ..Finding::new(
            Severity::Notable,
            Kind::MarkerProbablyCleaned,
            format!("the marker before offset {offset} was probably cleaned away"),
        )
    }
}

/// A difference between `.txnindex` and log; `None` where there is none.
pub(super) fn of_aborted(
    row: &AbortedRow<'_>,
    dir: &PartitionDir,
    start: &Start,
) -> Option<Finding> {
    let last = row.last_offset.unwrap_or(i64::MAX);
    let behind = dir
        .segments
        .partition_point(|segment| segment.base_offset <= last);
    let segment = behind.saturating_sub(1);
    let name = row.finding?;
    let shown = if row.exposed_records > 0 {
        format!("; rolled back and shown: {}", row.exposed_records)
    } else if row.hidden_records > 0 {
        format!("; hidden: {}", row.hidden_records)
    } else {
        String::new()
    };
    let why = row.reason.unwrap_or_default();
    let repeated = match row.times {
        1 => String::new(),
        times => format!("; {times} rows that are the same"),
    };
    let ranges = [&row.exposed_offsets, &row.hidden_offsets];
    let ranges: Vec<(i64, i64)> = ranges.into_iter().flatten().copied().collect();
    let kind = Kind::of_name(name);
    // Rows are written after the batch; and of the two files either may lose its tail.
    let may_be_lost = matches!(kind, Kind::TxnindexEntryMissing | Kind::TxnindexEntryTorn)
        || kind == Kind::TxnindexEntrySurplus && row.ends_behind_log();
    let severity = if may_be_lost {
        start.severity(segment)
    } else {
        Severity::Corrupt
    };
    Some(Finding {
        exposed_offsets: Some(ranges),
        cost: Cost {
            records: Some(row.exposed_records + row.hidden_records),
            transactions: Some(1),
            producers: row.producer_id.map(|_| 1),
        },
        broker_action: if name == "txnindex-entry-unreadable" {
            "the broker stops at any start that reads it".to_owned()
        } else {
            start
                .index(segment, has_offset_index(dir, segment))
                .to_owned()
        },
        next_step: Some("kseg rebuild --only txnindex makes it anew".to_owned()),
        ..of_row(row, severity, kind, format!("{why}{repeated}{shown}"))
    })
}

fn of_row(row: &AbortedRow<'_>, severity: Severity, kind: Kind, message: String) -> Finding {
    Finding {
        file: Some(row.file.clone()),
        position: row.position,
        offset: row.first_offset,
        producer_id: row.producer_id,
        first_offset: row.first_offset,
        last_offset: row.last_offset,
        last_stable_offset: row.last_stable_offset,
        ..Finding::new(severity, kind, message)
    }
}

fn has_offset_index(dir: &PartitionDir, segment: usize) -> bool {
    let segment = dir.segments.get(segment);
    segment.is_some_and(|it| it.offset_index.is_some())
}
