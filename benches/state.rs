//! Measures what folding batches into producer state costs beside walking over their headers.
//!
//! `cargo bench --bench state -- 512`: 512 MiB of transactional batches of 400 bytes,
//! ten data batches and a marker to a transaction; then a snapshot of a million producers. Time is
//! the thread's own, so that other work on the machine counts as little as possible. Without a
//! number of MiB it is a smoke test.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a measurement"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch::{
    Attributes, HEADER_SIZE, MAGIC_V2, RecordBatchFields, RecordBatchHeader,
};
use kseg::state::{
    ProducerSnapshotRow, ProducerStateManager, SegmentProducers, SnapshotOffsets, recover_batch,
};

const BATCH_SIZE: usize = 400;
const BATCHES_PER_TRANSACTION: usize = 10;
const ROUNDS: usize = 9;
/// Enough for every producer of the largest number to write once.
const SMOKE_TEST_MIB: usize = 64;

/// Batches of `producers` producers, taking turns after every `run` batches.
fn log(size: usize, producers: usize, run: usize) -> Vec<u8> {
    let mut log = vec![0; size / BATCH_SIZE * BATCH_SIZE];
    let mut written = vec![0_usize; producers];
    for (index, batch) in log.chunks_exact_mut(BATCH_SIZE).enumerate() {
        let producer = index / run % producers;
        let count = written[producer];
        written[producer] += 1;
        let is_marker = count % (BATCHES_PER_TRANSACTION + 1) == BATCHES_PER_TRANSACTION;
        let marks = count / (BATCHES_PER_TRANSACTION + 1);
        let mut attributes = Attributes::TRANSACTIONAL_FLAG_MASK;
        if is_marker {
            attributes |= Attributes::CONTROL_FLAG_MASK;
        }
        let header: RecordBatchHeader = RecordBatchFields {
            base_offset: i64::try_from(index).unwrap(),
            batch_length: i32::try_from(BATCH_SIZE - 12).unwrap(),
            partition_leader_epoch: 0,
            magic: MAGIC_V2,
            crc: 0,
            attributes: Attributes(attributes),
            last_offset_delta: 0,
            base_timestamp: 1,
            max_timestamp: 1,
            producer_id: i64::try_from(producer).unwrap() + 1000,
            producer_epoch: 0,
            base_sequence: if is_marker {
                -1
            } else {
                i32::try_from(count - marks).unwrap()
            },
            records_count: 1,
        }
        .into();
        batch[..HEADER_SIZE].copy_from_slice(&header.as_array());
    }
    log
}

fn walk(log: &[u8], mut each: impl FnMut(&RecordBatchHeader, Option<EndTransactionMarker>)) {
    let mut rest = log;
    while let Ok(header) = RecordBatchHeader::ref_from(rest) {
        let marker = header
            .attributes()
            .is_control()
            .then_some(EndTransactionMarker {
                control_type: ControlRecordType::COMMIT,
                coordinator_epoch: 0,
            });
        each(header, marker);
        rest = &rest[usize::try_from(header.size_in_bytes()).unwrap()..];
    }
}

/// Time this thread has run.
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let ran = schedstat.split(' ').next().unwrap();
    Duration::from_nanos(ran.parse().unwrap())
}

/// Nanoseconds a batch, the best of some rounds.
fn best(log: &[u8], mut round: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = cpu_time();
        round();
        best = best.min(cpu_time() - start);
    }
    let batches = u32::try_from(log.len() / BATCH_SIZE).unwrap();
    best.as_secs_f64() * 1e9 / f64::from(batches)
}

fn main() {
    // `cargo bench` adds --bench.
    let mib = std::env::args().skip(1).find(|it| it != "--bench");
    let mib = mib.map_or(SMOKE_TEST_MIB, |mib| mib.parse().unwrap());
    let size: usize = mib << 20;
    for (producers, run) in [(1, 1), (16, 4), (1000, 1), (100_000, 1)] {
        measure_fold(size, producers, run);
    }
    measure_load();
}

fn measure_fold(size: usize, producers: usize, run: usize) {
    let log = log(size, producers, run);
    let walking = best(&log, || {
        let mut sum = 0_i64;
        walk(&log, |header, _| {
            let sequences = header.last_sequence() ^ header.records_count();
            sum = sum
                .wrapping_add(header.last_offset() ^ header.producer_id())
                .wrapping_add(header.max_timestamp() ^ i64::from(sequences));
        });
        black_box(sum);
    });
    let recovering = best(&log, || {
        let mut manager = ProducerStateManager::default();
        walk(&log, |header, marker| {
            recover_batch(&mut manager, header, marker, |_| {}).unwrap();
            if marker.is_some() {
                manager.on_high_watermark_updated(header.next_offset());
            }
        });
        black_box(manager.map_end_offset());
    });
    let rebuilding = best(&log, || {
        let mut manager = ProducerStateManager::default();
        let mut segment = SegmentProducers::new();
        walk(&log, |header, marker| {
            segment.add(&mut manager, header, marker).unwrap()
        });
        segment.take_in(&mut manager).unwrap();
        black_box(manager.producer_id_count());
    });
    println!(
        "{producers} producers, {run} in a row: walk {walking:.1} ns a batch; with recover_batch \
             {recovering:.1}, with SegmentProducers \
             {rebuilding:.1}"
    );
}

fn measure_load() {
    let rows = (0..1_000_000_i64).map(|id| ProducerSnapshotRow {
        producer_id: 4000 + id,
        producer_epoch: 0,
        last_sequence: 5,
        last_offset: id,
        offset_delta: 0,
        timestamp: 1,
        coordinator_epoch: -1,
        current_txn_first_offset: -1,
    });
    let start = Instant::now();
    let mut manager = ProducerStateManager::new(SnapshotOffsets::default());
    manager.load_from_snapshot(rows, 1_000_000, None);
    println!(
        "{} producers loaded in {:?}, {:?} with writing them out",
        manager.producer_id_count(),
        start.elapsed(),
        {
            black_box(
                manager
                    .snapshot_rows()
                    .map(|row| row.last_offset)
                    .sum::<i64>(),
            );
            start.elapsed()
        }
    );
}
