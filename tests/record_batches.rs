//! Batches that Kafka and its clients wrote: read record by record, and built again.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kseg::format::compression::{Decompressor, compress};
use kseg::format::control_record::EndTransactionMarker;
use kseg::format::legacy_record::LegacyRecord;
use kseg::format::legacy_record_set::LegacyRecordSet;
use kseg::format::record::RecordHeader;
use kseg::format::record_batch::{
    CompressionType, HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, MAGIC_POSITION, RecordBatchHeader,
    TimestampType,
};
use kseg::format::record_batch_builder::{
    BatchSettings, BuildError, EndTransactionBatch, RecordBatchBuilder, SimpleRecord,
    encode_empty_batch,
};
use kseg::format::record_batch_reader::RecordIterator;
use serde_json::Value;

const LIMIT: usize = 64 << 20;

/// All files below `directory` whose name contains `.log`, as deleted and swapped segments do.
fn logs(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            logs(&path, found);
        } else if name.contains(".log") && name.as_bytes()[0].is_ascii_digit() {
            found.push(path);
        }
    }
}

/// The entries of a log, as long as their sizes make sense.
fn entries(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.len() < HEADER_SIZE_UP_TO_MAGIC {
            return None;
        }
        let size = i32::from_be_bytes(rest[8..12].try_into().unwrap());
        let size = usize::try_from(size).ok().filter(|&size| size >= 14)? + 12;
        let (entry, behind) = rest.split_at_checked(size)?;
        rest = behind;
        Some(entry)
    })
}

fn sound_batch(entry: &[u8]) -> Option<(&RecordBatchHeader, &[u8])> {
    if entry[MAGIC_POSITION] != 2 {
        return None;
    }
    let header = RecordBatchHeader::ref_from(entry).unwrap();
    let records = &entry[HEADER_SIZE..];
    (header.compute_crc(records) == header.crc()).then_some((header, records))
}

#[derive(Debug, Default)]
#[allow(dead_code, reason = "printed")]
struct Counts {
    batches: usize,
    records: usize,
    payload_identical: usize,
    batch_identical: usize,
}

/// The batch built anew from its fields and records, at the default level. Other clients write
/// what Kafka's builder refuses, such as timestamps below -1.
fn rebuild(header: &RecordBatchHeader, plain: &[u8]) -> Result<Vec<u8>, BuildError> {
    let mut out = Vec::new();
    if header.records_count() == 0 {
        encode_empty_batch(header.fields(), &mut out)?;
        return Ok(out);
    }
    let attributes = header.attributes();
    let mut builder = RecordBatchBuilder::new(BatchSettings {
        base_offset: header.base_offset(),
        partition_leader_epoch: header.partition_leader_epoch(),
        compression_type: attributes.compression_type(),
        timestamp_type: attributes.timestamp_type(),
        log_append_time: header.max_timestamp(),
        delete_horizon_ms: header.delete_horizon_ms(),
        producer_id: header.producer_id(),
        producer_epoch: header.producer_epoch(),
        base_sequence: header.base_sequence(),
        is_transactional: attributes.is_transactional(),
        is_control_batch: attributes.is_control(),
        ..BatchSettings::default()
    })?;
    for record in RecordIterator::new(header, plain).unwrap() {
        let record = record.unwrap();
        let headers: Vec<RecordHeader<'_>> =
            record.record.header_iter().map(Result::unwrap).collect();
        // With LogAppendTime the deltas are still the client's.
        let base_timestamp = header.base_timestamp_or_delete_horizon();
        builder.append_with_offset(
            record.offset,
            &SimpleRecord {
                timestamp: base_timestamp + record.record.timestamp_delta,
                key: record.record.key,
                value: record.record.value,
                headers: &headers,
            },
        )?;
    }
    builder.override_last_offset(header.last_offset());
    builder.build(&mut out)?;
    Ok(out)
}

