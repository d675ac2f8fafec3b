//! One record inside a magic 2 batch.
//!
//! | field                  | type              |
//! |------------------------|-------------------|
//! | length                 | varint: bytes after this field |
//! | attributes             | int8, 0           |
//! | timestampDelta         | varlong           |
//! | offsetDelta            | varint            |
//! | keyLength, key         | varint, bytes; -1 = null |
//! | valueLength, value     | varint, bytes; -1 = null |
//! | headerCount            | varint            |
//! | per header: keyLength, key, valueLength, value | varint, UTF-8, varint, bytes |
//!
//! Decides `DefaultRecord`.

use super::varint::{
    size_of_varint, size_of_varlong, take_varint, take_varlong, write_varint, write_varlong,
};
use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "record";

/// One record, its bytes borrowed from the decompressed records of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Unused by Kafka; 0.
    pub attributes: i8,
    /// Milliseconds after the batch's base timestamp; may be negative.
    pub timestamp_delta: i64,
    /// Offset less the batch's base offset.
    pub offset_delta: i32,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers as they lie in the record, not looked into yet.
    pub headers: &'a [u8],
    /// How many headers the record says it has.
    pub header_count: i32,
}

impl<'a> Record<'a> {
    /// The record at the beginning of `bytes`, and how many bytes it takes.
    ///
    /// Headers are counted but not parsed.
    ///
    /// # Errors
    /// If the bytes end inside the record or a length is out of range. Positions count from the
    /// beginning of `bytes`.
    #[expect(
        clippy::inline_always,
        reason = "else it is copied twice on its way to whoever looks at a field or two of it, \
                  which takes longer than decoding it"
    )]
    #[inline(always)]
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let mut fields = Fields::new(bytes);
        let length = fields.varint("length")?;
        let length = usize::try_from(length).map_err(|_| fields.below_zero("length", length))?;
        let end = fields.position().saturating_add(length);
        let Some(body) = fields.rest.get(..length) else {
            return Err(fields.truncated("length", end));
        };
        fields = Fields { end, rest: body };
        let attributes = fields.byte("attributes")?;
        let timestamp_delta = fields.varlong("timestampDelta")?;
        let offset_delta = fields.varint("offsetDelta")?;
        let key = fields.nullable_bytes("key")?;
        let value = fields.nullable_bytes("value")?;
        let header_count = fields.varint("headerCount")?;
        if header_count < 0 {
            return Err(fields.below_zero("headerCount", header_count));
        }
        let record = Self {
            attributes,
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers: fields.rest,
            header_count,
        };
        Ok((record, end))
    }

    /// The headers, one after another (`DefaultRecord.readHeaders`).
    #[must_use]
    pub fn header_iter(&self) -> RecordHeaders<'a> {
        RecordHeaders {
            fields: Fields::new(self.headers),
            remaining: self.header_count,
        }
    }

    /// Appends the record as Kafka writes it (`DefaultRecord.writeTo`).
    pub fn encode(&self, out: &mut Vec<u8>) {
        let size = 1
            + size_of_varlong(self.timestamp_delta)
            + size_of_varint(self.offset_delta)
            + size_of_nullable_bytes(self.key)
            + size_of_nullable_bytes(self.value)
            + size_of_varint(self.header_count)
            + self.headers.len();
        write_length(size, out);
        out.push(self.attributes.cast_unsigned());
        write_varlong(self.timestamp_delta, out);
        write_varint(self.offset_delta, out);
        write_nullable_bytes(self.key, out);
        write_nullable_bytes(self.value, out);
        write_varint(self.header_count, out);
        out.extend_from_slice(self.headers);
    }
}

/// One header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    /// The key: UTF-8 as Kafka writes it, any bytes as it reads it.
    pub key: &'a [u8],
    /// The value, if there is one.
    pub value: Option<&'a [u8]>,
}

impl RecordHeader<'_> {
    /// Appends the header as it lies in a record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_nullable_bytes(Some(self.key), out);
        write_nullable_bytes(self.value, out);
    }
}

/// The headers of a record, parsed as they are asked for.
///
/// After the last one there must be nothing left of the record, else an error follows it. An
/// error is the last thing that comes. Its position counts from the first byte of the headers.
#[derive(Clone, Debug)]
pub struct RecordHeaders<'a> {
    fields: Fields<'a>,
    remaining: i32,
}

impl<'a> RecordHeaders<'a> {
    fn read(&mut self) -> Result<RecordHeader<'a>, DecodeError> {
        let length = self.fields.varint("headerKeyLength")?;
        let length = usize::try_from(length)
            .map_err(|_| self.fields.below_zero("headerKeyLength", length))?;
        let key = self.fields.take("headerKey", length)?;
        let value = self.fields.nullable_bytes("headerValue")?;
        Ok(RecordHeader { key, value })
    }
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = Result<RecordHeader<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = if self.remaining > 0 {
            self.remaining -= 1;
            self.read()
        } else if self.fields.rest.is_empty() {
            return None;
        } else {
            let left = self.fields.rest.len() as u64;
            let position = self.fields.position() as u64;
            let kind = DecodeErrorKind::TrailingBytes { left };
            Err(DecodeError::new(STRUCTURE, "headerCount", position, kind))
        };
        if item.is_err() {
            self.remaining = 0;
            self.fields.rest = &[];
        }
        Some(item)
    }
}

