//! `diff` against what the makers of the fixtures did to each replica, and what Kafka did about it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
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
use std::path::Path;

use common::partitions::{broker_fixtures, folders_in, json, open, partitions_below, root};
use kseg::log::Io;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::diff::{DiffOptions, ReplicaInput, diff_partitions};
use serde_json::{Value, json};

/// The row of two partition directories, which is the same however files are read.
fn diff(left: &Path, right: &Path) -> Value {
    let [row, other] = [Io::Mmap, Io::Read].map(|io| {
        let options = DiffOptions {
            io,
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            side_files: true,
        };
        let (l, l_offsets) = open(left);
        let (r, r_offsets) = open(right);
        let input = |dir, checkpoints| ReplicaInput { dir, checkpoints };
        let diff = diff_partitions(input(&l, l_offsets), input(&r, r_offsets), options)
            .unwrap_or_else(|e| panic!("{}: {e}", left.display()));
        serde_json::to_value(diff.row).unwrap()
    });
    assert_eq!(row, other, "{}", left.display());
    row
}

/// The offset ranges one side has alone.
fn ranges(alone: &Value) -> Value {
    let ranges = alone["ranges"].as_array().unwrap();
    ranges
        .iter()
        .map(|range| json!([range["firstOffset"], range["lastOffset"]]))
        .collect()
}

/// What both sides call by other names: `equal` is no kind of difference.
fn kind(expected: &Value) -> Value {
    if expected["equal"] == true {
        Value::Null
    } else {
        expected["kind"].clone()
    }
}

#[test]
fn replicas_of_incidents_differ_as_they_were_made() {
    let mut compared = 0;
    for incident in folders_in(&root().join("fixtures/incidents")) {
        let expected = json(&incident.join("expected.json"));
        let Some(facts) = expected["diff"].as_object() else {
            continue;
        };
        let facts = Value::from(facts.clone());
        for left in partitions_below(&incident.join("data/a")) {
            let name = left.file_name().unwrap();
            let right = incident.join("data/b").join(name);
            // Both ways round: sides change places, the rest stays.
            for (left, right, names) in [
                (&left, &right, ["onlyInA", "onlyInB"]),
                (&right, &left, ["onlyInB", "onlyInA"]),
            ] {
                let row = diff(left, right);
                let got = json!({
                    "equal": row["equal"],
                    "kind": row["kind"],
                    "firstDifferingOffset": row["firstDivergentOffset"],
                    "lastCommonEpoch": row["lastCommonEpoch"],
                    "lastCommonEndOffset": row["lastCommonEndOffset"],
                    "onlyInA": ranges(&row["onlyInLeft"]),
                    "onlyInB": ranges(&row["onlyInRight"]),
                });
                let wanted = json!({
                    "equal": facts["equal"],
                    "kind": kind(&facts),
                    "firstDifferingOffset": facts["firstDifferingOffset"],
                    "lastCommonEpoch": facts["lastCommonEpoch"],
                    "lastCommonEndOffset": facts["lastCommonEndOffset"],
                    "onlyInA": facts[names[0]],
                    "onlyInB": facts[names[1]],
                });
                assert_eq!(got, wanted, "{}", left.display());
                ends_agree(&row, &expected, left, right);
                damage_agrees(&row, &expected, left);
                compared += 1;
            }
        }
    }
    assert!(compared >= 10, "{compared}");
}

fn ends_agree(row: &Value, expected: &Value, left: &Path, right: &Path) {
    for (path, side) in [(left, "left"), (right, "right")] {
        let data = path.parent().unwrap().parent().unwrap();
        let name = path.strip_prefix(data).unwrap().to_str().unwrap();
        let facts = &expected["partitions"][name];
        for (key, of) in [
            ("LogStartOffset", "logStartOffset"),
            ("LogEndOffset", "logEndOffset"),
        ] {
            assert_eq!(row[format!("{side}{key}")], facts[of], "{}", path.display());
        }
    }
}

/// Damage that both sides have alike is told once, with what the finding must say.
fn damage_agrees(row: &Value, expected: &Value, left: &Path) {
    let findings = expected["findings"].as_array().unwrap();
    let bad: Vec<&Value> = findings
        .iter()
        .filter(|it| it["kind"] == "bad-crc")
        .collect();
    let both = row["bothCorrupt"].as_array().unwrap();
    assert_eq!(both.len() * 2, bad.len(), "{}", left.display());
    for (shared, found) in both.iter().zip(bad) {
        for side in ["left", "right"] {
            let damage = &shared[side];
            for key in [
                "kind",
                "file",
                "position",
                "baseOffset",
                "lastOffset",
                "producerId",
                "producerEpoch",
                "baseSequence",
                "crcStored",
                "crcComputed",
                "nextOffset",
            ] {
                assert_eq!(damage[key], found[key], "{key} of {}", left.display());
            }
            assert_eq!(damage["records"], found["recordsCount"]);
        }
    }
}

