//! Every case of `cases/` whose steps the state can answer, against Kafka's own answers.
//!
//! The state knows no files. So what only files decide is taken from the result as given: whether
//! the batch itself is refused, when a segment is rolled, deleted or cut. All else has to come out
//! as it did in Kafka: each step's verdict and offsets, and in the end the producers, the
//! transactions, the `.txnindex` rows, and every snapshot with its entries in file order.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

#[path = "../common/mod.rs"]
mod common;
mod driver;
mod memory_log;

use std::fs;
use std::path::Path;

use common::partitions::cases;
use driver::Driver;
use serde_json::{Value, json};

fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The fields of `expected` that the state answers for.
fn only(expected: &Value, keys: &[&str]) -> Value {
    keys.iter()
        .filter_map(|&key| Some((key.to_owned(), expected.get(key)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Runs a case and returns how many steps were compared: all, unless the log does not load again.
fn check(dir: &Path) -> Result<usize, String> {
    let scenario = read_json(&dir.join("scenario.json"));
    let result = read_json(&dir.join("result.json"));
    let mut driver = Driver::new(&scenario);
    let steps = scenario["steps"].as_array().unwrap();
    for (index, (step, expected)) in steps
        .iter()
        .zip(result["steps"].as_array().unwrap())
        .enumerate()
    {
        if step.get("reopen").is_some() && expected["verdict"] == "rejected" {
            // The files do not load, and the log stays closed: nothing the state answers for.
            return Ok(index);
        }
        let got = driver.run(step, expected);
        let keys = [
            "verdict",
            "error",
            "baseOffset",
            "lastOffset",
            "logAppendTime",
            "logStartOffset",
            "changed",
            "highWatermark",
        ];
        let mut wanted = only(expected, &keys);
        wanted["state"] = only(
            &expected["state"],
            &[
                "logStartOffset",
                "logEndOffset",
                "highWatermark",
                "firstUnstableOffset",
                "lastStableOffset",
                "segments",
            ],
        );
        if got != wanted {
            return Err(format!(
                "step {index} {step}\n  got  {got}\n  want {wanted}"
            ));
        }
    }
    let expected = &result["final"];
    let keys = [
        "mapEndOffset",
        "activeProducers",
        "ongoingTransactions",
        "unreplicatedTransactions",
        "producerSnapshots",
    ];
    let mut wanted = only(expected, &keys);
    wanted["transactionIndex"] = expected["segmentFiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|segment| json!([segment["baseOffset"], segment["transactionIndex"]]))
        .collect();
    let got = driver.finish(scenario["shutdown"] != "unclean");
    for (key, wanted) in wanted.as_object().unwrap() {
        if got[key] != *wanted {
            return Err(format!("final {key}\n  got  {}\n  want {wanted}", got[key]));
        }
    }
    Ok(steps.len())
}

#[test]
fn state_answers_every_case_as_kafka_did() {
    let (mut compared, mut steps, mut failures) = (0, 0, Vec::new());
    for dir in cases() {
        match check(&dir) {
            Ok(count) => {
                compared += 1;
                steps += count;
            }
            Err(difference) => failures.push(format!("{}: {difference}", dir.display())),
        }
    }
    assert!(
        failures.is_empty(),
        "{} differ\n{}",
        failures.len(),
        failures.join("\n")
    );
    // No case is skipped; these are the numbers of cases/index.json. Those under found/ come on
    // top.
    assert!(
        compared >= 176 && steps >= 6361,
        "{compared} cases, {steps} steps"
    );
}
