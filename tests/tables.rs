//! What tables say beside their rows: first lines, names of partitions, folded runs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/folders.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod folders;
#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use program::{Run, finish, kseg, run};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(path)
}

/// A partition that does not come up is not one in which nothing was lost.
#[test]
fn a_first_line_says_that_a_partition_did_not_load() {
    let copy = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("incidents/zero-tail/data/orders-0", "orders-0"),
        ("incidents/retry-after-restart/data/orders-0", "orders-7"),
    ] {
        folders::copy(&fixture(from), &copy.path().join(to));
    }
    for command in ["gaps", "lso", "txns", "aborted"] {
        let arguments = [command, "--as-loaded", "--start", "clean", "."];
        let run = run(copy.path(), arguments);
        assert_eq!(run.status, 2, "{run:?}");
        let first = run.stdout.lines().next().unwrap_or_default();
        assert!(first.ends_with("not all could be looked at"), "{run:?}");
    }
}

/// The same partition of two brokers.
#[test]
fn partitions_of_one_name_are_told_apart() {
    let copy = tempfile::tempdir().unwrap();
    for broker in ["one", "two"] {
        let from = fixture("incidents/hanging-transaction/data");
        folders::copy(&from, &copy.path().join(broker));
    }
    let partition = fs::read_dir(copy.path().join("one")).unwrap();
    let mut names = partition.map(|it| it.unwrap().file_name().into_string().unwrap());
    let name = names.find(|name| copy.path().join("one").join(name).is_dir());
    let name = name.unwrap();
    for command in [
        "gaps --all",
        "lso",
        "txns",
        "read",
        "read --count",
        "producers",
        "aborted",
    ] {
        let arguments = command.split(' ').chain(["one", "two"]);
        let run = run(copy.path(), arguments);
        for broker in ["one", "two"] {
            let told = format!("{broker}/{name}");
            assert!(run.stdout.contains(&told), "{command}: {run:?}");
        }
        // Alone it has its name alone.
        let arguments = command.split(' ').chain(["one"]);
        let run = program::run(copy.path(), arguments);
        assert!(
            !run.stdout.contains(&format!("one/{name}")),
            "{command}: {run:?}"
        );
    }
}

/// Fifty times the same batch, at one offset after the other.
#[test]
fn a_run_of_duplicates_is_one_line() {
    let copy = tempfile::tempdir().unwrap();
    let from = fixture("incidents/exact-duplicates/data/orders-0/00000000000000000000.log");
    let bytes = fs::read(from).unwrap();
    let length = u32::from_be_bytes(bytes[8..12].try_into().unwrap());
    let size = 12 + usize::try_from(length).unwrap();
    let delta = i32::from_be_bytes(bytes[23..27].try_into().unwrap());
    let mut log = Vec::new();
    for number in 0..50 {
        let mut batch = bytes[..size].to_vec();
        let base = number * (i64::from(delta) + 1);
        batch[..8].copy_from_slice(&base.to_be_bytes());
        log.extend(batch);
    }
    let partition = copy.path().join("orders-0");
    fs::create_dir(&partition).unwrap();
    fs::write(partition.join("00000000000000000000.log"), log).unwrap();
    let run = program::run(&partition, ["gaps", "."]);
    assert_eq!(run.status, 1);
    let first = run.stdout.lines().next();
    assert_eq!(first, Some("49 duplicates in orders-0"), "{run:?}");
    assert!(
        run.stdout.contains("like this; the first: also at 0"),
        "{run:?}"
    );
    assert!(run.stdout.lines().count() < 12, "{run:?}");
    let rows = program::run(&partition, ["gaps", "-o", "ndjson", "."]);
    assert_eq!(rows.stdout.matches("\"repeated\"").count(), 49);
}

/// `aborted` and `txns` read the log twice; what is wrong with it is said once.
#[test]
fn what_cannot_be_looked_at_is_said_once() {
    let copy = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("incidents/zero-tail/data/orders-0", "orders-0"),
        ("incidents/txnindex-missing/data/ledger-0", "ledger-0"),
    ] {
        folders::copy(&fixture(from), &copy.path().join(to));
    }
    for command in ["aborted", "txns"] {
        let run = run(
            copy.path(),
            [command, "--as-loaded", "--start", "clean", "."],
        );
        let complaints = run.stderr.matches("does not come up").count();
        assert_eq!(complaints, 1, "{run:?}");
        assert!(run.stdout.lines().count() > 4, "{run:?}");
    }
}

