//! `gaps` on a copy of every partition that brokers wrote, with one thing taken away: what is
//! missing then is known from the copy before.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "other test programs use the rest"
)]
#[path = "common/folders.rs"]
mod folders;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::partitions::{open, partitions_below, root};
use kseg::format::file_name::{FileState, LogDirFileName};
use kseg::format::internal_topic::InternalTopic;
use kseg::log::Error;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::gaps::{GapOptions, GapRow, GapSummary, find_gaps};
use serde_json::{Value, json};

/// Partitions of the fixtures, of which nothing is lost.
fn partitions() -> Vec<PathBuf> {
    let all = partitions_below(&root().join("fixtures"));
    let is_wanted = |path: &PathBuf| {
        let is_live = PartitionDir::open(path).is_ok_and(|dir| dir.topic().is_some());
        is_live
            && !path.starts_with(root().join("fixtures/incidents"))
            && gaps(path).1.iter().all(|row| row["isLoss"] == false)
    };
    all.into_iter().filter(is_wanted).collect()
}

/// A copy with the checkpoints beside it.
struct Copy {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copy {
    fn of(partition: &Path) -> Self {
        let (folder, path) = folders::copy_partition(partition);
        Self {
            _folder: folder,
            path,
        }
    }

    fn log(&self, base_offset: i64) -> PathBuf {
        self.path.join(format!("{base_offset:020}.log"))
    }

    /// Once nothing has touched the directory for a while.
    fn gaps(&self) -> (GapSummary, Vec<Value>) {
        folders::rest(&self.path);
        gaps(&self.path)
    }
}

fn gaps(path: &Path) -> (GapSummary, Vec<Value>) {
    let (dir, checkpoints) = open(path);
    let mut rows = Vec::new();
    let summary = find_gaps::<Error>(&dir, checkpoints, &GapOptions::default(), |finding| {
        rows.push(serde_json::to_value(GapRow::new(finding, &dir)).unwrap());
        Ok(())
    });
    (summary.unwrap(), rows)
}

/// First line of `leader-epoch-checkpoint`.
fn first_epoch_start(partition: &Path) -> Option<i64> {
    let text = fs::read_to_string(partition.join("leader-epoch-checkpoint")).ok()?;
    let line = text.lines().nth(2)?;
    line.split(' ').nth(1)?.parse().ok()
}

/// Removes the files of a segment, or gives them a suffix.
fn take_away(partition: &Path, name: &str, suffix: Option<&str>) {
    for entry in fs::read_dir(partition).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        if file.starts_with(name) && !file.ends_with(".deleted") {
            match suffix {
                None => fs::remove_file(&path).unwrap(),
                Some(suffix) => {
                    fs::rename(&path, path.with_file_name(format!("{file}{suffix}"))).unwrap();
                }
            }
        }
    }
}

/// The log start moves the first leader epoch along: where that lies before the first segment,
/// somebody else has taken the front away.
#[test]
fn a_front_gone_with_its_indexes_is_told_by_the_leader_epochs() {
    let mut checked = 0;
    for partition in partitions() {
        let (dir, checkpoints) = open(&partition);
        let [first, second, ..] = dir.segments.as_slice() else {
            continue;
        };
        let start = checkpoints.log_start_offset.unwrap_or(0);
        let began = first.base_offset.max(start);
        let next = second.base_offset;
        let is_metadata = dir.topic() == Some(InternalTopic::ClusterMetadata.name());
        let is_log_dir = partition.with_file_name("meta.properties").exists();
        if first_epoch_start(&partition) != Some(began)
            || began >= next
            || is_metadata
            || !is_log_dir
        {
            continue;
        }
        let name = format!("{:020}", first.base_offset);
        for (suffix, told_by) in [
            (None, "leader-epoch-checkpoint".to_owned()),
            (Some(".deleted"), format!("{name}.log.deleted")),
        ] {
            let copy = Copy::of(&partition);
            take_away(&copy.path, &name, suffix);
            let is_lost =
                |row: &&Value| row["kind"] == "offsetGap" && row["class"] == "segment-missing";
            let (_, rows) = copy.gaps();
            let lost = rows.iter().find(is_lost);
            let lost = lost.unwrap_or_else(|| panic!("{}: {rows:?}", partition.display()));
            let told = json!([lost["firstOffset"], lost["lastOffset"], lost["toldBy"]]);
            assert_eq!(
                told,
                json!([began, next - 1, told_by]),
                "{}",
                partition.display()
            );
            assert_eq!(lost["isLoss"], true);
            checked += 1;

            // Where the first line was moved, the front was given up.
            fs::write(
                copy.path.join("leader-epoch-checkpoint"),
                format!("0\n1\n0 {next}\n"),
            )
            .unwrap();
            let (_, rows) = copy.gaps();
            let mut rows = rows.iter();
            assert!(
                !rows.any(|row| row["firstOffset"] == began && row["isLoss"] == true),
                "{}",
                partition.display()
            );
        }
    }
    assert!(checked > 40, "{checked}");
}

