//! Bytes of a message to the JSON that Kafka shows of it.

use serde_json::{Map, Number, Value};

use super::types::{Default, Field, Message, Type};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::base64;
use crate::format::compact::{CompactReader, MAX_STRING_SIZE, java_string};

/// The most values of one record that are decoded: fields, and elements of arrays.
///
/// A struct of empty fields takes as many bytes as it has fields and becomes an object of ten times
/// as much memory and more, so the bytes that are there bound the work but not the memory. Kafka
/// has no such limit. The largest records that Kafka writes are lists of partitions, with four
/// bytes a value: in a megabyte, the default `max.message.bytes`, a quarter of the limit.
pub const MAX_VALUES: u32 = 1024 * 1024;

/// The values that may still be decoded of one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueBudget {
    left: u32,
}

impl ValueBudget {
    /// All that a record may have.
    pub(crate) fn of_a_record() -> Self {
        Self { left: MAX_VALUES }
    }

    fn take_one(&mut self) -> Result<(), DecodeErrorKind> {
        let none_left = DecodeErrorKind::TooManyValues { limit: MAX_VALUES };
        self.left = self.left.checked_sub(1).ok_or(none_left)?;
        Ok(())
    }
}

impl Message {
    /// The message of `version` at the beginning of `bytes`, and how many bytes it takes.
    ///
    /// # Errors
    /// If the version is not one of the message's, the bytes end inside it, a count is higher than
    /// the bytes behind it, a string is too long, a field that cannot be null is, or there are
    /// more than [`MAX_VALUES`] values.
    pub fn decode(&self, bytes: &[u8], version: i16) -> Result<(Value, usize), DecodeError> {
        self.decode_at(bytes, 0, version, &mut ValueBudget::of_a_record())
    }

    /// The message of `version` at `position` in `bytes`, and the position behind it.
    pub(crate) fn decode_at(
        &self,
        bytes: &[u8],
        position: usize,
        version: i16,
        budget: &mut ValueBudget,
    ) -> Result<(Value, usize), DecodeError> {
        let mut decoder = Decoder {
            budget,
            reader: CompactReader::at(self.name, bytes, position),
            version,
            flexible: self.flexible_versions.contains(version),
            unknown_tagged_fields: 0,
        };
        if !self.versions.contains(version) {
            let kind = DecodeErrorKind::UnknownVersion {
                found: i64::from(version),
                newest: i64::from(self.versions.last),
            };
            return Err(decoder.reader.error("version", kind));
        }
        let value = decoder.fields(self.fields)?;
        Ok((value, decoder.reader.position()))
    }
}

/// Reads one message. Knows its version, so that the fields need not be told.
struct Decoder<'a> {
    reader: CompactReader<'a>,
    version: i16,
    flexible: bool,
    /// How many were passed over so far: a struct with one of them differs from its default.
    unknown_tagged_fields: usize,
    budget: &'a mut ValueBudget,
}

