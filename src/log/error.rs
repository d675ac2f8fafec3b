//! Why files could not be looked at. Damage inside a file that could is a finding, not an error.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::DecodeError;

/// kseg could not look. Every message names the path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {}", path.display(), describe(source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A path that should be a file is something else.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A path that should be a directory is something else.
    #[error("{}: not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A directory that is neither a partition nor a log directory.
    #[error("{}: holds neither segment files nor partition directories", path.display())]
    NotALogDir {
        /// The directory.
        path: PathBuf,
        /// Directories inside it that are.
        candidates: Vec<PathBuf>,
    },
    /// A file whose name says nothing about its format.
    #[error("{}: not a file that Kafka keeps in a log directory", path.display())]
    UnknownFile {
        /// The file.
        path: PathBuf,
    },
    /// A file became shorter while it was read, or a directory never came to rest.
    #[error(
        "{}: changed while reading{}",
        path.display(),
        if path.is_dir() { "" } else { ": the file was cut short" }
    )]
    ChangedWhileReading {
        /// The file or directory.
        path: PathBuf,
    },
    /// A side file whose bytes do not hold its format.
    #[error("{}: {source}", path.display())]
    Decode {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
}

impl Error {
    /// An I/O error on `path`.
    #[must_use]
    pub fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    /// Whether this process, or all of them, have too many files open.
    pub(super) fn is_too_many_open_files(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        let code = source.raw_os_error();
        code == Some(libc::EMFILE) || code == Some(libc::ENFILE)
    }

    /// Whether the file or directory is not there (any more).
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The operating system's words without Rust's "(os error 2)".
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => text.to_owned(),
    }
}
