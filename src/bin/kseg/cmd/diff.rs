//! `kseg diff`: do two replicas agree.

use std::path::{Path, PathBuf};

use clap::Args;
use kseg::log::records::DEFAULT_MAX_BATCH_BYTES;
use kseg::report::diff::{DiffOptions, DiffRow, ReplicaInput, diff_partitions};

use crate::cli::PartitionFilterArgs;
use crate::context::{Context, Status};
use crate::pairs::{Half, Pair, Pairs};
use crate::render::diff_table::DiffTable;
use crate::render::json::JsonRows;

/// Compare two replicas: where they part, how, and what a follower would cut off
///
/// Compares batch by batch, whatever the segments they lie in, and records where the batches are
/// not the same: other batches of the same records and another state of compaction are told from
/// lost or changed data. What lies below the higher of the two log starts is not compared, nor are
/// indexes, which each replica makes for itself. The partitions in use of two log directories are
/// matched by topic and number.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg diff /mnt/broker-1/orders-0 /mnt/broker-2/orders-0
  kseg diff --topic orders -o ndjson /mnt/broker-1 /mnt/broker-2 | jq 'select(.isLoss)'

Kinds:
  other-epoch        batches of another leader epoch at the same offsets
  other-bytes        other bytes at the same offsets in the same epoch; no broker notices
  missing-tail       one log ends before the other
  missing-segment    offsets are gone on one side, and no cleaner took them
  missing-records    records are gone on one side of a compacted log, and a
                     cleaner would have kept them: the last of their keys
  missing-partition  the partition is on one side only
  compaction         one side was compacted further; no loss
  other-batch-split  the same records in other batches or codecs; no loss
  side-files         equal logs, but files beside them say different things

Exit status:
  0  done, the replicas agree
  1  done, and they differ, or are damaged alike
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct DiffArgs {
    /// The left replica: a partition directory, a .log, or a broker's log directory
    #[arg(value_name = "LEFT")]
    left: PathBuf,
    /// The right replica, of the same kind
    #[arg(value_name = "RIGHT")]
    right: PathBuf,
    /// List partitions that agree as well
    #[arg(long)]
    all: bool,
    /// The most bytes a batch may unpack to
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_BATCH_BYTES)]
    max_batch_bytes: usize,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
}

pub(crate) fn run(args: &DiffArgs, context: &mut Context) -> anyhow::Result<Status> {
    let mut json = JsonRows::for_format(context.format, "kseg/diff/v1");
    let mut table = DiffTable::new(args.all);
    let mut found = false;
    let walked = compare(args, context, |row, context| {
        found |= !row.equal || row.is_damaged_alike();
        match &mut json {
            Some(json) => json.row(&mut context.out, row)?,
            None => table.add(row),
        }
        Ok(())
    });
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None => table.print(&mut context.out, context.style)?,
    }
    walked?;
    Ok(if found { Status::Found } else { Status::Clean })
}

/// Hands out the row of every pair.
fn compare(
    args: &DiffArgs,
    context: &mut Context,
    mut take: impl FnMut(&DiffRow, &mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let pairs = Pairs::open(&args.left, &args.right, context)?;
    let options = DiffOptions {
        io: context.io,
        max_batch_bytes: args.max_batch_bytes,
        side_files: !pairs.are_files(),
    };
    pairs.for_each(&args.partitions.filter(), context, |pair, context| {
        let row = look(pair, options, context);
        match context.passed(row)? {
            Some(row) => take(&row, context),
            None => Ok(()),
        }
    })
}

fn look(pair: &Pair<'_>, options: DiffOptions, context: &Context) -> anyhow::Result<DiffRow> {
    let (left, right) = match pair {
        Pair::Both(left, right) => (left, right),
        Pair::Left(half) | Pair::Right(half) => {
            let path = Some(half.dir.path.display().to_string());
            let (left, right) = if matches!(pair, Pair::Left(_)) {
                (path, None)
            } else {
                (None, path)
            };
            let topic = half.dir.topic().map(str::to_owned);
            return Ok(DiffRow::on_one_side(
                topic,
                half.dir.partition(),
                left,
                right,
            ));
        }
    };
    let name = |half: &Half| (half.dir.topic().map(str::to_owned), half.dir.partition());
    if name(left) != name(right) {
        context.warn(&format!(
            "{} and {} have the names of two partitions",
            left.dir.path.display(),
            right.dir.path.display()
        ));
    }
    let diff = diff_partitions(input(left), input(right), options)?;
    for path in &diff.vanished {
        context.vanished(Path::new(path));
    }
    Ok(diff.row)
}

fn input(half: &Half) -> ReplicaInput<'_> {
    ReplicaInput {
        dir: &half.dir,
        checkpoints: half.offsets,
    }
}
