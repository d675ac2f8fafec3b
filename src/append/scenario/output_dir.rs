//! A directory that is filled only when everything for it is on the disk.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::append::error::Error;
use crate::format::file_name::LogDirFileName;

/// Where everything lies until it is complete.
const STAGING: &str = ".kseg-write-incomplete";

/// A directory under construction. Until [`OutputDir::commit`] its content lies in a folder inside
/// it whose name no broker and no reader takes for a partition; dropped before that, it is
/// removed.
#[derive(Debug)]
pub struct OutputDir {
    dir: PathBuf,
    staging: PathBuf,
    was_made: bool,
    is_committed: bool,
}

impl OutputDir {
    /// Makes the directory, or takes an empty one.
    ///
    /// # Errors
    /// If there is something in it, or it cannot be made.
    pub fn create(dir: &Path) -> Result<Self, Error> {
        let io = |source| Error::io(dir, source);
        let was_made = match fs::read_dir(dir) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let message = if dir.join(STAGING).exists() {
                        format!("holds {STAGING}, left by a run that was killed: remove it first")
                    } else {
                        "is not empty".to_owned()
                    };
                    let kind = io::ErrorKind::DirectoryNotEmpty;
                    return Err(io(io::Error::new(kind, message)));
                }
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(dir).map_err(io)?;
                true
            }
            Err(error) => return Err(io(error)),
        };
        let staging = dir.join(STAGING);
        fs::create_dir(&staging).map_err(io)?;
        Ok(Self {
            dir: dir.to_owned(),
            staging,
            was_made,
            is_committed: false,
        })
    }

    /// Where to write.
    #[must_use]
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// Brings everything to the disk, then into place: directories first, then the files beside
    /// them, and `.kafka_cleanshutdown` last of all. A process killed in between leaves a directory
    /// that still holds the staging folder and in which a broker would recover every log.
    ///
    /// # Errors
    /// If files cannot be written or renamed; the directory is then removed.
    pub fn commit(mut self) -> Result<(), Error> {
        sync(&self.staging)?;
        let io = |source| Error::io(&self.dir, source);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.staging).map_err(io)? {
            let entry = entry.map_err(io)?;
            let is_file = entry.file_type().map_err(io)?.is_file();
            let name = entry.file_name();
            let is_clean_shutdown =
                name.to_str().map(LogDirFileName::parse) == Some(LogDirFileName::CleanShutdown);
            entries.push((is_file, is_clean_shutdown, name));
        }
        entries.sort();
        let mut moved = Vec::new();
        for (_, _, name) in entries {
            let to = self.dir.join(&name);
            if let Err(error) = fs::rename(self.staging.join(&name), &to) {
                for path in moved {
                    let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                }
                return Err(io(error));
            }
            moved.push(to);
        }
        fs::remove_dir(&self.staging).map_err(io)?;
        self.is_committed = true;
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(io)
    }
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        if !self.is_committed {
            // What cannot be removed has a name that says what it is.
            let _ = fs::remove_dir_all(&self.staging);
            if self.was_made {
                let _ = fs::remove_dir(&self.dir);
            }
        }
    }
}

fn sync(dir: &Path) -> Result<(), Error> {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        let io = |source| Error::io(&dir, source);
        for entry in fs::read_dir(&dir).map_err(io)? {
            let entry = entry.map_err(io)?;
            if entry.file_type().map_err(io)?.is_dir() {
                dirs.push(entry.path());
            } else {
                File::open(entry.path())
                    .and_then(|file| file.sync_all())
                    .map_err(io)?;
            }
        }
        File::open(&dir)
            .and_then(|dir| dir.sync_all())
            .map_err(io)?;
    }
    Ok(())
}
