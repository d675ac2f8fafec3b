//! The index of aborted transactions of a segment, open for writing.
//!
//! Decides `TransactionIndex`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::error::{Error, LoadError, Rejection};
use super::files::{Files, OpenFile};
use crate::error::DecodeError;
use crate::format::aborted_txn::{self, AbortedTxn, AbortedTxnRows};

/// Rows that are read at once.
const READ_AT_ONCE: usize = 1024;

/// `.txnindex`, made when the first row comes.
#[derive(Debug)]
pub(super) struct TransactionIndex {
    files: Files,
    path: PathBuf,
    file: Option<OpenFile>,
    position: u64,
    last_offset: Option<i64>,
}

impl TransactionIndex {
    pub(super) fn open(files: &Files, path: PathBuf) -> Result<Self, Error> {
        let mut index = Self {
            files: files.clone(),
            path,
            file: None,
            position: 0,
            last_offset: None,
        };
        if index.files.exists(&index.path) {
            index.channel()?;
        }
        Ok(index)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn channel(&mut self) -> Result<&OpenFile, Error> {
        if self.file.is_none() {
            let file = self.files.open(&self.path)?;
            self.position = file.len(&self.path)?;
            return Ok(self.file.insert(file));
        }
        match &self.file {
            Some(file) => Ok(file),
            None => Err(Rejection::Inconsistent(0).into()),
        }
    }

    pub(super) fn append(&mut self, row: &AbortedTxn) -> Result<(), Error> {
        let offset = row.last_offset();
        if let Some(last_offset) = self.last_offset
            && last_offset >= offset
        {
            return Err(Rejection::TransactionIndexOffset {
                offset,
                last_offset,
            }
            .into());
        }
        self.last_offset = Some(offset);
        self.channel()?;
        let position = self.position;
        if let Some(file) = &self.file {
            file.write_all_at(&self.path, &row.as_array(), position)?;
        }
        self.position += aborted_txn::ROW_SIZE as u64;
        Ok(())
    }

    /// Gives `each` the rows one after the other until it breaks (`TransactionIndex.iterable`). One
    /// of a version that Kafka does not know is an error only where it gets as far.
    pub(super) fn for_each_row(
        &self,
        mut each: impl FnMut(&AbortedTxn) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let row_size = aborted_txn::ROW_SIZE as u64;
        let rows = self.position / row_size;
        let mut first = 0;
        while first < rows {
            let count =
                usize::try_from(rows - first).map_or(READ_AT_ONCE, |it| it.min(READ_AT_ONCE));
            let mut bytes = vec![0; count * aborted_txn::ROW_SIZE];
            file.read_exact_at(&self.path, &mut bytes, first * row_size)?;
            for row in AbortedTxnRows::decode(&bytes).checked() {
                let row = row.map_err(|error| LoadError::TransactionIndexVersion {
                    path: self.path.clone(),
                    source: DecodeError {
                        position: error.position + first * row_size,
                        ..error
                    },
                })?;
                if each(row).is_break() {
                    return Ok(());
                }
            }
            first += count as u64;
        }
        Ok(())
    }

    /// All rows (`TransactionIndex.allAbortedTxns`).
    pub(super) fn rows(&self) -> Result<Vec<AbortedTxn>, Error> {
        let mut rows = Vec::new();
        self.for_each_row(|row| {
            rows.push(*row);
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Whether it has a row of a transaction that ended below `base_offset`, the segment's
    /// (`TransactionIndex.sanityCheck`).
    pub(super) fn has_row_below(&self, base_offset: i64) -> Result<bool, Error> {
        let mut found = false;
        self.for_each_row(|row| {
            found = row.last_offset() < base_offset;
            break_if(found)
        })?;
        Ok(found)
    }

    /// Takes the rows that a reader from `fetch_offset` up to `upper_bound_offset` has to know of;
    /// whether those of later segments need not be looked at
    /// (`TransactionIndex.collectAbortedTxns`).
    pub(super) fn collect(
        &self,
        fetch_offset: i64,
        upper_bound_offset: i64,
        take: &mut impl FnMut(&AbortedTxn),
    ) -> Result<bool, Error> {
        let mut is_complete = false;
        self.for_each_row(|row| {
            if row.last_offset() >= fetch_offset && row.first_offset() < upper_bound_offset {
                take(row);
            }
            is_complete = row.last_stable_offset() >= upper_bound_offset;
            break_if(is_complete)
        })?;
        Ok(is_complete)
    }

    pub(super) fn reset(&mut self) -> Result<(), Error> {
        self.cut(0)?;
        self.last_offset = None;
        Ok(())
    }

    fn cut(&mut self, size: u64) -> Result<(), Error> {
        if let Some(file) = &self.file {
            file.set_len(&self.path, size)?;
            self.position = self.position.min(size);
        }
        Ok(())
    }

    /// Drops the rows from the first one of a transaction that ends at or above `offset`
    /// (`TransactionIndex.truncateTo`). What lies behind that row is not looked at.
    pub(super) fn truncate_to(&mut self, offset: i64) -> Result<(), Error> {
        let (mut kept, mut last_offset, mut is_cut) = (0, None, false);
        self.for_each_row(|row| {
            is_cut = row.last_offset() >= offset;
            if !is_cut {
                kept += aborted_txn::ROW_SIZE as u64;
                last_offset = Some(row.last_offset());
            }
            break_if(is_cut)
        })?;
        if is_cut {
            self.cut(kept)?;
            self.last_offset = last_offset;
        }
        Ok(())
    }

    pub(super) fn rename(&mut self, path: PathBuf) -> Result<(), Error> {
        self.files.rename(&self.path, &path)?;
        self.path = path;
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) => file.sync(&self.path),
            None => Ok(()),
        }
    }
}

fn break_if(is_over: bool) -> ControlFlow<()> {
    if is_over {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::aborted_txn::AbortedTxnFields;

    /// An index with rows of transactions that end at these offsets; a row whose version Kafka does
    /// not know is `None`.
    fn index(last_offsets: &[Option<i64>]) -> (tempfile::TempDir, TransactionIndex) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000.txnindex");
        let mut bytes = Vec::new();
        for last_offset in last_offsets {
            let row = AbortedTxn::from(AbortedTxnFields {
                producer_id: 1,
                first_offset: 0,
                last_offset: last_offset.unwrap_or(0),
                last_stable_offset: last_offset.unwrap_or(0) + 1,
            });
            let mut row = row.as_array();
            row[0] = u8::from(last_offset.is_none());
            bytes.extend(row);
        }
        std::fs::write(&path, bytes).unwrap();
        let index = TransactionIndex::open(&Files::Disk, path).unwrap();
        (dir, index)
    }

    /// Where the row is at which reading ended.
    fn stopped_at(error: &Error) -> Option<u64> {
        match error.load_error() {
            Some(LoadError::TransactionIndexVersion { source, .. }) => Some(source.position),
            Some(_) | None => None,
        }
    }

    fn size(index: &TransactionIndex) -> u64 {
        std::fs::metadata(&index.path).unwrap().len()
    }

    /// As `TransactionIndex` of Kafka 4.3.1 does with the same bytes: `truncateTo` leaves 68 bytes
    /// for 21, 34 for 11, throws for 31 and leaves the file as it is; `sanityCheck` and
    /// `collectAbortedTxns` end before the row or throw at it.
    #[test]
    fn a_row_of_an_unknown_version_is_an_error_only_where_it_is_reached() {
        let rows = [Some(10), Some(20), Some(30), None, Some(40)];
        for (offset, kept) in [(5, 0), (11, 1), (20, 1), (21, 2), (30, 2)] {
            let (_dir, mut index) = index(&rows);
            index.truncate_to(offset).unwrap();
            assert_eq!(size(&index), kept * 34, "{offset}");
            // What is kept is its last row again.
            let last = index.last_offset;
            assert_eq!(
                last,
                i64::try_from(kept)
                    .ok()
                    .map(|it| it * 10)
                    .filter(|it| *it > 0)
            );
        }
        let (_dir, mut index) = index(&rows);
        let error = index.truncate_to(31).unwrap_err();
        assert_eq!(stopped_at(&error), Some(3 * 34), "{error}");
        assert_eq!(size(&index), 5 * 34);

        assert!(index.has_row_below(11).unwrap());
        assert!(index.has_row_below(10).is_err());
        let mut found = 0;
        assert!(index.collect(0, 21, &mut |_| found += 1).unwrap());
        assert_eq!(found, 2);
        assert!(index.collect(0, 100, &mut |_| {}).is_err());
    }

    /// More rows than are read at once.
    #[test]
    fn rows_are_read_in_pieces() {
        let count = i64::try_from(READ_AT_ONCE).unwrap() + 2;
        let rows: Vec<Option<i64>> = (0..count).map(Some).chain([None]).collect();
        let (_dir, mut index) = index(&rows);
        let error = index.rows().unwrap_err();
        assert_eq!(
            stopped_at(&error),
            u64::try_from(count * 34).ok(),
            "{error}"
        );
        index.truncate_to(count - 1).unwrap();
        let rows = index.rows().unwrap();
        assert_eq!(rows.len(), READ_AT_ONCE + 1);
        assert_eq!(rows.last().map(AbortedTxn::last_offset), Some(count - 2));
    }
}
