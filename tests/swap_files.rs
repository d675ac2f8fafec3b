//! `.swap` files: what `recover`, `verify` and `gaps` say of them, against what a start leaves.
//!
//! `LogLoader.load` computes no checksum of a `.swap` and finds its end by sizes alone. It deletes
//! what lies in the offsets of the `.swap` files, gives them their names, and goes on.

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

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use recover_run::{Run, copy_of, recover};
use segments::batches_of;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Segments `0..=46`, `47..=99` and `100..=115`, stopped cleanly and flushed.
const UNDAMAGED: &str = "s07j-deleted-segment/undamaged";
const INDEXES: [&str; 3] = ["index", "timeindex", "txnindex"];

struct Damaged {
    data: TempDir,
    partition: PathBuf,
}

impl Damaged {
    fn of(fixture: &str, partition: &str, damage: impl Fn(&Self)) -> Self {
        let data = copy_of(fixture);
        let partition = data.path().join(partition);
        let it = Self { data, partition };
        damage(&it);
        it
    }

    fn undamaged(damage: impl Fn(&Self)) -> Self {
        Self::of(UNDAMAGED, "dmg-0", damage)
    }

    fn path(&self, base: i64, extension: &str) -> PathBuf {
        self.partition.join(format!("{base:020}.{extension}"))
    }

    fn read(&self, base: i64, extension: &str) -> Vec<u8> {
        fs::read(self.path(base, extension)).unwrap()
    }

    fn write(&self, base: i64, extension: &str, bytes: &[u8]) {
        fs::write(self.path(base, extension), bytes).unwrap();
    }

    fn suffix(&self, base: i64, extensions: &[&str], suffix: &str) {
        for extension in extensions {
            let path = self.path(base, extension);
            if path.exists() {
                fs::rename(&path, self.path(base, &format!("{extension}.{suffix}"))).unwrap();
            }
        }
    }

    fn copy_indexes_to_swap(&self, base: i64) {
        for extension in INDEXES {
            let bytes = self.read(base, extension);
            self.write(base, &format!("{extension}.swap"), &bytes);
        }
    }

    fn recover(&self) -> Run {
        recover(&[self.partition.as_os_str()])
    }

    /// The findings that are no notes, and those that are.
    fn verify(&self) -> (Vec<Value>, Vec<Value>) {
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["verify", "-o", "ndjson"])
            .arg(&self.partition)
            .output()
            .unwrap();
        let rows = String::from_utf8(output.stdout).unwrap();
        let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
        let (notable, alarms): (Vec<Value>, Vec<Value>) =
            rows.partition(|row: &Value| row["severity"] == "notable");
        assert_eq!(output.status.code(), Some(i32::from(!alarms.is_empty())));
        (alarms, notable)
    }

    /// What `gaps` says the next start deletes: the offsets, and the lines of its table.
    fn gaps(&self) -> (Vec<(i64, i64)>, String) {
        let gaps = |output: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kseg"));
            command.arg("gaps").args(output).arg(&self.partition);
            let output = command.output().unwrap();
            (
                output.status.code(),
                String::from_utf8(output.stdout).unwrap(),
            )
        };
        let (status, rows) = gaps(&["-o", "ndjson"]);
        let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
        let rows: Vec<Value> = rows.collect();
        let is_loss = rows
            .iter()
            .any(|row| row["isLoss"] == true || row["kind"] == "repeated");
        assert_eq!(status, Some(i32::from(is_loss)), "{rows:#?}");
        let lost = rows.iter().filter(|row| row["class"] == "swap-loss");
        let offsets = lost.map(|row| {
            assert_eq!(row["isLoss"], true);
            assert_eq!(row["kind"], "offsetGap");
            let swap = row["toldBy"].as_str().unwrap();
            assert!(swap.ends_with(".log.swap"), "{row:#}");
            let message = row["message"].as_str().unwrap();
            assert!(message.contains(swap), "{message}");
            let file = row["file"].as_str().unwrap();
            assert!(self.partition.join(file).exists(), "{row:#}");
            (
                row["firstOffset"].as_i64().unwrap(),
                row["lastOffset"].as_i64().unwrap(),
            )
        });
        (offsets.collect(), gaps(&[]).1)
    }

    /// The offsets of batches that can be read after the start that is due, by the files it leaves.
    fn left(&self) -> BTreeSet<i64> {
        let out = self.data.path().with_extension("out");
        let arguments = [
            self.partition.as_os_str(),
            OsStr::new("--out"),
            out.as_os_str(),
        ];
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .arg("recover")
            .args(arguments)
            .output()
            .unwrap();
        assert!(out.is_dir(), "{output:?}");
        let offsets = readable(&out);
        fs::remove_dir_all(&out).unwrap();
        offsets
    }
}

