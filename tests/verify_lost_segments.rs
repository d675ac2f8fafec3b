//! What `verify` says of segments that are not there: gone, emptied, set aside, or out of reach.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/nobody.rs"]
mod nobody;
#[path = "common/verify_run.rs"]
mod verify_run;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime};

use nobody::{forbid, kseg_in};
use serde_json::Value;
use verify_run::{Copied, LAST, MIDDLE, batches, stdout, text};

/// Removes the first segment of three, with its indexes.
fn without_front() -> Copied {
    let copied = Copied::transactions();
    for extension in ["log", "index", "timeindex", "txnindex"] {
        fs::remove_file(copied.path(&format!("tx-1/00000000000000000000.{extension}"))).unwrap();
    }
    copied
}

/// Retention moves the first line of `leader-epoch-checkpoint` along with the log start
/// (`LeaderEpochFileCache.truncateFromStart`); whoever removes files by hand does not.
#[test]
fn a_front_that_retention_did_not_take_is_a_loss() {
    let copied = without_front();
    let alarms = copied.alarms(&[]);
    let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
    let lost = lost.unwrap_or_else(|| panic!("{alarms:#?}"));
    assert_eq!(lost["severity"], "corrupt", "{lost:#}");
    assert_eq!(lost["firstOffset"], 0, "{lost:#}");
    assert_eq!(lost["lastOffset"], 88, "{lost:#}");

    // One that is running may not have come to write the line: it is waited for.
    let epochs = "tx-1/leader-epoch-checkpoint";
    let text = fs::read_to_string(copied.path(epochs)).unwrap();
    assert!(text.ends_with("\n0 0\n"), "{text}");
    let moved = text.replace("\n0 0\n", "\n0 89\n");
    fs::remove_file(copied.path(".kafka_cleanshutdown")).unwrap();
    let partition = fs::File::open(copied.path("tx-1")).unwrap();
    partition.set_modified(SystemTime::now()).unwrap();
    let none = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            fs::write(copied.path("moved"), &moved).unwrap();
            fs::rename(copied.path("moved"), copied.path(epochs)).unwrap();
        });
        copied.alarms(&[])
    });
    assert!(
        none.iter().all(|row| row["kind"] != "segment-missing"),
        "{none:#?}"
    );
    // One that was killed never comes to it, a moment ago or long ago.
    fs::write(copied.path(epochs), text).unwrap();
    for modified in [
        SystemTime::now(),
        SystemTime::now() - Duration::from_secs(60),
    ] {
        partition.set_modified(modified).unwrap();
        let alarms = copied.alarms(&[]);
        let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
        assert_eq!(lost.unwrap()["severity"], "afterCrash", "{alarms:#?}");
    }

    let retained = without_front();
    fs::write(retained.path(epochs), moved).unwrap();
    // Of a tiered log the checkpoint has the start, whatever segments are here.
    let tiered = without_front();
    let checkpoint = "0\n1\ntx 1 0\n";
    fs::write(tiered.path("log-start-offset-checkpoint"), checkpoint).unwrap();
    for copied in [retained, tiered] {
        let alarms = copied.alarms(&[]);
        assert!(
            alarms.iter().all(|row| row["kind"] != "segment-missing"),
            "{alarms:#?}"
        );
    }
}

/// The cleaner leaves an empty `.log` with empty indexes: entries tell of batches that were there.
#[test]
fn a_log_that_was_emptied_is_not_compacted() {
    for (segment, first, last) in [(MIDDLE, 89, 164), ("tx-1/00000000000000000000", 0, 88)] {
        let copied = Copied::transactions();
        fs::write(copied.path(&format!("{segment}.log")), []).unwrap();
        let alarms = copied.alarms(&[]);
        let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
        let lost = lost.unwrap_or_else(|| panic!("{segment}: {alarms:#?}"));
        assert_eq!(lost["firstOffset"], first, "{lost:#}");
        assert_eq!(lost["lastOffset"], last, "{lost:#}");
        assert!(text(lost, "message").contains("is empty"), "{lost:#}");
        for extension in ["index", "timeindex", "txnindex"] {
            fs::write(copied.path(&format!("{segment}.{extension}")), []).unwrap();
        }
        // The cleaner leaves the last batch of each producer that the newest snapshot has.
        let alarms = copied.alarms(&[]);
        let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
        let told = lost.map(|row| text(row, "message"));
        assert!(
            told.is_none_or(|it| it.contains(".snapshot tells that it was not")),
            "{alarms:#?}"
        );
        for file in fs::read_dir(copied.path("tx-1")).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|it| it == "snapshot") {
                fs::remove_file(path).unwrap();
            }
        }
        let alarms = copied.alarms(&[]);
        assert!(
            alarms.iter().all(|row| row["kind"] != "segment-missing"),
            "{alarms:#?}"
        );
    }
}

