//! `recover` where a start is decided by more than one partition: what stops the whole broker
//! (`LogManager.loadLogs`, `LogManager.loadLog`).

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;

use std::fs;
use std::path::Path;
use std::process::Command;

use recover_run::{copy_of, recover};
use serde_json::{Value, json};

fn broker_errors(rows: &[Value]) -> Vec<&Value> {
    rows.iter()
        .map(|row| &row["brokerError"]["exception"])
        .collect()
}

/// A directory that is no partition's, whatever its name, stops the broker; so each partition in
/// it is down, and one that is asked for alone as well.
#[test]
fn a_directory_that_is_no_partition_stops_the_broker() {
    for foreign in ["lost+found", "tx", "tx-0.0123456789abcdef-removed"] {
        let data = copy_of("s02-txn-tv2/data");
        fs::create_dir(data.path().join(foreign)).unwrap();
        for path in [data.path().to_owned(), data.path().join("tx-1")] {
            let run = recover(&[path.as_os_str()]);
            assert_eq!(run.status, Some(1), "{foreign}");
            assert!(
                run.table.starts_with("the broker does not start: "),
                "{}",
                run.table
            );
            assert!(
                run.table.contains("down: the broker does not start"),
                "{}",
                run.table
            );
            let expected = json!("KafkaException");
            assert!(broker_errors(&run.rows).iter().all(|it| **it == expected));
        }
    }
    let data = copy_of("s02-txn-tv2/data");
    fs::create_dir(data.path().join("remote-log-index-cache")).unwrap();
    let run = recover(&[data.path().as_os_str()]);
    assert_eq!(run.status, Some(0));
    assert!(broker_errors(&run.rows).iter().all(|it| it.is_null()));
}

/// A partition twice in use on one broker stops it; on two brokers, or to be deleted in one of the
/// places, it does not.
#[test]
fn a_partition_in_two_log_directories_of_a_broker_stops_it() {
    let first = copy_of("s02-txn-tv2/data");
    let second = tempfile::tempdir().unwrap();
    let run = |name: &str, properties: Option<&str>| {
        let _ = fs::remove_dir_all(second.path());
        fs::create_dir_all(second.path()).unwrap();
        recover_run::copy(&first.path().join("tx-1"), &second.path().join(name));
        let own = fs::read_to_string(first.path().join("meta.properties")).unwrap();
        if let Some(node) = properties {
            let changed = own.replace("node.id=1", node);
            fs::write(second.path().join("meta.properties"), changed).unwrap();
        }
        recover(&[first.path().as_os_str(), second.path().as_os_str()])
    };
    let twice = run("tx-1", Some("node.id=1"));
    assert_eq!(twice.status, Some(1));
    assert!(
        twice.table.starts_with("the broker does not start: ")
            && twice.table.contains("IllegalStateException"),
        "{}",
        twice.table
    );
    let expected = json!("IllegalStateException");
    assert!(broker_errors(&twice.rows).iter().all(|it| **it == expected));
    let random = "tx-1.0123456789abcdef0123456789abcdef-delete";
    for (name, properties) in [
        ("tx-1", "node.id=7"),
        (random, "node.id=1"),
        ("tx-9", "node.id=1"),
    ] {
        let run = run(name, Some(properties));
        assert_eq!(run.status, Some(0), "{name} {properties}: {}", run.table);
    }
}

/// Each obstacle, with its path: what `recover` says on standard error beside JSON.
fn obstacles(arguments: &[&Path]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["recover", "-o", "ndjson"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let consequences = [
        ": the broker does not start: ",
        ": the log directory goes offline: ",
    ];
    let lines = said.lines().filter_map(|line| {
        let end = consequences.iter().find_map(|it| line.find(it))?;
        let start = line.find('/')?;
        Some(line[start..end].to_owned())
    });
    lines.collect()
}

/// What `verify` calls corrupt: the paths, and the same with the file.
fn corrupt(arguments: &[&Path]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(["verify", "-o", "ndjson"])
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let rows = String::from_utf8(output.stdout).unwrap();
    let rows = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|row| row["severity"] == "corrupt");
    rows.flat_map(|row| {
        let path = row["path"].as_str().unwrap().to_owned();
        let file = row["file"].as_str().map(|file| format!("{path}/{file}"));
        [Some(path), file]
    })
    .flatten()
    .collect()
}

