//! Random scenarios, written by Kafka and by kseg, everything compared.
//!
//! Needs what `scripts/differential-write` prepares, and the feature `differential`:
//! `KSEG_DIFFERENTIAL` names a folder whose sub-folders are cases as in `cases/`. Cases that
//! differ are copied into the folder that `KSEG_FOUND` names.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use common::cases::{Covered, case_dirs, check};
use common::files_below;

#[test]
fn kseg_writes_what_kafka_writes_of_random_scenarios() {
    let root = env::var_os("KSEG_DIFFERENTIAL")
        .unwrap_or_else(|| panic!("KSEG_DIFFERENTIAL is not set: run scripts/differential-write"));
    let dirs = case_dirs(&PathBuf::from(root));
    let (mut covered, mut failures) = (Covered::default(), Vec::new());
    for dir in &dirs {
        match check(dir) {
            Ok(more) => covered += more,
            Err(difference) => {
                keep(dir);
                failures.push(format!("{}: {difference}", dir.display()));
            }
        }
    }
    let shown: Vec<&str> = failures.iter().take(20).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} of {} scenarios differ:\n{}",
        failures.len(),
        dirs.len(),
        shown.join("\n")
    );
    assert!(covered.cases > 0, "nothing was compared");
    report(&covered);
}

/// A case that differs is kept, so that it is compared from now on.
fn keep(case: &Path) {
    let Some(found) = env::var_os("KSEG_FOUND") else {
        return;
    };
    let to = PathBuf::from(found).join(case.file_name().unwrap());
    for file in files_below(case) {
        let copy = to.join(file.strip_prefix(case).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&file, &copy).unwrap();
    }
}

#[expect(clippy::print_stdout, reason = "the script shows what was compared")]
fn report(covered: &Covered) {
    println!("equal: {covered:?}");
}
