//! One segment's batches against its name and its indexes.

use super::finding::{Finding, Severity};
use super::indexes::{Indexed, OffsetIndexCheck, TimeIndexCheck};
use super::kind::Kind;
use super::start::not_loaded;
use crate::format::NO_TIMESTAMP;
use crate::log::batches::{Batch, Entry};

/// What one segment's batches are held against.
pub(super) struct SegmentWalk<'a> {
    pub(super) index: usize,
    pub(super) base: i64,
    pub(super) offsets: Option<OffsetIndexCheck<'a>>,
    pub(super) times: Option<TimeIndexCheck<'a>>,
    /// The first batch outside the segment's offsets, and how many there are.
    pub(super) outside: (Option<Outside>, u64),
    /// The last offset of the batch before.
    pub(super) last_offset: i64,
}

#[derive(Clone, Copy)]
pub(super) struct Outside {
    position: u64,
    offset: i64,
    last_offset: i64,
}

impl SegmentWalk<'_> {
    pub(super) fn entry(&mut self, entry: &Entry<'_>) {
        match entry {
            Entry::Batch(batch) => self.batch(batch),
            Entry::Legacy(entry) => {
                if let Some(times) = &mut self.times {
                    times.has_legacy();
                }
                let indexed = Indexed {
                    position: entry.position,
                    last_offset: entry.header.offset(),
                    max_timestamp: entry.timestamp().unwrap_or(NO_TIMESTAMP),
                };
                self.indexed(indexed, indexed.last_offset);
            }
            Entry::Damage(_) => {}
        }
    }

    #[inline]
    pub(super) fn batch(&mut self, batch: &Batch<'_>) {
        let header = batch.header;
        let indexed = Indexed {
            position: batch.position,
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp(),
        };
        self.indexed(indexed, header.base_offset());
    }

    #[inline]
    fn indexed(&mut self, indexed: Indexed, base_offset: i64) {
        self.last_offset = indexed.last_offset;
        if base_offset < self.base || !self.fits(indexed.last_offset) {
            self.outside.1 += 1;
            self.outside.0.get_or_insert(Outside {
                position: indexed.position,
                offset: base_offset,
                last_offset: indexed.last_offset,
            });
        }
        if let Some(offsets) = &mut self.offsets {
            offsets.take(indexed);
        }
        if let Some(times) = &mut self.times {
            times.take(indexed);
        }
    }

    /// Whether an index entry can name an offset (`LogSegment.canConvertToRelativeOffset`).
    #[inline]
    fn fits(&self, offset: i64) -> bool {
        (0..=i64::from(i32::MAX)).contains(&offset.wrapping_sub(self.base))
    }

    pub(super) fn tell_outside(&self, file: &str, found: &mut Vec<Finding>) {
        let (Some(outside), count) = self.outside else {
            return;
        };
        let is_below = outside.offset < self.base;
        let base = self.base;
        let (kind, expected, action) = if is_below {
            let action =
                "no start looks at it; an unclean one that recovers the segment fails on it"
                    .to_owned();
            (Kind::OffsetBelowBase, format!("from {base} on"), action)
        } else {
            let action = if self.fits(self.last_offset) {
                // `LogSegments.splitOverflowedSegment` looks at the last batch.
                format!(
                    "an unclean start that recovers the segment, or one without .index, cannot \
                     split it, for its last batch is not too far: {}; a clean one does not look",
                    not_loaded(Some("IllegalArgumentException"))
                )
            } else {
                "an unclean start, or one without .index, splits the segment at such batches; a \
                 clean one does not look"
                    .to_owned()
            };
            let largest = base.saturating_add(i64::from(i32::MAX));
            (Kind::OffsetOverflow, format!("at most {largest}"), action)
        };
        let offset = outside.offset;
        found.push(Finding {
            file: Some(file.to_owned()),
            position: Some(outside.position),
            offset: Some(offset),
            base_offset: Some(offset),
            last_offset: Some(outside.last_offset),
            segment_base_offset: Some(base),
            expected: Some(expected),
            found: Some(offset.to_string()),
            count: Some(count),
            broker_action: action,
            ..Finding::new(
                Severity::Corrupt,
                kind,
                format!("offset {offset} does not fit a segment that begins at {base}"),
            )
        });
    }
}

/// The segment before reaches up to or behind `base`.
pub(super) fn overlap(file: &str, base: i64, next_offset: i64) -> Finding {
    Finding {
        file: Some(file.to_owned()),
        position: Some(0),
        offset: Some(base),
        segment_base_offset: Some(base),
        previous_last_offset: next_offset.checked_sub(1),
        overlap: Some((base, next_offset.saturating_sub(1))),
        expected: Some(format!("offsets below {base}")),
        found: Some(format!("offsets up to {}", next_offset.saturating_sub(1))),
        broker_action: "no start looks at it; a fetch is answered from the segment its offset \
                        belongs to by name"
            .to_owned(),
        next_step: Some("compare with another replica: kseg diff".to_owned()),
        ..Finding::new(
            Severity::Corrupt,
            Kind::SegmentOverlap,
            "the segment before reaches into this one",
        )
    }
}
