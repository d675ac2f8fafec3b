//! Every record that Kafka's dump tool printed under `fixtures/`, printed by `kseg dump --records`
//! and compared field by field; those of internal topics and control records with its decoders.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a comparison picks the values it compares"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::files_below;
use common::kafka_dump::{self, Depth, Record, Row};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// `FIXTURE/expected/dump/P/F.deep.txt` belongs to `FIXTURE/data/P/F`, and
/// `FIXTURE/expected/NAME/dump/P/F.deep.txt` to `FIXTURE/NAME/P/F`.
fn pairs(suffix: &str) -> Vec<(PathBuf, PathBuf)> {
    let texts = files_below(&fixtures()).into_iter();
    texts
        .filter_map(|text| {
            let relative = text.strip_prefix(fixtures()).unwrap().to_str().unwrap();
            let relative = relative.strip_suffix(suffix)?;
            let parts: Vec<&str> = relative.split('/').collect();
            let data = match parts.as_slice() {
                [fixture, "expected", "dump", rest @ ..] => {
                    format!("{fixture}/data/{}", rest.join("/"))
                }
                [fixture, "expected", name, "dump", rest @ ..] => {
                    format!("{fixture}/{name}/{}", rest.join("/"))
                }
                _ => panic!("{relative}"),
            };
            Some((text.clone(), fixtures().join(data)))
        })
        .collect()
}

fn kseg(arguments: &[&str], path: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["dump", "-o", "ndjson", "--records"])
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

fn records(arguments: &[&str], path: &Path) -> Vec<Value> {
    let rows = rows(&kseg(arguments, path)).into_iter();
    rows.filter(|row| row["type"] == "record").collect()
}

/// The fields of a record that every version prints, and those that this one does.
fn expected(record: &Record) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("offset", json!(record.offset)),
        ("timestampType", json!(record.timestamp_type)),
        ("timestamp", json!(record.timestamp)),
        ("keySize", json!(record.key_size)),
        ("valueSize", json!(record.value_size)),
    ];
    if let Some(sequence) = record.sequence {
        fields.push(("sequence", json!(sequence)));
    }
    if let Some((kind, epoch)) = &record.end_txn_marker {
        fields.push(("controlType", json!(kind)));
        fields.push(("coordinatorEpoch", json!(epoch)));
    }
    fields
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    files: usize,
    records: usize,
    markers: usize,
    headers: usize,
    magic: BTreeMap<String, usize>,
    codecs: BTreeMap<String, usize>,
    /// Files at which Kafka's tool threw; what came before was compared.
    tool_exceptions: usize,
}