/// The offsets of valid batches in a directory's `.log` files.
fn readable(dir: &Path) -> BTreeSet<i64> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["dump", "-o", "ndjson"])
        .arg(dir)
        .output()
        .unwrap();
    let mut offsets = BTreeSet::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let is_live = row["file"].as_str().is_some_and(|it| it.ends_with(".log"));
        if row["type"] == "batch" && row["isValid"] == true && is_live {
            offsets
                .extend(row["baseOffset"].as_i64().unwrap()..=row["lastOffset"].as_i64().unwrap());
        }
    }
    offsets
}

fn due(run: &Run) -> &Value {
    let due = run.rows.iter().find(|row| row["applies"] == true);
    due.unwrap_or_else(|| panic!("{}", run.table))
}

fn find<'r>(rows: &'r [Value], kind: &str) -> &'r Value {
    let found = rows.iter().find(|row| row["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {rows:#?}"))
}

/// What the start is said to lose is what is not there after it, and `verify` tells of it.
fn loses(damaged: &Damaged, first: i64, last: i64) -> Vec<Value> {
    let before = readable(&damaged.partition);
    let after = damaged.left();
    let lost: BTreeSet<i64> = before.difference(&after).copied().collect();
    assert_eq!(lost.first(), Some(&first));
    assert_eq!(lost.last(), Some(&last));
    let run = damaged.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    let row = due(&run);
    let losses = &row["losses"];
    assert_eq!(row["losesData"], true, "{}", run.table);
    assert_eq!(losses["firstOffset"], first, "{losses:#}");
    assert_eq!(losses["lastOffset"], last, "{losses:#}");
    let offsets = i64::try_from(lost.len()).unwrap();
    assert_eq!(losses["records"], offsets, "{losses:#}");
    assert_eq!(row["gone"]["offsets"], 0, "{}", run.table);
    let said = format!("loses {offsets} records of 1 partition: dmg-0 {first}..{last}");
    let line = run.table.lines().next().unwrap();
    assert!(line.contains(&said), "{line}");
    for action in row["actions"].as_array().unwrap() {
        assert_ne!(action["reason"], "", "{action:#}");
    }
    let alarms = damaged.verify().0;
    // `gaps` tells as much of it as is lost for a `.swap`, and not for what recovery cuts.
    let swap_loss = alarms.iter().find(|row| row["kind"] == "swap-loss");
    let (told, table) = damaged.gaps();
    let told = told.first().zip(told.last());
    let told = told.map(|((first, _), (_, last))| (json!(first), json!(last)));
    let wanted = swap_loss.map(|row| (row["firstOffset"].clone(), row["lastOffset"].clone()));
    assert_eq!(told, wanted, "{table}");
    let line = table.lines().next().unwrap();
    assert_eq!(
        line.contains("at the next start"),
        wanted.is_some(),
        "{line}"
    );
    alarms
}

