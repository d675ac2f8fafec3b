//! What `read_committed` hides: the aborted transactions the log gives, and those the `.txnindex`
//! files hold, row against row.
//!
//! A broker answers a fetch from the `.txnindex` alone and does not look whether the log agrees.

use std::collections::HashMap;
use std::ops::ControlFlow;

use serde::Serialize;

use super::partition_state::{StateOptions, log_start_offset};
use super::transactions::{TransactionFold, TxnEvent, TxnMarker, known_time, last_offset};
use super::txns::begin;
use crate::format::aborted_txn::{AbortedTxnRows, ROW_SIZE};
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::file_name::LogFileKind;
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::partition_walk::{SegmentAt, open_segment, walk_partition};
use crate::log::{Error, Io};
use crate::state::AbortedTxnRow;

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
    /// Data batches in the log.
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
    /// `txnindex-entry-starts-late`, `txnindex-entry-torn` or `txnindex-entry-unreadable`.
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

/// Which rows a range of offsets selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeRule {
    /// As a fetch: those that reach into the range. Kafka stops at the first row whose last stable
    /// offset is not below the end: no later one can
    /// (`LocalLog.addAbortedTransactions`, `TransactionIndex.collectAbortedTxns`).
    #[default]
    Fetch,
    /// As `UnifiedLog.collectAbortedTransactions`: from the segment that holds the begin on, all
    /// that begin before the end. It holds their markers against the log start, not against the
    /// begin of the range.
    CollectAbortedTransactions,
}

/// What is listed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbortedOptions {
    /// Files, snapshots and end.
    pub state: StateOptions,
    /// Only this producer.
    pub producer_id: Option<i64>,
    /// Begin of the range, included.
    pub from_offset: Option<i64>,
    /// End of the range, not included.
    pub to_offset: Option<i64>,
    /// What reaching into the range means.
    pub range_rule: RangeRule,
}

/// A partition's aborted transactions in numbers. Filters do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbortedSummary {
    /// Aborted transactions the batches give.
    pub in_log: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of their data batches.
    pub size_in_bytes: u64,
    /// Whole rows in the `.txnindex` files.
    pub in_index: u64,
    /// Rows that should be in an index and are not.
    pub missing: u64,
    /// Rows that should not be in an index.
    pub surplus: u64,
    /// Rows whose first offset is too high.
    pub starts_late: u64,
    /// Rows cut short, or of a version Kafka does not read.
    pub broken: u64,
    /// Records that were rolled back and are shown.
    pub exposed_records: u64,
    /// Records that were not rolled back and are hidden.
    pub hidden_records: u64,
    /// ABORT markers of transactions without data here: they have no row, by design.
    pub empty: u64,
    /// Bytes of all batches walked.
    pub walked_bytes: u64,
    /// Segments that vanished meanwhile.
    pub vanished: u64,
}

impl AbortedSummary {
    /// Whether the indexes differ from the log in a way that consumers see, or may come to see.
    #[must_use]
    pub fn disagrees(&self) -> bool {
        self.missing + self.surplus + self.starts_late + self.broken > 0
    }
}

/// Hands out the aborted transactions of a partition in the order of their markers; `None` if the
/// directory has no segment.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn aborted_partition<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &AbortedOptions,
    emit: impl FnMut(&AbortedRow<'_>) -> Result<(), E>,
) -> Result<Option<AbortedSummary>, E> {
    let Some(first) = dir.segments.first() else {
        return Ok(None);
    };
    let log_start_offset = log_start_offset(first.base_offset, checkpoints);
    let (fold, _) = begin(dir, log_start_offset, options.state)?;
    let mut comparison = Comparison {
        dir,
        options,
        log_start_offset,
        fold,
        segment: Segment::default(),
        end: first.base_offset,
        summary: AbortedSummary::default(),
        is_complete: false,
        emit,
    };
    for (index, segment) in dir.segments.iter().enumerate() {
        if !comparison.segment(index, segment)? {
            break;
        }
    }
    Ok(Some(comparison.summary))
}

/// One row of a `.txnindex`.
#[derive(Clone, Copy, Debug)]
struct IndexRow {
    row: AbortedTxnRow,
    position: u64,
}

