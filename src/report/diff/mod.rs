//! Do two replicas agree: where they part, how, what each has alone, and what a broker would do.
//!
//! Both logs are read once, side by side, in offset order; segments roll where each replica likes.
//! Batches that are the same to the last byte are passed over. Where they are not, records are
//! compared, so that the same records in other batches, or cleaned at another time, are told from
//! other data. What lies below the higher of the two log starts is not compared, but for a front
//! that is lost. In memory are one batch a side, the open producers, and bounded lists of what was
//! found.
//!
//! Where one side has records that seem compacted away on the other, their keys are looked for
//! there; if some should have stayed, the logs are compared once more with that in mind.

mod alone;
mod compare;
mod cursor;
mod damage;
mod differences;
mod epochs;
mod facts;
mod kind;
mod loaded;
mod lost_records;
mod one_sided;
mod replica;
mod row;
mod same;
mod shared_holes;
mod side_files;
mod snapshots;
mod txn_rows;
mod txns;

pub use alone::{Alone, AloneProducer, AloneRange};
pub use differences::Difference;
pub use epochs::TruncationRow;
pub use facts::{BatchPlaceRow, DamageRow};
pub use kind::DiffKind;
pub use row::{DiffRow, LostFrontRow, SharedDamage};
pub use side_files::SideFileRow;
pub use txns::{DiffTxn, TxnSide};

use std::path::PathBuf;

use self::alone::AloneFold;
use self::compare::Compare;
use self::cursor::{Cursor, walk_both};
use self::damage::DamageLists;
use self::epochs::{EpochsOf, KnownEpochs, known_epochs, last_common, truncation};
use self::kind::{Side, Sides};
use self::lost_records::lost_records;
use self::replica::Replica;
use self::side_files::SideFiles;
use crate::log::checkpoints::CheckpointedOffsets;
use crate::log::offset_ranges::OffsetRanges;
use crate::log::partition_dir::PartitionDir;
use crate::log::partition_walk::find_batch;
use crate::log::{Error, Io};
use crate::state::ReplicaLog;

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// How files are read.
    pub io: Io,
    /// The most bytes a batch may unpack to; a larger one counts as not readable.
    pub max_batch_bytes: usize,
    /// Whether to look at files beside the logs.
    pub side_files: bool,
}

/// One replica.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaInput<'d> {
    /// Its directory.
    pub dir: &'d PartitionDir,
    /// What the checkpoints above it say.
    pub checkpoints: CheckpointedOffsets,
}

/// How two replicas differ, and what could not be looked at.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The answer.
    pub row: DiffRow,
    /// Segments that vanished while they were read.
    pub vanished: Vec<PathBuf>,
}

/// Compares two replicas of a partition.
///
/// # Errors
/// If a file cannot be read.
pub fn diff_partitions(
    left: ReplicaInput<'_>,
    right: ReplicaInput<'_>,
    options: DiffOptions,
) -> Result<Diff, Error> {
    left.dir
        .unless_cut(right.dir.unless_cut(compare_logs(left, right, options)))
}

fn compare_logs(
    left: ReplicaInput<'_>,
    right: ReplicaInput<'_>,
    options: DiffOptions,
) -> Result<Diff, Error> {
    let inputs = Sides { left, right };
    let mut walked = walk(&inputs, Sides::default(), options)?;
    let lost = lost_records(&walked.compare, &inputs, walked.log_end_offsets, options)?;
    let not_looked_for = lost.left.not_looked_for + lost.right.not_looked_for;
    if !lost.left.offsets.is_empty() || !lost.right.offsets.is_empty() {
        let lost = Sides {
            left: lost.left.offsets,
            right: lost.right.offsets,
        };
        walked = walk(&inputs, lost, options)?;
    }
    let vanished = std::mem::take(&mut walked.vanished);
    let row = DiffRow {
        records_not_looked_for: not_looked_for,
        ..answer(walked, &inputs, options)?
    };
    Ok(Diff { row, vanished })
}

