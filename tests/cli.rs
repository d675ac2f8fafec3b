//! The program from outside: status, streams, odd files, and the promise to change nothing.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test stops where something is not as it must be, and says what it could not test"
)]

#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use program::{finish, kseg, run};

const LOG: &str = "00000000000000000000.log";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// The bytes of a segment of a fixture.
fn segment() -> Vec<u8> {
    fs::read(fixtures().join("incidents/bad-crc/data/orders-0/00000000000000000011.log")).unwrap()
}

/// A folder with the partition `orders-0` in it, one good segment in that.
fn partition() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let partition = dir.path().join("orders-0");
    fs::create_dir(&partition).unwrap();
    fs::write(partition.join(LOG), segment()).unwrap();
    (dir, partition)
}

// Pipes.

/// `kseg dump DIR | head -1`: more is left to print than a pipe and all buffers hold.
#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let (dir, partition) = partition();
    let long = segment().repeat(20_000);
    fs::write(partition.join(LOG), long).unwrap();
    for arguments in [
        &["dump", "orders-0"][..],
        &["dump", "-o", "json", "orders-0"],
        &["dump", "-o", "ndjson", "--headers-only", "orders-0"],
    ] {
        let mut child = kseg(dir.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert!(!line.is_empty(), "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn closed_streams_are_no_reason_to_panic() {
    let program = env!("CARGO_BIN_EXE_kseg");
    for (command, status) in [("ls", 0), ("--help", 0), ("lst", 2), ("ls no-such", 2)] {
        let line = format!("exec {program} {command} . 2>&- >&-");
        let (_dir, partition) = partition();
        let line = line.replace("--help .", "--help");
        let output = Command::new("sh")
            .arg("-c")
            .arg(line)
            .current_dir(partition)
            .output();
        let output = output.unwrap();
        let code = output.status.code();
        assert!(
            code == Some(status) || code == Some(2),
            "{command}: {:?}",
            output.status
        );
    }
}

#[test]
fn json_documents_parse_whatever_was_found() {
    for path in ["incidents", "s10-legacy-1.1.1"] {
        for entry in fs::read_dir(fixtures().join(path)).unwrap() {
            let data = entry.unwrap().path().join("data");
            if !data.is_dir() {
                continue;
            }
            for command in ["ls", "dump"] {
                let output = run(&data, [command, "-o", "json", "."]);
                let document: serde_json::Value = serde_json::from_str(&output.stdout)
                    .unwrap_or_else(|error| panic!("{command} {}: {error}", data.display()));
                assert_eq!(document["schema"], format!("kseg/{command}/v1"));
                let lines = run(&data, [command, "-o", "ndjson", "."]);
                let rows = lines
                    .stdout
                    .lines()
                    .map(|line| serde_json::from_str(line).unwrap());
                let rows: Vec<serde_json::Value> = rows.collect();
                assert_eq!(document["results"], serde_json::Value::Array(rows));
                assert_eq!(output.status, lines.status);
            }
        }
    }
}

// Colour and width.

#[test]
fn colour_is_for_terminals_and_for_who_asks() {
    let data = fixtures().join("incidents/bad-crc/data");
    let colored = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command = kseg(&data);
        command
            .args(["dump", "."])
            .args(arguments)
            .envs(variables.iter().copied());
        finish(&mut command).stdout.contains('\u{1b}')
    };
    assert!(!colored(&[], &[]), "piped");
    assert!(colored(&[("CLICOLOR_FORCE", "1")], &[]));
    assert!(colored(&[], &["--color", "always"]));
    assert!(
        colored(&[("NO_COLOR", "1")], &["--color", "always"]),
        "asked for here and now"
    );
    assert!(!colored(&[("CLICOLOR_FORCE", "1")], &["--color", "never"]));
    assert!(!colored(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], &[]));
    assert!(!colored(
        &[("TERM", "xterm-256color")],
        &["--color", "auto"]
    ));
}

