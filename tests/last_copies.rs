//! Segments that a start deletes: which of their records nothing else has, and which a cleaner took
//! out.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};
use recover_run::{Run, copy_of, recover};
use segments::{batches_of, fixtures};
use serde_json::Value;
use tempfile::TempDir;

const FILES: [&str; 5] = ["log", "index", "timeindex", "txnindex", "snapshot"];

fn path(partition: &Path, base: i64, extension: &str) -> PathBuf {
    partition.join(format!("{base:020}.{extension}"))
}

/// Gives what is there of a segment the suffix.
fn set_aside(partition: &Path, base: i64, extensions: &[&str], suffix: &str) {
    for extension in extensions {
        let file = path(partition, base, extension);
        if file.exists() {
            let to = path(partition, base, &format!("{extension}{suffix}"));
            fs::rename(file, to).unwrap();
        }
    }
}

/// The row of the start that the directory would get.
fn due(run: &Run) -> &Value {
    let due = run.rows.iter().find(|row| row["applies"] == true);
    due.unwrap_or_else(|| panic!("{}", run.table))
}

/// What `verify` or `gaps` finds lost.
fn missing(command: &str, partition: &Path) -> Vec<(i64, i64)> {
    let lost = lost_rows(command, partition).into_iter().map(|row| {
        let last = row["lastOffset"].as_i64().unwrap();
        (row["firstOffset"].as_i64().unwrap(), last)
    });
    lost.collect()
}

/// The same as it is printed.
fn lost_rows(command: &str, partition: &Path) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args([command, "-o", "ndjson"])
        .arg(partition)
        .output()
        .unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows = rows
        .lines()
        .map(|row| serde_json::from_str::<Value>(row).unwrap());
    let lost = rows.filter(|row| {
        let is_gap = row["kind"] == "offsetGap" && row["class"] == "segment-missing";
        is_gap || row["kind"] == "segment-missing"
    });
    lost.collect()
}

/// Offsets of the records of a fixture's partition that are the last of their key among what a
/// read_committed consumer of the broker got, from `first` up to below `end`.
fn last_of_key(fixture: &str, partition: &str, first: i64, end: i64) -> Vec<i64> {
    let answer = fixtures().join(format!("{fixture}/expected/{partition}.json"));
    let answer: Value = serde_json::from_slice(&fs::read(answer).unwrap()).unwrap();
    let committed = answer["readCommittedOffsets"].as_array().unwrap();
    let is_committed = |offset: i64| {
        let mut ranges = committed.iter();
        ranges.any(|it| (it[0].as_i64().unwrap()..=it[1].as_i64().unwrap()).contains(&offset))
    };
    let mut last: HashMap<String, (i64, bool)> = HashMap::new();
    for record in answer["readUncommittedRecords"].as_array().unwrap() {
        let offset = record["offset"].as_i64().unwrap();
        if is_committed(offset) {
            let is_value = !record["value"].is_null();
            last.insert(record["key"].to_string(), (offset, is_value));
        }
    }
    let kept = last.into_values().filter(|(_, is_value)| *is_value);
    let mut offsets: Vec<i64> = kept.map(|(offset, _)| offset).collect();
    offsets.retain(|offset| (first..end).contains(offset));
    offsets.sort_unstable();
    offsets
}

