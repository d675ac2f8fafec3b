//! A start over thousands of segments, all of which are recovered: the work for a segment may not
//! grow with the number of segments.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

use std::fs;
use std::path::Path;

use kseg::append::dry_run::row::{ActionKind, Start};
use kseg::append::dry_run::{DryRun, DryRunOptions, dry_run};
use kseg::append::{Checkpointed, LeaderAppend, LogConfig, PartitionLog};
use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;

const SEGMENTS: i64 = 3_000;

fn config() -> LogConfig {
    LogConfig {
        segment_index_bytes: 64,
        fsync: false,
        ..LogConfig::default()
    }
}

/// A batch of one record, as an idempotent producer sends it.
fn batch(sequence: i32) -> Vec<u8> {
    let settings = BatchSettings {
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: sequence,
        ..BatchSettings::default()
    };
    let mut builder = RecordBatchBuilder::new(settings).unwrap();
    builder.append(&SimpleRecord::default()).unwrap();
    let mut bytes = Vec::new();
    builder.build(&mut bytes).unwrap();
    bytes
}

/// A log with one batch in each segment.
fn write(dir: &Path) {
    let mut log = PartitionLog::open(dir, config(), Checkpointed::NEW, None, 0).unwrap();
    for offset in 0..SEGMENTS {
        if offset > 0 {
            log.roll().unwrap();
        }
        let mut bytes = batch(i32::try_from(offset).unwrap());
        log.append_as_leader(&mut bytes, &LeaderAppend::default())
            .unwrap();
        log.run_due_tasks().unwrap();
    }
    log.close().unwrap();
}

fn start(dir: &Path) -> DryRun {
    let options = DryRunOptions {
        io: Io::Read,
        config: config(),
        now_ms: None,
        is_clean: false,
    };
    let dir = PartitionDir::open(dir).unwrap();
    let from_the_beginning = CheckpointedOffsets::default();
    dry_run(&dir, from_the_beginning, Start::Unclean, &options).unwrap()
}

#[test]
fn thousands_of_segments_are_recovered() {
    let work = tempfile::tempdir().unwrap();
    let dir = work.path().join("many-0");
    write(&dir);
    let count = usize::try_from(SEGMENTS).unwrap();

    let row = start(&dir).row;
    assert_eq!(row.segments_recovered.len(), count);
    assert_eq!(row.log_end_offset, Some(SEGMENTS));
    assert_eq!(row.producers[0].last_offset, Some(SEGMENTS - 1));
    assert_eq!(row.work.replayed_bytes, 0, "each begins at a snapshot");
    assert!(!row.loses_data);

    // One snapshot more or less makes no segment be read twice.
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "snapshot") {
            fs::remove_file(path).unwrap();
        }
    }
    let row = start(&dir).row;
    assert_eq!(row.segments_recovered.len(), count);
    assert_eq!(row.producers[0].last_offset, Some(SEGMENTS - 1));
    assert_eq!(row.work.replayed_bytes, 0);

    // A batch that is not good near the beginning: all segments behind it go.
    let log = dir.join("00000000000000000002.log");
    let mut bytes = fs::read(&log).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&log, bytes).unwrap();
    let row = start(&dir).row;
    assert_eq!(row.log_end_offset, Some(2));
    assert_eq!(row.segments_recovered.len(), 3);
    let removed = row.actions.iter();
    let removed = removed.filter(|it| it.kind == ActionKind::Remove && it.file.ends_with(".log"));
    assert_eq!(removed.count(), count - 3);
    assert_eq!(row.losses.records, u64::try_from(SEGMENTS - 3).unwrap());
    assert_eq!(row.losses.last_offset, Some(SEGMENTS - 1));
}