/// What keeps a broker from starting is corrupt at the same path, whatever is asked for.
#[test]
fn verify_finds_each_obstacle() {
    let (first, second) = (copy_of("s02-txn-tv2/data"), copy_of("s02-txn-tv2/data"));
    let future = |random: char| {
        let name = format!("tx-2.{}-future", random.to_string().repeat(32));
        fs::rename(second.path().join("tx-2"), second.path().join(&name)).unwrap();
        name
    };
    let one = future('a');
    recover_run::copy(
        &second.path().join(&one),
        &second.path().join(one.replace('a', "b")),
    );
    fs::create_dir(first.path().join("lost+found")).unwrap();
    fs::write(second.path().join("cleaner-offset-checkpoint"), "x").unwrap();
    let (tx, other) = (first.path().join("tx-0"), second.path().join("tx-1"));
    let topic = ["--topic", "tx", "--partition", "0"].map(Path::new);
    let of_topic: Vec<&Path> = topic
        .into_iter()
        .chain([first.path(), second.path()])
        .collect();
    for arguments in [
        vec![first.path(), second.path()],
        vec![tx.as_path(), other.as_path()],
        of_topic,
    ] {
        let obstacles = obstacles(&arguments);
        // A directory, a future replica, an unreadable file, and each partition but that one.
        assert!(obstacles.len() >= 6, "{obstacles:#?}");
        let corrupt = corrupt(&arguments);
        for path in obstacles {
            assert!(corrupt.contains(&path), "{path}: {corrupt:#?}");
        }
    }
}

/// `MetaPropertiesEnsemble.Loader` puts a log directory aside whose `meta.properties` it cannot
/// read, whatever is wrong with it: the broker starts with none of its partitions.
#[test]
fn a_log_directory_whose_owner_cannot_be_read_is_offline() {
    for properties in [
        "version=1\ncluster.id=c\n",
        "version=1\ncluster.id=c\nnode.id=abc\n",
        "version=1\nnode.id=1\n",
        "version=7\ncluster.id=c\nnode.id=1\n",
    ] {
        let data = copy_of("s02-txn-tv2/data");
        fs::write(data.path().join("meta.properties"), properties).unwrap();
        let run = recover(&[data.path().as_os_str()]);
        assert_eq!(run.status, Some(1), "{properties}: {}", run.table);
        let offline = json!("RuntimeException");
        assert!(broker_errors(&run.rows).iter().all(|it| **it == offline));
        let corrupt = corrupt(&[data.path()]);
        let path = data.path().join("meta.properties");
        let told = obstacles(&[data.path()]);
        let path = path.display().to_string();
        assert!(told.contains(&path), "{told:?}");
        assert!(corrupt.contains(&path), "{corrupt:?}");
    }
}

/// The same directory given twice is no second one.
#[test]
fn a_path_given_twice_is_one_log_directory() {
    let data = copy_of("s02-txn-tv2/data");
    let other = data.path().join("tx-0/..");
    let run = recover(&[data.path().as_os_str(), other.as_os_str()]);
    assert_eq!(run.status, Some(0));
}

/// A checkpoint that is not readable takes its log directory offline, once it is loaded.
#[test]
fn an_unreadable_checkpoint_takes_the_log_directory_offline() {
    let data = copy_of("s02-txn-tv2/data");
    fs::write(data.path().join("recovery-point-offset-checkpoint"), "x").unwrap();
    let run = recover(&[data.path().as_os_str()]);
    assert_eq!(run.status, Some(1));
    assert!(run.table.starts_with("the log directory goes offline"));
    assert_eq!(run.rows[0]["brokerError"]["stopsBroker"], json!(false));
}

/// One partition that does not load takes all of its broker down.
#[test]
fn the_others_are_down_when_one_partition_stops_the_broker() {
    let data = copy_of("s02-txn-tv2/data");
    let log = last_log(&data.path().join("tx-1"));
    let mut bytes = fs::read(&log).unwrap();
    // A size field below the least there can be (`FileLogInputStream.nextBatch`).
    bytes.extend([0; 64]);
    fs::write(&log, bytes).unwrap();
    let run = recover(&[
        "--all".as_ref(),
        "--start".as_ref(),
        "clean".as_ref(),
        data.path().as_os_str(),
    ]);
    assert_eq!(run.status, Some(1));
    assert!(
        run.table
            .starts_with("the broker does not start: tx-1 does not come up\n"),
        "{}",
        run.table
    );
    let down = run.table.matches("down: the broker does not start").count();
    assert_eq!(down, run.rows.len() - 1, "{}", run.table);
    let errors = run
        .rows
        .iter()
        .filter(|row| row["error"]["stopsBroker"] == json!(true));
    assert_eq!(errors.count(), 1);
}

/// The notes of a run.
fn notes(arguments: &[&std::ffi::OsStr]) -> Vec<String> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kseg"))
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    let notes = said.lines().filter_map(|line| line.strip_prefix("note: "));
    notes.map(str::to_owned).collect()
}

