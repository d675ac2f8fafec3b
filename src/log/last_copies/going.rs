//! Logs that go, for the rules of the cleaner: those of one directory that a start removes, or of
//! another replica.

use std::ops::Range;
use std::vec::IntoIter;

use super::GoingLog;
use super::transactions::{Step, for_each_step};
use crate::log::Error;
use crate::log::mapped_file::MappedFile;

/// Logs that go, each with a place among them.
pub(super) trait Going {
    /// Hands out each of them.
    ///
    /// # Errors
    /// If one cannot be read, or `visit` fails.
    fn for_each_log(
        &self,
        visit: impl FnMut(usize, &MappedFile) -> Result<(), Error>,
    ) -> Result<(), Error>;

    /// The offsets that count of the log at a place; `None` if no cleaner has been there.
    fn cleanable(&self, place: usize) -> Option<Range<i64>>;

    /// Whether one of these offsets may be of what goes.
    fn goes(&self, first: i64, last: i64) -> bool;

    /// Whether a transaction without an end, in them and in what stays, has none.
    fn has_all_ends(&self) -> bool;

    /// Their batches of transactions in the order of their offsets, with the place of the log.
    ///
    /// # Errors
    /// If a file cannot be read.
    fn steps(
        &self,
        has_checksums: bool,
    ) -> Result<impl Iterator<Item = Result<(Step, usize), Error>>, Error>;
}

impl Going for &[GoingLog] {
    fn for_each_log(
        &self,
        mut visit: impl FnMut(usize, &MappedFile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut logs = self.iter().enumerate();
        logs.try_for_each(|(place, log)| visit(place, &log.file))
    }

    fn cleanable(&self, place: usize) -> Option<Range<i64>> {
        let log = self.get(place).filter(|log| log.may_be_cleaned);
        log.map(|log| log.counts.clone())
    }

    fn goes(&self, _: i64, _: i64) -> bool {
        true
    }

    fn has_all_ends(&self) -> bool {
        true
    }

    fn steps(
        &self,
        has_checksums: bool,
    ) -> Result<impl Iterator<Item = Result<(Step, usize), Error>>, Error> {
        let mut steps = Vec::new();
        self.for_each_log(|place, file| {
            for_each_step(file, has_checksums, |step| {
                steps.push((step, place));
                Ok(())
            })
        })?;
        steps.sort_by_key(|(step, _)| step.offset);
        let steps: IntoIter<(Step, usize)> = steps.into_iter();
        Ok(steps.map(Ok))
    }
}
