//! The JSON of a message to the bytes that Kafka writes of it.

use serde_json::{Map, Value};

use super::decode::is_default;
use super::types::{Field, Message, Type};
use crate::format::base64;
use crate::format::compact::MAX_STRING_SIZE;
use crate::format::kafka_uuid::KafkaUuid;
use crate::format::varint::write_uvarint;

/// JSON that is not the message it was taken for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure} {field} {kind}")]
#[non_exhaustive]
pub struct EncodeError {
    /// Kafka's name of the message.
    pub structure: &'static str,
    /// The field at fault.
    pub field: String,
    /// What is wrong.
    pub kind: EncodeErrorKind,
}

/// Why JSON could not be encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// A version the message does not have.
    #[error("is {found}, newest known is {newest}")]
    UnknownVersion {
        /// The version asked for.
        found: i16,
        /// The newest version of the message.
        newest: i16,
    },
    /// A field that must be there is not.
    #[error("is missing")]
    Missing,
    /// A field that this version of the message does not have.
    #[error("is no field of this version")]
    UnknownField,
    /// A value of another type or out of range.
    #[error("is {found}, expected {expected}")]
    Unexpected {
        /// The JSON found, cut after some characters.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// More bytes or elements than the format has room for.
    #[error("has a length of {found}, above the maximum of {maximum}")]
    TooLong {
        /// Bytes or elements found.
        found: usize,
        /// The highest legal number of them.
        maximum: usize,
    },
}

impl Message {
    /// The bytes of the message with the fields of `value`, which has the form that
    /// [`Message::decode`] gives.
    ///
    /// Unknown tagged fields are the one thing that a decoded message has lost.
    ///
    /// # Errors
    /// If the version is not one of the message's, a plain field is missing, a field is not one of
    /// this version, or a value does not fit the field's type.
    pub fn encode(&self, value: &Value, version: i16) -> Result<Vec<u8>, EncodeError> {
        let encoder = Encoder {
            structure: self.name,
            version,
            flexible: self.flexible_versions.contains(version),
        };
        if !self.versions.contains(version) {
            let newest = self.versions.last;
            let found = version;
            return Err(encoder.error("version", EncodeErrorKind::UnknownVersion { found, newest }));
        }
        let mut out = Vec::new();
        encoder.fields("", self.fields, value, &mut out)?;
        Ok(out)
    }
}

/// Writes one message.
struct Encoder {
    structure: &'static str,
    version: i16,
    flexible: bool,
}

impl Encoder {
    fn fields(
        &self,
        name: &str,
        fields: &[Field],
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let object = value
            .as_object()
            .ok_or_else(|| self.unexpected(name, value, "an object"))?;
        self.refuse_unknown(fields, object)?;
        let mut tagged = Vec::new();
        for field in fields.iter().filter(|f| f.versions.contains(self.version)) {
            match (field.tag, object.get(field.name)) {
                (None, Some(value)) => self.plain_field(field, value, out)?,
                (None, None) => return Err(self.error(field.name, EncodeErrorKind::Missing)),
                (Some(tag), Some(value)) if !is_default(field, value) => {
                    tagged.push((tag, self.tagged_field(field, value)?));
                }
                (Some(_), Some(_) | None) => {}
            }
        }
        if self.flexible {
            tagged.sort_by_key(|(tag, _)| *tag);
            self.write_length("tagged fields", tagged.len(), out)?;
            for (tag, bytes) in tagged {
                write_uvarint(tag, out);
                self.write_length("tagged field size", bytes.len(), out)?;
                out.extend(bytes);
            }
        }
        Ok(())
    }

