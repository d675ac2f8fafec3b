//! `verify` against what the makers of the fixtures and Kafka say is wrong with them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::cases::is_left_closed;
use common::partitions::{broker_fixtures, cases, folders_in, json, open, partitions_below, root};
use kseg::log::metadata_log::ClusterMetadata;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::swap_files::Swaps;
use kseg::log::{Error, Io};
use kseg::report::verify::{AcrossPartitions, Depth, Kind, VerifyOptions, verify_partition};
use serde_json::Value;

const DEEP: VerifyOptionsOf = VerifyOptionsOf {
    io: Io::Mmap,
    depth: Depth::Records,
    threads: None,
};

/// What a test varies.
#[derive(Clone, Copy)]
struct VerifyOptionsOf {
    io: Io,
    depth: Depth,
    threads: Option<usize>,
}

fn verify_with(path: &Path, of: VerifyOptionsOf) -> Vec<Value> {
    let (dir, checkpoints) = open(path);
    let options = VerifyOptions {
        io: of.io,
        depth: of.depth,
        threads: of.threads,
        ..VerifyOptions::default()
    };
    let mut rows = Vec::new();
    let summary = verify_partition::<Error>(
        &dir,
        checkpoints,
        &options,
        |_| {},
        |finding| {
            rows.push(serde_json::to_value(finding).unwrap());
            Ok(())
        },
    )
    .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let count = |severity: &str| {
        rows.iter()
            .filter(|row| row["severity"] == severity)
            .count()
    };
    assert_eq!(summary.corrupt, count("corrupt") as u64);
    assert_eq!(summary.after_crash, count("afterCrash") as u64);
    // Of segments that a start replaces, those it puts into their place are walked.
    let swaps = Swaps::of(&dir, of.io, checkpoints, false).unwrap();
    let walked = swaps.placed().unwrap_or(&dir);
    assert_eq!(summary.bytes, walked.size_in_bytes());
    rows
}

/// The findings of a partition, as JSON.
fn verify(path: &Path) -> Vec<Value> {
    verify_with(path, DEEP)
}

fn is_alarm(row: &Value) -> bool {
    row["severity"] != "notable"
}

fn names(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap()
}

/// Whether a row says all that an expected finding says.
fn says(row: &Value, wanted: &Value) -> bool {
    let mut facts = wanted.as_object().unwrap().iter();
    facts.all(|(key, value)| match key.as_str() {
        "partition" => true,
        "severity" => row["severity"] == "notable" && value == "info",
        // Fields that are not there are null.
        "readable" => {
            let mut fields = value.as_object().unwrap().iter();
            fields.all(|(name, value)| row["readable"][name] == *value)
        }
        key => row[key] == *value,
    })
}

/// The findings that must be reported of one partition of an incident; how replicas part is the
/// answer of another command.
fn wanted_of<'w>(wanted: &'w [Value], partition: &str) -> Vec<&'w Value> {
    let of_it = wanted.iter().filter(|it| it["partition"] == partition);
    of_it
        .filter(|it| it["kind"] != "replica-divergence")
        .collect()
}

#[test]
fn findings_of_incidents_are_reported_with_their_facts() {
    let mut compared = 0;
    for incident in folders_in(&root().join("fixtures/incidents")) {
        let expected = json(&incident.join("expected.json"));
        let wanted = expected["findings"].as_array().cloned().unwrap_or_default();
        let data = incident.join("data");
        let metadata = ClusterMetadata::around(std::slice::from_ref(&data), Io::Mmap);
        let mut across = AcrossPartitions::new(&VerifyOptions::default(), metadata, true);
        for path in partitions_below(&data) {
            let name = path.strip_prefix(&data).unwrap().to_str().unwrap();
            let mut rows = verify(&path);
            across
                .partition::<Error>(&PartitionDir::open(&path).unwrap(), |finding| {
                    rows.push(serde_json::to_value(finding).unwrap());
                    Ok(())
                })
                .unwrap();
            for wanted in wanted_of(&wanted, name) {
                let Some(found) = rows.iter().position(|row| says(row, wanted)) else {
                    rows.retain(|row| row["kind"] == wanted["kind"]);
                    panic!("{}: not reported: {wanted}\n{rows:#?}", path.display());
                };
                rows.remove(found);
                compared += 1;
            }
            let is_unlisted =
                |row: &&Value| is_alarm(row) && !is_evident(row, &path, &expected, &rows);
            if let Some(row) = rows.iter().find(is_unlisted) {
                panic!("{}: not expected: {row:#}", path.display());
            }
        }
    }
    assert!(compared >= 45, "{compared}");
}

