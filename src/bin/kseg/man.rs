//! The man pages under `man/`, generated from the arguments, and what every command's help has.
//!
//! `KSEG_BLESS=1 cargo test man` writes the pages anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};

use crate::cli::Cli;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The program and its subcommands, with everything that is filled in when clap runs.
fn commands() -> (Command, Vec<Command>) {
    let mut program = Cli::command();
    program.build();
    let subcommands = program.get_subcommands().cloned().collect();
    (program, subcommands)
}

fn pages() -> BTreeMap<PathBuf, String> {
    let (program, subcommands) = commands();
    std::iter::once(program)
        .chain(subcommands)
        .map(|command| {
            let title = command
                .get_display_name()
                .unwrap_or(command.get_name())
                .to_owned();
            let mut page = Vec::new();
            let man = clap_mangen::Man::new(command)
                .title(title.to_uppercase())
                .source("kseg")
                .manual("kseg");
            man.render(&mut page).unwrap();
            let path = repository().join("man").join(format!("{title}.1"));
            (path, String::from_utf8(page).unwrap())
        })
        .collect()
}

#[test]
fn the_man_pages_are_those_of_the_arguments() {
    let bless = std::env::var_os("KSEG_BLESS").is_some_and(|value| value == "1");
    let folder = repository().join("man");
    if bless {
        fs::create_dir_all(&folder).unwrap();
    }
    let pages = pages();
    for (path, page) in &pages {
        if bless {
            fs::write(path, page).unwrap();
        }
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == *page,
            "{} is stale; KSEG_BLESS=1 writes it anew",
            path.display()
        );
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if bless && !pages.contains_key(&path) {
            fs::remove_file(&path).unwrap();
            continue;
        }
        assert!(
            pages.contains_key(&path),
            "{}: no such command",
            path.display()
        );
    }
}

#[test]
fn the_arguments_are_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_says_what_it_does_in_one_imperative_line() {
    let (program, subcommands) = commands();
    for command in std::iter::once(&program).chain(&subcommands) {
        let name = command.get_name();
        let about = command.get_about().unwrap().to_string();
        let first = about.split(' ').next().unwrap();
        assert!(!about.ends_with('.'), "{name}: {about}");
        assert!(first.starts_with(char::is_uppercase), "{name}: {about}");
        assert!(!first.ends_with('s'), "{name}: not imperative: {about}");
        assert!(about.len() <= 80, "{name}: {about}");
        let long = command.get_long_about().map(ToString::to_string);
        assert!(
            long.is_some_and(|long| long.len() > about.len()),
            "{name}: no long help"
        );
    }
}

#[test]
fn every_commands_help_ends_with_an_example_and_the_exit_status() {
    let (_, subcommands) = commands();
    for command in &subcommands {
        let name = command.get_name();
        let help = command.get_after_long_help().unwrap().to_string();
        let example = help
            .find("Example")
            .unwrap_or_else(|| panic!("{name}: no example"));
        let status = help
            .find("Exit status:\n")
            .unwrap_or_else(|| panic!("{name}: no status"));
        assert!(example < status, "{name}");
        assert!(
            help.contains(&format!("\n  kseg {name} ")),
            "{name}: {help}"
        );
        for code in ["  0  ", "  2  "] {
            assert!(help[status..].contains(code), "{name}: no status {code}");
        }
    }
}

#[test]
fn every_option_is_explained() {
    let (program, subcommands) = commands();
    for command in std::iter::once(&program).chain(&subcommands) {
        for argument in command.get_arguments() {
            let name = format!("{} {}", command.get_name(), argument.get_id());
            let help = argument
                .get_help()
                .unwrap_or_else(|| panic!("{name}"))
                .to_string();
            assert!(!help.ends_with('.'), "{name}: {help}");
        }
    }
}

#[test]
fn every_command_has_a_golden_case() {
    let (_, subcommands) = commands();
    let cases = fs::read_to_string(repository().join("tests/golden.rs")).unwrap();
    for command in &subcommands {
        let help = format!("\"{}-help\"", command.get_name());
        assert!(cases.contains(&help), "tests/golden.rs: no case {help}");
    }
}
