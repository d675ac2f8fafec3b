//! `kseg write` as a program: verdicts, errors, and a directory that is there whole or not at all.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use kseg::append::scenario::{Scenario, TEMPLATES};
use predicates::prelude::*;
use serde_json::{Value, json};

fn kseg() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kseg"));
    command.env_clear();
    command
}

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("cases/named")
        .join(name)
}

fn rows(stdout: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn rows_are_the_steps_of_the_result_with_topic_and_partition() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("new");
    let case = case("duplicate-of-6th-last-is-out-of-order");
    let result = kseg()
        .args(["write", "-o", "ndjson", "--out"])
        .arg(&dir)
        .arg(case.join("scenario.json"))
        .assert()
        .code(1);
    let expected = fs::read(case.join("result.json")).unwrap();
    let mut expected: Value = serde_json::from_slice(&expected).unwrap();
    let steps = expected["steps"].as_array_mut().unwrap();
    for step in steps.iter_mut() {
        step["topic"] = json!("orders");
        step["partition"] = json!(0);
    }
    assert_eq!(rows(&result.get_output().stdout), *steps);
    for file in [
        "orders-0/00000000000000000000.log",
        "recovery-point-offset-checkpoint",
    ] {
        assert_eq!(
            fs::read(dir.join(file)).unwrap(),
            fs::read(case.join(file)).unwrap()
        );
    }
}

#[test]
fn document_matches_its_schema_name_and_table_shows_verdicts() {
    let out = tempfile::tempdir().unwrap();
    let scenario = TEMPLATES[0].json;
    let json = kseg()
        .args(["write", "-o", "json", "-", "--out"])
        .arg(out.path().join("a"))
        .write_stdin(scenario)
        .assert()
        .code(1);
    let document: Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(document["schema"], "kseg/write/v1");
    kseg()
        .args(["write", "-", "--out"])
        .arg(out.path().join("b"))
        .write_stdin(scenario)
        .assert()
        .code(1)
        .stdout(predicate::str::contains("duplicate").and(predicate::str::contains("(45)")));
}

fn follower(batch: &Value) -> Value {
    json!({"steps": [{"appendAsFollower": {"batches": [batch]}}]})
}

#[test]
fn errors_name_the_step_and_the_field_and_nothing_is_made() {
    let cases = [
        (
            json!({"steps": [{"roll": {}}, {"append": {"records": [{"timestamp": "x"}]}}]}),
            "steps[1].append.records[0].timestamp: expected an integer, found a string",
        ),
        (
            json!({"steps": [{"append": {"records": [], "extra": 1}}]}),
            "steps[0].append.extra: unknown field",
        ),
        (
            json!({"steps": [{"truncateTo": {}}]}),
            "steps[0].truncateTo: missing field \"offset\"",
        ),
        (
            json!({"steps": [{"jump": {}}]}),
            "steps[0].jump: unknown step",
        ),
        (
            json!({"steps": [{"append": {"records": [], "producerEpoch": 40000}}]}),
            "steps[0].append.producerEpoch: 40000 is out of range",
        ),
        (
            json!({"steps": [{"reopen": {"tornTailBytes": 3}}]}),
            "steps[0].reopen.tornTailBytes: needs \"clean\": false",
        ),
        (
            json!({"topic": "../x", "steps": []}),
            "topic: is no topic name",
        ),
        (
            json!({"config": {"segment.bits": 1}, "steps": []}),
            "config.segment.bits: unknown or unsupported key",
        ),
        (
            json!({"config": {"compression.gzip.level": 10}, "steps": []}),
            "config.compression.gzip.level: 10 is not in -1 to 9",
        ),
        (
            json!({"steps": [{"append": {"records": [{"key": {"base64": "%"}}]}}]}),
            "steps[0].append.records[0].key.base64: is not base64",
        ),
        (json!({}), "missing field \"steps\""),
    ];
    assert_refused(&cases);
    kseg()
        .args(["write", "--check", "-"])
        .write_stdin("{\"steps\": [], \"steps\": []}")
        .assert()
        .code(2)
        .stderr(predicate::str::contains("field \"steps\" comes twice"));
}

