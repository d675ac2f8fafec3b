//! A log directory that changes as under a broker: partitions that are written, truncated,
//! deleted from and cleaned, and checkpoint files that are replaced.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kseg::append::{Checkpointed, LeaderAppend, LogConfig, PartitionLog};
use kseg::format::checkpoint::{OffsetCheckpoint, OffsetCheckpointEntry};
use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch_builder::{
    BatchSettings, EndTransactionBatch, RecordBatchBuilder, SimpleRecord,
};
use kseg::state::{AppendOrigin, TransactionVersion};

use super::segments::{Noise, batches_of};

const START_MS: i64 = 1_790_000_000_000;
/// How long a deleted file stays, by the log's clock.
const DELETE_DELAY_MS: i64 = 60_000;
/// Transactional producers; others with smaller ids are idempotent only.
const FIRST_TRANSACTIONAL_ID: i64 = 100;

/// What happens to a partition beside appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// A follower's: cut back and written anew.
    Truncated,
    /// Retention and deleted records.
    Retained,
    /// Segments replaced by cleaned ones.
    Cleaned,
}

/// The checkpoint files of a log directory.
pub struct CheckpointFiles {
    root: PathBuf,
    offsets: Mutex<BTreeMap<(&'static str, String), i64>>,
}

impl CheckpointFiles {
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            offsets: Mutex::default(),
        }
    }

    fn set(&self, file: &'static str, topic: &str, offset: Option<i64>) {
        let mut offsets = self.offsets.lock().unwrap();
        let key = (file, topic.to_owned());
        match offset {
            Some(offset) => drop(offsets.insert(key, offset)),
            None => drop(offsets.remove(&key)),
        }
        let lines = offsets.iter().filter(|((name, _), _)| *name == file);
        let entries = lines
            .map(|((_, topic), offset)| OffsetCheckpointEntry {
                topic: topic.clone(),
                partition: 0,
                offset: *offset,
            })
            .collect();
        let text = OffsetCheckpoint { entries }.encode();
        let temporary = self.root.join(format!("{file}.tmp"));
        fs::write(&temporary, text).unwrap();
        fs::rename(temporary, self.root.join(file)).unwrap();
    }
}

/// One partition, written by one thread.
pub struct ChangingLog<'c> {
    topic: &'static str,
    life: Life,
    dir: PathBuf,
    checkpoints: &'c CheckpointFiles,
    /// Of the batches, where a log is truncated: inside a batch it would leave a hole.
    first_offsets: Vec<i64>,
    log: PartitionLog,
    config: LogConfig,
    noise: Noise,
    clean_up_to: i64,
}

impl<'c> ChangingLog<'c> {
    pub fn new(
        root: &Path,
        topic: &'static str,
        life: Life,
        checkpoints: &'c CheckpointFiles,
        seed: u64,
    ) -> Self {
        let dir = root.join(format!("{topic}-0"));
        let config = LogConfig {
            segment_bytes: 3000,
            segment_index_bytes: 4096,
            index_interval_bytes: 200,
            file_delete_delay_ms: DELETE_DELAY_MS,
            retention_bytes: if life == Life::Retained { 15_000 } else { -1 },
            retention_ms: -1,
            fsync: false,
            ..LogConfig::default()
        };
        let log = PartitionLog::open(&dir, config.clone(), Checkpointed::NEW, None, START_MS);
        Self {
            topic,
            life,
            dir,
            checkpoints,
            log: log.unwrap(),
            first_offsets: Vec::new(),
            config,
            noise: Noise(seed | 1),
            clean_up_to: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.noise.next() >> 11) % bound
    }

    /// Does one thing, at random.
    pub fn change(&mut self) {
        match self.below(100) {
            0..40 => self.append_idempotent(),
            40..55 => self.append_plain(),
            55..72 => self.append_transactional(),
            72..84 => self.end_transaction(),
            84..88 => drop(self.log.roll().unwrap()),
            88..92 => self.write_checkpoints(),
            92..94 => self.reopen(),
            _ => match self.life {
                Life::Truncated => self.truncate(),
                Life::Retained => self.delete(),
                Life::Cleaned => self.clean(),
            },
        }
        self.log.raise_high_watermark_to_log_end().unwrap();
        let now_ms = self.log.now_ms() + 1000;
        self.log.advance_clock_to(now_ms).unwrap();
    }

    // ---- appends ----

