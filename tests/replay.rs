//! `replay` against the answers of brokers: crafted requests, incidents, cases.

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
use std::fs;
use std::path::{Path, PathBuf};

use common::partitions::{
    base64, broker_fixtures, cases, folders_in, json, open, partitions_below, root,
};
use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch::RecordBatchHeader;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::filter::Filter;
use kseg::report::replay::{
    Append, AppendFrom, EndTxnMarker, Questions, ReplayCounts, ReplayOptions, Request,
    Verification, ask, parse_requests, replay_log,
};
use kseg::state::{Expiration, TransactionVersion};
use serde_json::{Value, json};

fn options(at_offset: Option<i64>) -> ReplayOptions {
    ReplayOptions {
        io: Io::Mmap,
        filter: Filter::default(),
        from_scratch: false,
        at_offset,
        transaction_version: TransactionVersion::V1,
        producer_id_expiration_ms: 86_400_000,
    }
}

/// Puts requests to a partition; the rows as JSON.
fn put(
    (dir, checkpoints): &(PartitionDir, CheckpointedOffsets),
    at_offset: Option<i64>,
    requests: &[Request],
    version: TransactionVersion,
    expiration: Option<Expiration>,
) -> Vec<Value> {
    let questions = Questions {
        requests,
        transaction_version: version,
        expiration,
    };
    let mut rows = Vec::new();
    ask::<Error>(dir, *checkpoints, &options(at_offset), &questions, |row| {
        rows.push(serde_json::to_value(row).unwrap());
        Ok(())
    })
    .unwrap();
    rows
}

fn replayed(path: &Path, options: &ReplayOptions) -> (Vec<Value>, ReplayCounts) {
    let (dir, checkpoints) = open(path);
    let mut rows = Vec::new();
    let counts = replay_log::<Error>(&dir, checkpoints, options, |row| {
        rows.push(serde_json::to_value(row).unwrap());
        Ok(())
    })
    .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (rows, counts)
}

/// `NONE`, or the error's name, and the offset the producer is told.
fn answer(view: &Value, base_offset: &Value) -> (String, i64) {
    match view["error"]["name"].as_str() {
        Some(name) => (name.to_owned(), -1),
        None => {
            let offset = match view["duplicateOf"]["firstOffset"].as_i64() {
                Some(duplicate) => duplicate,
                None => base_offset.as_i64().unwrap(),
            };
            ("NONE".to_owned(), offset)
        }
    }
}

// ---- crafted requests ---------------------------------------------------------------------

/// One request of `verdicts.json`.
struct Crafted {
    request: Request,
    error: String,
    base_offset: i64,
    last_offset: i64,
    timestamp: i64,
}

/// What the broker refuses by looking at the batch alone: a wrong checksum, or more than one
/// batch. `None` for those.
fn crafted(it: &Value, verification: Verification) -> Option<Crafted> {
    let bytes = base64(it["batch"].as_str()?);
    let header = RecordBatchHeader::ref_from(&bytes).unwrap();
    let records = bytes.get(61..).unwrap();
    if header.size_in_bytes() != bytes.len() as u64 || header.compute_crc(records) != header.crc() {
        return None;
    }
    let base_offset = it["baseOffset"].as_i64().unwrap();
    Some(Crafted {
        request: Request::Append(Append {
            producer_id: header.producer_id(),
            producer_epoch: header.producer_epoch(),
            base_sequence: header.base_sequence(),
            count: header.records_count(),
            is_transactional: header.attributes().is_transactional(),
            max_timestamp: header.max_timestamp(),
            origin: AppendFrom::Client,
            verification,
            transaction_version: None,
        }),
        error: it["error"].as_str().unwrap().to_owned(),
        base_offset,
        last_offset: base_offset + i64::from(header.last_offset_delta()),
        timestamp: header.max_timestamp(),
    })
}

/// Requests between two events that change what the broker knows: a pause in which producers
/// expire, a restart, other producers at work.
struct Session {
    is_after_restart: bool,
    requests: Vec<Crafted>,
}

