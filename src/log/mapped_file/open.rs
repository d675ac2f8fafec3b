//! Opening a file so that nothing about it changes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::log::Error;

/// Opens a regular file for reading. Nothing else is opened: opening alone may make a device do
/// something.
pub(in crate::log) fn open_regular(path: &Path) -> Result<File, Error> {
    let io = |source| Error::io(path, source);
    let not_a_file = || Error::NotAFile {
        path: path.to_owned(),
    };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(not_a_file());
    }
    let file = open_read_only(path).map_err(io)?;
    // Something else may have taken the name meanwhile.
    if !file.metadata().map_err(io)?.is_file() {
        return Err(not_a_file());
    }
    Ok(file)
}

/// Opens without touching the access time where the owner may, and without waiting for a writer
/// if the path is a FIFO.
fn open_read_only(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    #[cfg(target_os = "linux")]
    {
        let no_atime = flags | libc::O_NOATIME;
        match OpenOptions::new()
            .read(true)
            .custom_flags(no_atime)
            .open(path)
        {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            opened => return opened,
        }
    }
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}
