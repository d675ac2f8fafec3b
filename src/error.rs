//! The error that every decoder of [`crate::format`] returns.

use std::fmt;

/// Bytes that do not hold the structure they were taken for.
///
/// Says which structure, which field of it, where, and why. The path of the file is added by
/// the caller that knows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}{} {kind} (at position {position})", FieldName(.field))]
#[non_exhaustive]
pub struct DecodeError {
    /// The structure that was being read, in plain words: "record batch", "offset index".
    pub structure: &'static str,
    /// The field at fault, by Kafka's name; empty if the structure as a whole is.
    pub field: &'static str,
    /// Byte position from the beginning of the input.
    pub position: u64,
    /// What is wrong.
    pub kind: DecodeErrorKind,
}

impl DecodeError {
    /// An error in `field` of `structure` at byte `position`.
    #[must_use]
    pub fn new(
        structure: &'static str,
        field: &'static str,
        position: u64,
        kind: DecodeErrorKind,
    ) -> Self {
        Self {
            structure,
            field,
            position,
            kind,
        }
    }
}

/// A field name with the space before it, or nothing.
struct FieldName<'a>(&'a &'static str);

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", self.0)
        }
    }
}

/// Why bytes could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input ends before the structure does. Both in bytes.
    #[error("needs {needed} bytes, {available} are there")]
    Truncated {
        /// Bytes the structure takes.
        needed: u64,
        /// Bytes that are there.
        available: u64,
    },
    /// A number below the smallest legal one.
    #[error("is {found}, below the minimum of {minimum}")]
    BelowMinimum {
        /// The value found.
        found: i64,
        /// The smallest legal value.
        minimum: i64,
    },
    /// A value other than the one the format demands.
    #[error("is {found}, expected {expected}")]
    Unexpected {
        /// The value found, as text.
        found: String,
        /// What would be right.
        expected: String,
    },
    /// The stored checksum does not match the bytes it covers.
    #[error("is {stored:#010x}, computed {computed:#010x}")]
    Checksum {
        /// The checksum in the file.
        stored: u32,
        /// The checksum of the bytes in the file.
        computed: u32,
    },
    /// A version this crate does not know.
    #[error("is {found}, newest known is {newest}")]
    UnknownVersion {
        /// The version found.
        found: i64,
        /// The newest version that can be read.
        newest: i64,
    },
    /// A count that does not account for all bytes.
    #[error("leaves {left} bytes unread")]
    TrailingBytes {
        /// Bytes that are left.
        left: u64,
    },
    /// A compressed stream that its codec refuses.
    #[error("are no {codec} stream: {reason}")]
    Compressed {
        /// Kafka's name of the codec.
        codec: &'static str,
        /// What the codec says.
        reason: String,
    },
    /// A compressed stream that holds more than the caller takes.
    #[error("decompress to more than {limit} bytes")]
    OverLimit {
        /// The most bytes that would have been taken.
        limit: u64,
    },
    /// A message of more values than are decoded.
    #[error("would be value {} of a record, of which {limit} are decoded", u64::from(*limit) + 1)]
    TooManyValues {
        /// The most values that are decoded.
        limit: u32,
    },
    /// A codec number without a meaning.
    #[error("codec {codec} is not known")]
    UnknownCodec {
        /// The number in the attributes.
        codec: u8,
    },
    /// A codec that batches of this magic cannot have.
    #[error("codec {codec} is not allowed in magic {magic}")]
    CodecNotAllowed {
        /// Kafka's name of the codec.
        codec: &'static str,
        /// The magic of the batch.
        magic: i8,
    },
    /// Text that does not parse.
    #[error("is not readable: {0}")]
    Text(String),
    /// A line of a text file that does not have the form it should.
    #[error("is not readable in line {line}: '{}'", shortened(text))]
    Line {
        /// Number of the line, counted from 1.
        line: u64,
        /// What stands there; of a line of more than some thousand characters its beginning.
        text: String,
    },
}

/// Characters of a line that an error shows.
const MAX_SHOWN: usize = 200;

/// Text without what a terminal would obey, and not all of it if it is long.
fn shortened(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(MAX_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('\u{2026}');
    }
    shown
}
