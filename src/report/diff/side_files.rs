//! Files beside the logs: what must be the same on two replicas, and is not.
//!
//! Replicas roll, index and take snapshots on their own, so files are compared by what they say,
//! and only as far as the logs agree. Indexes are never compared: each replica makes its own.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use super::epochs::KnownEpochs;
use super::kind::{Side, Sides};
use super::snapshots::compare_entries;
use super::txn_rows::{Rowless, TxnRow, TxnRows};
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::report::partition_state::{read_snapshot, snapshot_files};

/// Something that files beside the logs do not say alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SideFileRow {
    /// What, a short name.
    pub kind: &'static str,
    /// The file concerned, or the first one.
    pub file: String,
    /// `left` or `right` if one side is at fault or lacks something; null if that cannot be told.
    pub side: Option<&'static str>,
    /// Whether healthy replicas never differ so.
    pub is_difference: bool,
    /// Whether both sides are damaged so: no difference, but neither is sound.
    pub is_on_both_sides: bool,
    /// How often.
    pub count: u64,
    /// The first offset concerned.
    pub first_offset: Option<i64>,
    /// The same in words.
    pub message: String,
}

/// What of two partitions is compared.
pub(super) struct SideFiles<'d> {
    pub(super) dirs: Sides<&'d PartitionDir>,
    pub(super) io: Io,
    /// The logs agree from here on.
    pub(super) start: i64,
    /// The logs agree up to here.
    pub(super) end: i64,
    /// The batches are the same ones up to here: a snapshot has the last batch of each producer.
    pub(super) same_batches_end: i64,
    /// Whether there is a batch: a log without one has no state to snapshot.
    pub(super) has_batches: Sides<bool>,
    /// Aborted transactions that a side's index should have a row of and has not.
    pub(super) rowless: Sides<&'d Rowless<'d>>,
    /// The cleaner was at work on one side at least: it drops rows and entries with the data.
    pub(super) is_cleaned: bool,
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Left => "left",
        Side::Right => "right",
    }
}

