//! `kseg producers`: what the broker knows of each producer.

use std::io::Write;

use clap::Args;
use kseg::report::partition_state::{PartitionState, StateOptions, load_partition_state};
use kseg::report::producers::{
    ProducerRow, ProducersRow, SnapshotRow, StatisticsRow, compare_snapshots, producers, statistics,
};

use crate::beside::warn_forgotten_at_start;
use crate::cli::{AsLoadedArgs, PartitionFilterArgs, PathArgs, ProducerFilterArgs, StateArgs};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::columns::Align::{Left, Right};
use crate::render::columns::{Column, Listing};
use crate::render::json::JsonRows;
use crate::render::text::{count, optional, optional_time, plural, printable};
use crate::render::{alarm, note_hidden, paragraph};

/// Show what the broker knows of each producer
///
/// The state is the one a broker loads: the newest usable snapshot, then the log behind it. A
/// restart keeps one batch of each producer; a broker that never stopped remembers five, which
/// --from-scratch shows. Without --now no producer is left out for its age.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg producers /var/lib/kafka/orders-0
  kseg producers --stats --topic orders /var/lib/kafka
  kseg producers --snapshots /var/lib/kafka/orders-0

Exit status:
  0  done
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct ProducersArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Show each snapshot instead, and how it differs from the log; walks the whole log
    #[arg(long, conflicts_with = "stats")]
    snapshots: bool,
    /// Count the producers instead: how many, how old, how they grew
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    producers: ProducerFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

pub(crate) fn run(args: &ProducersArgs, context: &mut Context) -> anyhow::Result<Status> {
    let inputs =
        Inputs::new(&args.paths, args.partitions.filter()).loaded(&args.loaded, args.state.now);
    let mut printer = Printer {
        json: JsonRows::for_format(context.format, "kseg/producers/v1"),
        partitions: 0,
        hidden: 0,
    };
    let walked = inputs.for_each_partition(context, |partition, context| {
        one_partition(args, partition, &mut printer, context)
    });
    match printer.json {
        Some(json) => json.finish(&mut context.out)?,
        None => note_hidden(printer.hidden, context.style, &mut context.out)?,
    }
    walked?;
    Ok(Status::Clean)
}

fn one_partition(
    args: &ProducersArgs,
    partition: &PartitionInput<'_>,
    printer: &mut Printer,
    context: &mut Context,
) -> anyhow::Result<()> {
    let options = args.state.options(context.io);
    // Statistics count the expired ones themselves, so they must be there.
    let load = if args.stats {
        StateOptions {
            expiration: None,
            ..options
        }
    } else {
        options
    };
    let state = match load_partition_state(partition.dir, partition.offsets, load) {
        Ok(Some(state)) => state,
        Ok(None) => return Ok(()),
        Err(error) => {
            context.fail(&error);
            return Ok(());
        }
    };
    warn_about(partition, &state, context);
    if args.stats {
        let row = statistics(partition.dir, &state, load, options.expiration);
        return match row {
            Ok(row) => printer.statistics(&partition.label, row, context),
            Err(error) => {
                context.fail(&error);
                Ok(())
            }
        };
    }
    if args.snapshots {
        let rows = compare_snapshots(partition.dir, partition.offsets, options, &state);
        return match rows {
            Ok(rows) => printer.snapshots(partition, rows, context),
            Err(error) => {
                context.fail(&error);
                Ok(())
            }
        };
    }
    let producer_id = args.producers.producer_id;
    let wanted = |id| producer_id.is_none_or(|wanted| wanted == id);
    printer.producers(partition, &state, wanted, context)
}

/// What a broker would trip over, on standard error.
fn warn_about(partition: &PartitionInput<'_>, state: &PartitionState, context: &Context) {
    let path = partition.dir.path.display();
    if state.is_forgotten_at_start {
        warn_forgotten_at_start(&partition.dir.path, context);
    }
    for snapshot in &state.unusable_snapshots {
        context.warn(&format!(
            "{path}: snapshot at {} is not usable, a broker deletes it: {}",
            snapshot.offset, snapshot.reason
        ));
    }
    for batch in &state.refused {
        context.warn(&format!(
            "{path}: a broker stops at the batch at offset {}: {}",
            batch.base_offset, batch.refusal
        ));
    }
}

struct Printer {
    json: Option<JsonRows>,
    partitions: u64,
    /// Columns that did not fit.
    hidden: usize,
}

const PRODUCER_COLUMNS: &[Column] = &[
    Column::new("PRODUCER", 8, Right, 0),
    Column::new("EPOCH", 5, Right, 0),
    Column::new("LAST SEQ", 10, Right, 0),
    Column::new("LAST OFFSET", 11, Right, 0),
    Column::new("OPEN FROM", 10, Right, 0),
    Column::new("LAST TIMESTAMP", 24, Left, 1),
    Column::new("BATCHES", 7, Right, 2),
    Column::new("COORDINATOR EPOCH", 17, Right, 3),
];

impl Printer {
    fn producers(
        &mut self,
        partition: &PartitionInput<'_>,
        state: &PartitionState,
        wanted: impl Fn(i64) -> bool,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let Some(json) = &mut self.json else {
            return self.producer_table(partition, state, wanted, context);
        };
        producers(partition.dir, state, wanted, |row| {
            Ok(json.row(&mut context.out, &ProducersRow::Producer(row))?)
        })
    }

