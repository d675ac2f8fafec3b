//! Scenarios: the story of a partition in a JSON file, and a runner that writes the partition.
//!
//! The format is that of `docs/scenario.md`. [`Scenario::parse`] reads it, [`ScenarioRun`] does
//! the steps one by one and says what became of each.

mod batch;
mod final_report;
mod from_log;
mod json;
mod model;
mod offset_room;
mod output_dir;
mod parse;
mod result;
mod root_files;
mod runner;
mod templates;
mod to_json;

pub use final_report::FinalReport;
pub use from_log::{FromLog, FromLogError};
pub use json::ScenarioError;
pub use model::{
    AppendStep, DEFAULT_START_TIME_MS, DataBatch, Fault, FollowerBatch, FollowerBatchKind, Marker,
    RecordSpec, Reopen, Scenario, Step, Verification,
};
pub use output_dir::OutputDir;
pub use result::{LogState, StepError, StepResult, WriteRow, Written};
pub use root_files::{Identity, write_checkpoints, write_identity};
pub use runner::{Finished, PartitionCheckpoints, ScenarioRun};
pub use templates::{TEMPLATES, Template};
