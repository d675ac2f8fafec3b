//! `producers` and `lso` against Kafka: the live broker's answers beside the fixtures, the final
//! state of every case, and the facts of every incident.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::expiry::{Activity, Clock, activities};
use common::partitions;
use folders::answered_data;
use kseg::format::file_name::FileState;
use kseg::format::offset_index::OffsetIndexRows;
use kseg::log::batches::Entry;
use kseg::log::checkpoints::{CheckpointedOffsets, Checkpoints};
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::report::lso::{LsoRow, lso};
use kseg::report::partition_state::{StateOptions, load_partition_state};
use kseg::report::producers::{ProducerRow, producers};
use kseg::state::{Expiration, KnownProducer};
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn open(path: &Path) -> (PartitionDir, CheckpointedOffsets) {
    let dir = PartitionDir::open(path).unwrap();
    let above = Checkpoints::read(path.parent().unwrap(), kseg::log::Io::Mmap);
    let offsets = above.of(dir.topic().unwrap(), dir.partition().unwrap());
    (dir, offsets)
}

fn producer_rows(path: &Path, options: StateOptions) -> Vec<ProducerRow> {
    let (dir, offsets) = open(path);
    let state = load_partition_state(&dir, offsets, options)
        .unwrap()
        .unwrap();
    let mut rows = Vec::new();
    producers(
        &dir,
        &state,
        |_| true,
        |row| {
            rows.push(row);
            Ok::<_, std::convert::Infallible>(())
        },
    )
    .unwrap();
    rows
}

fn lso_row(path: &Path, options: StateOptions) -> LsoRow {
    let (dir, offsets) = open(path);
    lso(&dir, offsets, options).unwrap().unwrap()
}

/// Directories directly below `path`, sorted.
fn dirs(path: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    dirs.sort();
    dirs
}

/// A number where Kafka says -1 for "none".
fn minus_one<T: Into<i64>>(value: Option<T>) -> i64 {
    value.map_or(-1, Into::into)
}

/// What describeProducers tells of a producer.
fn described(row: &ProducerRow) -> Value {
    let row = &row.known;
    serde_json::json!({
        "producerId": row.producer_id,
        "producerEpoch": minus_one(row.producer_epoch),
        "lastSequence": minus_one(row.last_sequence),
        "lastTimestamp": minus_one(row.last_timestamp),
        "coordinatorEpoch": row.coordinator_epoch,
        "currentTransactionStartOffset": row.current_txn_first_offset,
    })
}

/// What a case's `activeProducers` tells of a producer.
fn active(row: &ProducerRow) -> Value {
    let row = &row.known;
    serde_json::json!({
        "producerId": row.producer_id,
        "producerEpoch": minus_one(row.producer_epoch),
        "coordinatorEpoch": minus_one(row.coordinator_epoch),
        "lastTimestamp": minus_one(row.last_timestamp),
        "currentTxnFirstOffset": row.current_txn_first_offset,
        "batchMetadata": row.batch_metadata.iter().map(|batch| serde_json::json!({
            "firstSeq": minus_one(batch.first_seq),
            "lastSeq": minus_one(batch.last_seq),
            "firstOffset": batch.first_offset,
            "lastOffset": batch.last_offset,
            "offsetDelta": batch.offset_delta,
            "timestamp": minus_one(batch.timestamp),
        })).collect::<Vec<_>>(),
    })
}

