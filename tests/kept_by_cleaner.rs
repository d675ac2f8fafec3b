//! Compacted logs, segments of which a start deletes: what Kafka's cleaner would have kept of them
//! is lost, and what it took is not. The cleaner here is written down from `Cleaner` and
//! `CleanedTransactionMetadata`, over batches as plain values.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/recover_run.rs"]
mod recover_run;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch_builder::{
    BatchSettings, EndTransactionBatch, RecordBatchBuilder, SimpleRecord, encode_empty_batch,
};
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::last_copies::{AfterStart, last_copies};
use kseg::log::offset_ranges::OffsetRanges;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::gaps::{GapKind, GapOptions, find_gaps};
use kseg::report::verify::{BeforeStart, VerifyOptions, look_before_start};
use proptest::collection::vec;
use proptest::prelude::*;
use recover_run::recover;
use tempfile::TempDir;

/// A record: offset, key, and whether it has a value.
type Record = (i64, u8, bool);

/// A transaction: producer id, first offset, offset of its marker.
type Aborted = (i64, i64, i64);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    first: i64,
    last: i64,
    producer: Option<i64>,
    content: Content,
    has_horizon: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Records(Vec<Record>),
    /// Whether it aborts.
    Marker(bool),
}

/// Batches by base offset of their segment.
type Segments = BTreeMap<i64, Vec<Batch>>;

impl Batch {
    fn is_marker(&self) -> bool {
        matches!(self.content, Content::Marker(_))
    }

    fn records(&self) -> &[Record] {
        match &self.content {
            Content::Records(records) => records,
            Content::Marker(_) => &[],
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let marker = |control_type| EndTransactionBatch {
            base_offset: self.first,
            partition_leader_epoch: 0,
            producer_id: self.producer.unwrap(),
            producer_epoch: 0,
            timestamp: 1,
            marker: EndTransactionMarker {
                control_type,
                coordinator_epoch: 0,
            },
        };
        let records = match &self.content {
            Content::Marker(true) => {
                marker(ControlRecordType::ABORT).encode(&mut bytes).unwrap();
                return bytes;
            }
            Content::Marker(false) => {
                marker(ControlRecordType::COMMIT)
                    .encode(&mut bytes)
                    .unwrap();
                return bytes;
            }
            Content::Records(records) => records,
        };
        let mut settings = BatchSettings {
            base_offset: self.first,
            partition_leader_epoch: 0,
            delete_horizon_ms: self.has_horizon.then_some(1),
            ..BatchSettings::default()
        };
        if let Some(id) = self.producer {
            settings.producer_id = id;
            settings.producer_epoch = 0;
            settings.base_sequence = i32::try_from(self.first).unwrap();
            settings.is_transactional = true;
        }
        let mut builder = RecordBatchBuilder::new(settings).unwrap();
        for (offset, key, is_value) in records {
            let record = SimpleRecord {
                timestamp: 1,
                key: Some(std::slice::from_ref(key)),
                value: is_value.then_some(b"value".as_slice()),
                ..SimpleRecord::default()
            };
            builder.append_with_offset(*offset, &record).unwrap();
        }
        builder.override_last_offset(self.last);
        if records.is_empty() {
            encode_empty_batch(builder.fields(), &mut bytes).unwrap();
        } else {
            builder.build(&mut bytes).unwrap();
        }
        bytes
    }
}

/// Of each producer first offset and marker of its transactions that were aborted, and the first
/// offset of the earliest one that goes on.
fn transactions<'b>(log: impl Iterator<Item = &'b Batch>) -> (Vec<Aborted>, Option<i64>) {
    let mut ongoing: HashMap<i64, i64> = HashMap::new();
    let mut aborted = Vec::new();
    for batch in log {
        let Some(id) = batch.producer else { continue };
        match batch.content {
            Content::Records(_) => {
                ongoing.entry(id).or_insert(batch.first);
            }
            Content::Marker(aborts) => {
                let first = ongoing.remove(&id);
                if let Some(first) = first.filter(|_| aborts) {
                    aborted.push((id, first, batch.first));
                }
            }
        }
    }
    (aborted, ongoing.into_values().min())
}

