//! `gaps` on logs whose segments were emptied, cut, removed or renamed: what is left beside them
//! says what they held.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[allow(
    dead_code,
    unreachable_pub,
    reason = "other test programs use the rest"
)]
#[path = "common/folders.rs"]
mod folders;

use std::fs;
use std::path::PathBuf;

use common::partitions::{gap_rows as rows, root};
use serde_json::{Value, json};

/// A copy of a partition of the incidents, with the checkpoints beside it, to be changed.
struct Copy {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copy {
    fn of(partition: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let from = root().join("fixtures").join(partition);
        folders::copy(from.parent().unwrap(), folder.path());
        let path = folder.path().join(from.file_name().unwrap());
        Self {
            _folder: folder,
            path,
        }
    }

    fn file(&self, offset: i64, suffix: &str) -> PathBuf {
        self.path.join(format!("{offset:020}.{suffix}"))
    }

    fn empty(&self, offset: i64, suffixes: &[&str]) {
        for suffix in suffixes {
            fs::write(self.file(offset, suffix), b"").unwrap();
        }
    }

    fn remove(&self, offset: i64, suffixes: &[&str]) {
        for suffix in suffixes {
            fs::remove_file(self.file(offset, suffix)).unwrap();
        }
    }

    /// As a broker that deletes a segment.
    fn mark_deleted(&self, offset: i64, suffixes: &[&str]) {
        for suffix in suffixes {
            let to = self.file(offset, &format!("{suffix}.deleted"));
            fs::rename(self.file(offset, suffix), to).unwrap();
        }
    }

    /// First and last offset, class and the file that tells of it, of what is gone.
    fn gone(&self) -> Vec<Value> {
        let wanted = [
            "before-log-start",
            "segment-missing",
            "segment-deleted",
            "zero-tail",
        ];
        let rows = rows(&self.path);
        let rows = rows.iter().filter(|row| {
            row["kind"] == "offsetGap"
                && (row["isLoss"] == true || wanted.iter().any(|it| row["class"] == *it))
        });
        rows.map(|row| {
            json!([
                row["firstOffset"],
                row["lastOffset"],
                row["class"],
                row["isLoss"],
                row["toldBy"]
            ])
        })
        .collect()
    }
}

fn missing(
    first: i64,
    last: impl Into<Option<i64>>,
    told_by: impl Into<Option<&'static str>>,
) -> Value {
    json!([first, last.into(), "segment-missing", true, told_by.into()])
}

/// Segments at 0, 7, 12, 18 and 25; killed.
const FIVE_SEGMENTS: &str = "incidents/unflushed-segments/data/orders-0";
/// Segments at 0, 5 and 9; stopped cleanly at 13.
const STOPPED: &str = "incidents/unreadable-snapshots/data/orders-0";
/// Segments at 0 and 17 of a compacted log; stopped cleanly at 18.
const COMPACTED: &str = "incidents/compacted-once/data/state-0";

#[test]
fn a_sound_log_lacks_nothing() {
    for partition in [FIVE_SEGMENTS, STOPPED, COMPACTED] {
        assert_eq!(Copy::of(partition).gone(), [] as [Value; 0], "{partition}");
    }
}

#[test]
fn an_emptied_log_is_no_compacted_one_while_an_index_names_its_records() {
    let copy = Copy::of(FIVE_SEGMENTS);
    copy.empty(12, &["log"]);
    assert_eq!(copy.gone(), [missing(12, 17, "00000000000000000012.index")]);
    let rows = rows(&copy.path);
    let row = rows
        .iter()
        .find(|row| row["class"] == "segment-missing" && row["kind"] == "offsetGap");
    let row = row.unwrap();
    assert_eq!(row["file"], "00000000000000000012.log");
    assert_eq!(row["position"], 0);

    // Compacted elsewhere or not, the cleaner writes the index of what it empties anew.
    let copy = Copy::of(COMPACTED);
    copy.empty(0, &["log"]);
    let gone = copy.gone();
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0][2], "segment-missing");
    assert_eq!((&gone[0][0], &gone[0][1]), (&json!(0), &json!(16)));
}

#[test]
fn a_log_cut_before_the_next_segment_is_told_by_its_index() {
    let copy = Copy::of(FIVE_SEGMENTS);
    let log = copy.file(12, "log");
    let bytes = fs::read(&log).unwrap();
    let first = 12 + usize::try_from(u32::from_be_bytes(bytes[8..12].try_into().unwrap())).unwrap();
    fs::write(&log, &bytes[..first]).unwrap();
    let gone = copy.gone();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!(
        (&gone[0][1], &gone[0][2]),
        (&json!(17), &json!("segment-missing"))
    );
    assert!(gone[0][4].is_string());
}

/// Without its indexes, too, an emptied `.log` of a log that was never compacted had the last batch
/// of a producer that the cleaner would have left.
#[test]
fn an_emptied_log_without_indexes_is_told_by_the_newest_snapshot() {
    let copy = Copy::of(STOPPED);
    copy.empty(5, &["log", "index", "timeindex"]);
    // Its producers go on behind it: it can be what the cleaner left.
    assert_eq!(copy.gone(), [] as [Value; 0]);
    let copy = Copy::of("incidents/producer-per-batch/data/clicks-1");
    copy.empty(41, &["log", "index", "timeindex"]);
    assert_eq!(
        copy.gone(),
        [missing(41, 131, "00000000000000000504.snapshot")]
    );
}

