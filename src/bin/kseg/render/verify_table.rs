//! The findings of `verify` for people: counted first, then one of each kind in a file, so that a
//! million bad batches stay readable.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use kseg::report::gaps::{offset_range, range};
use kseg::report::verify::{Finding, Kind, Severity, VerifySummary};

use crate::context::Context;
use crate::render::columns::visible_width;
use crate::render::text::{bytes, count, printable};
use crate::render::wrap::wrapped;
use crate::render::{Style, incomplete, paragraph};

/// Findings of one kind in a file that are listed with --all; more are only counted.
const MAX_LISTED: usize = 10_000;
/// Kinds in files that are kept apart; those of further files are only counted.
const MAX_GROUPS: usize = 10_000;
/// Between the counts of the first line.
const BETWEEN: &str = "   ";
/// Of so many bytes it is told how long they took.
const WORTH_A_TIME: u64 = 16 * 1024 * 1024;
/// Columns of the severity.
const INDENT: usize = 15;

/// What findings have in common that are told together. What is only notable is told once for all
/// partitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    severity: Severity,
    path: Option<String>,
    file: Option<String>,
    kind: Kind,
}

#[derive(Debug, Default)]
struct Group {
    /// The first ones.
    listed: Vec<Finding>,
    count: u64,
    records: u64,
    files: u64,
    last_position: Option<u64>,
    offsets: Option<(i64, i64)>,
}

/// Findings until they are printed.
#[derive(Debug)]
pub(crate) struct VerifyTable {
    all: bool,
    groups: BTreeMap<Key, Group>,
    left_out: u64,
    /// Which findings are wanted, if not all.
    scope: Option<String>,
}

impl VerifyTable {
    pub(crate) fn new(all: bool, scope: Option<String>) -> Self {
        Self {
            all,
            groups: BTreeMap::new(),
            left_out: 0,
            scope,
        }
    }

    pub(crate) fn add(&mut self, finding: &Finding) {
        let is_alarm = finding.severity.is_alarm();
        let is_apart = is_alarm || self.all || finding.kind == Kind::OpenTransaction;
        let key = Key {
            severity: finding.severity,
            path: is_apart.then(|| finding.path.clone()),
            file: finding.file.clone().filter(|_| is_apart),
            kind: finding.kind,
        };
        if !self.groups.contains_key(&key) && self.groups.len() >= MAX_GROUPS {
            self.left_out += 1;
            return;
        }
        let most = if self.all || finding.kind == Kind::OpenTransaction {
            MAX_LISTED
        } else {
            1
        };
        self.groups.entry(key).or_default().add(finding, most);
    }

    pub(crate) fn print(
        &self,
        total: &VerifySummary,
        elapsed: Duration,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let style = context.style;
        if let Some(line) = incomplete(context.failures()) {
            for line in wrapped(&line, style.width) {
                writeln!(context.out, "{}", style.bad(&line))?;
            }
        }
        let number = |what: &str, number: u64| {
            let text = format!("{what}: {number}");
            if number > 0 { style.bad(&text) } else { text }
        };
        let took = if total.bytes >= WORTH_A_TIME {
            format!(", {:.1} s", elapsed.as_secs_f64())
        } else {
            String::new()
        };
        let counts = [
            number("corrupt", total.corrupt),
            number("after a crash", total.after_crash),
            format!("notable: {}", total.notable),
        ];
        let size = bytes(total.bytes);
        let size = format!("({size} in {}{took})", count(total.files, "file"));
        let joined = counts.join(BETWEEN);
        let needed = visible_width(&joined) + BETWEEN.len() + size.len();
        let has_room = |needed| style.width.is_none_or(|width| needed <= width);
        if !has_room(visible_width(&joined)) {
            for count in counts {
                writeln!(context.out, "{count}")?;
            }
            writeln!(context.out, "{size}")?;
        } else if !has_room(needed) {
            writeln!(context.out, "{joined}\n{size}")?;
        } else {
            writeln!(context.out, "{joined}{BETWEEN}{size}")?;
        }
        if let Some(scope) = &self.scope {
            paragraph(&mut context.out, style, ["", ""], scope)?;
        }
        let is_one_place = self.is_one_place();
        for group in self.groups.values() {
            for (index, finding) in group.listed.iter().enumerate() {
                let others = (index + 1 == group.listed.len()).then_some(group);
                writeln!(context.out)?;
                for line in lines(finding, is_one_place, others, style) {
                    writeln!(context.out, "{line}")?;
                }
            }
        }
        if self.left_out > 0 {
            let left = count(self.left_out, "more finding");
            writeln!(
                context.out,
                "\nand {left} in other files; -o ndjson lists all"
            )?;
        }
        Ok(())
    }
}

