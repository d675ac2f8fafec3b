//! Compares what `kseg dump -o ndjson` says of a file with what Kafka's dump tool printed of it.
//!
//! Kafka's rows lead: each of them must have its counterpart, in order, equal in every field that
//! both tell. A row that only kseg has is a difference as well, except where Kafka's tool stopped
//! with an exception.

use std::fmt::Debug;
use std::ops::AddAssign;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::kafka_dump::{self, Batch, Depth, ProducerSnapshotEntry, Record, Row};

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub files: usize,
    pub batches: usize,
    pub legacy_entries: usize,
    pub invalid_batches: usize,
    pub records: usize,
    pub control_records: usize,
    pub offset_index_entries: usize,
    pub time_index_entries: usize,
    pub aborted_txns: usize,
    pub producer_snapshot_entries: usize,
    pub invalid_tails: usize,
    pub corrupt_snapshots: usize,
    pub tool_exceptions: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.batches += other.batches;
        self.legacy_entries += other.legacy_entries;
        self.invalid_batches += other.invalid_batches;
        self.records += other.records;
        self.control_records += other.control_records;
        self.offset_index_entries += other.offset_index_entries;
        self.time_index_entries += other.time_index_entries;
        self.aborted_txns += other.aborted_txns;
        self.producer_snapshot_entries += other.producer_snapshot_entries;
        self.invalid_tails += other.invalid_tails;
        self.corrupt_snapshots += other.corrupt_snapshots;
        self.tool_exceptions += other.tool_exceptions;
    }
}

