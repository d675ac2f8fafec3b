//! `kseg verify`: is it sound.

use std::time::Instant;

use clap::Args;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::verify::{
    AcrossPartitions, Depth, Finding, VerifyOptions, VerifySummary, verify_log_dir,
    verify_partition,
};

use crate::cli::{PartitionFilterArgs, PathArgs};
use crate::context::{Context, Status};
use crate::inputs::{Input, Inputs};
use crate::progress::ByteProgress;
use crate::render::json::JsonRows;
use crate::render::verify_table::VerifyTable;

/// Check every file of partitions and log directories, alone and against each other
///
/// Looks at every batch, index, snapshot and checkpoint, and says of each finding what is there,
/// what should be, what it costs, what Kafka 4.3.1 does about it at a clean and at an unclean
/// start, and what to do next. Findings are corrupt (no Kafka leaves this behind), after a crash
/// (what a crash leaves) or notable (no harm); docs/findings.md lists the kinds. Checksums of all
/// batches are computed, on all cores.
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
            threads: None,
        }
    }
}

pub(crate) fn run(args: &VerifyArgs, context: &mut Context) -> anyhow::Result<Status> {
    let options = args.options(context);
    let inputs = Inputs::new(&args.paths, options.filter.clone()).with_own_progress();
    let mut progress = ByteProgress::new(|| inputs.size_in_bytes());
    let begun = Instant::now();
    let mut out = Out {
        json: JsonRows::for_format(context.format, "kseg/verify/v1"),
        table: VerifyTable::new(args.all),
        total: VerifySummary::default(),
        has_looked: false,
    };
    let mut across = AcrossPartitions::new(&options, args.equal_records);
    let walked = inputs.for_each(context, |input, context| {
        let mut emit = |finding: &Finding| out.finding(finding, context);
        let result = match input {
            Input::File(path) => {
                context.not_a_directory(path);
                return Ok(());
            }
            Input::LogDir(dir) => verify_log_dir(dir, &options, emit),
            Input::Partition(partition) => {
                let passed = |bytes| progress.passed(bytes);
                let dir = partition.dir;
                verify_partition(dir, partition.offsets, &options, passed, &mut emit).and_then(
                    |mut summary| {
                        summary += &across.partition(dir, emit)?;
                        Ok(summary)
                    },
                )
            }
        };
        let Some(summary) = context.passed(result)? else {
            return Ok(());
        };
        if let Input::Partition(partition) = input {
            tell_vanished(partition.dir, &summary, context);
        }
        out.has_looked = true;
        out.total += &summary;
        Ok(())
    });
    let ids = across.finish(|finding| out.finding(finding, context))?;
    out.total += &ids;
    drop(progress);
    let elapsed = begun.elapsed();
    let total = out.total.clone();
    match out.json {
        Some(json) => json.finish(&mut context.out)?,
        None if !out.has_looked => {}
        None => out.table.print(&total, elapsed, context)?,
    }
    walked?;
    if across.forgot_batches() {
        context.warn("too many batches: records equal to those of the first ones were looked for");
    }
    Ok(if total.corrupt + total.after_crash > 0 {
        Status::Found
    } else {
        Status::Clean
    })
}

fn tell_vanished(
    dir: &kseg::log::partition_dir::PartitionDir,
    summary: &VerifySummary,
    context: &Context,
) {
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
    fn finding(&mut self, finding: &Finding, context: &mut Context) -> anyhow::Result<()> {
        match &mut self.json {
            Some(json) => json.row(&mut context.out, finding)?,
            None => self.table.add(finding),
        }
        Ok(())
    }
}
