//! `__transaction_state` and `__consumer_offsets` against Kafka: what the live brokers listed,
//! described and gave for groups beside the fixtures, and the facts of the incidents. Nothing is
//! named here but keys of those files.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

#[path = "../common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;
#[path = "../common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

mod offset_commits;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use folders::answered_data;
use kseg::log::Io;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::partition_state::StateOptions;
use kseg::report::transaction_state::{
    CoordinatorRow, TransactionMetadata, TransactionState, TransactionStates,
};
use kseg::report::txns::{TxnsOptions, WantedStates, txns_partition};
use serde_json::{Value, json};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn dirs(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap().map(|it| it.unwrap().path());
    let mut dirs: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// A copy of a log directory with two open transactions, to be changed.
fn copy_with_open_transactions() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    folders::copy(&root().join("fixtures/s02-txn-tv2/data"), copy.path());
    copy
}

/// What `txns` prints of the open transactions.
fn open_transactions(path: &Path, format: &str) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["txns", "--state", "open", "-o", format])
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Who ends a transaction is not known from a state log that has lost records: it is no orphan.
#[test]
fn a_state_log_that_was_cut_makes_no_orphans() {
    let copy = copy_with_open_transactions();
    let classes = || {
        let text = open_transactions(copy.path(), "ndjson");
        let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let rows: Vec<Value> = rows.collect();
        assert!(!rows.is_empty());
        let classes = rows.iter().map(|row| row["class"].as_str().unwrap());
        classes.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(classes().iter().all(|class| class == "ongoing"));
    for partition in ["__transaction_state-0", "__transaction_state-1"] {
        for entry in fs::read_dir(copy.path().join(partition)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|it| it == "log") {
                fs::write(path, "").unwrap();
            }
        }
    }
    let classes = classes();
    let unknown = "unknown: not all of __transaction_state is here";
    assert!(classes.iter().all(|class| class == unknown), "{classes:?}");
}

/// A commit whose marker was cut off here looks like a transaction that hangs.
#[test]
fn no_abort_is_advised_where_a_commit_may_have_lost_its_marker() {
    let copy = copy_with_open_transactions();
    // The last batch is the marker, of offset 172, of the transaction at 168.
    let log = copy.path().join("tx-1/00000000000000000165.log");
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..bytes.len() - 50]).unwrap();
    let text = open_transactions(copy.path(), "table");
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    let of = |command: &str| paragraphs.iter().find(|it| it.contains(command)).unwrap();
    let commit = of("--topic tx --partition 1 --start-offset 168");
    assert!(
        commit.starts_with("the marker of these may be missing"),
        "{text}"
    );
    let ongoing = of("--topic tx --partition 1 --start-offset 157");
    assert!(
        ongoing.starts_with("their coordinator is still to end these"),
        "{text}"
    );
}

/// Log directories with the answers of the live broker about transactional ids.
fn live_answers() -> Vec<(PathBuf, Value)> {
    let mut all = Vec::new();
    for fixture in dirs(&root().join("fixtures")) {
        let answers = fixture.join("expected/transactions.json");
        if !answers.is_file() {
            continue;
        }
        let data = answered_data(&fixture);
        // Some fixtures hold the partition they are about and nothing else.
        if load(&data).is_some() {
            all.push((data, read(&answers)));
        }
    }
    all
}

/// Incidents whose expected answers have a key.
fn incidents_with(key: &str) -> Vec<(PathBuf, Value)> {
    let all = dirs(&root().join("fixtures/incidents")).into_iter();
    let with_answers = all.map(|dir| (dir.join("data"), read(&dir.join("expected.json"))));
    with_answers
        .filter(|(_, expected)| !expected[key].is_null())
        .collect()
}

fn load(data: &Path) -> Option<TransactionStates> {
    TransactionStates::load(&[data.to_owned()], Io::Mmap).unwrap()
}

