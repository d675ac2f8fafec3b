//! What a broker knows of a log that is loaded, beside its producers: aborted transactions, leader
//! epochs.

use serde::Serialize;

use crate::format::aborted_txn::AbortedTxn;
use crate::format::leader_epoch_checkpoint::EpochEntry;

/// A row of a transaction index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    /// Whose transaction.
    pub producer_id: i64,
    /// Offset of its first batch.
    pub first_offset: i64,
    /// Offset of its marker.
    pub last_offset: i64,
    /// The last stable offset when it ended.
    pub last_stable_offset: i64,
}

impl From<&AbortedTxn> for Aborted {
    fn from(row: &AbortedTxn) -> Self {
        Self {
            producer_id: row.producer_id(),
            first_offset: row.first_offset(),
            last_offset: row.last_offset(),
            last_stable_offset: row.last_stable_offset(),
        }
    }
}

/// Rows of transaction indexes in their order. One that repeats the row before it is counted: an
/// index of zeros has very many. As JSON each row stands for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbortedList {
    runs: Vec<(Aborted, usize)>,
}

impl AbortedList {
    /// Adds a row behind the others.
    pub fn push(&mut self, row: Aborted) {
        match self.runs.last_mut() {
            Some((last, times)) if *last == row => *times += 1,
            _ => self.runs.push((row, 1)),
        }
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The rows that do not repeat the one before them.
    pub fn distinct(&self) -> impl Iterator<Item = &Aborted> {
        self.runs.iter().map(|(row, _)| row)
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = &Aborted> {
        let runs = self.runs.iter();
        runs.flat_map(|(row, times)| std::iter::repeat_n(row, *times))
    }
}

impl Serialize for AbortedList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for AbortedList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        Vec::<Aborted>::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<Aborted>::json_schema(generator)
    }
}

/// A leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeaderEpoch {
    /// The epoch.
    pub epoch: i32,
    /// Its first offset.
    pub start_offset: i64,
}

impl From<EpochEntry> for LeaderEpoch {
    fn from(entry: EpochEntry) -> Self {
        Self {
            epoch: entry.epoch,
            start_offset: entry.start_offset,
        }
    }
}
