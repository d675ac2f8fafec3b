//! Acknowledged records that are gone before a start: it loses nothing, and is no safe one.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/nobody.rs"]
mod nobody;
#[path = "common/recover_run.rs"]
mod recover_run;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nobody::{forbid, kseg_in};
use recover_run::{Run, copy_of, recover};
use segments::{batches_of, fixtures};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cleanly stopped partition of three segments, `0..=88`, `89..=164` and `165..=172`, whose high
/// watermark is its log end.
const FRONT: &str = "00000000000000000000";
const MIDDLE: &str = "00000000000000000089";
const INDEXES: [&str; 3] = ["index", "timeindex", "txnindex"];

fn run(data: &TempDir) -> Run {
    recover(&[data.path().join("tx-1").as_os_str()])
}

/// The row of the start that the directory would get.
fn due(run: &Run) -> &Value {
    let due = run.rows.iter().find(|row| row["applies"] == true);
    due.unwrap_or_else(|| panic!("{}", run.table))
}

fn damaged(damage: impl Fn(&Path)) -> TempDir {
    let data = copy_of("s02-txn-tv2/data");
    damage(&data.path().join("tx-1"));
    data
}

fn remove(partition: &Path, segment: &str, extensions: &[&str]) {
    for extension in extensions {
        fs::remove_file(partition.join(format!("{segment}.{extension}"))).unwrap();
    }
}

/// Where a batch of the log begins and ends, and its offsets: the one that holds `offset`.
fn batch_of(log: &[u8], offset: i64) -> (usize, usize, i64, i64) {
    let of = |(at, size): (usize, usize)| {
        let base = i64::from_be_bytes(log[at..at + 8].try_into().unwrap());
        let delta = i32::from_be_bytes(log[at + 23..at + 27].try_into().unwrap());
        (at, at + size, base, base + i64::from(delta))
    };
    let mut batches = batches_of(log).into_iter().map(of);
    batches.find(|it| (it.2..=it.3).contains(&offset)).unwrap()
}

/// Asserts that the start due here loses nothing, and that these offsets are gone, in the first
/// line, the row and the status.
#[track_caller]
fn assert_gone(data: &TempDir, first: i64, last: i64, kind: &str) {
    let run = run(data);
    assert_eq!(run.status, Some(1), "{}", run.table);
    let row = due(&run);
    let count = last - first + 1;
    assert_eq!(row["losesData"], false, "{}", run.table);
    assert_eq!(row["losses"]["acknowledgedFrom"], Value::Null);
    let gone = &row["gone"];
    assert_eq!(gone["offsets"], count, "{gone:#}");
    assert_eq!(gone["firstOffset"], first, "{gone:#}");
    assert_eq!(gone["lastOffset"], last, "{gone:#}");
    assert_eq!(gone["ranges"][0]["kind"], kind, "{gone:#}");
    let line = run.table.lines().next().unwrap();
    let says = format!("{count} acknowledged offsets are gone already: tx-1 {first}..{last}");
    assert!(line.starts_with(&says), "{}", run.table);
    assert!(line.ends_with("loses nothing more"), "{}", run.table);
}

#[test]
fn segments_that_are_gone_are_counted() {
    let all = ["log", "index", "timeindex", "txnindex"];
    for (segment, first, last) in [(FRONT, 0, 88), (MIDDLE, 89, 164)] {
        for extensions in [&all[..], &all[..1]] {
            let data = damaged(|partition| remove(partition, segment, extensions));
            assert_gone(&data, first, last, "segment-missing");
        }
        let emptied = damaged(|partition| {
            fs::write(partition.join(format!("{segment}.log")), []).unwrap();
        });
        assert_gone(&emptied, first, last, "segment-missing");
        // A cleaner leaves an empty `.log` too, but never without its indexes.
        for name in [format!("{segment}.log"), format!("{segment}.log.swap")] {
            let alone = damaged(|partition| {
                remove(partition, segment, &all);
                fs::write(partition.join(&name), []).unwrap();
            });
            assert_gone(&alone, first, last, "segment-missing");
        }
    }
}

#[test]
fn bytes_that_cannot_be_read_are_counted() {
    for (segment, within, last_of_segment) in [(FRONT, 40, 88), (MIDDLE, 120, 164)] {
        let name = format!("{segment}.log");
        let log = fs::read(fixtures().join("s02-txn-tv2/data/tx-1").join(&name)).unwrap();
        let (at, end, first, last) = batch_of(&log, within);
        let flipped = damaged(|partition| {
            let mut log = log.clone();
            log[end - 1] ^= 1;
            fs::write(partition.join(&name), log).unwrap();
        });
        let run = run(&flipped);
        assert_eq!(run.status, Some(1), "{}", run.table);
        let range = &due(&run)["gone"]["ranges"][0];
        assert_eq!(range["kind"], "bad-crc", "{range:#}");
        assert_eq!(range["file"], name, "{range:#}");
        assert_eq!(range["position"], at, "{range:#}");
        assert_eq!(range["firstOffset"], first, "{range:#}");
        assert_eq!(range["lastOffset"], last, "{range:#}");

        let torn = damaged(|partition| {
            fs::write(partition.join(&name), &log[..at + 30]).unwrap();
        });
        assert_gone(&torn, first, last_of_segment, "torn-tail");
    }
}

