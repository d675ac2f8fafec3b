//! What several test programs share.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a comparison picks the rows it compares; the others are someone else's"
)]

pub mod cases;
pub mod dump_compare;
pub mod expiry;
pub mod kafka_dump;
pub mod loading;
pub mod partitions;
pub mod started;

use std::fs;
use std::path::{Path, PathBuf};

/// All files in `folder` and the folders in it, sorted.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
