//! `kseg lso`: where read_committed stops, and why.

use std::io::Write;

use clap::Args;
use kseg::report::gaps::offset_range;
use kseg::report::lso::{HeldBy, LsoRow, lso};
use kseg::report::transaction_state::TransactionClass;

use crate::beside::warn_forgotten_at_start;
use crate::cli::{AsLoadedArgs, PartitionFilterArgs, PathArgs, StateArgs};
use crate::context::{Context, Status};
use crate::coordinators::Coordinators;
use crate::inputs::Inputs;
use crate::render::columns::Align::{Left, Right};
use crate::render::json::JsonRows;
use crate::render::summary::{Summary, SummaryColumn};
use crate::render::text::{count, plural, time};
use crate::render::txns_table::DAMAGED_FIRST_BATCH;
use crate::render::{note_hidden, paragraph};

/// Show where read_committed consumers stop, and who holds them there
///
/// Gives the last stable offset of each partition as the broker loads it: the newest usable
/// snapshot, then the log behind it. --from-scratch gives the one of an unclean start that recovers
/// every segment. Partitions held back from their high watermark come first; --all lists the others
/// as well. Where __transaction_state
/// is in the log directories given, the holder has its transactional id, and whether a coordinator
/// is still going to end it.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg lso /var/lib/kafka
  kseg lso --topic orders --high-watermark 140 /var/lib/kafka

Exit status:
  0  done
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct LsoArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// List partitions that nobody holds back as well
    #[arg(long)]
    all: bool,
    /// The high watermark, where you know better than the checkpoint
    #[arg(
        long,
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(0..),
        value_name = "OFFSET"
    )]
    high_watermark: Option<i64>,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

pub(crate) fn run(args: &LsoArgs, context: &mut Context) -> anyhow::Result<Status> {
    let inputs = Inputs::new(&args.paths, args.partitions.filter())
        .loaded(&args.loaded, args.state.now)
        .collecting();
    let mut options = args.state.options(context.io);
    options.high_watermark = args.high_watermark;
    let mut json = JsonRows::for_format(context.format, "kseg/lso/v1");
    let coordinators = Coordinators::around(&args.paths);
    // Before the first partition: one that ends meanwhile would seem forgotten.
    let coordinators = coordinators.states(context).cloned();
    let mut rows = Vec::new();
    let walked = inputs.for_each_partition(context, |partition, context| {
        let row = lso(partition.dir, partition.offsets, options).map(|row| {
            let mut row = row?;
            if let Some(states) = &coordinators {
                row.join(states, partition.dir);
            }
            Some(row)
        });
        if let Ok(Some(row)) = &row
            && row.forgotten_at_start
            && row.first_unstable_offset.is_some()
        {
            warn_forgotten_at_start(&partition.dir.path, context);
        }
        match (row, &mut json) {
            (Ok(Some(row)), Some(json)) => json.row(&mut context.out, &row)?,
            (Ok(Some(row)), None) => rows.push(Named {
                name: partition.label.clone(),
                row,
            }),
            (Ok(None), _) => {}
            (Err(error), _) => context.fail(&error),
        }
        Ok(())
    });
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None => print_table(&rows, args, context)?,
    }
    walked?;
    Ok(Status::Clean)
}

const COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("LSO", Right, 0),
    SummaryColumn::new("HIGH WATERMARK", Right, 1),
    SummaryColumn::new("BEHIND", Right, 0),
    SummaryColumn::new("LOG START", Right, 3),
    SummaryColumn::new("LOG END", Right, 2),
    SummaryColumn::new("HELD BY", Left, 0),
];

/// A row and what its partition is called.
struct Named {
    name: String,
    row: LsoRow,
}

impl std::ops::Deref for Named {
    type Target = LsoRow;

    fn deref(&self) -> &LsoRow {
        &self.row
    }
}

