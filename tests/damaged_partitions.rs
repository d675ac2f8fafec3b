//! Damaged partitions: bits flipped, files cut, zeroed, doubled and exchanged, batches repeated and
//! out of order, with and without a right checksum.
//!
//! Every command that reads comes back with an answer or an error, in bounded time and memory, and
//! a bit flipped under a checksum is found where it is. Each run takes other damage, by a seed that
//! it prints. `KSEG_DAMAGE_SEED` repeats a run, `KSEG_DAMAGE_SECONDS` makes it longer, and
//! `KSEG_DAMAGE_EACH=N` damages every partition of the fixtures N times.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::wildcard_enum_match_arm,
    reason = "a test stops where something is not as it must be; its numbers are small"
)]

#[path = "common/mod.rs"]
mod common;
#[path = "common/library_commands.rs"]
#[allow(
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod library_commands;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use common::partitions::{open, partitions_below, root};
use kseg::log::Error;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::dump::DumpRow;
use library_commands::{LIBRARY_COMMANDS, dump};
use segments::{Noise, reseal};

/// No command takes so long on a partition of the fixtures, in a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Address space that all of it may take beyond what it began with. The largest batch there is
/// unpacks to some megabytes; a length that is believed would be 2 GiB.
const MEMORY_LIMIT: u64 = 1 << 30;
/// Partitions larger than this would take the time of many others.
const MAX_SIZE: u64 = 4 << 20;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A partition's files in memory.
struct Partition {
    path: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

impl Partition {
    fn read(path: &Path) -> Self {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            files.push((name, fs::read(&path).unwrap()));
        }
        files.sort();
        Self {
            path: path.to_owned(),
            files,
        }
    }

    fn write(&self, to: &Path) {
        let _ = fs::remove_dir_all(to);
        fs::create_dir_all(to).unwrap();
        // A torn tail of a file written a moment ago is waited for.
        let old = SystemTime::now() - Duration::from_secs(3600);
        for (name, bytes) in &self.files {
            let path = to.join(name);
            fs::write(&path, bytes).unwrap();
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(old)
                .unwrap();
        }
        File::open(to).unwrap().set_modified(old).unwrap();
    }
}

struct Dice(Noise);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next() >> 11) as usize % bound.max(1)
    }

    /// A range in `len` bytes, more often a short one.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len);
        let bound = [4, 64, 1024, len][self.below(4)];
        let size = self.below(bound);
        start..(start + size).min(len)
    }

    /// Does one damage; says what.
    fn damage(&mut self, partition: &mut Partition) -> String {
        let count = partition.files.len();
        let index = self.below(count);
        let other = self.below(count);
        if self.below(8) == 0 {
            return self.damage_files(partition, index, other);
        }
        let (name, bytes) = &mut partition.files[index];
        let is_log = name.contains(".log");
        let batches = whole_batches(bytes);
        if is_log && batches.len() > 1 && self.below(3) == 0 {
            return format!("{name}: {}", self.damage_batches(bytes, &batches));
        }
        let what = self.damage_bytes(bytes);
        let mut what = format!("{name}: {what}");
        if is_log && self.below(2) == 0 {
            for (position, size) in whole_batches(bytes) {
                seal(&mut bytes[position..position + size]);
            }
            what.push_str(", resealed");
        }
        what
    }

    fn damage_files(&mut self, partition: &mut Partition, index: usize, other: usize) -> String {
        let (name, other_name) = (
            partition.files[index].0.clone(),
            partition.files[other].0.clone(),
        );
        match self.below(4) {
            0 if partition.files.len() > 1 => {
                partition.files.remove(index);
                format!("{name}: removed")
            }
            1 => {
                let bytes = partition.files[index].1.clone();
                partition.files[other].1 = bytes;
                format!("{other_name}: has the bytes of {name}")
            }
            2 => {
                let offset = self.0.next() >> self.below(64);
                let ending = name.split_once('.').map_or("log", |(_, ending)| ending);
                let new = format!("{offset:020}.{ending}");
                if partition.files.iter().all(|(name, _)| *name != new) {
                    partition.files[index].0.clone_from(&new);
                }
                format!("{name}: renamed to {new}")
            }
            _ => {
                let (a, b) = (
                    partition.files[index].1.clone(),
                    partition.files[other].1.clone(),
                );
                partition.files[index].1 = b;
                partition.files[other].1 = a;
                format!("{name}: exchanged with {other_name}")
            }
        }
    }

    fn damage_batches(&mut self, bytes: &mut Vec<u8>, batches: &[(usize, usize)]) -> String {
        let mut pieces: Vec<Vec<u8>> = batches
            .iter()
            .map(|&(position, size)| bytes[position..position + size].to_vec())
            .collect();
        let (a, b) = (self.below(pieces.len()), self.below(pieces.len()));
        let what = match self.below(4) {
            0 => {
                let piece = pieces[a].clone();
                pieces.insert(b, piece);
                format!("batch {a} repeated before {b}")
            }
            1 => {
                pieces.swap(a, b);
                format!("batches {a} and {b} exchanged")
            }
            2 => {
                pieces.remove(a);
                format!("batch {a} left out")
            }
            _ => {
                // Any field of the header, under a right checksum.
                let at = self.below(pieces[a].len().min(61));
                let to = [0, 1, 0x7f, 0x80, 0xff][self.below(5)];
                pieces[a][at] = to;
                seal(&mut pieces[a]);
                format!("byte {at} of batch {a} is {to}, resealed")
            }
        };
        *bytes = pieces.concat();
        what
    }

    fn damage_bytes(&mut self, bytes: &mut Vec<u8>) -> String {
        let len = bytes.len();
        let range = self.range(len);
        let what = format!("{} to {}", range.start, range.end);
        match self.below(7) {
            0 if len > 0 => {
                let (at, bit) = (self.below(len), self.below(8));
                bytes[at] ^= 1 << bit;
                format!("bit {bit} of byte {at} flipped")
            }
            1 => {
                bytes.truncate(range.start);
                format!("cut at {}", range.start)
            }
            2 => {
                bytes[range].fill(0);
                format!("{what} zeroed")
            }
            3 => {
                let piece = bytes[range.clone()].to_vec();
                bytes.splice(range.end..range.end, piece);
                format!("{what} repeated")
            }
            4 => {
                drop(bytes.drain(range));
                format!("{what} left out")
            }
            5 => {
                let noise = self.0.bytes(range.len());
                bytes[range].copy_from_slice(&noise);
                format!("{what} overwritten")
            }
            _ => {
                let middle = (range.start + range.end) / 2;
                bytes[range.clone()].rotate_left(middle - range.start);
                format!("{what} in another order")
            }
        }
    }
}