/// Some keys of an object, under other names: `keys` has ours and theirs.
fn pick(row: &Value, keys: &[(&str, &str)]) -> Value {
    keys.iter()
        .map(|(ours, theirs)| ((*theirs).to_owned(), row[*ours].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn sorted(mut rows: Vec<Value>) -> Value {
    rows.sort_by_key(|row| row["transactionalId"].as_str().unwrap().to_owned());
    rows.into()
}

/// What we have of every transactional id, as `describeTransactions` would give it.
fn described(states: &TransactionStates, partitions: &str) -> Vec<Value> {
    states
        .iter()
        .map(|(id, metadata)| {
            let row = serde_json::to_value(CoordinatorRow::from(metadata)).unwrap();
            let mut row = pick(
                &row,
                &[
                    ("state", "state"),
                    ("producerId", "producerId"),
                    ("producerEpoch", "producerEpoch"),
                    ("transactionTimeoutMs", "transactionTimeoutMs"),
                    ("transactionStartTimeMs", "transactionStartTimeMs"),
                    ("topicPartitions", partitions),
                ],
            );
            row["transactionalId"] = id.into();
            row
        })
        .collect()
}

#[test]
fn fixtures_have_the_transactional_ids_the_live_broker_listed_and_described() {
    let (mut listed, mut described_ids) = (0, 0);
    for (data, answers) in live_answers() {
        let what = data.display();
        let ours = described(&load(&data).unwrap(), "topicPartitions");
        if let Some(theirs) = answers["listTransactions"].as_array() {
            let keys = ["transactionalId", "producerId", "state"].map(|key| (key, key));
            let ours = ours.iter().map(|row| pick(row, &keys)).collect();
            listed += theirs.len();
            assert_eq!(sorted(ours), sorted(theirs.clone()), "{what}");
        }
        if let Some(theirs) = answers["describeTransactions"].as_array() {
            let mut theirs = theirs.clone();
            for row in &mut theirs {
                row.as_object_mut().unwrap().remove("coordinatorId");
            }
            described_ids += theirs.len();
            assert_eq!(sorted(ours), sorted(theirs), "{what}");
        }
    }
    assert!(
        listed >= 40 && described_ids >= 40,
        "{listed} {described_ids}"
    );
}

#[test]
fn incidents_are_described_as_the_broker_did() {
    let mut compared = 0;
    for (data, expected) in incidents_with("describedByBroker") {
        let theirs = expected["describedByBroker"].as_array().unwrap();
        let wanted: BTreeSet<&str> = theirs
            .iter()
            .map(|row| row["transactionalId"].as_str().unwrap())
            .collect();
        let mut ours = described(&load(&data).unwrap(), "partitions");
        ours.retain(|row| wanted.contains(row["transactionalId"].as_str().unwrap()));
        compared += theirs.len();
        assert_eq!(sorted(ours), sorted(theirs.clone()), "{}", data.display());
    }
    assert!(compared >= 6);
}

fn kseg(arguments: &[&str], path: &Path) -> program::Run {
    let path = path.to_str().unwrap();
    program::run(root(), arguments.iter().copied().chain([path]))
}

fn rows_of(arguments: &[&str], path: &Path) -> Vec<Value> {
    let output = kseg(arguments, path);
    let lines = output.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The rows of `txns`, with more arguments.
fn open_ones(arguments: &[&str], path: &Path) -> Vec<Value> {
    let mut all = vec!["txns", "-o", "ndjson", "--state", "open"];
    all.extend(arguments);
    rows_of(&all, path)
}

/// The open transactions that `verify` finds.
fn found_open(path: &Path) -> Vec<Value> {
    let mut rows = rows_of(&["verify", "-o", "ndjson"], path);
    rows.retain(|row| row["kind"] == "open-transaction");
    rows
}

fn classes(rows: &[Value]) -> BTreeSet<String> {
    let keys = ["transactionalId", "producerId", "producerEpoch", "class"];
    let keys = keys.map(|key| (key, key));
    rows.iter()
        .map(|row| pick(row, &keys).to_string())
        .collect()
}

#[test]
fn incidents_class_their_open_transactions() {
    let mut compared = 0;
    for (data, expected) in incidents_with("classes") {
        let theirs = expected["classes"].as_array().unwrap();
        let keys = ["transactionalId", "producerId", "producerEpoch", "class"];
        let keys = keys.map(|key| (key, key));
        let theirs: BTreeSet<String> = theirs
            .iter()
            .map(|row| pick(row, &keys).to_string())
            .collect();
        let rows = open_ones(&[], &data);
        assert_eq!(classes(&rows), theirs, "{}", data.display());
        assert_eq!(classes(&found_open(&data)), theirs, "{}", data.display());
        compared += theirs.len();
        // A partition finds the log directory it lies in, and so does a file.
        let of_partition = |topic: &str, partition: i64| {
            let wanted = |row: &&Value| row["topic"] == topic && row["partition"] == partition;
            rows.iter().filter(wanted).cloned().collect::<Vec<_>>()
        };
        let (topic, partition) = (&rows[0]["topic"], &rows[0]["partition"]);
        let (topic, partition) = (topic.as_str().unwrap(), partition.as_i64().unwrap());
        let dir = data.join(format!("{topic}-{partition}"));
        assert_eq!(open_ones(&[], &dir), of_partition(topic, partition));
        assert_eq!(
            classes(&found_open(&dir)),
            classes(&of_partition(topic, partition))
        );
        let file = dir.join("00000000000000000000.log");
        assert_eq!(
            classes(&open_ones(&[], &file)),
            classes(&of_partition(topic, partition))
        );
        // `lso` says the same of the one that holds, and the table names each.
        let held = kseg(&["lso", "-o", "ndjson"], &data).stdout;
        for line in held.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let held = &row["heldBy"];
            if held.is_null() {
                continue;
            }
            let same = rows.iter().find(|it| {
                it["topic"] == row["topic"]
                    && it["partition"] == row["partition"]
                    && it["firstOffset"] == held["firstOffset"]
            });
            let keys = ["transactionalId", "class", "coordinator"].map(|key| (key, key));
            assert_eq!(pick(held, &keys), pick(same.unwrap(), &keys));
        }
        let table = kseg(&["txns", "--state", "open"], &data).stdout;
        for row in &rows {
            let line = format!("# {}: {}", text(row, "transactionalId"), text(row, "class"));
            assert!(table.contains(&line), "{line}\n{table}");
        }
    }
    assert!(compared >= 5);
}

fn text<'r>(row: &'r Value, key: &str) -> &'r str {
    row[key].as_str().unwrap()
}

/// What a broker described is what its find-hanging command goes by: an open transaction whose
/// partition is in the description is still to be ended, any other hangs.
#[test]
fn open_transactions_hang_where_kafkas_own_command_says_so() {
    let (mut ongoing, mut orphans) = (0, 0);
    for (data, answers) in live_answers() {
        let Some(descriptions) = answers["describeTransactions"].as_array() else {
            continue;
        };
        let owners: BTreeMap<i64, &Value> = descriptions
            .iter()
            .map(|row| (row["producerId"].as_i64().unwrap(), row))
            .collect();
        let rows = open_ones(&[], &data);
        assert_eq!(classes(&found_open(&data)), classes(&rows));
        for row in rows {
            let owner = owners.get(&row["producerId"].as_i64().unwrap());
            let partition = json!(format!("{}-{}", text(&row, "topic"), row["partition"]));
            let is_listed = owner.is_some_and(|owner| {
                owner["topicPartitions"]
                    .as_array()
                    .unwrap()
                    .contains(&partition)
            });
            let class = text(&row, "class");
            assert_eq!(class == "ongoing", is_listed, "{} {row}", data.display());
            assert_eq!(class.starts_with("orphan: "), !is_listed, "{row}");
            if let Some(owner) = owner {
                assert_eq!(row["transactionalId"], owner["transactionalId"]);
                assert_eq!(row["coordinator"]["state"], owner["state"]);
            }
            ongoing += usize::from(is_listed);
            orphans += usize::from(!is_listed);
        }
    }
    assert!(ongoing >= 14 && orphans >= 1, "{ongoing} {orphans}");
}

/// Every `__transaction_state` of fixtures and incidents.
fn log_dirs_with_states() -> Vec<PathBuf> {
    let fixtures = dirs(&root().join("fixtures")).into_iter();
    let all = fixtures.chain(dirs(&root().join("fixtures/incidents")));
    let data = all.flat_map(|fixture| [fixture.join("data"), fixture.join("recovered")]);
    data.filter(|dir| dir.is_dir() && load(dir).is_some())
        .collect()
}

#[test]
fn what_was_completed_has_its_marker_in_each_partition() {
    let (mut completed, mut markers_found) = (0, 0);
    for data in log_dirs_with_states() {
        let mut wanted = Vec::new();
        let states = TransactionStates::load_with(std::slice::from_ref(&data), Io::Mmap, |it| {
            completed += 1;
            let is_commit = it.state == TransactionState::CompleteCommit;
            assert!(is_commit || it.state == TransactionState::CompleteAbort);
            let state = if is_commit { "COMMITTED" } else { "ABORTED" };
            for (topic, number) in it.topic_partitions.iter() {
                let partition = format!("{topic}-{number}");
                wanted.push((partition, it.producer_id, it.producer_epoch, state));
            }
        });
        assert_eq!(states.unwrap().unwrap().unread(), [], "{}", data.display());
        let mut markers = BTreeMap::new();
        for (partition, producer_id, epoch, state) in wanted {
            let path = data.join(&partition);
            if !path.is_dir() {
                continue;
            }
            let ends = markers
                .entry(partition)
                .or_insert_with(|| markers_in(&path));
            // Compaction and retention remove markers, and with them what came before.
            if ends.starts_at > 0 {
                continue;
            }
            let marker = (producer_id, epoch, state.to_owned());
            assert!(
                ends.markers.contains(&marker),
                "{} {marker:?}",
                path.display()
            );
            markers_found += 1;
        }
    }
    assert!(
        completed >= 300 && markers_found >= 300,
        "{completed} {markers_found}"
    );
}

struct Markers {
    /// Above 0 if the beginning is gone or something was cleaned away.
    starts_at: i64,
    markers: BTreeSet<(i64, i16, String)>,
}

fn markers_in(path: &Path) -> Markers {
    let dir = PartitionDir::open(path).unwrap();
    let mut markers = BTreeSet::new();
    let options = TxnsOptions {
        state: StateOptions::default(),
        states: WantedStates::ALL,
        ..TxnsOptions::default()
    };
    txns_partition(&dir, Default::default(), &options, |row| {
        if let Some(epoch) = row.marker_epoch {
            markers.insert((row.producer_id, epoch, row.state.name().to_owned()));
        }
        Ok::<_, kseg::log::Error>(())
    })
    .unwrap();
    Markers {
        starts_at: dir.segments.first().map_or(0, |it| it.base_offset),
        markers,
    }
}

#[test]
fn ids_filter_by_prefix_and_need_a_state_log() {
    for (data, expected) in incidents_with("describedByBroker") {
        let all = open_ones(&[], &data);
        let described = expected["describedByBroker"].as_array().unwrap();
        for row in described {
            let id = text(row, "transactionalId");
            let ours = open_ones(&["--transactional-id-prefix", id], &data);
            let names = ours
                .iter()
                .map(|row| format!("{}-{}", text(row, "topic"), row["partition"]));
            let names: BTreeSet<String> = names.collect();
            let theirs = row["partitions"].as_array().unwrap().iter();
            let theirs: BTreeSet<String> =
                theirs.map(|it| it.as_str().unwrap().to_owned()).collect();
            assert_eq!(names, theirs, "{id}");
        }
        let common = &text(&described[0], "transactionalId")[..1];
        assert_eq!(
            open_ones(&["--transactional-id-prefix", common], &data),
            all
        );
        assert_eq!(
            open_ones(&["--transactional-id-prefix", "no such id"], &data).len(),
            0
        );
    }
}

/// Copies partition directories of a log directory under another roof.
fn copied(data: &Path, wanted: impl Fn(&str) -> Option<String>) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for partition in dirs(data) {
        let Some(name) = wanted(name(&partition)) else {
            continue;
        };
        folders::copy(&partition, &copy.path().join(&name));
    }
    copy
}