#[test]
fn every_record_is_as_kafkas_deep_dump_has_it() {
    let mut counts = Counts::default();
    let mut wrong = Vec::new();
    for (text, data) in pairs(".deep.txt").into_iter().chain(pairs(".decoded.txt")) {
        let name = text.strip_prefix(fixtures()).unwrap().display().to_string();
        let kafka =
            kafka_dump::parse(&fs::read_to_string(&text).unwrap(), Depth::of(&text)).unwrap();
        let threw = kafka.iter().any(|row| matches!(row, Row::ToolException(_)));
        let theirs: Vec<&Record> = kafka
            .iter()
            .filter_map(|row| match row {
                Row::Record(record) => Some(record),
                _ => None,
            })
            .collect();
        let ours = records(&[], &data);
        counts.files += 1;
        counts.tool_exceptions += usize::from(threw);
        if ours.len() < theirs.len() || (ours.len() > theirs.len() && !threw) {
            wrong.push(format!(
                "{name}: {} records, Kafka {}",
                ours.len(),
                theirs.len()
            ));
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            let headers = ours["headers"].as_array().unwrap().iter();
            let keys: Vec<&str> = headers
                .map(|header| header["key"].as_str().unwrap())
                .collect();
            let mut fields = expected(theirs);
            fields.retain(|(key, value)| ours[*key] != *value);
            if !fields.is_empty() || keys != theirs.header_keys {
                wrong.push(format!(
                    "{name}: {ours}: {fields:?} {:?}",
                    theirs.header_keys
                ));
            }
            counts.records += 1;
            counts.markers += usize::from(theirs.end_txn_marker.is_some());
            counts.headers += keys.len();
            *counts.magic.entry(ours["magic"].to_string()).or_default() += 1;
            let codec = ours["compressionType"].as_str().unwrap().to_owned();
            *counts.codecs.entry(codec).or_default() += 1;
        }
    }
    assert_eq!(wrong, [""; 0]);
    let named = |counts: &[(&str, usize)]| -> BTreeMap<String, usize> {
        let counts = counts.iter();
        counts
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    let all = Counts {
        files: 332,
        records: 16_516,
        markers: 1155,
        headers: 5580,
        magic: named(&[("0", 459), ("1", 503), ("2", 15_554)]),
        codecs: named(&[
            ("gzip", 853),
            ("lz4", 3074),
            ("none", 11_188),
            ("snappy", 823),
            ("zstd", 578),
        ]),
        tool_exceptions: 3,
    };
    assert_eq!(counts, all);
}

/// What the tool prints behind a record with the decoder of its topic.
fn decoded(row: &Value) -> String {
    if row["isControl"] == true {
        let data = &row["value"]["data"];
        return match row["controlType"].as_str().unwrap() {
            "LEADER_CHANGE" => format!("LeaderChange: {data}"),
            "SNAPSHOT_HEADER" => format!("SnapshotHeader {data}"),
            "SNAPSHOT_FOOTER" => format!("SnapshotFooter {data}"),
            _ => String::new(),
        };
    }
    let value = match &row["value"] {
        Value::Null => "<DELETE>".to_owned(),
        value => value.to_string(),
    };
    match &row["key"] {
        Value::Null => format!("payload: {value}"),
        key => format!("key: {key} payload: {value}"),
    }
}

#[test]
fn internal_topics_are_as_kafkas_decoders_have_them() {
    let mut compared: BTreeMap<String, usize> = BTreeMap::new();
    let mut old_text = 0;
    for (text, data) in pairs(".decoded.txt") {
        let kafka =
            kafka_dump::parse(&fs::read_to_string(&text).unwrap(), Depth::of(&text)).unwrap();
        let theirs = kafka.iter().filter_map(|row| match row {
            Row::Record(record) => Some(record.content.as_deref().unwrap_or_default()),
            _ => None,
        });
        for (ours, theirs) in records(&[], &data).iter().zip(theirs) {
            assert_eq!(ours["notDecoded"], Value::Null, "{}", data.display());
            // Before 4.1 the tool printed these in words of its own: tests/internal_topics.rs.
            if theirs.contains("transactionalId=") {
                old_text += 1;
                continue;
            }
            let theirs = kafka_dump::with_state_numbers(theirs);
            assert_eq!(decoded(ours), theirs, "{}", data.display());
            let topic = ours["topic"].as_str().unwrap().to_owned();
            *compared.entry(topic).or_default() += 1;
        }
    }
    let expected = [
        ("__cluster_metadata", 201),
        ("__consumer_offsets", 59),
        ("__share_group_state", 6),
        ("__transaction_state", 1231),
    ];
    let expected = expected.map(|(topic, records)| (topic.to_owned(), records));
    assert_eq!((compared, old_text), (BTreeMap::from(expected), 426));
}

/// As bytes: `{"utf8"}` of text, base64 or hex of the rest.
fn size(content: &Value) -> i64 {
    let length = |text: &Value| i64::try_from(text.as_str().unwrap().len()).unwrap();
    match content {
        Value::Null => -1,
        content if content["utf8"].is_string() => length(&content["utf8"]),
        content => length(&content["hex"]) / 2,
    }
}

#[test]
fn raw_records_have_all_their_bytes() {
    let mut records_seen = 0;
    for file in files_below(&fixtures()) {
        let name = file.file_name().unwrap().to_str().unwrap();
        if !name.ends_with(".log") && !name.ends_with(".checkpoint") {
            continue;
        }
        for row in records(&["--raw", "--bytes", "hex"], &file) {
            records_seen += 1;
            assert_eq!(row["keySize"], size(&row["key"]), "{row}");
            assert_eq!(row["valueSize"], size(&row["value"]), "{row}");
        }
    }
    assert!(records_seen > 15_000, "{records_seen}");
}

/// Group offsets as the expected files name them.
fn commit(row: &Value) -> Value {
    let key = &row["key"]["data"];
    json!({
        "group": key["group"],
        "topic": key["topic"],
        "partition": key["partition"],
        "offset": row["value"]["data"]["offset"],
    })
}

/// The incident's question: which offsets ride in the open transaction, which are committed.
#[test]
fn offsets_in_an_open_transaction_can_be_told_from_committed_ones() {
    let incident = fixtures().join("incidents/open-offset-commit");
    let expected = fs::read(incident.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let mut open: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
    let mut committed: BTreeMap<String, Value> = BTreeMap::new();
    let mut commits = |rows: Vec<Value>| {
        for row in rows {
            committed.insert(row["key"].to_string(), commit(&row));
        }
    };
    for row in records(&[], &incident.join("data/__consumer_offsets-0")) {
        let producer_id = row["producerId"].as_i64().unwrap();
        let is_offset = row["key"]["type"] == "1";
        match row["controlType"].as_str() {
            Some("COMMIT") => commits(open.remove(&producer_id).unwrap_or_default()),
            Some(_) => drop(open.remove(&producer_id)),
            None if is_offset && row["isTransactional"] == true => {
                open.entry(producer_id).or_default().push(row);
            }
            None if is_offset => commits(vec![row]),
            None => {}
        }
    }
    let mut open: Vec<Value> = open.values().flatten().map(commit).collect();
    open.sort_by_key(|it| it["partition"].as_i64());
    assert_eq!(json!(open), expected["offsetsInOpenTransactions"]);
    let mut committed: Vec<Value> = committed.into_values().collect();
    committed.sort_by_key(|it| it["partition"].as_i64());
    assert_eq!(json!(committed), expected["committedOffsets"]);
}

#[test]
fn decoders_and_sizes() {
    let log = fixtures().join("s02-txn-tv2/data/tx-0/00000000000000000000.log");
    let shown = |arguments: &[&str]| records(arguments, &log)[0]["key"].clone();
    assert_eq!(shown(&[]), json!({"utf8": "wide-key-4"}));
    assert_eq!(
        shown(&["--key-decoder", "string"]),
        json!({"utf8": "wide-key-4"})
    );
    assert_eq!(
        shown(&["--key-decoder", "long"]),
        json!({"utf8": "wide-key-4"})
    );
    assert_eq!(
        shown(&["--key-decoder", "bytes"]),
        json!({"base64": "d2lkZS1rZXktNA=="})
    );
    let sizes = &records(&["--sizes-only"], &log)[1];
    assert_eq!(
        (&sizes["key"], &sizes["keySize"]),
        (&Value::Null, &json!(11))
    );
    assert_eq!(sizes["headers"][0], json!({"key": "h2", "value": null}));
}

/// Damage inside a batch whose checksum is right: the records before it, then a row of damage.
#[test]
fn damage_inside_a_batch_is_a_row_and_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("00000000000000000000.log");
    let log = fixtures().join("s02-txn-tv2/data/tx-0/00000000000000000000.log");
    let whole = fs::read(log).unwrap();
    // The first batch has three records; its count now says four.
    let mut bytes = whole[..242].to_vec();
    bytes[60] = 4;
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes.extend_from_slice(&whole[242..564]);
    fs::write(&file, &bytes).unwrap();
    let output = kseg(&[], &file);
    assert_eq!(output.status.code(), Some(1));
    let rows = rows(&output);
    let kinds: Vec<&str> = rows
        .iter()
        .map(|row| row["type"].as_str().unwrap())
        .collect();
    let expected = [
        "batch", "record", "record", "record", "damage", "batch", "record", "record",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(rows[4]["kind"], "bad-records");
    assert_eq!(
        (&rows[4]["position"], &rows[4]["baseOffset"]),
        (&json!(0), &json!(0))
    );

    let limited = kseg(&["--max-batch-bytes", "100"], &file);
    assert_eq!(limited.status.code(), Some(1));
    let kinds: BTreeSet<String> = self::rows(&limited)
        .iter()
        .map(|row| row["kind"].to_string())
        .collect();
    let expected = ["null", "\"batch-over-limit\""].map(str::to_owned);
    assert_eq!(kinds, BTreeSet::from(expected));
}
