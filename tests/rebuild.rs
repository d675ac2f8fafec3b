//! `rebuild` against the side files that Kafka wrote: every fixture, every incident and every case,
//! and those in the folders that `KSEG_CASES` names (more cases of the oracle) and
//! `KSEG_RECOVERED_CASES` (cases whose last step is an unclean start from recovery point 0: there
//! nothing may differ).
//!
//! A file that differs must be explained by one of the rules below. A rule looks at the bytes of
//! the log and the file, and at what the scenario did; never at names.
#![allow(
    clippy::print_stdout,
    reason = "the counts are for who looks at them with --nocapture"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use common::cases::is_left_closed;
use common::expiry::{Activity, Clock};
use common::partitions::{cases, folders_in, fresh_cases, json};
use kseg::format::aborted_txn::{AbortedTxn, AbortedTxnRows};
use kseg::format::offset_index::OffsetIndexRows;
use kseg::format::producer_snapshot::{ProducerSnapshot, ProducerSnapshotFields};
use kseg::format::time_index::TimeIndexRows;
use kseg::log::batches::Entry;
use kseg::log::checkpoints::Checkpoints;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::rebuild::{RebuildOptions, Rebuilt, SideFileKind, SnapshotsAt, rebuild};
use kseg::state::Expiration;
use serde_json::Value;

fn options() -> RebuildOptions {
    RebuildOptions {
        io: Io::Mmap,
        from_scratch: false,
        expiration: None,
        index_interval_bytes: 4096,
        snapshots_at: SnapshotsAt::BasesAndEnd,
    }
}

type Files = BTreeMap<(SideFileKind, i64), Vec<u8>>;

fn rebuilt(path: &Path, options: RebuildOptions) -> (Rebuilt, Files) {
    let dir = PartitionDir::open(path).unwrap();
    let above = Checkpoints::read(path.parent().unwrap(), Io::Mmap);
    let offsets = match (dir.topic(), dir.partition()) {
        (Some(topic), Some(partition)) => above.of(topic, partition),
        _ => Default::default(),
    };
    let mut files = BTreeMap::new();
    let end = rebuild(&dir, offsets, options, |file| {
        let is_new = files
            .insert((file.kind, file.offset), file.bytes.to_vec())
            .is_none();
        assert!(is_new, "{:?} {} was made twice", file.kind, file.offset);
        Ok::<_, Error>(())
    });
    (end.unwrap().unwrap(), files)
}

/// The directories with a `.log` in `root` and below, sorted.
fn partitions(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut has_log = false;
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                has_log |= path.extension().is_some_and(|it| it == "log");
            }
        }
        if has_log {
            found.push(folder);
        }
    }
    found.sort();
    found
}

/// The side files in use of a directory.
fn existing(path: &Path) -> Files {
    let dir = PartitionDir::open(path).unwrap();
    let mut files = BTreeMap::new();
    for file in &dir.files {
        let name = file.name();
        for kind in SideFileKind::ALL {
            let stem = name.split('.').next().unwrap();
            let Ok(offset) = stem.parse::<i64>() else {
                continue;
            };
            if kind.file_name(offset) == name {
                files.insert((kind, offset), fs::read(path.join(&*name)).unwrap());
            }
        }
    }
    files
}

#[derive(Clone, Copy, Debug)]
struct BatchFacts {
    position: i64,
    base_offset: i64,
    last_offset: i64,
    max_timestamp: i64,
    producer_id: i64,
    is_control: bool,
    is_empty: bool,
    magic: i8,
}

/// A partition directory, what rebuild makes of it, and what is known of its past.
struct Subject {
    path: PathBuf,
    log: BTreeMap<i64, Vec<BatchFacts>>,
    theirs: Files,
    ours: Files,
    end: Option<Rebuilt>,
    interval: i64,
    scenario: Option<Value>,
    about: Option<Value>,
}

