//! What `gaps` finds, as findings of `verify`.

use super::finding::{Cost, Finding, Severity};
use super::kind::Kind;
use super::lost_logs::next_step;
use crate::log::partition_dir::PartitionDir;
use crate::report::gaps::{self, Detail, GapClass, GapKind};

/// Offsets without records that are no loss, counted: a compacted log may have millions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compaction {
    places: u64,
    offsets: u64,
    first: Option<i64>,
    last: Option<i64>,
}

impl Compaction {
    pub(super) fn is_seen(self) -> bool {
        self.places > 0
    }

    fn add(&mut self, finding: &gaps::Finding) {
        let (first, last) = (finding.first_offset, finding.last_offset);
        let whole = first
            .zip(last)
            .and_then(|(first, last)| u64::try_from(last.saturating_sub(first)).ok())
            .map_or(0, |span| span.saturating_add(1));
        self.places += 1;
        self.offsets = self
            .offsets
            .saturating_add(finding.records.unwrap_or(whole));
        self.first = self.first.or(first);
        self.last = last.or(self.last);
    }

    /// One finding for all of it.
    pub(super) fn finding(self) -> Option<Finding> {
        let places = self.places;
        let s = if places == 1 { "" } else { "s" };
        let offsets = self.offsets;
        let offset_s = if offsets == 1 { "" } else { "s" };
        self.is_seen().then(|| Finding {
            first_offset: self.first,
            last_offset: self.last,
            count: Some(places),
            broker_action: "none: normal after compaction; kseg gaps --all lists them".to_owned(),
            ..Finding::new(
                Severity::Notable,
                Kind::Compacted,
                format!("{offsets} offset{offset_s} without records in {places} place{s}"),
            )
        })
    }
}

/// The finding, unless it is told by another rule or only counted.
pub(super) fn of_gap(
    finding: &gaps::Finding,
    dir: &PartitionDir,
    compaction: &mut Compaction,
) -> Option<Finding> {
    match finding.kind {
        GapKind::OffsetGap => of_offset_gap(finding, dir, compaction),
        GapKind::Missing => {
            // Compaction and retention take sequences with the offsets, as loss does.
            let is_told = matches!(
                finding.class,
                GapClass::NeverStored | GapClass::ExpiredOrLostState
            );
            is_told.then(|| of_batch(finding, dir, Severity::Notable, Kind::SequenceGap))
        }
        GapKind::Reordered => Some(of_batch(finding, dir, Severity::Notable, Kind::SequenceGap)),
        GapKind::Repeated if finding.class == GapClass::OffsetsNotIncreasing => {
            Some(of_overlap(finding, dir))
        }
        GapKind::Repeated => Some(of_repeat(finding, dir)),
        GapKind::EpochRegression => Some(of_regression(finding, dir)),
    }
}

fn of_offset_gap(
    finding: &gaps::Finding,
    dir: &PartitionDir,
    compaction: &mut Compaction,
) -> Option<Finding> {
    if matches!(
        finding.class,
        GapClass::CompactedBetweenBatches | GapClass::CompactedInsideBatch | GapClass::EmptyBatch
    ) {
        compaction.add(finding);
    }
    if finding.class == GapClass::OffsetHole {
        return Some(offset_hole(finding));
    }
    let is_here = |base: i64| {
        let mut bases = dir.segments.iter().map(|it| it.base_offset);
        bases.any(|it| it == base)
    };
    let is_here = finding.first_offset.is_some_and(is_here);
    let message = if !is_here {
        "a segment is missing: these offsets are in no file in use".to_owned()
    } else if let Detail::ToldBy(file) = finding.detail {
        format!("the .log of a segment is empty, and {file} tells that it was not")
    } else {
        "the .log of a segment is empty, and its indexes are gone: no cleaner leaves it so"
            .to_owned()
    };
    (finding.class == GapClass::SegmentMissing).then(|| Finding {
        offset: finding.first_offset,
        first_offset: finding.first_offset,
        last_offset: finding.last_offset,
        next_offset: finding.last_offset.and_then(|last| last.checked_add(1)),
        expected: Some("a segment".to_owned()),
        found: Some("none".to_owned()),
        cost: Cost {
            records: finding.records,
            ..Cost::default()
        },
        broker_action: "no start notices: a broker goes on behind the hole, and so do consumers"
            .to_owned(),
        next_step: finding
            .first_offset
            .zip(finding.last_offset)
            .map(|(first, last)| next_step(dir, first, last)),
        ..Finding::new(Severity::Corrupt, Kind::SegmentMissing, message)
    })
}

