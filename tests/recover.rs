//! `recover` against Kafka's own loading: every partition of every incident, and the fixtures of
//! killed and damaged brokers.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::loading::as_expected;
use kseg::append::LogConfig;
use kseg::append::dry_run::row::{ActionKind, Start};
use kseg::append::dry_run::{DryRun, DryRunOptions, RecoverRow, dry_run};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::partition_state::{StateOptions, load_partition_state};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The configuration under which the incidents were loaded (`oracle/incidents`).
fn incident_config(incident: &Path) -> LogConfig {
    // An index may not be larger than the configuration says, or the log does not load.
    let is_untrimmed = common::files_below(&incident.join("data"))
        .iter()
        .filter(|file| file.extension().is_some_and(|it| it == "index"))
        .any(|file| fs::metadata(file).unwrap().len() > 4096);
    // Those with a transaction coordinator's topic come from a running broker.
    let is_of_a_running_broker = incident.join("data/__transaction_state-0").exists();
    LogConfig {
        index_interval_bytes: if is_of_a_running_broker { 512 } else { 256 },
        segment_index_bytes: if is_untrimmed { 10_485_760 } else { 4096 },
        ..LogConfig::default()
    }
}

fn play(
    dir: &Path,
    checkpoints: CheckpointedOffsets,
    start: Start,
    config: LogConfig,
    now_ms: Option<i64>,
) -> DryRun {
    let options = DryRunOptions {
        io: Io::Mmap,
        config,
        now_ms,
        is_clean: false,
        index_memory: 0,
    };
    let dir = PartitionDir::open(dir).unwrap();
    dry_run(&dir, checkpoints, start, &options).unwrap()
}

/// What those who read a directory make of it once it is loaded.
fn as_read(run: DryRun) -> Value {
    let checkpoints = CheckpointedOffsets {
        log_start_offset: run.row.log_start_offset,
        ..CheckpointedOffsets::default()
    };
    let dir = run.into_loaded();
    let options = StateOptions {
        io: Io::Mmap,
        from_scratch: false,
        at_offset: None,
        expiration: None,
        high_watermark: None,
    };
    let state = load_partition_state(&dir, checkpoints, options);
    let state = state.unwrap().unwrap();
    json!({
        "logStartOffset": state.log_start_offset,
        "logEndOffset": state.log_end_offset,
        "lastStableOffset": state.offsets.last_stable_offset(),
    })
}

fn compare(name: &str, found: &Value, expected: &Value, failures: &mut Vec<String>) {
    for (key, value) in found.as_object().unwrap() {
        let expected = expected.get(key).unwrap_or(&Value::Null);
        if value != expected {
            failures.push(format!(
                "{name} {key}:\n  found    {value}\n  expected {expected}"
            ));
        }
    }
}

#[test]
fn every_incident_loads_as_kafka_loads_it() {
    let (mut compared, mut failures) = (0, Vec::new());
    for entry in fs::read_dir(fixtures().join("incidents")).unwrap() {
        let incident = entry.unwrap().path();
        let expected = read_json(&incident.join("expected.json"));
        for (partition, facts) in expected["partitions"].as_object().unwrap() {
            for (key, broker) in facts.as_object().unwrap() {
                let start = match key.as_str() {
                    "brokerOnCleanStart" => Start::Clean,
                    key if key.starts_with("brokerOnUncleanStart") => Start::Unclean,
                    _ => continue,
                };
                let dir = incident.join("data").join(partition);
                let checkpoints = CheckpointedOffsets {
                    log_start_offset: broker["logStartOffsetCheckpoint"].as_i64(),
                    recovery_point: broker["recoveryPointCheckpoint"].as_i64(),
                    high_watermark: broker["highWatermark"].as_i64(),
                    cleaner_offset: None,
                };
                let config = incident_config(&incident);
                let run = play(&dir, checkpoints, start, config, broker["asOfMs"].as_i64());
                let name = format!("{} {partition} {key}", incident.display());
                let row = &run.row;
                if broker["loads"] == json!(false) {
                    let error = row.error.as_ref().map(|error| error.exception);
                    if error != broker["error"].as_str() {
                        failures.push(format!("{name}: error {error:?}"));
                    }
                } else if let Some(error) = &row.error {
                    failures.push(format!("{name}: {error:?}"));
                } else {
                    compare(&name, &as_expected(row), broker, &mut failures);
                    compare(&name, &as_read(run), broker, &mut failures);
                }
                compared += 1;
            }
        }
    }
    let shown: Vec<&str> = failures.iter().take(30).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} of {compared} differ:\n{}",
        failures.len(),
        shown.join("\n")
    );
    assert!(compared > 150, "only {compared} starts were compared");
}