fn log_facts(path: &Path) -> BTreeMap<i64, Vec<BatchFacts>> {
    let dir = PartitionDir::open(path).unwrap();
    let mut log: BTreeMap<i64, Vec<BatchFacts>> = BTreeMap::new();
    for segment in &dir.segments {
        log.insert(segment.base_offset, Vec::new());
    }
    walk_partition(&dir, Io::Mmap, 0, |at, entry| {
        let facts = match entry {
            Entry::Batch(batch) => BatchFacts {
                position: i64::try_from(batch.position).unwrap(),
                base_offset: batch.header.base_offset(),
                last_offset: batch.header.last_offset(),
                max_timestamp: batch.header.max_timestamp(),
                producer_id: batch.header.producer_id(),
                is_control: batch.header.attributes().is_control(),
                is_empty: batch.header.records_count() == 0,
                magic: batch.header.magic(),
            },
            Entry::Legacy(entry) => BatchFacts {
                position: i64::try_from(entry.position).unwrap(),
                base_offset: entry.header.offset(),
                last_offset: entry.header.offset(),
                max_timestamp: entry.timestamp().unwrap_or(-1),
                producer_id: -1,
                is_control: false,
                is_empty: false,
                magic: entry.header.magic(),
            },
            Entry::Damage(_) => return Ok::<_, Error>(ControlFlow::Continue(())),
        };
        log.get_mut(&at.base_offset).unwrap().push(facts);
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    log
}

impl Subject {
    /// `is_recovered`: the clock of the scenario's end is that of the recovery.
    fn open(path: &Path, is_recovered: bool) -> Self {
        let scenario = fs::read(path.parent().unwrap().join("scenario.json")).ok();
        let scenario: Option<Value> = scenario.map(|it| serde_json::from_slice(&it).unwrap());
        let about = path
            .ancestors()
            .map(|it| it.join("about.json"))
            .find(|it| it.is_file());
        let about = about.map(|it| serde_json::from_slice(&fs::read(it).unwrap()).unwrap());
        let theirs = existing(path);
        let log = log_facts(path);
        let interval = match &scenario {
            Some(scenario) => scenario["config"]["index.interval.bytes"]
                .as_i64()
                .unwrap_or(4096),
            None => interval_of_the_bytes(&log, &theirs),
        };
        let mut subject = Self {
            path: path.to_owned(),
            log,
            theirs,
            ours: Files::new(),
            end: None,
            interval,
            scenario,
            about,
        };
        let expiration = is_recovered.then(|| Expiration {
            now_ms: subject.clock().now_ms,
            producer_id_expiration_ms: subject.clock().expiration_ms,
        });
        let (end, ours) = rebuilt(
            path,
            RebuildOptions {
                index_interval_bytes: interval.unsigned_abs(),
                expiration,
                ..options()
            },
        );
        subject.ours = ours;
        subject.end = Some(end);
        subject
    }

    /// The oracle damages no side file.
    fn damaged(&self, reason: &'static str) -> Option<&'static str> {
        self.scenario.is_none().then_some(reason)
    }

    fn end(&self) -> &Rebuilt {
        self.end.as_ref().unwrap()
    }

    fn steps(&self, names: &[&str]) -> usize {
        let Some(scenario) = &self.scenario else {
            return 0;
        };
        let steps = scenario["steps"].as_array().unwrap().iter();
        steps
            .filter(|step| names.iter().any(|name| step.get(name).is_some()))
            .count()
    }

    /// The lowest offset that the log was cut at since it was opened, if it was never closed.
    fn cut_and_not_closed(&self) -> Option<i64> {
        let scenario = self.scenario.as_ref()?;
        let steps = scenario["steps"].as_array().unwrap().iter().rev();
        let since_opened = steps.take_while(|step| step.get("reopen").is_none());
        let cuts = since_opened.filter_map(|step| step["truncateTo"]["offset"].as_i64());
        let is_closed = scenario["shutdown"] != "unclean";
        cuts.min().filter(|_| !is_closed)
    }

    /// The batches below `offset` that recovery can know of: what lies in segments below the one
    /// with the log start is not remembered.
    fn readable(&self, offset: i64) -> impl Iterator<Item = &BatchFacts> {
        let log_start = self.end().log_start_offset;
        let first = self
            .log
            .range(..=log_start)
            .next_back()
            .map_or(0, |it| *it.0);
        self.log
            .range(first..)
            .flat_map(|it| it.1)
            .filter(move |it| it.last_offset < offset)
    }

    /// What Kafka answered to the scenario.
    fn result(&self) -> Value {
        json(&self.path.parent().unwrap().join("result.json"))
    }

    /// The clock as the scenario moved it, or as the newest batch and the broker's settings tell.
    fn clock(&self) -> Clock {
        if let Some(scenario) = &self.scenario {
            return Clock::of_case(scenario, &self.result());
        }
        let newest = self.batches().map(|it| it.max_timestamp).max().unwrap();
        let about = self.about.as_ref();
        let setting = about.map(|it| &it["brokerConfig"]["producer.id.expiration.ms"]);
        let setting = setting.and_then(|it| it.as_i64().or_else(|| it.as_str()?.parse().ok()));
        let mut clock = Clock::at(newest);
        clock.expiration_ms = setting.unwrap_or(clock.expiration_ms);
        clock
    }

    /// Whether a broker before `version` wrote it.
    fn is_written_before(&self, version: [u32; 2]) -> bool {
        let about = self.about.as_ref();
        let written_by = about.and_then(|it| it["kafkaVersion"].as_str());
        written_by.is_some_and(|it| {
            let numbers: Vec<u32> = it.split('.').map(|it| it.parse().unwrap()).collect();
            numbers[..2] < version[..]
        })
    }

    fn batches(&self) -> impl Iterator<Item = &BatchFacts> {
        self.log.values().flatten()
    }
}

/// The index interval of a broker whose settings are not known: the one with which most `.index`
/// files come out as they are, Kafka's default if that is as good.
fn interval_of_the_bytes(log: &BTreeMap<i64, Vec<BatchFacts>>, files: &Files) -> i64 {
    let mut candidates = BTreeSet::from([4096]);
    for ((kind, offset), bytes) in files {
        let (SideFileKind::Index, Some(batches)) = (kind, log.get(offset)) else {
            continue;
        };
        // The largest distance at which a batch got no entry.
        let mut rows = OffsetIndexRows::decode(bytes).rows().iter().peekable();
        let (mut last, mut largest) = (0, 0);
        for batch in batches {
            if rows
                .peek()
                .is_some_and(|row| i64::from(row.position()) == batch.position)
            {
                rows.next();
                last = batch.position;
                candidates.insert(largest);
            } else {
                largest = largest.max(batch.position - last);
            }
        }
        candidates.insert(largest);
    }
    let fits = |interval: &i64| {
        files
            .iter()
            .filter(|((kind, offset), bytes)| {
                *kind == SideFileKind::Index
                    && log
                        .get(offset)
                        .is_some_and(|batches| rows_of(bytes) == indexed(batches, *interval, 0))
            })
            .count()
    };
    let best = candidates.iter().map(fits).max().unwrap();
    if fits(&4096) == best {
        return 4096;
    }
    *candidates.iter().find(|it| fits(it) == best).unwrap()
}

fn rows_of(index: &[u8]) -> Vec<i64> {
    let rows = OffsetIndexRows::decode(index).rows();
    rows.iter().map(|row| i64::from(row.position())).collect()
}

/// Positions of the batches that get an entry if the bytes are counted from `start` on.
fn indexed(batches: &[BatchFacts], interval: i64, start: i64) -> Vec<i64> {
    let mut last = start;
    let mut rows = Vec::new();
    for batch in batches.iter().filter(|batch| batch.position >= start) {
        if batch.position - last > interval {
            rows.push(batch.position);
            last = batch.position;
        }
    }
    rows
}

// ---- the rules --------------------------------------------------------------------------------

/// Why a file is other than the rebuilt one, or is not rebuilt; `None` if no rule says so.
fn reason(
    subject: &Subject,
    kind: SideFileKind,
    offset: i64,
    theirs: &[u8],
) -> Option<&'static str> {
    let ours = subject.ours.get(&(kind, offset));
    if let Some(reason) = behind_the_end(subject, kind, offset) {
        return Some(reason);
    }
    let by_content = match kind {
        SideFileKind::Index => index_reason(subject, offset, theirs),
        SideFileKind::TimeIndex => time_index_reason(subject, offset, theirs),
        SideFileKind::TxnIndex => ours.and_then(|ours| txn_index_reason(subject, ours, theirs)),
        SideFileKind::Snapshot => match ours {
            None => no_snapshot_reason(subject, offset),
            Some(ours) => snapshot_reason(subject, offset, ours, theirs),
        },
    };
    by_content.or_else(|| segment_missing(subject, kind, offset))
}

/// A whole segment is gone: its other files are left over, and what later ones tell of its batches
/// cannot be read again.
fn segment_missing(subject: &Subject, kind: SideFileKind, offset: i64) -> Option<&'static str> {
    let is_file_of_segment = kind != SideFileKind::Snapshot;
    if subject.scenario.is_some() {
        return None;
    }
    if is_file_of_segment && !subject.log.contains_key(&offset) {
        return Some("the segment's log is gone");
    }
    let mut next_offset = None;
    let mut is_missing = false;
    for (base, batches) in subject.log.range(..=offset) {
        is_missing |= next_offset.is_some_and(|next| next < *base);
        next_offset = batches.last().map(|it| it.last_offset + 1).or(Some(*base));
    }
    is_missing.then_some("a segment before is gone")
}

/// Recovery cuts the log before or inside the segment the file belongs to.
fn behind_the_end(subject: &Subject, kind: SideFileKind, offset: i64) -> Option<&'static str> {
    let stop = subject.end().stop.as_ref()?;
    let base: i64 = stop.file.split('.').next().unwrap().parse().unwrap();
    let behind = match kind {
        SideFileKind::Snapshot => offset > base,
        SideFileKind::Index | SideFileKind::TimeIndex | SideFileKind::TxnIndex => offset >= base,
    };
    behind.then_some("the log is damaged before")
}

