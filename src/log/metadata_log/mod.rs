//! What the KRaft metadata log in a `__cluster_metadata-0` directory says: the topics there are at
//! its end, by its newest snapshot and the records behind it.
//!
//! A broker looks at its partitions once it has read the metadata up to the high watermark that the
//! controllers tell it. No file has that, so the end of the log here stands for it: as far as this
//! node had come when it stopped. Decides `KafkaRaftLog`, `KafkaRaftClient`, `MetadataLoader`.

mod cluster;
pub mod snapshot;
mod topics_image;

use std::fmt;
use std::ops::ControlFlow;

pub(super) use self::cluster::Known;
pub use self::cluster::{ClusterMetadata, UnusableMetadataLog};
pub use self::topics_image::{Assignment, TopicsImage};

use self::snapshot::walk_snapshot;
use self::topics_image::TopicsLoader;
use super::batches::{Batch, Entry};
use super::damage::DamageKind;
use super::partition_dir::{FileEntry, PartitionDir};
use super::partition_walk::walk_partition;
use super::records::{DEFAULT_MAX_BATCH_BYTES, Unpacker};
use super::{Error, Io};
use crate::format::file_name::{FileState, LogFileKind, SnapshotId};
use crate::format::topics_record::TopicsRecord;

/// The snapshot that formatting leaves: its records come in the log again, and brokers pass over it
/// (`Snapshots.BOOTSTRAP_SNAPSHOT_ID`).
const BOOTSTRAP: SnapshotId = SnapshotId {
    end_offset: 0,
    epoch: 0,
};

/// What a metadata log says.
#[derive(Clone, Debug)]
pub struct MetadataLog {
    /// The topics at its end.
    pub topics: TopicsImage,
    /// The offset behind its last record.
    pub end_offset: i64,
}

/// Why it cannot be told what a metadata log says: one that lacks a record may say the contrary of
/// what it said.
#[derive(Debug)]
pub enum Unusable {
    /// It says nothing, or something is wrong with it: what, and in which file if in one.
    Says(String),
    /// It has a record that Kafka 4.3.1 does not know: which, of what version and in which file.
    Newer(String),
    /// It cannot be read.
    Unreadable(Error),
}

