//! Compacted logs, segments of which a start deletes: what Kafka's cleaner would have kept of them
//! is lost, and what it took is not.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where something is not as it must be"
)]

#[path = "common/cleaner.rs"]
mod cleaner;
#[path = "common/recover_run.rs"]
mod recover_run;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cleaner::{Aborted, Batch, Cleaned, a_log, batch, kept_of, marker, put};
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::last_copies::{AfterStart, last_copies};
use kseg::log::offset_ranges::OffsetRanges;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::{Error, Io};
use kseg::report::gaps::{GapKind, GapOptions, find_gaps};
use kseg::report::verify::{BeforeStart, VerifyOptions, look_before_start};
use proptest::collection::vec;
use proptest::prelude::*;
use recover_run::recover;
use tempfile::TempDir;

/// A partition of a broker that was stopped cleanly.
struct Partition {
    data: TempDir,
    checkpoints: CheckpointedOffsets,
}

impl Partition {
    fn new(high_watermark: i64, cleaned_to: i64) -> Self {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("state-0")).unwrap();
        fs::write(data.path().join(".kafka_cleanshutdown"), b"{}").unwrap();
        let mut it = Self {
            data,
            checkpoints: CheckpointedOffsets::default(),
        };
        it.checkpoint("replication-offset-checkpoint", high_watermark);
        it.checkpoint("cleaner-offset-checkpoint", cleaned_to);
        it.checkpoints.high_watermark = Some(high_watermark);
        it.checkpoints.cleaner_offset = Some(cleaned_to);
        let epochs = it.path().join("leader-epoch-checkpoint");
        fs::write(epochs, "0\n1\n0 0\n").unwrap();
        it
    }

    fn checkpoint(&self, name: &str, offset: i64) {
        let line = format!("0\n1\nstate 0 {offset}\n");
        fs::write(self.data.path().join(name), line).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.data.path().join("state-0")
    }

    fn put(&self, base: i64, batches: &[Batch], aborted: &[Aborted], suffix: &str) {
        put(&self.path(), base, batches, aborted, suffix);
    }

    /// What a start deletes for good.
    fn lost(&self, log_end_offset: i64) -> BTreeSet<i64> {
        let dir = PartitionDir::open(&self.path()).unwrap();
        let after = AfterStart {
            dir: &dir,
            log_end_offset,
            checkpoints: self.checkpoints,
        };
        let mut told = OffsetRanges::default();
        let found = last_copies(&dir, after, &mut told, true, Io::default()).unwrap();
        let ranges = found.lost.iter().flat_map(|it| it.offsets.iter());
        ranges.flat_map(|(first, last)| first..=last).collect()
    }

    /// From the first to the last offset that `gaps` and `verify` tell as lost.
    fn told(&self) -> [Option<(i64, i64)>; 2] {
        let dir = PartitionDir::open(&self.path()).unwrap();
        let (mut by_gaps, mut by_verify) = (None, None);
        let add = |to: &mut Option<(i64, i64)>, first: i64, last: i64| {
            let (from, end) = to.unwrap_or((first, last));
            *to = Some((from.min(first), end.max(last)));
        };
        find_gaps::<Error>(&dir, self.checkpoints, &GapOptions::default(), |it| {
            if it.kind == GapKind::OffsetGap && it.is_loss() {
                add(
                    &mut by_gaps,
                    it.first_offset.unwrap(),
                    it.last_offset.unwrap(),
                );
            }
            Ok(())
        })
        .unwrap();
        let options = VerifyOptions::default();
        look_before_start(&dir, self.checkpoints, &options, |it| {
            let BeforeStart::Unreadable(it) = it else {
                return;
            };
            add(&mut by_verify, it.first_offset, it.last_offset);
        })
        .unwrap();
        [by_gaps, by_verify]
    }
}

