//! `kseg recover`: what a broker would do at its start.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use kseg::append::LogConfig;
use kseg::append::dry_run::copy::CleanStop;
use kseg::append::dry_run::gone::GoneRange;
use kseg::append::dry_run::row::Start;
use kseg::append::dry_run::{DryRun, DryRunOptions, INDEX_MEMORY, RecoverRow, dry_run};
use kseg::format::file_name::LogDirFileName;
use kseg::log::abandoned_future::{elsewhere, replaced_by, takes_over};
use kseg::log::broker_start::{StartObstacles, outage};
use kseg::log::log_dir::LogDir;
use kseg::log::metadata_log::ClusterMetadata;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::strays::Stray;
use kseg::report::verify::{BeforeStart, Depth, VerifyOptions, look_before_start};

use crate::beside::{checkpoints_above, stopped_cleanly};
use crate::cli::{PartitionFilterArgs, PathArgs, StartArg, parse_time};
use crate::context::{Context, Status};
use crate::inputs::{Input, Inputs, PartitionInput};
use crate::metadata_logs::warn_unusable;
use crate::new_folder::{NewFolder, refuse_to_write_beside_the_log, straight_into_folder};
use crate::render::json::JsonRows;
use crate::render::recover_table::{RecoverTable, Shown};

/// Show what a broker would do with a directory at its start, without doing it
///
/// Plays Kafka's loading through, after a clean stop and after a crash: which files are removed,
/// renamed, cut and made, and why; where the log begins and ends then; which producers are known;
/// what has to be read; and what is lost that is there now, or is gone already although it had been
/// acknowledged. Nothing is changed. A torn last batch at or above the high watermark was never
/// acknowledged to a client of acks=all: it is no loss here, and one in kseg gaps.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg recover /var/lib/kafka
  kseg recover --start clean --now 2026-11-29T15:00:00Z /var/lib/kafka/orders-0
  kseg recover /var/lib/kafka/orders-0 --out /tmp/orders-0

Exit status:
  0  done: the start this directory would get loses no data
  1  done: it loses data, or acknowledged records are gone already, or a partition or the broker
     does not come up, or the broker takes one with data for a stray; with --start, that start
  2  could not do it: bad usage, unreadable input, no such partition, folder not empty")]
pub(crate) struct RecoverArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Only this start, instead of both
    #[arg(long, value_enum, value_name = "START")]
    start: Option<StartArg>,
    /// List partitions to which nothing happens at the other start, and every file, too
    #[arg(long)]
    all: bool,
    /// Compute no checksums of batches that the start does not read: what is gone already is told
    /// by headers and names alone
    #[arg(long)]
    quick: bool,
    /// Write the directory as the start, and a clean stop after it, would leave it. The folder must
    /// be new or empty; one partition directory goes straight into it, all else into a folder for
    /// each partition, under the name that the start gives it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    broker: BrokerArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
}

impl RecoverArgs {
    fn shown(&self) -> Shown {
        Shown {
            all: self.all,
            quick: self.quick,
            picked: self.start.map(Start::from),
        }
    }
}

/// What the broker knows beside the directory.
#[derive(Args, Debug)]
#[command(next_help_heading = "Broker")]
struct BrokerArgs {
    /// The clock, in milliseconds or RFC 3339: producers too old by it are forgotten
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    now: Option<i64>,
    /// Age at which a broker forgets a producer (producer.id.expiration.ms)
    #[arg(long, value_name = "MS", default_value_t = 86_400_000)]
    producer_id_expiration_ms: i32,
    /// Bytes of log from one index entry to the next (index.interval.bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    index_interval_bytes: i32,
    /// Size of an open index (segment.index.bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 10_485_760)]
    segment_index_bytes: i32,
    /// The recovery point, where you know better than the checkpoint
    #[arg(long, value_name = "OFFSET")]
    recovery_point: Option<i64>,
    /// The log start offset, where you know better than the checkpoint
    #[arg(long, value_name = "OFFSET")]
    log_start_offset: Option<i64>,
}

impl BrokerArgs {
    fn config(&self) -> LogConfig {
        LogConfig {
            producer_id_expiration_ms: self.producer_id_expiration_ms,
            index_interval_bytes: self.index_interval_bytes,
            segment_index_bytes: self.segment_index_bytes,
            ..LogConfig::default()
        }
    }
}

