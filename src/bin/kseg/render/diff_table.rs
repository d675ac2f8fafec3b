//! What `diff` prints: how many partitions differ, a line for each, and what to do.

use std::io::{self, Write};

use kseg::report::diff::{
    Alone, BatchPlaceRow, DiffKind, DiffRow, DiffTxn, TruncationRow, TxnSide,
};
use kseg::report::gaps::{offset_range, range};

use super::columns::Align::{Left, Right};
use super::diff_damage::{damage, side_files};
use super::diff_next_step::push_next;
use super::summary::{Summary, SummaryColumn};
use super::text::{bytes, count, optional, plural, printable};
use super::{Style, alarm, heading, note_hidden, paragraph};

/// Ranges, producers, transactions and batches that a table shows of one partition.
pub(super) const MAX_LINES: usize = 5;

const COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("KIND", Left, 0),
    SummaryColumn::new("FROM", Right, 0),
    SummaryColumn::new("LEFT END", Right, 2),
    SummaryColumn::new("RIGHT END", Right, 2),
    SummaryColumn::new("ONLY LEFT", Right, 1),
    SummaryColumn::new("ONLY RIGHT", Right, 1),
];

/// Gathers partitions until all have been compared.
pub(crate) struct DiffTable {
    all: bool,
    partitions: u64,
    differing: u64,
    losing: u64,
    on_one_side: u64,
    damaged_alike: u64,
    rows: Vec<Vec<String>>,
    details: Vec<(String, Lines)>,
}

impl DiffTable {
    pub(crate) fn new(all: bool) -> Self {
        Self {
            all,
            partitions: 0,
            differing: 0,
            losing: 0,
            on_one_side: 0,
            damaged_alike: 0,
            rows: Vec::new(),
            details: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: &DiffRow) {
        self.partitions += 1;
        self.differing += u64::from(!row.equal);
        self.losing += u64::from(row.is_loss);
        self.on_one_side += u64::from(row.kind == Some(DiffKind::MissingPartition));
        self.damaged_alike += u64::from(row.is_damaged_alike());
        if self.all || !row.equal {
            self.rows.push(cells(row));
        }
        let lines = details(row);
        if !lines.0.is_empty() {
            self.details.push((partition_name(row), lines));
        }
    }

    /// The answer in one line.
    fn answer(&self) -> String {
        let on_both = self.partitions - self.on_one_side;
        let differing = self.differing - self.on_one_side;
        let of = count(on_both, "partition");
        let mut line = if on_both == 0 {
            "no partition on both sides".to_owned()
        } else if differing == 0 {
            format!("no difference in {of}")
        } else {
            let verb = if differing == 1 { "differs" } else { "differ" };
            format!("{differing} of {of} {verb}")
        };
        match self.losing {
            _ if differing == 0 => {}
            0 => line.push_str("; no record is lost"),
            all if all == differing => {}
            some => line.push_str(&format!("; {some} in records, the others not")),
        }
        if self.damaged_alike > 0 {
            line.push_str(&format!(
                "; {} damaged alike on both sides",
                self.damaged_alike
            ));
        }
        if self.on_one_side > 0 {
            line.push_str(&format!("; {} on one side only", self.on_one_side));
        }
        line
    }

    pub(crate) fn print(self, out: &mut impl Write, style: Style) -> io::Result<()> {
        if self.partitions == 0 {
            return Ok(());
        }
        let line = self.answer();
        if self.differing > self.on_one_side || self.damaged_alike > 0 {
            alarm(out, style, ["", "  "], &line)?;
        } else {
            paragraph(out, style, ["", "  "], &line)?;
        }
        let mut hidden = 0;
        if !self.rows.is_empty() {
            writeln!(out)?;
            let mut table = Summary::new(COLUMNS);
            for row in self.rows {
                table.row(row);
            }
            hidden = table.print(out, style)?;
        }
        for (name, lines) in &self.details {
            writeln!(out)?;
            heading(out, style, name)?;
            lines.print(out, style)?;
        }
        if self.on_one_side > 0 {
            writeln!(out)?;
            let line = "not every broker holds every partition; kafka-topics.sh --describe tells \
                        which do";
            paragraph(out, style, ["", ""], line)?;
        }
        note_hidden(hidden, style, out)
    }
}

/// What is said of one partition.
pub(super) struct Lines(pub(super) Vec<Line>);

pub(super) enum Line {
    Text(String),
    Alarm(String),
    /// One line however long, to be pasted.
    Command(String),
}

impl Line {
    /// The line with something before it.
    pub(super) fn behind(self, lead: &str) -> Self {
        match self {
            Self::Text(text) => Self::Text(format!("{lead}{text}")),
            Self::Alarm(text) => Self::Alarm(format!("{lead}{text}")),
            Self::Command(text) => Self::Command(format!("{lead}{text}")),
        }
    }
}

impl Lines {
    /// Text, with the spaces it is indented by.
    pub(super) fn push(&mut self, text: String) {
        self.0.push(Line::Text(text));
    }