/// The rows of one segment.
#[derive(Debug, Default)]
struct Segment {
    index: usize,
    file: String,
    /// By last offset.
    rows: Vec<IndexRow>,
    /// Where in `rows` the next one is to be found in the log.
    next: usize,
    found: Vec<Found>,
    /// Bytes behind the last whole row and where they begin.
    torn: Option<u64>,
    unreadable: Option<u64>,
}

/// A transaction on either side.
#[derive(Debug, Default)]
struct Found {
    in_index: Option<IndexRow>,
    in_log: Option<InLog>,
    finding: Option<&'static str>,
    reason: Option<&'static str>,
    exposed: Vec<Part>,
    hidden: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct InLog {
    row: AbortedTxnRow,
    batches: u64,
    records: u64,
    size_in_bytes: u64,
    start_timestamp: Option<i64>,
    end_timestamp: Option<i64>,
}

/// A data batch, by its offsets.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: i64,
    last: i64,
    records: u64,
}

const MISSING: &str = "txnindex-entry-missing";
const SURPLUS: &str = "txnindex-entry-surplus";
const STARTS_LATE: &str = "txnindex-entry-starts-late";
const TORN: &str = "txnindex-entry-torn";
const UNREADABLE: &str = "txnindex-entry-unreadable";

impl Found {
    fn last_offset(&self) -> i64 {
        let in_log = self.in_log.map(|it| it.row.last_offset);
        let in_index = self.in_index.map(|it| it.row.last_offset);
        in_index.or(in_log).unwrap_or(i64::MAX)
    }

    /// The offsets in which a difference can show.
    fn disputed(&self, found: usize) -> Option<Disputed> {
        let in_log = self.in_log.map(|it| it.row);
        let in_index = self.in_index.map(|it| it.row);
        let (row, end, is_surplus) = match (in_index, in_log) {
            (None, Some(log)) => (log, log.last_offset, false),
            (Some(index), Some(log)) if index.first_offset > log.first_offset => {
                (log, index.first_offset, false)
            }
            (Some(index), None) => (index, index.last_offset, true),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Disputed {
            found,
            producer_id: row.producer_id,
            first_offset: row.first_offset,
            end_offset: end,
            is_surplus,
            undecided: Vec::new(),
        })
    }
}

/// Offsets of a producer that one side takes for aborted and the other does not.
#[derive(Debug)]
struct Disputed {
    /// Whose offsets, in the list of what was found.
    found: usize,
    producer_id: i64,
    first_offset: i64,
    /// Offset of the marker, or the first offset that both sides take for aborted.
    end_offset: i64,
    /// Only the index has it.
    is_surplus: bool,
    /// Of a surplus row: batches whose marker is still to come.
    undecided: Vec<Part>,
}

impl Disputed {
    /// Takes in a transactional batch of the producer.
    fn take(
        &mut self,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        found: &mut Found,
    ) {
        let part = Part {
            first: header.base_offset(),
            last: header.last_offset(),
            records: u64::try_from(header.records_count()).unwrap_or(0),
        };
        if part.first < self.first_offset || part.first > self.end_offset {
            return;
        }
        if let Some(marker) = marker {
            // What an ABORT ends is hidden anyhow.
            let undecided = self.undecided.drain(..);
            if marker.control_type == ControlRecordType::COMMIT {
                found.hidden.extend(undecided);
            }
        } else if part.records > 0 && !header.attributes().is_control() {
            if self.is_surplus {
                self.undecided.push(part);
            } else if part.first < self.end_offset {
                found.exposed.push(part);
            }
        }
    }
}

struct Comparison<'a, F> {
    dir: &'a PartitionDir,
    options: &'a AbortedOptions,
    log_start_offset: i64,
    fold: TransactionFold,
    segment: Segment,
    end: i64,
    summary: AbortedSummary,
    /// A fetch would look no further.
    is_complete: bool,
    emit: F,
}

