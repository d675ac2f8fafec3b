//! Where a broker looks into a batch as it loads a log: the record of a marker, and the first
//! offset of compressed messages of magic 0 and 1.
//!
//! Both go through the iterator of the batch, which unpacks all of it first, so bytes that nobody
//! has asked for can stop a broker. Decides `DefaultRecordBatch.iterator`,
//! `AbstractLegacyRecordBatch.baseOffset`.

use std::borrow::Cow;
use std::path::Path;

use super::error::{Error, LoadError};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::format::control_record::{EndTransactionMarker, first_record};
use crate::format::legacy_record::{COMMON_HEADER_SIZE, MAGIC_V0, MAGIC_V1};
use crate::format::legacy_record_set;
use crate::format::record::Record;
use crate::format::record_batch::{CompressionType, RecordBatchHeader};
use crate::log;
use crate::log::batches::{Batch, LegacyEntry};
use crate::log::log_input_stream::StreamBatch;
use crate::log::records::{BadRecords, DEFAULT_MAX_BATCH_BYTES, Unpacker};

/// A batch as a load takes it in.
pub(super) struct Loaded<'b> {
    /// The batch's header; of a marker whose record has another time than the header says, with
    /// that one: it is the producer's last (`ProducerAppendInfo.append`).
    pub(super) header: Cow<'b, RecordBatchHeader>,
    /// What it says if it is a control batch of a producer, as far as the state asks.
    pub(super) marker: Option<EndTransactionMarker>,
}

/// Looks into a batch as the state takes it in (`ProducerAppendInfo.append`); `None` if it is of
/// magic 0 or 1.
pub(super) fn look_into<'b>(
    path: &Path,
    batch: &'b StreamBatch<'_>,
) -> Result<Option<Loaded<'b>>, Error> {
    let Some(batch) = batch.as_default() else {
        return Ok(None);
    };
    let header = batch.header;
    let mut loaded = Loaded {
        header: Cow::Borrowed(header),
        marker: None,
    };
    let has_record = header.attributes().is_control() && header.records_count() != 0;
    if !has_record || !header.has_producer_id() {
        return Ok(Some(loaded));
    }
    let decoded = if header.attributes().compression_type() == CompressionType::NONE {
        first_record(&batch.records()?, header.records_count()).and_then(|it| decode(it.as_ref()))
    } else {
        unpacked_marker(path, batch)?
    };
    let position = batch.position;
    match decoded {
        Ok((Some(marker), timestamp_delta)) => {
            loaded.marker = Some(marker);
            if timestamp_delta != 0 {
                let mut fields = header.fields();
                fields.base_timestamp = fields.base_timestamp.wrapping_add(timestamp_delta);
                loaded.header = Cow::Owned(fields.into());
            }
            Ok(Some(loaded))
        }
        Ok((None, _)) => Err(LoadError::NotAMarker {
            path: path.to_owned(),
            position,
        }
        .into()),
        Err(source) => Err(LoadError::Marker {
            path: path.to_owned(),
            position,
            source,
        }
        .into()),
    }
}

/// The marker in a record, and how much later the record is than its batch.
type Decoded = Result<(Option<EndTransactionMarker>, i64), DecodeError>;

fn decode(record: Option<&Record<'_>>) -> Decoded {
    let Some(record) = record else {
        return Ok((None, 0));
    };
    let marker = EndTransactionMarker::decode(record)?;
    Ok((marker, record.timestamp_delta))
}

/// No broker compresses a marker, and every one reads it if it is.
#[cold]
fn unpacked_marker(path: &Path, batch: &Batch<'_>) -> Result<Decoded, Error> {
    let mut first = None;
    let mut unpacker = Unpacker::new(DEFAULT_MAX_BATCH_BYTES);
    let bad = unpacker.batch(batch, |record| {
        first.get_or_insert_with(|| decode(record.record.as_ref()));
        Ok::<_, log::Error>(())
    })?;
    match bad.map(|bad| (exception_of(&bad), bad.error)) {
        // As for a record that is not compressed: a start that recovers goes no further.
        Some((INVALID_RECORD, source)) => Ok(Err(source)),
        Some((exception, source)) => Err(unreadable(path, batch.position, source, exception)),
        None => Ok(first.unwrap_or(Ok((None, 0)))),
    }
}

