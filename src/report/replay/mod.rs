//! What would a leader have answered: for every batch of a log, and for batches that were never
//! written.
//!
//! Each verdict comes in three views: of the broker that never stopped, which remembers five
//! batches of a producer; of one that stopped cleanly and started again, which remembers one; and
//! of one that lost its state.

mod logged;
mod question;
mod request;
mod row;

pub use logged::{ReplayCounts, ReplayOptions, replay_log};
pub use question::{Questions, ask};
pub use request::{Append, AppendFrom, EndTxnMarker, Request, Verification, parse_requests, retry};
pub use row::{
    Answer, ErrorRow, JudgedBatch, ReplayRow, ReplayRowType, ReplaySource, RuleNumbers, StoredAt,
    ViewRow, Views,
};
