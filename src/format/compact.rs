//! Reading and writing the flexible versions of Kafka's messages, field by field.
//!
//! | type                 | bytes                                              |
//! |----------------------|----------------------------------------------------|
//! | int8 to int64, uint16 | big-endian                                        |
//! | uuid                 | 16                                                 |
//! | uvarint              | 1 to 5, seven bits a byte, low group first         |
//! | string, bytes, array | uvarint length + 1, then the data; 0 = null        |
//! | tagged fields        | uvarint count; each uvarint tag, uvarint size, data |
//!
//! Every struct ends with its tagged fields. Decides the generated message classes,
//! `ByteBufferAccessor`.

use std::borrow::Cow;

use super::kafka_uuid::{self, KafkaUuid};
use super::varint::{read_uvarint, write_uvarint};
use crate::error::{DecodeError, DecodeErrorKind};

/// The longest string that the generated classes read.
pub(crate) const MAX_STRING_SIZE: usize = 0x7fff;

/// Takes the fields of a message one after another. Errors name the message, the field and the
/// position from the beginning of the bytes.
#[derive(Clone, Debug)]
pub struct CompactReader<'a> {
    structure: &'static str,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> CompactReader<'a> {
    /// A reader of `bytes`, which errors call `structure`.
    #[must_use]
    pub fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Self {
            structure,
            bytes,
            position: 0,
        }
    }

    /// A reader that begins at `position`.
    #[must_use]
    pub(crate) fn at(structure: &'static str, bytes: &'a [u8], position: usize) -> Self {
        Self {
            structure,
            bytes,
            position,
        }
    }

    /// How many bytes were taken.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// The bytes not taken yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// An error in `field` at the next byte.
    #[must_use]
    pub fn error(&self, field: &'static str, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(self.structure, field, self.position as u64, kind)
    }

    /// The next `size` bytes.
    ///
    /// # Errors
    /// If fewer are left.
    pub fn take(&mut self, field: &'static str, size: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.position.saturating_add(size);
        let Some(bytes) = self.bytes.get(self.position..end) else {
            return Err(self.truncated(field, end));
        };
        self.position = end;
        Ok(bytes)
    }

    /// An error in `field` whose last byte should be the one before position `needed`.
    pub(crate) fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        let kind = DecodeErrorKind::Truncated {
            needed: needed as u64,
            available: self.bytes.len() as u64,
        };
        self.error(field, kind)
    }

    /// The next `N` bytes.
    pub(crate) fn chunk<const N: usize>(
        &mut self,
        field: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let bytes = self.take(field, N)?;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    /// An int8.
    ///
    /// # Errors
    /// If no byte is left.
    pub fn int8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        Ok(i8::from_be_bytes(self.chunk(field)?))
    }

    /// An int16.
    ///
    /// # Errors
    /// If fewer than 2 bytes are left.
    pub fn int16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.chunk(field)?))
    }

    /// A uint16.
    ///
    /// # Errors
    /// If fewer than 2 bytes are left.
    pub fn uint16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.chunk(field)?))
    }

    /// An int32.
    ///
    /// # Errors
    /// If fewer than 4 bytes are left.
    pub fn int32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.chunk(field)?))
    }

    /// An int64.
    ///
    /// # Errors
    /// If fewer than 8 bytes are left.
    pub fn int64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        Ok(i64::from_be_bytes(self.chunk(field)?))
    }

    /// A uuid.
    ///
    /// # Errors
    /// If fewer than 16 bytes are left.
    pub fn uuid(&mut self, field: &'static str) -> Result<KafkaUuid, DecodeError> {
        Ok(KafkaUuid(self.chunk::<{ kafka_uuid::SIZE }>(field)?))
    }

    /// An unsigned varint.
    ///
    /// # Errors
    /// If the bytes end inside it or it is longer than 5 bytes.
    pub fn uvarint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let Some((value, size)) = read_uvarint(self.rest()) else {
            return Err(self.truncated(field, self.position + 1));
        };
        self.position += size;
        Ok(value)
    }

    /// A length stored as length + 1; `None` for null. It is no longer than the bytes left.
    fn length(&mut self, field: &'static str) -> Result<Option<usize>, DecodeError> {
        // The generated classes compute with Java's int: what is negative there is null.
        let raw = self.uvarint(field)?.cast_signed();
        let Ok(length) = usize::try_from(raw.wrapping_sub(1)) else {
            return Ok(None);
        };
        if length > self.rest().len() {
            return Err(self.truncated(field, self.position.saturating_add(length)));
        }
        Ok(Some(length))
    }

    /// The number of elements of a nullable array. Each takes a byte or more, so more than the
    /// bytes left is an error, as in Kafka. Allocate as elements come, not by this number.
    ///
    /// # Errors
    /// If the array cannot fit the bytes left.
    pub fn nullable_array_count(
        &mut self,
        field: &'static str,
    ) -> Result<Option<usize>, DecodeError> {
        self.length(field)
    }

    /// The number of elements of an array that must not be null.
    ///
    /// # Errors
    /// If it is null or cannot fit the bytes left.
    pub fn array_count(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        let count = self.nullable_array_count(field)?;
        count.ok_or_else(|| self.null(field))
    }

    /// Nullable bytes.
    ///
    /// # Errors
    /// If the bytes end before they do.
    pub fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        match self.length(field)? {
            None => Ok(None),
            Some(length) => self.take(field, length).map(Some),
        }
    }

    /// A nullable string. Like Java's, this reading puts U+FFFD where the bytes are no UTF-8.
    ///
    /// # Errors
    /// If the bytes end before the string does or it is longer than 32767 bytes.
    pub fn nullable_string(
        &mut self,
        field: &'static str,
    ) -> Result<Option<Cow<'a, str>>, DecodeError> {
        let Some(bytes) = self.nullable_bytes(field)? else {
            return Ok(None);
        };
        if bytes.len() > MAX_STRING_SIZE {
            let kind = DecodeErrorKind::Unexpected {
                found: format!("{} bytes long", bytes.len()),
                expected: format!("at most {MAX_STRING_SIZE}"),
            };
            return Err(self.error(field, kind));
        }
        Ok(Some(java_string(bytes)))
    }

    /// A string that must not be null.
    ///
    /// # Errors
    /// As [`CompactReader::nullable_string`], and if it is null.
    pub fn string(&mut self, field: &'static str) -> Result<Cow<'a, str>, DecodeError> {
        let string = self.nullable_string(field)?;
        string.ok_or_else(|| self.null(field))
    }

    pub(crate) fn null(&self, field: &'static str) -> DecodeError {
        let kind = DecodeErrorKind::Unexpected {
            found: "null".to_owned(),
            expected: "a value".to_owned(),
        };
        self.error(field, kind)
    }

    /// The tagged fields at the end of a struct, each given to `visit` with its tag and its bytes.
    ///
    /// # Errors
    /// If the bytes end before the fields do, or `visit` fails.
    pub fn tagged_fields(
        &mut self,
        mut visit: impl FnMut(u32, &mut CompactReader<'a>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        const FIELD: &str = "tagged fields";
        let count = self.uvarint(FIELD)?.cast_signed();
        // Each takes two bytes or more, so hostile counts end at the end of the bytes.
        for _ in 0..count {
            let tag = self.uvarint(FIELD)?;
            let size = usize::try_from(self.uvarint(FIELD)?).unwrap_or(usize::MAX);
            let start = self.position;
            self.take(FIELD, size)?;
            let mut field = CompactReader {
                structure: self.structure,
                bytes: self.bytes.get(..self.position).unwrap_or_default(),
                position: start,
            };
            visit(tag, &mut field)?;
        }
        Ok(())
    }

    /// Leaves out the tagged fields at the end of a struct.
    ///
    /// # Errors
    /// If the bytes end before the fields do.
    pub fn skip_tagged_fields(&mut self) -> Result<(), DecodeError> {
        self.tagged_fields(|_, _| Ok(()))
    }
}

/// Text as Java's `new String(bytes, UTF_8)` reads it.
///
/// Like `String::from_utf8_lossy` it puts one replacement character for each longest run that
/// could have begun a character; unlike it Java takes an encoded surrogate for such a run.
pub(crate) fn java_string(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let size = match (rest, std::str::from_utf8(rest)) {
            (_, Ok(valid)) => {
                text.push_str(valid);
                rest.len()
            }
            ([0xed, 0xa0..=0xbf, 0x80..=0xbf, ..], Err(_)) => replacement(&mut text, 3),
            ([0xed, 0xa0..=0xbf, ..], Err(_)) => replacement(&mut text, 2),
            (_, Err(error)) => match rest.split_at_checked(error.valid_up_to()) {
                Some((valid, _)) if !valid.is_empty() => {
                    text.push_str(&String::from_utf8_lossy(valid));
                    valid.len()
                }
                _ => replacement(&mut text, error.error_len().unwrap_or(rest.len())),
            },
        };
        rest = rest.get(size..).unwrap_or_default();
    }
    Cow::Owned(text)
}

