//! The transactions of `txns` for people: the open ones and the sums first.

use std::io::{self, Write};

use kseg::report::gaps::offset_range;
use kseg::report::transaction_state::TransactionClass;
use kseg::report::txns::{TxnRow, TxnState, WantedStates};

use super::columns::Align::{Left, Right};
use super::summary::{Summary, SummaryColumn};
use super::text::{bytes, count, duration, optional, optional_time, plural, printable, time};
use super::txns_listing::notes;
use super::{Style, alarm, paragraph};

/// What one walk over everything finds, for the lines that come first.
#[derive(Default)]
pub(crate) struct Totals {
    states: WantedStates,
    /// Whether any `__transaction_state` is at hand.
    knows_coordinators: bool,
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
    open_bytes: u64,
    standings: Standings,
    open_lines: Vec<OpenLine>,
}

/// An open transaction, ready to be printed.
struct OpenLine {
    cells: Vec<String>,
    notes: Vec<String>,
    command: Option<String>,
    /// Where it is, who has it and what the coordinator says, before the command.
    standing: Option<String>,
    advice: Advice,
}

/// What is said of ending an open transaction by hand.
#[derive(Clone, Copy)]
enum Advice {
    /// Nobody else is going to.
    Abort,
    /// It may have ended, or who has it is not known.
    Look,
    /// Its coordinator is going to.
    Wait,
    /// It may be newer than what the coordinators were read at.
    LookAgain,
}

impl Advice {
    fn on(row: &TxnRow<'_>) -> Self {
        match row.class {
            Some(class) if class.is_in_hand() => Self::Wait,
            Some(TransactionClass::MayBeNewer) => Self::LookAgain,
            Some(class) if class.may_have_ended() => Self::Look,
            _ if row.first_batch_is_damaged || row.marker_may_be_lost_in.is_some() => Self::Look,
            Some(_) | None => Self::Abort,
        }
    }
}

/// Open transactions by who is going to end them.
#[derive(Default)]
struct Standings {
    orphans: u64,
    ongoing: u64,
    prepared: u64,
}

impl Totals {
    pub(crate) fn new(states: WantedStates, knows_coordinators: bool) -> Self {
        Self {
            states,
            knows_coordinators,
            ..Self::default()
        }
    }

    /// Whether there is anything but open transactions.
    pub(crate) fn any_ended(&self) -> bool {
        self.committed + self.aborted + self.empty > 0
    }

    pub(crate) fn add(&mut self, name: &str, row: &TxnRow<'_>, clock_ms: i64) {
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
                self.open_bytes += row.size_in_bytes;
                self.standings.add(row.class);
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
    pub(crate) fn print(
        &mut self,
        clock_ms: i64,
        unseen: &str,
        style: Style,
        out: &mut impl Write,
    ) -> io::Result<usize> {
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
        line.push_str(&self.standings.in_words());
        if self.states.committed {
            line.push_str(&format!("; {} committed", self.committed));
        }
        if self.states.aborted {
            line.push_str(&format!("; {} aborted", self.aborted));
        }
        if self.empty > 0 {
            line.push_str(&format!(", {} empty here", self.empty));
        }
        line.push_str(unseen);
        if self.open > 0 {
            alarm(out, style, ["", "  "], &line)?;
        } else {
            paragraph(out, style, ["", "  "], &line)?;
        }
        self.print_statistics(style, out)?;
        if self.open_lines.is_empty() {
            return Ok(0);
        }
        self.print_open(style, out)
    }

    fn print_statistics(&self, style: Style, out: &mut impl Write) -> io::Result<()> {
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
        if self.open_bytes > 0 {
            line = format!(
                "{line}; aborting the open ones loses {}",
                bytes(self.open_bytes)
            );
        }
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
        paragraph(out, style, ["", "  "], &line)
    }

    fn print_open(&mut self, style: Style, out: &mut impl Write) -> io::Result<usize> {
        writeln!(out)?;
        let mut table = Summary::new(OPEN_COLUMNS).breaking_last_first();
        if !self.knows_coordinators {
            for (index, column) in OPEN_COLUMNS.iter().enumerate() {
                if COORDINATOR_COLUMNS.contains(&column.name) {
                    table.hide_column(index);
                }
            }
        }
        let mut notes = Vec::new();
        let mut to_abort = Vec::new();
        let mut in_hand = Vec::new();
        let mut unsure = Vec::new();
        let mut newer = Vec::new();
        for line in std::mem::take(&mut self.open_lines) {
            table.row(line.cells);
            notes.extend(line.notes);
            let commands = match line.advice {
                Advice::Wait => &mut in_hand,
                Advice::Look => &mut unsure,
                Advice::Abort => &mut to_abort,
                Advice::LookAgain => &mut newer,
            };
            if let Some(command) = line.command {
                commands.push(Command {
                    comment: line.standing,
                    line: command,
                });
            }
        }
        let hidden = table.print(out, style)?;
        if !notes.is_empty() {
            writeln!(out)?;
        }
        for note in notes {
            paragraph(out, style, ["", "  "], &note)?;
        }
        if !self.knows_coordinators {
            let line = "no __transaction_state here: transactional ids and what coordinators \
                        hold are not known";
            writeln!(out)?;
            paragraph(out, style, ["", ""], line)?;
        }
        if !to_abort.is_empty() {
            writeln!(out, "\nto abort, oldest first:")?;
            print_commands(&to_abort, style, out)?;
        }
        for (heading, commands) in [
            (
                "the marker of these may be missing here; to abort only if no replica has it:",
                unsure,
            ),
            (
                "their coordinator is still to end these; to abort only if it is known not to:",
                in_hand,
            ),
            (
                "these may be newer than __transaction_state as it was read; run again first:",
                newer,
            ),
        ] {
            if !commands.is_empty() {
                writeln!(out)?;
                alarm(out, style, ["", "  "], heading)?;
                print_commands(&commands, style, out)?;
            }
        }
        Ok(hidden)
    }
}

/// What ends a transaction.
struct Command {
    /// Of a shell, without its mark.
    comment: Option<String>,
    line: String,
}

fn print_commands(commands: &[Command], style: Style, out: &mut impl Write) -> io::Result<()> {
    for command in commands {
        if let Some(comment) = &command.comment {
            paragraph(out, style, ["  # ", "  #   "], comment)?;
        }
        // One line however long, to be pasted.
        writeln!(out, "  {}", command.line)?;
    }
    Ok(())
}

impl Standings {
    fn add(&mut self, class: Option<TransactionClass>) {
        match class {
            Some(class) if class.is_orphan() => self.orphans += 1,
            Some(TransactionClass::Ongoing) => self.ongoing += 1,
            Some(class) if class.is_in_hand() => self.prepared += 1,
            Some(_) | None => {}
        }
    }

