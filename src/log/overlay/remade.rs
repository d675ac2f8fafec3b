//! Indexes that were made anew and are not kept: they follow from their `.log`, and are made from
//! it again when somebody wants their bytes.
//!
//! A log of many terabytes whose indexes are all rebuilt would fill the memory with them else.

use std::sync::Arc;

use super::content::{Base, Content, Written};
use super::{FileId, Overlay};
use crate::format::time_index::TimeIndexEntry;
use crate::log::log_input_stream::{LogInputStream, StreamError};
use crate::log::segment_indexer::{IndexedBatch, SegmentIndexer};
use crate::log::{Error, Io};

/// Bytes of indexes made anew that an overlay keeps by default.
pub const INDEX_MEMORY: u64 = 64 * 1024 * 1024;

/// An index of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// `.index`.
    Offset,
    /// `.timeindex`.
    Time,
}

/// What the bytes of an index follow from, as recovery makes them (`LogSegment.recover`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOf {
    /// The `.log`, cut to what recovery has found good.
    pub log: FileId,
    /// Which of the two.
    pub kind: IndexKind,
    /// Base offset of the segment.
    pub base_offset: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
}

/// The same with the bytes of the `.log`, whatever becomes of that later.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    log: Base,
    index: IndexOf,
}

/// Bytes that are not kept.
#[derive(Clone, Debug)]
pub(super) struct Remade {
    recipe: Arc<Recipe>,
    crc: u32,
    /// How many there were.
    pub(super) len: usize,
}

impl Overlay {
    /// The same overlay, keeping that many bytes of indexes made anew.
    #[must_use]
    pub fn with_index_memory(self, bytes: u64) -> Self {
        Self {
            index_memory: bytes,
            ..self
        }
    }

    /// Says that what was written to a file is such an index, and nobody is at it for now: see
    /// [`Overlay::settle`]. Beyond what may be kept the oldest ones are forgotten; one that is
    /// settled twice counts twice until then.
    ///
    /// # Errors
    /// If a file on the disk cannot be read.
    pub fn settle_index(&mut self, id: FileId, index: IndexOf) -> Result<(), Error> {
        self.settle(id)?;
        let log = self.content(index.log);
        let Some(log) = log.base.clone().filter(|_| log.written.is_empty()) else {
            return Ok(());
        };
        let Some(content) = self.contents.get_mut(id.0) else {
            return Ok(());
        };
        let size = content.written.len() as u64;
        if size == 0 || content.written_at != 0 {
            return Ok(());
        }
        if let Written::Kept(bytes) = &mut content.written {
            Arc::make_mut(bytes).shrink_to_fit();
        }
        content.recipe = Some(Arc::new(Recipe { log, index }));
        self.indexes.push_back((id, size));
        self.index_bytes += size;
        while self.index_bytes > self.index_memory
            && let Some((oldest, size)) = self.indexes.pop_front()
        {
            self.index_bytes -= size;
            self.forget(oldest)?;
        }
        Ok(())
    }

    /// Forgets the bytes of an index, unless it was changed since, or has to be looked at to know
    /// whether it is another than before.
    fn forget(&mut self, id: FileId) -> Result<(), Error> {
        let content = self.content(id);
        let (Some(recipe), Written::Kept(bytes)) = (&content.recipe, &content.written) else {
            return Ok(());
        };
        if !self.is_other(id, bytes)? {
            return Ok(());
        }
        let remade = Remade {
            recipe: Arc::clone(recipe),
            crc: crc32c::crc32c(bytes),
            len: bytes.len(),
        };
        let len = remade.len;
        if let Some(content) = self.contents.get_mut(id.0) {
            content.written = Written::Remade(Arc::new(remade), len);
        }
        Ok(())
    }