const STALE: &str =
    "not closed after a cut: entries of what was cut off are still behind the others";

/// How many of an index's rows may count, the most first. Truncation counts entries off and leaves
/// their bytes; only closing cuts them off (`AbstractIndex.truncateToEntries`, `trimToValidSize`).
/// Before that, the last rows may be any number of those from the lowest offset on that the log was
/// cut at since it was opened.
fn counting(subject: &Subject, offsets: &[i64]) -> Vec<usize> {
    let cut_at = subject.cut_and_not_closed().unwrap_or(i64::MAX);
    let stale = offsets.iter().rev().take_while(|it| **it >= cut_at).count();
    (offsets.len() - stale..=offsets.len()).rev().collect()
}

fn index_reason(subject: &Subject, base: i64, theirs: &[u8]) -> Option<&'static str> {
    let explained = index_reasons(subject, base, theirs);
    explained.first().map(|it| it.1)
}

/// Why an offset index may be as it is, and how many of its rows count then.
fn index_reasons(subject: &Subject, base: i64, theirs: &[u8]) -> Vec<(usize, &'static str)> {
    let offsets = OffsetIndexRows::decode(theirs).rows().iter();
    let offsets: Vec<i64> = offsets.map(|row| row.offset(base)).collect();
    let mut explained = Vec::new();
    for count in counting(subject, &offsets) {
        let reason = index_reason_of_first(subject, base, theirs, count);
        let has_stale = count < offsets.len();
        explained.extend(reason.map(|it| (count, if has_stale { STALE } else { it })));
    }
    explained
}

fn index_reason_of_first(
    subject: &Subject,
    base: i64,
    theirs: &[u8],
    count: usize,
) -> Option<&'static str> {
    let batches = subject.log.get(&base)?;
    let index = OffsetIndexRows::decode(theirs);
    let rows: Vec<(i64, i64)> = index.rows()[..count]
        .iter()
        .map(|row| (row.offset(base), i64::from(row.position())))
        .collect();
    let rises = rows.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1);
    let starts: BTreeMap<i64, i64> = batches
        .iter()
        .map(|b| (b.position, b.last_offset))
        .collect();
    let whole = index.ragged_size() == 0 && index.non_zero_position_after_rows().is_none();
    if !whole
        || !rises
        || !rows
            .iter()
            .all(|(_, position)| starts.contains_key(position))
    {
        return subject.damaged("the index is damaged");
    }
    let exact = rows
        .iter()
        .all(|(offset, position)| starts[position] == *offset);
    let positions: Vec<i64> = rows.iter().map(|row| row.1).collect();
    let resets = resets(batches, &positions, subject.interval);
    let (true, Some(resets)) = (exact, resets) else {
        // The last offset of a set that was appended at once, up to 1.1 the first one.
        let is_offset_of_set = |(offset, position): &(i64, i64)| {
            let at = batches
                .iter()
                .position(|it| it.position == *position)
                .unwrap();
            let first = match at.checked_sub(1) {
                // An entry of magic 0 or 1 does not tell its first offset.
                Some(before) if batches[at].magic < 2 => batches[before].last_offset + 1,
                Some(_) | None => batches[at].base_offset,
            };
            let is_first = first == *offset && subject.is_written_before([2, 0]);
            is_first || batches[at..].iter().any(|it| it.last_offset == *offset)
        };
        // A scenario is always run by 4.3.1.
        let may_be_older = !exact || subject.is_written_before([4, 1]);
        return (subject.scenario.is_none() && may_be_older && rows.iter().all(is_offset_of_set))
            .then_some("written by 4.0 or earlier: one entry for a set of batches");
    };
    if subject.scenario.is_some() && resets > subject.steps(&["reopen", "truncateTo"]) {
        return None;
    }
    Some(if resets == 0 {
        "room for more entries: not closed"
    } else {
        "bytes counted anew after the log was opened or cut"
    })
}