/// The whole batches from the front on, by their size fields.
fn whole_batches(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut batches = Vec::new();
    let mut position = 0;
    while let Some(length) = bytes.get(position + 8..position + 12) {
        let length = i32::from_be_bytes(length.try_into().unwrap());
        let size = usize::try_from(length).map_or(0, |length| length + 12);
        if size < 26 || bytes.len() - position < size {
            break;
        }
        batches.push((position, size));
        position += size;
    }
    batches
}

fn seal(batch: &mut [u8]) {
    if batch[16] != 2 || batch.len() >= 61 {
        reseal(batch);
    }
}

/// Every command comes back.
fn assert_survived(dir: &Path, what: &str) {
    let (held, offsets) = (PartitionDir::hold(dir).unwrap(), open(dir).1);
    for (name, command) in LIBRARY_COMMANDS {
        let started = Instant::now();
        let ran = catch_unwind(AssertUnwindSafe(|| command(&held, offsets)));
        let took = started.elapsed();
        match ran {
            Ok(Ok(())) => {}
            Ok(Err(error)) => assert!(!error.to_string().is_empty(), "{name}: {what}"),
            Err(_) => panic!("{name} has panicked: {what}"),
        }
        assert!(took < LIMIT, "{name} took {took:?}: {what}");
    }
}

/// Address space this process has ever had.
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Stops the process if nothing is heard for too long: a loop without end would not.
fn watched(work: impl FnOnce(&dyn Fn(&str))) {
    let (alive, heard) = mpsc::channel::<String>();
    std::thread::spawn(move || {
        let mut last = String::new();
        loop {
            match heard.recv_timeout(LIMIT * 4) {
                Ok(what) => last = what,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!("no end: {last}");
                    std::process::abort();
                }
            }
        }
    });
    work(&|what: &str| alive.send(what.to_owned()).unwrap());
}

fn small_partitions() -> Vec<PathBuf> {
    let mut partitions = partitions_below(&root().join("fixtures"));
    partitions.retain(|path| {
        let files = fs::read_dir(path).unwrap();
        files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum::<u64>()
            < MAX_SIZE
    });
    assert!(partitions.len() > 50, "{}", partitions.len());
    partitions
}

