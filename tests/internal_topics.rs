//! Records of internal topics, compared with what kafka-dump-log printed of the same files.
//!
//! Every `*.decoded.txt` among the fixtures is the tool's answer with the decoder of its topic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use common::kafka_dump;
use kseg::format::control_record::ControlRecordType;
use kseg::format::internal_topic::{Decoded, DecodedRecord, InternalTopic, decode_record};
use kseg::format::record::Record;
use kseg::format::record_batch::{HEADER_SIZE, RecordBatchHeader};
use kseg::format::schema::kraft_control;
use serde_json::Value;

/// What was compared, so that a test that compares nothing fails.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    files: usize,
    /// Records by topic.
    records: BTreeMap<&'static str, usize>,
    /// Records of `__transaction_state` whose text is that of the tool before 4.1.
    old_text: usize,
    control_records: usize,
}

#[test]
fn every_record_of_the_fixtures_is_decoded_as_kafka_decodes_it() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut counts = Counts::default();
    for text in decoded_texts(&fixtures) {
        counts.files += 1;
        compare_file(&text, &mut counts);
    }
    assert_eq!(
        counts,
        Counts {
            files: 46,
            records: BTreeMap::from([
                ("__cluster_metadata", 196),
                ("__consumer_offsets", 42),
                ("__share_group_state", 6),
                ("__transaction_state", 1657),
            ]),
            old_text: 426,
            control_records: 22,
        }
    );
}

/// Brokers from 0.11 to 4.3.1 wrote these; the tool has not decoded all of them.
#[test]
fn no_record_of_an_internal_topic_in_the_fixtures_stays_raw() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut records: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files_below(&fixtures, &[".log", ".checkpoint"]) {
        let partition = file_name(file.parent().unwrap());
        let name = partition
            .rsplit_once('-')
            .map_or(partition, |(topic, _)| topic);
        let topic = match InternalTopic::from_name(name) {
            Some(topic) => topic,
            None if file.ends_with("bootstrap.checkpoint") => InternalTopic::ClusterMetadata,
            None => continue,
        };
        for_each_record(&fs::read(&file).unwrap(), |is_control, offset, record| {
            let decoded = decode_record(topic, record.key, record.value);
            let raw = |part: &Decoded| matches!(part, Decoded::Raw(_));
            assert!(
                is_control || !raw(&decoded.key) && !raw(&decoded.value),
                "{} offset {offset}: {decoded:?}",
                file.display()
            );
            *records.entry(topic.name()).or_default() += usize::from(!is_control);
        });
    }
    let expected = [
        ("__cluster_metadata", 531),
        ("__consumer_offsets", 50),
        ("__share_group_state", 6),
        ("__transaction_state", 1725),
    ];
    assert_eq!(records, BTreeMap::from(expected));
}

fn decoded_texts(fixtures: &Path) -> Vec<PathBuf> {
    files_below(fixtures, &[".decoded.txt"])
}

