//! What the fuzz targets do with their bytes: one function a target, called by a property test of
//! the main package as well.
//!
//! A function panics where kseg is wrong. What it demands holds for any bytes: no panic, work and
//! memory bounded, and what can be encoded again decodes to the same.

use std::fmt::Debug;
use std::io::Write;
use std::path::Path;

use kseg::DecodeErrorKind;
use kseg::format::IndexRows;
use kseg::format::aborted_txn::{self, AbortedTxnRows};
use kseg::format::checkpoint::OffsetCheckpoint;
use kseg::format::clean_shutdown::CleanShutdown;
use kseg::format::compression::{Decompressor, compress};
use kseg::format::control_record::{ControlRecord, ControlRecordType, EndTransactionMarker};
use kseg::format::file_name::{LogDirFileName, LogFileName, PartitionDirName};
use kseg::format::internal_topic::{Decoded, InternalTopic, decode_record};
use kseg::format::kafka_uuid::KafkaUuid;
use kseg::format::kraft_control_record::LeaderChange;
use kseg::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;
use kseg::format::legacy_record::{LegacyRecord, LegacyRecordFields, LegacyRecordHeader};
use kseg::format::legacy_record_set::LegacyRecordSet;
use kseg::format::meta_properties::MetaProperties;
use kseg::format::offset_index::{self, OffsetIndexEntry};
use kseg::format::partition_metadata::PartitionMetadata;
use kseg::format::producer_snapshot::{self, ProducerSnapshot};
use kseg::format::quorum_state::QuorumState;
use kseg::format::record::Record;
use kseg::format::record_batch::{
    Attributes, CompressionType, HEADER_SIZE, MAGIC_V2, RecordBatchFields, RecordBatchHeader,
};
use kseg::format::record_batch_builder::encode_batch;
use kseg::format::record_batch_reader::{BatchRecord, RecordIterator};
use kseg::format::schema::{self, EncodeErrorKind};
use kseg::format::time_index::{self, TimeIndexEntry};
use kseg::format::topics_record::TopicsRecord;
use kseg::log::Io;
use kseg::log::batches::{BatchWalk, Entry};
use kseg::log::mapped_file::MappedFile;
use serde_json::Value;

