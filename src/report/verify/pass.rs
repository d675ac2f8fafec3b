//! The pass over one partition: the walk that feeds the folds and hands stretches to the threads.

use std::sync::Arc;

use super::batches::{Depth, SegmentContext};
use super::damage::{Damaged, of_damage};
use super::files::{check_partition_metadata, check_segments, check_txn_index};
use super::finding::Finding;
use super::folds::Folds;
use super::index_findings::{IndexContext, suspect_log};
use super::indexes::{OffsetIndexCheck, TimeIndexCheck};
use super::kind::Kind;
use super::kraft::check_kraft_snapshots;
use super::leader_epochs::EpochCheck;
use super::live::IndexFile;
use super::markers::MarkerCheck;
use super::parallel::{InOrder, Stretch};
use super::partition::VerifyOptions;
use super::resume::{Resume, Searched};
use super::segment::{SegmentWalk, overlap};
use super::sequences::{Compaction, of_gap};
use super::snapshots::SnapshotCheck;
use super::stable_offsets::StableOffsetCheck;
use super::start::Start;
use super::transactions::of_aborted;
use crate::format::internal_topic::InternalTopic;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::partition_walk::{OpenSegment, SegmentAt, open_segment};
use crate::log::{Error, Io};
use crate::report::aborted::{AbortedOptions, Comparison};
use crate::report::gaps::{GapFold, GapOptions};
use crate::report::partition_state::{StateOptions, log_start_offset};
use crate::report::txns::begin;

/// A stretch that one thread checks at a time ends behind so many bytes or batches.
const STRETCH_BYTES: u64 = 1024 * 1024;
const STRETCH_BATCHES: u32 = 1024;
/// So much is mapped at a time ahead of a walk over small batches.
const MAP_AHEAD_BYTES: u64 = 8 * 1024 * 1024;

/// What has been walked.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) bytes: u64,
    /// Bytes of the last segment.
    last: u64,
    pub(super) vanished: Vec<usize>,
}

pub(super) struct Pass<'p, P, G> {
    /// The directory as a start has it, `.swap` files in place.
    pub(super) dir: &'p PartitionDir,
    pub(super) options: &'p VerifyOptions,
    pub(super) checkpoints: CheckpointedOffsets,
    pub(super) start: Start,
    /// Base offsets of segments that were deleted since they were listed.
    pub(super) vanished: Vec<i64>,
    pub(super) out: InOrder<'p>,
    pub(super) passed: &'p mut P,
    pub(super) give: &'p mut G,
}

