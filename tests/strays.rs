//! Which partition directories a broker takes for strays, by the broker that started on them.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kseg::format::kafka_uuid::KafkaUuid;
use kseg::log::Io;
use kseg::log::metadata_log::ClusterMetadata;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::strays::Stray;
use recover_run::{Run, copy_of, recover};
use serde_json::{Value, json};

/// Two log directories of a broker, and what it made of them.
const STRAYS: &str = "../tests/data/strays";
const METADATA_LOG: &str = "data/__cluster_metadata-0/00000000000000000000.log";

fn recover_in(fixture: &Path, dirs: &[&str]) -> Run {
    let paths: Vec<PathBuf> = dirs.iter().map(|dir| fixture.join(dir)).collect();
    let paths: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    recover(&paths)
}

fn both(fixture: &Path) -> Run {
    recover_in(fixture, &["data", "data-2"])
}

/// The directories told to be strays, as `data/orders-0`.
fn strays(fixture: &Path, run: &Run) -> BTreeSet<String> {
    let strays = run.rows.iter().filter(|row| !row["stray"].is_null());
    let path = |row: &Value| {
        let path = Path::new(row["path"].as_str().unwrap()).to_owned();
        let path = path.strip_prefix(fixture).unwrap();
        path.to_str().unwrap().to_owned()
    };
    strays.map(path).collect()
}

/// The directories that the broker made strays of, by their names before and after.
fn made_strays() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read(root.join("tests/data/strays/started.json")).unwrap();
    let started: Value = serde_json::from_slice(&text).unwrap();
    let names = |when: &str, dir: &str| -> Vec<String> {
        let names = started[when][dir].as_array().unwrap().iter();
        names.map(|it| it.as_str().unwrap().to_owned()).collect()
    };
    let mut strays = BTreeSet::new();
    for dir in ["data", "data-2"] {
        let after = names("after", dir);
        for before in names("before", dir) {
            // The stray of a future replica has the name of its partition.
            let partition = before.split('.').next().unwrap();
            let became = |name: &String| {
                name.starts_with(&format!("{partition}.")) && name.ends_with("-stray")
            };
            if after.iter().any(became) {
                strays.insert(format!("{dir}/{before}"));
            }
        }
    }
    strays
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    // A snapshot of the quorum is read-only.
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn newest_snapshot(fixture: &Path) -> PathBuf {
    let dir = fs::read_dir(fixture.join("data/__cluster_metadata-0")).unwrap();
    let paths = dir.map(|entry| entry.unwrap().path());
    let mut snapshots = paths.filter(|it| it.extension() == Some(OsStr::new("checkpoint")));
    snapshots.next().unwrap()
}

#[test]
fn strays_are_those_that_the_broker_makes() {
    let copied = copy_of(STRAYS);
    let run = both(copied.path());
    let expected = made_strays();
    assert_eq!(expected.len(), 7);
    assert_eq!(strays(copied.path(), &run), expected);
    assert_eq!(run.status, Some(1));
    let reason = |name: &str| {
        let path = copied.path().join(name);
        let path = path.to_str().unwrap();
        let mut rows = run.rows.iter().filter(|row| row["path"] == path);
        rows.next().unwrap()["stray"].clone()
    };
    assert_eq!(reason("data/noid-0"), "no-topic-id");
    assert_eq!(reason("data/gone-0"), "unknown-topic-id");
    assert_eq!(reason("data-2/kept-7"), "unknown-partition");
    assert_eq!(reason("data/moved-0"), "not-assigned");
    // What is empty, or is a copy under way, was not served before.
    let served = [
        "data/empty-0",
        "data-2/left-0.0123456789abcdef0123456789abcdef-future",
    ];
    for name in served {
        let alone = recover_in(copied.path(), &["data/__cluster_metadata-0", name]);
        assert_ne!(row(&alone, &copied.path().join(name))["stray"], Value::Null);
        assert_eq!(alone.status, Some(0), "{}", alone.table);
    }
    // One that is set aside is no second replica in use.
    let obstacles = run.rows.iter().map(|row| &row["brokerError"]);
    assert!(obstacles.clone().all(Value::is_null), "{}", run.table);
}

