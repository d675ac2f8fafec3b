//! Facts of the incidents that `ls`, `dump`, `producers`, `lso` and `txns` give, asked of the
//! program itself. Which incident has which fact its `expected.json` says; none is named here.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn incidents() -> Vec<(PathBuf, Value)> {
    let entries = fs::read_dir(root().join("fixtures/incidents")).unwrap();
    let mut dirs: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
    dirs.retain(|dir| dir.is_dir());
    dirs.sort();
    let expected = |dir: &PathBuf| fs::read(dir.join("expected.json")).unwrap();
    let all = dirs.into_iter().map(|dir| {
        let expected = serde_json::from_slice(&expected(&dir)).unwrap();
        (dir.join("data"), expected)
    });
    all.collect()
}

/// Incidents with a fact at the top.
fn with(key: &str) -> Vec<(PathBuf, Value)> {
    let mut all = incidents();
    all.retain(|(_, expected)| !expected[key].is_null());
    assert!(!all.is_empty(), "{key}");
    all
}

/// Partitions with their facts.
fn partitions() -> Vec<(PathBuf, Value)> {
    let mut all = Vec::new();
    for (data, expected) in incidents() {
        for (partition, facts) in expected["partitions"].as_object().unwrap() {
            all.push((data.join(partition), facts.clone()));
        }
    }
    all
}

/// The one partition of an incident that is about one.
fn only_partition(data: &Path, expected: &Value) -> PathBuf {
    let partitions: Vec<&String> = expected["partitions"].as_object().unwrap().keys().collect();
    let [only] = partitions.as_slice() else {
        panic!("{}: {partitions:?}", data.display());
    };
    data.join(only)
}

/// What the program prints, row by row.
fn rows(arguments: &[&str], path: &Path) -> Vec<Value> {
    let mut all = arguments.to_vec();
    all.extend(["-o", "ndjson", path.to_str().unwrap()]);
    let lines = program::run(root(), all).stdout;
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

/// The files of a partition that end like this, in order.
fn files(partition: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(partition).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|it| it.unwrap().path()).collect();
    files.retain(|file| file.to_str().unwrap().ends_with(ending));
    files.sort();
    files
}

/// Some keys of rows, under other names: `keys` has ours and theirs.
fn pick(rows: &[Value], keys: &[(&str, &str)]) -> Value {
    let pick = |row: &Value| {
        let keys = keys
            .iter()
            .map(|(ours, theirs)| ((*theirs).to_owned(), row[*ours].clone()));
        keys.collect::<serde_json::Map<_, _>>()
    };
    rows.iter()
        .map(pick)
        .map(Value::from)
        .collect::<Vec<_>>()
        .into()
}

