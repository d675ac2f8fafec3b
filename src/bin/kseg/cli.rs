//! The arguments. Help texts are the source of the man pages.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kseg::append::dry_run::row::Start;
use kseg::log::Io;
use kseg::report::content::BytesForm;
use kseg::report::filter::Filter;
use kseg::report::partition_state::StateOptions;
use kseg::state::Expiration;

use crate::cmd;

/// What `kseg --help` ends with; every subcommand's help ends with the same three codes in its
/// own words.
const EXIT_STATUS: &str = "\
Exit status:
  0  done, nothing wrong found
  1  done, and something wrong was found
  2  could not do it: bad usage, unreadable input, no such partition";

/// Answer from Kafka log directories what the broker would answer
///
/// kseg reads a broker's log directory, a partition directory or a single file, without a broker
/// and without changing anything, and answers as Kafka 4.3.1 would.
#[derive(Debug, Parser)]
#[command(name = "kseg", version, after_long_help = EXIT_STATUS, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of every command.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Form of the answer
    #[arg(short, long, global = true, value_enum, default_value_t = OutputFormat::Table)]
    pub(crate) output: OutputFormat,
    /// When to colour the table
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
    /// How to read files: mmap is fastest; read suits file systems where maps misbehave
    #[arg(long, global = true, value_enum, default_value_t = IoArg::Mmap, hide_short_help = true)]
    pub(crate) io: IoArg,
}

/// Forms of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Table,
    /// One document
    Json,
    /// One result a line, in constant memory
    Ndjson,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How to read files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoArg {
    /// Memory maps
    Mmap,
    /// Reads into a buffer
    Read,
}

impl From<IoArg> for Io {
    fn from(arg: IoArg) -> Self {
        match arg {
            IoArg::Mmap => Self::Mmap,
            IoArg::Read => Self::Read,
        }
    }
}

/// How bytes that are no text are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BytesArg {
    /// Base64
    Base64,
    /// Hexadecimal
    Hex,
}

impl From<BytesArg> for BytesForm {
    fn from(arg: BytesArg) -> Self {
        match arg {
            BytesArg::Base64 => Self::Base64,
            BytesArg::Hex => Self::Hex,
        }
    }
}

/// The commands, in the order an operator asks.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(cmd::ls::LsArgs),
    Dump(cmd::dump::DumpArgs),
    Read(cmd::read::ReadArgs),
    Producers(cmd::producers::ProducersArgs),
    Replay(cmd::replay::ReplayArgs),
    Gaps(cmd::gaps::GapsArgs),
    Txns(cmd::txns::TxnsArgs),
    Aborted(cmd::aborted::AbortedArgs),
    Lso(cmd::lso::LsoArgs),
    Diff(cmd::diff::DiffArgs),
    Verify(cmd::verify::VerifyArgs),
    Recover(cmd::recover::RecoverArgs),
    Rebuild(cmd::rebuild::RebuildArgs),
    Write(cmd::write::WriteArgs),
    Schema(cmd::schema::SchemaArgs),
    Completions(cmd::completions::CompletionsArgs),
}

/// The paths of every reading command.
#[derive(Args, Debug)]
pub(crate) struct PathArgs {
    /// A file, a partition directory or a broker's log directory; kseg finds out which. What
    /// several of them lead to is looked at once
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

/// How a broker starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartArg {
    /// After a clean stop: .kafka_cleanshutdown is there
    Clean,
    /// After a crash: it is not
    Unclean,
}

impl From<StartArg> for Start {
    fn from(arg: StartArg) -> Self {
        match arg {
            StartArg::Clean => Self::Clean,
            StartArg::Unclean => Self::Unclean,
        }
    }
}

/// Whether a directory is looked at as it is, or as a broker would make it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Loading")]
pub(crate) struct AsLoadedArgs {
    /// Look at each partition as a broker would have it after its start: see kseg recover
    #[arg(long)]
    pub(crate) as_loaded: bool,
    /// After this start, instead of the one the directory would get
    #[arg(long, value_enum, value_name = "START", requires = "as_loaded")]
    pub(crate) start: Option<StartArg>,
}

