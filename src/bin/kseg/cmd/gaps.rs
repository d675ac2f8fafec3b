//! `kseg gaps`: was anything lost or stored twice.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::gaps::{Finding, GapClass, GapKind, GapOptions, GapRow, GapSummary, find_gaps};

use crate::cli::{AsLoadedArgs, BatchFilterArgs, PartitionFilterArgs, PathArgs};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::columns::Align::Left;
use crate::render::gap_runs::GapRuns;
use crate::render::json::JsonRows;
use crate::render::summary::{Summary, SummaryColumn};
use crate::render::text::{count, plural};
use crate::render::{alarm, heading, note_hidden, paragraph};

/// Findings a table shows of one partition; the others are only counted.
const MAX_ROWS: usize = 1000;

/// So many classes fit a line of 80.
const CLASSES_A_LINE: usize = 2;

/// Find lost and doubled records, by their sequences and offsets
///
/// Follows the sequences and epochs of every producer and the offsets of the log, from headers
/// and markers alone. Each finding has its likely cause. What retention, the cleaner, markers and
/// aborted transactions leave is no loss; the table counts it, --all lists it, JSON always has it.
/// What the next start deletes for a .swap file, and has nowhere else, is a loss.
/// Headers prove that something is not there, never why: a refused request leaves no trace.
/// Checksums are looked at where a header does not fit what came before, and beside .swap files:
/// kseg verify looks at all of them.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg gaps /var/lib/kafka/orders-0
  kseg gaps --topic orders -o ndjson /var/lib/kafka | jq 'select(.isLoss)'

Exit status:
  0  done, nothing lost and nothing stored twice
  1  done, and records are lost or stored twice
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct GapsArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// List what is no loss as well: compacted ranges, markers, aborted transactions
    #[arg(long)]
    all: bool,
    /// Use no snapshot for what producers did before the log begins
    #[arg(long)]
    from_scratch: bool,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    batches: BatchFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

pub(crate) fn run(args: &GapsArgs, context: &mut Context) -> anyhow::Result<Status> {
    let filter = args.partitions.filter_with(&args.batches);
    let inputs = Inputs::new(&args.paths, filter.clone())
        .loaded(&args.loaded, None)
        .with_remains();
    let options = GapOptions {
        io: context.io,
        filter,
        from_scratch: args.from_scratch,
    };
    let mut json = JsonRows::for_format(context.format, "kseg/gaps/v1");
    let mut answers = Vec::new();
    let mut alarms = 0;
    let walked = inputs.for_each_partition(context, |partition, context| {
        let mut answer = Answer::new(&partition.label, args.all);
        let result = look(partition, &options, &mut json, &mut answer, context);
        let Some(summary) = context.passed(result)? else {
            return Ok(());
        };
        for index in &summary.vanished {
            if let Some(segment) = partition.dir.segments.get(*index)
                && let Some(file) = partition.dir.file(segment.log)
            {
                context.vanished(&partition.dir.file_path(file));
            }
        }
        alarms += summary.alarms;
        if json.is_none() {
            answers.push(answer);
        }
        Ok(())
    });
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None => print(answers, context)?,
    }
    walked?;
    Ok(if alarms > 0 {
        Status::Found
    } else {
        Status::Clean
    })
}

fn look(
    partition: &PartitionInput<'_>,
    options: &GapOptions,
    json: &mut Option<JsonRows>,
    answer: &mut Answer,
    context: &mut Context,
) -> anyhow::Result<GapSummary> {
    let dir = partition.dir;
    find_gaps(dir, partition.offsets, options, |finding| {
        match json {
            Some(json) => json.row(&mut context.out, &GapRow::new(finding, dir))?,
            None => answer.add(finding, dir),
        }
        Ok(())
    })
}

/// What is kept of one partition until the table is printed.
struct Answer {
    name: String,
    all: bool,
    rows: GapRuns,
    losses: u64,
    /// Sequences that are missing because offsets are: the same losses once more, unless a filter
    /// has left those out.
    losses_again: u64,
    /// Losses that the next start brings.
    losses_at_start: u64,
    /// Whether it is the log start that brings them, and no `.swap` file.
    is_log_start_past_end: bool,
    duplicates: u64,
    others: u64,
    unlisted: BTreeMap<GapClass, u64>,
    too_many: u64,
}

impl Answer {
    fn new(name: &str, all: bool) -> Self {
        Self {
            name: name.to_owned(),
            all,
            rows: GapRuns::new(MAX_ROWS),
            losses: 0,
            losses_again: 0,
            losses_at_start: 0,
            is_log_start_past_end: false,
            duplicates: 0,
            others: 0,
            unlisted: BTreeMap::new(),
            too_many: 0,
        }
    }

    fn add(&mut self, finding: &Finding, dir: &PartitionDir) {
        let is_expected = is_expected(finding);
        if matches!(
            finding.class,
            GapClass::SwapLoss | GapClass::LogStartPastEnd
        ) {
            self.losses_at_start += 1;
            self.is_log_start_past_end |= finding.class == GapClass::LogStartPastEnd;
        } else if finding.kind == GapKind::Missing && finding.class == GapClass::SegmentMissing {
            self.losses_again += 1;
        } else if finding.is_loss() {
            self.losses += 1;
        } else if finding.is_alarm() {
            self.duplicates += 1;
        } else if !is_expected {
            self.others += 1;
        }
        if is_expected && !self.all {
            *self.unlisted.entry(finding.class).or_default() += 1;
            return;
        }
        if !self.rows.add(finding, dir) {
            self.too_many += 1;
        }
    }
}

