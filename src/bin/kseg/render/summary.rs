//! Tables of bounded size, whose columns fit their widest cell.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::Style;
use super::blocks::print_block;
use super::columns::Align;
use super::wrap::{least_width, longest_folder, longest_number, wrapped};

/// Space between columns.
const GAP: u16 = 2;

/// Names are broken down to this width where there is no other way.
const LEAST_NAME: usize = 12;

/// A last column of words is broken into lines down to this width, not further.
const LEAST_WRAPPED: usize = 20;

/// One column of a summary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryColumn {
    /// Heading.
    pub(crate) name: &'static str,
    /// Alignment.
    pub(crate) align: Align,
    /// Columns of higher rank go first when the terminal is too narrow; 0 stays always.
    pub(crate) rank: u8,
}

impl SummaryColumn {
    pub(crate) const fn new(name: &'static str, align: Align, rank: u8) -> Self {
        Self { name, align, rank }
    }
}

/// A table that is printed when all its rows are there.
pub(crate) struct Summary {
    columns: Vec<SummaryColumn>,
    /// Columns that this table does without, by place.
    left_out: Vec<usize>,
    /// Whether the last column is broken into lines before any other is left out.
    breaks_last_first: bool,
    rows: Vec<Vec<String>>,
}

/// A column that is shown.
#[derive(Clone, Copy)]
struct Shown {
    /// Its place among all columns.
    index: usize,
    column: SummaryColumn,
    /// Of its widest cell, with the gap behind it.
    width: usize,
    /// How far its cells can be broken into lines between the folders of paths.
    least: usize,
    /// The same between words as well.
    least_of_words: usize,
    /// What its numbers need.
    of_numbers: usize,
    /// What those of its cells need that are no names, unless they are broken between words.
    of_phrases: usize,
}

impl Shown {
    /// How far its cells are broken into lines where names may take no more than `names`.
    fn least(&self, is_of_words: bool, names: usize) -> usize {
        let of_names = names.max(self.of_numbers);
        match self.column.align {
            Align::Left if is_of_words => self.least.min(self.least_of_words).min(of_names),
            Align::Left => self.least.min(of_names.max(self.of_phrases)),
            Align::Right => self.least,
        }
    }
}

impl Summary {
    pub(crate) fn new(columns: &[SummaryColumn]) -> Self {
        Self {
            columns: columns.to_vec(),
            left_out: Vec::new(),
            breaks_last_first: false,
            rows: Vec::new(),
        }
    }

    /// Leaves out a column that would say the same in every row.
    pub(crate) fn hide_column(&mut self, index: usize) {
        self.left_out.push(index);
    }

    /// Has the words of the last column broken into lines before another column is left out.
    pub(crate) fn breaking_last_first(mut self) -> Self {
        self.breaks_last_first = true;
        self
    }

    /// Adds a row; `cells` has one for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints the table and says how many columns were left out because they do not fit. Where the
    /// others still do not, paths are broken into lines, and the words of the last column; and
    /// where that is not enough, each row becomes a block of lines, with all of its columns.
    pub(crate) fn print(self, out: &mut impl Write, style: Style) -> io::Result<usize> {
        let mut shown = self.measure();
        let all = shown.len();
        if let Some(available) = style.width {
            self.fit(&mut shown, available);
            let needed: usize = shown.iter().map(|it| it.width).sum();
            if needed > available + usize::from(GAP) {
                self.print_blocks(out, style, available)?;
                return Ok(0);
            }
        }
        for (index, line) in self.table(&shown).lines().enumerate() {
            let line = line.trim_end();
            // Coloured after the layout, which would count the escapes as letters.
            let line = if index == 0 {
                style.heading(line)
            } else {
                line.to_owned()
            };
            writeln!(out, "{line}")?;
        }
        Ok(all - shown.len())
    }

