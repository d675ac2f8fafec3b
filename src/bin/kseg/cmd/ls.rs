//! `kseg ls`: what lies in a directory.

use std::io::Write;

use clap::Args;
use kseg::report::ls::{LsOptions, LsRow, LsSegment, ls_partition};

use crate::cli::{AsLoadedArgs, PartitionFilterArgs, PathArgs};
use crate::context::{Context, Status};
use crate::inputs::Inputs;
use crate::render::columns::Align::{Left, Right};
use crate::render::json::JsonRows;
use crate::render::summary::{Summary, SummaryColumn};
use crate::render::text::{bytes, count, optional, optional_time, printable};
use crate::render::{alarm, heading, note_hidden, paragraph};

/// List the partitions in a directory, with offsets, sizes, counts and times
///
/// Walks the batch headers of every segment; records and checksums are not read. The high
/// watermark is the checkpointed one, which may be stale; `-` where there is none. Directories
/// that are not live (`delete`, `future`, `stray`) are shown as what they are.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg ls /var/lib/kafka
  kseg ls --segments /var/lib/kafka/orders-0

Exit status:
  0  done
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// List the segments of each partition
    #[arg(long)]
    segments: bool,
    /// List the files of each partition
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    filter: PartitionFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

pub(crate) fn run(args: &LsArgs, context: &mut Context) -> anyhow::Result<Status> {
    let inputs = Inputs::new(&args.paths, args.filter.filter())
        .loaded(&args.loaded, None)
        .collecting();
    let options = LsOptions {
        io: context.io,
        segments: args.segments,
        files: args.files,
    };
    let mut json = JsonRows::for_format(context.format, "kseg/ls/v1");
    let mut rows = Vec::new();
    let walked = inputs.for_each_partition(context, |partition, context| {
        let row = ls_partition(partition.dir, partition.offsets, options);
        for path in row.iter().flat_map(|row| &row.vanished) {
            context.vanished(path);
        }
        match (row, &mut json) {
            (Ok(row), Some(json)) => json.row(&mut context.out, &row)?,
            (Ok(row), None) => rows.push(Named {
                name: partition.label.clone(),
                row,
            }),
            (Err(error), _) => context.fail(&error),
        }
        Ok(())
    });
    match json {
        Some(json) => json.finish(&mut context.out)?,
        None => print_table(&rows, context)?,
    }
    walked?;
    Ok(Status::Clean)
}

/// A row and what its partition is called.
struct Named {
    name: String,
    row: LsRow,
}

impl std::ops::Deref for Named {
    type Target = LsRow;

    fn deref(&self) -> &LsRow {
        &self.row
    }
}

/// Place of the column that is shown only if a directory is not live.
const STATUS_COLUMN: usize = 1;

/// Place of the column that is shown only if there are several directories: partitions of
/// several brokers have the same names.
const DIRECTORY_COLUMN: usize = 12;

const COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("PARTITION", Left, 0),
    SummaryColumn::new("STATUS", Left, 0),
    SummaryColumn::new("LOG START", Right, 2),
    SummaryColumn::new("HIGH WATERMARK", Right, 3),
    SummaryColumn::new("LOG END", Right, 0),
    SummaryColumn::new("SEGMENTS", Right, 5),
    SummaryColumn::new("SIZE", Right, 1),
    SummaryColumn::new("BATCHES", Right, 7),
    SummaryColumn::new("CONTROL", Right, 8),
    SummaryColumn::new("RECORDS", Right, 4),
    SummaryColumn::new("FIRST TIMESTAMP", Left, 9),
    SummaryColumn::new("MAX TIMESTAMP", Left, 6),
    SummaryColumn::new("DIRECTORY", Left, 0),
];

fn print_table(rows: &[Named], context: &mut Context) -> anyhow::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    print_totals(rows, context)?;
    let all_live = rows.iter().all(|row| row.status == Some("live"));
    let mut table = Summary::new(COLUMNS);
    if all_live {
        table.hide_column(STATUS_COLUMN);
    }
    if rows.iter().all(|row| {
        rows.first()
            .is_some_and(|first| directory(first) == directory(row))
    }) {
        table.hide_column(DIRECTORY_COLUMN);
    }
    for row in rows {
        table.row(cells(row));
    }
    let style = context.style;
    let mut hidden = table.print(&mut context.out, style)?;
    for row in rows {
        hidden = hidden.max(print_segments(row, context)?);
        print_files(row, context)?;
    }
    Ok(note_hidden(hidden, context.style, &mut context.out)?)
}

