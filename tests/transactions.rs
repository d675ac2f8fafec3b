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

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kseg::log::checkpoints::{CheckpointedOffsets, Checkpoints};
use kseg::log::partition_dir::PartitionDir;
use kseg::report::aborted::{
    AbortedOptions, AbortedRow, AbortedSummary, RangeRule, aborted_partition,
};
use kseg::report::partition_state::{StateOptions, load_partition_state};
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

/// What Kafka makes of the log alone, where an index is at hand as well.
const ABORTED_IN_LOG: &[(&str, &str)] = &[
    ("producerId", "producerId"),
    ("logFirstOffset", "firstOffset"),
    ("lastOffset", "lastOffset"),
    ("logLastStableOffset", "lastStableOffset"),
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
    for kind in dirs(&root().join("cases")) {
        for case in dirs(&kind) {
            let scenario = read(&case.join("scenario.json"));
            let last = &read(&case.join("result.json"))["final"];
            let topic = scenario["topic"].as_str().unwrap();
            let partition = case.join(format!("{topic}-{}", scenario["partition"]));
            let what = format!("{}/{}", name(&kind), name(&case));
            let (rows, _) = txns(&partition, StateOptions::default()).unwrap();
            let theirs = array(&last["ongoingTransactions"]);
            let theirs = pick(
                theirs,
                &[("producerId", "producerId"), ("firstOffset", "firstOffset")],
                |_| true,
            );
            open_ones += theirs.len();
            differences.check(
                &format!("{what} ongoing"),
                &pick(&rows, ONGOING, is_open).into(),
                &theirs.into(),
            );
            let (rows, summary) = aborted(&partition, AbortedOptions::default()).unwrap();
            aborted_ones += array(&last["abortedTransactions"]).len();
            differences.check(
                &format!("{what} aborted"),
                &pick(&rows, ABORTED, in_index).into(),
                &last["abortedTransactions"],
            );
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
    }
    eprintln!("cases {cases} open {open_ones} aborted {aborted_ones}");
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

#[test]
fn fixtures_answer_as_the_live_broker_did() {
    let mut differences = Differences::default();
    let (mut partitions, mut fetches, mut named, mut open_ones) = (0, 0, 0, 0);
    for fixture in dirs(&root().join("fixtures")) {
        let expected = fixture.join("expected");
        if !expected.is_dir() {
            continue;
        }
        // Where the broker crashed, the answers were taken after it had come up again.
        let recovered = fixture.join("recovered");
        let data = if recovered.is_dir() {
            recovered
        } else {
            fixture.join("data")
        };
        for partition in dirs(&data) {
            let answers = expected.join(format!("{}.json", name(&partition)));
            if !answers.is_file() {
                continue;
            }
            let answers = read(&answers);
            let what = format!("{}/{}", name(&fixture), name(&partition));
            let Some((rows, _)) = txns(&partition, StateOptions::default()) else {
                continue;
            };
            partitions += 1;
            // describeProducers, where the broker's version has it.
            if answers["activeProducers"].is_array() {
                let theirs: BTreeSet<(i64, i64)> = array(&answers["activeProducers"])
                    .iter()
                    .filter_map(|it| {
                        let first = it["currentTransactionStartOffset"].as_i64()?;
                        Some((it["producerId"].as_i64()?, first))
                    })
                    .collect();
                open_ones += theirs.len();
                let ours: Vec<Value> = rows.iter().filter(|row| is_open(row)).cloned().collect();
                differences.check(
                    &format!("{what} open"),
                    &json!(named_by_fetches(&ours)),
                    &json!(theirs),
                );
            }
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
                // Where its list ends a broker decides by position in the offset index, behind
                // the last batch it hands out and not behind the log end.
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
    }
    eprintln!("partitions {partitions} fetches {fetches} named {named} open {open_ones}");
    differences.none();
}

// ---- incidents ----------------------------------------------------------------------------

/// The facts of one partition of an incident, and where it lies.
struct Incident {
    what: String,
    expected: Value,
    partition: PathBuf,
    key: String,
}

fn incidents() -> Vec<Incident> {
    let mut all = Vec::new();
    for fixture in dirs(&root().join("fixtures/incidents")) {
        let expected = read(&fixture.join("expected.json"));
        let Some(partitions) = expected["partitions"].as_object() else {
            continue;
        };
        for key in partitions.keys() {
            all.push(Incident {
                what: format!("{}/{key}", name(&fixture)),
                expected: expected.clone(),
                partition: fixture.join("data").join(key),
                key: key.clone(),
            });
        }
    }
    all
}

impl Incident {
    fn facts(&self) -> &Value {
        &self.expected["partitions"][&self.key]
    }

    /// The findings about this partition.
    fn findings(&self, kind: &str) -> Vec<&Value> {
        array(&self.expected["findings"])
            .iter()
            .filter(|it| it["kind"] == kind && it["partition"] == *self.key)
            .collect()
    }
}

const OPEN: &[(&str, &str)] = &[
    ("producerId", "producerId"),
    ("producerEpoch", "producerEpoch"),
    ("firstOffset", "firstOffset"),
    ("lastOffset", "lastOffset"),
    ("file", "file"),
    ("position", "position"),
    ("startTimestamp", "firstBatchMaxTimestamp"),
    ("lastTimestamp", "lastBatchMaxTimestamp"),
    ("batches", "batches"),
    ("records", "records"),
    ("sizeInBytes", "bytes"),
    ("coordinatorEpoch", "lastMarkerCoordinatorEpoch"),
];

const ENDED: &[(&str, &str)] = &[
    ("producerId", "producerId"),
    ("producerEpoch", "dataEpoch"),
    ("markerEpoch", "markerEpoch"),
    ("state", "outcome"),
    ("firstOffset", "firstOffset"),
    ("lastOffset", "lastDataOffset"),
    ("markerOffset", "markerOffset"),
    ("batches", "batches"),
    ("records", "records"),
    ("coordinatorEpoch", "coordinatorEpoch"),
];

const EMPTY: &[(&str, &str)] = &[
    ("producerId", "producerId"),
    ("markerEpoch", "producerEpoch"),
    ("state", "type"),
    ("markerOffset", "offset"),
    ("coordinatorEpoch", "coordinatorEpoch"),
];

/// Our word for a state into theirs.
fn reword(rows: &mut [Value], key: &str, words: &[(&str, &str)]) {
    for row in rows {
        for (ours, theirs) in words {
            if row[key] == *ours {
                row[key] = json!(theirs);
                break;
            }
        }
    }
}

fn by_offset(mut rows: Vec<Value>, key: &str) -> Value {
    rows.sort_by_key(|row| row[key].as_i64());
    rows.into()
}

#[test]
fn incidents_have_their_transactions() {
    let mut differences = Differences::default();
    let mut counts = [0; 3];
    for incident in incidents() {
        let Some((rows, _)) = txns(&incident.partition, StateOptions::default()) else {
            continue;
        };
        let (what, facts) = (&incident.what, incident.facts());
        // The facts leave out what a snapshot alone knows, and batches without records. Kafka
        // counts a batch that the cleaner emptied as the transaction's first, so that its marker
        // ends a transaction, of which nothing is left.
        let has_records = |row: &Value| row["records"].as_u64() > Some(0);
        let open = pick(&rows, OPEN, |row| is_open(row) && has_records(row));
        let mut ended = pick(&rows, ENDED, |row| !is_open(row) && has_records(row));
        reword(
            &mut ended,
            "outcome",
            &[("COMMITTED", "committed"), ("ABORTED", "aborted")],
        );
        let mut empty = pick(&rows, EMPTY, |row| !is_open(row) && !has_records(row));
        reword(
            &mut empty,
            "type",
            &[("COMMITTED", "COMMIT"), ("ABORTED", "ABORT")],
        );
        let theirs = array(&facts["endedTransactions"]).to_vec();
        counts[0] += array(&facts["openTransactions"]).len();
        counts[1] += theirs.len();
        counts[2] += array(&facts["markersWithoutData"]).len();
        differences.check(
            &format!("{what} open"),
            &open.into(),
            &facts["openTransactions"],
        );
        differences.check(
            &format!("{what} ended"),
            &by_offset(ended, "markerOffset"),
            &by_offset(theirs, "markerOffset"),
        );
        differences.check(
            &format!("{what} empty"),
            &empty.into(),
            &facts["markersWithoutData"],
        );
    }
    eprintln!("open, ended, empty: {counts:?}");
    differences.none();
}

#[test]
fn incidents_have_their_aborted_transactions() {
    let mut differences = Differences::default();
    let (mut lists, mut rows_compared) = (0, 0);
    for incident in incidents() {
        let Some((rows, summary)) = aborted(&incident.partition, AbortedOptions::default()) else {
            continue;
        };
        let (what, facts) = (&incident.what, incident.facts());
        lists += 1;
        rows_compared += array(&facts["abortedTransactions"]).len();
        // Kafka has no list where it could not rebuild the partition.
        if facts["abortedTransactions"].is_array() {
            differences.check(
                &format!("{what} in log"),
                &pick(&rows, ABORTED_IN_LOG, in_log).into(),
                &facts["abortedTransactions"],
            );
        }
        // A clean start does not touch the indexes.
        let clean = &facts["brokerOnCleanStart"];
        if clean["loads"] == true {
            differences.check(
                &format!("{what} in index"),
                &pick(&rows, ABORTED, in_index).into(),
                &clean["abortedTransactions"],
            );
        }
        let missing: Vec<Value> = incident
            .findings("txnindex-entry-missing")
            .into_iter()
            .map(|it| {
                json!({
                    "file": it["file"],
                    "producerId": it["producerId"],
                    "firstOffset": it["firstOffset"],
                    "lastOffset": it["lastOffset"],
                    "lastStableOffset": it["lastStableOffset"],
                })
            })
            .collect();
        let keys: Vec<(&str, &str)> = ABORTED.iter().copied().chain([("file", "file")]).collect();
        let ours = pick(&rows, &keys, |row| {
            row["finding"] == "txnindex-entry-missing"
        });
        differences.check(&format!("{what} missing"), &ours.into(), &missing.into());
        if incident.expected["exposedOffsets"].is_array() {
            let exposed: Vec<Value> = rows
                .iter()
                .flat_map(|row| array(&row["exposedOffsets"]).to_vec())
                .collect();
            differences.check(
                &format!("{what} exposed"),
                &exposed.into(),
                &incident.expected["exposedOffsets"],
            );
        }
        if let Some(agrees) = incident.expected["txnindexAgreesWithLog"].as_bool() {
            differences.check(
                &format!("{what} agrees"),
                &json!(!summary.disagrees()),
                &json!(agrees),
            );
        }
    }
    eprintln!("lists {lists} rows {rows_compared}");
    differences.none();
}

#[test]
fn incidents_answer_queries_by_range() {
    let mut differences = Differences::default();
    let mut queries = 0;
    for incident in incidents() {
        for query in array(&incident.expected["queries"]) {
            let (from, to) = (query["from"].as_i64(), query["to"].as_i64());
            let list = |range_rule| {
                let options = AbortedOptions {
                    from_offset: from,
                    to_offset: to,
                    range_rule,
                    ..AbortedOptions::default()
                };
                let (rows, _) = aborted(&incident.partition, options).unwrap();
                pick(&rows, ABORTED, in_index)
            };
            queries += 1;
            let what = format!("{} {from:?}..{to:?}", incident.what);
            // The queries were put to `UnifiedLog.collectAbortedTransactions`, which holds the
            // markers against the log start.
            let theirs = &query["abortedTransactions"];
            let ours = list(RangeRule::CollectAbortedTransactions);
            differences.check(&what, &ours.into(), theirs);
            // A fetch holds them against the offset it begins at.
            let reaches = |row: &&Value| row["lastOffset"].as_i64() >= from;
            let theirs: Vec<Value> = array(theirs).iter().filter(reaches).cloned().collect();
            let ours = list(RangeRule::Fetch);
            differences.check(&format!("{what} fetch"), &ours.into(), &theirs.into());
        }
    }
    eprintln!("queries {queries}");
    assert!(queries > 0);
    differences.none();
}

/// Findings of a kind on our rows, with the row's producer.
fn findings(rows: &[Value], kind: &str) -> Vec<(Value, Value)> {
    rows.iter()
        .flat_map(|row| {
            array(&row["findings"])
                .iter()
                .map(move |it| (row.clone(), it.clone()))
        })
        .filter(|(_, finding)| finding["kind"] == kind)
        .collect()
}

#[test]
fn incidents_have_their_findings() {
    let mut differences = Differences::default();
    let mut counts = [0; 4];
    for incident in incidents() {
        let Some((rows, _)) = txns(&incident.partition, StateOptions::default()) else {
            continue;
        };
        let what = &incident.what;
        let lists_open = array(&incident.expected["findings"])
            .iter()
            .any(|it| it["kind"] == "open-transaction");
        let ours: Vec<Value> = findings(&rows, "open-transaction")
            .into_iter()
            .map(|(row, it)| {
                json!({
                    "kind": "open-transaction", "partition": incident.key,
                    "producerId": row["producerId"], "producerEpoch": row["producerEpoch"],
                    "offset": it["offset"], "file": it["file"], "position": it["position"],
                    "sinceMs": row["startTimestamp"],
                    "abort": {
                        "topic": row["topic"], "partition": row["partition"],
                        "startOffset": row["firstOffset"], "producerId": row["producerId"],
                        "producerEpoch": row["producerEpoch"],
                        "coordinatorEpoch": row["coordinatorEpoch"],
                    },
                })
            })
            .collect();
        let theirs = incident.findings("open-transaction");
        counts[0] += theirs.len();
        // Some fixtures have an open transaction beside what they are about, and name no finding.
        if lists_open {
            differences.check(&format!("{what} open"), &json!(ours), &json!(theirs));
        }
        for row in rows.iter().filter(|row| is_open(row)) {
            let expected = format!(
                "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {} \
                 --partition {} --start-offset {}",
                row["topic"].as_str().unwrap(),
                row["partition"],
                row["firstOffset"]
            );
            differences.check(what, &row["abortCommand"], &json!(expected));
        }
        let ours: Vec<Value> = findings(&rows, "snapshot-only-transaction")
            .into_iter()
            .map(|(row, it)| {
                json!({
                    "kind": "snapshot-only-transaction", "partition": incident.key,
                    "producerId": row["producerId"], "producerEpoch": row["producerEpoch"],
                    "currentTxnFirstOffset": it["currentTxnFirstOffset"],
                    "logStartOffset": it["logStartOffset"], "file": it["file"],
                })
            })
            .collect();
        let theirs = incident.findings("snapshot-only-transaction");
        counts[1] += theirs.len();
        differences.check(&format!("{what} snapshot"), &json!(ours), &json!(theirs));
        let ours: Vec<Value> = findings(&rows, "marker-probably-cleaned")
            .into_iter()
            .map(|(row, it)| {
                json!({
                    "kind": "marker-probably-cleaned", "partition": incident.key,
                    "producerId": row["producerId"], "offset": it["offset"],
                    "missingOffset": it["missingOffset"], "certainty": it["certainty"],
                    "reason": it["reason"],
                })
            })
            .collect();
        let theirs = incident.findings("marker-probably-cleaned");
        counts[2] += theirs.len();
        differences.check(&format!("{what} cleaned"), &json!(ours), &json!(theirs));
        let ours: Vec<Value> = findings(&rows, "coordinator-epoch-regression")
            .into_iter()
            .map(|(row, it)| {
                json!({
                    "kind": "coordinator-epoch-regression", "partition": incident.key,
                    "producerId": row["producerId"], "offset": it["offset"],
                    "coordinatorEpoch": it["coordinatorEpoch"],
                    "previousCoordinatorEpoch": it["previousCoordinatorEpoch"],
                })
            })
            .collect();
        let theirs = incident.findings("coordinator-epoch-regression");
        counts[3] += theirs.len();
        differences.check(&format!("{what} coordinator"), &json!(ours), &json!(theirs));
        if let Some(seen) = incident.expected["transactionVersionSeen"].as_u64() {
            let ended = rows.iter().filter(|row| !is_open(row));
            let versions: BTreeSet<u64> = ended
                .map(|row| row["transactionVersion"].as_u64().unwrap())
                .collect();
            differences.check(what, &json!(versions), &json!([seen]));
        }
    }
    eprintln!("open, snapshot, cleaned, coordinator: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0));
    differences.none();
}

#[test]
fn incidents_say_where_the_last_stable_offset_goes() {
    let mut compared = 0;
    let mut differences = Differences::default();
    for incident in incidents() {
        let steps = array(&incident.expected["lastStableOffsetAfterAbort"]);
        if steps.is_empty() {
            continue;
        }
        let (rows, summary) = txns(&incident.partition, StateOptions::default()).unwrap();
        let before = json!({"resolved": null, "lastStableOffset": summary.last_stable_offset});
        let ours: Vec<Value> = std::iter::once(before)
            .chain(pick(
                &rows,
                &[
                    ("producerId", "resolved"),
                    ("lastStableOffsetAfterAbort", "lastStableOffset"),
                ],
                is_open,
            ))
            .collect();
        let keys = [
            ("resolved", "resolved"),
            ("lastStableOffset", "lastStableOffset"),
        ];
        let theirs = pick(steps, &keys, |_| true);
        compared += theirs.len();
        differences.check(&incident.what, &json!(ours), &json!(theirs));
    }
    assert!(compared > 0);
    differences.none();
}

// ---- the rules among themselves -----------------------------------------------------------

/// Every partition directory below fixtures and cases that holds segments.
fn all_partitions() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("fixtures"), root().join("cases")];
    while let Some(folder) = folders.pop() {
        for below in dirs(&folder) {
            let dir = PartitionDir::open(&below).unwrap();
            if dir.segments.is_empty() || dir.name.is_none() {
                folders.push(below);
            } else {
                found.push(below);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn open_transactions_are_those_of_the_state() {
    let mut differences = Differences::default();
    let mut compared = 0;
    for partition in all_partitions() {
        let (dir, offsets) = open(&partition);
        let end = load_partition_state(&dir, offsets, StateOptions::default()).unwrap();
        let end = end.unwrap().log_end_offset;
        let first = dir.segments[0].base_offset;
        let middle = first + (end - first) / 2;
        for from_scratch in [false, true] {
            for at_offset in [None, Some(middle), Some(first)] {
                let options = StateOptions {
                    from_scratch,
                    at_offset,
                    ..StateOptions::default()
                };
                let state = load_partition_state(&dir, offsets, options)
                    .unwrap()
                    .unwrap();
                let theirs: Vec<(i64, i64)> = state
                    .manager
                    .ongoing_txns()
                    .map(|txn| (txn.producer_id, txn.first_offset.message_offset))
                    .collect();
                let (rows, summary) = txns(&partition, options).unwrap();
                let ours: Vec<(i64, i64)> = rows
                    .iter()
                    .filter(|row| is_open(row))
                    .map(|row| {
                        let number = |key: &str| row[key].as_i64().unwrap();
                        (number("producerId"), number("firstOffset"))
                    })
                    .collect();
                compared += 1;
                let what = format!("{} {options:?}", partition.display());
                differences.check(&what, &json!(ours), &json!(theirs));
                differences.check(
                    &what,
                    &json!([summary.last_stable_offset, summary.log_end_offset]),
                    &json!([state.offsets.last_stable_offset(), state.log_end_offset]),
                );
            }
        }
    }
    assert!(compared > 1000, "{compared}");
    differences.none();
}

/// A copy of a partition whose last `.txnindex` with rows is changed by `change`.
fn with_index(partition: &Path, change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let copy = temp.path().join(name(partition));
    fs::create_dir(&copy).unwrap();
    let mut indexes = Vec::new();
    for file in fs::read_dir(partition).unwrap() {
        let file = file.unwrap().path();
        if !file.is_file() {
            continue;
        }
        let to = copy.join(file.file_name().unwrap());
        fs::write(&to, fs::read(&file).unwrap()).unwrap();
        if name(&to).ends_with(".txnindex") && fs::metadata(&to).unwrap().len() > 0 {
            indexes.push(to);
        }
    }
    indexes.sort();
    let index = indexes.last().unwrap();
    let mut bytes = fs::read(index).unwrap();
    change(&mut bytes);
    fs::write(index, bytes).unwrap();
    (temp, copy)
}

const ROW_SIZE: usize = 34;

/// Data batches of the transaction of `row`, as `txns` counts them, must be those named.
fn records_in(ranges: &Value) -> i64 {
    let length = |range: &Value| range[1].as_i64().unwrap() - range[0].as_i64().unwrap() + 1;
    array(ranges).iter().map(length).sum()
}

/// Partitions whose last index row is of a transaction with records, nothing compacted, and a
/// committed transaction beside it.
fn damageable() -> Vec<(PathBuf, Value, Value)> {
    let mut found = Vec::new();
    for partition in all_partitions() {
        let Some((rows, summary)) = aborted(&partition, AbortedOptions::default()) else {
            continue;
        };
        let last_row = rows.iter().rfind(|row| in_index(row));
        let (txns, _) = txns(&partition, StateOptions::default()).unwrap();
        let committed = txns
            .iter()
            .rfind(|row| row["state"] == "COMMITTED" && row["records"].as_u64() > Some(0));
        if let (Some(row), Some(committed), false) = (last_row, committed, summary.disagrees())
            && in_log(row)
            && row["records"].as_u64() > Some(0)
        {
            found.push((partition, row.clone(), committed.clone()));
        }
    }
    found
}

#[test]
fn every_difference_between_index_and_log_is_named() {
    let damageable = damageable();
    assert!(damageable.len() > 20, "{}", damageable.len());
    for (partition, row, committed) in damageable {
        let check = |what: &str,
                     change: &dyn Fn(&mut Vec<u8>),
                     judge: &dyn Fn(&[Value], AbortedSummary)| {
            let (_temp, copy) = with_index(&partition, |bytes| change(bytes));
            let (rows, summary) = aborted(&copy, AbortedOptions::default()).unwrap();
            assert!(summary.disagrees(), "{what} {}", partition.display());
            judge(&rows, summary);
        };
        check(
            "a row less",
            &|bytes| bytes.truncate(bytes.len() - ROW_SIZE),
            &|rows, summary| {
                assert_eq!(summary.missing, 1);
                let missing = rows
                    .iter()
                    .find(|it| it["finding"] == "txnindex-entry-missing");
                let missing = missing.unwrap();
                assert_eq!(missing["lastOffset"], row["lastOffset"]);
                assert_eq!(missing["exposedRecords"], row["records"]);
                assert!(records_in(&missing["exposedOffsets"]) >= row["records"].as_i64().unwrap());
            },
        );
        check(
            "a torn row",
            &|bytes| bytes.extend([0; 5]),
            &|rows, summary| {
                assert_eq!(
                    (summary.broken, summary.missing, summary.surplus),
                    (1, 0, 0)
                );
                assert_eq!(rows.last().unwrap()["finding"], "txnindex-entry-torn");
            },
        );
        let first_offset = row["firstOffset"].as_i64().unwrap();
        let last_offset = row["lastOffset"].as_i64().unwrap();
        check(
            "a row that starts at its end",
            &|bytes| {
                let at = bytes.len() - ROW_SIZE + 10;
                bytes[at..at + 8].copy_from_slice(&last_offset.to_be_bytes());
            },
            &|rows, summary| {
                assert_eq!(
                    (summary.starts_late, summary.missing, summary.surplus),
                    (1, 0, 0)
                );
                let late = rows
                    .iter()
                    .find(|it| it["finding"] == "txnindex-entry-starts-late");
                let late = late.unwrap();
                assert_eq!(late["logFirstOffset"], first_offset);
                assert_eq!(late["exposedRecords"], row["records"]);
            },
        );
        // The row says of a committed transaction that it was aborted.
        check(
            "a surplus row",
            &|bytes| {
                let number = |key: &str| committed[key].as_i64().unwrap();
                bytes.extend([0; 2]);
                bytes.extend(number("producerId").to_be_bytes());
                bytes.extend(number("firstOffset").to_be_bytes());
                bytes.extend(number("markerOffset").to_be_bytes());
                bytes.extend((number("markerOffset") + 1).to_be_bytes());
            },
            &|rows, summary| {
                assert_eq!(
                    (summary.surplus, summary.missing, summary.broken),
                    (1, 0, 0)
                );
                let surplus = rows
                    .iter()
                    .find(|it| it["finding"] == "txnindex-entry-surplus");
                assert_eq!(surplus.unwrap()["hiddenRecords"], committed["records"]);
            },
        );
    }
}