impl VerifyTable {
    /// Whether all findings are of one log directory, so that a partition's name tells which it is.
    fn is_one_place(&self) -> bool {
        let findings = self.groups.values().flat_map(|group| &group.listed);
        let places: BTreeSet<_> = findings
            .map(|finding| {
                let path = Path::new(&finding.path);
                let above = path.parent().filter(|_| finding.partition.is_some());
                above.unwrap_or(path)
            })
            .collect();
        places.len() < 2
    }
}

impl Group {
    fn add(&mut self, finding: &Finding, most: usize) {
        self.count += 1;
        self.records += finding.cost.records.unwrap_or(0);
        self.files += u64::from(finding.file.is_some());
        self.last_position = self.last_position.max(finding.position);
        if let Some(first) = finding.offset {
            let last = finding.last_offset.unwrap_or(first).max(first);
            let (low, high) = self.offsets.unwrap_or((first, last));
            self.offsets = Some((low.min(first), high.max(last)));
        }
        if self.listed.len() < most {
            self.listed.push(finding.clone());
        }
    }

    /// What is not listed of it.
    fn others(&self) -> Option<String> {
        let others = self.count - self.listed.len() as u64;
        if others == 0 {
            return None;
        }
        let mut text = format!("and {others} more of this kind");
        if let Some((low, high)) = self.offsets {
            text.push_str(&format!(", {}", offset_range(low, high)));
        }
        if self.records > 0 {
            text.push_str(&format!(", {} in all", count(self.records, "record")));
        }
        text.push_str("; --all lists them");
        Some(text)
    }
}

/// A finding in lines: where and what, then what it costs, what a broker does, what to do.
fn lines(
    finding: &Finding,
    is_one_place: bool,
    others: Option<&Group>,
    style: Style,
) -> Vec<String> {
    let severity = finding.severity.words();
    let label = format!("{severity:<INDENT$}");
    let label = if finding.severity.is_alarm() {
        style.bad(&label)
    } else {
        label
    };
    let mut paragraphs = vec![place(finding, is_one_place), finding.message.clone()];
    paragraphs.extend(cost(finding));
    if !finding.broker_action.is_empty() {
        paragraphs.push(format!("broker: {}", finding.broker_action));
    }
    paragraphs.extend(
        finding
            .next_step
            .as_ref()
            .map(|next| format!("next: {next}")),
    );
    paragraphs.extend(others.and_then(Group::others));
    let width = style
        .width
        .map(|width| width.saturating_sub(INDENT).max(20));
    let mut lines = Vec::new();
    for paragraph in paragraphs {
        for line in wrapped(&printable(&paragraph), width) {
            let before = if lines.is_empty() {
                label.clone()
            } else {
                " ".repeat(INDENT)
            };
            lines.push(format!("{before}{line}"));
        }
    }
    lines
}

fn place(finding: &Finding, is_one_place: bool) -> String {
    let name = if is_one_place {
        finding.partition_name()
    } else {
        finding.path.clone()
    };
    let mut text = format!("{}  {name}", finding.kind.name());
    if let Some(file) = &finding.file {
        text.push_str(&format!("  {file}"));
    }
    if let Some(position) = finding.position {
        text.push_str(&format!(" @ {position}"));
    }
    if let Some(first) = finding.offset {
        let last = finding.last_offset.filter(|last| *last >= first);
        let name = if last.is_some_and(|last| last > first) {
            "offsets"
        } else {
            "offset"
        };
        text.push_str(&format!("  {name} {}", range(first, last.unwrap_or(first))));
    }
    text
}

fn cost(finding: &Finding) -> Option<String> {
    let mut parts = Vec::new();
    let cost = finding.cost;
    if let Some(records) = cost.records.filter(|it| *it > 0) {
        parts.push(count(records, "record"));
    }
    if let Some(transactions) = cost.transactions.filter(|it| *it > 0) {
        parts.push(count(transactions, "transaction"));
    }
    let mut text = parts.join(", ");
    if let Some(id) = finding.producer_id {
        let of = if text.is_empty() {
            "producer"
        } else {
            " of producer"
        };
        text.push_str(&format!("{of} {id}"));
        if let Some(epoch) = finding.producer_epoch {
            text.push_str(&format!(" epoch {epoch}"));
        }
        if let Some((first, last)) = finding.base_sequence.zip(finding.last_sequence) {
            text.push_str(&format!(", sequences {}", range(first, last)));
        }
    }
    (!text.is_empty()).then_some(text)
}
