//! When a batch is in the file: as its append returns, or later if the log was opened so.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops where something is not as it must be"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use kseg::append::{Checkpointed, Error, LeaderAppend, LogConfig, PartitionLog};
use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};

const NOW_MS: i64 = 1_790_000_000_000;

fn open(dir: &Path, write_buffer_bytes: usize) -> PartitionLog {
    let config = LogConfig {
        fsync: false,
        write_buffer_bytes,
        ..LogConfig::default()
    };
    PartitionLog::open(dir, config, Checkpointed::NEW, None, NOW_MS).unwrap()
}

/// A way to end with a log, or a segment of it.
type End = fn(&mut PartitionLog);

/// Appends a batch of one record; returns its bytes as they are to lie in the file.
fn append(log: &mut PartitionLog, value_bytes: usize) -> Vec<u8> {
    let mut builder = RecordBatchBuilder::new(BatchSettings::default()).unwrap();
    let value = vec![b'v'; value_bytes];
    let record = SimpleRecord {
        timestamp: NOW_MS,
        value: Some(&value),
        ..SimpleRecord::default()
    };
    builder.append(&record).unwrap();
    let mut batch = Vec::new();
    builder.build(&mut batch).unwrap();
    log.append_as_leader(&mut batch, &LeaderAppend::default())
        .unwrap();
    batch
}

fn in_file(dir: &Path) -> Vec<u8> {
    fs::read(dir.join("00000000000000000000.log")).unwrap()
}

#[test]
fn a_batch_is_in_the_file_when_its_append_returns() {
    let dir = tempfile::tempdir().unwrap();
    let config = LogConfig::default();
    assert_eq!(config.write_buffer_bytes, 0);
    let mut log = open(dir.path(), config.write_buffer_bytes);
    let mut batches = append(&mut log, 10);
    assert_eq!(in_file(dir.path()), batches);
    batches.extend(append(&mut log, 10));
    assert_eq!(in_file(dir.path()), batches);
}

#[test]
fn gathered_batches_are_in_the_file_once_they_are_too_many_or_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path(), 1000);
    let mut batches = append(&mut log, 500);
    assert!(in_file(dir.path()).is_empty());
    // The log itself knows them.
    assert_eq!(log.log_end_offset(), 1);
    assert_eq!(log.size_in_bytes(), batches.len() as u64);

    // Written up to a multiple of what may wait.
    batches.extend(append(&mut log, 500));
    assert_eq!(in_file(dir.path()), batches[..1000]);
    log.write_buffered().unwrap();
    assert_eq!(in_file(dir.path()), batches);

    // One that is larger than all that may wait, too.
    batches.extend(append(&mut log, 10));
    batches.extend(append(&mut log, 2000));
    assert_eq!(in_file(dir.path()), batches[..batches.len() / 1000 * 1000]);

    batches.extend(append(&mut log, 10));
    log.flush(false).unwrap();
    assert_eq!(in_file(dir.path()), batches);
}

#[test]
fn gathered_batches_are_in_the_file_after_a_kill_a_close_a_roll_and_a_drop() {
    let ends: [(&str, End); 3] = [
        ("kill", |log| log.kill().unwrap()),
        ("close", |log| log.close().unwrap()),
        ("roll", |log| assert_eq!(log.roll().unwrap(), 1)),
    ];
    for (name, end) in ends {
        let dir = tempfile::tempdir().unwrap();
        let mut log = open(dir.path(), 1000);
        let batch = append(&mut log, 10);
        assert!(in_file(dir.path()).is_empty(), "{name}");
        end(&mut log);
        assert_eq!(in_file(dir.path()), batch, "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path(), 1000);
    let batch = append(&mut log, 10);
    drop(log);
    assert_eq!(in_file(dir.path()), batch);
}

#[test]
fn blocks_reserved_ahead_are_given_back() {
    const PIECE: usize = 64 * 1024;
    let ends: [(&str, End); 4] = [
        ("kill", |log| log.kill().unwrap()),
        ("close", |log| log.close().unwrap()),
        ("roll", |log| assert!(log.roll().is_ok())),
        ("cut", |log| assert!(log.truncate_to(30).unwrap())),
    ];
    for (name, end) in ends {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000.log");
        let mut log = open(dir.path(), PIECE);
        for _ in 0..40 {
            append(&mut log, 10_000);
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), 6 * PIECE as u64);
        end(&mut log);
        let metadata = fs::metadata(&path).unwrap();
        let allocated = metadata.blocks() * 512;
        assert!(
            allocated < metadata.len() + PIECE as u64,
            "{name}: {allocated} bytes allocated for {}",
            metadata.len()
        );
    }
}

/// Another start has the files by the time that the log which was killed is dropped.
#[test]
fn a_killed_log_takes_nothing_and_leaves_its_files_alone() {
    const PIECE: usize = 64 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.log");
    let mut log = open(dir.path(), PIECE);
    let mut batch = Vec::new();
    for _ in 0..40 {
        batch = append(&mut log, 10_000);
    }
    log.kill().unwrap();
    // As the client had sent it.
    batch[..8].fill(0);
    let refused = log.append_as_leader(&mut batch, &LeaderAppend::default());
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
    assert!(matches!(log.roll(), Err(Error::Closed)));
    assert!(matches!(log.flush(false), Err(Error::Closed)));
    assert_eq!(log.log_end_offset(), 40);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(100).unwrap();
    drop(log);
    assert_eq!(fs::metadata(&path).unwrap().len(), 100);
}

#[test]
fn gathered_batches_can_be_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = open(dir.path(), 1000);
    let first = append(&mut log, 10);
    append(&mut log, 10);
    assert!(log.truncate_to(1).unwrap());
    assert_eq!(log.log_end_offset(), 1);
    assert_eq!(in_file(dir.path()), first);
    let second = append(&mut log, 20);
    log.write_buffered().unwrap();
    assert_eq!(in_file(dir.path()), [first, second].concat());
}
