//! Records that were before the first batch of a log or behind its last one, by the files that are
//! left of them.

use std::ops::Range;

use super::finding::{Detail, Finding, GapClass};
use super::offsets::{Offsets, gap};
use super::witnesses::{Witness, WitnessKind, Witnesses};
use crate::format::file_name::PartitionDirStatus;
use crate::log::checkpoints::{CheckpointedOffsets, high_watermark_past_end};
use crate::log::lost_end::snapshot_behind_end;
use crate::log::lost_front::{self, began_without_segments};
use crate::log::orphan_files::is_still_orphan;
use crate::log::partition_dir::PartitionDir;
use crate::log::{Error, Io};
use crate::report::partition_state::snapshot_files;

/// The first offset of segments that are gone from the front of a log, though its start was not
/// set behind them, and what tells of them. A snapshot alone tells nothing: one of a clean stop
/// lies in the middle of a segment, and outlives it (`UnifiedLog.deleteProducerSnapshots`).
fn lost_front(
    dir: &PartitionDir,
    witnesses: Witnesses<'_>,
    log_start_checkpoint: Option<i64>,
    io: Io,
) -> Result<Option<(i64, Witness)>, Error> {
    let Some(lost) = lost_front::lost_front(dir, log_start_checkpoint, io)? else {
        return Ok(None);
    };
    let first = lost.first_offset;
    let front = dir.segments.first().map_or(first, |it| it.base_offset);
    let left = lost.index.and_then(|(base, file)| {
        let log = witnesses
            .deleted_logs(&(base..base.saturating_add(1)))
            .next();
        log.or(Witness::of_file(file))
    });
    let witness = if lost.is_told_by_epochs() {
        let set_aside = witnesses.set_aside_from(first..front);
        set_aside.or(left).unwrap_or(Witness::LEADER_EPOCHS)
    } else {
        left.unwrap_or(Witness::LEADER_EPOCHS)
    };
    Ok(Some((first, witness)))
}

/// Whether a partition in use has no `.log`, and what is left of one tells that it had: a broker
/// leaves it with one segment at least (`LogLoader.load`).
#[must_use]
pub fn has_lost_all(dir: &PartitionDir, checkpoints: CheckpointedOffsets) -> bool {
    all_lost(dir, checkpoints, Witnesses::new(dir, Io::default())).is_some()
}

/// What tells so.
fn all_lost(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    witnesses: Witnesses<'_>,
) -> Option<Witness> {
    let is_live = dir.status() == Some(&PartitionDirStatus::Live);
    if !dir.segments.is_empty() || !is_live || !dir.is_whole {
        return None;
    }
    let all = 0..i64::MAX;
    let set_aside = || witnesses.set_aside_from(all.clone());
    let newest = snapshot_files(dir).max_by_key(|(at, _)| *at);
    let snapshot = newest.filter(|(at, _)| *at > 0);
    witnesses
        .of_lost_segment(&all)
        .or_else(set_aside)
        .or_else(|| dir.files.iter().find_map(Witness::of_swap))
        .or(snapshot.and_then(|(_, file)| Witness::of_file(file)))
        .or(checkpoints
            .high_watermark
            .filter(|at| *at > 0)
            .map(|_| Witness::HIGH_WATERMARK))
}