pub(crate) fn run(args: &RecoverArgs, context: &mut Context) -> anyhow::Result<Status> {
    let out = args.out.as_deref();
    if out.is_some() {
        context.out.take_for_extra();
    }
    let copy = out.map(|out| Copy::begin(&args.paths.paths, out));
    let mut copy = copy.transpose()?;
    let inputs = Inputs::new(&args.paths, args.partitions.filter())
        .needing_checkpoints()
        .collecting()
        .whole();
    let mut json = JsonRows::for_format(context.format, "kseg/recover/v1");
    let mut metadata = ClusterMetadata::around(&args.paths.paths, context.io);
    let obstacles = StartObstacles::find(&args.paths.paths, &mut metadata, context.io);
    let mut status = match obstacles.iter().next() {
        Some(_) => Status::Found,
        None => Status::Clean,
    };
    if json.is_some() {
        tell(&obstacles, context);
    }
    let mut rows = Vec::new();
    let walked = inputs.for_each(context, |input, context| {
        let partition = match input {
            Input::LogDir(dir) => {
                if let Some(copy) = &mut copy {
                    copy_root_files(dir, copy.folder.staging())?;
                    copy.is_empty = false;
                }
                return Ok(());
            }
            Input::File(path) => {
                context.not_a_directory(path);
                return Ok(());
            }
            Input::Partition(partition) => partition,
        };
        let Some(mut runs) = played(args, partition, context) else {
            return Ok(());
        };
        judge(args, partition.dir, &mut runs, &mut metadata, context);
        let obstacle = obstacles.of_partition(&partition.dir.path);
        for mut run in runs {
            run.row.broker_error = obstacle.cloned();
            let row = &run.row;
            let decides = args.start.is_some() || row.applies;
            if decides && row.is_loss() {
                status = Status::Found;
            }
            if decides && let Some(copy) = &mut copy {
                copy.add(&run, partition, context)?;
            }
            match &mut json {
                Some(json) => {
                    warn_of(row, context);
                    json.row(&mut context.out, row)?;
                }
                None => rows.push(RecoverTable::shown(run.row)),
            }
        }
        Ok(())
    });
    let known = (obstacles, metadata.unusable().is_empty());
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None => RecoverTable::new(rows, args.shown(), known).print(context)?,
    }
    walked?;
    warn_unusable(&metadata, context);
    copy.map_or(Ok(()), |copy| copy.finish(context))?;
    Ok(status)
}

/// Says beside JSON what a table says first.
fn tell(obstacles: &StartObstacles, context: &Context) {
    for obstacle in obstacles.iter() {
        let what = outage(obstacle.stops_broker);
        context.warn(&format!("{}: {what}: {}", obstacle.path, obstacle.message));
        context.hint(obstacle.next_step);
    }
}

fn warn_of(row: &RecoverRow, context: &Context) {
    for warning in &row.warnings {
        let start = row.start.name();
        context.warn(&format!("{}, {start} start: {warning}", row.name()));
    }
}

/// The starts with what is gone before them; `None` if they could not be played through. What could
/// not be done is complained of.
fn played(
    args: &RecoverArgs,
    partition: &PartitionInput<'_>,
    context: &mut Context,
) -> Option<Vec<DryRun>> {
    let mut runs = match starts(args, partition, context) {
        Ok(runs) => runs,
        Err(error) => {
            context.fail(&error);
            return None;
        }
    };
    if let Err(error) = find_gone(args, partition, &mut runs, context) {
        context.fail(&error);
    }
    Some(runs)
}

/// Looks what the cluster's metadata makes of the partition once it is loaded.
fn judge(
    args: &RecoverArgs,
    dir: &PartitionDir,
    runs: &mut [DryRun],
    metadata: &mut ClusterMetadata,
    context: &mut Context,
) {
    let stray = Stray::of(dir, metadata);
    let takes_over = takes_over(dir, metadata);
    let copy = replaced_by(dir, metadata);
    let elsewhere = elsewhere(dir, metadata);
    for run in runs {
        if let Some(stray) = stray.clone() {
            run.row.set_stray(stray, dir);
        }
        run.row.takes_over = run.row.loads && takes_over;
        if let Some(directory_id) = elsewhere {
            run.row.set_elsewhere(directory_id);
        }
        if let Some(copy) = &copy
            && let Err(error) = find_replaced(args, (copy, dir), run, context)
        {
            context.fail(&error);
        }
    }
}

/// Looks what a copy has that is put in the place of the partition.
fn find_replaced(
    args: &RecoverArgs,
    (copy, replaced): (&PartitionDir, &PartitionDir),
    run: &mut DryRun,
    context: &Context,
) -> Result<(), kseg::log::Error> {
    let offsets = checkpoints_above(&copy.path, context).of_dir(copy);
    let options = options(args, copy, context);
    let copy = dry_run(copy, offsets, run.row.start, &options)?;
    run.row.set_replaced(&copy.row, replaced, context.io)
}

fn options(args: &RecoverArgs, dir: &PartitionDir, context: &Context) -> DryRunOptions {
    DryRunOptions {
        io: context.io,
        config: args.broker.config(),
        now_ms: args.broker.now,
        is_clean: stopped_cleanly(&dir.path),
        index_memory: INDEX_MEMORY,
    }
}

/// The starts asked for, the one the directory would get first.
fn starts(
    args: &RecoverArgs,
    partition: &PartitionInput<'_>,
    context: &Context,
) -> Result<Vec<DryRun>, kseg::log::Error> {
    let mut offsets = partition.offsets;
    offsets.recovery_point = args.broker.recovery_point.or(offsets.recovery_point);
    offsets.log_start_offset = args.broker.log_start_offset.or(offsets.log_start_offset);
    let options = options(args, partition.dir, context);
    let is_clean = options.is_clean;
    let starts = match (args.start, is_clean) {
        (Some(start), _) => vec![start.into()],
        (None, true) => vec![Start::Clean, Start::Unclean],
        (None, false) => vec![Start::Unclean, Start::Clean],
    };
    let mut runs = Vec::new();
    for start in starts {
        runs.push(dry_run(partition.dir, offsets, start, &options)?);
    }
    Ok(runs)
}

