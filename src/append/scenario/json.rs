//! JSON with its places: every complaint names the step and the field.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Why a scenario cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", Place(path))]
pub struct ScenarioError {
    /// Where, as in `steps[3].append.records[0].timestamp`; empty if it is no JSON at all.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "{}: ", self.0)
        }
    }
}

/// A JSON value; objects keep their order and have no name twice.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    /// A number that is no 64-bit integer.
    OtherNumber,
    Text(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ScenarioError> {
        let no_json = |message| ScenarioError {
            path: String::new(),
            message,
        };
        let text = utf8(bytes).map_err(no_json)?;
        serde_json::from_str(text).map_err(|error| no_json(error.to_string()))
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Integer(_) => "an integer",
            Self::OtherNumber => "a number that is no 64-bit integer",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// JSON is UTF-8 without a byte order mark (RFC 8259, 8.1); editors write other things.
fn utf8(bytes: &[u8]) -> Result<&str, String> {
    let encoding = match bytes {
        [0xef, 0xbb, 0xbf, ..] => Some("a UTF-8 byte order mark"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("the byte order mark of UTF-16"),
        _ => None,
    };
    if let Some(encoding) = encoding {
        return Err(format!(
            "begins with {encoding}: save it as UTF-8 without byte order mark"
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let before = bytes.get(..at).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let byte = bytes.get(at).copied().unwrap_or_default();
        format!("is not UTF-8: byte {byte:#04x} at position {at}, in line {line}")
    })
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::OtherNumber, Json::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::OtherNumber)
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = array.next_element()? {
            values.push(value);
        }
        Ok(Json::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields: Vec<(String, Json)> = Vec::new();
        while let Some(name) = object.next_key::<String>()? {
            if fields.iter().any(|(other, _)| *other == name) {
                return Err(A::Error::custom(format_args!(
                    "field \"{name}\" comes twice"
                )));
            }
            fields.push((name, object.next_value()?));
        }
        Ok(Json::Object(fields))
    }
}

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
enum At<'a> {
    Root,
    Field(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

impl At<'_> {
    fn write(&self, path: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(path);
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
            Self::Index(parent, index) => {
                parent.write(path);
                path.push('[');
                path.push_str(&index.to_string());
                path.push(']');
            }
        }
    }
}

/// A value and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    value: &'a Json,
    at: At<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn root(value: &'a Json) -> Self {
        Self {
            value,
            at: At::Root,
        }
    }

    /// A complaint about this value.
    pub(super) fn error(&self, message: impl fmt::Display) -> ScenarioError {
        let mut path = String::new();
        self.at.write(&mut path);
        ScenarioError {
            path,
            message: message.to_string(),
        }
    }

    fn expected(&self, what: &str) -> ScenarioError {
        self.error(format_args!("expected {what}, found {}", self.value.kind()))
    }

    pub(super) fn fields(&self) -> Result<&'a [(String, Json)], ScenarioError> {
        let Json::Object(fields) = self.value else {
            return Err(self.expected("an object"));
        };
        Ok(fields)
    }

    /// An error if there is a field other than these.
    pub(super) fn only(&self, allowed: &[&str]) -> Result<(), ScenarioError> {
        for (name, value) in self.fields()? {
            if !allowed.contains(&name.as_str()) {
                let at = At::Field(&self.at, name);
                return Err(Node { value, at }.error("unknown field"));
            }
        }
        Ok(())
    }

    pub(super) fn get<'b>(&'b self, name: &'b str) -> Option<Node<'b>> {
        let Json::Object(fields) = self.value else {
            return None;
        };
        let (_, value) = fields.iter().find(|(field, _)| field == name)?;
        let at = At::Field(&self.at, name);
        Some(Node { value, at })
    }

    pub(super) fn required<'b>(&'b self, name: &'b str) -> Result<Node<'b>, ScenarioError> {
        self.get(name)
            .ok_or_else(|| self.error(format_args!("missing field \"{name}\"")))
    }

    /// Calls `each` with the elements of an array.
    pub(super) fn each<T>(
        &self,
        mut each: impl FnMut(&Node<'_>) -> Result<T, ScenarioError>,
    ) -> Result<Vec<T>, ScenarioError> {
        let Json::Array(values) = self.value else {
            return Err(self.expected("an array"));
        };
        values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let at = At::Index(&self.at, index);
                each(&Node { value, at })
            })
            .collect()
    }

    pub(super) fn int64(&self) -> Result<i64, ScenarioError> {
        let Json::Integer(value) = self.value else {
            return Err(self.expected("an integer"));
        };
        Ok(*value)
    }

    /// An integer that fits `T`.
    pub(super) fn int<T: TryFrom<i64>>(&self) -> Result<T, ScenarioError> {
        let value = self.int64()?;
        T::try_from(value)
            .map_err(|_| self.error(format_args!("{value} is out of range for this field")))
    }

    pub(super) fn bool(&self) -> Result<bool, ScenarioError> {
        let Json::Bool(value) = self.value else {
            return Err(self.expected("true or false"));
        };
        Ok(*value)
    }

    pub(super) fn text(&self) -> Result<&'a str, ScenarioError> {
        let Json::Text(value) = self.value else {
            return Err(self.expected("a string"));
        };
        Ok(value)
    }

    /// An integer field, or its default.
    pub(super) fn int_or<T: TryFrom<i64>>(
        &self,
        name: &str,
        default: T,
    ) -> Result<T, ScenarioError> {
        self.get(name).map_or(Ok(default), |node| node.int())
    }

    pub(super) fn bool_or(&self, name: &str, default: bool) -> Result<bool, ScenarioError> {
        self.get(name).map_or(Ok(default), |node| node.bool())
    }

    /// A field whose text is one of `choices`, or its default.
    pub(super) fn choice_or<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, ScenarioError> {
        self.get(name)
            .map_or(Ok(default), |node| node.choice(choices))
    }

    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ScenarioError> {
        let text = self.text()?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.error(format_args!("\"{text}\" is none of {}", names.join(", ")))
        })
    }

    /// Text as it stands, numbers and truth values as text: how Kafka reads configurations.
    pub(super) fn as_text(&self) -> Result<String, ScenarioError> {
        match self.value {
            Json::Text(value) => Ok(value.clone()),
            Json::Integer(value) => Ok(value.to_string()),
            Json::Bool(value) => Ok(value.to_string()),
            Json::Null | Json::OtherNumber | Json::Array(_) | Json::Object(_) => {
                Err(self.expected("a string or a number"))
            }
        }
    }

    /// A string, null, or `{"base64": ...}`.
    pub(super) fn bytes(&self) -> Result<Option<Vec<u8>>, ScenarioError> {
        match self.value {
            Json::Null => Ok(None),
            Json::Text(text) => Ok(Some(text.as_bytes().to_vec())),
            Json::Object(_) => {
                self.only(&["base64"])?;
                let text = self.required("base64")?;
                let bytes = crate::format::base64::decode(text.text()?);
                bytes.map(Some).ok_or_else(|| text.error("is not base64"))
            }
            Json::Bool(_) | Json::Integer(_) | Json::OtherNumber | Json::Array(_) => {
                Err(self.expected("a string, null or {\"base64\": ...}"))
            }
        }
    }
}