    fn print_blocks(&self, out: &mut impl Write, style: Style, width: usize) -> io::Result<()> {
        for row in &self.rows {
            let cells = self.columns.iter().zip(row).enumerate();
            let cells = cells.filter(|(index, _)| !self.left_out.contains(index));
            let cells: Vec<_> = cells
                .map(|(_, (column, cell))| (column.name, cell.as_str()))
                .collect();
            print_block(out, style, width, &cells)?;
        }
        Ok(())
    }

    /// Every column that is not left out, as wide as it wants to be.
    fn measure(&self) -> Vec<Shown> {
        let gap = usize::from(GAP);
        let columns = self.columns.iter().enumerate();
        let wanted = columns.filter(|(index, _)| !self.left_out.contains(index));
        let mut shown: Vec<Shown> = wanted
            .map(|(index, column)| Shown {
                index,
                column: *column,
                width: usize::MAX,
                least: 0,
                least_of_words: 0,
                of_numbers: 0,
                of_phrases: 0,
            })
            .collect();
        let widths = self.table(&shown).column_max_content_widths();
        for (it, width) in shown.iter_mut().zip(widths) {
            it.width = usize::from(width) + gap;
            let cells = self.rows.iter().filter_map(|row| row.get(it.index));
            let name = it.column.name.chars().count();
            let folders = cells.clone().map(|cell| longest_folder(cell));
            it.least = (folders.max().unwrap_or(0).max(name) + gap).min(it.width);
            let words = cells.clone().map(|cell| least_width(cell)).max();
            let words = words.unwrap_or(0).max(name).max(LEAST_WRAPPED);
            it.least_of_words = (words + gap).min(it.width);
            let phrases = cells.clone().flat_map(|cell| cell.split_inclusive('/'));
            let phrases = phrases.filter(|it| it.contains(' '));
            let phrases = phrases.map(|it| it.chars().count()).max().unwrap_or(0);
            it.of_phrases = phrases + gap;
            let numbers = cells.map(|cell| longest_number(cell)).max().unwrap_or(0);
            it.of_numbers = numbers.max(name) + gap;
        }
        shown
    }

    /// Leaves out columns and narrows others until they fit, as far as that goes.
    fn fit(&self, shown: &mut Vec<Shown>, available: usize) {
        // The last column's gap may hang over the edge: it is not printed.
        let available = available + usize::from(GAP);
        let last = self.columns.len().saturating_sub(1);
        let is_of_words = |it: &Shown| self.breaks_last_first && it.index == last;
        let needed = |shown: &[Shown], names: usize| -> usize {
            let least = shown.iter().map(|it| it.least(is_of_words(it), names));
            least.sum()
        };
        // A name takes half of the line, and less where there is no other way.
        let gap = usize::from(GAP);
        let mut names = (available / 2).max(LEAST_WRAPPED) + gap;
        while needed(shown, names) > available {
            let columns = shown.iter().enumerate();
            let dropped = columns
                .filter(|(_, it)| it.column.rank > 0)
                .max_by_key(|(_, it)| it.column.rank);
            let Some((place, _)) = dropped else {
                break;
            };
            shown.remove(place);
        }
        if needed(shown, names) > available {
            names = LEAST_NAME + gap;
        }
        let mut over = shown.iter().map(|it| it.width).sum::<usize>();
        over = over.saturating_sub(available);
        if let Some(it) = shown.last_mut()
            && it.column.align == Align::Left
        {
            let of_words = names.max(it.of_numbers).max(LEAST_WRAPPED + gap);
            let least = it.least_of_words.min(of_words);
            let width = it.width.saturating_sub(over).max(least).min(it.width);
            over = over.saturating_sub(it.width - width);
            it.width = width;
        }
        for it in shown.iter_mut() {
            let least = it.least(false, names);
            let width = it.width.saturating_sub(over).max(least).min(it.width);
            over = over.saturating_sub(it.width - width);
            it.width = width;
        }
    }

