//! `gaps` and `verify` on logs in which the header of one batch is damaged: what the batch says of
//! its producer is nobody's fault, and what others did wrong is told all the same.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[path = "common/replicas.rs"]
mod replicas;
#[path = "common/verify_run.rs"]
mod verify_run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::partitions::{gap_rows as gaps, partitions_below, root};
use kseg::format::record_batch_builder::BatchSettings;
use kseg::log::partition_dir::PartitionDir;
use replicas::{TestBatch, abort, batch, replicate, transactional};
use serde_json::{Value, json};
use verify_run::folders;
use verify_run::segments::batches_of;

/// What a field of a header becomes: its place, and what is done to its bytes. All of them are
/// covered by the checksum.
type Damage = (&'static str, fn(&mut [u8]));

const DAMAGES: [Damage; 9] = [
    ("producer id", |it| {
        it[43..51].copy_from_slice(&4711i64.to_be_bytes())
    }),
    ("producer epoch up", |it| it[51] ^= 1),
    ("producer epoch by one", |it| it[52] ^= 1),
    ("base sequence up", |it| it[54] ^= 0x10),
    ("base sequence by one", |it| it[56] ^= 1),
    ("last offset up", |it| it[25] ^= 0x10),
    ("last offset by one", |it| it[26] ^= 1),
    ("control", |it| it[22] ^= 0x20),
    ("transactional", |it| it[22] ^= 0x10),
];

/// Whether a finding says that a producer, or who led the partition, went wrong.
fn blames(row: &&Value) -> bool {
    match row["kind"].as_str().unwrap() {
        "offsetGap" => false,
        "missing" => ["never-stored", "expired-or-lost-state", "epoch-raised"]
            .contains(&row["class"].as_str().unwrap()),
        _ => true,
    }
}

/// What is said of whom, without where the other places of the log are.
fn sentence(row: &Value) -> Value {
    let keys = [
        "kind",
        "class",
        "producerId",
        "producerEpoch",
        "firstSequence",
        "lastSequence",
    ];
    json!(keys.map(|key| row[key].clone()))
}

/// How many bytes of a segment are whole batches.
fn whole(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(field) = bytes.get(end + 8..end + 12) {
        let size = 12 + usize::try_from(i32::from_be_bytes(field.try_into().unwrap())).unwrap_or(0);
        if size < 26 || end + size > bytes.len() {
            break;
        }
        end += size;
    }
    end
}

/// Every batch of logs that brokers wrote, every field: nobody is blamed who was not before, what
/// was wrong elsewhere is still told, and where anything is told at all the batch is.
#[test]
fn a_damaged_header_blames_nobody() {
    let (mut damaged, mut told) = (0, 0);
    let of_fixture = |name: &str| partitions_below(&root().join("fixtures").join(name));
    let partitions = ["s01-idempotent", "s02-txn-tv2", "s03-txn-tv1", "incidents"];
    for partition in partitions.iter().flat_map(|name| of_fixture(name)) {
        let dir = PartitionDir::open(&partition).unwrap();
        let is_log = |it: &PathBuf| it.extension().is_some_and(|it| it == "log");
        let sound = gaps(&partition);
        if dir.topic().is_none_or(|topic| topic.starts_with("__"))
            // Offsets that are there twice are compared from one end to the other.
            || sound.iter().any(|row| row["class"] == "offsets-not-increasing")
        {
            continue;
        }
        let blamed: Vec<&Value> = sound.iter().filter(blames).collect();
        let (_folder, path) = folders::copy_partition(&partition);
        let logs = fs::read_dir(&path).unwrap().map(|it| it.unwrap().path());
        for log in logs.filter(is_log).collect::<Vec<_>>() {
            let bytes = fs::read(&log).unwrap();
            let batches = batches_of(&bytes[..whole(&bytes)]);
            for (number, (position, size)) in batches.into_iter().enumerate() {
                let header = &bytes[position..position + size];
                let sum = crc32c::crc32c(&header[21..]).to_be_bytes();
                if header[16] != 2 || header[43] & 0x80 != 0 || header[17..21] != sum {
                    continue;
                }
                let base = i64::from_be_bytes(header[..8].try_into().unwrap());
                let producer_id = i64::from_be_bytes(header[43..51].try_into().unwrap());
                // All of them at every third batch.
                for (field, damage) in DAMAGES.iter().skip(number % 3).step_by(3) {
                    let mut bytes = bytes.clone();
                    damage(&mut bytes[position..position + size]);
                    fs::write(&log, bytes).unwrap();
                    folders::rest(&path);
                    let what = format!("{} {position} {field}", log.display());
                    let rows = gaps(&path);
                    damaged += 1;
                    let is_told = rows.iter().any(|row| row["class"] == "bad-crc");
                    told += i32::from(is_told);
                    for row in rows.iter().filter(blames) {
                        // What exactly, the batch may have been needed to tell.
                        let is_known = blamed.iter().any(|it| {
                            it["producerId"] == row["producerId"]
                                && (it["firstOffset"] == row["firstOffset"]
                                    || it["class"] == row["class"])
                        });
                        assert!(is_known, "{what}: {row:#}\n{rows:#?}");
                    }
                    // Of its own producer the batch may have been what tells; and what others have
                    // not stored behind it may have been in it.
                    let is_of_others = |it: &&Value| {
                        it["producerId"] != producer_id
                            && (it["kind"] != "missing" || it["firstOffset"].as_i64() < Some(base))
                    };
                    for row in sound.iter().filter(blames).filter(is_of_others) {
                        let is_same = |it: &Value| sentence(it) == sentence(row);
                        assert!(rows.iter().any(is_same), "{what}: {row:#}\n{rows:#?}");
                    }
                }
            }
            fs::write(&log, bytes).unwrap();
        }
    }
    assert!(damaged > 1000 && told > damaged / 2, "{told} of {damaged}");
}

/// Sequences of producer 7 that are there: three and four were never stored.
fn with_a_genuine_gap() -> Vec<TestBatch> {
    let settings = |producer_id, base_sequence| BatchSettings {
        partition_leader_epoch: 0,
        producer_id,
        producer_epoch: 0,
        base_sequence,
        ..BatchSettings::default()
    };
    let of = [
        (7, 0, 1),
        (8, 0, 2),
        (7, 1, 2),
        (8, 2, 1),
        (7, 5, 1),
        (7, 6, 2),
        (8, 3, 1),
    ];
    let mut offset = 0;
    of.iter()
        .map(|&(producer_id, base_sequence, count)| {
            let made = batch(settings(producer_id, base_sequence), offset, count, "v");
            offset += count;
            made
        })
        .collect()
}

/// The damaged batch is that of sequences one and two, and what its producer, or the other one,
/// did wrong behind it is told by both commands.
#[test]
fn what_is_wrong_behind_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders-0");
    replicate(&path, &with_a_genuine_gap(), 1 << 20, 1, 0);
    let log = path.join("00000000000000000000.log");
    let bytes = fs::read(&log).unwrap();
    let genuine = |row: &Value| {
        (&row["class"], &row["producerId"], &row["firstOffset"])
            == (&"expired-or-lost-state".into(), &7.into(), &6.into())
    };
    folders::rest(&path);
    let sound = gaps(&path);
    assert_eq!(sound.len(), 1, "{sound:#?}");
    assert!(genuine(&sound[0]), "{sound:#?}");
    assert_eq!(
        (&sound[0]["firstSequence"], &sound[0]["lastSequence"]),
        (&3.into(), &4.into())
    );
    let (position, size) = batches_of(&bytes)[2];
    for (field, damage) in DAMAGES {
        let mut bytes = bytes.clone();
        damage(&mut bytes[position..position + size]);
        fs::write(&log, bytes).unwrap();
        folders::rest(&path);
        let rows = gaps(&path);
        let at = |row: &Value| {
            (
                row["position"].clone(),
                row["firstOffset"].clone(),
                row["lastOffset"].clone(),
            )
        };
        let bad: Vec<_> = rows
            .iter()
            .filter(|it| it["class"] == "bad-crc")
            .map(at)
            .collect();
        assert_eq!(
            bad,
            [(json!(position), json!(3), json!(4))],
            "{field}: {rows:#?}"
        );
        // As many sequences as the batch had offsets may have been in it: the rest was not.
        let missing: Vec<&Value> = rows.iter().filter(blames).collect();
        assert_eq!(missing.len(), 1, "{field}: {rows:#?}");
        assert!(genuine(missing[0]), "{field}: {rows:#?}");
        assert_eq!(
            (&missing[0]["firstSequence"], &missing[0]["lastSequence"]),
            (&1.into(), &4.into())
        );
        let found = verify(&path);
        let of = |kind: &str| {
            found
                .iter()
                .filter(|it| it["kind"] == kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("bad-crc").len(), 1, "{field}: {found:#?}");
        let told = of("sequence-gap");
        assert_eq!(told.len(), 1, "{field}: {found:#?}");
        assert_eq!(
            (&told[0]["producerId"], &told[0]["offset"]),
            (&7.into(), &6.into())
        );
        for kind in [
            "duplicate-sequence",
            "producer-epoch-regression",
            "offsets-not-increasing",
        ] {
            assert!(of(kind).is_empty(), "{field}: {found:#?}");
        }
    }
}

/// A start that recovers nothing believes the last batch as it is, so the log ends behind it: what
/// other files say of its end is right.
#[test]
fn a_log_ends_behind_a_damaged_last_batch() {
    let of_fixture = |name: &str| partitions_below(&root().join("fixtures").join(name));
    let partitions = ["s01-idempotent", "s02-txn-tv2", "s03-txn-tv1"];
    let mut damaged = 0;
    for partition in partitions.iter().flat_map(|name| of_fixture(name)) {
        let dir = PartitionDir::open(&partition).unwrap();
        let log = dir.file(dir.segments.last().unwrap().log).unwrap().name();
        let bytes = fs::read(partition.join(&*log)).unwrap();
        let Some(&(position, size)) = batches_of(&bytes).last() else {
            continue;
        };
        if bytes[position + 43] & 0x80 != 0 || dir.topic().is_none_or(|it| it.starts_with("__")) {
            continue;
        }
        let corrupt = |path: &Path| -> Vec<Value> {
            let rows = verify(path).into_iter();
            let corrupt = rows.filter(|row| row["severity"] == "corrupt");
            corrupt.map(|row| row["kind"].clone()).collect()
        };
        let (_folder, path) = folders::copy_partition(&partition);
        assert_eq!(corrupt(&path), Vec::<Value>::new(), "{}", path.display());
        for (what, damage) in DAMAGES.iter().filter(|it| !it.0.starts_with("last offset")) {
            let mut bytes = bytes.clone();
            damage(&mut bytes[position..position + size]);
            fs::write(path.join(&*log), bytes).unwrap();
            let what = format!("{what} in {}", partition.display());
            assert_eq!(corrupt(&path), ["bad-crc"], "{what}");
            let lost = gaps(&path).into_iter().filter(|row| row["isLoss"] == true);
            let lost = lost.map(|row| row["class"].clone());
            assert!(
                lost.collect::<Vec<_>>().iter().all(|it| it == "bad-crc"),
                "{what}"
            );
            damaged += 1;
        }
    }
    assert!(damaged > 50, "{damaged}");
}

/// Nor is what an earlier one says of its last offset the end (`LogSegment.readNextOffset`).
#[test]
fn a_damaged_last_offset_in_the_middle_is_not_the_log_end() {
    let partition = root().join("fixtures/s01-idempotent/data/idem-create-0");
    let dir = PartitionDir::open(&partition).unwrap();
    let log = dir.file(dir.segments.last().unwrap().log).unwrap().name();
    let mut bytes = fs::read(partition.join(&*log)).unwrap();
    let batches = batches_of(&bytes);
    let (position, _) = batches[batches.len() - 2];
    let (_folder, path) = folders::copy_partition(&partition);
    let ends = |start: &[&str]| {
        let all = [&["lso", "--all", "-o", "ndjson"], start].concat();
        let row = rows(&all, &path).swap_remove(0);
        ["logEndOffset", "highWatermark", "lastStableOffset"].map(|key| row[key].clone())
    };
    let starts: [&[&str]; 2] = [&[], &["--as-loaded", "--start", "clean"]];
    let sound = starts.map(ends);
    // 2097152 offsets more.
    bytes[position + 24] ^= 0x20;
    fs::write(path.join(&*log), bytes).unwrap();
    assert_eq!(starts.map(ends), sound);
}

fn verify(path: &Path) -> Vec<Value> {
    rows(&["verify", "-o", "ndjson"], path)
}

/// A transaction that nobody has begun: the header of another one's first batch names its producer.
/// The marker of the other one is there; and one that is damaged is nobody's.
#[test]
fn an_open_transaction_says_that_its_first_batch_is_damaged() {
    let marker = |offset| abort(7, offset);
    let batches = [
        batch(transactional(7, 0), 0, 2, "v"),
        marker(2),
        batch(transactional(7, 2), 3, 2, "v"),
        batch(transactional(8, 0), 5, 1, "v"),
        marker(6),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders-0");
    replicate(&path, &batches, 1 << 20, 1, 0);
    let snapshot = path.join("00000000000000000007.snapshot");
    fs::remove_file(snapshot).unwrap();
    let log = path.join("00000000000000000000.log");
    let bytes = fs::read(&log).unwrap();
    let at = batches_of(&bytes);
    let open = |command: &str| -> Value {
        folders::rest(&path);
        let rows = rows(&[command, "-o", "ndjson"], &path);
        let row = rows
            .iter()
            .find(|it| it["state"] == "OPEN" || it["heldBy"].is_object());
        row.map_or(Value::Null, |it| it.get("heldBy").unwrap_or(it).clone())
    };
    for command in ["txns", "lso"] {
        assert_eq!(open(command)["producerId"], 8, "{command}");
        assert_eq!(open(command)["firstBatchIsDamaged"], false, "{command}");
        assert_eq!(open(command)["markerMayBeLostIn"], Value::Null, "{command}");
    }
    let (position, _) = at[0];
    let mut damaged = bytes.clone();
    damaged[position + 43..position + 51].copy_from_slice(&4711i64.to_be_bytes());
    fs::write(&log, &damaged).unwrap();
    for command in ["txns", "lso"] {
        let row = open(command);
        assert_eq!(row["producerId"], 4711, "{command}: {row:#}");
        assert_eq!(row["firstBatchIsDamaged"], true, "{command}: {row:#}");
        let table = text(&[command], &path);
        assert!(
            table.contains("first batch is damaged"),
            "{command}: {table}"
        );
    }
    let bad = verify(&path);
    let is_told = |it: &&Value| it["kind"] == "bad-crc" && it["position"] == position;
    assert_eq!(bad.iter().filter(is_told).count(), 1, "{bad:#?}");
    // The last marker is another's by what it says.
    let (position, _) = at[4];
    let mut damaged = bytes.clone();
    damaged[position + 50] = 9;
    fs::write(&log, &damaged).unwrap();
    for command in ["txns", "lso"] {
        let row = open(command);
        let lost = json!({"firstOffset": 6, "lastOffset": 6});
        assert_eq!(row["markerMayBeLostIn"], lost, "{command}: {row:#}");
    }
}

fn text(arguments: &[&str], path: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(arguments)
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.code().is_some_and(|it| it < 2), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn rows(arguments: &[&str], path: &Path) -> Vec<Value> {
    let text = text(arguments, path);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