const STATES: &str = "__transaction_state-";

#[test]
fn without_a_state_log_nothing_is_said_of_ids() {
    for (data, _) in incidents_with("classes") {
        let copy = copied(&data, |name| {
            (!name.starts_with(STATES)).then(|| name.to_owned())
        });
        let rows = open_ones(&[], copy.path());
        assert_eq!(rows.len(), open_ones(&[], &data).len());
        for row in rows {
            for key in ["transactionalId", "class", "coordinator"] {
                assert_eq!(row.get(key), Some(&Value::Null), "{key}");
            }
        }
        for command in ["txns", "lso"] {
            let table = kseg(&[command], copy.path()).stdout;
            assert_eq!(
                table.matches("no __transaction_state here").count(),
                1,
                "{table}"
            );
            assert!(!table.contains("TRANSACTIONAL ID"), "{table}");
        }
        let prefix = kseg(&["txns", "--transactional-id-prefix", "a"], copy.path());
        assert_eq!(prefix.status, 2);
        assert!(
            prefix.stderr.contains("__transaction_state"),
            "{}",
            prefix.stderr
        );
        // On two disks it is one broker.
        let states = copied(&data, |name| {
            name.starts_with(STATES).then(|| name.to_owned())
        });
        let both = [states.path().to_str().unwrap()];
        assert_eq!(
            classes(&open_ones(&both, copy.path())),
            classes(&open_ones(&[], &data))
        );
    }
}