impl SideFiles<'_> {
    /// Everything that is not alike.
    pub(super) fn compare(&self, epochs: &Sides<KnownEpochs>) -> Result<Vec<SideFileRow>, Error> {
        let mut rows = Vec::new();
        self.aborted_transactions(&mut rows)?;
        self.snapshots(&mut rows)?;
        self.leader_epochs(epochs, &mut rows);
        self.topic_ids(&mut rows)?;
        Ok(rows)
    }

    fn aborted_transactions(&self, rows: &mut Vec<SideFileRow>) -> Result<(), Error> {
        let mut left = TxnRows::new(self.dirs.left, self.io);
        let mut right = TxnRows::new(self.dirs.right, self.io);
        let (mut l, mut r) = (left.next_row()?, right.next_row()?);
        let mut found: BTreeMap<TxnFinding, (u64, TxnRow)> = BTreeMap::new();
        loop {
            let order = match (&l, &r) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(l), Some(r)) => l.key().cmp(&r.key()),
            };
            let finding = match (order, &l, &r) {
                (Ordering::Less, Some(row), _) => self.missing_row(Side::Right, row),
                (Ordering::Greater, _, Some(row)) => self.missing_row(Side::Left, row),
                (Ordering::Equal, Some(l), Some(r)) => self.other_row(l, r),
                _ => None,
            };
            if let Some((finding, row)) = finding {
                found.entry(finding).or_insert((0, row)).0 += 1;
            }
            if order != Ordering::Greater {
                l = left.next_row()?;
            }
            if order != Ordering::Less {
                r = right.next_row()?;
            }
        }
        rows.extend(
            found
                .into_iter()
                .map(|(finding, (count, row))| finding.row(count, row)),
        );
        rows.extend(self.rowless_on_both()?);
        Ok(())
    }

    /// Aborted transactions of which neither index has a row. The cleaner takes rows with the data.
    fn rowless_on_both(&self) -> Result<Option<SideFileRow>, Error> {
        if self.is_cleaned {
            return Ok(None);
        }
        let dirs = [self.dirs.left, self.dirs.right];
        let both = self
            .rowless
            .left
            .also_in(self.rowless.right, dirs, self.io)?;
        Ok(both.first().map(|first| SideFileRow {
            kind: "txnindex-row-missing",
            file: format!("{:020}.txnindex", first.segment_base_offset),
            side: None,
            is_difference: false,
            is_on_both_sides: true,
            count: both.len() as u64,
            first_offset: Some(first.last_offset),
            message: "aborted transactions that neither index has: consumers of both sides see \
                      them"
                .to_owned(),
        }))
    }

    fn other_row(&self, left: &TxnRow, right: &TxnRow) -> Option<(TxnFinding, TxnRow)> {
        let finding = if left.last_offset >= self.end {
            return None;
        } else if left.first_offset != right.first_offset {
            let first = left.first_offset.min(right.first_offset);
            if self.is_cleaned || first < self.start {
                TxnFinding::Removed
            } else {
                TxnFinding::FirstOffset
            }
        } else if left.last_stable_offset != right.last_stable_offset {
            TxnFinding::LastStableOffset
        } else {
            return None;
        };
        Some((finding, left.clone()))
    }

    fn missing_row(&self, side: Side, row: &TxnRow) -> Option<(TxnFinding, TxnRow)> {
        if row.last_offset < self.start || row.last_offset >= self.end {
            return None;
        }
        // A broker that rebuilds the index cannot know a transaction that begins before its log.
        let finding = match side {
            _ if self.is_cleaned || row.first_offset < self.start => TxnFinding::Removed,
            Side::Left => TxnFinding::MissingLeft,
            Side::Right => TxnFinding::MissingRight,
        };
        Some((finding, row.clone()))
    }

    fn snapshots(&self, rows: &mut Vec<SideFileRow>) -> Result<(), Error> {
        let offsets = Sides {
            left: snapshot_offsets(self.dirs.left),
            right: snapshot_offsets(self.dirs.right),
        };
        for side in Side::BOTH {
            // A log that never rolled and was not closed has none yet.
            let rolled = self.dirs.of(side).segments.len() > 1;
            let others = offsets.of(side.other());
            let has_state = rolled && *self.has_batches.of(side);
            if has_state && offsets.of(side).is_empty() && !others.is_empty() {
                rows.push(SideFileRow {
                    kind: "snapshots-missing",
                    file: format!("{:020}.snapshot", others.last().copied().unwrap_or(0)),
                    side: Some(name(side)),
                    is_difference: true,
                    is_on_both_sides: false,
                    count: others.len() as u64,
                    first_offset: others.first().copied(),
                    message: format!(
                        "the {0} side has no producer snapshot: after a clean start its broker \
                         knows no producer",
                        name(side)
                    ),
                });
            }
        }
        for offset in &offsets.left {
            let is_comparable = (self.start..=self.same_batches_end).contains(offset);
            if is_comparable && offsets.right.binary_search(offset).is_ok() {
                self.snapshot(*offset, rows)?;
            }
        }
        Ok(())
    }

    fn snapshot(&self, offset: i64, rows: &mut Vec<SideFileRow>) -> Result<(), Error> {
        let left = read_snapshot(self.dirs.left, self.io, offset)?;
        let right = read_snapshot(self.dirs.right, self.io, offset)?;
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(());
        };
        let row = |kind, side, is_difference, count, message| SideFileRow {
            kind,
            file: format!("{offset:020}.snapshot"),
            side,
            is_difference,
            is_on_both_sides: false,
            count,
            first_offset: Some(offset),
            message,
        };
        let (left, right) = match (left, right) {
            (Ok(left), Ok(right)) => (left, right),
            (left, right) => {
                let side = match (&left, &right) {
                    (Err(_), Ok(_)) => Some("left"),
                    (Ok(_), Err(_)) => Some("right"),
                    (Ok(_), Ok(_)) | (Err(_), Err(_)) => None,
                };
                let reason = left.err().or(right.err()).unwrap_or_default();
                rows.push(SideFileRow {
                    is_on_both_sides: side.is_none(),
                    ..row(
                        "snapshot-unreadable",
                        side,
                        side.is_some(),
                        1,
                        unusable(&reason),
                    )
                });
                return Ok(());
            }
        };
        let compared = compare_entries(left, right, self.start);
        if let Some(producer_id) = compared.first_differing {
            let message = format!(
                "other state of {} producers, first of producer {producer_id}",
                compared.differing
            );
            let is_difference = !self.is_cleaned;
            rows.push(row(
                "snapshot-differs",
                None,
                is_difference,
                compared.differing,
                message,
            ));
        }
        if compared.unknown > 0 {
            let message = format!(
                "{} producers are in one of the two only, or better known there: forgotten for \
                 their age, or older than the other log",
                compared.unknown
            );
            rows.push(row(
                "snapshot-producers",
                None,
                false,
                compared.unknown,
                message,
            ));
        }
        Ok(())
    }

    fn leader_epochs(&self, known: &Sides<KnownEpochs>, rows: &mut Vec<SideFileRow>) {
        let row = |kind, side: Option<Side>, is_difference, first_offset, message| SideFileRow {
            kind,
            file: "leader-epoch-checkpoint".to_owned(),
            side: side.map(name),
            is_difference,
            is_on_both_sides: false,
            count: 1,
            first_offset,
            message,
        };
        for side in Side::BOTH {
            let (own, other) = (known.of(side), known.of(side.other()));
            if let Some(defect) = &own.defect {
                let kind = "leader-epoch-checkpoint-unreadable";
                let is_difference = other.defect.is_none();
                let message = format!("a broker does not load the partition: {defect}");
                rows.push(SideFileRow {
                    is_on_both_sides: !is_difference,
                    ..row(kind, Some(side), is_difference, None, message)
                });
            } else if !own.has_file && other.epochs.latest_epoch().is_some() {
                let kind = "leader-epoch-checkpoint-missing";
                let message = "a broker knows no leader epoch after a clean start".to_owned();
                rows.push(row(kind, Some(side), true, None, message));
            }
        }
        if known.left.source != "checkpoint" || known.right.source != "checkpoint" {
            return;
        }
        // Where the logs have no offset in common there is nothing to agree on.
        if self.start >= self.end {
            return;
        }
        let clipped = |side: Side| {
            let mut epochs = known.of(side).epochs.clone();
            epochs.truncate_from_end(self.end);
            epochs.truncate_from_start(self.start);
            epochs
        };
        let (left, right) = (clipped(Side::Left), clipped(Side::Right));
        if left == right {
            return;
        }
        let differing = left
            .entries()
            .find(|entry| right.entries().all(|it| it != *entry))
            .or_else(|| {
                right
                    .entries()
                    .find(|entry| left.entries().all(|it| it != *entry))
            });
        if let Some(entry) = differing {
            let message = format!(
                "epoch {} from offset {} is on one side only, though the logs agree there",
                entry.epoch, entry.start_offset
            );
            // Epochs whose records were all cleaned away do not reach a new replica.
            rows.push(row(
                "leader-epochs-differ",
                None,
                !self.is_cleaned,
                Some(entry.start_offset),
                message,
            ));
        }
    }

    fn topic_ids(&self, rows: &mut Vec<SideFileRow>) -> Result<(), Error> {
        let left = self.dirs.left.topic_id(self.io)?;
        let right = self.dirs.right.topic_id(self.io)?;
        let (kind, side, message) = match (left, right) {
            (Some(left), Some(right)) if left != right => (
                "topic-id-differs",
                None,
                format!(
                    "topic id {left} on the left, {right} on the right: two topics of one name"
                ),
            ),
            (None, Some(_)) => ("topic-id-missing", Some("left"), stray()),
            (Some(_), None) => ("topic-id-missing", Some("right"), stray()),
            (Some(_), Some(_)) | (None, None) => return Ok(()),
        };
        rows.push(SideFileRow {
            kind,
            file: "partition.metadata".to_owned(),
            side,
            is_difference: true,
            is_on_both_sides: false,
            count: 1,
            first_offset: None,
            message,
        });
        Ok(())
    }
}

