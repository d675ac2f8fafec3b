//! Was anything lost or stored twice: sequences and offsets that are missing, repeated, out of
//! order, or go back, each with its likely cause.
//!
//! One pass over the headers follows offsets and producers. Only where batches may repeat earlier
//! ones, a second pass looks those up, some ten thousand at a time, and only where a header does
//! not fit, checksums are looked at; a sound log needs neither.

mod after_swaps;
mod behind;
mod doubt;
mod ends;
mod finding;
pub(super) mod offsets;
mod overlaps;
mod repeats;
mod row;
mod set_aside;
mod told;
mod unmissed;
mod witnesses;

pub(super) use behind::{LostOffsets, Walked};
pub use ends::has_lost_all;
pub use finding::{Detail, Finding, GapClass, GapKind, OffsetRange, offset_range, range};
pub use row::GapRow;
pub use witnesses::{Witness, WitnessKind};

use std::collections::VecDeque;
use std::ops::ControlFlow;

use self::after_swaps::AfterSwaps;
use self::doubt::{Checksums, Doubt};
pub(super) use self::ends::lost_log;
use self::offsets::{Offsets, Placed, Unreadable};
use self::repeats::Repeats;
use self::told::{Told, hidden};
use super::coordinator_topics::is_written_by_coordinator;
use super::filter::Filter;
use super::partition_state::read_snapshot;
use crate::format::control_record::EndTransactionMarker;
use crate::format::internal_topic::InternalTopic;
use crate::format::record_batch::{CompressionType, RecordBatchHeader};
use crate::log::batches::{Batch, Entry, LegacyEntry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::damage::ReadableFields;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::{Error, Io};
use crate::state::SequenceGaps;

/// What to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapOptions {
    /// How files are read.
    pub io: Io,
    /// Which findings to hand out.
    pub filter: Filter,
    /// Use no snapshot for the producers at the beginning of the log.
    pub from_scratch: bool,
}

/// What was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapSummary {
    /// Where the log starts.
    pub log_start_offset: i64,
    /// The offset behind the last batch.
    pub log_end_offset: i64,
    /// The snapshot at the first segment's base, if it was used.
    pub snapshot: Option<i64>,
    /// Producers seen.
    pub producers: usize,
    /// Findings handed out that are a loss or a duplicate.
    pub alarms: u64,
    /// Segments, by place in the directory, that vanished since it was listed.
    pub vanished: Vec<usize>,
}

/// Hands out every finding of a partition. Those about one batch come in the order of the log;
/// missing sequences come when no later batch can fill them, repeated ones when they have been
/// looked up, which happens for many at a time.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn find_gaps<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &GapOptions,
    emit: impl FnMut(&Finding) -> Result<(), E>,
) -> Result<GapSummary, E> {
    let mut out = Out {
        filter: &options.filter,
        after_swaps: AfterSwaps::of(dir, checkpoints, options)?,
        told_to: i64::MIN,
        emit,
        alarms: 0,
    };
    let mut found = Vec::new();
    if let Some(all) = lost_log(dir, checkpoints, options.io)? {
        let back_to = out.after_swaps.as_ref().map(AfterSwaps::last_offset);
        found.push(Finding {
            last_offset: all.last_offset.max(back_to),
            ..all
        });
        out.hand_out(&mut found)?;
        return Ok(GapSummary {
            alarms: out.alarms,
            ..GapSummary::default()
        });
    }
    let mut fold = GapFold::begin(dir, checkpoints, options)?;
    fold.offsets.before_log(&mut found);
    let vanished = walk_partition(dir, options.io, 0, |at, entry| {
        fold.entry(at, &entry, &mut found)?;
        if !found.is_empty() {
            out.hand_out(&mut found)?;
        }
        Ok::<_, E>(ControlFlow::Continue(()))
    })?;
    if !vanished.is_empty() && out.alarms > 0 {
        // What was taken from the front may be what seems lost.
        return Err(E::from(Error::ChangedWhileReading {
            path: dir.path.clone(),
        }));
    }
    fold.offsets.finish(&mut found)?;
    fold.offsets.behind_log(&mut found)?;
    fold.offsets.below_log_start(&mut found);
    let mut summary = fold.finish(&mut found)?;
    out.hand_out(&mut found)?;
    out.at_next_start(summary.log_end_offset)?;
    summary.alarms = out.alarms;
    summary.vanished = vanished;
    Ok(summary)
}

fn is_metadata_log(dir: &PartitionDir) -> bool {
    dir.topic() == Some(InternalTopic::ClusterMetadata.name())
}

fn sequences(dir: &PartitionDir) -> SequenceGaps {
    let begins_at_zero = dir
        .segments
        .first()
        .is_none_or(|segment| segment.base_offset == 0);
    SequenceGaps::new(begins_at_zero, is_written_by_coordinator(dir.topic()))
}

