//! Reads what Kafka's DumpLogSegments prints, from 0.11 to 4.3.1, into typed rows.
//!
//! Nothing is skipped in silence: a line of no known form is an error, and so is a field of a
//! known line that no one took. Fields that a version does not print are `None`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

/// One line of the tool's output.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// `Dumping FILE`.
    Dumping(String),
    /// `Log starting offset: N`, before 3.0 `Starting offset: N`: the segment's base offset.
    StartingOffset(i64),
    /// `Snapshot end offset: N, epoch: N`, of a KRaft snapshot.
    SnapshotEnd {
        offset: i64,
        epoch: i32,
    },
    /// A batch of magic 2, or the outer entry of an older one.
    Batch(Batch),
    /// A record inside a batch; in 0.11 to 2.0 without a line for its batch.
    Record(Record),
    OffsetIndexEntry {
        offset: i64,
        position: i64,
    },
    TimeIndexEntry {
        timestamp: i64,
        offset: i64,
    },
    AbortedTxn {
        version: i64,
        producer_id: i64,
        first_offset: i64,
        last_offset: i64,
        last_stable_offset: i64,
    },
    ProducerSnapshotEntry(ProducerSnapshotEntry),
    /// `FILE is empty.`: an index without entries.
    Empty(String),
    /// `Found N invalid bytes at the end of FILE`.
    InvalidBytes {
        count: u64,
        file: String,
    },
    /// `Snapshot ...`: why a producer snapshot cannot be read.
    CorruptSnapshot(String),
    /// The tool threw, and this is what.
    ToolException(String),
    /// A finding of the tool's own checks, or its heading.
    Report(Report),
    /// A line of a logging library.
    Noise(String),
}

/// What the tool says of an index, or of offsets, that does not fit the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    MismatchesIn(String),
    Mismatch { index_offset: i64, log_offset: i64 },
    TimestampMismatchIn(String),
    TimestampMismatch { indexed: i64, log: i64 },
    TimestampOutOfOrderIn(String),
    TimestampOutOfOrder { indexed: i64, previously: i64 },
    NotFoundIn(Option<String>),
    NotFound { indexed: i64, found: i64 },
    NonConsecutiveIn(String),
    NonConsecutive { offset: i64, next: i64 },
}

/// What magic 2 adds to the entries of before.
#[derive(Clone, Debug, PartialEq)]
pub struct MagicTwo {
    pub base_offset: i64,
    pub count: Option<i32>,
    pub base_sequence: i32,
    pub last_sequence: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub partition_leader_epoch: i32,
    pub is_transactional: bool,
    pub is_control: Option<bool>,
    /// `Some(None)` is printed as `OptionalLong.empty`.
    pub delete_horizon_ms: Option<Option<i64>>,
}

/// A batch, or an entry of magic 0 or 1, where `last_offset` is the offset of the entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub last_offset: i64,
    pub magic_two: Option<MagicTwo>,
    pub position: u64,
    pub timestamp_type: String,
    pub max_timestamp: i64,
    pub size: u64,
    pub magic: i8,
    /// In lower case, as it is printed since 3.6.
    pub compression_type: String,
    pub crc: u32,
    pub is_valid: bool,
}

/// A record. Fields of the batch, which versions before 3.0 repeat on each record, are dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub offset: i64,
    pub timestamp_type: String,
    pub timestamp: i64,
    pub key_size: i32,
    pub value_size: i32,
    pub sequence: Option<i32>,
    pub header_keys: Vec<String>,
    /// `COMMIT` or `ABORT`, and the coordinator's epoch.
    pub end_txn_marker: Option<(String, i32)>,
    /// Whatever decoder text follows: key, payload, or the content of a control record.
    pub content: Option<String>,
}

/// A producer in a `.snapshot` file.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducerSnapshotEntry {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub coordinator_epoch: i32,
    pub current_txn_first_offset: Option<i64>,
    pub last_timestamp: Option<i64>,
    /// `None` if the file holds no batch of this producer.
    pub last_batch: Option<SnapshotBatch>,
}

