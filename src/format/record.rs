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

use super::varint::{read_varint, read_varlong, write_varint, write_varlong};
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
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let mut fields = Fields { bytes, position: 0 };
        let length = fields.varint("length")?;
        let length = usize::try_from(length).map_err(|_| fields.below_zero("length", length))?;
        let end = fields.position.saturating_add(length);
        let Some(body) = bytes.get(..end) else {
            return Err(fields.truncated("length", end));
        };
        fields.bytes = body;
        let attributes = fields.byte("attributes")?;
        let timestamp_delta = fields.varlong("timestampDelta")?;
        let offset_delta = fields.varint("offsetDelta")?;
        let key = fields.nullable_bytes("key")?;
        let value = fields.nullable_bytes("value")?;
        let header_count = fields.varint("headerCount")?;
        if header_count < 0 {
            return Err(fields.below_zero("headerCount", header_count));
        }
        let headers = body.get(fields.position..).unwrap_or_default();
        let record = Self {
            attributes,
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers,
            header_count,
        };
        Ok((record, end))
    }

    /// Appends the record as Kafka writes it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        body.push(self.attributes.cast_unsigned());
        write_varlong(self.timestamp_delta, &mut body);
        write_varint(self.offset_delta, &mut body);
        write_nullable_bytes(self.key, &mut body);
        write_nullable_bytes(self.value, &mut body);
        write_varint(self.header_count, &mut body);
        body.extend_from_slice(self.headers);
        write_varint(i32::try_from(body.len()).unwrap_or(i32::MAX), out);
        out.extend_from_slice(&body);
    }
}

fn write_nullable_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        None => write_varint(-1, out),
        Some(bytes) => {
            write_varint(i32::try_from(bytes.len()).unwrap_or(i32::MAX), out);
            out.extend_from_slice(bytes);
        }
    }
}

/// The fields of one record, taken one after another.
struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Fields<'a> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    fn truncated(&self, field: &'static str, needed: usize) -> DecodeError {
        DecodeError::new(
            STRUCTURE,
            field,
            self.position as u64,
            DecodeErrorKind::Truncated {
                needed: needed as u64,
                available: self.bytes.len() as u64,
            },
        )
    }

    fn below_zero(&self, field: &'static str, found: i32) -> DecodeError {
        DecodeError::new(
            STRUCTURE,
            field,
            self.position as u64,
            DecodeErrorKind::BelowMinimum {
                found: i64::from(found),
                minimum: 0,
            },
        )
    }

    fn byte(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        let byte = *self
            .rest()
            .first()
            .ok_or_else(|| self.truncated(field, self.position + 1))?;
        self.position += 1;
        Ok(byte.cast_signed())
    }

    fn varint(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        let (value, size) =
            read_varint(self.rest()).ok_or_else(|| self.truncated(field, self.position + 1))?;
        self.position += size;
        Ok(value)
    }

    fn varlong(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        let (value, size) =
            read_varlong(self.rest()).ok_or_else(|| self.truncated(field, self.position + 1))?;
        self.position += size;
        Ok(value)
    }

    fn nullable_bytes(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let length = self.varint(field)?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| self.below_zero(field, length))?;
        let end = self.position.saturating_add(length);
        let bytes = self
            .bytes
            .get(self.position..end)
            .ok_or_else(|| self.truncated(field, end))?;
        self.position = end;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            let _ = Record::decode(&bytes);
        }
    }
}
