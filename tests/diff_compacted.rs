//! `diff` of replicas that were compacted at different points, some of which lack more than a
//! cleaner takes. The cleaner is Kafka's, written down over batches as plain values.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/cleaner.rs"]
mod cleaner;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cleaner::{
    Aborted, Batch, Cleaned, Content, Record, Segments, a_log, batch, kept_of, marker, put,
};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::diff::{Alone, DiffKind, DiffOptions, DiffRow, ReplicaInput, diff_partitions};
use proptest::collection::vec;
use proptest::prelude::*;

/// What `diff` says of two logs.
fn diff(left: &Segments, right: &Segments, aborted: &[Aborted]) -> DiffRow {
    let data = tempfile::tempdir().unwrap();
    let dirs = [("a", left), ("b", right)].map(|(name, log)| {
        let path = data.path().join(name).join("state-0");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("leader-epoch-checkpoint"), "0\n1\n0 0\n").unwrap();
        for (base, batches) in log {
            put(&path, *base, batches, aborted, "");
        }
        PartitionDir::open(&path).unwrap()
    });
    let [left, right] = &dirs;
    let input = |dir| ReplicaInput {
        dir,
        checkpoints: CheckpointedOffsets::default(),
    };
    let [row, other] = [Io::Mmap, Io::Read].map(|io| {
        let options = DiffOptions {
            io,
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
            side_files: false,
        };
        diff_partitions(input(left), input(right), options)
            .unwrap()
            .row
    });
    assert_eq!(row, other);
    row
}

/// The offsets of what one side alone has of one kind.
fn offsets(alone: &Alone, kind: DiffKind) -> BTreeSet<i64> {
    let ranges = alone.ranges.iter().filter(|it| it.kind == kind);
    ranges
        .flat_map(|it| it.first_offset..=it.last_offset)
        .collect()
}

/// The records and markers of `left` that `right` has not.
fn only_in(left: &Segments, right: &Segments) -> Vec<Batch> {
    let others: BTreeMap<i64, &Batch> = right.values().flatten().map(|it| (it.first, it)).collect();
    let mut only = Vec::new();
    for batch in left.values().flatten() {
        let Some(other) = others.get(&batch.first) else {
            only.push(batch.clone());
            continue;
        };
        let there: BTreeSet<i64> = other.records().iter().map(|it| it.0).collect();
        let records: Vec<Record> = batch.records().to_vec();
        let left: Vec<Record> = records
            .into_iter()
            .filter(|it| !there.contains(&it.0))
            .collect();
        if !left.is_empty() {
            only.push(Batch {
                content: Content::Records(left),
                ..batch.clone()
            });
        }
    }
    only
}

/// What `right` has lost of what `left` has.
fn lost(left: &Segments, right: &Segments, aborted: &[Aborted]) -> BTreeSet<i64> {
    kept_of(&only_in(left, right), right, aborted, (i64::MAX, 0))
}

fn segments(log: Vec<Vec<Batch>>) -> Segments {
    let mut segments = Segments::new();
    for batches in log {
        segments.insert(batches[0].first, batches);
    }
    segments
}

/// Offset 1 is gone, so that anything tells of a cleaner.
fn a_compacted_log() -> Segments {
    segments(vec![
        vec![batch(0, None, 1, true), batch(2, None, 2, true)],
        vec![batch(3, None, 3, true), batch(4, None, 1, false)],
        vec![batch(5, None, 4, true)],
    ])
}

