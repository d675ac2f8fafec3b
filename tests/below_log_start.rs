//! Transactions of which all but the end lies below the log start: a broker that reads its state
//! from the log start on knows nothing of them, one that ran on knows them still. What Kafka wrote
//! is in the cases.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::path::Path;
use std::process::Command;

use common::partitions::{cases, json};
use serde_json::{Value, json};

/// The rows, and whether the run found something wrong or warned of it.
fn kseg(command: &str, partition: &Path) -> (Vec<Value>, bool) {
    let mut kseg = Command::new(env!("CARGO_BIN_EXE_kseg"));
    let output = kseg.args([command, "-o", "ndjson"]).arg(partition).output();
    let output = output.unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    let is_alarm = output.status.code() != Some(0) || !output.stderr.is_empty();
    (rows.collect(), is_alarm)
}

fn partition_of(case: &Path) -> std::path::PathBuf {
    let scenario = json(&case.join("scenario.json"));
    let topic = scenario["topic"].as_str().unwrap();
    case.join(format!("{topic}-{}", scenario["partition"]))
}

/// Kafka forgot the transaction, and its producer went on with another one.
#[test]
fn what_a_broker_forgot_is_part_of_no_answer() {
    let found = common::partitions::root().join("cases/found");
    for (name, ended) in [
        ("forgotten-then-other-epoch", json!([["ABORTED", 9, 12, 3]])),
        (
            "forgotten-then-transaction",
            json!([["COMMITTED", 9, 12, 3]]),
        ),
    ] {
        let case = found.join(name);
        let partition = partition_of(&case);
        let result = json(&case.join("result.json"));
        let last = &result["final"];
        assert_eq!(last["ongoingTransactions"], json!([]), "{name}");

        let (rows, is_alarm) = kseg("txns", &partition);
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!([
                    row["state"],
                    row["firstOffset"],
                    row["markerOffset"],
                    row["records"]
                ])
            })
            .collect();
        assert_eq!(Value::from(rows), ended, "{name}");
        assert!(!is_alarm, "{name}");

        let (rows, is_alarm) = kseg("aborted", &partition);
        let keys = ["producerId", "logFirstOffset", "lastOffset"];
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| keys.map(|key| row[key].clone()).into())
            .collect();
        let theirs = last["abortedTransactions"].as_array().unwrap();
        let keys = ["producerId", "firstOffset", "lastOffset"];
        let theirs: Vec<Value> = theirs
            .iter()
            .map(|row| keys.map(|key| row[key].clone()).into())
            .collect();
        assert_eq!(rows, theirs, "{name}");
        assert!(!is_alarm, "{name}");

        let (rows, is_alarm) = kseg("verify", &partition);
        let alarms: Vec<&Value> = rows
            .iter()
            .filter(|row| row["severity"] != "notable" || row["kind"] == "marker-probably-cleaned")
            .collect();
        assert!(alarms.is_empty(), "{name}: {alarms:#?}");
        assert!(!is_alarm, "{name}");
    }
}

/// No case has a batch that every start of Kafka's refuses, where it opened the log again.
#[test]
fn nothing_that_kafka_loads_is_refused() {
    let mut verified = 0;
    for case in cases() {
        let result = json(&case.join("result.json"));
        let reopens = result["steps"].as_array().unwrap();
        let is_refused = |step: &Value| step["step"] == "reopen" && step["verdict"] == "rejected";
        if reopens.iter().any(is_refused) {
            continue;
        }
        let partition = partition_of(&case);
        let log_start = result["final"]["logStartOffset"].as_i64().unwrap();
        if !partition.is_dir() || log_start == 0 {
            continue;
        }
        verified += 1;
        let (rows, _) = kseg("verify", &partition);
        let refused = rows.iter().find(|row| row["kind"] == "refused-batch");
        assert!(refused.is_none(), "{}: {refused:#?}", case.display());
    }
    assert!(verified > 20, "{verified}");
}

/// A transaction below the log start, which the broker forgot when it cut the log at 9, and a batch
/// of its producer that does not belong to it.
fn forgotten_and_refused() -> Value {
    let records = |number| vec![json!({"value": "v"}); number];
    json!({
        "config": {"segment.index.bytes": 1000},
        "autoHighWatermark": true,
        "steps": [
            {"append": {"producerId": 1, "producerEpoch": 0, "baseSequence": 0,
                "isTransactional": true, "records": records(5)}},
            {"append": {"records": records(5)}},
            {"deleteRecordsBefore": {"offset": 7}},
            {"truncateTo": {"offset": 9}},
            {"append": {"producerId": 1, "producerEpoch": 0, "baseSequence": 0,
                "records": records(3)}},
            {"append": {"records": records(2)}}
        ]
    })
}