#[test]
fn every_command_survives_damaged_partitions() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("KSEG_DAMAGE_SEED").unwrap_or(now.as_nanos() as u64);
    eprintln!("KSEG_DAMAGE_SEED={seed}");
    let partitions = small_partitions();
    let each = number("KSEG_DAMAGE_EACH").unwrap_or(0) as usize;
    let until = Instant::now() + Duration::from_secs(number("KSEG_DAMAGE_SECONDS").unwrap_or(8));
    let scratch = tempfile::tempdir().unwrap();
    let before = peak_memory();
    let mut cases = 0;
    watched(|alive| {
        for turn in 0.. {
            if turn >= each * partitions.len() && Instant::now() > until {
                break;
            }
            let mut dice = Dice(Noise(
                seed.wrapping_add(turn as u64).wrapping_mul(0x9e37_79b9) | 1,
            ));
            let which = if turn < each * partitions.len() {
                turn % partitions.len()
            } else {
                dice.below(partitions.len())
            };
            let mut partition = Partition::read(&partitions[which]);
            let mut what = format!("turn {turn} of seed {seed}, {}", partition.path.display());
            for _ in 0..=dice.below(4) {
                what.push_str("; ");
                what.push_str(&dice.damage(&mut partition));
            }
            let dir = scratch.path().join(partition.path.file_name().unwrap());
            partition.write(&dir);
            alive(&what);
            assert_survived(&dir, &what);
            let grown = peak_memory().saturating_sub(before);
            assert!(grown < MEMORY_LIMIT, "{grown} bytes more: {what}");
            fs::remove_dir_all(&dir).unwrap();
            cases += 1;
        }
    });
    eprintln!("{cases} damaged partitions");
    assert!(cases > 0);
}

/// What is said of the batches and bytes of a file: position, and whether it is sound.
fn verdicts(dir: &Path, file: &str) -> Vec<(u64, bool)> {
    let mut verdicts = Vec::new();
    dump(&PartitionDir::open(dir).unwrap(), |row| {
        match row {
            DumpRow::Batch(row) if row.file == file => {
                verdicts.push((row.position, row.is_valid == Some(true)));
            }
            DumpRow::Damage(row) if row.source.file == file => verdicts.push((row.position, false)),
            _ => {}
        }
        Ok::<_, Error>(())
    })
    .unwrap();
    verdicts
}

/// A bit flipped behind the checksum field makes that batch, and no other, invalid at its place;
/// with the checksum made right again nothing is to be seen of it there.
#[test]
fn a_bit_flipped_under_a_checksum_is_found_in_its_batch() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("KSEG_DAMAGE_SEED").unwrap_or(now.as_nanos() as u64);
    eprintln!("KSEG_DAMAGE_SEED={seed}");
    let mut dice = Dice(Noise(seed | 1));
    let partitions = small_partitions();
    let scratch = tempfile::tempdir().unwrap();
    let until = Instant::now() + Duration::from_secs(number("KSEG_DAMAGE_SECONDS").unwrap_or(4));
    let mut flipped = 0;
    while flipped == 0 || Instant::now() < until {
        let mut partition = Partition::read(&partitions[dice.below(partitions.len())]);
        let index = dice.below(partition.files.len());
        let (name, bytes) = &mut partition.files[index];
        let (name, batches) = (name.clone(), whole_batches(bytes));
        if !name.ends_with(".log") || batches.is_empty() {
            continue;
        }
        let (position, size) = batches[dice.below(batches.len())];
        // The magic byte and what is before the checksum decide what is checked.
        let covered = if bytes[position + 16] == 2 { 21 } else { 17 };
        let at = position + covered + dice.below(size - covered);
        let bit = dice.below(8);
        let dir = scratch.path().join(partition.path.file_name().unwrap());
        let (place, what) = (
            position as u64,
            format!("{}/{name}, bit {bit} of {at}", partition.path.display()),
        );
        partition.write(&dir);
        let before = verdicts(&dir, &name);
        if !before.contains(&(place, true)) {
            // A fixture that is damaged there already.
            continue;
        }
        partition.files[index].1[at] ^= 1 << bit;
        partition.write(&dir);
        let mut expected = before.clone();
        for verdict in expected
            .iter_mut()
            .filter(|(position, _)| *position == place)
        {
            verdict.1 = false;
        }
        assert!(
            verdicts(&dir, &name)
                .iter()
                .filter(|it| it.0 == place)
                .any(|it| !it.1),
            "{what}: {:?}",
            verdicts(&dir, &name)
        );
        let found: Vec<_> = dedup(verdicts(&dir, &name));
        assert_eq!(found, dedup(expected), "{what}");
        reseal(&mut partition.files[index].1[position..position + size]);
        partition.write(&dir);
        let sealed = verdicts(&dir, &name);
        assert!(sealed.contains(&(place, true)), "{what}: {sealed:?}");
        flipped += 1;
    }
    eprintln!("{flipped} bits flipped");
}

/// One verdict a place: not sound if anything there is not.
fn dedup(verdicts: Vec<(u64, bool)>) -> Vec<(u64, bool)> {
    let mut places = std::collections::BTreeMap::new();
    for (position, is_sound) in verdicts {
        *places.entry(position).or_insert(true) &= is_sound;
    }
    places.into_iter().collect()
}
