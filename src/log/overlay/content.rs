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

/// The content of a file: the base, with what was written over it or behind it, and zeros where
/// neither is.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) base: Option<Base>,
    pub(super) written: Written,
    /// Where in the file these bytes begin.
    pub(super) written_at: u64,
    pub(super) len: u64,
    /// How the written bytes can be made again.
    pub(super) recipe: Option<Arc<Recipe>>,
}

/// Bytes that were written to a file.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// In memory. The overlays of one dry run share them.
    Kept(Arc<Vec<u8>>),
    /// Made again when needed; so many of them count.
    Remade(Arc<Remade>, usize),
}

impl Default for Written {
    fn default() -> Self {
        Self::Kept(Arc::default())
    }
}

impl Written {
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
        base.max(self.written_end()).min(self.len)
    }

    /// Where the written bytes end; 0 if there are none.
    pub(super) fn written_end(&self) -> u64 {
        match self.written.len() as u64 {
            0 => 0,
            size => self.written_at.saturating_add(size),
        }
    }

    /// Forgets what was written from `len` on.
    pub(super) fn cut_written(&mut self, len: u64) {
        self.written.truncate(len.saturating_sub(self.written_at));
    }
}
