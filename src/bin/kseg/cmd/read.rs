//! `kseg read`: the records a consumer gets, in order.

use std::collections::HashSet;

use clap::{Args, ValueEnum};
use kseg::format::file_name::PartitionDirStatus;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::aborted::{AbortedOptions, aborted_partition};
use kseg::report::read::{
    AbortedFrom, BadBatch, DisagreementKind, IndexDisagreement, IsolationLevel, PartitionReader,
    ReadOptions, ReadSummary,
};

use super::aborted;
use crate::cli::{AsLoadedArgs, BatchFilterArgs, BytesArg, PartitionFilterArgs, PathArgs};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::json::JsonRows;
use crate::render::read_table::ReadTable;
use crate::render::text::{count, plural};

/// Wrong rows of indexes that a partition's warnings name.
const MOST_WRONG_ROWS: usize = 10;

/// Show the records a consumer would get
///
/// Reads each partition from its log start as a consumer does: read_committed, the default here,
/// stops at the last stable offset and leaves out what was aborted; read_uncommitted stops at the
/// high watermark. Aborted transactions come from the .txnindex files, as a broker has them; a
/// warning says where the log says otherwise: of all rows, or of those that a read of some offsets
/// or times meets. A batch that is not valid ends the partition, and
/// the message says where to go on. Keys and values are bytes here, whatever the topic.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg read -o ndjson /var/lib/kafka/orders-0 | jq -r .value.utf8
  kseg read --isolation-level read_uncommitted --from-offset 120 /var/lib/kafka/orders-0
  kseg read --count --topic orders /var/lib/kafka

Exit status:
  0  done
  2  could not do it: bad usage, unreadable input or batch, no such partition")]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// What is shown of transactions [default: read_committed]
    #[arg(long, value_enum, value_name = "LEVEL")]
    isolation_level: Option<IsolationLevelArg>,
    /// Where aborted transactions come from
    #[arg(long, value_enum, value_name = "SOURCE", default_value_t = AbortedFromArg::Index)]
    aborted_from: AbortedFromArg,
    /// Count records instead of showing them: one result a partition
    #[arg(long)]
    count: bool,
    /// Show keys, and sizes in place of values
    #[arg(long)]
    keys_only: bool,
    /// How to show bytes that are no text
    #[arg(long, value_enum, value_name = "FORM", default_value_t = BytesArg::Base64)]
    bytes: BytesArg,
    /// The most bytes a batch may unpack to
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_BATCH_BYTES)]
    max_batch_bytes: usize,
    /// The high watermark, where you know better than the checkpoint
    #[arg(long, allow_negative_numbers = true, value_name = "OFFSET")]
    high_watermark: Option<i64>,
    /// Use no snapshot: the last stable offset that the log alone gives
    #[arg(long)]
    from_scratch: bool,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    batches: BatchFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

/// Kafka's isolation levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum IsolationLevelArg {
    /// Nothing of aborted transactions, nothing behind an open one
    ReadCommitted,
    /// Everything below the high watermark
    ReadUncommitted,
}

/// Where aborted transactions come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AbortedFromArg {
    /// The .txnindex files, as in a broker
    Index,
    /// The markers in the log
    Log,
}

pub(crate) fn run(args: &ReadArgs, context: &mut Context) -> anyhow::Result<Status> {
    let options = options(args, context);
    let inputs = Inputs::new(&args.paths, options.filter.clone()).loaded(&args.loaded, None);
    let mut sink = Sink::new(context);
    if args.isolation_level.is_none() && matches!(sink, Sink::Json(_)) {
        context.note("isolation level read_committed; --isolation-level chooses");
    }
    let walked = inputs.for_each_partition(context, |partition, context| {
        if !is_read(partition, &args.paths) {
            let path = partition.dir.path.display();
            context.warn(&format!("{path}: not in use, so no consumer reads it"));
            return Ok(());
        }
        let read = read(partition, &options, &mut sink, context);
        context.passed(read)?;
        Ok(())
    });
    sink.finish(context)?;
    walked?;
    Ok(Status::Clean)
}

/// Directories to delete, strays and future ones only if they were named themselves.
fn is_read(partition: &PartitionInput<'_>, paths: &PathArgs) -> bool {
    partition
        .dir
        .status()
        .is_none_or(|status| *status == PartitionDirStatus::Live)
        || paths.paths.contains(&partition.dir.path)
}

fn options(args: &ReadArgs, context: &Context) -> ReadOptions {
    let mut state = kseg::report::partition_state::StateOptions {
        io: context.io,
        ..Default::default()
    };
    state.from_scratch = args.from_scratch;
    state.high_watermark = args.high_watermark;
    ReadOptions {
        state,
        isolation_level: match args.isolation_level {
            None | Some(IsolationLevelArg::ReadCommitted) => IsolationLevel::ReadCommitted,
            Some(IsolationLevelArg::ReadUncommitted) => IsolationLevel::ReadUncommitted,
        },
        aborted_from: match args.aborted_from {
            AbortedFromArg::Index => AbortedFrom::Index,
            AbortedFromArg::Log => AbortedFrom::Log,
        },
        filter: args.partitions.filter_with(&args.batches),
        count: args.count,
        keys_only: args.keys_only,
        bytes_form: args.bytes.into(),
        max_batch_bytes: args.max_batch_bytes,
    }
}