/// The log start of `trimmed-0` was set to 77, inside its first segment, and with it the first line
/// of `leader-epoch-checkpoint`: below it nothing is missing.
#[test]
fn only_what_lies_behind_the_log_start_is_missing() {
    let first = "trimmed-0/00000000000000000048";
    let missing = |copied: &Copied| {
        let alarms = copied.alarms(&[]);
        let missing = alarms.iter().find(|row| row["kind"] == "segment-missing");
        let missing = missing.unwrap_or_else(|| panic!("{alarms:#?}")).clone();
        assert_eq!(missing["offset"], 77, "{missing:#}");
        assert_eq!(missing["firstOffset"], 77, "{missing:#}");
        assert_eq!(missing["lastOffset"], 96, "{missing:#}");
        missing
    };
    let emptied = Copied::of("s06-retention/data");
    fs::write(emptied.path(&format!("{first}.log")), []).unwrap();
    missing(&emptied);

    let set_aside = Copied::of("s06-retention/data");
    for extension in ["log", "index", "timeindex", "txnindex", "snapshot"] {
        let path = set_aside.path(&format!("{first}.{extension}"));
        fs::rename(&path, format!("{}.deleted", path.display())).unwrap();
    }
    let told = missing(&set_aside);
    let next = text(&told, "nextStep");
    assert!(
        next.contains("here as 00000000000000000048.log.deleted"),
        "{next}"
    );
    // With the log start at the first segment that is left nothing is missing.
    let starts = set_aside.path("log-start-offset-checkpoint");
    fs::write(starts, "0\n2\nemptied 0 176\ntrimmed 0 97\n").unwrap();
    let alarms = set_aside.alarms(&[]);
    let missing = alarms.iter().find(|row| row["kind"] == "segment-missing");
    assert_eq!(missing, None);

    // A tiered log begins where its checkpoint says, in remote storage, and deletes what it has
    // copied there.
    fs::write(
        set_aside.path("log-start-offset-checkpoint"),
        starts_at_77(),
    )
    .unwrap();
    fs::create_dir(set_aside.path("remote-log-index-cache")).unwrap();
    let alarms = set_aside.alarms(&[]);
    assert!(alarms.is_empty(), "{alarms:#?}");
}

fn starts_at_77() -> &'static str {
    "0\n2\nemptied 0 176\ntrimmed 0 77\n"
}

/// Segments of a log that begins at 77 by its checkpoint, with the first one gone. A broker with
/// remote storage has `remote-log-index-cache` in its first log directory (`RemoteIndexCache`), and
/// the metadata log unless told otherwise: in another one of its directories nothing tells.
#[test]
fn a_front_that_may_be_remote_is_told_with_what_to_look_at() {
    let without_first = |kept: &[&str]| {
        let copied = Copied::of("s06-retention/data");
        for extension in ["log", "index", "timeindex", "txnindex", "snapshot"] {
            if !kept.contains(&extension) {
                let name = format!("trimmed-0/00000000000000000048.{extension}");
                fs::remove_file(copied.path(&name)).unwrap();
            }
        }
        copied
    };
    let missing = |copied: &Copied| {
        let output = copied.run(&["-o", "ndjson"], &["trimmed-0"]);
        let rows = stdout(&output);
        let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
        let mut rows = rows.filter(|row: &Value| row["kind"] == "segment-missing");
        let row = rows.next()?;
        assert_eq!(
            (row["firstOffset"].as_i64(), row["lastOffset"].as_i64()),
            (Some(77), Some(96))
        );
        let next = text(&row, "nextStep").to_owned();
        Some(next.contains("remote.storage.enable"))
    };
    let elsewhere = without_first(&[]);
    assert_eq!(missing(&elsewhere), Some(true));

    // Its first log directory without a cache: nothing is tiered.
    fs::create_dir(elsewhere.path("__cluster_metadata-0")).unwrap();
    assert_eq!(missing(&elsewhere), Some(false));
    fs::create_dir(elsewhere.path("remote-log-index-cache")).unwrap();
    assert_eq!(missing(&elsewhere), None);

    // No broker leaves an index without its `.log`.
    let removed = without_first(&["index"]);
    assert_eq!(missing(&removed), Some(false));
}

