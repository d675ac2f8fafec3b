//! How fast batches are appended, on the same batches as `AppendRace.java` gives Kafka's log.
//!
//! ```sh
//! benches/append-race/race
//! ```
//!
//! Two ways: each batch written when its append returns, as Kafka does it, and batches gathered and
//! written together, as `kseg write` does it. Prints a line for each, which `race` puts beside
//! Kafka's: name, batches, records, bytes, least wall clock and least CPU time of seven runs in
//! seconds, separated by tabs. Nothing is brought to the disk with fsync.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints its result and stops where it cannot be made"
)]

#[path = "../walk/cpu.rs"]
mod cpu;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kseg::append::{Checkpointed, LeaderAppend, LogConfig, PartitionLog};
use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};

const RECORDS: usize = 1_000_000;
const BATCH_BYTES: usize = 16 * 1024;
const VALUE_BYTES: usize = 100;
const PRODUCERS: i64 = 10;
const NOW_MS: i64 = 1_790_000_000_000;
const ROUNDS: usize = 7;
/// As `kseg write` has it.
const WRITE_BUFFER_BYTES: usize = 1024 * 1024;

/// Batches of an idempotent producer each, taking turns.
fn batches() -> Vec<Vec<u8>> {
    let value: Vec<u8> = (0..VALUE_BYTES)
        .map(|i| b'a' + u8::try_from(i % 26).unwrap())
        .collect();
    let mut sequences = [0; 10];
    let (mut batches, mut records, mut turn) = (Vec::new(), 0, 0);
    while records < RECORDS {
        let producer = turn % usize::try_from(PRODUCERS).unwrap();
        let mut builder = RecordBatchBuilder::new(BatchSettings {
            producer_id: i64::try_from(producer).unwrap(),
            producer_epoch: 0,
            base_sequence: *sequences.get(producer).unwrap(),
            ..BatchSettings::default()
        })
        .unwrap();
        while records < RECORDS && builder.plain_records().len() + VALUE_BYTES + 30 < BATCH_BYTES {
            let record = SimpleRecord {
                timestamp: NOW_MS,
                key: Some(b"key"),
                value: Some(&value),
                headers: &[],
            };
            builder.append(&record).unwrap();
            records += 1;
        }
        *sequences.get_mut(producer).unwrap() += builder.records_count();
        let mut bytes = Vec::new();
        builder.build(&mut bytes).unwrap();
        batches.push(bytes);
        turn += 1;
    }
    batches
}

/// What one run took, or the least of several.
#[derive(Clone, Copy)]
struct Times {
    wall: Duration,
    cpu: Duration,
}

fn run(dir: &Path, write_buffer_bytes: usize, batches: &mut [Vec<u8>]) -> Times {
    let config = LogConfig {
        fsync: false,
        write_buffer_bytes,
        ..LogConfig::default()
    };
    let mut log = PartitionLog::open(dir, config, Checkpointed::NEW, None, NOW_MS).unwrap();
    let append = LeaderAppend::default();
    let (start, cpu_before) = (Instant::now(), cpu::used());
    for batch in batches {
        log.append_as_leader(batch, &append).unwrap();
        log.raise_high_watermark_to_log_end().unwrap();
    }
    log.write_buffered().unwrap();
    let times = Times {
        wall: start.elapsed(),
        cpu: cpu::used().saturating_sub(cpu_before),
    };
    assert_eq!(usize::try_from(log.log_end_offset()), Ok(RECORDS));
    times
}

fn main() {
    let dir = std::env::args()
        .skip(1)
        .find(|argument| argument.starts_with('/'));
    let dir = dir.map_or_else(std::env::temp_dir, PathBuf::from);
    let batches = batches();
    let bytes: usize = batches.iter().map(Vec::len).sum();
    let ways = [
        ("kseg, each append written", 0),
        ("kseg, 1 MiB gathered", WRITE_BUFFER_BYTES),
    ];
    for (name, write_buffer_bytes) in ways {
        let mut least = Times {
            wall: Duration::MAX,
            cpu: Duration::MAX,
        };
        for round in 0..ROUNDS {
            let root = dir.join(format!("kseg-{round}"));
            let times = run(
                &root.join("race-0"),
                write_buffer_bytes,
                &mut batches.clone(),
            );
            least.wall = least.wall.min(times.wall);
            least.cpu = least.cpu.min(times.cpu);
            std::fs::remove_dir_all(&root).unwrap();
        }
        println!(
            "{name}\t{}\t{RECORDS}\t{bytes}\t{:.4}\t{:.4}",
            batches.len(),
            least.wall.as_secs_f64(),
            least.cpu.as_secs_f64()
        );
    }
}
