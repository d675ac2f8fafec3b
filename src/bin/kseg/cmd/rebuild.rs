//! `kseg rebuild`: the side files made again, into a new folder.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kseg::log::Error;
use kseg::report::rebuild::{
    RebuildOptions, RebuildRow, RebuiltFile, SideFileKind, SnapshotsAt, rebuild_rows,
};

use crate::cli::{PartitionFilterArgs, PathArgs, StateArgs};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::new_folder::{
    NewFolder, refuse_to_write_beside_the_log, straight_into_folder, sync_folder,
};
use crate::render::columns::Align::{Left, Right};
use crate::render::json::JsonRows;
use crate::render::summary::{Summary, SummaryColumn};
use crate::render::text::{bytes, count, printable};
use crate::render::{note_hidden, paragraph};

/// Make snapshots and indexes again from the log, into a new folder
///
/// Writes what Kafka's recovery writes when a broker starts after a crash from recovery point 0,
/// byte for byte: checks every batch, and where recovery would cut the log it stops and says so.
/// Nothing is written where the log lies. Indexes are written without the room for more entries
/// that a broker gives the active segment's.
///
/// Other commands begin with the newest usable snapshot, as a broker does. This one makes that
/// anew, so it begins with the first segment: on top of the snapshot at its base offset if there is
/// one, which knows producers whose batches are gone, and with --from-scratch without any.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg rebuild /var/lib/kafka/orders-0 --out /tmp/orders-0
  kseg rebuild --only snapshot,txnindex /var/lib/kafka --topic orders --out /tmp/rebuilt
  kseg rebuild --at-offset 1204 /var/lib/kafka/orders-0 --out /tmp/state

Exit status:
  0  done: every log was read to its end
  1  done, but a log is damaged: the files describe it up to there, as recovery would cut it
  2  could not do it: bad usage, unreadable input, no such partition, folder not empty")]
pub(crate) struct RebuildArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// The folder to write to, new or empty. One partition directory goes straight into it, all
    /// else into a folder for each partition
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Make only files of these kinds
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Which snapshots to make
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "WHERE",
        conflicts_with = "at_offset"
    )]
    snapshots_at: Vec<Where>,
    /// Bytes of log from one index entry to the next (index.interval.bytes)
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    index_interval_bytes: u64,
    /// List files that are the same as in the directory, too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
}

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Producer state
    Snapshot,
    /// Aborted transactions
    Txnindex,
    /// Offset to position
    Index,
    /// Timestamp to offset
    Timeindex,
}

impl From<Kind> for SideFileKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Snapshot => Self::Snapshot,
            Kind::Txnindex => Self::TxnIndex,
            Kind::Index => Self::Index,
            Kind::Timeindex => Self::TimeIndex,
        }
    }
}

/// Where snapshots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Where {
    /// At the base offset of each segment
    Base,
    /// At the log end
    End,
}

impl RebuildArgs {
    fn options(&self, context: &Context) -> RebuildOptions {
        let state = self.state.options(context.io);
        let base = self.snapshots_at.contains(&Where::Base);
        let end = self.snapshots_at.contains(&Where::End);
        RebuildOptions {
            io: context.io,
            from_scratch: state.from_scratch,
            expiration: state.expiration,
            index_interval_bytes: self.index_interval_bytes,
            snapshots_at: match (state.at_offset, base, end) {
                (Some(offset), _, _) => SnapshotsAt::Offset(offset),
                (None, true, false) => SnapshotsAt::Bases,
                (None, false, true) => SnapshotsAt::End,
                (None, true, true) | (None, false, false) => SnapshotsAt::BasesAndEnd,
            },
        }
    }

    fn wants(&self, kind: SideFileKind) -> bool {
        self.only.is_empty() || self.only.iter().any(|it| SideFileKind::from(*it) == kind)
    }
}

pub(crate) fn run(args: &RebuildArgs, context: &mut Context) -> anyhow::Result<Status> {
    let options = args.options(context);
    if let SnapshotsAt::Offset(_) = options.snapshots_at
        && !args.wants(SideFileKind::Snapshot)
    {
        anyhow::bail!("--at-offset makes a snapshot alone, and --only leaves it out");
    }
    if matches!(options.snapshots_at, SnapshotsAt::Offset(offset) if offset < 0) {
        anyhow::bail!("--at-offset must not be negative");
    }
    for path in &args.paths.paths {
        refuse_to_write_beside_the_log(path, &args.out)?;
    }
    let straight = straight_into_folder(&args.paths.paths);
    let mut folder = NewFolder::create(&args.out)?;
    context.out.take_for_extra();
    let inputs = Inputs::new(&args.paths, args.partitions.filter());
    let mut json = JsonRows::for_format(context.format, "kseg/rebuild/v1");
    let mut rows = Vec::new();
    let mut damaged = false;
    inputs.for_each_partition(context, |partition, context| {
        let place = folder.place_for(&partition.dir.path, straight)?;
        let (found, is_damaged) = match one_partition(args, options, partition, &place, context) {
            Ok(found) => found,
            Err(Failure::Read(error)) => {
                context.fail(&error);
                return Ok(());
            }
            Err(Failure::Write(error)) => return Err(error),
        };
        damaged |= is_damaged;
        match &mut json {
            Some(json) => {
                for row in &found {
                    json.row(&mut context.out, row)?;
                }
            }
            None => rows.extend(found),
        }
        Ok(())
    })?;
    folder.finish()?;
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None => print_table(args, &rows, context)?,
    }
    Ok(if damaged {
        Status::Found
    } else {
        Status::Clean
    })
}