fn sessions(fixture: &Path) -> Vec<Session> {
    // Brokers before 3.6 do not verify; later ones ask a coordinator that knows nothing of a
    // crafted transactional batch.
    let version = json(&fixture.join("about.json"))["kafkaVersion"].clone();
    let version: Vec<u32> = version
        .as_str()
        .unwrap()
        .split('.')
        .map(|n| n.parse().unwrap())
        .collect();
    let verification = if version.as_slice() < [3, 6].as_slice() {
        Verification::Disabled
    } else {
        Verification::Failed
    };
    let mut sessions = vec![Session {
        is_after_restart: false,
        requests: Vec::new(),
    }];
    for it in json(&fixture.join("expected/verdicts.json"))
        .as_array()
        .unwrap()
    {
        if it["batch"].is_null() {
            let event = it["event"].as_str().unwrap();
            let is_after_restart = event.contains("restart") || event.contains("pass");
            sessions.push(Session {
                is_after_restart,
                requests: Vec::new(),
            });
        } else if let Some(crafted) = crafted(it, verification) {
            sessions.last_mut().unwrap().requests.push(crafted);
        }
    }
    sessions.retain(|session| !session.requests.is_empty());
    sessions
}

fn expiration_ms(fixture: &Path) -> i64 {
    let about = json(&fixture.join("about.json"));
    about["brokerConfig"]["producer.id.expiration.ms"]
        .as_str()
        .map_or(86_400_000, |ms| ms.parse().unwrap())
}

/// Fixtures with crafted requests, and the partition they went to.
fn crafted_fixtures() -> Vec<(PathBuf, PathBuf)> {
    broker_fixtures()
        .into_iter()
        .filter(|fixture| fixture.join("expected/verdicts.json").exists())
        .map(|fixture| (fixture.clone(), fixture.join("data/verdicts-0")))
        .collect()
}

/// All requests of a session are put to the log as it was when the session began.
#[test]
fn crafted_requests_get_the_brokers_answers_one_after_another() {
    let mut compared = 0;
    for (fixture, path) in crafted_fixtures() {
        let partition = open(&path);
        let mut end = 0;
        for session in sessions(&fixture) {
            let first_new = session.requests.iter().map(|it| it.base_offset);
            let at_offset = first_new
                .filter(|&offset| offset >= end)
                .min()
                .unwrap_or(end);
            let requests: Vec<Request> = session
                .requests
                .iter()
                .map(|it| it.request.clone())
                .collect();
            let now_ms = session
                .requests
                .iter()
                .map(|it| it.timestamp)
                .max()
                .unwrap();
            let expiration = Expiration {
                now_ms,
                producer_id_expiration_ms: expiration_ms(&fixture),
            };
            let rows = put(
                &partition,
                Some(at_offset),
                &requests,
                TransactionVersion::V1,
                Some(expiration),
            );
            let mut next = at_offset;
            for (crafted, row) in session.requests.iter().zip(&rows) {
                let view = if session.is_after_restart {
                    "restarted"
                } else {
                    "running"
                };
                let got = answer(&row["views"][view], &json!(next));
                let wanted = (crafted.error.clone(), crafted.base_offset);
                assert_eq!(got, wanted, "{} {row}", fixture.display());
                if crafted.base_offset >= next {
                    next = crafted.last_offset + 1;
                }
                compared += 1;
            }
            end = next;
        }
    }
    eprintln!("{compared} crafted requests");
    assert!(compared >= 50, "{compared}");
}

/// Each request alone, put to the log up to that moment. What was forgotten in between is not in
/// the log, so only the first session of each fixture can be asked so.
#[test]
fn crafted_requests_get_the_brokers_answers_from_the_log_up_to_them() {
    let mut compared = 0;
    for (fixture, path) in crafted_fixtures() {
        let partition = open(&path);
        let mut end = 0;
        for session in sessions(&fixture)
            .iter()
            .take_while(|it| !it.is_after_restart)
        {
            for crafted in &session.requests {
                let at_offset = end.max(crafted.base_offset);
                let requests = [crafted.request.clone()];
                let rows = put(
                    &partition,
                    Some(at_offset),
                    &requests,
                    TransactionVersion::V1,
                    None,
                );
                let got = answer(&rows[0], &rows[0]["baseOffset"]);
                assert_eq!(
                    got,
                    (crafted.error.clone(), crafted.base_offset),
                    "{}",
                    rows[0]
                );
                end = end.max(crafted.last_offset + 1);
                compared += 1;
            }
        }
    }
    assert!(compared >= 35, "{compared}");
}

// ---- incidents ----------------------------------------------------------------------------

/// An incident, the only partition of it, and what is expected.
fn incidents() -> Vec<(PathBuf, Value)> {
    folders_in(&root().join("fixtures/incidents"))
        .into_iter()
        .map(|incident| {
            let expected = json(&incident.join("expected.json"));
            (incident.join("data"), expected)
        })
        .collect()
}

