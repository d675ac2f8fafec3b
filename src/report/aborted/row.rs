//! A row of `aborted`.

use serde::Serialize;

/// The reason of a row at the end of an index that reaches further than the log.
pub(super) const BEHIND_END: &str = "its marker would lie behind the log end";

/// The reason of a row that is right and that nothing but itself bears out.
pub(super) const MARKER_GONE: &str = "its marker was cleaned away, and the row alone says that it \
                                      was rolled back: an index that is made anew shows it";

/// An aborted transaction, in the log, in an index, or in both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AbortedRow<'a> {
    /// Topic, as the directory's name says.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Whose transaction; null in what is left of a torn row.
    pub producer_id: Option<i64>,
    /// Its first offset: the index's where it has the row, else the log's.
    pub first_offset: Option<i64>,
    /// Offset of its marker.
    pub last_offset: Option<i64>,
    /// The last stable offset when it ended: the index's where it has the row, else the log's. A
    /// follower's index may have a higher one than the log gives.
    pub last_stable_offset: Option<i64>,
    /// Whether the `.txnindex` has it: a broker hides it.
    pub in_index: bool,
    /// Whether the batches give it: a broker that rebuilds the index hides it.
    pub in_log: bool,
    /// The first offset the batches give; higher than the index's where the first batches were
    /// compacted away.
    pub log_first_offset: Option<i64>,
    /// The last stable offset the batches give.
    pub log_last_stable_offset: Option<i64>,
    /// The `.txnindex` of the segment with the marker, whether it is there or not.
    pub file: String,
    /// Byte position of the row in it.
    pub position: Option<u64>,
    /// How many rows of the index behind each other say this, for whoever tells them as one.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(in crate::report) times: u64,
    /// Data batches of the transaction in the log.
    pub batches: u64,
    /// Data records in the log, by the batch headers.
    pub records: u64,
    /// Bytes of the data batches in the log.
    pub size_in_bytes: u64,
    /// Largest timestamp of the first batch, in milliseconds.
    pub start_timestamp: Option<i64>,
    /// Time of the marker, in milliseconds.
    pub end_timestamp: Option<i64>,
    /// What is wrong: `txnindex-entry-missing`, `txnindex-entry-surplus`,
    /// `txnindex-entry-starts-late`, `txnindex-entry-torn`, `txnindex-entry-unreadable` or
    /// `txnindex-stable-offset`.
    pub finding: Option<&'static str>,
    /// Why a row that is on one side only is so; or what is wrong with it.
    pub reason: Option<&'static str>,
    /// Offsets of data batches that were rolled back and that consumers see all the same.
    pub exposed_offsets: Vec<(i64, i64)>,
    /// Records in them, by the batch headers.
    pub exposed_records: u64,
    /// Offsets of data batches that were not rolled back and that consumers do not see.
    pub hidden_offsets: Vec<(i64, i64)>,
    /// Records in them, by the batch headers.
    pub hidden_records: u64,
}

impl AbortedRow<'_> {
    /// Whether the log may have lost what the index kept.
    #[must_use]
    pub fn ends_behind_log(&self) -> bool {
        self.reason == Some(BEHIND_END)
    }

    /// Whether the row alone says that its records were rolled back: the marker is not in the log,
    /// and so a rebuilt index lacks the row.
    #[must_use]
    pub fn has_lost_marker(&self) -> bool {
        self.reason == Some(MARKER_GONE)
    }
}