/// Under a higher number it is known that partitions are missing; an id that no record names may be
/// in one of those. One that is named lies here.
#[test]
fn a_missing_state_partition_leaves_unknown_what_no_record_names() {
    for (data, expected) in incidents_with("classes") {
        let other = |name: &str| match name.strip_prefix(STATES) {
            Some(number) => format!("{STATES}{}", number.parse::<i32>().unwrap() + 1),
            None => name.to_owned(),
        };
        let copy = copied(&data, |name| Some(other(name)));
        let theirs = expected["classes"].as_array().unwrap().len();
        assert_eq!(
            classes(&open_ones(&[], copy.path())),
            classes(&open_ones(&[], &data))
        );
        for state in dirs(copy.path()) {
            if name(&state).starts_with(STATES) {
                fs::write(state.join("00000000000000000000.log"), b"").unwrap();
            }
        }
        let rows = open_ones(&[], copy.path());
        let unknown = "unknown: not all of __transaction_state is here";
        assert!(rows.len() >= theirs && rows.iter().all(|row| row["class"] == unknown));
        assert!(rows.iter().all(|row| row["transactionalId"].is_null()));
    }
}

/// Every transactional id with what is known of it.
fn known(states: &TransactionStates) -> BTreeMap<String, TransactionMetadata> {
    let ids = states.iter();
    ids.map(|(id, metadata)| (id.to_owned(), metadata.clone()))
        .collect()
}

