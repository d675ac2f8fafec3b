//! One segment under recovery (`LogSegment.recover`): every batch is checked, indexed and taken
//! into the producers' state, up to the first that recovery cuts off.

use std::ops::ControlFlow;

use super::{RebuildOptions, SnapshotsAt, Stop};
use crate::format::NO_TIMESTAMP;
use crate::format::aborted_txn::{AbortedTxn, AbortedTxnFields};
use crate::format::offset_index::OffsetIndexEntry;
use crate::format::record_batch::{HEADER_SIZE, MAGIC_V2, RecordBatchHeader};
use crate::format::time_index::TimeIndexEntry;
use crate::log::Error;
use crate::log::batches::{Batch, BatchWalk, Entry, LegacyEntry};
use crate::log::damage::{Damage, DamageKind};
use crate::log::mapped_file::MappedFile;
use crate::log::segment_indexer::{IndexError, IndexedBatch, SegmentIndexer};
use crate::state::{AbortedTxnRow, ProducerStateManager, recover_batch};

/// How recovery of a segment ended before the segment did.
pub(super) enum End {
    /// The log is cut behind the last good batch.
    Cut(Stop),
    /// The whole segment is cut to nothing.
    WholeSegment(Stop),
    /// The next batch reaches the offset asked for.
    OffsetAskedFor,
}

impl End {
    pub(super) fn into_stop(self, file: String) -> Option<Stop> {
        match self {
            Self::Cut(stop) | Self::WholeSegment(stop) => Some(Stop { file, ..stop }),
            Self::OffsetAskedFor => None,
        }
    }
}

/// Where a recovered segment ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) base_offset: i64,
    /// No batch of it reaches this offset.
    pub(super) end_offset: i64,
    pub(super) valid_bytes: u64,
}

/// One segment under recovery (`LogSegment.recover`).
pub(super) struct RecoveredSegment {
    pub(super) extent: Extent,
    /// The offset after the last batch; the base offset if there is none.
    pub(super) next_offset: i64,
    end_before: i64,
    indexer: SegmentIndexer,
    pub(super) offset_index: Vec<OffsetIndexEntry>,
    pub(super) time_index: Vec<TimeIndexEntry>,
    pub(super) txn_index: Vec<AbortedTxn>,
}

impl RecoveredSegment {
    pub(super) fn new(base_offset: i64, options: RebuildOptions) -> Self {
        Self {
            extent: Extent {
                base_offset,
                end_offset: base_offset,
                valid_bytes: 0,
            },
            next_offset: base_offset,
            end_before: match options.snapshots_at {
                SnapshotsAt::Offset(offset) => offset,
                SnapshotsAt::BasesAndEnd | SnapshotsAt::Bases | SnapshotsAt::End => i64::MAX,
            },
            indexer: SegmentIndexer::new(base_offset, options.index_interval_bytes),
            offset_index: Vec::new(),
            time_index: Vec::new(),
            txn_index: Vec::new(),
        }
    }

    pub(super) fn walk(
        &mut self,
        file: &MappedFile,
        manager: &mut ProducerStateManager,
    ) -> Result<Option<End>, Error> {
        let mut walk = BatchWalk::new(file);
        let mut end = None;
        loop {
            let next = if let Some(batch) = walk.next_mapped() {
                self.batch(&batch, manager)?
            } else {
                match walk.next_entry().transpose()? {
                    None => break,
                    Some(Entry::Batch(batch)) => self.batch(&batch, manager)?,
                    Some(Entry::Legacy(entry)) => self.legacy_entry(&entry)?,
                    Some(Entry::Damage(damage)) => {
                        let (next, size_in_bytes) = self.damage(file, &damage, manager)?;
                        walk = BatchWalk::starting_at(file, damage.position + size_in_bytes);
                        next
                    }
                }
            };
            if let ControlFlow::Break(it) = next {
                end = Some(it);
                break;
            }
        }
        match self.indexer.last_time_entry() {
            Ok(last) => self.time_index.extend(last),
            Err(error) if end.is_none() => {
                let position = self.extent.valid_bytes;
                let stop = stop("index-order", position, None, error.to_string());
                end = Some(End::WholeSegment(stop));
            }
            Err(_) => {}
        }
        Ok(end)
    }

    /// Where the log is cut, unless only the magic byte is wrong: the checksum does not cover it,
    /// and recovery does not look at it.
    fn damage(
        &mut self,
        file: &MappedFile,
        damage: &Damage,
        manager: &mut ProducerStateManager,
    ) -> Result<(ControlFlow<End>, u64), Error> {
        let mut header = [0; HEADER_SIZE];
        if let DamageKind::UnknownMagic { found } = damage.kind
            && found > MAGIC_V2
            && damage.size_in_bytes >= HEADER_SIZE as u64
        {
            file.read_exact_at(&mut header, damage.position)?;
            if let Ok(header) = RecordBatchHeader::ref_from(&header)
                && let Some(batch) = Batch::of_any_magic(file, damage.position, header)
            {
                return Ok((self.batch(&batch, manager)?, batch.size_in_bytes()));
            }
        }
        let stop = stop(
            damage.kind.name(),
            damage.position,
            damage.readable.base_offset,
            damage.to_string(),
        );
        Ok((ControlFlow::Break(End::Cut(stop)), damage.size_in_bytes))
    }