/// The metadata log beside a partition tells of it, wherever the run began.
#[test]
fn one_directory_is_judged_by_the_metadata_log_beside_it() {
    let copied = copy_of(STRAYS);
    let run = recover_in(copied.path(), &["data/moved-0"]);
    assert!(
        run.table.contains("on broker 2 and not on 1"),
        "{}",
        run.table
    );
    assert_eq!(run.status, Some(1));
    // The other log directory has none.
    let run = recover_in(copied.path(), &["data-2"]);
    assert_eq!(strays(copied.path(), &run), BTreeSet::new());
    let given_apart = recover_in(copied.path(), &["data-2/again-0", "data/gone-0"]);
    assert_eq!(strays(copied.path(), &given_apart).len(), 2);
}

/// The same directories in the hands of the broker that the metadata has one partition on.
#[test]
fn another_broker_has_other_strays() {
    let copied = copy_of(STRAYS);
    for dir in ["data", "data-2"] {
        change(&copied.path().join(dir).join("meta.properties"), |bytes| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            *bytes = text.replace("node.id=1", "node.id=2").into_bytes();
        });
    }
    let run = both(copied.path());
    let of_both = strays(copied.path(), &run);
    assert!(!of_both.contains("data/moved-0"), "{of_both:?}");
    assert!(of_both.contains("data/kept-0") && of_both.contains("data-2/other-0"));
}

/// Of the 20 bytes a torn last batch lacks, nobody has seen the batch.
#[test]
fn a_torn_last_batch_of_the_metadata_log_changes_nothing() {
    let copied = copy_of(STRAYS);
    change(&copied.path().join(METADATA_LOG), |bytes| {
        bytes.truncate(bytes.len() - 20);
    });
    assert_eq!(strays(copied.path(), &both(copied.path())), made_strays());
}

#[test]
fn a_metadata_log_that_is_damaged_tells_nothing() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 5] = [
        ("has a wrong checksum", |fixture| {
            change(&fixture.join(METADATA_LOG), |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            });
        }),
        ("no footer", |fixture| {
            change(&newest_snapshot(fixture), |bytes| {
                bytes.truncate(bytes.len() - 75);
            });
        }),
        ("expected checksum", |fixture| {
            change(&newest_snapshot(fixture), |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            });
        }),
        ("no snapshot has what was before", |fixture| {
            let log = fixture.join(METADATA_LOG);
            let later = log.with_file_name("00000000000000000060.log");
            fs::rename(log, later).unwrap();
        }),
        ("no record of a controller", |fixture| {
            fs::remove_file(newest_snapshot(fixture)).unwrap();
            change(&fixture.join(METADATA_LOG), Vec::clear);
        }),
    ];
    let told_by_itself = BTreeSet::from(["data/empty-0", "data/noid-0"].map(str::to_owned));
    for (reason, damage) in cases {
        let copied = copy_of(STRAYS);
        damage(copied.path());
        let run = both(copied.path());
        assert_eq!(strays(copied.path(), &run), told_by_itself, "{reason}");
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["recover", "--start", "clean"])
            .arg(copied.path().join("data/kept-0"))
            .output()
            .unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(reason), "{reason}: {told}");
        let table = String::from_utf8(output.stdout).unwrap();
        let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
        let not_known = "which partitions it takes for strays is not known";
        assert!(table.contains(not_known), "{table}");
        assert_eq!(output.status.code(), Some(0), "{table}");
    }
}

/// Without the snapshot the log has everything from its beginning on.
#[test]
fn a_whole_log_tells_as_much_as_a_snapshot_and_its_end() {
    let copied = copy_of(STRAYS);
    fs::remove_file(newest_snapshot(copied.path())).unwrap();
    assert_eq!(strays(copied.path(), &both(copied.path())), made_strays());
}

/// `verify` tells the same ones.
#[test]
fn verify_finds_the_same() {
    let copied = copy_of(STRAYS);
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["verify", "-o", "ndjson", "--all"])
        .args(["data", "data-2"].map(|dir| copied.path().join(dir)))
        .output()
        .unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let mut found = BTreeSet::new();
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let kinds = ["partition-metadata", "topic-id-differs", "not-assigned"];
        if kinds.contains(&row["kind"].as_str().unwrap()) {
            let path = Path::new(row["path"].as_str().unwrap()).to_owned();
            let path = path.strip_prefix(copied.path()).unwrap();
            found.insert(path.to_str().unwrap().to_owned());
        }
        assert_ne!(row["kind"], "duplicate-partition", "{row:#}");
    }
    // One without data and without topic id loses nothing.
    found.insert("data/empty-0".to_owned());
    assert_eq!(found, made_strays());
}