/// The batch of a producer that a `.snapshot` file keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotBatch {
    pub first_sequence: Option<i32>,
    pub last_sequence: i32,
    pub last_offset: i64,
    pub offset_delta: i32,
    pub timestamp: i64,
}

/// Whether the tool was told to look into the batches: 0.10 prints both alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    Shallow,
    Deep,
}

impl Depth {
    /// Of a text in `expected/dump/`.
    pub fn of(text: &Path) -> Self {
        let name = text.to_string_lossy();
        if name.ends_with(".deep.txt") || name.ends_with(".decoded.txt") {
            Self::Deep
        } else {
            Self::Shallow
        }
    }
}

/// Reads a whole output.
pub fn parse(text: &str, depth: Depth) -> Result<Vec<Row>, String> {
    text.lines()
        .enumerate()
        .map(|(n, line)| {
            parse_line(line, depth).map_err(|e| format!("line {}: {e}: {line}", n + 1))
        })
        .collect()
}

/// Reads one line.
pub fn parse_line(line: &str, depth: Depth) -> Result<Row, String> {
    if let Some(row) = parse_message(line)? {
        return Ok(row);
    }
    if line.contains(" payloadsize: ") {
        return parse_message_of_0_10(line, depth);
    }
    if let Some(record) = line.strip_prefix("| ") {
        return parse_record(record);
    }
    // Only records have free text behind their fields.
    let Ok(mut fields) = Fields::parse(line) else {
        return parse_record(line);
    };
    let row = if fields.has("baseOffset") || fields.has("size") {
        Row::Batch(parse_batch(&mut fields)?)
    } else if fields.has("keysize") {
        return parse_record(line);
    } else if fields.has("coordinatorEpoch") {
        Row::ProducerSnapshotEntry(parse_snapshot_entry(&mut fields)?)
    } else if fields.has("lastStableOffset") {
        Row::AbortedTxn {
            version: fields.take("version")?,
            producer_id: fields.take("producerId")?,
            first_offset: fields.take("firstOffset")?,
            last_offset: fields.take("lastOffset")?,
            last_stable_offset: fields.take("lastStableOffset")?,
        }
    } else if fields.has("timestamp") {
        Row::TimeIndexEntry {
            timestamp: fields.take("timestamp")?,
            offset: fields.take("offset")?,
        }
    } else {
        Row::OffsetIndexEntry {
            offset: fields.take("offset")?,
            position: fields.take("position")?,
        }
    };
    fields.finish()?;
    Ok(row)
}

/// The lines that are sentences.
fn parse_message(line: &str) -> Result<Option<Row>, String> {
    let row = if let Some(file) = line.strip_prefix("Dumping ") {
        Row::Dumping(file.to_owned())
    } else if let Some(offset) = line
        .strip_prefix("Log starting offset: ")
        .or_else(|| line.strip_prefix("Starting offset: "))
    {
        Row::StartingOffset(number(offset)?)
    } else if let Some((offset, epoch)) = between(line, "Snapshot end offset: ", ", epoch: ") {
        Row::SnapshotEnd {
            offset: number(offset)?,
            epoch: number(epoch)?,
        }
    } else if let Some(file) = line.strip_suffix(" is empty.") {
        Row::Empty(file.to_owned())
    } else if let Some((count, file)) = between(line, "Found ", " invalid bytes at the end of ") {
        Row::InvalidBytes {
            count: number(count)?,
            file: file.to_owned(),
        }
    } else if let Some(exception) = line.strip_prefix("TOOL EXCEPTION ") {
        Row::ToolException(exception.to_owned())
    } else if line.starts_with("Snapshot failed ") || line.starts_with("Snapshot is corrupt ") {
        Row::CorruptSnapshot(line.to_owned())
    } else if line.starts_with("log4j:WARN ") {
        Row::Noise(line.to_owned())
    } else {
        return Ok(parse_report(line)?.map(Row::Report));
    };
    Ok(Some(row))
}

