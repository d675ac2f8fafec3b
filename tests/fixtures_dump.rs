//! Every file that Kafka's dump tool printed under `fixtures/`, printed by `kseg dump` and
//! compared field by field.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::dump_compare::{Counts, compare, kseg_dump};
use common::files_below;
use common::kafka_dump::{self, Depth, Row};

/// A text of Kafka's dump tool and the file it was printed from.
struct Pair {
    text: PathBuf,
    data: PathBuf,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// `FIXTURE/expected/dump/P/F.txt` belongs to `FIXTURE/data/P/F`, and
/// `FIXTURE/expected/NAME/dump/P/F.txt` to `FIXTURE/NAME/P/F`.
fn pairs() -> Vec<Pair> {
    files_below(&fixtures())
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "txt"))
        .filter_map(|text| {
            let relative = text.strip_prefix(fixtures()).unwrap().to_str().unwrap();
            let parts: Vec<&str> = relative.split('/').collect();
            let (fixture, name, partition, file) = match parts.as_slice() {
                [fixture, "expected", "dump", partition, file] => {
                    (fixture, "data", partition, file)
                }
                [fixture, "expected", name, "dump", partition, file] => {
                    (fixture, *name, partition, file)
                }
                _ => return None,
            };
            let file = file.strip_suffix(".txt").unwrap();
            let file = file.strip_suffix(".deep").unwrap_or(file);
            let file = file.strip_suffix(".decoded").unwrap_or(file);
            let data = fixtures()
                .join(fixture)
                .join(name)
                .join(partition)
                .join(file);
            Some(Pair { text, data })
        })
        .collect()
}

#[test]
fn every_line_of_kafkas_dumps_is_understood() {
    let mut lines = 0;
    let mut batches = 0;
    let mut records = 0;
    for pair in pairs() {
        let text = fs::read_to_string(&pair.text).unwrap();
        let rows = kafka_dump::parse(&text, Depth::of(&pair.text))
            .unwrap_or_else(|e| panic!("{}: {e}", pair.text.display()));
        lines += rows.len();
        batches += rows
            .iter()
            .filter(|row| matches!(row, Row::Batch(_)))
            .count();
        records += rows
            .iter()
            .filter(|row| matches!(row, Row::Record(_)))
            .count();
    }
    assert_eq!((lines, batches, records), (35_362, 12_584, 16_516));
}

#[test]
fn every_dump_has_its_file_and_every_file_its_dump() {
    let pairs = pairs();
    let dumped: BTreeSet<&Path> = pairs.iter().map(|pair| pair.data.as_path()).collect();
    let mut logs = BTreeSet::new();
    for data in &dumped {
        assert!(data.is_file(), "{} is not there", data.display());
        logs.extend(data.parent().and_then(Path::parent));
    }
    let kinds = ["log", "index", "timeindex", "txnindex", "snapshot"];
    for file in logs.into_iter().flat_map(files_below) {
        let kind = file
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        assert!(
            !kinds.contains(&kind) || dumped.contains(file.as_path()),
            "{} has no dump of Kafka's",
            file.display()
        );
    }
}

#[test]
fn kseg_prints_what_kafka_printed() {
    let kseg = Path::new(env!("CARGO_BIN_EXE_kseg"));
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for pair in pairs() {
        let text = fs::read_to_string(&pair.text).unwrap();
        let result = kseg_dump(kseg, &pair.data)
            .map_err(|e| vec![e])
            .and_then(|rows| compare(&pair.data, &text, Depth::of(&pair.text), &rows));
        match result {
            Ok(more) => counts += more,
            Err(differences) => {
                let name = pair.text.strip_prefix(fixtures()).unwrap();
                failures.extend(
                    differences
                        .iter()
                        .map(|d| format!("{}: {d}", name.display())),
                );
            }
        }
    }
    let shown: Vec<&str> = failures.iter().take(60).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} differences from Kafka:\n{}",
        failures.len(),
        shown.join("\n")
    );
    // Whoever adds a fixture raises these; nothing may lower them.
    let expected = Counts {
        files: 1604,
        batches: 12_088,
        legacy_entries: 496,
        invalid_batches: 8,
        records: 16_516,
        control_records: 1161,
        offset_index_entries: 1286,
        time_index_entries: 1288,
        aborted_txns: 338,
        producer_snapshot_entries: 765,
        invalid_tails: 3,
        corrupt_snapshots: 1,
        tool_exceptions: 9,
    };
    assert_eq!(counts, expected);
}
