//! A log in your own program: appended to, rolled, stopped, and opened again.
//!
//! ```sh
//! cargo run --example embedded_log -- /tmp/embedded/orders-0
//! ```
//!
//! The directory is one that a Kafka broker opens.

#![allow(
    clippy::print_stdout,
    reason = "an example shows what it does on standard output"
)]

use std::path::PathBuf;

use kseg::append::{Appended, Checkpointed, Error, LeaderAppend, LogConfig, PartitionLog};
use kseg::format::record_batch_builder::{BatchSettings, RecordBatchBuilder, SimpleRecord};

/// One batch as an idempotent producer sends it.
fn batch(sequence: i32, now_ms: i64, values: &[&str]) -> Result<Vec<u8>, Error> {
    let mut builder = RecordBatchBuilder::new(BatchSettings {
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: sequence,
        ..BatchSettings::default()
    })
    .map_err(kseg::append::Rejection::Build)?;
    for value in values {
        let record = SimpleRecord {
            timestamp: now_ms,
            value: Some(value.as_bytes()),
            ..SimpleRecord::default()
        };
        builder
            .append(&record)
            .map_err(kseg::append::Rejection::Build)?;
    }
    let mut bytes = Vec::new();
    builder
        .build(&mut bytes)
        .map_err(kseg::append::Rejection::Build)?;
    Ok(bytes)
}

fn show(what: &str, appended: &Appended) {
    println!(
        "{what}: offsets {} to {}{}",
        appended.first_offset,
        appended.last_offset,
        if appended.is_duplicate {
            ", which were there already"
        } else {
            ""
        }
    );
}

fn main() -> Result<(), Error> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(|| std::env::temp_dir().join("orders-0"), PathBuf::from);
    // The log has no clock of its own: time is what it is told.
    let mut now_ms = 1_790_000_000_000;
    let config = LogConfig {
        segment_bytes: 1024,
        ..LogConfig::default()
    };
    let mut log = PartitionLog::open(&dir, config.clone(), Checkpointed::NEW, None, now_ms)?;
    let next = i32::try_from(log.log_end_offset()).unwrap_or(0);

    let mut bytes = batch(next, now_ms, &["a", "b"])?;
    let appended = log.append_as_leader(&mut bytes, &LeaderAppend::default())?;
    show("appended", &appended);

    // The producer did not get the answer and sends the batch again.
    let mut bytes = batch(next, now_ms, &["a", "b"])?;
    let appended = log.append_as_leader(&mut bytes, &LeaderAppend::default())?;
    show("again", &appended);

    // A lost batch in between: refused, with the rule and its numbers.
    let mut bytes = batch(next + 5, now_ms, &["late"])?;
    match log.append_as_leader(&mut bytes, &LeaderAppend::default()) {
        Ok(appended) => show("appended", &appended),
        Err(error) => println!("refused: {error}"),
    }

    log.raise_high_watermark_to_log_end()?;
    now_ms += 60_000;
    log.advance_clock_to(now_ms)?;
    log.close()?;

    let checkpointed = Checkpointed {
        log_start_offset: log.offsets().log_start_offset(),
        recovery_point: log.recovery_point(),
        clean: true,
    };
    let log = PartitionLog::open(&dir, config, checkpointed, None, now_ms)?;
    println!(
        "open again: {} to {}, {} producer(s) known",
        log.offsets().log_start_offset(),
        log.log_end_offset(),
        log.producer_state().producer_id_count()
    );
    Ok(())
}