#[test]
fn replicas_of_a_broker_agree_whatever_their_segments() {
    let fixture = root().join("fixtures/s14-replicas");
    let row = diff(&fixture.join("data/rep-0"), &fixture.join("data-2/rep-0"));
    assert_eq!(row["equal"], true, "{row:#}");
    assert_eq!(row["kind"], Value::Null);
    assert_eq!(row["leftLogEndOffset"], row["rightLogEndOffset"]);
    for side in ["ifLeftLeads", "ifRightLeads"] {
        assert_eq!(row[side]["truncates"], false);
    }
}

/// Broker 2 wrote in its log what it did: `Truncating partition rep-0 with
/// TruncationState(offset=199, completed=true) due to leader epoch and offset
/// EpochEndOffset(errorCode=0, partition=0, leaderEpoch=1, endOffset=199)`.
#[test]
fn a_diverged_follower_is_truncated_where_its_broker_did_it() {
    let fixture = root().join("fixtures/s14-replicas");
    let about = json(&fixture.join("about.json"));
    let lines = about["brokerTwoLog"].as_array().unwrap();
    let line = lines
        .iter()
        .filter_map(Value::as_str)
        .find(|line| line.contains("TruncationState"))
        .unwrap();
    let number = |name: &str| -> i64 {
        let (_, rest) = line.split_once(name).unwrap();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
        digits.parse().unwrap()
    };
    let offset = number("TruncationState(offset=");
    let row = diff(
        &fixture.join("data/rep-0"),
        &fixture.join("data-2-diverged/rep-0"),
    );
    assert_eq!(row["kind"], "other-epoch");
    assert_eq!(row["firstDivergentOffset"], offset);
    assert_eq!(row["lastCommonEpoch"], number("leaderEpoch="));
    assert_eq!(row["lastCommonEndOffset"], number("endOffset="));
    let truncation = &row["ifLeftLeads"];
    assert_eq!(truncation["follower"], "right");
    assert_eq!(truncation["truncates"], true);
    assert_eq!(truncation["truncateToOffset"], offset);
    assert_eq!(truncation["leaderEpoch"], number("leaderEpoch="));
    assert_eq!(truncation["leaderEndOffset"], number("endOffset="));
    // `steps`: an idempotent producer wrote 15 records to broker 2 alone, another 16 and then 2
    // more to broker 1.
    assert_eq!(row["onlyInRight"]["records"], 15);
    assert_eq!(row["onlyInLeft"]["records"], 18);
    assert_eq!(ranges(&row["onlyInRight"]), json!([[199, 213]]));
    assert_eq!(ranges(&row["onlyInLeft"]), json!([[199, 216]]));
}

