//! `json` and `ndjson`: the same results, as one document or one a line.

use std::io::{self, Write};

use serde::Serialize;

use super::fast_json::{write_checked, write_row};
use super::output::Output;
use crate::cli::OutputFormat;

/// Writes results one after another without keeping them.
pub(crate) struct JsonRows {
    form: Form,
    any: bool,
}

enum Form {
    Document { schema: &'static str },
    Lines,
}

impl JsonRows {
    /// What a format asks for; `None` for a table.
    pub(crate) fn for_format(format: OutputFormat, schema: &'static str) -> Option<Self> {
        match format {
            OutputFormat::Table => None,
            OutputFormat::Json => Some(Self::document(schema)),
            OutputFormat::Ndjson => Some(Self::lines()),
        }
    }

    /// One document `{"schema": "kseg/COMMAND/v1", "results": [...]}`.
    fn document(schema: &'static str) -> Self {
        Self {
            form: Form::Document { schema },
            any: false,
        }
    }

    /// One result a line.
    fn lines() -> Self {
        Self {
            form: Form::Lines,
            any: false,
        }
    }

    /// Writes one result.
    pub(crate) fn row(&mut self, out: &mut Output, row: &impl Serialize) -> io::Result<()> {
        self.append(out, |text| write_row(text, row))
    }

    /// Writes one result whose JSON is put together by `write`.
    pub(super) fn row_by(
        &mut self,
        out: &mut Output,
        row: &impl Serialize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> io::Result<()> {
        self.append(out, |text| write_checked(text, row, write))
    }

    fn append(
        &mut self,
        out: &mut Output,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
    ) -> io::Result<()> {
        if let Form::Document { schema } = self.form {
            if self.any {
                out.write_all(b",\n")?;
            } else {
                Self::open(out, schema)?;
            }
        }
        self.any = true;
        let is_line = matches!(self.form, Form::Lines);
        out.append(|text| {
            append(text)?;
            if is_line {
                text.push(b'\n');
            }
            Ok::<_, serde_json::Error>(())
        })
    }

    /// Ends the output.
    pub(crate) fn finish(self, out: &mut Output) -> io::Result<()> {
        match self.form {
            Form::Document { schema } => {
                if !self.any {
                    Self::open(out, schema)?;
                }
                out.write_all(b"]}\n")
            }
            Form::Lines => Ok(()),
        }
    }

    fn open(out: &mut Output, schema: &str) -> io::Result<()> {
        writeln!(out, "{{\"schema\":\"{schema}\",\"results\":[")
    }
}