/// What a producer wrote into a segment that is empty now is lost with the segment: no leader has
/// forgotten the producer, and no request failed.
#[test]
fn sequences_of_an_emptied_segment_are_lost_with_it() {
    let is_other = |row: &&Value| {
        row["kind"] == "missing"
            && (row["class"] == "never-stored" || row["class"] == "expired-or-lost-state")
    };
    let number = |value: &Value| value.as_i64().unwrap();
    let (mut checked, mut behind_hole) = (0, 0);
    for partition in partitions() {
        let (dir, _) = open(&partition);
        for segment in &dir.segments {
            let copy = Copy::of(&partition);
            fs::write(copy.log(segment.base_offset), b"").unwrap();
            let (_, rows) = copy.gaps();
            let hole = rows
                .iter()
                .find(|row| row["kind"] == "offsetGap" && row["class"] == "segment-missing");
            let Some(hole) = hole else {
                continue;
            };
            let lost = number(&hole["lastOffset"]) - number(&hole["firstOffset"]) + 1;
            for row in rows.iter().filter(is_other) {
                // There was no room in it for more.
                let missing = number(&row["lastSequence"]) - number(&row["firstSequence"]) + 1;
                assert!(
                    missing > lost,
                    "{} without {}: {row}",
                    partition.display(),
                    segment.base_offset
                );
            }
            behind_hole += rows
                .iter()
                .filter(|row| row["kind"] == "missing" && row["class"] == "segment-missing")
                .count();
            checked += 1;
        }
    }
    assert!(
        checked > 100 && behind_hole > 100,
        "{checked} {behind_hole}"
    );
}

/// Below the log start nothing is missed.
#[test]
fn an_emptied_segment_is_a_loss_from_the_log_start_on() {
    let mut checked = 0;
    for partition in partitions() {
        let (dir, checkpoints) = open(&partition);
        let start = checkpoints.log_start_offset.unwrap_or(0);
        let segments = dir.segments.windows(2);
        for segments in segments.filter(|it| it[0].base_offset < start) {
            let copy = Copy::of(&partition);
            fs::write(copy.log(segments[0].base_offset), b"").unwrap();
            let (_, rows) = copy.gaps();
            let lost = rows
                .iter()
                .filter(|row| row["isLoss"] == true && row["kind"] == "offsetGap");
            let lost: Vec<Value> = lost
                .map(|row| json!([row["firstOffset"], row["lastOffset"]]))
                .collect();
            let last = segments[1].base_offset - 1;
            let wanted = if start <= last {
                vec![json!([start, last])]
            } else {
                Vec::new()
            };
            assert_eq!(lost, wanted, "{}", partition.display());
            checked += 1;
        }
    }
    assert!(checked > 0);
}

/// Positions and base offsets of the batches of a log.
fn batches(log: &[u8]) -> Vec<(usize, i64)> {
    let mut batches = Vec::new();
    let mut position = 0;
    while let Some(header) = log.get(position..position + 12) {
        let base_offset = i64::from_be_bytes(header[..8].try_into().unwrap());
        let length = u32::from_be_bytes(header[8..].try_into().unwrap());
        batches.push((position, base_offset));
        position += 12 + usize::try_from(length).unwrap();
    }
    batches
}

