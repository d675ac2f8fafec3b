//! Damaged segments: what the walk says of each kind of damage, where, and where it goes on.
//!
//! Every file is walked twice, mapped and read, and what is seen must cover it to the byte; see
//! `Scratch::walk`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a test stops where something is not as it must be; its numbers are small"
)]

#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kseg::log::batches::{BatchWalk, Entry};
use kseg::log::damage::DamageKind;
use kseg::log::mapped_file::MappedFile;
use kseg::log::{Error, Io};
use proptest::prelude::*;
use segments::{Noise, Scratch, Seen, Segment, assert_tiles, magic, reseal, walk_file};

/// The last batches of segments of every kind: transactions and markers, what the cleaner left,
/// KRaft, magic 0, compressed magic 1, plain magic 1.
fn segments() -> Vec<Segment> {
    [
        "s02-txn-tv2/data/tx-0/00000000000000000088.log",
        "s05-compacted/data/compact-drop-0/00000000000000000000.log",
        "s11-kraft-metadata/data/__cluster_metadata-0/00000000000000000079.log",
        "s10-legacy-1.1.1/data/magic0-none-0/00000000000000000023.log",
        "s10-legacy-1.1.1/data/magic1-gzip-0/00000000000000000000.log",
        "s10-upgraded-2.4.1/data/upgraded-0/00000000000000000000.log",
    ]
    .into_iter()
    .map(|name| Segment::of_fixture(name, 5))
    .collect()
}

/// The smallest legal size field of a magic; Kafka holds unknown ones to that of magic 0.
fn minimum(magic: i8) -> i32 {
    match magic {
        2 => 49,
        1 => 22,
        _ => 14,
    }
}

fn put_length(bytes: &mut [u8], position: usize, length: i32) {
    bytes[position + 8..position + 12].copy_from_slice(&length.to_be_bytes());
}

/// Exactly these batches were seen, all of them valid, in this order.
#[track_caller]
fn assert_batches(seen: &[Seen], batches: &[(usize, usize)], what: &str) {
    let found: Vec<_> = seen
        .iter()
        .filter_map(Seen::batch)
        .inspect(|batch| assert!(batch.is_valid, "{what}: {batch:?}"))
        .map(|batch| (batch.position as usize, batch.size as usize))
        .collect();
    assert_eq!(found, batches, "{what}");
}

/// The one damage that was seen: kind, position and size.
#[track_caller]
fn only_damage(seen: &[Seen], what: &str) -> (DamageKind, u64, u64) {
    let damages: Vec<_> = seen.iter().filter_map(Seen::damage).collect();
    let [damage] = damages.as_slice() else {
        panic!("{what}: {damages:?}");
    };
    (damage.kind, damage.position, damage.size_in_bytes)
}

#[test]
fn whole_segments_have_no_damage() {
    let scratch = Scratch::new();
    for segment in segments() {
        assert_batches(
            &scratch.walk(&segment.bytes),
            &segment.batches,
            segment.name,
        );
    }
}

#[test]
fn an_empty_file_has_no_entries() {
    assert_eq!(Scratch::new().walk(&[]), []);
}

#[test]
fn a_cut_inside_the_last_batch_is_a_torn_tail_at_its_start() {
    let scratch = Scratch::new();
    for segment in segments() {
        let (index, position, size) = segment.last();
        for there in 1..size {
            let what = format!("{}: {there} bytes of the last batch", segment.name);
            let seen = scratch.walk(&segment.bytes[..position + there]);
            assert_batches(&seen, &segment.batches[..index], &what);
            let expected = (DamageKind::TornTail, position as u64, there as u64);
            assert_eq!(only_damage(&seen, &what), expected, "{what}");
        }
    }
}

