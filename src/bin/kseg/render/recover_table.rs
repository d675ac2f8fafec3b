//! The table of `kseg recover`: whether to start and what it costs first, then the partitions, then
//! the files.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use kseg::append::dry_run::RecoverRow;
use kseg::append::dry_run::known::AbortedList;
use kseg::append::dry_run::row::{Action, ActionKind, Start};
use kseg::log::broker_start::{StartObstacles, outage};
use kseg::report::gaps::range;
use kseg::report::lso::abort_command;

use super::columns::Align::{Left, Right};
use super::note_hidden;
use super::recover_outages::Outages;
use super::recover_totals::Totals;
use super::recover_verdict::{Unlooked, Verdict};
use super::summary::{Summary, SummaryColumn};
use super::text::{bytes, count, optional, plural, printable};
use super::wrap::wrapped;
use crate::cmd::recover::is_touched;
use crate::context::Context;

/// Files of a partition that are listed without --all.
const FILES_SHOWN: usize = 12;

/// Bytes that a broker is taken to read in a second, for the estimate.
const BYTES_PER_SECOND: u64 = 100_000_000;

/// Width of the longest [`ActionKind`] by name.
const KIND_WIDTH: usize = 7;

const COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("START", Left, 0),
    SummaryColumn::new("LOG START", Right, 3),
    SummaryColumn::new("LOG END", Right, 0),
    SummaryColumn::new("LSO", Right, 2),
    SummaryColumn::new("FILES", Right, 1),
    SummaryColumn::new("TO READ", Right, 1),
    SummaryColumn::new("WHAT COMES OF IT", Left, 0),
];

/// All rows of a run.
pub(crate) struct RecoverTable {
    rows: Vec<RecoverRow>,
    outages: Outages,
    /// Names that more than one partition of the run has.
    shared_names: BTreeSet<String>,
    shows: Shown,
    /// Whether it is known which partitions are strays.
    knows_strays: bool,
}

/// What was asked for.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    /// Every partition and every file.
    pub(crate) all: bool,
    /// Without checksums of what the start does not read.
    pub(crate) quick: bool,
    /// The one start that was asked for.
    pub(crate) picked: Option<Start>,
}

impl RecoverTable {
    pub(crate) fn new(
        rows: Vec<RecoverRow>,
        shows: Shown,
        (obstacles, knows_strays): (StartObstacles, bool),
    ) -> Self {
        Self {
            outages: Outages::new(obstacles, &rows),
            shared_names: shared_names(&rows),
            rows,
            shows,
            knows_strays,
        }
    }

    /// What the table shows of a row.
    pub(crate) fn shown(row: RecoverRow) -> RecoverRow {
        RecoverRow {
            producers: Vec::new(),
            files_after_start: Vec::new(),
            segments: Vec::new(),
            aborted_transactions: AbortedList::default(),
            ..row
        }
    }

    pub(crate) fn print(&self, context: &mut Context) -> anyhow::Result<()> {
        self.outages.print(context)?;
        if self.rows.is_empty() {
            return Ok(());
        }
        self.print_verdict(context)?;
        for start in self.starts() {
            let rows: Vec<&RecoverRow> = self.of(start).collect();
            let totals = self.totals(start);
            let which = self.which(start, &totals);
            let what = match rows.as_slice() {
                [row] => answer(row),
                _ => totals.answer(),
            };
            let line = summary(start, &which, &what, totals.bytes_to_read);
            paragraph(context, &line, "", "")?;
        }
        let shown: Vec<&RecoverRow> = self
            .rows
            .iter()
            .filter(|row| self.shows.all || self.decides(row) || is_touched(row) || row.is_gone())
            .collect();
        if shown.is_empty() {
            return Ok(());
        }
        writeln!(context.out)?;
        let mut table = Summary::new(COLUMNS);
        for row in &shown {
            table.row(cells(row, &self.name(row), self.outages.of(row).as_deref()));
        }
        let style = context.style;
        let hidden = table.print(&mut context.out, style)?;
        let first = self.rows.first().map(|row| &row.path);
        let is_one = self.rows.iter().all(|row| Some(&row.path) == first);
        for row in shown {
            let is_loss = row.is_loss() || row.loses_producer_state || !row.warnings.is_empty();
            if self.shows.all || is_loss || (self.decides(row) && (is_one || !is_routine(row))) {
                self.details(row, context)?;
            }
        }
        Ok(note_hidden(hidden, context.style, &mut context.out)?)
    }

    /// Whether to start the broker, unless it has been said that it does not start.
    fn print_verdict(&self, context: &mut Context) -> anyhow::Result<()> {
        if self.outages.stop_broker() {
            return Ok(());
        }
        let deciding = self.rows.iter().filter(|row| self.decides(row));
        let rows = deciding.map(|row| (self.name(row), row)).collect();
        let verdict = Verdict::new(
            rows,
            self.shows.picked,
            Unlooked {
                failures: context.failures(),
                quick: self.shows.quick,
                strays: !self.knows_strays,
            },
        );
        let width = context.style.width;
        for line in wrapped(&printable(&verdict.line()), width) {
            let line = if verdict.is_good() {
                line
            } else {
                context.style.bad(&line)
            };
            writeln!(context.out, "{line}")?;
        }
        Ok(())
    }