impl Decoder<'_> {
    /// The fields of a message or struct, with the tagged ones where the definition has them.
    fn fields(&mut self, fields: &'static [Field]) -> Result<Value, DecodeError> {
        let mut values = vec![None; fields.len()];
        for (field, slot) in fields.iter().zip(&mut values) {
            if field.tag.is_none() && field.versions.contains(self.version) {
                *slot = Some(self.plain_field(field)?);
            }
        }
        if self.flexible {
            self.tagged_fields(fields, &mut values)?;
        }
        let mut object = Map::with_capacity(fields.len());
        for (field, value) in fields.iter().zip(values) {
            if let Some(value) = value {
                object.insert(field.name.to_owned(), value);
            }
        }
        Ok(Value::Object(object))
    }

    fn plain_field(&mut self, field: &Field) -> Result<Value, DecodeError> {
        if field.is_nullable_struct() {
            // -1 null, 1 present.
            if self.reader.int8(field.name)? < 0 {
                return Ok(Value::Null);
            }
        }
        self.value(field.name, field.field_type, field.nullable)
    }

    fn tagged_fields(
        &mut self,
        fields: &'static [Field],
        values: &mut [Option<Value>],
    ) -> Result<(), DecodeError> {
        // A count above i32::MAX is negative in Java, whose loop then does not begin.
        let count = self.reader.uvarint("tagged fields")?.cast_signed();
        for _ in 0..count {
            let tag = self.reader.uvarint("tag")?;
            let size = self.reader.uvarint("tagged field size")?.cast_signed();
            let known = fields
                .iter()
                .zip(&mut *values)
                .find(|(f, _)| f.tag == Some(tag));
            match known {
                None => {
                    self.skip("tagged field size", size)?;
                    self.unknown_tagged_fields += 1;
                }
                Some((field, _)) if !field.versions.contains(self.version) => {
                    let found = format!("tag {tag}");
                    let expected = format!("a tag of version {}", self.version);
                    return Err(self.unexpected(field.name, found, expected));
                }
                Some((field, slot)) => *slot = self.tagged_field(field)?,
            }
        }
        Ok(())
    }

    /// The value of a tagged field, `None` if it is the default after all.
    fn tagged_field(&mut self, field: &Field) -> Result<Option<Value>, DecodeError> {
        let unknown_before = self.unknown_tagged_fields;
        let is_null = field.is_nullable_struct()
            // The marker before a struct is 1; 0 or less says null.
            && self.reader.uvarint(field.name)?.cast_signed() <= 0;
        let value = if is_null {
            Value::Null
        } else {
            self.value(field.name, field.field_type, field.nullable)?
        };
        let is_default = self.unknown_tagged_fields == unknown_before && is_default(field, &value);
        Ok((!is_default).then_some(value))
    }

    fn value(
        &mut self,
        name: &'static str,
        field_type: Type,
        nullable: bool,
    ) -> Result<Value, DecodeError> {
        let counted = self.budget.take_one();
        counted.map_err(|kind| self.reader.error(name, kind))?;
        Ok(match field_type {
            Type::Bool => Value::Bool(self.reader.int8(name)? != 0),
            Type::Int8 => self.reader.int8(name)?.into(),
            Type::Int16 => self.reader.int16(name)?.into(),
            Type::Uint16 => self.reader.uint16(name)?.into(),
            Type::Int32 => self.reader.int32(name)?.into(),
            Type::Uint32 => u32::from_be_bytes(self.reader.chunk(name)?).into(),
            Type::Int64 => self.reader.int64(name)?.into(),
            Type::Float64 => float64(f64::from_be_bytes(self.reader.chunk(name)?)),
            Type::Uuid => Value::String(self.reader.uuid(name)?.to_string()),
            Type::String => match self.length(name, nullable, LengthSize::Int16)? {
                None => Value::Null,
                Some(size) => Value::String(self.string(name, size)?),
            },
            Type::Bytes => match self.length(name, nullable, LengthSize::Int32)? {
                None => Value::Null,
                Some(size) => Value::String(base64::encode(self.reader.take(name, size)?)),
            },
            Type::Array(element) => match self.length(name, nullable, LengthSize::Int32)? {
                None => Value::Null,
                Some(count) => self.array(name, *element, count)?,
            },
            Type::Struct(fields) => self.fields(fields)?,
        })
    }

    fn array(
        &mut self,
        name: &'static str,
        element: Type,
        count: usize,
    ) -> Result<Value, DecodeError> {
        // Every element takes a byte or more, so this bounds the work by the input.
        if count > self.reader.rest().len() {
            let needed = self.reader.position().saturating_add(count);
            return Err(self.reader.truncated(name, needed));
        }
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(name, element, false)?);
        }
        Ok(Value::Array(values))
    }

    fn string(&mut self, name: &'static str, size: usize) -> Result<String, DecodeError> {
        if size > MAX_STRING_SIZE {
            let expected = format!("at most {MAX_STRING_SIZE} bytes");
            return Err(self.unexpected(name, format!("{size} bytes"), expected));
        }
        Ok(java_string(self.reader.take(name, size)?).into_owned())
    }

    /// The length before a string, bytes or an array; `None` if it says null.
    fn length(
        &mut self,
        name: &'static str,
        nullable: bool,
        inflexible: LengthSize,
    ) -> Result<Option<usize>, DecodeError> {
        let length = if self.flexible {
            self.reader.uvarint(name)?.cast_signed().wrapping_sub(1)
        } else {
            match inflexible {
                LengthSize::Int16 => self.reader.int16(name)?.into(),
                LengthSize::Int32 => self.reader.int32(name)?,
            }
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if nullable => Ok(None),
            Err(_) => Err(self.reader.null(name)),
        }
    }

    fn skip(&mut self, name: &'static str, size: i32) -> Result<(), DecodeError> {
        let Ok(size) = usize::try_from(size) else {
            let kind = DecodeErrorKind::BelowMinimum {
                found: size.into(),
                minimum: 0,
            };
            return Err(self.reader.error(name, kind));
        };
        self.reader.take(name, size)?;
        Ok(())
    }

    fn unexpected(&self, name: &'static str, found: String, expected: String) -> DecodeError {
        let kind = DecodeErrorKind::Unexpected { found, expected };
        self.reader.error(name, kind)
    }
}