/// `script` gives the program a terminal.
#[test]
fn a_terminal_gets_colour_unless_no_color_is_set() {
    let data = fixtures().join("incidents/bad-crc/data");
    let on_terminal = |setting: &str| {
        let program = env!("CARGO_BIN_EXE_kseg");
        let line = format!("env -i TERM=xterm {setting} {program} dump .");
        let mut script = Command::new("script");
        script
            .args(["-qec", &line, "/dev/null"])
            .current_dir(&data)
            .stdin(Stdio::null());
        script
            .output()
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(plain) = on_terminal("") else {
        eprintln!("SKIPPED: no `script` here, so nothing was tried on a terminal");
        return;
    };
    assert!(plain.contains('\u{1b}'), "{plain}");
    assert!(!on_terminal("NO_COLOR=1").unwrap().contains('\u{1b}'));
}

#[test]
fn colour_changes_no_letter() {
    let data = fixtures().join("incidents/bad-crc/data");
    for command in ["ls", "dump"] {
        let plain = run(&data, [command, "."]).stdout;
        let coloured = run(&data, [command, "--color", "always", "."]).stdout;
        let stripped = anstream::adapter::strip_str(&coloured).to_string();
        assert_eq!(stripped, plain, "{command}");
    }
}

#[test]
fn columns_bounds_the_width_unless_the_least_columns_need_more() {
    let data = fixtures().join("s02-txn-tv2/data");
    for columns in [80, 100, 132, 200] {
        for command in ["ls", "dump"] {
            let mut command_line = kseg(&data);
            command_line
                .env("COLUMNS", columns.to_string())
                .args([command, "tx-0"]);
            let output = finish(&mut command_line).stdout;
            let widest = output
                .lines()
                .map(|line| line.chars().count())
                .max()
                .unwrap();
            // A heading may be any path; a row of `dump` may be pushed out by a long value.
            assert!(widest <= columns, "{command} at {columns}: {widest}");
        }
    }
    for odd in ["0", "", "wide", "-1", "99999999999999999999"] {
        let mut command = kseg(&data);
        command.env("COLUMNS", odd).args(["ls", "."]);
        assert_eq!(
            finish(&mut command),
            run(&data, ["ls", "."]),
            "COLUMNS={odd}"
        );
    }
}

/// Only what is to be pasted is longer than the terminal is wide.
#[test]
fn answers_fit_eighty_columns() {
    const COMMANDS: [&str; 14] = [
        "ls --segments",
        "producers",
        "producers --from-scratch",
        "producers --snapshots",
        "producers --stats",
        "replay",
        "gaps --all",
        "txns",
        "aborted",
        "aborted --stats",
        "lso --all",
        "verify",
        "recover",
        "read --count",
    ];
    for fixture in [
        "s02-txn-tv2/data",
        "s04-read-process-write/data",
        "s07g-zeroed-tail/data",
        "s07i-corrupt-snapshot/data",
        "incidents/abort-marker-cleaned-away/data",
        "incidents/client-skipped-a-sequence/data",
        "incidents/coordinator-epoch-goes-back/data",
        "incidents/gap-classes/data",
        "incidents/transaction-only-in-snapshot/data",
        "incidents/txnindex-missing/data",
    ] {
        let data = fixtures().join(fixture);
        for command in COMMANDS {
            let mut command_line = kseg(&data);
            command_line
                .env("COLUMNS", "80")
                .args(command.split(' '))
                .arg(".");
            let output = finish(&mut command_line).stdout;
            assert!(!output.is_empty(), "{fixture}: {command}");
            for line in output.lines() {
                let is_to_be_pasted =
                    line.contains("kafka-transactions.sh") || line.starts_with("  # ");
                assert!(
                    line.chars().count() <= 80 || is_to_be_pasted,
                    "{fixture}: {command}: {line}"
                );
            }
        }
    }
}

// Status.

#[test]
fn the_status_says_whether_something_was_found_or_could_not_be_done() {
    let folder = fixtures();
    for (status, arguments) in [
        (0, "ls s02-txn-tv2/data"),
        (0, "dump s02-txn-tv2/data"),
        (0, "dump incidents/zero-tail/data"),
        (0, "schema ls"),
        (0, "completions bash"),
        (0, "--version"),
        (1, "dump incidents/bad-crc/data"),
        (0, "dump --headers-only incidents/bad-crc/data"),
        (1, "dump incidents/torn-tail/data"),
        (1, "dump --headers-only incidents/torn-tail/data"),
        (1, "dump incidents/unreadable-snapshots/data"),
        (2, "dump incidents/bad-crc/data no-such"),
        (2, "ls"),
        (2, "no-such-command"),
        (2, "dump README.md"),
        (2, "ls --topic none s02-txn-tv2/data"),
    ] {
        let run = run(&folder, arguments.split(' '));
        assert_eq!(run.status, status, "{arguments}: {}", run.stderr);
    }
}

// Bad input.

#[test]
fn an_empty_file_has_no_rows() {
    let (dir, partition) = partition();
    for name in [
        LOG,
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
    ] {
        fs::write(partition.join(name), b"").unwrap();
    }
    kseg(dir.path())
        .args(["dump", "orders-0"])
        .assert()
        .code(0)
        .stdout(contains("no rows").count(3))
        .stderr(is_empty());
    kseg(dir.path())
        .args(["ls", "orders-0"])
        .assert()
        .code(0)
        .stderr(is_empty());
}

#[test]
fn an_empty_side_file_that_needs_content_is_a_finding() {
    for name in [
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
    ] {
        for content in [&b""[..], b"x", &[0; 100]] {
            // Kafka reads an empty checkpoint as one without lines (`CheckpointFile#read`).
            if name == "leader-epoch-checkpoint" && content.is_empty() {
                continue;
            }
            let (dir, partition) = partition();
            fs::write(partition.join(name), content).unwrap();
            kseg(dir.path())
                .args(["dump", "orders-0"])
                .assert()
                .code(1)
                .stdout(contains("undecodable"))
                .stderr(is_empty());
        }
    }
}

#[test]
fn random_bytes_and_single_bytes_are_findings_in_every_kind_of_file() {
    let noise: Vec<u8> = (0..5000_u32)
        .map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[1])
        .collect();
    for content in [&b"\x07"[..], &noise] {
        for name in [
            LOG,
            "00000000000000000000.index",
            "00000000000000000000.timeindex",
            "00000000000000000000.txnindex",
            "00000000000000000000.snapshot",
            "00000000000000000000-0000000000.checkpoint",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "quorum-state",
        ] {
            // Not a multiple of an entry's size, so that an index ends in half an entry.
            let size = content.len().min(4999);
            let (dir, partition) = partition();
            fs::remove_file(partition.join(LOG)).unwrap();
            fs::write(partition.join(name), &content[..size]).unwrap();
            for format in ["table", "json", "ndjson"] {
                let run = run(dir.path(), ["dump", "-o", format, "orders-0"]);
                assert_eq!(run.status, 1, "{name}: {}", run.stdout);
                assert_eq!(run.stderr, "", "{name}");
            }
            assert_eq!(
                run(dir.path(), ["ls", "--files", "orders-0"]).status,
                0,
                "{name}"
            );
        }
    }
}

