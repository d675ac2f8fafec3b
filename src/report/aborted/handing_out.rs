//! The rows of a segment, once its index has been compared with the log: what each difference shows
//! or hides, and which of them are wanted.

use super::comparison::{Comparison, MISSING, STABLE_OFFSET, STARTS_LATE, SURPLUS};
use super::disputed::look_up_disputed;
use super::row::{AbortedRow, MARKER_GONE};
use super::segment::{AtFirst, Found, Part};
use super::unmatched::AtItsEnd;
use super::{AbortedOptions, RangeRule};
use crate::log::Error;

const TORN: &str = "txnindex-entry-torn";
const UNREADABLE: &str = "txnindex-entry-unreadable";

impl<'a> Comparison<'a> {
    /// Looks up what a difference shows or hides, and hands the rows out.
    pub(in crate::report) fn finish_segment<E: From<Error>>(
        &mut self,
        limit: i64,
        emit: &mut impl FnMut(&AbortedRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.index_rows_below(limit, AtItsEnd::SegmentEnd);
        let mut found = std::mem::take(&mut self.segment.found);
        let log_start_offset = self.log_start_offset;
        look_up_disputed(
            self.dir,
            self.options.state.io,
            log_start_offset,
            &mut found,
        )?;
        for found in &mut found {
            // A broker that read the log from the log start on knows nothing of what lies below
            // it (`UnifiedLog.rebuildProducerState`).
            let begins_below = found
                .in_log
                .is_some_and(|it| it.row.first_offset < log_start_offset);
            if begins_below && found.exposed.is_empty() && found.finding.is_some() {
                let is_missing = found.in_index.is_none();
                found.finding = None;
                found.reason = is_missing.then_some("its records lie below the log start");
            }
            if found.finding == Some(STARTS_LATE) && found.exposed.is_empty() {
                found.reason = Some(
                    "it begins inside a batch, or behind empty ones: the Java consumer shows none \
                     of what was rolled back",
                );
            }
            decide_surplus(found);
            self.hand_out(found, emit)?;
        }
        let defects = [
            (
                self.segment.torn,
                TORN,
                "a part of a row at the end; the next row goes behind it",
            ),
            (
                self.segment.unreadable,
                UNREADABLE,
                "a version Kafka does not read: the partition does not load",
            ),
        ];
        for (position, finding, reason) in defects {
            if let Some(position) = position {
                self.summary.broken += 1;
                let mut row = self.row(&Found {
                    finding: Some(finding),
                    reason: Some(reason),
                    ..Found::default()
                });
                row.position = Some(position);
                emit(&row)?;
            }
        }
        Ok(())
    }

    fn hand_out<E>(
        &mut self,
        found: &Found,
        emit: &mut impl FnMut(&AbortedRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Kafka lists none that ended below the log start.
        if found.last_offset() < self.log_start_offset {
            return Ok(());
        }
        let count = |parts: &[Part]| parts.iter().map(|part| part.records).sum::<u64>();
        let times = found.times();
        self.summary.exposed_records += count(&found.exposed) * times;
        self.summary.hidden_records += count(&found.hidden) * times;
        match found.finding {
            Some(MISSING) => self.summary.missing += times,
            Some(SURPLUS) => self.summary.surplus += times,
            Some(STARTS_LATE) => self.summary.starts_late += times,
            Some(STABLE_OFFSET) => self.summary.hiding_others += times,
            Some(_) | None => {}
        }
        if !self.wants(found) {
            return Ok(());
        }
        let row = self.row(found);
        emit(&row)
    }

    fn wants(&mut self, found: &Found) -> bool {
        let AbortedOptions {
            producer_id,
            from_offset,
            to_offset,
            range_rule,
            ..
        } = *self.options;
        let in_index = found.in_index.map(|it| it.row);
        let Some(row) = in_index.or(found.in_log.map(|it| it.row)) else {
            return true;
        };
        let is_complete = self.is_complete && in_index.is_some();
        let to_offset = to_offset.unwrap_or(i64::MAX);
        if in_index.is_some() && row.last_stable_offset >= to_offset {
            self.is_complete = true;
        }
        let from_offset = from_offset.unwrap_or(i64::MIN);
        let begins_late_enough = match range_rule {
            RangeRule::Fetch => row.last_offset >= from_offset,
            RangeRule::CollectAbortedTransactions => {
                let segments = &self.dir.segments;
                let after = segments.partition_point(|it| it.base_offset <= from_offset);
                self.segment.index + 1 >= after
            }
        };
        begins_late_enough
            && row.first_offset < to_offset
            && !is_complete
            && producer_id.is_none_or(|wanted| wanted == row.producer_id)
    }

    fn row(&self, found: &Found) -> AbortedRow<'a> {
        let in_log = found.in_log;
        let row = found.in_index.map(|it| it.row).or(in_log.map(|it| it.row));
        let ranges = |parts: &[Part]| parts.iter().map(|part| (part.first, part.last)).collect();
        let records = |parts: &[Part]| parts.iter().map(|part| part.records).sum();
        AbortedRow {
            topic: self.dir.topic(),
            partition: self.dir.partition(),
            producer_id: row.map(|row| row.producer_id),
            first_offset: row.map(|row| row.first_offset),
            last_offset: row.map(|row| row.last_offset),
            last_stable_offset: row.map(|row| row.last_stable_offset),
            in_index: found.in_index.is_some(),
            in_log: in_log.is_some(),
            log_first_offset: in_log.map(|it| it.row.first_offset),
            log_last_stable_offset: in_log.map(|it| it.row.last_stable_offset),
            file: self.segment.file.clone(),
            position: found.in_index.map(|it| it.position),
            times: found.times(),
            batches: in_log.map_or(found.rolled_back.len() as u64, |it| it.batches),
            records: in_log.map_or_else(|| records(&found.rolled_back), |it| it.records),
            size_in_bytes: in_log.map_or(0, |it| it.size_in_bytes),
            start_timestamp: in_log.and_then(|it| it.start_timestamp),
            end_timestamp: in_log.and_then(|it| it.end_timestamp),
            finding: found.finding,
            reason: found.reason,
            exposed_offsets: ranges(&found.exposed),
            exposed_records: records(&found.exposed),
            hidden_offsets: ranges(&found.hidden),
            hidden_records: records(&found.hidden),
        }
    }
}

/// Whether a row has more than the log bears out, now that its offsets have been looked at.
fn decide_surplus(found: &mut Found) {
    let begins_wrong = match (found.in_log, found.at_first) {
        // The log has the batch, and its transaction does not begin with it.
        (Some(_), Some(_)) | (None, Some(AtFirst::Other)) => true,
        (None, Some(AtFirst::OwnData)) | (_, None) => false,
    };
    if found.marker_is_gone && !begins_wrong && !found.has_commit {
        // What it hides was rolled back: nobody but the row knows.
        if !found.hidden.is_empty() {
            found.rolled_back = std::mem::take(&mut found.hidden);
            found.reason = Some(MARKER_GONE);
        }
    } else if !found.hidden.is_empty() {
        found.finding = Some(SURPLUS);
        found.reason = Some("consumers do not see records that were not rolled back");
    } else if begins_wrong && found.finding.is_none() {
        found.finding = Some(SURPLUS);
        found.reason = Some("no transaction of its producer begins at its first offset");
    }
}