/// Passes on what the filter wants.
struct Out<'f, F> {
    filter: &'f Filter,
    /// What a start brings back.
    after_swaps: Option<AfterSwaps>,
    /// The offset behind the last one told of.
    told_to: i64,
    emit: F,
    alarms: u64,
}

impl<F> Out<'_, F> {
    fn hand_out<E>(&mut self, found: &mut Vec<Finding>) -> Result<(), E>
    where
        F: FnMut(&Finding) -> Result<(), E>,
    {
        for finding in found.drain(..) {
            let last = finding
                .last_offset
                .map_or(i64::MIN, |last| last.saturating_add(1));
            self.told_to = self.told_to.max(last);
            match &self.after_swaps {
                None => self.hand_on(&finding)?,
                Some(after) => {
                    for part in after.settle(finding) {
                        self.hand_on(&part)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What the next start deletes, and what comes back behind the end of the log and all that has
    /// been told of.
    fn at_next_start<E>(&mut self, log_end_offset: i64) -> Result<(), E>
    where
        F: FnMut(&Finding) -> Result<(), E>,
    {
        let told_to = self.told_to.max(log_end_offset);
        let after = self.after_swaps.as_ref();
        let mut parts = after.map_or_else(Vec::new, |after| after.lost().to_vec());
        parts.extend(after.into_iter().flat_map(|after| after.behind(told_to)));
        parts.iter().try_for_each(|part| self.hand_on(part))
    }

    fn hand_on<E>(&mut self, finding: &Finding) -> Result<(), E>
    where
        F: FnMut(&Finding) -> Result<(), E>,
    {
        if self.wants(finding) {
            self.alarms += u64::from(finding.is_alarm());
            (self.emit)(finding)?;
        }
        Ok(())
    }

    fn wants(&self, finding: &Finding) -> bool {
        let first = finding.first_offset.unwrap_or(i64::MIN);
        let last = finding.last_offset.unwrap_or(i64::MAX);
        let time = finding.timestamp;
        self.filter
            .producer_id
            .is_none_or(|wanted| finding.producer.is_some_and(|(id, _)| id == wanted))
            && self.filter.wants_offsets(first, last)
            && time.is_none_or(|time| self.filter.wants_times(time, time))
    }
}

/// The pass over a partition's entries, for whoever walks them.
pub(super) struct GapFold<'d> {
    dir: &'d PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: GapOptions,
    checksums: Checksums,
    /// Whether one was wrong.
    has_damaged: bool,
    /// Whether the cleaner is known to have been at work.
    was_cleaned: bool,
    snapshot: Option<i64>,
    offsets: Offsets<'d>,
    sequences: SequenceGaps,
    /// Missing sequences that may come later.
    pending: VecDeque<Finding>,
    repeats: Repeats,
    /// Whether control records and what was aborted are told of.
    tells_unread: bool,
}

impl<'d> GapFold<'d> {
    /// Before the first entry.
    pub(super) fn begin(
        dir: &'d PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: &GapOptions,
    ) -> Result<Self, Error> {
        let mut fold = Self {
            dir,
            checkpoints,
            options: options.clone(),
            checksums: Checksums::InDoubt,
            has_damaged: false,
            was_cleaned: checkpoints.cleaner_offset.is_some(),
            snapshot: None,
            offsets: Offsets::new(dir, options.io, checkpoints),
            sequences: sequences(dir),
            pending: VecDeque::new(),
            repeats: Repeats::default(),
            tells_unread: true,
        };
        fold.offsets.find_lost_front()?;
        if !options.from_scratch {
            fold.snapshot = fold.load_first_snapshot(dir, options.io)?;
        }
        if fold.snapshot.is_none() {
            fold.offsets.count_lost_front();
        }
        Ok(fold)
    }

    /// Leaves out offsets of control records and of aborted transactions: they are in every log
    /// with transactions, and as they should be.
    pub(super) fn without_unread(mut self) -> Self {
        self.tells_unread = false;
        self.sequences = self.sequences.without_aborted();
        self
    }

    /// After the last entry: what only the end, or a second look, tells.
    pub(super) fn finish(mut self, found: &mut Vec<Finding>) -> Result<GapSummary, Error> {
        self.offsets.finish(found)?;
        found.extend(self.pending);
        self.repeats
            .resolve(self.dir, self.options.io, self.has_damaged, found)?;
        Ok(GapSummary {
            log_start_offset: self.offsets.log_start_offset,
            log_end_offset: self.offsets.next_offset,
            snapshot: self.snapshot,
            producers: self.sequences.producer_id_count(),
            ..GapSummary::default()
        })
    }

    /// Whether the cleaner was at work in the log, which may have taken what the state at hand
    /// lacks. May look through all of the log.
    pub(super) fn is_compacted(&mut self) -> Result<bool, Error> {
        self.offsets.is_compacted()
    }

    /// The offset behind the highest so far.
    pub(super) fn next_offset(&self) -> i64 {
        self.offsets.next_offset
    }

    fn load_first_snapshot(&mut self, dir: &PartitionDir, io: Io) -> Result<Option<i64>, Error> {
        let Some(first) = dir.segments.first() else {
            return Ok(None);
        };
        match read_snapshot(dir, io, first.base_offset)? {
            Some(Ok(rows)) => {
                self.sequences.load(rows);
                Ok(Some(first.base_offset))
            }
            Some(Err(_)) | None => Ok(None),
        }
    }

    /// Takes in the next entry of the log.
    #[inline]
    pub(super) fn entry(
        &mut self,
        at: SegmentAt<'_>,
        entry: &Entry<'_>,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        match entry {
            Entry::Batch(batch) => self.batch(at, batch, batch.marker()?, found),
            Entry::Legacy(entry) => self.legacy(at, entry, found),
            Entry::Damage(damage) => {
                self.offsets.enter(at.index, found)?;
                self.offsets.damage(at.index, **damage);
                Ok(())
            }
        }
    }

    /// The same of a batch; `marker` is what it says if it is one.
    #[inline]
    pub(super) fn batch(
        &mut self,
        at: SegmentAt<'_>,
        batch: &Batch<'_>,
        marker: Option<EndTransactionMarker>,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        self.offsets.enter(at.index, found)?;
        let header = batch.header;
        if self.checksums == Checksums::All && !batch.is_sound()? {
            self.has_damaged = true;
            self.offsets.unreadable(Unreadable {
                segment: at.index,
                position: batch.position,
                class: GapClass::BAD_CRC,
                readable: ReadableFields::from_prefix(&header.as_array()),
            });
            return Ok(());
        }
        let begin = found.len();
        let placed = Placed {
            segment: at.index,
            position: batch.position,
            first_offset: header.base_offset(),
            last_offset: header.last_offset(),
        };
        let is_repeated = self.offsets.entry(placed, found)?;
        let mut doubt = self.doubt_of(found.get(begin..).unwrap_or_default());
        if !is_repeated {
            let fold = (&mut self.pending, &mut self.repeats);
            let log_start_offset = self.offsets.log_start_offset;
            let gone = self.offsets.gone;
            self.sequences.batch(header, marker, gone, |finding| {
                doubt = doubt.max(Doubt::of(&finding));
                Told {
                    header,
                    placed,
                    log_start_offset,
                }
                .tell(finding, fold.0, fold.1, found);
            });
            let is_control = header.attributes().is_control();
            if is_control || header.has_less_records() {
                doubt = doubt.max(self.hidden(placed, header, marker, found));
            }
        }
        if doubt != Doubt::None {
            self.look_into(doubt, at, batch, begin, found)?;
        }
        if self.repeats.is_full() {
            std::mem::take(&mut self.repeats).resolve(
                self.dir,
                self.options.io,
                self.has_damaged,
                found,
            )?;
        }
        Ok(())
    }

    /// Tells offsets of a batch that no consumer gets.
    fn hidden(
        &mut self,
        placed: Placed,
        header: &RecordBatchHeader,
        marker: Option<EndTransactionMarker>,
        found: &mut Vec<Finding>,
    ) -> Doubt {
        let begin = found.len();
        let is_unread = header.attributes().is_control() && header.records_count() != 0;
        if placed.last_offset >= self.offsets.log_start_offset && (self.tells_unread || !is_unread)
        {
            found.extend(hidden(header, placed, marker.is_some()));
        }
        if is_unread && marker.is_none() && !is_metadata_log(self.dir) {
            return Doubt::Itself;
        }
        self.doubt_of(found.get(begin..).unwrap_or_default())
    }

    /// Entries of magic 0 and 1 have no producers. A compressed one has the offset of its last
    /// message only; where its first one begins is taken to be where it should.
    #[cold]
    fn legacy(
        &mut self,
        at: SegmentAt<'_>,
        entry: &LegacyEntry<'_>,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        self.offsets.enter(at.index, found)?;
        let last_offset = entry.header.offset();
        let is_compressed = entry.header.compression_type() != CompressionType::NONE;
        let first_offset = if is_compressed {
            self.offsets.next_offset.min(last_offset)
        } else {
            last_offset
        };
        let placed = Placed {
            segment: at.index,
            position: entry.position,
            first_offset,
            last_offset,
        };
        self.offsets.entry(placed, found)?;
        Ok(())
    }
}