#[test]
fn a_damaged_checkpoint_counts_as_not_there_and_is_said() {
    let (dir, _partition) = partition();
    fs::write(dir.path().join("replication-offset-checkpoint"), b"0\n7\n").unwrap();
    kseg(dir.path())
        .args(["ls", "."])
        .assert()
        .code(0)
        .stdout(contains("orders-0"))
        .stderr(contains("warning: ").and(contains("taken as not there")));
}

#[test]
fn a_directory_in_place_of_a_file_is_passed_over_and_said() {
    let (dir, partition) = partition();
    fs::create_dir(partition.join("00000000000000000007.log")).unwrap();
    fs::create_dir(partition.join("00000000000000000000.index")).unwrap();
    kseg(dir.path())
        .args(["dump", "orders-0"])
        .assert()
        .code(0)
        .stdout(contains(LOG))
        .stderr(
            "warning: orders-0/00000000000000000000.index: a directory; a broker fails when it \
             comes to open it, and the log directory goes offline\n\
             warning: orders-0/00000000000000000007.log: a directory; a broker passes over it\n",
        );
    // Named itself, it is a directory without anything of Kafka's in it.
    kseg(&partition)
        .args(["dump", "00000000000000000007.log"])
        .assert()
        .code(2)
        .stdout(is_empty())
        .stderr(contains(
            "holds neither segment files nor partition directories",
        ));
}