/// Looks for acknowledged offsets that are gone already. All files are read, once for all starts.
fn find_gone(
    args: &RecoverArgs,
    partition: &PartitionInput<'_>,
    runs: &mut [DryRun],
    context: &Context,
) -> Result<(), kseg::log::Error> {
    let options = VerifyOptions {
        io: context.io,
        depth: if args.quick {
            Depth::Headers
        } else {
            Depth::Checksums
        },
        ..VerifyOptions::default()
    };
    let mut offsets = partition.offsets;
    offsets.log_start_offset = args.broker.log_start_offset.or(offsets.log_start_offset);
    look_before_start(partition.dir, offsets, &options, |found| {
        let found = match found {
            BeforeStart::Unreadable(found) => found,
            BeforeStart::Warning(warning) => {
                for run in &mut *runs {
                    let is_so = match run.row.start {
                        Start::Clean => warning.clean,
                        Start::Unclean => warning.unclean,
                    };
                    if is_so {
                        run.row.warnings.push(warning.text.clone());
                    }
                }
                return;
            }
        };
        let range = GoneRange {
            first_offset: found.first_offset,
            last_offset: found.last_offset,
            kind: found.kind.name(),
            file: found.file,
            position: found.position,
        };
        for run in &mut *runs {
            run.row.add_gone(&range);
        }
    })?;
    for run in runs {
        run.row.finish_gone(args.start.is_some() || run.row.applies);
    }
    Ok(())
}

/// What `--out` writes.
struct Copy {
    folder: NewFolder,
    /// Whether it is one partition directory, and no log directory.
    straight: bool,
    /// Whether nothing has been written yet.
    is_empty: bool,
    stop: CleanStop,
}

impl Copy {
    fn begin(paths: &[PathBuf], out: &Path) -> anyhow::Result<Self> {
        for path in paths {
            refuse_to_write_beside_the_log(path, out)?;
        }
        Ok(Self {
            straight: straight_into_folder(paths),
            folder: NewFolder::create(out)?,
            is_empty: true,
            stop: CleanStop::default(),
        })
    }

    fn add(
        &mut self,
        run: &DryRun,
        partition: &PartitionInput<'_>,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        if let Some(error) = &run.row.error {
            let message = format!("{}: not written: {}", run.row.name(), error.message);
            context.fail_with(&message, "the partition does not come up on this start");
            return Ok(());
        }
        let path = &partition.dir.path;
        let place = match run.row.name_after_start(partition.dir) {
            Some(name) => {
                let name = name.to_string();
                if !self.straight {
                    context.note(&format!("--out: {} is {name} there", run.row.name()));
                }
                self.folder.place_named(path, name.into(), self.straight)?
            }
            None => self.folder.place_for(path, self.straight)?,
        };
        run.write_to(&place)?;
        self.is_empty = false;
        self.stop.add(&run.row);
        Ok(())
    }

    /// Gives the folder its name. What could not be written has been said: without it there was no
    /// clean stop, as a broker takes its mark away before it loads anything.
    fn finish(self, context: &Context) -> anyhow::Result<()> {
        if self.is_empty {
            context.note("--out: nothing written");
            return Ok(());
        }
        let is_whole = context.failures() == 0;
        if !self.straight {
            self.stop.write_to(self.folder.staging(), is_whole)?;
            if !is_whole {
                let mark = LogDirFileName::CleanShutdown;
                context.note(&format!("--out: without {mark}, as not all of it is there"));
            }
        }
        self.folder.finish()
    }
}

/// The files beside the partitions, but for those that say who holds the directory and how it was
/// left.
fn copy_root_files(dir: &LogDir, to: &Path) -> anyhow::Result<()> {
    for name in &dir.files {
        let parsed = LogDirFileName::parse(name);
        if parsed != LogDirFileName::Lock && parsed != LogDirFileName::CleanShutdown {
            let from = dir.path.join(name);
            // Whoever opens a pipe waits for its other end.
            if !from.is_file() {
                continue;
            }
            let to = to.join(name);
            copy_file(&from, &to).with_context(|| from.display().to_string())?;
        }
    }
    Ok(())
}

/// Copies what is in a file, and not who may do what with it: a broker is to write to the copy.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    io::copy(&mut File::open(from)?, &mut File::create(to)?)?;
    Ok(())
}

/// Whether anything happens to the partition at this start.
pub(crate) fn is_touched(row: &RecoverRow) -> bool {
    !row.loads
        || row.loses_data
        || row.loses_producer_state
        || row.stray.is_some()
        || !row.actions.is_empty()
        || !row.warnings.is_empty()
}