fn stray() -> String {
    "no topic id: a broker sets the directory aside as stray".to_owned()
}

fn unusable(reason: &str) -> String {
    format!("a broker deletes it and takes an older one: {reason}")
}

/// What rows of the `.txnindex` files do not say alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TxnFinding {
    MissingLeft,
    MissingRight,
    FirstOffset,
    Removed,
    LastStableOffset,
}

impl TxnFinding {
    fn row(self, count: u64, first: TxnRow) -> SideFileRow {
        let missing = |side: &str| {
            format!("aborted transactions that this index lacks: consumers of the {side} see them")
        };
        let (kind, side, is_difference, message) = match self {
            Self::MissingLeft => ("txnindex-row-missing", Some("left"), true, missing("left")),
            Self::MissingRight => (
                "txnindex-row-missing",
                Some("right"),
                true,
                missing("right"),
            ),
            Self::FirstOffset => (
                "txnindex-row-differs",
                None,
                true,
                "aborted transactions begin at other offsets in the two indexes; kseg aborted \
                 tells which is right"
                    .to_owned(),
            ),
            Self::Removed => (
                "txnindex-row-removed",
                None,
                false,
                "rows of transactions whose first records are gone on one side".to_owned(),
            ),
            Self::LastStableOffset => (
                "txnindex-last-stable-offset",
                None,
                false,
                "a follower notes the last stable offset after each fetch, a leader after each \
                 append"
                    .to_owned(),
            ),
        };
        SideFileRow {
            kind,
            file: first.file.to_string(),
            side,
            is_difference,
            is_on_both_sides: false,
            count,
            first_offset: Some(first.last_offset),
            message,
        }
    }
}

fn snapshot_offsets(dir: &PartitionDir) -> Vec<i64> {
    let mut offsets: Vec<i64> = snapshot_files(dir).map(|(offset, _)| offset).collect();
    offsets.sort_unstable();
    offsets
}