/// An index of a later segment tells less than the leader epochs do.
#[test]
fn the_front_begins_where_the_log_did() {
    let copied = without_front();
    fs::remove_file(copied.path(&format!("{MIDDLE}.log"))).unwrap();
    let alarms = copied.alarms(&[]);
    let mut lost = alarms.iter().filter(|row| row["kind"] == "segment-missing");
    let front = lost.next().unwrap_or_else(|| panic!("{alarms:#?}"));
    assert_eq!(front["firstOffset"], 0, "{front:#}");
    assert_eq!(front["lastOffset"], 164, "{front:#}");
    assert_eq!(lost.next(), None);
    for (command, first, last) in [
        ("gaps", "firstOffset", "lastOffset"),
        ("recover", "/gone/firstOffset", "/gone/lastOffset"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args([command, "-o", "ndjson"])
            .arg(copied.path("tx-1"))
            .output()
            .unwrap();
        let rows = stdout(&output);
        let mut rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
        let at = |row: &Value, key: &str| {
            let pointer = row.pointer(key).or(row.get(key));
            pointer.cloned().unwrap_or_default()
        };
        let is_it = |row: &Value| at(row, first) == 0 && at(row, last) == 164;
        assert!(rows.any(|row: Value| is_it(&row)), "{command}");
    }
}

/// A start begins a log without segments at its checkpointed start, and its high watermark is the
/// end of that (`LogLoader.recoverLog`).
#[test]
fn a_log_that_lost_all_its_segments_had_records() {
    for is_clean in [true, false] {
        let copied = Copied::transactions();
        for file in fs::read_dir(copied.path("tx-1")).unwrap() {
            let path = file.unwrap().path();
            if path
                .file_name()
                .is_some_and(|it| it != "partition.metadata")
            {
                fs::remove_file(path).unwrap();
            }
        }
        if !is_clean {
            fs::remove_file(copied.path(".kafka_cleanshutdown")).unwrap();
        }
        let alarms = copied.alarms(&[]);
        let past_end = alarms
            .iter()
            .find(|row| row["kind"] == "high-watermark-past-end");
        let past_end = past_end.unwrap_or_else(|| panic!("{alarms:#?}"));
        assert_eq!(past_end["partition"], 1);
        assert_eq!(past_end["offset"], 173);
    }
}

/// Offsets between two segments of a compacted topic are none of the damage behind them.
#[test]
fn damage_at_the_front_of_a_segment_begins_there() {
    let copied = Copied::of("s05-compacted/data");
    let log = copied.path("compact-drop-0/00000000000000000283.log");
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..114]).unwrap();
    let alarms = copied.alarms(&[]);
    let torn = alarms.iter().find(|row| row["kind"] == "torn-tail");
    let torn = torn.unwrap_or_else(|| panic!("{alarms:#?}"));
    // The segment before it ends at 279.
    assert_eq!(torn["offset"], 283, "{torn:#}");
    assert_eq!(torn["lastOffset"], 359, "{torn:#}");
}

/// Gives the files of a segment, but for its snapshot, a suffix.
fn rename_segment(copied: &Copied, segment: &str, suffix: &str) {
    for extension in ["log", "index", "timeindex", "txnindex"] {
        let name = format!("{segment}.{extension}");
        fs::rename(copied.path(&name), copied.path(&format!("{name}{suffix}"))).unwrap();
    }
}

