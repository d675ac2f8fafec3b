//! Makes data and measures walks over it: `benches/README.md` says how to read the numbers.
//!
//! ```text
//! walk                           a smoke test: small data in a temporary folder
//! walk generate DIR [DIVISOR]    the data sets, each divided by DIVISOR in size
//! walk measure FILE...           all walks over these segments
//! walk folds PARTITION...        what the answers of commands cost beside their walk
//! walk verify DIR...             `kseg verify` of these partitions beside checksums alone
//! walk records FILE              every record of a segment decoded once, and nothing printed
//! ```
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program, not a library"
)]

mod cpu;
mod folds;
mod generate;
mod kseg_walk;
mod limits;
mod measure;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kseg::log::Io;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    // `cargo bench` adds --bench.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        [] => smoke_test(),
        ["generate", folder] => generate::all(Path::new(folder), 1),
        ["generate", folder, divisor] => match divisor.parse() {
            Ok(divisor) if divisor > 0 => generate::all(Path::new(folder), divisor),
            _ => Err(format!("{divisor} is no divisor").into()),
        },
        ["records", file] => kseg_walk::records(Path::new(file), Io::Mmap).map(|_| ()),
        ["measure", files @ ..] if !files.is_empty() => {
            measure::all(&files.iter().map(PathBuf::from).collect::<Vec<_>>())
        }
        ["folds", partitions @ ..] if !partitions.is_empty() => {
            folds::all(&partitions.iter().map(PathBuf::from).collect::<Vec<_>>())
        }
        ["verify", folders @ ..] if !folders.is_empty() => {
            let mut folders = folders.iter().map(Path::new);
            folders.try_for_each(|it| verify::compare(it, &generate::logs_in(it)?))
        }
        _ => Err(
            "usage: walk [generate DIR [DIVISOR] | measure FILE... | folds PARTITION... | \
             verify DIR... | records FILE]"
                .into(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("walk: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything once, small: that it runs, not how fast.
fn smoke_test() -> Result<()> {
    let folder = tempfile::tempdir()?;
    generate::all(folder.path(), 256)?;
    let segments = generate::segments(folder.path())?;
    measure::all(&segments)?;
    folds::all(&folds::partitions(&segments))?;
    let tiny = folder.path().join("tiny-0");
    verify::compare(&tiny, &generate::logs_in(&tiny)?)
}
