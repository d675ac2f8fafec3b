//! What `verify` says of lost bytes and lost files: which offsets, where a reader goes on, and what
//! helps. Decided by the bytes as they were before the damage.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/verify_run.rs"]
mod verify_run;

use std::fs;
use std::process::Command;

use serde_json::Value;
use verify_run::segments::fixtures;
use verify_run::{Copied, LAST, MIDDLE, batches, stdout, text};

/// Asserts that the alarms about bytes tell of no offset but those from `first` to below `next`, of
/// the last one of them, and that a reader goes on at `next`.
#[track_caller]
fn assert_lost(alarms: &[Value], first: i64, next: i64) {
    let kinds = ["bad-crc", "bad-length", "batch-past-end", "unknown-magic"];
    let of_bytes: Vec<&Value> = alarms
        .iter()
        .filter(|row| kinds.iter().any(|kind| row["kind"] == *kind))
        .collect();
    assert!(!of_bytes.is_empty(), "{alarms:#?}");
    let mut reaches = first;
    for row in of_bytes {
        assert_eq!(row["nextOffset"], next, "{row:#}");
        let goes_on = format!("go on at {next}");
        assert!(text(row, "nextStep").contains(&goes_on), "{row:#}");
        let from = row["offset"].as_i64().unwrap();
        assert!((first..next).contains(&from), "{row:#}");
        reaches = reaches.max(row["lastOffset"].as_i64().unwrap_or(from));
    }
    assert_eq!(reaches, next - 1, "{alarms:#?}");
}

#[test]
fn zeros_over_batches_take_the_offsets_up_to_the_next_readable_one() {
    let file = format!("{MIDDLE}.log");
    let copied = Copied::transactions();
    let mut bytes = fs::read(copied.path(&file)).unwrap();
    let (from, to) = (3000, 3400);
    let sound = batches(&bytes);
    let first = sound
        .iter()
        .find(|(at, size, _)| at + size > from)
        .unwrap()
        .2;
    let next = sound.iter().find(|(at, ..)| *at >= to).unwrap().2;
    assert!(next - first > 1);
    bytes[from..to].fill(0);
    fs::write(copied.path(&file), bytes).unwrap();
    assert_lost(&copied.alarms(&[]), first, next);
    let last = (next - 1).to_string();
    let narrowed = copied.alarms(&["--from-offset", &last, "--to-offset", &next.to_string()]);
    assert!(!narrowed.is_empty());
}

#[test]
fn a_size_that_swallows_batches_takes_their_offsets() {
    let copied = Copied::of("s07k-bad-length/data");
    let mut files = Vec::new();
    for entry in fs::read_dir(copied.path("dmg-0")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_owned();
        let sound = fixtures()
            .join("s07k-bad-length/undamaged/dmg-0")
            .join(name);
        let (is, was) = (
            fs::read(&path).unwrap(),
            fs::read(sound).unwrap_or_default(),
        );
        if path.extension().is_some_and(|it| it == "log") && is != was {
            files.push((is, was));
        }
    }
    let [(is, was)] = files.as_slice() else {
        panic!("{} damaged segments", files.len());
    };
    let differs = is.iter().zip(was).position(|(is, was)| is != was).unwrap();
    let sound = batches(was);
    let (at, _, first) = *sound.iter().rfind(|(at, ..)| *at <= differs).unwrap();
    let size = 12 + i32::from_be_bytes(is[at + 8..at + 12].try_into().unwrap());
    let end = at + usize::try_from(size).unwrap();
    let next = sound.iter().find(|(at, ..)| *at >= end).unwrap().2;
    let alarms = copied.alarms(&[]);
    assert_lost(&alarms, first, next);
    // Recovery ends at the first of them.
    let again = format!("at {at} of ");
    for row in alarms.iter().filter(|row| row["position"] != at) {
        if row["kind"] == "batch-past-end" || row["kind"] == "bad-length" {
            let action = text(row, "brokerAction");
            assert!(
                action.contains(&again) && !action.contains("cuts"),
                "{row:#}"
            );
        }
    }
}