fn only_partition(data: &Path, expected: &Value) -> (PartitionDir, CheckpointedOffsets) {
    let names: Vec<&String> = expected["partitions"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 1, "{}", data.display());
    open(&data.join(names[0]))
}

fn question(it: &Value, is_transactional: bool) -> Request {
    Request::Append(Append {
        producer_id: it["producerId"].as_i64().unwrap(),
        producer_epoch: i16::try_from(it["producerEpoch"].as_i64().unwrap()).unwrap(),
        base_sequence: i32::try_from(it["baseSequence"].as_i64().unwrap()).unwrap(),
        count: it["recordsCount"]
            .as_i64()
            .map_or(1, |n| i32::try_from(n).unwrap()),
        is_transactional,
        max_timestamp: -1,
        origin: AppendFrom::Client,
        verification: Verification::Verified,
        transaction_version: None,
    })
}

fn expiration(expected: &Value) -> Option<Expiration> {
    Some(Expiration {
        now_ms: expected["asOfMs"].as_i64()?,
        producer_id_expiration_ms: expected["producerIdExpirationMs"].as_i64()?,
    })
}

/// `appended` or `duplicate`, or the error's name, and the offset the producer is told.
fn verdict(view: &Value, next_offset: &Value) -> (Value, Value) {
    match view["error"]["name"].as_str() {
        Some(name) => (json!(name), Value::Null),
        None if view["verdict"] == "duplicate" => (
            json!("duplicate"),
            view["duplicateOf"]["firstOffset"].clone(),
        ),
        None => (json!("appended"), next_offset.clone()),
    }
}

/// Where the log ended before the first batch in an epoch above `epoch`.
fn before_newer_epoch(dir: &PartitionDir, id: &Value, epoch: &Value) -> i64 {
    let (rows, _) = replayed(&dir.path, &options(None));
    let newer = rows
        .iter()
        .find(|row| row["producerId"] == *id && row["producerEpoch"].as_i64() > epoch.as_i64());
    newer.unwrap()["baseOffset"].as_i64().unwrap()
}

#[test]
fn incident_questions_get_the_brokers_verdicts() {
    let mut compared = 0;
    for (data, expected) in incidents() {
        for key in ["questions", "questionsBeforeTheNewEpoch"] {
            for it in expected[key].as_array().into_iter().flatten() {
                let partition = only_partition(&data, &expected);
                let at_offset = (key == "questionsBeforeTheNewEpoch").then(|| {
                    before_newer_epoch(&partition.0, &it["producerId"], &it["producerEpoch"])
                });
                let end = at_offset.map_or_else(
                    || {
                        expected["partitions"]
                            .as_object()
                            .unwrap()
                            .values()
                            .next()
                            .unwrap()["logEndOffset"]
                            .clone()
                    },
                    |at| json!(at),
                );
                let rows = put(
                    &partition,
                    at_offset,
                    &[question(it, false)],
                    TransactionVersion::V1,
                    expiration(&expected),
                );
                let wanted = (it["verdictReplayed"].clone(), it["offsetReplayed"].clone());
                assert_eq!(
                    verdict(&rows[0], &end),
                    wanted,
                    "{} {it} {}",
                    data.display(),
                    rows[0]
                );
                assert_eq!(rows[0]["baseOffset"], wanted.1);
                let wanted = (
                    it["verdictFromSnapshot"].clone(),
                    it["offsetFromSnapshot"].clone(),
                );
                assert_eq!(
                    verdict(&rows[0]["views"]["restarted"], &end),
                    wanted,
                    "{} {it}",
                    data.display()
                );
                assert_eq!(rows[0]["views"]["stateLost"]["verdict"], "appended");
                compared += 1;
            }
        }
        for it in expected["questionsTransactionVersion2"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let partition = only_partition(&data, &expected);
            let rows = put(
                &partition,
                None,
                &[question(it, true)],
                TransactionVersion::V2,
                expiration(&expected),
            );
            let got = verdict(&rows[0]["views"]["restarted"], &Value::Null).0;
            assert_eq!(got, it["verdict"], "{}", data.display());
            compared += 1;
        }
    }
    eprintln!("{compared} questions");
    assert!(compared >= 23, "{compared}");
}

