//! Keys, values and header values in rows: bytes as text where they are, decoded where asked.
//!
//! | form | when |
//! |---|---|
//! | `null` | there are no bytes |
//! | `{"utf8": ".."}` | bytes that are UTF-8, or a string decoder |
//! | `{"base64": ".."}`, `{"hex": ".."}` | other bytes |
//! | `{"int": 7}`, `{"long": 7}`, `{"json": ..}` | a decoder that fits the bytes |
//! | `{"type": .., "data": ..}`, `{"version": .., "data": ..}` | records that only Kafka writes |
//!
//! Decides `DumpLogSegments` and the decoders in `org.apache.kafka.tools.api`.

use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};
use serde_json::Value;

use crate::format::base64;
use crate::format::record::RecordHeaders;

/// How bytes that are no text are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BytesForm {
    /// Base64 with padding.
    #[default]
    Base64,
    /// Lower-case hexadecimal.
    Hex,
}

/// How keys or values are decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoder {
    /// Text where it is UTF-8, else bytes.
    #[default]
    Auto,
    /// Text; what is not UTF-8 has U+FFFD in its place, as in Kafka's `StringDecoder`.
    String,
    /// A 32-bit integer, big endian (`IntegerDecoder`).
    Int,
    /// A 64-bit integer, big endian (`LongDecoder`).
    Long,
    /// JSON text.
    Json,
    /// Bytes, even if they are text.
    Bytes,
}

/// A key, a value or a header value.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a> {
    /// No bytes.
    Null,
    /// Bytes, by [`Decoder::Auto`] and this form.
    Bytes(&'a [u8], BytesForm),
    /// Bytes that are not looked into.
    Opaque(&'a [u8], BytesForm),
    /// Text with marks where it was not UTF-8.
    Lossy(String),
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// What JSON text says.
    Json(Value),
    /// A key or value that only Kafka writes, in Kafka's own JSON form.
    Kafka(Value),
}

impl<'a> Content<'a> {
    /// The bytes as the decoder has them; as bytes where they are not what it expects.
    #[must_use]
    pub fn new(bytes: Option<&'a [u8]>, decoder: Decoder, form: BytesForm) -> Self {
        let Some(bytes) = bytes else {
            return Self::Null;
        };
        match decoder {
            Decoder::Auto => Self::Bytes(bytes, form),
            Decoder::String => match std::str::from_utf8(bytes) {
                Ok(_) => Self::Bytes(bytes, form),
                Err(_) => Self::Lossy(String::from_utf8_lossy(bytes).into_owned()),
            },
            Decoder::Int => match bytes.try_into() {
                Ok(bytes) => Self::Int(i32::from_be_bytes(bytes)),
                Err(_) => Self::Bytes(bytes, form),
            },
            Decoder::Long => match bytes.try_into() {
                Ok(bytes) => Self::Long(i64::from_be_bytes(bytes)),
                Err(_) => Self::Bytes(bytes, form),
            },
            Decoder::Json => match serde_json::from_slice(bytes) {
                Ok(value) => Self::Json(value),
                Err(_) => Self::Bytes(bytes, form),
            },
            Decoder::Bytes => Self::Opaque(bytes, form),
        }
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Bytes(bytes, form) => match std::str::from_utf8(bytes) {
                Ok(text) => one(serializer, "utf8", text),
                Err(_) => encoded(serializer, bytes, *form),
            },
            Self::Opaque(bytes, form) => encoded(serializer, bytes, *form),
            Self::Lossy(text) => one(serializer, "utf8", text),
            Self::Int(number) => one(serializer, "int", number),
            Self::Long(number) => one(serializer, "long", number),
            Self::Json(value) => one(serializer, "json", value),
            Self::Kafka(value) => value.serialize(serializer),
        }
    }
}

/// `{"KEY": VALUE}`.
fn one<S: Serializer>(
    serializer: S,
    key: &'static str,
    value: &(impl Serialize + ?Sized),
) -> Result<S::Ok, S::Error> {
    let mut object = serializer.serialize_struct("Content", 1)?;
    object.serialize_field(key, value)?;
    object.end()
}

fn encoded<S: Serializer>(serializer: S, bytes: &[u8], form: BytesForm) -> Result<S::Ok, S::Error> {
    let key = match form {
        BytesForm::Base64 => "base64",
        BytesForm::Hex => "hex",
    };
    one(serializer, key, &Encoded { bytes, form })
}

/// What tables print; JSON has it all.
impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bytes(bytes, form) => match std::str::from_utf8(bytes) {
                Ok(text) => f.write_str(text),
                Err(_) => Encoded { bytes, form: *form }.fmt(f),
            },
            Self::Opaque(bytes, form) => Encoded { bytes, form: *form }.fmt(f),
            Self::Lossy(text) => f.write_str(text),
            Self::Int(number) => number.fmt(f),
            Self::Long(number) => number.fmt(f),
            Self::Json(value) => value.fmt(f),
            Self::Kafka(value) => short(value, f),
        }
    }
}

/// `TYPE vVERSION DATA` of Kafka's form.
fn short(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(data) = value.get("data") else {
        return write!(f, "{value}");
    };
    let text = |field: &Value| {
        let text = field.as_str().map(str::to_owned);
        text.unwrap_or_else(|| field.to_string())
    };
    if let Some(record_type) = value.get("type") {
        write!(f, "{} ", text(record_type))?;
    }
    if let Some(version) = value.get("version") {
        write!(f, "v{} ", text(version))?;
    }
    write!(f, "{data}")
}

