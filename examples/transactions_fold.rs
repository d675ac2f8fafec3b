//! Measures what folding a partition into transactions costs beside the walk over its headers.
//!
//! `cargo run --release --example transactions_fold PARTITION...`: the least of nine runs each, in
//! the thread's own time, so that other work on the machine counts as little as possible.

#![allow(clippy::print_stdout, reason = "a measurement")]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::report::aborted::{AbortedOptions, aborted_partition};
use kseg::report::partition_state::{StateOptions, load_partition_state};
use kseg::report::txns::{TxnsOptions, txns_partition};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 9;
/// What is done with a row.
const NOTHING: std::result::Result<(), kseg::log::Error> = Ok(());

fn main() -> Result<()> {
    for path in std::env::args().skip(1) {
        let dir = PartitionDir::open(Path::new(&path))?;
        println!("{path}");
        let walk = least(|| {
            let mut bytes = 0;
            walk_partition(&dir, Io::Mmap, 0, |_, entry| {
                if let kseg::log::batches::Entry::Batch(batch) = entry {
                    bytes += batch.size_in_bytes();
                }
                Ok::<_, kseg::log::Error>(ControlFlow::Continue(()))
            })?;
            Ok(bytes)
        })?;
        println!("  walk     {walk:>10.1?}");
        let state = StateOptions {
            from_scratch: true,
            ..StateOptions::default()
        };
        let none = CheckpointedOffsets::default();
        let fold = least(|| {
            let state = load_partition_state(&dir, none, state)?;
            Ok(state.map_or(0, |it| it.manager.producer_id_count() as u64))
        })?;
        print(fold, walk, "state");
        let options = TxnsOptions {
            state,
            ..TxnsOptions::default()
        };
        let fold = least(|| {
            let summary = txns_partition(&dir, none, &options, |_| NOTHING)?;
            Ok(summary.map_or(0, |it| it.committed))
        })?;
        print(fold, walk, "txns");
        let options = AbortedOptions {
            state,
            // Rows are made for this producer only: none.
            producer_id: Some(-1),
            ..AbortedOptions::default()
        };
        let fold = least(|| {
            let summary = aborted_partition(&dir, none, &options, |_| NOTHING)?;
            Ok(summary.map_or(0, |it| it.in_log))
        })?;
        print(fold, walk, "aborted");
    }
    Ok(())
}

fn print(time: Duration, walk: Duration, what: &str) {
    let ratio = time.as_secs_f64() / walk.as_secs_f64();
    println!("  {what:<8} {time:>10.1?}  {ratio:.2} times the walk");
}

fn least(mut run: impl FnMut() -> Result<u64>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = cpu_time()?;
        std::hint::black_box(run()?);
        least = least.min(cpu_time()?.saturating_sub(start));
    }
    Ok(least)
}

fn cpu_time() -> Result<Duration> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ran = schedstat.split(' ').next().unwrap_or_default();
    Ok(Duration::from_nanos(ran.parse()?))
}
