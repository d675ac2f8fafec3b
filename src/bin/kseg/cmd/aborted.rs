//! `kseg aborted`: what `read_committed` hides, and whether the index agrees with the log.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::Write;

use clap::Args;
use kseg::log::Error;
use kseg::report::aborted::{
    AbortedFrom, AbortedOptions, AbortedResult, AbortedRow, AbortedStatistics, AbortedSummary,
    OffsetRun, RangeRule, aborted_partition, aborted_statistics, invisible,
};
use kseg::report::partition_state::StateOptions;

use crate::cli::{AsLoadedArgs, PartitionFilterArgs, PathArgs, ProducerFilterArgs, StateArgs};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::columns::Align::{Left, Right};
use crate::render::columns::{Column, Listing};
use crate::render::json::JsonRows;
use crate::render::summary::{Summary, SummaryColumn};
use crate::render::text::{bytes, count, optional, optional_time, plural};
use crate::render::{alarm, heading, note_hidden, paragraph};

/// Compare the aborted transactions in the log with those in the .txnindex files
///
/// A broker answers a read_committed fetch from the .txnindex alone. A row that is missing there
/// shows consumers records that were rolled back; a surplus row hides records that were not. Each
/// difference is listed with the offsets of the batches it shows or hides. A row whose records
/// are compacted away, or lie below the log start, makes no difference.
///
/// --from-offset and --to-offset list what the broker's log answers for that range
/// (UnifiedLog.collectAbortedTransactions): from the segment that holds the one offset on, the
/// transactions that begin below the other. In that first segment it lists some that have ended
/// before the range as well, which do a consumer no harm.
///
/// --stats counts instead: the longest run of offsets that no read_committed consumer sees anything
/// of, and how much of each segment is aborted data.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg aborted /var/lib/kafka
  kseg aborted --from-offset 120 --to-offset 140 /var/lib/kafka/orders-0
  kseg aborted --stats --topic orders /var/lib/kafka

Exit status:
  0  done, the indexes agree with the log
  1  done, and an index does not agree with the log
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct AbortedArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Count instead: what no consumer sees, and the aborted part of each segment
    #[arg(long, conflicts_with_all = ["producer_id", "from_offset", "to_offset", "at_offset"])]
    stats: bool,
    #[command(flatten)]
    build: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    producers: ProducerFilterArgs,
    /// What the log answers from this offset on
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "OFFSET",
        help_heading = "Filters"
    )]
    from_offset: Option<i64>,
    /// What the log answers for transactions that begin before this offset
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "OFFSET",
        help_heading = "Filters"
    )]
    to_offset: Option<i64>,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

pub(crate) fn run(args: &AbortedArgs, context: &mut Context) -> anyhow::Result<Status> {
    let inputs =
        Inputs::new(&args.paths, args.partitions.filter()).loaded(&args.loaded, args.build.now);
    let options = AbortedOptions {
        state: args.build.options(context.io),
        producer_id: args.producers.producer_id,
        from_offset: args.from_offset,
        to_offset: args.to_offset,
        range_rule: RangeRule::CollectAbortedTransactions,
    };
    if args.stats {
        return stats(&inputs, options.state, context);
    }
    let disagrees = match JsonRows::for_format(context.format, "kseg/aborted/v1") {
        Some(mut json) => {
            let mut disagrees = false;
            each_partition(
                &inputs,
                &options,
                context,
                |_, row, context| {
                    let row = AbortedResult::AbortedTransaction(row);
                    Ok(json.row(&mut context.out, &row)?)
                },
                |_, summary| {
                    disagrees |= summary.disagrees();
                    Ok(())
                },
            )?;
            json.finish(&mut context.out)?;
            disagrees
        }
        None => table(inputs, &options, context)?,
    };
    Ok(if disagrees {
        Status::Found
    } else {
        Status::Clean
    })
}

