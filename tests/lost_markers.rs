//! An open transaction whose marker may lie in what the log has lost: on another replica it has
//! ended, so nobody is told to abort it before that has been looked at.
//!
//! The truth is in the fixtures: a segment with the marker of a transaction that begins before it
//! is taken away, and where the marker was is known from the whole log.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A transaction and the `.log` that its marker is in, which is not the one it begins in.
struct Spanning {
    partition: PathBuf,
    producer_id: i64,
    first_offset: i64,
    marker_offset: i64,
    marker_file: String,
}

fn kseg(arguments: &[&str], path: &Path) -> String {
    let mut kseg = Command::new(env!("CARGO_BIN_EXE_kseg"));
    let output = kseg.args(arguments).arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn rows(arguments: &[&str], path: &Path) -> Vec<Value> {
    let rows = kseg(&[arguments, &["-o", "ndjson"]].concat(), path);
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    rows.collect()
}

fn spanning() -> Vec<Spanning> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut found = Vec::new();
    for fixture in fs::read_dir(fixtures).unwrap() {
        let data = fixture.unwrap().path().join("data");
        if !data.is_dir() {
            continue;
        }
        let of_it = rows(&["txns", "--state", "committed,aborted"], &data);
        // One of each partition.
        let mut last = Value::Null;
        for row in of_it {
            let is_spanning = row["file"].is_string()
                && row["markerFile"].is_string()
                && row["file"] != row["markerFile"];
            let partition = format!("{}-{}", row["topic"].as_str().unwrap(), row["partition"]);
            if is_spanning && last != partition {
                found.push(Spanning {
                    partition: data.join(&partition),
                    producer_id: row["producerId"].as_i64().unwrap(),
                    first_offset: row["firstOffset"].as_i64().unwrap(),
                    marker_offset: row["markerOffset"].as_i64().unwrap(),
                    marker_file: row["markerFile"].as_str().unwrap().to_owned(),
                });
                last = Value::from(partition);
            }
        }
    }
    found
}

fn has(range: &Value, offset: i64) -> bool {
    let at = |key: &str| range[key].as_i64();
    at("firstOffset").is_some_and(|first| first <= offset)
        && at("lastOffset").is_some_and(|last| last >= offset)
}

#[test]
fn a_marker_that_may_be_lost_is_looked_for_before_an_abort() {
    let mut open_again = 0;
    for it in spanning() {
        let place = format!("{} {}", it.partition.display(), it.marker_file);
        let copied = tempfile::tempdir().unwrap();
        let data = it.partition.parent().unwrap();
        // The coordinators would tell that it has ended.
        folders::copy(data, copied.path());
        let coordinators = fs::read_dir(copied.path())
            .unwrap()
            .map(|it| it.unwrap().path());
        for path in coordinators.filter(|path| path.ends_with("__transaction_state-0")) {
            fs::remove_dir_all(path).unwrap();
        }
        let partition = copied.path().join(it.partition.file_name().unwrap());
        fs::remove_file(partition.join(&it.marker_file)).unwrap();

        let open = rows(&["txns", "--state", "open"], &partition);
        for row in &open {
            let first = row["firstOffset"].as_i64().unwrap();
            let lost = &row["markerMayBeLostIn"];
            let is_it = row["producerId"] == it.producer_id && first == it.first_offset;
            if is_it {
                open_again += 1;
                assert!(has(lost, it.marker_offset), "{place}: {row:#}");
            }
            assert!(
                lost.is_null() || lost["firstOffset"].as_i64() > Some(first),
                "{place}"
            );
        }
        if open.iter().any(|row| !row["markerMayBeLostIn"].is_null()) {
            let table = kseg(&["txns", "--state", "open"], &partition);
            let (_, commands) = table
                .split_once("to abort only if no replica has it")
                .unwrap();
            let says = "lost behind its first: offset";
            assert!(commands.contains(says), "{place}: {table}");
        }
        for row in rows(&["lso"], &partition) {
            let held = &row["heldBy"];
            let of_txns = open
                .iter()
                .find(|row| row["firstOffset"] == held["firstOffset"]);
            if let Some(of_txns) = of_txns.filter(|_| held["markerOffset"].is_null()) {
                let both = "markerMayBeLostIn";
                assert_eq!(held[both], of_txns[both], "{place}");
                let table = kseg(&["lso"], &partition);
                let says = "look whether another replica has it ended before an abort";
                let text = table.split_whitespace().collect::<Vec<_>>().join(" ");
                assert_eq!(
                    text.contains(says),
                    !held[both].is_null(),
                    "{place}: {table}"
                );
            }
        }
        for row in rows(&["verify", "--all"], &partition) {
            if row["kind"] == "open-transaction" {
                let next = row["nextStep"].as_str().unwrap_or_default();
                let of_txns = open
                    .iter()
                    .find(|it| it["firstOffset"] == row["firstOffset"])
                    .unwrap();
                let is_in_hand = next.contains("its coordinator is going to end it");
                let is_lost = !of_txns["markerMayBeLostIn"].is_null();
                let asks = next.contains("only if no other replica has one");
                assert!(is_in_hand || asks || !is_lost, "{place}: {next}");
            }
        }
    }
    assert!(open_again > 10, "{open_again}");
}

/// Nothing is lost from the fixtures as they are, but where a segment was taken away from them.
#[test]
fn nothing_is_said_of_a_sound_log() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut open = 0;
    for fixture in [
        "s02-txn-tv2",
        "s03-txn-tv1",
        "s06-retention",
        "s13-hanging-3.3.2",
    ] {
        let data = fixtures.join(fixture).join("data");
        for row in rows(&["txns", "--state", "open"], &data) {
            open += 1;
            assert!(row["markerMayBeLostIn"].is_null(), "{fixture}: {row:#}");
            assert!(row["abortCommand"].is_string(), "{fixture}");
        }
        for row in rows(&["lso"], &data) {
            let held = &row["heldBy"];
            assert!(held.is_null() || held["markerMayBeLostIn"].is_null());
        }
    }
    assert!(open > 2, "{open}");
}