/// Sizes by name. What leaders become after the start is written to `leader-epoch-checkpoint`.
fn sizes(list: &Value) -> BTreeMap<String, u64> {
    let files = list.as_array().unwrap().iter();
    files
        .map(|file| {
            let name = file["file"].as_str().unwrap().to_owned();
            (name, file["size"].as_u64().unwrap())
        })
        .filter(|(name, _)| name != "leader-epoch-checkpoint")
        .collect()
}

/// The configuration of a broker fixture. A topic may have its own index interval: the one that
/// leaves the indexes of the undamaged directory as they are.
fn broker_config(fixture: &Path, partition: &str) -> LogConfig {
    let about = read_json(&fixture.join("about.json"));
    let setting = |name: &str| -> i32 {
        let value = about["brokerConfig"][name].as_str().unwrap();
        value.parse().unwrap()
    };
    let config = |index_interval_bytes| LogConfig {
        index_interval_bytes,
        segment_index_bytes: setting("log.index.size.max.bytes"),
        ..LogConfig::default()
    };
    let undamaged = fixture.join("undamaged").join(partition);
    let fits = |interval: &i32| {
        let none = CheckpointedOffsets::default();
        !undamaged.exists()
            || play(&undamaged, none, Start::Unclean, config(*interval), None)
                .row
                .indexes_rewritten
                .is_empty()
    };
    let intervals = [setting("log.index.interval.bytes"), 512, 256];
    config(intervals.into_iter().find(fits).unwrap())
}

fn compare_files_after_start(name: &str, run: &DryRun, list: &Value, failures: &mut Vec<String>) {
    let expected = sizes(list);
    // What is deleted later may have been gone already when the list was made.
    let is_there = |name: &str| !name.ends_with(".deleted") || expected.contains_key(name);
    let found: BTreeMap<String, u64> = run
        .row
        .files_after_start
        .iter()
        .map(|file| (file.file.clone(), file.size_in_bytes))
        .filter(|(name, _)| name != "leader-epoch-checkpoint" && is_there(name))
        .collect();
    if found != expected {
        failures.push(format!("{name} after start\n  {found:?}\n  {expected:?}"));
    }
}

/// Every byte of every file after the next clean stop.
fn compare_files_after_stop(
    name: &str,
    run: &DryRun,
    list: &Value,
    recovered: &Path,
    failures: &mut Vec<String>,
) {
    let out = tempfile::tempdir().unwrap();
    run.write_to(out.path()).unwrap();
    let mut names: Vec<String> = sizes(list).keys().cloned().collect();
    for entry in fs::read_dir(out.path()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if file != "leader-epoch-checkpoint" && !names.contains(&file) {
            names.push(file);
        }
    }
    for file in names {
        let mut ours = fs::read(out.path().join(&file)).unwrap_or_default();
        // A consumer that reads from a segment has its index trimmed at the stop.
        if file.ends_with(".index") {
            ours.truncate(ours.len() / 8 * 8);
        }
        let theirs = fs::read(recovered.join(&file)).unwrap_or_default();
        if ours != theirs {
            failures.push(format!("{name} {file}: {} {}", ours.len(), theirs.len()));
        }
    }
}

