//! The first corpus of every target, cut out of the files that Kafka wrote: `fixtures/`, `cases/`
//! and the samples of the codecs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kseg::format::compression::Decompressor;
use kseg::format::file_name::{LogDirFileName, LogFileKind, LogFileName, PartitionDirName};
use kseg::format::internal_topic::InternalTopic;
use kseg::format::legacy_record::LegacyRecord;
use kseg::format::legacy_record_set::LegacyRecordSet;
use kseg::format::record::Record;
use kseg::format::record_batch::{CompressionType, HEADER_SIZE, RecordBatchHeader};
use kseg::format::record_batch_reader::RecordIterator;
use kseg::format::schema::{self, CoordinatorRecordType, MetadataRecordType};
use kseg::format::varint::read_uvarint;
use kseg::log::Io;
use kseg::log::batches::{BatchWalk, Entry};
use kseg::log::mapped_file::MappedFile;

/// No seed is longer; a segment is cut.
pub const MAX_SIZE: usize = 16 * 1024;
/// Seeds of one target at most, and those that one file may give.
const MAX_COUNT: usize = 400;
const MAX_FROM_FILE: usize = 6;
/// A batch is decompressed up to this many bytes.
const MAX_OUTPUT: usize = 1 << 20;

/// Seeds by target.
#[derive(Debug, Default)]
pub struct Seeds {
    by_target: BTreeMap<&'static str, BTreeSet<Vec<u8>>>,
    from_file: BTreeMap<&'static str, usize>,
}

impl Seeds {
    /// The seeds that the files in `root`, the root of the repository, give.
    #[must_use]
    pub fn collect(root: &Path) -> Self {
        let mut seeds = Self::default();
        for folder in ["fixtures", "cases"] {
            for path in files_below(&root.join(folder)) {
                seeds.from_file.clear();
                seeds.file(&path);
            }
        }
        for path in files_below(&root.join("tests/data/compression")) {
            seeds.from_file.clear();
            seeds.codec_sample(&path);
        }
        seeds.from_file.clear();
        seeds.schemas();
        seeds
    }

