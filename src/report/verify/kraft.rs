//! The snapshots of the KRaft metadata log.
//!
//! Decides `RecordsSnapshotReader`, `RecordsSnapshotWriter`, `KafkaRaftLog`.

use super::finding::{Finding, Severity};
use super::kind::Kind;
use crate::format::control_record::ControlRecordType;
use crate::format::file_name::{FileState, LogFileKind, SnapshotId};
use crate::log::batches::{Batch, BatchWalk, Entry};
use crate::log::broker_start::DOES_NOT_START;
use crate::log::mapped_file::MappedFile;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// Checks each `.checkpoint`, and that one covers the beginning of the log.
pub(super) fn check_kraft_snapshots(
    dir: &PartitionDir,
    io: Io,
    found: &mut Vec<Finding>,
) -> Result<(), Error> {
    let mut newest: Option<i64> = None;
    for file in &dir.files {
        let (LogFileKind::KRaftSnapshot(id), FileState::Live) =
            (&file.parsed.kind, file.parsed.state)
        else {
            continue;
        };
        newest = newest.max(Some(id.end_offset));
        let Some(opened) = dir.open_file(file, io)? else {
            continue;
        };
        let problem = check_snapshot(&opened, id)?;
        found.extend(problem.map(|problem| Finding {
            file: Some(file.name().into_owned()),
            file_size: Some(opened.len()),
            broker_action: "the node loads the newest snapshot at start and stops on it".to_owned(),
            next_step: Some("take the snapshot from another controller".to_owned()),
            ..problem
        }));
    }
    let log_start = dir.segments.first().map_or(0, |first| first.base_offset);
    if log_start > 0 && newest.is_none_or(|newest| newest < log_start) {
        found.push(Finding {
            offset: Some(log_start),
            log_start_offset: Some(log_start),
            expected: Some(format!(
                "a .checkpoint with an end offset from {log_start} on"
            )),
            found: newest.map(|newest| newest.to_string()),
            broker_action: DOES_NOT_START.to_owned(),
            next_step: Some("take the newest snapshot from another controller".to_owned()),
            ..Finding::new(
                Severity::Corrupt,
                Kind::KraftSnapshotMissing,
                format!("the log begins at {log_start} and no snapshot covers what was before"),
            )
        });
    }
    Ok(())
}

/// The first thing that is wrong with a snapshot: header first, footer last, offsets from 0 on, the
/// epoch of its name.
fn check_snapshot(file: &MappedFile, id: &SnapshotId) -> Result<Option<Finding>, Error> {
    let mut next_offset = 0;
    let mut last: Option<(u64, Option<ControlRecordType>)> = None;
    let mut walk = BatchWalk::new(file);
    while let Some(entry) = walk.next_entry() {
        let batch = match entry? {
            Entry::Batch(batch) => batch,
            Entry::Legacy(entry) => {
                let is = "a message of an old format".to_owned();
                return Ok(Some(problem(entry.position, "format", "a batch", is)));
            }
            Entry::Damage(damage) => {
                let is = damage.to_string();
                return Ok(Some(problem(damage.position, "damage", "a batch", is)));
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
            return Ok(Some(problem(
                batch.position,
                "header",
                "a snapshot header",
                is,
            )));
        }
        last = Some((batch.position, control));
    }
    Ok(match last {
        Some((_, Some(ControlRecordType::SNAPSHOT_FOOTER))) => None,
        Some((position, _)) => {
            let is = "no footer: it was never completed".to_owned();
            Some(problem(position, "footer", "a snapshot footer", is))
        }
        None => Some(problem(
            0,
            "empty",
            "a snapshot header",
            "nothing".to_owned(),
        )),
    })
}

fn check_batch(
    batch: &Batch<'_>,
    next_offset: i64,
    id: &SnapshotId,
) -> Result<Option<Finding>, Error> {
    let header = batch.header;
    let position = batch.position;
    if !batch.is_valid()? {
        let text = |crc: u32| format!("checksum {crc:#010x}");
        let expected = text(batch.compute_crc()?);
        return Ok(Some(problem(
            position,
            "crc",
            &expected,
            text(header.crc()),
        )));
    }
    if header.base_offset() != next_offset {
        let is = format!("offset {}", header.base_offset());
        return Ok(Some(problem(
            position,
            "offset",
            &format!("offset {next_offset}"),
            is,
        )));
    }
    let epoch = header.partition_leader_epoch();
    Ok((epoch != id.epoch).then(|| {
        let is = format!("epoch {epoch}");
        problem(position, "epoch", &format!("epoch {}", id.epoch), is)
    }))
}

fn problem(position: u64, defect: &'static str, expected: &str, is: String) -> Finding {
    Finding {
        position: Some(position),
        defect: Some(defect),
        expected: Some(expected.to_owned()),
        found: Some(is.clone()),
        ..Finding::new(
            Severity::Corrupt,
            Kind::KraftSnapshot,
            format!("{is}, expected {expected}"),
        )
    }
}
