//! `kseg txns`: every transaction, the open ones first.

use std::io::Write;

use clap::{Args, ValueEnum};
use kseg::report::txns::{
    TxnRow, TxnState, TxnsOptions, TxnsSummary, WantedStates, txns_partition,
};

use crate::beside::warn_forgotten_at_start;
use crate::cli::{
    AsLoadedArgs, BatchFilterArgs, PartitionFilterArgs, PathArgs, StateArgs, parse_duration,
};
use crate::context::{Context, Status};
use crate::coordinators::{Coordinators, warn_unread};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::columns::Listing;
use crate::render::json::JsonRows;
use crate::render::text::{count, plural};
use crate::render::txns_listing::{ENDED_COLUMNS, ended_cells, notes};
use crate::render::txns_table::Totals;
use crate::render::{alarm, heading, note_hidden};

/// List transactions: open ones with what they hold up, and how the others ended
///
/// Open transactions come first, oldest first: since when each is open, how many records an abort
/// would lose, where the last stable offset goes when it and the older ones are aborted, and the
/// command that aborts it. Data and markers are paired by producer id. A marker without data here
/// is an empty transaction and nothing wrong. Which transactions are open is as a broker has it
/// that loads the newest snapshot; --from-scratch asks the log alone.
///
/// Where __transaction_state is in the log directories given, or in the one a partition lies in,
/// each open transaction has its transactional id and a class: ongoing or prepared, which the
/// coordinator is going to end, or orphan and why, which nobody is. Give the log directories of
/// all brokers to be sure that every transactional id is found.
///
/// Ages count from the largest timestamp of a transaction's first batch to --now, or to the wall
/// clock without it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg txns --state open --older-than 15m /var/lib/kafka
  kseg txns --producer-id 1003 -o ndjson /var/lib/kafka/orders-0
  kseg txns --state open --fail-older-than 1h30m /var/lib/kafka
  kseg txns --state open --transactional-id-prefix flink-orders- /disk1/kafka /disk2/kafka

Exit status:
  0  done
  1  done, and with --fail-older-than: a listed open transaction is older
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct TxnsArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// Only transactions that stand like this; may be given more than once
    #[arg(long, value_enum, value_name = "STATE", value_delimiter = ',')]
    state: Vec<StateArg>,
    /// Only transactions that began longer ago than this: 45s, 15m, 1h30m, 2d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<i64>,
    /// End with status 1 if an open transaction is older than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    fail_older_than: Option<i64>,
    /// Only transactions of transactional ids that begin like this
    #[arg(long, value_name = "PREFIX")]
    transactional_id_prefix: Option<String>,
    #[command(flatten)]
    build: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    batches: BatchFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

/// How a transaction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateArg {
    /// No marker yet
    Open,
    /// Ended by a COMMIT marker
    Committed,
    /// Ended by an ABORT marker
    Aborted,
}

impl TxnsArgs {
    fn states(&self) -> WantedStates {
        let wants = |state| self.state.is_empty() || self.state.contains(&state);
        WantedStates {
            open: wants(StateArg::Open),
            committed: wants(StateArg::Committed),
            aborted: wants(StateArg::Aborted),
        }
    }
}

pub(crate) fn run(args: &TxnsArgs, context: &mut Context) -> anyhow::Result<Status> {
    let filter = args.partitions.filter_with(&args.batches);
    let inputs = Inputs::new(&args.paths, filter.clone()).loaded(&args.loaded, args.build.now);
    let clock_ms = args
        .build
        .now
        .unwrap_or_else(|| jiff::Timestamp::now().as_millisecond());
    let coordinators = Coordinators::around(&args.paths);
    let coordinators = coordinators.states(context).cloned();
    if args.transactional_id_prefix.is_some() && coordinators.is_none() {
        anyhow::bail!(
            "no __transaction_state to look up transactional ids in; give the log directories of \
             the brokers that have it"
        );
    }
    let options = TxnsOptions {
        coordinators,
        transactional_id_prefix: args.transactional_id_prefix.clone(),
        state: args.build.options(context.io),
        filter,
        states: args.states(),
        started_before_ms: args.older_than.map(|age| clock_ms.saturating_sub(age)),
        now_ms: args.build.now,
    };
    let fails_before = args.fail_older_than.map(|age| clock_ms.saturating_sub(age));
    let mut is_late = false;
    let mut judge = |row: &TxnRow<'_>| {
        let start = row.start_timestamp.or(row.last_timestamp);
        is_late |= row.state == TxnState::Open
            && fails_before.is_some_and(|before| start.is_some_and(|start| start < before));
    };
    match JsonRows::for_format(context.format, "kseg/txns/v1") {
        Some(mut json) => {
            each_partition(&inputs, &options, context, |_, row, context| {
                judge(row);
                Ok(json.row(&mut context.out, row)?)
            })?;
            json.finish(&mut context.out)?;
        }
        None => table(inputs, &options, clock_ms, judge, context)?,
    }
    Ok(if is_late {
        Status::Found
    } else {
        Status::Clean
    })
}

