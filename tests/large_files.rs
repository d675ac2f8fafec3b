//! Files of a size that no broker writes. Whoever can make a file can make one of any length, and
//! one that has holes takes no room on the disk. No command needs memory for it: what is asked of a
//! file is read where it lies. The program may use 128 MiB of memory of its own,
//! less than any of the files; a map of a file is none.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

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

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use reading_commands::{ReadingCommand, reading_commands};

/// Bytes of each of the files. `KSEG_LARGE=2147483647` takes larger ones.
const SIZE: u64 = 160 << 20;
/// Bytes of a transaction index, in which zeros are rows: one takes more memory than room.
const ROWS_SIZE: u64 = 32 << 20;
/// Kilobytes of memory that the program may use, maps of files left aside.
const MEMORY: u64 = 128 << 10;

const FIRST: &str = "00000000000000000000";
const LAST: &str = "00000000000000000088";

/// A log directory with one partition, of two segments.
struct Logs {
    scratch: tempfile::TempDir,
    root: PathBuf,
}

impl Logs {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("logs");
        fs::create_dir(&root).unwrap();
        let logs = Self { scratch, root };
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/s02-txn-tv2/data");
        fs::create_dir(logs.partition()).unwrap();
        for (from, to) in [
            (fixture.join("tx-0"), logs.partition()),
            (fixture, logs.root.clone()),
        ] {
            for entry in fs::read_dir(from).unwrap() {
                let from = entry.unwrap().path();
                if from.is_file() {
                    fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
                }
            }
        }
        logs
    }

    fn partition(&self) -> PathBuf {
        self.root.join("tx-0")
    }

    /// Makes a file larger than any that a broker writes, by a hole at its end.
    fn enlarge(&self, path: &Path, size: u64) {
        let asked = std::env::var("KSEG_LARGE").ok();
        let size = asked.and_then(|it| it.parse().ok()).unwrap_or(size);
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.root.join(path));
        file.unwrap().set_len(size).unwrap();
    }

    /// Runs every command, one form of output of each, and those that look at a start.
    fn every_command(&self, what: &str) {
        let all = reading_commands();
        let once = |command: &&ReadingCommand| !command.to_string().contains("-o ");
        for command in all.iter().filter(once).chain(&reading_as_loaded()) {
            let path = if command.takes_partition {
                self.partition()
            } else {
                self.root.clone()
            };
            let shell = format!("ulimit -d {MEMORY}; exec \"$@\"");
            let through = ["sh", "-c", &shell, "sh"];
            let run = command.run_through(&through, &path, self.scratch.path());
            assert!(
                !run.stderr.contains("memory"),
                "{what}: {command}: {}",
                run.stderr
            );
            assert!(run.stderr.len() < 10_000, "{what}: {command}");
        }
    }
}

/// `--as-loaded` reads what a start makes of the files.
fn reading_as_loaded() -> Vec<ReadingCommand> {
    let commands = reading_commands();
    let is_wanted = |command: &&ReadingCommand| {
        let text = command.to_string();
        ["ls PATH", "dump PATH"].contains(&text.as_str())
    };
    let wanted = commands.iter().filter(is_wanted);
    wanted.map(|it| it.with("--as-loaded")).collect()
}

#[test]
fn indexes_of_any_length_need_no_memory() {
    for base in [FIRST, LAST] {
        for suffix in ["index", "timeindex"] {
            let logs = Logs::new();
            let name = format!("{base}.{suffix}");
            logs.enlarge(&logs.partition().join(&name), SIZE);
            logs.every_command(&name);
        }
    }
}

#[test]
fn transaction_indexes_of_any_length_need_no_memory() {
    for name in [format!("{LAST}.txnindex"), format!("{FIRST}.txnindex.swap")] {
        let logs = Logs::new();
        logs.enlarge(&logs.partition().join(&name), ROWS_SIZE);
        logs.every_command(&name);
    }
}

#[test]
fn snapshots_and_text_files_of_any_length_need_no_memory() {
    let partition = Path::new("tx-0");
    for path in [
        partition.join(format!("{LAST}.snapshot")),
        partition.join("leader-epoch-checkpoint"),
        partition.join("partition.metadata"),
        "recovery-point-offset-checkpoint".into(),
        "meta.properties".into(),
        ".kafka_cleanshutdown".into(),
    ] {
        let logs = Logs::new();
        logs.enlarge(&path, SIZE);
        logs.every_command(&path.display().to_string());
    }
}

#[test]
fn leftovers_of_any_length_need_no_memory() {
    for name in [
        format!("{FIRST}.log.swap"),
        format!("{FIRST}.index.swap"),
        format!("{FIRST}.timeindex.swap"),
        format!("{FIRST}.log.cleaned"),
        format!("{FIRST}.log.deleted"),
    ] {
        let logs = Logs::new();
        logs.enlarge(&logs.partition().join(&name), SIZE);
        logs.every_command(&name);
    }
}

/// What Kafka 4.3.1 did with these files: an index of 2 GiB is one byte too long for
/// `FileChannel.map`. The last segment's are mapped at every start, the others' if the segment is
/// recovered.
#[test]
fn an_index_that_cannot_be_mapped_ends_the_start() {
    let name = format!("{LAST}.timeindex");
    let logs = Logs::new();
    let path = logs.partition().join(&name);
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(1 << 31).unwrap();
    // Every segment is recovered after an unclean stop.
    fs::remove_file(logs.root.join("recovery-point-offset-checkpoint")).unwrap();
    let mut recover = program::kseg(logs.scratch.path());
    recover.args(["recover", "-o", "ndjson"]);
    recover.arg(logs.partition());
    let run = reading_commands::finish_in_time(&mut recover, logs.scratch.path());
    for row in run.stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert_eq!(row["loads"], false, "{name}: {row}");
        let error = &row["error"];
        assert_eq!(error["exception"], "IllegalArgumentException", "{name}");
        assert_eq!(error["stopsBroker"], true, "{name}");
    }
    assert_eq!(run.stdout.lines().count(), 2, "{name}");
}
