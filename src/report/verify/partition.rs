//! The pass over one partition.

use std::cell::RefCell;
use std::ops::AddAssign;
use std::sync::Arc;
use std::thread;

use super::batches::{Depth, SegmentContext};
use super::damage::of_damage;
use super::files::{check_names, check_partition_metadata, check_txn_index};
use super::finding::{Finding, Severity};
use super::indexes::{IndexContext, Indexed, OffsetIndexCheck, TimeIndexCheck};
use super::kind::Kind;
use super::kraft::check_kraft_snapshots;
use super::leader_epochs::EpochCheck;
use super::offsets::check_checkpoints;
use super::parallel::{InOrder, Queue, Stretch};
use super::sequences::{Compaction, of_gap};
use super::snapshots::{LogEnds, SnapshotCheck};
use super::start::Start;
use super::transactions::{of_aborted, of_missing_marker, of_open};
use crate::format::NO_TIMESTAMP;
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{PartitionDir, SegmentFiles};
use crate::log::partition_walk::{OpenSegment, SegmentAt, open_segment};
use crate::log::records::DEFAULT_MAX_BATCH_BYTES;
use crate::log::{Error, Io};
use crate::report::aborted::{AbortedOptions, AbortedRow, Comparison};
use crate::report::filter::Filter;
use crate::report::gaps::{self, GapFold, GapOptions};
use crate::report::partition_state::{StateOptions, log_start_offset};
use crate::report::transactions::TxnEvent;
use crate::report::txns::{TxnsOptions, WantedStates, begin, open_transactions};

/// The name of the KRaft metadata log's topic.
pub(super) const CLUSTER_METADATA: &str = "__cluster_metadata";
/// A stretch that one thread checks at a time ends behind so many bytes or batches.
const STRETCH_BYTES: u64 = 1024 * 1024;
const STRETCH_BATCHES: u32 = 1024;
/// Below so many bytes of segments one thread is fastest.
const WORTH_A_THREAD: u64 = 8 * 1024 * 1024;

/// What is looked at, and how closely.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// How files are read.
    pub io: Io,
    /// How closely batches are looked at.
    pub depth: Depth,
    /// A batch may not unpack to more.
    pub max_batch_bytes: usize,
    /// Which findings are wanted.
    pub filter: Filter,
    /// Threads; `None` for one a core.
    pub threads: Option<usize>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            io: Io::default(),
            depth: Depth::default(),
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            filter: Filter::default(),
            threads: None,
        }
    }
}

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifySummary {
    /// Findings of severity corrupt.
    pub corrupt: u64,
    /// Findings of severity after a crash.
    pub after_crash: u64,
    /// Notable ones.
    pub notable: u64,
    /// Files in the directories.
    pub files: u64,
    /// Bytes of segments walked.
    pub bytes: u64,
    /// Segments, by place in the directory, that vanished since it was listed.
    pub vanished: Vec<usize>,
}

impl VerifySummary {
    /// Counts a finding.
    pub fn count(&mut self, severity: Severity) {
        match severity {
            Severity::Corrupt => self.corrupt += 1,
            Severity::AfterCrash => self.after_crash += 1,
            Severity::Notable => self.notable += 1,
        }
    }
}

impl AddAssign<&Self> for VerifySummary {
    fn add_assign(&mut self, other: &Self) {
        self.corrupt += other.corrupt;
        self.after_crash += other.after_crash;
        self.notable += other.notable;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Hands out every finding of a partition: about the directory, then in the order of the log, then
/// what only the end tells. `passed` is told of bytes that have been looked at.
///
/// # Errors
/// If a file cannot be read, or `emit` fails.
pub fn verify_partition<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &VerifyOptions,
    mut passed: impl FnMut(u64),
    mut emit: impl FnMut(&Finding) -> Result<(), E>,
) -> Result<VerifySummary, E> {
    let mut summary = VerifySummary {
        files: dir.files.len() as u64,
        ..VerifySummary::default()
    };
    let path = dir.path.display().to_string();
    let mut damaged = DamagedBatches::default();
    let mut give = |finding: Finding| -> Result<(), E> {
        if damaged.explains(&finding) || !wants(&options.filter, &finding) {
            return Ok(());
        }
        summary.count(finding.severity);
        emit(&Finding {
            path: path.clone(),
            topic: dir.topic().map(str::to_owned),
            partition: dir.partition(),
            ..finding
        })
    };
    let threads = options.threads.unwrap_or_else(|| threads_for(dir));
    let queue = Queue::default();
    let walked = thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| queue.work(options.max_batch_bytes));
        }
        let out = InOrder::new(&queue, threads, options.max_batch_bytes);
        Pass {
            dir,
            options,
            checkpoints,
            start: Start::of(dir, checkpoints),
            out,
            passed: &mut passed,
            give: &mut give,
        }
        .run()
    })?;
    summary.bytes = walked.bytes;
    summary.vanished = walked.vanished;
    Ok(summary)
}

