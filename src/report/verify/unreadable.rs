//! Offsets that had been acknowledged and that no consumer gets from these files any more.

use super::finding::{Finding, StartWarning};
use super::kind::Kind;
use super::partition::{VerifyOptions, verify_partition};
use super::swaps::missing_now;
use crate::format::file_name::{FileState, PartitionDirStatus};
use crate::log::Error;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;

/// Offsets that cannot be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// First of them.
    pub first_offset: i64,
    /// Last of them.
    pub last_offset: i64,
    /// What is wrong there.
    pub kind: Kind,
    /// Name of the `.log`; `None` if they are in no file.
    pub file: Option<String>,
    /// Byte position in it.
    pub position: Option<u64>,
}

/// What [`look_before_start`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeStart {
    /// Offsets that are gone already.
    Unreadable(Unreadable),
    /// What a start makes worse.
    Warning(StartWarning),
}

/// Hands out the offsets from the log start to the checkpointed high watermark, or to the log end
/// where there is none, that are missing or lie in bytes which cannot be read. What compaction and
/// retention took is not among them, nor is what the next start brings back: the rules are those
/// of [`verify_partition`]. With them comes what a start makes worse. Directories that are not in
/// use have none.
///
/// # Errors
/// If a file cannot be read, or a broker was at work on a directory of which offsets were handed
/// out.
pub fn look_before_start(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &VerifyOptions,
    mut emit: impl FnMut(BeforeStart),
) -> Result<(), Error> {
    if dir
        .status()
        .is_some_and(|it| *it != PartitionDirStatus::Live)
    {
        return Ok(());
    }
    let begins = checkpoints.log_start_offset.unwrap_or(0);
    let ends = checkpoints.high_watermark.unwrap_or(i64::MAX);
    let passed = |_| ();
    let mut has_any = false;
    let mut missing = None;
    verify_partition::<Error>(dir, checkpoints, options, passed, |finding| {
        if let Some(warning) = &finding.start_warning {
            emit(BeforeStart::Warning(warning.clone()));
        }
        let Some((first, last)) = offsets(finding) else {
            return Ok(());
        };
        let (first, last) = (first.max(begins), last.min(ends.saturating_sub(1)));
        let parts = if first > last {
            Vec::new()
        } else if is_of_swap(finding) {
            // What it takes the place of is here until then.
            let known = match missing.take() {
                Some(known) => known,
                None => missing_now(dir, checkpoints, options.io)?,
            };
            missing.insert(known).within(first, last)
        } else {
            vec![(first, last)]
        };
        for (first_offset, last_offset) in parts {
            has_any = true;
            emit(BeforeStart::Unreadable(Unreadable {
                first_offset,
                last_offset,
                kind: finding.kind,
                file: finding.file.clone().filter(|_| finding.position.is_some()),
                position: finding.position,
            }));
        }
        Ok(())
    })?;
    if has_any {
        dir.check_unchanged()?;
    }
    Ok(())
}

/// Whether it is about the bytes of a `.swap`.
fn is_of_swap(finding: &Finding) -> bool {
    let mut file = finding.file.iter().filter(|_| finding.position.is_some());
    file.any(|it| it.ends_with(FileState::Swap.suffix()))
}

/// The offsets a finding takes from consumers.
fn offsets(finding: &Finding) -> Option<(i64, i64)> {
    let is_lost = matches!(
        finding.kind,
        Kind::SegmentMissing
            | Kind::BadCrc
            | Kind::TornTail
            | Kind::BadLength
            | Kind::BatchPastEnd
            | Kind::UnknownMagic
    );
    let first = finding.offset.filter(|_| is_lost)?;
    // Of a log without an end the high watermark tells where it was.
    let is_end = finding.kind == Kind::SegmentMissing && finding.last_offset.is_none();
    let last = if is_end { i64::MAX } else { first };
    Some((first, finding.last_offset.unwrap_or(last).max(first)))
}
