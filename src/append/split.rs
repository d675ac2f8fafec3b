//! A segment whose offsets are too far apart for its index, in pieces that are not.
//!
//! Decides `LocalLog.splitOverflowedSegment`, `LocalLog.replaceSegments`.

use super::deep_records::base_offset;
use super::error::{Error, LoadError};
use super::load_trace::SPLIT;
use super::local_log::{Background, LocalLog};
use super::segment::LogSegment;
use crate::format::file_name::FileState;

/// Splits the segment, which was taken out of the log if `was_in`, and puts the pieces in its
/// place. Returns the segments that are gone and have no piece of the same base offset.
pub(super) fn split(
    log: &mut LocalLog,
    mut segment: LogSegment,
    was_in: bool,
    offset: i64,
    background: &mut Background,
) -> Result<Vec<i64>, Error> {
    if !segment.has_overflow()? {
        let path = segment.path().to_owned();
        return Err(LoadError::NotSplit { path, offset }.into());
    }
    log.files.because(SPLIT);
    let mut pieces = Vec::new();
    if let Err(error) = cut(log, &mut segment, &mut pieces, background.now_ms) {
        for base_offset in pieces.iter().map(|piece| piece.base_offset) {
            let state = FileState::Cleaned;
            LogSegment::delete_leftovers(&log.files, &log.dir, base_offset, state)?;
        }
        return Err(error);
    }
    replace(log, segment, was_in, pieces, background)
}

/// Copies the segment into pieces, which bear `.cleaned` until they are complete.
fn cut(
    log: &LocalLog,
    segment: &mut LogSegment,
    pieces: &mut Vec<LogSegment>,
    now_ms: i64,
) -> Result<(), Error> {
    let mut position = 0;
    while position < segment.size() {
        let mut first = None;
        let path = segment.path().to_owned();
        segment.for_each_batch(position, u64::MAX, |batch| {
            first = Some(base_offset(&path, batch)?);
            Ok(std::ops::ControlFlow::Break(()))
        })?;
        let Some(base_offset) = first else {
            return Err(LoadError::SplitEnd { path, position }.into());
        };
        let state = FileState::Cleaned;
        LogSegment::delete_leftovers(&log.files, &log.dir, base_offset, state)?;
        let LocalLog {
            files, dir, config, ..
        } = log;
        let piece = LogSegment::open_as(files, dir, base_offset, state, config, now_ms, false)?;
        pieces.push(piece);
        let taken = match pieces.last_mut() {
            Some(piece) => piece.append_from(segment, position)?,
            None => 0,
        };
        if taken == 0 {
            return Err(LoadError::SplitForEver { path }.into());
        }
        position += taken;
    }
    pieces
        .iter_mut()
        .try_for_each(LogSegment::on_become_inactive)
}

fn replace(
    log: &mut LocalLog,
    mut segment: LogSegment,
    was_in: bool,
    pieces: Vec<LogSegment>,
    background: &mut Background,
) -> Result<Vec<i64>, Error> {
    let base_offset = segment.base_offset;
    let bases: Vec<i64> = pieces.iter().map(|piece| piece.base_offset).collect();
    let mut pieces = pieces;
    for piece in pieces.iter_mut().rev() {
        piece.change_file_suffixes(FileState::Swap)?;
    }
    let mut gone = Vec::new();
    // While files are loaded a segment is taken in only once it is sound, and one that is not in
    // yet is not deleted either, but written over.
    if was_in {
        segment.mark_deleted()?;
        background.delete_later(segment.files(), &log.config);
        if !bases.contains(&base_offset) {
            gone.push(base_offset);
        }
    }
    let lowest = bases.iter().min().copied();
    for mut piece in pieces {
        piece.change_file_suffixes(FileState::Live)?;
        log.segments.insert(piece.base_offset, piece);
    }
    // Taken out by its base offset once the pieces are in, and whatever has that by then: only the
    // lowest of the pieces is spared. The files of a piece stay.
    if was_in && lowest != Some(base_offset) {
        log.segments.remove(&base_offset);
    }
    log.files.sync_dir(&log.dir)?;
    Ok(gone)
}
