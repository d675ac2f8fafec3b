//! `kseg verify`: is it sound.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use kseg::format::file_name::{LogDirFileName, LogFileKind, LogFileName};
use kseg::log::broker_start::StartObstacles;
use kseg::log::log_dir::{LogDir, LogPath};
use kseg::log::metadata_log::ClusterMetadata;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::filter::Filter;
use kseg::report::verify::{
    AcrossPartitions, Depth, Finding, VerifyOptions, VerifySummary, verify_log_dir,
    verify_partition,
};

use crate::beside::checkpoints_above;
use crate::cli::{PartitionFilterArgs, PathArgs};
use crate::context::{Context, Status};
use crate::coordinators::Coordinators;
use crate::inputs::{Input, Inputs, PartitionInput};
use crate::metadata_logs::warn_unusable;
use crate::progress::ByteProgress;
use crate::render::json::JsonRows;
use crate::render::verify_table::VerifyTable;
use crate::seen::real;

/// Check every file of partitions and log directories, alone and against each other
///
/// Looks at every batch, index, snapshot and checkpoint, and says of each finding what is there,
/// what should be, what it costs, what Kafka 4.3.1 does about it at a clean and at an unclean
/// start, and what to do next. Findings are corrupt (no Kafka leaves this behind), after a crash
/// (what a crash leaves) or notable (the files are as a broker may leave them);
/// docs/findings.md lists the kinds. Checksums of all batches are computed, on all cores.
///
/// Where __transaction_state is in the log directories given, or in the one a partition lies in,
/// open transactions have their transactional id and who is going to end them, as in kseg txns, and
/// markers that a coordinator says were written are looked for.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg verify /var/lib/kafka
  kseg verify --deep --all /var/lib/kafka/orders-0
  kseg verify -o ndjson /var/lib/kafka | jq -r 'select(.severity == \"corrupt\") | .message'

Exit status:
  0  done, nothing wrong found
  1  done, and found something corrupt, or something a crash has left
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Leave the payloads out: no checksums of batches
    #[arg(long)]
    quick: bool,
    /// Parse every record too
    #[arg(long, conflicts_with = "quick")]
    deep: bool,
    /// List every finding, not one of each kind in a file
    #[arg(long)]
    all: bool,
    /// Search for batches with the records of a batch in another partition
    #[arg(long)]
    equal_records: bool,
    /// Bytes a batch may unpack to
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_BATCH_BYTES)]
    max_batch_bytes: usize,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    /// Only findings about this producer
    #[arg(long, value_name = "ID", help_heading = "Filters")]
    producer_id: Option<i64>,
    /// Only findings about offsets from here on
    #[arg(long, value_name = "OFFSET", help_heading = "Filters")]
    from_offset: Option<i64>,
    /// Only findings about offsets before this
    #[arg(long, value_name = "OFFSET", help_heading = "Filters")]
    to_offset: Option<i64>,
}

impl VerifyArgs {
    fn options(&self, context: &Context) -> VerifyOptions {
        let mut filter = self.partitions.filter();
        filter.producer_id = self.producer_id;
        filter.from_offset = self.from_offset;
        filter.to_offset = self.to_offset;
        VerifyOptions {
            io: context.io,
            depth: match (self.quick, self.deep) {
                (true, _) => Depth::Headers,
                (false, true) => Depth::Records,
                (false, false) => Depth::Checksums,
            },
            max_batch_bytes: self.max_batch_bytes,
            filter,
            file: None,
            threads: None,
            coordinators: None,
        }
    }
}

pub(crate) fn run(args: &VerifyArgs, context: &mut Context) -> anyhow::Result<Status> {
    let mut options = args.options(context);
    let coordinators = Coordinators::around(&args.paths);
    options.coordinators = coordinators.with_completed(context).map(Arc::new);
    let scope = scope(&options.filter);
    if let (Some(from), Some(to)) = (args.from_offset, args.to_offset)
        && from >= to
    {
        context.warn(&format!(
            "no offset is from {from} on and below {to}: no finding can be told"
        ));
    }
    let inputs = Inputs::new(&args.paths, options.filter.clone())
        .with_own_progress()
        .telling_odd_entries();
    let begun = Instant::now();
    let mut metadata = ClusterMetadata::around(&args.paths.paths, context.io);
    let obstacles = StartObstacles::find(&args.paths.paths, &mut metadata, context.io);
    let mut run = Run {
        progress: ByteProgress::new(|| inputs.size_in_bytes()),
        across: AcrossPartitions::new(&options, metadata, args.equal_records),
        obstacles,
        options,
        log_dirs: HashSet::new(),
        out: Out {
            json: JsonRows::for_format(context.format, "kseg/verify/v1"),
            table: VerifyTable::new(args.all, scope),
            total: VerifySummary::default(),
            has_looked: false,
        },
    };
    let walked = inputs.for_each(context, |input, context| run.input(input, context));
    let Run {
        progress,
        across,
        out,
        ..
    } = run;
    drop(progress);
    let elapsed = begun.elapsed();
    let total = out.total.clone();
    match out.json {
        Some(json) => json.finish(&mut context.out)?,
        None if !out.has_looked => {}
        None => out.table.print(&total, elapsed, context)?,
    }
    walked?;
    warn_unusable(across.metadata(), context);
    if across.forgot_batches() {
        context.warn("too many batches: records equal to those of the first ones were looked for");
    }
    Ok(if total.corrupt + total.after_crash > 0 {
        Status::Found
    } else {
        Status::Clean
    })
}

