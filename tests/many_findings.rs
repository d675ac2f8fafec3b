//! Logs in which nearly every batch is a finding: all are told, and none costs a walk of its own.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs;

use kseg::log::Error;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::gaps::{Detail, Finding, GapKind, GapOptions, find_gaps};
use kseg::report::verify::{self, Kind, VerifyOptions, verify_partition};
use segments::reseal;

/// A batch of producer 7 with one record, whose value is a letter.
fn batch(offset: i64, sequence: i32) -> Vec<u8> {
    let record: [u8; 8] = [14, 0, 0, 0, 1, 2, b'v', 0];
    let mut bytes = Vec::new();
    bytes.extend(offset.to_be_bytes());
    bytes.extend(57_i32.to_be_bytes());
    bytes.extend(0_i32.to_be_bytes());
    bytes.push(2);
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(0_i16.to_be_bytes());
    bytes.extend(0_i32.to_be_bytes());
    bytes.extend(1_700_000_000_000_i64.to_be_bytes());
    bytes.extend(1_700_000_000_000_i64.to_be_bytes());
    bytes.extend(7_i64.to_be_bytes());
    bytes.extend(0_i16.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(1_i32.to_be_bytes());
    bytes.extend(record);
    reseal(&mut bytes);
    bytes
}

/// A partition with one segment.
fn partition(batches: impl Iterator<Item = Vec<u8>>) -> (tempfile::TempDir, PartitionDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many-0");
    fs::create_dir(&path).unwrap();
    let bytes: Vec<u8> = batches.flatten().collect();
    fs::write(path.join("00000000000000000000.log"), bytes).unwrap();
    let dir = PartitionDir::open(&path).unwrap();
    (folder, dir)
}

fn gaps(dir: &PartitionDir) -> Vec<Finding> {
    let mut found = Vec::new();
    let checkpoints = CheckpointedOffsets::default();
    find_gaps::<Error>(dir, checkpoints, &GapOptions::default(), |finding| {
        found.push(*finding);
        Ok(())
    })
    .unwrap();
    found
}

fn verify(dir: &PartitionDir, kind: Kind) -> Vec<verify::Finding> {
    let mut found = Vec::new();
    let options = VerifyOptions {
        threads: Some(2),
        ..VerifyOptions::default()
    };
    let checkpoints = CheckpointedOffsets::default();
    verify_partition::<Error>(
        dir,
        checkpoints,
        &options,
        |_| {},
        |finding| {
            if finding.kind == kind {
                found.push(finding.clone());
            }
            Ok(())
        },
    )
    .unwrap();
    found
}

/// More than are looked up in one round, near and far from the batch they repeat.
#[test]
fn every_duplicate_is_told() {
    let count = 70_000;
    let far = (0..2 * count).map(|offset| (offset, offset % count, count));
    let near = (0..2 * count).map(|offset| (offset, offset / 2, 1));
    for layout in [far.collect::<Vec<_>>(), near.collect()] {
        let written = |&(offset, sequence, _): &(i32, i32, i32)| batch(offset.into(), sequence);
        let (_folder, dir) = partition(layout.iter().map(written));
        let found = gaps(&dir);
        let mut next = found.iter();
        let mut seen = vec![false; 70_000];
        for (offset, sequence, back) in layout {
            let place = usize::try_from(sequence).unwrap();
            if !std::mem::replace(&mut seen[place], true) {
                continue;
            }
            let finding = next.next().unwrap();
            assert_eq!(finding.kind, GapKind::Repeated);
            assert_eq!(finding.first_offset, Some(offset.into()));
            assert_eq!(finding.sequences, Some((sequence, sequence)));
            let Detail::DuplicateOf {
                earlier,
                batches_apart,
                is_inside_window,
            } = finding.detail
            else {
                unreachable!("{finding:?}");
            };
            assert_eq!(earlier.first_offset, i64::from(offset - back));
            assert_eq!(batches_apart, u64::try_from(back).ok());
            assert_eq!(is_inside_window, Some(back == 1));
        }
        assert_eq!(next.next(), None);
        let of_verify = verify(&dir, Kind::DuplicateSequence);
        let offsets = |found: &[Finding]| -> Vec<_> {
            found.iter().map(|finding| finding.first_offset).collect()
        };
        let told: Vec<_> = of_verify.iter().map(|it| it.duplicate_offset).collect();
        assert_eq!(told, offsets(&found));
    }
}

/// Each of them says where a consumer can go on, without looking for it again.
#[test]
fn a_long_run_of_bad_batches_is_looked_through_once() {
    let count = 40_000;
    let batches = (0..=count).map(|offset| {
        let mut bytes = batch(offset.into(), offset);
        if offset < count {
            *bytes.last_mut().unwrap() ^= 1;
        }
        bytes
    });
    let (_folder, dir) = partition(batches);
    let found = verify(&dir, Kind::BadCrc);
    assert_eq!(found.len(), 40_000);
    let next = Some(i64::from(count));
    assert!(found.iter().all(|finding| finding.next_offset == next));
    let offsets = found.iter().map(|finding| finding.offset);
    assert!(offsets.eq((0..i64::from(count)).map(Some)));
}
