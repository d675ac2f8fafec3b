//! Tables of bounded size, whose columns fit their widest cell.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::Style;
use super::columns::Align;

/// Space between columns.
const GAP: u16 = 2;

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
    table: Table,
}

impl Summary {
    pub(crate) fn new(columns: &[SummaryColumn]) -> Self {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|column| column.name));
        for (column, spec) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, GAP));
            column.set_cell_alignment(match spec.align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Self {
            columns: columns.to_vec(),
            left_out: Vec::new(),
            breaks_last_first: false,
            table,
        }
    }

    /// Leaves out a column that would say the same in every row.
    pub(crate) fn hide_column(&mut self, index: usize) {
        self.left_out.push(index);
        if let Some(column) = self.table.column_mut(index) {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }

    /// Has the words of the last column broken into lines before another column is left out.
    pub(crate) fn breaking_last_first(mut self) -> Self {
        self.breaks_last_first = true;
        self
    }

    /// Adds a row; `cells` has one for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }

    /// Prints the table and says how many columns were left out because they do not fit. Where the
    /// others still do not, the words of the last one are broken into lines.
    pub(crate) fn print(mut self, out: &mut impl Write, style: Style) -> io::Result<usize> {
        let hidden = self.fit(style);
        for (index, line) in self.table.lines().enumerate() {
            let line = line.trim_end();
            // Coloured after the layout, which would count the escapes as letters.
            let line = if index == 0 {
                style.heading(line)
            } else {
                line.to_owned()
            };
            writeln!(out, "{line}")?;
        }
        Ok(hidden)
    }

    fn fit(&mut self, style: Style) -> usize {
        let Some(available) = style.width else {
            return 0;
        };
        // The last column's gap may hang over the edge: it is not printed.
        let available = available + usize::from(GAP);
        // Without their padding.
        let widths = self.table.column_max_content_widths();
        let mut shown: Vec<(usize, SummaryColumn, usize)> = self
            .columns
            .iter()
            .zip(widths)
            .enumerate()
            .filter(|(index, _)| !self.left_out.contains(index))
            .map(|(index, (column, width))| (index, *column, usize::from(width + GAP)))
            .collect();
        let total = |shown: &[(usize, SummaryColumn, usize)]| -> usize {
            shown.iter().map(|(_, _, width)| width).sum()
        };
        // What the last column can do without.
        let last = self.columns.len().saturating_sub(1);
        let spare = |shown: &[(usize, SummaryColumn, usize)]| match shown.last() {
            Some((index, _, width)) if self.breaks_last_first && *index == last => {
                width.saturating_sub(LEAST_WRAPPED + usize::from(GAP))
            }
            Some(_) | None => 0,
        };
        let mut hidden = 0;
        while total(&shown) - spare(&shown) > available {
            let dropped = shown
                .iter()
                .enumerate()
                .filter(|(_, (_, column, _))| column.rank > 0)
                .max_by_key(|(_, (_, column, _))| column.rank);
            let Some((place, (index, _, _))) = dropped else {
                break;
            };
            if let Some(column) = self.table.column_mut(*index) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
            shown.remove(place);
            hidden += 1;
        }
        let over = total(&shown).saturating_sub(available);
        if over > 0
            && let Some((index, SummaryColumn { align, .. }, width)) = shown.last()
            && *align == Align::Left
            && let Some(left) = width.checked_sub(over)
            && left >= LEAST_WRAPPED + usize::from(GAP)
            && let Some(column) = self.table.column_mut(*index)
        {
            let width = Width::Fixed(u16::try_from(left).unwrap_or(u16::MAX));
            column.set_constraint(ColumnConstraint::Absolute(width));
        }
        hidden
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
        assert_eq!(render(Some(20)).0.lines().count(), 3);
    }
}