/// `--as-loaded` says once by which start, and why that one (`LogManager.loadLogs`).
#[test]
fn the_start_that_was_assumed_is_told_once() {
    const HIGH_WATERMARK: &str = "; the high watermark as a leader has raised it";
    let (first, second) = (copy_of("s02-txn-tv2/data"), copy_of("s02-txn-tv2/data"));
    let (clean, unclean) = (first.path(), second.path());
    fs::write(clean.join(".kafka_cleanshutdown"), "").unwrap();
    let _ = fs::remove_file(unclean.join(".kafka_cleanshutdown"));
    let (ls, as_loaded) = ("ls".as_ref(), "--as-loaded".as_ref());
    for command in ["ls", "lso", "txns", "producers", "gaps"] {
        let command = command.as_ref();
        assert_eq!(
            notes(&[command, as_loaded, clean.as_os_str()]),
            [format!(
                "as after a clean start: .kafka_cleanshutdown is there{HIGH_WATERMARK}"
            )]
        );
        assert_eq!(
            notes(&[command, as_loaded, unclean.join("tx-1").as_os_str()]),
            [format!(
                "as after an unclean start: .kafka_cleanshutdown is not there{HIGH_WATERMARK}"
            )]
        );
    }
    let picked = ["--start".as_ref(), "unclean".as_ref()];
    assert_eq!(
        notes(&[ls, as_loaded, picked[0], picked[1], clean.as_os_str()]),
        [format!(
            "as after an unclean start, as --start says{HIGH_WATERMARK}"
        )]
    );
    let both = format!(
        "as after a clean start in {}, where .kafka_cleanshutdown is, and an unclean start in {}, \
         where it is not{HIGH_WATERMARK}",
        clean.display(),
        unclean.display()
    );
    assert_eq!(
        notes(&[ls, as_loaded, clean.as_os_str(), unclean.as_os_str()]),
        [both]
    );
    assert!(notes(&[ls, clean.as_os_str()]).is_empty());
}

/// Two log directories with a partition of the same name are told apart by their paths, and it is
/// said which of them stopped cleanly.
#[test]
fn two_brokers_are_told_apart() {
    let (first, second) = (copy_of("s14-replicas/data"), copy_of("s14-replicas/data-2"));
    let mark = second.path().join(".kafka_cleanshutdown");
    let _ = fs::remove_file(&mark);
    let run = recover(&[
        first.path().as_os_str(),
        second.path().as_os_str(),
        "--all".as_ref(),
    ]);
    for dir in [&first, &second] {
        let partition = dir.path().join("rep-0").display().to_string();
        assert!(run.table.contains(&partition), "{}", run.table);
    }
    let which = format!("unclean start, the one due in {}:", second.path().display());
    assert!(run.table.contains(&which), "{}", run.table);
}

fn last_log(partition: &Path) -> std::path::PathBuf {
    let mut logs: Vec<_> = fs::read_dir(partition)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "log"))
        .collect();
    logs.sort();
    logs.pop().unwrap()
}

fn write_out(from: &Path, out: &Path) -> Option<i32> {
    let mut kseg = Command::new(env!("CARGO_BIN_EXE_kseg"));
    kseg.arg("recover").args(["--start", "clean"]).arg(from);
    kseg.arg("--out").arg(out).output().unwrap().status.code()
}

/// A broker takes the mark of a clean stop away before it loads anything (`LogManager.loadLogs`),
/// so where a partition does not come up there is none.
#[test]
fn what_is_not_whole_has_no_mark_of_a_clean_stop() {
    let (data, to) = (copy_of("s02-txn-tv2/data"), tempfile::tempdir().unwrap());
    let mark = |out: &Path| out.join(".kafka_cleanshutdown").exists();
    let whole = to.path().join("whole");
    assert_eq!(write_out(data.path(), &whole), Some(0));
    assert!(mark(&whole));
    fs::write(data.path().join("tx-1/x.log"), "").unwrap();
    let part = to.path().join("part");
    assert_eq!(write_out(data.path(), &part), Some(2));
    assert!(part.join("tx-0").exists() && !part.join("tx-1").exists());
    assert!(!mark(&part));
    let nothing = to.path().join("nothing");
    assert_eq!(write_out(&data.path().join("nosuch"), &nothing), Some(2));
    assert!(!nothing.exists());
}

/// One line for a partition, that of the future replica (`LogManager.logsByDir`).
#[test]
fn a_future_replica_beside_the_one_in_use_is_the_one_in_checkpoints() {
    let (data, to) = (copy_of("s02-txn-tv2/data"), tempfile::tempdir().unwrap());
    let future = data
        .path()
        .join("tx-1.0123456789abcdef0123456789abcdef-future");
    fs::create_dir(&future).unwrap();
    fs::write(future.join("00000000000000000000.log"), "").unwrap();
    let metadata = "partition.metadata";
    fs::copy(
        data.path().join("tx-1").join(metadata),
        future.join(metadata),
    )
    .unwrap();
    let out = to.path().join("out");
    assert_eq!(write_out(data.path(), &out), Some(0));
    let points = fs::read_to_string(out.join("recovery-point-offset-checkpoint")).unwrap();
    let of_it: Vec<&str> = points
        .lines()
        .filter(|it| it.starts_with("tx 1 "))
        .collect();
    assert_eq!(of_it, ["tx 1 0"]);
}
