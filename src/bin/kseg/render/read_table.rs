//! The listing of `read`, and the table of its counts.

use std::io::{self, Write};

use kseg::report::read::{ReadBounds, ReadCountRow, ReadRow, ReadSummary};

use super::columns::Align::{Left, Right};
use super::record_lines::{RecordCells, RecordLines};
use super::summary::{Summary, SummaryColumn};
use super::text::{count, optional, plural};
use super::{Style, note_hidden, paragraph};

const COUNT_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("VISIBLE", Right, 0),
    SummaryColumn::new("ABORTED", Right, 0),
    SummaryColumn::new("OPEN", Right, 0),
    SummaryColumn::new("BEHIND LSO", Right, 1),
    SummaryColumn::new("CONTROL", Right, 0),
    SummaryColumn::new("FROM", Right, 4),
    SummaryColumn::new("TO", Right, 2),
    SummaryColumn::new("LAST VISIBLE", Right, 3),
    SummaryColumn::new("BELOW LOG START", Right, 6),
    SummaryColumn::new("ABOVE HW", Right, 7),
    SummaryColumn::new("EXPOSED", Right, 5),
    SummaryColumn::new("STOPPED AT", Right, 8),
];

/// The output of one run of `read`.
pub(crate) struct ReadTable {
    style: Style,
    lines: RecordLines,
    partitions: u64,
    records: u64,
    counts: Vec<(String, ReadCountRow)>,
}

impl ReadTable {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            lines: RecordLines::new(style),
            partitions: 0,
            records: 0,
            counts: Vec::new(),
        }
    }

    /// Says what is read from where to where.
    pub(crate) fn begin(
        &mut self,
        name: &str,
        bounds: &ReadBounds,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if self.partitions > 0 {
            writeln!(out)?;
        }
        self.partitions += 1;
        self.records = 0;
        let end = if bounds.end_offset < bounds.high_watermark {
            format!("last stable offset {}", bounds.end_offset)
        } else {
            format!("high watermark {}", bounds.high_watermark)
        };
        let line = format!(
            "{}: {} from {} to the {end}",
            name, bounds.isolation_level, bounds.start_offset
        );
        paragraph(out, self.style, ["", "  "], &line)
    }

    pub(crate) fn row(&mut self, row: &ReadRow<'_>, out: &mut impl Write) -> io::Result<()> {
        if self.records == 0 {
            self.lines.headings(out)?;
        }
        self.records += 1;
        let size = row
            .value_size
            .map_or(-1, |size| i64::try_from(size).unwrap_or(i64::MAX));
        let cells = RecordCells {
            offset: row.offset,
            timestamp: row.timestamp.unwrap_or(-1),
            key: &row.key,
            value: &row.value,
            headers: &row.headers,
            key_size: None,
            value_size: row.headers.keys_only.then_some(size),
        };
        self.lines.row(&cells, out)
    }

    pub(crate) fn end(&mut self, summary: &ReadSummary, out: &mut impl Write) -> io::Result<()> {
        let records = count(self.records, "record");
        match summary.counts.aborted {
            0 => writeln!(out, "{records}"),
            aborted => {
                let aborted = plural(aborted, "record", "records");
                let line = format!("{records}; {aborted} of aborted transactions");
                paragraph(out, self.style, ["", "  "], &line)
            }
        }
    }

    pub(crate) fn count(&mut self, name: &str, row: ReadCountRow) {
        self.counts.push((name.to_owned(), row));
    }

    pub(crate) fn finish(self, out: &mut impl Write) -> io::Result<()> {
        if let Some((_, first)) = self.counts.first() {
            writeln!(out, "records under {}\n", first.bounds.isolation_level)?;
            return self.print_counts(out);
        }
        if self.partitions > 0 && self.lines.hides_time() {
            writeln!(out)?;
            let line = "no room for timestamps; -o json has everything";
            paragraph(out, self.style, ["", ""], line)?;
        }
        Ok(())
    }

    fn print_counts(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Summary::new(COUNT_COLUMNS);
        for (name, row) in &self.counts {
            let counts = &row.counts;
            table.row(vec![
                name.clone(),
                counts.visible.to_string(),
                counts.aborted.to_string(),
                counts.open.to_string(),
                counts.behind_last_stable_offset.to_string(),
                counts.control.to_string(),
                row.bounds.start_offset.to_string(),
                row.bounds.end_offset.to_string(),
                optional(counts.last_visible),
                counts.below_log_start.to_string(),
                counts.above_high_watermark.to_string(),
                counts.exposed.to_string(),
                optional(row.stopped_at),
            ]);
        }
        let hidden = table.print(out, self.style)?;
        note_hidden(hidden, self.style, out)
    }
}
