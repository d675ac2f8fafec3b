//! What `replay` prints: verdicts on logged batches as lines, verdicts on requests in words.

use std::io::{self, Write};

use kseg::report::gaps::{offset_range, range};
use kseg::report::replay::{ReplayRow, ReplayRowType, RuleNumbers, StoredAt, ViewRow};

use super::columns::Align::{Left, Right};
use super::columns::{Column, Listing};
use super::summary::{Summary, SummaryColumn};
use super::{Style, paragraph};

const COLUMNS: &[Column] = &[
    Column::new("OFFSETS", 11, Right, 0),
    Column::new("PRODUCER", 14, Left, 0),
    Column::new("SEQUENCES", 10, Right, 0),
    Column::new("VERDICT", 9, Left, 0),
    Column::new("ANSWER", 28, Left, 0),
    Column::new("RULE", 24, Left, 1),
    Column::new("EXPLAINED BY", 21, Left, 2),
];

/// The same, sized to its cells.
const KEPT_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("OFFSETS", Right, 0),
    SummaryColumn::new("PRODUCER", Left, 0),
    SummaryColumn::new("SEQUENCES", Right, 0),
    SummaryColumn::new("VERDICT", Left, 3),
    SummaryColumn::new("ANSWER", Left, 0),
    SummaryColumn::new("RULE", Left, 2),
    SummaryColumn::new("EXPLAINED BY", Left, 1),
];

/// Prints lines that have all been gathered; says how many columns did not fit.
pub(crate) fn print_kept(
    out: &mut impl Write,
    rows: &[Vec<String>],
    style: Style,
) -> io::Result<usize> {
    let mut table = Summary::new(KEPT_COLUMNS);
    for row in rows {
        table.row(row.clone());
    }
    table.print(out, style)
}

/// Lines of logged batches.
pub(crate) struct ReplayTable {
    listing: Listing,
    style: Style,
}

impl ReplayTable {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            listing: Listing::new(COLUMNS, style),
            style,
        }
    }

    pub(crate) fn headings(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.listing.headings(out, self.style)
    }

    pub(crate) fn row(&mut self, out: &mut impl Write, cells: &[String]) -> io::Result<()> {
        self.listing.row(out, cells)
    }
}

/// The cells of a logged batch.
pub(crate) fn cells(row: &ReplayRow<'_>) -> Vec<String> {
    let verdict = &row.answer.views.running;
    let answer = match (&verdict.error, &verdict.duplicate_of) {
        (Some(error), _) => error.name.to_owned(),
        (None, Some(earlier)) => {
            let earlier = range(earlier.first_offset, earlier.last_offset);
            format!("repeats offsets {earlier}")
        }
        (None, None) => row
            .batch
            .control_type
            .map_or_else(String::new, |control_type| format!("{control_type} marker")),
    };
    let numbers = verdict
        .rule_numbers
        .as_deref()
        .map(numbers)
        .unwrap_or_default();
    vec![
        optional_range(row.batch.base_offset, row.batch.last_offset),
        producer(row),
        optional_range(row.batch.base_sequence, row.batch.last_sequence),
        verdict.verdict.to_owned(),
        answer,
        format!("{}{numbers}", verdict.rule),
        row.answer.explained_by.unwrap_or_default().to_owned(),
    ]
}

fn producer(row: &ReplayRow<'_>) -> String {
    match (row.batch.producer_id, row.batch.producer_epoch) {
        (Some(id), Some(epoch)) => format!("{id} epoch {epoch}"),
        _ => "-".to_owned(),
    }
}

fn optional_range<T: PartialEq + std::fmt::Display>(first: Option<T>, last: Option<T>) -> String {
    match (first, last) {
        (Some(first), Some(last)) => range(first, last),
        _ => "-".to_owned(),
    }
}

fn numbers(numbers: &RuleNumbers) -> String {
    let mut text = String::new();
    if let Some(known) = numbers.known {
        text.push_str(&format!(", known {known}"));
    }
    if let Some(expected) = numbers.expected {
        text.push_str(&format!(", expected {expected}"));
    }
    if let Some(first_offset) = numbers.first_offset {
        text.push_str(&format!(", open since {first_offset}"));
    }
    text
}

/// The answer to a request, the verdict first.
pub(crate) fn request(
    out: &mut impl Write,
    row: &ReplayRow<'_>,
    index: Option<usize>,
    style: Style,
) -> io::Result<()> {
    let number = index.map_or_else(String::new, |index| format!("{index:>3}  "));
    let verdict = headline(
        &row.answer.views.running,
        row.batch.base_offset.zip(row.batch.last_offset),
    );
    let verdict = if row.answer.error.is_some() {
        style.bad(&verdict)
    } else {
        verdict
    };
    writeln!(out, "{number}{verdict}")?;
    let indent = if index.is_some() { "       " } else { "  " };
    let further = format!("{indent}  ");
    for line in lines(row) {
        paragraph(out, style, [indent, &further], &line)?;
    }
    Ok(())
}

fn headline(verdict: &ViewRow, told: Option<(i64, i64)>) -> String {
    let told = told.map(|(first, last)| range(first, last));
    match (&verdict.error, told) {
        (Some(error), _) => format!("{}: {} ({})", verdict.verdict, error.name, error.code),
        (None, Some(told)) if verdict.duplicate_of.is_some() => {
            format!("{} of offsets {told}", verdict.verdict)
        }
        (None, Some(told)) => format!("{} at offsets {told}", verdict.verdict),
        (None, None) => verdict.verdict.to_owned(),
    }
}

