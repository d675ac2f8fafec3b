//! `kseg verify` run on copies of fixtures.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]

#[path = "folders.rs"]
pub mod folders;
#[path = "segments.rs"]
pub mod segments;

use std::path::PathBuf;
use std::process::{Command, Output};

use folders::copy;
use segments::{batches_of, fixtures};
use serde_json::Value;
use tempfile::TempDir;

/// The middle one of three segments, and the last one.
pub const MIDDLE: &str = "tx-1/00000000000000000089";
pub const LAST: &str = "tx-1/00000000000000000165";

/// A copy of a broker's log directory after a clean stop.
pub struct Copied(pub TempDir);

impl Copied {
    pub fn of(path: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        copy(&fixtures().join(path), &folder.path().join("data"));
        Self(folder)
    }

    pub fn transactions() -> Self {
        Self::of("s02-txn-tv2/data")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("data").join(name)
    }

    pub fn run(&self, arguments: &[&str], names: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_kseg"))
            .arg("verify")
            .args(arguments)
            .args(names.iter().map(|name| self.path(name)))
            .output()
            .unwrap()
    }

    pub fn alarms(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [&["-o", "ndjson"], arguments].concat();
        let output = self.run(&arguments, &[""]);
        let rows = String::from_utf8(output.stdout).unwrap();
        let rows = rows.lines().map(|line| serde_json::from_str(line).unwrap());
        let rows: Vec<Value> = rows
            .filter(|row: &Value| row["severity"] != "notable")
            .collect();
        assert_eq!(output.status.code(), Some(i32::from(!rows.is_empty())));
        rows
    }
}

pub fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key]
        .as_str()
        .unwrap_or_else(|| panic!("{key}: {row:#}"))
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Position, size and first offset of each batch of a sound segment.
pub fn batches(bytes: &[u8]) -> Vec<(usize, usize, i64)> {
    let offset = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    batches_of(bytes)
        .into_iter()
        .map(|(position, size)| (position, size, offset(position)))
        .collect()
}
