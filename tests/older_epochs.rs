//! `gaps` where batches of an older epoch lie between those of a newer one, as a replica that
//! followed a leader without the producer's state has them: a replica takes every epoch
//! (`AppendOrigin.REPLICATION`).

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "what several test programs share, each using a part"
)]
mod segments;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::partitions::gap_rows;
use segments::{Noise, Segment, reseal};
use serde_json::{Value, json};

/// The records of each batch.
const RECORDS: i32 = 2;

/// Epoch and first sequence of a batch.
type Written = (i16, i32);

/// What `gaps` says of a log with these batches of one producer, each with bytes of its own.
fn gaps(batches: &[Written]) -> Vec<Value> {
    let name = "incidents/exact-duplicates/data/orders-0/00000000000000000000.log";
    let model = Segment::of_fixture(name, 1);
    assert_eq!(model.batch(0)[57..61], RECORDS.to_be_bytes());
    let mut log = Vec::new();
    for (offset, (epoch, sequence)) in (0_i64..).step_by(2).zip(batches) {
        let mut batch = model.batch(0).to_vec();
        batch[..8].copy_from_slice(&offset.to_be_bytes());
        batch[27..35].copy_from_slice(&offset.to_be_bytes());
        batch[51..53].copy_from_slice(&epoch.to_be_bytes());
        batch[53..57].copy_from_slice(&sequence.to_be_bytes());
        reseal(&mut batch);
        log.extend(batch);
    }
    let folder = tempfile::tempdir().unwrap();
    let partition = folder.path().join("orders-0");
    fs::create_dir(&partition).unwrap();
    fs::write(partition.join("00000000000000000000.log"), log).unwrap();
    gap_rows(&partition)
}

/// Epoch and sequences of those of a class.
fn of_class(rows: &[Value], class: &str) -> Vec<Value> {
    let of_class = rows.iter().filter(|row| row["class"] == class);
    let sequences = of_class.map(|row| {
        json!([
            row["producerEpoch"],
            row["firstSequence"],
            row["lastSequence"]
        ])
    });
    sequences.collect()
}

/// Offset, earlier offset, batches apart, in the window or not.
fn repeats(rows: &[Value]) -> Vec<Value> {
    let repeated = rows.iter().filter(|row| row["kind"] == "repeated");
    let pairs = repeated.map(|row| {
        assert_eq!(row["class"], "duplicate-sequence", "{row}");
        json!([
            row["firstOffset"],
            row["duplicateOf"]["firstOffset"],
            row["batchesApart"],
            row["insideWindow"]
        ])
    });
    pairs.collect()
}

#[test]
fn what_lies_of_an_epoch_is_not_missing_behind_a_batch_of_an_older_one() {
    let batches = [
        (1, 0),
        (1, 2),
        (1, 4),
        (2, 0),
        (2, 2),
        (2, 4),
        (1, 6),
        (2, 6),
        (2, 8),
    ];
    let rows = gaps(&batches);
    assert!(rows.iter().all(|row| row["isLoss"] == false), "{rows:?}");
    assert!(repeats(&rows).is_empty(), "{rows:?}");
    // 6 and 7 of the epoch the client left are there after all.
    assert_eq!(of_class(&rows, "epoch-raised"), [json!([1, 8, null])]);
    let back: Vec<_> = rows
        .iter()
        .filter(|row| row["kind"] == "epochRegression")
        .map(|row| row["firstOffset"].clone())
        .collect();
    assert_eq!(back, [json!(12)]);
}

#[test]
fn pairs_of_an_epoch_are_told_across_batches_of_an_older_one() {
    let batches = [
        (1, 0),
        (1, 2),
        (2, 0),
        (2, 2),
        (2, 4),
        (1, 2),
        (2, 2),
        (1, 0),
        (2, 6),
    ];
    let rows = gaps(&batches);
    assert!(rows.iter().all(|row| row["isLoss"] == false), "{rows:?}");
    // Each change of epoch empties the window (`ProducerStateEntry.maybeUpdateProducerEpoch`).
    let pairs = [
        json!([10, 2, 4, false]),
        json!([12, 6, 3, false]),
        json!([14, 0, 7, false]),
    ];
    assert_eq!(repeats(&rows), pairs);
}

#[test]
fn a_gap_around_a_batch_of_an_older_epoch_is_still_one() {
    let rows = gaps(&[(1, 0), (2, 0), (1, 2), (2, 6)]);
    let missing = of_class(&rows, "expired-or-lost-state");
    assert!(missing.contains(&json!([2, 2, 5])), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row["isLoss"] == true).count(), 1);
}