fn print_table(rows: &[Named], args: &LsoArgs, context: &mut Context) -> anyhow::Result<()> {
    let all = args.all;
    if rows.is_empty() {
        return Ok(());
    }
    let held = rows.iter().filter(|row| row.held_by.is_some()).count() as u64;
    let unseen = context.unseen();
    let line = match (held, rows.len() as u64) {
        (0, all) => format!("no partition of {all} is held back from its high watermark{unseen}"),
        (held, all) => format!(
            "{held} of {} held back from the high watermark{unseen}",
            plural(all, "partition is", "partitions are")
        ),
    };
    let style = context.style;
    paragraph(&mut context.out, style, ["", "  "], &line)?;
    let shown: Vec<&Named> = rows.iter().filter(|row| all || has_note(row)).collect();
    let mut hidden = 0;
    if !shown.is_empty() {
        writeln!(context.out)?;
        let mut table = Summary::new(COLUMNS);
        for row in &shown {
            table.row(cells(row));
        }
        hidden = table.print(&mut context.out, style)?;
    }
    print_notes(&shown, context)?;
    print_sources(rows, args, context)?;
    Ok(note_hidden(hidden, style, &mut context.out)?)
}

/// A line about a partition.
enum Note {
    Text(String),
    /// What it is for, and one line however long, to be pasted.
    Release(String, String),
}

fn print_notes(rows: &[&Named], context: &mut Context) -> anyhow::Result<()> {
    let notes: Vec<Note> = rows.iter().flat_map(|row| notes(row)).collect();
    if !notes.is_empty() {
        writeln!(context.out)?;
    }
    let style = context.style;
    for note in notes {
        match note {
            Note::Text(text) => paragraph(&mut context.out, style, ["", "  "], &text)?,
            Note::Release(what, command) => {
                let line = format!("{what}: {command}");
                let fits = style
                    .width
                    .is_none_or(|width| line.chars().count() <= width);
                if fits {
                    writeln!(context.out, "{line}")?;
                } else {
                    let to = format!("{what}:");
                    paragraph(&mut context.out, style, ["", "  "], &to)?;
                    writeln!(context.out, "{command}")?;
                }
            }
        }
    }
    Ok(())
}

fn notes(row: &Named) -> Vec<Note> {
    let name = &row.name;
    let mut notes = Vec::new();
    let mut note = |text: String| notes.push(Note::Text(format!("{name}: {text}")));
    let held = row.held_by.as_ref();
    let lost = held.and_then(|held| held.marker_may_be_lost_in);
    if let Some(held) = held {
        if let (Some(file), Some(position)) = (&held.file, held.position) {
            let first = match held.first_offset_in_log {
                Some(there) if there != held.first_offset => {
                    format!("first batch gone; the one at {there} is")
                }
                Some(_) | None => "first batch".to_owned(),
            };
            note(format!("{first} in {file} at position {position}"));
            if held.first_batch_is_damaged {
                note(DAMAGED_FIRST_BATCH.to_owned());
            }
        }
        standing(held).map(&mut note);
    }
    if let Some(first) = row.first_unstable_offset.filter(|_| is_waiting(row)) {
        // Nothing may be left of the log, but of a transaction that began in it.
        note(if row.high_watermark < row.log_end_offset {
            format!(
                "high watermark {} is below the log end {}; a transaction from {first} on holds \
                 consumers as soon as it passes that",
                row.high_watermark, row.log_end_offset
            )
        } else {
            format!(
                "a transaction is open that holds consumers at the log end {first}, as soon as \
                 anything is written"
            )
        });
    }
    if let Some(past) = row.high_watermark_past_end {
        note(format!(
            "the checkpointed high watermark {past} is above the log end {}: records that were \
             acknowledged are not here, see kseg recover; a broker takes the log end",
            row.log_end_offset
        ));
    }
    if let (Some(replayed), Some(why)) = (row.last_stable_offset_replayed, &row.difference) {
        note(format!("the log alone gives {replayed}: {why}"));
    }
    if let Some(reason) = &row.incomplete_reason {
        note(format!("not complete: {reason}"));
    }
    let class = held.and_then(|held| held.class);
    let is_in_hand = class.is_some_and(TransactionClass::is_in_hand);
    let lost = lost.filter(|_| !is_in_hand);
    if let Some(lost) = lost {
        note(format!(
            "lost behind its first: {}. Its marker may have been there: look whether another \
             replica has it ended before an abort; kseg gaps says why it is lost",
            offset_range(lost.first_offset, lost.last_offset)
        ));
    }
    let command = held.and_then(|held| held.abort_command.as_ref());
    let release = match lost {
        Some(_) => format!("release {name}, if no other replica has it ended"),
        None => format!("release {name}"),
    };
    notes.extend(command.map(|command| Note::Release(release, command.clone())));
    notes
}

