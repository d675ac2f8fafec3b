//! What the answers of commands cost beside the walk they are folded from: nothing is printed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kseg::log::batches::Entry;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::aborted::{AbortedOptions, aborted_partition};
use kseg::report::gaps::{GapOptions, find_gaps};
use kseg::report::lso::lso;
use kseg::report::partition_state::{StateOptions, load_partition_state};
use kseg::report::rebuild::{RebuildOptions, SnapshotsAt, rebuild};
use kseg::report::txns::{TxnsOptions, txns_partition};

use crate::Result;
use crate::measure::{Times, least};

const NONE: CheckpointedOffsets = CheckpointedOffsets {
    log_start_offset: None,
    high_watermark: None,
    recovery_point: None,
    cleaner_offset: None,
};

/// From the log alone: a snapshot would spare most of the work.
const STATE: StateOptions = StateOptions {
    io: Io::Mmap,
    from_scratch: true,
    at_offset: None,
    expiration: None,
    high_watermark: None,
};

/// A fold over a partition, with a number of what it found.
type Fold = fn(&PartitionDir) -> Result<u64>;

/// Prints a table for each partition directory.
pub(crate) fn all(partitions: &[PathBuf]) -> Result<()> {
    for path in partitions {
        let dir = PartitionDir::open(path)?;
        println!("{}: {} bytes", path.display(), dir.size_in_bytes());
        println!("{:<34} {:>11} {:>18}", "fold", "CPU ms", "times its walk");
        let headers = measured("header walk", &dir, headers, None)?;
        for (name, fold) in FOLDS {
            measured(name, &dir, *fold, Some(headers))?;
        }
        let checked = measured("header walk with CRC", &dir, headers_with_crc, None)?;
        measured("rebuild", &dir, rebuilt, Some(checked))?;
        println!();
    }
    Ok(())
}

const FOLDS: &[(&str, Fold)] = &[
    ("producers", |dir| {
        let state = load_partition_state(dir, NONE, STATE)?;
        Ok(state.map_or(0, |it| it.manager.producer_id_count() as u64))
    }),
    ("lso", |dir| Ok(u64::from(lso(dir, NONE, STATE)?.is_some()))),
    ("gaps", |dir| {
        let options = GapOptions {
            io: Io::Mmap,
            from_scratch: true,
            ..GapOptions::default()
        };
        Ok(find_gaps(dir, NONE, &options, |_| nothing())?.producers as u64)
    }),
    ("txns", |dir| {
        let options = TxnsOptions {
            state: STATE,
            ..TxnsOptions::default()
        };
        let summary = txns_partition(dir, NONE, &options, |_| nothing())?;
        Ok(summary.map_or(0, |it| it.committed))
    }),
    ("aborted", |dir| {
        let options = AbortedOptions {
            state: STATE,
            // Rows are made for this producer only: none.
            producer_id: Some(-1),
            ..AbortedOptions::default()
        };
        let summary = aborted_partition(dir, NONE, &options, |_| nothing())?;
        Ok(summary.map_or(0, |it| it.in_log))
    }),
];

/// What is done with a row.
#[expect(
    clippy::unnecessary_wraps,
    reason = "what takes a row may fail elsewhere"
)]
fn nothing() -> std::result::Result<(), Error> {
    Ok(())
}

fn headers(dir: &PartitionDir) -> Result<u64> {
    let mut batches = 0;
    walk_partition(dir, Io::Mmap, 0, |_, entry| {
        if let Entry::Batch(batch) = entry {
            std::hint::black_box(batch.header.fields());
            batches += 1;
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(batches)
}

fn headers_with_crc(dir: &PartitionDir) -> Result<u64> {
    let mut valid = 0;
    walk_partition(dir, Io::Mmap, 0, |_, entry| {
        if let Entry::Batch(batch) = entry {
            std::hint::black_box(batch.header.fields());
            valid += u64::from(batch.is_valid()?);
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })?;
    Ok(valid)
}

fn rebuilt(dir: &PartitionDir) -> Result<u64> {
    let options = RebuildOptions {
        io: Io::Mmap,
        from_scratch: true,
        expiration: None,
        index_interval_bytes: 4096,
        snapshots_at: SnapshotsAt::BasesAndEnd,
    };
    let mut bytes = 0;
    rebuild(dir, NONE, options, |file| {
        bytes += std::hint::black_box(file.bytes).len() as u64;
        Ok::<_, Error>(())
    })?;
    Ok(bytes)
}

/// Prints the least CPU time of several runs; returns it.
fn measured(name: &str, dir: &PartitionDir, fold: Fold, walk: Option<Times>) -> Result<Times> {
    let times = least(|| fold(dir))?;
    let ratio = walk.map_or_else(String::new, |walk| {
        let ratio = times.cpu.as_secs_f64() / walk.cpu.as_secs_f64();
        format!("{ratio:.2}")
    });
    let cpu = times.cpu.as_secs_f64() * 1e3;
    println!("{name:<34} {cpu:>11.1} {ratio:>18}");
    Ok(times)
}

/// The partition directories of segments.
pub(crate) fn partitions(segments: &[PathBuf]) -> Vec<PathBuf> {
    let mut partitions: Vec<PathBuf> = segments
        .iter()
        .filter_map(|segment| segment.parent().map(Path::to_owned))
        .collect();
    partitions.dedup();
    partitions
}