#[test]
fn incident_next_and_never_stored_sequences_are_told() {
    let mut compared = 0;
    for (data, expected) in incidents() {
        for it in expected["neverStored"].as_array().into_iter().flatten() {
            let partition = only_partition(&data, &expected);
            let mut asked = it.clone();
            asked["baseSequence"] = it["firstSequence"].clone();
            let rows = put(
                &partition,
                None,
                &[question(&asked, false)],
                TransactionVersion::V1,
                None,
            );
            assert_eq!(rows[0]["storedAt"], Value::Null);
            // The one before it was stored.
            asked["baseSequence"] = json!(it["firstSequence"].as_i64().unwrap() - 1);
            let rows = put(
                &partition,
                None,
                &[question(&asked, false)],
                TransactionVersion::V1,
                None,
            );
            assert!(rows[0]["storedAt"].is_object(), "{}", rows[0]);
            compared += 1;
        }
        for it in expected["nextSequence"].as_array().into_iter().flatten() {
            let partition = only_partition(&data, &expected);
            let mut asked = it.clone();
            asked["baseSequence"] = it["nextSequence"].clone();
            let rows = put(
                &partition,
                None,
                &[question(&asked, false)],
                TransactionVersion::V1,
                None,
            );
            assert_eq!(rows[0]["nextSequence"], it["nextSequence"]);
            assert_eq!(rows[0]["knownEpoch"], it["producerEpoch"]);
            assert_eq!(rows[0]["verdict"], "appended");
            compared += 1;
        }
    }
    assert!(compared >= 2, "{compared}");
}

#[test]
fn incident_markers_get_the_leaders_verdict() {
    let mut compared = 0;
    for (data, expected) in incidents() {
        let leader = &expected["leaderVerdict"];
        if leader.is_null() {
            continue;
        }
        let partition = only_partition(&data, &expected);
        let findings = expected["findings"].as_array().unwrap();
        let finding = findings
            .iter()
            .find(|it| it["kind"] == "coordinator-epoch-regression")
            .unwrap();
        // The leader of the question had seen the marker with `lastCoordinatorEpoch`; put it first.
        let marker = |epoch: &Value| {
            Request::EndTxnMarker(EndTxnMarker {
                producer_id: finding["producerId"].as_i64().unwrap(),
                producer_epoch: 0,
                marker: EndTransactionMarker {
                    control_type: ControlRecordType::ABORT,
                    coordinator_epoch: i32::try_from(epoch.as_i64().unwrap()).unwrap(),
                },
                timestamp: -1,
                transaction_version: Some(TransactionVersion::V1),
            })
        };
        let requests = [
            marker(&leader["lastCoordinatorEpoch"]),
            marker(&leader["coordinatorEpoch"]),
        ];
        let rows = put(&partition, None, &requests, TransactionVersion::V1, None);
        assert_eq!(rows[0]["verdict"], "appended");
        assert_eq!(rows[1]["error"]["name"], leader["verdict"]);
        // In the log the same bytes came through replication.
        let (rows, _) = replayed(&partition.0.path, &options(None));
        let row = rows
            .iter()
            .find(|row| row["baseOffset"] == finding["offset"])
            .unwrap();
        assert_eq!(row["error"]["name"], leader["verdict"]);
        assert_eq!(row["explainedBy"], "follower-append");
        compared += 1;
    }
    assert!(compared >= 1, "{compared}");
}

// ---- logged batches -----------------------------------------------------------------------

/// Every batch that a real client got into a log is one that a leader takes, as long as the log
/// is whole: of a fixture with a damaged partition the state before the damage counts.
#[test]
fn healthy_fixtures_have_only_batches_that_a_leader_takes() {
    let (mut partitions, mut batches) = (0, 0);
    for fixture in broker_fixtures() {
        if fixture.join("expected/verdicts.json").exists() {
            continue;
        }
        for path in partitions_below(&fixture) {
            let is_damaged =
                fixture.join("undamaged").exists() && !path.starts_with(fixture.join("undamaged"));
            if is_damaged {
                continue;
            }
            let (rows, counts) = replayed(&path, &options(None));
            let refused: Vec<&Value> = rows
                .iter()
                .filter(|row| row["verdict"] != "appended")
                .collect();
            assert_eq!(
                counts.not_appended,
                0,
                "{}: {}",
                path.display(),
                json!(refused)
            );
            partitions += 1;
            batches += rows.len();
        }
    }
    eprintln!("{partitions} partitions, {batches} batches");
    assert!(partitions >= 90, "{partitions}");
}

