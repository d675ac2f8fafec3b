//! What several PATHs lead to is looked at once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What has been handed out. A partition, a file or a log directory that is reached again, by
/// whatever names, is passed over: twice it would count twice.
pub(crate) struct Seen(Option<HashSet<PathBuf>>);

impl Seen {
    /// One PATH alone leads to nothing twice.
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        Self((paths.len() > 1).then(HashSet::new))
    }

    /// Whether a directory comes for the first time.
    pub(crate) fn is_new(&mut self, path: &Path) -> bool {
        self.0.as_mut().is_none_or(|seen| seen.insert(real(path)))
    }

    /// Whether a file comes for the first time, its directory included.
    pub(crate) fn is_new_file(&mut self, path: &Path) -> bool {
        self.0.as_mut().is_none_or(|seen| {
            let path = real(path);
            let is_in_seen = path.parent().is_some_and(|above| seen.contains(above));
            !is_in_seen && seen.insert(path)
        })
    }
}

/// The path without links and detours, as far as it can be told.
pub(crate) fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
