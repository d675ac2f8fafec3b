//! The files of a partition directory by their names, and its small text files.
//!
//! Decides `LogLoader.removeTempFilesAndCollectSwapFiles`, `LocalLog.parseTopicPartitionName`.

use super::finding::{Finding, Severity};
use super::index_findings::IndexContext;
use super::kind::Kind;
use super::start::{Start, does_not_load};
use super::swaps::of_swap;
use crate::format::file_name::{FileState, LogFileKind, PartitionDirStatus};
use crate::format::partition_metadata::PartitionMetadata;
use crate::log::broker_start::{DOES_NOT_START, outage};
use crate::log::odd_entry::{Odd, OddEffect, OddEntry, WAITS};
use crate::log::partition_dir::{FileEntry, PartitionDir, SegmentFiles};
use crate::log::settling::Settling;
use crate::log::strays::{had_data, has_no_topic_id};
use crate::log::swap_files::{Swaps, has_suffix, number};
use crate::log::{Error, Io};

/// The largest segment a broker opens (`FileRecords`).
const MAX_SEGMENT_SIZE: u64 = i32::MAX as u64;

/// What the names alone say.
pub(super) fn check_names(dir: &PartitionDir, swaps: &Swaps, found: &mut Vec<Finding>) {
    match dir.status() {
        Some(PartitionDirStatus::Live) | None => {}
        Some(status) => found.push(not_live(status)),
    }
    for file in &dir.files {
        found.extend(of_file(dir, file, swaps));
    }
    found.extend(dir.odd.iter().map(of_odd));
}

fn of_odd(entry: &OddEntry) -> Finding {
    let broker_action = match entry.effect() {
        OddEffect::PassedOver => "passes over it at any start, as if it were not there".to_owned(),
        OddEffect::FailsToLoad => does_not_load(None),
        OddEffect::FailsInUse => format!(
            "fails when it comes to open it, at a start or later, and {}",
            outage(false)
        ),
        OddEffect::WaitsToLoad => format!("at any start {WAITS}: the broker {DOES_NOT_START}"),
        OddEffect::WaitsInUse => {
            format!("{WAITS} when it comes to write it, at a start or later")
        }
    };
    let next_step = match entry.what {
        Odd::LinkToNothing => "bring back the file it points to, or take the link away",
        Odd::LinkIntoNothing => {
            "mount or bring back the folder it points into, or take the link away"
        }
        Odd::LinkLoop => "take the link away, and bring back the file it stood for",
        Odd::Directory | Odd::Pipe | Odd::Socket | Odd::Device => "move it out of the directory",
    };
    let name = entry.file_name.to_string_lossy().into_owned();
    not_a_file(name, entry.what, broker_action, next_step)
}

/// An entry that is no file, and has the name of one that Kafka keeps.
pub(super) fn not_a_file(
    name: String,
    what: Odd,
    broker_action: String,
    next_step: &str,
) -> Finding {
    Finding {
        file: Some(name),
        expected: Some("a file".to_owned()),
        found: Some(what.to_string()),
        broker_action,
        next_step: Some(next_step.to_owned()),
        ..Finding::new(
            Severity::Corrupt,
            Kind::NotAFile,
            format!("{what}, where a file should be"),
        )
    }
}

/// What the names and sizes of the segments' files say.
pub(super) fn check_segments(dir: &PartitionDir, start: &Start, found: &mut Vec<Finding>) {
    let mut settling = dir.settling();
    for (index, segment) in dir.segments.iter().enumerate() {
        check_segment_files(dir, index, segment, (start, &mut settling), found);
    }
}

