//! `meta.properties`: whose log directory this is. A Java properties file.
//!
//! | key            | version 0 (also if there is no version) | version 1     |
//! |----------------|------------------------------------------|---------------|
//! | `version`      | 0                                        | 1             |
//! | `cluster.id`   | optional                                 | required      |
//! | `broker.id`    | optional int                             | not read      |
//! | `node.id`      | not read                                 | required int  |
//! | `directory.id` | optional, since Kafka 3.7                | the same      |
//!
//! Kafka writes the file as UTF-8 and reads it as Latin-1, which differs for no id it makes.
//! Decides `MetaProperties`, `java.util.Properties.load`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

use super::kafka_uuid::KafkaUuid;
use super::text::find_any;
use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "meta.properties";
const NEWEST_VERSION: i32 = 1;

/// The content of a `meta.properties` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaProperties {
    /// 0, or 1 since KRaft.
    pub version: i32,
    /// Id of the cluster.
    pub cluster_id: Option<String>,
    /// `node.id` in version 1, `broker.id` in version 0.
    pub node_id: Option<i32>,
    /// Id of this log directory.
    pub directory_id: Option<KafkaUuid>,
}

impl MetaProperties {
    /// The properties in the file whose whole content is `bytes`.
    ///
    /// # Errors
    /// If an escape is malformed, the version is neither 0 nor 1, an id does not parse, or one is
    /// missing that the version requires. Positions are 0: a key may stand anywhere.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let properties = known_properties(bytes)?;
        let get = |key: &str| properties.get(key).map(String::as_str);
        let version = match get("version") {
            None => 0,
            // `String.trim` takes everything up to the space for white space.
            Some(text) => decode_int("version", text.trim_matches(|c| c <= ' '))?,
        };
        let node_key = match version {
            0 => "broker.id",
            1 => "node.id",
            found => {
                let kind = DecodeErrorKind::UnknownVersion {
                    found: i64::from(found),
                    newest: i64::from(NEWEST_VERSION),
                };
                return Err(DecodeError::new(STRUCTURE, "version", 0, kind));
            }
        };
        let node_id = get(node_key)
            .map(|text| decode_int(node_key, text))
            .transpose()?;
        let cluster_id = get("cluster.id").map(str::to_owned);
        let directory_id = get("directory.id")
            .map(|text| text.parse().map_err(|_| unreadable("directory.id", text)))
            .transpose()?;
        if version != 0 && cluster_id.is_none() {
            return Err(error("cluster.id", "it is missing"));
        }
        if version != 0 && node_id.is_none() {
            return Err(error(node_key, "it is missing"));
        }
        Ok(Self {
            version,
            cluster_id,
            node_id,
            directory_id,
        })
    }

    /// The content of the file, without the date that Kafka puts into a comment.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut out = String::from("#\n");
        let mut put = |key: &str, value: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{key}={}", Escaped(value));
        };
        let node_key = if self.version == 0 {
            "broker.id"
        } else {
            "node.id"
        };
        // The order in which a Java hash map has these keys.
        if let Some(node_id) = self.node_id {
            put(node_key, &node_id.to_string());
        }
        if let Some(directory_id) = self.directory_id {
            put("directory.id", &directory_id.to_string());
        }
        put("version", &self.version.to_string());
        if let Some(cluster_id) = &self.cluster_id {
            put("cluster.id", cluster_id);
        }
        out
    }
}

fn decode_int(key: &'static str, text: &str) -> Result<i32, DecodeError> {
    text.parse().map_err(|_| unreadable(key, text))
}

fn unreadable(key: &'static str, text: &str) -> DecodeError {
    error(key, &format!("'{}'", text.escape_debug()))
}

fn error(key: &'static str, message: &str) -> DecodeError {
    DecodeError::new(STRUCTURE, key, 0, DecodeErrorKind::Text(message.to_owned()))
}

/// A value with the escapes of `Properties.store`; characters outside Latin-1 become `\u` escapes
/// so that they survive being read as Latin-1.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, unit) in self.0.encode_utf16().enumerate() {
            match u8::try_from(unit).map(char::from) {
                Ok(' ') if index == 0 => f.write_str("\\ ")?,
                Ok('\t') => f.write_str("\\t")?,
                Ok('\n') => f.write_str("\\n")?,
                Ok('\r') => f.write_str("\\r")?,
                Ok('\x0c') => f.write_str("\\f")?,
                Ok(c @ ('=' | ':' | '#' | '!' | '\\')) => write!(f, "\\{c}")?,
                Ok(c @ ' '..='~') => f.write_char(c)?,
                Ok(_) | Err(_) => write!(f, "\\u{unit:04X}")?,
            }
        }
        Ok(())
    }
}

/// The keys of the file.
const KEYS: [&str; 5] = [
    "version",
    "broker.id",
    "node.id",
    "cluster.id",
    "directory.id",
];