    pub(super) fn alarm(&mut self, text: String) {
        self.0.push(Line::Alarm(text));
    }

    fn print(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        for line in &self.0 {
            match line {
                Line::Text(text) => {
                    let words = text.trim_start();
                    let indent = " ".repeat(2 + text.len() - words.len());
                    let further = format!("{indent}  ");
                    paragraph(out, style, [&indent, &further], words)?;
                }
                Line::Alarm(text) => alarm(out, style, ["  ", "    "], text)?,
                Line::Command(text) => writeln!(out, "  {text}")?,
            }
        }
        Ok(())
    }
}

fn partition_name(row: &DiffRow) -> String {
    match (&row.topic, row.partition) {
        (Some(topic), Some(partition)) => printable(&format!("{topic}-{partition}")),
        _ => printable(
            row.left_path
                .as_deref()
                .or(row.right_path.as_deref())
                .unwrap_or("-"),
        ),
    }
}

fn cells(row: &DiffRow) -> Vec<String> {
    let alone = |alone: &Alone, other: &Option<String>| match alone.records {
        _ if other.is_none() => "all".to_owned(),
        0 => "-".to_owned(),
        records => count(records, "record"),
    };
    vec![
        partition_name(row),
        row.kind.map_or("equal", DiffKind::name).to_owned(),
        optional(row.first_divergent_offset),
        optional(row.left_log_end_offset),
        optional(row.right_log_end_offset),
        alone(&row.only_in_left, &row.right_path),
        alone(&row.only_in_right, &row.left_path),
    ]
}

/// What an operator needs to know of one partition; nothing if it is sound and the same.
fn details(row: &DiffRow) -> Lines {
    let mut lines = Lines(Vec::new());
    let Some(if_left_leads) = &row.if_left_leads else {
        // The line in the table says all there is of a partition on one side.
        return lines;
    };
    if let Some(difference) = row.differences.first() {
        lines.push(what(row, difference.kind, difference.first_offset));
        if difference.left.is_some() || difference.right.is_some() {
            lines.push(place("left", difference.left.as_ref()));
            lines.push(place("right", difference.right.as_ref()));
        }
        for other in row.differences.iter().skip(1) {
            lines.push(format!(
                "also {} from offset {}",
                other.kind.name(),
                other.first_offset
            ));
        }
        if let (Some(epoch), Some(end)) = (row.last_common_epoch, row.last_common_end_offset) {
            lines.push(format!(
                "last common leader epoch {epoch}, which ends at {end}"
            ));
        }
        starts(row, &mut lines);
        alone("left", &row.only_in_left, &mut lines);
        alone("right", &row.only_in_right, &mut lines);
        transactions(row, &mut lines);
    }
    damage(row, &mut lines);
    side_files(row, &mut lines);
    if let (Some(kind), Some(if_right_leads)) = (row.kind, &row.if_right_leads) {
        if kind.is_loss() {
            lines.push(truncation(if_left_leads, "left"));
            lines.push(truncation(if_right_leads, "right"));
        }
        push_next(row, kind, &mut lines);
    }
    lines
}

/// What one side lacks in front of the other.
fn starts(row: &DiffRow, lines: &mut Lines) {
    let fronts = [
        ("left", row.left_lost_front),
        ("right", row.right_lost_front),
    ];
    for (side, lost) in fronts {
        let Some(lost) = lost else { continue };
        let unless = if lost.may_be_remote {
            ", or its topic is tiered"
        } else {
            ""
        };
        lines.alarm(format!(
            "{side} has lost {} from its front: its log start was not moved behind them, \
             as retention does{unless}",
            offset_range(lost.first_offset, lost.last_offset)
        ));
    }
    let starts = row.left_log_start_offset.zip(row.right_log_start_offset);
    if let Some((left, right)) = starts.filter(|(left, right)| left != right)
        && fronts.iter().all(|(_, lost)| lost.is_none())
    {
        lines.push(format!(
            "left starts at {left}, right at {right}, as after retention on one side; what lies \
             below {} is not compared",
            left.max(right)
        ));
    }
}

fn what(row: &DiffRow, kind: DiffKind, offset: i64) -> String {
    match kind {
        DiffKind::OtherEpoch => {
            format!("two leaders wrote from offset {offset} on: the leader epochs differ")
        }
        DiffKind::OtherBytes => {
            format!("other bytes at offset {offset}, though the leader epoch is the same")
        }
        DiffKind::MissingTail => {
            let ends = row.left_log_end_offset.zip(row.right_log_end_offset);
            let (left, right) = ends.unwrap_or((offset, offset));
            let (shorter, end) = if left < right {
                ("left", left)
            } else {
                ("right", right)
            };
            format!("the {shorter} log ends at offset {end}, the other goes on")
        }
        DiffKind::MissingSegment => {
            format!("offsets from {offset} on are gone on one side; no cleaner took them")
        }
        DiffKind::MissingRecords => format!(
            "records from offset {offset} on are gone on one side, and a cleaner would have kept \
             them"
        ),
        DiffKind::Compaction => format!(
            "the cleaner has come further on one side, first seen at offset {offset}; no loss"
        ),
        DiffKind::OtherBatchSplit => {
            format!("the same records lie in other batches from offset {offset} on; no loss")
        }
        DiffKind::MissingPartition | DiffKind::SideFiles => kind.name().to_owned(),
    }
}

fn place(side: &str, batch: Option<&BatchPlaceRow>) -> String {
    let Some(batch) = batch else {
        return format!("{side:<6} nothing there");
    };
    let mut line = format!(
        "{side:<6} {} @ {}  {}",
        printable(&batch.file),
        batch.position,
        offset_range(batch.base_offset, batch.last_offset)
    );
    if let Some(epoch) = batch.partition_leader_epoch {
        line.push_str(&format!("  leader epoch {epoch}"));
    }
    if let Some(id) = batch.producer_id {
        line.push_str(&format!("  producer {id}"));
    }
    line
}

fn alone(side: &str, alone: &Alone, lines: &mut Lines) {
    if alone.batches == 0 {
        return;
    }
    lines.push(format!(
        "only {side}: {} in {}, {}",
        count(alone.records, "record"),
        plural(alone.batches, "batch", "batches"),
        bytes(alone.size_in_bytes)
    ));
    for it in alone.ranges.iter().take(MAX_LINES) {
        lines.push(format!(
            "  {}  {}  {}",
            range(it.first_offset, it.last_offset),
            count(it.records, "record"),
            it.kind.name()
        ));
    }
    let more = alone.ranges.len().saturating_sub(MAX_LINES) as u64 + alone.ranges_not_listed;
    if more > 0 {
        lines.push(format!(
            "  and {}",
            plural(more, "more range", "more ranges")
        ));
    }
    for it in alone.producers.iter().take(MAX_LINES) {
        let producer = match it.producer_id {
            Some(id) => format!("producer {id} epoch {}", optional(it.producer_epoch)),
            None => "no producer id".to_owned(),
        };
        lines.push(format!("  {producer}: {}", count(it.records, "record")));
    }
    let more = alone.producers.len().saturating_sub(MAX_LINES) as u64;
    if more > 0 {
        lines.push(format!(
            "  and {}",
            further(
                plural(more, "more producer", "more producers"),
                alone.batches_of_producers_not_listed
            )
        ));
    }
}

/// How many more there are, and where; `not_listed` batches are of more than JSON has.
fn further(more: String, not_listed: u64) -> String {
    if not_listed == 0 {
        format!("{more}; -o json has all")
    } else {
        format!(
            "at least {more}, in -o json; {} of others",
            plural(not_listed, "batch is", "batches are")
        )
    }
}

fn transactions(row: &DiffRow, lines: &mut Lines) {
    // What ended in two ways matters most.
    let (other, rest): (Vec<&DiffTxn>, Vec<&DiffTxn>) =
        row.transactions.iter().partition(|it| it.outcome_differs);
    for it in other.iter().chain(&rest).take(MAX_LINES) {
        let state = |side: &Option<TxnSide>| match side {
            Some(side) => match side.marker_offset {
                Some(marker) => format!("{} at {marker}", side.state),
                None => side.state.to_owned(),
            },
            None => "not there".to_owned(),
        };
        lines.push(format!(
            "transaction of producer {} from {}: left {}, right {}",
            it.producer_id,
            it.first_offset,
            state(&it.left),
            state(&it.right)
        ));
    }
    let more = row.transactions.len().saturating_sub(MAX_LINES) as u64;
    if more > 0 {
        lines.push(format!(
            "and {}",
            further(
                plural(more, "more transaction", "more transactions"),
                row.transactions_not_listed
            )
        ));
    }
}

fn truncation(row: &TruncationRow, leader: &str) -> String {
    let follower = row.follower;
    let then = match (row.truncates, row.truncate_to_offset, row.offsets_lost) {
        (Some(true), Some(to), Some(0)) if row.is_full => {
            format!("{follower}, which is empty, begins anew at {to}")
        }
        (Some(true), Some(to), _) if row.is_full => {
            format!("{follower} drops everything and begins at {to}")
        }
        (Some(true), Some(to), lost) => format!(
            "{follower} truncates to {to} and loses {}",
            count(u64::try_from(lost.unwrap_or(0)).unwrap_or(0), "offset")
        ),
        (Some(false), ..) => format!("{follower} truncates nothing"),
        _ => format!("{follower} truncates to its high watermark, which is not known here"),
    };
    let deletes = match row.raises_log_start_to {
        Some(start) if !row.is_full => format!(" and deletes what lies below {start}"),
        Some(_) | None => String::new(),
    };
    let rest = if row.leaves_difference {
        "; the difference stays"
    } else {
        ""
    };
    let stops = row.stops_at_offset.map_or_else(String::new, |stop| {
        format!("; it stops to fetch at {stop}, where {leader} is damaged")
    });
    format!("if {leader} leads, {then}{deletes}{stops}{rest}")
}
