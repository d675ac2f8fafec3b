//! Where a reader can go on behind bytes that it cannot read.

use crate::log::Error;
use crate::log::batches::BatchWalk;
use crate::log::partition_walk::OpenSegment;

/// Bytes that are looked through at most: each bad batch of a long run looks for itself.
const LOOK_AHEAD: u64 = 16 * 1024 * 1024;

/// What comes behind a place of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// A batch that can be read, or the next segment.
    At {
        /// Its first offset.
        offset: i64,
        /// Byte position in the segment.
        position: u64,
    },
    /// Nothing: the log ends, with or without bytes that cannot be read.
    End,
    /// Nothing near.
    Far,
}

impl Resume {
    /// What comes from `position` of a segment on. `next_base` is where the next segment begins.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn find(
        segment: &OpenSegment,
        position: u64,
        next_base: Option<i64>,
    ) -> Result<Self, Error> {
        let mut walk = BatchWalk::starting_at(&segment.file, position);
        let mut at = position;
        while let Some(entry) = walk.next_entry() {
            if let Some(offset) = entry?.readable_offset()? {
                return Ok(Self::At {
                    offset,
                    position: at,
                });
            }
            at = walk.position();
            if at - position > LOOK_AHEAD {
                return Ok(Self::Far);
            }
        }
        Ok(next_base.map_or(Self::End, |offset| Self::At {
            offset,
            position: at,
        }))
    }

    /// Its offset, where that is known.
    pub(super) fn offset(self) -> Option<i64> {
        match self {
            Self::At { offset, .. } => Some(offset),
            Self::End | Self::Far => None,
        }
    }

    /// The offset to go on at behind a bad batch that ends at `position`. Its header names one,
    /// which counts if it fits the batch that follows.
    pub(super) fn behind(self, position: u64, offsets: std::ops::Range<i64>) -> Option<i64> {
        let own = Some(offsets.end).filter(|_| !offsets.is_empty());
        match self {
            Self::At {
                offset,
                position: at,
            } if at == position => own.filter(|own| *own <= offset).or(Some(offset)),
            Self::At { offset, .. } => Some(offset),
            Self::End => own,
            Self::Far => None,
        }
    }

    /// What an operator reads of it.
    pub(super) fn advice(next_offset: Option<i64>) -> String {
        match next_offset {
            Some(next) => format!("until then a consumer can go on at {next}"),
            None => "the batches behind it cannot be read either".to_owned(),
        }
    }
}