fn is_aborted(aborted: &[Aborted], producer: Option<i64>, offset: i64) -> bool {
    let is_in = |it: &Aborted| Some(it.0) == producer && (it.1..it.2).contains(&offset);
    aborted.iter().any(is_in)
}

/// A log that a broker has cleaned some times.
struct Cleaned {
    /// As it is.
    log: Segments,
    /// The transactions that were aborted, whatever is left of them.
    aborted: Vec<Aborted>,
    /// The first offset that has not been cleaned.
    cleaned_to: i64,
    /// What the last compaction has replaced.
    replaced: Segments,
}

impl Cleaned {
    fn new(log: Segments) -> Self {
        let (aborted, _) = transactions(log.values().flatten());
        Self {
            log,
            aborted,
            cleaned_to: 0,
            replaced: Segments::new(),
        }
    }

    /// Cleans what lies below `high_watermark`, each segment with as many others as `group` says.
    fn clean(&mut self, group: usize, high_watermark: i64, expired: bool) {
        let active = *self.log.keys().next_back().unwrap();
        let (_, undecided) = transactions(self.log.values().flatten());
        let upper = active
            .min(high_watermark)
            .min(undecided.unwrap_or(i64::MAX));
        let mut map: HashMap<u8, i64> = HashMap::new();
        for batch in self.log.values().flatten() {
            for (offset, key, _) in batch.records() {
                let is_mapped = (self.cleaned_to..upper).contains(offset);
                if is_mapped && !is_aborted(&self.aborted, batch.producer, *offset) {
                    map.insert(*key, *offset);
                }
            }
        }
        if upper <= self.cleaned_to {
            return;
        }
        let mut last_of_producer: HashMap<i64, i64> = HashMap::new();
        for batch in self.log.values().flatten().filter(|it| !it.is_marker()) {
            if let Some(id) = batch.producer {
                last_of_producer.insert(id, batch.last);
            }
        }
        let bases: Vec<i64> = self.log.range(..upper).map(|(base, _)| *base).collect();
        // Transactions of which a batch was seen.
        let mut seen: HashSet<i64> = HashSet::new();
        self.replaced.clear();
        for bases in bases.chunks(group) {
            let mut into = Vec::new();
            for base in bases {
                let of_it = self.log.remove(base).unwrap();
                for batch in &of_it {
                    let keeps_empty = batch.last + 1 == upper
                        || batch.producer.and_then(|id| last_of_producer.get(&id))
                            == Some(&batch.last);
                    let has_horizon = batch.has_horizon;
                    let mut batch = batch.clone();
                    match &mut batch.content {
                        Content::Marker(_) => {
                            let can_go = !seen.remove(&batch.producer.unwrap());
                            if can_go && has_horizon && expired && !keeps_empty {
                                continue;
                            }
                            batch.has_horizon |= can_go;
                        }
                        Content::Records(records) => {
                            seen.extend(batch.producer);
                            let (id, aborted) = (batch.producer, &self.aborted);
                            records.retain(|(offset, key, is_value)| {
                                let last = map.get(key).copied().unwrap_or(i64::MIN);
                                *offset >= upper
                                    || !is_aborted(aborted, id, *offset)
                                        && *offset >= last
                                        && (*is_value || !has_horizon || !expired)
                            });
                            batch.has_horizon |= records.iter().any(|it| !it.2);
                            if records.is_empty() && !keeps_empty {
                                continue;
                            }
                        }
                    }
                    into.push(batch);
                }
                self.replaced.insert(*base, of_it);
            }
            self.log.insert(bases[0], into);
        }
        self.cleaned_to = upper;
    }

    fn end(&self) -> i64 {
        self.log
            .values()
            .flatten()
            .map(|it| it.last + 1)
            .max()
            .unwrap()
    }
}

/// A partition of a broker that was stopped cleanly.
struct Partition {
    data: TempDir,
    checkpoints: CheckpointedOffsets,
}

fn path(partition: &Path, base: i64, extension: &str) -> PathBuf {
    partition.join(format!("{base:020}.{extension}"))
}