    /// The columns with their cells broken into lines that are no wider.
    fn table(&self, shown: &[Shown]) -> Table {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(shown.iter().map(|it| it.column.name));
        for row in &self.rows {
            let cells = shown.iter().map(|it| {
                let cell = row.get(it.index).map_or("", String::as_str);
                let width = it.width.saturating_sub(usize::from(GAP));
                wrapped(cell, Some(width)).join("\n")
            });
            table.add_row(cells);
        }
        for (column, it) in table.column_iter_mut().zip(shown) {
            column.set_padding((0, GAP));
            column.set_cell_alignment(match it.column.align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[SummaryColumn] = &[
        SummaryColumn::new("OFFSET", Align::Right, 0),
        SummaryColumn::new("CLASS", Align::Left, 1),
        SummaryColumn::new("WHAT", Align::Left, 0),
    ];

    fn render(width: Option<usize>) -> (String, usize) {
        let style = Style {
            width,
            color: false,
        };
        let mut table = Summary::new(COLUMNS);
        for (offset, class, what) in [
            ("7", "never-stored", "nothing from there on is stored"),
            ("12", "lost", "gone"),
        ] {
            table.row([offset, class, what].map(str::to_owned).to_vec());
        }
        let mut out = Vec::new();
        let hidden = table.print(&mut out, style).unwrap();
        (String::from_utf8(out).unwrap(), hidden)
    }

    #[test]
    fn a_pipe_gets_every_column_in_lines_of_any_length() {
        let text = "\
OFFSET  CLASS         WHAT
     7  never-stored  nothing from there on is stored
    12  lost          gone
";
        assert_eq!(render(None), (text.to_owned(), 0));
        assert_eq!(render(Some(53)), (text.to_owned(), 0));
    }

    #[test]
    fn a_narrow_terminal_loses_columns_before_it_breaks_lines() {
        let text = "\
OFFSET  WHAT
     7  nothing from there on is stored
    12  gone
";
        assert_eq!(render(Some(52)), (text.to_owned(), 1));
        assert_eq!(render(Some(39)), (text.to_owned(), 1));
    }

    #[test]
    fn the_last_column_may_be_broken_before_another_is_left_out() {
        let style = Style {
            width: Some(44),
            color: false,
        };
        let mut table = Summary::new(COLUMNS).breaking_last_first();
        let cells = ["7", "never-stored", "nothing from there on is stored"];
        table.row(cells.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        assert_eq!(table.print(&mut out, style).unwrap(), 0);
        let text = "\
OFFSET  CLASS         WHAT
     7  never-stored  nothing from there on
                      is stored
";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn words_of_the_last_column_go_on_below_each_other() {
        let text = "\
OFFSET  WHAT
     7  nothing from there on
        is stored
    12  gone
";
        assert_eq!(render(Some(30)), (text.to_owned(), 1));
        // Narrower than a word or two no column gets.
        let text = "\
7
  CLASS  never-stored
  WHAT   nothing from
         there on is
         stored
12
  CLASS  lost
  WHAT   gone
";
        assert_eq!(render(Some(23)), (text.to_owned(), 0));
    }

    #[test]
    fn paths_are_broken_before_a_column_is_left_out() {
        let columns = &[
            SummaryColumn::new("PARTITION", Align::Left, 0),
            SummaryColumn::new("FIRST", Align::Right, 1),
            SummaryColumn::new("WHO", Align::Left, 0),
        ];
        let style = Style {
            width: Some(30),
            color: false,
        };
        let mut table = Summary::new(columns);
        let cells = ["/var/lib/kafka/orders-0", "49", "id unknown"];
        table.row(cells.map(str::to_owned).to_vec());
        let mut out = Vec::new();
        assert_eq!(table.print(&mut out, style).unwrap(), 0);
        let text = "\
PARTITION  FIRST  WHO
/var/lib/     49  id unknown
kafka/
orders-0
";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