    fn append(&mut self, producer: Option<(i64, i16, i32)>, is_transactional: bool) {
        let (producer_id, producer_epoch, base_sequence) = producer.unwrap_or((-1, -1, -1));
        let mut builder = RecordBatchBuilder::new(BatchSettings {
            producer_id,
            producer_epoch,
            base_sequence,
            is_transactional,
            ..BatchSettings::default()
        })
        .unwrap();
        let count = 1 + self.below(4);
        let size = self.below(200) as usize;
        let value = self.noise.bytes(size);
        for _ in 0..count {
            builder
                .append(&SimpleRecord {
                    timestamp: self.log.now_ms(),
                    key: Some(b"key"),
                    value: Some(&value),
                    ..SimpleRecord::default()
                })
                .unwrap();
        }
        let mut bytes = Vec::new();
        builder.build(&mut bytes).unwrap();
        let append = LeaderAppend {
            transaction_verification_enabled: false,
            ..LeaderAppend::default()
        };
        let appended = self.log.append_as_leader(&mut bytes, &append).unwrap();
        assert!(!appended.is_duplicate);
        self.first_offsets.push(appended.first_offset);
    }

    fn append_plain(&mut self) {
        self.append(None, false);
    }

    fn append_idempotent(&mut self) {
        let producer_id = self.below(4) as i64;
        let next = self.next_sequence(producer_id);
        self.append(Some((producer_id, 0, next)), false);
    }

    fn append_transactional(&mut self) {
        let producer_id = FIRST_TRANSACTIONAL_ID + self.below(3) as i64;
        let next = self.next_sequence(producer_id);
        self.append(Some((producer_id, 0, next)), true);
    }

    /// What the log says, as for a producer that asks after each answer.
    fn next_sequence(&self, producer_id: i64) -> i32 {
        let entry = self.log.producer_state().last_entry(producer_id);
        let last = entry.and_then(|entry| entry.last_batch());
        last.map_or(0, |last| last.last_sequence + 1)
    }

    fn end_transaction(&mut self) {
        let producer_id = FIRST_TRANSACTIONAL_ID + self.below(3) as i64;
        let state = self.log.producer_state();
        if !state.has_ongoing_transaction(producer_id, 0) {
            return;
        }
        let control_type = if self.below(2) == 0 {
            ControlRecordType::ABORT
        } else {
            ControlRecordType::COMMIT
        };
        let mut bytes = Vec::new();
        EndTransactionBatch {
            base_offset: 0,
            partition_leader_epoch: 0,
            producer_id,
            producer_epoch: 0,
            timestamp: self.log.now_ms(),
            marker: EndTransactionMarker {
                control_type,
                coordinator_epoch: 1,
            },
        }
        .encode(&mut bytes)
        .unwrap();
        let append = LeaderAppend {
            origin: AppendOrigin::Coordinator,
            transaction_version: TransactionVersion(1),
            ..LeaderAppend::default()
        };
        let appended = self.log.append_as_leader(&mut bytes, &append).unwrap();
        self.first_offsets.push(appended.first_offset);
    }

    // ---- what else a broker does ----

    fn truncate(&mut self) {
        let start = self.log.offsets().log_start_offset();
        let end = self.log.log_end_offset();
        let back = self.below(40) as i64;
        let above = (end - back).max(start);
        self.first_offsets.retain(|first| *first <= above);
        let first = self.first_offsets.pop().unwrap_or(start);
        self.log.truncate_to(first.max(start)).unwrap();
        if end > 3000 {
            self.log.truncate_fully_and_start_at(end, end).unwrap();
        }
        // `LogManager.truncateTo` does so at once.
        self.write_checkpoints();
    }

    fn delete(&mut self) {
        let high_watermark = self.log.offsets().high_watermark();
        let start = self.log.offsets().log_start_offset();
        let step = self.below(20) as i64;
        self.log
            .maybe_increment_log_start_offset((start + step).min(high_watermark))
            .unwrap();
        self.log.delete_old_segments().unwrap();
        self.write_checkpoints();
    }

    fn write_checkpoints(&mut self) {
        let offsets = self.log.offsets();
        let start = offsets.log_start_offset();
        let first = self.log.segments().next().unwrap();
        let set = |file, offset| self.checkpoints.set(file, self.topic, offset);
        set(
            "log-start-offset-checkpoint",
            (start > first).then_some(start),
        );
        set(
            "replication-offset-checkpoint",
            Some(offsets.high_watermark()),
        );
        set(
            "recovery-point-offset-checkpoint",
            Some(self.log.recovery_point()),
        );
        if self.life == Life::Cleaned {
            set("cleaner-offset-checkpoint", Some(self.clean_up_to));
        }
    }