    fn producer_table(
        &mut self,
        partition: &PartitionInput<'_>,
        state: &PartitionState,
        wanted: impl Fn(i64) -> bool,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        self.begin(context)?;
        let open = state.manager.ongoing_txns().count() as u64;
        let from = match state.snapshot {
            Some(offset) => format!("from the snapshot at {offset}"),
            None => "replayed from the log start".to_owned(),
        };
        let answer = format!(
            "{}: {}, {} open; state before {} {from}",
            partition.label,
            count(state.manager.producer_id_count() as u64, "producer"),
            count(open, "transaction"),
            state.log_end_offset,
        );
        let style = context.style;
        paragraph(&mut context.out, style, ["", "  "], &answer)?;
        if let Some(reason) = &state.incomplete {
            let line = format!("not complete: {reason}");
            paragraph(&mut context.out, style, ["", "  "], &line)?;
        }
        let mut listing = Listing::new(PRODUCER_COLUMNS, style);
        let mut any = false;
        producers(partition.dir, state, wanted, |row| {
            if !any {
                writeln!(context.out)?;
                listing.headings(&mut context.out, style)?;
                any = true;
            }
            listing.row(&mut context.out, &producer_cells(&row))?;
            anyhow::Ok(())
        })?;
        self.hidden = self.hidden.max(listing.hidden());
        Ok(())
    }

    fn statistics(
        &mut self,
        name: &str,
        row: StatisticsRow,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            return Ok(json.row(&mut context.out, &ProducersRow::Statistics(row))?);
        }
        self.begin(context)?;
        let style = context.style;
        let answer = format!(
            "{name}: {}, {} of them with one batch, {} open",
            count(row.producers, "producer"),
            row.one_batch_producers,
            count(row.open_transactions, "transaction"),
        );
        paragraph(&mut context.out, style, ["", "  "], &answer)?;
        if row.producers > 0 {
            let times = format!(
                "last times from {} to {}{}",
                optional_time(row.oldest_timestamp),
                optional_time(row.newest_timestamp),
                row.producers_per_minute
                    .map_or_else(String::new, |rate| format!(", {rate} producers a minute")),
            );
            paragraph(&mut context.out, style, ["", "  "], &times)?;
        }
        if let Some(expired) = row.expired {
            writeln!(
                context.out,
                "{expired} of {} would be dropped at load",
                row.producers
            )?;
        }
        for snapshot in &row.growth {
            let line = format!(
                "snapshot at {}: {}, {} bytes",
                snapshot.offset,
                count(snapshot.producers, "producer"),
                snapshot.size_in_bytes
            );
            let style = context.style;
            paragraph(&mut context.out, style, ["", "  "], &line)?;
        }
        Ok(())
    }

    fn snapshots(
        &mut self,
        partition: &PartitionInput<'_>,
        rows: Vec<SnapshotRow>,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        if let Some(json) = &mut self.json {
            for row in rows {
                json.row(&mut context.out, &ProducersRow::Snapshot(row))?;
            }
            return Ok(());
        }
        self.begin(context)?;
        let snapshots = count(rows.len() as u64, "snapshot");
        let differing = rows
            .iter()
            .filter(|row| row.differences.iter().flatten().count() > 0);
        let answer = format!(
            "{}: {snapshots}, {} not as the log says",
            partition.label,
            differing.count()
        );
        paragraph(&mut context.out, context.style, ["", "  "], &answer)?;
        for row in &rows {
            print_snapshot(row, context)?;
        }
        Ok(())
    }

    /// An empty line between partitions.
    fn begin(&mut self, context: &mut Context) -> anyhow::Result<()> {
        if self.partitions > 0 {
            writeln!(context.out)?;
        }
        self.partitions += 1;
        Ok(())
    }
}

/// Differences listed before the rest is only counted.
const DIFFERENCES_SHOWN: usize = 20;

fn print_snapshot(row: &SnapshotRow, context: &mut Context) -> anyhow::Result<()> {
    let style = context.style;
    let file = format!("{}  {:10}  ", printable(&row.file), row.use_at_load);
    let before = [file.as_str(), "  "];
    match (&row.defect, row.producers) {
        (Some(defect), _) => alarm(&mut context.out, style, before, defect)?,
        (None, Some(producers)) => {
            let expired = row.expired_producers.as_ref();
            let expired = expired.map_or_else(String::new, |expired| {
                format!(", {} dropped at load for their age", expired.len())
            });
            let what = format!("{}{expired}", count(producers, "producer"));
            paragraph(&mut context.out, style, before, &what)?;
        }
        (None, None) => paragraph(&mut context.out, style, before, "-")?,
    }
    let differences = row.differences.as_deref().unwrap_or_default();
    for difference in differences.iter().take(DIFFERENCES_SHOWN) {
        let side = |state: &Option<kseg::report::producers::SnapshotState>| match state {
            None => "nothing".to_owned(),
            Some(state) => format!(
                "epoch {} last sequence {} at offset {}, transaction {}",
                optional(state.producer_epoch),
                optional(state.last_sequence),
                optional(state.last_offset),
                optional(state.current_txn_first_offset),
            ),
        };
        let line = format!(
            "producer {}: {}; snapshot: {}; log: {}",
            difference.producer_id,
            difference.kind,
            side(&difference.snapshot),
            side(&difference.log)
        );
        paragraph(&mut context.out, style, ["  ", "    "], &line)?;
    }
    let more = differences.len().saturating_sub(DIFFERENCES_SHOWN);
    if more > 0 {
        writeln!(context.out, "  and {}", plural(more as u64, "more", "more"))?;
    }
    Ok(())
}

fn producer_cells(row: &ProducerRow) -> Vec<String> {
    let row = &row.known;
    vec![
        row.producer_id.to_string(),
        optional(row.producer_epoch),
        optional(row.last_sequence),
        row.last_offset
            .map_or_else(|| "no data".to_owned(), |offset| offset.to_string()),
        optional(row.current_txn_first_offset),
        optional_time(row.last_timestamp),
        row.batch_metadata.len().to_string(),
        optional(row.coordinator_epoch),
    ]
}