#[test]
fn a_segment_gone_from_the_front_is_told_by_its_indexes() {
    for left in ["index", "timeindex"] {
        let copy = Copy::of(FIVE_SEGMENTS);
        let gone: Vec<&str> = ["log", "index", "timeindex"]
            .into_iter()
            .filter(|it| *it != left)
            .collect();
        copy.remove(0, &gone);
        let name = if left == "index" {
            "00000000000000000000.index"
        } else {
            "00000000000000000000.timeindex"
        };
        assert_eq!(copy.gone(), [missing(0, 6, name)]);
    }
    // The second one: the first was deleted before.
    let copy = Copy::of(FIVE_SEGMENTS);
    copy.remove(0, &["log", "index", "timeindex"]);
    copy.mark_deleted(7, &["log"]);
    assert_eq!(
        copy.gone(),
        [
            json!([0, 6, "before-log-start", false, null]),
            missing(7, 11, "00000000000000000007.log.deleted")
        ]
    );
}

#[test]
fn what_lies_below_the_log_start_checkpoint_is_not_missing() {
    for (start, wanted) in [
        (7, vec![json!([0, 6, "before-log-start", false, null])]),
        (
            3,
            vec![
                json!([0, 2, "before-log-start", false, null]),
                missing(3, 6, "00000000000000000000.index"),
            ],
        ),
    ] {
        let copy = Copy::of(FIVE_SEGMENTS);
        copy.remove(0, &["log"]);
        let checkpoint = copy
            .path
            .parent()
            .unwrap()
            .join("log-start-offset-checkpoint");
        fs::write(checkpoint, format!("0\n1\norders 0 {start}\n")).unwrap();
        assert_eq!(copy.gone(), wanted);
    }
}

/// A snapshot of a clean stop lies inside a segment, and retention leaves it when it takes that.
#[test]
fn a_snapshot_alone_before_the_log_tells_of_nothing() {
    let copy = Copy::of("incidents/stray-snapshots/data/orders-0");
    copy.remove(0, &["log", "index", "timeindex"]);
    copy.remove(5, &["log", "index", "timeindex", "snapshot"]);
    assert!(copy.file(7, "snapshot").exists());
    assert_eq!(
        copy.gone(),
        [json!([0, 8, "before-log-start", false, null])]
    );
}

#[test]
fn a_segment_gone_from_the_end_is_told_by_what_is_left() {
    let copy = Copy::of(STOPPED);
    copy.remove(9, &["log"]);
    assert_eq!(copy.gone(), [missing(9, 12, "00000000000000000009.index")]);

    let copy = Copy::of(STOPPED);
    copy.mark_deleted(9, &["log"]);
    assert_eq!(
        copy.gone(),
        [missing(9, 12, "00000000000000000009.log.deleted")]
    );

    // Only the snapshot of the clean stop is left.
    let copy = Copy::of(STOPPED);
    copy.remove(9, &["log", "index", "timeindex", "snapshot"]);
    assert_eq!(
        copy.gone(),
        [missing(9, 12, "00000000000000000013.snapshot")]
    );

    let copy = Copy::of(STOPPED);
    copy.mark_deleted(9, &["log", "index", "timeindex", "snapshot"]);
    assert_eq!(
        copy.gone(),
        [missing(9, 12, "00000000000000000009.log.deleted")]
    );

    let copy = Copy::of(STOPPED);
    copy.empty(9, &["log"]);
    assert_eq!(
        copy.gone(),
        [missing(9, 12, "00000000000000000013.snapshot")]
    );

    let copy = Copy::of(STOPPED);
    copy.empty(9, &["log"]);
    copy.remove(13, &["snapshot"]);
    assert_eq!(
        copy.gone(),
        [missing(9, 12, "00000000000000000009.timeindex")]
    );
}

/// A follower that truncates leaves whole segments under other names for a minute, and no snapshot.
#[test]
fn a_truncated_segment_is_told_and_no_loss_unless_it_was_acknowledged() {
    let copy = Copy::of(STOPPED);
    copy.mark_deleted(9, &["log", "index", "timeindex", "snapshot"]);
    copy.remove(13, &["snapshot"]);
    assert_eq!(
        copy.gone(),
        [json!([
            9,
            null,
            "segment-deleted",
            false,
            "00000000000000000009.log.deleted"
        ])]
    );
    let checkpoint = copy
        .path
        .parent()
        .unwrap()
        .join("replication-offset-checkpoint");
    fs::write(checkpoint, "0\n1\norders 0 13\n").unwrap();
    assert_eq!(
        copy.gone(),
        [missing(9, Some(12), "00000000000000000009.log.deleted")]
    );
}

/// The last batch is zeros, and the clean stop before came behind it.
#[test]
fn zeros_in_place_of_batches_are_told() {
    let copy = Copy::of("s07g-zeroed-tail/data/dmg-0");
    assert_eq!(
        copy.gone(),
        [json!([
            128,
            128,
            "zero-tail",
            true,
            "00000000000000000129.snapshot"
        ])]
    );
}

/// Sequences that the lost segment had are lost with it, not taken by retention.
#[test]
fn sequences_of_a_segment_gone_from_the_front_are_lost() {
    let copy = Copy::of(FIVE_SEGMENTS);
    copy.remove(0, &["log"]);
    copy.remove(7, &["snapshot"]);
    let rows = rows(&copy.path);
    let missing: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "missing").collect();
    assert!(!missing.is_empty());
    for row in missing {
        assert_eq!(
            (&row["class"], &row["isLoss"]),
            (&json!("segment-missing"), &json!(true))
        );
    }
}
