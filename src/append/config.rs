//! The configuration of a topic and a broker, as far as it decides what a log does.

use crate::format::record_batch::{CompressionType, TimestampType};

/// `log.index.size.max.bytes`, Kafka's default.
pub const DEFAULT_SEGMENT_INDEX_BYTES: i32 = 10 * 1024 * 1024;

/// `compression.type`: which codec the broker writes (`BrokerCompressionType`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokerCompressionType {
    /// The client's.
    #[default]
    Producer,
    /// This one, whatever the client used.
    Codec(CompressionType),
}

impl BrokerCompressionType {
    /// The value by Kafka's name.
    #[must_use]
    pub fn for_name(name: &str) -> Option<Self> {
        Some(match name {
            "producer" => Self::Producer,
            "uncompressed" => Self::Codec(CompressionType::NONE),
            "gzip" => Self::Codec(CompressionType::GZIP),
            "snappy" => Self::Codec(CompressionType::SNAPPY),
            "lz4" => Self::Codec(CompressionType::LZ4),
            "zstd" => Self::Codec(CompressionType::ZSTD),
            _ => return None,
        })
    }

    /// The codec of a batch that came with `source` (`BrokerCompressionType.targetCompression`).
    #[must_use]
    pub fn target(self, source: CompressionType) -> CompressionType {
        match self {
            Self::Producer => source,
            Self::Codec(codec) => codec,
        }
    }
}

/// What decides how a log behaves. The default is Kafka's (`LogConfig`).
///
/// Fields carry the names of Kafka's keys; a key this crate has no use for is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`; here also below 1 MiB.
    pub segment_bytes: i32,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// `segment.index.bytes`.
    pub segment_index_bytes: i32,
    /// `index.interval.bytes`.
    pub index_interval_bytes: i32,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub message_timestamp_after_max_ms: i64,
    /// `compression.type`.
    pub compression_type: BrokerCompressionType,
    /// `compression.gzip.level`; Kafka's default without one.
    pub compression_gzip_level: Option<i32>,
    /// `compression.lz4.level`; Kafka's default without one.
    pub compression_lz4_level: Option<i32>,
    /// `compression.zstd.level`; Kafka's default without one.
    pub compression_zstd_level: Option<i32>,
    /// `max.message.bytes`.
    pub max_message_bytes: i32,
    /// Whether `cleanup.policy` has `delete`.
    pub delete: bool,
    /// Whether `cleanup.policy` has `compact`: records need keys. Nothing is compacted here.
    pub compact: bool,
    /// `retention.ms`, -1 for ever.
    pub retention_ms: i64,
    /// `retention.bytes`, -1 for any size.
    pub retention_bytes: i64,
    /// `file.delete.delay.ms`.
    pub file_delete_delay_ms: i64,
    /// `flush.messages`.
    pub flush_messages: i64,
    /// `preallocate`.
    pub preallocate: bool,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i32,
    /// `producer.id.expiration.check.interval.ms`.
    pub producer_id_expiration_check_interval_ms: i32,
    /// Whether a flush goes to the disk. Without it the operating system writes when it likes to,
    /// and offsets count as flushed all the same.
    pub fsync: bool,
    /// Bytes of appended batches that may wait in memory, to be written to the `.log` together,
    /// which takes a fraction of the time. With 0, the default, a batch is in the file when its
    /// append returns, as Kafka has it: other processes see it, and it survives this one.
    ///
    /// With more, they are written when that many bytes of the file are complete, and the last ones
    /// with the next flush, roll, truncation or
    /// [`write_buffered`](super::PartitionLog::write_buffered), and when the log is closed or
    /// dropped. A process that is killed loses what waits, and may leave the beginning of a batch,
    /// which the next recovery cuts off, and some blocks reserved behind the end of the file, which
    /// stay with it until it is written on or truncated. What this log answers is the same, and so
    /// are the files in the end.
    pub write_buffer_bytes: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
        Self {
            segment_bytes: 1024 * 1024 * 1024,
            segment_ms: WEEK_MS,
            segment_index_bytes: DEFAULT_SEGMENT_INDEX_BYTES,
            index_interval_bytes: 4096,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: 60 * 60 * 1000,
            compression_type: BrokerCompressionType::Producer,
            compression_gzip_level: None,
            compression_lz4_level: None,
            compression_zstd_level: None,
            // A MiB, and the 12 bytes of offset and length.
            max_message_bytes: 1024 * 1024 + 12,
            delete: true,
            compact: false,
            retention_ms: WEEK_MS,
            retention_bytes: -1,
            file_delete_delay_ms: 60_000,
            flush_messages: i64::MAX,
            preallocate: false,
            producer_id_expiration_ms: 24 * 60 * 60 * 1000,
            producer_id_expiration_check_interval_ms: 600_000,
            fsync: true,
            write_buffer_bytes: 0,
        }
    }
}

impl LogConfig {
    /// The level to compress with when the broker does it.
    #[must_use]
    pub fn compression_level(&self, codec: CompressionType) -> Option<i32> {
        match codec {
            CompressionType::GZIP => self.compression_gzip_level,
            CompressionType::LZ4 => self.compression_lz4_level,
            CompressionType::ZSTD => self.compression_zstd_level,
            _ => None,
        }
    }

    /// Bytes a new `.log` file is given (`LogConfig.initFileSize`).
    #[must_use]
    pub(super) fn initial_file_size(&self) -> u64 {
        if self.preallocate {
            u64::try_from(self.segment_bytes).unwrap_or(0)
        } else {
            0
        }
    }
}
