//! What `lso` says against the dry run of a start, which is compared with Kafka's own elsewhere
//! (`recover.rs`, `differential_recover.rs`): of the `.log` files alone, of transactions that begin
//! below the log start, and of a directory without snapshots.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as it must be"
)]

mod common;
#[path = "common/program.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    reason = "what several test programs share, each using a part"
)]
mod program;

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use common::partitions::{cases, partitions_below, root};
use kseg::append::LogConfig;
use kseg::append::dry_run::row::Start;
use kseg::append::dry_run::{DryRunOptions, RecoverRow, dry_run};
use kseg::format::producer_snapshot;
use kseg::log::batches::Entry;
use kseg::log::checkpoints::CheckpointedOffsets;
use kseg::log::partition_dir::PartitionDir;
use kseg::log::partition_walk::walk_partition;
use kseg::log::{Error, Io};
use kseg::report::lso::{LsoRow, lso};
use kseg::report::partition_state::{StateOptions, load_partition_state};

/// Log starts tried of a partition.
const MOST_STARTS: usize = 24;

/// A copy of the files of a partition with these extensions, in a folder with its name.
fn copy_of(partition: &Path, extensions: &[&str]) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    let into = copied.path().join(partition.file_name().unwrap());
    fs::create_dir(&into).unwrap();
    for file in fs::read_dir(partition).unwrap() {
        let file = file.unwrap();
        let extension = file.path().extension().map(OsStr::to_owned);
        if extension.is_some_and(|it| extensions.iter().any(|wanted| it == *wanted)) {
            fs::copy(file.path(), into.join(file.file_name())).unwrap();
        }
    }
    copied
}

/// Offsets to begin at: of batches, and inside them. Empty if there is damage: a start cuts there.
fn starts(dir: &PartitionDir) -> Vec<i64> {
    let mut starts = Vec::new();
    let mut is_sound = true;
    let mut next = 0;
    walk_partition(dir, Io::Mmap, 0, |at, entry| {
        match entry {
            Entry::Batch(batch) => {
                let (first, last) = (batch.header.base_offset(), batch.header.last_offset());
                is_sound &= batch.is_valid()? && first >= next && last >= first;
                is_sound &= first >= at.base_offset;
                next = last + 1;
                starts.extend([first, (first + last) / 2]);
            }
            Entry::Legacy(_) | Entry::Damage(_) => is_sound = false,
        }
        Ok::<_, Error>(ControlFlow::Continue(()))
    })
    .unwrap();
    starts.dedup();
    if !is_sound {
        starts.clear();
    }
    let step = starts.len().div_ceil(MOST_STARTS).max(1);
    starts.into_iter().step_by(step).collect()
}

fn recover(dir: &PartitionDir, checkpoints: CheckpointedOffsets, start: Start) -> RecoverRow {
    let options = DryRunOptions {
        io: Io::Mmap,
        config: LogConfig::default(),
        now_ms: None,
        is_clean: start == Start::Clean,
        index_memory: 0,
    };
    dry_run(dir, checkpoints, start, &options).unwrap().row
}

fn from_scratch(dir: &PartitionDir, checkpoints: CheckpointedOffsets) -> LsoRow {
    let options = StateOptions {
        from_scratch: true,
        ..StateOptions::default()
    };
    lso(dir, checkpoints, options).unwrap().unwrap()
}