#[test]
fn an_empty_directory_holds_nothing_of_kafkas() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["ls", "dump"] {
        kseg(dir.path())
            .args([command, "."])
            .assert()
            .code(2)
            .stdout(is_empty())
            .stderr(contains("kseg: .: holds neither"));
    }
}

/// Runs the program as a user who may not read everything; `None` if this machine cannot.
fn unprivileged(folder: &Path, arguments: &[&str]) -> Option<program::Run> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0);
    let program = env!("CARGO_BIN_EXE_kseg");
    if !is_root {
        return Some(run(folder, arguments));
    }
    // The program may lie where only root gets: nobody runs a copy beside the files.
    let copy = folder.join("kseg");
    fs::copy(program, &copy).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(arguments)
        .current_dir(folder)
        .env_clear();
    command.output().ok()?;
    let run = finish(&mut command);
    fs::remove_file(copy).unwrap();
    Some(run)
}

#[test]
fn an_unreadable_file_among_others_does_not_end_the_run() {
    let (dir, partition) = partition();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let locked = partition.join("00000000000000000015.log");
    fs::write(&locked, segment()).unwrap();
    fs::write(partition.join("00000000000000000020.log"), segment()).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    let Some(dump) = unprivileged(dir.path(), &["dump", "-o", "ndjson", "orders-0"]) else {
        eprintln!("SKIPPED: root may read everything and there is no `setpriv` here");
        return;
    };
    assert_eq!(dump.status, 2);
    assert_eq!(
        dump.stderr,
        "kseg: orders-0/00000000000000000015.log: permission denied\n\
         hint: run as the user who owns the broker's files; reading is enough\n"
    );
    let lines = |name: &str| {
        dump.stdout
            .lines()
            .filter(|line| line.contains(name))
            .count()
    };
    assert!(lines(LOG) > 0);
    assert_eq!(lines("00000000000000000015.log"), 0);
    assert_eq!(lines(LOG), lines("00000000000000000020.log"));

    fs::set_permissions(&partition, fs::Permissions::from_mode(0o000)).unwrap();
    let ls = unprivileged(dir.path(), &["ls", "orders-0"]).unwrap();
    fs::set_permissions(&partition, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(ls.status, 2);
    assert!(
        ls.stderr.starts_with("kseg: orders-0: permission denied\n"),
        "{}",
        ls.stderr
    );
}

#[test]
fn a_link_in_a_circle_is_passed_over_and_said() {
    let (dir, partition) = partition();
    symlink(
        "00000000000000000009.log",
        partition.join("00000000000000000009.log"),
    )
    .unwrap();
    kseg(dir.path())
        .args(["dump", "orders-0"])
        .assert()
        .code(0)
        .stdout(contains(LOG))
        .stderr(
            "warning: orders-0/00000000000000000009.log: a link that leads back to itself; \
             a broker passes over it\n",
        );
}

#[test]
fn a_link_to_nothing_is_passed_over_and_said() {
    let (dir, partition) = partition();
    symlink("gone", partition.join("00000000000000000009.log")).unwrap();
    for command in ["ls", "dump"] {
        kseg(dir.path())
            .args([command, "orders-0"])
            .assert()
            .code(0)
            .stdout(contains("orders-0"))
            .stderr(
                "warning: orders-0/00000000000000000009.log: a link to nothing; \
                 a broker passes over it\n",
            );
    }
    kseg(&partition)
        .args(["dump", "00000000000000000009.log"])
        .assert()
        .code(2)
        .stderr(contains("no such file or directory"));
}

#[test]
fn a_link_to_a_segment_is_read() {
    let (dir, partition) = partition();
    symlink(LOG, partition.join("00000000000000000009.log")).unwrap();
    let run = run(dir.path(), ["dump", "orders-0"]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.contains("orders-0/00000000000000000009.log\n"));
}

/// What is no regular file must neither be waited for nor read without end.
#[test]
fn pipes_and_devices_are_no_files() {
    let (dir, partition) = partition();
    let fifo = partition.join("00000000000000000005.log");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    symlink("/dev/zero", partition.join("00000000000000000006.log")).unwrap();
    symlink("/dev/null", partition.join("00000000000000000007.index")).unwrap();
    let _socket =
        std::os::unix::net::UnixListener::bind(partition.join("00000000000000000008.log")).unwrap();
    let dump = run(dir.path(), ["dump", "orders-0"]);
    assert_eq!(dump.status, 0, "{}", dump.stderr);
    assert!(dump.stdout.contains(LOG));
    for (name, what) in [
        ("5.log", "a named pipe; a broker passes over it"),
        ("6.log", "a device; a broker passes over it"),
        (
            "7.index",
            "a device; a broker fails when it comes to open it",
        ),
        ("8.log", "a socket; a broker passes over it"),
    ] {
        let line = format!("warning: orders-0/0000000000000000000{name}: {what}");
        assert!(dump.stderr.contains(&line), "{}", dump.stderr);
    }
    // Named itself it is asked for.
    let named = run(&partition, ["dump", "00000000000000000005.log"]);
    assert_eq!(named.status, 2);
    assert!(
        named.stderr.contains("not a regular file"),
        "{}",
        named.stderr
    );
    let ls = run(dir.path(), ["ls", "."]);
    assert_eq!(ls.status, 0, "{}", ls.stderr);
}

// Names.

#[test]
fn files_are_opened_by_their_real_names() {
    let dir = tempfile::tempdir().unwrap();
    let odd = OsStr::from_bytes(b"disk-\xff\xfe");
    let partition = dir.path().join(odd).join("orders-0");
    fs::create_dir_all(&partition).unwrap();
    fs::write(partition.join(LOG), segment()).unwrap();
    let odd_topic = dir.path().join(odd).join(OsStr::from_bytes(b"caf\xe9-3"));
    fs::create_dir(&odd_topic).unwrap();
    fs::write(odd_topic.join(LOG), segment()).unwrap();
    for command in ["ls", "dump"] {
        let run = run(
            dir.path(),
            [
                OsStr::new(command),
                OsStr::new("-o"),
                OsStr::new("json"),
                odd,
            ],
        );
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{command}");
        let rows: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        let topics = rows["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["topic"].clone());
        let topics: Vec<_> = topics.collect();
        assert!(topics.contains(&"orders".into()), "{topics:?}");
        // No topic of Kafka's has such a name; the directory is listed by its path.
        assert!(topics.contains(&serde_json::Value::Null), "{topics:?}");
    }
    let file = partition.join(LOG);
    assert_eq!(
        run(dir.path(), [OsStr::new("dump"), file.as_os_str()]).status,
        0
    );
}

#[test]
fn names_do_not_reach_the_terminal_raw() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "x\u{1b}[31m\n-0";
    let partition = dir.path().join(evil);
    fs::create_dir(&partition).unwrap();
    fs::write(partition.join(LOG), [segment(), vec![1; 100]].concat()).unwrap();
    symlink("gone", partition.join("00000000000000000009.log")).unwrap();
    for arguments in [
        ["ls", "."],
        ["ls", evil],
        ["dump", evil],
        ["dump", "no\u{1b}[31m-such"],
    ] {
        let run = run(dir.path(), arguments);
        assert!(
            !run.stdout.contains('\u{1b}'),
            "{arguments:?}: {}",
            run.stdout
        );
        assert!(
            !run.stderr.contains('\u{1b}'),
            "{arguments:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_log_directory_may_have_a_partitions_name() {
    let (dir, partition) = partition();
    let disk = dir.path().join("kafka-logs-1");
    fs::create_dir(&disk).unwrap();
    fs::rename(&partition, disk.join("orders-0")).unwrap();
    let inside = run(dir.path(), ["ls", "-o", "ndjson", "kafka-logs-1"]);
    let row: serde_json::Value = serde_json::from_str(&inside.stdout).unwrap();
    assert_eq!(row["topic"], "orders");
    assert_eq!(row["path"], "kafka-logs-1/orders-0");
}

#[test]
fn a_partition_may_be_the_current_directory() {
    let (dir, partition) = partition();
    fs::write(
        dir.path().join("replication-offset-checkpoint"),
        "0\n1\norders 0 2\n",
    )
    .unwrap();
    for path in [".", "../orders-0", "./", ".."] {
        let output = run(&partition, ["ls", "-o", "ndjson", path]);
        let row: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(row["topic"], "orders", "{path}");
        assert_eq!(row["partition"], 0, "{path}");
        assert_eq!(row["status"], "live", "{path}");
        assert_eq!(row["highWatermark"], 2, "{path}");
        let rows = run(&partition, ["dump", "-o", "ndjson", path]).stdout;
        let row: serde_json::Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
        assert_eq!(row["topic"], "orders", "{path}");
    }
    let row = run(&partition, ["dump", "-o", "ndjson", LOG]).stdout;
    assert!(row.contains(r#""topic":"orders","partition":0"#), "{row}");
}

// Promises about every fixture.

/// Folders that a broker, or a person, might give: log directories and what was beside them.
fn log_dirs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![fixtures()];
    while let Some(folder) = folders.pop() {
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap());
        let folders_inside = names.filter(|entry| entry.file_type().unwrap().is_dir());
        for entry in folders_inside {
            let name = entry.file_name().into_string().unwrap();
            if name.starts_with("data") || name == "recovered" || name == "undamaged" {
                found.push(entry.path());
            } else if name != "expected" {
                folders.push(entry.path());
            }
        }
    }
    found.sort();
    assert!(found.len() > 60, "{}", found.len());
    found
}

#[test]
fn mapped_and_read_files_give_the_same_bytes() {
    for data in log_dirs() {
        for arguments in [
            &["ls", "-o", "json", "--segments", "--files", "."][..],
            &["dump", "-o", "ndjson", "."],
            &["dump", "--headers-only", "."],
        ] {
            let with = |io: &str| run(&data, arguments.iter().chain(&["--io", io]));
            assert_eq!(
                with("mmap"),
                with("read"),
                "{arguments:?} {}",
                data.display()
            );
        }
    }
}

/// Everything that can be seen of a tree without touching it.
fn evidence(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, i64, i64, u32)> {
    let mut seen = BTreeMap::new();
    let mut paths = vec![folder.to_owned()];
    while let Some(path) = paths.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            paths.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        // Listing a directory is reading it, here as well: its access time is not evidence.
        let is_file = metadata.is_file();
        let accessed = if is_file {
            metadata.atime_nsec() + metadata.atime()
        } else {
            0
        };
        let facts = (
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime_nsec(),
            accessed,
            metadata.mode(),
        );
        seen.insert(path, facts);
    }
    seen
}

/// kafka-dump-log cuts an index that is not a multiple of its entry's size; kseg changes nothing.
#[test]
fn evidence_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "incidents/damaged-indexes",
        "incidents/torn-tail",
        "s07f-truncated-index",
    ] {
        let copy = dir.path().join(name.replace('/', "-"));
        let copied = Command::new("cp")
            .args(["-r", "--"])
            .arg(fixtures().join(name).join("data"))
            .arg(&copy)
            .status();
        assert!(copied.unwrap().success());
        // Access times older than the last write, which a plain open would move under relatime.
        let old = Command::new("find")
            .arg(&copy)
            .args(["-type", "f", "-exec"])
            .args(["touch", "-a", "-d", "2020-01-01", "{}", "+"])
            .status();
        assert!(old.unwrap().success());
        let before = evidence(&copy);
        for io in ["mmap", "read"] {
            for command in ["ls", "dump"] {
                let _ = run(&copy, [command, "--io", io, "."]);
            }
            let _ = run(&copy, ["ls", "--segments", "--files", "--io", io, "."]);
        }
        assert_eq!(evidence(&copy), before, "{name}");
    }
}