#[test]
fn a_cut_inside_the_only_batch_is_a_torn_tail_whatever_zeros_it_begins_with() {
    let scratch = Scratch::new();
    // Offset 0: the first 11 bytes of the batch are zeros.
    let segment =
        fs::read(segments::fixtures().join("s02-txn-tv2/data/tx-0/00000000000000000000.log"));
    let segment = segment.unwrap();
    let size = segments::batches_of(&segment)[0].1;
    for there in 1..size {
        let seen = scratch.walk(&segment[..there]);
        let expected = (DamageKind::TornTail, 0, there as u64);
        assert_eq!(only_damage(&seen, "cut"), expected);
    }
}

#[test]
fn every_flipped_byte_of_the_last_batch_is_noticed_where_kafka_checks_it() {
    let scratch = Scratch::new();
    for segment in segments() {
        let (index, position, size) = segment.last();
        let is_v2 = magic(segment.batch(index)) == 2;
        for (at, flip) in (0..size).flat_map(|at| [(at, 0x01), (at, 0x80)]) {
            let what = format!("{}: byte {at} of the last batch ^ {flip:#x}", segment.name);
            let mut bytes = segment.bytes.clone();
            bytes[position + at] ^= flip;
            let seen = scratch.walk(&bytes);
            assert_batches(&seen[..index], &segment.batches[..index], &what);
            let last = &seen[index];
            match at {
                // Offset, and in magic 2 the leader epoch: outside the checksum, as the broker
                // sets them.
                0..8 => assert!(last.batch().unwrap().is_valid, "{what}"),
                12..16 if is_v2 => assert!(last.batch().unwrap().is_valid, "{what}"),
                8..12 => assert_length_damage(&bytes, position, last, &what),
                // Some other format, or none.
                16 => match magic(&bytes[position..]) {
                    0..=2 => assert!(last.batch().is_none_or(|it| !it.is_valid), "{what}"),
                    found => {
                        let expected = DamageKind::UnknownMagic { found };
                        let size = size as u64;
                        let seen = only_damage(&seen, &what);
                        assert_eq!(seen, (expected, position as u64, size), "{what}");
                    }
                },
                _ => {
                    let last = last.batch().unwrap();
                    assert_eq!(last.size, size as u64, "{what}");
                    assert!(!last.is_valid, "{what}");
                }
            }
        }
    }
}

/// What the walk says at `position`, whose size field is not what it was; nothing good follows.
#[track_caller]
fn assert_length_damage(bytes: &[u8], position: usize, seen: &Seen, what: &str) {
    let found = i32::from_be_bytes(bytes[position + 8..position + 12].try_into().unwrap());
    let minimum = minimum(magic(&bytes[position..]));
    let left = bytes.len() - position;
    if found < minimum {
        let kind = DamageKind::BadLength { found, minimum };
        assert_eq!(seen.kind(), Some(kind), "{what}");
    } else if found as usize + 12 > left {
        assert_eq!(seen.kind(), Some(DamageKind::TornTail), "{what}");
        assert_eq!(seen.size(), left as u64, "{what}");
    } else {
        let batch = seen.batch().unwrap();
        assert_eq!(batch.size, found as u64 + 12, "{what}");
        assert!(!batch.is_valid, "{what}");
    }
}

#[test]
fn a_flipped_byte_of_a_middle_batch_hides_no_other_batch() {
    let scratch = Scratch::new();
    for segment in segments() {
        let (position, size) = segment.batches[2];
        // A size field that still fits is believed, as Kafka believes it: see the next test.
        for at in (0..8).chain(12..size) {
            let what = format!("{}: byte {at} of the middle batch", segment.name);
            let mut bytes = segment.bytes.clone();
            bytes[position + at] ^= 0xff;
            let seen = scratch.walk(&bytes);
            assert_batches(&seen[..2], &segment.batches[..2], &what);
            let after = &segment.batches[3..];
            assert_batches(&seen[seen.len() - after.len()..], after, &what);
        }
    }
}

