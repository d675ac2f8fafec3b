//! Links to nothing, directories, pipes and so on in a log directory under the names of the files
//! that a broker reads there: what `CheckpointFile`, `MetaPropertiesEnsemble.Loader` and
//! `CleanShutdownFileHandler` of Kafka 4.3.1 came to on each of them, run one by one.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/odd.rs"]
mod odd;
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
#[path = "common/recover_run.rs"]
mod recover_run;

use std::fs;

use odd::Odd;
use reading_commands::reading_commands;
use recover_run::{copy_of, recover};
use serde_json::{Value, json};

const SOUND: &str = "s02-txn-tv2/data";

const CHECKPOINTS: [&str; 4] = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
];
const META: &str = "meta.properties";
const MARK: &str = ".kafka_cleanshutdown";

/// What a start comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// All partitions are served.
    Serves,
    /// The exception, and whether it stops the whole broker.
    Fails(&'static str, bool),
}
use Start::{Fails, Serves};

/// `OffsetCheckpointFile.read`: `NoSuchFileException`, `FileSystemException` and "Is a directory"
/// are `IOException`s; a directory is then no partition's either (`LogManager.loadLogs`).
fn of_checkpoint(odd: Odd, name: &str) -> Start {
    match odd {
        Odd::Pipe if name.starts_with("cleaner") => Serves,
        Odd::Pipe => Fails("none", true),
        Odd::Directory | Odd::FullDirectory => Fails("KafkaException", true),
        Odd::NullDevice => Serves,
        Odd::Link | Odd::LinkIntoNothing | Odd::LinkLoop | Odd::Socket | Odd::Device => {
            Fails("KafkaStorageException", false)
        }
    }
}

/// `emptyLogDirs` of what gives a `NoSuchFileException`, `errorLogDirs` of any other.
fn of_meta(odd: Odd) -> Start {
    match odd {
        Odd::Pipe => Fails("none", true),
        Odd::Link | Odd::LinkIntoNothing | Odd::NullDevice => Fails("RuntimeException", true),
        Odd::LinkLoop | Odd::Directory | Odd::FullDirectory | Odd::Socket | Odd::Device => {
            Fails("IOException", false)
        }
    }
}

/// `exists()`, `read()` and `delete()`: the start, and whether it is a clean one.
fn of_mark(odd: Odd) -> (Start, bool) {
    match odd {
        Odd::Link | Odd::LinkIntoNothing | Odd::LinkLoop => (Serves, false),
        Odd::Pipe => (Fails("none", true), true),
        Odd::FullDirectory => (Fails("DirectoryNotEmptyException", false), true),
        Odd::Directory | Odd::Socket | Odd::Device | Odd::NullDevice => (Serves, true),
    }
}

fn rows(stdout: &[u8]) -> Vec<Value> {
    let rows = String::from_utf8(stdout.to_vec()).unwrap();
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    rows.collect()
}

