//! The rows of all `.txnindex` files of a partition, one file in memory at a time.

use std::rc::Rc;

use crate::format::aborted_txn::AbortedTxnRows;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

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
            let mut rows: Vec<TxnRow> = AbortedTxnRows::decode(&bytes)
                .rows()
                .iter()
                .map(|row| TxnRow {
                    file: Rc::clone(&name),
                    producer_id: row.producer_id(),
                    first_offset: row.first_offset(),
                    last_offset: row.last_offset(),
                    last_stable_offset: row.last_stable_offset(),
                })
                .collect();
            file.check_unchanged()?;
            rows.sort_unstable_by_key(TxnRow::key);
            self.rows = rows.into_iter();
        }
    }
}
