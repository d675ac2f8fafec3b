//! Small text files that are replaced as a whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::Error;

/// Writes a file beside `path` and renames it into place (`CheckpointFile.write`,
/// `PartitionMetadataFile.maybeFlush`).
pub(super) fn replace(path: &Path, content: &str, fsync: bool) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let io = |source| Error::io(&temporary, source);
    let mut file = File::create(&temporary).map_err(io)?;
    file.write_all(content.as_bytes()).map_err(io)?;
    if fsync {
        file.sync_all().map_err(io)?;
    }
    fs::rename(&temporary, path).map_err(|source| Error::io(path, source))
}

/// Makes the file, empty, if it is not there (`CheckpointFile` constructor).
pub(super) fn create_if_absent(path: &Path) -> Result<(), Error> {
    File::options()
        .append(true)
        .create(true)
        .open(path)
        .map(drop)
        .map_err(|source| Error::io(path, source))
}

/// Removes a file; that it is not there is no error.
pub(super) fn remove_if_exists(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(path, error)),
    }
}