#[test]
fn segments_and_batches_are_counted() {
    let (mut compared, mut segments) = (0, 0);
    for (partition, facts) in partitions() {
        let what = partition.display();
        let listed = rows(&["ls", "--segments"], &partition);
        let listed = &listed[0];
        for key in ["logStartOffset", "logEndOffset"] {
            if facts[key].is_i64() {
                assert_eq!(listed[key], facts[key], "{what} {key}");
            }
        }
        let counts = &facts["counts"];
        // The facts count from the batch with the log start on, `ls` what lies in the files.
        let begins_with_a_file = listed["segmentList"][0]["baseOffset"] == listed["logStartOffset"];
        if counts.is_object() && begins_with_a_file {
            assert_eq!(listed["batches"], counts["batches"], "{what}");
            assert_eq!(listed["records"], counts["dataRecords"], "{what}");
            let mut batches = rows(&["dump", "--headers-only"], &partition);
            // Files that are not in use are dumped as well.
            let is_live = |row: &Value| row["file"].as_str().unwrap().ends_with(".log");
            batches.retain(|row| row["type"] == "batch" && is_live(row));
            let of = |is_empty, is_control: Option<bool>| {
                let wanted = batches.iter().filter(|row| {
                    (row["count"] == 0) == is_empty
                        && is_control.is_none_or(|wanted| row["isControl"] == wanted)
                });
                wanted.count()
            };
            // A batch that the cleaner emptied is neither data nor control there.
            assert_eq!(counts["dataBatches"], of(false, Some(false)), "{what}");
            assert_eq!(counts["controlBatches"], of(false, Some(true)), "{what}");
            assert_eq!(counts["emptyBatches"], of(true, None), "{what}");
            let control = of(false, Some(true)) + of(true, Some(true));
            assert_eq!(listed["controlBatches"], control, "{what}");
            compared += 1;
        }
        if let Some(theirs) = facts["segments"].as_array() {
            let mut ours = listed["segmentList"].as_array().unwrap().clone();
            for segment in &mut ours {
                let damaged = segment["damagedBytes"].as_i64().unwrap();
                segment["wholeBatchBytes"] =
                    json!(segment["sizeInBytes"].as_i64().unwrap() - damaged);
            }
            let keys = [
                ("file", "file"),
                ("baseOffset", "baseOffset"),
                ("sizeInBytes", "size"),
                ("batches", "batches"),
                ("wholeBatchBytes", "wholeBatchBytes"),
            ];
            assert_eq!(pick(&ours, &keys), json!(theirs), "{what}");
            segments += theirs.len();
        }
    }
    assert!(compared >= 50 && segments >= 80, "{compared} {segments}");
}

#[test]
fn records_are_counted_by_the_fate_of_their_transaction() {
    let mut compared = 0;
    for (partition, facts) in partitions() {
        let counts = &facts["counts"];
        // What lies below the log start is in the counts, but no transaction of the log any more.
        if !counts.is_object() || facts["logStartOffset"] != 0 {
            continue;
        }
        let txns = rows(&["txns", "--from-scratch"], &partition);
        let of = |state: &str| -> u64 {
            let of_state = txns.iter().filter(|row| row["state"] == state);
            of_state.map(|row| row["records"].as_u64().unwrap()).sum()
        };
        let (committed, aborted, open) = (of("COMMITTED"), of("ABORTED"), of("OPEN"));
        let what = partition.display();
        assert_eq!(counts["committedRecords"], committed, "{what}");
        assert_eq!(counts["abortedRecords"], aborted, "{what}");
        assert_eq!(counts["openRecords"], open, "{what}");
        let plain = counts["dataRecords"].as_u64().unwrap() - committed - aborted - open;
        assert_eq!(counts["nonTransactionalRecords"], plain, "{what}");
        compared += 1;
    }
    assert!(compared >= 50, "{compared}");
}

#[test]
fn snapshots_grow_with_the_producers() {
    for (data, expected) in with("newProducersPerMinute") {
        let partition = only_partition(&data, &expected);
        let statistics = rows(&["producers", "--stats"], &partition);
        let statistics = &statistics[0];
        assert_eq!(statistics["producers"], expected["producers"]);
        assert_eq!(
            statistics["oneBatchProducers"],
            expected["oneBatchProducers"]
        );
        let rate = statistics["producersPerMinute"].as_f64();
        assert_eq!(rate, expected["newProducersPerMinute"].as_f64());
        let keys = [
            ("offset", "offset"),
            ("producers", "producers"),
            ("sizeInBytes", "bytes"),
        ];
        let growth = statistics["growth"].as_array().unwrap();
        assert_eq!(pick(growth, &keys), expected["snapshots"]);
        let snapshots = rows(&["producers", "--snapshots"], &partition);
        assert_eq!(pick(&snapshots, &keys), expected["snapshots"]);
    }
}