    fn reopen(&mut self) {
        self.log.close().unwrap();
        self.open_again();
    }

    fn open_again(&mut self) {
        let checkpointed = Checkpointed {
            log_start_offset: self.log.offsets().log_start_offset(),
            recovery_point: self.log.log_end_offset(),
            clean: true,
        };
        let now_ms = self.log.now_ms();
        let config = self.config.clone();
        self.log = PartitionLog::open(&self.dir, config, checkpointed, None, now_ms).unwrap();
    }

    /// `Cleaner.cleanSegments` and `LocalLog.replaceSegments`: some segments become one, under
    /// `.cleaned`, then `.swap`; the old ones are put aside, and the new one takes its place.
    fn clean(&mut self) {
        let bases: Vec<i64> = self.log.segments().collect();
        if bases.len() < 4 {
            return;
        }
        let first = self.below(bases.len() as u64 - 2) as usize;
        let count = 1 + self.below((bases.len() - 1 - first) as u64) as usize;
        let old = &bases[first..first + count];
        let next = bases[first + count];
        self.log.close().unwrap();

        let mut log = Vec::new();
        let mut aborted = Vec::new();
        for base in old {
            let bytes = fs::read(self.path(*base, "log")).unwrap();
            for (position, size) in batches_of(&bytes) {
                let batch = &bytes[position..position + size];
                // Those of producers are kept: what the cleaner must keep of them is another test.
                let is_plain = batch[43..51] == (-1_i64).to_be_bytes();
                if !is_plain || self.noise.next() & 8 == 0 {
                    log.extend_from_slice(batch);
                }
            }
            aborted.extend(fs::read(self.path(*base, "txnindex")).unwrap_or_default());
        }
        let mut made = vec![
            ("log", log),
            ("index", Vec::new()),
            ("timeindex", Vec::new()),
        ];
        if !aborted.is_empty() {
            made.push(("txnindex", aborted));
        }
        let base = old[0];
        for (kind, bytes) in &made {
            fs::write(self.path(base, &format!("{kind}.cleaned")), bytes).unwrap();
        }
        for (kind, _) in &made {
            self.rename(base, &format!("{kind}.cleaned"), &format!("{kind}.swap"));
        }
        let mut put_aside = Vec::new();
        for old in old {
            for kind in ["log", "index", "timeindex", "txnindex", "snapshot"] {
                if (kind == "snapshot" && *old == base) || !self.path(*old, kind).exists() {
                    continue;
                }
                let aside = format!("{kind}.deleted");
                self.rename(*old, kind, &aside);
                put_aside.push(self.path(*old, &aside));
            }
        }
        for (kind, _) in &made {
            self.rename(base, &format!("{kind}.swap"), kind);
        }
        self.clean_up_to = self.clean_up_to.max(next);
        self.write_checkpoints();
        for path in put_aside {
            fs::remove_file(path).unwrap();
        }
        self.open_again();
    }

    fn path(&self, base: i64, kind: &str) -> PathBuf {
        self.dir.join(format!("{base:020}.{kind}"))
    }

    fn rename(&self, base: i64, from: &str, to: &str) {
        fs::rename(self.path(base, from), self.path(base, to)).unwrap();
    }
}

/// A partition directory comes, complete, and is put aside and removed as a broker deletes a topic.
pub fn make_and_delete_a_topic(root: &Path, source: &Path, turn: u64) {
    let made = root.with_file_name("passing");
    fs::create_dir(&made).unwrap();
    let names: Vec<_> = fs::read_dir(source)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    for name in &names {
        fs::copy(source.join(name), made.join(name)).unwrap();
    }
    let dir = root.join("passing-0");
    fs::rename(&made, &dir).unwrap();
    let aside = root.join(format!("passing-0.{turn:032x}-delete"));
    fs::rename(&dir, &aside).unwrap();
    // `LogSegment.deleteIfExists`: a `.log` goes before its indexes.
    let is_log = |name: &&std::ffi::OsString| name.to_str().unwrap().ends_with(".log");
    for name in names.iter().filter(is_log) {
        fs::remove_file(aside.join(name)).unwrap();
    }
    fs::remove_dir_all(&aside).unwrap();
}
