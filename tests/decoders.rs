//! Arbitrary bytes through every decoder of `src/format`: whatever they are, an answer or an
//! error that can be printed, in bounded time and memory, and never a panic.
//!
//! `DECODERS` has every public module of `src/format`; `tidy.rs` fails if one is missing. A fuzz
//! target calls the same functions.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unused_must_use,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/segments.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "each test program compiles all of this and uses a part"
)]
mod segments;

use std::fs;

use kseg::DecodeError;
use kseg::format::aborted_txn::AbortedTxnRows;
use kseg::format::base64;
use kseg::format::checkpoint::OffsetCheckpoint;
use kseg::format::clean_shutdown::CleanShutdown;
use kseg::format::compact::CompactReader;
use kseg::format::compression::Decompressor;
use kseg::format::control_record::{ControlRecord, ControlRecordType, EndTransactionMarker};
use kseg::format::file_name::{LogDirFileName, LogFileName, PartitionDirName};
use kseg::format::internal_topic::{InternalTopic, decode_record};
use kseg::format::kafka_uuid::KafkaUuid;
use kseg::format::kraft_control_record::{
    KRaftVersion, KRaftVoters, LeaderChange, SnapshotFooter, SnapshotHeader,
};
use kseg::format::leader_epoch_checkpoint::LeaderEpochCheckpoint;
use kseg::format::legacy_record::{LegacyRecord, LegacyRecordHeader};
use kseg::format::legacy_record_set::LegacyRecordSet;
use kseg::format::meta_properties::MetaProperties;
use kseg::format::metadata_frame::MetadataFrame;
use kseg::format::offset_index::OffsetIndexRows;
use kseg::format::partition_metadata::PartitionMetadata;
use kseg::format::producer_snapshot::ProducerSnapshot;
use kseg::format::quorum_state::QuorumState;
use kseg::format::record::Record;
use kseg::format::record_batch::{CompressionType, HEADER_SIZE, RecordBatchHeader};
use kseg::format::record_batch_reader::RecordIterator;
use kseg::format::schema;
use kseg::format::time_index::TimeIndexRows;
use kseg::format::topics_record::TopicsRecord;
use kseg::format::varint;
use proptest::prelude::*;
use segments::{Noise, Scratch, fixtures};

/// Plain bytes that a compressed batch may unpack to here.
const MAX_OUTPUT: usize = 1 << 20;

type Decoder = fn(&[u8]);

/// Each public module of `src/format` and what reads bytes in it.
const DECODERS: &[(&str, Decoder)] = &[
    ("aborted_txn", aborted_txn),
    ("base64", base64_text),
    ("checkpoint", checkpoint),
    ("clean_shutdown", clean_shutdown),
    ("compact", compact),
    ("compression", compression),
    ("control_record", control_record),
    ("file_name", file_name),
    ("internal_topic", internal_topic),
    ("kafka_uuid", kafka_uuid),
    ("kraft_control_record", kraft_control_record),
    ("leader_epoch_checkpoint", leader_epoch_checkpoint),
    ("legacy_record", legacy_record),
    ("legacy_record_set", legacy_record_set),
    ("meta_properties", meta_properties),
    ("metadata_frame", metadata_frame),
    ("offset_index", offset_index),
    ("partition_metadata", partition_metadata),
    ("producer_snapshot", producer_snapshot),
    ("quorum_state", quorum_state),
    ("record", record),
    ("record_batch", record_batch),
    // Writes only; what it wrote is read by the next.
    ("record_batch_builder", |_| {}),
    ("record_batch_reader", record_batch_reader),
    ("schema", schema_messages),
    ("time_index", time_index),
    ("topics_record", topics_record),
    ("varint", varints),
];

/// An error says what is wrong in words, at a place inside the bytes or at their end.
fn check<T>(result: Result<T, DecodeError>, bytes: &[u8]) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            let message = error.to_string();
            assert!(
                !message.is_empty() && !message.contains("Some("),
                "{message}"
            );
            assert!(error.position <= bytes.len() as u64, "{message}");
            None
        }
    }
}

fn aborted_txn(bytes: &[u8]) {
    let index = AbortedTxnRows::decode(bytes);
    assert_eq!(index.rows().len() * 34 + index.torn_size(), bytes.len());
    for row in index.rows() {
        assert_eq!(i16::from(row.version()), row.stored_version() >> 8);
    }
    check(index.check_versions(), bytes);
}

fn base64_text(bytes: &[u8]) {
    if let Some(decoded) = base64::decode(&String::from_utf8_lossy(bytes)) {
        base64::encode(&decoded);
    }
    assert_eq!(
        base64::decode(&base64::encode(bytes)).as_deref(),
        Some(bytes)
    );
}

