//! `partition.metadata`: the id of the topic that a partition directory belongs to. Kafka 2.8 and
//! later.
//!
//! ```text
//! version: 0
//! topic_id: MXGkq1laQAy1Qs8yxczwXw
//! ```
//!
//! No line end after the second line. Kafka splits at a colon and white space and does not look
//! at the words in front. Decides `PartitionMetadataFile`, `PartitionMetadataReadBuffer`.

use super::kafka_uuid::KafkaUuid;
use super::text::{ENDS_BEFORE, Line, Lines, is_space};
use crate::error::{DecodeError, DecodeErrorKind};

const STRUCTURE: &str = "partition metadata";
/// The version that Kafka writes. It reads higher ones too.
pub const VERSION: i32 = 0;

/// The content of a `partition.metadata` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Version of the file, 0 or higher.
    pub version: i32,
    /// The topic's id, never [`KafkaUuid::ZERO`].
    pub topic_id: KafkaUuid,
}

impl PartitionMetadata {
    /// Simple name of the exception with which a broker stops on a file that does not decode;
    /// `None` if it takes the log directory offline. A line that is missing and an id that is none
    /// are not caught where the rest is (`PartitionMetadataReadBuffer.read`, `Uuid.fromString`).
    #[must_use]
    pub fn uncaught(error: &DecodeError) -> Option<&'static str> {
        if matches!(&error.kind, DecodeErrorKind::Text(it) if it == ENDS_BEFORE) {
            return Some("NullPointerException");
        }
        // A line that has its two halves has an id that does not parse.
        let is_bad_id = error.field == "topic_id"
            && matches!(&error.kind, DecodeErrorKind::Line { text, .. }
                if value_in(text).is_some());
        is_bad_id.then_some("IllegalArgumentException")
    }

    /// The metadata in the file whose whole content is `bytes`.
    ///
    /// # Errors
    /// If a line is missing or has another form, the version is negative, or the id does not
    /// parse or is zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut lines = Lines::new(STRUCTURE, bytes)?;
        let line = lines.required("version")?;
        let version: i32 = line.number("version", value(&line, "version")?)?;
        if version < VERSION {
            let kind = DecodeErrorKind::BelowMinimum {
                found: i64::from(version),
                minimum: i64::from(VERSION),
            };
            return Err(line.error("version", kind));
        }
        let line = lines.required("topic_id")?;
        let topic_id: KafkaUuid = value(&line, "topic_id")?
            .parse()
            .map_err(|_| line.malformed("topic_id"))?;
        if topic_id == KafkaUuid::ZERO {
            let kind = DecodeErrorKind::Unexpected {
                found: topic_id.to_string(),
                expected: "an id other than zero".to_owned(),
            };
            return Err(line.error("topic_id", kind));
        }
        Ok(Self { version, topic_id })
    }

    /// The content of the file.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("version: {}\ntopic_id: {}", self.version, self.topic_id)
    }
}

/// The value of a line.
fn value<'a>(line: &Line<'a>, field: &'static str) -> Result<&'a str, DecodeError> {
    value_in(line.text).ok_or_else(|| line.malformed(field))
}

/// What stands behind the only colon with white space after it.
fn value_in(text: &str) -> Option<&str> {
    let mut pieces = split_at_colons(text);
    match (pieces.next(), pieces.next(), pieces.next()) {
        (Some(_), Some(value), None) if !value.is_empty() => Some(value),
        _ => None,
    }
}

