//! `diff` of pairs made through the append path: one replica is changed in a known way, and kind
//! and first divergent offset must be what was done.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/replicas.rs"]
mod replicas;

use kseg::format::record_batch::CompressionType;
use kseg::format::record_batch_builder::BatchSettings;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::diff::DiffKind;
use proptest::prelude::*;

use replicas::{TestBatch, abort, batch, diff, diff_in, pair, replicate, transactional};

/// What one batch of a log is made from: producer, records, codec, and whether an abort follows.
type Spec = (u8, u8, u8, bool, bool);

/// The batches of a log, in two or more leader epochs.
fn batches(specs: &[Spec]) -> Vec<TestBatch> {
    let mut batches = Vec::new();
    let mut offset = 0;
    let mut epoch = 0;
    let mut sequences = [0; 3];
    for (producer, count, codec, aborts, new_epoch) in specs {
        let producer = usize::from(producer % 3);
        epoch += i32::from(*new_epoch);
        let count = i64::from(count % 4) + 1;
        let settings = BatchSettings {
            base_offset: offset,
            partition_leader_epoch: epoch,
            compression_type: CompressionType(codec % 5),
            producer_id: 100 + producer as i64,
            producer_epoch: 0,
            base_sequence: sequences[producer],
            is_transactional: producer < 2,
            ..BatchSettings::default()
        };
        sequences[producer] += count as i32;
        batches.push(TestBatch {
            settings,
            records: (offset..offset + count)
                .map(|it| (it, format!("value {it}")))
                .collect(),
            last_offset: offset + count - 1,
        });
        offset += count;
        if producer < 2 && *aborts {
            batches.push(TestBatch {
                settings: BatchSettings {
                    base_offset: offset,
                    compression_type: CompressionType::NONE,
                    base_sequence: -1,
                    is_control_batch: true,
                    ..settings
                },
                records: vec![(offset, String::new())],
                last_offset: offset,
            });
            offset += 1;
        }
    }
    batches
}

/// Two replicas of which one was changed: what must come out.
struct Changed {
    left: Vec<TestBatch>,
    right: Vec<TestBatch>,
    right_start: i64,
    expected: Option<(DiffKind, i64)>,
}

/// Makes two batches of one.
fn split(batches: &mut Vec<TestBatch>, at: usize, bits: u64) {
    let mut second = batches[at].clone();
    let first = &mut batches[at];
    let cut = 1 + (bits as usize) % (first.records.len() - 1);
    second.records = first.records.split_off(cut);
    first.last_offset = first.base() + cut as i64 - 1;
    second.settings.base_offset = first.last_offset + 1;
    second.settings.base_sequence += cut as i32;
    batches.insert(at + 1, second);
}

/// The batches that a cleaner may take from: it stops at the first transaction without an end, and
/// keeps the last record of a key. All have the same key, and every transaction that ended aborts.
fn cleanable(batches: &[TestBatch]) -> impl Fn(&TestBatch) -> bool + use<> {
    let mut open = std::collections::BTreeMap::new();
    for batch in batches.iter().filter(|it| it.settings.is_transactional) {
        let id = batch.settings.producer_id;
        if batch.settings.is_control_batch {
            open.remove(&id);
        } else {
            open.entry(id).or_insert(batch.base());
        }
    }
    let end = open.into_values().min().unwrap_or(i64::MAX);
    let counts = |it: &&TestBatch| !it.settings.is_transactional && it.base() < end;
    let kept = batches.iter().rev().find(counts).map(TestBatch::base);
    move |batch| batch.base() < end && Some(batch.base()) != kept
}

/// All that a cleaner does to batches: takes nothing, some records, all but the header, all.
fn clean_behind(batches: &mut Vec<TestBatch>, at: usize, bits: u64) {
    let last = batches.len() - 1;
    let is_cleanable = cleanable(batches);
    let mut place = 0;
    batches.retain_mut(|batch| {
        place += 1;
        let index = place - 1;
        let choice = (bits >> (index % 32 * 2)) & 3;
        let is_marker = batch.settings.is_control_batch;
        if index <= at || index == last || is_marker || !is_cleanable(batch) {
            return true;
        }
        match choice {
            1 => drop(batch.records.pop()),
            2 => batch.records.clear(),
            _ => {}
        }
        choice != 3
    });
}

