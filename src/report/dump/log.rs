//! The rows of a `.log`.

use super::DumpCounts;
use super::records::{RecordOptions, RecordRows};
use super::rows::{BatchRow, DamageRow, DumpRow, Source};
use crate::format::record_batch::CompressionType;
use crate::log::Error;
use crate::log::batches::{Batch, BatchWalk, Entry, LegacyEntry};
use crate::log::damage::{Damage, DamageKind};
use crate::log::mapped_file::MappedFile;
use crate::log::records::{BadRecords, LogRecord, Unpacker};
use crate::report::filter::Filter;

/// What to look at and how closely.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpOptions {
    /// Leave checksums unchecked.
    pub headers_only: bool,
    /// Which rows to hand out. Damage is never filtered out: what was looked for may be in it.
    pub filter: Filter,
    /// Show the records of each batch behind it.
    pub records: Option<RecordOptions>,
    /// Look at no more than the first bytes of the file, as many as these.
    pub max_bytes: Option<u64>,
}

/// Hands out a row for each batch and each stretch of damage in a `.log`, in the order they lie
/// in the file; with [`DumpOptions::records`] a row for each record behind that of its batch, and
/// one of damage where the records of a batch cannot be read.
///
/// # Errors
/// If the file cannot be read, was cut short meanwhile, or `emit` fails.
pub fn dump_log<E: From<Error>>(
    file: &MappedFile,
    source: Source<'_>,
    options: &DumpOptions,
    emit: impl FnMut(&DumpRow<'_>) -> Result<(), E>,
) -> Result<DumpCounts, E> {
    let records = options.records.map(|records| {
        let unpacker = Unpacker::new(records.max_batch_bytes);
        (unpacker, RecordRows::new(records, source))
    });
    let mut dump = LogDump {
        file,
        source,
        options,
        emit,
        records,
        counts: DumpCounts::default(),
    };
    let end = options.max_bytes.unwrap_or(u64::MAX);
    let mut walk = BatchWalk::new(file);
    while let Some(entry) = walk.next_entry() {
        match entry? {
            Entry::Batch(batch) if batch.position.saturating_add(batch.size_in_bytes()) > end => {
                break;
            }
            Entry::Legacy(entry) if entry.position.saturating_add(entry.size_in_bytes()) > end => {
                break;
            }
            Entry::Damage(damage) if damage.position >= end => break,
            Entry::Batch(batch) => dump.batch(&batch)?,
            Entry::Legacy(entry) => dump.legacy(&entry)?,
            Entry::Damage(damage) => {
                dump.row(&DumpRow::Damage(damage_row(&damage, source)))?;
            }
        }
    }
    Ok(dump.counts)
}

/// Where the rows of one file go.
struct LogDump<'f, 'a, F> {
    file: &'f MappedFile,
    source: Source<'a>,
    options: &'f DumpOptions,
    emit: F,
    records: Option<(Unpacker, RecordRows)>,
    counts: DumpCounts,
}

impl<E, F> LogDump<'_, '_, F>
where
    E: From<Error>,
    F: FnMut(&DumpRow<'_>) -> Result<(), E>,
{
    fn row(&mut self, row: &DumpRow<'_>) -> Result<(), E> {
        hand_out(row, self.file, &mut self.counts, &mut self.emit)
    }

    fn batch(&mut self, batch: &Batch<'_>) -> Result<(), E> {
        if !self.options.filter.wants_batch(batch.header) {
            return Ok(());
        }
        let row = batch_row(batch, self.source, !self.options.headers_only)?;
        self.with_records(row, |unpacker, visit| unpacker.batch(batch, visit))
    }

    fn legacy(&mut self, entry: &LegacyEntry<'_>) -> Result<(), E> {
        let filter = &self.options.filter;
        // The offsets in a wrapper begin below its own; its records are filtered one by one.
        if !wants_legacy(filter, entry) && (self.records.is_none() || !may_hold(filter, entry)) {
            return Ok(());
        }
        let row = legacy_row(entry, self.source, !self.options.headers_only)?;
        self.with_records(row, |unpacker, visit| unpacker.legacy(entry, visit))
    }

    /// The row of a batch, and of its records if they are asked for.
    fn with_records(
        &mut self,
        row: BatchRow<'_>,
        unpack: impl FnOnce(
            &mut Unpacker,
            &mut dyn FnMut(&LogRecord<'_>) -> Result<(), E>,
        ) -> Result<Option<BadRecords>, E>,
    ) -> Result<(), E> {
        let row = DumpRow::Batch(row);
        self.row(&row)?;
        let (Some((unpacker, rows)), DumpRow::Batch(batch)) = (&mut self.records, &row) else {
            return Ok(());
        };
        let (file, emit, counts) = (self.file, &mut self.emit, &mut self.counts);
        let filter = &self.options.filter;
        let bad = unpack(unpacker, &mut |record| {
            if !filter.wants_offset(record.offset)
                || !filter.wants_times(record.timestamp, record.timestamp)
            {
                return Ok(());
            }
            let row = DumpRow::Record(rows.row(batch, record));
            hand_out(&row, file, counts, &mut *emit)
        })?;
        match bad {
            None => Ok(()),
            Some(bad) => hand_out(&bad_records(batch, &bad), file, counts, emit),
        }
    }
}

fn hand_out<E: From<Error>>(
    row: &DumpRow<'_>,
    file: &MappedFile,
    counts: &mut DumpCounts,
    mut emit: impl FnMut(&DumpRow<'_>) -> Result<(), E>,
) -> Result<(), E> {
    counts.rows += 1;
    counts.invalid += u64::from(is_invalid(row));
    file.check_unchanged()?;
    emit(row)
}

/// What is wrong inside a batch, at the batch's own place.
fn bad_records<'a>(batch: &BatchRow<'a>, bad: &BadRecords) -> DumpRow<'a> {
    let message = bad.error.to_string();
    DumpRow::Damage(DamageRow {
        base_offset: Some(batch.base_offset),
        last_offset: Some(batch.last_offset),
        magic: Some(batch.magic),
        producer_id: batch.producer_id,
        producer_epoch: batch.producer_epoch,
        base_sequence: batch.base_sequence,
        ..DamageRow::new(
            batch.source(),
            bad.kind,
            batch.position,
            batch.size_in_bytes,
            message,
        )
    })
}

/// Zeros behind the last batch are space set aside, not damage.
fn is_invalid(row: &DumpRow<'_>) -> bool {
    match row {
        DumpRow::Batch(batch) => batch.is_valid == Some(false),
        DumpRow::Record(record) => record.batch.is_valid == Some(false),
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
        topic: source.topic,
        partition: source.partition,
        file: source.file,
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

/// Whether a wrapper may hold a record that is wanted, though its own offset and time are not.
fn may_hold(filter: &Filter, entry: &LegacyEntry<'_>) -> bool {
    let from = filter.from_offset.unwrap_or(i64::MIN);
    filter.producer_id.is_none()
        && entry.header.compression_type() != CompressionType::NONE
        && entry.header.offset() >= from
}

fn legacy_row<'a>(
    entry: &LegacyEntry<'_>,
    source: Source<'a>,
    check: bool,
) -> Result<BatchRow<'a>, Error> {
    let header = entry.header;
    let is_valid = if check { Some(entry.is_valid()?) } else { None };
    Ok(BatchRow {
        topic: source.topic,
        partition: source.partition,
        file: source.file,
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