#[test]
fn the_log_alone_is_what_an_unclean_start_recovers() {
    let (mut compared, mut below) = (0, 0);
    let mut wrong = Vec::new();
    let cases = cases();
    let folders = [root().join("fixtures")];
    for partition in folders
        .iter()
        .chain(&cases)
        .flat_map(|it| partitions_below(it))
    {
        let copied = copy_of(&partition, &["log"]);
        let path = copied.path().join(partition.file_name().unwrap());
        let dir = PartitionDir::open(&path).unwrap();
        for start in starts(&dir) {
            let checkpoints = CheckpointedOffsets {
                log_start_offset: Some(start),
                ..CheckpointedOffsets::default()
            };
            let row = recover(&dir, checkpoints, Start::Unclean);
            let ours = from_scratch(&dir, checkpoints);
            // Where recovery cuts the log there is another one.
            if !row.loads || row.log_end_offset != Some(ours.log_end_offset) {
                continue;
            }
            compared += 1;
            let held = ours.held_by.as_ref();
            below += usize::from(held.is_some_and(|it| it.first_offset < start));
            if row.last_stable_offset != Some(ours.last_stable_offset) {
                wrong.push(format!(
                    "{} from {start}: recovered {:?}, ours {}",
                    partition.display(),
                    row.last_stable_offset,
                    ours.last_stable_offset
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 1000 && below > 20, "{compared} {below}");
}

/// The snapshot of a broker at the end of the log, in a directory whose log start lies above all
/// batches of the transaction: as long as they are in a file it is an open one, and the log alone
/// says the same.
#[test]
fn a_transaction_below_the_log_start_is_open_while_its_batches_are_there() {
    let partition = root().join("fixtures/incidents/hanging-transaction/data");
    let partition = partitions_below(&partition).remove(0);
    let copied = copy_of(&partition, &["log"]);
    let path = copied.path().join(partition.file_name().unwrap());
    let dir = PartitionDir::open(&path).unwrap();
    let none = CheckpointedOffsets::default();
    let state = load_partition_state(&dir, none, StateOptions::default());
    let state = state.unwrap().unwrap();
    let open = *state.manager.ongoing_txns().next().unwrap();
    let rows: Vec<_> = state.manager.snapshot_rows().collect();
    let entries: Vec<_> = rows.iter().map(Into::into).collect();
    let snapshot = producer_snapshot::encode(&entries);
    let end = state.log_end_offset;
    fs::write(path.join(format!("{end:020}.snapshot")), snapshot).unwrap();
    let dir = PartitionDir::open(&path).unwrap();
    let checkpoints = CheckpointedOffsets {
        log_start_offset: Some(end - 1),
        ..none
    };
    let row = lso(&dir, checkpoints, StateOptions::default())
        .unwrap()
        .unwrap();
    assert_eq!(row.snapshot_offset, Some(end));
    let held = row.held_by.unwrap();
    assert_eq!(held.kind, "open-transaction");
    assert_eq!(held.first_offset, open.first_offset.message_offset);
    assert_eq!(held.first_offset_in_log, Some(held.first_offset));
    assert!(held.start_timestamp.is_some() && held.file.is_some());
    assert_eq!(
        (row.last_stable_offset_replayed, row.difference),
        (None, None)
    );
    assert_eq!(
        from_scratch(&dir, checkpoints).last_stable_offset,
        row.last_stable_offset
    );
}

/// With the mark of a clean stop and no snapshot a start replays nothing
/// (`UnifiedLog.rebuildProducerState`): what the log has open is shown, and that it will be
/// forgotten is said.
#[test]
fn a_clean_start_without_snapshots_is_warned_of() {
    let partition = root().join("fixtures/incidents/hanging-transaction/data");
    let partition = partitions_below(&partition).remove(0);
    let copied = copy_of(&partition, &["log", "index", "timeindex", "txnindex"]);
    let path = copied.path().join(partition.file_name().unwrap());
    let none = CheckpointedOffsets::default();
    let row = || {
        let dir = PartitionDir::open(&path).unwrap();
        lso(&dir, none, StateOptions::default()).unwrap().unwrap()
    };
    let commands = ["lso", "txns", "producers"];
    let said = |more: &[&str]| {
        commands.map(|command| {
            let run = program::run(
                copied.path(),
                [&[command, "-o", "json"], more, &["."]].concat(),
            );
            assert_eq!(run.status, 0);
            run.stderr.matches("forgets all producers").count()
        })
    };
    assert!(!row().forgotten_at_start);
    assert_eq!(said(&[]), [0; 3]);
    fs::write(copied.path().join(".kafka_cleanshutdown"), "").unwrap();
    let open = row();
    assert!(open.forgotten_at_start && open.last_stable_offset < open.high_watermark);
    assert_eq!(said(&[]), [1; 3]);
    // Whoever asks the log, or for the state after the start, knows what is asked.
    assert_eq!(said(&["--from-scratch"]), [0; 3]);
    assert_eq!(said(&["--as-loaded"]), [0; 3]);
    let dir = PartitionDir::open(&path).unwrap();
    let loaded = recover(&dir, none, Start::Clean);
    assert_eq!(loaded.last_stable_offset, Some(open.high_watermark));
    // A segment without its index is recovered, clean or not, which makes a snapshot.
    let index = path.join(format!("{:020}.index", 0));
    let bytes = fs::read(&index).unwrap();
    fs::remove_file(&index).unwrap();
    let dir = PartitionDir::open(&path).unwrap();
    let loaded = recover(&dir, none, Start::Clean);
    assert_eq!(loaded.last_stable_offset, Some(open.last_stable_offset));
    assert_eq!(said(&[]), [0; 3]);
    fs::write(&index, bytes).unwrap();
    assert_eq!(said(&[]), [1; 3]);
    let snapshot = path.join(format!("{:020}.snapshot", open.log_end_offset));
    fs::write(snapshot, producer_snapshot::encode(&[])).unwrap();
    assert_eq!(said(&[]), [0; 3]);
}