/// How often the count of bytes began anew, at the fewest, so that exactly these batches got
/// entries; `None` if that explains nothing.
fn resets(batches: &[BatchFacts], indexed_at: &[i64], interval: i64) -> Option<usize> {
    let mut resets = 0;
    let mut last = 0;
    for position in indexed_at {
        if indexed(batches, interval, last).first() != Some(position) {
            // Some batch behind the last entry must have been the first after an opening.
            let mut starts = batches.iter().map(|batch| batch.position);
            starts.find(|start| {
                *start >= last && indexed(batches, interval, *start).first() == Some(position)
            })?;
            resets += 1;
        }
        last = *position;
    }
    if !indexed(batches, interval, last).is_empty() {
        resets += 1;
    }
    Some(resets)
}

fn time_index_reason(subject: &Subject, base: i64, theirs: &[u8]) -> Option<&'static str> {
    let offsets = TimeIndexRows::decode(theirs).rows().iter();
    let offsets: Vec<i64> = offsets.map(|row| row.offset(base)).collect();
    // The entries of the offset index, as many of them as may count.
    let offset_index = subject.theirs.get(&(SideFileKind::Index, base));
    let offset_index = offset_index.map_or(&[][..], Vec::as_slice);
    let indexed_at = rows_of(offset_index);
    let explained = index_reasons(subject, base, offset_index);
    let mut indexed: Vec<&[i64]> = explained.iter().map(|it| &indexed_at[..it.0]).collect();
    if indexed.is_empty() {
        indexed.push(&indexed_at);
    }
    counting(subject, &offsets).into_iter().find_map(|count| {
        let has_stale = count < offsets.len();
        indexed.iter().find_map(|indexed_at| {
            let reason = time_index_reason_of_first(subject, base, theirs, count, indexed_at)?;
            Some(if has_stale { STALE } else { reason })
        })
    })
}

fn time_index_reason_of_first(
    subject: &Subject,
    base: i64,
    theirs: &[u8],
    count: usize,
    indexed_at: &[i64],
) -> Option<&'static str> {
    let batches = subject.log.get(&base)?;
    let index = TimeIndexRows::decode(theirs);
    let rows: Vec<(i64, i64)> = index.rows()[..count]
        .iter()
        .map(|row| (row.timestamp(), row.offset(base)))
        .collect();
    let rises = rows.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
    let whole = index.ragged_size() == 0 && index.non_zero_position_after_rows().is_none();
    if !whole || !rises {
        return subject.damaged("the index is damaged");
    }
    if subject.is_written_before([0, 11]) && batches.iter().all(|it| it.max_timestamp < 0) {
        return Some("written by 0.10: times that messages of magic 0 do not keep");
    }
    // (largest timestamp so far, batch that first had it) behind each batch.
    let mut largest: Option<BatchFacts> = None;
    let mut peaks: Vec<BatchFacts> = Vec::new();
    for batch in batches {
        if batch.max_timestamp > largest.map_or(-1, |it| it.max_timestamp) {
            largest = Some(*batch);
            peaks.push(*batch);
        }
    }
    let exact = |row: &(i64, i64)| {
        peaks
            .iter()
            .any(|it| (it.max_timestamp, it.last_offset) == *row)
    };
    let inside = |row: &(i64, i64)| {
        peaks.iter().any(|it| {
            it.max_timestamp == row.0 && (it.base_offset..=it.last_offset).contains(&row.1)
        })
    };
    // With each entry of the offset index one here, if the time had risen.
    let due: Vec<(i64, i64)> = indexed_at
        .iter()
        .copied()
        .filter_map(|position| peaks.iter().rev().find(|it| it.position <= position))
        .map(|it| (it.max_timestamp, it.last_offset))
        .collect();
    let complete = due.iter().all(|row| rows.contains(row));
    if !rows.iter().all(exact) || (subject.is_written_before([3, 8]) && !complete) {
        return (subject.is_written_before([3, 8]) && rows.iter().all(inside))
            .then_some("written by 3.7 or earlier: offset of the record, for a set of batches");
    }
    let at_maximum = rows.last().copied() == largest.map(|it| (it.max_timestamp, it.last_offset));
    let is_active = subject.log.keys().last() == Some(&base);
    let forced = rows.iter().filter(|row| !due.contains(row)).count();
    if rows.is_empty() && !due.is_empty() {
        return Some("the index was lost and made again empty");
    }
    if !complete || (!at_maximum && !is_active) {
        return None;
    }
    // Beside those at openings the one at the end, and one at a roll that truncation undid.
    let closings = subject.steps(&["reopen", "truncateTo"]) + 1;
    if subject.scenario.is_some() && forced > closings {
        return None;
    }
    Some(match (at_maximum, index.zero_tail_size() > 0) {
        (false, _) => "not closed: no entry for the maximum yet",
        (true, true) => "room for more entries: not closed",
        (true, false) => "entries go with those of the offset index, and one with each closing",
    })
}

