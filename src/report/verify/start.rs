//! How a broker would start on the directory, as far as that decides what damage is.
//!
//! Decides `LogLoader.recoverLog` and `LogManager.loadLogs`: with `.kafka_cleanshutdown` nothing is
//! recovered; without it the segments from the one that contains the recovery point on are.

use super::finding::Severity;
use crate::log::Error;
use crate::log::broker_start::outage;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::log_dir::stopped_cleanly;
use crate::log::partition_dir::PartitionDir;

/// What decides about the start of one partition.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Start {
    /// Whether the broker stopped cleanly; `None` if the directory above is no log directory.
    pub(super) clean: Option<bool>,
    pub(super) recovery_point: Option<i64>,
    /// The first segment that an unclean start recovers.
    floor: usize,
    segments: usize,
    /// Place of the first segment that is looked at among all of the directory.
    first: usize,
}

impl Start {
    /// Of a single segment it is told as of that one among the others, which lie beside it.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub(in crate::report) fn of(
        dir: &PartitionDir,
        checkpoints: CheckpointedOffsets,
    ) -> Result<Self, Error> {
        let relisted = if dir.is_whole {
            None
        } else {
            Some(PartitionDir::open(&dir.path)?)
        };
        let all = &relisted.as_ref().unwrap_or(dir).segments;
        let recovery_point = checkpoints.recovery_point;
        let floor =
            all.partition_point(|segment| segment.base_offset <= recovery_point.unwrap_or(0));
        let first = dir.segments.first().map_or(0, |first| {
            all.partition_point(|segment| segment.base_offset < first.base_offset)
        });
        Ok(Self {
            clean: stopped_cleanly(&dir.path),
            recovery_point,
            floor: floor.saturating_sub(1),
            segments: all.len(),
            first,
        })
    }

    pub(super) fn is_last(&self, segment: usize) -> bool {
        self.first + segment + 1 == self.segments
    }

    /// Whether an unclean start recovers the segment.
    pub(super) fn recovers(&self, segment: usize) -> bool {
        self.first + segment >= self.floor
    }

    /// Whether a crash may have left the segment, or a file of its, half written: there was no
    /// clean stop and it lies at or behind the recovery point. Where that is not known only the
    /// last segment counts.
    pub(in crate::report) fn may_be_torn(&self, segment: usize) -> bool {
        self.clean != Some(true)
            && (self.is_last(segment) || self.recovery_point.is_some() && self.recovers(segment))
    }

    /// For damage that a crash can leave.
    pub(super) fn severity(&self, segment: usize) -> Severity {
        if self.may_be_torn(segment) {
            Severity::AfterCrash
        } else {
            Severity::Corrupt
        }
    }

    /// For what a crash can leave wherever it lies.
    pub(super) fn severity_anywhere(&self) -> Severity {
        if self.clean == Some(true) {
            Severity::Corrupt
        } else {
            Severity::AfterCrash
        }
    }

    /// What happens to a segment whose bytes are good up to `position` only.
    pub(super) fn cut(&self, segment: usize, position: u64, bytes: u64) -> String {
        let clean = "a clean start does not look";
        if !self.recovers(segment) {
            let point = self.recovery_point.unwrap_or(0);
            return format!(
                "{clean}; an unclean one does not either: the segment lies below the recovery \
                 point {point}"
            );
        }
        let bytes = in_words(bytes);
        let later = self.segments.saturating_sub(self.first + segment + 1);
        let and = match later {
            0 => String::new(),
            1 => " and deletes the segment behind it".to_owned(),
            many => format!(" and deletes the {many} segments behind it"),
        };
        format!("{clean}; an unclean one cuts {bytes} off at {position}{and}")
    }

    /// The same where only zeros lie behind the bytes that are not good, in the last segment.
    pub(super) fn cut_before_zeros(&self, segment: usize, position: u64, bytes: u64) -> String {
        let clean = not_loaded(Some("CorruptRecordException"));
        let unclean = if self.recovers(segment) {
            format!("an unclean one cuts {} off at {position}", in_words(bytes))
        } else {
            "so does an unclean one, below the recovery point".to_owned()
        };
        format!("a clean start reads the zeros behind it, and {clean}; {unclean}")
    }

    /// What happens to an index of the segment, if it has an `.index` or has none.
    pub(super) fn index(&self, segment: usize, has_offset_index: bool) -> &'static str {
        if !has_offset_index {
            "any start recovers the segment, which has no .index, and rebuilds it"
        } else if self.recovers(segment) {
            "a clean start believes it; an unclean one rebuilds it"
        } else {
            "a clean start believes it, and so does an unclean one: the segment lies below the \
             recovery point"
        }
    }
}

/// What becomes of a broker that cannot load a partition, by the exception that nobody catches.
pub(super) fn does_not_load(uncaught: Option<&str>) -> String {
    format!("at any start {}", not_loaded(uncaught))
}

/// The same without the start at which it is so.
pub(super) fn not_loaded(uncaught: Option<&str>) -> String {
    let outage = outage(uncaught.is_some());
    let with = uncaught.map_or_else(String::new, |exception| format!(" ({exception})"));
    format!("the partition does not load, and {outage}{with}: all its partitions are down")
}

/// Bytes in a sentence.
pub(super) fn in_words(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        bytes => format!("{bytes} bytes"),
    }
}