#[test]
fn expired_producers_of_a_snapshot_are_dropped_at_load() {
    for (data, expected) in with("snapshotEntries") {
        let partition = only_partition(&data, &expected);
        let number = |key: &str| expected[key].as_i64().unwrap().to_string();
        let (now, expiration) = (number("asOfMs"), number("producerIdExpirationMs"));
        let clock = ["--now", &now, "--producer-id-expiration-ms", &expiration];
        let snapshots = rows(
            &[&["producers", "--snapshots"], &clock[..]].concat(),
            &partition,
        );
        let newest = snapshots.last().unwrap();
        let expired = newest["expiredProducers"].as_array().unwrap();
        let file = partition.join(newest["file"].as_str().unwrap());
        let mut entries = rows(&["dump"], &file);
        for entry in &mut entries {
            let is_expired = expired.contains(&entry["producerId"]);
            entry["atLoad"] = json!(if is_expired { "dropped" } else { "kept" });
        }
        entries.sort_by_key(|entry| entry["producerId"].as_i64());
        let keys = [
            ("producerId", "producerId"),
            ("timestamp", "lastTimestamp"),
            ("atLoad", "atLoad"),
        ];
        assert_eq!(pick(&entries, &keys), expected["snapshotEntries"]);
        // Those that are kept are what a broker has that loads it.
        let kept = entries.iter().filter(|entry| entry["atLoad"] == "kept");
        let kept: Vec<&Value> = kept.map(|entry| &entry["producerId"]).collect();
        let loaded = rows(&[&["producers"], &clock[..]].concat(), &partition);
        let mut loaded: Vec<&Value> = loaded.iter().map(|row| &row["producerId"]).collect();
        loaded.sort_by_key(|id| id.as_i64());
        assert_eq!(loaded, kept);
        // Without a clock nobody is too old.
        let snapshots = rows(&["producers", "--snapshots"], &partition);
        assert!(
            snapshots
                .iter()
                .all(|row| row["expiredProducers"].is_null())
        );
    }
}

#[test]
fn timestamps_that_decide_retention_are_listed_by_segment() {
    for (data, expected) in with("decidingTimestamps") {
        let partition = only_partition(&data, &expected);
        let listed = rows(&["ls", "--segments"], &partition);
        let keys = [
            ("baseOffset", "baseOffset"),
            ("maxTimestamp", "largestTimestamp"),
        ];
        let segments = listed[0]["segmentList"].as_array().unwrap();
        assert_eq!(pick(segments, &keys), expected["decidingTimestamps"]);
        let table = program::run(root(), ["ls", "--segments", partition.to_str().unwrap()]);
        assert_eq!((table.status, table.stderr.as_str()), (0, ""));
    }
}

#[test]
fn directories_are_what_their_names_say() {
    for (data, expected) in with("directories") {
        let mut listed = rows(&["ls"], &data);
        for row in &mut listed {
            let path = PathBuf::from(row["path"].as_str().unwrap());
            row["directory"] = json!(path.file_name().unwrap().to_str().unwrap());
        }
        let keys = [
            ("directory", "directory"),
            ("topic", "topic"),
            ("partition", "partition"),
            ("status", "state"),
            ("topicId", "topicId"),
        ];
        assert_eq!(pick(&listed, &keys), expected["directories"]);
        let keys = [
            ("directory", "directory"),
            ("topic", "kafkaTopic"),
            ("partition", "kafkaPartition"),
        ];
        assert_eq!(pick(&listed, &keys), expected["parsedByKafka"]);
        let run = program::run(root(), ["ls", data.to_str().unwrap()]);
        for name in expected["notAPartition"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let warning = format!("{name}: not a partition directory");
            assert!(run.stderr.contains(&warning), "{}", run.stderr);
            assert!(!run.stdout.contains(name), "{}", run.stdout);
        }
        // A partition is asked for by its topic and number, whatever is in the topic's name.
        let of_topic = listed[0]["topic"].as_str().unwrap();
        assert_eq!(
            rows(&["ls", "--topic", of_topic], &data).len(),
            listed.len()
        );
    }
}

