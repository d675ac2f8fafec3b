//! Listings of any length: fixed-width lines, written as they come.
//!
//! A table that must see all its rows before it can print one is for summaries; a segment holds
//! millions of batches. Where the terminal holds no line of it, each row is a block of lines.

use std::io::{self, Write};

use super::blocks::print_block;
use super::wrap::wrapped;
use super::{Style, paragraph};

/// On which side a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// One column of a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Heading.
    pub(crate) name: &'static str,
    /// Least width; longer values take of the room that the next ones do not need, then push them
    /// to the right, and at last to a line below.
    pub(crate) width: usize,
    /// Alignment.
    pub(crate) align: Align,
    /// Columns of higher rank go first when the terminal is too narrow; 0 stays always.
    pub(crate) rank: u8,
}

impl Column {
    pub(crate) const fn new(name: &'static str, width: usize, align: Align, rank: u8) -> Self {
        Self {
            name,
            width,
            align,
            rank,
        }
    }
}

/// Space between columns.
const GAP: usize = 2;

/// Before words that belong to the line above.
const BELOW: &str = "      ";

/// The columns of a listing that fit.
pub(crate) struct Listing {
    columns: &'static [Column],
    shown: Vec<bool>,
    /// The terminal is too narrow for the columns that stay always.
    is_in_blocks: bool,
    style: Style,
    line: String,
}

impl Listing {
    /// Drops the columns of highest rank until the rest fits; if that does not either, rows are
    /// blocks, with all columns.
    pub(crate) fn new(columns: &'static [Column], style: Style) -> Self {
        let all = vec![true; columns.len()];
        let mut shown = all.clone();
        if let Some(width) = style.width {
            while total_width(columns, &shown) > width {
                let dropped = columns
                    .iter()
                    .enumerate()
                    .filter(|(index, column)| {
                        column.rank > 0 && shown.get(*index).is_some_and(|shown| *shown)
                    })
                    .max_by_key(|(_, column)| column.rank);
                let Some((index, _)) = dropped else { break };
                if let Some(shown) = shown.get_mut(index) {
                    *shown = false;
                }
            }
        }
        let width = style.width.unwrap_or(usize::MAX);
        let is_in_blocks = total_width(columns, &shown) > width;
        Self {
            columns,
            shown: if is_in_blocks { all } else { shown },
            is_in_blocks,
            style,
            line: String::new(),
        }
    }

    /// How many columns did not fit.
    pub(crate) fn hidden(&self) -> usize {
        self.shown.iter().filter(|shown| !**shown).count()
    }

    /// Writes the headings; in blocks each row has them.
    pub(crate) fn headings(&mut self, out: &mut impl Write, style: Style) -> io::Result<()> {
        if self.is_in_blocks {
            return Ok(());
        }
        self.line.clear();
        self.compose(|index, columns| columns.get(index).map_or("", |column| column.name));
        writeln!(out, "{}", style.heading(self.line.trim_end()))
    }

    /// Writes one line, in parts if it is too long; `cells` has one for each column, shown or not.
    pub(crate) fn row(&mut self, out: &mut impl Write, cells: &[String]) -> io::Result<()> {
        if let Some(width) = self.style.width.filter(|_| self.is_in_blocks) {
            let names = self.columns.iter().map(|column| column.name);
            let mut cells: Vec<_> = names.zip(cells.iter().map(String::as_str)).collect();
            let first = cells.first().map(|(name, cell)| format!("{name} {cell}"));
            if let (Some((_, cell)), Some(first)) = (cells.first_mut(), &first) {
                *cell = first;
            }
            return print_block(out, self.style, width, &cells);
        }
        self.line.clear();
        self.compose(|index, _| cells.get(index).map_or("", String::as_str));
        out.write_all(self.line.trim_end().as_bytes())?;
        out.write_all(b"\n")
    }

    /// Writes one line as [`Listing::row`] does. The words in the last cell go below it where they
    /// do not fit beside the others.
    pub(crate) fn row_of_words(
        &mut self,
        out: &mut impl Write,
        cells: &mut [String],
    ) -> io::Result<()> {
        if self.is_in_blocks {
            return self.row(out, cells);
        }
        self.line.clear();
        self.compose(|index, _| cells.get(index).map_or("", String::as_str));
        let is_too_long = self.line.contains('\n');
        let words = cells.last_mut().filter(|_| is_too_long);
        let words = words.map(std::mem::take).unwrap_or_default();
        self.row(out, cells)?;
        if words.is_empty() {
            return Ok(());
        }
        paragraph(out, self.style, [BELOW, BELOW], &words)
    }

