//! `kseg verify` beside a bare loop of two threads that maps the same files and only computes
//! checksums.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kseg::format::record_batch;
use kseg::log::Error;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::verify::{Depth, VerifyOptions, verify_partition};

use crate::limits::{map, size_at};
use crate::{Result, cpu};

const RUNS: usize = 7;

/// Prints what both take for a partition, by the wall clock. They take turns, so that what else the
/// machine does meets both.
pub(crate) fn compare(partition: &Path, segments: &[PathBuf]) -> Result<()> {
    let halves = halves(segments)?;
    let runs: [&dyn Fn() -> Result<u64>; 3] = [
        &|| two_threads(&halves),
        &|| verify(partition, Depth::Checksums),
        &|| verify(partition, Depth::Headers),
    ];
    let mut least = [(Duration::MAX, Duration::MAX); 3];
    for _ in 0..RUNS {
        for ((wall, cpu), run) in least.iter_mut().zip(runs) {
            let (used, begun) = (cpu::used(), Instant::now());
            std::hint::black_box(run()?);
            *wall = (*wall).min(begun.elapsed());
            *cpu = (*cpu).min(cpu::used() - used);
        }
    }
    println!("{}, two threads", partition.display());
    let head = ("wall ms", "ratio", "CPU ms", "ratio");
    println!(
        "{:<34} {:>11} {:>8} {:>11} {:>8}",
        "", head.0, head.1, head.2, head.3
    );
    let names = ["CRC-32C alone", "kseg verify", "kseg verify --quick"];
    let bare = least.first().copied().unwrap_or_default();
    for (name, (wall, cpu)) in names.into_iter().zip(least) {
        println!(
            "{name:<34} {:>11.1} {:>8.2} {:>11.1} {:>8.2}",
            wall.as_secs_f64() * 1e3,
            wall.as_secs_f64() / bare.0.as_secs_f64(),
            cpu.as_secs_f64() * 1e3,
            cpu.as_secs_f64() / bare.1.as_secs_f64(),
        );
    }
    println!();
    Ok(())
}

fn verify(partition: &Path, depth: Depth) -> Result<u64> {
    let dir = PartitionDir::open(partition)?;
    let options = VerifyOptions {
        depth,
        threads: Some(2),
        ..VerifyOptions::default()
    };
    let offsets = CheckpointedOffsets::default();
    let summary = verify_partition::<Error>(&dir, offsets, &options, |_| {}, |_| Ok(()))?;
    Ok(summary.bytes)
}

/// A stretch of a file that begins and ends at a batch.
struct Stretch {
    path: PathBuf,
    from: usize,
    to: usize,
}

/// The files in two parts of about the same size, cut at a batch.
fn halves(segments: &[PathBuf]) -> Result<[Vec<Stretch>; 2]> {
    let mut halves = [Vec::new(), Vec::new()];
    for path in segments {
        let bytes = map(path)?;
        let mut middle = 0;
        while middle < bytes.len() / 2
            && let Some(size) = size_at(&bytes, middle)
        {
            middle += size;
        }
        let [first, second] = &mut halves;
        let stretch = |from, to| Stretch {
            path: path.clone(),
            from,
            to,
        };
        first.push(stretch(0, middle));
        second.push(stretch(middle, bytes.len()));
    }
    Ok(halves)
}

fn two_threads([first, second]: &[Vec<Stretch>; 2]) -> Result<u64> {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| checksums(second).map_err(|error| error.to_string()));
        let own = checksums(first)?;
        let other = other.join().map_err(|_| "a thread ended early")??;
        Ok(own.wrapping_add(other))
    })
}

/// Follows the lengths and computes every checksum, by the function kseg uses.
fn checksums(stretches: &[Stretch]) -> Result<u64> {
    let mut mix = 0u64;
    for stretch in stretches {
        let bytes = map(&stretch.path)?;
        let mut position = stretch.from;
        while position < stretch.to
            && let Some(size) = size_at(&bytes, position)
            && let Some(batch) = bytes.get(position..position + size)
        {
            mix = mix.wrapping_add(u64::from(record_batch::compute_crc(batch)));
            position += size;
        }
    }
    Ok(mix)
}
