//! Scenarios: the story of a partition in a JSON file, and a runner that writes the partition.
//!
//! The format is that of `docs/scenario.md`. [`Scenario::parse`] reads it, [`ScenarioRun`] does
//! the steps one by one and says what became of each.

mod batch;
mod final_report;
mod json;
mod model;
mod parse;
mod result;
mod root_files;
mod runner;

pub use final_report::FinalReport;
pub use json::ScenarioError;
pub use model::{
    AppendStep, DEFAULT_START_TIME_MS, DataBatch, Fault, FollowerBatch, FollowerBatchKind, Marker,
    RecordSpec, Reopen, Scenario, Step, Verification,
};
pub use result::{LogState, StepError, StepResult, Written};
pub use root_files::write_checkpoints;
pub use runner::{Finished, PartitionCheckpoints, ScenarioRun};