/// So little is left of a batch that it has no offset any more: the snapshot of the clean stop says
/// how far the log went.
#[test]
fn a_torn_tail_without_an_offset_reaches_to_where_the_snapshot_lies() {
    let mut checked = 0;
    for partition in partitions() {
        let end = gaps(&partition).0.log_end_offset;
        let snapshot = partition.join(format!("{end:020}.snapshot"));
        let (dir, checkpoints) = open(&partition);
        let start = checkpoints.log_start_offset.unwrap_or(0);
        let Some(last) = dir.segments.last() else {
            continue;
        };
        let is_whole = dir
            .files
            .iter()
            .all(|it| it.parsed.state == FileState::Live);
        if !snapshot.exists() || !is_whole {
            continue;
        }
        let copy = Copy::of(&partition);
        let bytes = fs::read(copy.log(last.base_offset)).unwrap();
        // An entry of magic 0 or 1 has the offset of its last message.
        let magic = bytes.get(16);
        let batches = batches(&bytes);
        if magic != Some(&2) || batches[0].1 < start {
            continue;
        }
        let (position, base_offset) = batches[batches.len() / 2];
        let left = [1, 7][checked % 2];
        fs::write(copy.log(last.base_offset), &bytes[..position + left]).unwrap();
        let (_, rows) = copy.gaps();
        let torn = torn_tail(&rows, &partition);
        let told = json!([
            torn["firstOffset"],
            torn["lastOffset"],
            torn["position"],
            torn["toldBy"]
        ]);
        let snapshot = format!("{end:020}.snapshot");
        let wanted = json!([base_offset, end - 1, position, snapshot]);
        assert_eq!(told, wanted, "{}", partition.display());
        let lost = rows.iter().filter(|row| row["isLoss"] == true);
        assert_eq!(lost.count(), 1, "{}: {rows:?}", partition.display());
        checked += 1;
    }
    assert!(checked > 30, "{checked}");
}

fn torn_tail<'r>(rows: &'r [Value], partition: &Path) -> &'r Value {
    let torn = rows.iter().find(|row| row["class"] == "torn-tail");
    torn.unwrap_or_else(|| panic!("{}: {rows:?}", partition.display()))
}