impl Partition {
    fn new(high_watermark: i64, cleaned_to: i64) -> Self {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("state-0")).unwrap();
        fs::write(data.path().join(".kafka_cleanshutdown"), b"{}").unwrap();
        let mut it = Self {
            data,
            checkpoints: CheckpointedOffsets::default(),
        };
        it.checkpoint("replication-offset-checkpoint", high_watermark);
        it.checkpoint("cleaner-offset-checkpoint", cleaned_to);
        it.checkpoints.high_watermark = Some(high_watermark);
        it.checkpoints.cleaner_offset = Some(cleaned_to);
        let epochs = it.path().join("leader-epoch-checkpoint");
        fs::write(epochs, "0\n1\n0 0\n").unwrap();
        it
    }

    fn checkpoint(&self, name: &str, offset: i64) {
        let line = format!("0\n1\nstate 0 {offset}\n");
        fs::write(self.data.path().join(name), line).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.data.path().join("state-0")
    }

    fn put(&self, base: i64, batches: &[Batch], aborted: &[Aborted], suffix: &str) {
        let bytes: Vec<u8> = batches.iter().flat_map(Batch::bytes).collect();
        let write = |extension: &str, bytes: &[u8]| {
            let name = format!("{extension}{suffix}");
            fs::write(path(&self.path(), base, &name), bytes).unwrap();
        };
        write("log", &bytes);
        write("index", &[]);
        write("timeindex", &[]);
        let mut rows = Vec::new();
        let markers: Vec<i64> = batches
            .iter()
            .filter(|it| it.is_marker())
            .map(|it| it.first)
            .collect();
        for (id, first, last) in aborted.iter().filter(|it| markers.contains(&it.2)) {
            rows.extend(0_i16.to_be_bytes());
            for number in [*id, *first, *last, *last + 1] {
                rows.extend(number.to_be_bytes());
            }
        }
        if !rows.is_empty() {
            write("txnindex", &rows);
        }
    }

    /// What a start deletes for good.
    fn lost(&self, log_end_offset: i64) -> BTreeSet<i64> {
        let dir = PartitionDir::open(&self.path()).unwrap();
        let after = AfterStart {
            dir: &dir,
            log_end_offset,
            checkpoints: self.checkpoints,
        };
        let mut told = OffsetRanges::default();
        let found = last_copies(&dir, after, &mut told, true, Io::default()).unwrap();
        let ranges = found.lost.iter().flat_map(|it| it.offsets.iter());
        ranges.flat_map(|(first, last)| first..=last).collect()
    }

    /// From the first to the last offset that `gaps` and `verify` tell as lost.
    fn told(&self) -> [Option<(i64, i64)>; 2] {
        let dir = PartitionDir::open(&self.path()).unwrap();
        let (mut by_gaps, mut by_verify) = (None, None);
        let add = |to: &mut Option<(i64, i64)>, first: i64, last: i64| {
            let (from, end) = to.unwrap_or((first, last));
            *to = Some((from.min(first), end.max(last)));
        };
        find_gaps::<Error>(&dir, self.checkpoints, &GapOptions::default(), |it| {
            if it.kind == GapKind::OffsetGap && it.is_loss() {
                add(
                    &mut by_gaps,
                    it.first_offset.unwrap(),
                    it.last_offset.unwrap(),
                );
            }
            Ok(())
        })
        .unwrap();
        let options = VerifyOptions::default();
        look_before_start(&dir, self.checkpoints, &options, |it| {
            let BeforeStart::Unreadable(it) = it else {
                return;
            };
            add(&mut by_verify, it.first_offset, it.last_offset);
        })
        .unwrap();
        [by_gaps, by_verify]
    }
}

/// What is written: to how many batches of what, in segments of some.
fn a_log() -> impl Strategy<Value = Segments> {
    let records = vec((0..4_u8, prop::bool::weighted(0.7)), 1..4);
    let step = (0..9_u8, 1..3_i64, records);
    vec((step, prop::bool::weighted(0.25)), 8..40).prop_map(|steps| {
        let mut log = Segments::new();
        let (mut at, mut base) = (0, 0);
        log.insert(0, Vec::new());
        let mut ongoing: HashSet<i64> = HashSet::new();
        for ((what, id, records), rolls) in steps {
            let offsets = at..;
            let data = |producer| Batch {
                first: at,
                last: at + i64::try_from(records.len()).unwrap() - 1,
                producer,
                content: Content::Records(
                    records
                        .iter()
                        .zip(offsets)
                        .map(|(it, offset)| (offset, it.0, it.1))
                        .collect(),
                ),
                has_horizon: false,
            };
            let batch = match what {
                0..=2 => data(None),
                3..=5 => {
                    ongoing.insert(id);
                    data(Some(id))
                }
                _ if ongoing.remove(&id) => marker(at, id, what % 2 == 0),
                _ => continue,
            };
            if rolls && at > base {
                base = at;
            }
            at = batch.last + 1;
            log.entry(base).or_default().push(batch);
        }
        log
    })
}