/// A body with the name of its target.
pub type Body = (&'static str, fn(&[u8]));

/// All bodies. Each has a file in `fuzz_targets/`.
pub const BODIES: &[Body] = &[
    ("batch", batch),
    ("walk", walk),
    ("record", record),
    ("legacy", legacy),
    ("gzip", gzip),
    ("snappy", snappy),
    ("lz4", lz4),
    ("zstd", zstd),
    ("internal_record", internal_record),
    ("schema", schema),
    ("control_record", control_record),
    ("offset_index", offset_index),
    ("time_index", time_index),
    ("aborted_txn", aborted_txn),
    ("producer_snapshot", producer_snapshot),
    ("checkpoint", checkpoint),
    ("leader_epoch_checkpoint", leader_epoch_checkpoint),
    ("partition_metadata", partition_metadata),
    ("meta_properties", meta_properties),
    ("clean_shutdown", clean_shutdown),
    ("quorum_state", quorum_state),
    ("file_name", file_name),
];

/// The most bytes that a decompressor may give.
const MAX_OUTPUT: usize = 1 << 20;

/// A magic 2 batch: the header and the records behind it, by whatever codec it names.
pub fn batch(data: &[u8]) {
    let Ok(header) = RecordBatchHeader::ref_from(data) else {
        assert!(data.len() < HEADER_SIZE);
        return;
    };
    let fields = header.fields();
    assert_eq!(RecordBatchHeader::from(fields), *header);
    let records = &data[HEADER_SIZE..];
    let _ = header.compute_crc(records);
    let _ = (header.last_offset(), header.next_offset());
    let _ = (header.last_sequence(), header.base_timestamp());

    let mut decompressor = Decompressor::new();
    let read = RecordIterator::decompress(header, records, &mut decompressor, MAX_OUTPUT);
    let found: Vec<_> = match read {
        Ok(records) => records.collect(),
        Err(error) => {
            say(&error);
            return;
        }
    };
    check_records(&found);
    same_uncompressed(header, records, &found);
    sealed_again(fields, records);
}

/// The records lie one behind the other and each can be written again.
fn check_records(records: &[Result<BatchRecord<'_>, kseg::DecodeError>]) {
    let mut position = 0;
    for (index, record) in records.iter().enumerate() {
        match record {
            Ok(record) => {
                assert_eq!(record.position, position);
                position += record.size_in_bytes;
                written_again(&record.record);
                assert!(record.record.header_iter().all(|header| header.is_ok()));
            }
            Err(error) => {
                say(error);
                assert_eq!(index + 1, records.len(), "an error is the last thing");
            }
        }
    }
}

/// The plain bytes in a batch without codec give the same records.
fn same_uncompressed(
    header: &RecordBatchHeader,
    records: &[u8],
    found: &[Result<BatchRecord<'_>, kseg::DecodeError>],
) {
    if header.records_count() == 0 {
        return;
    }
    let mut decompressor = Decompressor::new();
    let codec = header.attributes().compression_type();
    let plain = decompressor.decompress(codec, header.magic(), records, MAX_OUTPUT);
    let Ok(plain) = plain else {
        panic!("the same bytes did decompress");
    };
    let codec = Attributes::COMPRESSION_CODEC_MASK;
    let fields = RecordBatchFields {
        attributes: Attributes(header.attributes().0 & !codec),
        ..header.fields()
    };
    let header = RecordBatchHeader::from(fields);
    let again: Vec<_> = RecordIterator::new(&header, plain)
        .expect("the count was legal")
        .collect();
    assert_eq!(again, found);
}

/// A batch made of the same fields and bytes is right about its length and checksum.
fn sealed_again(fields: RecordBatchFields, records: &[u8]) {
    let mut batch = Vec::new();
    encode_batch(fields, records, &mut batch).expect("the bytes are few");
    let header = RecordBatchHeader::ref_from(&batch).expect("a whole header");
    assert_eq!(header.size_in_bytes(), batch.len() as u64);
    assert_eq!(header.crc(), header.compute_crc(records));
}

/// What a walk found at one place.
#[derive(Debug, PartialEq)]
struct Found {
    position: u64,
    size_in_bytes: u64,
    what: String,
    /// The stored checksum's rightness and the bytes behind a batch's header.
    content: Option<(bool, Vec<u8>)>,
}

/// A segment of these bytes: mapped or read, the walk finds the same, and leaves out nothing.
pub fn walk(data: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(data).expect("written");
    let mapped = entries(file.path(), Io::Mmap);
    let read = entries(file.path(), Io::Read);
    assert_eq!(mapped, read);
    let mut position = 0;
    for entry in &mapped {
        assert_eq!(entry.position, position);
        assert!(entry.size_in_bytes > 0);
        position += entry.size_in_bytes;
    }
    assert_eq!(position, data.len() as u64);
}

fn entries(path: &Path, io: Io) -> Vec<Found> {
    let file = MappedFile::open(path, io).expect("the file is there");
    let mut walk = BatchWalk::new(&file);
    let mut entries = Vec::new();
    while let Some(entry) = walk.next_entry() {
        entries.push(match entry.expect("nobody else has the file") {
            Entry::Batch(batch) => Found {
                position: batch.position,
                size_in_bytes: batch.size_in_bytes(),
                what: format!("{:?} {:?}", batch.header, batch.control_record().unwrap()),
                content: Some((
                    batch.is_valid().unwrap(),
                    batch.records().unwrap().into_owned(),
                )),
            },
            Entry::Legacy(entry) => Found {
                position: entry.position,
                size_in_bytes: entry.size_in_bytes(),
                what: format!("{:?} {:?}", entry.header, entry.timestamp()),
                content: Some((entry.is_valid().unwrap(), Vec::new())),
            },
            Entry::Damage(damage) => Found {
                position: damage.position,
                size_in_bytes: damage.size_in_bytes,
                what: format!("{damage} {damage:?}"),
                content: None,
            },
        });
    }
    entries
}

/// One record of a magic 2 batch.
pub fn record(data: &[u8]) {
    let (record, size) = match Record::decode(data) {
        Ok(found) => found,
        Err(error) => return say(&error),
    };
    assert!(size <= data.len());
    assert!(written_again(&record) <= size);
    let mut headers = 0;
    for header in record.header_iter() {
        match header {
            Ok(header) => {
                let mut bytes = Vec::new();
                header.encode(&mut bytes);
                headers += 1;
            }
            Err(error) => say(&error),
        }
    }
    assert!(headers <= record.headers.len() / 2);
}

/// Writes a record and reads it back; gives the size. Kafka writes numbers as short as can be.
fn written_again(record: &Record<'_>) -> usize {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    assert_eq!(Record::decode(&bytes), Ok((*record, bytes.len())));
    bytes.len()
}

/// An entry of magic 0 or 1, and what it holds if it is a wrapper.
pub fn legacy(data: &[u8]) {
    let entry = match LegacyRecord::decode(data) {
        Ok(entry) => entry,
        Err(error) => return say(&error),
    };
    let header: &LegacyRecordHeader = entry.header;
    assert_eq!(header.size_in_bytes(), entry.entry.len() as u64);
    let mut bytes = Vec::new();
    LegacyRecordFields {
        offset: header.offset(),
        magic: header.magic(),
        attributes: header.attributes(),
        timestamp: entry.timestamp,
        key: entry.key,
        value: entry.value,
    }
    .encode(&mut bytes);
    let again = LegacyRecord::decode(&bytes).expect("just written");
    assert_eq!(again.header.crc(), again.compute_crc());
    assert_eq!(
        (again.timestamp, again.key, again.value),
        (entry.timestamp, entry.key, entry.value)
    );

    let mut decompressor = Decompressor::new();
    match LegacyRecordSet::new(entry, &mut decompressor, MAX_OUTPUT) {
        Err(error) => say(&error),
        Ok(set) => {
            let mut bytes = 0;
            for record in set {
                match record {
                    Ok(record) => {
                        let _ = record.is_valid();
                        bytes += record.record.entry.len();
                    }
                    Err(error) => say(&error),
                }
            }
            assert!(bytes <= MAX_OUTPUT.max(data.len()));
        }
    }
}

/// A gzip stream.
pub fn gzip(data: &[u8]) {
    codec(CompressionType::GZIP, 1..=9, data);
}

/// A snappy stream, framed or not.
pub fn snappy(data: &[u8]) {
    codec(CompressionType::SNAPPY, 0..=0, data);
}

/// An LZ4 frame.
pub fn lz4(data: &[u8]) {
    codec(CompressionType::LZ4, 1..=17, data);
}

/// Zstandard frames.
pub fn zstd(data: &[u8]) {
    // Higher levels take the encoder some hundred megabytes, which is theirs to take.
    codec(CompressionType::ZSTD, -9..=9, data);
}

/// The bytes as a stream, and as what is to be made one.
fn codec(codec: CompressionType, levels: std::ops::RangeInclusive<i32>, data: &[u8]) {
    let mut decompressor = Decompressor::new();
    for magic in [0, 2] {
        let plain = decompressor.decompress(codec, magic, data, MAX_OUTPUT);
        let plain = match plain {
            Ok(plain) => plain.to_vec(),
            Err(error) => {
                say(&error);
                continue;
            }
        };
        assert!(plain.len() <= MAX_OUTPUT);
        // What the decompressor kept does not show, and the limit is exact.
        let again = decompressor.decompress(codec, magic, data, plain.len());
        assert_eq!(again, Ok(plain.as_slice()));
        if let Some(less) = plain.len().checked_sub(1) {
            let refused = decompressor.decompress(codec, magic, data, less);
            let error = refused.expect_err("more than the limit");
            assert!(matches!(error.kind, DecodeErrorKind::OverLimit { .. }));
        }
    }
    // Compressing costs many times what decompressing does, so it is not tried always.
    if data.len().is_multiple_of(8) {
        round_trip(codec, levels, &mut decompressor, data);
    }
}

fn round_trip(
    codec: CompressionType,
    levels: std::ops::RangeInclusive<i32>,
    decompressor: &mut Decompressor,
    plain: &[u8],
) {
    let span = levels.end() - levels.start() + 1;
    let level = match plain.first() {
        Some(first) if span > 1 => Some(levels.start() + i32::from(*first) % span),
        _ => None,
    };
    // Zstandard's level 0 is no level of Kafka's.
    let level = level.filter(|level| *level != 0);
    let mut compressed = Vec::new();
    compress(codec, level, MAGIC_V2, plain, &mut compressed).expect("few bytes, a legal level");
    let again = decompressor.decompress(codec, MAGIC_V2, &compressed, plain.len());
    assert_eq!(again, Ok(plain));
}

/// A record of an internal topic.
///
/// The first byte names the topic, its top bit says that there is no value; two bytes are the
/// length of the key, beyond what is there for none; then key and value.
pub fn internal_record(data: &[u8]) {
    let Some((&[choice, k0, k1], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let topic = InternalTopic::ALL[usize::from(choice & 0x7f) % InternalTopic::ALL.len()];
    let key_size = usize::from(u16::from_be_bytes([k0, k1]));
    let (key, value) = match rest.split_at_checked(key_size) {
        Some((key, value)) => (Some(key), value),
        None => (None, rest),
    };
    let value = (choice & 0x80 == 0).then_some(value);
    let record = decode_record(topic, key, value);
    if let (InternalTopic::ClusterMetadata, Some(value)) = (topic, value) {
        same_topics(value, &record.value);
    }
    for (bytes, decoded) in [(key, record.key), (value, record.value)] {
        match decoded {
            Decoded::Null => assert!(bytes.is_none()),
            Decoded::Json(json) => {
                assert!(bytes.is_some());
                let _ = json.to_string();
            }
            Decoded::Raw(reason) => say(&reason),
        }
    }
}

/// What is read of a record for its topics is what the tables show of it.
fn same_topics(value: &[u8], shown: &Decoded) {
    let record = match TopicsRecord::decode(value) {
        Ok(record) => record,
        Err(reason) => return say(&reason),
    };
    let Decoded::Json(shown) = shown else {
        return;
    };
    let is_id = |id: KafkaUuid| assert_eq!(shown["data"]["topicId"], id.to_string());
    let has_array = |name: &str, read: Option<Vec<Value>>| {
        // One that a version does not have is read as empty.
        let shown = shown["data"].get(name).cloned();
        let read = read.map_or(Value::Null, Value::Array);
        let is_none = read.is_null() || read == Value::Array(Vec::new());
        assert!(shown.as_ref() == Some(&read) || (shown.is_none() && is_none));
    };
    match record {
        TopicsRecord::Topic { name, topic_id } => {
            is_id(topic_id);
            assert_eq!(shown["data"]["name"], *name);
        }
        TopicsRecord::RemoveTopic { topic_id } => is_id(topic_id),
        TopicsRecord::Partition(read) | TopicsRecord::PartitionChange(read) => {
            is_id(read.topic_id);
            assert_eq!(shown["data"]["partitionId"], read.partition);
            let ids = |ids: &[KafkaUuid]| ids.iter().map(|id| id.to_string().into()).collect();
            has_array("directories", read.directories.map(ids));
            let replicas = read.replicas.map(|ids| ids.iter());
            has_array(
                "replicas",
                replicas.map(|it| it.map(|id| id.get().into()).collect()),
            );
        }
        TopicsRecord::BeginTransaction
        | TopicsRecord::EndTransaction
        | TopicsRecord::AbortTransaction
        | TopicsRecord::Other => {}
    }
}

/// A message of any schema: the first byte says which, the second the version.
pub fn schema(data: &[u8]) {
    let Some((&[choice, version], bytes)) = data.split_first_chunk::<2>() else {
        return;
    };
    let count = schema::messages().count();
    let Some(message) = schema::messages().nth(usize::from(choice) % count) else {
        return;
    };
    let span = i32::from(message.versions.last) - i32::from(message.versions.first) + 1;
    let version = i32::from(message.versions.first) + i32::from(version) % span;
    let version = i16::try_from(version).expect("between two versions");
    let (json, size) = match message.decode(bytes, version) {
        Ok(found) => found,
        Err(error) => return say(&error),
    };
    assert!(size <= bytes.len());
    let encoded = match message.encode(&json, version) {
        Ok(encoded) => encoded,
        // Replacement characters take three bytes in place of one.
        Err(error) if matches!(error.kind, EncodeErrorKind::TooLong { .. }) => {
            assert!(bytes.len() > 10_000);
            return;
        }
        Err(error) => panic!("{} {version}: {error}: {json}", message.name),
    };
    let (again, size) = message.decode(&encoded, version).expect("just written");
    assert_eq!(size, encoded.len());
    assert!(is_part_of(&again, &json), "{again} of {json}");
    assert_eq!(message.encode(&again, version), Ok(encoded));
}

/// Whether two messages are equal but for fields that only the second one has: a tagged struct
/// that differs from its default by an unknown tagged field only, which is not kept.
fn is_part_of(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|all| is_part_of(value, all))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(p, w)| is_part_of(p, w))
        }
        (part, whole) => part == whole,
    }
}

/// A control record: the first byte is the length of the key, then key and value.
pub fn control_record(data: &[u8]) {
    let _ = EndTransactionMarker::decode_batch(data, 1);
    let Some((&key_size, rest)) = data.split_first() else {
        return;
    };
    let Some((key, value)) = rest.split_at_checked(usize::from(key_size)) else {
        return;
    };
    let _ = ControlRecordType::decode_key(key);
    if let Ok(message) = LeaderChange::decode(value, 1) {
        let encoded = message.encode(1);
        assert_eq!(LeaderChange::decode(&encoded, 1), Ok(message));
    }
    let record = match ControlRecord::decode(&plain_record(key, value)) {
        Ok(record) => record,
        Err(error) => return say(&error),
    };
    let (key, value) = (record.control_type().encode_key(), record.encode_value());
    // Replacement characters take three bytes in place of one, and may make a string too long.
    if value.len() < LONGEST_STRING {
        assert_eq!(
            ControlRecord::decode(&plain_record(&key, &value)),
            Ok(record)
        );
    }
}

/// The longest string of a message.
const LONGEST_STRING: usize = 0x7fff;

fn plain_record<'a>(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
    Record {
        attributes: 0,
        timestamp_delta: 0,
        offset_delta: 0,
        key: Some(key),
        value: Some(value),
        headers: &[],
        header_count: 0,
    }
}

