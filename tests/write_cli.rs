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
                .stderr(predicate::str::contains(message));
        }
    }
    kseg()
        .args(["write", "--check", "-"])
        .write_stdin("{\"steps\": [], \"steps\": []}")
        .assert()
        .code(2)
        .stderr(predicate::str::contains("field \"steps\" comes twice"));
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
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
            "holds .kseg-write-incomplete, left by a run that was killed: remove it first",
        ));
}

#[test]
fn failure_in_the_middle_leaves_nothing() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().join("new");
    // The longest topic a broker takes; the directory of partition 10000000 has too long a name.
    let scenario = json!({"topic": "t".repeat(249), "partition": 10_000_000, "steps": []});
    let good = out.path().join("good.json");
    let bad = out.path().join("bad.json");
    fs::write(
        &good,
        "{\"topic\": \"a\", \"topicId\": \"a3NlZy1vZmZzZXRzLTAwMQ\", \"steps\": []}",
    )
    .unwrap();
    fs::write(&bad, scenario.to_string()).unwrap();
    kseg()
        .args(["write", "--root", "--out"])
        .arg(&dir)
        .args([&good, &bad])
        .assert()
        .code(2);
    assert!(!dir.exists());
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
            predicate::str::contains("batch at offset 0").and(predicate::str::contains("checksum")),
        );
}
