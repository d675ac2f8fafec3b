//! What a start leaves that is found out later: `recover` says it before.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use recover_run::{Run, copy_of, recover};
use serde_json::{Value, json};

fn files(partition: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(partition)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == extension))
        .collect();
    files.sort();
    files
}

fn start_of(start: &str, path: &Path) -> Run {
    recover(&["--start".as_ref(), start.as_ref(), path.as_os_str()])
}

fn warnings(row: &Value) -> String {
    let warnings = row["warnings"].as_array().unwrap().iter();
    warnings
        .map(|it| it.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A broker under KRaft serves no partition that has data and no topic id
/// (`LogManager.isStrayKraftReplica`).
#[test]
fn a_partition_without_its_topic_id_is_set_aside() {
    let data = copy_of("s02-txn-tv2/data");
    let partition = data.path().join("tx-1");
    fs::remove_file(partition.join("partition.metadata")).unwrap();
    for start in ["clean", "unclean"] {
        let run = start_of(start, &partition);
        assert_eq!(run.status, Some(1), "{}", run.table);
        assert!(warnings(&run.rows[0]).contains("-stray"));
        assert!(
            run.table.contains("takes for strays: tx-1"),
            "{}",
            run.table
        );
        let sound = start_of(start, &data.path().join("tx-0"));
        assert_eq!(sound.status, Some(0), "{}", sound.table);
    }
    // Nothing tells of KRaft, as in a log directory of a broker with ZooKeeper.
    let properties = data.path().join("meta.properties");
    let text = fs::read_to_string(&properties).unwrap();
    fs::write(&properties, text.replace("version=1", "version=0")).unwrap();
    assert_eq!(start_of("clean", &partition).status, Some(0));
}

/// A directory to be deleted is loaded and never written to: Kafka makes a `.log` in it where there
/// is none, and no index of that.
#[test]
fn no_index_is_made_in_a_directory_to_be_deleted() {
    let data = copy_of("incidents/directory-names/data");
    let mut dirs = fs::read_dir(data.path())
        .unwrap()
        .map(|it| it.unwrap().path());
    let dir = dirs
        .find(|path| path.to_str().unwrap().ends_with("-delete"))
        .unwrap();
    for extension in ["log", "index", "timeindex"] {
        for path in files(&dir, extension) {
            let aside = format!("{}.deleted", path.display());
            fs::rename(&path, aside).unwrap();
        }
    }
    let run = start_of("unclean", &dir);
    let actions = run.rows[0]["actions"].as_array().unwrap();
    let made: Vec<&Value> = actions.iter().filter(|it| it["kind"] == "make").collect();
    let names: Vec<&str> = made.iter().map(|it| it["file"].as_str().unwrap()).collect();
    assert_eq!(names, ["00000000000000000000.log"]);
}

/// A clean start leaves a torn batch where it is, and the broker appends at the end of the file; an
/// unclean one cuts it off.
#[test]
fn a_clean_start_writes_behind_a_torn_batch() {
    let data = copy_of("s02-txn-tv2/data");
    for partition in ["tx-0", "tx-1", "tx-2"] {
        let partition = data.path().join(partition);
        let log = files(&partition, "log").pop().unwrap();
        let size = fs::metadata(&log).unwrap().len();
        for cut in [1, 30, 60] {
            let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
            file.set_len(size - cut).unwrap();
            let clean = start_of("clean", &partition);
            let row = &clean.rows[0];
            assert_eq!(clean.status, Some(1), "{}", clean.table);
            assert!(row["tornTailBytes"].as_u64().unwrap() > 0);
            assert!(warnings(row).contains("remove .kafka_cleanshutdown"));
            assert!(
                clean.table.contains("writes behind torn bytes"),
                "{}",
                clean.table
            );
            let unclean = start_of("unclean", &partition);
            assert_eq!(unclean.rows[0]["tornTailBytes"], json!(0));
        }
    }
    let sound = copy_of("s02-txn-tv2/data");
    let run = start_of("clean", sound.path());
    assert!(run.rows.iter().all(|row| row["tornTailBytes"] == json!(0)));
}

/// Where the segments of `tx-1` begin, and where the log ends.
const BASES: [i64; 4] = [0, 89, 165, 173];

/// Writes a checkpoint with one line for a partition, or with none.
fn write_checkpoint(data: &Path, name: &str, partition: &str, offset: Option<i64>) {
    let lines = match offset {
        Some(offset) => format!("0\n1\n{partition} {offset}\n"),
        None => "0\n0\n".to_owned(),
    };
    fs::write(data.join(name), lines).unwrap();
}

/// A segment of `tx-1` under way to be deleted, or made by a compaction, and what else is known.
struct Leftover {
    segment: usize,
    suffix: &'static str,
    first_epoch_start: i64,
    log_start: Option<i64>,
    high_watermark: Option<i64>,
    first_lost: Option<i64>,
}

const LEFTOVER: Leftover = Leftover {
    segment: 0,
    suffix: "deleted",
    first_epoch_start: 0,
    log_start: None,
    high_watermark: Some(BASES[3]),
    first_lost: None,
};

const LEFTOVERS: [(&str, Leftover); 11] = [
    (
        "retention",
        Leftover {
            first_epoch_start: BASES[1],
            ..LEFTOVER
        },
    ),
    (
        "renamed by hand",
        Leftover {
            first_lost: Some(0),
            ..LEFTOVER
        },
    ),
    (
        "all of it deleted by DeleteRecords",
        Leftover {
            first_epoch_start: BASES[1],
            log_start: Some(BASES[1]),
            ..LEFTOVER
        },
    ),
    (
        "the checkpoint alone is that far",
        Leftover {
            log_start: Some(BASES[1]),
            ..LEFTOVER
        },
    ),
    (
        "the checkpoint lies in the middle of it",
        Leftover {
            log_start: Some(40),
            first_lost: Some(40),
            ..LEFTOVER
        },
    ),
    (
        "in the middle of the log",
        Leftover {
            segment: 1,
            first_lost: Some(BASES[1]),
            ..LEFTOVER
        },
    ),
    (
        "in the middle, and below the log start",
        Leftover {
            segment: 1,
            log_start: Some(BASES[2]),
            ..LEFTOVER
        },
    ),
    (
        "truncated by a follower",
        Leftover {
            segment: 2,
            high_watermark: Some(BASES[2]),
            ..LEFTOVER
        },
    ),
    (
        "truncated by a follower, nothing known",
        Leftover {
            segment: 2,
            high_watermark: None,
            ..LEFTOVER
        },
    ),
    (
        "cut off although acknowledged",
        Leftover {
            segment: 2,
            first_lost: Some(BASES[2]),
            ..LEFTOVER
        },
    ),
    (
        "made by a compaction",
        Leftover {
            segment: 2,
            suffix: "cleaned",
            first_lost: Some(BASES[2]),
            ..LEFTOVER
        },
    ),
];

/// Segments under way to be deleted, or made by a compaction, that nothing in use replaces. They
/// are lost where the log had them: at or above the log start, which retention moves together with
/// the first leader epoch (`UnifiedLog.deleteSegments`) and `DeleteRecords` in the checkpoint as
/// well, and below the high watermark, above which a follower truncates.
#[test]
fn the_last_copy_of_records_is_not_nothing() {
    for (name, case) in &LEFTOVERS {
        let data = with_leftover(case);
        for start in ["clean", "unclean"] {
            check_leftover(name, case, start, data.path());
        }
    }
}

fn log_name(case: &Leftover) -> String {
    format!("{:020}.log", BASES[case.segment])
}

/// The directory with it.
fn with_leftover(case: &Leftover) -> tempfile::TempDir {
    let data = copy_of("s02-txn-tv2/data");
    let partition = data.path().join("tx-1");
    let epochs = format!("0\n1\n0 {}\n", case.first_epoch_start);
    fs::write(partition.join("leader-epoch-checkpoint"), epochs).unwrap();
    let start_checkpoint = "log-start-offset-checkpoint";
    write_checkpoint(data.path(), start_checkpoint, "tx 1", case.log_start);
    let mark_checkpoint = "replication-offset-checkpoint";
    write_checkpoint(data.path(), mark_checkpoint, "tx 1", case.high_watermark);
    // All files of a segment get the suffix (`LogSegment.changeFileSuffixes`).
    for extension in ["log", "index", "timeindex", "txnindex"] {
        let name = format!("{:020}.{extension}", BASES[case.segment]);
        let file = partition.join(&name);
        if file.exists() {
            let renamed = format!("{name}.{}", case.suffix);
            fs::rename(&file, partition.join(renamed)).unwrap();
        }
    }
    data
}

fn check_leftover(name: &str, case: &Leftover, start: &str, data: &Path) {
    let run = start_of(start, &data.join("tx-1"));
    let row = &run.rows[0];
    let is_lost = case.first_lost.is_some();
    assert_eq!(row["losesData"], json!(is_lost), "{name}: {}", run.table);
    assert_eq!(
        run.status,
        Some(i32::from(is_lost)),
        "{name}: {}",
        run.table
    );
    let advice = format!("rename it to {} before the start", log_name(case));
    let says = warnings(row).contains(&advice);
    assert_eq!(says, is_lost, "{name}");
    // A batch that reaches beyond the log start is read whole.
    let first = row["losses"]["firstOffset"].as_i64();
    assert_eq!(first.is_some(), is_lost, "{name}");
    assert!(first <= case.first_lost, "{name}: {first:?}");
    let is_safe = run
        .table
        .starts_with(&format!("safe to start {start}: nothing is lost"));
    assert_eq!(
        is_safe,
        !is_lost && warnings(row).is_empty(),
        "{name}: {}",
        run.table
    );
}

/// Where a compaction was interrupted, or data was deleted in its course, nothing is lost.
#[test]
fn leftovers_that_are_replaced_are_no_loss() {
    for fixture in ["incidents/interrupted-cleaner/data", "s14-replicas/data-2"] {
        let data = copy_of(fixture);
        for start in ["clean", "unclean"] {
            let run = start_of(start, data.path());
            assert!(
                run.rows.iter().all(|row| row["losesData"] == json!(false)),
                "{}",
                run.table
            );
        }
    }
}

/// Producers that are too old by the clock are forgotten, and that is said.
#[test]
fn producers_too_old_by_the_clock_are_forgotten() {
    let data = copy_of("s02-txn-tv2/data");
    let partition = data.path().join("tx-1");
    let now = "2027-12-25T00:00:00Z";
    let run = |now: &[&OsStr]| {
        let mut arguments = vec!["--start".as_ref(), "clean".as_ref(), partition.as_os_str()];
        arguments.extend(now);
        recover(&arguments)
    };
    let ageless = run(&[]);
    let known = ageless.rows[0]["producers"].as_array().unwrap().len();
    let aged = run(&["--now".as_ref(), now.as_ref()]);
    let row = &aged.rows[0];
    let left = row["producers"].as_array().unwrap().len();
    let expired = row["losses"]["expiredProducers"].as_array().unwrap().len();
    assert!(left < known);
    assert_eq!(left + expired, known);
    assert_eq!(row["losesProducerState"], json!(true));
    assert!(
        aged.table.contains(&format!("forgets {expired} producers")),
        "{}",
        aged.table
    );
}

/// A log that ends below the high watermark has lost what was acknowledged, and a marker that is
/// cut off leaves its transaction open: by the broker's answers before the damage and after it.
#[test]
fn acknowledged_records_and_markers_that_are_cut_off_are_named() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut told = 0;
    for entry in fs::read_dir(&fixtures).unwrap() {
        let fixture = entry.unwrap().path();
        let recovery = fixture.join("expected/recovery.json");
        let data = fixture.join("data/dmg-0");
        if !recovery.exists() || !data.exists() {
            continue;
        }
        let json_of = |name: &str| -> Value {
            serde_json::from_slice(&fs::read(fixture.join(name)).unwrap()).unwrap()
        };
        let after = json_of("expected/dmg-0.json");
        let end = after["offsets"]["latestReadUncommitted"].as_i64().unwrap();
        let stable = after["offsets"]["latestReadCommitted"].as_i64().unwrap();
        let checkpoint = fixture.join("data/replication-offset-checkpoint");
        let text = fs::read_to_string(checkpoint).unwrap();
        let mark = text.lines().find_map(|line| line.strip_prefix("dmg 0 "));
        let mark: Option<i64> = mark.map(|it| it.parse().unwrap());
        let run = start_of("unclean", &data);
        let losses = &run.rows[0]["losses"];
        let name = fixture.display();
        let lost = mark.filter(|mark| *mark > end);
        if lost.is_some() {
            assert_eq!(run.status, Some(1), "{name}: {}", run.table);
            assert!(!run.table.starts_with("safe"), "{name}: {}", run.table);
        }
        assert_eq!(
            losses["acknowledgedFrom"],
            json!(lost.map(|_| end)),
            "{name}"
        );
        assert_eq!(
            losses["acknowledgedTo"],
            json!(lost.map(|mark| mark - 1)),
            "{name}"
        );
        // Nothing was open when the broker was stopped before the damage.
        let open = losses["leftOpen"].as_array().unwrap();
        assert_eq!(!open.is_empty(), stable < end, "{name}: {}", run.table);
        if let Some(first) = open.first() {
            assert_eq!(first["firstOffset"], json!(stable), "{name}");
            let command = format!("--topic dmg --partition 0 --start-offset {stable}");
            assert!(run.table.contains(&command), "{}", run.table);
            told += 1;
        }
    }
    assert!(told >= 2, "{told}");
}

/// `--out` leaves beside the partitions what a clean stop leaves there.
#[test]
fn the_copy_has_the_checkpoints_of_a_clean_stop() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut compared = 0;
    for entry in fs::read_dir(&fixtures).unwrap() {
        let fixture = entry.unwrap().path();
        let (data, recovered) = (fixture.join("data"), fixture.join("recovered"));
        if !recovered.exists() {
            continue;
        }
        let work = tempfile::tempdir().unwrap();
        let out = work.path().join("out");
        let before = recover(&["--start".as_ref(), "unclean".as_ref(), data.as_os_str()]);
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["recover", "--start", "unclean", "--out"])
            .args([&out, &data])
            .output()
            .unwrap();
        assert_ne!(status.status.code(), Some(2), "{}", fixture.display());
        assert!(out.join(".kafka_cleanshutdown").exists());
        for checkpoint in [
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
            "log-start-offset-checkpoint",
        ] {
            let lines = |dir: &Path| -> BTreeSet<String> {
                let text = fs::read_to_string(dir.join(checkpoint)).unwrap();
                let lines = text.lines().skip(2).map(str::to_owned);
                // Of some fixtures only the partition that was damaged is here.
                let is_here = |line: &String| {
                    let parts: Vec<&str> = line.split(' ').collect();
                    data.join(format!("{}-{}", parts[0], parts[1])).exists()
                };
                lines.filter(is_here).collect()
            };
            assert_eq!(
                lines(&out),
                lines(&recovered),
                "{} {checkpoint}",
                fixture.display()
            );
            compared += 1;
        }
        let again = recover(&[out.as_os_str()]);
        // What was gone before the start is gone in the copy.
        let gone = |run: &Run| -> u64 {
            let rows = run.rows.iter().filter(|row| row["start"] == "unclean");
            rows.map(|row| row["gone"]["offsets"].as_u64().unwrap())
                .sum()
        };
        assert_eq!(gone(&again), gone(&before), "{}", again.table);
        let status = i32::from(gone(&again) > 0);
        assert_eq!(again.status, Some(status), "{}", again.table);
        assert!(
            again
                .rows
                .iter()
                .any(|row| row["start"] == "clean" && row["applies"] == true)
        );
    }
    assert!(compared > 10, "{compared}");
}

