//! Markers held against `__transaction_state`: in what brokers left each one is there, and one that
//! is taken away between two batches of its producer is missed.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::partitions::{broker_fixtures, folders_in, open, partitions_below, root};
use kseg::log::batches::Entry;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::transaction_state::{CompletedTransactions, MarkerKey, TransactionStates};
use kseg::report::verify::{CoordinatorsKnow, VerifyOptions, verify_partition};
use segments::reseal;
use serde_json::Value;
use tempfile::TempDir;

const PRODUCER_ID_OFFSET: usize = 43;
const PRODUCER_EPOCH_OFFSET: usize = 51;

/// The data folders that have a `__transaction_state`, with what it says.
fn log_dirs() -> Vec<(PathBuf, Arc<CoordinatorsKnow>)> {
    let fixtures = broker_fixtures().into_iter();
    let all = fixtures.chain(folders_in(&root().join("fixtures/incidents")));
    let folders = all.flat_map(|it| ["data", "data-2", "recovered"].map(|name| it.join(name)));
    let known = folders.filter(|it| it.is_dir()).filter_map(|data| {
        let mut completed = CompletedTransactions::default();
        let log_dirs = std::slice::from_ref(&data);
        let states = TransactionStates::load_with(log_dirs, Io::Mmap, |it| completed.add(it));
        let know = CoordinatorsKnow {
            states: Arc::new(states.unwrap()?),
            completed,
        };
        Some((data, Arc::new(know)))
    });
    known.collect()
}

fn findings(path: &Path, know: &Arc<CoordinatorsKnow>) -> Vec<Value> {
    let (dir, checkpoints) = open(path);
    let options = VerifyOptions {
        coordinators: Some(Arc::clone(know)),
        ..VerifyOptions::default()
    };
    let mut rows = Vec::new();
    verify_partition::<Error>(
        &dir,
        checkpoints,
        &options,
        |_| {},
        |finding| {
            rows.push(serde_json::to_value(finding).unwrap());
            Ok(())
        },
    )
    .unwrap();
    rows
}

fn missing(path: &Path, know: &Arc<CoordinatorsKnow>) -> Vec<Value> {
    let mut rows = findings(path, know);
    rows.retain(|row| row["kind"] == "marker-missing");
    rows
}

/// A batch of a producer.
#[derive(Clone, Debug)]
struct Written {
    file: PathBuf,
    position: usize,
    size: usize,
    offset: i64,
    producer_id: i64,
    epoch: i16,
    /// COMMIT or ABORT, of a marker.
    is_commit: Option<bool>,
}

impl Written {
    fn key(&self) -> Option<MarkerKey> {
        Some(MarkerKey {
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            is_commit: self.is_commit?,
        })
    }

    /// Changes the batch in its file, and makes the checksum right again.
    fn edit(&self, edit: impl FnOnce(&mut [u8])) {
        let mut bytes = fs::read(&self.file).unwrap();
        let batch = &mut bytes[self.position..self.position + self.size];
        edit(batch);
        reseal(batch);
        fs::write(&self.file, bytes).unwrap();
    }
}

fn written(path: &Path) -> Vec<Written> {
    let dir = PartitionDir::open(path).unwrap();
    let mut all = Vec::new();
    walk_partition::<Error>(&dir, Io::Mmap, 0, |at, entry| {
        if let Entry::Batch(batch) = entry
            && batch.header.has_producer_id()
        {
            let marker = batch.marker()?;
            all.push(Written {
                file: path.join(at.file),
                position: usize::try_from(batch.position).unwrap(),
                size: usize::try_from(batch.size_in_bytes()).unwrap(),
                offset: batch.header.base_offset(),
                producer_id: batch.header.producer_id(),
                epoch: batch.header.producer_epoch(),
                is_commit: marker.map(|it| it.control_type.name() == "COMMIT"),
            });
        }
        Ok(std::ops::ControlFlow::Continue(()))
    })
    .unwrap();
    all
}

/// A copy of a partition directory that no broker is at work in.
fn copy_of(partition: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".kafka_cleanshutdown"), "").unwrap();
    let copied = folder.path().join(partition.file_name().unwrap());
    folders::copy(partition, &copied);
    (folder, copied)
}

#[test]
fn what_brokers_left_lacks_no_marker() {
    let mut held = 0;
    for (data, know) in log_dirs() {
        for path in partitions_below(&data) {
            assert_eq!(
                missing(&path, &know),
                Vec::<Value>::new(),
                "{}",
                path.display()
            );
            let dir = PartitionDir::open(&path).unwrap();
            let (Some(topic), Some(number)) = (dir.topic(), dir.partition()) else {
                continue;
            };
            held += know.completed.of(topic, number).map_or(0, |it| it.len());
        }
    }
    assert!(held >= 150, "{held}");
}

