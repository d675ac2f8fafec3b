//! `.swap` files: what a start makes of them, and what goes with the segments they replace.

use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use super::start::does_not_load;
use crate::format::file_name::{FileState, LogFileKind};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::{FileEntry, PartitionDir};
use crate::log::swap_files::{SwapFailure, Swaps, number};
use crate::log::{Error, Io};
use crate::report::gaps::{GapClass, GapKind, GapOptions, find_gaps, offset_range, range};

/// What a start does with one of them.
pub(super) fn of_swap(file: &FileEntry, swaps: &Swaps) -> Finding {
    let name = file.name();
    let live = name.strip_suffix(FileState::Swap.suffix()).unwrap_or(&name);
    let is_deleted = number(file).is_some_and(|offset| swaps.deletes(offset));
    let broker_action = if is_deleted {
        "deletes it at any start: a .cleaned at or below its offset is there".to_owned()
    } else if let Some(failure) = swaps.failure() {
        format!(
            "comes no further than {}, and this keeps its name",
            failure.file
        )
    } else {
        let replaced: Vec<_> = swaps
            .replaced()
            .iter()
            .map(|it| LogFileKind::Log(*it))
            .collect();
        let then = match replaced.as_slice() {
            [] => "has it in use from then on".to_owned(),
            [log] => format!("deletes {log} before, in whose place it comes"),
            [first, .., last] => format!(
                "deletes the {} segments from {first} to {last} before, in whose place such files \
                 come",
                replaced.len()
            ),
        };
        format!("renames it to {live} at any start, and {then}")
    };
    Finding {
        broker_action,
        ..Finding::new(
            Severity::Notable,
            Kind::InterruptedCleaner,
            "the cleaner, or a split, was interrupted before this took its place",
        )
    }
}

/// What all of them together come to.
pub(super) fn check_swaps(swaps: &Swaps, found: &mut Vec<Finding>) {
    found.extend(swaps.failure().map(of_failure));
    found.extend(lost(swaps));
}

fn of_failure(failure: &SwapFailure) -> Finding {
    Finding {
        file: Some(failure.file.clone()),
        position: Some(failure.position),
        expected: Some("a batch".to_owned()),
        found: Some(failure.message.clone()),
        broker_action: does_not_load(Some(failure.exception)),
        next_step: Some("move it, and the .swap files with it, out of the directory".to_owned()),
        ..Finding::new(
            Severity::Corrupt,
            Kind::BadLength,
            format!(
                "no segment that a start can put into place: {}",
                failure.message
            ),
        )
    }
}

fn lost(swaps: &Swaps) -> Option<Finding> {
    let lost = swaps.lost();
    let ranges: Vec<(i64, i64)> = lost.offsets.iter().take(2).collect();
    let (first, last) = *ranges.first()?;
    let last = lost
        .offsets
        .iter()
        .next_back()
        .map_or(last, |(_, last)| last);
    let file = lost.file.clone()?;
    let swap = match swaps.replaced() {
        [base] => format!("{}{}", LogFileKind::Log(*base), FileState::Swap.suffix()),
        _ => "the .swap files".to_owned(),
    };
    let them = match ranges.len() {
        1 => offset_range(first, last),
        _ => format!("offsets in {}", range(first, last)),
    };
    let reason = lost.reason.map(|it| it.to_string()).unwrap_or_default();
    Some(Finding {
        file: Some(file.clone()),
        offset: Some(first),
        first_offset: Some(first),
        last_offset: Some(last),
        cost: Cost {
            records: Some(lost.records),
            ..Cost::default()
        },
        broker_action: format!(
            "deletes it at any start for {swap}, and {} lost",
            match lost.records {
                1 => "1 record is".to_owned(),
                many => format!("{many} records are"),
            }
        ),
        next_step: Some(keep(swaps)),
        ..Finding::new(
            Severity::Corrupt,
            Kind::SwapLoss,
            format!("{them} are here, and a start removes them: {reason}"),
        )
    })
}

/// How to keep the segments that are replaced.
fn keep(swaps: &Swaps) -> String {
    let logs = match swaps.replaced() {
        [log] => LogFileKind::Log(*log).to_string(),
        _ => "the segments they would replace".to_owned(),
    };
    format!(
        "move the .swap files out of the directory before the start: it goes on with {logs}; take \
         a copy of all of it first"
    )
}