/// The values of these. Of a key that comes twice the last one counts. Nothing else is kept: a file
/// of zeros is one key.
fn known_properties(bytes: &[u8]) -> Result<HashMap<&'static str, String>, DecodeError> {
    let mut properties = HashMap::new();
    for line in logical_lines(bytes) {
        let (key, value) = split_key(&line);
        match known_key(key)? {
            Some(key) => drop(properties.insert(key, unescape(value)?)),
            None => check_escapes(value)?,
        }
    }
    Ok(properties)
}

fn known_key(escaped: &[u8]) -> Result<Option<&'static str>, DecodeError> {
    // Six bytes are the longest way to write a character.
    let longest = KEYS.iter().map(|key| key.len()).max();
    if Some(escaped.len() / 6) > longest {
        return check_escapes(escaped).map(|()| None);
    }
    let key = unescape(escaped)?;
    Ok(KEYS.into_iter().find(|known| *known == key))
}

/// The lines of a Java properties file that have a key, each with those it continues on.
fn logical_lines(bytes: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let mut rest = bytes;
    let lines = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, behind) = take_logical_line(rest);
        rest = behind;
        Some(line)
    });
    lines.filter(|line| !line.is_empty())
}

/// The next line with those it continues on, without the white space in front of each; empty for a
/// comment. Then what follows.
fn take_logical_line(bytes: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut line = Cow::Borrowed(&[][..]);
    let mut rest = bytes;
    let mut is_continued = false;
    loop {
        let (natural, behind) = take_natural_line(rest);
        let natural = trim_start(natural);
        rest = behind;
        if !is_continued && matches!(natural.first(), Some(b'#' | b'!')) {
            return (line, rest);
        }
        let backslashes = natural.iter().rev().take_while(|b| **b == b'\\').count();
        if backslashes % 2 == 0 && !is_continued {
            return (Cow::Borrowed(natural), rest);
        }
        if backslashes % 2 == 0 {
            line.to_mut().extend_from_slice(natural);
            return (line, rest);
        }
        let part = natural.strip_suffix(b"\\").unwrap_or(natural);
        line.to_mut().extend_from_slice(part);
        if rest.is_empty() {
            return (line, rest);
        }
        is_continued = true;
    }
}

/// The bytes up to the next line end, and those behind it.
fn take_natural_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = find_any(bytes, b"\n\r");
    let Some((line, rest)) = end.and_then(|end| bytes.split_at_checked(end)) else {
        return (bytes, &[]);
    };
    let behind = rest.strip_prefix(b"\r\n").or_else(|| rest.get(1..));
    (line, behind.unwrap_or_default())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

fn trim_start(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().take_while(|byte| is_blank(**byte)).count();
    bytes.get(start..).unwrap_or_default()
}

/// A key ends at the first `=`, `:` or white space without a backslash in front; between key and
/// value stand white space and at most one `=` or `:`.
fn split_key(line: &[u8]) -> (&[u8], &[u8]) {
    let mut end = 0;
    let (key, rest) = loop {
        let behind = line.get(end..).unwrap_or_default();
        let Some(found) = find_any(behind, b"=: \t\x0c\\") else {
            break (line, &[][..]);
        };
        end += found;
        if behind.get(found) != Some(&b'\\') {
            break line.split_at_checked(end).unwrap_or((line, &[]));
        }
        // What it escapes ends no key.
        end += 2;
    };
    let rest = trim_start(rest);
    let value = match rest.split_first() {
        Some((b'=' | b':', value)) => trim_start(value),
        Some(_) | None => rest,
    };
    (key, value)
}

/// The text of a key or a value.
fn unescape(bytes: &[u8]) -> Result<String, DecodeError> {
    let mut units: Vec<u16> = Vec::new();
    each_unit(bytes, |unit| units.push(unit))?;
    Ok(String::from_utf16_lossy(&units))
}

/// An error where [`unescape`] fails.
fn check_escapes(bytes: &[u8]) -> Result<(), DecodeError> {
    match find_any(bytes, b"\\") {
        Some(first) => each_unit(bytes.get(first..).unwrap_or_default(), |_| {}),
        None => Ok(()),
    }
}

/// Latin-1 with `\t`, `\n`, `\r`, `\f` and `\uXXXX`; before any other character a backslash is
/// dropped.
fn each_unit(bytes: &[u8], mut push: impl FnMut(u16)) -> Result<(), DecodeError> {
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'\\' {
            push(u16::from(*byte));
            continue;
        }
        match rest.next() {
            Some(b't') => push(u16::from(b'\t')),
            Some(b'n') => push(u16::from(b'\n')),
            Some(b'r') => push(u16::from(b'\r')),
            Some(b'f') => push(0x0c),
            Some(b'u') => {
                let digits = rest.as_slice().first_chunk::<4>();
                push(digits.and_then(hex_unit).ok_or_else(malformed_escape)?);
                rest = rest.as_slice().get(4..).unwrap_or_default().iter();
            }
            Some(other) => push(u16::from(*other)),
            None => {}
        }
    }
    Ok(())
}

