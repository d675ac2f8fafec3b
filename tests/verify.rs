//! `verify` against what the makers of the fixtures and Kafka say is wrong with them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::path::{Path, PathBuf};

use common::partitions::{broker_fixtures, cases, folders_in, json, open, partitions_below, root};
use kseg::log::Error;
use kseg::report::verify::{Depth, VerifyOptions, verify_partition};
use serde_json::Value;

/// The findings of a partition, as JSON.
fn verify(path: &Path, depth: Depth) -> Vec<Value> {
    let (dir, checkpoints) = open(path);
    let options = VerifyOptions {
        depth,
        ..VerifyOptions::default()
    };
    let mut rows = Vec::new();
    verify_partition::<Error>(&dir, checkpoints, &options, |_| {}, |finding| {
        rows.push(serde_json::to_value(finding).unwrap());
        Ok(())
    })
    .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    rows
}

fn is_alarm(row: &Value) -> bool {
    row["severity"] != "notable"
}

/// Findings that another command, or a search over all partitions, reports.
fn is_of_one_partition(finding: &Value) -> bool {
    finding["kind"] != "replica-divergence" && finding["kind"] != "equal-records-section"
}

/// Whether a row says all that an expected finding says.
fn says(row: &Value, wanted: &Value) -> bool {
    wanted.as_object().unwrap().iter().all(|(key, value)| match key.as_str() {
        "partition" => true,
        "severity" => row["severity"] == "notable" && value == "info",
        // Fields that are not there are null.
        "readable" => {
            let fields = value.as_object().unwrap();
            fields.iter().all(|(name, value)| row["readable"][name] == *value)
        }
        key => row[key] == *value,
    })
}

#[test]
fn findings_of_incidents_are_reported_with_their_facts() {
    let mut compared = 0;
    for incident in folders_in(&root().join("fixtures/incidents")) {
        let expected = json(&incident.join("expected.json"));
        let wanted = expected["findings"].as_array().cloned().unwrap_or_default();
        let data = incident.join("data");
        for path in partitions_below(&data) {
            let name = path.strip_prefix(&data).unwrap().to_str().unwrap();
            let mut rows = verify(&path, Depth::Records);
            let of_it = wanted.iter().filter(|it| is_of_one_partition(it) && it["partition"] == name);
            for wanted in of_it {
                let Some(found) = rows.iter().position(|row| says(row, wanted)) else {
                    let same: Vec<_> = rows.iter().filter(|row| row["kind"] == wanted["kind"]).collect();
                    panic!("{}: not reported: {wanted}\n{same:#?}", path.display());
                };
                rows.remove(found);
                compared += 1;
            }
            rows.retain(is_alarm);
            for row in &rows { eprintln!("SURPLUS {} {} {} {} {} {} :: {}", path.strip_prefix(root()).unwrap().display(), row["severity"], row["kind"], row["file"], row["position"], row["defect"], row["message"]); }
        }
    }
    assert!(compared >= 40, "{compared}");
}

#[test]
fn healthy() {
    let mut folders: Vec<PathBuf> = Vec::new();
    for f in broker_fixtures() {
        for d in ["data", "data-2", "recovered", "undamaged"] { if f.join(d).is_dir() { folders.push(f.join(d)); } }
    }
    for f in folders {
        for path in partitions_below(&f) {
            for row in verify(&path, Depth::Records).iter().filter(|r| is_alarm(r)) {
                eprintln!("ALARM {} {} {} {} {} {} :: {}", path.strip_prefix(root()).unwrap().display(), row["severity"], row["kind"], row["file"], row["position"], row["defect"], row["message"]);
            }
        }
    }
    for path in cases().iter().flat_map(|c| partitions_below(c)) {
            for row in verify(&path, Depth::Records).iter().filter(|r| is_alarm(r)) {
                eprintln!("ALARM {} {} {} {} {} {} :: {}", path.strip_prefix(root()).unwrap().display(), row["severity"], row["kind"], row["file"], row["position"], row["defect"], row["message"]);
            }
    }
}