// Partitions without a segment, and numbers below zero.

const PARTITION_COMMANDS: [&str; 7] = [
    "lso",
    "txns",
    "producers",
    "aborted",
    "read",
    "gaps",
    "replay",
];

#[test]
fn an_empty_partition_directory_is_said_to_be_empty() {
    let (dir, _) = partition();
    let empty = dir.path().join("payments-3");
    fs::create_dir(&empty).unwrap();
    let line = "payments-3: empty, no .log in use in it\n";
    for command in PARTITION_COMMANDS {
        // Alone it is the answer; beside others a note, said once.
        let alone = run(dir.path(), [command, "payments-3"]);
        let answer = (alone.status, alone.stdout.as_str(), alone.stderr.as_str());
        assert_eq!(answer, (0, line, ""), "{command}");
        let json = run(dir.path(), [command, "-o", "ndjson", "payments-3"]);
        assert_eq!(json.stdout, "", "{command}");
        assert!(json.stderr.contains(line), "{command}: {}", json.stderr);
        let both = run(dir.path(), [command, "."]);
        assert_eq!(
            both.stderr.matches(line).count(),
            1,
            "{command}: {}",
            both.stderr
        );
        assert!(
            !both.stdout.contains("payments-3"),
            "{command}: {}",
            both.stdout
        );
        assert!(!both.stdout.is_empty(), "{command}");
    }
}

