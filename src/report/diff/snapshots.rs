//! Two producer snapshots of one offset.

use std::cmp::Ordering;

use crate::state::ProducerSnapshotRow;

/// How many producers two snapshots do not have alike.
#[derive(Debug, Default)]
pub(super) struct ComparedEntries {
    /// Producers in another state.
    pub(super) differing: u64,
    pub(super) first_differing: Option<i64>,
    /// Producers that one side does not know, or knows less of.
    pub(super) unknown: u64,
}

/// Compares two snapshots as sets: their order is that of hash maps with other histories.
pub(super) fn compare_entries(
    mut left: Vec<ProducerSnapshotRow>,
    mut right: Vec<ProducerSnapshotRow>,
    start: i64,
) -> ComparedEntries {
    left.sort_unstable_by_key(|row| row.producer_id);
    right.sort_unstable_by_key(|row| row.producer_id);
    let mut compared = ComparedEntries::default();
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return compared,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(l), Some(r)) => l.producer_id.cmp(&r.producer_id),
        };
        match order {
            Ordering::Less => {
                left.next();
                compared.unknown += 1;
            }
            Ordering::Greater => {
                right.next();
                compared.unknown += 1;
            }
            Ordering::Equal => {
                let (Some(l), Some(r)) = (left.next(), right.next()) else {
                    continue;
                };
                if l == r {
                    continue;
                }
                if differs_by_age(l, r, start) {
                    compared.unknown += 1;
                } else {
                    compared.differing += 1;
                    compared.first_differing.get_or_insert(l.producer_id);
                }
            }
        }
    }
}

/// Whether one side only does not know what lies below the common start of the logs: its own log
/// began later.
fn differs_by_age(left: &ProducerSnapshotRow, right: &ProducerSnapshotRow, start: i64) -> bool {
    let begins_below =
        |row: &ProducerSnapshotRow| (0..start).contains(&row.current_txn_first_offset);
    left.producer_epoch == right.producer_epoch
        && (left.coordinator_epoch == right.coordinator_epoch
            || left.coordinator_epoch.min(right.coordinator_epoch) == -1)
        && (left.last_offset == right.last_offset
            || left.last_offset.max(right.last_offset) < start)
        && (left.current_txn_first_offset == right.current_txn_first_offset
            || begins_below(left)
            || begins_below(right))
        && (left.last_offset != right.last_offset
            || (left.last_sequence == right.last_sequence
                && left.offset_delta == right.offset_delta
                && left.timestamp == right.timestamp))
}
