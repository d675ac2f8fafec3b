//! What stands in front of a message whose value says which one it is: records of
//! `__cluster_metadata`, of KRaft snapshots and of `__remote_log_metadata`.
//!
//! | type    | field                              |
//! |---------|------------------------------------|
//! | uvarint | frame version, 1                   |
//! | uvarint | record type (`MetadataRecordType`) |
//! | uvarint | version of the message             |
//!
//! Decides `AbstractApiMessageSerde.read`.

use super::compact::CompactReader;
use super::internal_topic::Undecoded;
use crate::error::DecodeErrorKind;

/// The one frame version that Kafka reads. The preview of KRaft in 2.8 wrote 0.
const FRAME_VERSION: i16 = 1;

/// The frame of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataFrame {
    /// Number of the record type.
    pub record_type: i16,
    /// Version of the message.
    pub version: i16,
    /// Where the message begins in the value.
    pub position: usize,
}

impl MetadataFrame {
    /// The frame at the beginning of a value.
    ///
    /// # Errors
    /// If the bytes end inside it, a number is no short, or Kafka does not read the frame version.
    pub fn decode(value: &[u8]) -> Result<Self, Undecoded> {
        let mut frame = CompactReader::new("metadata record frame", value);
        let frame_version = frame_number(&mut frame, "version")?;
        if frame_version != FRAME_VERSION {
            return Err(Undecoded::UnknownFrameVersion(frame_version));
        }
        Ok(Self {
            record_type: frame_number(&mut frame, "record type")?,
            version: frame_number(&mut frame, "record version")?,
            position: frame.position(),
        })
    }

    /// An error unless the message called `name` ends where the value does, which `end` is the
    /// position behind.
    ///
    /// # Errors
    /// If bytes follow.
    pub fn check_end(name: &'static str, value: &[u8], end: usize) -> Result<(), Undecoded> {
        if end >= value.len() {
            return Ok(());
        }
        let kind = DecodeErrorKind::Unexpected {
            found: format!("followed by {} bytes", value.len() - end),
            expected: "the end of the value".to_owned(),
        };
        let rest = CompactReader::at(name, value, end);
        Err(Undecoded::Damaged(rest.error("", kind)))
    }
}

/// One number of a frame.
fn frame_number(frame: &mut CompactReader<'_>, field: &'static str) -> Result<i16, Undecoded> {
    let before = frame.clone();
    let number = frame.uvarint(field).map_err(Undecoded::Damaged)?;
    if number.cast_signed() > i32::from(i16::MAX) {
        let kind = DecodeErrorKind::Unexpected {
            found: number.to_string(),
            expected: format!("at most {}", i16::MAX),
        };
        return Err(Undecoded::Damaged(before.error(field, kind)));
    }
    // A negative int passes the check above in Kafka too, and is cut to a short.
    #[expect(clippy::cast_possible_truncation, reason = "Java's cast to short")]
    Ok(number.cast_signed() as i16)
}