/// Findings that `expected.json` leaves out and that are there all the same, by what the files and
/// the other facts of the incident say.
fn is_evident(row: &Value, partition: &Path, expected: &Value, rows: &[Value]) -> bool {
    let file = row["file"].as_str().unwrap_or_default();
    let is_loss = |class: &Value| {
        let gaps = expected["gaps"].as_array();
        gaps.is_some_and(|gaps| {
            gaps.iter()
                .any(|gap| gap["class"] == *class && gap["loss"] == true)
        })
    };
    let is_torn = rows.iter().any(|row| row["kind"] == "torn-tail");
    match row["kind"].as_str().unwrap() {
        "index-missing" => !partition.join(file).exists(),
        "segment-missing" | "torn-tail" => is_loss(&row["kind"]),
        // Named the batch that is torn now.
        "index-damaged" => is_torn && row["defect"] == "past-end-of-log",
        "high-watermark-past-end" => is_torn,
        _ => false,
    }
}

/// The data folders of a fixture.
fn data_folders(fixture: &Path, names: &[&str]) -> Vec<PathBuf> {
    let folders = names.iter().map(|name| fixture.join(name));
    folders.filter(|folder| folder.is_dir()).collect()
}

fn is_damaged(fixture: &Path) -> bool {
    fixture.join("undamaged").is_dir()
}

#[test]
fn nothing_a_broker_left_is_corrupt() {
    let mut partitions = 0;
    for fixture in broker_fixtures() {
        let mut folders = data_folders(&fixture, &["data-2", "data-2-diverged", "undamaged"]);
        if !is_damaged(&fixture) {
            folders.extend(data_folders(&fixture, &["data", "recovered"]));
        }
        for path in folders.iter().flat_map(|folder| partitions_below(folder)) {
            if let Some(row) = verify(&path).iter().find(|row| is_alarm(row)) {
                panic!("{}: {row:#}", path.display());
            }
            partitions += 1;
        }
    }
    assert!(partitions >= 60, "{partitions}");
}

/// Partitions in which something corrupt is found, and nothing says why it has to be.
fn corrupt_partitions(
    folders: &[PathBuf],
    is_explained: impl Fn(&Path, &Value) -> bool,
) -> (usize, Vec<String>) {
    let partitions: Vec<PathBuf> = folders.iter().flat_map(|it| partitions_below(it)).collect();
    let mut corrupt = Vec::new();
    for path in &partitions {
        let mut rows = verify(path);
        rows.retain(|row| row["severity"] == "corrupt" && !is_explained(path, row));
        corrupt.extend(
            rows.first()
                .map(|row| format!("{}: {row:#}", path.display())),
        );
    }
    (partitions.len(), corrupt)
}

/// What the oracle made Kafka's log do and no broker does: a leader of a lower epoch than one
/// before it takes an append, so that the lines of all later epochs are dropped
/// (`LeaderEpochFileCache.maybeTruncateNonMonotonicEntries`); a cut inside a batch, behind which
/// the next segment begins at an offset that no batch reaches any more; a recovery of segments
/// below the recovery point, which stops before it has closed their indexes.
fn is_made_by_the_scenario(path: &Path, row: &Value) -> bool {
    let scenario = json(&path.parent().unwrap().join("scenario.json"));
    let steps = scenario["steps"].as_array().unwrap();
    if row["kind"] == "index-not-trimmed" {
        let result = json(&path.parent().unwrap().join("result.json"));
        return is_left_closed(&scenario, &result);
    }
    if row["kind"] == "leader-epoch-checkpoint" {
        let epochs = steps.iter().flat_map(leader_epochs);
        return !epochs.is_sorted();
    }
    let cut_at = |offset: &Value| {
        let mut cuts = steps.iter().map(|step| &step["truncateTo"]["offset"]);
        offset.is_i64() && cuts.any(|cut| cut == offset)
    };
    row["kind"] == "segment-missing" && cut_at(&row["nextOffset"])
}

/// The leader epochs that a step tells the log of.
fn leader_epochs(step: &Value) -> Vec<i64> {
    let number = |fields: &Value, key: &str| fields[key].as_i64().unwrap_or(0);
    let (name, fields) = step.as_object().unwrap().iter().next().unwrap();
    match name.as_str() {
        "append" | "endTxnMarker" => vec![number(fields, "partitionLeaderEpoch")],
        "appendAsFollower" => {
            let batches = fields["batches"].as_array().unwrap().iter();
            batches
                .map(|batch| number(batch, "partitionLeaderEpoch"))
                .collect()
        }
        "becomeLeader" => vec![number(fields, "leaderEpoch")],
        _ => Vec::new(),
    }
}

#[test]
fn nothing_kafkas_log_wrote_is_corrupt() {
    let (partitions, corrupt) = corrupt_partitions(&cases(), is_made_by_the_scenario);
    assert!(partitions >= 100, "{partitions}");
    assert_eq!(corrupt, Vec::<String>::new());
}