/// What a broker took because it had forgotten the producer, a leader that had not would refuse.
#[test]
fn forgotten_producers_are_explained() {
    let path = root().join("fixtures/s12-expired-producers/data/verdicts-0");
    let mut options = options(None);
    options.producer_id_expiration_ms = 3000;
    let (rows, counts) = replayed(&path, &options);
    let got: Vec<Value> = rows
        .iter()
        .filter(|row| row["verdict"] != "appended")
        .map(|row| {
            json!([
                row["baseOffset"],
                row["verdict"],
                row["rule"],
                row["explainedBy"]
            ])
        })
        .collect();
    assert_eq!(
        got,
        [
            json!([6, "rejected", "sequence-gap", "expired-producer"]),
            json!([7, "rejected", "stale-producer-epoch", "expired-producer"]),
            json!([8, "duplicate", "remembered-batch", "expired-producer"]),
            // Expired by the clock, with record times that stand still.
            json!([11, "rejected", "sequence-gap", "expired-or-lost-state"]),
        ]
    );
    assert_eq!(counts.not_appended, 4);
}

/// Rows tell exactly the batches of the log, with the offsets of Kafka's own result.
#[test]
fn every_view_agrees_where_a_batch_is_appended() {
    for case in cases() {
        for path in partitions_below(&case) {
            let (rows, counts) = replayed(&path, &options(None));
            assert_eq!(counts.rows, rows.len() as u64);
            for row in &rows {
                assert_eq!(row["verdict"], row["views"]["running"]["verdict"]);
                if row["verdict"] == "appended" {
                    assert_eq!(row["views"]["restarted"]["verdict"], "appended", "{row}");
                }
                assert_eq!(row["views"]["stateLost"]["verdict"], "appended", "{row}");
            }
        }
    }
}

// ---- cases --------------------------------------------------------------------------------

fn step(step: &Value) -> (&str, &Value) {
    let (name, fields) = step.as_object().unwrap().iter().next().unwrap();
    (name, fields)
}

/// Refused for what the batch itself is, or for its size and times: the log and its producers do
/// not matter.
fn is_about_the_batch(result: &Value) -> bool {
    let by_batch = [
        "INVALID_RECORD",
        "MESSAGE_TOO_LARGE",
        "CORRUPT_MESSAGE",
        "INVALID_TIMESTAMP",
        "RECORD_LIST_TOO_LARGE",
    ];
    result["error"]["name"]
        .as_str()
        .is_some_and(|name| by_batch.contains(&name))
}

/// A damaged batch that got past the look at the batch itself is judged as any other.
fn without_fault(it: &Value) -> Value {
    let mut it = it.clone();
    if let Some(append) = it.get_mut("append").and_then(Value::as_object_mut) {
        append.remove("fault");
    }
    it
}

/// Steps that change neither the log nor what a broker knows of producers.
fn is_harmless(name: &str, fields: &Value, scenario: &Value) -> bool {
    let expiration = scenario["config"]["producer.id.expiration.ms"]
        .as_i64()
        .unwrap_or(86_400_000);
    match name {
        "append"
        | "endTxnMarker"
        | "becomeLeader"
        | "updateHighWatermark"
        | "incrementHighWatermark"
        | "roll"
        | "takeProducerSnapshot"
        | "flush"
        | "deleteOldSegments"
        | "deleteRecordsBefore" => true,
        "advanceClock" => fields["ms"].as_i64().unwrap() < expiration / 4,
        _ => false,
    }
}

/// The steps to be asked, Kafka's results, and how many steps were about the batch itself.
fn asked<'r>(steps: &[Value], results: &'r [Value]) -> (Vec<Value>, Vec<&'r Value>, usize) {
    let (mut asked, mut wanted, mut by_batch) = (Vec::new(), Vec::new(), 0);
    for (it, result) in steps.iter().zip(results) {
        let (name, fields) = step(it);
        if name != "append" && name != "endTxnMarker" {
            continue;
        }
        if is_about_the_batch(result) {
            by_batch += 1;
            // A guard may be pending now, which the log does not show.
            if fields["isTransactional"] == true {
                break;
            }
            continue;
        }
        asked.push(without_fault(it));
        wanted.push(result);
    }
    (asked, wanted, by_batch)
}

