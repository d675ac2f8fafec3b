//! A folder that a command fills, new or empty.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kseg::format::file_name::PartitionDirName;
use kseg::log::log_dir::{LogDir, LogPath};

/// A folder that appears under its name when everything is in it.
pub(crate) struct NewFolder {
    path: PathBuf,
    /// Beside it, gone with this value unless it was given its name.
    temporary: PathBuf,
    places: BTreeSet<PathBuf>,
    finished: bool,
}

impl NewFolder {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        match fs::read_dir(path) {
            Ok(mut entries) => {
                anyhow::ensure!(entries.next().is_none(), "{}: not empty", path.display());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
        let name = path.file_name().with_context(|| {
            format!(
                "{}: has no name of its own; name a new folder",
                path.display()
            )
        })?;
        let name = format!(".{}.kseg-{}", name.to_string_lossy(), std::process::id());
        let temporary = path.with_file_name(name);
        let made = fs::create_dir(&temporary);
        made.with_context(|| match path.parent() {
            Some(above) if !above.as_os_str().is_empty() && !above.is_dir() => format!(
                "{}: cannot be made: {} is no directory; make that first",
                path.display(),
                above.display()
            ),
            Some(_) | None => path.display().to_string(),
        })?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            places: BTreeSet::new(),
            finished: false,
        })
    }

    /// Where the files of a partition go, under the name of its directory.
    pub(crate) fn place_for(
        &mut self,
        partition: &Path,
        straight: bool,
    ) -> anyhow::Result<PathBuf> {
        self.place_named(partition, name_of(partition), straight)
    }

    /// Where the files of a partition go, under another name than that of its directory.
    pub(crate) fn place_named(
        &mut self,
        partition: &Path,
        name: OsString,
        straight: bool,
    ) -> anyhow::Result<PathBuf> {
        if straight {
            return Ok(self.temporary.clone());
        }
        let place = self.temporary.join(name);
        anyhow::ensure!(
            self.places.insert(place.clone()),
            "{}: another PATH has a partition of this name; take them one by one",
            partition.display()
        );
        fs::create_dir(&place).with_context(|| place.display().to_string())?;
        Ok(place)
    }

    /// Where it is filled.
    pub(crate) fn staging(&self) -> &Path {
        &self.temporary
    }

    /// Gives the folder its name. An empty one of that name is replaced.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        sync_folder(&self.temporary)?;
        fs::rename(&self.temporary, &self.path).map_err(|error| {
            if error.kind() == io::ErrorKind::DirectoryNotEmpty {
                let path = self.path.display();
                return anyhow::anyhow!(
                    "{path}: was filled by somebody else meanwhile; left as it is"
                );
            }
            anyhow::Error::new(error).context(self.path.display().to_string())
        })?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about what cannot be removed; its name says whose it is.
            let _ = fs::remove_dir_all(&self.temporary);
        }
    }
}

/// The name of a partition's directory. A link has its own, as it has for a broker
/// (`LocalLog.parseTopicPartitionName`), unless that is no partition's.
fn name_of(partition: &Path) -> OsString {
    let named = partition.file_name();
    let is_partition = |name: &&OsStr| PartitionDirName::parse(&name.to_string_lossy()).is_some();
    if let Some(name) = named.filter(is_partition) {
        return name.to_owned();
    }
    let resolved = fs::canonicalize(partition).unwrap_or_else(|_| partition.to_owned());
    resolved.file_name().unwrap_or_default().to_owned()
}

pub(crate) fn sync_folder(path: &Path) -> anyhow::Result<()> {
    let sync = || File::open(path)?.sync_all();
    sync().with_context(|| path.display().to_string())
}

/// Whether the only thing asked for is one partition directory.
pub(crate) fn straight_into_folder(paths: &[PathBuf]) -> bool {
    match paths {
        [path] => matches!(LogPath::discover(path), Ok(LogPath::Partition(_))),
        _ => false,
    }
}

/// A folder in a broker's log directory keeps the broker from starting, and one inside a
/// partition is as bad.
pub(crate) fn refuse_to_write_beside_the_log(path: &Path, out: &Path) -> anyhow::Result<()> {
    let Ok(path) = fs::canonicalize(path) else {
        return Ok(());
    };
    let above = match out.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        Some(_) | None => Path::new("."),
    };
    let Ok(above) = fs::canonicalize(above) else {
        return Ok(());
    };
    let log_dir = path
        .parent()
        .filter(|parent| LogDir::open(parent).is_ok_and(|dir| dir.has_known_file()));
    let forbidden = [Some(path.as_path()), log_dir];
    for forbidden in forbidden.into_iter().flatten() {
        anyhow::ensure!(
            !above.starts_with(forbidden),
            "{}: lies in {}, which kseg only reads",
            out.display(),
            forbidden.display()
        );
    }
    Ok(())
}