/// `LogLoader.load` gives `.swap` files their names, and before that it deletes each one at or
/// above the offset of a `.cleaned`.
#[test]
fn a_segment_that_a_start_puts_into_place_is_not_missing() {
    for segment in ["tx-1/00000000000000000000", MIDDLE, LAST] {
        let copied = Copied::transactions();
        rename_segment(&copied, segment, ".swap");
        let alarms = copied.alarms(&[]);
        assert!(alarms.is_empty(), "{segment}: {alarms:#?}");
        let output = copied.run(&["-o", "ndjson", "--all"], &["tx-1"]);
        let rows = stdout(&output);
        let rows = rows.lines().map(|it| serde_json::from_str(it).unwrap());
        let rows: Vec<Value> = rows.collect();
        let swap = format!("{segment}.log.swap").replace("tx-1/", "");
        let told = rows
            .iter()
            .find(|row| row["file"] == swap.as_str())
            .unwrap();
        let live = swap.replace(".swap", "");
        let action = text(told, "brokerAction");
        assert!(
            action.contains(&format!("renames it to {live} at any start")),
            "{told:#}"
        );

        // One that was not finished, at the same offset.
        fs::write(copied.path(&format!("{segment}.index.cleaned")), []).unwrap();
        let alarms = copied.alarms(&[]);
        let lost = |row: &&Value| {
            row["kind"] == "segment-missing" || row["kind"] == "high-watermark-past-end"
        };
        assert!(
            alarms.iter().any(|row| lost(&row)),
            "{segment}: {alarms:#?}"
        );
    }
}

/// Of two segments that are gone a `.swap` brings back one, and what is deleted for it is named.
#[test]
fn what_a_swap_does_not_bring_back_is_missing() {
    let copied = Copied::transactions();
    rename_segment(&copied, "tx-1/00000000000000000000", ".swap");
    let length = 4000;
    let swap = copied.path("tx-1/00000000000000000000.log.swap");
    let bytes = fs::read(&swap).unwrap();
    let whole: Vec<_> = batches(&bytes)
        .into_iter()
        .take_while(|(at, size, _)| at + size <= length)
        .collect();
    let (at, size, _) = *whole.last().unwrap();
    let (_, _, next) = batches(&bytes)[whole.len()];
    fs::write(&swap, &bytes[..at + size]).unwrap();
    let alarms = copied.alarms(&[]);
    let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
    let lost = lost.unwrap_or_else(|| panic!("{alarms:#?}"));
    assert_eq!(lost["firstOffset"], next, "{lost:#}");
    assert_eq!(lost["lastOffset"], 88, "{lost:#}");

    // Over one that is in use it comes in its place.
    let copied = Copied::transactions();
    let log = copied.path(&format!("{MIDDLE}.log"));
    fs::copy(&log, copied.path(&format!("{MIDDLE}.log.swap"))).unwrap();
    let output = copied.run(&["-o", "ndjson", "--all"], &["tx-1"]);
    let rows = stdout(&output);
    assert!(
        rows.contains("and deletes 00000000000000000089.log before"),
        "{rows}"
    );
}

/// A file that cannot be read leaves the answer short of a partition, and the first line says so.
#[test]
fn an_answer_that_lacks_a_partition_says_so_first() {
    let copied = Copied::transactions();
    forbid(&copied.path(&format!("{MIDDLE}.log")));
    fs::remove_file(copied.path("tx-1/00000000000000000000.index")).unwrap();
    let root = copied.path("");
    fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
    let program = tempfile::tempdir().unwrap();
    let mut command = kseg_in(program.path());
    let output = command.arg("verify").arg(root).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let table = stdout(&output);
    assert!(table.starts_with("incomplete: "), "{table}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("00000000000000000089.log"), "{errors}");
    // What was found before the end is counted.
    assert!(table.contains("\ncorrupt: 1 "), "{table}");
    assert!(table.contains("index-missing"), "{table}");
    let sound = Copied::transactions();
    assert!(stdout(&sound.run(&[], &[""])).starts_with("corrupt: 0 "));
}
