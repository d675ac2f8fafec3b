//! `kseg read` against the consumers that read the fixtures from live brokers, and against the
//! counts of every incident.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a comparison picks the values it compares"
)]

#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use folders::answered_data;
use kseg::format::base64;
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Directories directly below `path`, sorted.
fn dirs(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap();
    let mut dirs: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs
}

fn kseg(arguments: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["read", "-o", "ndjson"])
        .args(arguments)
        .arg(path)
        .env_clear()
        .output()
        .unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Rows of a read that has to end well.
fn read(arguments: &[&str], path: &Path) -> Vec<Value> {
    let output = kseg(arguments, path);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{path:?}: {}",
        stderr(&output)
    );
    rows(&output)
}

/// Bytes of a row as the fixtures have them: base64 or null.
fn bytes(content: &Value) -> Value {
    match content {
        Value::Null => Value::Null,
        content => match (content["utf8"].as_str(), content["base64"].as_str()) {
            (Some(text), None) => json!(base64::encode(text.as_bytes())),
            (None, Some(text)) => json!(text),
            other => panic!("{content}: {other:?}"),
        },
    }
}

/// A record as the fixtures have it.
fn consumed(row: &Value) -> Value {
    let headers = row["headers"].as_array().unwrap().iter();
    let headers: Vec<Value> = headers
        .map(|header| json!([header["key"], bytes(&header["value"])]))
        .collect();
    json!({
        "offset": row["offset"],
        "timestamp": row["timestamp"].as_i64().unwrap_or(-1),
        "timestampType": row["timestampType"],
        "key": bytes(&row["key"]),
        "value": bytes(&row["value"]),
        "headers": headers,
    })
}

/// Every partition of which a live consumer's records are known, with the file that has them.
fn consumed_partitions() -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for fixture in dirs(&fixtures()) {
        let data = answered_data(&fixture);
        if !fixture.join("expected").is_dir() || !data.is_dir() {
            continue;
        }
        let before = fixture.join("expected/before-damage.json");
        if before.is_file() {
            found.push((fixture.join("undamaged/dmg-0"), before));
        }
        for partition in dirs(&data) {
            let name = partition.file_name().unwrap().to_str().unwrap();
            let answers = fixture.join("expected").join(format!("{name}.json"));
            if answers.is_file() {
                found.push((partition, answers));
            }
        }
    }
    found
}

/// What ended the consumer, under both isolation levels.
fn consumer_stopped_at(answers: &Value, level: &str) -> Option<i64> {
    let consumer = &answers["consumer"];
    consumer[format!("{level}Error")].as_str()?;
    consumer[format!("{level}Position")].as_i64()
}

/// The end of a read must be that of the consumer.
fn check_end(output: &Output, stopped_at: Option<i64>, path: &Path) {
    match stopped_at {
        None => assert_eq!(
            output.status.code(),
            Some(0),
            "{path:?}: {}",
            stderr(output)
        ),
        Some(offset) => {
            assert_eq!(output.status.code(), Some(2), "{path:?}");
            let text = stderr(output);
            assert!(
                text.contains(&format!("cannot pass offset {offset}:")),
                "{text}"
            );
            assert!(text.contains("--from-offset"), "{text}");
        }
    }
}

#[test]
fn a_read_gives_what_a_live_consumer_got() {
    let partitions = consumed_partitions();
    let mut records = [0, 0];
    let mut stopped = 0;
    for (partition, answers) in &partitions {
        let answers = json_file(answers);
        let expected = answers["readUncommittedRecords"].as_array().unwrap();
        let uncommitted = kseg(&["--isolation-level", "read_uncommitted"], partition);
        let stopped_at = consumer_stopped_at(&answers, "readUncommitted");
        stopped += usize::from(stopped_at.is_some());
        check_end(&uncommitted, stopped_at, partition);
        let ours: Vec<Value> = rows(&uncommitted).iter().map(consumed).collect();
        for (ours, theirs) in ours.iter().zip(expected) {
            assert_eq!(ours, theirs, "{partition:?}");
        }
        assert_eq!(ours.len(), expected.len(), "{partition:?}");
        records[0] += ours.len();

        let committed = kseg(&["--isolation-level", "read_committed"], partition);
        let stopped_at = consumer_stopped_at(&answers, "readCommitted");
        check_end(&committed, stopped_at, partition);
        let runs = answers["readCommittedOffsets"].as_array().unwrap();
        let is_in_a_run = |offset: i64| {
            let ends = |run: &Value| Some((run[0].as_i64()?, run[1].as_i64()?));
            runs.iter()
                .filter_map(ends)
                .any(|(first, last)| (first..=last).contains(&offset))
        };
        let expected: Vec<&Value> = expected
            .iter()
            .filter(|record| is_in_a_run(record["offset"].as_i64().unwrap()))
            .collect();
        let ours: Vec<Value> = rows(&committed).iter().map(consumed).collect();
        assert_eq!(ours.iter().collect::<Vec<_>>(), expected, "{partition:?}");
        let count = answers["counts"]["readCommitted"].as_u64();
        assert_eq!(count, Some(ours.len() as u64), "{partition:?}");
        records[1] += ours.len();
    }
    let read = (partitions.len(), stopped, records);
    assert_eq!(read, (146, 1, [12_523, 11_075]));
}