fn lines(row: &ReplayRow<'_>) -> Vec<String> {
    let mut lines = vec![asked(row)];
    lines.extend(row.answer.message.clone());
    if row.source.row_type == ReplayRowType::Request {
        lines.push(next(row));
        if row.batch.base_sequence.is_some() && row.batch.producer_id.is_some() {
            lines.push(stored(row));
        }
    }
    let others = [
        ("after a clean restart", &row.answer.views.restarted),
        (
            "with the producer's state lost",
            &row.answer.views.state_lost,
        ),
    ];
    for (when, verdict) in others {
        lines.push(format!("{when}: {}", short(verdict)));
    }
    if row.batch.is_transactional && row.batch.control_type.is_none() {
        lines.push(
            "not on disk: transaction verification, which may refuse a batch before this rule"
                .to_owned(),
        );
    }
    lines
}

/// What was asked.
fn asked(row: &ReplayRow<'_>) -> String {
    let producer = match (row.batch.producer_id, row.batch.producer_epoch) {
        (Some(id), Some(epoch)) => format!("producer {id} epoch {epoch}"),
        _ => "no producer id".to_owned(),
    };
    match (
        row.batch.control_type,
        row.batch.base_sequence,
        row.batch.last_sequence,
    ) {
        (Some(control_type), ..) => {
            let epoch = row.batch.coordinator_epoch.unwrap_or(-1);
            format!("{control_type} marker of {producer}, coordinator epoch {epoch}")
        }
        (None, Some(first), Some(last)) => {
            let kind = if row.batch.is_transactional {
                ", transactional"
            } else {
                ""
            };
            let noun = if first == last {
                "sequence"
            } else {
                "sequences"
            };
            format!("{producer}, {noun} {}{kind}", range(first, last))
        }
        (None, ..) => producer,
    }
}

/// What the producer may send next.
fn next(row: &ReplayRow<'_>) -> String {
    match (row.answer.next_sequence, row.answer.known_epoch) {
        (Some(next), Some(epoch)) => {
            format!(
                "before it, the next sequence taken in epoch {epoch} was {next}; 0 in a higher one"
            )
        }
        _ if row.batch.producer_id.is_none() => {
            "nothing is checked without a producer id".to_owned()
        }
        _ => "the broker knows nothing of this producer: any sequence is taken".to_owned(),
    }
}

/// Which logged batch decides.
fn stored(row: &ReplayRow<'_>) -> String {
    let first = row.batch.base_sequence.unwrap_or(-1);
    let Some(at) = row.answer.stored_at else {
        let epoch = row.batch.producer_epoch.unwrap_or(-1);
        let mut line = format!(
            "nothing with sequence {first} of this producer in epoch {epoch} was ever stored here"
        );
        if let Some(start) = row.answer.log_start_offset.filter(|start| *start > 0) {
            line.push_str(&format!(
                "; the log begins at {start}, what was before is not known"
            ));
        }
        return line;
    };
    let StoredAt {
        first_offset,
        last_offset,
        is_exact,
        batches_back,
    } = at;
    let noun = if first_offset == last_offset {
        "offset"
    } else {
        "offsets"
    };
    let offsets = format!("{noun} {}", range(first_offset, last_offset));
    if !is_exact {
        return format!(
            "sequence {first} is in the log at {offsets}, in a batch of other sequences: only an \
             exact repeat is a duplicate"
        );
    }
    let sequences = optional_range(row.batch.base_sequence, row.batch.last_sequence);
    let place = format!("{sequences} is in the log at {offsets}");
    let which = ordinal(batches_back);
    if row.answer.duplicate_of.is_some() {
        format!("{place}, the {which} batch of this producer: a broker remembers 5")
    } else if row.answer.known_epoch != row.batch.producer_epoch {
        format!("{place}, but a batch or marker of another epoch made the broker forget it")
    } else if batches_back > 5 {
        format!("{place}, but it is the {which} batch: a broker remembers 5")
    } else {
        format!("{place}, the {which} batch of this producer")
    }
}

fn ordinal(back: u64) -> String {
    let suffix = match (back % 10, back % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    if back == 1 {
        "last".to_owned()
    } else {
        format!("{back}{suffix} last")
    }
}

/// A verdict in one line.
fn short(verdict: &ViewRow) -> String {
    let mut text = match (&verdict.error, &verdict.duplicate_of) {
        (Some(error), _) => format!("{}: {} ({})", verdict.verdict, error.name, error.code),
        (None, Some(of)) => format!(
            "{} of {}",
            verdict.verdict,
            offset_range(of.first_offset, of.last_offset)
        ),
        (None, None) if verdict.rule == "unknown-producer" => {
            format!(
                "{}: an unknown producer may start anywhere",
                verdict.verdict
            )
        }
        (None, None) => verdict.verdict.to_owned(),
    };
    if let Some(RuleNumbers {
        first_sequence: Some(first),
        last_sequence: Some(last),
        ..
    }) = verdict.rule_numbers.as_deref()
    {
        text.push_str(&format!("; it remembers only {}", range(*first, *last)));
    }
    text
}