/// Headers are believed as Kafka believes them. What lies behind a size that is wrong may look
/// like an entry of magic 0 once more, but not for long.
#[test]
fn a_wrong_size_that_fits_does_not_throw_the_walk_off_for_good() {
    let scratch = Scratch::new();
    for segment in segments() {
        let (position, size) = segment.batches[2];
        let minimum = minimum(magic(segment.batch(2))) as usize + 12;
        for wrong in (minimum..size).chain(size + 1..size + 30) {
            for sealed in [false, true] {
                let what = format!("{}: {wrong} for {size} bytes, {sealed}", segment.name);
                let mut bytes = segment.bytes.repeat(5);
                put_length(&mut bytes, position, wrong as i32 - 12);
                if sealed {
                    reseal(&mut bytes[position..position + wrong]);
                }
                let seen = scratch.walk(&bytes);
                assert_batches(&seen[..2], &segment.batches[..2], &what);
                assert_eq!(seen[2].size(), wrong as u64, "{what}");
                assert_eq!(seen[2].batch().unwrap().is_valid, sealed, "{what}");
                let last = seen.last().unwrap().batch().unwrap();
                assert!(last.is_valid, "{what}: {last:?}");
            }
        }
    }
}

#[test]
fn batches_doubled_dropped_or_out_of_order_are_no_damage_to_the_walk() {
    let scratch = Scratch::new();
    for segment in segments() {
        for order in [
            &[0, 1, 1, 2, 3, 4][..],
            &[0, 1, 3, 4],
            &[1, 2, 3, 4],
            &[0, 3, 2, 1, 4],
            &[4, 4, 4],
        ] {
            let bytes = order.iter().map(|index| segment.batch(*index));
            let bytes = bytes.collect::<Vec<_>>().concat();
            let batches = segments::batches_of(&bytes);
            let what = format!("{}: {order:?}", segment.name);
            assert_batches(&scratch.walk(&bytes), &batches, &what);
        }
    }
}

#[test]
fn a_hostile_size_field_is_named_and_the_next_batch_found() {
    let scratch = Scratch::new();
    for segment in segments() {
        for index in [0, 2, 4] {
            for magic in [magic(segment.batch(index)), 3, -1, 127] {
                let past_end = segment.bytes.len() - segment.batches[index].0 - 12 + 1;
                for length in [i32::MIN, -1, 0, 1, 13, past_end as i32, 1 << 24, i32::MAX] {
                    hostile_size(&scratch, &segment, index, magic, length);
                }
                let right = segment.batches[index].1 - 12;
                if !(0..=2).contains(&magic) {
                    hostile_size(&scratch, &segment, index, magic, right as i32);
                }
            }
        }
    }
}

fn hostile_size(scratch: &Scratch, segment: &Segment, index: usize, magic: i8, length: i32) {
    let what = format!(
        "{}: batch {index}, magic {magic}, length {length}",
        segment.name
    );
    let (position, size) = segment.batches[index];
    let mut bytes = segment.bytes.clone();
    put_length(&mut bytes, position, length);
    bytes[position + 16] = magic.to_be_bytes()[0];
    let available = (bytes.len() - position) as u64;
    let minimum = minimum(magic);
    let is_last = index + 1 == segment.batches.len();
    let kind = if length < minimum {
        let found = length;
        DamageKind::BadLength { found, minimum }
    } else if length as u64 + 12 <= available {
        DamageKind::UnknownMagic { found: magic }
    } else if is_last {
        DamageKind::TornTail
    } else {
        DamageKind::BatchPastEnd {
            size_in_bytes: length as u64 + 12,
            available,
        }
    };
    let seen = scratch.walk(&bytes);
    let damage = only_damage(&seen, &what);
    assert_eq!(damage, (kind, position as u64, size as u64), "{what}");
    let mut others = segment.batches.clone();
    others.remove(index);
    assert_batches(&seen, &others, &what);
    let readable = seen[index].damage().unwrap().readable;
    assert_eq!(readable.batch_length, Some(length), "{what}");
    assert_eq!(readable.magic, Some(magic), "{what}");
}

