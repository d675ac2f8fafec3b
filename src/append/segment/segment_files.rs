//! The files of a segment by name: which they are, renaming and removing them.
//!
//! Decides `LogSegment.changeFileSuffixes`, `LogSegment.deleteIfExists`.

use std::path::{Path, PathBuf};

use super::LogSegment;
use crate::append::error::Error;
use crate::append::files::Files;
use crate::format::file_name::{FileState, LogFileKind, LogFileName};

/// The path of a file of the segment.
pub(in crate::append) fn segment_path(dir: &Path, kind: LogFileKind) -> PathBuf {
    let state = FileState::Live;
    dir.join(LogFileName { kind, state }.to_string())
}

impl LogSegment {
    /// Gives all files the suffix `.deleted`.
    pub(in crate::append) fn mark_deleted(&mut self) -> Result<(), Error> {
        self.change_file_suffixes(FileState::Deleted)
    }

    /// Gives all files the suffix of `state` in place of the one they have
    /// (`LogSegment.changeFileSuffixes`).
    pub(in crate::append) fn change_file_suffixes(
        &mut self,
        state: FileState,
    ) -> Result<(), Error> {
        if self.state == state {
            return Ok(());
        }
        let old_suffix = self.state.suffix();
        let renamed = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let stem = name.strip_suffix(old_suffix).unwrap_or(&name);
            path.with_file_name(format!("{stem}{}", state.suffix()))
        };
        self.log.rename(renamed(self.log.path()))?;
        self.offset_index
            .rename(renamed(self.offset_index.path()))?;
        self.time_index.rename(renamed(self.time_index.path()))?;
        self.txn_index.rename(renamed(self.txn_index.path()))?;
        self.state = state;
        Ok(())
    }

    /// The segment's files, there or not.
    pub(in crate::append) fn files(&self) -> Vec<PathBuf> {
        vec![
            self.log.path().to_owned(),
            self.offset_index.path().to_owned(),
            self.time_index.path().to_owned(),
            self.txn_index.path().to_owned(),
        ]
    }

    /// Removes files that a new segment of this base offset would find (`LocalLog.roll`,
    /// `LogSegment.deleteIfExists`).
    pub(in crate::append) fn delete_leftovers(
        files: &Files,
        dir: &Path,
        base_offset: i64,
        state: FileState,
    ) -> Result<(), Error> {
        let kinds = [
            LogFileKind::Log(base_offset),
            LogFileKind::OffsetIndex(base_offset),
            LogFileKind::TimeIndex(base_offset),
            LogFileKind::TransactionIndex(base_offset),
        ];
        for kind in kinds {
            files.remove_if_exists(&dir.join(LogFileName { kind, state }.to_string()))?;
        }
        Ok(())
    }
}