fn threads_for(dir: &PartitionDir) -> usize {
    if dir.size_in_bytes() < WORTH_A_THREAD {
        return 1;
    }
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Findings without a producer or offset pass only where none is asked for.
fn wants(filter: &Filter, finding: &Finding) -> bool {
    let first = finding.first_offset.or(finding.offset);
    let last = finding.last_offset.or(finding.offset).max(first);
    let of_offsets = first
        .zip(last)
        .map_or(!filter.narrows_offsets(), |(first, last)| {
            filter.wants_offsets(first, last)
        });
    of_offsets
        && filter
            .producer_id
            .is_none_or(|wanted| finding.producer_id == Some(wanted))
}

/// Damaged batches that are remembered to explain what follows from them.
const MAX_DAMAGED: usize = 1000;

/// The batches with a wrong checksum: a marker among them leaves its transaction without an end.
#[derive(Debug, Default)]
struct DamagedBatches {
    /// Offset range and producer.
    batches: Vec<(i64, i64, Option<i64>)>,
}

impl DamagedBatches {
    /// Remembers a damaged batch; whether the finding only says again that one is damaged.
    fn explains(&mut self, finding: &Finding) -> bool {
        match finding.kind {
            Kind::BadCrc => {
                let range = finding.offset.zip(finding.last_offset);
                if let Some((first, last)) = range
                    && self.batches.len() < MAX_DAMAGED
                {
                    self.batches.push((first, last, finding.producer_id));
                }
                false
            }
            // The entry's marker is not readable: the index is right.
            Kind::TxnindexEntrySurplus => finding
                .last_offset
                .is_some_and(|marker| self.has(marker, finding.producer_id)),
            Kind::MarkerProbablyCleaned => finding.offset.is_some_and(|offset| {
                self.batches
                    .iter()
                    .any(|(_, last, of)| *last < offset && *of == finding.producer_id)
            }),
            _ => false,
        }
    }

    fn has(&self, offset: i64, producer_id: Option<i64>) -> bool {
        self.batches
            .iter()
            .any(|(first, last, of)| (*first..=*last).contains(&offset) && *of == producer_id)
    }
}

#[derive(Default)]
struct Walked {
    bytes: u64,
    vanished: Vec<usize>,
}

struct Pass<'p, P, G> {
    dir: &'p PartitionDir,
    options: &'p VerifyOptions,
    checkpoints: CheckpointedOffsets,
    start: Start,
    out: InOrder<'p>,
    passed: &'p mut P,
    give: &'p mut G,
}

/// What must see the batches in order.
struct Folds<'a> {
    gaps: GapFold<'a>,
    gap_findings: Vec<gaps::Finding>,
    compaction: Compaction,
    transactions: Comparison<'a, Box<dyn FnMut(&AbortedRow<'_>) -> Result<(), Error> + 'a>>,
    epochs: EpochCheck,
    snapshots: SnapshotCheck<'a>,
    found: Vec<Finding>,
}

