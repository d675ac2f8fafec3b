//! `kseg txns`: every transaction, the open ones first.

use std::io::Write;

use clap::{Args, ValueEnum};
use kseg::report::txns::{
    TxnFinding, TxnRow, TxnState, TxnsOptions, TxnsSummary, WantedStates, txns_partition,
};

use super::producers::name;
use crate::cli::{BatchFilterArgs, PartitionFilterArgs, PathArgs, StateArgs, parse_duration};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::columns::Align::{Left, Right};
use crate::render::columns::{Column, Listing};
use crate::render::json::JsonRows;
use crate::render::summary::{Summary, SummaryColumn};
use crate::render::text::{bytes, count, duration, optional, optional_time, plural, time};

/// List transactions: open ones with what they hold up, and how the others ended
///
/// Open transactions come first, oldest first: since when each is open, how many records an abort
/// would lose, where the last stable offset goes when it and the older ones are aborted, and the
/// command that aborts it. Data and markers are paired by producer id. A marker without data here
/// is an empty transaction and nothing wrong. Which transactions are open is as a broker has it
/// that loads the newest snapshot; --from-scratch asks the log alone.
///
/// Ages count from the largest timestamp of a transaction's first batch to --now, or to the wall
/// clock without it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg txns --state open --older-than 15m /var/lib/kafka
  kseg txns --producer-id 1003 -o ndjson /var/lib/kafka/orders-0
  kseg txns --state open --fail-older-than 1h30m /var/lib/kafka

Exit status:
  0  done
  1  done, and with --fail-older-than: a listed open transaction is older
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct TxnsArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Only transactions that stand like this; may be given more than once
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    state: Vec<StateArg>,
    /// Only transactions that began longer ago than this: 45s, 15m, 1h30m, 2d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<i64>,
    /// End with status 1 if an open transaction is older than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    fail_older_than: Option<i64>,
    #[command(flatten)]
    build: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    batches: BatchFilterArgs,
}

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateArg {
    /// No marker yet
    Open,
    /// Ended by a COMMIT marker
    Committed,
    /// Ended by an ABORT marker
    Aborted,
}

impl TxnsArgs {
    fn states(&self) -> WantedStates {
        let wants = |state| self.state.is_empty() || self.state.contains(&state);
        WantedStates {
            open: wants(StateArg::Open),
            committed: wants(StateArg::Committed),
            aborted: wants(StateArg::Aborted),
        }
    }
}

pub(crate) fn run(args: &TxnsArgs, context: &mut Context) -> anyhow::Result<Status> {
    let filter = args.partitions.filter_with(&args.batches);
    let inputs = Inputs::new(&args.paths, filter.clone());
    let clock_ms = args
        .build
        .now
        .unwrap_or_else(|| jiff::Timestamp::now().as_millisecond());
    let options = TxnsOptions {
        state: args.build.options(context.io),
        filter,
        states: args.states(),
        started_before_ms: args.older_than.map(|age| clock_ms.saturating_sub(age)),
        now_ms: args.build.now,
    };
    let fails_before = args.fail_older_than.map(|age| clock_ms.saturating_sub(age));
    let mut is_late = false;
    let mut judge = |row: &TxnRow<'_>| {
        let start = row.start_timestamp.or(row.last_timestamp);
        is_late |= row.state == TxnState::Open
            && fails_before.is_some_and(|before| start.is_some_and(|start| start < before));
    };
    match JsonRows::for_format(context.format, "kseg/txns/v1") {
        Some(mut json) => {
            each_partition(&inputs, &options, context, |_, row, context| {
                judge(row);
                Ok(json.row(&mut context.out, row)?)
            })?;
            json.finish(&mut context.out)?;
        }
        None => table(inputs, &options, clock_ms, judge, context)?,
    }
    Ok(if is_late {
        Status::Found
    } else {
        Status::Clean
    })
}