/// What an operator needs of an open transaction has room where little has.
#[test]
fn eighty_columns_hold_who_has_an_open_transaction() {
    let data = fixture("incidents/coordinator-forgot/data");
    let mut command = kseg(&data);
    command.env("COLUMNS", "80");
    let run: Run = finish(command.args(["txns", "--state", "open", "."]));
    let headings = run
        .stdout
        .lines()
        .find(|line| line.starts_with("PARTITION"));
    let headings = headings.unwrap();
    for column in [
        "FIRST",
        "PRODUCER",
        "AGE",
        "TRANSACTIONAL ID",
        "COORDINATOR",
    ] {
        assert!(headings.contains(column), "{headings}");
    }
    let table = run.stdout.split("\n\n").nth(1).unwrap();
    assert!(table.lines().all(|line| line.len() <= 80), "{table}");
}

/// Two brokers with the same partitions, in folders with names of some length.
fn two_brokers() -> (tempfile::TempDir, [String; 2]) {
    let copy = tempfile::tempdir().unwrap();
    let brokers = ["disk-of-broker-1", "disk-of-broker-2"];
    let data = brokers.map(|broker| format!("{broker}/kafka-logs"));
    for data in &data {
        for incident in [
            "coordinator-forgot",
            "hanging-transaction",
            "gap-classes",
            "several-open-transactions",
            "txnindex-missing",
        ] {
            let from = fixture("incidents").join(incident).join("data");
            folders::copy(&from, &copy.path().join(data));
        }
    }
    (copy, data)
}

/// What is there to be pasted goes unbroken.
fn is_command(line: &str) -> bool {
    line.contains("kafka-transactions.sh --bootstrap-server") || line.starts_with("    kseg ")
}

/// In a terminal of a width no line is broken by the terminal.
#[test]
fn no_line_is_wider_than_the_terminal() {
    let (copy, data) = two_brokers();
    let one = &data[..1];
    for width in [80_usize, 120, 200] {
        for (command, data) in [
            ("ls", one),
            ("ls --segments --files", one),
            ("producers", one),
            ("producers", &data),
            ("producers --stats --now 1795968162862", &data),
            ("producers --snapshots", &data),
            ("lso", one),
            ("lso", &data),
            ("lso --all", &data),
            ("gaps", one),
            ("gaps --all", &data),
            ("gaps --as-loaded --start unclean", &data),
            ("lso --as-loaded --start unclean", &data),
            ("txns", one),
            ("txns", &data),
            ("txns --state open", &data),
            ("aborted", one),
            ("aborted", &data),
            ("read --count", &data),
            ("diff", &data),
        ] {
            let mut program = kseg(copy.path());
            program.env("COLUMNS", width.to_string());
            let run = finish(program.args(command.split(' ')).args(data));
            assert!(!run.stdout.is_empty(), "{command}: {run:?}");
            let wide = run.stdout.lines().filter(|line| !is_command(line));
            for line in wide {
                let letters = line.chars().count();
                assert!(letters <= width, "{command} at {width}: {letters}: {line}");
            }
        }
    }
}

/// Everything that prints a table; `OUT` is a folder to be made.
const TABLES: [&str; 22] = [
    "ls",
    "ls --segments --files",
    "dump",
    "dump --records",
    "read",
    "read --count",
    "producers",
    "producers --snapshots",
    "producers --stats --now 1796000000000",
    "replay",
    "replay --all",
    "gaps",
    "gaps --all",
    "txns",
    "txns --state open --now 1796000000000",
    "aborted",
    "lso",
    "lso --all",
    "verify",
    "recover",
    "recover --all",
    "rebuild --out OUT",
];

/// The log directories of all fixtures.
fn all_data() -> Vec<PathBuf> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).unwrap().map(|it| it.unwrap().path());
        let mut folders: Vec<PathBuf> = entries.map(|it| it.join("data")).collect();
        folders.retain(|it| it.is_dir());
        folders.sort();
        folders
    };
    let mut all = folders(&fixture(""));
    all.extend(folders(&fixture("incidents")));
    all
}

/// Runs all of [`TABLES`], and gives the lines that are too wide.
fn too_wide(folder: &Path, data: &[&str], width: usize, wrong: &mut Vec<String>) {
    for command in TABLES {
        let mut program = kseg(folder);
        program.env("COLUMNS", width.to_string());
        let _ = fs::remove_dir_all(folder.join("made-anew"));
        let arguments = command.split(' ').map(|it| match it {
            "OUT" => "made-anew",
            other => other,
        });
        let run = finish(program.args(arguments).args(data));
        for line in run.stdout.lines().filter(|line| !is_command(line)) {
            let letters = line.chars().count();
            if letters > width {
                wrong.push(format!("{command} {data:?} at {width}: {letters}: {line}"));
            }
        }
    }
}