fn txn_index_reason(subject: &Subject, ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
    let key = |row: &AbortedTxn| (row.producer_id(), row.last_offset());
    let theirs = AbortedTxnRows::decode(theirs);
    if theirs.torn_size() > 0 || theirs.check_versions().is_err() {
        return subject.damaged("the index is damaged");
    }
    let ours = AbortedTxnRows::decode(ours).rows();
    let theirs = theirs.rows();
    let begins = |producer_id: Option<i64>, offset: i64| {
        let mut batches = subject.readable(i64::MAX);
        batches
            .any(|it| it.base_offset == offset && producer_id.is_none_or(|id| it.producer_id == id))
    };
    let log_start = subject.end().log_start_offset;
    let mut reason = None;
    for row in theirs {
        let producer_id = Some(row.producer_id());
        let same = ours.iter().find(|it| key(it) == key(row));
        reason = Some(match same {
            Some(same) if same == row => continue,
            Some(same) if same.first_offset() < log_start && log_start <= row.first_offset() => {
                "batches below the log start were not read again"
            }
            Some(same) if same.first_offset() == row.first_offset() => {
                let (mine, other) = (same.last_stable_offset(), row.last_stable_offset());
                if other > mine {
                    "last stable offset after a whole fetched set: a follower's"
                } else if !begins(None, other) {
                    "the log no longer has the first batch of an open transaction"
                } else {
                    return None;
                }
            }
            Some(_) | None if !begins(producer_id, row.first_offset()) => {
                "the log no longer has the transaction's first batch"
            }
            Some(_) | None => return None,
        });
    }
    let missing = ours
        .iter()
        .filter(|it| !theirs.iter().any(|row| key(row) == key(it)));
    let last = theirs.last().map_or(-1, AbortedTxn::last_offset);
    match missing.map(AbortedTxn::last_offset).min() {
        None => reason,
        Some(first) if subject.scenario.is_none() && first > last => {
            Some("the last rows are missing")
        }
        Some(_) => None,
    }
}

fn no_snapshot_reason(subject: &Subject, offset: i64) -> Option<&'static str> {
    if offset <= subject.end().log_start_offset {
        return Some("not above the log start: loading deletes it");
    }
    let is_base = subject.log.contains_key(&offset);
    (!is_base && offset != subject.end().log_end_offset)
        .then_some("neither at a segment's base offset nor at the log end: from an earlier stop")
}

fn snapshot_rows(bytes: &[u8]) -> Option<BTreeMap<i64, ProducerSnapshotFields>> {
    let snapshot = ProducerSnapshot::decode(bytes).ok()?;
    let rows = snapshot
        .entries()
        .iter()
        .map(|it| (it.producer_id(), it.fields()));
    Some(rows.collect())
}

fn snapshot_reason(
    subject: &Subject,
    offset: i64,
    ours: &[u8],
    theirs: &[u8],
) -> Option<&'static str> {
    let Some(theirs) = snapshot_rows(theirs) else {
        return subject.damaged("the snapshot is damaged");
    };
    let ours = snapshot_rows(ours).unwrap();
    if ours == theirs {
        return Some("other order: inserted one by one, or through fewer or more snapshots");
    }
    let ids: BTreeSet<i64> = ours.keys().chain(theirs.keys()).copied().collect();
    let differing = ids.into_iter().filter(|id| ours.get(id) != theirs.get(id));
    // Each producer needs a reason of its own; the first names the file's.
    let reasons: Option<Vec<_>> = differing
        .map(|id| producer_reason(subject, offset, ours.get(&id), theirs.get(&id)))
        .collect();
    reasons?.first().copied()
}

fn producer_reason(
    subject: &Subject,
    offset: i64,
    ours: Option<&ProducerSnapshotFields>,
    theirs: Option<&ProducerSnapshotFields>,
) -> Option<&'static str> {
    let log_start = subject.end().log_start_offset;
    let of_producer = |id: i64| {
        subject
            .readable(offset)
            .filter(move |it| it.producer_id == id)
    };
    match (ours, theirs) {
        (Some(ours), None) => {
            let is_open = ours.current_txn_first_offset >= 0;
            if !is_open && subject.clock().has_expired(ours.timestamp) {
                return Some("a producer had expired");
            }
            if ours.last_offset < log_start {
                return Some("batches below the log start were not read again");
            }
            memory_was_lost(subject, ours.last_offset)
        }
        (None, Some(theirs)) => {
            let named = of_producer(theirs.producer_id)
                .any(|it| theirs.last_offset < 0 || it.last_offset == theirs.last_offset);
            (!named).then_some("the log no longer has the producer's batches")
        }
        (Some(ours), Some(theirs)) => {
            let clock = subject.clock();
            let activities = activities(subject, offset, theirs.producer_id);
            let fits = |known: &[Activity]| since(known, ours) == *theirs;
            if clock.after_expiry(&activities).any(fits) {
                return Some("a producer had expired and came back");
            }
            let above = (1..activities.len())
                .filter(|at| activities[at - 1].base_offset < log_start)
                .map(|at| &activities[at..]);
            if above.into_iter().any(fits) {
                return Some("batches below the log start were not read again");
            }
            let has = |last_offset: i64, is_control: bool| {
                of_producer(theirs.producer_id)
                    .any(|it| it.last_offset == last_offset && it.is_control == is_control)
            };
            let markers = of_producer(theirs.producer_id).filter(|it| it.is_control);
            let (empty, whole): (Vec<&BatchFacts>, Vec<&BatchFacts>) =
                markers.partition(|it| it.is_empty);
            if !empty.is_empty() && ours.coordinator_epoch < theirs.coordinator_epoch {
                return Some("the cleaner emptied the producer's marker");
            }
            if markers_are_no_activity(subject, offset, ours, theirs) {
                return Some("written by 2.3 or earlier: markers do not count as activity");
            }
            if theirs.last_offset >= 0 && !has(theirs.last_offset, false) {
                let marker = has(theirs.last_offset, true) && theirs.offset_delta == 0;
                return Some(if marker {
                    "written by 0.11: offset of the marker"
                } else {
                    "the log no longer has the producer's batches"
                });
            }
            if ours.coordinator_epoch == -1 && theirs.coordinator_epoch >= 0 && whole.is_empty() {
                return Some("the log no longer has the producer's marker");
            }
            let begins = |txn: i64| of_producer(theirs.producer_id).any(|it| it.base_offset == txn);
            if theirs.current_txn_first_offset >= 0 && !begins(theirs.current_txn_first_offset) {
                return Some("the log no longer has the transaction's first batch");
            }
            memory_was_lost(subject, ours.last_offset)
        }
        (None, None) => None,
    }
}

/// The batches and markers of a producer below `offset`.
fn activities(subject: &Subject, offset: i64, producer_id: i64) -> Vec<Activity> {
    let of_producer = subject
        .readable(offset)
        .filter(|it| it.producer_id == producer_id);
    of_producer
        .map(|it| Activity {
            base_offset: it.base_offset,
            timestamp: it.max_timestamp,
            is_control: it.is_control,
        })
        .collect()
}

