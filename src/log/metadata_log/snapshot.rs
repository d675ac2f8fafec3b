//! The walk over a `.checkpoint` of the metadata log, and what may be wrong with one.
//!
//! Decides `RecordsSnapshotReader`, `RecordsSnapshotWriter`.

use crate::format::control_record::ControlRecordType;
use crate::format::file_name::SnapshotId;
use crate::log::Error;
use crate::log::batches::{Batch, BatchWalk, Entry};
use crate::log::mapped_file::MappedFile;

/// The first thing that is wrong with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDefect {
    /// Byte position of the batch.
    pub position: u64,
    /// What, in a word.
    pub defect: &'static str,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// Hands out the batches of records, up to the first thing that is wrong, which is returned: header
/// first, footer last, offsets from 0 on, the epoch of its name, right checksums.
///
/// # Errors
/// If the file cannot be read, or `visit` fails.
pub fn walk_snapshot<E: From<Error>>(
    file: &MappedFile,
    id: &SnapshotId,
    mut visit: impl FnMut(&Batch<'_>) -> Result<(), E>,
) -> Result<Option<SnapshotDefect>, E> {
    let mut next_offset = 0;
    let mut last: Option<(u64, Option<ControlRecordType>)> = None;
    let mut walk = BatchWalk::new(file);
    while let Some(entry) = walk.next_entry() {
        let batch = match entry? {
            Entry::Batch(batch) => batch,
            Entry::Legacy(entry) => {
                let is = "a message of an old format".to_owned();
                return Ok(Some(defect(entry.position, "format", "a batch", is)));
            }
            Entry::Damage(damage) => {
                let is = damage.to_string();
                return Ok(Some(defect(damage.position, "damage", "a batch", is)));
            }
        };
        let found = check_batch(&batch, next_offset, id)?;
        if found.is_some() {
            return Ok(found);
        }
        next_offset = batch.header.next_offset();
        let control = batch.control_record()?.map(|record| record.control_type);
        if last.is_none() && control != Some(ControlRecordType::SNAPSHOT_HEADER) {
            let is = "another record".to_owned();
            let found = defect(batch.position, "header", "a snapshot header", is);
            return Ok(Some(found));
        }
        if !batch.header.attributes().is_control() {
            visit(&batch)?;
        }
        last = Some((batch.position, control));
    }
    Ok(match last {
        Some((_, Some(ControlRecordType::SNAPSHOT_FOOTER))) => None,
        Some((position, _)) => {
            let is = "no footer: it was never completed".to_owned();
            Some(defect(position, "footer", "a snapshot footer", is))
        }
        None => {
            let is = "nothing".to_owned();
            Some(defect(0, "empty", "a snapshot header", is))
        }
    })
}

fn check_batch(
    batch: &Batch<'_>,
    next_offset: i64,
    id: &SnapshotId,
) -> Result<Option<SnapshotDefect>, Error> {
    let header = batch.header;
    let position = batch.position;
    if !batch.is_valid()? {
        let text = |crc: u32| format!("checksum {crc:#010x}");
        let expected = text(batch.compute_crc()?);
        return Ok(Some(defect(position, "crc", &expected, text(header.crc()))));
    }
    if header.base_offset() != next_offset {
        let is = format!("offset {}", header.base_offset());
        let expected = format!("offset {next_offset}");
        return Ok(Some(defect(position, "offset", &expected, is)));
    }
    let epoch = header.partition_leader_epoch();
    Ok((epoch != id.epoch).then(|| {
        let is = format!("epoch {epoch}");
        defect(position, "epoch", &format!("epoch {}", id.epoch), is)
    }))
}

fn defect(position: u64, defect: &'static str, expected: &str, found: String) -> SnapshotDefect {
    SnapshotDefect {
        position,
        defect,
        expected: expected.to_owned(),
        found,
    }
}
