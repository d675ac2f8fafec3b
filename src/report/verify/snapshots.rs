//! Producer snapshots: readable, in their place, and what the log before them gives.
//!
//! Decides `ProducerStateManager.readSnapshot`, `truncateAndReload`, `removeStraySnapshots`.

use std::collections::BTreeSet;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::snapshot_entries::{check_against_log, check_entries, name};
use super::start::{Start, in_words};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::producer_snapshot::ProducerSnapshot;
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{Error, Io};
use crate::report::partition_state::{snapshot_files, usable_snapshots};
use crate::state::{ProducerSnapshotRow, ProducerStateManager};

/// The snapshots of a partition, compared with the state as the pass over the log comes by.
pub(super) struct SnapshotCheck<'d> {
    dir: &'d PartitionDir,
    io: Io,
    is_live: bool,
    /// By offset.
    files: Vec<(i64, &'d FileEntry)>,
    next: usize,
    next_offset: i64,
    readable: BTreeSet<i64>,
    unreadable: Vec<(i64, Finding)>,
}

impl<'d> SnapshotCheck<'d> {
    pub(super) fn new(dir: &'d PartitionDir, io: Io, is_live: bool) -> Self {
        let mut files: Vec<_> = snapshot_files(dir).collect();
        files.sort_unstable_by_key(|(offset, _)| *offset);
        files.dedup_by_key(|(offset, _)| *offset);
        let next_offset = files.first().map_or(i64::MAX, |(offset, _)| *offset);
        Self {
            dir,
            io,
            is_live,
            files,
            next: 0,
            next_offset,
            readable: BTreeSet::new(),
            unreadable: Vec::new(),
        }
    }

    /// Whether a snapshot lies at or below an offset the pass has come to.
    #[inline]
    pub(super) fn is_due(&self, offset: i64) -> bool {
        offset >= self.next_offset
    }

    /// Compares the snapshots up to `offset` with the state there. Where the cleaner was at work
    /// the log may no longer give what the broker knew, which is asked only if they differ.
    #[cold]
    pub(super) fn compare(
        &mut self,
        offset: i64,
        manager: &ProducerStateManager,
        log_start: i64,
        mut is_compacted: impl FnMut() -> Result<bool, Error>,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        while let Some(&(at, file)) = self.files.get(self.next)
            && at <= offset
        {
            self.next += 1;
            let next = self.files.get(self.next);
            self.next_offset = next.map_or(i64::MAX, |(offset, _)| *offset);
            let Some(rows) = self.read(at, file, found)? else {
                continue;
            };
            self.readable.insert(at);
            let first = self.dir.segments.first();
            let first_base = first.map_or(0, |first| first.base_offset);
            let mut differences = Vec::new();
            if at >= first_base {
                check_against_log(at, &rows, manager, log_start, &mut differences);
            }
            if !differences.is_empty() && !is_compacted()? {
                found.append(&mut differences);
            }
        }
        Ok(())
    }

    /// The rows of a snapshot that a broker would take.
    fn read(
        &mut self,
        offset: i64,
        entry: &FileEntry,
        found: &mut Vec<Finding>,
    ) -> Result<Option<Vec<ProducerSnapshotRow>>, Error> {
        let mut settling = self.dir.settling_of(entry);
        loop {
            let Some(file) = self.dir.open_file(entry, self.io)? else {
                return Ok(None);
            };
            let bytes = file.read_all()?;
            let rows = match ProducerSnapshot::decode(&bytes) {
                Ok(snapshot) => {
                    let rows: Vec<_> = snapshot
                        .entries()
                        .iter()
                        .map(ProducerSnapshotRow::from)
                        .collect();
                    check_entries(offset, &rows, found);
                    Some(rows)
                }
                Err(_) if settling.wait() => continue,
                // Deleted, as a broker does with old ones.
                Err(_) if self.is_live && !self.dir.file_path(entry).exists() => return Ok(None),
                Err(error) => {
                    let finding = self.unreadable(offset, &bytes, &error);
                    self.unreadable.push((offset, finding));
                    None
                }
            };
            file.check_unchanged()?;
            return Ok(rows);
        }
    }

    fn unreadable(&self, offset: i64, bytes: &[u8], error: &DecodeError) -> Finding {
        let defect = defect(bytes, &error.kind);
        Finding {
            file: Some(name(offset)),
            position: Some(error.position),
            offset: Some(offset),
            defect: Some(defect),
            file_size: Some(bytes.len() as u64),
            expected: Some("a snapshot of version 1 with a right checksum".to_owned()),
            found: Some(error.to_string()),
            ..Finding::new(
                Severity::Corrupt,
                Kind::SnapshotUnreadable,
                format!("not usable: {error}"),
            )
        }
    }