/// A broker leaves one segment at least in a partition that it has.
#[test]
fn a_log_without_any_segment_is_lost_from_its_start_to_its_end() {
    let mut checked = 0;
    for partition in partitions() {
        let (dir, checkpoints) = open(&partition);
        let end = gaps(&partition).0.log_end_offset;
        let start = checkpoints.log_start_offset.unwrap_or(0);
        let began = dir
            .segments
            .first()
            .map_or(0, |it| it.base_offset)
            .max(start);
        let snapshot = partition.join(format!("{end:020}.snapshot"));
        if !snapshot.exists() || end <= began || first_epoch_start(&partition) != Some(began) {
            continue;
        }
        for deletes in [true, false] {
            let copy = Copy::of(&partition);
            for segment in &dir.segments {
                let log = copy.log(segment.base_offset);
                if deletes {
                    fs::remove_file(&log).unwrap();
                } else {
                    fs::rename(&log, log.with_extension("log.deleted")).unwrap();
                }
            }
            let (summary, rows) = copy.gaps();
            assert_eq!(summary.alarms, 1, "{}", partition.display());
            let told = rows.iter().map(|row| {
                json!([
                    row["firstOffset"],
                    row["lastOffset"],
                    row["class"],
                    row["isLoss"]
                ])
            });
            let wanted = json!([began, end - 1, "segment-missing", true]);
            assert_eq!(
                told.collect::<Vec<_>>(),
                [wanted],
                "{}",
                partition.display()
            );
            let is_set_aside = rows[0]["toldBy"]
                .as_str()
                .unwrap()
                .ends_with(".log.deleted");
            assert_eq!(is_set_aside, !deletes, "{}", partition.display());
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// Another segment comes behind it.
#[test]
fn a_segment_torn_before_another_is_told_with_its_place() {
    let mut checked = 0;
    for partition in partitions() {
        let (dir, checkpoints) = open(&partition);
        let start = checkpoints.log_start_offset.unwrap_or(0);
        for segments in dir.segments.windows(2) {
            let [segment, next] = segments else { continue };
            let bytes = fs::read(partition.join(format!("{:020}.log", segment.base_offset)));
            let bytes = bytes.unwrap();
            if bytes.get(16) != Some(&2) {
                continue;
            }
            let batches = batches(&bytes);
            let (position, base_offset) = batches[batches.len() - 1];
            // Of a compacted log more offsets may be missing before it.
            if base_offset < start || checkpoints.cleaner_offset.is_some() {
                continue;
            }
            let copy = Copy::of(&partition);
            fs::write(copy.log(segment.base_offset), &bytes[..position + 7]).unwrap();
            let (_, rows) = copy.gaps();
            let torn = torn_tail(&rows, &partition);
            let told = json!([
                torn["firstOffset"],
                torn["lastOffset"],
                torn["file"],
                torn["position"]
            ]);
            let file = format!("{:020}.log", segment.base_offset);
            let wanted = json!([base_offset, next.base_offset - 1, file, position]);
            assert_eq!(told, wanted, "{}", partition.display());
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// A crash while segments are replaced leaves them under names that a start puts into place
/// (`LogLoader.load`), unless what made them had not come to its end.
#[test]
fn a_segment_in_a_swap_file_comes_back() {
    let mut checked = 0;
    for partition in partitions() {
        let (dir, checkpoints) = open(&partition);
        let end = gaps(&partition).0.log_end_offset;
        let start = checkpoints.log_start_offset.unwrap_or(0);
        let is_whole = dir
            .files
            .iter()
            .all(|it| it.parsed.state == FileState::Live);
        if checkpoints.cleaner_offset.is_some() || !is_whole {
            continue;
        }
        for (index, segment) in dir.segments.iter().enumerate() {
            let next = dir.segments.get(index + 1);
            let next = next.map_or(end, |next| next.base_offset);
            if next <= start.max(segment.base_offset) {
                continue;
            }
            let copy = Copy::of(&partition);
            for suffix in ["log", "index", "timeindex", "txnindex"] {
                let file = copy.log(segment.base_offset).with_extension(suffix);
                if file.exists() {
                    fs::rename(&file, file.with_extension(format!("{suffix}.swap"))).unwrap();
                }
            }
            let name = format!("{:020}.log.swap", segment.base_offset);
            let (summary, rows) = copy.gaps();
            assert_eq!(
                summary.alarms,
                0,
                "{} {name}: {rows:?}",
                partition.display()
            );
            let back = rows
                .iter()
                .filter(|row| row["kind"] == "offsetGap" && row["class"] == "segment-in-swap");
            let mut begin = start.max(segment.base_offset);
            for row in back {
                let told = json!([row["firstOffset"], row["toldBy"]]);
                assert_eq!(told, json!([begin, name]), "{}", partition.display());
                begin = row["lastOffset"].as_i64().unwrap() + 1;
            }
            assert_eq!(begin, next, "{}: {rows:?}", partition.display());

            // What made it had not come to its end: the start deletes it.
            fs::write(
                copy.log(segment.base_offset).with_extension("log.cleaned"),
                b"",
            )
            .unwrap();
            let (_, rows) = copy.gaps();
            let mut rows = rows.iter();
            assert!(!rows.any(|row| row["class"] == "segment-in-swap"));
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

/// A torn batch was never read whole by a follower: whether it had been acknowledged is for the
/// high watermark to say, to `gaps` and `recover` alike.
#[test]
fn a_torn_tail_says_whether_it_had_been_acknowledged() {
    let mut checked = 0;
    for partition in partitions() {
        let (dir, checkpoints) = open(&partition);
        let name = dir.topic().zip(dir.partition());
        let (Some((topic, number)), Some(last)) = (name, dir.segments.last()) else {
            continue;
        };
        let bytes = fs::read(partition.join(format!("{:020}.log", last.base_offset))).unwrap();
        let start = checkpoints.log_start_offset.unwrap_or(0);
        let batches = batches(&bytes);
        let Some(&(position, torn)) = batches
            .last()
            .filter(|it| batches.len() > 1 && it.1 > start)
        else {
            continue;
        };
        if bytes.get(16) != Some(&2) {
            continue;
        }
        let end = gaps(&partition).0.log_end_offset;
        for high_watermark in [torn, end] {
            let copy = Copy::of(&partition);
            fs::write(copy.log(last.base_offset), &bytes[..bytes.len() - 1]).unwrap();
            let file = copy
                .path
                .with_file_name(LogDirFileName::ReplicationOffsetCheckpoint.to_string());
            fs::write(file, format!("0\n1\n{topic} {number} {high_watermark}\n")).unwrap();
            let what = format!("{} @ {position}, {high_watermark}", partition.display());
            let (_, rows) = copy.gaps();
            let tail = torn_tail(&rows, &partition);
            let is_acknowledged = high_watermark > torn;
            assert_eq!(tail["isLoss"], true, "{what}");
            let wanted = json!((!is_acknowledged).then_some(high_watermark));
            assert_eq!(tail["highWatermark"], wanted, "{what}");
            let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
                .args(["recover", "-o", "ndjson", "--start", "unclean"])
                .arg(&copy.path)
                .output()
                .unwrap();
            let row: Value = serde_json::from_slice(&output.stdout).unwrap();
            // A batch with a wrong checksum before it is cut off as well.
            if row["logEndOffset"] != torn {
                continue;
            }
            let from = json!(is_acknowledged.then_some(torn));
            assert_eq!(row["losses"]["acknowledgedFrom"], from, "{what} {row:#}");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}
