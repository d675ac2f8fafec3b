//! What a replica lacks that another one has, though no cleaner would have taken it out.

use std::collections::VecDeque;
use std::ops::Range;

use super::going::Going;
use super::kept::{Question, WhyKept, kept_by_cleaner};
use super::transactions::{Step, step};
use crate::log::batches::BatchWalk;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// Steps of transactions that are read at once.
const STEPS_AT_ONCE: usize = 4096;

/// A replica that lacks what another one has.
#[derive(Clone, Copy, Debug)]
pub struct LackingReplica<'r> {
    /// Its directory.
    pub dir: &'r PartitionDir,
    /// What the checkpoints say of it.
    pub checkpoints: CheckpointedOffsets,
    /// The other one.
    pub other: &'r PartitionDir,
    /// Offsets at which it lacks records, as if a cleaner had taken them out.
    pub taken_out: &'r OffsetRanges,
    /// These, and all others at which only the other one has what it has.
    pub only_in_other: &'r OffsetRanges,
    /// Whether it lacks something behind the end of the other one: later records of any key may
    /// have been there, tombstones among them that a cleaner has taken out, and markers.
    pub is_gone_behind_other: bool,
    /// The most bytes a batch may unpack to; a larger one is passed over.
    pub max_batch_bytes: usize,
    /// How files are read.
    pub io: Io,
}

/// What a replica has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// The offsets of the records.
    pub offsets: OffsetRanges,
    /// Records whose keys were not looked for, as there are too many.
    pub not_looked_for: u64,
}

impl LackingReplica<'_> {
    /// The records that it lacks and that a cleaner would have kept.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn lost_records(&self) -> Result<LostRecords, Error> {
        let mut lost = LostRecords::default();
        // Of a part of a log it is not known what lies behind it.
        if self.taken_out.is_empty() || !self.dir.is_whole {
            return Ok(lost);
        }
        let going = OtherLogs {
            dir: self.other,
            only_there: self.only_in_other,
            is_gone_behind: self.is_gone_behind_other,
            io: self.io,
        };
        let question = Question {
            taken_out: self.taken_out,
            listed: self.dir,
            after: self.dir,
            indexed: &[self.dir, self.other],
            checkpoints: self.checkpoints,
            has_checksums: true,
            max_batch_bytes: self.max_batch_bytes,
            io: self.io,
        };
        let kept = kept_by_cleaner(&going, question)?;
        lost.not_looked_for = kept.over_limit;
        for record in kept.records {
            let may_be_deleted = record.why == WhyKept::LastOfKey && self.is_gone_behind_other;
            if !may_be_deleted {
                lost.offsets.add(record.offset, record.offset);
            }
        }
        Ok(lost)
    }
}

/// The segments of the other replica, each opened when it is read.
struct OtherLogs<'r> {
    dir: &'r PartitionDir,
    only_there: &'r OffsetRanges,
    /// Whether something is gone behind their end where they are not.
    is_gone_behind: bool,
    io: Io,
}

impl OtherLogs<'_> {
    fn open(&self, place: usize) -> Result<Option<MappedFile>, Error> {
        let segment = self.dir.segments.get(place);
        let log = segment.and_then(|segment| self.dir.file(segment.log));
        log.map_or(Ok(None), |log| self.dir.open_file(log, self.io))
    }
}

impl Going for OtherLogs<'_> {
    fn for_each_log(
        &self,
        mut visit: impl FnMut(usize, &MappedFile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for place in 0..self.dir.segments.len() {
            if let Some(file) = self.open(place)? {
                visit(place, &file)?;
            }
        }
        Ok(())
    }

    fn cleanable(&self, _: usize) -> Option<Range<i64>> {
        Some(i64::MIN..i64::MAX)
    }

    fn goes(&self, first: i64, last: i64) -> bool {
        self.only_there.touches(first, last)
    }

    fn has_all_ends(&self) -> bool {
        !self.is_gone_behind
    }

    fn steps(
        &self,
        has_checksums: bool,
    ) -> Result<impl Iterator<Item = Result<(Step, usize), Error>>, Error> {
        Ok(Steps {
            logs: self,
            has_checksums,
            place: 0,
            position: 0,
            read: VecDeque::new(),
        })
    }
}

/// The steps of logs that lie one behind the other, some thousand at a time.
struct Steps<'l, 'r> {
    logs: &'l OtherLogs<'r>,
    has_checksums: bool,
    place: usize,
    /// Where to go on in the log at that place.
    position: u64,
    read: VecDeque<(Step, usize)>,
}

impl Steps<'_, '_> {
    fn read_on(&mut self) -> Result<(), Error> {
        while self.read.is_empty() && self.place < self.logs.dir.segments.len() {
            let next = match self.logs.open(self.place)? {
                Some(file) => self.read_in(&file)?,
                None => None,
            };
            match next {
                Some(position) => self.position = position,
                None => {
                    self.place += 1;
                    self.position = 0;
                }
            }
        }
        Ok(())
    }

    /// Where to go on; `None` at the end of the log.
    fn read_in(&mut self, file: &MappedFile) -> Result<Option<u64>, Error> {
        let mut walk = BatchWalk::starting_at(file, self.position);
        while let Some(entry) = walk.next_entry() {
            let entry = entry?;
            if self.read.len() >= STEPS_AT_ONCE {
                return Ok(Some(entry.position()));
            }
            let step = step(&entry, self.has_checksums)?;
            self.read.extend(step.map(|step| (step, self.place)));
        }
        Ok(None)
    }
}

impl Iterator for Steps<'_, '_> {
    type Item = Result<(Step, usize), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.read_on() {
            Ok(()) => self.read.pop_front().map(Ok),
            Err(error) => {
                // Nothing comes behind it.
                self.place = self.logs.dir.segments.len();
                Some(Err(error))
            }
        }
    }
}
