//! Records as lines: offset, time, key, and as much of the value and headers as fits.

use std::fmt::{self, Write as _};
use std::io::{self, Write};

use kseg::report::content::{Content, HeadersRow};

use super::Style;
use super::text::TimeWriter;

/// Space between columns.
const GAP: usize = 2;
const OFFSET_WIDTH: usize = 10;
const TIME_WIDTH: usize = 24;
/// Least width of the key; a quarter of a wide terminal.
const KEY_WIDTH: usize = 16;
/// Terminals from here on have room for the time.
const WIDTH_WITH_TIME: usize = 100;
/// What a line that was cut ends with.
const CUT: &str = "...";

/// What a line shows of a record.
pub(crate) struct RecordCells<'r, 'a> {
    pub(crate) offset: i64,
    /// -1 for none, as in Kafka.
    pub(crate) timestamp: i64,
    pub(crate) key: &'r Content<'a>,
    pub(crate) value: &'r Content<'a>,
    pub(crate) headers: &'r HeadersRow<'a>,
    /// Sizes to show in place of key and value; -1 is null.
    pub(crate) key_size: Option<i64>,
    pub(crate) value_size: Option<i64>,
}

/// The lines of one listing.
pub(crate) struct RecordLines {
    style: Style,
    with_time: bool,
    key_width: usize,
    time: TimeWriter,
    line: String,
}

impl RecordLines {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            with_time: style.width.is_none_or(|width| width >= WIDTH_WITH_TIME),
            key_width: style.width.map_or(0, |width| width / 4).max(KEY_WIDTH),
            time: TimeWriter::default(),
            line: String::new(),
        }
    }

    /// Whether the time did not fit.
    pub(crate) fn hides_time(&self) -> bool {
        !self.with_time
    }

    pub(crate) fn headings(&mut self, out: &mut impl Write) -> io::Result<()> {
        let time = if self.with_time {
            format!("{:TIME_WIDTH$}  ", "TIMESTAMP")
        } else {
            String::new()
        };
        let width = self.key_width;
        let line = format!("{:>OFFSET_WIDTH$}  {time}{:width$}  VALUE", "OFFSET", "KEY");
        writeln!(out, "{}", self.style.heading(&line))
    }

    pub(crate) fn row(
        &mut self,
        cells: &RecordCells<'_, '_>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = write!(self.line, "{:>OFFSET_WIDTH$}  ", cells.offset);
        if self.with_time {
            let begins = self.line.len();
            self.time.push(&mut self.line, cells.timestamp);
            let padding = TIME_WIDTH.saturating_sub(self.line.len() - begins) + GAP;
            self.line.extend(std::iter::repeat_n(' ', padding));
        }
        let key_begins = self.line.len();
        let limit = self.style.width.map(|_| self.key_width);
        put(&mut self.line, limit, |out| match cells.key_size {
            Some(size) => put_size(out, size),
            None => write!(out, "{}", cells.key),
        });
        let shown = self.line.get(key_begins..).unwrap_or_default();
        let padding = self.key_width.saturating_sub(shown.chars().count()) + GAP;
        self.line.extend(std::iter::repeat_n(' ', padding));
        let used = self.line.chars().count();
        let limit = self.style.width.map(|width| width.saturating_sub(used));
        put(&mut self.line, limit, |out| {
            match cells.value_size {
                Some(size) => put_size(out, size)?,
                None => write!(out, "{}", cells.value)?,
            }
            put_headers(out, cells.headers)
        });
        out.write_all(self.line.as_bytes())?;
        out.write_all(b"\n")
    }
}

fn put_size(out: &mut Limited<'_>, size: i64) -> fmt::Result {
    if size < 0 {
        out.write_str("null")
    } else {
        write!(out, "{size} B")
    }
}

/// `  [h1: a, h2: null]`; nothing if there are none.
fn put_headers(out: &mut Limited<'_>, headers: &HeadersRow<'_>) -> fmt::Result {
    let mut any = false;
    for header in headers.rows() {
        out.write_str(if any { ", " } else { "  [" })?;
        any = true;
        write!(out, "{}", header.key)?;
        if !headers.keys_only {
            write!(out, ": {}", header.value)?;
        }
    }
    if any { out.write_str("]") } else { Ok(()) }
}

/// Appends what `write` writes, cut at `limit` letters.
fn put(
    line: &mut String,
    limit: Option<usize>,
    write: impl FnOnce(&mut Limited<'_>) -> fmt::Result,
) {
    let begins = line.len();
    let mut limited = Limited {
        line,
        left: limit.unwrap_or(usize::MAX),
    };
    if write(&mut limited).is_err() {
        let keep = limit.unwrap_or(usize::MAX).saturating_sub(CUT.len());
        let shown = line.get(begins..).unwrap_or_default();
        let end = shown.char_indices().nth(keep).map(|(place, _)| place);
        line.truncate(begins + end.unwrap_or(shown.len()));
        line.push_str(CUT);
    }
}

/// Takes no more letters than fit, and makes them safe for a terminal.
struct Limited<'l> {
    line: &'l mut String,
    left: usize,
}

impl fmt::Write for Limited<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_plain = |byte: &u8| (0x20..0x7f).contains(byte);
        if text.len() <= self.left && text.as_bytes().iter().all(is_plain) {
            self.left -= text.len();
            self.line.push_str(text);
            return Ok(());
        }
        for letter in text.chars() {
            if letter.is_control() {
                for escaped in letter.escape_debug() {
                    self.push(escaped)?;
                }
            } else {
                self.push(letter)?;
            }
        }
        Ok(())
    }
}

impl Limited<'_> {
    fn push(&mut self, letter: char) -> fmt::Result {
        self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
        self.line.push(letter);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kseg::report::content::BytesForm;

    fn line(width: Option<usize>, key: &[u8], value: &[u8]) -> String {
        let style = Style {
            width,
            color: false,
        };
        let mut out = Vec::new();
        let cells = RecordCells {
            offset: 7,
            timestamp: 0,
            key: &Content::Bytes(key, BytesForm::Base64),
            value: &Content::Bytes(value, BytesForm::Base64),
            headers: &HeadersRow::default(),
            key_size: None,
            value_size: None,
        };
        RecordLines::new(style).row(&cells, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_all_of_a_record() {
        assert_eq!(
            line(None, b"key", b"a\tvalue"),
            "         7  1970-01-01T00:00:00.000Z  key               a\\tvalue\n"
        );
    }

    #[test]
    fn a_terminal_gets_what_fits() {
        let long = [b'x'; 90];
        let text = line(Some(50), &long, &long);
        assert_eq!(
            text,
            format!("         7  {}...  {}...\n", "x".repeat(13), "x".repeat(17))
        );
        assert_eq!(text.trim_end().len(), 50);
        let fits = line(Some(50), b"k", &[b'x'; 20]);
        assert_eq!(fits.trim_end().len(), 50);
        assert!(!fits.contains("..."));
    }
}