    fn compose<'c>(&mut self, cell: impl Fn(usize, &'static [Column]) -> &'c str) {
        let mut line = std::mem::take(&mut self.line);
        // What a cell takes too much the next ones give back, as far as they have it.
        let mut over = 0_usize;
        let mut used = 0_usize;
        for (index, column) in self.columns.iter().enumerate() {
            if !self.shown.get(index).is_some_and(|shown| *shown) {
                continue;
            }
            let text = cell(index, self.columns);
            let width = visible_width(text);
            let padding = column.width.saturating_sub(width);
            let given = padding.min(over);
            over = over - given + width.saturating_sub(column.width);
            let padding = padding - given;
            let before = if column.align == Align::Right {
                padding
            } else {
                0
            };
            let is_first = line.is_empty();
            let needed = used + GAP + before + width;
            if !is_first && self.style.width.is_some_and(|it| needed > it) {
                line.truncate(line.trim_end().len());
                let room = self.style.width.map(|it| it.saturating_sub(BELOW.len()));
                for part in wrapped(text, room) {
                    line.push('\n');
                    line.push_str(BELOW);
                    line.push_str(&part);
                    used = BELOW.len() + visible_width(&part);
                }
                over = 0;
                continue;
            }
            if !is_first {
                line.extend(std::iter::repeat_n(' ', GAP));
                used += GAP;
            }
            line.extend(std::iter::repeat_n(' ', before));
            line.push_str(text);
            line.extend(std::iter::repeat_n(' ', padding - before));
            used += padding + width;
        }
        self.line = line;
    }
}

/// Letters that a terminal shows: escapes for colours take no room.
pub(super) fn visible_width(text: &str) -> usize {
    if !text.contains('\u{1b}') {
        return text.chars().count();
    }
    let mut is_escape = false;
    let mut width = 0;
    for letter in text.chars() {
        match letter {
            '\u{1b}' => is_escape = true,
            'm' if is_escape => is_escape = false,
            _ => width += usize::from(!is_escape),
        }
    }
    width
}

fn total_width(columns: &[Column], shown: &[bool]) -> usize {
    let widths: Vec<usize> = columns
        .iter()
        .zip(shown)
        .filter(|(_, shown)| **shown)
        .map(|(column, _)| column.width)
        .collect();
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column::new("OFFSET", 6, Align::Right, 0),
        Column::new("WHAT", 5, Align::Left, 1),
        Column::new("CRC", 10, Align::Right, 2),
    ];

    fn render(width: Option<usize>) -> (String, usize) {
        let style = Style {
            width,
            color: false,
        };
        let mut listing = Listing::new(COLUMNS, style);
        let mut out = Vec::new();
        listing.headings(&mut out, style).unwrap();
        let cells = ["12".to_owned(), "data".to_owned(), "0x1".to_owned()];
        listing.row(&mut out, &cells).unwrap();
        (String::from_utf8(out).unwrap(), listing.hidden())
    }

    #[test]
    fn a_pipe_gets_every_column() {
        let (text, hidden) = render(None);
        assert_eq!(
            text,
            "OFFSET  WHAT          CRC\n    12  data          0x1\n"
        );
        assert_eq!(hidden, 0);
    }

    #[test]
    fn words_without_room_go_below_the_line() {
        let write = |width| {
            let style = Style {
                width,
                color: false,
            };
            let mut listing = Listing::new(COLUMNS.split_at(2).0, style);
            let mut out = Vec::new();
            let mut cells = ["12".to_owned(), "sequence 5 is not the next".to_owned()];
            listing.row_of_words(&mut out, &mut cells).unwrap();
            String::from_utf8(out).unwrap()
        };
        let whole = "    12  sequence 5 is not the next\n";
        assert_eq!(write(None), whole);
        assert_eq!(write(Some(34)), whole);
        assert_eq!(
            write(Some(33)),
            "    12\n      sequence 5 is not the next\n"
        );
        assert_eq!(
            write(Some(26)),
            "    12\n      sequence 5 is not\n      the next\n"
        );
    }

    #[test]
    fn a_narrow_terminal_loses_the_least_important_columns() {
        assert_eq!(
            render(Some(24)),
            ("OFFSET  WHAT\n    12  data\n".to_owned(), 1)
        );
        assert_eq!(render(Some(6)), ("OFFSET\n    12\n".to_owned(), 2));
        assert_eq!(render(Some(25)).1, 0);
    }

    #[test]
    fn a_terminal_that_holds_no_line_gets_a_block_for_each_row() {
        const WIDE: &[Column] = &[
            Column::new("OFFSET", 12, Align::Right, 0),
            Column::new("WHAT", 12, Align::Left, 0),
            Column::new("CRC", 10, Align::Right, 1),
        ];
        let write = |width| {
            let style = Style {
                width: Some(width),
                color: false,
            };
            let mut listing = Listing::new(WIDE, style);
            let mut out = Vec::new();
            listing.headings(&mut out, style).unwrap();
            let cells = ["12".to_owned(), "data".to_owned(), "0x1".to_owned()];
            listing.row(&mut out, &cells).unwrap();
            (String::from_utf8(out).unwrap(), listing.hidden())
        };
        let line = "      OFFSET  WHAT\n          12  data\n";
        assert_eq!(write(26), (line.to_owned(), 1));
        let block = "OFFSET 12\n  WHAT  data\n  CRC   0x1\n";
        assert_eq!(write(25), (block.to_owned(), 0));
    }
}