/// The first offset of a batch (`RecordBatch.baseOffset`). For compressed messages of magic 0 and
/// 1 that of the first one inside, if the wrapper can be unpacked.
pub(super) fn base_offset(path: &Path, batch: &StreamBatch<'_>) -> Result<i64, Error> {
    match batch {
        StreamBatch::Default(batch) => Ok(batch.header.base_offset()),
        StreamBatch::Legacy(entry) if entry.header.compression_type() == CompressionType::NONE => {
            Ok(entry.header.offset())
        }
        StreamBatch::Legacy(entry) => first_offset(path, entry),
    }
}

#[cold]
fn first_offset(path: &Path, wrapper: &LegacyEntry<'_>) -> Result<i64, Error> {
    let failed = |source, exception| unreadable(path, wrapper.position, source, exception);
    let codec = wrapper.header.compression_type();
    let magic = wrapper.header.magic();
    let problem = if codec.0 > CompressionType::ZSTD.0 {
        let kind = DecodeErrorKind::UnknownCodec { codec: codec.0 };
        Some(("attributes", kind, UNKNOWN_CODEC))
    } else if magic != MAGIC_V0 && magic != MAGIC_V1 {
        let kind = DecodeErrorKind::Unexpected {
            found: magic.to_string(),
            expected: "0 or 1".to_owned(),
        };
        Some(("magic", kind, INVALID_RECORD))
    } else {
        value_past_end(&wrapper.bytes()?, magic).map(|(kind, exception)| ("value", kind, exception))
    };
    if let Some((field, kind, exception)) = problem {
        let source = DecodeError::new(legacy_record_set::STRUCTURE, field, 0, kind);
        return Err(failed(source, exception));
    }
    let mut first = None;
    let mut unpacker = Unpacker::new(DEFAULT_MAX_BATCH_BYTES);
    let bad = unpacker.legacy(wrapper, |record| {
        first.get_or_insert(record.offset);
        Ok::<_, log::Error>(())
    })?;
    match (first, bad) {
        // Those behind the first one nobody asks for.
        (Some(first), _) => Ok(first),
        (None, Some(bad)) if !bad.is_over_limit() => {
            let exception = exception_of(&bad);
            Err(failed(bad.error, exception))
        }
        (None, _) => Ok(wrapper.header.offset()),
    }
}

/// Sizes of key and value that reach behind the entry (`LegacyRecord.value`).
fn value_past_end(entry: &[u8], magic: i8) -> Option<(DecodeErrorKind, &'static str)> {
    let cut = |needed: usize, exception| {
        let kind = DecodeErrorKind::Truncated {
            needed: needed as u64,
            available: entry.len() as u64,
        };
        Some((kind, exception))
    };
    let size_at = |position: usize| -> Option<i32> {
        let bytes = entry.get(position..)?.first_chunk::<4>()?;
        Some(i32::from_be_bytes(*bytes))
    };
    let timestamp_size = if magic == MAGIC_V0 {
        0
    } else {
        size_of::<i64>()
    };
    let key_size_at = COMMON_HEADER_SIZE + timestamp_size;
    let Some(key_size) = size_at(key_size_at) else {
        return cut(key_size_at + 4, OUT_OF_BOUNDS);
    };
    let value_size_at = key_size_at + 4 + usize::try_from(key_size).unwrap_or(0);
    let Some(value_size) = size_at(value_size_at) else {
        return cut(value_size_at + 4, OUT_OF_BOUNDS);
    };
    let end = value_size_at + 4 + usize::try_from(value_size).unwrap_or(0);
    if end > entry.len() {
        return cut(end, "IllegalArgumentException");
    }
    None
}

fn unreadable(path: &Path, position: u64, source: DecodeError, exception: &'static str) -> Error {
    LoadError::Records {
        path: path.to_owned(),
        position,
        source,
        exception,
    }
    .into()
}

const INVALID_RECORD: &str = "InvalidRecordException";
/// `CompressionType.forId`.
const UNKNOWN_CODEC: &str = "IllegalArgumentException";
const OUT_OF_BOUNDS: &str = "IndexOutOfBoundsException";

/// Simple name of the exception for records that cannot be read.
fn exception_of(bad: &BadRecords) -> &'static str {
    let kind = &bad.error.kind;
    let is_inside_wrapper = bad.error.structure == legacy_record_set::STRUCTURE;
    if matches!(kind, DecodeErrorKind::UnknownCodec { .. }) {
        UNKNOWN_CODEC
    } else if matches!(kind, DecodeErrorKind::Compressed { .. }) {
        "KafkaException"
    } else if is_inside_wrapper && matches!(kind, DecodeErrorKind::BelowMinimum { .. }) {
        // `DataLogInputStream.nextBatch`.
        "CorruptRecordException"
    } else {
        INVALID_RECORD
    }
}
