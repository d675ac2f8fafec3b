//! What every command shares: where output goes, how it looks, and what went wrong so far.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kseg::log::broker_start::{DOES_NOT_START, outage};
use kseg::log::odd_entry::{OddEffect, WAITS};
use kseg::log::odd_root_file::OddRootFile;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};

use crate::cli::{Color, GlobalArgs, OutputFormat};
use crate::render::Style;
use crate::render::output::Output;
use crate::render::text::{plural, printable};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Looked, nothing wrong.
    Clean,
    /// Looked, and found something.
    Found,
    /// Could not look.
    Failed,
}

/// A partition without a segment.
pub(crate) struct EmptyPartition {
    /// Its directory.
    pub(crate) path: PathBuf,
    /// Whether other files tell that it had some.
    pub(crate) has_lost_all: bool,
}

/// One run of the program.
pub(crate) struct Context {
    /// Form of the answer.
    pub(crate) format: OutputFormat,
    /// How files are read.
    pub(crate) io: Io,
    /// Width and colour of tables.
    pub(crate) style: Style,
    /// Whether standard output is a terminal.
    pub(crate) out_is_terminal: bool,
    /// Standard output, buffered.
    pub(crate) out: Output,
    /// What could not be done.
    failures: u64,
    /// What has been complained of: some commands look twice.
    said: RefCell<HashSet<String>>,
}

impl Context {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        let stdout = io::stdout();
        let color = match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never,
        };
        let style = Style {
            width: width(stdout.is_terminal()),
            color,
        };
        Self {
            format: global.output,
            io: global.io.into(),
            style,
            out_is_terminal: stdout.is_terminal(),
            out: Output::new(stdout.lock()),
            failures: 0,
            said: RefCell::default(),
        }
    }

    /// Says what could not be done and lets the run go on; it will end with status 2.
    pub(crate) fn fail(&mut self, error: &Error) {
        let message = error.to_string();
        if !self.is_new(&message) {
            return;
        }
        self.failures += 1;
        complain(&message);
        if let Some(hint) = hint(error) {
            say("hint", &hint);
        }
    }

    /// Takes an error about one input for said, so that the run goes on with the others.
    ///
    /// # Errors
    /// Any other error, such as a closed pipe.
    pub(crate) fn passed<T>(&mut self, result: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => match error.downcast_ref::<Error>() {
                Some(known) => {
                    self.fail(known);
                    Ok(None)
                }
                None => Err(error),
            },
        }
    }

    /// The same for what is no error of the library.
    pub(crate) fn fail_with(&mut self, message: &str, next_step: &str) {
        if self.is_new(message) {
            self.failures += 1;
            complain(message);
            say("hint", next_step);
        }
    }

    /// How much could not be done so far, each said when it came up.
    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    /// Says how the answer is to be taken.
    #[expect(clippy::unused_self, reason = "as in warn")]
    pub(crate) fn note(&self, message: &str) {
        say("note", message);
    }

    /// Says what to do about a warning.
    #[expect(clippy::unused_self, reason = "as in warn")]
    pub(crate) fn hint(&self, message: &str) {
        say("hint", message);
    }

    /// For a file that a command cannot take for a partition.
    pub(crate) fn not_a_directory(&mut self, path: &Path) {
        self.fail(&Error::NotADirectory {
            path: path.to_owned(),
        });
    }

    /// Says something worth knowing that does not change the status.
    pub(crate) fn warn(&self, message: &str) {
        if self.is_new(message) {
            say("warning", message);
        }
    }

    /// Whether a complaint has not been made yet.
    fn is_new(&self, message: &str) -> bool {
        self.said.borrow_mut().insert(message.to_owned())
    }

    /// Says that something listed a moment ago is gone; a broker deletes files at any time.
    pub(crate) fn vanished(&self, path: &Path) {
        self.warn(&format!("{}: vanished while reading", path.display()));
    }

    /// Says what has a file's name in a partition directory and is none.
    pub(crate) fn odd_entries(&self, dir: &PartitionDir) {
        for entry in &dir.odd {
            let broker = match entry.effect() {
                OddEffect::PassedOver => "a broker passes over it".to_owned(),
                OddEffect::FailsToLoad => {
                    format!("the partition does not load, and {}", outage(false))
                }
                OddEffect::FailsInUse => {
                    format!(
                        "a broker fails when it comes to open it, and {}",
                        outage(false)
                    )
                }
                OddEffect::WaitsToLoad => {
                    format!("a broker {WAITS}, and {DOES_NOT_START}")
                }
                OddEffect::WaitsInUse => {
                    format!("a broker {WAITS} when it comes to write it")
                }
            };
            let path = dir.path.join(&entry.file_name);
            self.warn(&format!("{}: {}; {broker}", path.display(), entry.what));
        }
    }

    /// Says what in a log directory has the name of a file that a broker reads, and is none.
    pub(crate) fn odd_root_files(&self, dir: &Path) {
        for odd in OddRootFile::all_in(dir) {
            let path = dir.join(odd.name.to_string());
            let (path, what) = (path.display(), odd.what);
            self.warn(&format!("{path}: {what}; a broker {}", odd.effect));
        }
    }

    /// Says which partitions have no segment: in a table that has nothing else to say, else beside
    /// the answer.
    ///
    /// # Errors
    /// If standard output cannot be written to.
    pub(crate) fn empty_partitions(
        &mut self,
        partitions: &[EmptyPartition],
        is_all: bool,
    ) -> io::Result<()> {
        const MAX_NAMED: usize = 8;
        let is_answer = is_all && self.format == OutputFormat::Table;
        let mut say = |line: String| -> io::Result<()> {
            if is_answer {
                return writeln!(self.out, "{}", printable(&line));
            }
            say("note", &line);
            Ok(())
        };
        for partition in partitions.iter().take(MAX_NAMED) {
            let path = partition.path.display();
            let more = if partition.has_lost_all {
                ", though there was one: kseg gaps says what is missing"
            } else {
                ""
            };
            say(format!("{path}: empty, no .log in use in it{more}"))?;
        }
        let more = partitions.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            say(format!(
                "{} empty as well",
                plural(more as u64, "more is", "more are")
            ))?;
        }
        Ok(())
    }

    /// What a first line adds where something could not be looked at, and errors have said so.
    pub(crate) fn unseen(&self) -> &'static str {
        if self.failures > 0 {
            "; not all could be looked at"
        } else {
            ""
        }
    }

    /// The exit code for what a command came to.
    pub(crate) fn finish(mut self, result: anyhow::Result<Status>) -> ExitCode {
        let result = result.and_then(|status| Ok(self.out.flush().map(|()| status)?));
        match result {
            Ok(_) if self.failures > 0 => Status::Failed.into(),
            Ok(status) => status.into(),
            Err(error) if is_broken_pipe(&error) => Status::Clean.into(),
            Err(error) => {
                complain(&in_full(&error));
                if let Some(hint) = error.downcast_ref::<Error>().and_then(hint) {
                    say("hint", &hint);
                }
                Status::Failed.into()
            }
        }
    }
}

