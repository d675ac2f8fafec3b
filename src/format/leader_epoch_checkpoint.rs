//! `leader-epoch-checkpoint`: at which offset each leader epoch began. Kafka 0.11 and later.
//!
//! The frame of [`super::checkpoint`] with lines `EPOCH STARTOFFSET`, both rising. Lines that do
//! not rise are returned as they are: `LeaderEpochFileCache` drops the earlier ones on load.
//! Decides `LeaderEpochCheckpointFile`.

use std::fmt;

use super::checkpoint::{decode_entries, encode_entries};
use crate::error::DecodeError;

const STRUCTURE: &str = "leader epoch checkpoint";

/// The epochs of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochCheckpoint {
    /// The lines of the file in their order.
    pub entries: Vec<EpochEntry>,
}

/// The beginning of one leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The leader epoch. Epochs without data leave no line.
    pub epoch: i32,
    /// Offset of the first record appended in it, or the log start offset if that is higher.
    pub start_offset: i64,
}

impl LeaderEpochCheckpoint {
    /// Simple name of the exception with which a broker stops on a file that does not decode;
    /// `None` if it takes the log directory offline. A word that is no number is not caught where
    /// the rest is (`LeaderEpochCheckpointFile.Formatter.fromString`).
    #[must_use]
    pub fn uncaught(error: &DecodeError) -> Option<&'static str> {
        matches!(error.field, "epoch" | "startOffset").then_some("NumberFormatException")
    }

    /// The entries of the file whose whole content is `bytes`.
    ///
    /// # Errors
    /// If the text is no UTF-8, the version is not 0, a line has not two words, a number is none,
    /// or there are more or fewer lines than the file says.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let entries = decode_entries(STRUCTURE, bytes, |line| {
            let mut words = line.words();
            let (Some(epoch), Some(start_offset), None) =
                (words.next(), words.next(), words.next())
            else {
                return Err(line.malformed("entry"));
            };
            Ok(EpochEntry {
                epoch: line.number("epoch", epoch)?,
                start_offset: line.number("startOffset", start_offset)?,
            })
        })?;
        Ok(Self { entries })
    }

    /// The content of the file.
    #[must_use]
    pub fn encode(&self) -> String {
        encode_entries(&self.entries)
    }
}

impl fmt::Display for EpochEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.epoch, self.start_offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(text: &str) -> Result<LeaderEpochCheckpoint, DecodeError> {
        LeaderEpochCheckpoint::decode(text.as_bytes())
    }

    #[test]
    fn kafka_bytes_to_entries_and_back() {
        let text = "0\n1\n0 0\n";
        let checkpoint = decode(text).unwrap();
        let entry = EpochEntry {
            epoch: 0,
            start_offset: 0,
        };
        assert_eq!(checkpoint.entries, [entry]);
        assert_eq!(checkpoint.encode(), text);
        assert_eq!(decode("").unwrap().entries, []);
    }

    #[test]
    fn malformed_lines_are_refused() {
        let message = |text| decode(text).unwrap_err().to_string();
        assert_eq!(
            message("0\n1\n0\n"),
            "leader epoch checkpoint entry is not readable in line 3: '0' (at position 4)"
        );
        assert_eq!(
            message("0\n1\n0 x\n"),
            "leader epoch checkpoint startOffset is not readable in line 3: '0 x' (at position 4)"
        );
    }

    proptest! {
        #[test]
        fn round_trip(entries in prop::collection::vec(any::<(i32, i64)>(), 0..5)) {
            let entries = entries
                .into_iter()
                .map(|(epoch, start_offset)| EpochEntry { epoch, start_offset })
                .collect();
            let checkpoint = LeaderEpochCheckpoint { entries };
            prop_assert_eq!(decode(&checkpoint.encode()), Ok(checkpoint));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = LeaderEpochCheckpoint::decode(&bytes);
        }
    }
}
