//! What tables say beside their rows: first lines, names of partitions, folded runs.

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
#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use std::path::{Path, PathBuf};

use program::run;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(path)
}

/// A partition that does not come up is not one in which nothing was lost.
#[test]
fn a_first_line_says_that_a_partition_did_not_load() {
    let copy = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("incidents/zero-tail/data/orders-0", "orders-0"),
        ("incidents/retry-after-restart/data/orders-0", "orders-7"),
    ] {
        folders::copy(&fixture(from), &copy.path().join(to));
    }
    for command in ["gaps", "lso", "txns", "aborted"] {
        let arguments = [command, "--as-loaded", "--start", "clean", "."];
        let run = run(copy.path(), arguments);
        assert_eq!(run.status, 2, "{run:?}");
        let first = run.stdout.lines().next().unwrap_or_default();
        assert!(first.ends_with("not all could be looked at"), "{run:?}");
    }
}
