//! The rows of all `.txnindex` files of a partition, one file in memory at a time.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::format::aborted_txn::AbortedTxnRows;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::state::AbortedTxnRow;

/// One row and the file it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxnRow {
    pub(super) file: Rc<str>,
    producer_id: i64,
    pub(super) first_offset: i64,
    pub(super) last_offset: i64,
    pub(super) last_stable_offset: i64,
}

impl TxnRow {
    /// What makes two rows one transaction.
    pub(super) fn key(&self) -> (i64, i64) {
        (self.last_offset, self.producer_id)
    }
}

/// Hands out rows by the offset of the marker.
pub(super) struct TxnRows<'d> {
    dir: &'d PartitionDir,
    io: Io,
    next_segment: usize,
    rows: std::vec::IntoIter<TxnRow>,
}

impl<'d> TxnRows<'d> {
    pub(super) fn new(dir: &'d PartitionDir, io: Io) -> Self {
        Self {
            dir,
            io,
            next_segment: 0,
            rows: Vec::new().into_iter(),
        }
    }

    pub(super) fn next_row(&mut self) -> Result<Option<TxnRow>, Error> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Some(row));
            }
            let Some(segment) = self.dir.segments.get(self.next_segment) else {
                return Ok(None);
            };
            self.next_segment += 1;
            let Some(file) = segment.txn_index.and_then(|index| self.dir.file(index)) else {
                continue;
            };
            let name: Rc<str> = file.name().into();
            let Some(file) = self.dir.open_file(file, self.io)? else {
                continue;
            };
            let bytes = file.read_all()?;
            let mut rows: Vec<TxnRow> = Vec::new();
            for row in AbortedTxnRows::decode(&bytes).rows() {
                let row = TxnRow {
                    file: Rc::clone(&name),
                    producer_id: row.producer_id(),
                    first_offset: row.first_offset(),
                    last_offset: row.last_offset(),
                    last_stable_offset: row.last_stable_offset(),
                };
                // One that repeats the row before it says nothing more: zeros are rows.
                if rows.last() != Some(&row) {
                    rows.push(row);
                }
            }
            file.check_unchanged()?;
            rows.sort_unstable_by_key(TxnRow::key);
            self.rows = rows.into_iter();
        }
    }
}

/// Aborted transactions without a row that are kept of a side.
const MAX_ROWLESS: usize = 1000;

/// An aborted transaction of which an index has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowlessTxn {
    /// Offset of its marker.
    pub(super) last_offset: i64,
    producer_id: i64,
    /// The segment that the marker lies in, whose index should have the row.
    pub(super) segment_base_offset: i64,
}

/// Looks for the row of every aborted transaction of a log, in step with the reading of it.
pub(super) struct Rowless<'d> {
    rows: TxnRows<'d>,
    next: Option<TxnRow>,
    txns: Vec<RowlessTxn>,
}

impl<'d> Rowless<'d> {
    pub(super) fn new(dir: &'d PartitionDir, io: Io) -> Self {
        Self {
            rows: TxnRows::new(dir, io),
            next: None,
            txns: Vec::new(),
        }
    }

    /// The next aborted transaction, by the row it should have.
    pub(super) fn aborted(
        &mut self,
        row: &AbortedTxnRow,
        segment_base_offset: i64,
    ) -> Result<(), Error> {
        let key = (row.last_offset, row.producer_id);
        while self.next.as_ref().is_none_or(|next| next.key() < key) {
            self.next = self.rows.next_row()?;
            if self.next.is_none() {
                break;
            }
        }
        let has_row = self.next.as_ref().is_some_and(|next| next.key() == key);
        if !has_row && self.txns.len() < MAX_ROWLESS {
            self.txns.push(RowlessTxn {
                last_offset: key.0,
                producer_id: key.1,
                segment_base_offset,
            });
        }
        Ok(())
    }

    /// Those of which the other side's index has no row either. The indexes are read once more: a
    /// broker that is at work adds to them.
    pub(super) fn also_in(
        &self,
        other: &Self,
        dirs: [&PartitionDir; 2],
        io: Io,
    ) -> Result<Vec<RowlessTxn>, Error> {
        let key = |txn: &RowlessTxn| (txn.last_offset, txn.producer_id);
        let others: BTreeSet<(i64, i64)> = other.txns.iter().map(key).collect();
        let both = self.txns.iter().filter(|txn| others.contains(&key(txn)));
        let mut both: Vec<RowlessTxn> = both.copied().collect();
        for dir in dirs {
            if both.is_empty() {
                break;
            }
            let mut rows = TxnRows::new(dir, io);
            while let Some(row) = rows.next_row()? {
                both.retain(|txn| key(txn) != row.key());
            }
        }
        Ok(both)
    }
}