#[test]
fn an_empty_swap_takes_the_segment_along() {
    let damaged = Damaged::undamaged(|it| it.write(47, "log.swap", &[]));
    let alarms = loses(&damaged, 47, 99);
    let lost = find(&alarms, "swap-loss");
    assert_eq!(lost["severity"], "corrupt");
    assert_eq!(lost["file"], "00000000000000000047.log");
    assert_eq!(
        (&lost["firstOffset"], &lost["lastOffset"]),
        (&47.into(), &99.into())
    );
    assert_eq!(lost["cost"]["records"], 53);
    assert_eq!(alarms.len(), 1, "told twice: {alarms:#?}");
    // With the indexes that a cleaner makes, and of the first and the last segment.
    for (base, last, indexes) in [
        (0, 46, false),
        (47, 99, true),
        (100, 115, false),
        (100, 115, true),
    ] {
        let damaged = Damaged::undamaged(|it| {
            it.write(base, "log.swap", &[]);
            for extension in ["index", "timeindex"].into_iter().filter(|_| indexes) {
                it.write(base, &format!("{extension}.swap"), &[]);
            }
        });
        let alarms = loses(&damaged, base, last);
        assert_eq!(alarms.len(), 1, "told twice: {alarms:#?}");
        assert_eq!(alarms[0]["kind"], "swap-loss");
    }

    // Without the segment there is nothing to lose, and nothing is there.
    fs::remove_file(damaged.path(47, "log")).unwrap();
    let run = damaged.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["gone"]["firstOffset"], 47);
    assert_eq!(due(&run)["gone"]["lastOffset"], 99);
    let (alarms, _) = damaged.verify();
    let missing = find(&alarms, "segment-missing");
    assert_eq!(
        (&missing["firstOffset"], &missing["lastOffset"]),
        (&47.into(), &99.into())
    );
}

#[test]
fn a_whole_swap_costs_nothing() {
    let copied = Damaged::undamaged(|it| {
        it.write(47, "log.swap", &it.read(47, "log"));
        it.copy_indexes_to_swap(47);
    });
    let renamed = Damaged::undamaged(|it| {
        for base in [0, 47] {
            it.suffix(base, &["log", "index", "timeindex", "txnindex"], "swap");
        }
    });
    for damaged in [copied, renamed] {
        let run = damaged.recover();
        assert_eq!(run.status, Some(0), "{}", run.table);
        assert_eq!(damaged.left(), (0..116).collect());
        let (alarms, notable) = damaged.verify();
        assert!(alarms.is_empty(), "{alarms:#?}");
        assert_eq!(damaged.gaps().0, []);
        // The log begins at 0 once they are in place.
        let stray = notable.iter().find(|row| row["kind"] == "stray-snapshot");
        assert_eq!(stray, None);
    }
}

/// Where a batch lies, and its offsets.
fn batch_at(log: &[u8], position: usize) -> (usize, i64, i64) {
    let holds = |(at, size): &(usize, usize)| (*at..at + size).contains(&position);
    let (at, _) = batches_of(log).into_iter().find(holds).unwrap();
    let base = i64::from_be_bytes(log[at..at + 8].try_into().unwrap());
    let delta = i32::from_be_bytes(log[at + 23..at + 27].try_into().unwrap());
    (at, base, base + i64::from(delta))
}

#[test]
fn a_flipped_byte_in_a_swap_costs_its_batch() {
    let damaged = Damaged::undamaged(|it| {
        let mut log = it.read(47, "log");
        log[2000] ^= 1;
        it.write(47, "log.swap", &log);
        it.copy_indexes_to_swap(47);
    });
    let (position, first, last) = batch_at(&damaged.read(47, "log"), 2000);
    let alarms = loses(&damaged, first, last);
    let bad = find(&alarms, "bad-crc");
    assert_eq!(bad["file"], "00000000000000000047.log.swap");
    assert_eq!(bad["position"], position);
    assert_eq!(find(&alarms, "swap-loss")["firstOffset"], first);
    let next = bad["nextStep"].as_str().unwrap();
    assert!(next.contains("move the .swap files out"), "{next}");

    // Recovery cuts there and deletes what is behind, as in any segment.
    fs::remove_file(damaged.data.path().join(".kafka_cleanshutdown")).unwrap();
    let points = damaged.data.path().join("recovery-point-offset-checkpoint");
    fs::write(points, "0\n1\ndmg 0 0\n").unwrap();
    loses(&damaged, first, 115);

    // With the segment gone nothing else has it.
    let alone = Damaged::undamaged(|it| {
        it.suffix(47, &["log", "index", "timeindex", "txnindex"], "swap");
        let mut log = it.read(47, "log.swap");
        log[2000] ^= 1;
        it.write(47, "log.swap", &log);
    });
    let run = alone.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["losesData"], false);
    assert_eq!(due(&run)["gone"]["offsets"], last - first + 1);
    assert_eq!(find(&alone.verify().0, "bad-crc")["position"], position);
}