/// Whether a finding says of the log without what is lost only that this is not there: of an index
/// in use whose segment is replaced, or of a file that tells how far the log went.
fn follows(swaps: &Swaps, finding: &Finding) -> bool {
    let lost = &swaps.lost().offsets;
    if lost.is_empty() {
        return false;
    }
    let is_of_index = matches!(
        finding.kind,
        Kind::IndexDamaged | Kind::TxnindexEntrySurplus | Kind::TxnindexEntryStartsLate
    );
    let tells_end = matches!(
        finding.kind,
        Kind::RecoveryPoint
            | Kind::HighWatermarkPastEnd
            | Kind::LeaderEpochPastEnd
            | Kind::StraySnapshot
    );
    if is_of_index {
        let in_use = |name: &&String| swaps.name_now(name) == name.as_str();
        let file = finding.file.as_ref().filter(in_use);
        let base = file.and_then(|name| name.split_once('.')?.0.parse::<i64>().ok());
        return base.is_some_and(|base| swaps.replaced().contains(&base));
    }
    let last = finding.offset.map(|end| end.saturating_sub(1));
    tells_end && last.is_some_and(|last| lost.contains(last, last))
}

/// Findings about the directory as it is once they are in place.
pub(super) struct Settled<'s> {
    swaps: &'s Swaps,
    /// The directory as it is now.
    listed: &'s PartitionDir,
    checkpoints: CheckpointedOffsets,
    io: Io,
    /// What is lost there already, once somebody has asked.
    missing_now: Option<OffsetRanges>,
}

impl<'s> Settled<'s> {
    pub(super) fn new(
        swaps: &'s Swaps,
        listed: &'s PartitionDir,
        checkpoints: CheckpointedOffsets,
        io: Io,
    ) -> Self {
        Self {
            swaps,
            listed,
            checkpoints,
            io,
            missing_now: None,
        }
    }

    /// What is left of a finding: files have the names they have now, and what is missing there and
    /// is here now has been told as lost, or is compacted away.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn settle(&mut self, finding: Finding) -> Result<Option<Finding>, Error> {
        if self.swaps.placed().is_none() {
            return Ok(Some(finding));
        }
        if follows(self.swaps, &finding) {
            return Ok(None);
        }
        let finding = if finding.kind == Kind::SegmentMissing {
            match self.as_missing_now(finding)? {
                Some(finding) => finding,
                None => return Ok(None),
            }
        } else {
            finding
        };
        Ok(Some(with_names_now(self.swaps, finding)))
    }

    fn as_missing_now(&mut self, finding: Finding) -> Result<Option<Finding>, Error> {
        let Some(first) = finding.first_offset.or(finding.offset) else {
            return Ok(Some(finding));
        };
        let missing = match self.missing_now.take() {
            Some(known) => known,
            None => missing_now(self.listed, self.checkpoints, self.io)?,
        };
        let last = finding.last_offset.unwrap_or(i64::MAX);
        let parts = missing.within(first, last);
        self.missing_now = Some(missing);
        let ends = parts.first().copied().zip(parts.last().copied());
        Ok(ends.map(|((from, _), (_, to))| Finding {
            offset: Some(from),
            first_offset: Some(from),
            last_offset: finding.last_offset.map(|last| last.min(to)),
            ..finding
        }))
    }
}

/// The offsets that are missing in a directory as it is, whether a start brings them back or not.
pub(super) fn missing_now(
    listed: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    io: Io,
) -> Result<OffsetRanges, Error> {
    let options = GapOptions {
        io,
        ..GapOptions::default()
    };
    let mut missing = OffsetRanges::default();
    find_gaps::<Error>(listed, checkpoints, &options, |it| {
        let is_missing =
            it.class == GapClass::SegmentInSwap || it.is_loss() && it.class != GapClass::SwapLoss;
        if it.kind == GapKind::OffsetGap
            && is_missing
            && let Some(first) = it.first_offset
        {
            missing.add(first, it.last_offset.unwrap_or(i64::MAX));
        }
        Ok(())
    })?;
    Ok(missing)
}

fn with_names_now(swaps: &Swaps, finding: Finding) -> Finding {
    let lost = &swaps.lost().offsets;
    let first = finding.first_offset.or(finding.offset);
    let range = first.zip(finding.last_offset.or(first));
    let is_lost = range.is_some_and(|(first, last)| lost.touches(first, last));
    let is_made = finding.kind == Kind::IndexMissing
        && finding
            .file
            .as_ref()
            .is_some_and(|it| swaps.makes_index(it));
    let finding = if is_made {
        Finding {
            broker_action: "makes one of zeros at any start, by which every fetch from the \
                            segment reads it from the front"
                .to_owned(),
            ..finding
        }
    } else if is_lost && finding.severity.is_alarm() {
        Finding {
            next_step: Some(keep(swaps)),
            ..finding
        }
    } else {
        finding
    };
    let file = finding.file.map(|file| match swaps.name_now(&file) {
        now if now == file => file,
        now => now.to_owned(),
    });
    Finding { file, ..finding }
}
