//! What may have a file's name and is none.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, Debug)]
pub enum Odd {
    LinkIntoNothing,
    Link,
    LinkLoop,
    Directory,
    FullDirectory,
    Pipe,
    Socket,
    Device,
    NullDevice,
}

impl Odd {
    pub const ALL: [Self; 9] = [
        Self::LinkIntoNothing,
        Self::Link,
        Self::LinkLoop,
        Self::Directory,
        Self::FullDirectory,
        Self::Pipe,
        Self::Socket,
        Self::Device,
        Self::NullDevice,
    ];

    /// What `kseg` calls it.
    pub fn what(self) -> &'static str {
        match self {
            Self::Link => "a link to nothing",
            Self::LinkIntoNothing => "a link into a folder that is not there",
            Self::LinkLoop => "a link that leads back to itself",
            Self::Directory | Self::FullDirectory => "a directory",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device | Self::NullDevice => "a device",
        }
    }

    /// Makes it in the place of what is there.
    pub fn make(self, path: &Path) {
        if path.exists() {
            fs::remove_file(path).unwrap();
        }
        match self {
            Self::Link => symlink("gone", path).unwrap(),
            Self::LinkIntoNothing => symlink("gone/disk/file", path).unwrap(),
            Self::LinkLoop => symlink(path, path).unwrap(),
            Self::Directory => fs::create_dir(path).unwrap(),
            Self::FullDirectory => fs::create_dir_all(path.join("inside")).unwrap(),
            Self::Pipe => {
                let made = Command::new("mkfifo").arg(path).status().unwrap();
                assert!(made.success());
            }
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
            Self::Device => symlink("/dev/zero", path).unwrap(),
            Self::NullDevice => symlink("/dev/null", path).unwrap(),
        }
    }
}
