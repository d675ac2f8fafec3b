//! What else than a broker's plain files may lie in a log directory: links, pipes, sockets,
//! devices, holes, files of someone else, names of any bytes, very many segments.
//!
//! Every reading command ends, opens no device and waits for no pipe, says what it could not read,
//! and answers for the partitions beside it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/nobody.rs"]
mod nobody;
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

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};
use nobody::{forbid, kseg_in};
use program::Run;
use reading_commands::{ReadingCommand, finish_in_time, reading_commands};

const LOG: &str = "00000000000000000000.log";

/// A log directory with a sound partition `tx-0` and others beside it.
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
        logs.partition("tx-0");
        logs
    }

    /// A copy of a sound partition.
    fn partition(&self, name: impl AsRef<Path>) -> PathBuf {
        let dir = self.root.join(name);
        fs::create_dir(&dir).unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/s02-txn-tv2/data/tx-0");
        for entry in fs::read_dir(fixture).unwrap() {
            let from = entry.unwrap().path();
            fs::copy(&from, dir.join(from.file_name().unwrap())).unwrap();
        }
        dir
    }

    /// Runs every command on the log directory; each answers as it does for `tx-0` alone.
    fn every_command(&self, mut check: impl FnMut(&ReadingCommand, &Run)) {
        for command in reading_commands() {
            if command.takes_partition {
                continue;
            }
            let run = command.run(&self.root, self.scratch.path());
            // Where nothing is found in a partition a table only counts it.
            let answers = ["tx-0", "\"topic\":\"tx\"", " partition", " files)"];
            assert!(
                command.tells_faults_only()
                    || answers.iter().any(|answer| run.stdout.contains(answer)),
                "{command}: {run:?}"
            );
            check(&command, &run);
        }
    }
}

/// Puts something else in the place of a file.
fn replace(path: &Path, make: impl FnOnce(&Path)) {
    fs::remove_file(path).unwrap();
    make(path);
}

fn make_fifo(path: &Path) {
    let status = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(status.success());
}

#[test]
fn pipes_sockets_devices_and_links_to_them_are_named_and_never_opened() {
    type Make = dyn Fn(&Path, &mut Vec<UnixListener>);
    let logs = Logs::new();
    let mut sockets = Vec::new();
    let makes: [(&str, &Make); 4] = [
        ("pipe-0", &|path, _| make_fifo(path)),
        ("socket-0", &|path, sockets| {
            sockets.push(UnixListener::bind(path).unwrap());
        }),
        ("device-0", &|path, _| symlink("/dev/zero", path).unwrap()),
        ("terminal-0", &|path, _| symlink("/dev/tty", path).unwrap()),
    ];
    for (name, make) in makes {
        let dir = logs.partition(name);
        for entry in fs::read_dir(&dir).unwrap() {
            replace(&entry.unwrap().path(), |path| make(path, &mut sockets));
        }
    }
    let whats = ["a named pipe", "a socket", "a device", "a device"];
    logs.every_command(|command, run| {
        let said = [&run.stdout[..], &run.stderr].concat();
        for ((name, _), what) in makes.iter().zip(whats) {
            assert!(
                said.contains(name) && said.contains(what),
                "{command}: {name}: {said}"
            );
        }
        assert_ne!(run.status, 2, "{command}: {run:?}");
    });
    for name in ["replication-offset-checkpoint", "meta.properties"] {
        make_fifo(&logs.root.join(name));
    }
    logs.every_command(|command, run| {
        let told = [&run.stdout[..], &run.stderr].concat();
        for name in ["replication-offset-checkpoint", "meta.properties"] {
            assert!(told.contains(name), "{command}: {told}");
        }
        assert_ne!(run.status, 2, "{command}: {run:?}");
    });
    // Named itself.
    for name in makes.map(|(name, _)| name) {
        for command in reading_commands() {
            let run = command.run(&logs.root.join(name).join(LOG), logs.scratch.path());
            assert_eq!(run.status, 2, "{command}: {run:?}");
        }
    }
}

