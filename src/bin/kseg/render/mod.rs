//! Rows to text: tables for people, JSON for programs. Opens nothing, knows no Kafka.

mod blocks;
pub(crate) mod columns;
mod diff_damage;
mod diff_next_step;
pub(crate) mod diff_table;
pub(crate) mod dump_json;
pub(crate) mod dump_table;
pub(crate) mod fast_json;
pub(crate) mod gap_runs;
pub(crate) mod json;
mod json_parts;
mod json_scalars;
pub(crate) mod output;
pub(crate) mod read_table;
pub(crate) mod record_lines;
pub(crate) mod recover_outages;
pub(crate) mod recover_table;
mod recover_totals;
mod recover_verdict;
pub(crate) mod replay_json;
pub(crate) mod replay_table;
pub(crate) mod summary;
pub(crate) mod text;
pub(crate) mod txns_listing;
pub(crate) mod txns_table;
pub(crate) mod verify_table;
pub(crate) mod wrap;

use std::io::{self, Write};

/// Says how many columns a table was too wide for, if it was.
pub(crate) fn note_hidden(hidden: usize, style: Style, out: &mut impl Write) -> io::Result<()> {
    if hidden > 0 {
        let columns = text::plural(hidden as u64, "column does", "columns do");
        let line = format!("{columns} not fit the terminal; -o json has everything");
        writeln!(out)?;
        paragraph(out, style, ["", ""], &line)?;
    }
    Ok(())
}

/// What comes before an answer that lacks something; `None` if nothing failed.
pub(crate) fn incomplete(failures: u64) -> Option<String> {
    (failures > 0).then(|| {
        let errors = text::count(failures, "error");
        format!("incomplete: not everything could be read ({errors}), and of that nothing is said")
    })
}

/// Before a heading that goes on.
pub(crate) const BELOW_HEADING: &str = "  ";

/// Writes text in lines that fit the terminal, with something before the first of them and
/// something before the others.
pub(crate) fn paragraph(
    out: &mut impl Write,
    style: Style,
    before: [&str; 2],
    text: &str,
) -> io::Result<()> {
    write_lines(out, style, before, text, |line| line)
}

/// The name of what is listed below it.
pub(crate) fn heading(out: &mut impl Write, style: Style, name: &str) -> io::Result<()> {
    write_lines(out, style, ["", BELOW_HEADING], name, |line| {
        style.heading(&line)
    })
}

/// A paragraph in the colour for what is wrong.
pub(crate) fn alarm(
    out: &mut impl Write,
    style: Style,
    before: [&str; 2],
    text: &str,
) -> io::Result<()> {
    write_lines(out, style, before, text, |line| style.bad(&line))
}

fn write_lines(
    out: &mut impl Write,
    style: Style,
    [first, further]: [&str; 2],
    text: &str,
    paint: impl Fn(String) -> String,
) -> io::Result<()> {
    /// However narrow the terminal, a word or two have room.
    const LEAST_WIDTH: usize = 20;
    let mut before = [first, further];
    let indent = |before: [&str; 2]| before.map(|it| it.chars().count()).into_iter().max();
    let has_room = |before| {
        let needed = indent(before).unwrap_or(0) + LEAST_WIDTH;
        style.width.is_none_or(|width| needed <= width)
    };
    // What has no room for words beside it gets lines of its own.
    if !has_room(before) && !first.trim().is_empty() {
        for line in wrap::wrapped(first.trim_end(), style.width) {
            writeln!(out, "{}", paint(line))?;
        }
        before = [further; 2];
    }
    if !has_room(before) {
        before = [BELOW_HEADING; 2];
    }
    let indent = indent(before).unwrap_or(0);
    let width = style.width;
    let width = width.map(|width| width.saturating_sub(indent).max(LEAST_WIDTH));
    let [mut before, further] = before;
    for line in wrap::wrapped(&text::printable(text), width) {
        writeln!(out, "{before}{}", paint(line))?;
        before = further;
    }
    Ok(())
}

/// How tables look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Columns of the terminal; `None` when piped: as wide as it takes.
    pub(crate) width: Option<usize>,
    /// Whether to use colour.
    pub(crate) color: bool,
}

impl Style {
    /// `text` in the colour for what is wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(anstyle::AnsiColor::Red.on_default(), text)
    }

    /// `text` in the colour for headings.
    pub(crate) fn heading(self, text: &str) -> String {
        self.paint(anstyle::Style::new().bold(), text)
    }

    fn paint(self, style: anstyle::Style, text: &str) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}
