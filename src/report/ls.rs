//! What lies in a directory: one row a partition, from names, checkpoints and batch headers.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::format::NO_TIMESTAMP;
use crate::format::file_name::{FileState, LogFileKind};
use crate::format::record_batch::{CompressionType, RecordBatchHeader, TimestampType};
use crate::log::batches::{BatchWalk, Entry, LegacyEntry};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::damage::Damage;
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::{FileEntry, PartitionDir, SegmentFiles};
use crate::log::{Error, Io};
use crate::report::retention_time::RetentionTime;
use crate::report::verify::start::Start;

/// One partition directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LsRow {
    /// Path of the directory.
    pub path: String,
    /// Topic, as the directory's name says; for `delete` and `stray` it may be cut.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// `live`, `delete`, `future` or `stray`; null if the directory has no partition's name.
    pub status: Option<&'static str>,
    /// Topic id in `partition.metadata`, the identity of the topic.
    pub topic_id: Option<String>,
    /// First offset a consumer can read: the checkpoint's, or the base of the first segment.
    pub log_start_offset: Option<i64>,
    /// High watermark in `replication-offset-checkpoint`, which may be stale.
    pub high_watermark: Option<i64>,
    /// The offset after the last batch.
    pub log_end_offset: Option<i64>,
    /// Live segments.
    pub segments: u64,
    /// Bytes of their `.log` files.
    pub size_in_bytes: u64,
    /// All batches.
    pub batches: u64,
    /// Data records by the batch headers; null where only decompressing would tell (compressed
    /// wrappers of magic 0 and 1).
    pub records: Option<u64>,
    /// Control batches.
    pub control_batches: u64,
    /// Smallest base timestamp of the batches that have one, in milliseconds.
    pub first_timestamp: Option<i64>,
    /// Largest timestamp, in milliseconds.
    pub max_timestamp: Option<i64>,
    /// Bytes in the `.log` files that are no batch.
    pub damaged_bytes: u64,
    /// The segments, if they were asked for.
    pub segment_list: Option<Vec<LsSegment>>,
    /// The files, if they were asked for.
    pub file_list: Option<Vec<LsFile>>,
    /// Segments that were gone when their turn came; the row does without them.
    #[serde(skip)]
    pub vanished: Vec<PathBuf>,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LsSegment {
    /// Name of the `.log`.
    pub file: String,
    /// Base offset, as the name says.
    pub base_offset: i64,
    /// The offset after the last batch; the base offset if there is none.
    pub next_offset: i64,
    /// Bytes of the `.log`.
    pub size_in_bytes: u64,
    /// All batches.
    pub batches: u64,
    /// Data records; null as in the partition's row.
    pub records: Option<u64>,
    /// Control batches.
    pub control_batches: u64,
    /// Smallest base timestamp of the batches that have one, in milliseconds.
    pub first_timestamp: Option<i64>,
    /// Largest timestamp, in milliseconds.
    pub max_timestamp: Option<i64>,
    /// The time that retention goes by, in milliseconds: the segment is deleted once it is older
    /// than `retention.ms` and all before it are. Null if the `.log` has vanished.
    pub retention_timestamp: Option<i64>,
    /// Where that comes from: `timeIndex`, its last entry; `batches`, where a start recovers the
    /// segment; `lastModified` of the `.log`, where none of them has a time.
    pub retention_timestamp_source: Option<&'static str>,
    /// Bytes in the `.log` that are no batch.
    pub damaged_bytes: u64,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LsFile {
    /// Name of the file.
    pub file: String,
    /// What it is, in plain words.
    pub kind: &'static str,
    /// `live`, `deleted`, `cleaned`, `swap` or `tmp`.
    pub state: &'static str,
    /// Bytes of the file.
    pub size_in_bytes: u64,
}

/// How deep to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LsOptions {
    /// How files are read.
    pub io: Io,
    /// List the segments.
    pub segments: bool,
    /// List the files.
    pub files: bool,
}

/// Walks all segments of a partition and sums up.
///
/// A segment that vanishes meanwhile is left out and named in [`LsRow::vanished`].
///
/// # Errors
/// If a file cannot be read.
pub fn ls_partition(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: LsOptions,
) -> Result<LsRow, Error> {
    dir.unless_cut(count_partition(dir, checkpoints, options))
}

