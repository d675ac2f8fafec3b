//! Lines and words of the text files, cut where Java cuts them.
//!
//! What belongs here: the rules of `BufferedReader.readLine`, `\s` in `java.util.regex` and
//! `Integer.parseInt` that several text formats share. What the words mean stays with the formats.

use std::str::FromStr;

use crate::error::{DecodeError, DecodeErrorKind};

/// Characters of a line that its error keeps: a file of zeros is one line.
const MAX_KEPT: usize = 64 * 1024;

/// What is said of a line that is not there.
pub(crate) const ENDS_BEFORE: &str = "the file ends before it";

/// A line with its place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    structure: &'static str,
    number: u64,
    position: u64,
    pub(super) text: &'a str,
}

impl<'a> Line<'a> {
    /// The error for a line that does not have the form it should.
    pub(super) fn malformed(&self, field: &'static str) -> DecodeError {
        let kind = DecodeErrorKind::Line {
            line: self.number,
            text: self.text.chars().take(MAX_KEPT).collect(),
        };
        self.error(field, kind)
    }

    /// An error at the beginning of this line.
    pub(super) fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(self.structure, field, self.position, kind)
    }

    /// `word` as a decimal number; a sign in front is allowed.
    pub(super) fn number<T: FromStr>(
        &self,
        field: &'static str,
        word: &str,
    ) -> Result<T, DecodeError> {
        word.parse().map_err(|_| self.malformed(field))
    }

    /// The words between runs of white space. White space in front makes an empty first word, as
    /// in `Pattern.split`; at the end it makes none.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut rest = Some(self.text.trim_end_matches(is_space));
        let words = std::iter::from_fn(move || {
            let text = rest?;
            let end = find_any(text.as_bytes(), SPACES).unwrap_or(text.len());
            let (word, behind) = text.split_at_checked(end)?;
            rest = behind.get(1..);
            Some(word)
        });
        words
            .enumerate()
            .filter(|(index, word)| *index == 0 || !word.is_empty())
            .map(|(_, word)| word)
    }
}

/// The characters that `\s` stands for in a Java pattern: ASCII only.
pub(super) fn is_space(c: char) -> bool {
    u8::try_from(c).is_ok_and(|c| SPACES.contains(&c))
}

const SPACES: &[u8] = b" \t\n\x0b\x0c\r";

/// Where the first of some ASCII characters stands. Fast where none does: a file of zeros may have
/// gigabytes.
pub(super) fn find_any(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    const PIECE: usize = 4096;
    let mut pieces = bytes.chunks(PIECE).enumerate();
    let is_in = |piece: &[u8]| wanted.iter().any(|it| piece.contains(it));
    let (index, piece) = pieces.find(|(_, piece)| is_in(piece))?;
    let inside = piece.iter().position(|byte| wanted.contains(byte))?;
    Some(index * PIECE + inside)
}

/// The lines of a UTF-8 text; each ends at `\n`, `\r` or `\r\n`, the last one also at the end.
///
/// A character that the file cuts short is met by who reads on to it: Java's decoder
/// (`StreamDecoder`) waits for the rest of it, and hands out what comes before.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    structure: &'static str,
    text: &'a str,
    /// Whether the first bytes of a character stand behind the text.
    is_cut: bool,
    number: u64,
    position: usize,
}

impl<'a> Lines<'a> {
    /// The lines of `bytes`, which errors call `structure`.
    pub(super) fn new(structure: &'static str, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (text, is_cut) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                // Of a surrogate Java's decoder looks at all three bytes, this one at two.
                let is_cut = error.error_len().is_none() || matches!(rest, [0xed, 0xa0..=0xbf]);
                let text = std::str::from_utf8(valid).ok().filter(|_| is_cut);
                (text.ok_or_else(|| no_utf8(structure, valid.len()))?, true)
            }
        };
        Ok(Self {
            structure,
            text,
            is_cut,
            number: 0,
            position: 0,
        })
    }

    /// The next line, or the error of a file that ends too early.
    pub(super) fn required(&mut self, field: &'static str) -> Result<Line<'a>, DecodeError> {
        let end = self.text.len() as u64;
        let structure = self.structure;
        self.next_line()?.ok_or_else(|| {
            let kind = DecodeErrorKind::Text(ENDS_BEFORE.to_owned());
            DecodeError::new(structure, field, end, kind)
        })
    }

    /// The next line, if there is one; an error if it reaches bytes that are no text.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'a>>, DecodeError> {
        let rest = self.text.get(self.position..).unwrap_or_default();
        let line_end = find_any(rest.as_bytes(), b"\n\r");
        if self.is_cut && line_end.is_none() {
            return Err(no_utf8(self.structure, self.text.len()));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let length = line_end.unwrap_or(rest.len());
        let (text, end) = rest.split_at(length);
        let end_size = if end.starts_with("\r\n") { 2 } else { 1 };
        self.number += 1;
        let line = Line {
            structure: self.structure,
            number: self.number,
            position: self.position as u64,
            text,
        };
        self.position = self.position.saturating_add(length + end_size);
        Ok(Some(line))
    }
}

