//! The kinds of findings, each with the invariants it stands for.

use serde::Serialize;

/// Makes [`Kind`] of a list of names; `docs/findings.md` explains them.
macro_rules! kinds {
    ($($variant:ident $name:literal $rules:literal $meaning:literal;)*) => {
        /// What is wrong, or worth a line.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Kind {
            $(#[doc = $meaning] #[serde(rename = $name)] $variant,)*
            /// A batch is not all there, or not what its header says, in a way without a name.
            #[default]
            #[serde(rename = "other")]
            Other,
        }

        impl Kind {
            /// Every kind that is reported.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name in rows.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other => "other",
                }
            }

            /// The invariants of the format description that it stands for.
            #[must_use]
            pub fn rules(self) -> &'static str {
                match self {
                    $(Self::$variant => $rules,)*
                    Self::Other => "",
                }
            }

            /// What it means, in a few words.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                    Self::Other => "",
                }
            }
        }
    };
}

kinds! {
    BadCrc "bad-crc" "L4"
        "the checksum of a batch or message is wrong";
    TornTail "torn-tail" "L1 L2"
        "the last batch is not all there";
    ZeroTail "zero-tail" "L1"
        "zeros behind the last batch, set aside and never written";
    BadLength "bad-length" "L2"
        "a size field too small for any batch";
    BatchPastEnd "batch-past-end" "L1 L2"
        "a size field that points past the end of the file";
    UnknownMagic "unknown-magic" "L3"
        "a magic byte of no known format";
    OffsetBelowBase "offset-below-base" "L5"
        "a batch with an offset below the segment's base offset";
    OffsetOverflow "offset-overflow" "L5"
        "a batch more than 2^31-1 above the segment's base offset";
    OffsetsNotIncreasing "offsets-not-increasing" "L6"
        "a batch at or below offsets that came before";
    SegmentOverlap "segment-overlap" "L8"
        "a segment reaches into the next one";
    SegmentMissing "segment-missing" "L9 S9"
        "offsets whose segment is gone";
    OffsetHole "offset-hole" "L9"
        "offsets in no segment, of which nothing tells that a record was ever there";
    Compacted "compacted" "L7 L9 L11"
        "offsets without records, as the cleaner leaves them";
    BadRecordCount "bad-record-count" "L10"
        "record count and offsets of a batch cannot both be right";
    BadRecords "bad-records" "L12"
        "the records of a batch cannot be read";
    RecordOrder "record-order" "L12"
        "records of a batch out of order or out of its range";
    BadProducerFields "bad-producer-fields" "L13"
        "a producer id without epoch or sequence";
    TransactionWithoutProducer "transaction-without-producer" "L14"
        "a transactional batch without producer id";
    BadMarker "bad-marker" "L15"
        "a control batch that is no end-transaction marker";
    BatchTimestamps "batch-timestamps" "L16"
        "the timestamps of a batch are not those of its records";
    UnknownAttributes "unknown-attributes" "L17"
        "attribute bits or a codec that no Kafka writes";
    LeaderEpochFalls "leader-epoch-falls" "L18"
        "a batch with a lower leader epoch than one before";
    SequenceGap "sequence-gap" "L19"
        "sequences of a producer that were never stored, or stored out of order";
    DuplicateSequence "duplicate-sequence" "L19"
        "the same records of a producer stored twice";
    ProducerEpochRegression "producer-epoch-regression" "L20"
        "a batch with a lower producer epoch than one before";
    CoordinatorEpochRegression "coordinator-epoch-regression" "L20"
        "a marker with a lower coordinator epoch than one before";
    RefusedBatch "refused-batch" "L20 L21"
        "a batch that stops a broker which rebuilds its state";
    SegmentTooLarge "segment-too-large" "L22"
        "a segment of more than 2^31-1 bytes";
    MisplacedControl "misplaced-control" "L23"
        "a control batch in a topic that has none";
    IndexDamaged "index-damaged" "X1 X2 X3 X4 X7 X8 X9"
        "an offset or time index that does not fit its segment";
    IndexNotTrimmed "index-not-trimmed" "X5"
        "an index of full size, as an open segment has it";
    IndexMissing "index-missing" "X15 X9"
        "a segment with data and without an index";
    TimeIndexEmpty "time-index-empty" "X9"
        "a closed segment with an empty time index";
    OrphanIndex "orphan-index" "X14"
        "an index without its segment";
    TxnindexEntryMissing "txnindex-entry-missing" "X10 X13"
        "an aborted transaction that the transaction index does not have";
    TxnindexEntrySurplus "txnindex-entry-surplus" "X10"
        "an entry of the transaction index that the log does not bear out";
    TxnindexEntryStartsLate "txnindex-entry-starts-late" "X10"
        "an entry of the transaction index with too high a first offset";
    TxnindexEntryTorn "txnindex-entry-torn" "X1"
        "a part of an entry at the end of a transaction index";
    TxnindexEntryUnreadable "txnindex-entry-unreadable" "X1"
        "an entry of a transaction index in a version Kafka does not read";
    TxnindexDisorder "txnindex-disorder" "X12"
        "entries of a transaction index out of order or out of the segment";
    TxnindexStableOffset "txnindex-stable-offset" "X11"
        "a last stable offset in a transaction index that cannot be";
    OpenTransaction "open-transaction" "S14"
        "a transaction without an end in this log";
    MarkerMissing "marker-missing" "S15"
        "a transaction that its coordinator completed, without its marker";
    SnapshotOnlyTransaction "snapshot-only-transaction" "S13"
        "an open transaction of which only a snapshot is left";
    MarkerProbablyCleaned "marker-probably-cleaned" "L19"
        "a marker that was cleaned away before its data";
    SnapshotUnreadable "snapshot-unreadable" "S1"
        "a producer snapshot that a broker deletes";
    SnapshotDiffers "snapshot-differs" "S2 S13"
        "a producer snapshot that the log does not bear out";
    StraySnapshot "stray-snapshot" "S3"
        "a producer snapshot that a broker deletes at start";
    SnapshotMissing "snapshot-missing" "S4"
        "no producer snapshot at the end of a cleanly closed log";
    SnapshotEntry "snapshot-entry" "S1 S5"
        "an entry of a producer snapshot that cannot be right";
    LeaderEpochCheckpoint "leader-epoch-checkpoint" "S6 S7"
        "leader-epoch-checkpoint and the batches disagree";
    LeaderEpochPastEnd "leader-epoch-past-end" "S6"
        "lines of leader-epoch-checkpoint behind the log end";
    RecoveryPoint "recovery-point" "S8"
        "a recovery point that is not where it should be";
    LogStartPastEnd "log-start-past-end" "S9"
        "a log start behind the log end: a broker deletes the log";
    HighWatermarkPastEnd "high-watermark-past-end" "S9"
        "a high watermark behind the log end";
    HighWatermarkBelowStart "high-watermark-below-start" "S9"
        "a high watermark below the log start after a clean stop";
    PartitionMetadata "partition-metadata" "S11"
        "partition.metadata is not readable, or not there beside data";
    TopicIdDiffers "topic-id-differs" "S11"
        "a topic id other than the cluster's";
    NotAssigned "not-assigned" "section 15"
        "a replica that the metadata does not have on this broker";
    ReplacedByCopy "replaced-by-copy" "section 15"
        "a replica that a start deletes for a copy in another log directory";
    DuplicatePartition "duplicate-partition" "S12"
        "a partition that is live in two log directories";
    CleanerOffset "cleaner-offset" "S16"
        "a cleaner checkpoint outside the log";
    KraftSnapshot "kraft-snapshot" "S17"
        "a KRaft snapshot that is not complete";
    KraftSnapshotMissing "kraft-snapshot-missing" "S18"
        "a metadata log whose start no KRaft snapshot covers";
    CheckpointUnreadable "checkpoint-unreadable" "S8 S9 S16"
        "a checkpoint file of a log directory that cannot be read";
    BadFileName "bad-file-name" "section 15"
        "a file whose name stops a broker, or is not the one a broker opens";
    NotAFile "not-a-file" "section 15"
        "a link to nothing, a directory, a pipe and so on, with a file's name";
    SwapLoss "swap-loss" "section 15"
        "records that a start removes for a .swap without them";
    InterruptedCleaner "interrupted-cleaner" "section 15"
        "files of a cleaner or split that was interrupted";
    DeletedFile "deleted-file" "section 15"
        "files that wait for their deletion";
    NotLive "not-live" "section 15"
        "a directory that is not the live replica";
    ForeignDirectory "foreign-directory" "section 15"
        "a directory that is no partition";
    EqualRecordsSection "equal-records-section" ""
        "a batch with the records of a batch elsewhere";
}

impl Kind {
    /// The kind of a stretch of bytes that is no batch, by the name [`crate::log::damage`] gives.
    #[must_use]
    pub fn of_name(name: &str) -> Self {
        let named = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        named.unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_kebab_case() {
        let mut names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        for name in &names {
            let is_kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(is_kebab), "{name}");
            assert_eq!(Kind::of_name(name).name(), *name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}