/// A log whose producer state was lost once has no entry for a transaction that was open then:
/// consumers do see what was rolled back, and Kafka never repairs it.
#[test]
fn nothing_kafkas_recovery_left_is_corrupt_but_what_it_forgot() {
    let folders = folders_in(&root().join("tests/recovered-cases"));
    let (partitions, corrupt) =
        corrupt_partitions(&folders, |_, row| row["kind"] == "txnindex-entry-missing");
    assert!(partitions >= 20, "{partitions}");
    assert_eq!(corrupt, Vec::<String>::new());
}

/// Names of the files that are not the same in two folders.
fn differing(one: &Path, other: &Path) -> BTreeSet<String> {
    let files = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect::<BTreeSet<_>>()
    };
    let all = &files(one) | &files(other);
    let differs = |name: &&String| fs::read(one.join(name)).ok() != fs::read(other.join(name)).ok();
    all.iter().filter(differs).cloned().collect()
}

#[test]
fn damage_is_found_in_the_files_that_were_damaged() {
    let mut found = BTreeSet::new();
    for fixture in broker_fixtures()
        .iter()
        .filter(|fixture| is_damaged(fixture))
    {
        for before in partitions_below(&fixture.join("undamaged")) {
            let path = fixture.join("data").join(before.file_name().unwrap());
            let damaged = differing(&before, &path);
            let rows = verify(&path);
            let alarms: Vec<&Value> = rows.iter().filter(|row| is_alarm(row)).collect();
            let is_touched = |extension: &str| damaged.iter().any(|it| it.ends_with(extension));
            let wanted = [".log", ".txnindex", ".index", ".timeindex"];
            // One that is gone altogether a broker makes anew.
            let is_broken = |it: &String| it.ends_with(".snapshot") && path.join(it).exists();
            let is_snapshot_broken = damaged.iter().any(is_broken);
            assert_eq!(
                !alarms.is_empty(),
                wanted.into_iter().any(is_touched) || is_snapshot_broken,
                "{}: {damaged:?}",
                names(&path).display()
            );
            for row in alarms {
                found.insert(row["kind"].as_str().unwrap().to_owned());
                let Some(file) = row["file"].as_str().map(str::to_owned) else {
                    assert_eq!(row["kind"], "segment-missing", "{row:#}");
                    let name = format!("{:020}.log", row["firstOffset"].as_i64().unwrap());
                    assert!(damaged.contains(&name), "{row:#}");
                    continue;
                };
                let follows = [
                    "past-end-of-log",
                    "high-watermark-past-end",
                    // Its marker was in the part that is gone.
                    "txnindex-entry-surplus",
                ];
                let is_consequence = follows
                    .iter()
                    .any(|it| row["defect"] == *it || row["kind"] == *it);
                assert!(damaged.contains(&file) || is_consequence, "{row:#}");
            }
        }
    }
    let wanted = [
        "bad-crc",
        "segment-missing",
        "snapshot-unreadable",
        "index-damaged",
        "index-missing",
        "torn-tail",
        "txnindex-entry-missing",
    ];
    assert!(wanted.iter().all(|kind| found.contains(*kind)), "{found:?}");
}

#[test]
fn what_recovery_leaves_damaged_was_so_before() {
    for fixture in broker_fixtures()
        .iter()
        .filter(|fixture| is_damaged(fixture))
    {
        for path in partitions_below(&fixture.join("recovered")) {
            let before = fixture.join("data").join(path.file_name().unwrap());
            let place =
                |row: &Value| ["kind", "file", "position", "offset"].map(|key| row[key].clone());
            let before: Vec<_> = verify(&before).iter().map(place).collect();
            for row in verify(&path).iter().filter(|row| is_alarm(row)) {
                assert!(before.contains(&place(row)), "{}: {row:#}", path.display());
            }
        }
    }
}

#[test]
fn threads_and_reads_change_nothing() {
    for incident in folders_in(&root().join("fixtures/incidents")) {
        for path in partitions_below(&incident.join("data")) {
            let one = verify(&path);
            let many = VerifyOptionsOf {
                threads: Some(4),
                ..DEEP
            };
            assert_eq!(verify_with(&path, many), one, "{}", path.display());
            let read = VerifyOptionsOf {
                io: Io::Read,
                ..DEEP
            };
            assert_eq!(verify_with(&path, read), one, "{}", path.display());
        }
    }
}

#[test]
fn every_kind_is_explained() {
    let page = fs::read_to_string(root().join("docs/findings.md")).unwrap();
    for kind in Kind::ALL {
        let line = format!("| `{}` | {} | ", kind.name(), kind.rules());
        assert!(page.contains(&line), "{}", kind.name());
    }
}
