//! Where a reader can go on behind bytes that it cannot read.

use std::sync::{Mutex, PoisonError};

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

/// What has been looked through of a segment, for all threads: the bad batches of a long run look
/// for the same one.
#[derive(Debug, Default)]
pub(super) struct Searched(Mutex<Option<Stretch>>);

/// Bytes in which no batch can be read.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    to: u64,
    /// First offset of what can be read at `to`; `None` if it was not looked at.
    next: Option<i64>,
}

impl Searched {
    fn at(&self, position: u64) -> Option<Stretch> {
        let stretch = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stretch.filter(|it| (it.from..=it.to).contains(&position))
    }

    fn add(&self, new: Stretch) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(match *known {
            Some(old) if old.from <= new.to && new.from <= old.to => {
                let longer = if old.to > new.to { old } else { new };
                Stretch {
                    from: old.from.min(new.from),
                    ..longer
                }
            }
            Some(_) | None => new,
        });
    }
}

impl Resume {
    /// What comes from `position` of a segment on. `next_base` is where the next segment begins.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn find(
        segment: &OpenSegment,
        searched: &Searched,
        position: u64,
        next_base: Option<i64>,
    ) -> Result<Self, Error> {
        let known = searched.at(position);
        let mut at = known.map_or(position, |it| it.to);
        let mut next = known.and_then(|it| it.next);
        let mut walk = BatchWalk::starting_at(&segment.file, at);
        while next.is_none() && at - position <= LOOK_AHEAD {
            let Some(entry) = walk.next_entry() else {
                next = next_base;
                break;
            };
            next = entry?.readable_offset()?;
            if next.is_none() {
                at = walk.position();
            }
        }
        searched.add(Stretch {
            from: position,
            to: at,
            next,
        });
        Ok(match next {
            _ if at - position > LOOK_AHEAD => Self::Far,
            Some(offset) => Self::At {
                offset,
                position: at,
            },
            None => Self::End,
        })
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
