//! Files on their way out, or made by a compaction that had not come to its end, that a start
//! removes although they are the last copy of records.

use std::sync::Arc;

use super::{DryRun, DryRunOptions};
use crate::format::file_name::LogFileKind;
use crate::log;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::last_copies::{AfterStart, LostLog, LostReason, last_copies, set_aside};
use crate::log::partition_dir::PartitionDir;

impl DryRun {
    /// Looks for files that are removed although nothing has their records that is left.
    pub(super) fn find_last_copies(
        &mut self,
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
        options: &DryRunOptions,
    ) -> Result<(), log::Error> {
        if set_aside(dir).next().is_none() {
            return Ok(());
        }
        let left = PartitionDir::of_overlay(Arc::new(self.overlay.clone()));
        let after = AfterStart {
            dir: &left,
            log_end_offset: self.row.log_end_offset.unwrap_or(i64::MAX),
            checkpoints,
        };
        let mut counted = std::mem::take(&mut self.counted);
        let aside = last_copies(dir, after, counted.offsets(), true, options.io)?;
        for lost in aside.lost {
            counted.add(&lost);
            if let Some((first, last)) = lost.missing() {
                self.row.lost_spans.add(first, last);
            }
            self.row.warnings.extend(warning(&lost, dir));
        }
        self.set_losses(counted);
        Ok(())
    }
}

fn warning(lost: &LostLog, dir: &PartitionDir) -> Option<String> {
    let (first, last) = lost.span()?;
    let what = match (lost.reason?, lost.records) {
        (LostReason::Damaged | LostReason::NotCompacted, _) => format!("offsets {first}..{last}"),
        (LostReason::LastOfKey, 1) => {
            format!("1 record, at {first}, whose key no later record has")
        }
        (LostReason::LastOfKey, many) => {
            format!("{many} records in {first}..{last}, whose keys no later record has")
        }
        (LostReason::CleanerKeeps, 1) => {
            format!(
                "1 record, at {first}, that a cleaner would have kept ({})",
                lost.kept
            )
        }
        (LostReason::CleanerKeeps, many) => format!(
            "{many} records in {first}..{last} that a cleaner would have kept ({})",
            lost.kept
        ),
    };
    let mut bases = dir.segments.iter().map(|it| it.base_offset);
    let keep = if bases.any(|it| it == lost.base_offset) {
        "take a copy of it before the start".to_owned()
    } else {
        let live = LogFileKind::Log(lost.base_offset);
        format!("rename it to {live} before the start")
    };
    Some(format!(
        "{} is the last copy here of {what}, and a start removes it: {keep}",
        lost.file
    ))
}
