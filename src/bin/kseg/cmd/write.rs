//! `kseg write`: partitions as a broker would have written them, from scenarios.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use kseg::append::scenario::{
    FromLog, FromLogError, Identity, OutputDir, Scenario, ScenarioRun, StepResult, TEMPLATES,
    WriteRow, write_checkpoints, write_identity,
};
use kseg::format::kafka_uuid::KafkaUuid;
use kseg::log::log_dir::LogPath;
use kseg::log::partition_dir::PartitionDir;

use crate::context::{Context, Status};
use crate::render::columns::Align::{Left, Right};
use crate::render::columns::{Column, Listing};
use crate::render::json::JsonRows;
use crate::render::note_hidden;
use crate::render::text::{count, printable};

/// Nobody looks at a directory that is still being made. More at once is not faster
/// (`benches/append-race`).
const WRITE_BUFFER_BYTES: usize = 1024 * 1024;

/// Make partition directories as a broker would have written them
///
/// A scenario is a JSON file that says what is done to one partition, step by step: appends,
/// markers, rolls, truncations, stops. Each step goes through the rules of a broker and gets its
/// verdict; the files are a broker's own, byte for byte, and the three checkpoint files lie beside
/// the partition. docs/scenario.md explains every field.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  kseg write --example hanging-transaction > hang.json
  kseg write hang.json --out /tmp/hang
  kseg write --check hang.json
  kseg write --root orders.json payments.json --out /tmp/kafka-logs
  kseg write --from /var/lib/kafka/orders-0 --redact > incident.json

Exit status:
  0  done
  1  done, and a step was rejected
  2  could not do it: bad usage, a scenario that is not right, a batch that --from cannot say")]
pub(crate) struct WriteArgs {
    /// The scenario, - for standard input; several with --root, one a partition
    #[arg(required_unless_present_any = ["from", "example"], value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,
    /// The directory to make; it must be new or empty
    #[arg(long, value_name = "DIR", required_unless_present_any = ["check", "from", "example"])]
    out: Option<PathBuf>,
    /// Only look whether the scenarios are right
    #[arg(long, conflicts_with_all = ["out", "root", "from", "example"])]
    check: bool,
    /// Make a whole log directory that a broker can start on: several scenarios, meta.properties
    #[arg(long)]
    root: bool,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Print the scenario that would make this partition
    #[arg(long, value_name = "PATH", conflicts_with_all = ["scenarios", "out", "root", "example"])]
    from: Option<PathBuf>,
    /// Replace keys, values and header values by as many other bytes
    #[arg(long, requires = "from")]
    redact: bool,
    /// Print a ready scenario
    #[arg(long, value_name = "NAME", value_parser = example_names(),
        conflicts_with_all = ["scenarios", "out", "root"])]
    example: Option<String>,
}

/// Who a broker has to be to start on the directory.
#[derive(Args, Debug)]
struct IdentityArgs {
    /// cluster.id in meta.properties
    #[arg(long, value_name = "ID", requires = "root", value_parser = parse_cluster_id)]
    cluster_id: Option<String>,
    /// node.id in meta.properties
    #[arg(long, value_name = "N", requires = "root",
        value_parser = clap::value_parser!(i32).range(0..))]
    node_id: Option<i32>,
    /// directory.id in meta.properties
    #[arg(long, value_name = "ID", requires = "root", value_parser = parse_directory_id)]
    directory_id: Option<KafkaUuid>,
}

impl IdentityArgs {
    fn identity(&self) -> Identity {
        let default = Identity::default();
        Identity {
            cluster_id: self.cluster_id.clone().unwrap_or(default.cluster_id),
            node_id: self.node_id.unwrap_or(default.node_id),
            directory_id: self.directory_id.unwrap_or(default.directory_id),
        }
    }
}

fn parse_directory_id(text: &str) -> Result<KafkaUuid, String> {
    match text.parse::<KafkaUuid>() {
        Ok(id) if id.is_reserved_for_directories() => {
            Err("Kafka reserves this id: no log directory has it".to_owned())
        }
        Ok(id) => Ok(id),
        Err(_) => Err("expected 22 letters of URL-safe base64".to_owned()),
    }
}

fn parse_cluster_id(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    Ok(text.to_owned())
}

fn example_names() -> clap::builder::PossibleValuesParser {
    TEMPLATES
        .iter()
        .map(|template| template.name)
        .collect::<Vec<_>>()
        .into()
}

