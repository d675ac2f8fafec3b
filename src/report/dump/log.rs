//! The rows of a `.log`.

use super::DumpCounts;
use super::rows::{BatchRow, DamageRow, DumpRow, Source};
use crate::log::Error;
use crate::log::batches::{Batch, BatchWalk, Entry, LegacyEntry};
use crate::log::damage::{Damage, DamageKind};
use crate::log::mapped_file::MappedFile;
use crate::report::filter::Filter;

/// What to look at and how closely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// Leave checksums unchecked.
    pub headers_only: bool,
    /// Which rows to hand out. Damage is never filtered out: what was looked for may be in it.
    pub filter: Filter,
}

/// Hands out a row for each batch and each stretch of damage in a `.log`, in the order they lie
/// in the file.
///
/// # Errors
/// If the file cannot be read, was cut short meanwhile, or `emit` fails.
pub fn dump_log<E: From<Error>>(
    file: &MappedFile,
    source: Source<'_>,
    options: &DumpOptions,
    mut emit: impl FnMut(&DumpRow<'_>) -> Result<(), E>,
) -> Result<DumpCounts, E> {
    let mut counts = DumpCounts::default();
    let mut walk = BatchWalk::new(file);
    let check = !options.headers_only;
    while let Some(entry) = walk.next_entry() {
        let row = match entry? {
            Entry::Batch(batch) if !options.filter.wants_batch(batch.header) => continue,
            Entry::Legacy(entry) if !wants_legacy(&options.filter, &entry) => continue,
            Entry::Batch(batch) => DumpRow::Batch(batch_row(&batch, source, check)?),
            Entry::Legacy(entry) => DumpRow::Batch(legacy_row(&entry, source, check)?),
            Entry::Damage(damage) => DumpRow::Damage(damage_row(&damage, source)),
        };
        counts.rows += 1;
        counts.invalid += u64::from(is_invalid(&row));
        file.check_unchanged()?;
        emit(&row)?;
    }
    Ok(counts)
}

/// Zeros behind the last batch are space set aside, not damage.
fn is_invalid(row: &DumpRow<'_>) -> bool {
    match row {
        DumpRow::Batch(batch) => batch.is_valid == Some(false),
        DumpRow::Damage(damage) => damage.kind != DamageKind::ZeroTail.name(),
        DumpRow::OffsetIndexEntry(_)
        | DumpRow::TimeIndexEntry(_)
        | DumpRow::AbortedTxn(_)
        | DumpRow::ProducerSnapshotEntry(_)
        | DumpRow::CheckpointEntry(_)
        | DumpRow::LeaderEpochEntry(_)
        | DumpRow::Property(_) => false,
    }
}

fn batch_row<'a>(
    batch: &Batch<'_>,
    source: Source<'a>,
    check: bool,
) -> Result<BatchRow<'a>, Error> {
    let header = batch.header;
    let attributes = header.attributes();
    let control = batch.control_record()?;
    let is_valid = if check { Some(batch.is_valid()?) } else { None };
    let has_horizon = attributes.has_delete_horizon();
    Ok(BatchRow {
        source,
        position: batch.position,
        size_in_bytes: batch.size_in_bytes(),
        base_offset: header.base_offset(),
        last_offset: header.last_offset(),
        count: Some(header.records_count()),
        base_sequence: Some(header.base_sequence()),
        last_sequence: Some(header.last_sequence()),
        producer_id: Some(header.producer_id()),
        producer_epoch: Some(header.producer_epoch()),
        partition_leader_epoch: Some(header.partition_leader_epoch()),
        is_transactional: attributes.is_transactional(),
        is_control: attributes.is_control(),
        control_type: control.map(|control| control.control_type.name()),
        coordinator_epoch: control.and_then(|control| control.coordinator_epoch),
        delete_horizon_ms: header.delete_horizon_ms(),
        timestamp_type: attributes.timestamp_type().name(),
        base_timestamp: (!has_horizon).then(|| header.base_timestamp()),
        max_timestamp: header.max_timestamp(),
        magic: header.magic(),
        compression_type: attributes.compression_type().name(),
        crc: header.crc(),
        is_valid,
    })
}

fn wants_legacy(filter: &Filter, entry: &LegacyEntry<'_>) -> bool {
    let timestamp = entry.timestamp().unwrap_or(crate::format::NO_TIMESTAMP);
    filter.producer_id.is_none()
        && filter.wants_offset(entry.header.offset())
        && filter.wants_times(timestamp, timestamp)
}

fn legacy_row<'a>(
    entry: &LegacyEntry<'_>,
    source: Source<'a>,
    check: bool,
) -> Result<BatchRow<'a>, Error> {
    let header = entry.header;
    let is_valid = if check { Some(entry.is_valid()?) } else { None };
    Ok(BatchRow {
        source,
        position: entry.position,
        size_in_bytes: entry.size_in_bytes(),
        base_offset: header.offset(),
        last_offset: header.offset(),
        count: None,
        base_sequence: None,
        last_sequence: None,
        producer_id: None,
        producer_epoch: None,
        partition_leader_epoch: None,
        is_transactional: false,
        is_control: false,
        control_type: None,
        coordinator_epoch: None,
        delete_horizon_ms: None,
        timestamp_type: header.timestamp_type().name(),
        base_timestamp: None,
        max_timestamp: entry.timestamp().unwrap_or(crate::format::NO_TIMESTAMP),
        magic: header.magic(),
        compression_type: header.compression_type().name(),
        crc: header.crc(),
        is_valid,
    })
}

fn damage_row<'a>(damage: &Damage, source: Source<'a>) -> DamageRow<'a> {
    let readable = damage.readable;
    DamageRow {
        source,
        kind: damage.kind.name(),
        position: damage.position,
        size_in_bytes: damage.size_in_bytes,
        base_offset: readable.base_offset,
        last_offset: readable.last_offset,
        batch_length: readable.batch_length,
        magic: readable.magic,
        producer_id: readable.producer_id,
        producer_epoch: readable.producer_epoch,
        base_sequence: readable.base_sequence,
        message: damage.to_string(),
    }
}
