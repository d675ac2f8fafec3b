//! Batches whose records section is that of a batch in another partition (KAFKA-19012): the header
//! cannot tell records of another topic.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use crate::log::batches::{Batch, BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};

/// Batches that are remembered; each takes some fifty bytes.
const MAX_BATCHES: usize = 4_000_000;

/// What has been seen of other partitions.
#[derive(Debug, Default)]
pub(super) struct EqualRecords {
    partitions: Vec<Partition>,
    /// By size and checksum of the records section.
    seen: HashMap<(u64, u32), Place>,
    pub(super) is_full: bool,
}

#[derive(Debug)]
struct Partition {
    name: String,
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    partition: usize,
    file: usize,
    position: u64,
    offset: i64,
}

impl EqualRecords {
    /// Looks at all batches of a partition; those of the same partition elsewhere, a replica, are
    /// equal as they should be.
    pub(super) fn partition(
        &mut self,
        dir: &PartitionDir,
        io: Io,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let files = dir.segments.iter().map(|segment| {
            dir.file(segment.log)
                .map_or_else(PathBuf::new, |file| dir.file_path(file))
        });
        let own = self.partitions.len();
        let name = match (dir.topic(), dir.partition()) {
            (Some(topic), Some(partition)) => format!("{topic}-{partition}"),
            _ => dir.path.display().to_string(),
        };
        self.partitions.push(Partition {
            name,
            files: files.collect(),
        });
        walk_partition(dir, io, 0, |at, entry| {
            let Entry::Batch(batch) = entry else {
                return Ok::<_, Error>(ControlFlow::Continue(()));
            };
            let header = batch.header;
            if header.attributes().is_control() || header.records_count() == 0 {
                return Ok(ControlFlow::Continue(()));
            }
            let records = batch.records()?;
            let key = (records.len() as u64, crc32c::crc32c(&records));
            let place = Place {
                partition: own,
                file: at.index,
                position: batch.position,
                offset: header.base_offset(),
            };
            if let Some(earlier) = self.seen.get(&key).copied() {
                if self.is_other(earlier.partition, own) && self.is_equal(earlier, &records, io)? {
                    found.push(self.finding(&batch, at.file, earlier));
                }
            } else if self.seen.len() < MAX_BATCHES {
                self.seen.insert(key, place);
            } else {
                self.is_full = true;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    fn is_other(&self, one: usize, other: usize) -> bool {
        let name = |index: usize| self.partitions.get(index).map(|it| it.name.as_str());
        name(one) != name(other)
    }

    /// The checksum says so; the bytes decide.
    fn is_equal(&self, earlier: Place, records: &[u8], io: Io) -> Result<bool, Error> {
        let partition = self.partitions.get(earlier.partition);
        let Some(path) = partition.and_then(|it| it.files.get(earlier.file)) else {
            return Ok(false);
        };
        let file = match MappedFile::open(path, io) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut walk = BatchWalk::starting_at(&file, earlier.position);
        match walk.next_entry().transpose()? {
            Some(Entry::Batch(batch)) => Ok(batch.records()?.as_ref() == records),
            Some(Entry::Legacy(_) | Entry::Damage(_)) | None => Ok(false),
        }
    }

    fn finding(&self, batch: &Batch<'_>, file: &str, earlier: Place) -> Finding {
        let other = self.partitions.get(earlier.partition);
        let other = other.map_or_else(String::new, |it| it.name.clone());
        let records = u64::try_from(batch.header.records_count()).ok();
        let message = format!("the records of {other} at offset {}", earlier.offset);
        let finding = Finding {
            file: Some(file.to_owned()),
            position: Some(batch.position),
            other_partition: Some(other),
            other_offset: Some(earlier.offset),
            cost: Cost {
                records,
                ..Cost::default()
            },
            broker_action: "none: header and checksum are right".to_owned(),
            next_step: Some("kseg dump --records shows both".to_owned()),
            ..Finding::new(Severity::Notable, Kind::EqualRecordsSection, message)
        };
        super::batches::of_header(batch.header, finding)
    }
}
