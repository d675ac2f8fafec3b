//! What one side has alone: offset ranges and producers, with exact sums.

use std::collections::BTreeMap;

use serde::Serialize;

use super::facts::{BatchPlaceRow, Span};
use super::kind::DiffKind;

/// Ranges and producers that are listed; more are only counted.
const MAX_LISTED: usize = 1000;

/// Offsets that one side has and the other has not, or not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AloneRange {
    /// First offset.
    pub first_offset: i64,
    /// Last offset.
    pub last_offset: i64,
    /// Why the other side has not the same.
    pub kind: DiffKind,
    /// Batches that have an offset in the range.
    pub batches: u64,
    /// Records that the other side has not, or not the same, control records too.
    pub records: u64,
    /// Bytes of those batches.
    pub size_in_bytes: u64,
}

/// What of one producer is on one side alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AloneProducer {
    /// The producer; null for batches without one.
    pub producer_id: Option<i64>,
    /// Its epoch in the last of them.
    pub producer_epoch: Option<i16>,
    /// First offset.
    pub first_offset: i64,
    /// Last offset.
    pub last_offset: i64,
    /// Batches.
    pub batches: u64,
    /// Records.
    pub records: u64,
    /// Bytes of the batches.
    pub size_in_bytes: u64,
}

/// What one side has alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Alone {
    /// Batches.
    pub batches: u64,
    /// Records, control records too.
    pub records: u64,
    /// Records of them that the other side should have: not those that its cleaner took.
    pub lost_records: u64,
    /// Records of those in batches that can be read, and that lie nowhere else in the log: they go
    /// with this side.
    pub readable_records: u64,
    /// Bytes of the batches.
    pub size_in_bytes: u64,
    /// The first thousand offset ranges.
    pub ranges: Vec<AloneRange>,
    /// Ranges behind those that are listed.
    pub ranges_not_listed: u64,
    /// The producers of these batches, a thousand at most, by id.
    pub producers: Vec<AloneProducer>,
    /// Batches of producers that are not listed.
    pub batches_of_producers_not_listed: u64,
}

/// Adds up what one side has alone.
#[derive(Debug, Default)]
pub(super) struct AloneFold {
    sums: Alone,
    producers: BTreeMap<Option<i64>, AloneProducer>,
    /// The range added last, whether it is listed or not.
    last: Option<(DiffKind, i64)>,
    last_batch: Option<i64>,
}

impl AloneFold {
    /// A batch, or the part of it in `span`, with so many records; whether they can be read here
    /// and nowhere else.
    pub(super) fn add(
        &mut self,
        place: &BatchPlaceRow,
        span: Span,
        kind: DiffKind,
        records: u64,
        is_readable: bool,
    ) {
        let is_new_batch = self.last_batch.replace(place.base_offset) != Some(place.base_offset);
        let (batches, size_in_bytes) = if is_new_batch {
            (1, place.size_in_bytes)
        } else {
            (0, 0)
        };
        self.sums.batches += batches;
        self.sums.records += records;
        self.sums.size_in_bytes += size_in_bytes;
        if kind.is_loss() {
            self.sums.lost_records += records;
            if is_readable {
                self.sums.readable_records += records;
            }
        }
        let is_adjacent = self.last.is_some_and(|(before, last)| {
            before == kind && last.checked_add(1) == Some(span.first)
        });
        self.last = Some((kind, span.last));
        if !is_adjacent {
            self.new_range(span, kind);
        }
        if self.sums.ranges_not_listed == 0
            && let Some(range) = self.sums.ranges.last_mut()
        {
            range.last_offset = range.last_offset.max(span.last);
            range.records += records;
            if is_new_batch || !is_adjacent {
                range.batches += 1;
                range.size_in_bytes += place.size_in_bytes;
            }
        }
        self.add_producer(place, span, records, batches, size_in_bytes);
    }

    fn new_range(&mut self, span: Span, kind: DiffKind) {
        if self.sums.ranges.len() >= MAX_LISTED {
            self.sums.ranges_not_listed += 1;
            return;
        }
        self.sums.ranges.push(AloneRange {
            first_offset: span.first,
            last_offset: span.last,
            kind,
            batches: 0,
            records: 0,
            size_in_bytes: 0,
        });
    }

    fn add_producer(
        &mut self,
        place: &BatchPlaceRow,
        span: Span,
        records: u64,
        batches: u64,
        size_in_bytes: u64,
    ) {
        let is_full = self.producers.len() >= MAX_LISTED;
        if is_full && !self.producers.contains_key(&place.producer_id) {
            self.sums.batches_of_producers_not_listed += batches;
            return;
        }
        let producer = self
            .producers
            .entry(place.producer_id)
            .or_insert_with(|| AloneProducer {
                producer_id: place.producer_id,
                producer_epoch: place.producer_epoch,
                first_offset: span.first,
                last_offset: span.last,
                batches: 0,
                records: 0,
                size_in_bytes: 0,
            });
        producer.producer_epoch = place.producer_epoch;
        producer.last_offset = span.last;
        producer.batches += batches;
        producer.records += records;
        producer.size_in_bytes += size_in_bytes;
    }

    pub(super) fn finish(self) -> Alone {
        Alone {
            producers: self.producers.into_values().collect(),
            ..self.sums
        }
    }
}
