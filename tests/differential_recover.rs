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

#[path = "common/random_damage.rs"]
mod random_damage;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

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
use random_damage::{Random, base_offsets};
use serde_json::{Value, json};

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
    let segments = base_offsets(&case.dir);
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
        case.what
            .extend(random_damage::damage(&case.dir, &mut random));
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