/// How long the length itself is where it is not compact.
#[derive(Clone, Copy)]
enum LengthSize {
    Int16,
    Int32,
}

/// Whether a tagged field with this value is left out.
pub(super) fn is_default(field: &Field, value: &Value) -> bool {
    match field.default {
        Default::Zero => is_zero(field.field_type, value),
        Default::Int(default) => value.as_i64() == Some(default),
        Default::Null => value.is_null(),
    }
}

fn is_zero(field_type: Type, value: &Value) -> bool {
    match field_type {
        Type::Bool => value.as_bool() == Some(false),
        Type::Int8 | Type::Int16 | Type::Uint16 | Type::Int32 | Type::Uint32 | Type::Int64 => {
            value.as_i64() == Some(0)
        }
        Type::Float64 => value.as_f64() == Some(0.0),
        Type::Uuid => value.as_str() == Some("AAAAAAAAAAAAAAAAAAAAAA"),
        Type::String | Type::Bytes => value.as_str() == Some(""),
        Type::Array(_) => value.as_array().is_some_and(Vec::is_empty),
        // Fields that are not there are of other versions, or default tagged ones. The plain fields
        // of all structs that stand in a tagged field have defaults of this kind.
        Type::Struct(fields) => value.as_object().is_some_and(|object| {
            let default = |field: &Field| {
                object
                    .get(field.name)
                    .is_none_or(|value| is_default(field, value))
            };
            fields.iter().all(default)
        }),
    }
}