/// Hands out the rows of every partition that can be read, and says what a row cannot; returns how
/// many partitions that were.
fn each_partition(
    inputs: &Inputs,
    options: &TxnsOptions,
    context: &mut Context,
    mut emit: impl FnMut(&PartitionInput<'_>, &TxnRow<'_>, &mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut partitions = 0;
    inputs.for_each_partition(context, |partition, context| {
        let summary = txns_partition(partition.dir, partition.offsets, options, |row| {
            emit(partition, row, context)
        });
        if let Some(summary) = context.passed(summary)?.flatten() {
            partitions += 1;
            warn_about(partition, &summary, context);
        }
        Ok(())
    })?;
    Ok(partitions)
}

/// What the rows do not say, on standard error.
fn warn_about(partition: &PartitionInput<'_>, summary: &TxnsSummary, context: &Context) {
    let path = partition.dir.path.display();
    if summary.is_forgotten_at_start {
        warn_forgotten_at_start(&partition.dir.path, context);
    }
    for (first_offset, producer_id) in &summary.forgotten {
        context.warn(&format!(
            "{path}: the log leaves a transaction of producer {producer_id} open at \
             {first_offset}, but the snapshot a broker loads does not know it; --from-scratch \
             lists it"
        ));
    }
    if summary.refused > 0 {
        context.warn(&format!(
            "{path}: {} would stop a broker that rebuilds its state; kseg replay shows which",
            plural(summary.refused, "batch", "batches")
        ));
    }
    if let Some(unread) = &summary.unread_offset_commits {
        warn_unread(unread, context);
    }
    if summary.vanished > 0 {
        let segments = count(summary.vanished, "segment");
        context.warn(&format!("{path}: {segments} vanished while reading"));
    }
}

fn table(
    inputs: Inputs,
    options: &TxnsOptions,
    clock_ms: i64,
    mut judge: impl FnMut(&TxnRow<'_>),
    context: &mut Context,
) -> anyhow::Result<()> {
    let inputs = inputs.collecting();
    let mut totals = Totals::new(options.states, options.coordinators.is_some());
    let partitions = each_partition(&inputs, options, context, |partition, row, _| {
        judge(row);
        totals.add(&partition.label, row, clock_ms);
        Ok(())
    })?;
    if partitions == 0 {
        return Ok(());
    }
    let unseen = context.unseen();
    let mut hidden = totals.print(clock_ms, unseen, context.style, &mut context.out)?;
    if totals.any_ended() {
        // The answer comes first, and there may be more transactions than fit in memory: the
        // listing is read from the log again.
        let ended = TxnsOptions {
            states: WantedStates {
                open: false,
                ..options.states
            },
            ..options.clone()
        };
        hidden = hidden.max(list_ended(&inputs, &ended, context)?);
    }
    Ok(note_hidden(hidden, context.style, &mut context.out)?)
}

fn list_ended(
    inputs: &Inputs,
    options: &TxnsOptions,
    context: &mut Context,
) -> anyhow::Result<usize> {
    let style = context.style;
    let mut listing = Listing::new(ENDED_COLUMNS, style);
    let mut current = None;
    each_partition(inputs, options, context, |partition, row, context| {
        let path = &partition.dir.path;
        if current.as_ref() != Some(path) {
            writeln!(context.out)?;
            heading(&mut context.out, style, &partition.label)?;
            listing.headings(&mut context.out, style)?;
            current = Some(path.clone());
        }
        listing.row(&mut context.out, &ended_cells(row))?;
        for note in notes(row) {
            alarm(&mut context.out, style, ["  ", "    "], &note)?;
        }
        Ok(())
    })?;
    Ok(listing.hidden())
}
