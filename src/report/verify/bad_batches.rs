//! What follows from believing the header of a batch with a wrong checksum.
//!
//! The folds take each header as it is, for looking at the payloads first would make them wait. So
//! where a finding is about to be told, it is asked whether such a batch is all there is behind it.

use super::finding::Finding;
use super::kind::Kind;
use crate::report::gaps::GapClass;

/// A batch with a wrong checksum.
#[derive(Debug)]
pub(super) struct BadBatch {
    file: Option<String>,
    position: Option<u64>,
    offset: i64,
    producer_id: Option<i64>,
    /// The offset behind it, whatever it says of itself.
    next_offset: Option<i64>,
}

impl BadBatch {
    /// The batch that a finding is about.
    pub(super) fn of(finding: &Finding) -> Option<Self> {
        let offset = finding.offset.filter(|_| finding.kind == Kind::BadCrc)?;
        Some(Self {
            file: finding.file.clone(),
            position: finding.position,
            offset,
            producer_id: finding.producer_id,
            next_offset: finding.next_offset,
        })
    }

    /// Whether another finding is what comes of believing this batch.
    pub(super) fn explains(&self, finding: &Finding) -> bool {
        self.explains_batch(finding) || self.explains_index(finding)
    }

    /// One about a batch: this one, the next one, or a later one of its producer.
    fn explains_batch(&self, finding: &Finding) -> bool {
        let is_it = |offset: Option<i64>| offset == Some(self.offset);
        let is_at = |position: Option<u64>| position.is_some() && position == self.position;
        let is_in_file = finding.file.is_some() && finding.file == self.file;
        let kind = finding.kind;
        if kind == Kind::SequenceGap {
            // Behind sequences that nobody wrote all others seem out of order.
            let is_behind = finding.defect == Some(GapClass::OutOfOrderSequence.name());
            return is_it(finding.offset) || is_behind && self.is_before(finding);
        }
        if kind == Kind::DuplicateSequence {
            return is_it(finding.offset) || is_it(finding.first_offset);
        }
        if kind == Kind::SegmentOverlap {
            let next = self.next_offset.unwrap_or(i64::MAX);
            return !is_in_file && finding.offset.is_some_and(|base| next <= base);
        }
        let is_of_state = matches!(
            kind,
            Kind::RefusedBatch | Kind::ProducerEpochRegression | Kind::CoordinatorEpochRegression
        );
        let is_of_header = matches!(
            kind,
            Kind::OffsetOverflow
                | Kind::OffsetBelowBase
                | Kind::LeaderEpochFalls
                | Kind::OffsetsNotIncreasing
        );
        let is_this = is_in_file && is_at(finding.position);
        let is_behind = kind == Kind::OffsetsNotIncreasing && is_at(finding.previous_position);
        (is_of_state || is_of_header) && is_this
            || is_in_file && is_behind
            // What its producer may write next depends on it.
            || is_of_state && self.is_before(finding)
    }

    /// One about an index that the log does not bear out.
    fn explains_index(&self, finding: &Finding) -> bool {
        let offset = Some(self.offset);
        if finding.kind == Kind::TxnindexEntryMissing {
            return finding.producer_id == self.producer_id
                && finding.first_offset <= offset
                && offset <= finding.last_offset;
        }
        if finding.kind == Kind::TxnindexStableOffset {
            // It holds the last stable offset in one of the two.
            let other = finding.expected.as_ref().and_then(|it| it.parse().ok());
            let from = finding.last_stable_offset.min(other);
            return from <= offset && offset <= finding.last_offset;
        }
        // Entries are held against what it says of its time and its end, too.
        let is_of_batches = matches!(
            finding.defect,
            Some("timestamp-differs" | "last-timestamp-differs" | "offset-differs")
        );
        is_of_batches && stem(finding.file.as_deref()) == stem(self.file.as_deref())
    }

    /// Whether a finding is about a later batch of the same producer.
    fn is_before(&self, finding: &Finding) -> bool {
        self.producer_id.is_some()
            && finding.producer_id == self.producer_id
            && finding.offset > Some(self.offset)
    }
}

/// The name of a segment's file without its extension.
fn stem(file: Option<&str>) -> Option<&str> {
    file?.split('.').next()
}