pub(crate) fn run(args: &WriteArgs, context: &mut Context) -> anyhow::Result<Status> {
    if let Some(name) = &args.example {
        let template = TEMPLATES.iter().find(|template| template.name == name);
        context
            .out
            .write_all(template.map_or("", |template| template.json).as_bytes())?;
        return Ok(Status::Clean);
    }
    if let Some(path) = &args.from {
        return from(path, args.redact, context);
    }
    // clap lets the requirement go where the other option is in conflict with what was given.
    if args.redact {
        anyhow::bail!("--redact goes with --from");
    }
    ensure!(
        args.scenarios.len() == 1 || args.root || args.check,
        "several scenarios make a log directory: say --root"
    );
    let scenarios = read_scenarios(&args.scenarios)?;
    let mut printer = Printer::new(context);
    let status = write(args, &scenarios, &mut printer, context);
    // Also after an error: what has been printed is whole then.
    printer.finish(context)?;
    status
}

fn write(
    args: &WriteArgs,
    scenarios: &[Scenario],
    printer: &mut Printer,
    context: &mut Context,
) -> anyhow::Result<Status> {
    let Some(out) = &args.out else {
        for scenario in scenarios {
            printer.checked(scenario, context)?;
        }
        return Ok(Status::Clean);
    };
    let mut status = Status::Clean;
    let dir = OutputDir::create(out)?;
    context.out.take_for_extra();
    let mut checkpoints = Vec::new();
    for scenario in scenarios {
        let mut run = ScenarioRun::start(scenario, dir.staging())?;
        printer.begin(scenario, context)?;
        for (index, step) in scenario.steps.iter().enumerate() {
            let result = run.step(step).with_context(|| {
                format!("{}: steps[{index}].{}", scenario.dir_name(), step.name())
            })?;
            if result.error.is_some() {
                status = Status::Found;
            }
            printer.step(scenario, index, result, context)?;
        }
        let finished = run.finish();
        let finished = finished.with_context(|| format!("{}: shutdown", scenario.dir_name()))?;
        checkpoints.push(finished.checkpoints);
    }
    write_checkpoints(dir.staging(), &checkpoints)?;
    if args.root {
        let clean = scenarios.iter().all(|scenario| scenario.clean_shutdown);
        write_identity(dir.staging(), &args.identity.identity(), clean)?;
    }
    dir.commit()?;
    Ok(status)
}

