//! Requests that were never made: in scenario form, or as the retry of a batch in the log.

use serde::Deserialize;

use crate::format::control_record::{ControlRecordType, EndTransactionMarker};
use crate::format::record_batch::{Attributes, RecordBatchFields, RecordBatchHeader};
use crate::format::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP};
use crate::log::batches::Entry;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::walk_partition;
use crate::log::{Error, Io};
use crate::report::coordinator_topics::is_written_by_coordinator;
use crate::state::TransactionVersion;

/// Something put to a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A batch of a client or of the group coordinator.
    Append(Append),
    /// A marker of the transaction coordinator.
    EndTxnMarker(EndTxnMarker),
}

/// A batch as it would be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Append {
    /// Producer id, -1 for none.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Sequence of the first record.
    pub base_sequence: i32,
    /// How many records.
    pub count: i32,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
    /// Largest timestamp, -1 if not known.
    pub max_timestamp: i64,
    /// Who sends it.
    pub origin: AppendFrom,
    /// What the transaction coordinator says.
    pub verification: Verification,
    /// The version of the protocol the client speaks; `None` as the command says.
    pub transaction_version: Option<TransactionVersion>,
}

/// Who sends a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppendFrom {
    /// A client.
    #[default]
    Client,
    /// The group coordinator.
    Coordinator,
}

/// What the transaction coordinator says to a transactional batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verification {
    /// It agrees.
    #[default]
    Verified,
    /// It does not.
    Failed,
    /// It was not asked, though it should have been.
    Missing,
    /// The broker does not ask.
    Disabled,
}

/// A marker as it would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTxnMarker {
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Commit or abort, and the coordinator's epoch.
    pub marker: EndTransactionMarker,
    /// Time of the marker, -1 if not known.
    pub timestamp: i64,
    /// The version of the request; `None` as the command says.
    pub transaction_version: Option<TransactionVersion>,
}

impl Request {
    /// Producer id and epoch.
    #[must_use]
    pub fn producer(&self) -> (i64, i16) {
        match self {
            Self::Append(append) => (append.producer_id, append.producer_epoch),
            Self::EndTxnMarker(marker) => (marker.producer_id, marker.producer_epoch),
        }
    }

    /// The marker, if it is one.
    #[must_use]
    pub fn marker(&self) -> Option<EndTransactionMarker> {
        match self {
            Self::Append(_) => None,
            Self::EndTxnMarker(marker) => Some(marker.marker),
        }
    }

    /// The header the batch would have at `base_offset`.
    #[must_use]
    pub fn header(&self, base_offset: i64) -> RecordBatchHeader {
        let none = RecordBatchFields {
            base_offset,
            batch_length: crate::format::record_batch::MIN_BATCH_LENGTH,
            partition_leader_epoch: 0,
            magic: crate::format::record_batch::MAGIC_V2,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: self.producer().0,
            producer_epoch: self.producer().1,
            base_sequence: NO_SEQUENCE,
            records_count: 1,
        };
        let transactional = Attributes::TRANSACTIONAL_FLAG_MASK;
        match self {
            Self::Append(append) => RecordBatchFields {
                attributes: Attributes(if append.is_transactional {
                    transactional
                } else {
                    0
                }),
                last_offset_delta: append.count.saturating_sub(1),
                max_timestamp: append.max_timestamp,
                base_sequence: append.base_sequence,
                records_count: append.count,
                ..none
            },
            Self::EndTxnMarker(marker) => RecordBatchFields {
                attributes: Attributes(transactional | Attributes::CONTROL_FLAG_MASK),
                max_timestamp: marker.timestamp,
                ..none
            },
        }
        .into()
    }
}

