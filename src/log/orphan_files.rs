//! Indexes whose `.log` is not there.
//!
//! A broker deletes a segment by renaming its `.log` first and its indexes after it
//! (`LogSegment.changeFileSuffixes`), so an index of a live name never outlives its `.log`.

use super::partition_dir::{FileEntry, PartitionDir};
use super::swap_files::unfinished_from;
use crate::format::file_name::{FileState, LogFileKind};

/// The indexes in use whose `.log` is not, each with its base offset; without those of which
/// `is_restored` says that a start brings it back.
pub fn orphan_indexes(
    dir: &PartitionDir,
    is_restored: impl Fn(i64) -> bool,
) -> impl Iterator<Item = (i64, &FileEntry)> {
    let segments = &dir.segments;
    let is_live = move |base| {
        let found = segments.binary_search_by_key(&base, |segment| segment.base_offset);
        found.is_ok()
    };
    dir.files.iter().filter_map(move |file| {
        let base = index_base(file)?;
        (!is_live(base) && !is_restored(base)).then_some((base, file))
    })
}

/// Whether a `.log` with this base offset is about to be swapped in.
#[must_use]
pub fn has_swap(dir: &PartitionDir, base: i64) -> bool {
    let mut files = dir.files.iter();
    unfinished_from(dir).is_none_or(|from| base < from)
        && files.any(|it| {
            it.parsed.kind == LogFileKind::Log(base) && it.parsed.state == FileState::Swap
        })
}

/// Whether an orphan is one still: a broker may have been renaming the files of its segment, or
/// have rolled it a moment ago, its `.log` not being listed yet.
#[must_use]
pub fn is_still_orphan(dir: &PartitionDir, base: i64, file: &FileEntry) -> bool {
    let log = dir.path.join(LogFileKind::Log(base).to_string());
    dir.file_path(file).exists() && !log.is_file()
}

/// Of these orphans the one with the lowest base offset that stays one, once a broker has got on
/// that may be renaming them.
pub fn lowest_still_orphan<'d>(
    dir: &'d PartitionDir,
    orphans: impl Iterator<Item = (i64, &'d FileEntry)>,
) -> Option<(i64, &'d FileEntry)> {
    let mut orphans: Vec<_> = orphans.collect();
    dir.settling().persists(|| {
        orphans.retain(|(base, file)| is_still_orphan(dir, *base, file));
        !orphans.is_empty()
    });
    orphans.into_iter().min_by_key(|(base, _)| *base)
}

fn index_base(file: &FileEntry) -> Option<i64> {
    match (&file.parsed.kind, file.parsed.state) {
        (
            LogFileKind::OffsetIndex(base)
            | LogFileKind::TimeIndex(base)
            | LogFileKind::TransactionIndex(base),
            FileState::Live,
        ) => Some(*base),
        _ => None,
    }
}