fn no_utf8(structure: &'static str, position: usize) -> DecodeError {
    let kind = DecodeErrorKind::Text("these bytes are no UTF-8".to_owned());
    DecodeError::new(structure, "text", position as u64, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_in_any_piece() {
        for at in [0, 1, 4095, 4096, 9000] {
            let mut bytes = vec![b'a'; 9001];
            assert_eq!(find_any(&bytes, b"\n\r"), None);
            bytes[at] = b'\r';
            assert_eq!(find_any(&bytes, b"\n\r"), Some(at));
        }
        assert_eq!(find_any(&[], b"\n"), None);
    }

    #[test]
    fn an_error_keeps_the_beginning_of_a_line() {
        let text = "\0".repeat(MAX_KEPT + 1);
        let line = Lines::new("", text.as_bytes()).unwrap().next_line();
        let error = line.unwrap().unwrap().malformed("");
        let shown = error.to_string();
        assert!(shown.len() < 1000 && shown.contains('\u{2026}'), "{shown}");
        let DecodeErrorKind::Line { text, .. } = error.kind else {
            panic!("{shown}");
        };
        assert_eq!(text.len(), MAX_KEPT);
    }

    fn lines(text: &str) -> Vec<(u64, u64, &str)> {
        let mut lines = Lines::new("text", text.as_bytes()).unwrap();
        std::iter::from_fn(|| lines.next_line().unwrap())
            .map(|line| (line.number, line.position, line.text))
            .collect()
    }

    fn words(text: &str) -> Vec<&str> {
        let line = Line {
            structure: "text",
            number: 1,
            position: 0,
            text,
        };
        line.words().collect()
    }

    #[test]
    fn lines_end_where_java_ends_them() {
        assert_eq!(lines(""), []);
        assert_eq!(lines("a"), [(1, 0, "a")]);
        assert_eq!(lines("a\n"), [(1, 0, "a")]);
        assert_eq!(lines("a\n\n"), [(1, 0, "a"), (2, 2, "")]);
        let mixed = [(1, 0, "a"), (2, 2, "b"), (3, 5, "c")];
        assert_eq!(lines("a\rb\r\nc\n"), mixed);
    }

    #[test]
    fn words_split_where_java_splits_them() {
        assert_eq!(words("a 1 2"), ["a", "1", "2"]);
        assert_eq!(words("a \t1  2 "), ["a", "1", "2"]);
        assert_eq!(words(" a"), ["", "a"]);
        assert_eq!(words(""), [""]);
        assert_eq!(words("a\u{a0}b"), ["a\u{a0}b"]);
    }

    #[test]
    fn bytes_that_are_no_utf8_are_refused() {
        let error = Lines::new("text", b"ab\xff").unwrap_err();
        assert_eq!(error.position, 2);
    }

    #[test]
    fn a_character_cut_short_is_met_by_who_reads_on_to_it() {
        for cut in [&b"\xcc"[..], b"\xe2\x82", b"\xed\xa0", b"\xf0\x9f\x98"] {
            let bytes = [b"a\nb", cut].concat();
            let mut lines = Lines::new("text", &bytes).unwrap();
            assert_eq!(lines.next_line().unwrap().unwrap().text, "a");
            assert_eq!(lines.next_line().unwrap_err().position, 3, "{cut:x?}");
            let bytes = [b"a\n", cut].concat();
            let mut lines = Lines::new("text", &bytes).unwrap();
            assert_eq!(lines.required("word").unwrap().text, "a");
            assert_eq!(lines.next_line().unwrap_err().position, 2, "{cut:x?}");
        }
        for broken in [&b"\xc0"[..], b"\xe0\x80", b"\xed\xa0\x80", b"\xf5"] {
            let bytes = [b"a\n", broken].concat();
            assert_eq!(Lines::new("text", &bytes).unwrap_err().position, 2);
        }
    }
}
