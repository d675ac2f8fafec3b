//! What became of the records of each transaction, by the markers in the log.

use std::collections::HashMap;

use serde::Serialize;

use super::{IsolationLevel, ReadSummary};
use crate::format::control_record::ControlRecordType;

/// Disagreements that are kept; the rest is counted.
const KEPT_DISAGREEMENTS: usize = 10;

/// Records by what a consumer gets of them. All but the last two count what lies between the
/// read's first offset and the high watermark and passes the filters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReadCounts {
    /// Records the consumer gets.
    pub visible: u64,
    /// Records of aborted transactions. read_uncommitted gets them as well.
    pub aborted: u64,
    /// Records of aborted transactions that read_committed gets, since no `.txnindex` names them.
    pub exposed: u64,
    /// Records of transactions without a marker. read_uncommitted gets them as well.
    pub open: u64,
    /// Records behind the last stable offset that read_committed will get.
    pub behind_last_stable_offset: u64,
    /// Control records.
    pub control: u64,
    /// Offset of the first record the consumer gets.
    pub first_visible: Option<i64>,
    /// Offset of the last record the consumer gets.
    pub last_visible: Option<i64>,
    /// Records in the files that lie below the log start.
    pub below_log_start: u64,
    /// Records in the files at or above the high watermark.
    pub above_high_watermark: u64,
}

/// A transaction that index and log do not agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDisagreement {
    /// Whose transaction.
    pub producer_id: i64,
    /// Its first offset as far as it was read.
    pub first_offset: i64,
    /// Offset of its marker.
    pub marker_offset: i64,
    /// How the two differ.
    pub kind: DisagreementKind,
    /// Records shown or hidden because of it.
    pub records: u64,
}

/// How index and log differ about a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisagreementKind {
    /// The marker is an ABORT that no index has.
    Missing,
    /// The index has the ABORT, and records are shown all the same: its row begins behind them, or
    /// a fetch looks no further than a row before it.
    Passed,
    /// The index hides records that the marker commits.
    Surplus,
}

/// Records of an open transaction.
#[derive(Clone, Copy, Debug, Default)]
struct Ongoing {
    first_offset: i64,
    visible: u64,
    hidden: u64,
    unstable: u64,
}

/// What became of a batch's records in the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Visible,
    Hidden,
    /// At or behind the last stable offset.
    Unstable,
}

/// The transactions in progress. Which of them the broker takes as open is the state's matter;
/// this follows what a reader has seen of them.
#[derive(Debug, Default)]
pub(super) struct Fates {
    ongoing: HashMap<i64, Ongoing>,
}

impl Fates {
    /// Records of a transactional batch.
    pub(super) fn data(&mut self, producer_id: i64, base_offset: i64, fate: Fate, records: u64) {
        let ongoing = self.ongoing.entry(producer_id).or_insert(Ongoing {
            first_offset: base_offset,
            ..Ongoing::default()
        });
        match fate {
            Fate::Visible => ongoing.visible += records,
            Fate::Hidden => ongoing.hidden += records,
            Fate::Unstable => ongoing.unstable += records,
        }
    }

    /// A marker. `is_indexed` is asked only about aborted transactions that began in this read.
    pub(super) fn marker<E>(
        &mut self,
        producer_id: i64,
        control_type: ControlRecordType,
        marker_offset: i64,
        summary: &mut ReadSummary,
        isolation_level: IsolationLevel,
        is_indexed: impl FnOnce() -> Result<bool, E>,
    ) -> Result<(), E> {
        let is_abort = control_type == ControlRecordType::ABORT;
        if !is_abort && control_type != ControlRecordType::COMMIT {
            return Ok(());
        }
        let Some(ongoing) = self.ongoing.remove(&producer_id) else {
            return Ok(());
        };
        let counts = &mut summary.counts;
        let is_read_committed = isolation_level == IsolationLevel::ReadCommitted;
        let (kind, records) = if is_abort {
            counts.aborted += ongoing.unstable;
            if is_read_committed {
                counts.exposed += ongoing.visible;
            } else {
                counts.aborted += ongoing.visible;
            }
            let kind = if !is_indexed()? {
                Some(DisagreementKind::Missing)
            } else if is_read_committed && ongoing.visible > 0 {
                Some(DisagreementKind::Passed)
            } else {
                None
            };
            (kind, ongoing.visible)
        } else {
            counts.behind_last_stable_offset += ongoing.unstable;
            let is_hidden = ongoing.hidden > 0;
            (
                is_hidden.then_some(DisagreementKind::Surplus),
                ongoing.hidden,
            )
        };
        let Some(kind) = kind else {
            return Ok(());
        };
        if summary.disagreements.len() < KEPT_DISAGREEMENTS {
            summary.disagreements.push(IndexDisagreement {
                producer_id,
                first_offset: ongoing.first_offset,
                marker_offset,
                kind,
                records,
            });
        } else {
            summary.more_disagreements += 1;
        }
        Ok(())
    }

    /// Records of transactions that no marker has ended.
    pub(super) fn open_records(&self) -> u64 {
        let ongoing = self.ongoing.values();
        ongoing.map(|it| it.visible + it.unstable).sum()
    }
}
