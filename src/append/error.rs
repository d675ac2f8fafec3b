//! Why the log did not do what it was asked to.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::control_record::EndTransactionMarker;
use crate::format::file_name::LogFileName;
use crate::format::record_batch_builder::BuildError;
use crate::log;
use crate::log::odd_entry::{NO_EXCEPTION, Odd, OddEffect};
use crate::state::{KafkaError, Refusal};

/// A request the log refused, or files it could not work with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rule about producers, transactions or offsets.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A rule about the batch itself, the segment or the index.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Files that the broker does not start with.
    #[error(transparent)]
    Load(Box<LoadError>),
    /// The log was killed, and takes nothing more (`LocalLog.checkIfMemoryMappedBufferClosed`).
    #[error("the log is closed: it was killed, and has not been opened again since")]
    Closed,
    /// The files could not be read or written. The log is of no use afterwards.
    #[error(transparent)]
    Files(#[from] log::Error),
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        Self::Load(Box::new(error))
    }
}

impl Error {
    /// What stops a broker as it loads the files, if it is that.
    #[must_use]
    pub fn load_error(&self) -> Option<&LoadError> {
        match self {
            Self::Load(error) => Some(error),
            Self::Refused(_) | Self::Rejected(_) | Self::Closed | Self::Files(_) => None,
        }
    }

    /// An I/O error on `path`.
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        Self::Files(log::Error::io(path, source))
    }

    /// The error code a client sees; `None` if the files failed.
    #[must_use]
    pub fn kafka_error(&self) -> Option<KafkaError> {
        match self {
            Self::Refused(refusal) => Some(refusal.error()),
            Self::Rejected(rejection) => Some(rejection.error()),
            Self::Closed => Some(KafkaError::KAFKA_STORAGE_ERROR),
            Self::Load(_) | Self::Files(_) => None,
        }
    }

    /// Simple name of the exception Kafka throws.
    #[must_use]
    pub fn exception(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.exception(),
            Self::Rejected(rejection) => rejection.exception(),
            Self::Load(error) => error.exception(),
            Self::Closed | Self::Files(_) => "KafkaStorageException",
        }
    }
}

