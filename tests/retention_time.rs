//! `ls --segments` on the time that retention goes by: Kafka takes the last twelve bytes of the
//! time index, whatever the batches say, and when the `.log` was written where that has no time
//! (`LogSegment.largestTimestamp`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/verify_run.rs"]
mod verify_run;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use verify_run::Copied;

/// File, time and where it is from, of each segment.
fn retention(partition: &Path) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["ls", "--segments", "-o", "ndjson"])
        .arg(partition)
        .output()
        .unwrap();
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    let segments = row["segmentList"].as_array().unwrap().iter();
    let keys = ["file", "retentionTimestamp", "retentionTimestampSource"];
    segments
        .map(|it| json!(keys.map(|key| it[key].clone())))
        .collect()
}

fn last_time(index: &Path) -> i64 {
    let bytes = fs::read(index).unwrap();
    let last = bytes.chunks_exact(12).last().unwrap();
    i64::from_be_bytes(last[..8].try_into().unwrap())
}

const BASES: [&str; 3] = [
    "00000000000000000000",
    "00000000000000000089",
    "00000000000000000165",
];

#[test]
fn retention_goes_by_the_last_time_entry() {
    let copied = Copied::transactions();
    let partition = copied.path("tx-1");
    let file = |base: &str, kind: &str| partition.join(format!("{base}.{kind}"));
    let by_index = |base: &str| {
        let time = last_time(&file(base, "timeindex"));
        json!([format!("{base}.log"), time, "timeIndex"])
    };
    assert_eq!(retention(&partition), BASES.map(by_index));
    // An index that a broker believes, and the batches do not bear out: verify tells so.
    let index = file(BASES[0], "timeindex");
    let mut bytes = fs::read(&index).unwrap();
    let at = bytes.len() - 12;
    bytes[at..at + 8].copy_from_slice(&1_000i64.to_be_bytes());
    fs::write(&index, &bytes).unwrap();
    assert_eq!(
        retention(&partition)[0],
        json!([format!("{}.log", BASES[0]), 1000, "timeIndex"])
    );
    let alarms = copied.alarms(&[]);
    let too_early = |it: &&Value| it["brokerAction"].as_str().unwrap().contains("too early");
    assert_eq!(alarms.iter().filter(too_early).count(), 1, "{alarms:#?}");
    // Zeros behind the entries are entries.
    bytes.extend([0; 12]);
    fs::write(&index, &bytes).unwrap();
    assert_eq!(retention(&partition)[0][1], 0);
}

#[test]
fn without_a_time_retention_goes_by_when_the_log_was_written() {
    let copied = Copied::transactions();
    let partition = copied.path("tx-1");
    let file = |base: &str, kind: &str| partition.join(format!("{base}.{kind}"));
    let log = fs::File::options()
        .write(true)
        .open(file(BASES[0], "log"))
        .unwrap();
    log.set_modified(UNIX_EPOCH + Duration::from_millis(1_700_000_000_123))
        .unwrap();
    let by_file = json!([
        format!("{}.log", BASES[0]),
        1_700_000_000_123i64,
        "lastModified"
    ]);
    fs::write(file(BASES[0], "timeindex"), []).unwrap();
    assert_eq!(retention(&partition)[0], by_file);
    fs::remove_file(file(BASES[0], "timeindex")).unwrap();
    assert_eq!(retention(&partition)[0], by_file);
    // Without an offset index any start recovers the segment, and reads the batches.
    fs::remove_file(file(BASES[1], "index")).unwrap();
    let largest = last_time(&file(BASES[1], "timeindex"));
    fs::write(file(BASES[1], "timeindex"), []).unwrap();
    let of_batches = json!([format!("{}.log", BASES[1]), largest, "batches"]);
    assert_eq!(retention(&partition)[1], of_batches);
    // And so does an unclean one from the recovery point on: the log end, of a clean stop.
    fs::remove_file(copied.path(".kafka_cleanshutdown")).unwrap();
    let largest = last_time(&file(BASES[2], "timeindex"));
    let of_batches = json!([format!("{}.log", BASES[2]), largest, "batches"]);
    assert_eq!(retention(&partition)[2], of_batches);
    assert_eq!(retention(&partition)[0], by_file);
}