#[test]
fn a_size_field_that_ends_at_a_batch_and_has_a_right_checksum_is_believed() {
    let scratch = Scratch::new();
    for segment in segments() {
        // The middle batch swallows the one behind it.
        let (position, size) = segment.batches[2];
        let size = size + segment.batches[3].1;
        let mut bytes = segment.bytes.clone();
        put_length(&mut bytes, position, size as i32 - 12);
        let unsealed = scratch.walk(&bytes);
        assert!(!unsealed[2].batch().unwrap().is_valid, "{}", segment.name);
        reseal(&mut bytes[position..position + size]);
        let batches = segments::batches_of(&bytes);
        assert_batches(&scratch.walk(&bytes), &batches, segment.name);
    }
}

#[test]
fn zeros_between_batches_are_passed_over() {
    let scratch = Scratch::new();
    for segment in segments() {
        let at = segment.batches[2].0;
        for zeros in [12, 16, 17, 61, 100, 4096, 70_000] {
            let what = format!("{}: {zeros} zeros", segment.name);
            let mut bytes = segment.bytes.clone();
            bytes.splice(at..at, vec![0; zeros]);
            let seen = scratch.walk(&bytes);
            let (kind, position, size) = only_damage(&seen, &what);
            assert!(
                matches!(kind, DamageKind::BadLength { found: 0, .. }),
                "{what}: {kind:?}"
            );
            assert_eq!((position, size), (at as u64, zeros as u64), "{what}");
            let mut batches = segment.batches.clone();
            for (position, _) in &mut batches[2..] {
                *position += zeros;
            }
            assert_batches(&seen, &batches, &what);
        }
    }
}

/// Up to seven may be the first bytes of an offset; an offset of 0 begins a log and nothing else.
#[test]
fn zeros_at_the_end_are_a_zero_tail_unless_an_offset_may_begin_so() {
    let scratch = Scratch::new();
    for segment in segments() {
        for zeros in [1, 7, 8, 10, 16, 17, 61, 4096, 1 << 20] {
            let what = format!("{}: {zeros} zeros", segment.name);
            let mut bytes = segment.bytes.clone();
            bytes.resize(bytes.len() + zeros, 0);
            let seen = scratch.walk(&bytes);
            let kind = if zeros < 8 {
                DamageKind::TornTail
            } else {
                DamageKind::ZeroTail
            };
            let expected = (kind, segment.bytes.len() as u64, zeros as u64);
            assert_eq!(only_damage(&seen, &what), expected, "{what}");
            assert_batches(&seen, &segment.batches, &what);
        }
    }
}

/// The search for the next batch may compute a bounded number of checksums; the size fields that
/// chance makes in a random payload must not use that up.
#[test]
fn a_lost_size_before_random_bytes_hides_no_good_batch() {
    let scratch = Scratch::new();
    for segment in segments() {
        let first = segment.batches[0].1;
        let mut bytes = segment.batch(0).to_vec();
        put_length(&mut bytes, 0, -1);
        bytes.extend(Noise(0x9e37_79b9).bytes(2 << 20));
        let lost = bytes.len() as u64;
        for _ in 0..4000 {
            bytes.extend(&segment.bytes[first..]);
        }
        let seen = scratch.walk(&bytes);
        let found = -1;
        let minimum = minimum(magic(segment.batch(0)));
        let expected = (DamageKind::BadLength { found, minimum }, 0, lost);
        assert_eq!(only_damage(&seen, segment.name), expected);
        assert_eq!(seen.len(), 1 + 4000 * 4, "{}", segment.name);
    }
}