/// The epoch rises with the marker, under transaction.version 2 and where a producer was fenced: if
/// the producer wrote before it and behind it, the marker has to lie in between.
#[test]
fn a_marker_between_two_epochs_is_missed() {
    let mut tried = 0;
    for (data, know) in log_dirs() {
        for path in partitions_below(&data) {
            let (dir, _) = open(&path);
            let (Some(topic), Some(number)) = (dir.topic(), dir.partition()) else {
                continue;
            };
            let Some(completed) = know.completed.of(topic, number) else {
                continue;
            };
            // What the cleaner took is no loss.
            if findings(&path, &know)
                .iter()
                .any(|row| row["kind"] == "compacted")
            {
                continue;
            }
            let all = written(&path);
            for (index, marker) in all.iter().enumerate() {
                let of_producer = |it: &&Written| it.producer_id == marker.producer_id;
                let before = all[..index].iter().rfind(of_producer);
                let behind = all[index + 1..].iter().find(of_producer);
                let (Some(before), Some(behind)) = (before, behind) else {
                    continue;
                };
                let is_known = marker.key().is_some_and(|key| completed.contains_key(&key));
                let is_between = before.epoch < marker.epoch
                    && (behind.epoch > marker.epoch || behind.is_commit.is_none());
                if !is_known || !is_between {
                    continue;
                }
                tried += 1;
                let (_folder, copied) = copy_of(&path);
                let file = copied.join(marker.file.file_name().unwrap());
                let hidden = Written {
                    file,
                    ..marker.clone()
                };
                hidden.edit(|batch| {
                    let id = 987_654_321_i64.to_be_bytes();
                    batch[PRODUCER_ID_OFFSET..PRODUCER_ID_OFFSET + 8].copy_from_slice(&id);
                });
                let rows = missing(&copied, &know);
                assert_eq!(rows.len(), 1, "{}: {marker:?} {rows:#?}", path.display());
                let row = &rows[0];
                assert_eq!(row["severity"], "corrupt");
                assert_eq!(row["producerId"], marker.producer_id);
                assert_eq!(row["producerEpoch"], marker.epoch);
                assert_eq!(row["offset"], behind.offset);
                assert_eq!(row["position"], behind.position);
                let id = know.states.transactional_id(marker.producer_id);
                assert_eq!(row["transactionalId"].as_str(), id);
                // A replica that ends before the marker lacks nothing.
                let bytes = fs::read(&hidden.file).unwrap();
                fs::write(&hidden.file, &bytes[..marker.position]).unwrap();
                for later in fs::read_dir(&copied).unwrap() {
                    let later = later.unwrap().path();
                    let is_log = later.extension().is_some_and(|it| it == "log");
                    if is_log && later > hidden.file {
                        fs::remove_file(later).unwrap();
                    }
                }
                assert_eq!(missing(&copied, &know), Vec::<Value>::new());
            }
        }
    }
    assert!(tried >= 20, "{tried}");
}

/// Before transaction.version 2 a producer keeps its epoch, so its markers can only be counted: one
/// that is under another epoch is missing where that epoch begins.
#[test]
fn markers_of_one_epoch_are_counted() {
    let mut tried = 0;
    for (data, know) in log_dirs() {
        for path in partitions_below(&data) {
            let (dir, _) = open(&path);
            let (Some(topic), Some(number)) = (dir.topic(), dir.partition()) else {
                continue;
            };
            let all = written(&path);
            for (key, completed) in know.completed.of(topic, number).into_iter().flatten() {
                let of_producer = || all.iter().filter(|it| it.producer_id == key.producer_id);
                let is_one_epoch = of_producer().all(|it| it.epoch == key.producer_epoch);
                let last = of_producer().next_back().unwrap();
                let same = of_producer().filter(|it| it.key() == Some(*key)).count() as u64;
                let has_data = of_producer().any(|it| it.is_commit.is_none());
                if !is_one_epoch || !has_data || last.key() != Some(*key) || same != completed.count
                {
                    continue;
                }
                tried += 1;
                let (_folder, copied) = copy_of(&path);
                let last = Written {
                    file: copied.join(last.file.file_name().unwrap()),
                    ..last.clone()
                };
                last.edit(|batch| {
                    let epoch = (key.producer_epoch + 1).to_be_bytes();
                    batch[PRODUCER_EPOCH_OFFSET..PRODUCER_EPOCH_OFFSET + 2].copy_from_slice(&epoch);
                });
                let rows = missing(&copied, &know);
                assert_eq!(rows.len(), 1, "{}: {key:?} {rows:#?}", path.display());
                assert_eq!(rows[0]["offset"], last.offset);
                assert_eq!(rows[0]["producerEpoch"], key.producer_epoch);
                assert_eq!(rows[0]["cost"]["transactions"], 1);
            }
        }
    }
    assert!(tried >= 10, "{tried}");
}
