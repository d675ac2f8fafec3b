//! The rows of the records in a batch.
//!
//! Records of Kafka's own topics and control records are decoded unless told otherwise; what is
//! not known, or is not what it should be, is shown as bytes with the reason. Decides
//! `DumpLogSegments.dumpLog` with `--deep-iteration` and `--print-data-log`.

use serde_json::{Map, Value};

use super::rows::{BatchOfRecord, BatchPlace, BatchRow, RecordFields, RecordRow, Source};
use crate::format::control_record::ControlRecordType;
use crate::format::internal_topic::{Decoded, InternalTopic, decode_record};
use crate::format::schema::kraft_control;
use crate::log::records::{DEFAULT_MAX_BATCH_BYTES, LogRecord};
use crate::report::content::{BytesForm, Content, Decoder, HeadersRow};

/// How records are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// How keys are decoded.
    pub key_decoder: Decoder,
    /// How values are decoded.
    pub value_decoder: Decoder,
    /// How bytes that are no text are shown.
    pub bytes_form: BytesForm,
    /// Decode neither records of internal topics nor control records.
    pub raw: bool,
    /// The topic whose records these are, where the directory's name does not say it.
    pub internal_topic: Option<InternalTopic>,
    /// Show sizes only.
    pub sizes_only: bool,
    /// The most bytes a batch may unpack to.
    pub max_batch_bytes: usize,
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self {
            key_decoder: Decoder::Auto,
            value_decoder: Decoder::Auto,
            bytes_form: BytesForm::Base64,
            raw: false,
            internal_topic: None,
            sizes_only: false,
            max_batch_bytes: DEFAULT_MAX_BATCH_BYTES,
        }
    }
}

/// What key and value of the records in one file are.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordRows {
    options: RecordOptions,
    topic: Option<InternalTopic>,
}

impl RecordRows {
    pub(super) fn new(options: RecordOptions, source: Source<'_>) -> Self {
        let topic = source
            .topic
            .and_then(InternalTopic::from_name)
            .or_else(|| {
                // Snapshots of the KRaft log are the only checkpoints that hold batches.
                let is_snapshot = source.file.contains(".checkpoint");
                is_snapshot.then_some(InternalTopic::ClusterMetadata)
            })
            .or(options.internal_topic)
            .filter(|_| !options.raw);
        Self { options, topic }
    }

    pub(super) fn row<'a>(&self, batch: &BatchRow<'a>, record: &LogRecord<'a>) -> RecordRow<'a> {
        let control_type = (batch.is_control)
            .then(|| ControlRecordType::decode_key(record.key?).ok())
            .flatten();
        let Shown {
            key,
            value,
            not_decoded,
        } = self.shown(batch.is_control, control_type, record);
        let place = BatchPlace {
            topic: batch.topic,
            partition: batch.partition,
            file: batch.file,
            position: batch.position,
            base_offset: batch.base_offset,
        };
        let fields = RecordFields {
            offset: record.offset,
            timestamp: record.timestamp,
            timestamp_type: record.timestamp_type.name(),
            sequence: record.sequence,
            key_size: size(record.key),
            value_size: size(record.value),
            key,
            value,
            not_decoded,
            headers: HeadersRow {
                headers: record.headers(),
                form: self.options.bytes_form,
                keys_only: self.options.sizes_only,
            },
        };
        let batch = BatchOfRecord {
            producer_id: batch.producer_id,
            producer_epoch: batch.producer_epoch,
            is_transactional: batch.is_transactional,
            is_control: batch.is_control,
            control_type: control_type.map(ControlRecordType::name),
            coordinator_epoch: batch.coordinator_epoch,
            compression_type: batch.compression_type,
            magic: batch.magic,
            crc: record.crc.map(|(crc, _)| crc),
            is_valid: record.crc.map(|(_, is_valid)| is_valid),
        };
        RecordRow {
            place,
            fields,
            batch,
        }
    }