#[test]
fn entries_of_every_format_are_walked() {
    for (data, expected) in with("entries") {
        // There is nothing by partition here: these are the only files.
        let entries = fs::read_dir(&data).unwrap().map(|it| it.unwrap().path());
        let partitions: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
        let [partition] = partitions.as_slice() else {
            panic!("{partitions:?}");
        };
        let logs = files(partition, ".log");
        let dumped: Vec<Value> = logs.iter().flat_map(|log| rows(&["dump"], log)).collect();
        let keys = [
            ("magic", "magic"),
            ("compressionType", "codec"),
            ("lastOffset", "lastOffset"),
            ("sizeInBytes", "size"),
        ];
        assert_eq!(pick(&dumped, &keys), expected["entries"]);
        assert!(dumped.iter().all(|row| row["isValid"] == true));
        assert_eq!(
            rows(&["ls"], partition)[0]["logEndOffset"],
            expected["logEndOffset"]
        );
    }
}

#[test]
fn batches_show_what_the_cleaner_left_of_them() {
    for (data, expected) in with("batches") {
        let partition = only_partition(&data, &expected);
        let logs = files(&partition, ".log");
        let mut dumped: Vec<Value> = logs.iter().flat_map(|log| rows(&["dump"], log)).collect();
        dumped.retain(|row| row["type"] == "batch");
        for row in &mut dumped {
            let number = |key: &str| row[key].as_i64().unwrap();
            let gone = number("lastOffset") - number("baseOffset") + 1 - number("count");
            row["compactedAway"] = json!(gone);
        }
        let keys = [
            ("file", "file"),
            ("position", "position"),
            ("baseOffset", "baseOffset"),
            ("lastOffset", "lastOffset"),
            ("count", "recordsCount"),
            ("compactedAway", "compactedAway"),
            ("producerId", "producerId"),
            ("isTransactional", "transactional"),
            ("isControl", "control"),
            ("deleteHorizonMs", "deleteHorizonMs"),
        ];
        assert_eq!(
            pick(&dumped, &keys),
            expected["batches"],
            "{}",
            data.display()
        );
    }
}

/// `offsetIndexN`: the entries of the `.index` of the N-th partition.
#[test]
fn index_entries_are_what_either_writer_wrote() {
    for (data, expected) in with("offsetIndex0") {
        for (place, partition) in expected["partitions"]
            .as_object()
            .unwrap()
            .keys()
            .enumerate()
        {
            let theirs = &expected[format!("offsetIndex{place}")];
            let indexes = files(&data.join(partition), ".index");
            let entries = indexes.iter().flat_map(|index| rows(&["dump"], index));
            let ours = entries.map(|row| json!([row["offset"], row["position"]]));
            assert_eq!(&json!(ours.collect::<Vec<_>>()), theirs, "{partition}");
        }
    }
}

#[test]
fn both_last_stable_offsets_are_given_where_they_differ() {
    for (data, expected) in with("lastStableOffsetFromSnapshot") {
        let row = &rows(&["lso"], &only_partition(&data, &expected))[0];
        assert_eq!(
            row["lastStableOffset"],
            expected["lastStableOffsetFromSnapshot"]
        );
        assert_eq!(
            row["lastStableOffsetReplayed"],
            expected["lastStableOffsetFromLog"]
        );
        assert!(row["difference"].is_string());
    }
}

#[test]
fn records_that_a_lost_marker_leaves_committed_are_named() {
    let mut compared = 0;
    for (data, expected) in with("recordsWronglyCommitted") {
        let partition = only_partition(&data, &expected);
        let txns = rows(&["txns"], &partition);
        let findings = txns
            .iter()
            .flat_map(|row| row["findings"].as_array().unwrap());
        let ours: Vec<&Value> = findings
            .map(|finding| &finding["recordsWronglyCommitted"])
            .filter(|range| !range.is_null())
            .collect();
        assert_eq!(
            json!(ours),
            expected["recordsWronglyCommitted"],
            "{}",
            data.display()
        );
        let table = program::run(root(), ["txns", partition.to_str().unwrap()]).stdout;
        for range in ours {
            let named = format!("rolled back at {}..{} is committed", range[0], range[1]);
            assert!(table.contains(&named), "{table}");
            compared += 1;
        }
    }
    assert!(compared >= 2);
}