/// The last value of key 3 is on one side only, and the tombstone of key 1, whose value is there.
#[test]
fn the_last_record_of_a_key_is_missed_and_a_tombstone_whose_value_is_there() {
    let left = a_compacted_log();
    for gone in [3, 4] {
        let mut right = left.clone();
        right.get_mut(&3).unwrap().retain(|it| it.first != gone);
        if right[&3][0].first != 3 {
            // The cleaner leaves the name.
            right.get_mut(&3).unwrap().truncate(1);
        }
        let row = diff(&left, &right, &[]);
        assert_eq!(row.kind, Some(DiffKind::MissingRecords), "{row:#?}");
        assert!(row.is_loss);
        assert_eq!(row.first_divergent_offset, Some(gone));
        assert_eq!(row.only_in_left.lost_records, 1);
        let ranges = offsets(&row.only_in_left, DiffKind::MissingRecords);
        assert_eq!(ranges, BTreeSet::from([gone]));
        let mirrored = diff(&right, &left, &[]);
        assert_eq!(mirrored.only_in_right, row.only_in_left);
        assert_eq!(mirrored.kind, row.kind);
    }
}

/// Key 1 is deleted: without its value the tombstone may go once its time is over.
#[test]
fn a_tombstone_past_its_time_is_not_missed() {
    let left = a_compacted_log();
    let mut right = left.clone();
    right.get_mut(&0).unwrap().remove(0);
    right.get_mut(&3).unwrap().remove(1);
    let row = diff(&left, &right, &[]);
    assert_eq!(row.kind, Some(DiffKind::Compaction), "{row:#?}");
    assert!(!row.is_loss);
}

/// One record of a batch is lost, and the cleaner took its neighbour.
#[test]
fn of_one_batch_only_what_should_be_there_is_lost() {
    let records = vec![(3, 3, true), (4, 1, true), (5, 5, true)];
    let whole = Batch {
        last: 5,
        content: Content::Records(records.clone()),
        ..batch(3, None, 0, true)
    };
    let later = vec![batch(6, None, 1, true)];
    let log = |middle: Vec<Batch>| {
        let first = vec![batch(0, None, 1, true), batch(2, None, 2, true)];
        let mut log = segments(vec![first, later.clone()]);
        log.insert(3, middle);
        log
    };
    let left = log(vec![whole.clone()]);
    let part = Batch {
        content: Content::Records(records[..1].to_vec()),
        ..whole.clone()
    };
    for (right, is_there) in [(log(vec![part]), true), (log(Vec::new()), false)] {
        let row = diff(&left, &right, &[]);
        assert_eq!(row.kind, Some(DiffKind::MissingRecords), "{row:#?}");
        let first = if is_there { 5 } else { 3 };
        assert_eq!(row.first_divergent_offset, Some(first));
        let alone = &row.only_in_left;
        let gone = if is_there { vec![5] } else { vec![3, 5] };
        assert_eq!(alone.lost_records, gone.len() as u64);
        let lost = offsets(alone, DiffKind::MissingRecords);
        assert_eq!(lost, gone.into_iter().collect());
        let taken = offsets(alone, DiffKind::Compaction);
        assert_eq!(taken, BTreeSet::from([4]));
        assert_eq!(alone.batches, 1);
    }
}

/// The right log goes on; a tombstone that the left one has not seen took the value along.
#[test]
fn a_tombstone_behind_the_end_of_the_other_log_takes_a_value_along() {
    let left = a_compacted_log();
    let mut right = left.clone();
    right.get_mut(&3).unwrap().remove(0);
    right.get_mut(&5).unwrap().push(batch(7, None, 6, true));
    let row = diff(&left, &right, &[]);
    assert_eq!(row.kind, Some(DiffKind::MissingTail), "{row:#?}");
    assert_eq!(row.only_in_left.lost_records, 0);
    // Without a hole there, there was none.
    right.get_mut(&5).unwrap()[1] = batch(6, None, 6, true);
    let row = diff(&left, &right, &[]);
    assert_eq!(row.only_in_left.lost_records, 1, "{row:#?}");
}

/// The cleaner takes no marker while a batch of its transaction is there.
#[test]
fn a_marker_is_missed_by_its_transaction() {
    let left = segments(vec![
        vec![batch(0, None, 1, true), batch(2, Some(7), 2, true)],
        vec![marker(3, 7, true), batch(4, None, 2, true)],
        vec![batch(5, None, 4, true)],
    ]);
    let aborted = [(7, 2, 3)];
    let mut right = left.clone();
    right.get_mut(&3).unwrap().remove(0);
    let row = diff(&left, &right, &aborted);
    assert_eq!(row.kind, Some(DiffKind::MissingRecords), "{row:#?}");
    assert_eq!(row.first_divergent_offset, Some(3));
    right.get_mut(&0).unwrap().remove(1);
    let row = diff(&left, &right, &aborted);
    assert_eq!(row.kind, Some(DiffKind::Compaction), "{row:#?}");
}

