//! The row that a finding makes.

use serde::Serialize;

use super::finding::{Detail, Finding, OffsetRange};
use crate::log::partition_dir::PartitionDir;

/// One result of `gaps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct GapRow<'a> {
    /// Topic, as the directory's name says; null if that is no partition's name.
    pub topic: Option<&'a str>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// `missing`, `repeated`, `reordered`, `epochRegression` or `offsetGap`.
    pub kind: &'static str,
    /// The likely cause, a short name.
    pub class: &'static str,
    /// Whether records are gone that nobody meant to remove, or will be at the next start.
    pub is_loss: bool,
    /// The producer, where one is concerned.
    pub producer_id: Option<i64>,
    /// Its epoch.
    pub producer_epoch: Option<i16>,
    /// First sequence: missing, or of the batch.
    pub first_sequence: Option<i32>,
    /// Last sequence; null where all from the first on were never stored.
    pub last_sequence: Option<i32>,
    /// First offset: of the gap, or of the batch.
    pub first_offset: Option<i64>,
    /// Last offset.
    pub last_offset: Option<i64>,
    /// The `.log` concerned; of missing sequences that of the batch behind them.
    pub file: Option<String>,
    /// Byte position in it.
    pub position: Option<u64>,
    /// How many records are missing, where that is known.
    pub records: Option<u64>,
    /// The batch that has the records first.
    pub duplicate_of: Option<OffsetRange>,
    /// How many batches of the producer lie between, the first one included.
    pub batches_apart: Option<u64>,
    /// Whether a broker that never stopped still remembered the first one.
    pub inside_window: Option<bool>,
    /// The batch before one whose offsets go back: its position.
    pub previous_position: Option<u64>,
    /// The batch before one whose offsets go back: its last offset.
    pub previous_last_offset: Option<i64>,
    /// `equal` or `other`: the batches at the same offsets compared.
    pub content: Option<&'static str>,
    /// The epoch before one that goes back, or that a client raised.
    pub previous_epoch: Option<i32>,
    /// The epoch that goes back, or the raised one.
    pub found_epoch: Option<i32>,
    /// The file that tells of records which are in no `.log`, or for which a start deletes them;
    /// null where none does.
    pub told_by: Option<String>,
    /// The checkpointed high watermark, of a torn tail at or above it: no client of `acks=all` was
    /// told that these records are stored.
    pub high_watermark: Option<i64>,
    /// The same in words.
    pub message: String,
}

impl<'a> GapRow<'a> {
    /// The row of a finding in `dir`.
    #[must_use]
    pub fn new(finding: &Finding, dir: &'a PartitionDir) -> Self {
        let mut row = Self {
            topic: dir.topic(),
            partition: dir.partition(),
            kind: finding.kind.name(),
            class: finding.class.name(),
            is_loss: finding.is_loss(),
            producer_id: finding.producer.map(|(id, _)| id),
            producer_epoch: finding.producer.map(|(_, epoch)| epoch),
            first_sequence: finding.sequences.map(|(first, _)| first),
            last_sequence: finding.last_sequence(),
            first_offset: finding.first_offset,
            last_offset: finding.last_offset,
            file: finding.segment.and_then(|index| file_name(dir, index)),
            position: finding.position,
            records: finding.records,
            duplicate_of: None,
            batches_apart: None,
            inside_window: None,
            previous_position: None,
            previous_last_offset: None,
            content: None,
            previous_epoch: None,
            found_epoch: None,
            told_by: None,
            high_watermark: None,
            message: finding.message(),
        };
        row.add(finding.detail);
        row
    }

    fn add(&mut self, detail: Detail) {
        match detail {
            Detail::None => {}
            Detail::DuplicateOf {
                earlier,
                batches_apart,
                is_inside_window,
            } => {
                self.duplicate_of = Some(earlier);
                self.batches_apart = batches_apart;
                self.inside_window = is_inside_window;
            }
            Detail::Overlap {
                previous_position,
                previous_last_offset,
                is_equal,
            } => {
                self.previous_position = Some(previous_position);
                self.previous_last_offset = Some(previous_last_offset);
                self.content = is_equal.map(|it| if it { "equal" } else { "other" });
            }
            Detail::LeftOff { previous, found } | Detail::Epochs { previous, found } => {
                self.previous_epoch = Some(previous);
                self.found_epoch = Some(found);
            }
            Detail::AboveHighWatermark(at) => self.high_watermark = Some(at),
            Detail::ToldBy(witness) | Detail::ReplacedBy { swap: witness, .. } => {
                self.told_by = Some(witness.to_string());
            }
        }
    }
}

fn file_name(dir: &PartitionDir, segment: usize) -> Option<String> {
    let log = dir.segments.get(segment)?.log;
    Some(dir.file(log)?.name().into_owned())
}
