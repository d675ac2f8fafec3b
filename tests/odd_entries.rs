//! Links to nothing and directories under the names of files, as a broker takes them: `File.isFile`
//! decides what is listed, `File.exists` what is missing, and an exception what goes offline.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};

use recover_run::{copy_of, recover};
use serde_json::Value;
use tempfile::TempDir;

const UNDAMAGED: &str = "s07j-deleted-segment/undamaged";

#[derive(Clone, Copy, Debug)]
enum Odd {
    LinkIntoNothing,
    Link,
    Directory,
}

/// A copy in which a file is no file.
fn with(odd: Odd, name: &str) -> (TempDir, PathBuf) {
    let data = copy_of(UNDAMAGED);
    let path = data.path().join(name);
    if path.exists() {
        fs::remove_file(&path).unwrap();
    }
    match odd {
        Odd::Link => symlink("gone", &path).unwrap(),
        Odd::LinkIntoNothing => symlink("gone/disk/file", &path).unwrap(),
        Odd::Directory => fs::create_dir(&path).unwrap(),
    }
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

/// Name, what it is, the exception of the start, and whether the answer of a start is that of one
/// without the file.
const ENTRIES: &[(&str, Odd, Option<&str>, bool)] = &[
    ("00000000000000000047.log", Odd::Link, None, true),
    ("00000000000000000047.index", Odd::Link, None, true),
    ("00000000000000000047.timeindex", Odd::Link, None, true),
    ("00000000000000000047.txnindex", Odd::Link, None, true),
    ("00000000000000000116.snapshot", Odd::Link, None, true),
    ("00000000000000000047.log.swap", Odd::Link, None, true),
    ("partition.metadata", Odd::Link, None, true),
    (
        "leader-epoch-checkpoint",
        Odd::Link,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "leader-epoch-checkpoint",
        Odd::Directory,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "partition.metadata",
        Odd::Directory,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "00000000000000000047.txnindex",
        Odd::Directory,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "00000000000000000100.index",
        Odd::Directory,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "00000000000000000116.snapshot",
        Odd::Directory,
        Some("KafkaStorageException"),
        false,
    ),
    // An index that is made in recovery, of the last segment, and a snapshot at the log end.
    (
        "00000000000000000100.index",
        Odd::LinkIntoNothing,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "00000000000000000100.timeindex",
        Odd::LinkIntoNothing,
        Some("KafkaStorageException"),
        false,
    ),
    (
        "00000000000000000116.snapshot",
        Odd::LinkIntoNothing,
        Some("KafkaStorageException"),
        false,
    ),
    ("00000000000000000047.log", Odd::LinkIntoNothing, None, true),
    ("00000000000000000047.index", Odd::Directory, None, false),
    ("00000000000000000047.log.swap", Odd::Directory, None, true),
];

#[test]
fn what_is_no_file_is_said_and_taken_as_a_broker_takes_it() {
    for (name, odd, exception, is_as_without) in ENTRIES {
        let place = format!("{name} {odd:?}");
        let what = match odd {
            Odd::Link => "a link to nothing",
            Odd::LinkIntoNothing => "a link into a folder that is not there",
            Odd::Directory => "a directory",
        };
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
        let goes_offline = action.contains("the log directory goes offline");
        assert_eq!(goes_offline, !is_as_without, "{place}: {action}");
        if *is_as_without {
            let entry = partition.join(name);
            match odd {
                Odd::Link | Odd::LinkIntoNothing => fs::remove_file(entry).unwrap(),
                Odd::Directory => fs::remove_dir(entry).unwrap(),
            }
            let without = recover(&[partition.as_os_str()]);
            assert_eq!(without.status, run.status, "{place}");
            assert_eq!(without.rows, run.rows, "{place}");
        }
        drop(data);
    }
}

/// `CheckpointFile` makes no file where the name is taken, and reads it then.
#[test]
fn a_checkpoint_that_is_a_link_to_nothing_takes_the_directory_offline() {
    let (_data, partition) = with(Odd::Link, "replication-offset-checkpoint");
    let run = recover(&[partition.as_os_str()]);
    assert_eq!(run.status, Some(1), "{}", run.table);
    let error = &run.rows[0]["brokerError"];
    assert_eq!(error["exception"], "KafkaStorageException", "{error:#}");
    assert_eq!(error["stopsBroker"], false);
    let found = rows(&kseg("verify", &partition));
    let told = found
        .iter()
        .find(|row| row["kind"] == "checkpoint-unreadable");
    let told = told.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(told["file"], "replication-offset-checkpoint");
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .contains("a link to nothing"),
        "{told:#}"
    );
    let said = kseg("gaps", &partition).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("replication-offset-checkpoint"), "{said}");
    assert!(said.contains("a link to nothing"), "{said}");
}