#[test]
fn numbers_and_times_may_be_negative() {
    let (dir, _) = partition();
    for option in ["--from-offset", "--producer-id", "--from-time", "--to-time"] {
        let separate = run(dir.path(), ["dump", option, "-5", "orders-0"]);
        let joined = run(dir.path(), ["dump", &format!("{option}=-5"), "orders-0"]);
        assert_eq!(separate.stderr, "", "{option}");
        assert_eq!(separate, joined, "{option}");
    }
    for command in ["lso", "txns", "producers", "aborted"] {
        let separate = run(dir.path(), [command, "--now", "-5", "orders-0"]);
        assert_eq!(
            (separate.status, separate.stderr.as_str()),
            (0, ""),
            "{command}"
        );
    }
}

/// A broker keeps the high watermark between log start and log end.
#[test]
fn a_high_watermark_outside_of_the_log_is_told_and_a_negative_one_refused() {
    let (dir, partition) = partition();
    let lso = |value: &str| {
        let arguments = [
            OsStr::new("lso"),
            OsStr::new("--all"),
            OsStr::new("--high-watermark"),
        ];
        let mut command = kseg(dir.path());
        command.args(arguments).arg(value).arg(&partition);
        command.assert()
    };
    lso("-1").failure().code(2);
    lso("5000")
        .success()
        .stdout(contains("brought to the log start or log end"));
    lso("12")
        .success()
        .stdout(contains("as given").and(contains("brought to").not()));
}
