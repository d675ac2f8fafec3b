//! Runs every walk several times and prints the least CPU time of each.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kseg::log::Io;
use memmap2::{Mmap, MmapOptions};

use crate::limits::map;
use crate::{Result, cpu, kseg_walk, limits};

const RUNS: usize = 5;

/// What one walk took, or the least of several.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) cpu: Duration,
    wall: Duration,
}

/// A walk by its name.
type Walk<'a> = (&'static str, Box<dyn Fn(&[u8]) -> u64 + 'a>);

/// Prints a table for each segment.
pub(crate) fn all(segments: &[PathBuf]) -> Result<()> {
    for segment in segments {
        let size = std::fs::metadata(segment)?.len();
        // Warms the page cache and says how many batches there are.
        let batches = limits::follow(&map(segment)?);
        println!("{}: {size} bytes, {batches} batches", segment.display());
        println!(
            "{:<34} {:>11} {:>11} {:>8} {:>11} {:>11}",
            "walk", "CPU ms", "wall ms", "GB/s", "ns/batch", "map kept ms"
        );
        for (name, walk) in walks() {
            let fresh = least(|| Ok(walk(&map(segment)?)))?;
            let kept = map(segment)?;
            let kept = least(|| Ok(walk(&kept)))?;
            print_row(name, fresh, Some(kept), size, batches);
        }
        let read = least(|| limits::follow_reading(segment))?;
        print_row("follow lengths, 256 KiB reads", read, None, size, batches);
        let read = least(|| limits::follow_reading_headers(segment))?;
        print_row("follow lengths, header reads", read, None, size, batches);
        let fresh = least(|| Ok(limits::follow(&populated_map(segment)?)))?;
        print_row("follow lengths, MAP_POPULATE", fresh, None, size, batches);
        for (name, walk) in kseg_walks() {
            let times = least(|| walk(segment))?;
            print_row(name, times, None, size, batches);
        }
        println!();
    }
    Ok(())
}

fn walks<'a>() -> Vec<Walk<'a>> {
    vec![
        ("sum of words", Box::new(limits::sum_words)),
        ("memcpy", Box::new(limits::copy)),
        ("follow lengths", Box::new(limits::follow)),
        (
            "follow lengths, 1 KiB ahead",
            Box::new(limits::follow_prefetching::<1024>),
        ),
        (
            "follow lengths, 2 KiB ahead",
            Box::new(limits::follow_prefetching::<2048>),
        ),
        ("CRC-32C", Box::new(limits::checksums)),
        ("kseg header fields", Box::new(kseg_walk::headers)),
    ]
}

/// A walk of the library over a file.
type KsegWalk = (&'static str, fn(&Path) -> Result<u64>);

fn kseg_walks() -> [KsegWalk; 7] {
    [
        ("kseg walk, mapped", |path| kseg_walk::walk(path, Io::Mmap)),
        ("kseg walk, read", |path| kseg_walk::walk(path, Io::Read)),
        ("kseg walk with CRC, mapped", |path| {
            kseg_walk::walk_with_crc(path, Io::Mmap)
        }),
        ("kseg walk with CRC, read", |path| {
            kseg_walk::walk_with_crc(path, Io::Read)
        }),
        ("decompressor alone", |path| {
            kseg_walk::decompress(path, Io::Mmap)
        }),
        ("kseg records, mapped", |path| {
            kseg_walk::records(path, Io::Mmap)
        }),
        ("kseg records, read", |path| {
            kseg_walk::records(path, Io::Read)
        }),
    ]
}

/// Runs each several times, in turns, so that what else the machine does meets all of them; returns
/// the least of each.
pub(crate) fn in_turns(walks: &[&dyn Fn() -> Result<u64>]) -> Result<Vec<Times>> {
    let none = Times {
        cpu: Duration::MAX,
        wall: Duration::MAX,
    };
    let mut least = vec![none; walks.len()];
    for _ in 0..RUNS {
        for (walk, least) in walks.iter().zip(&mut least) {
            let (cpu, wall) = (cpu::used(), Instant::now());
            std::hint::black_box(walk()?);
            least.wall = least.wall.min(wall.elapsed());
            least.cpu = least.cpu.min(cpu::used() - cpu);
        }
    }
    Ok(least)
}

/// The least of several runs.
pub(crate) fn least(run: impl Fn() -> Result<u64>) -> Result<Times> {
    let times = in_turns(&[&run])?;
    times.first().copied().ok_or_else(|| "no run".into())
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn print_row(name: &str, times: Times, kept: Option<Times>, size: u64, batches: u64) {
    let cpu = times.cpu.as_secs_f64();
    let kept = kept.map_or_else(String::new, |kept| {
        format!("{:.1}", kept.cpu.as_secs_f64() * 1e3)
    });
    println!(
        "{name:<34} {:>11.1} {:>11.1} {:>8.2} {:>11.1} {:>11}",
        cpu * 1e3,
        times.wall.as_secs_f64() * 1e3,
        size as f64 / cpu / 1e9,
        cpu * 1e9 / batches as f64,
        kept
    );
}

/// All pages are mapped in one system call instead of one fault every few pages.
fn populated_map(path: &Path) -> Result<Mmap> {
    let file = File::open(path)?;
    // SAFETY: as in `map`.
    #[expect(unsafe_code, reason = "mapping is what is measured")]
    let map = unsafe { MmapOptions::new().populate().map(&file)? };
    Ok(map)
}