    /// Targets with their seeds.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &BTreeSet<Vec<u8>>)> {
        self.by_target
            .iter()
            .map(|(target, seeds)| (*target, seeds))
    }

    fn add(&mut self, target: &'static str, seed: &[u8]) {
        let from_file = self.from_file.entry(target).or_default();
        let seeds = self.by_target.entry(target).or_default();
        if *from_file < MAX_FROM_FILE && seeds.len() < MAX_COUNT && seed.len() <= MAX_SIZE {
            *from_file += usize::from(seeds.insert(seed.to_vec()));
        }
    }

    fn file(&mut self, path: &Path) {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        let folder = path.parent().and_then(|folder| folder.file_name());
        let folder = folder.and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(bytes) = fs::read(path) else {
            return;
        };
        let is_ours = match LogDirFileName::parse(name) {
            LogDirFileName::MetaProperties => self.whole("meta_properties", &bytes),
            LogDirFileName::CleanShutdown => self.whole("clean_shutdown", &bytes),
            LogDirFileName::BootstrapCheckpoint => self.log(path, folder, &bytes),
            LogDirFileName::RecoveryPointOffsetCheckpoint
            | LogDirFileName::ReplicationOffsetCheckpoint
            | LogDirFileName::LogStartOffsetCheckpoint
            | LogDirFileName::CleanerOffsetCheckpoint => self.whole("checkpoint", &bytes),
            LogDirFileName::Lock
            | LogDirFileName::RemoteLogIndexCache
            | LogDirFileName::RlmmCommittedOffsets => true,
            LogDirFileName::Temporary(_) | LogDirFileName::Unknown(_) => {
                self.partition_file(path, folder, name, &bytes)
            }
        };
        if is_ours {
            self.add("file_name", name.as_bytes());
            self.from_file.remove("file_name");
            if PartitionDirName::parse(folder).is_some() {
                self.add("file_name", folder.as_bytes());
            }
        }
    }

    fn partition_file(&mut self, path: &Path, folder: &str, name: &str, bytes: &[u8]) -> bool {
        match LogFileName::parse(name).kind {
            LogFileKind::Log(_) | LogFileKind::KRaftSnapshot(_) => self.log(path, folder, bytes),
            LogFileKind::OffsetIndex(_) => self.whole("offset_index", bytes),
            LogFileKind::TimeIndex(_) => self.whole("time_index", bytes),
            LogFileKind::TransactionIndex(_) => self.whole("aborted_txn", bytes),
            LogFileKind::ProducerSnapshot(_) => self.whole("producer_snapshot", bytes),
            LogFileKind::LeaderEpochCheckpoint => self.whole("leader_epoch_checkpoint", bytes),
            LogFileKind::PartitionMetadata => self.whole("partition_metadata", bytes),
            LogFileKind::QuorumState => self.whole("quorum_state", bytes),
            LogFileKind::KRaftSnapshotPart(_, _)
            | LogFileKind::RemoteLogSnapshot
            | LogFileKind::NotANumber(_) => true,
            LogFileKind::Unknown(_) => false,
        }
    }

    fn whole(&mut self, target: &'static str, bytes: &[u8]) -> bool {
        self.add(target, bytes.get(..MAX_SIZE).unwrap_or(bytes));
        true
    }

    fn log(&mut self, path: &Path, folder: &str, bytes: &[u8]) -> bool {
        self.whole("walk", bytes);
        let topic = PartitionDirName::parse(folder).map(|name| name.topic);
        let topic = topic.and_then(|topic| InternalTopic::from_name(&topic));
        let Ok(file) = MappedFile::open(path, Io::Mmap) else {
            return true;
        };
        let mut walk = BatchWalk::new(&file);
        while let Some(Ok(entry)) = walk.next_entry() {
            let (position, size) = match entry {
                Entry::Batch(batch) => (batch.position, batch.size_in_bytes()),
                Entry::Legacy(entry) => (entry.position, entry.size_in_bytes()),
                Entry::Damage(_) => continue,
            };
            let is_legacy = matches!(entry, Entry::Legacy(_));
            let (Ok(start), Ok(size)) = (usize::try_from(position), usize::try_from(size)) else {
                continue;
            };
            let Some(bytes) = bytes.get(start..start + size) else {
                continue;
            };
            if is_legacy {
                self.legacy_entry(bytes);
            } else {
                self.batch(bytes, topic);
            }
        }
        true
    }

    fn batch(&mut self, bytes: &[u8], topic: Option<InternalTopic>) {
        self.add("batch", bytes);
        let (Ok(header), Some(stored)) =
            (RecordBatchHeader::ref_from(bytes), bytes.get(HEADER_SIZE..))
        else {
            return;
        };
        let attributes = header.attributes();
        self.stream(attributes.compression_type(), stored);
        let mut decompressor = Decompressor::new();
        let records = RecordIterator::decompress(header, stored, &mut decompressor, MAX_OUTPUT);
        for record in records.into_iter().flatten().flatten() {
            let record = record.record;
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            self.add("record", &bytes);
            if attributes.is_control() {
                self.control(&record);
            } else if let Some(topic) = topic {
                self.internal(topic, &record);
            }
        }
    }

    fn stream(&mut self, codec: CompressionType, bytes: &[u8]) {
        match codec {
            CompressionType::GZIP => self.add("gzip", bytes),
            CompressionType::SNAPPY => self.add("snappy", bytes),
            CompressionType::LZ4 => self.add("lz4", bytes),
            CompressionType::ZSTD => self.add("zstd", bytes),
            CompressionType(_) => {}
        }
    }

    fn legacy_entry(&mut self, bytes: &[u8]) {
        self.add("legacy", bytes);
        let Ok(entry) = LegacyRecord::decode(bytes) else {
            return;
        };
        let codec = entry.header.compression_type();
        self.stream(codec, entry.value.unwrap_or_default());
        if codec != CompressionType::NONE {
            let mut decompressor = Decompressor::new();
            let set = LegacyRecordSet::new(entry, &mut decompressor, MAX_OUTPUT);
            for inner in set.into_iter().flatten().flatten() {
                self.add("legacy", inner.record.entry);
            }
        }
    }

    fn control(&mut self, record: &Record<'_>) {
        let key = record.key.unwrap_or_default();
        let Ok(key_size) = u8::try_from(key.len()) else {
            return;
        };
        let value = record.value.unwrap_or_default();
        self.add("control_record", &[&[key_size], key, value].concat());
    }

    fn internal(&mut self, topic: InternalTopic, record: &Record<'_>) {
        let index = InternalTopic::ALL.iter().position(|other| *other == topic);
        let index = index.and_then(|index| u8::try_from(index).ok());
        let index = index.unwrap_or_default();
        let key_size = record
            .key
            .map_or(u16::MAX, |key| u16::try_from(key.len()).unwrap_or(u16::MAX));
        let [k0, k1] = key_size.to_be_bytes();
        let choice = if record.value.is_none() {
            index | 0x80
        } else {
            index
        };
        let (key, value) = (
            record.key.unwrap_or_default(),
            record.value.unwrap_or_default(),
        );
        self.add("internal_record", &[&[choice, k0, k1], key, value].concat());
        match topic {
            InternalTopic::ClusterMetadata => self.framed(schema::metadata::RECORD_TYPES, value),
            InternalTopic::RemoteLogMetadata => {
                self.framed(schema::remote_log_metadata::RECORD_TYPES, value);
            }
            InternalTopic::ConsumerOffsets
            | InternalTopic::TransactionState
            | InternalTopic::ShareGroupState => self.coordinator(topic, key, value),
        }
    }

    fn coordinator(&mut self, topic: InternalTopic, key: &[u8], value: &[u8]) {
        let tables: &[&[CoordinatorRecordType]] = match topic {
            InternalTopic::TransactionState => &[schema::transaction_coordinator::RECORD_TYPES],
            InternalTopic::ShareGroupState => &[schema::share_coordinator::RECORD_TYPES],
            InternalTopic::ConsumerOffsets
            | InternalTopic::ClusterMetadata
            | InternalTopic::RemoteLogMetadata => &[
                schema::group_coordinator::RECORD_TYPES,
                schema::share_group::RECORD_TYPES,
                schema::streams_group::RECORD_TYPES,
            ],
        };
        let Some((&[t0, t1], key)) = key.split_first_chunk::<2>() else {
            return;
        };
        let id = i16::from_be_bytes([t0, t1]);
        let mut all = tables.iter().flat_map(|table| table.iter());
        let Some(record_type) = all.find(|record_type| record_type.id == id) else {
            return;
        };
        self.message(record_type.key.name, 0, key);
        if let Some((&[v0, v1], value)) = value.split_first_chunk::<2>() {
            let version = i16::from_be_bytes([v0, v1]);
            self.message(record_type.value.name, version, value);
        }
    }

    fn framed(&mut self, table: &[MetadataRecordType], value: &[u8]) {
        let mut rest = value;
        let mut numbers = [0i16; 3];
        for number in &mut numbers {
            let Some((found, size)) = read_uvarint(rest) else {
                return;
            };
            *number = i16::try_from(found).unwrap_or(i16::MAX);
            rest = rest.get(size..).unwrap_or_default();
        }
        let [_, id, version] = numbers;
        if let Some(record_type) = table.iter().find(|record_type| record_type.id == id) {
            self.message(record_type.message.name, version, rest);
        }
    }

    fn message(&mut self, name: &str, version: i16, bytes: &[u8]) {
        let found = schema::messages().enumerate();
        let Some((index, message)) = found.into_iter().find(|(_, other)| other.name == name) else {
            return;
        };
        let version = version.checked_sub(message.versions.first);
        if let (Ok(index), Some(Ok(version))) = (u8::try_from(index), version.map(u8::try_from)) {
            self.add("schema", &[&[index, version], bytes].concat());
        }
    }

    /// Zeros for every version of every message, so that each is reached.
    fn schemas(&mut self) {
        for message in schema::messages() {
            for version in message.versions.first..=message.versions.last {
                self.message(message.name, version, &[0; 96]);
                self.from_file.clear();
            }
        }
    }

    /// Samples are named `PAYLOAD.CODEC.LEVEL.MAGIC`.
    fn codec_sample(&mut self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str());
        let codec = name.and_then(|name| name.split('.').nth(1));
        let codecs = [
            CompressionType::GZIP,
            CompressionType::SNAPPY,
            CompressionType::LZ4,
            CompressionType::ZSTD,
        ];
        let codec = codecs.into_iter().find(|known| Some(known.name()) == codec);
        if let (Some(codec), Ok(bytes)) = (codec, fs::read(path)) {
            self.stream(codec, &bytes);
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