/// A segment in the middle is gone as after a compaction, but for the records that one keeps.
#[test]
fn the_last_records_of_their_keys_are_lost() {
    for (name, base, next) in [("compact-keep-0", 290, 366), ("compact-drop-0", 283, 360)] {
        let lost = last_of_key("s05-compacted", name, base, next);
        let (first, last) = (lost[0], *lost.last().unwrap());
        let data = copy_of("s05-compacted/data");
        let partition = data.path().join(name);
        set_aside(&partition, base, &FILES, ".deleted");
        let run = recover(&[partition.as_os_str()]);
        assert_eq!(run.status, Some(1), "{}", run.table);
        for row in &run.rows {
            assert_eq!(row["losesData"], true, "{}", run.table);
            let losses = &row["losses"];
            assert_eq!(losses["records"], lost.len(), "{losses:#}");
            assert_eq!(losses["firstOffset"], first, "{losses:#}");
            assert_eq!(losses["lastOffset"], last, "{losses:#}");
            assert_eq!(row["gone"]["offsets"], 0, "{}", run.table);
        }
        let says = format!(
            "{base:020}.log.deleted is the last copy here of {} records in {first}..{last}, whose \
             keys no later record has",
            lost.len()
        );
        assert!(run.table.contains(&says), "{}", run.table);
        assert_eq!(missing("verify", &partition), [(first, last)]);
        assert_eq!(missing("gaps", &partition), [(first, last)]);
        let in_gaps = &lost_rows("gaps", &partition)[0];
        assert_eq!(in_gaps["records"], lost.len(), "{in_gaps:#}");
        let in_verify = &lost_rows("verify", &partition)[0];
        assert_eq!(in_verify["cost"]["records"], lost.len(), "{in_verify:#}");
        // As it was.
        set_aside(&partition, base, &[], "");
        for extension in FILES {
            let deleted = path(&partition, base, &format!("{extension}.deleted"));
            if deleted.exists() {
                fs::rename(deleted, path(&partition, base, extension)).unwrap();
            }
        }
        assert_eq!(recover(&[partition.as_os_str()]).status, Some(0));
    }
}

/// What lies between the end of a segment and the next one that a broker made was compacted away,
/// whatever became of the next one.
#[test]
fn what_was_compacted_away_in_front_of_a_segment_is_not_lost_with_it() {
    for (name, base, next) in [("compact-keep-0", 290, 366), ("compact-drop-0", 283, 360)] {
        for suffix in [None, Some(".deleted")] {
            let data = copy_of("s05-compacted/data");
            let partition = data.path().join(name);
            match suffix {
                None => fs::remove_file(path(&partition, base, "log")).unwrap(),
                Some(suffix) => set_aside(&partition, base, &["log"], suffix),
            }
            let run = recover(&[partition.as_os_str()]);
            assert_eq!(run.status, Some(1), "{}", run.table);
            let row = due(&run);
            let told = match suffix {
                None => [&row["gone"]["firstOffset"], &row["gone"]["lastOffset"]],
                Some(_) => [&row["losses"]["firstOffset"], &row["losses"]["lastOffset"]],
            };
            assert_eq!(told, [base, next - 1], "{}", run.table);
            let gone = &row["gone"]["offsets"];
            assert_eq!(*gone == 0, suffix.is_some(), "{}", run.table);
            assert_eq!(missing("verify", &partition), [(base, next - 1)]);
            assert_eq!(missing("gaps", &partition), [(base, next - 1)]);
        }
    }
}

/// A hole is told in parts, each by the file that has it.
#[test]
fn what_is_set_aside_is_told_by_its_file() {
    let data = copy_of("s14-replicas/data");
    let partition = data.path().join("rep-0");
    set_aside(&partition, 66, &FILES, ".deleted");
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["gaps", "-o", "ndjson"])
        .arg(&partition)
        .output()
        .unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let mut rows = rows
        .lines()
        .map(|row| serde_json::from_str::<Value>(row).unwrap());
    let row = rows.find(|row| row["kind"] == "offsetGap" && row["class"] == "segment-missing");
    let row = row.unwrap();
    assert_eq!([&row["firstOffset"], &row["lastOffset"]], [66, 135]);
    assert_eq!(row["toldBy"], "00000000000000000066.log.deleted");
}

/// A segment that is gone behind a `.swap`, of which only its snapshot tells, or nothing.
#[test]
fn a_swap_of_a_compacted_log_hides_no_segment_that_is_gone() {
    for (keeps_snapshot, lost) in [(true, &[(290, 365)][..]), (false, &[])] {
        for cut in [false, true] {
            let data = copy_of("s05-compacted/data");
            let partition = data.path().join("compact-keep-0");
            for extension in ["log", "index", "timeindex"] {
                let bytes = fs::read(path(&partition, 0, extension)).unwrap();
                let swap = path(&partition, 0, &format!("{extension}.swap"));
                let end = if cut && extension == "log" {
                    bytes.len() / 2
                } else {
                    bytes.len()
                };
                fs::write(swap, &bytes[..end]).unwrap();
                fs::remove_file(path(&partition, 290, extension)).unwrap();
            }
            if !keeps_snapshot {
                fs::remove_file(path(&partition, 290, "snapshot")).unwrap();
            }
            assert_eq!(missing("gaps", &partition), lost);
            let run = recover(&[partition.as_os_str()]);
            let ranges = due(&run)["gone"]["ranges"].as_array().unwrap();
            let gone = ranges.iter().map(|it| {
                let last = it["lastOffset"].as_i64().unwrap();
                (it["firstOffset"].as_i64().unwrap(), last)
            });
            assert_eq!(gone.collect::<Vec<_>>(), lost, "{}", run.table);
            // Behind damage the offsets are told with it.
            if !cut {
                assert_eq!(missing("verify", &partition), lost);
            }
        }
    }
}