/// Of two replicas the one that a leader election would take.
#[test]
fn the_longer_replica_counts() {
    for (data, _) in incidents_with("classes") {
        let short = copied(&data, |name| {
            name.starts_with(STATES).then(|| name.to_owned())
        });
        for state in dirs(short.path()) {
            let log = state.join("00000000000000000000.log");
            let bytes = fs::read(&log).unwrap();
            fs::write(log, &bytes[..bytes.len() / 2]).unwrap();
        }
        let paths = [data.clone(), short.path().to_owned()];
        let mut turned = paths.clone();
        turned.reverse();
        let whole = known(&load(&data).unwrap());
        assert_ne!(known(&load(short.path()).unwrap()), whole);
        for paths in [paths, turned] {
            let both = TransactionStates::load(&paths, Io::Read).unwrap().unwrap();
            assert_eq!(known(&both), whole);
        }
    }
}

/// A transaction that begins while the coordinators are read is not known to them: in a log that
/// was written to since, none is an orphan, unless the broker has stopped for good.
#[test]
fn nothing_is_an_orphan_in_a_log_that_was_written_to_since() {
    let copy = tempfile::tempdir().unwrap();
    let fixture = root().join("fixtures/incidents/coordinator-forgot/data");
    folders::copy(&fixture, copy.path());
    fs::remove_file(copy.path().join(".kafka_cleanshutdown")).unwrap();
    let states = TransactionStates::load(&[copy.path().to_owned()], Io::Mmap);
    let states = Arc::new(states.unwrap().unwrap());
    let classes = || {
        let mut classes = BTreeMap::new();
        for path in dirs(copy.path()) {
            let dir = PartitionDir::open(&path).unwrap();
            let options = TxnsOptions {
                states: WantedStates::ALL,
                coordinators: Some(Arc::clone(&states)),
                ..TxnsOptions::default()
            };
            txns_partition::<kseg::log::Error>(&dir, Default::default(), &options, |row| {
                if let Some(class) = row.class {
                    *classes.entry(class.to_string()).or_insert(0) += 1;
                }
                Ok(())
            })
            .unwrap();
        }
        classes
    };
    let before = classes();
    let orphans = |classes: &BTreeMap<String, u64>| {
        let orphans = classes
            .iter()
            .filter(|(class, _)| class.starts_with("orphan"));
        orphans.map(|(_, number)| number).sum::<u64>()
    };
    assert!(orphans(&before) >= 2, "{before:?}");
    let newer = "unknown: may be newer than what was read";
    assert!(!before.contains_key(newer));

    for path in dirs(copy.path()) {
        let dir = PartitionDir::open(&path).unwrap();
        let log = dir.file(dir.segments.last().unwrap().log).unwrap();
        let log = fs::File::options()
            .write(true)
            .open(dir.file_path(log))
            .unwrap();
        log.set_modified(std::time::SystemTime::now()).unwrap();
    }
    let after = classes();
    assert_eq!(after.get(newer), Some(&orphans(&before)), "{after:?}");
    assert_eq!(orphans(&after), 0);
    assert_eq!(after.get("ongoing"), before.get("ongoing"));

    fs::write(copy.path().join(".kafka_cleanshutdown"), "{}").unwrap();
    assert_eq!(classes(), before);
}

/// The segment with the beginning of an open transaction is gone from the middle of the log.
#[test]
fn a_transaction_that_began_in_a_missing_segment_is_not_below_the_log_start() {
    let copy = tempfile::tempdir().unwrap();
    let fixture = root().join("fixtures/incidents/several-open-transactions/data");
    folders::copy(&fixture, copy.path());
    let path = dirs(copy.path()).remove(0);
    let dir = PartitionDir::open(&path).unwrap();
    let middle = dir.segments[1].base_offset;
    fs::remove_file(path.join(format!("{middle:020}.log"))).unwrap();
    let table = open_transactions(&path, "table");
    assert!(!table.contains("below the log start"), "{table}");
    assert!(table.contains("see kseg gaps"), "{table}");
}
