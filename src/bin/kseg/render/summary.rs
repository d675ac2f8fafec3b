//! Tables of bounded size, whose columns fit their widest cell.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};

use super::Style;
use super::columns::Align;

/// Space between columns.
const GAP: u16 = 2;

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

    /// Adds a row; `cells` has one for each column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }

    /// Prints the table, leaving out columns that do not fit, and says how many those are.
    pub(crate) fn print(mut self, out: &mut impl Write, style: Style) -> io::Result<usize> {
        let hidden = self.hide(style);
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

    fn hide(&mut self, style: Style) -> usize {
        let Some(available) = style.width else {
            return 0;
        };
        // Without their padding.
        let widths = self.table.column_max_content_widths();
        let mut shown: Vec<(usize, u8, usize)> = self
            .columns
            .iter()
            .zip(widths)
            .enumerate()
            .filter(|(index, _)| !self.left_out.contains(index))
            .map(|(index, (column, width))| {
                (index, column.rank, usize::from(width) + usize::from(GAP))
            })
            .collect();
        let mut hidden = 0;
        while shown.iter().map(|(_, _, width)| width).sum::<usize>() > available + usize::from(GAP)
        {
            let dropped = shown
                .iter()
                .enumerate()
                .filter(|(_, (_, rank, _))| *rank > 0)
                .max_by_key(|(_, (_, rank, _))| *rank);
            let Some((place, (index, _, _))) = dropped else {
                break;
            };
            if let Some(column) = self.table.column_mut(*index) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
            shown.remove(place);
            hidden += 1;
        }
        hidden
    }
}