    fn shown<'a>(
        &self,
        is_control: bool,
        control_type: Option<ControlRecordType>,
        record: &LogRecord<'a>,
    ) -> Shown<'a> {
        let options = &self.options;
        if options.sizes_only {
            return Shown::default();
        }
        let form = options.bytes_form;
        if is_control {
            let decoded = control_type.filter(|_| !options.raw);
            return match decoded.map(|control_type| control_record(control_type, record.value)) {
                Some(Ok((key, value))) => Shown {
                    key: Content::Kafka(key),
                    value: Content::Kafka(value),
                    not_decoded: None,
                },
                Some(Err(reason)) => Shown::opaque(record, form, Some(reason)),
                None => Shown::opaque(record, form, None),
            };
        }
        let Some(topic) = self.topic else {
            return Shown {
                key: Content::new(record.key, options.key_decoder, form),
                value: Content::new(record.value, options.value_decoder, form),
                not_decoded: None,
            };
        };
        let decoded = decode_record(topic, record.key, record.value);
        let mut not_decoded = None;
        let mut content = |decoded, bytes: Option<&'a [u8]>| match decoded {
            Decoded::Null => Content::Null,
            Decoded::Json(value) => Content::Kafka(value),
            Decoded::Raw(reason) => {
                not_decoded.get_or_insert_with(|| reason.to_string());
                Content::new(bytes, Decoder::Bytes, form)
            }
        };
        let key = content(decoded.key, record.key);
        let value = content(decoded.value, record.value);
        Shown {
            key,
            value,
            not_decoded,
        }
    }
}

/// Key and value as they are shown.
struct Shown<'a> {
    key: Content<'a>,
    value: Content<'a>,
    not_decoded: Option<String>,
}

impl Default for Shown<'_> {
    fn default() -> Self {
        Self {
            key: Content::Null,
            value: Content::Null,
            not_decoded: None,
        }
    }
}

impl<'a> Shown<'a> {
    fn opaque(record: &LogRecord<'a>, form: BytesForm, not_decoded: Option<String>) -> Self {
        Self {
            key: Content::new(record.key, Decoder::Bytes, form),
            value: Content::new(record.value, Decoder::Bytes, form),
            not_decoded,
        }
    }
}

/// Kafka's -1 for null.
fn size(bytes: Option<&[u8]>) -> i32 {
    bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap_or(i32::MAX))
}

/// Key and value of a control record in the form that records of internal topics have; the
/// messages are those that `DumpLogSegments` prints.
fn control_record(
    control_type: ControlRecordType,
    value: Option<&[u8]>,
) -> Result<(Value, Value), String> {
    let message = kraft_control::value_message(control_type)
        .ok_or_else(|| format!("control record type {} is not known", control_type.0))?;
    let value = value.ok_or("a control record without a value")?;
    let version = value.first_chunk::<2>().map(|it| i16::from_be_bytes(*it));
    let version = version.ok_or("a control record value without a version")?;
    // The version stands before a marker, and is the first field of a KRaft message.
    let is_marker =
        control_type == ControlRecordType::ABORT || control_type == ControlRecordType::COMMIT;
    let skipped = if is_marker { 2 } else { 0 };
    let bytes = value.get(skipped..).unwrap_or_default();
    // Kafka reads all of them as version 0, whatever they say.
    let (data, size) = message
        .decode(bytes, 0)
        .map_err(|error| error.to_string())?;
    if size != bytes.len() && !is_marker {
        let left = bytes.len() - size;
        return Err(format!("{} is followed by {left} bytes", message.name));
    }
    let key = object([
        ("type", control_type.name().into()),
        ("data", object([("type", control_type.0.into())])),
    ]);
    let value = object([("version", version.to_string().into()), ("data", data)]);
    Ok((key, value))
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(Map::from_iter(
        fields.map(|(name, value)| (name.to_owned(), value)),
    ))
}