/// An `.index` file.
pub fn offset_index(data: &[u8]) {
    let rows = IndexRows::<OffsetIndexEntry>::decode(data);
    let sizes = (rows.slots().len(), rows.row_count(), rows.zero_tail_size());
    check_index(data, offset_index::ENTRY_SIZE, sizes, rows.ragged_size());
    check_non_zero(data, rows.non_zero_position_after_rows());
    for row in rows.rows() {
        let _ = row.offset(i64::MAX);
    }
    assert!(data.starts_with(&offset_index::encode(rows.rows())));
}

/// A `.timeindex` file.
pub fn time_index(data: &[u8]) {
    let rows = IndexRows::<TimeIndexEntry>::decode(data);
    let sizes = (rows.slots().len(), rows.row_count(), rows.zero_tail_size());
    check_index(data, time_index::ENTRY_SIZE, sizes, rows.ragged_size());
    check_non_zero(data, rows.non_zero_position_after_rows());
    for row in rows.rows() {
        let _ = row.offset(i64::MAX);
    }
    assert!(data.starts_with(&time_index::encode(rows.rows())));
}

fn check_index(data: &[u8], entry_size: usize, sizes: (usize, usize, usize), ragged: usize) {
    let (slots, rows, zero_tail) = sizes;
    assert_eq!(slots * entry_size + ragged, data.len());
    assert_eq!(rows * entry_size + zero_tail + ragged, data.len());
}

