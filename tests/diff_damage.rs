//! `diff` of replicas that are damaged: what is told, what a follower does about it, and that no
//! advice drops the only copy of anything.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;
#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;
#[path = "common/replicas.rs"]
mod replicas;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use common::partitions::{broker_fixtures, partitions_below};
use kseg::format::record_batch_builder::BatchSettings;
use program::run;
use replicas::{TestBatch, abort, batch, pair, transactional};
use serde_json::{Value, json};

/// Four records to a batch, up to `end`, in a leader epoch.
fn batches(from: i64, end: i64, epoch: i32, value: &str) -> Vec<TestBatch> {
    let settings = BatchSettings {
        partition_leader_epoch: epoch,
        ..BatchSettings::default()
    };
    (from..end)
        .step_by(4)
        .map(|offset| batch(settings, offset, 4, value))
        .collect()
}

/// The `.log` files of a side, by base offset.
fn logs(folder: &Path, side: &str) -> Vec<PathBuf> {
    let dir = folder.join(side).join("orders-0");
    let mut logs: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "log"))
        .collect();
    logs.sort();
    logs
}

/// Changes the bytes of a file as if long ago: what was written just now is looked at again.
fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH).unwrap();
}

/// Where the batch that begins at `offset` lies.
fn find(folder: &Path, side: &str, offset: i64) -> (PathBuf, usize, usize) {
    for log in logs(folder, side) {
        let bytes = fs::read(&log).unwrap();
        let mut at = 0;
        while at + 12 <= bytes.len() {
            let base = i64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
            let size = i32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
            let size = 12 + usize::try_from(size).unwrap();
            if base == offset {
                return (log, at, size);
            }
            at += size;
        }
    }
    panic!("no batch at {offset}");
}

/// Flips a byte of the records of a batch; the checksum stays.
fn spoil(folder: &Path, side: &str, offset: i64) {
    let (log, at, size) = find(folder, side, offset);
    change(&log, |bytes| bytes[at + size - 2] ^= 1);
}

/// Makes the checksum of a batch right again after a change to what it covers.
fn reseal(folder: &Path, side: &str, offset: i64, with: impl FnOnce(&mut [u8])) {
    let (log, at, size) = find(folder, side, offset);
    change(&log, |bytes| {
        let batch = &mut bytes[at..at + size];
        with(batch);
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    });
}

/// Runs `diff` on the two sides: exit status and the row.
fn diff(folder: &Path) -> (i32, Value) {
    let done = run(folder, ["diff", "-o", "ndjson", "a/orders-0", "b/orders-0"]);
    (done.status, serde_json::from_str(&done.stdout).unwrap())
}

/// The commands in what `diff` says to do next, and whether something is to be removed.
fn advice(folder: &Path) -> (Vec<Vec<String>>, Option<usize>) {
    let done = run(folder, ["diff", "a/orders-0", "b/orders-0"]);
    let (_, next) = done.stdout.split_once("next: ").unwrap();
    let lines: Vec<&str> = next.lines().map(str::trim).collect();
    let is_command = |line: &&str| line.starts_with("kseg dump");
    let words = |line: &str| line.split(' ').skip(1).map(str::to_owned).collect();
    let commands = lines.iter().copied().filter(is_command).map(words);
    let removes = lines.iter().position(|line| line.contains("and remove"));
    let first = lines.iter().position(is_command);
    if let (Some(removes), Some(first)) = (removes, first) {
        assert!(first < removes, "saved first: {}", done.stdout);
    }
    (commands.collect(), removes)
}

/// Offsets of the records that a command prints.
fn printed(folder: &Path, command: &[String]) -> Vec<i64> {
    let mut arguments = vec!["-o".to_owned(), "ndjson".to_owned()];
    arguments.extend(command.iter().skip(1).cloned());
    arguments.insert(0, command[0].clone());
    let done = run(folder, arguments);
    let rows = done.stdout.lines();
    let rows = rows.map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["type"] == "record")
        .map(|row| row["offset"].as_i64().unwrap())
        .collect()
}

