//! What holds for all files of this repository.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder, by their paths in the repository, sorted.
fn files_below(folder: &str) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let path = path.strip_prefix(repository()).unwrap();
                files.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// Rust files of the package; the generators of `tests/oracle` are programs of their own.
fn sources() -> Vec<(String, String)> {
    ["src", "tests", "benches", "examples"]
        .into_iter()
        .flat_map(files_below)
        .filter(|path| path.ends_with(".rs") && !path.starts_with("tests/oracle/"))
        .map(|path| {
            let text = read(&path);
            (path, text)
        })
        .collect()
}

/// The top module of the library that a file belongs to: `log` for `src/log/damage.rs`.
fn layer(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let name = inside.split('/').next()?;
    Some(name.strip_suffix(".rs").unwrap_or(name))
}

/// Everything of this crate that a line of code names: the words behind `crate::`.
fn named_modules(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}

/// `docs/architecture.md`: bin -> report -> { state, log } -> format -> error, the same for
/// append, and schemas of the rows of both.
#[test]
fn modules_use_only_those_below_them() {
    let allowed = |from: &str| -> &[&str] {
        match from {
            "error" => &[],
            "format" => &["error"],
            "log" | "state" => &["format", "error"],
            "report" | "append" => &["state", "log", "format", "error"],
            "schemas" => &["report", "append"],
            "lib" => &["error", "format", "log", "state", "report", "append"],
            other => panic!("src/{other}: a layer that docs/architecture.md does not have"),
        }
    };
    for (path, text) in sources() {
        let Some(from) = layer(&path).filter(|layer| *layer != "bin") else {
            continue;
        };
        for (index, line) in text.lines().enumerate() {
            for to in named_modules(line) {
                // What the crate exports at its top belongs to `error`.
                let to = if to.starts_with("DecodeError") {
                    "error"
                } else {
                    to
                };
                assert!(
                    to == from || allowed(from).contains(&to),
                    "{path}:{}: {from} may not use {to}",
                    index + 1
                );
            }
            assert!(
                from == "lib" || !line.trim_start().starts_with("use super::super::super::"),
                "{path}:{}: say crate::, so that the arrow can be seen",
                index + 1
            );
        }
    }
}

/// The program is a crate of its own and reads nothing of the library but what it exports.
#[test]
fn the_program_uses_the_public_library_only() {
    for (path, text) in sources() {
        if !path.starts_with("src/bin/") {
            continue;
        }
        for word in ["#[path", "include!("] {
            assert!(!text.contains(word), "{path}: {word}");
        }
    }
    for (path, text) in sources() {
        if layer(&path).is_some_and(|layer| layer != "bin") {
            for word in [
                "clap::",
                "anyhow::",
                "comfy_table::",
                "anstream::",
                "indicatif::",
            ] {
                assert!(!text.contains(word), "{path}: {word} is the program's");
            }
        }
    }
}

#[test]
fn sources_are_ascii_within_100_columns() {
    for (path, text) in sources() {
        for (index, line) in text.lines().enumerate() {
            let place = || format!("{path}:{}", index + 1);
            assert!(line.is_ascii(), "{}: not ASCII", place());
            // Rows of a table in a comment and text that cannot be broken.
            let code = line.trim_start();
            let is_whole = code.starts_with("//! |") || code.starts_with("/// |");
            let is_whole = is_whole || code.starts_with('"') || code.contains("://");
            assert!(
                line.len() <= 100 || is_whole,
                "{}: {} columns",
                place(),
                line.len()
            );
            assert!(!line.ends_with(' '), "{}: trailing space", place());
            assert!(!line.contains('\t'), "{}: tab", place());
        }
    }
}