/// What the coordinator has of the transaction, and what that means for an abort.
fn standing(held: &HeldBy) -> Option<String> {
    let class = held.class?;
    let id = held.transactional_id.as_deref().map_or_else(
        || {
            format!(
                "no transactional id of producer {} is known",
                held.producer_id
            )
        },
        |id| format!("transactional id {id}"),
    );
    let times_out = held.coordinator.as_ref().and_then(|it| it.times_out_at_ms);
    let advice = match (class.is_in_hand(), times_out) {
        (true, Some(at)) => format!(
            "; its coordinator aborts it after {}, to abort it now cuts into it",
            time(at)
        ),
        (true, None) => "; its coordinator is still to write the marker".to_owned(),
        (false, _) if class == TransactionClass::MayBeNewer => {
            "; run again before an abort".to_owned()
        }
        (false, _) if class.is_orphan() && class.may_have_ended() => {
            "; its marker may be missing here: look at another replica before an abort".to_owned()
        }
        (false, _) => class
            .outlook()
            .map_or_else(String::new, |outlook| format!(": {outlook}")),
    };
    Some(format!("{id}: {class}{advice}"))
}

/// Whether there is more to say of a partition than its offsets.
fn has_note(row: &LsoRow) -> bool {
    row.held_by.is_some()
        || row.difference.is_some()
        || row.high_watermark_past_end.is_some()
        || is_waiting(row)
}

/// Nobody is held back yet, only because the high watermark is low, or the checkpoint stale, or
/// nothing lies behind where they will be.
fn is_waiting(row: &LsoRow) -> bool {
    row.held_by.is_none() && row.first_unstable_offset.is_some()
}

fn print_sources(rows: &[Named], args: &LsoArgs, context: &mut Context) -> anyhow::Result<()> {
    let assumed = rows
        .iter()
        .filter(|row| row.high_watermark_source == "assumed")
        .count();
    let source = match (assumed, rows.len()) {
        (0, _) => "high watermark from the checkpoint, which may be stale".to_owned(),
        (assumed, all) if assumed == all => {
            "no checkpoint: high watermark assumed to be the log end".to_owned()
        }
        (assumed, _) => format!(
            "high watermark from the checkpoint; assumed to be the log end in {}",
            count(assumed as u64, "partition")
        ),
    };
    let given = rows.iter().any(|row| row.high_watermark_source == "given");
    let source = if given {
        "high watermark as given".to_owned()
    } else {
        source
    };
    // A broker keeps it between log start and log end (`UnifiedLog.updateHighWatermark`).
    let moved = rows.iter().filter(|row| {
        row.high_watermark_source == "given" && args.high_watermark != Some(row.high_watermark)
    });
    let source = match moved.count() {
        0 => source,
        moved => format!(
            "{source}, but brought to the log start or log end in {}, which it lies outside of",
            count(moved as u64, "partition")
        ),
    };
    let style = context.style;
    let is_open = |held: &HeldBy| held.marker_offset.is_none();
    let mut open = rows
        .iter()
        .filter_map(|row| row.held_by.as_ref().filter(|it| is_open(it)));
    if open.clone().next().is_some() && open.all(|held| held.class.is_none()) {
        writeln!(context.out)?;
        let line = "no __transaction_state here: transactional ids are not known";
        paragraph(&mut context.out, style, ["", ""], line)?;
    }
    let more = if args.all {
        ""
    } else {
        "; --all lists every partition"
    };
    writeln!(context.out)?;
    let line = format!("{source}{more}");
    Ok(paragraph(&mut context.out, style, ["", ""], &line)?)
}

fn cells(row: &Named) -> Vec<String> {
    vec![
        row.name.clone(),
        row.last_stable_offset.to_string(),
        row.high_watermark.to_string(),
        row.lag.to_string(),
        row.log_start_offset.to_string(),
        row.log_end_offset.to_string(),
        row.held_by.as_ref().map_or_else(|| "-".to_owned(), held_by),
    ]
}

fn held_by(held: &HeldBy) -> String {
    let producer = match held.producer_epoch {
        Some(epoch) => format!("producer {} epoch {epoch}", held.producer_id),
        None => format!("producer {}", held.producer_id),
    };
    match (held.marker_offset, held.start_timestamp) {
        (Some(marker), _) => {
            format!("marker of {producer} at {marker}: not below the high watermark")
        }
        (None, Some(start)) => format!("{producer}, open since {}", time(start)),
        (None, None) if held.position.is_none() => {
            format!("{producer}, known to the snapshot alone")
        }
        (None, None) => format!("{producer}, open from {}", held.first_offset),
    }
}