#[test]
fn a_torn_tail_is_written_behind_in_the_active_segment_only() {
    let torn = |name: &str| {
        let copied = Copied::transactions();
        let bytes = fs::read(copied.path(name)).unwrap();
        fs::write(copied.path(name), &bytes[..bytes.len() - 30]).unwrap();
        let alarms = copied.alarms(&[]);
        alarms
            .into_iter()
            .find(|row| row["kind"] == "torn-tail")
            .unwrap()
    };
    let active = torn(&format!("{LAST}.log"));
    let action = text(&active, "brokerAction");
    assert!(
        action.contains("nothing written from then on can be read"),
        "{active:#}"
    );
    assert!(
        text(&active, "nextStep").contains(".kafka_cleanshutdown"),
        "{active:#}"
    );
    let closed = torn(&format!("{MIDDLE}.log"));
    assert!(
        !text(&closed, "brokerAction").contains("writes"),
        "{closed:#}"
    );
    assert!(
        text(&closed, "nextStep").contains("another replica"),
        "{closed:#}"
    );
    // The next segment begins where the one before ended.
    assert_eq!(closed["nextOffset"], 165, "{closed:#}");
    assert_eq!(closed["lastOffset"], 164, "{closed:#}");
}

#[test]
fn a_missing_time_index_is_not_made_anew_by_a_start() {
    let name = format!("{MIDDLE}.timeindex");
    let copied = Copied::transactions();
    let mut bytes = fs::read(copied.path(&name)).unwrap();
    bytes[7] ^= 1;
    fs::write(copied.path(&name), bytes).unwrap();
    let alarms = copied.alarms(&[]);
    let damaged = alarms
        .iter()
        .find(|row| row["kind"] == "index-damaged")
        .unwrap();
    assert!(
        !text(damaged, "nextStep").contains("or delete it"),
        "{damaged:#}"
    );
}

#[test]
fn a_log_that_is_gone_from_the_front_or_the_end_is_a_loss() {
    for (name, first, last) in [
        ("tx-1/00000000000000000000.log", 0, Some(88)),
        ("tx-1/00000000000000000165.log", 165, None),
    ] {
        let copied = Copied::transactions();
        fs::remove_file(copied.path(name)).unwrap();
        let alarms = copied.alarms(&[]);
        let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
        let lost = lost.unwrap_or_else(|| panic!("{name}: {alarms:#?}"));
        assert_eq!(lost["firstOffset"], first, "{lost:#}");
        assert_eq!(lost["lastOffset"].as_i64(), last, "{lost:#}");
        assert!(
            text(lost, "nextStep").contains("another replica"),
            "{lost:#}"
        );
    }
}

#[test]
fn a_segment_under_a_name_that_any_start_deletes_is_named() {
    for (segment, suffix) in [(MIDDLE, "deleted"), (LAST, "cleaned"), (LAST, "deleted")] {
        let copied = Copied::transactions();
        let log = format!("{segment}.log");
        let aside = format!("{log}.{suffix}");
        fs::rename(copied.path(&log), copied.path(&aside)).unwrap();
        let alarms = copied.alarms(&[]);
        let lost = alarms.iter().find(|row| row["kind"] == "segment-missing");
        let lost = lost.unwrap_or_else(|| panic!("{aside}: {alarms:#?}"));
        let name = aside.rsplit('/').next().unwrap();
        let next = text(lost, "nextStep");
        assert!(next.contains(name) && next.contains("rename"), "{lost:#}");
    }
}

#[test]
fn a_transaction_in_a_missing_segment_did_not_begin_below_the_log_start() {
    let copied = Copied::transactions();
    fs::remove_file(copied.path(&format!("{MIDDLE}.log"))).unwrap();
    let output = copied.run(&["-o", "ndjson"], &[""]);
    let rows = String::from_utf8(output.stdout).unwrap();
    let mut told = 0;
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        if row["kind"] == "snapshot-only-transaction" {
            let first = row["currentTxnFirstOffset"].as_i64().unwrap();
            let is_below = first < row["logStartOffset"].as_i64().unwrap();
            let says_so = text(&row, "message").contains("below the log start");
            assert_eq!(says_so, is_below, "{row:#}");
            told += 1;
        }
    }
    assert!(told > 0, "{rows}");
}

#[test]
fn a_path_named_twice_counts_once() {
    let copied = Copied::transactions();
    let first_line = |names: &[&str]| {
        let output = stdout(&copied.run(&[], names));
        output.lines().next().unwrap().to_owned()
    };
    let once = first_line(&[""]);
    assert_eq!(first_line(&["", ""]), once);
    assert_eq!(first_line(&["", "tx-1"]), once);
    assert_eq!(first_line(&["tx-1", "tx-1/"]), first_line(&["tx-1"]));
}

#[test]
fn damage_of_the_log_directory_is_told_of_each_of_its_partitions() {
    let copied = Copied::transactions();
    let name = "recovery-point-offset-checkpoint";
    fs::write(copied.path(name), "garbage").unwrap();
    for (arguments, path) in [
        (&[][..], ""),
        (&[][..], "tx-1"),
        (&["--topic", "tx", "--partition", "1"][..], ""),
        (&[][..], name),
    ] {
        let output = copied.run(arguments, &[path]);
        let printed = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert_eq!(
            printed.matches("checkpoint-unreadable").count(),
            1,
            "{printed}"
        );
    }
}