/// The tool's findings.
fn parse_report(line: &str) -> Result<Option<Report>, String> {
    if let Some(report) = parse_timestamp_report(line)? {
        return Ok(Some(report));
    }
    let report = if let Some(file) = line.strip_prefix("Mismatches in :") {
        Report::MismatchesIn(file.to_owned())
    } else if let Some((index, log)) = between(line, "  Index offset: ", ", log offset: ") {
        Report::Mismatch {
            index_offset: number(index)?,
            log_offset: number(log)?,
        }
    } else if let Some(file) = line.strip_prefix("The following indexed offsets are not found in ")
    {
        Report::NotFoundIn(file.strip_prefix(':').map(str::to_owned))
    } else if let Some((index, log)) = between(line, "Indexed offset: ", ", found log offset: ") {
        Report::NotFound {
            indexed: number(index)?,
            found: number(log)?,
        }
    } else if let Some(file) = line.strip_prefix("Non-consecutive offsets in ") {
        Report::NonConsecutiveIn(file.to_owned())
    } else if let Some((offset, next)) = between(line, "  ", " is followed by ") {
        Report::NonConsecutive {
            offset: number(offset)?,
            next: number(next)?,
        }
    } else {
        return Ok(None);
    };
    Ok(Some(report))
}

/// The tool's findings in a time index.
fn parse_timestamp_report(line: &str) -> Result<Option<Report>, String> {
    let report = if let Some(file) = line.strip_prefix("Found timestamp mismatch in :") {
        Report::TimestampMismatchIn(file.to_owned())
    } else if let Some((index, log)) = between(line, "  Index timestamp: ", ", log timestamp: ") {
        Report::TimestampMismatch {
            indexed: number(index)?,
            log: number(log)?,
        }
    } else if let Some(file) = line.strip_prefix("Found out of order timestamp in :") {
        Report::TimestampOutOfOrderIn(file.to_owned())
    } else if let Some((index, previous)) = between(
        line,
        "  Index timestamp: ",
        ", Previously indexed timestamp: ",
    ) {
        Report::TimestampOutOfOrder {
            indexed: number(index)?,
            previously: number(previous)?,
        }
    } else {
        return Ok(None);
    };
    Ok(Some(report))
}

/// Field order and letter case differ between versions; the names do not.
fn parse_batch(fields: &mut Fields<'_>) -> Result<Batch, String> {
    let magic = fields.take("magic")?;
    let magic_two = if magic >= 2 {
        Some(MagicTwo {
            base_offset: fields.take("baseOffset")?,
            count: fields.take_if_there("count")?,
            base_sequence: fields.take("baseSequence")?,
            last_sequence: fields.take("lastSequence")?,
            producer_id: fields.take("producerId")?,
            producer_epoch: fields.take("producerEpoch")?,
            partition_leader_epoch: fields.take("partitionLeaderEpoch")?,
            is_transactional: fields.take("isTransactional")?,
            is_control: fields.take_if_there("isControl")?,
            delete_horizon_ms: match fields.take_text("deleteHorizonMs") {
                Some(text) => Some(optional(text)?),
                None => None,
            },
        })
    } else {
        None
    };
    let (timestamp_type, max_timestamp) = fields.take_timestamp()?;
    Ok(Batch {
        last_offset: fields.take(if magic_two.is_some() {
            "lastOffset"
        } else {
            "offset"
        })?,
        magic_two,
        position: fields.take("position")?,
        timestamp_type,
        max_timestamp,
        size: fields.take("size")?,
        magic,
        compression_type: fields.take::<String>("compresscodec")?.to_lowercase(),
        crc: fields.take("crc")?,
        is_valid: fields.take("isvalid")?,
    })
}