impl Answer {
    fn losses(&self) -> u64 {
        match self.losses {
            0 => self.losses_again,
            losses => losses,
        }
    }
}

/// Left by retention, compaction and transactions as they should be.
fn is_expected(finding: &Finding) -> bool {
    !finding.is_alarm()
        && match finding.kind {
            GapKind::OffsetGap | GapKind::Missing => !matches!(
                finding.class,
                GapClass::EpochRaised
                    | GapClass::OffsetHole
                    | GapClass::SegmentDeleted
                    | GapClass::SegmentInSwap
            ),
            GapKind::Repeated | GapKind::Reordered | GapKind::EpochRegression => false,
        }
}

const COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("OFFSETS", Left, 0),
    SummaryColumn::new("PRODUCER", Left, 0),
    SummaryColumn::new("SEQUENCES", Left, 0),
    SummaryColumn::new("CLASS", Left, 2),
    SummaryColumn::new("PLACE", Left, 3),
    SummaryColumn::new("WHAT", Left, 0),
];

fn print(mut answers: Vec<Answer>, context: &mut Context) -> anyhow::Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    print_totals(&answers, context)?;
    let mut hidden = 0;
    let is_one = answers.len() == 1;
    for answer in answers.iter_mut().filter(|answer| !answer.rows.is_empty()) {
        writeln!(context.out)?;
        if !is_one {
            heading(&mut context.out, context.style, &answer.name)?;
        }
        let mut table = Summary::new(COLUMNS);
        let rows = std::mem::replace(&mut answer.rows, GapRuns::new(0));
        for cells in rows.into_rows() {
            table.row(cells);
        }
        let style = context.style;
        hidden = hidden.max(table.print(&mut context.out, style)?);
        if answer.too_many > 0 {
            let more = plural(answer.too_many, "more finding", "more findings");
            writeln!(context.out, "and {more}; -o ndjson lists all")?;
        }
    }
    print_notes(&answers, hidden, context)
}

/// The answer in one line.
fn print_totals(answers: &[Answer], context: &mut Context) -> anyhow::Result<()> {
    let sum = |of: fn(&Answer) -> u64| answers.iter().map(of).sum::<u64>();
    let (losses, at_start) = (sum(Answer::losses), sum(|it| it.losses_at_start));
    let (duplicates, others) = (sum(|it| it.duplicates), sum(|it| it.others));
    let place = if let [answer] = answers {
        format!(" in {}", answer.name)
    } else {
        let bad = answers
            .iter()
            .filter(|it| it.losses() + it.losses_at_start + it.duplicates > 0);
        let partitions = count(answers.len() as u64, "partition");
        match bad.count() {
            0 => format!(" in {partitions}"),
            bad => format!(" in {bad} of {partitions}"),
        }
    };
    let mut parts = Vec::new();
    if losses > 0 {
        parts.push(plural(losses, "loss", "losses"));
    }
    if duplicates > 0 {
        parts.push(count(duplicates, "duplicate"));
    }
    if at_start > 0 {
        let losses = plural(at_start, "loss", "losses");
        parts.push(format!("{losses} at the next start"));
    }
    let is_clean = parts.is_empty();
    let mut line = if is_clean {
        format!("nothing lost, nothing stored twice{place}")
    } else {
        format!("{}{place}", parts.join(" and "))
    };
    if others > 0 {
        line.push_str(&format!("; {}, no loss", count(others, "more finding")));
    }
    line.push_str(context.unseen());
    let style = context.style;
    if is_clean {
        paragraph(&mut context.out, style, ["", "  "], &line)?;
    } else {
        alarm(&mut context.out, style, ["", "  "], &line)?;
    }
    Ok(())
}

/// What was left out, and the next step.
fn print_notes(answers: &[Answer], hidden: usize, context: &mut Context) -> anyhow::Result<()> {
    let losing = answers.iter().filter(|it| it.losses_at_start > 0);
    let (by_log_start, by_swaps): (Vec<&Answer>, Vec<&Answer>) =
        losing.partition(|it| it.is_log_start_past_end);
    let then = [
        (by_swaps, "move the .swap files out of it"),
        (
            by_log_start,
            "correct the line in log-start-offset-checkpoint",
        ),
    ];
    for (_, then) in then.iter().filter(|(answers, _)| !answers.is_empty()) {
        let keep = format!(
            "before the next start: copy the directory, then {then}; kseg recover shows what a \
             start does"
        );
        writeln!(context.out)?;
        paragraph(&mut context.out, context.style, ["", "  "], &keep)?;
    }
    let mut unlisted: BTreeMap<GapClass, u64> = BTreeMap::new();
    for answer in answers {
        for (class, number) in &answer.unlisted {
            *unlisted.entry(*class).or_default() += number;
        }
    }
    if !unlisted.is_empty() {
        let classes: Vec<String> = unlisted
            .iter()
            .map(|(class, number)| format!("{number} {}", class.name()))
            .collect();
        writeln!(context.out, "\nno loss, not listed; --all lists them:")?;
        let style = context.style;
        for line in classes.chunks(CLASSES_A_LINE) {
            paragraph(&mut context.out, style, ["  ", "  "], &line.join(", "))?;
        }
    }
    Ok(note_hidden(hidden, context.style, &mut context.out)?)
}