/// Reading by the log alone gives the same, but where an index is not what it should be.
#[test]
fn aborted_transactions_of_the_log_are_those_of_the_index() {
    let mut differing = BTreeSet::new();
    for (partition, _) in consumed_partitions() {
        let index = rows(&kseg(&[], &partition));
        let log = rows(&kseg(&["--aborted-from", "log"], &partition));
        if index != log {
            let fixture = partition.strip_prefix(fixtures()).unwrap();
            differing.insert(fixture.to_str().unwrap().to_owned());
        }
    }
    // The index is gone; and the log, where its rows are of markers in a segment that is gone.
    let expected = [
        "s07e-deleted-txnindex/recovered/dmg-0",
        "s07j-deleted-segment/recovered/dmg-0",
    ];
    assert_eq!(differing, BTreeSet::from(expected.map(str::to_owned)));
}

/// The incidents' partitions and what is known of them.
fn incidents() -> Vec<(PathBuf, String, Value)> {
    let mut found = Vec::new();
    for incident in dirs(&fixtures().join("incidents")) {
        let expected = json_file(&incident.join("expected.json"));
        for (name, facts) in expected["partitions"].as_object().unwrap() {
            if facts["counts"].is_object() {
                let incident_name = incident.file_name().unwrap().to_str().unwrap();
                let what = format!("{incident_name}/{name}");
                found.push((incident.join("data").join(name), what, facts.clone()));
            }
        }
    }
    found
}

/// By the log alone, as the facts are.
fn count(path: &Path, level: &str) -> (Option<i32>, Value) {
    let level = ["--isolation-level", level];
    let how = ["--count", "--from-scratch", "--aborted-from", "log"];
    let output = kseg(&[&level[..], &how[..]].concat(), path);
    let mut rows = rows(&output);
    assert_eq!(rows.len(), 1, "{path:?}: {}", stderr(&output));
    (output.status.code(), rows.remove(0))
}

#[test]
fn counts_of_the_incidents() {
    let mut wrong = Vec::new();
    let mut stopped = BTreeMap::new();
    let incidents = incidents();
    for (path, what, facts) in &incidents {
        let (status, committed) = count(path, "read_committed");
        let (_, uncommitted) = count(path, "read_uncommitted");
        if status != Some(0) {
            stopped.insert(what.as_str(), committed["stoppedAt"].as_i64().unwrap());
            continue;
        }
        let not_read = NOT_READ.iter().find(|(name, _)| name == what);
        let not_read = not_read.map_or(0, |(_, records)| *records);
        let differences = differences(facts, not_read, &committed, &uncommitted);
        wrong.extend(differences.iter().map(|it| format!("{what} {it}")));
    }
    assert_eq!(wrong, [""; 0], "of {}", incidents.len());
    let bad = [
        ("bad-crc/orders-0", 6),
        ("replicas-both-corrupt/a/orders-0", 4),
        ("replicas-both-corrupt/b/orders-0", 4),
    ];
    assert_eq!(stopped, BTreeMap::from(bad));
    assert_eq!(incidents.len(), 91);
}