/// A message as 0.10 prints it: no size, no key size without a key, and records like entries.
fn parse_message_of_0_10(line: &str, depth: Depth) -> Result<Row, String> {
    let mut fields = Fields::parse(line)?;
    let (timestamp_type, timestamp) = fields.take_timestamp()?;
    let key_size: i32 = fields.take_if_there("keysize")?.unwrap_or(-1);
    let value_size: i32 = fields.take("payloadsize")?;
    let magic = fields.take("magic")?;
    // Offset, size, checksum, magic, attributes, time, and the sizes of key and value.
    let around = 8 + 4 + 4 + 1 + 1 + if magic > 0 { 8 } else { 0 } + 4 + 4;
    let size = around + i64::from(key_size.max(0)) + i64::from(value_size.max(0));
    let entry = Batch {
        last_offset: fields.take("offset")?,
        magic_two: None,
        position: fields.take("position")?,
        timestamp_type,
        max_timestamp: timestamp,
        size: u64::try_from(size).map_err(|e| e.to_string())?,
        magic,
        compression_type: fields.take::<String>("compresscodec")?.to_lowercase(),
        crc: fields.take("crc")?,
        is_valid: fields.take("isvalid")?,
    };
    fields.finish()?;
    Ok(match depth {
        Depth::Shallow => Row::Batch(entry),
        Depth::Deep => Row::Record(Record {
            offset: entry.last_offset,
            timestamp_type: entry.timestamp_type,
            timestamp,
            key_size,
            value_size,
            sequence: None,
            header_keys: Vec::new(),
            end_txn_marker: None,
            content: None,
        }),
    })
}

fn parse_record(line: &str) -> Result<Row, String> {
    let (line, content) = split_content(line);
    let line = line.replace("keysize:", "keySize:");
    let line = line.replace("valuesize:", "valueSize:");
    let mut fields = Fields::parse(&line)?;
    let (timestamp_type, timestamp) = fields.take_timestamp()?;
    let record = Record {
        offset: fields.take("offset")?,
        timestamp_type,
        timestamp,
        key_size: fields.take("keySize")?,
        value_size: fields.take("valueSize")?,
        sequence: fields.take_if_there("sequence")?,
        header_keys: match fields.take_text("headerKeys") {
            Some(text) => text
                .trim_matches(['[', ']'])
                .split(',')
                .filter(|key| !key.is_empty())
                .map(str::to_owned)
                .collect(),
            None => Vec::new(),
        },
        end_txn_marker: match fields.take_if_there("endTxnMarker")? {
            Some(marker) => Some((marker, fields.take("coordinatorEpoch")?)),
            None => None,
        },
        content: content.map(str::to_owned),
    };
    for of_the_batch in [
        "position",
        "isvalid",
        "isValid",
        "magic",
        "compresscodec",
        "compressType",
        "crc",
        "baseOffset",
        "lastOffset",
        "baseSequence",
        "lastSequence",
        "batchSize",
        "partitionLeaderEpoch",
        "producerId",
        "producerEpoch",
        "isTransactional",
    ] {
        let _ = fields.take_text(of_the_batch);
    }
    fields.finish()?;
    Ok(Row::Record(record))
}

/// `TransactionState`, by number.
pub const TRANSACTION_STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

/// The decoder's text as 4.3 prints it: 4.4 gives the name of a transaction's state in place of
/// its number.
pub fn with_state_numbers(decoded: &str) -> String {
    let field = |state: &dyn Display| format!("\"transactionStatus\":{state},");
    let mut text = decoded.to_owned();
    for (number, name) in TRANSACTION_STATES.iter().enumerate() {
        text = text.replace(&field(&format!("\"{name}\"")), &field(&number));
    }
    text
}