/// How the state of a partition is built.
#[derive(Args, Debug)]
#[command(next_help_heading = "State")]
pub(crate) struct StateArgs {
    /// Use no snapshot: replay the log from its first batch
    #[arg(long)]
    pub(crate) from_scratch: bool,
    /// The state after all batches below this offset, instead of at the log end
    #[arg(long, allow_negative_numbers = true, value_name = "OFFSET")]
    pub(crate) at_offset: Option<i64>,
    /// The clock, in milliseconds or RFC 3339: producers too old by it are left out
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_time)]
    pub(crate) now: Option<i64>,
    /// Age at which a broker forgets a producer (producer.id.expiration.ms)
    #[arg(long, value_name = "MS", default_value_t = 86_400_000)]
    pub(crate) producer_id_expiration_ms: i64,
}

impl StateArgs {
    pub(crate) fn options(&self, io: Io) -> StateOptions {
        let expiration = self.now.map(|now_ms| Expiration {
            now_ms,
            producer_id_expiration_ms: self.producer_id_expiration_ms,
        });
        StateOptions {
            io,
            from_scratch: self.from_scratch,
            at_offset: self.at_offset,
            expiration,
            high_watermark: None,
        }
    }
}

/// Filters for partitions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
pub(crate) struct PartitionFilterArgs {
    /// Only this topic
    #[arg(long, value_name = "NAME")]
    pub(crate) topic: Option<String>,
    /// Only this partition number
    #[arg(long, value_name = "N")]
    pub(crate) partition: Option<i32>,
}

/// Which producer.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
pub(crate) struct ProducerFilterArgs {
    /// Only this producer
    #[arg(long, allow_negative_numbers = true, value_name = "ID")]
    pub(crate) producer_id: Option<i64>,
}

/// Filters for batches.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters")]
pub(crate) struct BatchFilterArgs {
    /// Only this producer
    #[arg(long, allow_negative_numbers = true, value_name = "ID")]
    pub(crate) producer_id: Option<i64>,
    /// Begin at this offset
    #[arg(long, allow_negative_numbers = true, value_name = "OFFSET")]
    pub(crate) from_offset: Option<i64>,
    /// End before this offset
    #[arg(long, allow_negative_numbers = true, value_name = "OFFSET")]
    pub(crate) to_offset: Option<i64>,
    /// Begin at this time: milliseconds or RFC 3339
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_time)]
    pub(crate) from_time: Option<i64>,
    /// End before this time: milliseconds or RFC 3339
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_time)]
    pub(crate) to_time: Option<i64>,
}

impl PartitionFilterArgs {
    /// The filter with nothing said about batches.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            topic: self.topic.clone(),
            partition: self.partition,
            ..Filter::default()
        }
    }

    /// The filter with both halves.
    pub(crate) fn filter_with(&self, batches: &BatchFilterArgs) -> Filter {
        Filter {
            producer_id: batches.producer_id,
            from_offset: batches.from_offset,
            to_offset: batches.to_offset,
            from_time_ms: batches.from_time,
            to_time_ms: batches.to_time,
            ..self.filter()
        }
    }
}

/// Milliseconds since 1970, or a time as tables print it.
pub(crate) fn parse_time(text: &str) -> Result<i64, String> {
    if let Ok(millis) = text.parse::<i64>() {
        return Ok(millis);
    }
    text.parse::<jiff::Timestamp>()
        .map(jiff::Timestamp::as_millisecond)
        .map_err(|_| "expected milliseconds or a time such as 2026-11-29T15:02:11Z".to_owned())
}

/// A span of time such as `15m` or `1h30m`, in milliseconds; a day has 24 hours.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let expected = || "expected a duration such as 45s, 15m, 1h30m or 2d".to_owned();
    let span: jiff::Span = text.parse().map_err(|_| expected())?;
    let duration = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .map_err(|_| expected())?;
    i64::try_from(duration.as_millis())
        .ok()
        .filter(|millis| *millis >= 0)
        .ok_or_else(expected)
}

/// Prints what clap has to say: help and version to standard output, mistakes to standard error.
pub(crate) fn usage_error(error: &clap::Error) -> ExitCode {
    // A closed pipe is the only way this fails, and then nobody reads the message.
    let _ = error.print();
    if error.use_stderr() {
        Status::Failed.into()
    } else {
        Status::Clean.into()
    }
}

use crate::context::Status;