fn not_live(status: &PartitionDirStatus) -> Finding {
    let action = match status {
        PartitionDirStatus::Live => "",
        PartitionDirStatus::Delete(_) => "deletes the directory after the start",
        PartitionDirStatus::Future(_) => {
            "goes on copying into it, and swaps it in when it is level, or at a start at once if the \
             metadata has the replica in this log directory"
        }
        PartitionDirStatus::Stray(_) => "keeps it aside; the cluster does not know it here",
    };
    Finding {
        broker_action: action.to_owned(),
        ..Finding::new(
            Severity::Notable,
            Kind::NotLive,
            format!("not the live replica: {}", status.name()),
        )
    }
}

fn of_file(dir: &PartitionDir, file: &FileEntry, swaps: &Swaps) -> Option<Finding> {
    let states = [FileState::Deleted, FileState::Cleaned, FileState::Swap];
    let suffixed = states.into_iter().find(|it| has_suffix(file, *it));
    let finding = match (suffixed.unwrap_or(file.parsed.state), &file.parsed.kind) {
        (FileState::Deleted, _) => Finding {
            broker_action: "deletes it at any start".to_owned(),
            ..Finding::new(
                Severity::Notable,
                Kind::DeletedFile,
                "waits for its deletion",
            )
        },
        (FileState::Cleaned | FileState::Swap, _) if number(file).is_none() => no_number(file),
        (FileState::Cleaned, _) => Finding {
            broker_action: "deletes it at any start, with each .swap at or above its offset"
                .to_owned(),
            ..Finding::new(
                Severity::Notable,
                Kind::InterruptedCleaner,
                "the cleaner, or a split, was interrupted while it wrote this",
            )
        },
        (FileState::Swap, _) => of_swap(file, swaps),
        (FileState::Live, LogFileKind::NotANumber(_)) => no_number(file),
        (
            FileState::Live,
            LogFileKind::Log(_)
            | LogFileKind::OffsetIndex(_)
            | LogFileKind::TimeIndex(_)
            | LogFileKind::TransactionIndex(_),
        ) if !file.has_kafkas_name() => other_name(dir, file),
        (
            FileState::Live,
            LogFileKind::OffsetIndex(base)
            | LogFileKind::TimeIndex(base)
            | LogFileKind::TransactionIndex(base),
        ) if !has_segment(dir, *base) && !is_kept(file, swaps) => Finding {
            segment_base_offset: Some(*base),
            broker_action: if is_name_taken(dir, *base) {
                "leaves it at any start: something else has the name of its .log".to_owned()
            } else {
                "deletes it at any start".to_owned()
            },
            ..Finding::new(
                Severity::Notable,
                Kind::OrphanIndex,
                "its .log is not there",
            )
        },
        _ => return None,
    };
    Some(Finding {
        file: Some(file.name().into_owned()),
        file_size: Some(file.size_in_bytes),
        ..finding
    })
}

/// Whether what is no file has the name of a segment's `.log` (`LogLoader.loadSegmentFiles`).
fn is_name_taken(dir: &PartitionDir, base: i64) -> bool {
    let mut odd = dir.odd.iter();
    odd.any(|it| {
        let name = &it.parsed;
        name.kind == LogFileKind::Log(base) && name.state == FileState::Live && it.what.exists()
    })
}

/// A name with a suffix of Kafka's (`LogFileUtils.offsetFromFileName`).
fn no_number(file: &FileEntry) -> Finding {
    Finding {
        broker_action: does_not_load(Some(if file.name().contains('.') {
            "NumberFormatException"
        } else {
            "StringIndexOutOfBoundsException"
        })),
        next_step: Some("move it out of the directory".to_owned()),
        ..Finding::new(
            Severity::Corrupt,
            Kind::BadFileName,
            "a segment's file without an offset in its name",
        )
    }
}

