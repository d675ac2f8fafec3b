//! Each invariant broken by hand in a sound directory of a broker: what `verify` says of it, and
//! where.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use folders::copy;
use segments::{batches_of, fixtures, reseal};
use serde_json::Value;
use tempfile::TempDir;

/// A copy of a broker's log directory, after a clean stop.
struct LogDir {
    folder: TempDir,
}

const FIRST: &str = "tx-0/00000000000000000000.log";
const LAST: &str = "tx-0/00000000000000000088.log";

/// What is done to a batch, and to a file.
type EditBatch<'e> = &'e dyn Fn(&mut [u8]);
type EditFile<'e> = &'e dyn Fn(&mut Vec<u8>);

impl LogDir {
    fn of(fixture: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(
            &fixtures().join(fixture).join("data"),
            &folder.path().join("data"),
        );
        Self { folder }
    }

    /// Transactions in two segments: see the fixture's dumps.
    fn transactions() -> Self {
        Self::of("s02-txn-tv2")
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Changes the bytes of a file.
    fn edit(self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = fs::read(self.path(name)).unwrap();
        edit(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    /// Changes one batch and makes its checksum right again.
    fn batch(self, name: &str, index: usize, edit: impl FnOnce(&mut [u8])) -> Self {
        self.edit(name, |bytes| {
            let (position, size) = batches_of(bytes)[index];
            let batch = &mut bytes[position..position + size];
            edit(batch);
            reseal(batch);
        })
    }

    fn write(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    fn remove(self, names: &[&str]) -> Self {
        for name in names {
            fs::remove_file(self.path(name)).unwrap();
        }
        self
    }

    fn verify_with(&self, arguments: &[&str], paths: &[PathBuf]) -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["verify", "-o", "ndjson"])
            .args(arguments)
            .args(paths)
            .output()
            .unwrap();
        let rows: Vec<Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let has_alarm = rows.iter().any(|row| row["severity"] != "notable");
        let status = i32::from(has_alarm);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{said}");
        rows
    }

    fn verify(&self) -> Vec<Value> {
        self.verify_with(&["--deep"], &[self.root()])
    }

    /// The one finding of a kind, which is of this severity.
    #[track_caller]
    fn finds(&self, severity: &str, kind: &str) -> Value {
        let rows = self.verify();
        let found: Vec<&Value> = rows.iter().filter(|row| row["kind"] == kind).collect();
        let [found] = found.as_slice() else {
            panic!("{kind}: {} of {rows:#?}", found.len());
        };
        assert_eq!(found["severity"], severity, "{found:#}");
        (*found).clone()
    }

    /// The one alarm there is.
    #[track_caller]
    fn finds_only(&self, severity: &str, kind: &str) -> Value {
        let alarms: Vec<Value> = self.verify();
        let alarms: Vec<&Value> = alarms
            .iter()
            .filter(|row| row["severity"] != "notable")
            .collect();
        assert_eq!(alarms.len(), 1, "{alarms:#?}");
        self.finds(severity, kind)
    }
}

#[track_caller]
fn assert_at(found: &Value, file: &str, position: u64) {
    let name = file.rsplit('/').next().unwrap();
    assert_eq!(found["file"], name, "{found:#}");
    assert_eq!(found["position"], position, "{found:#}");
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

#[test]
fn the_directory_is_sound() {
    let rows = LogDir::transactions().verify();
    assert!(
        rows.iter().all(|row| row["kind"] == "open-transaction"),
        "{rows:#?}"
    );
}

// `.log`

#[test]
fn bytes_that_are_no_batch() {
    let bad = LogDir::transactions().edit(FIRST, |bytes| bytes[1_081 + 16] = 7);
    assert_at(&bad.finds("corrupt", "unknown-magic"), FIRST, 1081);
    let bad = LogDir::transactions().edit(FIRST, |bytes| put(bytes, 1081 + 8, 9i32.to_be_bytes()));
    assert_at(&bad.finds("corrupt", "bad-length"), FIRST, 1081);
    let past = |bytes: &mut Vec<u8>| put(bytes, 1081 + 8, 1_000_000i32.to_be_bytes());
    let bad = LogDir::transactions().edit(FIRST, past);
    assert_at(&bad.finds("corrupt", "batch-past-end"), FIRST, 1081);
    // After a clean stop nothing may be torn.
    let bad = LogDir::transactions().edit(LAST, |bytes| bytes.truncate(3600));
    assert_at(&bad.finds("corrupt", "torn-tail"), LAST, 3591);
    let bad = LogDir::transactions()
        .remove(&[".kafka_cleanshutdown"])
        .edit(LAST, |bytes| bytes.truncate(3600));
    let found = bad.finds("afterCrash", "torn-tail");
    assert_eq!(found["tornBytes"], 9, "{found:#}");
    let bad = LogDir::transactions().edit(LAST, |bytes| bytes.resize(4000, 0));
    let found = bad.finds_only("corrupt", "zero-tail");
    assert_at(&found, LAST, 3669);
    assert!(
        found["brokerAction"]
            .as_str()
            .unwrap()
            .contains("does not load"),
        "{found:#}"
    );
}

#[test]
fn a_wrong_checksum_is_told_once() {
    let bad = LogDir::transactions().edit(FIRST, |bytes| bytes[2752 + 100] ^= 1);
    let found = bad.finds_only("corrupt", "bad-crc");
    assert_at(&found, FIRST, 2752);
    assert_eq!(found["nextOffset"], 35, "{found:#}");
    assert_eq!(found["cost"]["records"], 7, "{found:#}");
    assert!(
        !bad.verify_with(&["--quick"], &[bad.root()])
            .iter()
            .any(|row| row["kind"] == "bad-crc")
    );
    // An ABORT marker: the entry of the index is right.
    let bad = LogDir::transactions().edit(FIRST, |bytes| bytes[7539 + 70] ^= 1);
    assert_at(&bad.finds_only("corrupt", "bad-crc"), FIRST, 7539);
}

#[test]
fn offsets_outside_the_segment_and_twice() {
    let below = |batch: &mut [u8]| put(batch, 0, 80i64.to_be_bytes());
    let bad = LogDir::transactions().batch(LAST, 0, below);
    assert_at(&bad.finds("corrupt", "offset-below-base"), LAST, 0);
    let above = |batch: &mut [u8]| put(batch, 0, 4_000_000_000i64.to_be_bytes());
    let bad = LogDir::transactions().batch(LAST, 16, above);
    assert_at(&bad.finds("corrupt", "offset-overflow"), LAST, 3591);
    let twice = |bytes: &mut Vec<u8>| {
        let again = bytes[3343..].to_vec();
        bytes.extend(again);
    };
    let bad = LogDir::transactions().edit(LAST, twice);
    let found = bad.finds("corrupt", "offsets-not-increasing");
    assert_at(&found, LAST, 3669);
    assert_eq!(found["content"], "equal", "{found:#}");
    let next = fs::read(LogDir::transactions().path(LAST)).unwrap();
    let bad = LogDir::transactions().edit(FIRST, |bytes| bytes.extend(&next[..401]));
    assert_at(&bad.finds("corrupt", "segment-overlap"), LAST, 0);
}

#[test]
fn a_segment_that_is_gone() {
    let part = "tx-1/00000000000000000089";
    let names = ["log", "index", "timeindex", "txnindex"].map(|it| format!("{part}.{it}"));
    let bad = LogDir::transactions().remove(&names.each_ref().map(String::as_str));
    let found = bad.finds("corrupt", "segment-missing");
    assert_eq!(
        (&found["firstOffset"], &found["lastOffset"]),
        (&89.into(), &164.into())
    );
}

#[test]
fn headers_that_contradict_themselves() {
    let cases: [(&str, EditBatch<'_>); 4] = [
        ("bad-record-count", &|batch| {
            put(batch, 57, 9i32.to_be_bytes())
        }),
        ("bad-producer-fields", &|batch| {
            put(batch, 51, (-1i16).to_be_bytes())
        }),
        ("transaction-without-producer", &|batch| {
            put(batch, 43, (-1i64).to_be_bytes())
        }),
        ("unknown-attributes", &|batch| batch[21] |= 2),
    ];
    for (kind, edit) in cases {
        let bad = LogDir::transactions().batch(FIRST, 3, edit);
        assert_at(&bad.finds("corrupt", kind), FIRST, 798);
    }
    let bad = LogDir::transactions().batch(FIRST, 9, |batch| batch[68] = 9);
    assert_at(&bad.finds("corrupt", "bad-marker"), FIRST, 2513);
    let no_producer = |batch: &mut [u8]| {
        put(batch, 43, (-1i64).to_be_bytes());
        batch[22] &= !0x10;
    };
    let bad = LogDir::transactions().batch(FIRST, 9, no_producer);
    assert_at(&bad.finds("corrupt", "misplaced-control"), FIRST, 2513);
    let bad = LogDir::transactions().batch(LAST, 8, |batch| put(batch, 12, 3i32.to_be_bytes()));
    let found = bad.finds("afterCrash", "leader-epoch-falls");
    assert_at(&found, LAST, 2383);
}

#[test]
fn records_that_do_not_fit_their_batch() {
    // A record's length, then its offset delta.
    let bad = LogDir::transactions().batch(FIRST, 3, |batch| batch[61] ^= 0x40);
    assert_at(&bad.finds("corrupt", "bad-records"), FIRST, 798);
    let bad = LogDir::transactions().batch(FIRST, 2, |batch| batch[65] = 40);
    assert_at(&bad.finds("corrupt", "record-order"), FIRST, 564);
    let later = |batch: &mut [u8]| put(batch, 35, 1_795_965_182_000i64.to_be_bytes());
    let bad = LogDir::transactions().batch(FIRST, 1, later);
    assert_at(&bad.finds("notable", "batch-timestamps"), FIRST, 242);
}

#[test]
fn a_batch_that_stops_a_broker() {
    // Not transactional in the middle of its producer's transaction.
    let bad = LogDir::transactions().batch(FIRST, 4, |batch| batch[22] &= !0x10);
    assert_at(&bad.finds("corrupt", "refused-batch"), FIRST, 1081);
}

// Indexes

const INDEX: &str = "tx-0/00000000000000000000.index";
const TIME_INDEX: &str = "tx-0/00000000000000000000.timeindex";
const TXN_INDEX: &str = "tx-0/00000000000000000000.txnindex";

#[test]
fn offset_indexes_that_do_not_fit() {
    let cases: [(&str, EditFile<'_>); 6] = [
        ("not-a-batch-start", &|bytes| {
            put(bytes, 12, 1082i32.to_be_bytes())
        }),
        ("offset-differs", &|bytes| put(bytes, 8, 9i32.to_be_bytes())),
        ("position-decreases", &|bytes| {
            put(bytes, 12, 500i32.to_be_bytes())
        }),
        ("offset-decreases", &|bytes| {
            put(bytes, 8, 7i32.to_be_bytes())
        }),
        ("entry-zero", &|bytes| put(bytes, 8, [0; 8])),
        ("size-not-a-multiple", &|bytes| bytes.truncate(11)),
    ];
    for (defect, edit) in cases {
        let found = LogDir::transactions()
            .edit(INDEX, edit)
            .finds_only("corrupt", "index-damaged");
        assert_at(&found, INDEX, 8);
        assert_eq!(
            (&found["defect"], &found["entry"]),
            (&defect.into(), &1.into())
        );
    }
    let past = |bytes: &mut Vec<u8>| bytes.extend([0, 0, 0, 87, 0, 0, 0x40, 0]);
    let found = LogDir::transactions()
        .edit(INDEX, past)
        .finds_only("corrupt", "index-damaged");
    assert_eq!(found["defect"], "past-end-of-log", "{found:#}");
    let zeros = |bytes: &mut Vec<u8>| bytes.resize(4096, 0);
    let found = LogDir::transactions()
        .edit(INDEX, zeros)
        .finds_only("corrupt", "index-not-trimmed");
    assert_at(&found, INDEX, 88);
    let found = LogDir::transactions()
        .remove(&[INDEX])
        .finds_only("corrupt", "index-missing");
    assert_eq!(found["file"], "00000000000000000000.index", "{found:#}");
    let found = LogDir::transactions()
        .write("tx-0/00000000000000000007.index", "")
        .verify();
    assert!(
        found.iter().any(|row| row["kind"] == "orphan-index"),
        "{found:#?}"
    );
}

#[test]
fn time_indexes_that_do_not_fit() {
    let cases: [(&str, u64, EditFile<'_>); 4] = [
        ("timestamp-differs", 1, &|bytes| bytes[12 + 7] ^= 1),
        ("offset-decreases", 1, &|bytes| {
            put(bytes, 20, 3i32.to_be_bytes())
        }),
        ("last-timestamp-differs", 8, &|bytes| bytes.truncate(108)),
        ("size-not-a-multiple", 9, &|bytes| bytes.truncate(119)),
    ];
    for (defect, entry, edit) in cases {
        let bad = LogDir::transactions().edit(TIME_INDEX, edit);
        let rows = bad.verify();
        let named = |row: &&Value| row["kind"] == "index-damaged" && row["defect"] == defect;
        let found = rows
            .iter()
            .find(named)
            .unwrap_or_else(|| panic!("{defect}: {rows:#?}"));
        assert_eq!(found["entry"], entry, "{found:#}");
    }
    let bad = LogDir::transactions().write(TIME_INDEX, "");
    assert_eq!(
        bad.finds("notable", "time-index-empty")["severity"],
        "notable"
    );
}

#[test]
fn transaction_indexes_that_do_not_fit() {
    let bad = LogDir::transactions().edit(TXN_INDEX, |bytes| bytes.truncate(34));
    let found = bad.finds_only("corrupt", "txnindex-entry-missing");
    assert_eq!(
        (&found["firstOffset"], &found["lastOffset"]),
        (&77.into(), &86.into())
    );
    let bad = LogDir::transactions().edit(TXN_INDEX, |bytes| bytes.truncate(50));
    bad.finds("corrupt", "txnindex-entry-torn");
    let late = |bytes: &mut Vec<u8>| put(bytes, 10, 70i64.to_be_bytes());
    let bad = LogDir::transactions().edit(TXN_INDEX, late);
    bad.finds_only("corrupt", "txnindex-entry-starts-late");
    let bad = LogDir::transactions().edit(TXN_INDEX, |bytes| bytes[0] = 1);
    bad.finds("corrupt", "txnindex-entry-unreadable");
    let swapped = |bytes: &mut Vec<u8>| bytes.rotate_left(34);
    let bad = LogDir::transactions().edit(TXN_INDEX, swapped);
    assert_at(
        &bad.finds_only("corrupt", "txnindex-disorder"),
        TXN_INDEX,
        34,
    );
    let surplus = |bytes: &mut Vec<u8>| {
        put(bytes, 2, 2i64.to_be_bytes());
        put(bytes, 10, 27i64.to_be_bytes());
        put(bytes, 18, 69i64.to_be_bytes());
    };
    let bad = LogDir::transactions().edit(TXN_INDEX, surplus);
    bad.finds("corrupt", "txnindex-entry-surplus");
    let low = |bytes: &mut Vec<u8>| put(bytes, 34 + 26, 3i64.to_be_bytes());
    let bad = LogDir::transactions().edit(TXN_INDEX, low);
    bad.finds("corrupt", "txnindex-stable-offset");
    // The next transaction of another producer begins at 87, behind the other row's at 98.
    let high = |bytes: &mut Vec<u8>| put(bytes, 34 + 26, 88i64.to_be_bytes());
    let bad = LogDir::transactions().edit(TXN_INDEX, high);
    assert_at(
        &bad.finds_only("corrupt", "txnindex-stable-offset"),
        TXN_INDEX,
        34,
    );
    let of_a_follower = |bytes: &mut Vec<u8>| put(bytes, 26, 98i64.to_be_bytes());
    let sound = LogDir::transactions().edit(TXN_INDEX, of_a_follower);
    let rows = sound.verify();
    assert!(
        rows.iter()
            .all(|row| row["kind"] != "txnindex-stable-offset"),
        "{rows:#?}"
    );
}

// State files

const SNAPSHOT: &str = "tx-0/00000000000000000088.snapshot";
const LAST_SNAPSHOT: &str = "tx-0/00000000000000000132.snapshot";

/// Makes the checksum of a snapshot right again.
fn seal_snapshot(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[6..]);
    put(bytes, 2, crc.to_be_bytes());
}

#[test]
fn snapshots_that_cannot_be_right() {
    // The entry of producer 4 is the fifth: its last sequence, then its last offset.
    let entry = 10 + 4 * 46;
    let bad = LogDir::transactions().edit(SNAPSHOT, |bytes| {
        put(bytes, entry + 10, 3i32.to_be_bytes());
        seal_snapshot(bytes);
    });
    let found = bad.finds_only("corrupt", "snapshot-differs");
    assert_eq!(
        (&found["defect"], &found["producerId"]),
        (&"lastSequence".into(), &4.into())
    );
    // The one at the log end too.
    let bad = LogDir::transactions().edit(LAST_SNAPSHOT, |bytes| {
        put(bytes, entry + 10, 5i32.to_be_bytes());
        seal_snapshot(bytes);
    });
    assert_eq!(bad.finds_only("corrupt", "snapshot-differs")["found"], "5");
    let bad = LogDir::transactions().edit(SNAPSHOT, |bytes| {
        put(bytes, entry + 14, 88i64.to_be_bytes());
        seal_snapshot(bytes);
    });
    assert_eq!(bad.finds_only("corrupt", "snapshot-entry")["entry"], 4);
    let bad = LogDir::transactions().edit(SNAPSHOT, |bytes| bytes[20] ^= 1);
    let found = bad.finds_only("corrupt", "snapshot-unreadable");
    assert_eq!(
        (&found["defect"], &found["bytesToRescan"]),
        (&"crc".into(), &0.into())
    );
    let bad = LogDir::transactions().edit(LAST_SNAPSHOT, |bytes| bytes.truncate(100));
    let found = bad.finds_only("corrupt", "snapshot-unreadable");
    assert_eq!(found["nextOlderSnapshot"], "00000000000000000088.snapshot");
    let bad = LogDir::transactions().remove(&[SNAPSHOT, LAST_SNAPSHOT]);
    bad.finds_only("corrupt", "snapshot-missing");
    let stray = fs::read(fixtures().join("s02-txn-tv2/data").join(SNAPSHOT)).unwrap();
    let bad = LogDir::transactions().write("tx-0/00000000000000000050.snapshot", &stray);
    bad.finds("notable", "stray-snapshot");
}

#[test]
fn epochs_that_the_batches_do_not_have() {
    let bad = LogDir::transactions().write("tx-0/leader-epoch-checkpoint", "0\n2\n0 0\n4 150\n");
    bad.finds_only("corrupt", "leader-epoch-past-end");
    let bad = LogDir::transactions().write("tx-0/leader-epoch-checkpoint", "0\n2\n1 0\n0 9\n");
    assert_eq!(
        bad.finds_only("corrupt", "leader-epoch-checkpoint")["defect"],
        "not-rising"
    );
    // A new leader writes its line before its data.
    let good = LogDir::transactions().write("tx-0/leader-epoch-checkpoint", "0\n2\n0 0\n4 132\n");
    assert!(good.verify().iter().all(|row| row["severity"] == "notable"));
}

#[test]
fn checkpoints_that_do_not_fit_the_log() {
    let of_tx = |offset: i64| format!("0\n1\ntx 0 {offset}\n");
    let recovery = "recovery-point-offset-checkpoint";
    let bad = LogDir::transactions().write(recovery, of_tx(100));
    bad.finds_only("corrupt", "recovery-point");
    let bad = LogDir::transactions()
        .remove(&[".kafka_cleanshutdown"])
        .write(recovery, of_tx(200));
    bad.finds_only("afterCrash", "recovery-point");
    let bad = LogDir::transactions().write("log-start-offset-checkpoint", of_tx(500));
    let found = bad.finds("corrupt", "log-start-past-end");
    assert!(
        found["brokerAction"].as_str().unwrap().contains("DELETES"),
        "{found:#}"
    );
    let bad = LogDir::transactions().write("replication-offset-checkpoint", of_tx(140));
    bad.finds_only("corrupt", "high-watermark-past-end");
    let bad = LogDir::transactions()
        .write("log-start-offset-checkpoint", of_tx(20))
        .write("replication-offset-checkpoint", of_tx(10));
    bad.finds("notable", "high-watermark-below-start");
    // After a crash the file is some seconds old.
    let rows = bad.remove(&[".kafka_cleanshutdown"]).verify();
    let is_it = |row: &Value| row["kind"] == "high-watermark-below-start";
    assert!(!rows.iter().any(is_it), "{rows:#?}");
    let bad = LogDir::transactions().write("cleaner-offset-checkpoint", of_tx(100));
    bad.finds("notable", "cleaner-offset");
    let bad = LogDir::transactions().write("cleaner-offset-checkpoint", "0\n3\ntx 0 1\n");
    bad.finds_only("corrupt", "checkpoint-unreadable");
    let bad = LogDir::transactions().write("cleaner-offset-checkpoint", "0\n1\ntx 0 -4\n");
    bad.finds("corrupt", "checkpoint-unreadable");
}

// Directories

#[test]
fn files_that_do_not_belong() {
    let bad = LogDir::transactions().write("tx-0/segment.log", "");
    bad.finds_only("corrupt", "bad-file-name");
    let bad = LogDir::transactions().write("tx-0/partition.metadata", "version: 0\n");
    bad.finds_only("corrupt", "partition-metadata");
    let bad = LogDir::transactions().write("tx-0/00000000000000000009.log.swap", "");
    bad.finds("notable", "interrupted-cleaner");
    // It comes in the place of one that has records.
    let bad = LogDir::transactions().write("tx-0/00000000000000000000.log.swap", "");
    bad.finds("corrupt", "swap-loss");
    let bad = LogDir::transactions();
    fs::create_dir(bad.path("backup")).unwrap();
    bad.finds_only("corrupt", "foreign-directory");
    let bad = LogDir::transactions();
    let gone = bad.path("tx-1.0123456789abcdef0123456789abcdef-delete");
    fs::rename(bad.path("tx-1"), gone).unwrap();
    bad.finds("notable", "not-live");
}

/// `UnifiedLog.append` writes the file before the first batch, and
/// `LogManager.isStrayKraftReplica` takes a partition without it for a stray.
#[test]
fn partition_metadata_comes_before_the_data() {
    let missing = |fixture: &str, partition: &str| {
        LogDir::of(fixture).remove(&[&format!("{partition}/partition.metadata")])
    };
    let bad = missing("s02-txn-tv2", "tx-0");
    let found = bad.finds_only("corrupt", "partition-metadata");
    assert_eq!(found["file"], "partition.metadata");
    assert_eq!(found["partition"], 0);
    let alone = bad.verify_with(&[], &[bad.path("tx-0")]);
    assert!(alone.contains(&found), "{alone:#?}");
    let no_alarm = |dir: &LogDir| {
        let rows = dir.verify();
        assert!(
            rows.iter().all(|row| row["severity"] == "notable"),
            "{rows:#?}"
        );
    };
    // Nothing was appended yet.
    let young = missing("s02-txn-tv2", "tx-0");
    for file in fs::read_dir(young.path("tx-0")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let young = young.write(FIRST, "").remove(&[
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]);
    no_alarm(&young);
    // Under ZooKeeper there need not be one, and the metadata log is loaded by the quorum.
    let meta = "version=0\nbroker.id=1\ncluster.id=x\n";
    no_alarm(&missing("s02-txn-tv2", "tx-0").write("meta.properties", meta));
    no_alarm(&missing("s11-kraft-metadata", "__cluster_metadata-0"));
    // Nor where nobody says whose the directory is.
    no_alarm(&missing("s02-txn-tv2", "tx-0").remove(&["meta.properties"]));
}

#[test]
fn a_partition_on_two_disks_of_a_broker() {
    let first = LogDir::transactions();
    let second = LogDir::transactions();
    for partition in [
        "tx-1",
        "tx-2",
        "__transaction_state-0",
        "__transaction_state-1",
    ] {
        fs::remove_dir_all(second.path(partition)).unwrap();
    }
    let rows = first.verify_with(&[], &[first.root(), second.root()]);
    let found: Vec<_> = rows
        .iter()
        .filter(|row| row["kind"] == "duplicate-partition")
        .collect();
    assert_eq!(found.len(), 1, "{rows:#?}");
    // Another broker has a replica of it.
    let meta = fs::read_to_string(second.path("meta.properties")).unwrap();
    let second = second.write("meta.properties", meta.replace("node.id=1", "node.id=2"));
    let rows = first.verify_with(&[], &[first.root(), second.root()]);
    assert!(
        rows.iter().all(|row| row["kind"] != "duplicate-partition"),
        "{rows:#?}"
    );
}

#[test]
fn a_topic_that_the_cluster_does_not_know() {
    let kraft = "s11-kraft-metadata";
    assert_eq!(LogDir::of(kraft).verify(), Vec::<Value>::new());
    let other = "version: 0\ntopic_id: MXGkq1laQAy1Qs8yxczwXw";
    let bad = LogDir::of(kraft).write("m2-0/partition.metadata", other);
    let found = bad.finds("notable", "topic-id-differs");
    assert_eq!(found["found"], "MXGkq1laQAy1Qs8yxczwXw", "{found:#}");
    let bad = LogDir::of(kraft);
    fs::rename(bad.path("m2-0"), bad.path("gone-0")).unwrap();
    assert_eq!(
        bad.finds("notable", "topic-id-differs")["expected"],
        "no such topic"
    );
}

#[test]
fn kraft_snapshots_that_are_not_complete() {
    let kraft = "s11-kraft-metadata";
    let name = "__cluster_metadata-0/00000000000000000084-0000000001.checkpoint";
    let bytes = fs::read(fixtures().join(kraft).join("data").join(name)).unwrap();
    let batches = batches_of(&bytes);
    let footer = batches.last().unwrap().0;
    let cases: [(&str, EditFile<'_>); 5] = [
        ("footer", &|bytes| bytes.truncate(footer)),
        ("header", &|bytes| drop(bytes.drain(..batches[0].1))),
        ("crc", &|bytes| bytes[footer + 65] ^= 1),
        ("epoch", &|bytes| put(bytes, 12, 9i32.to_be_bytes())),
        ("damage", &|bytes| bytes.truncate(footer + 20)),
    ];
    for (defect, edit) in cases {
        let bad = LogDir::of(kraft).edit(name, edit);
        let found = bad.finds_only("corrupt", "kraft-snapshot");
        if defect != "header" {
            assert_eq!(found["defect"], defect, "{found:#}");
        }
    }
    let metadata = "__cluster_metadata-0/00000000000000000000";
    let segment = ["log", "index", "timeindex"].map(|it| format!("{metadata}.{it}"));
    let segment = segment.each_ref().map(String::as_str);
    let older = "__cluster_metadata-0/00000000000000000046-0000000001.checkpoint";
    let covered = LogDir::of(kraft).remove(&segment);
    assert!(
        covered
            .verify()
            .iter()
            .all(|row| row["kind"] != "kraft-snapshot-missing")
    );
    let bad = covered.remove(&[older, name]);
    bad.finds("corrupt", "kraft-snapshot-missing");
}

#[test]
fn a_single_segment_is_no_whole_directory() {
    let sound = LogDir::transactions();
    for file in [FIRST, LAST] {
        assert_eq!(
            sound.verify_with(&[], &[sound.path(file)]),
            Vec::<Value>::new()
        );
    }
}

#[test]
fn findings_by_producer_and_offset() {
    let bad = LogDir::transactions()
        .edit(FIRST, |bytes| bytes[2752 + 100] ^= 1)
        .edit(FIRST, |bytes| bytes[5203 + 100] ^= 1);
    let kinds = |arguments: &[&str]| bad.verify_with(arguments, &[bad.path("tx-0")]).len();
    assert_eq!(kinds(&[]), 2);
    assert_eq!(kinds(&["--producer-id", "3"]), 0);
    assert_eq!(kinds(&["--from-offset", "50"]), 1);
    assert_eq!(kinds(&["--to-offset", "50", "--producer-id", "2"]), 1);
}
