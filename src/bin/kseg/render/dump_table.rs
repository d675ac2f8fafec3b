//! The listing of `dump`: headings for each kind of row, lines as they come.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kseg::report::dump::{BatchRow, DamageRow, DumpRow, RecordFields};

use super::columns::Align::{Left, Right};
use super::columns::{Column, Listing};
use super::record_lines::{RecordCells, RecordLines};
use super::text::{bytes, optional, printable, time};
use super::{BELOW_HEADING, Style, alarm, note_hidden, paragraph};

const BATCH_COLUMNS: &[Column] = &[
    Column::new("OFFSETS", 13, Right, 0),
    Column::new("COUNT", 5, Right, 0),
    Column::new("PRODUCER", 8, Right, 0),
    Column::new("EPOCH", 5, Right, 1),
    Column::new("SEQUENCES", 12, Right, 0),
    Column::new("WHAT", 15, Left, 0),
    Column::new("POSITION", 8, Right, 0),
    Column::new("SIZE", 7, Right, 2),
    Column::new("MAX TIMESTAMP", 24, Left, 3),
    Column::new("TYPE", 13, Left, 8),
    Column::new("CODEC", 6, Left, 4),
    Column::new("LEADER EPOCH", 12, Right, 5),
    Column::new("CRC", 10, Left, 6),
    Column::new("BASE TIMESTAMP", 24, Left, 9),
    Column::new("DELETE HORIZON", 24, Left, 10),
    Column::new("MAGIC", 5, Right, 7),
    Column::new("VALID", 7, Left, 0),
];

const OFFSET_INDEX_COLUMNS: &[Column] = &[
    Column::new("OFFSET", 12, Right, 0),
    Column::new("POSITION", 8, Right, 0),
];

const TIME_INDEX_COLUMNS: &[Column] = &[
    Column::new("TIMESTAMP", 24, Left, 0),
    Column::new("OFFSET", 12, Right, 0),
];

const ABORTED_TXN_COLUMNS: &[Column] = &[
    Column::new("PRODUCER", 8, Right, 0),
    Column::new("FIRST OFFSET", 12, Right, 0),
    Column::new("LAST OFFSET", 12, Right, 0),
    Column::new("LAST STABLE OFFSET", 18, Right, 0),
    Column::new("VERSION", 7, Right, 1),
];

const SNAPSHOT_COLUMNS: &[Column] = &[
    Column::new("PRODUCER", 8, Right, 0),
    Column::new("EPOCH", 5, Right, 0),
    Column::new("LAST SEQ", 10, Right, 0),
    Column::new("LAST OFFSET", 12, Right, 0),
    Column::new("DELTA", 5, Right, 2),
    Column::new("TIMESTAMP", 24, Left, 1),
    Column::new("COORDINATOR EPOCH", 17, Right, 3),
    Column::new("TXN FIRST OFFSET", 16, Right, 0),
];

const CHECKPOINT_COLUMNS: &[Column] = &[
    Column::new("OFFSET", 12, Right, 0),
    Column::new("PARTITION", 9, Left, 0),
];

const LEADER_EPOCH_COLUMNS: &[Column] = &[
    Column::new("LEADER EPOCH", 12, Right, 0),
    Column::new("START OFFSET", 12, Right, 0),
];

const PROPERTY_COLUMNS: &[Column] = &[
    Column::new("KEY", 16, Left, 0),
    Column::new("VALUE", 5, Left, 0),
];

/// Rows of one kind have the same columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    OffsetIndex,
    TimeIndex,
    AbortedTxn,
    Snapshot,
    Checkpoint,
    LeaderEpoch,
    Property,
}

impl Kind {
    fn columns(self) -> &'static [Column] {
        match self {
            Self::Batch => BATCH_COLUMNS,
            Self::OffsetIndex => OFFSET_INDEX_COLUMNS,
            Self::TimeIndex => TIME_INDEX_COLUMNS,
            Self::AbortedTxn => ABORTED_TXN_COLUMNS,
            Self::Snapshot => SNAPSHOT_COLUMNS,
            Self::Checkpoint => CHECKPOINT_COLUMNS,
            Self::LeaderEpoch => LEADER_EPOCH_COLUMNS,
            Self::Property => PROPERTY_COLUMNS,
        }
    }
}

/// The table of one run of `dump`.
pub(crate) struct DumpTable {
    style: Style,
    listing: Option<(Kind, Listing)>,
    hidden: usize,
    files: u64,
    /// A filter is in force: files without a row are not worth naming.
    is_filtered: bool,
    /// The file whose rows come next, until its name is written.
    pending: Option<PathBuf>,
    /// The file has been named and no row of it written yet.
    at_heading: bool,
    /// With records, batches are sentences between them.
    records: Option<RecordLines>,
}