impl<P: FnMut(u64), G> Pass<'_, P, G> {
    fn run<E: From<Error>>(mut self) -> Result<Walked, E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let (dir, io) = (self.dir, self.options.io);
        let mut found = Vec::new();
        check_names(dir, &self.start, &mut found);
        check_partition_metadata(dir, io, &mut found)?;
        if dir.topic() == Some(CLUSTER_METADATA) {
            check_kraft_snapshots(dir, io, &mut found)?;
        }
        let first_base = dir.segments.first().map_or(0, |first| first.base_offset);
        let log_start = log_start_offset(first_base, self.checkpoints);
        let state = StateOptions {
            io,
            ..StateOptions::default()
        };
        let aborted_options = AbortedOptions {
            state,
            ..AbortedOptions::default()
        };
        let aborted: RefCell<Vec<Finding>> = RefCell::default();
        let start = self.start;
        let (fold, is_seeded) = begin(dir, log_start, state)?;
        let emit_aborted = |row: &AbortedRow<'_>| {
            aborted.borrow_mut().extend(of_aborted(row, dir, &start));
            Ok(())
        };
        let gap_options = GapOptions {
            io,
            ..GapOptions::default()
        };
        let mut gap_findings = Vec::new();
        let gaps = GapFold::begin(dir, self.checkpoints, &gap_options, &mut gap_findings)?;
        let mut folds = Folds {
            gaps,
            gap_findings,
            compaction: Compaction::default(),
            transactions: Comparison::new(
                dir,
                &aborted_options,
                log_start,
                fold.with_high_watermark(self.checkpoints.high_watermark),
                Box::new(emit_aborted),
            ),
            epochs: EpochCheck::default(),
            snapshots: SnapshotCheck::new(dir, io),
            found,
        };
        let mut walked = Walked::default();
        for (index, segment) in dir.segments.iter().enumerate() {
            match self.segment(index, segment, &mut folds)? {
                Some(bytes) => walked.bytes += bytes,
                None => walked.vanished.push(index),
            }
            folds.transactions.finish_segment(i64::MAX)?;
            folds.found.append(&mut aborted.borrow_mut());
            self.hand_over(&mut folds)?;
        }
        self.end(folds, is_seeded, log_start)?;
        let Self {
            mut out,
            passed,
            give,
            ..
        } = self;
        out.finish(passed, give)?;
        Ok(walked)
    }

    /// Passes on what the folds have found, and what is ready of the stretches.
    fn hand_over<E: From<Error>>(&mut self, folds: &mut Folds<'_>) -> Result<(), E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        for finding in folds.gap_findings.drain(..) {
            let finding = of_gap(&finding, self.dir, &mut folds.compaction);
            folds.found.extend(finding);
        }
        for finding in folds.found.drain(..) {
            self.out.found(finding);
        }
        self.out.give(self.passed, self.give)
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
        let offset_index = open_index(dir, segment.offset_index, io)?;
        let time_index = open_index(dir, segment.time_index, io)?;
        folds.transactions.enter(index, segment)?;
        check_txn_index(dir, index, io, &mut folds.found)?;
        let Some(opened) = open_segment(dir, segment, io)? else {
            return Ok(None);
        };
        let opened = Arc::new(opened);
        let base = segment.base_offset;
        if folds.gaps.next_offset() > base && index > 0 {
            folds
                .found
                .push(overlap(&opened.name, base, folds.gaps.next_offset()));
        }
        let offset_bytes = offset_index
            .as_ref()
            .map(MappedFile::read_all)
            .transpose()?;
        let time_bytes = time_index.as_ref().map(MappedFile::read_all).transpose()?;
        let mut walk = SegmentWalk {
            index,
            base,
            offsets: offset_bytes
                .as_ref()
                .map(|bytes| OffsetIndexCheck::new(base, bytes)),
            times: time_bytes
                .as_ref()
                .map(|bytes| TimeIndexCheck::new(base, bytes)),
            outside: (None, 0),
        };
        self.batches(&opened, &mut walk, folds)?;
        walk.tell_outside(&opened.name, &mut folds.found);
        let size = opened.file.len();
        let context = |file: &MappedFile| (file_name(file), file.len());
        if let (Some(check), Some(file)) = (walk.offsets, &offset_index) {
            let (name, file_size) = context(file);
            let context = self.index_context(index, base, &name, file_size);
            check.finish(size, &context, &mut folds.found);
        }
        if let (Some(check), Some(file)) = (walk.times, &time_index) {
            let (name, file_size) = context(file);
            let context = self.index_context(index, base, &name, file_size);
            check.finish(&context, &mut folds.found);
        }
        Ok(Some(size))
    }

    fn index_context<'c>(
        &'c self,
        segment: usize,
        base_offset: i64,
        file: &'c str,
        file_size: u64,
    ) -> IndexContext<'c> {
        IndexContext {
            start: &self.start,
            segment,
            base_offset,
            file,
            file_size,
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
        let context = SegmentContext {
            index: segment.index,
            size_in_bytes: size,
            start: self.start,
            is_metadata_log: self.dir.topic() == Some(CLUSTER_METADATA),
            depth: self.options.depth,
        };
        let stretch = |from, to| Stretch {
            segment: Arc::clone(opened),
            context,
            from,
            to,
        };
        let (mut from, mut batches) = (0, 0);
        let mut walk = BatchWalk::new(&opened.file);
        loop {
            let position = walk.position();
            let Some(entry) = walk.next_entry() else {
                // What a broker is still writing is no part of it.
                if position > from {
                    self.out.submit(stretch(from, position));
                }
                break;
            };
            let entry = entry?;
            if let Entry::Damage(damage) = &entry {
                if position > from {
                    self.out.submit(stretch(from, position));
                }
                from = position + damage.size_in_bytes;
                let next = (folds.gaps.next_offset(), size);
                let start = &self.start;
                let finding = of_damage(damage, start, segment.index, &opened.name, next);
                folds.found.push(finding);
            }
            segment.entry(&entry);
            folds.entry(at, &entry)?;
            batches += 1;
            if position - from.min(position) >= STRETCH_BYTES || batches >= STRETCH_BATCHES {
                if position > from {
                    self.out.submit(stretch(from, position));
                    from = position;
                }
                batches = 0;
                self.hand_over(folds)?;
            } else if !folds.found.is_empty() || !folds.gap_findings.is_empty() {
                self.hand_over(folds)?;
            }
        }
        Ok(())
    }

    /// What only the end of the log tells.
    fn end<E: From<Error>>(
        &mut self,
        folds: Folds<'_>,
        is_seeded: bool,
        log_start: i64,
    ) -> Result<(), E>
    where
        G: FnMut(Finding) -> Result<(), E>,
    {
        let (dir, io) = (self.dir, self.options.io);
        let Folds {
            gaps,
            mut gap_findings,
            mut compaction,
            transactions,
            epochs,
            snapshots,
            mut found,
        } = folds;
        let log_end = gaps.finish(&mut gap_findings)?.log_end_offset;
        for finding in &gap_findings {
            found.extend(of_gap(finding, dir, &mut compaction));
        }
        found.extend(compaction.finding());
        if let Some(last) = dir.segments.last() {
            let ends = LogEnds { log_start, log_end };
            check_checkpoints(
                self.checkpoints,
                ends,
                last.base_offset,
                &self.start,
                &mut found,
            );
            let fold = transactions.fold;
            snapshots.finish(ends, fold.manager(), &self.start, &mut found)?;
            epochs.finish(dir, io, (log_start, log_end), &self.start, &mut found)?;
            let options = TxnsOptions {
                state: StateOptions {
                    io,
                    ..StateOptions::default()
                },
                states: WantedStates::ALL,
                ..TxnsOptions::default()
            };
            open_transactions::<E>(
                dir,
                self.checkpoints,
                &options,
                (fold, is_seeded),
                log_end,
                |row| {
                    of_open(row, &mut found);
                    Ok(())
                },
            )?;
        }
        for finding in found {
            self.out.found(finding);
        }
        Ok(())
    }
}

