//! `json` and `ndjson`: the same results, as one document or one a line.

use std::io::{self, Write};

use serde::Serialize;

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
    pub(crate) fn row(&mut self, out: &mut impl Write, row: &impl Serialize) -> io::Result<()> {
        if let Form::Document { schema } = self.form {
            if self.any {
                out.write_all(b",\n")?;
            } else {
                Self::open(out, schema)?;
            }
        }
        self.any = true;
        serde_json::to_writer(&mut *out, row)?;
        match self.form {
            Form::Document { .. } => Ok(()),
            Form::Lines => out.write_all(b"\n"),
        }
    }

    /// Ends the output.
    pub(crate) fn finish(self, out: &mut impl Write) -> io::Result<()> {
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

    fn open(out: &mut impl Write, schema: &str) -> io::Result<()> {
        writeln!(out, "{{\"schema\":\"{schema}\",\"results\":[")
    }
}