fn size_of_nullable_bytes(bytes: Option<&[u8]>) -> usize {
    match bytes {
        None => size_of_varint(-1),
        Some(bytes) => size_of_varint(length_of(bytes.len())) + bytes.len(),
    }
}

fn write_nullable_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        None => write_varint(-1, out),
        Some(bytes) => {
            write_length(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    write_varint(length_of(length), out);
}

/// A length as the format has it. Longer ones do not fit a batch, which whoever builds the batch
/// must see to.
fn length_of(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// The fields of one record, taken one after another.
#[derive(Clone, Debug)]
struct Fields<'a> {
    /// Position of the end of `rest`.
    end: usize,
    /// What has not been taken yet.
    rest: &'a [u8],
}

#[expect(clippy::inline_always, reason = "as Record::decode is")]
impl<'a> Fields<'a> {
    #[inline(always)]
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            end: bytes.len(),
            rest: bytes,
        }
    }

    /// Position of the next field.
    #[inline(always)]
    fn position(&self) -> usize {
        self.end - self.rest.len()
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        DecodeError::new(
            STRUCTURE,
            field,
            self.position() as u64,
            DecodeErrorKind::Truncated {
                needed: needed as u64,
                available: self.end as u64,
            },
        )
    }

    #[cold]
    fn below_zero(&self, field: &'static str, found: i32) -> DecodeError {
        DecodeError::new(
            STRUCTURE,
            field,
            self.position() as u64,
            DecodeErrorKind::BelowMinimum {
                found: i64::from(found),
                minimum: 0,
            },
        )
    }

    #[inline(always)]
    fn byte(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        let (byte, rest) = self
            .rest
            .split_first()
            .ok_or_else(|| self.truncated(field, self.position() + 1))?;
        self.rest = rest;
        Ok(byte.cast_signed())
    }

    #[inline(always)]
    fn varint(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        take_varint(&mut self.rest).ok_or_else(|| self.truncated(field, self.position() + 1))
    }

    #[inline(always)]
    fn varlong(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        take_varlong(&mut self.rest).ok_or_else(|| self.truncated(field, self.position() + 1))
    }

    /// Any negative length is a null, as in `Utils.readBytes`.
    #[inline(always)]
    fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = self.varint(field)?;
        match usize::try_from(length) {
            Ok(length) => self.take(field, length).map(Some),
            Err(_) => Ok(None),
        }
    }

    #[inline(always)]
    fn take(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.truncated(field, self.position().saturating_add(length)))?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_must_end_with_the_record() {
        let mut headers = Vec::new();
        let first = RecordHeader {
            key: b"trace",
            value: Some(b"1"),
        };
        let second = RecordHeader {
            key: b"",
            value: None,
        };
        first.encode(&mut headers);
        second.encode(&mut headers);
        let mut record = Record {
            attributes: 0,
            timestamp_delta: 0,
            offset_delta: 0,
            key: None,
            value: None,
            headers: &headers,
            header_count: 2,
        };
        let read: Result<Vec<_>, _> = record.header_iter().collect();
        assert_eq!(read.unwrap(), [first, second]);

        record.header_count = 1;
        let error = record.header_iter().nth(1).unwrap().unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TrailingBytes { left: 2 });

        record.header_count = i32::MAX;
        assert_eq!(record.header_iter().count(), 3);
        assert!(record.header_iter().nth(2).unwrap().is_err());
    }

    #[test]
    fn negative_header_key_length_is_refused() {
        let record = Record {
            attributes: 0,
            timestamp_delta: 0,
            offset_delta: 0,
            key: None,
            value: None,
            headers: &[1, 1],
            header_count: 1,
        };
        let error = record.header_iter().next().unwrap().unwrap_err();
        let minimum = DecodeErrorKind::BelowMinimum {
            found: -1,
            minimum: 0,
        };
        assert_eq!(error.kind, minimum);
    }

    #[test]
    fn any_negative_length_is_a_null() {
        // Length 6, attributes, deltas, key length -3, value length -1, no headers.
        let (record, _) = Record::decode(&[12, 0, 0, 0, 5, 1, 0]).unwrap();
        assert_eq!((record.key, record.value), (None, None));
    }

    proptest! {
        #[test]
        fn round_trip(
            timestamp_delta: i64,
            offset_delta: i32,
            key: Option<Vec<u8>>,
            value: Option<Vec<u8>>,
        ) {
            let record = Record {
                attributes: 0,
                timestamp_delta,
                offset_delta,
                key: key.as_deref(),
                value: value.as_deref(),
                headers: &[],
                header_count: 0,
            };
            let mut out = Vec::new();
            record.encode(&mut out);
            let (decoded, size) = Record::decode(&out).unwrap();
            prop_assert_eq!(size, out.len());
            prop_assert_eq!(decoded, record);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok((record, size)) = Record::decode(&bytes) {
                prop_assert!(size <= bytes.len());
                prop_assert!(record.header_iter().count() <= bytes.len() + 1);
            }
        }
    }
}