impl<'a, E, F> Comparison<'a, F>
where
    E: From<Error>,
    F: FnMut(&AbortedRow<'_>) -> Result<(), E>,
{
    /// Compares one segment; returns whether to go on.
    fn segment(&mut self, index: usize, files: &SegmentFiles) -> Result<bool, E> {
        let io = self.options.state.io;
        let Some(opened) = open_segment(self.dir, files, io)? else {
            self.summary.vanished += 1;
            return Ok(true);
        };
        self.segment = read_index(self.dir, index, files, io)?;
        self.summary.in_index += self.segment.rows.len() as u64;
        let limit = self.options.state.at_offset.unwrap_or(i64::MAX);
        let at = SegmentAt {
            index,
            base_offset: files.base_offset,
            file: &opened.name,
            size_in_bytes: opened.file.len(),
        };
        let mut goes_on = true;
        let mut walk = BatchWalk::new(&opened.file);
        while let Some(entry) = walk.next_entry() {
            let entry = entry?;
            if last_offset(&entry).is_some_and(|last| last >= limit) {
                goes_on = false;
                break;
            }
            self.entry(at, &entry)?;
        }
        self.finish_segment(limit)?;
        Ok(goes_on)
    }

    #[inline]
    fn entry(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) -> Result<(), Error> {
        let Some(last_offset) = last_offset(entry) else {
            self.fold.take(at, entry)?;
            return Ok(());
        };
        let mut base_offset = last_offset;
        if let Entry::Batch(batch) = entry {
            base_offset = batch.header.base_offset();
            self.summary.walked_bytes += batch.size_in_bytes();
        }
        self.end = self.end.max(last_offset.wrapping_add(1));
        if self.options.state.from_scratch && last_offset < self.log_start_offset {
            self.index_rows_below(last_offset.wrapping_add(1), None);
            return Ok(());
        }
        let event = self.fold.take(at, entry)?;
        self.index_rows_below(base_offset, None);
        match event {
            TxnEvent::Ended {
                transaction,
                marker,
                aborted: Some(row),
            } => {
                let in_log = InLog {
                    row,
                    batches: transaction.batches,
                    records: transaction.records,
                    size_in_bytes: transaction.size_in_bytes,
                    start_timestamp: transaction.start_timestamp,
                    end_timestamp: known_time(marker.timestamp),
                };
                self.aborted_in_log(in_log);
                self.index_rows_below(last_offset.wrapping_add(1), Some(&marker));
            }
            TxnEvent::EmptyTransaction(marker) => {
                self.summary.empty += u64::from(marker.is_abort());
                self.index_rows_below(last_offset.wrapping_add(1), Some(&marker));
            }
            TxnEvent::Ended { .. } | TxnEvent::Nothing | TxnEvent::Refused => {
                self.index_rows_below(last_offset.wrapping_add(1), None);
            }
        }
        Ok(())
    }

    /// An aborted transaction ends here: its row should be the next of the index.
    fn aborted_in_log(&mut self, in_log: InLog) {
        if in_log.row.last_offset >= self.log_start_offset {
            self.summary.in_log += 1;
            self.summary.records += in_log.records;
            self.summary.size_in_bytes += in_log.size_in_bytes;
        }
        let Segment {
            rows, next, found, ..
        } = &mut self.segment;
        let in_index = rows.get(*next).copied().filter(|it| {
            it.row.last_offset == in_log.row.last_offset
                && it.row.producer_id == in_log.row.producer_id
        });
        *next += usize::from(in_index.is_some());
        let (finding, reason) = match in_index {
            None if in_log.records == 0 => (None, Some("its records are compacted away")),
            None => (
                Some(MISSING),
                Some("consumers see records that were rolled back"),
            ),
            Some(it) if it.row.first_offset > in_log.row.first_offset => (
                Some(STARTS_LATE),
                Some("consumers see the first records of what was rolled back"),
            ),
            Some(_) => (None, None),
        };
        found.push(Found {
            in_index,
            in_log: Some(in_log),
            finding,
            reason,
            ..Found::default()
        });
    }

    /// The rows of the index with a last offset below `offset` that no aborted transaction of the
    /// log has taken. `marker` is the one that lies there.
    #[inline]
    fn index_rows_below(&mut self, offset: i64, marker: Option<&TxnMarker>) {
        while let Some(row) = self.segment.rows.get(self.segment.next)
            && row.row.last_offset < offset
        {
            let row = *row;
            self.segment.next += 1;
            self.surplus(row, marker);
        }
    }

    fn surplus(&mut self, in_index: IndexRow, marker: Option<&TxnMarker>) {
        let AbortedTxnRow {
            producer_id,
            first_offset,
            last_offset,
            ..
        } = in_index.row;
        let is_its_marker = marker.is_some_and(|it| {
            it.is_abort() && it.producer_id == producer_id && it.offset == last_offset
        });
        let first_base = self.dir.segments.first().map_or(0, |it| it.base_offset);
        let (finding, reason) = if is_its_marker && first_offset < first_base {
            (None, "its records lie below the log start")
        } else if is_its_marker {
            (None, "its records are compacted away")
        } else if last_offset >= self.end {
            (Some(SURPLUS), "its marker would lie behind the log end")
        } else {
            // Decided when its offsets have been looked at.
            (None, "its marker is not in the log")
        };
        self.segment.found.push(Found {
            in_index: Some(in_index),
            finding,
            reason: Some(reason),
            ..Found::default()
        });
    }

    /// Settles what is left of the index, looks up what a difference shows or hides, and hands
    /// the rows out.
    fn finish_segment(&mut self, limit: i64) -> Result<(), E> {
        self.index_rows_below(limit, None);
        let mut found = std::mem::take(&mut self.segment.found);
        look_up_disputed(self.dir, self.options.state.io, &mut found)?;
        for found in &mut found {
            if !found.hidden.is_empty() {
                found.finding = Some(SURPLUS);
                found.reason = Some("consumers do not see records that were not rolled back");
            }
            self.hand_out(found)?;
        }
        let defects = [
            (
                self.segment.torn,
                TORN,
                "a part of a row at the end; the next row goes behind it",
            ),
            (
                self.segment.unreadable,
                UNREADABLE,
                "a version Kafka does not read: the partition does not load",
            ),
        ];
        for (position, finding, reason) in defects {
            if let Some(position) = position {
                self.summary.broken += 1;
                let mut row = self.row(&Found {
                    finding: Some(finding),
                    reason: Some(reason),
                    ..Found::default()
                });
                row.position = Some(position);
                (self.emit)(&row)?;
            }
        }
        Ok(())
    }

    fn hand_out(&mut self, found: &Found) -> Result<(), E> {
        // Kafka lists none that ended below the log start.
        if found.last_offset() < self.log_start_offset {
            return Ok(());
        }
        let count = |parts: &[Part]| parts.iter().map(|part| part.records).sum::<u64>();
        self.summary.exposed_records += count(&found.exposed);
        self.summary.hidden_records += count(&found.hidden);
        match found.finding {
            Some(MISSING) => self.summary.missing += 1,
            Some(SURPLUS) => self.summary.surplus += 1,
            Some(STARTS_LATE) => self.summary.starts_late += 1,
            Some(_) | None => {}
        }
        if !self.wants(found) {
            return Ok(());
        }
        let row = self.row(found);
        (self.emit)(&row)
    }

    fn wants(&mut self, found: &Found) -> bool {
        let AbortedOptions {
            producer_id,
            from_offset,
            to_offset,
            range_rule,
            ..
        } = *self.options;
        let in_index = found.in_index.map(|it| it.row);
        let Some(row) = in_index.or(found.in_log.map(|it| it.row)) else {
            return true;
        };
        let is_complete = self.is_complete && in_index.is_some();
        let to_offset = to_offset.unwrap_or(i64::MAX);
        if in_index.is_some() && row.last_stable_offset >= to_offset {
            self.is_complete = true;
        }
        let from_offset = from_offset.unwrap_or(i64::MIN);
        let begins_late_enough = match range_rule {
            RangeRule::Fetch => row.last_offset >= from_offset,
            RangeRule::CollectAbortedTransactions => {
                let segments = &self.dir.segments;
                let after = segments.partition_point(|it| it.base_offset <= from_offset);
                self.segment.index + 1 >= after
            }
        };
        begins_late_enough
            && row.first_offset < to_offset
            && !is_complete
            && producer_id.is_none_or(|wanted| wanted == row.producer_id)
    }

    fn row(&self, found: &Found) -> AbortedRow<'a> {
        let in_log = found.in_log;
        let row = found.in_index.map(|it| it.row).or(in_log.map(|it| it.row));
        let ranges = |parts: &[Part]| parts.iter().map(|part| (part.first, part.last)).collect();
        let records = |parts: &[Part]| parts.iter().map(|part| part.records).sum();
        AbortedRow {
            topic: self.dir.topic(),
            partition: self.dir.partition(),
            producer_id: row.map(|row| row.producer_id),
            first_offset: row.map(|row| row.first_offset),
            last_offset: row.map(|row| row.last_offset),
            last_stable_offset: row.map(|row| row.last_stable_offset),
            in_index: found.in_index.is_some(),
            in_log: in_log.is_some(),
            log_first_offset: in_log.map(|it| it.row.first_offset),
            log_last_stable_offset: in_log.map(|it| it.row.last_stable_offset),
            file: self.segment.file.clone(),
            position: found.in_index.map(|it| it.position),
            batches: in_log.map_or(0, |it| it.batches),
            records: in_log.map_or(0, |it| it.records),
            size_in_bytes: in_log.map_or(0, |it| it.size_in_bytes),
            start_timestamp: in_log.and_then(|it| it.start_timestamp),
            end_timestamp: in_log.and_then(|it| it.end_timestamp),
            finding: found.finding,
            reason: found.reason,
            exposed_offsets: ranges(&found.exposed),
            exposed_records: records(&found.exposed),
            hidden_offsets: ranges(&found.hidden),
            hidden_records: records(&found.hidden),
        }
    }
}

