//! A directory that is filled only when everything for it is on the disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::append::error::Error;
use crate::format::file_name::LogDirFileName;

/// Where everything lies until it is complete: a folder of this name inside the directory, or,
/// behind a dot and the directory's name, beside it. No broker and no reader takes it for a
/// partition.
const STAGING: &str = ".kseg-write-incomplete";

/// A directory under construction. Until [`OutputDir::commit`] its content lies in a staging
/// folder; dropped before that, it is removed.
#[derive(Debug)]
pub struct OutputDir {
    dir: PathBuf,
    staging: PathBuf,
    place: Place,
    is_committed: bool,
}

/// Where the staging folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Beside the directory: one rename makes it the directory, whole or not at all.
    Beside,
    /// Inside, where the folder above cannot be written to: its content is moved piece by piece.
    Inside,
}

impl OutputDir {
    /// Takes a directory that is to be made, or an empty one.
    ///
    /// # Errors
    /// If there is something in it, or it cannot be made.
    pub fn create(dir: &Path) -> Result<Self, Error> {
        let io = |source| Error::io(dir, source);
        let is_there = match fs::read_dir(dir) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let kind = io::ErrorKind::DirectoryNotEmpty;
                    let message = if dir.join(STAGING).exists() {
                        of_another_run(STAGING)
                    } else {
                        "is not empty".to_owned()
                    };
                    return Err(io(io::Error::new(kind, message)));
                }
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(io(error)),
        };
        // Behind links, and with a name of its own, whatever it was called by.
        let dir = &if is_there {
            fs::canonicalize(dir).map_err(io)?
        } else {
            dir.to_owned()
        };
        match Self::beside(dir, is_there)? {
            Some(output) => Ok(output),
            None => Self::inside(dir),
        }
    }

    /// `None` if nothing can be made beside the directory or it cannot be put in place of an
    /// empty one.
    fn beside(dir: &Path, is_there: bool) -> Result<Option<Self>, Error> {
        let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else {
            return Ok(None);
        };
        let above = if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        };
        if is_there && !can_be_replaced(dir) {
            return Ok(None);
        }
        if !is_there {
            fs::create_dir_all(above).map_err(|source| Error::io(above, source))?;
        }
        let mut staging_name = OsString::from(".");
        staging_name.push(name);
        staging_name.push(STAGING);
        let staging = above.join(&staging_name);
        match fs::create_dir(&staging) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let message = of_another_run(&staging_name.to_string_lossy());
                return Err(Error::io(above, io::Error::new(error.kind(), message)));
            }
            // An empty directory can be written to even where the folder above cannot.
            Err(_) if is_there => return Ok(None),
            Err(error) => return Err(Error::io(dir, error)),
        }
        Ok(Some(Self {
            dir: dir.to_owned(),
            staging,
            place: Place::Beside,
            is_committed: false,
        }))
    }

    fn inside(dir: &Path) -> Result<Self, Error> {
        let staging = dir.join(STAGING);
        fs::create_dir(&staging).map_err(|source| {
            let source = if source.kind() == io::ErrorKind::AlreadyExists {
                io::Error::new(source.kind(), of_another_run(STAGING))
            } else {
                source
            };
            Error::io(dir, source)
        })?;
        Ok(Self {
            dir: dir.to_owned(),
            staging,
            place: Place::Inside,
            is_committed: false,
        })
    }

    /// Where to write.
    #[must_use]
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// Brings everything to the disk, then into place.
    ///
    /// Beside the directory that is one rename. From inside, directories come first, then the
    /// files beside them, and `.kafka_cleanshutdown` last of all: a process killed in between
    /// leaves a directory that still holds the staging folder and in which a broker would recover
    /// every log.
    ///
    /// # Errors
    /// If files cannot be written or renamed; what was made is then removed.
    pub fn commit(mut self) -> Result<(), Error> {
        sync(&self.staging)?;
        let synced = match self.place {
            Place::Beside => {
                self.replace()?;
                self.dir.parent().map(Path::to_owned)
            }
            Place::Inside => {
                self.move_all()?;
                Some(self.dir.clone())
            }
        };
        self.is_committed = true;
        let synced = synced.filter(|dir| !dir.as_os_str().is_empty());
        let synced = synced.unwrap_or_else(|| PathBuf::from("."));
        File::open(&synced)
            .and_then(|dir| dir.sync_all())
            .map_err(|source| Error::io(&synced, source))
    }

    fn replace(&self) -> Result<(), Error> {
        let io = |source| Error::io(&self.dir, source);
        // An empty directory gives its permissions to the one that takes its place.
        if let Ok(metadata) = fs::metadata(&self.dir) {
            fs::set_permissions(&self.staging, metadata.permissions()).map_err(io)?;
        }
        fs::rename(&self.staging, &self.dir).map_err(|error| io(filled_meanwhile(error)))
    }

    fn move_all(&self) -> Result<(), Error> {
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
            // A file would be put in place of another.
            let is_free = match fs::symlink_metadata(&to) {
                Ok(_) => Err(filled_meanwhile(io::ErrorKind::DirectoryNotEmpty.into())),
                Err(_) => Ok(()),
            };
            let renamed = is_free.and_then(|()| fs::rename(self.staging.join(&name), &to));
            if let Err(error) = renamed {
                for path in moved {
                    let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
                }
                return Err(io(error));
            }
            moved.push(to);
        }
        fs::remove_dir(&self.staging).map_err(io)
    }
}