/// A start is of a whole partition.
#[test]
fn a_single_segment_is_refused() {
    let data = copy_of("s02-txn-tv2/data");
    let log = files(&data.path().join("tx-1"), "log")[0].clone();
    for command in [&["recover"][..], &["lso", "--as-loaded"][..]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(command)
            .arg(&log)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains(&format!("try {}", log.parent().unwrap().display())),
            "{said}"
        );
    }
}

/// What is missing is named, not a temporary name of ours.
#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let data = copy_of("s02-txn-tv2/data");
    let missing = data.path().join("../no-such-folder-here");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["recover", "--out"])
        .args([&missing.join("out"), &data.path().join("tx-1")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("no-such-folder-here is no directory"),
        "{said}"
    );
    assert!(!said.contains(".kseg-"), "{said}");
}

/// `emptied-0` of `s06-retention` has no offset at or above its log start, so every start takes the
/// last line out of `leader-epoch-checkpoint` (`LogLoader.load`).
#[test]
fn what_a_start_leaves_is_sound() {
    let mut checked = 0;
    for fixture in [
        "s01-idempotent",
        "s02-txn-tv2",
        "s05-compacted",
        "s06-retention",
        "s07-killed",
    ] {
        for start in ["clean", "unclean"] {
            let data = copy_of(&format!("{fixture}/data"));
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out");
            let path = &data.path().to_owned();
            let kseg = || Command::new(env!("CARGO_BIN_EXE_kseg"));
            let started = kseg()
                .args(["recover", "--start", start, "--out"])
                .args([&out, path])
                .output()
                .unwrap();
            assert_ne!(started.status.code(), Some(2), "{fixture}, {start}");
            let verify = kseg().args(["verify", "-o", "ndjson"]).arg(&out).output();
            let verify = verify.unwrap();
            let text = String::from_utf8(verify.stdout).unwrap();
            for line in text.lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                assert_ne!(row["severity"], "corrupt", "{fixture}, {start}: {line}");
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}