fn each_partition(
    inputs: &Inputs,
    options: &AbortedOptions,
    context: &mut Context,
    mut emit: impl FnMut(&PartitionInput<'_>, &AbortedRow<'_>, &mut Context) -> anyhow::Result<()>,
    mut sum_up: impl FnMut(&PartitionInput<'_>, &AbortedSummary) -> Result<(), Error>,
) -> anyhow::Result<()> {
    inputs.for_each_partition(context, |partition, context| {
        let summary = aborted_partition(partition.dir, partition.offsets, options, |row| {
            emit(partition, row, context)
        });
        let Some(summary) = context.passed(summary)?.flatten() else {
            return Ok(());
        };
        if summary.vanished > 0 {
            let path = partition.dir.path.display();
            let segments = count(summary.vanished, "segment");
            context.warn(&format!("{path}: {segments} vanished while reading"));
        }
        if let Err(error) = sum_up(partition, &summary) {
            context.fail(&error);
        }
        Ok(())
    })
}

/// What one walk over everything finds, for the lines that come first.
#[derive(Default)]
struct Totals {
    partitions: u64,
    disagreeing: u64,
    listed: u64,
    sum: AbortedSummary,
    /// The longest run of offsets nobody is shown, and where.
    longest_run: Option<(String, OffsetRun)>,
    findings: Vec<String>,
}

impl Totals {
    fn add(&mut self, summary: &AbortedSummary) {
        self.partitions += 1;
        self.disagreeing += u64::from(summary.disagrees());
        let sum = &mut self.sum;
        sum.in_log += summary.in_log;
        sum.records += summary.records;
        sum.size_in_bytes += summary.size_in_bytes;
        sum.in_index += summary.in_index;
        sum.missing += summary.missing;
        sum.surplus += summary.surplus;
        sum.starts_late += summary.starts_late;
        sum.hiding_others += summary.hiding_others;
        sum.broken += summary.broken;
        sum.exposed_records += summary.exposed_records;
        sum.hidden_records += summary.hidden_records;
        sum.empty += summary.empty;
        sum.walked_bytes += summary.walked_bytes;
    }

    fn add_run(&mut self, name: &str, run: Option<OffsetRun>) {
        let longest = self
            .longest_run
            .as_ref()
            .map(|(_, longest)| longest.length());
        if let Some(run) = run
            && Some(run.length()) > longest
        {
            self.longest_run = Some((name.to_owned(), run));
        }
    }

    fn print(&self, context: &mut Context) -> anyhow::Result<()> {
        let Self { sum, .. } = self;
        let (style, unseen) = (context.style, context.unseen());
        let out = &mut context.out;
        if self.disagreeing == 0 {
            let aborted = match sum.in_log {
                0 => "no aborted transaction".to_owned(),
                1 => format!(
                    "1 aborted transaction, {} in it",
                    count(sum.records, "record")
                ),
                many => format!(
                    "{}, {} in them",
                    count(many, "aborted transaction"),
                    count(sum.records, "record")
                ),
            };
            let line = format!("{aborted}; the indexes agree with the log{unseen}");
            paragraph(out, style, ["", "  "], &line)?;
        } else {
            let hiding = match sum.hiding_others {
                0 => String::new(),
                rows => format!(", {rows} that may hide others"),
            };
            let line = format!(
                "{} of {} not agree with the log: {} missing, {} surplus, {} too late, {} \
                 broken{hiding}{unseen}",
                self.disagreeing,
                plural(self.partitions, "partition does", "partitions do"),
                sum.missing,
                sum.surplus,
                sum.starts_late,
                sum.broken
            );
            alarm(out, style, ["", "  "], &line)?;
            let line = format!(
                "{} shown that were rolled back, {} hidden that were not",
                count(sum.exposed_records, "record"),
                count(sum.hidden_records, "record")
            );
            paragraph(out, style, ["", "  "], &line)?;
        }
        for line in self.remarks() {
            paragraph(out, style, ["", "  "], &line)?;
        }
        if !self.findings.is_empty() {
            writeln!(out)?;
        }
        for finding in &self.findings {
            alarm(out, style, ["", "  "], finding)?;
        }
        Ok(())
    }

    /// What is worth knowing whether or not the indexes are right.
    fn remarks(&self) -> Vec<String> {
        let Self { sum, .. } = self;
        let mut remarks = Vec::new();
        if sum.in_log > 0 {
            remarks.push(format!(
                "{} of {} in batches are aborted data",
                bytes(sum.size_in_bytes),
                bytes(sum.walked_bytes)
            ));
        }
        if let Some((name, run)) = &self.longest_run {
            remarks.push(format!(
                "longest run that no read_committed consumer sees: {}..{} in {name}",
                run.first_offset, run.last_offset
            ));
        }
        if sum.empty > 0 {
            remarks.push(format!(
                "{} without data here, which {} no row by design",
                count(sum.empty, "ABORT marker"),
                if sum.empty == 1 { "has" } else { "have" }
            ));
        }
        remarks
    }
}

fn table(inputs: Inputs, options: &AbortedOptions, context: &mut Context) -> anyhow::Result<bool> {
    let inputs = inputs.collecting();
    let style = context.style;
    let mut totals = Totals::default();
    let mut findings = Vec::new();
    let mut listed = 0;
    let hidden: RefCell<Vec<AbortedFrom>> = RefCell::default();
    // A run is the partition's, not the selection's.
    let is_whole = options.producer_id.is_none()
        && options.from_offset.is_none()
        && options.to_offset.is_none()
        && options.state.at_offset.is_none();
    each_partition(
        &inputs,
        options,
        context,
        |partition, row, _| {
            listed += 1;
            findings.extend(finding(
                format_args!("{} {}", partition.label, row.file),
                row,
            ));
            if let (Some(first_offset), Some(producer_id), true) =
                (row.first_offset, row.producer_id, is_whole && row.in_index)
            {
                hidden.borrow_mut().push(AbortedFrom {
                    first_offset,
                    producer_id,
                });
            }
            Ok(())
        },
        |partition, summary| {
            let hidden = hidden.take();
            totals.add(summary);
            if !hidden.is_empty() {
                let PartitionInput { dir, offsets, .. } = partition;
                let found = invisible(dir, *offsets, options.state.io, hidden, Vec::new())?;
                totals.add_run(&partition.label, found.longest_run);
            }
            Ok(())
        },
    )?;
    totals.findings = findings;
    totals.listed = listed;
    if totals.partitions == 0 {
        return Ok(false);
    }
    totals.print(context)?;
    if totals.listed > 0 {
        // The answer comes first, and there may be more rows than fit in memory: the listing is
        // read from the log again.
        list(&inputs, options, context)?;
    }
    if totals.disagreeing > 0 {
        let line = "a broker rebuilds the indexes of the segments it recovers after an unclean \
                    stop; kseg rebuild makes them";
        writeln!(context.out)?;
        paragraph(&mut context.out, style, ["", ""], line)?;
    }
    Ok(totals.disagreeing > 0)
}

const SEGMENT_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("SEGMENT", Left, 0),
    SummaryColumn::new("BATCHES", Right, 0),
    SummaryColumn::new("ABORTED", Right, 0),
    SummaryColumn::new("SHARE", Right, 0),
];