/// Bytes as letters.
struct Encoded<'a> {
    bytes: &'a [u8],
    form: BytesForm,
}

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.form {
            BytesForm::Base64 => base64::write(self.bytes, f),
            BytesForm::Hex => write_hex(self.bytes, f),
        }
    }
}

fn write_hex(bytes: &[u8], out: &mut impl fmt::Write) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    const PIECE: usize = 128;
    let digit = |digit: u8| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'?');
    let mut text = [0; 2 * PIECE];
    for piece in bytes.chunks(PIECE) {
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(piece) {
            *pair = [byte >> 4, byte & 15].map(digit);
        }
        let letters = text.get(..2 * piece.len()).unwrap_or_default();
        out.write_str(std::str::from_utf8(letters).map_err(|_| fmt::Error)?)?;
    }
    Ok(())
}

/// The headers of a record: `[{"key": "h", "value": ..}]`, in the record's order.
#[derive(Clone, Debug, Default)]
pub struct HeadersRow<'a> {
    /// Where they lie, already seen to be whole; `None` where the format has none.
    pub headers: Option<RecordHeaders<'a>>,
    /// How values that are no text are shown.
    pub form: BytesForm,
    /// Show no values.
    pub keys_only: bool,
}

/// A header.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeaderRow<'a> {
    /// The key; bytes that are not UTF-8 have U+FFFD in their place.
    pub key: std::borrow::Cow<'a, str>,
    /// The value.
    pub value: Content<'a>,
}

impl<'a> HeadersRow<'a> {
    /// The headers one after another.
    pub fn rows(&self) -> impl Iterator<Item = HeaderRow<'a>> + use<'a> {
        let form = self.form;
        let keys_only = self.keys_only;
        let headers = self.headers.clone().into_iter().flatten();
        // Headers that do not parse end the batch before they get here.
        headers.map_while(Result::ok).map(move |header| HeaderRow {
            key: String::from_utf8_lossy(header.key),
            value: Content::new(header.value.filter(|_| !keys_only), Decoder::Auto, form),
        })
    }
}

impl Serialize for HeadersRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows())
    }
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{Content, HeaderRow, HeadersRow};

    impl JsonSchema for Content<'_> {
        fn schema_name() -> Cow<'static, str> {
            "Content".into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            let one = |key: &str, value: Schema| {
                json_schema!({
                    "type": "object",
                    "properties": { key: value },
                    "required": [key],
                    "additionalProperties": false,
                })
            };
            let text = || json_schema!({ "type": "string" });
            let number = || json_schema!({ "type": "integer" });
            json_schema!({
                "description": "Bytes as text where they are UTF-8, else base64 or hex; decoded \
                    where asked; records that only Kafka writes in Kafka's own form.",
                "anyOf": [
                    { "type": "null" },
                    one("utf8", text()),
                    one("base64", text()),
                    one("hex", text()),
                    one("int", number()),
                    one("long", number()),
                    one("json", json_schema!(true)),
                    { "type": "object", "required": ["data"] },
                ],
            })
        }
    }

    impl JsonSchema for HeadersRow<'_> {
        fn schema_name() -> Cow<'static, str> {
            "Headers".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            generator.subschema_for::<Vec<HeaderRow<'_>>>()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(bytes: &[u8], decoder: Decoder) -> String {
        let content = Content::new(Some(bytes), decoder, BytesForm::Base64);
        serde_json::to_string(&content).unwrap()
    }

    #[test]
    fn bytes_are_text_where_they_are_utf8() {
        assert_eq!(json(b"a\"\x1b", Decoder::Auto), r#"{"utf8":"a\"\u001b"}"#);
        assert_eq!(json(b"", Decoder::Auto), r#"{"utf8":""}"#);
        assert_eq!(json(b"\xff\xfe", Decoder::Auto), r#"{"base64":"//4="}"#);
        assert_eq!(json(b"abc", Decoder::Bytes), r#"{"base64":"YWJj"}"#);
        let hex = Content::new(Some(b"\xffa"), Decoder::Auto, BytesForm::Hex);
        assert_eq!(serde_json::to_string(&hex).unwrap(), r#"{"hex":"ff61"}"#);
        let null = Content::new(None, Decoder::Int, BytesForm::Hex);
        assert_eq!(serde_json::to_string(&null).unwrap(), "null");
    }

    #[test]
    fn decoders_take_what_fits_and_leave_the_rest_as_it_is() {
        assert_eq!(json(&[0, 0, 1, 0], Decoder::Int), r#"{"int":256}"#);
        assert_eq!(json(b"abc", Decoder::Int), r#"{"utf8":"abc"}"#);
        assert_eq!(json(&[255; 8], Decoder::Long), r#"{"long":-1}"#);
        assert_eq!(
            json(b"{\"b\":1, \"a\":2}", Decoder::Json),
            r#"{"json":{"b":1,"a":2}}"#
        );
        assert_eq!(json(b"{", Decoder::Json), r#"{"utf8":"{"}"#);
        assert_eq!(json(b"a\xff", Decoder::String), "{\"utf8\":\"a\u{fffd}\"}");
    }

    proptest! {
        #[test]
        fn pieces_of_hex_make_one(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let form = BytesForm::Hex;
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(Encoded { bytes: &bytes, form }.to_string(), digits);
        }
    }
}
