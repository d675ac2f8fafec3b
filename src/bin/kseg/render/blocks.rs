//! Tables that no terminal of that width holds: a block of lines for each row.

use std::io::{self, Write};

use super::wrap::wrapped;
use super::{Style, heading};

/// Before each line of a block.
const INDENT: &str = "  ";

/// Before a value that does not fit beside its name.
const BELOW_NAME: &str = "    ";

/// Between a name and its value.
const GAP: usize = 2;

/// Prints one row: its first cell, and below it the others with the names of their columns, but for
/// those that say nothing.
pub(super) fn print_block(
    out: &mut impl Write,
    style: Style,
    width: usize,
    cells: &[(&str, &str)],
) -> io::Result<()> {
    let names = cells.iter().skip(1).map(|(name, _)| name.chars().count());
    let names = names.max().unwrap_or(0);
    let mut cells = cells.iter().filter(|(_, cell)| !matches!(*cell, "" | "-"));
    if let Some((_, first)) = cells.next() {
        heading(out, style, first)?;
    }
    for (name, cell) in cells {
        let beside = INDENT.len() + names + GAP;
        let lines = lines_of(cell, width.saturating_sub(beside));
        if let Some(lines) = lines {
            let further = " ".repeat(beside);
            let mut before = format!("{INDENT}{name:<names$}{}", " ".repeat(GAP));
            for line in lines {
                writeln!(out, "{before}{line}")?;
                before.clone_from(&further);
            }
            continue;
        }
        writeln!(out, "{INDENT}{name}")?;
        let room = width.saturating_sub(BELOW_NAME.len());
        for line in wrapped(cell, Some(room)) {
            writeln!(out, "{BELOW_NAME}{line}")?;
        }
    }
    Ok(())
}

/// A value in lines of a width; `None` if it has a word that is wider.
fn lines_of(text: &str, width: usize) -> Option<Vec<String>> {
    let lines = wrapped(text, Some(width));
    let fits = lines.iter().all(|line| line.chars().count() <= width);
    fits.then_some(lines)
}
