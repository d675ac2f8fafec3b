//! `kseg recover` run on copies of fixtures.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]

#[path = "folders.rs"]
mod folders;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

pub use folders::copy;
use serde_json::Value;

/// What a run printed, as a table and row by row.
pub struct Run {
    pub status: Option<i32>,
    pub table: String,
    pub rows: Vec<Value>,
}

/// Runs the command twice: both forms end with the same status.
pub fn recover(arguments: &[&OsStr]) -> Run {
    let run = |format: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
            .args(["recover", "-o", format])
            .args(arguments)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (status, table) = run("table");
    let (same, rows) = run("ndjson");
    assert_eq!(status, same);
    let rows = rows.lines().map(|line| serde_json::from_str(line).unwrap());
    Run {
        status,
        table,
        rows: rows.collect(),
    }
}

/// A copy of a folder of the fixtures, to be changed.
pub fn copy_of(fixture: &str) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    copy(&fixtures.join(fixture), copied.path());
    copied
}
