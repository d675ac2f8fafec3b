//! `kseg completions`: completion scripts for shells.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::context::{Context, Status};

/// Print a completion script for a shell
///
/// Prints to standard output; where the script belongs is the shell's business.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Example:
  kseg completions bash > /etc/bash_completion.d/kseg

Exit status:
  0  done
  2  bad usage")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, context: &mut Context) -> anyhow::Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kseg", &mut script);
    context.out.write_all(&script)?;
    Ok(Status::Clean)
}