    /// Whether the exit status is that of this row.
    fn decides(&self, row: &RecoverRow) -> bool {
        row.applies || self.shows.picked.is_some()
    }

    /// The start that the directory would get comes first.
    fn starts(&self) -> Vec<Start> {
        let mut starts: Vec<Start> = Vec::new();
        for row in &self.rows {
            if !starts.contains(&row.start) {
                starts.push(row.start);
            }
        }
        starts.sort_by_key(|start| std::cmp::Reverse(self.totals(*start).applies));
        starts
    }

    fn of(&self, start: Start) -> impl Iterator<Item = &RecoverRow> {
        self.rows.iter().filter(move |row| row.start == start)
    }

    fn totals(&self, start: Start) -> Totals {
        Totals::of(self.of(start))
    }

    fn details(&self, row: &RecoverRow, context: &mut Context) -> anyhow::Result<()> {
        if !is_touched(row) {
            return Ok(());
        }
        let (name, start) = (printable(&self.name(row)), row.start.name());
        writeln!(context.out)?;
        paragraph(context, &format!("{name}, {start} start"), "", "")?;
        if let Some(error) = &row.error {
            let what = outage(error.stops_broker);
            let line = format!("{what}: {}: {}", error.cause(), error.message);
            paragraph(context, &line, "  ", "")?;
        }
        let limit = if self.shows.all {
            usize::MAX
        } else {
            FILES_SHOWN
        };
        let rewritten: HashSet<&String> = row.indexes_rewritten.iter().collect();
        let (indexes, files): (Vec<&Action>, Vec<&Action>) = row.actions.iter().partition(|it| {
            !self.shows.all && it.kind == ActionKind::Rewrite && rewritten.contains(&it.file)
        });
        let indexes = indexes.len() as u64;
        for action in files.iter().take(limit) {
            let (what, why) = action_texts(action);
            let kind = format!("{:<KIND_WIDTH$}  ", action.kind.name());
            paragraph(context, &format!("{what}: {why}"), "  ", &kind)?;
        }
        if let Some(more) = files.len().checked_sub(limit).filter(|it| *it > 0) {
            writeln!(context.out, "  and {more} more files; --all lists them")?;
        }
        if indexes > 0 {
            let files = plural(indexes, "index", "indexes");
            let line = format!("{files} of segments that are recovered");
            paragraph(context, &line, "  ", "rewrite  ")?;
        }
        for warning in &row.warnings {
            paragraph(context, warning, "  ", "warning: ")?;
        }
        if let (Some(topic), Some(partition)) = (&row.topic, row.partition) {
            let left_open = row.losses.left_open.iter();
            let commands =
                left_open.filter_map(|open| abort_command(topic, partition, open.first_offset));
            let commands: Vec<String> = commands.collect();
            if !commands.is_empty() {
                let what = "to abort only if no other replica has the marker that goes:";
                paragraph(context, what, "  ", "")?;
            }
            for command in commands {
                // One line, to be pasted.
                writeln!(context.out, "  {command}")?;
            }
        }
        Ok(())
    }

    /// Topic and number, or the path where another partition of the run is called the same.
    fn name(&self, row: &RecoverRow) -> String {
        let name = row.name();
        if self.shared_names.contains(&name) {
            row.path.clone()
        } else {
            name
        }
    }

    /// Whose start this would be.
    fn which(&self, start: Start, totals: &Totals) -> String {
        if totals.applies == totals.partitions {
            return ", the one due here".to_owned();
        }
        let due = self.of(start).filter(|row| row.applies);
        let dirs: BTreeSet<&Path> = due
            .filter_map(|row| Path::new(&row.path).parent())
            .collect();
        let mut dirs = dirs.into_iter();
        match (dirs.next(), dirs.len() as u64) {
            (None, _) => String::new(),
            (Some(dir), 0) => format!(", the one due in {}", dir.display()),
            (Some(dir), more) => {
                let more = plural(more, "other", "others");
                format!(", the one due in {} and {more}", dir.display())
            }
        }
    }
}

fn shared_names(rows: &[RecoverRow]) -> BTreeSet<String> {
    let mut paths: HashMap<String, &str> = HashMap::new();
    let mut shared = BTreeSet::new();
    for row in rows {
        let name = row.name();
        if *paths.entry(name.clone()).or_insert(&row.path) != row.path {
            shared.insert(name);
        }
    }
    shared
}

/// A paragraph: `label`, then the text, of which further lines begin below its first word.
pub(super) fn paragraph(
    context: &mut Context,
    text: &str,
    margin: &str,
    label: &str,
) -> anyhow::Result<()> {
    let further = " ".repeat(margin.len() + label.chars().count());
    let before = [format!("{margin}{label}"), further];
    let style = context.style;
    super::paragraph(
        &mut context.out,
        style,
        before.each_ref().map(String::as_str),
        text,
    )?;
    Ok(())
}

