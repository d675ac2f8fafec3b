//! Running the program: nothing of this machine's environment reaches it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// What a run came to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The program in a folder, with an empty environment.
pub fn kseg(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kseg"));
    command.current_dir(folder).env_clear();
    command
}

/// Runs it with these arguments.
pub fn run<S: AsRef<OsStr>>(folder: &Path, arguments: impl IntoIterator<Item = S>) -> Run {
    finish(kseg(folder).args(arguments))
}

/// Runs it to its end. A signal fails the test: kseg ends by itself whatever it meets.
pub fn finish(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    let status = output.status.code();
    Run {
        status: status.unwrap_or_else(|| panic!("{command:?}: {}", output.status)),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
