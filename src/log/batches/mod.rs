//! The walk over a segment: batches in the order they lie in the file, and damage between them.

mod batch;
mod bytes;
mod found;
mod legacy_entry;
mod walk;

use super::Error;
use super::damage::Damage;

pub use batch::{Batch, FirstControlRecord};
pub(super) use bytes::{for_each_piece, slice_at};
pub(super) use found::Found;
pub use legacy_entry::LegacyEntry;
pub use walk::BatchWalk;

/// What lies at one place of a segment.
#[derive(Debug)]
pub enum Entry<'w> {
    /// A batch of magic 2.
    Batch(Batch<'w>),
    /// An entry of magic 0 or 1.
    Legacy(LegacyEntry<'w>),
    /// No batch.
    Damage(Box<Damage>),
}

impl Entry<'_> {
    /// Where it begins, in bytes from the beginning of the file.
    #[must_use]
    pub fn position(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.position,
            Self::Legacy(entry) => entry.position,
            Self::Damage(damage) => damage.position,
        }
    }

    /// The first offset of an entry whose checksum is right; of a wrapper the last one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn readable_offset(&self) -> Result<Option<i64>, Error> {
        Ok(match self {
            Self::Batch(batch) if batch.is_valid()? => Some(batch.header.base_offset()),
            Self::Legacy(entry) if entry.is_valid()? => Some(entry.header.offset()),
            Self::Batch(_) | Self::Legacy(_) | Self::Damage(_) => None,
        })
    }
}