/// Where every place looks like the beginning of something the work must not grow with the square
/// of the size. It is counted in bytes read, which are the same on any machine.
#[test]
fn hostile_files_are_walked_with_work_that_their_size_bounds() {
    const SIZE: usize = 1 << 20;
    let scratch = Scratch::new();
    let good = Segment::of_fixture("s02-txn-tv2/data/tx-0/00000000000000000088.log", 5);
    let marker = good.batch(4);
    let header = |length: i32, magic: u8| {
        let mut header = marker[..61].to_vec();
        put_length(&mut header, 0, length);
        header[16] = magic;
        header
    };
    let with_gap = |gap: &[u8]| [gap, marker].concat();
    let files = [
        (
            "headers that claim half the file",
            header(SIZE as i32 / 2, 2),
        ),
        ("headers that claim a kilobyte", header(1024, 2)),
        ("headers that claim too much", header(i32::MAX, 2)),
        ("headers that claim too little", header(0, 2)),
        (
            "legacy headers that claim half the file",
            header(SIZE as i32 / 2, 1),
        ),
        ("legacy headers that claim a kilobyte", header(1024, 0)),
        ("unknown magic", header(1024, 3)),
        ("ones", vec![1]),
        (
            "a legacy entry at every place",
            vec![0, 0, 0, 16, 0, 0, 0, 0],
        ),
        ("a run of zeros before every batch", with_gap(&[0; 61])),
        ("junk before every batch", with_gap(&[0xff; 3])),
        ("a lost size before every batch", with_gap(&header(-1, 2))),
    ];
    for (name, unit) in files {
        let bytes = unit.repeat(SIZE / unit.len());
        scratch.walk(&bytes);
        let before = bytes_read();
        walk_file(&scratch.path(), Io::Read).unwrap();
        let read = (bytes_read() - before) / bytes.len() as u64;
        // Each search begins with a KiB, however near the next batch is.
        assert!(read <= 32, "{name}: {read} times its bytes");
    }
}

/// Bytes that this thread has asked the system for.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_covered_by_batches_and_damage(bytes: Vec<u8>) {
        Scratch::new().walk(&bytes);
    }

    #[test]
    fn a_segment_damaged_anyhow_is_covered_by_batches_and_damage(
        which in 0..6_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), edit()), 1..6),
    ) {
        let mut bytes = segments().swap_remove(which).bytes;
        for (place, edit) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match edit {
                Edit::Set(to) => bytes[at] = to,
                Edit::Insert(new) => drop(bytes.splice(at..at, new)),
                Edit::Remove(count) => drop(bytes.drain(at..(at + count).min(bytes.len()))),
                Edit::Cut => bytes.truncate(at),
            }
        }
        Scratch::new().walk(&bytes);
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Set(u8),
    Insert(Vec<u8>),
    Remove(usize),
    Cut,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => any::<u8>().prop_map(Edit::Set),
        1 => any::<Vec<u8>>().prop_map(Edit::Insert),
        1 => (1..200_usize).prop_map(Edit::Remove),
        1 => Just(Edit::Cut),
    ]
}

/// Stops the other thread when this one ends, or a failed check would wait for it for ever.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A file of some pages, and its batches.
fn long_segment() -> Segment {
    let mut segment = Segment::of_fixture("s02-txn-tv2/data/tx-0/00000000000000000088.log", 17);
    segment.bytes = segment.bytes.repeat(100);
    segment.batches = segments::batches_of(&segment.bytes);
    segment
}

/// A cut below a page that the walk has yet to reach raises SIGBUS there; one inside the page
/// shows zeros. Neither kills the process, and neither is taken for what is in the file.
#[test]
fn a_file_cut_while_it_is_open_has_changed_and_is_not_damaged() {
    let scratch = Scratch::new();
    let segment = long_segment();
    for io in [Io::Mmap, Io::Read] {
        for cut in (0..segment.bytes.len())
            .step_by(997)
            .chain([segment.bytes.len() - 1])
        {
            fs::write(scratch.path(), &segment.bytes).unwrap();
            let file = MappedFile::open(&scratch.path(), io).unwrap();
            let handle = OpenOptions::new().write(true).open(scratch.path()).unwrap();
            handle.set_len(cut as u64).unwrap();
            let mut walk = BatchWalk::new(&file);
            let mut error = None;
            while let Some(entry) = walk.next_entry() {
                match entry {
                    Ok(Entry::Damage(damage)) => panic!("{io:?}, cut at {cut}: {damage:?}"),
                    Ok(Entry::Batch(_) | Entry::Legacy(_)) => {}
                    Err(changed) => error = Some(changed),
                }
            }
            let error = error.unwrap();
            assert!(
                matches!(error, Error::ChangedWhileReading { .. }),
                "{io:?}, cut at {cut}: {error}"
            );
        }
    }
}

