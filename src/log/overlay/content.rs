//! What a file of an overlay holds.

use std::ffi::OsString;
use std::sync::Arc;

use super::remade::{Recipe, Remade};

/// Bytes of a file on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Its name in the directory.
    pub(super) name: OsString,
    /// Where the bytes begin.
    pub(super) start: u64,
    /// How many there are.
    pub(super) len: u64,
}

/// The content of a file: `head`, then what of the base lies behind as many bytes, then zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) base: Option<Base>,
    pub(super) head: Head,
    pub(super) len: u64,
    /// How the head can be made again.
    pub(super) recipe: Option<Arc<Recipe>>,
}

/// Bytes that were written to a file.
#[derive(Clone, Debug)]
pub(super) enum Head {
    /// In memory. The overlays of one dry run share them.
    Kept(Arc<Vec<u8>>),
    /// Made again when needed; so many of them count.
    Remade(Arc<Remade>, usize),
}

impl Default for Head {
    fn default() -> Self {
        Self::Kept(Arc::default())
    }
}

impl Head {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Kept(bytes) => bytes.len(),
            Self::Remade(_, len) => *len,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn truncate(&mut self, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len < self.len() {
            match self {
                _ if len == 0 => *self = Self::default(),
                Self::Kept(bytes) => Arc::make_mut(bytes).truncate(len),
                Self::Remade(_, counted) => *counted = len,
            }
        }
    }
}

impl Content {
    /// Bytes that are more than room set aside.
    pub(super) fn data_len(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |base| base.len);
        base.max(self.head.len() as u64).min(self.len)
    }
}
