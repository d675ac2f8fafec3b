//! The directory a start leaves, written out: as it is once the broker has stopped cleanly again.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::DryRun;
use crate::append::error::Error;
use crate::log;

/// Bytes copied at once.
const PIECE: usize = 1024 * 1024;

impl DryRun {
    /// Writes every file of the directory as it is after the start and a clean stop into `to`,
    /// which is there: indexes without room behind their entries, a snapshot at the log end.
    ///
    /// # Errors
    /// If a file cannot be read or written, or the partition does not come up.
    pub fn write_to(&self, to: &Path) -> Result<(), Error> {
        let overlay = &self.overlay;
        for (name, _) in overlay.files() {
            let path = to.join(name);
            let Some(id) = overlay.find(name) else {
                continue;
            };
            let from = overlay.open(id)?;
            let mut file = File::create_new(&path).map_err(|source| Error::io(&path, source))?;
            copy(&from, &mut file).map_err(|error| match error {
                Failure::Read(error) => Error::Files(error),
                Failure::Write(source) => Error::io(&path, source),
            })?;
            // Zeros that count as entries.
            file.set_len(overlay.len(id))
                .and_then(|()| file.sync_all())
                .map_err(|source| Error::io(&path, source))?;
        }
        Ok(())
    }
}

enum Failure {
    Read(log::Error),
    Write(io::Error),
}

fn copy(from: &crate::log::mapped_file::MappedFile, to: &mut File) -> Result<(), Failure> {
    let mut piece = vec![0; PIECE.min(usize::try_from(from.len()).unwrap_or(PIECE))];
    let mut position = 0;
    while position < from.len() {
        let left = usize::try_from(from.len() - position).unwrap_or(PIECE);
        let part = piece.get_mut(..left.min(PIECE)).unwrap_or_default();
        from.read_exact_at(part, position).map_err(Failure::Read)?;
        to.write_all(part).map_err(Failure::Write)?;
        position += part.len() as u64;
    }
    Ok(())
}