/// The rows of `kseg dump -o ndjson FILE`.
pub fn kseg_dump(kseg: &Path, file: &Path) -> Result<Vec<Value>, String> {
    let output = Command::new(kseg)
        .args(["dump", "-o", "ndjson"])
        .arg(file)
        .env_clear()
        .output()
        .map_err(|e| format!("{} does not run: {e}", kseg.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8(output.stdout).map_err(|e| format!("not UTF-8: {e}"))?;
    let rows = stdout
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{e}: {line}")))
        .collect::<Result<Vec<Value>, String>>()?;
    let invalid = rows.iter().any(|row| row["isValid"] == json!(false));
    match output.status.code() {
        Some(1) => Ok(rows),
        Some(0) if !invalid => Ok(rows),
        code => Err(format!("kseg ended with {code:?}: {stderr}")),
    }
}

/// Compares the rows of one data file.
pub fn compare(
    data: &Path,
    kafka: &str,
    depth: Depth,
    kseg: &[Value],
) -> Result<Counts, Vec<String>> {
    let kafka = kafka_dump::parse(kafka, depth).map_err(|e| vec![format!("Kafka's text: {e}")])?;
    let (damage, rows): (Vec<&Value>, Vec<&Value>) =
        kseg.iter().partition(|row| row["type"] == json!("damage"));
    let mut comparison = Comparison {
        data,
        rows,
        counts: Counts {
            files: 1,
            ..Counts::default()
        },
        differences: Vec::new(),
    };
    comparison.rows_with_places(&kafka);
    comparison.records(&kafka);
    comparison.damage(&kafka, &damage);
    if comparison.differences.is_empty() {
        Ok(comparison.counts)
    } else {
        Err(comparison.differences)
    }
}

struct Comparison<'a> {
    data: &'a Path,
    rows: Vec<&'a Value>,
    counts: Counts,
    differences: Vec<String>,
}

impl Comparison<'_> {
    fn differs(&mut self, what: String) {
        self.differences.push(what);
    }

    fn equal<T: PartialEq + Debug>(&mut self, what: &str, kafka: &T, kseg: &T) {
        if kafka != kseg {
            self.differs(format!("{what}: Kafka {kafka:?}, kseg {kseg:?}"));
        }
    }

    /// All rows but records, one by one.
    fn rows_with_places(&mut self, kafka: &[Row]) {
        let threw = kafka.iter().any(|row| matches!(row, Row::ToolException(_)));
        let listed = kafka.iter().any(|row| expected_of(row).is_some());
        // Kafka's tool prints the first entry of an index even if the file holds only zeros.
        let zeros = !listed_as_log(self.data)
            && std::fs::read(self.data).is_ok_and(|bytes| bytes.iter().all(|b| *b == 0));
        let mut next = 0;
        for row in kafka {
            let Some((kind, fields)) = expected_of(row) else {
                continue;
            };
            if zeros {
                continue;
            }
            self.count(row);
            match self.rows.get(next).copied() {
                Some(found) => {
                    self.fields(next, found, kind, &fields);
                    self.first_sequence(next, row, found);
                }
                None => self.differs(format!("kseg has no row {next}: {row:?}")),
            }
            next += 1;
        }
        let more = self.rows.len().saturating_sub(next);
        // In deep mode versions before 2.1 print records without lines for their batches.
        let deep_only = !listed && kafka.iter().any(|row| matches!(row, Row::Record(_)));
        // Behind damage kseg goes on where Kafka's tool stops; `damage` counts those bytes.
        let stopped = kafka
            .iter()
            .any(|row| matches!(row, Row::InvalidBytes { .. }));
        if more > 0 && !threw && !deep_only && !stopped {
            self.differs(format!(
                "{more} rows only in kseg, first {:?}",
                self.rows.get(next)
            ));
        }
    }

    fn fields(&mut self, n: usize, found: &Value, kind: &str, fields: &[(&str, Value)]) {
        let (topic, partition) = topic_partition(self.data);
        let common = [
            ("type", json!(kind)),
            ("file", json!(file_name(self.data))),
            ("topic", json!(topic)),
            ("partition", json!(partition)),
        ];
        for (key, expected) in common.iter().chain(fields) {
            match found.get(key) {
                Some(value) if value == expected => {}
                value => self.differs(format!(
                    "row {n} {key}: Kafka {expected}, kseg {}",
                    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
                )),
            }
        }
    }

    /// Kafka's tool prints the first sequence, which the file does not hold.
    fn first_sequence(&mut self, n: usize, row: &Row, found: &Value) {
        let Row::ProducerSnapshotEntry(entry) = row else {
            return;
        };
        let Some(printed) = entry.last_batch.as_ref().and_then(|b| b.first_sequence) else {
            return;
        };
        let last = found["lastSequence"].as_i64();
        let first = last
            .zip(found["offsetDelta"].as_i64())
            .map(|(last, delta)| {
                // 2147483647 precedes 0; -1 is no sequence at all.
                if last < 0 {
                    last - delta
                } else {
                    (last - delta).rem_euclid(1 << 31)
                }
            });
        self.equal(
            &format!("row {n} first sequence"),
            &Some(i64::from(printed)),
            &first,
        );
    }

    fn count(&mut self, row: &Row) {
        match row {
            Row::Batch(batch) => {
                if batch.magic_two.is_some() {
                    self.counts.batches += 1;
                } else {
                    self.counts.legacy_entries += 1;
                }
                self.counts.invalid_batches += usize::from(!batch.is_valid);
            }
            Row::OffsetIndexEntry { .. } => self.counts.offset_index_entries += 1,
            Row::TimeIndexEntry { .. } => self.counts.time_index_entries += 1,
            Row::AbortedTxn { .. } => self.counts.aborted_txns += 1,
            Row::ProducerSnapshotEntry(_) => self.counts.producer_snapshot_entries += 1,
            _ => {}
        }
    }

    /// Records tell how many a batch holds, and what a marker says.
    fn records(&mut self, kafka: &[Row]) {
        let listed = kafka.iter().any(|row| matches!(row, Row::Batch(_)));
        let mut printed = vec![0_u64; self.rows.len()];
        // The batch of a record is the line above it or, if the tool prints none, the first that
        // reaches to its offset.
        let mut n = 0;
        let mut batches = 0;
        for row in kafka {
            match row {
                Row::Batch(_) => {
                    n = batches;
                    batches += 1;
                }
                Row::Record(record) => {
                    if !listed {
                        while self.ends_before(n, record.offset) {
                            n += 1;
                        }
                    }
                    self.record(n, record, printed.get_mut(n));
                }
                _ => {}
            }
        }
        let threw = kafka.iter().any(|row| matches!(row, Row::ToolException(_)));
        if threw || !kafka.iter().any(|row| matches!(row, Row::Record(_))) {
            return;
        }
        for (n, (batch, printed)) in self.rows.clone().into_iter().zip(printed).enumerate() {
            if batch["magic"] == json!(2) {
                let count = batch["count"].as_u64();
                self.equal(&format!("row {n} records"), &Some(printed), &count);
            }
        }
    }

    fn ends_before(&self, n: usize, offset: i64) -> bool {
        self.rows
            .get(n)
            .is_some_and(|row| row["lastOffset"].as_i64() < Some(offset))
    }

    fn record(&mut self, n: usize, record: &Record, printed: Option<&mut u64>) {
        let (Some(batch), Some(printed)) = (self.rows.get(n).copied(), printed) else {
            self.differs(format!("no batch in kseg for record {}", record.offset));
            return;
        };
        *printed += 1;
        self.counts.records += 1;
        // What a damaged batch holds is anyone's guess.
        if batch["isValid"] != json!(false) {
            self.control(n, record, batch);
        }
    }

    fn control(&mut self, n: usize, record: &Record, batch: &Value) {
        let content = record.content.as_deref().unwrap_or_default();
        let (kind, epoch) = if let Some((kind, epoch)) = &record.end_txn_marker {
            (json!(kind), json!(epoch))
        } else if content.starts_with("LeaderChange") {
            (json!("LEADER_CHANGE"), Value::Null)
        } else if content.starts_with("SnapshotHeader") {
            (json!("SNAPSHOT_HEADER"), Value::Null)
        } else if content.starts_with("SnapshotFooter") {
            (json!("SNAPSHOT_FOOTER"), Value::Null)
        } else {
            (Value::Null, Value::Null)
        };
        self.counts.control_records += usize::from(!kind.is_null());
        self.equal(
            &format!("row {n} controlType"),
            &kind,
            &batch["controlType"],
        );
        self.equal(
            &format!("row {n} coordinatorEpoch"),
            &epoch,
            &batch["coordinatorEpoch"],
        );
    }

    /// Where Kafka's tool finds nothing wrong, kseg may not either; bytes left over are the same.
    fn damage(&mut self, kafka: &[Row], damage: &[&Value]) {
        let mut end_of_batches = 0;
        let mut reason = ragged(self.data);
        for row in kafka {
            match row {
                Row::Batch(batch) => {
                    end_of_batches = batch.position + batch.size;
                    reason |= !batch.is_valid;
                }
                Row::InvalidBytes { count, .. } => {
                    reason = true;
                    self.counts.invalid_tails += 1;
                    let tail = damage
                        .iter()
                        .filter(|row| row["position"].as_u64() >= Some(end_of_batches));
                    let found_again = self.rows.iter();
                    let found_again =
                        found_again.filter(|row| row["position"].as_u64() >= Some(end_of_batches));
                    let bytes: u64 = tail
                        .clone()
                        .chain(found_again)
                        .filter_map(|row| row["sizeInBytes"].as_u64())
                        .sum();
                    let first = tail.filter_map(|row| row["position"].as_u64()).min();
                    self.equal("invalid bytes at the end", count, &bytes);
                    self.equal("where they begin", &Some(end_of_batches), &first);
                }
                Row::CorruptSnapshot(_) => {
                    reason = true;
                    self.counts.corrupt_snapshots += 1;
                    if damage.is_empty() {
                        self.differs("kseg does not see that the snapshot is corrupt".to_owned());
                    }
                }
                Row::ToolException(_) => {
                    reason = true;
                    self.counts.tool_exceptions += 1;
                }
                _ => {}
            }
        }
        // Kafka's tool looks at nothing behind the zeros of an index.
        let mut seen_by_kafka = damage
            .iter()
            .filter(|row| row["kind"] != json!("entries-after-zeros"));
        if let (false, Some(first)) = (reason, seen_by_kafka.next()) {
            self.differs(format!("damage only kseg sees: {first}"));
        }
    }
}

