//! Is it sound: every invariant of the format, per file and across files.
//!
//! One thread walks the headers in the order of the log and feeds what must see them in order:
//! offsets, sequences, transactions, leader epochs, indexes, snapshots. The payloads, and what a
//! batch says of itself, are checked stretch by stretch by all threads. `docs/findings.md` lists
//! the kinds.

mod across;
mod bad_batches;
mod batches;
mod coordinators;
mod damage;
mod ending;
mod equal_records;
mod files;
mod finding;
mod folds;
mod index_findings;
mod indexes;
mod kind;
mod kraft;
mod leader_epochs;
mod live;
mod log_dir;
mod lost_logs;
mod markers;
mod moved_start;
mod offsets;
mod parallel;
mod partition;
mod pass;
mod records;
mod resume;
mod segment;
mod sequences;
mod snapshot_entries;
mod snapshots;
mod stable_offsets;
pub(super) mod start;
mod swaps;
mod transactions;
mod unreadable;

pub use across::AcrossPartitions;
pub use batches::Depth;
pub use coordinators::CoordinatorsKnow;
pub use finding::{AbortArguments, Cost, Finding, Readable, Severity, StartWarning};
pub use kind::Kind;
pub use log_dir::verify_log_dir;
pub use partition::{VerifyOptions, VerifySummary, verify_partition};
pub use unreadable::{BeforeStart, Unreadable, look_before_start};