/// All of the offsets of such a log from its start on; `None` if it ended there, as far as anything
/// tells how far it went.
pub(in crate::report) fn lost_log(
    dir: &PartitionDir,
    checkpoints: CheckpointedOffsets,
    io: Io,
) -> Result<Option<Finding>, Error> {
    let witnesses = Witnesses::new(dir, io);
    let Some(witness) = all_lost(dir, checkpoints, witnesses) else {
        return Ok(None);
    };
    // A broker may be making it, or have begun to delete it.
    let mut settling = dir.settling();
    loop {
        if dir.has_changed() || !PartitionDir::open(&dir.path)?.segments.is_empty() {
            return Ok(None);
        }
        if !settling.wait() {
            break;
        }
    }
    let snapshot = snapshot_files(dir)
        .map(|(at, _)| at.saturating_sub(1))
        .max();
    let began = began_without_segments(dir, io)?.unwrap_or(0);
    let first = began.max(checkpoints.log_start_offset.unwrap_or(0));
    let set_aside = Offsets::new(dir, io, checkpoints).set_aside_behind(first)?;
    let all = 0..i64::MAX;
    let files = witnesses.orphans(&all).map(|(_, file)| file);
    let named = witnesses.in_indexes(files, &all)?.map(|(_, last)| last);
    let last = [
        named,
        snapshot,
        set_aside.map(|(_, last)| last),
        checkpoints.high_watermark.map(|at| at.saturating_sub(1)),
    ];
    let last = last.into_iter().flatten().max();
    if last.is_some_and(|last| last < first) {
        return Ok(None);
    }
    Ok(Some(Finding {
        last_offset: last,
        detail: Detail::ToldBy(witness),
        ..gap(first, first, GapClass::SegmentMissing)
    }))
}

/// Whether indexes without their `.log` are there and stay.
fn has_orphans(dir: &PartitionDir, witnesses: Witnesses<'_>, offsets: &Range<i64>) -> bool {
    // A broker may be renaming them.
    dir.settling().persists(|| {
        let mut orphans = witnesses.orphans(offsets);
        orphans.any(|(base, file)| is_still_orphan(dir, base, file))
    })
}

