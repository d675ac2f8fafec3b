//! The schema tables and their interpreter, compared with Kafka's generated classes.
//!
//! `tests/oracle/schemas` prints random messages of every type and version, and what Kafka 4.3.1
//! reads in their bytes; `tests/data/schemas/kafka-4.3.1.tsv` is a selection of such lines,
//! for machines without a JVM. `scripts/differential-schemas` makes new ones and puts them through
//! the ignored test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;

use kseg::format::internal_topic::{Decoded, InternalTopic, Undecoded, decode_record};
use kseg::format::schema;
use serde_json::Value;

const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/schemas/kafka-4.3.1.tsv"
);

/// How much was compared.
#[derive(Debug, Default)]
struct Compared {
    exact: usize,
    unknown_tags: usize,
    explicit_defaults: usize,
    damaged_read: usize,
    damaged_refused: usize,
    records: usize,
    records_refused: usize,
    /// Records that Kafka reads as the newest version it knows; see [`same_part`].
    later_versions: usize,
    /// Name and version of every message that came.
    versions: BTreeSet<(String, i16)>,
}

#[test]
fn golden_messages_are_read_and_written_as_kafka_does() {
    let compared = compare(&fs::read_to_string(GOLDEN).unwrap());
    assert!(compared.damaged_read > 0 && compared.damaged_refused > 0);
    assert!(compared.exact > 0 && compared.unknown_tags > 0 && compared.explicit_defaults > 0);
    assert!(compared.records > 0 && compared.records_refused > 0);
}

#[test]
#[cfg(feature = "differential")]
#[expect(clippy::print_stdout, reason = "the script shows what was compared")]
fn random_messages_are_read_and_written_as_kafka_does() {
    let file = env::var_os("KSEG_SCHEMAS")
        .unwrap_or_else(|| panic!("KSEG_SCHEMAS is not set: run scripts/differential-schemas"));
    let compared = compare(&fs::read_to_string(file).unwrap());
    let versions = compared.versions.len();
    println!(
        "equal, {versions} versions of messages: {:?}",
        Compared {
            versions: BTreeSet::new(),
            ..compared
        }
    );
}

/// Fails with the first differences, and if types or versions are missing on either side.
fn compare(lines: &str) -> Compared {
    let mut compared = Compared::default();
    let mut failures = Vec::new();
    for (index, line) in lines.lines().enumerate() {
        let columns: Vec<&str> = line.split('\t').collect();
        let result = match columns[..] {
            ["message", kind, name, version, taken, hex, json] => {
                let version = version.parse().unwrap();
                compared.versions.insert((name.to_owned(), version));
                compare_message(&mut compared, kind, name, version, taken, &bytes(hex), json)
            }
            ["record", kind, topic, key, value, key_json, value_json] => {
                let topic = InternalTopic::from_name(topic).unwrap();
                let key = (key != "-").then(|| bytes(key));
                let value = (value != "-").then(|| bytes(value));
                let record = decode_record(topic, key.as_deref(), value.as_deref());
                assert!(kind == "damaged" || key_json != "!", "{line}");
                compare_part(
                    &mut compared,
                    &record.key,
                    key_json,
                    &record.value,
                    value_json,
                )
            }
            _ => panic!("line {} has no known form: {line}", index + 1),
        };
        if let Err(difference) = result {
            failures.push(format!("line {}: {difference}\n  {line}", index + 1));
        }
    }
    assert!(
        failures.is_empty(),
        "{} differences from Kafka, the first:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    let tables: BTreeSet<(String, i16)> = schema::messages()
        .flat_map(|m| (m.versions.first..=m.versions.last).map(|v| (m.name.to_owned(), v)))
        .collect();
    assert_eq!(
        compared.versions, tables,
        "types and versions in Kafka, in the tables"
    );
    compared
}

fn compare_message(
    compared: &mut Compared,
    kind: &str,
    name: &str,
    version: i16,
    taken: &str,
    bytes: &[u8],
    json: &str,
) -> Result<(), String> {
    let message = schema::messages().find(|message| message.name == name);
    let message = message.ok_or("no such message")?;
    let decoded = message.decode(bytes, version);
    if json == "!" {
        compared.damaged_refused += 1;
        return match decoded {
            Ok((decoded, _)) => Err(format!("read as {decoded}")),
            Err(_) => Ok(()),
        };
    }
    let (decoded, size) = decoded.map_err(|error| error.to_string())?;
    same(&decoded, json)?;
    if size.to_string() != taken {
        return Err(format!("took {size} bytes"));
    }
    let expected: Value = serde_json::from_str(json).unwrap();
    let encoded = message
        .encode(&expected, version)
        .map_err(|e| e.to_string())?;
    match kind {
        "exact" => {
            compared.exact += 1;
            if encoded != bytes {
                return Err(format!("written as {}", hex(&encoded)));
            }
        }
        // Unknown tagged fields are gone, and with them what made a struct differ from its default.
        "unknown-tags" | "explicit-default" | "damaged" => {
            match kind {
                "unknown-tags" => compared.unknown_tags += 1,
                "explicit-default" => compared.explicit_defaults += 1,
                _ => compared.damaged_read += 1,
            }
            let (again, size) = message
                .decode(&encoded, version)
                .map_err(|e| e.to_string())?;
            if size != encoded.len() || message.encode(&again, version).as_ref() != Ok(&encoded) {
                return Err(format!("written as {}, which says {again}", hex(&encoded)));
            }
        }
        _ => panic!("kind {kind}"),
    }
    Ok(())
}

fn compare_part(
    compared: &mut Compared,
    key: &Decoded,
    key_json: &str,
    value: &Decoded,
    value_json: &str,
) -> Result<(), String> {
    if key_json == "!" {
        compared.records_refused += 1;
        // The tool shows neither part of a record; kseg shows the one it can read.
        let raw = |part: &Decoded| matches!(part, Decoded::Raw(_));
        return match raw(key) || raw(value) {
            true => Ok(()),
            false => Err(format!("read as {key:?} {value:?}")),
        };
    }
    compared.records += 1;
    // Kafka's reader of metadata records takes any later version for the newest it knows.
    if let (Decoded::Null, Decoded::Raw(Undecoded::UnknownVersion { .. })) = (key, value) {
        compared.later_versions += 1;
        return Ok(());
    }
    same_part(key, key_json)?;
    same_part(value, value_json)
}

fn same_part(part: &Decoded, json: &str) -> Result<(), String> {
    match part {
        Decoded::Null if json == "-" => Ok(()),
        Decoded::Json(value) if json != "-" => same(value, json),
        Decoded::Null | Decoded::Json(_) => Err(format!("read as {part:?}")),
        Decoded::Raw(reason) => Err(format!("not read: {reason}")),
    }
}

/// Equal values, in the same order.
fn same(decoded: &Value, json: &str) -> Result<(), String> {
    let expected: Value = serde_json::from_str(json).unwrap();
    // As text, for the order counts. Numbers and escapes then have one form on both sides.
    let (decoded, expected) = (decoded.to_string(), expected.to_string());
    if decoded == expected {
        Ok(())
    } else {
        Err(format!("read as {decoded}"))
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2) && hex.is_ascii());
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