fn replacement(text: &mut String, size: usize) -> usize {
    text.push(char::REPLACEMENT_CHARACTER);
    size
}

/// Appends a length as length + 1.
fn write_length(length: usize, out: &mut Vec<u8>) {
    let raw = u32::try_from(length).unwrap_or(u32::MAX).saturating_add(1);
    write_uvarint(raw, out);
}

/// Appends a string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    write_length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Appends the number of elements of an array; the elements follow.
pub fn write_array_count(count: usize, out: &mut Vec<u8>) {
    write_length(count, out);
}

/// Appends the end of a struct without tagged fields.
pub fn write_no_tagged_fields(out: &mut Vec<u8>) {
    write_uvarint(0, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reader(bytes: &[u8]) -> CompactReader<'_> {
        CompactReader::new("message", bytes)
    }

    #[test]
    fn fields_are_taken_in_order() {
        let mut fields = reader(&[0xff, 0xff, 0xfe, 0xe6, 0xd5, 0, 0, 0, 1, 3, b'h', b'i', 0]);
        assert_eq!(fields.int8("a").unwrap(), -1);
        assert_eq!(fields.int16("b").unwrap(), -2);
        assert_eq!(fields.uint16("c").unwrap(), 59093);
        assert_eq!(fields.int32("d").unwrap(), 1);
        assert_eq!(fields.string("e").unwrap(), "hi");
        assert_eq!(fields.nullable_string("f").unwrap(), None);
        assert!(fields.rest().is_empty());
        let error = fields.int64("g").unwrap_err();
        assert_eq!(
            error.to_string(),
            "message g needs 21 bytes, 13 are there (at position 13)"
        );
    }

    #[test]
    fn lengths_beyond_the_bytes_are_refused() {
        assert!(reader(&[3, 0]).array_count("a").is_err());
        assert!(reader(&[0]).array_count("a").is_err());
        assert_eq!(reader(&[3, 0, 0]).array_count("a").unwrap(), 2);
        assert!(reader(&[0xff, 0xff, 0xff, 0xff, 7]).string("a").is_err());
        // Java's int is negative here, which reads as null.
        let negative = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(reader(&negative).nullable_bytes("a").unwrap(), None);
        // The lowest one less 1 is the highest.
        let lowest = [0x80, 0x80, 0x80, 0x80, 0x08];
        assert!(reader(&lowest).nullable_bytes("a").is_err());
    }

    #[test]
    fn malformed_text_is_read_as_java_reads_it() {
        // Each line was given to `new String(bytes, UTF_8)`.
        let cases: [(&[u8], &str); 10] = [
            (b"plain \xc3\xa9", "plain \u{e9}"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\xe4\xb8", "\u{fffd}"),
            (b"\xe4\xb8A", "\u{fffd}A"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xf4\x90", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0A", "\u{fffd}A"),
            (b"\xf0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
        ];
        for (bytes, text) in cases {
            assert_eq!(java_string(bytes), text, "{bytes:x?}");
        }
    }

    #[test]
    fn tagged_fields_are_visited_or_skipped() {
        let bytes = [2, 0, 1, 9, 5, 2, 7, 8, 1];
        let mut fields = reader(&bytes);
        let mut seen = Vec::new();
        fields
            .tagged_fields(|tag, field| {
                seen.push((tag, field.rest().to_vec()));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [(0, vec![9]), (5, vec![7, 8])]);
        assert_eq!(fields.position(), 8);
        assert!(reader(&bytes[..7]).skip_tagged_fields().is_err());
        assert!(
            reader(&[0xff, 0xff, 0xff, 0xff, 7])
                .skip_tagged_fields()
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn round_trip(text: String, count in 0..100usize) {
            let mut out = Vec::new();
            write_string(&text, &mut out);
            write_no_tagged_fields(&mut out);
            write_array_count(count, &mut out);
            out.resize(out.len() + count, 0);
            let mut fields = reader(&out);
            prop_assert_eq!(fields.string("text").unwrap(), text);
            fields.skip_tagged_fields().unwrap();
            prop_assert_eq!(fields.array_count("count").unwrap(), count);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = reader(&bytes).nullable_string("a");
            let _ = reader(&bytes).nullable_array_count("a");
            let _ = reader(&bytes).skip_tagged_fields();
            let _ = reader(&bytes).uuid("a");
        }
    }
}