/// Reads all scenarios before anything is made; a partition may come only once.
fn read_scenarios(paths: &[PathBuf]) -> anyhow::Result<Vec<Scenario>> {
    let mut scenarios: Vec<(Scenario, &Path)> = Vec::new();
    for path in paths {
        let (text, name) = read(path)?;
        let mut scenario = Scenario::parse(&text).with_context(|| name)?;
        scenario.config.write_buffer_bytes = WRITE_BUFFER_BYTES;
        for (other, other_path) in &scenarios {
            let both = format!("{} and {}", other_path.display(), path.display());
            let same_topic = other.topic == scenario.topic;
            if same_topic && other.partition == scenario.partition {
                bail!("{both}: both make {}", scenario.dir_name());
            }
            if same_topic != (other.topic_id == scenario.topic_id) {
                bail!("{both}: a topic has one topicId, and every topic another one");
            }
        }
        scenarios.push((scenario, path));
    }
    scenarios.sort_by(|(a, _), (b, _)| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    Ok(scenarios
        .into_iter()
        .map(|(scenario, _)| scenario)
        .collect())
}

fn read(path: &Path) -> anyhow::Result<(Vec<u8>, String)> {
    if path == Path::new("-") {
        let mut text = Vec::new();
        io::stdin()
            .read_to_end(&mut text)
            .context("standard input")?;
        return Ok((text, "standard input".to_owned()));
    }
    let name = path.display().to_string();
    let text = fs::read(path).map_err(|source| {
        if source.kind() == io::ErrorKind::NotFound {
            let next = "kseg write --example NAME prints a scenario";
            return anyhow::anyhow!("{name}: no such file; {next}");
        }
        anyhow::Error::from(kseg::log::Error::io(path, source))
    })?;
    Ok((text, name))
}

fn from(path: &Path, redact: bool, context: &mut Context) -> anyhow::Result<Status> {
    let LogPath::Partition(dir) = LogPath::discover(path)? else {
        bail!("{}: not a partition directory", path.display());
    };
    let dir = PartitionDir::hold(&dir.path)?;
    let from = FromLog {
        dir: &dir,
        io: context.io,
        redact,
    };
    // A scenario that breaks off in the middle must not look like one.
    let mut text = Vec::new();
    let written = from.write(&mut text);
    if let Err(error @ FromLogError::Batch { file, position, .. }) = &written {
        let next_step = format!(
            "what lies before it can be said: copy the directory under the same name without the \
             segments behind {file}, cut the copy of that to {position} bytes, and ask for it"
        );
        context.fail_with(&format!("{}: {error}", path.display()), &next_step);
        return Ok(Status::Clean);
    }
    written.with_context(|| path.display().to_string())?;
    context.out.write_all(&text)?;
    if redact {
        context
            .warn("redacted: the .log bytes that this scenario writes differ from the original's");
    }
    Ok(Status::Clean)
}

const COLUMNS: &[Column] = &[
    Column::new("STEP", 4, Right, 0),
    Column::new("WHAT", 23, Left, 0),
    Column::new("VERDICT", 9, Left, 0),
    Column::new("OFFSETS", 9, Right, 0),
    Column::new("HIGH WATERMARK", 14, Right, 2),
    Column::new("LAST STABLE", 11, Right, 1),
    Column::new("LOG END", 7, Right, 0),
    Column::new("DETAIL", 18, Left, 0),
];

enum Printer {
    Json(JsonRows),
    Table { listing: Option<Listing>, any: bool },
}

impl Printer {
    fn new(context: &Context) -> Self {
        match JsonRows::for_format(context.format, "kseg/write/v1") {
            Some(json) => Self::Json(json),
            None => Self::Table {
                listing: None,
                any: false,
            },
        }
    }

    fn begin(&mut self, scenario: &Scenario, context: &mut Context) -> anyhow::Result<()> {
        if let Self::Table { listing, any } = self {
            if *any {
                writeln!(context.out)?;
            }
            *any = true;
            writeln!(context.out, "{}", title(scenario))?;
            let listing = listing.insert(Listing::new(COLUMNS, context.style));
            listing.headings(&mut context.out, context.style)?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        scenario: &Scenario,
        index: usize,
        result: StepResult,
        context: &mut Context,
    ) -> anyhow::Result<()> {
        match self {
            Self::Json(json) => {
                let row = WriteRow {
                    topic: scenario.topic.clone(),
                    partition: scenario.partition,
                    result,
                };
                json.row(&mut context.out, &row)?;
            }
            Self::Table {
                listing: Some(listing),
                ..
            } => listing.row_of_words(&mut context.out, &mut cells(index, &result))?,
            Self::Table { listing: None, .. } => {}
        }
        Ok(())
    }

    fn checked(&self, scenario: &Scenario, context: &mut Context) -> anyhow::Result<()> {
        if let Self::Table { .. } = self {
            writeln!(context.out, "{}: right", title(scenario))?;
        }
        Ok(())
    }

    fn finish(self, context: &mut Context) -> anyhow::Result<()> {
        match self {
            Self::Json(json) => Ok(json.finish(&mut context.out)?),
            Self::Table { listing, .. } => {
                let hidden = listing.map_or(0, |listing| listing.hidden());
                Ok(note_hidden(hidden, context.style, &mut context.out)?)
            }
        }
    }
}

fn title(scenario: &Scenario) -> String {
    let steps = count(scenario.steps.len() as u64, "step");
    format!("{}: {steps}", printable(&scenario.dir_name()))
}

fn cells(index: usize, result: &StepResult) -> Vec<String> {
    let offsets = match (result.base_offset, result.last_offset) {
        (Some(first), Some(last)) if first == last => first.to_string(),
        (Some(first), Some(last)) => format!("{first}-{last}"),
        _ => "-".to_owned(),
    };
    let state = &result.state;
    vec![
        index.to_string(),
        result.step.to_owned(),
        result.verdict.to_owned(),
        offsets,
        state.high_watermark.to_string(),
        state.last_stable_offset.to_string(),
        state.log_end_offset.to_string(),
        detail(result),
    ]
}

/// What is worth saying beside the offsets.
fn detail(result: &StepResult) -> String {
    if let Some(error) = &result.error {
        return format!("{} ({}): {}", error.name, error.code, error.message);
    }
    if let Some(written) = &result.written {
        let size = written.size_in_bytes;
        return format!("{size} bytes at {}", written.position);
    }
    if let Some(base_offset) = result.segment_base_offset {
        return format!("segment {base_offset}");
    }
    if let Some(deleted) = result.deleted_segments {
        return format!("{} deleted", count(deleted as u64, "segment"));
    }
    if let Some(recovery_point) = result.recovery_point {
        return format!("recovery point {recovery_point}");
    }
    match result.changed {
        Some(false) => "no change".to_owned(),
        Some(true) | None => String::new(),
    }
}
