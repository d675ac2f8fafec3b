//! `json` and `ndjson`: the same results, as one document or one a line.

use std::io::{self, Write};

use serde::Serialize;

use super::fast_json::write_row;
use crate::cli::OutputFormat;

/// Space for a result that is kept for the next.
const MAX_KEPT: usize = 16 * 1024 * 1024;

/// Writes results one after another without keeping them.
pub(crate) struct JsonRows {
    form: Form,
    any: bool,
    /// One result: serialising makes many small pieces, which memory takes best.
    buffer: Vec<u8>,
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
            buffer: Vec::new(),
        }
    }

    /// One result a line.
    fn lines() -> Self {
        Self {
            form: Form::Lines,
            any: false,
            buffer: Vec::new(),
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
        self.buffer.clear();
        write_row(&mut self.buffer, row)?;
        match self.form {
            Form::Document { .. } => {}
            Form::Lines => self.buffer.push(b'\n'),
        }
        out.write_all(&self.buffer)?;
        // A row of a large record should not keep its space.
        if self.buffer.capacity() > MAX_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
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