/// Partitions in numbers, in place of their rows.
fn stats(inputs: &Inputs, state: StateOptions, context: &mut Context) -> anyhow::Result<Status> {
    let mut json = JsonRows::for_format(context.format, "kseg/aborted/v1");
    let mut totals = Totals::default();
    let mut table = Summary::new(SEGMENT_COLUMNS);
    inputs.for_each_partition(context, |partition, context| {
        let statistics = aborted_statistics(partition.dir, partition.offsets, state);
        let statistics = statistics.map_err(anyhow::Error::from);
        let Some(statistics) = context.passed(statistics)?.flatten() else {
            return Ok(());
        };
        totals.add(&statistics.summary);
        if let Some(json) = &mut json {
            let row = AbortedResult::Statistics(&statistics);
            return Ok(json.row(&mut context.out, &row)?);
        }
        let name = partition.label.clone();
        totals.add_run(&name, statistics.longest_invisible_run);
        add_segments(&name, &statistics, &mut table);
        Ok(())
    })?;
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None if totals.partitions == 0 => {}
        None => {
            totals.print(context)?;
            writeln!(context.out)?;
            let hidden = table.print(&mut context.out, context.style)?;
            note_hidden(hidden, context.style, &mut context.out)?;
        }
    }
    Ok(if totals.disagreeing > 0 {
        Status::Found
    } else {
        Status::Clean
    })
}