/// Without the marker the aborted transaction goes on, without the tombstone the value before it is
/// there again, and what comes later of the other keys is not decided, or lies behind what is not.
#[test]
fn what_a_cleaner_would_have_kept_is_named() {
    for aborts in [true, false] {
        let log = [
            (0, vec![batch(0, Some(1), 1, true), batch(1, None, 2, true)]),
            (
                10,
                vec![
                    marker(10, 1, aborts),
                    batch(11, None, 2, false),
                    batch(12, None, 3, true),
                    batch(13, None, 4, true),
                    batch(14, None, 5, false),
                ],
            ),
            (
                20,
                vec![batch(20, Some(2), 3, true), batch(21, None, 4, true)],
            ),
        ];
        let aborted = if aborts { vec![(1, 0, 10)] } else { Vec::new() };
        let partition = Partition::new(22, 20);
        for (base, batches) in &log {
            let suffix = if *base == 10 { ".deleted" } else { "" };
            partition.put(*base, batches, &aborted, suffix);
        }
        assert_eq!(partition.lost(22), BTreeSet::from([10, 11, 12, 13]));
        let run = recover(&[partition.path().as_os_str()]);
        let says = "00000000000000000010.log.deleted is the last copy here of 4 records in 10..13 \
                    that a cleaner would have kept (1 marker of a transaction that stays, 1 \
                    tombstone of a key with an older value that stays, 2 records whose keys no \
                    later one has), and a start removes it";
        for row in &run.rows {
            assert_eq!(row["losses"]["records"], 4, "{}", run.table);
            assert_eq!(row["losesData"], true, "{}", run.table);
            let warnings = row["warnings"].to_string();
            assert!(warnings.contains(says), "{warnings}");
        }
        assert_eq!(partition.told(), [Some((10, 13)); 2]);

        // A start deletes the same for a `.swap` that has nothing of it.
        let partition = Partition::new(22, 20);
        for (base, batches) in &log {
            partition.put(*base, batches, &aborted, "");
        }
        let (_, middle) = &log[1];
        partition.put(10, &middle[4..], &[], ".swap");
        let run = recover(&[partition.path().as_os_str()]);
        for row in &run.rows {
            let losses = &row["losses"];
            assert_eq!(losses["records"], 4, "{}", run.table);
            assert_eq!(losses["firstOffset"], 10, "{}", run.table);
            assert_eq!(losses["lastOffset"], 13, "{}", run.table);
            let warnings = row["warnings"].to_string();
            let says = "nothing else has them, and a cleaner would have kept them";
            assert!(warnings.contains(says), "{warnings}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A segment between others has got the suffix by hand, with all of its files.
    #[test]
    fn what_a_cleaner_would_have_kept_is_lost(
        log in a_log(),
        passes in vec((1..3_usize, any::<bool>()), 0..3),
        pick in any::<prop::sample::Index>(),
        watermark in any::<prop::sample::Index>(),
    ) {
        let mut cleaned = Cleaned::new(log);
        let end = cleaned.end();
        for (group, expired) in passes {
            cleaned.clean(group, end, expired);
        }
        let cleaned_to = cleaned.cleaned_to;
        let room = usize::try_from(end - cleaned_to + 1).unwrap();
        let high_watermark = cleaned_to + i64::try_from(watermark.index(room)).unwrap();
        let bases: Vec<i64> = cleaned.log.keys().copied().collect();
        prop_assume!(bases.len() > 2);
        let base = bases[1 + pick.index(bases.len() - 2)];
        let gone = cleaned.log.remove(&base).unwrap();
        let partition = Partition::new(high_watermark, cleaned_to.max(1));
        for (base, batches) in &cleaned.log {
            partition.put(*base, batches, &cleaned.aborted, "");
        }
        partition.put(base, &gone, &cleaned.aborted, ".deleted");
        let ends = (high_watermark, cleaned_to.max(1));
        let lost = kept_of(&gone, &cleaned.log, &cleaned.aborted, ends);
        prop_assert_eq!(&partition.lost(end), &lost);
        let all = lost.first().copied().zip(lost.last().copied());
        // What is told is from the first to the last of them, as far as it was acknowledged.
        let below = all.map(|(first, last)| (first, last.min(high_watermark - 1)));
        let below = below.filter(|(first, last)| first <= last);
        prop_assert_eq!(partition.told(), [all, below]);
    }

    /// What a compaction has replaced waits for its deletion.
    #[test]
    fn what_the_cleaner_took_is_not(
        log in a_log(),
        passes in vec((1..4_usize, any::<bool>(), 50..101_i64), 1..4),
        is_done in any::<bool>(),
    ) {
        let mut cleaned = Cleaned::new(log);
        let end = cleaned.end();
        let mut before = 0;
        for (group, expired, part) in passes {
            before = cleaned.cleaned_to;
            cleaned.clean(group, end * part / 100, expired);
        }
        prop_assume!(!cleaned.replaced.is_empty());
        // The checkpoint is written once all of the log is cleaned.
        let cleaned_to = if is_done { cleaned.cleaned_to } else { before };
        let partition = Partition::new(end, cleaned_to);
        for (base, batches) in &cleaned.log {
            partition.put(*base, batches, &cleaned.aborted, "");
        }
        for (base, batches) in &cleaned.replaced {
            partition.put(*base, batches, &cleaned.aborted, ".deleted");
        }
        prop_assert_eq!(partition.lost(end), BTreeSet::new());
        prop_assert_eq!(partition.told(), [None, None]);
    }
}
