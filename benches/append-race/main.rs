//! How fast batches are appended, on the same batches as `AppendRace.java` gives Kafka's log.
//!
//! ```sh
//! benches/append-race/race
//! ```
//!
//! Prints records a second and MB a second. Nothing is brought to the disk with fsync.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement prints its result and stops where it cannot be made"
)]

use std::path::Path;
use std::time::Instant;

use kseg::append::{Checkpointed, LeaderAppend, LogConfig, PartitionLog};
use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};

const RECORDS: usize = 1_000_000;
const BATCH_BYTES: usize = 16 * 1024;
const VALUE_BYTES: usize = 100;
const PRODUCERS: i64 = 10;
const NOW_MS: i64 = 1_790_000_000_000;

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

fn run(dir: &Path, batches: &mut [Vec<u8>]) -> f64 {
    let config = LogConfig {
        fsync: false,
        ..LogConfig::default()
    };
    let mut log = PartitionLog::open(dir, config, Checkpointed::NEW, None, NOW_MS).unwrap();
    let append = LeaderAppend::default();
    let start = Instant::now();
    for batch in batches {
        log.append_as_leader(batch, &append).unwrap();
        log.raise_high_watermark_to_log_end().unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(usize::try_from(log.log_end_offset()), Ok(RECORDS));
    seconds
}

fn main() {
    let dir = std::env::args()
        .skip(1)
        .find(|argument| argument.starts_with('/'));
    let dir = dir.unwrap_or_else(|| "/tmp/kseg-append-race".to_owned());
    let batches = batches();
    let bytes: usize = batches.iter().map(Vec::len).sum();
    let mut best = f64::MAX;
    for round in 0..7 {
        let dir = Path::new(&dir).join(format!("kseg-{round}")).join("race-0");
        let _ = std::fs::remove_dir_all(&dir);
        best = best.min(run(&dir, &mut batches.clone()));
        let _ = std::fs::remove_dir_all(&dir);
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let (records, megabytes) = (RECORDS as f64 / best, bytes as f64 / best / 1e6);
    println!(
        "kseg   {} batches  {best:.3} s  {records:.0} records/s  {megabytes:.0} MB/s",
        batches.len()
    );
}
