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
use crate::measure::{Times, in_turns};

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
        let logs = logs_in(path)?;
        println!("{}: {} bytes", path.display(), dir.size_in_bytes());
        println!(
            "{:<34} {:>11} {:>14} {:>16}",
            "fold", "CPU ms", "times its walk", "times bare loop"
        );
        let bare = || over(&logs, limits::follow);
        let ahead = || over(&logs, limits::follow_prefetching::<1024>);
        let walk = || headers(&dir);
        let folds: Vec<_> = FOLDS.iter().map(|(_, fold)| || fold(&dir)).collect();
        let mut turns: Vec<&dyn Fn() -> Result<u64>> = vec![&bare, &ahead, &walk];
        for fold in &folds {
            turns.push(fold);
        }
        let names = [
            "lengths followed",
            "lengths followed, 1 KiB ahead",
            "header walk",
        ];
        let names = names.into_iter().chain(FOLDS.iter().map(|(name, _)| *name));
        print_rows(names, &in_turns(&turns)?, 2);

        let bare = || over(&logs, limits::checksums);
        let walk = || headers_with_crc(&dir);
        let fold = || rebuilt(&dir);
        let names = ["CRC-32C alone", "header walk with CRC", "rebuild"];
        print_rows(names.into_iter(), &in_turns(&[&bare, &walk, &fold])?, 1);
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

/// The first is the bare loop, the one at `walk` kseg's own walk, and those behind it the folds.
fn print_rows<'n>(names: impl Iterator<Item = &'n str>, times: &[Times], walk: usize) {
    let cpu = |times: &Times| times.cpu.as_secs_f64();
    let of = |at: usize| times.get(at).map_or(f64::NAN, cpu);
    for (at, (name, times)) in names.zip(times).enumerate() {
        print!("{name:<34} {:>11.1}", cpu(times) * 1e3);
        if at > walk {
            print!(
                " {:>14.2} {:>16.2}",
                cpu(times) / of(walk),
                cpu(times) / of(0)
            );
        }
        println!();
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
