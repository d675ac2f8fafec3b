//! The program run by someone who may not read every file.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Takes the right to read from everybody.
pub fn forbid(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
}

/// The program as a user whom that binds: root reads everything, so it is run as nobody then, from
/// `folder`, which everybody may look into from here on.
pub fn kseg_in(folder: &Path) -> Command {
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    let program = folder.join("kseg");
    fs::copy(env!("CARGO_BIN_EXE_kseg"), &program).unwrap();
    let mut command = Command::new(&program);
    command.env_clear();
    if fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
        command.uid(65534).gid(65534);
    }
    command
}