impl Folds<'_> {
    #[inline]
    fn entry(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) -> Result<(), Error> {
        if let Entry::Batch(batch) = entry {
            if self.snapshots.is_due(batch.header.base_offset()) {
                let manager = self.transactions.fold.manager();
                let is_compacted = self.compaction.is_seen();
                let offset = batch.header.base_offset();
                self.snapshots
                    .compare(offset, manager, is_compacted, &mut self.found)?;
            }
            self.epochs.take(at.index, batch.position, batch.header);
        } else if let Entry::Legacy(_) = entry {
            self.epochs.take_legacy();
        }
        self.gaps.entry(at, entry, &mut self.gap_findings)?;
        match self.transactions.entry(at, entry)? {
            TxnEvent::Nothing | TxnEvent::EmptyTransaction => {}
            TxnEvent::Ended => self.ended(),
            TxnEvent::Refused => self.refused(at, entry),
        }
        Ok(())
    }

    fn ended(&mut self) {
        if let Some(ended) = self.transactions.fold.ended() {
            let txn = &ended.transaction;
            let producer = (txn.producer_id, txn.producer_epoch);
            let missing = txn.missing_markers.iter();
            self.found
                .extend(missing.map(|it| of_missing_marker(producer, it)));
        }
    }

    #[cold]
    fn refused(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) {
        let (Entry::Batch(batch), Some(refusal)) = (entry, self.transactions.fold.last_refusal())
        else {
            return;
        };
        let finding = Finding {
            file: Some(at.file.to_owned()),
            position: Some(batch.position),
            found: Some(refusal.to_string()),
            broker_action: "a start that replays it stops, or cuts the segment there if it \
                            recovers it"
                .to_owned(),
            ..Finding::new(Severity::Corrupt, Kind::RefusedBatch, refusal.to_string())
        };
        self.found
            .push(super::batches::of_header(batch.header, finding));
    }
}