    fn in_words(&self) -> String {
        let counts = [
            (self.orphans, plural(self.orphans, "orphan", "orphans")),
            (self.ongoing, format!("{} ongoing", self.ongoing)),
            (self.prepared, format!("{} prepared", self.prepared)),
        ];
        let counts = counts.into_iter().filter(|(number, _)| *number > 0);
        let words: Vec<String> = counts.map(|(_, words)| words).collect();
        if words.is_empty() {
            String::new()
        } else {
            format!(" ({})", words.join(", "))
        }
    }
}

/// Columns that need `__transaction_state`.
/// Of an open transaction that may be somebody else's, or none.
pub(crate) const DAMAGED_FIRST_BATCH: &str = "its first batch is damaged, and whose it is may be \
                                              wrong: kseg verify tells more";

const COORDINATOR_COLUMNS: [&str; 2] = ["COORDINATOR", "TRANSACTIONAL ID"];

const OPEN_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("FIRST", Right, 0),
    SummaryColumn::new("LAST", Right, 7),
    SummaryColumn::new("PRODUCER", Right, 1),
    SummaryColumn::new("EPOCH", Right, 5),
    SummaryColumn::new("RECORDS", Right, 3),
    SummaryColumn::new("SIZE", Right, 8),
    SummaryColumn::new("AGE", Right, 0),
    SummaryColumn::new("OPEN SINCE", Left, 6),
    SummaryColumn::new("LAST ACTIVITY", Left, 9),
    SummaryColumn::new("LSO AFTER ABORT", Right, 4),
    SummaryColumn::new("COORDINATOR EPOCH", Right, 11),
    SummaryColumn::new("FIRST BATCH", Left, 10),
    SummaryColumn::new("TRANSACTIONAL ID", Left, 0),
    SummaryColumn::new("COORDINATOR", Left, 0),
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
        row.transactional_id
            .map_or_else(|| "-".to_owned(), printable),
        optional(row.class),
    ];
    OpenLine {
        cells,
        notes: notes(row)
            .chain(offset_commits(row))
            .map(|note| format!("{name}: {note}"))
            .collect(),
        command: row.abort_command.clone(),
        standing: standing(name, row),
        advice: Advice::on(row),
    }
}

/// The group offsets in an open transaction, one a line.
fn offset_commits<'r>(row: &'r TxnRow<'_>) -> impl Iterator<Item = String> + 'r {
    let commits = row.offset_commits.iter().flatten();
    commits.map(|it| {
        let (group, topic) = (printable(&it.group), printable(&it.topic));
        format!(
            "producer {} moves group {group} to {} in {topic}-{}; committed: {}",
            row.producer_id,
            it.offset,
            it.partition,
            it.committed_offset
                .map_or_else(|| "none".to_owned(), |it| it.to_string())
        )
    })
}

/// What the command does not say: which of several directories of that name it is about, the id,
/// what its coordinator has, and for how long still.
fn standing(name: &str, row: &TxnRow<'_>) -> Option<String> {
    let directory = name.contains('/').then(|| name.to_owned());
    let known = row.class.map(|class| coordinator(row, class));
    let lost = row.marker_may_be_lost_in.map(|lost| {
        let offsets = offset_range(lost.first_offset, lost.last_offset);
        format!("lost behind its first: {offsets}; kseg gaps says why")
    });
    let of_id = match (directory, known) {
        (Some(directory), Some(known)) => Some(format!("{directory}: {known}")),
        (directory, known) => directory.or(known),
    };
    let damaged = row
        .first_batch_is_damaged
        .then(|| DAMAGED_FIRST_BATCH.to_owned());
    let told: Vec<String> = of_id.into_iter().chain(damaged).chain(lost).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn coordinator(row: &TxnRow<'_>, class: TransactionClass) -> String {
    let id = row
        .transactional_id
        .map_or_else(|| format!("producer {}", row.producer_id), printable);
    let times_out = row.coordinator.as_ref().and_then(|it| it.times_out_at_ms);
    // Of an orphan it is another transaction that times out.
    let outlook = match (class.outlook(), times_out) {
        (Some(outlook), _) => format!(": {outlook}"),
        (None, Some(at)) if class.is_in_hand() => {
            format!(", its coordinator aborts it after {}", time(at))
        }
        (None, _) => String::new(),
    };
    format!("{id}: {class}{outlook}")
}