    fn refuse_unknown(
        &self,
        fields: &[Field],
        object: &Map<String, Value>,
    ) -> Result<(), EncodeError> {
        let known = |name: &String| {
            fields
                .iter()
                .any(|field| field.name == name && field.versions.contains(self.version))
        };
        match object.keys().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => Err(self.error(name, EncodeErrorKind::UnknownField)),
        }
    }

    fn plain_field(
        &self,
        field: &Field,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        if field.is_nullable_struct() {
            // -1 null, 1 present.
            out.push(if value.is_null() { 0xff } else { 1 });
            if value.is_null() {
                return Ok(());
            }
        }
        self.value(field.name, field.field_type, field.nullable, value, out)
    }

    fn tagged_field(&self, field: &Field, value: &Value) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = Vec::new();
        if field.is_nullable_struct() {
            bytes.push(u8::from(!value.is_null()));
            if value.is_null() {
                return Ok(bytes);
            }
        }
        self.value(
            field.name,
            field.field_type,
            field.nullable,
            value,
            &mut bytes,
        )?;
        Ok(bytes)
    }

    fn value(
        &self,
        name: &str,
        field_type: Type,
        nullable: bool,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match field_type {
            Type::Bool => {
                let flag = value.as_bool();
                let flag = flag.ok_or_else(|| self.unexpected(name, value, "true or false"))?;
                out.push(u8::from(flag));
            }
            Type::Int8 => out.extend(self.int::<i8>(name, value, "an int8")?.to_be_bytes()),
            Type::Int16 => out.extend(self.int::<i16>(name, value, "an int16")?.to_be_bytes()),
            Type::Uint16 => out.extend(self.int::<u16>(name, value, "a uint16")?.to_be_bytes()),
            Type::Int32 => out.extend(self.int::<i32>(name, value, "an int32")?.to_be_bytes()),
            Type::Uint32 => out.extend(self.int::<u32>(name, value, "a uint32")?.to_be_bytes()),
            Type::Int64 => out.extend(self.int::<i64>(name, value, "an int64")?.to_be_bytes()),
            Type::Float64 => {
                let number = float64(value);
                let number = number.ok_or_else(|| self.unexpected(name, value, "a float64"))?;
                out.extend(number.to_be_bytes());
            }
            Type::Uuid => {
                let uuid = value
                    .as_str()
                    .and_then(|text| text.parse::<KafkaUuid>().ok());
                let uuid = uuid.ok_or_else(|| self.unexpected(name, value, "an id"))?;
                out.extend(uuid.0);
            }
            Type::String | Type::Bytes | Type::Array(_) if nullable && value.is_null() => {
                self.null(field_type, out);
            }
            Type::String => {
                let text = value.as_str();
                let text = text.ok_or_else(|| self.unexpected(name, value, "a string"))?;
                self.string(name, text, out)?;
            }
            Type::Bytes => {
                let bytes = value.as_str().and_then(base64::decode);
                let bytes = bytes.ok_or_else(|| self.unexpected(name, value, "base64"))?;
                self.length(name, bytes.len(), out)?;
                out.extend(bytes);
            }
            Type::Array(element) => {
                let array = value.as_array();
                let array = array.ok_or_else(|| self.unexpected(name, value, "an array"))?;
                self.length(name, array.len(), out)?;
                for value in array {
                    self.value(name, *element, false, value, out)?;
                }
            }
            Type::Struct(fields) => self.fields(name, fields, value, out)?,
        }
        Ok(())
    }

    fn null(&self, field_type: Type, out: &mut Vec<u8>) {
        if self.flexible {
            out.push(0);
        } else if field_type == Type::String {
            out.extend((-1i16).to_be_bytes());
        } else {
            out.extend((-1i32).to_be_bytes());
        }
    }

    fn string(&self, name: &str, text: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let size = i16::try_from(text.len())
            .map_err(|_| self.too_long(name, text.len(), MAX_STRING_SIZE))?;
        if self.flexible {
            self.length(name, text.len(), out)?;
        } else {
            out.extend(size.to_be_bytes());
        }
        out.extend(text.as_bytes());
        Ok(())
    }

    /// The length before bytes or an array, and before a string where it is compact.
    fn length(&self, name: &str, length: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.flexible {
            self.write_length(name, length.saturating_add(1), out)
        } else {
            let length = i32::try_from(length)
                .map_err(|_| self.too_long(name, length, i32::MAX as usize))?;
            out.extend(length.to_be_bytes());
            Ok(())
        }
    }

    fn write_length(
        &self,
        name: &str,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let length =
            i32::try_from(length).map_err(|_| self.too_long(name, length, i32::MAX as usize))?;
        write_uvarint(length.cast_unsigned(), out);
        Ok(())
    }

    fn int<T: TryFrom<i64>>(
        &self,
        name: &str,
        value: &Value,
        expected: &'static str,
    ) -> Result<T, EncodeError> {
        value
            .as_i64()
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| self.unexpected(name, value, expected))
    }

    fn too_long(&self, name: &str, found: usize, maximum: usize) -> EncodeError {
        self.error(name, EncodeErrorKind::TooLong { found, maximum })
    }

    fn unexpected(&self, name: &str, value: &Value, expected: &'static str) -> EncodeError {
        /// Enough to recognise the value in an error that goes on a line.
        const SHOWN: usize = 40;
        let found = value.to_string().chars().take(SHOWN).collect();
        self.error(name, EncodeErrorKind::Unexpected { found, expected })
    }

    fn error(&self, field: &str, kind: EncodeErrorKind) -> EncodeError {
        EncodeError {
            structure: self.structure,
            field: field.to_owned(),
            kind,
        }
    }
}