/// Hands out the rows of every partition that can be read, and says what a row cannot; returns how
/// many partitions that were.
fn each_partition(
    inputs: &Inputs,
    options: &TxnsOptions,
    context: &mut Context,
    mut emit: impl FnMut(&PartitionInput<'_>, &TxnRow<'_>, &mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut partitions = 0;
    inputs.for_each_partition(context, |partition, context| {
        let summary = txns_partition(partition.dir, partition.offsets, options, |row| {
            emit(partition, row, context)
        });
        if let Some(summary) = context.passed(summary)?.flatten() {
            partitions += 1;
            warn_about(partition, &summary, context);
        }
        Ok(())
    })?;
    Ok(partitions)
}

/// What the rows do not say, on standard error.
fn warn_about(partition: &PartitionInput<'_>, summary: &TxnsSummary, context: &Context) {
    let path = partition.dir.path.display();
    for (first_offset, producer_id) in &summary.forgotten {
        context.warn(&format!(
            "{path}: the log leaves a transaction of producer {producer_id} open at \
             {first_offset}, but the snapshot a broker loads does not know it; --from-scratch \
             lists it"
        ));
    }
    if summary.refused > 0 {
        context.warn(&format!(
            "{path}: {} would stop a broker that rebuilds its state; kseg replay shows which",
            plural(summary.refused, "batch", "batches")
        ));
    }
    if summary.vanished > 0 {
        let segments = count(summary.vanished, "segment");
        context.warn(&format!("{path}: {segments} vanished while reading"));
    }
}

/// What one walk over everything finds, for the lines that come first.
#[derive(Default)]
struct Totals {
    states: WantedStates,
    partitions: u64,
    partitions_with_open: u64,
    last: Option<(String, bool)>,
    open: u64,
    committed: u64,
    aborted: u64,
    empty: u64,
    records: [u64; 3],
    longest_ms: Option<i64>,
    oldest_open: Option<i64>,
    open_lines: Vec<OpenLine>,
}

/// An open transaction, ready to be printed.
struct OpenLine {
    cells: Vec<String>,
    notes: Vec<String>,
    command: Option<String>,
}

fn table(
    inputs: Inputs,
    options: &TxnsOptions,
    clock_ms: i64,
    mut judge: impl FnMut(&TxnRow<'_>),
    context: &mut Context,
) -> anyhow::Result<()> {
    let inputs = inputs.collecting();
    let mut totals = Totals {
        states: options.states,
        ..Totals::default()
    };
    let partitions = each_partition(&inputs, options, context, |partition, row, _| {
        judge(row);
        totals.add(&name(partition), row, clock_ms);
        Ok(())
    })?;
    if partitions == 0 {
        return Ok(());
    }
    let mut hidden = totals.print(clock_ms, context)?;
    if totals.committed + totals.aborted + totals.empty > 0 {
        // The answer comes first, and there may be more transactions than fit in memory: the
        // listing is read from the log again.
        let ended = TxnsOptions {
            states: WantedStates {
                open: false,
                ..options.states
            },
            ..options.clone()
        };
        hidden = hidden.max(list_ended(&inputs, &ended, context)?);
    }
    if hidden > 0 {
        writeln!(
            context.out,
            "\nsome columns do not fit the terminal; -o json has everything"
        )?;
    }
    Ok(())
}

impl Totals {
    fn add(&mut self, name: &str, row: &TxnRow<'_>, clock_ms: i64) {
        let is_open = row.state == TxnState::Open;
        match &mut self.last {
            Some((last, has_open)) if last == name => {
                self.partitions_with_open += u64::from(is_open && !*has_open);
                *has_open |= is_open;
            }
            _ => {
                self.partitions += 1;
                self.partitions_with_open += u64::from(is_open);
                self.last = Some((name.to_owned(), is_open));
            }
        }
        let [open, committed, aborted] = &mut self.records;
        match row.state {
            TxnState::Open => {
                self.open += 1;
                *open += row.records;
                self.oldest_open = match (self.oldest_open, start(row)) {
                    (Some(oldest), Some(start)) => Some(oldest.min(start)),
                    (oldest, start) => oldest.or(start),
                };
                self.open_lines.push(open_line(name, row, clock_ms));
            }
            TxnState::Committed | TxnState::Aborted if row.first_offset.is_none() => {
                self.empty += 1;
            }
            TxnState::Committed => {
                self.committed += 1;
                *committed += row.records;
            }
            TxnState::Aborted => {
                self.aborted += 1;
                *aborted += row.records;
            }
        }
        self.longest_ms = self.longest_ms.max(row.duration_ms);
    }

    /// Returns how many columns did not fit.
    fn print(&mut self, clock_ms: i64, context: &mut Context) -> anyhow::Result<usize> {
        let mut line = match (self.open, self.oldest_open) {
            (0, _) if !self.states.open => "open ones not asked for".to_owned(),
            (0, _) => "no transaction is open".to_owned(),
            (open, None) => format!("{} open", count(open, "transaction")),
            (open, Some(oldest)) => format!(
                "{} open, the oldest for {}",
                count(open, "transaction"),
                duration(clock_ms.saturating_sub(oldest))
            ),
        };
        if self.states.committed {
            line.push_str(&format!("; {} committed", self.committed));
        }
        if self.states.aborted {
            line.push_str(&format!("; {} aborted", self.aborted));
        }
        if self.empty > 0 {
            line.push_str(&format!(", {} empty here", self.empty));
        }
        let line = if self.open > 0 {
            context.style.bad(&line)
        } else {
            line
        };
        writeln!(context.out, "{line}")?;
        self.print_statistics(context)?;
        if self.open_lines.is_empty() {
            return Ok(0);
        }
        self.print_open(context)
    }

    fn print_statistics(&self, context: &mut Context) -> anyhow::Result<()> {
        let [open, committed, aborted] = self.records;
        if self.open + self.committed + self.aborted == 0 {
            return Ok(());
        }
        let counts = [
            (self.states.open, open, "open"),
            (self.states.committed, committed, "committed"),
            (self.states.aborted, aborted, "aborted"),
        ];
        let counts: Vec<String> = counts
            .iter()
            .filter(|(is_wanted, _, _)| *is_wanted)
            .map(|(_, records, what)| format!("{records} {what}"))
            .collect();
        let mut line = format!("records: {}", counts.join(", "));
        if let Some(longest) = self.longest_ms {
            line.push_str(&format!(
                "; the longest that ended took {}",
                duration(longest)
            ));
        }
        if self.partitions > 1 && self.states.open {
            line.push_str(&format!(
                "; open ones in {} of {} with transactions",
                self.partitions_with_open,
                count(self.partitions, "partition")
            ));
        }
        writeln!(context.out, "{line}")?;
        Ok(())
    }

    fn print_open(&mut self, context: &mut Context) -> anyhow::Result<usize> {
        writeln!(context.out)?;
        let mut table = Summary::new(OPEN_COLUMNS);
        let mut notes = Vec::new();
        let mut commands = Vec::new();
        for line in std::mem::take(&mut self.open_lines) {
            table.row(line.cells);
            notes.extend(line.notes);
            commands.extend(line.command);
        }
        let style = context.style;
        let hidden = table.print(&mut context.out, style)?;
        if !notes.is_empty() {
            writeln!(context.out)?;
        }
        for note in notes {
            writeln!(context.out, "{note}")?;
        }
        if !commands.is_empty() {
            writeln!(
                context.out,
                "\nto abort, oldest first (the log cannot tell what the coordinator still holds):"
            )?;
        }
        for command in commands {
            writeln!(context.out, "  {command}")?;
        }
        Ok(hidden)
    }
}

const OPEN_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("FIRST", Right, 0),
    SummaryColumn::new("LAST", Right, 4),
    SummaryColumn::new("PRODUCER", Right, 0),
    SummaryColumn::new("EPOCH", Right, 3),
    SummaryColumn::new("RECORDS", Right, 0),
    SummaryColumn::new("SIZE", Right, 5),
    SummaryColumn::new("AGE", Right, 0),
    SummaryColumn::new("OPEN SINCE", Left, 2),
    SummaryColumn::new("LAST ACTIVITY", Left, 6),
    SummaryColumn::new("LSO AFTER ABORT", Right, 0),
    SummaryColumn::new("COORDINATOR EPOCH", Right, 8),
    SummaryColumn::new("FIRST BATCH", Left, 7),
];

fn start(row: &TxnRow<'_>) -> Option<i64> {
    row.start_timestamp.or(row.last_timestamp)
}

fn open_line(name: &str, row: &TxnRow<'_>, clock_ms: i64) -> OpenLine {
    let age = start(row).map(|start| duration(clock_ms.saturating_sub(start)));
    let place = row.file.zip(row.position);
    let cells = vec![
        name.to_owned(),
        optional(row.first_offset),
        optional(row.last_offset),
        row.producer_id.to_string(),
        optional(row.producer_epoch),
        row.records.to_string(),
        bytes(row.size_in_bytes),
        optional(age),
        row.start_timestamp.map_or_else(
            || {
                row.last_timestamp
                    .map_or_else(String::new, |last| format!("before {}", time(last)))
            },
            time,
        ),
        optional_time(row.last_timestamp),
        optional(row.last_stable_offset_after_abort),
        optional(row.coordinator_epoch),
        place.map_or_else(|| "-".to_owned(), |(file, at)| format!("{file} @ {at}")),
    ];
    OpenLine {
        cells,
        notes: notes(row).map(|note| format!("{name}: {note}")).collect(),
        command: row.abort_command.clone(),
    }
}

/// Findings in words; that a transaction is open needs none.
fn notes<'r>(row: &'r TxnRow<'_>) -> impl Iterator<Item = String> + 'r {
    row.findings.iter().filter_map(|finding| note(row, finding))
}

fn note(row: &TxnRow<'_>, finding: &TxnFinding) -> Option<String> {
    let producer = row.producer_id;
    let offset = optional(finding.offset);
    Some(match finding.kind {
        "snapshot-only-transaction" => format!(
            "only {} knows the transaction of producer {producer} at {}: its data lies below the \
             log start {}",
            optional(finding.file.as_deref()),
            optional(finding.current_txn_first_offset),
            optional(finding.log_start_offset)
        ),
        "marker-probably-cleaned" => {
            let missing = finding.missing_offset.map_or_else(String::new, |missing| {
                format!(", offset {missing} is not there")
            });
            format!(
                "the marker of producer {producer} before offset {offset} was probably cleaned \
                 away ({}: {}{missing})",
                finding.certainty.unwrap_or_default(),
                finding.reason.unwrap_or_default()
            )
        }
        "coordinator-epoch-regression" => format!(
            "the marker of producer {producer} at {offset} has coordinator epoch {}, after {}: {}",
            optional(finding.coordinator_epoch),
            optional(finding.previous_coordinator_epoch),
            finding.reason.unwrap_or_default()
        ),
        _ => return None,
    })
}

const ENDED_COLUMNS: &[Column] = &[
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

fn list_ended(
    inputs: &Inputs,
    options: &TxnsOptions,
    context: &mut Context,
) -> anyhow::Result<usize> {
    let style = context.style;
    let mut listing = Listing::new(ENDED_COLUMNS, style);
    let mut current = None;
    each_partition(inputs, options, context, |partition, row, context| {
        let path = &partition.dir.path;
        if current.as_ref() != Some(path) {
            writeln!(context.out, "\n{}", style.heading(&name(partition)))?;
            listing.headings(&mut context.out, style)?;
            current = Some(path.clone());
        }
        listing.row(&mut context.out, &ended_cells(row))?;
        for note in notes(row) {
            writeln!(context.out, "  {}", style.bad(&note))?;
        }
        Ok(())
    })?;
    Ok(listing.hidden())
}

fn ended_cells(row: &TxnRow<'_>) -> Vec<String> {
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
