//! The pass over the log: what a consumer does with each batch.

use std::ops::ControlFlow;

use super::aborted::AbortedTransactions;
use super::counts::{Fate, Fates};
use super::{AbortedFrom, BadBatch, IsolationLevel, PartitionReader, ReadRow, ReadSummary};
use crate::format::control_record::ControlRecordType;
use crate::format::record_batch::CompressionType;
use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP};
use crate::log::Error;
use crate::log::batches::{Batch, Entry, LegacyEntry};
use crate::log::damage::Damage;
use crate::log::partition_walk::{SegmentAt, walk_partition};
use crate::log::records::{BadRecords, LogRecord, Unpacker};
use crate::report::content::{Content, Decoder, HeadersRow};
use crate::report::filter::Filter;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());
const STOP: ControlFlow<()> = ControlFlow::Break(());

pub(super) fn run<E: From<Error>>(
    reader: &PartitionReader<'_>,
    emit: impl FnMut(&ReadRow<'_>) -> Result<(), E>,
) -> Result<ReadSummary, E> {
    let bounds = reader.bounds;
    let to_offset = reader.options.filter.to_offset.unwrap_or(i64::MAX);
    let mut run = Run {
        reader,
        emit,
        filter: Filter {
            from_offset: Some(bounds.start_offset),
            ..reader.options.filter.clone()
        },
        end: bounds.end_offset.min(to_offset),
        unpacker: Unpacker::new(reader.options.max_batch_bytes),
        aborted: AbortedTransactions::new(reader)?,
        fates: Fates::default(),
        next_offset: bounds.start_offset,
        has_begun: false,
        summary: ReadSummary::default(),
    };
    let segments = &reader.dir.segments;
    let first = if reader.options.count {
        0
    } else {
        let behind = segments.partition_point(|it| it.base_offset <= bounds.start_offset);
        behind.saturating_sub(1)
    };
    let vanished = walk_partition(reader.dir, reader.options.state.io, first, |at, entry| {
        run.entry(at, &entry)
    })?;
    run.summary.counts.open += run.fates.open_records();
    run.summary.vanished_segments = vanished.len();
    Ok(run.summary)
}

struct Run<'r, 'd, F> {
    reader: &'r PartitionReader<'d>,
    emit: F,
    filter: Filter,
    /// Nothing at or behind this offset is shown.
    end: i64,
    unpacker: Unpacker,
    aborted: AbortedTransactions<'d>,
    fates: Fates,
    /// Where the consumer stands (`CompletedFetch.nextFetchOffset`).
    next_offset: i64,
    /// A batch that reaches the first offset has been seen.
    has_begun: bool,
    summary: ReadSummary,
}

impl<E, F> Run<'_, '_, F>
where
    E: From<Error>,
    F: FnMut(&ReadRow<'_>) -> Result<(), E>,
{
    fn entry(&mut self, at: SegmentAt<'_>, entry: &Entry<'_>) -> Result<ControlFlow<()>, E> {
        if let Some(stopped) = &mut self.summary.stopped {
            let Some(found) = entry.readable_offset()? else {
                return Ok(GO_ON);
            };
            // Damage before the batch that the read begins with: a broker finds that by its
            // index and does not come across what lies before it.
            let is_before = !self.has_begun && found <= self.reader.bounds.start_offset;
            if !is_before {
                stopped.next_offset = Some(found);
                return Ok(STOP);
            }
            self.summary.stopped = None;
        }
        match entry {
            Entry::Batch(batch) => self.batch(at, batch),
            Entry::Legacy(entry) => self.legacy(at, entry),
            Entry::Damage(damage) => Ok(self.damage(at, damage)),
        }
    }

    fn stop(&mut self, at: SegmentAt<'_>, position: u64, message: String) -> ControlFlow<()> {
        self.summary.stopped = Some(BadBatch {
            offset: self.next_offset,
            file: at.file.to_owned(),
            position,
            message,
            next_offset: None,
        });
        GO_ON
    }

    fn damage(&mut self, at: SegmentAt<'_>, damage: &Damage) -> ControlFlow<()> {
        if self.next_offset >= self.end {
            return GO_ON;
        }
        self.stop(at, damage.position, damage.to_string())
    }

    fn batch(&mut self, at: SegmentAt<'_>, batch: &Batch<'_>) -> Result<ControlFlow<()>, E> {
        let header = batch.header;
        let last_offset = header.last_offset();
        if last_offset < self.reader.bounds.start_offset {
            self.count_below(
                last_offset,
                header.records_count(),
                batch.header.attributes().is_control(),
            );
            return Ok(GO_ON);
        }
        self.has_begun = true;
        if last_offset >= self.reader.bounds.end_offset || header.base_offset() >= self.end {
            return self.behind_the_end(batch);
        }
        let (position, size) = (batch.position, batch.size_in_bytes());
        let is_committed = self.isolation_level() == IsolationLevel::ReadCommitted;
        if is_committed {
            self.aborted.fetch(at, position, size, self.next_offset)?;
        }
        let computed = batch.compute_crc()?;
        if computed != header.crc() {
            let stored = header.crc();
            let message = format!("CRC is {stored:#010x}, computed {computed:#010x}");
            return Ok(self.stop(at, position, message));
        }
        let control = batch.control_record()?.map(|it| it.control_type);
        let producer_id = header.producer_id();
        if is_committed && header.has_producer_id() {
            self.aborted.consume_up_to(last_offset);
            if control == Some(ControlRecordType::ABORT) {
                self.aborted.end(producer_id);
            } else if header.attributes().is_transactional() && self.aborted.contains(producer_id) {
                let records = self.wanted(batch)?;
                if !header.attributes().is_control() {
                    self.fates
                        .data(producer_id, header.base_offset(), Fate::Hidden, records);
                    self.summary.counts.aborted += records;
                    self.next_offset = header.next_offset();
                    return Ok(GO_ON);
                }
            }
        }
        if header.attributes().is_control() {
            self.control(at, batch, control)?;
            self.next_offset = self.next_offset.max(header.next_offset());
            return Ok(GO_ON);
        }
        self.data(at, batch)
    }

    fn data(&mut self, at: SegmentAt<'_>, batch: &Batch<'_>) -> Result<ControlFlow<()>, E> {
        let header = batch.header;
        let before = self.summary.counts.visible;
        let (bad, _) = self.records(
            header.producer_id(),
            header.producer_epoch(),
            |unpacker, visit| unpacker.batch(batch, visit),
        )?;
        batch.check_unchanged()?;
        if header.attributes().is_transactional() && header.has_producer_id() {
            let records = self.summary.counts.visible - before;
            let base_offset = header.base_offset();
            self.fates
                .data(header.producer_id(), base_offset, Fate::Visible, records);
        }
        if let Some(bad) = bad {
            return Ok(self.stop(at, batch.position, bad.error.to_string()));
        }
        self.next_offset = self.next_offset.max(header.next_offset());
        Ok(GO_ON)
    }

    fn legacy(&mut self, at: SegmentAt<'_>, entry: &LegacyEntry<'_>) -> Result<ControlFlow<()>, E> {
        let offset = entry.header.offset();
        let is_wrapper = entry.header.compression_type() != CompressionType::NONE;
        if offset < self.reader.bounds.start_offset {
            self.count_below(offset, i32::from(!is_wrapper), false);
            return Ok(GO_ON);
        }
        self.has_begun = true;
        if offset >= self.reader.bounds.end_offset || (offset >= self.end && !is_wrapper) {
            let is_above = offset >= self.reader.bounds.high_watermark;
            self.summary.counts.above_high_watermark += u64::from(is_above);
            return Ok(if self.reader.options.count {
                GO_ON
            } else {
                STOP
            });
        }
        if !entry.is_valid()? {
            let message = format!("the checksum {:#010x} is wrong", entry.header.crc());
            return Ok(self.stop(at, entry.position, message));
        }
        let (bad, bad_message) =
            self.records(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, |unpacker, visit| {
                unpacker.legacy(entry, visit)
            })?;
        if let Some(bad) = bad {
            return Ok(self.stop(at, entry.position, bad.error.to_string()));
        }
        if bad_message {
            let message = "the checksum of a message inside is wrong".to_owned();
            return Ok(self.stop(at, entry.position, message));
        }
        self.next_offset = self.next_offset.max(offset.wrapping_add(1));
        Ok(GO_ON)
    }

    /// Hands out the records of an entry from where the consumer stands. Says as well whether
    /// one of them has a wrong checksum of its own, which ends the read
    /// (`CompletedFetch.maybeEnsureValid`).
    fn records(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        unpack: impl FnOnce(
            &mut Unpacker,
            &mut dyn FnMut(&LogRecord<'_>) -> Result<(), E>,
        ) -> Result<Option<BadRecords>, E>,
    ) -> Result<(Option<BadRecords>, bool), E> {
        let Self {
            reader,
            emit,
            filter,
            unpacker,
            next_offset,
            summary,
            ..
        } = self;
        let counts = &mut summary.counts;
        let log_start_offset = reader.bounds.log_start_offset;
        let wants_producer = filter.wants_producer(producer_id);
        let mut bad_message = false;
        let bad = unpack(unpacker, &mut |record| {
            if record.offset < *next_offset || bad_message {
                counts.below_log_start += u64::from(record.offset < log_start_offset);
                return Ok(());
            }
            if record.crc.is_some_and(|(_, is_valid)| !is_valid) {
                bad_message = true;
                return Ok(());
            }
            *next_offset = record.offset.wrapping_add(1);
            if !wants_producer
                || !filter.wants_offset(record.offset)
                || !filter.wants_times(record.timestamp, record.timestamp)
            {
                return Ok(());
            }
            counts.visible += 1;
            counts.first_visible.get_or_insert(record.offset);
            counts.last_visible = Some(record.offset);
            if reader.options.count {
                return Ok(());
            }
            emit(&row(reader, producer_id, producer_epoch, record))
        })?;
        Ok((bad, bad_message))
    }

    fn control(
        &mut self,
        at: SegmentAt<'_>,
        batch: &Batch<'_>,
        control_type: Option<ControlRecordType>,
    ) -> Result<(), E> {
        let header = batch.header;
        if self.filter.wants_batch(header) {
            self.summary.counts.control += records_count(header.records_count());
        }
        let Some(control_type) = control_type else {
            return Ok(());
        };
        let isolation_level = self.isolation_level();
        let is_checked = isolation_level == IsolationLevel::ReadCommitted
            && self.reader.options.aborted_from == AbortedFrom::Index;
        let (producer_id, offset) = (header.producer_id(), header.base_offset());
        let aborted = &mut self.aborted;
        self.fates.marker(
            producer_id,
            control_type,
            offset,
            &mut self.summary,
            isolation_level,
            || Ok::<_, E>(!is_checked || aborted.is_indexed(at.index, producer_id, offset)?),
        )
    }

    /// A batch the consumer does not get (yet). Only counting goes on here.
    fn behind_the_end(&mut self, batch: &Batch<'_>) -> Result<ControlFlow<()>, E> {
        if !self.reader.options.count {
            return Ok(STOP);
        }
        let header = batch.header;
        let attributes = header.attributes();
        if header.last_offset() >= self.reader.bounds.high_watermark {
            if !attributes.is_control() {
                let records = records_count(header.records_count());
                self.summary.counts.above_high_watermark += records;
            }
            return Ok(GO_ON);
        }
        if attributes.is_control() {
            let control = batch.control_record()?.map(|it| it.control_type);
            if self.filter.wants_batch(header) {
                self.summary.counts.control += records_count(header.records_count());
            }
            if let Some(control) = control {
                let isolation_level = self.isolation_level();
                let (producer_id, offset) = (header.producer_id(), header.base_offset());
                let summary = &mut self.summary;
                self.fates.marker(
                    producer_id,
                    control,
                    offset,
                    summary,
                    isolation_level,
                    || Ok::<_, E>(true),
                )?;
            }
            return Ok(GO_ON);
        }
        let records = self.wanted(batch)?;
        if attributes.is_transactional() && header.has_producer_id() {
            let base_offset = header.base_offset();
            self.fates
                .data(header.producer_id(), base_offset, Fate::Unstable, records);
        } else {
            self.summary.counts.behind_last_stable_offset += records;
        }
        Ok(GO_ON)
    }

    /// How many records of a batch pass the filters, without showing them.
    fn wanted(&mut self, batch: &Batch<'_>) -> Result<u64, E> {
        let header = batch.header;
        let filter = &self.filter;
        if !filter.wants_batch(header) {
            return Ok(0);
        }
        let is_whole = filter.from_time_ms.is_none()
            && filter.to_time_ms.is_none()
            && filter.wants_offset(header.base_offset())
            && filter.wants_offset(header.last_offset());
        if is_whole {
            return Ok(records_count(header.records_count()));
        }
        let mut records = 0;
        self.unpacker.batch(batch, |record| {
            let wanted = filter.wants_offset(record.offset)
                && filter.wants_times(record.timestamp, record.timestamp);
            records += u64::from(wanted);
            Ok::<_, E>(())
        })?;
        Ok(records)
    }

    fn count_below(&mut self, last_offset: i64, records: i32, is_control: bool) {
        if last_offset < self.reader.bounds.log_start_offset && !is_control {
            self.summary.counts.below_log_start += records_count(records);
        }
    }

    fn isolation_level(&self) -> IsolationLevel {
        self.reader.options.isolation_level
    }
}

/// The count in a header; a negative one counts for nothing.
fn records_count(count: i32) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn row<'a>(
    reader: &PartitionReader<'a>,
    producer_id: i64,
    producer_epoch: i16,
    record: &LogRecord<'a>,
) -> ReadRow<'a> {
    let options = reader.options;
    let form = options.bytes_form;
    ReadRow {
        topic: reader.dir.topic(),
        partition: reader.dir.partition(),
        offset: record.offset,
        timestamp: (record.timestamp != NO_TIMESTAMP).then_some(record.timestamp),
        timestamp_type: record.timestamp_type.name(),
        key: Content::new(record.key, Decoder::Auto, form),
        value: Content::new(
            record.value.filter(|_| !options.keys_only),
            Decoder::Auto,
            form,
        ),
        value_size: record.value.map(|value| value.len() as u64),
        headers: HeadersRow {
            headers: record.headers(),
            form,
            keys_only: options.keys_only,
        },
        producer_id: (producer_id != NO_PRODUCER_ID).then_some(producer_id),
        producer_epoch: (producer_id != NO_PRODUCER_ID).then_some(producer_epoch),
    }
}