fn checkpoint(bytes: &[u8]) {
    if let Some(checkpoint) = check(OffsetCheckpoint::decode(bytes), bytes) {
        let encoded = checkpoint.encode();
        assert_eq!(OffsetCheckpoint::decode(encoded.as_bytes()), Ok(checkpoint));
    }
}

fn clean_shutdown(bytes: &[u8]) {
    if let Some(Some(marker)) = check(CleanShutdown::decode(bytes), bytes) {
        marker.encode();
    }
}

fn compact(bytes: &[u8]) {
    let reader = || CompactReader::new("test", bytes);
    check(reader().string("f"), bytes);
    check(reader().nullable_string("f"), bytes);
    check(reader().nullable_bytes("f"), bytes);
    check(reader().nullable_array_count("f"), bytes);
    check(reader().array_count("f"), bytes);
    check(reader().skip_tagged_fields(), bytes);
    check(
        reader().tagged_fields(|_, field| field.skip_tagged_fields()),
        bytes,
    );
    check(reader().uuid("f"), bytes);
    check(reader().int8("f"), bytes);
    check(reader().int16("f"), bytes);
    check(reader().uint16("f"), bytes);
    check(reader().int32("f"), bytes);
    check(reader().int64("f"), bytes);
    check(reader().take("f", usize::MAX), bytes);
}

fn compression(bytes: &[u8]) {
    let mut decompressor = Decompressor::new();
    for magic in [0, 1, 2] {
        for codec in 0..8 {
            for max_output in [0, 100, MAX_OUTPUT] {
                let codec = CompressionType(codec);
                let plain = decompressor.decompress(codec, magic, bytes, max_output);
                if let Some(plain) = check(plain, bytes) {
                    assert!(codec == CompressionType::NONE || plain.len() <= max_output);
                }
            }
        }
    }
}

fn control_record(bytes: &[u8]) {
    check(ControlRecordType::decode_key(bytes), bytes);
    check(EndTransactionMarker::decode_batch(bytes, 1), bytes);
    let (key, value) = bytes.split_at(bytes.len().min(4));
    for (key, value) in [
        (Some(key), Some(value)),
        (Some(key), None),
        (None, Some(value)),
    ] {
        let mut encoded = Vec::new();
        let record = Record {
            attributes: 0,
            timestamp_delta: 0,
            offset_delta: 0,
            key,
            value,
            header_count: 0,
            headers: &[],
        };
        record.encode(&mut encoded);
        let (record, _) = Record::decode(&encoded).unwrap();
        if let Some(control) = check(ControlRecord::decode(&record), &encoded) {
            control.encode_value();
        }
        check(EndTransactionMarker::decode(&record), &encoded);
    }
}

fn file_name(bytes: &[u8]) {
    let name = String::from_utf8_lossy(bytes);
    // A name that is understood says the same again.
    assert_eq!(LogFileName::parse(&name).to_string(), name);
    assert_eq!(LogDirFileName::parse(&name).to_string(), name);
    if let Some(parsed) = PartitionDirName::parse(&name) {
        assert_eq!(PartitionDirName::parse(&parsed.to_string()), Some(parsed));
    }
}

fn internal_topic(bytes: &[u8]) {
    for topic in InternalTopic::ALL {
        for split in [0, 2, bytes.len() / 2, bytes.len()] {
            let (key, value) = bytes.split_at(split.min(bytes.len()));
            for (key, value) in [
                (Some(key), Some(value)),
                (None, Some(bytes)),
                (Some(bytes), None),
            ] {
                let decoded = decode_record(topic, key, value);
                assert!(!format!("{decoded:?}").is_empty());
            }
        }
    }
}

fn kafka_uuid(bytes: &[u8]) {
    if let Ok(uuid) = String::from_utf8_lossy(bytes).parse::<KafkaUuid>() {
        assert_eq!(uuid.to_string().parse::<KafkaUuid>().unwrap(), uuid);
    }
}

fn kraft_control_record(bytes: &[u8]) {
    for version in [0, 1, -1, i16::MAX] {
        check(LeaderChange::decode(bytes, version), bytes);
    }
    check(SnapshotHeader::decode(bytes), bytes);
    check(SnapshotFooter::decode(bytes), bytes);
    check(KRaftVersion::decode(bytes), bytes);
    check(KRaftVoters::decode(bytes), bytes);
}

fn leader_epoch_checkpoint(bytes: &[u8]) {
    if let Some(checkpoint) = check(LeaderEpochCheckpoint::decode(bytes), bytes) {
        let encoded = checkpoint.encode();
        assert_eq!(
            LeaderEpochCheckpoint::decode(encoded.as_bytes()),
            Ok(checkpoint)
        );
    }
}