fn hex_unit(digits: &[u8; 4]) -> Option<u16> {
    digits.iter().try_fold(0, |unit, digit| {
        let value = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

fn malformed_escape() -> DecodeError {
    error("escape", "four hexadecimal digits must follow \\u")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Written by Kafka 4.3.1.
    const VERSION_1: &[u8] = b"#\n#Sun Nov 29 16:15:46 UTC 2026\nnode.id=1\n\
        directory.id=ogYVyo_2mIRAc_6FXLdw1Q\nversion=1\ncluster.id=3_DpXHfhTY6ELLiqMo1AXg\n";

    fn properties(text: impl AsRef<[u8]>) -> Vec<(String, String)> {
        let pairs = logical_lines(text.as_ref()).map(|line| {
            let (key, value) = split_key(&line);
            (unescape(key).unwrap(), unescape(value).unwrap())
        });
        pairs.collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn kafka_bytes_to_fields_and_back() {
        let meta = MetaProperties::decode(VERSION_1).unwrap();
        let expected = MetaProperties {
            version: 1,
            cluster_id: Some("3_DpXHfhTY6ELLiqMo1AXg".to_owned()),
            node_id: Some(1),
            directory_id: Some("ogYVyo_2mIRAc_6FXLdw1Q".parse().unwrap()),
        };
        assert_eq!(meta, expected);
        let without_date = String::from_utf8(VERSION_1.to_vec())
            .unwrap()
            .replace("#Sun Nov 29 16:15:46 UTC 2026\n", "");
        assert_eq!(meta.encode(), without_date);
    }

    #[test]
    fn version_0_is_the_default_and_requires_nothing() {
        assert_eq!(MetaProperties::decode(b""), Ok(MetaProperties::default()));
        let meta = MetaProperties::decode(b"broker.id=7\nnode.id=x\n").unwrap();
        assert_eq!((meta.version, meta.node_id), (0, Some(7)));
    }

    #[test]
    fn each_cause_has_its_error() {
        let message = |text: &str| {
            MetaProperties::decode(text.as_bytes())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message("version=2"),
            "meta.properties version is 2, newest known is 1 (at position 0)"
        );
        assert_eq!(
            message("version=one"),
            "meta.properties version is not readable: 'one' (at position 0)"
        );
        assert_eq!(
            message("version=1\nnode.id=1"),
            "meta.properties cluster.id is not readable: it is missing (at position 0)"
        );
        assert_eq!(
            message("version=1\ncluster.id=c"),
            "meta.properties node.id is not readable: it is missing (at position 0)"
        );
        assert_eq!(
            message("broker.id=1 "),
            "meta.properties broker.id is not readable: '1 ' (at position 0)"
        );
        assert_eq!(
            message("directory.id=x"),
            "meta.properties directory.id is not readable: 'x' (at position 0)"
        );
        assert!(MetaProperties::decode(b"a=\\u12g4").is_err());
    }

    #[test]
    fn properties_are_read_as_java_reads_them() {
        assert_eq!(
            properties("a=b\r\nc : d\re f"),
            [pair("a", "b"), pair("c", "d"), pair("e", "f")]
        );
        assert_eq!(properties("\n  # no=1\n ! no=2\n\t\n"), []);
        assert_eq!(properties("a\\=b\\ c=d\\te=f"), [pair("a=b c", "d\te=f")]);
        assert_eq!(
            properties("a=b\\\n   c\\\\\nd"),
            [pair("a", "bc\\"), pair("d", "")]
        );
        assert_eq!(
            properties("a=\\u00e9\\ud83d\\ude00"),
            [pair("a", "\u{e9}\u{1f600}")]
        );
        assert_eq!(properties("a==b"), [pair("a", "=b")]);
        assert_eq!(properties("a=b\\"), [pair("a", "b")]);
        let latin_1 = properties(b"a=\xe9");
        assert_eq!(latin_1, [pair("a", "\u{e9}")]);
    }

    proptest! {
        #[test]
        fn round_trip(
            version in 0..=1,
            cluster_id: String,
            node_id: i32,
            directory_id: Option<[u8; 16]>,
        ) {
            let meta = MetaProperties {
                version,
                cluster_id: Some(cluster_id),
                node_id: Some(node_id),
                directory_id: directory_id.map(KafkaUuid),
            };
            prop_assert_eq!(MetaProperties::decode(meta.encode().as_bytes()), Ok(meta));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[=:\\\\u0 a\n\r]{0,30}") {
            let _ = MetaProperties::decode(&bytes);
            let _ = MetaProperties::decode(text.as_bytes());
        }
    }
}
