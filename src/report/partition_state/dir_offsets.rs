//! Places of offsets, for the stable offsets of a state.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::find_batch;
use crate::log::{Error, Io};
use crate::state::{LogOffsetMetadata, LogOffsets};

/// Looks offsets up in the files of a partition.
pub(super) struct DirOffsets<'d> {
    dir: &'d PartitionDir,
    io: Io,
    log_end_offset: i64,
    /// Places that are known; a look-up reads a segment from its beginning.
    known: RefCell<HashMap<i64, LogOffsetMetadata>>,
    failed: RefCell<Option<Error>>,
}

impl<'d> DirOffsets<'d> {
    /// `known` are places that need no look-up.
    pub(super) fn new(
        dir: &'d PartitionDir,
        io: Io,
        log_end_offset: i64,
        known: HashMap<i64, LogOffsetMetadata>,
    ) -> Self {
        Self {
            dir,
            io,
            log_end_offset,
            known: RefCell::new(known),
            failed: RefCell::new(None),
        }
    }

    /// The error of a look-up, if one failed.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}

impl LogOffsets for DirOffsets<'_> {
    fn log_end_offset(&self) -> LogOffsetMetadata {
        LogOffsetMetadata::offset_only(self.log_end_offset)
    }

    fn maybe_convert_to_offset_metadata(&self, offset: i64) -> LogOffsetMetadata {
        let first = self
            .dir
            .segments
            .first()
            .map_or(0, |segment| segment.base_offset);
        if offset < first || offset >= self.log_end_offset {
            return LogOffsetMetadata::offset_only(offset);
        }
        if let Some(known) = self.known.borrow().get(&offset) {
            return *known;
        }
        match find_batch(self.dir, self.io, offset) {
            Ok(Some(place)) => {
                let found = LogOffsetMetadata {
                    message_offset: place.base_offset,
                    segment_base_offset: place.segment_base_offset,
                    relative_position_in_segment: i32::try_from(place.position).unwrap_or(i32::MAX),
                };
                self.known.borrow_mut().insert(offset, found);
                found
            }
            Ok(None) => self.log_end_offset(),
            Err(error) => {
                self.failed.replace(Some(error));
                LogOffsetMetadata::offset_only(offset)
            }
        }
    }
}