fn read(
    partition: &PartitionInput<'_>,
    options: &ReadOptions,
    sink: &mut Sink,
    context: &mut Context,
) -> anyhow::Result<()> {
    let dir = partition.dir;
    let Some(reader) = PartitionReader::open(dir, partition.offsets, options)? else {
        return Ok(());
    };
    if let Sink::Table(table) = sink
        && !options.count
    {
        table.begin(&partition.label, &reader.bounds(), &mut context.out)?;
    }
    let summary = reader.read(|row| -> anyhow::Result<()> {
        match sink {
            Sink::Json(json) => json.row(&mut context.out, row)?,
            Sink::Table(table) => table.row(row, &mut context.out)?,
        }
        Ok(())
    })?;
    if options.count {
        let row = reader.count_row(&summary);
        match sink {
            Sink::Json(json) => json.row(&mut context.out, &row)?,
            Sink::Table(table) => table.count(&partition.label, row),
        }
    } else if let Sink::Table(table) = sink {
        table.end(&summary, &mut context.out)?;
    }
    let wrong = if reader.depends_on_all_rows() {
        WrongRows::of(partition, options)?
    } else {
        WrongRows::default()
    };
    complain(&dir.path.display().to_string(), &summary, &wrong, context);
    Ok(())
}

/// Rows of the `.txnindex` files that the log does not bear out, or lacks.
#[derive(Default)]
struct WrongRows {
    /// The first ones in words.
    told: Vec<String>,
    /// How many there are.
    count: u64,
    /// Producer and marker of their transactions.
    transactions: HashSet<(i64, i64)>,
}

impl WrongRows {
    fn of(partition: &PartitionInput<'_>, options: &ReadOptions) -> anyhow::Result<Self> {
        let mut wrong = Self::default();
        let options = AbortedOptions {
            state: options.state,
            ..AbortedOptions::default()
        };
        let (dir, offsets) = (partition.dir, partition.offsets);
        aborted_partition::<kseg::log::Error>(dir, offsets, &options, |row| {
            let Some(words) = aborted::finding(dir.path.join(&row.file).display(), row) else {
                return Ok(());
            };
            wrong.count += 1;
            if wrong.told.len() < MOST_WRONG_ROWS {
                wrong.told.push(words);
                let transaction = row.producer_id.zip(row.last_offset);
                wrong.transactions.extend(transaction);
            }
            Ok(())
        })?;
        Ok(wrong)
    }

    /// Whether what is said of a transaction is said of its row.
    fn tell(&self, it: &IndexDisagreement) -> bool {
        self.transactions
            .contains(&(it.producer_id, it.marker_offset))
    }
}

/// Says what ended the read early, and where index and log differ.
fn complain(path: &str, summary: &ReadSummary, wrong: &WrongRows, context: &mut Context) {
    for told in &wrong.told {
        context.warn(told);
    }
    let more = wrong.count - wrong.told.len() as u64;
    if more > 0 {
        let more = plural(more, "more row is", "more rows are");
        context.warn(&format!("{path}: {more} wrong; kseg aborted lists all"));
    }
    let apart = summary.disagreements.iter().filter(|it| !wrong.tell(it));
    for disagreement in apart {
        context.warn(&format!("{path}: {}", disagrees(disagreement)));
    }
    if summary.more_disagreements > 0 {
        let more = count(summary.more_disagreements, "more transaction");
        context.warn(&format!("{path}: {more} on which index and log differ"));
    }
    if !summary.disagreements.is_empty() || wrong.count > 0 {
        context.hint("--aborted-from log reads as if the .txnindex files were right");
    }
    if summary.vanished_segments > 0 {
        let segments = count(summary.vanished_segments as u64, "segment");
        context.warn(&format!("{path}: {segments} vanished while reading"));
    }
    if let Some(bad) = &summary.stopped {
        stopped(path, bad, context);
    }
}

fn stopped(path: &str, bad: &BadBatch, context: &mut Context) {
    context.fail_with(
        &format!(
            "{path}: a consumer cannot pass offset {}: batch in {} at position {}: {}",
            bad.offset, bad.file, bad.position, bad.message
        ),
        &match bad.next_offset {
            Some(next) => format!("the next readable batch begins at --from-offset {next}"),
            None => "no readable batch follows".to_owned(),
        },
    );
}

fn disagrees(it: &IndexDisagreement) -> String {
    let (producer_id, first, marker) = (it.producer_id, it.first_offset, it.marker_offset);
    let records = plural(it.records, "record is", "records are");
    match it.kind {
        DisagreementKind::Missing => format!(
            "no .txnindex has the aborted transaction of producer {producer_id}, offsets {first} \
             to {marker}: {records} shown"
        ),
        DisagreementKind::Passed => format!(
            "the .txnindex has the aborted transaction of producer {producer_id}, offsets {first} \
             to {marker}, where a fetch does not see it in time: {records} shown"
        ),
        DisagreementKind::Surplus => format!(
            "a .txnindex hides offsets of producer {producer_id} from {first}, which the marker \
             at {marker} commits: {records} left out"
        ),
    }
}

/// Where records go.
enum Sink {
    Json(JsonRows),
    Table(Box<ReadTable>),
}

impl Sink {
    fn new(context: &Context) -> Self {
        match JsonRows::for_format(context.format, "kseg/read/v1") {
            Some(json) => Self::Json(json),
            None => Self::Table(Box::new(ReadTable::new(context.style))),
        }
    }

    fn finish(self, context: &mut Context) -> anyhow::Result<()> {
        match self {
            Self::Json(json) => json.finish(&mut context.out)?,
            Self::Table(table) => table.finish(&mut context.out)?,
        }
        Ok(())
    }
}