    /// Whether these bytes are others than those of the file that had this id at first, zeros at
    /// the end of either left aside; of a new file they are.
    fn is_other(&self, id: FileId, bytes: &[u8]) -> Result<bool, Error> {
        let Some((name, size)) = self.original.get(id.0) else {
            return Ok(true);
        };
        let common = usize::try_from(*size).map_or(bytes.len(), |it| it.min(bytes.len()));
        let (now, behind) = bytes.split_at_checked(common).unwrap_or((bytes, &[]));
        let original = Base {
            name: name.clone(),
            start: 0,
            len: *size,
        };
        let mut before = vec![0; common];
        let file = self.open_base(&original, Io::Read)?;
        file.read_exact_at(&mut before, 0)?;
        Ok(before != now || behind.iter().any(|byte| *byte != 0))
    }

    /// Whether a file has other bytes than it had at first, as far as that is known without making
    /// them again.
    pub(super) fn is_known_to_be_other(content: &Content) -> bool {
        matches!(&content.written, Written::Remade(remade, len) if *len == remade.len)
    }

    /// Makes the bytes of an index again.
    pub(super) fn remake(&self, remade: &Remade) -> Result<Vec<u8>, Error> {
        let Recipe { log, index } = &*remade.recipe;
        let changed = || Error::ChangedWhileReading {
            path: self.dir.clone(),
        };
        let log = self.open_base(log, self.io)?;
        let mut indexer = SegmentIndexer::new(index.base_offset, index.index_interval_bytes);
        let mut stream = LogInputStream::new(&log, 0, log.len());
        let mut bytes = Vec::with_capacity(remade.len);
        loop {
            let batch = match stream.next_batch() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(StreamError::Files(error)) => return Err(error),
                Err(StreamError::Corrupt { .. } | StreamError::HeaderPastEnd { .. }) => {
                    return Err(changed());
                }
            };
            let batch = IndexedBatch {
                last_offset: batch.last_offset(),
                max_timestamp: batch.max_timestamp(),
                position: batch.position(),
                size_in_bytes: batch.size_in_bytes(),
            };
            let taken = indexer.next_batch(&batch, |entries| match index.kind {
                IndexKind::Offset => bytes.extend(entries.offset.as_array()),
                IndexKind::Time => {
                    bytes.extend(entries.time.iter().flat_map(TimeIndexEntry::as_array));
                }
            });
            taken.map_err(|_| changed())?;
        }
        if index.kind == IndexKind::Time {
            let last = indexer.last_time_entry().map_err(|_| changed())?;
            bytes.extend(last.iter().flat_map(TimeIndexEntry::as_array));
        }
        if bytes.len() != remade.len || crc32c::crc32c(&bytes) != remade.crc {
            return Err(changed());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};
    use crate::log::overlay::Change;
    use crate::log::partition_dir::PartitionDir;

    /// A batch of one record, as it lies in a log.
    fn batch(offset: i64) -> Vec<u8> {
        let mut builder = RecordBatchBuilder::new(BatchSettings::default()).unwrap();
        let record = SimpleRecord {
            timestamp: 1_000 + offset,
            ..SimpleRecord::default()
        };
        builder.append(&record).unwrap();
        let mut bytes = Vec::new();
        builder.build(&mut bytes).unwrap();
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        bytes
    }

