//! The batches that a difference between index and log shows or hides.

use std::ops::ControlFlow;

use super::segment::{AtFirst, Found, Part};
use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::Entry;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};
use crate::report::by_producer::ByProducer;

/// Offsets of a producer that one side takes for aborted and the other does not.
#[derive(Debug)]
struct Disputed {
    /// Whose offsets, in the list of what was found.
    found: usize,
    producer_id: i64,
    first_offset: i64,
    /// Offset of the marker, or the first offset that both sides take for aborted.
    end_offset: i64,
    /// Only the index has them.
    is_surplus: bool,
    /// Of a surplus row: batches whose marker is still to come.
    undecided: Vec<Part>,
}

impl Disputed {
    /// The offsets in which a difference can show.
    fn of(found: &Found, index: usize) -> Option<Self> {
        if found.has_unreadable_marker {
            return None;
        }
        let in_log = found.in_log.map(|it| it.row);
        let in_index = found.in_index.map(|it| it.row);
        let (row, end, is_surplus) = match (in_index, in_log) {
            (None, Some(log)) => (log, log.last_offset, false),
            (Some(index), Some(log)) if index.first_offset > log.first_offset => {
                (log, index.first_offset, false)
            }
            // Between the row's first offset and the log's.
            (Some(index), Some(log)) if index.first_offset < log.first_offset => {
                (index, log.first_offset - 1, true)
            }
            (Some(index), None) => (index, index.last_offset, true),
            (Some(_), Some(_)) | (None, None) => return None,
        };
        Some(Self {
            found: index,
            producer_id: row.producer_id,
            first_offset: row.first_offset,
            end_offset: end,
            is_surplus,
            undecided: Vec::new(),
        })
    }

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
        // A consumer holds a row's first offset against the last one of a batch
        // (`CompletedFetch.consumeAbortedTransactionsUpTo`).
        if part.last < self.first_offset || part.first > self.end_offset {
            return;
        }
        if let Some(marker) = marker {
            // What an ABORT ends is hidden anyhow.
            let undecided = self.undecided.drain(..);
            if marker.control_type == ControlRecordType::COMMIT {
                found.has_commit = true;
                found.hidden.extend(undecided);
            }
        } else if part.records > 0 && !header.attributes().is_control() {
            if self.is_surplus {
                self.undecided.push(part);
            } else if part.last < self.end_offset {
                found.exposed.push(part);
            }
        }
    }
}

/// The disputed offsets of one producer, by first offset.
#[derive(Debug, Default)]
struct Pending {
    places: Vec<usize>,
    /// Those before it end below what has been walked.
    from: usize,
}

impl Pending {
    /// Those that may hold a batch of these offsets, which only rise. Mostly one: transactions of a
    /// producer do not overlap, unless an index says so.
    fn at(&mut self, (first, last): (i64, i64), disputed: &[Disputed]) -> &[usize] {
        let get = |at: usize| disputed.get(*self.places.get(at)?);
        while get(self.from).is_some_and(|it| it.end_offset < first) {
            self.from += 1;
        }
        let mut to = self.from;
        while get(to).is_some_and(|it| it.first_offset <= last) {
            to += 1;
        }
        self.places.get(self.from..to).unwrap_or_default()
    }
}

/// The first offsets of rows, as they come by.
struct FirstOffsets {
    /// The offset, its producer, and the place in the list of what was found; by offset.
    rows: Vec<(i64, i64, usize)>,
    next: usize,
}

impl FirstOffsets {
    /// Of what lies in an index, by first offset. What begins below the log start may have been
    /// forgotten since.
    fn of(disputed: &[Disputed], log_start_offset: i64) -> Self {
        let in_index = disputed
            .iter()
            .filter(|it| it.is_surplus && it.first_offset >= log_start_offset);
        Self {
            rows: in_index
                .map(|it| (it.first_offset, it.producer_id, it.found))
                .collect(),
            next: 0,
        }
    }

    /// Notes the batch in each row that begins in it.
    fn pass(&mut self, header: &RecordBatchHeader, found: &mut [Found]) {
        while let Some((first_offset, producer_id, place)) = self.rows.get(self.next).copied()
            && first_offset <= header.last_offset()
        {
            self.next += 1;
            if first_offset < header.base_offset() {
                continue;
            }
            let attributes = header.attributes();
            let is_own = header.producer_id() == producer_id
                && attributes.is_transactional()
                && !attributes.is_control();
            if let Some(found) = found.get_mut(place) {
                found.at_first = Some(if is_own {
                    AtFirst::OwnData
                } else {
                    AtFirst::Other
                });
            }
        }
    }
}

/// Finds the batches that a difference shows or hides: one more walk, over their offsets only.
/// Nobody reads what lies below the log start, so nothing is shown or hidden there.
pub(super) fn look_up_disputed(
    dir: &PartitionDir,
    io: Io,
    log_start_offset: i64,
    found: &mut [Found],
) -> Result<(), Error> {
    let mut disputed: Vec<Disputed> = found
        .iter()
        .enumerate()
        .filter_map(|(index, found)| Disputed::of(found, index))
        .collect();
    let Some(from) = disputed.iter().map(|it| it.first_offset).min() else {
        return Ok(());
    };
    let from = from.max(log_start_offset);
    let to = disputed
        .iter()
        .map(|it| it.end_offset)
        .max()
        .unwrap_or(from);
    disputed.sort_by_key(|it| it.first_offset);
    let mut by_producer: ByProducer<Pending> = ByProducer::default();
    for (place, it) in disputed.iter().enumerate() {
        let pending = by_producer.entry(it.producer_id).or_default();
        pending.places.push(place);
    }
    let mut first_offsets = FirstOffsets::of(&disputed, log_start_offset);
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
        if header.last_offset() < log_start_offset {
            return Ok(ControlFlow::Continue(()));
        }
        first_offsets.pass(header, found);
        if header.attributes().is_transactional()
            && let Some(pending) = by_producer.get_mut(&header.producer_id())
        {
            let marker = batch.marker()?;
            for place in pending.at((header.base_offset(), header.last_offset()), &disputed) {
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
