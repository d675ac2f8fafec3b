//! A partition to a scenario and back: the `.log` bytes are the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::cases::is_left_closed;
use common::files_below;
use common::partitions::{cases, json, partitions_below, root};
use kseg::append::scenario::{FromLog, FromLogError, Scenario, ScenarioRun};
use kseg::log::Io;
use kseg::log::partition_dir::PartitionDir;

fn logs(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    files_below(dir)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "log"))
        .map(|file| {
            (
                file.strip_prefix(dir).unwrap().to_owned(),
                fs::read(&file).unwrap(),
            )
        })
        .collect()
}

fn scenario_of(dir: &Path, redact: bool) -> Result<String, FromLogError> {
    let dir = PartitionDir::open(dir).unwrap();
    let mut text = Vec::new();
    let from = FromLog {
        dir: &dir,
        io: Io::Read,
        redact,
    };
    from.write(&mut text)?;
    Ok(String::from_utf8(text).unwrap())
}

/// Runs it; every step has to be taken.
fn logs_written_by(text: &str) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let scenario = Scenario::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    let out = tempfile::tempdir().unwrap();
    let mut run = ScenarioRun::start(&scenario, out.path()).unwrap();
    for (index, step) in scenario.steps.iter().enumerate() {
        let result = run.step(step).unwrap();
        if let Some(error) = result.error {
            return Err(format!("step {index} {step:?}: {}", error.message));
        }
    }
    run.finish().unwrap();
    Ok(logs(&out.path().join(scenario.dir_name())))
}

/// The offset of the batch that could not be said, if there is one; an error if what was said is
/// something else.
fn round_trip(dir: &Path) -> Result<Option<i64>, String> {
    let text = match scenario_of(dir, false) {
        Ok(text) => text,
        Err(FromLogError::Batch { reason, offset, .. }) => {
            assert!(!reason.is_empty());
            return Ok(Some(offset.parse().unwrap_or(i64::MAX)));
        }
        Err(error) => return Err(error.to_string()),
    };
    let got = logs_written_by(&text)?;
    let wanted = logs(dir);
    let names = |logs: &BTreeMap<PathBuf, Vec<u8>>| logs.keys().cloned().collect::<Vec<_>>();
    if names(&got) != names(&wanted) {
        return Err(format!(
            "segments {:?}, expected {:?}",
            names(&got),
            names(&wanted)
        ));
    }
    for (name, bytes) in &wanted {
        if got.get(name) != Some(bytes) {
            return Err(format!("{} differs", name.display()));
        }
    }
    Ok(None)
}

/// How many came back, and those that could not be said with the offset of the batch.
fn check(folders: &[PathBuf]) -> (usize, Vec<(PathBuf, i64)>) {
    let (mut same, mut unsaid, mut failures) = (0, Vec::new(), Vec::new());
    for dir in folders.iter().flat_map(|it| partitions_below(it)) {
        match round_trip(&dir) {
            Ok(None) => same += 1,
            Ok(Some(offset)) => unsaid.push((dir, offset)),
            Err(error) => failures.push(format!("{}: {error}", dir.display())),
        }
    }
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        failures
            .iter()
            .take(20)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
    (same, unsaid)
}

#[test]
fn every_case_comes_back() {
    let (same, mut unsaid) = check(&cases());
    // The torn tail of a log that did not load again is still there.
    unsaid.retain(|(dir, _)| {
        let of_case = |name: &str| json(&dir.parent().unwrap().join(name));
        !is_left_closed(&of_case("scenario.json"), &of_case("result.json"))
    });
    assert!(same >= 176, "{same} came back; not {unsaid:?}");
    assert!(unsaid.is_empty(), "{unsaid:?}");
}

/// What a broker took that had forgotten what lies below the log start: `truncateTo` reads its
/// producers from there on. The scenario forgets them as well, by a start without snapshots, before
/// each batch that does not go with what is in front of it.
#[test]
fn what_was_taken_by_a_broker_that_had_forgotten_is_said() {
    let found = root().join("cases/found");
    let mut forgets = 0;
    for dir in partitions_below(&found) {
        let text = scenario_of(&dir, false).unwrap();
        if !text.contains("deleteSnapshots") {
            continue;
        }
        forgets += 1;
        assert_eq!(logs_written_by(&text).unwrap(), logs(&dir), "{dir:?}");
    }
    assert!(forgets > 0);
    // The same sequence twice, an epoch that falls back, and a marker in front of its transaction.
    let folder = tempfile::tempdir().unwrap();
    let append = |epoch: i16, sequence: i32, is_transactional: bool| {
        serde_json::json!({"append": {
            "producerId": 7, "producerEpoch": epoch, "baseSequence": sequence,
            "isTransactional": is_transactional, "records": [{"value": "v"}]
        }})
    };
    let forget = serde_json::json!({"reopen": {"deleteSnapshots": true}});
    let marker = serde_json::json!({"endTxnMarker": {
        "producerId": 7, "producerEpoch": 1, "controlType": "ABORT", "coordinatorEpoch": 3
    }});
    let older = serde_json::json!({"endTxnMarker": {
        "producerId": 7, "producerEpoch": 2, "controlType": "COMMIT", "coordinatorEpoch": 1
    }});
    let steps = [
        append(1, 0, false),
        forget.clone(),
        append(1, 0, false),
        forget.clone(),
        append(0, 5, true),
        marker,
        forget.clone(),
        append(1, 0, true),
        older,
        forget,
        append(0, 0, false),
    ];
    let scenario = serde_json::json!({"steps": steps, "config": {"transaction.version": 1}});
    let scenario = Scenario::parse(scenario.to_string().as_bytes()).unwrap();
    let mut run = ScenarioRun::start(&scenario, folder.path()).unwrap();
    for step in &scenario.steps {
        assert!(run.step(step).unwrap().error.is_none(), "{step:?}");
    }
    run.finish().unwrap();
    let dir = folder.path().join(scenario.dir_name());
    assert_eq!(round_trip(&dir).unwrap(), None);
}

#[test]
fn logs_of_brokers_come_back_or_name_the_batch() {
    let (same, unsaid) = check(&[root().join("fixtures")]);
    // Magic 0 and 1, KRaft control records, delete horizons, damage.
    assert!(
        same > 100 && unsaid.len() < same,
        "{same} came back, {} not",
        unsaid.len()
    );
}

#[test]
fn redacted_scenario_keeps_lengths_and_nothing_else() {
    let dir = root().join("cases/codecs/codecs-s20-000/orders-0");
    let text = scenario_of(&dir, true).unwrap();
    let scenario = Scenario::parse(text.as_bytes()).unwrap();
    let plain = Scenario::parse(scenario_of(&dir, false).unwrap().as_bytes()).unwrap();
    assert_eq!(scenario.steps.len(), plain.steps.len());
    assert!(!text.contains("encodedRecords"));
    let (before, after) = (logs(&dir), logs_written_by(&text).unwrap());
    assert_eq!(before.len(), after.len());
    assert_ne!(before, after);
}
