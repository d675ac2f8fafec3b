//! Partition directories for races, the same bytes on every run.
//!
//! | folder     | what                                                                         |
//! |------------|------------------------------------------------------------------------------|
//! | `large-0`  | 2 GiB in two segments: 16 records of 1 KiB a batch, 10 idempotent producers  |
//! | `middle-0` | 512 MiB: 4 records of 1 KiB a batch, 10 idempotent producers                 |
//! | `tiny-0`   | 512 MiB: 1 to 5 records of 100 bytes a batch, 10 idempotent producers        |
//! | `txn-0`    | 512 MiB: the same in transactions of 50 producers, with COMMIT and ABORT markers |
//! | `index-0`  | 4 MiB as `tiny-0`, for checks of index files                                 |
//! | `lz4-0`    | 128 MiB: batches as in `large-0`, of text, compressed                        |
//! | `zstd-0`   | 128 MiB: the same                                                            |
//!
//! Every segment has its `.index` and `.timeindex`, an entry every 4096 bytes as a broker writes
//! them, and `txn-0` its `.txnindex`, without which it would be a damaged log. There are no
//! `.snapshot` files.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use kseg::format::compression::compress;
use kseg::format::control_record::ControlRecordType;
use kseg::format::record::Record;
use kseg::format::record_batch::{
    Attributes, CompressionType, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, RecordBatchFields,
    RecordBatchHeader,
};
use kseg::log::Io;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::report::rebuild::{RebuildOptions, SideFileKind, SnapshotsAt, rebuild};

use crate::Result;

const MIB: u64 = 1024 * 1024;
const START_TIME_MS: i64 = 1_700_000_000_000;
const INDEX_INTERVAL_BYTES: u64 = 4096;
/// Record values are cut from this many random bytes.
const POOL_SIZE: usize = 1024 * 1024;

/// What a partition is made of.
struct Shape {
    name: &'static str,
    segments: u64,
    segment_bytes: u64,
    records: (u32, u32),
    value_size: usize,
    producers: usize,
    is_transactional: bool,
    codec: CompressionType,
}

const SHAPES: [Shape; 7] = [
    Shape {
        name: "large-0",
        segments: 2,
        segment_bytes: 1024 * MIB,
        records: (16, 16),
        value_size: 1010,
        producers: 10,
        is_transactional: false,
        codec: CompressionType::NONE,
    },
    Shape {
        name: "middle-0",
        segments: 1,
        segment_bytes: 512 * MIB,
        records: (4, 4),
        value_size: 1010,
        producers: 10,
        is_transactional: false,
        codec: CompressionType::NONE,
    },
    Shape {
        name: "tiny-0",
        segments: 1,
        segment_bytes: 512 * MIB,
        records: (1, 5),
        value_size: 92,
        producers: 10,
        is_transactional: false,
        codec: CompressionType::NONE,
    },
    Shape {
        name: "txn-0",
        segments: 1,
        segment_bytes: 512 * MIB,
        records: (1, 5),
        value_size: 92,
        producers: 50,
        is_transactional: true,
        codec: CompressionType::NONE,
    },
    Shape {
        name: "index-0",
        segments: 1,
        segment_bytes: 4 * MIB,
        records: (1, 5),
        value_size: 92,
        producers: 10,
        is_transactional: false,
        codec: CompressionType::NONE,
    },
    Shape {
        name: "lz4-0",
        segments: 1,
        segment_bytes: 128 * MIB,
        records: (16, 16),
        value_size: 1010,
        producers: 10,
        is_transactional: false,
        codec: CompressionType::LZ4,
    },
    Shape {
        name: "zstd-0",
        segments: 1,
        segment_bytes: 128 * MIB,
        records: (16, 16),
        value_size: 1010,
        producers: 10,
        is_transactional: false,
        codec: CompressionType::ZSTD,
    },
];

/// Writes all data sets below `folder`.
pub(crate) fn all(folder: &Path, divisor: u64) -> Result<()> {
    for shape in &SHAPES {
        let partition = folder.join(shape.name);
        fs::create_dir_all(&partition)?;
        Partition::new(shape).write(&partition, shape.segment_bytes / divisor)?;
        if shape.is_transactional {
            write_txn_indexes(&partition)?;
        }
    }
    Ok(())
}

