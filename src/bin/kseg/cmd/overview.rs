//! `kseg` alone: the commands by the question they answer.

use std::io::Write;

use crate::context::{Context, Status};

const OVERVIEW: &str = "\
kseg answers from Kafka log directories what the broker would answer

  what lies in this directory                  kseg ls PATH
  what is in this file                         kseg dump PATH
  what would a consumer get                    kseg read PATH
  what does the broker know of each producer   kseg producers PATH
  what would the broker answer to each batch   kseg replay PATH
  was anything lost or stored twice            kseg gaps PATH
  which transactions are there, open or ended  kseg txns PATH
  what does read_committed hide                kseg aborted PATH
  where does read_committed stop, and why      kseg lso PATH
  do two replicas agree                        kseg diff PATH PATH
  is it sound                                  kseg verify PATH
  what happens when a broker starts on it      kseg recover PATH
  make the side files again                    kseg rebuild PATH --out DIR
  make me such a directory                     kseg write SCENARIO --out DIR

PATH is a file, a partition directory or a broker's log directory.
-o json or -o ndjson gives the same answers to programs; kseg COMMAND --help says the rest.
";

pub(crate) fn run(context: &mut Context) -> anyhow::Result<Status> {
    context.out.write_all(OVERVIEW.as_bytes())?;
    Ok(Status::Clean)
}