/// A step of a scenario, as far as `replay` takes it: unknown fields are an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Step {
    Append(AppendStep),
    EndTxnMarker(MarkerStep),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AppendStep {
    producer_id: Option<i64>,
    producer_epoch: Option<i16>,
    base_sequence: Option<i32>,
    #[serde(default)]
    is_transactional: bool,
    #[serde(rename = "compression")]
    _compression: Option<serde::de::IgnoredAny>,
    records: Vec<RecordStep>,
    #[serde(rename = "encodedRecords")]
    _encoded_records: Option<serde::de::IgnoredAny>,
    #[serde(rename = "partitionLeaderEpoch")]
    _partition_leader_epoch: Option<i32>,
    #[serde(default)]
    origin: AppendFrom,
    #[serde(default)]
    verification: Verification,
    transaction_version: Option<i16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordStep {
    timestamp: Option<i64>,
    #[serde(rename = "key")]
    _key: Option<serde::de::IgnoredAny>,
    #[serde(rename = "value")]
    _value: Option<serde::de::IgnoredAny>,
    #[serde(rename = "headers")]
    _headers: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MarkerStep {
    producer_id: i64,
    #[serde(default)]
    producer_epoch: i16,
    control_type: ControlType,
    #[serde(default)]
    coordinator_epoch: i32,
    timestamp: Option<i64>,
    #[serde(rename = "partitionLeaderEpoch")]
    _partition_leader_epoch: Option<i32>,
    transaction_version: Option<i16>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum ControlType {
    Commit,
    Abort,
}

/// A JSON array of scenario steps, `append` and `endTxnMarker`. Damaged batches (`fault`) are
/// refused before producers are looked at, and are not taken here.
///
/// # Errors
/// What is wrong with the text and where.
pub fn parse_requests(text: &[u8]) -> Result<Vec<Request>, String> {
    let steps: Vec<Step> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let mut requests = Vec::with_capacity(steps.len());
    for (index, step) in steps.into_iter().enumerate() {
        requests.push(match step {
            Step::Append(step) => {
                if step.records.is_empty() {
                    return Err(format!("step {index}: append has no records"));
                }
                Request::Append(step.into())
            }
            Step::EndTxnMarker(step) => Request::EndTxnMarker(step.into()),
        });
    }
    Ok(requests)
}

impl From<AppendStep> for Append {
    fn from(step: AppendStep) -> Self {
        let times = step.records.iter().map(|record| record.timestamp);
        Self {
            producer_id: step.producer_id.unwrap_or(NO_PRODUCER_ID),
            producer_epoch: step.producer_epoch.unwrap_or(NO_PRODUCER_EPOCH),
            base_sequence: step.base_sequence.unwrap_or(NO_SEQUENCE),
            count: i32::try_from(step.records.len()).unwrap_or(i32::MAX),
            is_transactional: step.is_transactional,
            max_timestamp: times.flatten().max().unwrap_or(NO_TIMESTAMP),
            origin: step.origin,
            verification: step.verification,
            transaction_version: step.transaction_version.map(TransactionVersion),
        }
    }
}

impl From<MarkerStep> for EndTxnMarker {
    fn from(step: MarkerStep) -> Self {
        Self {
            producer_id: step.producer_id,
            producer_epoch: step.producer_epoch,
            marker: EndTransactionMarker {
                control_type: match step.control_type {
                    ControlType::Commit => ControlRecordType::COMMIT,
                    ControlType::Abort => ControlRecordType::ABORT,
                },
                coordinator_epoch: step.coordinator_epoch,
            },
            timestamp: step.timestamp.unwrap_or(NO_TIMESTAMP),
            transaction_version: step.transaction_version.map(TransactionVersion),
        }
    }
}

/// The batch that holds `offset`, sent again; `None` if there is none, or it is not of a producer.
///
/// # Errors
/// If a segment cannot be read.
pub fn retry(dir: &PartitionDir, io: Io, offset: i64) -> Result<Option<Request>, Error> {
    let after = dir
        .segments
        .partition_point(|segment| segment.base_offset <= offset);
    let origin = if is_written_by_coordinator(dir.topic()) {
        AppendFrom::Coordinator
    } else {
        AppendFrom::Client
    };
    let mut found = None;
    walk_partition(dir, io, after.saturating_sub(1), |_, entry| {
        let Entry::Batch(batch) = entry else {
            return Ok::<_, Error>(std::ops::ControlFlow::Continue(()));
        };
        let header = batch.header;
        if header.last_offset() < offset {
            return Ok(std::ops::ControlFlow::Continue(()));
        }
        if header.base_offset() <= offset
            && header.has_producer_id()
            && !header.attributes().is_control()
        {
            found = Some(Request::Append(Append {
                producer_id: header.producer_id(),
                producer_epoch: header.producer_epoch(),
                base_sequence: header.base_sequence(),
                count: header.last_offset_delta().saturating_add(1),
                is_transactional: header.attributes().is_transactional(),
                max_timestamp: header.max_timestamp(),
                origin,
                verification: Verification::Verified,
                transaction_version: None,
            }));
        }
        Ok(std::ops::ControlFlow::Break(()))
    })?;
    Ok(found)
}