impl DumpTable {
    pub(crate) fn new(style: Style, is_filtered: bool, with_records: bool) -> Self {
        Self {
            style,
            listing: None,
            hidden: 0,
            files: 0,
            is_filtered,
            pending: None,
            at_heading: false,
            records: with_records.then(|| RecordLines::new(style)),
        }
    }

    /// Names the file whose rows come next.
    pub(crate) fn begin_file(&mut self, path: &Path, out: &mut impl Write) -> io::Result<()> {
        self.end_file(out)?;
        self.listing = None;
        self.pending = Some(path.to_owned());
        if self.is_filtered {
            Ok(())
        } else {
            self.name_file(out)
        }
    }

    fn name_file(&mut self, out: &mut impl Write) -> io::Result<()> {
        let Some(path) = self.pending.take() else {
            return Ok(());
        };
        if self.files > 0 {
            writeln!(out)?;
        }
        self.files += 1;
        self.at_heading = true;
        let before = ["", BELOW_HEADING];
        paragraph(out, self.style, before, &path.display().to_string())
    }

    fn end_file(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.at_heading {
            writeln!(out, "no rows")?;
        }
        self.at_heading = false;
        Ok(())
    }

    pub(crate) fn finish(mut self, out: &mut impl Write) -> io::Result<()> {
        self.end_file(out)?;
        if self.is_filtered && self.files == 0 {
            writeln!(out, "no rows pass the filter")?;
        }
        note_hidden(self.hidden, self.style, out)
    }

    pub(crate) fn row(&mut self, row: &DumpRow<'_>, out: &mut impl Write) -> io::Result<()> {
        self.name_file(out)?;
        let is_first = std::mem::replace(&mut self.at_heading, false);
        match (row, &mut self.records) {
            (DumpRow::Batch(batch), Some(records)) => {
                if is_first {
                    records.headings(out)?;
                }
                self.hidden = self.hidden.max(usize::from(records.hides_time()));
                return batch_line(batch, self.style, out);
            }
            (DumpRow::Record(record), Some(records)) => {
                return records.row(&cells(&record.fields), out);
            }
            (_, _) => {}
        }
        self.side_row(row, out)
    }

    /// A row with columns of its kind.
    fn side_row(&mut self, row: &DumpRow<'_>, out: &mut impl Write) -> io::Result<()> {
        let (kind, cells) = match row {
            DumpRow::Record(_) => return Ok(()),
            DumpRow::Damage(damage) => {
                return alarm(out, self.style, ["", "  "], &damage_line(damage));
            }
            DumpRow::Batch(batch) => (Kind::Batch, self.batch(batch)),
            DumpRow::OffsetIndexEntry(entry) => (
                Kind::OffsetIndex,
                vec![entry.offset.to_string(), entry.position.to_string()],
            ),
            DumpRow::TimeIndexEntry(entry) => (
                Kind::TimeIndex,
                vec![time(entry.timestamp), entry.offset.to_string()],
            ),
            DumpRow::AbortedTxn(txn) => {
                let cells = vec![
                    txn.producer_id.to_string(),
                    txn.first_offset.to_string(),
                    txn.last_offset.to_string(),
                    txn.last_stable_offset.to_string(),
                    txn.version.to_string(),
                ];
                (Kind::AbortedTxn, cells)
            }
            DumpRow::ProducerSnapshotEntry(entry) => {
                let cells = vec![
                    entry.producer_id.to_string(),
                    entry.producer_epoch.to_string(),
                    entry.last_sequence.to_string(),
                    entry.last_offset.to_string(),
                    entry.offset_delta.to_string(),
                    time(entry.timestamp),
                    entry.coordinator_epoch.to_string(),
                    entry.current_txn_first_offset.to_string(),
                ];
                (Kind::Snapshot, cells)
            }
            DumpRow::CheckpointEntry(entry) => {
                let name = format!("{}-{}", printable(entry.topic), entry.partition);
                (Kind::Checkpoint, vec![entry.offset.to_string(), name])
            }
            DumpRow::LeaderEpochEntry(entry) => {
                let cells = vec![
                    entry.leader_epoch.to_string(),
                    entry.start_offset.to_string(),
                ];
                (Kind::LeaderEpoch, cells)
            }
            DumpRow::Property(property) => (
                Kind::Property,
                vec![property.key.to_owned(), printable(&property.value)],
            ),
        };
        self.line(kind, &cells, out)
    }

    fn line(&mut self, kind: Kind, cells: &[String], out: &mut impl Write) -> io::Result<()> {
        let mut listing = match self.listing.take() {
            Some((current, listing)) if current == kind => listing,
            Some(_) | None => {
                let mut listing = Listing::new(kind.columns(), self.style);
                listing.headings(out, self.style)?;
                self.hidden = self.hidden.max(listing.hidden());
                listing
            }
        };
        listing.row(out, cells)?;
        self.listing = Some((kind, listing));
        Ok(())
    }