/// Whether anything in a log tells of a cleaner.
fn is_cleaned(log: &Segments) -> bool {
    log.iter().any(|(base, batches)| {
        let mut due = *base;
        batches.iter().any(|it| {
            let has_hole = it.first > due;
            let count = it.records().len();
            let has_all = it.is_marker() || it.first + i64::try_from(count).unwrap() > it.last;
            due = it.last + 1;
            has_hole || !has_all || it.has_horizon
        })
    })
}

/// The cleaner may have left it so, and `gaps` misses nothing there either.
#[test]
fn segments_that_both_sides_have_emptied_are_no_damage() {
    let mut log = segments(vec![
        vec![batch(0, None, 1, true), batch(1, None, 2, true)],
        vec![batch(2, None, 3, true), batch(3, None, 4, true)],
        vec![batch(4, None, 5, true)],
    ]);
    log.insert(2, Vec::new());
    let row = diff(&log, &log, &[]);
    assert!(row.equal && !row.is_damaged_alike(), "{row:#?}");
    // A segment that is gone is missed on both.
    log.remove(&2);
    let row = diff(&log, &log, &[]);
    assert!(row.equal && row.is_damaged_alike(), "{row:#?}");
}

/// How a replica was cleaned: segments to a group, and whether tombstones and markers may go.
type Pass = (usize, bool);

fn cleaned(log: &Segments, passes: &[Pass], parts: &[i64]) -> Cleaned {
    let mut cleaned = Cleaned::new(log.clone());
    let end = cleaned.end();
    for ((group, expired), part) in passes.iter().zip(parts) {
        cleaned.clean(*group, end * part / 100, *expired);
    }
    cleaned
}

fn passes() -> impl Strategy<Value = (Vec<Pass>, Vec<i64>)> {
    (
        vec((1..4_usize, any::<bool>()), 0..4),
        vec(50..101_i64, 4..5),
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn healthy_replicas_have_lost_nothing(log in a_log(), a in passes(), b in passes()) {
        let a = cleaned(&log, &a.0, &a.1);
        let b = cleaned(&log, &b.0, &b.1);
        let row = diff(&a.log, &b.log, &a.aborted);
        prop_assert!(!row.is_loss, "{row:#?}");
    }

    /// Batches are gone from the right replica.
    #[test]
    fn what_a_cleaner_keeps_is_lost(
        log in a_log(),
        a in passes(),
        b in passes(),
        picks in vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let a = cleaned(&log, &a.0, &a.1);
        let mut b = cleaned(&log, &b.0, &b.1);
        for pick in picks {
            let count = b.log.values().flatten().count();
            let at = pick.index(count);
            let gone = b.log.values().flatten().nth(at).unwrap().first;
            // Where the log ends is known.
            if at + 1 < count {
                b.log.values_mut().for_each(|batches| batches.retain(|it| it.first != gone));
            }
        }
        prop_assume!(is_cleaned(&b.log));
        let row = diff(&a.log, &b.log, &a.aborted);
        let by_left = lost(&a.log, &b.log, &a.aborted);
        let by_right = lost(&b.log, &a.log, &a.aborted);
        for (alone, lost) in [(&row.only_in_left, &by_left), (&row.only_in_right, &by_right)] {
            let told = offsets(alone, DiffKind::MissingRecords);
            prop_assert_eq!(&told, lost, "{:#?}", row);
            prop_assert_eq!(alone.lost_records, lost.len() as u64);
        }
        prop_assert_eq!(row.is_loss, !by_left.is_empty() || !by_right.is_empty());
    }
}
