//! One finding: the row of `verify`.

use serde::Serialize;

use super::kind::Kind;
use crate::log::damage::ReadableFields;
use crate::report::transaction_state::TransactionClass;

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// No Kafka leaves this behind.
    Corrupt,
    /// What a crash leaves, and a broker repairs or takes.
    AfterCrash,
    /// The files are as a broker may leave them; what it means for consumers is worth a line.
    #[default]
    Notable,
}

impl Severity {
    /// The words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::AfterCrash => "after a crash",
            Self::Notable => "notable",
        }
    }

    /// Whether it sets the exit status.
    #[must_use]
    pub fn is_alarm(self) -> bool {
        match self {
            Self::Corrupt | Self::AfterCrash => true,
            Self::Notable => false,
        }
    }
}

/// What is lost, or in question; null where it cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// Records.
    pub records: Option<u64>,
    /// Transactions.
    pub transactions: Option<u64>,
    /// Producers.
    pub producers: Option<u64>,
}

/// Fields of a batch of which only the first bytes are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(
    missing_docs,
    reason = "Kafka's names; null for those that are not there"
)]
pub struct Readable {
    pub base_offset: Option<i64>,
    pub batch_length: Option<i32>,
    pub magic: Option<i8>,
    pub last_offset: Option<i64>,
    pub producer_id: Option<i64>,
    pub producer_epoch: Option<i16>,
    pub base_sequence: Option<i32>,
    pub records_count: Option<i32>,
}

impl From<ReadableFields> for Readable {
    fn from(fields: ReadableFields) -> Self {
        let ReadableFields {
            base_offset,
            batch_length,
            magic,
            last_offset,
            producer_id,
            producer_epoch,
            base_sequence,
            records_count,
        } = fields;
        Self {
            base_offset,
            batch_length,
            magic,
            last_offset,
            producer_id,
            producer_epoch,
            base_sequence,
            records_count,
        }
    }
}

/// What the abort command of an open transaction takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names of the command's options")]
pub struct AbortArguments {
    pub topic: String,
    pub partition: i32,
    pub start_offset: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    /// Of the producer's last marker here; null if there is none.
    pub coordinator_epoch: Option<i32>,
}

/// One result of `verify`. Keys that a kind has nothing to say about are null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is, a short name.
    pub kind: Kind,
    /// Path of the partition or log directory.
    pub path: String,
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: Option<String>,
    /// Byte position in the file.
    pub position: Option<u64>,
    /// Offset it is about: of a batch the base offset.
    pub offset: Option<i64>,
    /// What should be there.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
    /// The finding in a sentence.
    pub message: String,
    /// What Kafka 4.3.1 does about it at a clean and at an unclean start.
    pub broker_action: String,
    /// What to do next.
    pub next_step: Option<String>,
    /// What is lost, or in question.
    pub cost: Cost,
    /// First offset of the batch, as in `offset`.
    pub base_offset: Option<i64>,
    /// First offset: of a transaction, of records stored twice, or of what is missing.
    pub first_offset: Option<i64>,
    /// Last offset: of the batch, the transaction, or what is missing.
    pub last_offset: Option<i64>,
    /// The offset a reader can go on at.
    pub next_offset: Option<i64>,
    /// The producer concerned.
    pub producer_id: Option<i64>,
    /// Its epoch.
    pub producer_epoch: Option<i16>,
    /// First sequence: of the batch, or missing.
    pub base_sequence: Option<i32>,
    /// Last sequence: of the batch, or missing.
    pub last_sequence: Option<i32>,
    /// Records by the batch's header.
    pub records_count: Option<i32>,
    /// The checksum in the file.
    pub crc_stored: Option<u32>,
    /// The checksum of the bytes in the file.
    pub crc_computed: Option<u32>,
    /// Bytes of a batch that is not all there.
    pub torn_bytes: Option<u64>,
    /// Fields of its header that are there.
    pub readable: Option<Readable>,
    /// Bytes concerned: zeros, or no batch.
    pub bytes: Option<u64>,
    /// What is wrong with an index, a snapshot or a checkpoint, a short name.
    pub defect: Option<&'static str>,
    /// The entry of the index, or the line of the checkpoint, from 0.
    pub entry: Option<u64>,
    /// Bytes of the file.
    pub file_size: Option<u64>,
    /// The snapshot a broker takes instead; null if it replays from the log start.
    pub next_older_snapshot: Option<String>,
    /// Bytes of segments a broker reads again for it.
    pub bytes_to_rescan: Option<u64>,
    /// Base offset of the segment.
    pub segment_base_offset: Option<i64>,
    /// Position of the batch before.
    pub previous_position: Option<u64>,
    /// Last offset of the batch before.
    pub previous_last_offset: Option<i64>,
    /// First and last offset that are there twice.
    pub overlap: Option<(i64, i64)>,
    /// `equal` or `other`: the batches at the same offsets compared.
    pub content: Option<&'static str>,
    /// Where the records are for the second time.
    pub duplicate_offset: Option<i64>,
    /// How many batches of the producer lie between, the first one included.
    pub batches_back: Option<u64>,
    /// Whether a broker that never stopped still remembered the first one.
    pub inside_window: Option<bool>,
    /// The last stable offset an entry of the transaction index should have.
    pub last_stable_offset: Option<i64>,
    /// Offsets that consumers see or do not see for it.
    pub exposed_offsets: Option<Vec<(i64, i64)>>,
    /// When the transaction began, in milliseconds.
    pub since_ms: Option<i64>,
    /// What the abort command takes.
    pub abort: Option<AbortArguments>,
    /// The transactional id of the producer; null if no `__transaction_state` at hand names it.
    pub transactional_id: Option<String>,
    /// Of an open transaction: who is going to end it, as in `txns`; null if no
    /// `__transaction_state` is at hand, or the log has gone on since it was read.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub class: Option<TransactionClass>,
    /// First offset of the open transaction in a snapshot.
    pub current_txn_first_offset: Option<i64>,
    /// Where the log starts.
    pub log_start_offset: Option<i64>,
    /// The one offset that is not there.
    pub missing_offset: Option<i64>,
    /// `certain` or `suspected`.
    pub certainty: Option<&'static str>,
    /// Why kseg says so.
    pub reason: Option<&'static str>,
    /// Coordinator epoch of the marker.
    pub coordinator_epoch: Option<i32>,
    /// Coordinator epoch of the producer's marker before it.
    pub previous_coordinator_epoch: Option<i32>,
    /// The partition with the same records.
    pub other_partition: Option<String>,
    /// Where they are there.
    pub other_offset: Option<i64>,
    /// How many of this kind the finding stands for, if more than one.
    pub count: Option<u64>,
    /// What `recover` warns of for it.
    #[serde(skip)]
    pub start_warning: Option<StartWarning>,
}

/// What a start, or what comes after it, costs for something that is there now: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartWarning {
    /// The sentence.
    pub text: String,
    /// Whether it is so after a clean start.
    pub clean: bool,
    /// Whether it is so after an unclean one.
    pub unclean: bool,
}

impl Finding {
    /// A finding of a kind, with the rest to be filled in.
    #[must_use]
    pub fn new(severity: Severity, kind: Kind, message: impl Into<String>) -> Self {
        Self {
            severity,
            kind,
            message: message.into(),
            ..Self::default()
        }
    }

    /// The partition for people: topic and number, or the path.
    #[must_use]
    pub fn partition_name(&self) -> String {
        match (&self.topic, self.partition) {
            (Some(topic), Some(partition)) => format!("{topic}-{partition}"),
            _ => self.path.clone(),
        }
    }
}