/// Offsets and producers that the broker told of when it had come up.
fn compare_answers(name: &str, run: &DryRun, answers: &Value, failures: &mut Vec<String>) {
    let offsets = json!({
        "earliest": run.row.log_start_offset,
        "latestReadUncommitted": run.row.log_end_offset,
        "latestReadCommitted": run.row.last_stable_offset,
    });
    compare(name, &offsets, &answers["offsets"], failures);
    let producers: Vec<Value> = run
        .row
        .producers
        .iter()
        .map(|it| json!([it.producer_id, it.producer_epoch, it.last_sequence]))
        .collect();
    let mut theirs: Vec<&Value> = answers["activeProducers"]
        .as_array()
        .unwrap()
        .iter()
        .collect();
    theirs.sort_by_key(|it| it["producerId"].as_i64());
    let theirs: Vec<Value> = theirs
        .iter()
        .map(|it| {
            let sequence = it["lastSequence"].as_i64().filter(|it| *it >= 0);
            json!([it["producerId"], it["producerEpoch"], sequence])
        })
        .collect();
    if producers != theirs {
        failures.push(format!("{name} producers {producers:?} {theirs:?}"));
    }
}

/// What the broker wrote to its log while it loaded: which segments it read, where it found damage,
/// and what came of it.
fn compare_broker_log(name: &str, row: &RecoverRow, lines: &Value, failures: &mut Vec<String>) {
    let lines: Vec<&str> = lines
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    // What stands between the two, in every line that has both.
    let between = |before: &str, after: &str| -> Vec<String> {
        let found = lines.iter().filter_map(|line| {
            let (_, rest) = line.split_once(before)?;
            Some(rest.split_once(after)?.0.to_owned())
        });
        found.collect()
    };
    let log = |base_offset: &String| format!("{base_offset:0>20}.log");
    let recovered: Vec<String> = between("Recovering unflushed segment ", ".")
        .iter()
        .map(log)
        .collect();
    let cut = between("Corruption found in segment ", ",");
    let cut: Vec<String> = cut.iter().map(log).collect();
    let cuts: Vec<(&str, u64)> = row
        .actions
        .iter()
        .filter(|it| it.kind == ActionKind::Cut && it.file.ends_with(".log"))
        .map(|it| (it.file.as_str(), it.position.unwrap()))
        .collect();
    // It does not say so of a tail that is no whole batch.
    for line in &lines {
        if let Some((path, position)) = line.split_once(" at byte offset ") {
            let (_, file) = path.rsplit_once('/').unwrap();
            let position = position.trim_end_matches('.').parse().unwrap();
            if !cuts.contains(&(file, position)) {
                failures.push(format!("{name} cut {cuts:?}: {line}"));
            }
        }
    }
    let theirs = json!({
        "segmentsRecovered": recovered,
        "cut": cut,
        "logStartOffset": between("logStartOffset=", ","),
        "logEndOffset": between("logEndOffset=", ")"),
        "segments": between(") with ", " segments, local-log-start-offset"),
    });
    let ours = json!({
        "segmentsRecovered": row.segments_recovered.iter().map(|it| &it.file).collect::<Vec<_>>(),
        "cut": cuts.iter().map(|(file, _)| file).collect::<Vec<_>>(),
        "logStartOffset": [row.log_start_offset.unwrap().to_string()],
        "logEndOffset": [row.log_end_offset.unwrap().to_string()],
        "segments": [row.segments.len().to_string()],
    });
    compare(name, &ours, &theirs, failures);
}