/// What was deleted by `DeleteRecords`, or written above the high watermark, was nobody's.
#[test]
fn only_what_was_acknowledged_counts() {
    let checkpoint = |data: &TempDir, name: &str, offset: i64| {
        fs::write(data.path().join(name), format!("0\n1\ntx 1 {offset}\n")).unwrap();
    };
    let without_middle = || damaged(|it| remove(it, MIDDLE, &["log"]));
    let data = without_middle();
    checkpoint(&data, "replication-offset-checkpoint", 100);
    assert_gone(&data, 89, 99, "segment-missing");
    let data = without_middle();
    checkpoint(&data, "log-start-offset-checkpoint", 150);
    assert_gone(&data, 150, 164, "segment-missing");
    for (name, offset) in [
        ("replication-offset-checkpoint", 89),
        ("log-start-offset-checkpoint", 165),
    ] {
        let data = without_middle();
        checkpoint(&data, name, offset);
        let run = run(&data);
        assert_eq!(due(&run)["gone"]["offsets"], 0, "{name}: {}", run.table);
    }
}

/// Without checksums a batch that cannot be read passes, and the first line does not say otherwise.
#[test]
fn what_was_not_looked_at_is_not_vouched_for() {
    let data = damaged(|partition| {
        let name = partition.join(format!("{FRONT}.log"));
        let mut log = fs::read(&name).unwrap();
        let (_, end, ..) = batch_of(&log, 40);
        log[end - 1] ^= 1;
        fs::write(name, log).unwrap();
    });
    let partition = data.path().join("tx-1");
    let run = recover(&[OsStr::new("--quick"), partition.as_os_str()]);
    assert_eq!(run.status, Some(0), "{}", run.table);
    let line = run.table.lines().next().unwrap();
    assert!(line.contains("was not looked at (--quick)"), "{line}");
}

/// What a start brings back is not gone, and what it removes the last copy of is lost by it.
#[test]
fn segments_under_other_names_are_told_once() {
    let rename = |partition: &Path, suffix: &str| {
        for extension in ["log"].iter().chain(&INDEXES) {
            let name = partition.join(format!("{MIDDLE}.{extension}"));
            fs::rename(&name, format!("{}.{suffix}", name.display())).unwrap();
        }
    };
    let restored = run(&damaged(|partition| rename(partition, "swap")));
    assert_eq!(restored.status, Some(0), "{}", restored.table);
    assert_eq!(due(&restored)["gone"]["offsets"], 0);
    let removed = run(&damaged(|partition| rename(partition, "deleted")));
    assert_eq!(removed.status, Some(1), "{}", removed.table);
    assert_eq!(due(&removed)["losesData"], true, "{}", removed.table);
    assert_eq!(due(&removed)["losses"]["firstOffset"], 89);
    assert_eq!(due(&removed)["gone"]["offsets"], 0, "{}", removed.table);
}

/// A broker that has compacted renames the indexes with the `.log`, and deletes the snapshot.
#[test]
fn a_deleted_log_of_a_compacted_topic_may_be_the_last_copy() {
    let set_aside = |base: &str, extensions: &[&str]| {
        let data = copy_of("s05-compacted/data");
        let partition = data.path().join("compact-keep-0");
        for extension in extensions {
            let path = partition.join(format!("{base}.{extension}"));
            if path.exists() {
                fs::rename(&path, format!("{}.deleted", path.display())).unwrap();
            }
        }
        recover(&[partition.as_os_str()])
    };
    // Offsets of batches that are there, and what was compacted away before the first one.
    for (base, records, first, last) in [
        ("00000000000000000000", 40, 8, 289),
        ("00000000000000000290", 13, 290, 365),
        ("00000000000000000366", 30, 366, 395),
    ] {
        let run = set_aside(base, &["log"]);
        assert_eq!(run.status, Some(1), "{base}: {}", run.table);
        let row = due(&run);
        assert_eq!(row["losses"]["records"], records, "{base}: {}", run.table);
        assert_eq!(row["losses"]["firstOffset"], first, "{base}");
        assert_eq!(row["losses"]["lastOffset"], last, "{base}");
        assert_eq!(row["gone"]["offsets"], 0, "{base}: {}", run.table);
        let warned = format!("{base}.log.deleted is the last copy here of offsets {first}..{last}");
        assert!(run.table.contains(&warned), "{base}: {}", run.table);
    }
    // As a cleaner leaves it that has put another segment into place: what that one would have kept
    // is in none, five records that are the last of their keys (`tests/last_copies.rs`).
    let all = ["log", "index", "timeindex", "txnindex", "snapshot"];
    let run = set_aside("00000000000000000290", &all);
    assert_eq!(due(&run)["losesData"], true, "{}", run.table);
    assert_eq!(due(&run)["losses"]["records"], 5, "{}", run.table);
}