/// What is lost with `gone`, a segment between others that a cleaner may have replaced.
fn kept_of(
    gone: &[Batch],
    stays: &Segments,
    aborted: &[Aborted],
    (high_watermark, cleaned_to): (i64, i64),
) -> BTreeSet<i64> {
    let mut all: Vec<&Batch> = stays.values().flatten().chain(gone).collect();
    all.sort_by_key(|it| it.first);
    let (_, undecided) = transactions(all.iter().copied());
    let decided = high_watermark
        .min(undecided.unwrap_or(i64::MAX))
        .max(cleaned_to);
    let mut lost = BTreeSet::new();
    let stay = |it: &Batch| {
        stays
            .values()
            .flatten()
            .any(|other| other.first == it.first)
    };
    for batch in gone {
        let Content::Records(records) = &batch.content else {
            // The data of its producer in front of it, back to the marker before.
            let before = all
                .iter()
                .rev()
                .filter(|it| it.first < batch.first && it.producer == batch.producer);
            if before.take_while(|it| !it.is_marker()).any(|it| stay(it)) {
                lost.insert(batch.first);
            }
            continue;
        };
        for (offset, key, is_value) in records {
            if is_aborted(aborted, batch.producer, *offset) {
                continue;
            }
            let others = |of: &Batch| -> Vec<Record> {
                let records = of.records().iter().copied();
                let counts = records.filter(|it| {
                    it.1 == *key && it.0 < decided && !is_aborted(aborted, of.producer, it.0)
                });
                counts.collect()
            };
            let all_of_key: Vec<Record> = all.iter().flat_map(|it| others(it)).collect();
            let is_last = all_of_key.iter().all(|it| it.0 <= *offset);
            let newest = stays.values().flatten().flat_map(others).max();
            let comes_back = newest.is_some_and(|it| it.2);
            if *offset >= decided || is_last && (*is_value || comes_back) {
                lost.insert(*offset);
            }
        }
    }
    lost
}

fn batch(first: i64, producer: Option<i64>, key: u8, is_value: bool) -> Batch {
    Batch {
        first,
        last: first,
        producer,
        content: Content::Records(vec![(first, key, is_value)]),
        has_horizon: false,
    }
}

fn marker(first: i64, producer: i64, aborts: bool) -> Batch {
    Batch {
        content: Content::Marker(aborts),
        ..batch(first, Some(producer), 0, true)
    }
}