#[test]
fn the_only_copy_of_records_is_saved_before_it_is_dropped() {
    // The right side is damaged at 20 and has 80 to 119 alone.
    let right = batches(0, 120, 0, "v");
    let folder = pair(&right[..20], &right, (1, 1));
    spoil(folder.path(), "b", 20);
    let (status, row) = diff(folder.path());
    assert_eq!(status, 1);
    assert_eq!(row["onlyInRight"]["readableRecords"], 40);
    let (commands, removes) = advice(folder.path());
    assert!(removes.is_some());
    let [command] = &commands[..] else {
        panic!("{commands:?}");
    };
    let printed = printed(folder.path(), command);
    assert!(
        (80..120).all(|offset| printed.contains(&offset)),
        "{printed:?}"
    );
}

#[test]
fn a_damaged_side_without_a_record_of_its_own_is_fetched_anew() {
    let log = batches(0, 80, 0, "v");
    let folder = pair(&log, &log, (1, 1));
    spoil(folder.path(), "b", 20);
    let (commands, removes) = advice(folder.path());
    assert!(removes.is_some());
    assert_eq!(commands.len(), 0);
}

#[test]
fn a_torn_tail_does_not_tell_which_of_two_batches_is_right() {
    let (left, mut right) = (batches(0, 80, 0, "v"), batches(0, 80, 0, "v"));
    right[5].records[0].1 = "w".to_owned();
    let folder = pair(&left, &right, (1, 1));
    let last = logs(folder.path(), "b").pop().unwrap();
    change(&last, |bytes| bytes.extend_from_within(..30));
    let (commands, removes) = advice(folder.path());
    assert_eq!(removes, None);
    assert_eq!(commands.len(), 2);
    for command in &commands {
        assert!(printed(folder.path(), command).contains(&20));
    }
}

#[test]
fn what_two_leaders_wrote_is_printed_whole() {
    // Neither side has a high watermark above 40, and a transaction is open: `read` stops there.
    let common = batches(0, 40, 0, "v");
    let fork = |epoch, end| {
        let settings = BatchSettings {
            partition_leader_epoch: epoch,
            ..transactional(7, 0)
        };
        let mut log = common.clone();
        log.extend((40..end).step_by(4).map(|at| {
            let settings = BatchSettings {
                base_sequence: i32::try_from(at - 40).unwrap(),
                ..settings
            };
            batch(settings, at, 4, "fork")
        }));
        log
    };
    let folder = pair(&fork(1, 60), &fork(2, 52), (1, 1));
    for side in ["a", "b"] {
        let path = folder
            .path()
            .join(side)
            .join("replication-offset-checkpoint");
        fs::write(path, "0\n1\norders 0 40\n").unwrap();
    }
    let (commands, _) = advice(folder.path());
    let printed: Vec<Vec<i64>> = commands
        .iter()
        .map(|command| printed(folder.path(), command))
        .collect();
    let wanted: [Vec<i64>; 2] = [(40..60).collect(), (40..52).collect()];
    assert_eq!(printed, wanted);
}

/// A follower refuses a batch whose checksum is wrong, and fetches it again for ever
/// (`AbstractFetcherThread.processFetchRequest`).
#[test]
fn a_follower_stops_at_a_damaged_batch_in_the_tail() {
    let log = batches(0, 120, 0, "v");
    let folder = pair(&log, &log[..20], (1, 1));
    spoil(folder.path(), "a", 100);
    let (_, row) = diff(folder.path());
    assert_eq!(row["kind"], "missing-tail");
    assert_eq!(row["ifLeftLeads"]["stopsAtOffset"], 100);
    assert_eq!(row["ifRightLeads"]["stopsAtOffset"], Value::Null);
    let (commands, _) = advice(folder.path());
    let printed = printed(folder.path(), &commands[0]);
    assert!((80..100).chain(104..120).all(|it| printed.contains(&it)));
}

/// Both sides, changed alike.
fn alike(log: &[TestBatch], damage: impl Fn(&Path, &str)) -> (i32, Value) {
    let folder = pair(log, log, (1, 1));
    for side in ["a", "b"] {
        damage(folder.path(), side);
    }
    let (status, row) = diff(folder.path());
    assert_eq!(row["equal"], true, "{row:#}");
    (status, row)
}

