//! The transactions of a log against the rows of its `.txnindex` files, segment by segment.

use super::row::AbortedRow;
use super::segment::{Found, InLog, Segment, read_index};
use super::unmatched::AtItsEnd;
use super::{AbortedOptions, AbortedSummary};
use crate::format::aborted_txn::ROW_SIZE;
use crate::format::control_record::EndTransactionMarker;
use crate::log::Error;
use crate::log::batches::{Batch, BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::partition_walk::{SegmentAt, open_segment};
use crate::report::transactions::{
    BehindHoles, TransactionFold, TxnEvent, known_time, last_offset,
};
use crate::state::AbortedTxnRow;

pub(super) const MISSING: &str = "txnindex-entry-missing";
pub(super) const SURPLUS: &str = "txnindex-entry-surplus";
pub(super) const STABLE_OFFSET: &str = "txnindex-stable-offset";
pub(super) const STARTS_LATE: &str = "txnindex-entry-starts-late";

/// A row of an index, and what the log gives in its place.
pub(in crate::report) struct RowPair {
    /// Place of the segment in `PartitionDir::segments`.
    pub(in crate::report) segment: usize,
    /// Whether the segment has an `.index`.
    pub(in crate::report) has_offset_index: bool,
    /// The index.
    pub(in crate::report) file: String,
    /// Where the row lies in it.
    pub(in crate::report) position: u64,
    pub(in crate::report) in_index: AbortedTxnRow,
    pub(in crate::report) in_log: AbortedTxnRow,
}

/// Compares the `.txnindex` files with the transactions of the log, segment by segment, for whoever
/// walks the entries.
pub(in crate::report) struct Comparison<'a> {
    pub(super) dir: &'a PartitionDir,
    pub(super) options: &'a AbortedOptions,
    pub(super) log_start_offset: i64,
    pub(in crate::report) fold: TransactionFold,
    pub(super) segment: Segment,
    pub(super) end: i64,
    pub(super) summary: AbortedSummary,
    /// Places among what was found in the segment of rows with a high last stable offset, until
    /// the next transaction begins.
    pub(super) waiting: Vec<usize>,
    /// A fetch would look no further.
    pub(super) is_complete: bool,
    /// The offset expected where damage begins, until a batch comes behind it.
    damaged_from: Option<i64>,
    /// The newest offsets that cannot be read.
    pub(super) unreadable: Option<(i64, i64)>,
}

impl<'a> Comparison<'a> {
    /// Before the first entry of the log; `fold` is what [`begin`] gives.
    pub(in crate::report) fn new(
        dir: &'a PartitionDir,
        options: &'a AbortedOptions,
        log_start_offset: i64,
        fold: TransactionFold,
    ) -> Self {
        Self {
            dir,
            options,
            log_start_offset,
            fold,
            segment: Segment::default(),
            end: dir.segments.first().map_or(0, |first| first.base_offset),
            summary: AbortedSummary::default(),
            waiting: Vec::new(),
            is_complete: false,
            damaged_from: None,
            unreadable: None,
        }
    }

    /// Before the first entry of a segment: reads its index.
    pub(in crate::report) fn enter(
        &mut self,
        index: usize,
        files: &SegmentFiles,
    ) -> Result<(), Error> {
        self.segment = read_index(self.dir, index, files, self.options.state.io)?;
        self.summary.in_index += self.segment.rows.iter().map(|it| it.times).sum::<u64>();
        Ok(())
    }

