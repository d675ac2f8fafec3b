//! Every case of `cases/`, written by kseg and compared with what Kafka wrote: the verdict and
//! every field of every step, the state in the end, and every byte of every file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

mod common;

use common::cases::{Covered, check};
use common::partitions::cases;

#[test]
fn every_case_is_written_as_kafka_wrote_it() {
    let (mut covered, mut failures) = (Covered::default(), Vec::new());
    let dirs = cases();
    for dir in &dirs {
        match check(dir) {
            Ok(more) => covered += more,
            Err(difference) => failures.push(format!("{}: {difference}", dir.display())),
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases differ\n{}",
        failures.len(),
        dirs.len(),
        failures.join("\n")
    );
    // No case is skipped; those under found/ and of `KSEG_CASES` come on top.
    assert!(covered.cases >= 176 && covered.steps >= 6361, "{covered:?}");
}