fn verify(path: &std::path::Path) -> Vec<Value> {
    let mut kseg = program::kseg(path);
    let output = kseg.args(["verify", "--all", "-o", "ndjson", "."]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    rows(&output.stdout)
}

#[test]
fn what_a_start_comes_to_is_told_and_hides_nothing() {
    let names = CHECKPOINTS.into_iter().chain([META, MARK]);
    for (name, odd) in names.flat_map(|name| Odd::ALL.map(|odd| (name, odd))) {
        let place = format!("{name} {odd:?}");
        let data = copy_of(SOUND);
        odd.make(&data.path().join(name));
        let (start, is_clean) = match name {
            META => (of_meta(odd), true),
            MARK => of_mark(odd),
            _ => (of_checkpoint(odd, name), true),
        };

        let run = recover(&[data.path().as_os_str()]);
        assert_ne!(run.rows.len(), 0, "{place}");
        assert_eq!(run.status, Some(i32::from(start != Serves)), "{place}");
        for row in run.rows.iter().filter(|row| row["applies"] == true) {
            let error = match start {
                Serves => Value::Null,
                Fails(exception, stops) => json!([exception, stops]),
            };
            let found = &row["brokerError"];
            let found = if found.is_null() {
                Value::Null
            } else {
                json!([found["exception"], found["stopsBroker"]])
            };
            assert_eq!(found, error, "{place}");
            let start = if is_clean { "clean" } else { "unclean" };
            assert_eq!(row["start"], start, "{place}");
        }

        // Another file that is wrong is told as well.
        let other = CHECKPOINTS.iter().find(|it| **it != name).unwrap();
        fs::write(data.path().join(other), "x").unwrap();
        let found = verify(data.path());
        let of = |kind: &str| {
            let found = found.iter().filter(|it| it["kind"] == kind);
            found.collect::<Vec<_>>()
        };
        let told = of("not-a-file");
        assert_eq!(told.len(), 1, "{place}: {found:#?}");
        assert_eq!(told[0]["file"], name);
        assert_eq!(told[0]["found"], odd.what(), "{place}");
        assert_eq!(told[0]["position"], Value::Null, "{place}");
        let action = told[0]["brokerAction"].as_str().unwrap();
        let says = match start {
            Fails("none", _) => "waits for the other end of the pipe",
            Fails(_, true) => "does not start",
            Fails(_, false) => "offline",
            Serves if name == MARK && is_clean => "the mark of a clean stop",
            Serves if name == MARK => "passes over it",
            Serves if matches!(odd, Odd::Pipe) => "its log cleaner waits",
            Serves => "as an empty file",
        };
        assert!(action.contains(says), "{place}: {action}");
        let others = of("checkpoint-unreadable");
        assert_eq!(others.len(), 1, "{place}: {found:#?}");
        assert_eq!(others[0]["file"], *other, "{place}");
        assert_eq!(of("foreign-directory").len(), 0, "{place}");
    }
}

#[test]
fn every_command_names_them_and_answers() {
    for odd in Odd::ALL {
        let data = copy_of(SOUND);
        let scratch = tempfile::tempdir().unwrap();
        for name in CHECKPOINTS.into_iter().chain([META, MARK]) {
            odd.make(&data.path().join(name));
        }
        let partition = data.path().join("tx-0");
        for command in reading_commands() {
            for path in [data.path(), &partition] {
                if command.takes_partition && path != partition {
                    continue;
                }
                let run = command.run(path, scratch.path());
                assert_ne!(run.status, 2, "{odd:?} {command}: {run:?}");
                if command.takes_partition {
                    continue;
                }
                let told = [&run.stdout[..], &run.stderr].concat();
                for name in CHECKPOINTS.into_iter().chain([META, MARK]) {
                    assert!(told.contains(name), "{odd:?} {command}: {name}: {run:?}");
                }
                assert!(told.contains(odd.what()), "{odd:?} {command}: {run:?}");
                assert!(!told.contains("vanished"), "{odd:?} {command}: {run:?}");
            }
        }
    }
}

/// What is read of the others is what is read without the entry.
#[test]
fn an_entry_that_is_no_file_is_as_none_to_the_answer() {
    let without = copy_of(SOUND);
    fs::remove_file(without.path().join("replication-offset-checkpoint")).unwrap();
    let lso = |path: &std::path::Path| {
        let mut kseg = program::kseg(path);
        let output = kseg.args(["lso", "--all", "-o", "ndjson", "tx-0"]).output();
        rows(&output.unwrap().stdout)
    };
    let expected = lso(without.path());
    assert_eq!(expected[0]["highWatermarkSource"], "assumed");
    for odd in Odd::ALL {
        let data = copy_of(SOUND);
        odd.make(&data.path().join("replication-offset-checkpoint"));
        assert_eq!(lso(data.path()), expected, "{odd:?}");
    }
}