/// The type of kseg's row for a row of Kafka's, and its fields; `None` for rows that are not
/// compared one by one.
fn expected_of(row: &Row) -> Option<(&'static str, Vec<(&'static str, Value)>)> {
    match row {
        Row::Batch(batch) => Some(("batch", expected_batch(batch))),
        Row::OffsetIndexEntry { offset, position } => Some((
            "offsetIndexEntry",
            vec![("offset", json!(offset)), ("position", json!(position))],
        )),
        Row::TimeIndexEntry { timestamp, offset } => Some((
            "timeIndexEntry",
            vec![("timestamp", json!(timestamp)), ("offset", json!(offset))],
        )),
        Row::AbortedTxn {
            version,
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        } => Some((
            "abortedTxn",
            vec![
                ("version", json!(version)),
                ("producerId", json!(producer_id)),
                ("firstOffset", json!(first_offset)),
                ("lastOffset", json!(last_offset)),
                ("lastStableOffset", json!(last_stable_offset)),
            ],
        )),
        Row::ProducerSnapshotEntry(entry) => {
            Some(("producerSnapshotEntry", expected_snapshot_entry(entry)))
        }
        Row::Dumping(_)
        | Row::StartingOffset(_)
        | Row::SnapshotEnd { .. }
        | Row::Record(_)
        | Row::Empty(_)
        | Row::InvalidBytes { .. }
        | Row::CorruptSnapshot(_)
        | Row::ToolException(_)
        | Row::Report(_)
        | Row::Noise(_) => None,
    }
}