fn legacy_record(bytes: &[u8]) {
    if let Some(header) = check(LegacyRecordHeader::ref_from(bytes), bytes) {
        header.size_in_bytes();
        header.timestamp_type();
        header.compression_type();
    }
    if let Some(record) = check(LegacyRecord::decode(bytes), bytes) {
        record.compute_crc();
    }
}

fn legacy_record_set(bytes: &[u8]) {
    let mut decompressor = Decompressor::new();
    let Ok(record) = LegacyRecord::decode(bytes) else {
        return;
    };
    let Ok(records) = LegacyRecordSet::new(record, &mut decompressor, MAX_OUTPUT) else {
        return;
    };
    // An entry takes 26 bytes or more, so there are not many.
    let count = records
        .inspect(|record| {
            record.as_ref().map(|it| it.is_valid());
        })
        .count();
    assert!(count <= 1 + MAX_OUTPUT / 26);
}

fn meta_properties(bytes: &[u8]) {
    if let Some(properties) = check(MetaProperties::decode(bytes), bytes) {
        properties.encode();
    }
}

fn offset_index(bytes: &[u8]) {
    let index = OffsetIndexRows::decode(bytes);
    for entry in index.rows() {
        entry.offset(i64::MAX);
        entry.position();
    }
    let covered = index.row_count() * 8 + index.zero_tail_size() + index.ragged_size();
    assert!(covered <= bytes.len());
    assert!(
        index
            .non_zero_position_after_rows()
            .is_none_or(|it| it < bytes.len() as u64)
    );
}

fn partition_metadata(bytes: &[u8]) {
    if let Some(metadata) = check(PartitionMetadata::decode(bytes), bytes) {
        let encoded = metadata.encode();
        assert_eq!(PartitionMetadata::decode(encoded.as_bytes()), Ok(metadata));
    }
}

fn metadata_frame(bytes: &[u8]) {
    match MetadataFrame::decode(bytes) {
        Ok(frame) => assert!(frame.position <= bytes.len()),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}

/// Behind a frame of each type that is looked into.
fn topics_record(bytes: &[u8]) {
    for record_type in [2, 3, 5, 9] {
        for version in 0..3 {
            let framed = [&[1, record_type, version], bytes].concat();
            match TopicsRecord::decode(&framed) {
                Ok(record) => assert_ne!(record, TopicsRecord::Other),
                Err(reason) => assert!(!reason.to_string().is_empty()),
            }
        }
    }
}

fn producer_snapshot(bytes: &[u8]) {
    if let Some(snapshot) = check(ProducerSnapshot::decode(bytes), bytes) {
        assert!(snapshot.entries().len() <= bytes.len() / 46);
        for entry in snapshot.entries() {
            entry.fields();
        }
    }
}

fn quorum_state(bytes: &[u8]) {
    if let Some(state) = check(QuorumState::decode(bytes), bytes) {
        state.encode();
    }
}

fn record(bytes: &[u8]) {
    if let Some((record, size)) = check(Record::decode(bytes), bytes) {
        assert!(size <= bytes.len());
        let headers = record.header_iter().take_while(Result::is_ok).count();
        assert!(headers <= bytes.len());
    }
}

fn record_batch(bytes: &[u8]) {
    if let Some(header) = check(RecordBatchHeader::ref_from(bytes), bytes) {
        assert_eq!(header.as_array(), bytes[..HEADER_SIZE]);
        header.fields();
        header.size_in_bytes();
        header.last_offset();
        header.next_offset();
        header.last_sequence();
        header.compute_crc(&bytes[HEADER_SIZE..]);
    }
}

fn record_batch_reader(bytes: &[u8]) {
    let Ok(header) = RecordBatchHeader::ref_from(bytes) else {
        return;
    };
    let records = &bytes[HEADER_SIZE..];
    if let Some(iterator) = check(RecordIterator::new(header, records), bytes) {
        assert!(iterator.take_while(Result::is_ok).count() <= records.len());
    }
    let mut decompressor = Decompressor::new();
    let iterator = RecordIterator::decompress(header, records, &mut decompressor, MAX_OUTPUT);
    if let Some(iterator) = check(iterator, bytes) {
        assert!(iterator.take_while(Result::is_ok).count() <= MAX_OUTPUT + records.len());
    }
}

fn schema_messages(bytes: &[u8]) {
    for message in schema::messages() {
        for version in [-1, 0, 1, 2, 3, 4, i16::MAX] {
            if let Some((value, size)) = check(message.decode(bytes, version), bytes) {
                assert!(size <= bytes.len());
                // What was read can be written, though tags may come in another order.
                message.encode(&value, version).unwrap();
            }
        }
    }
}

fn time_index(bytes: &[u8]) {
    let index = TimeIndexRows::decode(bytes);
    for entry in index.rows() {
        entry.offset(i64::MAX);
        entry.timestamp();
    }
    let covered = index.row_count() * 12 + index.zero_tail_size() + index.ragged_size();
    assert!(covered <= bytes.len());
}

fn varints(bytes: &[u8]) {
    let sizes = [
        varint::read_varint(bytes).map(|(_, size)| size),
        varint::read_varlong(bytes).map(|(_, size)| size),
        varint::read_uvarint(bytes).map(|(_, size)| size),
    ];
    for size in sizes.into_iter().flatten() {
        assert!((1..=10).contains(&size) && size <= bytes.len());
    }
}

fn decode_all(bytes: &[u8]) {
    for (_, decode) in DECODERS {
        decode(bytes);
    }
}

/// Bytes that get further than random ones: text of numbers, small integers, many zeros.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let any_bytes = prop::collection::vec(any::<u8>(), 0..400);
    let small = prop::collection::vec(prop_oneof![Just(0_u8), 0..4_u8, Just(0xff)], 0..400);
    let lines = "([01]\n)?([0-9]{1,3}\n)?([a-z.-]{0,9} ?-?[0-9]{0,20} ?[0-9]{0,20}\n){0,6}";
    let names = "[0-9]{0,20}(-[0-9]{0,10})?\\.[a-z]{0,9}(\\.(deleted|swap|cleaned))?";
    prop_oneof![
        2 => any_bytes,
        2 => small,
        1 => lines.prop_map(String::into_bytes),
        1 => names.prop_map(String::into_bytes),
        1 => "\\PC{0,200}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in bytes()) {
        decode_all(&bytes);
    }

    /// A good batch header in front, so that what is behind it is looked into.
    #[test]
    fn any_bytes_behind_a_header_are_decoded_or_refused(
        bytes in bytes(),
        attributes in 0..16_u8,
        count in 0..20_i32,
        legacy in any::<bool>(),
    ) {
        let mut batch;
        if legacy {
            let size = i32::try_from(bytes.len()).unwrap() + 14;
            batch = vec![0; 8];
            batch.extend(size.to_be_bytes());
            batch.extend([0, 0, 0, 0, attributes & 1, attributes >> 1]);
            batch.extend((-1_i32).to_be_bytes());
            batch.extend(i32::try_from(bytes.len()).unwrap().to_be_bytes());
        } else {
            batch = vec![0; HEADER_SIZE];
            batch[16] = 2;
            batch[22] = attributes;
            batch[57..61].copy_from_slice(&count.to_be_bytes());
        }
        batch.extend(&bytes);
        record_batch_reader(&batch);
        legacy_record(&batch);
        legacy_record_set(&batch);
    }

    #[test]
    fn any_bytes_are_walked(bytes in bytes()) {
        Scratch::new().walk(&bytes);
    }
}

