//! Producer snapshots: readable, in their place, and what the log before them gives.
//!
//! Decides `ProducerStateManager.readSnapshot`, `truncateAndReload`, `removeStraySnapshots`.

use std::collections::HashSet;

use super::finding::{Finding, Severity};
use super::kind::Kind;
use super::start::Start;
use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::file_name::LogFileKind;
use crate::format::producer_snapshot::ProducerSnapshot;
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::report::partition_state::{snapshot_files, usable_snapshots};
use crate::state::{ProducerSnapshotRow, ProducerStateEntry, ProducerStateManager};

/// Entries of one snapshot that are told apart; the others are counted.
const MAX_TOLD: usize = 100;

/// The snapshots of a partition, compared with the state as the pass over the log comes by.
pub(super) struct SnapshotCheck<'d> {
    dir: &'d PartitionDir,
    io: Io,
    /// Offsets ascending.
    offsets: Vec<i64>,
    next: usize,
    next_offset: i64,
    readable: Vec<i64>,
    unreadable: Vec<(i64, Finding)>,
}

impl<'d> SnapshotCheck<'d> {
    pub(super) fn new(dir: &'d PartitionDir, io: Io) -> Self {
        let mut offsets: Vec<i64> = snapshot_files(dir).map(|(offset, _)| offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let next_offset = offsets.first().copied().unwrap_or(i64::MAX);
        Self {
            dir,
            io,
            offsets,
            next: 0,
            next_offset,
            readable: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    /// Whether a snapshot lies at or below an offset the pass has come to.
    #[inline]
    pub(super) fn is_due(&self, offset: i64) -> bool {
        offset >= self.next_offset
    }

    /// Compares the snapshots up to `offset` with the state there. Where the cleaner was at work
    /// the log may no longer give what the broker knew.
    #[cold]
    pub(super) fn compare(
        &mut self,
        offset: i64,
        manager: &ProducerStateManager,
        is_compacted: bool,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        while let Some(&at) = self.offsets.get(self.next)
            && at <= offset
        {
            self.next += 1;
            self.next_offset = self.offsets.get(self.next).copied().unwrap_or(i64::MAX);
            let Some(rows) = self.read(at, found)? else {
                continue;
            };
            self.readable.push(at);
            if !is_compacted {
                self.differences(at, &rows, manager, found);
            }
        }
        Ok(())
    }

    /// The rows of a snapshot that a broker would take.
    fn read(
        &mut self,
        offset: i64,
        found: &mut Vec<Finding>,
    ) -> Result<Option<Vec<ProducerSnapshotRow>>, Error> {
        let Some((_, entry)) = snapshot_files(self.dir).find(|(it, _)| *it == offset) else {
            return Ok(None);
        };
        let file = match MappedFile::open(&self.dir.file_path(entry), self.io) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = file.read_all()?;
        let rows = match ProducerSnapshot::decode(&bytes) {
            Ok(snapshot) => {
                let rows: Vec<_> = snapshot
                    .entries()
                    .iter()
                    .map(ProducerSnapshotRow::from)
                    .collect();
                self.entries(offset, &rows, found);
                Some(rows)
            }
            Err(error) => {
                let finding = self.unreadable(offset, &bytes, &error);
                self.unreadable.push((offset, finding));
                None
            }
        };
        file.check_unchanged()?;
        Ok(rows)
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

    /// What no broker writes into an entry.
    fn entries(&self, offset: i64, rows: &[ProducerSnapshotRow], found: &mut Vec<Finding>) {
        let mut ids = HashSet::new();
        let mut told = 0;
        for (entry, row) in rows.iter().enumerate() {
            let what = if !ids.insert(row.producer_id) {
                "its producer id comes twice"
            } else if row.last_offset >= offset {
                "its last offset is not below the snapshot's"
            } else if row.offset_delta < 0 {
                "its offset delta is negative"
            } else if row.last_offset >= 0 && row.current_txn_first_offset > row.last_offset {
                "its transaction begins behind its last offset"
            } else {
                continue;
            };
            told += 1;
            if told > MAX_TOLD {
                break;
            }
            found.push(Finding {
                entry: Some(entry as u64),
                broker_action: "takes it as it is: no start looks at it".to_owned(),
                ..of_row(
                    offset,
                    row,
                    Severity::Corrupt,
                    Kind::SnapshotEntry,
                    format!("entry {entry}: {what}"),
                )
            });
        }
    }

    /// Entries that the log contradicts. Producers that the snapshot does not have may have
    /// expired; those that the log does not have lie before it.
    fn differences(
        &self,
        offset: i64,
        rows: &[ProducerSnapshotRow],
        manager: &ProducerStateManager,
        found: &mut Vec<Finding>,
    ) {
        let first_base = self
            .dir
            .segments
            .first()
            .map_or(0, |first| first.base_offset);
        if offset < first_base {
            return;
        }
        let differing = rows.iter().filter_map(|row| {
            let entry = manager.last_entry(row.producer_id)?;
            difference(row, entry, first_base).map(|difference| (row, difference))
        });
        for (row, (field, expected, is)) in differing.take(MAX_TOLD) {
            found.push(Finding {
                defect: Some(field),
                expected: Some(expected.to_string()),
                found: Some(is.to_string()),
                broker_action: "a start takes the snapshot as it is; an unclean one that recovers \
                                the segments before it makes it anew"
                    .to_owned(),
                next_step: Some("kseg rebuild --only snapshot makes it from the log".to_owned()),
                ..of_row(
                    offset,
                    row,
                    severity(field),
                    Kind::SnapshotDiffers,
                    format!(
                        "producer {}: {field} is {is}, the log gives {expected}",
                        row.producer_id
                    ),
                )
            });
        }
        let known: HashSet<i64> = rows.iter().map(|row| row.producer_id).collect();
        for txn in manager
            .ongoing_txns()
            .filter(|it| !known.contains(&it.producer_id))
        {
            let first = txn.first_offset.message_offset;
            found.push(Finding {
                file: Some(name(offset)),
                offset: Some(first),
                producer_id: Some(txn.producer_id),
                current_txn_first_offset: Some(first),
                defect: Some("currentTxnFirstOffset"),
                broker_action: "the transaction does not hold a broker that loads the snapshot"
                    .to_owned(),
                ..Finding::new(
                    severity("currentTxnFirstOffset"),
                    Kind::SnapshotDiffers,
                    format!(
                        "the open transaction of producer {} at {first} is not in it",
                        txn.producer_id
                    ),
                )
            });
        }
    }

    /// The end of the log: what only all of them together tell.
    pub(super) fn finish(
        mut self,
        ends: LogEnds,
        manager: &ProducerStateManager,
        start: &Start,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        self.compare(i64::MAX, manager, true, found)?;
        let kept = usable_snapshots(self.dir, ends.log_start, ends.log_end);
        for offset in self.offsets.iter().filter(|it| !kept.contains(it)) {
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
        let usable: Vec<i64> = kept
            .into_iter()
            .filter(|it| self.readable.contains(it))
            .collect();
        let newest = usable.last().copied();
        for (offset, finding) in std::mem::take(&mut self.unreadable) {
            let older = usable.iter().rev().find(|it| **it < offset).copied();
            let is_needed = newest.is_none_or(|newest| newest < offset);
            let from = older.unwrap_or(ends.log_start);
            let bytes = if is_needed { self.bytes_from(from) } else { 0 };
            let instead = match older {
                Some(older) => format!("goes on from {}", name(older)),
                None => "replays from the log start".to_owned(),
            };
            // The newest one is what a crash tears.
            let is_newest = self.offsets.last() == Some(&offset);
            let severity = if is_newest && start.clean != Some(true) {
                Severity::AfterCrash
            } else {
                Severity::Corrupt
            };
            found.push(Finding {
                severity,
                next_older_snapshot: older.map(name),
                bytes_to_rescan: Some(bytes),
                broker_action: format!(
                    "deletes it at any start and {instead}, which reads {bytes} bytes again"
                ),
                next_step: Some(
                    "none: the broker repairs it; kseg rebuild --only snapshot makes it anew"
                        .to_owned(),
                ),
                ..finding
            });
        }
        self.missing(ends, manager, start, newest, found);
        Ok(())
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
        let has_one_at_end = self.offsets.contains(&ends.log_end);
        let is_clean = start.clean == Some(true);
        // One lies at the base offset of each segment that was rolled.
        let lost_all = self.offsets.is_empty() && self.dir.segments.len() > 1;
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
        let action = if self.offsets.is_empty() {
            "a clean start without any snapshot replays nothing and forgets all producers: \
             duplicates are no longer found"
        } else {
            "a clean start takes an older one and replays the log behind it"
        };
        let mut finding = Finding::new(
            Severity::Corrupt,
            Kind::SnapshotMissing,
            format!("{advanced} producers wrote since the newest snapshot, and the stop was clean"),
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

fn name(offset: i64) -> String {
    LogFileKind::ProducerSnapshot(offset).to_string()
}

fn of_row(
    offset: i64,
    row: &ProducerSnapshotRow,
    severity: Severity,
    kind: Kind,
    message: String,
) -> Finding {
    Finding {
        file: Some(name(offset)),
        offset: Some(offset),
        producer_id: Some(row.producer_id),
        producer_epoch: Some(row.producer_epoch),
        last_sequence: Some(row.last_sequence).filter(|it| *it >= 0),
        last_offset: Some(row.last_offset).filter(|it| *it >= 0),
        ..Finding::new(severity, kind, message)
    }
}

/// A field in which the log contradicts the entry, what the log gives, and what is there.
fn difference(
    row: &ProducerSnapshotRow,
    entry: &ProducerStateEntry,
    first_base: i64,
) -> Option<(&'static str, i64, i64)> {
    // Only where the log has the producer's data.
    let batch = entry.last_batch()?;
    let open = entry.current_txn_first_offset().unwrap_or(-1);
    let began_before =
        row.current_txn_first_offset >= 0 && row.current_txn_first_offset < first_base;
    // Kafka 0.11 counts the marker as the producer's last offset.
    let last_offset = row.last_offset.min(batch.last_offset);
    let fields = [
        ("lastOffset", batch.last_offset, last_offset),
        (
            "lastSequence",
            i64::from(batch.last_sequence),
            i64::from(row.last_sequence),
        ),
        (
            "producerEpoch",
            i64::from(entry.producer_epoch()),
            i64::from(row.producer_epoch),
        ),
        ("currentTxnFirstOffset", open, row.current_txn_first_offset),
    ];
    fields.into_iter().find(|(field, log, row)| {
        log != row && !(began_before && *field == "currentTxnFirstOffset")
    })
}

/// A broker that lost its snapshots forgets open transactions, and later snapshots are of what it
/// knew then.
fn severity(field: &str) -> Severity {
    if field == "currentTxnFirstOffset" {
        Severity::AfterCrash
    } else {
        Severity::Corrupt
    }
}