/// What a broker finds in the files as it loads them that stops it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Bytes that are no batch, met outside recovery (`FileLogInputStream.nextBatch`).
    #[error(
        "{}: record size at position {position} is {size}, below the minimum of 14",
        path.display()
    )]
    CorruptRecord {
        /// The `.log`.
        path: PathBuf,
        /// Where the batch would begin.
        position: u64,
        /// Its size field.
        size: i32,
    },
    /// A batch at the end of the file that is too small for its header.
    #[error("{}: header of the batch at position {position} is cut off", path.display())]
    UnreadableHeader {
        /// The `.log`.
        path: PathBuf,
        /// Where it begins.
        position: u64,
    },
    /// The first record of a control batch does not parse, met outside recovery
    /// (`EndTransactionMarker.deserialize`).
    #[error("{}: marker at position {position} is not readable: {source}", path.display())]
    Marker {
        /// The `.log`.
        path: PathBuf,
        /// Where its batch begins.
        position: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// Records that a broker looks at and that cannot be read.
    #[error(
        "{}: records of the batch at position {position} are not readable: {source}",
        path.display()
    )]
    Records {
        /// The `.log`.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// What is wrong with them.
        source: DecodeError,
        /// Simple name of the exception.
        exception: &'static str,
    },
    /// A control record of a producer that ends no transaction
    /// (`EndTransactionMarker.ensureTransactionMarkerControlType`).
    #[error(
        "{}: control record at position {position} is neither COMMIT nor ABORT",
        path.display()
    )]
    NotAMarker {
        /// The `.log`.
        path: PathBuf,
        /// Where its batch begins.
        position: u64,
    },
    /// A name with a suffix of Kafka's and no number (`LogFileUtils.offsetFromFileName`).
    #[error("{}: the name has no offset", path.display())]
    FileName {
        /// The file.
        path: PathBuf,
    },
    /// A name that a file should have and something else has.
    #[error("{}: {what}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: Odd,
    },
    /// A line of `leader-epoch-checkpoint` with a word that is no number.
    #[error("{}: {source}", path.display())]
    CheckpointNumber {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A `partition.metadata` that is cut off, or whose id is none.
    #[error("{}: {source}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DecodeError,
        /// Simple name of the exception.
        exception: &'static str,
    },
    /// An index that holds more than `segment.index.bytes` (`AbstractIndex.resize`).
    #[error("{}: {entries} bytes of entries do not fit segment.index.bytes, {max}", path.display())]
    IndexTooLarge {
        /// The index.
        path: PathBuf,
        /// Bytes of its entries, zeros too.
        entries: u64,
        /// The size it is to have.
        max: u64,
    },
    /// An index of 2 GiB or more, which cannot be mapped (`AbstractIndex.createMappedBuffer`,
    /// `FileChannel.map`).
    #[error("{}: {size} bytes, more than can be mapped of an index", path.display())]
    IndexNotMapped {
        /// The index.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// A segment of 2 GiB or more (`FileRecords`).
    #[error("{}: {size} bytes, more than a segment may have", path.display())]
    SegmentTooLarge {
        /// The `.log`.
        path: PathBuf,
        /// Its size.
        size: u64,
    },
    /// A row of a newer version (`TransactionIndex.iterable`).
    #[error("{}: {source}", path.display())]
    TransactionIndexVersion {
        /// The `.txnindex`.
        path: PathBuf,
        /// Which version.
        source: DecodeError,
    },
    /// A segment with a batch that is too far from its base offset, which the last one is not
    /// (`LocalLog.splitOverflowedSegment`).
    #[error(
        "{}: offset {offset} is too far from the base offset, yet the last batch is not: the \
         segment cannot be split", path.display()
    )]
    NotSplit {
        /// The `.log`.
        path: PathBuf,
        /// The offset.
        offset: i64,
    },
    /// A segment that is to be split has bytes that are no batch
    /// (`LocalLog.splitOverflowedSegment`).
    #[error("{}: cannot be split: no batch at position {position}", path.display())]
    SplitEnd {
        /// The `.log`.
        path: PathBuf,
        /// Where.
        position: u64,
    },
    /// Splitting a segment leaves one that is to be split again, for ever.
    #[error("{}: the broker splits the segment over and over", path.display())]
    SplitForEver {
        /// The `.log`.
        path: PathBuf,
    },
    /// A metadata log that the quorum's snapshots do not belong to
    /// (`KafkaRaftLog.createLog`).
    #[error("log start {log_start_offset} is above 0 and no snapshot is at or above it")]
    NoSnapshot {
        /// The log start offset.
        log_start_offset: i64,
    },
}

impl LoadError {
    /// Simple name of the exception Kafka throws; `none` where loading waits and comes to no end.
    #[must_use]
    pub fn exception(&self) -> &'static str {
        match self {
            Self::CorruptRecord { .. } => "CorruptRecordException",
            Self::NotAFile { path, what } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                match what.effect(&LogFileName::parse(&name)) {
                    OddEffect::WaitsToLoad | OddEffect::WaitsInUse => NO_EXCEPTION,
                    OddEffect::PassedOver | OddEffect::FailsToLoad | OddEffect::FailsInUse => {
                        "KafkaStorageException"
                    }
                }
            }
            Self::UnreadableHeader { .. }
            | Self::SegmentTooLarge { .. }
            | Self::TransactionIndexVersion { .. } => "KafkaException",
            Self::Marker { source, .. } => {
                EndTransactionMarker::uncaught(source).unwrap_or("InvalidRecordException")
            }
            Self::CheckpointNumber { .. } => "NumberFormatException",
            Self::Metadata { exception, .. } | Self::Records { exception, .. } => exception,
            Self::NotAMarker { .. }
            | Self::NotSplit { .. }
            | Self::IndexTooLarge { .. }
            | Self::IndexNotMapped { .. } => "IllegalArgumentException",
            Self::FileName { path } => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.contains('.') {
                    "NumberFormatException"
                } else {
                    "StringIndexOutOfBoundsException"
                }
            }
            Self::SplitEnd { .. } => "NoSuchElementException",
            Self::SplitForEver { .. } | Self::NoSnapshot { .. } => "IllegalStateException",
        }
    }
}

