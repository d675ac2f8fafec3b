//! `gaps` against what Kafka and the makers of the fixtures say is missing, doubled or lowered.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use common::partitions::{
    broker_fixtures, cases, folders_in, gap_rows as gaps, json, open, partitions_below, root,
};
use kseg::log::batches::Entry;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::gaps::{GapClass, GapOptions, find_gaps};
use serde_json::{Value, json};

fn of_kind<'r>(rows: &'r [Value], kind: &str) -> Vec<&'r Value> {
    rows.iter().filter(|row| row["kind"] == kind).collect()
}

fn is_alarm(row: &Value) -> bool {
    row["isLoss"] == true || row["kind"] == "repeated"
}

/// Partitions of an incident with their expected facts.
fn incident_partitions() -> Vec<(PathBuf, Value, Value)> {
    let mut partitions = Vec::new();
    for incident in folders_in(&root().join("fixtures/incidents")) {
        let expected = json(&incident.join("expected.json"));
        let of_partition = expected["partitions"].as_object().cloned();
        for (name, facts) in of_partition.unwrap_or_default() {
            let path = incident.join("data").join(&name);
            partitions.push((path, facts, expected.clone()));
        }
    }
    partitions
}

#[test]
fn incident_gaps_have_their_classes() {
    let mut compared = 0;
    for (path, _, expected) in incident_partitions() {
        let Some(wanted) = expected["gaps"].as_array() else {
            continue;
        };
        let wanted: Vec<Value> = wanted
            .iter()
            .map(|gap| {
                // What lies below the log start was deleted on purpose: see docs, isLoss.
                let is_loss = gap["loss"] == true && gap["class"] != "before-log-start";
                json!([
                    gap["from"],
                    gap["to"],
                    gap["class"],
                    is_loss,
                    gap["records"]
                ])
            })
            .collect();
        let rows = gaps(&path);
        let got: Vec<Value> = of_kind(&rows, "offsetGap")
            .iter()
            .map(|row| {
                json!([
                    row["firstOffset"],
                    row["lastOffset"],
                    row["class"],
                    row["isLoss"],
                    row["records"]
                ])
            })
            .collect();
        assert_eq!(got, wanted, "{}", path.display());
        compared += wanted.len();
    }
    assert!(compared >= 8, "{compared}");
}

#[test]
fn incident_sequences_that_were_never_stored_are_named() {
    let mut compared = 0;
    for (path, _, expected) in incident_partitions() {
        let never_stored = expected["neverStored"].as_array().into_iter().flatten();
        let wanted: Vec<Value> = never_stored
            .map(|it| json!([it["producerId"], it["producerEpoch"], it["firstSequence"]]))
            .collect();
        let rows = gaps(&path);
        let got: Vec<Value> = rows
            .iter()
            .filter(|row| row["class"] == "epoch-raised")
            .map(|row| {
                assert_eq!(
                    (&row["kind"], &row["isLoss"]),
                    (&json!("missing"), &json!(false))
                );
                assert_eq!(row["lastSequence"], Value::Null);
                json!([
                    row["producerId"],
                    row["producerEpoch"],
                    row["firstSequence"]
                ])
            })
            .collect();
        if !wanted.is_empty() {
            assert_eq!(got, wanted, "{}", path.display());
        }
        compared += wanted.len();
    }
    assert!(compared >= 1);
}

/// 0 follows the highest one.
const SEQUENCES: i64 = 1 << 31;