#[test]
fn a_segment_that_both_lack_is_told() {
    let mut gone = (0, 0);
    let log = batches(0, 80, 0, "v");
    let folder = pair(&log, &log, (1, 1));
    for side in ["a", "b"] {
        let logs = logs(folder.path(), side);
        let base =
            |log: &Path| -> i64 { log.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
        gone = (base(&logs[1]), base(&logs[2]) - 1);
        for kind in ["log", "index", "timeindex", "snapshot"] {
            let _ = fs::remove_file(logs[1].with_extension(kind));
        }
    }
    let (status, row) = diff(folder.path());
    assert_eq!(status, 1);
    let wanted = json!([{"firstOffset": gone.0, "lastOffset": gone.1}]);
    assert_eq!(row["bothMissing"], wanted);
}

#[test]
fn offsets_that_go_back_on_both_sides_are_told() {
    let log = batches(0, 16, 0, "v");
    let (status, row) = alike(&log, |folder, side| {
        let (path, at, size) = find(folder, side, 12);
        change(&path, |bytes| bytes.extend_from_within(at..at + size));
    });
    assert_eq!(status, 1);
    assert_eq!(
        row["bothCorrupt"][0]["left"]["kind"],
        "offsets-not-increasing"
    );
    assert_eq!(row["bothCorrupt"][0]["left"]["baseOffset"], 12);
}

/// On one side alone it is no compaction: the cleaner puts no batch there twice.
#[test]
fn a_batch_that_is_there_twice_is_damage_of_its_side() {
    let log = batches(0, 16, 0, "v");
    let folder = pair(&log, &log, (1, 1));
    let (path, at, size) = find(folder.path(), "b", 12);
    change(&path, |bytes| bytes.extend_from_within(at..at + size));
    let (_, row) = diff(folder.path());
    assert_eq!(row["kind"], "other-bytes");
    assert_eq!(row["damagedRight"][0]["kind"], "offsets-not-increasing");
    assert_eq!(row["onlyInRight"]["readableRecords"], 0);
}

#[test]
fn a_partition_that_neither_broker_loads_is_told() {
    let log = batches(0, 16, 0, "v");
    let (status, row) = alike(&log, |folder, side| {
        let path = folder.join(side).join("orders-0/leader-epoch-checkpoint");
        fs::write(path, "0\n5\n0 0\n").unwrap();
    });
    assert_eq!(status, 1);
    assert_eq!(row["sideFiles"].as_array().unwrap().len(), 2);
    assert_eq!(
        row["sideFiles"][0]["kind"],
        "leader-epoch-checkpoint-unreadable"
    );
    assert_eq!(row["sideFiles"][0]["isOnBothSides"], true);
}

/// The checksum is right, so replicas take the batch; no consumer reads it.
#[test]
fn records_that_neither_side_can_read_are_told() {
    let log = batches(0, 16, 0, "v");
    let (status, row) = alike(&log, |folder, side| {
        // The first record claims to be longer than the batch.
        reseal(folder, side, 8, |batch| batch[61] = 0x7e);
    });
    assert_eq!(status, 1);
    assert_eq!(row["bothCorrupt"][0]["left"]["kind"], "bad-records");
    assert_eq!(row["bothCorrupt"][0]["left"]["baseOffset"], 8);
}

#[test]
fn snapshots_that_neither_side_can_read_are_told() {
    let log = batches(0, 80, 0, "v");
    let (status, row) = alike(&log, |folder, side| {
        let snapshot = logs(folder, side)[1].with_extension("snapshot");
        fs::write(snapshot, b"no snapshot").unwrap();
    });
    assert_eq!(status, 1);
    assert_eq!(row["sideFiles"][0]["kind"], "snapshot-unreadable");
    assert_eq!(row["sideFiles"][0]["isOnBothSides"], true);
}

#[test]
fn aborted_transactions_that_neither_index_has_are_told() {
    let log = [
        batch(transactional(1, 0), 0, 2, "a"),
        abort(1, 2),
        batch(transactional(2, 0), 3, 1, "b"),
    ];
    let (status, row) = alike(&log, |folder, side| {
        fs::remove_file(logs(folder, side)[0].with_extension("txnindex")).unwrap();
    });
    assert_eq!(status, 1);
    let told = &row["sideFiles"][0];
    assert_eq!(told["kind"], "txnindex-row-missing");
    assert_eq!(
        (&told["firstOffset"], &told["count"]),
        (&json!(2), &json!(1))
    );
}

/// Retention leaves one side an empty log at the end of the other: nothing to agree on.
#[test]
fn a_log_that_retention_has_emptied_agrees() {
    let log = batches(0, 16, 2, "v");
    let folder = pair(&log, &log, (1, 1));
    empty_at(folder.path(), "a", 16);
    let (status, row) = diff(folder.path());
    assert_eq!((status, &row["kind"]), (0, &Value::Null), "{row:#}");
}

/// Leaves a side an empty log that begins at an offset.
fn empty_at(folder: &Path, side: &str, offset: i64) {
    let dir = folder.join(side).join("orders-0");
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir_all(&dir).unwrap();
    File::create(dir.join(format!("{offset:020}.log"))).unwrap();
    fs::write(
        dir.join("leader-epoch-checkpoint"),
        format!("0\n1\n2 {offset}\n"),
    )
    .unwrap();
    fs::write(
        folder.join(side).join("log-start-offset-checkpoint"),
        format!("0\n1\norders 0 {offset}\n"),
    )
    .unwrap();
}

/// A leader that starts behind the follower's end makes it begin anew
/// (`AbstractFetcherThread.fetchOffsetAndTruncate`).
#[test]
fn logs_with_nothing_in_common_lose_records_to_each_other() {
    let log = batches(0, 16, 2, "v");
    let folder = pair(&log, &log, (1, 1));
    empty_at(folder.path(), "a", 20);
    let (status, row) = diff(folder.path());
    assert_eq!(status, 1);
    assert_eq!(row["kind"], "missing-tail");
    assert_eq!(row["ifLeftLeads"]["isFull"], true);
    assert_eq!(row["ifLeftLeads"]["truncateToOffset"], 20);
    assert_eq!(row["ifLeftLeads"]["offsetsLost"], 16);
    let (commands, _) = advice(folder.path());
    let printed = printed(folder.path(), &commands[0]);
    assert_eq!(printed, (0..16).collect::<Vec<i64>>());
}

/// After a clean stop a broker makes no leader epoch out of the batches (`LogLoader.load`), so a
/// file that is not there says what an empty one says.
#[test]
fn a_missing_leader_epoch_checkpoint_is_an_empty_one() {
    let mut right = batches(0, 40, 0, "v");
    right.extend(batches(40, 48, 1, "right"));
    let mut left = batches(0, 40, 0, "v");
    left.extend(batches(40, 60, 2, "left"));
    let folder = pair(&left, &right, (1, 1));
    fs::write(
        folder.path().join("b/replication-offset-checkpoint"),
        "0\n1\norders 0 44\n",
    )
    .unwrap();
    let file = folder.path().join("b/orders-0/leader-epoch-checkpoint");
    fs::write(&file, "0\n0\n").unwrap();
    let (_, empty) = diff(folder.path());
    fs::remove_file(&file).unwrap();
    let (_, missing) = diff(folder.path());
    for side in ["ifLeftLeads", "ifRightLeads"] {
        assert_eq!(empty[side], missing[side]);
    }
    // To the high watermark.
    assert_eq!(missing["ifLeftLeads"]["truncateToOffset"], 44);
    assert_eq!(missing["ifLeftLeads"]["offsetsLost"], 4);
}

/// A batch goes as a whole (`LogSegment.truncateTo`), though the log then ends inside it.
#[test]
fn a_cut_inside_a_batch_costs_all_of_it() {
    let log = batches(0, 40, 0, "v");
    let folder = pair(&log[..5], &log, (1, 1));
    fs::write(
        folder.path().join("b/replication-offset-checkpoint"),
        "0\n1\norders 0 34\n",
    )
    .unwrap();
    for side in ["a", "b"] {
        let path = folder
            .path()
            .join(side)
            .join("orders-0/leader-epoch-checkpoint");
        fs::write(path, "0\n0\n").unwrap();
    }
    let (_, row) = diff(folder.path());
    // To the high watermark 34, inside 32..35, and then to the leader's end.
    assert_eq!(row["ifLeftLeads"]["steps"], json!([34]));
    assert_eq!(row["ifLeftLeads"]["truncateToOffset"], 20);
    let longer = batches(0, 60, 0, "v");
    let folder = pair(&longer, &log, (1, 1));
    for (side, offset) in [("a", 60), ("b", 34)] {
        let dir = folder.path().join(side);
        fs::write(
            dir.join("replication-offset-checkpoint"),
            format!("0\n1\norders 0 {offset}\n"),
        )
        .unwrap();
        fs::write(dir.join("orders-0/leader-epoch-checkpoint"), "0\n0\n").unwrap();
    }
    let (_, row) = diff(folder.path());
    assert_eq!(row["ifLeftLeads"]["truncateToOffset"], 34);
    assert_eq!(row["ifLeftLeads"]["offsetsLost"], 8);
}

/// No codec and no cleaner changes the largest timestamp of a header.
#[test]
fn another_max_timestamp_is_no_other_split() {
    let log = batches(0, 16, 0, "v");
    let folder = pair(&log, &log, (1, 1));
    reseal(folder.path(), "b", 8, |batch| batch[42] ^= 1);
    let (_, row) = diff(folder.path());
    assert_eq!(row["kind"], "other-bytes");
    assert_eq!(row["firstDivergentOffset"], 8);
}

/// `DeleteRecords` moves the log start into a batch: what lies below it is compared no more.
#[test]
fn a_batch_across_the_log_start_counts_from_there() {
    let (left, mut right) = (batches(0, 16, 0, "v"), batches(0, 16, 0, "v"));
    right[1].records[3].1 = "w".to_owned();
    let folder = pair(&left, &right, (1, 1));
    for side in ["a", "b"] {
        let path = folder.path().join(side).join("log-start-offset-checkpoint");
        fs::write(path, "0\n1\norders 0 6\n").unwrap();
    }
    let (_, row) = diff(folder.path());
    assert_eq!(row["kind"], "other-bytes");
    assert_eq!(row["onlyInLeft"]["records"], 2);
    assert_eq!(row["onlyInRight"]["records"], 2);
}

/// A wrapper of magic 0 or 1 does not say how many messages it has.
#[test]
fn messages_in_wrappers_are_counted() {
    let mut compared = 0;
    for left in broker_fixtures()
        .iter()
        .flat_map(|fixture| partitions_below(&fixture.join("data")))
    {
        let name = left.file_name().unwrap().to_str().unwrap().to_owned();
        if !(name.starts_with("magic0-") || name.starts_with("magic1-")) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (
            folder.path().join("a/orders-0"),
            folder.path().join("b/orders-0"),
        );
        folders::copy(&left, &a);
        folders::copy(&left, &b);
        let log = logs(folder.path(), "b").pop().unwrap();
        let bytes = fs::read(&log).unwrap();
        // All but the first entry.
        let size = i32::from_be_bytes(bytes[8..12].try_into().unwrap());
        change(&log, |bytes| {
            bytes.truncate(12 + usize::try_from(size).unwrap())
        });
        let (_, row) = diff(folder.path());
        if row["kind"] != "missing-tail" {
            continue;
        }
        let from = row["rightLogEndOffset"].as_i64().unwrap();
        let dump: Vec<String> = [
            "dump",
            "--records",
            "--from-offset",
            &from.to_string(),
            "a/orders-0",
        ]
        .map(str::to_owned)
        .to_vec();
        let records = printed(folder.path(), &dump).len();
        assert_eq!(row["onlyInLeft"]["records"], records, "{name}");
        compared += 1;
    }
    assert!(compared > 0);
}