/// No cleaner removes a segment before what it has copied is in place: all of it is lost.
#[test]
fn a_copy_that_a_cleaner_had_not_finished_goes_whole() {
    let data = copy_of("s05-compacted/data");
    let partition = data.path().join("compact-drop-0");
    let batches = batches(&fs::read(path(&partition, 283, "log")).unwrap());
    let records: i64 = batches.iter().map(|(_, _, records)| records).sum();
    set_aside(&partition, 283, &FILES, ".cleaned");
    let run = recover(&[partition.as_os_str()]);
    let losses = &due(&run)["losses"];
    assert_eq!(losses["records"], records, "{losses:#}");
    let span = [(283, 359)];
    assert_eq!(losses["firstOffset"], span[0].0, "{losses:#}");
    assert_eq!(losses["lastOffset"], span[0].1, "{losses:#}");
    assert_eq!(missing("verify", &partition), span);
    assert_eq!(missing("gaps", &partition), span);
}

/// First and last offset, and records, of the batches of a `.log`.
fn batches(log: &[u8]) -> Vec<(i64, i64, i64)> {
    let number = |at: usize, of: &[u8]| i32::from_be_bytes(of[at..at + 4].try_into().unwrap());
    let of = |(at, size): (usize, usize)| {
        let batch = &log[at..at + size];
        let base = i64::from_be_bytes(batch[..8].try_into().unwrap());
        let last = base + i64::from(number(23, batch));
        (base, last, i64::from(number(57, batch)))
    };
    batches_of(log).into_iter().map(of).collect()
}

/// A cleaner leaves a segment at the front, and never takes the last one.
#[test]
fn the_first_and_the_last_segment_go_whole() {
    for (name, base) in [
        ("compact-keep-0", 0),
        ("compact-drop-0", 0),
        ("compact-keep-0", 366),
        ("compact-drop-0", 360),
    ] {
        let data = copy_of("s05-compacted/data");
        let partition = data.path().join(name);
        let batches = batches(&fs::read(path(&partition, base, "log")).unwrap());
        let records: i64 = batches.iter().map(|(_, _, records)| records).sum();
        set_aside(&partition, base, &FILES, ".deleted");
        let run = recover(&[partition.as_os_str()]);
        assert_eq!(run.status, Some(1), "{}", run.table);
        let row = due(&run);
        assert_eq!(row["losesData"], true, "{}", run.table);
        assert_eq!(row["losses"]["records"], records, "{}", run.table);
        assert_eq!(row["losses"]["firstOffset"], batches[0].0);
        assert_eq!(row["losses"]["lastOffset"], batches.last().unwrap().1);
        assert_eq!(row["gone"]["offsets"], 0, "{}", run.table);
        let found = missing("verify", &partition);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].0 <= batches[0].0, "{found:?}");
    }
}

/// A `.swap` takes the place of the segments in its own range; the one behind was removed by hand.
#[test]
fn a_swap_in_front_hides_no_segment_that_is_gone() {
    for suffix in [None, Some(".deleted")] {
        let data = copy_of("s02-txn-tv2/data");
        let partition = data.path().join("tx-1");
        for extension in ["log", "index", "timeindex", "txnindex"] {
            let swap = path(&partition, 0, &format!("{extension}.swap"));
            fs::copy(path(&partition, 0, extension), swap).unwrap();
            match suffix {
                None => fs::remove_file(path(&partition, 89, extension)).unwrap(),
                Some(suffix) => set_aside(&partition, 89, &[extension], suffix),
            }
        }
        assert_eq!(missing("verify", &partition), [(89, 164)]);
        assert_eq!(missing("gaps", &partition), [(89, 164)]);
        let run = recover(&[partition.as_os_str()]);
        assert_eq!(run.status, Some(1), "{}", run.table);
        let row = due(&run);
        let told = match suffix {
            None => [&row["gone"]["firstOffset"], &row["gone"]["lastOffset"]],
            Some(_) => [&row["losses"]["firstOffset"], &row["losses"]["lastOffset"]],
        };
        assert_eq!(told, [89, 164], "{}", run.table);
    }
}