    #[inline]
    fn batch(
        &mut self,
        batch: &Batch<'_>,
        manager: &mut ProducerStateManager,
    ) -> Result<ControlFlow<End>, Error> {
        let header = batch.header;
        if header.last_offset() >= self.end_before {
            return Ok(ControlFlow::Break(End::OffsetAskedFor));
        }
        let position = batch.position;
        let cut = |kind, position, message| {
            let offset = Some(header.base_offset());
            Ok(ControlFlow::Break(End::Cut(stop(
                kind, position, offset, message,
            ))))
        };
        if !batch.is_plainly_valid() {
            let (stored, computed) = (header.crc(), batch.compute_crc()?);
            if computed != stored {
                return cut("bad-crc", position, crc_message(stored, computed));
            }
        }
        let before = self.place();
        let indexed = self.index(&IndexedBatch {
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp(),
            position,
            size_in_bytes: batch.size_in_bytes(),
        });
        if let ControlFlow::Break(end) = indexed {
            return Ok(ControlFlow::Break(end));
        }
        let marker = batch.marker()?;
        let should_be_marker = header.attributes().is_control()
            && header.has_producer_id()
            && header.records_count() > 0;
        if should_be_marker && marker.is_none() {
            // The batch itself counts as good by then, and stays (`LogSegment.recover`).
            let message = "the control record of the batch before cannot be read".to_owned();
            return cut("unreadable-marker", self.extent.valid_bytes, message);
        }
        let txn_index = &mut self.txn_index;
        let taken_in = recover_batch(manager, header, marker, |row| {
            txn_index.push(index_row(&row));
        });
        match taken_in {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(refusal) => {
                self.go_back(before);
                cut("refused-batch", position, refusal.to_string())
            }
        }
    }

    fn place(&self) -> Place {
        Place {
            extent: self.extent,
            next_offset: self.next_offset,
            indexer: self.indexer,
            offset_entries: self.offset_index.len(),
            time_entries: self.time_index.len(),
        }
    }

    /// Forgets what has been made of the segment since. A batch that the producers' state refuses
    /// is indexed by then, but no recovery gets past it: the log ends before it.
    #[cold]
    fn go_back(&mut self, place: Place) {
        self.extent = place.extent;
        self.next_offset = place.next_offset;
        self.indexer = place.indexer;
        self.offset_index.truncate(place.offset_entries);
        self.time_index.truncate(place.time_entries);
    }

    fn legacy_entry(&mut self, entry: &LegacyEntry<'_>) -> Result<ControlFlow<End>, Error> {
        let offset = entry.header.offset();
        if offset >= self.end_before {
            return Ok(ControlFlow::Break(End::OffsetAskedFor));
        }
        let computed = entry.compute_crc()?;
        if computed != entry.header.crc() {
            let message = crc_message(entry.header.crc(), computed);
            let stop = stop("bad-crc", entry.position, Some(offset), message);
            return Ok(ControlFlow::Break(End::Cut(stop)));
        }
        Ok(self.index(&IndexedBatch {
            last_offset: offset,
            max_timestamp: entry.timestamp().unwrap_or(NO_TIMESTAMP),
            position: entry.position,
            size_in_bytes: entry.size_in_bytes(),
        }))
    }

    #[inline]
    fn index(&mut self, batch: &IndexedBatch) -> ControlFlow<End> {
        let Self {
            indexer,
            offset_index,
            time_index,
            ..
        } = self;
        let taken = indexer.next_batch(batch, |entries| {
            offset_index.push(entries.offset);
            time_index.extend(entries.time);
        });
        if let Err(error) = taken {
            return ControlFlow::Break(not_indexed(batch, &error));
        }
        self.next_offset = batch.last_offset.wrapping_add(1);
        self.extent.end_offset = self.extent.end_offset.max(self.next_offset);
        self.extent.valid_bytes = batch.position + batch.size_in_bytes;
        ControlFlow::Continue(())
    }
}

/// How far a segment has been recovered.
#[derive(Clone, Copy, Debug)]
struct Place {
    extent: Extent,
    next_offset: i64,
    indexer: SegmentIndexer,
    offset_entries: usize,
    time_entries: usize,
}

/// How recovery ends at a batch that cannot be indexed.
#[cold]
fn not_indexed(batch: &IndexedBatch, error: &IndexError) -> End {
    let offset = Some(batch.last_offset);
    let stop = |kind| stop(kind, batch.position, offset, error.to_string());
    match error {
        // A broker splits the segment here and begins again.
        IndexError::OffsetOverflow { .. } => End::Cut(stop("offset-overflow")),
        IndexError::OffsetNotAbove { .. }
        | IndexError::TimeOffsetBelow { .. }
        | IndexError::PositionOverflow { .. } => End::WholeSegment(stop("index-order")),
    }
}

pub(super) fn stop(
    kind: &'static str,
    position: u64,
    offset: Option<i64>,
    message: String,
) -> Stop {
    Stop {
        kind,
        file: String::new(),
        position,
        offset,
        message,
    }
}

fn crc_message(stored: u32, computed: u32) -> String {
    format!("checksum is {stored:#010x}, computed {computed:#010x}")
}

fn index_row(row: &AbortedTxnRow) -> AbortedTxn {
    AbortedTxn::from(AbortedTxnFields {
        producer_id: row.producer_id,
        first_offset: row.first_offset,
        last_offset: row.last_offset,
        last_stable_offset: row.last_stable_offset,
    })
}