/// Reads the `.txnindex` of a segment; without one there are no rows.
fn read_index(
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
    let file = match MappedFile::open(&dir.file_path(entry), io) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(segment),
        Err(error) => return Err(error),
    };
    let bytes = file.read_all()?;
    let rows = AbortedTxnRows::decode(&bytes);
    let positions = (0u64..).step_by(ROW_SIZE);
    segment.unreadable = rows.check_versions().err().map(|error| error.position);
    segment.rows = rows
        .rows()
        .iter()
        .zip(positions)
        .map(|(row, position)| IndexRow {
            row: AbortedTxnRow {
                producer_id: row.producer_id(),
                first_offset: row.first_offset(),
                last_offset: row.last_offset(),
                last_stable_offset: row.last_stable_offset(),
            },
            position,
        })
        .collect();
    // As Kafka wrote them they rise already.
    segment.rows.sort_by_key(|it| it.row.last_offset);
    let torn = rows.torn_size() as u64;
    segment.torn = (torn > 0).then(|| bytes.len() as u64 - torn);
    file.check_unchanged()?;
    Ok(segment)
}

/// Finds the batches that a difference shows or hides: one more walk, over their offsets only.
fn look_up_disputed(dir: &PartitionDir, io: Io, found: &mut [Found]) -> Result<(), Error> {
    let mut disputed: Vec<Disputed> = found
        .iter()
        .enumerate()
        .filter_map(|(index, found)| found.disputed(index))
        .collect();
    let Some(from) = disputed.iter().map(|it| it.first_offset).min() else {
        return Ok(());
    };
    let to = disputed
        .iter()
        .map(|it| it.end_offset)
        .max()
        .unwrap_or(from);
    let mut by_producer: HashMap<i64, Vec<usize>> = HashMap::new();
    for (place, it) in disputed.iter().enumerate() {
        by_producer.entry(it.producer_id).or_default().push(place);
    }
    let first = dir
        .segments
        .partition_point(|segment| segment.base_offset <= from)
        .saturating_sub(1);
    walk_partition(dir, io, first, |_, entry| {
        let Entry::Batch(batch) = entry else {
            return Ok::<_, Error>(ControlFlow::Continue(()));
        };
        let header = batch.header;
        if header.base_offset() > to {
            return Ok(ControlFlow::Break(()));
        }
        if header.attributes().is_transactional()
            && let Some(places) = by_producer.get(&header.producer_id())
        {
            let marker = batch.marker()?;
            for place in places {
                if let Some(disputed) = disputed.get_mut(*place)
                    && let Some(found) = found.get_mut(disputed.found)
                {
                    disputed.take(header, marker, found);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    for it in disputed {
        if let Some(found) = found.get_mut(it.found) {
            found.hidden.extend(it.undecided);
        }
    }
    Ok(())
}
