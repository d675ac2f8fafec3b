//! Bytes of a segment that are no batch.

use super::bad_batches::BadBatch;
use super::batches::FETCHED;
use super::finding::{Cost, Finding, Readable, Severity};
use super::kind::Kind;
use super::resume::Resume;
use super::start::{Start, not_loaded};
use crate::format::record_batch::HEADER_SIZE_UP_TO_MAGIC;
use crate::log::damage::{Damage, DamageKind};
use crate::log::partition_walk::SegmentAt;

/// Places of damage that are remembered.
const MAX_DAMAGED: usize = 1000;

/// The offsets of damage and loss so far: state replayed over it is not the broker's, and a marker
/// in it leaves its transaction without an end.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    offsets: Vec<i64>,
    /// Names of the damaged `.log` files without their extension.
    segments: Vec<String>,
    /// Where an unclean start cuts the log.
    cut: Option<(String, u64)>,
    /// Batches with a wrong checksum.
    bad_batches: Vec<BadBatch>,
}

impl Damaged {
    /// Whether damage may be all there is behind a finding.
    pub(super) fn may_explain(finding: &Finding) -> bool {
        matches!(
            finding.kind,
            Kind::TxnindexEntrySurplus
                | Kind::TxnindexEntryStartsLate
                | Kind::MarkerProbablyCleaned
                | Kind::MarkerMissing
                | Kind::SnapshotDiffers
                | Kind::TxnindexEntryMissing
                | Kind::TxnindexStableOffset
                | Kind::OffsetsNotIncreasing
                | Kind::SegmentOverlap
                | Kind::RefusedBatch
                | Kind::LeaderEpochFalls
        )
    }

    /// What lies behind the place where an unclean start cuts the log is gone after it.
    pub(super) fn behind_cut(
        &mut self,
        finding: Finding,
        recovers: impl Fn(i64) -> bool,
    ) -> Finding {
        let is_batch = finding.kind == Kind::BadCrc;
        let is_damage = matches!(
            finding.kind,
            Kind::TornTail | Kind::BadLength | Kind::BatchPastEnd | Kind::UnknownMagic
        );
        // Of a message inside another one recovery does not compute the checksum.
        let stops_recovery = is_damage || is_batch && finding.crc_computed.is_some();
        if !stops_recovery || !finding.segment_base_offset.is_some_and(recovers) {
            return finding;
        }
        let Some((file, position)) = &self.cut else {
            self.cut = finding.file.clone().zip(finding.position);
            return finding;
        };
        let cut = format!(
            "a clean start does not look; an unclean one has cut the log off before it, at \
             {position} of {file}"
        );
        let broker_action = if is_batch {
            format!("{cut}; {FETCHED}")
        } else {
            cut
        };
        Finding {
            broker_action,
            ..finding
        }
    }

    /// Remembers damage; whether a finding only follows from it.
    pub(super) fn explains(&mut self, finding: &Finding) -> bool {
        let is_damage = matches!(
            finding.kind,
            Kind::BadCrc
                | Kind::TornTail
                | Kind::BadLength
                | Kind::BatchPastEnd
                | Kind::UnknownMagic
                | Kind::SegmentMissing
        );
        // One offset that is in no segment may be that of the marker itself.
        let is_single =
            finding.kind == Kind::SegmentMissing && finding.first_offset == finding.last_offset;
        if is_damage && !is_single && self.offsets.len() < MAX_DAMAGED {
            self.offsets.extend(finding.offset);
            self.segments.extend(stem(finding));
        }
        if self.bad_batches.len() < MAX_DAMAGED {
            self.bad_batches.extend(BadBatch::of(finding));
        }
        if self.bad_batches.iter().any(|it| it.explains(finding)) {
            return true;
        }
        // A wrong size swallows batches that the index names.
        if finding.defect == Some("not-a-batch-start") {
            return stem(finding).is_some_and(|it| self.segments.contains(&it));
        }
        // The marker of the entry, and what lies between, is in its offsets.
        let is_range = finding.kind == Kind::TxnindexEntrySurplus;
        let first = finding
            .first_offset
            .filter(|_| is_range)
            .unwrap_or(i64::MIN);
        let last = finding.last_offset.max(finding.offset).unwrap_or(i64::MAX);
        Self::may_explain(finding)
            && !matches!(
                finding.kind,
                Kind::TxnindexEntryMissing
                    | Kind::TxnindexStableOffset
                    | Kind::OffsetsNotIncreasing
                    | Kind::SegmentOverlap
                    | Kind::RefusedBatch
                    | Kind::LeaderEpochFalls
            )
            && self.offsets.iter().any(|it| (first..=last).contains(it))
    }
}

/// The name of a segment's file without its extension.
fn stem(finding: &Finding) -> Option<String> {
    let (stem, _) = finding.file.as_ref()?.split_once('.')?;
    Some(stem.to_owned())
}