fn count_partition(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: LsOptions,
) -> Result<LsRow, Error> {
    let mut total = Totals::default();
    let mut segments = Vec::new();
    let mut vanished = Vec::new();
    let mut first_base = None;
    let mut log_end_offset = None;
    let mut count = 0;
    let start = Start::of(dir, checkpoints)?;
    for (index, segment) in dir.segments.iter().enumerate() {
        let Some(totals) = segment_totals(dir, segment, options.io)? else {
            vanished.extend(dir.file(segment.log).map(|log| dir.file_path(log)));
            continue;
        };
        count += 1;
        first_base = first_base.or(Some(segment.base_offset));
        log_end_offset = Some(totals.next_offset.unwrap_or(segment.base_offset));
        total.add(&totals);
        if options.segments {
            let retention =
                RetentionTime::of(dir, &start, index, totals.max_timestamp, options.io)?;
            segments.push(totals.into_segment(dir, segment, retention));
        }
    }
    Ok(LsRow {
        path: dir.path.display().to_string(),
        topic: dir.topic().map(str::to_owned),
        partition: dir.partition(),
        status: dir.status().map(|status| status.name()),
        topic_id: dir.topic_id(options.io)?,
        log_start_offset: first_base
            .map(|base| base.max(checkpoints.log_start_offset.unwrap_or(base))),
        high_watermark: checkpoints.high_watermark,
        log_end_offset,
        segments: count,
        size_in_bytes: total.size_in_bytes,
        batches: total.batches,
        records: total.records(),
        control_batches: total.control_batches,
        first_timestamp: total.first_timestamp,
        max_timestamp: total.max_timestamp,
        damaged_bytes: total.damaged_bytes,
        segment_list: options.segments.then_some(segments),
        file_list: options.files.then(|| file_list(dir)),
        vanished,
    })
}

fn file_list(dir: &PartitionDir) -> Vec<LsFile> {
    let row = |file: &FileEntry| LsFile {
        file: file.name().into_owned(),
        kind: kind_in_words(&file.parsed.kind),
        state: match file.parsed.state {
            FileState::Live => "live",
            FileState::Deleted => "deleted",
            FileState::Cleaned => "cleaned",
            FileState::Swap => "swap",
            FileState::Temporary => "tmp",
        },
        size_in_bytes: file.size_in_bytes,
    };
    dir.files.iter().map(row).collect()
}

fn kind_in_words(kind: &LogFileKind) -> &'static str {
    match kind {
        LogFileKind::Log(_) => "record batches",
        LogFileKind::OffsetIndex(_) => "offset index",
        LogFileKind::TimeIndex(_) => "time index",
        LogFileKind::TransactionIndex(_) => "aborted transactions",
        LogFileKind::ProducerSnapshot(_) => "producer snapshot",
        LogFileKind::LeaderEpochCheckpoint => "leader epochs",
        LogFileKind::PartitionMetadata => "topic id",
        LogFileKind::QuorumState => "KRaft quorum state",
        LogFileKind::KRaftSnapshot(_) => "KRaft snapshot",
        LogFileKind::KRaftSnapshotPart(..) => "KRaft snapshot being written",
        LogFileKind::RemoteLogSnapshot => "remote log snapshot",
        LogFileKind::NotANumber(_) => "no number in front: a broker does not start with it",
        LogFileKind::Unknown(_) => "not Kafka's",
    }
}

fn segment_totals(
    dir: &PartitionDir,
    segment: &SegmentFiles,
    io: Io,
) -> Result<Option<Totals>, Error> {
    let Some(log) = dir.file(segment.log) else {
        return Ok(None);
    };
    dir.open_file(log, io)?
        .map(|file| Totals::of(&file))
        .transpose()
}

/// Sums over one segment or several.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    size_in_bytes: u64,
    batches: u64,
    records: u64,
    /// Entries whose number of records the header does not tell.
    uncounted: u64,
    control_batches: u64,
    first_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    damaged_bytes: u64,
    next_offset: Option<i64>,
}

