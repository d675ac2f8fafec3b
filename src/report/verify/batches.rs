//! What one batch says of itself: its checksum and the fields of its header, and with
//! [`Depth::Records`] its records.
//!
//! Knows no batch before it, so stretches of a segment can be checked side by side.

use super::damage::fails_to_load;
use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use super::records;
use super::resume::{Resume, Searched};
use super::start::Start;
use crate::format::record_batch::{Attributes, CompressionType, RecordBatchHeader};
use crate::log::Error;
use crate::log::batches::{Batch, BatchWalk, Entry, LegacyEntry};
use crate::log::damage::DamageKind;
use crate::log::partition_walk::OpenSegment;
use crate::log::records::Unpacker;

/// What becomes of a batch with a wrong checksum once the log is loaded.
pub(super) const FETCHED: &str = "a fetch is answered with it, and the consumer fails";

/// How closely batches are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Headers alone: no payload is read.
    Headers,
    /// Checksums too.
    #[default]
    Checksums,
    /// Every record too.
    Records,
}

/// What is the same for all batches of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentContext {
    pub(super) index: usize,
    /// Its base offset, as its name says.
    pub(super) base_offset: i64,
    /// The base offset of the segment behind it.
    pub(super) next_base: Option<i64>,
    pub(super) size_in_bytes: u64,
    pub(super) start: Start,
    /// The metadata log of KRaft, whose control batches have no producer.
    pub(super) is_metadata_log: bool,
    pub(super) depth: Depth,
}

/// Checks the batches that begin in a stretch of a segment without damage.
pub(super) fn check_stretch(
    segment: &OpenSegment,
    searched: &Searched,
    context: &SegmentContext,
    (from, to): (u64, u64),
    unpacker: &mut Unpacker,
) -> Result<Vec<Finding>, Error> {
    let mut found = Vec::new();
    let mut check = Check {
        context,
        segment,
        file: &segment.name,
        searched,
        unpacker,
        found: &mut found,
    };
    let mut walk = BatchWalk::starting_at(&segment.file, from);
    while walk.position() < to {
        if let Some(batch) = walk.next_mapped() {
            check.batch(&batch)?;
            continue;
        }
        let Some(entry) = walk.next_entry() else {
            break;
        };
        match entry? {
            Entry::Batch(batch) => check.batch(&batch)?,
            Entry::Legacy(entry) => check.legacy(&entry)?,
            // The walk that handed out the stretch has told of it.
            Entry::Damage(_) => {}
        }
    }
    Ok(found)
}

struct Check<'c> {
    context: &'c SegmentContext,
    segment: &'c OpenSegment,
    file: &'c str,
    searched: &'c Searched,
    unpacker: &'c mut Unpacker,
    found: &'c mut Vec<Finding>,
}