#[test]
fn a_checksum_over_bytes_that_were_cut_off_is_not_called_wrong() {
    let scratch = Scratch::new();
    let segment = long_segment();
    let (_, position, size) = segment.last();
    for io in [Io::Mmap, Io::Read] {
        fs::write(scratch.path(), &segment.bytes).unwrap();
        let file = MappedFile::open(&scratch.path(), io).unwrap();
        let mut walk = BatchWalk::starting_at(&file, position as u64);
        let Some(Ok(Entry::Batch(batch))) = walk.next_entry() else {
            panic!("no batch");
        };
        let handle = OpenOptions::new().write(true).open(scratch.path()).unwrap();
        handle.set_len((position + size - 16) as u64).unwrap();
        match batch.is_valid() {
            Err(Error::ChangedWhileReading { .. }) => {}
            // The walk has read the whole batch before the cut.
            Ok(true) if io == Io::Read => {}
            other => panic!("{io:?}: {other:?}"),
        }
    }
}

/// A broker that truncates and writes again, as a follower does after a leader change.
#[test]
fn a_walk_beside_truncation_ends_cleanly_or_in_changed_while_reading() {
    let scratch = Scratch::new();
    let segment = long_segment();
    fs::write(scratch.path(), &segment.bytes).unwrap();
    let done = AtomicBool::new(false);
    let (mut whole, mut changed) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = OpenOptions::new().write(true).open(scratch.path()).unwrap();
            let mut noise = Noise(7);
            while !done.load(Ordering::Relaxed) {
                let keep = noise.next() as usize % segment.batches.len();
                let (position, _) = segment.batches[keep];
                file.set_len(position as u64).unwrap();
                file.write_all_at(&segment.bytes[position..], position as u64)
                    .unwrap();
                std::thread::sleep(Duration::from_micros(noise.next() % 3000));
            }
        });
        let _stop = StopAtEnd(&done);
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            for io in [Io::Mmap, Io::Read] {
                match walk_file(&scratch.path(), io) {
                    Ok(seen) => {
                        whole += 1;
                        let damage = seen.iter().find_map(Seen::damage);
                        assert_eq!(damage, None, "{io:?}");
                        let bad = seen.iter().filter_map(Seen::batch).find(|it| !it.is_valid);
                        assert_eq!(bad, None, "{io:?}");
                    }
                    Err(Error::ChangedWhileReading { .. }) => changed += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }
    });
    assert!(whole + changed > 0);
}

/// A broker that appends, each batch in several pieces.
#[test]
fn a_batch_being_written_is_not_damage() {
    let scratch = Scratch::new();
    let segment = long_segment();
    let done = AtomicBool::new(false);
    let mut in_the_middle = 0;
    let mut file = File::create(scratch.path()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut noise = Noise(11);
            'batches: for index in 0.. {
                let mut rest = segment.batch(index % segment.batches.len());
                while !rest.is_empty() {
                    if done.load(Ordering::Relaxed) {
                        break 'batches;
                    }
                    let count = rest.len().min(1 + noise.next() as usize % 100);
                    file.write_all(&rest[..count]).unwrap();
                    rest = &rest[count..];
                    std::thread::sleep(Duration::from_micros(noise.next() % 500));
                }
            }
        });
        let _stop = StopAtEnd(&done);
        let until = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < until {
            for io in [Io::Mmap, Io::Read] {
                let len = fs::metadata(scratch.path()).unwrap().len();
                let seen = walk_file(&scratch.path(), io).unwrap();
                let covered = seen.last().map_or(0, |last| last.position() + last.size());
                assert_tiles(&seen, covered);
                assert_eq!(seen.iter().find_map(Seen::damage), None, "{io:?}");
                in_the_middle += u32::from(covered < len);
            }
        }
    });
    assert!(in_the_middle > 0);
}
