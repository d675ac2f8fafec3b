//! `verify` of a partition while a broker's log is written to, rolled, truncated and shortened.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use kseg::append::scenario::{Scenario, ScenarioRun};
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::verify::{Finding, VerifyOptions, verify_partition};
use serde_json::{Value, json};

/// Transactions of three producers, committed and aborted in turn, in small segments; now and then
/// the tail is truncated, and old segments are deleted.
fn story(rounds: u32) -> Scenario {
    let mut steps: Vec<Value> = Vec::new();
    for round in 0..rounds {
        let producer = 1000 + round % 3;
        let sequence = round / 3 * 2;
        steps.push(json!({"append": {
            "producerId": producer, "producerEpoch": 0, "baseSequence": sequence,
            "isTransactional": true, "verification": "disabled",
            "records": [
                {"timestamp": 1_700_000_000_000u64 + u64::from(round), "value": "some text"},
                {"timestamp": 1_700_000_000_000u64 + u64::from(round), "value": "and more of it"},
            ],
        }}));
        let control = if round % 2 == 0 { "ABORT" } else { "COMMIT" };
        steps.push(json!({"endTxnMarker": {
            "producerId": producer, "producerEpoch": 0, "controlType": control,
            "coordinatorEpoch": 0, "timestamp": 1_700_000_000_000u64 + u64::from(round),
        }}));
        if round % 50 == 49 {
            steps.push(json!({"roll": {}}));
        }
        if round % 170 == 169 {
            // The last marker alone: its transaction is open again, and ends again.
            let end = i64::from(round + 1) * 3;
            steps.push(json!({"truncateTo": {"offset": end - 1}}));
            steps.push(json!({"endTxnMarker": {
                "producerId": producer, "producerEpoch": 0, "controlType": control,
                "coordinatorEpoch": 0, "timestamp": 1_700_000_000_000u64 + u64::from(round),
            }}));
        }
        if round % 200 == 199 {
            let end = i64::from(round + 1) * 3;
            steps.push(json!({"incrementHighWatermark": {"offset": end}}));
            steps.push(json!({"deleteRecordsBefore": {"offset": end - 200}}));
            steps.push(json!({"deleteOldSegments": {}}));
            steps.push(json!({"advanceClock": {"ms": 61_000}}));
        }
    }
    let scenario = json!({
        "title": "live", "topic": "orders", "partition": 0, "startTimeMs": 1_700_000_000_000u64,
        "config": {"segment.bytes": 16384, "index.interval.bytes": 100},
        "steps": steps,
    });
    Scenario::parse(scenario.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

/// The alarms in the directory as it is now; a file that changes under the walk is said to.
fn alarms(path: &Path, io: Io) -> (u64, Vec<Finding>) {
    let mut alarms = Vec::new();
    let Ok(dir) = PartitionDir::open(path) else {
        return (0, alarms);
    };
    let options = VerifyOptions {
        io,
        threads: Some(2),
        ..VerifyOptions::default()
    };
    let offsets = CheckpointedOffsets::default();
    let emit = |finding: &Finding| {
        if finding.severity.is_alarm() {
            alarms.push(finding.clone());
        }
        Ok(())
    };
    match verify_partition::<Error>(&dir, offsets, &options, |_| {}, emit) {
        Ok(summary) => (summary.bytes, alarms),
        Err(Error::ChangedWhileReading { .. }) => (0, Vec::new()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_log_that_is_written_to_gives_no_alarm() {
    let out = tempfile::tempdir().unwrap();
    let scenario = story(3000);
    let path = out.path().join("orders-0");
    let is_done = AtomicBool::new(false);
    let looked = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut run = ScenarioRun::start(&scenario, out.path()).unwrap();
            for (index, step) in scenario.steps.iter().enumerate() {
                run.step(step).unwrap();
                // Until it was looked at once: a look may last as long as all of this does.
                if index % 10 == 0 && looked.load(Ordering::Acquire) == 0 {
                    thread::sleep(Duration::from_millis(20));
                }
            }
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            let turn = looked.load(Ordering::Acquire);
            let io = if turn.is_multiple_of(2) {
                Io::Mmap
            } else {
                Io::Read
            };
            let (bytes, alarms) = alarms(&path, io);
            assert_eq!(alarms, [], "{bytes} bytes");
            looked.fetch_add(u64::from(bytes > 0), Ordering::Release);
        }
    });
    assert!(looked.into_inner() >= 1);
    assert_eq!(alarms(&path, Io::Mmap).1, []);
}