/// Real files, each with some of its bytes changed: almost right is where decoders go wrong.
#[test]
fn real_files_with_wrong_bytes_are_decoded_or_refused() {
    let mut noise = Noise(0x5eed);
    let mut tried = 0;
    for partition in [
        "s02-txn-tv2/data/tx-1",
        "s02-txn-tv2/data/__transaction_state-1",
        "s02-txn-tv2/data",
        "s11-kraft-metadata/data/__cluster_metadata-0",
        "s11-share-group/data/__share_group_state-0",
        "s10-legacy-1.1.1/data/magic0-snappy-0",
        "s10-legacy-1.1.1/data/magic1-lz4-0",
        "s01-idempotent/data/idem-recompressed-0",
    ] {
        for entry in fs::read_dir(fixtures().join(partition))
            .into_iter()
            .flatten()
        {
            let path = entry.unwrap().path();
            if !path.is_file() {
                continue;
            }
            let whole = fs::read(&path).unwrap();
            // Batches one by one, so that damage of the first does not hide the others.
            let is_log = path.extension().is_some_and(|it| it == "log");
            let pieces: Vec<&[u8]> = if is_log {
                let batches = segments::batches_of(&whole);
                batches
                    .iter()
                    .take(25)
                    .map(|(at, size)| &whole[*at..at + size])
                    .collect()
            } else {
                vec![&whole[..whole.len().min(4096)]]
            };
            for piece in pieces {
                decode_all(piece);
                decode_all(piece.get(HEADER_SIZE..).unwrap_or_default());
                for _ in 0..4 {
                    let mut wrong = piece.to_vec();
                    for _ in 0..1 + noise.next() % 4 {
                        let len = wrong.len().max(1) as u64;
                        let at = usize::try_from(noise.next() % len).unwrap();
                        if let Some(byte) = wrong.get_mut(at) {
                            *byte = noise.next().to_be_bytes()[0];
                        }
                    }
                    decode_all(&wrong);
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn each_decoder_is_listed_once() {
    let names: Vec<&str> = DECODERS.iter().map(|(name, _)| *name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(names, sorted);
}