fn add_segments(name: &str, statistics: &AbortedStatistics, table: &mut Summary) {
    for segment in &statistics.segments {
        let share = segment.aborted_share;
        table.row(vec![
            name.to_owned(),
            segment.file.clone(),
            bytes(segment.batch_bytes),
            bytes(segment.aborted_bytes),
            share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0)),
        ]);
    }
}

/// What is wrong with a row of the index at `place`, in words.
pub(super) fn finding(place: impl Display, row: &AbortedRow<'_>) -> Option<String> {
    let kind = row.finding?;
    let what = match (row.producer_id, row.first_offset, row.last_offset) {
        (Some(producer), Some(first), Some(last)) => {
            format!("producer {producer} at {first}..{last}")
        }
        _ => format!("position {}", optional(row.position)),
    };
    let ranges = |ranges: &[(i64, i64)]| {
        let ranges: Vec<String> = ranges
            .iter()
            .take(MAX_RANGES)
            .map(|(first, last)| format!("{first}..{last}"))
            .collect();
        ranges.join(", ")
    };
    let mut line = format!("{place}: {kind}: {what}");
    for (verb, offsets, records) in [
        ("shows", &row.exposed_offsets, row.exposed_records),
        ("hides", &row.hidden_offsets, row.hidden_records),
    ] {
        if !offsets.is_empty() {
            let more = if offsets.len() > MAX_RANGES {
                ", ..."
            } else {
                ""
            };
            line.push_str(&format!(
                "; {verb} {} at {}{more}",
                count(records, "record"),
                ranges(offsets)
            ));
        }
    }
    if row.exposed_offsets.is_empty() && row.hidden_offsets.is_empty() {
        line.push_str(&format!("; {}", row.reason.unwrap_or_default()));
    }
    Some(line)
}

/// Ranges of offsets named in a line; JSON has all.
const MAX_RANGES: usize = 8;

const COLUMNS: &[Column] = &[
    Column::new("FIRST", 10, Right, 0),
    Column::new("LAST", 10, Right, 0),
    Column::new("PRODUCER", 8, Right, 0),
    Column::new("LSO", 10, Right, 1),
    Column::new("RECORDS", 7, Right, 0),
    Column::new("IN", 9, Left, 0),
    Column::new("WHAT", 12, Left, 0),
    Column::new("SIZE", 8, Right, 3),
    Column::new("ABORTED", 24, Left, 2),
];

fn list(inputs: &Inputs, options: &AbortedOptions, context: &mut Context) -> anyhow::Result<()> {
    let style = context.style;
    let mut listing = Listing::new(COLUMNS, style);
    let mut current = None;
    each_partition(
        inputs,
        options,
        context,
        |partition, row, context| {
            let path = &partition.dir.path;
            if current.as_ref() != Some(path) {
                writeln!(context.out)?;
                heading(&mut context.out, style, &partition.label)?;
                listing.headings(&mut context.out, style)?;
                current = Some(path.clone());
            }
            Ok(listing.row(&mut context.out, &cells(row))?)
        },
        |_, _| Ok(()),
    )?;
    Ok(note_hidden(
        listing.hidden(),
        context.style,
        &mut context.out,
    )?)
}

fn cells(row: &AbortedRow<'_>) -> Vec<String> {
    let sides = match (row.in_index, row.in_log) {
        (true, true) => "both",
        (true, false) => "index",
        (false, true) => "log",
        (false, false) => "-",
    };
    let what = match row.finding {
        Some("txnindex-stable-offset") => "hides others",
        Some(finding) => finding.trim_start_matches("txnindex-entry-"),
        None if row.in_log => "ok",
        None if row.has_lost_marker() => "marker gone",
        None => "no data left",
    };
    vec![
        optional(row.first_offset),
        optional(row.last_offset),
        optional(row.producer_id),
        optional(row.last_stable_offset),
        row.records.to_string(),
        sides.to_owned(),
        what.to_owned(),
        bytes(row.size_in_bytes),
        optional_time(row.end_timestamp),
    ]
}