/// The partition that a scenario makes.
fn write(folder: &Path, scenario: &Value) -> std::path::PathBuf {
    let (file, out) = (folder.join("scenario.json"), folder.join("out"));
    std::fs::write(&file, scenario.to_string()).unwrap();
    let mut write = Command::new(env!("CARGO_BIN_EXE_kseg"));
    let written = write.args(["write", "--out"]).arg(&out).arg(&file).output();
    assert_eq!(written.unwrap().status.code(), Some(0));
    out.join("orders-0")
}

/// Kafka took the batch, since it had forgotten the transaction when it cut the log, and starts
/// with it after a clean stop. After another it reads the segment as a whole:
/// `InvalidTxnStateException`, and the broker does not start.
#[test]
fn a_batch_that_only_recovery_refuses_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let partition = write(folder.path(), &forgotten_and_refused());

    let (mut rows, _) = kseg("verify", &partition);
    rows.retain(|row| row["severity"] != "notable");
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0]["kind"], "refused-batch");
    assert_eq!(rows[0]["offset"], 9);
    let action = rows[0]["brokerAction"].as_str().unwrap();
    assert!(action.contains("recovers its segment"), "{action}");
    let (starts, _) = kseg("recover", &partition);
    let starts = starts
        .iter()
        .map(|row| (&row["start"], &row["error"]["exception"]));
    let exceptions: Vec<_> = starts.collect();
    let expected = [
        (&json!("unclean"), &json!("InvalidTxnStateException")),
        (&json!("clean"), &Value::Null),
    ];
    assert_eq!(exceptions, expected);
    let (open, _) = kseg("txns", &partition);
    assert!(open.is_empty(), "{open:#?}");
    let (aborted, is_alarm) = kseg("aborted", &partition);
    assert!(aborted.is_empty() && !is_alarm, "{aborted:#?}");
}

/// The state up to an offset is that of a recovery up to there, as the one of the whole log is. The
/// log starts at 7, and the only batch below 9 ends at 4: such a log begins anew at its start
/// (`LogLoader.deleteSegmentsIfLogStartGreaterThanLogEnd`), as a broker's own snapshot at 9 says,
/// which cut the log there. Behind the batch that recovery refuses there is nothing.
#[test]
fn a_rebuild_up_to_an_offset_is_a_recovery_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let partition = write(folder.path(), &forgotten_and_refused());
    let snapshots = |name: &str, arguments: &[&str]| {
        let out = folder.path().join(name);
        let mut rebuild = Command::new(env!("CARGO_BIN_EXE_kseg"));
        rebuild.args(["rebuild", "--only", "snapshot", "--out"]);
        rebuild.arg(&out).args(arguments).arg(&partition);
        let run = rebuild.output().unwrap();
        let mut files: Vec<_> = std::fs::read_dir(out)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        let files = files.into_iter().map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let offset: i64 = name.strip_suffix(".snapshot").unwrap().parse().unwrap();
            (offset, std::fs::read(path).unwrap())
        });
        let files: Vec<(i64, Vec<u8>)> = files.collect();
        let stderr = String::from_utf8(run.stderr).unwrap();
        (files, run.status.code(), stderr)
    };
    let kafkas = std::fs::read(partition.join("00000000000000000009.snapshot")).unwrap();
    for offset in ["9", "10", "11"] {
        let (files, status, _) = snapshots(offset, &["--at-offset", offset]);
        assert_eq!(files, [(offset.parse().unwrap(), kafkas.clone())]);
        assert_eq!(status, Some(0), "{offset}");
    }
    for (name, arguments) in [
        ("whole", &[][..]),
        ("12", &["--at-offset", "12"]),
        ("14", &["--at-offset", "14"]),
    ] {
        let (files, status, stderr) = snapshots(name, arguments);
        assert_eq!(status, Some(1), "{name}");
        assert!(stderr.contains("up to offset 5\n"), "{name}: {stderr}");
        assert!(files.iter().all(|(offset, _)| *offset <= 5), "{name}");
    }
}