impl Check<'_> {
    #[inline]
    fn batch(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let header = batch.header;
        if self.context.depth != Depth::Headers && !batch.is_plainly_valid() {
            let computed = batch.compute_crc()?;
            if computed != header.crc() && !batch.is_valid()? {
                let finding = self.bad_crc(batch, computed)?;
                self.found.push(finding);
                // What the header says is in doubt, and the records cannot be trusted.
                return Ok(());
            }
        }
        if !is_plain(header) {
            self.header(batch)?;
        }
        if self.context.depth == Depth::Records {
            let found = records::check_batch(batch, self.unpacker)?;
            self.add_all(batch.position, header.base_offset(), found);
        }
        Ok(())
    }

    fn legacy(&mut self, entry: &LegacyEntry<'_>) -> Result<(), Error> {
        let header = entry.header;
        if self.context.depth != Depth::Headers {
            let computed = entry.compute_crc()?;
            if computed != header.crc() && !entry.is_valid()? {
                let place = (entry.position, entry.size_in_bytes());
                let offset = header.offset();
                let end = entry.position + entry.size_in_bytes();
                let next = self.behind(end, offset..offset.saturating_add(1))?;
                let mut finding = self.bad_checksum(place, header.crc(), computed);
                finding.offset = Some(offset);
                finding.last_offset = Some(offset);
                finding.next_offset = next;
                self.found.push(finding);
                return Ok(());
            }
        }
        if self.context.depth == Depth::Records {
            let found = records::check_legacy(entry, self.unpacker)?;
            self.add_all(entry.position, header.offset(), found);
        }
        Ok(())
    }

    fn add_all(&mut self, position: u64, offset: i64, found: Vec<Finding>) {
        for finding in found {
            self.found.push(Finding {
                file: Some(self.file.to_owned()),
                position: Some(position),
                offset: finding.offset.or(Some(offset)),
                ..finding
            });
        }
    }

    /// The offset a reader can go on at behind a bad batch that ends at `position`.
    fn behind(&self, position: u64, offsets: std::ops::Range<i64>) -> Result<Option<i64>, Error> {
        let next_base = self.context.next_base;
        let resume = Resume::find(self.segment, self.searched, position, next_base)?;
        Ok(resume.behind(position, offsets))
    }

    #[cold]
    fn bad_crc(&mut self, batch: &Batch<'_>, computed: u32) -> Result<Finding, Error> {
        let header = batch.header;
        let place = (batch.position, batch.size_in_bytes());
        let finding = self.bad_checksum(place, header.crc(), computed);
        let lost = i64::from(header.last_offset_delta()).checked_add(1);
        let count = header.records_count();
        // Records the batch can hold at most, where the count itself cannot be right.
        let records = u64::try_from(count).ok().filter(|_| count >= 0).into_iter();
        let records = records
            .chain(lost.and_then(|it| u64::try_from(it).ok()))
            .min();
        let has_producer = header.has_producer_id();
        let end = batch.position + batch.size_in_bytes();
        let next_offset = self.behind(end, header.base_offset()..header.next_offset())?;
        Ok(Finding {
            cost: Cost {
                records,
                transactions: Some(u64::from(
                    has_producer && header.attributes().is_transactional(),
                )),
                producers: Some(u64::from(has_producer)),
            },
            next_step: Some(format!(
                "take the batch from another replica; {}",
                Resume::advice(next_offset)
            )),
            next_offset,
            ..up_to(next_offset, of_header(header, finding))
        })
    }

    fn bad_checksum(&self, (position, size): (u64, u64), stored: u32, computed: u32) -> Finding {
        let context = self.context;
        let end = position + size;
        // A write that a loss of power cut short, in a file that had its size already.
        let zeros = self.zeros_behind(end);
        let is_tail = (end == context.size_in_bytes || zeros.is_some())
            && context.start.is_last(context.index);
        let severity = if is_tail {
            context.start.severity(context.index)
        } else {
            Severity::Corrupt
        };
        let left = context.size_in_bytes - position;
        Finding {
            file: Some(self.file.to_owned()),
            position: Some(position),
            segment_base_offset: Some(context.base_offset),
            expected: Some(format!("{computed:#010x}")),
            found: Some(format!("{stored:#010x}")),
            crc_stored: Some(stored),
            crc_computed: Some(computed),
            bytes: Some(size),
            broker_action: match zeros.filter(|it| is_tail && fails_to_load(*it)) {
                Some(_) => context
                    .start
                    .cut_before_zeros(context.index, position, left),
                None => format!(
                    "{}; {FETCHED}",
                    context.start.cut(context.index, position, left)
                ),
            },
            next_step: Some("take the message from another replica".to_owned()),
            ..Finding::new(
                severity,
                Kind::BadCrc,
                format!("CRC is {stored:#010x}, computed {computed:#010x}"),
            )
        }
    }

    /// How many zeros there are to the end of the segment, if there is nothing else.
    fn zeros_behind(&self, position: u64) -> Option<u64> {
        let mut walk = BatchWalk::starting_at(&self.segment.file, position);
        match walk.next_entry()?.ok()? {
            Entry::Damage(damage) if damage.kind == DamageKind::ZeroTail => {
                Some(damage.size_in_bytes)
            }
            Entry::Damage(_) | Entry::Batch(_) | Entry::Legacy(_) => None,
        }
    }

    /// The rules about single headers, for a batch that is not simply a plain one.
    #[cold]
    fn header(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let header = batch.header;
        let attributes = header.attributes();
        let count = header.records_count();
        let delta = header.last_offset_delta();
        if delta < 0 || count < 0 || i64::from(count) > i64::from(delta) + 1 {
            self.add(
                batch,
                Kind::BadRecordCount,
                "a count from 0 to last offset - base offset + 1",
                format!("{count} records in {} offsets", i64::from(delta) + 1),
            );
        }
        if attributes.0 & Attributes::UNUSED_MASK != 0
            || attributes.compression_type().0 > CompressionType::ZSTD.0
        {
            let found = format!("attributes {:#06x}", attributes.0);
            self.add(
                batch,
                Kind::UnknownAttributes,
                "bits 7 to 15 zero, a codec up to 4",
                found,
            );
        }
        let is_control = attributes.is_control();
        if header.has_producer_id() {
            let lacks_sequence = !is_control && header.base_sequence() < 0;
            if header.producer_epoch() < 0 || lacks_sequence {
                let found = format!(
                    "producer {} epoch {} sequence {}",
                    header.producer_id(),
                    header.producer_epoch(),
                    header.base_sequence()
                );
                self.add(
                    batch,
                    Kind::BadProducerFields,
                    "an epoch and a sequence",
                    found,
                );
            }
        } else if attributes.is_transactional() {
            let found = format!("producer {}", header.producer_id());
            self.add(
                batch,
                Kind::TransactionWithoutProducer,
                "a producer id",
                found,
            );
        }
        if is_control && header.has_producer_id() {
            self.marker(batch)?;
        } else if is_control && !self.context.is_metadata_log {
            let expected = "control batches with a producer";
            self.add(
                batch,
                Kind::MisplacedControl,
                expected,
                "one without".to_owned(),
            );
        }
        Ok(())
    }

    fn marker(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        let count = batch.header.records_count();
        if self.context.is_metadata_log {
            let found = "one with a producer".to_owned();
            self.add(
                batch,
                Kind::MisplacedControl,
                "control batches without producer",
                found,
            );
        } else if count != 0 && (count != 1 || batch.marker()?.is_none()) {
            let what = match batch.control_record()? {
                Some(record) => record.control_type.name(),
                None => "no control record",
            };
            let found = format!("{count} records, first {what}");
            self.add(batch, Kind::BadMarker, "one record, COMMIT or ABORT", found);
        }
        Ok(())
    }

    fn add(&mut self, batch: &Batch<'_>, kind: Kind, expected: &str, found: String) {
        let finding = Finding {
            file: Some(self.file.to_owned()),
            position: Some(batch.position),
            expected: Some(expected.to_owned()),
            found: Some(found.clone()),
            broker_action: if kind == Kind::BadMarker {
                "a start that replays it stops, or cuts the segment behind it if it recovers it"
            } else {
                "no start looks at it; a broker sends it to consumers as it is"
            }
            .to_owned(),
            next_step: Some("compare with another replica: kseg diff".to_owned()),
            ..Finding::new(
                Severity::Corrupt,
                kind,
                format!("{}: {found}", kind.meaning()),
            )
        };
        self.found.push(of_header(batch.header, finding));
    }
}

