//! One file that was made, beside the one that lies in the directory.

use serde::Serialize;

use super::{RebuildOptions, Rebuilt, RebuiltFile, SideFileKind, Stop, rebuild};
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};

/// One file that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RebuildRow {
    /// Path of the partition directory.
    pub path: String,
    /// Topic, as the directory's name says.
    pub topic: Option<String>,
    /// Partition number, as the directory's name says.
    pub partition: Option<i32>,
    /// Name of the file.
    pub file: String,
    /// What it is.
    pub kind: SideFileKind,
    /// Bytes of the file.
    pub size_in_bytes: u64,
    /// Entries of an index, producers of a snapshot.
    pub rows: u64,
    /// Whether the directory's file of that name has these bytes; zeros behind the entries of an
    /// `.index` or `.timeindex`, room for more, do not count. Null if there is no such file.
    pub same_as_existing: Option<bool>,
    /// Where recovery ends the log of this partition before its end; null if it does not.
    pub stop: Option<Stop>,
}

impl RebuildRow {
    /// The partition for people: topic and number, or the path.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.topic, self.partition) {
            (Some(topic), Some(partition)) => format!("{topic}-{partition}"),
            _ => self.path.clone(),
        }
    }
}

/// Makes the side files of the kinds wanted, gives them to `file`, and compares them with those in
/// the directory; `None` if it has no segment.
///
/// # Errors
/// If a file cannot be read, or `file` fails.
pub fn rebuild_rows<E: From<Error>>(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    options: RebuildOptions,
    wants: impl Fn(SideFileKind) -> bool,
    mut file: impl FnMut(&RebuiltFile<'_>) -> Result<(), E>,
) -> Result<Option<(Vec<RebuildRow>, Rebuilt)>, E> {
    let mut rows = Vec::new();
    let rebuilt = rebuild(dir, checkpoints, options, |made| {
        if !wants(made.kind) {
            return Ok(());
        }
        file(&made)?;
        rows.push(RebuildRow {
            path: dir.path.display().to_string(),
            topic: dir.topic().map(str::to_owned),
            partition: dir.partition(),
            file: made.kind.file_name(made.offset),
            kind: made.kind,
            size_in_bytes: made.bytes.len() as u64,
            rows: made.rows,
            same_as_existing: same_as_existing(dir, options.io, made)?,
            stop: None,
        });
        Ok::<_, E>(())
    })?;
    let Some(rebuilt) = rebuilt else {
        return Ok(None);
    };
    for row in &mut rows {
        row.stop.clone_from(&rebuilt.stop);
    }
    Ok(Some((rows, rebuilt)))
}

fn same_as_existing(
    dir: &PartitionDir,
    io: Io,
    made: RebuiltFile<'_>,
) -> Result<Option<bool>, Error> {
    let name = made.kind.file_name(made.offset);
    let entry = dir.files.iter().find(|it| it.file_name == *name);
    let Some(existing) = entry
        .map(|entry| dir.open_file(entry, io))
        .transpose()?
        .flatten()
    else {
        return Ok(None);
    };
    let bytes = existing.read_settled()?;
    let same = match made.kind {
        SideFileKind::Index | SideFileKind::TimeIndex => bytes
            .strip_prefix(made.bytes)
            .is_some_and(|rest| rest.iter().all(|byte| *byte == 0)),
        SideFileKind::TxnIndex | SideFileKind::Snapshot => *bytes == *made.bytes,
    };
    existing.check_unchanged()?;
    Ok(Some(same))
}
