//! What is said of an index that does not fit its segment.

use super::finding::{Finding, Severity, StartWarning};
use super::kind::Kind;
use super::start::Start;
use crate::format::file_name::LogFileKind;
use crate::format::{IndexEntry, IndexRows};

/// The first thing that is wrong with an index; those behind it mostly follow from it.
#[derive(Clone, Debug)]
pub(super) struct Defect {
    pub(super) name: &'static str,
    pub(super) entry: usize,
    pub(super) expected: String,
    pub(super) found: String,
}

impl Defect {
    pub(super) fn new(name: &'static str, entry: usize, expected: String, found: String) -> Self {
        Self {
            name,
            entry,
            expected,
            found,
        }
    }
}

/// Where both indexes of a segment say something else than its batches, it is rather the `.log`
/// that is not the one they were made of: a rebuild would hide that.
pub(super) fn suspect_log(found: &mut [Finding]) {
    let has = |defects: &[&str]| {
        let mut named = found.iter().filter_map(|it| it.defect);
        named.any(|defect| defects.contains(&defect))
    };
    if !has(&["not-a-batch-start", "offset-differs"]) || !has(&["timestamp-differs"]) {
        return;
    }
    for finding in found.iter_mut().filter(|it| it.kind == Kind::IndexDamaged) {
        finding.next_step = Some(
            "both indexes contradict the .log, which may be another partition's: compare with \
             another replica (kseg diff) before anything is rebuilt"
                .to_owned(),
        );
    }
}

/// The index of one segment, for its findings.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexContext<'c> {
    pub(super) start: &'c Start,
    pub(super) segment: usize,
    pub(super) base_offset: i64,
    /// Whether there is an `.index` beside it.
    pub(super) has_offset_index: bool,
    pub(super) file: &'c str,
    pub(super) file_size: u64,
}