fn float64(value: f64) -> Value {
    match Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::String("NaN".to_owned()),
        None if value.is_sign_positive() => Value::String("Infinity".to_owned()),
        None => Value::String("-Infinity".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::format::schema::messages;
    use crate::format::varint;

    fn find(name: &str) -> &'static Message {
        messages().find(|message| message.name == name).unwrap()
    }

    fn kind(name: &str, version: i16, bytes: &[u8]) -> DecodeErrorKind {
        find(name).decode(bytes, version).unwrap_err().kind
    }

    #[test]
    fn an_offset_commit_written_by_kafka() {
        // Value of offset 2 in `__consumer_offsets-0` of fixture s08-streams-eos, without the
        // version before it.
        let bytes = [
            0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 0, 13, b'A', b'g', b'A', b'A', b'A', b'a', b'I',
            b'n', b'8', b'C', b'R', b'c', 0, 0, 0x01, 0xa2, 0x28, 0x1b, 0xa3, 0x3a, 0,
        ];
        let (value, size) = find("OffsetCommitValue").decode(&bytes, 4).unwrap();
        assert_eq!(size, bytes.len());
        let shown = r#"{"offset":60,"leaderEpoch":0,"metadata":"AgAAAaIn8CRc","#;
        let expected = format!(r#"{shown}"commitTimestamp":1795969229626}}"#);
        assert_eq!(value.to_string(), expected);
    }

    #[test]
    fn a_tagged_struct_is_null_default_or_shown() {
        // RebalanceTimeoutMs 1; all strings empty or null; then the tagged fields.
        let decode = |tagged: &[u8]| {
            let mut bytes = vec![0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0];
            bytes.extend(tagged);
            let (value, size) = find("ConsumerGroupMemberMetadataValue")
                .decode(&bytes, 0)
                .unwrap();
            assert_eq!(size, bytes.len());
            value.get("classicMemberMetadata").cloned()
        };
        assert_eq!(decode(&[0]), None);
        assert_eq!(decode(&[1, 0, 1, 0]), Some(Value::Null));
        assert_eq!(decode(&[1, 0, 7, 1, 0, 0, 0, 0, 1, 0]), None);
        assert_eq!(
            decode(&[1, 0, 7, 1, 0, 0, 0, 5, 1, 0]),
            Some(json!({"sessionTimeoutMs": 5, "supportedProtocols": []}))
        );
        // An unknown tagged field inside makes it differ from the default, though none is shown.
        assert_eq!(
            decode(&[1, 0, 9, 1, 0, 0, 0, 0, 1, 1, 100, 0]),
            Some(json!({"sessionTimeoutMs": 0, "supportedProtocols": []}))
        );
    }

    #[test]
    fn tags_may_repeat_and_their_sizes_are_not_looked_at() {
        let bytes = [
            0, 0, 0, 1, 3, 0, 0xff, 0x01, 0, 0, 0, 0, 0, 0, 0, 7, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 8,
        ];
        let (value, size) = find("ConsumerGroupMetadataValue")
            .decode(&bytes, 0)
            .unwrap();
        assert_eq!(size, bytes.len());
        assert_eq!(value, json!({"epoch": 1, "metadataHash": 8}));
    }

    #[test]
    fn each_refusal_names_its_cause() {
        let truncated = DecodeErrorKind::Truncated {
            needed: 4,
            available: 3,
        };
        assert_eq!(kind("EndTxnMarker", 0, &[0, 0, 0]), truncated);
        let count = DecodeErrorKind::Truncated {
            needed: 5 + 0x7fff_fffe,
            available: 6,
        };
        let bytes = [0xff, 0xff, 0xff, 0xff, 7, 0];
        assert_eq!(
            kind("ConsumerGroupTargetAssignmentMemberValue", 0, &bytes),
            count
        );
        let unknown = DecodeErrorKind::UnknownVersion {
            found: 5,
            newest: 4,
        };
        assert_eq!(kind("OffsetCommitValue", 5, &[]), unknown);
        let null = DecodeErrorKind::Unexpected {
            found: "null".to_owned(),
            expected: "a value".to_owned(),
        };
        assert_eq!(kind("GroupMetadataKey", 0, &[0xff, 0xff]), null);
        let negative = DecodeErrorKind::BelowMinimum {
            found: -1,
            minimum: 0,
        };
        let bytes = [1, 9, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(kind("NoOpRecord", 0, &bytes), negative);
        let tag = DecodeErrorKind::Unexpected {
            found: "tag 1".to_owned(),
            expected: "a tag of version 0".to_owned(),
        };
        let bytes = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0];
        assert_eq!(kind("BrokerRegistrationChangeRecord", 0, &bytes), tag);
        let mut long = vec![0x81, 0x80, 0x02];
        long.extend([b'a'; 0x8000]);
        let too_long = DecodeErrorKind::Unexpected {
            found: "32768 bytes".to_owned(),
            expected: "at most 32767 bytes".to_owned(),
        };
        assert_eq!(kind("ClearElrRecord", 0, &long), too_long);
    }

    /// `elements` elements behind epoch, count and all: each an empty subtopology, whose id and six
    /// arrays take a byte each, and its count of tagged fields another.
    fn topology_of(elements: u32) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 1];
        varint::write_uvarint(elements + 1, &mut bytes);
        for _ in 0..elements {
            bytes.extend([1, 1, 1, 1, 1, 1, 1, 0]);
        }
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_record_has_no_more_values_than_the_limit() {
        let topology = find("StreamsGroupTopologyValue");
        // Epoch and array, then struct and seven fields an element.
        let most = (MAX_VALUES - 2) / 8;
        let bytes = topology_of(most);
        let (_, size) = topology.decode(&bytes, 0).unwrap();
        assert_eq!(size, bytes.len());
        let error = topology.decode(&topology_of(most + 1), 0).unwrap_err();
        let kind = DecodeErrorKind::TooManyValues { limit: MAX_VALUES };
        assert_eq!(error.kind, kind);
        let limit = "of a record, of which 1048576 are decoded";
        assert!(error.to_string().contains(limit), "{error}");
    }

    #[test]
    fn an_element_of_an_array_takes_a_byte_at_least() {
        fn has_size(field_type: Type, flexible: bool, version: i16) -> bool {
            let Type::Struct(fields) = field_type else {
                return true;
            };
            // A flexible struct has the count of its tagged fields.
            let mut plain = fields.iter().filter(|f| f.versions.contains(version));
            flexible || plain.any(|field| has_size(field.field_type, flexible, version))
        }
        fn check(fields: &[Field], flexible: bool, version: i16) {
            for field in fields.iter().filter(|f| f.versions.contains(version)) {
                let mut field_type = field.field_type;
                while let Type::Array(element) = field_type {
                    assert!(has_size(*element, flexible, version), "{}", field.name);
                    field_type = *element;
                }
                if let Type::Struct(fields) = field_type {
                    check(fields, flexible, version);
                }
                assert!(field.tag.is_none() || flexible, "{}", field.name);
            }
        }
        for message in messages() {
            for version in message.versions.first..=message.versions.last {
                let flexible = message.flexible_versions.contains(version);
                check(message.fields, flexible, version);
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            for message in messages() {
                for version in message.versions.first..=message.versions.last {
                    if let Ok((value, size)) = message.decode(&bytes, version) {
                        prop_assert!(size <= bytes.len());
                        // What was read can be written, and says the same again.
                        let encoded = message.encode(&value, version).unwrap();
                        let (again, _) = message.decode(&encoded, version).unwrap();
                        prop_assert_eq!(message.encode(&again, version).unwrap(), encoded);
                    }
                }
            }
        }
    }
}
