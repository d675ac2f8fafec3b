//! The program `kseg`: arguments in, rows out. All knowledge of Kafka is in the library.

mod assumed_start;
mod beside;
mod cli;
mod cmd;
mod context;
mod coordinators;
mod inputs;
#[cfg(test)]
mod man;
mod metadata_logs;
mod new_folder;
mod pairs;
mod progress;
mod render;
mod seen;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::context::{Context, Status};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage_error(&error),
    };
    let mut context = Context::new(&cli.global);
    let result = match &cli.command {
        None => cmd::overview::run(&mut context),
        Some(Command::Ls(args)) => cmd::ls::run(args, &mut context),
        Some(Command::Dump(args)) => cmd::dump::run(args, &mut context),
        Some(Command::Read(args)) => cmd::read::run(args, &mut context),
        Some(Command::Producers(args)) => cmd::producers::run(args, &mut context),
        Some(Command::Replay(args)) => cmd::replay::run(args, &mut context),
        Some(Command::Gaps(args)) => cmd::gaps::run(args, &mut context),
        Some(Command::Txns(args)) => cmd::txns::run(args, &mut context),
        Some(Command::Aborted(args)) => cmd::aborted::run(args, &mut context),
        Some(Command::Lso(args)) => cmd::lso::run(args, &mut context),
        Some(Command::Diff(args)) => cmd::diff::run(args, &mut context),
        Some(Command::Verify(args)) => cmd::verify::run(args, &mut context),
        Some(Command::Recover(args)) => cmd::recover::run(args, &mut context),
        Some(Command::Rebuild(args)) => cmd::rebuild::run(args, &mut context),
        Some(Command::Write(args)) => cmd::write::run(args, &mut context),
        Some(Command::Schema(args)) => cmd::schema::run(args, &mut context),
        Some(Command::Completions(args)) => cmd::completions::run(args, &mut context),
    };
    context.finish(result)
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Clean => Self::SUCCESS,
            Status::Found => Self::from(1),
            Status::Failed => Self::from(2),
        }
    }
}
