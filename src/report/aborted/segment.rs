//! What a `.txnindex` holds, and what both sides say of the transactions that end in its segment.

use crate::format::aborted_txn::{AbortedTxnRows, ROW_SIZE};
use crate::format::file_name::LogFileKind;
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::{Error, Io};
use crate::report::transactions::Totals;
use crate::state::AbortedTxnRow;

/// One row of a `.txnindex`.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexRow {
    pub(super) row: AbortedTxnRow,
    pub(super) position: u64,
    /// How many rows behind each other say this, the one at `position` first.
    pub(super) times: u64,
}

/// The rows of one segment.
#[derive(Debug, Default)]
pub(super) struct Segment {
    pub(super) index: usize,
    pub(super) file: String,
    /// By last offset.
    pub(super) rows: Vec<IndexRow>,
    /// Where in `rows` the next one is to be found in the log.
    pub(super) next: usize,
    pub(super) found: Vec<Found>,
    /// Bytes behind the last whole row and where they begin.
    pub(super) torn: Option<u64>,
    pub(super) unreadable: Option<u64>,
}

/// A transaction on either side.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) in_index: Option<IndexRow>,
    pub(super) in_log: Option<InLog>,
    pub(super) finding: Option<&'static str>,
    pub(super) reason: Option<&'static str>,
    /// The log may agree: where the marker would be it cannot be read.
    pub(super) has_unreadable_marker: bool,
    /// Where the marker would be there is no batch, or one that the cleaner has emptied.
    pub(super) marker_is_gone: bool,
    /// A COMMIT of the producer lies in the row's offsets.
    pub(super) has_commit: bool,
    /// The batch at the row's first offset, if there is one.
    pub(super) at_first: Option<AtFirst>,
    pub(super) exposed: Vec<Part>,
    pub(super) hidden: Vec<Part>,
    /// Data of which the row alone says that it was rolled back.
    pub(super) rolled_back: Vec<Part>,
}

/// The batch at the first offset of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtFirst {
    /// Transactional data of its producer.
    OwnData,
    /// Something else.
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct InLog {
    pub(super) row: AbortedTxnRow,
    pub(super) batches: u64,
    pub(super) records: u64,
    pub(super) size_in_bytes: u64,
    pub(super) start_timestamp: Option<i64>,
    pub(super) end_timestamp: Option<i64>,
}

/// A data batch, by its offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) records: u64,
}

impl InLog {
    /// The same without data that is of an earlier transaction. When it began is not known then.
    pub(super) fn without(self, earlier: Totals) -> Self {
        Self {
            batches: self.batches.saturating_sub(earlier.batches),
            records: self.records.saturating_sub(earlier.records),
            size_in_bytes: self.size_in_bytes.saturating_sub(earlier.size_in_bytes),
            start_timestamp: None,
            ..self
        }
    }
}

impl Segment {
    /// The next row of the index, if it is that of a transaction which the log ends there.
    pub(super) fn next_of(&self, in_log: AbortedTxnRow) -> Option<IndexRow> {
        self.rows.get(self.next).copied().filter(|it| {
            it.row.last_offset == in_log.last_offset && it.row.producer_id == in_log.producer_id
        })
    }
}

impl Found {
    /// How many rows of the index this is.
    pub(super) fn times(&self) -> u64 {
        self.in_index.map_or(1, |it| it.times)
    }

    pub(super) fn last_offset(&self) -> i64 {
        let in_log = self.in_log.map(|it| it.row.last_offset);
        let in_index = self.in_index.map(|it| it.row.last_offset);
        in_index.or(in_log).unwrap_or(i64::MAX)
    }
}

/// Reads the `.txnindex` of a segment; without one there are no rows.
pub(super) fn read_index(
    dir: &PartitionDir,
    index: usize,
    files: &SegmentFiles,
    io: Io,
) -> Result<Segment, Error> {
    let mut segment = Segment {
        index,
        file: LogFileKind::TransactionIndex(files.base_offset).to_string(),
        ..Segment::default()
    };
    let Some(entry) = files.txn_index.and_then(|place| dir.file(place)) else {
        return Ok(segment);
    };
    let Some(file) = dir.open_file(entry, io)? else {
        return Ok(segment);
    };
    let bytes = file.read_settled()?;
    let rows = AbortedTxnRows::decode(&bytes);
    let positions = (0u64..).step_by(ROW_SIZE);
    segment.unreadable = rows.check_versions().err().map(|error| error.position);
    // Zeros are rows, and a file may have any number of them: those that repeat the one in front of
    // them are one behind it.
    let mut repeats = false;
    for (row, position) in rows.rows().iter().zip(positions) {
        let row = AbortedTxnRow {
            producer_id: row.producer_id(),
            first_offset: row.first_offset(),
            last_offset: row.last_offset(),
            last_stable_offset: row.last_stable_offset(),
        };
        match segment.rows.last_mut() {
            Some(last) if last.row == row && repeats => last.times += 1,
            last => {
                repeats = last.is_some_and(|last| last.row == row);
                segment.rows.push(IndexRow {
                    row,
                    position,
                    times: 1,
                });
            }
        }
    }
    // As Kafka wrote them they rise already.
    segment.rows.sort_by_key(|it| it.row.last_offset);
    let torn = rows.torn_size() as u64;
    segment.torn = (torn > 0 && !file.is_growing()).then(|| bytes.len() as u64 - torn);
    file.check_unchanged()?;
    Ok(segment)
}
