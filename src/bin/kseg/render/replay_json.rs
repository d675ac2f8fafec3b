//! Rows of `replay` as JSON. A segment has many batches, and most of them get one of few answers:
//! the JSON of both is made once.

use std::io;

use kseg::report::replay::{Answer, ReplayRow, ReplayRowType, ReplaySource};
use serde_json::Error;

use super::fast_json::write_row;
use super::json::JsonRows;
use super::json_parts::{RepeatedPart, write_more_fields};
use super::output::Output;
use crate::cli::OutputFormat;

/// The JSON of one run of `replay`.
pub(crate) struct ReplayJson {
    rows: JsonRows,
    front: Front,
    answers: RepeatedPart<Answer>,
}

impl ReplayJson {
    /// `None` for a table.
    pub(crate) fn for_format(format: OutputFormat) -> Option<Self> {
        Some(Self {
            rows: JsonRows::for_format(format, "kseg/replay/v1")?,
            front: Front::default(),
            answers: RepeatedPart::default(),
        })
    }

    /// Writes one row.
    pub(crate) fn row(&mut self, out: &mut Output, row: &ReplayRow<'_>) -> io::Result<()> {
        let Self {
            rows,
            front,
            answers,
        } = self;
        rows.row_by(out, row, |text| {
            front.write(text, &row.source)?;
            write_more_fields(text, &row.batch)?;
            answers.write(text, &row.answer)?;
            text.push(b'}');
            Ok(())
        })
    }

    /// Ends the output.
    pub(crate) fn finish(self, out: &mut Output) -> io::Result<()> {
        self.rows.finish(out)
    }
}

/// How the rows of one segment begin.
#[derive(Default)]
struct Front {
    text: Vec<u8>,
    row_type: Option<ReplayRowType>,
    topic: Option<String>,
    partition: Option<i32>,
    file: Option<String>,
}

impl Front {
    fn write(&mut self, out: &mut Vec<u8>, source: &ReplaySource<'_>) -> Result<(), Error> {
        if !self.is_of(source) {
            self.text.clear();
            write_row(&mut self.text, source)?;
            // Other fields follow.
            self.text.pop();
            self.row_type = Some(source.row_type);
            self.topic = source.topic.map(str::to_owned);
            self.partition = source.partition;
            self.file = source.file.map(str::to_owned);
        }
        out.extend_from_slice(&self.text);
        Ok(())
    }

    fn is_of(&self, source: &ReplaySource<'_>) -> bool {
        self.row_type == Some(source.row_type)
            && self.partition == source.partition
            && self.file.as_deref() == source.file
            && self.topic.as_deref() == source.topic
    }
}