/// Changes a log in the way `what` says, at the batch `at` points to.
fn change(batches: Vec<TestBatch>, what: u8, at: usize, bits: u64) -> Changed {
    let mut left = batches.clone();
    let mut right = batches;
    let mut right_start = 0;
    let at = 1 + at % (right.len() - 1);
    let large = right
        .iter()
        .position(|batch| batch.records.len() > 1 && batch.base() >= right[at].base());
    let expected = match (what % 8, large) {
        (1, _) => {
            right.truncate(at);
            Some((DiffKind::MissingTail, left[at].base()))
        }
        (2, _) => {
            let epoch = left.last().unwrap().settings.partition_leader_epoch;
            for batch in &mut left[at..] {
                batch.settings.partition_leader_epoch = epoch + 1;
            }
            for batch in &mut right[at..] {
                batch.settings.partition_leader_epoch = epoch + 2;
            }
            right.truncate(at + 1 + (bits as usize) % (right.len() - at));
            Some((DiffKind::OtherEpoch, left[at].base()))
        }
        (3, Some(at)) => {
            let batch = &mut right[at];
            let record = (bits as usize) % batch.records.len();
            batch.records[record].1.push('!');
            Some((DiffKind::OtherBytes, batch.base()))
        }
        (4, Some(at)) => {
            let offset = right[at].base();
            split(&mut right, at, bits);
            Some((DiffKind::OtherBatchSplit, offset))
        }
        (5, Some(at)) => {
            let codec = &mut right[at].settings.compression_type;
            codec.0 = (codec.0 + 1) % 5;
            Some((DiffKind::OtherBatchSplit, right[at].base()))
        }
        (6, Some(at)) if cleanable(&right)(&right[at]) => {
            let offset = right[at].base();
            right[at].records.remove(0);
            clean_behind(&mut right, at, bits);
            Some((DiffKind::Compaction, offset))
        }
        (7, _) => {
            right_start = right[at].base();
            right.drain(..at);
            None
        }
        _ => None,
    };
    Changed {
        left,
        right,
        right_start,
        expected,
    }
}

/// One fetch of [A data][A abort][plain][B data] gives the row of A another last stable offset
/// than four do: on-disk format, 7.3.
#[test]
fn the_last_stable_offset_of_a_follower_is_no_difference() {
    let plain = BatchSettings {
        partition_leader_epoch: 0,
        ..BatchSettings::default()
    };
    let log = [
        batch(transactional(1, 0), 0, 2, "a"),
        abort(1, 2),
        batch(plain, 3, 4, "plain"),
        batch(transactional(2, 0), 7, 1, "b"),
    ];
    let row = diff_in(pair(&log, &log, (1, 4)).path());
    assert!(row.equal, "{row:#?}");
    let kinds: Vec<&str> = row.side_files.iter().map(|it| it.kind).collect();
    assert_eq!(kinds, ["txnindex-last-stable-offset"]);
    assert_eq!(row.side_files[0].first_offset, Some(2));
}

#[test]
fn a_transaction_that_ended_on_one_side_only_is_told() {
    let log = [
        batch(transactional(1, 0), 0, 2, "a"),
        batch(transactional(2, 0), 2, 3, "b"),
        abort(1, 5),
    ];
    let row = diff_in(pair(&log, &log[..2], (1, 1)).path());
    assert_eq!(row.kind, Some(DiffKind::MissingTail));
    assert_eq!(row.transactions.len(), 1, "{row:#?}");
    let txn = &row.transactions[0];
    assert_eq!((txn.producer_id, txn.first_offset), (1, 0));
    assert!(txn.outcome_differs);
    assert_eq!(txn.left.as_ref().unwrap().state, "ABORTED");
    assert_eq!(txn.left.as_ref().unwrap().marker_offset, Some(5));
    assert_eq!(txn.right.as_ref().unwrap().state, "OPEN");
}