/// Both logs, read once.
struct Walked<'d> {
    compare: Compare<'d>,
    log_end_offsets: Sides<i64>,
    vanished: Vec<PathBuf>,
}

/// Reads both logs; `lost` is what each of them is known to have lost of what a cleaner keeps.
fn walk<'d>(
    inputs: &Sides<ReplicaInput<'d>>,
    lost: Sides<OffsetRanges>,
    options: DiffOptions,
) -> Result<Walked<'d>, Error> {
    let io = options.io;
    let replicas = Sides {
        left: Replica::new(inputs.left, io)?,
        right: Replica::new(inputs.right, io)?,
    };
    let mut cursors = Sides {
        left: Cursor::new(inputs.left.dir, io),
        right: Cursor::new(inputs.right.dir, io),
    };
    let mut compare = Compare::new(replicas, lost, options.max_batch_bytes);
    walk_both(&mut cursors, |heads| compare.step(heads))?;
    let log_end_offsets = compare.finish()?;
    let mut vanished = Vec::new();
    for side in Side::BOTH {
        let dir = inputs.of(side).dir;
        for index in &cursors.of(side).vanished {
            let log = dir.segments.get(*index).and_then(|it| dir.file(it.log));
            vanished.extend(log.map(|log| dir.file_path(log)));
        }
    }
    Ok(Walked {
        compare,
        log_end_offsets,
        vanished,
    })
}

/// What the logs alone say, once both have been read.
struct Compared<'c, 'd> {
    inputs: &'c Sides<ReplicaInput<'d>>,
    replicas: &'c Sides<Replica<'d>>,
    log_end_offsets: Sides<i64>,
    differences: &'c [Difference],
    damage: &'c DamageLists,
    options: DiffOptions,
}

impl Compared<'_, '_> {
    /// The first offset at which one side has what the other should have.
    fn first_lost(&self) -> Option<i64> {
        let first = self.differences.first()?;
        first.kind.is_loss().then_some(first.first_offset)
    }

    fn epochs(&self, side: Side) -> Result<KnownEpochs, Error> {
        let input = self.inputs.of(side);
        known_epochs(&EpochsOf {
            dir: input.dir,
            io: self.options.io,
            by_batches: &self.replicas.of(side).epochs,
            checkpointed_start: input.checkpoints.log_start_offset,
            log_end_offset: *self.log_end_offsets.of(side),
            is_log_alone: !self.options.side_files,
        })
    }

    fn logs(&self, known: &Sides<KnownEpochs>) -> Sides<ReplicaLog> {
        Sides {
            left: self.log(Side::Left, &known.left),
            right: self.log(Side::Right, &known.right),
        }
    }

    fn log(&self, side: Side, known: &KnownEpochs) -> ReplicaLog {
        ReplicaLog {
            epochs: known.epochs.clone(),
            log_start_offset: self.replicas.of(side).log_start_offset,
            log_end_offset: *self.log_end_offsets.of(side),
            high_watermark: self.inputs.of(side).checkpoints.high_watermark,
        }
    }

    fn truncation(&self, logs: &Sides<ReplicaLog>, leader: Side) -> Result<TruncationRow, Error> {
        let dir = self.inputs.of(leader.other()).dir;
        let stops = self.damage.stops.of(leader);
        truncation(logs, leader, self.first_lost(), stops, |offset| {
            let batch = find_batch(dir, self.options.io, offset)?;
            Ok(batch.map(|batch| batch.base_offset))
        })
    }