impl IndexContext<'_> {
    fn finding(&self, severity: Severity, kind: Kind, message: String) -> Finding {
        Finding {
            file: Some(self.file.to_owned()),
            segment_base_offset: Some(self.base_offset),
            file_size: Some(self.file_size),
            ..Finding::new(severity, kind, message)
        }
    }

    /// Tells the defects of an index, and of the room behind its entries.
    pub(super) fn tell<E: IndexEntry>(
        &self,
        rows: &IndexRows<'_, E>,
        is_offset_index: bool,
        defects: impl Iterator<Item = Defect>,
        found: &mut Vec<Finding>,
    ) {
        let size = size_of::<E>();
        let zeros = rows.zero_tail_size() as u64;
        let told = defects.map(|it| self.damaged(&it, size, is_offset_index, zeros > 0));
        found.extend(told);
        if zeros > 0 && rows.non_zero_position_after_rows().is_none() {
            found.push(self.not_trimmed((rows.row_count() * size) as u64, zeros));
        }
    }

    /// Says of the time index of a closed segment what retention makes of it: it goes by the last
    /// entry of the file, zeros included, and looks no further
    /// (`LogSegment.largestTimestamp`, `TimeIndex.lastEntryFromIndexFile`).
    pub(super) fn tell_retention(&self, last: i64, largest: i64, found: &mut [Finding]) {
        if self.start.is_last(self.segment) || last == largest || !self.has_offset_index {
            return;
        }
        let goes_by = if last < 0 {
            "the file's mtime".to_owned()
        } else {
            format!("its last entry, {last} ms")
        };
        let so = if last < 0 {
            String::new()
        } else if last < largest {
            format!(
                ": the segment has timestamps up to {largest} ms and is deleted too early, with \
                 all before it, where retention.ms is set"
            )
        } else {
            format!(": the segment has timestamps up to {largest} ms and is kept longer")
        };
        let file = self.file;
        for finding in found {
            let action = &finding.broker_action;
            finding.broker_action = format!("{action}; retention by time goes by {goes_by}{so}");
            if (0..largest).contains(&last) {
                finding.start_warning = Some(StartWarning {
                    text: format!(
                        "{file} ends with {last} ms, and the segment has timestamps up to \
                         {largest} ms: retention by time deletes it too early, with all before \
                         it; kseg rebuild --only timeindex makes it anew"
                    ),
                    clean: true,
                    unclean: !self.start.recovers(self.segment),
                });
            }
        }
    }

    fn damaged(
        &self,
        defect: &Defect,
        entry_size: usize,
        is_offset_index: bool,
        is_open: bool,
    ) -> Finding {
        let entry = defect.entry;
        let message = format!("entry {entry}: {} ({})", defect.found, defect.name);
        let is_last = self.start.is_last(self.segment);
        let action = match defect.name {
            "past-end-of-log" if is_last && is_offset_index => format!(
                "a clean start takes {} for the log end, and offsets from there on are written \
                 again; an unclean one rebuilds the index",
                self.base_offset
            ),
            "size-not-a-multiple" => format!(
                "no start looks at the size, which is trimmed when the segment is closed; {}",
                self.start.index(self.segment, self.has_offset_index)
            ),
            _ => self
                .start
                .index(self.segment, self.has_offset_index)
                .to_owned(),
        };
        // A broker that truncates leaves the bytes of the entries in an open index
        // (`AbstractIndex.truncateToEntries`): where its own end only it knows.
        let may_be_cut_off = is_open
            && is_last
            && self.start.clean == Some(false)
            && !matches!(defect.name, "size-not-a-multiple" | "entry-zero");
        let (severity, message) = if may_be_cut_off {
            let message = format!("{message}; a truncation may have left it in the open index");
            (Severity::Notable, message)
        } else {
            (self.start.severity(self.segment), message)
        };
        Finding {
            position: Some((entry * entry_size) as u64),
            entry: Some(entry as u64),
            defect: Some(defect.name),
            expected: Some(defect.expected.clone()),
            found: Some(defect.found.clone()),
            broker_action: action,
            next_step: Some(if is_offset_index {
                "kseg rebuild makes it anew; or delete it before the start: a broker without an \
                 .index recovers the segment, which makes all its indexes anew"
                    .to_owned()
            } else {
                "kseg rebuild makes it anew; deleting it does not: a broker leaves a .timeindex \
                 that was missing empty"
                    .to_owned()
            }),
            ..self.finding(severity, Kind::IndexDamaged, message)
        }
    }

    fn not_trimmed(&self, position: u64, zeros: u64) -> Finding {
        let is_last = self.start.is_last(self.segment);
        let (severity, action) = if is_last {
            let action = "none needed: an open index has its full size; it is trimmed when the \
                          segment is closed or rolled";
            (Severity::Notable, action)
        } else {
            let action = "reads the zeros as entries; an unclean start that recovers the segment \
                          rebuilds the index";
            // A load that ended in the middle of recovery leaves it so, whatever recovery point is
            // written after it.
            (self.start.severity_anywhere(), action)
        };
        Finding {
            position: Some(position),
            bytes: Some(zeros),
            broker_action: action.to_owned(),
            ..self.finding(
                severity,
                Kind::IndexNotTrimmed,
                format!("never trimmed: {zeros} zeros behind its entries"),
            )
        }
    }

    pub(super) fn time_index_empty(&self) -> Finding {
        Finding {
            broker_action: "none: it stays empty; retention by time goes by the file's mtime, and \
                            look-ups by time read the segment"
                .to_owned(),
            next_step: Some("kseg rebuild makes it anew".to_owned()),
            ..self.finding(
                Severity::Notable,
                Kind::TimeIndexEmpty,
                "empty, though the segment has timestamps".to_owned(),
            )
        }
    }

    /// The segment has data and the index is not there.
    pub(super) fn missing(&self, kind: &LogFileKind) -> Finding {
        let is_time_index = matches!(kind, LogFileKind::TimeIndex(_));
        let action = if is_time_index && self.has_offset_index {
            "makes an empty one; it stays empty unless the segment is recovered, and retention by \
             time goes by the file's mtime"
        } else {
            "recovers the segment at any start, which makes all its indexes anew"
        };
        Finding {
            broker_action: action.to_owned(),
            next_step: Some("kseg rebuild makes it anew".to_owned()),
            ..self.finding(
                self.start.severity(self.segment),
                Kind::IndexMissing,
                "the segment has batches, and this index is not there".to_owned(),
            )
        }
    }
}
