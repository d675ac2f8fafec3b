//! Reading while a broker is at work: no crash, no hang, and nothing found that is not there.
//!
//! One thread a partition appends, rolls, truncates, deletes and replaces segments; every reading
//! command runs on the log directory and on its partitions meanwhile. `KSEG_LIVE_SECONDS` makes
//! it last longer, `KSEG_LIVE_SEED` repeats the writers' choices, `KSEG_LIVE_KEEP` names a file for
//! the output of a run that found something.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    reason = "a test stops where something is not as it must be; its numbers are small"
)]

#[path = "common/changing_log.rs"]
#[allow(
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod changing_log;
#[path = "common/library_commands.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod library_commands;
#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;
#[path = "common/reading_commands.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod reading_commands;
#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs::OpenOptions;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use changing_log::{ChangingLog, CheckpointFiles, Life, make_and_delete_a_topic};
use kseg::log::batches::Entry;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use library_commands::LIBRARY_COMMANDS;
use program::Run;
use reading_commands::{ReadingCommand, reading_commands};
use segments::fixtures;

const PARTITIONS: [(&str, Life); 3] = [
    ("truncated", Life::Truncated),
    ("retained", Life::Retained),
    ("cleaned", Life::Cleaned),
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// All of them, or those that begin as `KSEG_LIVE_COMMAND` says.
fn wanted_commands() -> Vec<ReadingCommand> {
    let wanted = std::env::var("KSEG_LIVE_COMMAND").unwrap_or_default();
    let mut commands = reading_commands();
    commands.retain(|command| command.to_string().starts_with(&wanted));
    commands
}

/// How long the writers wait between two changes: a command meets about as many on a slow or busy
/// machine as on a fast one.
struct Pace(AtomicU64);

impl Pace {
    const SHORTEST: Duration = Duration::from_millis(2);
    const CHANGES_IN_A_COMMAND: u32 = 20;

    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn took(&self, command: Duration) {
        let pause = command / Self::CHANGES_IN_A_COMMAND;
        self.0.store(pause.as_micros() as u64, Ordering::Relaxed);
    }

    fn pause(&self, changes: u32) {
        let pause = Duration::from_micros(self.0.load(Ordering::Relaxed));
        std::thread::sleep(pause.max(Self::SHORTEST) * changes);
    }
}

/// Ends the writers when a check has failed, or the test would wait for them for ever.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn nothing_is_found_in_a_sound_log_directory_under_change() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = number("KSEG_LIVE_SEED").unwrap_or(now.as_nanos() as u64);
    let seconds = number("KSEG_LIVE_SECONDS").unwrap_or(6);
    eprintln!("KSEG_LIVE_SEED={seed}");
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("logs");
    std::fs::create_dir(&root).unwrap();
    let checkpoints = CheckpointFiles::new(&root);
    let stop = AtomicBool::new(false);
    let pace = Pace::new();
    std::thread::scope(|scope| {
        for (index, (topic, life)) in PARTITIONS.into_iter().enumerate() {
            let seed = seed.wrapping_add(index as u64);
            let mut log = ChangingLog::new(&root, topic, life, &checkpoints, seed);
            let (stop, pace) = (&stop, &pace);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    log.change();
                    pace.pause(1);
                }
            });
        }
        let passing = fixtures().join("s02-txn-tv2/data/tx-0");
        let (root, stop, pace) = (&root, &stop, &pace);
        scope.spawn(move || {
            let mut turn = 0;
            while !stop.load(Ordering::Relaxed) {
                make_and_delete_a_topic(root, &passing, turn);
                pace.pause(10);
                turn += 1;
            }
        });
        let _stop = StopAtEnd(stop);
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut tally = Tally::default();
        let commands = wanted_commands();
        for (turn, command) in commands.iter().cycle().enumerate() {
            if turn >= commands.len() && Instant::now() > until {
                break;
            }
            read(command, root, scratch.path(), &mut tally, pace);
        }
        eprintln!("{tally:?}");
        assert!(tally.changed * 4 <= tally.runs, "{tally:?}");
    });
    let mut tally = Tally::default();
    for command in &reading_commands() {
        read(command, &root, scratch.path(), &mut tally, &pace);
    }
    assert_eq!(tally.changed, 0, "nobody is writing any more");
}

/// The offsets in a partition, as a walk sees them.
fn offsets(dir: &PartitionDir) -> Result<Vec<i64>, Error> {
    let mut offsets = Vec::new();
    walk_partition(dir, Io::Mmap, 0, |_, entry| {
        match entry {
            Entry::Batch(batch) => offsets.push(batch.header.base_offset()),
            Entry::Legacy(_) | Entry::Damage(_) => panic!("{entry:?}"),
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(offsets)
}

/// A copy of a partition of several segments.
fn partition(scratch: &Path) -> PathBuf {
    let path = scratch.join("tx-0");
    std::fs::create_dir(&path).unwrap();
    for entry in std::fs::read_dir(fixtures().join("s02-txn-tv2/data/tx-0")).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, path.join(from.file_name().unwrap())).unwrap();
    }
    path
}

#[test]
fn a_held_partition_is_the_same_when_its_files_are_renamed_and_removed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = partition(scratch.path());
    let held = PartitionDir::hold(&path).unwrap();
    let listed = PartitionDir::open(&path).unwrap();
    let before = offsets(&held).unwrap();
    assert!(held.segments.len() > 1);
    let names = |segment: usize| path.join(&held.files[held.segments[segment].log].file_name);
    let last = names(held.segments.len() - 1);
    std::fs::rename(&last, last.with_extension("log.deleted")).unwrap();
    // Where nothing is held, what is left is not taken for the log.
    let left = offsets(&listed);
    assert!(
        matches!(left, Err(Error::ChangedWhileReading { .. })),
        "{left:?}"
    );
    std::fs::remove_file(names(0)).unwrap();
    assert_eq!(offsets(&held).unwrap(), before);
}

