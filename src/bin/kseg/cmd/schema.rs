//! `kseg schema`: the JSON Schema of a command's output.

use std::io::Write;

use clap::Args;
use clap::builder::PossibleValuesParser;
use kseg::schemas;

use crate::context::{Context, Status};

/// Print the JSON Schema of a command's JSON output
///
/// The schema describes the document of `-o json`; each line of `-o ndjson` is one element of
/// its `results`. Without COMMAND the commands that have a schema are listed.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Example:
  kseg schema ls > ls.schema.json

Exit status:
  0  done
  2  bad usage, or no such command")]
pub(crate) struct SchemaArgs {
    /// The command
    #[arg(value_name = "COMMAND", value_parser = commands())]
    command: Option<String>,
}

fn commands() -> PossibleValuesParser {
    PossibleValuesParser::new(schemas::commands())
}

pub(crate) fn run(args: &SchemaArgs, context: &mut Context) -> anyhow::Result<Status> {
    match &args.command {
        None => {
            for command in schemas::commands() {
                writeln!(context.out, "{command}")?;
            }
        }
        Some(command) => {
            let schema = schemas::of(command)
                .ok_or_else(|| anyhow::anyhow!("{command}: no schema for this command"))?;
            serde_json::to_writer_pretty(&mut context.out, &schema)?;
            writeln!(context.out)?;
        }
    }
    Ok(Status::Clean)
}