/// What one segment's batches are held against.
struct SegmentWalk<'a> {
    index: usize,
    base: i64,
    offsets: Option<OffsetIndexCheck<'a>>,
    times: Option<TimeIndexCheck<'a>>,
    /// The first batch outside the segment's offsets, and how many there are.
    outside: (Option<Outside>, u64),
}

#[derive(Clone, Copy)]
struct Outside {
    position: u64,
    offset: i64,
    last_offset: i64,
}

impl SegmentWalk<'_> {
    #[inline]
    fn entry(&mut self, entry: &Entry<'_>) {
        let (indexed, base_offset) = match entry {
            Entry::Batch(batch) => (
                of_batch(batch.position, batch.header),
                batch.header.base_offset(),
            ),
            Entry::Legacy(entry) => {
                if let Some(times) = &mut self.times {
                    times.has_legacy();
                }
                let indexed = Indexed {
                    position: entry.position,
                    last_offset: entry.header.offset(),
                    max_timestamp: entry.timestamp().unwrap_or(NO_TIMESTAMP),
                };
                (indexed, indexed.last_offset)
            }
            Entry::Damage(_) => return,
        };
        let relative = indexed.last_offset.wrapping_sub(self.base);
        if base_offset < self.base || !(0..=i64::from(i32::MAX)).contains(&relative) {
            self.outside.1 += 1;
            self.outside.0.get_or_insert(Outside {
                position: indexed.position,
                offset: base_offset,
                last_offset: indexed.last_offset,
            });
        }
        if let Some(offsets) = &mut self.offsets {
            offsets.take(indexed);
        }
        if let Some(times) = &mut self.times {
            times.take(indexed);
        }
    }

    fn tell_outside(&self, file: &str, found: &mut Vec<Finding>) {
        let (Some(outside), count) = self.outside else {
            return;
        };
        let is_below = outside.offset < self.base;
        let base = self.base;
        let (kind, expected, action) = if is_below {
            let action =
                "no start looks at it; an unclean one that recovers the segment fails on it";
            (Kind::OffsetBelowBase, format!("from {base} on"), action)
        } else {
            let action = "an unclean start, or one without .index, splits the segment at such \
                          batches; a clean one does not look";
            let largest = base.saturating_add(i64::from(i32::MAX));
            (Kind::OffsetOverflow, format!("at most {largest}"), action)
        };
        let offset = outside.offset;
        found.push(Finding {
            file: Some(file.to_owned()),
            position: Some(outside.position),
            offset: Some(offset),
            base_offset: Some(offset),
            last_offset: Some(outside.last_offset),
            segment_base_offset: Some(base),
            expected: Some(expected),
            found: Some(offset.to_string()),
            count: Some(count),
            broker_action: action.to_owned(),
            ..Finding::new(
                Severity::Corrupt,
                kind,
                format!("offset {offset} does not fit a segment that begins at {base}"),
            )
        });
    }
}

#[inline]
fn of_batch(position: u64, header: &RecordBatchHeader) -> Indexed {
    Indexed {
        position,
        last_offset: header.last_offset(),
        max_timestamp: header.max_timestamp(),
    }
}

/// The segment before reaches up to or behind `base`.
fn overlap(file: &str, base: i64, next_offset: i64) -> Finding {
    Finding {
        file: Some(file.to_owned()),
        position: Some(0),
        offset: Some(base),
        segment_base_offset: Some(base),
        previous_last_offset: next_offset.checked_sub(1),
        overlap: Some((base, next_offset.saturating_sub(1))),
        expected: Some(format!("offsets below {base}")),
        found: Some(format!("offsets up to {}", next_offset.saturating_sub(1))),
        broker_action: "no start looks at it; a fetch is answered from the segment its offset \
                        belongs to by name"
            .to_owned(),
        next_step: Some("compare with another replica: kseg diff".to_owned()),
        ..Finding::new(
            Severity::Corrupt,
            Kind::SegmentOverlap,
            "the segment before reaches into this one",
        )
    }
}

fn open_index(
    dir: &PartitionDir,
    place: Option<usize>,
    io: Io,
) -> Result<Option<MappedFile>, Error> {
    let Some(entry) = place.and_then(|place| dir.file(place)) else {
        return Ok(None);
    };
    match MappedFile::open(&dir.file_path(entry), io) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn file_name(file: &MappedFile) -> String {
    let name = file.path().file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