/// The facts count batches; a consumer gets no record below the log start or of an offset it has
/// passed, which are `not_read`.
fn differences(
    facts: &Value,
    not_read: u64,
    committed: &Value,
    uncommitted: &Value,
) -> Vec<String> {
    let number = |key: &str| facts["counts"][key].as_u64().unwrap();
    let last = |level: &str| facts["lastVisible"][level].clone();
    let control = number("commitMarkers") + number("abortMarkers");
    let (visible, all) = (
        number("readCommittedRecords"),
        number("readUncommittedRecords"),
    );
    let (aborted, open) = (number("abortedRecords"), number("openRecords"));
    let expected_committed = [
        ("visible", json!(visible - not_read)),
        ("aborted", json!(aborted)),
        ("open", json!(open)),
        // Everything that is there is one or the other.
        (
            "behindLastStableOffset",
            json!(all - visible - aborted - open),
        ),
        ("control", json!(control)),
        ("exposed", json!(0)),
        ("aboveHighWatermark", json!(0)),
        ("lastVisible", last("readCommitted")),
    ];
    let expected_uncommitted = [
        ("visible", json!(all - not_read)),
        ("aborted", json!(aborted)),
        ("open", json!(open)),
        ("behindLastStableOffset", json!(0)),
        ("control", json!(control)),
        ("lastVisible", last("readUncommitted")),
    ];
    let committed = expected_committed.map(|(key, theirs)| (key, &committed[key], theirs));
    let uncommitted = expected_uncommitted.map(|(key, theirs)| (key, &uncommitted[key], theirs));
    committed
        .into_iter()
        .chain(uncommitted)
        .filter(|(_, ours, theirs)| *ours != theirs)
        .map(|(key, ours, theirs)| format!("{key}: kseg {ours}, expected {theirs}"))
        .collect()
}

/// Records of batches that a consumer is given, and passes over.
const NOT_READ: &[(&str, u64)] = &[
    ("gap-classes/state-0", 1),
    ("log-start-inside-batch/orders-0", 2),
    ("transaction-only-in-snapshot/orders-4", 1),
    ("offsets-go-backwards/orders-0", 4),
];

fn incident(name: &str) -> (PathBuf, Value) {
    let incident = fixtures().join("incidents").join(name);
    let expected = json_file(&incident.join("expected.json"));
    (incident.join("data"), expected)
}

#[test]
fn records_below_the_log_start_are_in_the_files_and_not_visible() {
    let (data, expected) = incident("log-start-inside-batch");
    let counts = read(&["--count"], &data);
    let number = |key: &str| counts[0][key].as_u64().unwrap();
    assert_eq!(expected["recordsVisible"], number("visible"));
    let in_files = number("visible") + number("belowLogStart") + number("aboveHighWatermark");
    assert_eq!(expected["recordsInFiles"], in_files);
    assert_eq!(read(&[], &data)[0]["offset"], counts[0]["logStartOffset"]);
}

#[test]
fn a_read_stops_at_a_bad_batch_and_says_where_to_go_on() {
    let (data, expected) = incident("bad-crc");
    let finding = &expected["findings"][0];
    let next = finding["nextOffset"].as_i64().unwrap();
    for level in ["read_committed", "read_uncommitted"] {
        let output = kseg(&["--isolation-level", level], &data.join("orders-0"));
        check_end(&output, finding["baseOffset"].as_i64(), &data);
        let text = stderr(&output);
        assert!(text.contains(&format!("--from-offset {next}\n")), "{text}");
        let position = format!("at position {}:", finding["position"]);
        assert!(text.contains(&position), "{text}");
        assert_eq!(rows(&output).len(), 6);
        let level = ["--isolation-level", level, "--from-offset"];
        let rest = read(
            &[&level[..], &[&next.to_string()]].concat(),
            &data.join("orders-0"),
        );
        assert_eq!(rest[0]["offset"], next);
        assert_eq!(rest.len(), 9);
    }
}