/// Memory maps and two C codecs; each use says why it is sound, which clippy checks.
#[test]
fn unsafe_code_is_where_it_is_expected() {
    let allowed = [
        "src/log/mapped_file/mod.rs",
        "src/log/mapped_file/sigbus.rs",
        "src/format/compression/gzip.rs",
        "src/format/compression/lz4.rs",
    ];
    for (path, text) in sources() {
        if !path.starts_with("src/") || allowed.contains(&path.as_str()) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let found = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            let mut found = found.filter(|word| *word == "unsafe" || *word == "unsafe_code");
            assert_eq!(found.next(), None, "{path}:{}", index + 1);
        }
    }
}

#[test]
fn every_module_says_what_belongs_in_it() {
    for (path, text) in sources() {
        if path.starts_with("src/") && path != "src/bin/kseg/cmd/mod.rs" {
            assert!(text.starts_with("//! "), "{path}: no module documentation");
        }
    }
}

/// A new format without a test by arbitrary bytes does not go unnoticed.
#[test]
fn every_format_is_in_the_test_of_decoders() {
    let decoders = read("tests/decoders.rs");
    let modules = read("src/format/mod.rs");
    let public = modules
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "));
    let public: BTreeSet<String> = public.map(|name| name.replace(';', "")).collect();
    let (_, table) = decoders.split_once("const DECODERS").unwrap();
    let (table, _) = table.split_once("];").unwrap();
    let listed = table
        .split("(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    assert_eq!(listed, public);
}

/// The name of each folder in a folder of fixtures.
fn folders(path: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(repository().join(path)).unwrap();
    let folders = entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir());
    folders
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}

#[test]
fn fixtures_and_their_table_agree() {
    let readme = read("fixtures/README.md");
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| s"));
    let listed: BTreeSet<String> = rows
        .map(|row| format!("s{}", row.split([' ', '|']).next().unwrap()))
        .collect();
    let mut there = folders("fixtures");
    assert!(there.remove("incidents"));
    assert!(readme.contains("`incidents/`"));
    assert_eq!(listed, there);
    let incidents = folders("fixtures/incidents");
    let incidents = incidents.iter().map(|name| format!("incidents/{name}"));
    for fixture in there.into_iter().chain(incidents) {
        let folder = repository().join("fixtures").join(&fixture);
        assert!(
            folder.join("about.json").is_file(),
            "{fixture}: how was it made?"
        );
        let has_data = fs::read_dir(&folder).unwrap().any(|entry| {
            let entry = entry.unwrap();
            entry.file_name().to_string_lossy().starts_with("data") && entry.path().is_dir()
        });
        assert!(has_data, "{fixture}: no data");
    }
}

/// Files that git keeps; all that are there where git is not.
fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(repository())
        .output();
    match output {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let text = String::from_utf8(output.stdout).unwrap();
            text.split('\0')
                .filter(|path| !path.is_empty())
                .map(str::to_owned)
                .collect()
        }
        _ => ["src", "tests", "docs", "scripts", "man", "schemas"]
            .into_iter()
            .flat_map(files_below)
            .collect(),
    }
}

#[test]
fn nothing_names_a_place_on_one_machine() {
    for path in tracked() {
        // Written by brokers and by Kafka's tools, wherever they ran.
        if path.starts_with("fixtures/") || path.starts_with("cases/") {
            continue;
        }
        let Ok(text) = fs::read_to_string(repository().join(&path)) else {
            continue;
        };
        for place in [
            ["/wo", "rk/"].concat(),
            ["/ro", "ot/"].concat(),
            ["/tmp", "/."].concat(),
        ] {
            assert!(!text.contains(&place), "{path}: {place}");
        }
    }
}

/// Every test of the repository is run by `cargo test`: a file in a folder needs a `mod` line.
#[test]
fn every_shared_test_file_is_used() {
    let sources = sources();
    for path in files_below("tests/common") {
        let name = Path::new(&path).file_stem().unwrap().to_str().unwrap();
        let used = sources.iter().any(|(_, text)| {
            text.contains(&format!("\"common/{name}.rs\""))
                || text.contains(&format!("mod {name};"))
        });
        assert!(used || name == "mod", "{path}: no test uses it");
    }
    assert!(PathBuf::from(repository()).join("tests/golden").is_dir());
}