fn write_txn_indexes(partition: &Path) -> Result<()> {
    let options = RebuildOptions {
        io: Io::Mmap,
        from_scratch: true,
        expiration: None,
        index_interval_bytes: INDEX_INTERVAL_BYTES,
        snapshots_at: SnapshotsAt::BasesAndEnd,
    };
    let dir = PartitionDir::open(partition)?;
    rebuild(&dir, CheckpointedOffsets::default(), options, |file| {
        if file.kind == SideFileKind::TxnIndex {
            fs::write(partition.join(file.kind.file_name(file.offset)), file.bytes)?;
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    Ok(())
}

/// The `.log` files below `folder`, sorted.
pub(crate) fn segments(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for shape in &SHAPES {
        logs.extend(logs_in(&folder.join(shape.name))?);
    }
    logs.sort();
    Ok(logs)
}

/// The `.log` files of one data set, sorted.
pub(crate) fn logs_in(partition: &Path) -> Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(partition)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            logs.push(path);
        }
    }
    logs.sort();
    Ok(logs)
}

/// Steele, Lea and Flood's splitmix64: enough for data that only has to be irregular.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: u32, high: u32) -> u32 {
        let span = u64::from(high - low) + 1;
        low + u32::try_from(self.next() % span).unwrap_or(0)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.next() % (length as u64)).unwrap_or(0)
    }
}

/// One event as applications write them: repeated keys, irregular values.
fn text(random: &mut Random, pool: &mut Vec<u8>) {
    const KINDS: [&str; 5] = ["created", "paid", "shipped", "returned", "cancelled"];
    let kind = KINDS
        .get(random.index(KINDS.len()))
        .copied()
        .unwrap_or_default();
    let (id, customer, cents) = (
        random.next(),
        random.next() % 10_000,
        random.next() % 100_000,
    );
    let event = format!(
        "{{\"order\":\"{id:016x}\",\"event\":\"{kind}\",\"customer\":{customer},\"cents\":{cents}}}"
    );
    pool.extend_from_slice(event.as_bytes());
}

/// A producer, and how many batches its transaction will still have.
#[derive(Clone)]
struct Producer {
    id: i64,
    epoch: i16,
    next_sequence: i32,
    batches_to_end: u32,
}

/// A partition while it is written.
struct Partition<'a> {
    shape: &'a Shape,
    random: Random,
    pool: Vec<u8>,
    producers: Vec<Producer>,
    next_offset: i64,
    records: Vec<u8>,
    plain: Vec<u8>,
}

impl<'a> Partition<'a> {
    fn new(shape: &'a Shape) -> Self {
        let mut random = Random(shape.producers as u64);
        let mut pool = Vec::with_capacity(POOL_SIZE);
        while pool.len() < POOL_SIZE {
            if shape.codec == CompressionType::NONE {
                pool.extend_from_slice(&random.next().to_be_bytes());
            } else {
                text(&mut random, &mut pool);
            }
        }
        let producers = (1000..)
            .take(shape.producers)
            .map(|id| Producer {
                id,
                epoch: 0,
                next_sequence: 0,
                batches_to_end: 0,
            })
            .collect();
        Self {
            shape,
            random,
            pool,
            producers,
            next_offset: 0,
            records: Vec::new(),
            plain: Vec::new(),
        }
    }

    fn write(&mut self, partition: &Path, segment_bytes: u64) -> Result<()> {
        for _ in 0..self.shape.segments {
            let mut segment = Segment::create(partition, self.next_offset)?;
            while segment.position < segment_bytes {
                self.next_batch(&mut segment)?;
            }
            segment.finish(self.next_offset)?;
        }
        Ok(())
    }

    /// A batch of some producer, or the marker that ends its transaction.
    fn next_batch(&mut self, segment: &mut Segment) -> Result<()> {
        let n = self.random.index(self.producers.len());
        let Some(mut producer) = self.producers.get(n).cloned() else {
            return Ok(());
        };
        if self.shape.is_transactional && producer.batches_to_end == 1 {
            self.marker(segment, &producer)?;
            producer.batches_to_end = 0;
        } else {
            if producer.batches_to_end == 0 {
                producer.batches_to_end = self.random.between(3, 9);
            }
            producer.batches_to_end -= 1;
            producer.next_sequence = self.data(segment, &producer)?;
            if !self.shape.is_transactional {
                producer.batches_to_end = 0;
            }
        }
        if let Some(slot) = self.producers.get_mut(n) {
            *slot = producer;
        }
        Ok(())
    }

    /// Returns the producer's next sequence.
    fn data(&mut self, segment: &mut Segment, producer: &Producer) -> Result<i32> {
        let (low, high) = self.shape.records;
        let count = i32::try_from(self.random.between(low, high))?;
        self.records.clear();
        for offset_delta in 0..count {
            let start = self.random.index(POOL_SIZE - self.shape.value_size);
            let value = self.pool.get(start..start + self.shape.value_size);
            let record = Record {
                attributes: 0,
                timestamp_delta: 0,
                offset_delta,
                key: None,
                value,
                headers: &[],
                header_count: 0,
            };
            record.encode(&mut self.records);
        }
        let mut attributes = Attributes::default();
        if self.shape.is_transactional {
            attributes.0 |= Attributes::TRANSACTIONAL_FLAG_MASK;
        }
        if self.shape.codec != CompressionType::NONE {
            attributes.0 |= i16::from(self.shape.codec.0);
            std::mem::swap(&mut self.plain, &mut self.records);
            self.records.clear();
            compress(
                self.shape.codec,
                None,
                MAGIC_V2,
                &self.plain,
                &mut self.records,
            )?;
        }
        self.append(segment, producer, attributes, producer.next_sequence, count)?;
        Ok(producer.next_sequence.wrapping_add(count) & i32::MAX)
    }