fn count_logs(root: &str, group: impl Fn(&Path) -> String) -> BTreeMap<String, Counts> {
    let mut paths = Vec::new();
    logs(Path::new(root), &mut paths);
    assert!(!paths.is_empty(), "{root} holds no log");
    let mut counts = BTreeMap::<String, Counts>::new();
    let mut decompressor = Decompressor::new();
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        for entry in entries(&bytes) {
            let Some((header, records)) = sound_batch(entry) else {
                continue;
            };
            let codec = header.attributes().compression_type();
            let key = format!("{} {}", group(&path), codec.name());
            let counts = counts.entry(key).or_default();
            let plain = decompressor
                .decompress(codec, 2, records, LIMIT)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            counts.batches += 1;
            for record in RecordIterator::new(header, plain).unwrap() {
                let record = record.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(record.offset <= header.last_offset());
                if header.attributes().timestamp_type() == TimestampType::LogAppendTime {
                    assert_eq!(record.timestamp, header.max_timestamp());
                }
                counts.records += 1;
            }
            let mut again = Vec::new();
            compress(codec, None, 2, plain, &mut again).unwrap();
            counts.payload_identical += usize::from(again == records);
            let plain = plain.to_vec();
            counts.batch_identical +=
                usize::from(rebuild(header, &plain).is_ok_and(|batch| batch == entry));
        }
    }
    counts
}

/// The scenarios' compressed batches come from Kafka's client classes or, where the broker
/// compresses, from the broker: all of Kafka's own making, so all must come out the same.
#[test]
fn batches_of_the_cases_are_built_identically() {
    let counts = count_logs("cases", |_| String::new());
    eprintln!("{counts:#?}");
    for (codec, counts) in &counts {
        assert_eq!(counts.payload_identical, counts.batches, "{codec}");
        assert_eq!(counts.batch_identical, counts.batches, "{codec}");
    }
    assert_eq!(counts.len(), 5);
}

#[test]
fn markers_of_the_cases_are_built_identically() {
    let mut paths = Vec::new();
    logs(Path::new("cases"), &mut paths);
    let mut count = 0;
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        for entry in entries(&bytes) {
            let Some((header, records)) = sound_batch(entry) else {
                continue;
            };
            let attributes = header.attributes();
            // On a LogAppendTime topic the leader has put its own time into the header.
            if !attributes.is_control()
                || header.records_count() == 0
                || attributes.timestamp_type() == TimestampType::LogAppendTime
            {
                continue;
            }
            let record = RecordIterator::new(header, records).unwrap().next();
            let record = record.unwrap().unwrap();
            let marker = EndTransactionMarker::decode(&record.record).unwrap();
            let batch = EndTransactionBatch {
                base_offset: header.base_offset(),
                partition_leader_epoch: header.partition_leader_epoch(),
                producer_id: header.producer_id(),
                producer_epoch: header.producer_epoch(),
                timestamp: record.timestamp,
                marker: marker.unwrap(),
            };
            let mut again = Vec::new();
            batch.encode(&mut again).unwrap();
            assert!(again == entry, "{}", path.display());
            count += 1;
        }
    }
    eprintln!("markers built, all identical: {count}");
    assert!(count > 100);
}

/// Fixtures hold batches of other clients and other Kafka versions, whose compressors may
/// differ: all are read, not all are built identically.
#[test]
fn batches_of_the_fixtures_are_read() {
    let counts = count_logs("fixtures", |path| {
        let mut names = path.components().skip(1);
        names
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap()
            .to_owned()
    });
    for (name, counts) in &counts {
        eprintln!("{name}: {counts:?}");
        if name.ends_with("none") {
            assert_eq!(counts.payload_identical, counts.batches, "{name}");
        }
    }
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        assert!(counts.keys().any(|name| name.ends_with(codec)), "{codec}");
    }
}

#[test]
fn legacy_entries_of_the_fixtures_are_read() {
    let mut paths = Vec::new();
    logs(Path::new("fixtures"), &mut paths);
    let mut decompressor = Decompressor::new();
    let mut counts = BTreeMap::<String, (usize, usize)>::new();
    for path in paths {
        let bytes = fs::read(&path).unwrap();
        for entry in entries(&bytes).filter(|entry| entry[MAGIC_POSITION] < 2) {
            let entry = LegacyRecord::decode(entry).unwrap();
            let codec = entry.header.compression_type();
            let set = LegacyRecordSet::new(entry, &mut decompressor, LIMIT).unwrap();
            let mut last = None;
            let key = format!("magic {} {}", entry.header.magic(), codec.name());
            let counts = counts.entry(key).or_default();
            counts.0 += 1;
            for record in set {
                let record = record.unwrap();
                assert!(record.is_valid());
                assert!(last.is_none_or(|last| last < record.offset));
                last = Some(record.offset);
                counts.1 += 1;
            }
            assert_eq!(last, Some(entry.header.offset()));
        }
    }
    eprintln!("entries and messages: {counts:#?}");
    assert!(counts.len() >= 6, "{counts:?}");
}

