//! What lies beside the partitions of a log directory, as the commands take it.

use std::path::Path;

use kseg::format::file_name::LogDirFileName;
use kseg::log::checkpoints::Checkpoints;
use kseg::log::log_dir::{self, folder_above};

use crate::context::Context;

/// Whether the broker that wrote the directory has left the mark of a clean stop beside it.
pub(crate) fn stopped_cleanly(partition: &Path) -> bool {
    log_dir::stopped_cleanly(partition) == Some(true)
}

/// The checkpoints of a log directory. Those that cannot be read are complained of.
pub(crate) fn read_checkpoints(dir: &Path, context: &Context) -> Checkpoints {
    let checkpoints = Checkpoints::read(dir, context.io);
    for problem in &checkpoints.problems {
        context.warn(&format!("{problem}; taken as not there"));
    }
    checkpoints
}

/// A partition directory's checkpoints lie in the folder above it.
pub(crate) fn checkpoints_above(path: &Path, context: &Context) -> Checkpoints {
    folder_above(path).map_or_else(Checkpoints::default, |above| {
        context.odd_root_files(&above);
        read_checkpoints(&above, context)
    })
}

/// Says that the next start forgets what producers wrote to a partition. It is shown as the log has
/// it: that is what the broker knew that stopped.
pub(crate) fn warn_forgotten_at_start(partition: &Path, context: &Context) {
    context.warn(&format!(
        "{}: {} is there and no snapshot: the next start forgets all producers and open \
         transactions, and read_committed then reads to the high watermark; --as-loaded shows \
         that",
        partition.display(),
        LogDirFileName::CleanShutdown,
    ));
}
