//! The longest stretch of a log that no `read_committed` consumer sees anything of.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::format::control_record::ControlRecordType;
use crate::log::batches::Entry;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};

/// A row of a `.txnindex` as far as a consumer looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbortedFrom {
    /// First offset.
    pub first_offset: i64,
    /// Whose transaction.
    pub producer_id: i64,
}

/// First and last offset of the longest run of batches in which a consumer finds no record:
/// aborted data, control batches, batches emptied by the cleaner. `None` if every batch has a
/// record for it.
///
/// `aborted` is what the index has, in any order. A batch is passed over as a consumer does it: if
/// it is transactional and its producer has an aborted transaction that begins no later and whose
/// ABORT marker is still to come (`CompletedFetch.isBatchAborted`).
///
/// # Errors
/// If a segment cannot be read.
pub fn longest_invisible_run(
    dir: &PartitionDir,
    io: Io,
    mut aborted: Vec<AbortedFrom>,
) -> Result<Option<(i64, i64)>, Error> {
    aborted.sort_unstable();
    let mut to_come = aborted.iter().peekable();
    let mut producers: HashSet<i64> = HashSet::new();
    let mut longest: Option<(i64, i64)> = None;
    let mut run: Option<(i64, i64)> = None;
    walk_partition(dir, io, 0, |_, entry| {
        let is_invisible = match &entry {
            Entry::Batch(batch) => {
                let header = batch.header;
                while let Some(next) = to_come.next_if(|it| it.first_offset <= header.last_offset())
                {
                    producers.insert(next.producer_id);
                }
                let marker = batch.marker()?;
                if marker.is_some_and(|it| it.control_type == ControlRecordType::ABORT) {
                    producers.remove(&header.producer_id());
                }
                let is_aborted = header.attributes().is_transactional()
                    && producers.contains(&header.producer_id());
                let is_invisible =
                    header.attributes().is_control() || header.records_count() == 0 || is_aborted;
                is_invisible.then(|| (header.base_offset(), header.last_offset()))
            }
            Entry::Legacy(_) | Entry::Damage(_) => None,
        };
        run = match (run, is_invisible) {
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (_, is_invisible) => is_invisible,
        };
        let length = |run: Option<(i64, i64)>| run.map(|(first, last)| last.saturating_sub(first));
        if length(run) > length(longest) {
            longest = run;
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(longest)
}