#[test]
fn an_index_that_is_too_short_exposes_records_and_is_complained_of() {
    for (name, transactions) in [("txnindex-missing", 2), ("txnindex-too-short", 1)] {
        let (data, expected) = incident(name);
        let by_index = kseg(&[], &data);
        assert_eq!(by_index.status.code(), Some(0));
        let text = stderr(&by_index);
        assert_eq!(
            text.matches("txnindex-entry-missing").count(),
            transactions,
            "{text}"
        );
        assert!(text.contains("--aborted-from log"), "{text}");
        let offsets = |rows: &[Value]| -> BTreeSet<i64> {
            let offsets = rows.iter().map(|row| row["offset"].as_i64().unwrap());
            offsets.collect()
        };
        let by_index = offsets(&rows(&by_index));
        let by_log = kseg(&["--aborted-from", "log"], &data);
        assert!(!stderr(&by_log).contains("warning"));
        let by_log = offsets(&rows(&by_log));
        let exposed: Vec<i64> = by_index.difference(&by_log).copied().collect();
        let runs = expected["exposedOffsets"].as_array().unwrap().iter();
        let runs = runs.flat_map(|run| run[0].as_i64().unwrap()..=run[1].as_i64().unwrap());
        assert_eq!(exposed, runs.collect::<Vec<_>>());
        let counts = &read(&["--count"], &data)[0];
        assert_eq!(counts["exposed"], exposed.len());
    }
}

/// Bytes of a row of a `.txnindex`: version, producer id, first, last and last stable offset.
const ROW: usize = 34;

type EditRows = fn(&mut Vec<u8>);

