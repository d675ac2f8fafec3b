//! A start of one directory, by Kafka and played through by kseg, with everything compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kseg::append::LogConfig;
use kseg::append::dry_run::row::Start;
use kseg::append::dry_run::{DryRun, DryRunOptions, dry_run};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use serde_json::{Value, json};

use super::files_below;
use super::loading::as_expected;

/// What is asked of Kafka and of kseg.
pub struct Case {
    pub dir: PathBuf,
    pub kafka_dir: PathBuf,
    pub start: Start,
    pub log_start_offset: i64,
    pub recovery_point: i64,
    pub now_ms: i64,
    pub interval: i32,
    pub what: Vec<String>,
}

const SEGMENT_INDEX_BYTES: i32 = 4096;
const EXPIRATION_MS: i32 = 86_400_000;

impl Case {
    /// The line that `log-oracle load` reads.
    pub fn request(&self) -> Value {
        json!({
            "dir": self.kafka_dir,
            "clean": self.start == Start::Clean,
            "logStartOffset": self.log_start_offset,
            "recoveryPoint": self.recovery_point,
            "nowMs": self.now_ms,
            "indexIntervalBytes": self.interval,
            "segmentIndexBytes": SEGMENT_INDEX_BYTES,
            "producerIdExpirationMs": EXPIRATION_MS,
        })
    }

    /// A case that was kept: what `request` gives, the directory as it was, and as Kafka left it.
    pub fn kept(folder: &Path) -> Self {
        let request: Value =
            serde_json::from_slice(&fs::read(folder.join("request.json")).unwrap()).unwrap();
        let name = Path::new(request["dir"].as_str().unwrap());
        let name = name.file_name().unwrap();
        let number = |key: &str| request[key].as_i64().unwrap();
        Self {
            dir: folder.join("before").join(name),
            kafka_dir: folder.join("kafka").join(name),
            start: if request["clean"] == json!(true) {
                Start::Clean
            } else {
                Start::Unclean
            },
            log_start_offset: number("logStartOffset"),
            recovery_point: number("recoveryPoint"),
            now_ms: number("nowMs"),
            interval: i32::try_from(number("indexIntervalBytes")).unwrap(),
            what: Vec::new(),
        }
    }
}

/// Plays the start through.
fn play(case: &Case) -> Result<DryRun, kseg::log::Error> {
    let options = DryRunOptions {
        io: Io::Mmap,
        config: LogConfig {
            index_interval_bytes: case.interval,
            segment_index_bytes: SEGMENT_INDEX_BYTES,
            producer_id_expiration_ms: EXPIRATION_MS,
            ..LogConfig::default()
        },
        now_ms: Some(case.now_ms),
        is_clean: false,
        index_memory: 0,
    };
    let checkpoints = CheckpointedOffsets {
        log_start_offset: Some(case.log_start_offset),
        recovery_point: Some(case.recovery_point),
        high_watermark: None,
        cleaner_offset: None,
    };
    let dir = PartitionDir::open(&case.dir).unwrap();
    dry_run(&dir, checkpoints, case.start, &options)
}

/// The differences between what Kafka did and what kseg says it does.
pub fn compare(case: &Case, answer: &Value) -> Vec<String> {
    let run = match play(case) {
        Ok(run) => run,
        Err(error) => return vec![format!("could not look: {error}; Kafka: {answer}")],
    };
    let row = &run.row;
    let mut differences = Vec::new();
    let mut differ = |what: &str, ours: &Value, theirs: &Value| {
        if ours != theirs {
            differences.push(format!("{what}:\n    kseg  {ours}\n    Kafka {theirs}"));
        }
    };
    let error = row.error.as_ref().map(|error| error.exception);
    let their_error = answer.get("error").unwrap_or(&Value::Null);
    differ("error", &json!(error), their_error);
    let files: BTreeMap<&str, u64> = row
        .files_after_start
        .iter()
        .map(|file| (file.file.as_str(), file.size_in_bytes))
        .collect();
    differ(
        "files after start",
        &json!(files),
        &answer["filesAfterStart"],
    );
    if !row.loads || answer["loads"] == json!(false) {
        return differences;
    }
    let ours = as_expected(row);
    for key in [
        "logStartOffset",
        "logEndOffset",
        "highWatermark",
        "lastStableOffset",
        "segments",
        "producers",
        "abortedTransactions",
        "leaderEpochs",
    ] {
        differ(key, &ours[key], &answer[key]);
    }
    let recovery_point = json!(row.recovery_point);
    differ("recoveryPoint", &recovery_point, &answer["recoveryPoint"]);
    differences.extend(compare_files(case, &run, &ours["files"]));
    differences
}

/// Every byte after the next clean stop, and what is done to files, told by the actions alone.
fn compare_files(case: &Case, run: &DryRun, told: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let out = tempfile::tempdir().unwrap();
    run.write_to(out.path()).unwrap();
    let names = |dir: &Path| -> BTreeSet<String> {
        let files = files_below(dir).into_iter();
        files
            .map(|file| file.file_name().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    let (ours, theirs) = (names(out.path()), names(&case.kafka_dir));
    if ours != theirs {
        differences.push(format!("files:\n    kseg  {ours:?}\n    Kafka {theirs:?}"));
    }
    for name in ours.intersection(&theirs) {
        let ours = fs::read(out.path().join(name)).unwrap();
        let theirs = fs::read(case.kafka_dir.join(name)).unwrap();
        if ours != theirs {
            let (ours, theirs) = (ours.len(), theirs.len());
            differences.push(format!("bytes of {name}: {ours} and {theirs}"));
        }
    }
    let before = names(&case.dir);
    let gone: Vec<&String> = before.difference(&theirs).collect();
    let new: Vec<&String> = theirs.difference(&before).collect();
    if told["removed"] != json!(gone) || told["created"] != json!(new) {
        differences.push(format!("actions say {told}, Kafka -{gone:?} +{new:?}"));
    }
    differences
}