#[test]
fn links_are_followed_and_loops_are_told() {
    let logs = Logs::new();
    let elsewhere = logs.scratch.path().join("elsewhere");
    fs::rename(logs.partition("away-0"), &elsewhere).unwrap();
    symlink(&elsewhere, logs.root.join("linked-0")).unwrap();
    let files = logs.partition("files-0");
    replace(&files.join(LOG), |path| {
        symlink(elsewhere.join(LOG), path).unwrap();
    });
    let looping = logs.partition("looping-0");
    for entry in fs::read_dir(&looping).unwrap() {
        replace(&entry.unwrap().path(), |path| symlink(path, path).unwrap());
    }
    symlink(logs.root.join("circle-0"), logs.root.join("circle-0")).unwrap();
    symlink(&logs.root, logs.root.join("itself-0")).unwrap();
    let dangling = logs.partition("dangling-0");
    replace(&dangling.join(LOG), |path| {
        symlink("nowhere", path).unwrap()
    });
    logs.every_command(|command, run| {
        let said = [&run.stdout[..], &run.stderr].concat();
        for name in ["linked", "files"] {
            let answers = [name, " partitions", " files)"];
            let is_told = answers.iter().any(|answer| said.contains(answer));
            assert!(
                is_told || command.tells_faults_only(),
                "{command}: {name}: {run:?}"
            );
        }
        assert!(said.contains("looping-0"), "{command}: {said}");
    });
}

/// A broker names a partition by the directory it finds, link or not.
#[test]
fn a_link_to_a_partition_of_another_name_is_a_partition_of_its_own_name() {
    let logs = Logs::new();
    let elsewhere = logs.scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::rename(logs.partition("away-0"), elsewhere.join("tx-0")).unwrap();
    symlink(elsewhere.join("tx-0"), logs.root.join("linked-0")).unwrap();
    for command in ["rebuild", "recover"] {
        let out = logs.scratch.path().join(command);
        let mut kseg = kseg_in(logs.scratch.path());
        kseg.args([command, "--out"]).arg(&out).arg(&logs.root);
        let run = finish_in_time(&mut kseg, logs.scratch.path());
        assert_ne!(run.status, 2, "{command}: {run:?}");
        for name in ["tx-0", "linked-0"] {
            assert!(out.join(name).is_dir(), "{command}: {name}");
        }
    }
}

/// A hole has no blocks on the disk, but bytes: all of them zero.
#[test]
fn holes_of_gigabytes_are_passed_over() {
    let logs = Logs::new();
    let dir = logs.partition("sparse-0");
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let file = File::options().write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        let hole = if path.ends_with(LOG) {
            (2 << 30) + 1
        } else {
            1 << 20
        };
        file.set_len(len + hole).unwrap();
        file.write_at(b"x", len + hole - 1).unwrap();
    }
    for command in reading_commands() {
        // Each reads the gigabytes; one form of output is enough.
        if !command.takes_partition && !command.to_string().contains("-o ") {
            let run = command.run(&logs.root, logs.scratch.path());
            assert!(run.stderr.len() < 10_000, "{command}: {}", run.stderr);
        }
    }
}

