//! Batches at offsets that lie before them already: what of them is told, and whether the content
//! is the same.

use super::finding::{Detail, Finding, GapClass, GapKind};
use super::offsets::{Offsets, Placed, Previous, gap};
use crate::log::Error;
use crate::log::batches::{BatchWalk, Entry};
use crate::log::partition_walk::{find_batch, open_segment};

/// Overlaps whose content is compared; each costs a walk through a segment.
const MAX_COMPARED: usize = 16;

impl Offsets<'_> {
    pub(super) fn overlap(
        &mut self,
        placed: Placed,
        previous: Previous,
        found: &mut Vec<Finding>,
    ) -> Result<(), Error> {
        let last_offset = self.next_offset.saturating_sub(1);
        let is_equal = if self.compared < MAX_COMPARED {
            self.compared += 1;
            self.is_equal_before(placed, last_offset)?
        } else {
            None
        };
        if is_equal == Some(true) {
            self.equal_up_to = last_offset;
        }
        found.push(Finding {
            kind: GapKind::Repeated,
            segment: Some(placed.segment),
            position: Some(placed.position),
            detail: Detail::Overlap {
                previous_position: previous.position,
                previous_last_offset: previous.last_offset,
                is_equal,
            },
            ..gap(
                placed.first_offset,
                last_offset,
                GapClass::OffsetsNotIncreasing,
            )
        });
        Ok(())
    }

    /// Whether the batches from `placed` to `last_offset` are those that lie before it at the
    /// same offsets. Sizes and checksums are compared: the checksum covers all but the offset
    /// and the leader epoch.
    fn is_equal_before(&self, placed: Placed, last_offset: i64) -> Result<Option<bool>, Error> {
        let Some(place) = find_batch(self.dir, self.io, placed.first_offset)? else {
            return Ok(None);
        };
        let Some(segment) = self.dir.segments.get(placed.segment) else {
            return Ok(None);
        };
        if place.segment_base_offset != segment.base_offset || place.position >= placed.position {
            return Ok(None);
        }
        let Some(opened) = open_segment(self.dir, segment, self.io)? else {
            return Ok(None);
        };
        let mut earlier = BatchWalk::starting_at(&opened.file, place.position);
        let mut later = BatchWalk::starting_at(&opened.file, placed.position);
        let next = |walk: &mut BatchWalk<'_>| match walk.next_entry().transpose()? {
            Some(Entry::Batch(batch)) => Ok::<_, Error>(Some((
                batch.header.base_offset(),
                batch.size_in_bytes(),
                batch.header.crc(),
                batch.header.last_offset(),
            ))),
            Some(Entry::Legacy(_) | Entry::Damage(_)) | None => Ok(None),
        };
        loop {
            let (old, new) = (next(&mut earlier)?, next(&mut later)?);
            match (old, new) {
                (Some(old), Some(new)) if old == new => {
                    if new.3 >= last_offset {
                        return Ok(Some(true));
                    }
                }
                _ => return Ok(Some(false)),
            }
        }
    }
}