/// Whatever is wrong with a row, `verify` and `read` have one word for it; a row that takes nothing
/// from this consumer may from one whose fetches begin elsewhere.
#[test]
fn every_wrong_row_that_verify_tells_of_is_warned_of() {
    let wrong: [(&str, EditRows); 6] = [
        ("a last stable offset behind the next transaction", |rows| {
            rows[33] = 120
        }),
        ("begins before its transaction", |rows| rows[17] = 60),
        ("begins behind its first batch", |rows| rows[17] = 75),
        ("of nobody", |rows| rows[9] = 99),
        ("there twice", |rows| {
            let first = rows[..ROW].to_vec();
            rows.splice(..0, first);
        }),
        ("missing", |rows| rows.truncate(ROW)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    folders::copy(&fixtures().join("s02-txn-tv2/data"), &data);
    let partition = data.join("tx-0");
    let index = partition.join("00000000000000000000.txnindex");
    let sound = fs::read(&index).unwrap();
    let level = ["--count", "--isolation-level", "read_committed"];
    assert_eq!(stderr(&kseg(&level, &partition)), "");
    for (what, edit) in wrong {
        let mut rows = sound.clone();
        edit(&mut rows);
        fs::write(&index, rows).unwrap();
        folders::rest(&partition);
        let verify = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["verify", "-o", "ndjson"])
            .arg(&partition)
            .output()
            .unwrap();
        let text = String::from_utf8(verify.stdout).unwrap();
        let found = text
            .lines()
            .map(|it| serde_json::from_str::<Value>(it).unwrap());
        let kinds: BTreeSet<String> = found
            .map(|it| it["kind"].as_str().unwrap().to_owned())
            // The order of a file is no row's.
            .filter(|kind| kind.starts_with("txnindex-") && kind != "txnindex-disorder")
            .collect();
        assert!(!kinds.is_empty(), "{what}");
        let warned = stderr(&kseg(&level, &partition));
        for kind in &kinds {
            assert!(warned.contains(kind), "{what}: {kind}: {warned}");
        }
        assert!(warned.contains("--aborted-from log"), "{what}: {warned}");
        // Those that are not asked for are not warned of.
        let by_log = [&level[..], &["--aborted-from", "log"]].concat();
        assert_eq!(stderr(&kseg(&by_log, &partition)), "", "{what}");
        let uncommitted = ["--isolation-level", "read_uncommitted"];
        assert_eq!(stderr(&kseg(&uncommitted, &partition)), "", "{what}");
    }
    // A read of some offsets tells what it was given wrong.
    let mut rows = sound.clone();
    rows[17] = 75;
    fs::write(&index, rows).unwrap();
    folders::rest(&partition);
    let warned = stderr(&kseg(
        &[&level[..], &["--from-offset", "60"]].concat(),
        &partition,
    ));
    assert!(warned.contains("does not see it in time"), "{warned}");
    let warned = stderr(&kseg(
        &[&level[..], &["--from-offset", "100"]].concat(),
        &partition,
    ));
    assert_eq!(warned, "");
}

#[test]
fn filters_narrow_what_is_read_and_counted() {
    let partition = fixtures().join("s02-txn-tv2/data/tx-1");
    let all = read(&[], &partition);
    let time = |row: &Value| row["timestamp"].as_i64().unwrap();
    let offset = |row: &Value| row["offset"].as_i64().unwrap();
    let (from, to) = (offset(&all[20]), offset(&all[70]));
    let middle = time(&all[50]);
    let cases: [(&[&str], Vec<&Value>); 3] = [
        (
            &[
                "--from-offset",
                &from.to_string(),
                "--to-offset",
                &to.to_string(),
            ],
            all[20..70].iter().collect(),
        ),
        (
            &["--from-time", &middle.to_string()],
            all.iter().filter(|row| time(row) >= middle).collect(),
        ),
        (
            &["--to-time", &middle.to_string()],
            all.iter().filter(|row| time(row) < middle).collect(),
        ),
    ];
    for (arguments, expected) in cases {
        let ours = read(arguments, &partition);
        assert_eq!(ours.iter().collect::<Vec<_>>(), expected, "{arguments:?}");
        let counts = &read(&[arguments, &["--count"]].concat(), &partition)[0];
        assert_eq!(counts["visible"], expected.len(), "{arguments:?}");
    }
    let keys = read(&["--keys-only"], &partition);
    assert_eq!(keys[0]["key"], all[0]["key"]);
    assert_eq!(keys[0]["value"], Value::Null);
    assert!(keys[0]["valueSize"].is_u64());
}

#[test]
fn partitions_come_one_after_another_and_the_default_is_said() {
    let data = fixtures().join("s02-txn-tv2/data");
    let output = kseg(&["--topic", "tx"], &data);
    assert!(stderr(&output).contains("note: isolation level read_committed"));
    let mut order: Vec<i64> = rows(&output)
        .iter()
        .map(|row| row["partition"].as_i64().unwrap())
        .collect();
    order.dedup();
    assert_eq!(order, [0, 1, 2]);
    let mapped = rows(&output);
    assert_eq!(
        rows(&kseg(&["--topic", "tx", "--io", "read"], &data)),
        mapped
    );
    // A segment is its partition as far as it goes; any other file is none.
    let segment = data.join("tx-0/00000000000000000000.log");
    let output = kseg(&[], &segment);
    assert_eq!(output.status.code(), Some(0));
    assert!(rows(&output).iter().all(|row| row["partition"] == 0));
    let output = kseg(&[], &data.join("tx-0/00000000000000000000.index"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("hint: kseg dump"));
}

/// Bytes that are no batch end a read as a bad checksum does, and do not stand in the way of one
/// that begins behind them.
#[test]
fn bytes_that_are_no_batch_end_a_read() {
    let folder = tempfile::tempdir().unwrap();
    let partition = folder.path().join("tx-0");
    fs::create_dir(&partition).unwrap();
    let whole = fixtures().join("s02-txn-tv2/data/tx-0/00000000000000000000.log");
    let mut bytes = fs::read(whole).unwrap();
    // The magic byte of the second batch, which holds offsets 3 and 4.
    bytes[242 + 16] = 9;
    fs::write(partition.join("00000000000000000000.log"), bytes).unwrap();
    let uncommitted = ["--isolation-level", "read_uncommitted"];
    let output = kseg(&uncommitted, &partition);
    check_end(&output, Some(3), &partition);
    assert_eq!(rows(&output).len(), 3);
    let text = stderr(&output);
    assert!(text.contains("magic is 9"), "{text}");
    assert!(text.contains("--from-offset 5\n"), "{text}");
    let rest = read(
        &[&uncommitted[..], &["--from-offset", "5"]].concat(),
        &partition,
    );
    assert_eq!(rest[0]["offset"], 5);
    let counts = kseg(&["--count"], &partition);
    assert_eq!(rows(&counts)[0]["stoppedAt"], 3);
}

#[test]
fn directories_that_are_not_in_use_are_read_only_if_named() {
    let (data, _) = incident("directory-names");
    let output = kseg(&[], &data);
    assert_eq!(rows(&output).len(), 4);
    assert_eq!(stderr(&output).matches("not in use").count(), 3);
    let deleted = dirs(&data)
        .into_iter()
        .find(|dir| dir.to_str().unwrap().ends_with("-delete"));
    assert_eq!(read(&[], &deleted.unwrap()).len(), 4);
}

#[test]
fn a_batch_over_the_limit_is_not_unpacked() {
    let partition = fixtures().join("s02-txn-tv2/data/tx-0");
    let output = kseg(&["--max-batch-bytes", "100"], &partition);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("expected at most 100"),
        "{}",
        stderr(&output)
    );
}