#[test]
fn a_segment_that_is_gone_is_no_compaction() {
    let plain = BatchSettings {
        partition_leader_epoch: 0,
        ..BatchSettings::default()
    };
    let log: Vec<TestBatch> = (0..20)
        .map(|index| batch(plain, index * 2, 2, "some text that takes space"))
        .collect();
    let folder = pair(&log, &log, (1, 1));
    let right = folder.path().join("b/orders-0");
    let dir = PartitionDir::open(&right).unwrap();
    let [_, gone, next, ..] = dir.segments[..] else {
        panic!("{} segments", dir.segments.len());
    };
    for file in &dir.files {
        let name = file.name();
        if name.starts_with(&format!("{:020}.", gone.base_offset)) {
            std::fs::remove_file(right.join(&*name)).unwrap();
        }
    }
    let row = diff_in(folder.path());
    assert_eq!(row.kind, Some(DiffKind::MissingSegment));
    assert_eq!(row.first_divergent_offset, Some(gone.base_offset));
    let ranges = &row.only_in_left.ranges;
    assert_eq!(ranges.len(), 1);
    assert_eq!(ranges[0].first_offset, gone.base_offset);
    assert_eq!(ranges[0].last_offset, next.base_offset - 1);
    // What a follower lacks below its end it never fetches.
    assert!(row.if_left_leads.unwrap().leaves_difference);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the bytes are, both ways round say the same, and nothing differs from itself.
    #[test]
    fn damage_is_told_the_same_both_ways_round(
        specs in prop::collection::vec(any::<Spec>(), 3..16),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let log = batches(&specs);
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a/orders-0"), folder.path().join("b/orders-0"));
        replicate(&a, &log, 1200, 1, 0);
        replicate(&b, &log, 900, 2, 0);
        let segment = b.join(format!("{:020}.log", 0));
        let mut bytes = std::fs::read(&segment).unwrap();
        for (at, bits) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        std::fs::write(&segment, bytes).unwrap();
        // Damage in a file written to just now is looked at again after a while.
        let file = std::fs::File::options().write(true).open(&segment).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let (one, other) = (diff(&a, &b), diff(&b, &a));
        prop_assert_eq!(one.kind, other.kind);
        prop_assert_eq!(one.first_divergent_offset, other.first_divergent_offset);
        prop_assert_eq!(&one.only_in_left, &other.only_in_right);
        prop_assert_eq!(&one.only_in_right, &other.only_in_left);
        prop_assert_eq!(&one.damaged_right, &other.damaged_left);
        prop_assert!(one.damaged_left.is_empty());
        let same = diff(&b, &b);
        prop_assert!(same.equal, "{:#?}", same);
        prop_assert!(same.damaged_left.is_empty() && same.damaged_right.is_empty());
    }


    #[test]
    fn what_was_done_is_what_is_found(
        specs in prop::collection::vec(any::<Spec>(), 3..24),
        what in any::<u8>(),
        at in any::<usize>(),
        bits in any::<u64>(),
        sizes in (200..2000_i32, 200..2000_i32),
        fetches in (1..5_usize, 1..5_usize),
        swaps in any::<bool>(),
    ) {
        let changed = change(batches(&specs), what, at, bits);
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a/orders-0"), folder.path().join("b/orders-0"));
        // A batch has to fit a segment.
        let (size_a, size_b) = (sizes.0 + 400, sizes.1 + 400);
        replicate(&a, &changed.left, size_a, fetches.0, 0);
        replicate(&b, &changed.right, size_b, fetches.1, changed.right_start);
        let row = if swaps { diff(&b, &a) } else { diff(&a, &b) };
        let got = row.kind.zip(row.first_divergent_offset);
        prop_assert_ne!(row.kind, Some(DiffKind::SideFiles), "{:#?}", row.side_files);
        prop_assert_eq!(got, changed.expected, "{:#?}", row);
        prop_assert_eq!(row.equal, changed.expected.is_none());
        let is_loss = changed.expected.is_some_and(|(kind, _)| kind.is_loss());
        prop_assert_eq!(row.is_loss, is_loss);
        let lost = row.only_in_left.lost_records + row.only_in_right.lost_records;
        prop_assert_eq!(lost > 0, is_loss);
        // A follower that is cut where its leader says, or not at all, has what the leader has;
        // but other bytes in the same epoch go unseen.
        let stays = matches!(changed.expected, Some((DiffKind::OtherBytes, _)));
        for truncation in [&row.if_left_leads, &row.if_right_leads] {
            let truncation = truncation.as_ref().unwrap();
            prop_assert_eq!(truncation.leaves_difference, stays);
            if let Some((DiffKind::OtherEpoch, offset)) = changed.expected {
                prop_assert_eq!(truncation.truncate_to_offset, Some(offset));
            }
        }
    }
}
