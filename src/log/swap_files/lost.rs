//! What goes with the segments that `.swap` files replace.

use super::{Swap, Swaps};
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::last_copies::{GoingLog, LostLog, LostReason, Stays, is_cleaned, lost_with};
use crate::log::mapped_file::MappedFile;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// What goes with the segments that are replaced.
#[derive(Clone, Debug, Default)]
pub struct LostBySwaps {
    /// The offsets of its batches.
    pub offsets: OffsetRanges,
    /// Batches with a right checksum.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// First and last of each `.log` that has some.
    pub spans: Vec<(i64, i64)>,
    /// The name of the first `.log` that has one.
    pub file: Option<String>,
    /// Why it is lost and not compacted away.
    pub reason: Option<LostReason>,
}

impl Swaps {
    /// The cleaner takes out what is not the last of its key. Where nothing tells that it has been
    /// at work, all is lost that no `.swap` has, and anywhere what the `.swap` has in bytes that
    /// cannot be read.
    pub(super) fn find_lost(
        &mut self,
        dir: &PartitionDir,
        logs: &[(i64, MappedFile)],
        io: Io,
        checkpoints: CheckpointedOffsets,
        has_checksums: bool,
    ) -> Result<(), Error> {
        let mut replaced = self.replaced_logs(dir, io)?;
        let Some(placed) = self.placed.as_ref().filter(|_| !replaced.is_empty()) else {
            return Ok(());
        };
        let mut stays = Stays::default();
        for (base_offset, log) in logs {
            stays.take(*base_offset, log, has_checksums)?;
        }
        let mut is_compacted = checkpoints.cleaner_offset.is_some() || stays.is_cleaned;
        for log in &replaced {
            is_compacted = is_compacted || is_cleaned(log.base_offset, &log.file)?;
        }
        is_compacted &= self.finished.iter().all(|swap| has_indexes(dir, swap));
        for log in &mut replaced {
            log.may_be_cleaned = is_compacted;
        }
        let mut told = OffsetRanges::default();
        let dirs = (dir, placed);
        let lost = lost_with(
            &replaced,
            &stays,
            &mut told,
            dirs,
            checkpoints,
            has_checksums,
            io,
        )?;
        for lost in lost {
            self.lost.add(lost);
        }
        Ok(())
    }

    fn replaced_logs(&self, dir: &PartitionDir, io: Io) -> Result<Vec<GoingLog>, Error> {
        let mut replaced = Vec::new();
        for segment in &dir.segments {
            let base_offset = segment.base_offset;
            let is_replaced = self.replaced.binary_search(&base_offset).is_ok();
            if let Some(entry) = dir.file(segment.log).filter(|_| is_replaced)
                && let Some(file) = dir.open_file(entry, io)?
            {
                replaced.push(GoingLog {
                    base_offset,
                    name: entry.name().into_owned(),
                    file,
                    counts: i64::MIN..i64::MAX,
                    next_base: None,
                    may_be_cleaned: false,
                });
            }
        }
        Ok(replaced)
    }
}

/// Whether a `.swap` has the indexes that a cleaner makes. It gives them the suffix after the
/// `.log`, and until then all are taken for unfinished.
fn has_indexes(dir: &PartitionDir, swap: &Swap) -> bool {
    let base = swap.base_offset;
    let indexes = [LogFileKind::OffsetIndex(base), LogFileKind::TimeIndex(base)];
    indexes.iter().all(|kind| {
        let mut files = dir.files.iter();
        files.any(|it| it.parsed.state == FileState::Swap && it.parsed.kind == *kind)
    })
}

impl LostBySwaps {
    /// Takes in what goes with a `.log`.
    fn add(&mut self, lost: LostLog) {
        let Some(reason) = lost.reason else {
            return;
        };
        for (first, last) in lost.offsets.iter() {
            self.offsets.add(first, last);
        }
        self.batches += lost.batches;
        self.records += lost.records;
        self.spans.extend(lost.span());
        self.file.get_or_insert(lost.file);
        self.reason.get_or_insert(reason);
    }
}