/// What is known of a producer if nothing before these batches and markers is.
fn since(known: &[Activity], all: &ProducerSnapshotFields) -> ProducerSnapshotFields {
    let mut since = *all;
    if known.iter().all(|it| it.is_control) {
        (since.last_sequence, since.last_offset, since.offset_delta) = (-1, -1, 0);
    }
    if !known.iter().any(|it| it.is_control) {
        since.coordinator_epoch = -1;
    }
    // The batches behind the last marker, if the transaction has begun before them.
    let open = known.rsplit(|it| it.is_control).next().unwrap_or_default();
    if since.current_txn_first_offset >= 0 && since.current_txn_first_offset < known[0].base_offset
    {
        since.current_txn_first_offset = open.first().map_or(-1, |it| it.base_offset);
    }
    since
}

/// Before 2.4 the time of a producer was that of its last data batch.
fn markers_are_no_activity(
    subject: &Subject,
    offset: i64,
    ours: &ProducerSnapshotFields,
    theirs: &ProducerSnapshotFields,
) -> bool {
    let of_data = (theirs.last_offset, theirs.timestamp);
    let mut data = subject
        .readable(offset)
        .filter(|it| it.producer_id == theirs.producer_id && !it.is_control);
    let is_of_data =
        of_data == (-1, -1) || data.any(|it| (it.last_offset, it.max_timestamp) == of_data);
    let but_for_the_time = ProducerSnapshotFields {
        timestamp: theirs.timestamp,
        ..*ours
    };
    subject.is_written_before([2, 4]) && is_of_data && but_for_the_time == *theirs
}

/// What the broker knew of a batch was lost, and the log was not read again for it.
fn memory_was_lost(subject: &Subject, last_offset: i64) -> Option<&'static str> {
    let steps = subject.scenario.as_ref()?["steps"].as_array()?.iter();
    let mut truncated = false;
    for step in steps {
        let reopen = &step["reopen"];
        if reopen["deleteSnapshots"] == true && reopen["clean"] != false {
            return Some("all snapshots were lost before a clean start: the log was not read");
        }
        truncated |= step["truncateTo"]["offset"]
            .as_i64()
            .is_some_and(|it| it > last_offset);
    }
    truncated.then_some("truncation does not read the log if no producer is known")
}
/// Why a file was made that is not there; `None` if no rule says so.
fn reason_for_new(subject: &Subject, kind: SideFileKind, offset: i64) -> Option<&'static str> {
    let scenario = subject.scenario.as_ref()?;
    let steps = scenario["steps"].as_array()?;
    let was_lost = steps
        .iter()
        .any(|it| it["reopen"]["deleteSnapshots"] == true);
    let not_closed = scenario["shutdown"] == "unclean";
    let is_last = subject.log.keys().last() == Some(&offset);
    let end = subject.end().log_end_offset;
    let end_lies_higher = subject
        .theirs
        .keys()
        .any(|(kind, offset)| *kind == SideFileKind::Snapshot && *offset > end);
    match kind {
        SideFileKind::Snapshot if offset == end && end_lies_higher => {
            (subject.steps(&["truncateTo"]) > 0)
                .then_some("cut inside a batch: the log end lies above the last batch")
        }
        SideFileKind::Snapshot if offset == end && not_closed => {
            Some("not closed: no snapshot at the end")
        }
        SideFileKind::Snapshot
            if subject.log.contains_key(&offset) && is_left_closed(scenario, &subject.result()) =>
        {
            Some("the log did not load again: recovery had begun to take the snapshots anew")
        }
        SideFileKind::Index | SideFileKind::TimeIndex if is_last && not_closed => {
            Some("not closed: the index was never opened")
        }
        SideFileKind::TxnIndex if was_lost => {
            Some("all snapshots were lost before a clean start: the log was not read")
        }
        SideFileKind::Snapshot
        | SideFileKind::Index
        | SideFileKind::TimeIndex
        | SideFileKind::TxnIndex => None,
    }
}

// ---- the comparison ---------------------------------------------------------------------------

