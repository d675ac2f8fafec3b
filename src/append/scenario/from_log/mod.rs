//! A partition back into the scenario that writes it: its appends, markers and rolls.
//!
//! Each batch becomes the step a leader would have taken it in with; where that would not give the
//! same bytes (a gap that compaction left, a producer that the log begins in the middle of), it
//! becomes a follower's append, which takes any batch as it is. Every batch is built again on the
//! way and compared.

mod retrace;
mod steps;

use std::io::{self, Write};

use serde_json::{Value, json};

use retrace::Retrace;

use super::model::{DEFAULT_START_TIME_MS, Step};
use super::to_json;
use crate::append::config::LogConfig;
use crate::append::validator::LogValidator;
use crate::format::compression::Decompressor;
use crate::format::record_batch::TimestampType;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::{self, Io};
use crate::state::ProducerStateManager;

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FromLogError {
    /// The files could not be read.
    #[error(transparent)]
    Log(#[from] log::Error),
    /// The scenario could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The directory's name is no partition's.
    #[error("the directory's name gives no topic and partition")]
    Name,
    /// Something a scenario cannot say.
    #[error("{file}: batch at offset {offset} (position {position}): {reason}")]
    Batch {
        /// Name of the `.log`.
        file: String,
        /// Where in it.
        position: u64,
        /// The batch's base offset, as far as it can be read.
        offset: String,
        /// What cannot be said.
        reason: String,
    },
}

/// How a partition is turned into a scenario.
#[derive(Clone, Copy, Debug)]
pub struct FromLog<'a> {
    /// The partition.
    pub dir: &'a PartitionDir,
    /// How its files are read.
    pub io: Io,
    /// Replace keys, values and header values by as many other bytes.
    pub redact: bool,
}

impl FromLog<'_> {
    /// Writes the scenario, one step a line. Returns how many steps it has.
    ///
    /// # Errors
    /// If files cannot be read, `out` not be written, or a batch cannot be said in a scenario;
    /// then what has been written so far is of no use.
    pub fn write(&self, out: &mut impl Write) -> Result<u64, FromLogError> {
        self.dir.unless_cut(self.write_steps(out))
    }

    fn write_steps(&self, out: &mut impl Write) -> Result<u64, FromLogError> {
        let (Some(topic), Some(partition)) = (self.dir.topic(), self.dir.partition()) else {
            return Err(FromLogError::Name);
        };
        let timestamp_type = self.timestamp_type()?;
        let config = LogConfig {
            message_timestamp_type: timestamp_type,
            message_timestamp_after_max_ms: i64::MAX,
            max_message_bytes: i32::MAX,
            segment_bytes: i32::MAX,
            segment_ms: i64::MAX,
            ..LogConfig::default()
        };
        let mut head = json!({
            "title": format!("{topic}-{partition}"),
            "topic": topic,
            "partition": partition,
        });
        self.describe(&mut head, &config)?;
        let head = serde_json::to_string_pretty(&head).unwrap_or_default();
        let head = head.trim_end_matches(['}', '\n']);
        write!(out, "{head},\n  \"steps\": [")?;
        let mut retrace = Retrace {
            config,
            redact: self.redact,
            validator: LogValidator::default(),
            decompressor: Decompressor::new(),
            manager: ProducerStateManager::default(),
            log_end_offset: 0,
            now_ms: DEFAULT_START_TIME_MS,
            latest_epoch: 0,
            segment_base_offset: 0,
            steps: Vec::new(),
        };
        let mut steps = 0;
        for (index, segment) in self.dir.segments.iter().enumerate() {
            retrace.begin_segment(index, segment.base_offset);
            self.segment(segment.log, &mut retrace, |step| {
                let separator = if steps == 0 { "\n    " } else { ",\n    " };
                steps += 1;
                write!(out, "{separator}{}", to_json::step(step))
            })?;
        }
        writeln!(out, "\n  ]\n}}")?;
        Ok(steps)
    }

    fn describe(&self, head: &mut Value, config: &LogConfig) -> Result<(), FromLogError> {
        let Value::Object(head) = head else {
            return Ok(());
        };
        if self.redact {
            let about = "Keys, values and header values are replaced by other bytes of the same \
                         length, so the .log bytes differ from the original's.";
            head.insert("about".to_owned(), about.into());
        }
        if let Some(topic_id) = self.dir.topic_id(self.io)? {
            head.insert("topicId".to_owned(), topic_id.into());
        }
        let values = json!({
            "message.timestamp.type": config.message_timestamp_type.name(),
            "message.timestamp.after.max.ms": config.message_timestamp_after_max_ms,
            "max.message.bytes": config.max_message_bytes,
            "segment.bytes": config.segment_bytes,
            "segment.ms": config.segment_ms,
            "producer.id.expiration.ms": i32::MAX,
            "transaction.version": 1,
        });
        head.insert("config".to_owned(), values);
        head.insert("autoHighWatermark".to_owned(), true.into());
        Ok(())
    }

    /// `LogAppendTime` as soon as one batch has it: batches with the other type can be said as a
    /// follower's.
    fn timestamp_type(&self) -> Result<TimestampType, FromLogError> {
        for segment in &self.dir.segments {
            let Some(file) = self.dir.file(segment.log) else {
                continue;
            };
            let file = self.open(file)?;
            let mut walk = BatchWalk::new(&file);
            while let Some(entry) = walk.next_entry() {
                if let Entry::Batch(batch) = entry?
                    && batch.header.attributes().timestamp_type() == TimestampType::LogAppendTime
                {
                    return Ok(TimestampType::LogAppendTime);
                }
            }
        }
        Ok(TimestampType::CreateTime)
    }

    /// A segment that has vanished has no place in a scenario, and leaves a hole in it.
    fn open(&self, entry: &FileEntry) -> Result<MappedFile, log::Error> {
        let changed = || log::Error::ChangedWhileReading {
            path: self.dir.file_path(entry),
        };
        self.dir.open_file(entry, self.io)?.ok_or_else(changed)
    }

    fn segment(
        &self,
        log: usize,
        retrace: &mut Retrace,
        mut emit: impl FnMut(&Step) -> io::Result<()>,
    ) -> Result<(), FromLogError> {
        let Some(entry) = self.dir.file(log) else {
            return Ok(());
        };
        let name = entry.name();
        let file = self.open(entry)?;
        let mut walk = BatchWalk::new(&file);
        for step in retrace.steps.drain(..) {
            emit(&step)?;
        }
        while let Some(entry) = walk.next_entry() {
            let refuse = |position, offset: Option<i64>, reason: String| FromLogError::Batch {
                file: name.clone().into_owned(),
                position,
                offset: offset.map_or_else(|| "?".to_owned(), |offset| offset.to_string()),
                reason,
            };
            match entry? {
                Entry::Batch(batch) => {
                    let (position, offset) = (batch.position, batch.header.base_offset());
                    retrace
                        .batch(&batch)?
                        .map_err(|reason| refuse(position, Some(offset), reason))?;
                }
                Entry::Legacy(legacy) => {
                    let reason = "magic 0 and 1 cannot be said".to_owned();
                    return Err(refuse(legacy.position, None, reason));
                }
                Entry::Damage(damage) => {
                    let offset = damage.readable.base_offset;
                    return Err(refuse(damage.position, offset, damage.to_string()));
                }
            }
            for step in retrace.steps.drain(..) {
                emit(&step)?;
            }
        }
        Ok(())
    }
}