/// A segment's file under a name that has its offset and is not the one Kafka opens
/// (`LogFileUtils.logFile`).
fn other_name(dir: &PartitionDir, file: &FileEntry) -> Finding {
    let right = file.parsed.to_string();
    let is_log = matches!(file.parsed.kind, LogFileKind::Log(_));
    let is_there = dir.files.iter().any(|it| it.name() == right);
    Finding {
        expected: Some(right.clone()),
        found: Some(file.name().into_owned()),
        segment_base_offset: number(file),
        broker_action: match (is_log, is_there) {
            (true, false) => format!("makes an empty {right} at any start, and does not read this"),
            (true, true) => "does not read it".to_owned(),
            (false, _) => {
                "does not read it; deletes it at any start where its .log is not there".to_owned()
            }
        },
        next_step: Some(if is_there {
            "move it out of the directory".to_owned()
        } else {
            format!("rename it to {right} before a broker starts here")
        }),
        ..Finding::new(
            Severity::Corrupt,
            Kind::BadFileName,
            format!("Kafka opens {right} in its place"),
        )
    }
}

/// Whether an index gets its `.log` by a `.swap` and stays.
fn is_kept(file: &FileEntry, swaps: &Swaps) -> bool {
    let is_it = |it: &FileEntry| it.file_name == file.file_name;
    let placed = swaps.placed();
    placed.is_some_and(|dir| dir.files.iter().any(is_it) && has_log_of(dir, file))
}

fn has_log_of(dir: &PartitionDir, file: &FileEntry) -> bool {
    number(file).is_some_and(|base| has_segment(dir, base))
}

fn has_segment(dir: &PartitionDir, base: i64) -> bool {
    dir.segments
        .binary_search_by_key(&base, |segment| segment.base_offset)
        .is_ok()
}

fn check_segment_files(
    dir: &PartitionDir,
    index: usize,
    segment: &SegmentFiles,
    (start, settling): (&Start, &mut Settling),
    found: &mut Vec<Finding>,
) {
    let Some(log) = dir.file(segment.log) else {
        return;
    };
    if log.size_in_bytes > MAX_SEGMENT_SIZE {
        found.push(Finding {
            file: Some(log.name().into_owned()),
            file_size: Some(log.size_in_bytes),
            segment_base_offset: Some(segment.base_offset),
            expected: Some(format!("at most {MAX_SEGMENT_SIZE} bytes")),
            found: Some(format!("{} bytes", log.size_in_bytes)),
            broker_action: does_not_load(Some("KafkaException")),
            ..Finding::new(
                Severity::Corrupt,
                Kind::SegmentTooLarge,
                "too large for any broker",
            )
        });
    }
    if log.size_in_bytes == 0 {
        return;
    }
    let indexes = [
        (
            segment.offset_index,
            LogFileKind::OffsetIndex(segment.base_offset),
        ),
        (
            segment.time_index,
            LogFileKind::TimeIndex(segment.base_offset),
        ),
    ];
    // Of one that is a directory it has been said.
    let is_told = |kind: &LogFileKind| {
        let mut odd = dir.odd.iter();
        odd.any(|it| it.parsed.kind == *kind && !it.is_passed_over())
    };
    // A broker makes a segment, or replaces one, file by file, the `.log` first.
    let is_missing_now = |kind: &LogFileKind| {
        let index = dir.path.join(kind.to_string());
        !dir.is_on_disk() || !index.exists() && dir.file_path(log).exists()
    };
    let is_unlisted =
        |index: &&(Option<usize>, LogFileKind)| index.0.is_none() && !is_told(&index.1);
    for (_, kind) in indexes.iter().filter(is_unlisted) {
        if !settling.persists(|| is_missing_now(kind)) {
            continue;
        }
        let context = IndexContext {
            start,
            segment: index,
            base_offset: segment.base_offset,
            has_offset_index: segment.offset_index.is_some(),
            file: &kind.to_string(),
            file_size: 0,
        };
        let mut finding = context.missing(kind);
        finding.file_size = None;
        found.push(finding);
    }
}