#[test]
fn every_partition_agrees_with_itself() {
    let mut compared = 0;
    for fixture in broker_fixtures() {
        for path in partitions_below(&fixture.join("data")) {
            let row = diff(&path, &path);
            assert_eq!(row["equal"], true, "{}: {row:#}", path.display());
            assert_eq!(row["damagedLeft"], json!([]), "{}", path.display());
            assert_eq!(row["onlyInLeft"]["batches"], 0, "{}", path.display());
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

/// A partition before and after it was damaged: what the damage did, by its `recovery.json`.
#[test]
fn a_damaged_partition_differs_from_what_it_was() {
    // What was done to each, and whether that is in the log, beside it, or in an index.
    let cases = [
        ("s07a-truncated-tail", json!("missing-tail"), true),
        ("s07b-flipped-byte-unflushed", json!("other-bytes"), true),
        ("s07c-flipped-byte-flushed", json!("other-bytes"), true),
        ("s07d-deleted-snapshots", json!("side-files"), false),
        ("s07e-deleted-txnindex", json!("side-files"), false),
        ("s07f-truncated-index", Value::Null, false),
    ];
    for (name, kind, is_damaged) in cases {
        let fixture = root().join("fixtures").join(name);
        for left in partitions_below(&fixture.join("undamaged")) {
            let right = fixture.join("data").join(left.file_name().unwrap());
            let row = diff(&left, &right);
            assert_eq!(row["kind"], kind, "{name}: {row:#}");
            assert_eq!(row["equal"], kind.is_null(), "{name}");
            assert_eq!(row["damagedLeft"], json!([]), "{name}");
            let damaged = row["damagedRight"].as_array().unwrap();
            assert_eq!(damaged.is_empty(), !is_damaged, "{name}");
            if let Some(damage) = damaged.first() {
                assert_eq!(row["firstDivergentOffset"], damage["baseOffset"], "{name}");
            }
        }
    }
}

/// Batches that are other at the same offsets leave other transactions.
#[test]
fn other_data_is_told_by_producer_and_transaction() {
    let incident = root().join("fixtures/incidents/replica-other-bytes/data");
    let row = diff(&incident.join("a/orders-0"), &incident.join("b/orders-0"));
    let expected = json(&incident.join("../expected.json"));
    let ended = &expected["partitions"]["a/orders-0"]["endedTransactions"][0];
    assert_eq!(row["transactions"].as_array().unwrap().len(), 1);
    let txn = &row["transactions"][0];
    assert_eq!(txn["producerId"], ended["producerId"]);
    assert_eq!(txn["firstOffset"], ended["firstOffset"]);
    assert_eq!(txn["outcomeDiffers"], false);
    for side in ["left", "right"] {
        assert_eq!(txn[side]["state"], "COMMITTED");
        assert_eq!(txn[side]["markerOffset"], ended["markerOffset"]);
        assert_eq!(txn[side]["records"], ended["records"]);
    }
    let producers = &row["onlyInLeft"]["producers"];
    assert_eq!(producers.as_array().unwrap().len(), 1);
    assert_eq!(producers[0]["producerId"], ended["producerId"]);
    // Leader epochs do not tell, so nothing is cut off and the difference stays.
    for side in ["ifLeftLeads", "ifRightLeads"] {
        assert_eq!(row[side]["truncates"], false);
        assert_eq!(row[side]["leavesDifference"], true);
    }
}

/// A log directory in which the first segment of a partition is not there any more.
struct Shortened {
    folder: tempfile::TempDir,
    name: std::ffi::OsString,
    front: i64,
}

impl Shortened {
    /// `None` if the partition is of one segment.
    fn of(partition: &Path) -> Option<Self> {
        let (dir, _) = open(partition);
        let front = dir.segments.get(1)?.base_offset;
        let folder = tempfile::tempdir().unwrap();
        folders::copy(partition.parent().unwrap(), folder.path());
        let name = partition.file_name().unwrap().to_owned();
        for file in &dir.files {
            let is_first = file.name().starts_with("00000000000000000000.");
            if is_first {
                fs::remove_file(folder.path().join(&name).join(file.name().as_ref())).unwrap();
            }
        }
        folders::rest(&folder.path().join(&name));
        Some(Self {
            folder,
            name,
            front,
        })
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Moves the first leader epoch to where the log begins, as whoever moves the log start does
    /// (`LeaderEpochFileCache.truncateFromStart`).
    fn move_epochs(&self) {
        let path = self.path().join("leader-epoch-checkpoint");
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<Vec<i64>> = text
            .lines()
            .skip(2)
            .map(|line| line.split(' ').map(|it| it.parse().unwrap()).collect())
            .collect();
        let kept = lines.iter().enumerate().filter(|(index, _)| {
            let next = lines.get(index + 1);
            next.is_none_or(|next| next[1] > self.front)
        });
        let kept: Vec<String> = kept
            .map(|(_, line)| format!("{} {}\n", line[0], line[1].max(self.front)))
            .collect();
        fs::write(&path, format!("0\n{}\n{}", kept.len(), kept.concat())).unwrap();
        folders::rest(&self.path());
    }
}

/// Where a log begins is each replica's own, and no difference; unless nothing ever moved its start
/// there.
#[test]
fn a_front_that_is_gone_is_told_from_one_that_retention_took() {
    let mut compared = 0;
    for fixture in ["s02-txn-tv2", "s03-txn-tv1", "s14-replicas"] {
        let data = root().join("fixtures").join(fixture).join("data");
        for whole in partitions_below(&data) {
            let Some(short) = Shortened::of(&whole) else {
                continue;
            };
            let place = whole.display();
            let last = short.front - 1;
            for is_left in [false, true] {
                let compare = || {
                    if is_left {
                        diff(&short.path(), &whole)
                    } else {
                        diff(&whole, &short.path())
                    }
                };
                let (has, lacks) = if is_left {
                    ("Right", "left")
                } else {
                    ("Left", "right")
                };
                let row = compare();
                assert_eq!(row["kind"], "missing-segment", "{place}: {row:#}");
                assert_eq!(row["isLoss"], true, "{place}");
                assert_eq!(row["firstDivergentOffset"], 0, "{place}");
                let front = &row[format!("{lacks}LostFront")];
                assert_eq!(front["firstOffset"], 0, "{place}");
                assert_eq!(front["lastOffset"], last, "{place}");
                let alone = &row[format!("onlyIn{has}")];
                assert_eq!(ranges(alone), json!([[0, last]]), "{place}: {alone:#}");
                // A follower takes over the leader's log start, and never lowers its own.
                let if_has_leads = &row[format!("if{has}Leads")];
                assert_eq!(if_has_leads["raisesLogStartTo"], Value::Null, "{place}");
                assert_eq!(if_has_leads["leavesDifference"], true, "{place}");
                let leads = if is_left { "Left" } else { "Right" };
                let if_lacks_leads = &row[format!("if{leads}Leads")];
                assert_eq!(if_lacks_leads["raisesLogStartTo"], short.front, "{place}");
                assert_eq!(if_lacks_leads["leavesDifference"], false, "{place}");
            }
            short.move_epochs();
            for row in [diff(&whole, &short.path()), diff(&short.path(), &whole)] {
                assert_eq!(row["isLoss"], false, "{place}: {row:#}");
                assert_eq!(row["equal"], true, "{place}: {row:#}");
                assert_eq!(row["leftLostFront"], Value::Null, "{place}");
                assert_eq!(row["rightLostFront"], Value::Null, "{place}");
            }
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}