#[test]
fn files_without_permission_are_named_and_the_others_are_read() {
    let logs = Logs::new();
    let (file, dir) = (logs.partition("file-0"), logs.partition("folder-0"));
    for entry in fs::read_dir(&file).unwrap() {
        forbid(&entry.unwrap().path());
    }
    forbid(&dir);
    fs::set_permissions(&logs.root, Permissions::from_mode(0o777)).unwrap();
    for arguments in [
        &["ls"][..],
        &["dump"],
        &["read", "-o", "ndjson"],
        &["producers"],
        &["replay"],
        &["gaps"],
        &["txns"],
        &["aborted"],
        &["lso"],
        &["verify"],
        &["recover"],
    ] {
        let mut command = kseg_in(logs.scratch.path());
        command.args(arguments).arg(&logs.root);
        let run = finish_in_time(&mut command, logs.scratch.path());
        assert_eq!(run.status, 2, "{arguments:?}: {run:?}");
        for name in ["file-0", "folder-0"] {
            assert!(
                run.stderr.contains(name) && run.stderr.contains("permission denied"),
                "{arguments:?}: {run:?}"
            );
        }
        // A table of what is wrong only counts what is not.
        let is_answered = ["tx", "partition", " files)"]
            .iter()
            .any(|answer| run.stdout.contains(answer));
        assert!(is_answered, "{arguments:?}: {run:?}");
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn names_of_any_bytes_and_any_length_are_no_trouble() {
    let logs = Logs::new();
    let bytes = |name: &[u8]| OsString::from_vec(name.to_vec());
    let longest = format!("{}-0", "t".repeat(249));
    let mut dirs = vec![
        bytes(b"caf\xe9-0"),
        bytes(b"\xff\xfe"),
        bytes(b"new\nline-0"),
        bytes(b"\x1b[31mred-0"),
        longest.into(),
        "x-2147483647".into(),
        "x-99999999999999999999".into(),
        "x--1".into(),
        "-0".into(),
    ];
    dirs.push("n".repeat(255).into());
    let source = logs.root.join("tx-0").join(LOG);
    let files: Vec<OsString> = vec![
        bytes(b"\xff\xfe.log"),
        "99999999999999999999.log".into(),
        "09223372036854775807.log".into(),
        "9223372036854775807.log".into(),
        "09223372036854775808.log".into(),
        "-0000000000000000001.log".into(),
        "0.log".into(),
        ".log".into(),
        format!("{}.log", "0".repeat(251)).into(),
        "09223372036854775807.snapshot".into(),
        "09223372036854775807.txnindex".into(),
        "09223372036854775807.index".into(),
    ];
    for name in dirs {
        let dir = logs.partition(Path::new(&name));
        for file in &files {
            fs::copy(&source, dir.join(file)).unwrap();
        }
    }
    fs::write(logs.root.join(OsStr::from_bytes(b"\xe9.txt")), "").unwrap();
    logs.every_command(|command, run| {
        let is_plain = |text: &str| !text.contains('\x1b') && !text.contains("new\nline");
        assert!(is_plain(&run.stderr), "{command}: {:?}", run.stderr);
        assert!(is_plain(&run.stdout), "{command}");
    });
    let dir = logs.root.join(OsStr::from_bytes(b"caf\xe9-0"));
    for command in reading_commands() {
        let _ = command.run(&dir, logs.scratch.path());
    }
}

/// Memory and open files do not grow with the segments: the program may open 64 files and use
/// 2 GiB of addresses. `KSEG_SEGMENTS=100000` takes more of them.
#[test]
fn very_many_segments_need_neither_memory_nor_open_files() {
    let segments = std::env::var("KSEG_SEGMENTS").ok();
    let segments = segments.and_then(|it| it.parse().ok()).unwrap_or(300_u64);
    let logs = Logs::new();
    let mut batch = Vec::new();
    let mut builder = RecordBatchBuilder::new(BatchSettings {
        partition_leader_epoch: 0,
        ..BatchSettings::default()
    })
    .unwrap();
    builder.append(&SimpleRecord::default()).unwrap();
    builder.build(&mut batch).unwrap();
    let dir = logs.root.join("many-0");
    fs::create_dir(&dir).unwrap();
    for segment in 0..segments {
        let base_offset = segment;
        let mut bytes = batch.clone();
        // Offsets lie outside the checksum.
        bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
        fs::write(dir.join(format!("{base_offset:020}.log")), bytes).unwrap();
    }
    for command in reading_commands() {
        let path = if command.takes_partition {
            &dir
        } else {
            &logs.root
        };
        let shell = "ulimit -n 64; ulimit -v 2097152; exec \"$@\"";
        let limited = command.run_through(&["sh", "-c", shell, "sh"], path, logs.scratch.path());
        let what = format!("{command}: {} {}", limited.status, limited.stderr);
        assert!(!limited.stderr.contains("too many"), "{what}");
        assert!(limited.status < 2, "{what}");
    }
}
