//! The transactions of a log, by what goes and what stays together: which were aborted, where the
//! first one begins that had not ended, and which markers go though their transaction stays.
//!
//! Decides `CleanedTransactionMetadata`: a cleaner takes no marker out of a log that has a batch of
//! its transaction still.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::iter::Peekable;

use super::going::Going;
use crate::format::aborted_txn::AbortedTxnRows;
use crate::format::control_record::ControlRecordType;
use crate::format::file_name::LogFileKind;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// Of each producer first and last offset of those that were aborted, by last offset.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
    /// The first offset of the earliest one without an end.
    pub(super) undecided_from: Option<i64>,
    /// Markers that only a log has which goes, of transactions with batches that stay.
    pub(super) lone_markers: Vec<LoneMarker>,
}

/// A marker that goes though its transaction stays.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoneMarker {
    pub(super) offset: i64,
    /// Place of its log among those that go.
    pub(super) log: usize,
}

/// A batch of a transaction, or the marker at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) offset: i64,
    producer_id: i64,
    producer_epoch: i16,
    marker: Option<ControlRecordType>,
}

/// A transaction that goes on.
struct Ongoing {
    first_offset: i64,
    producer_epoch: i16,
    /// Whether one of its batches stays.
    stays: bool,
}

impl Transactions {
    /// Follows those of the logs that go and of `after`, the directory that is left; what was
    /// aborted is known by the transaction indexes of `indexed` as well, whatever their suffix.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn of(
        going: &impl Going,
        after: &PartitionDir,
        indexed: &[&PartitionDir],
        has_checksums: bool,
        io: Io,
    ) -> Result<Self, Error> {
        let mut fold = Fold {
            found: Self::default(),
            ongoing: HashMap::new(),
            going: going.steps(has_checksums)?.peekable(),
        };
        for segment in &after.segments {
            if let Some(log) = after.file(segment.log)
                && let Some(file) = after.open_file(log, io)?
            {
                for_each_step(&file, has_checksums, |step| fold.stays(step))?;
            }
        }
        let (mut found, ongoing) = fold.finish()?;
        for dir in indexed {
            found.add_indexes(dir, io)?;
        }
        for rows in found.aborted.values_mut() {
            rows.sort_unstable_by_key(|(first, last)| (*last, *first));
        }
        // An index may know the end of one whose marker is in no file.
        let undecided = ongoing.into_iter().filter(|(id, it)| {
            (it.stays || going.has_all_ends()) && !found.is_aborted(*id, it.first_offset)
        });
        found.undecided_from = undecided.map(|(_, it)| it.first_offset).min();
        Ok(found)
    }

    fn add_indexes(&mut self, dir: &PartitionDir, io: Io) -> Result<(), Error> {
        let is_index = |kind: &LogFileKind| matches!(kind, LogFileKind::TransactionIndex(_));
        for index in dir.files.iter().filter(|it| is_index(&it.parsed.kind)) {
            if let Some(file) = dir.open_file(index, io)? {
                for row in AbortedTxnRows::decode(&file.read_all()?).rows() {
                    let rows = self.aborted.entry(row.producer_id()).or_default();
                    let row = (row.first_offset(), row.last_offset());
                    // A file of zeros is one row over and over.
                    if rows.last() != Some(&row) {
                        rows.push(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a producer's record at `offset` is of an aborted transaction. Its transactions come
    /// one after another, so that the first one that ends behind the offset decides.
    pub(super) fn is_aborted(&self, producer_id: i64, offset: i64) -> bool {
        let rows = self
            .aborted
            .get(&producer_id)
            .map_or(&[][..], Vec::as_slice);
        let at = rows.partition_point(|(_, last)| *last < offset);
        rows.get(at).is_some_and(|(first, _)| *first <= offset)
    }
}

/// Both in the order of their offsets.
struct Fold<I: Iterator<Item = Result<(Step, usize), Error>>> {
    found: Transactions,
    ongoing: HashMap<i64, Ongoing>,
    /// What goes and has not been taken in, with the place of its log.
    going: Peekable<I>,
}

impl<I: Iterator<Item = Result<(Step, usize), Error>>> Fold<I> {
    fn stays(&mut self, step: Step) -> Result<(), Error> {
        let is_due = |it: &Result<(Step, usize), Error>| match it {
            Ok((it, _)) => it.offset <= step.offset,
            Err(_) => true,
        };
        while let Some(next) = self.going.next_if(is_due) {
            let (goes, log) = next?;
            // The same batch once more does not go.
            if goes.offset < step.offset {
                self.take(goes, Some(log));
            }
        }
        self.take(step, None);
        Ok(())
    }

    fn take(&mut self, step: Step, goes_with: Option<usize>) {
        let stays = goes_with.is_none();
        let Some(control_type) = step.marker else {
            let begins = Ongoing {
                first_offset: step.offset,
                producer_epoch: step.producer_epoch,
                stays,
            };
            match self.ongoing.entry(step.producer_id) {
                // A producer gets a new epoch once its transaction has ended, by a marker that is
                // in no file.
                MapEntry::Occupied(mut at) if at.get().producer_epoch != step.producer_epoch => {
                    at.insert(begins);
                }
                MapEntry::Occupied(mut at) => at.get_mut().stays |= stays,
                MapEntry::Vacant(at) => {
                    at.insert(begins);
                }
            }
            return;
        };
        let Some(ended) = self.ongoing.remove(&step.producer_id) else {
            return;
        };
        if control_type == ControlRecordType::ABORT {
            let aborted = self.found.aborted.entry(step.producer_id).or_default();
            aborted.push((ended.first_offset, step.offset));
        }
        if let Some(log) = goes_with.filter(|_| ended.stays) {
            self.found.lone_markers.push(LoneMarker {
                offset: step.offset,
                log,
            });
        }
    }

    fn finish(mut self) -> Result<(Transactions, HashMap<i64, Ongoing>), Error> {
        while let Some(next) = self.going.next() {
            let (step, log) = next?;
            self.take(step, Some(log));
        }
        Ok((self.found, self.ongoing))
    }
}

/// Hands out the steps of a `.log`.
pub(super) fn for_each_step(
    file: &MappedFile,
    has_checksums: bool,
    mut visit: impl FnMut(Step) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut walk = BatchWalk::new(file);
    while let Some(entry) = walk.next_entry() {
        if let Some(step) = step(&entry?, has_checksums)? {
            visit(step)?;
        }
    }
    Ok(())
}

/// What an entry is to its transaction, as far as it can be read. What the cleaner has left of a
/// marker without its record says nothing: nothing of its transaction is there.
pub(super) fn step(entry: &Entry<'_>, has_checksums: bool) -> Result<Option<Step>, Error> {
    let Entry::Batch(batch) = entry else {
        return Ok(None);
    };
    let header = batch.header;
    let attributes = header.attributes();
    if !attributes.is_transactional() || has_checksums && !batch.is_valid()? {
        return Ok(None);
    }
    let marker = batch.marker()?.map(|it| it.control_type);
    if attributes.is_control() && marker.is_none() {
        return Ok(None);
    }
    Ok(Some(Step {
        offset: header.base_offset(),
        producer_id: header.producer_id(),
        producer_epoch: header.producer_epoch(),
        marker,
    }))
}
