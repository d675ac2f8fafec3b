//! Offsets that had been acknowledged and that no consumer gets from these files any more.

use super::finding::Finding;
use super::kind::Kind;
use super::partition::{VerifyOptions, verify_partition};
use crate::format::file_name::PartitionDirStatus;
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

/// Hands out the offsets from the log start to the checkpointed high watermark, or to the log end
/// where there is none, that are missing or lie in bytes which cannot be read. What compaction and
/// retention took is not among them, nor is what the next start brings back: the rules are those
/// of [`verify_partition`]. Directories that are not in use have none.
///
/// # Errors
/// If a file cannot be read, or a broker was at work on a directory of which offsets were handed
/// out.
pub fn unreadable_offsets(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: &VerifyOptions,
    mut emit: impl FnMut(Unreadable),
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
    verify_partition::<Error>(dir, checkpoints, options, passed, |finding| {
        if let Some((first, last)) = offsets(finding) {
            let (first_offset, last_offset) = (first.max(begins), last.min(ends.saturating_sub(1)));
            if first_offset <= last_offset {
                has_any = true;
                emit(Unreadable {
                    first_offset,
                    last_offset,
                    kind: finding.kind,
                    file: finding.file.clone().filter(|_| finding.position.is_some()),
                    position: finding.position,
                });
            }
        }
        Ok(())
    })?;
    if has_any {
        dir.check_unchanged()?;
    }
    Ok(())
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