/// Without the marker the aborted transaction goes on, without the tombstone the value before it is
/// there again, and what comes later of the other keys is not decided, or lies behind what is not.
#[test]
fn what_a_cleaner_would_have_kept_is_named() {
    for aborts in [true, false] {
        let log = [
            (0, vec![batch(0, Some(1), 1, true), batch(1, None, 2, true)]),
            (
                10,
                vec![
                    marker(10, 1, aborts),
                    batch(11, None, 2, false),
                    batch(12, None, 3, true),
                    batch(13, None, 4, true),
                    batch(14, None, 5, false),
                ],
            ),
            (
                20,
                vec![batch(20, Some(2), 3, true), batch(21, None, 4, true)],
            ),
        ];
        let aborted = if aborts { vec![(1, 0, 10)] } else { Vec::new() };
        let partition = Partition::new(22, 20);
        for (base, batches) in &log {
            let suffix = if *base == 10 { ".deleted" } else { "" };
            partition.put(*base, batches, &aborted, suffix);
        }
        assert_eq!(partition.lost(22), BTreeSet::from([10, 11, 12, 13]));
        let run = recover(&[partition.path().as_os_str()]);
        let says = "00000000000000000010.log.deleted is the last copy here of 4 records in 10..13 \
                    that a cleaner would have kept (1 marker of a transaction that stays, 1 \
                    tombstone of a key with an older value that stays, 2 records whose keys no \
                    later one has), and a start removes it";
        for row in &run.rows {
            assert_eq!(row["losses"]["records"], 4, "{}", run.table);
            assert_eq!(row["losesData"], true, "{}", run.table);
            let warnings = row["warnings"].to_string();
            assert!(warnings.contains(says), "{warnings}");
        }
        assert_eq!(partition.told(), [Some((10, 13)); 2]);

        // A start deletes the same for a `.swap` that has nothing of it.
        let partition = Partition::new(22, 20);
        for (base, batches) in &log {
            partition.put(*base, batches, &aborted, "");
        }
        let (_, middle) = &log[1];
        partition.put(10, &middle[4..], &[], ".swap");
        let run = recover(&[partition.path().as_os_str()]);
        for row in &run.rows {
            let losses = &row["losses"];
            assert_eq!(losses["records"], 4, "{}", run.table);
            assert_eq!(losses["firstOffset"], 10, "{}", run.table);
            assert_eq!(losses["lastOffset"], 13, "{}", run.table);
            let warnings = row["warnings"].to_string();
            let says = "nothing else has them, and a cleaner would have kept them";
            assert!(warnings.contains(says), "{warnings}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A segment between others has got the suffix by hand, with all of its files.
    #[test]
    fn what_a_cleaner_would_have_kept_is_lost(
        log in a_log(),
        passes in vec((1..3_usize, any::<bool>()), 0..3),
        pick in any::<prop::sample::Index>(),
        watermark in any::<prop::sample::Index>(),
    ) {
        let mut cleaned = Cleaned::new(log);
        let end = cleaned.end();
        for (group, expired) in passes {
            cleaned.clean(group, end, expired);
        }
        let cleaned_to = cleaned.cleaned_to;
        let room = usize::try_from(end - cleaned_to + 1).unwrap();
        let high_watermark = cleaned_to + i64::try_from(watermark.index(room)).unwrap();
        let bases: Vec<i64> = cleaned.log.keys().copied().collect();
        prop_assume!(bases.len() > 2);
        let base = bases[1 + pick.index(bases.len() - 2)];
        let gone = cleaned.log.remove(&base).unwrap();
        let partition = Partition::new(high_watermark, cleaned_to.max(1));
        for (base, batches) in &cleaned.log {
            partition.put(*base, batches, &cleaned.aborted, "");
        }
        partition.put(base, &gone, &cleaned.aborted, ".deleted");
        let ends = (high_watermark, cleaned_to.max(1));
        let lost = kept_of(&gone, &cleaned.log, &cleaned.aborted, ends);
        prop_assert_eq!(&partition.lost(end), &lost);
        let all = lost.first().copied().zip(lost.last().copied());
        // What is told is from the first to the last of them, as far as it was acknowledged.
        let below = all.map(|(first, last)| (first, last.min(high_watermark - 1)));
        let below = below.filter(|(first, last)| first <= last);
        prop_assert_eq!(partition.told(), [all, below]);
    }

    /// What a compaction has replaced waits for its deletion.
    #[test]
    fn what_the_cleaner_took_is_not(
        log in a_log(),
        passes in vec((1..4_usize, any::<bool>(), 50..101_i64), 1..4),
        is_done in any::<bool>(),
    ) {
        let mut cleaned = Cleaned::new(log);
        let end = cleaned.end();
        let mut before = 0;
        for (group, expired, part) in passes {
            before = cleaned.cleaned_to;
            cleaned.clean(group, end * part / 100, expired);
        }
        prop_assume!(!cleaned.replaced.is_empty());
        // The checkpoint is written once all of the log is cleaned.
        let cleaned_to = if is_done { cleaned.cleaned_to } else { before };
        let partition = Partition::new(end, cleaned_to);
        for (base, batches) in &cleaned.log {
            partition.put(*base, batches, &cleaned.aborted, "");
        }
        for (base, batches) in &cleaned.replaced {
            partition.put(*base, batches, &cleaned.aborted, ".deleted");
        }
        prop_assert_eq!(partition.lost(end), BTreeSet::new());
        prop_assert_eq!(partition.told(), [None, None]);
    }
}