#[test]
fn a_swap_cut_short_costs_the_rest() {
    let damaged = Damaged::undamaged(|it| it.write(47, "log.swap", &it.read(47, "log")[..2000]));
    let (position, first, _) = batch_at(&damaged.read(47, "log"), 2000);
    let alarms = loses(&damaged, first, 99);
    let torn = find(&alarms, "torn-tail");
    assert_eq!(torn["file"], "00000000000000000047.log.swap");
    assert_eq!(torn["position"], position);
    // The end of a `.swap` is looked up in its index, which is made for that.
    let index = find(&alarms, "index-missing");
    let action = index["brokerAction"].as_str().unwrap();
    assert!(!action.contains("recovers"), "{action}");

    // At the end of a batch nothing is torn, and as much is lost.
    let damaged = Damaged::undamaged(|it| {
        let log = it.read(47, "log");
        it.write(47, "log.swap", &log[..batch_at(&log, 2000).0]);
        it.copy_indexes_to_swap(47);
    });
    let alarms = loses(&damaged, first, 99);
    assert_eq!(find(&alarms, "swap-loss")["firstOffset"], first);
}

/// A size field below 14 is a `CorruptRecordException` that nobody catches; any other is one of a
/// batch that is not all there.
#[test]
fn bytes_that_are_no_segment() {
    let no_size = [&[0; 8][..], &[0, 0, 0, 3], &[7; 300]].concat();
    let damaged = Damaged::undamaged(|it| it.write(47, "log.swap", &no_size));
    let run = damaged.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["error"]["exception"], "CorruptRecordException");
    let (alarms, _) = damaged.verify();
    let bad = find(&alarms, "bad-length");
    assert_eq!(bad["file"], "00000000000000000047.log.swap");
    let action = bad["brokerAction"].as_str().unwrap();
    assert!(
        action.contains("the broker does not start (CorruptRecordException)"),
        "{action}"
    );

    let bytes: Vec<u8> = (0..=255).cycle().step_by(37).take(3000).collect();
    let damaged = Damaged::undamaged(|it| it.write(47, "log.swap", &bytes));
    let alarms = loses(&damaged, 47, 99);
    assert_eq!(find(&alarms, "swap-loss")["lastOffset"], 99);

    // `LogFileUtils.offsetFromFileName`.
    for name in ["foo.log.swap", "foo.cleaned"] {
        let damaged = Damaged::undamaged(|it| fs::write(it.partition.join(name), "x").unwrap());
        let run = damaged.recover();
        assert_eq!(
            due(&run)["error"]["exception"],
            "NumberFormatException",
            "{name}"
        );
        let (alarms, _) = damaged.verify();
        assert_eq!(find(&alarms, "bad-file-name")["file"], name);
    }
}

/// The cleaner takes records out, and leaves an empty segment where nothing of it is left; it gives
/// the suffix `.swap` to all files of a segment before anything is replaced.
#[test]
fn what_the_cleaner_took_out_is_not_lost() {
    let cleaned = |indexes: bool| {
        Damaged::of("s05-compacted/data", "compact-drop-0", |it| {
            it.write(283, "log.swap", &[]);
            if indexes {
                it.write(283, "index.swap", &[]);
                it.write(283, "timeindex.swap", &[]);
            }
        })
    };
    let run = cleaned(true).recover();
    let row = due(&run);
    assert_eq!(row["losesData"], true, "{}", run.table);
    assert!(
        row["losses"]["records"].as_i64().unwrap() < 13,
        "{}",
        run.table
    );
    assert_eq!(row["gone"]["offsets"], 0, "{}", run.table);
    let run = cleaned(false).recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["losses"]["firstOffset"], 283);
    assert_eq!(due(&run)["losses"]["lastOffset"], 359);
    // A bad batch is none that was taken out.
    let torn = Damaged::of("s05-compacted/data", "compact-drop-0", |it| {
        for extension in ["index", "timeindex"] {
            it.write(283, &format!("{extension}.swap"), &it.read(283, extension));
        }
        it.write(283, "log.swap", &it.read(283, "log")[..114]);
    });
    let run = torn.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["losses"]["records"], 13, "{}", run.table);
    assert_eq!(due(&run)["gone"]["offsets"], 0, "{}", run.table);
}

