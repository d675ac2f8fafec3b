//! What a broker that was stopped in the middle of something left in a directory: segments on their
//! way out, and a compaction that had not come to its end.
//!
//! Decides `LogLoader.removeTempFilesAndCollectSwapFiles` and the beginning of `LogLoader.load`.

use std::path::{Path, PathBuf};

use super::error::{Error, LoadError};
use super::local_log::LocalLog;
use super::segment::LogSegment;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};

/// A file by its name as Kafka takes it: by the suffix, and the number before the first dot.
struct NamedFile {
    path: PathBuf,
    name: String,
}

impl NamedFile {
    fn has_suffix(&self, state: FileState) -> bool {
        self.name.ends_with(state.suffix())
    }

    /// `LogFileUtils.offsetFromFileName`.
    fn offset(&self) -> Option<i64> {
        let (number, _) = self.name.split_once('.')?;
        number.parse().ok()
    }

    fn required_offset(&self) -> Result<i64, Error> {
        let path = self.path.clone();
        self.offset()
            .ok_or_else(|| LoadError::FileName { path }.into())
    }
}

fn files(log: &LocalLog) -> Result<Vec<NamedFile>, Error> {
    let names = log.files.list(&log.dir)?.into_iter();
    Ok(names
        .map(|name| NamedFile {
            path: log.dir.join(&name),
            name: name.to_string_lossy().into_owned(),
        })
        .collect())
}

/// Removes what was to be deleted, finishes a compaction that was complete, and takes back one that
/// was not.
pub(super) fn clear(log: &LocalLog, now_ms: i64) -> Result<(), Error> {
    let (mut cleaned, mut swaps) = (Vec::new(), Vec::new());
    for file in files(log)? {
        if file.has_suffix(FileState::Deleted) {
            // Snapshots of the quorum are deleted by those who keep them.
            if !file.name.ends_with(".checkpoint.deleted") {
                log.files
                    .because("was to be deleted when the broker stopped");
                log.files.remove_if_exists(&file.path)?;
            }
        } else if file.has_suffix(FileState::Cleaned) {
            cleaned.push((file.required_offset()?, file));
        } else if file.has_suffix(FileState::Swap) {
            swaps.push(file);
        }
    }
    let unfinished = cleaned.iter().map(|(offset, _)| *offset).min();
    let mut finished = Vec::new();
    for file in swaps {
        let offset = file.required_offset()?;
        if unfinished.is_some_and(|unfinished| offset >= unfinished) {
            log.files
                .because("the compaction that made it had not come to its end");
            log.files.remove_if_exists(&file.path)?;
        } else {
            finished.push(file);
        }
    }
    log.files
        .because("the compaction that made it had not come to its end");
    for (_, file) in cleaned {
        log.files.remove_if_exists(&file.path)?;
    }
    finish_swap(log, &finished, now_ms)
}

/// Puts compacted segments in the place of those they were made from.
fn finish_swap(log: &LocalLog, swaps: &[NamedFile], now_ms: i64) -> Result<(), Error> {
    let (mut start, mut end) = (i64::MAX, i64::MIN);
    for file in swaps {
        let is_log = file
            .name
            .strip_suffix(FileState::Swap.suffix())
            .is_some_and(|stem| stem.ends_with(".log"));
        if !is_log {
            continue;
        }
        let base_offset = file.required_offset()?;
        let mut segment = LogSegment::open_as(
            &log.files,
            &log.dir,
            base_offset,
            FileState::Swap,
            &log.config,
            now_ms,
            false,
        )?;
        log.files
            .because("the end of its .log.swap is looked up in it");
        start = start.min(base_offset);
        end = end.max(segment.read_next_offset()?);
    }
    log.files
        .because("its offset is among those of the .swap files");
    for file in files(log)? {
        let in_range = |offset: i64| offset >= start && offset < end;
        if !file.has_suffix(FileState::Swap) && file.offset().is_some_and(in_range) {
            log.files.remove_if_exists(&file.path)?;
        }
    }
    log.files
        .because("a compaction or split that was finished is put into place");
    for file in files(log)? {
        if let Some(live) = file.name.strip_suffix(FileState::Swap.suffix()) {
            log.files.rename(&file.path, &log.dir.join(live))?;
        }
    }
    Ok(())
}

/// What `LogLoader.loadSegmentFiles` does with a file.
pub(super) enum SegmentFile {
    /// A `.log`, by its base offset.
    Log(i64),
    /// An index without a `.log`.
    Orphan(PathBuf),
    /// One without a number. Kafka gets as far as to it.
    NotANumber(PathBuf),
}

/// The files of the directory that make segments or belong to none, in the order of their names.
pub(super) fn segment_files(log: &LocalLog) -> Result<Vec<SegmentFile>, Error> {
    const INDEXES: [&str; 3] = [".index", ".timeindex", ".txnindex"];
    let mut found = Vec::new();
    for file in files(log)? {
        let is_index = INDEXES.iter().any(|suffix| file.name.ends_with(suffix));
        if !is_index && !file.name.ends_with(".log") {
            continue;
        }
        match file.offset() {
            None => found.push(SegmentFile::NotANumber(file.path)),
            Some(base_offset) if !is_index => found.push(SegmentFile::Log(base_offset)),
            Some(base_offset) if !log.files.exists(&log_path(&log.dir, base_offset)) => {
                found.push(SegmentFile::Orphan(file.path));
            }
            Some(_) => {}
        }
    }
    Ok(found)
}

fn log_path(dir: &Path, base_offset: i64) -> PathBuf {
    let name = LogFileName {
        kind: LogFileKind::Log(base_offset),
        state: FileState::Live,
    };
    dir.join(name.to_string())
}
