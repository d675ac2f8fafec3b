//! The rows of `gaps`: where a producer has one finding after the other of a kind, one row for all
//! of them.

use std::collections::HashMap;

use kseg::log::partition_dir::PartitionDir;
use kseg::report::gaps::{Detail, Finding, GapClass, GapKind, GapRow, range};

use super::text::printable;

/// So many findings of a run have rows of their own.
const MOST_APART: usize = 3;

/// Rows by the order of their findings.
pub(crate) struct GapRuns {
    runs: Vec<Run>,
    /// The last run of each producer, epoch included.
    last: HashMap<(i64, i16), usize>,
    rows: usize,
    max_rows: usize,
}

/// What the findings of a run have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sort {
    kind: GapKind,
    class: GapClass,
    is_inside_window: Option<bool>,
}

struct Run {
    sort: Sort,
    first_offset: Option<i64>,
    /// Of its first findings.
    cells: Vec<Vec<String>>,
    count: u64,
    last_offset: Option<i64>,
    first_sequence: Option<i32>,
    last_sequence: Option<i32>,
}

impl GapRuns {
    /// No rows yet; `max_rows` are kept.
    pub(crate) fn new(max_rows: usize) -> Self {
        Self {
            runs: Vec::new(),
            last: HashMap::new(),
            rows: 0,
            max_rows,
        }
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes a finding, unless there is no room for its row.
    pub(crate) fn add(&mut self, finding: &Finding, dir: &PartitionDir) -> bool {
        let sort = Sort {
            kind: finding.kind,
            class: finding.class,
            is_inside_window: match finding.detail {
                Detail::DuplicateOf {
                    is_inside_window, ..
                } => is_inside_window,
                Detail::None
                | Detail::Overlap { .. }
                | Detail::ToldBy(_)
                | Detail::ReplacedBy { .. }
                | Detail::AboveHighWatermark(_)
                | Detail::LeftOff { .. }
                | Detail::Epochs { .. } => None,
            },
        };
        // Offsets that nobody gets are ranges already.
        let producer = finding.producer.filter(|_| sort.kind != GapKind::OffsetGap);
        let run = producer.and_then(|producer| self.last.get(&producer));
        if let Some(run) = run.and_then(|index| self.runs.get_mut(*index))
            && run.sort == sort
        {
            run.count += 1;
            run.last_offset = finding.last_offset;
            run.last_sequence = finding.last_sequence();
            if run.cells.len() < MOST_APART {
                self.rows += 1;
                run.cells.push(cells(&GapRow::new(finding, dir)));
            }
            return true;
        }
        if self.rows >= self.max_rows {
            return false;
        }
        if let Some(producer) = producer {
            self.last.insert(producer, self.runs.len());
        }
        self.rows += 1;
        self.runs.push(Run {
            sort,
            first_offset: finding.first_offset,
            cells: vec![cells(&GapRow::new(finding, dir))],
            count: 1,
            last_offset: finding.last_offset,
            first_sequence: finding.sequences.map(|(first, _)| first),
            last_sequence: finding.last_sequence(),
        });
        true
    }

    /// The rows, by first offset.
    pub(crate) fn into_rows(mut self) -> Vec<Vec<String>> {
        self.runs.sort_by_key(|run| run.first_offset);
        self.runs.into_iter().flat_map(Run::into_rows).collect()
    }
}

impl Run {
    fn into_rows(self) -> Vec<Vec<String>> {
        if self.cells.len() as u64 == self.count {
            return self.cells;
        }
        let mut cells = self.cells.into_iter().next().unwrap_or_default();
        if let [offsets, _, sequences, .., what] = cells.as_mut_slice() {
            if let (Some(first), Some(last)) = (self.first_offset, self.last_offset) {
                *offsets = range(first, last);
            }
            if let (Some(first), Some(last)) = (self.first_sequence, self.last_sequence) {
                *sequences = range(first, last);
            }
            *what = format!("{} like this; the first: {what}", self.count);
        }
        vec![cells]
    }
}

fn cells(row: &GapRow<'_>) -> Vec<String> {
    let is_missing = row.kind == GapKind::Missing.name();
    let offsets = match (row.first_offset, row.last_offset) {
        (Some(first), _) if is_missing => format!("before {first}"),
        (Some(first), Some(last)) => range(first, last),
        (Some(first), None) => format!("{first}.."),
        (None, _) => "-".to_owned(),
    };
    let producer = match (row.producer_id, row.producer_epoch) {
        (Some(id), Some(epoch)) => format!("{id} epoch {epoch}"),
        _ => "-".to_owned(),
    };
    let sequences = match (row.first_sequence, row.last_sequence) {
        (Some(first), Some(last)) => range(first, last),
        (Some(first), None) => format!("{first}.."),
        (None, _) => "-".to_owned(),
    };
    let place = match (&row.file, row.position) {
        (Some(file), Some(position)) => format!("{} @ {position}", printable(file)),
        (Some(file), None) => printable(file),
        (None, _) => "-".to_owned(),
    };
    vec![
        offsets,
        producer,
        sequences,
        row.class.to_owned(),
        place,
        row.message.clone(),
    ]
}
