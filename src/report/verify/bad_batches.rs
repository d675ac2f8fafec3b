//! What follows from believing the header of a batch with a wrong checksum.
//!
//! The folds take each header as it is, for looking at the payloads first would make them wait, and
//! a broker that loads its state does the same. So where a finding is about to be told, it is asked
//! whether such a batch is all there is behind it. The fold of `gaps` looks for itself.

use super::finding::Finding;
use super::kind::Kind;

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

    /// One about a batch: this one, or the next one. What its producer did before and behind it is
    /// told by `gaps`, which does not believe it.
    fn explains_batch(&self, finding: &Finding) -> bool {
        let is_at = |position: Option<u64>| position.is_some() && position == self.position;
        let is_in_file = finding.file.is_some() && finding.file == self.file;
        let kind = finding.kind;
        if kind == Kind::SegmentOverlap {
            let next = self.next_offset.unwrap_or(i64::MAX);
            return !is_in_file && finding.offset.is_some_and(|base| next <= base);
        }
        let is_of_header = matches!(
            kind,
            Kind::RefusedBatch
                | Kind::OffsetOverflow
                | Kind::OffsetBelowBase
                | Kind::LeaderEpochFalls
        );
        is_of_header && is_in_file && is_at(finding.position)
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
}

/// The name of a segment's file without its extension.
fn stem(file: Option<&str>) -> Option<&str> {
    file?.split('.').next()
}
