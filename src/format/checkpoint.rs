//! The offset checkpoints of a log directory, and the frame that all checkpoint files share.
//!
//! ```text
//! 0                       version, exactly 0
//! 2                       number of entries
//! TOPIC PARTITION OFFSET  one line each, in the order of a hash map
//! TOPIC PARTITION OFFSET
//! ```
//!
//! Four files have these entries: recovery-point, replication, log-start and cleaner
//! `-offset-checkpoint`. UTF-8, words between white space. An empty file and a version alone hold
//! no entries. Decides `CheckpointFile`, `OffsetCheckpointFile`.

use std::fmt::{self, Write};

use super::text::{Line, Lines};
use crate::error::{DecodeError, DecodeErrorKind};

const OFFSET_CHECKPOINT: &str = "offset checkpoint";
/// The version of every checkpoint file, the only one there is.
pub const VERSION: i32 = 0;

/// Offsets by partition, from one of the four offset checkpoint files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCheckpoint {
    /// The lines of the file in their order.
    pub entries: Vec<OffsetCheckpointEntry>,
}

/// One line of an offset checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCheckpointEntry {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// What the file says about the partition; which offset this is depends on the file.
    pub offset: i64,
}

impl OffsetCheckpoint {
    /// The entries of the file whose whole content is `bytes`.
    ///
    /// # Errors
    /// If the text is no UTF-8, the version is not 0, a line has not three words, a number is
    /// none, or there are more or fewer lines than the file says. Field `entry` in the error is a
    /// wrong number of words; Kafka logs a word that is no number (fields `partition` and
    /// `offset`) and goes on without the file, and fails on everything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let entries = decode_entries(OFFSET_CHECKPOINT, bytes, |line| {
            let mut words = line.words();
            let (Some(topic), Some(partition), Some(offset), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(line.malformed("entry"));
            };
            Ok(OffsetCheckpointEntry {
                topic: topic.to_owned(),
                partition: line.number("partition", partition)?,
                offset: line.number("offset", offset)?,
            })
        })?;
        Ok(Self { entries })
    }

    /// The offset of a partition. If it has several lines the last one counts, as in Kafka, which
    /// puts them into a map.
    #[must_use]
    pub fn offset(&self, topic: &str, partition: i32) -> Option<i64> {
        let same =
            |entry: &&OffsetCheckpointEntry| entry.partition == partition && entry.topic == topic;
        self.entries
            .iter()
            .rev()
            .find(same)
            .map(|entry| entry.offset)
    }

    /// The content of the file.
    #[must_use]
    pub fn encode(&self) -> String {
        encode_entries(&self.entries)
    }
}

impl fmt::Display for OffsetCheckpointEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.topic, self.partition, self.offset)
    }
}