/// The answer in one line, and a line for each partition that needs a look.
fn print_totals(rows: &[Named], context: &mut Context) -> anyhow::Result<()> {
    let segments = rows.iter().map(|row| row.segments).sum();
    let size = rows.iter().map(|row| row.size_in_bytes).sum();
    let not_live = rows
        .iter()
        .filter(|row| row.status.is_some_and(|status| status != "live"));
    let mut line = format!(
        "{}, {}, {}",
        count(rows.len() as u64, "partition"),
        count(segments, "segment"),
        bytes(size)
    );
    match not_live.count() {
        0 => {}
        not_live => line.push_str(&format!("; {not_live} not live")),
    }
    let style = context.style;
    paragraph(&mut context.out, style, ["", "  "], &line)?;
    for row in rows.iter().filter(|row| row.damaged_bytes > 0) {
        let damage = format!(
            "{}: {} are no batch; kseg dump shows where",
            row.name,
            bytes(row.damaged_bytes)
        );
        alarm(&mut context.out, style, ["", "  "], &damage)?;
    }
    writeln!(context.out)?;
    Ok(())
}

fn cells(row: &LsRow) -> Vec<String> {
    vec![
        printable(&row.name()),
        row.status.unwrap_or("-").to_owned(),
        optional(row.log_start_offset),
        optional(row.high_watermark),
        optional(row.log_end_offset),
        row.segments.to_string(),
        bytes(row.size_in_bytes),
        row.batches.to_string(),
        row.control_batches.to_string(),
        optional(row.records),
        optional_time(row.first_timestamp),
        optional_time(row.max_timestamp),
        printable(directory(row)),
    ]
}

/// The directory above the partition's.
fn directory(row: &LsRow) -> &str {
    match row.path.trim_end_matches('/').rsplit_once('/') {
        Some((above, _)) => above,
        None => ".",
    }
}

const SEGMENT_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("SEGMENT", Left, 0),
    SummaryColumn::new("BASE OFFSET", Right, 3),
    SummaryColumn::new("NEXT OFFSET", Right, 0),
    SummaryColumn::new("SIZE", Right, 0),
    SummaryColumn::new("BATCHES", Right, 2),
    SummaryColumn::new("CONTROL", Right, 5),
    SummaryColumn::new("RECORDS", Right, 1),
    SummaryColumn::new("FIRST TIMESTAMP", Left, 6),
    SummaryColumn::new("MAX TIMESTAMP", Left, 7),
    SummaryColumn::new("RETENTION GOES BY", Left, 4),
];

/// Returns how many columns did not fit.
fn print_segments(row: &Named, context: &mut Context) -> anyhow::Result<usize> {
    let Some(segments) = &row.segment_list else {
        return Ok(0);
    };
    writeln!(context.out)?;
    heading(&mut context.out, context.style, &row.name)?;
    let mut table = Summary::new(SEGMENT_COLUMNS);
    for segment in segments {
        table.row(vec![
            printable(&segment.file),
            segment.base_offset.to_string(),
            segment.next_offset.to_string(),
            bytes(segment.size_in_bytes),
            segment.batches.to_string(),
            segment.control_batches.to_string(),
            optional(segment.records),
            optional_time(segment.first_timestamp),
            optional_time(segment.max_timestamp),
            retention(segment),
        ]);
    }
    let style = context.style;
    Ok(table.print(&mut context.out, style)?)
}

/// The time that retention goes by, and where it is from if not from the time index.
fn retention(segment: &LsSegment) -> String {
    let time = optional_time(segment.retention_timestamp);
    match segment.retention_timestamp_source {
        Some("lastModified") => format!("{time} (mtime)"),
        Some("batches") => format!("{time} (batches)"),
        Some(_) | None => time,
    }
}

const FILE_COLUMNS: &[SummaryColumn] = &[
    SummaryColumn::new("FILE", Left, 0),
    SummaryColumn::new("STATE", Left, 0),
    SummaryColumn::new("SIZE", Right, 0),
    SummaryColumn::new("WHAT", Left, 0),
];

fn print_files(row: &Named, context: &mut Context) -> anyhow::Result<()> {
    let Some(files) = &row.file_list else {
        return Ok(());
    };
    writeln!(context.out)?;
    heading(&mut context.out, context.style, &row.name)?;
    let mut table = Summary::new(FILE_COLUMNS);
    for file in files {
        table.row(vec![
            printable(&file.file),
            file.state.to_owned(),
            bytes(file.size_in_bytes),
            file.kind.to_owned(),
        ]);
    }
    let style = context.style;
    table.print(&mut context.out, style)?;
    Ok(())
}