/// Puts a segment that Kafka's cleaner has made of the first two into place, as a broker does.
fn cleaned() -> (TempDir, PathBuf) {
    let data = copy_of("incidents/interrupted-cleaner/data");
    let partition = data.path().join("state-0");
    set_aside(&partition, 0, &["log", "index", "timeindex"], ".deleted");
    set_aside(&partition, 12, &FILES, ".deleted");
    for extension in ["log", "index", "timeindex"] {
        let cleaned = path(&partition, 0, &format!("{extension}.cleaned"));
        fs::rename(cleaned, path(&partition, 0, extension)).unwrap();
    }
    (data, partition)
}

/// A broker keeps what a cleaner has replaced for a minute.
#[test]
fn what_a_cleaner_has_replaced_is_no_loss() {
    let (_once, just_cleaned) = cleaned();
    // Cleaned for the third time: a tombstone and a marker are gone from the second one.
    let again = copy_of("incidents/compacted-again/data");
    let cleaned_again = again.path().join("state-0");
    let once = fixtures().join("incidents/compacted-once/data/state-0");
    for extension in ["log", "index", "timeindex", "txnindex"] {
        let to = path(&cleaned_again, 0, &format!("{extension}.deleted"));
        fs::copy(path(&once, 0, extension), to).unwrap();
    }
    for partition in [just_cleaned, cleaned_again] {
        let run = recover(&[partition.as_os_str()]);
        assert_eq!(run.status, Some(0), "{}", run.table);
        for row in &run.rows {
            assert_eq!(row["losesData"], false, "{}", run.table);
            assert_eq!(row["gone"]["offsets"], 0, "{}", run.table);
        }
        assert_eq!(missing("verify", &partition), []);
        assert_eq!(missing("gaps", &partition), []);
    }
}

/// What the cleaner made is damaged or gone, and what it was made of is here still.
#[test]
fn what_is_damaged_in_a_cleaned_segment_is_in_the_one_it_was_made_of() {
    let (_data, partition) = cleaned();
    let log = fs::read(path(&partition, 0, "log")).unwrap();
    let of_log = batches(&log);
    let (first, last, _) = *of_log
        .iter()
        .rev()
        .find(|(_, _, records)| *records > 0)
        .unwrap();
    let mut flipped = log.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(path(&partition, 0, "log"), flipped).unwrap();
    let run = recover(&[partition.as_os_str()]);
    assert_eq!(run.status, Some(1), "{}", run.table);
    let clean = run.rows.iter().find(|row| row["start"] == "clean").unwrap();
    assert_eq!(clean["losses"]["lastOffset"], last, "{}", run.table);
    assert_eq!(clean["losses"]["firstOffset"], first, "{}", run.table);
    let copy = "00000000000000000012.log.deleted is the last copy here of offsets";
    assert!(run.table.contains(copy), "{}", run.table);

    // Without it the first one begins in front of all that is in use.
    for extension in ["log", "index", "timeindex"] {
        fs::remove_file(path(&partition, 0, extension)).unwrap();
    }
    let run = recover(&[partition.as_os_str()]);
    assert_eq!(run.status, Some(1), "{}", run.table);
    for row in &run.rows {
        assert_eq!(row["losses"]["firstOffset"], 0, "{}", run.table);
        assert_eq!(row["losses"]["lastOffset"], 20, "{}", run.table);
    }
}