    /// One marker in ten aborts.
    fn marker(&mut self, segment: &mut Segment, producer: &Producer) -> Result<()> {
        let control_type = if self.random.between(1, 10) == 1 {
            ControlRecordType::ABORT
        } else {
            ControlRecordType::COMMIT
        };
        // int16 version 0, int32 coordinatorEpoch 0.
        let value = [0; 6];
        self.records.clear();
        let record = Record {
            attributes: 0,
            timestamp_delta: 0,
            offset_delta: 0,
            key: Some(&control_type.encode_key()),
            value: Some(&value),
            headers: &[],
            header_count: 0,
        };
        record.encode(&mut self.records);
        let marks = Attributes::TRANSACTIONAL_FLAG_MASK | Attributes::CONTROL_FLAG_MASK;
        self.append(segment, producer, Attributes(marks), -1, 1)
    }

    fn append(
        &mut self,
        segment: &mut Segment,
        producer: &Producer,
        attributes: Attributes,
        base_sequence: i32,
        count: i32,
    ) -> Result<()> {
        let base_offset = self.next_offset;
        // A batch a millisecond.
        let timestamp = START_TIME_MS + base_offset;
        let mut fields = RecordBatchFields {
            base_offset,
            batch_length: i32::try_from(HEADER_SIZE - LOG_OVERHEAD + self.records.len())?,
            partition_leader_epoch: 0,
            magic: MAGIC_V2,
            crc: 0,
            attributes,
            last_offset_delta: count - 1,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence,
            records_count: count,
        };
        fields.crc = RecordBatchHeader::from(fields).compute_crc(&self.records);
        self.next_offset += i64::from(count);
        segment.append(&RecordBatchHeader::from(fields), &self.records)
    }
}

/// A segment while it is written.
struct Segment {
    base_offset: i64,
    log: BufWriter<File>,
    index: BufWriter<File>,
    time_index: BufWriter<File>,
    position: u64,
    bytes_since_last_index_entry: u64,
    max_timestamp: i64,
    indexed_timestamp: i64,
}

impl Segment {
    fn create(partition: &Path, base_offset: i64) -> Result<Self> {
        let file = |suffix: &str| {
            File::create(partition.join(format!("{base_offset:020}.{suffix}"))).map(BufWriter::new)
        };
        Ok(Self {
            base_offset,
            log: file("log")?,
            index: file("index")?,
            time_index: file("timeindex")?,
            position: 0,
            bytes_since_last_index_entry: 0,
            max_timestamp: -1,
            indexed_timestamp: -1,
        })
    }

    fn append(&mut self, header: &RecordBatchHeader, records: &[u8]) -> Result<()> {
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp());
        if self.bytes_since_last_index_entry > INDEX_INTERVAL_BYTES {
            let offset = self.relative(header.last_offset())?;
            self.index.write_all(&offset)?;
            self.index
                .write_all(&u32::try_from(self.position)?.to_be_bytes())?;
            // The newest timestamp is that of this batch.
            self.time_entry(offset)?;
            self.bytes_since_last_index_entry = 0;
        }
        self.log.write_all(&header.as_array())?;
        self.log.write_all(records)?;
        let size = (HEADER_SIZE + records.len()) as u64;
        self.position += size;
        self.bytes_since_last_index_entry += size;
        Ok(())
    }

    fn time_entry(&mut self, offset: [u8; 4]) -> Result<()> {
        if self.max_timestamp > self.indexed_timestamp {
            self.time_index
                .write_all(&self.max_timestamp.to_be_bytes())?;
            self.time_index.write_all(&offset)?;
            self.indexed_timestamp = self.max_timestamp;
        }
        Ok(())
    }

    fn relative(&self, offset: i64) -> Result<[u8; 4]> {
        Ok(u32::try_from(offset - self.base_offset)?.to_be_bytes())
    }

    /// The last entry of a time index is written when its segment is closed.
    fn finish(mut self, next_offset: i64) -> Result<()> {
        let last = self.relative(next_offset - 1)?;
        self.time_entry(last)?;
        self.log.flush()?;
        self.index.flush()?;
        self.time_index.flush()?;
        Ok(())
    }
}
