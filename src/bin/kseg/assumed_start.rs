//! Partitions as `--as-loaded` has them: after a start, and which one that was, to be said once a
//! run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kseg::append::LogConfig;
use kseg::append::dry_run::row::Start;
use kseg::append::dry_run::{DryRunOptions, INDEX_MEMORY, dry_run};
use kseg::format::file_name::LogDirFileName;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;

use crate::beside::stopped_cleanly;
use crate::context::Context;
use crate::render::text::plural;

/// What `--as-loaded` asks for, and what has come of it so far.
#[derive(Debug)]
pub(crate) struct AssumedStarts {
    /// The start the user has picked.
    picked: Option<Start>,
    /// The log directories with the mark of a clean stop, and those without.
    clean: BTreeSet<PathBuf>,
    unclean: BTreeSet<PathBuf>,
    is_told: bool,
}

impl AssumedStarts {
    pub(crate) fn new(picked: Option<Start>) -> Self {
        Self {
            picked,
            clean: BTreeSet::new(),
            unclean: BTreeSet::new(),
            is_told: false,
        }
    }

    /// The partition after its start, by a clock for what is forgotten there; `None` if it does not
    /// come up, which is complained of.
    pub(crate) fn load(
        &mut self,
        dir: &PartitionDir,
        mut offsets: CheckpointedOffsets,
        now_ms: Option<i64>,
        context: &mut Context,
    ) -> Option<(PartitionDir, CheckpointedOffsets)> {
        let is_clean = stopped_cleanly(&dir.path);
        let start = self.of(&dir.path, is_clean);
        let options = DryRunOptions {
            io: context.io,
            config: LogConfig::default(),
            now_ms,
            is_clean,
            index_memory: INDEX_MEMORY,
        };
        let run = match dry_run(dir, offsets, start, &options) {
            Ok(run) => run,
            Err(error) => {
                context.fail(&error);
                return None;
            }
        };
        if let Some(error) = &run.row.error {
            let (name, start) = (run.row.name(), start.name());
            let message = format!(
                "{name}: does not come up on this start, {start}: {}",
                error.message
            );
            context.fail_with(&message, "kseg recover says what a broker does here");
            return None;
        }
        offsets.log_start_offset = run.row.log_start_offset;
        offsets.high_watermark = run.row.high_watermark;
        Some((run.into_loaded(), offsets))
    }

    /// The start of the next partition.
    fn of(&mut self, partition: &Path, is_clean: bool) -> Start {
        let (dirs, due) = if is_clean {
            (&mut self.clean, Start::Clean)
        } else {
            (&mut self.unclean, Start::Unclean)
        };
        let above = partition.parent().unwrap_or(partition);
        if !dirs.contains(above) {
            dirs.insert(above.to_owned());
        }
        self.picked.unwrap_or(due)
    }

    /// What is to be said of it, once, if there was any partition.
    pub(crate) fn take_note(&mut self) -> Option<String> {
        if self.is_told || (self.clean.is_empty() && self.unclean.is_empty()) {
            return None;
        }
        self.is_told = true;
        let mark = LogDirFileName::CleanShutdown;
        let start = match self.picked {
            Some(start) => format!("as after {}, as --start says", a(start)),
            None if self.unclean.is_empty() => {
                format!("as after {}: {mark} is there", a(Start::Clean))
            }
            None if self.clean.is_empty() => {
                format!("as after {}: {mark} is not there", a(Start::Unclean))
            }
            None => format!(
                "as after {} in {}, where {mark} is, and {} in {}, where it is not",
                a(Start::Clean),
                named(&self.clean),
                a(Start::Unclean),
                named(&self.unclean)
            ),
        };
        // As `recover` has it, which says where it stands before that.
        Some(format!(
            "{start}; the high watermark as a leader has raised it"
        ))
    }
}

fn a(start: Start) -> &'static str {
    match start {
        Start::Clean => "a clean start",
        Start::Unclean => "an unclean start",
    }
}

/// The first of some directories, and how many others there are.
fn named(dirs: &BTreeSet<PathBuf>) -> String {
    let first = dirs.first().map(|it| it.display().to_string());
    let first = first.filter(|it| !it.is_empty());
    let first = first.unwrap_or_else(|| ".".to_owned());
    match dirs.len() as u64 {
        0 | 1 => first,
        more => format!("{first} and {}", plural(more - 1, "other", "others")),
    }
}
