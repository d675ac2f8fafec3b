//! Links to nothing, directories, pipes and so on under the names of files, as a broker takes them:
//! `File.isFile` decides what is listed, `File.exists` what is missing, and an exception what goes
//! offline.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/odd.rs"]
mod odd;
#[path = "common/recover_run.rs"]
mod recover_run;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use odd::Odd;
use recover_run::{Run, copy_of, recover};
use serde_json::Value;
use tempfile::TempDir;

const UNDAMAGED: &str = "s07j-deleted-segment/undamaged";

/// What a broker does about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broker {
    /// A start comes to the same as without it.
    AsWithout,
    /// It passes over it, and leaves the indexes of a `.log` that is there for `File.exists`.
    PassesOver,
    /// The log directory goes offline, at the start or later.
    GoesOffline,
    /// It waits for the other end.
    Waits,
}
use Broker::{AsWithout, GoesOffline, PassesOver, Waits};

/// A copy in which a file is no file.
fn with(odd: Odd, name: &str) -> (TempDir, PathBuf) {
    let data = copy_of(UNDAMAGED);
    let path = data.path().join(name);
    odd.make(&path);
    let partition = data.path().join("dmg-0");
    (data, partition)
}

fn kseg(command: &str, partition: &PathBuf) -> Output {
    let mut kseg = Command::new(env!("CARGO_BIN_EXE_kseg"));
    kseg.args([command, "-o", "ndjson"]).arg(partition);
    kseg.output().unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    let rows = String::from_utf8(output.stdout.clone()).unwrap();
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    rows.collect()
}

