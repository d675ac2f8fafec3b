//! Offsets between two segments that nothing tells of: what was lost there, and what need not have
//! been.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/replicas.rs"]
mod replicas;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kseg::format::record_batch_builder::BatchSettings;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::gaps::{GapKind, GapOptions, find_gaps};
use replicas::{TestBatch, abort, batch, transactional};
use serde_json::Value;
use tempfile::TempDir;

/// Classes and offsets of what consumers do not get, but for markers and what was aborted.
fn holes(partition: &Path) -> Vec<(&'static str, i64, i64)> {
    holes_with(partition, CheckpointedOffsets::default())
}

fn holes_with(partition: &Path, checkpoints: CheckpointedOffsets) -> Vec<(&'static str, i64, i64)> {
    let dir = PartitionDir::open(partition).unwrap();
    let mut holes = Vec::new();
    let options = GapOptions {
        io: Io::Mmap,
        ..GapOptions::default()
    };
    find_gaps::<Error>(&dir, checkpoints, &options, |it| {
        let is_told = !matches!(it.class.name(), "control-marker" | "aborted");
        if it.kind == GapKind::OffsetGap && is_told {
            let first = it.first_offset.unwrap();
            holes.push((it.class.name(), first, it.last_offset.unwrap()));
        }
        Ok(())
    })
    .unwrap();
    holes
}

/// Kind and severity of what `verify` finds there.
fn verify(partition: &Path) -> Vec<(String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["verify", "-o", "ndjson"])
        .arg(partition)
        .output()
        .unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str(line).unwrap());
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let kinds = rows.map(|row| (text(&row, "kind"), text(&row, "severity")));
    let is_wanted = |it: &(String, String)| it.0 == "offset-hole" || it.0 == "segment-missing";
    kinds.filter(is_wanted).collect()
}

/// A partition of these segments, each with the indexes that a broker makes of it.
fn partition(name: &str, segments: &[&[TestBatch]]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::create_dir(&path).unwrap();
    for batches in segments {
        let bytes: Vec<u8> = batches.iter().flat_map(TestBatch::encode).collect();
        let base = batches[0].base();
        fs::write(path.join(format!("{base:020}.log")), bytes).unwrap();
        for index in ["index", "timeindex"] {
            fs::write(path.join(format!("{base:020}.{index}")), b"").unwrap();
        }
    }
    (folder, path)
}

fn plain(producer_id: i64, base_sequence: i32) -> BatchSettings {
    BatchSettings {
        is_transactional: false,
        ..transactional(producer_id, base_sequence)
    }
}

/// `Cleaner` takes a marker in whose transaction nothing is left but the last batch of its producer
/// (KAFKA-14055), and leaves the segment with an earlier end.
#[test]
fn a_marker_may_have_been_cleaned_from_the_end_of_a_segment() {
    let first = [
        batch(plain(1, 0), 0, 3, "a"),
        batch(transactional(2, 0), 3, 2, "b"),
    ];
    let second = [
        batch(plain(1, 3), 6, 2, "a"),
        batch(transactional(2, 2), 8, 1, "b"),
        abort(2, 9),
    ];
    let (_folder, path) = partition("state-0", &[&first, &second]);
    assert_eq!(holes(&path), [("offset-hole", 5, 5)]);
    let notable = ("offset-hole".to_owned(), "notable".to_owned());
    assert_eq!(verify(&path), [notable]);
}

/// What is gone had records of a producer, or may have had some of none.
#[test]
fn a_segment_that_somebody_misses_is_gone() {
    let first = [
        batch(plain(1, 0), 0, 3, "a"),
        batch(transactional(2, 0), 3, 2, "b"),
    ];
    let rest = |base_sequence| [batch(plain(1, base_sequence), 6, 2, "a"), abort(2, 8)];
    let is_gone = |first: &[TestBatch], second: &[TestBatch]| {
        let (_folder, path) = partition("state-0", &[first, second]);
        let second = second[0].base();
        let missing = ("segment-missing", 5, second - 1);
        assert_eq!(holes(&path), [missing]);
        let corrupt = ("segment-missing".to_owned(), "corrupt".to_owned());
        assert_eq!(verify(&path), [corrupt]);
    };
    // A sequence is missing.
    is_gone(&first, &rest(4));
    // More offsets than transactions that wait for their marker.
    let wide = rest(3).map(|mut it| {
        it.settings.base_offset += 1;
        it.records.iter_mut().for_each(|record| record.0 += 1);
        it.last_offset += 1;
        it
    });
    is_gone(&first, &wide);
    // Nobody counts what has no sequence.
    let none = BatchSettings {
        partition_leader_epoch: 0,
        ..BatchSettings::default()
    };
    let unsequenced = [first[0].clone(), batch(none, 3, 2, "b")];
    is_gone(&unsequenced, &[batch(plain(1, 3), 6, 2, "a")]);
}

/// `LogLoader.load` deletes all segments of a log that ends below its checkpointed start.
#[test]
fn what_is_here_below_a_log_start_behind_the_end_goes_at_the_next_start() {
    let (_folder, path) = partition("state-0", &[&[batch(plain(1, 0), 3, 4, "a")]]);
    let with_start = |at| {
        let checkpoints = CheckpointedOffsets {
            log_start_offset: Some(at),
            ..CheckpointedOffsets::default()
        };
        holes_with(&path, checkpoints)
    };
    let past_end = ("log-start-past-end", 3, 6);
    assert_eq!(with_start(8), [("before-log-start", 0, 7), past_end]);
    assert_eq!(with_start(7), [("before-log-start", 0, 6)]);
}

/// Coordinators' topics are always compacted.
#[test]
fn the_cleaner_is_at_work_in_topics_of_coordinators() {
    let first = [batch(plain(1, 0), 0, 3, "a")];
    let second = [batch(plain(1, 0), 6, 2, "a")];
    let (_folder, path) = partition("__consumer_offsets-7", &[&first, &second]);
    assert_eq!(holes(&path), [("compacted-between-batches", 3, 5)]);
}

/// A start splits a segment whose offsets reach too far: the hole in it lies between two then
/// (`LogSegments.splitOverflowedSegment`).
#[test]
fn the_hole_of_a_segment_that_was_split_is_none_of_a_segment() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("orders-0");
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["recover", "--start", "unclean", "--out"])
        .arg(&path)
        .arg("fixtures/incidents/offset-overflow/data/orders-0")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let split = PartitionDir::open(&path).unwrap();
    assert_eq!(split.segments.len(), 2);
    let [hole] = holes(&path)[..] else {
        unreachable!("one hole in the fixture")
    };
    assert_eq!(hole.0, "offset-hole");
    assert_eq!(hole.2, split.segments[1].base_offset - 1);
    assert_eq!(verify(&path).len(), 1);
}
