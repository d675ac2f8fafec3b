//! Replicas made batch by batch through the append path, and what `diff` says of two of them.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]

use std::path::Path;

use kseg::append::{Checkpointed, LogConfig, PartitionLog};
use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch_builder::{
    BatchSettings, RecordBatchBuilder, SimpleRecord, encode_empty_batch,
};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::diff::{DiffOptions, DiffRow, ReplicaInput, diff_partitions};

pub const NOW: i64 = 1_790_000_000_000;

/// A batch that can be taken apart and encoded again.
#[derive(Clone, Debug)]
pub struct TestBatch {
    pub settings: BatchSettings,
    /// Offset and value.
    pub records: Vec<(i64, String)>,
    pub last_offset: i64,
}

impl TestBatch {
    pub fn base(&self) -> i64 {
        self.settings.base_offset
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(self.settings).unwrap();
        for (offset, value) in &self.records {
            let timestamp = NOW + offset;
            if self.settings.is_control_batch {
                let marker = EndTransactionMarker {
                    control_type: ControlRecordType::ABORT,
                    coordinator_epoch: 3,
                };
                let record = SimpleRecord {
                    timestamp,
                    key: Some(&marker.control_type.encode_key()),
                    value: Some(&marker.encode_value()),
                    headers: &[],
                };
                builder.append_with_offset(*offset, &record).unwrap();
                continue;
            }
            let record = SimpleRecord {
                timestamp,
                key: Some(b"key"),
                value: Some(value.as_bytes()),
                headers: &[],
            };
            builder.append_with_offset(*offset, &record).unwrap();
        }
        builder.override_last_offset(self.last_offset);
        let mut bytes = Vec::new();
        if self.records.is_empty() {
            encode_empty_batch(builder.fields(), &mut bytes).unwrap();
        } else {
            builder.build(&mut bytes).unwrap();
        }
        bytes
    }
}

/// Replicates batches into a new partition directory, so many to one fetch.
pub fn replicate(
    dir: &Path,
    batches: &[TestBatch],
    segment_bytes: i32,
    a_fetch: usize,
    start: i64,
) {
    let config = LogConfig {
        segment_bytes,
        index_interval_bytes: 100,
        segment_index_bytes: 16 * 1024,
        ..LogConfig::default()
    };
    let mut log = PartitionLog::open(dir, config, Checkpointed::NEW, None, NOW).unwrap();
    if start > 0 {
        log.truncate_fully_and_start_at(start, start).unwrap();
    }
    for fetched in batches
        .chunk_by(|a, b| a.settings.partition_leader_epoch == b.settings.partition_leader_epoch)
    {
        for fetched in fetched.chunks(a_fetch) {
            let bytes: Vec<u8> = fetched.iter().flat_map(TestBatch::encode).collect();
            let epoch = fetched[0].settings.partition_leader_epoch;
            log.append_as_follower(&bytes, epoch).unwrap().unwrap();
        }
    }
    log.close().unwrap();
}

pub fn diff(left: &Path, right: &Path) -> DiffRow {
    let options = DiffOptions {
        io: Io::Mmap,
        max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
        side_files: true,
    };
    let (left, right) = (
        PartitionDir::open(left).unwrap(),
        PartitionDir::open(right).unwrap(),
    );
    let input = |dir| ReplicaInput {
        dir,
        checkpoints: CheckpointedOffsets::default(),
    };
    diff_partitions(input(&left), input(&right), options)
        .unwrap()
        .row
}

pub fn batch(settings: BatchSettings, offset: i64, count: i64, value: &str) -> TestBatch {
    TestBatch {
        settings: BatchSettings {
            base_offset: offset,
            ..settings
        },
        records: (offset..offset + count)
            .map(|it| (it, value.to_owned()))
            .collect(),
        last_offset: offset + count - 1,
    }
}

/// Settings of a transactional producer, in leader epoch 0.
pub fn transactional(producer_id: i64, base_sequence: i32) -> BatchSettings {
    BatchSettings {
        partition_leader_epoch: 0,
        producer_id,
        producer_epoch: 0,
        base_sequence,
        is_transactional: true,
        ..BatchSettings::default()
    }
}

pub fn abort(producer_id: i64, offset: i64) -> TestBatch {
    let settings = BatchSettings {
        is_control_batch: true,
        ..transactional(producer_id, -1)
    };
    batch(settings, offset, 1, "")
}

/// A pair of replicas in a folder of their own.
pub fn pair(left: &[TestBatch], right: &[TestBatch], fetches: (usize, usize)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    replicate(&folder.path().join("a/orders-0"), left, 600, fetches.0, 0);
    replicate(&folder.path().join("b/orders-0"), right, 600, fetches.1, 0);
    folder
}

pub fn diff_in(folder: &Path) -> DiffRow {
    diff(&folder.join("a/orders-0"), &folder.join("b/orders-0"))
}
