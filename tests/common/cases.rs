//! Runs a case and compares everything with what Kafka made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kseg::append::scenario::{Scenario, ScenarioRun, write_checkpoints};
use serde_json::Value;

/// What a comparison covered.
#[derive(Clone, Copy, Debug, Default)]
pub struct Covered {
    pub cases: usize,
    pub steps: usize,
    pub files: usize,
    pub bytes: usize,
}

impl std::ops::AddAssign for Covered {
    fn add_assign(&mut self, other: Self) {
        self.cases += other.cases;
        self.steps += other.steps;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// All folders below `root` that hold a scenario.
pub fn case_dirs(root: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = super::files_below(root)
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "scenario.json"))
        .filter_map(|file| Some(file.parent()?.to_owned()))
        .collect();
    dirs.sort();
    dirs
}

/// Whether the log did not load again after a kill: it stays closed, and its files are as the
/// recovery left them that stopped.
pub fn is_left_closed(scenario: &Value, result: &Value) -> bool {
    let steps = scenario["steps"].as_array().unwrap().iter();
    let results = steps.zip(result["steps"].as_array().unwrap());
    let mut reopened = results.filter(|(step, _)| step.get("reopen").is_some());
    let last = reopened.next_back();
    last.is_some_and(|(_, result)| result["verdict"] == "rejected")
}

/// Bytes that wait to be written: none, some batches, and more than most cases have.
const WRITE_BUFFERS: [usize; 3] = [0, 1000, 1024 * 1024];

/// Runs the scenario of a case and compares each step, the end, and every file: whether batches are
/// written as they come or together.
///
/// # Errors
/// The first difference.
pub fn check(case: &Path) -> Result<Covered, String> {
    let mut covered = Covered::default();
    for write_buffer_bytes in WRITE_BUFFERS {
        covered = check_with(case, write_buffer_bytes)
            .map_err(|error| format!("write_buffer_bytes {write_buffer_bytes}: {error}"))?;
    }
    Ok(covered)
}

fn check_with(case: &Path, write_buffer_bytes: usize) -> Result<Covered, String> {
    let scenario = fs::read(case.join("scenario.json")).unwrap();
    let mut scenario = Scenario::parse(&scenario).map_err(|error| error.to_string())?;
    scenario.config.write_buffer_bytes = write_buffer_bytes;
    let result = fs::read(case.join("result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut run = ScenarioRun::start(&scenario, out.path()).map_err(|e| e.to_string())?;
    let expected = result["steps"].as_array().unwrap();
    for (index, (step, expected)) in scenario.steps.iter().zip(expected).enumerate() {
        let got = run
            .step(step)
            .map_err(|error| format!("step {index}: {error}"))?;
        let message = got.error.as_ref().map(|error| error.message.clone());
        let got = serde_json::to_value(&got).unwrap();
        if got != *expected {
            let step = format!("{step:?}");
            let step: String = step.chars().take(600).collect();
            return Err(format!(
                "step {index} {step}\n  {message:?}\n  got  {got}\n  want {expected}"
            ));
        }
    }
    let finished = run.finish().map_err(|error| error.to_string())?;
    write_checkpoints(out.path(), &[finished.checkpoints]).map_err(|e| e.to_string())?;
    let got = serde_json::to_value(&finished.report).unwrap();
    for (key, expected) in result["final"].as_object().unwrap() {
        if key != "files" && got[key] != *expected {
            return Err(format!(
                "final {key}\n  got  {}\n  want {expected}",
                got[key]
            ));
        }
    }
    let mut covered = compare_trees(case, out.path())?;
    covered.cases = 1;
    covered.steps = expected.len();
    let listed = result["final"]["files"].as_array().unwrap().len();
    if covered.files != listed {
        return Err(format!(
            "{} files, result.json lists {listed}",
            covered.files
        ));
    }
    Ok(covered)
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    super::files_below(root)
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(root).unwrap().to_owned();
            (name, fs::read(&file).unwrap())
        })
        .filter(|(name, _)| name != Path::new("scenario.json") && name != Path::new("result.json"))
        .collect()
}

fn compare_trees(expected: &Path, got: &Path) -> Result<Covered, String> {
    let (expected, got) = (tree(expected), tree(got));
    for name in got.keys() {
        if !expected.contains_key(name) {
            return Err(format!("unexpected file {}", name.display()));
        }
    }
    let mut covered = Covered::default();
    for (name, wanted) in &expected {
        let Some(bytes) = got.get(name) else {
            return Err(format!("missing file {}", name.display()));
        };
        if bytes != wanted {
            let at = bytes.iter().zip(wanted).position(|(a, b)| a != b);
            return Err(format!(
                "{}: {} bytes, expected {}; first difference at {at:?}",
                name.display(),
                bytes.len(),
                wanted.len()
            ));
        }
        covered.files += 1;
        covered.bytes += bytes.len();
    }
    Ok(covered)
}
