//! `kseg replay`: the verdict on each batch, or on one that was never written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use kseg::report::replay::{
    Append, AppendFrom, Questions, ReplayCounts, ReplayOptions, ReplayRow, Request, Verification,
    ask, parse_requests, replay_log, retry,
};
use kseg::state::{Expiration, TransactionVersion};

use crate::cli::{AsLoadedArgs, BatchFilterArgs, PartitionFilterArgs, PathArgs, parse_time};
use crate::context::{Context, Status};
use crate::inputs::{Inputs, PartitionInput};
use crate::render::replay_json::ReplayJson;
use crate::render::replay_table::{ReplayTable, cells, print_kept, request};
use crate::render::text::{count, plural};
use crate::render::{alarm, heading, note_hidden, paragraph};

/// Lines a table shows of one partition without --all; the others are only counted.
const MAX_ROWS: usize = 1000;
/// A file of requests larger than this is not read.
const MAX_REQUEST_BYTES: u64 = 256 * 1024 * 1024;

/// Tell what a leader answers to each batch of the log, or to one never written
///
/// Without a question, every logged batch gets the verdict of a leader with the state before it:
/// appended, duplicate or rejected, with Kafka's error and the rule. The table lists those that a
/// leader would not append and why they are in the log all the same; --all lists every batch.
/// With --base-sequence, --retry or --requests it answers for batches that are not in the log, as
/// a broker that never stopped (five batches a producer), after a clean restart (one batch), and
/// with the producer's state lost. Transaction verification is in a broker's memory only: logged
/// batches, and requests unless they say otherwise, count as verified.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg replay /var/lib/kafka/orders-0
  kseg replay --producer-id 1003 --producer-epoch 4 --base-sequence 36 --count 3 orders-0
  kseg replay --retry 120 orders-0
  kseg replay --requests steps.json -o json orders-0

Exit status:
  0  done, and a leader takes everything
  1  done, and a logged batch would not be appended or a request is rejected
  2  could not do it: bad usage, unreadable input, no such partition")]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    paths: PathArgs,
    /// List every batch
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    question: QuestionArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    partitions: PartitionFilterArgs,
    #[command(flatten)]
    batches: BatchFilterArgs,
    #[command(flatten)]
    loaded: AsLoadedArgs,
}

/// What is asked.
#[derive(Args, Debug)]
#[command(next_help_heading = "A batch that was never written")]
struct QuestionArgs {
    /// Its first sequence; --producer-id says whose
    #[arg(long, value_name = "S", requires_all = ["producer_id", "producer_epoch"])]
    base_sequence: Option<i32>,
    /// Its producer epoch
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "E",
        requires = "base_sequence"
    )]
    producer_epoch: Option<i16>,
    /// How many records it has
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    count: i32,
    /// It belongs to a transaction
    #[arg(long, requires = "base_sequence")]
    transactional: bool,
    /// The batch that holds this offset, sent again
    #[arg(
        long,
        allow_negative_numbers = true,
        value_name = "OFFSET",
        conflicts_with = "base_sequence"
    )]
    retry: Option<i64>,
    /// A JSON array of scenario steps (append, endTxnMarker), put to the log one after another
    #[arg(long, value_name = "FILE", conflicts_with_all = ["base_sequence", "retry"])]
    requests: Option<PathBuf>,
}

/// What the broker knows.
#[derive(Args, Debug)]
#[command(next_help_heading = "State")]
struct StateArgs {
    /// Use no snapshot for what producers did before the log begins
    #[arg(long)]
    from_scratch: bool,
    /// The log as it was when this was its end
    #[arg(long, allow_negative_numbers = true, value_name = "OFFSET")]
    at_offset: Option<i64>,
    /// transaction.version of markers and clients; of logged batches 1 unless given, of requests
    /// that do not say theirs 2 in a file and 1 else
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(0..=2))]
    transaction_version: Option<i16>,
    /// The clock: milliseconds or RFC 3339; a restart then drops producers that are too old
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", value_parser = parse_time)]
    now: Option<i64>,
    /// How long a producer may be idle before a broker forgets it
    #[arg(long, value_name = "MS", default_value_t = 86_400_000)]
    producer_id_expiration_ms: i64,
}

pub(crate) fn run(args: &ReplayArgs, context: &mut Context) -> anyhow::Result<Status> {
    let asked = Asked::new(args)?;
    let mut filter = args.partitions.filter_with(&args.batches);
    let inputs = Inputs::new(&args.paths, filter.clone()).loaded(&args.loaded, None);
    if asked.is_question() {
        filter.producer_id = None;
    }
    let default_version = asked.default_version();
    let version = args.state.transaction_version.unwrap_or(default_version);
    let options = ReplayOptions {
        io: context.io,
        filter,
        from_scratch: args.state.from_scratch,
        at_offset: args.state.at_offset,
        transaction_version: TransactionVersion(version),
        producer_id_expiration_ms: args.state.producer_id_expiration_ms,
    };
    let mut run = Run {
        args,
        options,
        asked,
        json: ReplayJson::for_format(context.format),
        is_found: false,
        partitions: 0,
        logged: Vec::new(),
    };
    let walked = inputs.for_each_partition(context, |partition, context| {
        run.partition(partition, context)
    });
    match run.json {
        Some(json) => json.finish(&mut context.out)?,
        None => print_logged(&run.logged, context)?,
    }
    walked?;
    Ok(if run.is_found {
        Status::Found
    } else {
        Status::Clean
    })
}

