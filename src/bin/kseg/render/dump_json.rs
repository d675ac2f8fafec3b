//! Rows of `dump` as JSON. What the records of a batch have in common is made once.

use std::io;

use kseg::report::dump::{BatchOfRecord, DumpRow, RecordRow};
use serde_json::Error;

use super::json::JsonRows;
use super::json_parts::{RepeatedPart, write_more_fields};
use super::output::Output;
use crate::cli::OutputFormat;

/// The JSON of one run of `dump`.
pub(crate) struct DumpJson {
    rows: JsonRows,
    records: Records,
}

impl DumpJson {
    /// `None` for a table.
    pub(crate) fn for_format(format: OutputFormat) -> Option<Self> {
        Some(Self {
            rows: JsonRows::for_format(format, "kseg/dump/v1")?,
            records: Records::default(),
        })
    }

    /// Writes one row.
    pub(crate) fn row(&mut self, out: &mut Output, row: &DumpRow<'_>) -> io::Result<()> {
        let records = &mut self.records;
        let DumpRow::Record(record) = row else {
            // The row of a batch comes before those of its records.
            records.front.clear();
            return self.rows.row(out, row);
        };
        self.rows
            .row_by(out, row, |text| records.write(text, record))
    }

    /// Ends the output.
    pub(crate) fn finish(self, out: &mut Output) -> io::Result<()> {
        self.rows.finish(out)
    }
}

/// The JSON of records before and behind what differs from one to the next.
#[derive(Default)]
struct Records {
    /// Empty until the first record of a batch.
    front: Vec<u8>,
    batches: RepeatedPart<BatchOfRecord>,
}

impl Records {
    fn write(&mut self, out: &mut Vec<u8>, record: &RecordRow<'_>) -> Result<(), Error> {
        if self.front.is_empty() {
            self.front.extend_from_slice(b"{\"type\":\"record\"");
            write_more_fields(&mut self.front, &record.place)?;
        }
        out.extend_from_slice(&self.front);
        write_more_fields(out, &record.fields)?;
        self.batches.write(out, &record.batch)?;
        out.push(b'}');
        Ok(())
    }
}