#[test]
fn fixtures_answer_as_the_live_broker_did() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for fixture in dirs(&root().join("fixtures")) {
        let expected = fixture.join("expected");
        if !expected.is_dir() {
            continue;
        }
        let data = answered_data(&fixture);
        for partition in dirs(&data) {
            let name = partition.file_name().unwrap().to_str().unwrap().to_owned();
            let answers = expected.join(format!("{name}.json"));
            if !answers.is_file() {
                continue;
            }
            let answers = json(&answers);
            let row = lso_row(&partition, StateOptions::default());
            let what = format!("{}/{name}", fixture.file_name().unwrap().to_str().unwrap());
            let offsets = &answers["offsets"];
            let ours = [
                ("earliest", row.log_start_offset),
                ("latestReadUncommitted", row.high_watermark),
                ("latestReadCommitted", row.last_stable_offset),
            ];
            for (key, ours) in ours {
                if let Some(theirs) = offsets[key].as_i64() {
                    compared += 1;
                    if theirs != ours {
                        wrong.push(format!("{what} {key}: broker {theirs}, kseg {ours}"));
                    }
                }
            }
            if let Some(theirs) = answers["activeProducers"].as_array() {
                let ours: Vec<Value> = producer_rows(&partition, StateOptions::default())
                    .iter()
                    .map(described)
                    .collect();
                compared += 1;
                let mut theirs = theirs.clone();
                theirs.sort_by_key(|it| it["producerId"].as_i64());
                if theirs != ours {
                    wrong.push(format!(
                        "{what} producers:\n  broker {theirs:?}\n  kseg   {ours:?}"
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 150, "{compared}");
}

/// Kafka 0.11 kept a marker as the producer's last batch, without sequences, and its snapshot
/// says so: Kafka 4.3.1 reads lastSequence -1 there and counts the first one back from it.
#[test]
fn what_has_no_sequence_is_null() {
    let partition = root().join("fixtures/s10-kafka-0.11.0.3/data/tx-1");
    let rows = producer_rows(&partition, StateOptions::default());
    let marker = rows.iter().find(|row| row.known.producer_id == 7).unwrap();
    let marker = serde_json::to_value(marker).unwrap();
    for key in ["firstSequence", "lastSequence"] {
        assert_eq!(marker[key], Value::Null, "{key}");
    }
    let batch = &marker["batchMetadata"][0];
    assert_eq!(
        (&batch["firstSeq"], &batch["lastSeq"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        (&marker["lastOffset"], &batch["firstOffset"]),
        (&80.into(), &80.into())
    );
    // Of no data a snapshot keeps no batch at all.
    let partition = root().join("fixtures/s02-txn-tv2/data/tx-0");
    let rows = producer_rows(&partition, StateOptions::default());
    let without_data: Vec<&KnownProducer> = rows
        .iter()
        .map(|row| &row.known)
        .filter(|known| known.batch_metadata.is_empty())
        .collect();
    assert!(!without_data.is_empty());
    for row in without_data {
        assert_eq!(
            (row.first_sequence, row.last_sequence, row.last_offset),
            (None, None, None)
        );
    }
}

/// What a run did that no file keeps, by the steps of its scenario.
struct Memory {
    /// The state was loaded from files once more, so older batches and ended transactions are
    /// forgotten, and expired producers may be.
    reloaded: bool,
    /// All snapshots were deleted between a stop and a start.
    state_was_lost: bool,
    /// Producers can have been forgotten for their age.
    may_expire: bool,
    /// What says how old they were.
    clock: Clock,
    /// Records or segments were deleted or cut off, so the log no longer shows all that happened.
    log_was_cut: bool,
}

impl Memory {
    fn of(case: &Case) -> Self {
        let scenario = &case.scenario;
        let steps: Vec<&str> = scenario["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step.as_object().unwrap().keys().next().unwrap().as_str())
            .collect();
        let any = |names: &[&str]| steps.iter().any(|step| names.contains(step));
        Self {
            reloaded: any(&["reopen", "truncateTo"]),
            state_was_lost: scenario["steps"]
                .as_array()
                .unwrap()
                .iter()
                .any(|step| step["reopen"]["deleteSnapshots"] == true),
            may_expire: any(&["advanceClock", "removeExpiredProducers"]),
            clock: Clock::of_case(scenario, &case.result),
            log_was_cut: any(&[
                "truncateTo",
                "truncateFullyAndStartAt",
                "deleteRecordsBefore",
                "deleteOldSegments",
            ]),
        }
    }

    fn is_all_on_disk(&self) -> bool {
        !self.reloaded && !self.may_expire && !self.log_was_cut
    }
}

fn batches(producer: &Value) -> Vec<[i64; 4]> {
    let number = |batch: &Value, key: &str| batch[key].as_i64().unwrap();
    let batches = producer["batchMetadata"].as_array().unwrap().iter();
    batches
        .map(|batch| {
            ["firstSeq", "lastSeq", "firstOffset", "lastOffset"].map(|key| number(batch, key))
        })
        .collect()
}

/// How a producer rebuilt from the files may differ from the one in the broker's memory: one side
/// may remember older batches than the other, and the oldest batch after a reload carries the
/// time of a later marker.
fn same_but_for_memory(ours: &Value, theirs: &Value) -> bool {
    let fields = [
        "producerEpoch",
        "coordinatorEpoch",
        "lastTimestamp",
        "currentTxnFirstOffset",
    ];
    let (mine, other) = (batches(ours), batches(theirs));
    fields.iter().all(|field| ours[field] == theirs[field])
        && (mine.ends_with(&other) || other.ends_with(&mine))
        && mine.is_empty() == other.is_empty()
}

/// A producer as it is if nothing before these batches and markers is known of it.
fn since(producer: &Value, activities: &[Activity]) -> Value {
    let mut producer = producer.clone();
    let first = activities[0].base_offset;
    let batches = producer["batchMetadata"].as_array_mut().unwrap();
    batches.retain(|it| it["firstOffset"].as_i64().unwrap() >= first);
    if !activities.iter().any(|it| it.is_control) {
        producer["coordinatorEpoch"] = (-1).into();
    }
    producer
}

/// Whether the run forgot the producer for its age and met it again: it has all of what the files
/// tell from then on, and nothing from before.
fn expired_and_came_back(ours: &Value, theirs: &Value, case: &Case, clock: &Clock) -> bool {
    let activities = activities(&case.partition, ours["producerId"].as_i64().unwrap());
    clock
        .after_expiry(&activities)
        .any(|known| same_but_for_memory(&since(ours, known), theirs))
}

/// Producers that differ between the files and the broker's memory for no reason that the run
/// gives.
fn unexplained<'a>(
    ours: &'a [Value],
    theirs: &'a [Value],
    case: &'a Case,
    memory: &'a Memory,
) -> impl Iterator<Item = String> + 'a {
    let find = |rows: &'a [Value], id: &Value| rows.iter().find(|it| &it["producerId"] == id);
    let wrong = ours.iter().filter_map(move |producer| {
        let other = find(theirs, &producer["producerId"]);
        let right = match other {
            Some(other) => {
                same_but_for_memory(producer, other)
                    || memory.log_was_cut
                    || memory.state_was_lost
                    || expired_and_came_back(producer, other, case, &memory.clock)
            }
            None => {
                let last_timestamp = producer["lastTimestamp"].as_i64().unwrap();
                memory.reloaded || memory.clock.has_expired(last_timestamp)
            }
        };
        (!right).then(|| format!("ours {producer}, theirs {other:?}"))
    });
    let missing = theirs.iter().filter_map(move |other| {
        let missing = find(ours, &other["producerId"]).is_none() && !memory.log_was_cut;
        missing.then(|| format!("misses {other}"))
    });
    wrong.chain(missing)
}

#[test]
fn cases_give_their_producers() {
    let mut exact = 0;
    let mut wrong = Vec::new();
    for case in cases() {
        let memory = Memory::of(&case);
        let end = &case.result["final"];
        let theirs = end["activeProducers"].as_array().unwrap();
        let scratch = StateOptions {
            from_scratch: true,
            ..StateOptions::default()
        };
        let replayed: Vec<Value> = producer_rows(&case.partition, scratch)
            .iter()
            .map(active)
            .collect();
        let loaded: Vec<Value> = producer_rows(&case.partition, StateOptions::default())
            .iter()
            .map(active)
            .collect();
        let name = &case.name;
        exact += u32::from(&replayed == theirs);
        if memory.is_all_on_disk() && &replayed != theirs {
            wrong.push(format!(
                "{name}: replayed\n  ours   {replayed:?}\n  theirs {theirs:?}"
            ));
        }
        for (how, ours) in [("replayed", &replayed), ("loaded", &loaded)] {
            let unexplained = unexplained(ours, theirs, &case, &memory);
            wrong.extend(unexplained.map(|what| format!("{name}: {how}: {what}")));
        }
        // A clean stop leaves a snapshot at the end: it is the state a broker loads, unless the
        // log was cut inside a batch. Then the end it had in memory lies above the last batch, and
        // loading deletes the snapshot there.
        let log_end = lso_row(&case.partition, StateOptions::default()).log_end_offset;
        if end["logEndOffset"] != log_end && !memory.log_was_cut {
            wrong.push(format!("{name}: log end {log_end}, theirs {end}"));
        }
        let snapshot = end["producerSnapshots"].as_array().unwrap().last();
        if let Some(snapshot) = snapshot.filter(|it| it["offset"] == log_end) {
            let mut rows = snapshot["producers"].as_array().unwrap().clone();
            rows.sort_by_key(|it| it["producerId"].as_i64());
            if rows != loaded {
                wrong.push(format!(
                    "{name}: loaded\n  ours   {loaded:?}\n  theirs {rows:?}"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        exact >= 120,
        "only {exact} cases are equal to the last batch"
    );
}

/// The last stable offset as loaded, and as replayed, is the one the run ended with, except:
///
/// - as loaded, a transaction that had ended below the snapshot and whose marker is not below the
///   high watermark is forgotten;
/// - as replayed, such a transaction comes back though the run forgot it at a restart, or once the
///   high watermark had passed its marker, before it was lowered again;
/// - as replayed, a transaction that began below the log start begins with its first batch of the
///   segment that holds the log start, and one that the run passed over when it was reloaded is
///   open again;
/// - after a truncation the run's first unstable offset can be a stale one, and after one inside a
///   batch the log ends lower.
#[test]
fn cases_give_their_last_stable_offset() {
    let mut equal = (0, 0);
    let mut wrong = Vec::new();
    for case in cases() {
        let end = &case.result["final"];
        let theirs = end["lastStableOffset"].as_i64().unwrap();
        let unreplicated = |offset: i64| {
            let txns = end["unreplicatedTransactions"].as_array().unwrap();
            txns.iter()
                .any(|txn| txn["firstOffset"].as_i64() == Some(offset))
        };
        let memory = Memory::of(&case);
        let loaded = lso_row(&case.partition, StateOptions::default());
        let scratch = StateOptions {
            from_scratch: true,
            ..StateOptions::default()
        };
        let replayed = lso_row(&case.partition, scratch);
        let name = &case.name;
        for (how, row) in [("loaded", &loaded), ("replayed", &replayed)] {
            let offsets = [
                ("logStartOffset", row.log_start_offset),
                ("logEndOffset", row.log_end_offset),
                ("highWatermark", row.high_watermark),
            ];
            for (key, ours) in offsets {
                let cut_inside_batch = key != "logStartOffset" && memory.log_was_cut;
                if end[key].as_i64() != Some(ours) && !cut_inside_batch {
                    wrong.push(format!(
                        "{name}: {how} {key}: ours {ours}, theirs {}",
                        end[key]
                    ));
                }
            }
        }
        let forgotten = unreplicated(theirs) || memory.log_was_cut;
        equal.0 += u32::from(loaded.last_stable_offset == theirs);
        if loaded.last_stable_offset != theirs && !forgotten {
            wrong.push(format!(
                "{name}: loaded {}, theirs {theirs}",
                loaded.last_stable_offset
            ));
        }
        let marker = replayed.held_by.as_ref().and_then(|it| {
            let is_ended = it.kind == "unreplicated-marker";
            is_ended.then(|| it.marker_offset.unwrap())
        });
        let forgotten = marker.is_some_and(|marker| {
            memory.reloaded || highest_watermark_since(&case, marker) > marker
        });
        let by_transactions = last_stable_offset_of_readable(&case);
        let readable = (begins_below_log_start(end) || memory.log_was_cut)
            && replayed.last_stable_offset == by_transactions.min(replayed.log_end_offset);
        let passed_over = memory.reloaded && began_below_unknown(&replayed, end);
        equal.1 += u32::from(replayed.last_stable_offset == theirs);
        if replayed.last_stable_offset != theirs && !forgotten && !readable && !passed_over {
            wrong.push(format!(
                "{name}: replayed {}, theirs {theirs}",
                replayed.last_stable_offset
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(equal.0 >= 155 && equal.1 >= 160, "{equal:?}");
}

/// The highest high watermark of the run from when the batch at `offset` was there on.
fn highest_watermark_since(case: &Case, offset: i64) -> i64 {
    let steps = case.result["steps"].as_array().unwrap().iter();
    let number = |state: &Value, key: &str| state[key].as_i64().unwrap();
    steps
        .map(|step| &step["state"])
        .skip_while(|state| number(state, "logEndOffset") <= offset)
        .map(|state| number(state, "highWatermark"))
        .max()
        .unwrap()
}

/// The transactions that the run knew in the end, open and unreplicated.
fn transactions(end: &Value) -> impl Iterator<Item = &Value> {
    let of = |key: &str| end[key].as_array().unwrap().iter();
    of("ongoingTransactions").chain(of("unreplicatedTransactions"))
}

/// Whether a transaction that the run knew in the end began below the log start.
fn begins_below_log_start(end: &Value) -> bool {
    let mut first = transactions(end).map(|txn| txn["firstOffset"].as_i64().unwrap());
    let log_start = end["logStartOffset"].as_i64().unwrap();
    first.any(|first| first < log_start)
}

/// Whether the transaction that holds is one that the run did not know in the end and that lies
/// below the log start: a run that was reloaded passes it over, recovery reads it.
fn began_below_unknown(row: &LsoRow, end: &Value) -> bool {
    row.held_by.as_ref().is_some_and(|it| {
        let is_it = |txn: &Value| txn["firstOffset"].as_i64() == Some(it.first_offset);
        it.first_offset < row.log_start_offset && !transactions(end).any(is_it)
    })
}

/// The last stable offset with the run's transactions, each from the first of its batches on that
/// are still there from the segment of the log start on, which recovery reads whole
/// (`LogLoader.recoverSegment`); below the log start it counts from the batch that holds that
/// (`UnifiedLog.maybeIncrementFirstUnstableOffset`). One that ended below the high watermark
/// counts no more as soon as it is looked at
/// (`ProducerStateManager.removeUnreplicatedTransactions`), which truncation does not do.
fn last_stable_offset_of_readable(case: &Case) -> i64 {
    let end = &case.result["final"];
    let log_start = end["logStartOffset"].as_i64().unwrap();
    let (dir, _) = open(&case.partition);
    let high_watermark = end["highWatermark"].as_i64().unwrap();
    let mut first_unstable = high_watermark;
    let mut bases = dir.segments.iter().map(|it| it.base_offset);
    let segment = bases.rfind(|base| *base <= log_start).unwrap_or(0);
    for txn in transactions(end) {
        let begins_at = txn["firstOffset"].as_i64().unwrap();
        let ends_at = txn["lastOffset"].as_i64().unwrap_or(i64::MAX);
        if ends_at < high_watermark {
            continue;
        }
        let mut is_there = false;
        walk_partition(&dir, kseg::log::Io::Mmap, 0, |_, entry| {
            let Entry::Batch(batch) = entry else {
                return Ok::<_, kseg::log::Error>(ControlFlow::Continue(()));
            };
            let header = batch.header;
            is_there |= header.base_offset() >= segment
                && (begins_at..ends_at).contains(&header.base_offset())
                && Some(header.producer_id()) == txn["producerId"].as_i64()
                && header.attributes().is_transactional()
                && !header.attributes().is_control();
            if is_there && header.last_offset() >= log_start {
                first_unstable = first_unstable.min(header.base_offset());
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    }
    first_unstable
}

struct Case {
    name: String,
    partition: PathBuf,
    scenario: Value,
    result: Value,
}

fn cases() -> impl Iterator<Item = Case> {
    partitions::cases().into_iter().map(|case| Case {
        name: case.file_name().unwrap().to_str().unwrap().to_owned(),
        partition: dirs(&case).remove(0),
        scenario: json(&case.join("scenario.json")),
        result: json(&case.join("result.json")),
    })
}

/// A producer as `expected.json` of an incident writes it.
fn incident_producer(row: &ProducerRow) -> Value {
    let row = &row.known;
    serde_json::json!({
        "producerId": row.producer_id,
        "producerEpoch": minus_one(row.producer_epoch),
        "coordinatorEpoch": minus_one(row.coordinator_epoch),
        "lastSequence": minus_one(row.last_sequence),
        "lastDataOffset": minus_one(row.last_offset),
        "lastTimestamp": minus_one(row.last_timestamp),
        "currentTxnFirstOffset": row.current_txn_first_offset,
        "batches": row.batch_metadata.iter().map(|batch| serde_json::json!({
            "firstSequence": minus_one(batch.first_seq),
            "lastSequence": minus_one(batch.last_seq),
            "firstOffset": batch.first_offset,
            "lastOffset": batch.last_offset,
            "timestamp": minus_one(batch.timestamp),
        })).collect::<Vec<_>>(),
    })
}

#[test]
fn incidents_have_their_offsets_and_producers() {
    let mut compared = 0;
    let mut exact = 0;
    let mut wrong = Vec::new();
    for incident in dirs(&root().join("fixtures/incidents")) {
        let expected = json(&incident.join("expected.json"));
        let name = incident.file_name().unwrap().to_str().unwrap().to_owned();
        let partitions = expected["partitions"].as_object().unwrap();
        for (path, facts) in partitions {
            let partition = incident.join("data").join(path);
            let scratch = StateOptions {
                from_scratch: true,
                ..StateOptions::default()
            };
            let row = lso_row(&partition, scratch);
            let offsets = [
                ("logStartOffset", row.log_start_offset),
                ("logEndOffset", row.log_end_offset),
                ("highWatermark", row.high_watermark),
                ("lastStableOffset", row.last_stable_offset),
            ];
            for (key, ours) in offsets {
                if let Some(theirs) = facts[key].as_i64() {
                    compared += 1;
                    if theirs != ours {
                        wrong.push(format!("{name}/{path} {key}: Kafka {theirs}, kseg {ours}"));
                    }
                }
            }
            if let Some(theirs) = facts["producersReplayed"].as_array() {
                let ours: Vec<Value> = producer_rows(&partition, scratch)
                    .iter()
                    .map(incident_producer)
                    .collect();
                compared += 1;
                exact += u32::from(theirs == &ours);
                let reduced: Vec<Value> = ours.iter().map(after_restart).collect();
                if theirs != &ours && theirs != &reduced && !is_loaded_differently(&partition) {
                    wrong.push(format!(
                        "{name}/{path}:\n  Kafka {theirs:?}\n  kseg  {ours:?}"
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 250 && exact > 50, "{compared} {exact}");
}

/// As loaded, the producers are those of a broker that starts on the directory after a clean stop,
/// also where the newest snapshot lies above a log end that was cut.
#[test]
fn incidents_are_loaded_as_after_a_clean_stop() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for incident in dirs(&root().join("fixtures/incidents")) {
        let expected = json(&incident.join("expected.json"));
        let expiration = Some(Expiration {
            now_ms: expected["asOfMs"].as_i64().unwrap(),
            producer_id_expiration_ms: expected["producerIdExpirationMs"].as_i64().unwrap(),
        });
        let options = StateOptions {
            expiration,
            ..StateOptions::default()
        };
        let name = incident.file_name().unwrap().to_str().unwrap();
        for (path, facts) in expected["partitions"].as_object().unwrap() {
            let broker = &facts["brokerOnCleanStart"];
            let partition = incident.join("data").join(path);
            let has_snapshot = fs::read_dir(&partition).unwrap().any(|file| {
                file.unwrap()
                    .path()
                    .extension()
                    .is_some_and(|it| it == "snapshot")
            });
            // Without any snapshot a clean start forgets all; kseg replays the log and says so.
            if broker["loads"] != true || !has_snapshot || is_loaded_differently(&partition) {
                continue;
            }
            let theirs = broker["producers"].as_array().unwrap();
            let rows = producer_rows(&partition, options);
            let ours: Vec<Value> = rows.iter().map(incident_producer).collect();
            compared += 1;
            if theirs != &ours {
                wrong.push(format!(
                    "{name}/{path}:\n  Kafka {theirs:?}\n  kseg  {ours:?}"
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 40, "{compared}");
}

/// Where Kafka had to recover a segment to load a copy, the state went through a snapshot: the
/// last batch of each producer, with the time of a later marker.
fn after_restart(producer: &Value) -> Value {
    let mut producer = producer.clone();
    let last = producer["batches"].as_array().unwrap().last().cloned();
    producer["batches"] = last
        .map(|mut batch| {
            batch["timestamp"] = producer["lastTimestamp"].clone();
            batch
        })
        .into_iter()
        .collect();
    producer
}

/// Whether loading changes the log itself before any state is built from it, so that the answer
/// is about other batches: a replacement of the cleaner that is put into place, an index that
/// hides the end of the log, a segment that is split.
fn is_loaded_differently(partition: &Path) -> bool {
    let dir = PartitionDir::open(partition).unwrap();
    let has_swap = dir
        .files
        .iter()
        .any(|file| file.parsed.state == FileState::Swap);
    let index_past_end = dir.segments.iter().any(|segment| {
        let size = dir.file(segment.log).unwrap().size_in_bytes;
        let Some(index) = segment.offset_index else {
            return false;
        };
        let bytes = fs::read(dir.file_path(dir.file(index).unwrap())).unwrap();
        let last = OffsetIndexRows::decode(&bytes)
            .rows()
            .last()
            .map(|row| row.position());
        last.is_some_and(|position| i64::from(position) >= i64::try_from(size).unwrap())
    });
    let mut overflows = false;
    walk_partition(&dir, kseg::log::Io::Mmap, 0, |at, entry| {
        if let Entry::Batch(batch) = entry {
            let relative = batch.header.last_offset() - at.base_offset;
            overflows |= relative > i64::from(i32::MAX);
        }
        Ok::<_, kseg::log::Error>(ControlFlow::Continue(()))
    })
    .unwrap();
    has_swap || index_past_end || overflows
}

/// Every partition of the fixtures whose checkpointed high watermark lies above the log end.
#[test]
fn a_high_watermark_above_the_log_end_is_told() {
    let mut found = 0;
    let mut folders = vec![root().join("fixtures")];
    while let Some(folder) = folders.pop() {
        for path in dirs(&folder) {
            let dir = PartitionDir::open(&path).unwrap();
            if dir.segments.is_empty() || dir.name.is_none() {
                folders.push(path);
                continue;
            }
            let above = Checkpoints::read(path.parent().unwrap(), kseg::log::Io::Mmap);
            let offsets = above.of_dir(&dir);
            let row = lso(&dir, offsets, StateOptions::default())
                .unwrap()
                .unwrap();
            let past = offsets.high_watermark.filter(|it| *it > row.log_end_offset);
            assert_eq!(row.high_watermark_past_end, past, "{}", path.display());
            if past.is_some() {
                assert_eq!(row.high_watermark, row.log_end_offset, "{}", path.display());
                found += 1;
            }
        }
    }
    assert!(found >= 2, "{found}");
}

/// A broker truncates first and writes the checkpoint a moment later: what it says by now counts.
#[test]
fn a_high_watermark_that_has_been_lowered_meanwhile_is_not_told() {
    let copy = tempfile::tempdir().unwrap();
    folders::copy(
        &root().join("fixtures/s07a-truncated-tail/data"),
        copy.path(),
    );
    let path = copy.path().join("dmg-0");
    let (dir, offsets) = open(&path);
    let told = |offsets| {
        let row = lso(&dir, offsets, StateOptions::default());
        row.unwrap().unwrap().high_watermark_past_end
    };
    assert_eq!(told(offsets), Some(119));
    let checkpoint = copy.path().join("replication-offset-checkpoint");
    fs::write(checkpoint, "0\n1\ndmg 0 116\n").unwrap();
    assert_eq!(told(offsets), None);
}

/// Nothing is left of the log, and the snapshot there has a transaction open.
#[test]
fn a_transaction_at_the_log_end_is_told_without_a_high_watermark_below_it() {
    let case = root().join("cases/found/segments-s991201-050/a.b_c-d-0");
    let mut kseg = Command::new(env!("CARGO_BIN_EXE_kseg"));
    let output = kseg.args(["lso", "--all"]).arg(case).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("holds consumers at the log end 34"),
        "{table}"
    );
    assert!(!table.contains("is below the log end"), "{table}");
}