#[test]
fn a_file_beside_the_log_is_held_against_it() {
    let copied = Copied::transactions();
    let sound = format!("{MIDDLE}.index");
    let bad = format!("{MIDDLE}.timeindex");
    let mut bytes = fs::read(copied.path(&bad)).unwrap();
    bytes[7] ^= 1;
    fs::write(copied.path(&bad), bytes).unwrap();
    let snapshot = format!("{LAST}.snapshot");
    for (name, status) in [(&sound, 0), (&bad, 1), (&snapshot, 0)] {
        let output = copied.run(&[], &[name.as_str()]);
        assert_eq!(output.status.code(), Some(status), "{}", stdout(&output));
    }
    let none = copied.path("tx-1/notes.txt");
    fs::write(none, "").unwrap();
    assert_eq!(copied.run(&[], &["tx-1/notes.txt"]).status.code(), Some(2));
}

#[test]
fn partitions_of_two_brokers_are_told_apart() {
    let copied = Copied::transactions();
    let other = Copied::transactions();
    for copied in [&copied, &other] {
        let log = copied.path(&format!("{MIDDLE}.log"));
        let mut bytes = fs::read(&log).unwrap();
        bytes[100] ^= 1;
        fs::write(log, bytes).unwrap();
    }
    let both = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .arg("verify")
        .args([copied.path(""), other.path("")])
        .output()
        .unwrap();
    let both = stdout(&both);
    for copied in [&copied, &other] {
        let path = copied.path("tx-1").display().to_string();
        assert!(both.contains(&path), "{both}");
    }
    let one = stdout(&copied.run(&[], &[""]));
    assert!(one.contains("bad-crc  tx-1  "), "{one}");
}

#[test]
fn what_stops_the_broker_is_told_from_what_takes_a_directory_offline() {
    for (file, bytes, stops) in [
        ("partition.metadata", "version: 0\ntopic_id: ?", true),
        ("partition.metadata", "version: 0\n", true),
        (
            "partition.metadata",
            "version: x\ntopic_id: MXGkq1laQAy1Qs8yxczwXw",
            false,
        ),
        ("leader-epoch-checkpoint", "0\n1\nzero 0\n", true),
        ("leader-epoch-checkpoint", "0\n7\n0 0\n", false),
    ] {
        let copied = Copied::transactions();
        let name = format!("tx-1/{file}");
        fs::write(copied.path(&name), bytes).unwrap();
        let alarms = copied.alarms(&[]);
        let row = alarms.iter().find(|row| row["file"] == file).unwrap();
        let action = text(row, "brokerAction");
        let wanted = if stops {
            "the broker does not start"
        } else {
            "directory goes offline"
        };
        assert!(action.contains(wanted), "{bytes}: {row:#}");
    }
}

#[test]
fn a_limit_of_our_own_makes_nothing_corrupt() {
    let copied = Copied::transactions();
    let none: Vec<Value> = Vec::new();
    assert_eq!(copied.alarms(&["--deep", "--max-batch-bytes", "10"]), none);
    let output = copied.run(&["--deep", "--max-batch-bytes", "10"], &[""]);
    assert!(
        stdout(&output).contains("--max-batch-bytes"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_narrowed_answer_says_so() {
    let copied = Copied::transactions();
    let output = stdout(&copied.run(&["--producer-id", "7", "--from-offset", "5"], &[""]));
    assert!(
        output.contains("producer 7 and offsets from 5 on"),
        "{output}"
    );
    let output = copied.run(&["--from-offset", "5", "--to-offset", "5"], &[""]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("no offset is from 5 on and below 5"),
        "{said}"
    );
}

#[test]
fn a_log_that_contradicts_both_its_indexes_is_what_is_wrong() {
    let copied = Copied::transactions();
    let other = copied.path("tx-2/00000000000000000093.log");
    fs::copy(other, copied.path(&format!("{MIDDLE}.log"))).unwrap();
    let alarms = copied.alarms(&[]);
    let indexes = alarms.iter().filter(|row| row["kind"] == "index-damaged");
    let indexes: Vec<&Value> = indexes.collect();
    assert_eq!(indexes.len(), 2, "{alarms:#?}");
    for row in indexes {
        let next = text(row, "nextStep");
        assert!(
            next.contains("another partition's") && !next.contains("makes it anew"),
            "{row:#}"
        );
    }
}