/// A broker at work makes a directory when its metadata log has the topic, which may be after that
/// was read.
#[test]
fn a_metadata_log_that_goes_on_is_read_again() {
    let copied = copy_of(STRAYS);
    let (log, whole) = (copied.path().join(METADATA_LOG), copied.path());
    let bytes = fs::read(&log).unwrap();
    // Behind the batch in which the topic came again there are others.
    let again = PartitionDir::open(&whole.join("data/again-0")).unwrap();
    let id: KafkaUuid = again.topic_id(Io::Mmap).unwrap().unwrap().parse().unwrap();
    let mut places = bytes.windows(id.0.len());
    let before = places.position(|it| it == id.0).unwrap();
    fs::write(&log, &bytes[..before]).unwrap();
    let mut metadata = ClusterMetadata::around(&[whole.join("data")], Io::Mmap);
    let stray = Stray::of(&again, &mut metadata).unwrap();
    assert_eq!(stray.name(), "unknown-topic-id");
    fs::write(&log, &bytes).unwrap();
    assert_eq!(Stray::of(&again, &mut metadata), None);
}

fn row<'r>(run: &'r Run, path: &Path) -> &'r Value {
    let path = path.to_str().unwrap();
    let mut rows = run.rows.iter();
    let row = rows.find(|row| row["path"] == path && row["applies"] == true);
    row.unwrap()
}

/// The metadata has `taken` in the second directory, where a future copy lies that is not level:
/// the broker put it into use (`latestOffsets`) and deleted the other one.
#[test]
fn a_copy_in_the_assigned_directory_takes_over_whatever_it_lacks() {
    let copied = copy_of(STRAYS);
    let run = both(copied.path());
    let replica = row(&run, &copied.path().join("data/taken-0"));
    let copy = "data-2/taken-0.0123456789abcdef0123456789abcdef-future";
    let copy = copied.path().join(copy);
    assert_eq!(replica["replacedBy"], copy.to_str().unwrap());
    assert_eq!(replica["losesData"], true);
    let losses = &replica["losses"];
    let lost = ["firstOffset", "lastOffset", "records"].map(|key| losses[key].as_i64());
    assert_eq!(lost, [Some(4), Some(6), Some(3)]);
    let in_use = row(&run, &copy);
    assert_eq!(in_use["takesOver"], true);
    assert_eq!(in_use["logEndOffset"], 4);
    assert_eq!(in_use["losesData"], false);
    // A copy in another directory goes on, and a replica elsewhere stays where it is.
    let others = run.rows.iter().filter(|row| {
        let path = row["path"].as_str().unwrap();
        !path.contains("/taken-0")
    });
    for other in others {
        assert_eq!(other["replacedBy"], Value::Null, "{other:#}");
        assert_eq!(other["takesOver"], false, "{other:#}");
    }
    // `verify` says so too.
    let verify = |dirs: &[&str]| -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["verify", "-o", "ndjson"])
            .args(dirs.iter().map(|dir| copied.path().join(dir)))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().map(|it| serde_json::from_str(it).unwrap());
        rows.filter(|it: &Value| it["kind"] == "replaced-by-copy")
            .collect()
    };
    let found = verify(&["data", "data-2"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    let keys = ["severity", "topic", "offset"].map(|key| found[0][key].clone());
    assert_eq!(keys, [json!("afterCrash"), json!("taken"), json!(4)]);
    // Without the other directory nobody can tell, and that is said.
    let alone = recover_in(copied.path(), &["data/taken-0"]);
    assert_eq!(alone.rows[0]["replacedBy"], Value::Null);
    assert_eq!(alone.status, Some(0));
    let warnings = alone.rows[0]["warnings"].to_string();
    assert!(warnings.contains("give all log directories"), "{warnings}");
    assert!(verify(&["data/taken-0"]).is_empty());
    let elsewhere = recover_in(copied.path(), &["data/kept-0", "data/again-0"]);
    let is_told = |row: &&Value| row["warnings"].to_string().contains("give all log");
    assert_eq!(elsewhere.rows.iter().filter(is_told).count(), 0);
    // A copy that is level has all of it.
    fs::remove_dir_all(&copy).unwrap();
    recover_run::copy(&copied.path().join("data/taken-0"), &copy);
    let level = both(copied.path());
    let found = verify(&["data", "data-2"]);
    assert_eq!((found.len(), &found[0]["severity"]), (1, &json!("notable")));
    let replica = row(&level, &copied.path().join("data/taken-0"));
    assert_eq!(replica["replacedBy"], copy.to_str().unwrap());
    assert_eq!(replica["losesData"], false);
    assert!(
        replica["warnings"][0]
            .as_str()
            .unwrap()
            .contains("all of which")
    );
}

/// A name without its random digits.
fn without_digits(name: &str) -> String {
    match name.split_once('.').zip(name.rsplit_once('-')) {
        Some(((before, _), (_, suffix))) if name.contains('.') => format!("{before}.*-{suffix}"),
        Some(_) | None => name.to_owned(),
    }
}

/// The copy has the names that the broker gave: strays under those of strays, the copy that took
/// over under that of the replica, and the replica under one to be deleted.
#[test]
fn what_a_start_leaves_has_the_names_that_the_broker_gives() {
    let copied = copy_of(STRAYS);
    let out = copied.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["recover", "--start", "clean", "--out"])
        .arg(&out)
        .args(["data", "data-2"].map(|it| copied.path().join(it)))
        .output()
        .unwrap();
    assert!(out.is_dir(), "{output:?}");
    let names = fs::read_dir(&out)
        .unwrap()
        .map(|it| it.unwrap().file_name());
    let names = names.map(|it| without_digits(it.to_str().unwrap()));
    let names: BTreeSet<String> = names.collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read(root.join("tests/data/strays/started.json")).unwrap();
    let started: Value = serde_json::from_slice(&text).unwrap();
    let after = ["data", "data-2"].map(|dir| started["after"][dir].as_array().unwrap().clone());
    let after = after.iter().flatten();
    let after: BTreeSet<String> = after
        .map(|it| without_digits(it.as_str().unwrap()))
        .collect();
    let strays = |of: &BTreeSet<String>| -> BTreeSet<String> {
        let strays = of.iter().filter(|it| it.ends_with("-stray"));
        strays.cloned().collect()
    };
    assert_eq!(strays(&names), strays(&after));
    for name in ["taken-0", "taken-0.*-delete", "other-0"] {
        assert!(
            names.contains(name) && after.contains(name),
            "{name}: {names:?}"
        );
    }
    // The copy that took over ends at 4, and that is in place of the replica.
    let row = recover_in(&out, &["taken-0"]);
    assert_eq!(row.rows[0]["logEndOffset"], 4);
}

