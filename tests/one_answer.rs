//! `verify`, `gaps` and `recover` on directories that lack files: what is lost, all three say.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use recover_run::copy_of;
use serde_json::Value;
use tempfile::TempDir;

const FILES: [&str; 5] = ["log", "index", "timeindex", "txnindex", "snapshot"];

type Ranges = Vec<(i64, i64)>;

fn rows(command: &str, partition: &Path) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args([command, "-o", "ndjson"])
        .arg(partition)
        .output()
        .unwrap();
    assert!(output.status.code() < Some(2), "{output:?}");
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    rows.collect()
}

/// Ranges that touch are one.
fn joined(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    let mut joined: Ranges = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

fn offset(value: &Value) -> Option<i64> {
    value.as_i64()
}

/// By `verify`, where it also says how far records had been acknowledged.
fn by_verify(partition: &Path) -> Ranges {
    let mut lost = Ranges::new();
    for row in rows("verify", partition) {
        if row["kind"] == "segment-missing" {
            let last = offset(&row["lastOffset"]).unwrap_or(i64::MAX);
            lost.push((offset(&row["firstOffset"]).unwrap(), last));
        }
        if row["kind"] == "high-watermark-past-end" {
            let end = row["expected"].as_str().unwrap().rsplit(' ').next();
            let end = end.unwrap().parse().unwrap();
            lost.push((end, offset(&row["offset"]).unwrap() - 1));
        }
    }
    joined(lost)
}

fn by_gaps(partition: &Path) -> Ranges {
    let rows = rows("gaps", partition).into_iter();
    let lost = rows.filter(|row| row["kind"] == "offsetGap" && row["isLoss"] == true);
    let ranges = lost.map(|row| {
        let last = offset(&row["lastOffset"]).unwrap_or(i64::MAX);
        (offset(&row["firstOffset"]).unwrap(), last)
    });
    joined(ranges.collect())
}

fn by_recover(partition: &Path) -> Ranges {
    let rows = rows("recover", partition);
    let row = rows.iter().find(|row| row["applies"] == true).unwrap();
    let losses = &row["losses"];
    let ends = [
        ("firstOffset", "lastOffset"),
        ("acknowledgedFrom", "acknowledgedTo"),
    ];
    let mut lost: Ranges = ends
        .into_iter()
        .filter_map(|(first, last)| offset(&losses[first]).zip(offset(&losses[last])))
        .collect();
    for range in row["gone"]["ranges"].as_array().unwrap() {
        lost.extend(offset(&range["firstOffset"]).zip(offset(&range["lastOffset"])));
    }
    joined(lost)
}

struct Damaged {
    data: TempDir,
    partition: PathBuf,
}

impl Damaged {
    fn of(fixture: &str, partition: &str) -> Self {
        let data = copy_of(fixture);
        let partition = data.path().join(partition);
        Self { data, partition }
    }

    fn path(&self, base: i64, extension: &str) -> PathBuf {
        self.partition.join(format!("{base:020}.{extension}"))
    }

    fn bases(&self) -> Vec<i64> {
        let names = fs::read_dir(&self.partition).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let logs = names.filter_map(|it| it.strip_suffix(".log")?.parse().ok());
        let mut bases: Vec<i64> = logs.collect();
        bases.sort_unstable();
        bases
    }

    fn remove(&self, base: i64, extensions: &[&str]) {
        for path in extensions.iter().map(|it| self.path(base, it)) {
            if path.exists() {
                fs::remove_file(path).unwrap();
            }
        }
    }

    fn rename(&self, base: i64, extensions: &[&str], suffix: &str) {
        for extension in extensions {
            let path = self.path(base, extension);
            if path.exists() {
                fs::rename(path, self.path(base, &format!("{extension}{suffix}"))).unwrap();
            }
        }
    }

    /// The line of the partition in a checkpoint, and no other.
    fn checkpoint(&self, name: &str, offset: Option<i64>) {
        let directory = self.partition.file_name().unwrap().to_str().unwrap();
        let (topic, number) = directory.rsplit_once('-').unwrap();
        let text = offset.map_or_else(
            || "0\n0\n".to_owned(),
            |offset| format!("0\n1\n{topic} {number} {offset}\n"),
        );
        fs::write(self.data.path().join(name), text).unwrap();
    }

    fn crashed(&self) {
        fs::remove_file(self.data.path().join(".kafka_cleanshutdown")).unwrap();
    }

    /// What all three say.
    #[track_caller]
    fn says(&self, lost: &[(i64, i64)], what: &str) {
        assert_eq!(by_gaps(&self.partition), lost, "gaps: {what}");
        assert_eq!(by_verify(&self.partition), lost, "verify: {what}");
        assert_eq!(by_recover(&self.partition), lost, "recover: {what}");
    }
}

const START: &str = "log-start-offset-checkpoint";
const HIGH_WATERMARK: &str = "replication-offset-checkpoint";
const RECOVERY_POINT: &str = "recovery-point-offset-checkpoint";

/// Without any `.log` what lies at or above the log start is lost, up to where the log ended.
#[test]
fn a_log_without_segments_has_lost_what_was_not_given_up() {
    for start in [None, Some(0), Some(100), Some(172), Some(173), Some(180)] {
        for keeps_indexes in [true, false] {
            for (keeps_epochs, point) in [(true, None), (false, Some(173)), (true, Some(0))] {
                let damaged = Damaged::of("s02-txn-tv2/data", "tx-1");
                for base in damaged.bases() {
                    let gone = if keeps_indexes { 1 } else { 4 };
                    damaged.remove(base, &FILES[..gone]);
                }
                if let Some(start) = start {
                    damaged.checkpoint(START, Some(start));
                }
                damaged.checkpoint(RECOVERY_POINT, point);
                if !keeps_epochs {
                    fs::remove_file(damaged.partition.join("leader-epoch-checkpoint")).unwrap();
                }
                let first = start.unwrap_or(0);
                let lost: &[_] = if first < 173 { &[(first, 172)] } else { &[] };
                let what = format!("{start:?} {keeps_indexes} {keeps_epochs} {point:?}");
                damaged.says(lost, &what);
            }
        }
    }
    // Nothing but the high watermark is left.
    let damaged = Damaged::of("s02-txn-tv2/data", "tx-1");
    for base in damaged.bases() {
        damaged.remove(base, &FILES);
    }
    damaged.remove(173, &["snapshot"]);
    damaged.says(&[(0, 172)], "by the high watermark");
    let told = rows("gaps", &damaged.partition);
    assert_eq!(told[0]["toldBy"], HIGH_WATERMARK);
}

/// It began where retention had got to, or with segments of before there were leader epochs.
#[test]
fn a_log_without_segments_began_where_its_files_say() {
    for (fixture, partition, lost) in [
        ("s06-retention/data", "small-0", (39, 151)),
        ("s10-upgraded-2.4.1/data", "upgraded-0", (0, 124)),
    ] {
        let damaged = Damaged::of(fixture, partition);
        for base in damaged.bases() {
            damaged.remove(base, &FILES[..1]);
        }
        assert_eq!(by_gaps(&damaged.partition), [lost], "{partition}");
        assert_eq!(by_recover(&damaged.partition), [lost], "{partition}");
        let verified = rows("verify", &damaged.partition);
        let of_all = verified.iter().find(|row| row["kind"] == "segment-missing");
        let of_all = of_all.unwrap();
        assert_eq!(
            [&of_all["firstOffset"], &of_all["lastOffset"]],
            [lost.0, lost.1]
        );
    }
}

/// A segment set aside in front of a log, with nothing else that tells of it.
#[test]
fn what_is_set_aside_in_front_is_lost() {
    let damaged = Damaged::of("s02-txn-tv2/data", "tx-1");
    damaged.rename(0, &FILES[..4], ".deleted");
    fs::remove_file(damaged.partition.join("leader-epoch-checkpoint")).unwrap();
    damaged.says(&[], "retention may have begun the log there");
    // Outside of a log directory the leader epochs alone say nothing.
    let damaged = Damaged::of("incidents/compacted-once/data", "state-0");
    damaged.rename(0, &FILES[..4], ".cleaned");
    let lost = [(0, 16)];
    assert_eq!(by_gaps(&damaged.partition), lost);
    assert_eq!(by_verify(&damaged.partition), lost);
}

/// What a copy that a cleaner had not finished has of a segment in use is no part of what is lost.
#[test]
fn what_is_in_use_is_not_lost_with_an_unfinished_copy() {
    for empties in [false, true] {
        let damaged = Damaged::of("incidents/interrupted-cleaner/data", "state-0");
        if empties {
            fs::write(damaged.path(12, "log"), []).unwrap();
        } else {
            damaged.remove(12, &["log"]);
        }
        damaged.says(&[(12, 20)], "unfinished");
    }
    // The next start puts what the cleaner made into place, be it the only segment.
    let damaged = Damaged::of("incidents/interrupted-cleaner/data", "state-3");
    damaged.remove(21, &FILES);
    damaged.says(&[], "replaced");
}

/// A truncation cuts the log and deletes the snapshots behind its end then, so that a crash leaves
/// one; a clean stop does not, unless somebody put it there.
#[test]
fn a_snapshot_behind_the_end_is_no_proof_of_a_loss_by_itself() {
    let with = |high_watermark, point, crashed| {
        let damaged = Damaged::of("s02-txn-tv2/data", "tx-1");
        // As if the log had been cut there.
        damaged.remove(165, &FILES);
        damaged.checkpoint(HIGH_WATERMARK, high_watermark);
        damaged.checkpoint(RECOVERY_POINT, point);
        if crashed {
            damaged.crashed();
        }
        damaged
    };
    let what = "acknowledged";
    with(Some(173), Some(173), false).says(&[(165, 172)], what);
    with(Some(173), Some(165), true).says(&[(165, 172)], what);
    let what = "cut by a follower";
    with(Some(165), Some(165), false).says(&[], what);
    with(Some(160), Some(100), true).says(&[], what);
    with(None, Some(100), true).says(&[], what);
    // The log ended behind it at the clean stop, and nobody was told that it had the records.
    let stopped = with(Some(165), Some(173), false);
    assert_eq!(by_gaps(&stopped.partition), [(165, 172)]);
    assert_eq!(by_verify(&stopped.partition), [(165, 172)]);
    assert_eq!(by_recover(&stopped.partition), []);
}

/// No broker leaves a partition without a segment in use, nor one behind its end that a cleaner had
/// not finished.
#[test]
fn what_is_set_aside_at_the_end_is_lost() {
    for (extensions, suffix) in [(&FILES[..], ".deleted"), (&FILES[..4], ".cleaned")] {
        let damaged = Damaged::of("s02-txn-tv2/data", "tx-1");
        for base in damaged.bases() {
            damaged.rename(base, extensions, suffix);
        }
        damaged.checkpoint(HIGH_WATERMARK, None);
        damaged.says(&[(0, 172)], suffix);
    }
    let damaged = Damaged::of("s02-txn-tv2/data", "tx-1");
    damaged.rename(165, &FILES[..4], ".cleaned");
    damaged.remove(173, &["snapshot"]);
    damaged.checkpoint(HIGH_WATERMARK, None);
    damaged.says(&[(165, 172)], "unfinished");
}

/// Each segment gone in each way.
#[test]
fn each_segment_is_missed_by_all_three() {
    for (fixture, partition) in [
        ("s02-txn-tv2/data", "tx-0"),
        ("s02-txn-tv2/data", "tx-1"),
        ("s03-txn-tv1/data", "tx-2"),
        ("s05-compacted/data", "compact-keep-0"),
        ("s14-replicas/data", "rep-0"),
    ] {
        let healthy = Damaged::of(fixture, partition);
        healthy.says(&[], partition);
        for base in healthy.bases() {
            for (extensions, suffix) in [
                (&FILES[..1], None),
                (&FILES[..], None),
                (&FILES[..4], None),
                (&FILES[..1], Some(".deleted")),
                (&FILES[..], Some(".deleted")),
                (&FILES[..4], Some(".cleaned")),
            ] {
                let damaged = Damaged::of(fixture, partition);
                match suffix {
                    Some(suffix) => damaged.rename(base, extensions, suffix),
                    None => damaged.remove(base, extensions),
                }
                let what = format!("{partition} {base} {extensions:?} {suffix:?}");
                let lost = by_gaps(&damaged.partition);
                // Of a segment as it was the records are counted, of one that is gone the offsets.
                let recovered = by_recover(&damaged.partition);
                if suffix.is_some() && partition.starts_with("compact") {
                    assert_eq!(lost.is_empty(), recovered.is_empty(), "{what}");
                } else {
                    assert_eq!(recovered, lost, "{what}");
                }
                let in_middle = lost.iter().all(|(_, last)| *last < i64::MAX);
                assert!(in_middle, "{what}: {lost:?}");
                let verified = by_verify(&damaged.partition).into_iter();
                let end = lost.last().map_or(i64::MAX, |(_, last)| *last);
                let verified: Ranges = verified.map(|(a, b)| (a, b.min(end))).collect();
                assert_eq!(verified, lost, "{what}");
            }
        }
    }
}