/// What of the findings is wanted, for people; `None` for all.
fn scope(filter: &Filter) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(filter.producer_id.map(|id| format!("producer {id}")));
    parts.extend(match (filter.from_offset, filter.to_offset) {
        (Some(from), Some(to)) => Some(format!("offsets from {from} on and below {to}")),
        (Some(from), None) => Some(format!("offsets from {from} on")),
        (None, Some(to)) => Some(format!("offsets below {to}")),
        (None, None) => None,
    });
    (!parts.is_empty()).then(|| {
        let parts = parts.join(" and ");
        format!("only findings about {parts} were asked for; others are not counted")
    })
}

/// Whether it is one of the files that a broker keeps in a partition directory.
fn is_log_file(name: &str) -> bool {
    !matches!(
        LogFileName::parse(name).kind,
        LogFileKind::Unknown(_) | LogFileKind::NotANumber(_)
    )
}

/// Whether it is one of the files that a broker keeps beside them.
fn is_log_dir_file(name: &str) -> bool {
    !matches!(LogDirFileName::parse(name), LogDirFileName::Unknown(_))
}

/// One run of the command.
struct Run {
    options: VerifyOptions,
    across: AcrossPartitions,
    obstacles: StartObstacles,
    progress: ByteProgress,
    /// Log directories looked at: several partitions lie in one.
    log_dirs: HashSet<PathBuf>,
    out: Out,
}

impl Run {
    fn input(&mut self, input: &Input<'_>, context: &mut Context) -> anyhow::Result<()> {
        match input {
            Input::File(path) => self.file(path, context),
            Input::LogDir(dir) if self.log_dirs.insert(real(&dir.path)) => {
                self.log_dir(dir, &self.options.clone(), context)
            }
            Input::LogDir(_) => Ok(()),
            Input::Partition(input) => {
                self.log_dir_above(input.dir, context)?;
                self.partition(input, &self.options.clone(), context)
            }
        }
    }

    /// What is wrong with a log directory stops the broker from loading each of its partitions.
    fn log_dir_above(&mut self, dir: &PartitionDir, context: &mut Context) -> anyhow::Result<()> {
        let named = dir.path.parent().filter(|it| !it.as_os_str().is_empty());
        let path = real(&dir.path);
        let Some(above) = named.or(path.parent()) else {
            return Ok(());
        };
        match LogDir::open(above) {
            Ok(above) if above.has_known_file() && self.log_dirs.insert(real(&above.path)) => {
                self.log_dir(&above, &self.options.clone(), context)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A file beside a log, told by what the log says.
    fn file(&mut self, path: &Path, context: &mut Context) -> anyhow::Result<()> {
        let path = &real(path);
        let (Some(name), Some(above)) = (path.file_name(), path.parent()) else {
            context.not_a_directory(path);
            return Ok(());
        };
        let name = name.to_string_lossy().into_owned();
        let options = VerifyOptions {
            file: Some(name.clone()),
            ..self.options.clone()
        };
        match LogPath::discover(above) {
            Ok(LogPath::Partition(dir)) if is_log_file(&name) => {
                let input = PartitionInput {
                    offsets: checkpoints_above(&dir.path, context).of_dir(&dir),
                    label: String::new(),
                    dir: &dir,
                };
                self.partition(&input, &options, context)
            }
            Ok(LogPath::LogDir(dir)) if is_log_dir_file(&name) => {
                self.log_dir(&dir, &options, context)
            }
            Ok(_) | Err(_) => {
                context.not_a_directory(path);
                Ok(())
            }
        }
    }

    fn log_dir(
        &mut self,
        dir: &LogDir,
        options: &VerifyOptions,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let out = &mut self.out;
        let emit = |finding: &Finding| out.finding(finding, context);
        let result = verify_log_dir(dir, &self.obstacles, options, emit);
        if let Some(summary) = context.passed(result)? {
            self.out.looked(&summary);
        }
        Ok(())
    }

    fn partition(
        &mut self,
        input: &PartitionInput<'_>,
        options: &VerifyOptions,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let Self {
            across,
            progress,
            out,
            ..
        } = self;
        let dir = input.dir;
        let passed = |bytes| progress.passed(bytes);
        let mut emit = |finding: &Finding| out.finding(finding, context);
        let result = verify_partition(dir, input.offsets, options, passed, &mut emit).and_then(
            |mut summary| {
                if options.file.is_none() {
                    summary += &across.partition(dir, emit)?;
                }
                Ok(summary)
            },
        );
        if let Some(summary) = context.passed(result)? {
            tell_vanished(dir, &summary, context);
            self.out.looked(&summary);
        }
        Ok(())
    }
}

fn tell_vanished(dir: &PartitionDir, summary: &VerifySummary, context: &Context) {
    for index in &summary.vanished {
        if let Some(segment) = dir.segments.get(*index)
            && let Some(file) = dir.file(segment.log)
        {
            context.vanished(&dir.file_path(file));
        }
    }
}

/// Where findings go.
struct Out {
    json: Option<JsonRows>,
    table: VerifyTable,
    total: VerifySummary,
    has_looked: bool,
}

impl Out {
    fn looked(&mut self, summary: &VerifySummary) {
        self.has_looked = true;
        self.total.files += summary.files;
        self.total.bytes += summary.bytes;
    }

    /// Counted as they come: what cannot be read to its end has no summary.
    fn finding(&mut self, finding: &Finding, context: &mut Context) -> anyhow::Result<()> {
        self.total.count(finding.severity);
        match &mut self.json {
            Some(json) => json.row(&mut context.out, finding)?,
            None => self.table.add(finding),
        }
        Ok(())
    }
}