/// Both by `--check` and by a run, of which nothing is left.
fn assert_refused(cases: &[(Value, &str)]) {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("new");
    for (scenario, message) in cases {
        for arguments in [
            vec!["write", "--check", "-"],
            vec!["write", "-", "--out", dir.to_str().unwrap()],
        ] {
            kseg()
                .args(arguments)
                .write_stdin(scenario.to_string())
                .assert()
                .code(2)
                .stdout("")
                .stderr(predicate::str::contains(*message));
        }
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn no_configuration_is_as_an_empty_one() {
    let parse = |text: &str| Scenario::parse(text.as_bytes()).unwrap().config;
    let without = parse(r#"{"title": "t", "steps": []}"#);
    assert_eq!(
        without,
        parse(r#"{"title": "t", "config": {}, "steps": []}"#)
    );
    // The directory counts once the program has ended well.
    assert!(!without.fsync);
}

#[test]
fn what_cannot_run_is_refused_before_it_begins() {
    assert_refused(&[
        // What cannot run.
        (
            json!({"config": {"segment.index.bytes": 11}, "steps": []}),
            "config.segment.index.bytes: 11 is not in 12 to 2147483647",
        ),
        (
            json!({"topic": "t".repeat(249), "partition": 10_000_000, "steps": []}),
            "topic: is too long for partition 10000000: the directory's name would have 258 bytes",
        ),
        (
            json!({"steps": [{"append": {"records": [{}], "transactionVersion": 99}}]}),
            "steps[0].append.transactionVersion: 99 is none of the transaction versions",
        ),
        (
            json!({"steps": [{"endTxnMarker": {"producerId": 1, "controlType": "ABORT",
                "transactionVersion": -1}}]}),
            "steps[0].endTxnMarker.transactionVersion: -1 is none of the transaction versions",
        ),
        (
            follower(&json!({"baseOffset": 0, "records": [{}], "lastOffsetDelta": 3})),
            "batches[0].lastOffsetDelta: goes with \"records\": [] only",
        ),
        (
            follower(&json!({"baseOffset": 0, "records": [{}], "maxTimestamp": 3})),
            "batches[0].maxTimestamp: goes with \"records\": [] only",
        ),
        (
            follower(&json!({"baseOffset": 0, "records": [], "lastOffsetDelta": -1})),
            "batches[0].lastOffsetDelta: is negative",
        ),
    ]);
}

#[test]
fn offsets_that_do_not_fit_are_refused() {
    assert_refused(&[
        (
            follower(&json!({"baseOffset": i64::MAX, "records": [{}]})),
            "steps[0].appendAsFollower.batches[0].baseOffset: 9223372036854775807 is too high",
        ),
        (
            follower(&json!({"baseOffset": i64::MAX - 2, "records": [{}, {"offsetDelta": 2}]})),
            "steps[0].appendAsFollower.batches[0].baseOffset: 9223372036854775805 is too high",
        ),
        (
            json!({"steps": [
                {"truncateFullyAndStartAt": {"offset": i64::MAX - 1}},
                {"append": {"records": [{}]}},
                {"append": {"records": [{}]}},
            ]}),
            "steps[2].append.records: does not fit",
        ),
        (
            json!({"steps": [
                {"truncateFullyAndStartAt": {"offset": i64::MAX}},
                {"endTxnMarker": {"producerId": 1, "controlType": "ABORT"}},
            ]}),
            "steps[1].endTxnMarker: does not fit",
        ),
    ]);
}

#[test]
fn what_is_no_utf_8_is_named() {
    let cases: [(&[u8], &str); 4] = [
        (
            b"\xef\xbb\xbf{\"steps\": []}",
            "begins with a UTF-8 byte order mark: save it as UTF-8 without",
        ),
        (
            b"\xff\xfe{\0}\0",
            "begins with the byte order mark of UTF-16",
        ),
        (
            b"{\n\"title\": \"caf\xe9\"}",
            "is not UTF-8: byte 0xe9 at position 15, in line 2",
        ),
        (b"{\"steps\": [}", "line 1 column 12"),
    ];
    for (scenario, message) in cases {
        kseg()
            .args(["write", "--check", "-"])
            .write_stdin(scenario)
            .assert()
            .code(2)
            .stderr(
                predicate::str::contains("standard input: ").and(predicate::str::contains(message)),
            );
    }
}

/// Offsets up to the last one there is, and the smallest indexes, through every step.
#[test]
fn the_limits_themselves_run() {
    let out = tempfile::tempdir().unwrap();
    let highest = json!({"autoHighWatermark": true, "steps": [
        {"truncateFullyAndStartAt": {"offset": i64::MAX - 4}},
        {"append": {"records": [{}], "producerId": 1, "producerEpoch": 0, "baseSequence": 0,
            "isTransactional": true}},
        {"roll": {}},
        {"appendAsFollower": {"batches": [{"baseOffset": i64::MAX - 3, "records": [{}]}]}},
        {"endTxnMarker": {"producerId": 1, "producerEpoch": 1, "controlType": "ABORT"}},
        {"append": {"records": [{}]}},
        {"takeProducerSnapshot": {}},
        {"flush": {}},
        {"roll": {}},
        {"reopen": {"clean": false}},
        {"deleteRecordsBefore": {"offset": -1}},
        {"deleteOldSegments": {}},
    ]});
    let small = json!({"config": {"segment.index.bytes": 12, "index.interval.bytes": 0},
        "steps": [{"append": {"records": [{}]}}, {"append": {"records": [{}, {}]}}, {"roll": {}},
            {"append": {"records": [{}]}}, {"reopen": {}}, {"append": {"records": [{}]}}]});
    for (name, scenario, log_end_offset) in [("highest", highest, i64::MAX), ("small", small, 5)] {
        let run = kseg()
            .args(["write", "-o", "ndjson", "-", "--out"])
            .arg(out.path().join(name))
            .write_stdin(scenario.to_string())
            .assert()
            .code(0);
        let rows = rows(&run.get_output().stdout);
        let state = &rows.last().unwrap()["state"];
        assert_eq!(state["logEndOffset"], log_end_offset, "{name}");
    }
}

#[test]
fn identities_no_broker_can_have_are_refused() {
    let out = tempfile::tempdir().unwrap();
    for arguments in [
        ["--directory-id", "AAAAAAAAAAAAAAAAAAAAAA"],
        // The last of the reserved ones: 99.
        ["--directory-id", "AAAAAAAAAAAAAAAAAAAAYw"],
        ["--cluster-id", ""],
        ["--node-id=-1", "-"],
    ] {
        kseg()
            .args(["write", "--root", "-", "--out"])
            .arg(out.path().join("new"))
            .args(arguments)
            .write_stdin("{\"steps\": []}")
            .assert()
            .code(2)
            .stderr(predicate::str::contains("invalid value"));
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    kseg()
        .args([
            "write",
            "--root",
            "-",
            "--directory-id",
            "AAAAAAAAAAAAAAAAAAAAZA",
            "--out",
        ])
        .arg(out.path().join("new"))
        .write_stdin("{\"steps\": []}")
        .assert()
        .success();
}

#[test]
fn directory_with_something_in_it_is_refused_and_left_alone() {
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("mine"), "x").unwrap();
    kseg()
        .args(["write", "-", "--out"])
        .arg(out.path())
        .write_stdin("{\"steps\": []}")
        .assert()
        .code(2)
        .stderr(predicate::str::contains("is not empty"));
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 1);
}

#[test]
fn what_a_killed_run_left_is_named() {
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(out.path().join(".kseg-write-incomplete")).unwrap();
    kseg()
        .args(["write", "-", "--out"])
        .arg(out.path())
        .write_stdin("{\"steps\": []}")
        .assert()
        .code(2)
        .stderr(predicate::str::contains(
            "holds .kseg-write-incomplete, of a run that was killed or is still at work: remove it if none is",
        ));
}

/// Two scenarios, of which the second fails after its steps: the log was not opened again after a
/// kill, and is to stop cleanly.
fn good_and_failing(folder: &Path) -> [PathBuf; 2] {
    let good = folder.join("good.json");
    let bad = folder.join("bad.json");
    let id = "a3NlZy1vZmZzZXRzLTAwMQ";
    let append = json!({"append": {"records": [{}]}});
    fs::write(
        &good,
        json!({"topic": "a", "topicId": id, "steps": [append]}).to_string(),
    )
    .unwrap();
    // Each append has a segment of its own; recovery wants two entries in an index for one.
    let config = json!({"segment.index.bytes": 12, "index.interval.bytes": 0});
    let two = json!({"appendAsFollower": {"batches": [
        {"baseOffset": 0, "records": [{}]},
        {"baseOffset": 1, "records": [{}]},
        {"baseOffset": 2, "records": [{}]},
    ]}});
    let reopen = json!({"reopen": {"clean": false, "recoveryPoint": 0}});
    fs::write(
        &bad,
        json!({"topic": "b", "config": config, "steps": [two, reopen]}).to_string(),
    )
    .unwrap();
    [good, bad]
}

#[test]
fn failure_in_the_middle_leaves_nothing() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("new");
    let scenarios = good_and_failing(out.path());
    kseg()
        .args(["write", "--root", "--out"])
        .arg(&dir)
        .args(&scenarios)
        .assert()
        .code(2)
        .stderr(predicate::str::contains("b-0: shutdown: the log is closed"));
    assert_eq!(
        fs::read_dir(out.path()).unwrap().count(),
        2,
        "only the scenarios"
    );
    // An empty directory stays one.
    fs::create_dir(&dir).unwrap();
    kseg()
        .args(["write", "--root", "--out"])
        .arg(&dir)
        .args(&scenarios)
        .assert()
        .code(2);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 3);
}

#[test]
fn json_is_whole_also_if_a_later_scenario_fails() {
    let out = tempfile::tempdir().unwrap();
    let run = kseg()
        .args(["write", "-o", "json", "--root", "--out"])
        .arg(out.path().join("new"))
        .args(good_and_failing(out.path()))
        .assert()
        .code(2);
    let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let topics: Vec<_> = document["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["topic"].clone())
        .collect();
    assert_eq!(topics, ["a", "b", "b"]);
    let last = document["results"].as_array().unwrap().last().unwrap();
    assert_eq!(last["verdict"], "rejected");
}

/// While a run is under way the directory is not there, or empty as it was; then it is whole.
#[test]
fn directory_comes_into_being_whole() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Stdio;

    let out = tempfile::tempdir().unwrap();
    let empty = out.path().join("empty");
    fs::create_dir(&empty).unwrap();
    fs::set_permissions(&empty, fs::Permissions::from_mode(0o750)).unwrap();
    for (dir, is_there) in [(empty.clone(), true), (out.path().join("a/b/new"), false)] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["write", "--out"])
            .arg(&dir)
            .args(["-o", "ndjson", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // More rows than a pipe takes: the run waits in the middle, and is killed there.
        let steps = vec![json!({"append": {"records": [{}]}}); 2000];
        let scenario = json!({ "steps": steps }).to_string();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(scenario.as_bytes())
            .unwrap();
        let staging = dir.parent().unwrap().join(format!(
            ".{}.kseg-write-incomplete",
            dir.file_name().unwrap().to_str().unwrap()
        ));
        while !staging.join("orders-0").exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(dir.exists(), is_there);
        assert!(!is_there || fs::read_dir(&dir).unwrap().next().is_none());
        let run = |code| {
            let run = kseg()
                .args(["write", "--out"])
                .arg(&dir)
                .arg("-")
                .write_stdin("{\"steps\": []}")
                .assert();
            run.code(code)
        };
        run(2).stderr(predicate::str::contains(
            "kseg-write-incomplete, of a run that was killed or is still at work: remove it if none is",
        ));
        fs::remove_dir_all(&staging).unwrap();
        let _ = run(0);
        assert!(dir.join("orders-0/partition.metadata").exists());
        assert!(!staging.exists());
    }
    let mode = fs::metadata(&empty).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

/// The directory one stands in is filled, not replaced.
#[test]
fn the_current_directory_is_filled_in_place() {
    let out = tempfile::tempdir().unwrap();
    kseg()
        .current_dir(out.path())
        .args(["write", "-", "--out", "."])
        .write_stdin("{\"steps\": []}")
        .assert()
        .success();
    assert!(out.path().join("orders-0").exists());
    assert!(!out.path().join(".kseg-write-incomplete").exists());
}

#[test]
fn root_takes_several_partitions_and_makes_a_log_directory() {
    let out = tempfile::tempdir().unwrap();
    let (a, b) = (out.path().join("a.json"), out.path().join("b.json"));
    fs::write(
        &a,
        "{\"partition\": 1, \"steps\": [{\"append\": {\"records\": [{}]}}]}",
    )
    .unwrap();
    fs::write(&b, "{\"steps\": [{\"append\": {\"records\": [{}, {}]}}]}").unwrap();
    let dir = out.path().join("root");
    kseg()
        .args(["write", "--root", "-o", "ndjson", "--node-id", "3", "--out"])
        .arg(&dir)
        .args([&a, &b])
        .assert()
        .success();
    let recovery = fs::read_to_string(dir.join("recovery-point-offset-checkpoint")).unwrap();
    assert_eq!(recovery, "0\n2\norders 0 2\norders 1 1\n");
    let properties = fs::read_to_string(dir.join("meta.properties")).unwrap();
    assert!(
        properties.contains("node.id=3") && properties.contains("cluster.id="),
        "{properties}"
    );
    assert!(dir.join(".kafka_cleanshutdown").exists());
    kseg().arg("ls").arg(&dir).assert().success();
    // The same partition twice, and several without --root.
    kseg()
        .args(["write", "--root", "--out"])
        .arg(out.path().join("twice"))
        .args([&a, &a])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("both make orders-1"));
    kseg()
        .args(["write", "--out"])
        .arg(out.path().join("two"))
        .args([&a, &b])
        .assert()
        .code(2)
        .stderr(predicate::str::contains("--root"));
}

#[test]
fn every_template_is_right_and_runs() {
    let out = tempfile::tempdir().unwrap();
    for template in TEMPLATES {
        let printed = kseg()
            .args(["write", "--example", template.name])
            .assert()
            .success();
        let text = &printed.get_output().stdout;
        assert_eq!(text, template.json.as_bytes());
        let scenario = Scenario::parse(text).unwrap();
        assert!(
            scenario.title.is_some() && scenario.about.is_some(),
            "{}",
            template.name
        );
        let ran = kseg()
            .args(["write", "-", "--out"])
            .arg(out.path().join(template.name))
            .write_stdin(template.json)
            .output()
            .unwrap();
        assert!(ran.status.code().unwrap() < 2, "{}: {ran:?}", template.name);
    }
}

#[test]
fn from_prints_a_scenario_and_names_what_it_cannot_say() {
    let case = case("abort-spanning-roll-writes-txnindex").join("orders-0");
    let printed = kseg()
        .args(["write", "--from"])
        .arg(&case)
        .assert()
        .success();
    let scenario = Scenario::parse(&printed.get_output().stdout).unwrap();
    assert_eq!(scenario.dir_name(), "orders-0");
    kseg()
        .args(["write", "--redact", "--from"])
        .arg(&case)
        .assert()
        .success()
        .stderr(predicate::str::contains("redacted"));
    let out = tempfile::tempdir().unwrap();
    let broken = out.path().join("orders-0");
    fs::create_dir(&broken).unwrap();
    let log = "00000000000000000000.log";
    let mut bytes = fs::read(case.join(log)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(broken.join(log), bytes).unwrap();
    kseg()
        .args(["write", "--from"])
        .arg(&broken)
        .assert()
        .code(2)
        .stdout("")
        .stderr(
            predicate::str::contains("batch at offset 0")
                .and(predicate::str::contains("checksum"))
                .and(predicate::str::contains(
                    "hint: what lies before it can be said",
                )),
        );
}

/// What is printed comes beside the files: they are made whether anybody reads it or not.
#[test]
fn a_closed_pipe_leaves_nothing_out() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("duplicate-of-6th-last-is-out-of-order");
    let text = fs::read(case.join("scenario.json")).unwrap();
    let mut scenario: Value = serde_json::from_slice(&text).unwrap();
    let steps = scenario["steps"].as_array_mut().unwrap();
    let last = steps.last().unwrap().clone();
    // More than a pipe holds.
    steps.extend(std::iter::repeat_n(last, 2000));
    let path = folder.path().join("long.json");
    fs::write(&path, scenario.to_string()).unwrap();
    let out = folder.path().join("new");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["write", "-o", "ndjson", "--out"])
        .args([&out, &path])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(1));
    let log = "orders-0/00000000000000000000.log";
    assert!(fs::metadata(out.join(log)).unwrap().len() > 0);
}