/// A key, a value or a header value of a scenario.
fn scenario_bytes(value: &Value) -> Option<Vec<u8>> {
    if value.is_null() {
        None
    } else if let Some(text) = value.as_str() {
        Some(text.as_bytes().to_vec())
    } else {
        Some(base64(value["base64"].as_str().unwrap()))
    }
}

fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.bytes().filter(|&byte| byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            other => panic!("{other} is not base64"),
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    out
}

type OwnedHeaders = Vec<(String, Option<Vec<u8>>)>;

/// The batch as a client sends it.
fn build_append(append: &Value, clock: i64) -> Vec<u8> {
    let codec = append["compression"].as_str().unwrap_or("none");
    let codec = (0..=4)
        .map(CompressionType)
        .find(|known| known.name() == codec)
        .unwrap();
    let number = |name: &str| append[name].as_i64().unwrap_or(-1);
    let mut builder = RecordBatchBuilder::new(BatchSettings {
        compression_type: codec,
        producer_id: number("producerId"),
        producer_epoch: i16::try_from(number("producerEpoch")).unwrap(),
        base_sequence: i32::try_from(number("baseSequence")).unwrap(),
        is_transactional: append["isTransactional"].as_bool().unwrap_or(false),
        ..BatchSettings::default()
    })
    .unwrap();
    for record in append["records"].as_array().unwrap() {
        let headers: OwnedHeaders = record["headers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|header| {
                let key = header["key"].as_str().unwrap().to_owned();
                (key, scenario_bytes(&header["value"]))
            })
            .collect();
        let headers: Vec<RecordHeader<'_>> = headers
            .iter()
            .map(|(key, value)| RecordHeader {
                key: key.as_bytes(),
                value: value.as_deref(),
            })
            .collect();
        builder
            .append(&SimpleRecord {
                timestamp: record["timestamp"].as_i64().unwrap_or(clock),
                key: scenario_bytes(&record["key"]).as_deref(),
                value: scenario_bytes(&record["value"]).as_deref(),
                headers: &headers,
            })
            .unwrap();
    }
    let mut out = Vec::new();
    builder.build(&mut out).unwrap();
    out
}

#[test]
fn encoded_records_of_the_scenarios_are_encoded_identically() {
    let index: Value =
        serde_json::from_str(&fs::read_to_string("cases/index.json").unwrap()).unwrap();
    let mut counts = BTreeMap::<String, usize>::new();
    for case in index["cases"].as_array().unwrap() {
        let path = format!("cases/{}/scenario.json", case["path"].as_str().unwrap());
        let scenario: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let mut clock = scenario["startTimeMs"]
            .as_i64()
            .unwrap_or(1_700_000_000_000);
        for step in scenario["steps"].as_array().unwrap() {
            if let Some(ms) = step["advanceClock"]["ms"].as_i64() {
                clock += ms;
            }
            let mut appends = vec![&step["append"]];
            if let Some(batches) = step["appendAsFollower"]["batches"].as_array() {
                appends.extend(batches);
            }
            for append in appends {
                let Some(encoded) = append["encodedRecords"]["base64"].as_str() else {
                    continue;
                };
                let batch = build_append(append, clock);
                assert!(batch[HEADER_SIZE..] == base64(encoded), "{path}: {append}");
                let codec = append["compression"].as_str().unwrap_or("none");
                *counts.entry(codec.to_owned()).or_default() += 1;
            }
        }
    }
    eprintln!("batches encoded, all identical: {counts:?}");
    assert!(counts.len() >= 4, "{counts:?}");
}