/// How many files of each kind are the same, how many differ by which rule, and which by none.
#[derive(Debug, Default)]
struct Comparison {
    same: BTreeMap<SideFileKind, usize>,
    by_rule: BTreeMap<(SideFileKind, &'static str), usize>,
    new_by_rule: BTreeMap<(SideFileKind, &'static str), usize>,
    unexplained: Vec<String>,
}

impl Comparison {
    fn add(&mut self, subject: &Subject) {
        for ((kind, offset), theirs) in &subject.theirs {
            if subject.ours.get(&(*kind, *offset)) == Some(theirs) {
                *self.same.entry(*kind).or_default() += 1;
                continue;
            }
            match reason(subject, *kind, *offset, theirs) {
                Some(reason) => *self.by_rule.entry((*kind, reason)).or_default() += 1,
                None => self.fail(subject, "differs", *kind, *offset),
            }
        }
        // Fixtures have had files taken away; what the oracle left is all there was.
        for (kind, offset) in subject.ours.keys() {
            if subject.scenario.is_none() || subject.theirs.contains_key(&(*kind, *offset)) {
                continue;
            }
            match reason_for_new(subject, *kind, *offset) {
                Some(reason) => *self.new_by_rule.entry((*kind, reason)).or_default() += 1,
                None => self.fail(subject, "is new", *kind, *offset),
            }
        }
    }

    fn fail(&mut self, subject: &Subject, what: &str, kind: SideFileKind, offset: i64) {
        let file = subject.path.join(kind.file_name(offset));
        self.unexplained.push(format!("{}: {what}", file.display()));
    }

    fn same(&self) -> [usize; 4] {
        SideFileKind::ALL.map(|kind| self.same.get(&kind).copied().unwrap_or(0))
    }

    fn print(&self, what: &str) {
        println!("{what}: same {:?}", self.same);
        for ((kind, rule), count) in &self.by_rule {
            println!("{count:5} {kind:?}: {rule}");
        }
        for ((kind, rule), count) in &self.new_by_rule {
            println!("{count:5} new {kind:?}: {rule}");
        }
    }

    fn assert_all_explained(&self) {
        assert!(
            self.unexplained.is_empty(),
            "{} files without a rule:\n{}",
            self.unexplained.len(),
            self.unexplained.join("\n")
        );
    }
}

fn compare(what: &str, roots: &[PathBuf], is_recovered: bool) -> Comparison {
    let mut comparison = Comparison::default();
    for path in roots.iter().flat_map(|it| partitions(it)) {
        comparison.add(&Subject::open(&path, is_recovered));
    }
    comparison.print(what);
    comparison.assert_all_explained();
    comparison
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn at_least(found: [usize; 4], expected: [usize; 4]) -> bool {
    found
        .iter()
        .zip(expected)
        .all(|(found, expected)| *found >= expected)
}

#[test]
fn files_of_fixtures_and_incidents_come_out_as_they_are() {
    let comparison = compare("fixtures", &[root().join("fixtures")], false);
    let same = comparison.same();
    assert!(at_least(same, [388, 407, 177, 366]), "{same:?}");
}

#[test]
fn files_of_cases_come_out_as_they_are() {
    let mut ours = folders_in(&root().join("cases"));
    ours.retain(|it| !it.ends_with("found"));
    let comparison = compare("cases", &ours, false);
    let same = comparison.same();
    assert!(at_least(same, [256, 271, 117, 252]), "{same:?}");
    // What reading cannot bring about: nothing more than this may need a rule.
    let by_rule: usize = comparison.by_rule.values().sum();
    assert!(by_rule <= 125, "{by_rule}");
}

#[test]
fn files_of_found_and_fresh_cases_come_out_as_they_are() {
    let mut more = fresh_cases();
    more.push(root().join("cases/found"));
    compare("more cases", &more, false);
}

/// Cases that Kafka recovered from recovery point 0 at the end and then closed: all that is there
/// is what recovery wrote, and every byte must be the same.
#[test]
fn what_kafka_recovered_comes_out_without_exception() {
    let mut same = [0; 4];
    let own = root().join("tests/recovered-cases");
    for folder in folders("KSEG_RECOVERED_CASES").into_iter().chain([own]) {
        let comparison = compare("recovered", &[folder], true);
        let by_rule = comparison.by_rule.len() + comparison.new_by_rule.len();
        assert_eq!(by_rule, 0, "{comparison:?}");
        for (sum, count) in same.iter_mut().zip(comparison.same()) {
            *sum += count;
        }
    }
    assert!(at_least(same, [20, 20, 5, 20]), "{same:?}");
}

/// The folders an environment variable names, separated by colons.
fn folders(variable: &str) -> Vec<PathBuf> {
    std::env::var_os(variable).map_or_else(Vec::new, |it| std::env::split_paths(&it).collect())
}

// ---- what was asked for -----------------------------------------------------------------------

#[test]
fn snapshot_at_an_offset_is_the_one_recovery_would_write_there() {
    let mut compared = 0;
    for path in cases().iter().flat_map(|it| partitions(it)) {
        let (_, files) = rebuilt(&path, options());
        for ((kind, offset), bytes) in files {
            if kind != SideFileKind::Snapshot {
                continue;
            }
            let options = RebuildOptions {
                snapshots_at: SnapshotsAt::Offset(offset),
                ..options()
            };
            let (_, only) = rebuilt(&path, options);
            let expected = BTreeMap::from([((kind, offset), bytes)]);
            assert_eq!(only, expected, "{} at {offset}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 250, "{compared}");
}

#[test]
fn state_at_an_offset_ends_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let partition = copy_of_case("named/wraparound-next-is-zero", folder.path());
    let batches: Vec<BatchFacts> = log_facts(&partition).into_values().flatten().collect();
    for batch in &batches {
        let at = RebuildOptions {
            snapshots_at: SnapshotsAt::Offset(batch.last_offset),
            ..options()
        };
        let (_, files) = rebuilt(&partition, at);
        let ((_, offset), bytes) = files.first_key_value().unwrap();
        assert_eq!(*offset, batch.last_offset);
        let rows = snapshot_rows(bytes).unwrap();
        assert!(rows.values().all(|row| row.last_offset < batch.base_offset));
    }
    let beyond = RebuildOptions {
        snapshots_at: SnapshotsAt::Offset(1_000_000),
        ..options()
    };
    let (end, files) = rebuilt(&partition, beyond);
    assert_eq!(files.keys().next().unwrap().1, end.log_end_offset);
}

#[test]
fn which_snapshots_are_made_is_the_users_choice() {
    let path = partitions(&root().join("cases/named/snapshot-on-roll")).remove(0);
    let snapshots = |snapshots_at| {
        let (end, files) = rebuilt(
            &path,
            RebuildOptions {
                snapshots_at,
                ..options()
            },
        );
        let of_snapshots = files
            .into_keys()
            .filter(|it| it.0 == SideFileKind::Snapshot);
        let offsets: Vec<i64> = of_snapshots.map(|it| it.1).collect();
        (end.log_end_offset, offsets)
    };
    let (end, all) = snapshots(SnapshotsAt::BasesAndEnd);
    let (_, bases) = snapshots(SnapshotsAt::Bases);
    let (_, at_end) = snapshots(SnapshotsAt::End);
    assert_eq!(at_end, [end]);
    assert!(!bases.is_empty() && bases.iter().all(|it| all.contains(it)));
    assert_eq!(
        all.len(),
        bases.iter().chain(&at_end).collect::<BTreeSet<_>>().len()
    );
}

#[test]
fn reading_makes_the_same_files_as_mapping() {
    let ours = partitions(&root().join("cases/segments"));
    let fresh = fresh_cases();
    for path in ours
        .into_iter()
        .chain(fresh.iter().flat_map(|it| partitions(it)))
    {
        let read = RebuildOptions {
            io: Io::Read,
            ..options()
        };
        assert_eq!(rebuilt(&path, read).1, rebuilt(&path, options()).1);
    }
}

/// A copy of a case's partition, to be damaged.
fn copy_of_case(case: &str, to: &Path) -> PathBuf {
    let from = partitions(&root().join("cases").join(case)).remove(0);
    let to = to.join(from.file_name().unwrap());
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    to
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// `on-disk-format.md` 3.1: a batch whose magic was changed to 9 survives an unclean start.
#[test]
fn magic_above_two_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let partition = copy_of_case("named/transaction-continues-sequence", folder.path());
    let (_, before) = rebuilt(&partition, options());
    let (base, batches) = log_facts(&partition).pop_first().unwrap();
    let second = usize::try_from(batches[1].position).unwrap();
    change(&partition.join(format!("{base:020}.log")), |log| {
        log[second + 16] = 9
    });
    for io in [Io::Mmap, Io::Read] {
        let (end, after) = rebuilt(&partition, RebuildOptions { io, ..options() });
        assert_eq!((end.stop, after), (None, before.clone()));
    }
}

#[test]
fn bad_batch_ends_the_log_as_if_it_were_cut_there() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = copy_of_case("segments/segments-s20-001", folder.path());
    let cut_folder = tempfile::tempdir().unwrap();
    let cut = copy_of_case("segments/segments-s20-001", cut_folder.path());
    let log = log_facts(&damaged);
    let (base, batches) = log.iter().nth(1).unwrap();
    let position = usize::try_from(batches[1].position).unwrap();
    let name = format!("{base:020}.log");
    change(&damaged.join(&name), |log| log[position + 65] ^= 1);
    change(&cut.join(&name), |log| log.truncate(position));
    for later in log.keys().filter(|it| *it > base) {
        fs::remove_file(cut.join(format!("{later:020}.log"))).unwrap();
    }
    let (end, files) = rebuilt(&damaged, options());
    let stop = end.stop.unwrap();
    assert_eq!(
        (stop.kind, stop.position),
        ("bad-crc", batches[1].position.unsigned_abs())
    );
    assert_eq!(stop.offset, Some(batches[1].base_offset));
    assert_eq!(end.log_end_offset, batches[0].last_offset + 1);
    let (end, expected) = rebuilt(&cut, options());
    assert_eq!((end.stop, files), (None, expected));
}

// ---- the program ------------------------------------------------------------------------------

fn kseg(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = assert_cmd::Command::cargo_bin("kseg")
        .unwrap()
        .env_clear()
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Everything in a folder: names, content and times of change.
fn image(folder: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        files.push((path.clone(), fs::read(&path).unwrap_or_default(), modified));
    }
    files.sort();
    files
}

#[test]
fn program_writes_the_files_into_a_new_folder_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let partition = copy_of_case("named/snapshot-on-roll", folder.path());
    let before = image(&partition);
    let out = folder.path().join("out");
    let (status, stdout, _) = kseg(&[
        "rebuild",
        partition.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "-o",
        "ndjson",
    ]);
    assert_eq!(status, Some(0));
    assert_eq!(image(&partition), before);
    let (_, files) = rebuilt(&partition, options());
    let rows: Vec<Value> = stdout
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!((rows.len(), existing(&out)), (files.len(), files));
    for row in &rows {
        let file = out.join(row["file"].as_str().unwrap());
        assert_eq!(row["sizeInBytes"], fs::metadata(file).unwrap().len());
        assert_eq!(row["sameAsExisting"], true);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn program_makes_a_folder_for_each_partition_and_only_what_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let data = root().join("fixtures/s02-txn-tv2/data");
    let (status, stdout, _) = kseg(&[
        "rebuild",
        data.to_str().unwrap(),
        "--only",
        "txnindex,snapshot",
        "--topic",
        "tx",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(status, Some(0));
    assert!(stdout.starts_with("wrote "), "{stdout}");
    let mut names: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["tx-0", "tx-1", "tx-2"]);
    let kinds: BTreeSet<_> = existing(&out.join("tx-0"))
        .into_keys()
        .map(|it| it.0)
        .collect();
    assert_eq!(
        kinds,
        BTreeSet::from([SideFileKind::TxnIndex, SideFileKind::Snapshot])
    );
}

#[test]
fn program_says_where_the_log_is_damaged_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let data = root().join("fixtures/s07b-flipped-byte-unflushed/data/dmg-0");
    let (status, _, stderr) = kseg(&[
        "rebuild",
        data.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(status, Some(1));
    assert!(
        stderr.contains("at position 2517; recovery cuts the log here"),
        "{stderr}"
    );
    assert!(!existing(&out).is_empty());
}

#[test]
fn program_writes_neither_into_a_full_folder_nor_among_a_brokers_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("recovery-point-offset-checkpoint"),
        "0\n0\n",
    )
    .unwrap();
    let partition = copy_of_case("named/snapshot-on-roll", folder.path());
    let path = partition.to_str().unwrap();
    let full = tempfile::tempdir().unwrap();
    fs::write(full.path().join("file"), "mine").unwrap();
    let forbidden = [
        full.path().to_owned(),
        partition.join("out"),
        folder.path().join("out"),
    ];
    for out in forbidden {
        let (status, stdout, stderr) = kseg(&["rebuild", path, "--out", out.to_str().unwrap()]);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    }
    assert_eq!(fs::read_dir(full.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    let empty = tempfile::tempdir().unwrap();
    let out = empty.path().to_str().unwrap();
    assert_eq!(kseg(&["rebuild", path, "--out", out]).0, Some(0));
    let index_only = [
        "rebuild",
        path,
        "--only",
        "index",
        "--at-offset",
        "1",
        "--out",
        "x",
    ];
    assert_eq!(kseg(&index_only).0, Some(2));
}
