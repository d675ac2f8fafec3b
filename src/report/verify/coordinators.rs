//! What the transaction coordinators know, for partitions to be held against.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use crate::log::checkpoints::SETTLING;
use crate::report::transaction_state::{CompletedTransactions, TransactionStates};

/// The transactions of all coordinators at hand, as they were before the first partition is walked.
#[derive(Clone, Debug)]
pub struct CoordinatorsKnow {
    /// The transactional ids.
    pub states: Arc<TransactionStates>,
    /// What was ended.
    pub completed: CompletedTransactions,
    /// When the reading of them began.
    pub read_at: SystemTime,
}

impl CoordinatorsKnow {
    /// Whether a `.log` may have been written to since: a transaction in it may have begun after
    /// what is known here. File times are some milliseconds behind the clock.
    pub(super) fn are_behind(&self, log: &Path) -> bool {
        let written = std::fs::metadata(log).and_then(|it| it.modified());
        let age = written.map(|at| self.read_at.duration_since(at));
        !age.is_ok_and(|age| age.is_ok_and(|age| age > SETTLING))
    }
}