impl<P: FnMut(u64), G> Pass<'_, P, G> {
    /// Walks the partition and gives its findings out.
    pub(super) fn run<E: From<Error>>(self) -> Result<Walked, E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let dir = self.dir;
        dir.unless_cut(self.walk())
    }

    fn walk<E: From<Error>>(mut self) -> Result<Walked, E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let (dir, io) = (self.dir, self.options.io);
        let found = self.directory()?;
        let first_base = dir.segments.first().map_or(0, |first| first.base_offset);
        let log_start = log_start_offset(first_base, self.checkpoints);
        let state = state_options(io);
        let aborted_options = AbortedOptions {
            state,
            ..AbortedOptions::default()
        };
        let (fold, is_seeded) = begin(dir, log_start, state)?;
        let gap_options = GapOptions {
            io,
            ..GapOptions::default()
        };
        let gaps = GapFold::begin(dir, self.checkpoints, &gap_options)?;
        let mut gaps = gaps.without_unread();
        if self.options.depth == Depth::Headers {
            gaps = gaps.believing_headers();
        }
        let mut folds = Folds {
            gaps,
            gap_findings: Vec::new(),
            had_hole: false,
            compaction: Compaction::default(),
            transactions: Comparison::new(
                dir,
                &aborted_options,
                log_start,
                fold.with_high_watermark(self.checkpoints.high_watermark),
            ),
            epochs: EpochCheck::default(),
            snapshots: SnapshotCheck::new(dir, io, self.is_live()),
            markers: MarkerCheck::new(dir, self.options.coordinators.as_deref(), log_start),
            stable_offsets: StableOffsetCheck::new(self.start, log_start == 0 && !is_seeded),
            found,
        };
        let mut walked = Walked::default();
        for (index, segment) in dir.segments.iter().enumerate() {
            match self.segment(index, segment, &mut folds)? {
                Some(bytes) => {
                    walked.bytes += bytes;
                    walked.last = bytes;
                }
                // What was there before would seem lost.
                None if walked.vanished.len() < index => {
                    return Err(E::from(Error::ChangedWhileReading {
                        path: dir.path.clone(),
                    }));
                }
                None => {
                    walked.vanished.push(index);
                    self.vanished.push(segment.base_offset);
                    continue;
                }
            }
            if folds.found.iter().any(|it| it.severity.is_alarm()) {
                dir.check_not_cut()?;
            }
            self.hand_over(&mut folds)?;
            self.aborted(&mut folds)?;
        }
        self.end(folds, is_seeded, log_start, walked.last)?;
        Ok(walked)
    }

    /// What the directory itself says, before its log is walked.
    fn directory(&self) -> Result<Vec<Finding>, Error> {
        let (dir, io) = (self.dir, self.options.io);
        let mut found = Vec::new();
        check_segments(dir, &self.start, &mut found);
        check_partition_metadata(dir, io, &mut found)?;
        if dir.topic() == Some(InternalTopic::ClusterMetadata.name()) {
            check_kraft_snapshots(dir, io, &mut found)?;
        }
        Ok(found)
    }

    /// Passes on what the folds have found, and what is ready of the stretches.
    fn hand_over<E: From<Error>>(&mut self, folds: &mut Folds<'_>) -> Result<(), E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        // First of all what is lost: what the others say may follow from it.
        for finding in folds.take_gaps() {
            let finding = of_gap(&finding, self.dir, &mut folds.compaction);
            // A segment that was deleted meanwhile was there.
            if let Some(finding) = finding.filter(|it| !self.is_vanished(it)) {
                self.out.found(finding);
            }
            if self.out.is_full() {
                self.out.finish(self.passed, self.give)?;
            }
        }
        for finding in folds.found.drain(..) {
            self.out.found(finding);
        }
        self.out.give(self.passed, self.give)
    }

    /// Gives out what the transaction index of the segment has wrong, behind what was found in the
    /// segment: there may be as many rows as transactions, so none is kept.
    fn aborted<E: From<Error>>(&mut self, folds: &mut Folds<'_>) -> Result<(), E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let (dir, start) = (self.dir, self.start);
        let mut is_first = true;
        folds.transactions.finish_segment(i64::MAX, &mut |row| {
            let Some(finding) = of_aborted(row, dir, &start) else {
                return Ok(());
            };
            if std::mem::take(&mut is_first) {
                dir.check_not_cut()?;
                self.out.finish(self.passed, self.give)?;
            }
            (self.give)(finding)
        })
    }

    /// Whether a broker may be at work here.
    pub(super) fn is_live(&self) -> bool {
        self.start.clean != Some(true)
    }

    /// Whether a log without segments is none that a broker begins anew at the moment
    /// (`LocalLog.truncateFullyAndStartAt`).
    pub(super) fn stays_empty(&self) -> bool {
        let mut settling = self.dir.settling();
        settling.persists(|| !self.dir.has_changed())
    }

    pub(super) fn is_vanished(&self, finding: &Finding) -> bool {
        let range = finding.first_offset.zip(finding.last_offset);
        finding.kind == Kind::SegmentMissing
            && range.is_some_and(|(first, last)| {
                self.vanished
                    .iter()
                    .any(|base| (first..=last).contains(base))
            })
    }

    /// Walks one segment; returns its bytes, or `None` if it has vanished.
    fn segment<E: From<Error>>(
        &mut self,
        index: usize,
        segment: &SegmentFiles,
        folds: &mut Folds<'_>,
    ) -> Result<Option<u64>, E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let (dir, io) = (self.dir, self.options.io);
        // Indexes first: what they name lies in the log that is opened after them.
        let offset_index = IndexFile::open(dir, segment.offset_index, io)?;
        let time_index = IndexFile::open(dir, segment.time_index, io)?;
        let Some(opened) = open_segment(dir, segment, io)? else {
            return Ok(None);
        };
        folds.transactions.enter(index, segment)?;
        check_txn_index(dir, index, io, &mut folds.found)?;
        let opened = Arc::new(opened);
        let base = segment.base_offset;
        if folds.gaps.next_offset() > base && index > 0 {
            folds
                .found
                .push(overlap(&opened.name, base, folds.gaps.next_offset()));
        }
        let mut walk = SegmentWalk {
            index,
            base,
            offsets: offset_index
                .as_ref()
                .map(|file| OffsetIndexCheck::new(base, file.bytes())),
            times: time_index
                .as_ref()
                .map(|file| TimeIndexCheck::new(base, file.bytes())),
            outside: (None, 0),
            last_offset: base - 1,
        };
        self.batches(&opened, &mut walk, folds)?;
        if index + 1 == dir.segments.len() {
            folds.transactions.look_again(segment, &opened.file)?;
        }
        walk.tell_outside(&opened.name, &mut folds.found);
        let size = opened.file.len();
        let mut found = Vec::new();
        if let (Some(check), Some(file)) = (walk.offsets, &offset_index) {
            let name = file.name();
            let context = self.index_context(index, base, &name, file.bytes());
            check.finish(size, &context, &mut found);
        }
        if let (Some(check), Some(file)) = (walk.times, &time_index) {
            let name = file.name();
            let context = self.index_context(index, base, &name, file.bytes());
            check.finish(&context, &mut found);
        }
        suspect_log(&mut found);
        if self.is_live() && found.iter().any(|finding| finding.severity.is_alarm()) {
            // Truncated, or replaced by the cleaner, between index and log. And a broker that
            // truncates leaves the bytes of entries in an open index (`AbstractIndex`).
            let is_last = index + 1 == dir.segments.len();
            let mut has_changed = is_last && opened.file.is_growing();
            for file in [&offset_index, &time_index].into_iter().flatten() {
                has_changed = has_changed || file.has_changed(dir, io)?;
            }
            if has_changed {
                found.retain(|finding| !finding.severity.is_alarm());
            }
        }
        folds.found.append(&mut found);
        Ok(Some(size))
    }

    fn index_context<'c>(
        &'c self,
        segment: usize,
        base_offset: i64,
        file: &'c str,
        bytes: &[u8],
    ) -> IndexContext<'c> {
        IndexContext {
            start: &self.start,
            segment,
            base_offset,
            has_offset_index: self
                .dir
                .segments
                .get(segment)
                .is_some_and(|it| it.offset_index.is_some()),
            file,
            file_size: bytes.len() as u64,
        }
    }

    fn batches<E: From<Error>>(
        &mut self,
        opened: &Arc<OpenSegment>,
        segment: &mut SegmentWalk<'_>,
        folds: &mut Folds<'_>,
    ) -> Result<(), E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let size = opened.file.len();
        let at = SegmentAt {
            index: segment.index,
            base_offset: segment.base,
            file: &opened.name,
            size_in_bytes: size,
        };
        let next = self.dir.segments.get(segment.index + 1);
        let next_base = next.map(|next| next.base_offset);
        let context = SegmentContext {
            index: segment.index,
            base_offset: segment.base,
            next_base,
            size_in_bytes: size,
            start: self.start,
            is_metadata_log: self.dir.topic() == Some(InternalTopic::ClusterMetadata.name()),
            depth: self.options.depth,
        };
        let searched = Arc::new(Searched::default());
        let stretch = |from, to| Stretch {
            segment: Arc::clone(opened),
            searched: Arc::clone(&searched),
            context,
            from,
            to,
        };
        let (mut from, mut batches) = (0, 0);
        let mut mapped_to = 0;
        let mut walk = BatchWalk::new(&opened.file);
        loop {
            let position = walk.position();
            if let Some(batch) = walk.next_mapped_header() {
                segment.batch(&batch);
                folds.batch(at, &batch)?;
            } else if let Some(entry) = walk.next_entry() {
                let entry = entry?;
                if let Entry::Damage(damage) = &entry {
                    self.out.submit(stretch(from, position));
                    from = position + damage.size_in_bytes;
                    let behind = Resume::find(opened, &searched, from, next_base)?;
                    // What is missing between this segment and the one before is told apart.
                    let next_offset = folds.gaps.next_offset().max(segment.base);
                    let finding = of_damage(damage, &self.start, at, next_offset, behind);
                    folds.found.push(finding);
                }
                segment.entry(&entry);
                folds.entry(at, &entry)?;
            } else {
                // What a broker is still writing is no part of it.
                self.out.submit(stretch(from, position));
                break;
            }
            batches += 1;
            if position - from.min(position) >= STRETCH_BYTES || batches >= STRETCH_BATCHES {
                self.out.submit(stretch(from, position));
                from = from.max(position);
                if batches >= STRETCH_BATCHES {
                    mapped_to = self.map_ahead(opened, position, mapped_to);
                }
                batches = 0;
                self.hand_over(folds)?;
            } else if !folds.found.is_empty() || !folds.gap_findings.is_empty() {
                // What is damaged up to here is told first.
                if folds.found.iter().any(Damaged::may_explain) || folds.has_repeats() {
                    self.out.submit(stretch(from, walk.position()));
                    from = from.max(walk.position());
                }
                self.hand_over(folds)?;
            }
        }
        Ok(())
    }

    /// Over small batches this thread is the busiest: others take its page faults. Returns up to
    /// where they do.
    fn map_ahead(&self, opened: &Arc<OpenSegment>, position: u64, mapped_to: u64) -> u64 {
        if mapped_to >= position + MAP_AHEAD_BYTES {
            return mapped_to;
        }
        let from = mapped_to.max(position);
        self.out.map_ahead(opened, from, MAP_AHEAD_BYTES);
        from + MAP_AHEAD_BYTES
    }
}

pub(super) fn state_options(io: Io) -> StateOptions {
    StateOptions {
        io,
        ..StateOptions::default()
    }
}
