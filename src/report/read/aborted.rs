//! The aborted transactions a consumer knows of at each batch.
//!
//! A broker sends them with each fetch: those in the `.txnindex` files from the fetched segment on
//! that end at or behind the fetch's first offset and begin before its last
//! (`UnifiedLog.collectAbortedTransactions`). The consumer adds a producer once a batch reaches
//! the first offset of its transaction, and removes it at its ABORT marker
//! (`CompletedFetch.consumeAbortedTransactionsUpTo`).

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use super::{AbortedFrom, PartitionReader};
use crate::format::aborted_txn::{AbortedTxn, AbortedTxnRows};
use crate::format::offset_index::OffsetIndexRows;
use crate::log::batches::Entry;
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::{Error, Io};
use crate::state::{ProducerStateManager, recover_batch};

/// `max.partition.fetch.bytes` of a consumer.
const MAX_PARTITION_FETCH_BYTES: u64 = 1024 * 1024;

/// An aborted transaction as a fetch response lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    first_offset: i64,
    producer_id: i64,
}

/// The bytes of one fetch.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    segment: usize,
    end_position: u64,
}

/// What the consumer knows.
#[derive(Debug)]
pub(super) struct AbortedTransactions<'d> {
    dir: &'d PartitionDir,
    io: Io,
    from: AbortedFrom,
    log_end_offset: i64,
    fetch: Option<Fetch>,
    /// By first offset; those before `next` have been taken.
    listed: Vec<Listed>,
    next: usize,
    producer_ids: HashSet<i64>,
    indexes: BTreeMap<usize, TransactionIndex>,
}

/// A `.txnindex`.
#[derive(Debug)]
struct TransactionIndex {
    file: MappedFile,
    /// Rows in front that end before the last fetch, and so before every later one.
    passed: usize,
}

impl<'d> AbortedTransactions<'d> {
    pub(super) fn new(reader: &PartitionReader<'d>) -> Result<Self, Error> {
        let mut aborted = Self {
            dir: reader.dir,
            io: reader.options.state.io,
            from: reader.options.aborted_from,
            log_end_offset: reader.bounds.log_end_offset,
            fetch: None,
            listed: Vec::new(),
            next: 0,
            producer_ids: HashSet::new(),
            indexes: BTreeMap::new(),
        };
        if aborted.from == AbortedFrom::Log {
            aborted.listed = listed_by_log(aborted.dir, aborted.io, reader.bounds.start_offset)?;
        }
        Ok(aborted)
    }

    /// Begins another fetch if the batch is not in the current one. `next_offset` is where the
    /// consumer stands.
    pub(super) fn fetch(
        &mut self,
        at: SegmentAt<'_>,
        position: u64,
        size_in_bytes: u64,
        next_offset: i64,
    ) -> Result<(), Error> {
        let end = position.saturating_add(size_in_bytes);
        let is_in = |it: Fetch| it.segment == at.index && end <= it.end_position;
        if self.from == AbortedFrom::Log || self.fetch.is_some_and(is_in) {
            return Ok(());
        }
        // At least one whole batch, as a broker does not let a consumer starve.
        let end_position = position
            .saturating_add(MAX_PARTITION_FETCH_BYTES.max(size_in_bytes))
            .min(at.size_in_bytes);
        self.fetch = Some(Fetch {
            segment: at.index,
            end_position,
        });
        self.listed.clear();
        self.next = 0;
        self.producer_ids.clear();
        self.indexes.retain(|segment, _| *segment >= at.index);
        let any = self.dir.segments.iter().skip(at.index);
        if any.clone().all(|segment| segment.txn_index.is_none()) {
            return Ok(());
        }
        let upper_bound = self.fetch_upper_bound(at.index, end_position)?;
        self.collect(at.index, next_offset, upper_bound)?;
        self.listed.sort_unstable();
        Ok(())
    }

    /// The offset of the first entry of the offset index at or behind the fetched bytes, else the
    /// next segment's base (`LogSegment.fetchUpperBoundOffset`).
    fn fetch_upper_bound(&self, segment: usize, end_position: u64) -> Result<i64, Error> {
        let segments = &self.dir.segments;
        let files = segments.get(segment);
        let index = files.and_then(|it| Some((it.base_offset, self.dir.file(it.offset_index?)?)));
        if let Some((base_offset, index)) = index
            && let Some(file) = self.dir.open_file(index, self.io)?
        {
            let bytes = file.read_all()?;
            let rows = OffsetIndexRows::decode(&bytes).rows();
            let behind = rows.partition_point(|row| {
                u64::try_from(row.position()).is_ok_and(|it| it < end_position)
            });
            if let Some(row) = rows.get(behind) {
                return Ok(row.offset(base_offset));
            }
        }
        let next = segments.get(segment + 1);
        Ok(next.map_or(self.log_end_offset, |next| next.base_offset))
    }