impl Offsets<'_> {
    /// Looks whether segments are gone from the front.
    ///
    /// # Errors
    /// If a file that may tell of them cannot be read.
    pub(super) fn find_lost_front(&mut self) -> Result<(), Error> {
        let log_start = self.checkpoints.log_start_offset;
        self.lost_front = match lost_front(self.dir, self.witnesses, log_start, self.io)? {
            Some(lost) => Some(lost),
            None => self.front_set_aside()?,
        };
        Ok(())
    }

    /// Tells what lies before the log, and apart from it what should not.
    pub(super) fn before_log(&self, found: &mut Vec<Finding>) {
        // A checkpointed log start below the first segment proves nothing: a broker writes the
        // checkpoint once a minute, and raises the start to the segment's base when it loads
        // (`LogManager.checkpointLogStartOffsets`, `LogLoader.load`).
        let begins_at = self
            .lost_front
            .map_or(self.log_start_offset, |(first, _)| first);
        if begins_at > 0 {
            found.push(gap(0, begins_at - 1, GapClass::BeforeLogStart));
        }
        if let Some((first, witness)) = self.lost_front {
            found.push(Finding {
                detail: Detail::ToldBy(witness),
                ..gap(first, self.log_start_offset - 1, GapClass::SegmentMissing)
            });
        }
    }

    /// Counts what is gone from the front: nothing else knows what producers wrote there.
    pub(super) fn count_lost_front(&mut self) {
        if let Some((first, _)) = self.lost_front {
            let lost = self.log_start_offset.saturating_sub(first);
            self.gone.lost = u64::try_from(lost).unwrap_or(0);
        }
    }

    /// Tells that the log start lies behind the end of a log that has records: any start then
    /// deletes all of its segments (`LogLoader.load`).
    pub(super) fn below_log_start(&self, found: &mut Vec<Finding>) {
        let begins = self.dir.segments.first().map(|it| it.base_offset);
        let is_past_end = self.checkpoints.log_start_offset > Some(self.next_offset);
        if let Some(first) = begins.filter(|first| is_past_end && *first < self.next_offset) {
            found.push(Finding {
                detail: Detail::ToldBy(Witness::LOG_START),
                ..gap(first, self.next_offset - 1, GapClass::LogStartPastEnd)
            });
        }
    }

    /// Tells what was behind the last batch, in a log that has been walked to its end. One that has
    /// gone on since may just have been cut: its other files are of another moment.
    pub(super) fn behind_log(&self, found: &mut Vec<Finding>) -> Result<(), Error> {
        let Some(last) = self.dir.segments.len().checked_sub(1) else {
            return Ok(());
        };
        let is_end = |it: &&mut Finding| it.segment == Some(last) && it.class.is_damage();
        // Damage at the end has its own say, as far as its header can be read.
        let mut damage = found.last_mut().filter(is_end);
        if let Some(damage) = &mut damage {
            self.tell_high_watermark(damage);
        }
        let first = match &damage {
            Some(damage) => damage.last_offset.map_or(self.next_offset, |damaged| {
                damaged.saturating_add(1).max(self.next_offset)
            }),
            None => self.next_offset,
        };
        let Some(told) = self.told_behind(last, first)? else {
            return Ok(());
        };
        if self.dir.has_changed() {
            return Ok(());
        }
        let nameless = damage.filter(|it| it.last_offset.is_none());
        match nameless.map(|damage| end_with(damage, told)) {
            Some(rest) => found.extend(rest),
            None => found.push(told),
        }
        Ok(())
    }

    /// Says of a torn batch that it was not acknowledged: it is a loss to the client that is not
    /// told so, and to no other. A start cuts it off and gives its offsets out again.
    fn tell_high_watermark(&self, damage: &mut Finding) {
        let is_torn = damage.class == GapClass::Damage("torn-tail");
        let at = self.checkpoints.high_watermark;
        if let Some(at) = at.filter(|at| is_torn && damage.first_offset >= Some(*at)) {
            damage.detail = Detail::AboveHighWatermark(at);
        }
    }

    /// What files tell of offsets from `first` on, which is behind the last batch, and the
    /// checkpointed high watermark.
    fn told_behind(&self, last: usize, first: i64) -> Result<Option<Finding>, Error> {
        // Below the log start nothing is missing.
        let first = first.max(self.log_start_offset);
        let told = self.told_by_files(last, first)?;
        let dir = self.dir;
        let past_end = high_watermark_past_end(dir, self.checkpoints, first, self.io);
        let acknowledged = past_end.filter(|_| dir.is_whole).map(|at| at - 1);
        Ok(match told {
            Some(told) if told.is_loss() => Some(Finding {
                last_offset: told.last_offset.max(acknowledged),
                ..told
            }),
            told => acknowledged.map_or(told, |last_offset| {
                let detail = told.map_or(Detail::ToldBy(Witness::HIGH_WATERMARK), |it| it.detail);
                Some(Finding {
                    detail,
                    ..gap(first, last_offset, GapClass::SegmentMissing)
                })
            }),
        })
    }

    fn told_by_files(&self, last: usize, first: i64) -> Result<Option<Finding>, Error> {
        let dir = self.dir;
        let behind = first..i64::MAX;
        if dir.is_whole && has_orphans(dir, self.witnesses, &behind) {
            return self.lost_segments(&behind);
        }
        if let Some((witness, last_offset)) = self.named_behind(last, &behind)? {
            let gap = match self.zero_tail {
                Some((segment, position)) => Finding {
                    segment: Some(segment),
                    position: Some(position),
                    ..gap(first, last_offset, GapClass::Damage("zero-tail"))
                },
                None => gap(first, last_offset, GapClass::SegmentMissing),
            };
            // What a snapshot tells of may have been in a segment of its own.
            let is_in_last = witness.kind != WitnessKind::ProducerSnapshot || self.is_segment_empty;
            let deleted = self.witnesses.deleted_logs(&behind);
            let deleted = deleted
                .filter(|_| gap.segment.is_none() && !is_in_last)
                .min_by_key(|it| it.base_offset);
            return Ok(Some(Finding {
                segment: gap.segment.or(is_in_last.then_some(last)),
                detail: Detail::ToldBy(deleted.unwrap_or(witness)),
                ..gap
            }));
        }
        self.deleted_behind(&behind)
    }

    /// Segments behind the end, by the indexes they left.
    fn lost_segments(&self, behind: &Range<i64>) -> Result<Option<Finding>, Error> {
        let Some(witness) = self.witnesses.of_lost_segment(behind) else {
            return Ok(None);
        };
        let orphans = self.witnesses.orphans(behind).map(|(_, file)| file);
        let named = self.witnesses.in_indexes(orphans, behind)?;
        let last_offset = named.map(|(_, offset)| offset);
        let snapshot = snapshot_files(self.dir).map(|(at, _)| at - 1).max();
        let snapshot = snapshot.filter(|at| *at >= witness.base_offset);
        Ok(Some(Finding {
            last_offset: last_offset.max(snapshot),
            detail: Detail::ToldBy(witness),
            ..gap(behind.start, behind.start, GapClass::SegmentMissing)
        }))
    }

    /// The highest offset behind the end that a side file tells of.
    fn named_behind(
        &self,
        last: usize,
        behind: &Range<i64>,
    ) -> Result<Option<(Witness, i64)>, Error> {
        let dir = self.dir;
        let snapshot = snapshot_behind_end(dir, self.checkpoints, behind.start, self.io);
        if let Some((at, file)) = snapshot {
            return Ok(Witness::of_file(file).map(|witness| (witness, at - 1)));
        }
        let Some(segment) = dir.segments.get(last) else {
            return Ok(None);
        };
        // Where a snapshot says that the log ended here, an index that says other is wrong itself.
        let is_stopped_here = behind.start > segment.base_offset
            && snapshot_files(dir).any(|(at, _)| at == behind.start);
        if is_stopped_here {
            return Ok(None);
        }
        let named = self.witnesses.in_last_segment(segment, behind)?;
        if named.is_none() || !dir.is_on_disk() {
            return Ok(named);
        }
        // A broker that truncates cuts the indexes first: those at hand may be from before it.
        let now = PartitionDir::open(&dir.path)?;
        let mut segments = now.segments.iter();
        match segments.find(|it| it.base_offset == segment.base_offset) {
            Some(segment) => Witnesses::new(&now, self.io).in_last_segment(segment, behind),
            None => Ok(None),
        }
    }

    /// A segment behind the end under a name that any start deletes: what is lost with it, or else
    /// what a follower leaves that was told to truncate.
    fn deleted_behind(&self, behind: &Range<i64>) -> Result<Option<Finding>, Error> {
        if let Some((witness, last)) = self.set_aside_behind(behind.start)? {
            return Ok(Some(Finding {
                detail: Detail::ToldBy(witness),
                ..gap(behind.start, last, GapClass::SegmentMissing)
            }));
        }
        let deleted = self.witnesses.deleted_logs(behind);
        let witness = deleted.min_by_key(|log| log.base_offset);
        Ok(witness.map(|witness| Finding {
            last_offset: None,
            detail: Detail::ToldBy(witness),
            ..gap(witness.base_offset, 0, GapClass::SegmentDeleted)
        }))
    }
}

/// Damage of which no header is left reaches as far as something else tells of, or to the segment
/// that is missing behind it, which is what is left to tell.
fn end_with(damage: &mut Finding, told: Finding) -> Option<Finding> {
    let Detail::ToldBy(witness) = told.detail else {
        return Some(told);
    };
    let begins_there = !matches!(
        witness.kind,
        WitnessKind::ProducerSnapshot | WitnessKind::HighWatermark
    );
    if begins_there
        && damage
            .first_offset
            .is_some_and(|first| first < witness.base_offset)
    {
        damage.last_offset = witness.base_offset.checked_sub(1);
        return Some(Finding {
            first_offset: Some(witness.base_offset),
            ..told
        });
    }
    if !told.is_loss() {
        return Some(told);
    }
    damage.last_offset = told.last_offset;
    damage.detail = told.detail;
    None
}
