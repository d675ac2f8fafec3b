//! What the transaction coordinators know, for partitions to be held against.

use std::sync::Arc;

use crate::report::transaction_state::{CompletedTransactions, TransactionStates};

/// The transactions of all coordinators at hand, as they were before the first partition is walked.
#[derive(Clone, Debug)]
pub struct CoordinatorsKnow {
    /// The transactional ids.
    pub states: Arc<TransactionStates>,
    /// What was ended.
    pub completed: CompletedTransactions,
}
