//! Random directories, dumped by Kafka and by kseg, every field compared.
//!
//! Needs what `scripts/differential-dump` prepares, and the feature `differential`:
//! `KSEG_DIFFERENTIAL` names a folder that holds `data/` (directories), `kafka/` and `kafka-deep/`
//! (the texts of Kafka's tool, without and with `--deep-iteration`, under the same names plus
//! `.txt`). `KSEG_BINARY` names the program, if it is not the one built with this test.

mod common;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use common::dump_compare::{Counts, compare, kseg_dump};
use common::files_below;
use common::kafka_dump::Depth;

#[test]
fn kseg_prints_what_kafka_prints_of_random_directories() {
    let root =
        PathBuf::from(env::var_os("KSEG_DIFFERENTIAL").unwrap_or_else(|| {
            panic!("KSEG_DIFFERENTIAL is not set: run scripts/differential-dump")
        }));
    let kseg = env::var_os("KSEG_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_kseg")), PathBuf::from);
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for data in files_below(&root.join("data")) {
        let name = data.strip_prefix(root.join("data")).unwrap();
        for (kind, depth) in [("kafka", Depth::Shallow), ("kafka-deep", Depth::Deep)] {
            let text = root.join(kind).join(with_txt(name));
            if !text.is_file() {
                continue;
            }
            let text = fs::read_to_string(text).unwrap();
            match kseg_dump(&kseg, &data)
                .map_err(|e| vec![e])
                .and_then(|rows| compare(&data, &text, depth, &rows))
            {
                Ok(more) => counts += more,
                Err(differences) => failures.extend(
                    differences
                        .iter()
                        .map(|d| format!("{kind} {}: {d}", name.display())),
                ),
            }
        }
    }
    let texts =
        files_below(&root.join("kafka")).len() + files_below(&root.join("kafka-deep")).len();
    let shown: Vec<&str> = failures.iter().take(60).map(String::as_str).collect();
    assert!(
        failures.is_empty(),
        "{} differences from Kafka:\n{}",
        failures.len(),
        shown.join("\n")
    );
    assert_eq!(
        counts.files, texts,
        "not every text of Kafka's was compared"
    );
    assert!(counts.batches > 0, "nothing was compared: {counts:?}");
    report(&counts);
}

fn with_txt(name: &Path) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(".txt");
    PathBuf::from(name)
}

#[expect(clippy::print_stdout, reason = "the script shows what was compared")]
fn report(counts: &Counts) {
    println!("equal: {counts:?}");
}