fn expected_batch(batch: &Batch) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("lastOffset", json!(batch.last_offset)),
        ("position", json!(batch.position)),
        ("sizeInBytes", json!(batch.size)),
        ("timestampType", json!(batch.timestamp_type)),
        ("maxTimestamp", json!(batch.max_timestamp)),
        ("magic", json!(batch.magic)),
        ("compressionType", json!(batch.compression_type)),
        ("crc", json!(batch.crc)),
        ("isValid", json!(batch.is_valid)),
    ];
    let Some(two) = &batch.magic_two else {
        fields.push(("baseOffset", json!(batch.last_offset)));
        for not_there in [
            "baseSequence",
            "lastSequence",
            "producerId",
            "producerEpoch",
            "partitionLeaderEpoch",
            "deleteHorizonMs",
            "controlType",
            "coordinatorEpoch",
        ] {
            fields.push((not_there, Value::Null));
        }
        return fields;
    };
    fields.extend([
        ("baseOffset", json!(two.base_offset)),
        ("baseSequence", json!(two.base_sequence)),
        ("lastSequence", json!(two.last_sequence)),
        ("producerId", json!(two.producer_id)),
        ("producerEpoch", json!(two.producer_epoch)),
        ("partitionLeaderEpoch", json!(two.partition_leader_epoch)),
        ("isTransactional", json!(two.is_transactional)),
    ]);
    // Not printed by 0.11 (count, isControl) and before 3.1 (deleteHorizonMs).
    fields.extend(two.count.map(|count| ("count", json!(count))));
    fields.extend(two.is_control.map(|control| ("isControl", json!(control))));
    fields.extend(
        two.delete_horizon_ms
            .map(|ms| ("deleteHorizonMs", json!(ms))),
    );
    fields
}

fn expected_snapshot_entry(entry: &ProducerSnapshotEntry) -> Vec<(&'static str, Value)> {
    let mut fields = vec![
        ("producerId", json!(entry.producer_id)),
        ("producerEpoch", json!(entry.producer_epoch)),
        ("coordinatorEpoch", json!(entry.coordinator_epoch)),
        (
            "currentTxnFirstOffset",
            json!(entry.current_txn_first_offset.unwrap_or(-1)),
        ),
    ];
    fields.extend(entry.last_timestamp.map(|ms| ("timestamp", json!(ms))));
    match &entry.last_batch {
        Some(batch) => {
            fields.extend([
                ("lastSequence", json!(batch.last_sequence)),
                ("lastOffset", json!(batch.last_offset)),
                ("offsetDelta", json!(batch.offset_delta)),
                ("timestamp", json!(batch.timestamp)),
            ]);
        }
        // Kafka leaves the batch out of the text if its offset is negative.
        None => fields.push(("lastOffset", json!(-1))),
    }
    fields
}

/// Whether the file's length is no multiple of its entries' size, which Kafka's tool cuts off
/// before it prints.
fn ragged(data: &Path) -> bool {
    let entry = match data.extension().and_then(|e| e.to_str()) {
        Some("index") => 8,
        Some("timeindex") => 12,
        _ => return false,
    };
    std::fs::metadata(data).is_ok_and(|meta| meta.len() % entry != 0)
}

fn listed_as_log(data: &Path) -> bool {
    data.extension()
        .is_some_and(|e| e == "log" || e == "checkpoint" || e == "snapshot")
}

fn file_name(data: &Path) -> String {
    data.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// From the name of the folder; a partition that is being deleted, moved or is no one's has 33
/// more characters and a word behind its name.
fn topic_partition(data: &Path) -> (Option<String>, Option<u32>) {
    let folder = data.parent().and_then(Path::file_name);
    let folder = folder.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = ["-delete", "-future", "-stray"]
        .iter()
        .find_map(|word| folder.strip_suffix(word))
        .and_then(|name| name.rsplit_once('.'))
        .map_or(folder.as_str(), |(name, _)| name);
    name.rsplit_once('-')
        .map_or((None, None), |(topic, partition)| {
            (Some(topic.to_owned()), partition.parse().ok())
        })
}