/// What a broker has on its disk right after the start and after the next clean stop, and what it
/// answers in between.
#[test]
fn killed_and_damaged_brokers_come_up_as_predicted() {
    let (mut compared, mut failures) = (0, Vec::new());
    for fixture in common::partitions::broker_fixtures() {
        let recovery = common::partitions::json(&fixture.join("expected/recovery.json"));
        let Some(partitions) = recovery.as_object() else {
            continue;
        };
        for (partition, lists) in partitions {
            // Of some fixtures only the partition that was damaged is here.
            let data = fixture.join("data").join(partition);
            if !data.exists() {
                continue;
            }
            let (dir, checkpoints) = common::partitions::open(&data);
            let config = broker_config(&fixture, partition);
            let run = play(&dir.path, checkpoints, Start::Unclean, config, None);
            let name = format!("{} {partition}", fixture.display());
            let recovered = fixture.join("recovered").join(partition);
            let answers = read_json(&fixture.join(format!("expected/{partition}.json")));
            compare_files_after_start(&name, &run, &lists["afterStart"], &mut failures);
            let stopped = &lists["afterCleanStop"];
            compare_files_after_stop(&name, &run, stopped, &recovered, &mut failures);
            compare_answers(&name, &run, &answers, &mut failures);
            compare_broker_log(&name, &run.row, &lists["brokerLog"], &mut failures);
            compared += 1;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(compared > 15, "only {compared} partitions were compared");
}

/// Damaged directories that Kafka loaded, kept since kseg once said something else.
#[test]
fn directories_that_differed_once_come_up_as_in_kafka() {
    let cases = common::partitions::folders_in(&common::partitions::root().join("tests/started"));
    assert!(!cases.is_empty());
    for folder in cases {
        let answer = read_json(&folder.join("answer.json"));
        let differences = common::started::compare(&common::started::Case::kept(&folder), &answer);
        assert_eq!(differences, Vec::<String>::new(), "{}", folder.display());
    }
}

/// A start that keeps every byte of every segment, wherever it puts it, loses none.
#[test]
fn what_is_kept_is_not_lost() {
    let mut split = 0;
    for dir in common::partitions::partitions_below(&fixtures()) {
        let (dir, checkpoints) = common::partitions::open(&dir);
        let logs = dir.files.iter().filter(|it| it.name().ends_with(".log"));
        let before: u64 = logs.map(|it| it.size_in_bytes).sum();
        for start in [Start::Clean, Start::Unclean] {
            let row = play(&dir.path, checkpoints, start, LogConfig::default(), None).row;
            let after: u64 = row.segments.iter().map(|it| it.size_in_bytes).sum();
            let is_hidden =
                Some(row.log_end_offset) == row.segments.last().map(|it| Some(it.base_offset));
            if row.loads && before == after && !is_hidden {
                assert!(!row.loses_data, "{} {}", dir.path.display(), start.name());
                split += usize::from(row.segments.len() > dir.segments.len());
            }
        }
    }
    assert!(split > 0, "no directory has a segment that is split");
}

/// How many aborted transactions a row says are in no index.
fn without_index(row: &RecoverRow) -> u64 {
    let found = row.warnings.iter().find_map(|warning| {
        let (count, rest) = warning.split_once(' ')?;
        rest.contains("in no .txnindex")
            .then(|| count.parse().unwrap())
    });
    found.unwrap_or(0)
}

/// Bytes of the files with that ending.
fn bytes_of(dir: &Path, ending: &str) -> Vec<Vec<u8>> {
    let files = common::files_below(dir).into_iter();
    let files = files.filter(|it| it.extension().is_some_and(|it| it == ending));
    files.map(|it| fs::read(it).unwrap()).collect()
}

/// A clean start makes no row of an index: it names those that the incidents say are missing, and
/// those that were in the indexes before somebody deleted them.
#[test]
fn a_clean_start_names_aborted_transactions_without_an_index() {
    let clean = |dir: &Path, config| {
        let (dir, checkpoints) = common::partitions::open(dir);
        play(&dir.path, checkpoints, Start::Clean, config, None).row
    };
    let mut named = 0;
    for incident in common::partitions::folders_in(&fixtures().join("incidents")) {
        let expected = read_json(&incident.join("expected.json"));
        for partition in expected["partitions"].as_object().unwrap().keys() {
            let findings = expected["findings"].as_array().into_iter().flatten();
            let missing = findings.filter(|it| {
                it["kind"] == json!("txnindex-entry-missing") && it["partition"] == json!(partition)
            });
            let row = clean(
                &incident.join("data").join(partition),
                incident_config(&incident),
            );
            let missing = missing.count() as u64;
            assert_eq!(
                without_index(&row),
                missing,
                "{} {partition}",
                incident.display()
            );
            named += missing;
        }
    }
    for fixture in common::partitions::broker_fixtures() {
        if !fixture.join("undamaged").exists() {
            continue;
        }
        for before in common::partitions::partitions_below(&fixture.join("undamaged")) {
            let partition = before.file_name().unwrap().to_str().unwrap();
            let after = fixture.join("data").join(partition);
            if bytes_of(&before, "log") != bytes_of(&after, "log") {
                continue;
            }
            let rows = |dir: &Path| {
                bytes_of(dir, "txnindex")
                    .iter()
                    .map(Vec::len)
                    .sum::<usize>()
                    / 34
            };
            let missing = (rows(&before) - rows(&after)) as u64;
            let row = clean(&after, broker_config(&fixture, partition));
            assert_eq!(without_index(&row), missing, "{}", after.display());
            named += missing;
        }
    }
    assert!(named > 10, "only {named} were missing");
}

/// The other answers of `expected.json` that are about a start.
#[test]
fn incidents_are_answered() {
    let mut answered = 0;
    for incident in common::partitions::folders_in(&fixtures().join("incidents")) {
        let expected = read_json(&incident.join("expected.json"));
        let now_ms = expected["asOfMs"].as_i64();
        let row = |partition: &str, start| {
            let (dir, checkpoints) =
                common::partitions::open(&incident.join("data").join(partition));
            play(
                &dir.path,
                checkpoints,
                start,
                incident_config(&incident),
                now_ms,
            )
            .row
        };
        let partitions = expected["partitions"].as_object().unwrap();
        let Some(first) = partitions.keys().next() else {
            continue;
        };
        if let Some(recovery) = expected.get("recovery") {
            let row = row(first, Start::Unclean);
            let files: Vec<&str> = row
                .segments_recovered
                .iter()
                .map(|it| it.file.as_str())
                .collect();
            assert_eq!(json!(files), recovery["segmentsToRecover"]);
            assert_eq!(json!(row.bytes_to_read), recovery["bytesToRead"]);
            assert_eq!(
                json!(row.recovery_point_checkpoint),
                recovery["recoveryPoint"]
            );
            answered += 1;
        }
        if let Some(removed) = expected.get("removedOnCleanStart") {
            let row = row(first, Start::Clean);
            let ours: Vec<&str> = row
                .actions
                .iter()
                .filter(|action| action.kind == ActionKind::Remove)
                .map(|action| action.file.as_str())
                .collect();
            assert_eq!(&json!(ours), removed);
            answered += 1;
        }
        if let Some(next) = expected.get("offsetOfNextAppendAfterCleanStart") {
            for answer in next.as_array().unwrap() {
                let row = row(answer["partition"].as_str().unwrap(), Start::Clean);
                assert_eq!(json!(row.log_end_offset), answer["offset"]);
            }
            answered += 1;
        }
        for partition in partitions.keys() {
            let number = partition.rsplit('-').next().unwrap();
            let Some(live) = expected.get(format!("liveAfterStart{number}")) else {
                continue;
            };
            let row = row(partition, Start::Unclean);
            let ours: Vec<Value> = row
                .segments
                .iter()
                .map(|it| json!({"baseOffset": it.base_offset, "size": it.size_in_bytes}))
                .collect();
            assert_eq!(&json!(ours), live, "{partition}");
            answered += 1;
        }
    }
    assert_eq!(answered, 7);
}

/// Every file below a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    common::files_below(folder)
        .into_iter()
        .map(|file| {
            let bytes = fs::read(&file).unwrap();
            (file.strip_prefix(folder).unwrap().to_owned(), bytes)
        })
        .collect()
}

/// `--out` writes what the start leaves, which another start leaves as it is; the directory it was
/// made from stays as it was.
#[test]
fn the_copy_is_recovered_and_the_directory_untouched() {
    let data = fixtures().join("s07b-flipped-byte-unflushed/data");
    let before = contents(&data);
    let work = tempfile::tempdir().unwrap();
    let out = work.path().join("recovered");
    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["recover", "-o", "ndjson", "--start", "unclean"])
            .args(arguments)
            .output()
            .unwrap();
        let rows = String::from_utf8(output.stdout).unwrap();
        let rows: Vec<Value> = rows
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        (output.status.code(), rows)
    };
    let (status, rows) = run(&[data.as_os_str(), "--out".as_ref(), out.as_os_str()]);
    assert_eq!(status, Some(1), "it loses data");
    assert_eq!(contents(&data), before);
    let (status, again) = run(&[out.as_os_str()]);
    assert_eq!(status, Some(0));
    assert_eq!(again[0]["actions"], json!([]));
    for key in [
        "logEndOffset",
        "lastStableOffset",
        "producers",
        "segments",
        "leaderEpochs",
    ] {
        assert_eq!(again[0][key], rows[0][key], "{key}");
    }
    let (status, _) = run(&[data.as_os_str(), "--out".as_ref(), out.as_os_str()]);
    assert_eq!(status, Some(2), "the folder is not empty");
}