/// What the user wants to know.
enum Asked {
    Logged,
    Retry(i64),
    One([Request; 1]),
    Many(Vec<Request>),
}

impl Asked {
    fn new(args: &ReplayArgs) -> anyhow::Result<Self> {
        let question = &args.question;
        if let Some(path) = &question.requests {
            return Ok(Self::Many(read_requests(path)?));
        }
        if let Some(offset) = question.retry {
            return Ok(Self::Retry(offset));
        }
        let (Some(base_sequence), Some(producer_epoch), Some(producer_id)) = (
            question.base_sequence,
            question.producer_epoch,
            args.batches.producer_id,
        ) else {
            return Ok(Self::Logged);
        };
        Ok(Self::One([Request::Append(Append {
            producer_id,
            producer_epoch,
            base_sequence,
            count: question.count,
            is_transactional: question.transactional,
            max_timestamp: args.state.now.unwrap_or(-1),
            origin: AppendFrom::Client,
            verification: Verification::Verified,
            transaction_version: None,
        })]))
    }

    fn is_question(&self) -> bool {
        match self {
            Self::Logged => false,
            Self::Retry(_) | Self::One(_) | Self::Many(_) => true,
        }
    }

    /// A scenario has version 2 unless it says otherwise; the log does not say.
    fn default_version(&self) -> i16 {
        match self {
            Self::Logged | Self::Retry(_) | Self::One(_) => TransactionVersion::V1.0,
            Self::Many(_) => TransactionVersion::V2.0,
        }
    }
}

fn read_requests(path: &Path) -> anyhow::Result<Vec<Request>> {
    let fail = |what: String| anyhow::anyhow!("{}: {what}", path.display());
    let size = fs::metadata(path).map_err(|e| fail(e.to_string()))?.len();
    if size > MAX_REQUEST_BYTES {
        return Err(fail(format!("{size} bytes are too many for requests")));
    }
    let mut text = Vec::new();
    // A device has no size to tell.
    fs::File::open(path)
        .and_then(|file| file.take(MAX_REQUEST_BYTES + 1).read_to_end(&mut text))
        .map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > MAX_REQUEST_BYTES {
        return Err(fail("too many bytes for requests".to_owned()));
    }
    parse_requests(&text).map_err(fail)
}

struct Run<'a> {
    args: &'a ReplayArgs,
    options: ReplayOptions,
    asked: Asked,
    json: Option<ReplayJson>,
    is_found: bool,
    partitions: usize,
    logged: Vec<Logged>,
}

impl Run<'_> {
    fn partition(
        &mut self,
        partition: &PartitionInput<'_>,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        self.partitions += 1;
        let result = match &self.asked {
            Asked::Logged => self.logged(partition, context),
            Asked::Retry(offset) => match retry(partition.dir, context.io, *offset) {
                Ok(Some(request)) => self.questions(partition, &[request], false, context),
                Ok(None) => {
                    let path = partition.dir.path.display();
                    context.fail_with(
                        &format!("{path}: no batch of a producer at offset {offset}"),
                        "--topic and --partition name one of several partitions",
                    );
                    return Ok(());
                }
                Err(error) => Err(error.into()),
            },
            Asked::One(request) => self.questions(partition, &request.clone(), false, context),
            Asked::Many(requests) => self.questions(partition, &requests.clone(), true, context),
        };
        context.passed(result)?;
        Ok(())
    }

    fn questions(
        &mut self,
        partition: &PartitionInput<'_>,
        requests: &[Request],
        is_numbered: bool,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let expiration = self.args.state.now.map(|now_ms| Expiration {
            now_ms,
            producer_id_expiration_ms: self.args.state.producer_id_expiration_ms,
        });
        let questions = Questions {
            requests,
            transaction_version: self.options.transaction_version,
            expiration,
        };
        let (json, is_found) = (&mut self.json, &mut self.is_found);
        let (mut index, partitions) = (0, self.partitions);
        let (dir, offsets, label) = (partition.dir, partition.offsets, &partition.label);
        ask(dir, offsets, &self.options, &questions, |row| {
            *is_found |= row.answer.error.is_some();
            if let Some(json) = json {
                json.row(&mut context.out, row)?;
            } else {
                if index == 0 {
                    if partitions > 1 {
                        writeln!(context.out)?;
                    }
                    print_name(label, context)?;
                }
                let number = is_numbered.then_some(index);
                let style = context.style;
                request(&mut context.out, row, number, style)?;
            }
            index += 1;
            Ok::<_, anyhow::Error>(())
        })
    }

    fn logged(
        &mut self,
        partition: &PartitionInput<'_>,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let (dir, offsets) = (partition.dir, partition.offsets);
        let json = &mut self.json;
        let mut logged = Logged {
            name: partition.label.clone(),
            all: None,
            kept: Vec::new(),
            explained: BTreeMap::new(),
            counts: ReplayCounts::default(),
        };
        if self.args.all && json.is_none() {
            if self.partitions > 1 {
                writeln!(context.out)?;
            }
            print_name(&partition.label, context)?;
            let mut table = ReplayTable::new(context.style);
            table.headings(&mut context.out)?;
            logged.all = Some(table);
        }
        logged.counts = replay_log(dir, offsets, &self.options, |row| {
            match json {
                Some(json) => json.row(&mut context.out, row)?,
                None => logged.row(row, context)?,
            }
            Ok::<_, anyhow::Error>(())
        })?;
        for index in &logged.counts.vanished {
            if let Some(segment) = dir.segments.get(*index)
                && let Some(file) = dir.file(segment.log)
            {
                context.vanished(&dir.file_path(file));
            }
        }
        self.is_found |= logged.counts.not_appended > 0;
        if logged.all.is_some() {
            let batches = plural(logged.counts.rows, "batch", "batches");
            let refused = logged.refused();
            writeln!(context.out, "{batches}, {refused} not appended")?;
        } else {
            self.logged.push(logged);
        }
        Ok(())
    }
}