/// Whether the start only makes side files, as it does in every partition after a crash.
fn is_routine(row: &RecoverRow) -> bool {
    let is_made = |action: &Action| match action.kind {
        ActionKind::Make | ActionKind::Rewrite => true,
        ActionKind::Remove | ActionKind::Rename | ActionKind::Cut => false,
    };
    row.loads && row.actions.iter().all(is_made)
}

/// The line that answers.
fn summary(start: Start, which: &str, what: &str, bytes_to_read: u64) -> String {
    let seconds = bytes_to_read.div_ceil(BYTES_PER_SECOND);
    let read = match bytes_to_read {
        0 => "nothing to read".to_owned(),
        read if seconds < 2 => format!("{} to read", bytes(read)),
        read => format!("{} to read, {seconds} s at 100 MB/s", bytes(read)),
    };
    format!("{} start{which}: {what}; {read}", start.name())
}

fn cells(row: &RecoverRow, name: &str, outage: Option<&str>) -> Vec<String> {
    let start = row.start.name();
    vec![
        printable(name),
        start.to_owned(),
        optional(row.log_start_offset),
        optional(row.log_end_offset),
        optional(row.last_stable_offset),
        row.actions.len().to_string(),
        bytes(row.bytes_to_read),
        match outage.filter(|_| row.loads) {
            Some(outage) => format!("down: {outage}"),
            None => outcome(row),
        },
    ]
}

/// The outcome as it stands alone.
fn answer(row: &RecoverRow) -> String {
    let is_loss = row.is_loss() || row.loses_producer_state || !row.losses.left_open.is_empty();
    if is_loss || row.warnings.is_empty() {
        outcome(row)
    } else {
        "loses nothing, but see the warning".to_owned()
    }
}

fn outcome(row: &RecoverRow) -> String {
    if let Some(error) = &row.error {
        return format!("does not come up: {}", error.cause());
    }
    let mut parts = Vec::new();
    let losses = &row.losses;
    if row.stray.is_some() {
        parts.push("set aside as stray".to_owned());
    }
    if row.replaced_by.is_some() {
        parts.push("deleted for a copy".to_owned());
    }
    if row.loses_data {
        let records = count(losses.records, "record");
        parts.push(match (losses.first_offset, losses.last_offset) {
            (Some(first), Some(last)) => format!("loses {records}, {first}..{last}"),
            _ => format!(
                "loses {}",
                plural(losses.corrupt_batches, "corrupt batch", "corrupt batches")
            ),
        });
    }
    if row.loses_producer_state {
        let producers = count(losses.producers.len() as u64, "producer");
        parts.push(format!("forgets {producers}"));
    }
    if row.torn_tail_bytes > 0 {
        parts.push("writes behind torn bytes".to_owned());
    }
    let acknowledged = losses.acknowledged_from.zip(losses.acknowledged_to);
    if let Some((first, last)) = acknowledged.filter(|_| !row.loses_data) {
        parts.push(format!(
            "{} gone below the high watermark",
            range(first, last)
        ));
    }
    if let Some(gone) = row.gone.as_ref().filter(|it| it.offsets > 0)
        && let Some((first, last)) = gone.first_offset.zip(gone.last_offset)
    {
        let all = range(first, last);
        parts.push(match gone.ranges.len() {
            1 if first == last => format!("offset {all} gone already"),
            1 => format!("offsets {all} gone already"),
            _ => format!("{} gone already, in {all}", count(gone.offsets, "offset")),
        });
    }
    if !losses.left_open.is_empty() {
        let transactions = count(losses.left_open.len() as u64, "transaction");
        parts.push(format!("leaves {transactions} open"));
    }
    if parts.is_empty() {
        parts.push(match (row.status, row.actions.is_empty()) {
            (Some("delete"), _) => "to be deleted".to_owned(),
            (Some("stray"), _) => "stray: kept aside, not used".to_owned(),
            (Some("future"), _) if row.takes_over => "put into use".to_owned(),
            (Some("future"), _) => "copy under way to this directory".to_owned(),
            (_, _) if !row.warnings.is_empty() => "see the warning".to_owned(),
            (_, true) => "stays as it is".to_owned(),
            (_, false) => "loses nothing".to_owned(),
        });
    }
    parts.join(", ")
}

/// The file with what it becomes, and why.
fn action_texts(action: &Action) -> (String, &str) {
    let file = &action.file;
    let what = match (
        action.kind,
        action.position,
        &action.to,
        action.size_in_bytes,
    ) {
        (ActionKind::Cut, Some(size), _, _) => {
            format!("{file}  to {}", plural(size, "byte", "bytes"))
        }
        (ActionKind::Rename, _, Some(to), _) => format!("{file}  to {to}"),
        (ActionKind::Make | ActionKind::Rewrite, _, _, Some(size)) => {
            format!("{file}  {}", plural(size, "byte", "bytes"))
        }
        _ => file.clone(),
    };
    (what, &action.reason)
}