/// Why a partition could not be done.
enum Failure {
    /// Its files cannot be read; the others may be.
    Read(Error),
    /// The folder cannot be written to.
    Write(anyhow::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

fn one_partition(
    args: &RebuildArgs,
    options: RebuildOptions,
    partition: &PartitionInput<'_>,
    place: &Path,
    context: &mut Context,
) -> Result<(Vec<RebuildRow>, bool), Failure> {
    let dir = partition.dir;
    let write = |file: &RebuiltFile<'_>| {
        let path = place.join(file.kind.file_name(file.offset));
        if path.exists() {
            // Names such as 0.log and 00.log have one base offset; a broker takes the last it
            // lists.
            let message = format!(
                "two segments have the base offset {}: move one of them away",
                file.offset
            );
            let source = io::Error::new(io::ErrorKind::AlreadyExists, message);
            return Err(Failure::Read(Error::io(&dir.path, source)));
        }
        write_file(&path, file.bytes).map_err(Failure::Write)
    };
    let rebuilt = rebuild_rows(
        dir,
        partition.offsets,
        options,
        |kind| args.wants(kind),
        write,
    )?;
    let Some((rows, rebuilt)) = rebuilt else {
        return Ok((Vec::new(), false));
    };
    for base_offset in rebuilt.vanished {
        context.vanished(&dir.path.join(format!("{base_offset:020}.log")));
    }
    if let Some(stop) = &rebuilt.stop {
        let what_follows = if stop.kind == "refused-batch" {
            "a broker that recovers the segment stops there; the files are of the log up to offset"
        } else {
            "recovery cuts the log here, and what is behind it is not in the files; it ends at offset"
        };
        context.warn(&format!(
            "{}: {} at position {}; {what_follows} {}",
            dir.path.join(&stop.file).display(),
            stop.message,
            stop.position,
            rebuilt.log_end_offset
        ));
    }
    if rows.is_empty() {
        context.warn(&format!("{}: nothing to make", dir.path.display()));
    }
    sync_folder(place).map_err(Failure::Write)?;
    // Room set aside and never written is nothing lost.
    let is_damaged = rebuilt.stop.is_some_and(|stop| stop.kind != "zero-tail");
    Ok((rows, is_damaged))
}

fn write_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let write = || {
        let mut file = File::create_new(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().with_context(|| path.display().to_string())
}

// ---- the table ------------------------------------------------------------------------------

const COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("FILE", Left, 0),
    SummaryColumn::new("SIZE", Right, 1),
    SummaryColumn::new("ROWS", Right, 0),
    SummaryColumn::new("IN THE DIRECTORY", Left, 0),
];

fn print_table(
    args: &RebuildArgs,
    rows: &[RebuildRow],
    context: &mut Context,
) -> anyhow::Result<()> {
    let with = |same: Option<bool>| {
        rows.iter()
            .filter(|row| row.same_as_existing == same)
            .count()
    };
    let line = format!(
        "wrote {} to {}: {} as in the directory, {} other, {} not there",
        count(rows.len() as u64, "file"),
        args.out.display(),
        with(Some(true)),
        with(Some(false)),
        with(None)
    );
    paragraph(&mut context.out, context.style, ["", "  "], &line)?;
    let shown: Vec<&RebuildRow> = rows
        .iter()
        .filter(|row| args.all || row.same_as_existing != Some(true))
        .collect();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(context.out)?;
    let mut table = Summary::new(COLUMNS);
    for row in shown {
        table.row(vec![
            printable(&row.name()),
            row.file.clone(),
            bytes(row.size_in_bytes),
            row.rows.to_string(),
            match row.same_as_existing {
                Some(true) => "same".to_owned(),
                Some(false) => "other".to_owned(),
                None => "not there".to_owned(),
            },
        ]);
    }
    let style = context.style;
    let hidden = table.print(&mut context.out, style)?;
    Ok(note_hidden(hidden, context.style, &mut context.out)?)
}