/// Columns to use: of the terminal, or as COLUMNS says; `None` when piped without it.
fn width(is_terminal: bool) -> Option<usize> {
    let columns = std::env::var("COLUMNS").ok();
    let size = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    width_of(columns.as_deref(), is_terminal, size)
}

fn width_of(
    columns: Option<&str>,
    is_terminal: bool,
    size: impl FnOnce() -> Option<usize>,
) -> Option<usize> {
    let columns = columns.and_then(|columns| columns.parse().ok());
    columns.filter(|columns| *columns > 0).or_else(|| {
        // A terminal may not know its size, or say that it is 0.
        is_terminal.then(|| size().filter(|width| *width > 0).unwrap_or(USUAL_WIDTH))
    })
}

/// Columns of a terminal that does not say.
const USUAL_WIDTH: usize = 80;

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn complain(message: &str) {
    // Standard error may be closed; there is nowhere else to say so.
    let _ = writeln!(io::stderr(), "kseg: {}", printable(message));
}

fn say(what: &str, message: &str) {
    let _ = writeln!(io::stderr(), "{what}: {}", printable(message));
}

/// An error with its causes, those left out that it has said already.
fn in_full(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        let cause = cause.split(" (os error").next().unwrap_or_default();
        if !text.to_lowercase().contains(&cause.to_lowercase()) {
            text.push_str(": ");
            text.push_str(cause);
        }
    }
    text
}

fn io_hint(kind: io::ErrorKind) -> Option<String> {
    let hint = if kind == io::ErrorKind::NotFound {
        "check the path; log.dirs in the broker's configuration names its log directories"
    } else if kind == io::ErrorKind::PermissionDenied {
        "run as the user who owns the broker's files; reading is enough"
    } else {
        return None;
    };
    Some(hint.to_owned())
}

/// What to do next about an error.
fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Io { source, .. } => io_hint(source.kind()),
        Error::NotALogDir { candidates, .. } => Some(match candidates.as_slice() {
            [] => return None,
            [only] => format!("try {}", only.display()),
            [one, other] => format!("try {} or {}", one.display(), other.display()),
            [first, rest @ ..] => format!(
                "try {}, or one of {} more beside it",
                first.display(),
                rest.len()
            ),
        }),
        Error::UnknownFile { .. } => Some(
            "kseg knows a file by its name: 00000000000000000000.log, .index, .timeindex, \
             .txnindex, .snapshot, and the checkpoint files"
                .to_owned(),
        ),
        Error::NotADirectory { .. } => Some("kseg dump shows what is in a file".to_owned()),
        Error::ChangedWhileReading { .. } => {
            Some("a broker truncated or replaced the file; run again".to_owned())
        }
        Error::NotAFile { .. } | Error::Decode { .. } | _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_a_size_has_80_columns() {
        assert_eq!(width_of(None, true, || Some(0)), Some(80));
        assert_eq!(width_of(None, true, || None), Some(80));
        assert_eq!(width_of(None, true, || Some(132)), Some(132));
        assert_eq!(width_of(Some("0"), true, || Some(0)), Some(80));
        assert_eq!(width_of(Some("100"), true, || Some(0)), Some(100));
        assert_eq!(width_of(Some("100"), false, || None), Some(100));
        assert_eq!(width_of(None, false, || Some(132)), None);
    }
}