/// Says in words that a directory cannot be replaced that was empty when the run began.
fn filled_meanwhile(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::DirectoryNotEmpty {
        let message = "was filled by somebody else meanwhile; left as it is";
        return io::Error::new(error.kind(), message);
    }
    error
}

fn of_another_run(name: &str) -> String {
    format!("holds {name}, of a run that was killed or is still at work: remove it if none is")
}

/// Whether another directory can be renamed over this empty one: not if a file system is mounted
/// on it, and nobody is served if it is the one a shell stands in.
fn can_be_replaced(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let is_here = std::env::current_dir().is_ok_and(|here| here == dir);
    let above = dir.parent().and_then(device);
    !is_here && above.is_some() && above == device(dir)
}

impl Drop for OutputDir {
    fn drop(&mut self) {
        if !self.is_committed {
            // What cannot be removed has a name that says what it is.
            let _ = fs::remove_dir_all(&self.staging);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs into one directory: the second is told so, whenever it comes, and what the first
    /// has made stays.
    #[test]
    fn the_second_of_two_runs_fails_and_destroys_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("out");
        let first = OutputDir::create(&dir).unwrap();
        let told = OutputDir::create(&dir).unwrap_err().to_string();
        assert!(told.contains("still at work"), "{told}");
        fs::write(first.staging().join("log"), b"first").unwrap();
        first.commit().unwrap();
        let told = OutputDir::create(&dir).unwrap_err().to_string();
        assert!(told.contains("not empty"), "{told}");
        assert_eq!(fs::read(dir.join("log")).unwrap(), b"first");
    }

    #[test]
    fn what_comes_into_the_directory_meanwhile_stays() {
        for place in [Place::Beside, Place::Inside] {
            let folder = tempfile::tempdir().unwrap();
            let dir = folder.path().join("out");
            fs::create_dir(&dir).unwrap();
            let late = match place {
                Place::Beside => OutputDir::create(&dir).unwrap(),
                Place::Inside => OutputDir::inside(&dir).unwrap(),
            };
            assert_eq!(late.place, place);
            fs::write(late.staging().join("log"), b"late").unwrap();
            fs::write(dir.join("log"), b"other").unwrap();
            let told = late.commit().unwrap_err().to_string();
            assert!(told.contains("filled by somebody else"), "{told}");
            assert_eq!(fs::read(dir.join("log")).unwrap(), b"other");
            let left = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(left, 1, "{place:?}");
        }
    }
}
