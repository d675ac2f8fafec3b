//! The data records of a partition that a coordinator writes, decoded one after another.

use std::ops::ControlFlow;
use std::path::PathBuf;

use crate::format::internal_topic::{DecodedRecord, InternalTopic, decode_record};
use crate::log::batches::{Batch, Entry};
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::records::{DEFAULT_MAX_BATCH_BYTES, LogRecord, Unpacker};
use crate::log::{Error, Io};

/// What could not be read of a partition, so that an answer from it can say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadRecords {
    /// The partition directory.
    pub path: PathBuf,
    /// Batches and records that were passed over, and segments that vanished.
    pub count: u64,
    /// What is wrong with the first of them.
    pub first: String,
}

/// What lies in a partition that a coordinator writes.
#[derive(Debug)]
pub(super) enum InternalEntry<'e> {
    /// A control batch.
    Control(&'e Batch<'e>),
    /// A record of another batch.
    Record(&'e Batch<'e>, &'e LogRecord<'e>, DecodedRecord),
}

/// The records of one partition directory, and what could not be read of it.
#[derive(Debug)]
pub(super) struct InternalRecords<'d> {
    dir: &'d PartitionDir,
    topic: InternalTopic,
    unread: Option<UnreadRecords>,
}

impl<'d> InternalRecords<'d> {
    pub(super) fn new(dir: &'d PartitionDir, topic: InternalTopic) -> Self {
        Self {
            dir,
            topic,
            unread: None,
        }
    }

    /// Hands out the control batches and the records of all others, to the end of the log. What
    /// `visit` gives a reason against is passed over. Checksums are not looked at, as a coordinator
    /// that loads does not look at them.
    ///
    /// # Errors
    /// If a segment cannot be read.
    pub(super) fn for_each(
        &mut self,
        io: Io,
        mut visit: impl FnMut(InternalEntry<'_>) -> Result<(), String>,
    ) -> Result<(), Error> {
        let mut unpacker = Unpacker::new(DEFAULT_MAX_BATCH_BYTES);
        let (dir, topic) = (self.dir, self.topic);
        let vanished = walk_partition(dir, io, 0, |at, entry| {
            let batch = match &entry {
                Entry::Batch(batch) => batch,
                // The topics are younger than the format, but a leader of 0.11 to 3.9 may have
                // been told to write an older one.
                Entry::Legacy(legacy) => {
                    let position = legacy.position;
                    self.pass_over(|| format!("{} at {position}: magic 0 or 1", at.file));
                    return Ok::<_, Error>(ControlFlow::Continue(()));
                }
                Entry::Damage(damage) => {
                    self.pass_over(|| format!("{} at {}: {damage}", at.file, damage.position));
                    return Ok(ControlFlow::Continue(()));
                }
            };
            let position = batch.position;
            if batch.header.attributes().is_control() {
                if let Err(reason) = visit(InternalEntry::Control(batch)) {
                    self.pass_over(|| format!("{} at {position}: {reason}", at.file));
                }
                return Ok(ControlFlow::Continue(()));
            }
            let bad = unpacker.batch(batch, |record| {
                let decoded = decode_record(topic, record.key, record.value);
                if let Err(reason) = visit(InternalEntry::Record(batch, record, decoded)) {
                    let offset = record.offset;
                    self.pass_over(|| format!("{}, record {offset}: {reason}", at.file));
                }
                Ok::<_, Error>(())
            })?;
            if let Some(bad) = bad {
                self.pass_over(|| format!("{} at {position}: {}", at.file, bad.error));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for _ in vanished {
            self.pass_over(|| "a segment vanished while reading".to_owned());
        }
        Ok(())
    }

    /// Counts what is of no use; `what` is asked for once.
    fn pass_over(&mut self, what: impl FnOnce() -> String) {
        match &mut self.unread {
            Some(unread) => unread.count += 1,
            None => {
                self.unread = Some(UnreadRecords {
                    path: self.dir.path.clone(),
                    count: 1,
                    first: what(),
                });
            }
        }
    }

    pub(super) fn into_unread(self) -> Option<UnreadRecords> {
        self.unread
    }
}
