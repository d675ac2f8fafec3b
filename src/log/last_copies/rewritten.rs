//! Whether a log has gone on with other batches since a `.log` of it was set aside: what is in that
//! one had been cut off (`LocalLog.truncateTo`), and was missed by nobody.

use super::leftovers::segments_with;
use crate::format::record_batch::RecordBatchHeader;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// What a cleaner leaves as it is of a batch, and of an older message its offset alone.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    first: i64,
    last: i64,
    producer: Option<(i64, i16, i32)>,
    leader_epoch: Option<i32>,
}

impl Identity {
    fn of_batch(header: &RecordBatchHeader) -> Self {
        Self {
            first: header.base_offset(),
            last: header.last_offset(),
            producer: Some((
                header.producer_id(),
                header.producer_epoch(),
                header.base_sequence(),
            )),
            leader_epoch: Some(header.partition_leader_epoch()),
        }
    }

    fn of_message(offset: i64) -> Self {
        Self {
            first: offset,
            last: offset,
            producer: None,
            leader_epoch: None,
        }
    }
}

/// Whether `after` has a segment that begins inside of a `.log` with these offsets, or a batch at
/// one of them that the `.log` has not.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn is_rewritten(
    log: &MappedFile,
    base_offset: i64,
    (first, last): (i64, i64),
    after: &PartitionDir,
    io: Io,
) -> Result<bool, Error> {
    let inside = after
        .segments
        .partition_point(|it| it.base_offset <= base_offset);
    let behind = after.segments.get(inside);
    if behind.is_some_and(|it| it.base_offset <= last) {
        return Ok(true);
    }
    let mut known = BatchWalk::new(log);
    let mut at = next(&mut known)?;
    for segment in segments_with(after, first, last) {
        let Some(entry) = after.file(segment.log) else {
            continue;
        };
        let Some(file) = after.open_file(entry, io)? else {
            continue;
        };
        let mut walk = BatchWalk::new(&file);
        while let Some(entry) = walk.next_entry() {
            let entry = entry?;
            let Some(it) = identity(&entry) else {
                continue;
            };
            if it.first > last {
                break;
            }
            if it.last < first {
                continue;
            }
            while at.is_some_and(|known| known.first < it.first) {
                at = next(&mut known)?;
            }
            if at != Some(it) && is_valid(&entry)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn next(walk: &mut BatchWalk<'_>) -> Result<Option<Identity>, Error> {
    while let Some(entry) = walk.next_entry() {
        if let Some(it) = identity(&entry?) {
            return Ok(Some(it));
        }
    }
    Ok(None)
}

fn identity(entry: &Entry<'_>) -> Option<Identity> {
    match entry {
        Entry::Batch(batch) => Some(Identity::of_batch(batch.header)),
        Entry::Legacy(entry) => Some(Identity::of_message(entry.header.offset())),
        Entry::Damage(_) => None,
    }
}

/// Whether what its header says can be believed.
fn is_valid(entry: &Entry<'_>) -> Result<bool, Error> {
    match entry {
        Entry::Batch(batch) => batch.is_valid(),
        Entry::Legacy(entry) => entry.is_valid(),
        Entry::Damage(_) => Ok(false),
    }
}