/// The batches of one partition: all as they come, or the remarkable ones behind the answer.
struct Logged {
    name: String,
    all: Option<ReplayTable>,
    kept: Vec<Vec<String>>,
    explained: BTreeMap<&'static str, u64>,
    counts: ReplayCounts,
}

impl Logged {
    fn row(&mut self, row: &ReplayRow<'_>, context: &mut Context) -> anyhow::Result<()> {
        if let Some(table) = &mut self.all {
            return Ok(table.row(&mut context.out, &cells(row))?);
        }
        if row.answer.verdict != "appended" {
            let explained = row.answer.explained_by.unwrap_or("nothing");
            *self.explained.entry(explained).or_default() += 1;
            if self.kept.len() < MAX_ROWS {
                self.kept.push(cells(row));
            }
        }
        Ok(())
    }

    fn refused(&self) -> u64 {
        self.counts.not_appended + self.counts.gone_before
    }
}

/// The answer in one line, then the batches that a leader would not append.
fn print_logged(answers: &[Logged], context: &mut Context) -> anyhow::Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    let refused: u64 = answers.iter().map(Logged::refused).sum();
    let batches = answers.iter().map(|answer| answer.counts.rows).sum();
    let batches = plural(batches, "batch", "batches");
    let place = match answers {
        [answer] => answer.name.clone(),
        _ => count(answers.len() as u64, "partition"),
    };
    let (style, before) = (context.style, ["", "  "]);
    if refused == 0 {
        let line = format!("a leader takes all of {batches} in {place}");
        return Ok(paragraph(&mut context.out, style, before, &line)?);
    }
    let line = format!("a leader would not append {refused} of {batches} in {place}");
    let is_bad = answers.iter().any(|answer| answer.counts.not_appended > 0);
    let write = if is_bad { alarm } else { paragraph };
    write(&mut context.out, style, before, &line)?;
    let mut hidden = 0;
    for answer in answers.iter().filter(|answer| answer.refused() > 0) {
        writeln!(context.out)?;
        if answers.len() > 1 {
            heading(&mut context.out, context.style, &answer.name)?;
        }
        let style = context.style;
        hidden = hidden.max(print_kept(&mut context.out, &answer.kept, style)?);
        let more = answer.refused().saturating_sub(answer.kept.len() as u64);
        if more > 0 {
            let more = plural(more, "more batch", "more batches");
            writeln!(context.out, "and {more}; -o ndjson lists all")?;
        }
    }
    print_explained(answers, hidden, context)
}

/// Why those batches are in the log all the same.
fn print_explained(answers: &[Logged], hidden: usize, context: &mut Context) -> anyhow::Result<()> {
    let mut explained: BTreeMap<&str, u64> = BTreeMap::new();
    for answer in answers {
        for (word, number) in &answer.explained {
            *explained.entry(word).or_default() += number;
        }
    }
    let words: Vec<String> = explained
        .iter()
        .map(|(word, number)| format!("{number} {word}"))
        .collect();
    let words = words.join(", ");
    let line = format!("in the log all the same because of: {words}");
    writeln!(context.out)?;
    paragraph(&mut context.out, context.style, ["", "  "], &line)?;
    writeln!(context.out, "--all lists every batch")?;
    Ok(note_hidden(hidden, context.style, &mut context.out)?)
}

fn print_name(label: &str, context: &mut Context) -> anyhow::Result<()> {
    Ok(heading(&mut context.out, context.style, label)?)
}