/// Cuts off the free text behind the fields of a record.
fn split_content(line: &str) -> (&str, Option<&str>) {
    [
        " key: ",
        " payload: ",
        " LeaderChange: ",
        " SnapshotHeader {",
        " SnapshotFooter {",
        " KRaftVersion ",
        " KRaftVoters ",
    ]
    .iter()
    .filter_map(|mark| line.find(mark))
    .min()
    .map_or((line, None), |at| {
        let (fields, content) = line.split_at(at);
        (fields, Some(content.trim_start()))
    })
}

fn parse_snapshot_entry(fields: &mut Fields<'_>) -> Result<ProducerSnapshotEntry, String> {
    let producer_id = fields.take("producerId")?;
    let producer_epoch = fields.take("producerEpoch")?;
    let coordinator_epoch = fields.take("coordinatorEpoch")?;
    let current_txn_first_offset = match fields.take_text("currentTxnFirstOffset") {
        Some(text) => optional(text)?,
        None => return Err("no currentTxnFirstOffset".to_owned()),
    };
    let last_timestamp: Option<i64> = fields.take_if_there("lastTimestamp")?;
    let last_batch = match fields.take_if_there("lastSequence")? {
        Some(last_sequence) => Some(SnapshotBatch {
            first_sequence: fields.take_if_there("firstSequence")?,
            last_sequence,
            last_offset: fields.take("lastOffset")?,
            offset_delta: fields.take("offsetDelta")?,
            timestamp: match (fields.take_if_there("timestamp")?, last_timestamp) {
                (Some(timestamp), _) | (None, Some(timestamp)) => timestamp,
                (None, None) => return Err("a batch without timestamp".to_owned()),
            },
        }),
        None => None,
    };
    Ok(ProducerSnapshotEntry {
        producer_id,
        producer_epoch,
        coordinator_epoch,
        current_txn_first_offset,
        last_timestamp,
        last_batch,
    })
}

/// `name: value` pairs of a line, each to be taken once.
struct Fields<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn parse(line: &'a str) -> Result<Self, String> {
        let mut fields = BTreeMap::new();
        let mut words = line.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let name = word
                .strip_suffix(':')
                .ok_or_else(|| format!("{word:?} is no field name"))?;
            let value = words.next().ok_or_else(|| format!("{name} has no value"))?;
            if fields.insert(name, value).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        Ok(Self(fields))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn take_text(&mut self, name: &str) -> Option<&'a str> {
        self.0.remove(name)
    }

    fn take_if_there<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, String> {
        self.take_text(name)
            .map(|text| number(text).map_err(|e| format!("{name}: {e}")))
            .transpose()
    }

    fn take<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<T, String> {
        self.take_if_there(name)?
            .ok_or_else(|| format!("{name} is missing"))
    }

    /// The field whose name is the timestamp type.
    fn take_timestamp(&mut self) -> Result<(String, i64), String> {
        for name in ["CreateTime", "LogAppendTime", "NoTimestampType"] {
            if let Some(timestamp) = self.take_if_there(name)? {
                return Ok((name.to_owned(), timestamp));
            }
        }
        Err("no timestamp".to_owned())
    }

    fn finish(&self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(name) => Err(format!("nothing is known of field {name}")),
            None => Ok(()),
        }
    }
}

/// Java's `OptionalLong` or Scala's `Option`.
fn optional(text: &str) -> Result<Option<i64>, String> {
    if text == "OptionalLong.empty" || text == "None" {
        return Ok(None);
    }
    let inner = text
        .strip_prefix("OptionalLong[")
        .and_then(|rest| rest.strip_suffix(']'))
        .or_else(|| {
            text.strip_prefix("Some(")
                .and_then(|rest| rest.strip_suffix(')'))
        });
    match inner {
        Some(inner) => number(inner).map(Some),
        None => Err(format!("{text:?} is no optional number")),
    }
}

fn number<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.trim()
        .parse()
        .map_err(|e: T::Err| format!("{text:?}: {e}"))
}

/// What stands after `prefix` and before `middle`, and what stands after `middle`.
fn between<'a>(line: &'a str, prefix: &str, middle: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(prefix)?.split_once(middle)
}