    fn side_files(&self, known: &Sides<KnownEpochs>) -> Result<Vec<SideFileRow>, Error> {
        if !self.options.side_files {
            return Ok(Vec::new());
        }
        let shorter = self.log_end_offsets.left.min(self.log_end_offsets.right);
        let end = self.first_lost().map_or(shorter, |it| it.min(shorter));
        let split = |it: &&Difference| it.kind == DiffKind::OtherBatchSplit;
        let first_split = self.differences.iter().find(split);
        let (left, right) = (&self.replicas.left, &self.replicas.right);
        SideFiles {
            dirs: Sides {
                left: self.inputs.left.dir,
                right: self.inputs.right.dir,
            },
            io: self.options.io,
            start: left.log_start_offset.max(right.log_start_offset),
            end,
            same_batches_end: first_split.map_or(end, |it| it.first_offset.min(end)),
            has_batches: Sides {
                left: left.has_batches(),
                right: right.has_batches(),
            },
            rowless: Sides {
                left: &left.rowless,
                right: &right.rowless,
            },
            is_cleaned: left.is_cleaned || right.is_cleaned,
        }
        .compare(known)
    }
}

fn answer(
    walked: Walked<'_>,
    inputs: &Sides<ReplicaInput<'_>>,
    options: DiffOptions,
) -> Result<DiffRow, Error> {
    let (compare, log_end_offsets) = (walked.compare, walked.log_end_offsets);
    let replicas = &compare.replicas;
    let differences = compare.differences.finish();
    let compared = Compared {
        inputs,
        replicas,
        log_end_offsets,
        differences: &differences,
        damage: &compare.damage,
        options,
    };
    let known = Sides {
        left: compared.epochs(Side::Left)?,
        right: compared.epochs(Side::Right)?,
    };
    let logs = compared.logs(&known);
    let side_files = compared.side_files(&known)?;
    let common = last_common(
        Sides {
            left: &replicas.left.epochs,
            right: &replicas.right.epochs,
        },
        log_end_offsets,
    );
    let first = differences.first();
    let has_other_files = side_files.iter().any(|row| row.is_difference);
    let kind = first
        .map(|it| it.kind)
        .or(has_other_files.then_some(DiffKind::SideFiles));
    let (left, right) = (inputs.left.dir, inputs.right.dir);
    let if_left_leads = compared.truncation(&logs, Side::Left)?;
    let if_right_leads = compared.truncation(&logs, Side::Right)?;
    let damage = compare.damage;
    let shared = |Sides { left, right }| SharedDamage { left, right };
    Ok(DiffRow {
        topic: left.topic().or(right.topic()).map(str::to_owned),
        partition: left.partition().or(right.partition()),
        left_path: Some(left.path.display().to_string()),
        right_path: Some(right.path.display().to_string()),
        equal: kind.is_none(),
        kind,
        first_divergent_offset: first.map(|it| it.first_offset),
        is_loss: kind.is_some_and(DiffKind::is_loss),
        last_common_epoch: common.map(|it| it.leader_epoch),
        last_common_end_offset: common.map(|it| it.end_offset),
        left_log_start_offset: Some(replicas.left.log_start_offset),
        right_log_start_offset: Some(replicas.right.log_start_offset),
        left_lost_front: replicas.left.lost_front,
        right_lost_front: replicas.right.lost_front,
        left_log_end_offset: Some(log_end_offsets.left),
        right_log_end_offset: Some(log_end_offsets.right),
        only_in_left: AloneFold::finish(compare.alone.left),
        only_in_right: AloneFold::finish(compare.alone.right),
        transactions_not_listed: compare.txns.not_listed,
        transactions: compare.txns.finish(replicas),
        if_left_leads: Some(if_left_leads),
        if_right_leads: Some(if_right_leads),
        left_epoch_source: Some(known.left.source),
        right_epoch_source: Some(known.right.source),
        both_missing: shared_holes::shared(&replicas.left.lost, &replicas.right.lost),
        batches_over_limit: compare.over_limit,
        records_not_looked_for: 0,
        both_corrupt: damage.both.into_iter().map(shared).collect(),
        damaged_left: damage.one.left,
        damaged_right: damage.one.right,
        damage_not_listed: damage.not_listed,
        differences,
        side_files,
    })
}
