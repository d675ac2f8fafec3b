//! Ids of topics and directories: 16 bytes, written as 22 characters of URL-safe base64 without
//! padding.
//!
//! Decides `org.apache.kafka.common.Uuid`.

use std::fmt;
use std::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{DecodeError, DecodeErrorKind};

/// Bytes of an id.
pub const SIZE: usize = 16;
/// Characters of an id as text: 128 bits, 6 a character.
pub const TEXT_SIZE: usize = 22;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// An id, ordered by its bytes.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct KafkaUuid(pub [u8; SIZE]);

const _: () = assert!(size_of::<KafkaUuid>() == SIZE);

impl KafkaUuid {
    /// All zeros: no id.
    pub const ZERO: Self = Self([0; SIZE]);
    /// The id of the topic `__cluster_metadata`.
    pub const METADATA_TOPIC_ID: Self = Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// Whether no log directory can have this id (`DirectoryId.reserved`).
    #[must_use]
    pub fn is_reserved_for_directories(self) -> bool {
        let (&most, rest) = self.0.split_first_chunk::<8>().unwrap_or((&[1; 8], &[]));
        let least = rest.first_chunk::<8>().copied().unwrap_or_default();
        i64::from_be_bytes(most) == 0 && i64::from_be_bytes(least) < 100
    }
}

impl fmt::Display for KafkaUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = String::with_capacity(TEXT_SIZE);
        // 21 characters hold 126 bits; the last two are the top bits of the 22nd.
        for shift in (2..SIZE * 8).step_by(6).rev() {
            text.push(letter(bits >> shift));
        }
        text.push(letter(bits << 4));
        f.pad(&text)
    }
}

fn letter(bits: u128) -> char {
    let index = (bits & 0x3f) as usize;
    ALPHABET.get(index).map_or('A', |byte| char::from(*byte))
}

fn value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

impl FromStr for KafkaUuid {
    type Err = DecodeError;

    /// Reads what `Uuid.fromString` reads: padding is optional, and the four bits that the last
    /// character has too many are dropped.
    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let letters = match text.strip_suffix("==") {
            Some(letters) if text.len() == TEXT_SIZE + 2 => letters,
            Some(_) | None => text,
        };
        let Some((last, front)) = letters
            .as_bytes()
            .split_last()
            .filter(|_| letters.len() == TEXT_SIZE)
        else {
            return Err(error(
                0,
                format!("{} characters of the expected {TEXT_SIZE}", text.len()),
            ));
        };
        let mut bits = 0u128;
        for (index, byte) in front.iter().enumerate() {
            bits = bits << 6 | u128::from(value(*byte).ok_or_else(|| no_letter(index))?);
        }
        let last = value(*last).ok_or_else(|| no_letter(front.len()))?;
        bits = bits << 2 | u128::from(last >> 4);
        Ok(Self(bits.to_be_bytes()))
    }
}

fn no_letter(index: usize) -> DecodeError {
    error(index, "this character is not URL-safe base64".to_owned())
}

fn error(index: usize, message: String) -> DecodeError {
    DecodeError::new("uuid", "", index as u64, DecodeErrorKind::Text(message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes and text of one id, from Kafka 4.3.1.
    const BYTES: [u8; 16] = [
        0xa2, 0x06, 0x15, 0xca, 0x8f, 0xf6, 0x98, 0x84, 0x40, 0x73, 0xfe, 0x85, 0x5c, 0xb7, 0x70,
        0xd5,
    ];
    const TEXT: &str = "ogYVyo_2mIRAc_6FXLdw1Q";

    #[test]
    fn kafka_text_to_bytes_and_back() {
        assert_eq!(TEXT.parse(), Ok(KafkaUuid(BYTES)));
        assert_eq!(KafkaUuid(BYTES).to_string(), TEXT);
        assert_eq!(KafkaUuid::ZERO.to_string(), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(
            KafkaUuid::METADATA_TOPIC_ID.to_string(),
            "AAAAAAAAAAAAAAAAAAAAAQ"
        );
    }

    #[test]
    fn what_java_reads_is_read() {
        // Each line was given to Uuid.fromString of 4.3.1.
        let zero = Ok(KafkaUuid::ZERO);
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAB".parse(), zero);
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAA==".parse(), zero);
        let refused = [
            "AAAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAA AA",
            "ogYVyo+2mIRAc_6FXLdw1Q",
            "",
        ];
        for text in refused {
            assert!(text.parse::<KafkaUuid>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(bytes: [u8; 16]) {
            let text = KafkaUuid(bytes).to_string();
            prop_assert_eq!(text.len(), TEXT_SIZE);
            prop_assert_eq!(text.parse(), Ok(KafkaUuid(bytes)));
        }

        #[test]
        fn arbitrary_text_never_panics(text: String, letters in "[A-Za-z0-9_=-]{20,25}") {
            let _ = text.parse::<KafkaUuid>();
            let _ = letters.parse::<KafkaUuid>();
        }
    }
}
