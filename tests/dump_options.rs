//! `docs/dump-parity.md` names options, keys and tests that are there, and every option of
//! `kafka-dump-log` 4.3.1; and what `dump --max-bytes` does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// `kafka-dump-log --help`, 4.3.1.
const KAFKA_OPTIONS: [&str; 17] = [
    "--cluster-metadata-decoder",
    "--deep-iteration",
    "--files",
    "--help",
    "--index-sanity-check",
    "--key-decoder-class",
    "--max-bytes",
    "--max-message-size",
    "--offsets-decoder",
    "--print-data-log",
    "--remote-log-metadata-decoder",
    "--share-group-state-decoder",
    "--skip-record-metadata",
    "--transaction-log-decoder",
    "--value-decoder-class",
    "--verify-index-only",
    "--version",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn kseg(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(arguments)
        .env_clear()
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of the table below a heading, as cells; a bar inside code is none.
fn table(text: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, below) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let below = below.split("\n## ").next().unwrap();
    let rows = below.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|line| {
        let mut cells = vec![String::new()];
        let mut in_code = false;
        for letter in line.trim_matches('|').chars() {
            in_code ^= letter == '`';
            if letter == '|' && !in_code {
                cells.push(String::new());
            } else {
                cells.last_mut().unwrap().push(letter);
            }
        }
        cells.iter().map(|cell| cell.trim().to_owned()).collect()
    })
    .collect()
}

/// What stands between backticks.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn parity() -> String {
    fs::read_to_string(root().join("docs/dump-parity.md")).unwrap()
}

#[test]
fn every_option_of_kafkas_tool_is_in_the_table() {
    let table = table(&parity(), "Options");
    let options: BTreeSet<&str> = table.iter().flat_map(|row| code(&row[0])).collect();
    assert_eq!(options, BTreeSet::from(KAFKA_OPTIONS));
}

#[test]
fn options_and_tests_in_the_table_exist() {
    let mut options = 0;
    for row in table(&parity(), "Options") {
        if row[1] == "missing" {
            continue;
        }
        let command = code(&row[1])[0].strip_prefix("kseg").unwrap();
        let mut words: Vec<&str> = command.split_whitespace().collect();
        let is_subcommand = words.first().is_some_and(|word| !word.starts_with('-'));
        let subcommand = is_subcommand.then(|| words.remove(0));
        let help = match subcommand {
            Some(subcommand) => kseg(&[subcommand, "--help"]),
            None => kseg(&["--help"]),
        };
        let others = code(&row[2])
            .into_iter()
            .filter(|word| word.starts_with("--"));
        for option in words.into_iter().chain(others) {
            let ends = [" ", "\n", "="].map(|end| format!("{option}{end}"));
            assert!(ends.iter().any(|it| help.contains(it)), "{option}: {help}");
            options += 1;
        }
        if let [file] = code(&row[3])[..] {
            let name = row[3].rsplit(' ').next().unwrap();
            let source = fs::read_to_string(root().join(file)).unwrap();
            assert!(source.contains(&format!("fn {name}()")), "{file}: {name}");
        }
    }
    assert!(options > 20, "{options}");
}

/// All property names in a schema.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(properties) = fields.get("properties").and_then(Value::as_object) {
                found.extend(properties.keys().cloned());
            }
            fields.values().for_each(|field| keys(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn keys_in_the_table_exist() {
    let schema = serde_json::from_str(&kseg(&["schema", "dump"])).unwrap();
    let mut known = BTreeSet::new();
    keys(&schema, &mut known);
    let mut named = 0;
    for row in table(&parity(), "Output") {
        for key in code(&row[1]) {
            assert!(known.contains(key), "{key}");
            named += 1;
        }
    }
    assert!(named > 50, "{named}");
}

fn log() -> PathBuf {
    root().join("fixtures/s02-txn-tv2/data/tx-0/00000000000000000000.log")
}

#[test]
fn max_bytes_ends_before_a_batch_that_reaches_further() {
    let log = log();
    let log = log.to_str().unwrap();
    let batches = |max_bytes: &str| {
        let text = kseg(&["dump", "-o", "ndjson", "--max-bytes", max_bytes, log]);
        text.lines().count()
    };
    // The first batch ends at 242, the second at 564.
    let counts = ["0", "241", "242", "563", "564"].map(batches);
    assert_eq!(counts, [0, 0, 1, 1, 2]);
}
