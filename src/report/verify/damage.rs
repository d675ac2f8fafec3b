//! Bytes of a segment that are no batch.

use super::finding::{Cost, Finding, Readable, Severity};
use super::kind::Kind;
use super::start::Start;
use crate::format::record_batch::HEADER_SIZE_UP_TO_MAGIC;
use crate::log::damage::{Damage, DamageKind};

/// Places of damage that are remembered.
const MAX_DAMAGED: usize = 1000;

/// The offsets of damage and loss so far: state replayed over it is not the broker's, and a marker
/// in it leaves its transaction without an end.
#[derive(Debug, Default)]
pub(super) struct Damaged {
    offsets: Vec<i64>,
    /// Names of the damaged `.log` files without their extension.
    segments: Vec<String>,
}

impl Damaged {
    /// Whether damage may be all there is behind a finding.
    pub(super) fn may_explain(finding: &Finding) -> bool {
        matches!(
            finding.kind,
            Kind::TxnindexEntrySurplus
                | Kind::TxnindexEntryStartsLate
                | Kind::MarkerProbablyCleaned
                | Kind::SnapshotDiffers
        )
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
        if is_damage && self.offsets.len() < MAX_DAMAGED {
            self.offsets.extend(finding.offset);
            self.segments.extend(stem(finding));
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
        Self::may_explain(finding) && self.offsets.iter().any(|it| (first..=last).contains(it))
    }
}

/// The name of a segment's file without its extension.
fn stem(finding: &Finding) -> Option<String> {
    let (stem, _) = finding.file.as_ref()?.split_once('.')?;
    Some(stem.to_owned())
}

/// The finding of a stretch of damage. `next_offset` is the offset expected there.
pub(super) fn of_damage(
    damage: &Damage,
    start: &Start,
    segment: usize,
    file: &str,
    (next_offset, size): (i64, u64),
) -> Finding {
    let is_at_end = damage.position + damage.size_in_bytes == size;
    let is_tail = is_at_end && start.is_last(segment);
    let readable = Readable::from(damage.readable);
    let left = size.saturating_sub(damage.position);
    let records = readable.records_count.and_then(|it| u64::try_from(it).ok());
    let finding = Finding {
        file: Some(file.to_owned()),
        position: Some(damage.position),
        bytes: Some(damage.size_in_bytes),
        offset: readable.base_offset.or(Some(next_offset)),
        last_offset: readable.last_offset,
        producer_id: readable.producer_id.filter(|id| *id >= 0),
        expected: Some("a batch".to_owned()),
        found: Some(damage.to_string()),
        broker_action: start.cut(segment, damage.position, left),
        cost: Cost {
            records,
            ..Cost::default()
        },
        ..Finding::new(
            severity(damage.kind, is_tail, start, segment),
            Kind::of_name(damage.kind.name()),
            damage.to_string(),
        )
    };
    match damage.kind {
        DamageKind::TornTail => Finding {
            torn_bytes: Some(damage.size_in_bytes),
            readable: Some(readable),
            broker_action: format!(
                "a clean start leaves the bytes and writes behind them; {}",
                unclean(start, segment, damage)
            ),
            next_step: is_tail.then(|| {
                "start unclean (without .kafka_cleanshutdown): the broker cuts it off and fetches \
                 what is missing from the leader"
                    .to_owned()
            }),
            ..finding
        },
        DamageKind::ZeroTail => Finding {
            offset: None,
            broker_action: zeros(start, segment, damage),
            ..finding
        },
        DamageKind::BadLength { .. }
        | DamageKind::UnknownMagic { .. }
        | DamageKind::BatchPastEnd { .. } => Finding {
            readable: Some(readable),
            next_step: Some("compare with another replica: kseg diff".to_owned()),
            ..finding
        },
    }
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
    if damage.size_in_bytes <= HEADER_SIZE_UP_TO_MAGIC as u64 {
        return format!("a clean start leaves them and writes behind them; {unclean}");
    }
    let clean = "with .kafka_cleanshutdown the partition does not load (CorruptRecordException) \
                 and the broker stops";
    match start.clean {
        Some(true) => format!("{clean}, as it would here; {unclean}"),
        Some(false) | None => format!("{unclean}; {clean}"),
    }
}