fn offset_hole(finding: &gaps::Finding) -> Finding {
    Finding {
        offset: finding.first_offset,
        first_offset: finding.first_offset,
        last_offset: finding.last_offset,
        next_offset: finding.last_offset.and_then(|last| last.checked_add(1)),
        broker_action: "none: a broker goes on behind the hole, and so do consumers".to_owned(),
        next_step: Some(
            "kseg diff with another replica tells whether it has records there".to_owned(),
        ),
        ..Finding::new(
            Severity::Notable,
            Kind::OffsetHole,
            "no segment has these offsets, and no producer misses anything there: markers that the \
             cleaner took, or what was a hole in a segment that was split"
                .to_owned(),
        )
    }
}

fn of_batch(
    finding: &gaps::Finding,
    dir: &PartitionDir,
    severity: Severity,
    kind: Kind,
) -> Finding {
    let file = finding.segment.and_then(|it| dir.segments.get(it));
    let file = file.and_then(|segment| dir.file(segment.log));
    Finding {
        file: file.map(|file| file.name().into_owned()),
        position: finding.position,
        offset: finding.first_offset,
        base_offset: finding.first_offset,
        last_offset: finding.last_offset,
        producer_id: finding.producer.map(|(id, _)| id),
        producer_epoch: finding.producer.map(|(_, epoch)| epoch),
        base_sequence: finding.sequences.map(|(first, _)| first),
        last_sequence: finding.sequences.map(|(_, last)| last),
        defect: Some(finding.class.name()),
        cost: Cost {
            producers: Some(1),
            ..Cost::default()
        },
        broker_action: "a leader that knew the producer would have refused the batch; no start \
                        looks at it"
            .to_owned(),
        ..Finding::new(severity, kind, sentence(finding))
    }
}

/// The words of `gaps`, with the sequences it leaves to its columns.
fn sentence(finding: &gaps::Finding) -> String {
    let message = finding.message();
    match finding.sequences {
        Some((first, last)) => {
            let range = gaps::range(first, last);
            format!("sequences {range}: {message}")
        }
        None => message,
    }
}

fn of_repeat(finding: &gaps::Finding, dir: &PartitionDir) -> Finding {
    // The files are sound: a leader without the producer's state takes what it has already.
    let mut row = of_batch(finding, dir, Severity::Notable, Kind::DuplicateSequence);
    row.duplicate_offset = finding.first_offset;
    if let Detail::DuplicateOf {
        earlier,
        batches_apart,
        is_inside_window,
    } = finding.detail
    {
        row.first_offset = Some(earlier.first_offset);
        row.batches_back = batches_apart;
        row.inside_window = is_inside_window;
    }
    let count = finding
        .sequences
        .and_then(|(first, last)| u64::try_from(i64::from(last) - i64::from(first) + 1).ok());
    row.cost.records = count;
    let leader = match (finding.class, row.inside_window) {
        (GapClass::StoredAgainUnderNewEpoch, _) => "a leader takes what comes under a new epoch",
        (_, Some(true)) => {
            "a leader that remembered the batch would have answered with its first offsets and \
             stored nothing"
        }
        (_, Some(false) | None) => "a leader that knew the producer would have refused the batch",
    };
    row.broker_action = format!("{leader}; no start looks at it");
    row.next_step =
        Some("consumers get the records twice: take them out by key or offset".to_owned());
    row
}

fn of_overlap(finding: &gaps::Finding, dir: &PartitionDir) -> Finding {
    let mut row = of_batch(finding, dir, Severity::Corrupt, Kind::OffsetsNotIncreasing);
    row.defect = None;
    row.cost = Cost::default();
    row.overlap = finding.first_offset.zip(finding.last_offset);
    if let Detail::Overlap {
        previous_position,
        previous_last_offset,
        is_equal,
    } = finding.detail
    {
        row.previous_position = Some(previous_position);
        row.previous_last_offset = Some(previous_last_offset);
        row.content = is_equal.map(|is_equal| if is_equal { "equal" } else { "other" });
        row.expected = Some(format!("an offset above {previous_last_offset}"));
        row.found = finding.first_offset.map(|first| first.to_string());
    }
    row.broker_action = "no start looks at it; an unclean one that recovers the segment may lose \
                         it whole if its index entries do not rise"
        .to_owned();
    row.next_step = Some("compare with another replica: kseg diff".to_owned());
    row
}

fn of_regression(finding: &gaps::Finding, dir: &PartitionDir) -> Finding {
    let is_coordinator = finding.class == GapClass::CoordinatorEpochRegression;
    let kind = if is_coordinator {
        Kind::CoordinatorEpochRegression
    } else {
        Kind::ProducerEpochRegression
    };
    let mut row = of_batch(finding, dir, Severity::Notable, kind);
    row.defect = None;
    if let Detail::Epochs { previous, found } = finding.detail {
        row.expected = Some(format!("at least {previous}"));
        row.found = Some(found.to_string());
        if is_coordinator {
            row.coordinator_epoch = Some(found);
            row.previous_coordinator_epoch = Some(previous);
        }
    }
    row.broker_action = "a leader refuses it; replication and recovery take it".to_owned();
    row
}
