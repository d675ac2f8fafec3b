//! The facts of every incident: open, ended and empty transactions, aborted ranges, findings.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use kseg::log::Io;
use kseg::log::batches::Entry;
use kseg::log::partition_walk::walk_partition;
use kseg::report::aborted::{AbortedOptions, RangeRule, aborted_statistics};
use kseg::report::partition_state::StateOptions;
use serde_json::{Value, json};

use crate::{
    ABORTED, Differences, aborted, array, dirs, in_index, in_log, is_open, name, open, pick, read,
    root, txns,
};

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

/// What Kafka makes of the log alone, where an index is at hand as well.
const ABORTED_IN_LOG: &[(&str, &str)] = &[
    ("producerId", "producerId"),
    ("logFirstOffset", "firstOffset"),
    ("lastOffset", "lastOffset"),
    ("logLastStableOffset", "lastStableOffset"),
];

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
    assert!(counts.iter().all(|count| *count > 7), "{counts:?}");
    differences.none();
}

#[test]
fn incidents_have_their_aborted_transactions() {
    let mut differences = Differences::default();
    let (mut lists, mut compared) = (0, 0);
    for incident in incidents() {
        let Some((rows, summary)) = aborted(&incident.partition, AbortedOptions::default()) else {
            continue;
        };
        let (what, facts) = (&incident.what, incident.facts());
        lists += 1;
        compared += array(&facts["abortedTransactions"]).len();
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
    assert!(lists >= 91 && compared >= 79, "{lists} {compared}");
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

/// Compares the findings of a kind: `form` makes ours look like theirs.
fn check_findings(
    kind: &str,
    at_least: usize,
    is_listed: impl Fn(&Incident) -> bool,
    form: impl Fn(&Value, &Value) -> Value,
) {
    let mut differences = Differences::default();
    let mut count = 0;
    for incident in incidents() {
        let Some((rows, _)) = txns(&incident.partition, StateOptions::default()) else {
            continue;
        };
        if !is_listed(&incident) {
            continue;
        }
        let theirs = incident.findings(kind);
        count += theirs.len();
        let ours: Vec<Value> = findings(&rows, kind)
            .into_iter()
            .map(|(row, finding)| {
                let mut ours = form(&row, &finding);
                ours["kind"] = json!(kind);
                ours["partition"] = json!(incident.key);
                ours["producerId"] = row["producerId"].clone();
                ours
            })
            .collect();
        differences.check(&incident.what, &json!(ours), &json!(theirs));
    }
    assert!(count >= at_least, "{count}");
    differences.none();
}

#[test]
fn incidents_name_open_transactions() {
    // Some fixtures have an open transaction beside what they are about, and list no finding.
    let is_listed = |incident: &Incident| {
        array(&incident.expected["findings"])
            .iter()
            .any(|it| it["kind"] == "open-transaction")
    };
    check_findings("open-transaction", 16, is_listed, |row, it| {
        json!({
            "producerEpoch": row["producerEpoch"],
            "offset": it["offset"],
            "file": it["file"],
            "position": it["position"],
            "sinceMs": row["startTimestamp"],
            "abort": {
                "topic": row["topic"],
                "partition": row["partition"],
                "startOffset": row["firstOffset"],
                "producerId": row["producerId"],
                "producerEpoch": row["producerEpoch"],
                "coordinatorEpoch": row["coordinatorEpoch"],
            },
        })
    });
}

#[test]
fn incidents_name_transactions_only_a_snapshot_knows() {
    check_findings(
        "snapshot-only-transaction",
        1,
        |_| true,
        |row, it| {
            json!({
                "producerEpoch": row["producerEpoch"],
                "currentTxnFirstOffset": it["currentTxnFirstOffset"],
                "logStartOffset": it["logStartOffset"],
                "file": it["file"],
            })
        },
    );
}

#[test]
fn incidents_name_markers_that_were_cleaned_away() {
    check_findings(
        "marker-probably-cleaned",
        2,
        |_| true,
        |_, it| {
            json!({
                "offset": it["offset"],
                "missingOffset": it["missingOffset"],
                "certainty": it["certainty"],
                "reason": it["reason"],
            })
        },
    );
}

#[test]
fn incidents_name_coordinator_epochs_that_go_back() {
    check_findings(
        "coordinator-epoch-regression",
        1,
        |_| true,
        |_, it| {
            json!({
                "offset": it["offset"],
                "coordinatorEpoch": it["coordinatorEpoch"],
                "previousCoordinatorEpoch": it["previousCoordinatorEpoch"],
            })
        },
    );
}

#[test]
fn incidents_show_versions_and_commands() {
    let mut differences = Differences::default();
    let (mut commands, mut versions) = (0, 0);
    for incident in incidents() {
        let Some((rows, _)) = txns(&incident.partition, StateOptions::default()) else {
            continue;
        };
        let what = &incident.what;
        for row in rows.iter().filter(|row| is_open(row)) {
            let begin = format!(
                "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic {} \
                 --partition {}",
                row["topic"].as_str().unwrap(),
                row["partition"],
            );
            let by_offset = format!("{begin} --start-offset {}", row["firstOffset"]);
            differences.check(what, &row["abortCommand"], &json!(by_offset));
            let by_producer = format!(
                "{begin} --producer-id {} --producer-epoch {} --coordinator-epoch {}",
                row["producerId"],
                row["producerEpoch"],
                row["coordinatorEpoch"].as_i64().unwrap_or(0),
            );
            let ours = &row["abortCommandBeforeKafka3"];
            differences.check(what, ours, &json!(by_producer));
            commands += 1;
        }
        if let Some(seen) = incident.expected["transactionVersionSeen"].as_u64() {
            let ended = rows.iter().filter(|row| !is_open(row));
            let looks: BTreeSet<u64> = ended
                .map(|row| row["transactionVersion"].as_u64().unwrap())
                .collect();
            differences.check(what, &json!(looks), &json!([seen]));
            versions += 1;
        }
    }
    assert!(commands > 0 && versions > 0);
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

#[test]
fn incidents_have_their_longest_invisible_run() {
    let mut compared = 0;
    for incident in incidents() {
        let expected = &incident.expected["longestInvisibleRun"];
        if expected.is_null() {
            continue;
        }
        let (dir, offsets) = open(&incident.partition);
        let state = StateOptions::default();
        let ours = aborted_statistics(&dir, offsets, state).unwrap().unwrap();
        let ours = serde_json::to_value(ours).unwrap();
        assert_eq!(ours["longestInvisibleRun"], *expected, "{}", incident.what);
        compared += 1;
    }
    assert!(compared > 0);
}

/// The bytes of the batches that Kafka's list of aborted transactions covers, by segment.
#[test]
fn incidents_have_the_aborted_part_of_each_segment() {
    let (mut segments, mut with_aborted) = (0, 0);
    for incident in incidents() {
        let facts = incident.facts();
        let theirs = array(&facts["abortedTransactions"]);
        let (dir, offsets) = open(&incident.partition);
        let state = StateOptions::default();
        let Some(ours) = aborted_statistics(&dir, offsets, state).unwrap() else {
            continue;
        };
        if facts["abortedTransactions"].is_null() {
            continue;
        }
        let mut bytes: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
        walk_partition(&dir, Io::Mmap, 0, |at, entry| {
            let (all, aborted) = bytes.entry(at.base_offset).or_default();
            if let Entry::Batch(batch) = entry {
                let header = batch.header;
                *all += batch.size_in_bytes();
                let is_in = |txn: &Value| {
                    txn["producerId"] == header.producer_id()
                        && txn["firstOffset"].as_i64().unwrap() <= header.base_offset()
                        && header.base_offset() <= txn["lastOffset"].as_i64().unwrap()
                };
                if !header.attributes().is_control() && theirs.iter().any(is_in) {
                    *aborted += batch.size_in_bytes();
                }
            }
            Ok::<_, kseg::log::Error>(ControlFlow::Continue(()))
        })
        .unwrap();
        let shares = ours.segments.iter();
        let shares: BTreeMap<i64, (u64, u64)> = shares
            .map(|it| (it.base_offset, (it.batch_bytes, it.aborted_bytes)))
            .collect();
        segments += shares.len();
        with_aborted += shares.values().filter(|(_, aborted)| *aborted > 0).count();
        bytes.retain(|base, _| shares.contains_key(base));
        assert_eq!(shares, bytes, "{}", incident.what);
        for segment in &ours.segments {
            assert_eq!(segment.aborted_share.is_none(), segment.batch_bytes == 0);
        }
    }
    assert!(
        segments >= 60 && with_aborted >= 15,
        "{segments} {with_aborted}"
    );
}