/// A broker that truncates renames the indexes too, and what it cuts off is not acknowledged.
#[test]
fn a_deleted_log_behind_the_end_with_its_indexes_is_the_last_copy() {
    for (extensions, is_lost) in [
        (&["log"][..], true),
        (&["log", "index", "timeindex"], false),
    ] {
        let data = copy_of("s07-killed/data");
        let partition = data.path().join("crash-idem-0");
        for extension in extensions {
            let path = partition.join(format!("00000000000000000092.{extension}"));
            fs::rename(&path, format!("{}.deleted", path.display())).unwrap();
        }
        // Nothing of it was acknowledged.
        let marks = data.path().join("replication-offset-checkpoint");
        fs::write(marks, "0\n1\ncrash-idem 0 92\n").unwrap();
        let run = recover(&[partition.as_os_str()]);
        assert_eq!(due(&run)["losesData"], is_lost, "{}", run.table);
        assert_eq!(run.status, Some(i32::from(is_lost)), "{}", run.table);
    }
}

/// A compressed wrapper of magic 1 has the offset of its last message: 75 in front of this segment.
#[test]
fn losses_begin_at_the_first_message_of_a_wrapper() {
    let data = copy_of("s10-upgraded-2.4.1/data");
    let partition = data.path().join("upgraded-0");
    let log = partition.join("00000000000000000072.log");
    fs::rename(&log, format!("{}.deleted", log.display())).unwrap();
    let run = recover(&[partition.as_os_str()]);
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["losses"]["firstOffset"], 72);
    assert_eq!(due(&run)["losses"]["lastOffset"], 124);
    assert_eq!(due(&run)["losses"]["records"], 53);
}

/// Without a high watermark nobody knows what was behind the end of a log.
#[test]
fn what_was_acknowledged_may_be_unknown() {
    let checkpoint = "replication-offset-checkpoint";
    let data = copy_of("s02-txn-tv2/data");
    let line = |data: &TempDir| {
        let run = run(data);
        run.table.lines().next().unwrap_or_default().to_owned()
    };
    assert!(line(&data).ends_with("nothing acknowledged is gone already"));
    fs::remove_file(data.path().join(checkpoint)).unwrap();
    let without = line(&data);
    assert!(
        without.contains("is not known without a high watermark"),
        "{without}"
    );
    assert!(!without.contains("nothing acknowledged"), "{without}");
    fs::write(data.path().join(checkpoint), "0\nx\n").unwrap();
    let unreadable = run(&data).table;
    assert!(
        unreadable.starts_with("the log directory goes offline"),
        "{unreadable}"
    );
    assert!(
        unreadable.contains("is not known without a high watermark"),
        "{unreadable}"
    );
}

/// Compaction, retention and expired producers take offsets and lose nothing.
#[test]
fn sound_directories_stay_safe() {
    let mut told = 0;
    for fixture in fs::read_dir(fixtures()).unwrap() {
        let fixture = fixture.unwrap().path();
        let name = fixture.file_name().unwrap().to_string_lossy().into_owned();
        let data = fixture.join("data");
        // Those were damaged, or stopped in the middle of a write.
        if name.starts_with("s07") || name == "incidents" || !data.is_dir() {
            continue;
        }
        let run = recover(&[data.as_os_str()]);
        for row in run.rows.iter().filter(|row| row["applies"] == true) {
            let offsets = &row["gone"]["offsets"];
            assert_eq!(*offsets, json!(0), "{}: {:#}", row["path"], row["gone"]);
            told += 1;
        }
    }
    assert!(told > 50, "{told}");
}

/// The start that is due has its rows, though nothing happens to the partition.
#[test]
fn the_due_start_is_always_in_the_table() {
    let data = copy_of("s02-txn-tv2/data");
    let run = recover(&[data.path().as_os_str()]);
    for name in ["tx-0", "tx-1", "tx-2"] {
        let row = |start: &str| {
            let cells = |line: &str| -> Vec<String> {
                line.split_whitespace().take(2).map(str::to_owned).collect()
            };
            let mut lines = run.table.lines().map(cells);
            lines.any(|it| it == [name, start])
        };
        assert!(row("clean") && row("unclean"), "{name}: {}", run.table);
    }
}

/// A partition that could not be looked at is no safe one.
#[test]
fn an_answer_that_lacks_a_partition_is_not_safe() {
    let data = copy_of("s02-txn-tv2/data");
    forbid(&data.path().join(format!("tx-1/{MIDDLE}.log")));
    let program = tempfile::tempdir().unwrap();
    let mut command = kseg_in(program.path());
    fs::set_permissions(data.path(), Permissions::from_mode(0o755)).unwrap();
    let output = command.arg("recover").arg(data.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("incomplete: "), "{table}");
}
