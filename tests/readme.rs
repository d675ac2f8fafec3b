//! The commands in README.md and docs/records.md print what those pages say they print.
//!
//! A block of kind `console` holds a command behind `$ ` and its output. `KSEG_BLESS=1` writes the
//! output anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where something is not as it should be"
)]

use std::path::Path;
use std::process::Command;

/// Runs a line such as `COLUMNS=80 kseg ls PATH` in the project's folder; gives what it prints.
fn run(line: &str) -> String {
    let mut words = line.split_whitespace().peekable();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kseg"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    while let Some((key, value)) = words.peek().and_then(|word| word.split_once('=')) {
        command.env(key, value);
        words.next();
    }
    assert_eq!(words.next(), Some("kseg"), "{line}");
    let output = command.args(words).output().unwrap();
    assert_ne!(output.status.code(), Some(2), "{line}");
    String::from_utf8(output.stdout).unwrap()
}

/// The text with the output of every command as it is now, and how many commands there are.
fn renewed(text: &str) -> (String, u32) {
    let mut out = String::new();
    let mut commands = 0;
    let mut in_block = false;
    for line in text.lines() {
        if line == "```console" {
            in_block = true;
        } else if line == "```" {
            in_block = false;
        } else if in_block {
            if let Some(command) = line.strip_prefix("$ ") {
                commands += 1;
                out.push_str(line);
                out.push('\n');
                out.push_str(&run(command));
            }
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    (out, commands)
}

#[test]
fn readme_shows_what_the_commands_print() {
    check("README.md", 8);
}

#[test]
fn tour_of_records_shows_what_the_commands_print() {
    check("docs/records.md", 6);
}

fn check(file: &str, least: u32) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let (now, commands) = renewed(&text);
    assert!(commands >= least, "only {commands} commands");
    if std::env::var_os("KSEG_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    } else if text != now {
        let differing = text.lines().zip(now.lines()).find(|(old, new)| old != new);
        panic!("{file} is stale (KSEG_BLESS=1 renews it); first difference: {differing:#?}");
    }
}
