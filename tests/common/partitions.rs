//! Partition directories under `fixtures/` and `cases/`, and what lies beside them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use kseg::log::checkpoints::{CheckpointedOffsets, Checkpoints};
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::gaps::{GapOptions, GapRow, find_gaps};
use serde_json::Value;

use super::cases::case_dirs;

/// The folder of the package.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folders in `folder`, sorted.
pub fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

/// A JSON file; null if it is not there.
pub fn json(path: &Path) -> Value {
    fs::read_to_string(path).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
}

/// The rows of `gaps` of a partition, as JSON.
pub fn gap_rows(path: &Path) -> Vec<Value> {
    let (dir, checkpoints) = open(path);
    let mut rows = Vec::new();
    find_gaps::<Error>(&dir, checkpoints, &GapOptions::default(), |finding| {
        rows.push(serde_json::to_value(GapRow::new(finding, &dir)).unwrap());
        Ok(())
    })
    .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    rows
}

/// A partition directory, with the checkpoints of the folder above it.
pub fn open(path: &Path) -> (PartitionDir, CheckpointedOffsets) {
    let dir = PartitionDir::open(path).unwrap();
    let checkpoints = Checkpoints::read(path.parent().unwrap(), Io::Mmap);
    let offsets = match (dir.topic(), dir.partition()) {
        (Some(topic), Some(partition)) => checkpoints.of(topic, partition),
        _ => CheckpointedOffsets::default(),
    };
    (dir, offsets)
}

/// All partition directories below `folder`: those with a `.log` in them.
pub fn partitions_below(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = super::files_below(folder)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "log"))
        .map(|file| file.parent().unwrap().to_owned())
        .collect();
    found.dedup();
    found
}

/// Every case directory: those of `cases/`, and [`fresh_cases`].
pub fn cases() -> Vec<PathBuf> {
    let mut cases = case_dirs(&root().join("cases"));
    cases.extend(fresh_cases());
    cases
}

/// The case directories below the folders that `KSEG_CASES` names, separated by colons: more
/// cases of the oracle for every test that goes through those of `cases/`.
pub fn fresh_cases() -> Vec<PathBuf> {
    let folders = env::var_os("KSEG_CASES").unwrap_or_default();
    let named = env::split_paths(&folders).filter(|it| !it.as_os_str().is_empty());
    named
        .flat_map(|folder| {
            let found = case_dirs(&folder);
            assert!(!found.is_empty(), "no case in {}", folder.display());
            found
        })
        .collect()
}

/// Fixtures made by real brokers, without the incidents.
pub fn broker_fixtures() -> Vec<PathBuf> {
    let mut fixtures = folders_in(&root().join("fixtures"));
    fixtures.retain(|fixture| !fixture.ends_with("incidents"));
    fixtures
}

/// Standard base64.
pub fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("not base64: {other}"),
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(value).collect();
    let mut bytes = Vec::new();
    for chunk in digits.chunks(4) {
        let bits = chunk
            .iter()
            .fold(0u32, |bits, digit| bits << 6 | u32::from(*digit))
            << (6 * (4 - chunk.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    bytes
}