#[test]
fn sequences_left_out_under_an_epoch_that_was_left_are_a_range() {
    let rows = gaps(&[(1, 0), (2, 0), (1, 4), (2, 2)]);
    let left = of_class(&rows, "epoch-raised");
    assert_eq!(left, [json!([1, 6, null]), json!([1, 2, 3])]);
    // The client sent them again under the new epoch.
    assert!(rows.iter().all(|row| row["isLoss"] == false), "{rows:?}");
}

/// Raising the epoch behind a late batch of an older one, the client leaves the newest.
#[test]
fn an_epoch_that_was_left_behind_a_batch_of_an_older_one_is_told() {
    let rows = gaps(&[(1, 0), (2, 0), (1, 2), (3, 0)]);
    let left = of_class(&rows, "epoch-raised");
    assert_eq!(left, [json!([1, 4, null]), json!([2, 2, null])]);
}

/// Sequences of each epoch, by what is in the log in the end.
#[test]
fn of_epochs_in_any_order_what_is_said_is_so() {
    let mut noise = Noise(0x5eed_ca5e);
    let (mut pairs, mut losses) = (0, 0);
    for _ in 0..400 {
        let batches = any_order(&mut noise);
        let rows = gaps(&batches);
        let told = repeats(&rows);
        let stored_twice = stored_twice(&batches);
        assert_eq!(told, stored_twice, "{batches:?}");
        pairs += told.len();

        let stored = |epoch: i64, sequence: i64| {
            batches.iter().any(|&(of, first)| {
                i64::from(of) == epoch
                    && (i64::from(first)..=i64::from(first) + 1).contains(&sequence)
            })
        };
        let missing = rows.iter().filter(|row| row["kind"] == "missing");
        let mut lost: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for row in missing {
            let number = |key: &str| row[key].as_i64();
            let (epoch, first) = (number("producerEpoch").unwrap(), number("firstSequence"));
            let first = first.unwrap();
            // All are below 100.
            for sequence in first..=number("lastSequence").unwrap_or(100) {
                assert!(!stored(epoch, sequence), "{row} of {batches:?}");
            }
            if row["isLoss"] == true {
                let of_epoch = lost.entry(epoch).or_default();
                of_epoch.extend(first..=number("lastSequence").unwrap());
            }
        }
        // What is skipped while an epoch is the highest one and never comes is lost.
        let mut highest = BTreeMap::new();
        let mut newest = 0;
        for &(epoch, first) in &batches {
            newest = newest.max(epoch);
            if epoch == newest {
                let last = highest.entry(i64::from(epoch)).or_insert(-1);
                *last = i64::from(first + RECORDS - 1).max(*last);
            }
        }
        let mut wanted: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for (epoch, last) in highest {
            let gone: BTreeSet<i64> = (0..=last).filter(|it| !stored(epoch, *it)).collect();
            losses += gone.len();
            if !gone.is_empty() {
                wanted.insert(epoch, gone);
            }
        }
        assert_eq!(lost, wanted, "{batches:?}");
    }
    assert!(pairs > 300 && losses > 100, "{pairs} {losses}");
}

/// Batches of a client that raises its epoch, repeats and skips, with some of older epochs between.
fn any_order(noise: &mut Noise) -> Vec<Written> {
    let count = 4 + noise.next() % 12;
    let mut batches: Vec<Written> = vec![(1, 0)];
    for _ in 0..count {
        let newest = batches.iter().map(|it| it.0).max().unwrap();
        let epoch = match noise.next() % 8 {
            0 => newest + 1,
            1 | 2 => 1 + i16::try_from(noise.next() % 8).unwrap() % newest,
            _ => newest,
        };
        let next = batches
            .iter()
            .filter(|it| it.0 == epoch)
            .map(|it| it.1 + RECORDS)
            .max()
            .unwrap_or(0);
        let back = RECORDS * i32::try_from(noise.next() % 3).unwrap();
        let sequence = match noise.next() % 6 {
            0 => (next - back).max(0),
            1 => next + back,
            _ => next,
        };
        batches.push((epoch, sequence));
    }
    batches
}

/// Each batch that is in the log before, with the last such one: offset, earlier offset, batches
/// apart, and whether a broker that never stopped still has that one.
fn stored_twice(batches: &[Written]) -> Vec<Value> {
    let mut pairs = Vec::new();
    for (index, batch) in batches.iter().enumerate() {
        let Some(before) = batches[..index].iter().rposition(|it| it == batch) else {
            continue;
        };
        let same_epoch = batches[before..=index].iter().all(|it| it.0 == batch.0);
        let apart = index - before;
        pairs.push(json!([
            2 * index,
            2 * before,
            apart,
            same_epoch && apart <= 5
        ]));
    }
    pairs
}