/// The log that a start makes has the name of one that is here under another, and is empty.
#[test]
fn a_log_that_is_made_anew_has_nothing() {
    let data = copy_of("s07j-deleted-segment/undamaged");
    let partition = data.path().join("dmg-0");
    for base in [0, 47, 100] {
        set_aside(&partition, base, &["log"], ".deleted");
        // The same batches once more are lost once.
        let deleted = path(&partition, base, "log.deleted");
        fs::copy(deleted, path(&partition, base, "log.cleaned")).unwrap();
    }
    let run = recover(&[partition.as_os_str()]);
    assert_eq!(run.status, Some(1), "{}", run.table);
    for row in &run.rows {
        assert_eq!(row["losses"]["records"], 116, "{}", run.table);
        assert_eq!(row["losses"]["firstOffset"], 0, "{}", run.table);
        assert_eq!(row["losses"]["lastOffset"], 115, "{}", run.table);
    }
}

/// The records of a batch: key and value.
type Records<'a> = &'a [(&'a str, Option<&'a str>)];

/// A batch, of an aborted transaction of producer 7 or of no producer.
fn batch(base_offset: i64, is_aborted: bool, records: Records<'_>) -> Vec<u8> {
    let mut settings = BatchSettings {
        base_offset,
        partition_leader_epoch: 0,
        ..BatchSettings::default()
    };
    if is_aborted {
        settings.producer_id = 7;
        settings.producer_epoch = 0;
        settings.base_sequence = 0;
        settings.is_transactional = true;
    }
    let mut builder = RecordBatchBuilder::new(settings).unwrap();
    for (key, value) in records {
        let record = SimpleRecord {
            timestamp: 1,
            key: Some(key.as_bytes()),
            value: value.map(str::as_bytes),
            ..SimpleRecord::default()
        };
        builder.append(&record).unwrap();
    }
    let mut bytes = Vec::new();
    builder.build(&mut bytes).unwrap();
    bytes
}

/// `Cleaner.buildOffsetMap` passes over the records of aborted transactions. A cleaner takes these
/// out, tombstones after a while, and records with a later one of their key, be it a tombstone
/// (`Cleaner.shouldRetainRecord`).
#[test]
fn aborted_records_are_no_later_ones_and_tombstones_are() {
    let data = tempfile::tempdir().unwrap();
    let partition = data.path().join("orders-0");
    fs::create_dir(&partition).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(partition.join(name), bytes).unwrap();
    for base in [0, 10, 20] {
        for extension in ["index", "timeindex"] {
            put(&format!("{base:020}.{extension}"), &[]);
        }
    }
    put(
        "00000000000000000000.log",
        &batch(0, false, &[("front", Some("1"))]),
    );
    let middle = [
        batch(10, false, &[("aborted-later", Some("1"))]),
        batch(11, false, &[("deleted-here", Some("1"))]),
        batch(12, false, &[("deleted-here", None)]),
        batch(13, false, &[("deleted-later", Some("1"))]),
        batch(14, false, &[("written-later", Some("1"))]),
        batch(15, false, &[("last", Some("1")), ("last", Some("2"))]),
        batch(17, true, &[("aborted", Some("1"))]),
    ];
    put("00000000000000000010.log", &middle.concat());
    let later = [
        batch(20, true, &[("aborted-later", Some("2"))]),
        batch(21, false, &[("deleted-later", None)]),
        batch(22, false, &[("written-later", Some("2"))]),
    ];
    put("00000000000000000020.log", &later.concat());
    let mut rows = Vec::new();
    for (first, last) in [(17_i64, 18_i64), (20, 23)] {
        rows.extend(0_i16.to_be_bytes());
        for number in [7, first, last, last + 1] {
            rows.extend(number.to_be_bytes());
        }
    }
    put("00000000000000000020.txnindex", &rows[34..]);
    // With the segment that has the marker.
    put("00000000000000000010.txnindex", &rows[..34]);
    put("leader-epoch-checkpoint", b"0\n1\n0 0\n");
    fs::write(
        data.path().join("cleaner-offset-checkpoint"),
        "0\n1\norders 0 20\n",
    )
    .unwrap();
    set_aside(&partition, 10, &FILES, ".deleted");
    let run = recover(&[partition.as_os_str()]);
    for row in &run.rows {
        // `aborted-later` and the second `last`.
        let losses = &row["losses"];
        assert_eq!(losses["records"], 2, "{}", run.table);
        assert_eq!(losses["batches"], 2, "{}", run.table);
        assert_eq!(losses["firstOffset"], 10, "{}", run.table);
        assert_eq!(losses["lastOffset"], 16, "{}", run.table);
    }
    assert_eq!(missing("verify", &partition)[0], (10, 16));
}