/// As a follower does: whole batches are cut off, and others take their place at once.
#[test]
fn a_held_partition_that_was_truncated_has_changed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = partition(scratch.path());
    let held = PartitionDir::hold(&path).unwrap();
    let before = offsets(&held).unwrap();
    let last = held.segments.len() - 1;
    // The last one first: only there does a broker write on after it was held.
    for segment in [last, 0] {
        let log = path.join(&held.files[held.segments[segment].log].file_name);
        let whole = std::fs::read(&log).unwrap();
        let (position, size) = *segments::batches_of(&whole).last().unwrap();
        let mut other = whole.clone();
        other[position + size - 1] ^= 1;
        segments::reseal(&mut other[position..]);
        for content in [&whole[..position], &other[..]] {
            write_in_place(&log, content);
            let seen = offsets(&held);
            assert!(
                matches!(seen, Err(Error::ChangedWhileReading { .. })),
                "{seen:?}"
            );
        }
        let appended = [&whole[..], &whole[position..]].concat();
        write_in_place(&log, &appended);
        let seen = offsets(&held);
        assert_eq!(seen.is_ok_and(|seen| seen == before), segment == last);
    }
}

/// What comes behind a cut segment is not what went before it: no command may draw a conclusion
/// from both, whether it would find something or fail.
#[test]
fn every_command_says_that_a_held_partition_was_truncated() {
    let mut missed = Vec::new();
    for (name, command) in LIBRARY_COMMANDS {
        let scratch = tempfile::tempdir().unwrap();
        let path = partition(scratch.path());
        let held = PartitionDir::hold(&path).unwrap();
        let log = |segment: usize| {
            let segment = held.segments[segment].log;
            path.join(&held.files[segment].file_name)
        };
        // The second segment is deleted; its batches, which the first one takes, come twice.
        let mut grown = std::fs::read(log(0)).unwrap();
        let (cut, _) = *segments::batches_of(&grown).last().unwrap();
        grown.truncate(cut);
        let next = std::fs::read(log(1)).unwrap();
        while (grown.len() as u64) < held.files[held.segments[0].log].size_in_bytes {
            grown.extend_from_slice(&next);
        }
        std::fs::rename(log(1), log(1).with_extension("log.deleted")).unwrap();
        write_in_place(&log(0), &grown);
        let seen = command(&held, CheckpointedOffsets::default());
        let has_noticed = matches!(seen, Err(Error::ChangedWhileReading { .. }));
        // A dump shows each file for itself.
        if !has_noticed && *name != "dump" {
            missed.push((name, seen));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

fn write_in_place(path: &Path, content: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(content, 0).unwrap();
    file.set_len(content.len() as u64).unwrap();
}

#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    /// Those that ended in "changed while reading".
    changed: u64,
}

/// Runs a command on the log directory and on every partition in it.
fn read(command: &ReadingCommand, root: &Path, scratch: &Path, tally: &mut Tally, pace: &Pace) {
    let partitions = PARTITIONS.map(|(topic, _)| root.join(format!("{topic}-0")));
    let root = (!command.takes_partition).then_some(root.to_owned());
    for path in root.iter().chain(&partitions) {
        let started = Instant::now();
        let run = command.run(path, scratch);
        pace.took(started.elapsed());
        tally.runs += 1;
        tally.changed += u64::from(run.status == 2);
        assert_sound(&run, &format!("{command} {}", path.display()));
    }
}

/// What may be said of a directory that a broker is changing and has never damaged.
fn assert_sound(run: &Run, what: &str) {
    let is_change = |line: &str| {
        line.contains("vanished while reading") || line.contains("changed while reading")
    };
    let is_harmless = |line: &str| {
        is_change(line)
            || line.starts_with("hint: ")
            || line.starts_with("note: ")
            || line.starts_with("rebuilt ")
            // What a clean start would do without a clean stop.
            || what.starts_with("recover ") && line.contains(", clean start: ")
    };
    let changed = run
        .stderr
        .lines()
        .any(|line| line.contains("changed while reading"));
    // The two sides of a comparison are of two moments.
    let may_differ = what.starts_with("diff ") && run.status == 1;
    let is_sound = (run.status == 0 || may_differ || run.status == 2 && changed)
        && run.stderr.lines().all(is_harmless)
        && !run.stdout.contains("\"isValid\":false")
        && !run.stdout.contains("\"type\":\"damage\"")
        && !run.stdout.contains("\"damagedLeft\":[{");
    if !is_sound && let Some(path) = std::env::var_os("KSEG_LIVE_KEEP") {
        std::fs::write(path, &run.stdout).unwrap();
    }
    assert!(
        is_sound,
        "{what}: status {}\n{}\n{} bytes of output: {:.2000}",
        run.status,
        run.stderr,
        run.stdout.len(),
        run.stdout,
    );
}
