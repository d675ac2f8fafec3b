//! The topic ids of the cluster, by its metadata log.

use std::collections::HashMap;

use crate::format::file_name::{FileState, LogFileKind};
use crate::format::internal_topic::{Decoded, InternalTopic, decode_record};
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::open_segment;
use crate::log::records::Unpacker;
use crate::log::{Error, Io};

/// Names and ids of the topics there are at the end of the metadata log: those of its newest
/// snapshot, and what comes behind it.
pub(super) fn topic_ids(
    dir: &PartitionDir,
    io: Io,
    max_batch_bytes: usize,
) -> Result<HashMap<String, String>, Error> {
    let mut topics = Topics {
        by_name: HashMap::new(),
        unpacker: Unpacker::new(max_batch_bytes),
    };
    let live = dir
        .files
        .iter()
        .filter(|file| file.parsed.state == FileState::Live);
    let snapshots = live.filter_map(|file| {
        let LogFileKind::KRaftSnapshot(id) = file.parsed.kind else {
            return None;
        };
        Some((id.end_offset, file))
    });
    let newest = snapshots.max_by_key(|(end_offset, _)| *end_offset);
    if let Some((_, file)) = newest
        && let Some(file) = dir.open_file(file, io)?
    {
        topics.read(&file, i64::MIN)?;
    }
    let from = newest.map_or(i64::MIN, |(end_offset, _)| end_offset);
    for segment in &dir.segments {
        if let Some(opened) = open_segment(dir, segment, io)? {
            topics.read(&opened.file, from)?;
        }
    }
    Ok(topics.by_name)
}

struct Topics {
    by_name: HashMap<String, String>,
    unpacker: Unpacker,
}

impl Topics {
    fn read(&mut self, file: &MappedFile, from: i64) -> Result<(), Error> {
        let mut walk = BatchWalk::new(file);
        while let Some(entry) = walk.next_entry() {
            let Entry::Batch(batch) = entry? else {
                continue;
            };
            if batch.header.last_offset() < from || batch.header.attributes().is_control() {
                continue;
            }
            let by_name = &mut self.by_name;
            // What cannot be read is told by the checks of the metadata log itself.
            self.unpacker.batch::<Error>(&batch, |record| {
                take(by_name, record.key, record.value);
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn take(by_name: &mut HashMap<String, String>, key: Option<&[u8]>, value: Option<&[u8]>) {
    let decoded = decode_record(InternalTopic::ClusterMetadata, key, value);
    let Decoded::Json(value) = decoded.value else {
        return;
    };
    let text = |name: &str| {
        value
            .pointer(name)
            .and_then(|it| it.as_str())
            .map(str::to_owned)
    };
    match value.pointer("/type").and_then(|it| it.as_str()) {
        Some("TOPIC_RECORD") => {
            if let (Some(name), Some(id)) = (text("/data/name"), text("/data/topicId")) {
                by_name.insert(name, id);
            }
        }
        Some("REMOVE_TOPIC_RECORD") => {
            if let Some(id) = text("/data/topicId") {
                by_name.retain(|_, known| *known != id);
            }
        }
        _ => {}
    }
}
