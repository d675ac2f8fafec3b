//! Directories damaged at random, loaded by Kafka and played through by kseg, everything compared.
//!
//! Needs what `scripts/differential-recover` prepares, and the feature `differential`.
//! `KSEG_DIFFERENTIAL` names an empty folder to work in, `KSEG_SEED` and `KSEG_COUNT` say which
//! cases; `KSEG_MORE` may name a folder with more directories to begin with. A case that differs
//! stays in the folder, beside what was asked of Kafka and what it answered.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::files_below;
use common::partitions::{partitions_below, root};
use common::started::{Case, compare};
use kseg::append::dry_run::row::Start;
use kseg::log::partition_dir::PartitionDir;
use serde_json::{Value, json};

/// A small generator whose numbers are the same everywhere (`xorshift64*`).
struct Random(u64);

impl Random {
    fn new(seed: u64, case: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (case + 1).wrapping_mul(0xbf58_476d);
        Self(mixed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % end.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

impl Case {
    /// Names of the files, sorted.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn bases(&self) -> Vec<i64> {
        let files = self.files();
        let logs = files.iter().filter_map(|name| name.strip_suffix(".log"));
        logs.filter_map(|base| base.parse().ok()).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn damage(&mut self, random: &mut Random) {
        let files = self.files();
        let pick = |random: &mut Random, suffix: &str| -> Option<String> {
            let fitting: Vec<&String> = files.iter().filter(|it| it.ends_with(suffix)).collect();
            (!fitting.is_empty()).then(|| (*random.pick(&fitting)).clone())
        };
        let suffix = *random.pick(&[
            ".log",
            ".log",
            ".log",
            ".log",
            ".index",
            ".index",
            ".timeindex",
            ".txnindex",
            ".txnindex",
            ".snapshot",
            ".snapshot",
            ".snapshot",
            "checkpoint",
            "metadata",
            "segment",
            "segment",
            "all",
        ]);
        match suffix {
            "segment" => self.move_segment(random),
            "all" => {
                let suffix = *random.pick(&[".snapshot", ".txnindex", ".index", ".timeindex"]);
                for name in files.iter().filter(|name| name.ends_with(suffix)) {
                    fs::remove_file(self.path(name)).unwrap();
                }
                self.what.push(format!("no {suffix}"));
            }
            _ => {
                let Some(name) = pick(random, suffix) else {
                    return;
                };
                self.change_file(&name, random);
            }
        }
    }

    fn change_file(&mut self, name: &str, random: &mut Random) {
        let path = self.path(name);
        let mut bytes = fs::read(&path).unwrap();
        let size = bytes.len();
        let what = match random.below(10) {
            0 | 1 => {
                bytes.truncate(random.below(size + 1));
                format!("cut to {}", bytes.len())
            }
            2 | 3 if size > 0 => {
                let at = random.below(size);
                bytes[at] ^= 1 << random.below(8);
                format!("flip in byte {at}")
            }
            4 if size > 0 => {
                let at = random.below(size);
                bytes[at..].fill(0);
                format!("zeros from {at}")
            }
            5 => {
                let more = *random.pick(&[1, 3, 8, 12, 17, 18, 40, 200]);
                bytes.resize(size + more, 0);
                format!("{more} zeros more")
            }
            6 => {
                let more = *random.pick(&[3, 8, 12, 34, 70]);
                bytes.extend((0..more).map(|_| u8::try_from(random.below(256)).unwrap()));
                format!("{more} bytes more")
            }
            7 => {
                fs::remove_file(&path).unwrap();
                self.what.push(format!("{name} removed"));
                return;
            }
            8 if name.ends_with(".log") && size > 61 => {
                far_offsets(&mut bytes, random);
                "offsets far apart".to_owned()
            }
            9 if name.ends_with(".log") && size > 61 => {
                let at = random.below(size / 2);
                let copy = bytes[at..(at + 100).min(size)].to_vec();
                bytes.extend(copy);
                "a piece again at the end".to_owned()
            }
            _ if name.ends_with(".snapshot") => {
                let to = format!("{:020}.snapshot", random.below(200));
                fs::rename(&path, self.path(&to)).unwrap();
                self.what.push(format!("{name} renamed to {to}"));
                return;
            }
            _ if name.ends_with("checkpoint") => {
                let lines = [
                    "0\n2\n0 0\n1 5\n",
                    "0\n1\n0 0\n1 5\n",
                    "1\n0\n",
                    "0\n1\n3 7\n",
                    "x",
                ];
                bytes = random.pick(&lines).as_bytes().to_vec();
                "other lines".to_owned()
            }
            _ => return,
        };
        fs::write(&path, bytes).unwrap();
        self.what.push(format!("{name}: {what}"));
    }

    /// All files of a segment get a suffix, or go; or copies of them get one.
    fn move_segment(&mut self, random: &mut Random) {
        let bases = self.bases();
        if bases.is_empty() {
            return;
        }
        let base = *random.pick(&bases);
        let suffix = *random.pick(&["", ".deleted", ".cleaned", ".swap", ".swap"]);
        let copies = random.one_in(2);
        for ending in ["log", "index", "timeindex", "txnindex"] {
            let from = self.path(&format!("{base:020}.{ending}"));
            if !from.exists() {
                continue;
            }
            if suffix.is_empty() {
                fs::remove_file(&from).unwrap();
                continue;
            }
            let to = self.path(&format!("{base:020}.{ending}{suffix}"));
            fs::copy(&from, &to).unwrap();
            if !copies {
                fs::remove_file(&from).unwrap();
            }
        }
        self.what
            .push(format!("segment {base} as {suffix:?}, copied {copies}"));
    }
}

/// Moves the offsets of the last batches, or of one in the middle, out of reach of the index. No
/// checksum covers them.
fn far_offsets(bytes: &mut [u8], random: &mut Random) {
    let mut starts = Vec::new();
    let mut position = 0;
    while let Some(length) = bytes.get(position + 8..position + 12) {
        let length = i32::from_be_bytes(length.try_into().unwrap());
        starts.push(position);
        position += 12 + usize::try_from(length).unwrap_or(usize::MAX / 2);
    }
    let first = random.below(starts.len());
    let last = if random.one_in(3) {
        first + 1
    } else {
        starts.len()
    };
    for &start in starts.get(first..last).unwrap_or_default() {
        let field = &mut bytes[start..start + 8];
        let offset = i64::from_be_bytes(field.try_into().unwrap());
        field.copy_from_slice(&(offset + 2_147_483_648).to_be_bytes());
    }
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in files_below(from) {
        if file.parent() == Some(from) {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
}

fn make_case(work: &Path, bases: &[PathBuf], seed: u64, number: u64) -> Case {
    let mut random = Random::new(seed, number);
    for _ in 0..8 {
        random.next();
    }
    let base = random.pick(bases).clone();
    let name = base.file_name().unwrap().to_owned();
    let dir = work.join(format!("{number:05}/before")).join(&name);
    let kafka_dir = work.join(format!("{number:05}/kafka")).join(&name);
    copy_dir(&base, &dir);
    let mut case = Case {
        dir,
        kafka_dir,
        start: if random.one_in(2) {
            Start::Clean
        } else {
            Start::Unclean
        },
        log_start_offset: 0,
        recovery_point: 0,
        now_ms: *random.pick(&[0, 1_700_000_000_000, 1_768_464_012_000, 1_900_000_000_000]),
        interval: *random.pick(&[64, 256, 4096]),
        what: vec![base.display().to_string()],
    };
    let segments = case.bases();
    let some = |random: &mut Random| match random.below(4) {
        0 => segments.first().copied().unwrap_or(0),
        1 if !segments.is_empty() => *random.pick(&segments),
        2 => i64::try_from(random.below(200)).unwrap(),
        _ => 0,
    };
    case.recovery_point = some(&mut random);
    if random.one_in(4) {
        case.log_start_offset = some(&mut random);
    }
    for _ in 0..random.below(4) {
        case.damage(&mut random);
    }
    copy_dir(&case.dir, &case.kafka_dir);
    case
}

#[test]
fn kseg_predicts_what_kafka_does_with_damaged_directories() {
    let number = |name: &str| -> u64 {
        let value = env::var(name)
            .unwrap_or_else(|_| panic!("{name} is not set: run scripts/differential-recover"));
        value.parse().unwrap()
    };
    let work = PathBuf::from(env::var_os("KSEG_DIFFERENTIAL").unwrap());
    let (seed, count) = (number("KSEG_SEED"), number("KSEG_COUNT"));
    let mut bases = partitions_below(&root().join("cases"));
    bases.extend(partitions_below(&root().join("fixtures/incidents")));
    bases.extend(
        env::var_os("KSEG_MORE")
            .iter()
            .flat_map(|more| partitions_below(Path::new(more))),
    );
    bases.retain(|dir| PartitionDir::open(dir).unwrap().partition().is_some());
    bases.sort();
    let first = env::var("KSEG_FIRST").map_or(0, |first| first.parse().unwrap());
    let cases: Vec<Case> = (first..first + count)
        .map(|number| make_case(&work, &bases, seed, number))
        .collect();
    let requests: Vec<String> = cases
        .iter()
        .map(|case| case.request().to_string())
        .collect();
    fs::write(work.join("requests"), requests.join("\n")).unwrap();
    let oracle = root().join("tests/oracle/log-oracle/run");
    let status = Command::new(oracle)
        .arg("load")
        .arg(work.join("requests"))
        .arg(work.join("answers"))
        .status()
        .unwrap();
    assert!(status.success(), "the oracle failed");
    let answers = fs::read_to_string(work.join("answers")).unwrap();
    let answers: Vec<Value> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), cases.len());
    let mut failures = Vec::new();
    let mut loaded = 0;
    for (case, answer) in cases.iter().zip(&answers) {
        loaded += u64::from(answer["loads"] == json!(true));
        let differences = compare(case, answer);
        if differences.is_empty() {
            fs::remove_dir_all(case.dir.parent().unwrap().parent().unwrap()).unwrap();
        } else {
            failures.push(format!(
                "{} {} {:?}\n  {}\n  {}",
                case.dir.display(),
                case.start.name(),
                case.what,
                case.request(),
                differences.join("\n  ")
            ));
        }
    }
    let shown: Vec<&str> = failures.iter().take(20).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} of {count} directories differ:\n{}",
        failures.len(),
        shown.join("\n")
    );
    report(count, loaded);
}

#[expect(clippy::print_stdout, reason = "the script shows what was compared")]
fn report(count: u64, loaded: u64) {
    println!("equal: {count} starts, {loaded} of which came up");
}