/// Files that nobody may write to are written to by a broker that starts on the copy.
#[test]
fn a_copy_of_files_that_are_read_only_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let copied = copy_of(STRAYS);
    let data = copied.path().join("data");
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        }
    }
    let out = copied.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["recover", "--start", "clean", "--out"])
        .args([&out, &data])
        .output()
        .unwrap();
    assert!(out.is_dir(), "{output:?}");
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o200, 0o200, "{}", path.display());
    }
}

/// A record of a later Kafka is named, and nobody is sent to look for damage.
#[test]
fn a_record_that_is_not_known_is_named() {
    let copied = copy_of(STRAYS);
    change(&copied.path().join(METADATA_LOG), |bytes| {
        let of = |field: &[u8]| i32::from_be_bytes(field.try_into().unwrap());
        let (mut position, mut is_changed) = (0, false);
        while position < bytes.len() {
            let size = 12 + usize::try_from(of(&bytes[position + 8..position + 12])).unwrap();
            let batch = &mut bytes[position..position + size];
            // A frame of version 1, a topic, version 0, of a data batch behind the snapshot.
            let is_topic = |it: &[u8]| it == [1, 2, 0];
            let place = batch[61..].windows(3).take(12).position(is_topic);
            let is_behind = batch[7] >= 34 && batch[22] & 0x20 == 0;
            if let Some(place) = place.filter(|_| is_behind && !is_changed) {
                batch[61 + place + 2] = 9;
                let crc = crc32c::crc32c(&batch[21..]);
                batch[17..21].copy_from_slice(&crc.to_be_bytes());
                is_changed = true;
            }
            position += size;
        }
        assert!(is_changed);
    });
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["recover", "--start", "clean"])
        .arg(copied.path().join("data/kept-0"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("version 9 of TopicRecord"), "{told}");
    assert!(told.contains("a newer Kafka wrote it"), "{told}");
    assert!(!told.contains("kseg verify says"), "{told}");
}