/// Half of a usual terminal, and one of the others.
#[test]
fn no_table_of_any_fixture_is_wider_than_the_terminal() {
    let mut wrong = Vec::new();
    let all = all_data();
    for (index, data) in all.iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        for width in [40, [60, 80, 132, 200][index % 4]] {
            too_wide(scratch.path(), &[data.to_str().unwrap()], width, &mut wrong);
        }
    }
    assert!(all.len() > 80, "{}", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A log directory with one of its topics under a name of `letters` letters.
fn with_long_name(data: &Path, to: &Path, letters: usize) {
    folders::copy(data, to);
    let names = fs::read_dir(to).unwrap().map(|it| it.unwrap().path());
    let topics = names.filter(|it| it.is_dir()).filter_map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (topic, partition) = name.rsplit_once('-')?;
        partition.parse::<u32>().ok()?;
        (!topic.starts_with("__")).then(|| topic.to_owned())
    });
    let Some(topic) = topics.min() else {
        return;
    };
    let parts = "orders.of_the-european.customers7by_day000000000003and-hour.v2";
    let long: String = parts.chars().cycle().take(letters).collect();
    for entry in fs::read_dir(to).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if let Some(partition) = name.strip_prefix(&format!("{topic}-"))
            && path.is_dir()
        {
            let long = format!("{long}-{partition}");
            fs::rename(&path, path.with_file_name(long)).unwrap();
        } else if name.ends_with("-checkpoint") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines = text.lines().map(|line| match line.strip_prefix(&topic) {
                Some(rest) if rest.starts_with(' ') => format!("{long}{rest}\n"),
                _ => format!("{line}\n"),
            });
            fs::write(&path, lines.collect::<String>()).unwrap();
        }
    }
}