    /// The end of the log: what only all of them together tell.
    pub(super) fn finish(
        mut self,
        ends: LogEnds,
        manager: &ProducerStateManager,
        is_compacted: bool,
        start: &Start,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let start_at = ends.log_start;
        self.compare(ends.log_end, manager, start_at, || Ok(is_compacted), found)?;
        // What lies behind the log end has nothing to be compared with.
        self.compare(i64::MAX, manager, start_at, || Ok(true), found)?;
        let kept = usable_snapshots(self.dir, ends.log_start, ends.log_end);
        let kept: BTreeSet<i64> = kept.into_iter().collect();
        let offsets = self.files.iter().map(|(offset, _)| offset);
        for offset in offsets.filter(|it| !kept.contains(it)) {
            let why = if *offset > ends.log_end {
                format!("above the log end {}", ends.log_end)
            } else if *offset <= ends.log_start {
                format!("not above the log start {}", ends.log_start)
            } else {
                "no segment begins there".to_owned()
            };
            found.push(Finding {
                file: Some(name(*offset)),
                offset: Some(*offset),
                broker_action: "deletes it at any start".to_owned(),
                ..Finding::new(Severity::Notable, Kind::StraySnapshot, why)
            });
        }
        let usable: BTreeSet<i64> = kept.intersection(&self.readable).copied().collect();
        let newest = usable.last().copied();
        for (offset, finding) in std::mem::take(&mut self.unreadable) {
            let older = usable.range(..offset).next_back().copied();
            let is_needed = newest.is_none_or(|newest| newest < offset);
            let from = older.unwrap_or(ends.log_start);
            let bytes = if is_needed { self.bytes_from(from) } else { 0 };
            // Newest first, until one is usable (`ProducerStateManager.loadFromSnapshot`).
            let broker_action = match (newest.filter(|_| !is_needed), older) {
                _ if !kept.contains(&offset) => "deletes it at any start".to_owned(),
                (Some(newest), _) => format!(
                    "goes on from {}, which is newer, and leaves it at a clean start; an unclean \
                     one that recovers the segment before it makes it anew",
                    name(newest)
                ),
                (None, Some(older)) => format!(
                    "deletes it at any start and goes on from {}, which reads {} again",
                    name(older),
                    in_words(bytes)
                ),
                (None, None) => format!(
                    "deletes it at any start and replays from the log start, which reads {} again",
                    in_words(bytes)
                ),
            };
            // The newest one is what a crash tears.
            let is_newest = self.files.last().is_some_and(|(last, _)| *last == offset);
            let severity = if is_newest && start.clean != Some(true) {
                Severity::AfterCrash
            } else {
                Severity::Corrupt
            };
            found.push(Finding {
                severity,
                next_older_snapshot: older.map(name),
                bytes_to_rescan: Some(bytes),
                broker_action,
                next_step: Some(
                    if is_needed {
                        "none: the broker repairs it; kseg rebuild --only snapshot makes it anew"
                    } else {
                        "none: it is not read; kseg rebuild --only snapshot makes it anew"
                    }
                    .to_owned(),
                ),
                ..finding
            });
        }
        self.missing(ends, manager, start, newest, found);
        Ok(())
    }

    fn is_at(&self, offset: i64) -> bool {
        self.files
            .binary_search_by_key(&offset, |(it, _)| *it)
            .is_ok()
    }

    /// A clean stop leaves a snapshot at the log end if producers wrote since the one before.
    fn missing(
        &self,
        ends: LogEnds,
        manager: &ProducerStateManager,
        start: &Start,
        newest: Option<i64>,
        found: &mut Vec<Finding>,
    ) {
        let since = newest.unwrap_or(ends.log_start);
        let advanced = manager.active_producers().filter(|producer| {
            let last = producer.last_batch().map(|batch| batch.last_offset);
            last.is_some_and(|last| last >= since)
        });
        let advanced = advanced.count() as u64;
        let has_one_at_end = self.is_at(ends.log_end);
        let is_clean = start.clean == Some(true);
        // One lies at the base offset of each segment that was rolled.
        let lost_all = self.files.is_empty() && self.dir.segments.len() > 1;
        if advanced == 0 || ends.log_end == 0 || has_one_at_end || !is_clean && !lost_all {
            return;
        }
        if !is_clean {
            let mut finding = Finding::new(
                Severity::Notable,
                Kind::SnapshotMissing,
                "no snapshot at all, though segments were rolled",
            );
            finding.cost.producers = Some(advanced);
            finding.broker_action =
                "an unclean start replays the log and makes them anew; a clean \
                                     one forgets all producers"
                    .to_owned();
            found.push(finding);
            return;
        }
        let action = if self.files.is_empty() {
            "a clean start without any snapshot replays nothing and forgets all producers: \
             duplicates are no longer found"
        } else {
            "a clean start takes an older one and replays the log behind it"
        };
        let mut finding = Finding::new(
            Severity::Corrupt,
            Kind::SnapshotMissing,
            format!(
                "{advanced} {} wrote since the newest snapshot, and the stop was clean",
                if advanced == 1 {
                    "producer"
                } else {
                    "producers"
                }
            ),
        );
        finding.file = Some(name(ends.log_end));
        finding.offset = Some(ends.log_end);
        finding.cost.producers = Some(advanced);
        finding.broker_action = action.to_owned();
        finding.next_step =
            Some("start unclean (remove .kafka_cleanshutdown): the state is replayed".to_owned());
        found.push(finding);
    }

    /// Bytes of the segments that are read from an offset on.
    fn bytes_from(&self, offset: i64) -> u64 {
        let segments = &self.dir.segments;
        let first = segments.partition_point(|segment| segment.base_offset <= offset);
        let logs = segments.iter().skip(first.saturating_sub(1));
        logs.filter_map(|segment| self.dir.file(segment.log))
            .map(|file| file.size_in_bytes)
            .sum()
    }
}

/// What makes a snapshot unusable, a short name.
fn defect(bytes: &[u8], kind: &DecodeErrorKind) -> &'static str {
    if bytes.is_empty() {
        "empty"
    } else if bytes.iter().all(|byte| *byte == 0) {
        "zeros"
    } else if matches!(kind, DecodeErrorKind::Truncated { .. }) {
        "cut"
    } else if matches!(kind, DecodeErrorKind::UnknownVersion { .. }) {
        "version"
    } else if matches!(kind, DecodeErrorKind::Checksum { .. }) {
        "crc"
    } else {
        "count"
    }
}

/// Where a log begins and ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogEnds {
    pub(super) log_start: i64,
    pub(super) log_end: i64,
}
