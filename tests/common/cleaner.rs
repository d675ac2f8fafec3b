//! A compacted log and Kafka's cleaner, written down from `Cleaner` and
//! `CleanedTransactionMetadata`, over batches as plain values.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test program compiles all of this and uses a part"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use kseg::format::control_record::{ControlRecordType, EndTransactionMarker};
use kseg::format::record_batch_builder::{
    BatchSettings, EndTransactionBatch, RecordBatchBuilder, SimpleRecord, encode_empty_batch,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A record: offset, key, and whether it has a value.
pub type Record = (i64, u8, bool);

/// A transaction: producer id, first offset, offset of its marker.
pub type Aborted = (i64, i64, i64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub first: i64,
    pub last: i64,
    pub producer: Option<i64>,
    pub content: Content,
    pub has_horizon: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Records(Vec<Record>),
    /// Whether it aborts.
    Marker(bool),
}

/// Batches by base offset of their segment.
pub type Segments = BTreeMap<i64, Vec<Batch>>;

impl Batch {
    pub fn is_marker(&self) -> bool {
        matches!(self.content, Content::Marker(_))
    }

    pub fn records(&self) -> &[Record] {
        match &self.content {
            Content::Records(records) => records,
            Content::Marker(_) => &[],
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
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
pub fn transactions<'b>(log: impl Iterator<Item = &'b Batch>) -> (Vec<Aborted>, Option<i64>) {
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

pub fn is_aborted(aborted: &[Aborted], producer: Option<i64>, offset: i64) -> bool {
    let is_in = |it: &Aborted| Some(it.0) == producer && (it.1..it.2).contains(&offset);
    aborted.iter().any(is_in)
}

/// A log that a broker has cleaned some times.
pub struct Cleaned {
    /// As it is.
    pub log: Segments,
    /// The transactions that were aborted, whatever is left of them.
    pub aborted: Vec<Aborted>,
    /// The first offset that has not been cleaned.
    pub cleaned_to: i64,
    /// What the last compaction has replaced.
    pub replaced: Segments,
}

impl Cleaned {
    pub fn new(log: Segments) -> Self {
        let (aborted, _) = transactions(log.values().flatten());
        Self {
            log,
            aborted,
            cleaned_to: 0,
            replaced: Segments::new(),
        }
    }

    /// Cleans what lies below `high_watermark`, each segment with as many others as `group` says.
    pub fn clean(&mut self, group: usize, high_watermark: i64, expired: bool) {
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

    pub fn end(&self) -> i64 {
        self.log
            .values()
            .flatten()
            .map(|it| it.last + 1)
            .max()
            .unwrap()
    }
}

/// What is written: to how many batches of what, in segments of some.
pub fn a_log() -> impl Strategy<Value = Segments> {
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
pub fn kept_of(
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

pub fn batch(first: i64, producer: Option<i64>, key: u8, is_value: bool) -> Batch {
    Batch {
        first,
        last: first,
        producer,
        content: Content::Records(vec![(first, key, is_value)]),
        has_horizon: false,
    }
}

pub fn marker(first: i64, producer: i64, aborts: bool) -> Batch {
    Batch {
        content: Content::Marker(aborts),
        ..batch(first, Some(producer), 0, true)
    }
}

pub fn path(partition: &Path, base: i64, extension: &str) -> PathBuf {
    partition.join(format!("{base:020}.{extension}"))
}

/// Writes a segment, under names with `suffix`.
pub fn put(partition: &Path, base: i64, batches: &[Batch], aborted: &[Aborted], suffix: &str) {
    let bytes: Vec<u8> = batches.iter().flat_map(Batch::bytes).collect();
    let write = |extension: &str, bytes: &[u8]| {
        let name = format!("{extension}{suffix}");
        fs::write(path(partition, base, &name), bytes).unwrap();
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
