//! One partition: what is looked at, and how findings come out.

use std::ops::AddAssign;
use std::sync::Arc;
use std::thread;

use super::batches::Depth;
use super::coordinators::CoordinatorsKnow;
use super::damage::Damaged;
use super::files::check_names;
use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::parallel::{InOrder, Queue};
use super::pass::Pass;
use super::start::Start;
use super::swaps::{Settled, check_swaps};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::records::DEFAULT_MAX_BATCH_BYTES;
use crate::log::swap_files::Swaps;
use crate::log::{Error, Io};
use crate::report::filter::Filter;

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
    /// Only findings about the file of this name.
    pub file: Option<String>,
    /// Threads; `None` for one a core.
    pub threads: Option<usize>,
    /// What open transactions and markers are held against; `None` without `__transaction_state`.
    pub coordinators: Option<Arc<CoordinatorsKnow>>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            io: Io::default(),
            depth: Depth::default(),
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            filter: Filter::default(),
            file: None,
            threads: None,
            coordinators: None,
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
    let has_checksums = options.depth != Depth::Headers;
    let swaps = Swaps::of(dir, options.io, checkpoints, has_checksums)?;
    let listed = dir;
    let dir = swaps.placed().unwrap_or(listed);
    let start = Start::of(dir, checkpoints)?;
    let recovers = |base: i64| {
        let behind = dir.segments.partition_point(|it| it.base_offset <= base);
        start.recovers(behind.saturating_sub(1))
    };
    let mut tell = |finding: Finding| -> Result<(), E> {
        if !wants(options, &finding) {
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
    let mut of_names = Vec::new();
    check_names(listed, &swaps, &mut of_names);
    check_swaps(&swaps, &mut of_names);
    of_names.into_iter().try_for_each(&mut tell)?;
    let mut damaged = Damaged::default();
    let mut missing = Missing::default();
    let mut settled = Settled::new(&swaps, listed, checkpoints, options.io);
    let mut give = |finding: Finding| -> Result<(), E> {
        if damaged.explains(&finding) {
            return Ok(());
        }
        let finding = damaged.behind_cut(finding, recovers);
        let Some(finding) = of_log(checkpoints.log_start_offset, finding) else {
            return Ok(());
        };
        match settled.settle(finding)? {
            Some(finding) if missing.is_news(&finding) => {
                tell(warning_where_recovered(finding, recovers))
            }
            Some(_) | None => Ok(()),
        }
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
            start,
            vanished: Vec::new(),
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

/// Only recovery makes the index anew that has a lost marker.
fn warning_where_recovered(finding: Finding, recovers: impl Fn(i64) -> bool) -> Finding {
    let is_marker = finding.kind == Kind::MarkerProbablyCleaned;
    let is_kept = !is_marker || finding.missing_offset.is_some_and(recovers);
    Finding {
        start_warning: finding.start_warning.filter(|_| is_kept),
        ..finding
    }
}

/// The offsets that have been told as missing: several files may tell of the same.
#[derive(Default)]
struct Missing(OffsetRanges);

impl Missing {
    fn is_news(&mut self, finding: &Finding) -> bool {
        let Some(first) = finding.first_offset else {
            return true;
        };
        let last = finding.last_offset.unwrap_or(i64::MAX);
        finding.kind != Kind::SegmentMissing || self.0.add(first, last)
    }
}

/// Of missing segments only what lies in the log is missing: what is below its checkpointed start
/// had been given up.
fn of_log(log_start: Option<i64>, finding: Finding) -> Option<Finding> {
    let Some((log_start, first)) = log_start.zip(finding.first_offset) else {
        return Some(finding);
    };
    if finding.kind != Kind::SegmentMissing || first >= log_start {
        return Some(finding);
    }
    let is_in_log = finding.last_offset.is_none_or(|last| last >= log_start);
    is_in_log.then_some(Finding {
        offset: Some(log_start),
        first_offset: Some(log_start),
        ..finding
    })
}

/// Findings without a producer or offset pass only where none is asked for.
fn wants(options: &VerifyOptions, finding: &Finding) -> bool {
    let filter = &options.filter;
    if options.file.is_some() && options.file != finding.file {
        return false;
    }
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
