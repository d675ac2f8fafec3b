//! `txns` and `aborted` against Kafka: the live brokers' answers beside the fixtures, the final
//! state of every case, and the facts of every incident.
//!
//! No fixture, case or incident is named here. What is an exception is so by a rule that looks at
//! the scenario or the bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

#[path = "../common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;

#[path = "../common/mod.rs"]
mod common;

mod incidents;
mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::cases::is_left_closed;
use common::partitions;
use folders::answered_data;
use kseg::log::checkpoints::{CheckpointedOffsets, Checkpoints};
use kseg::log::partition_dir::PartitionDir;
use kseg::report::aborted::{AbortedOptions, AbortedRow, AbortedSummary, aborted_partition};
use kseg::report::partition_state::StateOptions;
use kseg::report::txns::{TxnsOptions, TxnsSummary, WantedStates, txns_partition};
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Directories directly below `path`, sorted.
fn dirs(path: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn open(path: &Path) -> (PartitionDir, CheckpointedOffsets) {
    let dir = PartitionDir::open(path).unwrap();
    let above = Checkpoints::read(path.parent().unwrap(), kseg::log::Io::Mmap);
    let offsets = above.of(dir.topic().unwrap(), dir.partition().unwrap());
    (dir, offsets)
}

/// Rows as they are printed, and the counts.
fn txns(path: &Path, state: StateOptions) -> Option<(Vec<Value>, TxnsSummary)> {
    let (dir, offsets) = open(path);
    let options = TxnsOptions {
        state,
        states: WantedStates::ALL,
        ..TxnsOptions::default()
    };
    let mut rows = Vec::new();
    let summary = txns_partition(&dir, offsets, &options, |row| {
        rows.push(serde_json::to_value(row).unwrap());
        Ok::<_, kseg::log::Error>(())
    });
    Some((rows, summary.unwrap()?))
}

fn aborted(path: &Path, options: AbortedOptions) -> Option<(Vec<Value>, AbortedSummary)> {
    let (dir, offsets) = open(path);
    let mut rows = Vec::new();
    let summary = aborted_partition(&dir, offsets, &options, |row: &AbortedRow<'_>| {
        rows.push(serde_json::to_value(row).unwrap());
        Ok::<_, kseg::log::Error>(())
    });
    Some((rows, summary.unwrap()?))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Some keys of some rows, under other names: `keys` has ours and theirs.
fn pick(rows: &[Value], keys: &[(&str, &str)], wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    rows.iter()
        .filter(|row| wanted(row))
        .map(|row| {
            keys.iter()
                .map(|(ours, theirs)| ((*theirs).to_owned(), row[*ours].clone()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        })
        .collect()
}

const ABORTED: &[(&str, &str)] = &[
    ("producerId", "producerId"),
    ("firstOffset", "firstOffset"),
    ("lastOffset", "lastOffset"),
    ("lastStableOffset", "lastStableOffset"),
];

const ONGOING: &[(&str, &str)] = &[("producerId", "producerId"), ("firstOffset", "firstOffset")];

fn is_open(row: &Value) -> bool {
    row["state"] == "OPEN"
}

fn in_index(row: &Value) -> bool {
    row["inIndex"] == true
}

fn in_log(row: &Value) -> bool {
    row["inLog"] == true
}

/// Compares and gathers what differs.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn check(&mut self, what: &str, ours: &Value, theirs: &Value) {
        if ours != theirs {
            self.0
                .push(format!("{what}\n  ours   {ours}\n  theirs {theirs}"));
        }
    }

    fn none(self) {
        assert!(
            self.0.is_empty(),
            "{} differences\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

// ---- cases --------------------------------------------------------------------------------

#[test]
fn cases_end_with_the_transactions_kafka_had() {
    let mut differences = Differences::default();
    let (mut cases, mut open_ones, mut aborted_ones) = (0, 0, 0);
    for case in partitions::cases() {
        let scenario = read(&case.join("scenario.json"));
        let last = &read(&case.join("result.json"))["final"];
        let topic = scenario["topic"].as_str().unwrap();
        let partition = case.join(format!("{topic}-{}", scenario["partition"]));
        let what = case.display().to_string();
        let (rows, _) = txns(&partition, StateOptions::default()).unwrap();
        // What began below the log start is known by a snapshot only, and one that is not above
        // the log start is not loaded, but where nothing is left of the log.
        let log_start = last["logStartOffset"].as_i64();
        let has_snapshot = array(&last["producerSnapshots"])
            .iter()
            .map(|snapshot| &snapshot["offset"])
            .any(|offset| offset.as_i64() > log_start || *offset == last["logEndOffset"]);
        let mut theirs = array(&last["ongoingTransactions"]).to_vec();
        let is_known = |txn: &Value| has_snapshot || txn["firstOffset"].as_i64() >= log_start;
        // One that goes on above it seems to begin with the first batch that is read.
        let cut: Vec<Value> = theirs
            .iter()
            .filter(|txn| !is_known(txn))
            .map(|txn| txn["producerId"].clone())
            .collect();
        theirs.retain(is_known);
        let is_whole = |row: &Value| is_open(row) && !cut.contains(&row["producerId"]);
        let theirs = pick(
            &theirs,
            &[("producerId", "producerId"), ("firstOffset", "firstOffset")],
            |_| true,
        );
        open_ones += theirs.len();
        // A closed log keeps what it knew and reads no index any more, whatever its files hold.
        let is_open_log = !is_left_closed(&scenario, &read(&case.join("result.json")));
        if is_open_log {
            differences.check(
                &format!("{what} ongoing"),
                &pick(&rows, ONGOING, is_whole).into(),
                &theirs.into(),
            );
        }
        let (rows, summary) = aborted(&partition, AbortedOptions::default()).unwrap();
        aborted_ones += array(&last["abortedTransactions"]).len();
        if is_open_log {
            differences.check(
                &format!("{what} aborted"),
                &pick(&rows, ABORTED, in_index).into(),
                &last["abortedTransactions"],
            );
        }
        // A broker that has lost its snapshots in a clean stop does not read the log: it has
        // forgotten what was open, and an ABORT then finds nothing to write a row for.
        let loses_snapshots = array(&scenario["steps"]).iter().any(|step| {
            step["reopen"]["deleteSnapshots"] == true && step["reopen"]["clean"] != false
        });
        if !loses_snapshots {
            differences.check(
                &format!("{what} agrees"),
                &json!(summary.disagrees()),
                &json!(false),
            );
        }
        cases += 1;
    }
    // None is left out, and they are worth something.
    assert!(cases >= 176 && open_ones >= 158 && aborted_ones >= 469);
    differences.none();
}

// ---- fixtures -----------------------------------------------------------------------------

/// What a broker's fetch answers name.
fn named_by_fetches(rows: &[Value]) -> BTreeSet<(i64, i64)> {
    rows.iter()
        .map(|row| {
            (
                row["producerId"].as_i64().unwrap(),
                row["firstOffset"].as_i64().unwrap(),
            )
        })
        .collect()
}

/// Partitions with the answers of the live broker: fixture and partition by name, the directory,
/// the answers.
fn live_answers() -> Vec<(String, PathBuf, Value)> {
    let mut all = Vec::new();
    for fixture in dirs(&root().join("fixtures")) {
        let data = answered_data(&fixture);
        if !data.is_dir() {
            continue;
        }
        for partition in dirs(&data) {
            let answers = fixture
                .join("expected")
                .join(format!("{}.json", name(&partition)));
            if answers.is_file() {
                let what = format!("{}/{}", name(&fixture), name(&partition));
                all.push((what, partition, read(&answers)));
            }
        }
    }
    all
}

#[test]
fn fixtures_have_the_open_transactions_of_the_live_broker() {
    let mut differences = Differences::default();
    let (mut partitions, mut open_ones) = (0, 0);
    for (what, partition, answers) in live_answers() {
        let Some((rows, _)) = txns(&partition, StateOptions::default()) else {
            continue;
        };
        // Older brokers have no describeProducers.
        if !answers["activeProducers"].is_array() {
            continue;
        }
        let theirs: BTreeSet<(i64, i64)> = array(&answers["activeProducers"])
            .iter()
            .filter_map(|it| {
                let first = it["currentTransactionStartOffset"].as_i64()?;
                Some((it["producerId"].as_i64()?, first))
            })
            .collect();
        partitions += 1;
        open_ones += theirs.len();
        let ours: Vec<Value> = rows.iter().filter(|row| is_open(row)).cloned().collect();
        differences.check(&what, &json!(named_by_fetches(&ours)), &json!(theirs));
    }
    assert!(
        partitions >= 92 && open_ones >= 19,
        "{partitions} {open_ones}"
    );
    differences.none();
}

#[test]
fn fixtures_name_the_aborted_transactions_the_live_broker_did() {
    let mut differences = Differences::default();
    let (mut fetches, mut named) = (0, 0);
    for (what, partition, answers) in live_answers() {
        let end = answers["offsets"]["latestReadUncommitted"].as_i64();
        for fetch in array(&answers["fetchReadCommitted"]) {
            let (Some(from), Some(next)) =
                (fetch["fetchOffset"].as_i64(), fetch["nextOffset"].as_i64())
            else {
                continue;
            };
            let theirs = named_by_fetches(array(&fetch["abortedTransactions"]));
            let range = |to_offset| {
                let options = AbortedOptions {
                    from_offset: Some(from),
                    to_offset,
                    ..AbortedOptions::default()
                };
                let (rows, _) = aborted(&partition, options).unwrap();
                let rows: Vec<Value> = rows.into_iter().filter(in_index).collect();
                named_by_fetches(&rows)
            };
            // Where its list ends a broker decides by position in the offset index, behind the
            // last batch it hands out and not behind the log end.
            let (least, most) = (range(Some(next)), range(end));
            fetches += 1;
            named += theirs.len();
            if !theirs.is_superset(&least) || !theirs.is_subset(&most) {
                differences.check(
                    &format!("{what} fetch from {from}"),
                    &json!([least, most]),
                    &json!(theirs),
                );
            }
        }
    }
    assert!(fetches >= 174 && named >= 183, "{fetches} {named}");
    differences.none();
}

/// Also where a segment is missing, with the markers of what was open before it.
#[test]
fn fixtures_end_transactions_as_the_live_broker_did() {
    let mut differences = Differences::default();
    let (mut named, mut committed) = (0, 0);
    for (what, partition, answers) in live_answers() {
        let Some((rows, _)) = txns(&partition, StateOptions::default()) else {
            continue;
        };
        let fetches = array(&answers["fetchReadCommitted"]).iter();
        let theirs: BTreeSet<(i64, i64)> = fetches
            .flat_map(|fetch| named_by_fetches(array(&fetch["abortedTransactions"])))
            .collect();
        let is_ended = |state| move |row: &&Value| row["state"] == state && row["batches"] != 0;
        let ours: Vec<Value> = rows.iter().filter(is_ended("ABORTED")).cloned().collect();
        let ours = named_by_fetches(&ours);
        // Of a compacted transaction the index has the row, and where it began.
        let is_compacted = |row: &Value| row["records"] == 0;
        let (listed, _) = aborted(&partition, AbortedOptions::default()).unwrap();
        let compacted: Vec<Value> = listed
            .iter()
            .filter(|it| is_compacted(it))
            .cloned()
            .collect();
        let compacted = named_by_fetches(&compacted);
        let unknown: Vec<_> = theirs.difference(&ours).collect();
        let unknown: Vec<_> = unknown
            .iter()
            .filter(|it| !compacted.contains(**it))
            .collect();
        named += theirs.len();
        differences.check(&format!("{what} aborted"), &json!(unknown), &json!([]));
        let runs: Vec<(i64, i64)> = array(&answers["readCommittedOffsets"])
            .iter()
            .map(|run| (run[0].as_i64().unwrap(), run[1].as_i64().unwrap()))
            .collect();
        // A consumer stops at the last stable offset, or at a batch that it cannot read.
        let Some((_, stopped_at)) = runs.last().copied() else {
            continue;
        };
        for row in rows.iter().filter(is_ended("COMMITTED")) {
            let (first, last) = (row["firstOffset"].as_i64(), row["lastOffset"].as_i64());
            let (first, last) = (first.unwrap(), last.unwrap());
            if last > stopped_at || Some(last) < answers["offsets"]["earliest"].as_i64() {
                continue;
            }
            // Of some the cleaner or DeleteRecords has taken a part.
            let is_read = runs.iter().any(|(from, to)| *from <= last && first <= *to);
            committed += 1;
            differences.check(&format!("{what} {row}"), &json!(is_read), &json!(true));
        }
    }
    assert!(named >= 183 && committed >= 100, "{named} {committed}");
    differences.none();
}