/// A row has the verdict of a step's result, its error, and the offsets if it was let in.
fn assert_is_kafkas(row: &Value, result: &Value, case: &Path) {
    let what = format!("{} {row}", case.display());
    assert_eq!(row["verdict"], result["verdict"], "{what}");
    assert_eq!(row["error"]["name"], result["error"]["name"], "{what}");
    if result["verdict"] != "rejected" {
        assert_eq!(row["baseOffset"], result["baseOffset"], "{what}");
        assert_eq!(row["lastOffset"], result["lastOffset"], "{what}");
    }
}

/// A scenario's appends and markers, put one after another to a log that is not there yet, up to
/// the first step that does something else.
#[test]
fn scenario_steps_get_kafkas_verdicts_on_an_empty_log() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().join("orders-0");
    fs::create_dir(&path).unwrap();
    let partition = open(&path);
    let (mut compared, mut by_batch, mut whole) = (0, 0, 0);
    for case in cases() {
        let scenario = json(&case.join("scenario.json"));
        let result = json(&case.join("result.json"));
        let version = scenario["config"]["transaction.version"]
            .as_i64()
            .unwrap_or(2);
        let steps = scenario["steps"].as_array().unwrap();
        let results = result["steps"].as_array().unwrap();
        let usable = steps
            .iter()
            .take_while(|it| is_harmless(step(it).0, step(it).1, &scenario))
            .count();
        let (asked, wanted, refused) = asked(&steps[..usable], results);
        by_batch += refused;
        let text = serde_json::to_vec(&asked).unwrap();
        let requests = parse_requests(&text).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
        let version = TransactionVersion(i16::try_from(version).unwrap());
        let rows = put(&partition, None, &requests, version, None);
        for (row, result) in rows.iter().zip(&wanted) {
            assert_is_kafkas(row, result, &case);
            compared += 1;
        }
        whole += usize::from(usable == steps.len());
    }
    eprintln!("{compared} steps, {whole} whole cases, {by_batch} refused for the batch itself");
    assert!(compared >= 1500, "{compared}");
}

/// Each client append of a case, put to the log of the case's directory as far as it reached then.
#[test]
fn client_appends_get_kafkas_verdicts_from_the_log_of_a_case() {
    let (mut compared, mut cases_compared) = (0, 0);
    for case in cases() {
        let scenario = json(&case.join("scenario.json"));
        let result = json(&case.join("result.json"));
        let steps = scenario["steps"].as_array().unwrap();
        let results = result["steps"].as_array().unwrap();
        let paths = partitions_below(&case);
        // Cut, restarted or aged: what the broker knew at a step is not what the log says.
        let is_kept = steps.iter().all(|it| {
            let (name, fields) = step(it);
            is_harmless(name, fields, &scenario)
                && name != "deleteOldSegments"
                && name != "deleteRecordsBefore"
        });
        let [path] = paths.as_slice() else { continue };
        if !is_kept {
            continue;
        }
        cases_compared += 1;
        let partition = open(path);
        let mut end = 0;
        let mut guarded = BTreeSet::new();
        for (it, result) in steps.iter().zip(results) {
            let (name, fields) = step(it);
            let is_client = name == "append" && fields["origin"] != "coordinator";
            let producer_id = fields["producerId"].as_i64();
            let is_transactional = fields["isTransactional"] == true;
            // Guards are in memory only, and one that is pending refuses higher sequences of plain
            // batches, too (`ProducerAppendInfo.checkSequence`).
            let is_shown = !is_transactional && !guarded.contains(&producer_id);
            if is_client && is_shown && !is_about_the_batch(result) {
                let text = serde_json::to_vec(&json!([without_fault(it)])).unwrap();
                let requests = parse_requests(&text).unwrap();
                let rows = put(
                    &partition,
                    Some(end),
                    &requests,
                    TransactionVersion::V2,
                    None,
                );
                assert_is_kafkas(&rows[0], result, &case);
                compared += 1;
            }
            let asks = fields["verification"].is_null() || fields["verification"] == "failed";
            let ends = is_transactional || name == "endTxnMarker";
            if result["verdict"] == "appended" && ends {
                guarded.remove(&producer_id);
            } else if name == "append" && is_transactional && asks {
                guarded.insert(producer_id);
            }
            end = result["state"]["logEndOffset"].as_i64().unwrap();
        }
    }
    eprintln!("{compared} appends of {cases_compared} cases");
    assert!(compared >= 500, "{compared}");
}