fn check_non_zero(data: &[u8], position: Option<u64>) {
    if let Some(position) = position {
        assert_ne!(data[usize::try_from(position).unwrap()], 0);
    }
}

/// A `.txnindex` file.
pub fn aborted_txn(data: &[u8]) {
    let rows = AbortedTxnRows::decode(data);
    let encoded = aborted_txn::encode(rows.rows());
    assert!(data.starts_with(&encoded));
    assert_eq!(encoded.len() + rows.torn_size(), data.len());
    if let Err(error) = rows.check_versions() {
        say(&error);
    }
}

/// A `.snapshot` file, as it is and with its checksum put right.
pub fn producer_snapshot(data: &[u8]) {
    let error = match ProducerSnapshot::decode(data) {
        Ok(snapshot) => return check_snapshot(data, &snapshot),
        Err(error) => error,
    };
    say(&error);
    if let DecodeErrorKind::Checksum { computed, .. } = error.kind {
        let mut data = data.to_vec();
        let place = producer_snapshot::CRC_START - 4..producer_snapshot::CRC_START;
        data[place].copy_from_slice(&computed.to_be_bytes());
        let snapshot = ProducerSnapshot::decode(&data).expect("the checksum is right now");
        check_snapshot(&data, &snapshot);
    }
}

fn check_snapshot(data: &[u8], snapshot: &ProducerSnapshot<'_>) {
    let encoded = producer_snapshot::encode(snapshot.entries());
    assert_eq!(encoded.len() + snapshot.trailing_size(), data.len());
    if snapshot.trailing_size() == 0 {
        assert_eq!(encoded, data);
    }
}

