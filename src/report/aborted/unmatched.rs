//! Rows of an index for which the log ends no transaction: what lies where their marker should be.

use super::comparison::{Comparison, SURPLUS};
use super::row::BEHIND_END;
use super::segment::{Found, IndexRow};
use crate::format::record_batch::RecordBatchHeader;
use crate::report::transactions::{TxnMarker, is_emptied_marker, is_unreadable_marker};
use crate::state::AbortedTxnRow;

const NO_MARKER: &str = "its marker is not in the log";
const NOT_ITS_END: &str = "no ABORT of its producer lies at its last offset";

/// What lies where the marker of an index's row should be.
#[derive(Clone, Copy)]
pub(super) enum AtItsEnd<'m> {
    /// No marker: a batch comes that begins behind it.
    NoBatch,
    /// No marker: the segment ends.
    SegmentEnd,
    /// A marker, which may be its own.
    Marker(&'m TxnMarker),
    /// A marker of this producer that the cleaner has left without its record.
    EmptiedMarker(i64),
    /// A batch that a broker which replays the log does not take.
    Refused,
}

impl Comparison<'_> {
    /// The rows that end before the next batch, which begins at this offset.
    #[cold]
    pub(super) fn rows_before(&mut self, base_offset: i64) {
        self.pass_damage(base_offset);
        self.index_rows_below(base_offset, AtItsEnd::NoBatch);
    }

    /// A control batch that ends nothing.
    #[cold]
    pub(super) fn control_without_marker(&mut self, header: &RecordBatchHeader) {
        let offset = header.base_offset();
        if is_unreadable_marker(header) {
            self.unreadable = Some((offset, header.last_offset()));
        } else if is_emptied_marker(header) {
            let emptied = AtItsEnd::EmptiedMarker(header.producer_id());
            self.index_rows_below(offset.wrapping_add(1), emptied);
        }
    }

    /// The rows of the index with a last offset below `offset` that no aborted transaction of the
    /// log has taken, and what lies there.
    #[inline]
    pub(super) fn index_rows_below(&mut self, offset: i64, at_its_end: AtItsEnd<'_>) {
        while let Some(row) = self.segment.rows.get(self.segment.next)
            && row.row.last_offset < offset
        {
            let row = *row;
            self.segment.next += 1;
            self.without_transaction(row, at_its_end);
        }
    }

    /// A row for which the log ends no transaction. More is decided when its offsets have been
    /// looked at.
    fn without_transaction(&mut self, in_index: IndexRow, at_its_end: AtItsEnd<'_>) {
        let row = in_index.row;
        let AbortedTxnRow {
            producer_id,
            first_offset,
            last_offset,
            ..
        } = row;
        let first_base = self.dir.segments.first().map_or(0, |it| it.base_offset);
        let cannot_be_read = self
            .unreadable
            .is_some_and(|(from, to)| (from..=to).contains(&last_offset));
        let before = self.segment.found.last().and_then(|it| it.in_index);
        let is_repeated = before.is_some_and(|it| {
            it.row.last_offset == last_offset && it.row.producer_id == producer_id
        });
        let mut marker_is_gone = false;
        let (finding, reason) = match at_its_end {
            _ if cannot_be_read => (None, "its marker cannot be read"),
            _ if is_repeated => (
                Some(SURPLUS),
                "the row before it is of the same transaction",
            ),
            AtItsEnd::Marker(it)
                if it.is_abort() && it.producer_id == producer_id && it.offset == last_offset =>
            {
                if first_offset < first_base {
                    (None, "its records lie below the log start")
                } else {
                    (None, "its records are compacted away")
                }
            }
            AtItsEnd::NoBatch | AtItsEnd::SegmentEnd if last_offset < self.end.max(self.base()) => {
                (Some(SURPLUS), NOT_ITS_END)
            }
            AtItsEnd::SegmentEnd if last_offset >= self.next_base() => (Some(SURPLUS), BEHIND_END),
            AtItsEnd::Refused => (None, NO_MARKER),
            AtItsEnd::EmptiedMarker(id) if id != producer_id => (Some(SURPLUS), NOT_ITS_END),
            AtItsEnd::Marker(_) => (Some(SURPLUS), NOT_ITS_END),
            AtItsEnd::NoBatch | AtItsEnd::SegmentEnd | AtItsEnd::EmptiedMarker(_) => {
                marker_is_gone = true;
                self.fold.note_lost_marker(row);
                (None, NO_MARKER)
            }
        };
        self.segment.found.push(Found {
            in_index: Some(in_index),
            finding,
            reason: Some(reason),
            has_unreadable_marker: cannot_be_read,
            marker_is_gone,
            ..Found::default()
        });
    }

    /// Where the offsets of the segment begin.
    fn base(&self) -> i64 {
        let segment = self.dir.segments.get(self.segment.index);
        segment.map_or(0, |it| it.base_offset)
    }

    /// Where the offsets of the segment end: at the next one, or at the last batch.
    fn next_base(&self) -> i64 {
        let next = self.dir.segments.get(self.segment.index + 1);
        next.map_or(self.end, |next| next.base_offset)
    }
}
