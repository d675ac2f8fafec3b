//! The records of a batch against its header.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use crate::format::record_batch::TimestampType;
use crate::log::Error;
use crate::log::batches::{Batch, LegacyEntry};
use crate::log::records::{BadRecords, Unpacker};

/// What the records of one batch come to.
#[derive(Debug, Default)]
struct Seen {
    count: u64,
    last_offset: Option<i64>,
    first_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    /// Offset of the first record that is out of order or out of range.
    misplaced: Option<i64>,
    /// The first message with a wrong checksum: its offset and the checksum it has.
    bad_crc: Option<(i64, u32)>,
}

/// Parses the records of a batch and holds them against its header.
pub(super) fn check_batch(
    batch: &Batch<'_>,
    unpacker: &mut Unpacker,
) -> Result<Vec<Finding>, Error> {
    let header = batch.header;
    let (first, last) = (header.base_offset(), header.last_offset());
    let mut seen = Seen::default();
    let bad = unpacker.batch::<Error>(batch, |record| {
        seen.take(record.offset, record.timestamp, (first, last));
        Ok(())
    })?;
    let mut found = Vec::new();
    if let Some(bad) = bad {
        found.push(unreadable(&bad, seen.count, header.records_count()));
        return Ok(found);
    }
    if let Some(offset) = seen.misplaced {
        found.push(misplaced(offset, (first, last)));
    }
    let attributes = header.attributes();
    if seen.count == 0 || attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Ok(found);
    }
    let max_timestamp = Some(header.max_timestamp());
    let base_timestamp = Some(header.base_timestamp());
    let base_differs = !attributes.has_delete_horizon() && seen.first_timestamp != base_timestamp;
    // The cleaner leaves the base timestamp of a batch whose first records it took.
    let is_whole = i64::from(header.records_count()) == i64::from(header.last_offset_delta()) + 1;
    if seen.max_timestamp != max_timestamp || base_differs && is_whole {
        let text = |base: Option<i64>, max: Option<i64>| {
            format!("base {}, max {}", base.unwrap_or(-1), max.unwrap_or(-1))
        };
        let mut finding = Finding::new(
            Severity::Notable,
            Kind::BatchTimestamps,
            "the batch's timestamps are not those of its records",
        );
        finding.expected = Some(text(seen.first_timestamp, seen.max_timestamp));
        finding.found = Some(text(base_timestamp, max_timestamp));
        finding.broker_action =
            "retention and look-ups by time use the header's; no start looks at it".to_owned();
        found.push(finding);
    }
    Ok(found)
}

/// The same for an entry of magic 0 or 1: each message has a checksum of its own.
pub(super) fn check_legacy(
    entry: &LegacyEntry<'_>,
    unpacker: &mut Unpacker,
) -> Result<Vec<Finding>, Error> {
    let mut seen = Seen::default();
    let last = entry.header.offset();
    let bad = unpacker.legacy::<Error>(entry, |record| {
        seen.take(record.offset, record.timestamp, (i64::MIN, last));
        if let Some((crc, false)) = record.crc {
            seen.bad_crc.get_or_insert((record.offset, crc));
        }
        Ok(())
    })?;
    let mut found = Vec::new();
    if let Some(bad) = bad {
        found.push(unreadable(&bad, seen.count, -1));
    }
    if let Some(offset) = seen.misplaced {
        found.push(misplaced(offset, (i64::MIN, last)));
    }
    if let Some((offset, crc)) = seen.bad_crc {
        let mut finding = Finding::new(
            Severity::Corrupt,
            Kind::BadCrc,
            "the checksum of a message inside a compressed one is wrong",
        );
        finding.offset = Some(offset);
        finding.crc_stored = Some(crc);
        finding.found = Some(format!("{crc:#010x}"));
        finding.broker_action = NOT_LOOKED_AT.to_owned();
        found.push(finding);
    }
    Ok(found)
}

const NOT_LOOKED_AT: &str =
    "no start looks at it: the checksum around it is right; consumers fail on it";

impl Seen {
    #[inline]
    fn take(&mut self, offset: i64, timestamp: i64, (first, last): (i64, i64)) {
        let is_behind = self.last_offset.is_none_or(|before| offset > before);
        if (!is_behind || offset < first || offset > last) && self.misplaced.is_none() {
            self.misplaced = Some(offset);
        }
        self.count += 1;
        self.last_offset = Some(offset);
        self.first_timestamp.get_or_insert(timestamp);
        self.max_timestamp = self.max_timestamp.max(Some(timestamp));
    }
}

fn unreadable(bad: &BadRecords, read: u64, count: i32) -> Finding {
    let mut finding = Finding::new(
        Severity::Corrupt,
        Kind::BadRecords,
        format!(
            "records cannot be read behind the first {read}: {}",
            bad.error
        ),
    );
    if bad.is_over_limit() {
        // The limit is none of Kafka's.
        finding.severity = Severity::Notable;
        finding.broker_action = "none: it knows no such limit".to_owned();
        finding.next_step = Some("a larger --max-batch-bytes looks into it".to_owned());
        finding.message = format!("not looked into: {}", bad.error);
        finding.defect = Some(bad.kind);
        finding.found = Some(bad.error.to_string());
        return finding;
    }
    finding.defect = Some(bad.kind);
    finding.found = Some(bad.error.to_string());
    finding.cost.records = u64::try_from(count)
        .ok()
        .map(|count| count.saturating_sub(read));
    finding.broker_action = NOT_LOOKED_AT.to_owned();
    finding.next_step = Some("compare with another replica: kseg diff".to_owned());
    finding
}

fn misplaced(offset: i64, (first, last): (i64, i64)) -> Finding {
    let mut finding = Finding::new(
        Severity::Corrupt,
        Kind::RecordOrder,
        format!("a record has offset {offset}, out of order or not in the batch"),
    );
    finding.offset = Some(offset);
    finding.expected = Some(if first == i64::MIN {
        format!("rising offsets up to {last}")
    } else {
        format!("rising offsets from {first} to {last}")
    });
    finding.found = Some(offset.to_string());
    finding.broker_action = NOT_LOOKED_AT.to_owned();
    finding
}