/// `partition.metadata`, which older clusters have not.
pub(super) fn check_partition_metadata(
    dir: &PartitionDir,
    io: Io,
    found: &mut Vec<Finding>,
) -> Result<(), Error> {
    let is_metadata = |file: &&FileEntry| {
        file.parsed.kind == LogFileKind::PartitionMetadata && file.parsed.state == FileState::Live
    };
    let Some(entry) = dir.files.iter().find(is_metadata) else {
        found.extend(no_partition_metadata(dir, io));
        return Ok(());
    };
    let Some(file) = dir.open_file(entry, io)? else {
        return Ok(());
    };
    if let Err(error) = PartitionMetadata::decode(&file.read_all()?) {
        found.push(Finding {
            file: Some(entry.name().into_owned()),
            position: Some(error.position),
            found: Some(error.to_string()),
            broker_action: does_not_load(PartitionMetadata::uncaught(&error)),
            next_step: Some(
                "write it again: kseg ls on another replica shows the topic id".to_owned(),
            ),
            ..Finding::new(
                Severity::Corrupt,
                Kind::PartitionMetadata,
                error.to_string(),
            )
        });
    }
    Ok(())
}

fn no_partition_metadata(dir: &PartitionDir, io: Io) -> Option<Finding> {
    (had_data(dir) && has_no_topic_id(dir, io)).then(|| Finding {
        file: Some(LogFileKind::PartitionMetadata.to_string()),
        expected: Some("the id of the topic, written before the first batch".to_owned()),
        found: Some("no file".to_owned()),
        broker_action: "any start renames the directory to ...-stray: none of it is served, and \
                        the broker begins with an empty replica if it has one here"
            .to_owned(),
        next_step: Some(
            "write it before the start: kseg ls on another replica shows the topic id".to_owned(),
        ),
        ..Finding::new(
            Severity::Corrupt,
            Kind::PartitionMetadata,
            "no partition.metadata beside the data",
        )
    })
}

/// What the rows of a `.txnindex` say of themselves.
pub(super) fn check_txn_index(
    dir: &PartitionDir,
    index: usize,
    io: Io,
    found: &mut Vec<Finding>,
) -> Result<(), Error> {
    use crate::format::aborted_txn::{AbortedTxnRows, ROW_SIZE};
    let Some(segment) = dir.segments.get(index) else {
        return Ok(());
    };
    let Some(entry) = segment.txn_index.and_then(|place| dir.file(place)) else {
        return Ok(());
    };
    let Some(file) = dir.open_file(entry, io)? else {
        return Ok(());
    };
    let bytes = file.read_all()?;
    let next_base = dir
        .segments
        .get(index + 1)
        .map_or(i64::MAX, |next| next.base_offset);
    let mut last = i64::MIN;
    for (number, row) in AbortedTxnRows::decode(&bytes).rows().iter().enumerate() {
        let (first, ends) = (row.first_offset(), row.last_offset());
        let what = if ends <= last {
            "is not behind the one before"
        } else if ends < segment.base_offset || ends >= next_base {
            "ends outside its segment"
        } else if first >= ends {
            "ends before it begins"
        } else {
            last = ends;
            continue;
        };
        found.push(Finding {
            file: Some(entry.name().into_owned()),
            position: Some((number * ROW_SIZE) as u64),
            entry: Some(number as u64),
            offset: Some(first),
            first_offset: Some(first),
            last_offset: Some(ends),
            producer_id: Some(row.producer_id()),
            segment_base_offset: Some(segment.base_offset),
            broker_action: if ends < segment.base_offset {
                "recovers the segment at any start, which makes its indexes anew".to_owned()
            } else {
                "believes it; an unclean start that recovers the segment makes it anew".to_owned()
            },
            next_step: Some("kseg rebuild --only txnindex makes it anew".to_owned()),
            ..Finding::new(
                Severity::Corrupt,
                Kind::TxnindexDisorder,
                format!("entry {number} ({first}..{ends}) {what}"),
            )
        });
        break;
    }
    Ok(())
}
