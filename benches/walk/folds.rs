//! What the answers of commands cost beside the walk they are folded from: nothing is printed.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kseg::log::batches::Entry;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::aborted::{AbortedOptions, aborted_partition};
use kseg::report::filter::Filter;
use kseg::report::gaps::{GapOptions, find_gaps};
use kseg::report::lso::lso;
use kseg::report::partition_state::{StateOptions, load_partition_state};
use kseg::report::rebuild::{RebuildOptions, SnapshotsAt, rebuild};
use kseg::report::txns::{TxnsOptions, txns_partition};

use crate::Result;
use crate::generate::logs_in;
use crate::limits::{self, map};
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

/// What a fold is measured against.
#[derive(Clone, Copy)]
struct Walks {
    /// The bare loop that follows the lengths and looks at nothing else.
    bare: Times,
    /// kseg's own walk.
    kseg: Times,
}

/// Prints a table for each partition directory.
pub(crate) fn all(partitions: &[PathBuf]) -> Result<()> {
    for path in partitions {
        let dir = PartitionDir::open(path)?;
        let logs = logs_in(path)?;
        println!("{}: {} bytes", path.display(), dir.size_in_bytes());
        println!(
            "{:<34} {:>11} {:>14} {:>16}",
            "fold", "CPU ms", "times its walk", "times bare loop"
        );
        let bare = least(|| over(&logs, limits::follow))?;
        print_row("lengths followed", bare, None);
        let ahead = least(|| over(&logs, limits::follow_prefetching::<1024>))?;
        print_row("lengths followed, 1 KiB ahead", ahead, None);
        let kseg = least(|| headers(&dir))?;
        print_row("header walk", kseg, None);
        for (name, fold) in FOLDS {
            let walks = Walks { bare, kseg };
            print_row(name, least(|| fold(&dir))?, Some(walks));
        }
        let bare = least(|| over(&logs, limits::checksums))?;
        print_row("CRC-32C alone", bare, None);
        let kseg = least(|| headers_with_crc(&dir))?;
        print_row("header walk with CRC", kseg, None);
        let walks = Walks { bare, kseg };
        print_row("rebuild", least(|| rebuilt(&dir))?, Some(walks));
        println!();
    }
    Ok(())
}

/// A bare loop over the maps of all segments.
fn over(logs: &[PathBuf], walk: fn(&[u8]) -> u64) -> Result<u64> {
    let mut sum = 0u64;
    for log in logs {
        sum = sum.wrapping_add(walk(&map(log)?));
    }
    Ok(sum)
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
            // Rows are made for this producer only: none.
            filter: Filter {
                producer_id: Some(-1),
                ..Filter::default()
            },
            ..TxnsOptions::default()
        };
        let summary = txns_partition(dir, NONE, &options, |_| nothing())?;
        Ok(summary.map_or(0, |it| it.committed))
    }),
    ("aborted", |dir| {
        let options = AbortedOptions {
            state: STATE,
            // As above.
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

fn print_row(name: &str, times: Times, walks: Option<Walks>) {
    let cpu = |times: Times| times.cpu.as_secs_f64();
    print!("{name:<34} {:>11.1}", cpu(times) * 1e3);
    match walks {
        Some(Walks { bare, kseg }) => println!(
            " {:>14.2} {:>16.2}",
            cpu(times) / cpu(kseg),
            cpu(times) / cpu(bare)
        ),
        None => println!(),
    }
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