/// The finding of a stretch of damage. `next_offset` is the offset expected there, `behind` what
/// comes next.
pub(super) fn of_damage(
    damage: &Damage,
    start: &Start,
    segment: SegmentAt<'_>,
    next_offset: i64,
    behind: Resume,
) -> Finding {
    let SegmentAt { index, file, .. } = segment;
    let is_at_end = damage.position + damage.size_in_bytes == segment.size_in_bytes;
    let is_tail = is_at_end && start.is_last(index);
    let readable = Readable::from(damage.readable);
    let left = segment.size_in_bytes.saturating_sub(damage.position);
    let records = readable.records_count.and_then(|it| u64::try_from(it).ok());
    let (offset, last_offset) = offsets(&readable, segment.base_offset, next_offset, behind);
    let finding = Finding {
        file: Some(file.to_owned()),
        position: Some(damage.position),
        bytes: Some(damage.size_in_bytes),
        segment_base_offset: Some(segment.base_offset),
        offset: Some(offset),
        last_offset,
        next_offset: behind.offset(),
        producer_id: readable.producer_id.filter(|id| *id >= 0),
        expected: Some("a batch".to_owned()),
        found: Some(damage.to_string()),
        broker_action: start.cut(index, damage.position, left),
        cost: Cost {
            records,
            ..Cost::default()
        },
        ..Finding::new(
            severity(damage.kind, is_tail, start, index),
            Kind::of_name(damage.kind.name()),
            damage.to_string(),
        )
    };
    match damage.kind {
        DamageKind::TornTail => torn(damage, start, index, behind, is_tail, finding),
        DamageKind::ZeroTail => Finding {
            offset: None,
            last_offset: None,
            broker_action: if is_tail {
                zeros(start, index, damage)
            } else {
                finding.broker_action
            },
            ..finding
        },
        DamageKind::BadLength { .. }
        | DamageKind::UnknownMagic { .. }
        | DamageKind::BatchPastEnd { .. } => Finding {
            // Of bytes that are no header nothing can be told.
            cost: Cost::default(),
            producer_id: None,
            readable: Some(readable),
            next_step: Some(format!(
                "compare with another replica: kseg diff; {}",
                Resume::advice(behind.offset())
            )),
            ..finding
        },
    }
}

/// A torn tail. What a broker writes goes into the last segment, and so behind that one's.
fn torn(
    damage: &Damage,
    start: &Start,
    segment: usize,
    behind: Resume,
    is_tail: bool,
    finding: Finding,
) -> Finding {
    let (broker_action, next_step) = if is_tail {
        (
            format!(
                "a clean start leaves the bytes and writes behind them, and nothing written from \
                 then on can be read; {}",
                unclean(start, segment, damage)
            ),
            "start unclean (without .kafka_cleanshutdown): the broker cuts it off and fetches what \
             is missing from the leader"
                .to_owned(),
        )
    } else {
        (
            finding.broker_action,
            format!(
                "take the segment from another replica; {}",
                Resume::advice(behind.offset())
            ),
        )
    };
    Finding {
        torn_bytes: Some(damage.size_in_bytes),
        readable: Some(Readable::from(damage.readable)),
        broker_action,
        next_step: Some(next_step),
        ..finding
    }
}

/// First and last offset that damage takes: up to the next batch, or at the end of the log what is
/// left of the header, if that can be.
fn offsets(
    readable: &Readable,
    base_offset: i64,
    next_offset: i64,
    behind: Resume,
) -> (i64, Option<i64>) {
    if let Some(next) = behind.offset() {
        let last = next.saturating_sub(1);
        return (next_offset, Some(last).filter(|last| *last >= next_offset));
    }
    let largest = base_offset.saturating_add(i64::from(i32::MAX));
    let fits = next_offset..=largest;
    let first = readable.base_offset.filter(|first| fits.contains(first));
    let last = readable.last_offset;
    let last = last.filter(|last| first.is_some_and(|first| (first..=largest).contains(last)));
    (first.unwrap_or(next_offset), last)
}

fn severity(kind: DamageKind, is_tail: bool, start: &Start, segment: usize) -> Severity {
    match kind {
        DamageKind::ZeroTail if is_tail && start.clean != Some(true) => Severity::Notable,
        _ if is_tail => start.severity(segment),
        DamageKind::TornTail | DamageKind::ZeroTail => start.severity(segment),
        DamageKind::BadLength { .. }
        | DamageKind::UnknownMagic { .. }
        | DamageKind::BatchPastEnd { .. } => Severity::Corrupt,
    }
}

fn unclean(start: &Start, segment: usize, damage: &Damage) -> String {
    if start.recovers(segment) {
        format!("an unclean one cuts them off at {}", damage.position)
    } else {
        "an unclean one does so too, below the recovery point".to_owned()
    }
}

/// More zeros than the bytes that have to be there for a header are taken for a batch
/// (`FileLogInputStream.nextBatch`).
fn zeros(start: &Start, segment: usize, damage: &Damage) -> String {
    let unclean = unclean(start, segment, damage);
    if !fails_to_load(damage.size_in_bytes) {
        return format!(
            "a clean start leaves them and writes behind them, and nothing written from then on can \
             be read; {unclean}"
        );
    }
    let clean = not_loaded(Some("CorruptRecordException"));
    let clean = format!("with .kafka_cleanshutdown {clean}");
    match start.clean {
        Some(true) => format!("{clean}, as it would here; {unclean}"),
        Some(false) | None => format!("{unclean}; {clean}"),
    }
}

/// Whether so many zeros at the end of the log stop a clean start, which takes them for a batch
/// (`FileLogInputStream.nextBatch`).
pub(super) fn fails_to_load(zeros: u64) -> bool {
    zeros > HEADER_SIZE_UP_TO_MAGIC as u64
}