/// Whether there is nothing about a header that a rule asks about: data, records as many as
/// offsets, and what a producer has to have.
#[inline]
fn is_plain(header: &RecordBatchHeader) -> bool {
    let attributes = header.attributes();
    let unusual = Attributes::UNUSED_MASK | Attributes::CONTROL_FLAG_MASK;
    let delta = header.last_offset_delta();
    let has_producer = header.has_producer_id();
    attributes.0 & unusual == 0
        && attributes.compression_type().0 <= CompressionType::ZSTD.0
        && delta >= 0
        && header.records_count() >= 0
        && i64::from(header.records_count()) <= i64::from(delta) + 1
        && (!has_producer || header.producer_epoch() >= 0 && header.base_sequence() >= 0)
        && (has_producer || !attributes.is_transactional())
}

/// What the header of a bad batch says of its end is not believed over what comes behind it.
fn up_to(next_offset: Option<i64>, finding: Finding) -> Finding {
    let (Some(first), Some(last), Some(next)) = (finding.offset, finding.last_offset, next_offset)
    else {
        return finding;
    };
    if !(first + 1..=last).contains(&next) {
        return finding;
    }
    let sequences = i32::try_from(next - 1 - first).ok();
    let last_sequence = finding.base_sequence.zip(sequences);
    Finding {
        last_offset: Some(next - 1),
        last_sequence: last_sequence.and_then(|(base, more)| base.checked_add(more)),
        ..finding
    }
}

/// A finding about a batch with what its header says.
pub(super) fn of_header(header: &RecordBatchHeader, finding: Finding) -> Finding {
    let producer = header.has_producer_id();
    let sequence = header.base_sequence();
    Finding {
        offset: Some(header.base_offset()),
        base_offset: Some(header.base_offset()),
        last_offset: Some(header.last_offset()),
        next_offset: Some(header.next_offset()),
        producer_id: producer.then(|| header.producer_id()),
        producer_epoch: producer.then(|| header.producer_epoch()),
        base_sequence: (sequence >= 0).then_some(sequence),
        last_sequence: (sequence >= 0).then(|| header.last_sequence()),
        records_count: Some(header.records_count()),
        ..finding
    }
}