    /// `TransactionIndex.collectAbortedTxns`, segment after segment until one says that there
    /// can be no more.
    fn collect(&mut self, from: usize, start: i64, upper_bound: i64) -> Result<(), Error> {
        for segment in from..self.dir.segments.len() {
            let listed = &mut self.listed;
            let complete = with_rows(self.dir, self.io, &mut self.indexes, segment, |rows| {
                let passed = rows.iter().take_while(|row| row.last_offset() < start);
                let passed = passed.count();
                for row in rows.get(passed..).unwrap_or_default() {
                    if row.last_offset() >= start && row.first_offset() < upper_bound {
                        let row = Listed {
                            first_offset: row.first_offset(),
                            producer_id: row.producer_id(),
                        };
                        // A file of zeros is one row over and over.
                        if listed.last() != Some(&row) {
                            listed.push(row);
                        }
                    }
                    if row.last_stable_offset() >= upper_bound {
                        return (passed, true);
                    }
                }
                (passed, false)
            })?;
            if complete == Some(true) {
                break;
            }
        }
        Ok(())
    }

    /// Whether the index of a segment has the transaction that a marker ends.
    pub(super) fn is_indexed(
        &mut self,
        segment: usize,
        producer_id: i64,
        marker_offset: i64,
    ) -> Result<bool, Error> {
        if self.from == AbortedFrom::Log {
            return Ok(true);
        }
        let found = with_rows(self.dir, self.io, &mut self.indexes, segment, |rows| {
            let is_it = |row: &AbortedTxn| {
                row.last_offset() == marker_offset && row.producer_id() == producer_id
            };
            let place = rows.partition_point(|row| row.last_offset() < marker_offset);
            // Rows may be out of order in a damaged file.
            let found = rows.get(place).is_some_and(is_it) || rows.iter().any(is_it);
            (0, found)
        })?;
        Ok(found == Some(true))
    }

    /// Takes in the transactions that begin at or before `last_offset`, the batch's.
    pub(super) fn consume_up_to(&mut self, last_offset: i64) {
        while let Some(listed) = self.listed.get(self.next) {
            if listed.first_offset > last_offset {
                break;
            }
            self.producer_ids.insert(listed.producer_id);
            self.next += 1;
        }
    }

    pub(super) fn end(&mut self, producer_id: i64) {
        self.producer_ids.remove(&producer_id);
    }

    pub(super) fn contains(&self, producer_id: i64) -> bool {
        self.producer_ids.contains(&producer_id)
    }
}

/// Calls with the rows of a segment's index behind those already passed, and passes as many more
/// as `look` says; `None` if there is no index.
fn with_rows<T>(
    dir: &PartitionDir,
    io: Io,
    indexes: &mut BTreeMap<usize, TransactionIndex>,
    segment: usize,
    look: impl FnOnce(&[AbortedTxn]) -> (usize, T),
) -> Result<Option<T>, Error> {
    let file = dir
        .segments
        .get(segment)
        .and_then(|it| dir.file(it.txn_index?));
    let Some(file) = file else {
        return Ok(None);
    };
    if let std::collections::btree_map::Entry::Vacant(vacant) = indexes.entry(segment) {
        let Some(file) = dir.open_file(file, io)? else {
            return Ok(None);
        };
        vacant.insert(TransactionIndex { file, passed: 0 });
    }
    let Some(index) = indexes.get_mut(&segment) else {
        return Ok(None);
    };
    let bytes = index.file.read_all()?;
    let rows = AbortedTxnRows::decode(&bytes).rows();
    let (passed, looked) = look(rows.get(index.passed..).unwrap_or_default());
    index.file.check_unchanged()?;
    index.passed += passed;
    Ok(Some(looked))
}

/// What the index files should say of transactions that end at or behind `start`, by replaying
/// the log. A batch that would stop a broker is passed over.
fn listed_by_log(dir: &PartitionDir, io: Io, start: i64) -> Result<Vec<Listed>, Error> {
    let mut manager = ProducerStateManager::default();
    let mut listed = Vec::new();
    walk_partition(dir, io, 0, |_, entry| {
        if let Entry::Batch(batch) = entry {
            let marker = batch.marker()?;
            let _ = recover_batch(&mut manager, batch.header, marker, |row| {
                if row.last_offset >= start {
                    listed.push(Listed {
                        first_offset: row.first_offset,
                        producer_id: row.producer_id,
                    });
                }
            });
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    listed.sort_unstable();
    Ok(listed)
}