/// Kafka allows 249 letters.
#[test]
fn a_topic_name_of_any_length_fits_the_terminal() {
    let mut wrong = Vec::new();
    let cases = [(200, 80), (249, 80), (60, 80), (120, 200)];
    for (index, data) in all_data().iter().enumerate() {
        let scratch = tempfile::tempdir().unwrap();
        let (letters, width) = cases[index % cases.len()];
        for disk in ["one", "another-disk/kafka-logs"] {
            with_long_name(data, &scratch.path().join(disk), letters);
        }
        let data = ["one", "another-disk/kafka-logs"];
        too_wide(scratch.path(), &data, width, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a narrow table says it says whole: each number is one of the wide table, and each time.
#[test]
fn no_number_is_broken() {
    let mut wrong = Vec::new();
    let mut checked = 0;
    for data in all_data().iter().step_by(7) {
        let scratch = tempfile::tempdir().unwrap();
        with_long_name(data, &scratch.path().join("data"), 90);
        for command in [
            "gaps --all",
            "txns",
            "lso --all",
            "verify",
            "recover",
            "ls",
            "dump",
        ] {
            let said = |width: &str| {
                let mut program = kseg(scratch.path());
                program.env("COLUMNS", width);
                let run = finish(program.args(command.split(' ')).arg("data"));
                let is_other = |it: char| !it.is_ascii_digit();
                let lines = run.stdout.lines();
                let lines = lines.filter(|line| !line.contains("not fit the terminal"));
                let lines: Vec<&str> = lines.collect();
                let numbers = lines.iter().flat_map(|line| line.split(is_other));
                let words = lines.iter().flat_map(|line| line.split(' '));
                let words = words.map(|word| word.trim_matches(|it| "(),;:".contains(it)));
                // Each part of a time that is cut has one of its marks.
                let is_of_time = |word: &&str| {
                    let has = |mark| word.matches(mark).count();
                    word.len() > 8 && (has(':') == 2 || has('-') == 2) && word.contains("20")
                };
                let all = numbers.chain(words.filter(is_of_time));
                all.map(str::to_owned)
                    .collect::<std::collections::BTreeSet<String>>()
            };
            let wide = said("1000");
            for width in ["40", "60"] {
                let narrow = said(width);
                let broken: Vec<_> = narrow.difference(&wide).collect();
                if !broken.is_empty() {
                    let data = data.display();
                    wrong.push(format!("{command} {data} at {width}: {broken:?}"));
                }
                checked += narrow.len();
            }
        }
    }
    assert!(checked > 500, "{checked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A number and its unit, and both parts of a duration, stay on one line.
#[test]
fn no_unit_is_alone_on_a_line() {
    let (copy, data) = two_brokers();
    for width in 60..100 {
        for command in ["txns --state open --now 1796000000000", "aborted"] {
            let mut program = kseg(copy.path());
            program.env("COLUMNS", width.to_string());
            let run = finish(program.args(command.split(' ')).args(&data));
            for line in run.stdout.lines() {
                let first = line.split_whitespace().next().unwrap_or_default();
                let first = first.trim_matches(|it: char| !it.is_ascii_alphanumeric());
                let units = ["B", "KiB", "MiB", "GiB"];
                assert!(!units.contains(&first), "{command} at {width}: {line}");
                let is_minutes = first
                    .strip_suffix('m')
                    .is_some_and(|it| it.parse::<u32>().is_ok());
                assert!(!is_minutes, "{command} at {width}: {line}");
            }
        }
    }
}

/// The same command for another broker would abort what is not asked about.
#[test]
fn a_command_says_which_directory_it_is_about() {
    let (copy, data) = two_brokers();
    let run = run(copy.path(), ["txns", "--state", "open", &data[0], &data[1]]);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let commands = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| is_command(line));
    let mut brokers = [0, 0];
    for (at, command) in commands {
        let comments = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("  #"));
        let comment: Vec<&str> = comments.copied().collect();
        let broker = data
            .iter()
            .position(|data| comment.concat().contains(data.as_str()));
        brokers[broker.unwrap_or_else(|| panic!("{command}: {run:?}"))] += 1;
    }
    assert_eq!(brokers[0], brokers[1]);
    assert!(brokers[0] > 2, "{run:?}");
    let alone = program::run(copy.path(), ["txns", "--state", "open", &data[0]]);
    assert!(!alone.stdout.contains(&data[0]), "{alone:?}");
}

/// Two names of a directory, a log directory and a partition in it, a link to it.
#[test]
fn a_partition_that_several_paths_lead_to_is_looked_at_once() {
    let copy = tempfile::tempdir().unwrap();
    let data = copy.path().join("data");
    for incident in ["hanging-transaction", "exact-duplicates"] {
        folders::copy(&fixture("incidents").join(incident).join("data"), &data);
    }
    let partition = fs::read_dir(&data).unwrap();
    let mut partitions = partition
        .map(|it| it.unwrap().path())
        .filter(|it| it.is_dir());
    let partition = partitions.next().unwrap();
    let name = partition.file_name().unwrap().to_str().unwrap();
    let segment = format!("data/{name}/00000000000000000000.log");
    assert!(copy.path().join(&segment).exists());
    std::os::unix::fs::symlink(&data, copy.path().join("link")).unwrap();
    for command in [
        "ls",
        "producers",
        "lso --all",
        "gaps --all",
        "txns",
        "aborted",
        "replay",
        "read",
        "dump",
        "verify",
        "recover",
    ] {
        let alone = run(
            copy.path(),
            command.split(' ').chain(["-o", "ndjson", "data"]),
        );
        assert!(!alone.stdout.is_empty(), "{command}: {alone:?}");
        let table = run(copy.path(), command.split(' ').chain(["data"]));
        for again in [
            "data/",
            "./data/../data",
            "link",
            &format!("link/{name}"),
            &segment,
        ] {
            let paths = ["data", again];
            let both = run(
                copy.path(),
                command.split(' ').chain(["-o", "ndjson"]).chain(paths),
            );
            assert_eq!(both.stdout, alone.stdout, "{command} {again}");
            assert_eq!(both.status, alone.status, "{command} {again}");
            let both = run(copy.path(), command.split(' ').chain(paths));
            // `verify` says how long it took.
            let without_time = |text: &str| text.replace(|it: char| it.is_ascii_digit(), "");
            if command == "verify" {
                assert_eq!(without_time(&both.stdout), without_time(&table.stdout));
            } else {
                assert_eq!(both.stdout, table.stdout, "{command} {again}");
            }
        }
    }
}

/// A partition that lost its segments is not one that has nothing to lose.
#[test]
fn a_partition_without_a_log_is_told_from_an_empty_one() {
    let copy = tempfile::tempdir().unwrap();
    let data = fixture("s07j-deleted-segment/undamaged");
    folders::copy(&data, copy.path());
    let partition = copy.path().join("dmg-0");
    let files = fs::read_dir(&partition).unwrap();
    for path in files.map(|it| it.unwrap().path()) {
        if path.extension().is_some_and(|it| it == "log") {
            fs::remove_file(path).unwrap();
        }
    }
    let gaps = run(copy.path(), ["gaps", "dmg-0"]);
    assert_eq!(gaps.status, 1, "{gaps:?}");
    assert!(gaps.stdout.starts_with("1 loss in dmg-0\n"), "{gaps:?}");
    assert!(gaps.stdout.contains("0..115"), "{gaps:?}");
    for command in ["lso", "txns", "aborted", "producers", "ls"] {
        let run = run(copy.path(), [command, "dmg-0"]);
        let line = "dmg-0: empty, no .log in use in it, though there was one: kseg gaps says what \
                    is missing\n";
        assert_eq!(run.stdout, line, "{command}");
    }
}