    /// Compares one segment; returns whether to go on.
    pub(super) fn segment<E: From<Error>>(
        &mut self,
        index: usize,
        files: &SegmentFiles,
        holes: &mut BehindHoles<'_>,
        emit: &mut impl FnMut(&AbortedRow<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let io = self.options.state.io;
        let Some(opened) = open_segment(self.dir, files, io)? else {
            self.summary.vanished += 1;
            return Ok(true);
        };
        self.enter(index, files)?;
        let limit = self.options.state.at_offset.unwrap_or(i64::MAX);
        if files.base_offset < limit {
            // What ended before is no row of an index here.
            holes.enter(&mut self.fold, index)?;
        }
        let at = SegmentAt {
            index,
            base_offset: files.base_offset,
            file: &opened.name,
            size_in_bytes: opened.file.len(),
        };
        let mut walk = BatchWalk::new(&opened.file);
        let goes_on = loop {
            if let Some(batch) = walk.next_mapped_header() {
                if batch.header.last_offset() >= limit {
                    break false;
                }
                let event = self.batch(at, &batch, batch.marker()?);
                self.pass_waiting(event, batch.header);
                continue;
            }
            let Some(entry) = walk.next_entry() else {
                break true;
            };
            let entry = entry?;
            if last_offset(&entry).is_some_and(|last| last >= limit) {
                break false;
            }
            let event = self.entry(at, &entry)?;
            if let Entry::Batch(batch) = &entry {
                self.pass_waiting(event, batch.header);
            }
        };
        self.index_rows_below(limit, AtItsEnd::SegmentEnd);
        if index + 1 == self.dir.segments.len() {
            self.look_again(files, &opened.file)?;
        }
        self.look_for_next_transaction()?;
        self.dir.check_not_cut()?;
        self.finish_segment(limit, &mut |row| each_of(row, emit))?;
        Ok(goes_on)
    }

    /// Takes in the next entry of the segment; what it did is as [`TransactionFold::take`] says.
    #[inline]
    pub(in crate::report) fn entry(
        &mut self,
        at: SegmentAt<'_>,
        entry: &Entry<'_>,
    ) -> Result<TxnEvent, Error> {
        if let Entry::Batch(batch) = entry {
            return Ok(self.batch(at, batch, batch.marker()?));
        }
        let Some(last_offset) = last_offset(entry) else {
            self.damaged_from.get_or_insert(self.end);
            return self.fold.take(at, entry);
        };
        if self.has_index_row_below(last_offset) {
            self.rows_before(last_offset);
        }
        let event = if self.is_passed_over(last_offset) {
            TxnEvent::Nothing
        } else {
            self.fold.take(at, entry)?
        };
        self.taken(event, last_offset, last_offset);
        Ok(event)
    }

    /// The same of a batch; `marker` is what it says if it is one.
    #[inline]
    pub(in crate::report) fn batch(
        &mut self,
        at: SegmentAt<'_>,
        batch: &Batch<'_>,
        marker: Option<EndTransactionMarker>,
    ) -> TxnEvent {
        let header = batch.header;
        let last_offset = header.last_offset();
        self.summary.walked_bytes += batch.size_in_bytes();
        // A row with its marker in a hole says that it was rolled back: what comes begins anew.
        if self.has_index_row_below(header.base_offset()) {
            self.rows_before(header.base_offset());
        }
        let event = if self.is_passed_over(last_offset) {
            TxnEvent::Nothing
        } else {
            self.fold.take_batch(at.index, batch, marker)
        };
        self.taken(event, header.base_offset(), last_offset);
        if marker.is_none() && header.attributes().is_control() {
            self.control_without_marker(header);
        }
        event
    }

    /// What was damaged reaches to the batch that comes.
    #[inline]
    pub(super) fn pass_damage(&mut self, base_offset: i64) {
        if let Some(from) = self.damaged_from.take() {
            self.unreadable = Some((from, base_offset.saturating_sub(1)));
        }
    }

    /// A broker that replays from scratch does not read what lies below the log start.
    #[inline]
    fn is_passed_over(&self, last_offset: i64) -> bool {
        self.options.state.from_scratch && last_offset < self.log_start_offset
    }

    /// Where the log starts.
    pub(in crate::report) fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// Whether nobody reads what ends at this offset, and no start that replays the log does.
    pub(in crate::report) fn is_below_log_start(&self, last_offset: i64) -> bool {
        last_offset < self.log_start_offset
    }

    /// An entry of these offsets has been taken in. A row that ends in it and is not that of its
    /// marker is told of when the next entry comes: where the last offset is damaged this one may
    /// seem to reach over markers behind it.
    #[inline]
    fn taken(&mut self, event: TxnEvent, base_offset: i64, last_offset: i64) {
        self.end = self.end.max(last_offset.wrapping_add(1));
        self.pass_damage(base_offset);
        if event != TxnEvent::Nothing {
            self.compare(event, base_offset);
        }
    }

    fn compare(&mut self, event: TxnEvent, offset: i64) {
        let mut marker = None;
        if let (TxnEvent::Ended | TxnEvent::EmptyTransaction, Some(ended)) =
            (event, self.fold.ended())
        {
            marker = Some(ended.marker);
            if event == TxnEvent::EmptyTransaction {
                self.summary.empty += u64::from(ended.marker.is_abort());
            } else if let Some(row) = ended.aborted {
                let transaction = ended.transaction;
                let in_log = InLog {
                    row,
                    batches: transaction.batches,
                    records: transaction.records,
                    size_in_bytes: transaction.size_in_bytes,
                    start_timestamp: transaction.start_timestamp,
                    end_timestamp: known_time(ended.marker.timestamp),
                };
                let index = self.segment.next_of(row);
                // A row is written with the marker: it knows of the one that is missing.
                let mut markers = transaction.missing_markers.iter();
                let begins_behind = markers
                    .find(|it| index.is_some_and(|index| index.row.first_offset == it.offset));
                let in_log = begins_behind.map_or(in_log, |it| in_log.without(it.totals_before));
                let is_told = begins_behind.is_some();
                let may_have_ended = transaction.may_have_ended;
                self.aborted_in_log(in_log, is_told, may_have_ended);
            }
        }
        let at_its_end = marker.as_ref().map_or(AtItsEnd::Refused, AtItsEnd::Marker);
        self.index_rows_below(offset.wrapping_add(1), at_its_end);
    }

    /// An aborted transaction ends here: its row should be the next of the index.
    /// `begins_behind_missing` says that by the index it begins where a marker is missing,
    /// `may_have_ended` that there was a marker before which cannot be read.
    fn aborted_in_log(&mut self, in_log: InLog, begins_behind_missing: bool, may_have_ended: bool) {
        if in_log.row.last_offset >= self.log_start_offset {
            self.summary.in_log += 1;
            self.summary.records += in_log.records;
            self.summary.size_in_bytes += in_log.size_in_bytes;
        }
        let in_index = self.segment.next_of(in_log.row);
        let Segment { next, found, .. } = &mut self.segment;
        *next += usize::from(in_index.is_some());
        let (finding, reason) = match in_index {
            None if in_log.records == 0 => (None, Some("its records are compacted away")),
            None if may_have_ended => (None, Some("an earlier marker of it cannot be read")),
            None => (
                Some(MISSING),
                Some("consumers see records that were rolled back"),
            ),
            Some(_) if begins_behind_missing => (
                None,
                Some("the marker before it is missing: what lies before is of another transaction"),
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

    /// The aborted transaction that has just ended, where index and log do not give it the same
    /// last stable offset; `None` as well if none has ended or its row is not there.
    pub(in crate::report) fn differing_stable_offset(&self) -> Option<RowPair> {
        let last = self.segment.found.last()?;
        let (in_index, in_log) = last.in_index.zip(last.in_log)?;
        let differs = in_index.row.last_stable_offset != in_log.row.last_stable_offset;
        differs.then(|| RowPair {
            segment: self.segment.index,
            has_offset_index: self
                .dir
                .segments
                .get(self.segment.index)
                .is_some_and(|it| it.offset_index.is_some()),
            file: self.segment.file.clone(),
            position: in_index.position,
            in_index: in_index.row,
            in_log: in_log.row,
        })
    }

    #[inline]
    fn has_index_row_below(&self, offset: i64) -> bool {
        let next = self.segment.rows.get(self.segment.next);
        next.is_some_and(|it| it.row.last_offset < offset)
    }

    /// A broker writes a marker to the log and its row to the index a moment later, so one of them
    /// may have been seen without the other in the segment that it writes to.
    pub(in crate::report) fn look_again(
        &mut self,
        files: &SegmentFiles,
        log: &MappedFile,
    ) -> Result<(), Error> {
        // As a start leaves them, nobody is at work on the files.
        let is_at_rest = !self.dir.is_on_disk();
        if is_at_rest || self.segment.found.iter().all(|it| it.finding.is_none()) {
            return Ok(());
        }
        let end = if log.is_growing() { self.end } else { i64::MAX };
        // The file itself may have come since the directory was listed.
        let dir = PartitionDir::open(&self.dir.path)?;
        let mut now = dir.segments.iter();
        let now = now.find(|it| it.base_offset == files.base_offset);
        let rows = match now {
            Some(files) => read_index(&dir, 0, files, self.options.state.io)?.rows,
            None => Vec::new(),
        };
        self.segment.found.retain_mut(|found| {
            match (found.finding, found.in_log, found.in_index) {
                (Some(MISSING), Some(in_log), _) => {
                    found.in_index = rows.iter().copied().find(|it| {
                        it.row.last_offset == in_log.row.last_offset
                            && it.row.producer_id == in_log.row.producer_id
                    });
                    if found.in_index.is_some() {
                        (found.finding, found.reason) = (None, None);
                    }
                    true
                }
                (Some(SURPLUS), None, Some(in_index)) => in_index.row.last_offset < end,
                _ => true,
            }
        });
        Ok(())
    }
}

/// Hands out a row as often as it is in the index.
fn each_of<E>(
    row: &AbortedRow<'_>,
    emit: &mut impl FnMut(&AbortedRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    emit(row)?;
    if row.times > 1 {
        let mut row = row.clone();
        for _ in 1..row.times {
            row.position = row.position.map(|it| it + ROW_SIZE as u64);
            emit(&row)?;
        }
    }
    Ok(())
}