    fn batch(&self, batch: &BatchRow<'_>) -> Vec<String> {
        let valid = match batch.is_valid {
            None => "-".to_owned(),
            Some(true) => "ok".to_owned(),
            Some(false) => self.style.bad("BAD CRC"),
        };
        vec![
            range(batch.base_offset, batch.last_offset),
            optional(batch.count),
            optional(batch.producer_id),
            optional(batch.producer_epoch),
            match (batch.base_sequence, batch.last_sequence) {
                (Some(first), Some(last)) => range(i64::from(first), i64::from(last)),
                _ => "-".to_owned(),
            },
            what(batch),
            batch.position.to_string(),
            batch.size_in_bytes.to_string(),
            time(batch.max_timestamp),
            batch.timestamp_type.to_owned(),
            batch.compression_type.to_owned(),
            optional(batch.partition_leader_epoch),
            format!("{:#010x}", batch.crc),
            batch.base_timestamp.map_or_else(|| "-".to_owned(), time),
            batch.delete_horizon_ms.map_or_else(|| "-".to_owned(), time),
            batch.magic.to_string(),
            valid,
        ]
    }
}

/// What a line shows of a record; a control record says what it is in place of its key.
fn cells<'r, 'a>(record: &'r RecordFields<'a>) -> RecordCells<'r, 'a> {
    let sizes_only = record.headers.keys_only;
    let size = |size: i32| sizes_only.then_some(i64::from(size));
    RecordCells {
        offset: record.offset,
        timestamp: record.timestamp,
        key: &record.key,
        value: &record.value,
        headers: &record.headers,
        key_size: size(record.key_size),
        value_size: size(record.value_size),
    }
}

/// A batch in one line, for listings whose columns are those of records.
fn batch_line(batch: &BatchRow<'_>, style: Style, out: &mut impl Write) -> io::Result<()> {
    const BAD: &str = "BAD CRC";
    let is_bad = batch.is_valid == Some(false);
    if style.width.is_none() {
        write_batch(batch, out)?;
        if is_bad {
            write!(out, ", {}", style.bad(BAD))?;
        }
        return out.write_all(b"\n");
    }
    let mut line = Vec::new();
    write_batch(batch, &mut line)?;
    let line = String::from_utf8_lossy(&line);
    let before = ["", BELOW_HEADING];
    if is_bad {
        alarm(out, style, before, &format!("{line}, {BAD}"))
    } else {
        paragraph(out, style, before, &line)
    }
}

fn write_batch(batch: &BatchRow<'_>, out: &mut impl Write) -> io::Result<()> {
    write!(out, "batch {}", batch.base_offset)?;
    if batch.last_offset != batch.base_offset {
        write!(out, "..{}", batch.last_offset)?;
    }
    write!(out, " at {}", batch.position)?;
    match batch.count {
        Some(1) => out.write_all(b": 1 record")?,
        Some(count) => write!(out, ": {count} records")?,
        None => {}
    }
    if let (Some(id), Some(epoch)) = (batch.producer_id, batch.producer_epoch)
        && id >= 0
    {
        write!(out, ", producer {id} epoch {epoch}")?;
    }
    if let (Some(first), Some(last)) = (batch.base_sequence, batch.last_sequence)
        && first >= 0
    {
        write!(out, ", sequences {first}")?;
        if first != last {
            write!(out, "..{last}")?;
        }
    }
    write!(out, ", {}", what(batch))?;
    if batch.compression_type != "none" {
        write!(out, ", {}", batch.compression_type)?;
    }
    if batch.magic < 2 {
        write!(out, ", magic {}", batch.magic)?;
    }
    Ok(())
}

/// Where the damage is, how much of it and what; an undecodable file says the first two itself.
fn damage_line(damage: &DamageRow<'_>) -> String {
    let message = &damage.message;
    if damage.kind == "undecodable" {
        return format!("{}: {message}", damage.kind);
    }
    let size = bytes(damage.size_in_bytes);
    format!(
        "{} at position {} ({size}): {message}",
        damage.kind, damage.position
    )
}

fn range(first: i64, last: i64) -> String {
    if first == last {
        first.to_string()
    } else {
        format!("{first}..{last}")
    }
}

/// Data or control, and which.
fn what(batch: &BatchRow<'_>) -> String {
    if !batch.is_control {
        let what = if batch.is_transactional {
            "transaction"
        } else {
            "data"
        };
        return what.to_owned();
    }
    match (batch.control_type, batch.coordinator_epoch) {
        (Some(control), Some(epoch)) => format!("{control} coord {epoch}"),
        (Some(control), None) => control.to_owned(),
        (None, _) if batch.count == Some(0) => "control, empty".to_owned(),
        (None, _) => "control".to_owned(),
    }
}