/// Of records that are taken out only those count that a cleaner would have kept.
#[test]
fn a_swap_that_ends_early_costs_the_last_records_of_their_keys() {
    for (partition, base) in [
        ("compact-drop-0", 0),
        ("compact-keep-0", 0),
        ("compact-keep-0", 290),
    ] {
        let damaged = Damaged::of("s05-compacted/data", partition, |it| {
            let log = it.read(base, "log");
            let batches = batches_of(&log);
            let (cut, _) = batches[batches.len() / 2];
            it.write(base, "log.swap", &log[..cut]);
            for extension in ["index", "timeindex"] {
                it.write(
                    base,
                    &format!("{extension}.swap"),
                    &it.read(base, extension),
                );
            }
        });
        let run = damaged.recover();
        let row = due(&run);
        assert_eq!(run.status, Some(1), "{partition} {base}: {}", run.table);
        assert_eq!(
            row["gone"]["offsets"], 0,
            "{partition} {base}: {}",
            run.table
        );
        let keys = |dir: &Path| {
            let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
                .args([
                    "read",
                    "-o",
                    "ndjson",
                    "--isolation-level",
                    "read_committed",
                ])
                .arg(dir)
                .output()
                .unwrap();
            let mut last = std::collections::BTreeMap::new();
            for line in String::from_utf8(output.stdout).unwrap().lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                last.insert(row["key"].to_string(), row["value"].clone());
            }
            last
        };
        let out = damaged.data.path().with_extension("out");
        let arguments = [
            damaged.partition.as_os_str(),
            OsStr::new("--out"),
            out.as_os_str(),
        ];
        let mut kseg = Command::new(env!("CARGO_BIN_EXE_kseg"));
        kseg.arg("recover").args(arguments).output().unwrap();
        let (before, after) = (keys(&damaged.partition), keys(&out));
        let others = before
            .iter()
            .filter(|(key, value)| !value.is_null() && after.get(*key) != Some(value));
        let others = i64::try_from(others.count()).unwrap();
        assert!(others > 0);
        assert_eq!(
            row["losses"]["records"], others,
            "{partition} {base}: {}",
            run.table
        );
        fs::remove_dir_all(&out).unwrap();
    }
}

/// The segments that a `.cleaned` is made from stay until it is whole.
#[test]
fn a_cleaned_that_is_alone_is_the_last_copy() {
    let damaged = Damaged::of("s05-compacted/data", "compact-drop-0", |it| {
        it.suffix(283, &["log", "index", "timeindex", "txnindex"], "cleaned");
    });
    let run = damaged.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    let (first, last) = (
        &due(&run)["losses"]["firstOffset"],
        &due(&run)["losses"]["lastOffset"],
    );
    let (alarms, _) = damaged.verify();
    let missing = find(&alarms, "segment-missing");
    assert_eq!(
        (&missing["firstOffset"], &missing["lastOffset"]),
        (first, last)
    );
}

/// Both a `.cleaned` and a `.swap` behind it go, and they have the same records.
#[test]
fn records_in_two_files_that_go_are_counted_once() {
    let damaged = Damaged::undamaged(|it| {
        it.write(47, "log.swap", &it.read(47, "log"));
        it.suffix(47, &["log"], "cleaned");
    });
    let run = damaged.recover();
    assert_eq!(run.status, Some(1), "{}", run.table);
    assert_eq!(due(&run)["losses"]["records"], 53, "{}", run.table);
    let warnings = due(&run)["warnings"].as_array().unwrap();
    let last_copies = warnings
        .iter()
        .filter(|it| it.as_str().unwrap().contains("last copy"));
    assert_eq!(last_copies.count(), 1, "{warnings:#?}");
}