    /// Both indexes of a log of ten batches, each of which but the first gets an entry.
    fn indexes() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let (mut log, mut offsets, mut times) = (Vec::new(), Vec::new(), Vec::new());
        for offset in 0..10_u32 {
            if offset > 0 {
                offsets.extend(offset.to_be_bytes());
                offsets.extend(u32::try_from(log.len()).unwrap().to_be_bytes());
                times.extend((1_000 + u64::from(offset)).to_be_bytes());
                times.extend(offset.to_be_bytes());
            }
            log.extend(batch(i64::from(offset)));
        }
        (log, offsets, times)
    }

    #[test]
    fn what_is_forgotten_is_made_again() {
        let (log, offsets, times) = indexes();
        let dir = tempfile::tempdir().unwrap();
        let name = |suffix: &str| format!("{:020}.{suffix}", 0);
        let mut torn = log.clone();
        torn.extend([1; 7]);
        std::fs::write(dir.path().join(name("log")), torn).unwrap();
        std::fs::write(dir.path().join(name("index")), [0; 16]).unwrap();
        let partition = PartitionDir::open(dir.path()).unwrap();
        let overlay = Overlay::new(&partition, Io::Mmap).unwrap();
        let mut overlay = overlay.with_index_memory(0);
        let log_id = overlay.find(OsStr::new(&name("log"))).unwrap();
        overlay.set_len(log_id, log.len() as u64);
        let mut put = |kind, suffix: &str, bytes: &[u8]| {
            let found = overlay.find(OsStr::new(&name(suffix)));
            let id = found.unwrap_or_else(|| overlay.create(OsStr::new(&name(suffix))));
            overlay.write_at(id, bytes, 0).unwrap();
            let index = IndexOf {
                log: log_id,
                kind,
                base_offset: 0,
                index_interval_bytes: 0,
            };
            overlay.settle_index(id, index).unwrap();
            id
        };
        let index = put(IndexKind::Offset, "index", &offsets);
        let time_index = put(IndexKind::Time, "timeindex", &times);
        let bytes = |overlay: &Overlay, id: FileId| {
            overlay.open(id).unwrap().read_all().unwrap().into_owned()
        };
        for (id, expected) in [(index, &offsets), (time_index, &times)] {
            assert!(matches!(overlay.content(id).written, Written::Remade(..)));
            assert_eq!(&bytes(&overlay, id), expected);
        }
        let is_index = |it: &OsStr| it != OsStr::new(&name("log"));
        let changes = overlay.changes(is_index).unwrap();
        let changes: Vec<&Change> = changes.iter().map(|(_, change, _)| change).collect();
        let expected = [
            &Change::Cut {
                size_in_bytes: log.len() as u64,
            },
            &Change::Rewritten { size_in_bytes: 72 },
            &Change::Made { size_in_bytes: 108 },
        ];
        assert_eq!(changes, expected);

        // The `.log` is not what the index was made from any more, which changes nothing.
        overlay.set_len(log_id, 100);
        // Room behind it, a cut, and another entry.
        overlay.set_len(index, 1_000);
        assert_eq!(bytes(&overlay, index), offsets);
        overlay.set_len(index, 16);
        assert_eq!(bytes(&overlay, index), &offsets[..16]);
        overlay.write_at(index, &[9; 8], 16).unwrap();
        assert_eq!(bytes(&overlay, index), [&offsets[..16], &[9; 8]].concat());
    }

    #[test]
    fn as_much_is_kept_as_may_be() {
        let (log, offsets, times) = indexes();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("log"), log).unwrap();
        let partition = PartitionDir::open(dir.path()).unwrap();
        let overlay = Overlay::new(&partition, Io::Mmap).unwrap();
        let size = (offsets.len() + times.len()) as u64;
        let mut overlay = overlay.with_index_memory(size);
        let log = overlay.find(OsStr::new("log")).unwrap();
        let mut ids = Vec::new();
        for number in 0..3 {
            for (kind, bytes) in [(IndexKind::Offset, &offsets), (IndexKind::Time, &times)] {
                let id = overlay.create(OsStr::new(&format!("{number}{kind:?}")));
                overlay.write_at(id, bytes, 0).unwrap();
                let index = IndexOf {
                    log,
                    kind,
                    base_offset: 0,
                    index_interval_bytes: 0,
                };
                overlay.settle_index(id, index).unwrap();
                ids.push(id);
            }
        }
        let is_kept = |id: &FileId| matches!(overlay.content(*id).written, Written::Kept(_));
        let kept: Vec<bool> = ids.iter().map(is_kept).collect();
        assert_eq!(kept, [false, false, false, false, true, true]);
    }
}
