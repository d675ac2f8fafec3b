//! `diff` against what the makers of the fixtures did to each replica, and what Kafka did about it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;

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
