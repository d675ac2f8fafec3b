//! What the transaction coordinators know, from the log directories around the PATHs.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kseg::log::log_dir::LogPath;
use kseg::report::internal_records::UnreadRecords;
use kseg::report::transaction_state::{
    CompletedTransaction, CompletedTransactions, TransactionStates,
};
use kseg::report::verify::CoordinatorsKnow;

use crate::cli::PathArgs;
use crate::context::Context;
use crate::render::text::plural;

/// The partitions of `__transaction_state`, read when they are first asked for.
pub(crate) struct Coordinators {
    log_dirs: Vec<PathBuf>,
    states: OnceCell<Option<Arc<TransactionStates>>>,
}

impl Coordinators {
    /// Looks in each log directory, and for a partition or a file in the log directory it is in.
    pub(crate) fn around(paths: &PathArgs) -> Self {
        let mut log_dirs: Vec<PathBuf> = paths.paths.iter().filter_map(|it| around(it)).collect();
        log_dirs.sort();
        log_dirs.dedup();
        Self {
            log_dirs,
            states: OnceCell::new(),
        }
    }

    /// What they know; `None` where no `__transaction_state` is at hand or it cannot be read, which
    /// is said on standard error.
    pub(crate) fn states(&self, context: &Context) -> Option<&Arc<TransactionStates>> {
        self.states
            .get_or_init(|| self.load(context, |_| {}))
            .as_ref()
    }

    /// As [`Coordinators::states`], with the transactions that were ended.
    pub(crate) fn with_completed(&self, context: &Context) -> Option<CoordinatorsKnow> {
        let mut completed = CompletedTransactions::default();
        let states = self.load(context, |it| completed.add(it))?;
        if completed.forgotten > 0 {
            context.warn(&format!(
                "too many ended transactions: {} of their markers are not looked for",
                completed.forgotten
            ));
        }
        Some(CoordinatorsKnow { states, completed })
    }

    fn load(
        &self,
        context: &Context,
        completed: impl FnMut(&CompletedTransaction<'_>),
    ) -> Option<Arc<TransactionStates>> {
        let states = match TransactionStates::load_with(&self.log_dirs, context.io, completed) {
            Ok(states) => states?,
            Err(error) => {
                context.warn(&format!("{error}; transactional ids are not looked up"));
                return None;
            }
        };
        for unread in states.unread() {
            warn_unread(unread, context);
        }
        Some(Arc::new(states))
    }
}

/// Says that an answer from an internal topic may lack something.
pub(crate) fn warn_unread(unread: &UnreadRecords, context: &Context) {
    context.warn(&format!(
        "{}: passed over {} that cannot be read, the first: {}",
        unread.path.display(),
        plural(unread.count, "record or batch", "records or batches"),
        unread.first
    ));
}

/// The log directory that a path is, or lies in. What is wrong with the path is for
/// [`crate::inputs::Inputs`] to say.
fn around(path: &Path) -> Option<PathBuf> {
    let levels = match LogPath::discover(path).ok()? {
        LogPath::LogDir(_) => 0,
        LogPath::Partition(_) => 1,
        LogPath::File(_) => 2,
    };
    let path = std::fs::canonicalize(path).ok()?;
    Some(path.ancestors().nth(levels)?.to_owned())
}