/// The entries of a checkpoint file with any kind of entry (`CheckpointReadBuffer.read`).
pub(super) fn decode_entries<T>(
    structure: &'static str,
    bytes: &[u8],
    decode_entry: impl Fn(&Line<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut lines = Lines::new(structure, bytes)?;
    let Some(version) = lines.next_line()? else {
        return Ok(Vec::new());
    };
    let found: i32 = version.number("version", version.text)?;
    if found != VERSION {
        return Err(version.error("version", unexpected(found, VERSION)));
    }
    let Some(count) = lines.next_line()? else {
        return Ok(Vec::new());
    };
    let expected: i32 = count.number("entry count", count.text)?;
    let room = usize::try_from(expected).unwrap_or(0);
    let (mut entries, mut found) = (Vec::new(), 0_u64);
    while let Some(line) = lines.next_line()? {
        let entry = decode_entry(&line)?;
        found += 1;
        // More than the file says are an error in the end, and need not be kept for it.
        if entries.len() < room {
            entries.push(entry);
        }
    }
    if u64::try_from(expected) != Ok(found) {
        return Err(count.error("entry count", unexpected(expected, found)));
    }
    Ok(entries)
}

fn unexpected(found: i32, expected: impl ToString) -> DecodeErrorKind {
    DecodeErrorKind::Unexpected {
        found: found.to_string(),
        expected: expected.to_string(),
    }
}

/// The content of a checkpoint file with these entries.
pub(super) fn encode_entries<T: fmt::Display>(entries: &[T]) -> String {
    let mut out = format!("{VERSION}\n{}\n", entries.len());
    for entry in entries {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{entry}");
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A recovery-point-offset-checkpoint written by Kafka 4.3.1.
    const RECOVERY_POINTS: &str = "0\n5\ntx 2 164\ntx 1 173\ntx 0 132\n\
        __transaction_state 0 61\n__transaction_state 1 55\n";

    fn decode(text: &str) -> Result<OffsetCheckpoint, DecodeError> {
        OffsetCheckpoint::decode(text.as_bytes())
    }

    fn message(text: &str) -> String {
        decode(text).unwrap_err().to_string()
    }

    #[test]
    fn kafka_bytes_to_entries_and_back() {
        let checkpoint = decode(RECOVERY_POINTS).unwrap();
        assert_eq!(checkpoint.entries.len(), 5);
        assert_eq!(checkpoint.offset("tx", 0), Some(132));
        assert_eq!(checkpoint.offset("__transaction_state", 1), Some(55));
        assert_eq!(checkpoint.offset("tx", 3), None);
        assert_eq!(checkpoint.encode(), RECOVERY_POINTS);
    }

    #[test]
    fn file_without_entries() {
        for text in ["", "0", "0\n", "0\n0", "0\n0\n", "+0\r\n-0\r\n"] {
            assert_eq!(decode(text), Ok(OffsetCheckpoint::default()), "{text:?}");
        }
    }

    #[test]
    fn last_line_of_a_partition_counts() {
        let checkpoint = decode("0\n2\na 0 1\na 0 2\n").unwrap();
        assert_eq!(checkpoint.offset("a", 0), Some(2));
    }

    #[test]
    fn each_cause_names_its_line() {
        assert_eq!(
            message("1\n0\n"),
            "offset checkpoint version is 1, expected 0 (at position 0)"
        );
        assert_eq!(
            message("zero\n"),
            "offset checkpoint version is not readable in line 1: 'zero' (at position 0)"
        );
        assert_eq!(
            message("0\n 1\na 0 1\n"),
            "offset checkpoint entry count is not readable in line 2: ' 1' (at position 2)"
        );
        assert_eq!(
            message("0\n2\na 0 1\n"),
            "offset checkpoint entry count is 2, expected 1 (at position 2)"
        );
        assert_eq!(
            message("0\n1\na b 0 1\n"),
            "offset checkpoint entry is not readable in line 3: 'a b 0 1' (at position 4)"
        );
        assert_eq!(
            message("0\n1\na 0 1x\n"),
            "offset checkpoint offset is not readable in line 3: 'a 0 1x' (at position 4)"
        );
        assert_eq!(
            message("0\n1\na 2147483648 1\n"),
            "offset checkpoint partition is not readable in line 3: 'a 2147483648 1' \
             (at position 4)"
        );
        assert_eq!(
            message("0\n-1\n"),
            "offset checkpoint entry count is -1, expected 0 (at position 2)"
        );
        // An empty line is a line.
        assert!(decode("0\n1\na 0 1\n\n").is_err());
    }

    proptest! {
        #[test]
        fn round_trip(
            entries in prop::collection::vec(
                ("[a-zA-Z0-9._-]{1,20}", any::<i32>(), any::<i64>()),
                0..5,
            ),
        ) {
            let entries = entries
                .into_iter()
                .map(|(topic, partition, offset)| OffsetCheckpointEntry {
                    topic,
                    partition,
                    offset,
                })
                .collect();
            let checkpoint = OffsetCheckpoint { entries };
            prop_assert_eq!(decode(&checkpoint.encode()), Ok(checkpoint));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[0-9a \n\r]{0,30}") {
            let _ = OffsetCheckpoint::decode(&bytes);
            let _ = decode(&text);
        }
    }
}