/// Why a batch or a request was rejected, apart from the rules of [`crate::state`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A client counts from 0 (`UnifiedLog.analyzeAndValidateRecords`).
    #[error("base offset is {0}, expected 0")]
    BaseOffset(i64),
    /// Above `max.message.bytes` (`UnifiedLog.analyzeAndValidateRecords`, `UnifiedLog.append`).
    #[error("batch has {size} bytes, above max.message.bytes {max}")]
    BatchTooLarge {
        /// Bytes of the batch.
        size: u64,
        /// `max.message.bytes`.
        max: i32,
    },
    /// The checksum is wrong, or the length cannot be right (`DefaultRecordBatch.isValid`,
    /// `ByteBufferLogInputStream.nextBatchSize`).
    #[error("batch is corrupt: crc {stored:#010x}, computed {computed:#010x}")]
    Corrupt {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The bytes are no batch at all (`ByteBufferLogInputStream.nextBatchSize`).
    #[error("batch header is corrupt: {0}")]
    CorruptHeader(DecodeError),
    /// Magic 0 and 1, which no client of Kafka 4 can send and this log does not write.
    #[error("magic {0} is not supported, expected 2")]
    Magic(i8),
    /// A produce request carries exactly one batch a partition (`LogValidator`).
    #[error("append has {0} batches, expected 1")]
    BatchCount(usize),
    /// Last offset below the first (`LogValidator.validateBatch`).
    #[error("lastOffsetDelta is {0}, below 0")]
    OffsetRange(i32),
    /// A client sends records (`LogValidator.validateBatch`).
    #[error("recordsCount is {0}, below 1")]
    RecordsCount(i32),
    /// Offset range and count disagree (`LogValidator.validateBatch`).
    #[error("recordsCount is {count}, the offsets are {from_offsets}")]
    CountMismatch {
        /// The header's count.
        count: i32,
        /// lastOffsetDelta + 1.
        from_offsets: i64,
    },
    /// Clients may not write control records (`LogValidator.validateBatch`).
    #[error("client wrote a control batch")]
    ControlBatch,
    /// A producer has sequences (`LogValidator.validateBatch`).
    #[error("base sequence is {0}, below 0")]
    BaseSequence(i32),
    /// The records do not parse (`DefaultRecord.readFrom`).
    #[error("records are not readable: {0}")]
    Records(DecodeError),
    /// A record's time is too far from the clock (`LogValidator.validateTimestamp`).
    #[error("{0} records have a timestamp out of range or of the wrong type")]
    Timestamps(usize),
    /// A compacted topic needs keys (`LogValidator.validateKey`).
    #[error("{0} records have no key in a compacted topic")]
    Keys(usize),
    /// The batch could not be built anew (`MemoryRecordsBuilder`).
    #[error("batch cannot be built: {0}")]
    Build(#[from] BuildError),
    /// `LeaderEpochFileCache.assign`.
    #[error("leader epoch {epoch} with start offset {start_offset} is not valid")]
    LeaderEpoch {
        /// The epoch.
        epoch: i32,
        /// Its first offset.
        start_offset: i64,
    },
    /// Above `segment.bytes` (`UnifiedLog.append`).
    #[error("append has {size} bytes, above segment.bytes {max}")]
    AppendTooLarge {
        /// Bytes of all batches.
        size: u64,
        /// `segment.bytes`.
        max: i32,
    },
    /// A follower got what it has already (`UnifiedLog.append`).
    #[error("first offset {first_offset} is below the log end offset {log_end_offset}")]
    UnexpectedAppendOffset {
        /// First offset of the append.
        first_offset: i64,
        /// The log end.
        log_end_offset: i64,
    },
    /// A follower got batches that do not rise (`UnifiedLog.analyzeAndValidateRecords`).
    #[error("last offset {last_offset} does not follow {previous}")]
    OffsetsOutOfOrder {
        /// Last offset of the batch.
        last_offset: i64,
        /// Last offset of the one before.
        previous: i64,
    },
    /// More than 2147483647 above the segment's base (`LogSegment.ensureOffsetInRange`).
    #[error("offset {offset} is out of the range of the segment with base offset {base_offset}")]
    SegmentOverflow {
        /// The offset.
        offset: i64,
        /// The segment.
        base_offset: i64,
    },
    /// `OffsetIndex.append`, `TimeIndex.maybeAppend`.
    #[error("index is full at {0} entries")]
    IndexFull(usize),
    /// `OffsetIndex.append`, `TimeIndex.maybeAppend`.
    #[error("offset {offset} does not follow {last_offset} in the index")]
    IndexOffset {
        /// The offset.
        offset: i64,
        /// The last one of the index.
        last_offset: i64,
    },
    /// `TimeIndex.maybeAppend`.
    #[error("timestamp {timestamp} does not follow {last_timestamp} in the index")]
    IndexTimestamp {
        /// The timestamp.
        timestamp: i64,
        /// The last one of the index.
        last_timestamp: i64,
    },
    /// `TransactionIndex.append`.
    #[error("aborted transaction ends at {offset}, the last one at {last_offset}")]
    TransactionIndexOffset {
        /// Offset of the marker.
        offset: i64,
        /// Of the one before.
        last_offset: i64,
    },
    /// `UnifiedLog.truncateTo`.
    #[error("cannot truncate to the negative offset {0}")]
    NegativeOffset(i64),
    /// `LocalLog.roll`.
    #[error("segment {0} cannot be rolled: it exists, or lies below the active one")]
    SegmentExists(i64),
    /// `LogSegments.values`.
    #[error("offset {from} is above {to}")]
    OffsetOrder {
        /// The lower end.
        from: i64,
        /// The upper end.
        to: i64,
    },
    /// A segment holds at most 2147483647 bytes (`FileRecords.append`).
    #[error("segment with {0} bytes has no room left")]
    SegmentFull(u64),
    /// `AbstractIndex.createAndAssignMmap`.
    #[error("segment.index.bytes {0} is below the size of an entry")]
    IndexSize(i32),
    /// `LogOffsetMetadata`, `LogSegment.read`: the files contradict each other.
    #[error("segment {0} is not usable after an earlier failure")]
    Inconsistent(i64),
}

impl Rejection {
    /// The error code the client sees (`Errors.forException`).
    #[must_use]
    pub fn error(&self) -> KafkaError {
        match self.exception() {
            "InvalidRecordException" => KafkaError::INVALID_RECORD,
            "RecordTooLargeException" => KafkaError::MESSAGE_TOO_LARGE,
            "CorruptRecordException" => KafkaError::CORRUPT_MESSAGE,
            "InvalidTimestampException" => KafkaError::INVALID_TIMESTAMP,
            "RecordBatchTooLargeException" => KafkaError::RECORD_LIST_TOO_LARGE,
            _ => KafkaError::UNKNOWN_SERVER_ERROR,
        }
    }

    /// Simple name of the exception Kafka throws.
    #[must_use]
    pub fn exception(&self) -> &'static str {
        match self {
            Self::BaseOffset(_)
            | Self::Magic(_)
            | Self::BatchCount(_)
            | Self::OffsetRange(_)
            | Self::RecordsCount(_)
            | Self::CountMismatch { .. }
            | Self::ControlBatch
            | Self::BaseSequence(_)
            | Self::Keys(_) => "InvalidRecordException",
            // A stream the codec refuses comes out of Kafka's iterator as the base class.
            Self::Records(error) => {
                let is_codec = matches!(
                    error.kind,
                    DecodeErrorKind::Compressed { .. }
                        | DecodeErrorKind::OverLimit { .. }
                        | DecodeErrorKind::UnknownCodec { .. }
                );
                if is_codec {
                    "KafkaException"
                } else {
                    "InvalidRecordException"
                }
            }
            Self::BatchTooLarge { .. } => "RecordTooLargeException",
            Self::Corrupt { .. } | Self::CorruptHeader(_) => "CorruptRecordException",
            Self::Timestamps(_) => "InvalidTimestampException",
            Self::Build(_)
            | Self::LeaderEpoch { .. }
            | Self::IndexFull(_)
            | Self::TransactionIndexOffset { .. }
            | Self::NegativeOffset(_)
            | Self::OffsetOrder { .. }
            | Self::SegmentFull(_)
            | Self::IndexSize(_) => "IllegalArgumentException",
            Self::AppendTooLarge { .. } => "RecordBatchTooLargeException",
            Self::UnexpectedAppendOffset { .. } => "UnexpectedAppendOffsetException",
            Self::OffsetsOutOfOrder { .. } => "OffsetsOutOfOrderException",
            Self::SegmentOverflow { .. } => "LogSegmentOffsetOverflowException",
            Self::IndexOffset { .. } => "InvalidOffsetException",
            Self::IndexTimestamp { .. } | Self::Inconsistent(_) => "IllegalStateException",
            Self::SegmentExists(_) => "KafkaException",
        }
    }
}
