//! The two PATHs of a comparison, as pairs of partitions.

use std::collections::BTreeMap;
use std::path::Path;

use kseg::format::file_name::PartitionDirStatus;
use kseg::log::Error;
use kseg::log::checkpoints::{CheckpointedOffsets, Checkpoints};
use kseg::log::log_dir::{LogDir, LogPath};
use kseg::log::partition_dir::PartitionDir;
use kseg::report::filter::Filter;

use crate::beside::{checkpoints_above, read_checkpoints};
use crate::context::Context;
use crate::progress::Progress;

/// One side of a pair.
pub(crate) struct Half {
    pub(crate) dir: PartitionDir,
    pub(crate) offsets: CheckpointedOffsets,
}

/// A partition on both sides, or on one.
pub(crate) enum Pair<'a> {
    /// On both.
    Both(&'a Half, &'a Half),
    /// On the left only.
    Left(&'a Half),
    /// On the right only.
    Right(&'a Half),
}

/// What a path stands for.
enum Side {
    /// A single `.log`, or a directory.
    Partition(Half, bool),
    LogDir(LogDir, Checkpoints),
}

/// The sides of a comparison.
pub(crate) struct Pairs {
    left: Side,
    right: Side,
}

impl Pairs {
    /// Finds out what the paths are.
    ///
    /// # Errors
    /// If one cannot be looked at, or they are not of one kind.
    pub(crate) fn open(left: &Path, right: &Path, context: &Context) -> anyhow::Result<Self> {
        let pairs = Self {
            left: open(left, context)?,
            right: open(right, context)?,
        };
        if let (Side::Partition(_, l), Side::Partition(_, r)) = (&pairs.left, &pairs.right)
            && l == r
        {
            return Ok(pairs);
        }
        let is_file = |side: &Side| matches!(side, Side::Partition(_, true));
        anyhow::ensure!(
            !is_file(&pairs.left) && !is_file(&pairs.right),
            "{} and {}: a .log is compared with another .log, a directory with a directory",
            left.display(),
            right.display()
        );
        Ok(pairs)
    }

    /// Whether single `.log` files are compared.
    pub(crate) fn are_files(&self) -> bool {
        matches!(self.left, Side::Partition(_, true))
    }

    /// Hands out every pair that is wanted. What cannot be read is complained of and passed over.
    ///
    /// # Errors
    /// What `visit` returns, and if the filter let nothing through.
    pub(crate) fn for_each(
        &self,
        filter: &Filter,
        context: &mut Context,
        mut visit: impl FnMut(&Pair<'_>, &mut Context) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let wanted = |half: &Half| filter.wants_partition(half.dir.topic(), half.dir.partition());
        match (&self.left, &self.right) {
            (Side::Partition(left, _), Side::Partition(right, _)) => {
                if !wanted(left) && !wanted(right) {
                    anyhow::bail!("no such partition: neither path is one that is wanted");
                }
                visit(&Pair::Both(left, right), context)
            }
            (Side::Partition(half, _), Side::LogDir(..))
            | (Side::LogDir(..), Side::Partition(half, _))
                if !wanted(half) =>
            {
                anyhow::bail!(
                    "no such partition: {} is not wanted",
                    half.dir.path.display()
                );
            }
            (Side::Partition(left, _), Side::LogDir(dir, checkpoints)) => {
                let right = same_partition(left, dir, checkpoints, context)?;
                visit(&Pair::Both(left, &right), context)
            }
            (Side::LogDir(dir, checkpoints), Side::Partition(right, _)) => {
                let left = same_partition(right, dir, checkpoints, context)?;
                visit(&Pair::Both(&left, right), context)
            }
            (Side::LogDir(left, left_offsets), Side::LogDir(right, right_offsets)) => {
                let sides = [(left, left_offsets), (right, right_offsets)];
                for_each_match(sides, filter, context, visit)
            }
        }
    }
}

/// Where a partition lies on either side.
#[derive(Default)]
struct Paths<'a> {
    left: Option<&'a Path>,
    right: Option<&'a Path>,
}

/// Matches the partitions in use of two log directories by topic and number.
fn for_each_match(
    [(left, left_offsets), (right, right_offsets)]: [(&LogDir, &Checkpoints); 2],
    filter: &Filter,
    context: &mut Context,
    mut visit: impl FnMut(&Pair<'_>, &mut Context) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut partitions: BTreeMap<(&str, i32), Paths<'_>> = BTreeMap::new();
    for (is_left, dir) in [(true, left), (false, right)] {
        for it in &dir.partitions {
            let (topic, partition) = (it.name.topic.as_str(), it.name.partition);
            if it.name.status != PartitionDirStatus::Live
                || !filter.wants_partition(Some(topic), Some(partition))
            {
                continue;
            }
            let paths = partitions.entry((topic, partition)).or_default();
            let path = if is_left {
                &mut paths.left
            } else {
                &mut paths.right
            };
            *path = Some(&it.path);
        }
    }
    anyhow::ensure!(
        !partitions.is_empty() || !filter.narrows_partitions(),
        "no such partition in {} or {}",
        left.path.display(),
        right.path.display()
    );
    let mut progress = Progress::new(partitions.len() as u64);
    for paths in partitions.values() {
        let mut open = |path: Option<&Path>, checkpoints: &Checkpoints| {
            path.map(|path| half(path, checkpoints, context))
        };
        let left = open(paths.left, left_offsets);
        let right = open(paths.right, right_offsets);
        let bytes = [&left, &right]
            .into_iter()
            .flatten()
            .flatten()
            .map(|half| half.dir.size_in_bytes())
            .sum();
        match (&left, &right) {
            (Some(Some(left)), Some(Some(right))) => visit(&Pair::Both(left, right), context)?,
            (Some(Some(left)), None) => visit(&Pair::Left(left), context)?,
            (None, Some(Some(right))) => visit(&Pair::Right(right), context)?,
            // One of them was complained of.
            _ => {}
        }
        progress.partition_done(bytes);
    }
    Ok(())
}

fn half(path: &Path, checkpoints: &Checkpoints, context: &mut Context) -> Option<Half> {
    match hold(path, context) {
        Ok(dir) => Some(Half {
            offsets: checkpoints.of_dir(&dir),
            dir,
        }),
        // It was there a moment ago.
        Err(error) if error.is_not_found() => {
            context.vanished(path);
            None
        }
        Err(error) => {
            context.fail(&error);
            None
        }
    }
}

/// Opens a partition directory, and says what in it is no file.
fn hold(path: &Path, context: &Context) -> Result<PartitionDir, Error> {
    let dir = PartitionDir::hold(path)?;
    context.odd_entries(&dir);
    Ok(dir)
}

/// The partition of a log directory that has the same name.
fn same_partition(
    half: &Half,
    dir: &LogDir,
    checkpoints: &Checkpoints,
    context: &Context,
) -> anyhow::Result<Half> {
    let found = dir.partitions.iter().find(|it| {
        it.name.status == PartitionDirStatus::Live
            && half.dir.topic() == Some(it.name.topic.as_str())
            && half.dir.partition() == Some(it.name.partition)
    });
    let Some(found) = found else {
        anyhow::bail!(
            "no such partition: {} has none of the name of {}",
            dir.path.display(),
            half.dir.path.display()
        );
    };
    let dir = hold(&found.path, context)?;
    Ok(Half {
        offsets: checkpoints.of_dir(&dir),
        dir,
    })
}

fn open(path: &Path, context: &Context) -> anyhow::Result<Side> {
    Ok(match LogPath::discover(path)? {
        LogPath::File(path) => match PartitionDir::of_segment(&path)? {
            Some(dir) => Side::Partition(with_offsets(dir, context), true),
            None => return Err(Error::NotADirectory { path }.into()),
        },
        LogPath::Partition(dir) => {
            // First the checkpoints: what they name lies in the log that is held then.
            let checkpoints = checkpoints_above(&dir.path, context);
            let dir = hold(&dir.path, context)?;
            let offsets = checkpoints.of_dir(&dir);
            Side::Partition(Half { dir, offsets }, false)
        }
        LogPath::LogDir(dir) => {
            context.odd_root_files(&dir.path);
            let checkpoints = read_checkpoints(&dir.path, context);
            Side::LogDir(dir, checkpoints)
        }
    })
}

fn with_offsets(dir: PartitionDir, context: &Context) -> Half {
    Half {
        offsets: checkpoints_above(&dir.path, context).of_dir(&dir),
        dir,
    }
}