impl Totals {
    fn of(file: &MappedFile) -> Result<Self, Error> {
        let mut totals = Self {
            size_in_bytes: file.len(),
            ..Self::default()
        };
        let mut walk = BatchWalk::new(file);
        while let Some(entry) = walk.next_entry() {
            match entry? {
                Entry::Batch(batch) => totals.batch(batch.header),
                Entry::Legacy(entry) => totals.legacy(&entry),
                Entry::Damage(damage) => totals.damage(&damage),
            }
        }
        Ok(totals)
    }

    fn batch(&mut self, header: &RecordBatchHeader) {
        self.batches += 1;
        if header.attributes().is_control() {
            self.control_batches += 1;
        } else {
            self.records += u64::try_from(header.records_count()).unwrap_or(0);
        }
        self.times(header.base_timestamp(), header.max_timestamp());
        self.next_offset = Some(header.next_offset());
    }

    fn legacy(&mut self, entry: &LegacyEntry<'_>) {
        self.batches += 1;
        let is_wrapper = entry.header.compression_type() != CompressionType::NONE;
        if is_wrapper {
            self.uncounted += 1;
        } else {
            self.records += 1;
        }
        let timestamp = entry.timestamp().unwrap_or(NO_TIMESTAMP);
        // A wrapper carries the largest time of its messages, not the first.
        let first = match entry.header.timestamp_type() {
            TimestampType::CreateTime if is_wrapper => NO_TIMESTAMP,
            TimestampType::CreateTime
            | TimestampType::LogAppendTime
            | TimestampType::NoTimestampType => timestamp,
        };
        self.times(first, timestamp);
        self.next_offset = Some(entry.header.offset().wrapping_add(1));
    }

    fn damage(&mut self, damage: &Damage) {
        self.damaged_bytes += damage.size_in_bytes;
    }

    fn times(&mut self, first: i64, max: i64) {
        if first != NO_TIMESTAMP {
            self.first_timestamp = Some(self.first_timestamp.map_or(first, |old| old.min(first)));
        }
        if max != NO_TIMESTAMP {
            self.max_timestamp = Some(self.max_timestamp.map_or(max, |old| old.max(max)));
        }
    }

    fn add(&mut self, other: &Self) {
        self.size_in_bytes += other.size_in_bytes;
        self.batches += other.batches;
        self.records += other.records;
        self.uncounted += other.uncounted;
        self.control_batches += other.control_batches;
        self.damaged_bytes += other.damaged_bytes;
        self.times(
            other.first_timestamp.unwrap_or(NO_TIMESTAMP),
            other.max_timestamp.unwrap_or(NO_TIMESTAMP),
        );
    }

    fn records(&self) -> Option<u64> {
        (self.uncounted == 0).then_some(self.records)
    }

    fn into_segment(
        self,
        dir: &PartitionDir,
        segment: &SegmentFiles,
        retention: Option<RetentionTime>,
    ) -> LsSegment {
        LsSegment {
            file: dir
                .file(segment.log)
                .map(|log| log.name().into_owned())
                .unwrap_or_default(),
            base_offset: segment.base_offset,
            next_offset: self.next_offset.unwrap_or(segment.base_offset),
            size_in_bytes: self.size_in_bytes,
            batches: self.batches,
            records: self.records(),
            control_batches: self.control_batches,
            first_timestamp: self.first_timestamp,
            max_timestamp: self.max_timestamp,
            retention_timestamp: retention.map(|it| it.timestamp),
            retention_timestamp_source: retention.map(|it| it.source.name()),
            damaged_bytes: self.damaged_bytes,
        }
    }
}

impl LsRow {
    /// The name of the directory; of a path like `.` that has none, topic and partition.
    #[must_use]
    pub fn name(&self) -> String {
        let path = Path::new(&self.path);
        match (path.file_name(), &self.topic, self.partition) {
            (Some(name), _, _) => name.to_string_lossy().into_owned(),
            (None, Some(topic), Some(partition)) => format!("{topic}-{partition}"),
            (None, _, _) => self.path.clone(),
        }
    }
}