/// Wherever a client is said to have gone on under a new epoch, the last sequence before is the
/// highest one of that epoch in the log, counted on where sequences wrap around. It is not always
/// that of the last batch: a leader that forgot the producer lets it begin at 0 again.
#[test]
fn nothing_is_stored_from_where_a_client_raised_its_epoch() {
    let mut compared = 0;
    let all = partitions_below(&root().join("fixtures"));
    for path in all
        .into_iter()
        .chain(cases().iter().flat_map(|case| partitions_below(case)))
    {
        let rows = gaps(&path);
        let raised: Vec<&Value> = rows
            .iter()
            .filter(|it| it["class"] == "epoch-raised")
            .collect();
        if raised.is_empty() {
            continue;
        }
        let (dir, _) = open(&path);
        for row in raised {
            let number = |key: &str| row[key].as_i64().unwrap();
            // Epoch, highest and last sequence, counted on: what is nearer ahead is ahead.
            let mut stored: Option<(i16, i64, i64)> = None;
            walk_partition(&dir, Io::Mmap, 0, |_, entry| {
                let Entry::Batch(batch) = entry else {
                    return Ok::<_, Error>(ControlFlow::Continue(()));
                };
                let header = batch.header;
                if header.base_offset() >= number("firstOffset") {
                    return Ok(ControlFlow::Break(()));
                }
                if header.producer_id() == number("producerId") && header.base_sequence() >= 0 {
                    let (epoch, base) = (header.producer_epoch(), header.base_sequence());
                    let before = stored.filter(|it| it.0 == epoch);
                    let expected = before.map_or(i64::from(base), |it| it.2 + 1);
                    let ahead = (i64::from(base) - expected).rem_euclid(SEQUENCES);
                    let is_back = ahead > SEQUENCES / 2;
                    let start = expected + ahead - if is_back { SEQUENCES } else { 0 };
                    let last = start + i64::from(header.last_offset_delta());
                    let highest = before.map_or(last, |it| it.1.max(last));
                    stored = Some((epoch, highest, last));
                }
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
            let (epoch, highest, _) = stored.unwrap();
            let next = (highest + 1).rem_euclid(SEQUENCES);
            assert_eq!(number("firstSequence"), next, "{row}");
            assert_eq!(number("producerEpoch"), i64::from(epoch), "{row}");
            assert_eq!(number("previousEpoch"), i64::from(epoch), "{row}");
            assert!(i64::from(epoch) < number("foundEpoch"), "{row}");
            compared += 1;
        }
    }
    assert!(compared >= 10, "{compared}");
}

/// Classes of offsets that no batch in the log covers.
fn is_hole(row: &Value) -> bool {
    row["kind"] == "offsetGap"
        && ["compacted-between-batches", "segment-missing"]
            .iter()
            .any(|class| row["class"] == *class)
}

#[test]
fn incident_holes_are_told() {
    let mut compared = 0;
    for (path, facts, _) in incident_partitions() {
        let Some(wanted) = facts["holes"].as_array() else {
            continue;
        };
        let start = facts["logStartOffset"].as_i64().unwrap();
        let wanted: Vec<Value> = wanted
            .iter()
            .filter(|hole| hole[1].as_i64().unwrap() >= start)
            .cloned()
            .collect();
        let got: Vec<Value> = gaps(&path)
            .iter()
            .filter(|row| is_hole(row))
            .map(|row| json!([row["firstOffset"], row["lastOffset"]]))
            .collect();
        assert_eq!(got, wanted, "{}", path.display());
        compared += 1;
    }
    assert!(compared >= 50, "{compared}");
}

#[test]
fn incident_markers_and_empty_batches_are_counted() {
    for (path, facts, _) in incident_partitions() {
        let counts = &facts["counts"];
        if counts.is_null() || facts["logStartOffset"] != 0 {
            continue;
        }
        let rows = gaps(&path);
        let number = |class: &str| rows.iter().filter(|row| row["class"] == class).count();
        let of = |key: &str| usize::try_from(counts[key].as_u64().unwrap()).unwrap();
        let markers = of("commitMarkers") + of("abortMarkers");
        assert_eq!(number("control-marker"), markers, "{}", path.display());
        assert_eq!(
            number("empty-batch"),
            of("emptyBatches"),
            "{}",
            path.display()
        );
    }
}

/// The findings of an incident of one kind, about one partition.
fn findings<'e>(expected: &'e Value, kind: &str, path: &Path) -> Vec<&'e Value> {
    let of_kind = expected["findings"].as_array().unwrap().iter();
    of_kind
        .filter(|finding| {
            finding["kind"] == kind && path.ends_with(finding["partition"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn incident_duplicates_are_found_and_no_others() {
    let mut compared = 0;
    for (path, _, expected) in incident_partitions() {
        let wanted: Vec<Value> = findings(&expected, "duplicate-sequence", &path)
            .iter()
            .map(|it| {
                json!([
                    it["producerId"],
                    it["producerEpoch"],
                    it["baseSequence"],
                    it["firstOffset"],
                    it["duplicateOffset"],
                    it["batchesBack"],
                    it["insideWindow"]
                ])
            })
            .collect();
        let rows = gaps(&path);
        let got: Vec<Value> = of_kind(&rows, "repeated")
            .iter()
            .filter(|row| row["class"] != "offsets-not-increasing")
            .map(|row| {
                assert_eq!(row["class"], "duplicate-sequence");
                json!([
                    row["producerId"],
                    row["producerEpoch"],
                    row["firstSequence"],
                    row["duplicateOf"]["firstOffset"],
                    row["firstOffset"],
                    row["batchesApart"],
                    row["insideWindow"]
                ])
            })
            .collect();
        assert_eq!(got, wanted, "{}", path.display());
        compared += wanted.len();
    }
    assert!(compared >= 2, "{compared}");
}

#[test]
fn incident_regressions_are_found_and_no_others() {
    let (mut epochs, mut offsets) = (0, 0);
    for (path, _, expected) in incident_partitions() {
        let rows = gaps(&path);
        let wanted: Vec<Value> = findings(&expected, "coordinator-epoch-regression", &path)
            .iter()
            .map(|it| {
                json!([
                    it["producerId"],
                    it["offset"],
                    it["coordinatorEpoch"],
                    it["previousCoordinatorEpoch"]
                ])
            })
            .collect();
        let got: Vec<Value> = of_kind(&rows, "epochRegression")
            .iter()
            .filter(|row| row["class"] == "coordinator-epoch-regression")
            .map(|row| {
                json!([
                    row["producerId"],
                    row["firstOffset"],
                    row["foundEpoch"],
                    row["previousEpoch"]
                ])
            })
            .collect();
        assert_eq!(got, wanted, "{}", path.display());
        epochs += wanted.len();

        let wanted: Vec<Value> = findings(&expected, "offsets-not-increasing", &path)
            .iter()
            .map(|it| {
                json!([
                    it["file"],
                    it["position"],
                    it["overlap"][0],
                    it["overlap"][1],
                    it["previousLastOffset"],
                    it["previousPosition"],
                    it["content"]
                ])
            })
            .collect();
        let got: Vec<Value> = rows
            .iter()
            .filter(|row| row["class"] == "offsets-not-increasing")
            .map(|row| {
                json!([
                    row["file"],
                    row["position"],
                    row["firstOffset"],
                    row["lastOffset"],
                    row["previousLastOffset"],
                    row["previousPosition"],
                    row["content"]
                ])
            })
            .collect();
        assert_eq!(got, wanted, "{}", path.display());
        offsets += wanted.len();
    }
    assert!(epochs >= 1 && offsets >= 1, "{epochs} {offsets}");
}

#[test]
fn torn_tails_are_told_with_their_place() {
    for (path, _, expected) in incident_partitions() {
        let rows = gaps(&path);
        let got: Vec<Value> = rows
            .iter()
            .filter(|row| row["class"] == "torn-tail")
            .map(|row| json!([row["file"], row["position"]]))
            .collect();
        let wanted: Vec<Value> = findings(&expected, "torn-tail", &path)
            .iter()
            .map(|it| json!([it["file"], it["position"]]))
            .collect();
        if expected["gaps"].is_null() {
            assert_eq!(got, wanted, "{}", path.display());
        }
    }
}

#[test]
fn coordinator_topics_have_no_sequence_findings() {
    for (path, _, expected) in incident_partitions() {
        if let Some(wanted) = expected["sequenceFindingsInInternalTopics"].as_u64()
            && path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("__")
        {
            let rows = gaps(&path);
            let got = rows.iter().filter(|row| row["kind"] != "offsetGap").count();
            assert_eq!(got as u64, wanted, "{}", path.display());
        }
    }
}

/// What an incident is about tells whether `gaps` may raise an alarm for it.
#[test]
fn only_incidents_that_lost_or_doubled_records_raise_an_alarm() {
    for (path, _, expected) in incident_partitions() {
        let rows = gaps(&path);
        let alarms: Vec<&Value> = rows.iter().filter(|row| is_alarm(row)).collect();
        let is_expected = !expected["gaps"].is_null()
            || ["duplicate-sequence", "offsets-not-increasing", "torn-tail"]
                .iter()
                .any(|kind| !findings(&expected, kind, &path).is_empty());
        if is_expected {
            assert!(!alarms.is_empty(), "{}", path.display());
        } else {
            assert!(alarms.is_empty(), "{}: {}", path.display(), json!(alarms));
        }
    }
}

/// The answers of the live broker say that a fixture is whole: every offset is a record, a marker
/// or explained. Crafted requests (`verdicts.json`) and damage are not.
fn is_healthy(fixture: &Path) -> bool {
    let expected = fixture.join("expected");
    !fixture.join("undamaged").exists()
        && (!expected.join("verdicts.json").exists()
            || !json(&fixture.join("about.json"))["title"]
                .as_str()
                .unwrap()
                .contains("roducer"))
        && !expected.join("verdicts.json").exists()
}

#[test]
fn healthy_fixtures_have_no_loss_and_no_duplicate() {
    let mut partitions = 0;
    for fixture in broker_fixtures().iter().filter(|it| is_healthy(it)) {
        for path in partitions_below(fixture) {
            let alarms: Vec<Value> = gaps(&path).into_iter().filter(is_alarm).collect();
            assert!(alarms.is_empty(), "{}: {}", path.display(), json!(alarms));
            partitions += 1;
        }
    }
    assert!(partitions >= 60, "{partitions}");
}

/// Every offset that a read_uncommitted consumer did not get is explained, and none that it got.
#[test]
fn offsets_without_record_are_explained() {
    let (mut partitions, mut offsets) = (0, 0);
    for fixture in broker_fixtures() {
        if !is_healthy(&fixture) {
            continue;
        }
        for path in partitions_below(&fixture.join("data")) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let expected = json(&fixture.join("expected").join(format!("{name}.json")));
            let Some(records) = expected["readUncommittedRecords"].as_array() else {
                continue;
            };
            let got: BTreeSet<i64> = records
                .iter()
                .map(|record| record["offset"].as_i64().unwrap())
                .collect();
            let start = expected["offsets"]["earliest"].as_i64().unwrap();
            let end = expected["offsets"]["latestReadUncommitted"]
                .as_i64()
                .unwrap();
            let rows = gaps(&path);
            let mut gone = BTreeSet::new();
            let mut partly = 0;
            for row in of_kind(&rows, "offsetGap") {
                let range =
                    row["firstOffset"].as_i64().unwrap()..=row["lastOffset"].as_i64().unwrap();
                if row["class"] == "compacted-inside-batch" {
                    partly += row["records"].as_i64().unwrap();
                    gone.extend(range.filter(|offset| !got.contains(offset)));
                } else if row["class"] != "aborted" {
                    gone.extend(range);
                }
            }
            let missing: BTreeSet<i64> = (start..end).filter(|it| !got.contains(it)).collect();
            let gone: BTreeSet<i64> = gone.into_iter().filter(|it| *it >= start).collect();
            assert_eq!(gone, missing, "{} ({partly} inside)", path.display());
            partitions += 1;
            offsets += missing.len();
        }
    }
    assert!(partitions >= 30, "{partitions}");
    eprintln!("{partitions} partitions, {offsets} offsets without record");
}

/// Requests that a broker took because it had forgotten the producer: the log holds exactly the
/// gaps, repeats and lowered epochs that they make.
#[test]
fn forgotten_producers_leave_gaps_repeats_and_lowered_epochs() {
    let fixture = root().join("fixtures/s12-expired-producers");
    let verdicts = json(&fixture.join("expected/verdicts.json"));
    let mut wanted = BTreeSet::new();
    // Per producer: epoch, and the sequences stored in it.
    let mut known: std::collections::BTreeMap<i64, (i64, BTreeSet<i64>)> = Default::default();
    for it in verdicts.as_array().unwrap() {
        if it["error"] != "NONE" {
            continue;
        }
        let (id, epoch) = (
            it["producerId"].as_i64().unwrap(),
            it["producerEpoch"].as_i64().unwrap(),
        );
        let base = it["baseSequence"].as_i64().unwrap();
        let last = base + it["records"].as_i64().unwrap() - 1;
        let offset = it["baseOffset"].as_i64().unwrap();
        let (known_epoch, stored) = known.entry(id).or_insert((epoch, BTreeSet::new()));
        if epoch < *known_epoch {
            wanted.insert(json!(["epochRegression", id, epoch, base, last, offset]).to_string());
            (*known_epoch, *stored) = (epoch, BTreeSet::new());
        }
        let next = stored.last().map_or(0, |last| last + 1);
        if stored.contains(&base) {
            wanted.insert(json!(["repeated", id, epoch, base, last, offset]).to_string());
        } else if base > next {
            wanted.insert(json!(["missing", id, epoch, next, base - 1, offset]).to_string());
        }
        stored.extend(base..=last);
    }
    let rows = gaps(&fixture.join("data/verdicts-0"));
    let got: BTreeSet<String> = rows
        .iter()
        .filter(|row| row["kind"] != "offsetGap")
        .map(|row| {
            json!([
                row["kind"],
                row["producerId"],
                row["producerEpoch"],
                row["firstSequence"],
                row["lastSequence"],
                row["firstOffset"]
            ])
            .to_string()
        })
        .collect();
    assert_eq!(got, wanted);
    assert_eq!(wanted.len(), 4);
}

/// Whether the scenario did something to the log or the producers that leaves a leader without
/// what it needs to refuse a gap or a repeat, or took batches as a follower.
fn may_hold_anything(scenario: &Value, result: &Value) -> bool {
    let expiration = scenario["config"]["producer.id.expiration.ms"]
        .as_i64()
        .unwrap_or(86_400_000);
    let steps = scenario["steps"].as_array().unwrap().iter();
    steps
        .zip(result["steps"].as_array().unwrap())
        .any(|(step, result)| {
            let (name, fields) = step.as_object().unwrap().iter().next().unwrap();
            match name.as_str() {
                "appendAsFollower"
                | "truncateTo"
                | "truncateFullyAndStartAt"
                | "reopen"
                | "removeExpiredProducers" => true,
                "advanceClock" => fields["ms"].as_i64().unwrap() >= expiration,
                // The group coordinator writes sequence 0 always; here into a client's topic.
                "append" if fields["origin"] == "coordinator" => true,
                // A producer of which nothing is known may start anywhere.
                "append" => fields["baseSequence"] != 0 && result["verdict"] == "appended",
                _ => false,
            }
        })
}

#[test]
fn cases_of_a_leader_that_kept_its_state_have_no_loss_and_no_duplicate() {
    let mut compared = 0;
    for case in cases() {
        let scenario = json(&case.join("scenario.json"));
        let result = json(&case.join("result.json"));
        for path in partitions_below(&case) {
            let rows = gaps(&path);
            let losses: Vec<&Value> = rows
                .iter()
                .filter(|row| is_alarm(row) && row["class"] != "never-stored")
                // Some scenarios do send the same bytes again after a new epoch.
                .filter(|row| row["class"] != "stored-again-under-new-epoch")
                .collect();
            if may_hold_anything(&scenario, &result) && !starts_known(&scenario, &result) {
                continue;
            }
            assert!(losses.is_empty(), "{}: {}", case.display(), json!(losses));
            compared += 1;
        }
    }
    eprintln!("{compared} cases");
    assert!(compared >= 40, "{compared}");
}

/// As [`may_hold_anything`], but with producers that start anywhere: then only what was never
/// stored may be told.
fn starts_known(scenario: &Value, result: &Value) -> bool {
    let mut scenario = scenario.clone();
    let steps = scenario["steps"].as_array_mut().unwrap();
    for step in steps.iter_mut() {
        if let Some(append) = step.get_mut("append") {
            append["baseSequence"] = json!(0);
        }
    }
    !may_hold_anything(&scenario, result)
}

/// A broker writes its log start offsets once a minute: after retention the checkpoint lies below
/// the first segment until then, and after a kill for good.
#[test]
fn a_log_start_checkpoint_below_the_first_segment_is_no_loss() {
    let path = root().join("fixtures/s06-retention/data/trimmed-0");
    let (dir, mut offsets) = open(&path);
    let first = dir.segments[0].base_offset;
    assert!(first > 0, "{first}");
    offsets.log_start_offset = Some(first / 2);
    let mut classes = Vec::new();
    find_gaps(&dir, offsets, &GapOptions::default(), |finding| {
        assert!(!finding.is_loss(), "{finding:?}");
        classes.push(finding.class);
        Ok::<_, Error>(())
    })
    .unwrap();
    assert!(classes.contains(&GapClass::BeforeLogStart));
}