/// The pieces of `text` between colons that white space follows.
fn split_at_colons(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let colon = text
            .match_indices(':')
            .map(|(index, _)| text.split_at(index))
            .find(|(_, behind)| behind.chars().nth(1).is_some_and(is_space));
        let Some((piece, behind)) = colon else {
            rest = None;
            return Some(text);
        };
        let behind = behind.strip_prefix(':').unwrap_or(behind);
        let behind = behind.trim_start_matches(is_space);
        // Java leaves out empty pieces at the end.
        rest = Some(behind).filter(|behind| !behind.is_empty());
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(text: &str) -> Result<PartitionMetadata, DecodeError> {
        PartitionMetadata::decode(text.as_bytes())
    }

    #[test]
    fn kafka_bytes_to_fields_and_back() {
        let text = "version: 0\ntopic_id: jeUSX3tUTbSrwaIOS8yOWg";
        let metadata = decode(text).unwrap();
        assert_eq!(metadata.version, 0);
        assert_eq!(metadata.topic_id.to_string(), "jeUSX3tUTbSrwaIOS8yOWg");
        assert_eq!(metadata.encode(), text);
    }

    #[test]
    fn higher_versions_and_other_words_are_read() {
        let metadata = decode("v:  7\r\nid:\tjeUSX3tUTbSrwaIOS8yOWg\nmore\n").unwrap();
        assert_eq!(metadata.version, 7);
    }

    /// What stops a broker is an id that does not parse; a line without one is an `IOException`
    /// (`String.split` leaves out an empty last piece).
    /// As Kafka 4.3.1 takes them.
    #[test]
    fn what_stands_behind_the_second_line_is_not_read() {
        let with = |more: &[u8]| {
            let text = b"version: 0\ntopic_id: jeUSX3tUTbSrwaIOS8yOWg";
            PartitionMetadata::decode(&[text, more].concat())
        };
        assert!(with(b"\n\xcc").is_ok());
        assert!(with(b"\r\xe2\x82").is_ok());
        let caught = with(b"\xcc").unwrap_err();
        assert_eq!(PartitionMetadata::uncaught(&caught), None);
        assert!(with(b"\n\xff").is_err());
        let uncaught = with(b"%\n\xcc").unwrap_err();
        assert_eq!(
            PartitionMetadata::uncaught(&uncaught),
            Some("IllegalArgumentException")
        );
    }

    #[test]
    fn a_line_without_an_id_is_caught() {
        let uncaught = |text: &str| PartitionMetadata::uncaught(&decode(text).unwrap_err());
        for line in ["topic_id: ", "topic_id:", "topic_id", "", "topic_id: a: b"] {
            assert_eq!(uncaught(&format!("version: 0\n{line}\n")), None, "{line}");
        }
        for line in ["topic_id: a", "topic_id:\ta", "topic_id: a: "] {
            let exception = Some("IllegalArgumentException");
            let text = format!("version: 0\n{line}\n");
            assert_eq!(uncaught(&text), exception, "{line}");
        }
        assert_eq!(uncaught("version: 0\n"), Some("NullPointerException"));
    }

    #[test]
    fn each_cause_has_its_error() {
        let message = |text| decode(text).unwrap_err().to_string();
        assert_eq!(
            message(""),
            "partition metadata version is not readable: the file ends before it (at position 0)"
        );
        assert_eq!(
            message("version: 0\n"),
            "partition metadata topic_id is not readable: the file ends before it (at position 11)"
        );
        assert_eq!(
            message("version:0\n"),
            "partition metadata version is not readable in line 1: 'version:0' (at position 0)"
        );
        assert_eq!(
            message("version: -1\n"),
            "partition metadata version is -1, below the minimum of 0 (at position 0)"
        );
        assert_eq!(
            message("version: 0\ntopic_id: x"),
            "partition metadata topic_id is not readable in line 2: 'topic_id: x' (at position 11)"
        );
        assert_eq!(
            message("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
            "partition metadata topic_id is AAAAAAAAAAAAAAAAAAAAAA, \
             expected an id other than zero (at position 11)"
        );
        assert!(decode("a: b: 0\ntopic_id: jeUSX3tUTbSrwaIOS8yOWg").is_err());
        assert!(decode("version: \ntopic_id: jeUSX3tUTbSrwaIOS8yOWg").is_err());
    }

    proptest! {
        #[test]
        fn round_trip(version in 0..=i32::MAX, mut id: [u8; 16]) {
            id[0] |= 1;
            let metadata = PartitionMetadata { version, topic_id: KafkaUuid(id) };
            prop_assert_eq!(decode(&metadata.encode()), Ok(metadata));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[0a: \n]{0,30}") {
            let _ = PartitionMetadata::decode(&bytes);
            let _ = decode(&text);
        }
    }
}
