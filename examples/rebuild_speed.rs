//! Measures `rebuild` beside the walk over the same batches with their checksums.
//!
//! `cargo run --release --example rebuild_speed PARTITION_DIR...`. Time is the thread's own, the
//! best of some rounds.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use kseg::log::batches::Entry;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::rebuild::{RebuildOptions, SnapshotsAt, rebuild};

const ROUNDS: usize = 7;

/// Time this thread has run.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let ran = schedstat.split(' ').next().unwrap();
    Duration::from_nanos(ran.parse().unwrap())
}

fn best(mut round: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = cpu_time();
        round();
        best = best.min(cpu_time() - start);
    }
    best.as_secs_f64()
}

fn main() {
    for path in std::env::args().skip(1) {
        let dir = PartitionDir::open(Path::new(&path)).unwrap();
        let walking = best(|| {
            let mut valid = 0_u64;
            walk_partition(&dir, Io::Mmap, 0, |_, entry| {
                if let Entry::Batch(batch) = entry {
                    valid += u64::from(batch.is_valid()?);
                }
                Ok::<_, Error>(ControlFlow::Continue(()))
            })
            .unwrap();
            black_box(valid);
        });
        let options = RebuildOptions {
            io: Io::Mmap,
            from_scratch: true,
            expiration: None,
            index_interval_bytes: 4096,
            snapshots_at: SnapshotsAt::BasesAndEnd,
        };
        let rebuilding = best(|| {
            let end = rebuild(&dir, CheckpointedOffsets::default(), options, |file| {
                black_box(file.bytes);
                Ok::<_, Error>(())
            });
            assert_eq!(end.unwrap().unwrap().stop, None);
        });
        let ratio = rebuilding / walking;
        println!(
            "{path}: walk with CRC {walking:.4} s, rebuild {rebuilding:.4} s, {ratio:.2} times"
        );
    }
}
