//! A start over thousands of segments, all of which are recovered: the work for a segment may not
//! grow with the number of segments.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

use std::fs;
use std::path::Path;

use kseg::append::LogConfig;
use kseg::append::dry_run::row::{ActionKind, Start};
use kseg::append::dry_run::{DryRun, DryRunOptions, dry_run};
use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;

const SEGMENTS: i64 = 3_000;

fn config() -> LogConfig {
    LogConfig {
        segment_index_bytes: 64,
        ..LogConfig::default()
    }
}

/// A batch of one record of an idempotent producer, as it lies in a log.
fn batch(offset: i64) -> Vec<u8> {
    let settings = BatchSettings {
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: i32::try_from(offset).unwrap(),
        ..BatchSettings::default()
    };
    let mut builder = RecordBatchBuilder::new(settings).unwrap();
    builder.append(&SimpleRecord::default()).unwrap();
    let mut bytes = Vec::new();
    builder.build(&mut bytes).unwrap();
    // No checksum covers it.
    bytes[..8].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// A log with one batch in each segment, and no entry in any index.
fn write(dir: &Path) {
    fs::create_dir(dir).unwrap();
    for offset in 0..SEGMENTS {
        let file = |suffix: &str| dir.join(format!("{offset:020}.{suffix}"));
        fs::write(file("log"), batch(offset)).unwrap();
        fs::write(file("index"), "").unwrap();
        fs::write(file("timeindex"), "").unwrap();
    }
}

fn start(dir: &Path) -> DryRun {
    let options = DryRunOptions {
        io: Io::Read,
        config: config(),
        now_ms: None,
        is_clean: false,
        index_memory: 0,
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
    assert_eq!(
        row.work.replayed_bytes, 0,
        "each begins at the snapshot of the one before it"
    );
    assert!(!row.loses_data);

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