fn file_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn files_below(fixtures: &Path, suffixes: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![fixtures.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if suffixes
                .iter()
                .any(|suffix| file_name(&path).ends_with(suffix))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `S/expected/dump/PARTITION/FILE.decoded.txt` is about `S/data/PARTITION/FILE`, and
/// `S/expected/recovered/dump/..` about `S/recovered/..`.
fn data_of(text: &Path) -> PathBuf {
    let path = text.to_str().unwrap().strip_suffix(".decoded.txt").unwrap();
    PathBuf::from(match path.split_once("/expected/recovered/dump/") {
        Some((fixture, file)) => format!("{fixture}/recovered/{file}"),
        None => path.replace("/expected/dump/", "/data/"),
    })
}

fn compare_file(text: &Path, counts: &mut Counts) {
    let mut lines = record_lines(&fs::read_to_string(text).unwrap());
    let partition = file_name(text.parent().unwrap());
    let (topic, _) = partition.rsplit_once('-').unwrap();
    let topic = InternalTopic::from_name(topic).unwrap();
    let data = fs::read(data_of(text)).unwrap();
    for_each_record(&data, |is_control, offset, record| {
        let at = format!("{} offset {offset}", text.display());
        let line = lines.remove(&offset);
        let line = line.unwrap_or_else(|| panic!("{at} is not in the text"));
        if is_control {
            counts.control_records += 1;
            compare_control_record(record, &line, &at);
        } else {
            *counts.records.entry(topic.name()).or_default() += 1;
            counts.old_text += usize::from(line.contains("transactionalId="));
            compare_record(&decode_record(topic, record.key, record.value), &line, &at);
        }
    });
    assert!(
        lines.is_empty(),
        "{}: not in the data: {lines:?}",
        text.display()
    );
}

/// Calls with whether a record is a control record, with its offset and with the record itself.
fn for_each_record(data: &[u8], mut visit: impl FnMut(bool, i64, &Record<'_>)) {
    let mut rest = data;
    while !rest.is_empty() {
        let header = RecordBatchHeader::ref_from(rest).unwrap();
        assert_eq!(header.magic(), 2);
        assert_eq!(header.attributes().compression_type().name(), "none");
        let size = usize::try_from(header.size_in_bytes()).unwrap();
        let mut records = &rest[HEADER_SIZE..size];
        while !records.is_empty() {
            let (record, size) = Record::decode(records).unwrap();
            let offset = header.base_offset() + i64::from(record.offset_delta);
            visit(header.attributes().is_control(), offset, &record);
            records = &records[size..];
        }
        rest = &rest[size..];
    }
}

/// What the tool printed behind the header keys of each record, by offset.
fn record_lines(text: &str) -> BTreeMap<i64, String> {
    let mut lines = BTreeMap::new();
    for line in text.lines() {
        let line = line.strip_prefix("| ").unwrap_or(line);
        if let Some((before, after)) = line.split_once("headerKeys: [] ") {
            let offset = before.strip_prefix("offset: ").unwrap();
            let offset = offset.split_once(' ').unwrap().0.parse().unwrap();
            assert_eq!(lines.insert(offset, after.to_owned()), None, "{line}");
        }
    }
    lines
}

fn compare_record(record: &DecodedRecord, line: &str, at: &str) {
    let line = kafka_dump::with_state_numbers(line);
    let (key, payload) = line.split_once("payload: ").expect(&line);
    let key = key.trim_end().strip_prefix("key: ");
    if line.contains("transactionalId=") {
        let key = key.unwrap().trim_start_matches("transaction_metadata::");
        compare_old_text(record, key, payload, at);
        return;
    }
    match (&record.key, key) {
        (Decoded::Null, None) => {}
        (Decoded::Json(decoded), Some(text)) => assert_eq!(decoded.to_string(), text, "{at}"),
        other => panic!("{at}: {other:?}"),
    }
    match &record.value {
        Decoded::Null => assert_eq!(payload, "<DELETE>", "{at}"),
        Decoded::Json(decoded) => assert_eq!(decoded.to_string(), payload, "{at}"),
        Decoded::Raw(reason) => panic!("{at}: {reason}"),
    }
}

/// Before 4.1 the tool printed transactional ids in words of its own.
fn compare_old_text(record: &DecodedRecord, key: &str, payload: &str, at: &str) {
    let (Decoded::Json(decoded_key), Decoded::Json(value)) = (&record.key, &record.value) else {
        panic!("{at}: {record:?}");
    };
    let id = decoded_key["data"]["transactionalId"].as_str().unwrap();
    assert_eq!(format!("transactionalId={id}"), key, "{at}");
    let data = &value["data"];
    let states = kafka_dump::TRANSACTION_STATES;
    let state = states[usize::try_from(data["transactionStatus"].as_u64().unwrap()).unwrap()];
    // Which collection the partitions are in, and in what order, depends on the version.
    let (before, rest) = payload.split_once(",partitions=").unwrap();
    let (partitions, after) = rest.split_once(",txnLastUpdateTimestamp").unwrap();
    assert_eq!(
        format!(
            "producerId:{},producerEpoch:{},state={state}",
            data["producerId"], data["producerEpoch"]
        ),
        before,
        "{at}"
    );
    assert_eq!(
        format!(
            "={},txnTimeoutMs={}",
            data["transactionLastUpdateTimestampMs"], data["transactionTimeoutMs"]
        ),
        after,
        "{at}"
    );
    assert_eq!(
        partition_names(data),
        partition_names_of_text(partitions),
        "{at}"
    );
}

fn partition_names(data: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for topic in data["transactionPartitions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        for id in topic["partitionIds"].as_array().unwrap() {
            names.insert(format!("{}-{id}", topic["topic"].as_str().unwrap()));
        }
    }
    names
}

fn partition_names_of_text(text: &str) -> BTreeSet<String> {
    let begin = text.find(['[', '(']).unwrap();
    text[begin + 1..text.len() - 1]
        .split([',', ' '])
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

fn compare_control_record(record: &Record<'_>, line: &str, at: &str) {
    let control_type = ControlRecordType::decode_key(record.key.unwrap()).unwrap();
    let value = record.value.unwrap();
    let message = kraft_control::value_message(control_type).unwrap();
    // The tool's words before the JSON, and the bytes of a version before the message.
    let (text, skipped) = match control_type {
        ControlRecordType::COMMIT | ControlRecordType::ABORT => ("endTxnMarker: ", 2),
        ControlRecordType::LEADER_CHANGE => ("LeaderChange: ", 0),
        ControlRecordType::SNAPSHOT_HEADER => ("SnapshotHeader ", 0),
        ControlRecordType::SNAPSHOT_FOOTER => ("SnapshotFooter ", 0),
        other => panic!("{at}: {}", other.name()),
    };
    let (decoded, size) = message.decode(&value[skipped..], 0).unwrap();
    assert_eq!(size + skipped, value.len(), "{at}");
    let shown = match skipped {
        0 => decoded.to_string(),
        _ => format!(
            "{} coordinatorEpoch: {}",
            control_type.name(),
            decoded["coordinatorEpoch"]
        ),
    };
    assert_eq!(format!("{text}{shown}"), line, "{at}");
}