fn float64(value: &Value) -> Option<f64> {
    match value.as_str() {
        None => value.as_f64(),
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::format::schema::messages;

    fn kind(name: &str, version: i16, value: &Value) -> EncodeErrorKind {
        let message = messages().find(|message| message.name == name).unwrap();
        message.encode(value, version).unwrap_err().kind
    }

    #[test]
    fn each_refusal_names_its_cause() {
        let missing = kind("OffsetCommitKey", 0, &json!({"group": "g", "topic": "t"}));
        assert_eq!(missing, EncodeErrorKind::Missing);
        let unknown = kind("GroupMetadataKey", 0, &json!({"group": "g", "groups": 1}));
        assert_eq!(unknown, EncodeErrorKind::UnknownField);
        let version = kind("GroupMetadataKey", 1, &json!({"group": "g"}));
        let expected = EncodeErrorKind::UnknownVersion {
            found: 1,
            newest: 0,
        };
        assert_eq!(version, expected);
        let range = kind(
            "FeatureLevelRecord",
            0,
            &json!({"name": "n", "featureLevel": 40000}),
        );
        assert_eq!(range.to_string(), "is 40000, expected an int16");
        let long = kind("GroupMetadataKey", 0, &json!({"group": "g".repeat(0x8000)}));
        let expected = EncodeErrorKind::TooLong {
            found: 0x8000,
            maximum: 0x7fff,
        };
        assert_eq!(long, expected);
        let null = kind("GroupMetadataKey", 0, &json!({"group": null}));
        assert_eq!(null.to_string(), "is null, expected a string");
    }

    #[test]
    fn a_tagged_struct_has_a_marker_of_one() {
        let mut value = json!({
            "instanceId": null, "rackId": null, "clientId": "", "clientHost": "",
            "subscribedTopicNames": [], "subscribedTopicRegex": null, "rebalanceTimeoutMs": 1,
            "serverAssignor": null, "classicMemberMetadata": null,
        });
        let message = messages()
            .find(|m| m.name == "ConsumerGroupMemberMetadataValue")
            .unwrap();
        let null = message.encode(&value, 0).unwrap();
        assert_eq!(null, [0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1, 0]);
        value["classicMemberMetadata"] = json!({"sessionTimeoutMs": 5, "supportedProtocols": []});
        let present = message.encode(&value, 0).unwrap();
        assert_eq!(present[11..], [1, 0, 7, 1, 0, 0, 0, 5, 1, 0]);
    }

    /// A value of the field's type, out of a stream of random numbers.
    fn arbitrary(field_type: Type, version: i16, random: &mut dyn FnMut() -> u64) -> Value {
        let number = random();
        match field_type {
            Type::Bool => json!(number.is_multiple_of(2)),
            Type::Int8 => json!(number.to_be_bytes()[0].cast_signed()),
            Type::Int16 => json!(((number >> 48) as u16).cast_signed()),
            Type::Uint16 => json!((number >> 48) as u16),
            Type::Int32 => json!(((number >> 32) as u32).cast_signed()),
            Type::Uint32 => json!((number >> 32) as u32),
            Type::Int64 => json!(number.cast_signed()),
            Type::Float64 => json!(number.cast_signed() as f64),
            Type::Uuid => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                json!(KafkaUuid(bytes).to_string())
            }
            Type::String => json!("\u{e9}x".repeat((number % 100) as usize)),
            Type::Bytes => json!(base64::encode(
                &number.to_be_bytes()[..(number % 9) as usize]
            )),
            Type::Array(element) => {
                let values = (0..number % 3).map(|_| arbitrary(*element, version, random));
                Value::Array(values.collect())
            }
            Type::Struct(fields) => {
                let mut object = Map::new();
                for field in fields.iter().filter(|f| f.versions.contains(version)) {
                    let value = match random() % 4 {
                        0 if field.nullable => Value::Null,
                        _ => arbitrary(field.field_type, version, random),
                    };
                    // The default of a tagged field is shown by leaving the field out.
                    if field.tag.is_none() || !is_default(field, &value) {
                        object.insert(field.name.to_owned(), value);
                    }
                }
                Value::Object(object)
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(seed: u64) {
            let mut state = seed;
            // SplitMix64: enough to vary every field of every message by one seed.
            let mut random = || {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed ^ (mixed >> 27)
            };
            for message in messages() {
                for version in message.versions.first..=message.versions.last {
                    let value = arbitrary(Type::Struct(message.fields), version, &mut random);
                    let bytes = message.encode(&value, version).unwrap();
                    prop_assert_eq!(message.decode(&bytes, version), Ok((value, bytes.len())));
                }
            }
        }
    }
}