impl From<Error> for Unusable {
    fn from(error: Error) -> Self {
        Self::Unreadable(error)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Says(what) | Self::Newer(what) => f.write_str(what),
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

/// The newest snapshot in use in a metadata log's directory (`KafkaRaftLog.latestSnapshotId`).
#[must_use]
fn newest_snapshot(dir: &PartitionDir) -> Option<(SnapshotId, &FileEntry)> {
    let snapshots = dir.files.iter().filter_map(|file| {
        let parsed = &file.parsed;
        let (LogFileKind::KRaftSnapshot(id), FileState::Live) = (&parsed.kind, parsed.state) else {
            return None;
        };
        Some((*id, file))
    });
    let newest = snapshots.max_by_key(|(id, _)| (id.epoch, id.end_offset));
    newest.filter(|(id, _)| *id != BOOTSTRAP)
}

impl MetadataLog {
    /// Reads it, all checksums included: a broker cuts the log at the first batch that has a wrong
    /// one, and reads what is missing from the controllers.
    ///
    /// # Errors
    /// If a file cannot be read, the log says nothing, or anything in it is not as Kafka writes it.
    /// A last batch that is not all there is not one: nobody can have followed it yet.
    pub fn read(dir: &PartitionDir, io: Io) -> Result<Self, Unusable> {
        let mut reading = Reading {
            loader: TopicsLoader::default(),
            unpacker: Unpacker::new(DEFAULT_MAX_BATCH_BYTES),
            end_offset: 0,
            last_epoch: None,
        };
        let snapshot = newest_snapshot(dir);
        if let Some((id, file)) = snapshot {
            reading.snapshot(dir, (id, file), io)?;
            reading.end_offset = id.end_offset;
        }
        reading.log(dir, io)?;
        // A start drops a log that ends in an earlier epoch than the snapshot was made in.
        if let Some(((id, _), last_epoch)) = snapshot.zip(reading.last_epoch)
            && last_epoch < id.epoch
            && reading.end_offset > id.end_offset
        {
            let epoch = id.epoch;
            return Err(Unusable::Says(format!(
                "the log ends in epoch {last_epoch} and its newest snapshot is of epoch {epoch}"
            )));
        }
        let nothing = || Unusable::Says("no record of a controller has come yet".to_owned());
        Ok(Self {
            topics: reading.loader.finish().ok_or_else(nothing)?,
            end_offset: reading.end_offset,
        })
    }
}

struct Reading {
    loader: TopicsLoader,
    unpacker: Unpacker,
    /// Records from here on are new.
    end_offset: i64,
    last_epoch: Option<i32>,
}

impl Reading {
    fn snapshot(
        &mut self,
        dir: &PartitionDir,
        (id, file): (SnapshotId, &FileEntry),
        io: Io,
    ) -> Result<(), Unusable> {
        let name = file.name();
        let Some(opened) = dir.open_file(file, io)? else {
            return Err(says(&name, "it vanished while reading"));
        };
        let defect = walk_snapshot(&opened, &id, |batch| self.batch(batch, i64::MIN, &name))?;
        match defect {
            None => Ok(()),
            Some(it) => {
                let (position, found, expected) = (it.position, it.found, it.expected);
                let what = format!("{found} at {position}, expected {expected}");
                Err(says(&name, &what))
            }
        }
    }

    fn log(&mut self, dir: &PartitionDir, io: Io) -> Result<(), Unusable> {
        let from = self.end_offset;
        let log_start = dir.segments.first().map_or(0, |first| first.base_offset);
        if log_start > from {
            let what =
                format!("the log begins at {log_start}, and no snapshot has what was before");
            return Err(Unusable::Says(what));
        }
        let last_segment = dir.segments.len().saturating_sub(1);
        let mut next_offset = None;
        let vanished = walk_partition(dir, io, 0, |at, entry| {
            let batch = match entry {
                Entry::Batch(batch) => batch,
                Entry::Legacy(entry) => {
                    let position = entry.position;
                    let what = format!("a message of an old format at {position}");
                    return Err(says(at.file, &what));
                }
                Entry::Damage(damage)
                    if damage.kind == DamageKind::TornTail && at.index == last_segment =>
                {
                    return Ok(ControlFlow::Continue(()));
                }
                Entry::Damage(damage) => {
                    let what = format!("{damage} at {}", damage.position);
                    return Err(says(at.file, &what));
                }
            };
            let (header, position) = (batch.header, batch.position);
            if !batch.is_valid()? {
                let what = format!("the batch at {position} has a wrong checksum");
                return Err(says(at.file, &what));
            }
            let base_offset = header.base_offset();
            let expected = next_offset.unwrap_or(base_offset.min(from));
            if base_offset != expected {
                let what = format!("offset {expected} is missing, {base_offset} follows");
                return Err(says(at.file, &what));
            }
            next_offset = Some(header.next_offset());
            self.last_epoch = Some(header.partition_leader_epoch());
            if header.last_offset() >= from && !header.attributes().is_control() {
                self.batch(&batch, from, at.file)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if !vanished.is_empty() {
            return Err(Unusable::Says(
                "a segment vanished while reading".to_owned(),
            ));
        }
        self.end_offset = from.max(next_offset.unwrap_or(from));
        Ok(())
    }

    /// Takes in the records from `from` on.
    fn batch(&mut self, batch: &Batch<'_>, from: i64, file: &str) -> Result<(), Unusable> {
        let loader = &mut self.loader;
        let bad = self.unpacker.batch(batch, |record| {
            if record.offset < from {
                return Ok(());
            }
            let of = |what: &str| says(file, &format!("record {}: {what}", record.offset));
            match (record.key, record.value) {
                (None, Some(value)) => loader.replay(value).map_err(|what| {
                    let what = format!("{file}: record {}: {what}", record.offset);
                    if TopicsRecord::decode(value).is_err_and(|it| it.is_newer()) {
                        Unusable::Newer(what)
                    } else {
                        Unusable::Says(what)
                    }
                }),
                (Some(_), _) => Err(of("records of this topic have no key")),
                (None, None) => Err(of("records of this topic have a value")),
            }
        })?;
        match bad {
            None => Ok(()),
            Some(bad) => Err(says(
                file,
                &format!("batch at {}: {}", batch.position, bad.error),
            )),
        }
    }
}

fn says(file: &str, what: &str) -> Unusable {
    Unusable::Says(format!("{file}: {what}"))
}
