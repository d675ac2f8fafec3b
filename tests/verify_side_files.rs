//! What `verify` and `recover` say of indexes, snapshots, checkpoints and tails that Kafka 4.3.1
//! reads in a way of its own. Each expectation is what its code does with the same bytes, and was
//! seen in its answers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/verify_run.rs"]
mod verify_run;

use std::fs;
use std::ops::ControlFlow;
use std::process::Command;

use kseg::format::aborted_txn::AbortedTxnRows;
use kseg::log::batches::Entry;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use serde_json::Value;
use verify_run::segments::reseal;
use verify_run::{Copied, LAST, MIDDLE, batches, text};

const FIRST: &str = "tx-1/00000000000000000000";
const TIME_ENTRY: usize = 12;

/// What is done to a file.
type Edit<'e> = &'e dyn Fn(&mut Vec<u8>);

impl Copied {
    fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> &Self {
        let mut bytes = fs::read(self.path(name)).unwrap();
        change(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    /// After a crash, with the recovery point where the files are good or at 0.
    fn crashed(&self, recovery_point: i64) -> &Self {
        fs::remove_file(self.path(".kafka_cleanshutdown")).unwrap();
        let line = format!("0\n1\ntx 1 {recovery_point}\n");
        fs::write(self.path("recovery-point-offset-checkpoint"), line).unwrap();
        self
    }

    /// The findings about tx-1.
    fn findings(&self) -> Vec<Value> {
        let output = self.run(&["-o", "ndjson"], &["tx-1"]);
        let rows = String::from_utf8(output.stdout).unwrap();
        rows.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[track_caller]
    fn only(&self, kind: &str) -> Value {
        let findings = self.findings();
        let mut found = findings.iter().filter(|it| it["kind"] == kind);
        let first = found.next();
        let first = first.unwrap_or_else(|| panic!("no {kind}: {findings:#?}"));
        assert!(found.next().is_none(), "{findings:#?}");
        first.clone()
    }

    /// What `recover` warns of.
    fn warnings(&self, start: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["recover", "-o", "ndjson", "--start", start])
            .arg(self.path("tx-1"))
            .output()
            .unwrap();
        let row: Value = serde_json::from_slice(&output.stdout).unwrap();
        row["warnings"].to_string()
    }
}

/// `LogSegment.largestTimestamp` of a segment that was loaded is the time of the last entry in the
/// file, whatever it is; `UnifiedLog.deleteRetentionMsBreachedSegments` goes by it.
#[test]
fn a_time_index_that_ends_too_low_has_retention_delete_its_segment() {
    let file = format!("{MIDDLE}.timeindex");
    let low = |bytes: &mut Vec<u8>| {
        let at = bytes.len() - TIME_ENTRY;
        bytes[at..at + 8].copy_from_slice(&5i64.to_be_bytes());
    };
    let longer = |bytes: &mut Vec<u8>| bytes.resize(bytes.len() + 40 * TIME_ENTRY, 0);
    let zeros = |bytes: &mut Vec<u8>| bytes.fill(0);
    let cases: [(&str, Edit<'_>, &str); 3] = [
        ("index-damaged", &low, "last entry, 5 ms"),
        ("index-not-trimmed", &longer, "last entry, 0 ms"),
        ("index-not-trimmed", &zeros, "last entry, 0 ms"),
    ];
    for (kind, change, last) in cases {
        let copied = Copied::transactions();
        copied.edit(&file, |bytes| change(bytes));
        let found = copied.only(kind);
        let action = text(&found, "brokerAction");
        assert!(action.contains(last), "{found:#}");
        assert!(action.contains("deleted too early"), "{found:#}");
        let mut empty = copied.findings().into_iter();
        assert!(empty.all(|it| it["kind"] != "time-index-empty"));
        assert!(copied.warnings("clean").contains("retention"), "{kind}");
        // Recovery makes it anew where it comes by.
        copied.crashed(0);
        assert!(!copied.warnings("unclean").contains("retention"), "{kind}");
        let copied = Copied::transactions();
        copied.edit(&file, |bytes| change(bytes)).crashed(173);
        assert!(copied.warnings("unclean").contains("retention"), "{kind}");
    }
}

/// `LogSegment.append` and `recover` write no entry for the first batch, and no timestamp of 0 that
/// no batch has.
#[test]
fn a_first_entry_of_zeros_is_damage() {
    for (file, size) in [
        (format!("{MIDDLE}.index"), 8),
        (format!("{MIDDLE}.timeindex"), TIME_ENTRY),
    ] {
        let copied = Copied::transactions();
        copied.edit(&file, |bytes| bytes[..size].fill(0));
        let found = copied.only("index-damaged");
        assert_eq!(found["defect"], "entry-zero", "{found:#}");
        assert_eq!(
            (&found["entry"], &found["position"]),
            (&0.into(), &0.into())
        );
    }
}

/// `ProducerStateManager.loadFromSnapshot` reads the newest ones until one can be used.
#[test]
fn an_older_snapshot_that_is_not_readable_is_not_read() {
    let copied = Copied::transactions();
    copied.edit(&format!("{LAST}.snapshot"), Vec::clear);
    let found = copied.only("snapshot-unreadable");
    let action = text(&found, "brokerAction");
    assert!(action.contains("00000000000000000173.snapshot"), "{action}");
    assert!(action.contains("leaves it"), "{action}");
    assert_eq!(found["bytesToRescan"], 0, "{found:#}");
    // The newest one it deletes, and goes on from the one before.
    let copied = Copied::transactions();
    copied.edit("tx-1/00000000000000000173.snapshot", Vec::clear);
    let found = copied.only("snapshot-unreadable");
    let action = text(&found, "brokerAction");
    assert!(action.contains("deletes it"), "{action}");
    assert!(action.contains("00000000000000000165.snapshot"), "{action}");
}

/// The time and the coordinator epoch of an entry are what the batches give, too.
#[test]
fn every_field_of_a_snapshot_is_compared() {
    for (at, size, field) in [(34, 8, "lastTimestamp"), (42, 4, "coordinatorEpoch")] {
        let copied = Copied::transactions();
        copied.edit("tx-1/00000000000000000173.snapshot", |bytes| {
            let entry = bytes.len() - 46;
            // Behind id, epoch, sequence, offset, delta.
            let at = entry + at - 8;
            bytes[at..at + size].copy_from_slice(&55i64.to_be_bytes()[8 - size..]);
            let crc = crc32c::crc32c(&bytes[6..]);
            bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        });
        let found = copied.only("snapshot-differs");
        assert_eq!(found["defect"], field, "{found:#}");
        assert_eq!(found["found"], "55", "{found:#}");
    }
}

/// `LeaderEpochFileCache.assign` throws for a negative number; `LogSegment.recover` adds an epoch
/// above the last one of the file.
#[test]
fn leader_epoch_lines_are_told_as_a_start_takes_them() {
    let copied = Copied::transactions();
    let file = "tx-1/leader-epoch-checkpoint";
    fs::write(copied.path(file), "0\n2\n0 0\n3 -6\n").unwrap();
    let found = copied.only("leader-epoch-checkpoint");
    let action = text(&found, "brokerAction");
    assert!(action.contains("does not load"), "{found:#}");
    assert_eq!(found["entry"], 1, "{found:#}");
    // A line that is missing behind the last one.
    let copied = Copied::transactions();
    copied.edit(&format!("{LAST}.log"), |bytes| {
        for (at, size, _) in batches(bytes) {
            bytes[at + 12..at + 16].copy_from_slice(&9i32.to_be_bytes());
            reseal(&mut bytes[at..at + size]);
        }
    });
    copied.crashed(0);
    let found = copied.only("leader-epoch-checkpoint");
    assert_eq!(found["defect"], "epoch-missing", "{found:#}");
    let action = text(&found, "brokerAction");
    assert!(action.contains("adds the line"), "{found:#}");
    // Of an empty file recovery brings back only what it comes by.
    let copied = Copied::transactions();
    copied.crashed(173);
    fs::write(copied.path(file), "0\n0\n").unwrap();
    let next = copied.only("leader-epoch-checkpoint");
    let next = text(&next, "nextStep");
    assert!(next.contains("recovery-point-offset-checkpoint"), "{next}");
    let copied = Copied::transactions();
    copied.crashed(0);
    fs::write(copied.path(file), "0\n0\n").unwrap();
    let next = copied.only("leader-epoch-checkpoint");
    let next = text(&next, "nextStep");
    assert!(!next.contains("recovery-point-offset-checkpoint"), "{next}");
}

/// `UnifiedLog.maybeIncrementLogStartOffset` drops lines at once, across epochs too; a broker that
/// is killed within a minute leaves the old log start in its checkpoint.
#[test]
fn a_log_start_that_moved_into_a_later_epoch_is_no_alarm() {
    let (copied, moved) = (Copied::transactions(), "tx-1/leader-epoch-checkpoint");
    let mut from = None;
    copied.edit(&format!("{LAST}.log"), |bytes| {
        for (at, size, _) in batches(bytes) {
            from.get_or_insert(i64::from_be_bytes(bytes[at..at + 8].try_into().unwrap()));
            bytes[at + 12..at + 16].copy_from_slice(&9i32.to_be_bytes());
            reseal(&mut bytes[at..at + size]);
        }
    });
    copied.crashed(0);
    let line = |offset: i64| format!("0\n1\n9 {offset}\n");
    let from = from.unwrap();
    fs::write(copied.path(moved), line(from + 1)).unwrap();
    let found = copied.only("leader-epoch-checkpoint");
    assert_eq!(found["severity"], "notable", "{found:#}");
    // Where the epoch begins its line may as well be all that is left of the file.
    fs::write(copied.path(moved), line(from)).unwrap();
    let found = copied.only("leader-epoch-checkpoint");
    assert_eq!(found["defect"], "first-epoch-missing", "{found:#}");
    assert_eq!(found["severity"], "notable", "{found:#}");
    // After a clean stop the checkpoint would have moved as well.
    fs::write(copied.path(".kafka_cleanshutdown"), "{}").unwrap();
    let found = copied.only("leader-epoch-checkpoint");
    assert_eq!(found["defect"], "first-epoch-missing", "{found:#}");
    assert_eq!(found["severity"], "corrupt", "{found:#}");
}

/// The first line moves with the log start, whose checkpoint may not be at hand.
#[test]
fn a_first_leader_epoch_that_moved_with_the_log_start_is_no_alarm() {
    let copied = Copied::transactions();
    copied.crashed(0);
    for checkpoint in [
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ] {
        fs::remove_file(copied.path(checkpoint)).unwrap();
    }
    fs::write(copied.path("tx-1/leader-epoch-checkpoint"), "0\n1\n0 40\n").unwrap();
    let found = copied.only("leader-epoch-checkpoint");
    assert_eq!(found["severity"], "notable", "{found:#}");
    let alone = tempfile::tempdir().unwrap();
    verify_run::folders::copy(&copied.path("tx-1"), &alone.path().join("tx-1"));
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .arg("verify")
        .arg(alone.path().join("tx-1"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
}

/// A write that a loss of power cut short in a file that had its size already: recovery cuts at the
/// batch, a clean start fails on the zeros (`CorruptRecordException`).
#[test]
fn a_torn_batch_before_zeros_is_what_a_crash_leaves() {
    let copied = Copied::transactions();
    copied.crashed(0);
    let mut at = 0;
    copied.edit(&format!("{LAST}.log"), |bytes| {
        let (last, size, _) = *batches(bytes).last().unwrap();
        at = last;
        bytes[last + size - 10..].fill(0);
        bytes.resize(bytes.len() + 300, 0);
    });
    let found = copied.only("bad-crc");
    assert_eq!(found["severity"], "afterCrash", "{found:#}");
    assert_eq!(found["position"], at, "{found:#}");
    let action = text(&found, "brokerAction");
    assert!(action.contains("does not load"), "{found:#}");
    assert!(!action.contains("does not look"), "{found:#}");
}

#[test]
fn a_few_zeros_behind_the_last_batch_are_no_damage() {
    for zeros in [8, 10, 16] {
        let copied = Copied::transactions();
        copied.crashed(0);
        copied.edit(&format!("{LAST}.log"), |bytes| {
            bytes.resize(bytes.len() + zeros, 0)
        });
        let found = copied.only("zero-tail");
        assert_eq!(found["severity"], "notable", "{found:#}");
        assert_eq!(found["bytes"], zeros, "{found:#}");
        // `FileLogInputStream.nextBatch` does not reach them.
        let action = text(&found, "brokerAction");
        assert!(action.contains("writes behind them"), "{found:#}");
    }
}

/// A segment without `.index` is recovered at any start, and all its indexes are made anew.
#[test]
fn a_transaction_index_beside_no_offset_index_is_rebuilt() {
    let copied = Copied::transactions();
    for file in ["index", "txnindex"] {
        fs::remove_file(copied.path(&format!("{MIDDLE}.{file}"))).unwrap();
    }
    let findings = copied.findings();
    let mut missing = findings
        .iter()
        .filter(|it| it["kind"] == "txnindex-entry-missing");
    let first = missing.next().unwrap();
    assert!(
        text(first, "brokerAction").contains("any start recovers"),
        "{first:#}"
    );
}

/// The header of a batch with a wrong checksum is believed by nobody: what would follow from it is
/// no finding.
#[test]
fn what_a_bad_batch_says_of_itself_is_told_once() {
    let flips: [(&str, usize, u8); 5] = [
        ("lastOffsetDelta", 26, 0x20),
        ("attributes", 22, 0x10),
        ("producerId", 50, 0x10),
        ("maxTimestamp", 40, 0x10),
        ("producerEpoch", 52, 0x10),
    ];
    let mut seen = 0;
    for name in [FIRST, MIDDLE] {
        let file = format!("{name}.log");
        let bytes = fs::read(Copied::transactions().path(&file)).unwrap();
        let all = batches(&bytes);
        for index in [0, all.len() / 3, all.len() / 2] {
            for (field, at, bits) in flips {
                let copied = Copied::transactions();
                let (position, _, first) = all[index];
                copied.edit(&file, |bytes| {
                    bytes[position + at] ^= bits;
                });
                let next = all.get(index + 1).unwrap().2;
                let mut alarms = copied.findings();
                alarms.retain(|it| it["severity"] != "notable");
                let what = format!("{field} of {first} in {file}");
                let bad: Vec<&Value> = alarms.iter().filter(|it| it["kind"] == "bad-crc").collect();
                assert_eq!(bad.len(), 1, "{what}: {alarms:#?}");
                assert_eq!(bad[0]["offset"], first, "{what}");
                assert_eq!(bad[0]["lastOffset"], next - 1, "{what}: {:#}", bad[0]);
                let others: Vec<&Value> =
                    alarms.iter().filter(|it| it["kind"] != "bad-crc").collect();
                assert!(others.is_empty(), "{what}: {others:#?}");
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 30);
}

/// The row of an aborted transaction outlives its marker: it is right, and recovery, which makes
/// the index from the markers, leaves it out.
#[test]
fn a_marker_that_only_the_transaction_index_has_is_certain() {
    let copied = Copied::transactions();
    let dir = PartitionDir::open(&copied.path("tx-1")).unwrap();
    let mut rows = Vec::new();
    for name in [FIRST, MIDDLE, LAST] {
        let bytes = fs::read(copied.path(&format!("{name}.txnindex"))).unwrap();
        let decoded = AbortedTxnRows::decode(&bytes);
        rows.extend(
            decoded
                .rows()
                .iter()
                .map(|row| (row.producer_id(), row.last_offset())),
        );
    }
    let mut markers = Vec::new();
    let mut chosen = None;
    walk_partition(&dir, Io::Mmap, 0, |at, entry| {
        if let Entry::Batch(batch) = entry {
            let (id, offset) = (batch.header.producer_id(), batch.header.base_offset());
            if batch.marker()?.is_some() && rows.contains(&(id, offset)) {
                let place = (at.file.to_owned(), batch.position, batch.size_in_bytes());
                markers.push((id, offset, place));
            } else if batch.header.attributes().is_transactional()
                && let Some(marker) = markers.iter().rfind(|it| it.0 == id)
                && chosen.is_none()
            {
                chosen = Some((marker.clone(), offset));
            }
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })
    .unwrap();
    let ((id, marker, (file, position, size)), next) = chosen.unwrap();
    copied.edit(&format!("tx-1/{file}"), |bytes| {
        let from = usize::try_from(position).unwrap();
        bytes.drain(from..from + usize::try_from(size).unwrap());
    });
    copied.crashed(0);
    let found = copied.only("marker-probably-cleaned");
    assert_eq!(found["certainty"], "certain", "{found:#}");
    assert_eq!(found["producerId"], id, "{found:#}");
    assert_eq!(found["offset"], next, "{found:#}");
    assert_eq!(found["missingOffset"], marker, "{found:#}");
    assert!(
        text(&found, "nextStep").contains("no kseg rebuild"),
        "{found:#}"
    );
    let surplus = |it: &Value| it["kind"] == "txnindex-entry-surplus";
    assert!(!copied.findings().iter().any(surplus));
    assert!(copied.warnings("unclean").contains("the .txnindex alone"));
    assert!(!copied.warnings("clean").contains("the .txnindex alone"));
}