/// Name, what it is, the exception of the start, and what a broker does.
const ENTRIES: &[(&str, Odd, Option<&str>, Broker)] = &[
    ("00000000000000000047.log", Odd::Link, None, AsWithout),
    ("00000000000000000047.index", Odd::Link, None, AsWithout),
    ("00000000000000000047.timeindex", Odd::Link, None, AsWithout),
    ("00000000000000000047.txnindex", Odd::Link, None, AsWithout),
    ("00000000000000000116.snapshot", Odd::Link, None, AsWithout),
    ("00000000000000000047.log.swap", Odd::Link, None, AsWithout),
    ("partition.metadata", Odd::Link, None, AsWithout),
    (
        "leader-epoch-checkpoint",
        Odd::Link,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "leader-epoch-checkpoint",
        Odd::Directory,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "partition.metadata",
        Odd::Directory,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.txnindex",
        Odd::Directory,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000100.index",
        Odd::Directory,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000116.snapshot",
        Odd::Directory,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    // An index that is made in recovery, of the last segment, and a snapshot at the log end.
    (
        "00000000000000000100.index",
        Odd::LinkIntoNothing,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000100.timeindex",
        Odd::LinkIntoNothing,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000116.snapshot",
        Odd::LinkIntoNothing,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.log",
        Odd::LinkIntoNothing,
        None,
        AsWithout,
    ),
    (
        "00000000000000000047.index",
        Odd::Directory,
        None,
        GoesOffline,
    ),
    (
        "00000000000000000047.log.swap",
        Odd::Directory,
        None,
        AsWithout,
    ),
    ("00000000000000000047.log", Odd::Pipe, None, PassesOver),
    ("00000000000000000047.log.swap", Odd::Pipe, None, AsWithout),
    ("00000000000000000047.index", Odd::Pipe, None, GoesOffline),
    (
        "00000000000000000100.index",
        Odd::Pipe,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.txnindex",
        Odd::Pipe,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.log.deleted",
        Odd::Pipe,
        None,
        AsWithout,
    ),
    ("00000000000000000047.log", Odd::Socket, None, PassesOver),
    (
        "00000000000000000047.log.swap",
        Odd::Socket,
        None,
        AsWithout,
    ),
    ("00000000000000000047.index", Odd::Socket, None, GoesOffline),
    (
        "00000000000000000100.index",
        Odd::Socket,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.txnindex",
        Odd::Socket,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.log.deleted",
        Odd::Socket,
        None,
        AsWithout,
    ),
    ("00000000000000000047.log", Odd::Device, None, PassesOver),
    (
        "00000000000000000047.log.swap",
        Odd::Device,
        None,
        AsWithout,
    ),
    ("00000000000000000047.index", Odd::Device, None, GoesOffline),
    (
        "00000000000000000100.index",
        Odd::Device,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.txnindex",
        Odd::Device,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "00000000000000000047.log.deleted",
        Odd::Device,
        None,
        AsWithout,
    ),
    ("00000000000000000047.log", Odd::Directory, None, PassesOver),
    ("leader-epoch-checkpoint", Odd::Pipe, Some("none"), Waits),
    ("partition.metadata", Odd::Pipe, Some("none"), Waits),
    (
        "00000000000000000116.snapshot",
        Odd::Pipe,
        Some("none"),
        Waits,
    ),
    ("00000000000000000047.snapshot", Odd::Pipe, None, Waits),
    (
        "leader-epoch-checkpoint",
        Odd::Socket,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    ("00000000000000000047.log", Odd::LinkLoop, None, AsWithout),
    ("partition.metadata", Odd::LinkLoop, None, AsWithout),
    (
        "00000000000000000100.index",
        Odd::LinkLoop,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
    (
        "leader-epoch-checkpoint",
        Odd::LinkLoop,
        Some("KafkaStorageException"),
        GoesOffline,
    ),
];

/// A start touches no index of a `.log` that is there for `File.exists`.
fn leaves_indexes(run: &Run, log: &str) {
    let kept = [".index", ".timeindex", ".txnindex"].map(|it| log.replace(".log", it));
    for row in &run.rows {
        let actions = row["actions"].as_array().unwrap();
        let is_kept = |it: &&Value| kept.iter().any(|name| it["file"] == *name);
        let touched = actions.iter().filter(is_kept);
        assert_eq!(touched.count(), 0, "{log}: {}", run.table);
    }
}

#[test]
fn what_is_no_file_is_said_and_taken_as_a_broker_takes_it() {
    for (name, odd, exception, broker) in ENTRIES {
        let place = format!("{name} {odd:?}");
        let what = odd.what();
        let (data, partition) = with(*odd, &format!("dmg-0/{name}"));
        for command in [
            "gaps",
            "lso",
            "producers",
            "txns",
            "aborted",
            "replay",
            "recover",
            "ls",
        ] {
            let output = kseg(command, &partition);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                said.contains(&format!("{name}: {what}; ")),
                "{place} {command}: {said}"
            );
            assert_ne!(output.status.code(), Some(2), "{place} {command}: {said}");
        }
        let verified = kseg("verify", &partition);
        assert_eq!(verified.status.code(), Some(1), "{place}");
        let found = rows(&verified);
        let told: Vec<&Value> = found
            .iter()
            .filter(|it| it["kind"] == "not-a-file")
            .collect();
        assert_eq!(told.len(), 1, "{place}: {found:#?}");
        assert_eq!(told[0]["file"], *name);
        assert_eq!(told[0]["found"], what);
        let action = told[0]["brokerAction"].as_str().unwrap();
        let run = recover(&[partition.as_os_str()]);
        for row in &run.rows {
            assert_eq!(
                row["error"]["exception"].as_str(),
                *exception,
                "{place}: {}",
                run.table
            );
        }
        let says = match broker {
            AsWithout | PassesOver => "passes over it at any start",
            GoesOffline => "the log directory goes offline",
            Waits => "waits for the other end of the pipe",
        };
        assert!(action.contains(says), "{place}: {action}");
        if *broker == AsWithout {
            let entry = partition.join(name);
            if matches!(odd, Odd::Directory) {
                fs::remove_dir(entry).unwrap();
            } else {
                fs::remove_file(entry).unwrap();
            }
            let without = recover(&[partition.as_os_str()]);
            assert_eq!(without.status, run.status, "{place}");
            assert_eq!(without.rows, run.rows, "{place}");
        }
        if *broker == PassesOver {
            leaves_indexes(&run, name);
        }
        drop(data);
    }
}