/// One of the four offset checkpoints of a log directory.
pub fn checkpoint(data: &[u8]) {
    text(data, OffsetCheckpoint::decode, OffsetCheckpoint::encode);
}

/// `leader-epoch-checkpoint`.
pub fn leader_epoch_checkpoint(data: &[u8]) {
    text(
        data,
        LeaderEpochCheckpoint::decode,
        LeaderEpochCheckpoint::encode,
    );
}

/// `partition.metadata`.
pub fn partition_metadata(data: &[u8]) {
    text(data, PartitionMetadata::decode, PartitionMetadata::encode);
}

/// `meta.properties`.
pub fn meta_properties(data: &[u8]) {
    text(data, MetaProperties::decode, MetaProperties::encode);
}

/// `.kafka_cleanshutdown`.
pub fn clean_shutdown(data: &[u8]) {
    let encode = |content: &Option<CleanShutdown>| match content {
        Some(content) => content.encode(),
        None => String::new(),
    };
    text(data, CleanShutdown::decode, encode);
}

/// `quorum-state`.
pub fn quorum_state(data: &[u8]) {
    text(data, QuorumState::decode, QuorumState::encode);
}

/// A text file that was read is the same when it is written and read again.
fn text<T: Debug + PartialEq>(
    data: &[u8],
    decode: fn(&[u8]) -> Result<T, kseg::DecodeError>,
    encode: fn(&T) -> String,
) {
    match decode(data) {
        Ok(content) => assert_eq!(decode(encode(&content).as_bytes()), Ok(content)),
        Err(error) => say(&error),
    }
}

/// Names of files and directories.
pub fn file_name(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else {
        return;
    };
    let file = LogFileName::parse(name);
    assert_eq!(LogFileName::parse(&file.to_string()), file);
    assert_eq!(LogDirFileName::parse(name).to_string(), name);
    if let Some(partition) = PartitionDirName::parse(name) {
        let again = partition.to_string();
        // Longer names are cut.
        if again.len() < LONGEST_NAME {
            assert_eq!(PartitionDirName::parse(&again), Some(partition));
        }
    }
}

/// The longest name of a directory.
const LONGEST_NAME: usize = 255;

/// Makes the message of an error, which must be possible, too.
fn say(error: &impl ToString) {
    assert!(!error.to_string().is_empty());
}
